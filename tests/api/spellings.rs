//! Two spellings of a name: which are refused side by side, and which requests find a thing by the other.

use serde_json::{Value, json};

use crate::support::{Caller, Request, Server, at_once, in_url};

/// Pairs of names that are equal in Unicode normal form C. The last three have an ASCII one.
const PAIRS: [(&str, &str); 4] =
    [("cafe\u{301}", "caf\u{e9}"), ("\u{212A}", "K"), ("a\u{37E}b", "a;b"), ("x\u{1FEF}", "x`")];

fn both_ways() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAIRS.into_iter().flat_map(|(one, other)| [(one, other), (other, one)])
}

fn file(path: &str) -> String {
    format!("/v1/slates/K/files/{}", in_url(path))
}

fn folder(path: &str) -> String {
    format!("/v1/slates/K/folders/{}", in_url(path))
}

fn metatags(path: &str) -> String {
    format!("/v1/slates/K/metatags/{}", in_url(path))
}

fn put(caller: &Caller, path: &str) -> Request {
    caller.put(&file(path)).body("text/plain", path.to_owned())
}

#[tokio::test]
async fn no_two_names_of_a_folder_are_spellings_of_each_other() {
    for (one, other) in both_ways() {
        let (server, caller) = Server::with_slate().await;
        put(&caller, &format!("d/{one}")).await.expect(201);
        put(&caller, "d/plain").await.expect(201);
        put(&caller, &format!("d/{other}")).await.problem(409, "name_conflict");
        let sent = json!({"path": format!("d/{other}"), "content": ""});
        caller.post("/v1/slates/K/files").json(sent).await.problem(409, "name_conflict");
        put(&caller, &format!("d/{other}/below")).await.problem(409, "name_conflict");
        caller.put(&folder(&format!("d/{other}"))).await.problem(409, "name_conflict");
        let moved = json!({"path": format!("d/{other}")});
        caller.patch(&file("d/plain")).json(moved.clone()).await.problem(409, "name_conflict");
        caller.put(&folder("e")).await.expect(201);
        caller.patch(&folder("e")).json(moved).await.problem(409, "name_conflict");

        put(&caller, &format!("{one}/x")).await.expect(201);
        put(&caller, &format!("{other}/y")).await.problem(409, "name_conflict");
        put(&caller, other).await.problem(409, "name_conflict");
        caller.put(&folder(other)).await.problem(409, "name_conflict");
        let lines = format!(
            "{}\n{}\n",
            json!({"path": format!("n/{one}"), "content": ""}),
            json!({"path": format!("n/{other}"), "content": ""})
        );
        let bulk = caller.post("/v1/slates/K/files").body("application/x-ndjson", lines).await.expect(200);
        let answers: Vec<Value> =
            bulk.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers[0]["status"], 201, "{answers:?}");
        assert_eq!(answers[1]["error"]["status"], 409, "{answers:?}");
        server.check_store();
    }
}

#[tokio::test]
async fn of_two_writers_of_two_spellings_one_writes() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "d/first").await.expect(201);
    for (n, (one, other)) in both_ways().enumerate() {
        let paths =
            [format!("d/{n}{one}"), format!("d/{n}{other}"), format!("{n}{one}/x"), format!("{n}{other}/x")];
        let replies = at_once(paths.iter().map(|path| put(&caller, path))).await;
        let mut statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
        statuses[..2].sort_unstable();
        statuses[2..].sort_unstable();
        assert_eq!(statuses, [201, 409, 201, 409], "{one} {other}");
    }
}

#[tokio::test]
async fn what_is_there_is_found_by_its_other_spelling() {
    for (one, other) in both_ways() {
        let (_server, caller) = Server::with_slate().await;
        let (there, asked) = (format!("{one}/{one}"), format!("{other}/{other}"));
        put(&caller, &there).await.expect(201);
        assert_eq!(caller.get(&file(&asked)).await.expect(200).text(), there);
        assert_eq!(caller.get(&folder(other)).await.ok(200)["path"], one);
        let query = json!({"request": {"files": [asked], "subfolders": [other]}});
        let found = caller.post("/v1/slates/K/query").json(query).await.ok(200);
        assert_eq!(
            (&found["items"][0]["status"], &found["items"][0]["path"]),
            (&json!("fetched"), &json!(there))
        );
        assert_eq!(found["items"][1]["status"], "listing");

        caller.put(&metatags(&asked)).json(json!({"a": 1})).await.expect(200);
        caller.patch(&metatags(&asked)).json(json!({"b": 2})).await.expect(200);
        assert_eq!(caller.get(&metatags(&there)).await.ok(200), json!({"a": 1, "b": 2}));
        let set = caller.patch(&file(&asked)).json(json!({"media_type": "a/b"})).await.ok(200);
        assert_eq!((&set["path"], &set["media_type"]), (&json!(there), &json!("a/b")));
        // To say the path that it was asked by is to respell it.
        let respelt = format!("{one}/{other}");
        let moved = caller.patch(&file(&asked)).json(json!({"path": respelt})).await.ok(200);
        assert_eq!((&moved["path"], &moved["version"]), (&json!(respelt), &json!(2)));
        caller.patch(&folder(other)).json(json!({"path": "moved"})).await.expect(200);
        assert_eq!(caller.get(&file(&format!("moved/{one}"))).await.expect(200).text(), there);
        caller.delete(&file(&format!("moved/{one}"))).await.expect(204);
        caller.get(&file(&format!("moved/{other}"))).await.problem(404, "not_found");

        put(&caller, &there).await.expect(201);
        caller.delete(&(folder(other) + "?recursive=true")).await.expect(204);
        caller.get(&file(&there)).await.problem(404, "not_found");
    }
}
