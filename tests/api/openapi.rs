//! The OpenAPI document is current and complete.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use slatebase::http::openapi;
use syn::visit::Visit;

use crate::support::contract::failures;
use crate::support::{Caller, Reply, Server};

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

/// A reference to a schema names one type: of two that claim a name, the document would hold the last one.
#[test]
fn no_two_types_claim_one_schema_name() {
    let mut claims: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in walkdir::WalkDir::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let file = file.unwrap().into_path();
        if file.extension().is_some_and(|extension| extension == "rs") {
            let source = syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap();
            let mut types = Types(Vec::new());
            types.visit_file(&source);
            for name in types.0 {
                claims.entry(name).or_default().push(file.display().to_string());
            }
        }
    }
    assert!(claims.len() > 100 && claims.contains_key("Problem"), "{claims:?}");
    claims.retain(|_, files| files.len() > 1);
    assert!(claims.is_empty(), "give each a name of its own by #[schema(as = …)]: {claims:#?}");
}

/// The schema names of the types that derive `ToSchema`.
struct Types(Vec<String>);

impl Types {
    fn add(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        let of = |name: &'static str| {
            let lists = attributes.iter().filter_map(|attribute| attribute.meta.require_list().ok());
            lists.filter(move |list| list.path.is_ident(name)).map(|list| list.tokens.to_string())
        };
        let given = of("schema").find_map(|text| {
            let (_, after) = text.split_once("as = ")?;
            Some(after.split(|c: char| !c.is_alphanumeric()).next()?.to_owned())
        });
        if of("derive").any(|text| text.contains("ToSchema")) {
            self.0.push(given.unwrap_or_else(|| name.to_string()));
        }
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident, &item.attrs);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident, &item.attrs);
    }
}

#[test]
fn every_operation_has_a_tag_of_the_list_and_a_way_to_authenticate() {
    let document = document();
    let tags: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let mut met = HashSet::new();
    for (name, operation) in operations(&document) {
        let tag = &operation["tags"][0];
        assert!(tags.contains(&tag), "{name}: {tag}");
        met.insert(tag);
        assert!(operation["security"].is_array(), "{name}");
    }
    assert_eq!(met.len(), tags.len(), "a tag has no operation");
    for tag in document["tags"].as_array().unwrap() {
        let sentences = tag["description"].as_str().unwrap().split(". ").count();
        assert_eq!(sentences, 2, "{}", tag["name"]);
    }
}

/// Every example, with its schema and where it stands.
fn examples(document: &Value) -> Vec<(String, &Value, &Value)> {
    let mut found = Vec::new();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    schemas.iter().for_each(|(name, schema)| of_schema(name, schema, &mut found));
    for (name, header) in document["components"]["headers"].as_object().unwrap() {
        of_content(name, header, &mut found);
    }
    let shared = document["components"]["responses"].as_object().unwrap();
    shared.iter().for_each(|(name, response)| of_body(name, response, &mut found));
    for (name, operation) in operations(document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            of_content(&format!("{name} {}", parameter["name"]), parameter, &mut found);
        }
        let responses = operation["responses"].as_object().unwrap().iter();
        responses.for_each(|(status, response)| of_body(&format!("{name} {status}"), response, &mut found));
        of_body(&name, &operation["requestBody"], &mut found);
    }
    found
}

fn of_body<'a>(name: &str, body: &'a Value, found: &mut Vec<(String, &'a Value, &'a Value)>) {
    for (media_type, content) in body["content"].as_object().into_iter().flatten() {
        of_content(&format!("{name} {media_type}"), content, found);
    }
}

fn of_content<'a>(name: &str, content: &'a Value, found: &mut Vec<(String, &'a Value, &'a Value)>) {
    found.extend(content.get("example").map(|example| (name.to_owned(), &content["schema"], example)));
    for (key, example) in content["examples"].as_object().into_iter().flatten() {
        found.push((format!("{name} {key}"), &content["schema"], &example["value"]));
    }
    of_schema(name, &content["schema"], found);
}

fn of_schema<'a>(name: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value, &'a Value)>) {
    if !schema.is_object() {
        return;
    }
    let own = ["example", "default"].iter().filter_map(|keyword| schema.get(*keyword));
    let all = own.chain(schema["examples"].as_array().into_iter().flatten());
    found.extend(all.map(|example| (name.to_owned(), schema, example)));
    for (member, schema) in schema["properties"].as_object().into_iter().flatten() {
        of_schema(&format!("{name}.{member}"), schema, found);
    }
    for keyword in ["items", "additionalProperties"] {
        of_schema(&format!("{name} {keyword}"), &schema[keyword], found);
    }
    for keyword in ["oneOf", "anyOf"] {
        for schema in schema[keyword].as_array().into_iter().flatten() {
            of_schema(&format!("{name} {keyword}"), schema, found);
        }
    }
}

#[test]
fn every_example_satisfies_its_schema() {
    let document = document();
    let examples = examples(&document);
    assert!(examples.len() > 500, "{}", examples.len());
    let wrong = examples.iter().filter_map(|(name, schema, example)| {
        let failures = failures(schema, example);
        (!failures.is_empty()).then(|| format!("{name}: {example}\n    {}", failures.join("\n    ")))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), examples.len(), wrong.join("\n"));
}

/// An operation with a body, as its method and its path with the examples of its parameters.
struct Sending {
    name: String,
    method: String,
    path: String,
    body: Value,
}

/// Those that make what others need come first.
fn operations_with_bodies(document: &Value, session: &str) -> Vec<Sending> {
    let with_bodies = operations(document).into_iter().filter(|(_, o)| o["requestBody"].is_object());
    let mut all: Vec<Sending> = with_bodies
        .map(|(name, operation)| {
            let (method, template) = name.split_once(' ').unwrap();
            let mut path = template.to_owned();
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let marker = format!("{{{}}}", parameter["name"].as_str().unwrap());
                let example = parameter["example"].as_str().unwrap_or_default();
                path = path.replace(&marker, if marker == "{id}" { session } else { example });
            }
            let (method, body) = (method.to_uppercase(), operation["requestBody"].clone());
            Sending { name, method, path, body }
        })
        .collect();
    all.sort_by_key(|sending| (sending.method != "PUT", sending.path.matches('/').count()));
    all
}

/// A server with what the examples name, a caller who may do everything in it, and an open session.
async fn with_session() -> (Server, Caller, String) {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    caller.put("/v1/slates/Knowledge").await.expect(201);
    caller.put("/v1/slates/Knowledge/folders/docs").await.expect(201);
    let session = json!({"retrieve": {"to": {"slate": "Knowledge"}, "as": "Docs", "maxRounds": 2,
        "requestMatch": {"type": "object", "properties": {"glob": {"type": "string"}}}}});
    let session = caller.post("/v1/sessions").json(session).await.ok(201);
    let id = session["session_id"].as_str().unwrap().to_owned();
    (server, caller, id)
}

async fn send(server: &Server, caller: &Caller, sending: &Sending, media_type: &str, body: String) -> Reply {
    let caller = if sending.path.starts_with("/v1/tenants") { &server.operator } else { caller };
    caller.request(&sending.method, &sending.path).body(media_type, body).await
}

#[tokio::test]
async fn the_examples_of_requests_are_taken() {
    let (server, caller, session) = with_session().await;
    let mut refused = Vec::new();
    for sending in operations_with_bodies(&document(), &session) {
        for (media_type, content) in sending.body["content"].as_object().unwrap() {
            let example = &content["example"];
            let body = example.as_str().map_or_else(|| example.to_string(), String::from);
            let reply = send(&server, &caller, &sending, media_type, body).await;
            // What the example names need not be there; an archive is no text.
            let archive = sending.name.ends_with("/import") && reply.status == 415;
            if matches!(reply.status, 400 | 401 | 403 | 405 | 413 | 415 | 422) && !archive {
                refused.push(format!("{} {media_type}: {} {}", sending.name, reply.status, reply.text()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[tokio::test]
async fn a_body_that_is_required_is_refused_when_it_is_empty() {
    let (server, caller, session) = with_session().await;
    for sending in operations_with_bodies(&document(), &session) {
        for media_type in sending.body["content"].as_object().unwrap().keys() {
            let reply = send(&server, &caller, &sending, media_type, String::new()).await;
            // A file without contents is one, and so is a stream without lines.
            let contents = sending.name.starts_with("put ") && sending.path.contains("/files/");
            let lines = media_type == "application/x-ndjson";
            let taken = reply.status < 300;
            let may = contents || lines || sending.body["required"] != true;
            assert!(may || !taken, "{} {media_type}: {}", sending.name, reply.status);
            assert!(
                sending.body["required"] == true || taken || [404, 409, 422].contains(&reply.status),
                "{} {}",
                sending.name,
                reply.status
            );
        }
    }
}
