//! `retrieve` over files: the output contract, extraction, failures, citations and quotes.

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};
use slatebase::capability::descriptor;
use slatebase::schema::Schema;

use crate::support::{Caller, Server};

mod adverse;
mod slices;
mod sources;
pub mod web;

/// A server with the tenant `acme`, its slate `Knowledge`, and these files in it.
async fn given(files: Value) -> (Server, Caller) {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    caller.put("/v1/slates/Knowledge").await.expect(201);
    for (path, file) in files.as_object().unwrap() {
        let mut body = if file.is_string() { json!({"content": file}) } else { file.clone() };
        body["path"] = json!(path);
        caller.post("/v1/slates/Knowledge/files").json(body).await.expect(201);
    }
    (server, caller)
}

/// What is retrieved; what is asked and what is answered must satisfy the published schemas.
async fn retrieve(caller: &Caller, body: Value) -> Value {
    let schema = Schema::compile(&descriptor::descriptor().input_schema, "").unwrap();
    assert_eq!(schema.failures(&body), [], "{body:#}");
    let found = caller.post("/v1/retrieve").json(body).await.ok(200);
    let schema = Schema::compile(&descriptor::output_schema(), "").unwrap();
    assert_eq!(schema.failures(&found), [], "{found:#}");
    found
}

async fn of(caller: &Caller, path: &str, constraints: Value) -> Value {
    let target = format!("slate://Knowledge/{path}");
    retrieve(caller, json!({"target": target, "constraints": constraints})).await
}

fn reason(found: &Value) -> &str {
    assert_eq!((&found["retrieved"]["data"], &found["confidence"]), (&Value::Null, &json!(0.0)), "{found:#}");
    assert_eq!(found["retrieved"]["complete"], false);
    found["failure"]["reason"].as_str().unwrap()
}

#[test]
fn the_committed_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/retrieve-output.schema.json");
    let text = format!("{:#}\n", descriptor::output_schema());
    if std::env::var_os("SLATEBASE_WRITE_OPENAPI").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == text,
        "run the tests with SLATEBASE_WRITE_OPENAPI=1"
    );
}

const YAML: &str = "development:\n  adapter: postgresql\n  host: localhost\n  port: 5432\n  database: app_dev\n\
                    test:\n  adapter: postgresql\n  host: localhost\n  database: app_test\n\
                    production:\n  adapter: postgresql\n  host: db.internal\n  pool: 25\n  ssl: true\n  database: app\n";

#[tokio::test]
async fn a_configuration_file() {
    let (_server, caller) = given(json!({"config/database.yml": {"content": YAML, "authority": "high",
        "source_version": "git:abc123", "source_modified_at": "2025-01-20T10:00:00Z"}}))
    .await;
    caller.put("/v1/settings").json(json!({"default_slate": "Knowledge"})).await.ok(200);
    let mut found = retrieve(&caller, json!({"target": "config/database.yml", "source": "file"})).await;
    let timestamp = found["retrieved"]["timestamp"].take();
    assert!(timestamp.as_str().unwrap().ends_with('Z'));
    let provenance_id = found["provenance_id"].take();
    assert_eq!(
        found,
        json!({
            "provenance_id": null,
            "retrieved": {
                "target": "config/database.yml",
                "source": "file:config/database.yml",
                "timestamp": null,
                "data": {
                    "development": {"adapter": "postgresql", "host": "localhost", "port": 5432, "database": "app_dev"},
                    "test": {"adapter": "postgresql", "host": "localhost", "database": "app_test"},
                    "production": {"adapter": "postgresql", "host": "db.internal", "pool": 25, "ssl": true,
                                   "database": "app"},
                },
                "format": "yaml",
                "complete": true,
            },
            "citation": {
                "reference": "slate://Knowledge/config/database.yml@1",
                "version": "git:abc123",
                "hash": found["citation"]["hash"],
                "authority": "high",
            },
            "provenance": {
                "source_type": "file",
                "last_modified": "2025-01-20T10:00:00Z",
                "freshness": "fresh",
                "reliability": "Immutable version 1 of a file in a slate, the source was last modified \
                                2025-01-20T10:00:00Z; its bytes were verified against the SHA-256 on record.",
            },
            "extraction": {"applied_filters": null, "original_size": YAML.len(), "returned_size": YAML.len(),
                           "truncated": false},
            "confidence": 1.0,
            "evidence_anchors": ["config/database.yml:1-15"],
            "assumptions": [],
        })
    );
    assert!(found["citation"]["hash"].as_str().unwrap().starts_with("sha256:"));
    let mut record = caller.get(&format!("/v1/provenance/{}", provenance_id.as_str().unwrap())).await.ok(200);
    assert_eq!(record["kind"], "retrieve");
    assert_eq!(record["retrieved"]["data"], json!({"reference": "slate://Knowledge/config/database.yml@1"}));
    for member in ["citation", "provenance", "extraction", "confidence", "evidence_anchors", "assumptions"] {
        assert_eq!(record[member].take(), found[member], "{member}");
    }
}

/// 200 lines: an interface in lines 3 to 12, a class in lines 20 to 44, another class from line 60 on.
fn typescript() -> String {
    let mut lines: Vec<String> = (1..=200).map(|n| format!("// line {n}")).collect();
    let mut put = |first: usize, last: usize, head: &str| {
        lines[first - 1] = format!("{head} {{");
        (first + 1..last).for_each(|n| lines[n - 1] = format!("  member{n}: string;"));
        lines[last - 1] = "}".into();
    };
    put(3, 12, "export interface User");
    put(20, 44, "export class Store");
    put(60, 90, "class Later");
    lines.join("\n") + "\n"
}

#[tokio::test]
async fn sections_within_lines_of_a_source_file() {
    let text = typescript();
    let (_server, caller) = given(json!({"src/user.ts": {"content": text}})).await;
    let asked = json!({"lines": "1-50", "sections": ["interface", "class"]});
    let mut found = of(&caller, "src/user.ts", asked.clone()).await;
    let part = |first: usize, last: usize| {
        text.split_inclusive('\n').skip(first - 1).take(last + 1 - first).collect::<String>()
    };
    let data = format!("{}\n{}", part(3, 12), part(20, 44));
    found["provenance_id"].take();
    found["retrieved"]["timestamp"].take();
    let modified = found["provenance"]["last_modified"].take();
    assert!(modified.is_string());
    let reliability = found["provenance"]["reliability"].take();
    assert!(reliability.as_str().unwrap().contains("verified"));
    assert_eq!(
        found,
        json!({
            "provenance_id": null,
            "retrieved": {"target": "slate://Knowledge/src/user.ts", "source": "file:src/user.ts", "timestamp": null,
                          "data": data, "format": "text", "complete": false},
            "citation": {"reference": "slate://Knowledge/src/user.ts@1#L3-12,20-44", "version": "1",
                         "hash": found["citation"]["hash"], "authority": "medium"},
            "provenance": {"source_type": "file", "last_modified": null, "freshness": "fresh", "reliability": null},
            "extraction": {"applied_filters": asked, "original_size": text.len(), "returned_size": data.len(),
                           "truncated": true},
            "confidence": 0.95,
            "evidence_anchors": ["src/user.ts:3-12", "src/user.ts:20-44"],
            "assumptions": ["Sections were matched by the keyword or the name of a top-level construct."],
        })
    );
    let resolved = resolve(&caller, json!({"reference": found["citation"]["reference"]})).await;
    assert_eq!((&resolved["status"], &resolved["data"]), (&json!("verified"), &json!(data)));
    let again = retrieve(&caller, json!({"target": found["citation"]["reference"]})).await;
    assert_eq!(again["retrieved"]["data"], data);
}

async fn resolve(caller: &Caller, body: Value) -> Value {
    caller.post("/v1/citations/resolve").json(body).await.ok(200)
}

#[tokio::test]
async fn data_is_checked_filtered_and_projected_in_this_order() {
    let (_server, caller) = given(json!({
        "list.json": r#"{"items": [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}], "version": "7"}"#,
        "rows.csv": "id,name\n1,Ada\n2,\"Grace, H.\"\n",
    }))
    .await;
    let found = of(
        &caller,
        "list.json",
        json!({"filters": "$.items[*]", "fields": ["/s"],
        "schema": {"required": ["items"]}}),
    )
    .await;
    assert_eq!(found["retrieved"]["data"], json!([{"s": "a"}, {"s": "b"}]));
    assert_eq!((&found["retrieved"]["complete"], &found["confidence"]), (&json!(false), &json!(0.95)));
    assert_eq!(found["citation"]["reference"], "slate://Knowledge/list.json@1");
    assert_eq!(found["citation"]["version"], "1");
    let found = of(&caller, "rows.csv", json!({"filters": "$[?@.id == '2']"})).await;
    assert_eq!(found["retrieved"]["data"], json!([{"id": "2", "name": "Grace, H."}]));
    let refused = of(
        &caller,
        "list.json",
        json!({"schema": {"properties": {"items": {"items": {
        "properties": {"n": {"maximum": 1}}}}}}}),
    )
    .await;
    assert_eq!(reason(&refused), "schema_mismatch");
    assert!(refused["failure"]["detail"].as_str().unwrap().contains("/items/1/n"));
    assert_eq!(reason(&of(&caller, "list.json", json!({"fields": ["/nope"]})).await), "constraint_unmet");
}

#[tokio::test]
async fn what_cannot_be_given_says_why() {
    let (_server, caller) = given(json!({
        "docs/guide.md": "# Guide\ntext\n",
        "broken.json": "{\"a\":",
        "image.png": {"content_base64": "iVBORw0KGgo="},
        "secret/.env": "A=1",
        "hidden.md": {"content": "x", "sensitive": true},
    }))
    .await;
    for (path, constraints, expected) in [
        ("docs/guid.md", json!({}), "not_found"),
        ("../x", json!({}), "not_found"),
        ("docs/guide.md", json!({"version": "2"}), "not_found"),
        ("docs/guide.md", json!({"lines": "9"}), "constraint_unmet"),
        ("docs/guide.md", json!({"sections": ["Nope"]}), "constraint_unmet"),
        ("docs/guide.md", json!({"filters": "$"}), "constraint_unmet"),
        ("docs/guide.md", json!({"max_bytes": 3}), "too_large"),
        ("broken.json", json!({}), "format_mismatch"),
        ("image.png", json!({"lines": "1"}), "constraint_unmet"),
        ("image.png", json!({"max_bytes": 3}), "too_large"),
        ("secret/.env", json!({}), "refused"),
        ("secret/sub/.env", json!({}), "refused"),
        ("hidden.md", json!({}), "refused"),
    ] {
        let body = json!({"target": {"slate": "Knowledge", "path": path}, "constraints": constraints});
        let found = retrieve(&caller, body).await;
        assert_eq!(reason(&found), expected, "{path} {constraints}");
        let id = found["provenance_id"].as_str().unwrap();
        let record = caller.get(&format!("/v1/provenance/{id}")).await.ok(200);
        assert_eq!(record["failure"], found["failure"], "{path}");
    }
    let missed = of(&caller, "docs/guid.md", json!({})).await;
    assert_eq!(missed["failure"]["alternatives"], json!(["docs/guide.md"]));
    let moved = of(&caller, "elsewhere/guide.md", json!({})).await;
    assert_eq!(moved["failure"]["alternatives"], json!(["docs/guide.md"]));
    let bytes = of(&caller, "image.png", json!({})).await;
    assert_eq!(
        (&bytes["retrieved"]["format"], &bytes["retrieved"]["data"]),
        (&json!("binary"), &json!("iVBORw0KGgo="))
    );
}

#[tokio::test]
async fn another_slate_than_the_keys_own_is_not_there() {
    let (server, caller) = given(json!({"a.md": "a"})).await;
    caller.put("/v1/slates/Other").await.expect(201);
    let bound = server.key("acme", json!({"scopes": ["retrieve"], "slates": ["Other"]})).await;
    assert_eq!(reason(&of(&bound, "a.md", json!({})).await), "not_found");
    bound
        .post("/v1/citations/resolve")
        .json(json!({"reference": "slate://Knowledge/a.md@1"}))
        .await
        .expect(404);
}

#[tokio::test]
async fn text_is_cut_after_a_line() {
    let (_server, caller) = given(json!({"a.md": "one\ntwo\nthree\n"})).await;
    let found = of(&caller, "a.md", json!({"max_bytes": 9})).await;
    assert_eq!(
        (&found["retrieved"]["data"], &found["extraction"]["truncated"]),
        (&json!("one\ntwo\n"), &json!(true))
    );
    assert_eq!(found["citation"]["reference"], "slate://Knowledge/a.md@1#L1-2");
    let whole = of(&caller, "a.md", json!({"max_bytes": 14, "lines": "1-3"})).await;
    assert_eq!((&whole["retrieved"]["complete"], &whole["confidence"]), (&json!(true), &json!(1.0)));
    assert_eq!(whole["citation"]["reference"], "slate://Knowledge/a.md@1");
}

#[tokio::test]
async fn a_stale_answer_says_so_and_fails_only_when_that_is_demanded() {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    caller
        .put("/v1/slates/Knowledge")
        .json(json!({"volatile": true, "max_age_seconds": 60}))
        .await
        .expect(201);
    let old = json!({"path": "a.md", "content": "a", "source_modified_at": "2020-01-01T00:00:00Z"});
    caller.post("/v1/slates/Knowledge/files").json(old).await.expect(201);
    let found = of(&caller, "a.md", json!({})).await;
    assert_eq!((&found["provenance"]["freshness"], &found["confidence"]), (&json!("stale"), &json!(0.8)));
    assert_eq!(reason(&of(&caller, "a.md", json!({"max_age": 3600})).await), "stale");
    let century = of(&caller, "a.md", json!({"max_age": 3_153_600_000_u64})).await;
    assert_eq!(century["retrieved"]["data"], "a");
}

#[tokio::test]
async fn versions_are_told_by_our_number_or_the_sources_own() {
    let (_server, caller) = given(json!({"a.md": {"content": "one", "source_version": "git:1"}})).await;
    let new = json!({"path": "a.md", "content": "two", "source_version": "git:2"});
    caller.post("/v1/slates/Knowledge/files").json(new).await.expect(200);
    for (version, data) in [("1", "one"), ("git:1", "one"), ("2", "two"), ("git:2", "two")] {
        assert_eq!(of(&caller, "a.md", json!({"version": version})).await["retrieved"]["data"], data);
    }
    caller.delete("/v1/slates/Knowledge/files/a.md").await.expect(204);
    assert_eq!(reason(&of(&caller, "a.md", json!({})).await), "not_found");
    assert_eq!(of(&caller, "a.md@2", json!({})).await["retrieved"]["data"], "two");
}

#[tokio::test]
async fn quotes_are_found_here_or_elsewhere_or_nowhere() {
    let (_server, caller) =
        given(json!({"a.md": "one two\nthree\n", "b.md": "four  five\n", "c.md": "six"})).await;
    caller.put("/v1/slates/Knowledge/files/a.md").body("text/markdown", "seven\n").await.ok(200);
    let request_match = json!({"properties": {"files": {}}});
    let declaration =
        json!({"to": {"slate": "Knowledge"}, "as": "D", "maxRounds": 2, "requestMatch": request_match});
    let session = caller.post("/v1/sessions").json(json!({"retrieve": declaration})).await.ok(201);
    let id = session["session_id"].as_str().unwrap();
    let round = json!({"output": {"files": ["a.md", "b.md"]}});
    caller.post(&format!("/v1/sessions/{id}/rounds")).json(round).await.ok(200);
    let a = "slate://Knowledge/a.md@2";
    for (reference, quote, session, status, lines, at) in [
        (a, " seven ", None, "found", Some("1"), Some("slate://Knowledge/a.md@2#L1")),
        (a, "two three", None, "found_elsewhere", Some("1-2"), Some("slate://Knowledge/a.md@1#L1-2")),
        (
            "slate://Knowledge/a.md@1#L2",
            "one",
            None,
            "found_elsewhere",
            Some("1"),
            Some("slate://Knowledge/a.md@1#L1"),
        ),
        (a, "four five", None, "not_found", None, None),
        (a, "four five", Some(id), "found_elsewhere", Some("1"), Some("slate://Knowledge/b.md@1#L1")),
        (a, "six", Some(id), "not_found", None, None),
    ] {
        let body = json!({"reference": reference, "quote": quote, "session_id": session});
        let found = caller.post("/v1/citations/check").json(body).await.ok(200);
        let expected = (Some(status), lines, at);
        assert_eq!(
            (found["status"].as_str(), found["lines"].as_str(), found["reference"].as_str()),
            expected,
            "{quote}"
        );
    }
    let nobody = json!({"reference": a, "quote": "x", "session_id": "01890000-0000-7000-8000-000000000000"});
    caller.post("/v1/citations/check").json(nobody).await.expect(404);
}

#[tokio::test]
async fn what_is_no_citation_is_refused_by_pointer() {
    let (_server, caller) = given(json!({"a.md": "one\n"})).await;
    for (body, pointer) in [
        (json!({"reference": "slate://Knowledge/a.md"}), "/reference"),
        (json!({"reference": "slate://Knowledge/a.md@1#L5"}), "/reference"),
        (json!({"reference": "nothing"}), "/hash"),
        (json!({"reference": "slate://Knowledge/a.md@1", "hash": "abc"}), "/hash"),
        (json!({"reference": "slate://Knowledge/a.md@1", "x": 1}), "/x"),
    ] {
        let refused = caller.post("/v1/citations/resolve").json(body.clone()).await.ok(422);
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{body}");
    }
}

#[tokio::test]
async fn bytes_that_were_tampered_with_are_not_given() {
    let (server, caller) = given(json!({"a.md": "one\n"})).await;
    server.superuser().batch_execute("update files set data = 'two\n'").unwrap();
    let found = of(&caller, "a.md", json!({})).await;
    assert_eq!(reason(&found), "integrity_mismatch");
    let resolved = resolve(&caller, json!({"reference": "slate://Knowledge/a.md@1"})).await;
    assert_eq!((&resolved["status"], &resolved["data"]), (&json!("integrity_mismatch"), &Value::Null));
}

#[tokio::test]
async fn every_form_of_a_constraint_is_in_the_published_schema() {
    let (_server, caller) = given(json!({"a.md": "# A\none\n# B\ntwo\n", "a.json": "{\"a\": [1, 2]}"})).await;
    for (path, constraints) in [
        ("a.md", json!({"lines": "1-2"})),
        ("a.md", json!({"lines": ["1", "3-"]})),
        ("a.md", json!({"sections": "A"})),
        ("a.md", json!({"sections": ["A", "B"], "version": 1, "slate": "Knowledge"})),
        ("a.md", json!({"version": "1", "max_bytes": 100, "max_age": 1000})),
        ("a.json", json!({"filters": "$.a"})),
        ("a.json", json!({"filters": ["$.a", "$"], "schema": true})),
        ("a.json", json!({"fields": ["/a/0"], "schema": {"type": "object"}})),
    ] {
        let found = of(&caller, path, constraints.clone()).await;
        assert!(found.get("failure").is_none(), "{constraints}: {found:#}");
    }
    let target = json!({"slate": "Knowledge", "path": "a.md", "version": 1});
    assert_eq!(retrieve(&caller, json!({"target": target})).await["retrieved"]["complete"], true);
}

#[tokio::test]
async fn all_of_it_in_parts_leaves_nothing_out() {
    let (_server, caller) = given(json!({"a.md": "one\n\nthree\n"})).await;
    let parts = of(&caller, "a.md", json!({"lines": ["1-2", "3"]})).await;
    assert_eq!((&parts["extraction"]["truncated"], &parts["confidence"]), (&json!(false), &json!(1.0)));
    assert_eq!(parts["citation"]["reference"], "slate://Knowledge/a.md@1#L1-2,3");
    // As long as the whole, and not the whole.
    let two = of(&caller, "a.md", json!({"lines": ["1", "3"]})).await;
    assert_eq!(
        (&two["retrieved"]["data"], &two["extraction"]["truncated"]),
        (&json!("one\n\nthree\n"), &json!(true))
    );
    for found in [&parts, &two] {
        let resolved = resolve(&caller, json!({"reference": found["citation"]["reference"]})).await;
        assert_eq!(
            (&resolved["status"], &resolved["data"]),
            (&json!("verified"), &found["retrieved"]["data"])
        );
    }
}

#[tokio::test]
async fn what_is_cited_in_many_parts_is_a_target_again() {
    let functions =
        |count: usize| (0..count).map(|n| format!("fn f{n}() {{}}\n// {n}\n")).collect::<String>();
    let path = "é".repeat(100) + ".rs";
    let (_server, caller) = given(json!({&path: functions(1000), "more.rs": functions(1001)})).await;
    let target = json!({"slate": "Knowledge", "path": path});
    let found = retrieve(&caller, json!({"target": target, "constraints": {"sections": ["fn"]}})).await;
    let reference = &found["citation"]["reference"];
    assert!(reference.as_str().unwrap().len() > 4096);
    let again = retrieve(&caller, json!({"target": reference})).await;
    assert_eq!(again["retrieved"]["data"], found["retrieved"]["data"]);
    let resolved = resolve(&caller, json!({"reference": reference})).await;
    assert_eq!(resolved["data"], found["retrieved"]["data"]);
    assert_eq!(reason(&of(&caller, "more.rs", json!({"sections": ["fn"]})).await), "constraint_unmet");
}

#[tokio::test]
async fn a_filter_that_takes_for_ever_is_not_run() {
    let deep = (0..100).fold(json!(0), |inner, _| json!([inner, 1]));
    let (_server, caller) = given(json!({"a.json": deep.to_string()})).await;
    let found = of(&caller, "a.json", json!({"filters": "$..*..*..*..*..*..*..*..*"})).await;
    assert_eq!(reason(&found), "constraint_unmet");
    let nested = format!("${}", "[?@".repeat(1000));
    let body = json!({"target": "slate://Knowledge/a.json", "constraints": {"filters": nested}});
    assert_eq!(
        caller.post("/v1/retrieve").json(body).await.ok(422)["errors"][0]["pointer"],
        "/constraints/filters"
    );
}

#[tokio::test]
async fn nothing_is_guessed_or_lost_because_a_format_is_asked() {
    let (_server, caller) = given(json!({
        "twice.json": "{\"a\": 1, \"a\": 2}",
        "words": {"content": "just words\nand more\n", "media_type": "application/octet-stream"},
        "table": {"content": "a,b\n1,2\n", "media_type": "application/octet-stream"},
    }))
    .await;
    assert_eq!(reason(&of(&caller, "twice.json", json!({})).await), "format_mismatch");
    for (path, format, data) in [
        ("words", "yaml", None),
        ("words", "csv", None),
        ("words", "text", Some(json!("just words\nand more\n"))),
        ("table", "csv", Some(json!([{"a": "1", "b": "2"}]))),
        ("twice.json", "text", Some(json!("{\"a\": 1, \"a\": 2}"))),
    ] {
        let target = format!("slate://Knowledge/{path}");
        let found = retrieve(&caller, json!({"target": target, "format": format})).await;
        match data {
            Some(data) => assert_eq!(found["retrieved"]["data"], data, "{path} {format}"),
            None => assert_eq!(reason(&found), "format_mismatch", "{path} {format}"),
        }
    }
}

#[tokio::test]
async fn no_text_breaks_it() {
    let (_server, caller) = given(json!({"a.md": "# A\n"})).await;
    for text in [
        "\u{0}",
        "a\u{0}.md",
        "\u{feff}",
        "\u{10ffff}",
        "%",
        "slate://Knowledge/a.md%00",
        "api:\u{0}/x",
        "database:a/b/%00",
        "http://a\u{0}.test/",
        "http://[::1",
        "slate://",
        "slate://\u{0}/a@1",
    ] {
        for body in [
            json!({"target": text, "constraints": {"slate": "Knowledge"}}),
            json!({"target": {"slate": "Knowledge", "path": text}}),
            json!({"target": {"slate": text, "path": "a.md"}}),
            json!({"target": {"slate": "Knowledge", "path": "a.md", "version": text}}),
            json!({"target": {"api": text, "path": text, "query": {text: text}}}),
            json!({"target": {"database": text, "table": text, "key": text}}),
            json!({"target": {"database": "d", "query": text, "params": {text: text}}}),
            json!({"target": "slate://Knowledge/a.md", "constraints": {"sections": [text]}}),
            json!({"target": "slate://Knowledge/a.md", "constraints": {"version": text}}),
            json!({"target": "slate://Knowledge/a.md", "constraints": {"fields": [format!("/{text}")]}}),
            json!({"target": "slate://Knowledge/a.md", "constraints": {"filters": [format!("$['{text}']")]}}),
        ] {
            let reply = caller.post("/v1/retrieve").json(body.clone()).await;
            assert!(reply.status == 200 || reply.status == 422, "{} {body}", reply.status);
        }
        let reply = caller.post("/v1/citations/resolve").json(json!({"reference": text})).await;
        assert!([200, 404, 422].contains(&reply.status), "{} {text:?}", reply.status);
        let body = json!({"reference": "slate://Knowledge/a.md@1", "quote": text});
        let reply = caller.post("/v1/citations/check").json(body).await;
        assert!(reply.status == 200 || reply.status == 422, "{} {text:?}", reply.status);
    }
}

#[tokio::test]
async fn a_hash_is_the_same_in_capitals() {
    let (_server, caller) = given(json!({"a.md": "one\n"})).await;
    let hash = of(&caller, "a.md", json!({})).await["citation"]["hash"].as_str().unwrap().to_uppercase();
    let hash = hash.replacen("SHA256", "sha256", 1);
    let resolved = resolve(&caller, json!({"reference": "slate://Knowledge/a.md@1", "hash": hash})).await;
    assert_eq!(resolved["status"], "verified");
}
