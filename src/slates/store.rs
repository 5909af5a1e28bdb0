//! The slates' SQL.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::Value;

use super::slate::NewSlate;
use crate::db::Tx;
use crate::db::schema::{folders, slates};
use crate::error::Result;

/// A row of `slates`, deleted ones included.
#[derive(Queryable, Selectable)]
#[diesel(table_name = slates)]
pub(super) struct SlateRow {
    pub id: i64,
    pub name: String,
    pub description: Option<String>,
    pub authority: Option<String>,
    pub volatile: bool,
    pub max_age_seconds: Option<i64>,
    pub retention_days: i32,
    pub metatag_types: Value,
    pub language: String,
    pub revision: i64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub deleted_at: Option<DateTime<Utc>>,
}

/// How a row is locked while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    None,
    /// Against deletion.
    Share,
    /// Against everything.
    Update,
}

pub(super) fn find(tx: &mut Tx, name: &str, lock: Lock) -> Result<Option<SlateRow>> {
    let query = slates::table
        .filter(slates::tenant_id.eq(tx.tenant()).and(slates::name.eq(name)))
        .select(SlateRow::as_select());
    let row = match lock {
        Lock::None => query.first(tx.conn()),
        Lock::Share => query.for_key_share().first(tx.conn()),
        Lock::Update => query.for_update().first(tx.conn()),
    };
    Ok(row.optional()?)
}

/// Those of these names that are not deleted.
pub(super) fn find_many(tx: &mut Tx, names: &[&str]) -> Result<Vec<SlateRow>> {
    Ok(slates::table
        .filter(slates::tenant_id.eq(tx.tenant()).and(slates::deleted_at.is_null()))
        .filter(slates::name.eq_any(names))
        .select(SlateRow::as_select())
        .load(tx.conn())?)
}

/// In one order, so that two of them do not deadlock.
pub(super) fn lock_all(tx: &mut Tx) -> Result<Vec<i64>> {
    let all = slates::table.filter(slates::tenant_id.eq(tx.tenant())).order(slates::id);
    Ok(all.select(slates::id).for_update().load(tx.conn())?)
}

pub(super) fn list(
    tx: &mut Tx,
    only: Option<&[String]>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<SlateRow>> {
    let mut query = slates::table
        .filter(slates::tenant_id.eq(tx.tenant()).and(slates::deleted_at.is_null()))
        .select(SlateRow::as_select())
        .order(slates::name)
        .limit(limit)
        .into_boxed();
    if let Some(names) = only {
        query = query.filter(slates::name.eq_any(names.to_vec()));
    }
    if let Some(after) = after {
        query = query.filter(slates::name.gt(after.to_owned()));
    }
    Ok(query.load(tx.conn())?)
}

pub(super) fn insert(tx: &mut Tx, name: &str, new: &NewSlate, now: DateTime<Utc>) -> Result<SlateRow> {
    let row = diesel::insert_into(slates::table)
        .values((
            slates::tenant_id.eq(tx.tenant()),
            slates::name.eq(name),
            slates::created_at.eq(now),
            slates::updated_at.eq(now),
            settings(new),
        ))
        .returning(SlateRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row)
}

/// Makes a slate anew that was deleted.
pub(super) fn revive(tx: &mut Tx, id: i64, new: &NewSlate, now: DateTime<Utc>) -> Result<SlateRow> {
    diesel::update(slates::table.filter(slates::tenant_id.eq(tx.tenant()).and(slates::id.eq(id))))
        .set((slates::created_at.eq(now), slates::deleted_at.eq(None::<DateTime<Utc>>)))
        .execute(tx.conn())?;
    insert_root(tx, id, now)?;
    update(tx, id, new, now)
}

/// Sets what a PUT gives.
pub(super) fn update(tx: &mut Tx, id: i64, new: &NewSlate, now: DateTime<Utc>) -> Result<SlateRow> {
    let row = diesel::update(slates::table.filter(slates::tenant_id.eq(tx.tenant()).and(slates::id.eq(id))))
        .set((slates::updated_at.eq(now), slates::revision.eq(slates::revision + 1), settings(new)))
        .returning(SlateRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row)
}

pub(super) fn mark_deleted(tx: &mut Tx, id: i64, now: DateTime<Utc>) -> Result<()> {
    diesel::update(slates::table.filter(slates::tenant_id.eq(tx.tenant()).and(slates::id.eq(id))))
        .set((slates::deleted_at.eq(now), slates::revision.eq(slates::revision + 1)))
        .execute(tx.conn())?;
    Ok(())
}

pub(super) fn insert_root(tx: &mut Tx, slate: i64, now: DateTime<Utc>) -> Result<()> {
    diesel::insert_into(folders::table)
        .values((
            folders::tenant_id.eq(tx.tenant()),
            folders::slate_id.eq(slate),
            folders::path.eq(""),
            folders::name.eq(""),
            folders::created_at.eq(now),
        ))
        .execute(tx.conn())?;
    Ok(())
}

type Settings<'a> = (
    diesel::dsl::Eq<slates::description, Option<&'a str>>,
    diesel::dsl::Eq<slates::authority, Option<&'static str>>,
    diesel::dsl::Eq<slates::volatile, bool>,
    diesel::dsl::Eq<slates::max_age_seconds, Option<i64>>,
    diesel::dsl::Eq<slates::retention_days, i32>,
    diesel::dsl::Eq<slates::metatag_types, Value>,
    diesel::dsl::Eq<slates::language, &'a str>,
);

fn settings(new: &NewSlate) -> Settings<'_> {
    (
        slates::description.eq(new.description.as_deref()),
        slates::authority.eq(new.authority.map(|a| a.as_str())),
        slates::volatile.eq(new.volatile),
        slates::max_age_seconds.eq(new.max_age_seconds),
        slates::retention_days.eq(new.retention_days),
        slates::metatag_types.eq(new.types_json()),
        slates::language.eq(new.language.as_str()),
    )
}
