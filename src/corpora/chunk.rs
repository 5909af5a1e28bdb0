//! A passage as a gateway gives it (corpora, "Our own gateway").

use chrono::{DateTime, Utc};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Result;
use crate::item::ItemStatus;
use crate::passages::Hit;
use crate::path::FolderPath;
use crate::provenance::citation::reference;
use crate::provenance::confidence::Freshness;
use crate::provenance::contract::Detail;
use crate::provenance::lines::LineRange;
use crate::provenance::record::{FileVersion, Item};
use crate::slates::Slate;

/// What a chunk's id escapes: it stands in brackets, in a line of its own.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'#').add(b'[').add(b']');

/// A passage that a search gives.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Chunk {
    /// Names it among the corpus's passages: its file's path from the corpus's folder, escaped, and its number there.
    #[schema(example = "refunds.md#1")]
    pub id: String,
    /// Its text, exactly as it is in the file.
    #[schema(example = "# Refunds\n\nThe refund window is 30 days.")]
    pub text: String,
    /// The file's path from the slate's root.
    #[schema(example = "policies/refunds.md")]
    pub path: String,
    /// The file's head version.
    #[schema(example = 1)]
    pub version: i64,
    /// How well it fits the goal; 0 where the goal ranks nothing.
    #[schema(example = 1.25)]
    pub score: f64,
    /// The lines that it stands in; retrieves them again.
    #[schema(example = "slate://Knowledge/policies/refunds.md@1#L1-3")]
    pub citation: String,
}

/// A passage that was found, to be given and to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// What is given.
    pub chunk: Chunk,
    /// The item of a record.
    pub item: Item,
}

/// What is given and recorded of a passage of a slate's file, found in a corpus's folder.
///
/// # Errors
/// None that can be met.
pub fn given(hit: Hit, slate: &Slate, folder: &FolderPath, now: DateTime<Utc>) -> Result<Given> {
    let prefix = if folder.is_root() { 0 } else { folder.as_str().len() + 1 };
    let relative = hit.path.get(prefix..).unwrap_or(&hit.path);
    let lines = LineRange::new(hit.lines.0, hit.lines.1);
    let freshness = Freshness::of(Some(hit.last_modified), slate.volatile, slate.max_age_seconds, now);
    let detail = Detail::Slice { lines: lines.to_string(), returned_size: hit.text.len() as i64 };
    Ok(Given {
        chunk: Chunk {
            id: format!("{}#{}", utf8_percent_encode(relative, ESCAPED), hit.position),
            path: hit.path.clone(),
            version: hit.version,
            // No more digits than mean anything.
            score: (hit.score * 1e6).round() / 1e6,
            citation: format!("{}#L{lines}", reference(&slate.name, &hit.path, hit.version)),
            text: hit.text,
        },
        item: Item {
            status: ItemStatus::Fetched.code(),
            matched_by: 0,
            authority: hit.authority.or(slate.authority).unwrap_or_default().code(),
            freshness: freshness.code(),
            asked: None,
            detail: Some(detail.text()?),
            file: Some(FileVersion {
                file_id: hit.file_id,
                version: hit.version,
                path: hit.path,
                size: hit.size,
                sha256: hit.sha256,
            }),
        },
    })
}
