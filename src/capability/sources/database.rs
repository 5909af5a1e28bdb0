//! Registered databases: a row by its key, or the rows of a registered query.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Source, revealed, unregistered};
use crate::app::App;
use crate::capability::format::MAX_DATA;
use crate::capability::ops::registry;
use crate::capability::outcome::{Fetched, Missed, Origin, Outcome, Reason};
use crate::capability::registry::Registered;
use crate::capability::registry::database::{Connection, Database as Registration};
use crate::capability::request::Request;
use crate::capability::target::{Rows, SourceType};
use crate::ctx::Ctx;
use crate::db::remote::{self, Asking, Limits, Login, Refusal};
use crate::error::{Error, Result};
use crate::outbound::Failure;

/// Rows of a database.
pub struct Database<'a> {
    /// The database's name.
    pub database: &'a str,
    /// Which rows.
    pub rows: &'a Rows,
}

impl Source for Database<'_> {
    async fn fetch(&self, app: &App, ctx: &Ctx, _: &Request) -> Result<Outcome> {
        let (name, secrets, asking) = (self.database.to_owned(), app.secrets.clone(), ctx.clone());
        let found = app.db.tenant(ctx.tenant, move |tx| {
            let Some(found) = registry::find::<Registration>(tx, &name)? else { return Ok(None) };
            let secret = found.definition.connection.password.clone();
            let secret = secret.map(|secret| revealed(tx, &asking, &secrets, &secret)).transpose()?;
            Ok(Some((found, secret)))
        });
        let Some((Registered { definition, .. }, secret)) = found.await? else {
            return Ok(unregistered(SourceType::Database, self.database, ctx));
        };
        let place = self.place();
        let missed = |reason, detail: String| {
            let origin = self.origin(&definition, None);
            Ok(Err(Missed::new(origin, reason, detail, ctx.now)).into())
        };
        let asking = match self.asking(&definition)? {
            Some(asking) => asking,
            None => return missed(Reason::NotFound, format!("nothing is registered as {place}")),
        };
        let password = match secret.transpose() {
            Ok(secret) => secret.map(|secret| secret.expose().to_owned()),
            Err(detail) => return missed(Reason::Refused, detail),
        };
        let Connection { host, port, dbname, user, sslmode, .. } = definition.connection.clone();
        let addresses = match app.outbound.addresses(&host).await {
            Ok(addresses) => addresses,
            Err(failure) => return missed(reason(&failure), failure.to_string()),
        };
        let login = Login { host, addresses, port, dbname, user, password, sslmode: sslmode.as_str() };
        let limits = Limits {
            statement_timeout_ms: definition.statement_timeout_ms,
            rows: definition.max_rows,
            bytes: MAX_DATA - 2,
        };
        let read = tokio::task::spawn_blocking(move || remote::read(&login, &asking, limits));
        let read = match read.await.map_err(Error::internal)? {
            Ok(read) => read,
            Err(refusal) => {
                let (reason, detail) = told(refusal);
                return missed(reason, detail.to_owned());
            }
        };
        let by_key = matches!(self.rows, Rows::Key { .. });
        let bytes = match (by_key, read.rows.as_slice()) {
            (true, []) => return missed(Reason::NotFound, "no row has this key".into()),
            (true, [row]) => row.clone(),
            (true, _) => return missed(Reason::ConstraintUnmet, "several rows have this key".into()),
            (false, rows) => format!("[{}]", rows.join(",")),
        };
        let cut = read.more.then(|| {
            let detail = format!("only the first {} rows were read", read.rows.len());
            (Reason::TooLarge, detail)
        });
        let assumptions =
            cut.iter().map(|(_, detail)| format!("What is given is not all: {detail}.")).collect();
        let trust = definition.trust();
        Ok(Ok(Fetched {
            reliability: format!(
                "Read in a transaction that can only read, {}; not versioned here, and {}.",
                if login_is_encrypted(&definition) { "over TLS" } else { "over a connection without TLS" },
                if cut.is_none() {
                    "its SHA-256 was taken of all its bytes"
                } else {
                    "not all rows were read"
                },
            ),
            origin: self.origin(&definition, by_key.then_some(&place)),
            bytes: bytes.into_bytes(),
            cut,
            original_size: None,
            media_type: Some("application/json".into()),
            name: String::new(),
            utf8: true,
            version: read.version,
            last_modified: read.modified,
            volatile: trust.volatile,
            max_age_seconds: trust.max_age_seconds.map(i64::from),
            read_at: ctx.now,
            assumptions,
        })
        .into())
    }
}

fn login_is_encrypted(definition: &Registration) -> bool {
    definition.connection.sslmode.as_str() != "disable"
}

impl Database<'_> {
    /// `database:<name>/<table>/<key>`, each percent-encoded as far as needed; of a query `database:<name>/<query>`,
    /// which is for people alone.
    fn place(&self) -> String {
        let part = |text: &str| utf8_percent_encode(text, KEPT).to_string();
        match self.rows {
            Rows::Key { table, key } => format!("database:{}/{}/{}", self.database, part(table), part(key)),
            Rows::Query { query, .. } => format!("database:{}/{}", self.database, part(query)),
        }
    }

    fn origin(&self, definition: &Registration, cited: Option<&str>) -> Origin {
        Origin {
            kind: SourceType::Database,
            source: format!("database:{}", self.database),
            reference: cited.map(str::to_owned),
            anchor: self.place(),
            authority: definition.authority,
        }
    }

    /// What is asked of the database; nothing where the table or the query is not registered.
    fn asking(&self, definition: &Registration) -> Result<Option<Asking>> {
        Ok(match self.rows {
            Rows::Key { table, key } => definition.tables.get(table).map(|found| Asking::Row {
                table: found.clone(),
                name: found.table.clone().unwrap_or_else(|| table.clone()),
                key: key.clone(),
            }),
            Rows::Query { query, params } => match definition.queries.get(query) {
                Some(found) => Some(Asking::Rows { sql: found.sql.clone(), values: found.bind(params)? }),
                None => None,
            },
        })
    }
}

/// What stands in a reference as it is.
const KEPT: &percent_encoding::AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'@');

fn reason(failure: &Failure) -> Reason {
    match failure {
        Failure::Refused { .. } => Reason::Refused,
        Failure::Timeout { .. } => Reason::Timeout,
        Failure::Unreachable { .. } => Reason::Unreachable,
        Failure::RateLimited { .. } => Reason::RateLimited,
    }
}

/// In our own words: those of the database may hold values, and the registered query.
fn told(refusal: Refusal) -> (Reason, &'static str) {
    match refusal {
        Refusal::NoTls => (
            Reason::Refused,
            "this build of the service speaks no TLS to a database: register it with `sslmode` `disable`, or build with \
             the feature pg-tls",
        ),
        Refusal::Unreachable => {
            (Reason::Unreachable, "the database cannot be connected to, or refuses the login")
        }
        Refusal::Timeout => (Reason::Timeout, "the statement ran into the time limit"),
        Refusal::Writes => (Reason::Refused, "the query would write, and only reading is allowed"),
        Refusal::BadKey => (Reason::NotFound, "no row has this key: it is not of the column's type"),
        Refusal::NoTable => {
            (Reason::Refused, "the registered table or column is not there, or may not be read")
        }
        Refusal::Statement => (Reason::Refused, "the database refused the statement"),
    }
}
