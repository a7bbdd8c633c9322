//! Bits to symbols: segments of a level in parallel, two at a time, whose chains of dependent steps overlap.

use bmgard_core::Symbol;
use bmgard_core::token::{ESCAPE, ESCAPED_BITS, GROUP, TOKENS, ZERO_GROUP, extra_bits, value};
use rayon::prelude::*;

use super::order::{MAX_SEGMENT, Order, Room};
use super::simd::simd;
use crate::bits::BitReader;
use crate::huffman::{Codebook, MAX_LENGTH};
use crate::plan::Level;
use crate::special::Mask;
use crate::{Error, Result};

/// Segments that one task works on.
const TASK: usize = 32;

/// What the next bits mean, in the bits of a number: how many bits a token and its extra bits have (6 bits), how many of them are the
/// code (4), how many extra bits there are (6), the two highest bits of the magnitude (2), the sign (1); and two flags.
#[derive(Clone, Copy)]
struct Entry(u32);

impl Entry {
    /// Escaped: a token follows as it is.
    const ESCAPED: u32 = 1 << 29;
    /// Not a symbol: a group of zeros, an escape, or no code.
    const NO_SYMBOL: u32 = 1 << 30;
    /// No code starts so.
    const NO_CODE: u32 = 1 << 31;

    const INVALID: Self = Self(Self::NO_SYMBOL | Self::NO_CODE);

    fn new(token: u32, length: u32) -> Self {
        match token {
            ZERO_GROUP => return Self(length | length << 6 | Self::NO_SYMBOL),
            ESCAPE => return Self(length | length << 6 | Self::NO_SYMBOL | Self::ESCAPED),
            _ => {}
        }
        let extra = extra_bits(token);
        let least = value(token, 0);
        let top = (least.unsigned_abs() >> extra) as u32;
        Self((length + extra) | length << 6 | extra << 10 | top << 16 | u32::from(least < 0) << 18)
    }

    /// The bits of the token and its extra bits.
    #[inline(always)]
    fn total(self) -> u32 {
        self.0 & 63
    }

    #[inline(always)]
    fn length(self) -> u32 {
        self.0 >> 6 & 15
    }

    #[inline(always)]
    fn extra(self) -> u32 {
        self.0 >> 10 & 63
    }

    /// The symbol, given its extra bits and whatever follows.
    #[inline(always)]
    fn symbol<S: Symbol>(self, extra_bits: u64) -> S {
        let extra = self.extra();
        let magnitude = u64::from(self.0 >> 16 & 3) << extra | extra_bits & ((1 << extra) - 1);
        let sign = -i64::from(self.0 >> 18 & 1);
        S::from_i64((magnitude as i64 ^ sign) - sign)
    }
}

/// Entries for all values of the next 12 bits, in four contexts (one more than there are, so that indices need no check).
pub(super) struct Tables {
    entries: Box<[Entry; 4 << MAX_LENGTH]>,
    /// The most bits that a token has with its extra bits.
    longest: u32,
}

impl Tables {
    pub(super) fn new(books: &[Codebook]) -> Self {
        let mut tables = Self { entries: Box::new([Entry::INVALID; 4 << MAX_LENGTH]), longest: 0 };
        for (book, entries) in books.iter().zip(tables.entries.as_chunks_mut::<{ 1 << MAX_LENGTH }>().0) {
            book.for_each_start(|bits, token, length| {
                entries[bits] = Entry::new(token, length);
                tables.longest = tables.longest.max(entries[bits].total());
            });
        }
        tables
    }

    #[inline(always)]
    fn entry(&self, class: u8, bits: u64) -> Entry {
        self.entries[usize::from(class & 3) << MAX_LENGTH | bits as usize & ((1 << MAX_LENGTH) - 1)]
    }
}

/// Decodes the next symbol; with `SPLIT`, its code and extra bits may be more than a filled reader holds.
#[inline(always)]
fn take_symbol<S: Symbol, const SPLIT: bool>(entry: Entry, reader: &mut BitReader<'_>) -> S {
    if SPLIT {
        reader.skip(entry.length());
        reader.refill();
        let symbol = entry.symbol(reader.word());
        reader.skip(entry.extra());
        symbol
    } else {
        let symbol = entry.symbol(reader.word() >> entry.length());
        reader.skip(entry.total());
        symbol
    }
}

/// Decodes a group; `PER_REFILL` symbols fit a filled reader, 0: not even one. Returns flags of [`Entry`] where it is not valid.
#[inline(always)]
fn take_group<S: Symbol, const PER_REFILL: usize>(tables: &Tables, reader: &mut BitReader<'_>, classes: &[u8], out: &mut [S]) -> u32 {
    reader.refill();
    let start = *reader;
    let first = tables.entry(classes[0], reader.word());
    if first.0 & Entry::NO_SYMBOL != 0 {
        if first.0 & Entry::ESCAPED != 0 {
            return take_escaped_group(tables, reader, classes, out);
        }
        out.fill(S::default());
        reader.skip(first.total());
        return first.0 & Entry::NO_CODE;
    }
    let mut flags = 0;
    for (i, (&class, symbol)) in classes.iter().zip(&mut *out).enumerate() {
        let entry = if i == 0 {
            first
        } else {
            if PER_REFILL == 0 || i % PER_REFILL == 0 {
                reader.refill();
            }
            tables.entry(class, reader.word())
        };
        flags |= entry.0;
        *symbol = if PER_REFILL == 0 { take_symbol::<S, true>(entry, reader) } else { take_symbol::<S, false>(entry, reader) };
    }
    if flags & Entry::ESCAPED != 0 {
        *reader = start;
        return take_escaped_group(tables, reader, &classes[..out.len()], out);
    }
    flags & Entry::NO_SYMBOL
}

/// Decodes a group that has escaped tokens, one step after the other.
#[cold]
fn take_escaped_group<S: Symbol>(tables: &Tables, reader: &mut BitReader<'_>, classes: &[u8], out: &mut [S]) -> u32 {
    for (i, (&class, symbol)) in classes.iter().zip(&mut *out).enumerate() {
        reader.refill();
        let mut entry = tables.entry(class, reader.word());
        if entry.0 & Entry::ESCAPED != 0 {
            reader.skip(entry.length());
            let token = reader.word() as u32 & ((1 << ESCAPED_BITS) - 1);
            reader.skip(ESCAPED_BITS);
            reader.refill();
            entry = if token < TOKENS as u32 && token != ESCAPE { Entry::new(token, 0) } else { Entry::INVALID };
        }
        if entry.0 & Entry::NO_SYMBOL != 0 {
            reader.skip(entry.total());
            if i == 0 && entry.0 & Entry::NO_CODE == 0 {
                out.fill(S::default());
                return 0;
            }
            return Entry::NO_SYMBOL;
        }
        *symbol = take_symbol::<S, true>(entry, reader);
    }
    0
}

simd! {
    /// Decodes the symbols of `STREAMS` segments with the same classes. Returns flags of [`Entry`] where one is not valid.
    fn take_segments<S: Symbol, const STREAMS: usize, const PER_REFILL: usize>(
        tables: &Tables,
        readers: &mut [BitReader<'_>; STREAMS],
        classes: &[u8],
        out: [&mut [S]; STREAMS],
    ) -> u32 {
        let mut flags = 0;
        let mut out = out.map(|out| out.as_chunks_mut::<GROUP>());
        let (groups, last) = classes.as_chunks::<GROUP>();
        for (group, classes) in groups.iter().enumerate() {
            for (reader, (out, _)) in readers.iter_mut().zip(&mut out) {
                flags |= take_group::<S, PER_REFILL>(tables, reader, classes, &mut out[group]);
            }
        }
        if !last.is_empty() {
            for (reader, (_, out)) in readers.iter_mut().zip(&mut out) {
                flags |= take_group::<S, PER_REFILL>(tables, reader, last, out);
            }
        }
        flags
    }
}

impl Tables {
    /// Decodes segments with the same classes; false where their bits are not what a writer writes.
    fn decode<S: Symbol, const STREAMS: usize>(
        &self,
        payload: &[u8],
        ranges: [(usize, usize); STREAMS],
        classes: &[u8],
        out: [&mut [S]; STREAMS],
    ) -> bool {
        let mut readers = ranges.map(|(start, _)| BitReader::new(payload, start));
        let flags = match BitReader::FILLED / self.longest.max(1) {
            0 => take_segments::<S, STREAMS, 0>(self, &mut readers, classes, out),
            1 => take_segments::<S, STREAMS, 1>(self, &mut readers, classes, out),
            _ => take_segments::<S, STREAMS, 2>(self, &mut readers, classes, out),
        };
        flags == 0 && readers.iter().zip(ranges).all(|(reader, (_, length))| reader.used() == length)
    }
}

/// A level's coded segments.
pub(super) struct Segments<'a> {
    payload: &'a [u8],
    /// Where each starts, and its bytes.
    ranges: Vec<(usize, usize)>,
    tables: Tables,
}

/// A segment whose places are all coded: its range in the payload, its classes, its symbols.
type Whole<'a, S> = ((usize, usize), &'static [u8], &'a mut [S]);

fn corrupt(what: &str) -> Error {
    Error::Corrupt(format!("a level's {what}"))
}

impl<'a> Segments<'a> {
    /// # Errors
    /// [`Error::Corrupt`] where lengths and payload disagree.
    pub(super) fn new(lengths: &[u16], payload: &'a [u8], level: &Level, books: &[Codebook]) -> Result<Self> {
        let mut offset = 0;
        let ranges: Vec<(usize, usize)> = lengths
            .iter()
            .map(|&length| {
                let start = offset;
                offset += usize::from(length);
                (start, usize::from(length))
            })
            .collect();
        if lengths.len() != level.segments() || offset != payload.len() {
            return Err(corrupt("segment lengths do not match its payload"));
        }
        Ok(Self { payload, ranges, tables: Tables::new(books) })
    }

    /// Decodes the segments from `first` on into `symbols`, their places in order. Places that are not coded are set to 0.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where bits are no code.
    pub(super) fn decode<S: Symbol>(&self, level: &Level, d: usize, mask: Option<&Mask>, first: usize, symbols: &mut [S]) -> Result<()> {
        let (mut room, mut packed) = (Room::new(), [S::default(); MAX_SEGMENT]);
        // A whole segment that waits for another to be decoded with.
        let mut waiting: Option<Whole<'_, S>> = None;
        let mut valid = true;
        for (segment, symbols) in (first..).zip(symbols.chunks_mut(level.segment)) {
            let range = self.ranges[segment];
            if range.1 == 0 {
                symbols.fill(S::default());
                continue;
            }
            let classes = match Order::new(level, d, mask, segment, &mut room) {
                Order::Whole(classes) => classes,
                Order::Part { places, classes } => {
                    let packed = &mut packed[..places.len()];
                    valid &= self.tables.decode(self.payload, [range], classes, [&mut *packed]);
                    symbols.fill(S::default());
                    Order::unpack(places, packed, symbols);
                    continue;
                }
            };
            waiting = match waiting {
                Some((other_range, other_classes, other)) if other_classes.len() == classes.len() => {
                    valid &= self.tables.decode(self.payload, [other_range, range], classes, [other, symbols]);
                    None
                }
                Some((other_range, other_classes, other)) => {
                    valid &= self.tables.decode(self.payload, [other_range], other_classes, [other]);
                    Some((range, classes, symbols))
                }
                None => Some((range, classes, symbols)),
            };
        }
        if let Some((range, classes, symbols)) = waiting {
            valid &= self.tables.decode(self.payload, [range], classes, [symbols]);
        }
        if valid { Ok(()) } else { Err(corrupt("payload is not what its codebook writes")) }
    }

    /// Decodes all of them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where bits are no code.
    pub(super) fn decode_all<S: Symbol>(&self, level: &Level, d: usize, mask: Option<&Mask>) -> Result<Vec<S>> {
        let mut symbols = vec![S::default(); level.places];
        symbols
            .par_chunks_mut(TASK * level.segment)
            .enumerate()
            .try_for_each(|(task, symbols)| self.decode(level, d, mask, task * TASK, symbols))?;
        Ok(symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::encode::{encode, histograms};
    use crate::plan::{CLASSES, ChunkPlan, Dims, Levels, count};

    /// Symbols up to 2^bits, a third of the groups zeros; a stretch of segments without any.
    fn symbols<S: Symbol>(places: usize, bits: u32) -> Vec<S> {
        let mut state = 1u64;
        let symbol = |place: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let silent = place / 13 % 3 == 1 || place / 2000 % 4 == 1;
            S::from_i64(if silent { 0 } else { (state as i64) >> (63 - bits) >> ((state >> 7) % u64::from(bits)) })
        };
        (0..places).map(symbol).collect()
    }

    fn check<S: Symbol>(dims: Dims, d: usize, masked: bool, bits: u32) {
        let plan = ChunkPlan::new(dims, d, Levels { local: 1, global: 1 });
        let mut mask = Mask::new(count(plan.levels[0].dims) as usize);
        (0..count(plan.levels[0].dims) as usize).filter(|i| i / 50 % 9 < 2).for_each(|i| mask.set(i));
        for (index, level) in plan.levels.iter().enumerate() {
            let mask = Some(&mask).filter(|_| index == 0 && masked);
            let mut expected = vec![S::default(); level.places];
            let all = symbols::<S>(level.places, bits);
            let mut room = Room::new();
            for segment in 0..level.segments() {
                let base = segment * level.segment;
                let order = Order::new(level, d, mask, segment, &mut room);
                for i in 0..order.classes().len() {
                    let place = base + if let Order::Part { places, .. } = order { usize::from(places[i]) } else { i };
                    expected[place] = all[place];
                }
            }
            let counts = histograms(&expected, level, d, mask);
            assert_eq!(counts.len(), CLASSES);
            // Codes of all tokens, of those that are often met, and of none.
            let often = counts.map(|counts| counts.map(|n| if n > 40 { n } else { 0 }));
            for books in
                [counts.map(|c| Codebook::new(&c)), often.map(|c| Codebook::sampled(&c)), [[0; TOKENS]; 3].map(|c| Codebook::sampled(&c))]
            {
                let stream = encode(&expected, level, d, mask, &books);
                assert!(stream.lengths.iter().any(|&length| length > 0));
                let decode =
                    |lengths: &[u16], payload: &[u8]| Segments::new(lengths, payload, level, &books)?.decode_all::<S>(level, d, mask);
                let decoded = decode(&stream.lengths, &stream.payload).unwrap();
                assert!(decoded == expected, "{dims:?} {index} {masked} {bits}");
                let mut lengths = stream.lengths.clone();
                let coded = lengths.iter().rposition(|&length| length > 0).unwrap();
                lengths[coded] -= 1;
                let short = &stream.payload[..stream.payload.len() - 1];
                assert!(decode(&lengths, short).is_err());
                assert!(decode(&stream.lengths, short).is_err());
            }
        }
    }

    #[test]
    fn symbols_of_every_size_come_back() {
        for (dims, d) in [([16, 24, 40], 3), ([17, 20, 31], 3), ([1, 64, 72], 2), ([1, 50, 201], 2), ([1, 1, 9000], 1)] {
            for masked in [false, true] {
                for bits in [1, 7, 9, 15, 21] {
                    check::<i32>(dims, d, masked, bits);
                    check::<i64>(dims, d, masked, bits);
                }
                check::<i64>(dims, d, masked, 35);
                check::<i64>(dims, d, masked, 50);
            }
        }
    }
}
