//! Every operation on slates, files, folders, metatags, queries, tenants, keys and settings.

use serde_json::{Value, json};

use crate::player::{Body, Player, text};
use crate::support::in_url;

/// Files of a bulk, and of the folder that is moved and hidden.
const BULK: usize = 200;

pub async fn service(player: &mut Player<'_>) {
    for id in [
        "get_docs",
        "get_healthz",
        "get_metrics",
        "get_openapi",
        "get_readyz",
        "get_service",
        "describe_retrieve",
    ] {
        player.get(id, &[]).await;
    }
}

pub async fn tenants(player: &mut Player<'_>) {
    let tenant = player.tenant.clone();
    let page = player.get("list_tenants", &["?limit=100"]).await.json();
    let cursor = text(&page, "next_cursor");
    if !cursor.is_empty() {
        player.get("list_tenants", &[&format!("?limit=1000&cursor={cursor}")]).await;
    }
    player.call_with("create_tenant", &[], json!({"name": "new"}), &[("idempotency-key", "tenant")]).await;
    player.get("get_tenant", &[&tenant]).await;
    player.get("list_keys", &[&tenant, "?limit=100"]).await;
    let key = json!({"label": "new", "scopes": ["read"], "slates": ["Docs"]});
    let made = player.call("create_key", &["new"], key).await.json();
    // `slb_TENANT_KEY_SECRET`.
    let token = text(&made, "token");
    let number = token.split('_').nth(2).unwrap();
    for _ in 0..2 {
        player.call("put_key_alias", &["new", number], json!({"token": "fixed-token"})).await;
    }
    player.signed_in("fixed-token").await;
    player.get("delete_key_alias", &["new", number]).await;
    player.call("put_key_alias", &["new", number], json!({"token": "fixed-token"})).await;
    player.get("revoke_key", &["new", number]).await;
    player.get("delete_tenant", &["new"]).await;
}

pub async fn reads(player: &mut Player<'_>) {
    let (top, leaf) = (player.places.top.clone(), player.places.leaf.clone());
    let file = player.places.files(1).remove(0);
    player.get("list_slates", &["?limit=100"]).await;
    player.get("get_slate", &["Docs"]).await;
    for query in ["?limit=100", "?limit=2"] {
        let page = player.get("get_root_folder", &["Docs", query]).await.json();
        follow(player, "get_root_folder", &["Docs"], &page).await;
    }
    for folder in [&top, &leaf] {
        for query in ["?limit=50", "?limit=1000"] {
            let page = player.get("get_folder", &["Docs", folder, query]).await.json();
            follow(player, "get_folder", &["Docs", folder], &page).await;
        }
    }
    for query in [
        "?recursive=true&limit=100".to_owned(),
        format!("?folder={leaf}&values=5"),
        format!("?folder={top}&recursive=true&limit=2"),
    ] {
        let page = player.get("get_facets", &["Docs", &query]).await.json();
        let cursor = text(&page, "next_cursor");
        if !cursor.is_empty() {
            player.get("get_facets", &["Docs", &format!("{query}&cursor={cursor}")]).await;
        }
    }
    player.get("get_file", &["Docs", &file]).await;
    player.get("get_file", &["Docs", &file, "?version=1"]).await;
    player.call_with("get_file", &["Docs", &file], Body::None, &[("range", "bytes=2-5")]).await;
    player.get("head_file", &["Docs", &file]).await;
    player.get("list_versions", &["Docs", &file, "?limit=10"]).await;
    player.get("get_metatags", &["Docs", &file]).await;
}

async fn follow(player: &mut Player<'_>, id: &str, path: &[&str], page: &Value) {
    let cursor = text(page, "next_cursor");
    if !cursor.is_empty() {
        let query = format!("?limit=50&cursor={cursor}");
        player.get(id, &[path, &[&query]].concat()).await;
    }
}

pub async fn queries(player: &mut Player<'_>) {
    let (top, leaf) = (player.places.top.clone(), player.places.leaf.clone());
    let names: Vec<String> =
        player.places.files(50).iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect();
    let near = names[0].replacen("f0", "fO", 1);
    let exact = json!({"files": [&names[0]]});
    let strange = [near, "nowhere.md".to_owned(), "no/such/f000001.md".to_owned()];
    let all = [&names[..], &strange].concat();
    let many = json!({"files": all});
    player.query(&leaf, false, 100, exact).await;
    player.query(&leaf, false, 100, many).await;
    let whole: Vec<String> = names.iter().map(|name| format!("{leaf}/{name}")).collect();
    player.query("", true, 100, json!({"files": whole})).await;
    player.query(&top, false, 100, json!({"subfolders": [".", "s1", "nope", "l1"]})).await;
    player.query("", false, 100, json!({"subfolders": [".", &top]})).await;
    for (name, contains) in [
        ("label", Some("quetzal")),
        ("label", None),
        ("category", Some("c4")),
        ("topics", Some("t12")),
        ("serial", Some("serial 4321")),
        ("serial", Some("serial")),
        ("serial", Some("99")),
        ("serial", Some("9")),
        ("category", Some("nowhere")),
        ("topics", Some("")),
        ("rank", None),
        ("rank", Some("12")),
        ("none", Some("x")),
    ] {
        let mut test = json!({"name": name});
        if let Some(contains) = contains {
            test["contains"] = json!(contains);
        }
        for (folder, recursive, limit) in [(&top[..], true, 20), ("", true, 100), (&leaf[..], false, 100)] {
            player.query(folder, recursive, limit, json!({"metatag": test})).await;
        }
    }
    for pattern in [
        "*",
        "f0001*",
        "zebra*",
        "*2345*",
        "*.md",
        "*5.md",
        "f000[1-3]*",
        "f00??21.md",
        "f000021.md",
        "*[5-7]1*",
    ] {
        for (folder, recursive, limit) in [(&top[..], true, 20), ("", true, 100), (&leaf[..], false, 100)] {
            player.query(folder, recursive, limit, json!({"glob": pattern})).await;
        }
    }
    filters(player, &top, &leaf).await;
    let union = json!({"files": [&names[1], "nope.md"], "glob": "f0001*", "metatag": {"name": "category", "contains": "c1"}});
    player.query(&leaf, true, 10, union.clone()).await;
    // Pages, by the cursor.
    for (folder, request) in [
        ("", union),
        ("", json!({"metatag": {"name": "label"}})),
        (&leaf[..], json!({"glob": "*1*"})),
        ("", json!({"metatag": {"name": "serial", "contains": "4321"}})),
    ] {
        let body = json!({"folder": folder, "recursive": folder.is_empty(), "limit": 2, "request": request});
        let mut page = player.call("query_slate", &["Docs"], body.clone()).await.json();
        for _ in 0..2 {
            let cursor = text(&page, "next_cursor");
            if cursor.is_empty() {
                break;
            }
            let mut next = body.clone();
            next["cursor"] = json!(cursor);
            page = player.call("query_slate", &["Docs"], next).await.json();
        }
    }
}

async fn filters(player: &mut Player<'_>, top: &str, leaf: &str) {
    let tag = |tag: &str, test: &str, value: Value| json!({"tag": tag, test: value});
    let ranks = json!({"tag": "rank", "gte": 100, "lt": 130});
    for filter in [
        tag("category", "eq", json!("c7")),
        tag("category", "ne", json!("c7")),
        tag("rank", "eq", json!(4321)),
        tag("serial", "in", json!(["serial 21", "serial 421", "serial 4321"])),
        tag("serial", "contains", json!("432")),
        tag("serial", "contains", json!("9")),
        tag("serial", "starts_with", json!("serial 43")),
        tag("topics", "has", json!("t12")),
        tag("topics", "contains", json!("t1")),
        ranks.clone(),
        json!({"tag": "rank", "gte": 1000}),
        json!({"tag": "label"}),
        json!({"not": {"tag": "label"}}),
        json!({"all": [ranks.clone(), {"not": tag("ok", "eq", json!(true))}]}),
        json!({"any": [tag("label", "eq", json!("quetzal")), tag("rank", "lt", json!(30))]}),
        json!({"all": [tag("category", "eq", json!("c7")), {"name": {"glob": "*7.md"}}]}),
        json!({"all": [{"name": {"glob": "*2345*"}}, {"size": {"gte": 1}}]}),
        json!({"all": [{"modified": {"since": "2020-01-01T00:00:00Z"}}, {"size": {"lt": 200}}]}),
        json!({"all": [{"modified": {"since": "2100-01-01T00:00:00Z"}}]}),
        json!({"size": {"gt": 1_000_000}}),
        tag("category", "matches", json!({"a": 1})),
    ] {
        for (folder, recursive, limit) in [(top, true, 20), ("", true, 100), (leaf, false, 100)] {
            player.query(folder, recursive, limit, json!({"where": filter})).await;
        }
    }
}

pub fn bulk(folder: &str, count: usize) -> Vec<u8> {
    let line = |n: usize| {
        json!({"path": format!("{folder}/x{n:04}.md"), "content": format!("# {folder}\n\nbulk {n}, which is common.\n"),
            "metatags": {"category": format!("n{n}"), "topics": [format!("q{n}"), "u1"], "rank": n}})
        .to_string()
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n").into_bytes()
}

pub async fn writes(player: &mut Player<'_>) {
    let (doomed, leaf) = (player.places.doomed.clone(), player.places.leaf.clone());
    let files = player.places.files(4);
    let markdown = |text: &str| Body::Bytes("text/markdown", text.as_bytes().to_vec());
    player.call("put_file", &["Docs", "new/a.md"], markdown("one")).await;
    // Contents of three kinds: in a file's row, apart, and too large to be read along or at once.
    for (name, bytes) in [("apart", 5_000), ("large", 40_000), ("huge", 3 << 20)] {
        let path = format!("{leaf}/{name}.md");
        player.call("put_file", &["Docs", &path], markdown(&"large ".repeat(bytes / 6))).await;
        player.call_with("get_file", &["Docs", &path], Body::None, &[("range", "bytes=2-5")]).await;
    }
    player.query(&leaf, false, 1000, json!({"glob": "[alh]*e.md"})).await;
    let stream = json!({"folder": "", "recursive": true, "request": {"glob": "f00[01]*"}});
    player.call_with("query_slate", &["Docs"], stream, &[("accept", "application/x-ndjson")]).await;
    player.call("put_file", &["Docs", "new/a.md"], markdown("two")).await;
    player.call("put_file", &["Docs", "new/a.md"], markdown("two")).await;
    player.call("put_file", &["Docs", &files[0]], markdown("# Changed\n\nIt is another.")).await;
    player.get("list_versions", &["Docs", "new/a.md", "?limit=1"]).await;
    player
        .call("patch_metatags", &["Docs", "new/a.md"], json!({"x": "unique", "topics": ["z1", "z2"]}))
        .await;
    player.call("put_metatags", &["Docs", "new/a.md"], json!({"x": "other", "n": 5, "o": {"a": 1}})).await;
    player.call("patch_metatags", &["Docs", &files[0]], json!({"category": "c1"})).await;
    player.call("patch_file", &["Docs", "new/a.md"], json!({"path": "newer/b.md"})).await;
    player.call("patch_file", &["Docs", "newer/b.md"], json!({"sensitive": true})).await;
    player
        .call("patch_file", &["Docs", "newer/b.md"], json!({"sensitive": false, "authority": "high"}))
        .await;
    player.call("patch_file", &["Docs", "newer/b.md"], json!({"media_type": "text/plain"})).await;
    player.call("patch_file", &["Docs", &files[1]], json!({"path": format!("{}.moved", files[1])})).await;

    let one = json!({"path": "one.md", "content": "one", "metatags": {"category": "c1"}});
    player.call_with("post_files", &["Docs"], one, &[("idempotency-key", "one")]).await;
    for _ in 0..2 {
        player.call("post_files", &["Docs"], Body::Bytes("application/x-ndjson", bulk("bulk", BULK))).await;
    }
    let within = bulk(&player.places.leaf, 20);
    player.call("post_files", &["Docs"], Body::Bytes("application/x-ndjson", within)).await;
    player.call("put_folder", &["Docs", "bulk"], json!({"authority": "high"})).await;
    player.call("put_folder", &["Docs", "empty/folder"], json!({})).await;
    for sensitive in [true, false] {
        player.call("put_folder", &["Docs", "bulk"], json!({"sensitive": sensitive})).await;
        player.call("put_folder", &["Docs", &doomed], json!({"sensitive": sensitive})).await;
    }
    player.call("move_folder", &["Docs", "bulk"], json!({"path": "moved"})).await;
    player.call("move_folder", &["Docs", &doomed], json!({"path": "elsewhere/doomed"})).await;
    player.get("delete_folder", &["Docs", "moved", "?recursive=true"]).await;
    player.get("delete_folder", &["Docs", "elsewhere", "?recursive=true&purge=true"]).await;
    player.get("delete_folder", &["Docs", "empty/folder"]).await;
    player.get("delete_file", &["Docs", "newer/b.md"]).await;
    player.get("delete_file", &["Docs", "newer/b.md", "?purge=true"]).await;
    player.get("delete_file", &["Docs", &files[2], "?purge=true"]).await;
}

pub async fn settings(player: &mut Player<'_>) {
    player.get("get_settings", &[]).await;
    for globs in [json!(["**/*.pem", "**/f000021.md"]), json!(["**/.env", "**/*.pem"])] {
        player.call("put_settings", &[], json!({"default_slate": "Docs", "deny_globs": globs})).await;
    }
}

pub async fn slates(player: &mut Player<'_>) {
    player.call("put_slate", &["Tmp"], json!({"description": "soon gone"})).await;
    player.call("post_files", &["Tmp"], Body::Bytes("application/x-ndjson", bulk("t", 50))).await;
    player
        .call("put_slate", &["Tmp"], json!({"metatag_types": {"rank": "number"}, "retention_days": 1}))
        .await;
    player.call("put_slate", &["Docs"], json!({"description": "large", "authority": "medium"})).await;
    player.get("delete_slate", &["Tmp"]).await;
    player.call("put_slate", &["Tmp"], json!({})).await;
    player.call("post_files", &["Tmp"], Body::Bytes("application/x-ndjson", bulk("t", 50))).await;
    player.get("delete_slate", &["Tmp", "?purge=true"]).await;
}

/// `whole` exports the whole slate too, which takes long: most of it is packing.
pub async fn archives(player: &mut Player<'_>, whole: bool) {
    let corpus = player.places.corpus.clone();
    let part = player.get("export_slate", &["Docs", &format!("?folder={corpus}")]).await.body;
    player
        .call("import_slate", &["Docs", "?folder=imported"], Body::Bytes("application/gzip", part.clone()))
        .await;
    player.call("import_slate", &["Docs", "?folder=imported"], Body::Bytes("application/gzip", part)).await;
    if whole {
        player.get("export_slate", &["Docs"]).await;
    }
}

/// Names that have two spellings in Unicode, by the one that they were not given.
pub async fn spellings(player: &mut Player<'_>) {
    let (composed, apart) = ("caf\u{e9}/\u{e9}t\u{e9}.md", "cafe\u{301}/e\u{301}te\u{301}.md");
    let (written, other) = (in_url(composed), in_url(apart));
    let (folder, other_folder) = (in_url("caf\u{e9}"), in_url("cafe\u{301}"));
    let line = |path: &str| json!({"path": path, "content": "summer"}).to_string().into_bytes();
    // A name in another spelling is taken.
    player.refused = 409;
    player.call("put_file", &["Docs", &written], Body::Bytes("text/markdown", b"summer".to_vec())).await;
    player.call("put_file", &["Docs", &other], Body::Bytes("text/markdown", b"winter".to_vec())).await;
    player.call("post_files", &["Docs"], Body::Bytes("application/x-ndjson", line(apart))).await;
    player.get("get_file", &["Docs", &other]).await;
    player.get("get_metatags", &["Docs", &other]).await;
    player.get("get_folder", &["Docs", &other_folder]).await;
    player.query("", true, 10, json!({"files": [apart], "subfolders": ["cafe\u{301}"]})).await;
    player.call("retrieve_target", &[], json!({"target": format!("slate://Docs/{apart}")})).await;
    player.call("put_folder", &["Docs", &other_folder], json!({"authority": "low"})).await;
    player.refused = 0;
    player.call("move_folder", &["Docs", &folder], json!({"path": "coffee"})).await;
}
