//! Rounds that are calls of tools: a model asks by one tool and answers by another, so that what it says is never guessed.

use uuid::Uuid;

use super::rounds::{By, NewRound, rendered, submit_by, taken};
use super::{loaded, store};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, FieldError, Result};
use crate::sessions::machine::Status;
use crate::sessions::output::{Decision, decide};
use crate::sessions::schema::compile_request_match;
use crate::sessions::view::RoundView;

/// What came of asking for more.
#[derive(Debug)]
pub enum Called {
    /// The round, taken now or before.
    Round(Box<RoundView>),
    /// Nothing: the rounds are spent. The session stands as it did.
    Exhausted,
    /// Nothing: the arguments are no request, which these failures tell. The session stands as it did.
    Refused(Vec<FieldError>),
}

/// Takes a round by a call that asks for more.
///
/// # Errors
/// As [`submit_by`].
pub fn ask(tx: &mut Tx, ctx: &Ctx, id: Uuid, new: &NewRound) -> Result<Called> {
    let found = store::find_for_round(tx, id, new.key.as_deref())?;
    let (found, of_key) = found.filter(|(row, _)| ctx.sees(&row.slate)).ok_or_else(Error::not_found)?;
    let session = loaded(found)?;
    if let Some(row) = taken(tx, &session.row, new, of_key)? {
        return Ok(Called::Round(Box::new(rendered(tx, row, ctx.now)?)));
    }
    if session.state.status.is_finished() {
        return Err(Error::new(Code::SessionFinished, "the session is finished"));
    }
    if session.state.status == Status::Exhausted {
        return Ok(Called::Exhausted);
    }
    let schema = compile_request_match(&session.terms.request_match, "/retrieve/requestMatch")
        .map_err(|wrong| Error::internal(anyhow::anyhow!("a stored schema: {}", wrong.detail)))?;
    if !matches!(decide(&new.output, &schema), Decision::Retrieval(_)) {
        let mut failures = schema.failures(&new.output);
        if failures.is_empty() {
            let modes: Vec<_> = schema.granted.iter().map(|mode| format!("`{}`", mode.as_str())).collect();
            failures.push(FieldError::new("", format!("must have at least one of {}", modes.join(", "))));
        }
        return Ok(Called::Refused(failures));
    }
    submit_by(tx, ctx, id, new, By::Client).map(|view| Called::Round(Box::new(view)))
}

/// Ends the session by a call that answers, whatever the answer looks like.
///
/// # Errors
/// As [`submit_by`].
pub fn answer(tx: &mut Tx, ctx: &Ctx, id: Uuid, new: &NewRound) -> Result<RoundView> {
    submit_by(tx, ctx, id, new, By::Answer)
}
