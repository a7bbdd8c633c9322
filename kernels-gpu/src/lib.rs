//! bmgard's GPU kernels.
//!
//! Built to one PTX file, `ptx/kernels.ptx`, by `cargo xtask build-ptx`; the library embeds that file. A kernel documents its grid, its block, its
//! shared memory and, under `# Safety`, what its pointers must be.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

pub mod archive;
pub mod closed;
pub mod coding;
mod common;
pub mod field;
pub mod global;
pub mod local;
pub mod packed;
pub mod packed_sections;
pub mod packed_volume;
pub mod patches;
pub mod rice;
pub mod scan;
pub mod selftest;
mod unroll;
