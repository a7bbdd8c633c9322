//! The comparison of a field with its decoded copy.

use rayon::prelude::*;
use serde::Serialize;

use crate::{Error, Result, Value};

/// How a decoded field differs from the original. Values that must come back bit for bit (NaN, infinities, fill values) are counted
/// apart and take no part in the other figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// All values.
    pub values: u64,
    /// NaN, infinities and fill values of the original.
    pub exact_values: u64,
    /// Those of them that came back with other bits.
    pub exact_changed: u64,
    /// The least valid value, or NaN where there is none.
    pub min: f64,
    /// The greatest valid value, or NaN where there is none.
    pub max: f64,
    /// The largest |x - x'| over the valid values; infinite where a valid value came back as NaN or infinite.
    pub max_abs_error: f64,
    /// The first position with that error, in C order.
    pub worst_position: u64,
    /// The root of the mean squared error.
    pub rmse: f64,
    /// RMSE / range.
    pub nrmse: f64,
    /// 20 log10(range / RMSE), in dB; infinite for an exact copy.
    pub psnr: f64,
    /// Valid values for which |x - x'| <= bound does not hold; 0 where no bound was given.
    pub broken: u64,
}

impl Comparison {
    /// Whether every value kept the promise.
    #[must_use]
    pub fn satisfied(&self) -> bool {
        self.broken == 0 && self.exact_changed == 0
    }

    /// Compares in f64, strictly: a difference that is NaN breaks the bound.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] where the lengths differ.
    pub fn new<T: Value>(original: &[T], decoded: &[T], bound: Option<f64>, fill: Option<f64>) -> Result<Self> {
        if original.len() != decoded.len() {
            return Err(Error::LengthMismatch {
                shape: format!("{}", original.len()),
                expected: original.len() as u64,
                actual: decoded.len() as u64,
            });
        }
        const BLOCK: usize = 1 << 16;
        let fill = fill.map(T::from_f64);
        let parts: Vec<Part> = original
            .par_chunks(BLOCK)
            .zip(decoded.par_chunks(BLOCK))
            .enumerate()
            .map(|(block, (x, y))| Part::new((block * BLOCK) as u64, x, y, bound, fill))
            .collect();
        let total = parts.into_iter().fold(Part::default(), Part::merge);
        let valid = original.len() as u64 - total.exact_values;
        let (min, max) = if valid == 0 { (f64::NAN, f64::NAN) } else { (total.min, total.max) };
        let rmse = if valid == 0 { 0.0 } else { (total.squares / valid as f64).sqrt() };
        let range = max - min;
        Ok(Self {
            values: original.len() as u64,
            exact_values: total.exact_values,
            exact_changed: total.exact_changed,
            min,
            max,
            max_abs_error: total.worst.max(0.0),
            worst_position: total.worst_position,
            rmse,
            nrmse: if rmse == 0.0 { 0.0 } else { rmse / range },
            psnr: if rmse == 0.0 { f64::INFINITY } else { 20.0 * (range / rmse).log10() },
            broken: total.broken,
        })
    }
}

/// The figures of one block of values, merged in a fixed order so that the result does not depend on threads.
struct Part {
    exact_values: u64,
    exact_changed: u64,
    min: f64,
    max: f64,
    worst: f64,
    worst_position: u64,
    squares: f64,
    broken: u64,
}

impl Default for Part {
    fn default() -> Self {
        Self {
            exact_values: 0,
            exact_changed: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            worst: -1.0,
            worst_position: 0,
            squares: 0.0,
            broken: 0,
        }
    }
}

impl Part {
    fn new<T: Value>(start: u64, original: &[T], decoded: &[T], bound: Option<f64>, fill: Option<T>) -> Self {
        let mut part = Self::default();
        for (position, (&x, &y)) in (start..).zip(original.iter().zip(decoded)) {
            if !x.is_finite() || fill == Some(x) {
                part.exact_values += 1;
                part.exact_changed += u64::from(x.to_bits_u64() != y.to_bits_u64());
                continue;
            }
            let (x, y) = (x.to_f64(), y.to_f64());
            let difference = (x - y).abs();
            if let Some(bound) = bound {
                #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN difference must count as broken")]
                let broken = !(difference <= bound);
                part.broken += u64::from(broken);
            }
            let error = if difference.is_nan() { f64::INFINITY } else { difference };
            if error > part.worst {
                part.worst = error;
                part.worst_position = position;
            }
            part.squares += error * error;
            part.min = part.min.min(x);
            part.max = part.max.max(x);
        }
        part
    }

    fn merge(self, next: Self) -> Self {
        let next_is_worse = next.worst > self.worst;
        Self {
            exact_values: self.exact_values + next.exact_values,
            exact_changed: self.exact_changed + next.exact_changed,
            min: self.min.min(next.min),
            max: self.max.max(next.max),
            worst: self.worst.max(next.worst),
            worst_position: if next_is_worse { next.worst_position } else { self.worst_position },
            squares: self.squares + next.squares,
            broken: self.broken + next.broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_for_a_number_is_broken_and_exact_values_are_apart() {
        let x = [1.0f32, 2.0, f32::NAN, -9999.0, f32::INFINITY];
        let y = [1.5f32, f32::NAN, f32::NAN, -9999.0, f32::INFINITY];
        let c = Comparison::new(&x, &y, Some(0.5), Some(-9999.0)).unwrap();
        assert_eq!((c.values, c.exact_values, c.exact_changed, c.broken), (5, 3, 0, 1));
        assert_eq!((c.max_abs_error, c.worst_position), (f64::INFINITY, 1));
        assert!(!c.satisfied());
    }

    #[test]
    fn psnr_is_range_over_rmse() {
        let x = [0.0f64, 10.0];
        let y = [0.1f64, 9.9];
        let c = Comparison::new(&x, &y, None, None).unwrap();
        approx::assert_relative_eq!(c.psnr, 40.0, max_relative = 1e-12);
        approx::assert_relative_eq!(c.nrmse, 0.01, max_relative = 1e-12);
    }
}
