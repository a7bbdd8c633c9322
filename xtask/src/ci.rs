//! Tests, and all that continuous integration checks.

use std::time::Instant;

use anyhow::Result;
use cuda_builder::Toolchain;

use crate::process::{cargo, lines, run};
use crate::{application, ptx, ptxas, target_dir};

/// `test`: runs the workspace's tests, and ends with one line that sums them up.
pub fn test(arguments: &[String]) -> Result<()> {
    let start = Instant::now();
    let mut total = Counts::default();
    let mut command = cargo();
    command.arg("test");
    if !arguments.iter().any(|a| ["-p", "--package", "--workspace"].contains(&a.as_str()) || a.starts_with("--package=")) {
        command.arg("--workspace");
    }
    let result = lines(command.args(arguments), |line| {
        println!("{line}");
        total.add(line);
    });
    let seconds = start.elapsed().as_secs();
    println!("\n{} tests passed, {} failed, {} ignored, in {seconds} s", total.passed, total.failed, total.ignored);
    result
}

/// What the tests' programs count.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u32,
    failed: u32,
    ignored: u32,
}

impl Counts {
    /// Adds what a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; ...` says.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else { return };
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((n, "passed")) => self.passed += n.parse().unwrap_or(0),
                Some((n, "failed")) => self.failed += n.parse().unwrap_or(0),
                Some((n, "ignored")) => self.ignored += n.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// `ci`: format, lints, documentation, tests, kernels.
pub fn all() -> Result<()> {
    let mut report = vec![];
    let mut step = |name: &'static str, check: &mut dyn FnMut() -> Result<String>| -> Result<()> {
        eprintln!("\n=== {name}");
        let start = Instant::now();
        let outcome = check()?;
        report.push(format!("{name}: {outcome} ({} s)", start.elapsed().as_secs()));
        Ok(())
    };
    let ok = |()| "ok".to_owned();

    step("format", &mut || {
        run(cargo().args(["fmt", "--all", "--check"]))?;
        run(cargo().args(["fmt", "--check", "--manifest-path", "kernels-gpu/Cargo.toml"]))?;
        run(cargo().args(["fmt", "--check", "--manifest-path", "tests/application/Cargo.toml"])).map(ok)
    })?;
    step("lints", &mut || {
        run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
        // The library as applications without a GPU have it.
        run(cargo().args(["clippy", "--package", "bmgard", "--lib", "--", "-D", "warnings"]))?;
        // On the host a kernel is an ordinary function, which the lints can read.
        let target = target_dir().join("kernels-on-host");
        let mut kernels = cargo();
        kernels.args(["clippy", "--manifest-path", "kernels-gpu/Cargo.toml", "--lib", "--target-dir"]).arg(target);
        run(kernels.args(["--", "-D", "warnings"])).map(ok)
    })?;
    step("documentation", &mut || run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings")).map(ok))?;
    step("tests", &mut || {
        let fields = match std::env::var_os("BMGARD_DATA") {
            Some(folder) => format!("ok, with the real fields in {}", folder.display()),
            None => "ok, without real fields (BMGARD_DATA is not set)".to_owned(),
        };
        test(&[]).map(|()| fields)
    })?;
    step("an application outside the workspace", &mut || application::test().map(|results| results.join("; ")))?;
    step("kernels: the committed PTX is what the sources give", &mut || match Toolchain::from_env().versions() {
        Ok(_) => ptx::compare().map(ok),
        Err(error) => Ok(format!("skipped: {error}")),
    })?;
    step("kernels: the PTX assembles without spills", &mut || match ptxas::find() {
        Some(_) => ptxas::check().map(ok),
        None => Ok("skipped: there is no ptxas".into()),
    })?;

    println!("\n{}", report.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed() {
        let mut counts = Counts::default();
        counts.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s");
        counts.add("test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.01s");
        counts.add("test something ... ok");
        assert_eq!(counts, Counts { passed: 7, failed: 2, ignored: 1 });
    }
}
