#![doc = include_str!("../README.md")]
#![no_std]
// This crate is the boundary to the device: its functions are calls of symbols that the builder links.
#![allow(unsafe_code)]
// `cuda_builder` is set by the builder of that name only.
#![allow(unexpected_cfgs)]

#[cfg(all(target_arch = "nvptx64", not(cuda_builder)))]
compile_error!(
    "kernel crates are built by `cuda_builder` only: it passes -Zmir-enable-passes=-JumpThreading to every crate, \
     without which rustc copies barriers and warp votes into branches and kernels compute wrong values"
);

pub mod atomic;
pub mod intrinsics;
mod raw;
pub mod selftest;
pub mod shared;
pub mod thread;
pub mod warp;

pub use cuda_std_macros::{kernel, shared_array};

/// What most kernels use.
pub mod prelude {
    pub use crate::{intrinsics, kernel, shared, shared_array, thread, warp};
}

/// Where every function of this crate ends on a target that is not a GPU.
#[cfg(not(target_arch = "nvptx64"))]
#[cold]
fn only_on_device() -> ! {
    panic!("cuda_std works in a kernel on the device only")
}

/// A kernel that panics stops the whole launch with an error that the host sees.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: a trap has no preconditions.
    unsafe { raw::__cuda_std_trap() }
}
