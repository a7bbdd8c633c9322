//! Levels on the device, forward and back.

use bmgard_core::Real;
use bmgard_core::axis::{SOLVE_BLOCK, SOLVE_OVERLAP};
use bmgard_core::tile::Quantiser;
use bytemuck::Pod;
use cust::memory::{DeviceCopy, DevicePointer};

use super::memory::Buffer;
use super::{Cuda, queue};
use crate::backend::cpu::AxisOperator;
use crate::plan::{Dims, Level, LevelKind, count};
use crate::special::Mask;
use crate::{Error, Result};

/// A type that the kernels exist for.
pub trait DeviceValue: Real<Symbol: Pod + DeviceCopy> + Pod + DeviceCopy {
    /// The end of the names of its kernels.
    const SUFFIX: &'static str;
    /// Symbols that a warp of the local levels' forward kernels stages in shared memory.
    const STAGED: u32;
    /// The most bits of a coded symbol: a code, and the extra bits of the greatest magnitude, in the coarsest array and elsewhere.
    const SYMBOL_BITS: [u32; 2];
}

impl DeviceValue for f32 {
    const SUFFIX: &'static str = "f32";
    const STAGED: u32 = 4 * 392;
    const SYMBOL_BITS: [u32; 2] = [12 + 30, 12 + 21];
}

impl DeviceValue for f64 {
    const SUFFIX: &'static str = "f64";
    const STAGED: u32 = 0;
    const SYMBOL_BITS: [u32; 2] = [12 + 50, 12 + 49];
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
    rows: u32,
}

/// Threads of a block, its warps and the tiles of a warp: as in `kernels_gpu::local`.
const LOCAL_BLOCK: u32 = 128;
const WARPS: u32 = LOCAL_BLOCK / 32;
const TILES: u32 = 4;
/// Values of shared memory that a warp of a local level's kernel needs.
const ROWS: u32 = 25 * 32;
/// Threads of a block of `kernels_gpu::global`.
const BLOCK: u32 = 256;
/// Threads of a block of its kernels that work on rows, and of those that work on lines.
const ROW_BLOCK: u32 = 128;
const LINE_BLOCK: u32 = 64;
/// Nodes in a segment of the coarsest array.
const SEGMENT: u32 = 1024;

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
    ) -> Result<(Buffer<T::Symbol>, Buffer<T>)> {
        let (shape, blocks) = Self::local_launch(level)?;
        let (symbols, coarse) = (self.buffer(level.places)?, self.buffer(count(level.coarse) as usize)?);
        let shared = (ROWS + T::STAGED) * WARPS * size_of::<T>() as u32;
        queue!(
            self,
            format!("decompose_local_{d}d_{}", T::SUFFIX),
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
        Ok((symbols, coarse))
    }

    /// Queues the inverse local level.
    pub(super) fn recompose_local<T: DeviceValue>(
        &self,
        level: &Level,
        d: usize,
        symbols: &Buffer<T::Symbol>,
        coarse: &Buffer<T>,
        quantiser: Quantiser<T>,
    ) -> Result<Buffer<T>> {
        let (shape, blocks) = Self::local_launch(level)?;
        let values = self.buffer(count(level.dims) as usize)?;
        queue!(
            self,
            format!("recompose_local_{d}d_{}", T::SUFFIX),
            (blocks, LOCAL_BLOCK, ROWS * WARPS * size_of::<T>() as u32),
            (shape, symbols.pointer(), coarse.pointer(), quantiser.step, values.pointer())
        )?;
        Ok(values)
    }

    /// Queues the forward global level.
    pub(super) fn decompose_global<T: DeviceValue>(
        &self,
        level: &Level,
        values: &Buffer<T>,
        quantiser: Quantiser<T>,
        open_loop: bool,
    ) -> Result<(Buffer<T::Symbol>, Buffer<T>)> {
        check_size(level)?;
        let shape = GlobalLevel { dims: narrow(level.dims), coarse: narrow(level.coarse) };
        let coarse_nodes = count(level.coarse) as u32;
        let symbols: Buffer<T::Symbol> = self.buffer(level.places)?;
        let details: Option<Buffer<T>> = if open_loop { Some(self.buffer(level.places)?) } else { None };
        queue!(
            self,
            format!("quantise_global_{}", T::SUFFIX),
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
        let correction = self.correction(details, &symbols, quantiser, level.dims)?;
        let coarse = self.buffer(coarse_nodes as usize)?;
        queue!(
            self,
            format!("correct_global_{}", T::SUFFIX),
            (coarse_nodes.div_ceil(BLOCK), BLOCK, 0),
            (shape, values.pointer(), correction.pointer(), coarse.pointer())
        )?;
        Ok((symbols, coarse))
    }

    /// Queues the inverse global level; the coarse array is overwritten.
    pub(super) fn recompose_global<T: DeviceValue>(
        &self,
        level: &Level,
        symbols: &Buffer<T::Symbol>,
        coarse: &Buffer<T>,
        quantiser: Quantiser<T>,
    ) -> Result<Buffer<T>> {
        check_size(level)?;
        let shape = GlobalLevel { dims: narrow(level.dims), coarse: narrow(level.coarse) };
        let coarse_nodes = count(level.coarse) as u32;
        let correction = self.correction(None, symbols, quantiser, level.dims)?;
        queue!(
            self,
            format!("uncorrect_{}", T::SUFFIX),
            (coarse_nodes.div_ceil(BLOCK), BLOCK, 0),
            (coarse_nodes, correction.pointer(), coarse.pointer())
        )?;
        let values = self.buffer(level.places)?;
        queue!(
            self,
            format!("recompose_global_{}", T::SUFFIX),
            (rows(level).div_ceil(ROW_BLOCK / 32), ROW_BLOCK, 0),
            (shape, symbols.pointer(), coarse.pointer(), quantiser.step, values.pointer())
        )?;
        Ok(values)
    }

    /// Queues the correction on the coarse grid of coefficients on the fine one: of `details`, else of what the symbols stand for.
    fn correction<T: DeviceValue>(
        &self,
        details: Option<Buffer<T>>,
        symbols: &Buffer<T::Symbol>,
        quantiser: Quantiser<T>,
        dims: Dims,
    ) -> Result<Buffer<T>> {
        let mut now = details;
        let mut dims = dims;
        for axis in 0..3 {
            let Some(operator) = AxisOperator::<T>::new(dims[axis]) else { continue };
            let coarse = operator.coarse() as u64;
            let (inner, outer): (u64, u64) = (dims[axis + 1..].iter().product(), dims[..axis].iter().product());
            let blocks = coarse.div_ceil(SOLVE_BLOCK);
            let rows = if blocks == 1 { coarse } else { SOLVE_BLOCK + 2 * SOLVE_OVERLAP };
            let next: Buffer<T> = self.buffer((outer * coarse * inner) as usize)?;
            // A sweep of columns may work in place, where blocks do not overlap.
            let in_place = blocks == 1 && inner > 1;
            let swept: Option<Buffer<T>> = if in_place { None } else { Some(self.buffer((outer * blocks * rows * inner) as usize)?) };
            let swept = swept.as_ref().unwrap_or(&next).pointer();
            let tables = self.tables(&operator)?;
            let at = |values: u64| tables.pointer().wrapping_offset((values * coarse) as isize);
            let shape = Sweep { n: dims[axis] as u32, coarse: coarse as u32, inner: inner as u32, outer: outer as u32, rows: rows as u32 };
            let (kind, launch) = if inner > 1 {
                ("rows", ((outer * blocks * inner).div_ceil(u64::from(BLOCK)) as u32, BLOCK, 0))
            } else {
                ("lines", ((outer.div_ceil(32) * blocks).div_ceil(u64::from(LINE_BLOCK / 32)) as u32, LINE_BLOCK, 0))
            };
            match &now {
                Some(now) => queue!(
                    self,
                    format!("sweep_{kind}_{}", T::SUFFIX),
                    launch,
                    (shape, at(0), at(5), at(6), now.pointer(), swept, next.pointer())
                )?,
                None => queue!(
                    self,
                    format!("sweep_{kind}_symbols_{}", T::SUFFIX),
                    launch,
                    (shape, at(0), at(5), at(6), symbols.pointer(), quantiser.step, swept, next.pointer())
                )?,
            }
            dims[axis] = coarse;
            now = Some(next);
        }
        now.ok_or_else(|| crate::Error::Device("a global level without a dimension that coarsens".into()))
    }

    /// A dimension's weights, factors and reciprocals, one after the other, on the device.
    fn tables<T: DeviceValue>(&self, operator: &AxisOperator<T>) -> Result<Buffer<T>> {
        let (weights, lower, inverse) = operator.tables();
        self.upload(&[bytemuck::cast_slice(weights), lower, inverse].concat())
    }

    /// Queues the coarsest array's symbols.
    pub(super) fn difference<T: DeviceValue>(
        &self,
        level: &Level,
        values: &Buffer<T>,
        quantiser: Quantiser<T>,
    ) -> Result<Buffer<T::Symbol>> {
        check_size(level)?;
        let (nodes, symbols) = (level.places as u32, self.buffer(level.places)?);
        queue!(
            self,
            format!("difference_{}", T::SUFFIX),
            (nodes.div_ceil(BLOCK), BLOCK, 0),
            (nodes, values.pointer(), quantiser.step, quantiser.inverse, symbols.pointer())
        )?;
        Ok(symbols)
    }

    /// Queues the coarsest array.
    pub(super) fn accumulate<T: DeviceValue>(
        &self,
        level: &Level,
        symbols: &Buffer<T::Symbol>,
        quantiser: Quantiser<T>,
    ) -> Result<Buffer<T>> {
        debug_assert_eq!(level.kind, LevelKind::Coarsest);
        check_size(level)?;
        let (nodes, values) = (level.places as u32, self.buffer(level.places)?);
        queue!(
            self,
            format!("accumulate_{}", T::SUFFIX),
            (nodes.div_ceil(SEGMENT).div_ceil(BLOCK / 32), BLOCK, 0),
            (nodes, symbols.pointer(), quantiser.step, values.pointer())
        )?;
        Ok(values)
    }

    /// A three-dimensional local level of the host's values, forward and then inverse.
    #[allow(clippy::type_complexity, reason = "symbols and coarse array, values")]
    pub(crate) fn local_level<T: DeviceValue>(
        &self,
        level: &Level,
        values: &[T],
        mask: Option<&Mask>,
        quantiser: Quantiser<T>,
        open_loop: bool,
    ) -> Result<((Vec<T::Symbol>, Vec<T>), Vec<T>)> {
        self.enter()?;
        let values = self.upload(values)?;
        let mask = mask.map(|mask| self.upload(mask.words_u32())).transpose()?;
        let (symbols, coarse) = self.decompose_local(level, 3, &values, mask.as_ref(), quantiser, open_loop)?;
        let decoded = self.recompose_local(level, 3, &symbols, &coarse, quantiser)?;
        let read = |buffer: &Buffer<T>| buffer.read(buffer.len(), &self.stream);
        Ok(((symbols.read(symbols.len(), &self.stream)?, read(&coarse)?), read(&decoded)?))
    }

    /// An array of unspecified values.
    pub(super) fn buffer<S: Pod + DeviceCopy>(&self, len: usize) -> Result<Buffer<S>> {
        Buffer::new(&self.pool, len)
    }

    /// A copy of an array of the host.
    pub(super) fn upload<S: Pod + DeviceCopy>(&self, values: &[S]) -> Result<Buffer<S>> {
        let buffer = self.buffer(values.len())?;
        buffer.write(values, &self.stream)?;
        Ok(buffer)
    }
}
