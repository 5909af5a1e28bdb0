//! An older runtime's client, unchanged: one fixed token, the paths that it asks, and the gateway at a corpus's `url`.

use serde_json::{Value, json};
use slatebase::http::server::Running;

use crate::support::{Caller, Server};

const FIXED: &str = "fabric-internal";

/// A server over the slate `K`, another over the same database that takes fixed tokens and knows where it is reached, and a
/// caller of each. The catalogue has a corpus in the slate, and one whose URL is the second server's gateway.
async fn world() -> (Server, Caller, Running, Caller) {
    let (server, acme) = Server::with_slate().await;
    server
        .fill(&acme, "K", json!({"policies/refunds.md": "# Refunds\n\nThe refund window is 30 days.\n"}))
        .await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (running, there) = server
        .beside_with(&acme, |config| {
            config.listen = free.to_string();
            config.fixed_tokens = true;
            config.public_url = Some(format!("http://{free}").parse().unwrap());
        })
        .await;
    let put = async |id: &str, row: Value| {
        there.put(&format!("/v1/catalog/corpora/{id}")).json(row).await.expect(201);
    };
    put("policies", json!({"url": "slate:K/policies", "status": "published"})).await;
    let url = format!("http://{free}/v1/search/policy-engine");
    put("policy-engine", json!({"url": url, "collection": "policies", "status": "published"})).await;
    let lost =
        json!({"url": format!("http://{free}/v1/search"), "collection": "nope", "status": "published"});
    put("lost", lost).await;
    for (id, corpus) in [("memo", "policy-engine"), ("gone", "lost")] {
        let retrieval = json!({"mode": "deterministic_prefetch", "scope": [corpus]});
        let route = json!({"retrieval": retrieval, "status": "published"});
        there.put(&format!("/v1/catalog/routes/{id}/1")).json(route).await.expect(201);
    }
    let tool = json!({"display_name": "The weather", "status": "published"});
    there.put("/v1/catalog/capabilities/weather/2").json(tool).await.expect(201);
    (server, acme, running, there)
}

fn number(caller: &Caller) -> String {
    caller.token.as_ref().unwrap().split('_').nth(2).unwrap().to_owned()
}

#[tokio::test]
async fn its_whole_exchange_is_answered() {
    let (server, _, running, there) = world().await;
    let operator = there.with_token(server.operator.token.as_ref().unwrap());
    let alias = format!("/v1/tenants/acme/keys/{}/alias", number(&there));
    operator.put(&alias).json(json!({"token": FIXED})).await.expect(204);

    let old = there.with_token(FIXED);
    let route = old.get("/v1/catalog/routes/memo?route_version=1").await.expect(200);
    assert_eq!(route.text(), there.get("/v1/catalog/routes/memo/1").await.expect(200).text());
    let etag = route.header("etag").to_owned();
    old.get("/v1/catalog/routes/memo?route_version=1").header("If-None-Match", &etag).await.expect(304);
    assert_eq!(route.json()["retrieval"]["scope"], json!(["policy-engine"]));
    old.get("/v1/catalog/routes/memo?route_version=2").await.problem(404, "not_found");
    let capability = old.get("/v1/capabilities/weather/versions/2").await.ok(200);
    assert_eq!(capability, there.get("/v1/catalog/capabilities/weather/2").await.ok(200));
    old.get("/v1/capabilities/slate_retrieve/versions/1").await.expect(200);
    for none in ["workflows/memo", "prompts/memo", "manifests/memo"] {
        old.get(&format!("/v1/{none}")).await.problem(404, "not_found");
        old.get(&format!("/v1/catalog/{none}")).await.problem(404, "not_found");
    }
    let corpus = old.get("/v1/catalog/corpora/policy-engine").await.ok(200);
    let (base, path) = corpus["url"].as_str().unwrap().split_once("/v1/").unwrap();
    assert_eq!(base, format!("http://{}", running.address));
    let asked =
        json!({"collection": corpus["collection"], "goal": {"question": "How long is the refund window?"}});
    let found = old.post(&format!("/v1/{path}")).json(asked).await.ok(200);
    assert!(found["chunks"][0]["text"].as_str().unwrap().contains("30 days"), "{found}");
    assert_eq!(found["chunks"][0]["id"], "refunds.md#1");
}

#[tokio::test]
async fn our_own_prefetch_takes_the_corpus_for_what_it_is() {
    let (_server, acme, _running, there) = world().await;
    let session = |route: &str| {
        let declaration = json!({"to": {"slate": "K"}, "as": "Docs", "maxRounds": 1,
            "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}});
        json!({"retrieve": declaration, "goal": "refund window", "route": {"route_id": route, "route_version": "1"}})
    };
    // Requests to this machine are not allowed, so one would be refused.
    let opened = there.post("/v1/sessions").json(session("memo")).await.ok(201);
    let chunk = &opened["working"]["slots"]["prefetch"]["chunks"][0];
    assert_eq!(
        (&chunk["corpus_id"], &chunk["id"]),
        (&json!("policy-engine"), &json!("refunds.md#1")),
        "{opened}"
    );
    assert!(chunk["citation"].as_str().unwrap().starts_with("slate://K/policies/refunds.md@1"));
    let lost = there.post("/v1/sessions").json(session("gone")).await.ok(201);
    assert_eq!(lost["failure"]["reason"], "gateway_error", "{lost}");
    assert!(lost["failure"]["detail"].as_str().unwrap().contains("`nope`"), "{lost}");
    // A server that does not know that the URL is its own asks.
    let asked = acme.post("/v1/sessions").json(session("memo")).await.ok(201);
    assert_eq!(asked["failure"]["reason"], "gateway_unreachable", "{asked}");
}

#[tokio::test]
async fn a_fixed_token_opens_one_key_and_only_where_that_is_wanted() {
    let (server, acme, _running, there) = world().await;
    let operator = there.with_token(server.operator.token.as_ref().unwrap());
    let other = server.tenant("other").await;
    let alias = |tenant: &str, caller: &Caller| format!("/v1/tenants/{tenant}/keys/{}/alias", number(caller));
    let mine = alias("acme", &acme);
    let old = there.with_token(FIXED);
    old.get("/v1/slates").await.problem(401, "unauthorized");
    for (wrong, at) in [
        (json!({}), ""),
        (json!({"token": "short"}), "/token"),
        (json!({"token": "slb_1_1_0"}), "/token"),
        (json!({"token": "two words of it"}), "/token"),
        (json!({"token": null}), "/token"),
    ] {
        operator.put(&mine).json(wrong).await.invalid_at(at);
    }
    server.operator.put(&mine).json(json!({"token": FIXED})).await.problem(409, "fixed_tokens_off");
    acme.put(&mine).json(json!({"token": FIXED})).await.problem(403, "forbidden");
    for _ in 0..2 {
        operator.put(&mine).json(json!({"token": FIXED})).await.expect(204);
    }
    assert_eq!(old.get("/v1/slates").await.ok(200)["items"][0]["name"], "K");
    // It is one key's, and the first server takes none.
    operator.put(&alias("other", &other)).json(json!({"token": FIXED})).await.problem(409, "already_exists");
    acme.with_token(FIXED).get("/v1/slates").await.problem(401, "unauthorized");
    operator
        .put("/v1/tenants/acme/keys/99999/alias")
        .json(json!({"token": "another-one"}))
        .await
        .problem(404, "not_found");
    operator
        .put("/v1/tenants/acme/keys/x/alias")
        .json(json!({"token": "another-one"}))
        .await
        .problem(404, "not_found");
    // The key's scopes are the token's.
    let reader = server.key("acme", json!({"scopes": ["read"]})).await;
    operator.put(&alias("acme", &reader)).json(json!({"token": "reader-token"})).await.expect(204);
    there.with_token("reader-token").put("/v1/slates/New").await.problem(403, "forbidden");
    // Another token takes its place, and what is free again may be given again.
    operator.put(&mine).json(json!({"token": "another-one"})).await.expect(204);
    old.get("/v1/slates").await.problem(401, "unauthorized");
    operator.put(&alias("other", &other)).json(json!({"token": FIXED})).await.expect(204);
    assert_eq!(old.get("/v1/slates").await.ok(200)["items"], json!([]));
    operator.delete(&alias("other", &other)).await.expect(204);
    operator.delete(&alias("other", &other)).await.problem(404, "not_found");
    old.get("/v1/slates").await.problem(401, "unauthorized");
    operator.delete(&format!("/v1/tenants/acme/keys/{}", number(&reader))).await.expect(204);
    there.with_token("reader-token").get("/v1/slates").await.problem(401, "unauthorized");
    operator.put(&alias("other", &other)).json(json!({"token": "reader-token"})).await.expect(204);
    operator.delete("/v1/tenants/other").await.expect(204);
    there.with_token("reader-token").get("/v1/slates").await.problem(401, "unauthorized");
}
