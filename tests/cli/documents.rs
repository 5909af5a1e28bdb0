//! Real documents, where there are some: the folder that `SLATEBASE_SHARED` names holds them under `data`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use slatebase::metatags::front_matter;

use crate::served::{Client, Served, quoted};
use crate::support::{Cli, files_of, place};

/// The folder of one document set; none where there are no real documents, and then there is nothing to test.
fn documents(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("SLATEBASE_SHARED")?;
    Some(PathBuf::from(shared).join("data").join(name))
}

fn serve(cli: &Cli) -> (Served, Client) {
    let token = cli.run(&["key", "create", "acme"]).expect(0).out;
    let mut command = cli.command(&["serve", "--listen", "127.0.0.1:0", "--log", "warn"]);
    let (served, _) = Served::start(&mut command, |line| line.starts_with("serving "));
    let client = served.client(&token);
    (served, client)
}

fn metatags(contents: &[u8]) -> Map<String, Value> {
    front_matter::read(contents).unwrap().unwrap_or_default().metatags
}

#[test]
fn documents_keep_their_bytes_and_their_metatags() {
    for (name, markdown) in [("endoflife", 462), ("eips", 948)] {
        let Some(folder) = documents(name) else { return };
        let cli = Cli::new();
        let files = files_of(&folder);
        assert_eq!(
            files.keys().filter(|path| path.ends_with(".md") && *path != "LICENSE.md").count(),
            markdown
        );
        let told = cli.seed(&folder, &[]).expect(0);
        assert!(
            told.out.contains(&format!("{0} files loaded into slate S of tenant acme: {0} new", files.len()))
        );
        let (_served, client) = serve(&cli);
        let mut kinds = BTreeSet::new();
        for (path, contents) in &files {
            assert_eq!(&client.get(&format!("/v1/slates/S/files/{}", quoted(path))), contents, "{path}");
            let tags = client.json(&format!("/v1/slates/S/metatags/{}", quoted(path)));
            let written = if path.ends_with(".md") { metatags(contents) } else { Map::new() };
            assert_eq!(tags, Value::Object(written), "{path}");
            for (tag, value) in tags.as_object().unwrap() {
                kinds.insert((tag.clone(), kind(value)));
            }
        }
        let seen: &[(&str, &str)] = match name {
            "endoflife" => &[
                ("eoasColumn", "boolean"),
                ("eoasColumn", "text"),
                ("releases", "objects"),
                ("category", "text"),
            ],
            _ => &[("requires", "number"), ("requires", "text"), ("created", "text"), ("eip", "number")],
        };
        for (tag, kind) in seen {
            assert!(kinds.contains(&((*tag).to_owned(), *kind)), "{tag} is nowhere a {kind}");
        }
        let again = cli.seed(&folder, &[]).expect(0);
        assert!(again.out.contains(&format!(
            "0 new, 0 with a new version, 0 with other metatags or settings, {} unchanged",
            files.len()
        )));
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(elements) if elements.iter().any(Value::is_object) => "objects",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

#[test]
fn a_broken_one_among_them_is_named_and_stored() {
    let Some(folder) = documents("endoflife") else { return };
    let (cli, copy) = (Cli::new(), place());
    let files = files_of(&folder);
    for (path, contents) in &files {
        fs::write(copy.path().join(path), contents).unwrap();
    }
    let broken = "---\ntitle: Broken\ncategory: [database\npermalink: /x\n---\nbody\n";
    fs::write(copy.path().join("planted.md"), broken).unwrap();
    let told = cli.seed(copy.path(), &[]).expect(1);
    assert!(
        told.out.contains(&format!("{} files loaded", files.len() + 1)) && told.out.contains("; 1 problems"),
        "{told:#?}"
    );
    let problem = told.problem("planted.md:");
    assert!(problem["planted.md:".len()..].starts_with(['3', '4', '5']), "{problem}");
    assert_eq!(cli.file("planted.md").0, broken.as_bytes());
}

#[test]
fn a_session_browses_filters_matches_and_answers() {
    let Some(folder) = documents("endoflife") else { return };
    let cli = Cli::new();
    cli.seed(&folder, &[]).expect(0);
    let (_served, client) = serve(&cli);
    let files = files_of(&folder);
    let databases: BTreeSet<&str> = files
        .iter()
        .filter(|(path, contents)| {
            let category = || metatags(contents).remove("category");
            path.ends_with(".md")
                && category().is_some_and(|it| it.as_str().is_some_and(|it| it.contains("database")))
        })
        .map(|(path, _)| path.as_str())
        .collect();
    assert!(databases.len() > 10 && databases.contains("postgresql.md"), "{databases:?}");

    let declaration = json!({
        "to": {"slate": "S", "folder": ""}, "as": "RetrievedDocuments", "maxRounds": 5,
        "limits": {"maxFilesPerRound": 1000, "maxBytesPerRound": 16 << 20, "maxTotalBytes": 64 << 20},
        "requestMatch": {"type": "object", "properties": {
            "files": {"type": "array", "items": {"type": "string"}}, "subfolders": {"type": "array", "items": {"type": "string"}},
            "metatag": {"type": "object"}, "glob": {"type": "string"}}}
    });
    let opened = client.post(
        "/v1/sessions",
        json!({"retrieve": declaration, "fields": {"Question": "Until when is PostgreSQL 15 supported?"}}),
    );
    let id = opened["session_id"].as_str().unwrap();
    let round = |output: Value| client.post(&format!("/v1/sessions/{id}/rounds"), json!({"output": output}));

    let listing = round(json!({"subfolders": [""]}));
    let index = listing["items"][0]["content"].as_array().unwrap();
    assert_eq!(index.len(), files.len());
    for (entry, (path, contents)) in index.iter().zip(&files) {
        assert_eq!(*entry, json!({"name": path, "size": contents.len()}));
    }

    let filtered = round(json!({"metatag": {"name": "category", "contains": "database"}}));
    let items = filtered["items"].as_array().unwrap();
    let found: BTreeSet<&str> = items.iter().map(|item| item["path"].as_str().unwrap()).collect();
    assert_eq!(found, databases);
    for item in items {
        let path = item["path"].as_str().unwrap();
        assert_eq!(item["status"], "fetched", "{item}");
        assert_eq!(item["content"].as_str().unwrap().as_bytes(), files[path], "{path}");
        assert_eq!(item["citation"], format!("slate://S/{path}@1"));
    }

    let matched = round(json!({"glob": "postgres*"}));
    let items = matched["items"].as_array().unwrap();
    let expected: Vec<&String> = files.keys().filter(|path| path.starts_with("postgres")).collect();
    assert_eq!(items.iter().map(|item| item["path"].as_str().unwrap()).collect::<Vec<_>>(), expected);
    for item in items {
        let known = databases.contains(item["path"].as_str().unwrap());
        assert_eq!(item["status"], if known { "already_in_context" } else { "fetched" }, "{item}");
    }

    let prompt = client.json(&format!("/v1/sessions/{id}/prompt"));
    assert!(prompt["prompt"].as_str().unwrap().contains("<document path=\"postgresql.md\" version=\"1\""));
    let answer = round(json!("Until November 2027 [slate://S/postgresql.md@1]."));
    assert_eq!(
        (&answer["status"], &answer["forced"], &answer["round"]),
        (&json!("answered"), &json!(false), &json!(4))
    );
    let told = cli.run(&["verify", "acme", id]).expect(0);
    assert!(
        told.out.starts_with("1 sessions, ") && told.out.ends_with("all as they were written\n"),
        "{told:#?}"
    );
}

#[test]
fn questions_find_the_document_of_their_subject() {
    let Some(folder) = documents("eips") else { return };
    let cli = Cli::new();
    cli.seed(&folder, &[]).expect(0);
    let (_served, client) = serve(&cli);
    client.put("/v1/catalog/corpora/eips", json!({"url": "slate:S", "status": "published"}));
    let search = |goal: Value| {
        let found = client.post("/v1/search", json!({"collection": "eips", "goal": goal}));
        found["chunks"].as_array().unwrap().clone()
    };
    for (goal, subject) in [
        ("fee market", &["eip-1559.md"][..]),
        ("How does a transaction pay a tip to the miner since the fee market changed?", &["eip-1559.md"]),
        ("account abstraction", &["eip-4337.md", "eip-7702.md", "eip-2938.md", "eip-7701.md"]),
        ("What is the limit on the size of a contract's code?", &["eip-170.md"]),
        ("transient storage", &["eip-1153.md"]),
        ("blob transactions", &["eip-4844.md"]),
        ("How can an EOA set its code?", &["eip-7702.md"]),
        ("Where can a contract read the beacon block root?", &["eip-4788.md"]),
        ("How much more gas do cold storage reads cost?", &["eip-2929.md"]),
    ] {
        let chunks = search(json!({"question": goal}));
        let first: Vec<&str> = chunks.iter().take(3).map(|chunk| chunk["path"].as_str().unwrap()).collect();
        assert!(first.iter().any(|path| subject.contains(path)), "{goal}: {first:?}");
        assert_eq!(chunks, search(json!({"question": goal})));
    }
    for goal in ["Who are you?", "Is this the right thing to do, and why?", "Was ist das?", "42"] {
        assert!(!search(json!(goal)).is_empty(), "{goal}");
    }
}
