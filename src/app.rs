//! What every front door stands on: the same for the server, the command line and the tests.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};

use crate::config::{ArchiveConfig, Config, RunsConfig, SecretsConfig};
use crate::db::Db;
use crate::outbound::{Outbound, OutboundConfig};
use crate::secrets::keys::Keys;

/// The service. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The database.
    pub db: Db,
    /// The client for requests to other hosts.
    pub outbound: Outbound,
    /// A permit for each request body above 1 MiB that may be in memory at once.
    pub large_bodies: Arc<Semaphore>,
    /// The keys that tenants' secrets are encrypted under.
    pub secrets: Arc<Keys>,
    /// A permit for each archive that may be imported or exported at once.
    pub archive_permits: Arc<Semaphore>,
    /// How large archives may be.
    pub archives: ArchiveConfig,
    /// How sessions are run.
    pub runs: RunsConfig,
    /// The hosts, with or without a port, at which `/mcp` may be reached; none is any.
    pub mcp_hosts: Arc<[String]>,
    /// True once the server is stopping: what would go on for long, such as a stream of events, ends by itself.
    pub stopping: watch::Sender<bool>,
    /// Whether fixed tokens open the keys that they were given to.
    pub fixed_tokens: bool,
    /// Where others reach the service.
    pub public_url: Option<url::Url>,
    /// SHA-256 of the operator token; `None` closes the operator's routes.
    pub operator_token: Option<[u8; 32]>,
}

impl App {
    /// What a command works with: no operator, and one large body at a time.
    ///
    /// # Errors
    /// As [`App::new`].
    pub fn for_command(db: Db, outbound: &OutboundConfig, secrets: &SecretsConfig) -> anyhow::Result<App> {
        Ok(App {
            db,
            outbound: Outbound::new(outbound)?,
            secrets: Arc::new(secrets.keys()?),
            large_bodies: Arc::new(Semaphore::new(1)),
            archive_permits: Arc::new(Semaphore::new(1)),
            archives: ArchiveConfig::default(),
            runs: RunsConfig::NONE,
            mcp_hosts: Arc::default(),
            stopping: watch::Sender::new(false),
            fixed_tokens: false,
            public_url: None,
            operator_token: None,
        })
    }

    /// The service over a pool.
    ///
    /// # Errors
    /// When no client for requests to other hosts can be made, or a key is none.
    pub fn new(db: Db, config: &Config) -> anyhow::Result<App> {
        Ok(App {
            db,
            outbound: Outbound::new(&config.outbound)?,
            secrets: Arc::new(config.secrets.keys()?),
            large_bodies: Arc::new(Semaphore::new(config.max_large_bodies.into())),
            archive_permits: Arc::new(Semaphore::new(config.max_archives.into())),
            archives: config.archives,
            runs: config.runs,
            mcp_hosts: config.mcp_hosts().into(),
            stopping: watch::Sender::new(false),
            fixed_tokens: config.fixed_tokens,
            public_url: config.public_url.clone(),
            operator_token: config.operator_token.as_ref().map(|token| Sha256::digest(token.expose()).into()),
        })
    }
}
