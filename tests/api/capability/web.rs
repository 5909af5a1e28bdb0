//! The web: real servers on loopback, which only these tests' configuration allows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{reason, retrieve};
use crate::support::{Caller, Server};

/// A server that answers each connection with what `answer` makes of the request's head, byte for byte.
pub struct Remote {
    pub address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Remote {
    pub async fn start(answer: impl Fn(usize, &str) -> Vec<u8> + Send + Sync + 'static) -> Remote {
        Remote::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), answer)
    }

    /// The same on a listener that there is.
    pub fn on(
        listener: TcpListener,
        answer: impl Fn(usize, &str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Remote {
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let (count, answer) = (asked.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (count, answer) = (count.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                            return;
                        }
                        head.push(byte[0]);
                    }
                    let n = count.fetch_add(1, Ordering::SeqCst) + 1;
                    let _ = stream.write_all(&answer(n, &String::from_utf8(head).unwrap())).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Remote { address, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

pub fn response(head: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub async fn allowing() -> (Server, Caller) {
    let server =
        Server::start_with(|config| config.outbound.outbound_allow = vec!["127.0.0.0/8".parse().unwrap()])
            .await;
    let caller = server.tenant("acme").await;
    (server, caller)
}

pub async fn get(caller: &Caller, url: &str) -> Value {
    retrieve(caller, json!({"target": url})).await
}

#[tokio::test]
async fn a_document_of_the_web() {
    let (_server, caller) = allowing().await;
    let body = br#"{"openapi": "3.1.0", "info": {"title": "T", "version": "v2.0.0"}}"#;
    let remote = Remote::start(move |_, _| {
        response(
            "200 OK\r\ncontent-type: application/json\r\nlast-modified: Wed, 21 Oct 2015 07:28:00 GMT",
            body,
        )
    })
    .await;
    let url = remote.url("/openapi.json");
    let unregistered = get(&caller, &url).await;
    assert_eq!(
        (&unregistered["citation"]["authority"], &unregistered["confidence"]),
        (&json!("low"), &json!(0.85))
    );
    let api = json!({"base_url": remote.url("/")});
    caller.put("/v1/sources/apis/docs").json(api).await.expect(201);
    let mut found = retrieve(&caller, json!({"target": url, "format": "json"})).await;
    found["provenance_id"].take();
    found["retrieved"]["timestamp"].take();
    assert_eq!(
        found,
        json!({
            "provenance_id": null,
            "retrieved": {"target": url, "source": "web:127.0.0.1", "timestamp": null,
                          "data": {"openapi": "3.1.0", "info": {"title": "T", "version": "v2.0.0"}},
                          "format": "json", "complete": true},
            "citation": {"reference": url, "version": "v2.0.0", "hash": found["citation"]["hash"], "authority": "medium"},
            "provenance": {"source_type": "web", "last_modified": "2015-10-21T07:28:00Z", "freshness": "fresh",
                           "reliability": "Fetched over plain HTTP with status 200; not versioned here, and its SHA-256 \
                                           was taken of all its bytes."},
            "extraction": {"applied_filters": null, "original_size": body.len(), "returned_size": body.len(),
                           "truncated": false},
            "confidence": 0.95,
            "evidence_anchors": [format!("url:{url}")],
            "assumptions": [],
        })
    );
    let hash = &found["citation"]["hash"];
    let resolve =
        |hash: Value| caller.post("/v1/citations/resolve").json(json!({"reference": url, "hash": hash}));
    assert_eq!(resolve(hash.clone()).await.ok(200)["status"], "verified");
    let other = format!("sha256:{}", "0".repeat(64));
    let changed = resolve(json!(other)).await.ok(200);
    assert_eq!((&changed["status"], &changed["hash"]), (&json!("changed"), hash));
}

#[tokio::test]
async fn what_servers_do() {
    let (_server, caller) = allowing().await;
    for (name, answer, expected) in [
        ("missing", response("404 Not Found", b""), "not_found"),
        ("gone", response("410 Gone", b""), "gone"),
        ("closed", response("403 Forbidden", b""), "refused"),
        ("failing", response("501 Not Implemented", b""), "unreachable"),
        ("reset", Vec::new(), "unreachable"),
        ("html", response("200 OK\r\ncontent-type: application/json", b"<html>"), "format_mismatch"),
        ("loop", response("302 Found\r\nlocation: /loop", b""), "unreachable"),
        ("file", response("302 Found\r\nlocation: file:///etc/passwd", b""), "refused"),
        ("private", response("302 Found\r\nlocation: http://10.0.0.1/", b""), "refused"),
        ("limited", response("429 Too Many Requests\r\nretry-after: 3600", b""), "rate_limited"),
    ] {
        let remote = Remote::start(move |_, _| answer.clone()).await;
        let found = get(&caller, &remote.url("/x?token=hunter2")).await;
        assert_eq!(reason(&found), expected, "{name}");
        assert!(!found["failure"].to_string().contains("hunter2"), "{name}");
    }
}

#[tokio::test]
async fn it_is_tried_again_and_that_is_told() {
    let (_server, caller) = allowing().await;
    let remote = Remote::start(|n, _| match n {
        1 => response("503 Service Unavailable\r\nretry-after: 0", b""),
        2 => response("500 Internal Server Error", b""),
        _ => response("200 OK\r\ncontent-type: text/plain; charset=utf-8\r\netag: \"e\"", b"yes"),
    })
    .await;
    let found = get(&caller, &remote.url("/")).await;
    assert_eq!((&found["retrieved"]["data"], remote.asked()), (&json!("yes"), 3));
    assert_eq!(found["citation"]["version"], "\"e\"");
    assert!(found["assumptions"][0].as_str().unwrap().contains("3 times"));
}

#[tokio::test]
async fn encodings_and_bodies_that_end_early() {
    let (_server, caller) = allowing().await;
    let utf16: Vec<u8> =
        [0xfeff_u16].into_iter().chain("naïve\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let remote = Remote::start(move |_, head| match head {
        head if head.contains("/utf16") => response("200 OK\r\ncontent-type: text/plain", &utf16),
        head if head.contains("/plain") => response("200 OK\r\ncontent-type: text/plain", b"plain"),
        _ => b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 100\r\n\r\nhalf"
            .to_vec(),
    })
    .await;
    let found = get(&caller, &remote.url("/utf16")).await;
    assert_eq!(found["retrieved"]["data"], "naïve\n");
    let guessed = get(&caller, &remote.url("/plain")).await;
    // Of the web, of an unknown age, of nobody's authority, and in an encoding that nothing tells.
    assert_eq!(
        (&guessed["confidence"], &guessed["provenance"]["freshness"]),
        (&json!(0.7), &json!("unknown"))
    );
    let half = get(&caller, &remote.url("/half")).await;
    assert_eq!((&half["retrieved"]["data"], &half["retrieved"]["complete"]), (&json!("half"), &json!(false)));
    assert_eq!(
        (&half["citation"]["hash"], &half["extraction"]["original_size"]),
        (&Value::Null, &json!(100))
    );
    assert_eq!(half["extraction"]["truncated"], true);
}

#[tokio::test]
async fn a_redirect_is_cited_by_where_it_led() {
    let (_server, caller) = allowing().await;
    let remote = Remote::start(|_, head| match head.starts_with("GET /old") {
        true => response("301 Moved Permanently\r\nlocation: /new", b""),
        false => response("200 OK\r\ncontent-type: text/plain; charset=utf-8", b"here"),
    })
    .await;
    let found = get(&caller, &remote.url("/old")).await;
    assert_eq!(found["citation"]["reference"], remote.url("/new"));
}

/// Spellings of addresses that no request may go to. Where there is a port to it, the sentinel listens there.
const HOSTILE: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "0.0.0.0",
    "0",
    "0x0",
    "127.127.127.127",
    "127.000.000.001",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "10.0.0.1",
    "10.1",
    "167772161",
    "0xa000001",
    "012.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.1",
    "3232235521",
    "0xc0a80001",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fc00::1]",
    "[fec0::1]",
    "[ff02::1]",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "198.18.0.1",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
];

#[tokio::test]
async fn no_spelling_of_a_private_address_is_reached() {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    let sentinel = Remote::start(|_, _| response("200 OK", b"reached")).await;
    assert!(HOSTILE.len() >= 60);
    for host in HOSTILE {
        let url = format!("http://{host}:{}/x", sentinel.address.port());
        let reply = caller.post("/v1/retrieve").json(json!({"target": url})).await;
        match reply.status {
            // A resolver need not know every spelling of a name.
            200 if host.starts_with(['l', 'L']) => {
                assert!(["refused", "unreachable"].contains(&reason(&reply.ok(200))), "{host}");
            }
            200 => assert_eq!(reason(&reply.ok(200)), "refused", "{host}"),
            // No URL at all.
            status => assert_eq!(status, 422, "{host}"),
        }
    }
    assert_eq!(sentinel.asked(), 0);
}
