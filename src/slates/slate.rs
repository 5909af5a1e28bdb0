//! What a slate is, and which settings it may have.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::authority::Authority;
use crate::error::{Error, FieldError, Result, pointer};
use crate::metatags::TagType;
use crate::passages::Home;

/// The longest description, in bytes.
pub const MAX_DESCRIPTION: usize = 16 * 1024;
/// The most metatags whose type a slate may fix.
pub const MAX_TYPES: usize = 1000;
/// The language of a slate that says none: every word is taken as it is.
pub const DEFAULT_LANGUAGE: &str = "simple";
/// The longest retention and age, a century.
const MAX_DAYS: i32 = 36_500;

/// The settings of a slate; a PUT gives all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"description": "What support answers from", "authority": "high", "retention_days": 30,
    "metatag_types": {"category": "string", "priority": "number"}, "language": "english"}))]
#[serde(deny_unknown_fields, default)]
pub struct NewSlate {
    /// For people.
    pub description: Option<String>,
    /// Of all its files that say nothing else.
    pub authority: Option<Authority>,
    /// Whether its documents grow stale with age.
    pub volatile: bool,
    /// The age in seconds past which a volatile slate's documents are stale; a day where it is not given.
    pub max_age_seconds: Option<i64>,
    /// For how many days a deleted file's versions can still be retrieved.
    pub retention_days: i32,
    /// The only type that a metatag of this name may have.
    pub metatag_types: BTreeMap<String, TagType>,
    /// How the words of its files are told when a corpus in it is searched: the name of a text-search configuration of
    /// Postgres, such as `english`. `simple` takes every word as it is.
    #[schema(example = "simple")]
    pub language: String,
}

pub(super) const NO_LANGUAGE: &str =
    "must be a text-search configuration that the database has, such as `simple` or `english`";

impl Default for NewSlate {
    fn default() -> NewSlate {
        NewSlate {
            description: None,
            authority: None,
            volatile: false,
            max_age_seconds: None,
            retention_days: 30,
            metatag_types: BTreeMap::new(),
            language: DEFAULT_LANGUAGE.into(),
        }
    }
}

impl NewSlate {
    pub(super) fn check(&self) -> Result<()> {
        let mut errors = Vec::new();
        let mut wrong = |at: &str, detail: String| errors.push(FieldError::new(at, detail));
        if let Some(text) = &self.description {
            if text.len() > MAX_DESCRIPTION {
                wrong("/description", format!("may have at most {MAX_DESCRIPTION} bytes"));
            }
            if text.contains('\0') {
                wrong("/description", "must not hold U+0000".into());
            }
        }
        if self.max_age_seconds.is_some_and(|age| !(1..=i64::from(MAX_DAYS) * 86_400).contains(&age)) {
            wrong("/max_age_seconds", format!("must be 1 to {}", i64::from(MAX_DAYS) * 86_400));
        }
        if !(0..=MAX_DAYS).contains(&self.retention_days) {
            wrong("/retention_days", format!("must be 0 to {MAX_DAYS}"));
        }
        if self.metatag_types.len() > MAX_TYPES {
            wrong("/metatag_types", format!("may fix the types of at most {MAX_TYPES} metatags"));
        }
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if !(1..=63).contains(&self.language.len()) || !self.language.bytes().all(plain) {
            wrong("/language", NO_LANGUAGE.into());
        }
        for name in self.metatag_types.keys() {
            if let Some(detail) = crate::metatags::value::wrong_name(name) {
                wrong(&pointer("/metatag_types", name), detail);
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Error::invalid(errors)) }
    }

    pub(super) fn types_json(&self) -> Value {
        self.metatag_types.iter().map(|(name, kind)| (name.clone(), Value::from(kind.as_str()))).collect()
    }
}

/// A slate.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Slate {
    /// Its number, which its successors of the same name share.
    #[serde(skip)]
    pub id: i64,
    /// Its name, case-sensitive.
    #[schema(example = "Knowledge")]
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// Of all its files that say nothing else.
    pub authority: Option<Authority>,
    /// Whether its documents grow stale with age.
    pub volatile: bool,
    /// The age in seconds past which a volatile slate's documents are stale; a day where it is null.
    pub max_age_seconds: Option<i64>,
    /// For how many days a deleted file's versions can still be retrieved.
    pub retention_days: i32,
    /// Metatag name → the only type it may have: `string`, `string[]`, `number`, `boolean` or `object`.
    #[schema(value_type = std::collections::BTreeMap<String, TagType>)]
    pub metatag_types: serde_json::Map<String, Value>,
    /// How the words of its files are told when a corpus in it is searched.
    #[schema(example = "simple")]
    pub language: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When its settings last changed.
    pub updated_at: DateTime<Utc>,
    /// Counts the changes of its settings.
    #[serde(skip)]
    pub revision: i64,
}

impl Slate {
    /// The strong entity tag of its settings.
    pub fn etag(&self) -> String {
        format!("\"s{}.{}\"", self.id, self.revision)
    }

    /// Its settings, as a PUT would give them.
    pub fn settings(&self) -> NewSlate {
        let types = self.metatag_types.iter();
        NewSlate {
            description: self.description.clone(),
            authority: self.authority,
            volatile: self.volatile,
            max_age_seconds: self.max_age_seconds,
            retention_days: self.retention_days,
            metatag_types: types
                .filter_map(|(name, kind)| Some((name.clone(), TagType::deserialize(kind).ok()?)))
                .collect(),
            language: self.language.clone(),
        }
    }

    /// What its passages have to know of it.
    pub fn home(&self) -> Home<'_> {
        Home { id: self.id, name: &self.name, language: &self.language }
    }

    pub(super) fn settings_differ(&self, new: &NewSlate) -> bool {
        self.description != new.description
            || self.authority != new.authority
            || self.volatile != new.volatile
            || self.max_age_seconds != new.max_age_seconds
            || self.retention_days != new.retention_days
            || self.language != new.language
            || Value::Object(self.metatag_types.clone()) != new.types_json()
    }
}
