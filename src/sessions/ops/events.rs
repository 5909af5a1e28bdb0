//! The events of a session: written with what they tell of, and read by whoever watches.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Lock, load, store};
use crate::ctx::{Ctx, TenantId};
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::sessions::event::{Event, Happened};

/// The topic that is notified of a session's events.
pub fn topic(tenant: TenantId, session: Uuid) -> String {
    format!("session {} {session}", tenant.0)
}

/// Adds an event, and wakes who watches once it is committed.
///
/// # Errors
/// Those of the database.
pub fn append(tx: &mut Tx, session: Uuid, happened: &Happened, now: DateTime<Utc>) -> Result<()> {
    let data = serde_json::to_value(happened).map_err(Error::internal)?;
    let topic = topic(TenantId(tx.tenant()), session);
    store::events::append(tx, session, happened.kind(), &data, &topic, now)
}

/// The events after number `after`, at most `limit`, and whether nothing follows them any more.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
pub fn after(tx: &mut Tx, ctx: &Ctx, session: Uuid, after: i64, limit: i64) -> Result<(Vec<Event>, bool)> {
    // The session first: if it is finished, its last event is there.
    let finished = load(tx, ctx, session, Lock::None)?.state.status.is_finished();
    let rows = store::events::after(tx, session, after, limit)?;
    let last = (rows.len() as i64) < limit;
    let events = rows.into_iter().map(|(number, kind, data)| Event { number, kind, data });
    Ok((events.collect(), finished && last))
}
