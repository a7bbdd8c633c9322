//! Assembling the PTX with NVIDIA's assembler, to know what each kernel uses.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::process::{line, output};
use crate::{ptx, root, setup, target_dir};

/// The architectures that kernels are assembled for: the one that the PTX is made for, and the one that it is tuned for.
const ARCHITECTURES: [&str; 2] = ["sm_80", "sm_90"];

/// `ptxas`: from `PATH`, from a CUDA toolkit, or from what `setup-kernels` installed.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(std::env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin")));
    folders.push("/usr/local/cuda/bin".into());
    folders.extend(setup::ptxas_folders());
    folders.into_iter().map(|folder| folder.join("ptxas")).find(|program| program.is_file())
}

/// `check-ptx`: prints what the kernels use, and fails on spills, stack frames and unsafe stores that are not allowed.
pub fn check() -> Result<()> {
    let Some(ptxas) = find() else {
        bail!("there is no ptxas in PATH, CUDA_HOME or /usr/local/cuda: run `cargo xtask setup-kernels`, which installs one");
    };
    let text = fs::read_to_string(ptx::committed()).context("cannot read the committed PTX")?;
    let mut faults: Vec<String> = cuda_builder::unsafe_narrow_stores(&text)
        .iter()
        .map(|store| format!("line {}: a store narrower than its register: {}", store.line, store.text))
        .collect();
    let allowed = Allowed::read()?;

    let version = output(Command::new(&ptxas).arg("--version"))?;
    println!("{}: {}", ptxas.display(), version.lines().find(|line| line.contains("release")).unwrap_or("of unknown version"));
    let mut usages = vec![];
    for architecture in ARCHITECTURES {
        usages.extend(assemble(&ptxas, architecture)?);
    }
    usages.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    println!("{}", table(&usages));
    faults.extend(usages.iter().filter_map(|usage| allowed.fault(usage)));
    for rule in allowed.unused(&usages) {
        eprintln!("note: allowed-spills.toml allows what `{rule}` does not need");
    }
    if !faults.is_empty() {
        bail!("{} faults in the PTX:\n  {}", faults.len(), faults.join("\n  "));
    }
    Ok(())
}

/// What a kernel uses on an architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Usage {
    kernel: String,
    architecture: String,
    registers: u32,
    stack: u32,
    spill_stores: u32,
    spill_loads: u32,
    shared: u32,
}

fn assemble(ptxas: &PathBuf, architecture: &str) -> Result<Vec<Usage>> {
    let mut command = Command::new(ptxas);
    let cubin = target_dir().join(format!("kernels.{architecture}.cubin"));
    fs::create_dir_all(target_dir())?;
    command.args(["-v", "-arch", architecture]).arg(ptx::committed()).arg("-o").arg(cubin);
    eprintln!("+ {}", line(&command));
    let output = command.output().with_context(|| format!("cannot run {}", line(&command)))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("`{}` failed ({}):\n{}", line(&command), output.status, report.trim_end());
    }
    Ok(parse(&report))
}

/// Reads what `ptxas -v` says.
fn parse(report: &str) -> Vec<Usage> {
    let mut usages: Vec<Usage> = vec![];
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let mut words = rest.split('\'');
            let kernel = words.next().unwrap_or_default().to_owned();
            let architecture = words.nth(1).unwrap_or_default().to_owned();
            usages.push(Usage { kernel, architecture, ..Usage::default() });
        } else if let Some(usage) = usages.last_mut() {
            for part in line.split([',', ':']) {
                let number = part.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0);
                let part = part.trim();
                if part.ends_with("bytes stack frame") {
                    usage.stack = number;
                } else if part.ends_with("bytes spill stores") {
                    usage.spill_stores = number;
                } else if part.ends_with("bytes spill loads") {
                    usage.spill_loads = number;
                } else if part.ends_with("registers") {
                    usage.registers = number;
                } else if part.ends_with("bytes smem") {
                    usage.shared = number;
                }
            }
        }
    }
    usages
}

fn table(usages: &[Usage]) -> String {
    let width = usages.iter().map(|usage| usage.kernel.len()).max().unwrap_or(0).max(6);
    let mut text = format!("{:width$}  arch   registers  stack  spill stores  spill loads  static shared", "kernel");
    for u in usages {
        text.push_str(&format!(
            "\n{:width$}  {:5}  {:9}  {:5}  {:12}  {:11}  {:13}",
            u.kernel, u.architecture, u.registers, u.stack, u.spill_stores, u.spill_loads, u.shared
        ));
    }
    text
}

/// `kernels-gpu/ptx/allowed-spills.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    #[serde(default)]
    allow: Vec<Rule>,
}

/// What one kernel may use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// The kernel.
    kernel: String,
    /// The most bytes of stack frame.
    #[serde(default)]
    stack: u32,
    /// The most bytes of spill stores, and of spill loads.
    #[serde(default)]
    spill: u32,
    /// Why that is well.
    reason: String,
}

impl Allowed {
    fn read() -> Result<Self> {
        let path = root().join("kernels-gpu/ptx/allowed-spills.toml");
        Self::parse(&fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let allowed: Allowed = toml::from_str(text).context("cannot understand allowed-spills.toml")?;
        match allowed.allow.iter().find(|rule| rule.reason.trim().is_empty()) {
            Some(rule) => bail!("allowed-spills.toml gives no reason for `{}`", rule.kernel),
            None => Ok(allowed),
        }
    }

    /// What is wrong with a kernel's usage.
    fn fault(&self, usage: &Usage) -> Option<String> {
        let rule = self.allow.iter().find(|rule| rule.kernel == usage.kernel);
        let (stack, spill) = rule.map_or((0, 0), |rule| (rule.stack, rule.spill));
        let Usage { kernel, architecture, .. } = usage;
        let used = usage.spill_stores.max(usage.spill_loads);
        (usage.stack > stack || used > spill).then(|| {
            format!("{kernel} ({architecture}): {} bytes of stack and {used} of spills, {stack} and {spill} are allowed", usage.stack)
        })
    }

    /// Kernels with a rule that they do not need on any architecture.
    fn unused<'a>(&'a self, usages: &'a [Usage]) -> impl Iterator<Item = &'a str> {
        self.allow.iter().map(|rule| rule.kernel.as_str()).filter(|kernel| {
            let needs = |usage: &Usage| usage.stack > 0 || usage.spill_stores > 0 || usage.spill_loads > 0;
            !usages.iter().any(|usage| usage.kernel == *kernel && needs(usage))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'encode' for 'sm_90'
ptxas info    : Function properties for encode
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 384 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 1.698 ms
ptxas info    : Compiling entry function 'copy' for 'sm_90'
ptxas info    : Function properties for copy
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, 372 bytes cmem[0]
";

    #[test]
    fn the_report_is_read() {
        let usages = parse(REPORT);
        let encode = Usage {
            kernel: "encode".into(),
            architecture: "sm_90".into(),
            registers: 64,
            stack: 16,
            spill_stores: 12,
            spill_loads: 20,
            shared: 384,
        };
        let copy = Usage { kernel: "copy".into(), architecture: "sm_90".into(), registers: 14, ..Usage::default() };
        assert_eq!(usages, [encode, copy]);
    }

    #[test]
    fn spills_need_a_rule_and_a_reason() {
        let usages = parse(REPORT);
        let faults = |allowed: &Allowed| usages.iter().filter_map(|usage| allowed.fault(usage)).count();
        assert_eq!(faults(&Allowed::default()), 1);
        let rule = |stack, spill| format!("[[allow]]\nkernel = \"encode\"\nstack = {stack}\nspill = {spill}\nreason = \"cold\"\n");
        assert_eq!(faults(&Allowed::parse(&rule(16, 20)).unwrap()), 0);
        assert_eq!(faults(&Allowed::parse(&rule(16, 19)).unwrap()), 1);
        assert_eq!(faults(&Allowed::parse(&rule(15, 20)).unwrap()), 1);
        assert!(Allowed::parse(&rule(16, 20).replace("cold", " ")).is_err());
        assert!(Allowed::parse("[[allow]]\nkernel = \"encode\"\nstack = 16\n").is_err());
    }

    #[test]
    fn rules_that_nothing_needs_are_told() {
        let allowed = Allowed::parse("[[allow]]\nkernel = \"copy\"\nspill = 8\nreason = \"was so\"\n").unwrap();
        assert_eq!(allowed.unused(&parse(REPORT)).collect::<Vec<_>>(), ["copy"]);
    }
}
