//! Slates: the named knowledge bases of a tenant (retrieval semantics §1).
//!
//! A slate that was deleted keeps its number, and takes it up again when a slate of its name is made anew: a citation
//! names bytes by slate, path and version, and must never come to name others.

pub mod api;
pub mod ops;
pub mod slate;
mod store;

pub use slate::{NewSlate, Slate};
