//! Facets: which metatags there are.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::support::{Caller, Server};

async fn facets(caller: &Caller, query: &str) -> Value {
    caller.get(&format!("/v1/slates/K/facets{query}")).await.ok(200)
}

async fn given() -> (Server, Caller) {
    let (server, caller) = Server::with_slate().await;
    let files = json!({
        "docs/a.md": {"content": "a", "metatags": {"category": "security", "topics": ["x", "y", "x"], "n": 1}},
        "docs/b.md": {"content": "b", "metatags": {"category": "security", "topics": [], "n": "one"}},
        "docs/c.md": {"content": "c", "metatags": {"category": "billing", "mixed": ["x", 1], "ok": false}},
        "docs/deep/d.md": {"content": "d", "metatags": {"category": "deep"}},
        "docs/none.md": {"content": "e"},
    });
    server.fill(&caller, "K", files).await;
    let hidden =
        json!({"path": "docs/secret.md", "content": "s", "sensitive": true, "metatags": {"secret": "yes"}});
    caller.post("/v1/slates/K/files").json(hidden).await.expect(201);
    (server, caller)
}

#[tokio::test]
async fn a_folder_and_all_below_it() {
    let (_server, caller) = given().await;
    assert_eq!(
        facets(&caller, "?folder=docs").await,
        json!({"folder": "docs", "recursive": false, "files": 4, "complete": true, "next_cursor": null, "items": [
            {"name": "category", "files": 3, "types": [{"type": "string", "files": 3}],
             "values": [{"value": "security", "files": 2}, {"value": "billing", "files": 1}]},
            {"name": "mixed", "files": 1, "types": [{"type": "object", "files": 1}], "values": []},
            {"name": "n", "files": 2, "types": [{"type": "number", "files": 1}, {"type": "string", "files": 1}],
             "values": [{"value": "one", "files": 1}]},
            {"name": "ok", "files": 1, "types": [{"type": "boolean", "files": 1}], "values": []},
            {"name": "topics", "files": 2, "types": [{"type": "string[]", "files": 2}],
             "values": [{"value": "x", "files": 1}, {"value": "y", "files": 1}]},
        ]})
    );
    let all = facets(&caller, "?recursive=true&values=1").await;
    assert_eq!((&all["files"], &all["items"][0]["files"]), (&json!(5), &json!(4)));
    assert_eq!(all["items"][0]["values"], json!([{"value": "security", "files": 2}]));
    assert_eq!(facets(&caller, "").await["items"], json!([]));
}

#[tokio::test]
async fn pages_hold_each_name_once() {
    let (_server, caller) = given().await;
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = facets(&caller, &format!("?folder=docs&limit=2{cursor}")).await;
        names.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["category", "mixed", "n", "ok", "topics"]);
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let (_server, caller) = given().await;
    caller.get("/v1/slates/Nope/facets").await.problem(404, "not_found");
    caller.get("/v1/slates/K/facets?folder=nope").await.problem(404, "not_found");
    for query in ["?folder=../x", "?values=101", "?recursive=maybe", "?limit=0", "?what=1"] {
        caller.get(&format!("/v1/slates/K/facets{query}")).await.problem(422, "invalid");
    }
}

/// Each metatag's name, its files, and its values with theirs.
type Counted = Vec<(String, i64, Vec<(String, i64)>)>;

/// The same, counted in plain Rust.
fn counted(files: &[(String, Value)], folder: &str, recursive: bool) -> Counted {
    let mut names: BTreeMap<String, (i64, BTreeMap<String, i64>)> = BTreeMap::new();
    for (path, tags) in files {
        let Some((parent, _)) = path.rsplit_once('/') else { continue };
        if parent != folder && !(recursive && parent.starts_with(&format!("{folder}/"))) {
            continue;
        }
        for (name, value) in tags.as_object().unwrap() {
            let (count, values) = names.entry(name.clone()).or_default();
            *count += 1;
            let texts: BTreeSet<&str> = match value {
                Value::String(text) => BTreeSet::from([text.as_str()]),
                Value::Array(all) if all.iter().all(Value::is_string) => {
                    all.iter().filter_map(Value::as_str).collect()
                }
                _ => BTreeSet::new(),
            };
            texts.into_iter().for_each(|text| *values.entry(text.into()).or_default() += 1);
        }
    }
    let sorted = |values: BTreeMap<String, i64>| {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.as_bytes().cmp(b.0.as_bytes())));
        values
    };
    names.into_iter().map(|(name, (count, values))| (name, count, sorted(values))).collect()
}

#[tokio::test]
async fn generated_files_are_counted_as_plain_rust_counts_them() {
    let (server, caller) = Server::with_slate().await;
    let mut random = StdRng::seed_from_u64(11);
    let texts = ["a", "b", "é", "𝄞", "", "%_", "b "];
    let mut files: Vec<(String, Value)> = Vec::new();
    for n in 0..400 {
        let folder = ["f", "f/g", "f/g/h", "fx"].choose(&mut random).unwrap();
        let mut tags = serde_json::Map::new();
        for name in ["one", "two", "drei", "ü"] {
            let text = |random: &mut StdRng| json!(texts.choose(random).unwrap());
            let value = match random.random_range(0..6) {
                0 => text(&mut random),
                1 => json!((0..random.random_range(0..4)).map(|_| text(&mut random)).collect::<Vec<_>>()),
                2 => json!(random.random_range(0..3)),
                3 => json!(["a", 1]),
                4 => json!({"a": "b"}),
                _ => continue,
            };
            tags.insert(name.into(), value);
        }
        files.push((format!("{folder}/{n}.md"), Value::Object(tags)));
    }
    let bodies = files.iter().map(|(path, tags)| (path.clone(), json!({"content": path, "metatags": tags})));
    server.fill(&caller, "K", Value::Object(bodies.collect())).await;
    for (folder, recursive) in [("f", false), ("f", true), ("f/g", true), ("f/g/h", false), ("fx", true)] {
        let found = facets(&caller, &format!("?folder={folder}&recursive={recursive}&values=100")).await;
        let found: Vec<_> = found["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let values = item["values"].as_array().unwrap().iter();
                let values =
                    values.map(|v| (v["value"].as_str().unwrap().to_owned(), v["files"].as_i64().unwrap()));
                (
                    item["name"].as_str().unwrap().to_owned(),
                    item["files"].as_i64().unwrap(),
                    values.collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(found, counted(&files, folder, recursive), "{folder} {recursive}");
    }
}
