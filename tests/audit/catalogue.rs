//! Every operation on sessions, runs, corpora, routes, tools, sources, secrets, citations and records.

use serde_json::{Value, json};

use crate::player::{Body, Player, text};
use crate::support::Host;
use crate::support::model::{Model, call, message, text as says};

fn declaration(folder: &str, rounds: u32) -> Value {
    let properties = json!({"files": {"type": "array"}, "subfolders": {"type": "array"}, "glob": {"type": "string"},
        "metatag": {"type": "object"}, "where": {"type": "object"}});
    json!({"to": {"slate": "Docs", "folder": folder}, "as": "Docs", "maxRounds": rounds, "recursive": true,
        "requestMatch": {"type": "object", "properties": properties}})
}

async fn open(player: &mut Player<'_>, body: Value) -> String {
    let headers = [("idempotency-key", "open")];
    let opened = player.call_with("create_session", &[], body, &headers[..0]).await;
    text(&opened.json(), "session_id")
}

pub async fn sessions(player: &mut Player<'_>) {
    let leaf = player.places.leaf.clone();
    let names: Vec<String> =
        player.places.files(50).iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect();
    let session =
        open(player, json!({"retrieve": declaration(&leaf, 5), "fields": {"Question": "What?"}})).await;
    let id = &session[..];
    player.get("get_session", &[id]).await;
    player.get("get_prompt", &[id]).await;
    player.get("get_session_tool", &[id, "?format=text"]).await;
    let first = json!({"files": [&names[0], "nope.md"], "subfolders": ["."], "glob": "f0000*"});
    let second = json!({"metatag": {"name": "category", "contains": "c1"}, "files": names});
    let third = json!({"where": {"tag": "rank", "lt": 1000}});
    for output in [first, second] {
        player.call("submit_round", &[id], json!({"output": output})).await;
    }
    player.call("forget_context", &[id], json!({"paths": [&names[0]]})).await;
    player.call_with("submit_round", &[id], json!({"output": third}), &[("idempotency-key", "third")]).await;
    player.call("forget_context", &[id], json!({})).await;
    // Files that are in context have changed, moved and gone meanwhile.
    let path = |name: &str| format!("{leaf}/{name}");
    player
        .call("put_file", &["Docs", &path(&names[5])], Body::Bytes("text/markdown", b"changed".to_vec()))
        .await;
    player.call("submit_round", &[id], json!({"output": {"files": [&names[5], &names[6]]}})).await;
    player.call("submit_round", &[id], json!({"output": {"files": [&names[5], &names[7]]}})).await;
    player.get("get_prompt", &[id]).await;
    player.get("list_rounds", &[id, "?limit=10"]).await;
    let page = player.get("list_session_provenance", &[id, "?limit=20"]).await.json();
    let cursor = text(&page, "next_cursor");
    if !cursor.is_empty() {
        player.get("list_session_provenance", &[id, &format!("?limit=20&cursor={cursor}")]).await;
    }
    let record = text(&page["items"][0], "provenance_id");
    player.get("get_provenance", &[&record]).await;
    player.get("get_provenance", &[record.split('.').next().unwrap(), "?limit=10"]).await;
    player.call("submit_round", &[id], json!({"output": "It is 42."})).await;
    player.get("verify_session", &[id]).await;
    player.get("watch_session", &[id]).await;
    for query in ["?limit=10", "?limit=100&status=answered", "?status=open"] {
        let page = player.get("list_sessions", &[query]).await.json();
        let cursor = text(&page, "next_cursor");
        if !cursor.is_empty() {
            player.get("list_sessions", &[&format!("{query}&cursor={cursor}")]).await;
        }
    }
    player.get("delete_session", &[id]).await;
    let other = open(player, json!({"retrieve": declaration("", 2)})).await;
    player.call("submit_round", &[&other], json!({"output": {"glob": "*"}})).await;
    player.call("cancel_session", &[&other], Body::None).await;
}

pub async fn citations(player: &mut Player<'_>) {
    let file = player.places.files(8).remove(7);
    let reference = format!("slate://Docs/{file}@1");
    player.call("retrieve_target", &[], json!({"target": format!("slate://Docs/{file}")})).await;
    player.call("retrieve_target", &[], json!({"target": file, "constraints": {"lines": "1-2"}})).await;
    let named = json!({"target": format!("slate://Docs/{file}"), "constraints": {"version": "2.0"}});
    player.call("retrieve_target", &[], named).await;
    player.call("retrieve_target", &[], json!({"target": "slate://Docs/nowhere/f000001.md"})).await;
    player.call("resolve_citation", &[], json!({"reference": format!("{reference}#L1-2")})).await;
    player.call("check_citation", &[], json!({"reference": reference, "quote": "what is common"})).await;
    player
        .call("check_citation", &[], json!({"reference": reference, "quote": "what stands nowhere at all"}))
        .await;
    let leaf = player.places.leaf.clone();
    let session = open(player, json!({"retrieve": declaration(&leaf, 5)})).await;
    player.call("submit_round", &[&session], json!({"output": {"glob": "f0*"}})).await;
    let quote = json!({"reference": reference, "quote": "Some words of number", "session_id": session});
    player.call("check_citation", &[], quote).await;
    let quote =
        json!({"reference": reference, "quote": "stands in no file of the session", "session_id": session});
    player.call("check_citation", &[], quote).await;
}

pub async fn corpora(player: &mut Player<'_>) {
    let (top, corpus) = (player.places.top.clone(), player.places.corpus.clone());
    player.get("list_corpora", &["?limit=100"]).await;
    let row = |folder: &str, status: &str| json!({"url": format!("slate:Docs/{folder}"), "status": status});
    player.call("put_corpus", &["c1"], row(&corpus, "draft")).await;
    player.call("put_corpus", &["c1"], row(&corpus, "published")).await;
    player.get("get_corpus", &["c1"]).await;
    for goal in ["common words", "title 21", "nothing that is there", ""] {
        player.call("search_collection", &[], json!({"collection": "c1", "goal": {"q": goal}})).await;
    }
    player.call("search_gateway", &["any"], json!({"collection": "c1", "goal": "title"})).await;
    player.call("search_corpus", &["c1"], json!({"goal": "words of number"})).await;
    // Files of the corpus change, come, move and go.
    let within = super::scenario::bulk(&corpus, 30);
    player.call("post_files", &["Docs"], Body::Bytes("application/x-ndjson", within)).await;
    player
        .call("patch_file", &["Docs", &format!("{corpus}/x0001.md")], json!({"path": "out/of/it.md"}))
        .await;
    player.get("delete_file", &["Docs", &format!("{corpus}/x0002.md")]).await;
    player.call("put_folder", &["Docs", &corpus], json!({"sensitive": true})).await;
    player.call("put_folder", &["Docs", &corpus], json!({"sensitive": false})).await;
    player.call("put_slate", &["Docs"], json!({"language": "english"})).await;
    player.call("move_folder", &["Docs", &corpus], json!({"path": "away/corpus"})).await;
    player.call("move_folder", &["Docs", "away/corpus"], json!({"path": corpus})).await;
    // The slate has many other files.
    for (id, folder) in [("c2", &corpus), ("c3", &top)] {
        if folder == "all" {
            continue;
        }
        player.call("put_corpus", &[id], row(folder, "published")).await;
    }
    player.call("put_corpus", &["c4"], row("nowhere/yet", "published")).await;
    player.get("delete_corpus", &["c4"]).await;
}

pub async fn routes(player: &mut Player<'_>) {
    let host = Host::start(|_| Some((200, "{}".to_owned()))).await;
    for kind in ["list_routes", "list_capabilities"] {
        player.get(kind, &["?limit=100"]).await;
    }
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let capability = json!({"display_name": "Nothing", "status": "published", "input_schema": schema,
        "output_schema": {"type": "object"}, "invoke": {"method": "POST", "url": host.url("/nothing")}});
    player.call("put_capability", &["nothing", "1"], capability).await;
    player.get("get_capability", &["nothing", "1"]).await;
    player.get("find_capability", &["nothing", "1"]).await;
    let scope = json!({"mode": "deterministic_prefetch", "scope": ["c1", "c2"]});
    let route = json!({"status": "published", "retrieval": scope});
    player.call("put_route", &["packed", "1"], json!({"retrieval": scope})).await;
    player.call("put_route", &["packed", "1"], route).await;
    player.get("get_route", &["packed", "1"]).await;
    player.get("find_route", &["packed", "?route_version=1"]).await;
    player.get("find_route", &["packed"]).await;
    let tools = json!([{"capability_id": "nothing", "capability_version": "1"}]);
    let route =
        json!({"status": "published", "retrieval": {"mode": "tool", "scope": ["c1"]}, "tools": tools});
    player.call("put_route", &["tools", "1"], route).await;
    let corpus = player.places.corpus.clone();
    let packed = json!({"retrieve": declaration(&corpus, 2), "goal": "title of common words",
        "route": {"route_id": "packed", "route_version": "1"}});
    let session = open(player, packed).await;
    player.get("get_prompt", &[&session]).await;
    player.get("get_session", &[&session]).await;
    let on_tools = json!({"retrieve": declaration(&corpus, 2), "goal": {}, "route": {"route_id": "tools", "route_version": "1"}});
    let session = open(player, on_tools).await;
    player.call("call_tool", &[&session, "slate_retrieve"], json!({"arguments": {"glob": "f0*"}})).await;
    player.call("call_tool", &[&session, "nothing"], json!({"arguments": {"city": "Oslo"}})).await;
    player.get("verify_session", &[&session]).await;
}

/// A run whose model asks in each way, calls a tool, and answers.
pub async fn runs(player: &mut Player<'_>) {
    let corpus = player.places.corpus.clone();
    let model = Model::start(|prompted| match prompted.before {
        0 => says("```json\n{\"glob\": \"f00000*\"}\n```"),
        1 => call(json!({"metatag": {"name": "category", "contains": "c1"}})),
        2 => message(json!({"content": null, "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": "slate_retrieve", "arguments": "{\"glob\": \"f000*\"}"}}]})),
        _ => says("It is 42."),
    })
    .await;
    let on_tools = json!({"retrieve": declaration(&corpus, 5), "goal": {}, "fields": {"Question": "What?"},
        "route": {"route_id": "tools", "route_version": "1"}});
    let session = open(player, on_tools).await;
    player.call("run_session", &[&session], model.run()).await;
    player.get("watch_session", &[&session]).await;
    player.get("get_run", &[&session]).await;
    let unreachable = json!({"model": {"base_url": "http://127.0.0.1:9/v1", "name": "none"}});
    let session = open(player, json!({"retrieve": declaration(&corpus, 2)})).await;
    player.call("run_session", &[&session], unreachable).await;
    // It is put back into the queue, to be tried again.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    player.get("get_run", &[&session]).await;
    player.call("cancel_session", &[&session], Body::None).await;
}

pub async fn sources(player: &mut Player<'_>) {
    player.get("list_sources", &["?limit=100"]).await;
    let api = |base: &str| json!({"base_url": base});
    player.call("put_api_source", &["weather"], api("https://api.example/v1")).await;
    player.call("put_api_source", &["weather"], api("https://api.example/v2")).await;
    player.get("get_api_source", &["weather"]).await;
    let database = json!({"connection": {"host": "127.0.0.1", "port": 9, "dbname": "d", "user": "u", "password": "pw", "sslmode": "disable"},
        "tables": {"orders": {"key": "id"}}});
    player.call("put_secret", &["pw"], json!({"value": "hushhush"})).await;
    player.call("put_secret", &["pw"], json!({"value": "hush"})).await;
    player.get("list_secrets", &["?limit=100"]).await;
    player.call("put_database_source", &["shop"], database).await;
    player.get("get_database_source", &["shop"]).await;
    let row = json!({"target": {"database": "shop", "table": "orders", "key": 7}});
    player.call("retrieve_target", &[], row).await;
    let host = Host::start(|_| Some((200, "{}".to_owned()))).await;
    player.call("retrieve_target", &[], json!({"target": host.url("/a")})).await;
    player.get("delete_api_source", &["weather"]).await;
    player.get("delete_database_source", &["shop"]).await;
    player.get("delete_secret", &["pw"]).await;
}
