//! Single stages of both backends, side by side, for the tests that compare them and for benchmarks. Not for users: no promises.

use bmgard_core::tile::Quantiser;

use crate::Result;
use crate::backend::cpu;
use crate::backend::cuda::{Cuda, DeviceValue};
use crate::plan::{ChunkPlan, Level, Levels};
use crate::special::Mask;

/// A type that both backends know.
#[allow(private_bounds, reason = "callers need not name it")]
pub trait Value: DeviceValue {}

impl Value for f32 {}
impl Value for f64 {}

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

/// The milliseconds of each run of a kernel.
pub type Times = Vec<f32>;

impl Gpu {
    /// Opens the first device.
    ///
    /// # Errors
    /// As [`crate::devices`].
    pub fn open() -> Result<Self> {
        Cuda::open(0).map(Self)
    }

    /// Forward and then inverse, each run `repeats` times more for its times.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn local_level<T: Value>(&self, case: &LocalLevel<T>, values: &[T], repeats: usize) -> Result<(Decomposed<T>, Vec<T>, [Times; 2])> {
        let words = case.mask.as_ref().map(Mask::words_u32);
        let buffers = self.0.upload(&case.level, values, words)?;
        let forward = || self.0.decompose_local(&case.level, &buffers, case.quantiser, case.open_loop);
        forward()?;
        let forward_times = if repeats > 0 { self.0.time(repeats, forward)? } else { Vec::new() };
        let decomposed = (self.0.download(&buffers.symbols)?, self.0.download(&buffers.coarse)?);
        let inverse = || self.0.recompose_local(&case.level, &buffers, case.quantiser);
        inverse()?;
        let inverse_times = if repeats > 0 { self.0.time(repeats, inverse)? } else { Vec::new() };
        Ok((decomposed, self.0.download(&buffers.values)?, [forward_times, inverse_times]))
    }
}
