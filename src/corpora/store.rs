//! The corpora's SQL.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::Value;

use super::corpus::NewCorpus;
use super::entry::Status;
use crate::db::Tx;
use crate::db::schema::corpora;
use crate::error::Result;

/// A row of `corpora`.
#[derive(Queryable, Selectable)]
#[diesel(table_name = corpora)]
pub(super) struct CorpusRow {
    pub id: String,
    pub document: Value,
    pub revision: i64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The corpus of this id; nobody else changes it until the transaction ends where `lock` says so.
pub(super) fn find(tx: &mut Tx, id: &str, lock: bool) -> Result<Option<CorpusRow>> {
    let query = corpora::table
        .filter(corpora::tenant_id.eq(tx.tenant()).and(corpora::id.eq(id)))
        .select(CorpusRow::as_select());
    let row = if lock { query.for_update().first(tx.conn()) } else { query.first(tx.conn()) };
    Ok(row.optional()?)
}

/// Those of these ids.
pub(super) fn find_many(tx: &mut Tx, ids: &[&str]) -> Result<Vec<CorpusRow>> {
    Ok(corpora::table
        .filter(corpora::tenant_id.eq(tx.tenant()).and(corpora::id.eq_any(ids)))
        .select(CorpusRow::as_select())
        .load(tx.conn())?)
}

/// The first published corpus in a slate (of those in `only`) that has this index name.
pub(super) fn find_collection(tx: &mut Tx, only: Option<&[String]>, name: &str) -> Result<Option<CorpusRow>> {
    let mut query = corpora::table
        .filter(corpora::tenant_id.eq(tx.tenant()).and(corpora::collection.eq(name)))
        .filter(corpora::status.eq(Status::Published.as_str()).and(corpora::slate.is_not_null()))
        .select(CorpusRow::as_select())
        .order(corpora::id)
        .into_boxed();
    if let Some(names) = only {
        query = query.filter(corpora::slate.eq_any(names.to_vec()));
    }
    Ok(query.first(tx.conn()).optional()?)
}

/// By id; those of slates that are not among `only` are left out.
pub(super) fn list(
    tx: &mut Tx,
    only: Option<&[String]>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<CorpusRow>> {
    let mut query = corpora::table
        .filter(corpora::tenant_id.eq(tx.tenant()))
        .select(CorpusRow::as_select())
        .order(corpora::id)
        .limit(limit)
        .into_boxed();
    if let Some(names) = only {
        query = query.filter(corpora::slate.is_null().or(corpora::slate.eq_any(names.to_vec())));
    }
    if let Some(after) = after {
        query = query.filter(corpora::id.gt(after.to_owned()));
    }
    Ok(query.load(tx.conn())?)
}

pub(super) fn insert(tx: &mut Tx, new: &NewCorpus, now: DateTime<Utc>) -> Result<CorpusRow> {
    let (slate, folder) = new.slate().unzip();
    let row = diesel::insert_into(corpora::table)
        .values((
            corpora::tenant_id.eq(tx.tenant()),
            corpora::id.eq(new.id.as_str()),
            corpora::document.eq(Value::Object(new.document.clone())),
            corpora::status.eq(new.status.as_str()),
            corpora::collection.eq(&new.collection),
            corpora::slate.eq(slate),
            corpora::folder.eq(folder),
            corpora::created_at.eq(now),
            corpora::updated_at.eq(now),
        ))
        .returning(CorpusRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row)
}

pub(super) fn update(tx: &mut Tx, new: &NewCorpus, now: DateTime<Utc>) -> Result<CorpusRow> {
    let (slate, folder) = new.slate().unzip();
    let this = corpora::table.filter(corpora::tenant_id.eq(tx.tenant()).and(corpora::id.eq(new.id.as_str())));
    let row = diesel::update(this)
        .set((
            corpora::document.eq(Value::Object(new.document.clone())),
            corpora::status.eq(new.status.as_str()),
            corpora::collection.eq(&new.collection),
            corpora::slate.eq(slate),
            corpora::folder.eq(folder),
            corpora::revision.eq(corpora::revision + 1),
            corpora::updated_at.eq(now),
        ))
        .returning(CorpusRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row)
}

pub(super) fn delete(tx: &mut Tx, id: &str) -> Result<()> {
    diesel::delete(corpora::table.filter(corpora::tenant_id.eq(tx.tenant()).and(corpora::id.eq(id))))
        .execute(tx.conn())?;
    Ok(())
}

/// The folders of the slate that published corpora lie in, each once.
pub(super) fn published_folders(tx: &mut Tx, slate: &str) -> Result<Vec<String>> {
    let folders: Vec<Option<String>> = corpora::table
        .filter(corpora::tenant_id.eq(tx.tenant()).and(corpora::slate.eq(slate)))
        .filter(corpora::status.eq(Status::Published.as_str()))
        .select(corpora::folder)
        .distinct()
        .order(corpora::folder)
        .load(tx.conn())?;
    Ok(folders.into_iter().flatten().collect())
}
