//! The real server as a child process, and a client of it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A server that has said where it listens. Killed with this, if it was not stopped.
pub struct Served {
    pub base: String,
    child: Child,
    out: BufReader<ChildStdout>,
    err: Option<ChildStderr>,
}

impl Served {
    /// Starts it, and reads its lines up to the first that `ready` finds an address in.
    pub fn start(command: &mut Command, ready: impl Fn(&str) -> bool) -> (Served, Vec<String>) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut err = child.stderr.take().unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if out.read_line(&mut line).unwrap() == 0 {
                let mut text = String::new();
                err.read_to_string(&mut text).unwrap();
                panic!("{lines:#?}\n{text}");
            }
            lines.push(line.trim_end().to_owned());
            if ready(&line) {
                break;
            }
        }
        let found = lines.iter().find_map(|line| {
            let at = line.find("http://")?;
            line[at..].split([' ', '/', ',']).nth(2).map(|host| format!("http://{host}"))
        });
        let base = found.expect("an address");
        (Served { base, child, out, err: Some(err) }, lines)
    }

    /// The most memory that it ever had, in KiB.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The next lines, up to one that `last` accepts.
    pub fn lines(&mut self, last: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "{lines:#?}");
            lines.push(line.trim_end().to_owned());
            if last(&line) {
                return lines;
            }
        }
    }

    /// Sends a signal and waits; gives what it logged too.
    pub fn stop(mut self, signal: Signal) -> (ExitStatus, String) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        let mut log = String::new();
        self.err.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap(), log)
    }

    pub fn client(&self, token: &str) -> Client {
        slatebase::outbound::install_tls();
        Client {
            base: self.base.clone(),
            token: token.trim().into(),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Client {
    base: String,
    token: String,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
}

impl Client {
    fn send(&self, request: reqwest::RequestBuilder) -> (u16, Vec<u8>) {
        self.runtime.block_on(async {
            let response = request.bearer_auth(&self.token).send().await.unwrap();
            (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
        })
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Vec<u8> {
        let (status, body) = self.send(self.client.get(format!("{}{path}", self.base)));
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        body
    }

    #[track_caller]
    pub fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path)).unwrap()
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: Value) -> Value {
        self.written(path, self.client.post(format!("{}{path}", self.base)).json(&body))
    }

    #[track_caller]
    pub fn put(&self, path: &str, body: Value) -> Value {
        self.written(path, self.client.put(format!("{}{path}", self.base)).json(&body))
    }

    #[track_caller]
    fn written(&self, path: &str, request: reqwest::RequestBuilder) -> Value {
        let (status, body) = self.send(request);
        assert!((200..300).contains(&status), "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }
}

/// A path in a URL.
pub fn quoted(path: &str) -> String {
    path.split('/')
        .map(|name| url::form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>())
        .fold(String::new(), |whole, name| if whole.is_empty() { name } else { format!("{whole}/{name}") })
        .replace('+', "%20")
}
