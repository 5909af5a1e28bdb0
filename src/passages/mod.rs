//! Passages: the head versions of text files, cut into pieces that a gateway can rank and cite (corpora, "Our own
//! gateway"; database, "Shape").
//!
//! [`cut`] cuts a text. [`ops`] keeps the pieces, and searches them; [`terms`] weighs the words of a question.
//!
//! Passages are kept only for what is searched: a *root* is a folder that a published corpus lies in, and each file below
//! a root has its passages there. Cutting every file of every slate would cost each load of files, most of which no gateway
//! ever searches.
//!
//! What always holds: a file that is below a root, is text and is not hidden has the passages of its head version, written
//! in the transaction that made that its head; any other file has none.

pub mod cut;
pub mod file;
pub mod ops;
mod store;
pub mod terms;

pub use file::{File, Hit, Home};
