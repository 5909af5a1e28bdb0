//! Archives: a `.tar.gz` or `.zip` loaded into a slate, and a slate as a `.tar.gz` (REST contract, "Slates").
//!
//! * [`read`] takes an archive apart, entry by entry, and trusts nothing in it. [`write`] makes the entries of one.
//! * What a tar has no field for stands in its extended headers (`record`), so that no name in an archive is ours and
//!   none of a user's can collide with it; other programs unpack the files and pass over the rest.
//! * [`runner`] moves batches between an archive and the database, each in a transaction of its own, by the one path that
//!   all writes take. No connection is held while an archive is read or sent, and nothing but a batch is in memory.
//! * The same bytes write nothing, so a load that was interrupted goes on by being run again.

pub mod answer;
pub mod api;
pub mod ops;
mod pax;
pub mod read;
mod record;
pub mod runner;
mod store;
mod write;

pub use record::{End, FileRecord, FolderRecord};
