//! Symbols to bits and back.
//!
//! Coding: a warp works on a segment. It compacts the coded symbols into shared memory by votes, each lane then takes groups of 8, a scan
//! of their sizes says where their bits go. Decoding is serial within a segment: a thread works on a segment, a warp on 32 neighbours,
//! place by place in step; symbols go out through shared memory, 32 places of 32 segments at a time, so that memory sees whole lines.

use bmgard_core::Symbol;
use bmgard_core::axis::is_coarse;
use bmgard_core::tile::{Geometry, TILE};
use bmgard_core::token::{GROUP, TOKENS, ZERO_GROUP, extra_bits};
use cuda_std::atomic::intrinsics::atomic_fetch_add_relaxed_u32_device;
use cuda_std::prelude::*;

use crate::common::split;
use crate::unroll::each8;

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
    /// `mask` is null or has a bit for each node; `places` was loaded.
    #[inline(always)]
    unsafe fn next<const KIND: u32>(&mut self, places: *const u16) -> u32 {
        match KIND {
            // SAFETY: the caller's.
            1..=3 => unsafe { self.next_detail::<KIND>(places) },
            4 => self.next_node(),
            _ => 0,
        }
    }

    /// The node and the class of a tile's detail.
    #[inline(always)]
    fn place<const KIND: u32>(detail: usize) -> (u16, u16) {
        match KIND {
            1 => (Geometry::<1, 1>::DETAIL_NODE[detail], Geometry::<1, 1>::DETAIL_CLASS[detail] as u16),
            2 => (Geometry::<1, 8>::DETAIL_NODE[detail], Geometry::<1, 8>::DETAIL_CLASS[detail] as u16),
            _ => (Geometry::<8, 8>::DETAIL_NODE[detail], Geometry::<8, 8>::DETAIL_CLASS[detail] as u16),
        }
    }

    #[inline(always)]
    unsafe fn next_detail<const KIND: u32>(&mut self, places: *const u16) -> u32 {
        // SAFETY: the caller's.
        let entry = unsafe { *places.add(self.detail as usize) };
        let (node, class) = (entry & 0xFFF, entry >> 12);
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

/// The calling lane's segment, and the warp's first.
#[inline(always)]
fn my_segment() -> (u32, u32) {
    let index = thread::index_1d();
    (index, index - warp::lane_id())
}

/// Places of the largest segment.
const MAX_SEGMENT: usize = 1024;

/// The class of each place of a tile, and its node: node | class << 12, in shared memory.
///
/// # Safety
/// All threads of the block call it.
#[inline(always)]
unsafe fn load_places<const KIND: u32>(table: *mut u16) {
    let mut i = thread::thread_idx_x() as usize;
    // SAFETY: the table has 392 places.
    unsafe {
        while i < Walk::details::<KIND>() as usize {
            let (node, class) = Walk::place::<KIND>(i);
            *table.add(i) = node | class << 12;
            i += BLOCK as usize;
        }
        thread::sync_threads();
    }
}

/// The class of a place, or [`DEAD`].
///
/// # Safety
/// `mask` is null or has a bit for each node; `table` was loaded.
#[inline(always)]
unsafe fn classify<const KIND: u32>(level: &CodedLevel, mask: *const u32, table: *const u16, place: u32) -> u32 {
    // SAFETY: the caller's.
    unsafe {
        if KIND == 5 {
            return 0;
        }
        if KIND == 4 {
            let at = split(place, level.dims);
            let odd = [0, 1, 2].map(|a| !is_coarse(at[a] as u64, level.dims[a] as u64) as u32);
            let odd = odd[0] + odd[1] + odd[2];
            return if odd == 0 { DEAD } else { odd - 1 };
        }
        let (tile, detail) = (place / Walk::details::<KIND>(), place % Walk::details::<KIND>());
        let entry = *table.add(detail as usize) as u32;
        let class = entry >> 12;
        let (node, at) = (entry & 0xFFF, split(tile, level.tiles));
        let scale = |axis: usize| if axis as u32 + KIND >= 3 { at[axis] * TILE as u32 } else { 0 };
        let (z, y, x) = (scale(0) + node / 64, scale(1) + node / 8 % 8, scale(2) + node % 8);
        if z >= level.dims[0] || y >= level.dims[1] || x >= level.dims[2] {
            return DEAD;
        }
        let index = (z * level.dims[1] + y) * level.dims[2] + x;
        if !mask.is_null() && *mask.add((index / 32) as usize) >> (index % 32) & 1 == 1 {
            return DEAD;
        }
        class
    }
}

/// Whether all nodes of a segment's tiles are inside the array and none is masked. Only looked for in three dimensions, where a
/// segment has two tiles.
#[inline(always)]
fn is_whole<const KIND: u32>(level: &CodedLevel, mask: *const u32, first: u32, count: u32) -> bool {
    if KIND != 3 || !mask.is_null() {
        return false;
    }
    let mut whole = true;
    let mut tile = first / Walk::details::<KIND>();
    let end = (first + count) / Walk::details::<KIND>();
    while tile < end {
        let at = split(tile, level.tiles);
        let mut axis = 0;
        while axis < 3 {
            whole &= (at[axis] + 1) * TILE as u32 <= level.dims[axis];
            axis += 1;
        }
        tile += 1;
    }
    whole
}

/// The warp's segment: where its coded symbols are, and how many; if not whole, they go one after the other into shared memory, with
/// their classes.
///
/// # Safety
/// All lanes call it; the pointers are as in the kernels below.
#[inline(always)]
unsafe fn compact<S: Symbol + intrinsics::ReadOnlyValue, const KIND: u32>(
    level: &CodedLevel,
    segment: u32,
    symbols: *const S,
    mask: *const u32,
    table: *const u16,
    compacted: *mut S,
    classes: *mut u8,
) -> (Found<S>, u32) {
    /// Loads under way at once.
    const AHEAD: usize = 8;
    let lane = warp::lane_id();
    let first = segment * level.segment;
    let count = level.segment.min(level.places - first);
    let whole = is_whole::<KIND>(level, mask, first, count);
    if whole {
        // SAFETY: the segment exists.
        return (Found::Whole(unsafe { symbols.add(first as usize) }), count);
    }
    let mut live = 0;
    // SAFETY: places are checked; a segment has at most 1024.
    unsafe {
        let mut start = 0;
        while start < count {
            let mut loaded = [S::default(); AHEAD];
            each8!(|k| {
                let place = start + k as u32 * 32 + lane;
                if place < count {
                    loaded[k] = intrinsics::load_readonly(symbols.add((first + place) as usize));
                }
            });
            each8!(|k| {
                let place = start + k as u32 * 32 + lane;
                let class = if place < count { classify::<KIND>(level, mask, table, first + place) } else { DEAD };
                let votes = warp::full::ballot(class != DEAD);
                if class != DEAD {
                    let rank = (live + (votes & warp::lanemask_lt()).count_ones()) as usize;
                    *compacted.add(rank) = loaded[k];
                    *classes.add(rank) = class as u8;
                }
                live += votes.count_ones();
            });
            start += AHEAD as u32 * 32;
        }
        // The last group is filled up with zeros, which nothing codes.
        if lane < GROUP as u32 {
            *compacted.add((live + lane) as usize) = S::default();
            *classes.add((live + lane) as usize) = 0;
        }
        warp::full::sync();
        (Found::Compacted, live)
    }
}

/// Where a segment's coded symbols are.
enum Found<S> {
    /// In shared memory, with their classes.
    Compacted,
    /// Where they were: all places are coded. Symbols, and the classes of two tiles.
    Whole(*const S),
}

/// A lane's group of symbols and their classes, one a byte.
///
/// # Safety
/// The group is inside the coded symbols; in shared memory they are filled up, in place `coded` of them exist.
#[inline(always)]
unsafe fn group<S: Symbol + intrinsics::ReadOnlyValue>(
    found: &Found<S>,
    compacted: *const S,
    classes: *const u8,
    whole_classes: *const u64,
    index: u32,
    coded: u32,
) -> ([S; GROUP], u64) {
    let mut symbols = [S::default(); GROUP];
    // SAFETY: the caller's.
    unsafe {
        match *found {
            Found::Compacted => {
                each8!(|k| {
                    symbols[k] = *compacted.add(index as usize * GROUP + k);
                });
                (symbols, *(classes as *const u64).add(index as usize))
            }
            Found::Whole(at) => {
                each8!(|k| {
                    if (k as u32) < coded {
                        symbols[k] = intrinsics::load_readonly(at.add(index as usize * GROUP + k));
                    }
                });
                (symbols, *whole_classes.add(index as usize))
            }
        }
    }
}

/// The classes of the places of two whole tiles, one a byte, in shared memory.
///
/// # Safety
/// All threads of the block call it; `table` was loaded.
#[inline(always)]
unsafe fn load_whole_classes<const KIND: u32>(table: *const u16, whole_classes: *mut u8) {
    if KIND != 3 {
        return;
    }
    let details = Walk::details::<KIND>() as usize;
    let mut i = thread::thread_idx_x() as usize;
    // SAFETY: there is room for 776 bytes.
    unsafe {
        while i < 776 {
            *whole_classes.add(i) = if i < 2 * details { (*table.add(i % details) >> 12) as u8 } else { 0 };
            i += BLOCK as usize;
        }
        thread::sync_threads();
    }
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
unsafe fn count<S: Symbol + intrinsics::ReadOnlyValue, const KIND: u32>(
    level: CodedLevel,
    symbols: *const S,
    mask: *const u32,
    table: *mut u16,
    compacted: *mut S,
    classes: *mut u8,
    whole_classes: *mut u64,
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
        // Its barrier is also the one after the block's counts or codes were set.
        load_places::<KIND>(table);
        load_whole_classes::<KIND>(table, whole_classes as *mut u8);
        // The commonest tokens, 0, 1 and 2 (values 0, 1 and -1), are counted apart, per class 20 bits each.
        let mut common = [0u64; CLASSES];
        let mut segment = thread::index_1d() / 32;
        while segment < level.segments {
            let (found, live) = compact::<S, KIND>(&level, segment, symbols, mask, table, compacted, classes);
            // Groups of zeros wait: they count only if the segment has another.
            let mut zeros = 0u32;
            let mut any = false;
            let mut index = warp::lane_id();
            while index * (GROUP as u32) < live {
                let coded = (live - index * GROUP as u32).min(GROUP as u32);
                let (values, kinds) = group(&found, compacted, classes, whole_classes, index, coded);
                if values.iter().all(|&v| v == S::default()) {
                    zeros += 1 << (10 * (kinds & 3) as u32);
                } else {
                    any = true;
                    each8!(|k| {
                        if (k as u32) < coded {
                            let class = (kinds >> (8 * k) & 3) as usize;
                            let (token, _, _) = values[k].token();
                            if token <= 2 {
                                let one = 1u64 << (20 * token);
                                common[0] += if class == 0 { one } else { 0 };
                                common[1] += if class == 1 { one } else { 0 };
                                common[2] += if class == 2 { one } else { 0 };
                            } else {
                                shared::atomic_add_u32(counts.add(class * TOKENS + token as usize), 1);
                            }
                        }
                    });
                }
                index += 32;
            }
            if warp::full::any(any) {
                let zeros = warp::full::reduce_add(zeros);
                let lane = warp::lane_id() as usize;
                if lane < CLASSES && zeros >> (10 * lane) & 0x3FF > 0 {
                    shared::atomic_add_u32(counts.add(lane * TOKENS + ZERO_GROUP as usize), zeros >> (10 * lane) & 0x3FF);
                }
            }
            warp::full::sync();
            segment += thread::grid_dim_x() * (BLOCK / 32);
        }
        let mut class = 0;
        while class < CLASSES {
            let packed = if class == 0 {
                common[0]
            } else if class == 1 {
                common[1]
            } else {
                common[2]
            };
            let mut token = 0;
            while token < 3 {
                let sum = warp::full::reduce_add((packed >> (20 * token) & 0xF_FFFF) as u32);
                if warp::lane_id() == 0 && sum > 0 {
                    shared::atomic_add_u32(counts.add(class * TOKENS + token), sum);
                }
                token += 1;
            }
            class += 1;
        }
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

/// Appends bits to zeroed words of shared memory, whose first and last may be others' too.
struct Append {
    word: *mut u32,
    pending: u64,
    filled: u32,
}

impl Append {
    /// # Safety
    /// There is room; `bits` has `count` bits, at most 32.
    #[inline(always)]
    unsafe fn put(&mut self, bits: u64, count: u32) {
        self.pending |= bits << self.filled;
        self.filled += count;
        if self.filled >= 32 {
            // SAFETY: the caller's.
            unsafe {
                shared::atomic_or_u32(self.word, self.pending as u32);
                self.word = self.word.add(1);
            }
            self.pending >>= 32;
            self.filled -= 32;
        }
    }

    /// # Safety
    /// There is room.
    #[inline(always)]
    unsafe fn finish(self) {
        if self.pending != 0 {
            // SAFETY: the caller's.
            unsafe { shared::atomic_or_u32(self.word, self.pending as u32) };
        }
    }
}

#[inline(always)]
unsafe fn encode<S: Symbol + intrinsics::ReadOnlyValue, const KIND: u32>(
    level: CodedLevel,
    symbols: *const S,
    mask: *const u32,
    table: *mut u16,
    compacted: *mut S,
    classes: *mut u8,
    whole_classes: *mut u64,
    words: *mut u32,
    codes: *const u32,
    slots: *mut u32,
    slot_words: u32,
    lengths: *mut u16,
) {
    let lane = warp::lane_id();
    // SAFETY: codes are the block's in shared memory; words and slots have room for the worst case; all lanes go the same way but
    // for the groups they write.
    unsafe {
        // Its barrier is also the one after the block's counts or codes were set.
        load_places::<KIND>(table);
        load_whole_classes::<KIND>(table, whole_classes as *mut u8);
        let mut segment = thread::index_1d() / 32;
        while segment < level.segments {
            let (found, live) = compact::<S, KIND>(&level, segment, symbols, mask, table, compacted, classes);
            let groups = live.div_ceil(GROUP as u32);
            let mut any = false;
            let mut cleared = lane;
            while cleared < slot_words {
                *words.add(cleared as usize) = 0;
                cleared += 32;
            }
            warp::full::sync();
            let mut written = 0u32;
            let mut round = 0;
            while round < groups {
                let index = round + lane;
                let mut bits = [0u64; GROUP];
                let mut sizes = [0u32; GROUP];
                if index < groups {
                    let coded = (live - index * GROUP as u32).min(GROUP as u32);
                    let (values, kinds) = group(&found, compacted, classes, whole_classes, index, coded);
                    if values.iter().all(|&v| v == S::default()) {
                        let code = *codes.add((kinds & 3) as usize * TOKENS + ZERO_GROUP as usize);
                        (bits[0], sizes[0]) = ((code & 0xFFFF) as u64, code >> 16);
                    } else {
                        any = true;
                        each8!(|k| {
                            if (k as u32) < coded {
                                let (token, extra, magnitude) = values[k].token();
                                let code = *codes.add((kinds >> (8 * k) & 3) as usize * TOKENS + token as usize);
                                let raw = magnitude & ((1u64 << extra) - 1);
                                bits[k] = (code & 0xFFFF) as u64 | raw << (code >> 16);
                                sizes[k] = (code >> 16) + extra;
                            }
                        });
                    }
                }
                let mut size = 0;
                each8!(|k| {
                    size += sizes[k];
                });
                let mut end = size;
                let mut distance = 1;
                while distance < 32 {
                    let other = warp::full::shuffle_up(end, distance);
                    if lane >= distance {
                        end += other;
                    }
                    distance *= 2;
                }
                let start = written + end - size;
                let mut append = Append { word: words.add((start / 32) as usize), pending: 0, filled: start % 32 };
                each8!(|k| {
                    // At most 62 bits: two halves.
                    let low = sizes[k].min(32);
                    append.put(bits[k] & ((1u64 << low) - 1), low);
                    if sizes[k] > 32 {
                        append.put(bits[k] >> 32, sizes[k] - 32);
                    }
                });
                append.finish();
                written += warp::full::shuffle(end, 31);
                round += 32;
            }
            // A segment of zeros has no bytes.
            let bytes = if warp::full::any(any) { written.div_ceil(8) } else { 0 };
            warp::full::sync();
            let slot = slots.add(segment as usize * slot_words as usize);
            let mut i = lane;
            while i < bytes.div_ceil(4) {
                *slot.add(i as usize) = *words.add(i as usize);
                i += 32;
            }
            if lane == 0 {
                *lengths.add(segment as usize) = bytes as u16;
            }
            warp::full::sync();
            segment += thread::grid_dim_x() * (BLOCK / 32);
        }
    }
}

/// Reads bits of a segment.
struct Reader {
    payload: *const u32,
    /// The next word, its value, which was loaded when the one before it was taken, and the first word that may not be read.
    word: u32,
    next: u32,
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
        let mut reader = Self { payload, word: offset / 4, next: 0, end: (offset + bytes).div_ceil(4), pending: 0, bits: 0, taken: 0 };
        // SAFETY: the caller's.
        unsafe {
            reader.next = reader.load();
            reader.fill();
        }
        let skip = offset % 4 * 8;
        reader.pending >>= skip;
        reader.bits = reader.bits.saturating_sub(skip);
        reader
    }

    /// Makes at least 32 bits ready (no more than that where none was left); zeros beyond the end.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn fill(&mut self) {
        if self.bits <= 32 {
            self.pending |= (self.next as u64) << self.bits;
            self.word += 1;
            self.bits += 32;
            // SAFETY: the caller's.
            self.next = unsafe { self.load() };
        }
    }

    /// The next word; 0 beyond the end.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn load(&self) -> u32 {
        // SAFETY: the word is below the end.
        if self.word < self.end { unsafe { intrinsics::load_readonly(self.payload.add(self.word as usize)) } } else { 0 }
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
    places: *mut u16,
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
        if KIND <= 3 {
            load_places::<KIND>(places);
        }
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
                let mut symbol = S::default();
                if start + k < count && bytes > 0 {
                    let class = walk.next::<KIND>(places);
                    if class != DEAD {
                        let opens = in_group == 0;
                        in_group = (in_group + 1) % GROUP as u32;
                        if opens || !zeros {
                            reader.fill();
                            let entry = *tables.add(class as usize * TABLE + (reader.pending as usize & (TABLE - 1)));
                            let (token, length) = ((entry & 0xFF) as u32, (entry >> 8) as u32);
                            zeros = token == ZERO_GROUP;
                            known &= length > 0 && (opens || !zeros);
                            let extra = if zeros { 0 } else { extra_bits(token) };
                            let raw = if length + extra <= 32 {
                                // All that one filling gives.
                                let raw = reader.pending >> length & ((1u64 << extra) - 1);
                                reader.skip(length + extra);
                                raw
                            } else {
                                reader.skip(length);
                                let low = reader.take(extra.min(32));
                                let high = if extra > 32 { reader.take(extra - 32) << 32 } else { 0 };
                                low | high
                            };
                            if !zeros {
                                symbol = S::from_token(token, raw);
                            }
                        }
                    }
                }
                *rows.add(lane as usize * STRIDE + k as usize) = symbol;
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
        let slot = slots.add(segment as usize * slot_words as usize);
        let head = (offset.wrapping_neg() % 4).min(bytes);
        let whole = (bytes - head) / 4;
        let lane = warp::lane_id();
        // Whole words of the payload come from two words of the slot; the bytes before and after them are shared with neighbours.
        let to = payload.add((offset + head) as usize) as *mut u32;
        let mut i = lane;
        while i < whole {
            let (low, high) = (*slot.add(i as usize), if head > 0 { *slot.add(i as usize + 1) } else { 0 });
            *to.add(i as usize) = if head > 0 { intrinsics::funnel_shift_right(high, low, 8 * head) } else { low };
            i += 32;
        }
        let source = slot as *const u8;
        if lane < head {
            *payload.add((offset + lane) as usize) = *source.add(lane as usize);
        }
        let tail = head + whole * 4 + lane;
        if tail < bytes {
            *payload.add((offset + tail) as usize) = *source.add(tail as usize);
        }
    }
}

macro_rules! kernels {
    ($symbol:ident, $count:ident, $encode:ident, $decode:ident) => {
        /// Adds the tokens of a level to 3 histograms of 208 counts. Segments of zeros do not count. A warp works on a segment.
        ///
        /// Grid: any; block: 64 threads. Shared memory: 784 + 2496 bytes and 2 x 1032 symbols and bytes, static.
        ///
        /// # Safety
        ///
        /// `symbols` points to the level's places, `mask` to a bit for each node of the array or nowhere, `total` to 624 counts.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $count(level: CodedLevel, symbols: *const $symbol, mask: *const u32, total: *mut u32) {
            let table = shared_array![u16; 392];
            let compacted = shared_array![$symbol; 2 * (MAX_SEGMENT + GROUP)];
            let classes = shared_array![u64; 2 * (MAX_SEGMENT / 8 + 1)];
            let whole_classes = shared_array![u64; 97];
            let counts = shared_array![u32; CLASSES * TOKENS];
            // SAFETY: the caller's.
            unsafe {
                let warp = (thread::thread_idx_x() / 32) as usize;
                let compacted = compacted.add(warp * (MAX_SEGMENT + GROUP));
                let classes = classes.add(warp * (MAX_SEGMENT / 8 + 1)) as *mut u8;
                by_kind!(level, count::<$symbol>(level, symbols, mask, table, compacted, classes, whole_classes, counts, total))
            }
        }

        /// Codes each segment into a slot of its own. A warp works on a segment.
        ///
        /// Grid: any; block: 64 threads. Shared memory: 784 + 2496 bytes, 2 x 1032 symbols and bytes, static; 2 x `slot_words` words, dynamic.
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
            let table = shared_array![u16; 392];
            let compacted = shared_array![$symbol; 2 * (MAX_SEGMENT + GROUP)];
            let classes = shared_array![u64; 2 * (MAX_SEGMENT / 8 + 1)];
            let whole_classes = shared_array![u64; 97];
            let codes = shared_array![u32; CLASSES * TOKENS];
            // SAFETY: the caller's.
            unsafe {
                let mut i = thread::thread_idx_x() as usize;
                while i < CLASSES * TOKENS {
                    *codes.add(i) = *books.add(i);
                    i += BLOCK as usize;
                }
                let warp = (thread::thread_idx_x() / 32) as usize;
                let words = shared::dynamic_shared_mem::<u32>().add(warp * slot_words as usize);
                let compacted = compacted.add(warp * (MAX_SEGMENT + GROUP));
                let classes = classes.add(warp * (MAX_SEGMENT / 8 + 1)) as *mut u8;
                by_kind!(
                    level,
                    encode::<$symbol>(level, symbols, mask, table, compacted, classes, whole_classes, words, codes, slots, slot_words, lengths)
                )
            }
        }

        /// Decodes each segment. Sets `bad` where bits are no code or do not end where their segment does.
        ///
        /// Grid: ceil(segments / 64) blocks; block: 64 threads. Shared memory: 24576 + 784 bytes and 2 x 32 x 33 symbols, static.
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
            let places = shared_array![u16; 392];
            // SAFETY: the caller's.
            unsafe {
                let mut i = thread::thread_idx_x() as usize;
                while i < CLASSES * TABLE / 2 {
                    *(shared_tables as *mut u32).add(i) = *(tables as *const u32).add(i);
                    i += BLOCK as usize;
                }
                thread::sync_threads();
                let rows = rows.add((thread::thread_idx_x() / 32) as usize * 32 * STRIDE);
                by_kind!(level, decode::<$symbol>(level, payload, offsets, mask, rows, places, shared_tables, symbols, bad))
            }
        }
    };
}

kernels!(i32, count_tokens_f32, encode_f32, decode_f32);
kernels!(i64, count_tokens_f64, encode_f64, decode_f64);
