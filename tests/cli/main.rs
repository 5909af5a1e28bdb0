//! The command line: the real binary, over a database of the test's own.

#[path = "../api/support/cluster.rs"]
mod cluster;

mod archives;
mod bad_input;
mod bench;
mod demo;
mod documents;
mod operator;
mod retrieve;
mod secrets;
mod seed;
mod serve;
mod served;
mod stream;
mod support;
