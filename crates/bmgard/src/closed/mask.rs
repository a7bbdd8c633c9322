//! The flags of special values, predicted from their neighbours: what is coded is where the prediction fails.
//!
//! A flag's context is made of those at z-1, y-1, (y-1, x-1) and x-1 (bits 0 to 3), unset beyond the chunk. A table says for each
//! context what the flag is taken to be. The distances between failures are exponential Golomb codes, apart for contexts of equal flags,
//! where failures are rare, and for all others.

use super::Sections;
use crate::archive::{Chunk, Fields, SectionId};
use crate::bits::{BitReader, BitWriter};
use crate::plan::Dims;
use crate::special::{Mask, Specials};
use crate::{Error, Result, Value};

/// Bytes of the table and, for both kinds of contexts, of the codes' parameter, number and bytes.
const HEAD: usize = 2 + 2 * KIND;
const KIND: usize = 1 + 8 + 8;

/// The longest distance that can be coded has this many bits.
const DISTANCE_BITS: u32 = 40;

/// A run of up to 64 flags of one row, and their neighbours.
#[derive(Clone, Copy)]
struct Word {
    flags: u64,
    context: [u64; 4],
    count: usize,
}

/// The neighbours of `count` flags from a position on, in a row that starts at `row`; those at x-1 need the flags themselves.
fn neighbours(mask: &Mask, dims: [usize; 3], z: usize, y: usize, x: usize, position: usize) -> [u64; 4] {
    let back = if z > 0 { mask.get64(position - dims[1] * dims[2]) } else { 0 };
    let (up, corner) = if y == 0 {
        (0, 0)
    } else {
        let up = position - dims[2];
        (mask.get64(up), if x == 0 { mask.get64(up) << 1 } else { mask.get64(up - 1) })
    };
    let left = if x == 0 { mask.get64(position) << 1 } else { mask.get64(position - 1) };
    [back, up, corner, left]
}

/// All flags of a chunk in C order, in words that do not go beyond a row.
fn words(mask: &Mask, dims: [usize; 3]) -> impl Iterator<Item = Word> + '_ {
    let [nz, ny, nx] = dims;
    let rows = (0..nz).flat_map(move |z| (0..ny).map(move |y| (z, y)));
    rows.flat_map(move |(z, y)| {
        (0..nx).step_by(64).map(move |x| {
            let position = (z * ny + y) * nx + x;
            let count = (nx - x).min(64);
            let keep = u64::MAX >> (64 - count);
            let context = neighbours(mask, dims, z, y, x, position).map(|word| word & keep);
            Word { flags: mask.get64(position) & keep, context, count }
        })
    })
}

/// Where the flags' context is this one.
fn matching(context: [u64; 4], number: usize, keep: u64) -> u64 {
    (0..4).fold(keep, |all, bit| all & if number >> bit & 1 == 1 { context[bit] } else { !context[bit] })
}

/// What the table predicts.
fn predict(context: [u64; 4], table: u16, keep: u64) -> u64 {
    (0..16).filter(|number| table >> number & 1 == 1).fold(0, |all, number| all | matching(context, number, keep))
}

/// The bits of a distance's code with parameter k: n ones and a zero, then k + n bits of distance + 2^k less their top one.
fn code(distance: u64, k: u32) -> (u32, u64) {
    let shifted = distance + (1 << k);
    (63 - shifted.leading_zeros() - k, shifted)
}

/// The sections of a chunk's special values.
pub(crate) fn sections<T: Value>(specials: Option<&Specials<T>>, dims: Dims) -> Sections {
    specials.map_or_else(Vec::new, |specials| {
        vec![(SectionId::MaskValues, specials.write_values().into()), (SectionId::MaskFlags, write(&specials.mask, dims).into())]
    })
}

/// The special values of a chunk's sections.
pub(crate) fn specials<T: Value>(dims: Dims, chunk: &Chunk<'_>) -> Result<Option<Specials<T>>> {
    let values = chunk.section(SectionId::MaskValues);
    if values.is_empty() {
        return Ok(None);
    }
    Specials::with_mask(flags(dims, chunk)?, values).map(Some)
}

/// The flags of a chunk's section.
pub(crate) fn flags(dims: Dims, chunk: &Chunk<'_>) -> Result<Mask> {
    read(chunk.section(SectionId::MaskFlags), dims).ok_or_else(|| Error::Corrupt("the mask of special values is not one".into()))
}

fn write(mask: &Mask, dims: Dims) -> Vec<u8> {
    let dims = dims.map(|n| n as usize);
    let mut counts = [[0u64; 2]; 16];
    for word in words(mask, dims) {
        let keep = u64::MAX >> (64 - word.count);
        // Most words are far from any edge of the mask.
        if word.context == [0; 4] && word.flags == 0 {
            counts[0][0] += word.count as u64;
            continue;
        }
        if word.context == [keep; 4] && word.flags == keep {
            counts[15][1] += word.count as u64;
            continue;
        }
        for (number, counts) in counts.iter_mut().enumerate() {
            let here = matching(word.context, number, keep);
            counts[0] += u64::from((here & !word.flags).count_ones());
            counts[1] += u64::from((here & word.flags).count_ones());
        }
    }
    let table = (0..16).filter(|&number| counts[number][1] > counts[number][0]).fold(0u16, |table, number| table | 1 << number);
    let mut distances = [Vec::new(), Vec::new()];
    let mut since = [0u64; 2];
    for word in words(mask, dims) {
        let keep = u64::MAX >> (64 - word.count);
        let equal = matching(word.context, 0, keep) | matching(word.context, 15, keep);
        let failures = word.flags ^ predict(word.context, table, keep);
        for (kind, among) in [equal, keep & !equal].into_iter().enumerate() {
            let mut failures = failures & among;
            let mut start = 0;
            while failures != 0 {
                let at =
                    u64::from((among & (failures.trailing_zeros().checked_sub(1).map_or(0, |bit| u64::MAX >> (63 - bit)))).count_ones());
                distances[kind].push(since[kind] + at - start);
                (since[kind], start) = (0, at + 1);
                failures &= failures - 1;
            }
            since[kind] += u64::from(among.count_ones()) - start;
        }
    }
    let mut out = table.to_le_bytes().to_vec();
    let codes = distances.each_ref().map(|distances| write_distances(distances));
    for ((k, bytes), distances) in codes.iter().zip(&distances) {
        out.push(*k as u8);
        out.extend((distances.len() as u64).to_le_bytes());
        out.extend((bytes.len() as u64).to_le_bytes());
    }
    codes.into_iter().for_each(|(_, bytes)| out.extend(bytes));
    out
}

/// The best parameter for some distances, and their codes.
fn write_distances(distances: &[u64]) -> (u32, Vec<u8>) {
    let bits = |k: u32| distances.iter().map(|&distance| u64::from(2 * code(distance, k).0 + 1 + k)).sum::<u64>();
    let k = (0..20).min_by_key(|&k| bits(k)).unwrap_or(0);
    let mut out = vec![0; bits(k).div_ceil(8) as usize + BitWriter::SLACK];
    let mut writer = BitWriter::new(&mut out);
    for &distance in distances {
        let (n, shifted) = code(distance, k);
        writer.put((1 << n) - 1, n + 1);
        writer.put(shifted & ((1 << (k + n)) - 1), k + n);
    }
    let length = writer.finish();
    out.truncate(length);
    (k, out)
}

/// Distances, one after the other.
struct Distances<'a> {
    reader: BitReader<'a>,
    bytes: usize,
    left: u64,
    k: u32,
    /// The flags until the next failure.
    until: u64,
}

impl<'a> Distances<'a> {
    /// Takes a kind's entry off the head and its codes off the rest, and reads the first distance.
    fn new(head: &mut Fields<'_>, rest: &mut &'a [u8]) -> Option<Self> {
        let what = "the flags of special values";
        let (k, left, length) = (u32::from(head.u8(what).ok()?), head.u64(what).ok()?, head.u64(what).ok()?);
        let (codes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        *rest = after;
        if k >= 20 || left / 8 > codes.len() as u64 {
            return None;
        }
        let mut distances = Self { reader: BitReader::new(codes, 0), bytes: codes.len(), left, k, until: 0 };
        distances.next().then_some(distances)
    }

    /// Reads the next distance, more than any chunk has flags where there is none; whether there is a code, or none is left.
    fn next(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            self.until = u64::MAX;
            return true;
        };
        self.left = left;
        self.reader.refill();
        let n = self.reader.word().trailing_ones();
        if n + self.k > DISTANCE_BITS {
            return false;
        }
        self.reader.skip(n + 1);
        self.reader.refill();
        let shifted = self.reader.word() & ((1 << (self.k + n)) - 1) | 1 << (self.k + n);
        self.reader.skip(self.k + n);
        self.until = shifted - (1 << self.k);
        true
    }

    /// Whether the last failure is behind, and the codes end with their bytes.
    fn is_done(&mut self) -> bool {
        let used = self.reader.used();
        self.reader.refill();
        // Of the endless distance after the last failure something is left.
        self.until > 2 << DISTANCE_BITS && self.left == 0 && used == self.bytes && self.reader.word() & 0x7F == 0
    }
}

/// Reads what [`write`] wrote; `None` where it is not that.
fn read(bytes: &[u8], dims: Dims) -> Option<Mask> {
    let (head, mut rest) = bytes.split_at_checked(HEAD)?;
    let mut head = Fields(head);
    let table = head.u16("the flags of special values").ok()?;
    let mut kinds = [Distances::new(&mut head, &mut rest)?, Distances::new(&mut head, &mut rest)?];
    let dims = dims.map(|n| n as usize);
    let [nz, ny, nx] = dims;
    let mut mask = Mask::new(nz * ny * nx);
    for (z, y) in (0..nz).flat_map(|z| (0..ny).map(move |y| (z, y))) {
        for x in (0..nx).step_by(64) {
            let position = (z * ny + y) * nx + x;
            let count = (nx - x).min(64);
            let keep = u64::MAX >> (64 - count);
            let mut context = neighbours(&mask, dims, z, y, x, position).map(|word| word & keep);
            let before = context[3] & 1;
            let same = [0, keep].into_iter().position(|all| context[..3] == [all; 3] && before == all & 1);
            let predicted = |set: usize| usize::from(table >> (15 * set) & 1 == 1);
            if let Some(set) = same.filter(|&set| kinds[0].until >= count as u64 && predicted(set) == set) {
                // In the midst of the mask, or far from it.
                mask.set64(position, if set == 1 { keep } else { 0 });
                kinds[0].until -= count as u64;
                continue;
            }
            let (mut flags, mut left) = (0, before);
            for bit in 0..count {
                context[3] = left << bit;
                let number = (0..4).fold(0, |number, i| number | (context[i] >> bit & 1) << i);
                let kind = &mut kinds[usize::from(number != 0 && number != 15)];
                left = u64::from(table >> number & 1);
                if kind.until == 0 {
                    left ^= 1;
                    if !kind.next() {
                        return None;
                    }
                } else {
                    kind.until -= 1;
                }
                flags |= left << bit;
            }
            mask.set64(position, flags);
        }
    }
    (rest.is_empty() && kinds.iter_mut().all(Distances::is_done)).then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dims: Dims, flag: impl Fn(u64, u64, u64) -> bool) -> usize {
        let mut mask = Mask::new(dims.iter().product::<u64>() as usize);
        let mut position = 0;
        for z in 0..dims[0] {
            for y in 0..dims[1] {
                for x in 0..dims[2] {
                    if flag(z, y, x) {
                        mask.set(position);
                    }
                    position += 1;
                }
            }
        }
        let bytes = write(&mask, dims);
        assert_eq!(read(&bytes, dims).as_ref(), Some(&mask), "{dims:?}");
        for cut in 0..bytes.len() {
            let _ = read(&bytes[..cut], dims);
            let mut changed = bytes.clone();
            changed[cut] ^= 0x55;
            let _ = read(&changed, dims);
        }
        assert!(read(&[&bytes[..], &[0]].concat(), dims).is_none());
        bytes.len()
    }

    #[test]
    fn every_mask_comes_back_and_regular_ones_are_small() {
        let random = |z: u64, y: u64, x: u64| (z * 7919 + y * 104_729 + x * 1_299_709).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61;
        for dims in [[1, 1, 1], [1, 1, 200], [1, 5, 64], [3, 7, 65], [4, 3, 127], [2, 70, 128], [5, 5, 5], [1, 300, 3]] {
            check(dims, |z, y, x| random(z, y, x) == 0);
            check(dims, |z, y, x| random(z, y, x) > 3);
            check(dims, |_, _, x| x % 2 == 0);
            check(dims, |z, y, x| z + y + x == 0);
            assert!(check(dims, |_, _, _| false) == HEAD);
            assert!(check(dims, |_, _, _| true) < HEAD + 12);
        }
        // A coast that is the same in all slices.
        let size = check([10, 100, 200], |_, y, x| (x as f64 - 100.0).hypot(y as f64 - 50.0) < 40.0);
        assert!(size < 500, "{size}");
    }
}
