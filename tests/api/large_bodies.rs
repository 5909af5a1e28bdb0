//! Bodies above 1 MiB: only so many are in memory at once, whichever way they go.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::support::{Caller, Server, eventually};

/// A server that holds one large body at a time, with an empty slate `K`.
async fn narrow() -> (Server, Caller) {
    let server = Server::start_with(|config| config.max_large_bodies = 1).await;
    let caller = server.tenant("acme").await;
    caller.put("/v1/slates/K").json(json!({})).await.expect(201);
    (server, caller)
}

/// Sends the head of a request, and leaves the rest to the test.
fn begin(caller: &Caller, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(caller.base.strip_prefix("http://").unwrap()).unwrap();
    let token = caller.token.as_deref().unwrap();
    write!(stream, "{head} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n").unwrap();
    stream
}

/// Reads on until the text `end` has come.
fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.ends_with(end) {
        assert!(stream.read(&mut byte).unwrap() == 1, "the connection ended after {text:?}");
        text.push(byte[0].into());
    }
    text
}

#[tokio::test]
async fn an_upload_waits_its_turn_and_is_then_refused() {
    let (server, caller) = narrow().await;
    let large = vec![b'x'; 2 << 20];
    let mut slow = begin(&caller, "PUT /v1/slates/K/files/slow");
    write!(slow, "Content-Length: {}\r\n\r\n", large.len()).unwrap();
    let free = || server.app.large_bodies.available_permits();
    eventually("the slow upload is let in", || free() == 0).await;
    let refused = caller.put("/v1/slates/K/files/other").body("text/plain", large.clone()).await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.problem(503, "overloaded");
    caller.put("/v1/slates/K/files/small").body("text/plain", "x").await.expect(201);
    slow.write_all(&large).unwrap();
    assert!(read_to(&mut slow, "\r\n").starts_with("HTTP/1.1 201"));
    caller.put("/v1/slates/K/files/other").body("text/plain", large).await.expect(201);
}

#[tokio::test]
async fn an_upload_whose_client_goes_makes_room() {
    let (server, caller) = narrow().await;
    let mut gone = begin(&caller, "PUT /v1/slates/K/files/gone");
    write!(gone, "Content-Length: 9000000\r\n\r\nxxx").unwrap();
    let free = || server.app.large_bodies.available_permits();
    eventually("the upload is let in", || free() == 0).await;
    drop(gone);
    eventually("there is room again", || free() == 1).await;
    caller.get("/v1/slates/K/files/gone").await.problem(404, "not_found");
}

#[tokio::test]
async fn a_download_counts_until_its_last_byte_is_taken() {
    let (server, caller) = narrow().await;
    let large = vec![b'x'; 32 << 20];
    caller.put("/v1/slates/K/files/large").body("text/plain", large.clone()).await.expect(201);
    let free = || server.app.large_bodies.available_permits();
    eventually("the upload is done with", || free() == 1).await;
    let mut slow = begin(&caller, "GET /v1/slates/K/files/large");
    write!(slow, "\r\n").unwrap();
    let head = read_to(&mut slow, "\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.to_lowercase().contains("content-length: 33554432\r\n"),
        "{head}"
    );
    assert_eq!(caller.get("/v1/slates/K/files/large").await.status, 503);
    caller.get("/v1/slates/K/files/large").header("range", "bytes=0-9").await.expect(206);
    let mut rest = vec![0; large.len()];
    slow.read_exact(&mut rest).unwrap();
    assert!(rest == large);
    eventually("there is room again", || free() == 1).await;
    // The connection goes on, and so does who reads in time.
    write!(slow, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_to(&mut slow, "\r\n").starts_with("HTTP/1.1 200"));
    assert!(caller.get("/v1/slates/K/files/large").await.expect(200).body == large);
}

#[tokio::test]
async fn a_download_whose_client_goes_makes_room() {
    let (server, caller) = narrow().await;
    caller.put("/v1/slates/K/files/large").body("text/plain", vec![b'x'; 32 << 20]).await.expect(201);
    let free = || server.app.large_bodies.available_permits();
    eventually("the upload is done with", || free() == 1).await;
    let mut gone = begin(&caller, "GET /v1/slates/K/files/large");
    write!(gone, "\r\n").unwrap();
    read_to(&mut gone, "\r\n\r\n");
    drop(gone);
    eventually("there is room again", || free() == 1).await;
}

/// A prompt, and the list of rounds, hold again all that the session was shown.
#[tokio::test]
async fn what_a_session_was_shown_counts_where_it_is_much() {
    let (server, caller) = narrow().await;
    let free = || server.app.large_bodies.available_permits();
    let text = vec![b'x'; 24 << 20];
    caller.put("/v1/slates/K/files/large").body("text/plain", text.clone()).await.expect(201);
    caller.put("/v1/slates/K/files/small").body("text/plain", "x").await.expect(201);
    let grant = json!({"type": "object", "properties": {"files": {}}});
    let limits = json!({"maxBytesPerRound": 64 << 20, "maxTotalBytes": 64 << 20});
    let retrieve = json!({"to": {"slate": "K", "folder": ""}, "as": "Docs", "maxRounds": 2, "requestMatch": grant, "limits": limits});
    let mut sessions = Vec::new();
    for file in ["large", "small"] {
        let opened = caller.post("/v1/sessions").json(json!({"retrieve": retrieve})).await.ok(201);
        let session = format!("/v1/sessions/{}", opened["session_id"].as_str().unwrap());
        let round = caller
            .post(&format!("{session}/rounds"))
            .json(json!({"output": {"files": [file]}}))
            .await
            .ok(200);
        assert_eq!(round["items"][0]["status"], "fetched");
        sessions.push(session);
    }
    eventually("the upload is done with", || free() == 1).await;
    for what in ["prompt", "rounds"] {
        let (large, small) = (format!("{}/{what}", sessions[0]), format!("{}/{what}", sessions[1]));
        let mut slow = begin(&caller, &format!("GET {large}"));
        write!(slow, "\r\n").unwrap();
        assert!(read_to(&mut slow, "\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert_eq!(free(), 0);
        caller.get(&large).await.problem(503, "overloaded");
        caller.get(&small).await.expect(200);
        drop(slow);
        eventually("there is room again", || free() == 1).await;
        let whole = caller.get(&large).await.expect(200);
        assert_eq!(whole.header("content-type"), "application/json");
        let whole = whole.json();
        let shown =
            if what == "prompt" { &whole["prompt"] } else { &whole["items"][0]["items"][0]["content"] };
        assert!(shown.as_str().unwrap().contains(std::str::from_utf8(&text).unwrap()));
        eventually("there is room again", || free() == 1).await;
    }
}

#[tokio::test]
async fn after_a_head_the_connection_goes_on() {
    let (_server, caller) = narrow().await;
    caller.put("/v1/slates/K/files/large").body("text/plain", vec![b'x'; 2 << 20]).await.expect(201);
    let mut stream = begin(&caller, "HEAD /v1/slates/K/files/large");
    write!(stream, "\r\n").unwrap();
    let head = read_to(&mut stream, "\r\n\r\n").to_lowercase();
    assert!(head.starts_with("http/1.1 200") && head.contains("content-length: 2097152\r\n"), "{head}");
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_to(&mut stream, "\r\n\r\nok").starts_with("HTTP/1.1 200"));
}
