//! `slatebase maintain`: shed what nobody needs any more.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::FalseyValueParser;
use indicatif::{ProgressBar, ProgressStyle};

use super::database::Database;
use super::{now, told};
use crate::config::DatabaseConfig;
use crate::ctx::TenantId;
use crate::maintenance::ops;
use crate::maintenance::runner::{self, Done, Manner};

/// Shed what nobody needs any more, and keep statistics fresh.
///
/// Scrubs the bytes of deleted files past their slate's retention, whose citations then read `gone`; deletes finished
/// sessions past the tenant's retention, of which the sealed records stay; drops terms of the dictionary that no file has
/// any more; analyzes tables that have changed much. A running server does the same now and then
/// (SLATEBASE_MAINTAIN_MINUTES). It works in small transactions: interrupt it, and run it again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase maintain
  slatebase maintain --dry-run                          only tell what there is to do")]
pub struct Args {
    /// Change nothing; tell what there is to do
    #[arg(long, env = "SLATEBASE_DRY_RUN", value_parser = FalseyValueParser::new())]
    dry_run: bool,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it.
///
/// # Errors
/// When the database is at fault.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let database = Database::open_for_command(&args.database)?;
    if args.dry_run {
        tell(&database)?;
    } else {
        // Hidden where standard error is no terminal.
        let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}")?);
        let done = runner::run(&database.db, Manner::AtOnce, |tenant, done| {
            bar.set_message(format!("{tenant}; {}", summary(done)));
            bar.tick();
        })
        .map_err(told)?;
        bar.finish_and_clear();
        writeln!(
            io::stdout(),
            "{} tenants: {}, {} tables analyzed",
            done.tenants,
            summary(&done),
            done.tables
        )?;
    }
    database.close()?;
    Ok(ExitCode::SUCCESS)
}

fn summary(done: &Done) -> String {
    let Done { versions, sessions, terms, .. } = done;
    format!("{versions} versions purged, {sessions} sessions deleted, {terms} terms dropped")
}

fn tell(database: &Database) -> anyhow::Result<()> {
    let now = now();
    let mut after = TenantId::OPERATOR;
    loop {
        let found = database.db.operator_blocking(|tx| ops::tenants(tx, after)).map_err(told)?;
        let Some((last, _)) = found.last() else { return Ok(()) };
        after = *last;
        for (tenant, name) in found {
            let work = database.db.tenant_blocking(tenant, |tx| ops::pending(tx, now)).map_err(told)?;
            writeln!(io::stdout(), "{name}: {} versions to purge, {} terms to drop", work.0, work.1)?;
        }
    }
}
