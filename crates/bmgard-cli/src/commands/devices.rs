//! `bmgard devices`

use bmgard::{BackendChoice, Compressor, Config, ErrorBound};
use serde::Serialize;

use crate::args::DevicesArgs;
use crate::failure::Outcome;
use crate::report::Channel;

/// Runs the command. A machine without a device is an answer, not a failure.
pub fn run(args: &DevicesArgs) -> Outcome {
    // The library cannot list devices yet; it says why there are none.
    let config = Config { backend: BackendChoice::Cuda, ..Config::new(ErrorBound::Absolute(1.0)) };
    let reason = Compressor::new(config).err().map(|error| error.to_string());
    let report = Report { devices: Vec::new(), reason };
    if args.json {
        return Channel::Stdout.json(&report);
    }
    let reason = report.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Channel::Stdout.text(&format!("no CUDA device{reason}\n"));
    Ok(())
}

/// The keys of the JSON object.
#[derive(Serialize)]
struct Report {
    devices: Vec<()>,
    reason: Option<String>,
}
