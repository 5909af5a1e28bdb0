//! `slatebase openapi`: the document that describes the API.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

/// Print the OpenAPI document, or write it to a file.
///
/// It is the document that a server gives at /openapi.json, derived from the code. No database is needed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase openapi | less
  slatebase openapi --write openapi/openapi.json        renew the committed document")]
pub struct Args {
    /// Where to write it, in place of printing it
    #[arg(long, env = "SLATEBASE_OPENAPI_WRITE", value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// When the file or standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let document = crate::http::openapi::text();
    match &args.write {
        Some(file) => {
            std::fs::write(file, document).with_context(|| format!("cannot write {}", file.display()))?
        }
        None => std::io::stdout().write_all(document.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
