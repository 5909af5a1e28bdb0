//! How each operation can refuse or fail, and the headers of its answers, by rules that hold for all of them.

use serde_json::{Map, Value, json};

use super::super::problem::MEDIA_TYPE;
use super::{REFERENCE, examples, is_api};
use crate::error::Code;

const HEADERS: &str = "#/components/headers/";
const RESPONSES: &str = "#/components/responses/";

/// Adds the responses that follow from what the operation takes, and the headers of all of them.
pub fn add(path: &str, method: &str, operation: &mut Value) {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let has = |place: &str, name: &str| {
        parameters.iter().any(|p| p["in"] == place && (name.is_empty() || p["name"] == name))
    };
    let api = is_api(path);
    let body = operation["requestBody"].is_object();
    let fails = api || path == "/readyz";
    let reads = method == "get" || method == "head";
    let rules = [
        (304, reads && has("header", "If-None-Match")),
        (400, true),
        (401, api),
        (403, api),
        (404, has("path", "")),
        (406, true),
        (408, body),
        (409, api && !reads),
        (412, has("header", "If-Match")),
        (413, body),
        (415, body),
        (422, true),
        (500, fails),
        (503, fails),
    ];
    let tagged = has("header", "If-None-Match") && (reads || method == "put" || method == "patch");
    let replayed = has("header", "Idempotency-Key");
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (status, _) in rules.into_iter().filter(|(_, applies)| *applies) {
        let response = match status {
            304 => json!({"description": "What the client has is current"}),
            status => json!({"$ref": format!("{RESPONSES}{}", component(status))}),
        };
        responses.entry(status.to_string()).or_insert(response);
    }
    for (status, response) in responses.iter_mut().filter(|(_, response)| response["$ref"].is_null()) {
        let status: u16 = status.parse().unwrap_or_default();
        if status >= 400 && !response["content"].is_object() {
            response["content"] = problem_content(status);
        }
        add_headers(response, status, tagged, replayed);
    }
    responses.sort_keys();
}

fn add_headers(response: &mut Value, status: u16, tagged: bool, replayed: bool) {
    if response["headers"].is_null() {
        response["headers"] = json!({});
    }
    let Some(headers) = response["headers"].as_object_mut() else { return };
    let success = (200..300).contains(&status);
    let shared = [
        ("ETag", "EntityTag", tagged && (success || status == 304) || headers.contains_key("ETag")),
        ("Idempotency-Replayed", "IdempotencyReplayed", replayed && success),
        ("Retry-After", "RetryAfter", status == 503 || status == 429),
        ("WWW-Authenticate", "Challenge", status == 401),
        ("X-Request-Id", "RequestId", true),
    ];
    for (name, header, _) in shared.into_iter().filter(|(_, _, applies)| *applies) {
        headers.insert(name.into(), json!({"$ref": format!("{HEADERS}{header}")}));
    }
    // A result that is replayed has the headers that the rules name, and no others.
    for header in headers.values_mut().filter(|header| header["$ref"].is_null()) {
        header["required"] = (!replayed).into();
    }
    headers.sort_keys();
}

/// The headers that the rules name.
pub fn headers() -> Value {
    json!({
        "RequestId": {"description": "Names the request in the service's log.", "required": true,
            "schema": {"type": "string", "format": "uuid"}},
        "EntityTag": {"description": "Strong; changes with the thing. For `If-Match` and `If-None-Match`.", "required": true,
            "schema": {"type": "string", "pattern": "^\"[^\"]+\"$"}, "example": "\"f5.3.1.2\""},
        "RetryAfter": {"description": "When it is worth asking again, in seconds from now.", "required": true,
            "schema": {"type": "integer", "minimum": 0}, "example": 1},
        "Challenge": {"description": "How to authenticate.", "required": true,
            "schema": {"type": "string"}, "example": "Bearer realm=\"slatebase\""},
        "IdempotencyReplayed": {"description": "There, and `true`, where this is the first result under the \
            `Idempotency-Key` once more.", "schema": {"type": "string", "const": "true"}, "example": "true"},
    })
}

/// A response for each status that a problem can have, by the name under which operations refer to it.
pub fn responses(components: &Value) -> Map<String, Value> {
    let mut statuses: Vec<u16> = Code::ALL.iter().map(|code| code.status()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let response = |status| {
        let codes = codes(status).map(|code| format!("`{}`: {}", code.name(), code.title()));
        let description = codes.collect::<Vec<_>>().join("; ");
        let mut response = json!({"description": description, "content": problem_content(status)});
        add_headers(&mut response, status, false, false);
        (component(status), response)
    };
    let mut all: Map<String, Value> = statuses.into_iter().map(response).collect();
    all.values_mut().for_each(|response| complete_examples(response, components));
    all
}

/// Gives the examples of the problems all members that a problem has.
pub fn complete_examples(response: &mut Value, components: &Value) {
    let content = response.get_mut("content").and_then(|content| content.get_mut(MEDIA_TYPE));
    let examples = content.and_then(|content| content.get_mut("examples")?.as_object_mut());
    let Some(examples) = examples else { return };
    for example in examples.values_mut() {
        let mut whole = examples::of(&json!({"$ref": format!("{REFERENCE}Problem")}), components);
        if let (Some(whole), Some(given)) = (whole.as_object_mut(), example["value"].as_object()) {
            whole.extend(given.clone());
            if given["status"] != 422 {
                whole.shift_remove("errors");
            }
        }
        example["value"] = whole;
    }
}

/// A problem, with an example for each code that has the status.
fn problem_content(status: u16) -> Value {
    let example = |code: Code| {
        let mut value =
            json!({"type": format!("/problems/{}", code.name()), "title": code.title(), "status": status});
        if code != Code::Invalid {
            value["detail"] = code.title().into();
        }
        (code.name().to_owned(), json!({"summary": code.title(), "value": value}))
    };
    let examples: Map<String, Value> = codes(status).map(example).collect();
    json!({MEDIA_TYPE: {"schema": {"$ref": format!("{REFERENCE}Problem")}, "examples": examples}})
}

fn codes(status: u16) -> impl Iterator<Item = Code> {
    Code::ALL.iter().copied().filter(move |code| code.status() == status)
}

fn component(status: u16) -> String {
    format!("Problem{status}")
}
