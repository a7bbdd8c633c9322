//! An archive in device memory: its checksums, and where coded segments go.

use bmgard_core::crc::{ADVANCE, ADVANCE_ENTRIES, PIECE, ROW, advance, lane_remainder, piece_remainder};
use cuda_std::atomic::intrinsics::atomic_fetch_xor_relaxed_u32_device;
use cuda_std::prelude::*;

use crate::scan::start;
use crate::unroll::{each4, each8};

/// Threads of a block that sums pieces, a warp for each.
pub const CHECKSUM_BLOCK: u32 = 256;
/// Warps of such a block.
const WARPS: u32 = CHECKSUM_BLOCK / 32;
/// Rows of a piece that are loaded at once, and their bytes.
const AHEAD: usize = 8;
const AHEAD_BYTES: u32 = (AHEAD as u64 * ROW) as u32;

/// The aligned words of 8 rows that a lane's words lie in.
#[derive(Clone, Copy, Default)]
struct Rows {
    low: [u32; AHEAD],
    high: [u32; AHEAD],
}

/// A piece of a range; offsets are from the piece's start, which may lie in front of the range.
#[derive(Clone, Copy)]
struct Piece {
    /// The address of the piece's start.
    at: usize,
    /// The offset of the first byte that the range has.
    first: u32,
    /// Rows loaded at once that start from `inner[0]` to `inner[1]` touch aligned words of the range only.
    inner: [u32; 2],
}

impl Piece {
    /// The piece that `number` others follow.
    #[inline(always)]
    fn new(bytes: usize, len: usize, number: u32) -> Self {
        let followed = number as usize * PIECE as usize;
        let length = (len - followed).min(PIECE as usize);
        let at = bytes.wrapping_add(len - followed).wrapping_sub(PIECE as usize);
        let (before, after) = (at % 4, at.wrapping_neg() % 4);
        let front = len - followed - length;
        let first = PIECE as u32 - length as u32;
        let inner =
            [if front >= before { first } else { first + 4 }, (PIECE as usize + followed - after).min(PIECE as usize) as u32 - AHEAD_BYTES];
        Self { at, first, inner }
    }

    /// Loads the calling lane's words of the rows from `offset` on; bytes in front of the range are 0. Nothing waits for the loads.
    ///
    /// # Safety
    /// The rows end within the piece; nothing writes the range meanwhile.
    #[inline(always)]
    unsafe fn rows(&self, offset: u32) -> Rows {
        let mut rows = Rows::default();
        let own = offset + 4 * warp::lane_id();
        let at = self.at.wrapping_add(own as usize);
        let bits = self.bits();
        // SAFETY: aligned words lie in the range, and so do single bytes.
        unsafe {
            if self.inner[0] <= offset && offset <= self.inner[1] {
                let aligned = (at & !3) as *const u32;
                each8!(|k| {
                    rows.low[k] = intrinsics::load_readonly(aligned.add(32 * k));
                    if bits > 0 {
                        rows.high[k] = intrinsics::load_readonly(aligned.add(32 * k + 1));
                    }
                });
            } else {
                each8!(|k| {
                    let mut word = 0;
                    let offset = own + ROW as u32 * k as u32;
                    // No branch, so that no load waits for another: the range's first byte in place of those in front of it, then zeros.
                    each4!(|byte| {
                        let byte_at = (offset + byte as u32).max(self.first);
                        word |= (*(self.at.wrapping_add(byte_at as usize) as *const u8) as u32) << (8 * byte);
                    });
                    let missing = self.first.saturating_sub(offset).min(4);
                    word &= ((u32::MAX as u64) << (8 * missing)) as u32;
                    // As if it had been loaded from aligned words.
                    rows.low[k] = word.rotate_left(bits);
                    rows.high[k] = rows.low[k];
                });
            }
        }
        rows
    }

    /// By how many bits words start after aligned ones.
    #[inline(always)]
    fn bits(&self) -> u32 {
        8 * (self.at as u32 % 4)
    }

    /// What the piece contributes to the range's remainder, but for what follows it.
    ///
    /// # Safety
    /// All lanes call it; `table` has the entries of [`ADVANCE`]; nothing writes the range meanwhile.
    #[inline(always)]
    unsafe fn remainder(&self, table: *const u32) -> u32 {
        // In front of the range are zeros, which leave the state 0: so do the rows before the first that are loaded.
        let mut offset = self.first / AHEAD_BYTES * AHEAD_BYTES;
        let mut ahead = Rows::default();
        let mut state = 0;
        while offset <= PIECE as u32 {
            let rows = ahead;
            // SAFETY: the caller's; an entry is below 1024.
            unsafe {
                if offset < PIECE as u32 {
                    ahead = self.rows(offset);
                }
                each8!(|k| {
                    let word = intrinsics::funnel_shift_right(rows.high[k], rows.low[k], self.bits());
                    state = advance(state, |entry| *table.add(entry)) ^ word;
                });
            }
            offset += AHEAD_BYTES;
        }
        // SAFETY: all lanes are here.
        unsafe { warp::full::reduce_xor(lane_remainder(state, warp::lane_id())) }
    }
}

/// What a block of [`checksum`] does, the `block`-th.
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn checksum_block(bytes: *const u8, len: u64, block: u32, raw: *mut u32) {
    let table = shared_array![u32; ADVANCE_ENTRIES];
    let sums = shared_array![u32; 8];
    let t = thread::thread_idx_x();
    // SAFETY: the caller's; 8 warps have 8 places; all threads come to the barriers.
    unsafe {
        let mut i = t as usize;
        while i < ADVANCE_ENTRIES {
            *table.add(i) = ADVANCE[i];
            i += CHECKSUM_BLOCK as usize;
        }
        thread::sync_threads();
        let number = block * WARPS + t / 32;
        let mut sum = 0;
        if number as u64 * PIECE < len {
            sum = piece_remainder(Piece::new(bytes as usize, len as usize, number).remainder(table), number);
        }
        if warp::lane_id() == 0 {
            *sums.add((t / 32) as usize) = sum;
        }
        thread::sync_threads();
        if t == 0 {
            let mut sum = 0;
            each8!(|warp| {
                sum ^= *sums.add(warp);
            });
            atomic_fetch_xor_relaxed_u32_device(raw, sum);
        }
    }
}

/// Adds (exclusive or) to `raw` the remainder of a range of bytes, which [`bmgard_core::crc::finish`] makes the CRC-32. A warp works on a
/// piece of 16 KiB, counted from the range's end.
///
/// Grid: ceil(len / 131072) blocks; block: 256 threads. Shared memory: 4128 bytes, static.
///
/// # Safety
///
/// `bytes` points to `len` bytes, at any byte address, fewer than 2^46, which nothing writes meanwhile; `raw` to a value that was 0.
#[kernel(max_threads = CHECKSUM_BLOCK)]
pub unsafe fn checksum(bytes: *const u8, len: u64, raw: *mut u32) {
    // SAFETY: the caller's.
    unsafe { checksum_block(bytes, len, thread::block_idx_x(), raw) }
}

/// Threads of a block that moves segments.
pub const MOVE_BLOCK: u32 = 256;
/// Segments that a warp moves: together where all are small, else one after the other.
pub const MOVED: u32 = 4;
/// The most bytes of a small segment: 4 words for each of 8 lanes.
const SMALL: u32 = 128;

/// Copies a slot's first bytes to any byte address, by `LANES` lanes.
///
/// # Safety
/// The slot has so many bytes, in whole words; there is room; nothing writes the slot meanwhile.
#[inline(always)]
unsafe fn copy<const LANES: u32>(slot: *const u32, bytes: u32, to: *mut u8, lane: u32) {
    let head = ((to as usize).wrapping_neg() as u32 % 4).min(bytes);
    let whole = (bytes - head) / 4;
    // SAFETY: the caller's; indices are checked.
    unsafe {
        // Whole words of the payload come from two words of the slot; the bytes before and after them are shared with neighbours.
        let words = to.add(head as usize) as *mut u32;
        let mut first = lane;
        while first < whole {
            let mut moved = [0u32; 4];
            each4!(|k| {
                let i = first + k as u32 * LANES;
                if i < whole {
                    let low = intrinsics::load_readonly(slot.add(i as usize));
                    let high = if head > 0 { intrinsics::load_readonly(slot.add(i as usize + 1)) } else { low };
                    moved[k] = intrinsics::funnel_shift_right(high, low, 8 * head);
                }
            });
            each4!(|k| {
                let i = first + k as u32 * LANES;
                if i < whole {
                    *words.add(i as usize) = moved[k];
                }
            });
            first += 4 * LANES;
        }
        let source = slot as *const u8;
        if lane < head {
            *to.add(lane as usize) = *source.add(lane as usize);
        }
        let tail = head + whole * 4 + lane;
        if tail < bytes {
            *to.add(tail as usize) = *source.add(tail as usize);
        }
    }
}

/// Moves segments from their slots to their places in a payload at any byte address. A warp moves 4.
///
/// Grid: ceil(segments / 32) blocks; block: 256 threads. No shared memory.
///
/// # Safety
///
/// `slots` points to `slot_words` words a segment, `lengths` to how many bytes of them it has; `offsets` and `bases` are what
/// [`crate::scan`] makes of the lengths; `payload` has room for the sum of them.
#[kernel(max_threads = MOVE_BLOCK)]
pub unsafe fn move_segments_to(
    segments: u32,
    slots: *const u32,
    slot_words: u32,
    lengths: *const u16,
    offsets: *const u32,
    bases: *const u64,
    payload: *mut u8,
) {
    let lane = warp::lane_id();
    let first = thread::index_1d() / 32 * MOVED;
    let segment = first + lane / 8;
    // SAFETY: the caller's; all lanes come to the votes and shuffles, whose values decide alike for all.
    unsafe {
        let (mut bytes, mut at) = (0, 0);
        if segment < segments {
            bytes = *lengths.add(segment as usize) as u32;
            at = start(offsets, bases, segment);
        }
        let slot = |segment: u32| slots.add(segment as usize * slot_words as usize);
        if warp::full::all(bytes <= SMALL) {
            if bytes > 0 {
                copy::<8>(slot(segment), bytes, payload.add(at as usize), lane % 8);
            }
            return;
        }
        let mut k = 0;
        while k < MOVED {
            let (bytes, at) = (warp::full::shuffle(bytes, 8 * k), warp::full::shuffle(at, 8 * k));
            if bytes > 0 {
                copy::<32>(slot(first + k), bytes, payload.add(at as usize), lane);
            }
            k += 1;
        }
    }
}
