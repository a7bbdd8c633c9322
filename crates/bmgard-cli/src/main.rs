//! The program `bmgard`; everything is in the library beside it, so that tests can run it too.

use std::process::ExitCode;

fn main() -> ExitCode {
    bmgard_cli::main()
}
