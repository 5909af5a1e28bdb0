//! What is done with slates.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::store::{self, Lock, SlateRow};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, FieldError, Result, pointer};
use crate::files::path::Name;
use crate::metatags::TagType;

/// The longest description, in bytes.
pub const MAX_DESCRIPTION: usize = 16 * 1024;
/// The most metatags whose type a slate may fix.
pub const MAX_TYPES: usize = 1000;
/// The longest retention and age, a century.
const MAX_DAYS: i32 = 36_500;

/// The settings of a slate; a PUT gives all of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
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
}

impl Default for NewSlate {
    fn default() -> NewSlate {
        NewSlate {
            description: None,
            authority: None,
            volatile: false,
            max_age_seconds: None,
            retention_days: 30,
            metatag_types: BTreeMap::new(),
        }
    }
}

impl NewSlate {
    fn check(&self) -> Result<()> {
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

    fn settings_differ(&self, new: &NewSlate) -> bool {
        self.description != new.description
            || self.authority != new.authority
            || self.volatile != new.volatile
            || self.max_age_seconds != new.max_age_seconds
            || self.retention_days != new.retention_days
            || Value::Object(self.metatag_types.clone()) != new.types_json()
    }
}

impl From<SlateRow> for Slate {
    fn from(row: SlateRow) -> Slate {
        Slate {
            id: row.id,
            name: row.name,
            description: row.description,
            authority: row.authority.as_deref().and_then(Authority::from_word),
            volatile: row.volatile,
            max_age_seconds: row.max_age_seconds,
            retention_days: row.retention_days,
            metatag_types: match row.metatag_types {
                Value::Object(types) => types,
                _ => serde_json::Map::new(),
            },
            created_at: row.created_at,
            updated_at: row.updated_at,
            revision: row.revision,
        }
    }
}

/// The slate of this name.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when there is none, or the key is not bound to it.
pub fn get(tx: &mut Tx, ctx: &Ctx, name: &str) -> Result<Slate> {
    look(tx, ctx, name, Lock::None)?.ok_or_else(Error::not_found)
}

/// The same, which cannot be deleted until the transaction ends.
///
/// # Errors
/// As [`get`].
pub fn get_to_write(tx: &mut Tx, ctx: &Ctx, name: &str) -> Result<Slate> {
    look(tx, ctx, name, Lock::Share)?.ok_or_else(Error::not_found)
}

/// The same, with all writes to it held off until the transaction ends.
///
/// # Errors
/// As [`get`].
pub fn get_to_restructure(tx: &mut Tx, ctx: &Ctx, name: &str) -> Result<Slate> {
    look(tx, ctx, name, Lock::Update)?.ok_or_else(Error::not_found)
}

/// Holds off all writes to the tenant's slates until the transaction ends.
///
/// # Errors
/// Those of the database.
pub fn hold_all(tx: &mut Tx) -> Result<()> {
    store::lock_all(tx)
}

/// The slate of this name, if there is one.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when the key is not bound to it.
pub fn find(tx: &mut Tx, ctx: &Ctx, name: &str) -> Result<Option<Slate>> {
    look(tx, ctx, name, Lock::None)
}

fn look(tx: &mut Tx, ctx: &Ctx, name: &str, lock: Lock) -> Result<Option<Slate>> {
    ctx.slate(name)?;
    // No stored name holds a NUL, and a Postgres text cannot.
    if name.contains('\0') {
        return Ok(None);
    }
    let row = store::find(tx, name, lock)?;
    Ok(row.filter(|row| row.deleted_at.is_none()).map(Slate::from))
}

/// Those of the slates that the key may touch whose name comes after `after`, by name, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn list(tx: &mut Tx, ctx: &Ctx, after: Option<&str>, limit: i64) -> Result<Vec<Slate>> {
    let rows = store::list(tx, ctx.slates.as_deref(), after, limit)?;
    Ok(rows.into_iter().map(Slate::from).collect())
}

/// Makes a slate, or sets its settings; tells whether it was made. The same settings again change nothing.
///
/// # Errors
/// [`Code::Invalid`](crate::error::Code::Invalid) by pointer.
pub fn put(tx: &mut Tx, ctx: &Ctx, name: &str, new: &NewSlate) -> Result<(Slate, bool)> {
    ctx.slate(name)?;
    Name::parse(name).map_err(|error| Error::invalid_at("", format!("the slate's name {error}")))?;
    new.check()?;
    match store::find(tx, name, Lock::Update)? {
        Some(row) if row.deleted_at.is_none() => {
            let slate = Slate::from(row);
            if slate.settings_differ(new) {
                Ok((store::update(tx, slate.id, new, ctx.now)?.into(), false))
            } else {
                Ok((slate, false))
            }
        }
        Some(row) => {
            let row = store::update(tx, row.id, new, ctx.now)?;
            store::insert_root(tx, row.id, ctx.now)?;
            Ok((row.into(), true))
        }
        None => {
            let row = store::insert(tx, name, new, ctx.now)?;
            store::insert_root(tx, row.id, ctx.now)?;
            Ok((row.into(), true))
        }
    }
}

/// Marks a slate deleted, once nothing is left in it.
///
/// # Errors
/// Those of the database.
pub fn mark_deleted(tx: &mut Tx, ctx: &Ctx, slate: &Slate) -> Result<()> {
    store::mark_deleted(tx, slate.id, ctx.now)
}
