//! A model at a chat endpoint on loopback, which answers as a test says and remembers its prompts.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request that came.
#[derive(Debug, Clone)]
pub struct Prompted {
    /// When it was read.
    pub at: SystemTime,
    /// The request's head, in lower case.
    pub head: String,
    /// The request.
    pub body: Value,
    /// How many came before it.
    pub before: usize,
}

impl Prompted {
    /// What the user says.
    pub fn prompt(&self) -> &str {
        self.body["messages"][1]["content"].as_str().unwrap()
    }

    /// How many documents the prompt holds.
    pub fn documents(&self) -> usize {
        self.prompt().lines().filter(|line| line.starts_with("<document ")).count()
    }
}

/// How it answers.
pub enum Says {
    /// A status, further lines of the head, and a body.
    Status(u16, &'static str, Vec<u8>),
    /// Half of a body, and then it hangs up.
    Half(Vec<u8>),
    /// So many bytes of a body that never ends well.
    Endless(usize),
    /// Never.
    Nothing,
}

/// A completion with this message.
pub fn message(message: Value) -> Says {
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}});
    Says::Status(200, "", body.to_string().into_bytes())
}

/// A completion with this text.
pub fn text(content: &str) -> Says {
    message(json!({"role": "assistant", "content": content}))
}

/// A completion that calls `retrieve`.
pub fn call(request: Value) -> Says {
    message(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
        "function": {"name": "retrieve", "arguments": request.to_string()}}]}))
}

pub struct Model {
    address: SocketAddr,
    prompted: Arc<Mutex<Vec<Prompted>>>,
}

impl Model {
    pub async fn start(answer: impl Fn(&Prompted) -> Says + Send + Sync + 'static) -> Model {
        Model::slow(Duration::ZERO, answer).await
    }

    /// One that thinks for a while before it answers.
    pub async fn slow(time: Duration, answer: impl Fn(&Prompted) -> Says + Send + Sync + 'static) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, prompted) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (seen, answer) = (prompted.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, seen.clone(), time, answer.clone()));
            }
        });
        Model { address, prompted }
    }

    /// The body of a request to run a session with this model.
    pub fn run(&self) -> Value {
        json!({"model": {"base_url": format!("http://{}/v1", self.address), "name": "scripted"}})
    }

    pub fn prompted(&self) -> Vec<Prompted> {
        self.prompted.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<Prompted>>>,
    time: Duration,
    answer: Arc<impl Fn(&Prompted) -> Says + Send + Sync + 'static>,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?.to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let mut prompted =
        Prompted { at: SystemTime::now(), head, body: serde_json::from_slice(&body).ok()?, before: 0 };
    {
        let mut seen = seen.lock().unwrap();
        prompted.before = seen.len();
        seen.push(prompted.clone());
    }
    tokio::time::sleep(time).await;
    let (status, more, length, body) = match answer(&prompted) {
        Says::Status(status, more, body) => (status, more, body.len(), body),
        Says::Half(body) => (200, "", body.len() * 2, body),
        Says::Endless(bytes) => (200, "", bytes, vec![b' '; bytes]),
        Says::Nothing => return std::future::pending().await,
    };
    let head = format!(
        "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(&body).await.ok()?;
    stream.shutdown().await.ok()
}
