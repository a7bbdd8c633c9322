//! The repository's chores: building and checking the GPU kernels, tests, continuous integration, a bundle for a GPU host.

mod process;
mod ptx;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};

/// bmgard's chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Build the kernels to kernels-gpu/ptx/kernels.ptx
    BuildPtx {
        /// Compare with the committed PTX instead of writing it
        #[arg(long)]
        check: bool,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().chore {
        Chore::BuildPtx { check: false } => ptx::build(),
        Chore::BuildPtx { check: true } => ptx::compare(),
    }
}

/// The repository's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root")
}

/// Where the build puts its files.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
