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

use crate::common::split;
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
    /// Rows that a block's sweep has room for: `coarse` where there is one block.
    rows: u32,
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
/// Threads of a block that works on lines, a warp for 32 of them.
pub const LINE_BLOCK: u32 = 64;

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
unsafe fn quantise<T: Real + warp::WarpShuffleValue + intrinsics::ReadOnlyValue>(
    level: GlobalLevel,
    values: *const T,
    quantiser: Quantiser<T>,
    open_loop: u32,
    symbols: *mut T::Symbol,
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
            *symbols.add(node) = symbol;
            if open_loop != 0 {
                *details.add(node) = coefficient;
            }
        });
    }
}

#[inline(always)]
unsafe fn recompose<T: Real + warp::WarpShuffleValue + intrinsics::ReadOnlyValue>(
    level: GlobalLevel,
    symbols: *const T::Symbol,
    coarse: *const T,
    quantiser: Quantiser<T>,
    values: *mut T,
) where
    T::Symbol: intrinsics::ReadOnlyValue,
{
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
            *values.add(node) = interpolant + quantiser.value(intrinsics::load_readonly(symbols.add(node)));
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
struct Symbols<T: Real>(*const T::Symbol, Quantiser<T>);

impl<T: Real> Source<T> for Symbols<T>
where
    T::Symbol: intrinsics::ReadOnlyValue,
{
    #[inline(always)]
    unsafe fn at(self, index: u32) -> T {
        // SAFETY: the caller's.
        self.1.value(unsafe { intrinsics::load_readonly(self.0.add(index as usize)) })
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

/// A row's sum, terms of weight 0 left out; `fine(k)` is the node at offset k - 2.
#[inline(always)]
fn irregular_sum<T: Real>(weights: [T; 5], fine: impl Fn(u32) -> T) -> T {
    let mut sum = T::ZERO;
    let mut any = false;
    let mut k = 0;
    while k < 5 {
        let weight = [weights[0], weights[1], weights[2], weights[3], weights[4]][k as usize];
        if weight != T::ZERO {
            let value = fine(k);
            sum = if any { value.fma(weight, sum) } else { value * weight };
            any = true;
        }
        k += 1;
    }
    sum
}

#[inline(always)]
fn regular_sum<T: Real>(w: &[T; 5], v: [T; 5]) -> T {
    v[4].fma(w[4], v[3].fma(w[3], v[2].fma(w[2], v[1].fma(w[1], v[0] * w[0]))))
}

/// One thread works on one column of one block: `inner` is above 1, so that a warp's loads are lines.
#[inline(always)]
unsafe fn sweep_rows<T: Real + intrinsics::ReadOnlyValue>(
    shape: Sweep,
    tables: Tables<T>,
    source: impl Source<T>,
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
    let n = shape.n;
    // SAFETY: indices are inside; the sweep has room for the block's rows, the output for the coarse nodes.
    unsafe {
        let fine = |i: u32| source.at((outer * n + i) * shape.inner + column);
        let swept = swept.add((unit * shape.rows * shape.inner + column) as usize);
        let output = output.add((outer * shape.coarse * shape.inner + column) as usize);
        let row = |p: *mut T, j: u32| p.add((j * shape.inner) as usize);
        let regular = tables.row(1);
        let mut before = T::ZERO;
        let mut j = first;
        while j < last {
            if is_regular(j, n) && is_regular(j + 3, n) && j + 3 < last && j > first {
                let mut v = [T::ZERO; 11];
                each8!(|k| {
                    v[k] = fine(2 * j + k as u32 - 2);
                });
                [v[8], v[9], v[10]] = [fine(2 * j + 6), fine(2 * j + 7), fine(2 * j + 8)];
                let factors = [0, 1, 2, 3].map(|k| tables.factor(j + k - 1));
                before = before.fma(factors[0], regular_sum(&regular, [v[0], v[1], v[2], v[3], v[4]]));
                *row(swept, j - first) = before;
                before = before.fma(factors[1], regular_sum(&regular, [v[2], v[3], v[4], v[5], v[6]]));
                *row(swept, j + 1 - first) = before;
                before = before.fma(factors[2], regular_sum(&regular, [v[4], v[5], v[6], v[7], v[8]]));
                *row(swept, j + 2 - first) = before;
                before = before.fma(factors[3], regular_sum(&regular, [v[6], v[7], v[8], v[9], v[10]]));
                *row(swept, j + 3 - first) = before;
                j += 4;
                continue;
            }
            let f = fine_index(j as u64, n as u64) as u32;
            let mut sum = irregular_sum(tables.row(j), |k| fine(f + k - 2));
            if j > first {
                sum = before.fma(tables.factor(j - 1), sum);
            }
            *row(swept, j - first) = sum;
            before = sum;
            j += 1;
        }
        let mut after = T::ZERO;
        while j > start {
            if j < last && j >= start + 4 {
                let values = [1, 2, 3, 4].map(|k| *row(swept, j - k - first));
                let inverses = [1, 2, 3, 4].map(|k| tables.inverse(j - k));
                let factors = [1, 2, 3, 4].map(|k| tables.factor(j - k));
                let mut out = [T::ZERO; 4];
                out[0] = after.fma(factors[0], values[0] * inverses[0]);
                out[1] = out[0].fma(factors[1], values[1] * inverses[1]);
                out[2] = out[1].fma(factors[2], values[2] * inverses[2]);
                out[3] = out[2].fma(factors[3], values[3] * inverses[3]);
                after = out[3];
                if j <= end {
                    *row(output, j - 1) = out[0];
                    *row(output, j - 2) = out[1];
                    *row(output, j - 3) = out[2];
                    *row(output, j - 4) = out[3];
                } else {
                    each5!(|k| {
                        if k < 4 && j - 1 - (k as u32) < end {
                            *row(output, j - 1 - k as u32) = out[k % 4];
                        }
                    });
                }
                j -= 4;
                continue;
            }
            j -= 1;
            let scaled = *row(swept, j - first) * tables.inverse(j);
            after = if j + 1 == last { scaled } else { after.fma(tables.factor(j), scaled) };
            if j < end {
                *row(output, j) = after;
            }
        }
    }
}

/// Values of a row of a warp's tile in shared memory, one more than it has, against bank conflicts.
const TILE_ROW: usize = 33;

/// A warp works on 32 lines of one block, a lane for each; they go through shared memory in tiles of 32 x 32, so that loads and stores
/// are whole lines of memory.
///
/// # Safety
/// `tile` is the warp's own 32 x 33 values of shared memory.
#[inline(always)]
unsafe fn sweep_lines<T: Real + intrinsics::ReadOnlyValue>(
    shape: Sweep,
    tables: Tables<T>,
    source: impl Source<T>,
    swept: *mut T,
    output: *mut T,
    tile: *mut T,
) {
    let lane = warp::lane_id();
    let blocks = shape.coarse.div_ceil(SOLVE_BLOCK as u32);
    let warp = thread::index_1d() / 32;
    if warp >= shape.outer.div_ceil(32) * blocks {
        return;
    }
    // SAFETY: there is at least one block.
    let blocks = unsafe { NonZeroU32::new_unchecked(blocks) };
    let (group, block) = (warp / blocks, warp % blocks);
    let [start, end, first, last] = solve_block(block as u64, shape.coarse as u64).map(|j| j as u32);
    let (line, lines) = (group * 32, (shape.outer - group * 32).min(32));
    let n = shape.n;
    // SAFETY: indices are checked; all lanes of the warp go the same way.
    unsafe {
        let own = tile.add(lane as usize * TILE_ROW);
        // Fills the tile with columns from `from` on, below `to`, of the warp's lines.
        let load = |from: u32, to: u32, at: &dyn Fn(u32, u32) -> T| {
            warp::full::sync();
            let mut row = 0;
            while row < 32 {
                let mut loaded = [T::ZERO; 8];
                each8!(|k| {
                    if row + (k as u32) < lines && from + lane < to {
                        loaded[k] = at(row + k as u32, from + lane);
                    }
                });
                each8!(|k| {
                    *tile.add((row as usize + k) * TILE_ROW + lane as usize) = loaded[k];
                });
                row += 8;
            }
            warp::full::sync();
        };
        // Stores columns of the tile.
        let store = |from: u32, count: u32, skip: u32, to: *mut T, stride: u32| {
            warp::full::sync();
            let mut row = 0;
            while row < lines {
                if lane < count {
                    *to.add((row * stride + from + lane) as usize) = *tile.add(row as usize * TILE_ROW + (skip + lane) as usize);
                }
                row += 1;
            }
            warp::full::sync();
        };
        let swept = swept.add(((line * blocks.get()) + block) as usize * shape.rows as usize);
        let swept_stride = shape.rows * blocks.get();
        let fine = |row: u32, i: u32| source.at((line + row) * n + i);

        let regular = tables.row(1);
        // The nodes at 2 j - 2, 2 j - 1 and 2 j of the coarse node that comes next; those that do not exist count with weight 0.
        let mine = |i: u32| if lane < lines && i < n { fine(lane, i) } else { T::ZERO };
        let mut window =
            [if first > 0 { mine(2 * first - 2) } else { T::ZERO }, if first > 0 { mine(2 * first - 1) } else { T::ZERO }, mine(2 * first)];
        let mut before = T::ZERO;
        let mut j = first;
        while j < last {
            load(2 * j + 1, n, &fine);
            let count = (last - j).min(16);
            let mut i = 0;
            while i < count {
                let (now, next) = (j + i, [*own.add(2 * i as usize), *own.add(2 * i as usize + 1)]);
                let v = [window[0], window[1], window[2], next[0], next[1]];
                let mut sum = if is_regular(now, n) {
                    regular_sum(&regular, v)
                } else {
                    // The last node of an even length stands one before 2 j.
                    let shift = 2 * now - fine_index(now as u64, n as u64) as u32;
                    let shifted = if shift == 1 { [T::ZERO, v[0], v[1], v[2], v[3]] } else { v };
                    irregular_sum(tables.row(now), |k| [shifted[0], shifted[1], shifted[2], shifted[3], shifted[4]][k as usize])
                };
                if now > first {
                    sum = before.fma(tables.factor(now - 1), sum);
                }
                before = sum;
                window = [v[2], v[3], v[4]];
                *own.add(i as usize) = sum;
                i += 1;
            }
            store(j - first, count, 0, swept, swept_stride);
            j += count;
        }
        let mut after = T::ZERO;
        while j > start {
            let low = if j - start > 32 { j - 32 } else { start };
            load(low - first, j - first, &|row, i| *swept.add((row * swept_stride + i) as usize));
            let mut i = j - low;
            while i > 0 {
                i -= 1;
                let now = low + i;
                let scaled = *own.add(i as usize) * tables.inverse(now);
                after = if now + 1 == last { scaled } else { after.fma(tables.factor(now), scaled) };
                *own.add(i as usize) = after;
            }
            let kept = j.min(end);
            if kept > low {
                store(low, kept - low, 0, output.add((line * shape.coarse) as usize), shape.coarse);
            }
            j = low;
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
        let before = if node.is_multiple_of(SEGMENT) { 0 } else { quantised(node - 1) };
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
    ($real:ident, $quantise:ident, $recompose:ident, $correct:ident, $uncorrect:ident, $sweep_rows:ident, $sweep_rows_symbols:ident, $sweep_lines:ident, $sweep_lines_symbols:ident, $difference:ident, $accumulate:ident) => {
        /// Forward global level, first part: every node's symbol, 0 at coarse ones; for `open_loop` != 0 the exact coefficients too.
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
            symbols: *mut <$real as Real>::Symbol,
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

        /// One dimension of a correction of an array of coefficients, `inner` above 1.
        ///
        /// Grid: ceil(outer * ceil(coarse / 256) * inner / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `weights` points to 5 values for each coarse node, `lower` and `inverse` to one; `input` and `output` to the arrays of `shape`, `swept`
        /// to outer * ceil(coarse / 256) * rows * inner values; it may be `output` where there is one block.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $sweep_rows(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const $real,
            swept: *mut $real,
            output: *mut $real,
        ) {
            // SAFETY: the caller's.
            unsafe { sweep_rows(shape, Tables { weights, lower, inverse }, Values(input), swept, output) }
        }

        /// The same of symbols.
        ///
        /// Grid, block and shared memory as above.
        ///
        /// # Safety
        ///
        /// As above.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $sweep_rows_symbols(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const <$real as Real>::Symbol,
            step: $real,
            swept: *mut $real,
            output: *mut $real,
        ) {
            let source = Symbols(input, Quantiser { step, inverse: 0.0 });
            // SAFETY: the caller's.
            unsafe { sweep_rows::<$real>(shape, Tables { weights, lower, inverse }, source, swept, output) }
        }

        /// One dimension of a correction of an array of coefficients, along its lines: `inner` is 1.
        ///
        /// Grid: ceil(ceil(outer / 32) * ceil(coarse / 256) / 2) blocks; block: 64 threads. Shared memory: 2 x 32 x 33 values, static.
        ///
        /// # Safety
        ///
        /// As above, but `swept` is never `output`.
        #[kernel(max_threads = LINE_BLOCK)]
        pub unsafe fn $sweep_lines(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const $real,
            swept: *mut $real,
            output: *mut $real,
        ) {
            let tiles = shared_array![$real; 2 * 32 * TILE_ROW];
            // SAFETY: the caller's.
            unsafe {
                let tile = tiles.add((thread::thread_idx_x() / 32) as usize * 32 * TILE_ROW);
                sweep_lines(shape, Tables { weights, lower, inverse }, Values(input), swept, output, tile)
            }
        }

        /// The same of symbols.
        ///
        /// Grid, block and shared memory as above.
        ///
        /// # Safety
        ///
        /// As above.
        #[kernel(max_threads = LINE_BLOCK)]
        pub unsafe fn $sweep_lines_symbols(
            shape: Sweep,
            weights: *const $real,
            lower: *const $real,
            inverse: *const $real,
            input: *const <$real as Real>::Symbol,
            step: $real,
            swept: *mut $real,
            output: *mut $real,
        ) {
            let tiles = shared_array![$real; 2 * 32 * TILE_ROW];
            let source = Symbols(input, Quantiser { step, inverse: 0.0 });
            // SAFETY: the caller's.
            unsafe {
                let tile = tiles.add((thread::thread_idx_x() / 32) as usize * 32 * TILE_ROW);
                sweep_lines::<$real>(shape, Tables { weights, lower, inverse }, source, swept, output, tile)
            }
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
    sweep_rows_f32,
    sweep_rows_symbols_f32,
    sweep_lines_f32,
    sweep_lines_symbols_f32,
    difference_f32,
    accumulate_f32
);
kernels!(
    f64,
    quantise_global_f64,
    recompose_global_f64,
    correct_global_f64,
    uncorrect_f64,
    sweep_rows_f64,
    sweep_rows_symbols_f64,
    sweep_lines_f64,
    sweep_lines_symbols_f64,
    difference_f64,
    accumulate_f64
);
