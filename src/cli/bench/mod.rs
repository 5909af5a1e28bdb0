//! `slatebase bench`: what the queries read and how long they take, on this machine.
//!
//! It generates files (`data`), loads them (`load`), and measures `rows` as a user meets them: as the application
//! role on a connection, and over HTTP against this program as a server of its own. Buffers and statements are those that
//! the server logged (`trace`). Machines are noisy, so every time has its floor beside it, taken in the same run.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::builder::FalseyValueParser;

mod client;
mod data;
mod load;
mod report;
mod rows;
mod run;
mod served;
mod trace;

use super::database::Database;
use crate::config::DatabaseConfig;
use crate::db::measure::Admin;
use data::Data;
use load::Tenant;
use report::Report;
use rows::{GROWTH, ROWS, Row};
use run::Bench;
use served::Served;

/// Other tenants beside the one that is measured.
const OTHERS: u64 = 200;
/// Files of each of them, at most.
const OTHER_FILES: u64 = 1000;
/// Files of the tenant that growth is measured from.
const SMALL_TENANT: u64 = 10_000;
/// Files that loading is measured with, at most.
const LOADED: u64 = 20_000;

/// Measure queries, loading and memory on this machine.
///
/// Makes a tenant of generated files in an embedded Postgres of its own: a quarter of them in one folder, the rest in
/// thousands of small ones, 200 small tenants beside it. Then it measures, warm, and prints tables.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = COLUMNS)]
pub struct Args {
    /// Files of the tenant
    #[arg(long, env = "SLATEBASE_BENCH_FILES", default_value_t = 100_000, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(400..=10_000_000))]
    files: u64,
    /// Another seed makes other files; the same makes the same
    #[arg(long, env = "SLATEBASE_BENCH_SEED", default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Seconds that each time is measured for
    #[arg(long, env = "SLATEBASE_BENCH_SECONDS", default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,
    /// Measure only rows whose name has this text; "loading", "memory", "growth" and "run" name those parts. May be
    /// repeated
    #[arg(long, env = "SLATEBASE_BENCH_ONLY", value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Print JSON rather than tables
    #[arg(long, env = "SLATEBASE_BENCH_JSON", value_parser = FalseyValueParser::new())]
    json: bool,
    /// Compare with an earlier run's JSON, and end with exit status 1 where something is worse than it was
    #[arg(long, env = "SLATEBASE_BENCH_COMPARE", value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Keep the temporary data directory, and say where it is
    #[arg(long, env = "SLATEBASE_BENCH_KEEP", value_parser = FalseyValueParser::new())]
    keep: bool,
    #[command(flatten)]
    database: DatabaseConfig,
}

const EXAMPLES: &str = "\
Examples:
  slatebase bench                                       100,000 files, in a temporary directory
  slatebase bench --files 1000000 --data-dir /tmp/b     keeps what it loaded for the next run
  slatebase bench --only glob --only where --json >new.json
  slatebase bench --compare old.json
See --help for what each column means.";

const COLUMNS: &str = "\
Examples:
  slatebase bench                                       100,000 files, in a temporary directory
  slatebase bench --files 1000000 --data-dir /tmp/b     keeps what it loaded for the next run
  slatebase bench --only glob --only where --json >new.json
  slatebase bench --compare old.json

SEARCH, on one connection, as the application role:
  found     files that the search gives, up to its limit (20, or 100 where the row says so)
  buffers   8 KiB pages that its search statements read, cached or not, by EXPLAIN (ANALYZE, BUFFERS) of the very
            statements that the request sends. They do not depend on how busy the machine is: trust them first
  of all    the same of all statements of the request: key, slate, heads, contents, the provenance record
  stmts     statements of the request, BEGIN, SET LOCAL and COMMIT included
  p50 …     half of the searches took no longer; 95, 99 of 100
  × floor   its p50 over that of a read by primary key on the same connection, in turns with it. Trust it second

HTTP, against this program as a server with its defaults:
  p50 …     of a whole request with one client
  req/s N   requests a second with N clients, each sending the next one when it has its answer; \"!\" where some were
            refused as overload (503), which do not count
  × pgbench that number over the transactions a second of pgbench with the same statements, values and clients, those
            prepared that the service keeps prepared, the insert of the provenance record among them; for point reads
            and small queries. \"–\": no pgbench beside the Postgres programs, or not such a row
  p50, p99  with the most clients, and the one over the other

GROWTH    buffers of searches in a folder that is the same in a tenant of 10,000 files and in the large one
LOADING   files a second into new tenants as NDJSON over HTTP, metatags and dictionary included, by 1 request and by 2
          at once; bare COPY of the same rows into the same tables; the better of the two over COPY
MEMORY    resident memory of the server
RUN       of rounds that the service runs itself, against a model that answers at once: from its answer to its next prompt

With --database-url buffers, pgbench and COPY are left out: they need a superuser of the server. The tenants that it
makes are named bench-…, and stay.";

/// Runs it.
///
/// # Errors
/// When the database or the server cannot be started, or a request fails.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let old = args.compare.as_deref().map(earlier).transpose()?;
    let mut config = args.database.clone();
    let temporary = match (&config.database_url, &config.data_dir) {
        (None, None) => Some(place()?),
        _ => None,
    };
    if let Some(place) = &temporary {
        config.data_dir = Some(place.path().to_owned());
    }
    let database = Database::open_for_command(&config)?;
    let directory = config.data_dir.clone().unwrap_or_default();
    let measured = measure(args, &database, &directory);
    database.close()?;
    if let (Some(place), true) = (temporary, args.keep) {
        eprintln!("kept in {}", place.keep().display());
    }
    let report = measured?;
    let mut out = io::stdout();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        false => write!(out, "{}", report.render())?,
    }
    let worse = old.map(|old| report::compare(&old, &report)).unwrap_or_default();
    for worse in &worse {
        eprintln!("worse: {}: {:.1}, and was {:.1}", worse.what, worse.new, worse.old);
    }
    Ok(if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A directory that the account can enter which Postgres runs as.
fn place() -> anyhow::Result<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let mut builder = tempfile::Builder::new();
    builder.prefix("slatebase-bench-").permissions(fs::Permissions::from_mode(0o755));
    builder.tempdir().context("cannot make a temporary directory")
}

fn earlier(path: &Path) -> anyhow::Result<Report> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no report of this command", path.display()))
}

/// The tenants, loaded.
struct Tenants {
    measured: Tenant,
    small: Tenant,
}

fn tenants(args: &Args, database: &Database, admin: Option<&mut Admin>) -> anyhow::Result<Tenants> {
    let Args { files, seed, .. } = *args;
    let data = Data { files, seed };
    let few = Data { files: SMALL_TENANT.min(files), seed };
    let others = Data { files: OTHER_FILES.min(files / 1000).max(1), seed };
    let bar = load::bar(files + few.files + OTHERS * others.files);
    let db = &database.db;
    let name = |what: &str| format!("bench-{what}-{files}-{seed}");
    let small = load::tenant(db, &name("small"))?;
    let loaded = load::is_loaded(db, small.id)?;
    let measured = load::tenant(db, &name("large"))?;
    bar.set_message("loading");
    load::fill(db, measured.id, data, &bar)?;
    for n in 0..if loaded { 0 } else { OTHERS } {
        load::fill(db, load::tenant(db, &name(&n.to_string()))?.id, others, &bar)?;
    }
    load::fill(db, small.id, few, &bar)?;
    bar.finish_and_clear();
    if let (Some(admin), false) = (admin, loaded) {
        eprintln!("gathering statistics");
        admin.vacuum()?;
    }
    eprintln!("publishing corpora");
    load::publish(db, measured.id)?;
    Ok(Tenants { measured, small })
}

fn measure(args: &Args, database: &Database, directory: &Path) -> anyhow::Result<Report> {
    let only = |name: &str| args.only.is_empty() || args.only.iter().any(|text| name.contains(text.as_str()));
    let rows: Vec<Row> = ROWS.iter().filter(|row| only(row.name)).copied().collect();
    let mut admin = database.superuser_url().map(|url| Admin::connect(&url)).transpose()?;
    let postgres = admin.as_mut().map(|admin| admin.setting("server_version")).transpose()?;
    let tenants = tenants(args, database, admin.as_mut())?;
    let mut bench = Bench {
        db: &database.db,
        url: &database.url,
        admin,
        directory,
        tenant: &tenants.measured,
        data: Data { files: args.files, seed: args.seed },
        time: Duration::from_secs_f64(args.seconds.clamp(0.001, 3600.0)),
    };
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION").into(),
        postgres,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        files: args.files,
        seed: args.seed,
        seconds: args.seconds,
        rows: Vec::new(),
        growth: Vec::new(),
        loading: None,
        memory: None,
        run: None,
    };
    let traced = bench.trace(&rows, &tenants.measured.token)?;
    if only("growth") {
        report.growth = bench.growth(GROWTH, &tenants.small)?;
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let served = Served::start(&database.url, false)?;
    if only("memory") {
        eprintln!("memory");
        report.memory = runtime.block_on(bench.memory(&served))?;
    }
    for row in &traced {
        eprintln!("{}", row.0.name);
        report.rows.push(bench.row(row, &served)?);
    }
    if only("loading") {
        eprintln!("loading");
        let files = LOADED.min(args.files / 5);
        report.loading = Some(runtime.block_on(bench.loading(&served, files))?);
    }
    if let (Some(memory), Some((_, peak))) = (&mut report.memory, served.memory()) {
        memory.peak = peak;
    }
    if only("run") {
        eprintln!("server-run round");
        report.run = Some(runtime.block_on(bench.run_overhead(&served))?);
    }
    served.stop()?;
    Ok(report)
}
