//! Two servers on one database, each killed again and again while they run sessions: every session ends with its answer, no
//! round is doubled, and no answer that was stored is asked for again.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use rand::RngExt;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::model::{Model, Prompted, Says, call, text};
use super::{Caller, OPERATOR, Server, fresh_dir};

const SESSIONS: usize = 200;
const KILLS: usize = 10;

#[test]
fn killed_servers_leave_no_run_behind() {
    tokio::runtime::Runtime::new().unwrap().block_on(kill_and_go_on());
}

/// Which session a prompt is of, and which round.
fn key(prompted: &Prompted) -> (usize, usize) {
    let number = prompted.prompt().lines().nth(1).unwrap().parse().unwrap();
    (number, prompted.documents() + 1)
}

fn output(session: usize, round: usize) -> Value {
    json!({"files": [format!("f{:02}.md", (session + round) % 40)]})
}

/// Two rounds, one by a call and one by a text, then the answer.
fn script(prompted: &Prompted) -> Says {
    let (session, round) = key(prompted);
    match round {
        1 => call(output(session, 1)),
        2 => text(&output(session, 2).to_string()),
        _ => text(&format!("the answer of {session}")),
    }
}

async fn kill_and_go_on() {
    let data_dir: TempDir = fresh_dir();
    let model = Model::slow(Duration::from_millis(150), script).await;
    let mut servers = vec![Server::start(&data_dir).await, Server::start(&data_dir).await];
    let operator = servers[0].caller(OPERATOR);
    operator.post("/v1/tenants", json!({"name": "acme"})).await;
    let made = operator
        .post("/v1/tenants/acme/keys", json!({"label": "test", "scopes": ["read", "write", "retrieve"]}))
        .await;
    let token = made["token"].as_str().unwrap().to_owned();
    let caller = servers[0].caller(&token);
    caller.call(reqwest::Method::PUT, "/v1/slates/K", json!({})).await;
    for n in 0..40 {
        let file = json!({"path": format!("docs/f{n:02}.md"), "content": format!("contents of {n}")});
        caller.post("/v1/slates/K/files", file).await;
    }
    let retrieve = json!({"to": {"slate": "K", "folder": "docs"}, "as": "Docs", "maxRounds": 3,
        "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}});
    let mut ids = Vec::new();
    for number in 0..SESSIONS {
        let opened = caller
            .post("/v1/sessions", json!({"retrieve": retrieve, "fields": {"Session": number.to_string()}}))
            .await;
        let id = opened["session_id"].as_str().unwrap().to_owned();
        caller.post(&format!("/v1/sessions/{id}/run"), model.run()).await;
        ids.push(id);
    }

    for kill in 0..2 * KILLS {
        let victim = kill % 2;
        tokio::time::sleep(Duration::from_millis(rand::rng().random_range(0..400))).await;
        servers.remove(victim).kill();
        servers.insert(victim, Server::start(&data_dir).await);
    }

    let caller = servers[0].caller(&token);
    let mut asked: HashMap<(usize, usize), Vec<SystemTime>> = HashMap::new();
    for id in &ids {
        // It ends when the session has ended.
        caller.events(id).await;
    }
    for prompted in model.prompted() {
        asked.entry(key(&prompted)).or_default().push(prompted.at);
    }
    for (number, id) in ids.iter().enumerate() {
        let session = caller.get(&format!("/v1/sessions/{id}")).await;
        assert_eq!((&session["status"], &session["round"]), (&json!("answered"), &json!(3)), "{session}");
        assert_eq!(session["answer"], format!("the answer of {number}"));
        let rounds = caller.get(&format!("/v1/sessions/{id}/rounds")).await;
        let rounds = rounds["items"].as_array().unwrap();
        assert_eq!(rounds.len(), 3);
        for round in 1..=3 {
            assert_eq!(rounds[round - 1]["round"], json!(round));
        }
        let run = caller.get(&format!("/v1/sessions/{id}/run")).await;
        assert_eq!(run["calls"].as_array().unwrap().len(), 3);
        for (round, call) in (1..).zip(run["calls"].as_array().unwrap()) {
            let received =
                chrono::DateTime::parse_from_rfc3339(call["received_at"].as_str().unwrap()).unwrap();
            let received = SystemTime::from(received);
            let asked = &asked[&(number, round)];
            assert!(
                asked.iter().all(|at| *at <= received),
                "round {round} of {number} was stored, and asked again"
            );
        }
        check_chain(&caller, id).await;
    }
    let calls: usize = asked.values().map(Vec::len).sum();
    assert!(calls <= SESSIONS * 3 + 2 * KILLS * 4, "{calls} calls: more than were lost in flight");
    servers.into_iter().for_each(Server::stop);
}

async fn check_chain(caller: &Caller, id: &str) {
    let verified = caller.post(&format!("/v1/sessions/{id}/verify"), Value::Null).await;
    assert_eq!((&verified["valid"], &verified["sealed"]), (&json!(true), &json!(true)), "{verified}");
}
