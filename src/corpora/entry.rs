//! What every row of the catalogue has: an id, a status, and where its requests go.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;
use utoipa::ToSchema;

/// The longest id of a corpus, route or capability, and the longest version, in bytes.
pub const MAX_ID: usize = 128;

/// Whether a row of the catalogue is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = CatalogStatus)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is being worked on, and never used.
    #[default]
    Draft,
    /// It is used.
    Published,
    /// It is no longer used.
    Deprecated,
}

impl Status {
    /// The word in the API and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Draft => "draft",
            Status::Published => "published",
            Status::Deprecated => "deprecated",
        }
    }

    /// The status of this word.
    pub fn from_word(word: &str) -> Option<Status> {
        [Status::Draft, Status::Published, Status::Deprecated].into_iter().find(|s| s.as_str() == word)
    }
}

/// What a session or a search is for, for the OpenAPI document: whoever takes one checks it.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(example = json!({"question": "Why was I charged $42?"}))]
#[allow(dead_code, reason = "it describes JSON")]
pub enum Goal {
    /// A text.
    Text(String),
    /// An object, of which all texts count, at any depth.
    Object(BTreeMap<String, Value>),
}

/// Why a text is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an id: 1 to {MAX_ID} of A-Z, a-z, 0-9, `.`, `_` and `-`, beginning with a letter, a digit or `_`; never a URL"
)]
pub struct IdError;

/// The id of a corpus, route or capability.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(as = CatalogId, value_type = String, example = "policy-engine", min_length = 1, max_length = 128)]
pub struct Id(String);

impl Id {
    /// Parses an id.
    ///
    /// # Errors
    /// [`IdError`].
    pub fn parse(text: &str) -> Result<Id, IdError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let fine = (1..=MAX_ID).contains(&text.len())
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|b| plain(b) || b == b'.' || b == b'-');
        if fine { Ok(Id(text.to_owned())) } else { Err(IdError) }
    }

    /// The text, as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Id {
    type Error = IdError;

    fn try_from(text: String) -> Result<Id, IdError> {
        Id::parse(&text)
    }
}

impl From<Id> for String {
    fn from(id: Id) -> String {
        id.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A URL that requests may be sent to: `http` or `https`, with a host, and without a user, a password or a fragment.
///
/// # Errors
/// A sentence.
pub fn http_url(text: &str) -> Result<Url, &'static str> {
    const WRONG: &str = "must be an http or https URL without a user, a password or a fragment";
    let url = Url::parse(text).map_err(|_| WRONG)?;
    let fine = matches!(url.scheme(), "http" | "https")
        && url.host().is_some()
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none();
    if fine { Ok(url) } else { Err(WRONG) }
}

/// The name of the secret that `auth` names; none for null and `"none"`.
///
/// # Errors
/// A sentence.
pub fn secret(auth: Option<&str>) -> Result<Option<Id>, &'static str> {
    match auth {
        None | Some("none") => Ok(None),
        Some(name) => {
            Id::parse(name).map(Some).map_err(|_| "must be null, `none`, or the name of a stored secret")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        for fine in ["a", "policy-engine", "A.b_c-9", "_x", "1", &"x".repeat(128)] {
            assert_eq!(Id::parse(fine).unwrap().as_str(), fine);
        }
        for bad in ["", "-a", ".a", "http://x/y", "a b", "a:b", "a]", "é", "a\n", "a\0", &"x".repeat(129)] {
            assert_eq!(Id::parse(bad), Err(IdError), "{bad:?}");
        }
    }

    #[test]
    fn urls() {
        for fine in ["http://x/y", "https://x:1/y?z=1", "HTTP://[::1]/"] {
            assert!(http_url(fine).is_ok(), "{fine}");
        }
        for bad in ["ftp://x", "http:", "/x", "x", "http://u@x/", "http://u:p@x/", "http://x/#a", ""] {
            assert!(http_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets() {
        assert_eq!(secret(None), Ok(None));
        assert_eq!(secret(Some("none")), Ok(None));
        assert_eq!(secret(Some("key-1")).unwrap().unwrap().as_str(), "key-1");
        assert!(secret(Some("a b")).is_err());
    }
}
