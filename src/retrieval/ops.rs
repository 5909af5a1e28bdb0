//! Retrieval as use cases: search a declared folder, and read contents.

use std::collections::{HashMap, HashSet};

use super::found::{
    After, Ahead, Found, FoundFile, FoundItem, Listing, MAX_COUNTED, Match, Missing, Placed, Scope, Totals,
    Window,
};
use super::heads::Contents;
pub use super::look::Declared;
use super::modes::metatag;
use super::nearest::{Lost, MAX_HINTS, MAX_NEAREST};
use super::request::Request;
use super::store::{self, HeadRow, Looked, Named, Terms};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::item::Mode;
use crate::item::{Hint, HintReason};
use crate::path::{FilePath, FolderPath, Name, has_spellings};
use crate::{folders, slates};

pub mod facets;
pub mod measure;
pub mod query;

/// The most entries that the listings of one result have together.
pub const MAX_ENTRIES: usize = 10_000;

/// The scope of a declared folder; none when its slate or folder is not there.
///
/// # Errors
/// [`Code::NotFound`] when the key is not bound to the slate.
pub fn scope(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    folder: &FolderPath,
    recursive: bool,
) -> Result<Option<Scope>> {
    let declared = Declared { slate, folder, recursive };
    Ok(open(tx, ctx, declared, &Request::default(), false)?.map(|opened| opened.looked.scope))
}

/// A declared folder that a request is to be searched for in, with what has been looked up for the request.
#[derive(Debug)]
pub struct Opened {
    looked: Looked,
    /// Whether the files that the request names are among what was looked up.
    named: bool,
}

impl Opened {
    /// The declared folder.
    pub fn scope(&self) -> &Scope {
        &self.looked.scope
    }
}

impl From<Scope> for Opened {
    fn from(scope: Scope) -> Opened {
        Opened { looked: Looked { scope, files: HashMap::new(), terms: Terms::default() }, named: false }
    }
}

/// Opens a declared folder for a request; none when its slate or folder is not there. Contents of files that the request
/// names are read along where `contents` says so.
///
/// # Errors
/// [`Code::NotFound`] when the key is not bound to the slate.
pub fn open(
    tx: &mut Tx,
    ctx: &Ctx,
    declared: Declared<'_>,
    request: &Request,
    contents: bool,
) -> Result<Option<Opened>> {
    ctx.slate(declared.slate)?;
    // No stored name holds a NUL, and a Postgres text cannot.
    if declared.slate.contains('\0') {
        return Ok(None);
    }
    let asks = asks(declared.folder, request);
    let paths = paths(&asks, Mode::Files);
    let contents = if contents { Contents::Of(paths.len()) } else { Contents::None };
    if let Some(looked) = store::look(tx, declared, request, &paths, contents)? {
        return Ok(Some(Opened { looked, named: true }));
    }
    if !has_spellings(declared.folder.as_str()) {
        return Ok(None);
    }
    let Some(slate) = slates::ops::find(tx, ctx, declared.slate)? else { return Ok(None) };
    let Some(folder) = folders::ops::find(tx, &slate, declared.folder)? else { return Ok(None) };
    Ok(Some(Opened::from(Scope {
        slate_id: slate.id,
        slate: slate.name,
        folder_id: folder.id,
        folder: FolderPath::parse(&folder.path).map_err(Error::internal)?,
        recursive: declared.recursive,
        authority: slate.authority.unwrap_or_default(),
        volatile: slate.volatile,
        max_age_seconds: slate.max_age_seconds,
    })))
}

/// One entry of `files` or `subfolders`, as it was written, and its path from the slate's root if it is one.
struct Ask<'a> {
    mode: Mode,
    text: &'a str,
    path: Option<String>,
}

/// What was asked for by name, each text once for each mode.
fn asks<'a>(folder: &FolderPath, request: &'a Request) -> Vec<Ask<'a>> {
    let file = |text: &str| {
        let path = folder.join(&FilePath::parse(text).ok()?).ok()?;
        Some(path.as_str().to_owned())
    };
    let subfolder = |text: &str| {
        let path = folder.join_folder(&FolderPath::parse_entry(text).ok()?).ok()?;
        Some(path.as_str().to_owned())
    };
    let mut seen = HashSet::new();
    let files = request.files.iter().flatten().map(|text| (Mode::Files, text.as_str()));
    let subfolders = request.subfolders.iter().flatten().map(|text| (Mode::Subfolders, text.as_str()));
    (files.chain(subfolders).filter(|ask| seen.insert(*ask)))
        .map(|(mode, text)| {
            let path = if mode == Mode::Files { file(text) } else { subfolder(text) };
            Ask { mode, text, path }
        })
        .collect()
}

/// The paths from the slate's root of what was asked for by one mode.
fn paths<'a>(asks: &'a [Ask<'_>], mode: Mode) -> Vec<&'a str> {
    asks.iter().filter(|ask| ask.mode == mode).filter_map(|ask| ask.path.as_deref()).collect()
}

/// What every request finds whose declared folder is not there: all that it names is missing.
pub fn nothing(request: &Request) -> Found {
    let items = (asks(&FolderPath::root(), request).into_iter().enumerate())
        .map(|(i, ask)| {
            let reason = if ask.path.is_some() { HintReason::NoSuchFile } else { HintReason::InvalidPath };
            let hint = (i < MAX_HINTS).then(|| Hint { reason, nearest: Vec::new() });
            let item = Missing { asked: ask.text.to_owned(), mode: ask.mode, hint, refused: false };
            Placed { after: After::Asked(i + 1), item: FoundItem::Missing(item) }
        })
        .collect();
    let contents = HashMap::new();
    Found { items, contents, next: None, ahead: Ahead::default(), beyond: Totals::default(), total: Some(0) }
}

/// Finds what a request asks for in a scope, in the order of retrieval semantics §3.8: the files as asked, the listings
/// as asked, then all other files by path; each file once, whatever modes match it.
///
/// # Errors
/// Those of the database; [`Code::QueryTimeout`] when it takes too long.
pub fn search(tx: &mut Tx, opened: Opened, request: &Request, window: &Window) -> Result<Found> {
    let Opened { looked: Looked { scope, mut files, terms }, named } = opened;
    let scope = &scope;
    let asks = asks(&scope.folder, request);
    let read = |files: usize| if window.contents { Contents::Of(files) } else { Contents::None };
    if !named {
        let paths = paths(&asks, Mode::Files);
        files = store::files_at(tx, scope.slate_id, &paths, read(paths.len()))?;
    }
    let folders = store::folders_at(tx, scope.slate_id, &paths(&asks, Mode::Subfolders))?;
    let entries = entries(&asks, &files, &folders);
    let start = match &window.after {
        After::Asked(count) => *count,
        After::Key(_) => asks.len(),
    };
    let coming: Vec<&Entry> = entries.iter().filter(|entry| entry.n >= start).collect();
    let (shown, rest) = coming.split_at(coming.len().min(window.limit));
    let named: Vec<&Named> = entries.iter().filter_map(Entry::file).collect();
    let except: Vec<i64> = named.iter().map(|file| file.id).collect();
    let after = match &window.after {
        After::Key(key) => Some(key.as_str()),
        After::Asked(_) => None,
    };
    let room = window.limit - shown.len();
    let most = room + window.ahead;
    let frame = (after, except.as_slice(), most as i64 + 1);
    let short = rest.is_empty() && !window.count && frame.2 <= metatag::FIRST / 8;
    let mut arms = store::arms_of(tx, scope, request, terms, short)?;
    // Of thousands that are found ahead, each row with room for a head costs more than a round trip.
    let along = if window.ahead == 0 { room } else { 0 };
    let (mut found, mut heads) = match rest {
        [] => store::page(tx, scope, &mut arms, frame, (along, read(room)))?,
        _ => Default::default(),
    };
    let more = !rest.is_empty() || found.len() > room;
    let beyond_all = found.len() > most;
    found.truncate(most);
    let ahead = Ahead::new(found, beyond_all);
    let others = &ahead.files()[..room.min(ahead.files().len())];
    if along < room {
        heads = store::heads(tx, others, read(room))?;
    }

    let here: Vec<&Named> = shown.iter().filter_map(|entry| entry.file()).collect();
    let ids: Vec<i64> = here.iter().map(|file| file.id).collect();
    let paths: Vec<String> = here.iter().map(|file| file.path.clone()).collect();
    let bits = store::matching(tx, scope, &arms, &paths, &ids)?;
    let mut contents = HashMap::new();
    let mut found =
        |file: &Named, bits: i16| Some(found_file(scope, file.head.clone()?, bits, &mut contents));

    let mut items = Vec::with_capacity(shown.len() + others.len());
    let mut room_for_entries = MAX_ENTRIES;
    for entry in shown {
        let ask = &asks[entry.n];
        let missing = |refused| {
            FoundItem::Missing(Missing { asked: ask.text.to_owned(), mode: ask.mode, hint: None, refused })
        };
        let item = match (entry.what, ask.mode) {
            (Some(what), _) if what.hidden => missing(true),
            (Some(file), Mode::Files) => {
                let bits = Mode::Files.bit() | bits.get(&file.id).copied().unwrap_or(0);
                found(file, bits).map_or_else(|| missing(false), FoundItem::File)
            }
            (Some(folder), _) => {
                FoundItem::Listing(listing(tx, scope.slate_id, ask.text, folder.id, &mut room_for_entries)?)
            }
            (None, _) => missing(false),
        };
        items.push(Placed { after: After::Asked(entry.n + 1), item });
    }
    hint(tx, scope, &asks, shown, &mut items)?;
    let last = others.last().map(|file| file.key.clone());
    items.extend(placed(scope, others, &mut heads, &mut contents));

    let mut beyond = Totals::default();
    let mut total = None;
    if window.count {
        let unseen = rest.iter().filter_map(|entry| entry.file()).filter(|file| !file.hidden);
        unseen.for_each(|file| beyond = Totals { files: beyond.files + 1, bytes: beyond.bytes + file.size });
        if more {
            let counted = store::count(tx, scope, &arms, last.as_deref().or(after), &except)?;
            beyond = Totals { files: beyond.files + counted.files, bytes: beyond.bytes + counted.bytes };
        }
        let here = items.iter().filter(|placed| matches!(placed.item, FoundItem::File(_))).count() as i64;
        total = Some(here + beyond.files).filter(|total| *total <= MAX_COUNTED);
    }
    let begin = last.map(After::Key).or_else(|| Some(After::Asked(shown.last()?.n + 1)));
    let next = more.then(|| begin.unwrap_or_else(|| window.after.clone()));
    Ok(Found { items, contents, next, ahead, beyond, total })
}

/// Reads the next files, at most `limit`, that an earlier search found ahead.
///
/// # Errors
/// Those of the database.
pub fn follow(tx: &mut Tx, scope: &Scope, ahead: Ahead, limit: usize) -> Result<Found> {
    let files = &ahead.files()[..limit.min(ahead.files().len())];
    let mut heads = store::heads(tx, files, Contents::Of(files.len()))?;
    let mut contents = HashMap::with_capacity(files.len());
    let items = placed(scope, files, &mut heads, &mut contents);
    let more = ahead.more || files.len() < ahead.files().len();
    let next = files.last().filter(|_| more).map(|file| After::Key(file.key.clone()));
    Ok(Found { items, contents, next, ahead, beyond: Totals::default(), total: None })
}

/// Those files of a search that are still where it found them. One that went or moved between two statements is not
/// there, and was not missed by name.
fn placed(
    scope: &Scope,
    files: &[Match],
    heads: &mut HashMap<i64, HeadRow>,
    contents: &mut HashMap<Vec<u8>, Vec<u8>>,
) -> Vec<Placed> {
    let mut items = Vec::with_capacity(files.len());
    for file in files {
        let Some(head) = heads.remove(&file.id) else { continue };
        let key = if scope.recursive { &head.path } else { scope.relative(&head.path) };
        if key == file.key {
            let item = FoundItem::File(found_file(scope, head, file.bits, contents));
            items.push(Placed { after: After::Key(file.key.clone()), item });
        }
    }
    items
}

/// Something that was asked for by name, once: `n` is its place among the asks, `what` is there.
struct Entry<'a> {
    n: usize,
    what: Option<&'a Named>,
    is_file: bool,
}

impl Entry<'_> {
    fn file(&self) -> Option<&Named> {
        self.what.filter(|what| self.is_file && !what.hidden)
    }
}

/// The asks in order, without those that name the same file or folder by another spelling.
fn entries<'a>(
    asks: &[Ask<'_>],
    files: &'a HashMap<String, Named>,
    folders: &'a HashMap<String, Named>,
) -> Vec<Entry<'a>> {
    let mut seen = HashSet::new();
    let entry = |(n, ask): (usize, &Ask<'_>)| {
        let is_file = ask.mode == Mode::Files;
        let what =
            ask.path.as_deref().and_then(|path| if is_file { files.get(path) } else { folders.get(path) });
        Entry { n, what, is_file }
    };
    let first = |entry: &Entry<'a>| entry.what.is_none_or(|what| seen.insert((entry.is_file, what.id)));
    asks.iter().enumerate().map(entry).filter(first).collect()
}

/// A file that was found; what was read of its contents is put to the others.
fn found_file(
    scope: &Scope,
    head: HeadRow,
    bits: i16,
    contents: &mut HashMap<Vec<u8>, Vec<u8>>,
) -> FoundFile {
    if let Some(data) = head.data {
        contents.insert(head.sha256.clone(), data);
    }
    FoundFile {
        file_id: head.id,
        path: head.path,
        version: head.version,
        size: head.size,
        sha256: head.sha256,
        media_type: head.media_type,
        is_text: head.is_text,
        matched_by: bits,
        authority: head.authority.as_deref().and_then(Authority::from_word).unwrap_or(scope.authority),
        last_modified: head.last_modified,
    }
}

fn listing(tx: &mut Tx, slate_id: i64, asked: &str, folder_id: i64, room: &mut usize) -> Result<Listing> {
    let mut entries = folders::ops::index(tx, slate_id, folder_id, None, *room as i64 + 1)?;
    let truncated = entries.len() > *room;
    entries.truncate(*room);
    *room -= entries.len();
    Ok(Listing { asked: asked.to_owned(), entries, truncated })
}

/// Lets the first misses explain themselves (retrieval semantics §4.8). Near names are looked for in the folder that the
/// path leads to, if that is there to be read, else in the declared one.
fn hint(tx: &mut Tx, scope: &Scope, asks: &[Ask<'_>], shown: &[&Entry], items: &mut [Placed]) -> Result<()> {
    let missed: Vec<usize> = (items.iter().enumerate())
        .filter(|(_, placed)| matches!(placed.item, FoundItem::Missing(_)))
        .map(|(i, _)| i)
        .take(MAX_HINTS)
        .collect();
    let ask = |i: usize| &asks[shown[i].n];
    let parent =
        |i: usize| Some(FolderPath::parse(ask(i).path.as_deref()?).ok()?.parent()?.as_str().to_owned());
    let parents: Vec<String> = missed.iter().filter_map(|i| parent(*i)).collect();
    let itself =
        missed.iter().filter_map(|i| ask(*i).path.as_deref().filter(|_| ask(*i).mode == Mode::Files));
    let paths: Vec<&str> = itself.chain(parents.iter().map(String::as_str)).collect();
    let mut folders = store::folders_at(tx, scope.slate_id, &paths)?;
    folders.retain(|_, folder| !folder.hidden);

    let lost = missed.iter().filter_map(|i| {
        let name = ask(*i).text.trim_end_matches('/').rsplit('/').next()?;
        let inside = parent(*i)
            .filter(|path| FolderPath::parse(path).is_ok_and(|p| p.relative_to(&scope.folder).is_some()));
        let folder = inside.and_then(|path| folders.get(&path)).map_or(scope.folder_id, |folder| folder.id);
        let name = Name::parse(name).ok()?.as_str().to_owned();
        Some(Lost { n: *i as i64, folder_id: folder, name, folder: ask(*i).mode == Mode::Subfolders })
    });
    let mut near = store::near(tx, &lost.collect::<Vec<_>>(), MAX_NEAREST)?;
    for i in missed {
        let reason = match ask(i).path.as_deref() {
            None => HintReason::InvalidPath,
            Some(path) if ask(i).mode == Mode::Files && folders.contains_key(path) => HintReason::IsAFolder,
            Some(_) => HintReason::NoSuchFile,
        };
        let nearest = near.remove(&(i as i64)).unwrap_or_default();
        let nearest = nearest.iter().map(|path| scope.relative(path).to_owned()).collect();
        if let FoundItem::Missing(missing) = &mut items[i].item {
            missing.hint = Some(Hint { reason, nearest });
        }
    }
    Ok(())
}

/// Paths of files, from the slate's root, that are near to a missing name in this folder: nearest first, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn near(tx: &mut Tx, folder_id: i64, name: &Name, limit: usize) -> Result<Vec<String>> {
    let lost = Lost { n: 0, folder_id, name: name.as_str().to_owned(), folder: false };
    Ok(store::near(tx, &[lost], limit)?.remove(&0).unwrap_or_default())
}

/// Adds to the contents that were read along those of these SHA-256 that were not. The caller bounds how many bytes that is.
///
/// # Errors
/// [`Code::Conflict`], which runs the transaction again, when a purge came between.
pub fn read_contents(tx: &mut Tx, hashes: &[&[u8]], contents: &mut HashMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    let apart: Vec<&[u8]> = hashes.iter().copied().filter(|hash| !contents.contains_key(*hash)).collect();
    contents.extend(store::contents(tx, &apart)?);
    match apart.iter().all(|hash| contents.contains_key(*hash)) {
        true => Ok(()),
        false => Err(Error::new(Code::Conflict, "a file was purged meanwhile; try again")),
    }
}
