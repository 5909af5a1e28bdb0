//! Sessions: bounded, durable retrieval loops (retrieval semantics §4, §6 and §7).
//!
//! A [`declaration`] opens one, with the caller's [`fields`]. Each output of a model is read by [`output`] against the
//! declared [`schema`], [`machine`] decides what follows, and [`prompt`] makes the next prompt.
//!
//! What always holds: at most `maxRounds` rounds retrieve and at most one more call is made; the schema is the grant,
//! so what it does not declare is never run; contents cannot forge the frame that the prompt puts around them.

pub mod declaration;
pub mod fields;
pub mod machine;
pub mod output;
pub mod prompt;
pub mod schema;
