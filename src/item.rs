//! The words of a result: how a thing was asked for and what became of it, as they go on the wire and into records
//! (retrieval semantics §3, §4, §6).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A way to ask for files. A request may use several; the result is their union.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By path.
    Files,
    /// The index of a folder.
    Subfolders,
    /// By a metatag, and text that its value contains.
    Metatag,
    /// By a pattern over names.
    Glob,
    /// By a filter tree.
    Where,
}

impl Mode {
    /// Every mode, in the order in which `matched_by` names them.
    pub const ALL: &[Mode] = &[Mode::Files, Mode::Subfolders, Mode::Metatag, Mode::Glob, Mode::Where];

    /// The member of a request that asks for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Files => "files",
            Mode::Subfolders => "subfolders",
            Mode::Metatag => "metatag",
            Mode::Glob => "glob",
            Mode::Where => "where",
        }
    }

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.iter().copied().find(|mode| mode.as_str() == name)
    }

    /// The bit by which searches and records remember it. Bits never change their meaning.
    pub fn bit(self) -> i16 {
        match self {
            Mode::Files => 1,
            Mode::Subfolders => 2,
            Mode::Metatag => 4,
            Mode::Glob => 8,
            Mode::Where => 16,
        }
    }

    /// The modes whose bits are set, in the order of [`Mode::ALL`].
    pub fn from_bits(bits: i16) -> Vec<Mode> {
        Mode::ALL.iter().copied().filter(|mode| bits & mode.bit() != 0).collect()
    }
}

/// The content of an item that names nothing.
pub const NOT_FOUND: &str = "(not found)";
/// The content of an item whose file the session has been given before.
pub const ALREADY_IN_CONTEXT: &str = "(already in context)";
/// The content of an item that would have passed a limit.
pub const OMITTED: &str = "(omitted: budget)";
/// The content of an item that was given once, where its bytes are no longer kept or may no longer be read.
pub const GONE: &str = "(gone)";

/// The content that stands for a file that is not text, inside a session. `size` is in bytes.
pub fn binary_note(media_type: &str, size: u64) -> String {
    format!("(binary file: {media_type}, {size} bytes)")
}

/// What became of one thing that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// A file, with its contents.
    Fetched,
    /// A file that this session was given before: it has no contents here.
    AlreadyInContext,
    /// Nothing is there, or nothing that may be read.
    NotFound,
    /// A file that would have passed a limit: it has no contents, and can be asked for again by name.
    Omitted,
    /// A folder's index.
    Listing,
}

impl ItemStatus {
    /// Every status, in the order of their codes.
    pub const ALL: &[ItemStatus] = &[
        ItemStatus::Fetched,
        ItemStatus::AlreadyInContext,
        ItemStatus::NotFound,
        ItemStatus::Omitted,
        ItemStatus::Listing,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ItemStatus::Fetched => "fetched",
            ItemStatus::AlreadyInContext => "already_in_context",
            ItemStatus::NotFound => "not_found",
            ItemStatus::Omitted => "omitted",
            ItemStatus::Listing => "listing",
        }
    }

    /// The number by which a record remembers it. Numbers never change their meaning.
    pub fn code(self) -> i16 {
        match self {
            ItemStatus::Fetched => 1,
            ItemStatus::AlreadyInContext => 2,
            ItemStatus::NotFound => 3,
            ItemStatus::Omitted => 4,
            ItemStatus::Listing => 5,
        }
    }

    /// The status with this [code](ItemStatus::code).
    pub fn from_code(code: i16) -> Option<ItemStatus> {
        ItemStatus::ALL.iter().copied().find(|status| status.code() == code)
    }

    /// The fixed content that goes with a status that has neither contents nor a listing.
    pub fn note(self) -> Option<&'static str> {
        match self {
            ItemStatus::NotFound => Some(NOT_FOUND),
            ItemStatus::AlreadyInContext => Some(ALREADY_IN_CONTEXT),
            ItemStatus::Omitted => Some(OMITTED),
            ItemStatus::Fetched | ItemStatus::Listing => None,
        }
    }
}

/// Why something reads `(not found)` (retrieval semantics §4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HintReason {
    /// The path could never name anything: an empty segment, `.`, `..`, a leading `/`, a backslash, a NUL, too long.
    InvalidPath,
    /// Nothing of that name is there.
    NoSuchFile,
    /// A folder is there, where a file was asked for.
    IsAFolder,
}

/// What a miss explains of itself. It never names what the caller may not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hint {
    /// Why nothing was found.
    pub reason: HintReason,
    /// Up to three names that are close to the one asked for, the nearest first.
    pub nearest: Vec<String>,
}

/// One entry of a folder's index (retrieval semantics §3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IndexEntry {
    /// The name of a file, or that of a folder followed by `/`.
    pub name: String,
    /// Bytes: of the file's head, or of everything below the folder (null when that is too much to add up).
    pub size: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_go_round() {
        for &status in ItemStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(ItemStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(ItemStatus::from_code(0), None);
    }

    #[test]
    fn a_hint_on_the_wire() {
        let hint = Hint { reason: HintReason::IsAFolder, nearest: vec!["a.md".into()] };
        assert_eq!(serde_json::to_string(&hint).unwrap(), r#"{"reason":"is_a_folder","nearest":["a.md"]}"#);
    }

    #[test]
    fn a_binary_file_is_described() {
        assert_eq!(binary_note("image/png", 7), "(binary file: image/png, 7 bytes)");
    }
}
