//! Where the stages run. The driver in `crate::pipeline` knows their order; a backend knows how to run each.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;

use std::borrow::Cow;

use bmgard_core::closed::TileShape;
use bmgard_core::tile::Quantiser;

use crate::archive::Chunk;
use crate::closed;
use crate::huffman::{Codebook, Histogram};
use crate::packed;
use crate::patch::Patches;
use crate::plan::{CLASSES, ChunkPlan, Dims};
use crate::special::Mask;
use crate::{Result, Value};

/// What a field's values are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FieldStatistics<T> {
    /// The least and the greatest valid value; `None` where there is none.
    pub(crate) min_max: Option<(T, T)>,
    /// How many values are NaN, infinite or the fill value.
    pub(crate) specials: u64,
}

impl<T> Default for FieldStatistics<T> {
    fn default() -> Self {
        Self { min_max: None, specials: 0 }
    }
}

impl<T: Value> FieldStatistics<T> {
    /// The number of special values where nobody has looked yet, and the bound does not ask for the others either.
    #[cfg(feature = "cuda")]
    pub(crate) const UNKNOWN: u64 = u64::MAX;

    #[inline(always)]
    pub(crate) fn include(&mut self, low: T, high: T) {
        self.min_max = Some(match self.min_max {
            None => (low, high),
            Some((min, max)) => (if low < min { low } else { min }, if high > max { high } else { max }),
        });
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        if let Some((low, high)) = other.min_max {
            self.include(low, high);
        }
        self.specials += other.specials;
        self
    }
}

/// A level's coded symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Bytes of each segment.
    pub(crate) lengths: Vec<u16>,
    /// The segments, one after the other.
    pub(crate) payload: Vec<u8>,
}

/// What a chunk's check found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// The largest |x - x'| of the values that keep the bound.
    pub(crate) max_abs_error: f64,
    /// The values that do not.
    pub(crate) patches: Patches,
}

/// One backend's stages for values of type `T`. All results are the same on every backend, bit for bit.
///
/// Stages that return [`Self::Symbols`], [`Self::Check`] or [`Self::Coded`] may only be queued when they return.
pub(crate) trait Backend<T: Value> {
    /// A chunk's values, where the backend keeps them.
    type Values<'a>;

    /// The flags of a chunk's special values, likewise.
    type Mask<'a>;

    /// The symbols of all levels of a chunk, likewise.
    type Symbols;

    /// A check on its way.
    type Check;

    /// A level's bits on their way.
    type Coded;

    /// Minimum, maximum and the number of special values of a whole field.
    fn statistics(&mut self, values: &[T], fill: Option<T>) -> Result<FieldStatistics<T>>;

    /// Takes a chunk's values; special ones were replaced.
    fn load<'a>(&mut self, values: Cow<'a, [T]>) -> Result<Self::Values<'a>>;

    /// Takes a chunk's flags.
    fn load_mask<'a>(&mut self, mask: Option<&'a Mask>) -> Result<Self::Mask<'a>>;

    /// Takes a chunk apart, level by level, and quantises it. `range` is that of the field's valid values, at least.
    fn decompose(
        &mut self,
        plan: &ChunkPlan,
        values: &Self::Values<'_>,
        mask: &Self::Mask<'_>,
        quantisers: &[Quantiser<T>],
        range: f64,
        open_loop: bool,
    ) -> Result<Self::Symbols>;

    /// Counts the tokens of the sampled segments of level `index`, one histogram for each context.
    fn histograms(
        &mut self,
        plan: &ChunkPlan,
        symbols: &Self::Symbols,
        mask: &Self::Mask<'_>,
        index: usize,
    ) -> Result<[Histogram; CLASSES]>;

    /// Codes level `index`.
    fn encode(
        &mut self,
        plan: &ChunkPlan,
        symbols: &Self::Symbols,
        mask: &Self::Mask<'_>,
        index: usize,
        books: &[Codebook],
    ) -> Result<Self::Coded>;

    /// A coded level's bits.
    fn stream(&mut self, coded: Self::Coded) -> Result<Stream>;

    /// Decodes every level.
    fn decode(
        &mut self,
        plan: &ChunkPlan,
        mask: &Self::Mask<'_>,
        books: &[Codebook],
        streams: &[(Vec<u16>, &[u8])],
    ) -> Result<Self::Symbols>;

    /// Puts a chunk together again, exactly as every decoder does.
    fn recompose(&mut self, plan: &ChunkPlan, symbols: &Self::Symbols, quantisers: &[Quantiser<T>]) -> Result<Self::Values<'static>>;

    /// Puts a chunk together and finds the values that break the bound: `!(|x - x'| <= bound)` in f64. Masked values take no part.
    fn check(
        &mut self,
        plan: &ChunkPlan,
        symbols: &Self::Symbols,
        quantisers: &[Quantiser<T>],
        values: &Self::Values<'_>,
        mask: &Self::Mask<'_>,
        bound: f64,
    ) -> Result<Self::Check>;

    /// What a check found among these values.
    fn verdict(&mut self, check: Self::Check, values: &Self::Values<'_>) -> Result<Verdict>;

    /// Copies decoded values to the host.
    fn store(&mut self, values: Self::Values<'static>, out: &mut [T]) -> Result<()>;

    /// Codes a chunk in closed tiles.
    fn code_tiles(&mut self, task: &closed::Task<'_, T>) -> Result<closed::CodedChunk> {
        Ok(closed::code_chunk(task))
    }

    /// Decodes such a chunk, whose sections have the right sizes, special values included.
    fn decode_tiles(&mut self, shape: TileShape, dims: Dims, chunk: &Chunk<'_>, out: &mut [T]) -> Result<()> {
        closed::decode_chunk(shape, dims, chunk, out)
    }

    /// Codes a chunk in packed tiles.
    fn code_packed(&mut self, task: &packed::Task<'_, T>) -> Result<closed::CodedChunk> {
        Ok(packed::code_chunk(task))
    }

    /// Decodes such a chunk of a field of `d` dimensions, whose sections have the right sizes, special values included.
    fn decode_packed(&mut self, dims: Dims, d: usize, chunk: &Chunk<'_>, out: &mut [T]) -> Result<()> {
        packed::decode_chunk(dims, d, chunk, out)
    }

    /// Waits for all that was queued.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// [`Self::decode`], [`Self::recompose`] and [`Self::store`]; a backend may do them at once.
    fn reconstruct(
        &mut self,
        plan: &ChunkPlan,
        mask: &Self::Mask<'_>,
        books: &[Codebook],
        streams: &[(Vec<u16>, &[u8])],
        quantisers: &[Quantiser<T>],
        out: &mut [T],
    ) -> Result<()> {
        let symbols = self.decode(plan, mask, books, streams)?;
        let values = self.recompose(plan, &symbols, quantisers)?;
        self.store(values, out)
    }
}
