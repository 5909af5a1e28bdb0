//! What is taken out of a target (provenance, "Extraction"): of a text by [`lines`], then by sections of
//! [`markdown`] or [`code`]; of data by a schema, by JSONPath and by JSON Pointers ([`data`]).
//!
//! Parts of a text are in the order of the text, whole lines, and joined by one blank line.

pub mod code;
pub mod data;
pub mod lines;
pub mod markdown;
pub mod path;
