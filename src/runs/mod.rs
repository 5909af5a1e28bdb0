//! Loops that the service runs itself, and watching any session (retrieval semantics §7, REST contract, "Sessions").
//!
//! [`ops::start`] makes the service the caller of a session's model, any chat endpoint that speaks as OpenAI's does. From
//! then on [`runner`], in whichever server comes first, asks the model with the session's prompt ([`chat`]), stores the
//! answer, and submits it through the very code that takes a client's round.
//!
//! What always holds:
//!
//! * an answer is stored before anything is done about it, so that none is paid for twice once it was received;
//! * a run belongs to the server that holds its lease, and to another seconds after that one has died;
//! * no connection to the database is held while a model is waited for;
//! * what follows from an answer or from a failure is decided by [`machine`] and [`spending`], which are pure;
//! * a run reads with the rights of the key that asked for it, for as long as that key is live.
//!
//! Deliberately absent: a way for clients to take rounds of a session that is run (409 until it has ended), and runs
//! without a session.

pub mod api;
pub mod chat;
pub mod machine;
pub mod model;
pub mod ops;
pub mod runner;
pub mod spending;
mod store;
pub mod view;
