//! Who may connect, and what is sent wrongly.

use diesel::RunQueryDsl;
use serde_json::json;

use super::client::{Mcp, answer, initialize, knowledge, post};
use crate::support::Server;

#[tokio::test]
async fn a_key_is_needed() {
    let (server, acme) = knowledge().await;
    let reply = post(&acme.anonymous(), "/mcp", initialize()).await;
    assert!(reply.header("www-authenticate").starts_with("Bearer"));
    reply.problem(401, "unauthorized");
    post(&acme.with_token("slb_1_1_x"), "/mcp", initialize()).await.problem(401, "unauthorized");
    post(&server.operator, "/mcp", initialize()).await.problem(403, "forbidden");
    acme.anonymous().get("/mcp/none").await.problem(401, "unauthorized");
    acme.get("/mcp/none").await.problem(404, "not_found");
}

#[tokio::test]
async fn an_mcp_session_of_another_key_is_unknown() {
    let (server, acme) = knowledge().await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    let (running, beside) = server.beside(&acme).await;
    let list = || json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for key in
        [server.key("acme", json!({"scopes": ["read", "retrieve"]})).await, server.tenant("other").await]
    {
        for caller in [key.clone(), beside.with_token(key.token.clone().unwrap())] {
            let theirs = mcp.by(&caller);
            theirs.send(list()).await.problem(404, "not_found");
            theirs
                .send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
                .await
                .problem(404, "not_found");
            let header = |request: crate::support::Request| {
                request.header("accept", "text/event-stream").header("mcp-session-id", &mcp.session)
            };
            header(caller.get("/mcp")).await.problem(404, "not_found");
            header(caller.delete("/mcp")).await.problem(404, "not_found");
        }
    }
    assert!(!mcp.tools().await.is_empty());
    // Its owner ends it, everywhere.
    acme.delete("/mcp").header("mcp-session-id", &mcp.session).await.expect(202);
    mcp.send(list()).await.problem(404, "not_found");
    mcp.by(&beside).send(list()).await.problem(404, "not_found");
    running.kill();
}

#[tokio::test]
async fn an_mcp_session_ends_at_its_deadline_or_where_a_tenant_has_too_many() {
    let (server, acme) = knowledge().await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    let (running, beside) = server.beside(&acme).await;
    let mut superuser = server.superuser();
    let mut run = |sql: &str| diesel::sql_query(sql).execute(&mut superuser).unwrap();
    run("update mcp_sessions set expires_at = now() - interval '1 second'");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    mcp.by(&beside).send(list).await.problem(404, "not_found");
    run(
        "insert into mcp_sessions select tenant_id, gen_random_uuid(), key_id, null, null, now(), now() + interval '1 day' \
         from mcp_sessions, generate_series(1, 1000)",
    );
    let (other, first) = (server.tenant("other").await, Mcp::open(&acme, "/mcp").await);
    let theirs = Mcp::open(&other, "/mcp").await;
    assert!(!first.tools().await.is_empty());
    // With more than so many, the oldest is closed, on this server at once.
    run("update mcp_sessions set expires_at = now() + interval '2 days' where initialize is null");
    let second = Mcp::open(&acme, "/mcp").await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    first.send(list).await.problem(404, "not_found");
    assert!(!second.tools().await.is_empty() && !theirs.tools().await.is_empty());
    running.kill();
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_never_a_fault() {
    let (_server, acme) = knowledge().await;
    let mcp = Mcp::open(&acme, "/mcp").await;
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
        "\u{0}",
    ] {
        for session in [None, Some(&mcp.session)] {
            let mut request = acme.post("/mcp").header("accept", "application/json, text/event-stream");
            if let Some(session) = session {
                request = request.header("mcp-session-id", session);
            }
            let reply = request.body("application/json", body).await;
            assert!((400..500).contains(&reply.status), "{body}: {reply:?}");
        }
    }
    let large = format!("{{\"x\": \"{}\"}}", "x".repeat(17 << 20));
    acme.post("/mcp").body("application/json", large).await.problem(413, "body_too_large");
    acme.post("/mcp").header("accept", "text/html").json(initialize()).await.expect(406);
    acme.post("/mcp")
        .header("accept", "application/json, text/event-stream")
        .body("text/plain", "{}")
        .await
        .expect(415);
    acme.put("/mcp").await.expect(405);
    for id in ["", "x", "01890a5d-ac96-774b-bcce-b302099a8057"] {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        post(&acme, "/mcp", list).header("mcp-session-id", id).await.problem(404, "not_found");
    }
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 1})),
        ("tools/call", json!({"name": "none"})),
        ("tools/call", json!({"name": "browse", "arguments": []})),
        ("tools/list", json!({"cursor": "x"})),
        ("resources/read", json!({})),
        ("completion/complete", json!({})),
        ("prompts/get", json!({})),
        ("no/such", json!({})),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
        let reply = mcp.send(message).await;
        assert!(reply.status < 500, "{method} {params}: {reply:?}");
        if reply.status == 200 {
            assert!(answer(&reply)["error"]["code"].is_i64(), "{method} {params}: {reply:?}");
        }
    }
    assert!(!mcp.tools().await.is_empty());
}

#[tokio::test]
async fn another_host_is_refused_where_only_this_machine_is_served() {
    let (server, acme) = knowledge().await;
    let reply = post(&acme, "/mcp", initialize()).header("host", "evil.example").await;
    reply.problem(403, "forbidden");
    let any = Server::start_with(|config| config.mcp_hosts = Some(vec!["kb.example".into()])).await;
    let beta = any.tenant("beta").await;
    post(&beta, "/mcp", initialize()).header("host", "kb.example:8080").await.expect(200);
    post(&beta, "/mcp", initialize()).await.problem(403, "forbidden");
    drop(server);
}

#[tokio::test]
async fn the_newest_protocol_needs_no_mcp_session() {
    let (_server, acme) = knowledge().await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "list_slates", "arguments": {}, "_meta": meta}});
    let reply = post(&acme, "/mcp", call)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "list_slates")
        .await
        .expect(200);
    assert_eq!(answer(&reply)["result"]["structuredContent"]["items"][0]["name"], "K");
    assert_eq!(reply.header("mcp-session-id"), "");
}
