//! `Idempotency-Key`.

use std::future::IntoFuture;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use serde_json::json;

use crate::support::{Request, Server, eventually};

fn create(server: &Server, name: &str, key: &str) -> Request {
    server.operator.post("/v1/tenants").json(json!({"name": name})).header("idempotency-key", key)
}

fn count(connection: &mut PgConnection, condition: &str) -> i64 {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    let query = format!("select count(*) from idempotency_keys where {condition}");
    diesel::sql_query(query).get_result::<Row>(connection).unwrap().count
}

#[tokio::test]
async fn the_first_result_is_replayed() {
    let server = Server::start().await;
    let first = create(&server, "acme", "k").await.expect(201);
    assert_eq!(first.header("idempotency-replayed"), "");
    let again = create(&server, "acme", "k").await.expect(201);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.header("content-type"), "application/json");
    assert_eq!(again.body, first.body);
    // Also when the first result was a refusal.
    let refused = create(&server, "acme", "other").await.expect(409);
    let again = create(&server, "acme", "other").await.expect(409);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.header("content-type"), "application/problem+json");
    assert_eq!(again.body, refused.body);
}

#[tokio::test]
async fn another_request_under_the_key_is_refused() {
    let server = Server::start().await;
    create(&server, "acme", "k").await.expect(201);
    create(&server, "other", "k").await.problem(422, "idempotency_mismatch");
    for path in ["/v1/tenants?x=1", "/v1/tenants/acme/keys"] {
        let other = server.operator.post(path).json(json!({"name": "acme"})).header("idempotency-key", "k");
        other.await.problem(422, "idempotency_mismatch");
    }
    create(&server, "other", "k2").await.expect(201);
}

#[tokio::test]
async fn keys_that_are_none() {
    let server = Server::start().await;
    for key in ["", "a b", &"x".repeat(256)] {
        create(&server, "acme", key).await.problem(422, "invalid");
    }
    create(&server, "acme", "a").header("idempotency-key", "b").await.problem(422, "invalid");
    create(&server, "acme", &"x".repeat(255)).await.expect(201);
}

#[tokio::test]
async fn a_secret_is_never_replayed() {
    let server = Server::start().await;
    server.operator.post("/v1/tenants").json(json!({"name": "acme"})).await.expect(201);
    let make = |label: &str| {
        let body = json!({"label": label, "scopes": ["read"]});
        server.operator.post("/v1/tenants/acme/keys").json(body).header("idempotency-key", "k")
    };
    let token = make("x").await.ok(201)["token"].clone();
    let again = make("x").await;
    assert!(!again.text().contains(token.as_str().unwrap()));
    again.problem(409, "secret_already_shown");
    make("y").await.problem(422, "idempotency_mismatch");
    let keys = server.operator.get("/v1/tenants/acme/keys").await.ok(200);
    assert_eq!(keys["items"].as_array().unwrap().len(), 1);
    assert_eq!(count(&mut server.superuser(), "body is not null"), 0);
}

#[tokio::test]
async fn one_call_at_a_time_and_one_that_lost_its_client_is_finished() {
    let server = Server::start().await;
    let (mut admin, mut watch) = (server.superuser(), server.superuser());
    admin.batch_execute("begin; lock table tenants in exclusive mode").unwrap();
    let first = tokio::spawn(create(&server, "acme", "k").into_future());
    eventually("the first call holds the key", || count(&mut watch, "status is null") == 1).await;
    create(&server, "acme", "k").await.problem(409, "idempotency_running");
    create(&server, "other", "k").await.problem(422, "idempotency_mismatch");
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    admin.batch_execute("commit").unwrap();
    eventually("what came of it is kept", || count(&mut watch, "status = 201") == 1).await;
    let retry = create(&server, "acme", "k").await.expect(201);
    assert_eq!(retry.header("idempotency-replayed"), "true");
}

#[tokio::test]
async fn a_failure_frees_the_key() {
    let server = Server::start_with(|config| config.database.statement_timeout_ms = 300).await;
    let mut admin = server.superuser();
    admin.batch_execute("begin; lock table tenants in exclusive mode").unwrap();
    let failed = create(&server, "acme", "k").await;
    assert_eq!(failed.header("retry-after"), "1");
    failed.problem(503, "query_timeout");
    admin.batch_execute("commit").unwrap();
    let retry = create(&server, "acme", "k").await.expect(201);
    assert_eq!(retry.header("idempotency-replayed"), "");
}

#[tokio::test]
async fn a_dead_call_and_an_old_result_free_the_key() {
    let server = Server::start().await;
    let mut admin = server.superuser();
    create(&server, "acme", "k").await.expect(201);
    admin
        .batch_execute("update idempotency_keys set status = null, body = null, lease_until = now()")
        .unwrap();
    create(&server, "other", "k").await.expect(201);
    let a_day_later = "update idempotency_keys set created_at = now() - interval '24 hours'";
    admin.batch_execute(a_day_later).unwrap();
    create(&server, "third", "k").await.expect(201);
    admin.batch_execute(a_day_later).unwrap();
    create(&server, "fourth", "k4").await.expect(201);
    assert_eq!(count(&mut admin, "true"), 1);
}

#[tokio::test]
async fn the_key_belongs_to_its_caller() {
    let server = Server::start().await;
    create(&server, "acme", "k").await.expect(201);
    let key = server.key("acme", json!({"scopes": ["read"]})).await;
    // Who may not do it at all leaves no trace, and learns nothing of what else is wrong.
    for idempotency_key in ["k", "no key"] {
        let other = key.post("/v1/tenants").body("text/plain", "x".repeat(2 << 20));
        other.header("idempotency-key", idempotency_key).await.problem(403, "forbidden");
    }
    assert_eq!(count(&mut server.superuser(), "true"), 1);
}
