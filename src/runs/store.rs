//! The SQL of runs: what was asked for, what was answered, the queue, and what was spent.

use chrono::{DateTime, NaiveDate, Utc};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use serde_json::Value;
use uuid::Uuid;

use super::chat::{Past, Said};
use super::spending::{Limits, Spent};
use crate::db::Tx;
use crate::db::schema::{run_answers, run_queue, runs, tenant_settings, usage_days};
use crate::error::Result;

/// A row of `runs`.
#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = runs)]
pub(super) struct RunRow {
    pub session_id: Uuid,
    pub key_id: i64,
    pub model: Value,
    pub attempts: i32,
    pub trouble: Option<Value>,
    pub created_at: DateTime<Utc>,
}

/// A row of `run_answers`, but for the output.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = run_answers)]
pub(super) struct AnswerRow {
    pub round: i32,
    pub form: String,
    pub prompt_tokens: Option<i64>,
    pub completion_tokens: Option<i64>,
    pub received_at: DateTime<Utc>,
}

/// When a run goes on, and until when a server has it.
#[derive(Debug, Clone, Copy, Queryable)]
pub(super) struct QueueRow {
    pub next_at: DateTime<Utc>,
    pub lease_owner: Option<Uuid>,
    pub lease_until: Option<DateTime<Utc>>,
}

/// A run that was claimed.
#[derive(Debug, Clone, Copy, QueryableByName)]
pub(super) struct ClaimedRow {
    #[diesel(sql_type = BigInt)]
    pub tenant_id: i64,
    #[diesel(sql_type = SqlUuid)]
    pub session_id: Uuid,
}

#[derive(QueryableByName)]
struct KeyRow {
    #[diesel(sql_type = Nullable<Array<Text>>)]
    slates: Option<Vec<String>>,
}

pub(super) fn insert(tx: &mut Tx, row: &RunRow, now: DateTime<Utc>) -> Result<()> {
    diesel::insert_into(runs::table)
        .values((runs::tenant_id.eq(tx.tenant()), row.clone()))
        .execute(tx.conn())?;
    diesel::insert_into(run_queue::table)
        .values((
            run_queue::tenant_id.eq(tx.tenant()),
            run_queue::session_id.eq(row.session_id),
            run_queue::next_at.eq(now),
        ))
        .execute(tx.conn())?;
    Ok(())
}

pub(super) fn find(tx: &mut Tx, session: Uuid) -> Result<Option<RunRow>> {
    let this = runs::table.filter(runs::tenant_id.eq(tx.tenant()).and(runs::session_id.eq(session)));
    Ok(this.select(RunRow::as_select()).first(tx.conn()).optional()?)
}

pub(super) fn set_trouble(tx: &mut Tx, session: Uuid, attempts: i32, trouble: Option<&Value>) -> Result<()> {
    diesel::update(runs::table.filter(runs::tenant_id.eq(tx.tenant()).and(runs::session_id.eq(session))))
        .set((runs::attempts.eq(attempts), runs::trouble.eq(trouble)))
        .execute(tx.conn())?;
    Ok(())
}

/// False where the round has its answer already.
pub(super) fn insert_answer(
    tx: &mut Tx,
    session: Uuid,
    round: i32,
    said: &Said,
    now: DateTime<Utc>,
) -> Result<bool> {
    let count = diesel::insert_into(run_answers::table)
        .values((
            run_answers::tenant_id.eq(tx.tenant()),
            run_answers::session_id.eq(session),
            run_answers::round.eq(round),
            run_answers::output.eq(&said.output),
            run_answers::form.eq(said.form.as_str()),
            run_answers::prompt_tokens.eq(said.prompt_tokens),
            run_answers::completion_tokens.eq(said.completion_tokens),
            run_answers::received_at.eq(now),
        ))
        .on_conflict_do_nothing()
        .execute(tx.conn())?;
    Ok(count > 0)
}

pub(super) fn answers(tx: &mut Tx, session: Uuid) -> Result<Vec<AnswerRow>> {
    let rows = run_answers::table
        .filter(run_answers::tenant_id.eq(tx.tenant()).and(run_answers::session_id.eq(session)))
        .order(run_answers::round)
        .select(AnswerRow::as_select())
        .load(tx.conn())?;
    Ok(rows)
}

/// The output of a round, and its form.
pub(super) fn output(tx: &mut Tx, session: Uuid, round: i32) -> Result<Option<(Value, String)>> {
    let row = run_answers::table
        .filter(run_answers::tenant_id.eq(tx.tenant()).and(run_answers::session_id.eq(session)))
        .filter(run_answers::round.eq(round))
        .select((run_answers::output, run_answers::form))
        .first(tx.conn())
        .optional()?;
    Ok(row)
}

/// Keeps what came of a tool that a round called.
pub(super) fn set_outcome(tx: &mut Tx, session: Uuid, round: i32, outcome: &Value) -> Result<()> {
    let this = run_answers::table
        .filter(run_answers::tenant_id.eq(tx.tenant()).and(run_answers::session_id.eq(session)))
        .filter(run_answers::round.eq(round));
    diesel::update(this).set(run_answers::outcome.eq(outcome)).execute(tx.conn())?;
    Ok(())
}

/// The tools that were called, in order.
pub(super) fn past(tx: &mut Tx, session: Uuid) -> Result<Vec<Past>> {
    let rows: Vec<(Value, Option<Value>)> = run_answers::table
        .filter(run_answers::tenant_id.eq(tx.tenant()).and(run_answers::session_id.eq(session)))
        .filter(run_answers::outcome.is_not_null())
        .order(run_answers::round)
        .select((run_answers::output, run_answers::outcome))
        .load(tx.conn())?;
    Ok(rows.into_iter().filter_map(|(output, outcome)| Some(Past { output, outcome: outcome? })).collect())
}

/// The slates that a key may touch, `None` being all, if the key is live and may retrieve.
pub(super) fn key(tx: &mut Tx, key_id: i64, now: DateTime<Utc>) -> Result<Option<Option<Vec<String>>>> {
    let row: Option<KeyRow> = sql_query(
        "select slates from api_keys where tenant_id = $1 and id = $2 and revoked_at is null \
         and (expires_at is null or expires_at > $3) and scopes && array['read', 'retrieve']",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(key_id)
    .bind::<Timestamptz, _>(now)
    .get_result(tx.conn())
    .optional()?;
    Ok(row.map(|row| row.slates))
}

pub(super) fn queued(tx: &mut Tx, session: Uuid) -> Result<Option<QueueRow>> {
    let row = run_queue::table
        .filter(run_queue::tenant_id.eq(tx.tenant()).and(run_queue::session_id.eq(session)))
        .select((run_queue::next_at, run_queue::lease_owner, run_queue::lease_until))
        .first(tx.conn())
        .optional()?;
    Ok(row)
}

/// How many of the tenant's runs have not ended.
pub(super) fn count_queued(tx: &mut Tx) -> Result<i64> {
    let mine = run_queue::table.filter(run_queue::tenant_id.eq(tx.tenant()));
    Ok(mine.count().get_result(tx.conn())?)
}

pub(super) fn dequeue(tx: &mut Tx, session: Uuid) -> Result<()> {
    let this =
        run_queue::table.filter(run_queue::tenant_id.eq(tx.tenant()).and(run_queue::session_id.eq(session)));
    diesel::delete(this).execute(tx.conn())?;
    Ok(())
}

/// Gives a run back, to go on at `next_at`, where `owner` has it.
pub(super) fn put_back(tx: &mut Tx, session: Uuid, owner: Uuid, next_at: DateTime<Utc>) -> Result<()> {
    let this =
        run_queue::table.filter(run_queue::tenant_id.eq(tx.tenant()).and(run_queue::session_id.eq(session)));
    diesel::update(this.filter(run_queue::lease_owner.eq(owner)))
        .set((
            run_queue::next_at.eq(next_at),
            run_queue::lease_owner.eq(None::<Uuid>),
            run_queue::lease_until.eq(None::<DateTime<Utc>>),
        ))
        .execute(tx.conn())?;
    Ok(())
}

/// Takes runs that are due and that nobody has, of whichever tenant, for so many seconds by the database's clock. For the
/// operator's transactions, as the next three are: the queue is one for all tenants, and so their statements name none.
pub(super) fn claim(tx: &mut Tx, owner: Uuid, seconds: f64, count: i64) -> Result<Vec<ClaimedRow>> {
    let rows = sql_query(
        "update run_queue q set lease_owner = $1, lease_until = now() + make_interval(secs => $2) \
         from (select tenant_id, session_id from run_queue \
               where next_at <= now() and (lease_until is null or lease_until < now()) \
               order by next_at limit $3 for update skip locked) due \
         where q.tenant_id = due.tenant_id and q.session_id = due.session_id \
         returning q.tenant_id, q.session_id",
    )
    .bind::<SqlUuid, _>(owner)
    .bind::<Double, _>(seconds)
    .bind::<BigInt, _>(count)
    .load(tx.conn())?;
    Ok(rows)
}

pub(super) fn renew(tx: &mut Tx, owner: Uuid, seconds: f64) -> Result<()> {
    sql_query("update run_queue set lease_until = now() + make_interval(secs => $2) where lease_owner = $1")
        .bind::<SqlUuid, _>(owner)
        .bind::<Double, _>(seconds)
        .execute(tx.conn())?;
    Ok(())
}

pub(super) fn release(tx: &mut Tx, owner: Uuid) -> Result<()> {
    sql_query("update run_queue set lease_owner = null, lease_until = null where lease_owner = $1")
        .bind::<SqlUuid, _>(owner)
        .execute(tx.conn())?;
    Ok(())
}

/// The tenant's limits. Where runs are limited and one is to begin (`begins`), nobody else begins one until the
/// transaction ends.
pub(super) fn limits(tx: &mut Tx, begins: bool) -> Result<Limits> {
    let columns = (
        tenant_settings::max_concurrent_runs,
        tenant_settings::max_rounds_per_day,
        tenant_settings::max_tokens_per_day,
    );
    let row = tenant_settings::table.find(tx.tenant()).select(columns);
    let read: (Option<i32>, Option<i64>, Option<i64>) = row.first(tx.conn())?;
    if begins && read.0.is_some() {
        row.for_update().first::<(Option<i32>, Option<i64>, Option<i64>)>(tx.conn())?;
    }
    let (runs, rounds, tokens) = read;
    Ok(Limits { runs: runs.map(i64::from), rounds, tokens })
}

/// What was spent on the day.
pub(super) fn spent(tx: &mut Tx, day: NaiveDate) -> Result<Spent> {
    let row: Option<(i64, i64, i64)> = usage_days::table
        .find((tx.tenant(), day))
        .select((usage_days::rounds, usage_days::prompt_tokens, usage_days::completion_tokens))
        .first(tx.conn())
        .optional()?;
    Ok(row.map_or_else(Spent::default, |(rounds, prompt, completion)| Spent {
        rounds,
        tokens: prompt + completion,
    }))
}

/// The same, and nobody else spends until the transaction ends.
pub(super) fn lock_spent(tx: &mut Tx, day: NaiveDate) -> Result<Spent> {
    spend(tx, day, Spend::default())?;
    spent(tx, day)
}

/// What is added to a day.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spend {
    pub rounds: i64,
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
}

pub(super) fn spend(tx: &mut Tx, day: NaiveDate, more: Spend) -> Result<()> {
    diesel::insert_into(usage_days::table)
        .values((
            usage_days::tenant_id.eq(tx.tenant()),
            usage_days::day.eq(day),
            usage_days::rounds.eq(more.rounds),
            usage_days::prompt_tokens.eq(more.prompt_tokens),
            usage_days::completion_tokens.eq(more.completion_tokens),
        ))
        .on_conflict((usage_days::tenant_id, usage_days::day))
        .do_update()
        .set((
            usage_days::rounds.eq(usage_days::rounds + more.rounds),
            usage_days::prompt_tokens.eq(usage_days::prompt_tokens + more.prompt_tokens),
            usage_days::completion_tokens.eq(usage_days::completion_tokens + more.completion_tokens),
        ))
        .execute(tx.conn())?;
    Ok(())
}
