//! The SQL of `session_events`.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Json, Text, Timestamptz, Uuid as SqlUuid};
use serde_json::Value;
use uuid::Uuid;

use crate::db::schema::session_events;
use crate::db::{CHANNEL, Tx};
use crate::error::Result;

/// The row of the session says which event this is. Two who append at once meet at the event's key, and one begins anew.
pub(in crate::sessions) fn append(
    tx: &mut Tx,
    session: Uuid,
    kind: &str,
    data: &Value,
    topic: &str,
    now: DateTime<Utc>,
) -> Result<()> {
    sql_query(
        "with counted as (update sessions set event_count = event_count + 1 where tenant_id = $1 and id = $2 returning 1) \
         insert into session_events (tenant_id, session_id, number, kind, data, created_at) \
         select s.tenant_id, s.id, s.event_count + 1, $3, $4, $5 from sessions s where s.tenant_id = $1 and s.id = $2 \
         returning pg_notify($6, $7)",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(session)
    .bind::<Text, _>(kind)
    .bind::<Json, _>(data)
    .bind::<Timestamptz, _>(now)
    .bind::<Text, _>(CHANNEL)
    .bind::<Text, _>(topic)
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
