//! The sessions' SQL; that of their events is in [`events`].

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use serde_json::Value;
use uuid::Uuid;

use super::machine::Status;
use crate::db::Tx;
use crate::db::kept::Kept;
use crate::db::schema::{
    rounds, run_answers, run_queue, runs, session_context, session_events, session_seals, sessions,
};
use crate::error::Result;
use crate::provenance::record::FileVersion;

pub(super) mod events;
pub(super) mod stand;

/// A row of `sessions`.
#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = sessions)]
pub(super) struct SessionRow {
    pub id: Uuid,
    pub slate: String,
    pub folder: String,
    pub declaration: Value,
    pub fields: Value,
    pub goal: Option<Value>,
    pub route: Option<Value>,
    pub working: Value,
    pub status: String,
    pub round: i32,
    pub epoch: i32,
    pub shown_bytes: i64,
    pub answer: Option<Value>,
    pub forced: bool,
    pub failure: Option<Value>,
    pub chain_length: i64,
    pub chain_hash: Option<Vec<u8>>,
    pub revision: i64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
    pub is_run: bool,
}

/// What a list tells of a session.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = sessions)]
pub(super) struct SummaryRow {
    pub id: Uuid,
    pub slate: String,
    pub folder: String,
    pub declaration: Value,
    pub status: String,
    pub round: i32,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
}

/// A row of `rounds`.
#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = rounds)]
pub(super) struct RoundRow {
    pub session_id: Uuid,
    pub number: i32,
    pub epoch: i32,
    pub output: Value,
    pub idempotency_key: Option<String>,
    pub decision: String,
    pub reason: Option<String>,
    pub forced: bool,
    pub record_id: Option<Uuid>,
    pub ignored: Value,
    pub errors: Value,
    pub listings: Value,
    pub hints: Value,
    pub repeats: Value,
    pub truncated: bool,
    pub omitted_files: i64,
    pub omitted_bytes: i64,
    pub total: Option<i64>,
    pub status: String,
    pub created_at: DateTime<Utc>,
}

#[derive(QueryableByName)]
struct FileVersionRow {
    #[diesel(sql_type = BigInt)]
    file_id: i64,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = BigInt)]
    size: i64,
    #[diesel(sql_type = Binary)]
    sha256: Vec<u8>,
    #[diesel(sql_type = Text)]
    media_type: String,
    #[diesel(sql_type = Bool)]
    is_text: bool,
}

/// A version in context, and where it was shown.
#[derive(Debug, Clone, QueryableByName)]
pub(super) struct Shown {
    #[diesel(sql_type = BigInt)]
    pub file_id: i64,
    #[diesel(sql_type = BigInt)]
    pub version: i64,
    #[diesel(sql_type = Integer)]
    pub round: i32,
    #[diesel(sql_type = Text)]
    pub path: String,
    #[diesel(sql_type = BigInt)]
    pub size: i64,
}

/// A file that enters the context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub file_id: i64,
    pub slot: i64,
    pub version: i64,
    /// Which item of the round it is, from 1.
    pub item: i32,
}

/// A version that a record names, as it may be read now.
#[derive(Debug, Clone, QueryableByName)]
pub(super) struct VersionRow {
    #[diesel(sql_type = BigInt)]
    pub file_id: i64,
    #[diesel(sql_type = BigInt)]
    pub version: i64,
    #[diesel(sql_type = Text)]
    pub media_type: String,
    #[diesel(sql_type = Bool)]
    pub is_text: bool,
    /// Purged, past the slate's retention, or kept from readers by now.
    #[diesel(sql_type = Bool)]
    pub gone: bool,
    /// The bytes, where they were asked for and are text that may be read.
    #[diesel(sql_type = Nullable<Binary>)]
    pub data: Option<Vec<u8>>,
}

#[derive(QueryableByName)]
struct CountRow {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

#[derive(QueryableByName)]
struct IdRow {
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
}

pub(super) fn insert(tx: &mut Tx, row: &SessionRow) -> Result<()> {
    diesel::insert_into(sessions::table)
        .values((sessions::tenant_id.eq(tx.tenant()), row.clone()))
        .execute(tx.conn())?;
    Ok(())
}

/// How a session is held until the transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Not at all.
    None,
    /// Nobody changes it: what is read of it in several statements fits together.
    Share,
    /// Nobody else changes it, or reads it so.
    Update,
}

pub(super) fn find(tx: &mut Tx, id: Uuid, lock: Lock) -> Result<Option<SessionRow>> {
    let query = sessions::table
        .filter(sessions::tenant_id.eq(tx.tenant()).and(sessions::id.eq(id)))
        .select(SessionRow::as_select());
    let row = match lock {
        Lock::None => query.first(tx.conn()),
        Lock::Share => query.for_share().first(tx.conn()),
        Lock::Update => query.for_update().first(tx.conn()),
    };
    Ok(row.optional()?)
}

/// The same for a round, held against every other, and the number of the round that was taken under this key.
pub(super) fn find_for_round(
    tx: &mut Tx,
    id: Uuid,
    key: Option<&str>,
) -> Result<Option<(SessionRow, Option<i32>)>> {
    let taken = diesel::dsl::sql::<Nullable<Integer>>("(select r.number from rounds r where r.tenant_id = ")
        .bind::<BigInt, _>(tx.tenant())
        .sql(" and r.session_id = ")
        .bind::<SqlUuid, _>(id)
        .sql(" and r.idempotency_key = ")
        .bind::<Nullable<Text>, _>(key)
        .sql(")");
    Ok(sessions::table
        .filter(sessions::tenant_id.eq(tx.tenant()).and(sessions::id.eq(id)))
        .select((SessionRow::as_select(), taken))
        .for_update()
        .first(tx.conn())
        .optional()?)
}

/// Newest first, those opened before `before`.
pub(super) fn list(
    tx: &mut Tx,
    status: Option<Status>,
    slates: Option<&[String]>,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<SummaryRow>> {
    let mut query = sessions::table
        .filter(sessions::tenant_id.eq(tx.tenant()))
        .select(SummaryRow::as_select())
        .order(sessions::id.desc())
        .limit(limit)
        .into_boxed();
    if let Some(status) = status {
        query = query.filter(sessions::status.eq(status.as_str()));
    }
    if let Some(slates) = slates {
        query = query.filter(sessions::slate.eq_any(slates.to_vec()));
    }
    if let Some(before) = before {
        query = query.filter(sessions::id.lt(before));
    }
    Ok(query.load(tx.conn())?)
}

/// Deletes sessions with all that hangs on them: rounds, context, events, and what was run of them. Their records and
/// seals stay.
pub(super) fn delete(tx: &mut Tx, ids: &[Uuid]) -> Result<()> {
    let tenant = tx.tenant();
    macro_rules! delete_from {
        ($($table:ident),*) => {
            $(diesel::delete($table::table.filter($table::tenant_id.eq(tenant).and($table::session_id.eq_any(ids))))
                .execute(tx.conn())?;)*
        };
    }
    delete_from!(run_queue, run_answers, runs, session_events, session_context, rounds);
    diesel::delete(sessions::table.filter(sessions::tenant_id.eq(tenant).and(sessions::id.eq_any(ids))))
        .execute(tx.conn())?;
    Ok(())
}

/// Some of the sessions that finished longer ago than the tenant keeps them.
pub(super) fn expired(tx: &mut Tx, now: DateTime<Utc>, limit: i64) -> Result<Vec<Uuid>> {
    let rows: Vec<IdRow> = sql_query(
        "with t as materialized (select $2 - make_interval(days => session_retention_days) as horizon \
             from tenant_settings where tenant_id = $1) \
         select s.id from sessions s where s.tenant_id = $1 and s.finished_at < (select horizon from t) \
         limit $3 for update skip locked",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Timestamptz, _>(now)
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Seals the chain of a session that has come to its end.
pub(super) fn seal(tx: &mut Tx, row: &SessionRow, now: DateTime<Utc>) -> Result<()> {
    diesel::insert_into(session_seals::table)
        .values((
            session_seals::tenant_id.eq(tx.tenant()),
            session_seals::session_id.eq(row.id),
            session_seals::records.eq(row.chain_length),
            session_seals::last_hash.eq(row.chain_hash.as_deref()),
            session_seals::sealed_at.eq(now),
        ))
        .execute(tx.conn())?;
    Ok(())
}

pub(super) fn insert_round(tx: &mut Tx, row: &RoundRow) -> Result<()> {
    diesel::insert_into(rounds::table)
        .values((rounds::tenant_id.eq(tx.tenant()), row.clone()))
        .execute(tx.conn())?;
    Ok(())
}

/// Bytes of the outputs and listings of a session's rounds.
pub(super) fn weight(tx: &mut Tx, session: Uuid) -> Result<i64> {
    let row: CountRow = sql_query(
        "select coalesce(sum(octet_length(output::text) + octet_length(listings::text)), 0)::bigint as count from rounds \
         where tenant_id = $1 and session_id = $2",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(session)
    .get_result(tx.conn())?;
    Ok(row.count)
}

pub(super) fn round(tx: &mut Tx, session: Uuid, number: i32) -> Result<Option<RoundRow>> {
    let row = rounds::table
        .filter(rounds::tenant_id.eq(tx.tenant()).and(rounds::session_id.eq(session)))
        .filter(rounds::number.eq(number))
        .select(RoundRow::as_select())
        .first(tx.conn())
        .optional()?;
    Ok(row)
}

/// The rounds after `after`, in order.
pub(super) fn rounds(tx: &mut Tx, session: Uuid, after: i32, limit: i64) -> Result<Vec<RoundRow>> {
    let rows = rounds::table
        .filter(rounds::tenant_id.eq(tx.tenant()).and(rounds::session_id.eq(session)))
        .filter(rounds::number.gt(after))
        .select(RoundRow::as_select())
        .order(rounds::number)
        .limit(limit)
        .load(tx.conn())?;
    Ok(rows)
}

/// The rounds of a context epoch, in order.
pub(super) fn rounds_of_epoch(tx: &mut Tx, session: Uuid, epoch: i32) -> Result<Vec<RoundRow>> {
    let rows = rounds::table
        .filter(rounds::tenant_id.eq(tx.tenant()).and(rounds::session_id.eq(session)))
        .filter(rounds::epoch.eq(epoch))
        .select(RoundRow::as_select())
        .order(rounds::number)
        .load(tx.conn())?;
    Ok(rows)
}

/// A version in context.
pub(super) struct Known {
    pub file: FileVersion,
    pub media_type: String,
    pub is_text: bool,
}

/// Which of these files are in context, each by its newest version there.
pub(super) fn in_context(tx: &mut Tx, session: &SessionRow, files: &[i64]) -> Result<Vec<Known>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let statement = sql_query(
        "select c.file_id, v.version, v.path, v.size, v.sha256, v.media_type, v.is_text from unnest($4) as c (file_id) \
         cross join lateral (select n.version from session_context n where n.tenant_id = $1 and n.session_id = $2 \
             and n.epoch = $3 and n.file_id = c.file_id order by n.slot desc limit 1) as n \
         cross join lateral (select * from file_versions v \
             where v.tenant_id = $1 and v.file_id = c.file_id and v.version = n.version limit 1) as v",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(session.id)
    .bind::<Integer, _>(session.epoch)
    .bind::<Array<BigInt>, _>(files);
    let rows: Vec<FileVersionRow> = Kept(statement).load(tx.conn())?;
    let known = |row: FileVersionRow| Known {
        media_type: row.media_type,
        is_text: row.is_text,
        file: FileVersion {
            file_id: row.file_id,
            version: row.version,
            path: row.path,
            size: row.size,
            sha256: row.sha256,
        },
    };
    Ok(rows.into_iter().map(known).collect())
}

/// What is in context, in the order shown, at most `limit`; all that was shown in rounds before `before` alone, if given.
pub(super) fn context(
    tx: &mut Tx,
    session: &SessionRow,
    before: Option<i32>,
    limit: Option<i64>,
) -> Result<Vec<Shown>> {
    let rows = sql_query(
        "with c as materialized (select file_id, version, round, item from session_context \
             where tenant_id = $1 and session_id = $2 and epoch = $3 and ($4 is null or round < $4) \
             order by round, item limit $5) \
         select c.file_id, c.version, c.round, v.path, v.size from c cross join lateral (select * from file_versions v \
             where v.tenant_id = $1 and v.file_id = c.file_id and v.version = c.version limit 1) as v \
         order by c.round, c.item",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(session.id)
    .bind::<Integer, _>(session.epoch)
    .bind::<Nullable<Integer>, _>(before)
    .bind::<Nullable<BigInt>, _>(limit)
    .load(tx.conn())?;
    Ok(rows)
}

/// How many files are in context; only those among `files`, if given.
pub(super) fn count_context(tx: &mut Tx, session: &SessionRow, files: Option<&[i64]>) -> Result<i64> {
    let row: CountRow = sql_query(
        "select count(distinct file_id) as count from session_context \
         where tenant_id = $1 and session_id = $2 and epoch = $3 and ($4 is null or file_id = any($4))",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(session.id)
    .bind::<Integer, _>(session.epoch)
    .bind::<Nullable<Array<BigInt>>, _>(files)
    .get_result(tx.conn())?;
    Ok(row.count)
}

/// Carries what is in context into the epoch `into`, all but `except`; `None` carries nothing. The epoch before is
/// over: what it gave is on record, and its rows go.
pub(super) fn turn(tx: &mut Tx, session: &SessionRow, into: i32, except: Option<&[i64]>) -> Result<()> {
    let (tenant, id, epoch) = (tx.tenant(), session.id, session.epoch);
    if let Some(except) = except {
        sql_query(
            "insert into session_context (tenant_id, session_id, epoch, file_id, slot, version, round, item) \
             select tenant_id, session_id, $4, file_id, slot, version, round, item from session_context \
             where tenant_id = $1 and session_id = $2 and epoch = $3 and file_id <> all($5)",
        )
        .bind::<BigInt, _>(tenant)
        .bind::<SqlUuid, _>(id)
        .bind::<Integer, _>(epoch)
        .bind::<Integer, _>(into)
        .bind::<Array<BigInt>, _>(except)
        .execute(tx.conn())?;
    }
    sql_query("delete from session_context where tenant_id = $1 and session_id = $2 and epoch = $3")
        .bind::<BigInt, _>(tenant)
        .bind::<SqlUuid, _>(id)
        .bind::<Integer, _>(epoch)
        .execute(tx.conn())?;
    Ok(())
}

/// Versions by (file, version), with the bytes of those that are `wanted`.
pub(super) fn versions(
    tx: &mut Tx,
    files: &[i64],
    versions: &[i64],
    wanted: &[bool],
    now: DateTime<Utc>,
) -> Result<Vec<VersionRow>> {
    let rows = sql_query(
        "select v.file_id, v.version, v.media_type, v.is_text, g.gone, \
             case when w.wanted and v.is_text and not g.gone then coalesce(r.data, b.data) end as data \
         from unnest($2, $3, $4) as w (file_id, version, wanted) \
         join file_versions v on v.tenant_id = $1 and v.file_id = w.file_id and v.version = w.version \
         join file_ids i on i.tenant_id = $1 and i.id = v.file_id \
         join slates s on s.tenant_id = $1 and s.id = v.slate_id \
         join tenant_settings t on t.tenant_id = $1 \
         left join files f on f.tenant_id = $1 and f.id = v.file_id \
         cross join lateral (select v.purged_at is not null \
             or coalesce(i.deleted_at < $5 - make_interval(days => s.retention_days), false) \
             or coalesce(f.hidden, i.hidden) or coalesce(v.path ~ t.deny_regex, false) as gone) g \
         cross join lateral (select case when f.sha256 = v.sha256 then f.data end as data) as r \
         left join blobs b on b.tenant_id = $1 and b.sha256 = v.blob and r.data is null \
              and w.wanted and v.is_text and not g.gone",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<BigInt>, _>(files)
    .bind::<Array<BigInt>, _>(versions)
    .bind::<Array<Bool>, _>(wanted)
    .bind::<Timestamptz, _>(now)
    .load(tx.conn())?;
    Ok(rows)
}
