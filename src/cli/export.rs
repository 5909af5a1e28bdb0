//! `slatebase export`: a slate as an archive.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::builder::FalseyValueParser;
use uuid::Uuid;

use super::database::Database;
use super::{now, told};
use crate::archives::ops::Scope;
use crate::archives::runner;
use crate::config::DatabaseConfig;
use crate::ctx::Ctx;
use crate::path::FolderPath;

/// Export a slate, or a folder of it, as a .tar.gz.
///
/// Any program unpacks it, and `slatebase import` restores it exactly into an empty slate: bytes, metatags with their types,
/// authority, sensitive marks, media types, what the source says of itself, folders, and the slate's settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase export --tenant acme --slate Knowledge --output knowledge.tar.gz
  slatebase export --tenant acme --slate Knowledge --hidden > all.tar.gz
  slatebase export --tenant acme --slate Knowledge --folder docs | tar tz")]
pub struct Args {
    /// The tenant's name
    #[arg(long, env = "SLATEBASE_TENANT", value_name = "NAME")]
    tenant: String,
    /// The slate's name
    #[arg(long, env = "SLATEBASE_SLATE", value_name = "NAME")]
    slate: String,
    /// The folder; paths in the archive are from there
    #[arg(long, env = "SLATEBASE_FOLDER", default_value = "", value_name = "PATH")]
    folder: String,
    /// What is sensitive or denied too
    #[arg(long, env = "SLATEBASE_HIDDEN", value_parser = FalseyValueParser::new())]
    hidden: bool,
    /// The file to write, which comes into being when it is whole. Unset: standard output
    #[arg(long, short, env = "SLATEBASE_OUTPUT", value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it.
///
/// # Errors
/// When there is no such slate, the database is at fault, or the archive cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let folder = FolderPath::parse(&args.folder).context("--folder")?;
    if args.output.is_none() && io::stdout().is_terminal() {
        bail!("name a file, --output FILE, or send the archive somewhere else than to a terminal");
    }
    let database = Database::open_for_command(&args.database)?;
    let tenant = database.tenant(&args.tenant)?;
    let ctx = Ctx::local(tenant, now(), Uuid::now_v7());
    let scope = Scope { slate: args.slate, folder, hidden: args.hidden };
    let end = match &args.output {
        None => {
            runner::export(&database.db, &ctx, &scope, BufWriter::new(io::stdout().lock())).map_err(told)?
        }
        Some(output) => {
            let mut part = output.clone().into_os_string();
            part.push(".part");
            let part = PathBuf::from(part);
            let file = File::create(&part).with_context(|| part.display().to_string())?;
            let exported = runner::export(&database.db, &ctx, &scope, BufWriter::new(&file)).map_err(told);
            let end = exported.inspect_err(|_| drop(std::fs::remove_file(&part)))?;
            file.sync_all()?;
            std::fs::rename(&part, output).with_context(|| output.display().to_string())?;
            end
        }
    };
    database.close()?;
    let left_out = match end.left_out {
        0 => String::new(),
        count => format!("; {count} sensitive or denied files are left out, which --hidden takes in"),
    };
    writeln!(io::stderr(), "{} files and {} folders exported{left_out}", end.files, end.folders)?;
    Ok(ExitCode::SUCCESS)
}
