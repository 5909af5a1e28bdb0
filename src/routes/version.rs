//! A version of a route or of a capability, and when it may change (corpora, "Route", "Retrieve tools").

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::corpora::entry::{Id, IdError, Status};
use crate::error::{Code, Error, Result};

/// What there are versions of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A route.
    Route,
    /// A capability.
    Capability,
}

impl Kind {
    /// The word in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Route => "route",
            Kind::Capability => "capability",
        }
    }

    /// The members of a row that name it: its id and its version.
    pub fn members(self) -> [&'static str; 2] {
        match self {
            Kind::Route => ["route_id", "route_version"],
            Kind::Capability => ["capability_id", "version"],
        }
    }
}

/// The name of a version: a text, or a number as its author wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[schema(as = CatalogVersion, value_type = String, example = "1", min_length = 1, max_length = 128)]
pub struct Version(Id);

impl Version {
    /// Parses a version.
    ///
    /// # Errors
    /// [`IdError`].
    pub fn parse(text: &str) -> Result<Version, IdError> {
        Id::parse(text).map(Version)
    }

    /// The text, as it was given.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        let wrong = |error: &dyn fmt::Display| serde::de::Error::custom(error);
        let value = Value::deserialize(deserializer)?;
        match (&value, crate::given::unsigned(&value)) {
            (Value::String(text), _) => Version::parse(text).map_err(|error| wrong(&error)),
            (_, Some(number)) => Version::parse(&number.to_string()).map_err(|error| wrong(&error)),
            _ => Err(wrong(&"must be a version: a text or a whole number")),
        }
    }
}

/// The id and the version that a path names, to be made.
///
/// # Errors
/// 422 where one is none.
pub fn name(id: &str, version: &str) -> Result<(Id, Version)> {
    let wrong = |what: &str, error| Error::invalid_at("", format!("the {what} {error}"));
    Ok((
        Id::parse(id).map_err(|error| wrong("id", error))?,
        Version::parse(version).map_err(|error| wrong("version", error))?,
    ))
}

/// A row of the catalogue that has versions.
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned {
    /// Its id.
    pub id: Id,
    /// Its version.
    pub version: Version,
    /// What it says; an object.
    pub document: Value,
    /// Whether it is used.
    pub status: Status,
    /// Counts its changes.
    pub revision: i64,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

impl Versioned {
    /// The strong entity tag.
    pub fn etag(&self) -> String {
        format!("\"v{}.{}\"", self.created_at.timestamp_micros(), self.revision)
    }

    /// Where a list goes on after it.
    pub fn key(&self) -> (String, String) {
        (self.id.as_str().to_owned(), self.version.as_str().to_owned())
    }

    /// The row as the API tells of it.
    pub fn view(&self, kind: Kind) -> Value {
        let [id, version] = kind.members();
        let mut view = Map::new();
        view.insert(id.into(), self.id.as_str().into());
        view.insert(version.into(), self.version.as_str().into());
        view.extend(self.document.as_object().cloned().unwrap_or_default());
        view.insert("status".into(), self.status.as_str().into());
        for (name, at) in [("created_at", self.created_at), ("updated_at", self.updated_at)] {
            view.insert(name.into(), at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true).into());
        }
        Value::Object(view)
    }

    /// Whether it may become what `document` and `status` say. A draft may become anything. Once it was published, it
    /// keeps what it says; it may be deprecated, and published again.
    ///
    /// # Errors
    /// [`Code::VersionPublished`].
    pub fn check_change(&self, document: &Value, status: Status) -> Result<()> {
        let moves = matches!(
            (self.status, status),
            (Status::Published, Status::Deprecated) | (Status::Deprecated, Status::Published)
        );
        if self.status == Status::Draft || moves && self.document == *document {
            return Ok(());
        }
        Err(Error::new(
            Code::VersionPublished,
            "a version that was published cannot be changed; all that it can still become is deprecated, or published again",
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_texts_or_whole_numbers() {
        let read = |value: Value| serde_json::from_value::<Version>(value);
        assert_eq!(read(json!("1.2-rc")).unwrap().as_str(), "1.2-rc");
        assert_eq!(read(json!(7)).unwrap().as_str(), "7");
        for bad in [json!(""), json!(1.5), json!(-1), json!(null), json!("a/b"), json!([1])] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_may_become_of_a_version() {
        let version = |status| Versioned {
            id: Id::parse("r").unwrap(),
            version: Version::parse("1").unwrap(),
            document: json!({"a": 1}),
            status,
            revision: 1,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        };
        use Status::{Deprecated, Draft, Published};
        let (same, other) = (json!({"a": 1}), json!({"a": 2}));
        for (from, to, document, may) in [
            (Draft, Draft, &other, true),
            (Draft, Published, &other, true),
            (Draft, Deprecated, &other, true),
            (Published, Published, &same, false),
            (Published, Published, &other, false),
            (Published, Draft, &same, false),
            (Published, Deprecated, &same, true),
            (Published, Deprecated, &other, false),
            (Deprecated, Published, &same, true),
            (Deprecated, Published, &other, false),
            (Deprecated, Draft, &same, false),
            (Deprecated, Deprecated, &same, false),
        ] {
            assert_eq!(version(from).check_change(document, to).is_ok(), may, "{from:?} {to:?} {document}");
        }
    }
}
