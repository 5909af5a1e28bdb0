//! What a folder is.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::authority::Authority;

/// A folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Folder {
    /// Its number.
    #[serde(skip)]
    pub id: i64,
    /// Its path from the slate's root, which is `""`.
    #[schema(example = "docs/research")]
    pub path: String,
    /// Of all below it that say nothing else.
    pub authority: Option<Authority>,
    /// Whether it was marked so.
    pub sensitive: bool,
    /// Whether it is kept from readers: sensitive, below such a folder, or denied.
    #[serde(skip)]
    pub hidden: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}
