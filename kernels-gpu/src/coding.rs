//! Symbols to bits and back: a thread works on a segment, a warp on 32 neighbours.
//!
//! A segment is a serial thing: groups of 8 coded symbols, tokens of variable length. Threads walk through their segments place by
//! place in step; symbols go through shared memory, 32 places of 32 segments at a time, so that memory sees whole lines.

use core::num::NonZeroU32;

use bmgard_core::Symbol;
use bmgard_core::axis::is_coarse;
use bmgard_core::tile::{Geometry, TILE};
use bmgard_core::token::{GROUP, TOKENS, ZERO_GROUP, extra_bits, token, value};
use cuda_std::atomic::intrinsics::atomic_fetch_add_relaxed_u32_device;
use cuda_std::prelude::*;

/// Threads of a block.
pub const BLOCK: u32 = 64;
/// Coding contexts of a level.
const CLASSES: usize = 3;
/// Values from one segment's row in shared memory to the next.
const STRIDE: usize = 33;
/// Entries of a decoder's table.
const TABLE: usize = 1 << 12;

/// A level's places and segments.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CodedLevel {
    /// 1, 2, 3: a local level of so many dimensions; 4: a global level; 5: the coarsest array.
    kind: u32,
    dims: [u32; 3],
    tiles: [u32; 3],
    places: u32,
    segment: u32,
    segments: u32,
}

/// The class of a place that is not coded.
const DEAD: u32 = 3;

/// Walks through the places of a level in order: which are coded, and in which context.
struct Walk {
    level: CodedLevel,
    mask: *const u32,
    /// Local: the place within the tile, and the tile's first node. Global: the node.
    detail: u32,
    at: [u32; 3],
    tile: u32,
    whole: bool,
}

impl Walk {
    #[inline(always)]
    fn new<const KIND: u32>(level: CodedLevel, mask: *const u32, place: u32) -> Self {
        let mut walk = Self { level, mask, detail: 0, at: [0; 3], tile: 0, whole: false };
        if KIND <= 3 {
            walk.tile = place / Self::details::<KIND>();
            walk.enter::<KIND>();
        } else if KIND == 4 {
            walk.at = split(place, level.dims);
        }
        walk
    }

    #[inline(always)]
    fn details<const KIND: u32>() -> u32 {
        match KIND {
            1 => Geometry::<1, 1>::DETAILS as u32,
            2 => Geometry::<1, 8>::DETAILS as u32,
            _ => Geometry::<8, 8>::DETAILS as u32,
        }
    }

    /// Looks where the tile is.
    #[inline(always)]
    fn enter<const KIND: u32>(&mut self) {
        let tile = split(self.tile, self.level.tiles);
        let size = TILE as u32;
        self.whole = self.mask.is_null();
        let mut axis = 0;
        while axis < 3 {
            if axis + KIND >= 3 {
                self.at[axis as usize] = tile[axis as usize] * size;
                self.whole &= self.at[axis as usize] + size <= self.level.dims[axis as usize];
            }
            axis += 1;
        }
    }

    /// The class of the place that the walk is at, or [`DEAD`]; moves on.
    ///
    /// # Safety
    /// `mask` is null or has a bit for each node.
    #[inline(always)]
    unsafe fn next<const KIND: u32>(&mut self) -> u32 {
        match KIND {
            // SAFETY: the caller's.
            1..=3 => unsafe { self.next_detail::<KIND>() },
            4 => self.next_node(),
            _ => 0,
        }
    }

    #[inline(always)]
    unsafe fn next_detail<const KIND: u32>(&mut self) -> u32 {
        let detail = self.detail as usize;
        let (node, class) = match KIND {
            1 => (Geometry::<1, 1>::DETAIL_NODE[detail], Geometry::<1, 1>::DETAIL_CLASS[detail]),
            2 => (Geometry::<1, 8>::DETAIL_NODE[detail], Geometry::<1, 8>::DETAIL_CLASS[detail]),
            _ => (Geometry::<8, 8>::DETAIL_NODE[detail], Geometry::<8, 8>::DETAIL_CLASS[detail]),
        };
        let mut live = true;
        if !self.whole {
            let node = node as u32;
            let dims = self.level.dims;
            let (z, y, x) = (self.at[0] + node / 64, self.at[1] + node / 8 % 8, self.at[2] + node % 8);
            live = z < dims[0] && y < dims[1] && x < dims[2];
            if live && !self.mask.is_null() {
                let index = (z * dims[1] + y) * dims[2] + x;
                // SAFETY: the node exists.
                live = unsafe { *self.mask.add((index / 32) as usize) } >> (index % 32) & 1 == 0;
            }
        }
        self.detail += 1;
        if self.detail == Self::details::<KIND>() {
            self.detail = 0;
            self.tile += 1;
            self.enter::<KIND>();
        }
        if live { class as u32 } else { DEAD }
    }

    #[inline(always)]
    fn next_node(&mut self) -> u32 {
        let dims = self.level.dims;
        let mut odd = 0;
        let mut axis = 0;
        while axis < 3 {
            odd += !is_coarse(self.at[axis] as u64, dims[axis] as u64) as u32;
            axis += 1;
        }
        self.at[2] += 1;
        if self.at[2] == dims[2] {
            self.at[2] = 0;
            self.at[1] += 1;
            if self.at[1] == dims[1] {
                self.at[1] = 0;
                self.at[0] += 1;
            }
        }
        if odd == 0 { DEAD } else { odd - 1 }
    }
}

/// An index as (z, y, x) in an array of `dims`.
#[inline(always)]
fn split(index: u32, dims: [u32; 3]) -> [u32; 3] {
    // SAFETY: a dimension is at least 1.
    let (ny, nx) = unsafe { (NonZeroU32::new_unchecked(dims[1]), NonZeroU32::new_unchecked(dims[2])) };
    let (row, x) = (index / nx, index % nx);
    [row / ny, row % ny, x]
}

/// The calling lane's segment, and the warp's first.
#[inline(always)]
fn my_segment() -> (u32, u32) {
    let index = thread::index_1d();
    (index, index - warp::lane_id())
}

/// Copies 32 places of the warp's segments, from place `start` of each, into shared rows.
///
/// # Safety
/// All lanes call it; `symbols` points to the level's places, `rows` to the warp's 32 x 33 values of shared memory.
#[inline(always)]
unsafe fn load_rows<S: Symbol>(level: CodedLevel, symbols: *const S, rows: *mut S, first: u32, start: u32) {
    let lane = warp::lane_id();
    // SAFETY: places are checked.
    unsafe {
        warp::full::sync();
        let mut row = 0;
        while row < 32 {
            let place = (first + row) * level.segment + start + lane;
            let inside = first + row < level.segments && start + lane < level.segment && place < level.places;
            *rows.add(row as usize * STRIDE + lane as usize) = if inside { *symbols.add(place as usize) } else { S::default() };
            row += 1;
        }
        warp::full::sync();
    }
}

/// Calls `emit(class, token, extra bits, magnitude)` for every token of the lane's segment. Lanes of a warp go through their places
/// in step.
///
/// # Safety
/// As [`load_rows`].
#[inline(always)]
unsafe fn tokens<S: Symbol, const KIND: u32>(
    level: CodedLevel,
    symbols: *const S,
    mask: *const u32,
    rows: *mut S,
    mut emit: impl FnMut(u32, u32, u32, u64),
) {
    let (segment, first) = my_segment();
    let base = segment * level.segment;
    let count = if segment < level.segments { level.segment.min(level.places - base) } else { 0 };
    let mut walk = Walk::new::<KIND>(level, mask, if segment < level.segments { base } else { 0 });
    // The group so far: coded symbols, whether one is not 0, and the classes of zeros that wait for one.
    let (mut filled, mut seen, mut classes) = (0u32, false, 0u32);
    // SAFETY: the caller's.
    unsafe {
        let mut start = 0;
        while start < level.segment {
            load_rows(level, symbols, rows, first, start);
            let mut k = 0;
            while k < 32 {
                if start + k < count {
                    let class = walk.next::<KIND>();
                    if class != DEAD {
                        let symbol = (*rows.add(warp::lane_id() as usize * STRIDE + k as usize)).to_i64();
                        if symbol != 0 && !seen {
                            let mut waiting = 0;
                            while waiting < filled {
                                emit(classes >> (2 * waiting) & 3, 0, 0, 0);
                                waiting += 1;
                            }
                            seen = true;
                        }
                        if seen {
                            let (token, extra) = token(symbol);
                            emit(class, token, extra, symbol.unsigned_abs());
                        } else {
                            classes |= class << (2 * filled);
                        }
                        filled += 1;
                        if filled == GROUP as u32 {
                            if !seen {
                                emit(classes & 3, ZERO_GROUP, 0, 0);
                            }
                            (filled, seen, classes) = (0, false, 0);
                        }
                    }
                }
                k += 1;
            }
            start += 32;
        }
    }
    if filled > 0 && !seen {
        emit(classes & 3, ZERO_GROUP, 0, 0);
    }
}

/// Whether all symbols of the lane's segment are 0.
///
/// # Safety
/// As [`load_rows`].
#[inline(always)]
unsafe fn all_zero<S: Symbol>(level: CodedLevel, symbols: *const S) -> bool {
    let (segment, first) = my_segment();
    let lane = warp::lane_id();
    let mut nonzero = 0u32;
    // SAFETY: places are checked; all lanes of the warp are here.
    unsafe {
        let mut row = 0;
        while row < 32 {
            let base = (first + row) * level.segment;
            let count = if first + row < level.segments { level.segment.min(level.places - base) } else { 0 };
            let mut any = false;
            let mut place = lane;
            while place < count {
                any |= *symbols.add((base + place) as usize) != S::default();
                place += 32;
            }
            if warp::full::any(any) {
                nonzero |= 1 << row;
            }
            row += 1;
        }
    }
    nonzero >> (segment - first) & 1 == 0
}

/// Runs a generic function for the level's kind.
macro_rules! by_kind {
    ($level:expr, $function:ident::<$symbol:ty>($($argument:expr),*)) => {
        match $level.kind {
            1 => $function::<$symbol, 1>($($argument),*),
            2 => $function::<$symbol, 2>($($argument),*),
            3 => $function::<$symbol, 3>($($argument),*),
            4 => $function::<$symbol, 4>($($argument),*),
            _ => $function::<$symbol, 5>($($argument),*),
        }
    };
}

#[inline(always)]
unsafe fn count<S: Symbol, const KIND: u32>(
    level: CodedLevel,
    symbols: *const S,
    mask: *const u32,
    rows: *mut S,
    counts: *mut u32,
    total: *mut u32,
) {
    let t = thread::thread_idx_x() as usize;
    // SAFETY: counts are the block's 3 x 208 in shared memory; all threads are here.
    unsafe {
        let mut i = t;
        while i < CLASSES * TOKENS {
            *counts.add(i) = 0;
            i += BLOCK as usize;
        }
        thread::sync_threads();
        let zero = all_zero(level, symbols);
        tokens::<S, KIND>(level, symbols, mask, rows, |class, token, _, _| {
            if !zero {
                shared::atomic_add_u32(counts.add(class as usize * TOKENS + token as usize), 1);
            }
        });
        thread::sync_threads();
        let mut i = t;
        while i < CLASSES * TOKENS {
            let n = *counts.add(i);
            if n > 0 {
                atomic_fetch_add_relaxed_u32_device(total.add(i), n);
            }
            i += BLOCK as usize;
        }
    }
}

/// Appends bits to a slot of whole words.
struct Writer {
    slot: *mut u32,
    words: u32,
    pending: u64,
    bits: u32,
}

impl Writer {
    /// # Safety
    /// The slot has room; `bits` has `count` bits, at most 32.
    #[inline(always)]
    unsafe fn put(&mut self, bits: u64, count: u32) {
        self.pending |= bits << self.bits;
        self.bits += count;
        if self.bits >= 32 {
            // SAFETY: the caller's.
            unsafe { *self.slot.add(self.words as usize) = self.pending as u32 };
            self.words += 1;
            self.pending >>= 32;
            self.bits -= 32;
        }
    }

    /// Writes what is left; the number of bytes.
    ///
    /// # Safety
    /// The slot has room.
    #[inline(always)]
    unsafe fn finish(self) -> u32 {
        if self.bits > 0 {
            // SAFETY: the caller's.
            unsafe { *self.slot.add(self.words as usize) = self.pending as u32 };
        }
        self.words * 4 + self.bits.div_ceil(8)
    }
}

#[inline(always)]
unsafe fn encode<S: Symbol, const KIND: u32>(
    level: CodedLevel,
    symbols: *const S,
    mask: *const u32,
    rows: *mut S,
    codes: *const u32,
    slots: *mut u32,
    slot_words: u32,
    lengths: *mut u16,
) {
    let (segment, _) = my_segment();
    // SAFETY: codes are the block's in shared memory; a slot has room for the worst case.
    unsafe {
        let zero = all_zero(level, symbols);
        let slot = slots.add(segment.min(level.segments - 1) as usize * slot_words as usize);
        let mut writer = Writer { slot, words: 0, pending: 0, bits: 0 };
        tokens::<S, KIND>(level, symbols, mask, rows, |class, token, extra, magnitude| {
            if !zero {
                let code = *codes.add(class as usize * TOKENS + token as usize);
                writer.put((code & 0xFFFF) as u64, code >> 16);
                let raw = magnitude & ((1u64 << extra) - 1);
                if extra > 32 {
                    writer.put(raw & 0xFFFF_FFFF, 32);
                    writer.put(raw >> 32, extra - 32);
                } else {
                    writer.put(raw, extra);
                }
            }
        });
        let bytes = writer.finish();
        if segment < level.segments {
            *lengths.add(segment as usize) = bytes as u16;
        }
    }
}

/// Reads bits of a segment.
struct Reader {
    payload: *const u32,
    /// The next word, and the last that may be read.
    word: u32,
    end: u32,
    pending: u64,
    bits: u32,
    /// Bits taken so far.
    taken: u32,
}

impl Reader {
    /// # Safety
    /// The payload has the bytes, and ends on a whole word.
    #[inline(always)]
    unsafe fn new(payload: *const u32, offset: u32, bytes: u32) -> Self {
        let mut reader = Self { payload, word: offset / 4, end: (offset + bytes).div_ceil(4), pending: 0, bits: 0, taken: 0 };
        // SAFETY: the caller's.
        unsafe { reader.fill() };
        let skip = offset % 4 * 8;
        reader.pending >>= skip;
        reader.bits = reader.bits.saturating_sub(skip);
        reader
    }

    /// Makes at least 32 bits ready; zeros beyond the end.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn fill(&mut self) {
        if self.bits <= 32 {
            // SAFETY: the word is below the end.
            let next = if self.word < self.end { unsafe { *self.payload.add(self.word as usize) } } else { 0 };
            self.pending |= (next as u64) << self.bits;
            self.word += 1;
            self.bits += 32;
        }
    }

    #[inline(always)]
    fn skip(&mut self, count: u32) {
        self.pending >>= count;
        self.bits -= count;
        self.taken += count;
    }

    /// The next `count` bits, at most 32.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn take(&mut self, count: u32) -> u64 {
        // SAFETY: the caller's.
        unsafe { self.fill() };
        let bits = self.pending & ((1u64 << count) - 1);
        self.skip(count);
        bits
    }
}

#[inline(always)]
unsafe fn decode<S: Symbol, const KIND: u32>(
    level: CodedLevel,
    payload: *const u32,
    offsets: *const u32,
    mask: *const u32,
    rows: *mut S,
    tables: *const u16,
    symbols: *mut S,
    bad: *mut u32,
) {
    let (segment, first) = my_segment();
    let lane = warp::lane_id();
    let exists = segment < level.segments;
    let base = segment * level.segment;
    // SAFETY: places are checked; offsets has one more entry than there are segments.
    unsafe {
        let count = if exists { level.segment.min(level.places - base) } else { 0 };
        let offset = if exists { *offsets.add(segment as usize) } else { 0 };
        let bytes = if exists { *offsets.add(segment as usize + 1) - offset } else { 0 };
        let mut walk = Walk::new::<KIND>(level, mask, if exists { base } else { 0 });
        let mut reader = Reader::new(payload, offset, bytes);
        let (mut in_group, mut zeros, mut known) = (0u32, false, true);
        let mut start = 0;
        while start < level.segment {
            let mut k = 0;
            while k < 32 {
                let mut symbol = 0i64;
                if start + k < count && bytes > 0 {
                    let class = walk.next::<KIND>();
                    if class != DEAD {
                        let opens = in_group == 0;
                        in_group = (in_group + 1) % GROUP as u32;
                        if opens || !zeros {
                            reader.fill();
                            let entry = *tables.add(class as usize * TABLE + (reader.pending as usize & (TABLE - 1)));
                            let (token, length) = ((entry & 0xFF) as u32, (entry >> 8) as u32);
                            reader.skip(length);
                            zeros = token == ZERO_GROUP;
                            known &= length > 0 && (opens || !zeros);
                            if !zeros {
                                let extra = extra_bits(token);
                                let low = reader.take(extra.min(32));
                                let high = if extra > 32 { reader.take(extra - 32) << 32 } else { 0 };
                                symbol = value(token, low | high);
                            }
                        }
                    }
                }
                *rows.add(lane as usize * STRIDE + k as usize) = S::from_i64(symbol);
                k += 1;
            }
            warp::full::sync();
            let mut row = 0;
            while row < 32 {
                let place = (first + row) * level.segment + start + lane;
                if first + row < level.segments && start + lane < level.segment && place < level.places {
                    *symbols.add(place as usize) = *rows.add(row as usize * STRIDE + lane as usize);
                }
                row += 1;
            }
            warp::full::sync();
            start += 32;
        }
        if bytes > 0 && !(known && reader.taken.div_ceil(8) == bytes) {
            *bad = 1;
        }
    }
}

/// Threads of a block that moves segments, a warp for each.
pub const MOVE_BLOCK: u32 = 256;

/// Moves segments from their slots to their place in the payload.
///
/// Grid: ceil(segments / 8) blocks; block: 256 threads. No shared memory.
///
/// # Safety
///
/// `slots` points to `slot_words` words a segment, `offsets` to one value more than there are segments, `payload` to as many bytes as the last one says.
#[kernel(max_threads = MOVE_BLOCK)]
pub unsafe fn move_segments(segments: u32, slots: *const u32, slot_words: u32, offsets: *const u32, payload: *mut u8) {
    let segment = thread::index_1d() / 32;
    if segment >= segments {
        return;
    }
    // SAFETY: the caller's.
    unsafe {
        let offset = *offsets.add(segment as usize);
        let bytes = *offsets.add(segment as usize + 1) - offset;
        let slot = slots.add(segment as usize * slot_words as usize) as *const u8;
        let mut i = warp::lane_id();
        while i < bytes {
            *payload.add((offset + i) as usize) = *slot.add(i as usize);
            i += 32;
        }
    }
}

macro_rules! kernels {
    ($symbol:ident, $count:ident, $encode:ident, $decode:ident) => {
        /// Adds the tokens of a level to 3 histograms of 208 counts. Segments of zeros do not count.
        ///
        /// Grid: ceil(segments / 64) blocks; block: 64 threads. Shared memory: 2496 bytes and 2 x 32 x 33 symbols, static.
        ///
        /// # Safety
        ///
        /// `symbols` points to the level's places, `mask` to a bit for each node of the array or nowhere, `total` to 624 counts.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $count(level: CodedLevel, symbols: *const $symbol, mask: *const u32, total: *mut u32) {
            let rows = shared_array![$symbol; 2 * 32 * STRIDE];
            let counts = shared_array![u32; CLASSES * TOKENS];
            // SAFETY: the caller's.
            unsafe {
                let rows = rows.add((thread::thread_idx_x() / 32) as usize * 32 * STRIDE);
                by_kind!(level, count::<$symbol>(level, symbols, mask, rows, counts, total))
            }
        }

        /// Codes each segment into a slot of its own.
        ///
        /// Grid: ceil(segments / 64) blocks; block: 64 threads. Shared memory: 2496 bytes and 2 x 32 x 33 symbols, static.
        ///
        /// # Safety
        ///
        /// As above; `books` points to 624 codes (code | length << 16), `slots` to `slot_words` words a segment, enough for any, `lengths` to one value a segment.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $encode(
            level: CodedLevel,
            symbols: *const $symbol,
            mask: *const u32,
            books: *const u32,
            slots: *mut u32,
            slot_words: u32,
            lengths: *mut u16,
        ) {
            let rows = shared_array![$symbol; 2 * 32 * STRIDE];
            let codes = shared_array![u32; CLASSES * TOKENS];
            // SAFETY: the caller's.
            unsafe {
                let mut i = thread::thread_idx_x() as usize;
                while i < CLASSES * TOKENS {
                    *codes.add(i) = *books.add(i);
                    i += BLOCK as usize;
                }
                thread::sync_threads();
                let rows = rows.add((thread::thread_idx_x() / 32) as usize * 32 * STRIDE);
                by_kind!(level, encode::<$symbol>(level, symbols, mask, rows, codes, slots, slot_words, lengths))
            }
        }

        /// Decodes each segment. Sets `bad` where bits are no code or do not end where their segment does.
        ///
        /// Grid: ceil(segments / 64) blocks; block: 64 threads. Shared memory: 24576 bytes and 2 x 32 x 33 symbols, static.
        ///
        /// # Safety
        ///
        /// `payload` points to whole words, `offsets` to one byte offset more than there are segments, ascending, within the payload; `tables` to 3 x 4096
        /// entries; `symbols` to the level's places.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $decode(
            level: CodedLevel,
            payload: *const u32,
            offsets: *const u32,
            mask: *const u32,
            tables: *const u16,
            symbols: *mut $symbol,
            bad: *mut u32,
        ) {
            let rows = shared_array![$symbol; 2 * 32 * STRIDE];
            let shared_tables = shared_array![u16; CLASSES * TABLE];
            // SAFETY: the caller's.
            unsafe {
                let mut i = thread::thread_idx_x() as usize;
                while i < CLASSES * TABLE / 2 {
                    *(shared_tables as *mut u32).add(i) = *(tables as *const u32).add(i);
                    i += BLOCK as usize;
                }
                thread::sync_threads();
                let rows = rows.add((thread::thread_idx_x() / 32) as usize * 32 * STRIDE);
                by_kind!(level, decode::<$symbol>(level, payload, offsets, mask, rows, shared_tables, symbols, bad))
            }
        }
    };
}

kernels!(i32, count_tokens_f32, encode_f32, decode_f32);
kernels!(i64, count_tokens_f64, encode_f64, decode_f64);
