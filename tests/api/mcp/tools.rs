//! The tools of `/mcp`.

use serde_json::json;

use super::client::{Mcp, knowledge};
use crate::support::Server;

#[tokio::test]
async fn every_tool_to_read_gives_what_its_operation_gives() {
    let (server, acme) = knowledge().await;
    let corpus = json!({"name": "K", "collection": "k", "url": "slate:K", "status": "published"});
    acme.put("/v1/catalog/corpora/k").json(corpus).await.expect(201);
    let mcp = Mcp::open(&acme, "/mcp").await;

    let slates = mcp.call("list_slates", json!({})).await;
    assert_eq!(slates["items"][0]["name"], "K");

    let page = mcp.call("browse", json!({"slate": "K", "limit": 2})).await;
    assert_eq!(page["items"][0]["name"], "core.md");
    let rest = mcp.call("browse", json!({"slate": "K", "cursor": page["next_cursor"]})).await;
    assert_eq!(rest["items"][0]["name"], "docs/");

    let read = mcp.call("read", json!({"slate": "K", "path": "docs/guide.md", "lines": "2-3"})).await;
    assert_eq!(read["retrieved"]["data"], "two\nthree\n");
    assert_eq!(read["citation"]["reference"], "slate://K/docs/guide.md@1#L2-3");
    acme.get(&format!("/v1/provenance/{}", read["provenance_id"].as_str().unwrap())).await.expect(200);

    for request in [
        json!({"metatag": {"name": "category", "contains": "sec"}}),
        json!({"glob": "c*.md"}),
        json!({"where": {"tag": "priority", "gte": 3}}),
    ] {
        let mut arguments = request;
        arguments["slate"] = json!("K");
        let found = mcp.call("find", arguments).await;
        assert_eq!(found["items"][0]["path"], "core.md", "{found}");
        let record = found["items"][0]["provenance_id"].as_str().unwrap();
        acme.get(&format!("/v1/provenance/{record}")).await.expect(200);
    }
    let first = mcp.call("find", json!({"slate": "K", "glob": "*", "recursive": true, "limit": 3})).await;
    let cursor = &first["next_cursor"];
    let second = mcp
        .call("find", json!({"slate": "K", "glob": "*", "recursive": true, "limit": 3, "cursor": cursor}))
        .await;
    assert_eq!((first["items"].as_array().unwrap().len(), second["items"].as_array().unwrap().len()), (3, 1));

    let tags = mcp.call("describe", json!({"slate": "K", "recursive": true})).await;
    assert_eq!(tags["items"][0]["name"], "category");

    let found = mcp.call("search", json!({"corpus": "k", "goal": "when is the release branch cut?"})).await;
    assert!(found["chunks"][0]["text"].as_str().unwrap().contains("release branch"), "{found}");
    acme.get(&format!("/v1/provenance/{}", found["record_id"].as_str().unwrap())).await.expect(200);

    let target = json!({"target": "slate://K/data.json", "constraints": {"filters": "$.items[0]"}});
    let found = mcp.call("retrieve", target).await;
    assert_eq!(found["retrieved"]["data"], json!([1]));

    let quote = json!({"reference": "slate://K/core.md@1", "quote": "The  release branch\nis cut"});
    assert_eq!(mcp.call("check_quote", quote).await["status"], "found");
    let resolved = mcp.call("resolve_citation", json!({"reference": "slate://K/docs/guide.md@1#L1"})).await;
    assert_eq!((&resolved["status"], &resolved["data"]), (&json!("verified"), &json!("one\n")));
    drop(server);
}

#[tokio::test]
async fn a_key_that_writes_has_tools_to_write() {
    let (server, acme) = knowledge().await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    let new = json!({"slate": "K", "path": "new/a.md", "content": "x", "metatags": {"a": 1, "b": null}});
    let written = mcp.call("put_file", new).await;
    assert_eq!((&written["version"], &written["null_metatags"]), (&json!(1), &json!(["b"])));
    let bytes = json!({"slate": "K", "path": "new/b.bin", "content_base64": "AAE="});
    assert_eq!(mcp.call("put_file", bytes).await["size"], 2);
    let tags = json!({"slate": "K", "path": "new/a.md", "metatags": {"a": null, "c": "d"}});
    assert_eq!(mcp.call("set_metatags", tags).await["metatags"], json!({"c": "d"}));
    let moved = mcp.call("move", json!({"slate": "K", "from": "new/a.md", "to": "newer/a.md"})).await;
    assert_eq!(moved["path"], "newer/a.md");
    let moved = mcp.call("move", json!({"slate": "K", "from": "newer/", "to": "newest"})).await;
    assert_eq!(moved["path"], "newest/");
    acme.get("/v1/slates/K/files/newest/a.md").await.expect(200);
    mcp.call("delete", json!({"slate": "K", "path": "newest/a.md"})).await;
    acme.get("/v1/slates/K/files/newest/a.md").await.problem(404, "not_found");
    let text = mcp.problem("delete", json!({"slate": "K", "path": "new/"})).await;
    assert!(text.contains("`recursive`"), "{text}");
    mcp.call("delete", json!({"slate": "K", "path": "new/", "recursive": true})).await;
    drop(server);
}

#[tokio::test]
async fn a_key_sees_the_tools_of_its_scopes_and_no_others() {
    let (server, _) = knowledge().await;
    let looks = ["list_slates", "browse", "describe"];
    let reads = [
        "list_slates",
        "browse",
        "read",
        "find",
        "describe",
        "search",
        "retrieve",
        "check_quote",
        "resolve_citation",
    ];
    let writes = ["put_file", "set_metatags", "move", "delete"];
    for (scope, tools) in
        [("read", &looks[..]), ("retrieve", &reads[..]), ("write", &writes[..]), ("admin", &[])]
    {
        let mcp = Mcp::open(&server.key("acme", json!({"scopes": [scope]})).await, "/mcp").await;
        assert_eq!(mcp.tools().await, tools, "{scope}");
        for tool in reads.iter().chain(&writes).filter(|tool| !tools.contains(tool)) {
            let error = mcp
                .fail("tools/call", json!({"name": tool, "arguments": {"slate": "K", "path": "core.md"}}))
                .await;
            assert_eq!(error["code"], -32602, "{scope} {tool}: {error}");
        }
    }
}

#[tokio::test]
async fn hints_tell_what_a_tool_does() {
    let (_server, acme) = knowledge().await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    for tool in mcp.ask("tools/list", json!({})).await["tools"].as_array().unwrap() {
        let (name, hints) = (tool["name"].as_str().unwrap(), &tool["annotations"]);
        let writes = ["put_file", "set_metatags", "move", "delete"].contains(&name);
        assert_eq!(hints["readOnlyHint"], !writes, "{name}");
        assert_eq!(hints["destructiveHint"], name == "delete", "{name}");
        jsonschema::validator_for(&tool["inputSchema"]).unwrap();
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        for (member, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name} {member}");
        }
    }
}

#[tokio::test]
async fn a_wrong_call_is_told_which_member_takes_what() {
    let (_server, acme) = knowledge().await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    for (tool, arguments, parts) in [
        ("browse", json!({}), &["`slate`", "The slate's name"][..]),
        ("browse", json!({"slate": 1}), &["/slate", "a string"]),
        ("browse", json!({"slate": "K", "limit": 0}), &["/limit", "1 to 1000"]),
        ("browse", json!({"slate": "K", "cursor": "?"}), &["/cursor", "next_cursor"]),
        ("browse", json!({"slate": "K", "folder": "../x"}), &["/folder"]),
        ("browse", json!({"slate": "None"}), &["list_slates"]),
        ("read", json!({"slate": "K", "path": "core.md", "line": 1}), &["/line", "unknown field"]),
        ("read", json!({"slate": "K", "path": "core.md", "lines": "5-1"}), &["/lines", "Lines, from 1"]),
        ("find", json!({"slate": "K"}), &["at least one of `metatag`"]),
        ("find", json!({"slate": "K", "metatag": {}}), &["/metatag"]),
        ("find", json!({"slate": "K", "where": {"tags": "x"}}), &["/where"]),
        ("describe", json!({"slate": "K", "values": 1000}), &["/values", "0 to 100"]),
        ("search", json!({"corpus": "nobody's"}), &["no such thing"]),
        ("search", json!({"corpus": "k", "goal": 1}), &["/goal"]),
        ("retrieve", json!({"target": 7}), &["/target"]),
        ("check_quote", json!({"reference": "x", "quote": "y", "session_id": "z"}), &["/session_id"]),
        ("resolve_citation", json!({"reference": "slate://K/core.md"}), &["/reference"]),
        ("put_file", json!({"slate": "K", "path": "a"}), &["/content"]),
        ("put_file", json!({"slate": "K", "path": "/a", "content": ""}), &["/path"]),
        ("put_file", json!({"slate": "K", "path": "a", "content": "", "metatags": {"": 1}}), &["/metatags"]),
        ("set_metatags", json!({"slate": "K", "path": "core.md", "metatags": []}), &["/metatags"]),
        ("move", json!({"slate": "K", "from": "core.md", "to": "data.json"}), &["another name"]),
        ("delete", json!({"slate": "K", "path": "none.md"}), &["no such thing"]),
    ] {
        let text = mcp.problem(tool, arguments.clone()).await;
        for part in parts {
            assert!(text.contains(part), "{tool} {arguments}: {text}");
        }
        assert!(text.contains("What to do: "), "{text}");
    }
    let read =
        mcp.ask("tools/call", json!({"name": "read", "arguments": {"slate": "K", "path": "none.md"}})).await;
    assert_eq!(
        (&read["isError"], &read["structuredContent"]["failure"]["reason"]),
        (&json!(true), &json!("not_found"))
    );
}

#[tokio::test]
async fn another_tenant_sees_nothing() {
    let (server, acme) = knowledge().await;
    let other = server.tenant("other").await;
    let bound = server.key("acme", json!({"scopes": ["read", "write", "retrieve"], "slates": ["L"]})).await;
    acme.put("/v1/slates/L").await.expect(201);
    for (caller, slates) in [(&other, json!([])), (&bound, json!(["L"]))] {
        let mcp = Mcp::open(caller, "/mcp").await;
        let seen = mcp.call("list_slates", json!({})).await;
        let names: Vec<_> =
            seen["items"].as_array().unwrap().iter().map(|slate| slate["name"].clone()).collect();
        assert_eq!(json!(names), slates);
        for (tool, arguments) in [
            ("browse", json!({"slate": "K"})),
            ("find", json!({"slate": "K", "glob": "*"})),
            ("describe", json!({"slate": "K"})),
            ("resolve_citation", json!({"reference": "slate://K/core.md@1"})),
            ("check_quote", json!({"reference": "slate://K/core.md@1", "quote": "Core"})),
            ("put_file", json!({"slate": "K", "path": "core.md", "content": "x"})),
            ("set_metatags", json!({"slate": "K", "path": "core.md", "metatags": {}})),
            ("move", json!({"slate": "K", "from": "core.md", "to": "x.md"})),
            ("delete", json!({"slate": "K", "path": "core.md"})),
        ] {
            let text = mcp.problem(tool, arguments).await;
            assert!(text.contains("no such thing"), "{tool}: {text}");
        }
        for (tool, arguments) in [
            ("read", json!({"slate": "K", "path": "core.md"})),
            ("retrieve", json!({"target": "slate://K/core.md"})),
        ] {
            let result = mcp.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
            assert_eq!(result["isError"], true);
            assert!(!result.to_string().contains("release branch"), "{result}");
        }
        assert_eq!(mcp.ask("resources/list", json!({})).await["resources"], json!([]));
        let error = mcp.fail("resources/read", json!({"uri": "slate://K/core.md"})).await;
        assert_eq!(error["code"], -32002, "{error}");
        mcp.fail("resources/subscribe", json!({"uri": "slate://K/core.md"})).await;
        mcp.fail("prompts/get", json!({"name": "research", "arguments": {"slate": "K", "question": "?"}}))
            .await;
        let completed = mcp
            .ask(
                "completion/complete",
                json!({"ref": {"type": "ref/resource", "uri": "slate://{slate}/{+path}"},
                "argument": {"name": "path", "value": ""}, "context": {"arguments": {"slate": "K"}}}),
            )
            .await;
        assert_eq!(completed["completion"]["values"], json!([]));
    }
    let _: &Server = &server;
}
