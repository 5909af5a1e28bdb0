//! What a tenant may spend: runs at once, rounds a day, tokens a day.

use diesel::connection::SimpleConnection;
use serde_json::json;

use super::{finished, open, world};
use crate::support::model::{Model, Says, call, text};

#[tokio::test]
async fn a_limit_that_is_reached_is_429_and_says_when_to_come_back() {
    let (server, acme) = world().await;
    let model = Model::start(|_| text("done")).await;
    let settings = |limits| acme.put("/v1/settings").json(limits);
    let set =
        settings(json!({"max_concurrent_runs": 1, "max_rounds_per_day": 1, "max_tokens_per_day": 1000}))
            .await;
    assert_eq!(set.ok(200)["max_rounds_per_day"], 1);
    settings(json!({"max_tokens_per_day": -1})).await.invalid_at("/max_tokens_per_day");
    let session = open(&acme, 1).await;
    acme.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    assert_eq!(finished(&acme, &session).await["status"], "answered");

    for limits in [
        json!({"max_rounds_per_day": 1}),
        json!({"max_tokens_per_day": 13}),
        json!({"max_concurrent_runs": 0}),
    ] {
        settings(limits.clone()).await.expect(200);
        let session = open(&acme, 1).await;
        let refused = acme.post(&format!("{session}/run")).json(model.run()).await;
        let seconds: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=86_400).contains(&seconds), "{limits}");
        refused.problem(429, "limit_reached");
        // Nothing of it was begun: it is a client's session still.
        acme.post(&format!("{session}/rounds")).json(json!({"output": "done"})).await.expect(200);
    }
    // Others spend what is theirs.
    let other = server.tenant("other").await;
    server.fill(&other, "K", json!({"d/a.md": "alpha"})).await;
    let session = open(&other, 1).await;
    other.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    assert_eq!(finished(&other, &session).await["status"], "answered");
}

#[tokio::test]
async fn runs_at_once_are_counted_until_they_end() {
    let (_server, acme) = world().await;
    let model = Model::start(|_| Says::Nothing).await;
    acme.put("/v1/settings").json(json!({"max_concurrent_runs": 1})).await.expect(200);
    let (first, second) = (open(&acme, 1).await, open(&acme, 1).await);
    acme.post(&format!("{first}/run")).json(model.run()).await.expect(202);
    acme.post(&format!("{second}/run")).json(model.run()).await.problem(429, "limit_reached");
    acme.post(&format!("{first}/cancel")).await.expect(200);
    for _ in 0..1000 {
        if acme.post(&format!("{second}/run")).json(model.run()).await.status == 202 {
            return;
        }
    }
    panic!("a run that has ended is counted still");
}

/// A run that reaches a limit goes on the next day.
#[tokio::test]
async fn a_limit_that_is_reached_within_a_run_lets_it_wait() {
    let (server, acme) = world().await;
    let model = Model::start(|prompted| match prompted.documents() {
        0 => call(json!({"glob": "*"})),
        _ => text("done"),
    })
    .await;
    acme.put("/v1/settings").json(json!({"max_rounds_per_day": 1})).await.expect(200);
    let session = open(&acme, 3).await;
    acme.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    let run = loop {
        let run = acme.get(&format!("{session}/run")).await.ok(200);
        if run["status"] == "waiting" {
            break run;
        }
    };
    assert_eq!((&run["round"], &run["trouble"]["reason"]), (&json!(1), &json!("limit_reached")));
    assert_eq!(model.prompted().len(), 1);
    // The next day.
    let _server = tokio::task::spawn_blocking(move || {
        let next_day = "update usage_days set day = day - 1; update run_queue set next_at = now()";
        server.superuser().batch_execute(next_day).unwrap();
        server
    })
    .await
    .unwrap();
    let end = finished(&acme, &session).await;
    assert_eq!((&end["status"], &end["answer"]), (&json!("answered"), &json!("done")));
}

#[tokio::test]
async fn a_model_that_has_had_enough_of_one_tenant_is_asked_by_others() {
    let (server, acme) = world().await;
    let other = server.tenant("other").await;
    server.fill(&other, "K", json!({"d/a.md": "alpha"})).await;
    let model = Model::start(|prompted| match prompted.before {
        0 => Says::Status(429, "retry-after: 3600\r\n", Vec::new()),
        _ => text("done"),
    })
    .await;
    let waits = open(&acme, 1).await;
    acme.post(&format!("{waits}/run")).json(model.run()).await.expect(202);
    crate::support::eventually("the first is refused", || model.prompted().len() == 1).await;
    let session = open(&other, 1).await;
    other.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    assert_eq!(finished(&other, &session).await["status"], "answered");
    // Another of the same tenant is not sent.
    let second = open(&acme, 1).await;
    acme.post(&format!("{second}/run")).json(model.run()).await.expect(202);
    while acme.get(&format!("{second}/run")).await.ok(200)["status"] != "waiting" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(model.prompted().len(), 2);
}
