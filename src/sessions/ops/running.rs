//! What a loop that the service runs itself needs of a session, beyond what a client does.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Loaded, Lock, NOTHING, commit, load, refusal};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::sessions::event::Happened;
use crate::sessions::machine::{self, Event, Status};

/// Where a session stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Where it is in its life.
    pub status: Status,
    /// Rounds taken so far.
    pub round: u32,
    /// The schema that tells a request from an answer.
    pub request_match: Value,
}

/// Makes the service the one that calls the model of this session.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::SessionFinished`]; [`Code::RunActive`] where it is so already.
pub fn begin(tx: &mut Tx, ctx: &Ctx, id: Uuid, model: &str) -> Result<()> {
    let mut session = load(tx, ctx, id, Lock::Update)?;
    if session.state.status.is_finished() {
        return Err(Error::new(Code::SessionFinished, "the session is finished"));
    }
    if session.row.is_run {
        return Err(Error::new(Code::RunActive, "it is running already"));
    }
    session.row.is_run = true;
    let told = Happened::Run { model: model.to_owned() };
    commit(tx, &mut session, &[], (&[told], &[]), ctx.now)
}

/// Where the session stands; it changes no more until the transaction ends.
///
/// # Errors
/// [`Code::NotFound`].
pub fn standing(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<Standing> {
    load(tx, ctx, id, Lock::Update).map(stands)
}

/// The same at a glance: it may change at once.
///
/// # Errors
/// [`Code::NotFound`].
pub fn glance(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<Standing> {
    load(tx, ctx, id, Lock::None).map(stands)
}

fn stands(Loaded { state, terms, .. }: Loaded) -> Standing {
    Standing { status: state.status, round: state.round, request_match: terms.request_match }
}

/// Ends the session as failed; one that is finished stays as it is.
///
/// # Errors
/// [`Code::NotFound`].
pub fn fail(tx: &mut Tx, ctx: &Ctx, id: Uuid, reason: &str, detail: &str) -> Result<()> {
    let mut session = load(tx, ctx, id, Lock::Update)?;
    if session.state.status.is_finished() {
        return Ok(());
    }
    let (state, effects) = machine::step(session.state, Event::Fail).map_err(refusal)?;
    session.state = state;
    session.row.failure = Some(json!({"reason": reason, "detail": detail}));
    commit(tx, &mut session, &effects, NOTHING, ctx.now)
}
