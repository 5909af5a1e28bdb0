//! Refusals, the framework's own included, look alike.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::json;

use crate::support::Server;

#[tokio::test]
async fn paths_and_methods_that_are_not_there() {
    let server = Server::start().await;
    let key = server.tenant("acme").await;
    for path in ["/v2", "/docs/none", "/v1", "/v1/none", "/v1/settings/", "/v1//settings"] {
        key.get(path).await.problem(404, "not_found");
    }
    key.anonymous().get("/v1/none").await.problem(401, "unauthorized");
    let reply = key.delete("/v1/settings").await;
    let mut allowed: Vec<_> = reply.header("allow").split(", ").map(String::from).collect();
    allowed.sort();
    assert_eq!(allowed, ["GET", "PUT"]);
    assert_eq!(reply.problem(405, "method_not_allowed")["instance"], "/v1/settings");
    server.operator.request("BREW", "/v1/tenants/acme").await.problem(405, "method_not_allowed");
    key.post("/healthz").await.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn bodies_that_are_wrong() {
    let server = Server::start().await;
    let post = || server.operator.post("/v1/tenants");
    for (body, status, code) in [
        ("", 400, "malformed_json"),
        ("{\"name\":", 400, "malformed_json"),
        ("{} {}", 400, "malformed_json"),
        ("{\"name\": nul}", 400, "malformed_json"),
        ("[]", 422, "invalid"),
        ("{\"name\": \"a\", \"name\": \"b\"}", 422, "invalid"),
        ("{\"name\": 1e400}", 422, "invalid"),
        ("{\"name\": \"\\ud800\"}", 422, "invalid"),
    ] {
        post().body("application/json", body).await.problem(status, code);
    }
    post().body("application/json", &b"{\"name\": \"\xff\"}"[..]).await.problem(400, "malformed_json");
    post().body("application/json", "[".repeat(100_000)).await.problem(400, "malformed_json");
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/yaml", "nonsense"] {
        post().body(media_type, "{\"name\": \"a\"}").await.problem(415, "unsupported_media_type");
    }
    post().await.problem(415, "unsupported_media_type");
    let packed = post().json(json!({"name": "a"})).header("content-encoding", "gzip");
    packed.await.problem(415, "unsupported_media_type");
    let long = "{\"name\": \"b\", \"x\": {\"y\": [1, 123456789012345678901234567890]}}";
    post().body("application/json", long).await.invalid_at("/x/y/1");
    post().body("application/json; charset=utf-8", "{\"name\": \"a\"}").await.expect(201);
}

#[tokio::test]
async fn bodies_that_are_too_large() {
    let server = Server::start().await;
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(8 << 20));
    let post = || server.operator.post("/v1/tenants");
    post().body("application/json", large.clone()).await.problem(413, "body_too_large");
    post().body("application/json", unannounced(&large)).await.problem(413, "body_too_large");
    post().json(json!({"name": "a"})).header("idempotency-key", "k").await.expect(201);
    let under_a_key = post().body("application/json", large).header("idempotency-key", "k2");
    under_a_key.await.problem(413, "body_too_large");
}

/// A body whose length is not told.
fn unannounced(text: &str) -> reqwest::Body {
    let pieces: Vec<_> =
        text.as_bytes().chunks(64 << 10).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    reqwest::Body::wrap_stream(futures_util::stream::iter(pieces))
}

/// Sends bytes as they are, and reads all that comes back.
fn raw(server: &Server, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.operator.base.strip_prefix("http://").unwrap()).unwrap();
    let mut answer = Vec::new();
    // A server that refuses a head may close before it has read all of it.
    let _ = stream.write_all(request).and_then(|()| stream.shutdown(Shutdown::Write));
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn urls_that_no_client_should_send() {
    let server = Server::start().await;
    let key = server.tenant("acme").await;
    let token = server.operator.token.as_deref().unwrap();
    for path in ["/v1/tenants/%zz", "/v1/tenants/%2", "/v1/tenants/%ff", "/v1/tenants?limit=%ff", "/v1/%"] {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        let answer = raw(&server, head.as_bytes());
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains("/problems/bad_request"),
            "{path}: {answer}"
        );
    }
    key.get("/v1/settings?x=%00").await.problem(422, "invalid");
    server.operator.get("/v1/tenants/a%00b").await.problem(422, "invalid");
    server.operator.get("/v1/tenants/a%2Fb").await.problem(404, "not_found");
    server.operator.get("/v1/tenants/%C3%A9").await.problem(404, "not_found");
    let head = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "x".repeat(200_000));
    let answer = raw(&server, head.as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    key.get("/v1/settings").await.expect(200);
}
