//! The catalogue: corpora, and versions of routes and capabilities.

use serde_json::{Value, json};

use crate::support::{Caller, Server, at_once};

fn without_times(mut row: Value) -> Value {
    for member in ["created_at", "updated_at"] {
        assert!(row.as_object_mut().unwrap().shift_remove(member).is_some_and(|at| at.is_string()), "{row}");
    }
    row
}

async fn ids(caller: &Caller, list: &str, members: &[&str]) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = caller.get(&format!("/v1/catalog/{list}?limit=2{cursor}")).await.ok(200);
        for item in page["items"].as_array().unwrap() {
            ids.push(members.iter().map(|m| item[*m].as_str().unwrap()).collect::<Vec<_>>().join("/"));
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

#[tokio::test]
async fn a_corpus_is_given_back_as_it_was_given() {
    let (_server, caller) = Server::with_slate().await;
    let path = "/v1/catalog/corpora/policy-engine";
    let row = json!({"region": {"b": [1, null], "a": "\u{0}"}, "url": "slate:K/policies", "display_name": "Policies",
        "owner": null, "status": "published", "collection": "p", "auth": "none", "timeout_seconds": 2.5, "max_chunks": 7});
    let made = caller.put(path).json(row.clone()).await.ok(201);
    assert_eq!(caller.get(path).await.ok(200), made);
    let mut expected = row;
    expected["corpus_id"] = json!("policy-engine");
    assert_eq!(without_times(made.clone()), expected);
    let order: Vec<&String> = made.as_object().unwrap().keys().collect();
    assert_eq!(order[..4], ["corpus_id", "region", "url", "display_name"]);
    // What was given back can be sent again, and changes nothing.
    assert_eq!(caller.put(path).json(made.clone()).await.ok(200), made);

    let bare = caller
        .put("/v1/catalog/corpora/bare")
        .json(json!({"url": "https://gateway.example/x"}))
        .await
        .ok(201);
    let expected = json!({"corpus_id": "bare", "url": "https://gateway.example/x", "collection": "bare", "status": "draft"});
    assert_eq!(without_times(bare), expected);
    caller.delete(path).await.expect(204);
    caller.get(path).await.problem(404, "not_found");
    caller.delete(path).await.problem(404, "not_found");
}

#[tokio::test]
async fn wrong_corpora_are_refused_by_pointer() {
    let (_server, caller) = Server::with_slate().await;
    for (body, at) in [
        (json!({}), "/url"),
        (json!({"url": "ftp://x"}), "/url"),
        (json!({"url": "slate:K/../x"}), "/url"),
        (json!({"url": "slate:K", "status": "active"}), "/status"),
        (json!({"url": "slate:K", "corpus_id": "other"}), "/corpus_id"),
        (json!({"url": "slate:K", "owner": "a\u{0}"}), "/owner"),
        (json!({"url": "slate:K", "timeout_seconds": 61}), "/timeout_seconds"),
        (json!({"url": "slate:K", "max_chunks": 0}), "/max_chunks"),
        (json!({"url": "slate:K", "auth": {"bearer": "x"}}), "/auth"),
    ] {
        caller.put("/v1/catalog/corpora/c").json(body).await.invalid_at(at);
    }
    caller.put("/v1/catalog/corpora/a%20b").json(json!({"url": "slate:K"})).await.invalid_at("");
    caller.put("/v1/catalog/corpora/c").body("application/json", "[]").await.invalid_at("");
    for id in ["a%20b", "%C3%A9", "nope"] {
        caller.get(&format!("/v1/catalog/corpora/{id}")).await.problem(404, "not_found");
    }
    assert_eq!(caller.get("/v1/catalog/corpora").await.ok(200)["items"], json!([]));
}

#[tokio::test]
async fn lists_are_in_byte_order_and_in_pages() {
    let (_server, caller) = Server::with_slate().await;
    for id in ["b", "A", "a", "b-1", "b.1"] {
        caller.put(&format!("/v1/catalog/corpora/{id}")).json(json!({"url": "slate:K"})).await.expect(201);
    }
    assert_eq!(ids(&caller, "corpora", &["corpus_id"]).await, ["A", "a", "b", "b-1", "b.1"]);
    for name in ["r/2", "r/1", "r/10", "q/9"] {
        caller.put(&format!("/v1/catalog/routes/{name}")).json(json!({})).await.expect(201);
        caller.put(&format!("/v1/catalog/capabilities/{name}")).json(json!({})).await.expect(201);
    }
    let all = ["q/9", "r/1", "r/10", "r/2"];
    assert_eq!(ids(&caller, "routes", &["route_id", "route_version"]).await, all);
    assert_eq!(ids(&caller, "capabilities", &["capability_id", "version"]).await, all);
    caller.get("/v1/catalog/routes?cursor=x").await.invalid_at("/cursor");
}

#[tokio::test]
async fn the_entity_tag_guards_a_row() {
    let (_server, caller) = Server::with_slate().await;
    for (path, body, other) in [
        ("corpora/c", json!({"url": "slate:K"}), json!({"url": "slate:K/x"})),
        ("routes/r/1", json!({}), json!({"prompt": "x"})),
        ("capabilities/t/1", json!({}), json!({"display_name": "x"})),
    ] {
        let path = &format!("/v1/catalog/{path}");
        let put = |body: &Value| caller.put(path).json(body.clone());
        put(&body).header("if-match", "*").await.problem(412, "precondition_failed");
        let etag = put(&body).header("if-none-match", "*").await.expect(201).header("etag").to_owned();
        caller.get(path).header("if-none-match", &etag).await.expect(304);
        put(&body).header("if-none-match", "*").await.problem(412, "precondition_failed");
        assert_eq!(put(&body).header("if-match", &etag).await.expect(200).header("etag"), etag);
        let fresh = put(&other).header("if-match", &etag).await.expect(200).header("etag").to_owned();
        assert_ne!(fresh, etag);
        put(&body).header("if-match", &etag).await.problem(412, "precondition_failed");
        let replies = at_once((0..4).map(|_| put(&body).header("if-match", &fresh))).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412, 412, 412], "{path}");
    }
    caller
        .delete("/v1/catalog/corpora/c")
        .header("if-match", "\"x\"")
        .await
        .problem(412, "precondition_failed");
}

#[tokio::test]
async fn a_published_version_keeps_what_it_says() {
    let (_server, caller) = Server::with_slate().await;
    let route = json!({"retrieval": {"mode": "deterministic_prefetch", "scope": ["b", "a"]},
        "tools": [{"capability_id": "weather", "capability_version": "1"}], "prompt": "Be brief."});
    let capability = json!({"display_name": "Weather", "input_schema": {"type": "object"},
        "output_schema": {"properties": {"b": {}, "a": {}}},
        "invoke": {"method": "GET", "url": "https://tools.example/w", "auth": "key"}});
    for (path, body, names) in [
        ("routes/memo/1", route, json!({"route_id": "memo", "route_version": "1"})),
        ("capabilities/weather/1", capability, json!({"capability_id": "weather", "version": "1"})),
    ] {
        let path = &format!("/v1/catalog/{path}");
        let put = |status: &str, change: Value| {
            let mut body = body.clone();
            body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            body["status"] = json!(status);
            caller.put(path).json(body)
        };
        put("draft", json!({})).await.expect(201);
        put("draft", names.clone()).await.expect(200);
        let published = put("published", json!({})).await.ok(200);
        let mut expected = names;
        expected.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        expected["status"] = json!("published");
        assert_eq!(without_times(published.clone()), expected);
        for (status, change) in [
            ("published", json!({})),
            ("draft", json!({})),
            (
                "deprecated",
                if path.contains("routes") { json!({"prompt": "x"}) } else { json!({"invoke": null}) },
            ),
        ] {
            put(status, change).await.problem(409, "version_published");
        }
        assert_eq!(caller.get(path).await.ok(200), published);
        put("deprecated", json!({})).await.expect(200);
        put("draft", json!({})).await.problem(409, "version_published");
        let again = put("published", json!({})).await.ok(200);
        assert_eq!(without_times(again), expected);
        caller.get(&path.replace("/1", "/2")).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn wrong_versions_are_refused_by_pointer() {
    let (_server, caller) = Server::with_slate().await;
    let prefetch = |scope: Value| json!({"retrieval": {"mode": "deterministic_prefetch", "scope": scope}});
    for (path, body, at) in [
        ("routes/r/1", prefetch(json!(["http://x/y"])), "/retrieval/scope/0"),
        ("routes/r/1", prefetch(json!(["a", {"url": "x"}])), "/retrieval/scope/1"),
        ("routes/r/1", prefetch(json!(["a", "a"])), "/retrieval/scope/1"),
        ("routes/r/1", json!({"retrieval": {"mode": "retrieve"}}), "/retrieval/mode"),
        ("routes/r/1", json!({"retrieval": {"mode": "none", "urls": []}}), "/retrieval/urls"),
        ("routes/r/1", json!({"retrieve": null}), "/retrieve"),
        ("routes/r/1", json!({"tools": [{"capability_id": "a"}]}), "/tools/0"),
        ("routes/r/1", json!({"route_version": "2"}), "/route_version"),
        ("routes/r/1", json!({"status": "active"}), "/status"),
        ("routes/r%20/1", json!({}), ""),
        ("capabilities/t/1", json!({"input_schema": {"type": "nothing"}}), "/input_schema/type"),
        ("capabilities/t/1", json!({"output_schema": {"$ref": "http://x/"}}), "/output_schema"),
        ("capabilities/t/1", json!({"invoke": {"url": "file:///etc/passwd"}}), "/invoke/url"),
        ("capabilities/t/1", json!({"invoke": {"method": "DELETE"}}), "/invoke/method"),
        ("capabilities/slate_retrieve/1", json!({}), ""),
    ] {
        caller.put(&format!("/v1/catalog/{path}")).json(body).await.invalid_at(at);
    }
}

#[tokio::test]
async fn the_catalogue_is_written_by_admins_and_read_by_readers() {
    let (server, caller) = Server::with_slate().await;
    let path = "/v1/catalog/corpora/c";
    let reader = server.key("acme", json!({"scopes": ["read"]})).await;
    reader.put(path).json(json!({"url": "slate:K"})).await.problem(403, "forbidden");
    caller.put(path).json(json!({"url": "slate:K"})).await.expect(201);
    reader.get(path).await.expect(200);
    reader.delete(path).await.problem(403, "forbidden");

    // A key that is bound to other slates sees no corpus in this one, nor puts one there.
    caller.put("/v1/catalog/corpora/far").json(json!({"url": "https://gateway.example/"})).await.expect(201);
    let bound = server.key("acme", json!({"scopes": ["read", "admin"], "slates": ["L"]})).await;
    bound.get(path).await.problem(404, "not_found");
    bound.put(path).json(json!({"url": "slate:L"})).await.problem(404, "not_found");
    bound.put("/v1/catalog/corpora/d").json(json!({"url": "slate:K"})).await.problem(404, "not_found");
    bound.delete(path).await.problem(404, "not_found");
    assert_eq!(ids(&bound, "corpora", &["corpus_id"]).await, ["far"]);
    bound.put("/v1/catalog/corpora/d").json(json!({"url": "slate:L"})).await.expect(201);
}

#[tokio::test]
async fn erasing_a_tenant_takes_its_catalogue() {
    let (server, caller) = Server::with_slate().await;
    caller.put("/v1/catalog/corpora/c").json(json!({"url": "slate:K"})).await.expect(201);
    caller.put("/v1/catalog/routes/r/1").json(json!({})).await.expect(201);
    server.operator.delete("/v1/tenants/acme").await.expect(204);
    let again = server.tenant("acme").await;
    assert_eq!(again.get("/v1/catalog/corpora").await.ok(200)["items"], json!([]));
}
