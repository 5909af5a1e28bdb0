//! `slatebase demo`: the product in one screen.
//!
//! An embedded Postgres, the three small slates of `seeds/` (which are part of the binary), a server, and two sessions of a
//! scripted model against it over HTTP, one of them run by the service itself. All of it is what a user would have: nothing
//! is faked but the model.
//!
//! Deliberately absent: another database. Whoever tries the demo with `SLATEBASE_DATABASE_URL` set does not want a demo
//! tenant in it.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;

use chrono::Duration;
use clap::builder::FalseyValueParser;
use clap::{Args as _, FromArgMatches};

mod play;
mod seeds;
mod show;

use super::database::{Database, Schema};
use super::{logging, now, told};
use crate::app::App;
use crate::config::{Config, Secret};
use crate::ctx::Scope;
use crate::hex::hex;
use crate::http::server;
use crate::runs::runner;
use crate::tenants::ops;
use crate::tenants::secret::Token;
use crate::tenants::tenant::NewKey;

/// Where the scripted model is.
const LOOPBACK: &str = "127.0.0.1/32";
/// The tenant that the demo works in.
const TENANT: &str = "demo";

/// See it work: an agent's session over small slates of documents, then a server to try.
///
/// Starts an embedded Postgres, loads three slates into the tenant "demo", serves them, and plays two sessions of a
/// scripted model over HTTP: one that asks for what it needs, and one that is packed beforehand and run by the service.
/// Then it keeps serving and prints a key, until SIGINT or SIGTERM. The key ends with the
/// demo; what else is in the data directory is left alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase demo
  slatebase demo --exit                                 for scripts: stop after the play")]
pub struct Args {
    /// Stop after the play
    #[arg(long, env = "SLATEBASE_DEMO_EXIT", value_parser = FalseyValueParser::new())]
    exit: bool,
    /// Address and port to listen on; another port is taken if it is busy
    #[arg(long, env = "SLATEBASE_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    listen: String,
    /// Where the embedded Postgres keeps its data. Unset: the user's data directory, or /var/lib/slatebase as root
    #[arg(long, env = "SLATEBASE_DATA_DIR", value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// The operator's token. Unset: one is made up and printed
    #[arg(long, env = "SLATEBASE_OPERATOR_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    operator_token: Option<Secret>,
    /// What is logged: a level or directives
    #[arg(long, env = "SLATEBASE_LOG", default_value = "warn", value_name = "FILTER")]
    log: String,
}

/// Runs it.
///
/// # Errors
/// When the embedded Postgres or the server cannot be started, or the play does not go as it should.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (listen, moved) = free(&args.listen);
    let operator = args.operator_token.as_ref().map_or_else(made_up, |token| token.expose().to_owned());
    let config = config(&args, &listen, &operator)?;
    logging::install(&config)?;
    eprintln!("starting the embedded Postgres; the first time takes some seconds");
    let database = Database::open(&config.database, Schema::Migrate)?;
    let mut out = io::stdout();
    let seeded = seeds::load(&database.db, TENANT)?;
    let token = make_key(&database)?;
    let config = database.with_secrets_key(&config)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let served = runtime.block_on(async {
        let app = App::new(database.db.clone(), &config)?;
        let running = server::run(app.clone(), &config).await?;
        let base = format!("http://{}", running.address);
        if moved {
            writeln!(out, "{} is busy, so this demo listens on {}", args.listen, running.address)?;
        }
        writeln!(out, "serving    {base}, from {}\nslates     {seeded}\n", database.place)?;
        // The scripted model is on loopback, where the service reaches nothing else.
        let mut local = config.clone();
        local.outbound.outbound_allow.push(LOOPBACK.parse().map_err(anyhow::Error::msg)?);
        let player = App::new(database.db.clone(), &local)?;
        let workers = runner::start(&player);
        let played = play::play(&base, &token.expose(), &mut out).await;
        player.stopping.send_replace(true);
        workers.ended().await;
        played?;
        let workers = runner::start(&app);
        let served = if args.exit {
            running.stop().await;
            Ok(())
        } else {
            running.until_signal(|| show::try_it(&mut out, &base, &token.expose(), &operator)).await
        };
        app.stopping.send_replace(true);
        workers.ended().await;
        served
    });
    drop(runtime);
    // It was printed: it shall not outlive the demo.
    let revoked =
        database.db.operator_blocking(|tx| ops::revoke_key(tx, TENANT, token.key_id, now())).map_err(told);
    database.close()?;
    served.and(revoked).map(|()| ExitCode::SUCCESS)
}

/// The address, or another port of it where its own is busy.
fn free(listen: &str) -> (String, bool) {
    match (TcpListener::bind(listen), listen.rsplit_once(':')) {
        (Err(error), Some((host, _))) if error.kind() == ErrorKind::AddrInUse => (format!("{host}:0"), true),
        _ => (listen.to_owned(), false),
    }
}

fn made_up() -> String {
    hex(&rand::random::<[u8; 32]>())
}

fn config(args: &Args, listen: &str, operator: &str) -> anyhow::Result<Config> {
    let mut given: Vec<OsString> = vec!["demo".into()];
    for (flag, value) in [("--listen", listen), ("--operator-token", operator), ("--log", &args.log)] {
        given.extend([flag.into(), value.into()]);
    }
    if let Some(directory) = &args.data_dir {
        given.extend(["--data-dir".into(), directory.into()]);
    }
    let matches = Config::augment_args(clap::Command::new("demo")).try_get_matches_from(given)?;
    let mut config = Config::from_arg_matches(&matches)?;
    config.database.database_url = None;
    config.database.migrate_database_url = None;
    Ok(config)
}

/// A key for as long as the demo runs; should the demo be killed, it ends by itself.
fn make_key(database: &Database) -> anyhow::Result<Token> {
    let now = now();
    let new =
        NewKey::parse("demo".into(), &Scope::ALL, None, Some(now + Duration::days(30)), now).map_err(told)?;
    let secret = rand::random();
    let (_, token) =
        database.db.operator_blocking(|tx| ops::create_key(tx, TENANT, &new, secret, now)).map_err(told)?;
    Ok(token)
}
