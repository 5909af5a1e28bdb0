//! The SQL of `idempotency_keys`.

use chrono::{DateTime, Utc};
use diesel::prelude::*;

use super::{Key, Outcome};
use crate::db::Tx;
use crate::db::schema::idempotency_keys::dsl;
use crate::error::Result;

/// Expired rows that one call takes away, at most.
const SWEEP: i64 = 100;

/// A key that is taken.
pub struct Taken {
    pub request_sha256: Vec<u8>,
    pub lease_until: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
    pub outcome: Option<Outcome>,
}

/// Takes some of the tenant's expired rows away, but none that another call is about to.
pub fn forget_expired(tx: &mut Tx, oldest: DateTime<Utc>) -> Result<()> {
    let tenant = tx.tenant();
    let expired: Vec<(i64, String)> = dsl::idempotency_keys
        .filter(dsl::tenant_id.eq(tenant).and(dsl::created_at.le(oldest)))
        .select((dsl::key_id, dsl::key))
        .limit(SWEEP)
        .for_update()
        .skip_locked()
        .load(tx.conn())?;
    for (key_id, key) in expired {
        diesel::delete(dsl::idempotency_keys.find((tenant, key_id, key))).execute(tx.conn())?;
    }
    Ok(())
}

/// Takes a key that is free; false where it is not.
pub fn insert(
    tx: &mut Tx,
    key_id: i64,
    key: &Key,
    request: &[u8; 32],
    lease_until: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<bool> {
    let row = (
        dsl::tenant_id.eq(tx.tenant()),
        dsl::key_id.eq(key_id),
        dsl::key.eq(key.as_str()),
        dsl::request_sha256.eq(&request[..]),
        dsl::lease_until.eq(lease_until),
        dsl::created_at.eq(now),
    );
    let rows =
        diesel::insert_into(dsl::idempotency_keys).values(row).on_conflict_do_nothing().execute(tx.conn())?;
    Ok(rows == 1)
}

/// A key that is taken, locked.
pub fn lock(tx: &mut Tx, key_id: i64, key: &Key) -> Result<Option<Taken>> {
    type Row =
        (Vec<u8>, DateTime<Utc>, DateTime<Utc>, Option<i16>, Option<String>, Option<String>, Option<Vec<u8>>);
    let row: Option<Row> = dsl::idempotency_keys
        .find((tx.tenant(), key_id, key.as_str()))
        .select((
            dsl::request_sha256,
            dsl::lease_until,
            dsl::created_at,
            dsl::status,
            dsl::content_type,
            dsl::etag,
            dsl::body,
        ))
        .for_update()
        .first(tx.conn())
        .optional()?;
    Ok(row.map(|(request_sha256, lease_until, created_at, status, content_type, etag, body)| Taken {
        request_sha256,
        lease_until,
        created_at,
        outcome: status.map(|status| Outcome { status: status.unsigned_abs(), content_type, etag, body }),
    }))
}

/// Begins anew under a key that is locked.
pub fn take_over(
    tx: &mut Tx,
    key_id: i64,
    key: &Key,
    request: &[u8; 32],
    lease_until: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<()> {
    diesel::update(dsl::idempotency_keys.find((tx.tenant(), key_id, key.as_str())))
        .set((
            dsl::request_sha256.eq(&request[..]),
            dsl::status.eq(None::<i16>),
            dsl::content_type.eq(None::<String>),
            dsl::etag.eq(None::<String>),
            dsl::body.eq(None::<Vec<u8>>),
            dsl::lease_until.eq(lease_until),
            dsl::created_at.eq(now),
        ))
        .execute(tx.conn())?;
    Ok(())
}

/// Keeps the outcome, where the lease is still this one.
pub fn keep(
    tx: &mut Tx,
    key_id: i64,
    key: &Key,
    lease_until: DateTime<Utc>,
    outcome: &Outcome,
) -> Result<()> {
    let row = dsl::idempotency_keys.find((tx.tenant(), key_id, key.as_str()));
    diesel::update(row.filter(dsl::lease_until.eq(lease_until).and(dsl::status.is_null())))
        .set((
            dsl::status.eq(Some(outcome.status as i16)),
            dsl::content_type.eq(&outcome.content_type),
            dsl::etag.eq(&outcome.etag),
            dsl::body.eq(&outcome.body),
        ))
        .execute(tx.conn())?;
    Ok(())
}

/// Frees the key, where the lease is still this one.
pub fn free(tx: &mut Tx, key_id: i64, key: &Key, lease_until: DateTime<Utc>) -> Result<()> {
    let row = dsl::idempotency_keys.find((tx.tenant(), key_id, key.as_str()));
    diesel::delete(row.filter(dsl::lease_until.eq(lease_until).and(dsl::status.is_null())))
        .execute(tx.conn())?;
    Ok(())
}
