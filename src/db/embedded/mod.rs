//! A Postgres of our own, for whoever has not set one up: found or fetched, started on a private socket, stopped with
//! its last user.
//!
//! What always holds (the stack, "Embedded Postgres"):
//!
//! - One data directory has one server, however many processes use it. Each user holds a shared lock (`users.lock`)
//!   for its life; whoever starts or stops the server holds `start.lock` alone. Both belong to open files, so the
//!   system frees them however a process ends.
//! - Each user has a guard: a process that waits for the end of a pipe, hence of its parent, and then stops the
//!   server unless somebody else uses it.
//! - A program that changes the directory (`initdb`, `pg_ctl start`, the fetch) has the start lock's file as its
//!   standard input. So the lock outlives a starter that is killed, and the next one waits for what it left running.
//! - The server listens on a Unix socket in a directory of mode 0700 and nowhere else, which is why the socket needs
//!   no password.
//! - Whether the server is up is asked of the socket, never concluded from files.
//!
//! Layout of a data directory: `data` (the cluster), `run` (the socket, unless its path would be too long),
//! `programs` (what was fetched), `server.log`, and the two locks.
//!
//! Deliberately absent: passwords, TCP, upgrades between major versions of Postgres, and deletion of a data
//! directory.

mod cluster;
mod guard;
mod home;
mod npm;
mod process;
mod programs;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use guard::{GUARD_COMMAND, guard_main};
pub use programs::Place;

/// The cluster's superuser. Its connections bypass row-level security: for migrations and for tests, never for serving.
pub const SUPERUSER: &str = "slatebase_admin";

/// What is left unescaped in a connection URL's parts.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Why there is no embedded Postgres. Each message says what to do where something can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be read or changed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done, as it follows "cannot".
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The data directory cannot be used by the account that the server has to run as.
    #[error("{0}")]
    Directory(String),
    /// No usable Postgres programs were found, and none could be fetched.
    #[error("{0}")]
    Programs(String),
    /// A cluster could not be made.
    #[error("PostgreSQL's initdb failed: {0}")]
    Init(String),
    /// The server did not start, or is not the one that was asked for.
    #[error("the embedded PostgreSQL server {0}")]
    Server(String),
    /// The guard did not start, or could not stop the server.
    #[error("the guard of the embedded PostgreSQL server {0}")]
    Guard(String),
}

impl Error {
    /// For `map_err`: what could not be done to `path`.
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { doing, path, source }
    }
}

/// What to start, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Holds everything; made when missing. As root, an empty or new one is given to the account that runs the server.
    pub data_dir: PathBuf,
    /// The `slatebase` executable (its own `std::env::current_exe()`, say), run as `slatebase __embedded-guard …`.
    pub guard: PathBuf,
    /// Whether what is committed survives a loss of power. Only tests do without; a killed process loses nothing
    /// either way.
    pub durable: bool,
    /// How many connections the server accepts, for whoever starts it.
    pub max_connections: u32,
    /// Where Postgres programs are looked for, in order.
    pub places: Vec<Place>,
}

impl Options {
    /// Durable, 100 connections; programs from `SLATEBASE_PG_BIN` if that is set, and else from the usual places.
    pub fn new(data_dir: impl Into<PathBuf>, guard: impl Into<PathBuf>) -> Options {
        let places = match std::env::var_os("SLATEBASE_PG_BIN").filter(|value| !value.is_empty()) {
            Some(bin) => vec![Place::Directory(bin.into())],
            None => Place::usual(),
        };
        Options {
            data_dir: data_dir.into(),
            guard: guard.into(),
            durable: true,
            max_connections: 100,
            places,
        }
    }
}

/// Where the embedded server keeps its data unless told otherwise: `/var/lib/slatebase` as root, since the server's
/// own account cannot enter root's home; else `slatebase` in the XDG data directory; without a home, `slatebase-data`
/// in the working directory.
pub fn default_data_dir() -> PathBuf {
    if nix::unistd::geteuid().is_root() {
        return PathBuf::from("/var/lib/slatebase");
    }
    match etcetera::choose_base_strategy() {
        Ok(strategy) => strategy.data_dir().join("slatebase"),
        Err(_) => PathBuf::from("slatebase-data"),
    }
}

/// One user of an embedded server. Dropping it lets the server go; [`Embedded::stop`] also waits.
#[derive(Debug)]
pub struct Embedded {
    socket_dir: PathBuf,
    users: Option<File>,
    guard: guard::Guard,
}

/// Joins the server of `options.data_dir`, after starting it, making its cluster and fetching its programs as far as
/// needed. Blocks for that long: a few seconds the first time, half a second later, and longer after a crash.
pub fn start(options: &Options) -> Result<Embedded, Error> {
    let home = home::Home::open(&options.data_dir)?;
    // On any error below, the locals go in reverse order: the guard is released, then the users lock, then the start
    // lock. Only then does the guard look.
    let starting = home.lock_start()?;
    let users = home.lock_users()?;
    home.prepare_socket_dir()?;
    // Before the server: whoever is killed from here on leaves someone to stop it.
    let guard = guard::Guard::spawn(&options.guard, home.root())?;
    cluster::ensure_running(&home, &starting, options)?;
    Ok(Embedded { socket_dir: home.socket_dir().to_owned(), users: Some(users), guard })
}

impl Embedded {
    /// A connection URL for libpq, as the cluster's superuser.
    pub fn superuser_url(&self, database: &str) -> String {
        self.url(SUPERUSER, database)
    }

    /// A connection URL for libpq, as `user`: the socket's directory is in the query, percent-encoded.
    pub fn url(&self, user: &str, database: &str) -> String {
        socket_url(&self.socket_dir, user, database)
    }

    /// The process that stops the server after this user.
    pub fn guard_pid(&self) -> u32 {
        self.guard.pid()
    }

    /// Lets the server go, and returns when it is down, or at once when somebody else still uses it.
    pub fn stop(mut self) -> Result<(), Error> {
        self.release();
        self.guard.wait()
    }

    /// The lock first, so that the guard finds it free.
    fn release(&mut self) {
        drop(self.users.take());
        self.guard.release();
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.release();
    }
}

/// The URL of a database behind the socket in `socket_dir`. The port only names the socket's file; without it
/// `PGPORT` would.
fn socket_url(socket_dir: &Path, user: &str, database: &str) -> String {
    let part = |text| utf8_percent_encode(text, UNRESERVED);
    let host = percent_encoding::percent_encode(socket_dir.as_os_str().as_encoded_bytes(), UNRESERVED);
    format!("postgres://{}@/{}?host={host}&port={}", part(user), part(database), home::PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_percent_encoded() {
        assert_eq!(
            socket_url(Path::new("/var/lib/slate base/run"), "a@b", "x/y?z"),
            "postgres://a%40b@/x%2Fy%3Fz?host=%2Fvar%2Flib%2Fslate%20base%2Frun&port=5432"
        );
    }
}
