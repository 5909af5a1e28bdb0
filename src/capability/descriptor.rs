//! What `retrieve` is, for whoever decides whether to call it (provenance, "Descriptor").

use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::outcome::Retrieval;
use super::request::Asked;

/// The descriptor.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Descriptor {
    /// `retrieve`.
    #[schema(example = "retrieve")]
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// JSON Schema of the body of a call.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// JSON Schema of the answer.
    #[schema(value_type = Object)]
    pub output_schema: Value,
    /// Whether it changes anything.
    pub mutation: bool,
    /// Whether a checkpoint must be made before.
    pub requires_checkpoint: bool,
    /// Whether somebody must approve.
    pub requires_approval: bool,
    /// `low`.
    #[schema(example = "low")]
    pub risk: &'static str,
}

/// The descriptor of `retrieve`.
pub fn descriptor() -> Descriptor {
    Descriptor {
        name: "retrieve",
        description: "Fetches one identified thing from a file, a web page, an API or a database, with its citation, \
                      integrity, freshness, extraction and confidence.",
        input_schema: json_schema::<Asked>("What to retrieve"),
        output_schema: output_schema(),
        mutation: false,
        requires_checkpoint: false,
        requires_approval: false,
        risk: "low",
    }
}

/// The JSON Schema of the output contract, with all that it refers to.
pub fn output_schema() -> Value {
    json_schema::<Retrieval>("What was retrieved")
}

/// The schema of a type as a document of its own: in OpenAPI 3.1 the schemas are those of JSON Schema 2020-12, and only
/// the place that references lead to differs.
fn json_schema<T: ToSchema>(title: &str) -> Value {
    let mut below = Vec::new();
    T::schemas(&mut below);
    let definitions: Map<String, Value> = below
        .into_iter()
        .map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default()))
        .collect();
    let mut schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title});
    if let (Some(schema), Ok(Value::Object(own))) =
        (schema.as_object_mut(), serde_json::to_value(T::schema()))
    {
        schema.extend(own);
        schema.insert("$defs".into(), definitions.into());
    }
    point_to_definitions(&mut schema);
    schema
}

fn point_to_definitions(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref") {
                *reference = reference.replace("#/components/schemas/", "#/$defs/");
            }
            members.values_mut().for_each(point_to_definitions);
        }
        Value::Array(elements) => elements.iter_mut().for_each(point_to_definitions),
        _ => {}
    }
}
