//! The numerical definition of bmgard, written once and called by the CPU backend's loops and by the GPU's kernels.
//!
//! Nothing here allocates, and nothing panics on a hot path. Shapes are written slowest dimension first. "Coarse" nodes stay on the
//! next level, "detail" nodes do not.

#![no_std]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

pub mod axis;
pub mod closed;
pub mod crc;
pub mod packed;
mod real;
pub mod tile;
pub mod token;

pub use real::{Real, Symbol};
