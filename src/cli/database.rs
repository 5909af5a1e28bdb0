//! The database of a command: the one that is named, or the embedded one.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::told;
use crate::config::{Config, DatabaseConfig, Secret, SecretsConfig};
use crate::ctx::TenantId;
use crate::db::embedded::{self, Embedded, Options};
use crate::db::migrate::{self, ServiceLogin};
use crate::db::{Db, PoolOptions};
use crate::hex::hex;
use crate::tenants;

/// The database of the embedded Postgres.
pub const DATABASE: &str = "slatebase";
/// The login that serves from it.
pub const LOGIN: &str = "slatebase_service";

/// What is done about a schema that is not current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// It is migrated, where a login that may is at hand.
    Migrate,
    /// It is migrated if it is the embedded one's, which is nobody's but ours; else refused.
    Expect,
    /// It is refused.
    Refuse,
}

/// Holds the key of tenants' secrets, where the environment names none.
const KEY_FILE: &str = "secrets.key";
/// How long a statement of a command may run; nobody waits in a queue behind it.
const PATIENCE: Duration = Duration::from_secs(600);

/// An open database.
pub struct Database {
    /// Its pool.
    pub db: Db,
    /// What it is, for people.
    pub place: String,
    /// The URL of the service's login.
    pub url: String,
    embedded: Option<Embedded>,
    /// Of the embedded one.
    directory: PathBuf,
}

impl Database {
    /// Opens the database, starting the embedded Postgres where no other is named.
    ///
    /// # Errors
    /// When it cannot be reached, its schema is not current, or its login has a right too many. Each says what to do.
    pub fn open(config: &DatabaseConfig, schema: Schema) -> anyhow::Result<Database> {
        let (embedded, url) = locate(config, schema)?;
        // First, since a schema of before may be what the login is refused for.
        check(&url)?;
        let db = Db::connect(&config.pool(&url))?;
        Ok(Database {
            db,
            place: place(embedded.as_ref(), config),
            url,
            embedded,
            directory: directory(config),
        })
    }

    /// The same for a command that works alone: few connections, and time for long statements.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_for_command(config: &DatabaseConfig) -> anyhow::Result<Database> {
        let (embedded, url) = locate(config, Schema::Expect)?;
        check(&url)?;
        let db = Db::connect(&PoolOptions {
            url: url.clone(),
            size: 2,
            statement_timeout: PATIENCE,
            durable_queries: true,
        })?;
        Ok(Database {
            db,
            place: place(embedded.as_ref(), config),
            url,
            embedded,
            directory: directory(config),
        })
    }

    /// The number of the tenant of this name.
    ///
    /// # Errors
    /// When there is none, or the database is at fault.
    pub fn tenant(&self, name: &str) -> anyhow::Result<TenantId> {
        Ok(self.db.operator_blocking(|tx| tenants::ops::get_tenant(tx, name)).map_err(told)?.id)
    }

    /// The URL of the superuser's login, which only the embedded Postgres has.
    pub fn superuser_url(&self) -> Option<String> {
        self.embedded.as_ref().map(|embedded| embedded.superuser_url(DATABASE))
    }

    /// The configuration, with the key of the embedded database's file beside those that it names.
    ///
    /// # Errors
    /// When the key's file can be neither read nor made.
    pub fn with_secrets_key(&self, config: &Config) -> anyhow::Result<Config> {
        let secrets = self.secrets(&config.secrets)?;
        Ok(Config { secrets, ..config.clone() })
    }

    /// The same for a command.
    ///
    /// # Errors
    /// When the key's file can be neither read nor made.
    pub fn secrets(&self, config: &SecretsConfig) -> anyhow::Result<SecretsConfig> {
        if self.embedded.is_none() {
            return Ok(config.clone());
        }
        let named = config.secrets_key.as_ref().map(Secret::expose);
        let file = key_file(&self.directory.join(KEY_FILE), named.is_none())?;
        let keys: Vec<&str> = named.into_iter().chain(file.as_deref()).collect();
        Ok(SecretsConfig { secrets_key: Some(keys.join(",").parse().map_err(anyhow::Error::msg)?) })
    }

    /// Closes it, and waits for the embedded Postgres to stop, unless somebody else uses it.
    ///
    /// # Errors
    /// When it could not be stopped.
    pub fn close(self) -> anyhow::Result<()> {
        drop(self.db);
        match self.embedded {
            Some(embedded) => embedded.stop().context("cannot stop the embedded Postgres"),
            None => Ok(()),
        }
    }
}

/// Brings the schema up to date, and says how many migrations that took and where.
///
/// # Errors
/// When no login that may do so is named, or it may not.
pub fn migrate(config: &DatabaseConfig) -> anyhow::Result<(usize, String)> {
    match (&config.database_url, &config.migrate_database_url) {
        (service, Some(admin)) => {
            let login = service.as_ref().map(|url| ServiceLogin::from_url(url.expose())).transpose()?;
            let count = migrate::run(admin.expose(), login.as_ref())?;
            Ok((count, place(None, config)))
        }
        (Some(_), None) => bail!(
            "set SLATEBASE_MIGRATE_DATABASE_URL to a login of the same database that may create roles and the schema"
        ),
        (None, None) => {
            let (embedded, count) = start(config, true)?;
            let place = place(Some(&embedded), config);
            embedded.stop().context("cannot stop the embedded Postgres")?;
            Ok((count, place))
        }
    }
}

/// The login's URL of a database whose schema was dealt with as `schema` says.
fn locate(config: &DatabaseConfig, schema: Schema) -> anyhow::Result<(Option<Embedded>, String)> {
    match (&config.database_url, &config.migrate_database_url) {
        (Some(url), Some(_)) if schema == Schema::Migrate => {
            migrate(config)?;
            Ok((None, url.expose().to_owned()))
        }
        (Some(url), _) => Ok((None, url.expose().to_owned())),
        (None, Some(_)) => bail!(
            "SLATEBASE_MIGRATE_DATABASE_URL is set and SLATEBASE_DATABASE_URL is not: set both, or neither for the \
             embedded Postgres"
        ),
        (None, None) => {
            let (embedded, _) = start(config, schema != Schema::Refuse)?;
            let url = embedded.url(LOGIN, DATABASE);
            Ok((Some(embedded), url))
        }
    }
}

fn directory(config: &DatabaseConfig) -> PathBuf {
    config.data_dir.clone().unwrap_or_else(embedded::default_data_dir)
}

/// The key in `path`. Where there is none, one is made if it is `needed`, for us alone to read.
fn key_file(path: &Path, needed: bool) -> anyhow::Result<Option<String>> {
    let read = || match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let make = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        writeln!(file, "{}", hex(&rand::random::<[u8; 32]>()))?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            // Somebody else was first, and their key is the one.
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(()),
            done => done.map(drop).map_err(|error| error.error),
        }
    };
    let mut found = read();
    if needed && matches!(found, Ok(None)) {
        found = make().and_then(|()| read());
    }
    found.with_context(|| format!("the key of tenants' secrets, {}", path.display()))
}

fn start(config: &DatabaseConfig, migrating: bool) -> anyhow::Result<(Embedded, usize)> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let embedded = embedded::start(&Options::new(directory(config), program))?;
    if !migrating {
        // A directory that nothing was ever migrated in has neither the database nor the login.
        ensure!(is_current(&embedded.superuser_url(DATABASE)).unwrap_or(false), NOT_CURRENT);
        return Ok((embedded, 0));
    }
    migrate::create_database(&embedded.superuser_url("postgres"), DATABASE)?;
    let login = ServiceLogin { name: LOGIN.into(), password: None };
    let count = migrate::run(&embedded.superuser_url(DATABASE), Some(&login))?;
    Ok((embedded, count))
}

fn check(url: &str) -> anyhow::Result<()> {
    ensure!(is_current(url)?, NOT_CURRENT);
    Ok(())
}

fn is_current(url: &str) -> anyhow::Result<bool> {
    migrate::is_current(&mut migrate::establish(url)?).context(NOT_CURRENT)
}

const NOT_CURRENT: &str = "the schema of the database is not the one that this version needs: run `slatebase migrate`, with \
    SLATEBASE_MIGRATE_DATABASE_URL set to a login that may create roles and the schema unless Postgres is the embedded one";

/// For people; a URL's password is left out.
fn place(embedded: Option<&Embedded>, config: &DatabaseConfig) -> String {
    let of = |url: &Secret| {
        let bare = url::Url::parse(url.expose()).ok().map(|mut url| {
            // Neither fails for a URL that has a host, and without one there is no password.
            let _ = url.set_password(None);
            url.set_query(None);
            url.to_string()
        });
        bare.unwrap_or_else(|| "the database".into())
    };
    match embedded {
        Some(_) => format!("embedded Postgres in {}", directory(config).display()),
        None => {
            config.database_url.as_ref().or(config.migrate_database_url.as_ref()).map(of).unwrap_or_default()
        }
    }
}
