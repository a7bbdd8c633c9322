//! Where each of many parts of different sizes starts: sums in groups, then of groups.
//!
//! Part i starts at `bases[i / 1024] + offsets[i]`.

use cuda_std::prelude::*;

use crate::common::{load, running_sum};
use crate::unroll::each4;

/// Values of a group.
pub const GROUP: u32 = 1024;
/// Threads of a block that sums a group.
pub const GROUP_BLOCK: u32 = 256;
/// Threads of the block that sums the groups' totals.
pub const TOTALS_BLOCK: u32 = 1024;

/// Where part `i` starts.
///
/// # Safety
/// The part exists, and its group's base.
#[inline(always)]
pub(crate) unsafe fn start(offsets: *const u32, bases: *const u64, i: u32) -> u64 {
    // SAFETY: the caller's.
    unsafe { *bases.add((i / GROUP) as usize) + *offsets.add(i as usize) as u64 }
}

/// A value that is summed.
trait Part: Copy + Into<u32> {}
impl Part for u16 {}
impl Part for u32 {}

#[inline(always)]
unsafe fn groups<P: Part>(n: u32, values: *const P, offsets: *mut u32, totals: *mut u32) {
    let warps = shared_array![u32; 8];
    let (block, t) = (thread::block_idx_x(), thread::thread_idx_x());
    // 4 values in a row.
    let first = block * GROUP + t * 4;
    let mut parts = [0u32; 4];
    // SAFETY: indices are checked; 8 warps have 8 places; all threads are here.
    unsafe {
        each4!(|k| {
            if first + (k as u32) < n {
                parts[k] = load(values.add((first + k as u32) as usize)).into();
            }
        });
        let own = parts[0].wrapping_add(parts[1]).wrapping_add(parts[2]).wrapping_add(parts[3]);
        let sum = running_sum(own);
        if warp::lane_id() == 31 {
            *warps.add((t / 32) as usize) = sum;
        }
        thread::sync_threads();
        let mut at = sum.wrapping_sub(own);
        let mut warp = 0;
        while warp < t / 32 {
            at = at.wrapping_add(*warps.add(warp as usize));
            warp += 1;
        }
        each4!(|k| {
            if first + (k as u32) < n {
                *offsets.add((first + k as u32) as usize) = at;
            }
            at = at.wrapping_add(parts[k]);
        });
        if t == GROUP_BLOCK - 1 {
            *totals.add(block as usize) = at;
        }
    }
}

macro_rules! kernels {
    ($part:ident, $scan:ident) => {
        /// Per group of 1024 values: for each, the sum of those before it, and the sum of all; modulo 2^32.
        ///
        /// Grid: ceil(n / 1024) blocks; block: 256 threads. Shared memory: 32 bytes, static.
        ///
        /// # Safety
        ///
        /// `values` points to `n` values, at any byte address; `offsets` to as many, `totals` to one value for each group.
        #[kernel(max_threads = GROUP_BLOCK)]
        pub unsafe fn $scan(n: u32, values: *const $part, offsets: *mut u32, totals: *mut u32) {
            // SAFETY: the caller's.
            unsafe { groups(n, values, offsets, totals) }
        }
    };
}

kernels!(u16, scan_groups_u16);
kernels!(u32, scan_groups_u32);

/// For each group the sum of the totals before it, and the sum of all.
///
/// Grid: 1 block; block: 1024 threads. Shared memory: 256 bytes, static.
///
/// # Safety
///
/// `totals` points to `groups` values, `bases` to one more.
#[kernel(max_threads = TOTALS_BLOCK)]
pub unsafe fn scan_totals(groups: u32, totals: *const u32, bases: *mut u64) {
    let warps = shared_array![u64; 32];
    let (t, lane) = (thread::thread_idx_x(), warp::lane_id());
    let mut base = 0;
    let mut first = 0;
    // SAFETY: indices are checked; 32 warps have 32 places; all threads go the same way.
    unsafe {
        while first < groups {
            let i = first + t;
            let own = if i < groups { *totals.add(i as usize) as u64 } else { 0 };
            let sum = running_sum(own);
            if lane == 31 {
                *warps.add((t / 32) as usize) = sum;
            }
            thread::sync_threads();
            // Every warp sums the warps' sums.
            let sums = running_sum(*warps.add(lane as usize));
            let before = warp::full::shuffle(sums, (t / 32).wrapping_sub(1));
            let all = warp::full::shuffle(sums, 31);
            thread::sync_threads();
            if i < groups {
                *bases.add(i as usize) = base + if t < 32 { 0 } else { before } + sum - own;
            }
            base += all;
            first += TOTALS_BLOCK;
        }
        if t == 0 {
            *bases.add(groups as usize) = base;
        }
    }
}
