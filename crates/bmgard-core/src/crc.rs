//! CRC-32 (IEEE 802.3) in pieces, so that many threads can work on one range of bytes.
//!
//! A range is a polynomial over GF(2), its first bit the highest power; the checksum is a remainder, and so linear: pieces' remainders,
//! each times the power of x of what follows it, add up to the whole's. Zeros in front of a range change nothing as long as the initial
//! value is 0. So pieces are counted from the range's end, and only the first is short. [`finish`] accounts for the true initial value.
//!
//! Polynomials are reflected: bit 31 is the coefficient of x^0.

/// Bytes of a piece, which a warp works on.
pub const PIECE: u64 = 1 << 14;
/// Bytes of a row of a piece: a word for each lane.
pub const ROW: u64 = 128;
/// Rows of a piece.
pub const ROWS: u32 = (PIECE / ROW) as u32;

/// The divisor, without x^32.
const DIVISOR: u32 = 0xEDB8_8320;
/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// Times x.
#[inline(always)]
const fn double(a: u32) -> u32 {
    (a >> 1) ^ (DIVISOR & (a & 1).wrapping_neg())
}

/// The product of two remainders.
#[inline(always)]
#[must_use]
pub const fn multiply(a: u32, b: u32) -> u32 {
    let (mut a, mut b, mut product) = (a, b, 0);
    let mut i = 0;
    while i < 32 {
        product ^= b & (a >> 31).wrapping_neg();
        a <<= 1;
        b = double(b);
        i += 1;
    }
    product
}

/// x^(8 bytes): what `bytes` bytes that follow a remainder multiply it by.
#[must_use]
pub const fn power(bytes: u64) -> u32 {
    let (mut bytes, mut square, mut power) = (bytes, ONE >> 8, ONE);
    while bytes > 0 {
        if bytes & 1 == 1 {
            power = multiply(power, square);
        }
        square = multiply(square, square);
        bytes >>= 1;
    }
    power
}

/// Entries of [`ADVANCE`].
pub const ADVANCE_ENTRIES: usize = 4 * 256;

/// For each byte of a remainder and each of its values, the lowest byte first: the byte's part of the remainder times x^(8 [`ROW`]).
pub static ADVANCE: [u32; ADVANCE_ENTRIES] = {
    let mut table = [0; ADVANCE_ENTRIES];
    let factor = power(ROW);
    let mut i = 0;
    while i < ADVANCE_ENTRIES {
        table[i] = multiply(((i % 256) as u32) << (8 * (i / 256)), factor);
        i += 1;
    }
    table
};

/// A remainder times x^(8 [`ROW`]); `entry` looks up [`ADVANCE`].
#[inline(always)]
#[must_use]
pub fn advance(state: u32, entry: impl Fn(usize) -> u32) -> u32 {
    let part = |byte: usize| entry(256 * byte + (state >> (8 * byte) & 0xFF) as usize);
    part(0) ^ part(1) ^ part(2) ^ part(3)
}

/// For each lane: what its words multiply by at a piece's end, x^32 for the checksum and x^32 for each lane after it.
static LANES: [u32; 32] = {
    let mut table = [0; 32];
    let mut lane = 0;
    while lane < 32 {
        table[lane] = power(ROW - 4 * lane as u64);
        lane += 1;
    }
    table
};

/// What the state of a lane, each of whose words was added after an [`advance`], contributes to its piece's remainder.
#[inline(always)]
#[must_use]
pub fn lane_remainder(state: u32, lane: u32) -> u32 {
    multiply(state, LANES[lane as usize & 31])
}

/// Bytes of a piece's number that [`piece_remainder`] accounts for.
const NUMBER_BYTES: usize = 4;

/// For each byte of a piece's number and each of its values: the power of x for so many pieces.
static PIECES: [[u32; 256]; NUMBER_BYTES] = {
    let mut tables = [[ONE; 256]; NUMBER_BYTES];
    let mut byte = 0;
    while byte < NUMBER_BYTES {
        let factor = power(PIECE << (8 * byte));
        let mut i = 1;
        while i < 256 {
            tables[byte][i] = multiply(tables[byte][i - 1], factor);
            i += 1;
        }
        byte += 1;
    }
    tables
};

/// What the remainder of a piece contributes to its range's, where `number` pieces follow it.
#[inline(always)]
#[must_use]
pub fn piece_remainder(remainder: u32, number: u32) -> u32 {
    let (mut remainder, mut number, mut byte) = (remainder, number, 0);
    while number > 0 {
        if number & 0xFF > 0 {
            remainder = multiply(remainder, PIECES[byte & 3][(number & 0xFF) as usize]);
        }
        number >>= 8;
        byte += 1;
    }
    remainder
}

/// The CRC-32 of `len` bytes whose remainder is `raw`.
#[must_use]
pub const fn finish(raw: u32, len: u64) -> u32 {
    !(raw ^ multiply(u32::MAX, power(len)))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// The remainder of a range, in pieces, rows and lanes as a GPU takes them.
    fn remainder(bytes: &[u8]) -> u32 {
        bytes.rchunks(PIECE as usize).enumerate().fold(0, |raw, (number, piece)| raw ^ piece_remainder(of_piece(piece), number as u32))
    }

    fn of_piece(piece: &[u8]) -> u32 {
        let mut padded = [0; PIECE as usize];
        padded[PIECE as usize - piece.len()..].copy_from_slice(piece);
        let word = |row: u32, lane: u32| {
            let at = (row * ROW as u32 + 4 * lane) as usize;
            u32::from_le_bytes([padded[at], padded[at + 1], padded[at + 2], padded[at + 3]])
        };
        let of_lane = |lane| {
            let state = (0..ROWS).fold(0, |state, row| advance(state, |i| ADVANCE[i]) ^ word(row, lane));
            lane_remainder(state, lane)
        };
        (0..32).fold(0, |sum, lane| sum ^ of_lane(lane))
    }

    #[test]
    fn pieces_give_the_checksum() {
        let bytes: Vec<u8> = (0..600_000u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 21) as u8).collect();
        for len in [0, 1, 2, 3, 4, 5, 127, 128, 129, 16_383, 16_384, 16_385, 32_768, 99_999, 600_000] {
            assert_eq!(finish(remainder(&bytes[..len]), len as u64), crc32fast::hash(&bytes[..len]), "{len} bytes");
            assert_eq!(
                finish(remainder(&bytes[600_000 - len..]), len as u64),
                crc32fast::hash(&bytes[600_000 - len..]),
                "{len} last bytes"
            );
        }
    }

    #[test]
    fn any_number_of_pieces_may_follow() {
        for number in [0, 1, 255, 256, 257, 65_535, 65_536, 0x00FF_00FF, 0x0100_0000, u32::MAX] {
            assert_eq!(piece_remainder(0xDEAD_BEEF, number), multiply(0xDEAD_BEEF, power(u64::from(number) * PIECE)), "{number} pieces");
        }
    }

    #[test]
    fn lengths_have_64_bits() {
        for (len, half) in [(1u64 << 33, 1u64 << 32), (u64::MAX, u64::MAX / 2)] {
            assert_eq!(power(len), multiply(power(half), power(len - half)));
        }
        // The checksum of concatenated ranges, from theirs, as crc32fast has it.
        let (a, b) = (finish(0x1234_5678, 1 << 34), finish(0x9ABC_DEF0, (1 << 35) + 5));
        let mut combined = crc32fast::Hasher::new_with_initial_len(a, 1 << 34);
        combined.combine(&crc32fast::Hasher::new_with_initial_len(b, (1 << 35) + 5));
        let raw = multiply(0x1234_5678, power((1 << 35) + 5)) ^ 0x9ABC_DEF0;
        assert_eq!(finish(raw, (1 << 34) + (1 << 35) + 5), combined.finalize());
    }
}
