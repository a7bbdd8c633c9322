//! The order of stages, written once for every backend.

use std::borrow::Cow;

use bmgard_core::closed::TileShape;
use bmgard_core::tile::Quantiser;

use crate::archive::{Chunk, ChunkKind, SectionId};
use crate::backend::{Backend, FieldStatistics, Verdict};
use crate::budget;
use crate::closed;
use crate::huffman::Codebook;
use crate::patch::Patches;
use crate::plan::{CLASSES, ChunkPlan, Dims, Levels};
use crate::special::Specials;
use crate::{Error, ErrorBudget, Result, Value};

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
        None if field.bound > 0.0 && field.tile.is_some() => code_tiles(field, dims, values, specials.as_ref()),
        None if field.bound > 0.0 => Some(code_chunk(backend, field, dims, values, specials.as_ref())?),
        None => None,
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

/// [`closed::code_chunk`].
fn code_tiles<T: Value>(
    field: &FieldPlan<T>,
    dims: Dims,
    values: &[T],
    specials: Option<&Specials<T>>,
) -> Option<(Chunk<'static>, f64, u64)> {
    let forbidden = field.fill.filter(|&fill| may_decode_to(fill, field)).unwrap_or(T::from_f64(f64::NAN));
    field.tile.map(|tile| closed::code_chunk(tile, dims, values, specials, field.bound, forbidden))
}

/// Decomposes, quantises, codes, decodes as every decoder will, and patches. Returns the chunk, the worst error and the patches.
fn code_chunk<T: Value, B: Backend<T>>(
    backend: &mut B,
    field: &FieldPlan<T>,
    dims: Dims,
    values: &[T],
    specials: Option<&Specials<T>>,
) -> Result<(Chunk<'static>, f64, u64)> {
    let levels = field.levels.clamped(dims, field.d);
    let plan = ChunkPlan::new(dims, field.d, levels);
    let quantisers: Vec<Quantiser<T>> =
        budget::steps(field.budget, field.bound, field.d, levels.total()).into_iter().map(Quantiser::new).collect();
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
    let symbols = backend.decompose(&plan, &loaded, &mask, &quantisers, field.budget == ErrorBudget::Mgard)?;
    let books: Vec<Codebook> = backend.histograms(&plan, &symbols, &mask)?.iter().map(Codebook::new).collect();
    let streams = backend.encode(&plan, &symbols, &mask, &books)?;
    let mut verdict = backend.check(&plan, &symbols, &quantisers, &loaded, &mask, field.bound)?;
    if let Some(fill) = field.fill.filter(|&fill| may_decode_to(fill, field)) {
        let decoded = backend.recompose(&plan, &symbols, &quantisers)?;
        patch_look_alikes(backend, fill, &values, decoded, specials, &mut verdict)?;
    }

    let mut sections = special_sections(specials);
    if !verdict.broken.is_empty() {
        let patches = Patches::new(&verdict.broken, &values);
        sections.push((SectionId::PatchCounts, patches.counts.into()));
        sections.push((SectionId::PatchOffsets, patches.offsets.into()));
        sections.push((SectionId::PatchValues, patches.values.into()));
    }
    let mut codebooks = Vec::new();
    books.iter().for_each(|book| book.write(&mut codebooks));
    sections.push((SectionId::Codebooks, codebooks.into()));
    let (lengths, payloads): (Vec<_>, Vec<_>) = streams.into_iter().map(|stream| (stream.lengths, stream.payload)).unzip();
    for (level, lengths) in lengths.into_iter().enumerate() {
        sections.push((SectionId::Lengths(level as u8), bytemuck::cast_slice(&lengths).to_vec().into()));
    }
    for (level, payload) in payloads.into_iter().enumerate() {
        sections.push((SectionId::Payload(level as u8), payload.into()));
    }
    let steps = quantisers.iter().map(|q| q.step.to_bits_u64()).collect();
    let chunk = Chunk { kind: ChunkKind::Coded, levels, steps, sections, tile: None };
    Ok((chunk, verdict.max_abs_error, verdict.broken.len() as u64))
}

/// Whether a valid value lies so near the fill value that it may decode to it.
fn may_decode_to<T: Value>(fill: T, field: &FieldPlan<T>) -> bool {
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
    let Verdict { broken, max_abs_error } = verdict;
    let beyond = broken.len();
    broken.extend((0..out.len()).filter(|&i| out[i] == fill && valid(i)).map(|i| i as u64));
    if broken.len() == beyond {
        return Ok(());
    }
    broken.sort_unstable();
    broken.dedup();
    // The worst error may have been one of theirs.
    for &position in &*broken {
        out[position as usize] = values[position as usize];
    }
    let error = |i: usize| if valid(i) { (values[i].to_f64() - out[i].to_f64()).abs() } else { 0.0 };
    *max_abs_error = (0..out.len()).map(error).fold(0.0, f64::max);
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
        return closed::decode_chunk(tile, dims, chunk, out);
    }
    let (runs, special_values) = (chunk.section(SectionId::MaskRuns), chunk.section(SectionId::MaskValues));
    let specials = if special_values.is_empty() { None } else { Some(Specials::<T>::read(out.len(), runs, special_values)?) };
    match chunk.kind {
        ChunkKind::Raw => bytemuck::cast_slice_mut(out).copy_from_slice(chunk.section(SectionId::Raw)),
        ChunkKind::Constant => out.fill(bytemuck::pod_read_unaligned(chunk.section(SectionId::Constant))),
        ChunkKind::Coded | ChunkKind::Closed => decode_chunk(backend, dims, d, chunk, specials.as_ref(), out)?,
    }
    if let Some(specials) = specials {
        specials.restore(out);
    }
    Ok(())
}

fn decode_chunk<T: Value, B: Backend<T>>(
    backend: &mut B,
    dims: Dims,
    d: usize,
    chunk: &Chunk<'_>,
    specials: Option<&Specials<T>>,
    out: &mut [T],
) -> Result<()> {
    let corrupt = |what: &str| Error::Corrupt(what.into());
    let plan = ChunkPlan::new(dims, d, chunk.levels);
    let quantisers: Vec<Quantiser<T>> =
        chunk.steps.iter().map(|&bits| Quantiser { step: T::from_bits_u64(bits), inverse: T::ZERO }).collect();
    let mut codebooks = chunk.section(SectionId::Codebooks);
    let mut books = Vec::with_capacity(plan.contexts());
    for _ in 0..plan.contexts() {
        books.push(Codebook::read(&mut codebooks).ok_or_else(|| corrupt("a codebook is not one"))?);
    }
    if !codebooks.is_empty() {
        return Err(corrupt("there are more codebooks than contexts"));
    }
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
