//! Local levels on the device.

use bmgard_core::tile::Quantiser;
use cust::event::{Event, EventFlags};
use cust::launch;
use cust::memory::{CopyDestination, DeviceBuffer, DeviceCopy, DevicePointer};

use super::{Cuda, failed};
use crate::plan::{Level, LevelKind, count};
use crate::{Error, Result, Value};

/// A type that the kernels exist for.
pub(crate) trait DeviceValue: Value<Symbol: DeviceCopy> + DeviceCopy {
    /// The names of the forward and the inverse kernel.
    const LOCAL_3D: [&'static str; 2];
    /// Symbols that a warp of the forward kernel stages in shared memory.
    const STAGED: u32;
}

impl DeviceValue for f32 {
    const LOCAL_3D: [&'static str; 2] = ["decompose_local_3d_f32", "recompose_local_3d_f32"];
    const STAGED: u32 = 4 * 392;
}

impl DeviceValue for f64 {
    const LOCAL_3D: [&'static str; 2] = ["decompose_local_3d_f64", "recompose_local_3d_f64"];
    const STAGED: u32 = 0;
}

/// The kernels' description of a level: `kernels_gpu::local::LocalLevel`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct LocalLevel {
    dims: [u32; 3],
    tiles: [u32; 3],
}

/// Threads of a block, tiles of a warp: as in `kernels_gpu::local`.
const BLOCK: u32 = 128;
const TILES: u32 = 4;

/// Warps of a block.
const WARPS: u32 = BLOCK / 32;

/// Values of shared memory that a warp needs.
const ROWS: u32 = 25 * 32;

/// How a level is launched.
struct Launch {
    level: LocalLevel,
    blocks: u32,
}

impl Launch {
    /// # Errors
    /// [`Error::Device`] where a level is not three-dimensional or too large for the kernels' 32-bit indices.
    fn new(level: &Level) -> Result<Self> {
        let fits = level.kind == LevelKind::Local && level.dims[0] > 1 && count(level.dims) < 1 << 31 && level.places < 1 << 31;
        if !fits {
            return Err(Error::Device(format!("no kernel for a level of {:?} nodes", level.dims)));
        }
        let [dims, tiles] = [level.dims, level.tiles].map(|three| three.map(|n| n as u32));
        let warps = tiles[0] * tiles[1] * tiles[2].div_ceil(TILES);
        Ok(Self { level: LocalLevel { dims, tiles }, blocks: warps.div_ceil(BLOCK / 32) })
    }
}

/// A local level's arrays on the device.
pub(crate) struct LocalBuffers<T: DeviceValue> {
    pub(crate) values: DeviceBuffer<T>,
    pub(crate) mask: Option<DeviceBuffer<u32>>,
    pub(crate) symbols: DeviceBuffer<T::Symbol>,
    pub(crate) coarse: DeviceBuffer<T>,
}

impl Cuda {
    /// Copies a level's values to the device, and makes room for its symbols and coarse array.
    pub(crate) fn upload<T: DeviceValue>(&self, level: &Level, values: &[T], mask: Option<&[u32]>) -> Result<LocalBuffers<T>> {
        self.enter()?;
        let upload = || {
            // SAFETY: kernels write every element before anything reads it.
            let (symbols, coarse) =
                unsafe { (DeviceBuffer::uninitialized(level.places)?, DeviceBuffer::uninitialized(count(level.coarse) as usize)?) };
            let mask = mask.map(DeviceBuffer::from_slice).transpose()?;
            Ok(LocalBuffers { values: DeviceBuffer::from_slice(values)?, mask, symbols, coarse })
        };
        upload().map_err(failed)
    }

    /// Copies a buffer to the host once the stream is done.
    pub(crate) fn download<S: DeviceCopy + Default>(&self, buffer: &DeviceBuffer<S>) -> Result<Vec<S>> {
        self.enter()?;
        let download = || {
            self.stream.synchronize()?;
            let mut out = vec![S::default(); buffer.len()];
            buffer.copy_to(&mut out)?;
            Ok(out)
        };
        download().map_err(failed)
    }

    /// Queues the forward local level.
    pub(crate) fn decompose_local<T: DeviceValue>(
        &self,
        level: &Level,
        buffers: &LocalBuffers<T>,
        quantiser: Quantiser<T>,
        open_loop: bool,
    ) -> Result<()> {
        let Launch { level, blocks } = Launch::new(level)?;
        self.enter()?;
        let launch = || {
            let function = self.module.get_function(T::LOCAL_3D[0])?;
            let (stream, shared) = (&self.stream, (ROWS + T::STAGED) * WARPS * size_of::<T>() as u32);
            let mask = buffers.mask.as_ref().map_or(DevicePointer::null(), |mask| mask.as_device_ptr());
            // SAFETY: the buffers have the sizes that `Launch` checked the level for.
            unsafe {
                launch!(function<<<blocks, BLOCK, shared, stream>>>(
                    level,
                    buffers.values.as_device_ptr(),
                    mask,
                    quantiser.step,
                    quantiser.inverse,
                    u32::from(open_loop),
                    buffers.symbols.as_device_ptr(),
                    buffers.coarse.as_device_ptr()
                ))
            }
        };
        launch().map_err(failed)
    }

    /// Queues the inverse local level: it overwrites the values.
    pub(crate) fn recompose_local<T: DeviceValue>(&self, level: &Level, buffers: &LocalBuffers<T>, quantiser: Quantiser<T>) -> Result<()> {
        let Launch { level, blocks } = Launch::new(level)?;
        self.enter()?;
        let launch = || {
            let function = self.module.get_function(T::LOCAL_3D[1])?;
            let (stream, shared) = (&self.stream, ROWS * WARPS * size_of::<T>() as u32);
            // SAFETY: as above.
            unsafe {
                launch!(function<<<blocks, BLOCK, shared, stream>>>(
                    level,
                    buffers.symbols.as_device_ptr(),
                    buffers.coarse.as_device_ptr(),
                    quantiser.step,
                    buffers.values.as_device_ptr()
                ))
            }
        };
        launch().map_err(failed)
    }

    /// Runs `work`, which queues something, `repeats` times after two runs to warm up; returns the milliseconds of each.
    pub(crate) fn time(&self, repeats: usize, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f32>> {
        self.enter()?;
        let mut times = Vec::with_capacity(repeats);
        let event = || Event::new(EventFlags::DEFAULT).map_err(failed);
        for run in 0..repeats + 2 {
            let (start, end) = (event()?, event()?);
            start.record(&self.stream).map_err(failed)?;
            work()?;
            end.record(&self.stream).map_err(failed)?;
            end.synchronize().map_err(failed)?;
            if run >= 2 {
                times.push(end.elapsed_time_f32(&start).map_err(failed)?);
            }
        }
        Ok(times)
    }
}
