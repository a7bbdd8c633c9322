//! Running programs: each call shows what it runs, and fails with the program's name and how it ended.

use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a command to its end and returns how it ended.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    eprintln!("+ {}", line(command));
    command
        .status()
        .with_context(|| format!("cannot run {}", command.get_program().display()))
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("{} failed ({status})", command.get_program().display());
    }
    Ok(())
}

/// Runs a command that must succeed, and returns what it wrote to standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!(
            "{} failed ({}):\n{}",
            line(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}
