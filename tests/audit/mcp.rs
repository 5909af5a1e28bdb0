//! What the Model Context Protocol asks of the database beside what its tools' operations do.

use serde_json::{Value, json};

use crate::player::Player;

pub async fn all(player: &mut Player<'_>) {
    let version = "2025-06-18";
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "audit", "version": "1"}});
    let opened = send(player, "", "initialize", params).await;
    let tools = json!({"name": "list_slates", "arguments": {}});
    send(player, &opened, "tools/call", tools).await;
    let uri = format!("slate://Docs/{}", player.places.files(1).remove(0));
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/read", json!({"uri": uri})),
        ("resources/subscribe", json!({"uri": uri})),
        ("prompts/get", json!({"name": "research", "arguments": {"slate": "Docs", "question": "?"}})),
    ] {
        send(player, &opened, method, params).await;
    }
    // Another server knows the MCP session by its row.
    let (running, beside) = player.server.beside(&player.caller).await;
    let here = std::mem::replace(&mut player.caller, beside);
    send(player, &opened, "tools/list", json!({})).await;
    player.caller.delete("/mcp").header("mcp-session-id", &opened).await.expect(202);
    player.recorder.look("mcp", "DELETE");
    player.caller = here;
    running.kill();
}

/// Sends a request, in the MCP session that is named; gives the one that the answer names.
async fn send(player: &mut Player<'_>, session: &str, method: &str, params: Value) -> String {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut request = player.caller.post("/mcp").header("accept", "application/json, text/event-stream");
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    let reply = request.json(message).await.expect(200);
    player.recorder.look("mcp", method);
    reply.header("mcp-session-id").to_owned()
}
