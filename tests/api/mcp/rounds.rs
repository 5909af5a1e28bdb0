//! A session as an MCP server.

use serde_json::{Value, json};

use super::client::{Mcp, initialize, knowledge, post};
use crate::support::Caller;

const EXHAUSTED: &str = "Retrieval budget exhausted. Produce your final answer now.";

async fn session(caller: &Caller, rounds: u32) -> String {
    let schema = json!({"type": "object", "properties": {
        "files": {"type": "array", "items": {"type": "string"}}, "glob": {"type": "string"}}, "additionalProperties": false});
    let declaration = json!({"to": {"slate": "K", "folder": ""}, "as": "Docs", "maxRounds": rounds, "requestMatch": schema});
    let opened = caller.post("/v1/sessions").json(json!({"retrieve": declaration})).await.ok(201);
    opened["session_id"].as_str().unwrap().to_owned()
}

async fn state(caller: &Caller, id: &str) -> Value {
    caller.get(&format!("/v1/sessions/{id}")).await.ok(200)
}

#[tokio::test]
async fn calls_are_rounds_to_the_forced_end() {
    let (_server, acme) = knowledge().await;
    let id = session(&acme, 2).await;
    let mcp = Mcp::open(&acme, &format!("/mcp/sessions/{id}")).await;
    let mut told = mcp.listen().await;
    assert_eq!(mcp.tools().await, ["retrieve", "answer"]);
    let listed = mcp.ask("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["inputSchema"]["properties"]["glob"], json!({"type": "string"}));
    assert!(listed["tools"][0]["description"].as_str().unwrap().contains("slatebase/round"));

    let first = mcp.call("retrieve", json!({"files": ["core.md"]})).await;
    assert_eq!((&first["round"], &first["status"]), (&json!(1), &json!("open")));
    assert_eq!(first["items"][0]["status"], "fetched");
    acme.get(&format!("/v1/provenance/{}", first["items"][0]["provenance_id"].as_str().unwrap()))
        .await
        .expect(200);

    // A call of the wrong shape is no round, and no answer.
    for wrong in [json!({"files": "core.md"}), json!({}), json!({"folders": []})] {
        let text = mcp.problem("retrieve", wrong).await;
        assert!(text.contains("What to do: "), "{text}");
    }
    assert!(mcp.problem("retrieve", json!({"files": "x"})).await.contains("/files"));
    assert_eq!(state(&acme, &id).await["round"], 1);

    let result = mcp
        .ask("tools/call", json!({"name": "retrieve", "arguments": {"files": ["core.md"], "glob": "d*"}}))
        .await;
    let second = &result["structuredContent"];
    assert_eq!((&second["round"], &second["status"]), (&json!(2), &json!("exhausted")));
    assert_eq!(second["items"][0]["status"], "already_in_context");
    assert_eq!(result["content"][1]["text"], EXHAUSTED);
    told.until("notifications/tools/list_changed").await;
    assert_eq!(mcp.tools().await, ["answer"]);

    // One more is no output of the model.
    assert_eq!(mcp.problem("retrieve", json!({"files": ["data.json"]})).await, EXHAUSTED);
    assert_eq!(state(&acme, &id).await["status"], "exhausted");

    let ended = mcp.call("answer", json!({"answer": {"files": ["is no request here"]}})).await;
    assert_eq!((&ended["status"], &ended["forced"]), (&json!("answered"), &json!(true)));
    assert_eq!(state(&acme, &id).await["answer"], json!({"files": ["is no request here"]}));
    assert_eq!(mcp.tools().await, [""; 0]);
    let text = mcp.problem("retrieve", json!({"files": ["core.md"]})).await;
    assert!(text.contains("finished"), "{text}");
    let verified = acme.post(&format!("/v1/sessions/{id}/verify")).await.ok(200);
    assert_eq!((&verified["valid"], &verified["sealed"]), (&json!(true), &json!(true)), "{verified}");
}

#[tokio::test]
async fn an_answer_that_looks_like_a_request_is_an_answer() {
    let (_server, acme) = knowledge().await;
    let id = session(&acme, 3).await;
    let mcp = Mcp::open(&acme, &format!("/mcp/sessions/{id}")).await;
    let text = mcp.problem("answer", json!({"text": "x"})).await;
    assert!(text.contains("/text") || text.contains("`answer`"), "{text}");
    let ended = mcp.call("answer", json!({"answer": "{\"files\": [\"core.md\"]}"})).await;
    assert_eq!((&ended["decision"], &ended["reason"]), (&json!("answer"), &json!("said")));
    assert_eq!(state(&acme, &id).await["status"], "answered");
}

#[tokio::test]
async fn a_call_that_is_sent_again_is_the_same_round_also_on_another_server() {
    let (server, acme) = knowledge().await;
    let id = session(&acme, 3).await;
    let mcp = Mcp::open(&acme, &format!("/mcp/sessions/{id}")).await;
    let call = |files: &str, meta: Value| json!({"name": "retrieve", "arguments": {"files": [files]}, "_meta": meta});
    let first = mcp.request(7, "tools/call", call("core.md", json!({}))).await;
    assert_eq!(first["result"]["structuredContent"]["round"], 1);
    assert_eq!(mcp.request(7, "tools/call", call("core.md", json!({}))).await, first);

    // The server dies; the client goes on in the same MCP session, which another server takes up.
    let (running, beside) = server.beside(&acme).await;
    let there = mcp.by(&beside);
    assert_eq!(there.request(7, "tools/call", call("core.md", json!({}))).await, first);
    assert_eq!(state(&acme, &id).await["round"], 1);
    let other = there.request(7, "tools/call", call("data.json", json!({}))).await;
    assert_eq!(other["result"]["isError"], true);

    // In another MCP session, the number says which round it is.
    let anew = Mcp::open(&beside, &mcp.path).await;
    let numbered = anew.request(1, "tools/call", call("core.md", json!({"slatebase/round": 1}))).await;
    assert_eq!(numbered["result"]["structuredContent"], first["result"]["structuredContent"]);
    let next = anew.request(2, "tools/call", call("data.json", json!({"slatebase/round": 2}))).await;
    assert_eq!(next["result"]["structuredContent"]["round"], 2);
    for (round, files) in
        [(json!(1), "data.json"), (json!(9), "core.md"), (json!("x"), "core.md"), (json!(0), "core.md")]
    {
        let refused = anew.request(3, "tools/call", call(files, json!({"slatebase/round": round}))).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
    }
    assert_eq!(state(&acme, &id).await["round"], 2);
    let answer = json!({"name": "answer", "arguments": {"answer": "done"}});
    let ended = anew.request(9, "tools/call", answer.clone()).await;
    assert_eq!(anew.request(9, "tools/call", answer).await, ended);
    running.kill();
}

#[tokio::test]
async fn tools_follow_a_session_that_is_moved_by_another_door() {
    let (server, acme) = knowledge().await;
    let id = session(&acme, 1).await;
    let (running, beside) = server.beside(&acme).await;
    let mcp = Mcp::open(&beside, &format!("/mcp/sessions/{id}")).await;
    let mut told = mcp.listen().await;
    assert_eq!(mcp.tools().await, ["retrieve", "answer"]);
    acme.post(&format!("/v1/sessions/{id}/rounds")).json(json!({"output": {"glob": "*"}})).await.expect(200);
    told.until("notifications/tools/list_changed").await;
    assert_eq!(mcp.tools().await, ["answer"]);
    acme.post(&format!("/v1/sessions/{id}/cancel")).await.expect(200);
    told.until("notifications/tools/list_changed").await;
    assert_eq!(mcp.tools().await, [""; 0]);
    running.kill();
}

#[tokio::test]
async fn a_session_is_its_tenants_alone() {
    let (server, acme) = knowledge().await;
    let id = session(&acme, 2).await;
    let path = format!("/mcp/sessions/{id}");
    let other = server.tenant("other").await;
    post(&other, &path, initialize()).await.problem(404, "not_found");
    let bound = server.key("acme", json!({"scopes": ["retrieve"], "slates": ["L"]})).await;
    post(&bound, &path, initialize()).await.problem(404, "not_found");
    let reader = server.key("acme", json!({"scopes": ["read"]})).await;
    post(&reader, &path, initialize()).await.problem(403, "forbidden");
    post(&acme, "/mcp/sessions/none", initialize()).await.problem(404, "not_found");
    post(&acme, "/mcp/sessions/01890a5d-ac96-774b-bcce-b302099a8057", initialize())
        .await
        .problem(404, "not_found");
    // An MCP session of one address is none at another.
    let (here, slates) = (Mcp::open(&acme, &path).await, Mcp::open(&acme, "/mcp").await);
    for (session, path) in [(&here, "/mcp"), (&slates, &path[..])] {
        let mut moved = session.by(&acme);
        moved.path = path.to_owned();
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        moved.send(list).await.problem(404, "not_found");
    }
}
