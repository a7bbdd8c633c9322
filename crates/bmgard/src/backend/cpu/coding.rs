//! Symbols to bits and back: segments of a level in parallel, each a bit string of its own.

use bmgard_core::tile::{Geometry, TILE};
use bmgard_core::token::{TOKENS, extra_bits, token, value};
use bmgard_core::{Symbol, axis};
use rayon::prelude::*;

use super::local::Live;
use crate::backend::Stream;
use crate::backend::cpu::Mask;
use crate::bits::{BitReader, BitWriter};
use crate::huffman::{Codebook, Histogram, MAX_LENGTH};
use crate::plan::{CLASSES, Level, LevelKind};
use crate::{Error, Result};

/// Segments that one task works on.
const GROUP: usize = 32;

/// Calls `f(place, class)` for every place of a segment that is coded, in order.
#[inline(always)]
fn visit(level: &Level, d: usize, mask: Option<&Mask>, segment: usize, f: impl FnMut(usize, usize)) {
    match (level.kind, d) {
        (LevelKind::Local, 3) => visit_tiles::<8, 8>(level, mask, segment, f),
        (LevelKind::Local, 2) => visit_tiles::<1, 8>(level, mask, segment, f),
        (LevelKind::Local, _) => visit_tiles::<1, 1>(level, mask, segment, f),
        (LevelKind::Global, _) => visit_nodes(level, segment, f),
        (LevelKind::Coarsest, _) => {
            let mut f = f;
            (segment * level.segment..((segment + 1) * level.segment).min(level.places)).for_each(|place| f(place, 0));
        }
    }
}

#[inline(always)]
fn visit_tiles<const NZ: usize, const NY: usize>(level: &Level, mask: Option<&Mask>, segment: usize, mut f: impl FnMut(usize, usize)) {
    let details = Geometry::<NZ, NY>::DETAILS;
    let [_, nty, ntx] = level.tiles.map(|n| n as usize);
    let dims = level.dims.map(|n| n as usize);
    let first = segment * level.segment;
    let last = (first + level.segment).min(level.places);
    for (tile, base) in (first / details..).zip((first..last).step_by(details)) {
        let origin = [tile / (nty * ntx) * TILE, tile / ntx % nty * TILE, tile % ntx * TILE];
        match Live::<NZ, NY>::new(dims, origin, mask) {
            Live::All => {
                for (detail, &class) in Geometry::<NZ, NY>::DETAIL_CLASS[..details].iter().enumerate() {
                    f(base + detail, usize::from(class));
                }
            }
            Live::Some(flags) => {
                for detail in 0..details {
                    let node = usize::from(Geometry::<NZ, NY>::DETAIL_NODE[detail]);
                    if flags[node / TILE][node % TILE] {
                        f(base + detail, usize::from(Geometry::<NZ, NY>::DETAIL_CLASS[detail]));
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn visit_nodes(level: &Level, segment: usize, mut f: impl FnMut(usize, usize)) {
    let [nz, ny, nx] = level.dims;
    let mut place = segment * level.segment;
    let last = (place + level.segment).min(level.places);
    while place < last {
        let (row, x) = (place as u64 / nx, place as u64 % nx);
        let odd = usize::from(!axis::is_coarse(row / ny, nz)) + usize::from(!axis::is_coarse(row % ny, ny));
        let end = (place + (nx - x) as usize).min(last);
        for (x, place) in (x..).zip(place..end) {
            let odd = odd + usize::from(!axis::is_coarse(x, nx));
            if odd > 0 {
                f(place, odd - 1);
            }
        }
        place = end;
    }
}

/// How often each token occurs in each of the level's contexts.
pub(super) fn histograms<S: Symbol>(symbols: &[S], level: &Level, d: usize, mask: Option<&Mask>) -> [Histogram; CLASSES] {
    (0..level.segments().div_ceil(GROUP))
        .into_par_iter()
        .map(|group| {
            let mut counts = [[0; TOKENS]; CLASSES];
            for segment in group * GROUP..((group + 1) * GROUP).min(level.segments()) {
                visit(level, d, mask, segment, |place, class| counts[class][token(symbols[place].to_i64()).0 as usize] += 1);
            }
            counts
        })
        .reduce(
            || [[0; TOKENS]; CLASSES],
            |mut a, b| {
                a.iter_mut().flatten().zip(b.iter().flatten()).for_each(|(a, b)| *a += b);
                a
            },
        )
}

/// Codes a level. A segment whose coded symbols are all 0 has no bytes.
pub(super) fn encode<S: Symbol>(symbols: &[S], level: &Level, d: usize, mask: Option<&Mask>, books: &[Codebook]) -> Stream {
    let groups: Vec<(Vec<u16>, Vec<u8>)> = (0..level.segments().div_ceil(GROUP))
        .into_par_iter()
        .map(|group| {
            let mut writer = BitWriter::default();
            let mut lengths = Vec::with_capacity(GROUP);
            for segment in group * GROUP..((group + 1) * GROUP).min(level.segments()) {
                let places = segment * level.segment..((segment + 1) * level.segment).min(level.places);
                let before = writer.bytes().len();
                if symbols[places].iter().any(|&k| k != S::default()) {
                    visit(level, d, mask, segment, |place, class| {
                        let symbol = symbols[place].to_i64();
                        let (token, extra) = token(symbol);
                        let (code, length) = books[class].code(token as usize);
                        if extra <= 40 {
                            let raw = symbol.unsigned_abs() & ((1 << extra) - 1);
                            writer.put(code | raw << length, length + extra);
                        } else {
                            writer.put(code, length);
                            writer.put(symbol.unsigned_abs() & ((1 << extra) - 1), extra);
                        }
                    });
                    writer.align();
                }
                lengths.push((writer.bytes().len() - before) as u16);
            }
            (lengths, writer.into_bytes())
        })
        .collect();
    let mut stream = Stream::default();
    for (lengths, payload) in groups {
        stream.lengths.extend(lengths);
        stream.payload.extend(payload);
    }
    stream
}

/// Decodes a level.
///
/// # Errors
/// [`Error::Corrupt`] where lengths and payload disagree, or bits are no code.
pub(super) fn decode<S: Symbol>(
    lengths: &[u16],
    payload: &[u8],
    level: &Level,
    d: usize,
    mask: Option<&Mask>,
    books: &[Codebook],
) -> Result<Vec<S>> {
    let corrupt = |what: &str| Error::Corrupt(format!("a level's {what}"));
    let mut offsets = Vec::with_capacity(level.segments() + 1);
    let mut offset = 0;
    for &length in lengths {
        offsets.push(offset);
        offset += usize::from(length);
    }
    if lengths.len() != level.segments() || offset != payload.len() {
        return Err(corrupt("segment lengths do not match its payload"));
    }
    let tables: Vec<Vec<u16>> = books.iter().map(Codebook::decode_table).collect();
    let mut symbols = vec![S::default(); level.places];
    symbols.par_chunks_mut(GROUP * level.segment).enumerate().try_for_each(|(group, symbols)| {
        let base = group * GROUP * level.segment;
        for segment in group * GROUP..((group + 1) * GROUP).min(level.segments()) {
            let length = usize::from(lengths[segment]);
            if length == 0 {
                continue;
            }
            let mut reader = BitReader::new(&payload[offsets[segment]..][..length]);
            let mut known = true;
            visit(level, d, mask, segment, |place, class| {
                let bits = reader.peek();
                let entry = tables[class][bits as usize & ((1 << MAX_LENGTH) - 1)];
                let (token, length) = (u32::from(entry & 0xFF), u32::from(entry >> 8));
                known &= length > 0;
                let extra = extra_bits(token);
                let raw = if extra <= 40 {
                    reader.skip(length + extra);
                    bits >> length & ((1 << extra) - 1)
                } else {
                    reader.skip(length);
                    reader.take(extra)
                };
                symbols[place - base] = S::from_i64(value(token, raw));
            });
            if !known || !reader.finish() {
                return Err(corrupt("payload is not what its codebook writes"));
            }
        }
        Ok(())
    })?;
    Ok(symbols)
}
