//! Single stages of both backends, side by side, for the tests that compare them and for benchmarks. Not for users: no promises.

use bmgard_core::tile::Quantiser;

use crate::backend::cpu;
use crate::backend::cuda::Cuda;
use crate::engine::Engine;
use crate::patch::Patches;
use crate::plan::{ChunkPlan, Level, Levels};
use crate::special::Mask;
use crate::{Compressor, Result};

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

/// The sections of a chunk's patches: counts, offsets and values.
pub type PatchSections = [Vec<u8>; 3];

/// The sections of the patches at these positions, ascending, on the CPU.
#[must_use]
pub fn write_patches_cpu<T: Value>(positions: &[u64], values: &[T]) -> PatchSections {
    let Patches { counts, offsets, values } = Patches::new(positions, values);
    [counts, offsets, values]
}

/// The decoded values with patches, on the CPU; `None` where the sections contradict each other.
#[must_use]
pub fn apply_patches_cpu<T: Value>(sections: &PatchSections, decoded: &[T]) -> Option<Vec<T>> {
    let mut values = decoded.to_vec();
    Patches::apply(&sections[0], &sections[1], &sections[2], &mut values).ok()?;
    Some(values)
}

/// Makes a compressor launch kernels whose blocks wait for each other step by step, as on a device that cannot hold all of them.
pub fn without_waiting_blocks(compressor: &mut Compressor) {
    if let Engine::Cuda(cuda) = &mut compressor.engine {
        cuda.together = false;
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
        self.0.local_level(&case.level, values, case.mask.as_ref(), case.quantiser, case.open_loop, false)
    }

    /// The same by kernels whose quantiser is apart.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn local_level_apart<T: Value>(&self, case: &LocalLevel<T>, values: &[T]) -> Result<(Decomposed<T>, Vec<T>)> {
        self.0.local_level(&case.level, values, case.mask.as_ref(), case.quantiser, case.open_loop, true)
    }

    /// The CRC-32 of bytes that lie `offset` bytes behind an aligned address of the device.
    ///
    /// # Errors
    /// [`crate::Error::Device`], as with all that follow; also where a kernel writes what is not its own.
    pub fn checksum(&self, bytes: &[u8], offset: usize) -> Result<u32> {
        self.0.try_checksum(bytes, offset)
    }

    /// Where each of several parts starts, and the sum of all; their sizes lie `offset` bytes behind an aligned address.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn scan(&self, sizes: &[u16], offset: usize) -> Result<Vec<u64>> {
        self.0.try_scan(sizes, offset)
    }

    /// The same of sizes of 32 bits.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn scan_u32(&self, sizes: &[u32], offset: usize) -> Result<Vec<u64>> {
        self.0.try_scan(sizes, offset)
    }

    /// Segments, moved from slots of equal size to one payload.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn move_segments(&self, segments: &[Vec<u8>], offset: usize) -> Result<Vec<u8>> {
        self.0.try_move_segments(segments, offset)
    }

    /// As [`write_patches_cpu`].
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn write_patches<T: Value>(&self, positions: &[u64], values: &[T], offset: usize) -> Result<PatchSections> {
        self.0.try_write_patches(positions, values, offset)
    }

    /// As [`apply_patches_cpu`]; the three sections must have the sizes that a chunk of so many values and patches asks for.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn apply_patches<T: Value>(&self, sections: &PatchSections, decoded: &[T], offset: usize) -> Result<Option<Vec<T>>> {
        self.0.try_apply_patches(sections.each_ref().map(Vec::as_slice), decoded, offset)
    }

    /// Bytes that went to the device and came back through page-locked memory.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn staging(&self, bytes: &[u8], offset: usize) -> Result<Vec<u8>> {
        self.0.try_staging(bytes, offset)
    }
}
