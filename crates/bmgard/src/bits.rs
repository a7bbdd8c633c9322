//! Bit strings, least significant bit first.

/// Appends bits to bytes.
#[derive(Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    pending: u64,
    count: u32,
}

impl BitWriter {
    /// Appends the low `count` (at most 56) bits of `bits`; the others must be 0.
    #[inline(always)]
    pub(crate) fn put(&mut self, bits: u64, count: u32) {
        debug_assert!(count <= 56 && (count == 64 || bits >> count == 0));
        self.pending |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// Pads to a whole byte with zeros.
    pub(crate) fn align(&mut self) {
        if self.count > 0 {
            self.bytes.push(self.pending as u8);
            self.pending = 0;
            self.count = 0;
        }
    }

    /// The bytes so far; call [`Self::align`] first.
    pub(crate) fn bytes(&self) -> &[u8] {
        debug_assert_eq!(self.count, 0);
        &self.bytes
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.align();
        self.bytes
    }
}

/// Reads bits off bytes; past the end there are zeros, and [`BitReader::finish`] says so.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The next bits, at least 56 of them, without moving on.
    #[inline(always)]
    pub(crate) fn peek(&self) -> u64 {
        let at = self.position / 8;
        let word = match self.bytes.get(at..at + 8) {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8])),
            None => {
                let mut last = [0; 8];
                let rest = self.bytes.get(at..).unwrap_or(&[]);
                last[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(last)
            }
        };
        word >> (self.position % 8)
    }

    #[inline(always)]
    pub(crate) fn skip(&mut self, count: u32) {
        self.position += count as usize;
    }

    /// The next `count` (at most 56) bits.
    #[inline(always)]
    pub(crate) fn take(&mut self, count: u32) -> u64 {
        let bits = self.peek() & ((1 << count) - 1);
        self.skip(count);
        bits
    }

    /// Whether the bytes were read to their end: all of them, and none beyond.
    pub(crate) fn finish(&self) -> bool {
        self.position.div_ceil(8) == self.bytes.len()
    }
}

/// Appends an unsigned integer, seven bits a byte, low ones first, the top bit set in all bytes but the last (LEB128).
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads what [`put_varint`] wrote off the front of `bytes`.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        if part << shift >> shift != part {
            return None;
        }
        value |= part << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        let fields: Vec<(u64, u32)> = (0..2000u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15), (i * 7 % 57) as u32)).collect();
        let fields: Vec<(u64, u32)> = fields.into_iter().map(|(v, n)| (v & ((1 << n) - 1), n)).collect();
        let mut writer = BitWriter::default();
        for &(v, n) in &fields {
            writer.put(v, n);
        }
        let bytes = writer.into_bytes();
        let mut reader = BitReader::new(&bytes);
        for &(v, n) in &fields {
            assert_eq!(reader.take(n), v);
        }
        assert!(reader.finish());
        reader.take(9);
        assert!(!reader.finish());
    }

    #[test]
    fn varints_come_back_and_overlong_ones_do_not() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = vec![];
            put_varint(&mut bytes, value);
            let mut rest = bytes.as_slice();
            assert_eq!(take_varint(&mut rest), Some(value));
            assert!(rest.is_empty());
        }
        assert_eq!(take_varint(&mut [0xFF; 10].as_slice()), None);
        assert_eq!(take_varint(&mut [0x80].as_slice()), None);
    }
}
