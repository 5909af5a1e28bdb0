//! Watching a session: in order, once each, and on from where a stream was cut off, on whichever server.

use std::future::IntoFuture;

use serde_json::{Value, json};

use super::{open, world};
use crate::support::model::{Model, call, text};

/// The events of a stream that has ended: number, kind, data.
fn events(stream: &str) -> Vec<(u64, String, Value)> {
    let blocks = stream.split("\n\n").filter(|block| block.starts_with("id: "));
    blocks
        .map(|block| {
            let mut lines = block.lines();
            let mut field = |name: &str| lines.next().unwrap().strip_prefix(name).unwrap().to_owned();
            let number = field("id: ").parse().unwrap();
            (number, field("event: "), serde_json::from_str(&field("data: ")).unwrap())
        })
        .collect()
}

#[tokio::test]
async fn a_client_that_was_cut_off_goes_on_at_another_server() {
    let (server, acme) = world().await;
    let (other, there) = server.beside(&acme).await;
    let session = open(&acme, 3).await;
    let path = format!("{session}/events");
    // Watchers on both servers, before anything happens.
    let (here, over_there) =
        (tokio::spawn(acme.get(&path).into_future()), tokio::spawn(there.get(&path).into_future()));
    let rounds = format!("{session}/rounds");
    acme.post(&rounds).json(json!({"output": {"files": ["a.md", "nope"]}})).await.expect(200);
    there.post(&rounds).json(json!({"output": {"glob": "*"}})).await.expect(200);
    there.post(&format!("{session}/forget")).json(json!({})).await.expect(200);
    acme.post(&rounds).json(json!({"output": "done"})).await.expect(200);
    let (here, over_there) = (here.await.unwrap().expect(200), over_there.await.unwrap().expect(200));
    assert_eq!(here.header("content-type"), "text/event-stream");
    assert_eq!(here.header("content-encoding"), "");
    let all = events(here.text());
    assert_eq!(all, events(over_there.text()));
    let kinds: Vec<_> = all.iter().map(|(number, kind, _)| (*number, kind.as_str())).collect();
    assert_eq!(kinds, [(1, "round"), (2, "round"), (3, "forgotten"), (4, "round"), (5, "finished")]);
    assert_eq!(
        all[0].2,
        json!({"kind": "round", "round": 1, "decision": "retrieval", "status": "open",
            "items": {"fetched": 1, "not_found": 1}, "truncated": false})
    );
    assert_eq!(all[4].2, json!({"kind": "finished", "status": "answered"}));
    for reply in [&here, &over_there] {
        // Every block is an event, and the first tells how soon to connect again.
        let blocks: Vec<&str> = reply.text().split_terminator("\n\n").collect();
        assert!(blocks.iter().all(|block| block.contains("\ndata: ")), "{blocks:?}");
        assert!(blocks[0].ends_with("\nretry: 1000") && !blocks[1].contains("retry"), "{blocks:?}");
    }
    for sent in ["5", "99"] {
        assert_eq!(there.get(&path).header("Last-Event-ID", sent).await.expect(204).text(), "");
        acme.get(&format!("{path}?after={sent}")).await.expect(204);
    }
    for (sent, left) in [("0", 5), ("2", 3)] {
        let rest = there.get(&path).header("Last-Event-ID", sent).await.expect(200);
        assert_eq!(events(rest.text()), all[5 - left..], "after {sent}");
        let rest = acme.get(&format!("{path}?after={sent}")).await.expect(200);
        assert_eq!(events(rest.text()), all[5 - left..], "after {sent}");
    }
    there.get(&path).header("Last-Event-ID", "x").await.problem(400, "bad_request");
    there.get(&format!("{path}?after=-1")).await.expect(422);
    other.stop().await;
}

/// The run is one server's, and whoever watches is at the other.
#[tokio::test]
async fn a_run_is_watched_at_another_server() {
    let (server, acme) = world().await;
    let (other, there) = server.beside(&acme).await;
    let model = Model::start(|prompted| match prompted.documents() {
        0 => call(json!({"glob": "*"})),
        _ => text("done"),
    })
    .await;
    let session = open(&acme, 2).await;
    let watched = tokio::spawn(there.get(&format!("{session}/events")).into_future());
    acme.post(&format!("{session}/run")).json(model.run()).await.expect(202);
    let all = events(watched.await.unwrap().expect(200).text());
    let kinds: Vec<_> = all.iter().map(|(number, kind, _)| (*number, kind.as_str())).collect();
    assert_eq!(kinds, [(1, "run"), (2, "round"), (3, "round"), (4, "finished")]);
    other.stop().await;
}

/// A server that is told to stop does not wait for those who watch.
#[tokio::test]
async fn a_stream_ends_with_its_server() {
    let (server, acme) = world().await;
    let (other, there) = server.beside(&acme).await;
    let session = open(&acme, 2).await;
    acme.post(&format!("{session}/rounds")).json(json!({"output": {"glob": "*"}})).await.expect(200);
    let watched = tokio::spawn(there.get(&format!("{session}/events")).into_future());
    other.stop().await;
    // It ended well, or was refused, if the server was the faster.
    if let Ok(reply) = watched.await {
        assert!(events(reply.expect(200).text()).len() <= 1);
    }
}
