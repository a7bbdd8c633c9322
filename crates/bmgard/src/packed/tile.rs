//! The bits of one tile.

use bmgard_core::Real;
use bmgard_core::packed::{Head, NARROW, PART_GROUPS, PARTS, bias, nibble, nibble_width, surplus};
use bytemuck::Pod;

use super::batch::{GROUPS, LANES};
use super::plan::Program;
use crate::bits::{BitReader, BitWriter};

/// Bytes of a tile's words.
pub(super) const WORD: usize = 4;

/// Where a tile is written: a buffer with [`Coded::room`] bytes.
pub(super) struct Coded<'a>(pub(super) &'a mut [u8]);

/// Bytes of a part's bits, for the widths of its groups.
fn part_bytes<T: Real>(program: &Program<T>, part: usize, width: impl Fn(usize) -> u32) -> usize {
    let bits: u32 = (part * PART_GROUPS..(part + 1) * PART_GROUPS).map(|group| width(group) * u32::from(group_len(program, group))).sum();
    2 * bits.div_ceil(16) as usize
}

fn group_start<T: Real>(program: &Program<T>, group: usize) -> u16 {
    if group == 0 { 0 } else { program.group_ends[group - 1] }
}

fn group_len<T: Real>(program: &Program<T>, group: usize) -> u16 {
    program.group_ends[group] - group_start(program, group)
}

impl Coded<'_> {
    /// What a tile needs, whatever its symbols, escapes left out.
    pub(super) const ROOM: usize = 2 + 2 * PARTS + 31 * 512 / 8 + WORD + BitWriter::SLACK;

    /// Writes a tile without escapes, in whole words; returns its bytes, 0 if all symbols are 0.
    #[inline(always)]
    pub(super) fn write<T: Real>(
        &mut self,
        program: &Program<T>,
        lane: usize,
        widths: &[[u8; LANES]; GROUPS],
        symbol: impl Fn(u16) -> i32,
    ) -> usize {
        let greatest = widths.iter().map(|widths| widths[lane]).max().unwrap_or(0);
        if greatest == 0 { 0 } else { self.write_with(program, lane, widths, symbol, false) }
    }

    /// Likewise, with a head that says whether there are escapes.
    #[inline(always)]
    pub(super) fn write_with<T: Real>(
        &mut self,
        program: &Program<T>,
        lane: usize,
        widths: &[[u8; LANES]; GROUPS],
        symbol: impl Fn(u16) -> i32,
        escapes: bool,
    ) -> usize {
        let width = |group: usize| u32::from(widths[group][lane]);
        let surplus = surplus((0..GROUPS).map(width).max().unwrap_or(0));
        let nibbles: [u32; GROUPS] = std::array::from_fn(|group| nibble(width(group), surplus));
        let parts: [u32; PARTS] =
            std::array::from_fn(|part| (0..PART_GROUPS).fold(0, |bits, i| bits | nibbles[part * PART_GROUPS + i] << (4 * i)));
        let live = (0..PARTS).fold(0, |live, part| live | u32::from(parts[part] != 0) << part);
        let mut writer = BitWriter::new(self.0);
        writer.put(Head { live, surplus, escapes }.to_bits().into(), 16);
        for &nibbles in parts.iter().filter(|&&nibbles| nibbles != 0) {
            writer.put(nibbles.into(), 16);
        }
        for (part, _) in parts.iter().enumerate().filter(|(_, nibbles)| **nibbles != 0) {
            let mut bits = 0;
            for group in part * PART_GROUPS..(part + 1) * PART_GROUPS {
                let width = nibble_width(nibbles[group], surplus);
                if width == 0 {
                    continue;
                }
                let slots = &program.order[group_start(program, group).into()..program.group_ends[group].into()];
                bits += width * slots.len() as u32;
                let coded = |slot: u16| u64::from(symbol(slot).wrapping_add(bias(width) as i32) as u32);
                let (fours, rest) = if width <= 14 { slots.as_chunks::<4>() } else { (&[][..], slots) };
                for &[a, b, c, d] in fours {
                    let low = coded(a) | coded(b) << width;
                    let high = coded(c) | coded(d) << width;
                    writer.put(low | high << (2 * width), 4 * width);
                }
                for &slot in rest {
                    writer.put(coded(slot), width);
                }
            }
            writer.put(0, bits.wrapping_neg() % 16);
        }
        let bytes = writer.finish();
        let padded = bytes.next_multiple_of(WORD);
        self.0[bytes..padded].fill(0);
        padded
    }
}

/// Bytes of a tile's escapes.
pub(super) fn escapes_size<T>(count: usize) -> usize {
    (2 + 2 * count).next_multiple_of(WORD) + count * size_of::<T>()
}

/// Appends escapes: their number, the nodes' slots, their values.
pub(super) fn write_escapes<T: Pod>(escapes: &[(u16, T)], out: &mut Vec<u8>) {
    out.extend((escapes.len() as u16).to_le_bytes());
    escapes.iter().for_each(|(slot, _)| out.extend(slot.to_le_bytes()));
    out.resize(out.len().next_multiple_of(WORD), 0);
    escapes.iter().for_each(|(_, value)| out.extend(bytemuck::bytes_of(value)));
}

/// What a coded tile starts with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) escapes: bool,
    /// The widths of the groups.
    pub(super) widths: [u8; GROUPS],
    /// Where the parts' bits start and end.
    start: usize,
    end: usize,
}

impl Opening {
    /// Of a coded tile of at least a word; `None` where its bytes are too few.
    #[inline(always)]
    pub(super) fn read<T: Real>(program: &Program<T>, bytes: &[u8]) -> Option<Self> {
        let half = |i: usize| bytes.get(2 * i..2 * i + 2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let head = Head::from_bits(half(0)?)?;
        let mut widths = [0; GROUPS];
        let (mut halves, mut size) = (1, 0);
        for part in (0..PARTS).filter(|part| head.live >> part & 1 == 1) {
            let nibbles = u32::from(half(halves)?);
            halves += 1;
            for i in 0..PART_GROUPS {
                widths[part * PART_GROUPS + i] = nibble_width(nibbles >> (4 * i) & NARROW, head.surplus) as u8;
            }
            size += part_bytes(program, part, |group| u32::from(widths[group]));
        }
        let (start, end) = (2 * halves, 2 * halves + size);
        (end <= bytes.len()).then_some(Self { escapes: head.escapes, widths, start, end })
    }

    /// Where the parts' bits end, in whole words.
    pub(super) fn end(&self) -> usize {
        self.end.next_multiple_of(WORD)
    }

    /// Reads the symbols of groups that have any.
    #[inline(always)]
    pub(super) fn symbols<T: Real>(&self, program: &Program<T>, bytes: &[u8], mut set: impl FnMut(u16, i32)) {
        let mut at = self.start;
        for part in 0..PARTS {
            let groups = part * PART_GROUPS..(part + 1) * PART_GROUPS;
            if self.widths[groups.clone()] == [0; PART_GROUPS] {
                continue;
            }
            let mut reader = BitReader::new(bytes, at);
            for group in groups {
                let width = u32::from(self.widths[group]);
                if width == 0 {
                    continue;
                }
                let slots = &program.order[group_start(program, group).into()..program.group_ends[group].into()];
                let (keep, bias) = ((1u64 << width) - 1, bias(width));
                let symbol = |bits: u64| ((bits & keep) as u32).wrapping_sub(bias) as i32;
                let (fours, rest) = if width <= 14 { slots.as_chunks::<4>() } else { (&[][..], slots) };
                for &[a, b, c, d] in fours {
                    reader.refill();
                    let bits = reader.word();
                    set(a, symbol(bits));
                    set(b, symbol(bits >> width));
                    set(c, symbol(bits >> (2 * width)));
                    set(d, symbol(bits >> (3 * width)));
                    reader.skip(4 * width);
                }
                for &slot in rest {
                    reader.refill();
                    set(slot, symbol(reader.word()));
                    reader.skip(width);
                }
            }
            at += part_bytes(program, part, |group| u32::from(self.widths[group]));
        }
    }

    /// Reads the escapes of a tile that has some; `None` where they do not fill its bytes, or do not ascend, or there is no such node.
    pub(super) fn escapes<T: Real + Pod>(&self, program: &Program<T>, bytes: &[u8]) -> Option<Vec<(u16, T)>> {
        let bytes = bytes.get(self.end()..)?;
        let count = usize::from(u16::from_le_bytes(*bytes.first_chunk()?));
        if count == 0 || bytes.len() != escapes_size::<T>(count) {
            return None;
        }
        let slots = bytes[2..][..2 * count].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let values = bytes[bytes.len() - count * size_of::<T>()..].chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned);
        let escapes: Vec<(u16, T)> = slots.zip(values).collect();
        let ascend = escapes.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (ascend && escapes.iter().all(|&(slot, _)| slot > 0 && program.has(slot))).then_some(escapes)
    }
}
