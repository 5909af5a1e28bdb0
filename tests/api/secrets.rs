//! Secrets: stored, listed by name, replaced, deleted, and never given out.

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use serde_json::json;
use slatebase::error::Code;
use slatebase::secrets::ops;

use crate::support::{Caller, Server};

async fn names(caller: &Caller) -> Vec<String> {
    let list = caller.get("/v1/secrets").await.ok(200);
    list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// What a source would send.
async fn revealed(server: &Server, caller: &Caller, name: &'static str) -> Option<String> {
    let keys = server.app.secrets.clone();
    let found = server.tenant_tx(caller, move |tx, ctx| ops::reveal(tx, ctx, &keys, name)).await;
    found.map(|value| value.expose().to_owned())
}

#[tokio::test]
async fn a_secret_comes_in_and_never_goes_out() {
    let (server, caller) = Server::with_slate().await;
    let put = |value: &str| caller.put("/v1/secrets/token").json(json!({"value": value}));
    let made = put("hunter2-first").await.expect(201);
    let replaced = put("hunter2-second").await.expect(200);
    for reply in [&made, &replaced, &caller.get("/v1/secrets").await] {
        assert!(!reply.text().contains("hunter2"), "{}", reply.text());
    }
    let members: Vec<String> = made.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["name", "created_at", "updated_at"]);
    assert_eq!(made.json()["created_at"], replaced.json()["created_at"]);
    assert_eq!(revealed(&server, &caller, "token").await.as_deref(), Some("hunter2-second"));
    assert_eq!(revealed(&server, &caller, "other").await, None);
    assert_eq!(revealed(&server, &caller, "not a name").await, None);
    // Nor is there a way to ask for one.
    caller.get("/v1/secrets/token").await.problem(405, "method_not_allowed");
    caller.delete("/v1/secrets/token").await.expect(204);
    caller.delete("/v1/secrets/token").await.problem(404, "not_found");
    assert_eq!(revealed(&server, &caller, "token").await, None);
}

#[tokio::test]
async fn what_is_stored_is_encrypted_and_bound_to_its_place() {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = Text)]
        line: String,
    }
    let (server, caller) = Server::with_slate().await;
    let other = server.tenant("other").await;
    caller.put("/v1/secrets/a").json(json!({"value": "hunter2"})).await.expect(201);
    caller.put("/v1/secrets/b").json(json!({"value": "hunter2"})).await.expect(201);
    other.put("/v1/secrets/a").json(json!({"value": "of another"})).await.expect(201);
    let stored = "select s::text || encode(ciphertext, 'escape') as line from secrets s";
    let rows: Vec<Row> = sql_query(stored).load(&mut server.superuser()).unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| !row.line.contains("hunter2")));
    // A row that is given to somebody else opens nothing.
    sql_query(
        "update secrets x set key_id = y.key_id, nonce = y.nonce, ciphertext = y.ciphertext from secrets y \
         where x.name = 'a' and y.name = 'b' ",
    )
    .execute(&mut server.superuser())
    .unwrap();
    for caller in [&caller, &other] {
        let (keys, ctx) = (server.app.secrets.clone(), server.local(caller));
        let opened = server.app.db.tenant(ctx.tenant, move |tx| ops::reveal(tx, &ctx, &keys, "a")).await;
        let error = opened.unwrap_err();
        assert_eq!(error.code, Code::SecretsUnavailable);
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
    assert_eq!(revealed(&server, &caller, "b").await.as_deref(), Some("hunter2"));
}

#[tokio::test]
async fn lists_are_in_byte_order_and_in_pages() {
    let (_server, caller) = Server::with_slate().await;
    for name in ["b", "A", "a", "_"] {
        caller.put(&format!("/v1/secrets/{name}")).json(json!({"value": "x"})).await.expect(201);
    }
    assert_eq!(names(&caller).await, ["A", "_", "a", "b"]);
    let first = caller.get("/v1/secrets?limit=3").await.ok(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = caller.get(&format!("/v1/secrets?limit=3&cursor={cursor}")).await.ok(200);
    assert_eq!((&rest["items"][0]["name"], &rest["next_cursor"]), (&json!("b"), &json!(null)));
}

#[tokio::test]
async fn wrong_secrets_are_refused_by_pointer() {
    let (_server, caller) = Server::with_slate().await;
    for (body, at) in [
        (json!({}), ""),
        (json!({"value": ""}), "/value"),
        (json!({"value": 1}), "/value"),
        (json!({"value": "a\u{0}"}), "/value"),
        (json!({"value": "x".repeat(65_537)}), "/value"),
        (json!({"value": "x", "more": "y"}), "/more"),
    ] {
        caller.put("/v1/secrets/s").json(body).await.invalid_at(at);
    }
    caller.put("/v1/secrets/a%20b").json(json!({"value": "x"})).await.invalid_at("");
    caller.put("/v1/secrets/s").json(json!({"value": "x".repeat(65_536)})).await.expect(201);
}

#[tokio::test]
async fn without_a_key_nothing_is_stored_and_all_else_works() {
    let server = Server::start_with(|config| config.secrets.secrets_key = None).await;
    let caller = server.tenant("acme").await;
    caller.put("/v1/secrets/s").json(json!({"value": "x"})).await.problem(409, "secrets_unavailable");
    assert!(names(&caller).await.is_empty());
    caller.put("/v1/slates/K").await.expect(201);
}
