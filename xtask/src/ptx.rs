//! Building the kernels' PTX.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use cuda_builder::{BuiltPtx, CudaBuilder, NvvmArch, Versions};

use crate::{root, target_dir};

/// The committed PTX.
pub fn committed() -> PathBuf {
    root().join("kernels-gpu/ptx/kernels.ptx")
}

/// The file that names the compilers of the committed PTX.
fn toolchain_file() -> PathBuf {
    root().join("kernels-gpu/ptx/TOOLCHAIN")
}

fn builder() -> CudaBuilder {
    CudaBuilder::new(root().join("kernels-gpu")).arch(NvvmArch::Compute80).target_dir(target_dir().join("kernels-gpu"))
}

/// What that file says.
fn toolchain_text(versions: &Versions) -> String {
    format!("{}\nLLVM {}\n", versions.rustc, versions.llvm)
}

/// `build-ptx`: builds the kernels and writes the PTX to its place.
pub fn build() -> Result<()> {
    let BuiltPtx { ptx, kernels, versions, path, .. } = builder().copy_to(committed()).build()?;
    fs::write(toolchain_file(), toolchain_text(&versions)).context("cannot write TOOLCHAIN")?;
    println!("{}: {} kernels, {} KB, by {versions}", path.display(), kernels.len(), ptx.len() / 1000);
    Ok(())
}

/// `build-ptx --check`: builds the kernels and fails if the committed PTX is another, unless other compilers made it.
pub fn compare() -> Result<()> {
    let before = fs::read_to_string(committed()).context("cannot read the committed PTX")?;
    let recorded = Versions::of_ptx(&before).context("the committed PTX does not say what it was built with")?;
    let built = builder().locked(true).build()?;
    if built.ptx == before {
        println!("the committed PTX is what the sources give ({} kernels, {recorded})", built.kernels.len());
        return Ok(());
    }
    if built.versions != recorded {
        eprintln!("warning: the committed PTX was built with {recorded}; here is {}: not compared", built.versions);
        return Ok(());
    }
    let differs =
        before.lines().zip(built.ptx.lines()).position(|(a, b)| a != b).unwrap_or(before.lines().count().min(built.ptx.lines().count()));
    bail!(
        "the committed PTX is not what the sources give: it differs from {} first in line {}. Run `cargo xtask build-ptx` and commit the result.",
        built.path.display(),
        differs + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of the committed PTX that belongs to a kernel.
    fn entry<'a>(ptx: &'a str, name: &str) -> &'a str {
        let start = ptx.find(&format!(".entry {name}(")).unwrap_or_else(|| panic!("no kernel {name}"));
        let length = ptx[start..].find("\n}").expect("a kernel ends");
        &ptx[start..start + length]
    }

    #[test]
    fn the_committed_ptx_has_no_store_that_the_driver_miscompiles() {
        let ptx = fs::read_to_string(committed()).unwrap();
        assert_eq!(cuda_builder::unsafe_narrow_stores(&ptx), []);
        // Not because there are none at all.
        assert!(entry(&ptx, "selftest_narrow_stores").matches("%narrow0;").count() >= 7);
    }

    #[test]
    fn the_committed_ptx_was_built_without_jump_threading() {
        let ptx = fs::read_to_string(committed()).unwrap();
        // Two in each of six rounds; with JumpThreading there are 18.
        assert_eq!(entry(&ptx, "selftest_exchange").matches("bar.sync").count(), 12);
    }

    #[test]
    fn the_committed_ptx_contracts_nothing() {
        let ptx = fs::read_to_string(committed()).unwrap();
        let arithmetic = entry(&ptx, "selftest_arithmetic");
        assert_eq!(arithmetic.matches("fma.rn.f32").count(), 1);
        assert_eq!(arithmetic.matches("fma.rn.f64").count(), 1);
        assert!(!ptx.contains(".approx") && !ptx.contains(".ftz"));
    }

    #[test]
    fn the_toolchain_file_says_what_the_ptx_says() {
        let ptx = fs::read_to_string(committed()).unwrap();
        let versions = Versions::of_ptx(&ptx).unwrap();
        assert_eq!(fs::read_to_string(toolchain_file()).unwrap(), toolchain_text(&versions));
    }
}
