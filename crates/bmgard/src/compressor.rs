//! Compression and decompression of whole fields.

use std::borrow::Cow;
use std::io::{Cursor, Seek, SeekFrom, Write};

use bmgard_core::closed::TileShape;
use ndarray::{ArrayD, ArrayView, Dimension, IxDyn};

use crate::archive::{Archive, ChunkKind, Header, TABLE_ENTRY, write_table};
use crate::backend::FieldStatistics;
use crate::engine::Engine;
use crate::pipeline::FieldPlan;
use crate::plan::{ChunkGrid, Dims, Levels, count, dimensions};
use crate::{BackendChoice, Config, DType, DeviceSeconds, Error, Mode, Result, Shape, Tile, Value};

/// The least [`Config::max_chunk_bytes`]: a tile of 8x8x8 f64 values.
const LEAST_CHUNK_BYTES: u64 = 4096;

/// Compresses fields with one set of options.
pub struct Compressor {
    pub(crate) config: Config,
    pub(crate) engine: Engine,
}

/// What a compression did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Bytes of the field's values.
    pub original_bytes: u64,
    /// Bytes of the archive.
    pub compressed_bytes: u64,
    /// The bound that every value keeps.
    pub abs_bound: f64,
    /// The largest |x - x'| over the valid values; mode turbo rounds it to the type of the values.
    pub max_abs_error: f64,
    /// All values.
    pub values: u64,
    /// NaN, infinities and fill values, kept bit for bit.
    pub exact_values: u64,
    /// Values stored exactly because their decoded value would break the bound.
    pub patched_values: u64,
    /// Chunks.
    pub chunks: u64,
    /// Chunks stored as they are, because coding would not make them smaller.
    pub raw_chunks: u64,
}

/// The most bytes that an archive of a field of this shape and type can have, whatever its values, with the default
/// [`Config::max_chunk_bytes`].
#[must_use]
pub fn worst_case_size(shape: &Shape, dtype: DType) -> u64 {
    worst_case_size_with(shape, dtype, Config::DEFAULT_CHUNK_BYTES)
}

/// [`worst_case_size`] for another [`Config::max_chunk_bytes`]: the raw values, 40 bytes a chunk and 148 for the archive.
#[must_use]
pub fn worst_case_size_with(shape: &Shape, dtype: DType, max_chunk_bytes: u64) -> u64 {
    let (dims, _) = shape.effective();
    let size = dtype.size() as u64;
    // Whatever the mode and its tiles, there are no more chunks than this.
    let chunks = |tile| ChunkGrid::new(dims, max_chunk_bytes.max(LEAST_CHUNK_BYTES) / size, tile).len();
    let tiles = TileShape::ALL.map(|tile| Tile(tile).sides()).into_iter();
    let chunks = tiles.chain([[1; 3]]).map(chunks).max().unwrap_or(1);
    // The archive's prefix, header of up to four dimensions, checksums; a table entry, a chunk's header and one section's entry.
    shape.len() * size + 148 + chunks * (TABLE_ENTRY as u64 + 24)
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("config", &self.config).field("backend", &self.engine.name()).finish()
    }
}

impl Compressor {
    /// Checks the options that do not depend on a field.
    ///
    /// # Errors
    /// [`Error::InvalidBound`], [`Error::InvalidConfig`], and [`Error::BackendUnavailable`] where the backend asked for cannot be had.
    pub fn new(config: Config) -> Result<Self> {
        config.error_bound.validate()?;
        if config.max_chunk_bytes < LEAST_CHUNK_BYTES {
            return Err(Error::InvalidConfig(format!(
                "chunks must have at least {LEAST_CHUNK_BYTES} bytes, not {}",
                config.max_chunk_bytes
            )));
        }
        match config.mode {
            Mode::Paper if config.tile.is_some() => return Err(Error::InvalidConfig("mode paper has no choice of tiles".into())),
            Mode::Fast if config.local_levels.is_some() || config.global_levels.is_some() => {
                return Err(Error::InvalidConfig("mode fast has no choice of levels".into()));
            }
            Mode::Turbo if config.tile.is_some() || config.local_levels.is_some() || config.global_levels.is_some() => {
                return Err(Error::InvalidConfig("mode turbo has no choice of tiles or levels".into()));
            }
            Mode::Paper | Mode::Fast | Mode::Turbo => {}
        }
        Ok(Self { engine: Engine::open(config.backend)?, config })
    }

    /// The options.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The backend that does the work: `cpu` or `cuda`.
    #[must_use]
    pub fn backend_name(&self) -> &'static str {
        self.engine.name()
    }

    /// What the calls that compress values of the host's memory spent on the device since this was asked before; `None` where the
    /// compressor works on the CPU.
    pub fn take_device_seconds(&mut self) -> Option<DeviceSeconds> {
        self.engine.take_device_seconds()
    }

    /// Compresses an array of 1 to 4 dimensions; other memory layouts than C order are copied first.
    ///
    /// # Errors
    /// [`Error::InvalidShape`], [`Error::InvalidLevels`] where explicit levels do not fit, [`Error::Device`].
    pub fn compress<T: Value, D: Dimension>(&mut self, field: &ArrayView<'_, T, D>) -> Result<Vec<u8>> {
        let dims: Vec<u64> = field.shape().iter().map(|&n| n as u64).collect();
        let shape = Shape::new(&dims)?;
        let values = field.as_slice().map_or_else(|| Cow::Owned(field.iter().copied().collect()), Cow::Borrowed);
        self.compress_slice(&values, &shape)
    }

    /// Compresses values in C order.
    ///
    /// # Errors
    /// As [`Compressor::compress`], and [`Error::LengthMismatch`].
    pub fn compress_slice<T: Value>(&mut self, values: &[T], shape: &Shape) -> Result<Vec<u8>> {
        let mut archive = Cursor::new(Vec::new());
        self.compress_to(values, shape, &mut archive, &mut |_| {})?;
        Ok(archive.into_inner())
    }

    /// Decompresses an archive into values in C order with this compressor's backend and memory; `progress` is told how many are done.
    ///
    /// # Errors
    /// As [`decompress_into`].
    pub fn decompress_into<T: Value>(&mut self, archive: &[u8], out: &mut [T], progress: &mut dyn FnMut(u64)) -> Result<()> {
        decompress_with(&mut self.engine, archive, out, progress)
    }

    /// Compresses values in C order into a writer, from its current position, chunk by chunk; `progress` is told how many values are
    /// done. The writer is left at the end of the archive.
    ///
    /// # Errors
    /// As [`Compressor::compress_slice`], and [`Error::Io`].
    pub fn compress_to<T: Value, W: Write + Seek>(
        &mut self,
        values: &[T],
        shape: &Shape,
        mut writer: W,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Summary> {
        check_len(shape, values.len())?;
        let engine = &mut self.engine;
        let (field, header) = prepare(&self.config, shape, |fill| engine.statistics(values, fill))?;
        let grid = header.grid;
        let start = writer.stream_position()?;
        let header = header.write();
        writer.write_all(&header)?;
        let mut table = vec![(0, 0); grid.len() as usize];
        writer.write_all(&write_table(&table))?;
        let mut summary = Summary::new::<T>(shape, &field, &grid);
        let mut done = 0;
        for (index, entry) in table.iter_mut().enumerate() {
            let (origin, chunk_dims) = grid.chunk_box(index as u64);
            let chunk_values = slice_box(values, &grid, origin, chunk_dims);
            let compressed = self.engine.compress_chunk(&field, chunk_dims, &chunk_values)?;
            let chunk_header = compressed.chunk.write_header();
            *entry = (compressed.chunk.size(), crc32fast::hash(&chunk_header));
            writer.write_all(&chunk_header)?;
            for (_, section) in &compressed.chunk.sections {
                writer.write_all(section)?;
            }
            let raw = compressed.chunk.kind == ChunkKind::Raw;
            summary.add(compressed.max_abs_error, compressed.specials, compressed.patched, raw);
            done += count(chunk_dims);
            progress(done);
        }
        let end = writer.stream_position()?;
        writer.seek(SeekFrom::Start(start + header.len() as u64))?;
        writer.write_all(&write_table(&table))?;
        writer.seek(SeekFrom::Start(end))?;
        summary.compressed_bytes = end - start;
        Ok(summary)
    }
}

impl Summary {
    pub(crate) fn new<T: Value>(shape: &Shape, field: &FieldPlan<T>, grid: &ChunkGrid) -> Self {
        Self {
            original_bytes: shape.len() * size_of::<T>() as u64,
            compressed_bytes: 0,
            abs_bound: field.bound,
            max_abs_error: 0.0,
            values: shape.len(),
            exact_values: 0,
            patched_values: 0,
            chunks: grid.len(),
            raw_chunks: 0,
        }
    }

    /// Adds what one chunk's compression did.
    pub(crate) fn add(&mut self, max_abs_error: f64, specials: u64, patched: u64, raw: bool) {
        self.max_abs_error = self.max_abs_error.max(max_abs_error);
        self.exact_values += specials;
        self.patched_values += patched;
        self.raw_chunks += u64::from(raw);
    }
}

/// What holds for all chunks of a field, and its archive's header.
pub(crate) fn prepare<T: Value>(
    config: &Config,
    shape: &Shape,
    statistics: impl FnOnce(Option<T>) -> Result<FieldStatistics<T>>,
) -> Result<(FieldPlan<T>, Header)> {
    let (dims, d) = shape.effective();
    let tile = (config.mode == Mode::Fast).then(|| config.tile.unwrap_or(Tile::default_for(d)));
    let packed = config.mode == Mode::Turbo;
    let grid = ChunkGrid::new(dims, config.max_chunk_bytes / size_of::<T>() as u64, tile.map_or([1; 3], Tile::sides));
    let levels = match tile {
        _ if packed => Levels { local: 0, global: 0 },
        Some(_) => Levels { local: 0, global: 0 },
        None => Levels::choose(grid.chunk_box(0).1, d, config.local_levels, config.global_levels)?,
    };
    let tile = tile.map(|tile| tile.0);
    let fill = config.fill.map(T::from_f64);
    let statistics = statistics(fill)?;
    let min_max = statistics.min_max.map(|(min, max)| (min.to_f64(), max.to_f64()));
    let bound = config.error_bound.resolve(min_max);
    let field = FieldPlan { d, levels, bound, budget: config.error_budget, fill, statistics, tile, packed };
    let header = Header {
        dtype: T::DTYPE,
        shape: shape.clone(),
        error_bound: config.error_bound,
        abs_bound: bound,
        error_budget: config.error_budget,
        fill: fill.map(fill_bits),
        grid,
        levels,
        tile,
        packed,
    };
    Ok((field, header))
}

/// The fill value's bits for the header. Which NaN a conversion gives is open, but the archive's bytes are not: the plain quiet one.
fn fill_bits<T: Value>(fill: T) -> u64 {
    match T::DTYPE {
        _ if !fill.to_f64().is_nan() => fill.bits(),
        DType::F32 => 0x7FC0_0000,
        DType::F64 => 0x7FF8_0000_0000_0000,
    }
}

/// A chunk's values in C order, borrowed where they are contiguous.
fn slice_box<'a, T: Value>(values: &'a [T], grid: &ChunkGrid, origin: Dims, dims: Dims) -> Cow<'a, [T]> {
    let at = |z: u64, y: u64| (((origin[0] + z) * grid.dims[1] + origin[1] + y) * grid.dims[2] + origin[2]) as usize;
    if grid.contiguous() {
        return Cow::Borrowed(&values[at(0, 0)..][..count(dims) as usize]);
    }
    let rows = (0..dims[0]).flat_map(|z| (0..dims[1]).map(move |y| (z, y)));
    Cow::Owned(rows.flat_map(|(z, y)| &values[at(z, y)..][..dims[2] as usize]).copied().collect())
}

/// Decompresses an archive into an array of the stored shape.
///
/// # Errors
/// [`Error::NotAnArchive`], [`Error::UnsupportedVersion`], [`Error::Corrupt`], [`Error::WrongType`], and [`Error::InvalidShape`] where
/// the memory cannot be had.
pub fn decompress<T: Value>(archive: &[u8]) -> Result<ArrayD<T>> {
    let parts = Archive::read(archive)?;
    let header = &parts.header;
    check_type::<T>(header.dtype)?;
    parts.check_sizes()?;
    let invalid = |reason: &str| Error::InvalidShape { shape: header.shape.to_string(), reason: reason.into() };
    let len = usize::try_from(header.shape.len()).map_err(|_| invalid("more values than this machine can address"))?;
    let values = bytemuck::allocation::try_zeroed_vec(len);
    let mut values = values.map_err(|()| invalid("there is not enough memory for its values"))?;
    decompress_into(archive, &mut values, BackendChoice::Auto, &mut |_| {})?;
    let dims: Vec<usize> = header.shape.dims().iter().map(|&n| n as usize).collect();
    ArrayD::from_shape_vec(IxDyn(&dims), values).map_err(|error| invalid(&error.to_string()))
}

/// Decompresses an archive into values in C order; `progress` is told how many are done.
///
/// # Errors
/// As [`decompress`], [`Error::LengthMismatch`] where `out` has another length than the stored field, and those of the backend. What
/// `out` holds after an error is unspecified.
pub fn decompress_into<T: Value>(archive: &[u8], out: &mut [T], backend: BackendChoice, progress: &mut dyn FnMut(u64)) -> Result<()> {
    decompress_with(&mut Engine::open(backend)?, archive, out, progress)
}

fn decompress_with<T: Value>(engine: &mut Engine, archive: &[u8], out: &mut [T], progress: &mut dyn FnMut(u64)) -> Result<()> {
    let archive = Archive::read(archive)?;
    let header = &archive.header;
    check_type::<T>(header.dtype)?;
    check_len(&header.shape, out.len())?;
    let d = dimensions(header.grid.dims);
    let mut done = 0;
    for index in 0..archive.len() {
        let (origin, dims) = header.grid.chunk_box(index as u64);
        let chunk = archive.chunk(index)?;
        let at = |z: u64, y: u64| (((origin[0] + z) * header.grid.dims[1] + origin[1] + y) * header.grid.dims[2] + origin[2]) as usize;
        let len = count(dims) as usize;
        if header.grid.contiguous() {
            engine.decompress_chunk(dims, d, &chunk, &mut out[at(0, 0)..][..len])?;
        } else {
            let mut values = vec![T::ZERO; len];
            engine.decompress_chunk(dims, d, &chunk, &mut values)?;
            let rows = (0..dims[0]).flat_map(|z| (0..dims[1]).map(move |y| (z, y)));
            for ((z, y), row) in rows.zip(values.chunks(dims[2] as usize)) {
                out[at(z, y)..][..row.len()].copy_from_slice(row);
            }
        }
        done += count(dims);
        progress(done);
    }
    Ok(())
}

/// # Errors
/// [`Error::LengthMismatch`] where a shape has another number of values.
pub(crate) fn check_len(shape: &Shape, len: usize) -> Result<()> {
    let (expected, actual) = (shape.len(), len as u64);
    if actual == expected { Ok(()) } else { Err(Error::LengthMismatch { shape: shape.to_string(), expected, actual }) }
}

pub(crate) fn check_type<T: Value>(stored: DType) -> Result<()> {
    if stored == T::DTYPE { Ok(()) } else { Err(Error::WrongType { stored, requested: T::DTYPE }) }
}
