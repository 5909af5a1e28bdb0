//! Sessions and rounds as the API tells of them (REST contract, "Sessions").

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::machine::{Next, Status};
use super::output::{AnswerReason, DecisionKind};
use crate::corpora::entry::Goal;
use crate::retrieval::limits::Limits;
use crate::retrieval::request::ModeError;
use crate::retrieval::view::ItemView;
use crate::routes::route::RouteRef;

/// The most files that a session's view lists of its context.
pub const MAX_CONTEXT: i64 = 1000;

/// A session, with all that is needed to resume it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionView {
    /// Its id; all that a caller needs to keep.
    pub session_id: Uuid,
    /// Where it is in its life.
    pub status: Status,
    /// Rounds taken so far.
    #[schema(example = 2)]
    pub round: u32,
    /// What the caller is to do.
    pub next: Next,
    /// The context epoch, counted from 1; `forget` begins a new one.
    #[schema(example = 1)]
    pub epoch: u32,
    /// The slate that it is bound to, by name.
    #[schema(example = "Knowledge")]
    pub slate: String,
    /// The declared folder, by its path from the slate's root.
    #[schema(example = "docs")]
    pub folder: String,
    /// The declaration, as it was given, with all its limits.
    #[schema(value_type = Object)]
    pub retrieve: Value,
    /// The budgets.
    pub limits: Limits,
    /// Bytes of contents that all rounds have given; `maxTotalBytes` bounds them.
    #[schema(example = 12_345)]
    pub shown_bytes: i64,
    /// What the prompt opens with, as it was given.
    #[schema(value_type = Object)]
    pub fields: Value,
    /// What the session is for, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Goal>)]
    pub goal: Option<Value>,
    /// The route that it is on, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RouteRef>)]
    pub route: Option<Value>,
    /// What the model has been given in this epoch.
    pub context: ContextView,
    /// The working memory: `slots` by name, and `notes`.
    #[schema(value_type = Object, example = json!({"slots": {}, "notes": []}))]
    pub working: Value,
    /// The final answer, exactly as it was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Whether the answer was made in the last call, after all rounds were spent; there with the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<bool>,
    /// Why it failed: a reason to test for, and a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<FailureView>)]
    pub failure: Option<Value>,
    /// Whether the service makes its calls itself; a client then takes no round of it.
    #[schema(example = false)]
    pub is_run: bool,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
    /// When it came to its end; null before.
    pub finished_at: Option<DateTime<Utc>>,
    /// Counts its changes.
    #[serde(skip)]
    pub revision: i64,
}

impl SessionView {
    /// The strong entity tag.
    pub fn etag(&self) -> String {
        etag(self.session_id, self.revision)
    }
}

/// Why a session failed.
#[derive(ToSchema)]
#[schema(as = SessionFailure)]
#[allow(dead_code, reason = "it describes JSON")]
pub struct FailureView {
    /// To test for: what could not be packed before its first prompt (`empty_scope`, `unknown_corpus`,
    /// `corpus_not_published`, `gateway_unreachable`, `gateway_error`, `empty_pack`), or what was wrong with its run
    /// (`model_unreachable`, `model_timeout`, `model_rate_limited`, `model_unavailable`, `model_refused`, `model_rejected`,
    /// `bad_answer`, `empty_answer`, `answer_too_large`, `unknown_tool`, `secret_unavailable`, `key_revoked`, `internal`).
    #[schema(example = "model_unavailable")]
    reason: String,
    /// A sentence.
    #[schema(example = "llm.example.com answered with status 503")]
    detail: String,
}

/// A session's strong entity tag: nothing but its own changes changes what is told of it.
pub(super) fn etag(id: Uuid, revision: i64) -> String {
    format!("\"e{}.{revision}\"", id.simple())
}

/// What is in context: files that are not given again in this epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SessionContext)]
pub struct ContextView {
    /// How many files.
    #[schema(example = 1)]
    pub files: i64,
    /// The first thousand versions of them, in the order given.
    pub items: Vec<ContextItem>,
}

/// A version of a file that is in context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ContextItem {
    /// Its path when it was given, relative to the declared folder.
    #[schema(example = "core.md")]
    pub path: String,
    /// The version.
    #[schema(example = 3)]
    pub version: i64,
    /// The round that gave it.
    #[schema(example = 1)]
    pub round: u32,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SessionSummary {
    /// Its id.
    pub session_id: Uuid,
    /// Where it is in its life.
    pub status: Status,
    /// Rounds taken so far.
    #[schema(example = 2)]
    pub round: u32,
    /// How many rounds may retrieve.
    #[schema(example = 5)]
    pub max_rounds: u32,
    /// What the caller is to do.
    pub next: Next,
    /// The slate that it is bound to, by name.
    #[schema(example = "Knowledge")]
    pub slate: String,
    /// The declared folder, by its path from the slate's root.
    #[schema(example = "docs")]
    pub folder: String,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
    /// When it came to its end; null before.
    pub finished_at: Option<DateTime<Utc>>,
}

/// How much a round left out, by its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Omitted {
    /// Files.
    #[schema(example = 0)]
    pub files: i64,
    /// Bytes of their contents.
    #[schema(example = 0)]
    pub bytes: i64,
}

/// What came of a round.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Round)]
pub struct RoundView {
    /// Its number, counted from 1.
    #[schema(example = 1)]
    pub round: u32,
    /// The context epoch that it was taken in.
    #[schema(example = 1)]
    pub epoch: u32,
    /// What the output was read as.
    pub decision: DecisionKind,
    /// Why the output was no request; absent where it was one, though it came too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<AnswerReason>,
    /// What was fetched, in the order of retrieval semantics §3.8.
    pub items: Vec<ItemView>,
    /// Whether a limit left something out: files, or entries of a listing.
    pub truncated: bool,
    /// How much was left out.
    pub omitted: Omitted,
    /// How many files matched; null past 10,000, and for an answer.
    #[schema(example = 1)]
    pub total: Option<i64>,
    /// Members of the request that are no modes, or modes that the schema does not grant.
    pub ignored: Vec<String>,
    /// Modes that could not be run.
    pub errors: Vec<ModeError>,
    /// The session's status after this round.
    pub status: Status,
    /// What the caller was to do after this round.
    pub next: Next,
    /// The final answer: the output exactly as it was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Whether the answer came of the last call, after all rounds were spent; there with the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<bool>,
    /// When the round was taken.
    pub created_at: DateTime<Utc>,
}

/// A round, with the output that began it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PastRound {
    /// What the model put out, exactly as it was submitted.
    pub output: Value,
    /// What came of it.
    #[serde(flatten)]
    pub result: RoundView,
}

/// The prompt of a session's next call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Prompt)]
pub struct PromptView {
    /// The prompt (retrieval semantics §7.1).
    #[schema(example = "## Question\nWhat is core?\n\n## Docs\n")]
    pub prompt: String,
    /// The round that the output of this call is, or was, submitted as.
    #[schema(example = 1)]
    pub round: u32,
    /// Whether this is the last call: its output is the answer, whatever it is.
    pub r#final: bool,
}

/// What `forget` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Forgotten)]
pub struct ForgetView {
    /// The new context epoch.
    #[schema(example = 2)]
    pub epoch: u32,
    /// How many files are no longer in context.
    #[schema(example = 3)]
    pub forgotten: i64,
}
