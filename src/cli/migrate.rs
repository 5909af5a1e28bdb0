//! `slatebase migrate`: the schema, brought up to date apart from serving.

use std::io::Write;
use std::process::ExitCode;

use super::database;
use crate::config::DatabaseConfig;

/// Bring the database's schema up to date.
///
/// With an external Postgres the login in SLATEBASE_MIGRATE_DATABASE_URL creates the roles, the extensions and the
/// tables. The login in SLATEBASE_DATABASE_URL, where one is given, is created too and made a member of the application
/// role. Nothing happens where the schema is current already; any number of processes may do this at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase migrate                                     the embedded Postgres
  SLATEBASE_MIGRATE_DATABASE_URL=postgres://admin:…@db/slatebase?sslmode=disable \\
  SLATEBASE_DATABASE_URL=postgres://slatebase:…@db/slatebase?sslmode=disable \\
  slatebase migrate                                     an external one")]
pub struct Args {
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it.
///
/// # Errors
/// When the schema cannot be brought up to date.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (count, place) = database::migrate(&args.database)?;
    let what = match count {
        0 => "the schema is current".to_owned(),
        1 => "ran 1 migration".to_owned(),
        many => format!("ran {many} migrations"),
    };
    writeln!(std::io::stdout(), "{what}: {place}")?;
    Ok(ExitCode::SUCCESS)
}
