//! Filter trees in SQL against a plain evaluation in Rust, on generated files and trees.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use slatebase::db::Tx;
use slatebase::metatags::TagType;
use slatebase::path::FolderPath;
use slatebase::retrieval::filter;
use slatebase::retrieval::found::{After, FoundItem, Window};
use slatebase::retrieval::ops::{scope, search};
use slatebase::retrieval::request::Request;

use crate::support::Server;

const KEYS: &[&str] = &["k", "n", "t'\"%"];
const TEXTS: &[&str] = &[
    "", "a", "ab", "abc", "abcd", "b", "%", "_", "a%", "\\", "é", "e\u{301}", "日本", "𝄞", "3", "true", "\n",
    "'",
];

fn text() -> impl Strategy<Value = Value> {
    prop::sample::select(TEXTS).prop_map(Value::from)
}

fn number() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(0),
        json!(3),
        json!(3.0),
        json!(-2.5),
        json!(10),
        json!(1e300),
        json!(u64::MAX),
    ])
}

fn object() -> impl Strategy<Value = Value> {
    let objects = vec![
        json!({}),
        json!({"a": 1}),
        json!({"a": 1, "b": {"c": ["x"]}}),
        json!([1, "x"]),
        json!([{"a": 1}]),
        json!([[]]),
    ];
    prop::sample::select(objects)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![3 => text(), 2 => number(), 1 => any::<bool>().prop_map(Value::from)]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![3 => scalar(), 2 => prop::collection::vec(text(), 0..3).prop_map(Value::from), 1 => object()]
}

fn test() -> impl Strategy<Value = (String, Value)> {
    let named = |name: &'static str| move |value| (name.to_owned(), value);
    let order = || prop::sample::select(vec!["gt", "gte", "lt", "lte"]);
    prop_oneof![
        scalar().prop_map(named("eq")),
        scalar().prop_map(named("ne")),
        prop::collection::vec(scalar(), 0..4).prop_map(Value::from).prop_map(named("in")),
        text().prop_map(named("contains")),
        text().prop_map(named("starts_with")),
        text().prop_map(named("has")),
        object().prop_map(named("matches")),
        (order(), prop_oneof![text(), number()]).prop_map(|(order, value)| (order.to_owned(), value)),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    let tag = (prop::sample::select(KEYS), prop::collection::vec(test(), 0..3)).prop_map(|(key, tests)| {
        let mut node = Map::from_iter([("tag".to_owned(), Value::from(key))]);
        node.extend(tests);
        Value::Object(node)
    });
    let name = prop::sample::select(vec!["*", "a*", "*b*", "*abc*", "?", "[a-c]*", "*.md", "f1*.md"])
        .prop_map(|glob| json!({"name": {"glob": glob}}));
    let size = (0..4i64).prop_map(|size| json!({"size": {"gte": size}}));
    prop_oneof![6 => tag, 1 => name, 1 => size].prop_recursive(4, 24, 3, |node| {
        prop_oneof![
            prop::collection::vec(node.clone(), 0..3).prop_map(|nodes| json!({"all": nodes})),
            prop::collection::vec(node.clone(), 0..3).prop_map(|nodes| json!({"any": nodes})),
            node.prop_map(|node| json!({"not": node})),
        ]
    })
}

struct File {
    name: String,
    size: i64,
    tags: Map<String, Value>,
}

/// Whether a tree holds for a file, read straight from retrieval semantics §5.
fn holds(tree: &Value, file: &File) -> bool {
    let members = tree.as_object().unwrap();
    let nodes = |name: &str| members.get(name).and_then(Value::as_array);
    if let Some(nodes) = nodes("all") {
        return nodes.iter().all(|node| holds(node, file));
    }
    if let Some(nodes) = nodes("any") {
        return nodes.iter().any(|node| holds(node, file));
    }
    if let Some(node) = members.get("not") {
        return !holds(node, file);
    }
    if let Some(test) = members.get("name") {
        return glob::Pattern::new(test["glob"].as_str().unwrap()).unwrap().matches(&file.name);
    }
    if let Some(test) = members.get("size") {
        return file.size >= test["gte"].as_i64().unwrap();
    }
    let Some(value) = file.tags.get(members["tag"].as_str().unwrap()) else { return false };
    members.iter().filter(|(name, _)| *name != "tag").all(|(name, operand)| passes(name, value, operand))
}

fn passes(test: &str, value: &Value, operand: &Value) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let texts: Vec<&str> = match TagType::of(value) {
        Some(TagType::String) => vec![value.as_str().unwrap()],
        Some(TagType::StringArray) => value.as_array().unwrap().iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let order = compare(value, operand);
    match test {
        "eq" => order == Some(Equal),
        "ne" => order.is_some_and(|order| order != Equal),
        "in" => operand.as_array().unwrap().iter().any(|one| compare(value, one) == Some(Equal)),
        "contains" => texts.iter().any(|text| text.contains(operand.as_str().unwrap())),
        "starts_with" => texts.iter().any(|text| text.starts_with(operand.as_str().unwrap())),
        "has" => value.is_array() && texts.contains(&operand.as_str().unwrap()),
        "matches" => TagType::of(value) == Some(TagType::Object) && contains(value, operand),
        "gt" => order == Some(Greater),
        "gte" => matches!(order, Some(Greater | Equal)),
        "lt" => order == Some(Less),
        "lte" => matches!(order, Some(Less | Equal)),
        _ => unreachable!(),
    }
}

/// How two scalars of one type compare.
fn compare(a: &Value, b: &Value) -> Option<std::cmp::Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        _ => None,
    }
}

/// JSON containment as Postgres has it, for the values of this test.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| contains(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| contains(whole, part)))
        }
        (whole, part) => compare(whole, part) == Some(std::cmp::Ordering::Equal),
    }
}

async fn agree(cases: usize, plans: &'static str) {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    let mut runner = TestRunner::deterministic();
    let tag = (prop::sample::select(KEYS), value()).prop_map(|(key, value)| (key.to_owned(), value));
    let tags = prop::collection::vec(tag, 0..4).prop_map(|tags| tags.into_iter().collect::<Map<_, _>>());
    let files: Vec<File> = (0..600)
        .map(|i| File {
            name: format!("{}{i}{}", ["f", "a", "ab", "xabcx"][i % 4], [".md", ""][i % 2]),
            size: i as i64 % 5,
            tags: tags.new_tree(&mut runner).unwrap().current(),
        })
        .collect();
    let given = files.iter().map(|file| {
        (
            format!("d/{}", file.name),
            json!({"content": "x".repeat(file.size as usize), "metatags": file.tags}),
        )
    });
    server.fill(&caller, "K", Value::Object(given.collect())).await;
    let ctx = server.local(&caller);
    tokio::task::spawn_blocking(move || {
        let trees: Vec<Value> = std::iter::repeat_with(|| tree().new_tree(&mut runner).unwrap().current())
            .filter(|tree| filter::parse(tree, "").is_ok())
            .take(cases)
            .collect();
        let run = |tx: &mut Tx| {
            // All cases are one transaction.
            tx.without_timeout()?;
            diesel::connection::SimpleConnection::batch_execute(tx.conn(), plans)?;
            let scope = scope(tx, &ctx, "K", &FolderPath::parse("d").unwrap(), false)?.unwrap();
            let window =
                Window { after: After::Asked(0), limit: 1000, count: false, ahead: 0, contents: false };
            let mut some = 0;
            for tree in &trees {
                let request =
                    Request { filter: Some(filter::parse(tree, "").unwrap()), ..Request::default() };
                let found: Vec<String> = search(tx, scope.clone().into(), &request, &window)?
                    .items
                    .into_iter()
                    .map(|placed| match placed.item {
                        FoundItem::File(file) => scope.relative(&file.path).to_owned(),
                        other => panic!("{other:?}"),
                    })
                    .collect();
                let mut expected: Vec<String> =
                    files.iter().filter(|file| holds(tree, file)).map(|file| file.name.clone()).collect();
                expected.sort();
                some += usize::from(!expected.is_empty() && expected.len() < files.len());
                assert_eq!(found, expected, "{tree}");
            }
            assert!(some * 3 > trees.len(), "only {some} trees tell files apart");
            Ok(())
        };
        server.app.db.tenant_blocking(ctx.tenant, run).unwrap();
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn trees_hold_for_what_a_plain_evaluation_says() {
    agree(2000, "set local enable_seqscan = on").await;
}

#[tokio::test]
async fn trees_hold_for_the_same_by_indexes() {
    agree(2000, "set local enable_seqscan = off").await;
}

#[tokio::test]
async fn files_are_found_by_when_their_source_was_modified() {
    let (_server, caller) = Server::with_slate().await;
    for (path, year) in [("old", Some(2020)), ("d/older", Some(2019)), ("new", Some(2024)), ("unsaid", None)]
    {
        let modified = year.map(|year| format!("{year}-06-01T00:00:00Z"));
        let file = json!({"path": path, "content": "", "source_modified_at": modified});
        caller.post("/v1/slates/K/files").json(file).await.expect(201);
    }
    // What says nothing was last modified when it was written.
    for (test, found) in [
        (json!({"since": "2020-06-01T00:00:00Z"}), &["new", "old", "unsaid"][..]),
        (json!({"since": "2020-06-01T02:00:01+02:00"}), &["new", "unsaid"]),
        (json!({"before": "2020-06-01T00:00:00Z"}), &["d/older"]),
        (json!({"since": "2020-01-01T00:00:00Z", "before": "2025-01-01T00:00:00Z"}), &["new", "old"]),
        (json!({"since": "9999-12-31T23:59:59Z"}), &[]),
        (json!({"before": "0000-01-01T00:00:00Z"}), &[]),
    ] {
        let query = json!({"recursive": true, "request": {"where": {"modified": test}}});
        let items = caller.post("/v1/slates/K/query").json(query).await.ok(200)["items"].clone();
        let paths: Vec<_> = items.as_array().unwrap().iter().map(|item| item["path"].clone()).collect();
        assert_eq!(paths, found, "{test}");
    }
}
