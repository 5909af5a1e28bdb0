//! Runs as the API tells of them (REST contract, "Sessions").

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::model::Model;
use crate::sessions::machine::Status;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A server will take it.
    Queued,
    /// A server has it.
    Running,
    /// A call came to nothing, or a limit is reached: it goes on at `next_at`.
    Waiting,
    /// Its session is finished.
    Ended,
}

/// The run of a session.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Run)]
pub struct RunView {
    /// The session.
    pub session_id: Uuid,
    /// Where the run is.
    pub status: RunStatus,
    /// Where its session is.
    pub session_status: Status,
    /// Rounds that the session has taken.
    #[schema(example = 2)]
    pub round: u32,
    /// The model, as it was given.
    pub model: Model,
    /// The answers that were received, in order.
    pub calls: Vec<CallView>,
    /// Their sum.
    pub usage: Usage,
    /// Calls that came to nothing since the last one that did not.
    #[schema(example = 0)]
    pub attempts: u32,
    /// What was wrong with the last of those: `reason` and `detail`; null where nothing was.
    #[schema(value_type = Option<Object>, example = json!(null))]
    pub trouble: Option<Value>,
    /// When it goes on, at the earliest; null where it has ended.
    pub next_at: Option<DateTime<Utc>>,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
}

/// An answer of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ModelCall)]
pub struct CallView {
    /// The round that it was submitted as.
    #[schema(example = 1)]
    pub round: u32,
    /// `content`, `tool_call` for a call of `retrieve`, `tool` for one of another tool.
    #[schema(example = "tool_call")]
    pub form: String,
    /// What it cost, as reported.
    #[serde(flatten)]
    pub usage: Usage,
    /// When it was received.
    pub received_at: DateTime<Utc>,
}

/// Tokens, as the model's host reports them; null where it reports none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
#[schema(as = TokenUsage)]
pub struct Usage {
    /// Of the prompt.
    #[schema(example = 1200)]
    pub prompt_tokens: Option<i64>,
    /// Of the answer.
    #[schema(example = 80)]
    pub completion_tokens: Option<i64>,
}

impl Usage {
    /// The sum of what was reported.
    pub fn sum(all: impl IntoIterator<Item = Usage>) -> Usage {
        let add = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        all.into_iter().fold(Usage::default(), |sum, one| Usage {
            prompt_tokens: add(sum.prompt_tokens, one.prompt_tokens),
            completion_tokens: add(sum.completion_tokens, one.completion_tokens),
        })
    }
}
