//! A file on its way in: what a writer says, and what that makes of the file that is there.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use super::head::{Head, media_type_of};
use crate::authority::Authority;
use crate::error::{Error, Result};
use crate::folders::Folder;
use crate::metatags::Tags;
use crate::path::FilePath;

/// The most bytes of one file.
pub const MAX_CONTENTS: usize = 64 * 1024 * 1024;

/// Contents of at most so many bytes are kept in the row of the file whose head they are; two such rows fit a page.
pub const IN_ROW: usize = 3072;

/// The contents of a file that JSON gives, as text or as bytes in base64.
///
/// # Errors
/// With a pointer, when both or neither are given, or the base64 is none.
pub fn contents_of(content: Option<String>, content_base64: Option<String>) -> Result<Bytes> {
    match (content, content_base64) {
        (Some(text), None) => Ok(text.into()),
        (None, Some(text)) => BASE64_STANDARD
            .decode(text)
            .map(Bytes::from)
            .map_err(|error| Error::invalid_at("/content_base64", format!("is not base64: {error}"))),
        _ => Err(Error::invalid_at("/content", "exactly one of `content` and `content_base64` is needed")),
    }
}

/// Whose word the metatags of a write are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tagging {
    /// The caller's, who gives all that the file is to have.
    #[default]
    Whole,
    /// Those of the file's source, which owns what it sets: they are set, those that it set before and names no more are taken
    /// away, and all others stay.
    OfSource,
    /// Those of the file's source, and no others stay.
    OfSourceAlone,
}

/// A file to write. What is `None` stays as it is, or takes its default where the file is new.
#[derive(Debug, Clone)]
pub struct Write {
    /// Where.
    pub path: FilePath,
    /// The exact bytes.
    pub contents: Bytes,
    /// Told by the name where it is not given.
    pub media_type: Option<String>,
    /// Its metatags.
    pub tags: Option<Tags>,
    /// Whose word they are.
    pub tagging: Tagging,
    /// Its own authority.
    pub authority: Option<Authority>,
    /// Whether readers are kept from it.
    pub sensitive: Option<bool>,
    /// When the source last changed.
    pub source_modified_at: Option<DateTime<Utc>>,
    /// The source's own version.
    pub source_version: Option<String>,
}

impl Write {
    /// Contents at a path, and nothing else said.
    pub fn new(path: FilePath, contents: impl Into<Bytes>) -> Write {
        Write {
            path,
            contents: contents.into(),
            media_type: None,
            tags: None,
            tagging: Tagging::Whole,
            authority: None,
            sensitive: None,
            source_modified_at: None,
            source_version: None,
        }
    }
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What it is now.
    pub head: Head,
    /// Whether the path was new.
    pub created: bool,
    /// Whether anything changed: the same bytes and settings again change nothing.
    pub changed: bool,
}

/// One entry of a batch on its way into the database.
pub(super) struct Entry<'a> {
    pub write: &'a Write,
    pub folder: &'a Folder,
    pub sha256: Vec<u8>,
    pub media_type: String,
    pub is_text: bool,
    pub head: Option<Head>,
    /// All metatags that it is to have; those that it has, where none are given.
    pub tags: Option<Cow<'a, Tags>>,
    /// The version to write: its file and its number.
    pub next: Option<(i64, i64)>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(write: &'a Write, folder: &'a Folder, head: Option<Head>) -> Entry<'a> {
        let is_text = !write.contents.contains(&0) && std::str::from_utf8(&write.contents).is_ok();
        let media_type = write
            .media_type
            .clone()
            .or_else(|| head.as_ref().map(|head| head.media_type.clone()))
            .unwrap_or_else(|| media_type_of(write.path.name().as_str()));
        let sha256 = Sha256::digest(&write.contents).to_vec();
        let tags = write.tags.as_ref().map(Cow::Borrowed);
        Entry { write, folder, sha256, media_type, is_text, head, tags, next: None }
    }

    /// The contents, where they are small enough for the row of the file.
    pub(super) fn in_row(&self) -> Option<&'a [u8]> {
        (self.write.contents.len() <= IN_ROW).then_some(&*self.write.contents)
    }

    /// The names of the metatags that its source sets, where they are those of its source.
    pub(super) fn of_source(&self) -> Option<Vec<&'a str>> {
        let tags = self.write.tags.as_ref().filter(|_| self.write.tagging != Tagging::Whole)?;
        Some(tags.as_map().keys().map(String::as_str).collect())
    }

    /// The head whose contents these replace.
    pub(super) fn replaced(&self) -> Option<&Head> {
        self.head.as_ref().filter(|head| head.sha256 != self.sha256)
    }

    pub(super) fn settings_differ(&self) -> bool {
        self.head.as_ref().is_none_or(|head| {
            self.write.authority.is_some_and(|given| head.authority != Some(given))
                || self.write.sensitive.is_some_and(|given| head.sensitive != given)
                || head.media_type != self.media_type
        })
    }

    pub(super) fn contents_differ(&self) -> bool {
        self.head.as_ref().is_none_or(|head| {
            head.sha256 != self.sha256
                || self.write.source_version.as_ref().is_some_and(|v| head.source_version.as_ref() != Some(v))
        })
    }
}
