//! The server that is measured: this program, as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running server. Dropped, it is killed.
pub struct Served {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Served {
    /// Starts it over a database; with one connection to it where all shall be seen in order.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(database_url: &str, alone: bool) -> anyhow::Result<Served> {
        let mut command = Command::new(std::env::current_exe().context("cannot tell which program this is")?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SLATEBASE_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--no-migrate", "--listen", "127.0.0.1:0", "--log", "error"])
            // The model of the benchmark is on loopback.
            .args(["--outbound-allow", "127.0.0.1/32", "--outbound-rate", "10000"])
            .env("SLATEBASE_DATABASE_URL", database_url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if alone {
            command.args(["--pool-size", "1"]);
        }
        let mut child = command.spawn().context("cannot start the server")?;
        let told = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(told).read_line(&mut line)?;
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|address| address.parse().ok());
        match address {
            Some(address) => Ok(Served { child, address }),
            None => {
                let _ = child.kill();
                child.wait()?;
                anyhow::bail!("the server does not come up")
            }
        }
    }

    /// The resident memory in MiB, now and at most so far; none where the system does not tell.
    pub fn memory(&self) -> Option<(f64, f64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let of = |name: &str| -> Option<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
            Some(kib / 1024.0)
        };
        Some((of("VmRSS:")?, of("VmHWM:")?))
    }

    /// Ends it, and waits.
    ///
    /// # Errors
    /// When it does not end well.
    pub fn stop(mut self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.child.id().try_into()?), Signal::SIGTERM)?;
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended already where it was stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
