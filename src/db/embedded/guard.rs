//! The guard: outlives its parent, however that ends, to stop the server after its last user.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::{Error, home, process};

/// The hidden subcommand of the `slatebase` executable that calls [`guard_main`].
pub const GUARD_COMMAND: &str = "__embedded-guard";

/// What a guard says once it cannot miss its parent's end.
const READY: &str = "slatebase guard ready";

/// How long a fast shutdown (it writes what is in memory to disk) may take before an immediate one, which the next
/// start recovers from.
const FAST: Duration = Duration::from_secs(60);

/// How long an immediate shutdown may take.
const IMMEDIATE: Duration = Duration::from_secs(10);

/// Our side of a guard.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts the guard of this process for the data directory `root`, and waits for it to be ready.
    pub(super) fn spawn(program: &Path, root: &Path) -> Result<Guard, Error> {
        // A relative path would be taken from the guard's working directory, which keeps no other directory busy.
        let program = std::path::absolute(program).map_err(Error::io("find", program))?;
        let mut command = process::command(&program);
        command.arg(GUARD_COMMAND).arg(std::process::id().to_string()).arg(root);
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| Error::Guard(format!("could not be run as {}: {error}", program.display())))?;
        let pipe = child.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            // A program that is no guard may say anything, or not be UTF-8.
            let _ = BufReader::new(stdout.take(1024)).read_line(&mut line);
        }
        if line.trim_end() != READY {
            drop(pipe);
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::Guard(format!(
                "did not start: {} is not the slatebase executable",
                program.display()
            )));
        }
        Ok(Guard { child, pipe })
    }

    /// The guard's process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the guard to work. The users lock must be free of us.
    pub(super) fn release(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // If it is gone there is nobody to tell; `wait` finds out.
            let _ = pipe.write_all(b".");
        }
    }

    /// Waits for the guard's work to be done.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let status = self.child.wait().map_err(|error| Error::Guard(format!("is lost: {error}")))?;
        if status.success() { Ok(()) } else { Err(Error::Guard(format!("could not stop it ({status})"))) }
    }
}

impl Drop for Guard {
    /// Without this the guard would wait for the end of our process.
    fn drop(&mut self) {
        self.release();
    }
}

/// The guard's whole life. `args` are what follows [`GUARD_COMMAND`]: the parent's process id and the data directory.
/// Blocks until the parent has let go of the server or ended; then stops the server unless it has other users. Fails
/// when it is started wrongly or the server would not stop.
pub fn guard_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match guard(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Its own standard error is closed to it; this is for whoever calls it by hand.
            eprintln!("slatebase {GUARD_COMMAND}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn guard(args: impl IntoIterator<Item = OsString>) -> io::Result<()> {
    let (parent, root) =
        parse(args).ok_or_else(|| io::Error::other("this command is for slatebase itself"))?;
    // What ends the parent (a terminal closing, a `pkill` by name) must not end the one that cleans up after it.
    SigSet::from_iter([Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM]).thread_block()?;
    let starting = File::open(home::start_lock(&root))?;
    let users = File::open(home::users_lock(&root))?;
    println!("{READY}");

    let mut told = Vec::new();
    io::stdin().read_to_end(&mut told)?;
    if told.is_empty() {
        // It was not released: the parent is dying. Only when it is gone are all of its files closed, the users lock
        // too.
        while std::os::unix::process::parent_id() == parent {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    starting.lock()?;
    if users.try_lock().is_err() {
        return Ok(());
    }
    stop_server(&root)?;
    let socket_dir = home::socket_dir(&root);
    if !socket_dir.starts_with(&root) {
        // Nothing depends on it: the next start makes it again.
        let _ = fs::remove_dir(socket_dir);
    }
    Ok(())
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Option<(u32, PathBuf)> {
    let mut args = args.into_iter();
    let parent = args.next()?.to_str()?.parse().ok()?;
    let root = PathBuf::from(args.next()?);
    args.next().is_none().then_some((parent, root))
}

/// Stops the server of `root` if it runs. Call with both locks held.
fn stop_server(root: &Path) -> io::Result<()> {
    let Some(pid) = home::read_pid(root) else { return Ok(()) };
    for (signal, patience) in [(Signal::SIGINT, FAST), (Signal::SIGQUIT, IMMEDIATE)] {
        if !process::is_running_postgres(pid) {
            return Ok(());
        }
        // It may end by itself at any time, so failure is seen below.
        let _ = kill(Pid::from_raw(pid), signal);
        let deadline = Instant::now() + patience;
        while process::is_running_postgres(pid) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    if process::is_running_postgres(pid) {
        return Err(io::Error::other(format!("process {pid} does not stop")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Option<(u32, PathBuf)> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn arguments_are_a_process_and_a_directory() {
        assert_eq!(parsed(&["12", "/data"]), Some((12, "/data".into())));
        assert_eq!(parsed(&["12"]), None);
        assert_eq!(parsed(&["x", "/data"]), None);
        assert_eq!(parsed(&["12", "/data", "more"]), None);
    }

    #[test]
    fn a_program_that_is_no_guard_is_refused() {
        let error = Guard::spawn(Path::new("/bin/echo"), Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("/bin/echo is not the slatebase executable"), "{error}");
    }
}
