//! The items of a round, put together from its record, the versions that it names, and the little that no version holds
//! (retrieval semantics §7.6). A first answer and every replay of it come from here.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::prompt::PromptItem;
use crate::hex::hex;
use crate::item::Mode;
use crate::item::{GONE, Hint, IndexEntry, ItemStatus, NOT_FOUND, binary_note};
use crate::provenance::citation::reference;
use crate::provenance::record::{Item, Record, provenance_id};
use crate::retrieval::view::{Content, ItemView};

/// A version that a record names, as it may be read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Media type of the contents.
    pub media_type: String,
    /// UTF-8 without U+0000.
    pub is_text: bool,
    /// It may no longer be read: purged, past the slate's retention, or kept from readers by now.
    pub gone: bool,
    /// The bytes, where they are text that is to be shown.
    pub data: Option<Vec<u8>>,
}

/// Versions by file and number.
pub type Versions = HashMap<(i64, i64), Held>;

/// What a round keeps beside its record, by the number of the item, from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aside {
    /// Indexes, as they were.
    pub listings: BTreeMap<usize, Index>,
    /// What misses explained.
    pub hints: BTreeMap<usize, Hint>,
    /// Repeated items whose file was no longer what is in context.
    pub repeats: BTreeMap<usize, Repeat>,
}

/// A folder's index, as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Its entries, in byte order.
    pub entries: Vec<IndexEntry>,
    /// Whether entries were left out.
    pub truncated: bool,
}

/// How the file of a repeated item differed from what is in context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// Its path from the slate's root, where that was another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its newest version, where the bytes of that were others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_version: Option<i64>,
}

/// The items of a round. The bytes that they show are taken out of `versions`.
pub fn items(record: &Record, versions: &mut Versions, aside: &Aside) -> Vec<ItemView> {
    (1..).zip(&record.items).map(|(n, item)| one(record, n, item, versions, aside)).collect()
}

fn one(record: &Record, n: usize, item: &Item, versions: &mut Versions, aside: &Aside) -> ItemView {
    // A refusal is a miss to all but the record.
    let status = ItemStatus::from_code(item.status).unwrap_or(ItemStatus::NotFound);
    let folder = record.folder.as_deref().unwrap_or_default();
    let mut view = ItemView {
        path: item.asked.clone().unwrap_or_default(),
        status,
        content: Content::Text(status.note().unwrap_or(NOT_FOUND).into()),
        matched_by: Mode::from_bits(item.matched_by),
        hint: aside.hints.get(&n).cloned(),
        provenance_id: provenance_id(record.id, n),
        size: None,
        version: None,
        sha256: None,
        media_type: None,
        encoding: None,
        changed: None,
        head_version: None,
        truncated: None,
        citation: None,
    };
    if let Some(index) = aside.listings.get(&n) {
        view.content = Content::Index(index.entries.clone());
        view.truncated = index.truncated.then_some(true);
    }
    let Some(file) = &item.file else { return view };
    let repeat = aside.repeats.get(&n).cloned().unwrap_or_default();
    view.path = relative(folder, repeat.path.as_deref().unwrap_or(&file.path)).into();
    view.size = Some(file.size);
    view.version = Some(file.version);
    view.sha256 = Some(hex(&file.sha256));
    view.citation = Some(reference(record.slate.as_deref().unwrap_or_default(), &file.path, file.version));
    view.changed = (status == ItemStatus::AlreadyInContext).then_some(repeat.head_version.is_some());
    view.head_version = repeat.head_version;
    if let Some(held) = versions.get_mut(&(file.file_id, file.version)) {
        view.media_type = Some(held.media_type.clone());
        if status == ItemStatus::Fetched {
            view.content = Content::Text(text(held, file.size));
        }
    }
    view
}

/// What stands for a version in a session.
pub fn text(held: &mut Held, size: i64) -> String {
    match held.data.take() {
        _ if held.gone => GONE.into(),
        Some(bytes) => {
            // Only bytes that are UTF-8 are marked as text.
            String::from_utf8(bytes)
                .unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned())
        }
        None if held.is_text => GONE.into(),
        None => binary_note(&held.media_type, size.unsigned_abs()),
    }
}

/// A path from the slate's root as one that is relative to the declared folder.
pub fn relative<'a>(folder: &str, path: &'a str) -> &'a str {
    path.strip_prefix(folder).map_or(path, |rest| rest.strip_prefix('/').unwrap_or(rest))
}

/// An item as the prompt shows it.
pub fn in_prompt(item: &ItemView) -> PromptItem<'_> {
    PromptItem {
        path: &item.path,
        version: item.version,
        status: item.status.as_str(),
        content: match &item.content {
            Content::Text(text) => text.as_str().into(),
            // Plain members only: it always is JSON.
            Content::Index(entries) => serde_json::to_string(entries).unwrap_or_default().into(),
        },
    }
}
