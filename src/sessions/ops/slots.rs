//! A session's working memory, for the tools that fill it (corpora, "Retrieve tools").

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Loaded, NOTHING, commit, load};
use crate::corpora::pack::MAX_SLOT;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::provenance;
use crate::provenance::ops::{Link, NewRecord};
use crate::provenance::record::Recorded;
use crate::routes::route::RouteRef;
use crate::sessions::store::{Lock, SessionRow};

/// The most slots of a session.
pub const MAX_SLOTS: usize = 128;

/// What a tool may know of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// What the session is for.
    pub goal: Option<Value>,
    /// Its working memory: `{"slots": {}, "notes": []}`.
    pub working: Value,
    /// The route that it is on.
    pub route: Option<RouteRef>,
}

/// What a tool may know of a session that is not finished.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::SessionFinished`].
pub fn memory(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<Memory> {
    let Loaded { row, .. } = unfinished(load(tx, ctx, id, Lock::None)?)?;
    let route = row.route.map(serde_json::from_value).transpose().map_err(Error::internal)?;
    Ok(Memory { goal: row.goal, working: row.working, route })
}

fn unfinished(session: Loaded) -> Result<Loaded> {
    match session.state.status.is_finished() {
        true => Err(Error::new(Code::SessionFinished, "the session is finished")),
        false => Ok(session),
    }
}

/// The chain of a session's records, to add to.
pub struct Chain<'a>(&'a mut SessionRow);

impl Chain<'_> {
    /// Adds a record, whatever its link says, at the end of the chain.
    ///
    /// # Errors
    /// Those of the database.
    pub fn record(&mut self, tx: &mut Tx, ctx: &Ctx, new: NewRecord<'_>) -> Result<Recorded> {
        let Chain(row) = self;
        let link = Link {
            session_id: row.id,
            round: row.round,
            position: row.chain_length + 1,
            previous: row.chain_hash.take(),
        };
        let recorded = provenance::ops::record(tx, ctx, NewRecord { link: Some(link), ..new })?;
        (row.chain_length, row.chain_hash) = (recorded.record.position, Some(recorded.hash.clone()));
        Ok(recorded)
    }
}

/// Stores in a slot what `fill` gives, with what it records.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::SessionFinished`]; [`Code::ToolFailed`] for more than a slot holds; [`Code::Invalid`] at
/// `/stage` for more slots than a session has; those of `fill`.
pub fn store_slot<T>(
    tx: &mut Tx,
    ctx: &Ctx,
    id: Uuid,
    stage: &str,
    fill: impl FnOnce(&mut Tx, &mut Chain) -> Result<(Value, T)>,
) -> Result<(Value, T)> {
    let mut session = unfinished(load(tx, ctx, id, Lock::Update)?)?;
    let (value, more) = fill(tx, &mut Chain(&mut session.row))?;
    let size = value.to_string().len();
    if size > MAX_SLOT {
        let detail = format!("what it gives has {size} bytes, and a slot may have {MAX_SLOT}");
        return Err(Error::new(Code::ToolFailed, detail));
    }
    if !session.row.working["slots"].is_object() {
        session.row.working["slots"] = json!({});
    }
    session.row.working["slots"][stage] = value.clone();
    if session.row.working["slots"].as_object().is_some_and(|slots| slots.len() > MAX_SLOTS) {
        return Err(Error::invalid_at("/stage", format!("a session has at most {MAX_SLOTS} slots")));
    }
    commit(tx, &mut session, &[], NOTHING, ctx.now)?;
    Ok((value, more))
}
