//! Retrieve tools, called within a session.

use serde_json::{Value, json};

use crate::support::{Asked, Caller, Host, Reply, Server, at_once};

async fn world() -> (Server, Caller) {
    let server =
        Server::start_with(|config| config.outbound.outbound_allow = vec!["127.0.0.0/8".parse().unwrap()])
            .await;
    let caller = server.tenant("acme").await;
    let files = json!({
        "policies/refunds.md": {"content": "# Refunds\n\nThirty days.\n", "metatags": {"kind": "rule"}},
        "policies/deep/hours.md": "We open at nine.\n",
        "faq/tips.md": "Tip well.\n", "secret/x.md": "hush",
    });
    server.fill(&caller, "K", files).await;
    for (id, folder) in [("policies", "policies"), ("faq", "faq"), ("secret", "secret")] {
        let row = json!({"url": format!("slate:K/{folder}"), "status": "published"});
        caller.put(&format!("/v1/catalog/corpora/{id}")).json(row).await.expect(201);
    }
    (server, caller)
}

async fn capability(caller: &Caller, id: &str, mut body: Value) {
    if body["status"].is_null() {
        body["status"] = json!("published");
    }
    caller.put(&format!("/v1/catalog/capabilities/{id}")).json(body).await.expect(201);
}

/// Opens a session on a route with this retrieval and these tools; without a route where both are null.
async fn open(caller: &Caller, retrieval: Value, tools: Value, goal: Value) -> String {
    let declaration = json!({"to": {"slate": "K"}, "as": "Docs", "maxRounds": 2,
        "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}});
    let mut body = json!({"retrieve": declaration, "goal": goal});
    if !(retrieval.is_null() && tools.is_null()) {
        let name =
            format!("r{}", caller.get("/v1/catalog/routes").await.ok(200)["items"].as_array().unwrap().len());
        let tools = if tools.is_null() { json!([]) } else { tools };
        let route = json!({"retrieval": retrieval, "tools": tools, "status": "published"});
        caller.put(&format!("/v1/catalog/routes/{name}/1")).json(route).await.expect(201);
        body["route"] = json!({"route_id": name, "route_version": "1"});
    }
    let opened = caller.post("/v1/sessions").json(body).await.ok(201);
    assert_eq!(opened["status"], "open", "{opened}");
    format!("/v1/sessions/{}", opened["session_id"].as_str().unwrap())
}

async fn call(caller: &Caller, session: &str, id: &str, body: Value) -> Reply {
    caller.post(&format!("{session}/tools/{id}")).json(body).await
}

async fn slots(caller: &Caller, session: &str) -> Value {
    caller.get(session).await.ok(200)["working"]["slots"].clone()
}

fn echo(asked: &Asked) -> Option<(u16, String)> {
    Some((200, json!({"echo": asked.body, "extra": true}).to_string()))
}

#[tokio::test]
async fn a_payload_is_goal_slots_and_arguments_and_the_answer_fills_a_slot() {
    let (_server, caller) = world().await;
    let host = Host::start(echo).await;
    let input = json!({"type": "object", "properties": {"a": {}, "b": {}, "first": {}, "notes": {}}, "required": ["a"]});
    let output = json!({"type": "object", "properties": {"echo": {"type": "object"}}, "required": ["echo"]});
    let body = json!({"display_name": "Echo", "input_schema": input, "output_schema": output, "invoke": {"method": "POST", "url": host.url("/echo")}});
    capability(&caller, "echo/1", body).await;
    let session =
        open(&caller, Value::Null, Value::Null, json!({"a": "goal", "b": "goal", "x": "dropped"})).await;
    let first = call(
        &caller,
        &session,
        "echo",
        json!({"stage": "first", "arguments": {"b": "argument", "y": "dropped"}}),
    )
    .await
    .ok(200);
    let stored = json!({"echo": {"a": "goal", "b": "argument"}});
    assert_eq!(
        (&first["called"], &first["stage"], &first["version"], &first["output"]),
        (&json!(true), &json!("first"), &json!("1"), &stored)
    );
    call(&caller, &session, "echo", json!({})).await.expect(200);
    let asked = host.asked();
    assert_eq!(asked[1].body, json!({"first": stored, "a": "goal", "b": "goal"}));
    assert!(asked[0].head.starts_with("post /echo "), "{asked:?}");
    let view = caller.get(&session).await.ok(200);
    assert_eq!(
        view["working"],
        json!({"slots": {"first": stored, "echo": {"echo": asked[1].body}}, "notes": []})
    );
    assert_eq!(view["goal"], json!({"a": "goal", "b": "goal", "x": "dropped"}));

    let records = caller.get(&format!("{session}/provenance")).await.ok(200)["items"].clone();
    assert_eq!(records.as_array().unwrap().len(), 2);
    assert_eq!(
        (&records[0]["kind"], &records[0]["retrieved"]["source"]),
        (&json!("tool"), &json!("web:127.0.0.1"))
    );
    assert_eq!(records[0]["provenance_id"], format!("{}.1", first["record_ids"][0].as_str().unwrap()));
    caller
        .post(&format!("{session}/rounds"))
        .json(json!({"output": {"files": ["faq/tips.md"]}}))
        .await
        .expect(200);
    caller.post(&format!("{session}/rounds")).json(json!({"output": "done"})).await.expect(200);
    let verified = caller.post(&format!("{session}/verify")).await.ok(200);
    assert_eq!((&verified["valid"], &verified["records"]), (&json!(true), &json!(3)));
    call(&caller, &session, "echo", json!({})).await.problem(409, "session_finished");
    assert_eq!(host.asked().len(), 2);
}

#[tokio::test]
async fn a_get_sends_its_payload_as_a_query_and_a_key_calls_once() {
    let (_server, caller) = world().await;
    let host = Host::start(|_| Some((200, "[1]".into()))).await;
    caller.put("/v1/secrets/tool").json(json!({"value": "hunter-2"})).await.expect(201);
    let invoke = json!({"method": "GET", "url": host.url("/q?k=v"), "auth": "tool"});
    let body = json!({"output_schema": {"type": "array"}, "invoke": invoke});
    capability(&caller, "list/1", body).await;
    let session = open(&caller, Value::Null, Value::Null, json!("a goal")).await;
    let send = || {
        let body = json!({"arguments": {"n": [1, "a&b"]}});
        caller.post(&format!("{session}/tools/list")).header("Idempotency-Key", "one").json(body)
    };
    let first = send().await.ok(200);
    assert_eq!(first["output"], json!([1]));
    assert_eq!(send().await.ok(200), first);
    let asked = host.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].head.contains("authorization: bearer hunter-2"), "{asked:?}");
    let body = json!({"invoke": {"url": host.url("/"), "auth": "none-such"}});
    capability(&caller, "locked/1", body).await;
    call(&caller, &session, "locked", json!({})).await.problem(502, "tool_failed");
    assert_eq!(host.asked().len(), 1);
    assert!(asked[0].head.starts_with("get /q?k=v&goal=a+goal&n=%5b1%2c%22a%26b%22%5d http"), "{asked:?}");
}

#[tokio::test]
async fn what_does_not_validate_is_neither_sent_nor_stored() {
    let (_server, caller) = world().await;
    let host = Host::start(|asked| {
        let path = asked.head.split(' ').nth(1).unwrap().to_owned();
        Some(match path.as_str() {
            "/wrong" => (200, json!({"n": "text"}).to_string()),
            "/prose" => (200, "well".into()),
            "/fails" => (500, json!({"n": 1}).to_string()),
            "/large" => (200, json!({"n": 1, "more": "x".repeat(300 << 10)}).to_string()),
            "/huge" => (200, json!({"n": 1, "dropped": "x".repeat(5 << 20)}).to_string()),
            "/dropped" => (200, json!({"n": 1, "dropped": "x".repeat(300 << 10)}).to_string()),
            path => panic!("{path}"),
        })
    })
    .await;
    let output = json!({"type": "object", "properties": {"n": {"type": "integer"}, "more": {}}, "required": ["n"], "additionalProperties": false});
    let input = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    for path in ["wrong", "prose", "fails", "large", "huge", "dropped"] {
        let body = json!({"input_schema": input, "output_schema": output, "invoke": {"url": host.url(&format!("/{path}"))}});
        capability(&caller, &format!("{path}/1"), body).await;
    }
    let down = json!({"input_schema": input, "invoke": {"url": "http://10.0.0.1/"}});
    capability(&caller, "down/1", down).await;
    let session = open(&caller, Value::Null, Value::Null, json!({})).await;
    call(&caller, &session, "wrong", json!({})).await.invalid_at("/arguments");
    call(&caller, &session, "wrong", json!({"arguments": {"city": 7}})).await.invalid_at("/arguments/city");
    assert!(host.asked().is_empty());
    let fine = json!({"arguments": {"city": "Oslo"}});
    for path in ["wrong", "prose", "fails", "large", "huge", "down"] {
        let problem = call(&caller, &session, path, fine.clone()).await.problem(502, "tool_failed");
        assert!(!problem["detail"].as_str().unwrap().contains("http"), "{problem}");
    }
    assert_eq!(slots(&caller, &session).await, json!({}));
    let records = caller.get(&format!("{session}/provenance")).await.ok(200);
    assert_eq!(records["items"], json!([]));
    assert_eq!(call(&caller, &session, "dropped", fine).await.ok(200)["output"], json!({"n": 1}));
}

#[tokio::test]
async fn an_empty_invoke_does_nothing() {
    let (_server, caller) = world().await;
    capability(
        &caller,
        "idle/1",
        json!({"input_schema": {"type": "object", "required": ["x"]}, "invoke": {}}),
    )
    .await;
    for retrieval in [Value::Null, json!({"mode": "none"}), json!({"mode": "tool", "scope": ["faq"]})] {
        let tools = json!([{"capability_id": "idle", "capability_version": 1}]);
        let session = open(&caller, retrieval, tools, json!({})).await;
        let before = caller.get(&session).await.ok(200);
        let called =
            call(&caller, &session, "idle", json!({"arguments": {"corpus": "secret"}})).await.ok(200);
        assert_eq!(
            (&called["called"], &called["output"], &called["record_ids"]),
            (&json!(false), &Value::Null, &json!([]))
        );
        assert_eq!(caller.get(&session).await.ok(200), before);
    }
}

#[tokio::test]
async fn only_corpora_of_the_scope_may_be_named() {
    let (_server, caller) = world().await;
    let host = Host::start(echo).await;
    capability(&caller, "find/1", json!({"invoke": {"url": host.url("/")}})).await;
    let find = json!([{"capability_id": "find", "capability_version": "1"}]);
    let session =
        open(&caller, json!({"mode": "tool", "scope": ["faq", "policies"]}), find.clone(), json!({})).await;
    call(&caller, &session, "find", json!({"arguments": {"corpus": "secret"}}))
        .await
        .invalid_at("/arguments/corpus");
    call(&caller, &session, "find", json!({"arguments": {"corpora": ["faq", "secret"]}}))
        .await
        .invalid_at("/arguments/corpora/1");
    call(&caller, &session, "find", json!({"arguments": {"corpora": ["faq", "policies"]}})).await.expect(200);
    let none =
        open(&caller, json!({"mode": "none", "scope": ["faq"]}), find, json!({"corpus_id": "faq"})).await;
    call(&caller, &none, "find", json!({})).await.invalid_at("/arguments/corpus_id");
    call(&caller, &none, "slate_retrieve", json!({"arguments": {"glob": "*"}})).await.invalid_at("");
    assert_eq!(host.asked().len(), 1);
}

#[tokio::test]
async fn a_route_grants_the_tools_that_it_lists() {
    let (_server, caller) = world().await;
    let host =
        Host::start(|asked| Some((200, json!({"path": asked.head.split(' ').nth(1)}).to_string()))).await;
    for (name, status) in [("t/1", "published"), ("t/2", "published"), ("u/1", "published"), ("v/1", "draft")]
    {
        capability(
            &caller,
            name,
            json!({"invoke": {"url": host.url(&format!("/{name}"))}, "status": status}),
        )
        .await;
    }
    let listed = json!([{"capability_id": "t", "capability_version": "1"}, {"capability_id": "v", "capability_version": "1"}]);
    let session = open(&caller, Value::Null, listed, json!({})).await;
    assert_eq!(call(&caller, &session, "t", json!({})).await.ok(200)["output"], json!({"path": "/t/1"}));
    call(&caller, &session, "t", json!({"version": "2"})).await.invalid_at("/version");
    for unlisted in ["u", "v", "nope", "a%20b"] {
        call(&caller, &session, unlisted, json!({})).await.problem(404, "not_found");
    }
    let free = open(&caller, Value::Null, Value::Null, json!({})).await;
    assert_eq!(call(&caller, &free, "u", json!({})).await.ok(200)["version"], "1");
    call(&caller, &free, "t", json!({})).await.invalid_at("/version");
    assert_eq!(
        call(&caller, &free, "t", json!({"version": 2})).await.ok(200)["output"],
        json!({"path": "/t/2"})
    );
    call(&caller, &free, "t", json!({"version": "3"})).await.problem(404, "not_found");
    call(&caller, &free, "t", json!({"version": "2", "stage": "prefetch"})).await.invalid_at("/stage");
    call(&caller, &free, "t", json!({"version": "2", "stage": "a b"})).await.invalid_at("/stage");
    call(&caller, &free, "t", json!({"args": {}})).await.invalid_at("/args");
    call(&caller, "/v1/sessions/01890000-0000-7000-8000-000000000000", "t", json!({}))
        .await
        .problem(404, "not_found");
}

#[tokio::test]
async fn a_slate_is_a_retrieve_tool() {
    let (server, caller) = world().await;
    let known = caller.get("/v1/catalog/capabilities/slate_retrieve/1").await.ok(200);
    assert!(known["input_schema"]["properties"]["metatag"].is_object(), "{known}");
    caller.get("/v1/catalog/capabilities/slate_retrieve/2").await.problem(404, "not_found");
    let scope = json!({"mode": "tool", "scope": ["policies", "faq"]});
    let session = open(&caller, scope, Value::Null, json!({"topic": "tips"})).await;
    let run = |arguments: Value| call(&caller, &session, "slate_retrieve", json!({"arguments": arguments}));
    let found = run(json!({"glob": "*.md"})).await.ok(200);
    let items = found["output"]["items"].as_array().unwrap();
    let seen: Vec<(&str, &str)> =
        items.iter().map(|i| (i["corpus_id"].as_str().unwrap(), i["path"].as_str().unwrap())).collect();
    assert_eq!(seen, [("policies", "deep/hours.md"), ("policies", "refunds.md"), ("faq", "tips.md")]);
    assert_eq!(
        (&items[2]["content"], &items[2]["citation"]),
        (&json!("Tip well.\n"), &json!("slate://K/faq/tips.md@1"))
    );
    assert_eq!(found["record_ids"].as_array().unwrap().len(), 2);
    assert_eq!(slots(&caller, &session).await["slate_retrieve"], found["output"]);

    let one = run(
        json!({"corpus": "policies", "files": ["refunds.md", "../faq/tips.md"], "metatag": {"name": "kind"}}),
    )
    .await
    .ok(200);
    let statuses: Vec<&Value> =
        one["output"]["items"].as_array().unwrap().iter().map(|item| &item["status"]).collect();
    assert_eq!(statuses, ["fetched", "not_found"]);
    let index = run(json!({"corpus": "policies", "subfolders": [""]})).await.ok(200);
    assert_eq!(index["output"]["items"][0]["content"][1]["name"], "refunds.md");
    run(json!({"corpus": "secret", "glob": "*"})).await.invalid_at("/arguments/corpus");
    run(json!({})).await.invalid_at("/arguments");
    run(json!({"files": "x"})).await.invalid_at("/arguments/files");
    let wrong = run(json!({"glob": "[", "files": ["refunds.md"]})).await.ok(200);
    assert_eq!(wrong["output"]["errors"][0]["mode"], "glob");

    let records = caller.get(&format!("{session}/provenance")).await.ok(200)["items"].clone();
    assert!(records.as_array().unwrap().iter().all(|record| record["kind"] == "tool"), "{records}");
    assert_eq!(records[0]["provenance_id"], items[0]["provenance_id"]);
    caller.post(&format!("{session}/cancel")).await.expect(200);
    assert_eq!(caller.post(&format!("{session}/verify")).await.ok(200)["valid"], true);

    // What is large is listed as left out; nothing is cut.
    server.fill(&caller, "K", json!({"faq/large.md": "x".repeat(200 << 10)})).await;
    let session = open(&caller, json!({"mode": "tool", "scope": ["faq"]}), Value::Null, json!({})).await;
    let found = call(&caller, &session, "slate_retrieve", json!({"arguments": {"glob": "*"}})).await.ok(200);
    assert_eq!(
        (&found["output"]["truncated"], &found["output"]["items"][0]["status"]),
        (&json!(true), &json!("omitted"))
    );
    caller.put("/v1/catalog/corpora/faq").json(json!({"url": "slate:K/faq"})).await.expect(200);
    call(&caller, &session, "slate_retrieve", json!({"arguments": {"glob": "*"}})).await.invalid_at("");
}

#[tokio::test]
async fn the_pack_travels_as_text_where_it_is_declared() {
    let (_server, caller) = world().await;
    let host = Host::start(echo).await;
    let input = json!({"type": "object", "properties": {"packed_text": {"type": "string"}, "topic": {}}, "required": ["packed_text"]});
    capability(&caller, "sum/1", json!({"input_schema": input, "invoke": {"url": host.url("/")}})).await;
    let scope = json!({"mode": "deterministic_prefetch", "scope": ["faq"]});
    let session = open(&caller, scope, Value::Null, json!({"topic": "tip"})).await;
    call(&caller, &session, "sum", json!({})).await.expect(200);
    assert_eq!(host.asked()[0].body, json!({"packed_text": "[faq:tips.md#1] Tip well.", "topic": "tip"}));
    // The prompt shows the pack, whatever else is in the slots.
    let prompt = caller.get(&format!("{session}/prompt")).await.ok(200);
    assert_eq!(prompt["prompt"], "packed chunks:\n[faq:tips.md#1] Tip well.\n\n## Docs\n");
}

#[tokio::test]
async fn calls_at_once_fill_their_slots_and_keep_the_chain() {
    let (_server, caller) = world().await;
    let host = Host::start(echo).await;
    capability(&caller, "echo/1", json!({"invoke": {"url": host.url("/")}})).await;
    let session = open(&caller, Value::Null, Value::Null, json!({})).await;
    let calls = (0..8).map(|i| {
        caller
            .post(&format!("{session}/tools/echo"))
            .json(json!({"stage": format!("s{i}"), "arguments": {"i": i}}))
    });
    for reply in at_once(calls).await {
        reply.expect(200);
    }
    let slots = slots(&caller, &session).await;
    for i in 0..8 {
        assert_eq!(slots[format!("s{i}")]["echo"], json!({"i": i}));
    }
    caller.post(&format!("{session}/cancel")).await.expect(200);
    let verified = caller.post(&format!("{session}/verify")).await.ok(200);
    assert_eq!((&verified["valid"], &verified["records"]), (&json!(true), &json!(8)));
}
