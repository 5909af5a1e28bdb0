//! Folders: the tree of a slate (retrieval semantics §1 and §2).
//!
//! The root of a slate is a row whose path is `""`. A name is a folder or a file in its parent, never both: whoever makes
//! a folder locks its parent's row, which everyone who makes a file there holds shared, and then looks. So neither can
//! slip past the other.
//!
//! A folder is *hidden* when it or one above it is marked sensitive, or the tenant's deny globs match it; so is a file.
//! The flag is kept on the rows ([`ops::rehide`]), so that a search needs to test nothing else.

pub mod api;
mod folder;
pub mod ops;
mod store;

pub use folder::Folder;
