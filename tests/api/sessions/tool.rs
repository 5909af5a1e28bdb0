//! A session's `retrieve` as a tool definition, and the same in its prompt.

use serde_json::json;

use crate::support::{Caller, Server};

async fn world() -> (Server, Caller) {
    let (server, acme) = Server::with_slate().await;
    let files = json!({
        "docs/a.md": {"content": "a", "metatags": {"category": "security", "rank": 3}},
        "docs/deep/b.md": {"content": "b", "metatags": {"category": "billing"}},
        "other/c.md": {"content": "c", "metatags": {"elsewhere": true}},
    });
    server.fill(&acme, "K", files).await;
    (server, acme)
}

async fn open(caller: &Caller, recursive: bool, instructions: bool) -> String {
    let declaration = json!({"to": {"slate": "K", "folder": "docs"}, "as": "Docs", "maxRounds": 4, "recursive": recursive,
        "instructions": instructions, "requestMatch": {"type": "object", "properties": {"metatag": {}, "glob": {}}}});
    let body = json!({"retrieve": declaration, "fields": {"Question": "Why?"}});
    let opened = caller.post("/v1/sessions").json(body).await.ok(201);
    assert_eq!(opened["retrieve"]["instructions"], json!(instructions));
    assert_eq!(opened["retrieve"].as_object().unwrap().len(), 7, "{opened}");
    format!("/v1/sessions/{}", opened["session_id"].as_str().unwrap())
}

#[tokio::test]
async fn each_format_has_the_schema_and_a_text_of_the_folder() {
    let (_server, acme) = world().await;
    let session = open(&acme, true, false).await;
    let tool = async |format: &str| acme.get(&format!("{session}/tool?format={format}")).await;
    let text = tool("text").await.expect(200);
    assert!(text.header("content-type").starts_with("text/plain"));
    let text = text.text();
    assert!(text.len() <= 2048, "{text}");
    for told in [
        "\"docs\"",
        "\"K\"",
        "- metatag",
        "- glob",
        "4 rounds",
        "\"category\" (string, 2 files): ",
        "\"rank\" (number, 1 file)",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains("elsewhere") && !text.contains("- files"), "{text}");
    let schema = json!({"type": "object", "properties": {"metatag": {}, "glob": {}}});
    let function = json!({"name": "retrieve", "description": text, "parameters": schema});
    assert_eq!(tool("openai").await.ok(200), json!({"type": "function", "function": function}));
    assert_eq!(acme.get(&format!("{session}/tool")).await.ok(200)["function"], function);
    let anthropic = tool("anthropic").await.ok(200);
    assert_eq!(anthropic, json!({"name": "retrieve", "description": text, "input_schema": schema}));
    let mcp = tool("mcp").await.ok(200);
    assert_eq!((&mcp["description"], &mcp["inputSchema"]), (&json!(text), &schema));
    assert_eq!(mcp["annotations"]["readOnlyHint"], true);
    tool("xml").await.invalid_at("/format");
    let direct = open(&acme, false, false).await;
    let text = acme.get(&format!("{direct}/tool?format=text")).await.expect(200);
    assert!(text.text().contains("\"category\" (string, 1 file): \"security\""), "{}", text.text());
    // A folder that is gone has no tags, and the tool stays.
    acme.delete("/v1/slates/K").await.expect(204);
    let text = acme.get(&format!("{direct}/tool?format=text")).await.expect(200);
    assert!(text.text().contains("No file has a tag."), "{}", text.text());
}

#[tokio::test]
async fn the_prompt_tells_the_same_where_that_is_declared() {
    let (_server, acme) = world().await;
    let plain = open(&acme, true, false).await;
    let plain = acme.get(&format!("{plain}/prompt")).await.ok(200)["prompt"].as_str().unwrap().to_owned();
    assert!(plain.starts_with("## Question\n"), "{plain}");
    let session = open(&acme, true, true).await;
    let tool = acme.get(&format!("{session}/tool?format=text")).await.expect(200);
    let told = acme.get(&format!("{session}/prompt")).await.ok(200);
    assert_eq!(told["prompt"], format!("## Instructions\n{}\n\n{plain}", tool.text()));
    // As it was when the session was opened, in every prompt.
    let tags = json!({"new": true});
    acme.patch("/v1/slates/K/metatags/docs/a.md").json(tags).await.expect(200);
    assert_eq!(acme.get(&format!("{session}/prompt")).await.ok(200), told);
    assert_eq!(acme.get(&format!("{session}/tool?format=text")).await.expect(200).text(), tool.text());
}
