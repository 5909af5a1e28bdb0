//! What a request looks in, and what it found there.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::authority::Authority;
use crate::item::Mode;
use crate::item::{Hint, IndexEntry, ItemStatus};
use crate::path::FolderPath;
use crate::provenance::confidence::Freshness;
use crate::provenance::record::{FileVersion, Item, REFUSED};

/// The declared folder: what a request can see, and what holds for all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The slate's number.
    pub slate_id: i64,
    /// The slate's name.
    pub slate: String,
    /// The folder's number.
    pub folder_id: i64,
    /// The folder, from the slate's root.
    pub folder: FolderPath,
    /// Whether `metatag` and `glob` look at the folders below as well.
    pub recursive: bool,
    /// The slate's authority.
    pub authority: Authority,
    /// Whether the slate's documents grow stale with age.
    pub volatile: bool,
    /// The age in seconds past which they are stale.
    pub max_age_seconds: Option<i64>,
}

impl Scope {
    /// That of a folder that is not there, for the record of what was asked for in it.
    pub fn nowhere(slate: &str, folder: FolderPath) -> Scope {
        Scope {
            slate_id: 0,
            slate: slate.to_owned(),
            folder_id: 0,
            folder,
            recursive: false,
            authority: Authority::default(),
            volatile: false,
            max_age_seconds: None,
        }
    }

    /// A path of the slate as a request in this scope writes it.
    pub fn relative<'a>(&self, path: &'a str) -> &'a str {
        match self.folder.as_str() {
            "" => path,
            folder => path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path),
        }
    }
}

/// Where in a result's order something comes after: first what was asked for by name, then all other files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum After {
    /// So many of the entries of `files` and `subfolders`, repeated ones left out.
    Asked(usize),
    /// The files in order up to this key: in a direct search the name, in a recursive one the path from the slate's root.
    Key(String),
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// What it begins after.
    pub after: After,
    /// How many items it may have.
    pub limit: usize,
    /// Whether what lies beyond it is to be counted.
    pub count: bool,
    /// How many files beyond it are to be found on the way.
    pub ahead: usize,
    /// Whether contents are to be read on the way.
    pub contents: bool,
}

/// A file that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Its number.
    pub id: i64,
    /// Its folder's number.
    pub folder_id: i64,
    /// What results are ordered by: [`After::Key`].
    pub key: String,
    /// The bits of the modes that matched it.
    pub bits: i16,
}

/// Files that a search found on the way, for the windows after its own: each is read without that anything is searched
/// and sorted anew. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ahead {
    /// In order.
    matches: Arc<[Match]>,
    /// How many of them are behind.
    behind: usize,
    /// Whether there are others beyond.
    pub more: bool,
}

impl Ahead {
    /// What a search has found, in order.
    pub fn new(matches: Vec<Match>, more: bool) -> Ahead {
        Ahead { matches: matches.into(), behind: 0, more }
    }

    /// The files that come next.
    pub fn files(&self) -> &[Match] {
        &self.matches[self.behind..]
    }

    /// Goes on behind this key.
    pub fn pass(&mut self, key: &str) {
        self.behind += self.files().partition_point(|file| file.key.as_str() <= key);
    }
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its number.
    pub file_id: i64,
    /// Its path from the slate's root.
    pub path: String,
    /// The head's version.
    pub version: i64,
    /// Bytes of the contents.
    pub size: i64,
    /// SHA-256 of the contents.
    pub sha256: Vec<u8>,
    /// Media type of the contents.
    pub media_type: String,
    /// UTF-8 without U+0000.
    pub is_text: bool,
    /// The bits of the modes that matched it.
    pub matched_by: i16,
    /// By the nearest word: the file's, its folders', the slate's.
    pub authority: Authority,
    /// When the source was last modified, or else when the version was written.
    pub last_modified: DateTime<Utc>,
}

/// A folder's index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The entry of `subfolders`, as it was written.
    pub asked: String,
    /// In byte order of the names as they are printed.
    pub entries: Vec<IndexEntry>,
    /// Whether entries were left out.
    pub truncated: bool,
}

/// Something that was asked for by name and cannot be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What was asked for, as it was written.
    pub asked: String,
    /// [`Mode::Files`] or [`Mode::Subfolders`].
    pub mode: Mode,
    /// The first misses of a result explain themselves.
    pub hint: Option<Hint>,
    /// It is there and is kept from every reader. Only the record says so.
    pub refused: bool,
}

/// One item of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundItem {
    /// A file.
    File(FoundFile),
    /// A folder's index.
    Listing(Listing),
    /// A miss.
    Missing(Missing),
}

impl FoundItem {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&FoundFile> {
        match self {
            FoundItem::File(file) => Some(file),
            _ => None,
        }
    }

    /// The item's path as it is given out: a file's from the declared folder, else what was asked for.
    pub fn path<'a>(&'a self, scope: &Scope) -> &'a str {
        match self {
            FoundItem::File(file) => scope.relative(&file.path),
            FoundItem::Listing(listing) => &listing.asked,
            FoundItem::Missing(missing) => &missing.asked,
        }
    }

    /// The bits of the modes that matched it.
    pub fn matched_by(&self) -> i16 {
        match self {
            FoundItem::File(file) => file.matched_by,
            FoundItem::Listing(_) => Mode::Subfolders.bit(),
            FoundItem::Missing(missing) => missing.mode.bit(),
        }
    }

    /// The item as a record holds it. `status` is what became of a file, and counts for nothing else.
    pub fn record(&self, scope: &Scope, status: ItemStatus, now: DateTime<Utc>) -> Item {
        match self {
            FoundItem::File(file) => Item {
                file: Some(FileVersion {
                    file_id: file.file_id,
                    version: file.version,
                    path: file.path.clone(),
                    size: file.size,
                    sha256: file.sha256.clone(),
                }),
                status: status.code(),
                matched_by: file.matched_by,
                authority: file.authority.code(),
                freshness: Freshness::of(
                    Some(file.last_modified),
                    scope.volatile,
                    scope.max_age_seconds,
                    now,
                )
                .code(),
                asked: None,
                detail: None,
            },
            FoundItem::Listing(listing) => {
                named(&listing.asked, Mode::Subfolders, ItemStatus::Listing.code(), scope)
            }
            FoundItem::Missing(missing) => {
                let status = if missing.refused { REFUSED } else { ItemStatus::NotFound.code() };
                named(&missing.asked, missing.mode, status, scope)
            }
        }
    }
}

fn named(asked: &str, mode: Mode, status: i16, scope: &Scope) -> Item {
    Item {
        file: None,
        status,
        matched_by: mode.bit(),
        authority: scope.authority.code(),
        freshness: Freshness::Unknown.code(),
        asked: Some(asked.to_owned()),
        detail: None,
    }
}

/// An item, and where the result goes on after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where the result goes on.
    pub after: After,
    /// The item.
    pub item: FoundItem,
}

/// How many files match, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files.
    pub files: i64,
    /// Bytes of their heads.
    pub bytes: i64,
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// In the order of retrieval semantics §3.8.
    pub items: Vec<Placed>,
    /// Contents that were read on the way, by their SHA-256: small ones all.
    pub contents: HashMap<Vec<u8>, Vec<u8>>,
    /// Where the rest begins; none where there is none. Of what was found some may have gone since, so that there is a
    /// rest although there are no items.
    pub next: Option<After>,
    /// The files of the window and, where they were to be found, those beyond, but for what was asked for by name.
    pub ahead: Ahead,
    /// The files beyond the window, where they were to be counted; of more than [`MAX_COUNTED`], that many.
    pub beyond: Totals,
    /// The number of files that match, in the window and beyond; none when they are more than [`MAX_COUNTED`], or
    /// were not to be counted.
    pub total: Option<i64>,
}

/// How far matches are counted.
pub const MAX_COUNTED: i64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_given_out_from_the_declared_folder() {
        let mut scope = Scope {
            slate_id: 1,
            slate: "K".into(),
            folder_id: 1,
            folder: FolderPath::parse("a/b").unwrap(),
            recursive: true,
            authority: Authority::Medium,
            volatile: false,
            max_age_seconds: None,
        };
        assert_eq!(scope.relative("a/b/c/d.md"), "c/d.md");
        scope.folder = FolderPath::root();
        assert_eq!(scope.relative("a/b/c/d.md"), "a/b/c/d.md");
    }

    #[test]
    fn a_place_goes_round() {
        for after in [After::Asked(3), After::Key("a/é".into())] {
            let text = serde_json::to_string(&after).unwrap();
            assert_eq!(serde_json::from_str::<After>(&text).unwrap(), after);
        }
    }
}
