//! The `retrieve` capability: one identified thing of one source, with everything that is needed to trust it and to fetch
//! it again (provenance, "Input" to "Failures").
//!
//! A [`request`] names a target; one of the [`sources`] reads it; [`mod@format`] and [`extract`] make data of its bytes, in a
//! fixed order; [`answer`] puts the output contract together, and [`runner`] records it. A citation given back brings
//! the same bytes again, or says why not; a quote is looked for in what is cited ([`quote`]).
//!
//! What always holds: reading changes nothing at the source; a failure is an answer as well, with a record of its own;
//! what was asked and could not be done is a failure, never passed over.

pub mod answer;
pub mod api;
pub mod citations;
pub mod descriptor;
pub mod extract;
pub mod format;
pub mod json;
pub mod ops;
pub mod outcome;
pub mod quote;
pub mod registry;
pub mod request;
pub mod runner;
pub mod sources;
mod store;
pub mod target;
