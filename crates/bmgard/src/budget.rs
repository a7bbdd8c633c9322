//! How the error bound becomes quantisation steps.

use crate::ErrorBudget;

/// `Tight`: the finest level's step over twice the bound, by the number of dimensions (index 0 unused), measured on real fields: the
/// largest that leaves so few values to patch that smaller archives come out of it.
const TIGHT_FINEST: [f64; 4] = [0.0, 0.5, 0.5, 0.5];

/// `Tight`: the step of a level over that of the level below it.
const TIGHT_RATIO: [f64; 4] = [0.0, 0.7, 0.7, 0.7];

/// `Rigorous`: the share of the bound that a level gets, over that of the level below it: about the ratio of their numbers of nodes,
/// which is where the Lagrange condition of the least total rate puts it.
const RIGOROUS_RATIO: [f64; 4] = [0.0, 0.6, 0.4, 0.25];

/// The steps of all levels, finest first, the coarsest array last, for a `d`-dimensional chunk with `levels` levels.
///
/// With the correction taken of quantised coefficients, the error is at most the sum over levels of step / 2 (see
/// `bmgard_core::tile`), so `Rigorous` steps sum to twice the bound.
pub(crate) fn steps(budget: ErrorBudget, bound: f64, d: usize, levels: usize) -> Vec<f64> {
    let twice = 2.0 * bound.min(f64::MAX / 4.0);
    let geometric = |ratio: f64| (0..=levels).map(move |level| ratio.powi(level as i32));
    match budget {
        ErrorBudget::Tight => {
            geometric(env("R", TIGHT_RATIO[d])).map(|share| twice * env("K", TIGHT_FINEST[d]) * share.max(env("F", 0.1))).collect()
        }
        ErrorBudget::Rigorous => {
            let total: f64 = geometric(RIGOROUS_RATIO[d]).sum();
            geometric(RIGOROUS_RATIO[d]).map(|share| twice * share / total).collect()
        }
        ErrorBudget::Mgard => {
            let constant = 1.0 + f64::from(3u32.pow(d as u32));
            vec![twice / (constant * (levels + 1) as f64); levels + 1]
        }
    }
}
fn env(k: &str, v: f64) -> f64 {
    std::env::var(k).ok().and_then(|s| s.parse().ok()).unwrap_or(v)
}
