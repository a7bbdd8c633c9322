//! Quantised coefficients as tokens and raw extra bits.
//!
//! Token 0 is the value 0. A magnitude m >= 1 with highest bit e has the class c = 0 for m = 1, else 2e - 1 + (the bit below the
//! highest); its token is 1 + 2c + (1 if negative), followed by the low e - 1 bits of m as they are. So 1, 2 and 3 have tokens of their
//! own, and every further octave has two classes.

/// Symbols in a group: the coded symbols of a segment, in order, make groups; the last may be shorter.
pub const GROUP: usize = 8;

/// The token that stands for a whole group of zeros. It is coded in the context of the group's first symbol, and lifts the floor of one
/// bit a value that Huffman codes have.
pub const ZERO_GROUP: u32 = 207;

/// The token before one that has no code: [`ESCAPED_BITS`] bits follow, the token as it is, and then its extra bits. Codebooks that are
/// made from a sample of the symbols need it.
pub const ESCAPE: u32 = 208;

/// Bits of a token after [`ESCAPE`].
pub const ESCAPED_BITS: u32 = 8;

/// One more than the last token: those of magnitudes below 2^52, [`ZERO_GROUP`] and [`ESCAPE`].
pub const TOKENS: usize = 209;

/// The token of a value, and how many of the low bits of its magnitude follow.
#[inline(always)]
#[must_use]
pub const fn token(value: i64) -> (u32, u32) {
    if value == 0 {
        return (0, 0);
    }
    let magnitude = value.unsigned_abs();
    let e = 63 - magnitude.leading_zeros();
    let extra = e.saturating_sub(1);
    let class = if e == 0 { 0 } else { 2 * e - 1 + ((magnitude >> (e - 1)) & 1) as u32 };
    (1 + 2 * class + (value < 0) as u32, extra)
}

/// How many raw bits follow a token.
#[inline(always)]
#[must_use]
pub const fn extra_bits(token: u32) -> u32 {
    // Classes 0, 1, 2 (magnitudes 1, 2, 3) have none; then each pair of classes has one more.
    let class = token.saturating_sub(1) >> 1;
    class.saturating_sub(1) >> 1
}

/// The value of a token below [`ZERO_GROUP`] and its raw bits.
#[inline(always)]
#[must_use]
pub const fn value(token: u32, raw: u64) -> i64 {
    if token == 0 {
        return 0;
    }
    let class = (token - 1) >> 1;
    let magnitude = if class == 0 {
        1
    } else {
        let extra = (class - 1) >> 1;
        ((2 | ((class + 1) & 1) as u64) << extra) | raw
    };
    if (token - 1) & 1 == 1 { -(magnitude as i64) } else { magnitude as i64 }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_value_comes_back() {
        let mut values: Vec<i64> = (-5000..5000).collect();
        for e in 0..52 {
            for d in -2..=2i64 {
                values.extend([(1i64 << e) + d, -(1i64 << e) + d, (3i64 << e >> 1) + d]);
            }
        }
        for v in values.into_iter().filter(|v| v.unsigned_abs() < 1 << 52) {
            let (t, extra) = token(v);
            assert!(t < ZERO_GROUP, "{v}");
            assert_eq!(extra, extra_bits(t), "{v}");
            let raw = v.unsigned_abs() & ((1 << extra) - 1);
            assert_eq!(value(t, raw), v);
        }
    }

    #[test]
    fn small_magnitudes_have_tokens_of_their_own() {
        assert_eq!([0, 1, -1, 2, -2, 3, -3].map(token), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)]);
        assert_eq!([4, 5, 6, 7, 8].map(token), [(7, 1), (7, 1), (9, 1), (9, 1), (11, 2)]);
    }
}
