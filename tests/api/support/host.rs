//! Another host: a server on loopback that answers as a test says, and remembers what it was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request that came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// `POST /path HTTP/1.1` and the headers.
    pub head: String,
    /// The body, where it is JSON.
    pub body: Value,
}

/// The host. Where its answer is none, it never answers, and keeps the connection.
pub struct Host {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Host {
    pub async fn start(answer: impl Fn(&Asked) -> Option<(u16, String)> + Send + Sync + 'static) -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (seen, answer) = (asked.clone(), Arc::new(answer));
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read(&mut stream).await else { continue };
                seen.lock().unwrap().push(request.clone());
                match answer(&request) {
                    None => kept.push(stream),
                    Some((status, body)) => {
                        let head = format!(
                            "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                            body.len()
                        );
                        let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await;
                        let _ = stream.shutdown().await;
                    }
                }
            }
        });
        Host { address, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?.to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Asked { head, body: serde_json::from_slice(&body).unwrap_or_default() })
}
