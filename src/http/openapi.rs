//! The OpenAPI document: derived from the handlers by utoipa, then completed here by rules, so that no feature repeats
//! them: the shapes of its schemas (`shapes`), the responses that an operation can give and their headers
//! (`problems`), examples put together from those of the fields (`examples`), and what holds for the whole (`about`).

use std::sync::LazyLock;

use actix_web::dev::ResourceDef;
use serde_json::{Value, json};
use utoipa::OpenApi;
use utoipa_actix_web::{AppExt, scope};

use super::problem::ProblemView;

mod about;
mod examples;
mod problems;
mod shapes;

/// What a reference to a schema begins with.
const REFERENCE: &str = "#/components/schemas/";

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
                       all they were shown. Times are RFC 3339 UTC, sizes are bytes. Every refusal is a problem \
                       (RFC 9457), whose `type` names its kind. Lists are paged: `next_cursor` gives the next page, as \
                       `cursor`, and is null on the last one. Of a stream (`application/x-ndjson`, `text/event-stream`) \
                       the schema is that of one line, or of one event; where a response is JSON, and a \
                       stream only to a request that accepts `application/x-ndjson`, the member `x-ndjson` refers to \
                       the schema of its lines."
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

/// Each operation after its path and method.
fn operations_mut(document: &mut Value) -> impl Iterator<Item = (&String, &String, &mut Value)> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let members = item.as_object_mut().into_iter().flatten();
        members
            .filter(|(_, operation)| operation["responses"].is_object())
            .map(move |(method, operation)| (path, method, operation))
    })
}

/// Whether a path takes a key: all of version 1, and what runtimes look for elsewhere.
fn is_api(path: &str) -> bool {
    path.starts_with("/v1/") || path.starts_with("/corpora/")
}

fn complete(document: &mut Value) {
    shapes::settle(document);
    about::add(document);
    let components = document["components"].clone();
    for (path, method, operation) in operations_mut(document) {
        if method == "head" {
            // The handler is that of GET, and so would be the id.
            let id = operation["operationId"].as_str().unwrap_or_default().replacen("get_", "head_", 1);
            operation["operationId"] = id.into();
        }
        operation["security"] = if is_api(path) { json!([{"token": []}]) } else { json!([]) };
        problems::add(path, method, operation);
        let responses = operation["responses"].as_object_mut().into_iter().flat_map(|all| all.values_mut());
        responses.for_each(|response| problems::complete_examples(response, &components));
        examples::add(operation, &components);
    }
    let mut responses = problems::responses(&components);
    let text = document["paths"].to_string();
    responses.retain(|name, _| text.contains(&format!("/responses/{name}\"")));
    document["components"]["responses"] = responses.into();
    document["components"]["headers"] = problems::headers();
}
