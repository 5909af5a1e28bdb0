//! The SQL of registered sources.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::Value;

use crate::capability::registry::SourceKind;
use crate::db::Tx;
use crate::db::schema::sources;
use crate::error::Result;

/// A row of `sources`.
#[derive(Queryable, Selectable)]
#[diesel(table_name = sources)]
pub(in crate::capability) struct SourceRow {
    pub kind: String,
    pub name: String,
    pub document: Value,
    pub revision: i64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The source of this name; nobody else changes it until the transaction ends where `lock` says so.
pub(in crate::capability) fn find(
    tx: &mut Tx,
    kind: SourceKind,
    name: &str,
    lock: bool,
) -> Result<Option<SourceRow>> {
    let query = sources::table
        .filter(sources::tenant_id.eq(tx.tenant()))
        .filter(sources::kind.eq(kind.as_str()).and(sources::name.eq(name)))
        .select(SourceRow::as_select());
    let row = if lock { query.for_update().first(tx.conn()) } else { query.first(tx.conn()) };
    Ok(row.optional()?)
}

#[derive(diesel::QueryableByName)]
struct DocumentRow {
    #[diesel(sql_type = diesel::sql_types::Json)]
    document: Value,
}

/// What was registered of the API whose base URL this URL lies below; of several, of the nearest.
pub(in crate::capability) fn covering(tx: &mut Tx, url: &str) -> Result<Option<Value>> {
    let row: Option<DocumentRow> = diesel::sql_query(
        "select document from (select document, rtrim(document ->> 'base_url', '/') as base from sources
             where tenant_id = $1 and kind = 'api') as a
         where starts_with($2, base) and substr($2, length(base) + 1, 1) in ('', '/', '?')
         order by length(base) desc limit 1",
    )
    .bind::<diesel::sql_types::BigInt, _>(tx.tenant())
    .bind::<diesel::sql_types::Text, _>(url)
    .get_result(tx.conn())
    .optional()?;
    Ok(row.map(|row| row.document))
}

/// By kind and name, those after `after`.
pub(in crate::capability) fn list(
    tx: &mut Tx,
    after: &(String, String),
    limit: i64,
) -> Result<Vec<SourceRow>> {
    let (kind, name) = after;
    let rows = sources::table
        .filter(sources::tenant_id.eq(tx.tenant()))
        .filter(sources::kind.gt(kind).or(sources::kind.eq(kind).and(sources::name.gt(name))))
        .select(SourceRow::as_select())
        .order((sources::kind, sources::name))
        .limit(limit)
        .load(tx.conn())?;
    Ok(rows)
}

pub(in crate::capability) fn insert(
    tx: &mut Tx,
    kind: SourceKind,
    name: &str,
    document: &Value,
    now: DateTime<Utc>,
) -> Result<SourceRow> {
    let row = diesel::insert_into(sources::table)
        .values((
            sources::tenant_id.eq(tx.tenant()),
            sources::kind.eq(kind.as_str()),
            sources::name.eq(name),
            sources::document.eq(document),
            sources::created_at.eq(now),
            sources::updated_at.eq(now),
        ))
        .returning(SourceRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row)
}

pub(in crate::capability) fn update(
    tx: &mut Tx,
    kind: SourceKind,
    name: &str,
    document: &Value,
    now: DateTime<Utc>,
) -> Result<SourceRow> {
    let this = sources::table
        .filter(sources::tenant_id.eq(tx.tenant()))
        .filter(sources::kind.eq(kind.as_str()).and(sources::name.eq(name)));
    let row = diesel::update(this)
        .set((
            sources::document.eq(document),
            sources::revision.eq(sources::revision + 1),
            sources::updated_at.eq(now),
        ))
        .returning(SourceRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row)
}

pub(in crate::capability) fn delete(tx: &mut Tx, kind: SourceKind, name: &str) -> Result<()> {
    let this = sources::table
        .filter(sources::tenant_id.eq(tx.tenant()))
        .filter(sources::kind.eq(kind.as_str()).and(sources::name.eq(name)));
    diesel::delete(this).execute(tx.conn())?;
    Ok(())
}
