//! What can be done with tenants, keys and settings. The operator's use cases run in [`Db::operator`](crate::db::Db).

use chrono::{DateTime, Utc};

use super::secret::{FixedToken, SECRET_LENGTH, Token};
use super::settings::{Settings, Spending};
use super::store;
use super::tenant::{Key, NewKey, Tenant, TenantName};
use crate::ctx::TenantId;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::folders;
use crate::precondition::Preconditions;

pub use super::store::{KeySecret, find_alias, find_key};

/// Makes a tenant, with the default settings.
///
/// # Errors
/// [`Code::AlreadyExists`](crate::error::Code::AlreadyExists).
pub fn create_tenant(tx: &mut Tx, name: &TenantName, now: DateTime<Utc>) -> Result<Tenant> {
    let settings = Settings::parse(None, None, None, Spending::default())?;
    let tenant = store::insert_tenant(tx, name.as_str(), now)?;
    tx.enter(tenant.id)?;
    store::insert_settings(tx, &settings)?;
    Ok(tenant)
}

/// The tenants in the order of their names, after `after`, at most `rows`.
///
/// # Errors
/// Of the database.
pub fn list_tenants(tx: &mut Tx, after: Option<&str>, rows: i64) -> Result<Vec<Tenant>> {
    store::list_tenants(tx, after.unwrap_or_default(), rows)
}

/// The tenant of this name; a text that cannot be one is nobody's.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
pub fn get_tenant(tx: &mut Tx, name: &str) -> Result<Tenant> {
    let name = TenantName::parse(name).map_err(|_| Error::not_found())?;
    store::find_tenant(tx, name.as_str())?.ok_or_else(Error::not_found)
}

/// Erases the tenant and all that it has, provenance included.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
pub fn delete_tenant(tx: &mut Tx, name: &str) -> Result<()> {
    let tenant = get_tenant(tx, name)?;
    store::erase_tenant(tx, tenant.id)
}

/// Makes a key of the tenant from 32 random bytes; the token is told this once.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) for the tenant.
pub fn create_key(
    tx: &mut Tx,
    tenant: &str,
    new: &NewKey,
    secret: [u8; SECRET_LENGTH],
    now: DateTime<Utc>,
) -> Result<(Key, Token)> {
    let tenant = enter(tx, tenant)?;
    // The hash does not cover the key's number, which is known only afterwards.
    let sha256 = Token::new(tenant, 0, secret).secret_sha256();
    let key = store::insert_key(tx, new, &sha256, now)?;
    let token = Token::new(tenant, key.id, secret);
    Ok((key, token))
}

/// The tenant's keys in the order of their numbers, after `after`, at most `rows`; revoked ones too.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) for the tenant.
pub fn list_keys(tx: &mut Tx, tenant: &str, after: Option<i64>, rows: i64) -> Result<Vec<Key>> {
    enter(tx, tenant)?;
    store::list_keys(tx, after.unwrap_or_default(), rows)
}

/// Gives a key a fixed token, which opens it beside its own where the server takes such tokens; in place of the one that it has.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) for the tenant or the key, which must not be revoked;
/// [`Code::AlreadyExists`](crate::error::Code::AlreadyExists) where the token is another key's.
pub fn put_alias(
    tx: &mut Tx,
    tenant: &str,
    key_id: i64,
    token: &FixedToken,
    now: DateTime<Utc>,
) -> Result<()> {
    enter(tx, tenant)?;
    if store::put_alias(tx, key_id, token.sha256(), now)? { Ok(()) } else { Err(Error::not_found()) }
}

/// Takes a key's fixed token away.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) for the tenant, the key, or the fixed token.
pub fn delete_alias(tx: &mut Tx, tenant: &str, key_id: i64) -> Result<()> {
    enter(tx, tenant)?;
    if store::delete_alias(tx, key_id)? { Ok(()) } else { Err(Error::not_found()) }
}

/// Revokes a key, at once. A key that is revoked stays so, and keeps its time; its fixed token is free again.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) for the tenant or the key.
pub fn revoke_key(tx: &mut Tx, tenant: &str, key_id: i64, now: DateTime<Utc>) -> Result<()> {
    enter(tx, tenant)?;
    if store::revoke_key(tx, key_id, now)? { Ok(()) } else { Err(Error::not_found()) }
}

fn enter(tx: &mut Tx, tenant: &str) -> Result<TenantId> {
    let tenant = get_tenant(tx, tenant)?;
    tx.enter(tenant.id)?;
    Ok(tenant.id)
}

/// The settings of the transaction's tenant, and their entity tag.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when the tenant is being erased.
pub fn get_settings(tx: &mut Tx) -> Result<(Settings, String)> {
    let (settings, revision) = store::find_settings(tx)?.ok_or_else(Error::not_found)?;
    Ok((settings, etag(tx, revision)))
}

/// Replaces the settings of the transaction's tenant, where the preconditions hold. What other deny globs hide or reveal
/// is so when this returns.
///
/// # Errors
/// [`Code::PreconditionFailed`](crate::error::Code::PreconditionFailed).
pub fn put_settings(tx: &mut Tx, settings: &Settings, conditions: &Preconditions) -> Result<String> {
    let (before, revision) = store::lock_settings(tx)?.ok_or_else(Error::not_found)?;
    conditions.check_write(Some(&etag(tx, revision)))?;
    if before == *settings {
        return Ok(etag(tx, revision));
    }
    store::update_settings(tx, settings, revision + 1)?;
    if before.deny_regex != settings.deny_regex {
        folders::ops::rehide(tx)?;
    }
    Ok(etag(tx, revision + 1))
}

fn etag(tx: &Tx, revision: i64) -> String {
    format!("\"settings-{}-{revision}\"", tx.tenant())
}
