//! Builds a small crate of kernels, where the kernel toolchain is installed.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{CudaBuilder, Toolchain, launch_bounds, unsafe_narrow_stores};

/// A crate that the kernels depend on, as bmgard's do on its core: it knows nothing of `cuda_std` but the name of a symbol.
const NUMERICS: &str = r#"
#![no_std]
unsafe extern "C" { safe fn __cuda_std_fma_f32(a: f32, b: f32, c: f32) -> f32; }
/// One rounding.
#[inline(always)]
pub fn fused(a: f32, b: f32, c: f32) -> f32 { __cuda_std_fma_f32(a, b, c) }
/// Two roundings.
#[inline(always)]
pub fn separate(a: f32, b: f32, c: f32) -> f32 { a * b + c }
/// A function and a table that stay in the PTX under names of the compiler's.
#[inline(never)]
pub fn look_up(i: u32) -> u32 { static TABLE: [u32; 5] = [3, 1, 4, 1, 5]; TABLE[(i % 5) as usize] }
"#;

const KERNELS: &str = r#"
#![no_std]
#![feature(abi_ptx)]
use cuda_std::prelude::*;

const THREADS: u32 = 4 * 32;

#[kernel(max_threads = THREADS, min_blocks = 3)]
pub unsafe fn numbers(x: *const f32, fused: *mut f32, separate: *mut f32, narrow: *mut u16, small: *mut u8, i: u32) {
    unsafe {
        let v = *x.add(i as usize);
        *fused.add(i as usize) = numerics::fused(v, 3.0, 5.0);
        *separate.add(i as usize) = numerics::separate(v, 7.0, 9.0);
        *narrow.add(i as usize) = (v + 11.0).to_bits() as u16;
        *small.add(i as usize) = (v + 13.0).to_bits() as u8;
    }
}

#[kernel]
pub unsafe fn table(out: *mut u32, i: u32) {
    unsafe { *out = numerics::look_up(i) + numerics::look_up(i + 1) };
}

#[derive(Clone, Copy)]
enum Side { Left, Right }

#[kernel(max_threads = THREADS)]
pub unsafe fn barriers(data: *mut u32) {
    let (left, right) = (shared_array![u32; THREADS as usize], shared_array![u64; 3 * 5]);
    let t = thread::thread_idx_x();
    unsafe {
        let mut v = *data.add(t as usize);
        for round in 0..2 {
            let side = if v & 1 << round == 0 { Side::Left } else { Side::Right };
            *left.add(t as usize) = v;
            *right.add((t % 15) as usize) = v as u64;
            thread::sync_threads();
            match side {
                Side::Left => v ^= *left.add((t ^ 1) as usize),
                Side::Right => v += *right.add(7) as u32,
            }
            v ^= warp::full::ballot(v & 4 == 0);
            thread::sync_threads();
        }
        *data.add(t as usize) = v;
    }
}
"#;

fn toolchain_is_missing() -> bool {
    match Toolchain::from_env().versions() {
        Ok(_) => false,
        Err(error) => {
            eprintln!("skipped: {error}");
            true
        }
    }
}

/// Writes a workspace with this repository's `cuda_std`, the crate above and `kernels` to `folder`; returns the path of the kernel crate.
fn write_crates(folder: &Path, kernels: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("Cargo.toml", &fs::read_to_string(crates.parent().unwrap().join("Cargo.toml")).unwrap());
    for name in ["cuda_std", "cuda_std_macros"] {
        for file in ["Cargo.toml", "README.md"] {
            put(&format!("crates/{name}/{file}"), &fs::read_to_string(crates.join(name).join(file)).unwrap());
        }
        for file in fs::read_dir(crates.join(name).join("src")).unwrap() {
            let file = file.unwrap();
            let text = fs::read_to_string(file.path()).unwrap();
            put(&format!("crates/{name}/src/{}", file.file_name().to_str().unwrap()), &text);
        }
    }
    put("numerics/Cargo.toml", "[package]\nname = \"numerics\"\nedition = \"2024\"\n");
    put("numerics/src/lib.rs", NUMERICS);
    put(
        "kernels/Cargo.toml",
        "[package]\nname = \"kernels\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\ncuda_std = { path = \"../crates/cuda_std\" }\nnumerics = { path = \"../numerics\" }\n\
         [profile.release]\nlto = \"fat\"\ncodegen-units = 1\npanic = \"abort\"\nopt-level = 3\n",
    );
    put("kernels/src/lib.rs", kernels);
    folder.join("kernels")
}

/// The part of the PTX that belongs to one kernel.
fn entry<'a>(ptx: &'a str, name: &str) -> &'a str {
    let start = ptx.find(&format!(".entry {name}(")).unwrap();
    let length = ptx[start..].find("\n}").unwrap();
    &ptx[start..start + length]
}

#[test]
fn kernels_become_ptx_that_is_the_same_in_any_folder() {
    if toolchain_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = write_crates(&folder.path().join("first"), KERNELS);
    let second = write_crates(&folder.path().join("a second, with a longer name"), KERNELS);
    let build = |path: &Path| CudaBuilder::new(path).target_dir(folder.path().join("target")).build().unwrap();

    let built = build(&first);
    let ptx = &built.ptx;
    assert_eq!(built.kernels, ["barriers", "numbers", "table"]);
    let bounds = launch_bounds(ptx);
    let expected = [("barriers", (Some(128), None)), ("numbers", (Some(128), Some(3))), ("table", (None, None))];
    assert_eq!(bounds, expected.map(|(name, bounds)| (name.to_owned(), bounds)));
    assert_eq!(unsafe_narrow_stores(ptx), []);

    let numbers = entry(ptx, "numbers");
    assert_eq!(numbers.matches("fma.rn.f32").count(), 1, "{numbers}");
    assert_eq!((numbers.matches("mul.rn.f32").count(), numbers.matches("cvt.u16.u32").count()), (1, 2), "{numbers}");

    let barriers = entry(ptx, "barriers");
    assert_eq!(barriers.matches("bar.sync").count(), 4, "barriers were copied into branches:\n{barriers}");
    assert_eq!(barriers.matches("vote.sync.ballot").count(), 2, "{barriers}");
    assert!(barriers.contains(".b8 shared_kernels_0[512]") && barriers.contains(".b8 shared_kernels_1[120]"), "{barriers}");
    assert!(barriers.contains("ld.shared") && barriers.contains("st.shared"), "{barriers}");

    assert!(ptx.contains("function_0") || ptx.contains("constant_0"), "{ptx}");
    assert_eq!(build(&second).ptx, *ptx);
}
