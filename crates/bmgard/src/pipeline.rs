//! The order of stages, written once for every backend.

use std::borrow::Cow;

use bmgard_core::closed::TileShape;
use bmgard_core::tile::Quantiser;

use crate::archive::{Chunk, ChunkHeader, ChunkKind, SectionId};
use crate::backend::{Backend, FieldStatistics, Verdict};
use crate::budget;
use crate::closed::Task;
use crate::huffman::{Codebook, Histogram};
use crate::packed;
use crate::patch::Patches;
use crate::plan::{CLASSES, ChunkPlan, Dims, Level, Levels};
use crate::special::Specials;
use crate::{ErrorBudget, Result, Value};

/// What holds for all chunks of a field.
pub(crate) struct FieldPlan<T> {
    pub(crate) d: usize,
    pub(crate) levels: Levels,
    pub(crate) bound: f64,
    pub(crate) budget: ErrorBudget,
    pub(crate) fill: Option<T>,
    pub(crate) statistics: FieldStatistics<T>,
    /// The tiles of the interpolation basis; `None` for the projection basis.
    pub(crate) tile: Option<TileShape>,
    /// Whether chunks are coded in packed tiles.
    pub(crate) packed: bool,
}

impl<T: Value> FieldPlan<T> {
    /// The range of the valid values.
    pub(crate) fn range(&self) -> f64 {
        self.statistics.min_max.map_or(f64::INFINITY, |(min, max)| max.to_f64() - min.to_f64())
    }

    /// Whether corrections are taken of the exact coefficients.
    pub(crate) fn open_loop(&self) -> bool {
        self.budget == ErrorBudget::Mgard
    }

    /// The levels of a chunk of these dimensions, and their quantisers.
    pub(crate) fn plan(&self, dims: Dims) -> (ChunkPlan, Vec<Quantiser<T>>) {
        let levels = self.levels.clamped(dims, self.d);
        let steps = budget::steps(self.budget, self.bound, self.d, levels.total());
        (ChunkPlan::new(dims, self.d, levels), steps.into_iter().map(Quantiser::new).collect())
    }
}

/// A finished chunk.
pub(crate) struct Compressed<'a> {
    pub(crate) chunk: Chunk<'a>,
    pub(crate) max_abs_error: f64,
    pub(crate) patched: u64,
    pub(crate) specials: u64,
}

/// Compresses one chunk: `values` are its nodes in C order.
pub(crate) fn compress_chunk<'a, T: Value, B: Backend<T>>(
    backend: &mut B,
    field: &FieldPlan<T>,
    dims: Dims,
    values: &'a [T],
) -> Result<Compressed<'a>> {
    let specials = (field.statistics.specials > 0).then(|| Specials::find(values, field.fill)).flatten();
    let special_count = specials.as_ref().map_or(0, |s| s.count);
    let compressed = match constant(values, specials.as_ref()) {
        Some(chunk) => Some((chunk, 0.0, 0)),
        None if field.bound <= 0.0 => None,
        None if field.packed => Some(backend.code_packed(&packed::Task {
            d: field.d,
            dims,
            values,
            specials: specials.as_ref(),
            bound: field.bound,
            forbidden: forbidden(field),
        })?),
        None => Some(match field.tile {
            Some(shape) => backend.code_tiles(&Task {
                shape,
                dims,
                values,
                specials: specials.as_ref(),
                bound: field.bound,
                forbidden: forbidden(field),
            })?,
            None => code_chunk(backend, field, dims, values, specials.as_ref())?,
        }),
    };
    let raw = Chunk::raw(bytemuck::cast_slice(values));
    let (chunk, max_abs_error, patched) = compressed.filter(|(chunk, ..)| chunk.size() < raw.size()).unwrap_or((raw, 0.0, 0));
    Ok(Compressed { chunk, max_abs_error, patched, specials: special_count })
}

fn special_sections<T: Value>(specials: Option<&Specials<T>>) -> Vec<(SectionId, Cow<'static, [u8]>)> {
    let Some(specials) = specials else {
        return Vec::new();
    };
    vec![(SectionId::MaskRuns, specials.write_mask().into()), (SectionId::MaskValues, specials.write_values().into())]
}

/// A chunk whose valid values all have the same bits.
fn constant<T: Value>(values: &[T], specials: Option<&Specials<T>>) -> Option<Chunk<'static>> {
    let mut valid = (0..values.len()).filter(|&i| specials.is_none_or(|s| !s.mask.get(i))).map(|i| values[i]);
    let first = valid.next().unwrap_or(T::ZERO);
    if !valid.all(|x| x.to_bits_u64() == first.to_bits_u64()) {
        return None;
    }
    let mut sections = special_sections(specials);
    sections.push((SectionId::Constant, bytemuck::bytes_of(&first).to_vec().into()));
    Some(Chunk { kind: ChunkKind::Constant, levels: Levels { local: 0, global: 0 }, steps: Vec::new(), sections, tile: None })
}

/// A fill value that valid values come near to, or NaN.
pub(crate) fn forbidden<T: Value>(field: &FieldPlan<T>) -> T {
    field.fill.filter(|&fill| may_decode_to(fill, field)).unwrap_or(T::from_f64(f64::NAN))
}

/// A chunk whose stages are queued: what the backend will have when they are done.
pub(crate) struct Queued<T: Value, B: Backend<T>> {
    pub(crate) plan: ChunkPlan,
    pub(crate) quantisers: Vec<Quantiser<T>>,
    pub(crate) symbols: B::Symbols,
    pub(crate) books: Vec<Codebook>,
    /// Per level.
    pub(crate) coded: Vec<B::Coded>,
    pub(crate) check: B::Check,
}

impl<T: Value, B: Backend<T>> Queued<T, B> {
    /// Queues decomposition, check and coding of a chunk whose special values were replaced. The check comes before the codes, so that a
    /// device has something to do while the host makes those.
    pub(crate) fn new(backend: &mut B, field: &FieldPlan<T>, dims: Dims, values: &B::Values<'_>, mask: &B::Mask<'_>) -> Result<Self> {
        let (plan, quantisers) = field.plan(dims);
        let symbols = backend.decompose(&plan, values, mask, &quantisers, field.range(), field.open_loop())?;
        let check = backend.check(&plan, &symbols, &quantisers, values, mask, field.bound)?;
        let (mut books, mut coded) = (Vec::with_capacity(plan.contexts()), Vec::with_capacity(plan.levels.len()));
        for (index, level) in plan.levels.iter().enumerate() {
            let histograms = backend.histograms(&plan, &symbols, mask, index)?;
            let level_books = codebooks(level, histograms);
            coded.push(backend.encode(&plan, &symbols, mask, index, &level_books)?);
            books.extend(level_books);
        }
        Ok(Self { plan, quantisers, symbols, books, coded, check })
    }

    /// The bits of the steps, for the chunk's header.
    pub(crate) fn steps(&self) -> Vec<u64> {
        self.quantisers.iter().map(|q| q.step.to_bits_u64()).collect()
    }

    /// The section of codebooks.
    pub(crate) fn codebooks(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.books.iter().for_each(|book| book.write(&mut out));
        out
    }
}

/// The codebooks of a level's contexts, given the counts of its sampled segments.
pub(crate) fn codebooks(level: &Level, histograms: [Histogram; CLASSES]) -> Vec<Codebook> {
    let contexts = level.contexts();
    let code: fn(&Histogram) -> Codebook = if level.sample_stride() > 1 { Codebook::sampled } else { Codebook::new };
    histograms[..contexts].iter().map(code).collect()
}

/// Decomposes, quantises, codes, decodes as every decoder will, and patches. Returns the chunk, the worst error and the patches.
fn code_chunk<T: Value, B: Backend<T>>(
    backend: &mut B,
    field: &FieldPlan<T>,
    dims: Dims,
    values: &[T],
    specials: Option<&Specials<T>>,
) -> Result<(Chunk<'static>, f64, u64)> {
    let values = match specials {
        None => Cow::Borrowed(values),
        Some(specials) => {
            let mut filled = values.to_vec();
            specials.fill_holes(&mut filled, dims, background(&field.statistics));
            Cow::Owned(filled)
        }
    };
    let mask = backend.load_mask(specials.map(|s| &s.mask))?;
    let loaded = backend.load(Cow::Borrowed(&*values))?;
    let queued = Queued::new(backend, field, dims, &loaded, &mask)?;
    let (steps, codebooks, levels) = (queued.steps(), queued.codebooks(), field.levels.clamped(dims, field.d));
    let mut verdict = backend.verdict(queued.check, &loaded)?;
    if let Some(fill) = field.fill.filter(|&fill| may_decode_to(fill, field)) {
        let decoded = backend.recompose(&queued.plan, &queued.symbols, &queued.quantisers)?;
        patch_look_alikes(backend, fill, &values, decoded, specials, &mut verdict)?;
    }

    let patched = verdict.patches.len() as u64;
    let mut sections = special_sections(specials);
    if !verdict.patches.is_empty() {
        sections.push((SectionId::PatchCounts, verdict.patches.counts.into()));
        sections.push((SectionId::PatchOffsets, verdict.patches.offsets.into()));
        sections.push((SectionId::PatchValues, verdict.patches.values.into()));
    }
    sections.push((SectionId::Codebooks, codebooks.into()));
    let streams = queued.coded.into_iter().map(|coded| backend.stream(coded)).collect::<Result<Vec<_>>>()?;
    let (lengths, payloads): (Vec<_>, Vec<_>) = streams.into_iter().map(|stream| (stream.lengths, stream.payload)).unzip();
    for (level, lengths) in lengths.into_iter().enumerate() {
        sections.push((SectionId::Lengths(level as u8), bytemuck::cast_slice(&lengths).to_vec().into()));
    }
    for (level, payload) in payloads.into_iter().enumerate() {
        sections.push((SectionId::Payload(level as u8), payload.into()));
    }
    let chunk = Chunk { kind: ChunkKind::Coded, levels, steps, sections, tile: None };
    Ok((chunk, verdict.max_abs_error, patched))
}

/// Whether a valid value lies so near the fill value that it may decode to it.
pub(crate) fn may_decode_to<T: Value>(fill: T, field: &FieldPlan<T>) -> bool {
    let fill = fill.to_f64();
    field.statistics.min_max.is_some_and(|(min, max)| min.to_f64() - field.bound <= fill && fill <= max.to_f64() + field.bound)
}

/// Adds to the broken values the valid ones that would come back as the fill value, and look like missing ones.
fn patch_look_alikes<T: Value, B: Backend<T>>(
    backend: &mut B,
    fill: T,
    values: &[T],
    decoded: B::Values<'static>,
    specials: Option<&Specials<T>>,
    verdict: &mut Verdict,
) -> Result<()> {
    let mut out = vec![T::ZERO; values.len()];
    backend.store(decoded, &mut out)?;
    let valid = |position: usize| specials.is_none_or(|specials| !specials.mask.get(position));
    let mut broken: Vec<u64> = verdict.patches.positions().collect();
    let beyond = broken.len();
    broken.extend((0..out.len()).filter(|&i| out[i] == fill && valid(i)).map(|i| i as u64));
    if broken.len() == beyond {
        return Ok(());
    }
    broken.sort_unstable();
    broken.dedup();
    // The worst error may have been one of theirs.
    for &position in &broken {
        out[position as usize] = values[position as usize];
    }
    verdict.patches = Patches::new(&broken, values);
    let error = |i: usize| if valid(i) { (values[i].to_f64() - out[i].to_f64()).abs() } else { 0.0 };
    verdict.max_abs_error = (0..out.len()).map(error).fold(0.0, f64::max);
    Ok(())
}

/// A value in the middle of the valid ones, for blocks that have none.
fn background<T: Value>(statistics: &FieldStatistics<T>) -> T {
    statistics.min_max.map_or(T::ZERO, |(min, max)| min * T::HALF + max * T::HALF)
}

/// Decodes one chunk, whose parts fit its shape ([`crate::archive::Archive::chunk`]), into `out`, its nodes in C order.
pub(crate) fn decompress_chunk<T: Value, B: Backend<T>>(
    backend: &mut B,
    dims: Dims,
    d: usize,
    chunk: &Chunk<'_>,
    out: &mut [T],
) -> Result<()> {
    debug_assert_eq!(out.len() as u64, crate::plan::count(dims));
    if let (ChunkKind::Closed, Some(tile)) = (chunk.kind, chunk.tile) {
        return backend.decode_tiles(tile, dims, chunk, out);
    }
    if chunk.kind == ChunkKind::Packed {
        return backend.decode_packed(dims, d, chunk, out);
    }
    let (runs, special_values) = (chunk.section(SectionId::MaskRuns), chunk.section(SectionId::MaskValues));
    let specials = if special_values.is_empty() { None } else { Some(Specials::<T>::read(out.len(), runs, special_values)?) };
    match chunk.kind {
        ChunkKind::Raw => bytemuck::cast_slice_mut(out).copy_from_slice(chunk.section(SectionId::Raw)),
        ChunkKind::Constant => out.fill(bytemuck::pod_read_unaligned(chunk.section(SectionId::Constant))),
        ChunkKind::Coded | ChunkKind::Closed | ChunkKind::Packed => decode_chunk(backend, dims, d, chunk, specials.as_ref(), out)?,
    }
    if let Some(specials) = specials {
        specials.restore(out);
    }
    Ok(())
}

/// The quantisers of a chunk's steps, to decode with.
pub(crate) fn stored_quantisers<T: Value>(steps: &[u64]) -> Vec<Quantiser<T>> {
    steps.iter().map(|&bits| Quantiser { step: T::from_bits_u64(bits), inverse: T::ZERO }).collect()
}

fn decode_chunk<T: Value, B: Backend<T>>(
    backend: &mut B,
    dims: Dims,
    d: usize,
    chunk: &Chunk<'_>,
    specials: Option<&Specials<T>>,
    out: &mut [T],
) -> Result<()> {
    let plan = ChunkPlan::new(dims, d, chunk.levels);
    let quantisers = stored_quantisers(&chunk.steps);
    let books = ChunkHeader::codebooks(&plan, chunk.section(SectionId::Codebooks))?;
    debug_assert_eq!(books.chunks(CLASSES).len(), plan.levels.len());
    let streams: Vec<(Vec<u16>, &[u8])> = (0..plan.levels.len() as u8)
        .map(|level| {
            let lengths = chunk.section(SectionId::Lengths(level));
            let lengths = lengths.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            (lengths, chunk.section(SectionId::Payload(level)))
        })
        .collect();
    let mask = backend.load_mask(specials.map(|s| &s.mask))?;
    backend.reconstruct(&plan, &mask, &books, &streams, &quantisers, out)?;
    let counts = chunk.section(SectionId::PatchCounts);
    if !counts.is_empty() {
        Patches::apply(counts, chunk.section(SectionId::PatchOffsets), chunk.section(SectionId::PatchValues), out)?;
    }
    Ok(())
}
