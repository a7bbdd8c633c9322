//! One module a command.

pub mod bench;
pub mod compare;
pub mod compress;
pub mod decompress;
pub mod demo;
pub mod devices;
pub mod generate;
pub mod inspect;

use bmgard::Comparison;

use crate::failure::{Kind, OrFail, Outcome};

/// Sets the number of threads of the global pool; called before it is used.
pub fn set_threads(threads: usize) -> Outcome {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().or_fail(Kind::Failed, || "cannot start the threads")
}

/// The extremes of the valid values, as bounds are resolved with.
pub fn min_max(comparison: &Comparison) -> Option<(f64, f64)> {
    (comparison.exact_values < comparison.values).then_some((comparison.min, comparison.max))
}
