//! Provenance: the append-only record of every item that left through any front door (provenance, "The record and
//! re-retrieval").
//!
//! A response writes one [`record`], which names for each of its items the version, why it matched and what became of it.
//! Records of a session form a chain of hashes, whose end a finished session seals. An item is cited by its [`citation`],
//! and scored by rules in [`confidence`]; [`contract`] puts the whole output contract together from what is on record.
//!
//! What always holds: [`ops::record`] is the only writer, and is called in the transaction that gives the items; the
//! service has no right to change or remove a record.

pub mod api;
pub mod citation;
pub mod confidence;
pub mod contract;
pub mod lines;
pub mod ops;
pub mod received;
pub mod record;
mod store;
