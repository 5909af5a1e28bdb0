//! What passages are of: files, in their slate; and what is told of a passage that was found.

use chrono::{DateTime, Utc};

use crate::authority::Authority;

/// The slate that files are in.
#[derive(Debug, Clone, Copy)]
pub struct Home<'a> {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: &'a str,
    /// How its texts are split into words: a name of Postgres's text-search configurations.
    pub language: &'a str,
}

/// The head version of a file.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// Its number.
    pub id: i64,
    /// Its path from the slate's root.
    pub path: &'a str,
    /// Media type of the contents, which tells how they are cut.
    pub media_type: &'a str,
    /// The contents; none where it is to have no passages.
    pub text: Option<&'a str>,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The file's number.
    pub file_id: i64,
    /// Which passage of its file it is, from 1.
    pub position: i32,
    /// The file's path from the slate's root.
    pub path: String,
    /// Its text, exactly.
    pub text: String,
    /// Its first and last line, from 1.
    pub lines: (u64, u64),
    /// How well it fits; 0 where nothing was ranked.
    pub score: f64,
    /// The file's head version.
    pub version: i64,
    /// Bytes of that version.
    pub size: i64,
    /// SHA-256 of that version.
    pub sha256: Vec<u8>,
    /// The authority of the file, or of its folder, where either has one.
    pub authority: Option<Authority>,
    /// When the source was last modified, or else when the version was written.
    pub last_modified: DateTime<Utc>,
}
