//! Slates: making, setting, listing and deleting them.

use serde_json::{Value, json};

use crate::support::{Caller, Request, Server, at_once};

fn set(caller: &Caller, body: Value) -> Request {
    caller.put("/v1/slates/K").json(body)
}

#[tokio::test]
async fn a_put_gives_all_settings() {
    let (_server, caller) = Server::with_slate().await;
    let made = caller.get("/v1/slates/K").await.ok(200);
    assert_eq!((&made["retention_days"], &made["metatag_types"]), (&json!(30), &json!({})));
    let full = json!({"description": "d", "authority": "high", "volatile": true, "max_age_seconds": 60,
        "retention_days": 0, "metatag_types": {"a": "string[]", "b": "object"}});
    let after = set(&caller, full.clone()).await.ok(200);
    for (member, value) in full.as_object().unwrap() {
        assert_eq!(&after[member], value, "{member}");
    }
    assert_eq!(caller.get("/v1/slates/K").await.ok(200), after);
    let mut bare = set(&caller, json!({})).await.ok(200);
    bare["updated_at"] = made["updated_at"].clone();
    assert_eq!(bare, made);
}

#[tokio::test]
async fn wrong_settings_are_refused_by_pointer() {
    let (_server, caller) = Server::with_slate().await;
    for (body, at) in [
        (json!({"description": "x".repeat(16 * 1024 + 1)}), "/description"),
        (json!({"description": "a\0"}), "/description"),
        (json!({"authority": "highest"}), "/authority"),
        (json!({"volatile": 1}), "/volatile"),
        (json!({"max_age_seconds": 0}), "/max_age_seconds"),
        (json!({"max_age_seconds": 1.5}), "/max_age_seconds"),
        (json!({"retention_days": -1}), "/retention_days"),
        (json!({"retention_days": 36_501}), "/retention_days"),
        (json!({"retention_days": 4_294_967_296u64}), "/retention_days"),
        (json!({"metatag_types": {"a/b": "text"}}), "/metatag_types/a~1b"),
        (json!({"metatag_types": {"": "string"}}), "/metatag_types/"),
        (
            json!({"metatag_types": {"n".repeat(129): "string"}}),
            &format!("/metatag_types/{}", "n".repeat(129)),
        ),
        (json!({"unknown": 1}), "/unknown"),
    ] {
        set(&caller, body).await.invalid_at(at);
    }
    for name in ["a%2Fb", "..%2F", "a%5Cb", "%2E", &"x".repeat(256)] {
        let reply = caller.put(&format!("/v1/slates/{name}")).await;
        assert!([404, 422].contains(&reply.status), "{name}: {reply:?}");
    }
    caller.put(&format!("/v1/slates/{}", "x".repeat(255))).await.expect(201);
}

#[tokio::test]
async fn names_are_case_sensitive_and_listed_in_byte_order_in_pages() {
    let (_server, caller) = Server::with_slate().await;
    for name in ["k", "A", "b-1", "b", "%C3%A9"] {
        caller.put(&format!("/v1/slates/{name}")).await.expect(201);
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = caller.get(&format!("/v1/slates?limit=2{cursor}")).await.ok(200);
        names.extend(page["items"].as_array().unwrap().iter().map(|slate| slate["name"].clone()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["A", "K", "b", "b-1", "k", "é"]);
}

#[tokio::test]
async fn the_entity_tag_guards_settings() {
    let (_server, caller) = Server::with_slate().await;
    let etag = caller.get("/v1/slates/K").await.header("etag").to_owned();
    caller.get("/v1/slates/K").header("if-none-match", &etag).await.expect(304);
    set(&caller, json!({})).header("if-none-match", "*").await.problem(412, "precondition_failed");
    // The same settings again change nothing.
    assert_eq!(set(&caller, json!({})).header("if-match", &etag).await.expect(200).header("etag"), etag);
    let fresh = set(&caller, json!({"volatile": true})).header("if-match", &etag).await.expect(200);
    assert_ne!(fresh.header("etag"), etag);
    set(&caller, json!({})).header("if-match", &etag).await.problem(412, "precondition_failed");
    caller.delete("/v1/slates/K").header("if-match", &etag).await.problem(412, "precondition_failed");
    caller.put("/v1/slates/L").header("if-match", "*").await.problem(412, "precondition_failed");
    caller.put("/v1/slates/L").header("if-none-match", "*").await.expect(201);
    caller.delete("/v1/slates/K").header("if-match", fresh.header("etag")).await.expect(204);
}

#[tokio::test]
async fn of_many_who_change_the_same_settings_one_wins() {
    let (_server, caller) = Server::with_slate().await;
    for round in 0..15 {
        let etag = caller.get("/v1/slates/K").await.header("etag").to_owned();
        let change = |n: i32| set(&caller, json!({"retention_days": 100 + 4 * round + n}));
        let replies = at_once((0..4).map(|n| change(n).header("if-match", &etag))).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412, 412, 412], "round {round}");
    }
}

#[tokio::test]
async fn a_deleted_slate_is_out_of_sight_and_may_be_made_anew_and_empty() {
    let (_server, caller) = Server::with_slate().await;
    let old = set(&caller, json!({"description": "old"})).await.ok(200);
    caller.put("/v1/slates/K/files/d/a").body("text/plain", "x").await.expect(201);
    caller.delete("/v1/slates/K").await.expect(204);
    for path in ["", "/folders", "/folders/d", "/files/d/a", "/files/d/a?version=1", "/versions/d/a"] {
        caller.get(&format!("/v1/slates/K{path}")).await.problem(404, "not_found");
    }
    caller.delete("/v1/slates/K").await.problem(404, "not_found");
    assert_eq!(caller.get("/v1/slates").await.ok(200)["items"], json!([]));
    let new = caller.put("/v1/slates/K").await.ok(201);
    assert_eq!((&new["description"], &new["created_at"]), (&Value::Null, &new["updated_at"]));
    assert_ne!(new["created_at"], old["created_at"]);
    assert_eq!(caller.get("/v1/slates/K/folders").await.ok(200)["items"], json!([]));
    assert_eq!(caller.get("/v1/slates/K/files/d/a?version=1").await.expect(200).text(), "x");
}

#[tokio::test]
async fn nothing_is_written_to_a_slate_that_is_not_there() {
    let (_server, caller) = Server::with_slate().await;
    let file = json!({"path": "a", "content": ""});
    caller.put("/v1/slates/none/files/a").body("text/plain", "x").await.problem(404, "not_found");
    caller.post("/v1/slates/none/files").json(file).await.problem(404, "not_found");
    caller.put("/v1/slates/none/folders/a").await.problem(404, "not_found");
    caller.put("/v1/slates/none/metatags/a").json(json!({})).await.problem(404, "not_found");
}
