//! `slatebase secrets`: the operator's work with the keys that secrets are encrypted under.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::ensure;
use uuid::Uuid;

use super::database::Database;
use super::tenant::PAGE;
use super::{now, told};
use crate::config::{DatabaseConfig, SecretsConfig};
use crate::ctx::Ctx;
use crate::hex::hex;
use crate::secrets::ops;
use crate::tenants;

/// How many secrets are encrypted anew in one transaction.
const STEP: i64 = 100;

/// Keep the keys that tenants' secrets are encrypted under.
#[derive(Debug, clap::Subcommand)]
pub enum Action {
    /// Encrypt every tenant's secrets under the first key of SLATEBASE_SECRETS_KEY
    ///
    /// Put the new key before the old one, restart every server, rotate, then take the old key away. Interrupted, it
    /// goes on where it stopped; a second time it changes nothing. Secrets that none of the keys opens are named, and the
    /// exit status is 1.
    #[command(after_help = "Example:\n  SLATEBASE_SECRETS_KEY=$NEW,$OLD slatebase secrets rotate")]
    Rotate(Rotate),
    /// Print a new random key, for SLATEBASE_SECRETS_KEY
    #[command(after_help = "Example:\n  SLATEBASE_SECRETS_KEY=$(slatebase secrets generate-key)")]
    GenerateKey,
}

/// Arguments of `rotate`.
#[derive(Debug, clap::Args)]
pub struct Rotate {
    #[command(flatten)]
    secrets: SecretsConfig,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it.
///
/// # Errors
/// When there is no key, or the database is at fault.
pub fn run(action: &Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Rotate(args) => rotate(args),
        Action::GenerateKey => {
            writeln!(io::stdout(), "{}", hex(&rand::random::<[u8; 32]>()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn rotate(args: &Rotate) -> anyhow::Result<ExitCode> {
    let database = Database::open_for_command(&args.database)?;
    let keys = database.secrets(&args.secrets)?.keys()?;
    ensure!(!keys.is_empty(), "set SLATEBASE_SECRETS_KEY to the new key, and after a comma the old ones");
    let (mut tenants, mut renewed, mut failed) = (0, 0, 0);
    let mut after: Option<String> = None;
    loop {
        let page = database
            .db
            .operator_blocking(|tx| tenants::ops::list_tenants(tx, after.as_deref(), PAGE))
            .map_err(told)?;
        for tenant in &page {
            let ctx = Ctx::local(tenant.id, now(), Uuid::now_v7());
            let (before, mut name) = (renewed, String::new());
            loop {
                let step = database
                    .db
                    .tenant_blocking(tenant.id, |tx| ops::rotate(tx, &ctx, &keys, &name, STEP))
                    .map_err(told)?;
                renewed += step.renewed;
                failed += step.failed.len();
                for (secret, error) in step.failed {
                    eprintln!("tenant {}, secret {secret}: {error}", tenant.name);
                }
                match step.last {
                    Some(last) => name = last,
                    None => break,
                }
            }
            tenants += 1;
            if renewed > before {
                eprintln!("tenant {}: {} secrets encrypted anew", tenant.name, renewed - before);
            }
        }
        match page.into_iter().next_back() {
            Some(last) => after = Some(last.name),
            None => break,
        }
    }
    database.close()?;
    writeln!(
        io::stdout(),
        "{tenants} tenants: {renewed} secrets encrypted anew, {failed} could not be opened"
    )?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
