//! Folders: indexes, settings, moves and deletion.

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};

use crate::support::{Caller, Request, Server, at_once, in_url};

fn folder(path: &str) -> String {
    format!("/v1/slates/K/folders/{}", in_url(path))
}

fn mv(caller: &Caller, from: &str, to: &str) -> Request {
    caller.patch(&folder(from)).json(json!({"path": to}))
}

/// The whole index as `name size`, read in pages of `limit`.
async fn index(caller: &Caller, path: &str, limit: usize) -> Vec<String> {
    let (mut lines, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = caller.get(&format!("{}?limit={limit}{cursor}", folder(path))).await.ok(200);
        assert_eq!(page["path"], path);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        lines.extend(items.iter().map(|item| format!("{} {}", item["name"].as_str().unwrap(), item["size"])));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return lines,
        }
    }
}

async fn given(files: Value) -> (Server, Caller) {
    let (server, caller) = Server::with_slate().await;
    server.fill(&caller, "K", files).await;
    (server, caller)
}

#[tokio::test]
async fn an_index_is_in_byte_order_and_sums_what_lies_below() {
    let files = json!({"a": "1", "a-b/x": "22", "a.b/x": "333", "Z": "", "é": "1", "c/d/e/f": "4444", "c/g": "1",
        "a0": "1"});
    let (_server, caller) = given(files).await;
    caller.put(&folder("empty")).await.expect(201);
    let expected = ["Z 0", "a 1", "a-b/ 2", "a.b/ 3", "a0 1", "c/ 5", "empty/ 0", "é 1"];
    for limit in [1, 3, 100] {
        assert_eq!(index(&caller, "", limit).await, expected, "{limit}");
    }
    assert_eq!(index(&caller, "c", 100).await, ["d/ 4", "g 1"]);
    assert_eq!(caller.get("/v1/slates/K/folders").await.ok(200), caller.get(&folder("")).await.ok(200));
    assert_eq!(caller.get(&(folder("c") + "/")).await.ok(200)["path"], "c");
    for path in ["none", "a", "c//d", "/c"] {
        caller.get(&folder(path)).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn the_size_of_a_folder_is_exact_to_ten_thousand_files() {
    let (server, caller) = given(json!({"big/f": "12"})).await;
    server
        .superuser()
        .batch_execute(
            "insert into file_ids (tenant_id, id, slate_id, created_at) overriding system value \
                 select tenant_id, id + 1000 + i, slate_id, created_at from file_ids, generate_series(1, 9999) i; \
             insert into file_versions (tenant_id, slate_id, path, version, file_id, sha256, size, media_type, \
                     is_text, created_at) \
                 select tenant_id, slate_id, 'big/g' || i, 1, file_id + 1000 + i, sha256, size, media_type, is_text, \
                     created_at from file_versions, generate_series(1, 9999) i; \
             insert into files (tenant_id, id, slate_id, folder_id, name, path, size, version, sha256, media_type, \
                     is_text, modified_at, created_at, updated_at) \
                 select tenant_id, id + 1000 + i, slate_id, folder_id, 'g' || i, 'big/g' || i, size, 1, sha256, \
                     media_type, is_text, modified_at, created_at, updated_at from files, generate_series(1, 9999) i; \
             insert into file_tags (tenant_id, file_id, slate_id, folder_id, name, path, tags, term_ids) \
                 select tenant_id, id, slate_id, folder_id, name, path, '{}', '{}' from files where name <> 'f'",
        )
        .unwrap();
    assert_eq!(index(&caller, "", 10).await, ["big/ 20000"]);
    caller.put("/v1/slates/K/files/big/one/more").body("text/plain", "x").await.expect(201);
    assert_eq!(index(&caller, "", 10).await, ["big/ null"]);
    assert_eq!(index(&caller, "big", 1000).await.len(), 10_001);
}

#[tokio::test]
async fn a_folder_is_made_with_those_above_it_and_its_settings_are_set_whole() {
    let (_server, caller) = Server::with_slate().await;
    let put = |body: Value| caller.put(&folder("a/b")).json(body);
    let made = put(json!({"authority": "low"})).await.ok(201);
    assert_eq!((&made["path"], &made["authority"]), (&json!("a/b"), &json!("low")));
    assert_eq!(put(json!({})).await.ok(200)["authority"], Value::Null);
    assert_eq!(index(&caller, "", 10).await, ["a/ 0"]);
    for (body, at) in [
        (json!({"authority": "x"}), "/authority"),
        (json!({"sensitive": "x"}), "/sensitive"),
        (json!({"unknown": 1}), "/unknown"),
    ] {
        put(body).await.invalid_at(at);
    }
    for path in ["x".repeat(256), vec!["d"; 65].join("/"), "a//b".into(), "a\\b".into()] {
        caller.put(&folder(&path)).await.invalid_at("");
    }
}

#[tokio::test]
async fn a_moved_folder_takes_all_below_along() {
    let (_server, caller) = given(json!({
        "a/f": {"content": "1", "metatags": {"x": 1}}, "a/b/c/g": "22", "ab/h": "stays", "a.c": "stays",
    }))
    .await;
    assert_eq!(mv(&caller, "a", "new/n").await.ok(200)["path"], "new/n");
    caller.get(&folder("a")).await.problem(404, "not_found");
    assert_eq!(index(&caller, "", 10).await, ["a.c 5", "ab/ 5", "new/ 3"]);
    assert_eq!(index(&caller, "new/n", 10).await, ["b/ 2", "f 1"]);
    let file = caller.get("/v1/slates/K/files/new/n/b/c/g").await.expect(200);
    assert_eq!((file.text(), file.header("slatebase-version")), ("22", "2"));
    assert_eq!(caller.get("/v1/slates/K/metatags/new/n/f").await.ok(200), json!({"x": 1}));
    let versions = caller.get("/v1/slates/K/versions/new/n/f").await.ok(200)["items"].clone();
    assert_eq!((&versions[0]["path"], &versions[1]["path"]), (&json!("new/n/f"), &json!("a/f")));
    assert_eq!(caller.get("/v1/slates/K/files/a/f?version=1").await.expect(200).text(), "1");
    let found = json!({"folder": "new/n", "request": {"metatag": {"name": "x"}, "glob": "f"}});
    assert_eq!(caller.post("/v1/slates/K/query").json(found).await.ok(200)["items"][0]["path"], "f");
    // And what is made at the old place goes on with its numbers.
    let anew = caller.put("/v1/slates/K/files/a/f").body("text/plain", "x").await.ok(201);
    assert_eq!(anew["version"], 2);
    mv(&caller, "new/n", "a/sub").await.expect(200);
    assert_eq!(index(&caller, "a", 10).await, ["f 1", "sub/ 3"]);
}

#[tokio::test]
async fn a_move_that_cannot_be_is_refused() {
    let (_server, caller) = given(json!({"a/f": "1", "b/g": "2", "file": "", "n": ""})).await;
    for (from, to) in [("a", "b"), ("a", "file"), ("a", "file/x"), ("a", "b/g"), ("a/x", "b")] {
        let status = if from == "a" { 409 } else { 404 };
        mv(&caller, from, to).await.expect(status);
    }
    for (from, to) in [("a", "a/b"), ("a", ""), ("", "c"), ("a", "../c"), ("a", "c/")] {
        mv(&caller, from, to).await.invalid_at("/path");
    }
    let deep = vec!["d"; 63].join("/");
    mv(&caller, "a", &format!("{deep}/e")).await.invalid_at("/path");
    mv(&caller, "a", &deep).await.expect(200);
    let (long, tail) = ("x".repeat(255), "y".repeat(255));
    let far = format!("{long}/{long}/{long}/{tail}");
    mv(&caller, "b", &far).await.invalid_at("/path");
    assert_eq!(index(&caller, "b", 10).await, ["g 1"]);
    assert_eq!(mv(&caller, "b", "b").await.ok(200)["path"], "b");
}

#[tokio::test]
async fn a_folder_may_be_respelt_and_is_found_by_either_spelling() {
    let (_server, caller) = given(json!({"cafe\u{301}/x": "1"})).await;
    assert_eq!(caller.get(&folder("caf\u{e9}")).await.ok(200)["path"], "cafe\u{301}");
    caller.put(&folder("caf\u{e9}")).await.problem(409, "name_conflict");
    mv(&caller, "cafe\u{301}", "caf\u{e9}").await.expect(200);
    assert_eq!(index(&caller, "caf\u{e9}", 10).await, ["x 1"]);
    caller.put(&folder("other")).await.expect(201);
    mv(&caller, "other", "cafe\u{301}").await.problem(409, "name_conflict");
}

#[tokio::test]
async fn only_an_empty_folder_goes_alone() {
    let (_server, caller) = given(json!({"a/b/f": "1", "a-": "stays", "a0": "stays"})).await;
    caller.put(&folder("e/e")).await.expect(201);
    for path in ["a", "a/b", "e"] {
        caller.delete(&folder(path)).await.problem(409, "folder_not_empty");
    }
    caller.delete(&folder("e/e")).await.expect(204);
    caller.delete(&(folder("a") + "?recursive=true")).await.expect(204);
    caller.delete(&folder("a")).await.problem(404, "not_found");
    caller.delete(&folder("")).await.invalid_at("");
    assert_eq!(index(&caller, "", 10).await, ["a- 5", "a0 5", "e/ 0"]);
    assert_eq!(caller.get("/v1/slates/K/files/a/b/f?version=1").await.expect(200).text(), "1");
    caller.delete(&(folder("e") + "?recursive=yes")).await.invalid_at("/recursive");
}

#[tokio::test]
async fn many_make_folders_in_one_parent_at_once() {
    let (_server, caller) = Server::with_slate().await;
    for round in 0..4 {
        let paths = (0..12).map(|n| format!("r{}/d{n}/e{round}", round / 2));
        let made = at_once(paths.map(|path| caller.put(&folder(&path))));
        for reply in made.await {
            reply.expect(201);
        }
    }
    assert_eq!(index(&caller, "", 100).await, ["r0/ 0", "r1/ 0"]);
    assert_eq!(index(&caller, "r1", 100).await.len(), 12);
}

#[tokio::test]
async fn files_are_written_while_their_folder_moves() {
    let (_server, caller) = given(json!({"p0/first": ""})).await;
    for round in 0..12 {
        let (from, to) = (format!("p{round}"), format!("p{}", round + 1));
        let write =
            |n: i32| caller.put(&format!("/v1/slates/K/files/{from}/f{round}-{n}")).body("text/plain", "x");
        for reply in at_once([write(1), mv(&caller, &from, &to), write(2)]).await {
            assert!(reply.status < 300, "{reply:?}");
        }
        // Written before the move, it went along; after it, it made the folder anew.
        let (moved, anew) = (index(&caller, &to, 1000).await, caller.get(&folder(&from)).await);
        let text = format!("{moved:?}{}", anew.text());
        assert!([1, 2].iter().all(|n| text.contains(&format!("f{round}-{n}"))), "{text}");
    }
}
