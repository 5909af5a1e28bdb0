//! What a capability says (corpora, "Retrieve tools").

use chrono::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::corpora::entry::{Id, Status, http_url, secret};
use crate::error::{Error, FieldError, Result};
use crate::routes::version::{Version, Versioned};
use crate::schema::Schema;

/// The capability that every tenant has: the modes of a retrieval request, over the scope's corpora in slates.
pub const BUILT_IN: &str = "slate_retrieve";
/// Its only version.
pub const BUILT_IN_VERSION: &str = "1";
/// The most bytes of a name for people.
const MAX_NAME: usize = 4096;

/// How a capability is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = InvokeMethod)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// The payload is the query string: texts as they are, anything else as JSON.
    Get,
    /// The payload is the body, as JSON.
    #[default]
    Post,
    /// The same.
    Put,
}

impl Method {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
        }
    }
}

/// Where a capability is reached. With no URL it is empty: calling it does nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Invoke {
    /// The HTTP method.
    #[serde(default)]
    pub method: Method,
    /// An `http` or `https` URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "https://tools.example/weather")]
    pub url: Option<String>,
    /// The name of a stored secret, which is sent as a bearer token; null or `none` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!(null))]
    pub auth: Option<String>,
}

/// What a version of a capability says; a PUT gives all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Capability {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "The weather")]
    pub display_name: Option<String>,
    /// The JSON Schema that a payload satisfies before it is sent.
    #[schema(value_type = Object, example = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}))]
    pub input_schema: Value,
    /// The JSON Schema that an answer satisfies, and whose properties are all that is kept of it.
    #[schema(value_type = Object, example = json!({"type": "object", "properties": {"degrees": {"type": "number"}}}))]
    pub output_schema: Value,
    /// Where it is reached; null where it is nowhere, and calling it does nothing.
    pub invoke: Option<Invoke>,
}

impl Capability {
    /// Where it is reached; none where its `invoke` is empty.
    pub fn reached(&self) -> Option<(&Invoke, &str)> {
        let invoke = self.invoke.as_ref()?;
        invoke.url.as_deref().map(|url| (invoke, url))
    }

    /// The capability that every tenant has.
    pub fn built_in() -> Capability {
        let texts = json!({"type": "array", "items": {"type": "string"}});
        Capability {
            display_name: Some("Retrieve from slates".into()),
            input_schema: json!({"type": "object", "properties": {
                "corpus": {"type": "string", "description": "A corpus of the scope; left out, all of them that are in slates."},
                "files": texts, "subfolders": texts,
                "metatag": {"type": "object", "properties": {"name": {"type": "string"}, "contains": {"type": "string"}},
                    "required": ["name"]},
                "glob": {"type": "string"}}}),
            output_schema: json!({"type": "object", "properties": {"items": {"type": "array"}}}),
            invoke: None,
        }
    }
}

impl Capability {
    /// The built-in capability as a row of the catalogue, if that is what is named.
    pub fn built_in_version(id: &str, version: &str) -> Option<Versioned> {
        if (id, version) != (BUILT_IN, BUILT_IN_VERSION) {
            return None;
        }
        Some(Versioned {
            id: Id::parse(id).ok()?,
            version: Version::parse(version).ok()?,
            document: serde_json::to_value(Capability::built_in()).ok()?,
            status: Status::Published,
            revision: 1,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        })
    }
}

/// The body of a PUT.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[schema(as = NewCapability, example = json!({"display_name": "The weather", "status": "published",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "output_schema": {"type": "object", "properties": {"degrees": {"type": "number"}}},
    "invoke": {"method": "POST", "url": "https://tools.example/weather"}}))]
#[serde(deny_unknown_fields)]
pub struct NewCapability {
    /// The id; that of the path, where it is given.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "weather")]
    pub capability_id: Option<Id>,
    /// The version; that of the path, where it is given.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "1")]
    pub version: Option<Version>,
    /// For people.
    #[serde(default)]
    #[schema(example = "The weather")]
    pub display_name: Option<String>,
    /// The JSON Schema that a payload satisfies before it is sent; left out, any object does.
    #[serde(default)]
    #[schema(value_type = Option<Object>, example = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}))]
    pub input_schema: Option<Value>,
    /// The JSON Schema that an answer satisfies, and whose properties are all that is kept of it; left out, all is kept.
    #[serde(default)]
    #[schema(value_type = Option<Object>, example = json!({"type": "object", "properties": {"degrees": {"type": "number"}}}))]
    pub output_schema: Option<Value>,
    /// Where it is reached; empty or left out, calling it does nothing.
    #[serde(default)]
    pub invoke: Option<Invoke>,
    /// Whether it is used.
    #[serde(default)]
    #[schema(example = "published")]
    pub status: Status,
}

impl NewCapability {
    /// What the version is to say.
    ///
    /// # Errors
    /// 422 for each member that is wrong.
    pub fn check(self, id: &Id, version: &Version) -> Result<(Capability, Status)> {
        let mut errors = Vec::new();
        if id.as_str() == BUILT_IN {
            errors.push(FieldError::new("", "the capability of this id is built in"));
        }
        let mut wrong = |at: &str, detail: &str| errors.push(FieldError::new(at, detail));
        if self.capability_id.is_some_and(|given| given != *id) {
            wrong("/capability_id", "is another id than that of the path");
        }
        if self.version.is_some_and(|given| given != *version) {
            wrong("/version", "is another version than that of the path");
        }
        if self.display_name.as_ref().is_some_and(|name| name.len() > MAX_NAME) {
            wrong("/display_name", "may have at most 4096 bytes");
        }
        if let Some(invoke) = &self.invoke {
            if let Some(Err(detail)) = invoke.url.as_deref().map(http_url) {
                wrong("/invoke/url", detail);
            }
            if let Err(detail) = secret(invoke.auth.as_deref()) {
                wrong("/invoke/auth", detail);
            }
        }
        let any = || json!({"type": "object"});
        let (input_schema, output_schema) =
            (self.input_schema.unwrap_or_else(any), self.output_schema.unwrap_or_else(any));
        errors.extend(Schema::compile(&input_schema, "/input_schema").err());
        errors.extend(Schema::compile(&output_schema, "/output_schema").err());
        if !errors.is_empty() {
            return Err(Error::invalid(errors));
        }
        let display_name = self.display_name;
        Ok((Capability { display_name, input_schema, output_schema, invoke: self.invoke }, self.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(id: &str, body: Value) -> Result<(Capability, Status)> {
        let new: NewCapability = serde_json::from_value(body).unwrap();
        new.check(&Id::parse(id).unwrap(), &Version::parse("1").unwrap())
    }

    #[test]
    fn every_wrong_member_is_named() {
        let wrong = json!({"capability_id": "x", "version": 2, "display_name": "x".repeat(5000),
            "input_schema": {"type": 1}, "output_schema": [], "invoke": {"url": "ftp://x", "auth": "a b"}});
        let pointers: Vec<_> = check("t", wrong).unwrap_err().errors.into_iter().map(|e| e.pointer).collect();
        let all = [
            "/capability_id",
            "/version",
            "/display_name",
            "/invoke/url",
            "/invoke/auth",
            "/input_schema/type",
            "/output_schema",
        ];
        assert_eq!(pointers, all);
        assert_eq!(check(BUILT_IN, json!({})).unwrap_err().errors[0].pointer, "");
    }

    #[test]
    fn an_empty_invoke_is_nowhere() {
        for invoke in [json!(null), json!({}), json!({"method": "POST"})] {
            assert!(check("t", json!({"invoke": invoke})).unwrap().0.reached().is_none(), "{invoke}");
        }
        let (there, _) = check("t", json!({"invoke": {"url": "http://h/"}})).unwrap();
        assert_eq!(there.reached().unwrap().1, "http://h/");
    }

    #[test]
    fn the_built_in_one_has_sound_schemas() {
        let built_in = Capability::built_in();
        Schema::compile(&built_in.input_schema, "").unwrap();
        Schema::compile(&built_in.output_schema, "").unwrap();
    }
}
