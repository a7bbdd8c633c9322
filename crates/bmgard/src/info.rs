//! What an archive says of itself.

use serde::Serialize;

use crate::archive::{Archive, ChunkKind, SectionId, VERSION};
use crate::closed;
use crate::packed;
use crate::plan::count;
use crate::{DType, ErrorBound, ErrorBudget, Mode, Result, Tile};

/// What [`inspect`] finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArchiveInfo {
    /// The version of the format.
    pub format_version: u16,
    /// The element type.
    pub dtype: DType,
    /// The shape, slowest dimension first.
    pub shape: Vec<u64>,
    /// The bound as asked for.
    pub error_bound: ErrorBound,
    /// The bound that every value keeps.
    pub abs_bound: f64,
    /// The named combination of basis and coder.
    pub mode: Mode,
    /// The basis: `projection` or `interpolation`.
    pub basis: &'static str,
    /// The coder: `huffman`, `rice` or `bitpack`.
    pub coder: &'static str,
    /// How the bound was spread over the levels of the projection basis.
    pub error_budget: Option<ErrorBudget>,
    /// The closed tiles of mode `fast`. (Those of mode `turbo` follow from the shape.)
    pub tile: Option<Tile>,
    /// Local levels of a chunk of full size.
    pub local_levels: u32,
    /// Global levels of a chunk of full size.
    pub global_levels: u32,
    /// The fill value.
    pub fill: Option<f64>,
    /// The shape of a full chunk, slowest dimension first, after dimensions of length 1 are dropped.
    pub chunk_shape: Vec<u64>,
    /// Bytes of the field's values.
    pub original_bytes: u64,
    /// Bytes of the archive.
    pub compressed_bytes: u64,
    /// The chunks, in order.
    pub chunks: Vec<ChunkInfo>,
}

/// One chunk of an archive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChunkInfo {
    /// Where it starts in the archive, in bytes.
    pub offset: u64,
    /// Its shape, slowest dimension first.
    pub shape: Vec<u64>,
    /// `coded`, `raw`, `constant`, `closed` (in closed tiles) or `packed` (in packed tiles).
    pub kind: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// Its local levels.
    pub local_levels: u32,
    /// Its global levels.
    pub global_levels: u32,
    /// The quantisation steps of a coded chunk, finest level first, the coarsest array or the anchors last.
    pub steps: Vec<f64>,
    /// Values stored exactly because they would break the bound: patches of the projection basis, escapes of tiles.
    pub patched_values: u64,
    /// NaN, infinities and fill values of a chunk of closed or packed tiles.
    pub masked_values: u64,
    /// Closed or packed tiles whose symbols are all 0, and those stored as they are.
    pub zero_tiles: u64,
    /// See [`ChunkInfo::zero_tiles`].
    pub raw_tiles: u64,
    /// The classes of closed tiles.
    pub classes: Vec<ClassInfo>,
    /// Its sections.
    pub sections: Vec<SectionInfo>,
}

/// A class of the nodes of closed tiles: those that a level adds at odd multiples of its spacing along the same axes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassInfo {
    /// The spacing.
    pub spacing: u64,
    /// The odd axes: some of `z`, `y` and `x`.
    pub axes: String,
    /// How its nodes are predicted.
    pub predictor: String,
}

/// One section of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SectionInfo {
    /// What it holds.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

/// Reads an archive's headers and checks all its checksums, without decoding values.
///
/// # Errors
/// As [`crate::decompress`].
pub fn inspect(archive: &[u8]) -> Result<ArchiveInfo> {
    let parts = Archive::read(archive)?;
    let header = &parts.header;
    let value = |bits: u64| match header.dtype {
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        DType::F64 => f64::from_bits(bits),
    };
    let (_, d) = header.shape.effective();
    let mut chunks = Vec::with_capacity(parts.len());
    for index in 0..parts.len() {
        let chunk = parts.chunk(index)?;
        let (_, dims) = header.grid.chunk_box(index as u64);
        let tiles = match (chunk.kind, header.tile) {
            (ChunkKind::Closed, Some(tile)) => closed::survey(tile, dims, header.dtype, &chunk)?,
            (ChunkKind::Packed, _) => {
                let packed::Survey { escapes, masked, zero, raw } = packed::survey(dims, d, header.dtype, &chunk)?;
                closed::Survey { escapes, masked, zero, raw, classes: Vec::new() }
            }
            _ => closed::Survey::default(),
        };
        chunks.push(ChunkInfo {
            offset: parts.offset(index),
            shape: dims[3 - d..].to_vec(),
            kind: match chunk.kind {
                ChunkKind::Coded => "coded",
                ChunkKind::Raw => "raw",
                ChunkKind::Constant => "constant",
                ChunkKind::Closed => "closed",
                ChunkKind::Packed => "packed",
            },
            bytes: chunk.size(),
            local_levels: chunk.levels.local,
            global_levels: chunk.levels.global,
            steps: chunk.steps.iter().map(|&bits| value(bits)).collect(),
            patched_values: chunk.section(SectionId::PatchOffsets).len() as u64 / 2 + tiles.escapes,
            masked_values: tiles.masked,
            zero_tiles: tiles.zero,
            raw_tiles: tiles.raw,
            classes: tiles.classes,
            sections: chunk.sections.iter().map(|(id, bytes)| SectionInfo { name: id.name(), bytes: bytes.len() as u64 }).collect(),
        });
    }
    let mode = match header.tile {
        _ if header.packed => Mode::Turbo,
        Some(_) => Mode::Fast,
        None => Mode::Paper,
    };
    Ok(ArchiveInfo {
        format_version: VERSION,
        dtype: header.dtype,
        shape: header.shape.dims().to_vec(),
        error_bound: header.error_bound,
        abs_bound: header.abs_bound,
        mode,
        basis: if mode == Mode::Paper { "projection" } else { "interpolation" },
        coder: match mode {
            Mode::Paper => "huffman",
            Mode::Fast => "rice",
            Mode::Turbo => "bitpack",
        },
        error_budget: (mode == Mode::Paper).then_some(header.error_budget),
        tile: header.tile.map(Tile),
        local_levels: header.levels.local,
        global_levels: header.levels.global,
        fill: header.fill.map(value),
        chunk_shape: header.grid.chunk[3 - d..].to_vec(),
        original_bytes: count(header.grid.dims) * header.dtype.size() as u64,
        compressed_bytes: archive.len() as u64,
        chunks,
    })
}
