//! Minimum, maximum and special values of a field.

use bmgard_core::Real;

use super::simd::simd;
use crate::Value;
use crate::backend::FieldStatistics;
use crate::special::is_special;

/// Values that are compared side by side.
const LANES: usize = 16;

simd! {
    /// The statistics of a block of values.
    pub(super) fn of_block<T: Value>(block: &[T], fill: Option<T>) -> FieldStatistics<T> {
        let mut statistics = FieldStatistics::default();
        let mut add = |values: &[T]| {
            for &x in values {
                if is_special(x, fill) {
                    statistics.specials += 1;
                } else {
                    statistics.include(x, x);
                }
            }
        };
        // Before any value was seen, each lane's least is the greatest there is. (A valid value is never beyond it.)
        let (mut low, mut high) = ([T::MAX; LANES], [-T::MAX; LANES]);
        let mut any = false;
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            // No short circuit: that would keep the lanes apart.
            if !chunk.iter().fold(true, |valid, &x| valid & (Real::abs(x) <= T::MAX) & fill.is_none_or(|fill| x != fill)) {
                add(chunk);
                continue;
            }
            any = true;
            for ((low, high), &x) in low.iter_mut().zip(&mut high).zip(chunk) {
                *low = if x < *low { x } else { *low };
                *high = if x > *high { x } else { *high };
            }
        }
        add(rest);
        if any {
            low.into_iter().zip(high).for_each(|(low, high)| statistics.include(low, high));
        }
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f32], fill: Option<f32>) {
        let valid = || values.iter().copied().filter(|x| x.is_finite() && Some(*x) != fill);
        let statistics = of_block(values, fill);
        assert_eq!(statistics.specials as usize, values.len() - valid().count());
        assert_eq!(statistics.min_max, valid().reduce(f32::min).zip(valid().reduce(f32::max)));
    }

    #[test]
    fn every_length_and_special_value() {
        for length in 0..100usize {
            let mut values: Vec<f32> = (0..length).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
            check(&values, None);
            check(&values, Some(-50.0));
            for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -9.0, f32::MAX, f32::MIN] {
                if let Some(value) = values.get_mut(length / 2) {
                    *value = special;
                }
                check(&values, Some(-9.0));
            }
            check(&vec![f32::NAN; length], None);
            check(&vec![7.5; length], Some(7.5));
        }
    }
}
