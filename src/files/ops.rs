//! Writing files: one path for a single file and for a million.
//!
//! A batch is written by a fixed number of statements over arrays, in this order: folders, the files that are there,
//! contents, versions, files, terms, metatags. What is wrong with one entry (its name is a folder's, say) is that entry's
//! error, and the others are written.

pub mod read;
pub mod tagging;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use unicode_normalization::UnicodeNormalization;

use super::head::Head;
use super::store;
use super::write::Entry;
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, FieldError, Result};
use crate::folders;
use crate::metatags::{self, Tags, terms};
use crate::passages::{self, File};
use crate::path::{FilePath, FolderPath, has_spellings};
use crate::precondition::Preconditions;
use crate::slates::{self, Slate};

pub use super::write::{MAX_CONTENTS, Tagging, Write, Written, contents_of};

/// Writes one file.
///
/// # Errors
/// [`Code::NotFound`] for the slate; [`Code::NameConflict`]; [`Code::Invalid`] by pointer.
pub fn write_one(tx: &mut Tx, ctx: &Ctx, slate: &str, write: Write) -> Result<Written> {
    write_many(tx, ctx, slate, vec![write])?.pop().unwrap_or_else(|| Err(Error::not_found()))
}

/// Writes files, in order, each as if the ones before it had been written. The answers are in that order too.
///
/// # Errors
/// [`Code::NotFound`] for the slate, and what concerns all; what concerns one file is its own error.
pub fn write_many(tx: &mut Tx, ctx: &Ctx, slate: &str, writes: Vec<Write>) -> Result<Vec<Result<Written>>> {
    tx.write_by_key()?;
    let slate = slates::ops::get_to_write(tx, ctx, slate)?;
    let mut answers = Vec::with_capacity(writes.len());
    let mut batch = Batch::default();
    for write in writes {
        if !batch.takes(&write.path) {
            answers.extend(write_batch(tx, ctx, &slate, std::mem::take(&mut batch).writes)?);
            batch.takes(&write.path);
        }
        batch.writes.push(write);
    }
    answers.extend(write_batch(tx, ctx, &slate, batch.writes)?);
    Ok(answers)
}

/// Files no two of which meet: neither the same name nor another spelling of it, nor one where another has a folder.
#[derive(Default)]
struct Batch {
    files: HashSet<String>,
    folders: HashSet<String>,
    writes: Vec<Write>,
}

impl Batch {
    fn takes(&mut self, path: &FilePath) -> bool {
        let spelt: String = path.as_str().nfc().collect();
        let above: Vec<String> = spelt.match_indices('/').map(|(at, _)| spelt[..at].to_owned()).collect();
        if self.files.contains(&spelt)
            || self.folders.contains(&spelt)
            || above.iter().any(|folder| self.files.contains(folder))
        {
            return false;
        }
        self.folders.extend(above);
        self.files.insert(spelt)
    }
}

fn write_batch(tx: &mut Tx, ctx: &Ctx, slate: &Slate, writes: Vec<Write>) -> Result<Vec<Result<Written>>> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    metatags::ops::hold_writers(tx)?;
    let mut errors: HashMap<usize, Error> = HashMap::new();
    let parents: BTreeSet<FolderPath> = writes.iter().map(|write| write.path.parent()).collect();
    let ensured = folders::ops::ensure(tx, slate, &parents, ctx.now)?;
    let paths: Vec<&str> = writes.iter().map(|write| write.path.as_str()).collect();
    let mut heads = store::heads(tx, slate.id, &paths, true)?;
    let taken = store::taken(tx, slate.id, &paths)?;
    let of_source: Vec<&str> = (writes.iter())
        .filter(|write| write.tagging == Tagging::OfSource && write.tags.is_some())
        .map(|write| write.path.as_str())
        .filter(|path| heads.contains_key(*path))
        .collect();
    let tagged = store::tags::tags_of_source(tx, slate.id, &of_source)?;
    let mut entries: Vec<(usize, Entry)> = Vec::with_capacity(writes.len());
    for (place, write) in writes.iter().enumerate() {
        let parent = write.path.parent();
        let checked = check(write, slate).and_then(|()| match taken.get(write.path.as_str()) {
            Some(why) => Err(Error::new(Code::NameConflict, *why)),
            None => ensured.folder(&parent),
        });
        match checked {
            Ok(folder) => {
                let head = heads.remove(write.path.as_str());
                let mut entry = Entry::new(write, folder, head);
                if let (Some((before, owned)), Some(tags)) = (tagged.get(write.path.as_str()), &write.tags) {
                    match before.with_source(tags, owned, "/metatags") {
                        Ok(all) => entry.tags = Some(Cow::Owned(all)),
                        Err(wrong) => {
                            errors.insert(place, Error::invalid(wrong));
                            continue;
                        }
                    }
                }
                entries.push((place, entry));
            }
            Err(error) => {
                errors.insert(place, error);
            }
        }
    }
    number(tx, slate, &mut entries, ctx.now)?;
    let all: Vec<&Entry> = entries.iter().map(|(_, entry)| entry).collect();
    store_entries(tx, slate, &all, ctx.now)?;
    let there: Vec<&str> = all.iter().map(|entry| entry.write.path.as_str()).collect();
    let mut heads = store::heads(tx, slate.id, &there, false)?;
    cut(tx, slate, &all, &heads)?;
    let mut answers: Vec<Option<Result<Written>>> = writes.iter().map(|_| None).collect();
    for (place, entry) in &entries {
        let head = heads.remove(entry.write.path.as_str()).ok_or_else(Error::not_found)?;
        let changed = entry.head.as_ref() != Some(&head);
        answers[*place] = Some(Ok(Written { head, created: entry.head.is_none(), changed }));
    }
    for (place, error) in errors {
        answers[place] = Some(Err(error));
    }
    Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(Error::not_found()))).collect())
}

/// Has the passages follow what was written.
fn cut(tx: &mut Tx, slate: &Slate, entries: &[&Entry], heads: &HashMap<String, Head>) -> Result<()> {
    if !passages::ops::are_kept(tx, &slate.name)? {
        return Ok(());
    }
    let written = entries.iter().filter(|entry| entry.contents_differ() || entry.settings_differ());
    let files = written.filter_map(|entry| {
        let head = heads.get(entry.write.path.as_str())?;
        let text = std::str::from_utf8(&entry.write.contents).ok().filter(|_| head.is_text && !head.hidden);
        Some(File { id: head.id, path: &head.path, media_type: &head.media_type, text })
    });
    passages::ops::put(tx, slate.home(), &files.collect::<Vec<_>>())
}

fn check(write: &Write, slate: &Slate) -> Result<()> {
    let mut errors = Vec::new();
    if write.contents.len() > MAX_CONTENTS {
        return Err(Error::new(Code::BodyTooLarge, format!("a file may have {MAX_CONTENTS} bytes")));
    }
    if let Some(media_type) = &write.media_type {
        errors.extend(check_media_type(media_type));
    }
    if let Some(version) = &write.source_version
        && (version.is_empty() || version.len() > 255 || version.chars().any(char::is_control))
    {
        errors.push(FieldError::new("/source_version", "has 1 to 255 bytes and no control characters"));
    }
    if let Some(tags) = &write.tags {
        errors.extend(tags.check_types(&slate.metatag_types, "/metatags"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::invalid(errors)) }
}

/// What is wrong with a media type, if anything is.
pub(super) fn check_media_type(text: &str) -> Option<FieldError> {
    let fine = text.len() <= 255
        && text.split_once('/').is_some_and(|(kind, rest)| {
            let token = |part: &str| {
                !part.is_empty()
                    && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
            };
            let subtype = rest.split(';').next().unwrap_or_default().trim_end();
            token(kind) && token(subtype) && rest.bytes().all(|b| (0x20..0x7f).contains(&b))
        });
    (!fine).then(|| FieldError::new("/media_type", "is no media type such as text/markdown"))
}

/// Numbers the versions to write: each is greater than all its path and all its file ever had.
fn number(tx: &mut Tx, slate: &Slate, entries: &mut [(usize, Entry)], now: DateTime<Utc>) -> Result<()> {
    let changing: Vec<&mut Entry> =
        entries.iter_mut().map(|(_, entry)| entry).filter(|entry| entry.contents_differ()).collect();
    if changing.is_empty() {
        return Ok(());
    }
    let paths: Vec<&str> = changing.iter().map(|entry| entry.write.path.as_str()).collect();
    let last = store::last_versions(tx, slate.id, &paths)?;
    let fresh = changing.iter().filter(|entry| entry.head.is_none()).count();
    let mut identities = store::new_identities(tx, slate.id, fresh, now)?.into_iter();
    for entry in changing {
        let of_path = last.get(entry.write.path.as_str()).copied().unwrap_or_default();
        let (id, of_file) = match &entry.head {
            Some(head) => (head.id, head.version),
            None => (identities.next().ok_or_else(Error::not_found)?, 0),
        };
        entry.next = Some((id, of_path.max(of_file) + 1));
    }
    Ok(())
}

fn store_entries(tx: &mut Tx, slate: &Slate, entries: &[&Entry], now: DateTime<Utc>) -> Result<()> {
    let versions: Vec<&Entry> = entries.iter().copied().filter(|entry| entry.next.is_some()).collect();
    let large: Vec<&Entry> = versions.iter().copied().filter(|entry| entry.in_row().is_none()).collect();
    if !large.is_empty() {
        store::insert_blobs(tx, &large)?;
    }
    let replaced: Vec<i64> = versions.iter().filter_map(|entry| Some(entry.replaced()?.id)).collect();
    if !replaced.is_empty() {
        store::keep_contents(tx, &replaced)?;
    }
    if !versions.is_empty() {
        store::insert_versions(tx, slate.id, &versions, now)?;
    }
    let (fresh, there): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| entry.head.is_none());
    if !fresh.is_empty() {
        store::insert_files(tx, slate.id, &fresh, now)?;
    }
    let touched: Vec<&Entry> =
        there.iter().copied().filter(|entry| entry.next.is_some() || entry.settings_differ()).collect();
    if !touched.is_empty() {
        store::update_files(tx, slate.id, &touched, now)?;
    }
    let empty = Tags::default();
    let found: Vec<_> = entries
        .iter()
        .filter_map(|entry| match (&entry.tags, &entry.head) {
            (Some(tags), _) => Some((*entry, &**tags)),
            (None, None) => Some((*entry, &empty)),
            (None, Some(_)) => None,
        })
        .map(|(entry, tags)| (entry, tags, terms::terms(tags)))
        .collect();
    let all: BTreeSet<_> = found.iter().flat_map(|(_, _, terms)| terms.iter().cloned()).collect();
    let numbers = metatags::ops::intern(tx, &all)?;
    let rows: Vec<_> = found
        .iter()
        .map(|(entry, tags, terms)| store::tags::TagRow {
            entry,
            tags,
            term_ids: terms::sorted(terms, &numbers),
        })
        .collect();
    store::tags::put_tags(tx, slate.id, &rows)
}

/// What a PATCH of a file may change. What is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Where to move it.
    pub path: Option<FilePath>,
    /// Another media type of the same bytes.
    pub media_type: Option<String>,
    /// Its own authority; `Some(None)` takes it away.
    pub authority: Option<Option<Authority>>,
    /// Whether readers are kept from it.
    pub sensitive: Option<bool>,
}

/// The file at this very path, hidden or not, held for a write.
///
/// # Errors
/// [`Code::NotFound`] for the slate or the file.
pub fn get_to_write(tx: &mut Tx, ctx: &Ctx, slate: &str, path: &FilePath) -> Result<(Slate, Option<Head>)> {
    let slate = slates::ops::get_to_write(tx, ctx, slate)?;
    let head = store::heads(tx, slate.id, &[path.as_str()], true)?.remove(path.as_str());
    Ok((slate, head))
}

/// The file at `path`, hidden or not, held for a write; by another spelling of the same characters where there is none of
/// these very bytes (retrieval semantics §2.3). A write of contents names what is to be there, and so goes by its very path.
///
/// # Errors
/// [`Code::NotFound`] for the slate or the file.
fn find_to_write(tx: &mut Tx, ctx: &Ctx, slate: &str, path: &FilePath) -> Result<(Slate, Option<Head>)> {
    let (slate, mut head) = get_to_write(tx, ctx, slate, path)?;
    if head.is_none()
        && has_spellings(path.as_str())
        && let Some(found) = store::head_by_nfc(tx, slate.id, path.as_str())?
    {
        // It may have been moved since; then it is not found.
        head = store::heads(tx, slate.id, &[&found.path], true)?.remove(&found.path);
    }
    Ok((slate, head))
}

/// The files at these very paths, hidden ones included, by path.
///
/// # Errors
/// [`Code::NotFound`] for the slate.
pub fn heads(tx: &mut Tx, ctx: &Ctx, slate: &str, paths: &[&FilePath]) -> Result<HashMap<String, Head>> {
    let slate = slates::ops::get(tx, ctx, slate)?;
    let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
    store::heads(tx, slate.id, &paths, false)
}

/// The paths of the slate's files that come after `after`, hidden ones included, in byte order, at most `limit`.
///
/// # Errors
/// [`Code::NotFound`] for the slate.
pub fn paths(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    after: Option<&FilePath>,
    limit: i64,
) -> Result<Vec<FilePath>> {
    let slate = slates::ops::get(tx, ctx, slate)?;
    let paths = store::paths(tx, slate.id, after.map_or("", FilePath::as_str), limit)?;
    paths.iter().map(|path| FilePath::parse(path).map_err(Error::internal)).collect()
}

/// Changes a file's settings or moves it; it keeps its identity and its history.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::PreconditionFailed`]; [`Code::NameConflict`] where the new path is taken;
/// [`Code::Invalid`].
pub fn change(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    path: &FilePath,
    change: &Change,
    conditions: &Preconditions,
) -> Result<Head> {
    let (slate, head) = find_to_write(tx, ctx, slate, path)?;
    let head = head.ok_or_else(Error::not_found)?;
    conditions.check_write(Some(&head.etag()))?;
    if let Some(error) = change.media_type.as_deref().and_then(check_media_type) {
        return Err(error.into());
    }
    let media_type = change.media_type.clone().unwrap_or_else(|| head.media_type.clone());
    let authority = change.authority.unwrap_or(head.authority);
    let sensitive = change.sensitive.unwrap_or(head.sensitive);
    if media_type != head.media_type || authority != head.authority || sensitive != head.sensitive {
        store::set(tx, slate.id, &head, &media_type, authority, sensitive, ctx.now)?;
    }
    if let Some(to) = change.path.as_ref().filter(|to| to.as_str() != head.path) {
        relocate(tx, ctx, &slate, &head, to)?;
    }
    passages::ops::renew(tx, slate.home(), &[head.id])?;
    let path = change.path.as_ref().map_or(&*head.path, FilePath::as_str);
    store::heads(tx, slate.id, &[path], false)?.remove(path).ok_or_else(Error::not_found)
}

fn relocate(tx: &mut Tx, ctx: &Ctx, slate: &Slate, head: &Head, to: &FilePath) -> Result<()> {
    let parent = to.parent();
    let ensured = folders::ops::ensure(tx, slate, &BTreeSet::from([parent.clone()]), ctx.now)?;
    let folder = ensured.folder(&parent)?;
    if store::heads(tx, slate.id, &[to.as_str()], false)?.contains_key(to.as_str()) {
        return Err(Error::new(Code::NameConflict, "a file of this name exists"));
    }
    // A file may be respelt in place: what its own name conflicts with is no conflict.
    let respelt = head.path.nfc().eq(to.as_str().nfc());
    if !respelt && let Some(why) = store::taken(tx, slate.id, &[to.as_str()])?.remove(to.as_str()) {
        return Err(Error::new(Code::NameConflict, why));
    }
    let last = store::last_versions(tx, slate.id, &[to.as_str()])?.remove(to.as_str()).unwrap_or_default();
    store::relocate(tx, slate.id, head, folder.id, to, last.max(head.version) + 1, ctx.now)
}

/// Deletes a file; its versions stay retrievable by citation for the slate's retention, unless `purge` scrubs them now.
/// A file that was deleted before can still be purged.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::PreconditionFailed`].
pub fn delete(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    path: &FilePath,
    purge: bool,
    conditions: &Preconditions,
) -> Result<()> {
    let (slate, head) = find_to_write(tx, ctx, slate, path)?;
    let gone = match head {
        Some(head) => {
            conditions.check_write(Some(&head.etag()))?;
            passages::ops::forget(tx, &[head.id])?;
            if !purge {
                metatags::ops::hold_writers(tx)?;
            }
            store::delete(tx, &head, purge, ctx.now)?;
            vec![head.id]
        }
        None if purge => store::deleted_at_path(tx, slate.id, path.as_str())?,
        None => Vec::new(),
    };
    if gone.is_empty() {
        return Err(Error::not_found());
    }
    if purge {
        folders::ops::purge(tx, &gone)?;
    }
    Ok(())
}
