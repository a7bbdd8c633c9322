//! Symbols to bits and back: segments of a level in parallel, each a bit string of its own.

use bmgard_core::tile::{Geometry, TILE};
use bmgard_core::token::{GROUP, TOKENS, ZERO_GROUP, extra_bits, token, value};
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
const TASK: usize = 32;

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

/// Calls `f(class, token, extra bits, magnitude)` for every token of a segment, in order.
#[inline(always)]
fn tokens<S: Symbol>(symbols: &[S], level: &Level, d: usize, mask: Option<&Mask>, segment: usize, mut f: impl FnMut(usize, u32, u32, u64)) {
    let mut group = [(0i64, 0usize); GROUP];
    let mut filled = 0;
    let mut any = 0;
    let mut flush = |group: &[(i64, usize)], any: i64| {
        if any == 0 {
            f(group[0].1, ZERO_GROUP, 0, 0);
        } else {
            for &(symbol, class) in group {
                let (token, extra) = token(symbol);
                f(class, token, extra, symbol.unsigned_abs());
            }
        }
    };
    visit(level, d, mask, segment, |place, class| {
        let symbol = symbols[place].to_i64();
        group[filled] = (symbol, class);
        any |= symbol;
        filled += 1;
        if filled == GROUP {
            flush(&group, any);
            (filled, any) = (0, 0);
        }
    });
    if filled > 0 {
        flush(&group[..filled], any);
    }
}

/// How often each token occurs in each of the level's contexts; segments without a nonzero symbol do not count.
pub(super) fn histograms<S: Symbol>(symbols: &[S], level: &Level, d: usize, mask: Option<&Mask>) -> [Histogram; CLASSES] {
    (0..level.segments().div_ceil(TASK))
        .into_par_iter()
        .map(|task| {
            let mut counts = [[0; TOKENS]; CLASSES];
            for segment in task * TASK..((task + 1) * TASK).min(level.segments()) {
                if !is_zero(symbols, level, segment) {
                    tokens(symbols, level, d, mask, segment, |class, token, _, _| counts[class][token as usize] += 1);
                }
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

fn is_zero<S: Symbol>(symbols: &[S], level: &Level, segment: usize) -> bool {
    symbols[segment * level.segment..((segment + 1) * level.segment).min(level.places)].iter().all(|&k| k == S::default())
}

/// Codes a level. A segment whose symbols are all 0 has no bytes.
pub(super) fn encode<S: Symbol>(symbols: &[S], level: &Level, d: usize, mask: Option<&Mask>, books: &[Codebook]) -> Stream {
    let tasks: Vec<(Vec<u16>, Vec<u8>)> = (0..level.segments().div_ceil(TASK))
        .into_par_iter()
        .map(|task| {
            let mut writer = BitWriter::default();
            let mut lengths = Vec::with_capacity(TASK);
            for segment in task * TASK..((task + 1) * TASK).min(level.segments()) {
                let before = writer.bytes().len();
                if !is_zero(symbols, level, segment) {
                    tokens(symbols, level, d, mask, segment, |class, token, extra, magnitude| {
                        let (code, length) = books[class].code(token as usize);
                        let raw = magnitude & ((1 << extra) - 1);
                        if extra <= 40 {
                            writer.put(code | raw << length, length + extra);
                        } else {
                            writer.put(code, length);
                            writer.put(raw, extra);
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
    for (lengths, payload) in tasks {
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
    symbols.par_chunks_mut(TASK * level.segment).enumerate().try_for_each(|(task, symbols)| {
        let base = task * TASK * level.segment;
        for segment in task * TASK..((task + 1) * TASK).min(level.segments()) {
            let length = usize::from(lengths[segment]);
            if length == 0 {
                continue;
            }
            let mut reader = BitReader::new(&payload[offsets[segment]..][..length]);
            let (mut known, mut in_group, mut zeros) = (true, 0, false);
            visit(level, d, mask, segment, |place, class| {
                let first = in_group == 0;
                in_group = (in_group + 1) % GROUP;
                if zeros && !first {
                    return;
                }
                let bits = reader.peek();
                let entry = tables[class][bits as usize & ((1 << MAX_LENGTH) - 1)];
                let (token, length) = (u32::from(entry & 0xFF), u32::from(entry >> 8));
                zeros = token == ZERO_GROUP;
                known &= length > 0 && (first || !zeros);
                if zeros {
                    reader.skip(length);
                    return;
                }
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
