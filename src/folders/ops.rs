//! What is done with folders.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use serde::Deserialize;
use utoipa::ToSchema;

use super::folder::Folder;
use super::store::{self, FolderRow, NewFolder, Tree};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::item::IndexEntry;
use crate::path::{FolderPath, MAX_LEVELS, MAX_PATH, has_spellings};
use crate::precondition::Preconditions;
use crate::slates::{self, Slate};
use crate::{metatags, passages};

/// The settings of a folder; a PUT gives all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = NewFolder)]
#[serde(deny_unknown_fields, default)]
pub struct NewSettings {
    /// Of all below it that say nothing else.
    pub authority: Option<Authority>,
    /// Whether all below it is kept from every reader.
    pub sensitive: bool,
}

impl From<FolderRow> for Folder {
    fn from(row: FolderRow) -> Folder {
        Folder {
            id: row.id,
            path: row.path,
            authority: row.authority.as_deref().and_then(Authority::from_word),
            sensitive: row.sensitive,
            hidden: row.hidden,
            created_at: row.created_at,
        }
    }
}

/// The folder at `path` as a reader may find it: never a hidden one; by another spelling of the same characters where
/// there is none of these very bytes (retrieval semantics §2.3).
///
/// # Errors
/// Those of the database.
pub fn find(tx: &mut Tx, slate: &Slate, path: &FolderPath) -> Result<Option<Folder>> {
    let row = look(tx, slate, path)?;
    Ok(row.filter(|row| !row.hidden).map(Folder::from))
}

/// Hidden or not.
fn look(tx: &mut Tx, slate: &Slate, path: &FolderPath) -> Result<Option<FolderRow>> {
    match store::find(tx, slate.id, path.as_str())? {
        None if has_spellings(path.as_str()) => store::find_by_nfc(tx, slate.id, path.as_str()),
        row => Ok(row),
    }
}

/// The same, where it must be.
///
/// # Errors
/// [`Code::NotFound`] when it is not, or is hidden.
pub fn get(tx: &mut Tx, slate: &Slate, path: &FolderPath) -> Result<Folder> {
    find(tx, slate, path)?.ok_or_else(Error::not_found)
}

/// Files up to which the size of a folder is the exact sum of all below it.
pub const EXACT_FILES: i64 = 10_000;

/// What lies directly in a folder and comes after `after`, in the byte order of what an index prints, at most `limit`.
/// Hidden files and folders are not in it.
///
/// # Errors
/// Those of the database.
pub fn index(
    tx: &mut Tx,
    slate_id: i64,
    folder_id: i64,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<IndexEntry>> {
    let rows = store::index(tx, slate_id, folder_id, after, limit, EXACT_FILES)?;
    Ok(rows.into_iter().map(|row| IndexEntry { name: row.name, size: row.size }).collect())
}

/// The same of the folder at `path`, which is found with it: the folder's path, and the page.
///
/// # Errors
/// [`Code::NotFound`] for the slate or the folder.
pub fn index_at(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    path: &FolderPath,
    after: Option<&str>,
    limit: i64,
) -> Result<(String, Vec<IndexEntry>)> {
    ctx.slate(slate)?;
    let mut found = None;
    // No stored name holds a NUL, and a Postgres text cannot.
    if !slate.contains('\0') {
        found = store::index_at(tx, slate, path.as_str(), after, limit, EXACT_FILES)?;
    }
    if let Some((path, rows)) = found {
        return Ok((
            path,
            rows.into_iter().map(|row| IndexEntry { name: row.name, size: row.size }).collect(),
        ));
    }
    let slate = slates::ops::get(tx, ctx, slate)?;
    let folder = get(tx, &slate, path)?;
    let entries = index(tx, slate.id, folder.id, after, limit)?;
    Ok((folder.path, entries))
}

/// How Postgres makes a page of [`index`]: the JSON of `explain (analyze, buffers)`.
///
/// # Errors
/// Those of the database.
pub fn explain_index(
    tx: &mut Tx,
    slate_id: i64,
    folder_id: i64,
    after: Option<&str>,
    limit: i64,
) -> Result<serde_json::Value> {
    let plans = store::explain_index(tx, slate_id, folder_id, after, limit, EXACT_FILES)?;
    Ok(plans.into_iter().next().unwrap_or_default())
}

/// What became of the folders that files are to lie in.
#[derive(Debug, Default)]
pub struct Ensured {
    /// Those that are there now, by path, and held until the transaction ends.
    folders: HashMap<String, Folder>,
    /// Those that cannot be, and why.
    refused: HashMap<String, &'static str>,
}

impl Ensured {
    /// The folder at `path`.
    ///
    /// # Errors
    /// [`Code::NameConflict`] when it cannot be.
    pub fn folder(&self, path: &FolderPath) -> Result<&Folder> {
        self.folders.get(path.as_str()).ok_or_else(|| {
            let why = self.refused.get(path.as_str()).copied().unwrap_or(IS_A_FILE);
            Error::new(Code::NameConflict, why)
        })
    }
}

const IS_A_FILE: &str = "a file has the name of a folder on the path";
const MISSPELT: &str = "a folder's name on the path exists, and differs only in Unicode normal form";

/// Makes these folders and all above them, where they are not there yet.
///
/// # Errors
/// Those of the database; a folder that cannot be is no error before [`Ensured::folder`] is asked for it.
pub fn ensure(
    tx: &mut Tx,
    slate: &Slate,
    paths: &BTreeSet<FolderPath>,
    now: DateTime<Utc>,
) -> Result<Ensured> {
    let mut all: BTreeSet<FolderPath> = BTreeSet::from([FolderPath::root()]);
    for path in paths {
        all.extend(path.ancestors());
        all.insert(path.clone());
    }
    let names: Vec<&str> = all.iter().map(FolderPath::as_str).collect();
    let there = store::find_many(tx, slate.id, &names, false)?;
    let there: HashMap<&str, i64> = there.iter().map(|row| (row.path.as_str(), row.id)).collect();
    if there.len() < all.len() {
        // Alone from the first: two makers that each hold a parent, and only then want it alone, would wait for each other.
        let missing = all.iter().filter(|path| !there.contains_key(path.as_str()));
        let parents: BTreeSet<i64> =
            missing.filter_map(|path| there.get(path.parent()?.as_str()).copied()).collect();
        store::lock(tx, &parents.into_iter().collect::<Vec<_>>())?;
    }
    let mut ensured = Ensured::default();
    let rows = store::find_many(tx, slate.id, &names, true)?;
    ensured.folders.extend(rows.into_iter().map(|row| (row.path.clone(), row.into())));
    if ensured.folders.len() == all.len() {
        return Ok(ensured);
    }
    let mut missing: BTreeMap<usize, Vec<&FolderPath>> = BTreeMap::new();
    for path in all.iter().filter(|path| !ensured.folders.contains_key(path.as_str())) {
        missing.entry(path.as_str().split('/').count()).or_default().push(path);
    }
    for level in missing.into_values() {
        make_level(tx, slate, &level, &mut ensured, now)?;
    }
    Ok(ensured)
}

/// Makes folders of one depth, whose parents have been dealt with.
fn make_level(
    tx: &mut Tx,
    slate: &Slate,
    level: &[&FolderPath],
    ensured: &mut Ensured,
    now: DateTime<Utc>,
) -> Result<()> {
    let mut parents = BTreeSet::new();
    let mut wanted = Vec::new();
    for path in level {
        let parent = path.parent().unwrap_or_default();
        match ensured.folders.get(parent.as_str()) {
            Some(folder) => {
                parents.insert(folder.id);
                wanted.push(path.as_str());
            }
            None => {
                let why = ensured.refused.get(parent.as_str()).copied().unwrap_or(IS_A_FILE);
                ensured.refused.insert(path.as_str().to_owned(), why);
            }
        }
    }
    store::lock(tx, &parents.into_iter().collect::<Vec<_>>())?;
    for path in store::files_at(tx, slate.id, &wanted)? {
        ensured.refused.insert(path, IS_A_FILE);
    }
    let spelt: Vec<&str> = wanted.iter().copied().filter(|path| has_spellings(path)).collect();
    if !spelt.is_empty() {
        for path in store::misspelt(tx, slate.id, &spelt)? {
            ensured.refused.insert(path, MISSPELT);
        }
    }
    // Another writer may have made some while the lock was waited for.
    let there = store::find_many(tx, slate.id, &wanted, true)?;
    ensured.folders.extend(there.into_iter().map(|row| (row.path.clone(), row.into())));
    let new: Vec<NewFolder> = level
        .iter()
        .filter(|path| !ensured.refused.contains_key(path.as_str()))
        .filter(|path| !ensured.folders.contains_key(path.as_str()))
        .filter_map(|path| Some(new_folder(path, ensured.folders.get(path.parent()?.as_str())?.id)))
        .collect();
    if !new.is_empty() {
        let made = store::insert(tx, slate.id, &new, now)?;
        ensured.folders.extend(made.into_iter().map(|row| (row.path.clone(), row.into())));
    }
    Ok(())
}

fn new_folder(path: &FolderPath, parent: i64) -> NewFolder<'_> {
    NewFolder { path: path.as_str(), name: path.as_str().rsplit('/').next().unwrap_or_default(), parent }
}

/// Makes a folder, or sets its settings; tells whether it was made.
///
/// # Errors
/// [`Code::NameConflict`] where a file, or another spelling, has the name.
pub fn put(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    path: &FolderPath,
    new: &NewSettings,
) -> Result<(Folder, bool)> {
    // A file that is being written decides by its folder whether it is hidden, so it is waited for.
    let slate = slates::ops::get_to_restructure(tx, ctx, slate)?;
    let there = store::find(tx, slate.id, path.as_str())?.is_some();
    let ensured = ensure(tx, &slate, &BTreeSet::from([path.clone()]), ctx.now)?;
    let mut folder = ensured.folder(path)?.clone();
    if folder.authority != new.authority || folder.sensitive != new.sensitive {
        store::set(tx, folder.id, new.authority.map(Authority::as_str), new.sensitive)?;
        if folder.sensitive != new.sensitive {
            let tree = Tree::new(slate.id, path.as_str());
            store::rehide(tx, &tree)?;
            passages::ops::follow(tx, slate.home(), &tree.below, &tree.below)?;
        }
        (folder.authority, folder.sensitive) = (new.authority, new.sensitive);
    }
    Ok((folder, !there))
}

/// Moves a folder with all below it. Every file keeps its identity, and has a new version at its new path.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::NameConflict`] where the name is taken; [`Code::Invalid`] where the root, or a folder into
/// itself, is to be moved, or a path below would grow too long.
pub fn relocate(tx: &mut Tx, ctx: &Ctx, slate: &str, from: &FolderPath, to: &FolderPath) -> Result<Folder> {
    let wrong = |detail: String| Error::invalid_at("/path", detail);
    let slate = slates::ops::get_to_restructure(tx, ctx, slate)?;
    let row = look(tx, &slate, from)?.ok_or_else(Error::not_found)?;
    let from = &FolderPath::parse(&row.path).map_err(Error::internal)?;
    if from.is_root() || to.is_root() {
        return Err(wrong("the root of a slate stays where it is".into()));
    }
    if from == to {
        return Ok(row.into());
    }
    if to.relative_to(from).is_some() {
        return Err(wrong("a folder cannot be moved into itself".into()));
    }
    let tree = Tree::new(slate.id, from.as_str());
    let extent = store::extent(tx, &tree)?;
    let grown = |now: i64, old: usize, new: usize| now as usize - old.min(now as usize) + new;
    let levels = |path: &FolderPath| path.as_str().split('/').count();
    if !extent.empty
        && (grown(extent.bytes, from.as_str().len(), to.as_str().len()) > MAX_PATH
            || grown(extent.levels, levels(from), levels(to)) > MAX_LEVELS)
    {
        return Err(wrong(format!("a path below would pass {MAX_PATH} bytes or {MAX_LEVELS} levels")));
    }
    if store::find(tx, slate.id, to.as_str())?.is_some() {
        return Err(Error::new(Code::NameConflict, "a folder of this name exists"));
    }
    if !store::files_at(tx, slate.id, &[to.as_str()])?.is_empty() {
        return Err(Error::new(Code::NameConflict, "a file of this name exists"));
    }
    let parent = to.parent().unwrap_or_default();
    let ensured = ensure(tx, &slate, &BTreeSet::from([parent.clone()]), ctx.now)?;
    let parent = ensured.folder(&parent)?;
    store::relocate(tx, &tree, &new_folder(to, parent.id), ctx.now)?;
    let moved = Tree::new(slate.id, to.as_str());
    store::rehide(tx, &moved)?;
    passages::ops::follow(tx, slate.home(), &tree.below, &moved.below)?;
    Ok(store::find(tx, slate.id, to.as_str())?.ok_or_else(Error::not_found)?.into())
}

/// Deletes a folder; with all below it only where `recursive` says so. `purge` scrubs the bytes at once.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::FolderNotEmpty`]; [`Code::Invalid`] for the root, which goes with its slate.
pub fn delete(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    path: &FolderPath,
    recursive: bool,
    purge: bool,
) -> Result<()> {
    let slate = slates::ops::get_to_restructure(tx, ctx, slate)?;
    let row = look(tx, &slate, path)?.ok_or_else(Error::not_found)?;
    if path.is_root() {
        return Err(Error::invalid_at("", "the root folder goes with its slate"));
    }
    let tree = Tree::new(slate.id, &row.path);
    if !recursive && !store::extent(tx, &tree)?.empty {
        return Err(Error::new(
            Code::FolderNotEmpty,
            "the folder is not empty; `recursive=true` deletes all below it",
        ));
    }
    clear(tx, ctx, &tree, purge)
}

/// Deletes a slate and all in it. Its versions can still be retrieved by citation for its retention.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::PreconditionFailed`].
pub fn delete_slate(
    tx: &mut Tx,
    ctx: &Ctx,
    name: &str,
    purge: bool,
    conditions: &Preconditions,
) -> Result<()> {
    let slate = slates::ops::get_to_restructure(tx, ctx, name)?;
    conditions.check_write(Some(&slate.etag()))?;
    clear(tx, ctx, &Tree::new(slate.id, ""), purge)?;
    slates::ops::mark_deleted(tx, ctx, &slate)
}

fn clear(tx: &mut Tx, ctx: &Ctx, tree: &Tree, purge: bool) -> Result<()> {
    if !purge {
        metatags::ops::hold_writers(tx)?;
    }
    let files = store::delete_files(tx, tree, purge, ctx.now)?;
    passages::ops::forget(tx, &files)?;
    store::delete(tx, tree)?;
    if purge { self::purge(tx, &files) } else { Ok(()) }
}

/// Scrubs the bytes of all versions of these files, which must be deleted, where no other version has them.
///
/// # Errors
/// Those of the database.
pub fn purge(tx: &mut Tx, files: &[i64]) -> Result<()> {
    metatags::ops::hold_off_writers(tx)?;
    store::purge(tx, files)
}

/// Decides anew what of the tenant's is kept from readers, after its deny globs have changed. Writes that have decided
/// by the old globs are waited for, and later ones decide by the new.
///
/// # Errors
/// Those of the database.
pub fn rehide(tx: &mut Tx) -> Result<()> {
    for slate in slates::ops::hold_all(tx)? {
        store::rehide(tx, &Tree::new(slate, ""))?;
    }
    passages::ops::follow_all(tx)
}
