//! A call of a tool, and what came of it.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::corpora::entry::Id;
use crate::error::{Error, Result};
use crate::routes::version::Version;

/// A tool that a session grants.
#[derive(Debug, Clone, PartialEq)]
pub struct Granted {
    /// The capability.
    pub capability_id: String,
    /// For people.
    pub display_name: Option<String>,
    /// What it takes.
    pub input_schema: Value,
}

/// What a caller says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewCall {
    /// Members of the payload that win over all others.
    pub arguments: Map<String, Value>,
    /// The slot that takes the answer; the capability's id, where it is not given.
    pub stage: Option<Id>,
    /// The capability's version; that of the session's route, or else the only published one.
    pub version: Option<Version>,
}

impl NewCall {
    /// The slot that takes the answer of a capability.
    ///
    /// # Errors
    /// 422 for the slot of the pack, which no tool writes.
    pub fn stage(&self, capability: &str) -> Result<String> {
        let stage = self.stage.as_ref().map_or(capability, Id::as_str);
        match stage {
            "prefetch" => Err(Error::invalid_at("/stage", "is the slot of what was packed")),
            stage => Ok(stage.to_owned()),
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = ToolResult)]
pub struct Called {
    /// The capability.
    #[schema(example = "weather")]
    pub capability_id: String,
    /// The version that was called.
    #[schema(example = "1")]
    pub version: String,
    /// The slot that holds the output.
    #[schema(example = "weather")]
    pub stage: String,
    /// Whether anything was called: a capability whose `invoke` is empty does nothing, and stores nothing.
    pub called: bool,
    /// What is in the slot now; null where nothing was called.
    #[schema(value_type = Value, example = json!({"degrees": 21.5}))]
    pub output: Value,
    /// The records, in the session's chain; none where nothing was called.
    pub record_ids: Vec<Uuid>,
}
