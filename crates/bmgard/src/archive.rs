//! The bytes of an archive; `docs/format.md` describes them.

use std::borrow::Cow;

use bmgard_core::closed::TileShape;
use bmgard_core::packed::PackedShape;

use crate::closed;
use crate::huffman::Codebook;
use crate::packed;
use crate::plan::{ChunkGrid, ChunkPlan, Dims, Levels, MAX_LEVELS, count, dimensions};
use crate::{DType, Error, ErrorBound, ErrorBudget, Result, Shape};

/// What every archive starts with.
pub(crate) const MAGIC: [u8; 8] = *b"\x89BMGARD\n";

/// The format version that this release writes, and the newest that it reads.
pub(crate) const VERSION: u16 = 1;

/// Bytes before the header's body: magic, version, zeros, length of the body.
const PREFIX: usize = 16;

/// Bytes of a chunk's entry in the chunk table.
pub(crate) const TABLE_ENTRY: usize = 16;

/// Reads little-endian fields off bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, count: u64, what: &str) -> Result<&'a [u8]> {
        let split = usize::try_from(count).ok().and_then(|count| self.0.split_at_checked(count));
        let (taken, rest) = split.ok_or_else(|| Error::Corrupt(format!("it ends within {what}")))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N as u64, what)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn f64(&mut self, what: &str) -> Result<f64> {
        Ok(f64::from_bits(self.u64(what)?))
    }
}

fn check(stored: u32, bytes: &[u8], what: &str) -> Result<()> {
    if crc32fast::hash(bytes) == stored { Ok(()) } else { Err(Error::Corrupt(format!("the checksum of {what} is wrong"))) }
}

/// What a decoder needs to know of the whole field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) error_bound: ErrorBound,
    pub(crate) abs_bound: f64,
    /// Of the projection basis.
    pub(crate) error_budget: ErrorBudget,
    /// The bits of the fill value in the field's type, zero-extended.
    pub(crate) fill: Option<u64>,
    pub(crate) grid: ChunkGrid,
    pub(crate) levels: Levels,
    /// The tiles of the interpolation basis; `None` for the projection basis.
    pub(crate) tile: Option<TileShape>,
    /// Whether the basis is interpolation in packed tiles; `tile` is `None` then.
    pub(crate) packed: bool,
}

/// Codes of the basis and the coder, which go together; others come with other bases and coders.
const PROJECTION_HUFFMAN: [u8; 2] = [1, 1];
const INTERPOLATION_RICE: [u8; 2] = [2, 2];
const INTERPOLATION_BITPACK: [u8; 2] = [2, 3];

impl Header {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let bound_kind = match self.error_bound {
            ErrorBound::Absolute(_) => 1,
            ErrorBound::RelativeToMax(_) => 2,
            ErrorBound::RelativeToRange(_) => 3,
        };
        let budget = match self.error_budget {
            ErrorBudget::Tight => 1,
            ErrorBudget::Rigorous => 2,
            ErrorBudget::Mgard => 3,
        };
        let ([basis, coder], budget) = match self.tile {
            Some(_) => (INTERPOLATION_RICE, 0),
            None if self.packed => (INTERPOLATION_BITPACK, 0),
            None => (PROJECTION_HUFFMAN, budget),
        };
        let dtype = match self.dtype {
            DType::F32 => 1,
            DType::F64 => 2,
        };
        let dims = self.shape.dims();
        body.extend([dtype, dims.len() as u8, bound_kind, basis, coder, budget, u8::from(self.fill.is_some()), 0]);
        for &n in dims {
            body.extend(n.to_le_bytes());
        }
        body.extend(self.error_bound.value().to_le_bytes());
        body.extend(self.abs_bound.to_le_bytes());
        body.extend(self.fill.unwrap_or(0).to_le_bytes());
        for n in self.grid.chunk {
            body.extend(n.to_le_bytes());
        }
        let packed = if self.packed { self.packed_shape().log2() } else { [0; 3] };
        let [z, y, x] = self.tile.map_or(packed, TileShape::log2);
        body.extend([self.levels.local as u8, self.levels.global as u8, z, y, x, 0, 0, 0]);
        let mut out = Vec::from(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2]);
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(body);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// The tiles of an archive of packed ones.
    pub(crate) fn packed_shape(&self) -> PackedShape {
        PackedShape::for_dimensions(dimensions(self.grid.dims))
    }

    /// Reads a header off the front of an archive; also returns its length in bytes.
    pub(crate) fn read(archive: &[u8]) -> Result<(Self, usize)> {
        let start = &archive[..archive.len().min(MAGIC.len())];
        if start != &MAGIC[..start.len()] {
            return Err(Error::NotAnArchive("it does not start with bmgard's signature".into()));
        }
        if archive.len() < PREFIX {
            return Err(Error::NotAnArchive(format!("it has only {} bytes", archive.len())));
        }
        let mut fields = Fields(&archive[MAGIC.len()..]);
        let version = fields.u16("the version")?;
        if version == 0 || version > VERSION {
            return Err(Error::UnsupportedVersion { found: version, supported: VERSION });
        }
        let zeros = fields.u16("the header")?;
        let length = fields.u32("the header")?;
        let mut body = Fields(fields.bytes(u64::from(length), "the header")?);
        let end = PREFIX + length as usize;
        check(fields.u32("the header's checksum")?, &archive[..end], "the header")?;
        let bad = |what: &str| Error::Corrupt(format!("the header has an unknown {what}"));
        let dtype = match body.u8("the header")? {
            1 => DType::F32,
            2 => DType::F64,
            _ => return Err(bad("type")),
        };
        let dims = body.u8("the header")?;
        let kind = body.u8("the header")?;
        let (tiled, packed) = match [body.u8("the header")?, body.u8("the header")?] {
            PROJECTION_HUFFMAN => (false, false),
            INTERPOLATION_RICE => (true, false),
            INTERPOLATION_BITPACK => (true, true),
            _ => return Err(bad("basis or coder")),
        };
        let error_budget = match (tiled, body.u8("the header")?) {
            (true, 0) => ErrorBudget::default(),
            (false, 1) => ErrorBudget::Tight,
            (false, 2) => ErrorBudget::Rigorous,
            (false, 3) => ErrorBudget::Mgard,
            _ => return Err(bad("error budget")),
        };
        let (flags, zero) = (body.u8("the header")?, body.u8("the header")?);
        if flags > 1 || zero != 0 || zeros != 0 {
            return Err(bad("flag"));
        }
        let dims = (0..dims).map(|_| body.u64("the header")).collect::<Result<Vec<_>>>()?;
        let shape = Shape::new(&dims).map_err(|error| Error::Corrupt(error.to_string()))?;
        let value = body.f64("the header")?;
        let error_bound = match kind {
            1 => ErrorBound::Absolute(value),
            2 => ErrorBound::RelativeToMax(value),
            3 => ErrorBound::RelativeToRange(value),
            _ => return Err(bad("kind of bound")),
        };
        let abs_bound = body.f64("the header")?;
        if error_bound.validate().is_err() || !(abs_bound >= 0.0 && abs_bound.is_finite()) {
            return Err(Error::Corrupt("the header has no valid error bound".into()));
        }
        let fill = body.u64("the header")?;
        let mut chunk = [0; 3];
        for n in &mut chunk {
            *n = body.u64("the header")?;
        }
        let (effective, _) = shape.effective();
        if (0..3).any(|axis| chunk[axis] == 0 || chunk[axis] > effective[axis]) {
            return Err(Error::Corrupt("the header's chunks do not fit its shape".into()));
        }
        let levels = Levels { local: u32::from(body.u8("the header")?), global: u32::from(body.u8("the header")?) };
        let log2 = [body.u8("the header")?, body.u8("the header")?, body.u8("the header")?];
        let tile = TileShape::from_log2(log2).filter(|_| tiled && !packed);
        let expected = match (tiled, packed) {
            (_, true) => PackedShape::for_dimensions(dimensions(effective)).log2(),
            (true, false) => tile.map_or([u8::MAX; 3], TileShape::log2),
            (false, false) => [0; 3],
        };
        if log2 != expected || tiled && (levels != Levels { local: 0, global: 0 }) {
            return Err(bad("tile or number of levels"));
        }
        if body.bytes(3, "the header")? != [0; 3] || !body.0.is_empty() || levels.local + levels.global > 2 * MAX_LEVELS {
            return Err(Error::Corrupt("the header has unknown fields".into()));
        }
        let fill = (flags == 1).then_some(fill);
        let grid = ChunkGrid { dims: effective, chunk };
        Ok((Self { dtype, shape, error_bound, abs_bound, error_budget, fill, grid, levels, tile, packed }, end + 4))
    }
}

/// The parts of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SectionId {
    Raw,
    MaskRuns,
    MaskValues,
    PatchCounts,
    PatchOffsets,
    PatchValues,
    Constant,
    Codebooks,
    /// The flags of special values in a chunk of closed tiles.
    MaskFlags,
    Predictors,
    Anchors,
    TileLengths,
    Tiles,
    PackedTiles,
    PackedLengths,
    PackedAnchors,
    /// Segment lengths of a level, finest first.
    Lengths(u8),
    /// The coded symbols of a level.
    Payload(u8),
}

impl SectionId {
    fn code(self) -> u32 {
        match self {
            Self::Raw => 1,
            Self::MaskRuns => 2,
            Self::MaskValues => 3,
            Self::PatchCounts => 4,
            Self::PatchOffsets => 5,
            Self::PatchValues => 6,
            Self::Constant => 7,
            Self::Codebooks => 8,
            Self::MaskFlags => 9,
            Self::Predictors => 10,
            Self::Anchors => 11,
            Self::TileLengths => 12,
            Self::Tiles => 13,
            Self::PackedTiles => 14,
            Self::PackedLengths => 15,
            Self::PackedAnchors => 16,
            Self::Lengths(level) => 0x100 + u32::from(level),
            Self::Payload(level) => 0x200 + u32::from(level),
        }
    }

    fn from_code(code: u32) -> Option<Self> {
        let level = (code & 0xFF) as u8;
        Some(match code {
            1 => Self::Raw,
            2 => Self::MaskRuns,
            3 => Self::MaskValues,
            4 => Self::PatchCounts,
            5 => Self::PatchOffsets,
            6 => Self::PatchValues,
            7 => Self::Constant,
            8 => Self::Codebooks,
            9 => Self::MaskFlags,
            10 => Self::Predictors,
            11 => Self::Anchors,
            12 => Self::TileLengths,
            13 => Self::Tiles,
            14 => Self::PackedTiles,
            15 => Self::PackedLengths,
            16 => Self::PackedAnchors,
            0x100..=0x1FF => Self::Lengths(level),
            0x200..=0x2FF => Self::Payload(level),
            _ => return None,
        })
    }

    /// A name for people.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Raw => "raw values".into(),
            Self::MaskRuns => "special values: mask".into(),
            Self::MaskValues => "special values: values".into(),
            Self::PatchCounts => "patches: counts".into(),
            Self::PatchOffsets => "patches: offsets".into(),
            Self::PatchValues => "patches: values".into(),
            Self::Constant => "constant".into(),
            Self::Codebooks => "codebooks".into(),
            Self::MaskFlags => "special values: flags".into(),
            Self::Predictors => "predictors".into(),
            Self::Anchors => "anchors".into(),
            Self::TileLengths => "tiles: lengths".into(),
            Self::Tiles => "tiles".into(),
            Self::PackedTiles => "packed tiles".into(),
            Self::PackedLengths => "packed tiles: lengths".into(),
            Self::PackedAnchors => "packed tiles: anchors".into(),
            Self::Lengths(level) => format!("level {level}: segment lengths"),
            Self::Payload(level) => format!("level {level}: payload"),
        }
    }
}

/// How a chunk's values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkKind {
    /// Levels, codebooks, payload, patches.
    Coded,
    /// As they are.
    Raw,
    /// All valid values have the same bits.
    Constant,
    /// Closed tiles.
    Closed,
    /// Packed tiles.
    Packed,
}

/// A chunk: its header's fields and its sections.
#[derive(Clone, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) kind: ChunkKind,
    pub(crate) levels: Levels,
    /// Bits of the steps of a coded chunk's levels, finest first, zero-extended.
    pub(crate) steps: Vec<u64>,
    pub(crate) sections: Vec<(SectionId, Cow<'a, [u8]>)>,
    /// The archive's tiles, where it has the interpolation basis.
    pub(crate) tile: Option<TileShape>,
}

/// Bytes of a chunk's header before its steps, and of a section's entry in it.
const CHUNK_PREFIX: usize = 8;
const SECTION_ENTRY: usize = 16;

impl<'a> Chunk<'a> {
    /// A chunk that keeps its values as they are.
    pub(crate) fn raw(values: &'a [u8]) -> Self {
        Self {
            kind: ChunkKind::Raw,
            levels: Levels { local: 0, global: 0 },
            steps: Vec::new(),
            sections: vec![(SectionId::Raw, values.into())],
            tile: None,
        }
    }

    /// The chunk that these bytes are, header included.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where a section's checksum is wrong.
    pub(crate) fn new(bytes: &'a [u8], header: ChunkHeader) -> Result<Self> {
        let ChunkHeader { kind, levels, steps, sections, tile, .. } = header;
        let sections = sections.into_iter().map(|Section { id, crc, start, len }| {
            let section = &bytes[start as usize..][..len as usize];
            check(crc, section, &id.name())?;
            Ok((id, section.into()))
        });
        Ok(Self { kind, levels, steps, sections: sections.collect::<Result<_>>()?, tile })
    }

    /// The bytes of a section; empty where the chunk has none of it.
    pub(crate) fn section(&self, id: SectionId) -> &[u8] {
        self.sections.iter().find(|(other, _)| *other == id).map_or(&[], |(_, bytes)| bytes)
    }

    /// The size in the archive, header included.
    pub(crate) fn size(&self) -> u64 {
        chunk_size(self.steps.len(), self.sections.iter().map(|(_, bytes)| bytes.len() as u64))
    }

    /// The header's bytes; the sections follow it in the archive.
    pub(crate) fn write_header(&self) -> Vec<u8> {
        let sections = self.sections.iter().map(|(id, bytes)| (*id, crc32fast::hash(bytes), bytes.len() as u64));
        write_chunk_header(self.kind, self.levels, &self.steps, sections.collect::<Vec<_>>().as_slice())
    }
}

/// Bytes of a chunk with so many steps and these sections, header included.
pub(crate) fn chunk_size(steps: usize, sections: impl ExactSizeIterator<Item = u64>) -> u64 {
    (CHUNK_PREFIX + steps * 8 + sections.len() * SECTION_ENTRY) as u64 + sections.sum::<u64>()
}

/// A chunk's header; sections as kind, checksum and bytes.
pub(crate) fn write_chunk_header(kind: ChunkKind, levels: Levels, steps: &[u64], sections: &[(SectionId, u32, u64)]) -> Vec<u8> {
    let kind = match kind {
        ChunkKind::Coded => 1,
        ChunkKind::Raw => 2,
        ChunkKind::Constant => 3,
        ChunkKind::Closed => 4,
        ChunkKind::Packed => 5,
    };
    let mut out = vec![kind, levels.local as u8, levels.global as u8, steps.len() as u8];
    out.extend((sections.len() as u32).to_le_bytes());
    for step in steps {
        out.extend(step.to_le_bytes());
    }
    for (id, crc, length) in sections {
        out.extend(id.code().to_le_bytes());
        out.extend(crc.to_le_bytes());
        out.extend(length.to_le_bytes());
    }
    out
}

/// A section of a chunk: its checksum, and where it lies after the chunk's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) id: SectionId,
    pub(crate) crc: u32,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// A chunk's header as it is read.
#[derive(Clone, Debug)]
pub(crate) struct ChunkHeader {
    pub(crate) kind: ChunkKind,
    pub(crate) levels: Levels,
    pub(crate) steps: Vec<u64>,
    pub(crate) sections: Vec<Section>,
    /// The archive's tiles, where it has the interpolation basis.
    pub(crate) tile: Option<TileShape>,
    /// Whether the archive has packed tiles.
    pub(crate) packed: bool,
}

impl ChunkHeader {
    /// The most bytes of a header.
    #[cfg(feature = "cuda")]
    pub(crate) const MOST_BYTES: u64 = (CHUNK_PREFIX + 8 * u8::MAX as usize + SECTION_ENTRY * (8 + 2 * 256)) as u64;

    /// Reads the header of a chunk of `len` bytes, which starts with `bytes`, and checks its checksum. Those of the sections are for the
    /// caller to check. `archive` is the archive's header.
    pub(crate) fn read(bytes: &[u8], len: u64, header_crc: u32, archive: &Header) -> Result<Self> {
        let mut fields = Fields(bytes);
        let what = "a chunk's header";
        let kind = match fields.u8(what)? {
            1 => ChunkKind::Coded,
            2 => ChunkKind::Raw,
            3 => ChunkKind::Constant,
            4 => ChunkKind::Closed,
            5 => ChunkKind::Packed,
            _ => return Err(Error::Corrupt("a chunk of an unknown kind".into())),
        };
        let levels = Levels { local: u32::from(fields.u8(what)?), global: u32::from(fields.u8(what)?) };
        let step_count = fields.u8(what)?;
        let section_count = fields.u32(what)?;
        let steps = (0..step_count).map(|_| fields.u64(what)).collect::<Result<Vec<_>>>()?;
        let mut entries = Fields(fields.bytes(u64::from(section_count) * SECTION_ENTRY as u64, what)?);
        let mut at = (bytes.len() - fields.0.len()) as u64;
        check(header_crc, &bytes[..at as usize], what)?;
        let mut sections: Vec<Section> = Vec::new();
        while !entries.0.is_empty() {
            let id = SectionId::from_code(entries.u32(what)?).ok_or_else(|| Error::Corrupt("a section of an unknown kind".into()))?;
            if sections.last().is_some_and(|before| before.id >= id) {
                return Err(Error::Corrupt("a chunk's sections are not in order".into()));
            }
            let (crc, section_len) = (entries.u32(what)?, entries.u64(what)?);
            if section_len > len - at {
                return Err(Error::Corrupt(format!("it ends within {}", id.name())));
            }
            sections.push(Section { id, crc, start: at, len: section_len });
            at += section_len;
        }
        if at < len {
            return Err(Error::Corrupt("a chunk is longer than its sections".into()));
        }
        Ok(Self { kind, levels, steps, sections, tile: archive.tile, packed: archive.packed })
    }

    /// The section of a kind, if the chunk has it.
    pub(crate) fn section(&self, id: SectionId) -> Option<&Section> {
        self.sections.iter().find(|section| section.id == id)
    }

    /// Checks that the chunk's parts belong to its kind and have the sizes that its values, `value_size` bytes each, ask for. What passes
    /// is worth the memory for them: unless it is constant, there is a byte for at most 2048 of them.
    pub(crate) fn check_sizes(&self, dims: Dims, d: usize, value_size: usize) -> Result<()> {
        let corrupt = |what: &str| Err(Error::Corrupt(what.into()));
        let coded = self.kind == ChunkKind::Coded;
        if match self.kind {
            ChunkKind::Coded => self.tile.is_some() || self.packed,
            ChunkKind::Closed => self.tile.is_none(),
            ChunkKind::Packed => !self.packed,
            ChunkKind::Raw | ChunkKind::Constant => false,
        } {
            return corrupt("a chunk has another basis than its archive");
        }
        let levels = if coded { self.levels.clamped(dims, d) } else { Levels { local: 0, global: 0 } };
        let steps = match self.kind {
            ChunkKind::Coded => levels.total() + 1,
            ChunkKind::Closed | ChunkKind::Packed => self.steps.len(),
            ChunkKind::Raw | ChunkKind::Constant => 0,
        };
        if self.levels != levels || self.steps.len() != steps {
            return corrupt("a chunk's levels do not fit its shape");
        }
        let size = |id| self.section(id).map_or(0, |section| section.len);
        let belongs = |id| match (self.kind, id) {
            (ChunkKind::Raw, SectionId::Raw) | (ChunkKind::Constant, SectionId::Constant) => true,
            (ChunkKind::Raw, _) => false,
            (ChunkKind::Closed, SectionId::MaskValues | SectionId::MaskFlags | SectionId::Predictors) => true,
            (ChunkKind::Closed, SectionId::Anchors | SectionId::TileLengths | SectionId::Tiles) => true,
            (ChunkKind::Closed, _) => false,
            (ChunkKind::Packed, SectionId::MaskValues | SectionId::MaskFlags) => true,
            (ChunkKind::Packed, SectionId::PackedTiles | SectionId::PackedLengths | SectionId::PackedAnchors) => true,
            (ChunkKind::Packed, _) => false,
            (_, SectionId::MaskRuns | SectionId::MaskValues) => true,
            (ChunkKind::Coded, SectionId::PatchCounts | SectionId::PatchOffsets | SectionId::PatchValues | SectionId::Codebooks) => true,
            (ChunkKind::Coded, SectionId::Lengths(level) | SectionId::Payload(level)) => usize::from(level) <= levels.total(),
            _ => false,
        };
        if !self.sections.iter().all(|section| belongs(section.id)) {
            return corrupt("a chunk has a section that does not belong to its kind");
        }
        let both = |a, b| (size(a) == 0) == (size(b) == 0);
        let flags = if matches!(self.kind, ChunkKind::Closed | ChunkKind::Packed) { SectionId::MaskFlags } else { SectionId::MaskRuns };
        if !both(flags, SectionId::MaskValues) || !both(SectionId::PatchCounts, SectionId::PatchOffsets) {
            return corrupt("a chunk lacks a section");
        }
        let fits = match self.kind {
            ChunkKind::Raw => size(SectionId::Raw) == count(dims) * value_size as u64,
            ChunkKind::Constant => size(SectionId::Constant) == value_size as u64,
            ChunkKind::Closed => self.tile.is_some_and(|tile| closed::sizes_fit(tile, dims, self)),
            ChunkKind::Packed => packed::sizes_fit(dims, d, value_size, self),
            ChunkKind::Coded => {
                let plan = ChunkPlan::new(dims, d, levels);
                (0..).zip(&plan.levels).all(|(index, level)| size(SectionId::Lengths(index)) == 2 * level.segments() as u64)
            }
        };
        if fits { Ok(()) } else { corrupt("a chunk has another size than its values ask for") }
    }

    /// The codebooks of a coded chunk of this plan, from their section.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where they are none, or not as many as the contexts.
    pub(crate) fn codebooks(plan: &ChunkPlan, mut bytes: &[u8]) -> Result<Vec<Codebook>> {
        let corrupt = |what: &str| Error::Corrupt(what.into());
        let mut books = Vec::with_capacity(plan.contexts());
        for _ in 0..plan.contexts() {
            books.push(Codebook::read(&mut bytes).ok_or_else(|| corrupt("a codebook is not one"))?);
        }
        if bytes.is_empty() { Ok(books) } else { Err(corrupt("there are more codebooks than contexts")) }
    }
}

/// The chunk table: per chunk its bytes and its header's checksum.
pub(crate) fn write_table(entries: &[(u64, u32)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * TABLE_ENTRY + 4);
    for &(bytes, crc) in entries {
        out.extend(bytes.to_le_bytes());
        out.extend(crc.to_le_bytes());
        out.extend([0; 4]);
    }
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out
}

/// A chunk's place in the archive, and its header's checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) crc: u32,
}

/// What an archive starts with: nothing is trusted before it is checked against the length and the checksums.
pub(crate) struct Directory {
    pub(crate) header: Header,
    pub(crate) chunks: Vec<Entry>,
}

impl Directory {
    /// The bytes of a directory that starts so, or an error if its header is not one.
    #[cfg(feature = "cuda")]
    pub(crate) fn size(bytes: &[u8]) -> Result<u64> {
        let (header, offset) = Header::read(bytes)?;
        let table = header.grid.len().checked_mul(TABLE_ENTRY as u64).and_then(|table| table.checked_add(offset as u64 + 4));
        table.ok_or_else(|| Error::Corrupt("it ends within the chunk table".into()))
    }

    /// Reads the directory of an archive of `len` bytes, which starts with `bytes`.
    pub(crate) fn read(bytes: &[u8], len: u64) -> Result<Self> {
        let (header, offset) = Header::read(bytes)?;
        let count = header.grid.len();
        let mut rest = Fields(&bytes[offset..]);
        let table_bytes = count.checked_mul(TABLE_ENTRY as u64).filter(|&n| n < rest.0.len() as u64);
        let table_bytes = table_bytes.ok_or_else(|| Error::Corrupt("it ends within the chunk table".into()))?;
        let table = rest.bytes(table_bytes, "the chunk table")?;
        check(rest.u32("the chunk table's checksum")?, table, "the chunk table")?;
        let mut offset = (offset + table.len() + 4) as u64;
        let mut entries = Fields(table);
        let mut chunks = Vec::with_capacity(count as usize);
        while !entries.0.is_empty() {
            let (chunk_len, crc) = (entries.u64("the chunk table")?, entries.u32("the chunk table")?);
            if entries.u32("the chunk table")? != 0 {
                return Err(Error::Corrupt("the chunk table has unknown fields".into()));
            }
            if chunk_len > len - offset {
                return Err(Error::Corrupt(format!("it ends within chunk {} of {count}", chunks.len())));
            }
            chunks.push(Entry { offset, len: chunk_len, crc });
            offset += chunk_len;
        }
        if offset < len {
            return Err(Error::Corrupt(format!("{} bytes follow its last chunk", len - offset)));
        }
        Ok(Self { header, chunks })
    }
}

/// An archive cut into its parts.
pub(crate) struct Archive<'a> {
    pub(crate) header: Header,
    bytes: &'a [u8],
    chunks: Vec<Entry>,
}

impl<'a> Archive<'a> {
    pub(crate) fn read(archive: &'a [u8]) -> Result<Self> {
        let Directory { header, chunks } = Directory::read(archive, archive.len() as u64)?;
        Ok(Self { header, bytes: archive, chunks })
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn offset(&self, index: usize) -> u64 {
        self.chunks[index].offset
    }

    /// A chunk's bytes, and its header, whose parts fit its shape; the checksums of its sections are not checked yet.
    fn cut(&self, index: usize) -> Result<(&'a [u8], ChunkHeader)> {
        let Entry { offset, len, crc } = self.chunks[index];
        let bytes = &self.bytes[offset as usize..][..len as usize];
        let header = ChunkHeader::read(bytes, len, crc, &self.header)?;
        let grid = &self.header.grid;
        let (_, dims) = grid.chunk_box(index as u64);
        header.check_sizes(dims, dimensions(grid.dims), self.header.dtype.size())?;
        Ok((bytes, header))
    }

    /// Checks that all chunks have the bytes that their values ask for, before there is memory for those.
    pub(crate) fn check_sizes(&self) -> Result<()> {
        (0..self.len()).try_for_each(|index| self.cut(index).map(|_| ()))
    }

    /// A chunk whose parts fit its shape and have the right checksums.
    pub(crate) fn chunk(&self, index: usize) -> Result<Chunk<'a>> {
        let (bytes, header) = self.cut(index)?;
        Chunk::new(bytes, header)
    }
}
