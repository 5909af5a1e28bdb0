//! Hosts that mean harm, or fail, and names that do not lead where they seem to.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use slatebase::outbound::address::Lookup;
use slatebase::outbound::{Call, Failure, Outbound, OutboundConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::web::{Remote, allowing, get, response};
use super::{reason, retrieve};

#[tokio::test]
async fn what_is_not_whole_says_so() {
    let (_server, caller) = allowing().await;
    let remote = Remote::start(|_, head| {
        let text = "content-type: text/plain; charset=utf-8";
        match head.split(' ').nth(1).unwrap() {
            "/part" => response(&format!("206 Partial Content\r\n{text}\r\ncontent-range: bytes 0-3/9"), b"part"),
            "/brotli" => response(&format!("200 OK\r\n{text}\r\ncontent-encoding: br"), b"\x0b\x02\x80abc\x03"),
            "/json" => b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{\"a\": [1,".to_vec(),
            "/utf16" => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-16le\r\ncontent-length: 99\r\n\r\n";
                [head.as_bytes(), &[b'h', 0, b'i', 0, b'!']].concat()
            }
            _ => response(&format!("200 OK\r\n{text}"), b"whole"),
        }
    })
    .await;
    let part = get(&caller, &remote.url("/part")).await;
    assert_eq!((&part["retrieved"]["data"], &part["retrieved"]["complete"]), (&json!("part"), &json!(false)));
    assert_eq!((&part["citation"]["hash"], &part["extraction"]["truncated"]), (&Value::Null, &json!(true)));
    assert_eq!(reason(&get(&caller, &remote.url("/brotli")).await), "format_mismatch");
    let cut = get(&caller, &remote.url("/json")).await;
    assert_eq!(reason(&cut), "unreachable");
    assert_eq!(cut["failure"]["partial"], "9 bytes were read.");
    let utf16 = get(&caller, &remote.url("/utf16")).await;
    assert_eq!((&utf16["retrieved"]["data"], &utf16["retrieved"]["complete"]), (&json!("hi"), &json!(false)));
    let bytes = retrieve(&caller, json!({"target": remote.url("/part"), "format": "binary"})).await;
    assert_eq!(
        (&bytes["extraction"]["truncated"], &bytes["retrieved"]["complete"]),
        (&json!(true), &json!(false))
    );
    let fragment = get(&caller, &remote.url("/whole#there")).await;
    assert_eq!(fragment["citation"]["reference"], remote.url("/whole"));
    assert!(fragment["assumptions"].to_string().contains("fragment"));
}

#[tokio::test]
async fn what_unpacks_for_ever_is_cut() {
    let (_server, caller) = allowing().await;
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&b"bomb\n".repeat(4 << 20)).unwrap();
    let bomb = bomb.finish().unwrap();
    let remote = Remote::start(move |_, _| {
        response("200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-encoding: gzip", &bomb)
    })
    .await;
    let found = get(&caller, &remote.url("/")).await;
    assert_eq!(found["retrieved"]["data"].as_str().unwrap().len(), 16 << 20);
    assert_eq!(
        (&found["retrieved"]["complete"], &found["extraction"]["truncated"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(found["citation"]["hash"], Value::Null);
}

#[tokio::test]
async fn a_version_that_is_wanted_must_be_there() {
    let (_server, caller) = allowing().await;
    let remote = Remote::start(|_, head| match head.starts_with("GET /none") {
        true => response("200 OK\r\ncontent-type: text/plain", b"x"),
        false => response("200 OK\r\ncontent-type: application/json\r\netag: \"e\"", br#"{"version": 2}"#),
    })
    .await;
    let versioned =
        |path: &str, version: Value| json!({"target": remote.url(path), "constraints": {"version": version}});
    assert_eq!(retrieve(&caller, versioned("/", json!("2"))).await["citation"]["version"], "2");
    assert_eq!(reason(&retrieve(&caller, versioned("/", json!("3"))).await), "constraint_unmet");
    assert_eq!(reason(&retrieve(&caller, versioned("/none", json!("3"))).await), "constraint_unmet");
}

#[tokio::test]
async fn no_number_of_a_host_breaks_it() {
    let (_server, caller) = allowing().await;
    for (status, seconds, expected) in [
        ("503 Service Unavailable", "18446744073709551615", "unreachable"),
        ("500 Internal Server Error", "99999999999999999999999999", "unreachable"),
        // The host is left alone from here on.
        ("429 Too Many Requests", "18446744073709551615", "rate_limited"),
    ] {
        let remote =
            Remote::start(move |_, _| response(&format!("{status}\r\nretry-after: {seconds}"), b"")).await;
        let (_server, caller) = if expected == "rate_limited" {
            (None, caller.clone())
        } else {
            let (server, caller) = allowing().await;
            (Some(server), caller)
        };
        assert_eq!(reason(&get(&caller, &remote.url("/")).await), expected, "{status}");
        assert_eq!(remote.asked(), 1, "{status}");
    }
}

/// Looks names up in a list whose last entry holds for ever.
struct Names {
    answers: Vec<Vec<&'static str>>,
    asked: AtomicUsize,
}

impl Lookup for Names {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let n = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let found = self.answers[n].iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
        Box::pin(async move { Ok(found) })
    }
}

/// A client to which 127.0.0.2 stands for a public address, and all else on loopback for a private one.
fn client(answers: &[&[&'static str]]) -> Outbound {
    let config = OutboundConfig { outbound_allow: vec!["127.0.0.2".parse().unwrap()], outbound_rate: 100 };
    let answers = answers.iter().map(|answer| answer.to_vec()).collect();
    Outbound::with_resolver(&config, Arc::new(Names { answers, asked: AtomicUsize::new(0) })).unwrap()
}

fn call(url: &str) -> Call {
    Call::get(url.parse().unwrap(), Duration::from_secs(20), 1000)
}

/// A server on 127.0.0.2, and a sentinel at the same port of 127.0.0.1.
async fn pair(answer: impl Fn(usize, &str) -> Vec<u8> + Send + Sync + 'static) -> (Remote, Remote) {
    let open = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let sentinel = TcpListener::bind(("127.0.0.1", open.local_addr().unwrap().port())).await.unwrap();
    (Remote::on(open, answer), Remote::on(sentinel, |_, _| response("200 OK", b"reached")))
}

#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_refused_at_every_look_up() {
    const OPEN: &[&str] = &["127.0.0.2"];
    let (open, sentinel) = pair(|_, head| match head.starts_with("GET /again") {
        true => response("302 Found\r\nlocation: /", b""),
        false => response("200 OK", b"open"),
    })
    .await;
    let url = |path: &str| format!("http://name.test:{}{path}", open.address.port());
    let refused = |result: Result<slatebase::outbound::Answer, Failure>| match result {
        Err(Failure::Refused { host, .. }) => assert_eq!(host, "name.test"),
        other => panic!("{other:?}"),
    };
    for private in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fd00::1"]
    {
        refused(client(&[&[private]]).send(&call(&url("/"))).await);
    }
    // One address of several may be reached, and only that one is.
    for mixed in [&["127.0.0.1", "127.0.0.2"], &["127.0.0.2", "127.0.0.1"], &["::1", "127.0.0.2"]] {
        assert_eq!(client(&[mixed]).send(&call(&url("/"))).await.unwrap().body, b"open");
    }
    // It leads elsewhere when it is looked up for the second request, or for the redirect.
    let rebound = client(&[OPEN, &["127.0.0.1"]]);
    assert_eq!(rebound.send(&call(&url("/"))).await.unwrap().body, b"open");
    refused(rebound.send(&call(&url("/"))).await);
    refused(client(&[OPEN, &["127.0.0.1"]]).send(&call(&url("/again"))).await);
    assert_eq!(sentinel.asked(), 0);
}

#[tokio::test]
async fn the_host_that_asks_to_be_left_alone_is() {
    let (busy, _sentinel) = pair(|_, _| response("429 Too Many Requests\r\nretry-after: 60", b"")).await;
    let there = format!("http://busy.test:{}/", busy.address.port());
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let door = Remote::on(listener, move |n, _| match n {
        1 => response(&format!("302 Found\r\nlocation: {there}"), b""),
        _ => response("200 OK", b"door"),
    });
    let outbound = client(&[&["127.0.0.2"]]);
    let url = format!("http://door.test:{}/", door.address.port());
    let limited = |host: &str| Failure::RateLimited { host: host.into(), seconds: 60 };
    assert_eq!(outbound.send(&call(&url)).await.unwrap_err(), limited("busy.test"));
    // Who only led there is not.
    assert_eq!(outbound.send(&call(&url)).await.unwrap().body, b"door");
    let busy_url = format!("http://busy.test.:{}/", busy.address.port());
    assert!(matches!(outbound.send(&call(&busy_url)).await, Err(Failure::RateLimited { .. })));
    assert_eq!(busy.asked(), 1);
}

#[tokio::test]
async fn what_leads_in_a_circle_is_not_tried_again() {
    let (circle, _sentinel) = pair(|_, _| response("302 Found\r\nlocation: /", b"")).await;
    let url = format!("http://name.test:{}/", circle.address.port());
    let call = Call { retries: 2, ..call(&url) };
    assert!(matches!(client(&[&["127.0.0.2"]]).send(&call).await, Err(Failure::Unreachable { .. })));
    assert_eq!(circle.asked(), 6);
}

#[tokio::test]
async fn what_drips_is_given_up() {
    for head in ["", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100000\r\n\r\n"] {
        let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let drip = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            // Until the other side hangs up.
            while stream.write_all(b"H").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let call = Call { timeout: Duration::from_millis(200), ..call(&url) };
        let failure = client(&[&["127.0.0.2"]]).send(&call).await.unwrap_err();
        assert!(matches!(failure, Failure::Timeout { .. }), "{head:?}: {failure:?}");
        drip.await.unwrap();
    }
}
