//! The command line: one file or folder a subcommand (REST contract, "Running it").
//!
//! What always holds: whatever a flag says the environment can say too; what a command tells goes to standard output,
//! and problems, progress and logs go to standard error; the exit status is 0 for success, 1 for a failure, and 2 for a
//! command line that makes no sense.

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod bench;
pub mod cite;
mod database;
pub mod demo;
pub mod export;
pub mod import;

pub mod key;
mod logging;
pub mod maintain;
pub mod mcp;
pub mod migrate;
mod model;
pub mod openapi;
pub mod retrieve;
pub mod secrets;
pub mod seed;
pub mod serve;
pub mod session;
pub mod tenant;
pub mod verify;

use crate::error::Error;

/// A multi-tenant store of knowledge that LLM agents read deterministically.
///
/// Documents live in slates; an agent browses them, fetches files by name, metatag or pattern in a bounded number of
/// rounds, and every byte it was shown can be cited and fetched again.
#[derive(Debug, Parser)]
#[command(name = "slatebase", version, propagate_version = true, after_help = EXAMPLES, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  slatebase demo                                        see it work, on small slates of its own
  slatebase seed ./docs --tenant acme --slate Knowledge load a directory of documents
  slatebase key create acme --label agent --scope read --scope retrieve
  slatebase serve                                       serve the API on http://127.0.0.1:8080

Without SLATEBASE_DATABASE_URL every command uses an embedded Postgres in SLATEBASE_DATA_DIR, also while a server
runs on it.";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Demo(Box<demo::Args>),
    Seed(seed::Args),
    Maintain(maintain::Args),
    Mcp(Box<mcp::Args>),
    Import(import::Args),
    Export(export::Args),
    Migrate(migrate::Args),
    #[command(subcommand)]
    Tenant(tenant::Action),
    #[command(subcommand)]
    Key(key::Action),
    Retrieve(Box<retrieve::Args>),
    Cite(cite::Args),
    #[command(subcommand)]
    Secrets(secrets::Action),
    #[command(subcommand)]
    Session(session::Action),
    Openapi(openapi::Args),
    Verify(verify::Args),
    Bench(Box<bench::Args>),
}

/// Does what the process's arguments say, and gives its exit status.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Demo(args) => demo::run(*args),
        Command::Seed(args) => seed::run(&args),
        Command::Maintain(args) => maintain::run(&args),
        Command::Mcp(args) => mcp::run(*args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Tenant(action) => tenant::run(action),
        Command::Key(action) => key::run(action),
        Command::Retrieve(args) => retrieve::run(*args),
        Command::Cite(args) => cite::run(args),
        Command::Secrets(action) => secrets::run(&action),
        Command::Session(action) => session::run(action),
        Command::Openapi(args) => openapi::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(args) => bench::run(&args),
    };
    match result {
        Ok(status) => status,
        // Whoever reads has seen enough, as in `slatebase openapi | head`.
        Err(error) if broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slatebase: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What a use case said, to whoever sits at the machine: the cause too, which the API would only log.
fn told(error: Error) -> anyhow::Error {
    match error.source {
        Some(source) => source,
        None => anyhow::anyhow!("{}", error.detail),
    }
}

/// The same for a call that may be wrong in several places.
fn wrong(error: Error) -> anyhow::Error {
    match &error.errors[..] {
        [] => told(error),
        errors => {
            let all: Vec<_> = errors.iter().map(|e| format!("{}: {}", e.pointer, e.detail)).collect();
            anyhow::anyhow!("{}", all.join("; "))
        }
    }
}

/// The time as the schema keeps it: whole microseconds.
fn now() -> chrono::DateTime<chrono::Utc> {
    use chrono::SubsecRound;
    chrono::Utc::now().trunc_subsecs(6)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments().filter(|argument| argument.get_long().is_some()) {
                let name = argument.get_env().and_then(|name| name.to_str()).unwrap_or_default();
                let known = ["help", "version"].contains(&argument.get_id().as_str());
                assert!(
                    known || name.starts_with("SLATEBASE_"),
                    "{} --{}",
                    command.get_name(),
                    argument.get_id()
                );
                let secret = ["url", "token", "secrets_key"]
                    .iter()
                    .any(|word| argument.get_id().as_str().ends_with(word));
                assert_eq!(secret, argument.is_hide_env_values_set(), "{}", argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn the_manual_names_every_setting_of_the_service() {
        let mut command = Cli::command();
        let serve = command.find_subcommand_mut("serve").unwrap();
        for name in serve.get_arguments().filter_map(clap::Arg::get_env) {
            let row = format!("| `{}` |", name.to_str().unwrap());
            assert!(include_str!("../../README.md").contains(&row), "{row}");
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in Cli::command().get_subcommands() {
            let leaves: Vec<_> = command.get_subcommands().collect();
            let shown = if leaves.is_empty() { vec![command] } else { leaves };
            for command in shown {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("slatebase "), "{}", command.get_name());
            }
        }
    }
}
