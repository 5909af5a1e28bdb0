//! The SQL of versions.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::Value;

use super::version::Kind;
use crate::db::Tx;
use crate::db::schema::catalog_versions as versions;
use crate::error::Result;

/// A row of `catalog_versions`.
#[derive(Queryable, Selectable)]
#[diesel(table_name = versions)]
pub(super) struct VersionRow {
    pub id: String,
    pub version: String,
    pub document: Value,
    pub status: String,
    pub revision: i64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The version of this name; nobody else changes it until the transaction ends where `lock` says so.
pub(super) fn find(
    tx: &mut Tx,
    kind: Kind,
    id: &str,
    version: &str,
    lock: bool,
) -> Result<Option<VersionRow>> {
    let query = versions::table
        .filter(versions::tenant_id.eq(tx.tenant()).and(versions::kind.eq(kind.as_str())))
        .filter(versions::id.eq(id).and(versions::version.eq(version)))
        .select(VersionRow::as_select());
    let row = if lock { query.for_update().first(tx.conn()) } else { query.first(tx.conn()) };
    Ok(row.optional()?)
}

/// The first thousand versions of one thing.
pub(super) fn of(tx: &mut Tx, kind: Kind, id: &str) -> Result<Vec<VersionRow>> {
    Ok(versions::table
        .filter(versions::tenant_id.eq(tx.tenant()).and(versions::kind.eq(kind.as_str())))
        .filter(versions::id.eq(id))
        .select(VersionRow::as_select())
        .order(versions::version)
        .limit(1000)
        .load(tx.conn())?)
}

/// By id, then by version.
pub(super) fn list(
    tx: &mut Tx,
    kind: Kind,
    after: Option<&(String, String)>,
    limit: i64,
) -> Result<Vec<VersionRow>> {
    let mut query = versions::table
        .filter(versions::tenant_id.eq(tx.tenant()).and(versions::kind.eq(kind.as_str())))
        .select(VersionRow::as_select())
        .order((versions::id, versions::version))
        .limit(limit)
        .into_boxed();
    if let Some((id, version)) = after {
        let later = versions::id.eq(id.clone()).and(versions::version.gt(version.clone()));
        query = query.filter(versions::id.gt(id.clone()).or(later));
    }
    Ok(query.load(tx.conn())?)
}

pub(super) fn insert(
    tx: &mut Tx,
    kind: Kind,
    (id, version): (&str, &str),
    document: &Value,
    status: &str,
    now: DateTime<Utc>,
) -> Result<VersionRow> {
    let row = diesel::insert_into(versions::table)
        .values((
            versions::tenant_id.eq(tx.tenant()),
            versions::kind.eq(kind.as_str()),
            versions::id.eq(id),
            versions::version.eq(version),
            versions::document.eq(document),
            versions::status.eq(status),
            versions::created_at.eq(now),
            versions::updated_at.eq(now),
        ))
        .returning(VersionRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row)
}

pub(super) fn update(
    tx: &mut Tx,
    kind: Kind,
    (id, version): (&str, &str),
    document: &Value,
    status: &str,
    now: DateTime<Utc>,
) -> Result<VersionRow> {
    let this = versions::table
        .filter(versions::tenant_id.eq(tx.tenant()).and(versions::kind.eq(kind.as_str())))
        .filter(versions::id.eq(id).and(versions::version.eq(version)));
    let row = diesel::update(this)
        .set((
            versions::document.eq(document),
            versions::status.eq(status),
            versions::revision.eq(versions::revision + 1),
            versions::updated_at.eq(now),
        ))
        .returning(VersionRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row)
}
