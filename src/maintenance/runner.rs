//! Doing all of it, once or now and then.

use std::time::Duration;

use chrono::{SubsecRound, Utc};

use super::ops;
use crate::ctx::TenantId;
use crate::db::{Db, Tx};
use crate::error::Result;

/// How long the servers' own round waits between two transactions, so that it is nobody's competitor.
const PAUSE: Duration = Duration::from_millis(20);

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Tenants that were looked at.
    pub tenants: usize,
    /// Versions whose bytes went.
    pub versions: usize,
    /// Sessions that were deleted.
    pub sessions: usize,
    /// Terms that left the dictionary.
    pub terms: i64,
    /// Tables that were analyzed.
    pub tables: i64,
}

/// How it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As fast as it goes.
    AtOnce,
    /// With pauses, and not while another server is at it.
    InTheBackground,
}

/// Does all that there is to do, for every tenant. `told` hears of each tenant before it is looked at.
///
/// # Errors
/// Those of the database. What was done until then stays done.
pub fn run(db: &Db, manner: Manner, mut told: impl FnMut(&str, &Done)) -> Result<Done> {
    let now = Utc::now().trunc_subsecs(6);
    let mut done = Done::default();
    let mut after = TenantId::OPERATOR;
    loop {
        let found = db.operator_blocking(|tx| {
            let go = manner == Manner::AtOnce || ops::alone(tx)?;
            if go { ops::tenants(tx, after) } else { Ok(Vec::new()) }
        })?;
        let Some((last, _)) = found.last() else { break };
        after = *last;
        for (tenant, name) in &found {
            told(name, &done);
            one(db, *tenant, manner, now, &mut done)?;
            done.tenants += 1;
        }
    }
    if done.tenants > 0 {
        done.tables = db.operator_blocking(ops::refresh_statistics)?;
    }
    Ok(done)
}

fn one(db: &Db, tenant: TenantId, manner: Manner, now: chrono::DateTime<Utc>, done: &mut Done) -> Result<()> {
    let step = |work: &mut dyn FnMut(&mut Tx) -> Result<usize>| -> Result<usize> {
        if manner == Manner::InTheBackground {
            std::thread::sleep(PAUSE);
        }
        db.tenant_blocking(tenant, work)
    };
    loop {
        match step(&mut |tx| ops::purge_expired(tx, now))? {
            0 => break,
            count => done.versions += count,
        }
    }
    loop {
        match step(&mut |tx| ops::sweep_sessions(tx, now))? {
            0 => break,
            count => done.sessions += count,
        }
    }
    let mut after = 0;
    loop {
        let mut last = None;
        step(&mut |tx| {
            last = ops::move_contents(tx, after)?;
            Ok(0)
        })?;
        match last {
            Some(last) => after = last,
            None => break,
        }
    }
    let mut unused = Vec::new();
    step(&mut |tx| {
        unused = ops::unused_terms(tx)?;
        Ok(unused.len())
    })?;
    for batch in ops::batches(&unused) {
        let mut dropped = 0;
        step(&mut |tx| {
            dropped = ops::drop_terms(tx, batch)?;
            Ok(0)
        })?;
        done.terms += dropped;
    }
    Ok(())
}

/// Does it now and then, for as long as the server runs; errors are logged, and the next round tries again.
pub async fn now_and_then(db: Db, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let db = db.clone();
        let round = tokio::task::spawn_blocking(move || run(&db, Manner::InTheBackground, |_, _| {}));
        match round.await {
            Ok(Ok(done)) => tracing::debug!(?done, "kept up"),
            Ok(Err(error)) => tracing::warn!(%error, source = ?error.source, "cannot keep up"),
            Err(error) => tracing::error!(%error, "keeping up ended"),
        }
    }
}
