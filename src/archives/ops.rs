//! What is done with archives, a transaction at a time.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Datelike, SubsecRound, Utc};
use serde_json::{Map, Value};

use super::read::FileEntry;
use super::record::{FileRecord, FolderRecord};
use super::store::{self, FileRow, FolderRow, Part};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, FieldError, Result};
use crate::files::head::media_type_of;
use crate::files::ops::Write;
use crate::folders::ops::NewSettings;
use crate::metatags::{Tags, front_matter};
use crate::path::FolderPath;
use crate::slates::{self, NewSlate};
use crate::{files, folders};

/// Contents up to which they come with their page.
const LARGE: i64 = 2 << 20;
/// Bytes of contents of a page.
const PAGE_BYTES: i64 = 8 << 20;
/// Files and folders of a page.
const PAGE: i64 = 1000;

/// Looks for the slate that an archive is to be loaded into.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
pub fn check(tx: &mut Tx, ctx: &Ctx, slate: &str) -> Result<()> {
    slates::ops::get(tx, ctx, slate).map(drop)
}

/// A file to load, and what could not be understood of it.
#[derive(Debug)]
pub struct Described {
    /// What to write.
    pub write: Write,
    /// The metatags that its front matter gives as null.
    pub nulls: Vec<String>,
    /// What of its front matter could not be read or set.
    pub warnings: Vec<String>,
}

/// What an archive says of a file, as it is to be written. `types` are those that the slate allows; `reading` says whether
/// the front matter of Markdown gives metatags, where there is no record of them.
///
/// # Errors
/// [`Code::Invalid`](crate::error::Code::Invalid) for a record that says what cannot be.
pub fn describe(entry: FileEntry, reading: bool, types: &Map<String, Value>) -> Result<Described> {
    let FileEntry { path, contents, record, modified } = entry;
    let mut described =
        Described { write: Write::new(path, contents), nulls: Vec::new(), warnings: Vec::new() };
    let write = &mut described.write;
    if let Some(record) = record {
        let FileRecord { media_type, authority, sensitive, source_modified_at, source_version, metatags } =
            record;
        if source_modified_at.is_some_and(|time| !(0..=9999).contains(&time.year())) {
            return Err(Error::invalid_at("/source_modified_at", "has a year of four digits"));
        }
        let (tags, _) = Tags::parse(metatags, "/metatags").map_err(Error::invalid)?;
        write.media_type = Some(media_type);
        (write.authority, write.sensitive) = (authority, Some(sensitive));
        write.source_modified_at = source_modified_at.map(|time| time.trunc_subsecs(6));
        (write.source_version, write.tags) = (source_version, Some(tags));
        return Ok(described);
    }
    write.source_modified_at = modified.filter(|time| (0..=9999).contains(&time.year()));
    if reading && media_type_of(write.path.name().as_str()) == "text/markdown" {
        match front_matter::read(&write.contents) {
            Err(error) => described.warnings.push(error.to_string()),
            Ok(found) => {
                let found = found.unwrap_or_default();
                let (tags, wrong) = Tags::settable(found.metatags.clone(), types);
                described.warnings.extend(wrong.into_iter().map(|(name, detail)| match name {
                    Some(name) => {
                        let line = found.line_of(&name);
                        format!("line {line}: the metatag {name:?} is not set: {detail}")
                    }
                    None => format!("none of the metatags is set: {detail}"),
                }));
                (write.tags, described.nulls) = (Some(tags), found.nulls);
            }
        }
    }
    Ok(described)
}

/// What became of folders.
#[derive(Debug, Default)]
pub struct Made {
    /// Whether each was made.
    pub folders: BTreeMap<FolderPath, Result<bool>>,
    /// Those that are to be set otherwise than they are.
    pub to_set: Vec<(FolderPath, NewSettings)>,
}

/// Makes folders.
///
/// # Errors
/// What concerns all of them.
pub fn make_folders(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    folders: &BTreeMap<FolderPath, Option<FolderRecord>>,
) -> Result<Made> {
    let slate = slates::ops::get_to_write(tx, ctx, slate)?;
    let paths: BTreeSet<FolderPath> = folders.keys().cloned().collect();
    let ensured = folders::ops::ensure(tx, &slate, &paths, ctx.now)?;
    let mut made = Made::default();
    for (path, record) in folders {
        let found = ensured.folder(path);
        if let (Ok(folder), Some(FolderRecord { authority, sensitive })) = (&found, record)
            && (folder.authority != *authority || folder.sensitive != *sensitive)
        {
            let settings = NewSettings { authority: *authority, sensitive: *sensitive };
            made.to_set.push((path.clone(), settings));
        }
        made.folders.insert(path.clone(), found.map(|folder| folder.created_at == ctx.now));
    }
    Ok(made)
}

/// Gives a slate that has no files the settings of the one that was exported, but for the types of metatags: its files
/// may be older than those. Tells whether it did, or had when it was interrupted.
///
/// # Errors
/// [`Code::Invalid`](crate::error::Code::Invalid) where they cannot be.
pub fn begin_settings(tx: &mut Tx, ctx: &Ctx, slate: &str, exported: &NewSlate) -> Result<bool> {
    let bare = NewSlate { metatag_types: BTreeMap::new(), ..exported.clone() };
    let settings = slates::ops::get(tx, ctx, slate)?.settings();
    if settings == *exported || settings == bare {
        return Ok(true);
    }
    if !files::ops::paths(tx, ctx, slate, None, 1)?.is_empty() {
        return Ok(false);
    }
    slates::ops::put(tx, ctx, slate, &bare)?;
    Ok(true)
}

/// A file of an export.
#[derive(Debug)]
pub struct Exported {
    /// Path from the slate's root.
    pub path: String,
    /// Bytes of the contents.
    pub size: u64,
    /// The file's number, and its version: what contents that are read in parts are parts of.
    pub version: (i64, i64),
    /// The contents, unless they are large: these are read in parts.
    pub contents: Option<Vec<u8>>,
    /// When it or its source last changed.
    pub modified: DateTime<Utc>,
    /// All else.
    pub record: FileRecord,
}

/// What is exported.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The slate's name.
    pub slate: String,
    /// The folder; the root is the whole slate.
    pub folder: FolderPath,
    /// What is kept from readers too.
    pub hidden: bool,
}

fn part<T>(
    tx: &mut Tx,
    ctx: &Ctx,
    scope: &Scope,
    read: impl FnOnce(&mut Tx, &Part) -> Result<T>,
) -> Result<T> {
    let slate = slates::ops::get(tx, ctx, &scope.slate)?;
    let (from, before) = match scope.folder.as_str() {
        "" => (String::new(), None),
        // '0' is the character after '/'.
        path => (format!("{path}/"), Some(format!("{path}0"))),
    };
    let part = Part { slate: slate.id, from: &from, before: before.as_deref(), hidden: scope.hidden };
    read(tx, &part)
}

/// The settings of the slate and of the folder to export.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) where there is none, or it is kept from the reader.
pub fn settings(tx: &mut Tx, ctx: &Ctx, scope: &Scope) -> Result<(NewSlate, FolderRecord)> {
    let slate = slates::ops::get(tx, ctx, &scope.slate)?;
    let folder = store::folder(tx, slate.id, scope.folder.as_str(), scope.hidden)?;
    Ok((slate.settings(), folder.ok_or_else(Error::not_found)?.into_record().1))
}

/// The next folders to export, by path.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when the slate is gone.
pub fn folders(tx: &mut Tx, ctx: &Ctx, scope: &Scope, after: &str) -> Result<Vec<(String, FolderRecord)>> {
    part(tx, ctx, scope, |tx, part| {
        let rows = store::folders(tx, part, after, PAGE)?;
        Ok(rows.into_iter().map(FolderRow::into_record).collect())
    })
}

/// The next files to export, by path.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when the slate is gone.
pub fn files(tx: &mut Tx, ctx: &Ctx, scope: &Scope, after: &str) -> Result<Vec<Exported>> {
    part(tx, ctx, scope, |tx, part| {
        store::files(tx, part, after, PAGE, PAGE_BYTES, LARGE)?.into_iter().map(exported).collect()
    })
}

/// How many files an export leaves out, since they are kept from readers.
///
/// # Errors
/// Those of the database.
pub fn left_out(tx: &mut Tx, ctx: &Ctx, scope: &Scope) -> Result<u64> {
    if scope.hidden {
        return Ok(0);
    }
    part(tx, ctx, scope, |tx, part| Ok(store::hidden_files(tx, part)?.unsigned_abs()))
}

impl FolderRow {
    fn into_record(self) -> (String, FolderRecord) {
        let authority = self.authority.as_deref().and_then(Authority::from_word);
        (self.path, FolderRecord { authority, sensitive: self.sensitive })
    }
}

fn exported(row: FileRow) -> Result<Exported> {
    let Value::Object(metatags) = row.tags else {
        return Err(FieldError::new("", "the metatags of a file are no object").into());
    };
    Ok(Exported {
        path: row.path,
        size: row.size.unsigned_abs(),
        version: (row.file_id, row.version),
        contents: row.data,
        modified: row.source_modified_at.unwrap_or(row.updated_at),
        record: FileRecord {
            media_type: row.media_type,
            authority: row.authority.as_deref().and_then(Authority::from_word),
            sensitive: row.sensitive,
            source_modified_at: row.source_modified_at,
            source_version: row.source_version,
            metatags,
        },
    })
}
