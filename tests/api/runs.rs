//! Sessions that the service runs itself, against models that follow a script, good and bad.

use serde_json::{Value, json};

use crate::support::model::{Model, Says, call, message, text};
use crate::support::{Caller, Server};

mod events;
mod spending;
mod tools;

/// A server that runs sessions, and a tenant with a few documents.
async fn world() -> (Server, Caller) {
    let server = Server::start_with(|config| {
        config.outbound.outbound_allow = vec!["127.0.0.0/8".parse().unwrap()];
        config.outbound.outbound_rate = 1000;
        config.runs.max_runs = 8;
        config.runs.model_timeout_ms = 700;
        config.runs.model_attempts = 3;
    })
    .await;
    let acme = server.tenant("acme").await;
    server.fill(&acme, "K", json!({"d/a.md": "alpha", "d/b.md": "beta", "d/c.md": "gamma"})).await;
    (server, acme)
}

/// Opens a session, and gives its path.
async fn open(caller: &Caller, max_rounds: u32) -> String {
    let properties = json!({"files": {"type": "array"}, "glob": {"type": "string"}});
    let retrieve = json!({"to": {"slate": "K", "folder": "d"}, "as": "Docs", "maxRounds": max_rounds,
        "requestMatch": {"type": "object", "properties": properties}});
    let opened = caller
        .post("/v1/sessions")
        .json(json!({"retrieve": retrieve, "fields": {"Question": "What?"}}))
        .await;
    format!("/v1/sessions/{}", opened.ok(201)["session_id"].as_str().unwrap())
}

/// Watches until nothing follows, and gives the session as it is then.
async fn finished(caller: &Caller, session: &str) -> Value {
    caller.get(&format!("{session}/events")).await.expect(200);
    caller.get(session).await.ok(200)
}

/// Runs a session of a world of its own to its end.
async fn play(max_rounds: u32, model: &Model) -> (Server, Caller, String, Value) {
    let (server, acme) = world().await;
    let session = open(&acme, max_rounds).await;
    acme.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    let end = finished(&acme, &session).await;
    let verified = acme.post(&format!("{session}/verify")).await.ok(200);
    assert_eq!((&verified["valid"], &verified["sealed"]), (&json!(true), &json!(true)), "{verified}");
    (server, acme, session, end)
}

#[tokio::test]
async fn a_loop_of_texts_and_calls() {
    let model = Model::start(|prompted| match prompted.documents() {
        0 => text("```json\n{\"files\": [\"a.md\"]}\n```"),
        1 => call(json!({"glob": "b*"})),
        _ => text("It is 42."),
    })
    .await;
    let (_server, acme, session, end) = play(5, &model).await;
    assert_eq!(
        (&end["status"], &end["answer"], &end["round"]),
        (&json!("answered"), &json!("It is 42."), &json!(3))
    );
    assert_eq!((&end["is_run"], &end["forced"]), (&json!(true), &json!(false)));
    let prompted = model.prompted();
    assert_eq!(prompted.len(), 3);
    assert!(prompted[2].prompt().contains("alpha") && prompted[2].prompt().contains("beta"));
    assert_eq!(prompted[0].body["tools"][0]["function"]["name"], "retrieve");
    let run = acme.get(&format!("{session}/run")).await.ok(200);
    assert_eq!((&run["status"], &run["round"], &run["next_at"]), (&json!("ended"), &json!(3), &Value::Null));
    assert_eq!(run["usage"], json!({"prompt_tokens": 30, "completion_tokens": 9}));
    let forms: Vec<_> = run["calls"].as_array().unwrap().iter().map(|call| call["form"].clone()).collect();
    assert_eq!(forms, ["content", "tool_call", "content"]);
    // Its rounds are those of any session.
    let rounds = acme.get(&format!("{session}/rounds")).await.ok(200);
    assert_eq!(rounds["items"][1]["items"][0]["content"], "beta");
    acme.post(&format!("{session}/run")).json(model.run()).await.problem(409, "session_finished");
}

#[tokio::test]
async fn a_model_that_never_stops_asking() {
    let model = Model::start(|_| call(json!({"glob": "*"}))).await;
    let (_server, _, _, end) = play(2, &model).await;
    assert_eq!(
        (&end["status"], &end["forced"], &end["round"]),
        (&json!("answered"), &json!(true), &json!(3))
    );
    assert_eq!(end["answer"], json!({"glob": "*"}));
    let prompted = model.prompted();
    assert_eq!(prompted.len(), 3, "maxRounds + 1");
    assert!(prompted[2].body.get("tools").is_none(), "the last call grants nothing");
}

#[tokio::test]
async fn what_is_no_request_is_the_answer() {
    for output in ["garbage \u{0} \u{fffd} {{{", "{\"files\": [\"a.md\"", "[1, 2", "null"] {
        let said = text(output);
        let Says::Status(_, _, body) = said else { unreachable!() };
        let model = Model::start(move |_| Says::Status(200, "", body.clone())).await;
        let (_server, _, _, end) = play(2, &model).await;
        assert_eq!((&end["status"], &end["answer"]), (&json!("answered"), &json!(output)));
        assert_eq!(model.prompted().len(), 1);
    }
}

#[tokio::test]
async fn what_is_no_answer_fails_the_session() {
    type Make = fn() -> Says;
    let cases: [(Make, &str); 8] = [
        (|| Says::Status(200, "", Vec::new()), "bad_answer"),
        (|| Says::Status(200, "", b"<html>".to_vec()), "bad_answer"),
        (|| Says::Status(200, "", b"{\"choices\": [{\"mess".to_vec()), "bad_answer"),
        (|| message(json!({"content": null})), "empty_answer"),
        (
            || message(json!({"tool_calls": [{"function": {"name": "rm", "arguments": "{}"}}]})),
            "unknown_tool",
        ),
        (|| text(&"x".repeat(2 << 20)), "answer_too_large"),
        (|| Says::Endless(100_000_000), "answer_too_large"),
        (|| Says::Status(401, "", b"{\"error\": \"your key sk-123 is wrong\"}".to_vec()), "model_rejected"),
    ];
    for (say, reason) in cases {
        let model = Model::start(move |_| say()).await;
        let (_server, acme, session, end) = play(2, &model).await;
        assert_eq!((&end["status"], &end["failure"]["reason"]), (&json!("failed"), &json!(reason)), "{end}");
        assert!(!end.to_string().contains("sk-123"));
        assert_eq!(model.prompted().len(), 1, "{reason}: what was received is not paid for again");
        let run = acme.get(&format!("{session}/run")).await.ok(200);
        assert_eq!((&run["status"], &run["trouble"]["reason"]), (&json!("ended"), &json!(reason)));
    }
}

#[tokio::test]
async fn passing_troubles_are_tried_again() {
    type Make = fn() -> Says;
    let cases: [(Make, &str); 5] = [
        (|| Says::Status(500, "", Vec::new()), "model_unavailable"),
        (|| Says::Status(503, "retry-after: 1\r\n", Vec::new()), "model_unavailable"),
        (|| Says::Status(429, "retry-after: 1\r\n", Vec::new()), "model_rate_limited"),
        (|| Says::Half(b"{\"choices\": [".to_vec()), "model_unreachable"),
        (|| Says::Nothing, "model_timeout"),
    ];
    for (say, reason) in cases {
        let model =
            Model::start(move |prompted| if prompted.before == 0 { say() } else { text("done") }).await;
        let (_server, acme, session, end) = play(2, &model).await;
        assert_eq!((&end["status"], &end["answer"]), (&json!("answered"), &json!("done")), "{reason}: {end}");
        let prompted = model.prompted();
        assert_eq!(prompted.len(), 2, "{reason}");
        let waited = prompted[1].at.duration_since(prompted[0].at).unwrap();
        assert!(waited.as_millis() >= 900, "{reason}: {waited:?}");
        let stream = acme.get(&format!("{session}/events")).await.expect(200);
        assert!(
            stream.text().contains("event: retry\n") && stream.text().contains(reason),
            "{}",
            stream.text()
        );
        let run = acme.get(&format!("{session}/run")).await.ok(200);
        assert_eq!((&run["attempts"], &run["trouble"]), (&json!(0), &Value::Null));
    }
}

#[tokio::test]
async fn a_model_that_is_never_there_is_given_up() {
    let model = Model::start(|_| Says::Status(502, "", Vec::new())).await;
    let (_server, _, _, end) = play(2, &model).await;
    assert_eq!((&end["status"], &end["failure"]["reason"]), (&json!("failed"), &json!("model_unavailable")));
    assert_eq!(model.prompted().len(), 3);
}

#[tokio::test]
async fn secrets_and_addresses() {
    let (server, acme) = world().await;
    acme.put("/v1/secrets/llm").json(json!({"value": "hunter2"})).await.expect(201);
    let model = Model::start(|_| text("done")).await;
    let with = |secret: &str| {
        let mut run = model.run();
        run["model"]["secret"] = json!(secret);
        run["model"]["parameters"] = json!({"temperature": 0});
        run
    };
    let session = open(&acme, 1).await;
    acme.post(&format!("{session}/run")).json(with("llm")).await.expect(202);
    assert_eq!(finished(&acme, &session).await["status"], "answered");
    let prompted = model.prompted();
    assert!(prompted[0].head.contains("authorization: bearer hunter2\r\n"), "{}", prompted[0].head);
    assert!(prompted[0].head.starts_with("post /v1/chat/completions "));
    assert_eq!(
        (&prompted[0].body["temperature"], &prompted[0].body["model"]),
        (&json!(0), &json!("scripted"))
    );
    let run = acme.get(&format!("{session}/run")).await.expect(200);
    assert!(!run.text().contains("hunter2"));

    for (run, reason) in [
        (with("nope"), "secret_unavailable"),
        (json!({"model": {"base_url": "http://10.0.0.1/v1", "name": "m"}}), "model_refused"),
    ] {
        let session = open(&acme, 1).await;
        acme.post(&format!("{session}/run")).json(run).await.expect(202);
        let end = finished(&acme, &session).await;
        assert_eq!((&end["status"], &end["failure"]["reason"]), (&json!("failed"), &json!(reason)), "{end}");
    }
    let session = open(&acme, 1).await;
    for (model, at) in [
        (json!({"base_url": "file:///x", "name": "m"}), "/model/base_url"),
        (json!({"base_url": "http://h", "name": "m", "secret": "a b"}), "/model/secret"),
        (
            json!({"base_url": "http://h", "name": "m", "parameters": {"stream": true}}),
            "/model/parameters/stream",
        ),
        (json!({"base_url": "http://h", "name": "m", "x": 1}), "/model/x"),
    ] {
        acme.post(&format!("{session}/run")).json(json!({"model": model})).await.invalid_at(at);
    }
    acme.get(&format!("{session}/run")).await.problem(404, "not_found");
    drop(server);
}

#[tokio::test]
async fn a_run_can_be_cancelled_and_takes_no_rounds_of_clients() {
    let (_server, acme) = world().await;
    let model = Model::start(|_| Says::Nothing).await;
    let session = open(&acme, 2).await;
    let start = || acme.post(&format!("{session}/run")).header("Idempotency-Key", "one").json(model.run());
    let first = start().await.expect(202);
    assert_eq!(start().await.expect(202).body, first.body, "a replay");
    acme.post(&format!("{session}/run")).json(model.run()).await.problem(409, "run_active");
    let round = json!({"output": {"files": ["a.md"]}});
    acme.post(&format!("{session}/rounds")).json(round.clone()).await.problem(409, "run_active");
    acme.post(&format!("{session}/cancel")).await.expect(200);
    let end = finished(&acme, &session).await;
    assert_eq!((&end["status"], &end["round"]), (&json!("cancelled"), &json!(0)));
    acme.post(&format!("{session}/rounds")).json(round).await.problem(409, "session_finished");
    assert_eq!(acme.get(&format!("{session}/run")).await.ok(200)["status"], "ended");
    acme.delete(&session).await.expect(204);
    acme.get(&format!("{session}/run")).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_run_ends_with_its_key() {
    let (server, acme) = world().await;
    let key = server.key("acme", json!({"scopes": ["retrieve"]})).await;
    let number = key.token.clone().unwrap().split('_').nth(2).unwrap().to_owned();
    let model = Model::start(|_| Says::Status(503, "retry-after: 2\r\n", Vec::new())).await;
    let session = open(&key, 2).await;
    key.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    server.operator.delete(&format!("/v1/tenants/acme/keys/{number}")).await.expect(204);
    let end = finished(&acme, &session).await;
    assert_eq!((&end["status"], &end["failure"]["reason"]), (&json!("failed"), &json!("key_revoked")));
}

/// The pool has four connections, and eight calls are in flight.
#[tokio::test]
async fn no_connection_is_held_while_models_are_waited_for() {
    let (_server, acme) = world().await;
    let gate = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let opened = gate.clone();
    let model = Model::start(move |_| match opened.load(std::sync::atomic::Ordering::SeqCst) {
        true => text("done"),
        false => Says::Nothing,
    })
    .await;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let session = open(&acme, 1).await;
        acme.post(&format!("{session}/run")).json(model.run()).await.expect(202);
        sessions.push(session);
    }
    crate::support::eventually("all calls are in flight", || model.prompted().len() >= 8).await;
    acme.get("/v1/slates/K").await.expect(200);
    gate.store(true, std::sync::atomic::Ordering::SeqCst);
    for session in sessions {
        assert_eq!(finished(&acme, &session).await["status"], "answered");
    }
}
