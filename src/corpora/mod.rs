//! Corpora: what knowledge a route may pack before its model speaks (corpora, "Corpus").
//!
//! A [`corpus`] is a row of the tenant's catalogue, kept as it was given. Its `url` is a gateway at another host, or
//! `slate:<slate>/<folder>`: a corpus that this service serves itself. [`entry`] holds what all rows of the catalogue have
//! in common; a [`chunk`] is a passage as our own gateway gives it.
//!
//! What always holds: only a published corpus is ever used; a corpus in a slate is seen by those keys alone that may touch
//! the slate.

pub mod api;
pub mod chunk;
pub mod corpus;
pub mod entry;
pub mod ops;
pub mod pack;
pub mod runner;
mod store;
