//! What came of asking a source, and what is answered.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use super::target::SourceType;
use crate::authority::Authority;
use crate::provenance::contract::Contract;
use crate::provenance::record::FileVersion;

/// What a retrieve answers: the output contract, and the name of its record.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = RetrieveResult)]
pub struct Retrieval {
    /// Names the record of this answer.
    #[schema(example = "01937b2e-7c1a-7d3f-9a51-0c4f4d1e2a3b.1")]
    pub provenance_id: String,
    /// The output contract.
    #[serde(flatten)]
    pub contract: Contract,
}

/// What a source is, whatever it gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// Which kind.
    pub kind: SourceType,
    /// `file:<path>`, `web:<host>`, `api:<name>` or `database:<name>`.
    pub source: String,
    /// What it is cited by, without the lines; none where nothing that can be cited was found.
    pub reference: Option<String>,
    /// What stands before `:1-15` in the anchors of a file, or is the anchor itself.
    pub anchor: String,
    /// As its owner says.
    pub authority: Authority,
}

/// What a source gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched {
    /// Where from.
    pub origin: Origin,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Why they are not all that there are, where they are not; then no hash is told.
    pub cut: Option<(Reason, String)>,
    /// How many there are, where that is known although not all were read.
    pub original_size: Option<i64>,
    /// The media type as the source says, parameters included.
    pub media_type: Option<String>,
    /// What the extension is taken from.
    pub name: String,
    /// Whether the encoding is known to be UTF-8 where it is text.
    pub utf8: bool,
    /// The source's own version, if it has one.
    pub version: Option<String>,
    /// When the source was last modified, if it says so.
    pub last_modified: Option<DateTime<Utc>>,
    /// Whether it grows stale.
    pub volatile: bool,
    /// The age in seconds past which it does.
    pub max_age_seconds: Option<i64>,
    /// When the bytes were read.
    pub read_at: DateTime<Utc>,
    /// A sentence built from facts on record.
    pub reliability: String,
    /// What was assumed on the way.
    pub assumptions: Vec<String>,
}

/// Why there is nothing to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FailureReason)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// There is no such thing.
    NotFound,
    /// It may not be read.
    Refused,
    /// The source cannot be reached.
    Unreachable,
    /// It did not answer in time.
    Timeout,
    /// It is larger than may be given.
    TooLarge,
    /// It is in another format than was asked, or than it says.
    FormatMismatch,
    /// It does not satisfy the schema.
    SchemaMismatch,
    /// The source has been asked too often.
    RateLimited,
    /// It was there, and is no longer kept.
    Gone,
    /// Its bytes are not those that are on record.
    IntegrityMismatch,
    /// It is older than was demanded.
    Stale,
    /// What was wanted of it cannot be done.
    ConstraintUnmet,
}

impl Reason {
    /// The word in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::NotFound => "not_found",
            Reason::Refused => "refused",
            Reason::Unreachable => "unreachable",
            Reason::Timeout => "timeout",
            Reason::TooLarge => "too_large",
            Reason::FormatMismatch => "format_mismatch",
            Reason::SchemaMismatch => "schema_mismatch",
            Reason::RateLimited => "rate_limited",
            Reason::Gone => "gone",
            Reason::IntegrityMismatch => "integrity_mismatch",
            Reason::Stale => "stale",
            Reason::ConstraintUnmet => "constraint_unmet",
        }
    }
}

/// Why a source gave nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Missed {
    /// Where from.
    pub origin: Origin,
    /// Why.
    pub reason: Reason,
    /// A sentence.
    pub detail: String,
    /// Paths of files that are near to a missing one.
    pub alternatives: Vec<String>,
    /// What was got all the same.
    pub partial: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

impl Missed {
    /// A miss that has nothing to offer.
    pub fn new(origin: Origin, reason: Reason, detail: impl Into<String>, at: DateTime<Utc>) -> Box<Missed> {
        Box::new(Missed {
            origin,
            reason,
            detail: detail.into(),
            alternatives: Vec::new(),
            partial: None,
            at,
        })
    }
}

/// What a source gave, or why it gave nothing.
#[derive(Debug)]
pub struct Outcome {
    /// Either.
    pub result: Result<Fetched, Box<Missed>>,
    /// Of a file, the version that was read, for its record.
    pub file: Option<FileVersion>,
    /// The slate that was looked at.
    pub slate: Option<String>,
}

impl From<Result<Fetched, Box<Missed>>> for Outcome {
    fn from(result: Result<Fetched, Box<Missed>>) -> Outcome {
        Outcome { result, file: None, slate: None }
    }
}
