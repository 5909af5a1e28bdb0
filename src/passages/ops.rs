//! What is done with passages: they are kept in step with the files that they are of, and searched.

use std::collections::HashMap;

use super::cut::{Passage, cut};
use super::file::{File, Hit, Home};
use super::store::{self, HitRow, Root, Row, ToCount};
use super::terms::{self, Counted};
use crate::authority::Authority;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::path::Span;

/// Files that are looked for at a time when those that lack passages are cut.
const BATCH: i64 = 500;
/// Bytes of contents that are cut at a time.
const BATCH_BYTES: i64 = 16 << 20;
/// Passages that are stored at a time.
const ROWS: usize = 2000;

/// Whether texts can be split into words in this language.
///
/// # Errors
/// Those of the database.
pub fn knows_language(tx: &mut Tx, language: &str) -> Result<bool> {
    store::knows_language(tx, language)
}

/// Whether any folder of the slate is a root: where none is, its files need not be told of.
///
/// # Errors
/// Those of the database.
pub fn are_kept(tx: &mut Tx, slate: &str) -> Result<bool> {
    Ok(!store::roots(tx, slate)?.is_empty())
}

/// Keeps roots as they are until the transaction ends; for whoever makes a slate that may have some already.
///
/// # Errors
/// Those of the database.
pub fn hold_roots(tx: &mut Tx) -> Result<()> {
    store::hold_roots(tx, false)
}

/// Nobody else changes roots until the transaction ends.
///
/// # Errors
/// Those of the database.
pub fn hold_roots_alone(tx: &mut Tx) -> Result<()> {
    store::hold_roots(tx, true)
}

/// Cuts files anew that have been written.
///
/// # Errors
/// Those of the database.
pub fn put(tx: &mut Tx, home: Home<'_>, files: &[File<'_>]) -> Result<()> {
    let roots = store::roots(tx, home.name)?;
    if roots.is_empty() || files.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = files.iter().map(|file| file.id).collect();
    store::delete_of(tx, &ids)?;
    let below = |file: &File| roots.iter().any(|root| covers(root, file.path));
    let texts = files.iter().filter(|file| below(file)).filter_map(|file| Some((file, file.text?)));
    let cuts: Vec<_> = texts.map(|(file, text)| (file, text, cut(text, file.media_type))).collect();
    let mut rows = Vec::new();
    for (file, text, passages) in &cuts {
        for root in roots.iter().filter(|root| covers(root, file.path)) {
            collect(&mut rows, root.id, file.id, file.path, text, passages);
        }
    }
    insert(tx, home.language, &rows)
}

fn covers(root: &Root, path: &str) -> bool {
    root.path.is_empty() || path.strip_prefix(root.path.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

fn collect<'a>(
    rows: &mut Vec<Row<'a>>,
    root: i64,
    file: i64,
    path: &'a str,
    text: &'a str,
    passages: &'a [Passage],
) {
    rows.extend((1..).zip(passages).map(|(position, passage)| Row {
        root,
        file,
        position,
        path,
        title: &passage.title,
        heading: &passage.heading,
        text: &text[passage.bytes.clone()],
        lines: passage.lines,
    }));
}

fn insert(tx: &mut Tx, language: &str, rows: &[Row]) -> Result<()> {
    rows.chunks(ROWS).try_for_each(|rows| store::insert(tx, language, rows))
}

/// Deletes the passages of files that are no more.
///
/// # Errors
/// Those of the database.
pub fn forget(tx: &mut Tx, files: &[i64]) -> Result<()> {
    if files.is_empty() { Ok(()) } else { store::delete_of(tx, files) }
}

/// Cuts these files anew, as they are in the database now.
///
/// # Errors
/// Those of the database.
pub fn renew(tx: &mut Tx, home: Home<'_>, files: &[i64]) -> Result<()> {
    if !are_kept(tx, home.name)? {
        return Ok(());
    }
    store::delete_of(tx, files)?;
    fill(tx, home, Some(files))
}

/// Follows what happened to many files of a slate at once: they were hidden or shown, or moved from one span of paths to
/// another.
///
/// # Errors
/// Those of the database.
pub fn follow(tx: &mut Tx, home: Home<'_>, from: &Span, to: &Span) -> Result<()> {
    for root in store::roots(tx, home.name)? {
        if from != to {
            store::move_along(tx, &root, from)?;
        }
        store::drop_stale(tx, &root, to)?;
        fill_root(tx, home, &root, None, to)?;
    }
    Ok(())
}

/// The same for all files of all of the tenant's slates, which were hidden or shown.
///
/// # Errors
/// Those of the database.
pub fn follow_all(tx: &mut Tx) -> Result<()> {
    for slate in store::slates(tx)? {
        let home = Home { id: slate.id, name: &slate.name, language: &slate.language };
        let all = Span::default();
        follow(tx, home, &all, &all)?;
    }
    Ok(())
}

/// Splits all passages of a slate into words anew, after its language has changed.
///
/// # Errors
/// Those of the database.
pub fn split_anew(tx: &mut Tx, slate: &str, language: &str) -> Result<()> {
    store::split_anew(tx, slate, language)
}

/// Makes these folders of a slate its roots, and no others. Where the slate is there (`home`), what they hold is cut.
///
/// # Errors
/// Those of the database.
pub fn set_roots(tx: &mut Tx, slate: &str, home: Option<Home<'_>>, folders: &[String]) -> Result<()> {
    let there = store::roots(tx, slate)?;
    let gone: Vec<i64> =
        there.iter().filter(|root| !folders.contains(&root.path)).map(|root| root.id).collect();
    let known = |path: &str| there.iter().any(|root| root.path == path);
    let new: Vec<&str> = folders.iter().map(String::as_str).filter(|path| !known(path)).collect();
    if !gone.is_empty() {
        store::delete_roots(tx, &gone)?;
    }
    if new.is_empty() {
        return Ok(());
    }
    store::insert_roots(tx, slate, &new)?;
    let Some(home) = home else { return Ok(()) };
    fill(tx, home, None)?;
    store::analyze(tx)
}

/// Cuts the files that are to have passages and have none.
fn fill(tx: &mut Tx, home: Home<'_>, files: Option<&[i64]>) -> Result<()> {
    let roots = store::roots(tx, home.name)?;
    roots.iter().try_for_each(|root| fill_root(tx, home, root, files, &Span::default()))
}

/// The same of one root, at these paths.
fn fill_root(tx: &mut Tx, home: Home<'_>, root: &Root, files: Option<&[i64]>, at: &Span) -> Result<()> {
    let mut left = Span::below(&root.path).and(at);
    loop {
        let mut missing = store::missing(tx, home.id, root.id, files, &left, BATCH)?;
        // One at least, and no more than is to be in memory.
        let mut bytes = 0;
        let fit = missing.iter().take_while(|file| {
            let first = bytes == 0;
            bytes += file.size;
            first || bytes <= BATCH_BYTES
        });
        let fit = fit.count();
        missing.truncate(fit);
        let Some(last) = missing.last() else { return Ok(()) };
        // What is behind the last path is not read again.
        left.from = format!("{}\u{1}", last.path);
        let apart = missing.iter().filter(|file| file.data.is_none());
        let hashes: Vec<&[u8]> = apart.map(|file| &file.sha256[..]).collect();
        let mut contents: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        if !hashes.is_empty() {
            contents.extend(store::contents(tx, &hashes)?);
        }
        let mut cuts = Vec::with_capacity(missing.len());
        for file in &missing {
            let contents =
                file.data.as_ref().or(contents.get(&file.sha256)).map(Vec::as_slice).unwrap_or_default();
            let text = std::str::from_utf8(contents).map_err(Error::internal)?;
            cuts.push((file, text, cut(text, &file.media_type)));
        }
        let mut rows = Vec::new();
        for (file, text, passages) in &cuts {
            collect(&mut rows, root.id, file.file_id, &file.path, text, passages);
        }
        insert(tx, home.language, &rows)?;
    }
}

impl From<HitRow> for Hit {
    fn from(row: HitRow) -> Hit {
        Hit {
            file_id: row.file_id,
            position: row.position,
            path: row.path,
            text: row.text,
            lines: (row.first_line as u64, row.last_line as u64),
            score: row.score,
            version: row.version,
            size: row.size,
            sha256: row.sha256,
            authority: row.authority.as_deref().and_then(Authority::from_word),
            last_modified: row.last_modified,
        }
    }
}

/// A folder that is searched.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Its slate.
    pub home: Home<'a>,
    /// Its path.
    pub folder: &'a str,
    /// The most passages that it may give.
    pub limit: i64,
}

/// The best passages in each place for a text, by score, then by path and position. A text that ranks nothing, because it has no
/// words or no passage has any of them, gives the first passages, in order; a place that is no root gives none.
///
/// # Errors
/// Those of the database.
pub fn search(tx: &mut Tx, places: &[Place<'_>], text: &str) -> Result<Vec<Vec<Hit>>> {
    let slates: Vec<&str> = places.iter().map(|place| place.home.name).collect();
    let folders: Vec<&str> = places.iter().map(|place| place.folder).collect();
    let roots = store::roots_at(tx, &slates, &folders)?;
    let mut languages: Vec<&str> = places.iter().map(|place| place.home.language).collect();
    languages.sort_unstable();
    languages.dedup();
    let words = match text.trim().is_empty() || roots.iter().all(Option::is_none) {
        true => vec![Vec::new(); languages.len()],
        false => store::words(tx, &languages, text)?,
    };
    let words = |place: &Place<'_>| match languages.binary_search(&place.home.language) {
        Ok(at) => words[at].clone(),
        Err(_) => Vec::new(),
    };
    let mut plans =
        plans(tx, places.iter().zip(&roots).filter_map(|(place, root)| Some(((*root)?, words(place)))))?;
    let mut found = Vec::with_capacity(places.len());
    for (place, root) in places.iter().zip(roots) {
        let Some(root) = root else {
            found.push(Vec::new());
            continue;
        };
        let plan = plans.remove(&root).flatten();
        let best =
            plan.map(|plan| store::search(tx, root, &plan, place.limit)).transpose()?.unwrap_or_default();
        let best = if best.is_empty() { store::first(tx, root, place.limit)? } else { best };
        found.push(best.into_iter().map(Hit::from).collect());
    }
    Ok(found)
}

/// What is searched for in each root, by the words that are asked for there; none where they rank nothing.
fn plans(
    tx: &mut Tx,
    asked: impl Iterator<Item = (i64, Vec<String>)>,
) -> Result<HashMap<i64, Option<terms::Plan>>> {
    let mut plans = HashMap::new();
    let mut several: Vec<(i64, Vec<String>)> = Vec::new();
    for (root, words) in asked {
        match words.len() {
            0 => drop(plans.insert(root, None)),
            // How rare a word is says nothing beside no other.
            1 => {
                let words = words.into_iter().map(|lexeme| Counted { lexeme, passages: 1 });
                plans.insert(root, terms::plan(words.collect(), 1));
            }
            _ if several.iter().any(|(other, _)| *other == root) => {}
            _ => several.push((root, words)),
        }
    }
    if several.is_empty() {
        return Ok(plans);
    }
    let roots: Vec<i64> = several.iter().map(|(root, _)| *root).collect();
    let totals = store::count(tx, &roots)?;
    let to_count = several.into_iter().zip(&totals).map(|((root, words), all)| ToCount {
        root,
        words,
        ceiling: terms::ceiling(*all),
    });
    let counted = store::count_each(tx, to_count.collect())?;
    let several = roots.into_iter().zip(counted).zip(totals);
    plans.extend(several.map(|((root, words), all)| (root, terms::plan(words, all))));
    Ok(plans)
}
