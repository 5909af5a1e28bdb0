//! The SQL of `session_events`.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::Value;
use uuid::Uuid;

use crate::db::Tx;
use crate::db::schema::{session_events, sessions};
use crate::error::Result;

/// The row of the session, which it locks, says which event this is.
pub(in crate::sessions) fn append(
    tx: &mut Tx,
    session: Uuid,
    kind: &str,
    data: &Value,
    now: DateTime<Utc>,
) -> Result<()> {
    let this = sessions::table.filter(sessions::tenant_id.eq(tx.tenant()).and(sessions::id.eq(session)));
    let number: i64 = diesel::update(this)
        .set(sessions::event_count.eq(sessions::event_count + 1))
        .returning(sessions::event_count)
        .get_result(tx.conn())?;
    diesel::insert_into(session_events::table)
        .values((
            session_events::tenant_id.eq(tx.tenant()),
            session_events::session_id.eq(session),
            session_events::number.eq(number),
            session_events::kind.eq(kind),
            session_events::data.eq(data),
            session_events::created_at.eq(now),
        ))
        .execute(tx.conn())?;
    Ok(())
}

/// The events after number `after`, in order.
pub(in crate::sessions) fn after(
    tx: &mut Tx,
    session: Uuid,
    after: i64,
    limit: i64,
) -> Result<Vec<(i64, String, Value)>> {
    let rows = session_events::table
        .filter(session_events::tenant_id.eq(tx.tenant()).and(session_events::session_id.eq(session)))
        .filter(session_events::number.gt(after))
        .order(session_events::number)
        .limit(limit)
        .select((session_events::number, session_events::kind, session_events::data))
        .load(tx.conn())?;
    Ok(rows)
}
