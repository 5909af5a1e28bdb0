//! The OpenAPI document is current and complete.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use slatebase::http::openapi;

/// Where it is set, the test writes the document instead of comparing it.
const WRITE: &str = "SLATEBASE_WRITE_OPENAPI";

fn document() -> Value {
    serde_json::from_str(openapi::text()).unwrap()
}

/// Each operation after its method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    each.collect()
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap_or(&Value::Null),
        None => value,
    }
}

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/openapi.json");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, openapi::text()).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == openapi::text(),
        "openapi/openapi.json is out of date: run the tests with {WRITE}=1"
    );
}

#[test]
fn every_operation_is_documented() {
    let document = document();
    let mut ids = HashSet::new();
    for (name, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(
            id.contains('_') && ids.insert(id),
            "{name} needs an operation id verb_resource of its own: {id}"
        );
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name} has no summary");
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{name} has not one tag");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["description"].is_string(), "{name}: {} is not described", parameter["name"]);
        }
    }
}

#[test]
fn every_body_has_a_schema_and_an_example() {
    let document = document();
    for (name, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap().values();
        let bodies = responses.chain([&operation["requestBody"]]).map(|body| resolve(&document, body));
        for (media_type, content) in bodies.flat_map(|body| body["content"].as_object().into_iter().flatten())
        {
            assert!(content["schema"].is_object(), "{name}: {media_type} has no schema");
            let example = !content["example"].is_null() || !content["examples"].is_null();
            assert!(example, "{name}: {media_type} has no example");
        }
    }
}

#[test]
fn every_operation_tells_how_it_refuses() {
    let document = document();
    for (name, operation) in operations(&document).into_iter().filter(|(name, _)| name.contains(" /v1/")) {
        let tells = |status: &str| {
            let content = &resolve(&document, &operation["responses"][status])["content"];
            assert!(content["application/problem+json"].is_object(), "{name} does not tell of {status}");
        };
        ["400", "401", "403", "422", "500", "503"].iter().for_each(|status| tells(status));
        if !operation["requestBody"].is_null() {
            ["408", "413", "415"].iter().for_each(|status| tells(status));
        }
        assert_eq!(operation["security"], json!([{"token": []}]), "{name} asks for no token");
    }
}

#[test]
fn every_post_that_changes_something_takes_an_idempotency_key() {
    // These change nothing, or have a way of their own to be sent twice.
    const NOT: &[&str] = &[
        "/query",
        "/rounds",
        "/verify",
        "/search",
        "/search/{gateway}",
        "/retrieve",
        "/resolve",
        "/check",
        "/import",
    ];
    let document = document();
    for (name, operation) in operations(&document) {
        if name.starts_with("post ") && !NOT.iter().any(|end| name.ends_with(end)) {
            let mut parameters = operation["parameters"].as_array().into_iter().flatten();
            assert!(parameters.any(|parameter| parameter["name"] == "Idempotency-Key"), "{name}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, document: &Value) {
        if value["$ref"].is_string() {
            assert!(!resolve(document, value).is_null(), "{}", value["$ref"]);
        }
        match value {
            Value::Object(members) => members.values().for_each(|member| walk(member, document)),
            Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
            _ => {}
        }
    }
    walk(&document(), &document());
}
