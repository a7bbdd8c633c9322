//! Values that come back bit for bit: NaN, infinities and the fill value.

use bmgard_core::tile::TILE;

use crate::bits::{put_varint, take_varint};
use crate::plan::{Dims, count};
use crate::{Error, Result, Value};

/// Whether a value is stored exactly, apart from the transform. A fill value of 0 takes -0 with it.
#[inline(always)]
pub(crate) fn is_special<T: Value>(x: T, fill: Option<T>) -> bool {
    !x.is_finite() || fill == Some(x)
}

/// One flag per value of a chunk, set at special values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mask {
    words: Vec<u64>,
    len: usize,
}

impl Mask {
    pub(crate) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    #[inline(always)]
    pub(crate) fn get(&self, position: usize) -> bool {
        self.words[position / 64] >> (position % 64) & 1 == 1
    }

    /// The flags of 8 positions, lowest first; unset beyond the end.
    #[inline(always)]
    pub(crate) fn get8(&self, position: usize) -> u8 {
        let (word, shift) = (position / 64, position % 64);
        let low = self.words.get(word).map_or(0, |w| w >> shift);
        let high = if shift > 56 { self.words.get(word + 1).map_or(0, |w| w << (64 - shift)) } else { 0 };
        (low | high) as u8
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, position: usize) {
        self.words[position / 64] |= 1 << (position % 64);
    }

    /// The flags of 64 positions, lowest first; unset beyond the end.
    #[inline(always)]
    pub(crate) fn get64(&self, position: usize) -> u64 {
        let (word, shift) = (position / 64, position % 64);
        let low = self.words.get(word).map_or(0, |w| w >> shift);
        let high = if shift > 0 { self.words.get(word + 1).map_or(0, |w| w << (64 - shift)) } else { 0 };
        low | high
    }

    /// Whether any flag of a range is set.
    pub(crate) fn any(&self, range: std::ops::Range<usize>) -> bool {
        let low = |count: usize| if count < 64 { (1 << count) - 1 } else { u64::MAX };
        range.clone().step_by(64).any(|at| self.get64(at) & low(range.end - at) != 0)
    }

    /// Sets the flags of positions from here on, lowest bit first; all of them must be inside.
    #[inline(always)]
    pub(crate) fn set64(&mut self, position: usize, flags: u64) {
        let (word, shift) = (position / 64, position % 64);
        if flags != 0 {
            self.words[word] |= flags << shift;
            if shift > 0 && flags >> (64 - shift) != 0 {
                self.words[word + 1] |= flags >> (64 - shift);
            }
        }
    }

    /// How many flags are set.
    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The flags, 32 a word, lowest first.
    #[cfg(feature = "cuda")]
    pub(crate) fn words_u32(&self) -> &[u32] {
        bytemuck::cast_slice(&self.words)
    }

    fn set_range(&mut self, range: std::ops::Range<usize>) {
        range.for_each(|position| self.set(position));
    }

    /// The set positions, ascending.
    fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(index * 64 + bit)
            })
        })
    }
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(format!("the mask of special values {what}"))
}

/// The special values of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Specials<T> {
    pub(crate) mask: Mask,
    /// Runs of equal bits, in C order of the masked positions.
    runs: Vec<(u64, T)>,
    pub(crate) count: u64,
}

impl<T: Value> Specials<T> {
    /// Finds them; `None` where there is none.
    pub(crate) fn find(values: &[T], fill: Option<T>) -> Option<Self> {
        let mut found = Self { mask: Mask::new(values.len()), runs: Vec::new(), count: 0 };
        for (position, &x) in values.iter().enumerate().filter(|&(_, &x)| is_special(x, fill)) {
            found.mask.set(position);
            found.count += 1;
            match found.runs.last_mut() {
                Some((length, value)) if value.to_bits_u64() == x.to_bits_u64() => *length += 1,
                _ => found.runs.push((1, x)),
            }
        }
        (found.count > 0).then_some(found)
    }

    /// The mask: lengths of runs in C order, unset and set in turn, the first unset (it may be 0), as varints; the last run is left out.
    pub(crate) fn write_mask(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut start = 0;
        let mut expected = 0;
        for position in self.mask.positions() {
            if position != expected || position == 0 {
                // A gap: the set run before it ends, and the unset one ends here.
                if expected > 0 {
                    put_varint(&mut out, (expected - start) as u64);
                }
                put_varint(&mut out, (position - expected) as u64);
                start = position;
            }
            expected = position + 1;
        }
        if expected < self.mask.len {
            put_varint(&mut out, (expected - start) as u64);
        }
        out
    }

    /// The values: pairs of a run's length as a varint and its bits.
    pub(crate) fn write_values(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for &(length, value) in &self.runs {
            put_varint(&mut out, length);
            out.extend_from_slice(bytemuck::bytes_of(&value));
        }
        out
    }

    /// Reads what the two functions above wrote for a chunk of `len` values.
    pub(crate) fn read(len: usize, mut mask_bytes: &[u8], value_bytes: &[u8]) -> Result<Self> {
        let mut mask = Mask::new(len);
        let (mut at, mut set) = (0usize, false);
        while !mask_bytes.is_empty() {
            let run = take_varint(&mut mask_bytes).and_then(|run| usize::try_from(run).ok());
            let run = run.filter(|&run| run <= len - at).ok_or_else(|| corrupt("is longer than its chunk"))?;
            if set {
                mask.set_range(at..at + run);
            }
            at += run;
            set = !set;
        }
        if set {
            mask.set_range(at..len);
        }
        Self::with_mask(mask, value_bytes)
    }

    /// Reads what [`Specials::write_values`] wrote for the set positions of a mask.
    pub(crate) fn with_mask(mask: Mask, mut value_bytes: &[u8]) -> Result<Self> {
        let count = mask.count();
        let mut runs = Vec::new();
        let mut listed = 0u64;
        while !value_bytes.is_empty() {
            let length = take_varint(&mut value_bytes).filter(|&n| n > 0 && n <= count - listed);
            let length = length.ok_or_else(|| corrupt("has other values than flags"))?;
            let (value, rest) = value_bytes.split_at_checked(size_of::<T>()).ok_or_else(|| corrupt("ends within a value"))?;
            runs.push((length, bytemuck::pod_read_unaligned(value)));
            listed += length;
            value_bytes = rest;
        }
        if listed != count {
            return Err(corrupt("has fewer values than flags"));
        }
        Ok(Self { mask, runs, count })
    }

    /// Puts the values in their places.
    pub(crate) fn restore(&self, values: &mut [T]) {
        let mut runs = self.runs.iter().flat_map(|&(length, value)| std::iter::repeat_n(value, length as usize));
        for position in self.mask.positions() {
            if let Some(value) = runs.next() {
                values[position] = value;
            }
        }
    }

    /// Replaces them by values that are cheap to code: within each block of 8 nodes per dimension the valid neighbours are continued
    /// along x, then y, then z; blocks without a valid value get `background`.
    pub(crate) fn fill_holes(&self, values: &mut [T], dims: Dims, background: T) {
        debug_assert_eq!(count(dims) as usize, values.len());
        let [nz, ny, nx] = dims.map(|n| n as usize);
        for z0 in (0..nz).step_by(TILE) {
            for y0 in (0..ny).step_by(TILE) {
                for x0 in (0..nx).step_by(TILE) {
                    let sizes = [TILE.min(nz - z0), TILE.min(ny - y0), TILE.min(nx - x0)];
                    self.fill_block(values, [z0, y0, x0], sizes, [ny * nx, nx, 1], background);
                }
            }
        }
    }

    fn fill_block(&self, values: &mut [T], origin: [usize; 3], sizes: [usize; 3], strides: [usize; 3], background: T) {
        let corner: usize = (0..3).map(|a| origin[a] * strides[a]).sum();
        let mut known = [[[true; TILE]; TILE]; TILE];
        let mut holes = 0;
        for z in 0..sizes[0] {
            for y in 0..sizes[1] {
                let line = corner + z * strides[0] + y * strides[1];
                for x in 0..sizes[2] {
                    known[z][y][x] = !self.mask.get(line + x);
                    holes += usize::from(!known[z][y][x]);
                }
            }
        }
        if holes == 0 {
            return;
        }
        for axis in [2, 1, 0] {
            let (a, b) = [(1, 2), (0, 2), (0, 1)][axis];
            for i in 0..sizes[a] {
                for j in 0..sizes[b] {
                    let index = |k: usize| {
                        let mut at = [0; 3];
                        (at[a], at[b], at[axis]) = (i, j, k);
                        at
                    };
                    let place = |at: [usize; 3]| corner + (0..3).map(|c| at[c] * strides[c]).sum::<usize>();
                    let flag = |known: &[[[bool; TILE]; TILE]; TILE], at: [usize; 3]| known[at[0]][at[1]][at[2]];
                    let Some(first) = (0..sizes[axis]).find(|&k| flag(&known, index(k))) else {
                        continue;
                    };
                    let mut carried = values[place(index(first))];
                    for k in 0..sizes[axis] {
                        let at = index(k);
                        if flag(&known, at) {
                            carried = values[place(at)];
                        } else {
                            values[place(at)] = carried;
                            known[at[0]][at[1]][at[2]] = true;
                        }
                    }
                }
            }
        }
        // Where nothing is valid, nothing was continued.
        for z in 0..sizes[0] {
            for y in 0..sizes[1] {
                for x in 0..sizes[2] {
                    if !known[z][y][x] {
                        values[corner + z * strides[0] + y * strides[1] + x] = background;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f32], fill: Option<f32>) {
        let Some(specials) = Specials::find(values, fill) else {
            assert!(values.iter().all(|&x| !is_special(x, fill)));
            return;
        };
        let (mask, bytes) = (specials.write_mask(), specials.write_values());
        let read = Specials::<f32>::read(values.len(), &mask, &bytes).unwrap();
        assert_eq!((&read.mask, read.count), (&specials.mask, specials.count));
        let mut out = vec![1.0; values.len()];
        read.restore(&mut out);
        for (x, y) in values.iter().zip(&out) {
            assert_eq!(if is_special(*x, fill) { x.to_bits() } else { 1f32.to_bits() }, y.to_bits());
        }
        for cut in 0..mask.len() {
            let _ = Specials::<f32>::read(values.len(), &mask[..cut], &bytes);
        }
        assert!(Specials::<f32>::read(values.len(), &mask, &bytes[..bytes.len() - 1]).is_err());
        let mut filled = values.to_vec();
        specials.fill_holes(&mut filled, [1, 1, values.len() as u64], 7.0);
        assert!(filled.iter().all(|x| x.is_finite() && Some(*x) != fill));
    }

    #[test]
    fn every_pattern_comes_back() {
        let nan = f32::from_bits(0x7FC1_2345);
        check(&[1.0, 2.0], None);
        check(&[nan], None);
        check(&[nan; 100], None);
        check(&[-9.0, 1.0, -9.0, -9.0, 2.0], Some(-9.0));
        check(&[1.0, 0.0, -0.0, f32::INFINITY, nan, f32::NAN, 5.0], Some(0.0));
        let mut state = 1u32;
        for length in 1..200 {
            let values: Vec<f32> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if state >> 30 == 0 { f32::from_bits(0x7F80_0000 | state >> 28) } else { 1.0 }
                })
                .collect();
            check(&values, None);
        }
    }
}
