//! The flags of special values, predicted from their neighbours: what is coded is where the prediction fails.
//!
//! A flag's context is made of those at z-1, y-1, (y-1, x-1) and x-1 (bits 0 to 3), unset beyond the chunk. A table says for each
//! context what the flag is taken to be. The distances between failures are exponential Golomb codes.

use crate::bits::{BitReader, BitWriter};
use crate::plan::Dims;
use crate::special::Mask;

/// Bytes of the table, the codes' parameter and their number.
const HEAD: usize = 11;

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

pub(super) fn write(mask: &Mask, dims: Dims) -> Vec<u8> {
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
    let mut distances = Vec::new();
    let mut since = 0u64;
    for word in words(mask, dims) {
        let keep = u64::MAX >> (64 - word.count);
        let mut failures = word.flags ^ predict(word.context, table, keep);
        let mut start = 0;
        while failures != 0 {
            let at = u64::from(failures.trailing_zeros());
            distances.push(since + at - start);
            (since, start) = (0, at + 1);
            failures &= failures - 1;
        }
        since += word.count as u64 - start;
    }
    let bits = |k: u32| distances.iter().map(|&distance| u64::from(2 * code(distance, k).0 + 1 + k)).sum::<u64>();
    let k = (0..20).min_by_key(|&k| bits(k)).unwrap_or(0);
    let mut out = vec![0; HEAD + bits(k).div_ceil(8) as usize + BitWriter::SLACK];
    out[..2].copy_from_slice(&table.to_le_bytes());
    out[2] = k as u8;
    out[3..HEAD].copy_from_slice(&(distances.len() as u64).to_le_bytes());
    let mut writer = BitWriter::new(&mut out[HEAD..]);
    for distance in distances {
        let (n, shifted) = code(distance, k);
        writer.put((1 << n) - 1, n + 1);
        writer.put(shifted & ((1 << (k + n)) - 1), k + n);
    }
    let length = HEAD + writer.finish();
    out.truncate(length);
    out
}

/// Distances, one after the other.
struct Distances<'a> {
    reader: BitReader<'a>,
    left: u64,
    k: u32,
}

impl Distances<'_> {
    /// The flags until the next failure, more than any chunk has where there is none; `None` for a code that is none.
    fn next(&mut self) -> Option<u64> {
        let Some(left) = self.left.checked_sub(1) else { return Some(u64::MAX) };
        self.left = left;
        self.reader.refill();
        let n = self.reader.word().trailing_ones();
        if n + self.k > DISTANCE_BITS {
            return None;
        }
        self.reader.skip(n + 1);
        self.reader.refill();
        let shifted = self.reader.word() & ((1 << (self.k + n)) - 1) | 1 << (self.k + n);
        self.reader.skip(self.k + n);
        Some(shifted - (1 << self.k))
    }
}

/// Reads what [`write`] wrote; `None` where it is not that.
pub(super) fn read(bytes: &[u8], dims: Dims) -> Option<Mask> {
    let (head, codes) = bytes.split_at_checked(HEAD)?;
    let table = u16::from_le_bytes([head[0], head[1]]);
    let k = u32::from(head[2]);
    let (_, count) = head.split_last_chunk()?;
    let count = u64::from_le_bytes(*count);
    if k >= 20 || count / 8 > codes.len() as u64 {
        return None;
    }
    let dims = dims.map(|n| n as usize);
    let [nz, ny, nx] = dims;
    let mut mask = Mask::new(nz * ny * nx);
    let mut distances = Distances { reader: BitReader::new(codes, 0), left: count, k };
    let mut until = distances.next()?;
    for (z, y) in (0..nz).flat_map(|z| (0..ny).map(move |y| (z, y))) {
        for x in (0..nx).step_by(64) {
            let position = (z * ny + y) * nx + x;
            let count = (nx - x).min(64);
            let keep = u64::MAX >> (64 - count);
            let mut context = neighbours(&mask, dims, z, y, x, position).map(|word| word & keep);
            let before = context[3] & 1;
            let same = [0, keep].into_iter().position(|all| context[..3] == [all; 3] && before == all & 1);
            if let Some(set) = same.filter(|&set| until >= count as u64 && usize::from(table >> (15 * set) & 1 == 1) == set) {
                // In the midst of the mask, or far from it.
                mask.set64(position, if set == 1 { keep } else { 0 });
                until -= count as u64;
                continue;
            }
            let (mut flags, mut left) = (0, before);
            for bit in 0..count {
                context[3] = left << bit;
                let number = (0..4).fold(0, |number, i| number | (context[i] >> bit & 1) << i);
                left = u64::from(table >> number & 1);
                if until == 0 {
                    left ^= 1;
                    until = distances.next()?;
                } else {
                    until -= 1;
                }
                flags |= left << bit;
            }
            mask.set64(position, flags);
        }
    }
    let used = distances.reader.used();
    distances.reader.refill();
    // Of the endless distance after the last failure something is left.
    let whole = until > 2 << DISTANCE_BITS && distances.left == 0 && used == codes.len() && distances.reader.word() & 0x7F == 0;
    whole.then_some(mask)
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
            assert!(check(dims, |_, _, _| true) < 32);
        }
        // A coast that is the same in all slices.
        let size = check([10, 100, 200], |_, y, x| (x as f64 - 100.0).hypot(y as f64 - 50.0) < 40.0);
        assert!(size < 500, "{size}");
    }
}
