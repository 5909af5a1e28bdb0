//! `slatebase import`: an archive, loaded into a slate.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::FalseyValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use uuid::Uuid;

use super::database::Database;
use super::seed::{self, Problem};
use super::{now, told};
use crate::archives::answer::EntryLine;
use crate::archives::read::{Bounds, Format};
use crate::archives::runner::{self, Import};
use crate::config::DatabaseConfig;
use crate::ctx::Ctx;
use crate::files::ops::MAX_CONTENTS;
use crate::path::FolderPath;
use crate::slates::{self, NewSlate};
use crate::tenants::tenant::TenantName;

/// Load an archive, a .tar.gz, .tar or .zip, into a slate.
///
/// What `slatebase export` made is restored with metatags, settings and empty folders. The tenant and the slate are made
/// if they are not there. A bad entry is reported and the rest go on; the exit status is then 1. The same bytes write
/// nothing, so a load that was interrupted is resumed by running it again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase import docs.tar.gz --tenant acme --slate Knowledge --front-matter
  slatebase import backup.tar.gz --tenant acme --slate Restored
  slatebase import more.zip --tenant acme --slate Knowledge --folder more")]
pub struct Args {
    /// The archive
    archive: PathBuf,
    /// The tenant's name
    #[arg(long, env = "SLATEBASE_TENANT", value_name = "NAME")]
    tenant: String,
    /// The slate's name
    #[arg(long, env = "SLATEBASE_SLATE", value_name = "NAME")]
    slate: String,
    /// The folder that the archive's paths are from
    #[arg(long, env = "SLATEBASE_FOLDER", default_value = "", value_name = "PATH")]
    folder: String,
    /// Read the front matter of Markdown as metatags, where the archive is no export
    #[arg(long, env = "SLATEBASE_FRONT_MATTER", value_parser = FalseyValueParser::new())]
    front_matter: bool,
    /// Bytes that the archive may unpack to; never more than 500 times its own size, past 64 MiB
    #[arg(long, env = "SLATEBASE_MAX_IMPORT_UNPACKED_BYTES", default_value_t = 1 << 40, value_name = "BYTES")]
    max_unpacked_bytes: u64,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it. The exit status is 1 if anything was a problem.
///
/// # Errors
/// What ends the whole: the archive cannot be read, the database not reached.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let name = TenantName::parse(&args.tenant).map_err(told)?;
    let folder = FolderPath::parse(&args.folder).context("--folder")?;
    let shown = args.archive.display();
    let mut file = File::open(&args.archive).with_context(|| shown.to_string())?;
    let size = file.metadata()?.len();
    let mut start = Vec::new();
    (&mut file).take(512).read_to_end(&mut start).with_context(|| shown.to_string())?;
    file.rewind()?;
    let format = Format::detect(&start).with_context(|| format!("{shown} is no .tar.gz, .tar or .zip"))?;
    let database = Database::open_for_command(&args.database)?;
    let tenant =
        seed::tenant(&database.db, &name, false).map_err(told)?.context("there is no such tenant")?;
    let ctx = Ctx::local(tenant, now(), Uuid::now_v7());
    let made = database.db.tenant_blocking(tenant, |tx| {
        if slates::ops::find(tx, &ctx, &args.slate)?.is_none() {
            slates::ops::put(tx, &ctx, &args.slate, &NewSlate::default())?;
        }
        Ok(())
    });
    made.map_err(told)?;
    let bounds = Bounds { unpacked: args.max_unpacked_bytes, entries: u64::MAX, file: MAX_CONTENTS as u64 };
    let import = Import { slate: args.slate, folder, front_matter: args.front_matter, bounds };
    let bar = bar(size);
    let mut done = 0;
    let mut answer = |lines: Vec<EntryLine>| {
        done += lines.len();
        for line in lines {
            let path = line.path.unwrap_or_else(|| format!("entry {}", line.entry));
            let details = line.error.iter().map(|error| error.detail().to_owned()).chain(line.warnings);
            for detail in details {
                bar.suspend(|| eprintln!("problem: {}", Problem::new(&*path, None, detail)));
            }
        }
        match bar.is_hidden() {
            true => eprintln!("{done} entries"),
            false => bar.set_message(format!("{done} entries")),
        }
    };
    let source = bar.wrap_read(file);
    let end = runner::import(&database.db, &ctx, &import, source, size, format, &mut answer).map_err(told)?;
    bar.finish_and_clear();
    database.close()?;
    writeln!(
        io::stdout(),
        "{} files ({} bytes) loaded into slate {} of tenant {name}: {} new, {} changed, {} unchanged; {} folders; {} \
         entries not loaded; {} with problems of their front matter{}{}",
        end.new + end.changed + end.unchanged,
        end.bytes,
        import.slate,
        end.new,
        end.changed,
        end.unchanged,
        end.folders,
        end.failed,
        end.warned,
        if end.settings_restored { "; settings restored" } else { "" },
        if end.complete { "" } else { "; the archive was not read to its end" },
    )?;
    Ok(if end.failed + end.warned == 0 && end.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A bar over the bytes of the archive; hidden where nobody looks.
fn bar(size: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {bytes} of {total_bytes}, {msg}, {eta} left");
    ProgressBar::new(size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
