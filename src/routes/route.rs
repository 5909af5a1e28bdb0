//! What a route says (corpora, "Route").

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::version::Version;
use crate::corpora::entry::{Id, Status};
use crate::error::{Error, FieldError, Result};

/// The most corpora in a scope, and the most tools of a route.
pub const MAX_SCOPE: usize = 64;
/// The most bytes of a route's prompt.
pub const MAX_PROMPT: usize = 256 << 10;

/// How a route retrieves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = RetrievalMode)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each corpus in the scope is searched before the first prompt.
    DeterministicPrefetch,
    /// The route's tools are called, and may name corpora in the scope.
    Tool,
    /// No corpus is touched.
    None,
}

/// What a route retrieves from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RouteRetrieval)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// How.
    pub mode: Mode,
    /// Ids of corpora, never URLs; searched in this order.
    #[serde(default)]
    #[schema(example = json!(["policy-engine", "product-faq"]), max_items = 64)]
    pub scope: Vec<Id>,
}

/// A tool that a route has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolRef {
    /// The capability.
    #[schema(example = "weather")]
    pub capability_id: Id,
    /// Its version.
    pub capability_version: Version,
}

/// A version of a route, as a session names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteRef {
    /// The route.
    #[schema(example = "policy_memo")]
    pub route_id: Id,
    /// Its version.
    pub route_version: Version,
}

/// What a version of a route says; a PUT gives all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// What it retrieves from; null for nothing.
    #[serde(default)]
    pub retrieval: Option<Retrieval>,
    /// The tools that sessions on it may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub tools: Vec<ToolRef>,
    /// The route's own instructions, for whoever makes the call; the service keeps them, and puts them into no prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "Answer from the policies alone.")]
    pub prompt: Option<Value>,
}

/// The body of a PUT.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[schema(as = NewRoute, example = json!({"status": "published", "prompt": "Answer from the policies alone.",
    "retrieval": {"mode": "deterministic_prefetch", "scope": ["policy-engine", "product-faq"]},
    "tools": [{"capability_id": "weather", "capability_version": "1"}]}))]
#[serde(deny_unknown_fields)]
pub struct NewRoute {
    /// The id; that of the path, where it is given.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "policy_memo")]
    pub route_id: Option<Id>,
    /// The version; that of the path, where it is given.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "1")]
    pub route_version: Option<Version>,
    /// What it retrieves from; null for nothing.
    #[serde(default)]
    pub retrieval: Option<Retrieval>,
    /// The tools that sessions on it may call.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub tools: Vec<ToolRef>,
    /// The route's own instructions, for whoever makes the call; the service keeps them, and puts them into no prompt.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "Answer from the policies alone.")]
    pub prompt: Option<Value>,
    /// Whether it is used.
    #[serde(default)]
    #[schema(example = "published")]
    pub status: Status,
}

impl NewRoute {
    /// What the version is to say.
    ///
    /// # Errors
    /// 422 for each member that is wrong.
    pub fn check(self, id: &Id, version: &Version) -> Result<(Route, Status)> {
        let mut errors = Vec::new();
        let mut wrong = |at: String, detail: &str| errors.push(FieldError::new(at, detail));
        if self.route_id.is_some_and(|given| given != *id) {
            wrong("/route_id".into(), "is another id than that of the path");
        }
        if self.route_version.is_some_and(|given| given != *version) {
            wrong("/route_version".into(), "is another version than that of the path");
        }
        if let Some(retrieval) = &self.retrieval {
            let scope = &retrieval.scope;
            if scope.len() > MAX_SCOPE {
                wrong("/retrieval/scope".into(), "may name at most 64 corpora");
            }
            for (i, id) in scope.iter().enumerate().filter(|(i, id)| scope[..*i].contains(id)) {
                wrong(format!("/retrieval/scope/{i}"), &format!("`{id}` is there twice"));
            }
        }
        if self.tools.len() > MAX_SCOPE {
            wrong("/tools".into(), "may name at most 64 capabilities");
        }
        for (i, tool) in self.tools.iter().enumerate() {
            if self.tools[..i].iter().any(|other| other.capability_id == tool.capability_id) {
                wrong(format!("/tools/{i}"), "the capability is there twice");
            }
        }
        if let Some(prompt) = &self.prompt {
            if !prompt.is_string() && !prompt.is_object() {
                wrong("/prompt".into(), "must be a text or an object");
            }
            if prompt.to_string().len() > MAX_PROMPT {
                wrong("/prompt".into(), "may have at most 262144 bytes");
            }
        }
        match errors.is_empty() {
            true => {
                Ok((Route { retrieval: self.retrieval, tools: self.tools, prompt: self.prompt }, self.status))
            }
            false => Err(Error::invalid(errors)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(body: Value) -> Result<(Route, Status)> {
        let new: NewRoute = serde_json::from_value(body).unwrap();
        new.check(&Id::parse("r").unwrap(), &Version::parse("1").unwrap())
    }

    #[test]
    fn every_wrong_member_is_named() {
        let tool = json!({"capability_id": "t", "capability_version": 1});
        let error = check(json!({"route_id": "x", "route_version": 2, "prompt": 1, "tools": [tool, tool],
            "retrieval": {"mode": "tool", "scope": ["a", "b", "a"]}}))
        .unwrap_err();
        let pointers: Vec<_> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(pointers, ["/route_id", "/route_version", "/retrieval/scope/2", "/tools/1", "/prompt"]);
    }

    #[test]
    fn what_is_left_out() {
        let (route, status) = check(json!({})).unwrap();
        assert_eq!(
            (serde_json::to_value(&route).unwrap(), status),
            (json!({"retrieval": null}), Status::Draft)
        );
        let (route, _) =
            check(json!({"retrieval": {"mode": "none"}, "route_id": "r", "route_version": 1})).unwrap();
        assert_eq!(route.retrieval.unwrap().scope, []);
    }

    #[test]
    fn no_other_kinds_and_no_urls() {
        for retrieval in [
            json!({"mode": "retrieve", "scope": []}),
            json!({"mode": "tool", "scope": ["http://x/y"]}),
            json!({"mode": "tool", "scope": "a"}),
            json!({"mode": "tool", "url": "x"}),
            json!({"scope": []}),
        ] {
            assert!(
                serde_json::from_value::<NewRoute>(json!({"retrieval": retrieval})).is_err(),
                "{retrieval}"
            );
        }
    }
}
