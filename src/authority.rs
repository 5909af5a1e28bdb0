//! How much a source is to be trusted, as its owner says (provenance, "Output").

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The word of a file's, folder's or slate's owner; the nearest one counts, and `medium` where nobody said any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Authority {
    /// Hearsay, drafts, what nobody checked.
    Low,
    /// The default.
    #[default]
    Medium,
    /// The source that others are checked against.
    High,
}

impl Authority {
    /// The word in the API and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Authority::Low => "low",
            Authority::Medium => "medium",
            Authority::High => "high",
        }
    }

    /// The number in a manifest.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The authority that a stored word stands for; the database holds no others.
    pub fn from_word(word: &str) -> Option<Authority> {
        [Authority::Low, Authority::Medium, Authority::High].into_iter().find(|a| a.as_str() == word)
    }

    /// The authority that a manifest's number stands for.
    pub fn from_code(code: i16) -> Option<Authority> {
        [Authority::Low, Authority::Medium, Authority::High].into_iter().find(|a| a.code() == code)
    }
}
