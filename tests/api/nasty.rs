//! Whatever is sent, the answer is a success or a refusal in the form that all have, and never a failure of ours.

use serde_json::{Value, json};

use crate::support::{Caller, Reply, Request, Server, in_url};

/// What no client should send.
fn values() -> Vec<Value> {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([{ "a": deep }]);
    }
    let texts = [
        "",
        "\0",
        "a\0b",
        " ",
        "é",
        "e\u{301}",
        "\u{212A}",
        "\u{10FFFF}\u{200D}\u{202E}",
        "a/../b",
        "/",
        "//",
        ".",
        "..",
        "a\\b",
        "'; drop table files; --",
        "%00",
        "%",
        "_",
        "[",
        "[!",
        "**",
        "a**",
        "$1",
        "{}",
        "null",
        "-1",
        "1e400",
        "NaN",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:60Z",
        "-9999-01-01T00:00:00Z",
        "+262142-12-31T23:59:59Z",
        "1970-01-01T00:00:00+23:59",
        "text/plain",
        "text/plain; a=\"\r\nX: y\"",
        "text/é",
        "=",
        "AA",
        "////",
        "K",
        "high",
    ];
    let mut values: Vec<Value> = texts.into_iter().map(Value::from).collect();
    values.extend(["x", "é", "/a", "\"", "*", "[a]"].map(|text| Value::from(text.repeat(2000))));
    values.extend([
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(5e-324),
        json!(-0.0),
        json!([]),
        json!([null]),
        json!([""]),
        json!(["\0"]),
        json!([[]]),
        json!({}),
        json!({"": ""}),
        json!({"\0": "\0"}),
        json!({"a": null}),
        json!({"x": {"y": ["z", 1.0, null]}}),
        deep,
    ]);
    values
}

#[track_caller]
fn check(reply: &Reply, what: &str) {
    assert!(reply.status < 500, "{what}: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
    if reply.status >= 400 && !reply.body.is_empty() {
        assert_eq!(reply.header("content-type"), "application/problem+json", "{what}");
    }
}

async fn world() -> (Server, Caller) {
    let (server, caller) = Server::with_slate().await;
    let files = json!({"d/a": {"content": "text", "metatags": {"n": 1, "t": ["x"], "s": "y"}}, "b": "text"});
    server.fill(&caller, "K", files).await;
    (server, caller)
}

/// Operations, and a body that each takes.
fn bodies() -> Vec<(&'static str, &'static str, Value)> {
    let request = json!({"files": ["a"], "subfolders": [""], "metatag": {"name": "s", "contains": "y"}, "glob": "*",
        "where": {"all": [{"tag": "n", "gte": 1}, {"name": {"glob": "*"}}, {"modified": {"since": "2026-01-01T00:00:00Z"}}]}});
    let limits = json!({"maxFilesPerRound": 5, "maxBytesPerRound": 10, "maxTotalBytes": 10});
    let grant =
        json!({"type": "object", "properties": {"files": {"type": "array"}, "glob": {"type": "string"}}});
    let retrieve = json!({"to": {"slate": "K", "folder": "d"}, "as": "Docs", "maxRounds": 2, "requestMatch": grant,
        "recursive": true, "refetchChanged": true, "limits": limits});
    vec![
        (
            "PUT",
            "/v1/settings",
            json!({"default_slate": "K", "deny_globs": ["*.x"], "session_retention_days": 9}),
        ),
        (
            "PUT",
            "/v1/slates/K",
            json!({"description": "d", "authority": "low", "volatile": true, "max_age_seconds": 9,
            "retention_days": 9, "metatag_types": {"n": "number"}}),
        ),
        ("PUT", "/v1/slates/K/folders/d", json!({"authority": "low", "sensitive": false})),
        ("PATCH", "/v1/slates/K/folders/d", json!({"path": "d"})),
        (
            "POST",
            "/v1/slates/K/files",
            json!({"path": "d/a", "content": "text", "media_type": "text/plain",
            "metatags": {"n": 1}, "authority": "low", "sensitive": false, "source_modified_at": "2026-01-01T00:00:00Z",
            "source_version": "1"}),
        ),
        ("POST", "/v1/slates/K/files", json!({"path": "d/a", "content_base64": "AA=="})),
        (
            "PATCH",
            "/v1/slates/K/files/b",
            json!({"path": "b", "media_type": "a/b", "authority": "low", "sensitive": false}),
        ),
        ("PUT", "/v1/slates/K/metatags/d/a", json!({"n": 1, "s": "y"})),
        ("PATCH", "/v1/slates/K/metatags/d/a", json!({"n": 1, "s": "y"})),
        (
            "POST",
            "/v1/slates/K/query",
            json!({"folder": "d", "recursive": true, "request": request, "limit": 5}),
        ),
        ("POST", "/v1/sessions", json!({"retrieve": retrieve, "fields": {"a": "b"}, "goal": "g"})),
    ]
}

/// Every place in a body, by its pointer.
fn places(body: &Value, base: String, found: &mut Vec<String>) {
    found.push(base.clone());
    let members: Vec<(String, &Value)> = match body {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in members {
        places(value, format!("{base}/{name}"), found);
    }
}

#[tokio::test]
async fn in_any_place_of_a_body() {
    let (server, caller) = world().await;
    for (method, path, body) in bodies() {
        let mut pointers = Vec::new();
        places(&body, String::new(), &mut pointers);
        for pointer in pointers {
            for value in values() {
                let mut changed = body.clone();
                *changed.pointer_mut(&pointer).unwrap() = value.clone();
                let reply = caller.request(method, path).json(changed).await;
                check(&reply, &format!("{method} {path} {pointer} {:.200}", value.to_string()));
            }
        }
        server.check_store();
    }
}

/// Each round is the first of a session of its own: what is no request ends one.
#[tokio::test]
async fn in_any_place_of_a_round() {
    let (server, caller) = world().await;
    let (_, _, opening) = bodies().pop().unwrap();
    let request = json!({"files": ["a"], "subfolders": [""], "metatag": {"name": "s", "contains": "y"}, "glob": "*",
        "where": {"tag": "n", "gte": 1}});
    let body = json!({"output": request, "round": 1});
    let mut pointers = Vec::new();
    places(&body, String::new(), &mut pointers);
    for pointer in pointers {
        for value in values() {
            let opened = caller.post("/v1/sessions").json(opening.clone()).await.ok(201);
            let session = format!("/v1/sessions/{}", opened["session_id"].as_str().unwrap());
            let mut changed = body.clone();
            *changed.pointer_mut(&pointer).unwrap() = value.clone();
            let what = format!("{pointer} {:.200}", value.to_string());
            check(&caller.post(&format!("{session}/rounds")).json(changed).await, &what);
            caller.get(&format!("{session}/rounds")).await.expect(200);
            check(&caller.get(&format!("{session}/prompt")).await, &what);
        }
    }
    server.check_store();
}

#[tokio::test]
async fn in_any_place_of_what_an_operator_sends() {
    let (server, _) = world().await;
    let key =
        json!({"label": "l", "scopes": ["read"], "slates": ["K"], "expires_at": "2999-01-01T00:00:00Z"});
    for (path, body) in [("/v1/tenants", json!({"name": "n"})), ("/v1/tenants/acme/keys", key)] {
        let mut pointers = Vec::new();
        places(&body, String::new(), &mut pointers);
        for pointer in pointers {
            for value in values() {
                let mut changed = body.clone();
                *changed.pointer_mut(&pointer).unwrap() = value.clone();
                let reply = server.operator.post(path).json(changed).await;
                check(&reply, &format!("{path} {pointer} {:.200}", value.to_string()));
            }
        }
    }
    for text in values().iter().filter_map(Value::as_str) {
        let text = in_url(&text.chars().take(1500).collect::<String>());
        for route in [
            "tenants/{}",
            "tenants?limit={}",
            "tenants?cursor={}",
            "tenants/{}/keys",
            "tenants/acme/keys/{}",
            "tenants/acme/keys?cursor={}",
        ] {
            let url = format!("/v1/{}", route.replace("{}", &text));
            for method in ["GET", "PUT", "POST", "DELETE"] {
                check(
                    &server.operator.request(method, &url).json(json!({})).await,
                    &format!("{method} {url:.200}"),
                );
            }
        }
    }
    server.check_store();
}

#[tokio::test]
async fn in_any_place_of_a_url() {
    let (server, caller) = world().await;
    for text in values().iter().filter_map(Value::as_str) {
        let text = in_url(&text.chars().take(1500).collect::<String>());
        for route in [
            "slates/{}",
            "slates/K/folders/{}",
            "slates/K/files/{}",
            "slates/K/versions/{}",
            "slates/K/metatags/{}",
            "slates/{}/files/a",
            "slates/K/files/d/a?version={}",
            "slates/K/folders?limit={}",
            "slates/K/folders?cursor={}",
            "slates?{}",
            "sessions/{}",
            "sessions/{}/prompt",
            "sessions/{}/rounds",
            "slates/{}/facets",
            "slates/K/facets?folder={}",
            "slates/K/facets?cursor={}",
            "sessions?status={}",
            "provenance/{}",
        ] {
            let url = format!("/v1/{}", route.replace("{}", &text));
            for method in ["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE"] {
                // What all else is about stays.
                if route == "slates/{}" && text == "K" {
                    continue;
                }
                let reply = caller.request(method, &url).json(json!({})).await;
                check(&reply, &format!("{method} {url:.200}"));
            }
        }
    }
    server.check_store();
}

#[tokio::test]
async fn in_any_header() {
    let (_server, caller) = world().await;
    let values = [
        "",
        " ",
        "*",
        "\"",
        "\"\"",
        "W/\"\"",
        "\"a\" \"b\"",
        ",",
        "bytes=",
        "bytes=-",
        "bytes=0-",
        "bytes=-0",
        "bytes=4-",
        "bytes=2-1",
        "bytes=0-0,2-2",
        "bytes=18446744073709551615-",
        "bytes=-18446744073709551615",
        "bytes=99999999999999999999-",
        "lines=0-1",
        "Tue, 01 Dec 2026 00:00:00 GMT",
        "application/json; charset=\"",
        "a/b",
        "gzip",
        "gzip;q=9",
        "identity;q=0",
        "\u{e9}",
        "100-continue",
        "0",
        "-1",
    ];
    let large = "x".repeat(5000);
    for header in [
        "if-match",
        "if-none-match",
        "if-range",
        "range",
        "idempotency-key",
        "accept",
        "accept-encoding",
        "content-type",
        "content-encoding",
        "if-modified-since",
        "authorization",
    ] {
        for value in values.iter().copied().chain([large.as_str()]) {
            let with = |request: Request| request.header(header, value);
            let file = json!({"path": "n", "content": "x"}).to_string();
            for request in [
                caller.get("/v1/slates/K/files/d/a"),
                caller.head("/v1/slates/K/files/d/a"),
                caller.get("/v1/slates/K"),
                caller.put("/v1/slates/K/files/n").bytes("x"),
                caller.post("/v1/slates/K/files").bytes(file.clone()),
                caller.patch("/v1/slates/K/metatags/d/a").bytes("{}"),
                caller.post("/v1/slates/K/query").bytes("{\"request\": {\"glob\": \"*\"}}"),
            ] {
                check(&with(request).await, &format!("{header}: {value:.200}"));
            }
        }
    }
}
