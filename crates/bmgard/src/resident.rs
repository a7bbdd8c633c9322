//! Fields and archives in device memory.

use std::time::Instant;

use cust::memory::{DeviceBuffer, DeviceCopy, DeviceSlice};

use crate::archive::{ChunkHeader, Directory, write_table};
use crate::backend::FieldStatistics;
use crate::backend::cuda::{Buffer, Cuda, Place};
use crate::compressor::{check_len, check_type, prepare};
use crate::engine::Engine;
use crate::plan::{ChunkGrid, Dims, count, dimensions};
use crate::{Compressor, Error, ErrorBound, Mode, Result, Shape, Summary, Value};

/// Device memory that a compressor has allocated and keeps for the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// How often memory was allocated. Calls on fields of a shape that was seen before allocate none.
    pub allocations: u64,
    /// Bytes in all.
    pub bytes: u64,
}

/// Bytes of an archive that are fetched at first: nearly always its header, its table and its first chunk's header.
const PREFIX: u64 = 1 << 14;

fn raw<T: DeviceCopy>(slice: &DeviceSlice<T>) -> u64 {
    slice.as_device_ptr().as_raw()
}

/// A chunk's values one after the other: the field's own, or a copy.
struct ChunkValues<T> {
    values: Buffer<T>,
    /// Rows of a copy: addresses in the field and in the copy, and bytes.
    rows: Vec<(u64, u64, u64)>,
}

impl<T: Value> ChunkValues<T> {
    fn new(cuda: &Cuda, field: u64, grid: &ChunkGrid, origin: Dims, dims: Dims) -> Result<Self> {
        let size = size_of::<T>() as u64;
        let at = |z: u64, y: u64| field + (((origin[0] + z) * grid.dims[1] + origin[1] + y) * grid.dims[2] + origin[2]) * size;
        let len = count(dims) as usize;
        if grid.contiguous() {
            return Ok(Self { values: Cuda::borrow(at(0, 0), len), rows: Vec::new() });
        }
        let values: Buffer<T> = cuda.scratch(len)?;
        let start = values.pointer().as_raw();
        let rows = (0..dims[0]).flat_map(|z| (0..dims[1]).map(move |y| (z, y)));
        let rows = rows.map(|(z, y)| (at(z, y), start + (z * dims[1] + y) * dims[2] * size, dims[2] * size)).collect();
        Ok(Self { values, rows })
    }

    /// Queues filling the copy.
    fn gather(&self, cuda: &Cuda) -> Result<()> {
        self.rows.iter().try_for_each(|&(field, copy, bytes)| cuda.copy(field, copy, bytes))
    }

    /// Queues its way back.
    fn scatter(&self, cuda: &Cuda) -> Result<()> {
        self.rows.iter().try_for_each(|&(field, copy, bytes)| cuda.copy(copy, field, bytes))
    }
}

impl Compressor {
    /// The CUDA backend, with its context made the calling thread's.
    fn cuda(&mut self) -> Result<&mut Cuda> {
        match &mut self.engine {
            Engine::Cuda(cuda) => {
                cuda.enter()?;
                Ok(cuda)
            }
            Engine::Cpu(_) => Err(Error::BackendUnavailable {
                backend: "cuda",
                reason: "this compressor works on the CPU (ask for it by BackendChoice::Cuda)".into(),
            }),
        }
    }

    /// A buffer in the memory of the compressor's device, of unspecified content; its context becomes the calling thread's, as `cust` wants
    /// it for copies.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] where the compressor works on the CPU, [`Error::Device`] where there is not enough memory.
    pub fn device_buffer<T: Value>(&mut self, len: usize) -> Result<DeviceBuffer<T>> {
        self.cuda()?.allocate(len)
    }

    /// [`Compressor::device_buffer`] for the bytes of an archive; [`crate::worst_case_size`] of them are enough for any field.
    ///
    /// # Errors
    /// As there.
    pub fn device_bytes(&mut self, len: u64) -> Result<DeviceBuffer<u8>> {
        self.cuda()?.allocate(len as usize)
    }

    /// The device memory that the compressor has and keeps. It is freed with the compressor.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] where the compressor works on the CPU.
    pub fn device_memory(&mut self) -> Result<DeviceMemory> {
        let (allocations, bytes) = self.cuda()?.memory();
        Ok(DeviceMemory { allocations, bytes })
    }

    /// Compresses values in device memory, in C order, into an archive in device memory: the bytes that
    /// [`Compressor::compress_slice`] returns. The summary tells how many they are.
    ///
    /// The values must be there when it is called, and the archive is there when it returns: work is queued on streams of the compressor's
    /// own. Several compressors, each in a thread of its own, work side by side. Chunks with special values (NaN, infinities, the fill
    /// value) go through the host's memory.
    ///
    /// # Errors
    /// As [`Compressor::compress_slice`], [`Error::BackendUnavailable`] where the compressor works on the CPU, and
    /// [`Error::OutputTooSmall`]. What `archive` holds after an error is unspecified.
    pub fn compress_device<T: Value>(&mut self, values: &DeviceSlice<T>, shape: &Shape, archive: &mut DeviceSlice<u8>) -> Result<Summary> {
        let config = self.config.clone();
        let cuda = self.cuda()?;
        check_len(shape, values.len())?;
        let whole = Cuda::borrow::<T>(raw(values), values.len());
        // Mode turbo sees special values as it codes.
        let unknown = config.mode == Mode::Turbo && config.fill.is_none() && matches!(config.error_bound, ErrorBound::Absolute(_));
        let (field, header) = prepare(&config, shape, |fill| match unknown {
            true => Ok(FieldStatistics { min_max: None, specials: FieldStatistics::<T>::UNKNOWN }),
            false => cuda.statistics_of(&whole, fill),
        })?;
        let grid = header.grid;
        let header = header.write();
        let mut table = vec![(0, 0); grid.len() as usize];
        let mut at = (header.len() + write_table(&table).len()) as u64;
        let (start, room) = (raw(archive), archive.len() as u64);
        let mut summary = Summary::new(shape, &field, &grid);
        for (index, entry) in table.iter_mut().enumerate() {
            let (origin, dims) = grid.chunk_box(index as u64);
            let chunk = ChunkValues::new(cuda, raw(values), &grid, origin, dims)?;
            chunk.gather(cuda)?;
            let statistics = if grid.len() == 1 || unknown { field.statistics } else { cuda.statistics_of(&chunk.values, field.fill)? };
            let place = Place {
                address: start + at,
                room: room.checked_sub(at).ok_or(Error::OutputTooSmall { missing: at.saturating_sub(room) })?,
            };
            let placed = cuda.place_chunk(&field, dims, &chunk.values, &statistics, place)?;
            *entry = (placed.size, placed.header_crc);
            at += placed.size;
            summary.add(placed.max_abs_error, placed.specials, placed.patched, placed.raw);
        }
        cuda.put(&[header, write_table(&table)].concat(), start)?;
        cuda.finish_all()?;
        summary.compressed_bytes = at;
        Ok(summary)
    }

    /// Decompresses an archive in device memory, all of whose bytes `archive` is, into values in device memory, in C order: the bits that
    /// [`crate::decompress`] returns. Checksums are checked there.
    ///
    /// The archive must be there when it is called, and the values are there when it returns.
    ///
    /// # Errors
    /// As [`crate::decompress_into`], and [`Error::BackendUnavailable`] where the compressor works on the CPU. What `values` holds after an
    /// error is unspecified.
    pub fn decompress_device<T: Value>(&mut self, archive: &DeviceSlice<u8>, values: &mut DeviceSlice<T>) -> Result<()> {
        let cuda = self.cuda()?;
        let (start, len) = (raw(archive), archive.len() as u64);
        let mut prefix = cuda.fetch(start, len.min(PREFIX))?;
        let needed = Directory::size(&prefix)?;
        if needed > prefix.len() as u64 {
            prefix = cuda.fetch(start, needed.min(len))?;
        }
        let Directory { header, chunks } = Directory::read(&prefix, len)?;
        check_type::<T>(header.dtype)?;
        check_len(&header.shape, values.len())?;
        let d = dimensions(header.grid.dims);
        for (index, entry) in chunks.iter().enumerate() {
            let (origin, dims) = header.grid.chunk_box(index as u64);
            let wanted = entry.len.min(ChunkHeader::MOST_BYTES);
            let fetched;
            let bytes = match prefix.get(entry.offset as usize..(entry.offset + wanted) as usize) {
                Some(bytes) => bytes,
                None => {
                    fetched = cuda.fetch(start + entry.offset, wanted)?;
                    &fetched
                }
            };
            let chunk_header = ChunkHeader::read(bytes, entry.len, entry.crc, &header)?;
            chunk_header.check_sizes(dims, d, size_of::<T>())?;
            let chunk = ChunkValues::<T>::new(cuda, raw(values), &header.grid, origin, dims)?;
            cuda.restore_chunk(dims, d, chunk_header, bytes, start + entry.offset, &chunk.values)?;
            chunk.scatter(cuda)?;
            cuda.finish_all()?;
        }
        Ok(())
    }
}

/// How long a field takes from device memory to device memory.
#[derive(Clone, Debug)]
pub struct DeviceTimes {
    /// Seconds of each compression and of each decompression: calls of [`Compressor::compress_device`] and
    /// [`Compressor::decompress_device`], all that they do included.
    pub compress: Vec<f64>,
    /// As above.
    pub decompress: Vec<f64>,
    /// The archive, and what it decodes to.
    pub summary: Summary,
    /// Memory beside the field and the archive.
    pub memory: DeviceMemory,
}

/// Measures a configuration's CUDA backend on a field that is copied to the device first: twice to warm up, then `repeat` times.
/// `decoded` gets the decoded values.
///
/// # Errors
/// As [`Compressor::compress_device`].
pub fn device_times<T: Value>(
    values: &[T],
    shape: &Shape,
    config: &crate::Config,
    repeat: usize,
    decoded: &mut [T],
) -> Result<DeviceTimes> {
    let mut compressor = Compressor::new(config.clone())?;
    let mut field = compressor.device_buffer::<T>(values.len())?;
    let mut archive = compressor.device_bytes(crate::worst_case_size_with(shape, T::DTYPE, config.max_chunk_bytes))?;
    compressor.cuda()?.put(bytemuck::cast_slice(values), raw(&field))?;
    compressor.cuda()?.finish_all()?;
    let (compress, summary) = timed(repeat, || compressor.compress_device(&field, shape, &mut archive))?;
    let bytes = archive.index(..summary.compressed_bytes as usize);
    let (decompress, ()) = timed(repeat, || compressor.decompress_device(&bytes, &mut field))?;
    let bytes = compressor.cuda()?.fetch(raw(&field), size_of_val(decoded) as u64)?;
    decoded.copy_from_slice(bytemuck::cast_slice(&bytes));
    Ok(DeviceTimes { compress, decompress, summary, memory: compressor.device_memory()? })
}

/// Runs twice to warm up and then `repeat` times; the seconds of those, and what the last run gave.
fn timed<R>(repeat: usize, mut work: impl FnMut() -> Result<R>) -> Result<(Vec<f64>, R)> {
    work()?;
    let mut last = work()?;
    let mut seconds = Vec::with_capacity(repeat);
    for _ in 0..repeat {
        let start = Instant::now();
        last = work()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok((seconds, last))
}
