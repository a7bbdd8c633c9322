//! The coded bits of a tile: `docs/format.md` describes them, [`bmgard_core::closed::rice`] has the numbers.

use bmgard_core::closed::TILE_NODES;
use bmgard_core::closed::rice::{
    BLOCK, BLOCKS, CAP, FAR, FOLDED, MAX_PARAMETER, PARAMETER_BITS, POSITION_BITS, STEP_BITS, fold, groups, pack, parameter, unfold, unpack,
};

use super::plan::Plan;
use crate::Value;
use crate::backend::cpu::simd::simd;
use crate::bits::{BitReader, BitWriter};

/// The symbol of a node whose value is stored exactly, in what is decoded.
pub(super) const ESCAPED: i32 = i32::MIN;

/// Quads of a block.
const QUADS: usize = BLOCK / 4;

/// Four low parts, or four quotients, of no more bits than this are written and read at once.
const AT_ONCE: u32 = BitReader::FILLED;

/// The most bytes before the quotients of a tile: flags, parameters, bitmaps, low bits.
const LONGEST_LOW: usize = (64 + BLOCKS * (STEP_BITS + PARAMETER_BITS + 4 + 32) as usize + TILE_NODES * MAX_PARAMETER as usize) / 8 + 1;

/// The most bytes after them, before the tile is found to be too long: quotients, escapes.
const LONGEST_HIGH: usize = TILE_NODES * (CAP + 1 + 32 + POSITION_BITS + 64) as usize / 8 + 8;

/// Of each quad of a block the first number, then of each the second, ..
type Quads = [[u32; QUADS]; 4];

/// The folded symbols of a block, and what they look like.
#[derive(Clone, Copy)]
struct Block {
    folded: Quads,
    live: u32,
    parameter: u32,
}

impl Block {
    #[inline(always)]
    fn new(places: &[i32; TILE_NODES], order: &[u16; BLOCK]) -> Self {
        let mut symbols = [0i32; BLOCK];
        for i in 0..BLOCK {
            symbols[i] = places[usize::from(order[i]) % TILE_NODES];
        }
        // Plain loops: closures would not be compiled for more instructions.
        let mut folded = [[0; QUADS]; 4];
        for i in 0..4 {
            for quad in 0..QUADS {
                folded[i][quad] = fold(symbols[4 * quad + i]);
            }
        }
        let (mut live, mut sum) = (0, 0);
        for quad in 0..QUADS {
            let any = folded[0][quad] | folded[1][quad] | folded[2][quad] | folded[3][quad];
            live |= u32::from(any != 0) << quad;
        }
        if live == 0 {
            return Self { folded, live, parameter: 0 };
        }
        for symbols in &folded {
            for &folded in symbols {
                sum += u64::from(folded);
            }
        }
        Self { folded, live, parameter: parameter(sum, live.count_ones()) }
    }
}

/// Buffers for coding one tile after another.
pub(super) struct Coder {
    blocks: Vec<Block>,
    bytes: Vec<u8>,
    high: Vec<u8>,
}

impl Coder {
    pub(super) fn new() -> Self {
        let room = |longest| vec![0; longest + BitWriter::SLACK];
        Self { blocks: Vec::new(), bytes: room(LONGEST_LOW + LONGEST_HIGH), high: room(LONGEST_HIGH) }
    }

    /// Codes a tile; no bytes where all its symbols are 0 and nothing is escaped. Escapes are sorted.
    pub(super) fn encode<T: Value>(&mut self, plan: &Plan, places: &[i32; TILE_NODES], escapes: &mut [(u16, T)]) -> &[u8] {
        if escapes.is_empty() && places.iter().fold(0, |any, symbol| any | symbol) == 0 {
            return &[];
        }
        escapes.sort_unstable_by_key(|&(node, _)| node);
        let length = encode(plan, places, escapes, self);
        &self.bytes[..length]
    }
}

simd! {
    fn encode<T: Value>(plan: &Plan, places: &[i32; TILE_NODES], escapes: &[(u16, T)], coder: &mut Coder) -> usize {
        let Coder { blocks, bytes, high } = coder;
        blocks.clear();
        for order in plan.order.as_chunks::<BLOCK>().0 {
            blocks.push(Block::new(places, order));
        }
        let mut low = BitWriter::new(bytes);
        put_header(&mut low, blocks, !escapes.is_empty());
        let mut high = BitWriter::new(high);
        // Quotients start within a byte of low bits: they are put together at last.
        let bits = blocks.iter().map(|block| 4 * block.live.count_ones() * block.parameter).sum::<u32>();
        let skipped = (low.bits() + bits as usize) % 8;
        high.put(0, skipped as u32);
        let mut any_capped = false;
        for block in blocks.iter() {
            if block.live != 0 {
                put_low(&mut low, block);
                any_capped |= put_quotients(&mut high, block);
            }
        }
        if any_capped {
            put_capped(&mut high, blocks);
        }
        if !escapes.is_empty() {
            put_escapes(&mut high, escapes);
        }
        let (start, length) = (low.bits() / 8, high.finish());
        low.append(&coder.high[..length]);
        start + length
    }
}

/// Writes what comes before the low bits.
#[inline(always)]
fn put_header(writer: &mut BitWriter<'_>, blocks: &[Block], escapes: bool) {
    let live = || blocks.iter().filter(|block| block.live != 0);
    writer.put(u64::from(escapes), 1);
    writer.put(blocks.iter().enumerate().fold(0, |flags, (i, block)| flags | u64::from(block.live != 0) << i), BLOCKS as u32);
    let base = live().map(|block| block.parameter).min().unwrap_or(0);
    writer.put(u64::from(base), PARAMETER_BITS);
    live().for_each(|block| writer.put(u64::from((block.parameter - base).min(FAR)), STEP_BITS));
    live().filter(|block| block.parameter - base >= FAR).for_each(|block| writer.put(u64::from(block.parameter), PARAMETER_BITS));
    live().for_each(|block| writer.put(u64::from(groups(block.live)), 4));
    live().for_each(|block| writer.put(u64::from(pack(block.live)), 8 * groups(block.live).count_ones()));
}

/// Writes the low bits of a block.
#[inline(always)]
fn put_low(writer: &mut BitWriter<'_>, block: &Block) {
    let k = block.parameter;
    if k == 0 {
        return;
    }
    let mask = (1u64 << k) - 1;
    let mut rest = block.live;
    if 4 * k > AT_ONCE {
        while rest != 0 {
            let quad = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            block.folded.iter().for_each(|folded| writer.put(u64::from(folded[quad]) & mask, k));
        }
        return;
    }
    let mut low = [0u64; QUADS];
    for quad in 0..QUADS {
        let part = |i: usize| (u64::from(block.folded[i][quad]) & mask) << (i as u32 * k);
        low[quad] = part(0) | part(1) | part(2) | part(3);
    }
    while rest != 0 {
        let quad = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        writer.put(low[quad], 4 * k);
    }
}

/// Writes the quotients of a block. Returns whether some are capped.
#[inline(always)]
fn put_quotients(writer: &mut BitWriter<'_>, block: &Block) -> bool {
    let (mut ones, mut lengths, mut greatest) = ([0u64; QUADS], [0u32; QUADS], 0);
    for quad in 0..QUADS {
        let quotient = |i: usize| block.folded[i][quad] >> block.parameter;
        let capped = |i: usize| quotient(i).min(CAP);
        let first = capped(0);
        let second = first + capped(1) + 1;
        let third = second + capped(2) + 1;
        let fourth = third + capped(3) + 1;
        let one = |at: u32| 1u64 << (at & 63);
        ones[quad] = one(first) | one(second) | one(third) | one(fourth);
        lengths[quad] = fourth + 1;
        greatest = greatest.max(quotient(0).max(quotient(1)).max(quotient(2).max(quotient(3))));
    }
    let mut rest = block.live;
    while rest != 0 {
        let quad = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        if lengths[quad] <= AT_ONCE {
            writer.put(ones[quad], lengths[quad]);
        } else {
            for folded in &block.folded {
                let quotient = (folded[quad] >> block.parameter).min(CAP);
                writer.put(1 << quotient, quotient + 1);
            }
        }
    }
    greatest >= CAP
}

/// Writes quotients that are capped as they are.
#[cold]
fn put_capped(writer: &mut BitWriter<'_>, blocks: &[Block]) {
    for block in blocks {
        for quad in 0..QUADS {
            let quotients = block.folded.iter().map(|folded| folded[quad] >> block.parameter);
            quotients.filter(|&quotient| quotient >= CAP).for_each(|quotient| writer.put(quotient.into(), 32));
        }
    }
}

#[cold]
fn put_escapes<T: Value>(writer: &mut BitWriter<'_>, escapes: &[(u16, T)]) {
    writer.put(escapes.len() as u64 - 1, POSITION_BITS);
    escapes.iter().for_each(|&(node, _)| writer.put(u64::from(node), POSITION_BITS));
    for &(_, value) in escapes {
        let bits = value.bits();
        writer.put(bits & 0xFFFF_FFFF, 32);
        if size_of::<T>() == 8 {
            writer.put(bits >> 32, 32);
        }
    }
}

/// The next `count` (at most 32) bits.
#[inline(always)]
fn take(reader: &mut BitReader<'_>, count: u32) -> u32 {
    reader.refill();
    let bits = (reader.word() & ((1u64 << count) - 1)) as u32;
    reader.skip(count);
    bits
}

/// The live quads of each block, and their parameters; `None` where one is too great.
#[inline(always)]
fn take_header(reader: &mut BitReader<'_>) -> Option<([u32; BLOCKS], [u32; BLOCKS])> {
    let flags = take(reader, BLOCKS as u32);
    let base = take(reader, PARAMETER_BITS);
    let live = || (0..BLOCKS).filter(|block| flags >> block & 1 == 1);
    let (mut quads, mut parameters) = ([0; BLOCKS], [0; BLOCKS]);
    live().for_each(|block| parameters[block] = take(reader, STEP_BITS));
    for block in live() {
        let far = parameters[block] == FAR;
        parameters[block] = if far { take(reader, PARAMETER_BITS) } else { base + parameters[block] };
    }
    live().for_each(|block| quads[block] = take(reader, 4));
    for block in live() {
        let groups = quads[block];
        quads[block] = unpack(take(reader, 8 * groups.count_ones()), groups);
    }
    parameters.iter().all(|&parameter| parameter <= MAX_PARAMETER).then_some((quads, parameters))
}

/// A symbol whose quotient is capped: its place, the parameter, the low bits.
type Capped = (u16, u32, u32);

simd! {
    /// Decodes what [`Coder::encode`] wrote into the places of a tile, all 0 before, and appends its escapes; `None` where the bytes are
    /// not a tile's.
    pub(super) fn decode<T: Value>(plan: &Plan, bytes: &[u8], places: &mut [i32; TILE_NODES], escapes: &mut Vec<(u16, T)>) -> Option<()> {
        let mut low = BitReader::new(bytes, 0);
        let any_escapes = take(&mut low, 1) == 1;
        let (quads, parameters) = take_header(&mut low)?;
        let bits = quads.iter().zip(&parameters).map(|(quads, k)| 4 * quads.count_ones() * k).sum::<u32>();
        let start = low.bits() + bits as usize;
        let mut high = BitReader::new(bytes, start / 8);
        high.refill();
        high.skip((start % 8) as u32);
        let mut capped: Vec<Capped> = Vec::new();
        for block in (0..BLOCKS).filter(|&block| quads[block] != 0) {
            let order = &plan.order.as_chunks::<BLOCK>().0[block];
            take_block(&mut low, &mut high, quads[block], parameters[block], order, places, &mut capped)?;
        }
        for (place, k, low) in capped {
            places[usize::from(place)] = unfold((take(&mut high, 32) << k | low) & (FOLDED - 1));
        }
        if any_escapes {
            take_escapes(&mut high, plan, places, escapes)?;
        }
        // The last byte is filled with 0.
        let used = start / 8 + high.used();
        high.refill();
        (used == bytes.len() && high.word() & 0x7F == 0).then_some(())
    }
}

#[inline(always)]
fn take_block(
    low: &mut BitReader<'_>,
    high: &mut BitReader<'_>,
    live: u32,
    k: u32,
    order: &[u16; BLOCK],
    places: &mut [i32; TILE_NODES],
    capped: &mut Vec<Capped>,
) -> Option<()> {
    let mut quotients: Quads = [[0; QUADS]; 4];
    let mut rest = live;
    while rest != 0 {
        let quad = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let found = take_quotients(high);
        for i in 0..4 {
            quotients[i][quad] = found[i];
        }
    }
    let mut greatest = 0;
    for quotients in &quotients {
        for &quotient in quotients {
            greatest = greatest.max(quotient);
        }
    }
    if greatest > CAP {
        return None;
    }
    let mut lows: Quads = [[0; QUADS]; 4];
    if k > 0 {
        take_low(low, live, k, &mut lows);
    }
    let mut symbols = [0; BLOCK];
    for i in 0..4 {
        for quad in 0..QUADS {
            // Cut so that no damaged archive holds a symbol that there is none of.
            symbols[4 * quad + i] = unfold((quotients[i][quad] << k | lows[i][quad]) & (FOLDED - 1));
        }
    }
    for i in 0..BLOCK {
        places[usize::from(order[i]) % TILE_NODES] = symbols[i];
    }
    if greatest == CAP {
        for i in (0..BLOCK).filter(|i| quotients[i % 4][i / 4] == CAP) {
            capped.push((order[i], k, lows[i % 4][i / 4]));
        }
    }
    Some(())
}

/// Four quotients; one beyond [`CAP`] where they are none.
#[inline(always)]
fn take_quotients(reader: &mut BitReader<'_>) -> [u32; 4] {
    reader.refill();
    let first = reader.word();
    let second = first & first.wrapping_sub(1);
    let third = second & second.wrapping_sub(1);
    let fourth = third & third.wrapping_sub(1);
    let at = [first, second, third, fourth].map(u64::trailing_zeros);
    if at[3] < AT_ONCE {
        reader.skip(at[3] + 1);
        return [at[0], at[1] - at[0] - 1, at[2] - at[1] - 1, at[3] - at[2] - 1];
    }
    take_long_quotients(reader)
}

#[cold]
fn take_long_quotients(reader: &mut BitReader<'_>) -> [u32; 4] {
    let mut quotients = [0; 4];
    for quotient in &mut quotients {
        reader.refill();
        *quotient = reader.word().trailing_zeros();
        if *quotient > CAP {
            break;
        }
        reader.skip(*quotient + 1);
    }
    quotients
}

/// Reads the low bits of a block.
#[inline(always)]
fn take_low(reader: &mut BitReader<'_>, live: u32, k: u32, lows: &mut Quads) {
    let mut rest = live;
    if 4 * k > AT_ONCE {
        while rest != 0 {
            let quad = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            lows.iter_mut().for_each(|low| low[quad] = take(reader, k));
        }
        return;
    }
    let mut words = [0; QUADS];
    while rest != 0 {
        let quad = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        reader.refill();
        words[quad] = reader.word();
        reader.skip(4 * k);
    }
    let mask = (1u64 << k) - 1;
    for i in 0..4 {
        for quad in 0..QUADS {
            lows[i][quad] = (words[quad] >> (i as u32 * k) & mask) as u32;
        }
    }
}

#[cold]
fn take_escapes<T: Value>(
    reader: &mut BitReader<'_>,
    plan: &Plan,
    places: &mut [i32; TILE_NODES],
    escapes: &mut Vec<(u16, T)>,
) -> Option<()> {
    let count = take(reader, POSITION_BITS) + 1;
    let start = escapes.len();
    for _ in 0..count {
        let node = take(reader, POSITION_BITS) as u16;
        if escapes.get(start..)?.last().is_some_and(|&(before, _)| before >= node) {
            return None;
        }
        escapes.push((node, T::ZERO));
    }
    for (node, value) in &mut escapes[start..] {
        let mut bits = u64::from(take(reader, 32));
        if size_of::<T>() == 8 {
            bits |= u64::from(take(reader, 32)) << 32;
        }
        *value = T::from_bits_u64(bits);
        places[usize::from(plan.place_of[usize::from(*node)])] = ESCAPED;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use bmgard_core::closed::TileShape;

    use super::*;

    /// A small generator (splitmix64).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ z >> 31
        }

        fn below(&mut self, end: u64) -> u64 {
            self.next() % end
        }
    }

    fn plan() -> Plan {
        Plan::new([16, 16, 16], TileShape::CUBE)
    }

    /// Symbols by place, and escapes: nodes and the bits of their values.
    type Decoded = (Vec<i32>, Vec<(u16, u64)>);

    fn decoded(plan: &Plan, bytes: &[u8]) -> Option<Decoded> {
        let (mut places, mut escapes) = ([0; TILE_NODES], Vec::<(u16, f64)>::new());
        decode(plan, bytes, &mut places, &mut escapes)?;
        Some((places.to_vec(), escapes.into_iter().map(|(node, value)| (node, value.bits())).collect()))
    }

    /// Symbols of so many bits at most in each block, with a share of zeros and of others that are much greater.
    fn symbols(random: &mut Random, bits: impl Fn(&mut Random) -> u64, zeros: u64, great: u64) -> [i32; TILE_NODES] {
        let mut places = [0; TILE_NODES];
        let order = plan().order;
        for block in order.chunks(BLOCK) {
            let bits = bits(random);
            let quiet = random.below(100) < zeros;
            for &place in block {
                if place != 0 && !(quiet || random.below(100) < zeros) {
                    let bits = if random.below(1000) < great { 30 } else { bits };
                    let magnitude = random.below(1 << bits) as i32;
                    places[usize::from(place)] = if random.below(2) == 0 { magnitude } else { -magnitude };
                }
            }
        }
        places
    }

    #[test]
    fn tiles_come_back() {
        let (plan, mut coder, mut random) = (plan(), Coder::new(), Random(1));
        for round in 0..400 {
            let bits = |random: &mut Random| if round % 4 == 0 { random.below(31) } else { random.below(3) + round / 4 % 28 };
            let places = symbols(&mut random, bits, [0, 20, 90, 99][round as usize % 4], [0, 3, 0, 200][round as usize / 4 % 4]);
            let count = if round % 3 == 0 { random.below(50) } else { 0 };
            let mut nodes: Vec<u16> = (0..count).map(|_| random.below(4096) as u16).collect();
            nodes.sort_unstable();
            nodes.dedup();
            let mut places = places;
            nodes.iter().for_each(|&node| places[usize::from(plan.place_of[usize::from(node)])] = 0);
            let expected: Vec<(u16, u64)> = nodes.into_iter().map(|node| (node, random.next())).collect();
            // In any order.
            let mut escapes: Vec<(u16, f64)> = expected.iter().rev().map(|&(node, bits)| (node, f64::from_bits(bits))).collect();
            let bytes = coder.encode(&plan, &places, &mut escapes).to_vec();
            if bytes.is_empty() {
                assert!(places.iter().all(|&symbol| symbol == 0) && expected.is_empty());
                continue;
            }
            let mut with_escapes = places.to_vec();
            expected.iter().for_each(|&(node, _)| with_escapes[usize::from(plan.place_of[usize::from(node)])] = ESCAPED);
            assert_eq!(decoded(&plan, &bytes), Some((with_escapes, expected)), "{round}");
            // Neither a byte less nor one more.
            assert_eq!(decoded(&plan, &bytes[..bytes.len() - 1]), None, "{round}");
            assert_eq!(decoded(&plan, &[&bytes[..], &[0]].concat()), None, "{round}");
        }
    }

    /// The bits of fields, each with its number of bits.
    fn tile(fields: &[(u64, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let mut writer = BitWriter::new(&mut bytes);
        fields.iter().for_each(|&(bits, count)| writer.put(bits, count));
        let length = writer.finish();
        bytes.truncate(length);
        bytes
    }

    /// A tile whose only live quad is the second of block 2: parameters, low bits and quotients as given.
    fn one_quad(base: u64, step: u64, rest: &[(u64, u32)]) -> Vec<u8> {
        let head = [(0, 1), (1 << 2, 32), (base, 5), (step, 2)];
        let flags = [(1, 4), (1 << 1, 8)];
        let far = if step == 3 { vec![rest[0]] } else { vec![] };
        tile(&[&head[..], &far, &flags, &rest[far.len()..]].concat())
    }

    #[test]
    fn bits_that_are_no_tile_are_refused() {
        let plan = plan();
        let places: Vec<usize> = plan.order[2 * BLOCK + 4..][..4].iter().map(|&place| place.into()).collect();
        let found = |bytes: &[u8]| decoded(&plan, bytes).map(|(symbols, _)| places.iter().map(|&place| symbols[place]).collect::<Vec<_>>());
        // Folded: 0, 1, 6, 3, with k = 1.
        let low = [(0, 1), (1, 1), (0, 1), (1, 1)];
        let quotients = [(1, 1), (1, 1), (1 << 3, 4), (1 << 1, 2)];
        assert_eq!(found(&one_quad(1, 0, &[low, quotients].concat())), Some(vec![0, -1, 3, -2]));
        assert_eq!(found(&one_quad(0, 1, &[low, quotients].concat())), Some(vec![0, -1, 3, -2]));
        assert_eq!(found(&one_quad(9, 3, &[&[(1, 5)][..], &low, &quotients].concat())), Some(vec![0, -1, 3, -2]));
        // Bits beyond the last one: the tile ends within a byte.
        assert_eq!(found(&one_quad(1, 0, &[&low[..], &quotients, &[(1, 1)]].concat())), None);
        // Parameters up to 31.
        let great = |base, step| one_quad(base, step, &[&[(0, 31); 4][..], &[(1, 1); 4]].concat());
        assert_eq!(found(&great(31, 0)), Some(vec![0; 4]));
        assert_eq!(found(&one_quad(31, 1, &[&[(0, 32); 4][..], &[(1, 1); 4]].concat())), None);
        assert_eq!(found(&one_quad(31, 2, &[&[(0, 33); 4][..], &[(1, 1); 4]].concat())), None);
        // Quotients up to 23; 24 is followed by the number; 25 is none.
        let quotient =
            |zeros: u32, more: &[(u64, u32)]| one_quad(0, 0, &[&[(1, 1), (1 << zeros, zeros + 1), (1, 1), (1, 1)], more].concat());
        assert_eq!(found(&quotient(23, &[])), Some(vec![0, -12, 0, 0]));
        assert_eq!(found(&quotient(24, &[(1_000_000, 32)])), Some(vec![0, 500_000, 0, 0]));
        assert_eq!(found(&quotient(24, &[(u64::from(u32::MAX), 32)])), Some(vec![0, -(1 << 30), 0, 0]), "cut to 31 bits");
        assert_eq!(found(&quotient(24, &[])), None);
        assert_eq!(found(&quotient(25, &[])), None);
        assert_eq!(found(&quotient(25, &[(0, 32)])), None);
        // No quotients at all.
        assert_eq!(found(&one_quad(0, 0, &[])), None);
        assert_eq!(found(&one_quad(0, 0, &[(0, 56), (0, 56)])), None);
        // What is flagged may be 0; nothing may be flagged.
        assert_eq!(found(&tile(&[(0, 1), (0, 32), (0, 5)])), Some(vec![0; 4]));
        assert_eq!(found(&tile(&[(0, 1), (1, 32), (0, 5), (0, 2), (15, 4), (0, 32)])), Some(vec![0; 4]));
    }
}
