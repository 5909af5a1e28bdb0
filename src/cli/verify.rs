//! `slatebase verify`: whether the record of what sessions were shown is as it was written.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use uuid::Uuid;

use super::database::Database;
use super::{now, told};
use crate::config::DatabaseConfig;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::provenance::ops::{self, Problem};

/// How many sessions are listed at once.
const PAGE: i64 = 1000;

/// Verify that no record of provenance was altered, removed or added.
///
/// Every record of a session names the one before it by its hash, and a finished session's chain is sealed. This
/// computes every hash anew, of the records, of the versions that they name, and of all contents that are stored. Where
/// something is wrong it is named and the exit status is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase verify acme                                 every session, record and document of the tenant
  slatebase verify acme 01890a5d-ac96-774b-bcce-b302099a8057")]
pub struct Args {
    /// The tenant's name
    tenant: String,
    /// The sessions' ids. Unset: all that the tenant ever had, and everything else that is on record or stored
    sessions: Vec<Uuid>,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it.
///
/// # Errors
/// When the tenant or a session is nobody's, or the database is at fault.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let database = Database::open_for_command(&args.database)?;
    let tenant = database.tenant(&args.tenant)?;
    let ctx = Ctx::local(tenant, now(), Uuid::now_v7());
    let mut found = Found::default();
    let tell = |session: Option<Uuid>, problem: &Problem| -> io::Result<()> {
        let session = session.map(|id| format!("session {id}, ")).unwrap_or_default();
        let record = problem.record_id.map(|id| format!("record {id}")).unwrap_or_default();
        let position = problem.position.map(|at| format!(" (position {at})")).unwrap_or_default();
        let place = format!("{session}{record}{position}");
        let place = place.trim_end_matches(", ");
        let colon = if place.is_empty() { "" } else { ": " };
        writeln!(io::stdout(), "{place}{colon}{}", problem.detail)
    };
    let mut verify = |session: Uuid| -> anyhow::Result<()> {
        let verification = database
            .db
            .tenant_blocking(tenant, |tx| ops::verify_session(tx, &ctx, session))
            .map_err(told)
            .with_context(|| format!("session {session}"))?;
        found.sessions += 1;
        found.records += verification.records;
        found.wrong += verification.problems.len();
        verification.problems.iter().try_for_each(|problem| tell(Some(session), problem))?;
        Ok(())
    };
    if args.sessions.is_empty() {
        let mut after = None;
        loop {
            let page =
                database.db.tenant_blocking(tenant, |tx| ops::chains(tx, after, PAGE)).map_err(told)?;
            page.iter().try_for_each(|session| verify(*session))?;
            match page.last() {
                Some(last) => after = Some(*last),
                None => break,
            }
        }
        let mut after = None;
        loop {
            let looked =
                database.db.tenant_blocking(tenant, |tx| ops::verify_alone(tx, after)).map_err(told)?;
            found.records += looked.count;
            found.wrong += looked.problems.len();
            looked.problems.iter().try_for_each(|problem| tell(None, problem))?;
            match looked.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let mut after = None;
        loop {
            let work = |tx: &mut Tx<'_>| ops::verify_contents(tx, after.as_ref());
            let looked = database.db.tenant_blocking(tenant, work).map_err(told)?;
            found.contents += looked.count;
            found.wrong += looked.problems.len();
            looked.problems.iter().try_for_each(|problem| tell(None, problem))?;
            match looked.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    } else {
        args.sessions.iter().try_for_each(|session| verify(*session))?;
    }
    database.close()?;
    let Found { sessions, records, contents, wrong } = found;
    let verdict = match wrong {
        0 => "all as they were written".to_owned(),
        1 => "one thing is not as it was written".to_owned(),
        wrong => format!("{wrong} things are not as they were written"),
    };
    writeln!(io::stdout(), "{sessions} sessions, {records} records, {contents} contents: {verdict}")?;
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Default)]
struct Found {
    sessions: usize,
    records: i64,
    contents: i64,
    wrong: usize,
}
