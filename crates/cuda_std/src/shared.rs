//! Shared memory: the block's own fast memory.
//!
//! [`shared_array!`](crate::shared_array) makes a static array, whose size the kernel's code fixes; [`dynamic_shared_mem`] is the rest,
//! whose size the launch gives. Both are uninitialised when the block starts.

use crate::raw;

/// The start of the block's dynamic shared memory, aligned to 16 bytes; the launch says how many bytes it has.
///
/// Every call returns the same address. Accesses through it need the same care as any memory that threads share: a barrier between a write and another
/// thread's read.
#[inline(always)]
pub fn dynamic_shared_mem<T>() -> *mut T {
    const { assert!(align_of::<T>() <= 16, "dynamic shared memory is aligned to 16 bytes") };
    // SAFETY: returns an address, which has no preconditions.
    unsafe { raw::__cuda_std_dynamic_shared_mem().cast() }
}

/// What [`shared_array!`](crate::shared_array) is on a target that is not a GPU: a panic, of a type that lets the code after it compile.
#[doc(hidden)]
#[cfg(not(target_arch = "nvptx64"))]
pub fn no_array<T>() -> *mut T {
    crate::only_on_device()
}

macro_rules! shared_atomics {
    ($($(#[$doc:meta])* $name:ident, $ty:ty, $symbol:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Relaxed, among the threads of the block. Returns the value before.
            ///
            /// # Safety
            ///
            /// `ptr` points into shared memory, is aligned to its size, and other threads access that place by atomics only meanwhile.
            #[inline(always)]
            pub unsafe fn $name(ptr: *mut $ty, value: $ty) -> $ty {
                // SAFETY: passed on to the caller.
                unsafe { raw::$symbol(ptr, value) }
            }
        )*
    };
}

shared_atomics! {
    /// Adds, wrapping.
    atomic_add_u32, u32, __cuda_std_atomic_add_u32_shared;
    /// Adds, wrapping.
    atomic_add_u64, u64, __cuda_std_atomic_add_u64_shared;
    /// Bitwise and.
    atomic_and_u32, u32, __cuda_std_atomic_and_u32_shared;
    /// Bitwise and.
    atomic_and_u64, u64, __cuda_std_atomic_and_u64_shared;
    /// Bitwise or.
    atomic_or_u32, u32, __cuda_std_atomic_or_u32_shared;
    /// Bitwise or.
    atomic_or_u64, u64, __cuda_std_atomic_or_u64_shared;
    /// Bitwise exclusive or.
    atomic_xor_u32, u32, __cuda_std_atomic_xor_u32_shared;
    /// Bitwise exclusive or.
    atomic_xor_u64, u64, __cuda_std_atomic_xor_u64_shared;
    /// The lesser of both.
    atomic_min_u32, u32, __cuda_std_atomic_min_u32_shared;
    /// The lesser of both.
    atomic_min_u64, u64, __cuda_std_atomic_min_u64_shared;
    /// The greater of both.
    atomic_max_u32, u32, __cuda_std_atomic_max_u32_shared;
    /// The greater of both.
    atomic_max_u64, u64, __cuda_std_atomic_max_u64_shared;
    /// Replaces.
    atomic_exch_u32, u32, __cuda_std_atomic_exch_u32_shared;
    /// Replaces.
    atomic_exch_u64, u64, __cuda_std_atomic_exch_u64_shared;
}
