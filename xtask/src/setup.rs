//! Installing what building and checking the kernels needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use cuda_builder::{Error, Toolchain};

use crate::process::{output, run};
use crate::{ptxas, target_dir};

/// Debian's packages with rustc 1.96, its cargo, the source of `core`, and LLVM 22.
const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "llvm-22"];

/// The package on PyPI that holds ptxas.
const PTXAS_PACKAGE: &str = "nvidia-cuda-nvcc==13.5.37";

/// The virtual environment of Python that [`PTXAS_PACKAGE`] is installed in.
fn environment() -> PathBuf {
    target_dir().join("kernel-tools")
}

/// Where that package puts ptxas: `lib/python3.11/site-packages/nvidia/cu13/bin`.
pub fn ptxas_folders() -> Vec<PathBuf> {
    let below =
        |folder: &Path| -> Vec<PathBuf> { std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect() };
    let pythons = below(&environment().join("lib"));
    pythons.iter().flat_map(|python| below(&python.join("site-packages/nvidia"))).map(|cuda| cuda.join("bin")).collect()
}

/// `setup-kernels`.
pub fn kernels() -> Result<()> {
    let mut missing = vec![];
    match Toolchain::from_env().versions() {
        Ok(versions) => println!("kernel compilers: {versions}"),
        Err(Error::Toolchain(parts)) if can_install() => {
            println!("to install: {}", parts.join("; "));
            run(apt_get().args(["install", "-qq", "--no-install-recommends"]).args(PACKAGES))?;
            println!("kernel compilers: {}", Toolchain::from_env().versions()?);
        }
        Err(Error::Toolchain(parts)) => {
            missing.extend(parts);
            missing.push(format!("on Debian, as root, this command installs {}", PACKAGES.join(", ")));
        }
        Err(error) => return Err(error.into()),
    }
    if ptxas::find().is_none()
        && let Err(error) = install_ptxas()
    {
        missing.push(format!("ptxas: {error:#}"));
    }
    if let Some(program) = ptxas::find() {
        println!("ptxas: {}", program.display());
    }
    if !missing.is_empty() {
        bail!("missing:\n  {}", missing.join("\n  "));
    }
    Ok(())
}

/// Whether this is root on a system whose package lists, brought up to date, have the packages.
fn can_install() -> bool {
    let known = |package| output(Command::new("apt-cache").args(["show", package])).is_ok();
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
        && run(apt_get().args(["update", "-qq"])).is_ok()
        && PACKAGES.into_iter().all(known)
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("--yes").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn install_ptxas() -> Result<()> {
    let environment = environment();
    if run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).is_err() {
        // Debian keeps what `venv` needs in a package of its own.
        run(apt_get().args(["install", "-qq", "--no-install-recommends", "python3-venv"]))?;
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    }
    let pip = environment.join("bin/pip");
    run(Command::new(pip).args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", PTXAS_PACKAGE]))
}
