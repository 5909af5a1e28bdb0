//! `slatebase seed` (REST contract, "Running it"): a directory or a manifest, loaded into a slate.
//!
//! [`plan::plan`] looks at either and tells the files to load, the slate's settings, and what cannot be loaded;
//! [`plan::SeedFile::load`] then reads one file, its bytes as they are and the metatags of its front matter. Neither
//! knows of the database; [`load`](mod@load) writes what they found. A bad file is a [`Problem`], never the end of the
//! rest.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::builder::FalseyValueParser;
use indicatif::{ProgressBar, ProgressStyle};

pub mod git;
pub mod load;
pub mod manifest;
pub mod plan;
pub mod walk;

use super::database::Database;
use super::{now, told};
use crate::config::DatabaseConfig;
use crate::ctx::TenantId;
use crate::db::Db;
use crate::error::{Code, Result};
use crate::tenants;
use crate::tenants::tenant::TenantName;
use load::{Summary, Target};

/// Load a directory of documents, or a manifest, into a slate.
///
/// Each file is stored under its path, byte for byte; the front matter of Markdown (YAML between ---, TOML between +++)
/// becomes its metatags. The tenant and the slate are made if they are not there. A slate.yaml in the directory gives
/// the slate's settings. Files that are there already write nothing, so this can run again and again, also while a
/// server runs. Metatags that the source named in an earlier run and names no more are taken away; those that were set
/// over the API stay. A bad file is reported with its line and the rest go on; the exit status is then 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase seed ./docs --tenant acme --slate Knowledge
  slatebase seed ./docs --tenant acme --slate Knowledge --prune --dry-run   what would be deleted?
  slatebase seed manifest.yaml --tenant acme                                the manifest may name the slate

slate.yaml, every member optional:
  description: What this slate is about
  authority: high                # low, medium or high
  volatile: false
  max_age_seconds: 86400
  retention_days: 30
  metatag_types: { owner: string, topics: \"string[]\", priority: number }
  language: english              # of searches

A manifest:
  slate: Knowledge
  files:
    - { path: notes/today.md, content: \"# Today\", metatags: { draft: true } }
    - { path: logo.png, from: images/logo.png }

In a Git repository a new version is named after the commit that is checked out, git:<short hash>, where its contents
are the commit's.")]
pub struct Args {
    /// The directory, or the manifest
    source: PathBuf,
    /// The tenant's name: 1 to 63 of a-z, 0-9 and -
    #[arg(long, env = "SLATEBASE_TENANT", value_name = "NAME")]
    tenant: String,
    /// The slate's name. Unset: the one that the manifest names
    #[arg(long, env = "SLATEBASE_SLATE", value_name = "NAME")]
    slate: Option<String>,
    /// Delete from the slate what the source does not have (any more)
    #[arg(long, env = "SLATEBASE_PRUNE", value_parser = FalseyValueParser::new())]
    prune: bool,
    /// Take away metatags that the source does not name, also those that were set over the API, on Markdown and where a
    /// manifest gives metatags
    #[arg(long, env = "SLATEBASE_REPLACE_METATAGS", value_parser = FalseyValueParser::new())]
    replace_metatags: bool,
    /// Write nothing; only tell what would be done
    #[arg(long, env = "SLATEBASE_DRY_RUN", value_parser = FalseyValueParser::new())]
    dry_run: bool,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it. The exit status is 1 if anything was a problem.
///
/// # Errors
/// What ends the whole: the source cannot be read, the database not reached.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = TenantName::parse(&args.tenant).map_err(told)?;
    let mut plan = plan::plan(&args.source)?;
    let Some(slate) = args.slate.clone().or_else(|| plan.slate.clone()) else {
        bail!("name the slate: --slate NAME");
    };
    let manifest = args.source.is_file();
    let prune = args.prune && (!manifest || plan.problems.is_empty());
    if args.prune && !prune {
        let why = "nothing is pruned, since the paths of the files above are not known";
        plan.problems.push(Problem::new(file_name(&args.source), None, why));
    }
    let folder = if manifest { args.source.parent() } else { Some(args.source.as_path()) };
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let commit = git::Commit::of(folder);
    let database = Database::open_for_command(&args.database)?;
    let tenant = tenant(&database.db, &name, args.dry_run).map_err(told)?;
    let mut console = Console::new(plan.files.len(), args.dry_run);
    let target = Target {
        tenant,
        slate,
        settings_file: if manifest { file_name(&args.source) } else { walk::SETTINGS_FILE.into() },
        prune,
        replace_metatags: args.replace_metatags,
        dry_run: args.dry_run,
    };
    let summary = load::load(&database.db, &target, &plan, commit.as_ref(), &mut console).map_err(told)?;
    console.bar.finish_and_clear();
    database.close()?;
    tell(&summary, &target, &name)?;
    Ok(if summary.problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tenant of this name, made when missing, unless that is a dry run.
///
/// # Errors
/// Those of the database.
pub fn tenant(db: &Db, name: &TenantName, dry_run: bool) -> Result<Option<TenantId>> {
    db.operator_blocking(|tx| match tenants::ops::get_tenant(tx, name.as_str()) {
        Err(error) if error.code == Code::NotFound && dry_run => Ok(None),
        Err(error) if error.code == Code::NotFound => {
            tenants::ops::create_tenant(tx, name, now()).map(|tenant| Some(tenant.id))
        }
        found => found.map(|tenant| Some(tenant.id)),
    })
}

fn tell(summary: &Summary, target: &Target, tenant: &TenantName) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let Summary { new, versions, updated, unchanged, pruned, problems, bare, nulls } = summary;
    if *bare > 0 {
        writeln!(out, "Markdown without front matter: {bare}")?;
    }
    if !nulls.is_empty() {
        let names: Vec<_> = nulls.iter().map(|(name, files)| format!("{name:?} in {files}")).collect();
        writeln!(out, "null metatags, which are not set: {}", names.join(", "))?;
    }
    if target.dry_run {
        write!(out, "dry run, nothing is written: ")?;
    }
    writeln!(
        out,
        "{} files loaded into slate {} of tenant {tenant}: {new} new, {versions} with a new version, {updated} with \
         other metatags or settings, {unchanged} unchanged; {pruned} pruned; {problems} problems",
        summary.loaded(),
        target.slate,
    )
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A bar on a terminal, plain lines elsewhere; both on standard error.
struct Console {
    bar: ProgressBar,
    total: usize,
    prunes: &'static str,
}

impl Console {
    fn new(total: usize, dry_run: bool) -> Console {
        let bar = if io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} files, {eta} left");
            ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        } else {
            ProgressBar::hidden()
        };
        Console { bar, total, prunes: if dry_run { "would prune" } else { "pruned" } }
    }

    fn line(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl load::Report for Console {
    fn problem(&mut self, problem: &Problem) {
        self.line(&format!("problem: {problem}"));
    }

    fn progress(&mut self, done: usize) {
        self.bar.set_position(done as u64);
        if self.bar.is_hidden() {
            eprintln!("{done} of {} files", self.total);
        }
    }

    fn pruned(&mut self, path: &str) {
        // As a problem's line: a name may hold anything.
        self.line(&Problem::new(path, None, self.prunes).to_string());
    }
}

/// One thing that was not loaded as it stands, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The path of the file in the slate, or the name of the manifest or settings file. What is not UTF-8 in it is
    /// replaced by U+FFFD.
    pub path: String,
    /// The line of that file, from 1, where one is to blame.
    pub line: Option<u32>,
    /// What is wrong, for a person to read.
    pub detail: String,
}

impl Problem {
    /// One thing of one file.
    pub fn new(path: impl Into<String>, line: Option<u32>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), line, detail: detail.into() }
    }
}

/// One line: `path:line: detail`. A name may hold anything, so control characters are escaped.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |f: &mut fmt::Formatter<'_>, text: &str| {
            text.chars().try_for_each(|character| match character.is_control() {
                true => write!(f, "{}", character.escape_default()),
                false => write!(f, "{character}"),
            })
        };
        escaped(f, &self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        escaped(f, &self.detail)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_harmless_line() {
        let problem = Problem::new("a/\u{1b}[2Jé\n.md", Some(3), "no\tgood");
        assert_eq!(problem.to_string(), "a/\\u{1b}[2Jé\\n.md:3: no\\tgood");
        assert_eq!(Problem::new("a.md", None, "bad").to_string(), "a.md: bad");
    }
}
