//! The symbols that `cuda_builder`'s LLVM module defines. All are inlined when the PTX is made.

/// Declares the symbols for the device and, for any other target, functions of the same signature that panic.
macro_rules! device_symbols {
    ($($(#[$attr:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        #[cfg(target_arch = "nvptx64")]
        unsafe extern "C" {
            $($(#[$attr])* pub(crate) fn $name($($arg: $ty),*) $(-> $ret)?;)*
        }
        $(
            $(#[$attr])*
            #[cfg(not(target_arch = "nvptx64"))]
            #[allow(dead_code, reason = "the panic handler, which uses one, is the device's")]
            pub(crate) unsafe fn $name($(_: $ty),*) $(-> $ret)? {
                crate::only_on_device()
            }
        )*
    };
}

device_symbols! {
    fn __cuda_std_thread_idx_x() -> u32;
    fn __cuda_std_thread_idx_y() -> u32;
    fn __cuda_std_thread_idx_z() -> u32;
    fn __cuda_std_block_idx_x() -> u32;
    fn __cuda_std_block_idx_y() -> u32;
    fn __cuda_std_block_idx_z() -> u32;
    fn __cuda_std_block_dim_x() -> u32;
    fn __cuda_std_block_dim_y() -> u32;
    fn __cuda_std_block_dim_z() -> u32;
    fn __cuda_std_grid_dim_x() -> u32;
    fn __cuda_std_grid_dim_y() -> u32;
    fn __cuda_std_grid_dim_z() -> u32;

    fn __cuda_std_sync_threads();
    fn __cuda_std_sync_threads_count(predicate: u32) -> u32;
    fn __cuda_std_sync_threads_and(predicate: u32) -> u32;
    fn __cuda_std_sync_threads_or(predicate: u32) -> u32;
    fn __cuda_std_block_fence();
    fn __cuda_std_device_fence();
    fn __cuda_std_nanosleep(nanos: u32);

    fn __cuda_std_lane_id() -> u32;
    fn __cuda_std_lanemask_lt() -> u32;
    fn __cuda_std_activemask() -> u32;
    fn __cuda_std_sync_warp(mask: u32);
    fn __cuda_std_vote_all(mask: u32, predicate: u32) -> u32;
    fn __cuda_std_vote_any(mask: u32, predicate: u32) -> u32;
    fn __cuda_std_vote_ballot(mask: u32, predicate: u32) -> u32;
    fn __cuda_std_shuffle_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    fn __cuda_std_shuffle_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    fn __cuda_std_shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    fn __cuda_std_shuffle_xor(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32;
    fn __cuda_std_reduce_add(mask: u32, value: u32) -> u32;
    fn __cuda_std_reduce_and(mask: u32, value: u32) -> u32;
    fn __cuda_std_reduce_or(mask: u32, value: u32) -> u32;
    fn __cuda_std_reduce_xor(mask: u32, value: u32) -> u32;
    fn __cuda_std_reduce_min_u32(mask: u32, value: u32) -> u32;
    fn __cuda_std_reduce_max_u32(mask: u32, value: u32) -> u32;
    fn __cuda_std_reduce_min_i32(mask: u32, value: u32) -> u32;
    fn __cuda_std_reduce_max_i32(mask: u32, value: u32) -> u32;

    fn __cuda_std_dynamic_shared_mem() -> *mut u8;

    fn __cuda_std_fma_f32(a: f32, b: f32, c: f32) -> f32;
    fn __cuda_std_fma_f64(a: f64, b: f64, c: f64) -> f64;
    fn __cuda_std_round_ties_even_f32(x: f32) -> f32;
    fn __cuda_std_round_ties_even_f64(x: f64) -> f64;
    fn __cuda_std_max_nan_f32(a: f32, b: f32) -> f32;
    fn __cuda_std_min_nan_f32(a: f32, b: f32) -> f32;
    fn __cuda_std_byte_permute(a: u32, b: u32, selector: u32) -> u32;
    fn __cuda_std_funnel_shift_left(high: u32, low: u32, bits: u32) -> u32;
    fn __cuda_std_funnel_shift_right(high: u32, low: u32, bits: u32) -> u32;
    fn __cuda_std_load_readonly_16(ptr: *const u16) -> u16;
    fn __cuda_std_load_readonly_32(ptr: *const u32) -> u32;
    fn __cuda_std_load_readonly_64(ptr: *const u64) -> u64;
    fn __cuda_std_copy_async_32(to: *mut u32, from: *const u32);
    fn __cuda_std_copy_async_64(to: *mut u64, from: *const u64);
    fn __cuda_std_copy_async_wait();
    fn __cuda_std_trap() -> !;

    fn __cuda_std_atomic_load_relaxed_32_device(ptr: *const u32) -> u32;
    fn __cuda_std_atomic_load_relaxed_64_device(ptr: *const u64) -> u64;
    fn __cuda_std_atomic_load_acquire_32_device(ptr: *const u32) -> u32;
    fn __cuda_std_atomic_load_acquire_64_device(ptr: *const u64) -> u64;
    fn __cuda_std_atomic_store_relaxed_32_device(ptr: *mut u32, value: u32);
    fn __cuda_std_atomic_store_relaxed_64_device(ptr: *mut u64, value: u64);
    fn __cuda_std_atomic_store_release_32_device(ptr: *mut u32, value: u32);
    fn __cuda_std_atomic_store_release_64_device(ptr: *mut u64, value: u64);
}

/// Declares the read-modify-write symbols: one per operation, width and place.
macro_rules! atomic_symbols {
    ($($op:ident: $u32_device:ident $u64_device:ident $u32_block:ident $u64_block:ident $u32_shared:ident $u64_shared:ident;)*) => {
        device_symbols! {
            $(
                fn $u32_device(ptr: *mut u32, value: u32) -> u32;
                fn $u64_device(ptr: *mut u64, value: u64) -> u64;
                fn $u32_block(ptr: *mut u32, value: u32) -> u32;
                fn $u64_block(ptr: *mut u64, value: u64) -> u64;
                fn $u32_shared(ptr: *mut u32, value: u32) -> u32;
                fn $u64_shared(ptr: *mut u64, value: u64) -> u64;
            )*
        }
    };
}

atomic_symbols! {
    add: __cuda_std_atomic_add_u32_device __cuda_std_atomic_add_u64_device __cuda_std_atomic_add_u32_block
         __cuda_std_atomic_add_u64_block __cuda_std_atomic_add_u32_shared __cuda_std_atomic_add_u64_shared;
    and: __cuda_std_atomic_and_u32_device __cuda_std_atomic_and_u64_device __cuda_std_atomic_and_u32_block
         __cuda_std_atomic_and_u64_block __cuda_std_atomic_and_u32_shared __cuda_std_atomic_and_u64_shared;
    or:  __cuda_std_atomic_or_u32_device __cuda_std_atomic_or_u64_device __cuda_std_atomic_or_u32_block
         __cuda_std_atomic_or_u64_block __cuda_std_atomic_or_u32_shared __cuda_std_atomic_or_u64_shared;
    xor: __cuda_std_atomic_xor_u32_device __cuda_std_atomic_xor_u64_device __cuda_std_atomic_xor_u32_block
         __cuda_std_atomic_xor_u64_block __cuda_std_atomic_xor_u32_shared __cuda_std_atomic_xor_u64_shared;
    min: __cuda_std_atomic_min_u32_device __cuda_std_atomic_min_u64_device __cuda_std_atomic_min_u32_block
         __cuda_std_atomic_min_u64_block __cuda_std_atomic_min_u32_shared __cuda_std_atomic_min_u64_shared;
    max: __cuda_std_atomic_max_u32_device __cuda_std_atomic_max_u64_device __cuda_std_atomic_max_u32_block
         __cuda_std_atomic_max_u64_block __cuda_std_atomic_max_u32_shared __cuda_std_atomic_max_u64_shared;
    exch: __cuda_std_atomic_exch_u32_device __cuda_std_atomic_exch_u64_device __cuda_std_atomic_exch_u32_block
         __cuda_std_atomic_exch_u64_block __cuda_std_atomic_exch_u32_shared __cuda_std_atomic_exch_u64_shared;
}
