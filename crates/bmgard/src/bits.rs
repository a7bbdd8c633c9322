//! Bit strings, least significant bit first.

/// Writes bits into a buffer that has room for them and [`BitWriter::SLACK`] bytes more: whole words are stored, and moved past only as
/// far as they are full.
pub(crate) struct BitWriter<'a> {
    out: &'a mut [u8],
    at: usize,
    pending: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    /// Bytes that may be overwritten after the last one that counts.
    pub(crate) const SLACK: usize = 8;

    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0, pending: 0, count: 0 }
    }

    /// Appends the low `count` (at most 56) bits of `bits`; the others must be 0.
    #[inline(always)]
    pub(crate) fn put(&mut self, bits: u64, count: u32) {
        debug_assert!(count <= 56 && bits >> count == 0);
        self.pending |= bits << self.count;
        self.count += count;
        self.out[self.at..self.at + 8].copy_from_slice(&self.pending.to_le_bytes());
        self.at += (self.count / 8) as usize;
        self.pending >>= self.count & !7;
        self.count &= 7;
    }

    /// The number of bits written.
    pub(crate) fn bits(&self) -> usize {
        8 * self.at + self.count as usize
    }

    /// Appends whole bytes. The first one's low bits, as many as are beyond the last whole byte here, must be 0: they are what was written.
    pub(crate) fn append(self, bytes: &[u8]) {
        let out = &mut self.out[self.at..][..bytes.len()];
        out.copy_from_slice(bytes);
        if let Some(first) = out.first_mut() {
            *first |= self.pending as u8;
        }
    }

    /// Pads to a whole byte with zeros; returns the number of bytes written.
    pub(crate) fn finish(self) -> usize {
        // The last bits are in the buffer already.
        self.at + usize::from(self.count > 0)
    }
}

/// Reads bits off bytes through a word that is filled up now and then; past the end there are zeros, and [`BitReader::used`] tells.
#[derive(Clone, Copy)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    start: usize,
    at: usize,
    word: u64,
    count: u32,
}

impl<'a> BitReader<'a> {
    /// What [`BitReader::refill`] makes sure of, in bits.
    pub(crate) const FILLED: u32 = 56;

    /// Reads from byte `start` on. (Bytes beyond what belongs to the reader may be looked at; who reads too far sees it by
    /// [`BitReader::used`].)
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, start, at: start, word: 0, count: 0 }
    }

    /// Makes sure that [`BitReader::word`] has [`BitReader::FILLED`] valid bits.
    #[inline(always)]
    pub(crate) fn refill(&mut self) {
        let next = match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            Some(&bytes) => u64::from_le_bytes(bytes),
            None => self.last_bytes(),
        };
        self.word |= next << self.count;
        self.at += ((63 - self.count) / 8) as usize;
        self.count |= Self::FILLED;
    }

    #[cold]
    fn last_bytes(&self) -> u64 {
        let mut last = [0; 8];
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        last[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(last)
    }

    /// The next bits, lowest first.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// Moves on by at most as many bits as are valid.
    #[inline(always)]
    pub(crate) fn skip(&mut self, count: u32) {
        self.word >>= count;
        self.count = self.count.wrapping_sub(count);
    }

    /// The bits used so far.
    pub(crate) fn bits(&self) -> usize {
        (self.at - self.start) * 8 - self.count as usize
    }

    /// The bytes used so far, the last perhaps in part.
    pub(crate) fn used(&self) -> usize {
        self.bits().div_ceil(8)
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
        let mut bytes = vec![0xEE; 2000 * 7 + BitWriter::SLACK];
        let mut writer = BitWriter::new(&mut bytes[3..]);
        for &(v, n) in &fields {
            writer.put(v, n);
        }
        let length = writer.finish();
        assert_eq!(length, fields.iter().map(|&(_, n)| n as usize).sum::<usize>().div_ceil(8));
        bytes.truncate(3 + length);
        let mut reader = BitReader::new(&bytes, 3);
        for &(v, n) in &fields {
            reader.refill();
            assert_eq!(reader.word() & ((1 << n) - 1), v);
            reader.skip(n);
        }
        assert_eq!(reader.used(), length);
        assert_eq!(reader.bits(), fields.iter().map(|&(_, n)| n as usize).sum());
        reader.refill();
        reader.skip(9);
        assert_eq!(reader.used(), length + 1 + usize::from(length * 8 < 1 + fields.iter().map(|&(_, n)| n as usize).sum::<usize>()));
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
