//! Moves batches between an archive and the database, on a thread that may block.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write as _};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{EntryLine, Summary};
use super::ops::{self, Described, Exported, Made, Scope};
use super::read::{self, Bounds, Ended, Entry, FolderEntry, Format, Thing};
use super::record::{self, End, FolderRecord};
use super::write::{self, Head};
use crate::ctx::Ctx;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::files;
use crate::files::ops::Written;
use crate::folders;
use crate::path::FolderPath;
use crate::slates::{self, NewSlate};

/// Entries that are written in one transaction at most.
const BATCH_ENTRIES: usize = 1000;
/// Bytes of contents past which a batch is written.
const BATCH_BYTES: usize = 8 << 20;
/// Bytes of large contents that are read from the database at once.
const PIECE: u64 = 8 << 20;

/// How to load an archive.
#[derive(Debug, Clone)]
pub struct Import {
    /// The slate's name.
    pub slate: String,
    /// The folder that its paths are from.
    pub folder: FolderPath,
    /// Whether the front matter of Markdown gives metatags, where the archive says nothing of them.
    pub front_matter: bool,
    /// How much of it is read.
    pub bounds: Bounds,
}

/// Loads an archive of `size` bytes, and tells `answer` of each entry, a batch at a time.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) for the slate. What is wrong with the archive is told by the answers.
pub fn import(
    db: &Db,
    ctx: &Ctx,
    import: &Import,
    source: impl Read + Seek + Send,
    size: u64,
    format: Format,
    answer: &mut dyn FnMut(Vec<EntryLine>),
) -> Result<Summary> {
    let types = db.tenant_blocking(ctx.tenant, |tx| slates::ops::get(tx, ctx, &import.slate))?.metatag_types;
    // One batch is written while the next is read.
    let (batches, next) = mpsc::sync_channel(0);
    let mut loading = Loading { db, ctx, import, types, answer, exported: None, summary: Summary::default() };
    thread::scope(|scope| {
        let reading = scope.spawn(move || read_batches(import, source, size, format, &batches));
        for batch in next {
            loading.batch(batch);
        }
        let ended = match reading.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        loading.end(ended);
    });
    Ok(loading.summary)
}

fn read_batches(
    import: &Import,
    source: impl Read + Seek,
    size: u64,
    format: Format,
    batches: &SyncSender<Vec<Entry>>,
) -> Result<(), Ended> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let ended = read::read(source, size, format, import.bounds, &import.folder, &mut |entry| {
        if let Ok(Thing::File(file)) = &entry.thing {
            bytes += file.contents.len();
        }
        batch.push(entry);
        if batch.len() >= BATCH_ENTRIES || bytes >= BATCH_BYTES {
            bytes = 0;
            // Fails only where the other side panicked, which ends all.
            let _ = batches.send(std::mem::take(&mut batch));
        }
    });
    let _ = batches.send(batch);
    ended
}

struct Loading<'a> {
    db: &'a Db,
    ctx: &'a Ctx,
    import: &'a Import,
    types: Map<String, Value>,
    answer: &'a mut dyn FnMut(Vec<EntryLine>),
    /// The settings of the slate that was exported, while they are being restored.
    exported: Option<NewSlate>,
    summary: Summary,
}

/// What waits for the answer of its batch.
enum Waiting {
    Failed(Error),
    Folder(FolderPath),
    File { bytes: u64, nulls: Vec<String>, warnings: Vec<String> },
}

impl Loading<'_> {
    fn batch(&mut self, batch: Vec<Entry>) {
        let mut waiting = Vec::with_capacity(batch.len());
        let mut writes = Vec::new();
        let mut folders: BTreeMap<FolderPath, Option<FolderRecord>> = BTreeMap::new();
        for Entry { number, path, thing } in batch {
            let line = EntryLine::new(number, Some(path));
            let thing = match thing {
                Err(error) => Waiting::Failed(error),
                Ok(Thing::Folder(folder)) => match self.settings(&folder) {
                    Err(error) => Waiting::Failed(error),
                    Ok(()) => {
                        let FolderEntry { path, record, .. } = folder;
                        let known = folders.entry(path.clone()).or_default();
                        *known = record.or(known.take());
                        Waiting::Folder(path)
                    }
                },
                Ok(Thing::File(file)) => match ops::describe(file, self.import.front_matter, &self.types) {
                    Err(error) => Waiting::Failed(error),
                    Ok(Described { write, nulls, warnings }) => {
                        let bytes = write.contents.len() as u64;
                        writes.push(write);
                        Waiting::File { bytes, nulls, warnings }
                    }
                },
            };
            waiting.push((line, thing));
        }
        // First the folders, so that what they keep from readers is kept from the beginning.
        let mut folders = self.folders(&folders);
        let (ctx, slate) = (self.ctx, &self.import.slate);
        let mut files = match writes.is_empty() {
            true => Ok(Vec::new()),
            false => self
                .db
                .tenant_blocking(ctx.tenant, |tx| files::ops::write_many(tx, ctx, slate, writes.clone())),
        }
        .map(Vec::into_iter);
        let lines = waiting
            .into_iter()
            .map(|(line, waited)| match waited {
                Waiting::Failed(error) => line.failed(&error),
                Waiting::Folder(path) => match &mut folders {
                    Err(error) => line.failed(error),
                    Ok(folders) => match folders.get(&path) {
                        Some(Ok(made)) => EntryLine { status: Some(status(*made)), ..line },
                        Some(Err(error)) => line.failed(error),
                        None => line.failed(&Error::not_found()),
                    },
                },
                Waiting::File { bytes, nulls, warnings } => match &mut files {
                    Err(error) => line.failed(error),
                    Ok(files) => {
                        let written = files.next().unwrap_or_else(|| Err(Error::not_found()));
                        self.file(EntryLine { null_metatags: nulls, warnings, ..line }, bytes, written)
                    }
                },
            })
            .collect();
        self.tell(lines);
    }

    /// Makes folders and sets them; tells of each whether it was made.
    fn folders(
        &self,
        folders: &BTreeMap<FolderPath, Option<FolderRecord>>,
    ) -> Result<BTreeMap<FolderPath, Result<bool>>> {
        if folders.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (ctx, slate) = (self.ctx, &self.import.slate);
        let Made { mut folders, to_set } =
            self.db.tenant_blocking(ctx.tenant, |tx| ops::make_folders(tx, ctx, slate, folders))?;
        for (path, settings) in to_set {
            let set =
                self.db.tenant_blocking(ctx.tenant, |tx| folders::ops::put(tx, ctx, slate, &path, &settings));
            if let Err(error) = set {
                folders.insert(path, Err(error));
            }
        }
        Ok(folders)
    }

    /// What an export says of the slate, at its beginning and at its end.
    fn settings(&mut self, folder: &FolderEntry) -> Result<()> {
        let (ctx, slate) = (self.ctx, &self.import.slate);
        if let Some(exported) = &folder.slate
            && self.import.folder.is_root()
        {
            let begun =
                self.db.tenant_blocking(ctx.tenant, |tx| ops::begin_settings(tx, ctx, slate, exported))?;
            self.exported = begun.then(|| exported.clone());
        }
        Ok(())
    }

    fn file(&mut self, line: EntryLine, bytes: u64, written: Result<Written>) -> EntryLine {
        match written {
            Err(error) => line.failed(&error),
            Ok(Written { head, created, changed }) => {
                let count = match (created, changed) {
                    (true, _) => &mut self.summary.new,
                    (false, true) => &mut self.summary.changed,
                    (false, false) => &mut self.summary.unchanged,
                };
                *count += 1;
                self.summary.bytes += bytes;
                EntryLine { status: Some(status(created)), version: Some(head.version), ..line }
            }
        }
    }

    fn tell(&mut self, lines: Vec<EntryLine>) {
        let count = |of: fn(&EntryLine) -> bool| lines.iter().filter(|line| of(line)).count() as u64;
        self.summary.failed += count(|line| line.error.is_some());
        self.summary.warned += count(|line| !line.warnings.is_empty());
        self.summary.folders += count(|line| line.status.is_some() && line.version.is_none());
        if !lines.is_empty() {
            (self.answer)(lines);
        }
    }

    fn end(&mut self, ended: Result<(), Ended>) {
        match ended {
            Err(Ended { entry, path, error }) => self.tell(vec![EntryLine::new(entry, path).failed(&error)]),
            Ok(()) => {
                self.summary.complete = true;
                // Types of metatags come last: files may be older than they are.
                if let Some(exported) = self.exported.take() {
                    let (ctx, slate) = (self.ctx, &self.import.slate);
                    let set =
                        self.db.tenant_blocking(ctx.tenant, |tx| slates::ops::put(tx, ctx, slate, &exported));
                    match set {
                        Ok(_) => self.summary.settings_restored = true,
                        Err(error) => self.tell(vec![EntryLine::new(1, Some("/".into())).failed(&error)]),
                    }
                }
            }
        }
    }
}

fn status(made: bool) -> u16 {
    if made { 201 } else { 200 }
}

/// Writes an export to `out`: first the folders, then the files, each in order of path. Files that are kept from readers
/// are counted and left out, unless the scope takes them in.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) for the slate or the folder; [`Code::Gone`](crate::error::Code::Gone)
/// where bytes were purged while they were being read; [`Code::Internal`](crate::error::Code::Internal) where `out` takes
/// no more.
pub fn export(db: &Db, ctx: &Ctx, scope: &Scope, out: impl io::Write) -> Result<End> {
    let (slate, folder) = db.tenant_blocking(ctx.tenant, |tx| ops::settings(tx, ctx, scope))?;
    let mut out = Out { tar: GzEncoder::new(out, Compression::default()), end: End::default() };
    let mut records = vec![(record::FOLDER, json(&folder)?)];
    if scope.folder.is_root() {
        records.push((record::SLATE, json(&slate)?));
    }
    out.folder("./", &records)?;
    let below = |path: &str| match scope.folder.as_str() {
        "" => path.to_owned(),
        folder => path[folder.len() + 1..].to_owned(),
    };
    let mut after = String::new();
    loop {
        let page = db.tenant_blocking(ctx.tenant, |tx| ops::folders(tx, ctx, scope, &after))?;
        for (path, folder) in &page {
            out.folder(&format!("{}/", below(path)), &[(record::FOLDER, json(folder)?)])?;
            out.end.folders += 1;
        }
        match page.into_iter().next_back() {
            Some((last, _)) => after = last,
            None => break,
        }
    }
    let mut after = String::new();
    loop {
        let page = db.tenant_blocking(ctx.tenant, |tx| ops::files(tx, ctx, scope, &after))?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.path);
        for file in &page {
            out.file(db, ctx, &below(&file.path), file)?;
            out.end.files += 1;
        }
    }
    out.end.left_out = db.tenant_blocking(ctx.tenant, |tx| ops::left_out(tx, ctx, scope))?;
    let end = out.end.clone();
    out.folder("./", &[(record::END, json(&end)?)])?;
    write::end(&mut out.tar).map_err(Error::internal)?;
    out.tar.finish().and_then(|mut out| out.flush()).map_err(Error::internal)?;
    Ok(end)
}

struct Out<W: io::Write> {
    tar: GzEncoder<W>,
    end: End,
}

impl<W: io::Write> Out<W> {
    fn folder(&mut self, path: &str, records: &[(&'static str, String)]) -> Result<()> {
        write::head(&mut self.tar, &Head { path, size: None, modified: 0, records }).map_err(Error::internal)
    }

    fn file(&mut self, db: &Db, ctx: &Ctx, path: &str, file: &Exported) -> Result<()> {
        let records = [(record::FILE, json(&file.record)?)];
        let modified = u64::try_from(file.modified.timestamp()).unwrap_or_default();
        let head = Head { path, size: Some(file.size), modified, records: &records };
        let mut begun = false;
        let mut put = |tar: &mut GzEncoder<W>, bytes: &[u8]| {
            if !std::mem::replace(&mut begun, true) {
                write::head(tar, &head)?;
            }
            tar.write_all(bytes)
        };
        match &file.contents {
            Some(contents) => put(&mut self.tar, contents).map_err(Error::internal)?,
            None => {
                for from in (0..file.size).step_by(PIECE as usize) {
                    let part = from..file.size.min(from + PIECE);
                    let bytes = db.tenant_blocking(ctx.tenant, |tx| {
                        files::read::bytes(tx, file.version.0, file.version.1, Some(part.clone()))
                    })?;
                    put(&mut self.tar, &bytes).map_err(Error::internal)?;
                }
            }
        }
        write::padding(&mut self.tar, file.size).map_err(Error::internal)
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(Error::internal)
}
