//! What is done to rows of nodes: loops that the compiler vectorises.
//!
//! Rows of neighbours are as long as the row that is predicted unless they say otherwise.

use bmgard_core::Real;
use bmgard_core::closed::predict;
use bmgard_core::closed::{Kind, Quantiser};

use crate::backend::cpu::simd::simd;

/// Values before a row's first node that may be read, and after its last.
pub(super) const BEFORE: usize = 1;
pub(super) const AFTER: usize = 2;

simd! {
    /// [`predict::along`] z or y: the rows at -3, -1, +1 and +3 spacings.
    pub(super) fn along<T: Real>(out: &mut [T], rows: [&[T]; 4], weights: [T; 4]) {
        let n = out.len();
        let [a, b, c, d] = [&rows[0][..n], &rows[1][..n], &rows[2][..n], &rows[3][..n]];
        for i in 0..n {
            out[i] = predict::along([a[i], b[i], c[i], d[i]], weights);
        }
    }

    /// [`predict::along`] x: `row` is that of the even nodes, from [`BEFORE`] on.
    pub(super) fn along_x<T: Real>(out: &mut [T], row: &[T], weights: [&[T]; 4]) {
        let n = out.len();
        let [a, b, c, d] = [&row[..n], &row[1..][..n], &row[2..][..n], &row[3..][..n]];
        let w = [&weights[0][..n], &weights[1][..n], &weights[2][..n], &weights[3][..n]];
        for i in 0..n {
            out[i] = predict::along([a[i], b[i], c[i], d[i]], [w[0][i], w[1][i], w[2][i], w[3][i]]);
        }
    }

    /// [`predict::mean2`] of `out` and another row.
    pub(super) fn mean2<T: Real>(out: &mut [T], other: &[T]) {
        let other = &other[..out.len()];
        for i in 0..out.len() {
            out[i] = predict::mean2(out[i], other[i]);
        }
    }

    /// [`predict::mean3`] of `out` and two other rows.
    pub(super) fn mean3<T: Real>(out: &mut [T], y: &[T], x: &[T]) {
        let n = out.len();
        let (y, x) = (&y[..n], &x[..n]);
        for i in 0..n {
            out[i] = predict::mean3(out[i], y[i], x[i]);
        }
    }

    /// [`predict::coons2`] of z and y: the rows before and after along z, along y, and the corners.
    pub(super) fn coons_zy<T: Real>(out: &mut [T], z: [&[T]; 2], y: [&[T]; 2], corners: [&[T]; 4]) {
        let n = out.len();
        let (z, y) = ([&z[0][..n], &z[1][..n]], [&y[0][..n], &y[1][..n]]);
        let c = [&corners[0][..n], &corners[1][..n], &corners[2][..n], &corners[3][..n]];
        for i in 0..n {
            let sides = (z[0][i] + z[1][i]) + (y[0][i] + y[1][i]);
            out[i] = predict::coons2(sides, predict::corners(c[0][i], c[1][i], c[2][i], c[3][i]));
        }
    }

    /// [`predict::coons2`] of z or y (`a`) and x: `x` and `corners` are one longer.
    pub(super) fn coons_x<T: Real>(out: &mut [T], a: [&[T]; 2], x: &[T], corners: [&[T]; 2]) {
        let n = out.len();
        let a = [&a[0][..n], &a[1][..n]];
        let (x, c) = (&x[..n + 1], [&corners[0][..n + 1], &corners[1][..n + 1]]);
        for i in 0..n {
            let sides = (a[0][i] + a[1][i]) + (x[i] + x[i + 1]);
            out[i] = predict::coons2(sides, predict::corners(c[0][i], c[0][i + 1], c[1][i], c[1][i + 1]));
        }
    }

    /// [`predict::coons3`]: the rows before and after along z and y; the edges' corners in the plane zy; `x` and the two rows each of
    /// `zx` and `yx` are one longer.
    pub(super) fn coons3<T: Real>(out: &mut [T], z: [&[T]; 2], y: [&[T]; 2], x: &[T], zy: [&[T]; 4], zx: [&[T]; 2], yx: [&[T]; 2]) {
        let n = out.len();
        let (z, y) = ([&z[0][..n], &z[1][..n]], [&y[0][..n], &y[1][..n]]);
        let zy = [&zy[0][..n], &zy[1][..n], &zy[2][..n], &zy[3][..n]];
        let (x, zx, yx) = (&x[..n + 1], [&zx[0][..n + 1], &zx[1][..n + 1]], [&yx[0][..n + 1], &yx[1][..n + 1]]);
        for i in 0..n {
            let faces = ((z[0][i] + z[1][i]) + (y[0][i] + y[1][i])) + (x[i] + x[i + 1]);
            let zy = predict::corners(zy[0][i], zy[1][i], zy[2][i], zy[3][i]);
            let zx = predict::corners(zx[0][i], zx[0][i + 1], zx[1][i], zx[1][i + 1]);
            let yx = predict::corners(yx[0][i], yx[0][i + 1], yx[1][i], yx[1][i + 1]);
            out[i] = predict::coons3(faces, (zy + zx) + yx);
        }
    }

    /// Every 2^`stride`-th value.
    pub(super) fn gather<T: Real>(out: &mut [T], values: &[T], stride: usize) {
        match stride {
            0 => out.copy_from_slice(&values[..out.len()]),
            1 => {
                // The last pair may lack its second half.
                let (pairs, _) = values.as_chunks::<2>();
                let whole = out.len().min(pairs.len());
                let pairs = &pairs[..whole];
                for i in 0..whole {
                    out[i] = pairs[i][0];
                }
                if let (Some(last), Some(&value)) = (out.get_mut(whole), values.get(2 * whole)) {
                    *last = value;
                }
            }
            _ => {
                for i in 0..out.len() {
                    out[i] = values[i << stride];
                }
            }
        }
    }

    /// Quantises a row. Returns the greatest |v - r|, or nothing where a node cannot be kept: too many steps, beyond the bound, or
    /// reconstructed to the value that stands for missing data. The results mean nothing then.
    pub(super) fn quantise<T: Real>(
        quantiser: &Quantiser<T>,
        bound: f64,
        forbidden: T,
        values: &[T],
        predictions: &[T],
        symbols: &mut [i32],
        reconstructed: &mut [T],
    ) -> Option<f64> {
        const LANES: usize = 8;
        let n = values.len();
        let (predictions, symbols, reconstructed) = (&predictions[..n], &mut symbols[..n], &mut reconstructed[..n]);
        // Flags as words, and no short circuit: either would keep the lanes apart.
        let mut lost = 0u32;
        for i in 0..n {
            let (symbol, value, fits) = quantiser.quantise(values[i], predictions[i]);
            symbols[i] = symbol;
            reconstructed[i] = value;
            lost |= u32::from(!fits) | u32::from(value == forbidden);
        }
        let mut worst = [0.0f64; LANES];
        let (values, rest) = values.as_chunks::<LANES>();
        let (decoded, rest_decoded) = reconstructed.as_chunks::<LANES>();
        let mut beyond = [0u64; LANES];
        for (values, decoded) in values.iter().zip(decoded) {
            for lane in 0..LANES {
                let error = Real::abs(values[lane].to_f64() - decoded[lane].to_f64());
                beyond[lane] |= if error <= bound { 0 } else { u64::MAX };
                worst[lane] = if error > worst[lane] { error } else { worst[lane] };
            }
        }
        for (lane, (&value, &decoded)) in rest.iter().zip(rest_decoded).enumerate() {
            let error = Real::abs(value.to_f64() - decoded.to_f64());
            beyond[lane] |= if error <= bound { 0 } else { u64::MAX };
            worst[lane] = if error > worst[lane] { error } else { worst[lane] };
        }
        let kept = lost == 0 && beyond.iter().fold(0, |any, beyond| any | beyond) == 0;
        kept.then(|| worst.into_iter().fold(0.0, |a, b| if b > a { b } else { a }))
    }

    /// Reconstructs a row; whether one of its symbols is `escaped`.
    pub(super) fn reconstruct<T: Real>(
        quantiser: &Quantiser<T>,
        escaped: i32,
        predictions: &[T],
        symbols: &[i32],
        reconstructed: &mut [T],
    ) -> bool {
        let n = predictions.len();
        let (symbols, reconstructed) = (&symbols[..n], &mut reconstructed[..n]);
        let mut any = false;
        for i in 0..n {
            reconstructed[i] = quantiser.reconstruct(symbols[i], predictions[i]);
            any |= symbols[i] == escaped;
        }
        any
    }

    /// The sum of what coding the residuals costs.
    pub(super) fn cost<T: Real>(quantiser: &Quantiser<T>, values: &[T], predictions: &[T]) -> u64 {
        let predictions = &predictions[..values.len()];
        let mut sum = 0u32;
        for i in 0..values.len() {
            sum += quantiser.cost(values[i], predictions[i]);
        }
        u64::from(sum)
    }

    /// Two rows in turn: the first has as many values as the second, or one more.
    pub(super) fn interleave<T: Real>(out: &mut [T], even: &[T], odd: &[T]) {
        let (pairs, last) = out.as_chunks_mut::<2>();
        let n = pairs.len();
        let (even_pairs, odd_pairs) = (&even[..n], &odd[..n]);
        for i in 0..n {
            pairs[i] = [even_pairs[i], odd_pairs[i]];
        }
        if let Some(last) = last.first_mut() {
            *last = even[n];
        }
    }
}

/// The weights of a row's nodes along x, one row for each neighbour.
#[derive(Clone, Debug, Default)]
pub(super) struct RowWeights<T>([Vec<T>; 4]);

impl<T: Real> RowWeights<T> {
    /// For odd nodes whose neighbours are given by `side`.
    pub(super) fn set(&mut self, kind: Kind, sides: impl Iterator<Item = bmgard_core::closed::Side>) {
        self.0.iter_mut().for_each(Vec::clear);
        for side in sides {
            let weights = side.weights(kind);
            self.0.iter_mut().zip(weights).for_each(|(row, weight)| row.push(T::from_f64(weight)));
        }
    }

    pub(super) fn rows(&self) -> [&[T]; 4] {
        self.0.each_ref().map(Vec::as_slice)
    }
}
