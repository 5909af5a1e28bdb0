//! Retrieval: what a request asks for, and the items that answer it (retrieval semantics §3 to §6).
//!
//! [`request`] parses a request into its modes, [`glob`] and [`contains`] translate patterns into SQL's, [`deny`]
//! does so for a tenant's deny globs, [`item`] names what came of each file, [`limits`] bounds how much comes back.
//!
//! What always holds: files are matched by SQL, never in the application; a pattern or text that a client sends is
//! escaped by one function for each target language, and nowhere else.

pub mod contains;
pub mod deny;
pub mod glob;
pub mod item;
pub mod limits;
pub mod request;
