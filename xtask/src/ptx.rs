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
    CudaBuilder::new(root().join("kernels-gpu"))
        .arch(NvvmArch::Compute80)
        .target_dir(target_dir().join("kernels-gpu"))
}

/// `build-ptx`: builds the kernels and writes the PTX to its place.
pub fn build() -> Result<()> {
    let BuiltPtx {
        ptx,
        kernels,
        versions,
        path,
        ..
    } = builder().copy_to(committed()).build()?;
    fs::write(
        toolchain_file(),
        format!("{}\nllvm {}\n", versions.rustc, versions.llvm),
    )
    .context("cannot write TOOLCHAIN")?;
    println!(
        "{}: {} kernels, {} KB, by {versions}",
        path.display(),
        kernels.len(),
        ptx.len() / 1000
    );
    Ok(())
}

/// `build-ptx --check`: builds the kernels and fails if the committed PTX is another, unless other compilers made it.
pub fn compare() -> Result<()> {
    let before = fs::read_to_string(committed()).context("cannot read the committed PTX")?;
    let recorded = Versions::of_ptx(&before)
        .context("the committed PTX does not say what it was built with")?;
    let built = builder().locked(true).build()?;
    if built.ptx == before {
        println!(
            "the committed PTX is what the sources give ({} kernels, {recorded})",
            built.kernels.len()
        );
        return Ok(());
    }
    if built.versions != recorded {
        eprintln!(
            "warning: the committed PTX was built with {recorded}; here is {}: not compared",
            built.versions
        );
        return Ok(());
    }
    let differs = before
        .lines()
        .zip(built.ptx.lines())
        .position(|(a, b)| a != b)
        .unwrap_or(before.lines().count().min(built.ptx.lines().count()));
    bail!(
        "the committed PTX is not what the sources give: it differs from {} first in line {}. Run `cargo xtask build-ptx` and commit the result.",
        built.path.display(),
        differs + 1
    )
}
