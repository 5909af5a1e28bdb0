//! What is done with corpora.

use serde_json::Value;

use super::corpus::{Corpus, NewCorpus};
use super::entry::Id;
use super::store::{self, CorpusRow};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::precondition::Preconditions;

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

/// The same, where it must be.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
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
    match there {
        Some(there) if there.row == *new => Ok((there, false)),
        Some(_) => Ok((corpus(store::update(tx, new, ctx.now)?)?, false)),
        None => Ok((corpus(store::insert(tx, new, ctx.now)?)?, true)),
    }
}

/// Deletes a corpus. Routes that name it fail closed from then on.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound);
/// [`Code::PreconditionFailed`](crate::error::Code::PreconditionFailed).
pub fn delete(tx: &mut Tx, ctx: &Ctx, id: &str, conditions: &Preconditions) -> Result<()> {
    let there = look(tx, ctx, id, true)?.ok_or_else(Error::not_found)?;
    conditions.check_write(Some(&there.etag()))?;
    store::delete(tx, id)
}
