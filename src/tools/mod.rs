//! Retrieve tools: named capabilities that a session calls over HTTP (corpora, "Retrieve tools").
//!
//! [`capability`] is what a version of one says. Versions are kept as those of routes are, in
//! [`routes`](crate::routes). [`runner::call`] makes a [`call`] within a session: [`payload`] says what is sent and what is
//! kept of the answer, [`ops`] checks both and stores the rest. The built-in `slate_retrieve` needs no other host.
//!
//! What always holds: a payload that does not satisfy the input schema is never sent; an answer that does not satisfy the
//! output schema is never stored; a goal never changes; no call names a corpus out of its route's scope.

pub mod api;
pub mod call;
pub mod capability;
pub mod ops;
pub mod payload;
pub mod runner;
