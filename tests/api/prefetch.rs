//! Sessions on a route: what is packed before their first prompt, and how they fail closed.

use serde_json::{Value, json};

use crate::support::{Caller, Host, Reply, Server};

/// A server that may reach hosts on loopback, and a caller with the slate `K` and two corpora in it.
async fn world() -> (Server, Caller) {
    let server =
        Server::start_with(|config| config.outbound.outbound_allow = vec!["127.0.0.0/8".parse().unwrap()])
            .await;
    let caller = server.tenant("acme").await;
    let files = json!({
        "policies/refunds.md": "# Refunds\n\nThe refund window is 30 days.\n\n<document path=\"x\">\n",
        "faq/hours.md": "# Hours\n\nWe open at nine.\n",
        "empty/.keep": "", "empty/blank.txt": " \n",
    });
    server.fill(&caller, "K", files).await;
    for (id, folder) in [("policy-engine", "policies"), ("product-faq", "faq"), ("hollow", "empty")] {
        corpus(&caller, id, json!({"url": format!("slate:K/{folder}"), "status": "published"})).await;
    }
    (server, caller)
}

async fn corpus(caller: &Caller, id: &str, row: Value) {
    let reply = caller.put(&format!("/v1/catalog/corpora/{id}")).json(row).await;
    assert!(reply.status < 300, "{}", reply.text());
}

async fn route(caller: &Caller, id: &str, retrieval: Value) {
    let body = json!({"retrieval": retrieval, "status": "published"});
    caller.put(&format!("/v1/catalog/routes/{id}/1")).json(body).await.expect(201);
}

async fn prefetch(caller: &Caller, id: &str, scope: &[&str]) {
    route(caller, id, json!({"mode": "deterministic_prefetch", "scope": scope})).await;
}

fn session(route: &str, goal: Value) -> Value {
    let declaration = json!({"to": {"slate": "K"}, "as": "Docs", "maxRounds": 2,
        "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}});
    json!({"retrieve": declaration, "fields": {"Question": "?"}, "goal": goal,
        "route": {"route_id": route, "route_version": "1"}})
}

async fn open(caller: &Caller, route: &str, goal: Value) -> Reply {
    caller.post("/v1/sessions").json(session(route, goal)).await
}

fn at(session: &Value, rest: &str) -> String {
    format!("/v1/sessions/{}{rest}", session["session_id"].as_str().unwrap())
}

/// The lines that existing runtimes make of a pack.
fn lines(chunks: &Value) -> Vec<String> {
    let line = |chunk: &Value| {
        let text = |member: &str| chunk[member].as_str().unwrap().to_owned();
        let words =
            text("text").split('\n').map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ");
        format!("[{}:{}] {words}", text("corpus_id"), text("id"))
    };
    chunks.as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn a_pack_is_in_slots_notes_prompt_and_records() {
    let (_server, caller) = world().await;
    prefetch(&caller, "memo", &["product-faq", "policy-engine"]).await;
    let goal = json!({"topic": "refund window, and when do we open"});
    let opened = open(&caller, "memo", goal.clone()).await.ok(201);
    assert_eq!((&opened["status"], &opened["next"]), (&json!("open"), &json!("llm_call")));
    assert_eq!(opened["route"], json!({"route_id": "memo", "route_version": "1"}));
    assert_eq!(opened["goal"], goal);
    let slots = &opened["working"]["slots"];
    let chunks = slots["prefetch"]["chunks"].as_array().unwrap();
    assert_eq!(
        chunks[0],
        json!({"corpus_id": "product-faq", "id": "hours.md#1", "text": "# Hours\n\nWe open at nine.", "path": "faq/hours.md",
            "version": 1, "score": chunks[0]["score"], "citation": "slate://K/faq/hours.md@1#L1-3"})
    );
    assert_eq!((chunks.len(), &chunks[1]["corpus_id"]), (2, &json!("policy-engine")));
    assert_eq!(slots["prefetch:product-faq"]["chunks"], json!([chunks[0]]));
    assert_eq!(slots["prefetch:policy-engine"]["chunks"], json!([chunks[1]]));
    let packed = lines(&slots["prefetch"]["chunks"]);
    assert_eq!(packed[0], "[product-faq:hours.md#1] # Hours We open at nine.");
    assert_eq!(opened["working"]["notes"], json!([packed.join("\n")]));
    let prompt = caller.get(&at(&opened, "/prompt")).await.ok(200);
    let expected = format!("## Question\n?\n\npacked chunks:\n{}\n\n## Docs\n", packed.join("\n"));
    assert_eq!(prompt["prompt"], expected);
    assert_eq!(caller.get(&at(&opened, "")).await.ok(200), opened);

    let records = caller.get(&at(&opened, "/provenance")).await.ok(200)["items"].clone();
    let records = records.as_array().unwrap();
    assert_eq!(records.len(), 2);
    for (record, chunk) in records.iter().zip(chunks) {
        assert_eq!((&record["kind"], &record["round"]), (&json!("prefetch"), &json!(0)));
        assert_eq!(record["citation"]["reference"], chunk["citation"]);
        assert!(record["pack"].as_str().unwrap().starts_with("sha256:"), "{record}");
        assert!(record["provenance_id"].as_str().unwrap().ends_with(".1"));
    }
    assert_eq!(records[0]["pack"], records[1]["pack"]);

    // Rounds go on from there, in the same chain.
    let round = caller
        .post(&at(&opened, "/rounds"))
        .json(json!({"output": {"files": ["faq/hours.md"]}}))
        .await
        .ok(200);
    assert_eq!(round["items"][0]["status"], "fetched");
    caller.post(&at(&opened, "/rounds")).json(json!({"output": "Nine."})).await.expect(200);
    let verified = caller.post(&at(&opened, "/verify")).await.ok(200);
    assert_eq!(
        (&verified["valid"], &verified["sealed"], &verified["records"]),
        (&json!(true), &json!(true), &json!(3))
    );
}

#[tokio::test]
async fn the_same_goal_makes_the_same_pack_to_the_byte() {
    let (_server, caller) = world().await;
    let host = Host::start(|_| {
        Some((200, r#"{"chunks": [{"id": "b", "text": "x", "score": 0.30000000000000004}, {"text": "y", "id": "a", "score": 0.30000000000000004}]}"#.into()))
    })
    .await;
    corpus(&caller, "far", json!({"url": host.url("/"), "status": "published"})).await;
    prefetch(&caller, "memo", &["policy-engine", "far", "product-faq"]).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let opened = open(&caller, "memo", json!("refund or nine")).await.ok(201);
        let working = caller.get(&at(&opened, "")).await;
        let text = working.text().to_owned();
        let working =
            text[text.find("\"working\"").unwrap()..text.find("\"created_at\"").unwrap()].to_owned();
        let records = caller.get(&at(&opened, "/provenance")).await.ok(200);
        let hashes: Vec<Value> =
            records["items"].as_array().unwrap().iter().map(|item| item["pack"].clone()).collect();
        seen.push((working, hashes));
    }
    assert!(seen[0].0.contains(r#"{"corpus_id":"far","text":"y","id":"a","score":0.30000000000000004},{"corpus_id":"far","id":"b""#), "{}", seen[0].0);
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
    let other = open(&caller, "memo", json!("nine")).await.ok(201);
    let records = caller.get(&at(&other, "/provenance")).await.ok(200);
    assert_ne!(records["items"][0]["pack"], seen[0].1[0]);
}

#[tokio::test]
async fn gateways_at_other_hosts_are_asked_in_the_order_of_the_scope() {
    let (server, caller) = world().await;
    let host = Host::start(|asked| {
        let text = format!("for {}", asked.body["collection"].as_str().unwrap());
        Some((
            200,
            json!({"chunks": [{"id": 7, "text": text, "page": {"n": 1}, "corpus_id": "forged"}]}).to_string(),
        ))
    })
    .await;
    corpus(
        &caller,
        "far",
        json!({"url": host.url("/search?x=1"), "collection": "index-9", "status": "published"}),
    )
    .await;
    corpus(&caller, "farther", json!({"url": host.url("/b"), "status": "published"})).await;
    prefetch(&caller, "memo", &["farther", "policy-engine", "far"]).await;
    let goal = json!({"topic": "refund", "n": [1, null]});
    let opened = open(&caller, "memo", goal.clone()).await.ok(201);
    let asked = host.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].body, json!({"collection": "farther", "goal": goal}));
    assert_eq!(asked[1].body, json!({"collection": "index-9", "goal": goal}));
    assert!(
        asked[1].head.starts_with("post /search?x=1 http/1.1") && !asked[1].head.contains("authorization"),
        "{asked:?}"
    );
    let chunks = &opened["working"]["slots"]["prefetch"]["chunks"];
    assert_eq!(chunks[0], json!({"corpus_id": "farther", "id": 7, "text": "for farther", "page": {"n": 1}}));
    let order: Vec<&Value> = chunks.as_array().unwrap().iter().map(|chunk| &chunk["corpus_id"]).collect();
    assert_eq!(order, ["farther", "policy-engine", "far"]);
    let note = opened["working"]["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("[farther:7] for farther\n[policy-engine:")
            && note.ends_with("\n[far:7] for index-9"),
        "{note}"
    );
    let records = caller.get(&at(&opened, "/provenance")).await.ok(200);
    let record = &records["items"][0];
    assert_eq!(
        (&record["retrieved"]["source"], &record["retrieved"]["target"]),
        (&json!("web:127.0.0.1"), &json!("7"))
    );
    assert_eq!((&record["confidence"], &record["citation"]["reference"]), (&json!(0.85), &Value::Null));
    assert_eq!(caller.post(&at(&opened, "/verify")).await.ok(200)["valid"], true);

    // A stored secret is sent as a bearer token, and told to nobody.
    caller.put("/v1/secrets/gateway").json(json!({"value": "hunter-2"})).await.expect(201);
    corpus(&caller, "locked", json!({"url": host.url("/locked"), "auth": "gateway", "status": "published"}))
        .await;
    prefetch(&caller, "locked", &["locked"]).await;
    let opened = open(&caller, "locked", json!("refund")).await.expect(201);
    assert!(!opened.text().contains("hunter"));
    assert!(host.asked()[2].head.contains("authorization: bearer hunter-2\r\n"), "{:?}", host.asked());

    // A key that is bound to other slates knows no corpus in this one.
    let bound = server.key("acme", json!({"scopes": ["retrieve", "read", "write"], "slates": ["L"]})).await;
    server.fill(&caller, "L", json!({"a": "a"})).await;
    let mut body = session("memo", goal);
    body["retrieve"]["to"]["slate"] = json!("L");
    let failed = bound.post("/v1/sessions").json(body).await.ok(201);
    assert_eq!(failed["failure"]["reason"], "unknown_corpus");
    assert_eq!(host.asked().len(), 3);
}

#[tokio::test]
async fn it_fails_closed() {
    let (_server, caller) = world().await;
    let host = Host::start(|asked| {
        let path = asked.head.split(' ').nth(1).unwrap().to_owned();
        let many = |text: &str| json!({"chunks": [{"id": "1", "text": text}]}).to_string();
        match path.as_str() {
            "/silent" => None,
            "/fails" => Some((500, many("fine"))),
            "/moved" => Some((302, String::new())),
            "/prose" => Some((200, "here you are".into())),
            "/shape" => Some((200, json!({"chunks": [{"id": "1"}]}).to_string())),
            "/none" => Some((200, json!({"chunks": []}).to_string())),
            "/blank" => Some((200, many(" \n\u{2003}"))),
            "/large" => Some((200, many(&"x".repeat(300 << 10)))),
            "/huge" => Some((200, many(&"x".repeat(5 << 20)))),
            path => panic!("{path}"),
        }
    })
    .await;
    for path in ["silent", "fails", "moved", "prose", "shape", "none", "blank", "large", "huge"] {
        let row = json!({"url": host.url(&format!("/{path}")), "status": "published",
            "timeout_seconds": if path == "silent" { 0.05 } else { 20.0 }});
        corpus(&caller, path, row).await;
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    corpus(&caller, "down", json!({"url": format!("http://{nobody}/"), "status": "published"})).await;
    corpus(&caller, "private", json!({"url": "http://10.1.2.3/", "status": "published"})).await;
    corpus(
        &caller,
        "locked",
        json!({"url": host.url("/none"), "auth": "no-such-secret", "status": "published"}),
    )
    .await;
    corpus(&caller, "draft", json!({"url": "slate:K/policies"})).await;
    corpus(&caller, "old", json!({"url": "slate:K/policies", "status": "deprecated"})).await;
    corpus(&caller, "nowhere", json!({"url": "slate:Nope/x", "status": "published"})).await;
    for (i, (scope, reason)) in [
        (&[][..], "empty_scope"),
        (&["unknown"], "unknown_corpus"),
        (&["policy-engine", "unknown"], "unknown_corpus"),
        (&["policy-engine", "draft"], "corpus_not_published"),
        (&["old"], "corpus_not_published"),
        (&["hollow"], "empty_pack"),
        (&["nowhere"], "empty_pack"),
        (&["none", "hollow"], "empty_pack"),
        (&["blank"], "empty_pack"),
        (&["policy-engine", "silent"], "gateway_unreachable"),
        (&["down"], "gateway_unreachable"),
        (&["private"], "gateway_unreachable"),
        (&["fails"], "gateway_error"),
        (&["moved"], "gateway_error"),
        (&["prose"], "gateway_error"),
        (&["shape"], "gateway_error"),
        (&["large"], "gateway_error"),
        (&["huge"], "gateway_error"),
        (&["locked"], "gateway_error"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("r{i}");
        prefetch(&caller, &name, scope).await;
        let failed = open(&caller, &name, json!("refund")).await.ok(201);
        assert_eq!(
            (&failed["status"], &failed["next"]),
            (&json!("failed"), &json!("done")),
            "{scope:?} {failed}"
        );
        assert_eq!(failed["failure"]["reason"], reason, "{scope:?} {failed}");
        let detail = failed["failure"]["detail"].as_str().unwrap();
        assert!(!detail.is_empty() && !detail.contains("http"), "{detail}");
        assert_eq!(failed["working"], json!({"slots": {}, "notes": []}), "never a fake pack");
        assert!(failed["finished_at"].is_string());
        caller.get(&at(&failed, "/prompt")).await.problem(409, "prompt_unavailable");
        caller
            .post(&at(&failed, "/rounds"))
            .json(json!({"output": "x"}))
            .await
            .problem(409, "session_finished");
        let verified = caller.post(&at(&failed, "/verify")).await.ok(200);
        assert_eq!(
            (&verified["valid"], &verified["sealed"], &verified["records"]),
            (&json!(true), &json!(true), &json!(0))
        );
    }
    let failed = caller.get("/v1/sessions?status=failed").await.ok(200);
    assert_eq!(failed["items"].as_array().unwrap().len(), 19);
    // Each gateway was asked once, and none for a scope that could not be packed anyway.
    let silent = host.asked().iter().filter(|asked| asked.head.starts_with("post /silent")).count();
    let fails = host.asked().iter().filter(|asked| asked.head.starts_with("post /fails")).count();
    assert_eq!((silent, fails), (1, 1));
}

#[tokio::test]
async fn routes_that_pack_nothing_touch_no_corpus() {
    let (_server, caller) = world().await;
    for (id, retrieval) in [
        ("plain", Value::Null),
        ("none", json!({"mode": "none", "scope": ["unknown"]})),
        ("tools", json!({"mode": "tool", "scope": ["unknown"]})),
    ] {
        route(&caller, id, retrieval).await;
        let opened = open(&caller, id, json!("refund")).await.ok(201);
        assert_eq!(
            (&opened["status"], &opened["working"]),
            (&json!("open"), &json!({"slots": {}, "notes": []})),
            "{id}"
        );
        let prompt = caller.get(&at(&opened, "/prompt")).await.ok(200);
        assert_eq!(prompt["prompt"], "## Question\n?\n\n## Docs\n");
        let records = caller.get(&at(&opened, "/provenance")).await.ok(200);
        assert_eq!(records["items"], json!([]));
    }
}

#[tokio::test]
async fn a_route_must_be_published_and_the_rest_sound() {
    let (_server, caller) = world().await;
    prefetch(&caller, "memo", &["policy-engine"]).await;
    caller.put("/v1/catalog/routes/memo/2").json(json!({"retrieval": null})).await.expect(201);
    let with = |version: Value| {
        let mut body = session("memo", json!("refund"));
        body["route"]["route_version"] = version;
        caller.post("/v1/sessions").json(body)
    };
    with(json!("2")).await.invalid_at("/route");
    with(json!("3")).await.invalid_at("/route");
    with(json!("")).await.invalid_at("/route/route_version");
    assert_eq!(with(json!(1)).await.ok(201)["route"]["route_version"], "1");
    let mut body = session("memo", json!(["refund"]));
    caller.post("/v1/sessions").json(body.clone()).await.invalid_at("/goal");
    body["goal"] = json!("x");
    body["retrieve"]["to"]["slate"] = json!("Nope");
    caller.post("/v1/sessions").json(body).await.problem(404, "not_found");
    let deprecated = json!({"retrieval": {"mode": "deterministic_prefetch", "scope": ["policy-engine"]}, "status": "deprecated"});
    caller.put("/v1/catalog/routes/memo/1").json(deprecated).await.expect(200);
    with(json!("1")).await.invalid_at("/route");
    assert_eq!(caller.get("/v1/sessions").await.ok(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn no_goal_packs_the_first_passages_and_a_key_opens_one_session() {
    let (_server, caller) = world().await;
    prefetch(&caller, "memo", &["product-faq"]).await;
    let mut body = session("memo", Value::Null);
    body.as_object_mut().unwrap().shift_remove("goal");
    let send = || caller.post("/v1/sessions").header("Idempotency-Key", "one").json(body.clone());
    let first = send().await.ok(201);
    assert_eq!(first["working"]["slots"]["prefetch"]["chunks"][0]["score"], 0.0);
    assert_eq!(send().await.ok(201), first);
    assert_eq!(caller.get("/v1/sessions").await.ok(200)["items"].as_array().unwrap().len(), 1);
    let yaml = "retrieve: {to: {slate: K}, as: Docs, maxRounds: 2, requestMatch: {type: object, properties: {files: {type: array}}}}\n\
                route: {route_id: memo, route_version: 1}\ngoal: nine\n";
    let opened = caller.post("/v1/sessions").body("application/yaml", yaml).await.ok(201);
    assert_eq!(opened["working"]["slots"]["prefetch"]["chunks"][0]["id"], "hours.md#1");
}

/// What an existing runtime does: reads the catalogue's row, posts to its URL, and makes lines of the chunks.
#[tokio::test]
async fn an_existing_runtimes_client_works_unchanged() {
    let (_server, caller) = world().await;
    let gateway = format!("{}/v1/search/assistant", caller.base);
    let row = json!({"display_name": "Policies", "owner": "legal", "url": gateway, "collection": "policy-engine",
        "status": "published", "region": "eu"});
    corpus(&caller, "policies", row).await;

    let found = caller.get("/v1/catalog/corpora/policies").await.ok(200);
    assert_eq!((&found["status"], &found["region"]), (&json!("published"), &json!("eu")));
    let path = found["url"].as_str().unwrap().strip_prefix(&caller.base).unwrap();
    let request =
        json!({"collection": found["collection"], "goal": {"topic": "Until when can I have a refund?"}});
    let answer = caller.post(path).json(request).await.ok(200);
    let lines: Vec<String> = (answer["chunks"].as_array().unwrap().iter())
        .map(|chunk| {
            format!("[policies:{}] {}", chunk["id"].as_str().unwrap(), chunk["text"].as_str().unwrap())
        })
        .collect();
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("[policies:refunds.md#1] # Refunds\n\nThe refund window is 30 days."),
        "{lines:?}"
    );
}
