//! Routes: what is packed for a session before its model speaks, and which tools it has (corpora, "Route").
//!
//! [`version`] is what routes and capabilities have in common: a version of one, once published, never changes. [`route`]
//! is what a route says.
//!
//! What always holds: a published version keeps its contents for ever; all that may still change is whether it is
//! `published` or `deprecated`. A scope holds ids of corpora, never URLs.

pub mod api;
pub mod ops;
pub mod route;
mod store;
pub mod version;
