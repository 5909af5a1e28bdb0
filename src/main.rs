//! The `slatebase` binary.
use std::process::ExitCode;

use slatebase::db::embedded::{GUARD_COMMAND, guard_main};

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|command| command == GUARD_COMMAND) {
        return guard_main(std::env::args_os().skip(2));
    }
    ExitCode::SUCCESS
}
