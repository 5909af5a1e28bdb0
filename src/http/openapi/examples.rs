//! Examples, put together from those of the fields.

use serde_json::{Map, Value, json};

use super::REFERENCE;
use super::shapes::{STREAMS, each_content};

/// Adds an example to every JSON content of an operation that has none of its own.
pub fn add(operation: &mut Value, components: &Value) {
    let given = operation
        .get("requestBody")
        .and_then(|body| body["content"].as_object())
        .is_some_and(|contents| contents.values().any(|content| content.get("example").is_some()));
    each_content(operation, &mut |media_type, content| {
        let own = content.contains_key("example") || content.contains_key("examples");
        let structured =
            media_type.ends_with("json") || media_type.ends_with("yaml") || STREAMS.contains(&media_type);
        if let (false, true, Some(schema)) = (own, structured, content.get("schema")) {
            let example = of(schema, components);
            content.insert("example".into(), example);
        }
    });
    // An example that was given whole may mean its nulls.
    if !given {
        shorten(operation);
    }
}

/// What a request need not say is left out of its example, not null.
fn shorten(operation: &mut Value) {
    let Some(contents) =
        operation.get_mut("requestBody").and_then(|body| body.get_mut("content")?.as_object_mut())
    else {
        return;
    };
    contents.values_mut().filter_map(|content| content.get_mut("example")).for_each(leave_out_nulls);
}

fn leave_out_nulls(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.values_mut().for_each(leave_out_nulls);
        members.retain(|_, member| {
            !member.is_null() && member.as_object().is_none_or(|inner| !inner.is_empty())
        });
    }
}

/// An example of a schema, from the examples of its parts.
pub fn of(schema: &Value, components: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.strip_prefix(REFERENCE)) {
        return of(&components["schemas"][name], components);
    }
    let given = ["example", "default", "const"].iter().find_map(|keyword| schema.get(*keyword));
    let first = ["examples", "enum"].iter().find_map(|keyword| schema.get(*keyword)?.get(0));
    if let Some(own) = given.or(first) {
        return own.clone();
    }
    for choice in ["oneOf", "anyOf"] {
        let choices = schema[choice].as_array().into_iter().flatten();
        if let Some(first) =
            choices.clone().find(|choice| choice["type"] != "null").or(choices.clone().next())
        {
            return of(first, components);
        }
    }
    let kinds = schema["type"]
        .as_array()
        .map_or(&schema["type"], |kinds| kinds.iter().find(|kind| *kind != "null").unwrap_or(&Value::Null));
    let optional = schema["type"].is_array();
    match kinds.as_str() {
        // What may be null and has no example of its own is left at that.
        Some("object") if !optional => of_object(schema, components),
        Some("array") if !optional => json!([of(&schema["items"], components)]),
        Some("boolean") if !optional => json!(true),
        Some("integer" | "number") if !optional => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("string") => match schema["format"].as_str() {
            Some("date-time") => json!("2026-01-31T12:00:00Z"),
            Some("uuid") => json!("01890a5d-ac96-774b-bcce-b302099a8057"),
            _ if optional => Value::Null,
            _ => json!("text"),
        },
        // Null where that is allowed, and where anything is.
        _ => Value::Null,
    }
}

fn of_object(schema: &Value, components: &Value) -> Value {
    let members = schema["properties"].as_object().into_iter().flatten();
    let members: Map<_, _> = members.map(|(name, member)| (name.clone(), of(member, components))).collect();
    members.into()
}
