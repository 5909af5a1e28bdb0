//! Metatags: the typed attributes of files, and the dictionary of terms that they are searched by.
//!
//! A metatag's type follows from its JSON value ([`value`]). What a value can be found by are its terms ([`terms`]), of
//! which each distinct one of a tenant is stored once ([`ops::intern`]); a file's row holds the numbers of its terms. So
//! `contains` looks through the few distinct terms of a metatag, and not through the many files.
//!
//! It always holds that a live file has one row in `file_tags`, with `{}` where it has no metatags, and that the row's
//! `term_ids` are the sorted numbers of exactly the terms of its `tags`.

pub mod front_matter;
pub mod ops;
mod store;
pub mod terms;
pub mod value;

pub use value::{TagType, Tags};
