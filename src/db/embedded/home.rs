//! A data directory: its parts, its locks, and the account that its server runs as.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Uid, User, geteuid};
use sha2::{Digest, Sha256};

use super::{Error, process};

/// Names the socket's file; nothing listens on it.
pub(super) const PORT: u16 = 5432;

/// The longest path that every system's `sockaddr_un` holds, without its final zero.
const LONGEST_SOCKET_PATH: usize = 103;

/// An opened data directory.
#[derive(Debug)]
pub(super) struct Home {
    root: PathBuf,
    socket_dir: PathBuf,
    account: Account,
}

/// Whom the server runs as. `switch` is set when that is not us, which only root can do.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Account {
    uid: u32,
    gid: u32,
    switch: bool,
}

impl Home {
    /// Makes the directory if it is missing, and settles on the account.
    pub(super) fn open(data_dir: &Path) -> Result<Home, Error> {
        make_root(data_dir).map_err(Error::io("create", data_dir))?;
        let root = data_dir.canonicalize().map_err(Error::io("enter", data_dir))?;
        let metadata = root.metadata().map_err(Error::io("read", &root))?;
        // The cluster's own directory decides once there is one: Postgres insists on owning it.
        let owner = root.join("data").metadata().map(|data| (data.uid(), data.gid())).ok();
        let (owner_uid, owner_gid) = owner.unwrap_or((metadata.uid(), metadata.gid()));
        let account = if !geteuid().is_root() {
            if owner.is_some_and(|(uid, _)| uid != geteuid().as_raw()) {
                return Err(Error::Directory(format!(
                    "{} belongs to user {owner_uid}: run as that user, or choose another data directory",
                    root.display()
                )));
            }
            Account { uid: geteuid().as_raw(), gid: nix::unistd::getegid().as_raw(), switch: false }
        } else if owner_uid != 0 {
            let gid = User::from_uid(Uid::from_raw(owner_uid))
                .ok()
                .flatten()
                .map_or(owner_gid, |user| user.gid.as_raw());
            Account { uid: owner_uid, gid, switch: true }
        } else {
            let account = server_account()?;
            // A directory that holds anything may be someone's, so only its parts are given away.
            if is_empty(&root).map_err(Error::io("read", &root))? {
                chown(&root, Some(account.uid), Some(account.gid))
                    .map_err(Error::io("change the owner of", &root))?;
            }
            account
        };
        if account.switch {
            check_entry(&root, &account)?;
        }
        let socket_dir = socket_dir(&root);
        Ok(Home { root, socket_dir, account })
    }

    /// The directory itself, absolute and free of symbolic links: every process that uses it agrees on this path.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the socket is.
    pub(super) fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The cluster; there only once it is whole.
    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// A cluster in the making.
    pub(super) fn init(&self) -> PathBuf {
        self.root.join("data.init")
    }

    /// What the server writes to its standard error.
    pub(super) fn log(&self) -> PathBuf {
        self.root.join("server.log")
    }

    /// Programs that were fetched.
    pub(super) fn programs(&self) -> PathBuf {
        self.root.join("programs")
    }

    /// Waits until nobody else starts or stops the server; until the file is dropped, nobody else does.
    pub(super) fn lock_start(&self) -> Result<File, Error> {
        let path = start_lock(&self.root);
        let file = self.file(&path)?;
        file.lock().map_err(Error::io("lock", &path))?;
        Ok(file)
    }

    /// Counts as a user of the server until the file is dropped. Ask with the start lock held: the one who may hold
    /// this lock alone does too.
    pub(super) fn lock_users(&self) -> Result<File, Error> {
        let path = users_lock(&self.root);
        let file = self.file(&path)?;
        file.lock_shared().map_err(Error::io("lock", &path))?;
        Ok(file)
    }

    /// Opens a file for appending, making it for the account if it is missing. Never through a symbolic link: root
    /// must not be led elsewhere by the account.
    pub(super) fn file(&self, path: &Path) -> Result<File, Error> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
        let file = options.open(path).map_err(Error::io("open", path))?;
        self.give(path)?;
        Ok(file)
    }

    /// Makes a directory that only the account can enter. An existing one is an error.
    pub(super) fn private_dir(&self, path: &Path) -> Result<(), Error> {
        DirBuilder::new().mode(0o700).create(path).map_err(Error::io("create", path))?;
        self.give(path)
    }

    /// Makes the account the owner of `path`, not following a symbolic link.
    pub(super) fn give(&self, path: &Path) -> Result<(), Error> {
        if self.account.switch {
            lchown(path, Some(self.account.uid), Some(self.account.gid))
                .map_err(Error::io("change the owner of", path))?;
        }
        Ok(())
    }

    /// Makes the socket's directory, or checks that the one that is there is the account's alone: a short one is
    /// where anybody could have made it.
    pub(super) fn prepare_socket_dir(&self) -> Result<(), Error> {
        let path = &self.socket_dir;
        if path.symlink_metadata().is_err() {
            self.private_dir(path)?;
        }
        let mut found = path.symlink_metadata().map_err(Error::io("read", path))?;
        if self.account.switch && found.uid() == 0 {
            // Made by one of us who was killed before giving it away.
            self.give(path)?;
            found = path.symlink_metadata().map_err(Error::io("read", path))?;
        }
        if !is_private(&found, self.account.uid) {
            let (path, uid) = (path.display(), self.account.uid);
            return Err(Error::Directory(format!(
                "{path} must be a directory of user {uid} with mode 0700: remove it, or choose another data directory"
            )));
        }
        Ok(())
    }

    /// A program run as the account, in the data directory (the working directory may be one that the account cannot
    /// enter).
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = process::command(program);
        command.current_dir(&self.root);
        if self.account.switch {
            // Setting the user of a process of root's also clears its supplementary groups.
            command.uid(self.account.uid).gid(self.account.gid);
        }
        command
    }
}

/// The lock held while the server is started or stopped.
pub(super) fn start_lock(root: &Path) -> PathBuf {
    root.join("start.lock")
}

/// The lock that every user shares.
pub(super) fn users_lock(root: &Path) -> PathBuf {
    root.join("users.lock")
}

/// The file in which the server keeps its process id.
pub(super) fn pid_file(root: &Path) -> PathBuf {
    root.join("data/postmaster.pid")
}

/// The server's process id, from its file. It may be stale.
pub(super) fn read_pid(root: &Path) -> Option<i32> {
    parse_pid(&fs::read_to_string(pid_file(root)).ok()?)
}

/// The first line of `postmaster.pid`: positive for a server.
pub(super) fn parse_pid(text: &str) -> Option<i32> {
    text.lines().next()?.trim().parse().ok().filter(|pid| *pid > 0)
}

/// Where the socket of the data directory `root` is: `run` inside it, or a short directory named by its hash when
/// that path would be too long for a socket, or needs quoting in the server's settings.
pub(super) fn socket_dir(root: &Path) -> PathBuf {
    let inside = root.join("run");
    let bytes = inside.as_os_str().as_encoded_bytes();
    let plain = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(byte));
    if plain && bytes.len() + "/".len() + socket_name().len() <= LONGEST_SOCKET_PATH {
        return inside;
    }
    let hash = Sha256::digest(root.as_os_str().as_encoded_bytes());
    let hex: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // Not the directory for temporary files of the environment: two users of one server may have different ones.
    PathBuf::from(format!("/tmp/slatebase-{hex}"))
}

/// The name of the socket's file.
pub(super) fn socket_name() -> String {
    format!(".s.PGSQL.{PORT}")
}

/// Makes a missing data directory for us alone, with parents as usual.
fn make_root(data_dir: &Path) -> io::Result<()> {
    if data_dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = data_dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && data_dir.is_dir() => Ok(()),
        result => result,
    }
}

/// Whom root runs a server as that belongs to nobody yet.
fn server_account() -> Result<Account, Error> {
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| User::from_name(name).ok().flatten())
        .filter(|user| !user.uid.is_root())
        .map(|user| Account { uid: user.uid.as_raw(), gid: user.gid.as_raw(), switch: true })
        .ok_or_else(|| Error::Directory("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as: run as another user".into()))
}

/// Says which directory on the way to `root` the account cannot enter.
fn check_entry(root: &Path, account: &Account) -> Result<(), Error> {
    for directory in root.ancestors() {
        let found = directory.metadata().map_err(Error::io("read", directory))?;
        if !may_enter(account, found.uid(), found.gid(), found.mode()) {
            return Err(Error::Directory(format!(
                "PostgreSQL refuses to run as root, and user {}, whom it would run as, may not enter {} (mode {:o}): choose another data directory",
                account.uid,
                directory.display(),
                found.mode() & 0o777
            )));
        }
    }
    Ok(())
}

/// Whether the mode bits of a directory let the account pass.
fn may_enter(account: &Account, uid: u32, gid: u32, mode: u32) -> bool {
    let bit = if uid == account.uid {
        0o100
    } else if gid == account.gid {
        0o010
    } else {
        0o001
    };
    mode & bit != 0
}

/// Whether only `uid` can enter what was found.
fn is_private(found: &Metadata, uid: u32) -> bool {
    found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0
}

/// Whether a directory holds nothing.
fn is_empty(directory: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(directory)?.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_stay_inside_while_their_path_is_short_and_plain() {
        assert_eq!(socket_dir(Path::new("/var/lib/slatebase")), Path::new("/var/lib/slatebase/run"));
        // 103 bytes with "/run/.s.PGSQL.5432", and one more.
        let longest = format!("/{}", "x".repeat(103 - "/run/.s.PGSQL.5432".len() - 1));
        assert_eq!(socket_dir(Path::new(&longest)), Path::new(&longest).join("run"));
        let longer = format!("{longest}x");
        let short = socket_dir(Path::new(&longer));
        assert!(short.starts_with("/tmp"), "{short:?}");
        assert_ne!(short, socket_dir(Path::new(&format!("{longest}y"))));
        for odd in ["/srv/with space", "/srv/a,b", "/srv/it's", "/srv/\"q\"", "/srv/é"] {
            assert!(socket_dir(Path::new(odd)).starts_with("/tmp"), "{odd}");
        }
    }

    #[test]
    fn process_ids_are_those_of_servers() {
        assert_eq!(parse_pid("4711\n/data\n1700000000\n"), Some(4711));
        assert_eq!(parse_pid("-12\n"), None);
        assert_eq!(parse_pid(""), None);
        assert_eq!(parse_pid("x\n"), None);
    }

    #[test]
    fn the_closest_mode_bit_decides_entry() {
        let account = Account { uid: 101, gid: 104, switch: true };
        assert!(may_enter(&account, 101, 0, 0o700));
        assert!(may_enter(&account, 0, 104, 0o710));
        assert!(may_enter(&account, 0, 0, 0o711));
        assert!(!may_enter(&account, 0, 0, 0o700));
        assert!(!may_enter(&account, 0, 104, 0o701));
        assert!(!may_enter(&account, 101, 104, 0o011));
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_private() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |mode| {
            fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap();
            directory.path().symlink_metadata().unwrap()
        };
        let uid = mode(0o700).uid();
        assert!(is_private(&mode(0o700), uid));
        assert!(!is_private(&mode(0o701), uid));
        assert!(!is_private(&mode(0o700), uid + 1));
    }
}
