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

use crate::common::{Stored, load_symbol, running_sum, split};
use crate::unroll::{each5, each8};

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

/// Threads of a block that works on rows, a warp for each.
pub const ROW_BLOCK: u32 = 128;

/// A row's interpolants: `at(z, y, x)` is a coarse node of it, `z` and `y` being the row before (0) or after (1).
#[inline(always)]
fn along_zy<T: Real>(odd: [bool; 2], at: impl Fn(u32, u32) -> T) -> T {
    let along_z = |y: u32| if odd[0] { at(0, y).average(at(1, y)) } else { at(0, y) };
    if odd[1] { along_z(0).average(along_z(1)) } else { along_z(0) }
}

/// Calls `node(x, interpolant)` for every node of the row that the calling warp works on, given `coarse(z, y, slot)`, the coarse nodes
/// around it. A lane has an even node and the odd one after it, whose other neighbour is the next lane's.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn each_of_row<T: Real + warp::WarpShuffleValue>(
    odd: [bool; 2],
    nx: u32,
    coarse_x: u32,
    coarse: impl Fn(u32, u32, u32) -> T,
    mut node: impl FnMut(u32, T),
) {
    let lane = warp::lane_id();
    let at = |slot: u32| along_zy(odd, |z, y| coarse(z, y, slot.min(coarse_x - 1)));
    if nx <= 2 {
        if lane < nx {
            node(lane, at(lane));
        }
        return;
    }
    let mut start = 0;
    while start < nx {
        let slot = start / 2 + lane;
        let own = at(slot);
        // SAFETY: all lanes are here.
        let mut next = unsafe { warp::full::shuffle_down(own, 1) };
        if lane == 31 {
            next = at(slot + 1);
        }
        let x = 2 * slot;
        if x < nx {
            node(x, own);
        }
        if x + 1 < nx {
            // The last node of an even length is coarse, and its slot is the next.
            node(x + 1, if x + 1 == nx - 1 { next } else { own.average(next) });
        }
        start += 64;
    }
}

/// The row (z, y) that the calling warp works on.
#[inline(always)]
fn my_row(dims: [u32; 3]) -> Option<[u32; 2]> {
    let row = thread::index_1d() / 32;
    if row >= dims[0] * dims[1] {
        return None;
    }
    // SAFETY: a dimension has at least one node.
    let ny = unsafe { NonZeroU32::new_unchecked(dims[1]) };
    Some([row / ny, row % ny])
}

#[inline(always)]
unsafe fn quantise<T: Real + warp::WarpShuffleValue + intrinsics::ReadOnlyValue, P: Stored<T::Symbol>>(
    level: GlobalLevel,
    values: *const T,
    quantiser: Quantiser<T>,
    open_loop: u32,
    symbols: *mut P,
    details: *mut T,
) {
    let dims = level.dims;
    let Some([z, y]) = my_row(dims) else { return };
    let odd = [!coarse_at(z, dims[0]), !coarse_at(y, dims[1])];
    let first = [if odd[0] { z - 1 } else { z }, if odd[1] { y - 1 } else { y }];
    // SAFETY: neighbours are inside the array; all lanes of the warp have the same row.
    unsafe {
        let coarse = |dz: u32, dy: u32, slot: u32| {
            let x = fine_index(slot as u64, dims[2] as u64) as u32;
            intrinsics::load_readonly(values.add((((first[0] + 2 * dz) * dims[1] + first[1] + 2 * dy) * dims[2] + x) as usize))
        };
        let row = (z * dims[1] + y) * dims[2];
        each_of_row(odd, dims[2], level.coarse[2], coarse, |x, interpolant| {
            let node = (row + x) as usize;
            let coefficient = intrinsics::load_readonly(values.add(node)) - interpolant;
            let (symbol, _) = quantiser.quantise(coefficient);
            *symbols.add(node) = P::new(symbol);
            if open_loop != 0 {
                *details.add(node) = coefficient;
            }
        });
    }
}

#[inline(always)]
unsafe fn recompose<T: Real + warp::WarpShuffleValue + intrinsics::ReadOnlyValue, P: Stored<T::Symbol>>(
    level: GlobalLevel,
    symbols: *const P,
    coarse: *const T,
    quantiser: Quantiser<T>,
    values: *mut T,
) {
    let dims = level.dims;
    let Some([z, y]) = my_row(dims) else { return };
    let odd = [!coarse_at(z, dims[0]), !coarse_at(y, dims[1])];
    let first = [slot(z, dims[0]), slot(y, dims[1])];
    // SAFETY: the coarse nodes around a node exist; all lanes of the warp have the same row.
    unsafe {
        let node = |dz: u32, dy: u32, slot: u32| {
            let row = (first[0] + dz) * level.coarse[1] + first[1] + dy;
            intrinsics::load_readonly(coarse.add((row * level.coarse[2] + slot) as usize))
        };
        let row = (z * dims[1] + y) * dims[2];
        each_of_row(odd, dims[2], level.coarse[2], node, |x, interpolant| {
            let node = (row + x) as usize;
            *values.add(node) = interpolant + quantiser.value(load_symbol(symbols.add(node)));
        });
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

/// Where the coefficients of a sweep come from: an array, or symbols.
trait Source<T>: Copy {
    /// The coefficient at an index.
    ///
    /// # Safety
    /// The index is inside.
    unsafe fn at(self, index: u32) -> T;
}

/// An array of coefficients.
#[derive(Clone, Copy)]
struct Values<T>(*const T);

impl<T: intrinsics::ReadOnlyValue> Source<T> for Values<T> {
    #[inline(always)]
    unsafe fn at(self, index: u32) -> T {
        // SAFETY: the caller's.
        unsafe { intrinsics::load_readonly(self.0.add(index as usize)) }
    }
}

/// Quantised coefficients.
#[derive(Clone, Copy)]
struct Symbols<T, P>(*const P, Quantiser<T>);

impl<T: Real, P: Stored<T::Symbol>> Source<T> for Symbols<T, P> {
    #[inline(always)]
    unsafe fn at(self, index: u32) -> T {
        // SAFETY: the caller's.
        self.1.value(unsafe { load_symbol(self.0.add(index as usize)) })
    }
}

/// The tables of a dimension.
#[derive(Clone, Copy)]
struct Tables<T> {
    weights: *const T,
    lower: *const T,
    inverse: *const T,
}

impl<T: Real + intrinsics::ReadOnlyValue> Tables<T> {
    /// The five weights of a coarse node's row.
    ///
    /// # Safety
    /// The node exists.
    #[inline(always)]
    unsafe fn row(&self, j: u32) -> [T; 5] {
        // SAFETY: the caller's.
        [0, 1, 2, 3, 4].map(|k| unsafe { intrinsics::load_readonly(self.weights.add((5 * j + k) as usize)) })
    }

    /// The factor from node `j` to the next, negated.
    ///
    /// # Safety
    /// The node exists.
    #[inline(always)]
    unsafe fn factor(&self, j: u32) -> T {
        // SAFETY: the caller's.
        -unsafe { intrinsics::load_readonly(self.lower.add(j as usize)) }
    }

    /// # Safety
    /// The node exists.
    #[inline(always)]
    unsafe fn inverse(&self, j: u32) -> T {
        // SAFETY: the caller's.
        unsafe { intrinsics::load_readonly(self.inverse.add(j as usize)) }
    }
}

/// Whether the row of coarse node `j` is an interior one: all five terms, and the weights of row 1.
#[inline(always)]
fn is_regular(j: u32, n: u32) -> bool {
    j > 0 && 2 * j + 2 < n
}

/// A row's sum, terms of weight 0 left out.
#[inline(always)]
fn irregular_sum<T: Real>(weights: [T; 5], values: [T; 5]) -> T {
    let mut sum = None;
    each5!(|k| {
        if weights[k] != T::ZERO {
            sum = Some(sum.map_or(values[k] * weights[k], |sum| values[k].fma(weights[k], sum)));
        }
    });
    sum.unwrap_or(T::ZERO)
}

#[inline(always)]
fn regular_sum<T: Real>(w: &[T; 5], v: [T; 5]) -> T {
    v[4].fma(w[4], v[3].fma(w[3], v[2].fma(w[2], v[1].fma(w[1], v[0] * w[0]))))
}

/// The sum of coarse node `j`, regular or not.
///
/// # Safety
/// The node exists, and `fine` may be asked for any fine node.
#[inline(always)]
unsafe fn row_sum<T: Real + intrinsics::ReadOnlyValue>(tables: &Tables<T>, regular: &[T; 5], j: u32, n: u32, fine: impl Fn(u32) -> T) -> T {
    let middle = fine_index(j as u64, n as u64) as u32;
    // All loads at once; those that do not exist have the weight 0, whatever is loaded for them.
    let v = [0, 1, 2, 3, 4].map(|k| fine((middle + k).saturating_sub(2).min(n - 1)));
    if is_regular(j, n) {
        return regular_sum(regular, v);
    }
    // SAFETY: the caller's.
    irregular_sum(unsafe { tables.row(j) }, v)
}

/// Columns that a block solves: 128 bytes of them, a whole line of memory.
const fn columns<T>() -> usize {
    128 / size_of::<T>()
}

/// Values from one row of columns in shared memory to the next: one more, so that rows and columns meet all banks.
const fn row_stride<T>() -> usize {
    columns::<T>() + 1
}

/// Threads of a block that solves.
pub const SOLVE_THREADS: u32 = 128;
const SOLVE_WARPS: u32 = SOLVE_THREADS / 32;

/// A block of threads works on a block of one dimension for some columns: all compute the sums of five terms, into shared memory; one
/// warp sweeps up and down there; all write. With `LINES` the columns are lines of memory (`inner` is 1), else rows of it.
#[inline(always)]
unsafe fn solve<T: Real + intrinsics::ReadOnlyValue, const LINES: bool>(
    shape: Sweep,
    tables: Tables<T>,
    source: impl Source<T>,
    output: *mut T,
) {
    let blocks = shape.coarse.div_ceil(SOLVE_BLOCK as u32);
    let width = columns::<T>() as u32;
    let (lane, warp) = (warp::lane_id(), thread::thread_idx_x() / 32);
    // SAFETY: there is at least one column and one block; indices are checked; the launch gives the shared memory.
    unsafe {
        let groups = NonZeroU32::new_unchecked(if LINES { 1 } else { shape.inner.div_ceil(width) });
        let blocks = NonZeroU32::new_unchecked(blocks);
        let (unit, group) = (thread::block_idx_x() / groups, thread::block_idx_x() % groups);
        let (outer, block) = (unit / blocks, unit % blocks);
        let [start, end, first, last] = solve_block(block as u64, shape.coarse as u64).map(|j| j as u32);
        // The first column's first node, the way from one node to the next and from one column to the next, in the fine and the coarse
        // array; and how many columns there are.
        let (line, n) = (outer * width, shape.n);
        let (fine_start, coarse_start, step, count) = if LINES {
            (line * n, line * shape.coarse, 1, (shape.outer - line).min(width))
        } else {
            let column = group * width;
            (outer * n * shape.inner + column, outer * shape.coarse * shape.inner + column, shape.inner, (shape.inner - column).min(width))
        };
        let tile = shared::dynamic_shared_mem::<T>();
        let at = |j: u32, column: u32| tile.add((j - first) as usize * row_stride::<T>() + column as usize);

        let regular = tables.row(1);
        if LINES {
            let mut column = warp;
            while column < count {
                let fine = |i: u32| source.at(fine_start + column * n + i);
                let mut j = first + lane;
                while j < last {
                    *at(j, column) = row_sum(&tables, &regular, j, n, fine);
                    j += 32;
                }
                column += SOLVE_WARPS;
            }
        } else if lane < count {
            let fine = |i: u32| source.at(fine_start + i * step + lane);
            let mut j = first + 4 * warp;
            while j < last {
                if is_regular(j, n) && is_regular(j + 3, n) && j + 3 < last {
                    let mut v = [T::ZERO; 11];
                    each8!(|k| {
                        v[k] = fine(2 * j + k as u32 - 2);
                    });
                    [v[8], v[9], v[10]] = [fine(2 * j + 6), fine(2 * j + 7), fine(2 * j + 8)];
                    *at(j, lane) = regular_sum(&regular, [v[0], v[1], v[2], v[3], v[4]]);
                    *at(j + 1, lane) = regular_sum(&regular, [v[2], v[3], v[4], v[5], v[6]]);
                    *at(j + 2, lane) = regular_sum(&regular, [v[4], v[5], v[6], v[7], v[8]]);
                    *at(j + 3, lane) = regular_sum(&regular, [v[6], v[7], v[8], v[9], v[10]]);
                } else {
                    let mut k = j;
                    while k < last.min(j + 4) {
                        *at(k, lane) = row_sum(&tables, &regular, k, n, fine);
                        k += 1;
                    }
                }
                j += 4 * SOLVE_WARPS;
            }
        }
        thread::sync_threads();
        if warp == 0 && lane < count {
            sweep(&tables, [start, first, last], |j| at(j, lane));
        }
        thread::sync_threads();
        if LINES {
            let mut column = warp;
            while column < count {
                let mut j = start + lane;
                while j < end {
                    *output.add((coarse_start + column * shape.coarse + j) as usize) = *at(j, column);
                    j += 32;
                }
                column += SOLVE_WARPS;
            }
        } else if lane < count {
            let mut j = start + warp;
            while j < end {
                *output.add((coarse_start + j * step + lane) as usize) = *at(j, lane);
                j += SOLVE_WARPS;
            }
        }
    }
}

/// The recurrences of a solve, up and down one column, which is replaced from `start` on.
///
/// # Safety
/// `at` points to the column's rows from `first` to before `last`.
#[inline(always)]
unsafe fn sweep<T: Real + intrinsics::ReadOnlyValue>(tables: &Tables<T>, [start, first, last]: [u32; 3], at: impl Fn(u32) -> *mut T) {
    // SAFETY: the caller's.
    unsafe {
        let mut before = *at(first);
        let mut j = first + 1;
        while j + 8 <= last {
            // All loads first, so that only the recurrence is serial.
            let (mut sums, mut factors) = ([T::ZERO; 8], [T::ZERO; 8]);
            each8!(|k| {
                sums[k] = *at(j + k as u32);
                factors[k] = tables.factor(j + k as u32 - 1);
            });
            each8!(|k| {
                before = before.fma(factors[k], sums[k]);
                sums[k] = before;
            });
            each8!(|k| {
                *at(j + k as u32) = sums[k];
            });
            j += 8;
        }
        while j < last {
            before = before.fma(tables.factor(j - 1), *at(j));
            *at(j) = before;
            j += 1;
        }
        let mut after = *at(last - 1) * tables.inverse(last - 1);
        *at(last - 1) = after;
        let mut j = last - 1;
        while j >= start + 8 {
            let (mut scaled, mut factors) = ([T::ZERO; 8], [T::ZERO; 8]);
            each8!(|k| {
                let row = j - 1 - k as u32;
                scaled[k] = *at(row) * tables.inverse(row);
                factors[k] = tables.factor(row);
            });
            each8!(|k| {
                after = after.fma(factors[k], scaled[k]);
                scaled[k] = after;
            });
            each8!(|k| {
                *at(j - 1 - k as u32) = scaled[k];
            });
            j -= 8;
        }
        while j > start {
            j -= 1;
            after = after.fma(tables.factor(j), *at(j) * tables.inverse(j));
            *at(j) = after;
        }
    }
}

#[inline(always)]
unsafe fn difference<T: Real, P: Stored<T::Symbol>>(n: u32, values: *const T, quantiser: Quantiser<T>, symbols: *mut P) {
    let node = thread::index_1d();
    if node >= n {
        return;
    }
    // SAFETY: the node exists, and the one before it where it is read.
    unsafe {
        let quantised = |node: u32| quantiser.quantise_coarsest(*values.add(node as usize)).to_i64();
        let before = if node.is_multiple_of(SEGMENT) { 0 } else { quantised(node - 1) };
        let symbol = T::Symbol::from_i64(quantised(node) - before);
        *symbols.add(node as usize) = P::new(symbol);
    }
}

/// A warp works on a segment.
#[inline(always)]
unsafe fn accumulate<T: Real, P: Stored<T::Symbol>>(n: u32, symbols: *const P, quantiser: Quantiser<T>, values: *mut T) {
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
            let own = if node < end { load_symbol::<T::Symbol, P>(symbols.add(node as usize)).to_i64() } else { 0 };
            let sum = running_sum(own).wrapping_add(carried);
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
    ($real:ident, $correct:ident, $uncorrect:ident, $solve_rows:ident, $solve_lines:ident) => {
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

        /// One dimension of a correction of an array of coefficients, `inner` above 1.
        ///
        /// Grid: outer * ceil(coarse / 256) * ceil(inner / c) blocks, c = 128 bytes of values; block: 128 threads. Shared memory, dynamic:
        /// min(coarse, 352) * (c + 1) values.
        ///
        /// # Safety
        ///
        /// `weights` points to 5 values for each coarse node, `lower` and `inverse` to one; `input` and `output` to the arrays of `shape`.
        #[kernel(max_threads = SOLVE_THREADS, min_blocks = 8)]
        pub unsafe fn $solve_rows(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const $real,
            output: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { solve::<_, false>(shape, Tables { weights, lower, inverse }, Values(input), output) }
        }

        /// One dimension of a correction of an array of coefficients, along its lines: `inner` is 1.
        ///
        /// Grid: ceil(outer / c) * ceil(coarse / 256) blocks; the rest as above.
        ///
        /// # Safety
        ///
        /// As above.
        #[kernel(max_threads = SOLVE_THREADS, min_blocks = 8)]
        pub unsafe fn $solve_lines(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const $real,
            output: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { solve::<_, true>(shape, Tables { weights, lower, inverse }, Values(input), output) }
        }
    };
}

kernels!(f32, correct_global_f32, uncorrect_f32, solve_rows_f32, solve_lines_f32);
kernels!(f64, correct_global_f64, uncorrect_f64, solve_rows_f64, solve_lines_f64);

macro_rules! symbol_kernels {
    ($real:ident, $stored:ident, $quantise:ident, $recompose:ident, $solve_rows:ident, $solve_lines:ident, $difference:ident, $accumulate:ident) => {
        /// Forward global level, first part: every node's symbol, 0 at coarse ones; for `open_loop` != 0 the exact coefficients too. Symbols must fit
        /// their type.
        ///
        /// Grid: ceil(rows / 4) blocks; block: 128 threads, a warp for each row. No shared memory.
        ///
        /// # Safety
        ///
        /// `values` and `symbols` point to the array's nodes, and `details` for `open_loop`.
        #[kernel(max_threads = ROW_BLOCK)]
        pub unsafe fn $quantise(
            level: GlobalLevel,
            values: *const $real,
            step: $real,
            inverse: $real,
            open_loop: u32,
            symbols: *mut $stored,
            details: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { quantise(level, values, Quantiser { step, inverse }, open_loop, symbols, details) }
        }

        /// Inverse global level, last part: interpolation of the coarse array, and the coefficients.
        ///
        /// Grid: ceil(rows / 4) blocks; block: 128 threads, a warp for each row. No shared memory.
        ///
        /// # Safety
        ///
        /// `symbols` and `values` point to the array's nodes, `coarse` to the coarse ones.
        #[kernel(max_threads = ROW_BLOCK)]
        pub unsafe fn $recompose(level: GlobalLevel, symbols: *const $stored, coarse: *const $real, step: $real, values: *mut $real) {
            // SAFETY: the caller's.
            unsafe { recompose(level, symbols, coarse, Quantiser { step, inverse: 0.0 }, values) }
        }

        /// One dimension of a correction, the first, of symbols, `inner` above 1.
        ///
        /// Grid, block, shared memory and safety as those of `solve_rows_f32`.
        ///
        /// # Safety
        ///
        /// As there.
        #[kernel(max_threads = SOLVE_THREADS, min_blocks = 8)]
        pub unsafe fn $solve_rows(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const $stored,
            step: $real,
            output: *mut $real,
        ) {
            let source = Symbols(input, Quantiser { step, inverse: 0.0 });
            // SAFETY: the caller's.
            unsafe { solve::<_, false>(shape, Tables { weights, lower, inverse }, source, output) }
        }

        /// One dimension of a correction, the only one, of symbols.
        ///
        /// Grid, block, shared memory and safety as those of `solve_lines_f32`.
        ///
        /// # Safety
        ///
        /// As there.
        #[kernel(max_threads = SOLVE_THREADS, min_blocks = 8)]
        pub unsafe fn $solve_lines(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const $stored,
            step: $real,
            output: *mut $real,
        ) {
            let source = Symbols(input, Quantiser { step, inverse: 0.0 });
            // SAFETY: the caller's.
            unsafe { solve::<_, true>(shape, Tables { weights, lower, inverse }, source, output) }
        }

        /// The coarsest array's symbols: quantised, each less the one before it in its segment of 1024.
        ///
        /// Grid: ceil(n / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// Both point to `n` nodes.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $difference(n: u32, values: *const $real, step: $real, inverse: $real, symbols: *mut $stored) {
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
        pub unsafe fn $accumulate(n: u32, symbols: *const $stored, step: $real, values: *mut $real) {
            // SAFETY: the caller's.
            unsafe { accumulate(n, symbols, Quantiser { step, inverse: 0.0 }, values) }
        }
    };
}

symbol_kernels!(
    f32,
    i16,
    quantise_global_f32_i16,
    recompose_global_f32_i16,
    solve_rows_symbols_f32_i16,
    solve_lines_symbols_f32_i16,
    difference_f32_i16,
    accumulate_f32_i16
);

symbol_kernels!(
    f32,
    i32,
    quantise_global_f32_i32,
    recompose_global_f32_i32,
    solve_rows_symbols_f32_i32,
    solve_lines_symbols_f32_i32,
    difference_f32_i32,
    accumulate_f32_i32
);

symbol_kernels!(
    f64,
    i32,
    quantise_global_f64_i32,
    recompose_global_f64_i32,
    solve_rows_symbols_f64_i32,
    solve_lines_symbols_f64_i32,
    difference_f64_i32,
    accumulate_f64_i32
);

symbol_kernels!(
    f64,
    i64,
    quantise_global_f64_i64,
    recompose_global_f64_i64,
    solve_rows_symbols_f64_i64,
    solve_lines_symbols_f64_i64,
    difference_f64_i64,
    accumulate_f64_i64
);
