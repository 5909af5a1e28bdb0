//! Taking a key, and keeping what came of it.

use chrono::{DateTime, TimeDelta, Utc};

use super::{KEPT_HOURS, Key, LEASE_SECONDS, Outcome, store};
use crate::db::Tx;
use crate::error::{Code, Error, Result};

/// The right to work under a key until its end, which is also what fences off a call that took too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The API key that the idempotency key belongs to.
    pub key_id: i64,
    /// The idempotency key.
    pub key: Key,
    until: DateTime<Utc>,
}

/// What a call is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The work, under this lease.
    First(Lease),
    /// Nothing: this came of the first call.
    Replay(Outcome),
}

/// Takes the key for a request, or finds what came of the first call.
///
/// # Errors
/// [`Code::IdempotencyMismatch`], [`Code::IdempotencyRunning`], [`Code::SecretAlreadyShown`].
pub fn begin(tx: &mut Tx, key_id: i64, key: &Key, request: &[u8; 32], now: DateTime<Utc>) -> Result<Begun> {
    let lease = Lease { key_id, key: key.clone(), until: now + TimeDelta::seconds(LEASE_SECONDS) };
    let oldest = now - TimeDelta::hours(KEPT_HOURS);
    store::forget_expired(tx, oldest)?;
    if store::insert(tx, key_id, key, request, lease.until, now)? {
        return Ok(Begun::First(lease));
    }
    let Some(found) = store::lock(tx, key_id, key)? else {
        // It was freed between the two statements.
        return Err(Error::new(Code::Conflict, "another request let go of this Idempotency-Key; try again"));
    };
    let died = found.outcome.is_none() && found.lease_until <= now;
    if died || found.created_at <= oldest {
        store::take_over(tx, key_id, key, request, lease.until, now)?;
        return Ok(Begun::First(lease));
    }
    if found.request_sha256 != request {
        return Err(Error::new(
            Code::IdempotencyMismatch,
            "this Idempotency-Key belongs to a request with another path, query, content type or body",
        ));
    }
    match found.outcome {
        None => Err(Error::new(Code::IdempotencyRunning, "ask again when the first call has ended")),
        Some(Outcome { body: None, .. }) => Err(Error::new(
            Code::SecretAlreadyShown,
            "the first call under this Idempotency-Key succeeded; revoke what it made if its answer was lost",
        )),
        Some(outcome) => Ok(Begun::Replay(outcome)),
    }
}

/// Keeps what came of the call, unless its lease went to another.
///
/// # Errors
/// Of the database.
pub fn keep(tx: &mut Tx, lease: &Lease, outcome: &Outcome) -> Result<()> {
    store::keep(tx, lease.key_id, &lease.key, lease.until, outcome)
}

/// Frees the key of a call that came to nothing.
///
/// # Errors
/// Of the database.
pub fn free(tx: &mut Tx, lease: &Lease) -> Result<()> {
    store::free(tx, lease.key_id, &lease.key, lease.until)
}
