//! What the extended headers of an exported archive say of a slate, a folder and a file: JSON, one record each.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::authority::Authority;

/// The key of a [`FileRecord`].
pub const FILE: &str = "SLATEBASE.file";
/// The key of a [`FolderRecord`].
pub const FOLDER: &str = "SLATEBASE.folder";
/// The key of the slate's settings, with the first entry.
pub const SLATE: &str = "SLATEBASE.slate";
/// The key of an [`End`], with the last entry.
pub const END: &str = "SLATEBASE.end";

/// What a file is, apart from its path and bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Media type of the contents.
    pub media_type: String,
    /// Its own authority, if it has one.
    pub authority: Option<Authority>,
    /// Whether it is marked sensitive.
    pub sensitive: bool,
    /// When the source of the contents last changed.
    pub source_modified_at: Option<DateTime<Utc>>,
    /// The source's own version.
    pub source_version: Option<String>,
    /// All of its metatags.
    pub metatags: Map<String, Value>,
}

/// The settings of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderRecord {
    /// Of all below it that say nothing else.
    pub authority: Option<Authority>,
    /// Whether it is marked sensitive.
    pub sensitive: bool,
}

/// How an export ended. An archive that begins as an export and has no such record ended early.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Files in the archive.
    pub files: u64,
    /// Folders in the archive, beside the one that was exported.
    pub folders: u64,
    /// Files that are kept from readers, and so are not in it.
    pub left_out: u64,
}
