//! The Model Context Protocol: what agents' own tools connect to.
//!
//! `/mcp` serves the slates that a key may touch as tools, resources and a prompt. `/mcp/sessions/{session_id}` serves one
//! session, whose rounds are calls: `retrieve` until the rounds are spent, and `answer`, which ends it. What always holds:
//!
//! * a call does what the operation of the API does, by the same use case in the same kind of transaction, and leaves the
//!   same records; a key without the scope sees no tool for it;
//! * whatever goes wrong with a call is a result that says what to do next, never a failure of the transport;
//! * an MCP session is bound to the key and the address that it was opened with, ends at its deadline, and is known to every
//!   server; to any other key it is unknown;
//! * a call of a session's tools that is sent again is the same round.

pub mod api;
pub mod ops;
mod runner;
mod store;
