//! The coder of mode `fast`: Rice codes whose unary parts are nested bitmaps, so that a warp reads and writes them by votes and
//! population counts, and zero bitmaps on two levels. There are no tables and no histograms, and tiles are independent.
//!
//! `docs/format.md` describes a tile's bits. A group is 32 symbols of a stream, one a lane; a *quad* is 4 of them in a row. Of a quad
//! with a symbol that is not 0, all symbols are *live*. A live symbol q has the quotient u = |q| >> k, the k low bits of |q|, and a
//! sign unless it is 0. Plane j has a bit for each live symbol with u >= j, set where u > j.

/// Planes of a group at most: a quotient of at least this many is written as it is, in 32 bits, after them.
pub const MAX_PLANES: u32 = 24;

/// Bits of a stream's Rice parameter k; all ones stand for that number plus another such field.
pub const PARAMETER_BITS: u32 = 4;

/// The greatest Rice parameter.
pub const MAX_PARAMETER: u32 = 2 * ((1 << PARAMETER_BITS) - 1);

/// Bits of a position of an escape, and of their number less 1.
pub const POSITION_BITS: u32 = 12;

/// The bits of a quotient's planes, its overflow and its k low bits; the sign is the same for all k.
#[inline(always)]
#[must_use]
pub const fn length(magnitude: u32, k: u32) -> u32 {
    let quotient = magnitude >> k;
    k + if quotient < MAX_PLANES { quotient + 1 } else { MAX_PLANES + 32 }
}

/// The parameters that are worth a try for live symbols of this mean magnitude, sum / count: the least, and how many from it on.
#[inline(always)]
#[must_use]
pub const fn candidates(sum: u64, count: u32) -> (u32, u32) {
    // The shift nearest below log2(sum / count), without a division.
    let mut k = 0;
    while k < MAX_PARAMETER && (count as u64) << (k + 1) <= sum {
        k += 1;
    }
    if k == 0 { (0, 2) } else { (k - 1, if k < MAX_PARAMETER { 3 } else { 2 }) }
}

/// Bit i is set where quad i of a group is live: quads are nibbles of the mask of symbols that are not 0.
#[inline(always)]
#[must_use]
pub const fn quads(nonzero: u32) -> u32 {
    let any = nonzero | nonzero >> 2;
    let any = (any | any >> 1) & 0x1111_1111;
    // Gather every fourth bit.
    let pairs = (any | any >> 3) & 0x0303_0303;
    let halves = (pairs | pairs >> 6) & 0x000F_000F;
    (halves | halves >> 12) & 0xFF
}

/// The mask of live symbols: the inverse of [`quads`], each bit a nibble.
#[inline(always)]
#[must_use]
pub const fn live(quads: u32) -> u32 {
    let halves = (quads | quads << 12) & 0x000F_000F;
    let pairs = (halves | halves << 6) & 0x0303_0303;
    let ones = (pairs | pairs << 3) & 0x1111_1111;
    ones * 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quads_are_nibbles() {
        for flags in 0..256u32 {
            let mask = (0..8).filter(|quad| flags >> quad & 1 == 1).fold(0, |mask, quad| mask | 15 << (4 * quad));
            assert_eq!(live(flags), mask);
            for pattern in [0x1111_1111, 0x8888_8888, 0xFFFF_FFFF, 0x2481_2481u32] {
                assert_eq!(quads(mask & pattern), flags, "{pattern:x}");
            }
        }
    }

    #[test]
    fn candidates_surround_the_mean() {
        assert_eq!(candidates(0, 4), (0, 2));
        assert_eq!(candidates(7, 4), (0, 2));
        assert_eq!(candidates(8, 4), (0, 3));
        assert_eq!(candidates(64, 4), (3, 3));
        let (least, count) = candidates(u64::from(u32::MAX) * 4, 4);
        assert!(least + count - 1 <= MAX_PARAMETER);
    }
}
