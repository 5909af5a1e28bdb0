//! Files: named documents in folders, and the paths that name them (retrieval semantics §2).
//!
//! A path is parsed once, into [`path::FilePath`] or [`path::FolderPath`], and is never checked nor normalised again.

pub mod path;
