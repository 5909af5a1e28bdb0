//! The secrets' SQL.

use chrono::{DateTime, Utc};
use diesel::prelude::*;

use super::keys::Sealed;
use super::name::{Listed, SecretName};
use crate::db::Tx;
use crate::db::schema::secrets;
use crate::error::Result;

pub(super) fn list(tx: &mut Tx, after: Option<&str>, limit: i64) -> Result<Vec<Listed>> {
    let rows: Vec<(String, DateTime<Utc>, DateTime<Utc>)> = secrets::table
        .filter(
            secrets::tenant_id.eq(tx.tenant()).and(secrets::name.gt(after.unwrap_or_default().to_owned())),
        )
        .select((secrets::name, secrets::created_at, secrets::updated_at))
        .order(secrets::name)
        .limit(limit)
        .load(tx.conn())?;
    let listed = |(name, created_at, updated_at)| Listed { name, created_at, updated_at };
    Ok(rows.into_iter().map(listed).collect())
}

/// When it was made; nobody else changes it until the transaction ends.
pub(super) fn lock(tx: &mut Tx, name: &SecretName) -> Result<Option<DateTime<Utc>>> {
    let made = secrets::table
        .filter(secrets::tenant_id.eq(tx.tenant()).and(secrets::name.eq(name.as_str())))
        .select(secrets::created_at)
        .for_update()
        .first(tx.conn());
    Ok(made.optional()?)
}

pub(super) fn insert(tx: &mut Tx, name: &SecretName, sealed: &Sealed, now: DateTime<Utc>) -> Result<()> {
    diesel::insert_into(secrets::table)
        .values((
            secrets::tenant_id.eq(tx.tenant()),
            secrets::name.eq(name.as_str()),
            secrets::key_id.eq(&sealed.key_id),
            secrets::nonce.eq(&sealed.nonce),
            secrets::ciphertext.eq(&sealed.ciphertext),
            secrets::created_at.eq(now),
            secrets::updated_at.eq(now),
        ))
        .execute(tx.conn())?;
    Ok(())
}

/// `now` only where the secret is another one, and not the same under another key.
pub(super) fn update(
    tx: &mut Tx,
    name: &SecretName,
    sealed: &Sealed,
    now: Option<DateTime<Utc>>,
) -> Result<()> {
    let this = secrets::table.filter(secrets::tenant_id.eq(tx.tenant()).and(secrets::name.eq(name.as_str())));
    diesel::update(this)
        .set((
            secrets::key_id.eq(&sealed.key_id),
            secrets::nonce.eq(&sealed.nonce),
            secrets::ciphertext.eq(&sealed.ciphertext),
            now.map(|now| secrets::updated_at.eq(now)),
        ))
        .execute(tx.conn())?;
    Ok(())
}

pub(super) fn delete(tx: &mut Tx, name: &SecretName) -> Result<bool> {
    let this = secrets::table.filter(secrets::tenant_id.eq(tx.tenant()).and(secrets::name.eq(name.as_str())));
    Ok(diesel::delete(this).execute(tx.conn())? == 1)
}

pub(super) fn find(tx: &mut Tx, name: &SecretName) -> Result<Option<Sealed>> {
    let row: Option<(String, Vec<u8>, Vec<u8>)> = secrets::table
        .filter(secrets::tenant_id.eq(tx.tenant()).and(secrets::name.eq(name.as_str())))
        .select((secrets::key_id, secrets::nonce, secrets::ciphertext))
        .first(tx.conn())
        .optional()?;
    Ok(row.map(|(key_id, nonce, ciphertext)| Sealed { key_id, nonce, ciphertext }))
}

/// Those after `after` that are not encrypted under `key_id`, by name, at most `limit`; nobody else changes them until
/// the transaction ends.
pub(super) fn not_under(tx: &mut Tx, key_id: &str, after: &str, limit: i64) -> Result<Vec<(String, Sealed)>> {
    let rows: Vec<(String, String, Vec<u8>, Vec<u8>)> = secrets::table
        .filter(secrets::tenant_id.eq(tx.tenant()))
        .filter(secrets::key_id.ne(key_id).and(secrets::name.gt(after)))
        .select((secrets::name, secrets::key_id, secrets::nonce, secrets::ciphertext))
        .order(secrets::name)
        .limit(limit)
        .for_update()
        .load(tx.conn())?;
    let sealed = |(name, key_id, nonce, ciphertext)| (name, Sealed { key_id, nonce, ciphertext });
    Ok(rows.into_iter().map(sealed).collect())
}
