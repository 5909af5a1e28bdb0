//! Many files in one request of NDJSON.

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};

use crate::support::{Caller, Reply, Request, Server, at_once};

fn send(caller: &Caller, body: impl Into<String>) -> Request {
    caller.post("/v1/slates/K/files").body("application/x-ndjson", body.into())
}

fn answers(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/x-ndjson"));
    reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn each_line_is_answered_in_order_and_bad_ones_do_not_stop_the_rest() {
    let (_server, caller) = Server::with_slate().await;
    caller.put("/v1/slates/K").json(json!({"metatag_types": {"n": "number"}})).await.expect(200);
    let lines = [
        (r#"{"path":"a","content":"1"}"#, 201, ""),
        ("", 0, ""),
        ("  \t\r", 0, ""),
        ("{", 400, ""),
        ("\"x\"", 422, ""),
        (r#"{"path":"../x","content":""}"#, 422, "/path"),
        (r#"{"path":"b"}"#, 422, "/content"),
        (r#"{"path":"b","content":"","x":1}"#, 422, "/x"),
        (r#"{"path":"b","content":"","metatags":{"n":1e999}}"#, 422, "/metatags/n"),
        (r#"{"path":"b","content":"","metatags":{"n":"1"}}"#, 422, "/metatags/n"),
        (r#"{"path":"b","content":"","media_type":"x"}"#, 422, "/media_type"),
        (r#"{"path":"a/b","content":""}"#, 409, ""),
        (r#"{"path":"c/d","content":"","metatags":{"n":null}}"#, 201, ""),
        (r#"{"path":"c","content":""}"#, 409, ""),
        (r#"{"path":"a","content":"1"}"#, 200, ""),
        (r#"{"path":"a","content":"2"}"#, 200, ""),
        ("{\"path\":\"e\",\"content_base64\":\"/wA=\"}\r", 201, ""),
    ];
    let body = lines.map(|(line, ..)| line).join("\n");
    let answers = answers(&send(&caller, body).await);
    let expected = lines.iter().enumerate().filter(|(_, (_, status, _))| *status != 0);
    for (answer, (place, (line, status, pointer))) in answers.iter().zip(expected.clone()) {
        assert_eq!(answer["line"], place + 1, "{answer}");
        match status {
            200..=299 => assert_eq!(answer["status"], *status, "{line}: {answer}"),
            _ => {
                assert_eq!(answer["error"]["status"], *status, "{line}: {answer}");
                let at = answer["error"]["errors"][0]["pointer"].as_str().unwrap_or_default();
                assert_eq!(at, *pointer, "{answer}");
            }
        }
    }
    assert_eq!(answers.len(), expected.count());
    let of = |line: usize| answers.iter().find(|answer| answer["line"] == line).unwrap();
    assert_eq!((&of(15)["version"], &of(16)["version"]), (&json!(1), &json!(2)));
    assert_eq!(of(13)["null_metatags"], json!(["n"]));
    assert_eq!(of(12)["path"], "a/b");
    assert_eq!(caller.get("/v1/slates/K/files/a").await.text(), "2");
    assert_eq!(caller.get("/v1/slates/K/files/e").await.body, b"\xff\0");
    caller.get("/v1/slates/K/files/b").await.problem(404, "not_found");
}

#[tokio::test]
async fn many_batches_come_back_whole_to_a_client_that_sends_all_before_it_reads() {
    let (_server, caller) = Server::with_slate().await;
    let line =
        |n: usize| json!({"path": format!("d{}/f{n}", n % 7), "content": format!("text {n}")}).to_string();
    let body = (0..5000).map(line).collect::<Vec<_>>().join("\n") + "\n";
    let first = answers(&send(&caller, body.clone()).await);
    assert_eq!(first.len(), 5000);
    assert!(
        first.iter().enumerate().all(|(n, a)| a["line"] == n + 1 && a["status"] == 201 && a["version"] == 1)
    );
    let again = answers(&send(&caller, body).await);
    assert!(again.len() == 5000 && again.iter().all(|a| a["status"] == 200 && a["version"] == 1));
    let found = json!({"request": {"glob": "f*"}, "recursive": true, "limit": 1});
    assert_eq!(caller.post("/v1/slates/K/query").json(found).await.ok(200)["items"][0]["content"], "text 0");
}

#[tokio::test]
async fn a_path_twice_in_one_body_is_written_twice_in_order() {
    let (_server, caller) = Server::with_slate().await;
    let line = |n: usize| json!({"path": "a", "content": n.to_string(), "metatags": {"n": n}}).to_string();
    let replies = answers(&send(&caller, (1..=20).map(line).collect::<Vec<_>>().join("\n")).await);
    for (n, answer) in replies.iter().enumerate() {
        assert_eq!(
            (&answer["version"], &answer["status"]),
            (&json!(n + 1), &json!(if n == 0 { 201 } else { 200 }))
        );
    }
    assert_eq!(caller.get("/v1/slates/K/files/a").await.text(), "20");
    assert_eq!(caller.get("/v1/slates/K/metatags/a").await.ok(200), json!({"n": 20}));
}

#[tokio::test]
async fn two_spellings_of_a_name_in_one_body_conflict() {
    let (_server, caller) = Server::with_slate().await;
    let line = |path: &str| json!({"path": path, "content": ""}).to_string();
    let body = [line("caf\u{e9}"), line("cafe\u{301}"), line("cafe\u{301}/x")].join("\n");
    let replies = answers(&send(&caller, body).await);
    assert_eq!(replies[0]["status"], 201);
    assert_eq!((&replies[1]["error"]["status"], &replies[2]["error"]["status"]), (&json!(409), &json!(409)));
}

#[tokio::test]
async fn large_lines_pass_and_a_slate_that_is_not_there_is_404() {
    let (_server, caller) = Server::with_slate().await;
    let text = "x".repeat(9 << 20);
    let line = |path: &str, text: &str| json!({"path": path, "content": text}).to_string();
    let body = [line("a", &text), line("b", &text), line("c", "small")].join("\n");
    let replies = answers(&send(&caller, body).await);
    assert!(replies.len() == 3 && replies.iter().all(|answer| answer["status"] == 201), "{replies:?}");
    assert_eq!(caller.head("/v1/slates/K/files/b").await.header("content-length"), text.len().to_string());
    let body = line("a", "x");
    let elsewhere = caller.post("/v1/slates/none/files").body("application/x-ndjson", body);
    elsewhere.await.problem(404, "not_found");
    assert!(answers(&send(&caller, "").await).is_empty());
}

#[tokio::test]
async fn lines_before_one_that_is_too_long_are_written() {
    let (_server, caller) = Server::with_slate().await;
    let long = "x".repeat(97 << 20);
    let body = format!("{}\n{}", json!({"path": "a", "content": "1"}), json!({"path": "b", "content": long}));
    let replies = answers(&send(&caller, body).await);
    assert_eq!((&replies[0]["status"], &replies[1]["error"]["status"]), (&json!(201), &json!(413)));
    assert_eq!(caller.get("/v1/slates/K/files/a").await.expect(200).text(), "1");
}

#[tokio::test]
async fn a_batch_that_fails_is_answered_line_by_line_and_the_rest_go_on() {
    let server = Server::start_with(|config| config.database.statement_timeout_ms = 2000).await;
    let caller = server.tenant("acme").await;
    server.fill(&caller, "K", json!({"held": "1"})).await;
    let mut admin = server.superuser();
    admin.batch_execute("begin; select from files for update").unwrap();
    let line = |path: String| json!({"path": path, "content": "2"}).to_string();
    // The first thousand are one batch.
    let first = (0..998).map(|n| line(format!("f{n}")));
    let all: Vec<_> = first.chain(["{".into(), line("held".into()), line("last".into())]).collect();
    let replies = answers(&send(&caller, all.join("\n")).await);
    assert!(replies.len() == 1001 && replies.iter().enumerate().all(|(n, reply)| reply["line"] == n + 1));
    for (place, status) in [(0, 503), (997, 503), (998, 400), (999, 503)] {
        assert_eq!(replies[place]["error"]["status"], status, "{}", replies[place]);
    }
    assert_eq!(replies[999]["path"], "held");
    assert_eq!(replies[1000]["status"], 201);
    caller.get("/v1/slates/K/files/f0").await.problem(404, "not_found");
    caller.get("/v1/slates/K/files/last").await.expect(200);
}

#[tokio::test]
async fn loads_of_the_same_files_at_once_all_succeed() {
    let (_server, caller) = Server::with_slate().await;
    let body = |who: usize| {
        let line = |n: usize| {
            json!({"path": format!("d{}/{n}", n % 9), "content": format!("{who} {n}"),
            "metatags": {"who": who, "n": [n.to_string()]}})
        };
        // Each in another order.
        (0..61).map(|n| line((n * (2 * who + 1) + who) % 61).to_string()).collect::<Vec<_>>().join("\n")
    };
    let replies = at_once((0..4).map(|who| send(&caller, body(who)))).await;
    for reply in &replies {
        let wrong: Vec<_> = answers(reply).into_iter().filter(|answer| answer["version"].is_null()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    let versions = caller.get("/v1/slates/K/versions/d0/0").await.ok(200);
    let numbers: Vec<_> =
        versions["items"].as_array().unwrap().iter().map(|v| v["version"].clone()).collect();
    assert_eq!(numbers, [4, 3, 2, 1]);
}

#[tokio::test]
async fn under_a_key_a_load_happens_once() {
    let (_server, caller) = Server::with_slate().await;
    let load = |text: &str| {
        let body = json!({"path": "a", "content": text}).to_string();
        send(&caller, body).header("idempotency-key", "k")
    };
    let first = load("1").await.expect(200);
    caller.put("/v1/slates/K/files/a").body("text/plain", "2").await.expect(200);
    let again = load("1").await.expect(200);
    assert_eq!((again.header("idempotency-replayed"), &again.body), ("true", &first.body));
    assert_eq!(caller.get("/v1/slates/K/files/a").await.text(), "2");
    load("3").await.problem(422, "idempotency_mismatch");
}
