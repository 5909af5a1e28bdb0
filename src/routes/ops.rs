//! What is done with versions of routes, and of capabilities, which are kept alike.

use serde_json::Value;

use super::route::Route;
use super::store::{self, VersionRow};
use super::version::{Kind, Version, Versioned};
use crate::corpora::entry::{Id, Status};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::precondition::Preconditions;

fn versioned(row: VersionRow) -> Result<Versioned> {
    let unknown = || Error::internal(anyhow::anyhow!("the status {} is unknown", row.status));
    Ok(Versioned {
        id: Id::parse(&row.id).map_err(Error::internal)?,
        version: Version::parse(&row.version).map_err(Error::internal)?,
        status: Status::from_word(&row.status).ok_or_else(unknown)?,
        document: row.document,
        revision: row.revision,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

/// The version of this name, if there is one.
///
/// # Errors
/// Those of the database.
pub fn find(tx: &mut Tx, kind: Kind, id: &str, version: &str) -> Result<Option<Versioned>> {
    // No other text is an id, and a text with U+0000 must not come to the database.
    if Id::parse(id).is_err() || Version::parse(version).is_err() {
        return Ok(None);
    }
    store::find(tx, kind, id, version, false)?.map(versioned).transpose()
}

/// The same, where it must be.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
pub fn get(tx: &mut Tx, kind: Kind, id: &str, version: &str) -> Result<Versioned> {
    find(tx, kind, id, version)?.ok_or_else(Error::not_found)
}

/// The versions after `after` (an id and a version), by id and version in byte order, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn list(tx: &mut Tx, kind: Kind, after: Option<&(String, String)>, limit: i64) -> Result<Vec<Versioned>> {
    store::list(tx, kind, after, limit)?.into_iter().map(versioned).collect()
}

/// The published version of one thing, where there is one and no other.
///
/// # Errors
/// Those of the database.
pub fn only_published(tx: &mut Tx, kind: Kind, id: &str) -> Result<Option<Versioned>> {
    let mut published = of(tx, kind, id)?.into_iter().filter(|version| version.status == Status::Published);
    Ok(published.next().filter(|_| published.next().is_none()))
}

/// All versions of one thing.
///
/// # Errors
/// Those of the database.
pub fn of(tx: &mut Tx, kind: Kind, id: &str) -> Result<Vec<Versioned>> {
    if Id::parse(id).is_err() {
        return Ok(Vec::new());
    }
    store::of(tx, kind, id)?.into_iter().map(versioned).collect()
}

/// Makes a version, or changes one as far as it may be; tells whether it was made.
///
/// # Errors
/// [`Code::VersionPublished`](crate::error::Code::VersionPublished);
/// [`Code::PreconditionFailed`](crate::error::Code::PreconditionFailed).
pub fn put(
    tx: &mut Tx,
    ctx: &Ctx,
    kind: Kind,
    (id, version): (&Id, &Version),
    document: &Value,
    status: Status,
    conditions: &Preconditions,
) -> Result<(Versioned, bool)> {
    let name = (id.as_str(), version.as_str());
    let there = store::find(tx, kind, name.0, name.1, true)?.map(versioned).transpose()?;
    conditions.check_write(there.as_ref().map(Versioned::etag).as_deref())?;
    let Some(there) = there else {
        let row = store::insert(tx, kind, name, document, status.as_str(), ctx.now)?;
        return Ok((versioned(row)?, true));
    };
    there.check_change(document, status)?;
    if there.document == *document && there.status == status {
        return Ok((there, false));
    }
    let row = store::update(tx, kind, name, document, status.as_str(), ctx.now)?;
    Ok((versioned(row)?, false))
}

/// What a version of a route says, and whether it is used; none where there is no such version.
///
/// # Errors
/// Those of the database.
pub fn find_route(tx: &mut Tx, id: &str, version: &str) -> Result<Option<(Route, Status)>> {
    let Some(found) = find(tx, Kind::Route, id, version)? else { return Ok(None) };
    Ok(Some((serde_json::from_value(found.document).map_err(Error::internal)?, found.status)))
}
