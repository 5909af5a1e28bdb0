//! `slatebase serve`: the service.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::FalseyValueParser;

use super::database::{Database, Schema};
use super::logging;
use crate::app::App;
use crate::config::Config;
use crate::http::server;
use crate::runs::runner;

/// Serve the API.
///
/// Brings the schema up to date first, where a login that may is at hand: that of the embedded Postgres, or the one in
/// SLATEBASE_MIGRATE_DATABASE_URL. SIGTERM and SIGINT finish what is in flight, stop the embedded Postgres, and end with
/// exit status 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase serve                                       embedded Postgres, http://127.0.0.1:8080
  slatebase serve --listen 0.0.0.0:80 --log-format json
  SLATEBASE_DATABASE_URL=postgres://slatebase:…@localhost/slatebase slatebase serve --no-migrate")]
pub struct Args {
    /// Leave the schema alone, and refuse to serve where it is not current
    #[arg(long, env = "SLATEBASE_NO_MIGRATE", value_parser = FalseyValueParser::new())]
    no_migrate: bool,
    #[command(flatten)]
    config: Config,
}

/// Runs it until a signal comes.
///
/// # Errors
/// When the database is not fit to be served from, or the address cannot be listened on.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    logging::install(&args.config)?;
    let schema = if args.no_migrate { Schema::Refuse } else { Schema::Migrate };
    let database = Database::open(&args.config.database, schema)?;
    let config = database.with_secrets_key(&args.config)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let served = runtime.block_on(async {
        let app = App::new(database.db.clone(), &config)?;
        let running = server::run(app.clone(), &config).await?;
        let workers = runner::start(&app);
        let place = &database.place;
        if args.config.operator_token.is_none() {
            tracing::info!(
                "SLATEBASE_OPERATOR_TOKEN is not set, so the operator's routes are closed; `slatebase tenant` and \
                 `slatebase key` do their work"
            );
        }
        if args.config.fixed_tokens {
            tracing::warn!(
                "SLATEBASE_FIXED_TOKENS is on: keys open to tokens of the operator's choice (`slatebase key alias`), which \
                 are only as secret as they were chosen"
            );
        }
        let address = running.address;
        let served = running
            .until_signal(|| writeln!(io::stdout(), "serving http://{address} from {place}; pages at /docs"))
            .await;
        app.stopping.send_replace(true);
        workers.ended().await;
        served
    });
    // What still runs holds connections.
    drop(runtime);
    database.close()?;
    served.map(|()| ExitCode::SUCCESS)
}
