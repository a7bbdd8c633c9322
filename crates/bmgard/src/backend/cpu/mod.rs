//! The CPU backend: rayon over tiles, rows and segments.

mod check;
mod decode;
mod encode;
mod global;
mod local;
mod order;
pub(crate) mod shared;
pub(crate) mod simd;
mod statistics;

#[cfg(feature = "cuda")]
pub(crate) use global::AxisOperator;
#[cfg(feature = "cuda")]
pub(crate) use local::{decompose as decompose_local, recompose as recompose_local};

use std::borrow::Cow;

use bmgard_core::tile::Quantiser;
use bmgard_core::{Real, Symbol};
use rayon::prelude::*;

use self::check::{Checker, check_run};
use self::decode::Segments;
use super::{Backend, FieldStatistics, Stream, Verdict};
use crate::huffman::{Codebook, Histogram};
use crate::plan::{CLASSES, ChunkPlan, Level, LevelKind, count};
use crate::special::Mask;
use crate::{Result, Value};

/// All cores of the current rayon pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu;

/// Values that one task reduces.
const BLOCK: usize = 1 << 16;

impl<T: Value> Backend<T> for Cpu {
    type Values<'a> = Cow<'a, [T]>;
    type Mask<'a> = Option<&'a Mask>;
    type Symbols = Vec<Vec<T::Symbol>>;
    type Check = Verdict;
    type Coded = Stream;

    fn statistics(&mut self, values: &[T], fill: Option<T>) -> Result<FieldStatistics<T>> {
        let blocks = values.par_chunks(BLOCK).map(|block| statistics::of_block(block, fill));
        Ok(blocks.reduce(FieldStatistics::default, FieldStatistics::merge))
    }

    fn load<'a>(&mut self, values: Cow<'a, [T]>) -> Result<Cow<'a, [T]>> {
        Ok(values)
    }

    fn load_mask<'a>(&mut self, mask: Option<&'a Mask>) -> Result<Option<&'a Mask>> {
        Ok(mask)
    }

    fn decompose(
        &mut self,
        plan: &ChunkPlan,
        values: &Cow<'_, [T]>,
        mask: &Option<&Mask>,
        quantisers: &[Quantiser<T>],
        _: f64,
        open_loop: bool,
    ) -> Result<Self::Symbols> {
        let mut now = Cow::Borrowed(&**values);
        let mut out = Vec::with_capacity(plan.levels.len());
        for (index, (level, quantiser)) in plan.levels.iter().zip(quantisers).enumerate() {
            let mask = mask.filter(|_| index == 0);
            let (symbols, coarse) = match level.kind {
                LevelKind::Local => local::decompose(&now, level, plan.d, mask, quantiser, open_loop),
                LevelKind::Global => global::decompose(&now, level, quantiser, open_loop),
                LevelKind::Coarsest => (difference(&now, level, quantiser), Vec::new()),
            };
            out.push(symbols);
            now = coarse.into();
        }
        Ok(out)
    }

    fn histograms(
        &mut self,
        plan: &ChunkPlan,
        symbols: &Self::Symbols,
        mask: &Option<&Mask>,
        index: usize,
    ) -> Result<[Histogram; CLASSES]> {
        Ok(encode::histograms(&symbols[index], &plan.levels[index], plan.d, mask.filter(|_| index == 0)))
    }

    fn encode(
        &mut self,
        plan: &ChunkPlan,
        symbols: &Self::Symbols,
        mask: &Option<&Mask>,
        index: usize,
        books: &[Codebook],
    ) -> Result<Stream> {
        Ok(encode::encode(&symbols[index], &plan.levels[index], plan.d, mask.filter(|_| index == 0), books))
    }

    fn stream(&mut self, coded: Stream) -> Result<Stream> {
        Ok(coded)
    }

    fn decode(
        &mut self,
        plan: &ChunkPlan,
        mask: &Option<&Mask>,
        books: &[Codebook],
        streams: &[(Vec<u16>, &[u8])],
    ) -> Result<Self::Symbols> {
        let levels = plan.levels.iter().zip(streams).zip(books.chunks(CLASSES)).enumerate();
        levels
            .map(|(index, ((level, (lengths, payload)), books))| {
                Segments::new(lengths, payload, level, books)?.decode_all(level, plan.d, mask.filter(|_| index == 0))
            })
            .collect()
    }

    fn recompose(&mut self, plan: &ChunkPlan, symbols: &Self::Symbols, quantisers: &[Quantiser<T>]) -> Result<Cow<'static, [T]>> {
        Ok(recompose_from(0, plan, symbols, quantisers).into())
    }

    fn store(&mut self, values: Cow<'static, [T]>, out: &mut [T]) -> Result<()> {
        out.copy_from_slice(&values);
        Ok(())
    }

    /// Checks the tiles of a local finest level as they are recomposed.
    fn check(
        &mut self,
        plan: &ChunkPlan,
        symbols: &Self::Symbols,
        quantisers: &[Quantiser<T>],
        values: &Cow<'_, [T]>,
        mask: &Option<&Mask>,
        bound: f64,
    ) -> Result<Verdict> {
        let level = &plan.levels[0];
        let new_checker = || Checker::new(*mask, bound);
        if level.kind == LevelKind::Local {
            let coarse = recompose_from(1, plan, symbols, quantisers);
            return Ok(local::recompose_and_check(&symbols[0], &coarse, level, plan.d, &quantisers[0], values, new_checker));
        }
        let decoded = recompose_from(0, plan, symbols, quantisers);
        let blocks = values.par_chunks(BLOCK).zip(decoded.par_chunks(BLOCK)).enumerate();
        let checkers = blocks.map(|(block, (values, decoded))| {
            let mut checker = new_checker();
            check_run(&mut checker, block * BLOCK, values, decoded);
            checker
        });
        Ok(check::verdict(checkers.collect(), values))
    }

    fn verdict(&mut self, check: Verdict, _: &Cow<'_, [T]>) -> Result<Verdict> {
        Ok(check)
    }

    /// Recomposes the tiles of local levels as they are decoded.
    fn reconstruct(
        &mut self,
        plan: &ChunkPlan,
        mask: &Option<&Mask>,
        books: &[Codebook],
        streams: &[(Vec<u16>, &[u8])],
        quantisers: &[Quantiser<T>],
        out: &mut [T],
    ) -> Result<()> {
        let mut now = Vec::new();
        let levels = plan.levels.iter().zip(streams).zip(books.chunks(CLASSES)).zip(quantisers).enumerate();
        for (index, (((level, (lengths, payload)), books), quantiser)) in levels.rev() {
            let mask = mask.filter(|_| index == 0);
            let segments = Segments::new(lengths, payload, level, books)?;
            now = match level.kind {
                LevelKind::Coarsest => accumulate(&segments.decode_all(level, plan.d, mask)?, level, quantiser),
                LevelKind::Global => global::recompose(&segments.decode_all(level, plan.d, mask)?, now, level, quantiser),
                LevelKind::Local if index == 0 => {
                    return local::decode_and_recompose(&segments, &now, level, plan.d, mask, quantiser, out);
                }
                LevelKind::Local => {
                    let mut values = vec![T::ZERO; count(level.dims) as usize];
                    local::decode_and_recompose(&segments, &now, level, plan.d, mask, quantiser, &mut values)?;
                    values
                }
            };
        }
        out.copy_from_slice(&now);
        Ok(())
    }
}

/// The array that level `first` started from.
fn recompose_from<T: Real>(first: usize, plan: &ChunkPlan, symbols: &[Vec<T::Symbol>], quantisers: &[Quantiser<T>]) -> Vec<T> {
    let mut now = Vec::new();
    for ((level, symbols), quantiser) in plan.levels.iter().zip(symbols).zip(quantisers).skip(first).rev() {
        now = match level.kind {
            LevelKind::Coarsest => accumulate(symbols, level, quantiser),
            LevelKind::Global => global::recompose(symbols, now, level, quantiser),
            LevelKind::Local => local::recompose(symbols, &now, level, plan.d, quantiser),
        };
    }
    now
}

/// The coarsest array's symbols: quantised, each less the one before it in its segment.
fn difference<T: Real>(values: &[T], level: &Level, quantiser: &Quantiser<T>) -> Vec<T::Symbol> {
    let mut symbols = vec![T::Symbol::default(); level.places];
    symbols.par_chunks_mut(level.segment).zip(values.par_chunks(level.segment)).with_min_len(16).for_each(|(symbols, values)| {
        let mut before = 0;
        for (symbol, &value) in symbols.iter_mut().zip(values) {
            let now = quantiser.quantise_coarsest(value).to_i64();
            *symbol = T::Symbol::from_i64(now - before);
            before = now;
        }
    });
    symbols
}

/// The inverse of [`difference`].
fn accumulate<T: Real>(symbols: &[T::Symbol], level: &Level, quantiser: &Quantiser<T>) -> Vec<T> {
    let mut values = vec![T::ZERO; level.places];
    values.par_chunks_mut(level.segment).zip(symbols.par_chunks(level.segment)).with_min_len(16).for_each(|(values, symbols)| {
        let mut sum = 0i64;
        for (value, symbol) in values.iter_mut().zip(symbols) {
            // Damaged archives may overflow; what they decode to does not matter.
            sum = sum.wrapping_add(symbol.to_i64());
            *value = quantiser.coarsest_value(T::Symbol::from_i64(sum));
        }
    });
    values
}
