//! Running the program.

use std::io::{Write, stderr};
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// The program under test: this package's own, or another build of it that `BMGARD_PROGRAM` names.
pub fn program() -> Command {
    match std::env::var_os("BMGARD_PROGRAM") {
        Some(path) => Command::new(path),
        None => Command::new(env!("CARGO_BIN_EXE_bmgard-under-test")),
    }
}

/// Runs the program in a folder.
pub fn run(folder: &Path, args: &[&str]) -> Output {
    let output = program().current_dir(folder).args(args).output().expect("the program can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{args:?} panicked: {stderr}");
    output
}

/// Runs the program, which must succeed, and reads the JSON object that it prints.
pub fn json(folder: &Path, args: &[&str]) -> Value {
    let output = run(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

/// Says that a test, or a part of it, could not be made here; past the capture of a passing test's output.
pub fn skipped(why: &str) {
    let _ = writeln!(stderr(), "skipped: {why}");
}
