//! A version of a file, apart from its bytes.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

/// One version, as (slate, path, version) names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FileVersion)]
pub struct Version {
    /// The number of the file that had it.
    #[serde(skip)]
    pub file_id: i64,
    /// Its number.
    #[schema(example = 3)]
    pub version: i64,
    /// The path that the file had.
    #[schema(example = "docs/core.md")]
    pub path: String,
    /// Bytes of the contents.
    pub size: i64,
    /// SHA-256 of the contents, 64 hexadecimal digits.
    pub sha256: String,
    /// Media type of the contents.
    pub media_type: String,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// When the source of the contents last changed, as the writer said.
    pub source_modified_at: Option<DateTime<Utc>>,
    /// The source's own version, as the writer said.
    pub source_version: Option<String>,
    /// Whether the bytes are gone: purged, or past the slate's retention after a deletion.
    pub gone: bool,
}

impl Version {
    /// The strong entity tag of its bytes.
    pub fn etag(&self) -> String {
        format!("\"v{}.{}\"", self.file_id, self.version)
    }
}
