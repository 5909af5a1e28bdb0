//! A model that follows a script, at a chat endpoint of its own on loopback: for the demo and the benchmark, which have no key.

use std::sync::Mutex;
use std::time::Instant;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpResponse, HttpServer, web};
use serde_json::{Value, json};

/// The message that follows, by how many items its prompt shows.
pub type Script = fn(usize) -> Value;

/// A model that listens.
pub struct Model {
    /// What `/chat/completions` is appended to.
    pub base_url: String,
    state: web::Data<State>,
    handle: ServerHandle,
}

struct State {
    script: Script,
    calls: Mutex<Vec<(Instant, Instant)>>,
}

impl Model {
    /// Starts one.
    ///
    /// # Errors
    /// When loopback cannot be listened on.
    pub fn start(script: Script) -> anyhow::Result<Model> {
        let state = web::Data::new(State { script, calls: Mutex::default() });
        let shared = state.clone();
        let server = HttpServer::new(move || {
            let json = web::JsonConfig::default().limit(64 << 20);
            App::new()
                .app_data(shared.clone())
                .app_data(json)
                .route("/v1/chat/completions", web::post().to(say))
        });
        let server = server.workers(1).tcp_nodelay(true).disable_signals().bind("127.0.0.1:0")?;
        let base_url = format!("http://{}/v1", server.addrs()[0]);
        let server = server.run();
        let handle = server.handle();
        tokio::spawn(server);
        Ok(Model { base_url, state, handle })
    }

    /// When each call came, and when it was answered.
    pub fn calls(&self) -> Vec<(Instant, Instant)> {
        self.state.calls.lock().map(|calls| calls.clone()).unwrap_or_default()
    }

    /// Ends it.
    pub async fn stop(self) {
        self.handle.stop(false).await;
    }
}

/// A message that calls `retrieve`.
pub fn retrieve(request: &Value) -> Value {
    let function = json!({"name": "retrieve", "arguments": request.to_string()});
    json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": function}]})
}

async fn say(state: web::Data<State>, body: web::Json<Value>) -> HttpResponse {
    let came = Instant::now();
    let prompt = body["messages"][1]["content"].as_str().unwrap_or_default();
    let message = (state.script)(prompt.lines().filter(|line| line.starts_with("<document ")).count());
    let usage =
        json!({"prompt_tokens": prompt.len() / 4, "completion_tokens": message.to_string().len() / 4});
    let answer = json!({"choices": [{"index": 0, "message": message}], "usage": usage});
    if let Ok(mut calls) = state.calls.lock() {
        calls.push((came, Instant::now()));
    }
    HttpResponse::Ok().json(answer)
}
