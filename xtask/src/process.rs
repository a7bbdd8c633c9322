//! Running programs: each call shows what it runs, and fails with the program's name and how it ended.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that runs this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::root());
    command
}

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("+ {}", line(command));
    let status = command.status().with_context(|| format!("cannot run {}", line(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

/// Runs a command that must succeed, and returns what it wrote to standard output. What it writes to standard error is shown if it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", line(command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({}):\n{}", line(command), output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command that must succeed, and gives each line of its standard output to `each` when it comes.
pub fn lines(command: &mut Command, mut each: impl FnMut(&str)) -> Result<()> {
    eprintln!("+ {}", line(command));
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {}", line(command)))?;
    for text in BufReader::new(child.stdout.take().expect("stdout is piped")).lines() {
        each(&text?);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_program_and_its_status() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c exit 3") && error.contains("3)"), "{error}");
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 4"])).unwrap_err().to_string();
        assert!(error.contains("why") && error.contains("4)"), "{error}");
    }
}
