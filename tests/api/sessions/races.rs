//! Callers that submit at once, and a long run of random rounds: no content is ever given twice.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::{FILES, Session, brief, knowledge, put};
use crate::support::Server;

/// Paths of what a round gave, with the versions.
fn given(round: &Value) -> Vec<(String, i64)> {
    let items = round["items"].as_array().unwrap().iter().filter(|item| item["status"] == "fetched");
    items.map(|item| (item["path"].as_str().unwrap().to_owned(), item["version"].as_i64().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_round_from_many_callers_is_taken_once() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"maxRounds": 20})).await;
    for round in 1..=8 {
        let body = json!({"output": {"glob": "*.md", "files": [format!("nope{round}.md")]}, "round": round});
        let body = &body;
        let (plain, keyed) = (round % 2 == 0, format!("k{round}"));
        let submit = || async {
            let request = caller.post(&session.path("/rounds")).json(body.clone());
            let request = if plain { request } else { request.header("idempotency-key", &keyed) };
            request.await.ok(200)
        };
        let results = futures_util::future::join_all((0..6).map(|_| submit())).await;
        assert!(results.iter().all(|result| *result == results[0]));
    }
    let rounds = session.rounds().await;
    assert_eq!(rounds.len(), 8);
    assert_eq!(rounds.iter().map(|round| given(round).len()).sum::<usize>(), 3);
    let verified = session.verify().await;
    assert_eq!((&verified["valid"], &verified["records"]), (&json!(true), &json!(8)));
}

#[tokio::test(flavor = "multi_thread")]
async fn different_outputs_for_one_round_have_one_winner() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    let (session, names) = (&session, ["core.md", "faq.md", "glossary.md", "a.md", "b.md"]);
    let replies = futures_util::future::join_all(names.map(|name| async move {
        session.submit(json!({"output": {"files": [name]}, "round": 1})).await.status
    }));
    let replies = replies.await;
    assert_eq!(replies.iter().filter(|status| **status == 200).count(), 1, "{replies:?}");
    assert_eq!(replies.iter().filter(|status| **status == 409).count(), 4, "{replies:?}");
    assert_eq!(session.get().await["round"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_that_come_at_once_are_taken_one_after_the_other() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"maxRounds": 12, "recursive": true})).await;
    let session = &session;
    let outputs = (0..16).map(|n| match n % 3 {
        0 => json!({"glob": "*.md"}),
        1 => json!({"files": ["core.md", "research/report.md"]}),
        _ => json!({"files": ["faq.md", "glossary.md"], "glob": "r*"}),
    });
    let replies = outputs.map(|output| async move { session.submit(json!({"output": output})).await });
    let replies = futures_util::future::join_all(replies).await;
    let (taken, refused): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 200);
    assert_eq!((taken.len(), refused.len()), (13, 3), "twelve rounds and the answer");
    refused.into_iter().for_each(|reply| drop(reply.problem(409, "session_finished")));
    let taken: Vec<Value> = taken.iter().map(|reply| reply.json()).collect();
    let mut numbers: Vec<u64> = taken.iter().map(|round| round["round"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=13).collect::<Vec<u64>>());
    let all: Vec<_> = taken.iter().flat_map(given).collect();
    assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (4, 4), "{all:?}");
    assert_eq!(session.get().await["status"], "answered");
    assert_eq!(session.verify().await["valid"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_holds_the_rounds_before_the_one_that_it_is_for() {
    let server = Server::start().await;
    let caller = knowledge(&server, &[]).await;
    for n in 1..=20 {
        put(&caller, &format!("f{n}.md"), "text").await;
    }
    let session = Session::open(&caller, json!({"maxRounds": 21})).await;
    let (session, done) = (&session, std::sync::atomic::AtomicBool::new(false));
    let write = async {
        for n in 1..=20 {
            session.files(&[&format!("f{n}.md")]).await;
            if n % 5 == 0 {
                session.forget(json!({"paths": []})).await;
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let read = || async {
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let prompt = session.prompt().await;
            let documents = prompt["prompt"].as_str().unwrap().matches("<document ").count() as u64;
            assert_eq!(prompt["round"].as_u64().unwrap(), documents + 1);
            let now = session.get().await;
            assert_eq!(
                (&now["context"]["files"], &now["shown_bytes"]),
                (&now["round"], &json!(4 * now["round"].as_u64().unwrap()))
            );
        }
    };
    futures_util::future::join3(write, read(), read()).await;
}

/// A small generator, so that a failure can be run again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

#[tokio::test]
async fn no_content_is_given_twice_in_an_epoch_whatever_is_asked() {
    let server = Server::start().await;
    let caller = knowledge(&server, &[]).await;
    let names: Vec<String> = (0..12).map(|n| format!("{}{n}.md", ["a", "b", "sub/a"][n % 3])).collect();
    for name in &names {
        put(&caller, name, &format!("{name} 1")).await;
    }
    for seed in 1..=4 {
        let mut random = Random(seed);
        let refetch = seed % 2 == 0;
        let limits =
            json!({"maxFilesPerRound": 1 + random.below(6), "maxBytesPerRound": 20 + random.below(60)});
        let change =
            json!({"maxRounds": 40, "recursive": seed > 2, "refetchChanged": refetch, "limits": limits});
        let session = Session::open(&caller, change).await;
        // What is in context by this test's own reckoning: the versions given of each file in this epoch.
        let mut context: BTreeMap<String, HashSet<i64>> = BTreeMap::new();
        let mut taken = Vec::new();
        for step in 0..40 {
            match random.below(8) {
                0 => {
                    let name = &names[random.below(names.len())];
                    put(&caller, name, &format!("{name} {seed} {step}")).await;
                }
                1 => {
                    let some: Vec<&String> = names.iter().filter(|_| random.below(3) == 0).collect();
                    session.forget(json!({"paths": some})).await;
                    context.retain(|name, _| !some.contains(&name));
                }
                _ => {}
            }
            let files: Vec<&String> = names.iter().filter(|_| random.below(4) == 0).collect();
            let output = match random.below(3) {
                0 => json!({"files": files}),
                1 => json!({"glob": (["*.md", "a*", "[ab]1*"][random.below(3)])}),
                _ => json!({"files": files, "glob": "b*", "subfolders": ["sub"]}),
            };
            let round = session.round(output).await;
            for item in round["items"].as_array().unwrap() {
                let (path, status) = (item["path"].as_str().unwrap(), item["status"].as_str().unwrap());
                let versions = context.entry(path.to_owned()).or_default();
                match status {
                    "fetched" => {
                        let version = item["version"].as_i64().unwrap();
                        assert!(refetch || versions.is_empty(), "seed {seed}: {path} twice: {round}");
                        assert!(versions.insert(version), "seed {seed}: {path}@{version} twice: {round}");
                        assert!(item["content"].as_str().unwrap().starts_with(path));
                    }
                    "already_in_context" => {
                        assert!(!versions.is_empty(), "seed {seed}: {path} never given: {round}")
                    }
                    _ => assert!(matches!(status, "omitted" | "listing"), "{item}"),
                }
            }
            taken.push(round);
        }
        context.retain(|_, versions| !versions.is_empty());
        assert_eq!(session.get().await["context"]["files"], context.len());
        for (listed, first) in session.rounds().await.iter().zip(&taken) {
            assert_eq!((brief(listed), &listed["items"]), (brief(first), &first["items"]));
        }
        assert_eq!(session.verify().await["valid"], true);
    }
}
