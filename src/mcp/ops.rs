//! MCP sessions: opened, found and closed.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::store::{self, NewRow};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Result;

/// How long an MCP session lasts, in hours.
pub const LASTS_HOURS: i64 = 24;

/// How many MCP sessions a tenant may have open at once; with one more, the oldest is closed.
pub const MAX_OPEN: i64 = 1000;

/// Opens one for the caller's key, at the session `at` or at `/mcp`. Tells which were closed to make room: those whose time
/// is over, and the oldest of a tenant that has as many as it may.
///
/// # Errors
/// Those of the database.
pub fn open(tx: &mut Tx, ctx: &Ctx, id: Uuid, at: Option<Uuid>) -> Result<Vec<Uuid>> {
    store::sweep(tx, ctx.now)?;
    let closed = store::oldest(tx, MAX_OPEN - 1)?;
    if !closed.is_empty() {
        store::delete_all(tx, &closed)?;
    }
    let expires_at = ctx.now + TimeDelta::hours(LASTS_HOURS);
    let row = NewRow { id, key_id: ctx.key_id, session_id: at, created_at: ctx.now, expires_at };
    store::insert(tx, &row)?;
    Ok(closed)
}

/// Keeps what the client said of itself, so that another server may take the MCP session up.
///
/// # Errors
/// Those of the database.
pub fn greet(tx: &mut Tx, ctx: &Ctx, id: Uuid, initialize: &Value) -> Result<()> {
    store::greet(tx, id, ctx.key_id, initialize)
}

/// What the client of an MCP session said of itself, and when its time is over; none where it is not one of this key at
/// this address.
///
/// # Errors
/// Those of the database.
pub fn find(tx: &mut Tx, ctx: &Ctx, id: Uuid, at: Option<Uuid>) -> Result<Option<(Value, DateTime<Utc>)>> {
    let row = store::find(tx, id, ctx.key_id)?;
    let row = row.filter(|row| row.session_id == at && row.expires_at > ctx.now);
    Ok(row.and_then(|row| Some((row.initialize?, row.expires_at))))
}

/// Ends one.
///
/// # Errors
/// Those of the database.
pub fn close(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<()> {
    store::delete(tx, id, ctx.key_id)
}
