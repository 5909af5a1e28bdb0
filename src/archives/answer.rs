//! What a load tells: a line for each entry, and one at the end.

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Error;
use crate::files::line::LineError;

/// The answer to one entry.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ImportEntry)]
pub struct EntryLine {
    /// Which entry of the archive, from 1.
    #[schema(example = 1)]
    pub entry: u64,
    /// The path in the slate, a folder's with a `/` at its end; the name in the archive where that is no path.
    #[schema(example = "docs/core.md")]
    pub path: Option<String>,
    /// 201, or 200 where the path existed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 201)]
    pub status: Option<u16>,
    /// The file's version now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 1)]
    pub version: Option<i64>,
    /// The metatags that the front matter gives as null, and so were not set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub null_metatags: Vec<String>,
    /// What of the front matter could not be read or set. The contents are loaded all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!([]))]
    pub warnings: Vec<String>,
    /// Why the entry was not loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<LineError>,
}

impl EntryLine {
    /// An entry of which nothing is told yet.
    pub fn new(entry: u64, path: Option<String>) -> EntryLine {
        EntryLine {
            entry,
            path,
            status: None,
            version: None,
            null_metatags: Vec::new(),
            warnings: Vec::new(),
            error: None,
        }
    }

    /// The same, not loaded.
    #[must_use]
    pub fn failed(self, error: &Error) -> EntryLine {
        EntryLine { error: Some(error.into()), ..self }
    }
}

/// The answer to all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ImportSummary)]
pub struct Summary {
    /// Files that were not there before.
    #[schema(example = 1)]
    pub new: u64,
    /// Files whose contents, metatags or settings changed.
    pub changed: u64,
    /// Files that were there already.
    pub unchanged: u64,
    /// Folders.
    #[schema(example = 1)]
    pub folders: u64,
    /// Bytes of the files.
    #[schema(example = 2048)]
    pub bytes: u64,
    /// Entries that were not loaded.
    pub failed: u64,
    /// Entries of whose front matter something could not be read or set.
    pub warned: u64,
    /// Whether the archive was read to its end.
    #[schema(example = true)]
    pub complete: bool,
    /// Whether the slate has the settings of the one that was exported. It gets them where it had no files.
    pub settings_restored: bool,
}

/// The last line.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ImportEnd)]
pub struct EndLine {
    /// What came of the whole.
    pub end: Summary,
}
