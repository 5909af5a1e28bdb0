//! Retrieval: what a request asks for, and the items that answer it (retrieval semantics §3 to §6).
//!
//! [`request`] parses a request into its modes; [`glob`] and [`contains`] translate patterns into SQL's, [`deny`] does so
//! for a tenant's deny globs. [`modes`] compile a request to SQL, [`union`] puts what they select together, and
//! [`ops::search`] runs it in a declared folder ([`found`]). [`budget`] decides what of it is given, and [`item`](crate::item) and
//! [`view`] say in which words. A query outside of a session is [`ops::query`].
//!
//! What always holds: files are matched by SQL, never in the application; a pattern or text that a client sends is
//! escaped by one function for each target language, and nowhere else; all search statements leave through [`store`].
//! There is no cache: a result is what the database holds at that moment.

pub mod api;
pub mod budget;
pub mod contains;
pub mod deny;
pub mod facets;
pub mod filter;
pub mod found;
pub mod glob;
pub mod heads;
pub mod limits;
pub mod look;
pub mod modes;
pub mod nearest;
pub mod ops;
pub mod request;
pub mod sql;
pub mod store;
pub mod union;
pub mod view;

pub use found::Scope;
