//! Residuals and anchors.

use crate::Real;

/// The quantiser of one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiser<T> {
    /// The step: a symbol k stands for the residual k * step.
    pub step: T,
    /// What a residual is multiplied with before rounding: 1 / step, rounded.
    pub inverse: T,
}

impl<T: Real> Quantiser<T> {
    /// The quantiser for a step.
    #[must_use]
    pub fn new(step: T) -> Self {
        Self { step, inverse: T::from_f64(1.0 / step.to_f64()) }
    }

    /// The greatest step of the field's type that is not above twice the bound, finite.
    #[must_use]
    pub fn widest_step(bound: f64) -> T {
        let twice = 2.0 * bound;
        let step = T::from_f64(twice);
        if !step.is_finite() {
            T::MAX
        } else if step.to_f64() > twice {
            // Positive numbers are ordered as their bits are.
            T::from_bits_u64(step.to_bits_u64() - 1)
        } else {
            step
        }
    }

    /// The number of steps, rounded, in the form of [`Real::ROUNDER`] + k.
    #[inline(always)]
    pub fn rounded(&self, value: T, prediction: T) -> T {
        (value - prediction).fma(self.inverse, T::ROUNDER)
    }

    /// The symbol of a value, what it is reconstructed to, and whether the symbol is small enough. Where it is not, symbol and
    /// reconstruction mean nothing. Whether the bound is kept is for the caller to check.
    #[inline(always)]
    pub fn quantise(&self, value: T, prediction: T) -> (i32, T, bool) {
        self.quantise_below(value, prediction, T::RESIDUAL_LIMIT)
    }

    /// [`Quantiser::quantise`] for symbols whose magnitudes are to be below a limit, which is no greater than
    /// [`Real::RESIDUAL_LIMIT`].
    #[inline(always)]
    pub fn quantise_below(&self, value: T, prediction: T, limit: T) -> (i32, T, bool) {
        let rounded = self.rounded(value, prediction);
        let steps = rounded - T::ROUNDER;
        (rounded.rounded_symbol(), self.reconstruct_steps(steps, prediction), steps.abs() < limit)
    }

    /// The value of a symbol.
    #[inline(always)]
    pub fn reconstruct(&self, symbol: i32, prediction: T) -> T {
        self.reconstruct_steps(T::from_residual(symbol), prediction)
    }

    /// The value of a symbol that is given as a number.
    #[inline(always)]
    pub fn reconstruct_steps(&self, steps: T, prediction: T) -> T {
        steps.fma(self.step, prediction)
    }

    /// A number such that any two values whose difference, computed in their own type, has no greater magnitude differ by no more than
    /// the bound. Greater differences that are near to it take a closer look, in f64.
    #[must_use]
    pub fn safe_difference(bound: f64) -> T {
        // The difference is rounded by 2^-24 of it at most.
        let limit = bound * (1.0 - 1.0 / 4_194_304.0);
        let safe = T::from_f64(limit);
        if !safe.is_finite() {
            T::MAX
        } else if safe.to_f64() > limit {
            T::from_bits_u64(safe.to_bits_u64() - 1)
        } else {
            safe
        }
    }

    /// What a node that is missing from the data is taken to be: its prediction, or 0 where that is not finite.
    #[inline(always)]
    pub fn missing(&self, prediction: T) -> T {
        let value = self.reconstruct(0, prediction);
        if value.is_finite() { value } else { T::ZERO }
    }

    /// What coding a residual costs, about, in bits: 0 for 0, else 2 + floor(log2 |k|). An integer, so that choices are the same
    /// everywhere.
    #[inline(always)]
    pub fn cost(&self, value: T, prediction: T) -> u32 {
        let steps = self.rounded(value, prediction) - T::ROUNDER;
        steps.exponent_field().saturating_sub(T::EXPONENT_BIAS - 2)
    }
}

/// The quantiser of anchors: in f64 for both types, for an anchor may be more steps than an f32's mantissa holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchors {
    step: f64,
    inverse: f64,
}

impl Anchors {
    /// Anchors of at least this many steps are not coded: their third differences fit an i64.
    pub const LIMIT: f64 = 1_125_899_906_842_624.0; // 2^50

    /// The quantiser for a step.
    #[must_use]
    pub fn new<T: Real>(step: T) -> Self {
        let step = step.to_f64();
        Self { step, inverse: 1.0 / step }
    }

    /// The number of steps nearest to a value (ties to even); `None` from [`Anchors::LIMIT`] on.
    #[inline(always)]
    pub fn quantise<T: Real>(&self, value: T) -> Option<i64> {
        let steps = value.to_f64() * self.inverse;
        (Real::abs(steps) < Self::LIMIT).then(|| steps.round_to_symbol().0)
    }

    /// The value of a number of steps, rounded to the field's type; 0 where that is not finite.
    #[inline(always)]
    pub fn reconstruct<T: Real>(&self, steps: i64) -> T {
        let value = T::from_f64(steps as f64 * self.step);
        if value.is_finite() { value } else { T::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips<T: Real>(step: T, value: T, prediction: T) {
        let quantiser = Quantiser::new(step);
        let (symbol, reconstructed, fits) = quantiser.quantise(value, prediction);
        assert!(fits);
        assert_eq!(quantiser.reconstruct(symbol, prediction), reconstructed);
        let cost = if symbol == 0 { 0 } else { 2 + symbol.unsigned_abs().ilog2() };
        assert_eq!(quantiser.cost(value, prediction), cost);
    }

    #[test]
    fn symbols_come_back() {
        for k in [-4_194_303, -70_000, -3, -1, 0, 1, 2, 3, 4, 7, 8, 1000, 4_194_303i32] {
            round_trips(0.125f32, k as f32 * 0.125 + 0.03, 0.0);
            round_trips(1e-7f64, f64::from(k) * 1e-7, 3e-8);
            assert_eq!(f32::from_residual(k), k as f32);
            assert_eq!(f64::from_residual(k * 200), f64::from(k * 200));
        }
    }

    #[test]
    fn large_residuals_do_not_fit() {
        for value in [4_194_304.0f32, -4_194_304.5, 1e10, f32::MAX, f32::INFINITY, f32::NAN] {
            assert!(!Quantiser::new(1.0f32).quantise(value, 0.0).2, "{value}");
        }
        for value in [1_073_741_824.0f64, -1_073_741_825.0, 1e300, f64::NEG_INFINITY, f64::NAN] {
            assert!(!Quantiser::new(1.0f64).quantise(value, 0.0).2, "{value}");
        }
    }

    #[test]
    fn steps_are_the_widest() {
        for bound in [1e-3, 0.1, 1e-40, 1e30, 5e-324, f64::MAX, 1e-45, 3.7e-46] {
            let step = Quantiser::<f32>::widest_step(bound);
            assert!(f64::from(step) <= 2.0 * bound && step.is_finite());
            assert!(step == f32::MAX || f64::from(step.next_up()) > 2.0 * bound);
            assert!(Quantiser::<f64>::widest_step(bound) == (2.0 * bound).min(f64::MAX));
        }
    }

    #[test]
    fn safe_differences_are_within_the_bound() {
        for bound in [1e-3, 0.1, 1.0, 1e-45, 2e-45, 3.7e-46, 1e-40, 1e30, 1e300, f64::MAX, 5e-324] {
            let safe = Quantiser::<f32>::safe_difference(bound);
            assert!(f64::from(safe) * (1.0 + 1.0 / 16_777_216.0) <= bound && safe >= 0.0, "{bound}");
            assert!(safe == 0.0 || safe == f32::MAX || f64::from(safe.next_up().next_up()) > bound * (1.0 - 1.0 / 2_097_152.0), "{bound}");
            let safe = Quantiser::<f64>::safe_difference(bound);
            assert!(safe <= bound && safe >= 0.0);
        }
    }

    #[test]
    fn anchors_come_back() {
        let anchors = Anchors::new(0.001f32);
        for value in [0.0f32, 1.0, -3.25, 1e6, 1e9] {
            let steps = anchors.quantise(value).unwrap();
            let back: f32 = anchors.reconstruct(steps);
            assert!((back - value).abs() <= 0.0005 + value.abs() * f32::EPSILON);
        }
        assert_eq!(anchors.quantise(1e15f32), None);
        assert_eq!(anchors.quantise(f32::NAN), None);
    }
}
