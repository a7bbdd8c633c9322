//! Gaussian random fields with a given spectrum, and what is made of them.
//!
//! White noise in the space of wave vectors is shaped by the square root of the spectrum and transformed back; the real part is the
//! field. Wave numbers count periods over the longest dimension, so that the field looks alike in all directions whatever the shape.

use std::sync::Arc;

use rayon::prelude::*;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlannerScalar};

use super::Element;
use super::grid::Dims;
use super::random::Stream;

/// Beyond this part of the longest dimension, wave numbers dissipate: exp(-(k / (0.25 n))^2).
const DISSIPATION: f64 = 0.25;

/// A Gaussian random field of mean 0 and variance 1 whose energy per wave number falls as k^-slope.
pub fn gaussian<T: Element>(dims: &Dims, slope: f64, seed: u64) -> Vec<T> {
    let mut modes = modes::<T>(dims, slope, seed);
    inverse_transform(dims, &mut modes);
    let mut values: Vec<T> = modes.par_iter().map(|mode| mode.re).collect();
    drop(modes);
    let scale = 1.0 / deviation(&values);
    let scale = if scale.is_finite() { scale } else { 1.0 };
    map(&mut values, |value| value * scale);
    values
}

/// Log-normal, like the density of a turbulent gas.
pub fn density<T: Element>(dims: &Dims, seed: u64) -> Vec<T> {
    let mut values = gaussian(dims, 1.0, seed);
    map(&mut values, |value| libm::exp(1.5 * value));
    values
}

/// Two fluids and a perturbed layer between them, across the slowest dimension.
pub fn mixing<T: Element>(dims: &Dims, seed: u64) -> Vec<T> {
    let mut values = gaussian::<T>(dims, 2.5, seed);
    let across = dims.all.iter().position(|&n| n > 1).unwrap_or(3);
    let last = dims.all[across].max(2) as f64 - 1.0;
    let height = |index: usize| 2.0 * index as f64 / last - 1.0;
    dims.rows(&mut values, |number, row| {
        let at = dims.of_row(number);
        for (index, value) in row.iter_mut().enumerate() {
            let z = height(if across < 3 { at[across] } else { index });
            *value = T::of(2.0 + libm::tanh(12.0 * (z + 0.15 * value.to_f64())));
        }
    });
    values
}

/// The positive parts of a field, over a threshold.
pub fn clouds<T: Element>(dims: &Dims, seed: u64) -> Vec<T> {
    let mut values = gaussian(dims, 5.0 / 3.0, seed);
    map(&mut values, |value| (value - 0.5).max(0.0));
    values
}

fn map<T: Element>(values: &mut [T], function: impl Fn(f64) -> f64 + Sync) {
    values.par_iter_mut().for_each(|value| *value = T::of(function(value.to_f64())));
}

/// The root of the mean square, added up in an order that does not depend on threads.
fn deviation<T: Element>(values: &[T]) -> f64 {
    let parts: Vec<f64> = values.par_chunks(1 << 14).map(|part| part.iter().map(|value| value.to_f64() * value.to_f64()).sum()).collect();
    (parts.iter().sum::<f64>() / values.len() as f64).sqrt()
}

/// Shaped white noise.
fn modes<T: Element>(dims: &Dims, slope: f64, seed: u64) -> Vec<Complex<T>> {
    let longest = *dims.all.iter().max().unwrap_or(&1) as f64;
    // Index to squared wave number: the upper half stands for negative ones.
    let squared = |dim: usize, index: usize| {
        let n = dims.all[dim];
        let k = index.min(n - index) as f64 * (longest / n as f64);
        k * k
    };
    // Energy per wave number is density times the area of a shell.
    let power = -(slope + dims.count() as f64 - 1.0) / 4.0;
    let amplitude = |k2: f64| {
        if k2 == 0.0 { 0.0 } else { libm::pow(k2, power) * libm::exp(-k2 / (longest * DISSIPATION * longest * DISSIPATION)) }
    };
    let (re, im) = (Stream::new(seed, 0), Stream::new(seed, 1));
    let mut modes = vec![Complex::new(T::zero(), T::zero()); dims.len()];
    let n = dims.row();
    dims.rows(&mut modes, |number, row| {
        let outer: f64 = dims.of_row(number).iter().enumerate().map(|(dim, &index)| squared(dim, index)).sum();
        for index in 0..=n / 2 {
            let amplitude = amplitude(outer + squared(3, index));
            for index in [index, (n - index) % n] {
                let position = (number * n + index) as u64;
                row[index] = Complex::new(T::of(amplitude * re.normal(position)), T::of(amplitude * im.normal(position)));
            }
        }
    });
    modes
}

/// The unnormalised inverse transform over all dimensions: the fastest is transformed and becomes the slowest, until every one had
/// its turn. The scalar algorithms are used since their results do not depend on the processor's vector units.
fn inverse_transform<T: Element>(dims: &Dims, data: &mut Vec<Complex<T>>) {
    let mut planner = FftPlannerScalar::new();
    let mut turned = vec![Complex::new(T::zero(), T::zero()); data.len()];
    for &n in dims.all.iter().rev().filter(|&&n| n > 1) {
        transform_rows(data, n, &planner.plan_fft_inverse(n));
        fastest_to_slowest(data, n, &mut turned);
        std::mem::swap(data, &mut turned);
    }
}

fn transform_rows<T: Element>(data: &mut [Complex<T>], n: usize, fft: &Arc<dyn Fft<T>>) {
    let bundle = (1 << 12) / n + 1;
    data.par_chunks_mut(n * bundle).for_each_init(
        || vec![Complex::new(T::zero(), T::zero()); fft.get_inplace_scratch_len()],
        |scratch, rows| fft.process_with_scratch(rows, scratch),
    );
}

/// Transposes an array of rows of length n, a bundle of columns at a time.
fn fastest_to_slowest<T: Element>(data: &[Complex<T>], n: usize, out: &mut [Complex<T>]) {
    const COLUMNS: usize = 16;
    let rows = data.len() / n;
    out.par_chunks_mut(rows * COLUMNS).enumerate().for_each(|(bundle, columns)| {
        let first = bundle * COLUMNS;
        let count = columns.len() / rows;
        for row in 0..rows {
            let source = &data[row * n + first..][..count];
            for (column, &value) in source.iter().enumerate() {
                columns[column * rows + row] = value;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(shape: &str) -> Dims {
        Dims::new(&shape.parse().unwrap())
    }

    #[test]
    fn unit_variance_and_no_mean() {
        let values = gaussian::<f32>(&dims("32x40x36"), 5.0 / 3.0, 7);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 1e-5, "{mean}");
        assert!((deviation(&values) - 1.0).abs() < 1e-5);
    }

    /// A plane wave in the modes must come out as that wave: checks the order of the axes.
    #[test]
    fn the_transform_is_a_transform() {
        let dims = dims("6x5x7x4");
        let (a, b, c, d) = (2, 3, 5, 1);
        let mut modes = vec![Complex::new(0.0f64, 0.0); dims.len()];
        modes[((a * 5 + b) * 7 + c) * 4 + d] = Complex::new(1.0, 0.0);
        inverse_transform(&dims, &mut modes);
        for (position, value) in modes.iter().enumerate() {
            let [i, j, k] = dims.of_row(position / 4);
            let turns = (a * i) as f64 / 6.0 + (b * j) as f64 / 5.0 + (c * k) as f64 / 7.0 + (d * (position % 4)) as f64 / 4.0;
            let expected = Complex::from_polar(1.0, std::f64::consts::TAU * turns);
            assert!((value - expected).norm() < 1e-12, "{position}");
        }
    }

    /// In one dimension the energy of a wave number is that of its mode: fit its slope between k = 4 and k = 64.
    #[test]
    fn the_spectrum_has_its_slope() {
        let n = 2048;
        let values = gaussian::<f64>(&dims("2048"), 5.0 / 3.0, 11);
        let energy = |k: usize| {
            let (mut re, mut im) = (0.0, 0.0);
            for (i, v) in values.iter().enumerate() {
                let (sin, cos) = (std::f64::consts::TAU * (i * k % n) as f64 / n as f64).sin_cos();
                re += v * cos;
                im += v * sin;
            }
            re * re + im * im
        };
        let band = |from: usize, to: usize| (from..to).map(energy).sum::<f64>() / (to - from) as f64;
        let slope = (band(128, 192) / band(8, 12)).log2() / 4.0;
        assert!((slope + 5.0 / 3.0).abs() < 0.4, "{slope}");
    }
}
