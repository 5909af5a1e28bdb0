//! The SQL of `tenants`, `api_keys` and `tenant_settings`.

use chrono::{DateTime, Utc};
use diesel::pg::{Pg, PgConnection};
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt, Binary, Nullable, Text, Timestamptz};

use super::settings::{Settings, Spending};
use super::tenant::{Key, NewKey, Tenant};
use crate::ctx::{Scope, TenantId};
use crate::db::Tx;
use crate::db::schema::{api_keys, key_aliases, tenant_settings, tenants};
use crate::error::Result;

pub fn insert_tenant(tx: &mut Tx, name: &str, now: DateTime<Utc>) -> Result<Tenant> {
    let id: i64 = diesel::insert_into(tenants::table)
        .values((tenants::name.eq(name), tenants::created_at.eq(now)))
        .returning(tenants::id)
        .get_result(tx.conn())?;
    Ok(Tenant { id: TenantId(id), name: name.to_owned(), created_at: now })
}

pub fn find_tenant(tx: &mut Tx, name: &str) -> Result<Option<Tenant>> {
    let row = tenants::table.filter(tenants::name.eq(name)).first(tx.conn()).optional()?;
    Ok(row.map(tenant))
}

pub fn list_tenants(tx: &mut Tx, after: &str, rows: i64) -> Result<Vec<Tenant>> {
    let found =
        tenants::table.filter(tenants::name.gt(after)).order(tenants::name).limit(rows).load(tx.conn())?;
    Ok(found.into_iter().map(tenant).collect())
}

fn tenant((id, name, created_at): (i64, String, DateTime<Utc>)) -> Tenant {
    Tenant { id: TenantId(id), name, created_at }
}

pub fn erase_tenant(tx: &mut Tx, tenant: TenantId) -> Result<()> {
    // It takes as long as the tenant is large, which is no fault of the statement.
    tx.without_timeout()?;
    diesel::sql_query("select erase_tenant($1)").bind::<BigInt, _>(tenant.0).execute(tx.conn())?;
    Ok(())
}

/// What authentication needs of a key.
#[derive(Debug)]
pub struct KeySecret {
    /// SHA-256 of the secret.
    pub secret_sha256: Vec<u8>,
    /// What the key may do.
    pub scopes: Vec<Scope>,
    /// The only slates that it may touch.
    pub slates: Option<Vec<String>>,
    /// When it ends to open anything.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// The call of `api_key`. It stands on the path of every request, so it is a query of its own type, which diesel keeps
/// as a prepared statement.
#[derive(QueryId)]
struct FindKey {
    tenant: i64,
    key_id: i64,
}

impl Query for FindKey {
    type SqlType = (Binary, Array<Text>, Nullable<Array<Text>>, Nullable<Timestamptz>, Nullable<Timestamptz>);
}

impl QueryFragment<Pg> for FindKey {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("select secret_sha256, scopes, slates, expires_at, revoked_at from api_key(");
        out.push_bind_param::<BigInt, _>(&self.tenant)?;
        out.push_sql(", ");
        out.push_bind_param::<BigInt, _>(&self.key_id)?;
        out.push_sql(")");
        Ok(())
    }
}

impl RunQueryDsl<PgConnection> for FindKey {}

/// The row of one key, on a connection that is in no tenant's transaction.
///
/// # Errors
/// Of the database.
pub fn find_key(connection: &mut PgConnection, tenant: TenantId, key_id: i64) -> Result<Option<KeySecret>> {
    type Row = (Vec<u8>, Vec<String>, Option<Vec<String>>, Option<DateTime<Utc>>, Option<DateTime<Utc>>);
    let row: Option<Row> = FindKey { tenant: tenant.0, key_id }.get_result(connection).optional()?;
    Ok(row.map(|(secret_sha256, names, slates, expires_at, revoked_at)| KeySecret {
        secret_sha256,
        scopes: scopes(names),
        slates,
        expires_at,
        revoked_at,
    }))
}

/// The call of `key_of_alias`, a prepared statement as [`FindKey`] is.
#[derive(QueryId)]
struct FindAlias {
    sha256: Vec<u8>,
}

impl Query for FindAlias {
    type SqlType =
        (BigInt, BigInt, Array<Text>, Nullable<Array<Text>>, Nullable<Timestamptz>, Nullable<Timestamptz>);
}

impl QueryFragment<Pg> for FindAlias {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("select tenant_id, key_id, scopes, slates, expires_at, revoked_at from key_of_alias(");
        out.push_bind_param::<Binary, _>(&self.sha256)?;
        out.push_sql(")");
        Ok(())
    }
}

impl RunQueryDsl<PgConnection> for FindAlias {}

/// The key that the fixed token of this hash opens, on a connection that is in no tenant's transaction.
///
/// # Errors
/// Of the database.
pub fn find_alias(
    connection: &mut PgConnection,
    sha256: &[u8; 32],
) -> Result<Option<(TenantId, i64, KeySecret)>> {
    type Row = (i64, i64, Vec<String>, Option<Vec<String>>, Option<DateTime<Utc>>, Option<DateTime<Utc>>);
    let row: Option<Row> = FindAlias { sha256: sha256.to_vec() }.get_result(connection).optional()?;
    Ok(row.map(|(tenant, key_id, names, slates, expires_at, revoked_at)| {
        let secret_sha256 = sha256.to_vec();
        (
            TenantId(tenant),
            key_id,
            KeySecret { secret_sha256, scopes: scopes(names), slates, expires_at, revoked_at },
        )
    }))
}

/// Gives the key this fixed token, in place of one that it has; false where the tenant has no such key that lives.
pub fn put_alias(tx: &mut Tx, key_id: i64, sha256: &[u8; 32], now: DateTime<Utc>) -> Result<bool> {
    let live = api_keys::table.find((tx.tenant(), key_id)).filter(api_keys::revoked_at.is_null());
    if !diesel::select(diesel::dsl::exists(live)).get_result::<bool>(tx.conn())? {
        return Ok(false);
    }
    let set = (key_aliases::sha256.eq(&sha256[..]), key_aliases::created_at.eq(now));
    diesel::insert_into(key_aliases::table)
        .values((key_aliases::tenant_id.eq(tx.tenant()), key_aliases::key_id.eq(key_id), set))
        .on_conflict((key_aliases::tenant_id, key_aliases::key_id))
        .do_update()
        .set(set)
        .execute(tx.conn())?;
    Ok(true)
}

/// Takes the key's fixed token away; false where it has none.
pub fn delete_alias(tx: &mut Tx, key_id: i64) -> Result<bool> {
    let gone = diesel::delete(key_aliases::table.find((tx.tenant(), key_id))).execute(tx.conn())?;
    Ok(gone > 0)
}

fn scopes(names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Scope> {
    let named = |name: &str| Scope::ALL.into_iter().find(|scope| scope.as_str() == name);
    names.into_iter().filter_map(|name| named(name.as_ref())).collect()
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = api_keys)]
struct KeyRow {
    id: i64,
    label: String,
    scopes: Vec<Option<String>>,
    slates: Option<Vec<Option<String>>>,
    created_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
    revoked_at: Option<DateTime<Utc>>,
}

impl From<KeyRow> for Key {
    fn from(row: KeyRow) -> Key {
        Key {
            id: row.id,
            label: row.label,
            scopes: scopes(row.scopes.into_iter().flatten()),
            slates: row.slates.map(|names| names.into_iter().flatten().collect()),
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
        }
    }
}

pub fn insert_key(tx: &mut Tx, new: &NewKey, sha256: &[u8; 32], now: DateTime<Utc>) -> Result<Key> {
    let scopes: Vec<&str> = new.scopes.iter().map(|scope| scope.as_str()).collect();
    let row: KeyRow = diesel::insert_into(api_keys::table)
        .values((
            api_keys::tenant_id.eq(tx.tenant()),
            api_keys::label.eq(&new.label),
            api_keys::secret_sha256.eq(&sha256[..]),
            api_keys::scopes.eq(scopes),
            api_keys::slates.eq(&new.slates),
            api_keys::created_at.eq(now),
            api_keys::expires_at.eq(new.expires_at),
        ))
        .returning(KeyRow::as_returning())
        .get_result(tx.conn())?;
    Ok(row.into())
}

pub fn list_keys(tx: &mut Tx, after: i64, rows: i64) -> Result<Vec<Key>> {
    let found: Vec<KeyRow> = api_keys::table
        .filter(api_keys::tenant_id.eq(tx.tenant()).and(api_keys::id.gt(after)))
        .order(api_keys::id)
        .limit(rows)
        .select(KeyRow::as_select())
        .load(tx.conn())?;
    Ok(found.into_iter().map(Key::from).collect())
}

/// False where the tenant has no such key.
pub fn revoke_key(tx: &mut Tx, key_id: i64, now: DateTime<Utc>) -> Result<bool> {
    let key = api_keys::table.find((tx.tenant(), key_id));
    let exists = diesel::select(diesel::dsl::exists(key)).get_result(tx.conn())?;
    diesel::update(key.filter(api_keys::revoked_at.is_null()))
        .set(api_keys::revoked_at.eq(now))
        .execute(tx.conn())?;
    delete_alias(tx, key_id)?;
    Ok(exists)
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = tenant_settings)]
struct SettingsRow {
    default_slate: Option<String>,
    deny_globs: Vec<Option<String>>,
    deny_regex: Option<String>,
    session_retention_days: i32,
    revision: i64,
    max_concurrent_runs: Option<i32>,
    max_rounds_per_day: Option<i64>,
    max_tokens_per_day: Option<i64>,
}

impl From<SettingsRow> for (Settings, i64) {
    fn from(row: SettingsRow) -> (Settings, i64) {
        let settings = Settings {
            default_slate: row.default_slate,
            deny_globs: row.deny_globs.into_iter().flatten().collect(),
            deny_regex: row.deny_regex,
            session_retention_days: row.session_retention_days,
            spending: Spending {
                max_concurrent_runs: row.max_concurrent_runs,
                max_rounds_per_day: row.max_rounds_per_day,
                max_tokens_per_day: row.max_tokens_per_day,
            },
        };
        (settings, row.revision)
    }
}

pub fn insert_settings(tx: &mut Tx, settings: &Settings) -> Result<()> {
    diesel::insert_into(tenant_settings::table)
        .values((
            tenant_settings::tenant_id.eq(tx.tenant()),
            tenant_settings::default_slate.eq(&settings.default_slate),
            tenant_settings::deny_globs.eq(&settings.deny_globs),
            tenant_settings::deny_regex.eq(&settings.deny_regex),
            tenant_settings::session_retention_days.eq(settings.session_retention_days),
            tenant_settings::max_concurrent_runs.eq(settings.spending.max_concurrent_runs),
            tenant_settings::max_rounds_per_day.eq(settings.spending.max_rounds_per_day),
            tenant_settings::max_tokens_per_day.eq(settings.spending.max_tokens_per_day),
        ))
        .execute(tx.conn())?;
    Ok(())
}

pub fn find_settings(tx: &mut Tx) -> Result<Option<(Settings, i64)>> {
    let row = tenant_settings::table.find(tx.tenant()).select(SettingsRow::as_select());
    Ok(row.first(tx.conn()).optional()?.map(Into::into))
}

pub fn lock_settings(tx: &mut Tx) -> Result<Option<(Settings, i64)>> {
    let row = tenant_settings::table.find(tx.tenant()).select(SettingsRow::as_select()).for_update();
    Ok(row.first(tx.conn()).optional()?.map(Into::into))
}

pub fn update_settings(tx: &mut Tx, settings: &Settings, revision: i64) -> Result<()> {
    diesel::update(tenant_settings::table.find(tx.tenant()))
        .set((
            tenant_settings::default_slate.eq(&settings.default_slate),
            tenant_settings::deny_globs.eq(&settings.deny_globs),
            tenant_settings::deny_regex.eq(&settings.deny_regex),
            tenant_settings::session_retention_days.eq(settings.session_retention_days),
            tenant_settings::max_concurrent_runs.eq(settings.spending.max_concurrent_runs),
            tenant_settings::max_rounds_per_day.eq(settings.spending.max_rounds_per_day),
            tenant_settings::max_tokens_per_day.eq(settings.spending.max_tokens_per_day),
            tenant_settings::revision.eq(revision),
        ))
        .execute(tx.conn())?;
    Ok(())
}
