//! How the error bound becomes quantisation steps.

use crate::ErrorBudget;

/// `Tight` steps over twice the bound: of the finest level, and the factors to the second level and from each to the next after that.
struct Tight {
    finest: f64,
    second: f64,
    deeper: f64,
}

/// By the number of dimensions (1 to 3), measured on the real fields of `docs/benchmarks.md` (their values also taken as 2-D and 1-D
/// fields): near the greatest geometric mean of the ratios at 1e-2, 1e-4 and 1e-6, which is flat around it. Two values in a thousand
/// are patched then.
const TIGHT: [Tight; 3] = [
    Tight { finest: 0.72, second: 0.7, deeper: 0.6 },
    Tight { finest: 0.7, second: 0.65, deeper: 0.6 },
    Tight { finest: 0.7, second: 0.6, deeper: 0.5 },
];

/// `Rigorous`: the share of the bound that a level gets, over that of the level below it, by the number of dimensions: about the ratio
/// of their numbers of nodes, which is where the Lagrange condition of the least total rate puts it.
const RIGOROUS: [f64; 3] = [0.6, 0.4, 0.25];

/// base^exponent by repeated multiplication: `powi` may round differently from one platform to the next.
fn power(base: f64, exponent: usize) -> f64 {
    (0..exponent).fold(1.0, |power, _| power * base)
}

/// The steps of all levels, finest first, the coarsest array last, for a `d`-dimensional chunk with `levels` levels.
///
/// With the correction taken of quantised coefficients, the error is at most the sum over levels of step / 2 (see
/// `bmgard_core::tile`), so `Rigorous` steps sum to twice the bound.
pub(crate) fn steps(budget: ErrorBudget, bound: f64, d: usize, levels: usize) -> Vec<f64> {
    let twice = 2.0 * bound.min(f64::MAX / 4.0);
    let level = 0..=levels;
    match budget {
        ErrorBudget::Tight => {
            let Tight { finest, second, deeper } = TIGHT[d - 1];
            level.map(|l| twice * finest * if l == 0 { 1.0 } else { second * power(deeper, l - 1) }).collect()
        }
        ErrorBudget::Rigorous => {
            let total: f64 = level.clone().map(|l| power(RIGOROUS[d - 1], l)).sum();
            level.map(|l| twice * power(RIGOROUS[d - 1], l) / total).collect()
        }
        ErrorBudget::Mgard => {
            let constant = 1.0 + f64::from(3u32.pow(d as u32));
            level.map(|_| twice / (constant * (levels + 1) as f64)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rigorous_steps_sum_to_twice_the_bound() {
        for d in 1..=3 {
            for levels in 0..20 {
                let sum: f64 = steps(ErrorBudget::Rigorous, 0.5, d, levels).iter().sum();
                approx::assert_relative_eq!(sum, 1.0, max_relative = 1e-12);
            }
        }
    }

    #[test]
    fn mgard_steps_are_its_constants() {
        assert_eq!(steps(ErrorBudget::Mgard, 1.0, 3, 3), [2.0 / 112.0; 4]);
    }

    #[test]
    fn steps_are_finite_for_every_bound() {
        for budget in [ErrorBudget::Tight, ErrorBudget::Rigorous, ErrorBudget::Mgard] {
            for bound in [f64::MAX, f64::MIN_POSITIVE, 5e-324] {
                assert!(steps(budget, bound, 3, 40).iter().all(|s| s.is_finite()));
            }
        }
    }
}
