//! Standard input and output, passed on to a server's `/mcp`: a line each way is a message.
//!
//! A message whose connection is lost is sent again with the same id in the same MCP session, so that a round is taken
//! once. Where the server no longer knows the MCP session, another is opened with what the client said at first.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout, stdin, stdout};
use uuid::Uuid;

use crate::config::Secret;

/// How often a message is sent whose connection is lost.
const ATTEMPTS: u32 = 5;
/// How long it waits before the second time; twice as long each time after.
const PAUSE: Duration = Duration::from_millis(250);
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

struct Proxy {
    client: Client,
    url: String,
    token: Secret,
    /// What every message but the first says of its MCP session.
    session: Mutex<HeaderMap>,
    /// The first message.
    greeting: Mutex<Option<Value>>,
    out: tokio::sync::Mutex<Stdout>,
}

/// Passes messages on until the input ends.
///
/// # Errors
/// When the streams fail.
pub async fn run(server: &str, token: &Secret, session: Option<Uuid>) -> anyhow::Result<()> {
    crate::outbound::install_tls();
    let server = server.trim_end_matches('/').trim_end_matches("/mcp");
    let path = session.map_or_else(|| "/mcp".to_owned(), |id| format!("/mcp/sessions/{id}"));
    let proxy = Arc::new(Proxy {
        client: Client::builder().connect_timeout(Duration::from_secs(10)).build()?,
        url: format!("{server}{path}"),
        token: token.clone(),
        session: Mutex::default(),
        greeting: Mutex::default(),
        out: tokio::sync::Mutex::new(stdout()),
    });
    let mut lines = BufReader::new(stdin()).lines();
    let mut pending = tokio::task::JoinSet::new();
    while let Some(line) = lines.next_line().await? {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            let error = json!({"code": -32700, "message": "the line is no JSON"});
            proxy.print(&json!({"jsonrpc": "2.0", "id": null, "error": error})).await?;
            continue;
        };
        // The client waits for the answer to its first message, and what follows needs its MCP session.
        let proxied = proxy.clone();
        match message["method"].as_str() {
            Some("initialize") => proxied.pass(message).await?,
            Some("notifications/initialized") => {
                proxied.pass(message).await?;
                pending.spawn(listen(proxy.clone()));
            }
            _ => drop(pending.spawn(async move { proxied.pass(message).await })),
        }
        while pending.try_join_next().is_some() {}
    }
    pending.abort_all();
    proxy.close().await;
    Ok(())
}

impl Proxy {
    fn headers(&self) -> HeaderMap {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn signed(&self, request: RequestBuilder) -> RequestBuilder {
        request
            .bearer_auth(self.token.expose())
            .headers(self.headers())
            .header(ACCEPT, "application/json, text/event-stream")
    }

    /// Sends a message, and prints what the server answers.
    async fn pass(&self, message: Value) -> anyhow::Result<()> {
        let id = message.get("id").cloned();
        if message["method"] == "initialize" {
            *self.greeting.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.clone());
            self.session.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        let mut why = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE * (1 << (attempt - 1))).await;
            }
            let response = match self.signed(self.client.post(&self.url)).json(&message).send().await {
                Ok(response) => response,
                Err(error) => {
                    why = error.without_url().to_string();
                    continue;
                }
            };
            let status = response.status();
            if status == StatusCode::NOT_FOUND && self.headers().contains_key(SESSION) && self.greet().await {
                continue;
            }
            match self.relay(response, &message).await {
                Ok(()) => return Ok(()),
                Err(error) => why = error.to_string(),
            }
            if status.is_client_error() {
                break;
            }
        }
        if let Some(id) = id {
            let error = json!({"code": -32603, "message": why});
            self.print(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await?;
        }
        Ok(())
    }

    /// Prints what an answer holds; fails where it ends before the answer to the message is there.
    async fn relay(&self, response: Response, message: &Value) -> anyhow::Result<()> {
        let status = response.status();
        let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        if message["method"] == "initialize" && status.is_success() {
            self.keep(response.headers());
        }
        if kind.starts_with("text/event-stream") {
            let answered = self.events(response, message.get("id")).await?;
            anyhow::ensure!(answered, "the connection was lost before the answer");
            return Ok(());
        }
        let text = response.text().await?;
        if kind.starts_with("application/json") && !text.is_empty() {
            let answer: Value = serde_json::from_str(&text)?;
            self.negotiated(&answer);
            return self.print(&answer).await;
        }
        anyhow::ensure!(status.is_success(), "{status}: {}", told(&text));
        Ok(())
    }

    /// Prints the messages of a stream of events; tells whether the answer to `id` was among them.
    async fn events(&self, mut response: Response, id: Option<&Value>) -> anyhow::Result<bool> {
        let (mut buffer, mut answered) = (Vec::new(), false);
        while let Some(chunk) = response.chunk().await? {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let data =
                    line.strip_prefix(b"data:").and_then(|data| serde_json::from_slice::<Value>(data).ok());
                let Some(message) = data else { continue };
                let answers = id.is_some() && message.get("id") == id && message.get("method").is_none();
                answered |= answers;
                if answers {
                    self.negotiated(&message);
                }
                self.print(&message).await?;
            }
        }
        Ok(answered)
    }

    /// Keeps the version that the two agreed on, which every message says from then on.
    fn negotiated(&self, answer: &Value) {
        if let Some(version) = answer["result"]["protocolVersion"].as_str()
            && let Ok(value) = HeaderValue::from_str(version)
        {
            self.session.lock().unwrap_or_else(PoisonError::into_inner).insert(VERSION, value);
        }
    }

    fn keep(&self, headers: &HeaderMap) {
        if let Some(session) = headers.get(SESSION) {
            self.session.lock().unwrap_or_else(PoisonError::into_inner).insert(SESSION, session.clone());
        }
    }

    /// Opens an MCP session anew, with what the client said at first.
    async fn greet(&self) -> bool {
        let greeting = self.greeting.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(greeting) = greeting else { return false };
        self.session.lock().unwrap_or_else(PoisonError::into_inner).remove(SESSION);
        let Ok(response) = self.signed(self.client.post(&self.url)).json(&greeting).send().await else {
            return false;
        };
        if !response.status().is_success() {
            return false;
        }
        self.keep(response.headers());
        let _ = response.bytes().await;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.signed(self.client.post(&self.url)).json(&ready).send().await.is_ok()
    }

    async fn print(&self, message: &Value) -> anyhow::Result<()> {
        let mut out = self.out.lock().await;
        out.write_all(format!("{message}\n").as_bytes()).await.context("standard output")?;
        Ok(out.flush().await?)
    }

    /// Ends the MCP session.
    async fn close(&self) {
        if self.headers().contains_key(SESSION) {
            let _ = self.signed(self.client.delete(&self.url)).timeout(Duration::from_secs(2)).send().await;
        }
    }
}

/// Prints what the server says by itself, for as long as it says anything.
async fn listen(proxy: Arc<Proxy>) -> anyhow::Result<()> {
    while proxy.headers().contains_key(SESSION) {
        if let Ok(response) = proxy.signed(proxy.client.get(&proxy.url)).send().await {
            if response.status() == StatusCode::METHOD_NOT_ALLOWED {
                break;
            }
            if response.status().is_success() {
                let _ = proxy.events(response, None).await;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// What a refusal says.
fn told(text: &str) -> String {
    let problem: Value = serde_json::from_str(text).unwrap_or_default();
    problem["detail"].as_str().map_or_else(|| text.to_owned(), str::to_owned)
}
