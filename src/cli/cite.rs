//! `slatebase cite`: what is cited, and whether a quote stands there.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use uuid::Uuid;

use super::database::Database;
use super::{now, wrong};
use crate::app::App;
use crate::capability::citations::{CheckStatus, ResolveStatus, ToCheck, ToResolve};
use crate::capability::runner;
use crate::config::{DatabaseConfig, SecretsConfig};
use crate::ctx::Ctx;
use crate::outbound::OutboundConfig;

/// Fetch what a citation cites again, or check a quote against it.
///
/// On a terminal the cited text comes first and then whether it is what was cited; in a pipe, and with --json, the answer
/// is that of the API. The exit status is 1 where the citation is not verified, or the quote does not stand in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase cite slate://Knowledge/docs/guide.md@3#L1-50 --tenant acme
  slatebase cite slate://Knowledge/docs/guide.md@3 --tenant acme --quote 'the release branch is cut'")]
pub struct Args {
    /// The citation
    reference: String,
    /// The tenant's name
    #[arg(long, env = "SLATEBASE_TENANT", value_name = "NAME")]
    tenant: String,
    /// The hash that was given with it
    #[arg(long, env = "SLATEBASE_HASH", value_name = "SHA256")]
    hash: Option<String>,
    /// Text that is said to stand there
    #[arg(long, env = "SLATEBASE_QUOTE", value_name = "TEXT", conflicts_with = "hash")]
    quote: Option<String>,
    /// A session whose other files are looked at for the quote
    #[arg(long, env = "SLATEBASE_SESSION", value_name = "ID", requires = "quote")]
    session: Option<Uuid>,
    /// Print JSON on a terminal too
    #[arg(long, env = "SLATEBASE_JSON", value_parser = clap::builder::FalseyValueParser::new())]
    json: bool,
    #[command(flatten)]
    outbound: OutboundConfig,
    #[command(flatten)]
    secrets: SecretsConfig,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it.
///
/// # Errors
/// When the tenant is nobody's, the text is no citation, or the database is at fault.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let database = Database::open_for_command(&args.database)?;
    let tenant = database.tenant(&args.tenant)?;
    let app = App::for_command(database.db.clone(), &args.outbound, &database.secrets(&args.secrets)?)?;
    let ctx = Ctx::local(tenant, now(), Uuid::now_v7());
    let runtime = tokio::runtime::Runtime::new()?;
    let plain = !args.json && io::stdout().is_terminal();
    let Args { reference, hash, quote, session, .. } = args;
    let answered = runtime.block_on(async {
        match quote {
            Some(quote) => {
                let found =
                    runner::check(&app, &ctx, ToCheck { reference, quote, session_id: session }).await?;
                let line = [
                    Some(word(&found.status)),
                    found.lines.clone(),
                    found.reference.clone(),
                    found.detail.clone(),
                ];
                let line = line.into_iter().flatten().collect::<Vec<_>>().join("  ");
                Ok((serde_json::to_value(&found), line, found.status == CheckStatus::Found))
            }
            None => {
                let found = runner::resolve(&app, &ctx, ToResolve { reference, hash }).await?;
                let text = found.data.as_deref().unwrap_or_default();
                let told = [Some(word(&found.status)), found.hash.clone(), found.detail.clone()];
                let line = format!("{text}\n{}", told.into_iter().flatten().collect::<Vec<_>>().join("  "));
                Ok((serde_json::to_value(&found), line, found.status == ResolveStatus::Verified))
            }
        }
    });
    drop((app, runtime));
    database.close()?;
    let (json, line, fine) = answered.map_err(wrong)?;
    match plain {
        true => writeln!(io::stdout(), "{line}")?,
        false => writeln!(io::stdout(), "{:#}", json?)?,
    }
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A status as the API writes it.
fn word(status: &impl serde::Serialize) -> String {
    serde_json::to_value(status).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}
