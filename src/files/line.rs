//! What is wrong with one of many files that are loaded at once.

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{Error, FieldError};

/// A problem, less what concerns the request as a whole.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LineError {
    /// Names the kind of problem.
    #[serde(rename = "type")]
    #[schema(example = "/problems/invalid")]
    kind: String,
    /// The HTTP status that a request for this line alone would have.
    #[schema(example = 422)]
    status: u16,
    /// What went wrong.
    #[schema(example = "/path: must not start with `/`")]
    detail: String,
    /// Where the line was at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

impl LineError {
    /// What went wrong, for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<&Error> for LineError {
    fn from(error: &Error) -> LineError {
        LineError {
            kind: format!("/problems/{}", error.code.name()),
            status: error.code.status(),
            detail: error.detail.to_string(),
            errors: error.errors.clone(),
        }
    }
}
