//! The command line: the real binary, over a database of the test's own.

#[path = "../api/support/cluster.rs"]
mod cluster;

mod archives;
mod bad_input;
mod bench;
mod demo;
mod documents;
mod mcp;
#[path = "../api/support/model.rs"]
#[allow(dead_code, reason = "it is shared with other tests")]
mod model;
mod operator;
mod retrieve;
mod secrets;
mod seed;
mod serve;
mod served;
mod session;
mod stream;
mod support;
