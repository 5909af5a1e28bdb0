//! A query: the modes of a request, outside of any session (REST contract, "Slates").
//!
//! A query has pages. Each is a transaction of its own that reads the items and writes their record.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Declared, Opened, follow, open, read_contents, search};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::hex::hex;
use crate::item::ItemStatus;
use crate::path::FolderPath;
use crate::provenance;
use crate::provenance::ops::NewRecord;
use crate::provenance::record::{Item, Kind};
use crate::retrieval::budget::{Budget, Candidate, Context, Verdict, decide};
use crate::retrieval::found::{After, Ahead, FoundItem, Placed, Scope, Window};
use crate::retrieval::request::Request;
use crate::retrieval::view::{ItemView, encoded};

/// What is asked.
#[derive(Debug, Clone)]
pub struct Query {
    /// The slate's name.
    pub slate: String,
    /// The declared folder.
    pub folder: FolderPath,
    /// Whether `metatag` and `glob` look at the folders below as well.
    pub recursive: bool,
    /// The modes.
    pub request: Request,
    /// The request as it was sent, which is what is recorded.
    pub sent: Value,
}

impl Query {
    /// Tells this query from others, in a cursor.
    pub fn digest(&self) -> String {
        let Request { files, subfolders, metatag, glob, filter } = &self.request;
        let filter = filter.as_ref().map(|filter| format!("{filter:?}"));
        let metatag = metatag.as_ref().map(|test| (&test.name, &test.contains));
        let all = json!([self.slate, self.folder, self.recursive, files, subfolders, metatag, glob, filter]);
        hex(&Sha256::digest(all.to_string())[..8])
    }
}

/// Where a page begins.
#[derive(Debug, Clone)]
pub struct Start {
    /// What it begins after.
    pub after: After,
    /// What of it has been found already.
    pub ahead: Ahead,
    /// What may still be given.
    pub budget: Budget,
}

impl Start {
    /// A page that nothing has been found of yet.
    pub fn new(after: After, budget: Budget) -> Start {
        Start { after, ahead: Ahead::default(), budget }
    }
}

/// Which page of it.
#[derive(Debug, Clone)]
pub struct Part {
    /// Where it begins.
    pub start: Start,
    /// The most items.
    pub limit: usize,
    /// Past so many bytes of contents the page ends; its first item may have more.
    pub bytes: i64,
    /// How many files are found on the way for the pages after it.
    pub ahead: usize,
}

/// What a page is to give, before contents are read.
#[derive(Debug)]
pub struct Chosen {
    scope: Scope,
    given: Vec<(FoundItem, ItemStatus)>,
    /// Contents that were read on the way.
    contents: HashMap<Vec<u8>, Vec<u8>>,
    /// Where the next page begins; none after the last.
    pub next: Option<Start>,
    /// Whether a limit left something out.
    pub truncated: bool,
    /// What may be given hereafter.
    pub budget: Budget,
}

impl Chosen {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.given.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }
}

/// What a page gives, before it is recorded: all its contents have been read.
#[derive(Debug)]
pub struct Gathered {
    /// The items.
    pub chosen: Chosen,
}

impl Gathered {
    /// The items of its record.
    pub fn record(&self, now: DateTime<Utc>) -> Vec<Item> {
        let Chosen { scope, given, .. } = &self.chosen;
        given.iter().map(|(item, status)| item.record(scope, *status, now)).collect()
    }

    /// The items as they are given, those of this record.
    pub fn views(self, record: Uuid) -> Vec<ItemView> {
        let Gathered { chosen: Chosen { scope, given, mut contents, .. } } = self;
        let files = given.iter().filter(|(item, status)| wanted(item, *status).is_some()).count();
        let no_two_alike = files == contents.len();
        let mut text = |item: &FoundItem, status| {
            let FoundItem::File(file) = item else { return None };
            let hash = wanted(item, status)?;
            let bytes = if no_two_alike { contents.remove(hash) } else { contents.get(hash).cloned() };
            bytes.map(|bytes| encoded(bytes, file.is_text))
        };
        let view = |(i, (item, status)): (usize, (FoundItem, ItemStatus))| {
            let text = text(&item, status);
            ItemView::new(&scope, item, status, text, (record, i + 1))
        };
        given.into_iter().enumerate().map(view).collect()
    }
}

/// Finds what a page is to give.
///
/// # Errors
/// Those of the database.
pub fn choose(tx: &mut Tx, opened: Opened, request: &Request, part: Part) -> Result<Chosen> {
    let Part { start, limit, bytes: most, ahead } = part;
    let scope = opened.scope().clone();
    let mut found = match start.ahead.files() {
        [] => {
            let window = Window { after: start.after.clone(), limit, count: false, ahead, contents: true };
            search(tx, opened, request, &window)?
        }
        _ => follow(tx, &scope, start.ahead.clone(), limit)?,
    };
    let mut budget = start.budget;
    let mut bytes = 0;
    let mut given: Vec<(FoundItem, ItemStatus)> = Vec::with_capacity(found.items.len());
    let mut next = found.next;
    let mut last = None;
    for Placed { after, item } in found.items {
        let before = budget;
        let (status, cost) = status(&item, &mut budget);
        if bytes + cost > most && !given.is_empty() {
            (next, budget) = (last, before);
            break;
        }
        bytes += cost;
        given.push((item, status));
        last = Some(after);
    }
    let truncated = given.iter().any(|(item, status)| match item {
        FoundItem::File(_) => *status == ItemStatus::Omitted,
        FoundItem::Listing(listing) => listing.truncated,
        FoundItem::Missing(_) => false,
    });
    match &next {
        Some(After::Key(key)) => found.ahead.pass(key),
        _ => found.ahead = Ahead::default(),
    }
    let next = next.map(|after| Start { after, ahead: found.ahead, budget });
    Ok(Chosen { scope, given, contents: found.contents, next, truncated, budget })
}

/// Finds what a page gives, and reads it.
///
/// # Errors
/// Those of the database.
pub fn gather(tx: &mut Tx, scope: Scope, request: &Request, part: Part) -> Result<Gathered> {
    let chosen = choose(tx, scope.into(), request, part)?;
    read(tx, chosen)
}

fn read(tx: &mut Tx, mut chosen: Chosen) -> Result<Gathered> {
    let hashes: Vec<&[u8]> = chosen.given.iter().filter_map(|(item, status)| wanted(item, *status)).collect();
    read_contents(tx, &hashes, &mut chosen.contents)?;
    // What is not given is dropped: a page may have read more than it gives.
    let wanted: HashSet<&[u8]> = hashes.into_iter().collect();
    chosen.contents.retain(|hash, _| wanted.contains(&hash[..]));
    Ok(Gathered { chosen })
}

/// A page that is recorded.
#[derive(Debug)]
pub struct Page {
    /// What it gives.
    pub gathered: Gathered,
    /// The record; the nil id of a page that gives nothing, which has none.
    record: Uuid,
}

impl Page {
    /// The items as they are given.
    pub fn items(self) -> Vec<ItemView> {
        self.gathered.views(self.record)
    }
}

/// Finds what a page of a query is to give.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when there is no such slate or folder.
pub fn choose_page(tx: &mut Tx, ctx: &Ctx, query: &Query, part: Part) -> Result<Chosen> {
    let declared = Declared { slate: &query.slate, folder: &query.folder, recursive: query.recursive };
    // Of what has been found already, nothing need be looked up.
    let nothing = Request::default();
    let request = if part.start.ahead.files().is_empty() { &query.request } else { &nothing };
    let opened = open(tx, ctx, declared, request, true)?.ok_or_else(Error::not_found)?;
    choose(tx, opened, &query.request, part)
}

/// Gives a page that was chosen, maybe in another transaction, and records it.
///
/// # Errors
/// [`Code::Conflict`](crate::error::Code::Conflict) when a file of it was purged since.
pub fn give(tx: &mut Tx, ctx: &Ctx, query: &Query, chosen: Chosen) -> Result<Page> {
    let gathered = read(tx, chosen)?;
    if gathered.chosen.is_empty() {
        return Ok(Page { gathered, record: Uuid::nil() });
    }
    let scope = &gathered.chosen.scope;
    let new = NewRecord {
        kind: Kind::Query,
        link: None,
        slate: Some(&scope.slate),
        folder: Some(scope.folder.as_str()),
        recursive: scope.recursive,
        request: Some(&query.sent),
        items: gathered.record(ctx.now),
    };
    let record = provenance::ops::record(tx, ctx, new)?.record.id;
    Ok(Page { gathered, record })
}

/// What becomes of an item, and the bytes of contents that it takes.
fn status(item: &FoundItem, budget: &mut Budget) -> (ItemStatus, i64) {
    match item {
        FoundItem::File(file) => {
            let candidate = Candidate {
                file_id: file.file_id,
                version: file.version,
                sha256: &file.sha256,
                cost: file.size,
            };
            match decide(&[candidate], &Context::default(), budget)[..] {
                [Verdict::Fetched] => (ItemStatus::Fetched, file.size),
                _ => (ItemStatus::Omitted, 0),
            }
        }
        FoundItem::Listing(_) => (ItemStatus::Listing, 0),
        FoundItem::Missing(_) => (ItemStatus::NotFound, 0),
    }
}

fn wanted(item: &FoundItem, status: ItemStatus) -> Option<&[u8]> {
    match item {
        FoundItem::File(file) if status == ItemStatus::Fetched => Some(&file.sha256),
        _ => None,
    }
}
