//! A folder that tests a GPU on a host without Rust: test programs, the command line program, and a script that runs the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{cargo, lines, output, run};
use crate::{ptx, root};

/// Test programs whose name starts so are those that use a GPU.
const PREFIX: &str = "gpu_";

/// The most bytes that a bundle should have.
const LIMIT: u64 = 64 << 20;

/// `bundle-gpu`: builds the folder `out`.
pub fn build(out: &Path) -> Result<()> {
    if out.exists() {
        // An interrupted build leaves the folder of the tests, the first thing that it makes.
        let is_bundle = out.join("run-tests").is_file() || out.join("tests").is_dir() || fs::read_dir(out)?.next().is_none();
        if !is_bundle {
            bail!("{} is there already, and is no bundle", out.display());
        }
        fs::remove_dir_all(out)?;
    }
    fs::create_dir_all(out.join("tests"))?;

    let mut command = cargo();
    command.args(["test", "--release", "--no-run", "--message-format=json-render-diagnostics"]);
    let packages = gpu_tests()?;
    if packages.is_empty() {
        bail!("no package of the workspace has a test target named {PREFIX}*");
    }
    for (package, test) in &packages {
        command.args(["--package", package, "--test", test]);
    }
    for program in executables(&mut command, "test")? {
        add(&program.path, &out.join("tests").join(program.name))?;
    }
    let mut command = cargo();
    command.args(["build", "--release", "--package", "bmgard-cli", "--message-format=json-render-diagnostics"]);
    for program in executables(&mut command, "bin")? {
        add(&program.path, &out.join(program.name))?;
    }
    fs::copy(ptx::committed(), out.join("kernels.ptx"))?;
    for folder in ["tools", "tests/archives"] {
        if root().join(folder).is_dir() {
            copy_folder(&root().join(folder), &out.join(folder))?;
        }
    }
    write_script(out)?;

    let mut files = vec![];
    list(out, &mut files)?;
    files.sort();
    let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    for (path, bytes) in &files {
        println!("{:8.2} MiB  {}", *bytes as f64 / (1 << 20) as f64, path.strip_prefix(out).unwrap_or(path).display());
    }
    println!("{:8.2} MiB  in all: {}", total as f64 / (1 << 20) as f64, out.display());
    if total > LIMIT {
        bail!("the bundle is larger than {} MiB", LIMIT >> 20);
    }
    Ok(())
}

/// Packages of the workspace and their test targets for a GPU.
fn gpu_tests() -> Result<Vec<(String, String)>> {
    let metadata: Value = serde_json::from_str(&output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?)?;
    let mut found = vec![];
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let (name, is_test) = (target["name"].as_str().unwrap_or_default(), target["kind"] == serde_json::json!(["test"]));
            if is_test && name.starts_with(PREFIX) {
                found.push((package["name"].as_str().unwrap_or_default().to_owned(), name.to_owned()));
            }
        }
    }
    Ok(found)
}

/// A program that cargo built.
struct Program {
    name: String,
    path: PathBuf,
}

/// Runs a build and returns the programs of `kind` that it names.
fn executables(command: &mut Command, kind: &str) -> Result<Vec<Program>> {
    let mut programs = vec![];
    lines(command, |line| programs.extend(executable(line, kind)))?;
    if programs.is_empty() {
        bail!("the build made no program");
    }
    Ok(programs)
}

/// The program that a line of cargo's JSON names.
fn executable(line: &str, kind: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let target = &message["target"];
    (target["kind"] == serde_json::json!([kind])).then_some(())?;
    Some(Program { name: target["name"].as_str()?.to_owned(), path: message["executable"].as_str()?.into() })
}

/// Copies a program without its symbols.
fn add(program: &Path, to: &Path) -> Result<()> {
    run(Command::new("strip").arg("-o").arg(to).arg(program))
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().context("a file has a name")?);
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn list(folder: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().is_dir() {
            list(&entry.path(), files)?;
        } else {
            files.push((entry.path(), entry.metadata()?.len()));
        }
    }
    Ok(())
}

fn write_script(out: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let script = out.join("run-tests");
    fs::write(&script, include_str!("run-tests"))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_off_the_messages_of_cargo() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"gpu_selftest"},"executable":"/t/gpu_selftest-1a"}"#;
        let program = executable(line, "test").unwrap();
        assert_eq!((program.name.as_str(), program.path.as_path()), ("gpu_selftest", Path::new("/t/gpu_selftest-1a")));
        assert!(executable(line, "bin").is_none());
        assert!(executable(&line.replace("\"/t/gpu_selftest-1a\"", "null"), "test").is_none());
        assert!(executable("warning: something", "test").is_none());
    }

    /// A folder as `build` makes it, with a test program that does as told.
    fn bundle(name: &str, test: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;

        let out = std::env::temp_dir().join(format!("bmgard-bundle-{name}-{}", std::process::id()));
        fs::create_dir_all(out.join("tests")).unwrap();
        write_script(&out).unwrap();
        let program = out.join("tests/gpu_example");
        fs::write(&program, format!("#!/bin/sh\n{test}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        out
    }

    /// How `run-tests` ends and what it says.
    fn run_tests(folder: &Path, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(folder.join("run-tests")).args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    }

    #[test]
    fn the_script_fails_where_a_required_gpu_is_absent() {
        let skipping = bundle("skipping", "echo 'skipped: no driver'; echo 'test result: ok. 1 passed'");
        assert!(run_tests(&skipping, &[]).0);
        let (ok, text) = run_tests(&skipping, &["--require-gpu"]);
        assert!(!ok && text.contains("skipped"), "{text}");
        fs::remove_dir_all(skipping).unwrap();

        let running = bundle("running", "echo \"required: $BMGARD_REQUIRE_GPU\"; echo 'test result: ok. 1 passed'");
        let (ok, text) = run_tests(&running, &["--require-gpu"]);
        assert!(ok && text.contains("required: 1"), "{text}");
        assert!(!run_tests(&running, &["--nonsense"]).0);
        fs::remove_dir_all(running).unwrap();

        let failing = bundle("failing", "exit 101");
        assert!(!run_tests(&failing, &[]).0);
        fs::remove_dir_all(failing).unwrap();
    }
}
