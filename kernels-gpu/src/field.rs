//! The check of every value.

use bmgard_core::Real;
use cuda_std::prelude::*;

/// Threads of a block.
pub const BLOCK: u32 = 256;
/// Values that a block checks.
pub const CHECKED: u32 = 1024;

/// A flag's bit, 32 a word, lowest first; unset where there are no flags.
///
/// # Safety
/// `mask` is null or has a bit for `i`.
#[inline(always)]
unsafe fn masked(mask: *const u32, i: u32) -> bool {
    // SAFETY: the caller's.
    !mask.is_null() && unsafe { *mask.add((i / 32) as usize) } >> (i % 32) & 1 == 1
}

/// Whether values keep the bound; their errors.
///
/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn error_of<T: Real>(i: u32, n: u32, values: *const T, decoded: *const T, mask: *const u32, bound: f64) -> (bool, f64) {
    // SAFETY: i is checked.
    unsafe {
        if i >= n || masked(mask, i) {
            return (false, 0.0);
        }
        let difference = (*values.add(i as usize)).to_f64() - (*decoded.add(i as usize)).to_f64();
        let error = f64::from_bits(difference.to_bits() & (u64::MAX >> 1));
        if error <= bound { (false, error) } else { (true, 0.0) }
    }
}

#[inline(always)]
unsafe fn check<T: Real>(
    n: u32,
    values: *const T,
    decoded: *const T,
    mask: *const u32,
    bound: f64,
    flags: *mut u32,
    broken: *mut u32,
    worst: *mut u64,
) {
    let maxima = shared_array![u64; 8];
    let counts = shared_array![u32; 8];
    let (block, t) = (thread::block_idx_x(), thread::thread_idx_x());
    let mut count = 0;
    let mut max = 0u64;
    let mut pass = 0;
    while pass < CHECKED / BLOCK {
        let i = block * CHECKED + pass * BLOCK + t;
        // SAFETY: the caller's.
        let (breaks, error) = unsafe { error_of(i, n, values, decoded, mask, bound) };
        // SAFETY: all lanes are here; a block has 32 words.
        unsafe {
            let votes = warp::full::ballot(breaks);
            count += votes.count_ones();
            if warp::lane_id() == 0 {
                *flags.add((block * 32 + pass * (BLOCK / 32) + t / 32) as usize) = votes;
            }
        }
        // Bits of numbers that are not negative are in the numbers' order.
        max = max.max(error.to_bits());
        pass += 1;
    }
    // SAFETY: all lanes and all threads are here; 8 warps have 8 places.
    unsafe {
        let mut distance = 16;
        while distance > 0 {
            max = max.max(warp::full::shuffle_xor(max, distance));
            distance /= 2;
        }
        if warp::lane_id() == 0 {
            *maxima.add((t / 32) as usize) = max;
            *counts.add((t / 32) as usize) = count;
        }
        thread::sync_threads();
        if t == 0 {
            let mut warp = 1;
            while warp < BLOCK as usize / 32 {
                max = max.max(*maxima.add(warp));
                count += *counts.add(warp);
                warp += 1;
            }
            *broken.add(block as usize) = count;
            *worst.add(block as usize) = max;
        }
    }
}

/// The positions of the values that break the bound, ascending, from the flags that the check left.
///
/// Grid: ceil(n / 1024) blocks; block: 32 threads, one for each word of flags. No shared memory.
///
/// # Safety
///
/// `flags` points to 32 words for each block, `offsets` to one value for each, the sum of the counts of those before it, `positions` to as many
/// values as there are flags set.
#[kernel(max_threads = 32)]
pub unsafe fn list_flags(flags: *const u32, offsets: *const u32, positions: *mut u32) {
    let (block, lane) = (thread::block_idx_x(), warp::lane_id());
    // SAFETY: the caller's; all lanes are here.
    unsafe {
        let mut word = *flags.add((block * 32 + lane) as usize);
        let count = word.count_ones();
        let mut end = count;
        let mut distance = 1;
        while distance < 32 {
            let other = warp::full::shuffle_up(end, distance);
            if lane >= distance {
                end += other;
            }
            distance *= 2;
        }
        let mut at = *offsets.add(block as usize) + end - count;
        while word != 0 {
            *positions.add(at as usize) = block * CHECKED + lane * 32 + word.trailing_zeros();
            word &= word - 1;
            at += 1;
        }
    }
}

macro_rules! kernels {
    ($real:ident, $check:ident) => {
        /// Per block of 1024 values: flags of those that break the bound, `!(|x - x'| <= bound)` in f64, how many, and the bits of the greatest error of those that keep it.
        ///
        /// Grid: ceil(n / 1024) blocks; block: 256 threads. Shared memory: 96 bytes, static.
        ///
        /// # Safety
        ///
        /// `values` and `decoded` point to `n` values, `mask` to as many bits or nowhere, `flags` to 32 words, `broken` and `worst` to one
        /// value for each block.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $check(
            n: u32,
            values: *const $real,
            decoded: *const $real,
            mask: *const u32,
            bound: f64,
            flags: *mut u32,
            broken: *mut u32,
            worst: *mut u64,
        ) {
            // SAFETY: the caller's.
            unsafe { check(n, values, decoded, mask, bound, flags, broken, worst) }
        }
    };
}

kernels!(f32, check_f32);
kernels!(f64, check_f64);
