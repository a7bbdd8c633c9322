//! Single stages of both backends, side by side, for the tests that compare them and for benchmarks. Not for users: no promises.

use bmgard_core::tile::Quantiser;

use crate::Result;
use crate::backend::cpu;
use crate::backend::cuda::Cuda;
use crate::plan::{ChunkPlan, Level, Levels};
use crate::special::Mask;

pub use crate::Value;

/// One local level of a three-dimensional array.
#[derive(Clone, Debug)]
pub struct LocalLevel<T> {
    level: Level,
    quantiser: Quantiser<T>,
    mask: Option<Mask>,
    open_loop: bool,
}

/// Symbols and corrected coarse array.
pub type Decomposed<T> = (Vec<<T as bmgard_core::Real>::Symbol>, Vec<T>);

impl<T: Value> LocalLevel<T> {
    /// A level of an array of `dims` (all at least 2) with this step; `masked` nodes are not coded.
    #[must_use]
    pub fn new(dims: [u64; 3], step: f64, masked: &[usize], open_loop: bool) -> Self {
        let level = ChunkPlan::new(dims, 3, Levels { local: 1, global: 0 }).levels[0];
        let mask = (!masked.is_empty()).then(|| {
            let mut mask = Mask::new(dims.iter().product::<u64>() as usize);
            masked.iter().for_each(|&node| mask.set(node));
            mask
        });
        Self { level, quantiser: Quantiser::new(step), mask, open_loop }
    }

    /// Forward, on the CPU.
    #[must_use]
    pub fn decompose_cpu(&self, values: &[T]) -> Decomposed<T> {
        cpu::decompose_local(values, &self.level, 3, self.mask.as_ref(), &self.quantiser, self.open_loop)
    }

    /// Inverse, on the CPU.
    #[must_use]
    pub fn recompose_cpu(&self, decomposed: &Decomposed<T>) -> Vec<T> {
        cpu::recompose_local(&decomposed.0, &decomposed.1, &self.level, 3, &self.quantiser)
    }
}

/// A device.
pub struct Gpu(Cuda);

impl Gpu {
    /// Opens the first device.
    ///
    /// # Errors
    /// As [`crate::devices`].
    pub fn open() -> Result<Self> {
        Cuda::open(0).map(Self)
    }

    /// Forward and then inverse.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn local_level<T: Value>(&self, case: &LocalLevel<T>, values: &[T]) -> Result<(Decomposed<T>, Vec<T>)> {
        self.0.local_level(&case.level, values, case.mask.as_ref(), case.quantiser, case.open_loop)
    }
}
