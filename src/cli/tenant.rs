//! `slatebase tenant`: the operator's work with tenants, at the machine.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use clap::builder::FalseyValueParser;

use super::database::Database;
use super::{now, told};
use crate::config::DatabaseConfig;
use crate::tenants::ops;
use crate::tenants::tenant::TenantName;

/// How many rows are read at once.
pub(super) const PAGE: i64 = 1000;

/// Create, list and delete tenants: isolated customers.
#[derive(Debug, clap::Subcommand)]
pub enum Action {
    /// Create a tenant
    #[command(after_help = "Example:\n  slatebase tenant create acme")]
    Create(Create),
    /// List the tenants by name
    #[command(after_help = "Example:\n  slatebase tenant list")]
    List(List),
    /// Delete a tenant and everything it has: keys, slates, files, sessions, provenance
    #[command(after_help = "Examples:\n  slatebase tenant delete acme          asks first\n  \
                            slatebase tenant delete acme --yes    for scripts")]
    Delete(Delete),
}

/// Arguments of `create`.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// Its name: 1 to 63 of a-z, 0-9 and -
    name: String,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub struct List {
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Arguments of `delete`.
#[derive(Debug, clap::Args)]
pub struct Delete {
    /// Its name
    name: String,
    /// Do not ask
    #[arg(long, env = "SLATEBASE_YES", value_parser = FalseyValueParser::new())]
    yes: bool,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it.
///
/// # Errors
/// When the name is taken, or nobody's; or the database is at fault.
pub fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Create(args) => {
            let name = TenantName::parse(&args.name).map_err(told)?;
            let database = Database::open_for_command(&args.database)?;
            let tenant =
                database.db.operator_blocking(|tx| ops::create_tenant(tx, &name, now())).map_err(told)?;
            writeln!(io::stdout(), "created tenant {} (number {})", tenant.name, tenant.id.0)?;
            database.close()?;
        }
        Action::List(args) => {
            let database = Database::open_for_command(&args.database)?;
            let mut after: Option<String> = None;
            loop {
                let page = database
                    .db
                    .operator_blocking(|tx| ops::list_tenants(tx, after.as_deref(), PAGE))
                    .map_err(told)?;
                for tenant in &page {
                    let made = tenant.created_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
                    writeln!(io::stdout(), "{}\tnumber {}\tcreated {made}", tenant.name, tenant.id.0)?;
                }
                match page.into_iter().next_back() {
                    Some(last) => after = Some(last.name),
                    None => break,
                }
            }
            database.close()?;
        }
        Action::Delete(args) => {
            let database = Database::open_for_command(&args.database)?;
            let tenant = database
                .db
                .operator_blocking(|tx| ops::get_tenant(tx, &args.name))
                .map_err(|error| told(error).context(format!("there is no tenant {:?}", args.name)))?;
            if !args.yes && !confirmed(&tenant.name, &database.place)? {
                database.close()?;
                bail!("nothing was deleted");
            }
            database.db.operator_blocking(|tx| ops::delete_tenant(tx, &tenant.name)).map_err(told)?;
            writeln!(io::stdout(), "deleted tenant {} and everything it had", tenant.name)?;
            database.close()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn confirmed(name: &str, place: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("this deletes all that tenant {name} has, for good; say --yes where nobody can be asked");
    }
    let mut out = io::stderr();
    write!(out, "This deletes all that tenant {name} has ({place}), for good.\nType its name to go on: ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == name)
}
