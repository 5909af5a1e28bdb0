//! The real program, killed with SIGKILL between rounds and in the middle of them, and started again: all that a caller
//! keeps is the session's id (retrieval semantics §7.6 and §7.7). Needs Postgres programs on this machine.

use std::collections::HashSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

#[path = "kill/imports.rs"]
mod imports;
#[allow(dead_code, reason = "it is shared with other tests")]
#[path = "api/support/model.rs"]
mod model;
#[path = "kill/runs.rs"]
mod runs;

const OPERATOR: &str = "the-operator-token-of-this-test";
const FILES: usize = 48;
const ROUNDS: usize = 24;

/// `slatebase serve` on a data directory, killed without warning when it is dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    async fn start(data_dir: &TempDir) -> Server {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_slatebase"))
            .arg("serve")
            .env("SLATEBASE_LISTEN", address.to_string())
            .env("SLATEBASE_DATA_DIR", data_dir.path())
            .env("SLATEBASE_OPERATOR_TOKEN", OPERATOR)
            .env("SLATEBASE_LOG", "error")
            .env("SLATEBASE_OUTBOUND_ALLOW", "127.0.0.0/8")
            .env("SLATEBASE_OUTBOUND_RATE", "10000")
            .env("SLATEBASE_MAX_RUNS", "4")
            .env_remove("SLATEBASE_DATABASE_URL")
            .env_remove("SLATEBASE_MIGRATE_DATABASE_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Server { child, address };
        let client = client();
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("the server ended by itself: {status}");
            }
            let ready = client.get(format!("http://{address}/readyz")).send().await;
            if ready.is_ok_and(|response| response.status() == StatusCode::OK) {
                return server;
            }
            assert!(Instant::now() < deadline, "the server never was ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends it as an operator would, its Postgres too.
    fn stop(mut self) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn caller(&self, token: &str) -> Caller {
        Caller { client: client(), base: format!("http://{}", self.address), token: token.to_owned() }
    }
}

fn client() -> Client {
    slatebase::outbound::install_tls();
    Client::builder().no_proxy().build().unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone)]
struct Caller {
    client: Client,
    base: String,
    token: String,
}

impl Caller {
    /// The answer, unless the server died before it was all there.
    async fn try_call(&self, method: Method, path: &str, body: &Value) -> Option<(StatusCode, Value)> {
        let url = format!("{}{path}", self.base);
        let mut request = self.client.request(method, url).bearer_auth(&self.token);
        if !body.is_null() {
            request = request.json(body);
        }
        let response = request.send().await.ok()?;
        let status = response.status();
        let text = response.text().await.ok()?;
        Some((status, serde_json::from_str(&text).unwrap_or_default()))
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Value {
        let (status, answer) = self.try_call(method, path, &body).await.expect("the server answers");
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, Value::Null).await
    }

    /// A session's events, once it has ended.
    async fn events(&self, id: &str) -> String {
        let url = format!("{}/v1/sessions/{id}/events", self.base);
        let response = self.client.get(url).bearer_auth(&self.token).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.text().await.unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.call(Method::POST, path, body).await
    }
}

/// What the model asks for in a round: some files that are new, some that were given before, and a listing.
fn output(round: usize) -> Value {
    let name = |n: usize| json!(format!("f{:02}.md", n % FILES));
    json!({"files": [name(2 * round), name(2 * round + 1), name(round), "nope.md"], "subfolders": ["."]})
}

/// Files whose contents were given in a round, by path.
fn given(round: &Value) -> Vec<String> {
    let items = round["items"].as_array().unwrap();
    let fetched = items.iter().filter(|item| item["status"] == "fetched");
    fetched.map(|item| item["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_killed_server_loses_and_doubles_nothing() {
    tokio::runtime::Runtime::new().unwrap().block_on(kill_and_resume());
}

/// A data directory that Postgres may enter as whoever it runs.
fn fresh_dir() -> TempDir {
    let data_dir = tempfile::tempdir().unwrap();
    fs::set_permissions(data_dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    data_dir
}

async fn kill_and_resume() {
    let data_dir = fresh_dir();
    let server = Server::start(&data_dir).await;
    let operator = server.caller(OPERATOR);
    operator.post("/v1/tenants", json!({"name": "acme"})).await;
    let key = json!({"label": "test", "scopes": ["read", "write", "retrieve", "admin"]});
    let token = operator.post("/v1/tenants/acme/keys", key).await["token"].as_str().unwrap().to_owned();
    let caller = server.caller(&token);
    caller.call(Method::PUT, "/v1/slates/K", json!({})).await;
    for n in 0..FILES {
        let file = json!({"path": format!("docs/f{n:02}.md"), "content": format!("contents of {n}")});
        caller.post("/v1/slates/K/files", file).await;
    }
    let properties = json!({"files": {"type": "array"}, "subfolders": {"type": "array"}});
    let retrieve = json!({"to": {"slate": "K", "folder": "docs"}, "as": "Docs", "maxRounds": ROUNDS,
        "requestMatch": {"type": "object", "properties": properties}});
    let opened = caller.post("/v1/sessions", json!({"retrieve": retrieve})).await;
    let id = opened["session_id"].as_str().unwrap().to_owned();
    server.kill();

    // Every second life of the server ends in the middle of a round, at a point that moves from its beginning to past its
    // end; the others end between rounds, and tell how long a round takes here.
    let mut answers: Vec<Option<Value>> = vec![None; ROUNDS + 2];
    let (mut life, mut took) = (0, Duration::ZERO);
    loop {
        let server = Server::start(&data_dir).await;
        let caller = server.caller(&token);
        let session = caller.get(&format!("/v1/sessions/{id}")).await;
        if session["next"] == "done" {
            break;
        }
        let taken = session["round"].as_u64().unwrap() as usize;
        // The answer to the last round may have been lost on its way: it is asked for again.
        if taken > 0 {
            let again = submit(&caller, &id, taken).await.expect("the server lives");
            assert_eq!(
                *answers[taken].get_or_insert_with(|| again.clone()),
                again,
                "a replay is the first answer"
            );
        }
        assert!(answers[taken + 1].is_none(), "an answered round was lost");
        let next = tokio::spawn({
            let (caller, id) = (caller.clone(), id.clone());
            async move { submit(&caller, &id, taken + 1).await }
        });
        if life % 2 == 0 {
            tokio::time::sleep(took * (life / 2 % 12) / 10).await;
            server.kill();
            answers[taken + 1] = next.await.unwrap();
        } else {
            let began = Instant::now();
            answers[taken + 1] = Some(next.await.unwrap().expect("the server lives"));
            took = began.elapsed();
            server.kill();
        }
        life += 1;
        assert!(life < 200, "the session never ends");
    }

    let server = Server::start(&data_dir).await;
    let caller = server.caller(&token);
    let session = caller.get(&format!("/v1/sessions/{id}")).await;
    assert_eq!((&session["status"], &session["forced"]), (&json!("answered"), &json!(true)));
    assert_eq!(session["answer"], output(ROUNDS + 1));
    let rounds = caller.get(&format!("/v1/sessions/{id}/rounds?limit=1000")).await;
    let rounds = rounds["items"].as_array().unwrap();
    assert_eq!(rounds.len(), ROUNDS + 1);
    let mut context = HashSet::new();
    for (number, round) in (1..).zip(rounds) {
        assert_eq!((&round["round"], &round["output"]), (&json!(number), &output(number)));
        for path in given(round) {
            assert!(context.insert(path.clone()), "{path} was given twice");
        }
        let again = submit(&caller, &id, number).await.expect("the server lives");
        assert_eq!(again["items"], round["items"]);
        if let Some(first) = &answers[number] {
            assert_eq!(first, &again, "a replay is the first answer");
        }
    }
    assert_eq!(context.len(), FILES, "every file was given once");
    assert_eq!(session["context"]["files"], json!(FILES));
    let records = caller.get(&format!("/v1/sessions/{id}/provenance?limit=1000")).await;
    let items: usize = rounds.iter().map(|round| round["items"].as_array().unwrap().len()).sum();
    assert_eq!(records["items"].as_array().unwrap().len(), items, "every item has its record, once");
    let verified = caller.post(&format!("/v1/sessions/{id}/verify"), Value::Null).await;
    assert_eq!(verified["valid"], true, "{verified}");
    server.stop();
}

/// The result of a round, unless the server died under it.
async fn submit(caller: &Caller, id: &str, round: usize) -> Option<Value> {
    let body = json!({"output": output(round), "round": round});
    let (status, answer) = caller.try_call(Method::POST, &format!("/v1/sessions/{id}/rounds"), &body).await?;
    assert_eq!(status, StatusCode::OK, "{answer}");
    Some(answer)
}
