//! The `slatebase` binary.
use std::process::ExitCode;

use slatebase::db::embedded::{GUARD_COMMAND, guard_main};

fn main() -> ExitCode {
    // The guard must be nothing but a guard: before arguments are parsed, threads started or logs opened.
    if std::env::args_os().nth(1).is_some_and(|command| command == GUARD_COMMAND) {
        return guard_main(std::env::args_os().skip(2));
    }
    slatebase::cli::main()
}
