//! Global levels: the whole array at once.
//!
//! Interpolation averages along z first, then y, then x. The correction applies, dimension by dimension from the slowest, the rows of
//! Pi^T M ([`bmgard_core::axis::restriction_row`]) and a solve with the coarse mass matrix (Thomas' algorithm for a symmetric tridiagonal
//! matrix, its factors computed in f64 and rounded to the field's type; long dimensions in overlapping blocks). Terms are fused multiply-adds in the order of the nodes.

use bmgard_core::axis::{SOLVE_BLOCK, coarse_len, coarse_mass, is_coarse, restriction_row, solve_block};
use bmgard_core::tile::{Lanes, Quantiser};
use bmgard_core::{Real, Symbol};
use ndarray::{ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis};
use rayon::prelude::*;

use super::simd::simd;
use crate::plan::{Dims, Level};

/// One dimension of the correction operator.
pub(crate) struct AxisOperator<T> {
    n: usize,
    coarse: usize,
    /// Per coarse node: weights at the fine nodes f-2 ..= f+2.
    rows: Vec<[T; 5]>,
    /// Off-diagonal entries of the unit lower factor; the last is 0.
    lower: Vec<T>,
    /// Reciprocals of the diagonal factor.
    inverse: Vec<T>,
}

impl<T: Real> AxisOperator<T> {
    /// The operator for a dimension of `n` nodes; `None` where it does not coarsen.
    pub(crate) fn new(n: u64) -> Option<Self> {
        if n <= 2 {
            return None;
        }
        let coarse = coarse_len(n);
        let rows = (0..coarse).map(|j| restriction_row(j, n).map(T::from_f64)).collect();
        let (mut lower, mut inverse) = (Vec::new(), Vec::new());
        let mut carried = 0.0;
        for j in 0..coarse {
            let (diagonal, off) = coarse_mass(j, n);
            let pivot = diagonal - carried;
            lower.push(T::from_f64(off / pivot));
            inverse.push(T::from_f64(1.0 / pivot));
            carried = off * (off / pivot);
        }
        Some(Self { n: n as usize, coarse: coarse as usize, rows, lower, inverse })
    }

    /// Per coarse node: its row, the factor to the next, the reciprocal of its pivot.
    #[cfg(feature = "cuda")]
    pub(crate) fn tables(&self) -> (&[[T; 5]], &[T], &[T]) {
        (&self.rows, &self.lower, &self.inverse)
    }

    /// The fine nodes, and their weights, that the row of coarse node `j` sums, in order.
    fn terms(&self, j: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        let first = bmgard_core::axis::fine_index(j as u64, self.n as u64) as usize;
        self.rows[j].iter().enumerate().filter(|&(_, &w)| w != T::ZERO).map(move |(k, &w)| (first + k - 2, w))
    }
}

simd! {
    /// Applies the operator along the slower dimension of a matrix to the coarse nodes `first..first + output.nrows()`, as if there
    /// were no others: all `n` rows in, those nodes' rows out.
    fn apply_rows<T: Real>(operator: &AxisOperator<T>, first: usize, input: ArrayView2<'_, T>, output: &mut ArrayViewMut2<'_, T>) {
        let count = output.nrows();
        for row in 0..count {
            let j = first + row;
            if row == 0 {
                sum_rows(operator, j, &input, whole_mut(output.row_mut(0)));
            } else {
                let (before, now) = output.multi_slice_mut((ndarray::s![row - 1, ..], ndarray::s![row, ..]));
                let (before, now) = (whole_mut(before), whole_mut(now));
                sum_rows(operator, j, &input, now);
                let factor = -operator.lower[j - 1];
                now.iter_mut().zip(before).for_each(|(n, b)| *n = b.fma(factor, *n));
            }
        }
        for row in (0..count).rev() {
            let j = first + row;
            let (inverse, factor) = (operator.inverse[j], -operator.lower[j]);
            if row + 1 == count {
                whole_mut(output.row_mut(row)).iter_mut().for_each(|v| *v = *v * inverse);
            } else {
                let (now, after) = output.multi_slice_mut((ndarray::s![row, ..], ndarray::s![row + 1, ..]));
                whole_mut(now).iter_mut().zip(whole_mut(after)).for_each(|(n, a)| *n = a.fma(factor, *n * inverse));
            }
        }
    }

    /// [`apply_rows`] along a contiguous line.
    fn apply_line<T: Real>(operator: &AxisOperator<T>, first: usize, input: &[T], output: &mut [T]) {
        let mut before = T::ZERO;
        for (row, out) in output.iter_mut().enumerate() {
            let mut sum = sum_line(operator, first + row, input);
            if row > 0 {
                sum = before.fma(-operator.lower[first + row - 1], sum);
            }
            *out = sum;
            before = sum;
        }
        let last = output.len() - 1;
        let mut after = T::ZERO;
        for (row, out) in output.iter_mut().enumerate().rev() {
            let scaled = *out * operator.inverse[first + row];
            after = if row == last { scaled } else { after.fma(-operator.lower[first + row], scaled) };
            *out = after;
        }
    }
}

/// The sum of coarse node `j`'s row along a line.
#[inline(always)]
fn sum_line<T: Real>(operator: &AxisOperator<T>, j: usize, input: &[T]) -> T {
    let weights = operator.rows[j];
    if weights.iter().all(|&w| w != T::ZERO) {
        let middle = bmgard_core::axis::fine_index(j as u64, operator.n as u64) as usize;
        let terms = &input[middle - 2..middle + 3];
        return (1..5).fold(terms[0] * weights[0], |sum, k| terms[k].fma(weights[k], sum));
    }
    let add = |sum: Option<T>, (i, weight): (usize, T)| Some(sum.map_or_else(|| input[i] * weight, |sum| input[i].fma(weight, sum)));
    operator.terms(j).fold(None, add).unwrap_or(T::ZERO)
}

/// A row of a matrix whose rows are contiguous. (Slices vectorise; an array's iterators do not, for they know strides too.)
#[inline(always)]
fn whole_mut<T>(row: ArrayViewMut1<'_, T>) -> &mut [T] {
    row.into_slice().unwrap_or_default()
}

/// The sums of coarse node `j`'s row. Where it has all five terms, as nearly everywhere, one pass takes them all.
#[inline(always)]
fn sum_rows<T: Real>(operator: &AxisOperator<T>, j: usize, input: &ArrayView2<'_, T>, out: &mut [T]) {
    let source = |i: usize| input.row(i).to_slice().unwrap_or_default();
    let weights = operator.rows[j];
    if weights.iter().all(|&w| w != T::ZERO) {
        let middle = bmgard_core::axis::fine_index(j as u64, operator.n as u64) as usize;
        let sources: [&[T]; 5] = std::array::from_fn(|k| &source(middle + k - 2)[..out.len()]);
        for (x, out) in out.iter_mut().enumerate() {
            *out = (1..5).fold(sources[0][x] * weights[0], |sum, k| sources[k][x].fma(weights[k], sum));
        }
        return;
    }
    for (term, (i, weight)) in operator.terms(j).enumerate() {
        let pairs = out.iter_mut().zip(source(i));
        if term == 0 {
            pairs.for_each(|(t, &s)| *t = s * weight);
        } else {
            pairs.for_each(|(t, &s)| *t = s.fma(weight, *t));
        }
    }
}

/// Columns that one task works on: the rows of a sum stay in the first-level cache.
const COLUMNS: usize = 512;

/// Applies the operator along the slower dimension of the matrix `n` x `inner`, block by block.
fn apply<T: Real>(operator: &AxisOperator<T>, inner: usize, input: &[T], output: &mut [T]) {
    output.par_chunks_mut(SOLVE_BLOCK as usize * inner).enumerate().for_each(|(block, output)| {
        let [start, end, first, last] = solve_block(block as u64, operator.coarse as u64).map(|j| j as usize);
        if (first, last) == (start, end) {
            apply_block(operator, inner, first, input, output);
        } else {
            let mut solved = vec![T::ZERO; (last - first) * inner];
            apply_block(operator, inner, first, input, &mut solved);
            output.copy_from_slice(&solved[(start - first) * inner..(end - first) * inner]);
        }
    });
}

/// One block of [`apply`].
fn apply_block<T: Real>(operator: &AxisOperator<T>, inner: usize, first: usize, input: &[T], output: &mut [T]) {
    if inner == 1 {
        apply_line(operator, first, input, output);
        return;
    }
    // Both shapes hold by construction of the slices.
    let rows = output.len() / inner;
    let shaped = (ArrayView2::from_shape((operator.n, inner), input), ArrayViewMut2::from_shape((rows, inner), output));
    if let (Ok(input), Ok(mut output)) = shaped {
        output
            .axis_chunks_iter_mut(Axis(1), COLUMNS)
            .into_par_iter()
            .zip(input.axis_chunks_iter(Axis(1), COLUMNS))
            .for_each(|(mut output, input)| apply_rows(operator, first, input, &mut output));
    }
}

/// The correction on the coarse grid of coefficients on the fine one.
fn correction<T: Real>(details: Vec<T>, dims: Dims) -> Vec<T> {
    let mut now = details;
    let mut dims = dims.map(|n| n as usize);
    for axis in 0..3 {
        let Some(operator) = AxisOperator::new(dims[axis] as u64) else {
            continue;
        };
        let inner: usize = dims[axis + 1..].iter().product();
        let outer: usize = dims[..axis].iter().product();
        let (n, coarse) = (dims[axis], operator.coarse);
        let mut next = vec![T::ZERO; outer * coarse * inner];
        next.par_chunks_mut(coarse * inner)
            .zip(now.par_chunks(n * inner))
            .for_each(|(output, input)| apply(&operator, inner, input, output));
        dims[axis] = coarse;
        now = next;
    }
    now
}

/// R u, the coarse nodes.
fn restrict<T: Real>(values: &[T], level: &Level) -> Vec<T> {
    let [nz, ny, nx] = level.dims;
    let mut out = Vec::with_capacity(level.coarse.iter().product::<u64>() as usize);
    for z in (0..nz).filter(|&z| is_coarse(z, nz)) {
        for y in (0..ny).filter(|&y| is_coarse(y, ny)) {
            let row = &values[((z * ny + y) * nx) as usize..][..nx as usize];
            if nx <= 2 {
                out.extend_from_slice(row);
            } else {
                out.extend(row.iter().step_by(2));
                if nx % 2 == 0 {
                    out.push(row[nx as usize - 1]);
                }
            }
        }
    }
    out
}

/// Which coarse nodes node `i` of `n` lies between: one index, or two neighbours.
fn parents(i: u64, n: u64) -> (usize, Option<usize>) {
    if n <= 2 {
        (i as usize, None)
    } else if i == n - 1 {
        (coarse_len(n) as usize - 1, None)
    } else if i.is_multiple_of(2) {
        ((i / 2) as usize, None)
    } else {
        ((i / 2) as usize, Some((i / 2 + 1) as usize))
    }
}

/// Interpolates fine row (z, y) from the coarse array; `scratch` holds a coarse row.
#[inline(always)]
fn interpolate_row<T: Real>(coarse: &[T], level: &Level, z: u64, y: u64, scratch: &mut Vec<T>, out: &mut [T]) {
    let [_, ncy, ncx] = level.coarse.map(|n| n as usize);
    let row = |j: usize, k: usize| &coarse[(j * ncy + k) * ncx..][..ncx];
    let average = |out: &mut Vec<T>, a: &[T], b: &[T]| {
        out.clear();
        out.extend(a.iter().zip(b).map(|(&a, &b)| a.average(b)));
    };
    let (z0, z1) = parents(z, level.dims[0]);
    let (y0, y1) = parents(y, level.dims[1]);
    match (z1, y1) {
        (None, None) => {
            scratch.clear();
            scratch.extend_from_slice(row(z0, y0));
        }
        (Some(z1), None) => average(scratch, row(z0, y0), row(z1, y0)),
        (None, Some(y1)) => average(scratch, row(z0, y0), row(z0, y1)),
        (Some(z1), Some(y1)) => {
            scratch.clear();
            let pairs = row(z0, y0).iter().zip(row(z1, y0)).zip(row(z0, y1).iter().zip(row(z1, y1)));
            scratch.extend(pairs.map(|((&a, &b), (&c, &d))| a.average(b).average(c.average(d))));
        }
    }
    let nx = out.len();
    if nx <= 2 {
        out.copy_from_slice(scratch);
        return;
    }
    let whole = nx.div_ceil(2);
    for (pair, out) in scratch[..whole].windows(2).zip(out.chunks_exact_mut(2)) {
        out[0] = pair[0];
        out[1] = pair[0].average(pair[1]);
    }
    // An odd length ends on an even node; an even one on two coarse nodes.
    out[2 * (whole - 1)] = scratch[whole - 1];
    if nx.is_multiple_of(2) {
        out[nx - 1] = scratch[whole];
    }
}

/// Rows that one task works on.
const ROWS: usize = 64;

/// Values that one task works on, where they are no rows.
const BLOCK: usize = 1 << 14;

/// Forward: the symbols of all nodes (0 at coarse ones) and the corrected coarse array.
pub(super) fn decompose<T: Real>(values: &[T], level: &Level, quantiser: &Quantiser<T>, open_loop: bool) -> (Vec<T::Symbol>, Vec<T>) {
    let nx = level.dims[2];
    let nodes = level.places;
    let mut coarse = restrict(values, level);
    let mut symbols = vec![T::Symbol::from_i64(0); nodes];
    let mut details = vec![T::ZERO; nodes];
    let block = ROWS * nx as usize;
    symbols.par_chunks_mut(block).zip(details.par_chunks_mut(block)).zip(values.par_chunks(block)).enumerate().for_each(
        |(task, ((symbols, details), values))| {
            decompose_rows(&coarse, level, quantiser, open_loop, (task * ROWS) as u64, symbols, details, values);
        },
    );
    let correction = correction(details, level.dims);
    coarse.par_chunks_mut(BLOCK).zip(correction.par_chunks(BLOCK)).for_each(|(coarse, correction)| {
        coarse.iter_mut().zip(correction).for_each(|(c, &z)| *c = *c + z);
    });
    (symbols, coarse)
}

/// Inverse: the array that [`decompose`] started from, as the decoder sees it.
pub(super) fn recompose<T: Real>(symbols: &[T::Symbol], mut coarse: Vec<T>, level: &Level, quantiser: &Quantiser<T>) -> Vec<T> {
    let nx = level.dims[2];
    let mut details = vec![T::ZERO; symbols.len()];
    details.par_chunks_mut(BLOCK).zip(symbols.par_chunks(BLOCK)).for_each(|(details, symbols)| dequantise(quantiser, symbols, details));
    let correction = correction(details, level.dims);
    coarse.par_chunks_mut(BLOCK).zip(correction.par_chunks(BLOCK)).for_each(|(coarse, correction)| {
        coarse.iter_mut().zip(correction).for_each(|(c, &z)| *c = *c - z);
    });
    let mut values = vec![T::ZERO; level.places];
    let block = ROWS * nx as usize;
    values.par_chunks_mut(block).zip(symbols.par_chunks(block)).enumerate().for_each(|(task, (values, symbols))| {
        recompose_rows(&coarse, level, quantiser, (task * ROWS) as u64, symbols, values);
    });
    values
}

simd! {
    fn dequantise<T: Real>(quantiser: &Quantiser<T>, symbols: &[T::Symbol], values: &mut [T]) {
        values.iter_mut().zip(symbols).for_each(|(value, &symbol)| *value = quantiser.value(symbol));
    }

    fn decompose_rows<T: Real>(
        coarse: &[T],
        level: &Level,
        quantiser: &Quantiser<T>,
        open_loop: bool,
        first_row: u64,
        symbols: &mut [T::Symbol],
        details: &mut [T],
        values: &[T],
    ) {
        let [_, ny, nx] = level.dims;
        let mut scratch = Vec::new();
        let rows = symbols.chunks_mut(nx as usize).zip(details.chunks_mut(nx as usize)).zip(values.chunks(nx as usize));
        for (row, ((symbols, details), values)) in (first_row..).zip(rows) {
            interpolate_row(coarse, level, row / ny, row % ny, &mut scratch, details);
            for ((symbol, detail), &value) in symbols.iter_mut().zip(details.iter_mut()).zip(values) {
                let coefficient = value - *detail;
                let quantised;
                (*symbol, quantised) = quantiser.quantise(coefficient);
                *detail = if open_loop { coefficient } else { quantised };
            }
        }
    }

    fn recompose_rows<T: Real>(coarse: &[T], level: &Level, quantiser: &Quantiser<T>, first_row: u64, symbols: &[T::Symbol], values: &mut [T]) {
        let [_, ny, nx] = level.dims;
        let mut scratch = Vec::new();
        let rows = values.chunks_mut(nx as usize).zip(symbols.chunks(nx as usize));
        for (row, (values, symbols)) in (first_row..).zip(rows) {
            interpolate_row(coarse, level, row / ny, row % ny, &mut scratch, values);
            for (value, &symbol) in values.iter_mut().zip(symbols) {
                *value = *value + quantiser.value(symbol);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ChunkPlan, Levels};

    fn level(dims: Dims) -> Level {
        ChunkPlan::new(dims, 3, Levels { local: 0, global: 1 }).levels[0]
    }

    #[test]
    fn a_multilinear_field_has_no_details_and_exact_coarse_values() {
        for dims in [[9, 8, 7], [1, 4, 3], [2, 5, 1], [16, 3, 2]] {
            let level = level(dims);
            let field = |z: u64, y: u64, x: u64| (2 * x + 3 * y + 5 * z + x * y + y * z + 2 * x * y * z) as f64;
            let nodes = || (0..dims[0]).flat_map(|z| (0..dims[1]).flat_map(move |y| (0..dims[2]).map(move |x| (z, y, x))));
            let values: Vec<f64> = nodes().map(|(z, y, x)| field(z, y, x)).collect();
            let (symbols, coarse) = decompose(&values, &level, &Quantiser::new(1e-9), true);
            assert!(symbols.iter().all(|&k| k == 0), "{dims:?}");
            let kept: Vec<f64> = nodes()
                .filter(|&(z, y, x)| is_coarse(z, dims[0]) && is_coarse(y, dims[1]) && is_coarse(x, dims[2]))
                .map(|(z, y, x)| field(z, y, x))
                .collect();
            assert_eq!(coarse, kept, "{dims:?}");
        }
    }

    #[test]
    fn the_correction_solves_the_normal_equations() {
        // (Mc^-1 Pi^T M) c, multiplied with Mc again, is Pi^T M c.
        for n in [3, 4, 5, 8, 9, 16, 17, 100, 101, 511, 512, 1200, 5001] {
            let operator = AxisOperator::<f64>::new(n).unwrap();
            let input: Vec<f64> = (0..n).map(|i| ((i * i + 3 * i) % 17) as f64).collect();
            let mut out = vec![0.0; operator.coarse];
            apply(&operator, 1, &input, &mut out);
            // Three equal columns, through the other loop.
            let columns: Vec<f64> = input.iter().flat_map(|&v| [v; 3]).collect();
            let mut rows = vec![0.0; operator.coarse * 3];
            apply(&operator, 3, &columns, &mut rows);
            assert_eq!(rows, out.iter().flat_map(|&v| [v; 3]).collect::<Vec<_>>(), "both ways to apply it agree to the bit");
            for j in 0..operator.coarse {
                let (diagonal, off) = coarse_mass(j as u64, n);
                let before = if j > 0 { coarse_mass(j as u64 - 1, n).1 * out[j - 1] } else { 0.0 };
                let after = if j + 1 < operator.coarse { off * out[j + 1] } else { 0.0 };
                let row = before + diagonal * out[j] + after;
                let expected: f64 = operator.terms(j).map(|(i, w)| w * input[i]).sum();
                approx::assert_relative_eq!(row, expected, max_relative = 1e-12, epsilon = 1e-12);
            }
        }
    }

    #[test]
    fn recomposition_inverts_decomposition() {
        for dims in [[9, 8, 7], [1, 1, 3], [1, 4, 100], [2, 33, 5], [70, 3, 3]] {
            let level = level(dims);
            let values: Vec<f64> = (0..level.places).map(|i| ((i * i * 7 + 3 * i) % 101) as f64 * 0.37).collect();
            let q = Quantiser::new(0.01);
            let (symbols, coarse) = decompose(&values, &level, &q, false);
            let decoded = recompose(&symbols, coarse, &level, &q);
            assert!(values.iter().zip(&decoded).all(|(a, b)| (a - b).abs() <= 0.005 + 1e-12), "{dims:?}");
        }
    }
}
