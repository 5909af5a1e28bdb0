//! Resources, their completion and subscriptions, and the prompt.

use serde_json::{Value, json};

use super::client::{Mcp, knowledge};
use crate::support::Caller;

#[tokio::test]
async fn files_are_resources_page_by_page() {
    let (server, acme) = knowledge().await;
    let many: serde_json::Map<String, Value> =
        (0..150).map(|n| (format!("f{n:03} ü#.txt"), json!(format!("file {n}")))).collect();
    server.fill(&acme, "L", many.into()).await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    let (mut uris, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = mcp.ask("resources/list", params).await;
        let items = page["resources"].as_array().unwrap();
        assert!(items.len() <= 100);
        uris.extend(items.iter().map(|item| item["uri"].as_str().unwrap().to_owned()));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(uris.len(), 154);
    assert_eq!(uris[0], "slate://K/core.md");
    assert_eq!(uris[4], "slate://L/f000%20ü%23.txt");
    let read = mcp.ask("resources/read", json!({"uri": uris[4]})).await;
    assert_eq!(read["contents"][0]["text"], "file 0");
    mcp.fail("resources/list", json!({"cursor": "?"})).await;
    assert_eq!(
        mcp.ask("resources/templates/list", json!({})).await["resourceTemplates"][0]["uriTemplate"],
        "slate://{slate}/{+path}"
    );
}

#[tokio::test]
async fn a_resource_is_exactly_the_files_bytes_on_record() {
    let (_server, acme) = knowledge().await;
    acme.put("/v1/slates/K/files/b.bin").bytes(vec![0, 1]).await.expect(201);
    let mcp = Mcp::open(&acme, "/mcp").await;
    let read = mcp.ask("resources/read", json!({"uri": "slate://K/data.json"})).await;
    let contents = &read["contents"][0];
    assert_eq!(contents["text"], "{\"items\": [1, 2]}");
    assert_eq!(contents["mimeType"], "application/json");
    assert_eq!(contents["_meta"]["slatebase/citation"], "slate://K/data.json@1");
    let record = contents["_meta"]["slatebase/provenance_id"].as_str().unwrap();
    acme.get(&format!("/v1/provenance/{record}")).await.expect(200);
    let lines = mcp.ask("resources/read", json!({"uri": "slate://K/docs/guide.md@1#L2"})).await;
    assert_eq!(lines["contents"][0]["text"], "two\n");
    let bytes = mcp.ask("resources/read", json!({"uri": "slate://K/b.bin"})).await;
    assert_eq!(bytes["contents"][0]["blob"], "AAE=");
    for uri in ["slate://K/none.md", "slate://K/core.md@9", "slate://None/core.md"] {
        assert_eq!(mcp.fail("resources/read", json!({"uri": uri})).await["code"], -32002, "{uri}");
    }
    for uri in ["", "http://x/", "slate://K", "slate://K/../x", "slate://K/a%", "slate://K/%00"] {
        assert_eq!(mcp.fail("resources/read", json!({"uri": uri})).await["code"], -32602, "{uri}");
    }
}

async fn completed(mcp: &Mcp, of: Value, name: &str, value: &str, slate: Option<&str>) -> Value {
    let context = slate.map_or(json!({}), |slate| json!({"arguments": {"slate": slate}}));
    let argument = json!({"name": name, "value": value});
    mcp.ask("completion/complete", json!({"ref": of, "argument": argument, "context": context})).await["completion"]["values"].clone()
}

#[tokio::test]
async fn names_are_completed() {
    let (_server, acme) = knowledge().await;
    acme.put("/v1/slates/Klm").await.expect(201);
    let mcp = Mcp::open(&acme, "/mcp").await;
    let template = || json!({"type": "ref/resource", "uri": "slate://{slate}/{+path}"});
    let prompt = || json!({"type": "ref/prompt", "name": "research"});
    assert_eq!(completed(&mcp, template(), "slate", "K", None).await, json!(["K", "Klm"]));
    assert_eq!(completed(&mcp, template(), "path", "d", Some("K")).await, json!(["data.json", "docs/"]));
    assert_eq!(
        completed(&mcp, template(), "path", "docs/", Some("K")).await,
        json!(["docs/faq.md", "docs/guide.md"])
    );
    assert_eq!(completed(&mcp, template(), "path", "docs/g", Some("K")).await, json!(["docs/guide.md"]));
    assert_eq!(completed(&mcp, prompt(), "folder", "", Some("K")).await, json!(["docs/"]));
    assert_eq!(completed(&mcp, template(), "path", "../", Some("K")).await, json!([]));
    assert_eq!(completed(&mcp, template(), "path", "", None).await, json!([]));
    mcp.fail(
        "completion/complete",
        json!({"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "a", "value": ""}}),
    )
    .await;
}

#[tokio::test]
async fn a_subscriber_is_told_of_a_change_on_another_server() {
    let (server, acme) = knowledge().await;
    let (running, beside) = server.beside(&acme).await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    let mut told = mcp.listen().await;
    for uri in ["slate://K/core.md", "slate://K/to-come.md", "slate://K/docs/faq.md"] {
        mcp.ask("resources/subscribe", json!({"uri": uri})).await;
    }
    mcp.ask("resources/unsubscribe", json!({"uri": "slate://K/docs/faq.md"})).await;
    let write = async |caller: &Caller, path: &str| {
        caller.put(&format!("/v1/slates/K/files/{path}")).bytes("new").await;
    };
    write(&beside, "docs/faq.md").await;
    write(&beside, "core.md").await;
    let first = told.until("notifications/resources/updated").await;
    assert_eq!(first["params"]["uri"], "slate://K/core.md");
    write(&beside, "to-come.md").await;
    let second = told.until("notifications/resources/updated").await;
    assert_eq!(second["params"]["uri"], "slate://K/to-come.md");
    beside.delete("/v1/slates/K/files/core.md").await.expect(204);
    let third = told.until("notifications/resources/updated").await;
    assert_eq!(third["params"]["uri"], "slate://K/core.md");
    running.kill();
}

#[tokio::test]
async fn the_prompt_tells_what_the_folder_holds() {
    let (server, acme) = knowledge().await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    let listed = mcp.ask("prompts/list", json!({})).await;
    assert_eq!(listed["prompts"][0]["name"], "research");
    let arguments = json!({"slate": "K", "question": "When is the branch cut?"});
    let made = mcp.ask("prompts/get", json!({"name": "research", "arguments": arguments})).await;
    let text = made["messages"][0]["content"]["text"].as_str().unwrap();
    for part in ["When is the branch cut?", "core.md", "docs/", "category: guide, security", "check_quote"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for arguments in [
        json!({"slate": "K"}),
        json!({"slate": "K", "question": "?", "more": "x"}),
        json!({"slate": "K", "question": "?", "folder": "../x"}),
    ] {
        let error = mcp.fail("prompts/get", json!({"name": "research", "arguments": arguments})).await;
        assert_eq!(error["code"], -32602, "{error}");
    }
    mcp.fail("prompts/get", json!({"name": "none"})).await;
    let reader = Mcp::open(&server.key("acme", json!({"scopes": ["read"]})).await, "/mcp").await;
    assert_eq!(reader.ask("prompts/list", json!({})).await["prompts"], json!([]));
    reader.fail("resources/read", json!({"uri": "slate://K/core.md"})).await;
}
