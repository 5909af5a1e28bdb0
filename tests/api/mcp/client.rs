//! A client that speaks JSON-RPC, and hides nothing.

use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};

use crate::support::{Caller, Reply, Request, Server};

pub const VERSION: &str = "2025-06-18";

/// An MCP session that has been greeted.
pub struct Mcp {
    pub caller: Caller,
    pub path: String,
    pub session: String,
    next: AtomicI64,
}

/// A message to a path.
pub fn post(caller: &Caller, path: &str, message: Value) -> Request {
    caller.post(path).header("accept", "application/json, text/event-stream").json(message)
}

pub fn initialize() -> Value {
    let client = json!({"name": "test", "version": "1"});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}})
}

impl Mcp {
    pub async fn open(caller: &Caller, path: &str) -> Mcp {
        let reply = post(caller, path, initialize()).await.expect(200);
        let session = reply.header("mcp-session-id").to_owned();
        assert!(!session.is_empty(), "{reply:?}");
        let mcp = Mcp { caller: caller.clone(), path: path.into(), session, next: AtomicI64::new(1) };
        mcp.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.expect(202);
        mcp
    }

    /// The same MCP session, by way of another caller.
    pub fn by(&self, caller: &Caller) -> Mcp {
        let (path, session) = (self.path.clone(), self.session.clone());
        Mcp { caller: caller.clone(), path, session, next: AtomicI64::new(1000) }
    }

    pub fn send(&self, message: Value) -> Request {
        post(&self.caller, &self.path, message)
            .header("mcp-session-id", &self.session)
            .header("mcp-protocol-version", VERSION)
    }

    pub async fn request(&self, id: i64, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        answer(&self.send(message).await.expect(200))
    }

    /// The result of a request, which succeeds.
    pub async fn ask(&self, method: &str, params: Value) -> Value {
        let answer = self.request(self.next.fetch_add(1, Ordering::Relaxed), method, params).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The error of a request, which fails.
    pub async fn fail(&self, method: &str, params: Value) -> Value {
        let answer = self.request(self.next.fetch_add(1, Ordering::Relaxed), method, params).await;
        assert!(answer["result"].is_null(), "{method}: {answer}");
        answer["error"].clone()
    }

    pub async fn tools(&self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).await;
        listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The structured content of a call, which succeeds, and satisfies the tool's schema.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        let structured = &result["structuredContent"];
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(&text, structured, "{tool}");
        let listed = self.ask("tools/list", json!({})).await;
        let known = listed["tools"].as_array().unwrap().iter().find(|known| known["name"] == tool);
        if let Some(known) = known {
            let schema = jsonschema::validator_for(&known["outputSchema"]).unwrap();
            let wrong: Vec<_> =
                schema.iter_errors(structured).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(wrong.is_empty(), "{tool}: {wrong:#?}\n{structured:#}");
        }
        structured.clone()
    }

    /// The text of a call's problem.
    pub async fn problem(&self, tool: &str, arguments: Value) -> String {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

/// The JSON-RPC answer in a reply, as JSON or as the last of its events.
pub fn answer(reply: &Reply) -> Value {
    if reply.header("content-type").starts_with("application/json") {
        return reply.json();
    }
    let data = reply.text().lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let mut messages = data.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    messages.rfind(|message| !message["id"].is_null()).unwrap_or_else(|| panic!("{reply:?}"))
}

/// What a server says by itself in an MCP session.
pub struct Told {
    response: reqwest::Response,
    text: String,
}

impl Mcp {
    pub async fn listen(&self) -> Told {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .get(format!("{}{}", self.caller.base, self.path))
            .bearer_auth(self.caller.token.as_ref().unwrap())
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &self.session)
            .header("mcp-protocol-version", VERSION);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Told { response, text: String::new() }
    }
}

impl Told {
    /// Waits for a notification of the method.
    pub async fn until(&mut self, method: &str) -> Value {
        let wait = async {
            loop {
                while let Some((line, rest)) = self.text.split_once('\n') {
                    let message =
                        line.strip_prefix("data:").and_then(|text| serde_json::from_str::<Value>(text).ok());
                    self.text = rest.to_owned();
                    if let Some(message) = message.filter(|message| message["method"] == method) {
                        return message;
                    }
                }
                let chunk = self.response.chunk().await.unwrap().expect("the stream ended");
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), wait).await.expect(method)
    }
}

/// A tenant with a slate of some files.
pub async fn knowledge() -> (Server, Caller) {
    let (server, acme) = Server::with_slate().await;
    server
        .fill(
            &acme,
            "K",
            json!({
                "core.md": {"content": "# Core\n\nThe release branch is cut on Monday.\n", "metatags": {"category": "security", "priority": 3}},
                "docs/guide.md": {"content": "one\ntwo\nthree\n", "metatags": {"category": "guide"}},
                "docs/faq.md": "What is it?\n",
                "data.json": "{\"items\": [1, 2]}",
            }),
        )
        .await;
    (server, acme)
}
