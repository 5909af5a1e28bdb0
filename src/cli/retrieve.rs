//! `slatebase retrieve`: one thing of one source, with its provenance.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::database::Database;
use super::{now, wrong};
use crate::app::App;
use crate::capability::outcome::Retrieval;
use crate::capability::request::Asked;
use crate::capability::runner;
use crate::config::{DatabaseConfig, SecretsConfig};
use crate::ctx::Ctx;
use crate::outbound::OutboundConfig;

/// Retrieve one thing, with everything that is needed to trust it and to fetch it again.
///
/// On a terminal the data comes first and then where it is from; in a pipe, and with --json, the answer is the JSON of
/// `POST /v1/retrieve`. The exit status is 1 where nothing could be retrieved.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase retrieve docs/guide.md --tenant acme --slate Knowledge
  slatebase retrieve slate://Knowledge/docs/guide.md@3 --tenant acme --section 'Set up'
  slatebase retrieve slate://Knowledge/src/user.ts --tenant acme --lines 1-50 --section class
  slatebase retrieve slate://Knowledge/list.json --tenant acme --json-path '$.items[?@.n > 1]' | jq .retrieved.data")]
pub struct Args {
    /// A path, a URL, or a citation
    target: String,
    /// The tenant's name
    #[arg(long, env = "SLATEBASE_TENANT", value_name = "NAME")]
    tenant: String,
    /// The slate that a plain path is looked up in. Unset: the tenant's default_slate
    #[arg(long, env = "SLATEBASE_SLATE", value_name = "NAME")]
    slate: Option<String>,
    /// Lines: 1-50, 7 or 40-. May be given several times
    #[arg(long, env = "SLATEBASE_LINES", value_name = "RANGE")]
    lines: Vec<String>,
    /// A section: a Markdown heading, or the keyword or name of a top-level construct of code. May be given several times
    #[arg(long, env = "SLATEBASE_SECTION", value_name = "NAME")]
    section: Vec<String>,
    /// A JSONPath (RFC 9535) over JSON, YAML or CSV
    #[arg(long, env = "SLATEBASE_JSON_PATH", value_name = "PATH")]
    json_path: Option<String>,
    /// A member to keep, by JSON Pointer (RFC 6901). May be given several times
    #[arg(long, env = "SLATEBASE_FIELD", value_name = "POINTER")]
    field: Vec<String>,
    /// The version: a number, or the source's own
    #[arg(long, env = "SLATEBASE_VERSION", value_name = "VERSION")]
    of_version: Option<String>,
    /// The format that is expected: json, yaml, csv, text or binary. Unset: detected
    #[arg(long, env = "SLATEBASE_FORMAT", value_name = "FORMAT")]
    format: Option<String>,
    /// Bytes to return at most
    #[arg(long, env = "SLATEBASE_MAX_BYTES", value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// Print JSON on a terminal too
    #[arg(long, env = "SLATEBASE_JSON", value_parser = clap::builder::FalseyValueParser::new())]
    json: bool,
    #[command(flatten)]
    outbound: OutboundConfig,
    #[command(flatten)]
    secrets: SecretsConfig,
    #[command(flatten)]
    database: DatabaseConfig,
}

impl Args {
    /// The body of the call.
    fn body(&self) -> Value {
        let mut constraints = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            constraints.extend(value.map(|value| (name.to_owned(), value)));
        };
        let several = |texts: &[String]| match texts {
            [] => None,
            [one] => Some(json!(one)),
            texts => Some(json!(texts)),
        };
        put("slate", self.slate.as_ref().map(|name| json!(name)));
        put("version", self.of_version.as_ref().map(|version| json!(version)));
        put("lines", several(&self.lines));
        put("sections", (!self.section.is_empty()).then(|| json!(self.section)));
        put("filters", self.json_path.as_ref().map(|path| json!(path)));
        put("fields", (!self.field.is_empty()).then(|| json!(self.field)));
        put("max_bytes", self.max_bytes.map(|bytes| json!(bytes)));
        let mut body = json!({"target": self.target, "constraints": constraints});
        if let Some(format) = &self.format {
            body["format"] = json!(format);
        }
        body
    }
}

/// Runs it.
///
/// # Errors
/// When the tenant is nobody's, the call makes no sense, or the database is at fault.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let sent = args.body();
    let asked: Asked = serde_json::from_value(sent.clone())?;
    let database = Database::open_for_command(&args.database)?;
    let tenant = database.tenant(&args.tenant)?;
    let app = App::for_command(database.db.clone(), &args.outbound, &database.secrets(&args.secrets)?)?;
    let ctx = Ctx::local(tenant, now(), Uuid::now_v7());
    let runtime = tokio::runtime::Runtime::new()?;
    let found = runtime.block_on(runner::retrieve(&app, &ctx, asked, sent)).map_err(wrong);
    drop((app, runtime));
    database.close()?;
    let found = found?;
    let mut out = io::stdout().lock();
    match args.json || !out.is_terminal() {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?,
        false => show(&mut out, &found)?,
    }
    Ok(if found.contract.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// For people.
fn show(out: &mut impl Write, found: &Retrieval) -> io::Result<()> {
    let contract = &found.contract;
    match (&contract.failure, contract.retrieved.data.as_str()) {
        (Some(failure), _) => {
            writeln!(out, "nothing was retrieved: {} ({})", failure.detail, failure.reason)?;
            for path in &failure.alternatives {
                writeln!(out, "  near: {path}")?;
            }
        }
        (None, Some(text)) => writeln!(out, "{}", text.trim_end_matches('\n'))?,
        (None, None) => writeln!(out, "{:#}", contract.retrieved.data)?,
    }
    writeln!(out)?;
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<12} {value}");
    line("reference", contract.citation.reference.as_deref().unwrap_or("none"))?;
    line("version", contract.citation.version.as_deref().unwrap_or("none"))?;
    line("hash", contract.citation.hash.as_deref().unwrap_or("none"))?;
    line("source", &contract.provenance.reliability)?;
    line("confidence", &format!("{:.2}", contract.confidence))?;
    let sizes =
        format!("{} of {} bytes", contract.extraction.returned_size, contract.extraction.original_size);
    line("returned", &sizes)?;
    contract.assumptions.iter().try_for_each(|assumption| line("assumed", assumption))?;
    line("record", &found.provenance_id)
}
