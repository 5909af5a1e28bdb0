//! Holds every answer that a test receives against the OpenAPI document: its status, headers and body are those that the
//! document tells of, or the test fails.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};
use slatebase::http::openapi;

use super::Reply;

/// Paths that the document is not about: pages and their assets, and other protocols.
const OTHERS: &[&str] = &["/docs/", "/mcp"];

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(openapi::text()).unwrap());
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// The document that is served.
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// What a reference leads to, and anything else as it is.
pub fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => document().pointer(pointer).unwrap_or(&Value::Null),
        None => value,
    }
}

/// Why a value does not satisfy a schema of the document; nothing where it does.
pub fn failures(schema: &Value, value: &Value) -> Vec<String> {
    let compile = || {
        let whole = json!({"allOf": [schema], "components": document()["components"]});
        let options = jsonschema::options().should_validate_formats(true);
        Arc::new(options.build(&whole).unwrap_or_else(|error| panic!("{schema}: {error}")))
    };
    let validator = VALIDATORS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(schema.to_string())
        .or_insert_with(compile)
        .clone();
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).take(5).collect()
}

/// Fails where the document does not tell of this answer.
pub fn check(method: &str, path: &str, reply: &Reply) {
    if OTHERS.iter().any(|other| path.starts_with(other)) {
        return;
    }
    let start = &reply.body[..reply.body.len().min(2000)];
    let what = format!("{method} {path} answers {} {}", reply.status, String::from_utf8_lossy(start));
    let told = match operation(method, path) {
        // A path or a method that is not there is refused, in the form of all refusals.
        None => {
            assert!(reply.status >= 400, "{what}\nwhich no operation of the document is about");
            resolve(&document()["components"]["responses"]["Problem400"])
        }
        Some(operation) => resolve(&operation["responses"][reply.status.to_string()]),
    };
    assert!(told.is_object(), "{what}\na status that the document does not tell of");
    for (name, header) in told["headers"].as_object().into_iter().flatten() {
        if let Err(why) = check_header(reply, name, resolve(header)) {
            panic!("{what}\nthe header {name} {why}");
        }
    }
    // The client does not unpack.
    let packed = !reply.header("content-encoding").is_empty();
    if method != "HEAD"
        && !packed
        && let Err(why) = check_body(reply, told)
    {
        panic!("{what}\nthe body {why}");
    }
}

fn check_header(reply: &Reply, name: &str, header: &'static Value) -> Result<(), String> {
    let Some(value) = reply.headers.get(name) else {
        return if header["required"] == true { Err("is not there".into()) } else { Ok(()) };
    };
    let text = value.to_str().map_err(|_| "is no text")?;
    let schema = &header["schema"];
    let value = match schema["type"].as_str() {
        Some("integer") => text.parse::<i64>().map_or(json!(text), Value::from),
        _ => json!(text),
    };
    match failures(schema, &value) {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(wrong.join("; ")),
    }
}

fn check_body(reply: &Reply, told: &'static Value) -> Result<(), String> {
    let media_type = reply.header("content-type").split(';').next().unwrap_or_default().trim();
    let Some(contents) = told["content"].as_object() else {
        return if reply.body.is_empty() { Ok(()) } else { Err("is there, and none is documented".into()) };
    };
    if media_type == "application/x-ndjson" && told["x-ndjson"].is_object() {
        return check_lines(reply.text().lines(), &told["x-ndjson"]);
    }
    let content = contents.get(media_type).or_else(|| contents.get("*/*"));
    let Some(content) = content else { return Err(format!("is {media_type}, which is not documented")) };
    let schema = &content["schema"];
    match media_type {
        "application/x-ndjson" => check_lines(reply.text().lines(), schema),
        "text/event-stream" => {
            let data = &schema["properties"]["data"]["contentSchema"];
            check_lines(reply.text().lines().filter_map(|line| line.strip_prefix("data: ")), data)
        }
        _ if resolve(schema)["format"] == "binary" => Ok(()),
        kind if kind.ends_with("json") => {
            let value =
                serde_json::from_slice(&reply.body).map_err(|error| format!("is no JSON: {error}"))?;
            valid(schema, &value)
        }
        _ => valid(schema, &json!(reply.text())),
    }
}

/// Each line of a stream; one that was cut off has an end that is no JSON.
fn check_lines<'a>(lines: impl Iterator<Item = &'a str>, schema: &Value) -> Result<(), String> {
    for line in lines.filter(|line| !line.is_empty()) {
        let value =
            serde_json::from_str(line).map_err(|error| format!("has a line that is no JSON: {error}"))?;
        valid(schema, &value).map_err(|why| format!("has a line {line:.500} {why}"))?;
    }
    Ok(())
}

fn valid(schema: &Value, value: &Value) -> Result<(), String> {
    match failures(schema, value) {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(format!("does not satisfy {schema}:\n{}", wrong.join("\n"))),
    }
}

/// The operation of a method and a path, by the template that has most of the path's own text.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let paths = document()["paths"].as_object()?;
    let matching = paths.iter().filter(|(template, _)| matches(template, path));
    let (_, item) = matching.min_by_key(|(template, _)| template.matches('{').count())?;
    item.get(method.to_lowercase())
}

fn matches(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            // A file's or a folder's path is the rest.
            (Some("{path}"), Some(_)) => return true,
            (Some(part), Some(text)) if part == text || part.starts_with('{') && !text.is_empty() => {}
            _ => return false,
        }
    }
}
