//! What the benchmark asks of a database server of its own, as its superuser: what statements were run and what each
//! read, the floor of loading by `COPY`, fresh statistics.
//!
//! Statements and plans come from the server's own log (`log_statement`, and `auto_explain` in JSON), so they are the
//! very ones that the service sends, run by its own role, and no list of them has to be kept.

use std::time::{Duration, Instant};

use anyhow::Context;
use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::sql_types::{Array, Text};
use diesel::{OptionalExtension, QueryableByName, RunQueryDsl, sql_query};

use super::migrate::establish;

/// The tables of a tenant's knowledge, in the order in which rows may come into being.
const TABLES: [&str; 9] = [
    "slates",
    "folders",
    "file_ids",
    "blobs",
    "file_versions",
    "tag_keys",
    "tag_terms",
    "files",
    "file_tags",
];

#[derive(QueryableByName)]
struct TextRow {
    #[diesel(sql_type = Text)]
    value: String,
}

#[derive(QueryableByName)]
struct TextsRow {
    #[diesel(sql_type = Array<Text>)]
    value: Vec<String>,
}

/// A connection of the superuser.
pub struct Admin {
    connection: PgConnection,
}

impl Admin {
    /// Connects.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn connect(url: &str) -> anyhow::Result<Admin> {
        Ok(Admin { connection: establish(url)? })
    }

    /// A setting of the server, or a value of its `pg_config`, such as `BINDIR`.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn setting(&mut self, name: &str) -> anyhow::Result<String> {
        let row: Option<TextRow> = sql_query(
            "select setting as value from pg_config where name = $1 union all \
             select setting from pg_settings where name = $1",
        )
        .bind::<Text, _>(name)
        .get_result(&mut self.connection)
        .optional()?;
        row.map(|row| row.value).with_context(|| format!("the database has no {name}"))
    }

    /// Brings statistics and visibility up to date, as autovacuum does in its own time.
    ///
    /// # Errors
    /// Those of the database.
    pub fn vacuum(&mut self) -> anyhow::Result<()> {
        Ok(self.connection.batch_execute("vacuum analyze")?)
    }

    /// Has the server log the statements of `login`, and what each read, from its next connection on; or no longer.
    /// Tells whether plans can be logged: `auto_explain` may not be installed.
    ///
    /// # Errors
    /// Those of the database.
    pub fn trace(&mut self, login: &str, on: bool) -> anyhow::Result<bool> {
        let login = format!("\"{}\"", login.replace('"', "\"\""));
        self.connection.batch_execute(&format!("alter role {login} reset all"))?;
        if !on || self.connection.batch_execute("load 'auto_explain'").is_err() {
            return Ok(false);
        }
        let settings = [
            ("log_statement", "all"),
            ("log_parameter_max_length", "-1"),
            ("session_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_buffers", "on"),
            ("auto_explain.log_timing", "off"),
            ("auto_explain.log_format", "json"),
        ];
        for (name, value) in settings {
            self.connection.batch_execute(&format!("alter role {login} set {name} = '{value}'"))?;
        }
        Ok(true)
    }

    /// The types of a statement's parameters, where the server can tell them.
    pub fn parameter_types(&mut self, statement: &str) -> Vec<String> {
        if self.connection.batch_execute(&format!("prepare measured as {statement}")).is_err() {
            return Vec::new();
        }
        let row: Result<TextsRow, _> = sql_query(
            "select parameter_types::text[] as value from pg_prepared_statements where name = 'measured'",
        )
        .get_result(&mut self.connection);
        // It is there: it was just prepared.
        let _ = self.connection.batch_execute("deallocate measured");
        row.map(|row| row.value).unwrap_or_default()
    }

    /// Gives the tenant `to`, which has nothing yet, all knowledge of the tenant `from`, by one `COPY` a table in one
    /// transaction, and tells how long these took. `file` is a path that the server may write to; it is overwritten.
    ///
    /// # Errors
    /// Those of the database.
    pub fn copy_tenant(&mut self, from: i64, to: i64, file: &str) -> anyhow::Result<Duration> {
        let file = file.replace('\'', "''");
        let mut took = Duration::ZERO;
        self.connection.batch_execute("begin")?;
        for table in TABLES {
            let columns: TextRow = sql_query(
                "select string_agg(quote_ident(attname), ', ' order by attnum) as value from pg_attribute \
                 where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = '' \
                   and attname <> 'tenant_id'",
            )
            .bind::<Text, _>(table)
            .get_result(&mut self.connection)?;
            let columns = columns.value;
            self.connection.batch_execute(&format!(
                "copy (select {to}, {columns} from {table} where tenant_id = {from}) to '{file}'"
            ))?;
            let start = Instant::now();
            self.connection.batch_execute(&format!("copy {table} (tenant_id, {columns}) from '{file}'"))?;
            took += start.elapsed();
        }
        let start = Instant::now();
        self.connection.batch_execute("commit")?;
        Ok(took + start.elapsed())
    }
}
