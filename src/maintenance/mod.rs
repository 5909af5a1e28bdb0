//! Keeping up: what the store sheds once nobody needs it.
//!
//! | what | when |
//! |---|---|
//! | bytes of deleted files' versions | their slate's `retention_days` are over; citations then read `gone` |
//! | finished sessions, their rounds and contexts | the tenant's `session_retention_days` are over; their sealed records stay |
//! | terms of the dictionary, names of metatags | no file has them any more |
//! | statistics | a tenth of a table has changed |
//!
//! What always holds: it works in small transactions, so that it can be interrupted and run again, and holds nobody up
//! for long; running it twice at once does no harm. `slatebase maintain` does it at once, `serve` now and then.

pub mod ops;
pub mod runner;
mod store;
