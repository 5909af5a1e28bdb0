//! A registered database: where it is, and which of its tables and queries are read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Registration, SourceKind, Trust, Wrong};
use crate::corpora::entry::Id;
use crate::error::{Error, Result, pointer};

/// The longest query, in bytes.
const MAX_SQL: usize = 64 << 10;
/// The longest name of anything in a database, in bytes.
const MAX_NAME: usize = 63;
/// The longest time that a statement may take, in milliseconds.
const MAX_TIMEOUT: u32 = 60_000;
/// The most rows of a query.
const MAX_ROWS: u32 = 10_000;

/// A Postgres database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NewDatabaseSource)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Where it is, and as whom it is read: a login that may read what is registered, and no more.
    pub connection: Connection,
    /// The tables that are read by key, by the name that targets use.
    #[serde(default)]
    pub tables: BTreeMap<String, Table>,
    /// The queries that are run, by the name that targets use.
    #[serde(default)]
    pub queries: BTreeMap<String, Query>,
    /// No statement runs longer, in milliseconds: 10 to 60,000.
    #[serde(default = "default_timeout")]
    #[schema(default = 5000, minimum = 10, maximum = 60000, example = 5000)]
    pub statement_timeout_ms: u32,
    /// The most rows that a query gives: 1 to 10,000. Further ones are left out, and that is told.
    #[serde(default = "default_rows")]
    #[schema(default = 1000, minimum = 1, maximum = 10000, example = 1000)]
    pub max_rows: u32,
    /// How much it is to be trusted.
    #[serde(default)]
    #[schema(default = "medium", example = "high")]
    pub authority: crate::authority::Authority,
    /// Whether what it gives grows stale.
    #[serde(default)]
    #[schema(default = false, example = true)]
    pub volatile: bool,
    /// The age in seconds past which it does, by default a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 4294967295i64, example = 3600)]
    pub max_age_seconds: Option<u32>,
}

fn default_timeout() -> u32 {
    5000
}

fn default_rows() -> u32 {
    1000
}

fn default_port() -> u16 {
    5432
}

/// Where a database is. The address that its host has is held to the same rules as those of other requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DatabaseConnection)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// A name or an address; never a socket's path.
    #[schema(example = "db.example")]
    pub host: String,
    /// The port.
    #[serde(default = "default_port")]
    #[schema(default = 5432, example = 5432)]
    pub port: u16,
    /// The database's name there.
    #[schema(example = "shop")]
    pub dbname: String,
    /// Who logs in.
    #[schema(example = "reader")]
    pub user: String,
    /// The name of the stored secret that is the password; by default there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "shop-password")]
    pub password: Option<Id>,
    /// Whether the connection is encrypted.
    #[serde(default)]
    #[schema(default = "verify-full", example = "verify-full")]
    pub sslmode: SslMode,
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    /// It is not: what is read, and the password, can be seen on the way.
    Disable,
    /// It is, with whoever answers.
    Require,
    /// It is, with the host that its certificate names.
    #[default]
    VerifyFull,
}

impl SslMode {
    /// The word of libpq.
    pub fn as_str(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Require => "require",
            SslMode::VerifyFull => "verify-full",
        }
    }
}

/// A table that is read by its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DatabaseTable)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its schema.
    #[serde(default = "default_schema")]
    #[schema(default = "public", example = "public")]
    pub schema: String,
    /// Its name in the database; by default the name that targets use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "orders")]
    pub table: Option<String>,
    /// The column that a row is found by; it should be unique.
    #[schema(example = "id")]
    pub key: String,
    /// The columns that are given; by default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!(["id", "status", "total"]))]
    pub columns: Option<Vec<String>>,
    /// The column that tells when a row was last modified; by default nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "updated_at")]
    pub modified: Option<String>,
    /// The column that tells a row's version; by default nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "revision")]
    pub version: Option<String>,
}

fn default_schema() -> String {
    "public".into()
}

/// A query that is run with a caller's values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DatabaseQuery)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// One `select`, with `$1`, `$2`, … for the parameters. It runs in a transaction that can only read.
    #[schema(example = "select id, total from orders where customer = $1 order by id")]
    pub sql: String,
    /// The parameters, in the order of their numbers.
    #[serde(default)]
    pub params: Vec<Param>,
}

/// A parameter of a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = QueryParam)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// What targets name it.
    #[schema(example = "customer")]
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    #[schema(example = "text")]
    pub kind: ParamType,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = QueryParamType)]
#[serde(rename_all = "lowercase")]
pub enum ParamType {
    /// `text`.
    Text,
    /// `bigint`.
    Integer,
    /// `double precision`.
    Number,
    /// `boolean`.
    Boolean,
}

/// A value of a parameter; null is one of every type.
#[derive(Debug, Clone, PartialEq)]
pub enum ParamValue {
    /// `text`.
    Text(Option<String>),
    /// `bigint`.
    Integer(Option<i64>),
    /// `double precision`.
    Number(Option<f64>),
    /// `boolean`.
    Boolean(Option<bool>),
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && !text.chars().any(char::is_control)
}

impl Registration for Database {
    const KIND: SourceKind = SourceKind::Database;

    fn check(&self) -> Result<()> {
        let mut wrong = Wrong::default();
        let Connection { host, dbname, user, port, .. } = &self.connection;
        let host_fine = (1..=253).contains(&host.len())
            && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'));
        wrong.unless(host_fine, "/connection/host", "must be a host's name or address, and no socket's path");
        wrong.unless(*port > 0, "/connection/port", "must be from 1 to 65535");
        wrong.unless(is_name(dbname), "/connection/dbname", "must be a database's name");
        wrong.unless(is_name(user), "/connection/user", "must be a login's name");
        let timeout = (10..=MAX_TIMEOUT).contains(&self.statement_timeout_ms);
        wrong.unless(timeout, "/statement_timeout_ms", format!("must be from 10 to {MAX_TIMEOUT}"));
        let rows = (1..=MAX_ROWS).contains(&self.max_rows);
        wrong.unless(rows, "/max_rows", format!("must be from 1 to {MAX_ROWS}"));
        const NAME: &str = "must be a name of 1 to 63 bytes without control characters";
        for (name, table) in &self.tables {
            let at = pointer("/tables", name);
            wrong.unless(is_name(name), &at, NAME);
            wrong.unless(is_name(&table.schema), pointer(&at, "schema"), NAME);
            wrong.unless(is_name(&table.key), pointer(&at, "key"), NAME);
            for (member, column) in
                [("table", &table.table), ("modified", &table.modified), ("version", &table.version)]
            {
                wrong.unless(column.as_deref().is_none_or(is_name), pointer(&at, member), NAME);
            }
            if let Some(columns) = &table.columns {
                let good = !columns.is_empty() && columns.len() <= 1000 && columns.iter().all(|c| is_name(c));
                wrong.unless(good, pointer(&at, "columns"), "must be names of columns, 1 at least");
            }
        }
        for (name, query) in &self.queries {
            let at = pointer("/queries", name);
            wrong.unless(is_name(name), &at, NAME);
            let sql = !query.sql.trim().is_empty() && query.sql.len() <= MAX_SQL && !query.sql.contains('\0');
            wrong.unless(sql, pointer(&at, "sql"), format!("must be one select of at most {MAX_SQL} bytes"));
            for (n, param) in query.params.iter().enumerate() {
                let unique = query.params.iter().position(|other| other.name == param.name) == Some(n);
                let at = pointer(&pointer(&at, "params"), n);
                wrong.unless(
                    is_name(&param.name) && unique,
                    pointer(&at, "name"),
                    "must be a name of its own",
                );
            }
        }
        wrong.done()
    }
}

impl Database {
    /// What is said of its trust.
    pub fn trust(&self) -> Trust {
        let Database { authority, volatile, max_age_seconds, .. } = *self;
        Trust { authority, volatile, max_age_seconds }
    }
}

impl Query {
    /// A caller's values in the order of the parameters.
    ///
    /// # Errors
    /// [`Code::Invalid`](crate::error::Code::Invalid) by pointer into the call, for a value that is missing, not asked
    /// for, or of another type.
    pub fn bind(&self, values: &Map<String, Value>) -> Result<Vec<ParamValue>> {
        const AT: &str = "/target/params";
        if let Some(unknown) = values.keys().find(|name| self.params.iter().all(|param| param.name != **name))
        {
            return Err(Error::invalid_at(pointer(AT, unknown), "is no parameter of the query"));
        }
        let bound = self.params.iter().map(|param| {
            let at = || pointer(AT, &param.name);
            let value = values.get(&param.name);
            let value = value.ok_or_else(|| Error::invalid_at(at(), "the query needs this parameter"))?;
            let null = value.is_null();
            match param.kind {
                ParamType::Text if null => Some(ParamValue::Text(None)),
                ParamType::Text => value
                    .as_str()
                    .filter(|text| !text.contains('\0'))
                    .map(|text| ParamValue::Text(Some(text.to_owned()))),
                ParamType::Integer if null => Some(ParamValue::Integer(None)),
                ParamType::Integer => crate::given::integer(value).map(|n| ParamValue::Integer(Some(n))),
                ParamType::Number if null => Some(ParamValue::Number(None)),
                ParamType::Number => value.as_f64().map(|n| ParamValue::Number(Some(n))),
                ParamType::Boolean if null => Some(ParamValue::Boolean(None)),
                ParamType::Boolean => value.as_bool().map(|b| ParamValue::Boolean(Some(b))),
            }
            .ok_or_else(|| {
                let kind = match param.kind {
                    ParamType::Text => "a text without U+0000",
                    ParamType::Integer => "an integer within 64 bits",
                    ParamType::Number => "a number",
                    ParamType::Boolean => "a boolean",
                };
                Error::invalid_at(at(), format!("must be {kind}, or null"))
            })
        });
        bound.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn database(change: Value) -> Database {
        let mut document = json!({"connection": {"host": "db.example", "dbname": "d", "user": "u"}});
        for (at, value) in change.as_object().unwrap() {
            match at.split_once('/') {
                Some((outer, inner)) => document[outer][inner] = value.clone(),
                None => document[at] = value.clone(),
            }
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn wrong_registrations_are_refused_by_pointer() {
        database(json!({})).check().unwrap();
        for (change, at) in [
            (json!({"connection/host": "/run/postgresql"}), "/connection/host"),
            (json!({"connection/host": "a b"}), "/connection/host"),
            (json!({"connection/host": "a,b"}), "/connection/host"),
            (json!({"connection/port": 0}), "/connection/port"),
            (json!({"connection/dbname": ""}), "/connection/dbname"),
            (json!({"connection/user": "a\u{0}"}), "/connection/user"),
            (json!({"statement_timeout_ms": 5}), "/statement_timeout_ms"),
            (json!({"max_rows": 0}), "/max_rows"),
            (json!({"tables": {"t": {"key": ""}}}), "/tables/t/key"),
            (json!({"tables": {"t": {"key": "k", "columns": []}}}), "/tables/t/columns"),
            (json!({"tables": {"t": {"key": "k", "table": ""}}}), "/tables/t/table"),
            (json!({"queries": {"q": {"sql": " "}}}), "/queries/q/sql"),
            (
                json!({"queries": {"q": {"sql": "select", "params": [{"name": "a", "type": "text"}, {"name": "a", "type": "text"}]}}}),
                "/queries/q/params/1/name",
            ),
        ] {
            assert_eq!(database(change.clone()).check().unwrap_err().errors[0].pointer, at, "{change}");
        }
    }

    #[test]
    fn values_are_bound_by_their_types() {
        let query: Query = serde_json::from_value(json!({"sql": "select", "params": [{"name": "t", "type": "text"},
            {"name": "i", "type": "integer"}, {"name": "n", "type": "number"}, {"name": "b", "type": "boolean"}]}))
        .unwrap();
        let bind = |values: Value| query.bind(values.as_object().unwrap());
        assert_eq!(
            bind(json!({"b": true, "n": 1, "i": -3, "t": "'; --"})).unwrap(),
            [
                ParamValue::Text(Some("'; --".into())),
                ParamValue::Integer(Some(-3)),
                ParamValue::Number(Some(1.0)),
                ParamValue::Boolean(Some(true))
            ]
        );
        assert_eq!(
            bind(json!({"b": null, "n": null, "i": null, "t": null})).unwrap()[1],
            ParamValue::Integer(None)
        );
        for (values, at) in [
            (json!({}), "/target/params/t"),
            (json!({"t": 1, "i": 1, "n": 1, "b": true}), "/target/params/t"),
            (json!({"t": "", "i": 1.5, "n": 1, "b": true}), "/target/params/i"),
            (json!({"t": "", "i": "1", "n": 1, "b": true}), "/target/params/i"),
            (json!({"t": "", "i": 1, "n": "1", "b": true}), "/target/params/n"),
            (json!({"t": "", "i": 1, "n": 1, "b": 0}), "/target/params/b"),
            (json!({"t": "", "i": 1, "n": 1, "b": true, "x": 1}), "/target/params/x"),
        ] {
            assert_eq!(bind(values.clone()).unwrap_err().errors[0].pointer, at, "{values}");
        }
    }
}
