//! What becomes of files over time: versions, moves, deletion, retention, purging and hiding.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use serde_json::{Value, json};

use crate::support::{Caller, Request, Server, at_once};

fn put(caller: &Caller, path: &str, text: impl Into<String>) -> Request {
    caller.put(&format!("/v1/slates/K/files/{path}")).body("text/plain", text.into())
}

fn get(caller: &Caller, path: &str) -> Request {
    caller.get(&format!("/v1/slates/K/files/{path}"))
}

fn delete(caller: &Caller, path: &str) -> Request {
    caller.delete(&format!("/v1/slates/K/files/{path}"))
}

fn change(caller: &Caller, path: &str, body: Value) -> Request {
    caller.patch(&format!("/v1/slates/K/files/{path}")).json(body)
}

/// The versions of a file, newest first, as `path@version`.
async fn versions(caller: &Caller, path: &str) -> Vec<String> {
    let page = caller.get(&format!("/v1/slates/K/versions/{path}")).await.ok(200);
    let named = |v: &Value| format!("{}@{}", v["path"].as_str().unwrap(), v["version"]);
    page["items"].as_array().unwrap().iter().map(named).collect()
}

fn count(connection: &mut PgConnection, from: &str) -> i64 {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    diesel::sql_query(format!("select count(*) from {from}")).get_result::<Row>(connection).unwrap().count
}

/// All contents that are stored, each distinct one once.
const BYTES: &str = "(select data from blobs union select data from files where data is not null) as kept";

#[tokio::test]
async fn versions_are_listed_newest_first_in_pages() {
    let (_server, caller) = Server::with_slate().await;
    for text in ["1", "22", "333"] {
        put(&caller, "a", text).await;
    }
    let page = caller.get("/v1/slates/K/versions/a?limit=2").await.ok(200);
    let sizes: Vec<_> = page["items"].as_array().unwrap().iter().map(|v| v["size"].clone()).collect();
    assert_eq!(sizes, [3, 2]);
    let next = page["next_cursor"].as_str().unwrap();
    let page = caller.get(&format!("/v1/slates/K/versions/a?limit=2&cursor={next}")).await.ok(200);
    assert_eq!((&page["items"][0]["version"], &page["next_cursor"]), (&json!(1), &Value::Null));
    assert_eq!(page["items"][0]["gone"], false);
    caller.get("/v1/slates/K/versions/none").await.problem(404, "not_found");
}

#[tokio::test]
async fn a_version_is_read_by_number_and_never_falls_through() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "a", "1").await;
    let newest = put(&caller, "a", "2").await;
    let old = get(&caller, "a?version=1").await.expect(200);
    assert_eq!((old.text(), old.header("slatebase-version")), ("1", "1"));
    assert_ne!(old.header("etag"), newest.header("etag"));
    assert_eq!(get(&caller, "a?version=1").header("range", "bytes=-1").await.expect(206).text(), "1");
    assert_eq!(caller.head("/v1/slates/K/files/a?version=1").await.expect(200).header("content-length"), "1");
    for missing in ["0", "-1", "3", "9223372036854775807"] {
        get(&caller, &format!("a?version={missing}")).await.problem(404, "not_found");
    }
    for wrong in ["x", "1.0", "9223372036854775808", ""] {
        get(&caller, &format!("a?version={wrong}")).await.invalid_at("/version");
    }
}

#[tokio::test]
async fn a_moved_file_keeps_its_identity_its_metatags_and_its_history() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "a", "1").await;
    let made = put(&caller, "a", "2").await.json();
    caller.put("/v1/slates/K/metatags/a").json(json!({"x": 1})).await.expect(200);
    let moved = change(&caller, "a", json!({"path": "d/e/b"})).await.ok(200);
    assert_eq!((&moved["path"], &moved["version"]), (&json!("d/e/b"), &json!(3)));
    assert_eq!((&moved["created_at"], &moved["sha256"]), (&made["created_at"], &made["sha256"]));
    get(&caller, "a").await.problem(404, "not_found");
    assert_eq!(versions(&caller, "d/e/b").await, ["d/e/b@3", "a@2", "a@1"]);
    assert_eq!(caller.get("/v1/slates/K/metatags/d/e/b").await.ok(200), json!({"x": 1}));
    // Each version is where it was.
    assert_eq!(get(&caller, "a?version=1").await.expect(200).text(), "1");
    get(&caller, "a?version=3").await.problem(404, "not_found");
    get(&caller, "d/e/b?version=2").await.problem(404, "not_found");
    // To where it is, it moves nothing.
    assert_eq!(change(&caller, "d/e/b", json!({"path": "d/e/b"})).await.ok(200)["version"], 3);
}

#[tokio::test]
async fn a_file_is_not_moved_onto_another() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "a", "1").await;
    put(&caller, "b", "2").await;
    change(&caller, "a", json!({"path": "b"})).await.problem(409, "name_conflict");
    change(&caller, "a", json!({"path": "../b"})).await.invalid_at("/path");
    change(&caller, "none", json!({"path": "c"})).await.problem(404, "not_found");
    assert_eq!((get(&caller, "a").await.text(), get(&caller, "b").await.text()), ("1", "2"));
}

#[tokio::test]
async fn of_two_files_moved_to_one_place_one_arrives() {
    let (_server, caller) = Server::with_slate().await;
    for round in 0..15 {
        let (a, b, to) = (format!("a{round}"), format!("b{round}"), format!("to{round}"));
        put(&caller, &a, "a").await;
        put(&caller, &b, "b").await;
        let both = [&a, &b].map(|from| change(&caller, from, json!({"path": to})));
        let mut statuses: Vec<u16> = at_once(both).await.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "round {round}");
    }
}

#[tokio::test]
async fn the_numbers_of_a_path_only_grow() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "a", "1").await;
    delete(&caller, "a").await.expect(204);
    assert_eq!(put(&caller, "a", "1").await.ok(201)["version"], 2);
    change(&caller, "a", json!({"path": "b"})).await.expect(200);
    assert_eq!(put(&caller, "a", "x").await.ok(201)["version"], 3);
    // The moved file's own numbers grow too, past those of a path that has had more.
    for text in ["1", "2", "3", "4", "5", "6"] {
        put(&caller, "c", text).await;
    }
    delete(&caller, "c").await.expect(204);
    assert_eq!(change(&caller, "b", json!({"path": "c"})).await.ok(200)["version"], 7);
    assert_eq!(change(&caller, "c", json!({"path": "b"})).await.ok(200)["version"], 8);
    // Also through the end of the slate.
    caller.delete("/v1/slates/K").await.expect(204);
    caller.put("/v1/slates/K").await.expect(201);
    assert_eq!(put(&caller, "a", "y").await.ok(201)["version"], 4);
    assert_eq!(versions(&caller, "a").await, ["a@4"]);
    assert_eq!(get(&caller, "a?version=3").await.expect(200).text(), "x");
}

#[tokio::test]
async fn a_file_made_anew_is_another_file() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "a", "1").await;
    caller.put("/v1/slates/K/metatags/a").json(json!({"x": 1})).await.expect(200);
    let old = get(&caller, "a").await.header("etag").to_owned();
    delete(&caller, "a").await.expect(204);
    assert_ne!(put(&caller, "a", "1").await.expect(201).header("etag"), old);
    assert_eq!(caller.get("/v1/slates/K/metatags/a").await.ok(200), json!({}));
    assert_eq!(versions(&caller, "a").await, ["a@2"]);
}

#[tokio::test]
async fn many_writers_of_a_new_path_make_one_file_with_a_version_each() {
    let (server, caller) = Server::with_slate().await;
    let replies = at_once((0..24).map(|n| put(&caller, "d/a", format!("text {n}")))).await;
    let mut numbers: Vec<i64> = replies
        .iter()
        .map(|reply| reply.json()["version"].as_i64().unwrap_or_else(|| panic!("{reply:?}")))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=24).collect::<Vec<_>>());
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    assert_eq!(count(&mut server.superuser(), "file_ids"), 1);
    assert_eq!(versions(&caller, "d/a").await.len(), 24);
}

#[tokio::test]
async fn a_deleted_file_is_out_of_sight_and_its_versions_stay() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "d/a", "1").await;
    delete(&caller, "d/a").await.expect(204);
    get(&caller, "d/a").await.problem(404, "not_found");
    delete(&caller, "d/a").await.problem(404, "not_found");
    change(&caller, "d/a", json!({"path": "b"})).await.problem(404, "not_found");
    caller.get("/v1/slates/K/versions/d/a").await.problem(404, "not_found");
    caller.get("/v1/slates/K/metatags/d/a").await.problem(404, "not_found");
    assert_eq!(caller.get("/v1/slates/K/folders/d").await.ok(200)["items"], json!([]));
    assert_eq!(get(&caller, "d/a?version=1").await.expect(200).text(), "1");
}

#[tokio::test]
async fn past_its_retention_a_deleted_file_is_gone() {
    let (server, caller) = Server::with_slate().await;
    put(&caller, "old", "1").await;
    put(&caller, "live", "1").await;
    put(&caller, "live", "2").await;
    delete(&caller, "old").await.expect(204);
    let mut admin = server.superuser();
    admin.batch_execute("update file_ids set deleted_at = deleted_at - interval '29 days'").unwrap();
    get(&caller, "old?version=1").await.expect(200);
    admin.batch_execute("update file_ids set deleted_at = deleted_at - interval '25 hours'").unwrap();
    get(&caller, "old?version=1").await.problem(410, "gone");
    caller.head("/v1/slates/K/files/old?version=1").await.expect(410);
    // A longer retention keeps more, none keeps nothing; what is live does not expire.
    caller.put("/v1/slates/K").json(json!({"retention_days": 40})).await.expect(200);
    get(&caller, "old?version=1").await.expect(200);
    caller.put("/v1/slates/K").json(json!({"retention_days": 0})).await.expect(200);
    get(&caller, "old?version=1").await.problem(410, "gone");
    get(&caller, "live?version=1").await.expect(200);
}

#[tokio::test]
async fn a_purge_scrubs_bytes_that_no_other_version_has() {
    let (server, caller) = Server::with_slate().await;
    put(&caller, "a", "only here").await;
    put(&caller, "a", "shared").await;
    put(&caller, "b", "shared").await;
    delete(&caller, "a?purge=true").await.expect(204);
    for version in [1, 2] {
        get(&caller, &format!("a?version={version}")).await.problem(410, "gone");
    }
    assert_eq!(get(&caller, "b").await.expect(200).text(), "shared");
    let mut admin = server.superuser();
    assert_eq!(count(&mut admin, BYTES), 1);
    assert_eq!(count(&mut admin, "file_versions where length(sha256) = 32"), 3);
    // The same bytes may come again.
    assert_eq!(put(&caller, "a", "only here").await.ok(201)["version"], 3);
    assert_eq!(get(&caller, "a").await.expect(200).text(), "only here");
    get(&caller, "a?version=1").await.problem(410, "gone");
}

#[tokio::test]
async fn what_was_deleted_can_still_be_purged() {
    let (server, caller) = Server::with_slate().await;
    put(&caller, "a", "1").await;
    delete(&caller, "a").await.expect(204);
    delete(&caller, "a?purge=true").await.expect(204);
    get(&caller, "a?version=1").await.problem(410, "gone");
    delete(&caller, "a?purge=true").await.problem(404, "not_found");
    // A file that went elsewhere before it was deleted is not at its old path.
    put(&caller, "b", "2").await;
    change(&caller, "b", json!({"path": "c"})).await.expect(200);
    delete(&caller, "c").await.expect(204);
    delete(&caller, "b?purge=true").await.problem(404, "not_found");
    assert_eq!(get(&caller, "c?version=2").await.expect(200).text(), "2");
    delete(&caller, "c?purge=true").await.expect(204);
    get(&caller, "b?version=1").await.problem(410, "gone");
    assert_eq!(count(&mut server.superuser(), BYTES), 0);
}

#[tokio::test]
async fn folders_and_slates_are_purged_whole() {
    let (server, caller) = Server::with_slate().await;
    put(&caller, "d/a", "1").await;
    put(&caller, "d/e/b", "2").await;
    put(&caller, "c", "3").await;
    caller.delete("/v1/slates/K/folders/d?recursive=true&purge=true").await.expect(204);
    get(&caller, "d/e/b?version=1").await.problem(410, "gone");
    assert_eq!(count(&mut server.superuser(), BYTES), 1);
    caller.delete("/v1/slates/K?purge=true").await.expect(204);
    assert_eq!(count(&mut server.superuser(), BYTES), 0);
}

/// Checks that no reader sees the file at `path` through any door, or that every reader does.
async fn seen(caller: &Caller, path: &str, visible: bool) {
    let status = if visible { 200 } else { 404 };
    let at = |part: &str| format!("/v1/slates/K/{part}/{path}");
    for url in [at("files"), at("files") + "?version=1", at("versions"), at("metatags")] {
        assert_eq!(caller.get(&url).await.status, status, "{url}");
    }
    for url in [at("files"), at("files") + "?version=1"] {
        assert_eq!(caller.head(&url).await.status, status, "HEAD {url}");
    }
    let request = json!({"glob": "*", "metatag": {"name": "x"}, "files": [path], "subfolders": ["", "d"]});
    let found = caller.post("/v1/slates/K/query").json(json!({"request": request, "recursive": true})).await;
    let items = found.ok(200)["items"].clone();
    let fetched = |item: &Value| item["status"] == "fetched" && item["path"] == path;
    assert_eq!(items.as_array().unwrap().iter().any(fetched), visible, "{items}");
    let name = path.rsplit('/').next().unwrap();
    let folder = path.strip_suffix(name).unwrap();
    let listed = caller.get(&format!("/v1/slates/K/folders/{folder}")).await;
    assert_eq!(listed.status == 200 && listed.text().contains(name), visible, "{listed:?}");
    assert_eq!(items.to_string().contains(&format!("\"{name}\"")), visible, "{items}");
}

async fn secret() -> (Server, Caller) {
    let (server, caller) = Server::with_slate().await;
    let body = json!({"path": "d/plan.md", "content": "x", "metatags": {"x": 1}});
    caller.post("/v1/slates/K/files").json(body).await.expect(201);
    seen(&caller, "d/plan.md", true).await;
    (server, caller)
}

#[tokio::test]
async fn a_sensitive_file_is_kept_from_every_reader_until_it_is_not() {
    let (_server, caller) = secret().await;
    change(&caller, "d/plan.md", json!({"sensitive": true})).await.expect(200);
    seen(&caller, "d/plan.md", false).await;
    put(&caller, "d/plan.md", "y").await.expect(200);
    change(&caller, "d/plan.md", json!({"path": "d/q.md"})).await.expect(200);
    change(&caller, "d/q.md", json!({"path": "d/plan.md"})).await.expect(200);
    seen(&caller, "d/plan.md", false).await;
    change(&caller, "d/plan.md", json!({"sensitive": false})).await.expect(200);
    seen(&caller, "d/plan.md", true).await;
}

#[tokio::test]
async fn a_sensitive_folder_is_kept_from_every_reader_with_all_below() {
    let (_server, caller) = secret().await;
    let set = |body: Value| caller.put("/v1/slates/K/folders/d").json(body);
    set(json!({"sensitive": true})).await.expect(200);
    seen(&caller, "d/plan.md", false).await;
    put(&caller, "d/e/new.md", "y").await.expect(201);
    seen(&caller, "d/e/new.md", false).await;
    change(&caller, "d/e/new.md", json!({"path": "new.md"})).await.expect(200);
    get(&caller, "new.md").await.expect(200);
    caller.patch("/v1/slates/K/folders/d").json(json!({"path": "f"})).await.expect(200);
    seen(&caller, "f/plan.md", false).await;
    caller.patch("/v1/slates/K/folders/f").json(json!({"path": "d"})).await.expect(200);
    set(json!({})).await.expect(200);
    seen(&caller, "d/plan.md", true).await;
}

#[tokio::test]
async fn denied_names_are_kept_from_every_reader_until_they_are_not() {
    let (_server, caller) = secret().await;
    for glob in ["**/plan.md", "d/**"] {
        caller.put("/v1/settings").json(json!({"deny_globs": [glob]})).await.expect(200);
        seen(&caller, "d/plan.md", false).await;
    }
    caller.put("/v1/settings").json(json!({"deny_globs": []})).await.expect(200);
    seen(&caller, "d/plan.md", true).await;
    // The versions that it had at a denied path stay denied.
    caller.put("/v1/settings").json(json!({"deny_globs": ["d/**"]})).await.expect(200);
    change(&caller, "d/plan.md", json!({"path": "open.md"})).await.expect(200);
    get(&caller, "open.md").await.expect(200);
    get(&caller, "d/plan.md?version=1").await.problem(404, "not_found");
    assert_eq!(versions(&caller, "open.md").await, ["open.md@2"]);
}

#[tokio::test]
async fn what_was_hidden_when_it_was_deleted_stays_hidden() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "a", "1").await;
    put(&caller, "d/b", "2").await;
    put(&caller, "e/c", "3").await;
    change(&caller, "a", json!({"sensitive": true})).await.expect(200);
    for folder in ["d", "e"] {
        let set = caller.put(&format!("/v1/slates/K/folders/{folder}")).json(json!({"sensitive": true}));
        set.await.expect(200);
    }
    delete(&caller, "a").await.expect(204);
    delete(&caller, "d/b").await.expect(204);
    caller.delete("/v1/slates/K/folders/e?recursive=true").await.expect(204);
    for path in ["a", "d/b", "e/c"] {
        get(&caller, &format!("{path}?version=1")).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_file_that_is_written_while_its_folder_turns_sensitive_is_hidden() {
    let (_server, caller) = Server::with_slate().await;
    for round in 0..15 {
        let path = format!("d{round}/a");
        put(&caller, &format!("d{round}/first"), "").await.expect(201);
        let sensitive =
            caller.put(&format!("/v1/slates/K/folders/d{round}")).json(json!({"sensitive": true}));
        for reply in at_once([put(&caller, &path, "x"), sensitive]).await {
            assert!(reply.status < 300, "{reply:?}");
        }
        get(&caller, &path).await.problem(404, "not_found");
    }
}
