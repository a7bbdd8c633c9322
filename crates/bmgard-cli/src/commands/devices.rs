//! `bmgard devices`

use bmgard::Device;
use serde::Serialize;

use crate::args::DevicesArgs;
use crate::failure::Outcome;
use crate::report::{self, Channel};

/// Runs the command. A machine without a device is an answer, not a failure.
pub fn run(args: &DevicesArgs) -> Outcome {
    let report = match bmgard::devices() {
        Ok(devices) => Report { devices, reason: None },
        Err(error) => Report { devices: Vec::new(), reason: Some(error.to_string()) },
    };
    if args.json {
        return Channel::Stdout.json(&report);
    }
    if report.devices.is_empty() {
        let reason = report.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        Channel::Stdout.text(&format!("no CUDA device{reason}\n"));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = report.devices.iter().map(row).collect();
    let columns = ["device", "name", "compute capability", "multiprocessors", "memory"];
    Channel::Stdout.text(&report::table(&columns, &rows));
    Ok(())
}

fn row(device: &Device) -> Vec<String> {
    let (major, minor) = device.compute_capability;
    vec![
        device.index.to_string(),
        device.name.clone(),
        format!("{major}.{minor}"),
        device.multiprocessors.to_string(),
        report::bytes(device.memory_bytes),
    ]
}

/// The keys of the JSON object.
#[derive(Serialize)]
struct Report {
    devices: Vec<Device>,
    reason: Option<String>,
}
