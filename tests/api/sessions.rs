//! Sessions: the loop, its replays, its epochs, and who may see it.

mod budgets;
mod context;
mod races;
mod rounds;
mod store_changes;
mod tool;

use serde_json::{Value, json};

use crate::support::{Caller, Reply, Server};

/// A slate `Knowledge` with these files under `docs/`, in a tenant of its own.
async fn knowledge(server: &Server, files: &[(&str, &str)]) -> Caller {
    let caller = server.tenant("acme").await;
    caller.put("/v1/slates/Knowledge").json(json!({})).await.expect(201);
    for (path, content) in files {
        put(&caller, path, content).await;
    }
    caller
}

async fn put(caller: &Caller, path: &str, content: &str) {
    let file = json!({"path": format!("docs/{path}"), "content": content});
    let reply = caller.post("/v1/slates/Knowledge/files").json(file).await;
    assert!(matches!(reply.status, 200 | 201), "{reply:?}");
}

const FILES: &[(&str, &str)] =
    &[("core.md", "core"), ("faq.md", "faq"), ("glossary.md", "glossary"), ("research/report.md", "report")];

/// A declaration that grants all modes, changed by the members of `change`.
fn declaration(change: Value) -> Value {
    let mut declaration = json!({
        "to": {"slate": "Knowledge", "folder": "docs"}, "as": "Docs", "maxRounds": 5,
        "requestMatch": {"type": "object", "properties": {"files": {}, "subfolders": {}, "metatag": {}, "glob": {}}},
    });
    let members = declaration.as_object_mut().unwrap();
    members.extend(change.as_object().unwrap().clone());
    declaration
}

/// A session that a caller has opened.
struct Session {
    caller: Caller,
    id: String,
}

impl Session {
    async fn open(caller: &Caller, change: Value) -> Session {
        let body = json!({"retrieve": declaration(change)});
        let opened = caller.post("/v1/sessions").json(body).await.ok(201);
        Session { caller: caller.clone(), id: opened["session_id"].as_str().unwrap().to_owned() }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    async fn submit(&self, body: Value) -> Reply {
        self.caller.post(&self.path("/rounds")).json(body).await
    }

    /// The next round.
    async fn round(&self, output: Value) -> Value {
        self.submit(json!({"output": output})).await.ok(200)
    }

    async fn files(&self, files: &[&str]) -> Value {
        self.round(json!({"files": files})).await
    }

    async fn get(&self) -> Value {
        self.caller.get(&self.path("")).await.ok(200)
    }

    async fn rounds(&self) -> Vec<Value> {
        let page = self.caller.get(&self.path("/rounds?limit=1000")).await.ok(200);
        assert_eq!(page["next_cursor"], Value::Null);
        page["items"].as_array().unwrap().clone()
    }

    async fn prompt(&self) -> Value {
        self.caller.get(&self.path("/prompt")).await.ok(200)
    }

    async fn forget(&self, body: Value) -> Value {
        self.caller.post(&self.path("/forget")).json(body).await.ok(200)
    }

    async fn verify(&self) -> Value {
        self.caller.post(&self.path("/verify")).await.ok(200)
    }
}

/// The items of a round, each as `path = content`, or `path ! status`.
fn brief(round: &Value) -> Vec<String> {
    let items = round["items"].as_array().unwrap_or_else(|| panic!("no items: {round}"));
    let each = items.iter().map(|item| {
        let path = item["path"].as_str().unwrap();
        match item["status"].as_str().unwrap() {
            "fetched" => format!("{path} = {}", item["content"].as_str().unwrap()),
            status => format!("{path} ! {status}"),
        }
    });
    each.collect()
}

#[tokio::test]
async fn a_session_tells_all_that_is_needed_to_resume_it() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let fields = json!({"Question": "What is core?", "Depth": 2});
    let body = json!({"retrieve": declaration(json!({"limits": {"maxFilesPerRound": 7}})), "fields": fields,
        "goal": {"find": "core"}});
    let reply = caller.post("/v1/sessions").json(body.clone()).await.expect(201);
    let opened = reply.json();
    let id = opened["session_id"].as_str().unwrap();
    assert_eq!(reply.header("location"), format!("/v1/sessions/{id}"));
    let limits = json!({"maxFilesPerRound": 7, "maxBytesPerRound": 1048576, "maxTotalBytes": 8388608});
    let mut retrieve = body["retrieve"].clone();
    retrieve["limits"] = limits.clone();
    for (member, value) in [
        ("status", json!("open")),
        ("round", json!(0)),
        ("next", json!("llm_call")),
        ("epoch", json!(1)),
        ("slate", json!("Knowledge")),
        ("folder", json!("docs")),
        ("retrieve", retrieve),
        ("limits", limits),
        ("fields", fields),
        ("goal", json!({"find": "core"})),
        ("context", json!({"files": 0, "items": []})),
        ("working", json!({"slots": {}, "notes": []})),
        ("finished_at", Value::Null),
    ] {
        assert_eq!(opened[member], value, "{member}");
    }
    assert!(opened.get("answer").is_none() && opened.get("forced").is_none());

    let session = Session { caller: caller.clone(), id: id.to_owned() };
    let read = caller.get(&session.path("")).await.expect(200);
    assert_eq!((read.json(), read.header("etag")), (opened, reply.header("etag")));
    caller.get(&session.path("")).header("if-none-match", reply.header("etag")).await.expect(304);

    session.files(&["faq.md", "core.md"]).await;
    let now = caller.get(&session.path("")).header("if-none-match", reply.header("etag")).await.ok(200);
    assert_eq!((&now["round"], &now["shown_bytes"]), (&json!(1), &json!(7)));
    let item = |path: &str| json!({"path": path, "version": 1, "round": 1});
    assert_eq!(now["context"], json!({"files": 2, "items": [item("faq.md"), item("core.md")]}));

    session.round(json!("It is the core.")).await;
    let done = session.get().await;
    assert_eq!(done["answer"], "It is the core.");
    assert_eq!(
        (&done["status"], &done["forced"], &done["next"]),
        (&json!("answered"), &json!(false), &json!("done"))
    );
    assert!(done["finished_at"].is_string());
}

#[tokio::test]
async fn what_is_wrong_with_a_declaration_is_told_by_pointer() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let open = |body: Value| caller.post("/v1/sessions").json(body);
    let good = declaration(json!({}));
    open(json!({"retrieve": good, "route": {}})).await.invalid_at("/route");
    open(json!({"retrieve": good, "goal": 7})).await.invalid_at("/goal");
    open(json!({"retrieve": good, "fields": {"a\nb": 1}})).await.invalid_at("/fields/a\nb");
    open(json!({})).await.invalid_at("");
    open(json!({"retrieve": declaration(json!({"to": {"slate": "Knowledge", "folder": "nope"}}))}))
        .await
        .invalid_at("/retrieve/to/folder");
    open(json!({"retrieve": declaration(json!({"to": {"slate": "Nope"}}))})).await.problem(404, "not_found");
    let all =
        open(json!({"retrieve": declaration(json!({"maxRounds": 0, "as": ""})), "fields": 1, "goal": null}))
            .await;
    let pointers: Vec<Value> = all.problem(422, "invalid")["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["pointer"].clone())
        .collect();
    assert_eq!(pointers, ["/retrieve/as", "/retrieve/maxRounds", "/fields"]);
    let list = caller.get("/v1/sessions").await.ok(200);
    assert_eq!(list, json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn a_declaration_may_be_yaml() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let yaml = "retrieve:\n  to: { slate: Knowledge }\n  as: Docs\n  maxRounds: 1\n  requestMatch:\n    properties:\n      \
                files: {}\nfields:\n  Date: 2024-01-01\n";
    let opened = caller.post("/v1/sessions").body("application/yaml", yaml).await.ok(201);
    assert_eq!((&opened["folder"], &opened["fields"]), (&json!(""), &json!({"Date": "2024-01-01"})));
    let session = Session { caller: caller.clone(), id: opened["session_id"].as_str().unwrap().into() };
    assert_eq!(brief(&session.files(&["docs/core.md"]).await), ["docs/core.md = core"]);
    caller.post("/v1/sessions").body("application/yaml", "retrieve: [").await.problem(400, "malformed_yaml");
    caller.post("/v1/sessions").body("text/plain", yaml).await.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn sessions_are_listed_newest_first_and_by_status() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, Session::open(&caller, json!({})).await.id);
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = caller.get(&format!("/v1/sessions?limit=2{cursor}")).await.ok(200);
        found.extend(
            page["items"].as_array().unwrap().iter().map(|s| s["session_id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, ids);
    caller.post(&format!("/v1/sessions/{}/cancel", ids[2])).await.expect(200);
    let cancelled = caller.get("/v1/sessions?status=cancelled").await.ok(200);
    let listed = &cancelled["items"][0];
    assert_eq!((cancelled["items"].as_array().unwrap().len(), &listed["session_id"]), (1, &json!(ids[2])));
    assert_eq!((&listed["next"], &listed["max_rounds"]), (&json!("done"), &json!(5)));
    assert_eq!(caller.get("/v1/sessions?status=open").await.ok(200)["items"].as_array().unwrap().len(), 4);
    caller.get("/v1/sessions?status=closed").await.invalid_at("/status");
    caller.get("/v1/sessions?cursor=x").await.invalid_at("/cursor");
}

#[tokio::test]
async fn a_cancelled_session_takes_nothing_more() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    session.files(&["core.md"]).await;
    let cancelled = caller.post(&session.path("/cancel")).await.ok(200);
    assert_eq!((&cancelled["status"], &cancelled["round"]), (&json!("cancelled"), &json!(1)));
    assert_eq!(caller.post(&session.path("/cancel")).await.ok(200), cancelled);
    session.submit(json!({"output": {"files": ["faq.md"]}})).await.problem(409, "session_finished");
    caller.post(&session.path("/forget")).await.problem(409, "session_finished");
    // What was taken before can still be asked for again, and so can the prompt that would have been next.
    let again = session.submit(json!({"output": {"files": ["core.md"]}, "round": 1})).await.ok(200);
    assert_eq!(brief(&again), ["core.md = core"]);
    let prompt = session.prompt().await;
    assert_eq!((&prompt["round"], &prompt["final"]), (&json!(2), &json!(false)));
    assert!(session.verify().await["sealed"].as_bool().unwrap());

    let answered = Session::open(&caller, json!({})).await;
    answered.round(json!("done")).await;
    caller.post(&answered.path("/cancel")).await.problem(409, "session_finished");
}

#[tokio::test]
async fn a_deleted_session_leaves_its_sealed_record() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    let item = session.files(&["core.md"]).await["items"][0].clone();
    let etag = caller.get(&session.path("")).await.header("etag").to_owned();
    caller
        .delete(&session.path(""))
        .header("if-match", "\"other\"")
        .await
        .problem(412, "precondition_failed");
    caller.delete(&session.path("")).header("if-match", &etag).await.expect(204);
    for gone in ["", "/prompt", "/rounds"] {
        caller.get(&session.path(gone)).await.problem(404, "not_found");
    }
    caller.delete(&session.path("")).await.problem(404, "not_found");
    session.submit(json!({"output": 1})).await.problem(404, "not_found");
    let verified = session.verify().await;
    assert_eq!(
        (&verified["valid"], &verified["records"], &verified["sealed"]),
        (&json!(true), &json!(1), &json!(true))
    );
    let record = format!("/v1/provenance/{}", item["provenance_id"].as_str().unwrap());
    assert_eq!(caller.get(&record).await.ok(200)["citation"]["reference"], item["citation"]);
}

#[tokio::test]
async fn a_key_sees_the_sessions_of_its_slates_alone() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    caller.put("/v1/slates/Other").json(json!({})).await.expect(201);
    let session = Session::open(&caller, json!({})).await;
    session.files(&["core.md"]).await;
    let bound = server.key("acme", json!({"scopes": ["read", "retrieve"], "slates": ["Other"]})).await;
    let foreign = server.tenant("other").await;
    for stranger in [&bound, &foreign] {
        for path in ["", "/prompt", "/rounds"] {
            stranger.get(&session.path(path)).await.problem(404, "not_found");
        }
        for path in ["/cancel", "/forget"] {
            stranger.post(&session.path(path)).await.problem(404, "not_found");
        }
        stranger.post(&session.path("/rounds")).json(json!({"output": 1})).await.problem(404, "not_found");
        stranger.delete(&session.path("")).await.problem(404, "not_found");
        assert_eq!(stranger.get("/v1/sessions").await.ok(200)["items"], json!([]));
    }
    let unknown = bound.post("/v1/sessions").json(json!({"retrieve": declaration(json!({}))})).await;
    unknown.problem(404, "not_found");

    let read = server.key("acme", json!({"scopes": ["read"]})).await;
    read.get(&session.path("")).await.expect(200);
    read.get(&session.path("/rounds")).await.expect(200);
    read.post(&session.path("/rounds")).json(json!({"output": 1})).await.problem(403, "forbidden");
    read.delete(&session.path("")).await.problem(403, "forbidden");
    let retrieve = server.key("acme", json!({"scopes": ["retrieve"]})).await;
    retrieve.get(&session.path("/prompt")).await.expect(200);
    let write = server.key("acme", json!({"scopes": ["write", "admin"]})).await;
    write.get(&session.path("")).await.problem(403, "forbidden");
    for id in ["x", "00000000-0000-0000-0000-000000000000"] {
        caller.get(&format!("/v1/sessions/{id}")).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn opening_is_done_once_for_an_idempotency_key() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let body = json!({"retrieve": declaration(json!({}))});
    let open = || caller.post("/v1/sessions").header("idempotency-key", "k").json(body.clone());
    assert_eq!(open().await.ok(201), open().await.ok(201));
    assert_eq!(caller.get("/v1/sessions").await.ok(200)["items"].as_array().unwrap().len(), 1);
    let session = Session::open(&caller, json!({})).await;
    session.files(&["core.md"]).await;
    let forget = || caller.post(&session.path("/forget")).header("idempotency-key", "f");
    assert_eq!(forget().await.ok(200), json!({"epoch": 2, "forgotten": 1}));
    assert_eq!(forget().await.ok(200), json!({"epoch": 2, "forgotten": 1}));
    assert_eq!(session.get().await["epoch"], 2);
}
