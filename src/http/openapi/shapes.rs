//! The shapes of the document's schemas, as validators and generators of clients take them.
//!
//! Utoipa derives a flattened member as `allOf` of schemas that may each be closed, which nothing then satisfies; a page as
//! a copy of its item; the variants of a union without names; bytes as an array of integers. Here each gets the shape that
//! says what is sent.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{REFERENCE, operations_mut};

/// Media types of streams whose schema is that of one line, or of one event.
pub const STREAMS: &[&str] = &["application/x-ndjson", "text/event-stream"];

/// Where the schema of a line is told, of a response that is a stream only where it is asked for.
const LINES: &str = "x-ndjson";

/// Settles all schemas of the document.
pub fn settle(document: &mut Value) {
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        flatten(schemas);
        name_pages(schemas);
        name_variants(schemas);
        schemas.sort_keys();
        schemas.values_mut().for_each(|schema| {
            each_schema(schema, &mut open_free_objects);
            each_schema(schema, &mut describe_defaults);
        });
    }
    for (_, _, operation) in operations_mut(document) {
        tell_streams_apart(operation);
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten();
        parameters.filter_map(|parameter| parameter.get_mut("schema")).for_each(never_null);
        let body = operation.get_mut("requestBody").and_then(|body| body.get_mut("content")?.as_object_mut());
        let contents = body.into_iter().flat_map(|contents| contents.values_mut());
        contents.filter_map(|content| content.get_mut("schema")).for_each(never_null);
        each_content(operation, &mut |_, content| {
            if let Some(schema) = content.get_mut("schema") {
                each_schema(schema, &mut bytes_are_binary);
                each_schema(schema, &mut open_free_objects);
            }
        });
    }
    null_is_absent(document);
    rename_pages(document);
    leave_out_unused(document);
}

/// What may be left out of a body may be null as well: it is read as if it were left out.
fn null_is_absent(document: &mut Value) {
    let mut named = Vec::new();
    operations_mut(document).for_each(|(_, _, operation)| references(&operation["requestBody"], &mut named));
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    let bodies = reachable(schemas, named);
    for (_, schema) in schemas.iter_mut().filter(|(name, _)| bodies.contains(*name)) {
        each_schema(schema, &mut |members| {
            let required = members.get("required").cloned().unwrap_or_default();
            let is_required =
                |name: &str| required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
            let properties =
                members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
            properties.filter(|(name, _)| !is_required(name)).for_each(|(_, schema)| may_be_null(schema));
        });
    }
}

fn may_be_null(schema: &mut Value) {
    let null = json!({"type": "null"});
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(reference) = members.remove("$ref") {
        members.insert("oneOf".to_owned(), json!([{"type": "null"}, {"$ref": reference}]));
        return;
    }
    for union in ["oneOf", "anyOf"] {
        if let Some(all) = members.get_mut(union).and_then(Value::as_array_mut)
            && !all.contains(&null)
        {
            all.insert(0, null.clone());
        }
    }
    let Some(kind) = members.get_mut("type") else { return };
    match kind {
        Value::String(one) if one != "null" => *kind = json!([one, "null"]),
        Value::Array(all) if !all.contains(&json!("null")) => all.push(json!("null")),
        _ => return,
    }
    if let Some(all) = members.get_mut("enum").and_then(Value::as_array_mut) {
        all.push(Value::Null);
    }
}

/// Leaves out the schemas that no operation refers to: of those, what tells of a stream's lines holds a copy.
fn leave_out_unused(document: &mut Value) {
    let all = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let mut named = vec!["Problem".to_owned()];
    references(&document["paths"], &mut named);
    let used = reachable(&all, named);
    for (_, _, operation) in operations_mut(document) {
        let responses = operation["responses"].as_object_mut().into_iter().flat_map(|all| all.values_mut());
        responses
            .filter_map(|response| response.get_mut(LINES))
            .for_each(|lines| copy_unused(lines, &all, &used));
    }
    let schemas: Map<String, Value> = all.into_iter().filter(|(name, _)| used.contains(name)).collect();
    document["components"]["schemas"] = schemas.into();
}

/// The names, and those of all schemas that these refer to, directly or not.
fn reachable(all: &Map<String, Value>, mut names: Vec<String>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    while let Some(name) = names.pop() {
        if reached.insert(name.clone()) {
            references(all.get(&name).unwrap_or(&Value::Null), &mut names);
        }
    }
    reached
}

/// The names of the schemas that a part of the document refers to.
fn references(value: &Value, names: &mut Vec<String>) {
    names.extend(referenced(value).map(String::from));
    match value {
        Value::Object(members) => {
            members
                .iter()
                .filter(|(name, _)| *name != LINES)
                .for_each(|(_, member)| references(member, names));
        }
        Value::Array(elements) => elements.iter().for_each(|element| references(element, names)),
        _ => {}
    }
}

fn copy_unused(schema: &mut Value, all: &Map<String, Value>, used: &BTreeSet<String>) {
    if let Some(name) = referenced(schema).filter(|name| !used.contains(*name)) {
        *schema = all.get(name).cloned().unwrap_or_default();
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(|member| copy_unused(member, all, used)),
        Value::Array(elements) => elements.iter_mut().for_each(|element| copy_unused(element, all, used)),
        _ => {}
    }
}

/// Calls `f` with each media type of an operation's bodies, and what is said of it.
pub fn each_content(operation: &mut Value, f: &mut impl FnMut(&str, &mut Map<String, Value>)) {
    let Some(operation) = operation.as_object_mut() else { return };
    for (member, value) in operation.iter_mut() {
        let bodies: Vec<&mut Value> = match member.as_str() {
            "requestBody" => vec![value],
            "responses" => value.as_object_mut().into_iter().flat_map(|all| all.values_mut()).collect(),
            _ => continue,
        };
        let contents = bodies.into_iter().filter_map(|body| body.get_mut("content")?.as_object_mut());
        for (media_type, content) in contents.flatten() {
            content.as_object_mut().into_iter().for_each(|content| f(media_type, content));
        }
    }
}

/// Calls `f` with a schema, and with all that it is made of.
fn each_schema(schema: &mut Value, f: &mut impl FnMut(&mut Map<String, Value>)) {
    let Some(members) = schema.as_object_mut() else { return };
    f(members);
    for (keyword, value) in members.iter_mut() {
        match keyword.as_str() {
            "properties" => value
                .as_object_mut()
                .into_iter()
                .flat_map(|all| all.values_mut())
                .for_each(|s| each_schema(s, f)),
            "oneOf" | "anyOf" | "allOf" => {
                value.as_array_mut().into_iter().flatten().for_each(|s| each_schema(s, f))
            }
            "items" | "additionalProperties" | "propertyNames" | "not" => each_schema(value, f),
            _ => {}
        }
    }
}

fn referenced(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(REFERENCE)
}

/// Makes one object of each `allOf`: of schemas that are each closed, no object satisfies more than one.
fn flatten(schemas: &mut Map<String, Value>) {
    let all = schemas.clone();
    for schema in schemas.values_mut() {
        each_schema(schema, &mut |members| {
            if members.contains_key("allOf") {
                *members = merged(members, &all);
            }
        });
    }
}

fn merged(members: &Map<String, Value>, all: &Map<String, Value>) -> Map<String, Value> {
    let (mut properties, mut required, mut rest) = (Map::new(), Vec::new(), members.clone());
    for part in members["allOf"].as_array().into_iter().flatten() {
        let part = referenced(part).and_then(|name| all.get(name)).unwrap_or(part);
        let Some(part) = part.as_object() else { continue };
        let part = if part.contains_key("allOf") { merged(part, all) } else { part.clone() };
        properties.extend(part.get("properties").and_then(Value::as_object).cloned().unwrap_or_default());
        required.extend(part.get("required").and_then(Value::as_array).cloned().unwrap_or_default());
        // A part that takes any further member lets the whole take them.
        if part.get("additionalProperties") == Some(&Value::Bool(true)) {
            rest.insert("additionalProperties".into(), true.into());
        }
    }
    rest.remove("allOf");
    rest.insert("type".into(), "object".into());
    rest.insert("properties".into(), properties.into());
    rest.insert("required".into(), required.into());
    rest
}

/// `Page_Slate`, which holds a copy of its items' schema, becomes `SlatePage`, which refers to it.
fn name_pages(schemas: &mut Map<String, Value>) {
    let pages: Vec<String> = schemas.keys().filter(|name| name.starts_with("Page_")).cloned().collect();
    for name in pages {
        let (Some(mut page), Some(item)) = (schemas.remove(&name), name.strip_prefix("Page_")) else {
            continue;
        };
        let items = &mut page["properties"]["items"]["items"];
        let copy = std::mem::replace(items, json!({"$ref": format!("{REFERENCE}{item}")}));
        schemas.entry(item).or_insert(copy);
        schemas.insert(format!("{item}Page"), page);
    }
}

/// Lets what referred to `Page_Slate` refer to `SlatePage`.
fn rename_pages(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(item) =
                    reference.strip_prefix(REFERENCE).and_then(|name| name.strip_prefix("Page_"))
            {
                *reference = format!("{REFERENCE}{item}Page");
            }
            members.values_mut().for_each(rename_pages);
        }
        Value::Array(elements) => elements.iter_mut().for_each(rename_pages),
        _ => {}
    }
}

/// Gives each variant of a union that has a tag a schema of its own, and the union its discriminator.
fn name_variants(schemas: &mut Map<String, Value>) {
    let mut named = Map::new();
    for (name, schema) in schemas.iter_mut() {
        let Some(tag) = tag_of(schema) else { continue };
        let mut mapping = Map::new();
        for variant in schema["oneOf"].as_array_mut().into_iter().flatten() {
            let word = variant["properties"][&tag]["enum"][0].as_str().unwrap_or_default().to_owned();
            variant["properties"][&tag] =
                json!({"type": "string", "const": word, "description": "The kind."});
            let reference = format!("{REFERENCE}{name}{}", capitalised(&word));
            let variant = std::mem::replace(variant, json!({"$ref": reference}));
            named.insert(format!("{name}{}", capitalised(&word)), variant);
            mapping.insert(word, reference.into());
        }
        schema["discriminator"] = json!({"propertyName": tag, "mapping": mapping});
    }
    schemas.extend(named);
}

/// The member that every variant has with one value of its own.
fn tag_of(schema: &Value) -> Option<String> {
    let variants = schema["oneOf"].as_array()?;
    let is_tag = |name: &str| {
        let has = |variant: &Value| {
            variant["properties"][name]["enum"].as_array().is_some_and(|words| words.len() == 1)
        };
        variants.iter().all(has)
    };
    variants.first()?["properties"].as_object()?.keys().find(|name| is_tag(name)).cloned()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// An object of which no member is named may have any: this says so.
fn open_free_objects(schema: &mut Map<String, Value>) {
    let object = match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => false,
    };
    if object && !schema.contains_key("properties") && !schema.contains_key("additionalProperties") {
        schema.insert("additionalProperties".into(), true.into());
    }
}

/// A parameter or a body may be left out, and is never null.
fn never_null(schema: &mut Value) {
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            schema["type"] = kind.clone();
        }
    }
    let choices = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    let other = choices.and_then(|choices| {
        choices.retain(|choice| choice["type"] != "null");
        <[Value; 1]>::try_from(choices.clone()).ok()
    });
    if let Some([other]) = other {
        *schema = other;
    }
}

/// An event as Server-Sent Events write it, whose data are JSON of a schema.
fn event_of(data: Value) -> Value {
    json!({"type": "object", "required": ["id", "event", "data"], "properties": {
        "id": {"type": "string", "description": "Counts the session's events, from 1.", "example": "2"},
        "event": {"type": "string", "description": "The kind.", "example": "finished"},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data,
            "description": "What happened, as one line of JSON.",
            "example": "{\"kind\":\"finished\",\"status\":\"answered\"}"}}})
}

/// Generators take a member that has a default for one that is always there, and so must be sent: the description tells of
/// it instead.
fn describe_defaults(schema: &mut Map<String, Value>) {
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for member in members.into_iter().flat_map(|members| members.values_mut()) {
        let Some(member) = member.as_object_mut() else { continue };
        let Some(default) = member.remove("default") else { continue };
        let told = member.get("description").and_then(Value::as_str).unwrap_or_default();
        let told = format!("{told} By default `{default}`.").trim_start().to_owned();
        member.insert("description".into(), told.into());
        member.entry("example").or_insert(default);
    }
}

/// The schema of `Vec<u8>` is an array of integers, which nothing here sends or takes.
fn bytes_are_binary(schema: &mut Map<String, Value>) {
    let of_bytes =
        schema.get("items").is_some_and(|items| items["type"] == "integer" && items["minimum"] == 0);
    if of_bytes && schema["type"] == "array" {
        *schema = Map::from_iter([("type".into(), "string".into()), ("format".into(), "binary".into())]);
    }
}

/// Of a response that is JSON, or a stream where the request accepts one, generators would make a union: its content is the
/// JSON, and the schema of the stream's lines stands beside it.
fn tell_streams_apart(operation: &mut Value) {
    for response in operation["responses"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        let Some(content) = response.get_mut("content").and_then(Value::as_object_mut) else { continue };
        if let Some(events) = content.get_mut("text/event-stream") {
            events["schema"] = event_of(events["schema"].take());
        }
        // Generators take the first media type that they know.
        if let Some(any) = content.shift_remove("*/*") {
            content.insert("*/*".into(), any);
        }
        if content.contains_key("application/json")
            && let Some(stream) = content.shift_remove("application/x-ndjson")
        {
            response[LINES] = stream["schema"].clone();
        }
    }
}
