//! The steps of keeping up, each a transaction.

use chrono::{DateTime, Utc};

use super::store;
use crate::ctx::TenantId;
use crate::db::Tx;
use crate::error::Result;
use crate::{metatags, sessions};

/// The advisory lock of the servers' own round.
const ROUND: i64 = 0x51a7_e000_0000_0001;
/// Versions that are purged, and terms that are dropped, in one transaction.
const BATCH: usize = 500;
/// Unused terms that are looked up at once: the look goes through all tags of the tenant.
const TERMS: i64 = 20_000;
/// Sessions that are deleted in one transaction.
const SESSIONS: i64 = 50;
/// Tenants that are listed at once.
pub const TENANTS: i64 = 100;

/// Whether no other server is at it; holds the others off until the transaction ends.
///
/// # Errors
/// Those of the database.
pub fn alone(tx: &mut Tx) -> Result<bool> {
    store::try_lock(tx, ROUND)
}

/// The tenants after this one, by number, with their names. For the operator.
///
/// # Errors
/// Those of the database.
pub fn tenants(tx: &mut Tx, after: TenantId) -> Result<Vec<(TenantId, String)>> {
    store::tenants(tx, after.0, TENANTS)
}

/// Scrubs bytes of versions that are past their retention. Tells of how many versions; none is left when that is 0.
///
/// # Errors
/// Those of the database.
pub fn purge_expired(tx: &mut Tx, now: DateTime<Utc>) -> Result<usize> {
    tx.without_timeout()?;
    let expired = store::expired_versions(tx, now, BATCH as i64)?;
    if !expired.is_empty() {
        metatags::ops::hold_off_writers(tx)?;
        store::purge(tx, &expired)?;
    }
    Ok(expired.len())
}

/// Moves contents that an earlier version kept apart into the rows of some files after this one. Gives the last of them; none
/// at the end.
///
/// # Errors
/// Those of the database.
pub fn move_contents(tx: &mut Tx, after: i64) -> Result<Option<i64>> {
    tx.without_timeout()?;
    metatags::ops::hold_off_writers(tx)?;
    store::move_contents(tx, after)
}

/// Deletes sessions that have outlived the tenant's retention. Tells how many; none is left when that is 0.
///
/// # Errors
/// Those of the database.
pub fn sweep_sessions(tx: &mut Tx, now: DateTime<Utc>) -> Result<usize> {
    tx.without_timeout()?;
    sessions::ops::sweep(tx, now, SESSIONS)
}

/// Terms that no file uses, some of them where there are very many. It looks at all tags of the tenant.
///
/// # Errors
/// Those of the database.
pub fn unused_terms(tx: &mut Tx) -> Result<Vec<i64>> {
    tx.without_timeout()?;
    store::unused_terms(tx, TERMS)
}

/// Drops those of the terms that are still unused, `BATCH` at most. Tells how many; none where a writer is at work,
/// who may be about to use one.
///
/// # Errors
/// Those of the database.
pub fn drop_terms(tx: &mut Tx, terms: &[i64]) -> Result<i64> {
    tx.without_timeout()?;
    if !store::try_lock(tx, metatags::terms::lock_key(tx.tenant()))? {
        return Ok(0);
    }
    store::drop_terms(tx, terms)
}

/// Terms in groups that [`drop_terms`] takes.
pub fn batches(terms: &[i64]) -> impl Iterator<Item = &[i64]> {
    terms.chunks(BATCH)
}

/// What there is to do for a tenant: versions to purge and terms to drop, each counted to a limit.
///
/// # Errors
/// Those of the database.
pub fn pending(tx: &mut Tx, now: DateTime<Utc>) -> Result<(usize, usize)> {
    tx.without_timeout()?;
    Ok((store::expired_versions(tx, now, TERMS)?.len(), store::unused_terms(tx, TERMS)?.len()))
}

/// Analyzes the tables that have changed much since they were. Tells how many those are.
///
/// # Errors
/// Those of the database.
pub fn refresh_statistics(tx: &mut Tx) -> Result<i64> {
    tx.without_timeout()?;
    store::refresh_statistics(tx)
}
