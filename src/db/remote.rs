//! Reading another database than our own: one connection, one transaction that can only read, one statement.
//!
//! What always holds: the address is one that was checked before, and not looked up again; nothing of the process's
//! environment (`PG…` variables, password and service files) has a say; a caller's values are bound, and never part of a
//! statement; what comes back is bounded in rows and bytes before it leaves the database.

use std::fmt::Write;
use std::net::IpAddr;

use chrono::{DateTime, Utc};
use diesel::connection::SimpleConnection;
use diesel::pg::{Pg, PgConnection};
use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{BigInt, Bool, Double, Nullable, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};

use crate::capability::registry::database::{ParamValue, Table};

/// Where, and as whom.
pub struct Login {
    /// The host's name, which its certificate has to bear.
    pub host: String,
    /// The addresses that may be connected to, in order.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// The database.
    pub dbname: String,
    /// Who logs in.
    pub user: String,
    /// With which password.
    pub password: Option<String>,
    /// libpq's word for whether the connection is encrypted.
    pub sslmode: &'static str,
}

/// What is read.
pub enum Asking {
    /// The row of a key: two where there are several.
    Row {
        /// The table's registration.
        table: Table,
        /// Its name in the database.
        name: String,
        /// The key, as text.
        key: String,
    },
    /// The rows of a query.
    Rows {
        /// One `select`.
        sql: String,
        /// The values of its parameters.
        values: Vec<ParamValue>,
    },
}

/// How much, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// No statement runs longer, in milliseconds.
    pub statement_timeout_ms: u32,
    /// The most rows.
    pub rows: u32,
    /// The most bytes, of all rows as JSON with a comma between them.
    pub bytes: usize,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The rows, as JSON objects.
    pub rows: Vec<String>,
    /// Whether there are more than may be read.
    pub more: bool,
    /// When the row was last modified, if a column tells.
    pub modified: Option<DateTime<Utc>>,
    /// The row's version, if a column tells.
    pub version: Option<String>,
}

/// Why nothing was read. The database's own words may hold values, and stay here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The build speaks no TLS, and the registration wants it.
    NoTls,
    /// There is no connection.
    Unreachable,
    /// The statement took too long.
    Timeout,
    /// The statement would write.
    Writes,
    /// The key is not of its column's type.
    BadKey,
    /// There is no such table or column, or it may not be read.
    NoTable,
    /// The statement is wrong.
    Statement,
}

/// Reads. Blocks, for at most the time that connecting and one statement may take.
///
/// # Errors
/// [`Refusal`].
pub fn read(login: &Login, asking: &Asking, limits: Limits) -> Result<Read, Refusal> {
    if cfg!(feature = "pq-bundled") && login.sslmode != "disable" {
        return Err(Refusal::NoTls);
    }
    #[expect(clippy::disallowed_methods, reason = "it is no connection to our own database")]
    let mut connection = PgConnection::establish(&conninfo(login)).map_err(|_| Refusal::Unreachable)?;
    let settings = format!(
        "set statement_timeout = {timeout}; set lock_timeout = {timeout}; \
         set idle_in_transaction_session_timeout = '60s'; set timezone = 'UTC'; set datestyle = 'ISO'; \
         set intervalstyle = 'postgres'; set bytea_output = 'hex'; set extra_float_digits = 1; \
         set application_name = 'slatebase'",
        timeout = limits.statement_timeout_ms
    );
    connection.batch_execute(&settings).map_err(|_| Refusal::Unreachable)?;
    let read = connection.build_transaction().read_only().run(|connection| match asking {
        Asking::Row { table, name, key } => row(connection, table, name, key, limits),
        Asking::Rows { sql, values } => rows(connection, sql, values, limits),
    });
    read.map_err(|failed| match failed {
        Failed::Refused(refusal) => refusal,
        Failed::Database(error) => refusal(&error, matches!(asking, Asking::Row { .. })),
    })
}

enum Failed {
    Refused(Refusal),
    Database(DieselError),
}

impl From<DieselError> for Failed {
    fn from(error: DieselError) -> Failed {
        Failed::Database(error)
    }
}

/// A connection string of libpq that leaves nothing to the environment.
fn conninfo(login: &Login) -> String {
    let mut text = String::new();
    let mut put = |name: &str, value: &str| {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'");
        // Writing to a text does not fail.
        let _ = write!(text, "{name}='{value}' ");
    };
    let each =
        |text: &dyn Fn(&IpAddr) -> String| login.addresses.iter().map(text).collect::<Vec<_>>().join(",");
    put("host", &each(&|_| login.host.clone()));
    put("hostaddr", &each(&IpAddr::to_string));
    put("port", &login.port.to_string());
    put("dbname", &login.dbname);
    put("user", &login.user);
    put("sslmode", login.sslmode);
    put("password", login.password.as_deref().unwrap_or_default());
    // Named so that none of the user's own is read.
    put("passfile", "/nonexistent");
    put("options", "");
    put("gssencmode", "disable");
    put("connect_timeout", "5");
    put("tcp_user_timeout", "20000");
    put("keepalives_idle", "10");
    text
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[derive(QueryableByName)]
struct TypeRow {
    #[diesel(sql_type = Text)]
    name: String,
}

#[derive(QueryableByName)]
struct KeyRow {
    #[diesel(sql_type = Nullable<Text>)]
    json: Option<String>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    modified: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Text>)]
    version: Option<String>,
}

fn row(
    connection: &mut PgConnection,
    table: &Table,
    name: &str,
    key: &str,
    limits: Limits,
) -> Result<Read, Failed> {
    let full = format!("{}.{}", quoted(&table.schema), quoted(name));
    // The key is cast to its column's type, so that the column's index finds it.
    let kind: Option<TypeRow> = sql_query(
        "select format_type(atttypid, atttypmod) as name from pg_attribute \
         where attrelid = to_regclass($1) and attname = $2 and attnum > 0 and not attisdropped",
    )
    .bind::<Text, _>(&full)
    .bind::<Text, _>(&table.key)
    .get_result(connection)
    .optional()?;
    let kind = kind.ok_or(Failed::Refused(Refusal::NoTable))?.name;
    let json = match &table.columns {
        None => "row_to_json(t)".to_owned(),
        Some(columns) => {
            let columns: Vec<_> = columns.iter().map(|column| format!("t.{}", quoted(column))).collect();
            format!("(select row_to_json(c) from (select {}) c)", columns.join(", "))
        }
    };
    let column = |column: &Option<String>, kind: &str| {
        column.as_ref().map_or("null".into(), |column| format!("t.{}", quoted(column))) + "::" + kind
    };
    let found: Vec<KeyRow> = sql_query(format!(
        "select case when octet_length(json) <= {bytes} then json end as json, modified, version from \
         (select ({json})::text as json, {modified} as modified, {version} as version \
          from {full} t where t.{key} = $1::{kind} limit 2) r",
        bytes = limits.bytes,
        modified = column(&table.modified, "timestamptz"),
        version = column(&table.version, "text"),
        key = quoted(&table.key),
    ))
    .bind::<Text, _>(key)
    .load(connection)?;
    let more = found.iter().any(|row| row.json.is_none());
    let (modified, version) = found.first().map_or((None, None), |row| (row.modified, row.version.clone()));
    let rows = found.into_iter().filter_map(|row| row.json).collect();
    Ok(Read { rows, more, modified, version })
}

#[derive(QueryableByName)]
struct QueryRow {
    #[diesel(sql_type = Nullable<Text>)]
    json: Option<String>,
}

fn rows(
    connection: &mut PgConnection,
    sql: &str,
    values: &[ParamValue],
    limits: Limits,
) -> Result<Read, Failed> {
    // A statement of the extended protocol is one alone, and the line's end ends a comment at the end of it.
    let bounded = format!(
        "select case when upto <= {bytes} and n <= {rows} then json end as json from \
         (select json, sum(octet_length(json) + 1) over w as upto, row_number() over w as n from \
          (select row_to_json(q)::text as json from ({sql}\n) q limit {one_more}) a \
          window w as (rows unbounded preceding)) b",
        bytes = limits.bytes,
        rows = limits.rows,
        one_more = u64::from(limits.rows) + 1,
    );
    let mut query: BoxedSqlQuery<'_, Pg, SqlQuery> = sql_query(bounded).into_boxed();
    for value in values {
        query = match value {
            ParamValue::Text(value) => query.bind::<Nullable<Text>, _>(value.clone()),
            ParamValue::Integer(value) => query.bind::<Nullable<BigInt>, _>(*value),
            ParamValue::Number(value) => query.bind::<Nullable<Double>, _>(*value),
            ParamValue::Boolean(value) => query.bind::<Nullable<Bool>, _>(*value),
        };
    }
    let found: Vec<QueryRow> = query.load(connection)?;
    let all = found.len();
    let rows: Vec<String> = found.into_iter().map_while(|row| row.json).collect();
    Ok(Read { more: rows.len() < all, rows, modified: None, version: None })
}

/// diesel gives no SQLSTATE for most errors; where the text is another language's, the statement is said to be wrong.
fn refusal(error: &DieselError, by_key: bool) -> Refusal {
    let DieselError::DatabaseError(kind, info) = error else { return Refusal::Statement };
    let says = |texts: &[&str]| texts.iter().any(|text| info.message().contains(text));
    match kind {
        DatabaseErrorKind::ReadOnlyTransaction => Refusal::Writes,
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => Refusal::Unreachable,
        _ if says(&["timeout"]) => Refusal::Timeout,
        _ if says(&["read-only"]) => Refusal::Writes,
        _ if says(&["server closed the connection", "terminating connection"]) => Refusal::Unreachable,
        _ if by_key && says(&["invalid input", "out of range"]) => Refusal::BadKey,
        _ if says(&["permission denied", "does not exist"]) => Refusal::NoTable,
        _ => Refusal::Statement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_login_is_read_as_a_setting() {
        let login = Login {
            host: "db.example".into(),
            addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            port: 5432,
            dbname: "d' host='evil".into(),
            user: "u\\".into(),
            password: Some("p' sslmode='disable".into()),
            sslmode: "verify-full",
        };
        let text = conninfo(&login);
        assert!(
            text.starts_with("host='db.example,db.example' hostaddr='192.0.2.1,2001:db8::1' port='5432' ")
        );
        assert!(text.contains("dbname='d\\' host=\\'evil' user='u\\\\' sslmode='verify-full' "), "{text}");
        assert!(text.contains("password='p\\' sslmode=\\'disable' "), "{text}");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
