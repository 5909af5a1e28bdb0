//! What a tenant's admin registers for `retrieve`: APIs and databases, by name (provenance, "Sources").
//!
//! What always holds: a registration names its secrets, and holds none; a path of an [`api`] never leaves its base URL; of a
//! [`database`] only the tables and the queries that are registered are read, and a caller gives values alone.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::authority::Authority;
use crate::corpora::entry::Id;
use crate::error::{FieldError, Result};

pub mod api;
pub mod database;

/// Which kind of source is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// An API over HTTP.
    Api,
    /// A Postgres database.
    Database,
}

impl SourceKind {
    /// The word in the API and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            SourceKind::Api => "api",
            SourceKind::Database => "database",
        }
    }
}

/// What is registered, of either kind.
pub trait Registration: Serialize + for<'de> Deserialize<'de> + PartialEq {
    /// Its kind.
    const KIND: SourceKind;

    /// Checks what its types do not.
    ///
    /// # Errors
    /// [`Code::Invalid`](crate::error::Code::Invalid) by pointer.
    fn check(&self) -> Result<()>;
}

/// What may be said of any source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    /// How much it is to be trusted.
    pub authority: Authority,
    /// Whether what it gives grows stale.
    pub volatile: bool,
    /// The age in seconds past which it does.
    pub max_age_seconds: Option<u32>,
}

/// A source that is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered<T> {
    /// What targets name it by.
    pub name: Id,
    /// What was registered.
    pub definition: T,
    /// Counts its changes, from 1.
    pub revision: i64,
    /// When it was first registered.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

impl<T> Registered<T> {
    /// The strong entity tag.
    pub fn etag(&self) -> String {
        format!("\"s{}.{}\"", self.created_at.timestamp_micros(), self.revision)
    }
}

/// What a list tells of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its kind.
    pub kind: SourceKind,
    /// What targets name it by.
    pub name: String,
    /// When it was first registered.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

/// Gathers what is wrong.
#[derive(Debug, Default)]
struct Wrong(Vec<FieldError>);

impl Wrong {
    fn unless(&mut self, good: bool, at: impl Into<String>, detail: impl Into<String>) {
        if !good {
            self.0.push(FieldError::new(at, detail));
        }
    }

    fn done(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(crate::error::Error::invalid(self.0)) }
    }
}
