//! Sessions: bounded, durable retrieval loops (retrieval semantics §4, §6 and §7).
//!
//! A [`declaration`] opens one, with the caller's [`fields`]. Each output of a model is read by [`output`] against the
//! declared [`schema`], [`machine`] decides what follows, and [`prompt`] makes the next prompt.
//!
//! [`ops`] loads, decides by these and stores, all under a lock on the session's row; [`render`] puts a round's items
//! together from its record, the first time and whenever it is asked for again. [`runner`] opens those whose route packs corpora.
//!
//! What always holds: what became of a round commits whole or not at all, and once; at most `maxRounds` rounds retrieve
//! and at most one more call is made; the schema is the grant, so what it does not declare is never run; contents
//! cannot forge the frame that the prompt puts around them.

pub mod api;
pub mod declaration;
pub mod event;
pub mod fields;
pub mod instructions;
pub mod machine;
pub mod ops;
pub mod output;
pub mod prompt;
pub mod render;
pub mod runner;
pub mod schema;
mod store;
pub mod view;
