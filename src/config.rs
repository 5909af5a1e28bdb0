//! The service's configuration: flags, then environment, then defaults (REST contract, "Running it").

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::outbound::OutboundConfig;
use crate::secrets::keys::Keys;

/// Text that is never printed: a token, or a URL that may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl FromStr for Secret {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Secret, &'static str> {
        if text.is_empty() { Err("must not be empty") } else { Ok(Secret(text.to_owned())) }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Which database, and as whom. Shared by every subcommand that needs one.
#[derive(Debug, Clone, clap::Args)]
pub struct DatabaseConfig {
    /// Connection URL of the service's own login, postgres://user:password@host/database: a member of the application
    /// role and nothing more. Unset: an embedded Postgres in the data directory
    #[arg(long, env = "SLATEBASE_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<Secret>,

    /// Connection URL of a login that may create roles and the schema; migrations use it. Unset: the schema must be
    /// current already
    #[arg(long, env = "SLATEBASE_MIGRATE_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub migrate_database_url: Option<Secret>,

    /// Where the embedded Postgres keeps its data. Unset: the user's data directory, or /var/lib/slatebase as root
    #[arg(long, env = "SLATEBASE_DATA_DIR", value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,

    /// Connections to the database, at most; also how many requests use it at once
    #[arg(long, env = "SLATEBASE_POOL_SIZE", default_value_t = 16, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pool_size: u32,

    /// No transaction takes longer, all its statements together, in milliseconds; a request that runs into it is answered
    /// 503. What restructures a whole slate takes as long as it needs
    #[arg(long, env = "SLATEBASE_STATEMENT_TIMEOUT_MS", default_value_t = 10_000, value_name = "MILLISECONDS",
          value_parser = clap::value_parser!(u32).range(100..=3_600_000))]
    pub statement_timeout_ms: u32,

    /// Wait until the record of a query is on disk before answering it. Off, a crash may lose the records of queries of
    /// its last moments; rounds of sessions and all writes are always waited for
    #[arg(long, env = "SLATEBASE_DURABLE_QUERIES", default_value_t = false, value_name = "BOOLEAN",
          action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub durable_queries: bool,
}

impl DatabaseConfig {
    /// How the pool over `url` is made.
    pub fn pool(&self, url: impl Into<String>) -> crate::db::PoolOptions {
        crate::db::PoolOptions {
            url: url.into(),
            size: self.pool_size,
            statement_timeout: Duration::from_millis(self.statement_timeout_ms.into()),
            durable_queries: self.durable_queries,
        }
    }
}

/// What tenants' secrets are encrypted under.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SecretsConfig {
    /// The keys that tenants' secrets are encrypted under: 32 bytes each, in base64 or hexadecimal, with commas. The first
    /// encrypts, all decrypt. Unset: a file of the embedded Postgres's data directory, or else no secret can be stored
    #[arg(long, env = "SLATEBASE_SECRETS_KEY", hide_env_values = true, value_name = "KEYS")]
    pub secrets_key: Option<Secret>,
}

impl SecretsConfig {
    /// The keys; none where none is set.
    ///
    /// # Errors
    /// When one is no key.
    pub fn keys(&self) -> anyhow::Result<Keys> {
        let Some(text) = &self.secrets_key else { return Ok(Keys::default()) };
        Keys::parse(text.expose()).map_err(anyhow::Error::msg)
    }
}

/// How large archives may be that are imported.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct ArchiveConfig {
    /// Bytes of an archive that is imported; it waits in a temporary file while it is read
    #[arg(long, env = "SLATEBASE_MAX_IMPORT_BYTES", default_value_t = ArchiveConfig::default().max_import_bytes, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub max_import_bytes: u64,

    /// Bytes that an imported archive may unpack to; never more than 500 times its own size, past 64 MiB
    #[arg(long, env = "SLATEBASE_MAX_IMPORT_UNPACKED_BYTES", default_value_t = ArchiveConfig::default().max_import_unpacked_bytes, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(1..=1 << 44))]
    pub max_import_unpacked_bytes: u64,

    /// Entries of an imported archive
    #[arg(long, env = "SLATEBASE_MAX_IMPORT_ENTRIES", default_value_t = ArchiveConfig::default().max_import_entries, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub max_import_entries: u64,
}

impl Default for ArchiveConfig {
    fn default() -> ArchiveConfig {
        ArchiveConfig {
            max_import_bytes: 1 << 30,
            max_import_unpacked_bytes: 16 << 30,
            max_import_entries: 1_000_000,
        }
    }
}

/// How the service runs sessions itself.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct RunsConfig {
    /// Sessions that this server runs at once, calling their models itself; 0 leaves them to other servers
    #[arg(long, env = "SLATEBASE_MAX_RUNS", default_value_t = 8, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub max_runs: u16,

    /// How long one call of a model may take, in milliseconds
    #[arg(long, env = "SLATEBASE_MODEL_TIMEOUT_MS", default_value_t = 120_000, value_name = "MILLISECONDS",
          value_parser = clap::value_parser!(u32).range(100..=3_600_000))]
    pub model_timeout_ms: u32,

    /// How often a call of a model is made that fails by the fault of the network or the model's host, before its session
    /// fails; three times as often where the host asks for patience
    #[arg(long, env = "SLATEBASE_MODEL_ATTEMPTS", default_value_t = 8, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub model_attempts: u32,
}

impl RunsConfig {
    /// For who runs none.
    pub const NONE: RunsConfig = RunsConfig { max_runs: 0, model_timeout_ms: 120_000, model_attempts: 1 };
}

fn public_url(text: &str) -> Result<url::Url, &'static str> {
    let url = url::Url::parse(text).map_err(|_| "is no URL")?;
    let plain = matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none();
    if plain { Ok(url) } else { Err("must be an http or https URL without query and fragment") }
}

/// How the service is served.
#[derive(Debug, Clone, clap::Args)]
pub struct Config {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, env = "SLATEBASE_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    pub listen: String,

    /// The token that makes and erases tenants and their keys. Unset: none of that is possible over HTTP
    #[arg(long, env = "SLATEBASE_OPERATOR_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub operator_token: Option<Secret>,

    /// Whether the fixed tokens open anything that the operator gave to keys (`slatebase key alias`), for callers that can
    /// send no other: on or off. They may be guessed or known to many, so on only where few can reach the service
    #[arg(long, env = "SLATEBASE_FIXED_TOKENS", default_value = "off", value_name = "ON|OFF",
          action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "on",
          value_parser = clap::builder::BoolishValueParser::new())]
    pub fixed_tokens: bool,

    /// The URL that this service is reached at by others, without `/v1`. A corpus that is registered with a URL of the
    /// gateway below it is searched here, without a request
    #[arg(long, env = "SLATEBASE_PUBLIC_URL", hide_env_values = true, value_name = "URL", value_parser = public_url)]
    pub public_url: Option<url::Url>,

    /// Threads that take requests. Unset: one a core, never more than --pool-size
    #[arg(long, env = "SLATEBASE_WORKERS", value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub workers: Option<u16>,

    /// Request bodies above 1 MiB that are held in memory at once; further ones wait, then get 503. One takes up to
    /// 90 MiB
    #[arg(long, env = "SLATEBASE_MAX_LARGE_BODIES", default_value_t = 4, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_large_bodies: u16,

    /// Minutes between two rounds of maintenance, as `slatebase maintain` does it, one server at a time; 0 for none
    #[arg(long, env = "SLATEBASE_MAINTAIN_MINUTES", default_value_t = 15, value_name = "MINUTES",
          value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub maintain_minutes: u32,

    /// Imports and exports of archives at once; further ones are answered 503
    #[arg(long, env = "SLATEBASE_MAX_ARCHIVES", default_value_t = 2, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_archives: u16,

    /// How large archives may be.
    #[command(flatten)]
    pub archives: ArchiveConfig,

    /// Hosts, with or without a port and with commas between, at which /mcp may be reached. Unset: those of this machine where
    /// it listens on no other, else any
    #[arg(long, env = "SLATEBASE_MCP_HOSTS", value_delimiter = ',', value_name = "HOSTS")]
    pub mcp_hosts: Option<Vec<String>>,

    /// How log lines are written, to standard error
    #[arg(long, env = "SLATEBASE_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// What is logged: a level (error, warn, info, debug, trace), or directives such as info,slatebase::db=debug
    #[arg(long, env = "SLATEBASE_LOG", default_value = "info,actix_server=warn", value_name = "FILTER")]
    pub log: String,

    /// Secrets of tenants.
    #[command(flatten)]
    pub secrets: SecretsConfig,

    /// Sessions that the service runs itself.
    #[command(flatten)]
    pub runs: RunsConfig,

    /// Requests to other hosts.
    #[command(flatten)]
    pub outbound: OutboundConfig,

    /// The database.
    #[command(flatten)]
    pub database: DatabaseConfig,
}

impl Config {
    /// The hosts at which `/mcp` may be reached; none is any.
    pub fn mcp_hosts(&self) -> Vec<String> {
        let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let host = self.listen.rsplit_once(':').map_or(&*self.listen, |(host, _)| host);
        let is_own = own.iter().any(|name| name == host.trim_matches(['[', ']']));
        match &self.mcp_hosts {
            Some(hosts) => hosts.clone(),
            None if is_own => own.into(),
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn parse(args: &[&str]) -> Result<Config, clap::Error> {
        let command = Config::augment_args(Command::new("slatebase"));
        Config::from_arg_matches(&command.try_get_matches_from(args)?)
    }

    #[test]
    fn secrets_are_not_printed() {
        let config =
            parse(&["", "--operator-token", "hunter2", "--database-url", "postgres://u:hunter2@h/d"]);
        let config = config.unwrap();
        assert_eq!(config.operator_token.as_ref().unwrap().expose(), "hunter2");
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn wrong_values_are_refused() {
        for args in [["", "--operator-token", ""], ["", "--pool-size", "0"], ["", "--max-large-bodies", "0"]]
        {
            assert!(parse(&args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn the_help_tells_the_environment() {
        let help = Config::augment_args(Command::new("slatebase")).render_long_help().to_string();
        for name in ["SLATEBASE_LISTEN", "SLATEBASE_DATABASE_URL", "SLATEBASE_MIGRATE_DATABASE_URL"] {
            assert!(help.contains(name), "{name}");
        }
    }
}
