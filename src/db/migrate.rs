//! Migrations, embedded in the binary and run under an advisory lock, since diesel takes none.

use anyhow::{Context, bail};
use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::sql_types::{Bool, Integer, Text};
use diesel::{Connection, QueryableByName, RunQueryDsl, sql_query};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use super::roles::Roles;

const MIGRATIONS: EmbeddedMigrations = embed_migrations!();

/// The advisory lock that migrations are run under.
const LOCK: i64 = 0x536c_6174_6562_6173;

/// The oldest Postgres that serves: `security_invoker` views came with it.
const OLDEST: i32 = 15;

/// The login that the service will use; made, and made a member of the application role, where that is not so yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceLogin {
    /// The role's name.
    pub name: String,
    /// Its password, where one is needed to log in.
    pub password: Option<String>,
}

impl ServiceLogin {
    /// The user (and password) that a connection URL names.
    ///
    /// # Errors
    /// When it is no `postgres://user@…` URL.
    pub fn from_url(url: &str) -> anyhow::Result<ServiceLogin> {
        let parsed = parse(url)?;
        let text = |part: &str| {
            percent_encoding::percent_decode_str(part)
                .decode_utf8()
                .map(String::from)
                .context("URL is not UTF-8")
        };
        let user = parsed.query_pairs().find(|(name, _)| name == "user").map(|(_, user)| user.into_owned());
        let name = match (parsed.username(), user) {
            ("", None) => bail!("the URL of the database names no user"),
            ("", Some(user)) => user,
            (user, _) => text(user)?,
        };
        Ok(ServiceLogin { name, password: parsed.password().map(text).transpose()? })
    }
}

/// A connection URL as libpq takes it: `postgres://user@/database?host=/run/postgresql` has no host before the path.
fn parse(url: &str) -> anyhow::Result<url::Url> {
    url::Url::parse(url)
        .or_else(|_| url::Url::parse(&url.replacen("@/", "@localhost/", 1)))
        .ok()
        .filter(|parsed| matches!(parsed.scheme(), "postgres" | "postgresql"))
        .context("a database is named by a URL such as postgres://user:password@host/database")
}

/// Opens one connection outside of any pool.
///
/// # Errors
/// When the database cannot be reached; the password is not in the message.
pub fn establish(url: &str) -> anyhow::Result<PgConnection> {
    #[cfg(feature = "pq-bundled")]
    refuse_plain_text(url)?;
    #[expect(clippy::disallowed_methods, reason = "this is the way in that it recommends")]
    PgConnection::establish(url).map_err(|error| anyhow::anyhow!("cannot connect to the database: {error}"))
}

/// The bundled libpq speaks no TLS: to a remote host, passwords and documents would travel in plain text, so that has to
/// be asked for.
#[cfg(feature = "pq-bundled")]
fn refuse_plain_text(url: &str) -> anyhow::Result<()> {
    let parsed = parse(url)?;
    let option = |wanted: &str| parsed.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let host = option("host").map(String::from).or(parsed.host_str().map(String::from)).unwrap_or_default();
    let local = host.is_empty()
        || host.starts_with('/')
        || host == "localhost"
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let mode = option("sslmode");
    if mode.as_deref() != Some("disable") && (!local || mode.is_some_and(|m| m != "prefer" && m != "allow")) {
        bail!(
            "this build speaks no TLS to the database, and \"{host}\" is another host: build it with \
             --no-default-features --features pg-tls, or allow plain text by adding sslmode=disable to the URL"
        );
    }
    Ok(())
}

/// Makes a database, unless it is there; `url` is that of another one of the same server, as a login that may.
///
/// # Errors
/// When the server cannot be reached or refuses.
pub fn create_database(url: &str, name: &str) -> anyhow::Result<()> {
    #[derive(QueryableByName)]
    struct There {
        #[diesel(sql_type = Bool)]
        there: bool,
    }
    let mut connection = establish(url)?;
    // Two that copy the same template at once would refuse each other. The lock goes with the connection.
    connection.batch_execute(&format!("select pg_advisory_lock({LOCK})"))?;
    let found: There = sql_query("select exists (select from pg_database where datname = $1) as there")
        .bind::<Text, _>(name)
        .get_result(&mut connection)?;
    if !found.there {
        connection
            .batch_execute(&format!("create database {}", identifier(name)))
            .with_context(|| format!("cannot create the database {name}"))?;
    }
    Ok(())
}

#[derive(QueryableByName)]
struct Server {
    #[diesel(sql_type = Integer)]
    version: i32,
    #[diesel(sql_type = Text)]
    encoding: String,
    #[diesel(sql_type = Text)]
    database: String,
}

/// Brings the schema up to date, and says how many migrations that took.
///
/// # Errors
/// When Postgres is too old, the database is not UTF-8, an extension cannot be created, or the login may not do it.
pub fn run(url: &str, service: Option<&ServiceLogin>) -> anyhow::Result<usize> {
    let mut connection = establish(url)?;
    let server: Server = sql_query(
        "select current_setting('server_version_num')::int / 10000 as version, \
                current_setting('server_encoding') as encoding, current_database()::text as database",
    )
    .get_result(&mut connection)?;
    if server.version < OLDEST {
        bail!("the database is Postgres {}; Slatebase needs {OLDEST} or newer", server.version);
    }
    if server.encoding != "UTF8" {
        bail!("the database \"{}\" has encoding {}; Slatebase needs UTF8", server.database, server.encoding);
    }
    connection.batch_execute(&format!("select pg_advisory_lock({LOCK})"))?;
    let roles = Roles::of(&server.database);
    // A template's roles serve its copies: the schema's owner tells which they are.
    let roles = existing_roles(&mut connection)?.unwrap_or(roles);
    prepare(&mut connection, &server.database, &roles)?;
    connection.batch_execute(&format!(
        "set role {}; set slatebase.app_role = {}; set client_min_messages = warning",
        identifier(&roles.owner),
        literal(&roles.app)
    ))?;
    let ran = connection
        .run_pending_migrations(MIGRATIONS)
        .map_err(|error| anyhow::anyhow!("a migration failed: {error}"))?
        .len();
    connection.batch_execute(&format!(
        "grant select on __diesel_schema_migrations to {}; reset role",
        identifier(&roles.app)
    ))?;
    if let Some(login) = service {
        make_login(&mut connection, &roles, login)?;
    }
    connection.batch_execute(&format!("select pg_advisory_unlock({LOCK})"))?;
    Ok(ran)
}

/// Whether the schema is the one that this binary was built for.
///
/// # Errors
/// When the database cannot be asked.
pub fn is_current(connection: &mut PgConnection) -> diesel::QueryResult<bool> {
    #[derive(QueryableByName)]
    struct Current {
        #[diesel(sql_type = Bool)]
        current: bool,
    }
    use diesel::migration::{Migration, MigrationSource};
    let migrations: Vec<Box<dyn Migration<diesel::pg::Pg>>> =
        MIGRATIONS.migrations().map_err(diesel::result::Error::QueryBuilderError)?;
    let ours: Vec<String> =
        migrations.iter().map(|migration| migration.name().version().to_string()).collect();
    let found: Current =
        sql_query("select to_regclass('public.__diesel_schema_migrations') is not null as current")
            .get_result(connection)?;
    if !found.current {
        return Ok(false);
    }
    let found: Current = sql_query(
        "select not exists (select unnest($1) except select version from __diesel_schema_migrations) as current",
    )
    .bind::<diesel::sql_types::Array<Text>, _>(ours)
    .get_result(connection)?;
    Ok(found.current)
}

fn existing_roles(connection: &mut PgConnection) -> anyhow::Result<Option<Roles>> {
    #[derive(QueryableByName)]
    struct Owner {
        #[diesel(sql_type = Text)]
        owner: String,
    }
    let found: Vec<Owner> = sql_query(
        "select c.relowner::regrole::text as owner from pg_class c \
         where c.oid = to_regclass('public.__diesel_schema_migrations')",
    )
    .load(connection)?;
    Ok(found.into_iter().next().and_then(|found| {
        let owner = found.owner.trim_matches('"').replace("\"\"", "\"");
        let app = owner.strip_prefix("slatebase_owner_").map(|suffix| format!("slatebase_app_{suffix}"))?;
        Some(Roles { owner, app })
    }))
}

/// Does what the owner cannot do for itself: makes the roles and the extensions, and closes the database.
fn prepare(connection: &mut PgConnection, database: &str, roles: &Roles) -> anyhow::Result<()> {
    for role in [&roles.owner, &roles.app] {
        make_role(connection, role, "nologin")
            .with_context(|| format!("cannot make the role {role}; the login needs CREATEROLE"))?;
    }
    let owner = identifier(&roles.owner);
    connection
        .batch_execute(&format!("grant {owner} to current_user"))
        .with_context(|| format!("cannot become a member of {owner}"))?;
    for extension in ["pg_trgm", "btree_gin"] {
        connection.batch_execute(&format!("create extension if not exists {extension}")).with_context(|| {
            format!(
                "cannot create the extension {extension}: install Postgres's contrib modules, or have an administrator \
                 run `create extension {extension}` in this database"
            )
        })?;
    }
    connection
        .batch_execute(&format!(
            "grant usage, create on schema public to {owner}; grant usage on schema public to {}",
            identifier(&roles.app)
        ))
        .context("cannot grant rights on the schema public; the login must own the database")?;
    revoke_temporary(connection, database, &roles.app)
}

/// Takes the right to make temporary objects from everyone, and so from the application role: a session's own objects stand
/// before those that it is given. Neither copies of a template nor restored dumps keep this, so each run looks at it.
fn revoke_temporary(connection: &mut PgConnection, database: &str, app: &str) -> anyhow::Result<()> {
    if !may_make_temporary(connection, app)? {
        return Ok(());
    }
    let statement = format!("revoke temporary on database {} from public", identifier(database));
    let refusal = connection.batch_execute(&format!("{statement}, {}", identifier(app))).err();
    // A login that does not own the database may be told no more than a warning.
    if refusal.is_some() || may_make_temporary(connection, app)? {
        let why = refusal.map(|error| format!(" ({error})")).unwrap_or_default();
        bail!(
            "cannot take the right to make temporary tables from the application role{why}; the login must own the \
             database, or its owner run `{statement}`"
        );
    }
    Ok(())
}

fn may_make_temporary(connection: &mut PgConnection, role: &str) -> diesel::QueryResult<bool> {
    #[derive(QueryableByName)]
    struct May {
        #[diesel(sql_type = Bool)]
        may: bool,
    }
    let may: May = sql_query("select has_database_privilege($1, current_database(), 'temporary') as may")
        .bind::<Text, _>(role)
        .get_result(connection)?;
    Ok(may.may)
}

fn make_login(connection: &mut PgConnection, roles: &Roles, login: &ServiceLogin) -> anyhow::Result<()> {
    make_role(connection, &login.name, "login")
        .with_context(|| format!("cannot make the login {}", login.name))?;
    if let Some(password) = &login.password {
        connection.batch_execute(&format!(
            "alter role {} password {}",
            identifier(&login.name),
            literal(password)
        ))?;
    }
    connection
        .batch_execute(&format!("grant {} to {}", identifier(&roles.app), identifier(&login.name)))
        .with_context(|| format!("cannot make {} a member of {}", login.name, roles.app))
}

/// `create role`, unless it is there: roles belong to the cluster, and another database may be making it right now.
fn make_role(connection: &mut PgConnection, name: &str, how: &str) -> diesel::QueryResult<()> {
    connection.batch_execute(&format!(
        "do $make$ begin if to_regrole({quoted}) is null then create role {role} {how}; end if; \
         exception when duplicate_object or unique_violation then null; end $make$",
        quoted = literal(&identifier(name)),
        role = identifier(name),
    ))
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_is_read_from_the_url() {
        let login = ServiceLogin::from_url("postgres://svc:p%40ss@db/slatebase").unwrap();
        assert_eq!(login, ServiceLogin { name: "svc".into(), password: Some("p@ss".into()) });
        let socket = ServiceLogin::from_url("postgres://svc@/slatebase?host=%2Frun%2Fpg").unwrap();
        assert_eq!(socket, ServiceLogin { name: "svc".into(), password: None });
        assert!(ServiceLogin::from_url("host=db user=svc").is_err());
        assert!(ServiceLogin::from_url("mysql://svc@db/slatebase").is_err());
        assert!(ServiceLogin::from_url("postgres://db/slatebase").is_err());
    }

    #[cfg(feature = "pq-bundled")]
    #[test]
    fn plain_text_to_another_host_has_to_be_asked_for() {
        for (url, allowed) in [
            ("postgres://u@localhost/d", true),
            ("postgres://u@127.0.0.1:5433/d", true),
            ("postgres://u@[::1]/d", true),
            ("postgres://u@/d?host=%2Frun%2Fpg", true),
            ("postgres://u@db/d", false),
            ("postgres://u@db/d?sslmode=require", false),
            ("postgres://u@localhost/d?sslmode=verify-full", false),
            ("postgres://u@db/d?sslmode=disable", true),
            ("host=db", false),
        ] {
            assert_eq!(refuse_plain_text(url).is_ok(), allowed, "{url}");
        }
    }
}
