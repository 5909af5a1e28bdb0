//! Queries: the four modes, their union, pages and streams.

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};
use slatebase::folders::ops::NewSettings;

use crate::support::{Caller, Server};

/// Items as lines: `path = content`, or `path ! status`.
fn lines(reply: &Value) -> Vec<String> {
    let line = |item: &Value| {
        let path = item["path"].as_str().unwrap();
        match (item["status"].as_str().unwrap(), &item["content"]) {
            ("fetched", content) => format!("{path} = {}", content.as_str().unwrap()),
            ("listing", content) => format!("{path} ! listing {content}"),
            (status, _) => format!("{path} ! {status}"),
        }
    };
    reply["items"].as_array().unwrap().iter().map(line).collect()
}

async fn query(caller: &Caller, body: Value) -> Value {
    caller.post("/v1/slates/K/query").json(body).await.ok(200)
}

async fn given(files: Value) -> (Server, Caller) {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    server.fill(&caller, "K", files).await;
    (server, caller)
}

async fn knowledge() -> (Server, Caller) {
    given(json!({
        "docs/core.md": {"content": "core", "metatags": {"category": "security", "topics": ["graph", "auth"], "n": 3}},
        "docs/faq-a.md": {"content": "a", "metatags": {"category": "billing", "topics": []}},
        "docs/faq-b.md": {"content": "b", "metatags": {"category": "network-security", "n": false}},
        "docs/glossary.md": {"content": "g", "metatags": {"category": ""}},
        "docs/research/report.md": {"content": "rr", "metatags": {"category": "security"}},
        "docs/research/deep/data.csv": "1,2,3",
        "other/secret.md": {"content": "outside", "metatags": {"category": "security"}},
    }))
    .await
}

#[tokio::test]
async fn every_mode_finds_what_it_should() {
    let (_server, caller) = knowledge().await;
    for (request, recursive, expected) in [
        (
            json!({"files": ["glossary.md", "core.md", "glossary.md"]}),
            false,
            vec!["glossary.md = g", "core.md = core"],
        ),
        (
            json!({"files": ["research/report.md", "nope"]}),
            false,
            vec!["research/report.md = rr", "nope ! not_found"],
        ),
        (
            json!({"files": ["", "../other/secret.md", "/core.md", "a\u{0}", "core.md/"]}),
            false,
            vec![
                " ! not_found",
                "../other/secret.md ! not_found",
                "/core.md ! not_found",
                "a\u{0} ! not_found",
                "core.md/ ! not_found",
            ],
        ),
        (
            json!({"subfolders": ["research/", "research", "core.md", ".."]}),
            false,
            vec![
                r#"research/ ! listing [{"name":"deep/","size":5},{"name":"report.md","size":2}]"#,
                "core.md ! not_found",
                ".. ! not_found",
            ],
        ),
        (
            json!({"subfolders": ["."]}),
            false,
            vec![
                r#". ! listing [{"name":"core.md","size":4},{"name":"faq-a.md","size":1},{"name":"faq-b.md","size":1},{"name":"glossary.md","size":1},{"name":"research/","size":7}]"#,
            ],
        ),
        (
            json!({"metatag": {"name": "category", "contains": "security"}}),
            false,
            vec!["core.md = core", "faq-b.md = b"],
        ),
        (
            json!({"metatag": {"name": "category", "contains": "security"}}),
            true,
            vec!["core.md = core", "faq-b.md = b", "research/report.md = rr"],
        ),
        (
            json!({"metatag": {"name": "category"}}),
            false,
            vec!["core.md = core", "faq-a.md = a", "faq-b.md = b", "glossary.md = g"],
        ),
        (json!({"metatag": {"name": "topics"}}), false, vec!["core.md = core", "faq-a.md = a"]),
        (json!({"metatag": {"name": "topics", "contains": ""}}), false, vec!["core.md = core"]),
        (json!({"metatag": {"name": "n", "contains": "zzz"}}), false, vec!["core.md = core", "faq-b.md = b"]),
        (json!({"metatag": {"name": "none"}}), false, vec![]),
        (
            json!({"glob": "*.md"}),
            false,
            vec!["core.md = core", "faq-a.md = a", "faq-b.md = b", "glossary.md = g"],
        ),
        (json!({"glob": "[!c-f]*"}), true, vec!["glossary.md = g", "research/report.md = rr"]),
        (json!({"glob": "CORE.md"}), false, vec![]),
        (json!({"glob": ""}), true, vec![]),
        (json!({"glob": "research/*"}), true, vec![]),
    ] {
        let reply =
            query(&caller, json!({"folder": "docs", "recursive": recursive, "request": request})).await;
        assert_eq!(lines(&reply), expected, "{request}");
        assert_eq!(reply["next_cursor"], Value::Null, "{request}");
    }
}

#[tokio::test]
async fn the_union_names_all_modes_and_every_item_says_which_bytes_it_is() {
    let (_server, caller) = knowledge().await;
    let request = json!({"files": ["core.md"], "subfolders": ["research"], "glob": "faq-*",
        "metatag": {"name": "category", "contains": "security"}, "other": 1});
    let reply = query(&caller, json!({"folder": "docs", "request": request})).await;
    let matched: Vec<_> =
        reply["items"].as_array().unwrap().iter().map(|item| (&item["path"], &item["matched_by"])).collect();
    assert_eq!(
        json!(matched),
        json!([
            ["core.md", ["files", "metatag"]],
            ["research", ["subfolders"]],
            ["faq-a.md", ["glob"]],
            ["faq-b.md", ["metatag", "glob"]]
        ])
    );
    assert_eq!(reply["ignored"], json!(["other"]));
    let mut item = reply["items"][0].clone();
    let id = item["provenance_id"].take();
    assert!(id.as_str().unwrap().ends_with(".1"));
    assert_eq!(
        item,
        json!({"path": "core.md", "status": "fetched", "content": "core", "size": 4, "version": 1,
        "sha256": "0d45f5fd462b8c70bffb10021ac1bcff3f58f29b1faf7568595095427d42812c", "media_type": "text/markdown",
        "encoding": null, "matched_by": ["files", "metatag"], "citation": "slate://K/docs/core.md@1",
        "provenance_id": null})
    );
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_pointer_and_what_is_not_there_is_404() {
    let (server, caller) = knowledge().await;
    for (body, pointer) in [
        (json!({"request": {}}), "/request"),
        (json!({"request": {"no_mode": 1}}), "/request"),
        (json!({"request": {"files": "core.md"}}), "/request/files"),
        (json!({"request": {"files": ["a", 1]}}), "/request/files/1"),
        (json!({"request": {"metatag": {"contains": "x"}}}), "/request/metatag/name"),
        (json!({"request": []}), "/request"),
        (json!({"folder": "../x", "request": {"glob": "*"}}), "/folder"),
        (json!({"folder": "/", "request": {"glob": "*"}}), "/folder"),
        (json!({"request": {"glob": "*"}, "limit": 0}), "/limit"),
        (json!({"request": {"glob": "*"}, "limit": 1001}), "/limit"),
        (json!({"request": {"glob": "*"}, "cursor": "x"}), "/cursor"),
        (json!({"request": {"glob": "*"}, "limits": {"maxFilesPerRound": 0}}), "/limits/maxFilesPerRound"),
        (json!({"request": {"glob": "*"}, "limits": {"x": 1}}), "/limits/x"),
        (json!({"request": {"glob": "*"}, "foo": 1}), "/foo"),
    ] {
        caller.post("/v1/slates/K/query").json(body).await.invalid_at(pointer);
    }
    let ask = json!({"request": {"glob": "*"}});
    caller.post("/v1/slates/None/query").json(ask.clone()).await.problem(404, "not_found");
    let nowhere = json!({"folder": "docs/none", "request": {"glob": "*"}});
    caller.post("/v1/slates/K/query").json(nowhere.clone()).await.problem(404, "not_found");
    caller
        .post("/v1/slates/K/query")
        .header("accept", "application/x-ndjson")
        .json(nowhere)
        .await
        .problem(404, "not_found");
    let reader = server.key("acme", json!({"scopes": ["read", "write", "admin"]})).await;
    reader.post("/v1/slates/K/query").json(ask.clone()).await.problem(403, "forbidden");
    let bound = server.key("acme", json!({"scopes": ["retrieve"], "slates": ["L"]})).await;
    bound.post("/v1/slates/K/query").json(ask).await.problem(404, "not_found");
}

#[tokio::test]
async fn an_invalid_pattern_is_reported_and_the_other_modes_run() {
    let (_server, caller) = knowledge().await;
    let reply =
        query(&caller, json!({"folder": "docs", "request": {"glob": "report-[", "files": ["core.md"]}}))
            .await;
    assert_eq!(lines(&reply), ["core.md = core"]);
    assert_eq!(reply["errors"][0]["mode"], "glob");
    let reply = query(&caller, json!({"request": {"glob": "["}})).await;
    assert_eq!((lines(&reply).len(), reply["errors"].as_array().unwrap().len()), (0, 1));
}

#[tokio::test]
async fn misses_explain_themselves() {
    let (server, caller) = knowledge().await;
    server
        .fill(
            &caller,
            "K",
            json!({"docs/Readme.md": "r", "docs/hidden/glossary2.md": "no", "docs/glossary9.md": "no"}),
        )
        .await;
    server
        .tenant_tx(&caller, |tx, ctx| {
            let hide = NewSettings { sensitive: true, ..NewSettings::default() };
            slatebase::folders::ops::put(tx, ctx, "K", &"docs/hidden".to_owned().try_into().unwrap(), &hide)?;
            let change = slatebase::files::ops::Change { sensitive: Some(true), ..Default::default() };
            let path = "docs/glossary9.md".to_owned().try_into().unwrap();
            slatebase::files::ops::change(tx, ctx, "K", &path, &change, &Default::default()).map(drop)
        })
        .await;
    let request = json!({"files": ["README.md", "glossary.txt", "research/reprot.md", "research", "./core.md", "zzz",
        "hidden/glossary2.md", "glossary9.md"], "subfolders": ["reserch", "hidden"]});
    let reply = query(&caller, json!({"folder": "docs", "request": request})).await;
    let hints: Vec<_> = reply["items"].as_array().unwrap().iter().map(|item| &item["hint"]).collect();
    assert_eq!(
        json!(hints),
        json!([
            {"reason": "no_such_file", "nearest": ["Readme.md"]},
            {"reason": "no_such_file", "nearest": ["glossary.md"]},
            {"reason": "no_such_file", "nearest": ["research/report.md"]},
            {"reason": "is_a_folder", "nearest": []},
            {"reason": "invalid_path", "nearest": ["core.md"]},
            {"reason": "no_such_file", "nearest": []},
            {"reason": "no_such_file", "nearest": ["glossary.md"]},
            {"reason": "no_such_file", "nearest": ["glossary.md"]},
            {"reason": "no_such_file", "nearest": ["research/"]},
            {"reason": "no_such_file", "nearest": []},
        ])
    );
    let statuses: Vec<_> = reply["items"].as_array().unwrap().iter().map(|item| &item["status"]).collect();
    assert!(statuses.iter().all(|status| *status == "not_found"), "{statuses:?}");

    let many: Vec<_> = (0..12).map(|i| format!("none{i}")).collect();
    let reply = query(&caller, json!({"request": {"files": many}})).await;
    let hinted = reply["items"].as_array().unwrap().iter().filter(|item| item["hint"].is_object()).count();
    assert_eq!(hinted, 10);
}

#[tokio::test]
async fn what_is_hidden_is_in_no_answer() {
    let (server, caller) = knowledge().await;
    server
        .tenant_tx(&caller, |tx, ctx| {
            let hide = NewSettings { sensitive: true, ..NewSettings::default() };
            slatebase::folders::ops::put(tx, ctx, "K", &"docs/research".to_owned().try_into().unwrap(), &hide)
                .map(drop)
        })
        .await;
    let request = json!({"files": ["docs/research/report.md"], "subfolders": ["docs/research", "docs"], "glob": "*r*",
        "metatag": {"name": "category", "contains": "sec"}});
    let reply = query(&caller, json!({"recursive": true, "request": request})).await;
    assert_eq!(
        lines(&reply),
        [
            "docs/research/report.md ! not_found",
            "docs/research ! not_found",
            r#"docs ! listing [{"name":"core.md","size":4},{"name":"faq-a.md","size":1},{"name":"faq-b.md","size":1},{"name":"glossary.md","size":1}]"#,
            "docs/core.md = core",
            "docs/faq-b.md = b",
            "docs/glossary.md = g",
            "other/secret.md = outside"
        ]
    );
    caller
        .post("/v1/slates/K/query")
        .json(json!({"folder": "docs/research", "request": {"glob": "*"}}))
        .await
        .problem(404, "not_found");
}

#[tokio::test]
async fn names_are_found_in_another_normal_form() {
    let (_server, caller) = given(json!({"caf\u{e9}/e\u{301}t\u{e9}.md": "1"})).await;
    let request = json!({"files": ["cafe\u{301}/\u{e9}te\u{301}.md", "caf\u{e9}/e\u{301}t\u{e9}.md"],
        "subfolders": ["cafe\u{301}", "caf\u{e9}"]});
    let reply = query(&caller, json!({"request": request})).await;
    assert_eq!(
        lines(&reply),
        [
            "caf\u{e9}/e\u{301}t\u{e9}.md = 1",
            "cafe\u{301} ! listing [{\"name\":\"e\u{301}t\u{e9}.md\",\"size\":1}]"
        ]
    );
    let reply = query(&caller, json!({"folder": "cafe\u{301}", "request": {"glob": "*"}})).await;
    assert_eq!(lines(&reply), ["e\u{301}t\u{e9}.md = 1"]);
}

#[tokio::test]
async fn pages_go_on_where_they_ended_whatever_their_length() {
    let (_server, caller) = knowledge().await;
    let request = json!({"files": ["glossary.md", "nope", "research/report.md", "glossary.md"],
        "subfolders": ["research", "none"], "glob": "*", "metatag": {"name": "category", "contains": "sec"}});
    for recursive in [false, true] {
        let body = json!({"folder": "docs", "recursive": recursive, "request": request});
        let whole = query(&caller, body.clone()).await;
        assert_eq!(whole["items"].as_array().unwrap().len(), if recursive { 9 } else { 8 });
        for limit in 1..=9 {
            let (mut items, mut cursor) = (Vec::new(), Value::Null);
            loop {
                let mut body = body.clone();
                (body["limit"], body["cursor"]) = (limit.into(), cursor);
                let page = query(&caller, body).await;
                assert!(page["items"].as_array().unwrap().len() <= limit);
                items.extend(lines(&page));
                cursor = page["next_cursor"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            assert_eq!(items, lines(&whole), "pages of {limit}, recursive: {recursive}");
        }
    }
    let page = query(&caller, json!({"request": {"glob": "*"}, "recursive": true, "limit": 1})).await;
    let other = json!({"request": {"glob": "*.md"}, "recursive": true, "cursor": page["next_cursor"]});
    caller.post("/v1/slates/K/query").json(other).await.invalid_at("/cursor");
}

#[tokio::test]
async fn a_page_ends_early_when_its_contents_are_large() {
    let large = "x".repeat(9 << 20);
    let (_server, caller) = given(json!({"a": large, "b": large, "c": "small"})).await;
    let page = query(&caller, json!({"request": {"glob": "*"}})).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!(page["truncated"], false);
    let rest = query(&caller, json!({"request": {"glob": "*"}, "cursor": page["next_cursor"]})).await;
    let paths: Vec<_> = rest["items"].as_array().unwrap().iter().map(|item| &item["path"]).collect();
    assert_eq!((json!(paths), &rest["next_cursor"]), (json!(["b", "c"]), &Value::Null));
}

#[tokio::test]
async fn limits_omit_whole_files_and_say_so() {
    let (_server, caller) = knowledge().await;
    let ask = |limits: Value| json!({"folder": "docs", "request": {"glob": "*"}, "limits": limits});
    let reply = query(&caller, ask(json!({"maxFilesPerRound": 2}))).await;
    assert_eq!(
        lines(&reply),
        ["core.md = core", "faq-a.md = a", "faq-b.md ! omitted", "glossary.md ! omitted"]
    );
    assert_eq!(
        (&reply["truncated"], &reply["items"][2]["content"]),
        (&json!(true), &json!("(omitted: budget)"))
    );
    let reply = query(&caller, ask(json!({"maxTotalBytes": 2}))).await;
    assert_eq!(lines(&reply), ["core.md ! omitted", "faq-a.md = a", "faq-b.md = b", "glossary.md ! omitted"]);
}

#[tokio::test]
async fn what_is_not_text_is_given_in_base64() {
    let (server, caller) = given(json!({"a": "x"})).await;
    server
        .tenant_tx(&caller, |tx, ctx| {
            use slatebase::files::ops::{Write, write_one};
            write_one(tx, ctx, "K", Write::new("b.png".to_owned().try_into().unwrap(), vec![0xff, 0, 1]))
                .map(drop)
        })
        .await;
    let reply = query(&caller, json!({"request": {"files": ["b.png"]}})).await;
    let item = &reply["items"][0];
    assert_eq!(
        (&item["content"], &item["encoding"], &item["media_type"], &item["size"]),
        (&json!("/wAB"), &json!("base64"), &json!("image/png"), &json!(3))
    );
}

#[tokio::test]
async fn a_stream_gives_all_items_and_an_end() {
    let (server, caller) = knowledge().await;
    let files: serde_json::Map<_, _> =
        (0..1150).map(|i| (format!("many/f{i:04}.txt"), json!(i.to_string()))).collect();
    server.fill(&caller, "K", files.into()).await;
    let body = json!({"recursive": true, "request": {"files": ["nope"], "glob": "*", "x": 1}, "limits": {"maxFilesPerRound": 1000}});
    let reply = caller
        .post("/v1/slates/K/query")
        .header("accept", "application/x-ndjson")
        .json(body)
        .await
        .expect(200);
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    let mut all: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        all.pop().unwrap(),
        json!({"end": {"items": 1158, "truncated": true, "ignored": ["x"], "errors": []}})
    );
    let paths: Vec<&str> = all.iter().map(|item| item["path"].as_str().unwrap()).collect();
    assert!(paths[0] == "nope" && paths[1..].is_sorted() && paths.len() == 1158);
    assert_eq!(all.iter().filter(|item| item["status"] == "fetched").count(), 1000);
    let records: std::collections::HashSet<_> =
        all.iter().map(|item| item["provenance_id"].as_str().unwrap().split_once('.').unwrap().0).collect();
    assert!(records.len() > 1, "each page has its own record");

    let none = json!({"request": {"glob": "nothing"}});
    let reply = caller
        .post("/v1/slates/K/query")
        .header("accept", "text/html, application/x-ndjson;q=0.5")
        .json(none)
        .await;
    assert_eq!(reply.text(), "{\"end\":{\"ignored\":[],\"errors\":[],\"items\":0,\"truncated\":false}}\n");
}

#[tokio::test]
async fn a_long_index_is_cut_and_says_so() {
    let (server, caller) = knowledge().await;
    server
        .superuser()
        .batch_execute(
            "insert into folders (tenant_id, slate_id, parent_id, path, name, created_at)
             select o.tenant_id, o.slate_id, o.id, 'other/' || i, i, now()
             from folders o, generate_series(1, 9995) i where o.path = 'other'",
        )
        .unwrap();
    let reply = query(&caller, json!({"request": {"subfolders": ["docs", "other", "docs/research"]}})).await;
    let listed: Vec<_> = reply["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["content"].as_array().unwrap().len(), &item["truncated"]))
        .collect();
    assert_eq!(listed, [(5, &Value::Null), (9995, &json!(true)), (0, &json!(true))]);
    assert_eq!(reply["truncated"], true);
}
