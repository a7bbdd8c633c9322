//! The coded bits of a tile: `docs/format.md` describes them, [`bmgard_core::closed::rice`] has the numbers.

use bmgard_core::closed::TILE_NODES;
use bmgard_core::closed::geometry::{GROUP, POOL};
use bmgard_core::closed::rice::{MAX_PARAMETER, MAX_PLANES, PARAMETER_BITS, POSITION_BITS, candidates, length, live, quads};

use super::plan::Plan;
use crate::Value;
use crate::bits::{BitReader, BitWriter};

/// The symbol of a node whose value is stored exactly, in what is decoded.
pub(super) const ESCAPED: i32 = i32::MIN;

/// The most bytes of a tile before it is found to be too long: per symbol its planes, quotient, low bits and sign; its escape; headers.
const LONGEST: usize = TILE_NODES * (MAX_PLANES as usize + 32 + MAX_PARAMETER as usize + 1 + POSITION_BITS as usize + 64) / 8 + 1024;

/// The streams of a tile, as ranges of positions: the pool and the classes after it.
fn streams(plan: &Plan) -> impl Iterator<Item = std::ops::Range<usize>> {
    let alone = plan.classes.iter().filter(|class| class.level < plan.shape.pooled_from());
    let classes = alone.map(|class| {
        let start = plan.shape.class_start(class.level, class.axes);
        start..start + (1 << plan.shape.class_log2(class.level))
    });
    std::iter::once(0..POOL).chain(classes)
}

/// The symbols of a group and what they look like.
#[derive(Clone, Copy)]
struct Group {
    magnitudes: [u32; GROUP],
    nonzero: u32,
    negative: u32,
}

impl Group {
    #[inline(always)]
    fn new(places: &[i32; TILE_NODES], order: &[u16; GROUP]) -> Self {
        let mut symbols = [0i32; GROUP];
        for lane in 0..GROUP {
            symbols[lane] = places[usize::from(order[lane]) % TILE_NODES];
        }
        // Plain loops: closures would not be compiled for more instructions.
        let (mut magnitudes, mut nonzero, mut negative) = ([0; GROUP], 0, 0);
        for lane in 0..GROUP {
            magnitudes[lane] = symbols[lane].unsigned_abs();
        }
        for lane in 0..GROUP {
            nonzero |= u32::from(magnitudes[lane] != 0) << lane;
        }
        for lane in 0..GROUP {
            negative |= (symbols[lane] as u32 >> 31) << lane;
        }
        Self { magnitudes, nonzero, negative }
    }
}

/// Buffers for coding one tile after another.
pub(super) struct Coder {
    groups: Vec<Group>,
    bytes: Vec<u8>,
}

impl Coder {
    pub(super) fn new() -> Self {
        Self { groups: Vec::new(), bytes: vec![0; LONGEST + BitWriter::SLACK] }
    }

    /// Codes a tile; no bytes where all its symbols are 0 and nothing is escaped. Escapes are sorted.
    pub(super) fn encode<T: Value>(&mut self, plan: &Plan, places: &[i32; TILE_NODES], escapes: &mut [(u16, T)]) -> &[u8] {
        if escapes.is_empty() && places.iter().fold(0, |any, symbol| any | symbol) == 0 {
            return &[];
        }
        let length = if bits::fast() { encode_fast(plan, places, escapes, self) } else { encode_portable(plan, places, escapes, self) };
        &self.bytes[..length]
    }
}

/// Bits of a mask moved together and apart.
mod bits {
    /// Whether the processor has instructions for it.
    pub(super) fn fast() -> bool {
        #[cfg(target_arch = "x86_64")]
        return crate::backend::cpu::simd::wide_enough();
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    pub(super) trait Bits {
        /// The bits of `value` where `mask` is set, moved together.
        fn extract(value: u32, mask: u32) -> u32;
        /// The inverse.
        fn deposit(value: u32, mask: u32) -> u32;
    }

    pub(super) struct Portable;

    impl Bits for Portable {
        #[inline(always)]
        fn extract(value: u32, mut mask: u32) -> u32 {
            let (mut out, mut at) = (0, 0);
            while mask != 0 {
                out |= (value >> mask.trailing_zeros() & 1) << at;
                mask &= mask - 1;
                at += 1;
            }
            out
        }

        #[inline(always)]
        fn deposit(mut value: u32, mut mask: u32) -> u32 {
            let mut out = 0;
            while mask != 0 {
                out |= (value & 1) << mask.trailing_zeros();
                mask &= mask - 1;
                value >>= 1;
            }
            out
        }
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) struct Bmi2;

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "instructions that not every processor has; only functions compiled for them use this type")]
    impl Bits for Bmi2 {
        #[inline(always)]
        fn extract(value: u32, mask: u32) -> u32 {
            // SAFETY: this is inlined into functions that are called only where the processor has BMI2.
            unsafe { std::arch::x86_64::_pext_u32(value, mask) }
        }

        #[inline(always)]
        fn deposit(value: u32, mask: u32) -> u32 {
            // SAFETY: as above.
            unsafe { std::arch::x86_64::_pdep_u32(value, mask) }
        }
    }
}

use bits::Bits;

#[cfg(target_arch = "x86_64")]
fn encode_fast<T: Value>(plan: &Plan, places: &[i32; TILE_NODES], escapes: &mut [(u16, T)], coder: &mut Coder) -> usize {
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    fn wide<T: Value>(plan: &Plan, places: &[i32; TILE_NODES], escapes: &mut [(u16, T)], coder: &mut Coder) -> usize {
        encode_with::<T, bits::Bmi2>(plan, places, escapes, coder)
    }
    // SAFETY: the caller asked whether the processor has all these features.
    #[allow(unsafe_code, reason = "calling a function that is compiled for more instructions than the target has")]
    unsafe {
        wide(plan, places, escapes, coder)
    }
}

#[cfg(not(target_arch = "x86_64"))]
use encode_portable as encode_fast;

fn encode_portable<T: Value>(plan: &Plan, places: &[i32; TILE_NODES], escapes: &mut [(u16, T)], coder: &mut Coder) -> usize {
    encode_with::<T, bits::Portable>(plan, places, escapes, coder)
}

/// A stream's magnitudes summed up: their sum and number over live symbols.
#[inline(always)]
fn parameter(groups: &[Group]) -> Option<u32> {
    let (mut sum, mut count) = (0u64, 0);
    for group in groups {
        if group.nonzero != 0 {
            for lane in 0..GROUP {
                sum += u64::from(group.magnitudes[lane]);
            }
            count += live(quads(group.nonzero)).count_ones();
        }
    }
    if count == 0 {
        return None;
    }
    let (least, tries) = candidates(sum, count);
    let mut best = (u64::MAX, 0);
    for k in least..least + tries {
        let mut bits = 0u64;
        for group in groups {
            if group.nonzero == 0 {
                continue;
            }
            let mut all = 0;
            for lane in 0..GROUP {
                all += length(group.magnitudes[lane], k);
            }
            // Symbols that are not live are 0: what they would cost, the same for all of them, is taken off.
            bits += u64::from(all - (GROUP as u32 - live(quads(group.nonzero)).count_ones()) * (k + 1));
        }
        if bits < best.0 {
            best = (bits, k);
        }
    }
    Some(best.1)
}

#[inline(always)]
fn encode_with<T: Value, B: Bits>(plan: &Plan, places: &[i32; TILE_NODES], escapes: &mut [(u16, T)], coder: &mut Coder) -> usize {
    let Coder { groups, bytes } = coder;
    groups.clear();
    for order in plan.order.as_chunks::<GROUP>().0 {
        groups.push(Group::new(places, order));
    }
    let mut parameters = [None; bmgard_core::closed::geometry::MAX_STREAMS];
    let mut flags = u64::from(!escapes.is_empty());
    let mut count = 1;
    for (stream, range) in streams(plan).enumerate() {
        parameters[stream] = parameter(&groups[range.start / GROUP..range.end / GROUP]);
        flags |= u64::from(parameters[stream].is_some()) << count;
        count += 1;
    }
    let mut writer = BitWriter::new(bytes);
    writer.put(flags, count);
    const MORE: u32 = (1 << PARAMETER_BITS) - 1;
    for k in parameters.into_iter().flatten() {
        writer.put(u64::from(k.min(MORE)), PARAMETER_BITS);
        if k >= MORE {
            writer.put(u64::from(k - MORE), PARAMETER_BITS);
        }
    }
    for (stream, range) in streams(plan).enumerate() {
        let Some(k) = parameters[stream] else { continue };
        let groups = &groups[range.start / GROUP..range.end / GROUP];
        for flags in groups.chunks(GROUP) {
            let any = flags.iter().enumerate().fold(0, |any, (i, group)| any | u64::from(group.nonzero != 0) << i);
            writer.put(any, flags.len() as u32);
        }
        for group in groups.iter().filter(|group| group.nonzero != 0) {
            encode_group::<B>(&mut writer, group, k);
        }
    }
    if !escapes.is_empty() {
        escapes.sort_unstable_by_key(|&(node, _)| node);
        writer.put(escapes.len() as u64 - 1, POSITION_BITS);
        escapes.iter().for_each(|&(node, _)| writer.put(u64::from(node), POSITION_BITS));
        for &(_, value) in &*escapes {
            let bits = value.bits();
            writer.put(bits & 0xFFFF_FFFF, 32);
            if size_of::<T>() == 8 {
                writer.put(bits >> 32, 32);
            }
        }
    }
    writer.finish()
}

#[inline(always)]
fn encode_group<B: Bits>(writer: &mut BitWriter<'_>, group: &Group, k: u32) {
    let quads = quads(group.nonzero);
    writer.put(u64::from(quads), 8);
    let live = live(quads);
    let mut quotients = [0; GROUP];
    for lane in 0..GROUP {
        quotients[lane] = group.magnitudes[lane] >> k;
    }
    let mut above = live;
    let mut plane = 0;
    while above != 0 && plane < MAX_PLANES {
        let mut next = 0;
        for lane in 0..GROUP {
            next |= u32::from(quotients[lane] > plane) << lane;
        }
        writer.put(u64::from(B::extract(next, above)), above.count_ones());
        above = next;
        plane += 1;
    }
    if k > 0 {
        let mask = (1u64 << k) - 1;
        let low = |lane: u32| u64::from(group.magnitudes[lane as usize]) & mask;
        let mut rest = quads;
        while rest != 0 {
            let lane = 4 * rest.trailing_zeros();
            rest &= rest - 1;
            if k <= 14 {
                writer.put(low(lane) | low(lane + 1) << k | low(lane + 2) << (2 * k) | low(lane + 3) << (3 * k), 4 * k);
            } else {
                (lane..lane + 4).for_each(|lane| writer.put(low(lane), k));
            }
        }
    }
    writer.put(u64::from(B::extract(group.negative, group.nonzero)), group.nonzero.count_ones());
    while above != 0 {
        writer.put(u64::from(quotients[above.trailing_zeros() as usize]), 32);
        above &= above - 1;
    }
}

/// Decodes what [`Coder::encode`] wrote into the places of a tile, all 0 before, and appends its escapes; `None` where the bytes are
/// not a tile's.
pub(super) fn decode<T: Value>(plan: &Plan, bytes: &[u8], places: &mut [i32; TILE_NODES], escapes: &mut Vec<(u16, T)>) -> Option<()> {
    if bits::fast() { decode_fast(plan, bytes, places, escapes) } else { decode_with::<T, bits::Portable>(plan, bytes, places, escapes) }
}

#[cfg(target_arch = "x86_64")]
fn decode_fast<T: Value>(plan: &Plan, bytes: &[u8], places: &mut [i32; TILE_NODES], escapes: &mut Vec<(u16, T)>) -> Option<()> {
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    fn wide<T: Value>(plan: &Plan, bytes: &[u8], places: &mut [i32; TILE_NODES], escapes: &mut Vec<(u16, T)>) -> Option<()> {
        decode_with::<T, bits::Bmi2>(plan, bytes, places, escapes)
    }
    // SAFETY: the caller asked whether the processor has all these features.
    #[allow(unsafe_code, reason = "calling a function that is compiled for more instructions than the target has")]
    unsafe {
        wide(plan, bytes, places, escapes)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn decode_fast<T: Value>(plan: &Plan, bytes: &[u8], places: &mut [i32; TILE_NODES], escapes: &mut Vec<(u16, T)>) -> Option<()> {
    decode_with::<T, bits::Portable>(plan, bytes, places, escapes)
}

/// The next `count` (at most 32) bits.
#[inline(always)]
fn take(reader: &mut BitReader<'_>, count: u32) -> u32 {
    reader.refill();
    let bits = (reader.word() & ((1u64 << count) - 1)) as u32;
    reader.skip(count);
    bits
}

#[inline(always)]
fn decode_with<T: Value, B: Bits>(plan: &Plan, bytes: &[u8], places: &mut [i32; TILE_NODES], escapes: &mut Vec<(u16, T)>) -> Option<()> {
    let mut reader = BitReader::new(bytes, 0);
    let streams_count = plan.shape.streams() as u32;
    let flags = take(&mut reader, 1 + streams_count);
    let mut parameters = [None; bmgard_core::closed::geometry::MAX_STREAMS];
    for stream in (0..streams_count).filter(|stream| flags >> (1 + stream) & 1 == 1) {
        let mut k = take(&mut reader, PARAMETER_BITS);
        if k == (1 << PARAMETER_BITS) - 1 {
            k += take(&mut reader, PARAMETER_BITS);
        }
        parameters[stream as usize] = Some(k);
    }
    for (stream, range) in streams(plan).enumerate() {
        let Some(k) = parameters[stream] else { continue };
        let mut any = [0u32; TILE_NODES / GROUP / GROUP];
        let count = range.len() / GROUP;
        for (first, any) in (0..count).step_by(GROUP).zip(&mut any) {
            *any = take(&mut reader, (count - first).min(GROUP) as u32);
        }
        for group in (0..count).filter(|group| any[group / GROUP] >> (group % GROUP) & 1 == 1) {
            let order = &plan.order.as_chunks::<GROUP>().0[range.start / GROUP + group];
            decode_group::<B>(&mut reader, k, order, places);
        }
    }
    if flags & 1 == 1 {
        let count = take(&mut reader, POSITION_BITS) + 1;
        let start = escapes.len();
        for _ in 0..count {
            let node = take(&mut reader, POSITION_BITS) as u16;
            if escapes.get(start..)?.last().is_some_and(|&(before, _)| before >= node) {
                return None;
            }
            escapes.push((node, T::ZERO));
        }
        for (node, value) in &mut escapes[start..] {
            let mut bits = u64::from(take(&mut reader, 32));
            if size_of::<T>() == 8 {
                bits |= u64::from(take(&mut reader, 32)) << 32;
            }
            *value = T::from_bits_u64(bits);
            places[usize::from(plan.place_of[usize::from(*node)])] = ESCAPED;
        }
    }
    // The last byte is filled with 0.
    let used = reader.used();
    reader.refill();
    (used == bytes.len() && reader.word() & 0x7F == 0).then_some(())
}

#[inline(always)]
fn decode_group<B: Bits>(reader: &mut BitReader<'_>, k: u32, order: &[u16; GROUP], places: &mut [i32; TILE_NODES]) {
    let quads = take(reader, 8);
    let live = live(quads);
    let mut quotients = [0u32; GROUP];
    let mut above = live;
    let mut plane = 0;
    while above != 0 && plane < MAX_PLANES {
        above = B::deposit(take(reader, above.count_ones()), above);
        for lane in 0..GROUP {
            quotients[lane] += above >> lane & 1;
        }
        plane += 1;
    }
    let mut low = [0u32; GROUP];
    if k > 0 {
        let mask = (1u64 << k) - 1;
        let mut rest = quads;
        while rest != 0 {
            let quad = (4 * rest.trailing_zeros()) as usize % GROUP;
            rest &= rest - 1;
            if k <= 14 {
                reader.refill();
                let word = reader.word();
                for i in 0..4 {
                    low[quad + i] = (word >> (i as u32 * k) & mask) as u32;
                }
                reader.skip(4 * k);
            } else {
                for i in 0..4 {
                    low[quad + i] = take(reader, k);
                }
            }
        }
    }
    let mut nonzero = 0;
    for lane in 0..GROUP {
        nonzero |= u32::from(quotients[lane] | low[lane] != 0) << lane;
    }
    let negative = B::deposit(take(reader, nonzero.count_ones()), nonzero);
    while above != 0 {
        quotients[above.trailing_zeros() as usize] = take(reader, 32);
        above &= above - 1;
    }
    let mut symbols = [0i32; GROUP];
    for lane in 0..GROUP {
        // Masked so that no damaged archive holds a magnitude that an i32 does not.
        let magnitude = ((quotients[lane] << k | low[lane]) & 0x7FFF_FFFF) as i32;
        let sign = -((negative >> lane & 1) as i32);
        symbols[lane] = (magnitude ^ sign) - sign;
    }
    for lane in 0..GROUP {
        places[usize::from(order[lane]) % TILE_NODES] = symbols[lane];
    }
}
