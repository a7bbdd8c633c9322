//! Global levels of the projection basis, and the coarsest array.
//!
//! The order of operations is that of `docs/format.md`, section 3.3: interpolation averages along z first, then y, then x; the
//! correction goes along z, y and x in turn, each a sum of five terms and a sweep up and down a dimension, in overlapping blocks.

use core::num::NonZeroU32;

use bmgard_core::Real;
use bmgard_core::axis::{SOLVE_BLOCK, SOLVE_OVERLAP, fine_index, is_coarse, solve_block};
use bmgard_core::tile::{Lanes, Quantiser};
use bmgard_core::{Symbol, axis};
use cuda_std::prelude::*;

/// Threads of a block.
pub const BLOCK: u32 = 256;
/// Nodes in a segment of the coarsest array's symbols.
const SEGMENT: u32 = 1024;

/// An array and the coarse one that it leaves: nodes, slowest dimension first, fewer than 2^31 in all.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GlobalLevel {
    dims: [u32; 3],
    coarse: [u32; 3],
}

/// One dimension of a correction: `outer` x `n` x `inner` nodes in, `outer` x `coarse` x `inner` out.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Sweep {
    n: u32,
    coarse: u32,
    inner: u32,
    outer: u32,
    /// Rows that a block's sweep has room for: `coarse` where there is one block.
    rows: u32,
}

/// An index as (z, y, x) in an array of `dims`.
#[inline(always)]
fn split(index: u32, dims: [u32; 3]) -> [u32; 3] {
    // SAFETY: a dimension has at least one node.
    let (ny, nx) = unsafe { (NonZeroU32::new_unchecked(dims[1]), NonZeroU32::new_unchecked(dims[2])) };
    let (row, x) = (index / nx, index % nx);
    [row / ny, row % ny, x]
}

#[inline(always)]
fn coarse_at(i: u32, n: u32) -> bool {
    is_coarse(i as u64, n as u64)
}

/// The coarse index of a coarse node, or of the one before a detail node.
#[inline(always)]
fn slot(i: u32, n: u32) -> u32 {
    if n <= 2 {
        i
    } else if i == n - 1 {
        n / 2
    } else {
        i / 2
    }
}

/// The interpolant at a node, from the coarse nodes around it: `at(z, y, x)` with, per dimension, the node before (0) or after (1).
#[inline(always)]
fn interpolate<T: Real>(odd: [bool; 3], at: impl Fn(u32, u32, u32) -> T) -> T {
    let along_z = |y: u32, x: u32| if odd[0] { at(0, y, x).average(at(1, y, x)) } else { at(0, y, x) };
    let along_y = |x: u32| if odd[1] { along_z(0, x).average(along_z(1, x)) } else { along_z(0, x) };
    if odd[2] { along_y(0).average(along_y(1)) } else { along_y(0) }
}

#[inline(always)]
unsafe fn quantise<T: Real>(
    level: GlobalLevel,
    values: *const T,
    quantiser: Quantiser<T>,
    open_loop: u32,
    symbols: *mut T::Symbol,
    details: *mut T,
) {
    let node = thread::index_1d();
    let dims = level.dims;
    if node >= dims[0] * dims[1] * dims[2] {
        return;
    }
    let place = split(node, dims);
    let odd = [0, 1, 2].map(|a| !coarse_at(place[a], dims[a]));
    let strides = [dims[1] * dims[2], dims[2], 1];
    // The neighbours of a detail node are one before and one after it; a coarse node is its own.
    let first = node - [0, 1, 2].map(|a| if odd[a] { strides[a] } else { 0 }).iter().sum::<u32>();
    // SAFETY: neighbours are inside the array.
    unsafe {
        let interpolant =
            interpolate(odd, |z, y, x| *values.add((first + z * 2 * strides[0] + y * 2 * strides[1] + x * 2 * strides[2]) as usize));
        let coefficient = *values.add(node as usize) - interpolant;
        let (symbol, quantised) = quantiser.quantise(coefficient);
        *symbols.add(node as usize) = symbol;
        *details.add(node as usize) = if open_loop != 0 { coefficient } else { quantised };
    }
}

#[inline(always)]
unsafe fn recompose<T: Real>(level: GlobalLevel, symbols: *const T::Symbol, coarse: *const T, quantiser: Quantiser<T>, values: *mut T) {
    let node = thread::index_1d();
    let dims = level.dims;
    if node >= dims[0] * dims[1] * dims[2] {
        return;
    }
    let place = split(node, dims);
    let odd = [0, 1, 2].map(|a| !coarse_at(place[a], dims[a]));
    let slots = [0, 1, 2].map(|a| slot(place[a], dims[a]));
    let (stride_y, stride_z) = (level.coarse[2], level.coarse[1] * level.coarse[2]);
    let first = slots[0] * stride_z + slots[1] * stride_y + slots[2];
    // SAFETY: the coarse nodes around a node exist.
    unsafe {
        let interpolant = interpolate(odd, |z, y, x| *coarse.add((first + z * stride_z + y * stride_y + x) as usize));
        *values.add(node as usize) = interpolant + quantiser.value(*symbols.add(node as usize));
    }
}

#[inline(always)]
unsafe fn correct<T: Real>(level: GlobalLevel, values: *const T, correction: *const T, coarse: *mut T) {
    let node = thread::index_1d();
    if node >= level.coarse[0] * level.coarse[1] * level.coarse[2] {
        return;
    }
    let place = split(node, level.coarse);
    let fine = [0, 1, 2].map(|a| fine_index(place[a] as u64, level.dims[a] as u64) as u32);
    let index = (fine[0] * level.dims[1] + fine[1]) * level.dims[2] + fine[2];
    // SAFETY: both nodes exist.
    unsafe { *coarse.add(node as usize) = *values.add(index as usize) + *correction.add(node as usize) };
}

#[inline(always)]
unsafe fn uncorrect<T: Real>(n: u32, correction: *const T, coarse: *mut T) {
    let node = thread::index_1d() as usize;
    if node < n as usize {
        // SAFETY: the node exists.
        unsafe { *coarse.add(node) = *coarse.add(node) - *correction.add(node) };
    }
}

#[inline(always)]
unsafe fn dequantise<T: Real>(n: u32, symbols: *const T::Symbol, quantiser: Quantiser<T>, details: *mut T) {
    let node = thread::index_1d() as usize;
    if node < n as usize {
        // SAFETY: the node exists.
        unsafe { *details.add(node) = quantiser.value(*symbols.add(node)) };
    }
}

/// One thread works on one column of one block.
#[inline(always)]
unsafe fn sweep<T: Real + intrinsics::ReadOnlyValue>(
    shape: Sweep,
    weights: *const T,
    lower: *const T,
    inverse: *const T,
    input: *const T,
    swept: *mut T,
    output: *mut T,
) {
    let index = thread::index_1d();
    let blocks = shape.coarse.div_ceil(SOLVE_BLOCK as u32);
    if index >= shape.outer * blocks * shape.inner {
        return;
    }
    // SAFETY: there is at least one column and one block.
    let (inner, blocks) = unsafe { (NonZeroU32::new_unchecked(shape.inner), NonZeroU32::new_unchecked(blocks)) };
    let (unit, column) = (index / inner, index % inner);
    let (outer, block) = (unit / blocks, unit % blocks);
    let [start, end, first, last] = solve_block(block as u64, shape.coarse as u64).map(|j| j as u32);
    let read_only = |p: *const T, i: u32| {
        // SAFETY: all indices below are inside their arrays.
        unsafe { intrinsics::load_readonly(p.add(i as usize)) }
    };
    let fine = |i: u32| read_only(input, (outer * shape.n + i) * shape.inner + column);
    // SAFETY: the sweep has room for the block's rows, the output for the coarse nodes.
    unsafe {
        let swept = swept.add((unit * shape.rows * shape.inner + column) as usize);
        let mut before = T::ZERO;
        let mut j = first;
        while j < last {
            let f = fine_index(j as u64, shape.n as u64) as u32;
            let w = [0, 1, 2, 3, 4].map(|k| read_only(weights, 5 * j + k));
            // Terms of weight 0 are left out; a row's middle term always counts.
            let mut sum = T::ZERO;
            let mut any = false;
            let mut k = 0;
            while k < 5 {
                let weight = w[k as usize];
                if weight != T::ZERO {
                    let value = fine(f + k - 2);
                    sum = if any { value.fma(weight, sum) } else { value * weight };
                    any = true;
                }
                k += 1;
            }
            if j > first {
                sum = before.fma(-read_only(lower, j - 1), sum);
            }
            *swept.add(((j - first) * shape.inner) as usize) = sum;
            before = sum;
            j += 1;
        }
        let mut after = T::ZERO;
        while j > start {
            j -= 1;
            let scaled = *swept.add(((j - first) * shape.inner) as usize) * read_only(inverse, j);
            after = if j + 1 == last { scaled } else { after.fma(-read_only(lower, j), scaled) };
            if j < end {
                *output.add(((outer * shape.coarse + j) * shape.inner + column) as usize) = after;
            }
        }
    }
}

#[inline(always)]
unsafe fn difference<T: Real>(n: u32, values: *const T, quantiser: Quantiser<T>, symbols: *mut T::Symbol) {
    let node = thread::index_1d();
    if node >= n {
        return;
    }
    // SAFETY: the node exists, and the one before it where it is read.
    unsafe {
        let quantised = |node: u32| quantiser.quantise_coarsest(*values.add(node as usize)).to_i64();
        let before = if node % SEGMENT == 0 { 0 } else { quantised(node - 1) };
        *symbols.add(node as usize) = T::Symbol::from_i64(quantised(node) - before);
    }
}

/// A warp works on a segment.
#[inline(always)]
unsafe fn accumulate<T: Real>(n: u32, symbols: *const T::Symbol, quantiser: Quantiser<T>, values: *mut T) {
    let lane = warp::lane_id();
    let start = thread::index_1d() / 32 * SEGMENT;
    if start >= n {
        return;
    }
    let end = (start + SEGMENT).min(n);
    // SAFETY: nodes are inside the array; all lanes of the warp go the same way.
    unsafe {
        let mut carried = 0i64;
        let mut at = start;
        while at < end {
            let node = at + lane;
            let mut sum = if node < end { (*symbols.add(node as usize)).to_i64() } else { 0 };
            let mut distance = 1;
            while distance < 32 {
                let other = warp::full::shuffle_up(sum, distance);
                if lane >= distance {
                    sum = sum.wrapping_add(other);
                }
                distance *= 2;
            }
            sum = sum.wrapping_add(carried);
            if node < end {
                *values.add(node as usize) = quantiser.coarsest_value(T::Symbol::from_i64(sum));
            }
            carried = warp::full::shuffle(sum, 31);
            at += 32;
        }
    }
}

const _: () = assert!(SOLVE_OVERLAP < SOLVE_BLOCK && axis::coarse_len(3) == 2);

macro_rules! kernels {
    ($real:ident, $quantise:ident, $recompose:ident, $correct:ident, $uncorrect:ident, $dequantise:ident, $sweep:ident, $difference:ident, $accumulate:ident) => {
        /// Forward global level, first part: every node's symbol and coefficient (quantised, or exact for `open_loop` != 0), 0 at coarse ones.
        ///
        /// Grid: ceil(nodes / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `values`, `symbols` and `details` point to the array's nodes.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $quantise(
            level: GlobalLevel,
            values: *const $real,
            step: $real,
            inverse: $real,
            open_loop: u32,
            symbols: *mut <$real as Real>::Symbol,
            details: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { quantise(level, values, Quantiser { step, inverse }, open_loop, symbols, details) }
        }

        /// Inverse global level, last part: interpolation of the coarse array, and the coefficients.
        ///
        /// Grid: ceil(nodes / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `symbols` and `values` point to the array's nodes, `coarse` to the coarse ones.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $recompose(
            level: GlobalLevel,
            symbols: *const <$real as Real>::Symbol,
            coarse: *const $real,
            step: $real,
            values: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { recompose(level, symbols, coarse, Quantiser { step, inverse: 0.0 }, values) }
        }

        /// Forward global level, last part: the coarse nodes of the array, corrected.
        ///
        /// Grid: ceil(coarse nodes / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `values` points to the array's nodes, `correction` and `coarse` to the coarse ones.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $correct(level: GlobalLevel, values: *const $real, correction: *const $real, coarse: *mut $real) {
            // SAFETY: the caller's.
            unsafe { correct(level, values, correction, coarse) }
        }

        /// Takes a correction back, in place.
        ///
        /// Grid: ceil(n / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// Both point to `n` nodes.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $uncorrect(n: u32, correction: *const $real, coarse: *mut $real) {
            // SAFETY: the caller's.
            unsafe { uncorrect(n, correction, coarse) }
        }

        /// Coefficients of symbols.
        ///
        /// Grid: ceil(n / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// Both point to `n` nodes.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $dequantise(n: u32, symbols: *const <$real as Real>::Symbol, step: $real, details: *mut $real) {
            // SAFETY: the caller's.
            unsafe { dequantise(n, symbols, Quantiser { step, inverse: 0.0 }, details) }
        }

        /// One dimension of a correction.
        ///
        /// Grid: ceil(outer * ceil(coarse / 256) * inner / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `weights` points to 5 values for each coarse node, `lower` and `inverse` to one; `input` and `output` to the arrays of `shape`, `swept`
        /// to outer * ceil(coarse / 256) * rows * inner values; it may be `output` where there is one block.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $sweep(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const $real,
            swept: *mut $real,
            output: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { sweep(shape, weights, lower, inverse, input, swept, output) }
        }

        /// The coarsest array's symbols: quantised, each less the one before it in its segment of 1024.
        ///
        /// Grid: ceil(n / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// Both point to `n` nodes.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $difference(n: u32, values: *const $real, step: $real, inverse: $real, symbols: *mut <$real as Real>::Symbol) {
            // SAFETY: the caller's.
            unsafe { difference(n, values, Quantiser { step, inverse }, symbols) }
        }

        /// The coarsest array from its symbols.
        ///
        /// Grid: ceil(n / 1024 / 8) blocks; block: 256 threads, a warp for each segment. No shared memory.
        ///
        /// # Safety
        ///
        /// Both point to `n` nodes.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $accumulate(n: u32, symbols: *const <$real as Real>::Symbol, step: $real, values: *mut $real) {
            // SAFETY: the caller's.
            unsafe { accumulate(n, symbols, Quantiser { step, inverse: 0.0 }, values) }
        }
    };
}

kernels!(
    f32,
    quantise_global_f32,
    recompose_global_f32,
    correct_global_f32,
    uncorrect_f32,
    dequantise_f32,
    sweep_f32,
    difference_f32,
    accumulate_f32
);
kernels!(
    f64,
    quantise_global_f64,
    recompose_global_f64,
    correct_global_f64,
    uncorrect_f64,
    dequantise_f64,
    sweep_f64,
    difference_f64,
    accumulate_f64
);
