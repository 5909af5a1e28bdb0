//! The OpenAPI document: derived from the handlers by utoipa, then completed here by rules, so that no feature repeats
//! them: the security scheme, the problem responses that an operation can give, and examples put together from those of
//! the fields.

use std::sync::LazyLock;

use actix_web::dev::ResourceDef;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;
use utoipa_actix_web::{AppExt, scope};

use super::problem::{MEDIA_TYPE, ProblemView};
use crate::error::Code;

static DOCUMENT: LazyLock<Document> = LazyLock::new(build);

struct Document {
    text: String,
    routes: Vec<(ResourceDef, String)>,
}

/// The document as it is committed and served: JSON, indented, with a newline at its end.
pub fn text() -> &'static str {
    &DOCUMENT.text
}

/// The methods that a path takes, as `Allow` lists them; empty where there is no such path.
pub fn methods(path: &str) -> String {
    let matching: Vec<&str> = DOCUMENT
        .routes
        .iter()
        .filter(|(route, _)| route.is_match(path))
        .map(|(_, methods)| &methods[..])
        .collect();
    matching.join(", ")
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Slatebase",
        description = "A multi-tenant store of knowledge that LLM agents read deterministically, with provenance for \
                       all they were shown."
    ),
    components(schemas(ProblemView))
)]
struct Base;

fn build() -> Document {
    let (_, api) = actix_web::App::new()
        .into_utoipa_app()
        .openapi(Base::openapi())
        .service(scope("/v1").configure(super::configure))
        .service(scope("/corpora").configure(crate::corpora::api::configure_search))
        .configure(super::service::configure)
        .split_for_parts();
    // A document made of plain structures is always JSON.
    let mut document = serde_json::to_value(api).unwrap_or_default();
    complete(&mut document);
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    Document { routes: routes(&document), text }
}

fn routes(document: &Value) -> Vec<(ResourceDef, String)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths
        .map(|(path, item)| {
            let methods: Vec<String> = operations(item).map(|(method, _)| method.to_uppercase()).collect();
            (ResourceDef::new(path.replace("{path}", "{path:.*}")), methods.join(", "))
        })
        .collect()
}

fn operations(item: &Value) -> impl Iterator<Item = (&String, &Value)> {
    item.as_object().into_iter().flatten().filter(|(_, operation)| operation["responses"].is_object())
}

/// Whether a path takes a key: all of version 1, and what runtimes look for elsewhere.
fn is_api(path: &str) -> bool {
    path.starts_with("/v1/") || path.starts_with("/corpora/")
}

fn complete(document: &mut Value) {
    document["components"]["securitySchemes"] = json!({"token": {"type": "http", "scheme": "bearer",
        "description": "An API key of a tenant, `slb_<tenant number>_<key id>_<secret>`, or the operator token."}});
    let components = document["components"].clone();
    let mut statuses = Vec::new();
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for (path, item) in paths.iter_mut() {
        let methods: Vec<String> = operations(item).map(|(method, _)| method.clone()).collect();
        for method in methods {
            let operation = &mut item[&method];
            if method == "head" {
                // The handler is that of GET, and so would be the id.
                let id = operation["operationId"].as_str().unwrap_or_default().replacen("get_", "head_", 1);
                operation["operationId"] = id.into();
            }
            if is_api(path) {
                operation["security"] = json!([{"token": []}]);
            }
            add_problems(path, &method, operation, &mut statuses);
            add_examples(operation, &components);
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    let responses: Map<String, Value> =
        statuses.iter().map(|status| (component(*status), problem_response(*status, &components))).collect();
    document["components"]["responses"] = responses.into();
}

/// Adds the problem responses that follow from what the operation takes.
fn add_problems(path: &str, method: &str, operation: &mut Value, statuses: &mut Vec<u16>) {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let has = |place: &str, name: &str| {
        parameters.iter().any(|p| p["in"] == place && (name.is_empty() || p["name"] == name))
    };
    let api = is_api(path);
    let body = operation["requestBody"].is_object();
    let fails = api || path == "/readyz";
    let rules = [
        (304, method != "post" && method != "put" && has("header", "If-None-Match")),
        (400, api),
        (401, api),
        (403, api),
        (404, has("path", "")),
        (408, body),
        (409, has("header", "Idempotency-Key")),
        (412, has("header", "If-Match")),
        (413, body),
        (415, body),
        (422, api),
        (500, fails),
        (503, fails),
    ];
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (status, response) in responses.iter_mut() {
        let described = response["content"].is_object() || response["$ref"].is_string();
        if !described && status.parse().is_ok_and(|status: u16| status >= 400) {
            response["content"] = json!({MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}});
        }
    }
    for (status, _) in rules.into_iter().filter(|(_, applies)| *applies) {
        let response = match status {
            304 => json!({"description": "What the client has is current"}),
            status => json!({"$ref": format!("#/components/responses/{}", component(status))}),
        };
        if !responses.contains_key(&status.to_string()) {
            responses.insert(status.to_string(), response);
            statuses.extend((status >= 400).then_some(status));
        }
    }
    responses.sort_keys();
}

fn component(status: u16) -> String {
    format!("Problem{status}")
}

fn problem_response(status: u16, components: &Value) -> Value {
    let codes: Vec<Code> = Code::ALL.iter().copied().filter(|code| code.status() == status).collect();
    let list: Vec<String> = codes.iter().map(|code| format!("`{}`: {}", code.name(), code.title())).collect();
    let schema = json!({"$ref": "#/components/schemas/Problem"});
    let mut example = example_of(&schema, components);
    if let Some(code) = codes.first() {
        example["type"] = format!("/problems/{}", code.name()).into();
        example["title"] = code.title().into();
        example["status"] = status.into();
        if status != 422 {
            example["detail"] = code.title().into();
            example["errors"] = json!([]);
        }
    }
    json!({"description": list.join("; "), "content": {MEDIA_TYPE: {"schema": schema, "example": example}}})
}

/// Adds an example to every JSON content that has none of its own.
fn add_examples(operation: &mut Value, components: &Value) {
    let Some(operation) = operation.as_object_mut() else { return };
    for (member, value) in operation.iter_mut() {
        let bodies: Vec<&mut Value> = match member.as_str() {
            "requestBody" => vec![value],
            "responses" => value.as_object_mut().into_iter().flat_map(|all| all.values_mut()).collect(),
            _ => continue,
        };
        let contents = bodies.into_iter().filter_map(|body| body.get_mut("content")?.as_object_mut());
        for (media_type, content) in contents.flatten() {
            let Some(content) = content.as_object_mut() else { continue };
            let given = content.contains_key("example") || content.contains_key("examples");
            if let (false, true, Some(schema)) = (given, media_type.ends_with("json"), content.get("schema"))
            {
                let example = example_of(schema, components);
                content.insert("example".into(), example);
            }
        }
    }
}

/// An example of a schema, from the examples of its parts.
fn example_of(schema: &Value, components: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        return example_of(&components["schemas"][name], components);
    }
    let own = [
        &schema["example"],
        &schema["examples"][0],
        &schema["default"],
        &schema["const"],
        &schema["enum"][0],
    ];
    if let Some(own) = own.into_iter().find(|own| !own.is_null()) {
        return own.clone();
    }
    for choice in ["oneOf", "anyOf"] {
        let choices = schema[choice].as_array().into_iter().flatten();
        if let Some(first) =
            choices.clone().find(|choice| choice["type"] != "null").or(choices.clone().next())
        {
            return example_of(first, components);
        }
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let parts = parts.iter().map(|part| example_of(part, components));
        return parts.fold(json!({}), |mut whole, part| {
            if let (Some(whole), Value::Object(part)) = (whole.as_object_mut(), part) {
                whole.extend(part);
            }
            whole
        });
    }
    match schema["type"].as_str() {
        Some("object") => {
            let members = schema["properties"].as_object().into_iter().flatten();
            members
                .map(|(name, member)| (name.clone(), example_of(member, components)))
                .collect::<Map<_, _>>()
                .into()
        }
        Some("array") => json!([example_of(&schema["items"], components)]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("string") => match schema["format"].as_str() {
            Some("date-time") => json!("2026-01-31T12:00:00Z"),
            Some("uuid") => json!("01890a5d-ac96-774b-bcce-b302099a8057"),
            _ => json!("text"),
        },
        // Null where that is allowed, and where anything is.
        _ => Value::Null,
    }
}
