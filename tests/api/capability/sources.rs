//! Registered APIs and databases: what is registered, and what is retrieved of them.

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixStream};

use super::web::{Remote, allowing, response};
use super::{reason, retrieve};
use crate::support::{Caller, Server};

async fn register(caller: &Caller, path: &str, document: Value) {
    caller.put(&format!("/v1/sources/{path}")).json(document).await.expect(201);
}

#[tokio::test]
async fn sources_are_registered_replaced_listed_and_taken_away() {
    let (_server, caller) = Server::with_slate().await;
    let api = json!({"base_url": "https://api.example/v2", "auth": {"kind": "bearer", "secret": "token"}, "authority": "high",
                     "volatile": true, "max_age_seconds": 60});
    let database = json!({"connection": {"host": "db.example", "dbname": "shop", "user": "reader", "password": "pw"},
                          "tables": {"orders": {"key": "id"}},
                          "queries": {"q": {"sql": "select 1", "params": [{"name": "n", "type": "integer"}]}}});
    for (path, document, wrong, at) in [
        ("/v1/sources/apis/weather", &api, json!({"base_url": "ftp://x"}), "/base_url"),
        (
            "/v1/sources/databases/shop",
            &database,
            json!({"connection": {"host": "/run", "dbname": "d", "user": "u"}}),
            "/connection/host",
        ),
    ] {
        caller.put(path).json(wrong).await.invalid_at(at);
        caller.get(path).await.problem(404, "not_found");
        let made = caller.put(path).json(document.clone()).await.expect(201);
        let (etag, made) = (made.header("etag").to_owned(), made.json());
        for (member, value) in document.as_object().unwrap() {
            let held = made[member].as_object().map_or_else(
                || made[member] == *value,
                |held| {
                    value
                        .as_object()
                        .unwrap()
                        .iter()
                        .all(|(name, value)| held[name] == *value || value.is_object())
                },
            );
            assert!(held, "{member}: {made}");
        }
        assert_eq!(caller.put(path).json(document.clone()).await.ok(200), made);
        assert_eq!(caller.get(path).await.ok(200), made);
        caller.get(path).header("if-none-match", &etag).await.expect(304);
        let mut other = document.clone();
        other["authority"] = json!("low");
        caller
            .put(path)
            .json(other.clone())
            .header("if-match", "\"x\"")
            .await
            .problem(412, "precondition_failed");
        let replaced = caller.put(path).json(other).header("if-match", &etag).await.expect(200);
        assert_ne!(replaced.header("etag"), etag);
        assert_eq!(replaced.json()["authority"], "low");
    }
    let list = caller.get("/v1/sources?limit=1").await.ok(200);
    assert_eq!((&list["items"][0]["kind"], &list["items"][0]["name"]), (&json!("api"), &json!("weather")));
    let next = list["next_cursor"].as_str().unwrap();
    let rest = caller.get(&format!("/v1/sources?cursor={next}")).await.ok(200);
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["items"][0]["name"]), (1, &json!("shop")));
    for path in ["/v1/sources/apis/weather", "/v1/sources/databases/shop"] {
        caller.delete(path).header("if-match", "\"x\"").await.problem(412, "precondition_failed");
        caller.delete(path).await.expect(204);
        caller.delete(path).await.problem(404, "not_found");
    }
    caller.put("/v1/sources/apis/a%20b").json(api).await.invalid_at("");
    let found = retrieve(&caller, json!({"target": "api:weather/x"})).await;
    assert_eq!((reason(&found), &found["retrieved"]["source"]), ("not_found", &json!("api:weather")));
}

#[tokio::test]
async fn an_api_is_read_with_its_secret_which_nobody_sees() {
    let (server, caller) = allowing().await;
    let remote = Remote::start(|_, head| {
        let asked = head.lines().next().unwrap().to_owned();
        let told: Vec<&str> = head
            .lines()
            .filter(|line| line.to_lowercase().contains("hunter2") || line.contains("QWxh"))
            .collect();
        if head.contains("/missing") {
            return response("404 Not Found", b"");
        }
        // What the server was told is counted, and not given back.
        let body =
            json!({"asked": asked.split('?').next(), "secrets": told.len(), "version": "7"}).to_string();
        response("200 OK\r\ncontent-type: application/json\r\netag: \"e1\"", body.as_bytes())
    })
    .await;
    caller.put("/v1/secrets/token").json(json!({"value": "hunter2"})).await.expect(201);
    caller.put("/v1/secrets/password").json(json!({"value": "open sesame"})).await.expect(201);
    let base = remote.url("/v2/");
    for (name, auth) in [
        ("bearer", json!({"kind": "bearer", "secret": "token"})),
        ("header", json!({"kind": "header", "header": "x-api-key", "secret": "token"})),
        ("query", json!({"kind": "query", "parameter": "key", "secret": "token"})),
        ("basic", json!({"kind": "basic", "user": "Aladdin", "secret": "password"})),
    ] {
        register(
            &caller,
            &format!("apis/{name}"),
            json!({"base_url": base, "auth": auth, "authority": "high"}),
        )
        .await;
        let target = json!({"api": name, "path": "users/7", "query": {"full": true}});
        let found = retrieve(&caller, json!({"target": target})).await;
        let reference = format!("api:{name}/users/7?full=true");
        assert_eq!(
            found["retrieved"]["data"],
            json!({"asked": "GET /v2/users/7", "secrets": 1, "version": "7"}),
            "{found}"
        );
        assert_eq!(found["retrieved"]["source"], format!("api:{name}"));
        assert_eq!(found["citation"]["reference"], reference);
        assert_eq!(
            (&found["citation"]["version"], &found["citation"]["authority"]),
            (&json!("7"), &json!("high"))
        );
        // Of an API, and of an unknown age.
        assert_eq!((&found["confidence"], &found["evidence_anchors"]), (&json!(0.85), &json!([reference])));
        let record =
            caller.get(&format!("/v1/provenance/{}", found["provenance_id"].as_str().unwrap())).await;
        let registered = caller.get(&format!("/v1/sources/apis/{name}")).await;
        for text in [found.to_string(), record.text().to_string(), registered.text().to_string()] {
            assert!(
                !text.contains("hunter2") && !text.contains("sesame") && !text.contains("QWxh"),
                "{text}"
            );
        }
        // A reference is a target, and a citation that can be taken back.
        let again = retrieve(&caller, json!({"target": reference})).await;
        assert_eq!(again["citation"], found["citation"]);
        let resolve = json!({"reference": reference, "hash": found["citation"]["hash"]});
        assert_eq!(caller.post("/v1/citations/resolve").json(resolve).await.ok(200)["status"], "verified");
        let missing = retrieve(&caller, json!({"target": format!("api:{name}/missing")})).await;
        assert_eq!(reason(&missing), "not_found");
        assert!(!missing.to_string().contains("hunter2"));
    }
    let taken = retrieve(&caller, json!({"target": "api:query/x?key=mine"})).await;
    assert_eq!(reason(&taken), "refused");
    let asked = remote.asked();
    for path in
        ["../admin", "%2e%2e/admin", "a/%252e%252e/%252e%252e/admin", "a%2f..%2f..%2fadmin", "..\\admin"]
    {
        let found = retrieve(&caller, json!({"target": {"api": "bearer", "path": path}})).await;
        assert_eq!((reason(&found), remote.asked()), ("refused", asked), "{path}");
    }
    caller.delete("/v1/secrets/token").await.expect(204);
    let found = retrieve(&caller, json!({"target": "api:bearer/x"})).await;
    assert_eq!((reason(&found), remote.asked()), ("refused", asked));
    // Another tenant has no such API.
    let other = server.tenant("other").await;
    assert_eq!(reason(&retrieve(&other, json!({"target": "api:basic/x"})).await), "not_found");
}

#[tokio::test]
async fn a_redirect_to_another_host_carries_no_secret() {
    let (_server, caller) = allowing().await;
    let other = Remote::start(|_, head| {
        let told = head.to_lowercase().contains("hunter2");
        response("200 OK\r\ncontent-type: text/plain; charset=utf-8", format!("told {told}").as_bytes())
    })
    .await;
    let (to, same) = (other.url("/landed"), "/v2/same");
    let remote = Remote::start(move |_, head| match head {
        head if head.contains("/v2/away") => response(&format!("302 Found\r\nlocation: {to}"), b""),
        head if head.contains("/v2/near") => response(&format!("302 Found\r\nlocation: {same}"), b""),
        head => {
            let told = head.to_lowercase().contains("hunter2");
            response("200 OK\r\ncontent-type: text/plain; charset=utf-8", format!("told {told}").as_bytes())
        }
    })
    .await;
    caller.put("/v1/secrets/token").json(json!({"value": "hunter2"})).await.expect(201);
    for (name, auth) in [
        ("bearer", json!({"kind": "bearer", "secret": "token"})),
        ("header", json!({"kind": "header", "header": "x-api-key", "secret": "token"})),
    ] {
        register(&caller, &format!("apis/{name}"), json!({"base_url": remote.url("/v2"), "auth": auth}))
            .await;
        let away = retrieve(&caller, json!({"target": format!("api:{name}/away")})).await;
        assert_eq!(away["retrieved"]["data"], "told false", "{name}");
        assert_eq!(away["citation"]["reference"], format!("api:{name}/away"));
        let near = retrieve(&caller, json!({"target": format!("api:{name}/near")})).await;
        assert_eq!(near["retrieved"]["data"], "told true", "{name}");
    }
}

/// A way to the test's Postgres over TCP, which itself listens on a socket alone.
async fn postgres(server: &Server) -> u16 {
    let url = url::Url::parse(&server.superuser_url().replacen("@/", "@localhost/", 1)).unwrap();
    let option = |wanted: &str| {
        url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned()).unwrap()
    };
    let socket = format!("{}/.s.PGSQL.{}", option("host"), option("port"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut outer, _)) = listener.accept().await {
            let socket = socket.clone();
            tokio::spawn(async move {
                let mut inner = UnixStream::connect(socket).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn a_database_is_read_and_never_written() {
    let (server, caller) = allowing().await;
    let shop = Server::start().await;
    let login = format!("reader_{}", std::process::id());
    shop.superuser()
        .batch_execute(&format!(
            "drop role if exists {login}; create role {login} login;
             create table orders (id bigint primary key, customer text, total numeric, note text, at timestamptz, rev int);
             insert into orders values (7, 'o''brien', 12.50, E'two\\nlines', '2026-01-05T10:00:00+02', 3),
                                       (8, 'o''brien', 1, null, '2026-01-06T10:00:00Z', 1);
             create table twice (k text, v int); insert into twice values ('a', 1), ('a', 2);
             create table hidden (id int primary key); insert into hidden values (1);
             create function add_order() returns bigint language sql as
                 'insert into orders (id) values (99) returning id';
             grant usage on schema public to {login};
             grant select, insert, update on orders, twice to {login};"
        ))
        .unwrap();
    let dbname = url::Url::parse(&shop.superuser_url().replacen("@/", "@localhost/", 1)).unwrap().path()[1..]
        .to_owned();
    let port = postgres(&shop).await;
    let connection =
        json!({"host": "127.0.0.1", "port": port, "dbname": dbname, "user": login, "sslmode": "disable"});
    let definition = json!({"connection": connection, "authority": "high", "max_rows": 3, "statement_timeout_ms": 2000,
        "tables": {"orders": {"key": "id", "columns": ["id", "customer", "total", "note"], "modified": "at", "version": "rev"},
                   "twice": {"key": "k"}, "hidden": {"key": "id"}, "absent": {"key": "id"}},
        "queries": {
            "of": {"sql": "select id, total from orders where customer = $1 order by id desc -- newest",
                   "params": [{"name": "customer", "type": "text"}]},
            "many": {"sql": "select n from generate_series(1, $1) n", "params": [{"name": "n", "type": "integer"}]},
            "large": {"sql": "select repeat('x', 9000000) as x from generate_series(1, 3)"},
            "slow": {"sql": "select pg_sleep(60)"},
            "writes": {"sql": "select add_order()"},
            "unwinds": {"sql": "select set_config('transaction_read_only', 'off', true), add_order()"},
            "two": {"sql": "select 1) q; insert into orders (id) values (98); select * from (select 1"},
            "update": {"sql": "update orders set note = 'x' returning id"},
            "broken": {"sql": "select nothing from nowhere"}}});
    register(&caller, "databases/shop", definition.clone()).await;
    let get = |target: Value| retrieve(&caller, json!({"target": target}));

    let found = get(json!({"database": "shop", "table": "orders", "key": 7})).await;
    let row = json!({"id": 7, "customer": "o'brien", "total": 12.50, "note": "two\nlines"});
    assert_eq!(found["retrieved"]["data"], row, "{found}");
    assert_eq!(
        (&found["retrieved"]["format"], &found["retrieved"]["complete"]),
        (&json!("json"), &json!(true))
    );
    assert_eq!(found["retrieved"]["source"], "database:shop");
    let reference = &found["citation"]["reference"];
    assert_eq!(reference, "database:shop/orders/7");
    assert_eq!(
        (&found["citation"]["version"], &found["citation"]["authority"]),
        (&json!("3"), &json!("high"))
    );
    assert_eq!(found["provenance"]["last_modified"], "2026-01-05T08:00:00Z");
    assert_eq!((&found["provenance"]["freshness"], &found["confidence"]), (&json!("fresh"), &json!(1.0)));
    assert_eq!(found["evidence_anchors"], json!(["database:shop/orders/7"]));
    let again = get(reference.clone()).await;
    assert_eq!(again["citation"], found["citation"]);

    let resolve = || {
        let body = json!({"reference": reference, "hash": found["citation"]["hash"]});
        caller.post("/v1/citations/resolve").json(body)
    };
    assert_eq!(resolve().await.ok(200)["status"], "verified");
    let quote = json!({"reference": reference, "quote": "o'brien"});
    assert_eq!(caller.post("/v1/citations/check").json(quote).await.ok(200)["status"], "found");
    shop.superuser().batch_execute("update orders set note = 'other' where id = 7").unwrap();
    assert_eq!(resolve().await.ok(200)["status"], "changed");
    shop.superuser().batch_execute("delete from orders where id = 7").unwrap();
    assert_eq!(resolve().await.ok(200)["status"], "gone");

    let rows = |found: &Value| found["retrieved"]["data"].as_array().unwrap().len();
    let query = |name: &str, params: Value| get(json!({"database": "shop", "query": name, "params": params}));
    let found = query("of", json!({"customer": "o'brien"})).await;
    assert_eq!(found["retrieved"]["data"], json!([{"id": 8, "total": 1}]), "{found}");
    assert_eq!(
        (&found["citation"]["reference"], &found["evidence_anchors"][0]),
        (&Value::Null, &json!("database:shop/of"))
    );
    let found = query("of", json!({"customer": "' or true --"})).await;
    assert_eq!((&found["retrieved"]["data"], &found["retrieved"]["complete"]), (&json!([]), &json!(true)));
    let found = query("many", json!({"n": 3})).await;
    assert_eq!((rows(&found), &found["retrieved"]["complete"]), (3, &json!(true)));
    let found = query("many", json!({"n": 4})).await;
    assert_eq!((rows(&found), &found["retrieved"]["complete"]), (3, &json!(false)));
    assert_eq!((&found["citation"]["hash"], &found["extraction"]["truncated"]), (&Value::Null, &json!(true)));
    let found = query("large", json!({})).await;
    assert_eq!((rows(&found), &found["retrieved"]["complete"]), (1, &json!(false)));

    for (target, expected) in [
        (json!("database:shop/orders/404"), "not_found"),
        (json!("database:shop/orders/x"), "not_found"),
        (json!("database:shop/orders/7%20or%201=1"), "not_found"),
        (json!("database:shop/secrets/1"), "not_found"),
        (json!("database:shop/hidden/1"), "refused"),
        (json!("database:shop/absent/1"), "refused"),
        (json!("database:shop/twice/a"), "constraint_unmet"),
        (json!("database:other/orders/1"), "not_found"),
        (json!({"database": "shop", "query": "nope"}), "not_found"),
        (json!({"database": "shop", "query": "slow"}), "timeout"),
        (json!({"database": "shop", "query": "writes"}), "refused"),
        (json!({"database": "shop", "query": "unwinds"}), "refused"),
        (json!({"database": "shop", "query": "two"}), "refused"),
        (json!({"database": "shop", "query": "update"}), "refused"),
        (json!({"database": "shop", "query": "broken"}), "refused"),
    ] {
        let found = get(target.clone()).await;
        assert_eq!(reason(&found), expected, "{target}: {found}");
        assert!(!found["failure"].to_string().contains("nowhere"), "{found}");
    }
    for (params, at) in [
        (json!({}), "/target/params/n"),
        (json!({"n": "1"}), "/target/params/n"),
        (json!({"n": 1, "m": 2}), "/target/params/m"),
    ] {
        let target = json!({"database": "shop", "query": "many", "params": params});
        caller.post("/v1/retrieve").json(json!({"target": target})).await.invalid_at(at);
    }
    // Nothing was written by any of them.
    let mut superuser = shop.superuser();
    superuser.batch_execute("do $$ begin assert (select count(*) from orders) = 1; end $$").unwrap();

    // A password is a stored secret, and a connection without TLS is asked for.
    let mut with = definition.clone();
    with["connection"]["password"] = json!("absent");
    caller.put("/v1/sources/databases/shop").json(with).await.expect(200);
    assert_eq!(reason(&get(json!("database:shop/orders/8")).await), "refused");
    let mut with = definition.clone();
    with["connection"]["sslmode"] = json!("verify-full");
    caller.put("/v1/sources/databases/shop").json(with).await.expect(200);
    let found = get(json!("database:shop/orders/8")).await;
    assert_eq!(reason(&found), if cfg!(feature = "pq-bundled") { "refused" } else { "unreachable" });

    // Where loopback is not allowed, no connection is made there.
    drop(server);
    let strict = Server::start().await;
    let caller = strict.tenant("acme").await;
    for host in
        ["127.0.0.1", "localhost", "2130706433", "::1", "0x7f.1", "169.254.169.254", "::ffff:127.0.0.1"]
    {
        let mut with = definition.clone();
        with["connection"]["host"] = json!(host);
        caller.put("/v1/sources/databases/shop").json(with).await;
        let found = retrieve(&caller, json!({"target": "database:shop/orders/8"})).await;
        assert_eq!(reason(&found), "refused", "{host}: {found}");
    }
}
