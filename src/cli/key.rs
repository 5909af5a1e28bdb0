//! `slatebase key`: the operator's work with API keys, at the machine.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use chrono::{DateTime, SecondsFormat, Utc};
use clap::builder::FalseyValueParser;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;

use super::database::Database;
use super::tenant::PAGE;
use super::{now, told};
use crate::config::{DatabaseConfig, Secret};
use crate::ctx::Scope;
use crate::db::Tx;
use crate::tenants::ops;
use crate::tenants::secret::FixedToken;
use crate::tenants::tenant::{Key, NewKey};

/// Create, list, alias and revoke a tenant's API keys.
#[derive(Debug, clap::Subcommand)]
pub enum Action {
    /// Create a key and print its token, this once
    #[command(after_help = "\
Examples:
  slatebase key create acme --label \"support agent\" --scope read --scope retrieve
  slatebase key create acme --label importer --scope write --slate Knowledge --expires-at 2027-01-01T00:00:00Z
  TOKEN=$(slatebase key create acme)                    all scopes, every slate, no end")]
    Create(Create),
    /// List a tenant's keys, revoked ones too; never a secret
    #[command(after_help = "Example:\n  slatebase key list acme")]
    List(List),
    /// Give a key a fixed token, for callers that can send no other
    ///
    /// It opens the key beside the key's own token, on servers that run with SLATEBASE_FIXED_TOKENS=on. It takes the place
    /// of the one that the key has. Only its hash is stored.
    #[command(after_help = "\
Examples:
  slatebase key alias acme 12 <token                    read from standard input, so that no list of processes shows it
  slatebase key alias acme 12 fabric-internal
  slatebase key alias acme 12 --remove")]
    Alias(Alias),
    /// Revoke a key; it opens nothing from that moment on
    #[command(after_help = "Example:\n  slatebase key revoke acme 12")]
    Revoke(Revoke),
}

/// Arguments of `create`.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// The tenant's name
    tenant: String,
    /// What people call the key
    #[arg(long, env = "SLATEBASE_KEY_LABEL", default_value = "command line", value_name = "TEXT")]
    label: String,
    /// What it may do; may be given several times. Unset: everything
    #[arg(long = "scope", env = "SLATEBASE_KEY_SCOPES", value_delimiter = ',', value_parser = scopes(), value_name = "SCOPE")]
    scopes: Vec<Scope>,
    /// The only slate that it may touch; may be given several times. Unset: all of the tenant's
    #[arg(long = "slate", env = "SLATEBASE_KEY_SLATES", value_delimiter = ',', value_name = "NAME")]
    slates: Vec<String>,
    /// When it ends to open anything, as RFC 3339. Unset: never
    #[arg(long, env = "SLATEBASE_KEY_EXPIRES_AT", value_name = "TIME")]
    expires_at: Option<DateTime<Utc>>,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// The tenant's name
    tenant: String,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Arguments of `alias`.
#[derive(Debug, clap::Args)]
pub struct Alias {
    /// The tenant's name
    tenant: String,
    /// The key's number: the second one in its token
    key_id: i64,
    /// The token: 8 to 512 visible characters of ASCII. Unset: the first line of standard input
    #[arg(env = "SLATEBASE_FIXED_TOKEN", hide_env_values = true)]
    token: Option<Secret>,
    /// Take the key's fixed token away
    #[arg(long, env = "SLATEBASE_REMOVE_ALIAS", value_parser = FalseyValueParser::new(), conflicts_with = "token")]
    remove: bool,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Arguments of `revoke`.
#[derive(Debug, clap::Args)]
pub struct Revoke {
    /// The tenant's name
    tenant: String,
    /// The key's number: the second one in its token
    key_id: i64,
    #[command(flatten)]
    database: DatabaseConfig,
}

fn scopes() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::ALL.map(Scope::as_str))
        .try_map(|name| Scope::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or("is no scope"))
}

/// Runs it.
///
/// # Errors
/// When the tenant or the key is nobody's, a value is wrong, or the database is at fault.
pub fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Create(args) => {
            let scopes = if args.scopes.is_empty() { Scope::ALL.to_vec() } else { args.scopes };
            let slates = (!args.slates.is_empty()).then_some(args.slates);
            let new = NewKey::parse(args.label, &scopes, slates, args.expires_at, now()).map_err(told)?;
            let database = Database::open_for_command(&args.database)?;
            let secret = rand::random();
            let (key, token) = database
                .db
                .operator_blocking(|tx| ops::create_key(tx, &args.tenant, &new, secret, now()))
                .map_err(told)?;
            eprintln!("key {} of tenant {}; its token is shown this once:", key.id, args.tenant);
            writeln!(io::stdout(), "{}", token.expose())?;
            database.close()?;
        }
        Action::List(args) => {
            let database = Database::open_for_command(&args.database)?;
            let mut after = None;
            loop {
                let page = database
                    .db
                    .operator_blocking(|tx| ops::list_keys(tx, &args.tenant, after, PAGE))
                    .map_err(told)?;
                page.iter().try_for_each(|key| writeln!(io::stdout(), "{}", line(key, now())))?;
                match page.last() {
                    Some(last) => after = Some(last.id),
                    None => break,
                }
            }
            database.close()?;
        }
        Action::Alias(args) => {
            let alias =
                |tx: &mut Tx, token: &FixedToken| ops::put_alias(tx, &args.tenant, args.key_id, token, now());
            let token = (!args.remove).then(|| fixed(args.token.as_ref())).transpose()?;
            let database = Database::open_for_command(&args.database)?;
            let done = database.db.operator_blocking(|tx| match &token {
                Some(token) => alias(tx, token),
                None => ops::delete_alias(tx, &args.tenant, args.key_id),
            });
            done.map_err(told)?;
            let (key, tenant) = (args.key_id, &args.tenant);
            match token {
                Some(_) => writeln!(
                    io::stdout(),
                    "key {key} of tenant {tenant} opens to the token on servers that run with SLATEBASE_FIXED_TOKENS=on"
                )?,
                None => writeln!(io::stdout(), "key {key} of tenant {tenant} has no fixed token any more")?,
            }
            database.close()?;
        }
        Action::Revoke(args) => {
            let database = Database::open_for_command(&args.database)?;
            database
                .db
                .operator_blocking(|tx| ops::revoke_key(tx, &args.tenant, args.key_id, now()))
                .map_err(told)?;
            writeln!(io::stdout(), "revoked key {} of tenant {}", args.key_id, args.tenant)?;
            database.close()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The token that was given, or else the first line of standard input.
fn fixed(given: Option<&Secret>) -> anyhow::Result<FixedToken> {
    let mut line = String::new();
    let text = match given {
        Some(given) => given.expose(),
        None => {
            io::stdin().read_line(&mut line).context("cannot read the token")?;
            line.trim_end_matches(['\r', '\n'])
        }
    };
    FixedToken::parse(text).map_err(|detail| anyhow::anyhow!("the token {detail}"))
}

fn line(key: &Key, now: DateTime<Utc>) -> String {
    let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Secs, true);
    let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let slates =
        key.slates.as_ref().map_or("all slates".to_owned(), |names| format!("only {}", names.join(", ")));
    let state = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {}", time(at)),
        (None, Some(at)) if at <= now => format!("expired {}", time(at)),
        (None, Some(at)) => format!("until {}", time(at)),
        (None, None) => "live".into(),
    };
    format!(
        "{}\t{}\t{}\t{slates}\tcreated {}\t{state}",
        key.id,
        key.label,
        scopes.join(","),
        time(key.created_at)
    )
}
