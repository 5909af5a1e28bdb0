//! The command line: one file or folder a subcommand.

pub mod seed;
