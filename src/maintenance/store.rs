//! The SQL of keeping up.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};

use crate::ctx::TenantId;
use crate::db::Tx;
use crate::error::Result;

#[derive(QueryableByName)]
struct TenantRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    name: String,
}

/// The tenants after this one, by number, at most `limit`.
pub(super) fn tenants(tx: &mut Tx, after: i64, limit: i64) -> Result<Vec<(TenantId, String)>> {
    let rows: Vec<TenantRow> = sql_query("select id, name from tenants where id > $1 order by id limit $2")
        .bind::<BigInt, _>(after)
        .bind::<BigInt, _>(limit)
        .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (TenantId(row.id), row.name)).collect())
}

#[derive(QueryableByName)]
struct HeldRow {
    #[diesel(sql_type = Bool)]
    held: bool,
}

/// Takes a lock until the transaction ends, if nobody else has it.
pub(super) fn try_lock(tx: &mut Tx, key: i64) -> Result<bool> {
    let row: HeldRow = sql_query("select pg_try_advisory_xact_lock($1) as held")
        .bind::<BigInt, _>(key)
        .get_result(tx.conn())?;
    Ok(row.held)
}

#[derive(QueryableByName)]
struct VersionRow {
    #[diesel(sql_type = BigInt)]
    file_id: i64,
    #[diesel(sql_type = BigInt)]
    version: i64,
}

/// Versions whose bytes are kept although their file was deleted longer ago than its slate keeps them.
pub(super) fn expired_versions(tx: &mut Tx, now: DateTime<Utc>, limit: i64) -> Result<Vec<(i64, i64)>> {
    let rows: Vec<VersionRow> = sql_query(
        "with s as materialized (select id, $2 - make_interval(days => retention_days) as horizon from slates
             where tenant_id = $1)
         select v.file_id, v.version from s
         cross join lateral (select i.id from file_ids i
             where i.tenant_id = $1 and i.slate_id = s.id and i.deleted_at < s.horizon offset 0) as i
         cross join lateral (select v.file_id, v.version from file_versions v
             where v.tenant_id = $1 and v.file_id = i.id and v.purged_at is null offset 0) as v
         order by v.file_id, v.version limit $3",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Timestamptz, _>(now)
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (row.file_id, row.version)).collect())
}

/// Scrubs the bytes of these versions, where no unpurged version of the tenant has them.
pub(super) fn purge(tx: &mut Tx, versions: &[(i64, i64)]) -> Result<()> {
    let (files, numbers): (Vec<i64>, Vec<i64>) = versions.iter().copied().unzip();
    sql_query("select purge_versions($1, $2, $3)")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Array<BigInt>, _>(files)
        .bind::<Array<BigInt>, _>(numbers)
        .execute(tx.conn())?;
    Ok(())
}

#[derive(QueryableByName)]
struct LastRow {
    #[diesel(sql_type = Nullable<BigInt>)]
    last: Option<i64>,
}

/// Moves small contents into the rows of some files after this one; tells which was the last.
pub(super) fn move_contents(tx: &mut Tx, after: i64) -> Result<Option<i64>> {
    let row: LastRow = sql_query("select move_contents($1, $2) as last")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(after)
        .get_result(tx.conn())?;
    Ok(row.last)
}

#[derive(QueryableByName)]
struct IdRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
}

/// Terms that no file uses, at most `limit`.
pub(super) fn unused_terms(tx: &mut Tx, limit: i64) -> Result<Vec<i64>> {
    let rows: Vec<IdRow> = sql_query(
        "with used as materialized (select distinct unnest(term_ids) as id from file_tags where tenant_id = $1)
         select t.id from tag_terms t where t.tenant_id = $1 and not exists (select from used u where u.id = t.id)
         order by t.id limit $2",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

#[derive(QueryableByName)]
struct CountRow {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// Drops those of the terms that no file uses, and names that have none left.
pub(super) fn drop_terms(tx: &mut Tx, terms: &[i64]) -> Result<i64> {
    let row: CountRow = sql_query("select drop_terms($1, $2) as count")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Array<BigInt>, _>(terms)
        .get_result(tx.conn())?;
    Ok(row.count)
}

/// Analyzes the tables that have changed much; tells how many those are.
pub(super) fn refresh_statistics(tx: &mut Tx) -> Result<i64> {
    let row: CountRow = sql_query("select refresh_statistics() as count").get_result(tx.conn())?;
    Ok(row.count)
}
