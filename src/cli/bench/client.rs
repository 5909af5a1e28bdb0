//! Clients of the HTTP API that cost as little as they can, since they share the machine with what they measure: a thread
//! and a kept connection each, requests that were written out beforehand, and no more of HTTP than the service's sized
//! answers need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hdrhistogram::Histogram;
use serde_json::Value;

use super::rows::Call;

/// The longest time that is told apart, in nanoseconds.
const LONGEST: u64 = 120_000_000_000;
/// Rounds after which a client opens another session.
const ROUNDS: u32 = 60;
/// The status that an overloaded server answers with.
const OVERLOADED: &str = "503";
/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Latencies in nanoseconds.
pub type Latencies = Histogram<u64>;

/// An empty histogram.
pub fn latencies() -> Latencies {
    // The bounds are sound: the lowest is 1, the highest at least twice that, and there are 3 digits.
    Histogram::new_with_bounds(1, LONGEST, 3).unwrap_or_else(|_| unreachable!("sound bounds"))
}

/// Adds a latency.
pub fn note(latencies: &mut Latencies, took: Duration) {
    latencies.saturating_record(took.as_nanos().try_into().unwrap_or(LONGEST).max(1));
}

/// A client.
pub struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    token: String,
    body: Vec<u8>,
    sends: Sends,
}

enum Sends {
    Same(Vec<u8>),
    Rounds { opening: Vec<u8>, round: Value, session: Option<(Vec<u8>, u32)> },
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn connect(address: SocketAddr, token: &str, call: &Call) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut client = Client {
            stream: BufReader::with_capacity(64 << 10, stream),
            address,
            token: token.to_owned(),
            body: Vec::new(),
            sends: Sends::Same(Vec::new()),
        };
        client.sends = match call {
            Call::Get(path) => Sends::Same(client.request("GET", path, "")),
            Call::Post(path, body) => Sends::Same(client.request("POST", path, &body.to_string())),
            Call::Rounds(opening, round) => Sends::Rounds {
                opening: client.request("POST", "/v1/sessions", &opening.to_string()),
                round: round.clone(),
                session: None,
            },
        };
        Ok(client)
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n",
            self.address, self.token
        );
        if !body.is_empty() {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        format!("{head}\r\n{body}").into_bytes()
    }

    /// Sends the next request, and tells how long its answer took; what a session needs to be opened does not count. Of a
    /// server that is overloaded there is no answer.
    ///
    /// # Errors
    /// When the answer is no success, for another reason than overload.
    pub fn step(&mut self) -> anyhow::Result<Option<Duration>> {
        let request = match std::mem::replace(&mut self.sends, Sends::Same(Vec::new())) {
            Sends::Same(request) => {
                let took = self.timed(&request);
                self.sends = Sends::Same(request);
                return took;
            }
            Sends::Rounds { opening, round, session } => {
                let (request, left) = match session {
                    Some((request, left)) if left > 0 => (request, left),
                    _ => {
                        if !self.exchange(&opening)? {
                            self.sends = Sends::Rounds { opening, round, session: None };
                            return Ok(None);
                        }
                        let opened: Value = serde_json::from_slice(&self.body)?;
                        let id = opened["session_id"].as_str().context("a session without an id")?;
                        let path = format!("/v1/sessions/{id}/rounds");
                        (self.request("POST", &path, &round.to_string()), ROUNDS)
                    }
                };
                self.sends = Sends::Rounds { opening, round, session: Some((request.clone(), left - 1)) };
                request
            }
        };
        self.timed(&request)
    }

    fn timed(&mut self, request: &[u8]) -> anyhow::Result<Option<Duration>> {
        let start = Instant::now();
        let served = self.exchange(request)?;
        Ok(served.then(|| start.elapsed()))
    }

    /// Tells whether the answer is a success, and not overload.
    fn exchange(&mut self, request: &[u8]) -> anyhow::Result<bool> {
        self.stream.get_mut().write_all(request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            line.clear();
            ensure!(self.stream.read_line(&mut line)? > 0, "the server closed a connection");
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
            ensure!(!name.eq_ignore_ascii_case("transfer-encoding"), "an answer without a length");
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        if !status.starts_with('2') && status != OVERLOADED {
            bail!("the server answered {status}: {}", String::from_utf8_lossy(&self.body));
        }
        Ok(status != OVERLOADED)
    }
}

/// What clients saw together.
pub struct Seen {
    /// Of each answer.
    pub latencies: Latencies,
    /// Answers a second.
    pub per_second: f64,
    /// Requests that were refused as overload.
    pub refused: u64,
}

/// Has so many clients send one request after the other for a time, after each has sent two.
///
/// # Errors
/// When any answer is no success.
pub fn drive(
    address: SocketAddr,
    token: &str,
    call: &Call,
    clients: usize,
    time: Duration,
) -> anyhow::Result<Seen> {
    let barrier = Barrier::new(clients);
    let work = || -> anyhow::Result<(Latencies, u64, Duration)> {
        let warm = || {
            let mut client = Client::connect(address, token, call)?;
            client.step()?;
            client.step()?;
            anyhow::Ok(client)
        };
        let client = warm();
        // Also when warming failed: the others wait.
        barrier.wait();
        let mut client = client?;
        let (mut seen, mut refused) = (latencies(), 0);
        let start = Instant::now();
        while start.elapsed() < time || seen.is_empty() && refused == 0 {
            match client.step()? {
                Some(took) => note(&mut seen, took),
                None => refused += 1,
            }
        }
        Ok((seen, refused, start.elapsed()))
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut all = latencies();
    let (mut per_second, mut refused) = (0.0, 0);
    for result in results {
        let (seen, turned_away, took) = result.map_err(|_| anyhow::anyhow!("a client panicked"))??;
        per_second += seen.len() as f64 / took.as_secs_f64();
        all.add(&seen).context("latencies of two ranges")?;
        refused += turned_away;
    }
    Ok(Seen { latencies: all, per_second, refused })
}
