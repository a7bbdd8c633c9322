//! Packs the kernels' PTX for programs to carry: a fifth of its size.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::{env, process};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    let ptx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels-gpu/ptx/kernels.ptx");
    println!("cargo::rerun-if-changed={}", ptx.display());
    if let Err(error) = pack(&ptx) {
        eprintln!("cannot pack {}: {error}", ptx.display());
        process::exit(1);
    }
}

fn pack(ptx: &Path) -> io::Result<()> {
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    let mut packed = GzEncoder::new(File::create(Path::new(&out).join("kernels.ptx.gz"))?, Compression::best());
    packed.write_all(&fs::read(ptx)?)?;
    packed.finish().map(|_| ())
}
