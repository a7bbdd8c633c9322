//! Kernels that check the device and its driver: what they compute is defined, for the host too, in [`cuda_std::selftest`].

use cuda_std::atomic::intrinsics::atomic_fetch_add_relaxed_u64_device;
use cuda_std::prelude::*;
use cuda_std::selftest::{self, ARITHMETIC_RESULTS, BINS, BLOCK, ROUNDS, WARP, WARP_RESULTS};

/// Copies `n` words of 16 bytes.
///
/// Grid and block: any, 1-D; each thread takes every (number of threads)th word. No shared memory.
///
/// # Safety
///
/// `source` and `target` are aligned to 16 and point to `n` words each, which do not overlap.
#[kernel]
pub unsafe fn selftest_copy(source: *const u128, target: *mut u128, n: u32) {
    let threads = thread::grid_dim_x() * thread::block_dim_x();
    let mut i = thread::index_1d();
    while i < n {
        // SAFETY: i < n.
        unsafe { *target.add(i as usize) = *source.add(i as usize) };
        i += threads;
    }
}

/// [`selftest::narrow_stores`]: the low 16 and 8 bits of floats, and the low 32, 16 and 8 bits of doubles, stored directly and through shared memory.
///
/// Element i gives `out32[i]`, and the three values of 16 and 8 bits at i, n + i and 2 n + i.
/// Grid: n / 128 blocks; block: 128 threads. Shared memory: 384 bytes, static.
///
/// # Safety
///
/// `n` is a multiple of 128 and the grid's number of threads; `singles` and `doubles` point to `n` values, `out32` to `n`, `out16` and `out8` to `3 n`.
#[kernel(max_threads = BLOCK as u32)]
pub unsafe fn selftest_narrow_stores(singles: *const f32, doubles: *const f64, n: u32, out32: *mut u32, out16: *mut u16, out8: *mut u8) {
    let shared16 = shared_array![u16; BLOCK];
    let shared8 = shared_array![u8; BLOCK];
    let (i, t) = (thread::index_1d(), thread::thread_idx_x());
    let (second, third) = (n + i, 2 * n + i);
    let mirror = BLOCK as u32 - 1 - t;
    // SAFETY: i < n; t and mirror are below the arrays' length, and a barrier stands between the writes and the reads of them.
    unsafe {
        let (single, double) = (*singles.add(i as usize), *doubles.add(i as usize));
        *out16.add(i as usize) = selftest::rounded_bits_f32(single, 1.0) as u16;
        *out8.add(i as usize) = selftest::rounded_bits_f32(single, 3.0) as u8;
        *shared16.add(t as usize) = selftest::rounded_bits_f32(single, 5.0) as u16;
        *shared8.add(t as usize) = selftest::rounded_bits_f32(single, 7.0) as u8;
        thread::sync_threads();
        *out16.add(second as usize) = *shared16.add(mirror as usize);
        *out8.add(second as usize) = *shared8.add(mirror as usize);
        *out32.add(i as usize) = selftest::rounded_bits_f64(double, 1.0) as u32;
        *out16.add(third as usize) = selftest::rounded_bits_f64(double, 3.0) as u16;
        *out8.add(third as usize) = selftest::rounded_bits_f64(double, 5.0) as u8;
    }
}

/// [`selftest::arithmetic`] of each triple of elements.
///
/// Grid and block: 1-D, at least `n` threads. No shared memory.
///
/// # Safety
///
/// `a`, `b` and `c` point to `n` values, `out` to 8 `n`.
#[kernel(max_threads = BLOCK as u32)]
pub unsafe fn selftest_arithmetic(a: *const f32, b: *const f32, c: *const f32, n: u32, out: *mut u64) {
    let i = thread::index_1d();
    if i < n {
        let at = i as usize;
        // SAFETY: i < n.
        unsafe {
            let results = selftest::arithmetic(*a.add(at), *b.add(at), *c.add(at), intrinsics::fma_f32, intrinsics::fma_f64);
            let out = out.add(ARITHMETIC_RESULTS * at);
            for (k, result) in results.into_iter().enumerate() {
                *out.add(k) = result;
            }
        }
    }
}

/// [`selftest::warp`]: votes, shuffles and reductions of each warp's values.
///
/// Grid: n / 128 blocks; block: 128 threads. No shared memory.
///
/// # Safety
///
/// `n` is a multiple of 128 and the grid's number of threads; `values` points to `n` values, `out` to 12 `n`.
#[kernel(max_threads = BLOCK as u32)]
pub unsafe fn selftest_warp(values: *const u32, out: *mut u32) {
    let i = thread::index_1d();
    let lane = warp::lane_id();
    // SAFETY: i < n; all lanes of the warp are here.
    unsafe {
        let v = *values.add(i as usize);
        let odd = warp::full::ballot(v & 1 == 1);
        let (mixed, _) = warp::warp_shuffle_idx(warp::FULL_MASK, selftest::mix(v), lane + 15, 16);
        let results: [u32; WARP_RESULTS] = [
            odd,
            (odd & warp::lanemask_lt()).count_ones(),
            warp::full::all(v & 1 == 1) as u32,
            warp::full::any(v & 1 == 1) as u32,
            warp::full::shuffle(v, lane * 7 + 3),
            warp::full::shuffle_up(v, 3),
            warp::full::shuffle_down(f32::from_bits(v), 5).to_bits(),
            warp::full::shuffle_xor(v as i32, 9) as u32,
            mixed as u32 ^ (mixed >> 32) as u32,
            warp::full::reduce_add(v),
            warp::full::reduce_min(v),
            warp::full::reduce_max(v) ^ warp::full::reduce_or(v),
        ];
        let out = out.add(WARP_RESULTS * i as usize);
        for (k, result) in results.into_iter().enumerate() {
            *out.add(k) = result;
        }
    }
}

/// [`selftest::exchange`]: values exchanged through dynamic shared memory, with branches that differ between threads right after the barriers.
///
/// rustc's JumpThreading copies such a barrier into the arms of the branch.
/// Grid: any; block: 128 threads. Shared memory: 512 bytes, dynamic.
///
/// # Safety
///
/// `values` points to one value for each thread of the grid.
#[kernel(max_threads = BLOCK as u32)]
pub unsafe fn selftest_exchange(values: *mut u32) {
    let shared = shared::dynamic_shared_mem::<u32>();
    let (i, t) = (thread::index_1d(), thread::thread_idx_x());
    // SAFETY: the grid has as many threads as there are values; t and the partner are below 128; barriers stand on both sides of the reads.
    unsafe {
        let mut own = *values.add(i as usize);
        for round in 0..ROUNDS {
            let source = match selftest::takes_mirror(t, own, round) {
                true => Source::Mirror,
                false => Source::Neighbour,
            };
            *shared.add(t as usize) = own;
            thread::sync_threads();
            match source {
                Source::Mirror => own = selftest::combine(own, *shared.add(selftest::partner(t, true) as usize), true),
                Source::Neighbour => own = selftest::combine(own, *shared.add(selftest::partner(t, false) as usize), false),
            }
            thread::sync_threads();
        }
        *values.add(i as usize) = own;
    }
}

/// Where a thread of [`selftest_exchange`] takes a value from.
#[derive(Clone, Copy)]
enum Source {
    /// The thread that mirrors it in the block.
    Mirror,
    /// The next thread.
    Neighbour,
}

/// Counts values per [`selftest::bin`], in shared memory for the block and then in global memory for all.
///
/// Grid: any; block: 128 threads. Shared memory: 64 bytes, static.
///
/// # Safety
///
/// `values` points to one value for each thread of the grid, `counts` to 16 counters that start at 0.
#[kernel(max_threads = BLOCK as u32)]
pub unsafe fn selftest_count(values: *const u32, counts: *mut u64) {
    let bins = shared_array![u32; BINS];
    let (i, t) = (thread::index_1d(), thread::thread_idx_x());
    // SAFETY: the grid has as many threads as there are values, and a bin is below 16.
    unsafe {
        if (t as usize) < BINS {
            *bins.add(t as usize) = 0;
        }
        thread::sync_threads();
        shared::atomic_add_u32(bins.add(selftest::bin(*values.add(i as usize))), 1);
        thread::sync_threads();
        if (t as usize) < BINS {
            atomic_fetch_add_relaxed_u64_device(counts.add(t as usize), *bins.add(t as usize) as u64);
        }
    }
}

const _: () = assert!(WARP == warp::WARP_SIZE as usize);
