//! Metatags: the typed attributes of files.

pub mod front_matter;
