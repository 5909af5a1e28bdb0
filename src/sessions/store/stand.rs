//! Where a session stands after something happened: its row, its events and what entered its context are stored at once.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{
    Array, BigInt, Binary, Bool, Integer, Json, Nullable, Text, Timestamptz, Uuid as SqlUuid,
};
use serde_json::Value;

use super::{Entry, SessionRow};
use crate::db::kept::Kept;
use crate::db::{CHANNEL, Tx};
use crate::error::Result;

/// What is stored with a session's row.
pub(in crate::sessions) struct Happening<'a> {
    /// The files that enter the context in round `round`; a file that is there already is an error.
    pub entries: &'a [Entry],
    pub round: i32,
    /// Events by kind, in order.
    pub events: &'a [(&'static str, Value)],
    /// Who is told of them.
    pub topic: &'a str,
}

/// Stores what has changed of the session, under its next revision. The row is locked, so its count of events is what the
/// statement reads.
pub(in crate::sessions) fn stand(
    tx: &mut Tx,
    row: &mut SessionRow,
    happening: &Happening<'_>,
    now: DateTime<Utc>,
) -> Result<()> {
    (row.revision, row.updated_at) = (row.revision + 1, now);
    let Happening { entries, round, events, topic } = happening;
    let (kinds, data): (Vec<&str>, Vec<&Value>) = events.iter().map(|(kind, data)| (*kind, data)).unzip();
    let statement = sql_query(
        "with entered as ( \
             insert into session_context (tenant_id, session_id, epoch, file_id, slot, version, round, item) \
             select $1, $2, $3, e.file_id, e.slot, e.version, $4, e.item \
             from unnest($5, $6, $7, $8) as e (file_id, slot, version, item) returning 1), \
         told as ( \
             insert into session_events (tenant_id, session_id, number, kind, data, created_at) \
             select s.tenant_id, s.id, s.event_count + e.n, e.kind, e.data, $9 \
             from sessions s cross join unnest($10, $11) with ordinality as e (kind, data, n) \
             where s.tenant_id = $1 and s.id = $2 returning 1) \
         update sessions set epoch = $3, updated_at = $9, event_count = event_count + cardinality($10), status = $12, \
             round = $13, shown_bytes = $14, working = $15, answer = $16, forced = $17, failure = $18, is_run = $19, \
             chain_length = $20, chain_hash = $21, revision = $22, finished_at = $23 \
         where tenant_id = $1 and id = $2 \
         returning case when cardinality($10) > 0 then pg_notify($24, $25) end",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(row.id)
    .bind::<Integer, _>(row.epoch)
    .bind::<Integer, _>(round)
    .bind::<Array<BigInt>, _>(entries.iter().map(|entry| entry.file_id).collect::<Vec<_>>())
    .bind::<Array<BigInt>, _>(entries.iter().map(|entry| entry.slot).collect::<Vec<_>>())
    .bind::<Array<BigInt>, _>(entries.iter().map(|entry| entry.version).collect::<Vec<_>>())
    .bind::<Array<Integer>, _>(entries.iter().map(|entry| entry.item).collect::<Vec<_>>())
    .bind::<Timestamptz, _>(now)
    .bind::<Array<Text>, _>(kinds)
    .bind::<Array<Json>, _>(data)
    .bind::<Text, _>(&row.status)
    .bind::<Integer, _>(row.round)
    .bind::<BigInt, _>(row.shown_bytes)
    .bind::<Json, _>(&row.working)
    .bind::<Nullable<Json>, _>(&row.answer)
    .bind::<Bool, _>(row.forced)
    .bind::<Nullable<Json>, _>(&row.failure)
    .bind::<Bool, _>(row.is_run)
    .bind::<BigInt, _>(row.chain_length)
    .bind::<Nullable<Binary>, _>(&row.chain_hash)
    .bind::<BigInt, _>(row.revision)
    .bind::<Nullable<Timestamptz>, _>(row.finished_at)
    .bind::<Text, _>(CHANNEL)
    .bind::<Text, _>(topic);
    Kept(statement).execute(tx.conn())?;
    Ok(())
}
