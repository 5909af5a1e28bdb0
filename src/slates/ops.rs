//! What is done with slates.

use serde_json::Value;

use super::slate::{DEFAULT_LANGUAGE, NO_LANGUAGE, NewSlate, Slate};
use super::store::{self, Lock, SlateRow};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::passages;
use crate::path::Name;

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
            language: row.language,
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
    tx.without_timeout()?;
    look(tx, ctx, name, Lock::Update)?.ok_or_else(Error::not_found)
}

/// Holds off all writes to the tenant's slates until the transaction ends. Gives their numbers, those of deleted ones too.
///
/// # Errors
/// Those of the database.
pub fn hold_all(tx: &mut Tx) -> Result<Vec<i64>> {
    tx.without_timeout()?;
    store::lock_all(tx)
}

/// The slate of this name, if there is one.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when the key is not bound to it.
pub fn find(tx: &mut Tx, ctx: &Ctx, name: &str) -> Result<Option<Slate>> {
    look(tx, ctx, name, Lock::None)
}

/// Those of these names that there are, in no order.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when the key is not bound to one of them.
pub fn find_many(tx: &mut Tx, ctx: &Ctx, names: &[&str]) -> Result<Vec<Slate>> {
    names.iter().try_for_each(|name| ctx.slate(name))?;
    let names: Vec<&str> = names.iter().copied().filter(|name| !name.contains('\0')).collect();
    Ok(store::find_many(tx, &names)?.into_iter().map(Slate::from).collect())
}

/// The same, which nobody else changes until the transaction ends.
///
/// # Errors
/// As [`find`].
pub fn find_to_set(tx: &mut Tx, ctx: &Ctx, name: &str) -> Result<Option<Slate>> {
    look(tx, ctx, name, Lock::Update)
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
    if new.language != DEFAULT_LANGUAGE && !passages::ops::knows_language(tx, &new.language)? {
        return Err(Error::invalid_at("/language", NO_LANGUAGE));
    }
    match store::find(tx, name, Lock::Update)? {
        Some(row) if row.deleted_at.is_none() => {
            let slate = Slate::from(row);
            if !slate.settings_differ(new) {
                return Ok((slate, false));
            }
            if slate.language != new.language {
                tx.without_timeout()?;
                passages::ops::split_anew(tx, name, &new.language)?;
            }
            Ok((store::update(tx, slate.id, new, ctx.now)?.into(), false))
        }
        Some(row) => {
            passages::ops::hold_roots(tx)?;
            Ok((store::revive(tx, row.id, new, ctx.now)?.into(), true))
        }
        None => {
            passages::ops::hold_roots(tx)?;
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
