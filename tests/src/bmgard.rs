//! The program `bmgard`, built as this package's own so that its tests can run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    bmgard_cli::main()
}
