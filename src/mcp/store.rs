//! The SQL of `mcp_sessions`.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use serde_json::Value;
use uuid::Uuid;

use crate::db::Tx;
use crate::db::schema::mcp_sessions::dsl;
use crate::error::Result;

/// An MCP session that is opened.
pub struct NewRow {
    pub id: Uuid,
    pub key_id: i64,
    pub session_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
}

/// One that is there.
#[derive(Queryable)]
pub struct Row {
    pub session_id: Option<Uuid>,
    pub initialize: Option<Value>,
    pub expires_at: DateTime<Utc>,
}

/// Takes away those whose time is over.
pub fn sweep(tx: &mut Tx, now: DateTime<Utc>) -> Result<()> {
    let over = dsl::mcp_sessions.filter(dsl::tenant_id.eq(tx.tenant()).and(dsl::expires_at.le(now)));
    diesel::delete(over).execute(tx.conn())?;
    Ok(())
}

/// All but the `kept` newest.
pub fn oldest(tx: &mut Tx, kept: i64) -> Result<Vec<Uuid>> {
    Ok(dsl::mcp_sessions
        .filter(dsl::tenant_id.eq(tx.tenant()))
        .order(dsl::expires_at.desc())
        .offset(kept)
        .select(dsl::id)
        .load(tx.conn())?)
}

/// Takes these away.
pub fn delete_all(tx: &mut Tx, ids: &[Uuid]) -> Result<()> {
    let those = dsl::mcp_sessions.filter(dsl::tenant_id.eq(tx.tenant()).and(dsl::id.eq_any(ids)));
    diesel::delete(those).execute(tx.conn())?;
    Ok(())
}

/// Adds one.
pub fn insert(tx: &mut Tx, row: &NewRow) -> Result<()> {
    let values = (
        dsl::tenant_id.eq(tx.tenant()),
        dsl::id.eq(row.id),
        dsl::key_id.eq(row.key_id),
        dsl::session_id.eq(row.session_id),
        dsl::created_at.eq(row.created_at),
        dsl::expires_at.eq(row.expires_at),
    );
    diesel::insert_into(dsl::mcp_sessions).values(values).execute(tx.conn())?;
    Ok(())
}

/// Sets what its client said of itself.
pub fn greet(tx: &mut Tx, id: Uuid, key_id: i64, initialize: &Value) -> Result<()> {
    let one = dsl::mcp_sessions.find((tx.tenant(), id)).filter(dsl::key_id.eq(key_id));
    diesel::update(one).set(dsl::initialize.eq(initialize)).execute(tx.conn())?;
    Ok(())
}

/// One of this key.
pub fn find(tx: &mut Tx, id: Uuid, key_id: i64) -> Result<Option<Row>> {
    Ok(dsl::mcp_sessions
        .find((tx.tenant(), id))
        .filter(dsl::key_id.eq(key_id))
        .select((dsl::session_id, dsl::initialize, dsl::expires_at))
        .first(tx.conn())
        .optional()?)
}

/// Takes one of this key away.
pub fn delete(tx: &mut Tx, id: Uuid, key_id: i64) -> Result<()> {
    let one = dsl::mcp_sessions.find((tx.tenant(), id)).filter(dsl::key_id.eq(key_id));
    diesel::delete(one).execute(tx.conn())?;
    Ok(())
}
