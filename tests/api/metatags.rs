//! Metatags: types, limits, patches, and the dictionary of their terms.

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Jsonb, Text};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use slatebase::metatags::{Tags, terms};

use crate::support::{Caller, Request, Server, at_once};

const AT: &str = "/v1/slates/K/metatags/a";

async fn given() -> (Server, Caller) {
    let (server, caller) = Server::with_slate().await;
    caller.put("/v1/slates/K/files/a").body("text/plain", "x").await.expect(201);
    (server, caller)
}

fn put(caller: &Caller, body: Value) -> Request {
    caller.put(AT).json(body)
}

fn patch(caller: &Caller, body: Value) -> Request {
    caller.patch(AT).json(body)
}

#[tokio::test]
async fn every_type_survives_as_it_was() {
    let (_server, caller) = given().await;
    assert_eq!(caller.get(AT).await.ok(200), json!({}));
    let all = json!({"s": "", "a": [], "b": ["x", "x"], "i": i64::MIN, "u": u64::MAX, "d": 0.1, "e": 1e-7, "big": 1e300,
        "t": true, "f": false, "o": {}, "n": {"x": [null, {"y": 1}]}, "m": ["x", 1], "date": "2026-01-01", "é/~": "\u{1}"});
    assert_eq!(put(&caller, all.clone()).await.ok(200), all);
    assert_eq!(caller.get(AT).await.ok(200), all);
    assert_eq!(put(&caller, json!({})).await.ok(200), json!({}));
}

#[tokio::test]
async fn a_patch_merges_and_a_null_removes() {
    let (_server, caller) = given().await;
    put(&caller, json!({"a": 1, "o": {"x": 1, "y": 2}, "l": ["p"]})).await.expect(200);
    let after = json!({"o": {"x": 1, "z": 3}, "l": ["q"], "new": {}});
    let patched = patch(
        &caller,
        json!({"a": null, "o": {"y": null, "z": 3}, "l": ["q"], "new": {"x": null}, "no": null}),
    );
    assert_eq!(patched.await.ok(200), after);
    assert_eq!(caller.get(AT).await.ok(200), after);
}

#[tokio::test]
async fn a_null_is_reported_by_a_post_and_refused_by_a_put() {
    let (_server, caller) = given().await;
    put(&caller, json!({"x": 1, "a/b": null})).await.invalid_at("/a~1b");
    let body = json!({"path": "b", "content": "", "metatags": {"x": 1, "y": null}});
    assert_eq!(caller.post("/v1/slates/K/files").json(body).await.ok(201)["null_metatags"], json!(["y"]));
    assert_eq!(caller.get("/v1/slates/K/metatags/b").await.ok(200), json!({"x": 1}));
}

#[tokio::test]
async fn names_and_values_have_limits() {
    let (_server, caller) = given().await;
    let (name, value) = ("é".repeat(128), "v".repeat(64 * 1024));
    put(&caller, json!({&name: 1, "v": value})).await.expect(200);
    let long = format!("{name}n");
    for (body, at) in [
        (json!({&long: 1}), format!("/{long}")),
        (json!({"": 1}), "/".into()),
        (json!({"a\n": 1}), "/a\n".into()),
        (json!({"a\0": 1}), "/a\0".into()),
        (json!({"v": format!("{value}v")}), "/v".into()),
        (json!({"v": [value, "v"]}), "/v".into()),
        (json!({"v": "\0"}), "/v".into()),
        (json!({"v": {"\0": 1}}), "/v".into()),
    ] {
        put(&caller, body.clone()).await.invalid_at(&at);
        patch(&caller, body).await.invalid_at(&at);
    }
    // 256 KiB of JSON in all.
    let many = |last: usize| json!({"a": value, "b": value, "c": value, "d": "v".repeat(last)});
    let around = serde_json::to_vec(&many(0)).unwrap().len();
    put(&caller, many(256 * 1024 - around)).await.expect(200);
    put(&caller, many(256 * 1024 - around + 1)).await.invalid_at("");
    patch(&caller, json!({"e": ""})).await.invalid_at("");
    for number in ["1e400", "-1e400", "123456789012345678901234567890", "18446744073709551616"] {
        let body = format!(r#"{{"n":{{"m":[0,{number}]}}}}"#);
        caller.put(AT).body("application/json", body.clone()).await.invalid_at("/n/m/1");
        caller.patch(AT).body("application/json", body).await.invalid_at("/n/m/1");
    }
    put(&caller, json!([])).await.invalid_at("");
    caller.put(AT).body("application/json", "{").await.problem(400, "malformed_json");
    caller.put("/v1/slates/K/metatags/none").json(json!({})).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_slate_may_fix_the_types_of_metatags() {
    let (_server, caller) = given().await;
    let types = json!({"s": "string", "l": "string[]", "n": "number", "b": "boolean", "o": "object"});
    caller.put("/v1/slates/K").json(json!({"metatag_types": types})).await.expect(200);
    let good = json!({"s": "", "l": [], "n": 0, "b": false, "o": {}});
    put(&caller, good.clone()).await.expect(200);
    for name in ["s", "l", "n", "b", "o"] {
        for value in
            good.as_object().unwrap().iter().filter(|(other, _)| *other != name).map(|(_, value)| value)
        {
            put(&caller, json!({name: value})).await.invalid_at(&format!("/{name}"));
            patch(&caller, json!({name: value})).await.invalid_at(&format!("/{name}"));
            let body = json!({"path": "a", "content": "y", "metatags": {name: value}});
            let at = format!("/metatags/{name}");
            caller.post("/v1/slates/K/files").json(body).await.invalid_at(&at);
        }
    }
    put(&caller, json!({"free": 1, "o": ["x", 1]})).await.expect(200);
}

#[tokio::test]
async fn metatags_have_the_entity_tag_of_their_file() {
    let (_server, caller) = given().await;
    let etag = caller.get(AT).await.header("etag").to_owned();
    assert_eq!(caller.head("/v1/slates/K/files/a").await.header("etag"), etag);
    caller.get(AT).header("if-none-match", &etag).await.expect(304);
    // What changes nothing keeps it, contents' versions and their numbers too.
    assert_eq!(put(&caller, json!({})).await.header("etag"), etag);
    let fresh =
        put(&caller, json!({"x": 1})).header("if-match", &etag).await.expect(200).header("etag").to_owned();
    put(&caller, json!({})).header("if-match", &etag).await.problem(412, "precondition_failed");
    patch(&caller, json!({})).header("if-match", &etag).await.problem(412, "precondition_failed");
    let file = caller.head("/v1/slates/K/files/a").await;
    assert_eq!((file.header("etag"), file.header("slatebase-version")), (&*fresh, "1"));
}

#[tokio::test]
async fn no_patch_of_many_at_once_is_lost() {
    let (_server, caller) = given().await;
    let replies = at_once((0..16).map(|n| patch(&caller, json!({format!("k{n}"): n})))).await;
    replies.into_iter().for_each(|reply| drop(reply.expect(200)));
    assert_eq!(caller.get(AT).await.ok(200).as_object().unwrap().len(), 16);
}

#[derive(QueryableByName)]
struct Stored {
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = Jsonb)]
    tags: Value,
    #[diesel(sql_type = Array<BigInt>)]
    term_ids: Vec<i64>,
    /// What the numbers stand for, as `name kind term`.
    #[diesel(sql_type = Array<Text>)]
    terms: Vec<String>,
}

/// Checks that every live file has one row of metatags beside it, and that its numbers are those of exactly its terms.
fn check_dictionary(connection: &mut PgConnection) -> usize {
    let rows: Vec<Stored> = diesel::sql_query(
        "select f.path, t.tags, t.term_ids, array(select concat_ws(' ', k.name, d.kind, d.term) \
             from unnest(t.term_ids) as has (id) left join tag_terms d on d.tenant_id = f.tenant_id and d.id = has.id \
             left join tag_keys k on k.tenant_id = f.tenant_id and k.id = d.key_id) as terms \
         from files f full join file_tags t on t.tenant_id = f.tenant_id and t.file_id = f.id \
             and t.slate_id = f.slate_id and t.folder_id = f.folder_id and t.name = f.name and t.path = f.path \
             and t.hidden = f.hidden",
    )
    .load(connection)
    .unwrap();
    for row in &rows {
        let tags = Tags::stored(row.tags.clone());
        let mut expected: Vec<String> =
            terms::terms(&tags).iter().map(|t| format!("{} {} {}", t.key, t.kind.letter(), t.text)).collect();
        expected.sort_unstable();
        let mut found = row.terms.clone();
        found.sort_unstable();
        assert_eq!(found, expected, "{}: {}", row.path, row.tags);
        assert!(row.term_ids.is_sorted(), "{}", row.path);
    }
    rows.len()
}

/// One edit of the store: a method, a path and a body.
fn edits() -> impl Strategy<Value = (&'static str, String, Value)> {
    let name = prop::sample::select(vec!["k", "l", "é", "a b", "%_"]);
    let text = prop::sample::select(vec!["", "x", "X", "x%", "[\"x\"]", "\u{1F600}", "1"]);
    let value = prop_oneof![
        text.clone().prop_map(Value::from),
        prop::collection::vec(text, 0..3).prop_map(Value::from),
        prop::sample::select(vec![json!(0), json!(-0.0), json!(1.0), json!(1e19), json!(1e300), json!(0.1)]),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![json!({}), json!({"x": ["y"]}), json!(["x", 1])]),
    ];
    let tags = prop::collection::btree_map(name, value, 0..4).prop_map(|map| json!(map));
    let path = prop::sample::select(vec!["a", "b", "d/a", "d/b", "e/f/a"]);
    let to = prop::sample::select(vec!["a", "b", "d/a", "d/b", "e/f/a", "g/a"]);
    prop_oneof![
        3 => (path.clone(), tags.clone()).prop_map(|(path, tags)| ("POST", "files".into(),
            json!({"path": path, "content": path, "metatags": tags}))),
        2 => (path.clone(), tags.clone()).prop_map(|(path, tags)| ("PUT", format!("metatags/{path}"), tags)),
        2 => (path.clone(), tags).prop_map(|(path, mut tags)| {
            tags["k"] = Value::Null;
            ("PATCH", format!("metatags/{path}"), tags)
        }),
        1 => (path.clone(), to).prop_map(|(path, to)| ("PATCH", format!("files/{path}"), json!({"path": to}))),
        1 => (path.clone(), any::<bool>())
            .prop_map(|(path, purge)| ("DELETE", format!("files/{path}?purge={purge}"), json!({}))),
        1 => path.prop_map(|path| ("PUT", format!("files/{path}/x"), json!("a file where another is a folder"))),
        1 => (prop::sample::select(vec!["d", "e", "e/f", "g"]), any::<bool>())
            .prop_map(|(path, purge)| ("DELETE", format!("folders/{path}?recursive=true&purge={purge}"), json!({}))),
        1 => prop::sample::select(vec![("d", "e"), ("e", "d"), ("d", "e/d"), ("e", "d/e"), ("e/f", "d/g")])
            .prop_map(|(from, to)| ("PATCH", format!("folders/{from}"), json!({"path": to}))),
        1 => any::<bool>().prop_map(|on| ("PUT", "folders/d".into(), json!({"sensitive": on}))),
    ]
}

#[tokio::test]
async fn after_any_edits_a_file_has_the_terms_of_its_metatags() {
    let (server, caller) = given().await;
    let mut admin = server.superuser();
    let mut runner = TestRunner::default();
    let many = prop::collection::vec(edits(), 4);
    let mut rows = 0;
    for _ in 0..60 {
        let batch = many.new_tree(&mut runner).unwrap().current();
        let url = |path: &str| format!("/v1/slates/K/{path}");
        let sent =
            batch.iter().map(|(method, path, body)| caller.request(method, &url(path)).json(body.clone()));
        for (reply, edit) in at_once(sent).await.iter().zip(&batch) {
            assert!([200, 201, 204, 404, 409, 422].contains(&reply.status), "{edit:?}: {reply:?}");
        }
        rows += check_dictionary(&mut admin);
        server.check_store();
    }
    assert!(rows > 60, "{rows} rows were checked");
}
