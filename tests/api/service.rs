//! Health, metrics, documentation, compression, overload, and how the server stops.

use std::future::IntoFuture;
use std::net::TcpStream;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use serde_json::json;
use slatebase::http::server;

use crate::support::{Caller, Server, eventually};

/// How many of the server's statements wait for a lock.
fn waiting(connection: &mut PgConnection) -> i64 {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    let query = "select count(*) from pg_stat_activity \
                 where datname = current_database() and wait_event_type = 'Lock'";
    diesel::sql_query(query).get_result::<Row>(connection).unwrap().count
}

#[tokio::test]
async fn health_needs_no_key() {
    let server = Server::start().await;
    let anyone = server.operator.anonymous();
    assert_eq!(anyone.get("/healthz").await.expect(200).text(), "ok");
    assert_eq!(anyone.get("/readyz").await.expect(200).text(), "ok");
    server
        .superuser()
        .batch_execute("update __diesel_schema_migrations set version = version || 'x'")
        .unwrap();
    let unready = anyone.get("/readyz").await;
    assert_eq!(unready.header("retry-after"), "1");
    unready.problem(503, "unavailable");
    anyone.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn when_every_connection_is_busy_the_answer_is_overload() {
    let server = Server::start().await;
    let (mut admin, mut watch) = (server.superuser(), server.superuser());
    admin.batch_execute("begin; lock table tenants in access exclusive mode").unwrap();
    let list = || tokio::spawn(server.operator.get("/v1/tenants").into_future());
    let stuck: Vec<_> = (0..4).map(|_| list()).collect();
    eventually("four requests wait for the lock", || waiting(&mut watch) == 4).await;
    let refused = server.operator.get("/v1/tenants").await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.problem(503, "overloaded");
    server.operator.get("/readyz").await.problem(503, "overloaded");
    server.operator.get("/healthz").await.expect(200);
    admin.batch_execute("commit").unwrap();
    for reply in stuck {
        reply.await.unwrap().expect(200);
    }
}

#[tokio::test]
async fn metrics_count_routes_and_never_paths() {
    let server = Server::start().await;
    server.operator.get("/v1/tenants/some-name").await.expect(404);
    server.operator.get("/unheard-of").await.expect(404);
    server.operator.request("BREW", "/healthz").await.expect(405);
    let reply = server.operator.anonymous().get("/metrics").await.expect(200);
    assert!(reply.header("content-type").starts_with("text/plain; version=0.0.4"));
    let text = reply.text();
    let counted =
        "slatebase_http_requests_total{method=\"GET\",route=\"/v1/tenants/{tenant}\",status=\"404\"}";
    assert!(text.contains(counted), "{text}");
    assert!(text.contains("slatebase_http_request_seconds_bucket{"));
    assert!(text.contains("method=\"other\""));
    assert!(["some-name", "unheard-of", "BREW"].iter().all(|word| !text.contains(word)), "{text}");
}

#[tokio::test]
async fn the_documentation_is_served() {
    let server = Server::start().await;
    let anyone = server.operator.anonymous();
    let document = anyone.get("/openapi.json").await.expect(200);
    assert_eq!(document.header("content-type"), "application/json");
    assert_eq!(document.json()["openapi"], "3.1.0");
    // The client follows the redirect.
    let page = anyone.get("/docs").await.expect(200);
    assert!(page.header("content-type").starts_with("text/html") && page.text().contains("swagger"));
    assert!(anyone.get("/docs/swagger-initializer.js").await.expect(200).text().contains("/openapi.json"));
}

#[tokio::test]
async fn the_root_is_a_page_for_browsers_and_an_address_for_programs() {
    let server = Server::start().await;
    let anyone = server.operator.anonymous();
    let info = anyone.get("/").await.ok(200);
    assert_eq!((&info["openapi"], &info["ready"]), (&json!("/openapi.json"), &json!(true)));
    let browser = || anyone.get("/").header("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let page = browser().await.expect(200);
    assert!(page.header("content-type").starts_with("text/html") && page.header("vary").contains("accept"));
    assert!(page.text().contains("href=\"/docs\"") && page.text().contains("It is well"));
    server
        .superuser()
        .batch_execute("update __diesel_schema_migrations set version = version || 'x'")
        .unwrap();
    assert!(browser().await.expect(200).text().contains("not ready"));
    assert_eq!(anyone.get("/").await.ok(200)["ready"], false);
}

#[tokio::test]
async fn what_has_an_entity_tag_is_not_compressed() {
    let server = Server::start().await;
    let key = server.tenant("acme").await;
    let get = |path: &str| key.get(path).header("accept-encoding", "gzip, br;q=0.5");
    assert_eq!(get("/openapi.json").await.header("content-encoding"), "gzip");
    let settings = get("/v1/settings").await.expect(200);
    assert_eq!(settings.header("content-encoding"), "");
    assert_eq!(settings.json()["session_retention_days"], 90);
    // A refusal that came through compression is still one that can be read.
    get("/v1/none").await.problem(404, "not_found");
    let nothing = key.get("/v1/settings").header("accept-encoding", "identity;q=0, *;q=0");
    nothing.await.problem(406, "not_acceptable");
}

#[tokio::test]
async fn no_answer_may_be_taken_for_another_type() {
    let server = Server::start().await;
    for path in ["/healthz", "/v1/tenants", "/none"] {
        assert_eq!(server.operator.get(path).await.header("x-content-type-options"), "nosniff");
    }
}

#[tokio::test]
async fn stopping_finishes_what_is_in_flight() {
    let server = Server::start().await;
    let second = server::run(server.app.clone(), server.config()).await.unwrap();
    let address = second.address;
    let caller = Caller::new(format!("http://{address}"), server.operator.token.clone());
    let (mut admin, mut watch) = (server.superuser(), server.superuser());
    admin.batch_execute("begin; lock table tenants in access exclusive mode").unwrap();
    let in_flight = tokio::spawn(caller.post("/v1/tenants").json(json!({"name": "late"})).into_future());
    eventually("the request waits for the lock", || waiting(&mut watch) == 1).await;
    let stopping = tokio::spawn(second.stop());
    eventually("it takes no more requests", || TcpStream::connect(address).is_err()).await;
    admin.batch_execute("commit").unwrap();
    in_flight.await.unwrap().expect(201);
    stopping.await.unwrap();
    server.operator.get("/v1/tenants/late").await.expect(200);
}
