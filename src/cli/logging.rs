//! Log lines, to standard error: for people, or one JSON object a line.

use std::io::{self, IsTerminal};

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// Starts logging, once a process.
pub fn install(config: &Config) -> anyhow::Result<()> {
    let filter =
        EnvFilter::try_new(&config.log).with_context(|| format!("SLATEBASE_LOG is \"{}\"", config.log))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let installed = match config.log_format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).try_init(),
    };
    installed.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
