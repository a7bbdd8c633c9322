//! Symbols to bits: segments of a level in parallel, each a bit string of its own.
//!
//! Symbols of a segment are packed (for whole tiles they already are) and coded in groups of 8. Nearly all groups are either zeros
//! alone or small symbols alone: those go through one table that holds code and extra bits of every small symbol in every context.

use bmgard_core::Symbol;
use bmgard_core::token::{ESCAPE, ESCAPED_BITS, GROUP, TOKENS, ZERO_GROUP, token};
use rayon::prelude::*;

use super::order::{MAX_SEGMENT, Order, Room};
use super::simd::simd;
use crate::backend::Stream;
use crate::bits::BitWriter;
use crate::huffman::{Codebook, Histogram};
use crate::plan::{CLASSES, Level};
use crate::special::Mask;

/// Segments that one task codes.
const TASK: usize = 32;

/// Sampled segments whose counts are kept apart: they fit 32 bits.
const COUNT_TASK: usize = 256;

/// Symbols of -SMALL ..= SMALL - 1 are in the tables, which stay within the first-level cache.
const SMALL: i64 = 1 << 8;

/// A table over the small symbols of four contexts (one more than there are, so that indices need no check).
const TABLE: usize = 4 * 2 * SMALL as usize;

/// Where a small symbol stands in a table.
#[inline(always)]
fn slot(class: u8, symbol: i64) -> usize {
    (usize::from(class) * 2 * SMALL as usize + (symbol + SMALL) as usize) % TABLE
}

/// The bits that any symbol of a group has, with negative ones complemented: below [`SMALL`] if all are small.
#[inline(always)]
fn spread<S: Symbol>(group: &[S; GROUP]) -> i64 {
    group.iter().fold(0, |bits, symbol| bits | (symbol.to_i64() ^ (symbol.to_i64() >> 63)))
}

#[inline(always)]
fn is_zero<S: Symbol>(symbols: &[S]) -> bool {
    symbols.iter().fold(0, |bits, symbol| bits | symbol.to_i64()) == 0
}

/// Counts of symbols and tokens.
struct Counts {
    /// Of small symbols. Symbols at odd places are counted apart: an increment right after one of the same counter would wait for it.
    small: [[u32; TABLE]; 2],
    /// Of tokens: zero groups, and symbols in groups with others than small ones.
    tokens: [Histogram; CLASSES],
}

impl Counts {
    fn new() -> Self {
        Self { small: [[0; TABLE]; 2], tokens: [[0; TOKENS]; CLASSES] }
    }

    /// All counts by token; those of small symbols start at 0 again.
    fn collect(&mut self) {
        for (class, tokens) in (0..).zip(&mut self.tokens) {
            for symbol in -SMALL..SMALL {
                let at = slot(class, symbol);
                let count = u64::from(self.small[0][at]) + u64::from(self.small[1][at]);
                tokens[token(symbol).0 as usize] += count;
            }
        }
        self.small = [[0; TABLE]; 2];
    }
}

simd! {
    /// Counts a segment's tokens.
    fn count<S: Symbol>(symbols: &[S], classes: &[u8], counts: &mut Counts) {
        let (groups, last) = symbols.as_chunks::<GROUP>();
        let (group_classes, last_classes) = classes.as_chunks::<GROUP>();
        let [even, odd] = &mut counts.small;
        for (group, classes) in groups.iter().zip(group_classes) {
            if is_zero(group) {
                counts.tokens[usize::from(classes[0])][ZERO_GROUP as usize] += 1;
            } else if spread(group) < SMALL {
                for i in (0..GROUP).step_by(2) {
                    even[slot(classes[i], group[i].to_i64())] += 1;
                    odd[slot(classes[i + 1], group[i + 1].to_i64())] += 1;
                }
            } else {
                for (symbol, &class) in group.iter().zip(classes) {
                    counts.tokens[usize::from(class)][token(symbol.to_i64()).0 as usize] += 1;
                }
            }
        }
        if !last.is_empty() && is_zero(last) {
            counts.tokens[usize::from(last_classes[0])][ZERO_GROUP as usize] += 1;
        } else {
            for (symbol, &class) in last.iter().zip(last_classes) {
                counts.tokens[usize::from(class)][token(symbol.to_i64()).0 as usize] += 1;
            }
        }
    }
}

/// A segment's symbols, all of its places.
fn segment_of<'a, S>(symbols: &'a [S], level: &Level, segment: usize) -> &'a [S] {
    &symbols[segment * level.segment..((segment + 1) * level.segment).min(level.places)]
}

/// Whether all of a segment's symbols are 0.
fn is_zero_segment<S: Symbol>(symbols: &[S]) -> bool {
    symbols.chunks(64).all(is_zero)
}

/// How often each token occurs in the sampled segments, in each of the level's contexts; segments without a nonzero symbol do not count.
pub(super) fn histograms<S: Symbol>(symbols: &[S], level: &Level, d: usize, mask: Option<&Mask>) -> [Histogram; CLASSES] {
    let zero = || [[0; TOKENS]; CLASSES];
    (0..level.sampled_segments().div_ceil(COUNT_TASK))
        .into_par_iter()
        .fold(
            || Box::new((Counts::new(), Room::new(), [S::default(); MAX_SEGMENT])),
            |mut state, task| {
                let (counts, room, packed) = &mut *state;
                for sample in task * COUNT_TASK..((task + 1) * COUNT_TASK).min(level.sampled_segments()) {
                    let segment = sample * level.sample_stride();
                    let symbols = segment_of(symbols, level, segment);
                    if !is_zero_segment(symbols) {
                        let order = Order::new(level, d, mask, segment, room);
                        count(order.pack(symbols, packed), order.classes(), counts);
                    }
                }
                counts.collect();
                state
            },
        )
        .map(|state| state.0.tokens)
        .reduce(zero, |mut a, b| {
            a.iter_mut().flatten().zip(b.iter().flatten()).for_each(|(a, b)| *a += b);
            a
        })
}

/// Codes of a level's contexts.
struct Codes<'a> {
    books: &'a [Codebook],
    /// Per small symbol: code and extra bits << 6 | their number.
    small: Box<[u32; TABLE]>,
}

impl<'a> Codes<'a> {
    fn new(books: &'a [Codebook]) -> Self {
        let mut small = Box::new([0; TABLE]);
        for (class, book) in (0..).zip(books) {
            for symbol in -SMALL..SMALL {
                let (bits, length) = Self::bits(book, symbol);
                small[slot(class, symbol)] = (bits << 6) as u32 | length;
            }
        }
        Self { books, small }
    }

    /// A token's code, escaped where it has none, and its bits.
    #[inline(always)]
    fn code(book: &Codebook, token: u32) -> (u64, u32) {
        let (code, length) = book.code(token as usize);
        if length > 0 {
            return (code, length);
        }
        let (code, length) = book.code(ESCAPE as usize);
        (code | u64::from(token) << length, length + ESCAPED_BITS)
    }

    /// The code and the extra bits of a symbol whose magnitude is below 2^32, and their number.
    #[inline(always)]
    fn bits(book: &Codebook, symbol: i64) -> (u64, u32) {
        let (token, extra) = token(symbol);
        let (code, length) = Self::code(book, token);
        let raw = symbol.unsigned_abs() & ((1 << extra) - 1);
        (code | raw << length, length + extra)
    }

    #[inline(always)]
    fn put(&self, writer: &mut BitWriter<'_>, class: u8, symbol: i64) {
        let book = &self.books[usize::from(class)];
        if symbol.unsigned_abs() < 1 << 32 {
            let (bits, count) = Self::bits(book, symbol);
            writer.put(bits, count);
        } else {
            let (token, extra) = token(symbol);
            let (code, length) = Self::code(book, token);
            writer.put(code, length);
            writer.put(symbol.unsigned_abs() & ((1 << extra) - 1), extra);
        }
    }

    #[inline(always)]
    fn put_zeros(&self, writer: &mut BitWriter<'_>, class: u8) {
        let (code, length) = Self::code(&self.books[usize::from(class)], ZERO_GROUP);
        writer.put(code, length);
    }
}

simd! {
    /// Codes a segment.
    fn code<S: Symbol>(symbols: &[S], classes: &[u8], codes: &Codes<'_>, writer: &mut BitWriter<'_>) {
        let (groups, last) = symbols.as_chunks::<GROUP>();
        let (group_classes, last_classes) = classes.as_chunks::<GROUP>();
        for (group, classes) in groups.iter().zip(group_classes) {
            if is_zero(group) {
                codes.put_zeros(writer, classes[0]);
            } else if spread(group) < SMALL {
                // Two symbols have at most 2 * (12 + 8 + 6) bits.
                for i in (0..GROUP).step_by(2) {
                    let a = codes.small[slot(classes[i], group[i].to_i64())];
                    let b = codes.small[slot(classes[i + 1], group[i + 1].to_i64())];
                    let bits = u64::from(a >> 6) | u64::from(b >> 6) << (a & 63);
                    writer.put(bits, (a & 63) + (b & 63));
                }
            } else {
                group.iter().zip(classes).for_each(|(symbol, &class)| codes.put(writer, class, symbol.to_i64()));
            }
        }
        if !last.is_empty() && is_zero(last) {
            codes.put_zeros(writer, last_classes[0]);
        } else {
            last.iter().zip(last_classes).for_each(|(symbol, &class)| codes.put(writer, class, symbol.to_i64()));
        }
    }
}

/// The most bytes that a segment can have, and room for the writer. Symbols are below 2^51: they have at most 12 + 8 + 49 bits.
const SEGMENT_BYTES: usize = MAX_SEGMENT * 69 / 8 + 1 + BitWriter::SLACK;

/// Codes a level. A segment whose symbols are all 0 has no bytes.
pub(super) fn encode<S: Symbol>(symbols: &[S], level: &Level, d: usize, mask: Option<&Mask>, books: &[Codebook]) -> Stream {
    let codes = Codes::new(books);
    let tasks: Vec<(Vec<u16>, Vec<u8>)> = (0..level.segments().div_ceil(TASK))
        .into_par_iter()
        .map(|task| {
            let (mut room, mut packed) = (Room::new(), [S::default(); MAX_SEGMENT]);
            let mut bytes = Vec::new();
            let mut lengths = Vec::with_capacity(TASK);
            let mut at = 0;
            for segment in task * TASK..((task + 1) * TASK).min(level.segments()) {
                let symbols = segment_of(symbols, level, segment);
                let mut length = 0;
                if !is_zero_segment(symbols) {
                    if bytes.len() < at + SEGMENT_BYTES {
                        bytes.resize(at + 2 * SEGMENT_BYTES, 0);
                    }
                    let order = Order::new(level, d, mask, segment, &mut room);
                    let mut writer = BitWriter::new(&mut bytes[at..]);
                    code(order.pack(symbols, &mut packed), order.classes(), &codes, &mut writer);
                    length = writer.finish();
                }
                lengths.push(length as u16);
                at += length;
            }
            bytes.truncate(at);
            (lengths, bytes)
        })
        .collect();
    let mut stream = Stream { lengths: Vec::with_capacity(level.segments()), payload: Vec::new() };
    stream.payload.reserve_exact(tasks.iter().map(|(_, bytes)| bytes.len()).sum());
    for (lengths, payload) in tasks {
        stream.lengths.extend(lengths);
        stream.payload.extend(payload);
    }
    stream
}
