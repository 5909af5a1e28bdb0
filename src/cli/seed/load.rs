//! Writes what was planned into a slate, in batches.
//!
//! - Idempotent: contents and settings that are there already write nothing, so a second run writes nothing.
//! - A problem of one file is told to the caller and counted, and the rest go on. A metatag that is refused leaves its
//!   file's others; broken front matter leaves the metatags as they were. The contents are stored all the same.
//! - The source owns the metatags that it names, in the front matter of Markdown or in a manifest: they are set, whatever they
//!   are by now, and one that it named in a former run and names no more is taken away. All others were set through the API,
//!   and stay, unless the source is to replace all.
//! - A new version whose contents are those of the commit that is checked out is named by it. Contents that are there
//!   already keep the name that they came with, so a later commit makes no versions of unchanged files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use chrono::{DateTime, SubsecRound, Utc};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Problem;
use super::git::Commit;
use super::manifest::Settings;
use super::plan::{Document, Plan, SeedFile, Source};
use crate::cli::now;
use crate::ctx::{Ctx, TenantId};
use crate::db::{Db, Tx};
use crate::error::{Code, Error, Result};
use crate::files::ops::{MAX_CONTENTS, Tagging, Write, Written};
use crate::metatags::Tags;
use crate::path::{FilePath, FolderPath};
use crate::precondition::Preconditions;
use crate::slates::NewSlate;
use crate::{files, folders, slates};

/// The most files of a batch, which is one transaction.
const BATCH_FILES: usize = 1000;
/// The most bytes of a batch, unless one file alone has more.
const BATCH_BYTES: usize = 16 << 20;

/// Where and how to load.
#[derive(Debug, Clone)]
pub struct Target {
    /// Whose slate; `None` where a dry run found no such tenant, so that all would be new.
    pub tenant: Option<TenantId>,
    /// The slate's name; it is made when missing.
    pub slate: String,
    /// What is being loaded, as problems with the settings name it.
    pub settings_file: String,
    /// Whether files that the plan does not have are deleted.
    pub prune: bool,
    /// Whether no metatags stay but those of the source, on files of which it has something to say.
    pub replace_metatags: bool,
    /// Whether all is undone again, so that only the counts are left.
    pub dry_run: bool,
}

/// Hears of what happens.
pub trait Report {
    /// Something was not loaded as it stands.
    fn problem(&mut self, problem: &Problem);
    /// `done` of all files have been dealt with.
    fn progress(&mut self, done: usize);
    /// A file was deleted, or would be.
    fn pruned(&mut self, path: &str);
}

/// What came of it, as counts of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// That were not there before.
    pub new: usize,
    /// Whose contents changed.
    pub versions: usize,
    /// Whose metatags or settings changed, and nothing else.
    pub updated: usize,
    /// That were there already.
    pub unchanged: usize,
    /// That were deleted.
    pub pruned: usize,
    /// Problems, which a file can have several of.
    pub problems: usize,
    /// Markdown that has no front matter.
    pub bare: usize,
    /// In how many files a metatag of this name is null, and so was not set.
    pub nulls: BTreeMap<String, usize>,
}

impl Summary {
    /// Files whose contents are in the slate now.
    pub fn loaded(&self) -> usize {
        self.new + self.versions + self.updated + self.unchanged
    }
}

/// Loads a plan.
///
/// # Errors
/// What ends the whole: the database cannot be reached, say. What one file is at fault for is reported.
pub fn load(
    db: &Db,
    target: &Target,
    plan: &Plan,
    commit: Option<&Commit>,
    report: &mut dyn Report,
) -> Result<Summary> {
    let mut loader = Loader { db, target, commit, report, summary: Summary::default(), there: true };
    for problem in &plan.problems {
        loader.problem(problem);
    }
    let types = loader.slate(plan.settings.as_ref())?;
    let mut batch = Batch::default();
    for (done, file) in plan.files.iter().enumerate() {
        let Some((next, bytes)) = loader.read(file, &types) else { continue };
        if batch.files.len() == BATCH_FILES || (batch.bytes + bytes > BATCH_BYTES && !batch.files.is_empty())
        {
            loader.write(std::mem::take(&mut batch))?;
            loader.report.progress(done);
        }
        batch.bytes += bytes;
        batch.files.push(next);
    }
    loader.write(batch)?;
    loader.report.progress(plan.files.len());
    if target.prune {
        loader.prune(plan)?;
    }
    Ok(loader.summary)
}

#[derive(Default)]
struct Batch {
    files: Vec<Prepared>,
    bytes: usize,
}

struct Prepared {
    write: Write,
    /// What the commit calls these contents.
    committed: Option<String>,
}

struct Loader<'a> {
    db: &'a Db,
    target: &'a Target,
    commit: Option<&'a Commit>,
    report: &'a mut dyn Report,
    summary: Summary,
    /// Whether the slate exists; a dry run makes none.
    there: bool,
}

impl Loader<'_> {
    fn problem(&mut self, problem: &Problem) {
        self.summary.problems += 1;
        self.report.problem(problem);
    }

    /// A transaction, which a dry run takes back.
    fn transaction<T>(&self, mut work: impl FnMut(&mut Tx, &Ctx) -> Result<T>) -> Result<T> {
        let tenant = self.target.tenant.ok_or_else(Error::not_found)?;
        let ctx = Ctx::local(tenant, now(), Uuid::now_v7());
        let mut done = None;
        let result = self.db.tenant_blocking(tenant, |tx| {
            done = Some(work(tx, &ctx)?);
            // Any error takes a transaction back; of this one nobody hears.
            if self.target.dry_run { Err(Error::new(Code::PreconditionFailed, "a dry run")) } else { Ok(()) }
        });
        match (done, result) {
            (Some(done), Ok(())) => Ok(done),
            (Some(done), Err(error)) if error.code == Code::PreconditionFailed => Ok(done),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Err(Error::new(Code::Internal, "the transaction did nothing")),
        }
    }

    /// Makes or sets the slate, and tells which types it fixes.
    fn slate(&mut self, settings: Option<&Settings>) -> Result<Map<String, Value>> {
        let name = &self.target.slate;
        let settings = settings.cloned().unwrap_or_default();
        if self.target.tenant.is_none() {
            self.there = false;
            let types = settings.get("metatag_types").and_then(Value::as_object);
            return Ok(types.cloned().unwrap_or_default());
        }
        let put = |settings: Settings| {
            self.transaction(|tx, ctx| {
                let there = slates::ops::find(tx, ctx, name)?;
                let wanted = wanted(there.as_ref(), settings.clone())?;
                let (slate, _) = slates::ops::put(tx, ctx, name, &wanted)?;
                Ok((there.is_some(), slate.metatag_types))
            })
        };
        let (there, types) = match put(settings) {
            Err(error)
                if error.code == Code::Invalid && error.errors.iter().any(|e| !e.pointer.is_empty()) =>
            {
                let problem =
                    Problem::new(&self.target.settings_file, None, format!("settings: {}", error.detail));
                let without = put(Settings::new())?;
                self.problem(&problem);
                without
            }
            result => result?,
        };
        self.there = there || !self.target.dry_run;
        Ok(types)
    }

    /// Reads a file and checks what it says of itself; tells the bytes too.
    fn read(&mut self, file: &SeedFile, types: &Map<String, Value>) -> Option<(Prepared, usize)> {
        let document = match file.load(MAX_CONTENTS as u64) {
            Ok(document) => document,
            Err(problem) => {
                self.problem(&problem);
                return None;
            }
        };
        for name in &document.nulls {
            *self.summary.nulls.entry(name.clone()).or_default() += 1;
        }
        if let Some(problem) = &document.problem {
            self.problem(problem);
        }
        self.summary.bare += usize::from(document.bare);
        let told = file.is_markdown() && document.problem.is_none() || !file.metatags.is_empty();
        let (tagging, set) = match self.target.replace_metatags {
            true => (Tagging::OfSourceAlone, told),
            // What cannot be read says nothing; a file about which nothing is said may have had something said before.
            false => (Tagging::OfSource, document.problem.is_none() || told),
        };
        let tags = set.then(|| self.tags(file, &document, types));
        let on_disk = match &file.source {
            Source::Disk(at) => Some(at),
            Source::Text(_) => None,
        };
        let committed = match (on_disk, self.commit) {
            (Some(at), Some(commit)) => commit.version_of(at, &document.contents).map(String::from),
            _ => None,
        };
        let bytes = document.contents.len();
        let write = Write {
            media_type: file.media_type.clone(),
            tags,
            tagging,
            authority: file.authority,
            sensitive: file.sensitive,
            source_modified_at: file.source_modified_at.or_else(|| on_disk.and_then(|at| modified_at(at))),
            source_version: file.source_version.clone(),
            ..Write::new(file.path.clone(), document.contents)
        };
        Some((Prepared { write, committed }, bytes))
    }

    /// The metatags that can be set. What is wrong with the others is reported.
    fn tags(&mut self, file: &SeedFile, document: &Document, types: &Map<String, Value>) -> Tags {
        let (tags, wrong) = Tags::settable(document.metatags.clone(), types);
        for (name, detail) in wrong {
            let (line, what) = match &name {
                Some(name) => (document.line_of(name), format!("the metatag {name:?} is not set")),
                None => (None, "none of the metatags is set".into()),
            };
            self.problem(&Problem::new(file.path.as_str(), line, format!("{what}: {detail}")));
        }
        tags
    }

    fn write(&mut self, batch: Batch) -> Result<()> {
        if !self.there {
            self.summary.new += batch.files.len();
            return Ok(());
        }
        let paths: Vec<&FilePath> = batch.files.iter().map(|prepared| &prepared.write.path).collect();
        let (before, answers) = self.transaction(|tx, ctx| {
            let before = files::ops::heads(tx, ctx, &self.target.slate, &paths)?;
            let writes = batch.files.iter().map(|Prepared { write, committed }| {
                let mut write = write.clone();
                let same = |sha256: &[u8]| *sha256 == Sha256::digest(&write.contents)[..];
                if write.source_version.is_none()
                    && before.get(write.path.as_str()).is_none_or(|head| !same(&head.sha256))
                {
                    write.source_version.clone_from(committed);
                }
                write
            });
            let answers = files::ops::write_many(tx, ctx, &self.target.slate, writes.collect())?;
            Ok((before, answers))
        })?;
        for (path, answer) in paths.into_iter().zip(answers) {
            match answer {
                Ok(Written { created: true, .. }) => self.summary.new += 1,
                Ok(Written { changed: false, .. }) => self.summary.unchanged += 1,
                Ok(Written { head, .. }) => {
                    let version = before.get(path.as_str()).map(|head| head.version);
                    match version == Some(head.version) {
                        true => self.summary.updated += 1,
                        false => self.summary.versions += 1,
                    }
                }
                Err(error) => self.problem(&Problem::new(path.as_str(), None, error.detail)),
            }
        }
        Ok(())
    }

    /// Deletes what the slate has and the plan has not, and the folders that this leaves empty. What could not be read
    /// is not gone, so it stays.
    fn prune(&mut self, plan: &Plan) -> Result<()> {
        if !self.there {
            return Ok(());
        }
        let kept: HashSet<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
        let unread = |path: &str| {
            plan.problems.iter().any(|problem| {
                let rest = path.strip_prefix(problem.path.as_str());
                rest.is_some_and(|rest| problem.path.is_empty() || rest.is_empty() || rest.starts_with('/'))
            })
        };
        let mut after: Option<FilePath> = None;
        let mut emptied = BTreeSet::new();
        loop {
            let slate = &self.target.slate;
            let (page, gone) = self.transaction(|tx, ctx| {
                let page = files::ops::paths(tx, ctx, slate, after.as_ref(), BATCH_FILES as i64)?;
                let gone: Vec<FilePath> = page
                    .iter()
                    .filter(|at| !kept.contains(at.as_str()) && !unread(at.as_str()))
                    .cloned()
                    .collect();
                for path in &gone {
                    files::ops::delete(tx, ctx, slate, path, false, &Preconditions::default())?;
                }
                Ok((page, gone))
            })?;
            for path in &gone {
                self.summary.pruned += 1;
                self.report.pruned(path.as_str());
                emptied.extend(path.ancestors().filter(|folder| !folder.is_root()));
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        let still: HashSet<FolderPath> = plan.files.iter().flat_map(|file| file.path.ancestors()).collect();
        // Backwards, what lies in a folder comes before the folder.
        for folder in emptied.iter().rev().filter(|folder| !still.contains(folder)) {
            let deleted = self.transaction(|tx, ctx| {
                folders::ops::delete(tx, ctx, &self.target.slate, folder, false, false)
            });
            match deleted {
                Err(error) if matches!(error.code, Code::FolderNotEmpty | Code::NotFound) => {}
                other => other?,
            }
        }
        Ok(())
    }
}

/// The settings that the slate has, or the default ones, under those that are given.
fn wanted(there: Option<&slates::Slate>, given: Settings) -> Result<NewSlate> {
    let mut wanted = Map::new();
    if let Some(slate) = there {
        let has = serde_json::to_value(slate.settings()).map_err(Error::internal)?;
        wanted.extend(has.as_object().cloned().unwrap_or_default());
    }
    wanted.extend(given);
    serde_path_to_error::deserialize(Value::Object(wanted))
        .map_err(|error| Error::invalid_at(format!("/{}", error.path()), error.inner().to_string()))
}

fn modified_at(file: &Path) -> Option<DateTime<Utc>> {
    let modified = fs::metadata(file).ok()?.modified().ok()?;
    Some(DateTime::<Utc>::from(modified).trunc_subsecs(6))
}
