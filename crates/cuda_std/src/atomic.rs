//! Atomic accesses to global memory (and, by a generic address, to shared memory).

/// Functions named `atomic_<operation>_<ordering>_<type or width>_<scope>`, as in rust-cuda.
///
/// `block` scope orders among the threads of one block, `device` scope among all threads of the GPU. For memory known to be shared,
/// [`crate::shared`] has forms that never go through a generic address.
pub mod intrinsics {
    use crate::raw;

    macro_rules! fetch {
        ($($(#[$doc:meta])* $name:ident, $ty:ty, $symbol:ident;)*) => {
            $(
                $(#[$doc])*
                /// Relaxed. Returns the value before.
                ///
                /// # Safety
                ///
                /// `ptr` points to valid memory, is aligned to its size, and other threads access that place by atomics only meanwhile.
                #[inline(always)]
                pub unsafe fn $name(ptr: *mut $ty, value: $ty) -> $ty {
                    // SAFETY: passed on to the caller.
                    unsafe { raw::$symbol(ptr, value) }
                }
            )*
        };
    }

    macro_rules! load_store {
        ($($load:ident $load_symbol:ident, $store:ident $store_symbol:ident, $ty:ty, $loads:literal, $stores:literal;)*) => {
            $(
                #[doc = $loads]
                ///
                /// # Safety
                ///
                /// `ptr` points to valid memory, is aligned to its size, and other threads access that place by atomics only meanwhile.
                #[inline(always)]
                pub unsafe fn $load(ptr: *const $ty) -> $ty {
                    // SAFETY: passed on to the caller.
                    unsafe { raw::$load_symbol(ptr) }
                }

                #[doc = $stores]
                ///
                /// # Safety
                ///
                /// `ptr` points to valid memory, is aligned to its size, and other threads access that place by atomics only meanwhile.
                #[inline(always)]
                pub unsafe fn $store(ptr: *mut $ty, value: $ty) {
                    // SAFETY: passed on to the caller.
                    unsafe { raw::$store_symbol(ptr, value) }
                }
            )*
        };
    }

    load_store! {
        atomic_load_relaxed_32_device __cuda_std_atomic_load_relaxed_32_device,
            atomic_store_relaxed_32_device __cuda_std_atomic_store_relaxed_32_device, u32,
            "Loads without ordering other accesses.", "Stores without ordering other accesses.";
        atomic_load_relaxed_64_device __cuda_std_atomic_load_relaxed_64_device,
            atomic_store_relaxed_64_device __cuda_std_atomic_store_relaxed_64_device, u64,
            "Loads without ordering other accesses.", "Stores without ordering other accesses.";
        atomic_load_acquire_32_device __cuda_std_atomic_load_acquire_32_device,
            atomic_store_release_32_device __cuda_std_atomic_store_release_32_device, u32,
            "Loads; what the thread that released this value wrote before is visible afterwards.",
            "Stores; a thread that acquires this value sees what this thread wrote before.";
        atomic_load_acquire_64_device __cuda_std_atomic_load_acquire_64_device,
            atomic_store_release_64_device __cuda_std_atomic_store_release_64_device, u64,
            "Loads; what the thread that released this value wrote before is visible afterwards.",
            "Stores; a thread that acquires this value sees what this thread wrote before.";
    }

    fetch! {
        /// Adds, wrapping.
        atomic_fetch_add_relaxed_u32_device, u32, __cuda_std_atomic_add_u32_device;
        /// Adds, wrapping.
        atomic_fetch_add_relaxed_u64_device, u64, __cuda_std_atomic_add_u64_device;
        /// Adds, wrapping.
        atomic_fetch_add_relaxed_u32_block, u32, __cuda_std_atomic_add_u32_block;
        /// Adds, wrapping.
        atomic_fetch_add_relaxed_u64_block, u64, __cuda_std_atomic_add_u64_block;
        /// Bitwise and.
        atomic_fetch_and_relaxed_u32_device, u32, __cuda_std_atomic_and_u32_device;
        /// Bitwise and.
        atomic_fetch_and_relaxed_u64_device, u64, __cuda_std_atomic_and_u64_device;
        /// Bitwise and.
        atomic_fetch_and_relaxed_u32_block, u32, __cuda_std_atomic_and_u32_block;
        /// Bitwise and.
        atomic_fetch_and_relaxed_u64_block, u64, __cuda_std_atomic_and_u64_block;
        /// Bitwise or.
        atomic_fetch_or_relaxed_u32_device, u32, __cuda_std_atomic_or_u32_device;
        /// Bitwise or.
        atomic_fetch_or_relaxed_u64_device, u64, __cuda_std_atomic_or_u64_device;
        /// Bitwise or.
        atomic_fetch_or_relaxed_u32_block, u32, __cuda_std_atomic_or_u32_block;
        /// Bitwise or.
        atomic_fetch_or_relaxed_u64_block, u64, __cuda_std_atomic_or_u64_block;
        /// Bitwise exclusive or.
        atomic_fetch_xor_relaxed_u32_device, u32, __cuda_std_atomic_xor_u32_device;
        /// Bitwise exclusive or.
        atomic_fetch_xor_relaxed_u64_device, u64, __cuda_std_atomic_xor_u64_device;
        /// Bitwise exclusive or.
        atomic_fetch_xor_relaxed_u32_block, u32, __cuda_std_atomic_xor_u32_block;
        /// Bitwise exclusive or.
        atomic_fetch_xor_relaxed_u64_block, u64, __cuda_std_atomic_xor_u64_block;
        /// The lesser of both.
        atomic_fetch_min_relaxed_u32_device, u32, __cuda_std_atomic_min_u32_device;
        /// The lesser of both.
        atomic_fetch_min_relaxed_u64_device, u64, __cuda_std_atomic_min_u64_device;
        /// The lesser of both.
        atomic_fetch_min_relaxed_u32_block, u32, __cuda_std_atomic_min_u32_block;
        /// The lesser of both.
        atomic_fetch_min_relaxed_u64_block, u64, __cuda_std_atomic_min_u64_block;
        /// The greater of both.
        atomic_fetch_max_relaxed_u32_device, u32, __cuda_std_atomic_max_u32_device;
        /// The greater of both.
        atomic_fetch_max_relaxed_u64_device, u64, __cuda_std_atomic_max_u64_device;
        /// The greater of both.
        atomic_fetch_max_relaxed_u32_block, u32, __cuda_std_atomic_max_u32_block;
        /// The greater of both.
        atomic_fetch_max_relaxed_u64_block, u64, __cuda_std_atomic_max_u64_block;
        /// Replaces.
        atomic_fetch_exch_relaxed_u32_device, u32, __cuda_std_atomic_exch_u32_device;
        /// Replaces.
        atomic_fetch_exch_relaxed_u64_device, u64, __cuda_std_atomic_exch_u64_device;
        /// Replaces.
        atomic_fetch_exch_relaxed_u32_block, u32, __cuda_std_atomic_exch_u32_block;
        /// Replaces.
        atomic_fetch_exch_relaxed_u64_block, u64, __cuda_std_atomic_exch_u64_block;
    }
}
