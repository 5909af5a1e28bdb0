//! Schemas of what tools give, taken from the API's document: a tool gives what its operation gives.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

use crate::http::openapi;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(openapi::text()).unwrap_or_default());

const COMPONENTS: &str = "#/components/schemas/";

/// The schema of an operation's JSON answer, complete in itself.
pub(super) fn output(operation_id: &str) -> Option<JsonObject> {
    let paths = DOCUMENT["paths"].as_object()?;
    let mut operations = paths.values().filter_map(Value::as_object).flat_map(Map::values);
    let operation = operations.find(|operation| operation["operationId"] == operation_id)?;
    let responses = operation["responses"].as_object()?;
    let schema = ["200", "201"].iter().find_map(|status| {
        let schema = &responses.get(*status)?["content"]["application/json"]["schema"];
        schema.is_object().then(|| schema.clone())
    })?;
    complete(schema)
}

/// The schema with all that it refers to under `$defs`, and an object at its root, as the protocol asks.
fn complete(mut schema: Value) -> Option<JsonObject> {
    let mut root = match schema["$ref"].as_str().and_then(component) {
        Some(component) => component.clone(),
        None => schema.take(),
    };
    let (mut known, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    rewrite(&mut root, &mut wanted);
    let mut definitions = Map::new();
    while let Some(name) = wanted.pop_first() {
        if known.insert(name.clone())
            && let Some(component) = DOCUMENT["components"]["schemas"].get(&name)
        {
            let mut component = component.clone();
            rewrite(&mut component, &mut wanted);
            definitions.insert(name, component);
        }
    }
    let root = root.as_object_mut()?;
    root.entry("type").or_insert_with(|| json!("object"));
    if !definitions.is_empty() {
        root.insert("$defs".into(), definitions.into());
    }
    Some(std::mem::take(root))
}

/// A schema that is complete in itself, as the protocol asks for it.
pub(super) fn whole(mut schema: Value) -> JsonObject {
    rewrite(&mut schema, &mut BTreeSet::new());
    let mut root = schema.as_object().cloned().unwrap_or_default();
    root.entry("type").or_insert_with(|| json!("object"));
    root
}

fn component(reference: &str) -> Option<&'static Value> {
    DOCUMENT["components"]["schemas"].get(reference.strip_prefix(COMPONENTS)?)
}

/// Points references into `$defs`, notes them, and leaves examples out: nobody makes up an answer.
fn rewrite(schema: &mut Value, wanted: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(name) = members.get("$ref").and_then(|r| r.as_str()?.strip_prefix(COMPONENTS)) {
                let name = name.to_owned();
                members.insert("$ref".into(), format!("#/$defs/{name}").into());
                wanted.insert(name);
            }
            // What means nothing without the API's document.
            for annotation in ["example", "examples", "discriminator"] {
                if members
                    .get(annotation)
                    .is_some_and(|value| !value.get("type").is_some_and(Value::is_string))
                {
                    members.remove(annotation);
                }
            }
            members.values_mut().for_each(|member| rewrite(member, wanted));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| rewrite(element, wanted)),
        _ => {}
    }
}
