//! Levels on the device, forward and back.

use bmgard_core::Real;
use std::sync::Arc;

use bmgard_core::axis::{SOLVE_BLOCK, SOLVE_OVERLAP, coarse_len};
use bmgard_core::tile::Quantiser;
use bytemuck::Pod;
use cust::memory::{DeviceCopy, DevicePointer};

use super::event::Event;
use super::memory::Buffer;
use super::{Cuda, queue};
use crate::backend::cpu::AxisOperator;
use crate::plan::{ChunkPlan, Dims, Level, LevelKind, count};
use crate::special::Mask;
use crate::{Error, Result};

/// A type that the kernels exist for.
pub trait DeviceValue: Real<Symbol: Pod + DeviceCopy> + Pod + DeviceCopy {
    /// The end of the names of its kernels.
    const SUFFIX: &'static str;
    /// Symbols that a warp of the local levels' forward kernels stages in shared memory.
    const STAGED: u32;
    /// How symbols may lie in memory: in full, and in half the width.
    const STORED: [Stored; 2];
}

/// How symbols lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The end of the names of the kernels that code and decode them.
    pub(super) name: &'static str,
    /// Bytes of a symbol.
    pub(super) bytes: usize,
    /// Bits of a symbol.
    pub(super) bits: u32,
    /// Threads of a block that codes them.
    pub(super) threads: u32,
    /// Threads of a block that decodes them: two fill a multiprocessor of 228 KiB of shared memory, or, where a block can have no more
    /// than 99 KiB, fit there.
    pub(super) decode_threads: [u32; 2],
    /// Bits of a coded symbol that segments have room for at first, and the most that they may need: an escaped code and the extra bits
    /// of the greatest magnitude.
    pub(super) room: [u32; 2],
}

const I16: Stored = Stored { name: "i16", bytes: 2, bits: 16, threads: 256, decode_threads: [640, 512], room: [14, 20 + 13] };
const I32: Stored = Stored { name: "i32", bytes: 4, bits: 32, threads: 128, decode_threads: [256, 256], room: [28, 20 + 30] };
const I64: Stored = Stored { name: "i64", bytes: 8, bits: 64, threads: 64, decode_threads: [128, 128], room: [56, 20 + 50] };

impl DeviceValue for f32 {
    const SUFFIX: &'static str = "f32";
    const STAGED: u32 = 4 * 392;
    const STORED: [Stored; 2] = [I32, I16];
}

impl DeviceValue for f64 {
    const SUFFIX: &'static str = "f64";
    const STAGED: u32 = 0;
    const STORED: [Stored; 2] = [I64, I32];
}

/// A level's symbols.
pub(crate) struct LevelSymbols<T> {
    pub(super) data: Buffer<u8>,
    pub(super) stored: Stored,
    /// The correction that they give, where it is known: of a global level.
    correction: Option<Buffer<T>>,
    /// When they are there.
    pub(super) ready: Event,
}

impl<T: DeviceValue> LevelSymbols<T> {
    /// Room for a level's symbols, in half their width if they are known to fit.
    pub(super) fn new(cuda: &Cuda, level: &Level, narrow: bool) -> Result<Self> {
        check_size(level)?;
        let stored = T::STORED[usize::from(narrow)];
        Ok(Self { data: cuda.buffer(level.places * stored.bytes)?, stored, correction: None, ready: Event::new()? })
    }

    /// The end of the names of the kernels that turn values into them and back.
    fn suffix(&self) -> String {
        format!("{}_{}", T::SUFFIX, self.stored.name)
    }

    pub(super) fn pointer(&self) -> DevicePointer<u8> {
        self.data.pointer()
    }
}

/// Whether all symbols of each level surely fit half their width, from the range of the values. Details are at most as large as the
/// range of the array that they come from; a level's correction widens that range, a local one's by no more than the sum of the absolute
/// weights of a tile's details says (5.27 times the greatest detail in 3-D).
pub(super) fn narrow_levels<T: DeviceValue>(plan: &ChunkPlan, quantisers: &[Quantiser<T>], range: f64) -> Vec<bool> {
    /// Bounds of what a level does to the range.
    const LOCAL: f64 = 12.0;
    const GLOBAL: f64 = 64.0;
    let limit = f64::from(T::STORED[1].bits - 1).exp2();
    let mut range = range;
    let mut narrow = Vec::with_capacity(plan.levels.len());
    for (level, quantiser) in plan.levels.iter().zip(quantisers) {
        narrow.push(range / quantiser.step.to_f64() < 0.99 * limit - 2.0);
        range *= if level.kind == LevelKind::Local { LOCAL } else { GLOBAL };
    }
    narrow
}

/// `kernels_gpu::local::LocalLevel`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct LocalLevel {
    dims: [u32; 3],
    tiles: [u32; 3],
}

/// `kernels_gpu::global::GlobalLevel`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct GlobalLevel {
    dims: [u32; 3],
    coarse: [u32; 3],
}

/// `kernels_gpu::global::Sweep`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Sweep {
    n: u32,
    coarse: u32,
    inner: u32,
    outer: u32,
}

/// Threads of a block, its warps and the tiles of a warp: as in `kernels_gpu::local`.
const LOCAL_BLOCK: u32 = 128;
const WARPS: u32 = LOCAL_BLOCK / 32;
const TILES: u32 = 4;
/// Values of shared memory that a warp of a local level's inverse kernels needs for rows.
const ROWS: u32 = 25 * 32;
/// Threads of a block of `kernels_gpu::global`.
const BLOCK: u32 = 256;
/// Threads of a block of its kernels that work on rows, and of those that solve.
const ROW_BLOCK: u32 = 128;
const SOLVE_THREADS: u32 = 128;
/// Nodes in a segment of the coarsest array.
const SEGMENT: u32 = 1024;
/// Values that a block of `kernels_gpu::field` checks.
const CHECKED: u32 = 1024;

/// Values of shared memory in which a warp stashes those of its tiles, in `d` dimensions.
fn stashed(d: usize) -> u32 {
    32 * 8u32.pow(d as u32 - 1)
}

/// Bytes of shared memory of a block of a local level's kernels that take values apart.
fn decompose_shared<T: DeviceValue>(d: usize, stored: Stored) -> u32 {
    (stashed(d) * size_of::<T>() as u32 + T::STAGED * stored.bytes as u32) * WARPS
}

/// Bytes of shared memory of a block of those that check.
fn check_shared<T: DeviceValue>(d: usize) -> u32 {
    (ROWS + stashed(d)) * size_of::<T>() as u32 * WARPS
}

/// The local levels' kernels that may need more shared memory than a block has unless it is asked for, and how many bytes: less than 99
/// KiB, which all devices have.
pub(super) fn large_local_kernels<T: DeviceValue>() -> impl Iterator<Item = (String, u32)> {
    T::STORED.into_iter().flat_map(|stored| {
        let suffix = format!("3d_{}_{}", T::SUFFIX, stored.name);
        [(format!("decompose_local_{suffix}"), decompose_shared::<T>(3, stored)), (format!("check_local_{suffix}"), check_shared::<T>(3))]
    })
}

/// What decoded values are compared with.
#[derive(Clone, Copy)]
pub(super) struct Original<'a, T> {
    pub(super) values: &'a Buffer<T>,
    /// Flags of those that take no part.
    pub(super) mask: Option<&'a Buffer<u32>>,
    pub(super) bound: f64,
}

/// The dimensions as the kernels have them.
pub(super) fn narrow(dims: Dims) -> [u32; 3] {
    dims.map(|n| n as u32)
}

/// # Errors
/// [`Error::Device`] where a level is too large for the kernels' 32-bit indices.
pub(super) fn check_size(level: &Level) -> Result<()> {
    let largest = [count(level.dims), count(level.coarse), level.places as u64].into_iter().max().unwrap_or(0);
    if largest < (1 << 31) - (1 << 12) {
        return Ok(());
    }
    Err(Error::Device(format!("a chunk of {largest} nodes is too large for the kernels: at most 2^31 (use smaller chunks)")))
}

/// Rows (z, y) of a level's array.
fn rows(level: &Level) -> u32 {
    (level.dims[0] * level.dims[1]) as u32
}

impl Cuda {
    fn local_launch(level: &Level) -> Result<(LocalLevel, u32)> {
        check_size(level)?;
        let [dims, tiles] = [level.dims, level.tiles].map(narrow);
        let warps = u64::from(tiles[0]) * u64::from(tiles[1]) * u64::from(tiles[2].div_ceil(TILES));
        Ok((LocalLevel { dims, tiles }, warps.div_ceil(u64::from(WARPS)) as u32))
    }

    /// Queues the forward local level: fills `symbols` and `coarse`.
    pub(super) fn decompose_local<T: DeviceValue>(
        &self,
        level: &Level,
        d: usize,
        values: &Buffer<T>,
        mask: Option<&Buffer<u32>>,
        quantiser: Quantiser<T>,
        open_loop: bool,
        symbols: &LevelSymbols<T>,
    ) -> Result<Buffer<T>> {
        let (shape, blocks) = Self::local_launch(level)?;
        let coarse = self.buffer(count(level.coarse) as usize)?;
        let shared = decompose_shared::<T>(d, symbols.stored);
        queue!(
            self,
            format!("decompose_local_{d}d_{}", symbols.suffix()),
            (blocks, LOCAL_BLOCK, shared),
            (
                shape,
                values.pointer(),
                mask.map_or(DevicePointer::null(), Buffer::pointer),
                quantiser.step,
                quantiser.inverse,
                u32::from(open_loop),
                symbols.pointer(),
                coarse.pointer()
            )
        )?;
        Ok(coarse)
    }

    /// Queues the inverse local level.
    pub(super) fn recompose_local<T: DeviceValue>(
        &self,
        level: &Level,
        d: usize,
        symbols: &LevelSymbols<T>,
        coarse: &Buffer<T>,
        quantiser: Quantiser<T>,
        values: &Buffer<T>,
    ) -> Result<()> {
        let (shape, blocks) = Self::local_launch(level)?;
        queue!(
            self,
            format!("recompose_local_{d}d_{}", symbols.suffix()),
            (blocks, LOCAL_BLOCK, ROWS * WARPS * size_of::<T>() as u32),
            (shape, symbols.pointer(), coarse.pointer(), quantiser.step, values.pointer())
        )
    }

    /// Queues the inverse local level whose values are compared with the original ones: sets the flags of those that break the bound,
    /// and raises the greatest error of the others.
    pub(super) fn check_local<T: DeviceValue>(
        &self,
        level: &Level,
        d: usize,
        symbols: &LevelSymbols<T>,
        coarse: &Buffer<T>,
        quantiser: Quantiser<T>,
        original: &Original<'_, T>,
        broken: &Buffer<u32>,
        worst: &Buffer<u64>,
    ) -> Result<()> {
        let (shape, blocks) = Self::local_launch(level)?;
        let Original { values, mask, bound } = *original;
        queue!(
            self,
            format!("check_local_{d}d_{}", symbols.suffix()),
            (blocks, LOCAL_BLOCK, check_shared::<T>(d)),
            (
                shape,
                symbols.pointer(),
                coarse.pointer(),
                quantiser.step,
                values.pointer(),
                mask.map_or(DevicePointer::null(), Buffer::pointer),
                bound,
                broken.pointer(),
                worst.pointer()
            )
        )
    }

    /// Queues the same comparison for values that were decoded.
    pub(super) fn check_values<T: DeviceValue>(
        &self,
        decoded: &Buffer<T>,
        original: &Original<'_, T>,
        broken: &Buffer<u32>,
        worst: &Buffer<u64>,
    ) -> Result<()> {
        let Original { values, mask, bound } = *original;
        let n = values.len() as u32;
        queue!(
            self,
            format!("check_{}", T::SUFFIX),
            (n.div_ceil(CHECKED), BLOCK, 0),
            (
                n,
                values.pointer(),
                decoded.pointer(),
                mask.map_or(DevicePointer::null(), Buffer::pointer),
                bound,
                broken.pointer(),
                worst.pointer()
            )
        )
    }

    /// Queues the forward global level.
    pub(super) fn decompose_global<T: DeviceValue>(
        &self,
        level: &Level,
        values: &Buffer<T>,
        quantiser: Quantiser<T>,
        open_loop: bool,
        symbols: &mut LevelSymbols<T>,
    ) -> Result<Buffer<T>> {
        check_size(level)?;
        let shape = GlobalLevel { dims: narrow(level.dims), coarse: narrow(level.coarse) };
        let coarse_nodes = count(level.coarse) as u32;
        let details: Option<Buffer<T>> = if open_loop { Some(self.buffer(level.places)?) } else { None };
        queue!(
            self,
            format!("quantise_global_{}", symbols.suffix()),
            (rows(level).div_ceil(ROW_BLOCK / 32), ROW_BLOCK, 0),
            (
                shape,
                values.pointer(),
                quantiser.step,
                quantiser.inverse,
                u32::from(open_loop),
                symbols.pointer(),
                details.as_ref().map_or(DevicePointer::null(), Buffer::pointer)
            )
        )?;
        symbols.ready.record(&self.stream)?;
        let correction = self.correction(details, symbols, quantiser, level.dims)?;
        let coarse = self.buffer(coarse_nodes as usize)?;
        queue!(
            self,
            format!("correct_global_{}", T::SUFFIX),
            (coarse_nodes.div_ceil(BLOCK), BLOCK, 0),
            (shape, values.pointer(), correction.pointer(), coarse.pointer())
        )?;
        symbols.correction = (!open_loop).then_some(correction);
        Ok(coarse)
    }

    /// Queues the inverse global level; the coarse array is overwritten.
    pub(super) fn recompose_global<T: DeviceValue>(
        &self,
        level: &Level,
        symbols: &LevelSymbols<T>,
        coarse: &Buffer<T>,
        quantiser: Quantiser<T>,
        values: &Buffer<T>,
    ) -> Result<()> {
        check_size(level)?;
        let shape = GlobalLevel { dims: narrow(level.dims), coarse: narrow(level.coarse) };
        let coarse_nodes = count(level.coarse) as u32;
        let computed = if symbols.correction.is_none() { Some(self.correction(None, symbols, quantiser, level.dims)?) } else { None };
        let Some(correction) = symbols.correction.as_ref().or(computed.as_ref()) else { return Ok(()) };
        queue!(
            self,
            format!("uncorrect_{}", T::SUFFIX),
            (coarse_nodes.div_ceil(BLOCK), BLOCK, 0),
            (coarse_nodes, correction.pointer(), coarse.pointer())
        )?;
        queue!(
            self,
            format!("recompose_global_{}", symbols.suffix()),
            (rows(level).div_ceil(ROW_BLOCK / 32), ROW_BLOCK, 0),
            (shape, symbols.pointer(), coarse.pointer(), quantiser.step, values.pointer())
        )
    }

    /// Queues the correction on the coarse grid of coefficients on the fine one: of `details`, else of what the symbols stand for.
    fn correction<T: DeviceValue>(
        &self,
        details: Option<Buffer<T>>,
        symbols: &LevelSymbols<T>,
        quantiser: Quantiser<T>,
        dims: Dims,
    ) -> Result<Buffer<T>> {
        let mut now = details;
        let mut dims = dims;
        for axis in 0..3 {
            let Some(tables) = self.tables::<T>(dims[axis])? else { continue };
            let coarse = coarse_len(dims[axis]);
            let (inner, outer): (u64, u64) = (dims[axis + 1..].iter().product(), dims[..axis].iter().product());
            let blocks = coarse.div_ceil(SOLVE_BLOCK);
            let next: Buffer<T> = self.buffer((outer * coarse * inner) as usize)?;
            let at = |values: u64| tables.pointer().cast::<T>().wrapping_offset((values * coarse) as isize);
            let shape = Sweep { n: dims[axis] as u32, coarse: coarse as u32, inner: inner as u32, outer: outer as u32 };
            let columns = (128 / size_of::<T>()) as u64;
            let (kind, grid) =
                if inner > 1 { ("rows", outer * blocks * inner.div_ceil(columns)) } else { ("lines", outer.div_ceil(columns) * blocks) };
            let rows = coarse.min(SOLVE_BLOCK + 2 * SOLVE_OVERLAP);
            let launch = (grid as u32, SOLVE_THREADS, (rows * (columns + 1)) as u32 * size_of::<T>() as u32);
            match &now {
                Some(now) => queue!(
                    self,
                    format!("solve_{kind}_{}", T::SUFFIX),
                    launch,
                    (shape, at(0), at(5), at(6), now.pointer(), next.pointer())
                )?,
                None => queue!(
                    self,
                    format!("solve_{kind}_symbols_{}", symbols.suffix()),
                    launch,
                    (shape, at(0), at(5), at(6), symbols.pointer(), quantiser.step, next.pointer())
                )?,
            }
            dims[axis] = coarse;
            now = Some(next);
        }
        now.ok_or_else(|| crate::Error::Device("a global level without a dimension that coarsens".into()))
    }

    /// A dimension's weights, factors and reciprocals, one after the other, on the device, where they stay: `None` where it does not
    /// coarsen.
    fn tables<T: DeviceValue>(&self, n: u64) -> Result<Option<Arc<Buffer<u64>>>> {
        /// Dimensions that are kept.
        const KEPT: usize = 64;
        let key = (n, size_of::<T>());
        let mut kept = self.tables.borrow_mut();
        if let Some((_, tables)) = kept.iter().find(|(other, _)| *other == key) {
            return Ok(Some(Arc::clone(tables)));
        }
        let Some(operator) = AxisOperator::<T>::new(n) else { return Ok(None) };
        let (weights, lower, inverse) = operator.tables();
        let values: Vec<T> = [bytemuck::cast_slice(weights), lower, inverse].concat();
        let mut bytes = bytemuck::cast_slice::<T, u8>(&values).to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let tables = Arc::new(self.upload(&bytemuck::pod_collect_to_vec::<u8, u64>(&bytes))?);
        if kept.len() == KEPT {
            // Those that are in use stay until they no longer are.
            kept.clear();
        }
        kept.push((key, Arc::clone(&tables)));
        Ok(Some(tables))
    }

    /// Queues the coarsest array's symbols.
    pub(super) fn difference<T: DeviceValue>(
        &self,
        level: &Level,
        values: &Buffer<T>,
        quantiser: Quantiser<T>,
        symbols: &LevelSymbols<T>,
    ) -> Result<()> {
        check_size(level)?;
        let nodes = level.places as u32;
        queue!(
            self,
            format!("difference_{}", symbols.suffix()),
            (nodes.div_ceil(BLOCK), BLOCK, 0),
            (nodes, values.pointer(), quantiser.step, quantiser.inverse, symbols.pointer())
        )
    }

    /// Queues the coarsest array.
    pub(super) fn accumulate<T: DeviceValue>(
        &self,
        level: &Level,
        symbols: &LevelSymbols<T>,
        quantiser: Quantiser<T>,
        values: &Buffer<T>,
    ) -> Result<()> {
        debug_assert_eq!(level.kind, LevelKind::Coarsest);
        check_size(level)?;
        let nodes = level.places as u32;
        queue!(
            self,
            format!("accumulate_{}", symbols.suffix()),
            (nodes.div_ceil(SEGMENT).div_ceil(BLOCK / 32), BLOCK, 0),
            (nodes, symbols.pointer(), quantiser.step, values.pointer())
        )
    }

    /// Queues what [`Cuda::decompose_local`] does in three dimensions, in two kernels: one that decomposes, one that quantises.
    /// `coefficients` has room for the level's details.
    pub(super) fn decompose_local_apart<T: DeviceValue>(
        &self,
        level: &Level,
        values: &Buffer<T>,
        mask: Option<&Buffer<u32>>,
        coefficients: &Buffer<T>,
        coarse: &Buffer<T>,
    ) -> Result<()> {
        let (shape, blocks) = Self::local_launch(level)?;
        queue!(
            self,
            format!("decompose_local_apart_{}", T::SUFFIX),
            (blocks, LOCAL_BLOCK, stashed(3) * size_of::<T>() as u32 * WARPS),
            (shape, values.pointer(), mask.map_or(DevicePointer::null(), Buffer::pointer), coefficients.pointer(), coarse.pointer())
        )
    }

    /// Queues the second of those kernels; `coarse` is corrected.
    pub(super) fn quantise_local<T: DeviceValue>(
        &self,
        level: &Level,
        coefficients: &Buffer<T>,
        quantiser: Quantiser<T>,
        open_loop: bool,
        symbols: &LevelSymbols<T>,
        coarse: &Buffer<T>,
    ) -> Result<()> {
        let (shape, blocks) = Self::local_launch(level)?;
        queue!(
            self,
            format!("quantise_local_{}", symbols.suffix()),
            (blocks, LOCAL_BLOCK, (ROWS * size_of::<T>() as u32 + T::STAGED * symbols.stored.bytes as u32) * WARPS),
            (shape, coefficients.pointer(), quantiser.step, quantiser.inverse, u32::from(open_loop), symbols.pointer(), coarse.pointer())
        )
    }

    /// Queues the first of two kernels that do what [`Cuda::recompose_local`] does.
    pub(super) fn dequantise_local<T: DeviceValue>(
        &self,
        level: &Level,
        symbols: &LevelSymbols<T>,
        quantiser: Quantiser<T>,
        coefficients: &Buffer<T>,
    ) -> Result<()> {
        let n = level.places as u32;
        queue!(
            self,
            format!("dequantise_local_{}", symbols.suffix()),
            (n.div_ceil(BLOCK), BLOCK, 0),
            (n, symbols.pointer(), quantiser.step, coefficients.pointer())
        )
    }

    /// Queues the second of them.
    pub(super) fn recompose_local_apart<T: DeviceValue>(
        &self,
        level: &Level,
        coefficients: &Buffer<T>,
        coarse: &Buffer<T>,
        values: &Buffer<T>,
    ) -> Result<()> {
        let (shape, blocks) = Self::local_launch(level)?;
        queue!(
            self,
            format!("recompose_local_apart_{}", T::SUFFIX),
            (blocks, LOCAL_BLOCK, ROWS * WARPS * size_of::<T>() as u32),
            (shape, coefficients.pointer(), coarse.pointer(), values.pointer())
        )
    }

    /// A three-dimensional local level of the host's values, forward and then inverse, by fused kernels or by those whose quantiser is
    /// apart.
    #[allow(clippy::type_complexity, reason = "symbols and coarse array, values")]
    pub(crate) fn local_level<T: DeviceValue>(
        &self,
        level: &Level,
        values: &[T],
        mask: Option<&Mask>,
        quantiser: Quantiser<T>,
        open_loop: bool,
        apart: bool,
    ) -> Result<((Vec<T::Symbol>, Vec<T>), Vec<T>)> {
        self.enter()?;
        let values = self.upload(values)?;
        let mask = mask.map(|mask| self.upload(mask.words_u32())).transpose()?;
        let symbols = LevelSymbols::new(self, level, false)?;
        let decoded = self.buffer(values.len())?;
        let coarse;
        if apart {
            let coefficients = self.buffer(level.places)?;
            coarse = self.buffer(count(level.coarse) as usize)?;
            self.decompose_local_apart(level, &values, mask.as_ref(), &coefficients, &coarse)?;
            self.quantise_local(level, &coefficients, quantiser, open_loop, &symbols, &coarse)?;
            self.dequantise_local(level, &symbols, quantiser, &coefficients)?;
            self.recompose_local_apart(level, &coefficients, &coarse, &decoded)?;
        } else {
            coarse = self.decompose_local(level, 3, &values, mask.as_ref(), quantiser, open_loop, &symbols)?;
            self.recompose_local(level, 3, &symbols, &coarse, quantiser, &decoded)?;
        }
        let read = |buffer: &Buffer<T>| buffer.read(buffer.len(), &self.stream);
        let bytes = symbols.data.read(symbols.data.len(), &self.stream)?;
        Ok(((bytemuck::pod_collect_to_vec(&bytes), read(&coarse)?), read(&decoded)?))
    }

    /// An array of unspecified values.
    pub(super) fn buffer<S: Pod + DeviceCopy>(&self, len: usize) -> Result<Buffer<S>> {
        Buffer::new(&self.pool, len)
    }

    /// A copy of an array of the host.
    pub(super) fn upload<S: Pod + DeviceCopy>(&self, values: &[S]) -> Result<Buffer<S>> {
        let buffer: Buffer<S> = self.buffer(values.len())?;
        self.send(bytemuck::cast_slice(values), buffer.pointer().as_raw(), &self.stream)?;
        Ok(buffer)
    }
}
