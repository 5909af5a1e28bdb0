//! Files: named documents in folders, with immutable versions (retrieval semantics §2).
//!
//! * A path is parsed once, into [`FilePath`](crate::path::FilePath) or [`FolderPath`](crate::path::FolderPath), and is never checked nor normalised again.
//! * Every write of contents goes through [`ops::write_many`], which takes many files at once; one file is a batch of one.
//! * A version's number is greater than all that its path ever had and than all that its file ever had, so that both
//!   (path, version) and (file, version) name one set of bytes for ever.
//! * Contents are stored once for each tenant and SHA-256, and go when no unpurged version has them.

pub mod api;
pub mod head;
pub mod line;
pub mod ops;
mod store;
pub mod version;
mod write;

pub use ops::{read, tagging};
