//! What is done with registered sources.

use crate::capability::registry::api::Api;
use crate::capability::registry::{Listed, Registered, Registration, SourceKind, Trust};
use crate::capability::store::registry::{self as store, SourceRow};
use crate::corpora::entry::Id;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::precondition::Preconditions;

fn registered<T: Registration>(row: SourceRow) -> Result<Registered<T>> {
    Ok(Registered {
        name: Id::parse(&row.name).map_err(Error::internal)?,
        definition: serde_json::from_value(row.document).map_err(Error::internal)?,
        revision: row.revision,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

/// The source of this name, if there is one.
///
/// # Errors
/// Those of the database.
pub fn find<T: Registration>(tx: &mut Tx, name: &str) -> Result<Option<Registered<T>>> {
    // No other text is a name, and a text with U+0000 must not come to the database.
    if Id::parse(name).is_err() {
        return Ok(None);
    }
    store::find(tx, T::KIND, name, false)?.map(registered).transpose()
}

/// How much the registered API is to be trusted whose base URL this URL lies below, if there is one.
///
/// # Errors
/// Those of the database.
pub fn trust_in(tx: &mut Tx, url: &str) -> Result<Option<Trust>> {
    let found = store::covering(tx, url)?.map(serde_json::from_value::<Api>).transpose();
    Ok(found.map_err(Error::internal)?.map(|api| api.trust()))
}

/// The same, where it must be.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
pub fn get<T: Registration>(tx: &mut Tx, name: &str) -> Result<Registered<T>> {
    find(tx, name)?.ok_or_else(Error::not_found)
}

/// All sources after `after`, by kind and name, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn list(tx: &mut Tx, after: &(String, String), limit: i64) -> Result<Vec<Listed>> {
    let listed = |row: SourceRow| {
        let kind = [SourceKind::Api, SourceKind::Database].into_iter().find(|k| k.as_str() == row.kind);
        let kind = kind.ok_or_else(|| Error::internal(anyhow::anyhow!("no kind of source: {}", row.kind)))?;
        let SourceRow { name, created_at, updated_at, .. } = row;
        Ok(Listed { kind, name, created_at, updated_at })
    };
    store::list(tx, after, limit)?.into_iter().map(listed).collect()
}

/// Registers a source, or replaces what was registered; tells whether it is new. The same again changes nothing.
///
/// # Errors
/// [`Code::Invalid`](crate::error::Code::Invalid) by pointer;
/// [`Code::PreconditionFailed`](crate::error::Code::PreconditionFailed).
pub fn put<T: Registration>(
    tx: &mut Tx,
    ctx: &Ctx,
    name: &Id,
    new: &T,
    conditions: &Preconditions,
) -> Result<(Registered<T>, bool)> {
    new.check()?;
    let there = store::find(tx, T::KIND, name.as_str(), true)?.map(registered::<T>).transpose()?;
    conditions.check_write(there.as_ref().map(Registered::etag).as_deref())?;
    let document = serde_json::to_value(new).map_err(Error::internal)?;
    match there {
        Some(there) if there.definition == *new => Ok((there, false)),
        Some(_) => Ok((registered(store::update(tx, T::KIND, name.as_str(), &document, ctx.now)?)?, false)),
        None => Ok((registered(store::insert(tx, T::KIND, name.as_str(), &document, ctx.now)?)?, true)),
    }
}

/// Takes a registration away. Targets that name it find nothing from then on.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound);
/// [`Code::PreconditionFailed`](crate::error::Code::PreconditionFailed).
pub fn delete<T: Registration>(tx: &mut Tx, name: &str, conditions: &Preconditions) -> Result<()> {
    let there = if Id::parse(name).is_ok() { store::find(tx, T::KIND, name, true)? } else { None };
    let there: Registered<T> = there.map(registered).transpose()?.ok_or_else(Error::not_found)?;
    conditions.check_write(Some(&there.etag()))?;
    store::delete(tx, T::KIND, name)
}
