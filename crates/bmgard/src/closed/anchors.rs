//! The anchors' section: third differences of their steps over the grid of tiles, all at one width.

use super::plan::Plan;
use crate::bits::{BitReader, BitWriter};

/// The difference of an anchor from what its seven neighbours before it, 0 beyond the grid, predict (Lorenzo).
fn lorenzo(plan: &Plan, steps: &[i64], index: usize) -> i64 {
    let tile = plan.tile_at(index);
    (1..8usize).fold(0, |sum: i64, set| {
        if (0..3).any(|axis| set >> axis & 1 == 1 && tile[axis] == 0) {
            return sum;
        }
        let before = steps[plan.tile_index([0, 1, 2].map(|axis| tile[axis] - (set >> axis & 1)))];
        if set.count_ones() % 2 == 1 { sum.wrapping_add(before) } else { sum.wrapping_sub(before) }
    })
}

/// A byte with the width, then the differences, zigzag, least significant bit first.
pub(super) fn write(plan: &Plan, steps: &[i64]) -> Vec<u8> {
    let differences: Vec<u64> = (0..steps.len())
        .map(|index| {
            let difference = steps[index].wrapping_sub(lorenzo(plan, steps, index));
            (difference << 1 ^ difference >> 63) as u64
        })
        .collect();
    let width = 64 - differences.iter().fold(0, |any, &difference| any | difference).leading_zeros();
    let mut out = vec![0; 1 + size(steps.len(), width) + BitWriter::SLACK];
    out[0] = width as u8;
    let mut writer = BitWriter::new(&mut out[1..]);
    for difference in differences {
        writer.put(difference & 0xFFFF_FFFF, width.min(32));
        writer.put(difference >> 32, width.saturating_sub(32));
    }
    let length = 1 + writer.finish();
    out.truncate(length);
    out
}

/// The bytes of `count` differences.
pub(crate) fn size(count: usize, width: u32) -> usize {
    (count as u64 * u64::from(width)).div_ceil(8) as usize
}

/// The steps of all anchors; `None` where the bytes are not those of so many.
pub(super) fn read(plan: &Plan, bytes: &[u8]) -> Option<Vec<i64>> {
    let (&width, bytes) = bytes.split_first()?;
    let (count, width) = (plan.tile_count(), u32::from(width));
    if width > 64 || bytes.len() != size(count, width) {
        return None;
    }
    let mut reader = BitReader::new(bytes, 0);
    let mut take = |count: u32| {
        reader.refill();
        let bits = reader.word() & ((1u64 << count) - 1);
        reader.skip(count);
        bits
    };
    let mut steps = Vec::with_capacity(count);
    for index in 0..count {
        let zigzag = take(width.min(32)) | take(width.saturating_sub(32)) << 32;
        let difference = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        steps.push(0);
        steps[index] = lorenzo(plan, &steps, index).wrapping_add(difference);
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use bmgard_core::closed::TileShape;

    use super::*;

    #[test]
    fn anchors_come_back() {
        let plan = Plan::new([40, 20, 50], TileShape::CUBE);
        assert_eq!(plan.tiles, [3, 2, 4]);
        for scale in [0, 1, 1000, 1 << 40, 1 << 49] {
            let steps: Vec<i64> = (0..24).map(|i: i64| (i * 7919 % 13 - 6) * scale).collect();
            let bytes = write(&plan, &steps);
            assert_eq!(read(&plan, &bytes).unwrap(), steps);
            assert_eq!(bytes.len() == 1, scale == 0);
            assert!(read(&plan, &bytes[..bytes.len() - 1]).is_none() && read(&plan, &[&bytes[..], &[0]].concat()).is_none());
        }
        assert!(read(&plan, &[]).is_none() && read(&plan, &[65; 300]).is_none());
    }
}
