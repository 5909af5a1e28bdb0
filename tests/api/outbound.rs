//! The client for other hosts, against servers that misbehave.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::BoxFuture;
use slatebase::outbound::address::Lookup;
use slatebase::outbound::{Call, Cut, Failure, Outbound, OutboundConfig};
use url::Url;

use crate::capability::web::{Remote, response};

fn config(allow: &[&str]) -> OutboundConfig {
    let outbound_allow = allow.iter().map(|network| network.parse().unwrap()).collect();
    OutboundConfig { outbound_allow, outbound_rate: 100 }
}

fn get(url: &str) -> Call {
    Call::get(Url::parse(url).unwrap(), Duration::from_secs(20), 1 << 20)
}

/// A resolver whose answers come one after the other, the last one for ever.
struct Names {
    answers: Vec<&'static str>,
    asked: Arc<AtomicUsize>,
}

impl Lookup for Names {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let n = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let found =
            self.answers[n].split(' ').map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect();
        Box::pin(async move { Ok(found) })
    }
}

#[tokio::test]
async fn a_name_is_judged_by_the_address_that_is_connected_to() {
    let sentinel = Remote::start(|_, _| response("200 OK", b"reached")).await;
    let port = sentinel.address.port();
    // Every look-up is judged, whatever the one before it said: the first passes and leads to another loopback address.
    let asked = Arc::new(AtomicUsize::new(0));
    let names = Names { answers: vec!["127.0.0.2", "127.0.0.1", "127.0.0.1"], asked: asked.clone() };
    let outbound = Outbound::with_resolver(&config(&["127.0.0.2"]), Arc::new(names)).unwrap();
    let url = format!("http://rebound.example:{port}/");
    let first = outbound.send(&get(&url)).await;
    assert!(!matches!(first, Err(Failure::Refused { .. })), "{first:?}");
    for _ in 0..2 {
        let failure = outbound.send(&get(&url)).await.unwrap_err();
        assert!(matches!(failure, Failure::Refused { .. }), "{failure}");
    }
    assert_eq!((asked.load(Ordering::SeqCst), sentinel.asked()), (3, 0));

    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "fd00::1",
        "0.0.0.0",
    ] {
        let names = Names { answers: vec![address], asked: Arc::default() };
        let outbound = Outbound::with_resolver(&config(&[]), Arc::new(names)).unwrap();
        let failure = outbound.send(&Call { retries: 3, ..get(&url) }).await.unwrap_err();
        assert!(matches!(failure, Failure::Refused { .. }), "{address}: {failure}");
        assert!(outbound.addresses("rebound.example").await.is_err(), "{address}");
    }
    // Of several addresses only the good ones are connected to.
    let names = Names { answers: vec!["10.0.0.1 127.0.0.1 ::1"], asked: Arc::default() };
    let outbound = Outbound::with_resolver(&config(&["127.0.0.1"]), Arc::new(names)).unwrap();
    assert_eq!(outbound.send(&get(&url)).await.unwrap().body, b"reached");
    assert_eq!(
        outbound.addresses("x.example").await.unwrap(),
        ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!(sentinel.asked(), 1);
}

#[tokio::test]
async fn redirects_are_judged_and_carry_nothing_to_others() {
    let sentinel = Remote::start(|_, head| {
        let told = ["hunter2", "x-key"].iter().any(|word| head.to_lowercase().contains(word));
        response("200 OK", format!("told {told}").as_bytes())
    })
    .await;
    let away = sentinel.url("/");
    let remote = Remote::start(move |_, head| match head {
        head if head.contains("/away") => {
            response(&format!("307 Temporary Redirect\r\nlocation: {away}"), b"")
        }
        head if head.contains("/private") => response("302 Found\r\nlocation: http://10.0.0.1/", b""),
        head if head.contains("/mapped") => response("302 Found\r\nlocation: http://[::ffff:10.0.0.1]/", b""),
        head if head.contains("/user") => response("302 Found\r\nlocation: http://u:p@127.0.0.1/", b""),
        _ => response("302 Found\r\nlocation: ftp://127.0.0.1/", b""),
    })
    .await;
    let outbound = Outbound::new(&config(&["127.0.0.1"])).unwrap();
    let with = |path: &str| {
        let mut call = get(&remote.url(path));
        call.headers.insert("authorization", "Bearer hunter2".parse().unwrap());
        call.headers.insert("x-key", "hunter2".parse().unwrap());
        call
    };
    assert_eq!(outbound.send(&with("/away")).await.unwrap().body, b"told false");
    for path in ["/private", "/mapped", "/user", "/ftp"] {
        let failure = outbound.send(&with(path)).await.unwrap_err();
        assert!(matches!(failure, Failure::Refused { .. }), "{path}: {failure}");
    }
    // What is posted goes nowhere else.
    let posted =
        Call::post(Url::parse(&remote.url("/away")).unwrap(), b"{}".to_vec(), Duration::from_secs(20), 100);
    assert_eq!(outbound.send(&posted).await.unwrap().status, 307);
    assert_eq!(sentinel.asked(), 1);
    let text =
        format!("{:?} {:?}", with("/away?key=hunter2"), outbound.send(&with("/away?key=hunter2")).await);
    assert!(!text.contains("hunter2") && !text.contains("away"), "{text}");
}

#[tokio::test]
async fn bytes_are_counted_as_they_are_decompressed() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..64).for_each(|_| bomb.write_all(&zeros).unwrap());
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let half = bomb[..bomb.len() / 2].to_vec();
    let remote = Remote::start(move |_, head| {
        let body = if head.contains("/half") { &half } else { &bomb };
        response("200 OK\r\ncontent-encoding: gzip", body)
    })
    .await;
    let outbound = Outbound::new(&config(&["127.0.0.1"])).unwrap();
    let answer = outbound.send(&get(&remote.url("/bomb"))).await.unwrap();
    assert_eq!((answer.body.len(), answer.cut), (1 << 20, Some(Cut::TooLarge)));
    let half = Call { max_bytes: 128 << 20, ..get(&remote.url("/half")) };
    let answer = outbound.send(&half).await.unwrap();
    assert!(answer.cut == Some(Cut::Ended) && answer.body.len() < 64 << 20, "{answer:?}");
}

#[tokio::test]
async fn a_slow_answer_ends_with_the_calls_time() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await;
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
    });
    let outbound = Outbound::new(&config(&["127.0.0.1"])).unwrap();
    let call = Call {
        timeout: Duration::from_millis(300),
        retries: 5,
        ..get(&format!("http://{address}/x?key=hunter2"))
    };
    let failure = outbound.send(&call).await.unwrap_err();
    assert!(
        matches!(failure, Failure::Timeout { .. }) && !failure.to_string().contains("hunter2"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_host_that_asks_for_peace_has_it() {
    let remote = Remote::start(|_, head| match head.contains("/limited") {
        true => response("429 Too Many Requests\r\nretry-after: 3600", b""),
        false => response("200 OK", b""),
    })
    .await;
    let other = Remote::start(|_, _| response("200 OK", b"")).await;
    let outbound = Outbound::new(&config(&["127.0.0.1"])).unwrap();
    let limited = |failure: Failure| match failure {
        Failure::RateLimited { seconds, .. } => seconds,
        other => panic!("{other}"),
    };
    let call = Call { retries: 3, ..get(&remote.url("/limited")) };
    assert_eq!(limited(outbound.send(&call).await.unwrap_err()), 3600);
    assert!(limited(outbound.send(&get(&remote.url("/"))).await.unwrap_err()) > 3000);
    assert_eq!(remote.asked(), 1);
    // Another port is another host.
    assert_eq!(outbound.send(&get(&other.url("/"))).await.unwrap().status, 200);

    // And one that asks for nothing is asked no oftener than the operator says.
    let slow = Outbound::new(&OutboundConfig { outbound_rate: 1, ..config(&["127.0.0.1"]) }).unwrap();
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(slow.send(&get(&other.url("/"))).await);
    }
    assert!(
        answers[0].is_ok() && answers.iter().any(|answer| matches!(answer, Err(Failure::RateLimited { .. })))
    );
}
