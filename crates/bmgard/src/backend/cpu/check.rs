//! The value check.

use bmgard_core::Real;

use super::simd::simd;
use crate::Value;
use crate::backend::Verdict;
use crate::patch::Patches;
use crate::special::Mask;

/// Values that are checked side by side.
const LANES: usize = 8;

/// Checks some of a chunk's values and collects what it finds.
pub(super) struct Checker<'a> {
    mask: Option<&'a Mask>,
    bound: f64,
    worst: [f64; LANES],
    broken: Vec<u64>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(mask: Option<&'a Mask>, bound: f64) -> Self {
        Self { mask, bound, worst: [0.0; LANES], broken: Vec::new() }
    }

    /// Checks up to 8 values from position `at` on.
    #[inline(always)]
    pub(super) fn check<T: Real>(&mut self, at: usize, values: &[T], decoded: &[T]) {
        let masked = self.mask.map_or(0, |mask| mask.get8(at));
        if let (Some(values), Some(decoded), 0) = (values.first_chunk::<LANES>(), decoded.first_chunk::<LANES>(), masked) {
            let errors: [f64; LANES] = std::array::from_fn(|i| Real::abs(values[i].to_f64() - decoded[i].to_f64()));
            // No short circuit: that would keep the lanes apart.
            if errors.iter().fold(true, |kept, &error| kept & (error <= self.bound)) {
                for (worst, error) in self.worst.iter_mut().zip(errors) {
                    *worst = if error > *worst { error } else { *worst };
                }
                return;
            }
        }
        self.check_each(at, values, decoded, masked);
    }

    #[cold]
    fn check_each<T: Real>(&mut self, at: usize, values: &[T], decoded: &[T], masked: u8) {
        for (i, (&value, &decoded)) in values.iter().zip(decoded).enumerate().filter(|(i, _)| masked >> i & 1 == 0) {
            let error = Real::abs(value.to_f64() - decoded.to_f64());
            if error <= self.bound {
                self.worst[0] = self.worst[0].max(error);
            } else {
                self.broken.push((at + i) as u64);
            }
        }
    }
}

simd! {
    /// Checks a run of values from position `at` on.
    pub(super) fn check_run<T: Real>(checker: &mut Checker<'_>, at: usize, values: &[T], decoded: &[T]) {
        for (at, (values, decoded)) in (at..).step_by(LANES).zip(values.chunks(LANES).zip(decoded.chunks(LANES))) {
            checker.check(at, values, decoded);
        }
    }
}

/// What all checkers of a chunk's values found.
pub(super) fn verdict<T: Value>(checkers: Vec<Checker<'_>>, values: &[T]) -> Verdict {
    let mut max_abs_error = 0.0;
    let mut broken = Vec::new();
    for checker in checkers {
        max_abs_error = checker.worst.into_iter().fold(max_abs_error, f64::max);
        broken.extend(checker.broken);
    }
    // Checkers of tiles do not go through a chunk in C order.
    broken.sort_unstable();
    Verdict { max_abs_error, patches: Patches::new(&broken, values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_the_bound_is_found_and_masked_values_are_not() {
        let values: Vec<f32> = (0..100).map(|i| i as f32).collect();
        let mut decoded = values.clone();
        for (at, value) in [(3, 3.5), (17, 18.0), (40, f32::NAN), (41, f32::INFINITY), (63, 62.4), (99, 98.75)] {
            decoded[at] = value;
        }
        let mut mask = Mask::new(100);
        mask.set(41);
        mask.set(62);
        let (mut first, mut second) = (Checker::new(Some(&mask), 0.5), Checker::new(Some(&mask), 0.5));
        check_run(&mut second, 0, &values[..50], &decoded[..50]);
        check_run(&mut first, 50, &values[50..], &decoded[50..]);
        let verdict = verdict(vec![first, second], &values);
        assert_eq!(verdict.max_abs_error, 0.5);
        assert_eq!(verdict.patches.positions().collect::<Vec<_>>(), [17, 40, 63]);
    }
}
