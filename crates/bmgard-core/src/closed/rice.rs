//! The coder of mode `fast`: Rice codes in sections that a warp writes and reads all lanes at once, zero bitmaps on three levels before
//! them. There are no tables and no histograms, and tiles are independent.
//!
//! `docs/format.md` describes a tile's bits. A *block* is 128 symbols in a row, a *group* 32, a *quad* 4. Of a quad with a symbol that is
//! not 0, all symbols are *live*. A live symbol is coded as its folded form (signs in the lowest bit), by the block's parameter k: the k
//! low bits in one section, the quotient as so many zeros and a one in the next.

/// Symbols of a block.
pub const BLOCK: usize = 128;

/// Blocks of a tile.
pub const BLOCKS: usize = super::TILE_NODES / BLOCK;

/// Quotients of at least this many are so many zeros and a one, and written as they are, in 32 bits, in a section of their own.
pub const CAP: u32 = 24;

/// Bits of a parameter.
pub const PARAMETER_BITS: u32 = 5;

/// The greatest parameter.
pub const MAX_PARAMETER: u32 = (1 << PARAMETER_BITS) - 1;

/// Bits of a parameter less the least of the tile; all ones stand for one that is written as it is.
pub const STEP_BITS: u32 = 2;

/// All ones.
pub const FAR: u32 = (1 << STEP_BITS) - 1;

/// Folded symbols are below this; a damaged archive may hold more, which are cut.
pub const FOLDED: u32 = 1 << 31;

/// Bits of a position of an escape, and of their number less 1.
pub const POSITION_BITS: u32 = 12;

/// 0, -1, 1, -2, .. as 0, 1, 2, 3, ..
#[inline(always)]
#[must_use]
pub const fn fold(symbol: i32) -> u32 {
    (symbol << 1 ^ symbol >> 31) as u32
}

/// The inverse of [`fold`].
#[inline(always)]
#[must_use]
pub const fn unfold(folded: u32) -> i32 {
    (folded >> 1) as i32 ^ -((folded & 1) as i32)
}

/// The parameter for so many live quads, at least 1, of this sum of folded symbols: the binary logarithm of their mean and 3/8,
/// rounded down. It costs a twentieth of a per cent more than the best one, and needs no second look at the symbols.
#[inline(always)]
#[must_use]
pub const fn parameter(sum: u64, quads: u32) -> u32 {
    let (sum, count) = (sum + (quads + quads / 2) as u64, 4 * quads);
    let (sum_log2, count_log2) = (sum.ilog2(), count.ilog2());
    if sum_log2 <= count_log2 {
        return 0;
    }
    let k = sum_log2 - count_log2;
    k - ((count as u64) << k > sum) as u32
}

/// Bit i is set where group i of a block has a live quad: groups are bytes of the mask of live quads.
#[inline(always)]
#[must_use]
pub const fn groups(quads: u32) -> u32 {
    (quads & 0xFF != 0) as u32
        | ((quads & 0xFF00 != 0) as u32) << 1
        | ((quads & 0xFF_0000 != 0) as u32) << 2
        | ((quads >> 24 != 0) as u32) << 3
}

/// The bytes of live groups, moved together.
#[inline(always)]
#[must_use]
pub const fn pack(quads: u32) -> u32 {
    let (mut out, mut at, mut group) = (0, 0, 0);
    while group < 4 {
        let byte = quads >> (8 * group) & 0xFF;
        out |= byte << at;
        // Beyond the last one there is none that is not 0.
        at = (at + if byte != 0 { 8 } else { 0 }) & 31;
        group += 1;
    }
    out
}

/// The inverse of [`pack`], for these groups.
#[inline(always)]
#[must_use]
pub const fn unpack(mut bytes: u32, groups: u32) -> u32 {
    let (mut quads, mut group) = (0, 0);
    while group < 4 {
        if groups >> group & 1 == 1 {
            quads |= (bytes & 0xFF) << (8 * group);
            bytes >>= 8;
        }
        group += 1;
    }
    quads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_fold() {
        for (folded, symbol) in [0, -1, 1, -2, 2].into_iter().enumerate() {
            assert_eq!((fold(symbol), unfold(folded as u32)), (folded as u32, symbol));
        }
        for symbol in [(1 << 30) - 1, -(1 << 30), 0x1234_5678, i32::MAX, i32::MIN + 1] {
            assert_eq!(unfold(fold(symbol)), symbol);
        }
        assert_eq!(fold(-(1 << 30)), FOLDED - 1);
    }

    #[test]
    fn groups_are_bytes() {
        for groups_set in 0..16u32 {
            for pattern in [0x0102_0304, 0x8040_2010, 0xFFFF_FFFF, 0x2481_2481u32] {
                let quads = (0..4).filter(|group| groups_set >> group & 1 == 1).fold(0, |mask, group| mask | 0xFF << (8 * group)) & pattern;
                assert_eq!(groups(quads), groups_set);
                assert_eq!(unpack(pack(quads), groups_set), quads);
                assert_eq!(u64::from(pack(quads)) >> (8 * groups_set.count_ones()), 0);
            }
        }
    }

    #[test]
    fn parameters_are_logarithms_of_means() {
        for quads in 1..=32u32 {
            let greatest = 4 * u64::from(quads) * u64::from(FOLDED - 1);
            for sum in (0..1000u64).chain([1 << 20, (1 << 31) - 1, greatest]) {
                let mean = (sum as f64 + (quads * 3 / 2) as f64) / f64::from(4 * quads);
                assert_eq!(parameter(sum, quads), mean.log2().max(0.0).floor() as u32, "{sum} {quads}");
            }
            assert!(parameter(greatest, quads) <= MAX_PARAMETER);
        }
    }
}
