//! Tenants, keys and settings.

use chrono::DateTime;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use serde_json::{Value, json};

use slatebase::ctx::{Ctx, TenantId};
use slatebase::db::Tx;
use slatebase::db::schema::files::dsl;
use slatebase::files::ops::Write;
use slatebase::path::FilePath;
use slatebase::{files, slates};
use uuid::Uuid;

use crate::support::Server;

#[tokio::test]
async fn a_tenant_is_made_listed_and_erased() {
    let server = Server::start().await;
    let operator = &server.operator;
    let made = operator.post("/v1/tenants").json(json!({"name": "acme"})).await.ok(201);
    assert_eq!(made["name"], "acme");
    assert_eq!(operator.get("/v1/tenants/acme").await.ok(200), made);
    operator.post("/v1/tenants").json(json!({"name": "acme"})).await.problem(409, "already_exists");

    let key = server.key("acme", json!({"scopes": ["admin"]})).await;
    key.get("/v1/settings").await.expect(200);
    operator.delete("/v1/tenants/acme").await.expect(204);
    key.get("/v1/settings").await.problem(401, "unauthorized");
    operator.get("/v1/tenants/acme").await.problem(404, "not_found");
    operator.delete("/v1/tenants/acme").await.problem(404, "not_found");
    operator.get("/v1/tenants/acme/keys").await.problem(404, "not_found");
    assert_eq!(operator.get("/v1/tenants").await.ok(200), json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn tenants_are_listed_in_pages() {
    let server = Server::start().await;
    for name in ["b", "a-1", "c", "a"] {
        server.operator.post("/v1/tenants").json(json!({"name": name})).await.expect(201);
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.operator.get(&format!("/v1/tenants?limit=3{cursor}")).await.ok(200);
        names.extend(page["items"].as_array().unwrap().iter().map(|tenant| tenant["name"].clone()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["a", "a-1", "b", "c"]);
    for (query, at) in [
        ("limit=0", "/limit"),
        ("limit=1001", "/limit"),
        ("limit=x", "/limit"),
        ("cursor=x", "/cursor"),
        ("foo=1", "/foo"),
        ("limit=1&limit=2", "/limit"),
    ] {
        server.operator.get(&format!("/v1/tenants?{query}")).await.invalid_at(at);
    }
}

#[tokio::test]
async fn wrong_tenants_and_keys_are_refused_by_pointer() {
    let server = Server::start().await;
    server.tenant("acme").await;
    let tenants = |body: Value| server.operator.post("/v1/tenants").json(body);
    for name in [json!("Acme"), json!(""), json!("a\0"), json!(1), json!("x".repeat(64))] {
        tenants(json!({"name": name})).await.invalid_at("/name");
    }
    tenants(json!({"name": "a", "foo": {}})).await.invalid_at("/foo");
    tenants(json!({})).await.invalid_at("");

    let keys = |body: Value| server.operator.post("/v1/tenants/acme/keys").json(body);
    let good = json!({"label": "x", "scopes": ["read"]});
    for (member, value, at) in [
        ("label", json!(""), "/label"),
        ("label", json!("x".repeat(201)), "/label"),
        ("label", json!("a\0b"), "/label"),
        ("scopes", json!([]), "/scopes"),
        ("scopes", json!(["read", "root"]), "/scopes/1"),
        ("slates", json!([]), "/slates"),
        ("slates", json!(["a", "b/c"]), "/slates/1"),
        ("expires_at", json!("yesterday"), "/expires_at"),
        ("expires_at", json!("2020-01-01T00:00:00Z"), "/expires_at"),
    ] {
        let mut body = good.clone();
        body[member] = value;
        keys(body).await.invalid_at(at);
    }
    server.operator.post("/v1/tenants/other/keys").json(good).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_keys_secret_is_shown_once_and_stored_nowhere() {
    let server = Server::start().await;
    server.operator.post("/v1/tenants").json(json!({"name": "acme"})).await.expect(201);
    let body = json!({"label": "x", "scopes": ["write", "read"], "slates": ["Knowledge"],
        "expires_at": "2999-01-01T01:00:00+01:00"});
    let keys = server.operator.post("/v1/tenants/acme/keys").json(body);
    let reply = keys.header("idempotency-key", "k").await.expect(201);
    assert_eq!(reply.header("cache-control"), "no-store");
    let mut made = reply.json();
    let token = made.as_object_mut().unwrap().remove("token").unwrap();
    let secret = token.as_str().unwrap().rsplit('_').next().unwrap();
    assert_eq!(made["scopes"], json!(["read", "write"]));
    assert_eq!(made["slates"], json!(["Knowledge"]));
    assert_eq!(made["expires_at"], "2999-01-01T00:00:00Z");

    let listed = server.operator.get("/v1/tenants/acme/keys").await.expect(200);
    assert!(!listed.text().contains(secret));
    assert_eq!(listed.json()["items"], json!([made]));

    #[derive(QueryableByName)]
    struct Stored {
        #[diesel(sql_type = Bool)]
        secret: bool,
        #[diesel(sql_type = Bool)]
        hash: bool,
    }
    let stored: Stored = diesel::sql_query(
        "select exists (select from api_keys k where k::text like '%' || $1 || '%') \
             or exists (select from idempotency_keys i where encode(i.body, 'escape') like '%' || $1 || '%') as secret, \
             exists (select from api_keys where secret_sha256 = sha256(decode($1, 'hex'))) as hash",
    )
    .bind::<Text, _>(secret)
    .get_result(&mut server.superuser())
    .unwrap();
    assert!(!stored.secret && stored.hash);
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_from_then_on() {
    let server = Server::start().await;
    let key = server.tenant("acme").await;
    key.get("/v1/settings").await.expect(200);
    let id = server.operator.get("/v1/tenants/acme/keys").await.ok(200)["items"][0]["key_id"].clone();
    server.tenant("other").await;
    server.operator.delete(&format!("/v1/tenants/other/keys/{id}")).await.problem(404, "not_found");
    key.get("/v1/settings").await.expect(200);
    for _ in 0..2 {
        server.operator.delete(&format!("/v1/tenants/acme/keys/{id}")).await.expect(204);
        key.get("/v1/settings").await.problem(401, "unauthorized");
    }
    let listed = server.operator.get("/v1/tenants/acme/keys").await.ok(200);
    assert!(listed["items"][0]["revoked_at"].is_string());
    for wrong in ["0", "999999", "x", "99999999999999999999"] {
        server.operator.delete(&format!("/v1/tenants/acme/keys/{wrong}")).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn every_door_that_stays_shut_looks_the_same() {
    let server = Server::start().await;
    let key = server.tenant("acme").await;
    let expired = server.key("acme", json!({"scopes": ["admin"]})).await;
    let revoked = server.key("acme", json!({"scopes": ["admin"]})).await;
    server
        .superuser()
        .batch_execute(
            "update api_keys set expires_at = now() where id = (select max(id) - 1 from api_keys); \
             update api_keys set revoked_at = now() where id = (select max(id) from api_keys)",
        )
        .unwrap();
    let token = key.token.clone().unwrap();
    let last = if token.ends_with('0') { "1" } else { "0" };
    let parts: Vec<&str> = token.split('_').collect();
    let shut = [
        format!("{}{last}", &token[..token.len() - 1]),
        format!("slb_999_{}_{}", parts[2], parts[3]),
        format!("slb_{}_999_{}", parts[1], parts[3]),
        expired.token.unwrap(),
        revoked.token.unwrap(),
        "nonsense".into(),
    ];
    let mut callers: Vec<_> = shut.map(|token| key.with_token(token)).into();
    callers.push(key.anonymous());
    let mut answers = Vec::new();
    for caller in callers {
        let reply = caller.get("/v1/settings").await;
        assert_eq!(reply.header("www-authenticate"), "Bearer realm=\"slatebase\"");
        let mut problem = reply.problem(401, "unauthorized");
        problem.as_object_mut().unwrap().remove("request_id");
        answers.push(problem);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");

    let with = |header: &str| key.anonymous().get("/v1/settings").header("authorization", header);
    for header in ["Basic abc", "Bearer", "Bearer ", token.as_str()] {
        with(header).await.problem(401, "unauthorized");
    }
    with(&format!("bearer {token}")).await.expect(200);
}

#[tokio::test]
async fn scopes_and_the_operator_are_kept_apart() {
    let server = Server::start().await;
    let admin = server.tenant("acme").await;
    let reader = server.key("acme", json!({"scopes": ["read", "write", "retrieve"]})).await;
    reader.get("/v1/settings").await.problem(403, "forbidden");
    // The right comes before the body, and before its media type.
    reader.put("/v1/settings").body("text/plain", "{").await.problem(403, "forbidden");
    server.operator.get("/v1/settings").await.problem(403, "forbidden");
    admin.get("/v1/tenants").await.problem(403, "forbidden");
    admin.post("/v1/tenants").json(json!({"name": "Wrong"})).await.problem(403, "forbidden");
    server.operator.anonymous().post("/v1/tenants").json(json!({})).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn without_an_operator_token_there_is_no_operator() {
    let server = Server::start_with(|config| config.operator_token = None).await;
    server.operator.get("/v1/tenants").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn other_deny_globs_hide_and_reveal_what_is_there() {
    let server = Server::start().await;
    let key = server.tenant("acme").await;
    let id = TenantId(server.operator.get("/v1/tenants/acme").await.ok(200)["number"].as_i64().unwrap());
    let write = move |tx: &mut Tx| {
        let ctx = Ctx::local(id, DateTime::UNIX_EPOCH, Uuid::nil());
        slates::ops::put(tx, &ctx, "Knowledge", &Default::default())?;
        for path in ["a/.env", "a/secret.md", "open.md"] {
            let write = Write::new(FilePath::parse(path).unwrap(), b"x".to_vec());
            files::ops::write_one(tx, &ctx, "Knowledge", write)?;
        }
        Ok(())
    };
    server.app.db.tenant(id, write).await.unwrap();
    let mut admin = server.superuser();
    let mut hidden = || -> Vec<String> {
        let found = dsl::files.filter(dsl::hidden).order(dsl::path).select(dsl::path);
        found.load(&mut admin).unwrap()
    };
    assert_eq!(hidden(), ["a/.env"]);
    key.put("/v1/settings").json(json!({"deny_globs": ["a/*.md"]})).await.expect(200);
    assert_eq!(hidden(), ["a/secret.md"]);
    key.put("/v1/settings").json(json!({"deny_globs": []})).await.expect(200);
    assert_eq!(hidden(), [""; 0]);
}

#[tokio::test]
async fn settings_are_replaced_whole() {
    let server = Server::start().await;
    let key = server.tenant("acme").await;
    let first = key.get("/v1/settings").await.expect(200);
    let defaults = first.json();
    assert_eq!(defaults["default_slate"], Value::Null);
    assert_eq!(defaults["session_retention_days"], 90);
    assert_eq!(defaults["deny_globs"].as_array().unwrap().len(), 8);
    let etag = first.header("etag");

    let put = |body: Value| key.put("/v1/settings").json(body);
    let new = json!({"default_slate": "Knowledge", "deny_globs": ["secret/**"], "session_retention_days": 7,
        "max_concurrent_runs": 2, "max_rounds_per_day": null, "max_tokens_per_day": 1000});
    let reply = put(new.clone()).header("if-match", etag).await.expect(200);
    assert_eq!(reply.json(), new);
    let fresh = reply.header("etag");
    assert_ne!(fresh, etag);
    assert_eq!(key.get("/v1/settings").await.ok(200), new);
    assert_eq!(key.get("/v1/settings").header("if-none-match", fresh).await.expect(304).body, b"");
    key.get("/v1/settings").header("if-none-match", etag).await.expect(200);
    put(json!({})).header("if-match", etag).await.problem(412, "precondition_failed");
    put(json!({})).header("if-none-match", "*").await.problem(412, "precondition_failed");
    put(json!({})).header("if-match", "etag").await.problem(400, "bad_request");
    // The same again changes nothing, the tag neither.
    assert_eq!(put(new).await.expect(200).header("etag"), fresh);
    assert_eq!(put(json!({})).await.ok(200), defaults);

    for (body, at) in [
        (json!({"default_slate": "a/b"}), "/default_slate"),
        (json!({"deny_globs": ["ok", "a**"]}), "/deny_globs/1"),
        (json!({"deny_globs": "x"}), "/deny_globs"),
        (json!({"session_retention_days": 0}), "/session_retention_days"),
        (json!({"session_retention_days": 36_501}), "/session_retention_days"),
        (json!({"session_retention_days": 1.5}), "/session_retention_days"),
        (json!({"unknown": null}), "/unknown"),
    ] {
        put(body).await.invalid_at(at);
    }
    let other = server.tenant("other").await;
    other.put("/v1/settings").json(json!({"session_retention_days": 1})).await.expect(200);
    assert_eq!(key.get("/v1/settings").await.ok(200), defaults);
}
