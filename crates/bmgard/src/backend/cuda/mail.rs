//! Page-locked memory for small results: a copy to it does not make the host wait, and the host reads it once an event says so.

use std::cell::Cell;

use cust::memory::LockedBuffer;
use cust::stream::Stream;

use super::failed;
use super::memory::check;
use crate::Result;
use crate::plan::MAX_LEVELS;

/// Levels that a chunk may have, the coarsest array included.
const LEVELS: usize = 2 * MAX_LEVELS as usize + 1;
/// Places of numbers: the bytes of each level, whether its slots were too small, then others.
const OVERFLOWS: usize = LEVELS;
pub(super) const WORST: usize = 2 * LEVELS;
pub(super) const BROKEN: usize = WORST + 1;
pub(super) const BAD: usize = WORST + 2;
pub(super) const BAD_PATCHES: usize = WORST + 3;
/// Least and greatest value, number of special ones.
pub(super) const STATISTICS: usize = WORST + 4;
/// Remainders of sections.
pub(super) const CHECKSUMS: usize = STATISTICS + 3;
pub(super) const CHECKSUM_COUNT: usize = 2 * LEVELS + 8;
/// The size of a chunk that was laid out.
pub(super) const SIZE: usize = CHECKSUMS + CHECKSUM_COUNT;
/// What was found while closed tiles were coded.
pub(super) const CLOSED: usize = SIZE + 1;
pub(super) const CLOSED_COUNT: usize = 40;
const NUMBERS: usize = CLOSED + CLOSED_COUNT;
/// Counts of a level's tokens, at most.
const COUNTS: usize = 640;

/// Where the outbox starts, and bytes of it: small things that go to the device.
const OUTBOX: usize = (NUMBERS + LEVELS * COUNTS / 2) * 8;
const OUTBOX_BYTES: usize = 256 << 10;
/// Bytes of the inbox after it: small things that the host waits for.
pub(super) const INBOX_BYTES: usize = 32 << 10;

/// Numbers, counts of the tokens of each level, and small things on their way.
pub(super) struct Mail {
    memory: LockedBuffer<u64>,
    /// Bytes of the outbox that are in use: copies from them may be under way.
    posted: Cell<usize>,
}

impl Mail {
    pub(super) fn new() -> Result<Self> {
        let memory = LockedBuffer::new(&0, (OUTBOX + OUTBOX_BYTES + INBOX_BYTES) / 8).map_err(failed)?;
        Ok(Self { memory, posted: Cell::new(0) })
    }

    /// Queues a copy of small things to the device; the host may change them when it returns. `false`, and nothing done, where the outbox
    /// has no room: it has again once all streams have come here, and [`Mail::collected`] says so.
    pub(super) fn send(&self, bytes: &[u8], to: u64, stream: &Stream) -> Result<bool> {
        let at = self.posted.get();
        if bytes.is_empty() {
            return Ok(true);
        }
        if bytes.len() > OUTBOX_BYTES - at {
            return Ok(false);
        }
        self.posted.set(at + bytes.len().next_multiple_of(16).min(OUTBOX_BYTES - at));
        // SAFETY: the place is inside the buffer and no copy under way has it; the buffer outlives what is queued.
        check(unsafe {
            let from = self.memory.as_ptr().cast::<u8>().add(OUTBOX + at);
            from.cast_mut().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            cust::sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes.len(), stream.as_inner())
        })?;
        Ok(true)
    }

    /// Says that no copy from the outbox is under way.
    pub(super) fn collected(&self) {
        self.posted.set(0);
    }

    /// Copies small things to the host, once the stream has come here.
    pub(super) fn fetch(&self, from: u64, out: &mut [u8], stream: &Stream) -> Result<()> {
        assert!(out.len() <= INBOX_BYTES);
        self.copy(from, out.len(), OUTBOX + OUTBOX_BYTES, stream)?;
        stream.synchronize().map_err(failed)?;
        // SAFETY: the place is inside; the device has written it.
        unsafe {
            out.as_mut_ptr().copy_from_nonoverlapping(self.memory.as_ptr().cast::<u8>().add(OUTBOX + OUTBOX_BYTES), out.len());
        }
        Ok(())
    }

    /// Queues a copy of up to 8 bytes of the device to a place.
    pub(super) fn receive(&self, from: u64, bytes: usize, place: usize, stream: &Stream) -> Result<()> {
        assert!(place < NUMBERS && bytes <= 8);
        self.copy(from, bytes, place * 8, stream)
    }

    /// Queues a copy of words of the device to the places from one on.
    pub(super) fn receive_many(&self, from: u64, bytes: usize, place: usize, stream: &Stream) -> Result<()> {
        assert!(place * 8 + bytes <= NUMBERS * 8);
        self.copy(from, bytes, place * 8, stream)
    }

    /// A word of those that [`Mail::receive_many`] copied.
    pub(super) fn word(&self, place: usize, index: usize) -> u32 {
        assert!(place * 2 + index < NUMBERS * 2);
        // SAFETY: the word is inside; the device may write it, but not at this time.
        unsafe { self.memory.as_ptr().cast::<u32>().add(place * 2 + index).read_volatile() }
    }

    pub(super) fn receive_overflow(&self, from: u64, level: usize, stream: &Stream) -> Result<()> {
        self.receive(from, 4, OVERFLOWS + level, stream)
    }

    pub(super) fn receive_counts(&self, from: u64, count: usize, level: usize, stream: &Stream) -> Result<()> {
        assert!(count <= COUNTS && level < LEVELS);
        self.copy(from, count * 4, NUMBERS * 8 + level * COUNTS * 4, stream)
    }

    fn copy(&self, from: u64, bytes: usize, to: usize, stream: &Stream) -> Result<()> {
        // SAFETY: the places are inside the buffer, which outlives what is queued: whoever drops it has waited.
        check(unsafe {
            let to = self.memory.as_ptr().cast::<u8>().add(to);
            cust::sys::cuMemcpyDtoHAsync_v2(to.cast_mut().cast(), from, bytes, stream.as_inner())
        })
    }

    /// What came to a place, once the copy is known to be done.
    pub(super) fn number(&self, place: usize) -> u64 {
        assert!(place < NUMBERS);
        // SAFETY: the place is inside; the device may write it, but not at this time.
        unsafe { self.memory.as_ptr().add(place).read_volatile() }
    }

    pub(super) fn overflow(&self, level: usize) -> bool {
        self.number(OVERFLOWS + level) as u32 != 0
    }

    pub(super) fn counts(&self, level: usize, count: usize) -> Vec<u32> {
        assert!(count <= COUNTS && level < LEVELS);
        // SAFETY: as above.
        let at = |i: usize| unsafe { self.memory.as_ptr().cast::<u32>().add(NUMBERS * 2 + level * COUNTS + i).read_volatile() };
        (0..count).map(at).collect()
    }
}
