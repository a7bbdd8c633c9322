//! The repository's chores: building and checking the GPU kernels, tests, continuous integration, a bundle for a GPU host.

mod application;
mod bundle;
mod ci;
mod process;
mod ptx;
mod ptxas;
mod ratios;
mod setup;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    /// Assemble the committed PTX with ptxas: registers, shared memory, spills
    CheckPtx,
    /// Install what building and checking the kernels needs (Debian, as root), or say what is missing
    SetupKernels,
    /// Run all tests of the workspace
    Test {
        /// Arguments of `cargo test`, such as `-p bmgard` or `-- --nocapture`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build and run the sample application outside the workspace, without and with the feature `cuda`
    TestApplication,
    /// All that continuous integration checks
    Ci,
    /// Measure the ratios on the real fields, as tables in Markdown
    Ratios {
        /// The folder with the raw files, whose names give shape and type
        data: PathBuf,
        /// `paper` with all its error budgets, or `fast`
        #[arg(long, value_enum, default_value = "paper")]
        mode: ratios::Mode,
        /// A Python program to check each decoded field too, called with ORIGINAL DECODED f32|f64 ABS_BOUND [--fill VALUE]
        #[arg(long, value_name = "FILE")]
        checker: Option<PathBuf>,
        /// Put the tables into docs/benchmarks.md instead of printing them
        #[arg(long)]
        write: bool,
    },
    /// Build what tests a GPU into a folder that runs on a host without Rust
    BundleGpu {
        /// The folder, made anew
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    match chore {
        Chore::BuildPtx { check: false } => ptx::build(),
        Chore::BuildPtx { check: true } => ptx::compare(),
        Chore::CheckPtx => ptxas::check(),
        Chore::SetupKernels => setup::kernels(),
        Chore::Test { arguments } => ci::test(&arguments),
        Chore::TestApplication => application::test().map(|_| ()),
        Chore::Ci => ci::all(),
        Chore::Ratios { data, mode, checker, write } => ratios::measure(&data, mode, checker.as_deref(), write),
        Chore::BundleGpu { out } => bundle::build(&out.unwrap_or_else(|| target_dir().join("gpu-bundle"))),
    }
}

/// The repository's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root")
}

/// Where the build puts its files.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
