//! The command line of bmgard: `compress`, `decompress`, `inspect`, `compare`, `gen`, `devices`, `bench` and `demo`.
//!
//! [`main`] is the whole program. Its promises to scripts are the flags, the exit codes and the keys of the `--json` objects; numbers
//! in them that are not finite (the PSNR of an exact copy, say) are `null`.
//!
//! | exit code | when |
//! |---|---|
//! | 0 | done |
//! | 1 | the bound is broken, or another check failed |
//! | 2 | flags, shape, type or bound make no sense, alone or with the file |
//! | 3 | a file is missing, unreadable, damaged, or not what it should be |
//! | 4 | the device, or writing, failed |
//! | 5 | the output exists |

mod args;
mod commands;
mod failure;
mod fields;
mod input;
mod interrupt;
mod names;
mod output;
mod progress;
mod report;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Outcome;

/// Parses the process's arguments, does what they ask, and tells how it went.
#[must_use]
pub fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}

fn run(cli: &Cli) -> Outcome {
    if let Some(threads) = cli.threads {
        commands::set_threads(threads)?;
    }
    match &cli.command {
        Command::Compress(args) => commands::compress::run(args),
        Command::Decompress(args) => commands::decompress::run(args),
        Command::Inspect(args) => commands::inspect::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Gen(args) => commands::generate::run(args),
        Command::Devices(args) => commands::devices::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Demo => commands::demo::run(),
    }
}
