//! Parts of an archive in device memory: checksums, where parts of different sizes start, segments' payloads, patches.
//!
//! An address that is a `u64` may be any byte's of a larger buffer. Everything is queued on the stream that is given.

use bmgard_core::crc;
use bytemuck::{Pod, Zeroable};
use cust::memory::{DeviceCopy, DevicePointer};
use cust::stream::Stream;

use super::levels::DeviceValue;
use super::memory::Buffer;
use super::{Cuda, queue};
use crate::Result;

/// Threads of a block of `kernels_gpu::archive`, `kernels_gpu::scan` and `kernels_gpu::patches`.
const BLOCK: u32 = 256;
/// Threads of the one block of `scan_totals`.
const TOTALS_BLOCK: u32 = 1024;
/// Bytes that a block checksums at once: a piece for each warp; and the most blocks.
const CHECKSUMMED: u64 = crc::PIECE * BLOCK as u64 / 32;
const CHECKSUM_BLOCKS: u64 = 1 << 10;
/// Segments that a block moves: 4 for each warp.
const MOVED: u32 = 4 * BLOCK / 32;
/// Values that are summed, and flags that are counted, together.
const GROUP: u32 = 1024;
/// Words of flags that a block works on.
const FLAG_WORDS: u32 = 4 * BLOCK;
/// Values in a block of an archive's patches.
const PATCH_BLOCK: u32 = 1 << 16;

/// Groups of `n` values.
pub(super) fn groups(n: u32) -> u32 {
    n.div_ceil(GROUP)
}

/// Blocks of values that have a count of patches.
pub(super) fn patch_blocks(n: u32) -> u32 {
    n.div_ceil(PATCH_BLOCK)
}

/// Where each of `n` parts starts: part i at `bases[i / 1024] + offsets[i]`. The base after the last group's is the sum of all.
pub(super) struct Starts {
    n: u32,
    pub(super) offsets: Buffer<u32>,
    totals: Buffer<u32>,
    pub(super) bases: Buffer<u64>,
}

impl Starts {
    /// The address of the sum of all parts.
    pub(super) fn sum(&self) -> DevicePointer<u64> {
        self.bases.pointer().wrapping_offset(groups(self.n) as isize)
    }
}

/// The sections of a chunk's patches: their addresses, and how many patches there are.
#[derive(Clone, Copy)]
pub(super) struct PatchSections {
    pub(super) counts: u64,
    pub(super) offsets: u64,
    pub(super) values: u64,
    pub(super) patches: u64,
}

/// `kernels_gpu::archive::Span`.
#[derive(Clone, Copy, Pod, Zeroable, DeviceCopy)]
#[repr(C)]
pub(super) struct Span {
    pub(super) address: u64,
    pub(super) len: u64,
}

/// `kernels_gpu::archive::Target`: an address, or the span that says it.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
pub(super) struct Target {
    address: u64,
    span: u64,
}

impl Target {
    /// Nowhere.
    pub(super) const NONE: Self = Self { address: 0, span: 0 };

    pub(super) fn at(address: u64) -> Self {
        Self { address, span: 0 }
    }

    /// Where a span of the device's says.
    pub(super) fn span(spans: &Buffer<Span>, index: usize) -> Self {
        Self { address: 0, span: spans.pointer().as_raw() + (index * size_of::<Span>()) as u64 }
    }
}

/// `kernels_gpu::archive::Part`.
#[derive(Clone, Copy, Pod, Zeroable, DeviceCopy)]
#[repr(C)]
pub(super) struct Part {
    number: u64,
    fixed: u64,
    each: u64,
    kind: u64,
}

impl Part {
    /// A section of so many bytes.
    pub(super) fn known(bytes: u64) -> Self {
        Self { number: 0, fixed: bytes, each: 0, kind: 0 }
    }

    /// A section of `each` bytes for each of a number of the device's.
    pub(super) fn counted(number: DevicePointer<u64>, each: u64) -> Self {
        Self { number: number.as_raw(), fixed: 0, each, kind: 0 }
    }

    /// A section that is there only if a number of the device's is not 0.
    pub(super) fn optional(number: DevicePointer<u64>, fixed: u64, each: u64) -> Self {
        Self { number: number.as_raw(), fixed, each, kind: 1 }
    }

    /// No section: nothing is laid out unless the number is 0.
    pub(super) fn forbidden(number: DevicePointer<u32>) -> Self {
        Self { number: number.as_raw(), fixed: 0, each: 0, kind: 2 }
    }
}

/// `kernels_gpu::archive::Chunk`.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
pub(super) struct ChunkRoom {
    pub(super) address: u64,
    pub(super) room: u64,
    pub(super) header: u64,
    pub(super) entry: u64,
    pub(super) limit: u64,
}

impl Cuda {
    /// Queues the remainders of spans, of about `bytes` bytes in all, into `raw`, which is 0: `bmgard_core::crc::finish` makes them CRC-32s.
    pub(super) fn checksum_spans(&self, stream: &Stream, count: usize, spans: &Buffer<Span>, bytes: u64, raw: &Buffer<u32>) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let blocks = (bytes.div_ceil(CHECKSUMMED) + count as u64).min(CHECKSUM_BLOCKS) as u32;
        queue!(self, stream, "checksums", (blocks, BLOCK, 0), (count as u32, spans.pointer(), raw.pointer()))
    }

    /// Queues saying where parts lie, the last `forbidden` of which are no sections; part `copied` is `contents`.
    pub(super) fn lay_out(
        &self,
        stream: &Stream,
        chunk: ChunkRoom,
        parts: &Buffer<Part>,
        (copied, contents): (usize, &Buffer<u8>),
        spans: &Buffer<Span>,
        size: &Buffer<u64>,
    ) -> Result<()> {
        queue!(
            self,
            stream,
            "lay_out",
            (1, BLOCK, 0),
            (chunk, parts.len() as u32, parts.pointer(), copied as u32, contents.pointer(), spans.pointer(), size.pointer())
        )
    }

    /// Memory for the starts of `n` parts.
    pub(super) fn starts(&self, n: u32) -> Result<Starts> {
        let groups = groups(n) as usize;
        Ok(Starts { n, offsets: self.buffer(n as usize)?, totals: self.buffer(groups)?, bases: self.buffer(groups + 1)? })
    }

    /// Queues the starts of parts whose sizes lie at `sizes`, little-endian.
    pub(super) fn scan<S: Size>(&self, stream: &Stream, sizes: u64, starts: &Starts) -> Result<()> {
        let (n, groups) = (starts.n, groups(starts.n));
        let (offsets, totals, bases) = (starts.offsets.pointer(), starts.totals.pointer(), starts.bases.pointer());
        if n > 0 {
            queue!(self, stream, S::SCAN, (groups, BLOCK, 0), (n, sizes, offsets, totals))?;
        }
        queue!(self, stream, "scan_totals", (1, TOTALS_BLOCK, 0), (groups, totals, bases))
    }

    /// Queues moving segments from their slots of `slot_words` words to `payload`; `starts` are those of their lengths, of which there
    /// are as many as segments.
    pub(super) fn move_segments_to(
        &self,
        stream: &Stream,
        slots: &Buffer<u32>,
        slot_words: u32,
        lengths: &Buffer<u16>,
        starts: &Starts,
        payload: u64,
    ) -> Result<()> {
        self.place_segments(stream, slots, slot_words, lengths, starts, Target::at(payload), Target::NONE)
    }

    /// The same, and queues copying the lengths.
    pub(super) fn place_segments(
        &self,
        stream: &Stream,
        slots: &Buffer<u32>,
        slot_words: u32,
        lengths: &Buffer<u16>,
        starts: &Starts,
        payload: Target,
        lengths_to: Target,
    ) -> Result<()> {
        if starts.n == 0 {
            return Ok(());
        }
        queue!(
            self,
            stream,
            "move_segments_to",
            (starts.n.div_ceil(MOVED), BLOCK, 0),
            (
                starts.n,
                slots.pointer(),
                slot_words,
                lengths.pointer(),
                starts.offsets.pointer(),
                starts.bases.pointer(),
                payload,
                lengths_to
            )
        )
    }

    /// Queues how many of `n` flags are set in each group of 1024; `counts` has a place for each group.
    pub(super) fn count_flags(&self, stream: &Stream, n: u32, flags: &Buffer<u32>, counts: &Buffer<u32>) -> Result<()> {
        let words = n.div_ceil(32);
        if n == 0 {
            return Ok(());
        }
        queue!(self, stream, "count_flags", (words.div_ceil(FLAG_WORDS), BLOCK, 0), (words, flags.pointer(), counts.pointer()))
    }

    /// Queues the patches' counts, a section of 4 bytes for each of [`patch_blocks`], from the groups' counts.
    pub(super) fn count_patches(&self, stream: &Stream, n: u32, counts: &Buffer<u32>, out: Target) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        queue!(self, stream, "count_patches", (patch_blocks(n).div_ceil(BLOCK / 32), BLOCK, 0), (n, counts.pointer(), out))
    }

    /// Queues the patches' offsets and values: of each value whose flag is set. `starts` are those of the groups' counts. No flag
    /// after the last value's is set.
    pub(super) fn write_patches<T: DeviceValue>(
        &self,
        stream: &Stream,
        flags: &Buffer<u32>,
        values: &Buffer<T>,
        starts: &Starts,
        offsets: Target,
        out: Target,
    ) -> Result<()> {
        let n = values.len() as u32;
        if n == 0 {
            return Ok(());
        }
        queue!(
            self,
            stream,
            format!("write_patches_{}", T::SUFFIX),
            (n.div_ceil(32).div_ceil(FLAG_WORDS), BLOCK, 0),
            (n, flags.pointer(), values.pointer(), starts.offsets.pointer(), starts.bases.pointer(), offsets, out)
        )
    }

    /// Queues putting an archive's patches into decoded values; `starts` are those of the section of counts. They contradict each
    /// other if `bad`, which was 0, is not 0 afterwards, or the sum of the counts is not the number of patches.
    pub(super) fn apply_patches<T: DeviceValue>(
        &self,
        stream: &Stream,
        sections: PatchSections,
        starts: &Starts,
        values: &Buffer<T>,
        bad: DevicePointer<u32>,
    ) -> Result<()> {
        let n = values.len() as u32;
        if n == 0 {
            return Ok(());
        }
        queue!(
            self,
            stream,
            format!("apply_patches_{}", T::SUFFIX),
            (patch_blocks(n), BLOCK, 0),
            (
                n,
                sections.patches,
                sections.counts,
                starts.offsets.pointer(),
                starts.bases.pointer(),
                sections.offsets,
                sections.values,
                values.pointer(),
                bad
            )
        )
    }
}

/// The size of a part.
pub(crate) trait Size: Pod + DeviceCopy {
    /// The kernel that sums groups of them.
    const SCAN: &'static str;
}

impl Size for u16 {
    const SCAN: &'static str = "scan_groups_u16";
}

impl Size for u32 {
    const SCAN: &'static str = "scan_groups_u32";
}
