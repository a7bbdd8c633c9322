//! The programs that build kernels, and their versions.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use crate::{Error, run};

/// The programs that a build runs.
///
/// [`Toolchain::from_env`] takes each from a variable, else from where Debian's packages put it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Toolchain {
    /// cargo, of the same release as `rustc`. `CUDA_BUILDER_CARGO`, else `/usr/bin/cargo`.
    pub cargo: PathBuf,
    /// rustc, with the source of `core` in its sysroot. `CUDA_BUILDER_RUSTC`, else `/usr/bin/rustc`.
    pub rustc: PathBuf,
    /// `CUDA_BUILDER_LLVM_DIS`, else `llvm-dis-22`; LLVM's programs are of the major version that rustc has inside.
    pub llvm_dis: PathBuf,
    /// `CUDA_BUILDER_LLVM_LINK`, else `llvm-link-22`.
    pub llvm_link: PathBuf,
    /// `CUDA_BUILDER_OPT`, else `opt-22`.
    pub opt: PathBuf,
    /// `CUDA_BUILDER_LLC`, else `llc-22`.
    pub llc: PathBuf,
}

impl Toolchain {
    /// The programs that the environment names, else those of Debian's packages.
    pub fn from_env() -> Self {
        let program = |variable: &str, default: &str| std::env::var_os(variable).map_or_else(|| PathBuf::from(default), PathBuf::from);
        Toolchain {
            cargo: program("CUDA_BUILDER_CARGO", "/usr/bin/cargo"),
            rustc: program("CUDA_BUILDER_RUSTC", "/usr/bin/rustc"),
            llvm_dis: program("CUDA_BUILDER_LLVM_DIS", "llvm-dis-22"),
            llvm_link: program("CUDA_BUILDER_LLVM_LINK", "llvm-link-22"),
            opt: program("CUDA_BUILDER_OPT", "opt-22"),
            llc: program("CUDA_BUILDER_LLC", "llc-22"),
        }
    }

    /// The versions of the compilers, or [`Error::Toolchain`] with all that is missing or does not fit.
    pub fn versions(&self) -> Result<Versions, Error> {
        let mut missing = vec![];
        let mut ask = |program: &PathBuf, argument: &str| match run(Command::new(program).arg(argument)) {
            Ok(answer) => answer,
            Err(_) => {
                missing.push(format!("{} is not there", program.display()));
                String::new()
            }
        };
        ask(&self.cargo, "--version");
        let rustc = ask(&self.rustc, "-vV");
        let sysroot = run(Command::new(&self.rustc).args(["--print", "sysroot"])).unwrap_or_default();
        let llc = ask(&self.llc, "--version");
        for program in [&self.llvm_dis, &self.llvm_link, &self.opt] {
            ask(program, "--version");
        }
        let rustc_llvm = field(&rustc, "LLVM version: ").unwrap_or_default();
        let llvm = field(&llc, "LLVM version ").unwrap_or_default();
        let versions = Versions { rustc: rustc.lines().next().unwrap_or_default().to_owned(), llvm: llvm.to_owned() };
        if missing.is_empty() {
            let core = PathBuf::from(sysroot.trim()).join("lib/rustlib/src/rust/library/core/Cargo.toml");
            if !core.is_file() {
                missing.push(format!("{} has no source of `core` ({})", self.rustc.display(), core.display()));
            }
            let major = |version: &str| version.split('.').next().map(str::to_owned);
            if major(rustc_llvm) != major(llvm) {
                missing.push(format!("rustc has LLVM {rustc_llvm}, but {} is of LLVM {llvm}", self.llc.display()));
            }
        }
        if missing.is_empty() { Ok(versions) } else { Err(Error::Toolchain(missing)) }
    }
}

/// The rest of the line in `text` that contains `key`, after it.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.split_once(key)).map(|(_, value)| value.trim())
}

/// The compilers that made a PTX file: the same versions make the same bytes from the same source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versions {
    /// rustc's line on itself.
    pub rustc: String,
    /// The version of LLVM's programs.
    pub llvm: String,
}

impl Versions {
    /// The versions that the header of a PTX file names, if it is one of this builder's.
    pub fn of_ptx(ptx: &str) -> Option<Self> {
        let line = ptx.lines().find_map(|line| line.strip_prefix(HEADER))?;
        let (rustc, llvm) = line.rsplit_once(" and LLVM ")?;
        Some(Versions { rustc: rustc.to_owned(), llvm: llvm.to_owned() })
    }

    /// The line of a PTX file that names the versions.
    pub(crate) fn header(&self) -> String {
        format!("{HEADER}{self}")
    }
}

const HEADER: &str = "// Built by cuda_builder with ";

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and LLVM {}", self.rustc, self.llvm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_it_was_made_of() {
        let versions = Versions { rustc: "rustc 1.96.0 (ac68faa20 2026-05-25)".into(), llvm: "22.1.8".into() };
        let ptx = format!("// Other\n{}\n.version 7.0\n", versions.header());
        assert_eq!(Versions::of_ptx(&ptx), Some(versions));
        assert_eq!(Versions::of_ptx(".version 7.0\n"), None);
    }

    #[test]
    fn all_that_is_missing_is_named() {
        let mut toolchain = Toolchain::from_env();
        toolchain.llc = "/nonexistent/llc".into();
        toolchain.opt = "/nonexistent/opt".into();
        let Err(Error::Toolchain(missing)) = toolchain.versions() else { panic!("must fail") };
        assert!(missing.iter().any(|m| m.contains("/nonexistent/llc")), "{missing:?}");
        assert!(missing.iter().any(|m| m.contains("/nonexistent/opt")), "{missing:?}");
    }
}
