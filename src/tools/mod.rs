//! Retrieve tools: named capabilities that a session calls over HTTP (corpora, "Retrieve tools").
//!
//! [`capability`] is what a version of one says. Versions are kept as those of routes are, in
//! [`routes`](crate::routes).
//!
//! What always holds: a capability's schemas are checked before it is stored, so that what is called is always known.

pub mod api;
pub mod capability;
