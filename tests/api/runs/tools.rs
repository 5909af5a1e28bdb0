//! Tools of the session's route, called by the model of a run.

use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};

use super::{finished, world};
use crate::support::model::{Model, Says, call, message, text};
use crate::support::{Caller, Host};

/// Opens a session on a route that lists the tool `city.weather`, which a host answers.
async fn open(caller: &Caller, host: &Host, max_rounds: u32) -> String {
    let capability = json!({"display_name": "The weather", "status": "published",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "output_schema": {"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]},
        "invoke": {"method": "POST", "url": host.url("/weather")}});
    caller.put("/v1/catalog/capabilities/city.weather/1").json(capability).await.expect(201);
    let corpus = json!({"url": "slate:K/d", "status": "published"});
    caller.put("/v1/catalog/corpora/docs").json(corpus).await.expect(201);
    let route = json!({"status": "published", "retrieval": {"mode": "tool", "scope": ["docs"]},
        "tools": [{"capability_id": "city.weather", "capability_version": "1"}]});
    caller.put("/v1/catalog/routes/r/1").json(route).await.expect(201);
    let retrieve = json!({"to": {"slate": "K", "folder": "d"}, "as": "Docs", "maxRounds": max_rounds,
        "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}});
    let session = json!({"retrieve": retrieve, "fields": {"Question": "What?"}, "goal": {},
        "route": {"route_id": "r", "route_version": "1"}});
    let opened = caller.post("/v1/sessions").json(session).await.ok(201);
    format!("/v1/sessions/{}", opened["session_id"].as_str().unwrap())
}

fn uses(name: &str, arguments: Value) -> Says {
    message(json!({"content": null, "tool_calls": [{"id": "1", "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()}}]}))
}

async fn run(caller: &Caller, session: &str, model: &Model) -> Value {
    caller.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    let end = finished(caller, session).await;
    let verified = caller.post(&format!("{session}/verify")).await.ok(200);
    assert_eq!((&verified["valid"], &verified["sealed"]), (&json!(true), &json!(true)), "{verified}");
    end
}

#[tokio::test]
async fn a_model_calls_the_tools_of_its_route_and_is_told_what_they_gave() {
    let (_server, acme) = world().await;
    let host = Host::start(|_| Some((200, json!({"degrees": 21.5, "more": 1}).to_string()))).await;
    let session = open(&acme, &host, 5).await;
    let model = Model::start(|prompted| match prompted.before {
        0 => uses("city_weather", json!({"city": "Oslo"})),
        1 => uses("slate_retrieve", json!({"files": ["a.md"]})),
        2 => call(json!({"files": ["b.md"]})),
        _ => text("21.5"),
    })
    .await;
    let end = run(&acme, &session, &model).await;
    assert_eq!(
        (&end["status"], &end["answer"], &end["round"]),
        (&json!("answered"), &json!("21.5"), &json!(4)),
        "{end}"
    );
    assert_eq!(end["working"]["slots"]["city.weather"], json!({"degrees": 21.5}));
    assert_eq!(end["working"]["slots"]["slate_retrieve"]["items"][0]["content"], "alpha");

    let prompted = model.prompted();
    let names: Vec<&Value> =
        prompted[0].body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["retrieve", "city_weather", "slate_retrieve"]);
    assert_eq!(prompted[0].body["tools"][1]["function"]["description"], "The weather");
    assert_eq!(prompted[0].body["messages"].as_array().unwrap().len(), 2);
    let told = prompted[3].body["messages"][2]["content"].as_str().unwrap();
    let (weather, slate) = (told.find("{\"degrees\":21.5}").unwrap(), told.find("\"alpha\"").unwrap());
    assert!(
        weather < slate && told.contains(r#"{"tool":"city.weather","arguments":{"city":"Oslo"}}"#),
        "{told}"
    );
    assert!(prompted[3].prompt().contains("beta") && !prompted[3].prompt().contains("degrees"));

    let asked = host.asked();
    assert_eq!((asked.len(), &asked[0].body), (1, &json!({"city": "Oslo"})));
    let id = session.rsplit('/').next().unwrap();
    assert!(asked[0].head.contains(&format!("idempotency-key: {id}.1\r\n")), "{}", asked[0].head);

    let rounds = acme.get(&format!("{session}/rounds")).await.ok(200)["items"].clone();
    let decisions: Vec<&Value> = rounds.as_array().unwrap().iter().map(|round| &round["decision"]).collect();
    assert_eq!(decisions, ["tool", "tool", "retrieval", "answer"]);
    assert_eq!(rounds[0]["output"], json!({"tool": "city.weather", "arguments": {"city": "Oslo"}}));
    let records = acme.get(&format!("{session}/provenance")).await.ok(200)["items"].clone();
    let kinds: Vec<&Value> = records.as_array().unwrap().iter().map(|record| &record["kind"]).collect();
    assert_eq!(kinds, ["tool", "tool", "round"]);
    let told = acme.get(&format!("{session}/run")).await.ok(200);
    let forms: Vec<&Value> = told["calls"].as_array().unwrap().iter().map(|call| &call["form"]).collect();
    assert_eq!(forms, ["tool", "tool", "tool_call", "content"]);
    acme.delete(&session).await.expect(204);
}

#[tokio::test]
async fn a_tool_that_gives_nothing_takes_a_round_and_the_model_is_told_why() {
    let (_server, acme) = world().await;
    let host = Host::start(|_| Some((500, "no".into()))).await;
    let session = open(&acme, &host, 3).await;
    let model = Model::start(|prompted| match prompted.before {
        0 => uses("city_weather", json!({"city": 7})),
        1 => uses("city_weather", json!("x")),
        2 => uses("city_weather", json!({"city": "Oslo"})),
        _ => text("I do not know."),
    })
    .await;
    let end = run(&acme, &session, &model).await;
    assert_eq!((&end["status"], &end["forced"]), (&json!("answered"), &json!(true)), "{end}");
    assert_eq!(host.asked().len(), 1, "what does not satisfy the schema is not sent");
    let prompted = model.prompted();
    assert_eq!(prompted.len(), 4);
    let last = &prompted[3].body;
    assert!(last.get("tools").is_none());
    let told = last["messages"][2]["content"].as_str().unwrap();
    for shown in ["/arguments/city", "must be an object", "the tool answered with status 500"] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
    assert_eq!(end["working"]["slots"], json!({}));
}

#[tokio::test]
async fn calls_of_tools_are_rounds_and_end_with_them() {
    let (_server, acme) = world().await;
    let host = Host::start(|_| Some((200, json!({"degrees": 1}).to_string()))).await;
    let session = open(&acme, &host, 2).await;
    let model = Model::start(|_| uses("city_weather", json!({"city": "Oslo"}))).await;
    acme.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    let end = finished(&acme, &session).await;
    // In the last call there are no tools, and whatever the model puts out is the answer.
    assert_eq!((&end["status"], &end["forced"]), (&json!("answered"), &json!(true)), "{end}");
    assert_eq!(end["answer"], json!({"tool": "city.weather", "arguments": {"city": "Oslo"}}));
    assert!(model.prompted()[2].body.get("tools").is_none());
    assert_eq!((model.prompted().len(), host.asked().len()), (3, 2), "maxRounds + 1");
}

/// The lease ends while a tool is being called. Whoever takes the run goes on with the call: the model is asked for nothing
/// again, and the tool sees the same key.
#[tokio::test]
async fn whoever_takes_a_run_goes_on_with_a_call_that_was_cut_off() {
    let (server, acme) = world().await;
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let host = Host::start(|_| match ASKED.fetch_add(1, Ordering::SeqCst) {
        0 => None,
        _ => Some((200, json!({"degrees": 4}).to_string())),
    })
    .await;
    let session = open(&acme, &host, 3).await;
    let model = Model::start(|prompted| match prompted.before {
        0 => uses("city_weather", json!({"city": "Oslo"})),
        _ => text("4"),
    })
    .await;
    acme.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    crate::support::eventually("the tool is asked", || host.asked().len() == 1).await;
    let free = "update run_queue set lease_owner = null, lease_until = null";
    server.superuser().batch_execute(free).unwrap();
    let end = finished(&acme, &session).await;
    assert_eq!((&end["status"], &end["answer"]), (&json!("answered"), &json!("4")), "{end}");
    assert_eq!(model.prompted().len(), 2, "no stored answer is asked for again");
    let asked = host.asked();
    let key = |head: &str| head.lines().find(|line| line.starts_with("idempotency-key: ")).map(str::to_owned);
    assert_eq!((asked.len(), key(&asked[0].head)), (2, key(&asked[1].head)));
    let rounds = acme.get(&format!("{session}/rounds")).await.ok(200)["items"].clone();
    assert_eq!(rounds.as_array().unwrap().len(), 2);
}
