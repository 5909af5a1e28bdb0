//! Running other programs, and asking whether one still runs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A program without our `PG*` variables (they would redirect it), in a process group of its own (a terminal's Ctrl-C
/// is for us alone, and the guard stops the server after us), without our standard streams, and speaking English,
/// since its messages are read.
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    command
        .env("LC_ALL", "C")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Runs `command` to its end, with the start lock's file as standard input: the lock is then held until it has ended,
/// even if we end before. The `Ok` value is its output, whatever its status; the `Err` value says that it could not
/// be run.
pub(super) fn run_locked(command: &mut Command, starting: &File) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let stdin = starting.try_clone().map_err(|error| format!("{name}: {error}"))?;
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{name} is not installed"),
        _ => format!("{name}: {error}"),
    })
}

/// Both streams of a program that failed, trimmed.
pub(super) fn said(output: &Output) -> String {
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    text.trim().to_owned()
}

/// Whether `pid` is a live process of Postgres: a number in a file left by a crash may meanwhile be anyone's.
pub(super) fn is_running_postgres(pid: i32) -> bool {
    if Path::new("/proc/self/status").exists() {
        return fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| status_is_live_postgres(&status));
    }
    let listed =
        command("ps").args(["-o", "state=,comm=", "-p", &pid.to_string()]).stdout(Stdio::piped()).output();
    listed.is_ok_and(|output| line_is_live_postgres(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads Linux's `/proc/<pid>/status`.
fn status_is_live_postgres(status: &str) -> bool {
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default()
    };
    field("Name:").contains("postgres") && !field("State:").starts_with(['Z', 'X'])
}

/// Reads one line of `ps -o state=,comm=`, where the command may be a path.
fn line_is_live_postgres(line: &str) -> bool {
    let Some((state, path)) = line.trim().split_once(char::is_whitespace) else { return false };
    !state.starts_with('Z')
        && Path::new(path.trim()).file_name().is_some_and(|name| name.to_string_lossy().contains("postgres"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_servers_are_told_from_the_rest() {
        assert!(status_is_live_postgres("Name:\tpostgres\nUmask:\t0077\nState:\tS (sleeping)\n"));
        assert!(!status_is_live_postgres("Name:\tpostgres\nState:\tZ (zombie)\n"));
        assert!(!status_is_live_postgres("Name:\tslatebase\nState:\tS (sleeping)\n"));
        assert!(line_is_live_postgres("Ss   /opt/homebrew/bin/postgres\n"));
        assert!(!line_is_live_postgres("Z    (postgres)\n"));
        assert!(!line_is_live_postgres("S    /opt/postgres/bin/other\n"));
        assert!(!line_is_live_postgres(""));
    }

    #[test]
    fn this_process_is_no_server() {
        assert!(!is_running_postgres(std::process::id() as i32));
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(
            run_locked(&mut command("no-such-program"), &file).unwrap_err(),
            "no-such-program is not installed"
        );
    }
}
