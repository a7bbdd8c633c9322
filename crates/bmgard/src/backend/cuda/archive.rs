//! Parts of an archive in device memory: checksums, where parts of different sizes start, segments' payloads, patches.
//!
//! An address that is a `u64` may be any byte's of a larger buffer. Everything is queued on the stream that is given.

use bmgard_core::crc;
use bytemuck::Pod;
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
/// Bytes that a block checksums: a piece for each warp.
const CHECKSUMMED: u64 = crc::PIECE * BLOCK as u64 / 32;
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

impl Cuda {
    /// Queues the remainder of `len` bytes into `raw`, which is 0: `bmgard_core::crc::finish` makes it the CRC-32.
    pub(super) fn checksum(&self, stream: &Stream, address: u64, len: u64, raw: DevicePointer<u32>) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        queue!(self, stream, "checksum", (len.div_ceil(CHECKSUMMED) as u32, BLOCK, 0), (address, len, raw))
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
        if starts.n == 0 {
            return Ok(());
        }
        queue!(
            self,
            stream,
            "move_segments_to",
            (starts.n.div_ceil(MOVED), BLOCK, 0),
            (starts.n, slots.pointer(), slot_words, lengths.pointer(), starts.offsets.pointer(), starts.bases.pointer(), payload)
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
    pub(super) fn count_patches(&self, stream: &Stream, n: u32, counts: &Buffer<u32>, out: u64) -> Result<()> {
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
        offsets: u64,
        out: u64,
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
