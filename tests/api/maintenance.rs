//! Keeping up: what goes, what stays, and that writers meanwhile lose nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::BigInt;
use serde_json::json;
use slatebase::maintenance::runner::{self, Done, Manner};

use crate::support::Server;

async fn maintain(server: &Server) -> Done {
    let db = server.app.db.clone();
    tokio::task::spawn_blocking(move || runner::run(&db, Manner::AtOnce, |_, _| {})).await.unwrap().unwrap()
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

fn count(server: &Server, from: &str) -> i64 {
    let row: Count =
        sql_query(format!("select count(*) as n from {from}")).get_result(&mut server.superuser()).unwrap();
    row.n
}

/// All contents that are stored, each distinct one once.
const BYTES: &str = "(select data from blobs union select data from files where data is not null) as kept";

#[tokio::test]
async fn versions_past_retention_go_and_their_citations_say_so() {
    let (server, caller) = Server::with_slate().await;
    server
        .fill(&caller, "K", json!({"old.md": "old", "kept.md": "kept", "same.md": "old", "live.md": "live"}))
        .await;
    caller.put("/v1/slates/K/files/live.md").body("text/markdown", "live 2").await.ok(200);
    for path in ["old.md", "kept.md"] {
        caller.delete(&format!("/v1/slates/K/files/{path}")).await.expect(204);
    }
    server
        .superuser()
        .batch_execute(
            "update file_ids set deleted_at = deleted_at - interval '31 days' \
             where id in (select file_id from file_versions where path = 'old.md')",
        )
        .unwrap();
    let done = maintain(&server).await;
    assert_eq!((done.tenants, done.versions), (1, 1));
    assert_eq!(count(&server, "file_versions where purged_at is not null"), 1);
    // Another file has the same bytes.
    assert_eq!(count(&server, BYTES), 4);
    caller.get("/v1/slates/K/files/old.md?version=1").await.problem(410, "gone");
    let cited = json!({"reference": "slate://K/old.md@1"});
    assert_eq!(caller.post("/v1/citations/resolve").json(cited).await.ok(200)["status"], "gone");
    for path in ["kept.md?version=1", "live.md?version=1", "same.md"] {
        caller.get(&format!("/v1/slates/K/files/{path}")).await.expect(200);
    }
    caller.delete("/v1/slates/K/files/same.md").await.expect(204);
    server
        .superuser()
        .batch_execute(
            "update file_ids set deleted_at = now() - interval '31 days' where deleted_at is not null",
        )
        .unwrap();
    assert_eq!(maintain(&server).await.versions, 2);
    assert_eq!(count(&server, BYTES), 2);
    assert_eq!(maintain(&server).await.versions, 0);
}

#[tokio::test]
async fn finished_sessions_past_retention_go_and_their_records_stay() {
    let (server, caller) = Server::with_slate().await;
    server.fill(&caller, "K", json!({"a.md": "a"})).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let declaration = json!({"to": {"slate": "K"}, "as": "D", "maxRounds": 1, "requestMatch": {"properties": {"files": {}}}});
        let opened = caller.post("/v1/sessions").json(json!({"retrieve": declaration})).await.ok(201);
        ids.push(opened["session_id"].as_str().unwrap().to_owned());
    }
    for id in &ids[..2] {
        let rounds = format!("/v1/sessions/{id}/rounds");
        caller.post(&rounds).json(json!({"output": {"files": ["a.md"]}})).await.ok(200);
        caller.post(&rounds).json(json!({"output": "done"})).await.ok(200);
    }
    let old = format!("update sessions set finished_at = now() - interval '91 days' where id = '{}'", ids[0]);
    server.superuser().batch_execute(&old).unwrap();
    assert_eq!(maintain(&server).await.sessions, 1);
    caller.get(&format!("/v1/sessions/{}", ids[0])).await.expect(404);
    assert_eq!(caller.post(&format!("/v1/sessions/{}/verify", ids[0])).await.ok(200)["valid"], true);
    for id in &ids[1..] {
        caller.get(&format!("/v1/sessions/{id}")).await.expect(200);
    }
}

#[tokio::test]
async fn terms_that_no_file_has_leave_the_dictionary() {
    let (server, caller) = Server::with_slate().await;
    let files = json!({
        "a.md": {"content": "a", "metatags": {"category": "one", "only": ["x", 1]}},
        "b.md": {"content": "b", "metatags": {"category": "two"}},
    });
    server.fill(&caller, "K", files).await;
    assert_eq!(maintain(&server).await.terms, 0);
    let before = count(&server, "tag_terms");
    caller.delete("/v1/slates/K/files/a.md").await.expect(204);
    let dropped = maintain(&server).await.terms;
    assert!(dropped > 0);
    assert_eq!(count(&server, "tag_terms"), before - dropped);
    assert_eq!((count(&server, "tag_keys"), count(&server, "tag_terms where term = 'one'")), (1, 0));
    let query = |text: &str| {
        let request = json!({"request": {"metatag": {"name": "category", "contains": text}}});
        caller.post("/v1/slates/K/query").json(request)
    };
    assert_eq!(query("two").await.ok(200)["items"][0]["path"], "b.md");
    server.fill(&caller, "K", json!({"c.md": {"content": "c", "metatags": {"category": "one"}}})).await;
    assert_eq!(query("one").await.ok(200)["items"][0]["path"], "c.md");
}

#[tokio::test]
async fn writers_meanwhile_lose_no_term() {
    let (server, caller) = Server::with_slate().await;
    server.fill(&caller, "K", json!({"a.md": "a"})).await;
    let ended = Arc::new(AtomicBool::new(false));
    let (db, over) = (server.app.db.clone(), ended.clone());
    let keeper = tokio::task::spawn_blocking(move || {
        let mut rounds = 0;
        while !over.load(Ordering::Relaxed) {
            runner::run(&db, Manner::AtOnce, |_, _| {}).unwrap();
            rounds += 1;
        }
        rounds
    });
    // Each value is taken away, so that it is unused for a moment, and given again.
    for n in 0..60 {
        let tags = json!({"category": format!("value {}", n % 2), "n": n % 3});
        caller.put("/v1/slates/K/metatags/a.md").json(tags).await.ok(200);
    }
    ended.store(true, Ordering::Relaxed);
    assert!(keeper.await.unwrap() > 0);
    let dangling = "(select unnest(term_ids) as id from file_tags) as used where not exists (select from tag_terms t where t.id = used.id)";
    assert_eq!(count(&server, dangling), 0);
    let request = json!({"request": {"metatag": {"name": "category", "contains": "value 1"}}});
    let found = caller.post("/v1/slates/K/query").json(request).await.ok(200);
    assert_eq!(found["items"][0]["path"], "a.md");
}

#[tokio::test]
async fn statistics_follow_a_bulk_load() {
    let (server, caller) = Server::with_slate().await;
    let lines: String =
        (0..3000).map(|n| json!({"path": format!("d/{n}.md"), "content": "x"}).to_string() + "\n").collect();
    caller.post("/v1/slates/K/files").body("application/x-ndjson", lines).await.expect(200);
    // What was counted is told a moment after the transaction.
    for _ in 0..200 {
        maintain(&server).await;
        if count(&server, "pg_class where relname = 'files' and reltuples >= 3000") == 1 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("never analyzed");
}

/// As a database is that an earlier version has written: all contents are among the blobs.
#[tokio::test]
async fn small_contents_of_an_earlier_version_are_moved_beside_their_files() {
    let (server, caller) = Server::with_slate().await;
    let large = "x".repeat(4000);
    server
        .fill(&caller, "K", json!({"a.md": "first", "same.md": "kept", "b.md": "b", "large.md": large}))
        .await;
    caller.put("/v1/slates/K/files/a.md").body("text/plain", "kept").await.expect(200);
    caller.put("/v1/slates/K/files/a.md").body("text/plain", "a").await.expect(200);
    server
        .superuser()
        .batch_execute(
            "insert into blobs select distinct on (sha256) tenant_id, sha256, data from files where data is not null \
             on conflict do nothing; \
             update files set data = null",
        )
        .unwrap();
    server.check_store();
    maintain(&server).await;
    server.check_store();
    assert_eq!(count(&server, "files where data is null"), 1);
    // The large one, and the two earlier versions of a.md.
    assert_eq!(count(&server, "blobs"), 3);
    for (path, contents) in [
        ("a.md", "a"),
        ("a.md?version=1", "first"),
        ("a.md?version=2", "kept"),
        ("same.md", "kept"),
        ("b.md", "b"),
    ] {
        let read = caller.get(&format!("/v1/slates/K/files/{path}")).await.expect(200);
        assert_eq!(read.text(), contents, "{path}");
    }
    assert_eq!(caller.get("/v1/slates/K/files/large.md").await.expect(200).text(), large);
}
