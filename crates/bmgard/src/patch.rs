//! Values that broke the bound and are stored exactly.

use crate::{Error, Result, Value};

/// Values in a block: a patch is an offset of 16 bits in its block.
const BLOCK: u64 = 1 << 16;

/// A chunk's patches, as the sections of its archive: per block of 65,536 values a count (u32), then all offsets (u16), then all values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patches {
    pub(crate) counts: Vec<u8>,
    pub(crate) offsets: Vec<u8>,
    pub(crate) values: Vec<u8>,
}

impl Patches {
    /// `positions` ascend.
    pub(crate) fn new<T: Value>(positions: &[u64], values: &[T]) -> Self {
        if positions.is_empty() {
            return Self::default();
        }
        let mut counts = vec![0u32; (values.len() as u64).div_ceil(BLOCK) as usize];
        let mut patches = Self::default();
        for &position in positions {
            counts[(position / BLOCK) as usize] += 1;
            patches.offsets.extend_from_slice(&((position % BLOCK) as u16).to_le_bytes());
            patches.values.extend_from_slice(bytemuck::bytes_of(&values[position as usize]));
        }
        patches.counts = bytemuck::cast_slice(&counts).to_vec();
        patches
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len() / 2
    }

    /// Their positions, ascending.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u64> + '_ {
        let counts = self.counts.chunks_exact(4).map(|count| u32::from_le_bytes([count[0], count[1], count[2], count[3]]));
        let starts = (0..).step_by(BLOCK as usize).zip(counts).flat_map(|(start, count)| std::iter::repeat_n(start, count as usize));
        starts.zip(self.offsets.chunks_exact(2)).map(|(start, offset)| start + u64::from(u16::from_le_bytes([offset[0], offset[1]])))
    }

    /// Puts the patches of an archive into a decoded chunk; returns how many there are.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the three sections contradict each other or the chunk.
    pub(crate) fn apply<T: Value>(counts: &[u8], offsets: &[u8], values: &[u8], decoded: &mut [T]) -> Result<u64> {
        let corrupt = || Error::Corrupt("the patches contradict each other".into());
        let blocks = (decoded.len() as u64).div_ceil(BLOCK) as usize;
        if counts.len() != blocks * 4 || !offsets.len().is_multiple_of(2) || values.len() != offsets.len() / 2 * size_of::<T>() {
            return Err(corrupt());
        }
        let mut patches = offsets.chunks_exact(2).zip(values.chunks_exact(size_of::<T>()));
        let mut total = 0u64;
        for (count, block) in counts.chunks_exact(4).zip(decoded.chunks_mut(BLOCK as usize)) {
            let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]);
            let mut next = 0;
            for _ in 0..count {
                let (offset, value) = patches.next().ok_or_else(corrupt)?;
                let offset = usize::from(u16::from_le_bytes([offset[0], offset[1]]));
                let slot = block.get_mut(offset).filter(|_| offset >= next).ok_or_else(corrupt)?;
                next = offset + 1;
                *slot = bytemuck::pod_read_unaligned(value);
            }
            total += u64::from(count);
        }
        if patches.next().is_some() { Err(corrupt()) } else { Ok(total) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_come_back() {
        let values: Vec<f64> = (0..200_000).map(f64::from).collect();
        let positions = [0, 1, 65_535, 65_536, 131_072, 199_999];
        let patches = Patches::new(&positions, &values);
        let mut decoded = vec![-1.0; values.len()];
        let apply = |p: &Patches, decoded: &mut [f64]| Patches::apply(&p.counts, &p.offsets, &p.values, decoded);
        assert_eq!(apply(&patches, &mut decoded).unwrap(), 6);
        for (position, &value) in decoded.iter().enumerate() {
            assert_eq!(value, if positions.contains(&(position as u64)) { position as f64 } else { -1.0 });
        }
        let mut short = patches.clone();
        short.counts[0] = 4;
        assert!(apply(&short, &mut decoded).is_err());
        short.counts[0] = 2;
        assert!(apply(&short, &mut decoded).is_err());
        assert!(apply(&patches, &mut decoded[..100_000]).is_err());
    }
}
