//! `bmgard demo`

use std::env;

use clap::Parser;

use crate::args::Cli;
use crate::failure::{Failure, Kind, OrFail, Outcome};
use crate::report::Channel;

/// What it runs; the reader can type the same.
const COMMANDS: [&str; 4] = [
    "bmgard gen turbulence demo_128x128x128.f32",
    "bmgard compress demo_128x128x128.f32 demo.bmg --rel-range 1e-3",
    "bmgard decompress demo.bmg demo.npy",
    "bmgard compare demo_128x128x128.f32 demo.npy --rel-range 1e-3",
];

/// Runs the command: in a temporary folder, so that nothing is left behind.
pub fn run() -> Outcome {
    let cannot = || "cannot use a temporary folder";
    let home = env::current_dir().or_fail(Kind::Failed, cannot)?;
    let folder = tempfile::tempdir().or_fail(Kind::Failed, cannot)?;
    env::set_current_dir(folder.path()).or_fail(Kind::Failed, cannot)?;
    let outcome = COMMANDS.iter().try_for_each(|command| {
        Channel::Stdout.text(&format!("$ {command}\n"));
        let cli = Cli::try_parse_from(command.split(' ')).map_err(|error| Failure::new(Kind::Usage, error))?;
        crate::run(&cli)?;
        Channel::Stdout.text("\n");
        Ok(())
    });
    env::set_current_dir(home).or_fail(Kind::Failed, cannot)?;
    outcome
}
