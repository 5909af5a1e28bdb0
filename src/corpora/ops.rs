//! What is done with corpora.

use std::collections::BTreeSet;

use serde_json::Value;

use super::corpus::{Corpus, NewCorpus};
use super::entry::{Id, Status};
use super::store::{self, CorpusRow};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::precondition::Preconditions;
use crate::slates::Slate;
use crate::{passages, slates};

pub mod gateway;

fn corpus(row: CorpusRow) -> Result<Corpus> {
    let Value::Object(document) = row.document else {
        return Err(Error::internal(anyhow::anyhow!("the corpus {} is no object", row.id)));
    };
    let id = Id::parse(&row.id).map_err(Error::internal)?;
    let new = NewCorpus::parse(id, document).map_err(Error::internal)?;
    Ok(Corpus { row: new, revision: row.revision, created_at: row.created_at, updated_at: row.updated_at })
}

/// The corpus of this id, if there is one and the key may touch its slate.
///
/// # Errors
/// Those of the database.
pub fn find(tx: &mut Tx, ctx: &Ctx, id: &str) -> Result<Option<Corpus>> {
    look(tx, ctx, id, false)
}

fn look(tx: &mut Tx, ctx: &Ctx, id: &str, lock: bool) -> Result<Option<Corpus>> {
    // No other text is an id, and a text with U+0000 must not come to the database.
    if Id::parse(id).is_err() {
        return Ok(None);
    }
    let found = store::find(tx, id, lock)?.map(corpus).transpose()?;
    Ok(found.filter(|corpus| corpus.row.slate().is_none_or(|(slate, _)| ctx.sees(slate))))
}

/// Those corpora of these ids that there are and whose slate the key may touch, in no order.
///
/// # Errors
/// Those of the database.
pub fn find_many(tx: &mut Tx, ctx: &Ctx, ids: &[&str]) -> Result<Vec<Corpus>> {
    let found: Result<Vec<Corpus>> = store::find_many(tx, ids)?.into_iter().map(corpus).collect();
    let seen = |corpus: &Corpus| corpus.row.slate().is_none_or(|(slate, _)| ctx.sees(slate));
    Ok(found?.into_iter().filter(seen).collect())
}

/// The corpus of this id; else the first published one in a slate that has it as its index name.
///
/// # Errors
/// Those of the database.
pub fn find_collection(tx: &mut Tx, ctx: &Ctx, name: &str) -> Result<Option<Corpus>> {
    if let Some(corpus) = find(tx, ctx, name)? {
        return Ok(Some(corpus));
    }
    if name.contains('\0') {
        return Ok(None);
    }
    store::find_collection(tx, ctx.slates.as_deref(), name)?.map(corpus).transpose()
}

/// The corpus of this id.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when there is none, or the key may not touch its slate.
pub fn get(tx: &mut Tx, ctx: &Ctx, id: &str) -> Result<Corpus> {
    find(tx, ctx, id)?.ok_or_else(Error::not_found)
}

/// The corpora after `after`, by id, at most `limit`; of those in slates, the ones that the key may touch.
///
/// # Errors
/// Those of the database.
pub fn list(tx: &mut Tx, ctx: &Ctx, after: Option<&str>, limit: i64) -> Result<Vec<Corpus>> {
    store::list(tx, ctx.slates.as_deref(), after, limit)?.into_iter().map(corpus).collect()
}

/// Makes a corpus, or sets it; tells whether it was made. The same row again changes nothing.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) where it is, or is to be, in a slate that the key may not touch;
/// [`Code::PreconditionFailed`](crate::error::Code::PreconditionFailed).
pub fn put(tx: &mut Tx, ctx: &Ctx, new: &NewCorpus, conditions: &Preconditions) -> Result<(Corpus, bool)> {
    if let Some((slate, _)) = new.slate() {
        ctx.slate(slate)?;
    }
    let there = store::find(tx, new.id.as_str(), true)?.map(corpus).transpose()?;
    if let Some((slate, _)) = there.as_ref().and_then(|there| there.row.slate()) {
        ctx.slate(slate)?;
    }
    conditions.check_write(there.as_ref().map(Corpus::etag).as_deref())?;
    let made = there.is_none();
    let before = match there {
        Some(there) if there.row == *new => return Ok((there, false)),
        there => there.and_then(|there| served(&there.row)),
    };
    let after = served(new);
    if before != after {
        passages::ops::hold_roots_alone(tx)?;
    }
    let row = if made { store::insert(tx, new, ctx.now)? } else { store::update(tx, new, ctx.now)? };
    if before != after {
        index(tx, ctx, before.into_iter().chain(after))?;
    }
    Ok((corpus(row)?, made))
}

/// The slate and folder whose files have passages for this corpus.
fn served(row: &NewCorpus) -> Option<(String, String)> {
    let (slate, folder) = row.slate().filter(|_| row.status == Status::Published)?;
    Some((slate.to_owned(), folder.to_owned()))
}

/// Has the files in these slates' published corpora cut to passages, and no others. Whoever writes files to one of the
/// slates waits.
fn index(tx: &mut Tx, ctx: &Ctx, places: impl Iterator<Item = (String, String)>) -> Result<()> {
    let slates: BTreeSet<String> = places.map(|(slate, _)| slate).collect();
    for name in slates {
        tx.without_timeout()?;
        let slate = slates::ops::find_to_set(tx, ctx, &name)?;
        let folders = store::published_folders(tx, &name)?;
        passages::ops::set_roots(tx, &name, slate.as_ref().map(Slate::home), &folders)?;
    }
    Ok(())
}

/// Deletes a corpus. Routes that name it fail closed from then on.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound);
/// [`Code::PreconditionFailed`](crate::error::Code::PreconditionFailed).
pub fn delete(tx: &mut Tx, ctx: &Ctx, id: &str, conditions: &Preconditions) -> Result<()> {
    let there = look(tx, ctx, id, true)?.ok_or_else(Error::not_found)?;
    conditions.check_write(Some(&there.etag()))?;
    let before = served(&there.row);
    if before.is_some() {
        passages::ops::hold_roots_alone(tx)?;
    }
    store::delete(tx, id)?;
    index(tx, ctx, before.into_iter())
}
