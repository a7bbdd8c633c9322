//! Parts of an archive made and checked on the device for the tests: each from the host's memory and back to it, at any byte address.

use bmgard_core::crc;
use bytemuck::cast_slice;

use super::Cuda;
use super::archive::{PatchSections, Size, Span, Target, groups, patch_blocks};
use super::levels::DeviceValue;
use super::memory::Buffer;
use super::staging::Staging;
use crate::{Error, Result};

/// Bytes on both sides of what a kernel may write, and their value.
const MARGIN: usize = 256;
const UNTOUCHED: u8 = 0xA5;

/// Bytes on the device, `offset` bytes behind an aligned address, between others that nothing may change.
struct Framed {
    buffer: Buffer<u8>,
    start: usize,
    len: usize,
}

impl Framed {
    fn new(cuda: &Cuda, contents: &[u8], offset: usize) -> Result<Self> {
        let start = MARGIN + offset;
        let mut bytes = vec![UNTOUCHED; start + contents.len() + MARGIN];
        bytes[start..][..contents.len()].copy_from_slice(contents);
        Ok(Self { buffer: cuda.upload(&bytes)?, start, len: contents.len() })
    }

    fn address(&self) -> u64 {
        self.buffer.pointer().as_raw() + self.start as u64
    }

    fn read(&self, cuda: &Cuda) -> Result<Vec<u8>> {
        let bytes = self.buffer.read(self.buffer.len(), &cuda.stream)?;
        let (before, rest) = bytes.split_at(self.start);
        let (contents, after) = rest.split_at(self.len);
        if before.iter().chain(after).any(|&byte| byte != UNTOUCHED) {
            return Err(Error::Device("a kernel wrote bytes that are not its own".into()));
        }
        Ok(contents.to_vec())
    }
}

impl Cuda {
    pub(crate) fn try_checksum(&self, bytes: &[u8], offset: usize) -> Result<u32> {
        self.enter()?;
        let (bytes, raw): (_, Buffer<u32>) = (Framed::new(self, bytes, offset)?, self.buffer(1)?);
        raw.clear(&self.stream)?;
        let span = Span { address: bytes.address(), len: bytes.len as u64 };
        self.checksum_spans(&self.stream, 1, &self.upload(&[span])?, span.len, &raw)?;
        Ok(crc::finish(raw.read(1, &self.stream)?[0], bytes.len as u64))
    }

    /// Where each part starts, and the sum of all.
    pub(crate) fn try_scan<S: Size>(&self, sizes: &[S], offset: usize) -> Result<Vec<u64>> {
        self.enter()?;
        let n = sizes.len() as u32;
        let (sizes, starts) = (Framed::new(self, cast_slice(sizes), offset)?, self.starts(n)?);
        self.scan::<S>(&self.stream, sizes.address(), &starts)?;
        let bases = starts.bases.read(starts.bases.len(), &self.stream)?;
        let offsets = starts.offsets.read(starts.offsets.len(), &self.stream)?;
        let mut out: Vec<u64> = (0..).zip(offsets).map(|(i, offset)| bases[groups(i + 1) as usize - 1] + u64::from(offset)).collect();
        out.push(bases[groups(n) as usize]);
        Ok(out)
    }

    pub(crate) fn try_move_segments(&self, segments: &[Vec<u8>], offset: usize) -> Result<Vec<u8>> {
        self.enter()?;
        let slot_words = segments.iter().map(Vec::len).max().unwrap_or(0) / 4 + 2;
        let mut slots = vec![u32::MAX; slot_words * segments.len()];
        for (slot, segment) in slots.chunks_mut(slot_words).zip(segments) {
            bytemuck::cast_slice_mut(slot)[..segment.len()].copy_from_slice(segment);
        }
        let lengths: Vec<u16> = segments.iter().map(|segment| segment.len() as u16).collect();
        let (slots, lengths, starts) = (self.upload(&slots)?, self.upload(&lengths)?, self.starts(segments.len() as u32)?);
        self.scan::<u16>(&self.stream, lengths.pointer().as_raw(), &starts)?;
        let payload = Framed::new(self, &vec![0; segments.iter().map(Vec::len).sum()], offset)?;
        self.move_segments_to(&self.stream, &slots, slot_words as u32, &lengths, &starts, payload.address())?;
        payload.read(self)
    }

    /// The sections of counts, of offsets and of values.
    pub(crate) fn try_write_patches<T: DeviceValue>(&self, positions: &[u64], values: &[T], offset: usize) -> Result<[Vec<u8>; 3]> {
        self.enter()?;
        let n = values.len() as u32;
        let mut flags = vec![0u32; values.len().div_ceil(32)];
        positions.iter().for_each(|&position| flags[position as usize / 32] |= 1 << (position % 32));
        let (flags, values, starts) = (self.upload(&flags)?, self.upload(values)?, self.starts(groups(n))?);
        let counts = self.buffer(groups(n) as usize)?;
        self.count_flags(&self.stream, n, &flags, &counts)?;
        self.scan::<u32>(&self.stream, counts.pointer().as_raw(), &starts)?;
        let mut sum = [0u64];
        Staging::default().download(starts.sum().as_raw(), bytemuck::cast_slice_mut(&mut sum), &self.stream)?;
        let section = |bytes: usize, offset| Framed::new(self, &vec![0; bytes], offset);
        let patches = sum[0] as usize;
        let out_counts = section(4 * patch_blocks(n) as usize, offset)?;
        let (out_offsets, out_values) = (section(2 * patches, offset + 1)?, section(size_of::<T>() * patches, offset + 2)?);
        self.count_patches(&self.stream, n, &counts, Target::at(out_counts.address()))?;
        self.write_patches(&self.stream, &flags, &values, &starts, Target::at(out_offsets.address()), Target::at(out_values.address()))?;
        Ok([out_counts.read(self)?, out_offsets.read(self)?, out_values.read(self)?])
    }

    /// The decoded values with the patches of the three sections, or `None` where these contradict each other.
    pub(crate) fn try_apply_patches<T: DeviceValue>(&self, sections: [&[u8]; 3], decoded: &[T], offset: usize) -> Result<Option<Vec<T>>> {
        self.enter()?;
        let n = decoded.len() as u32;
        let patches = sections[1].len() as u64 / 2;
        let (starts, bad, decoded): (_, Buffer<u32>, _) = (self.starts(patch_blocks(n))?, self.buffer(1)?, self.upload(decoded)?);
        bad.clear(&self.stream)?;
        let section = |index: usize| Framed::new(self, sections[index], offset + index);
        let (counts, offsets, values) = (section(0)?, section(1)?, section(2)?);
        let addresses = PatchSections { counts: counts.address(), offsets: offsets.address(), values: values.address(), patches };
        self.scan::<u32>(&self.stream, addresses.counts, &starts)?;
        self.apply_patches(&self.stream, addresses, &starts, &decoded, bad.pointer())?;
        let sum = starts.bases.read(starts.bases.len(), &self.stream)?.pop();
        if bad.read(1, &self.stream)? != [0] || sum != Some(patches) {
            return Ok(None);
        }
        decoded.read(decoded.len(), &self.stream).map(Some)
    }

    /// Bytes that went to the device and back through page-locked memory, twice.
    pub(crate) fn try_staging(&self, bytes: &[u8], offset: usize) -> Result<Vec<u8>> {
        self.enter()?;
        let mut staging = Staging::default();
        let framed = Framed::new(self, &vec![0; bytes.len()], offset)?;
        staging.upload(bytes, framed.address(), &self.stream)?;
        let mut out = vec![0; bytes.len()];
        staging.download(framed.address(), &mut out, &self.stream)?;
        staging.upload(&out, framed.address(), &self.stream)?;
        framed.read(self)
    }
}
