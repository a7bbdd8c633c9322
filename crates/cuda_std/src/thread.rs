//! Where a thread stands in its block and grid, barriers of a block, and memory fences.

use crate::raw;

macro_rules! special_registers {
    ($($(#[$doc:meta])* $name:ident = $symbol:ident;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name() -> u32 {
                // SAFETY: reads a special register, which has no preconditions.
                unsafe { raw::$symbol() }
            }
        )*
    };
}

special_registers! {
    /// The thread's index in its block, x.
    thread_idx_x = __cuda_std_thread_idx_x;
    /// The thread's index in its block, y.
    thread_idx_y = __cuda_std_thread_idx_y;
    /// The thread's index in its block, z.
    thread_idx_z = __cuda_std_thread_idx_z;
    /// The block's index in the grid, x.
    block_idx_x = __cuda_std_block_idx_x;
    /// The block's index in the grid, y.
    block_idx_y = __cuda_std_block_idx_y;
    /// The block's index in the grid, z.
    block_idx_z = __cuda_std_block_idx_z;
    /// Threads in a block, x.
    block_dim_x = __cuda_std_block_dim_x;
    /// Threads in a block, y.
    block_dim_y = __cuda_std_block_dim_y;
    /// Threads in a block, z.
    block_dim_z = __cuda_std_block_dim_z;
    /// Blocks in the grid, x.
    grid_dim_x = __cuda_std_grid_dim_x;
    /// Blocks in the grid, y.
    grid_dim_y = __cuda_std_grid_dim_y;
    /// Blocks in the grid, z.
    grid_dim_z = __cuda_std_grid_dim_z;
}

/// The thread's index in the grid where block and grid are 1-D. It wraps beyond 2^32 threads.
#[inline(always)]
pub fn index_1d() -> u32 {
    block_idx_x().wrapping_mul(block_dim_x()).wrapping_add(thread_idx_x())
}

/// Waits until all threads of the block are here; what they wrote to shared and global memory before is then visible to all of them.
///
/// All threads of the block must reach the same call: a branch around it must be uniform over the block.
#[inline(always)]
pub fn sync_threads() {
    // SAFETY: a barrier touches no memory of this thread; threads that miss it make the kernel hang or fail, which is defined.
    unsafe { raw::__cuda_std_sync_threads() }
}

/// [`sync_threads`] that also returns in how many threads of the block `predicate` is not 0.
#[inline(always)]
pub fn sync_threads_count(predicate: u32) -> u32 {
    // SAFETY: as for `sync_threads`.
    unsafe { raw::__cuda_std_sync_threads_count(predicate) }
}

/// [`sync_threads`] that also returns 1 if `predicate` is not 0 in every thread of the block, else 0.
#[inline(always)]
pub fn sync_threads_and(predicate: u32) -> u32 {
    // SAFETY: as for `sync_threads`.
    unsafe { raw::__cuda_std_sync_threads_and(predicate) }
}

/// [`sync_threads`] that also returns 1 if `predicate` is not 0 in some thread of the block, else 0.
#[inline(always)]
pub fn sync_threads_or(predicate: u32) -> u32 {
    // SAFETY: as for `sync_threads`.
    unsafe { raw::__cuda_std_sync_threads_or(predicate) }
}

/// Orders this thread's memory accesses before and after it, as the other threads of the block see them.
#[inline(always)]
pub fn block_fence() {
    // SAFETY: a fence has no preconditions.
    unsafe { raw::__cuda_std_block_fence() }
}

/// Orders this thread's memory accesses before and after it, as all threads of the device see them (CUDA's `__threadfence`).
#[inline(always)]
pub fn device_fence() {
    // SAFETY: a fence has no preconditions.
    unsafe { raw::__cuda_std_device_fence() }
}

/// Suspends the thread for about `nanos` nanoseconds, from 0 to twice that; for loops that wait for another block.
#[inline(always)]
pub fn nanosleep(nanos: u32) {
    // SAFETY: a pause has no preconditions.
    unsafe { raw::__cuda_std_nanosleep(nanos) }
}
