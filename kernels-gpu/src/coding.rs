//! Symbols to bits and back.
//!
//! Coding: a warp works on a segment. It compacts the coded symbols into shared memory by votes (those of whole tiles it finds in place),
//! each lane then takes groups of 8, a scan of their sizes says where their bits go. Code and extra bits of small symbols come from one
//! table. Decoding is serial within a segment: a thread works on a segment, a warp on 32 neighbours, place by place in step; symbols go
//! out through shared memory, 32 places of 32 segments at a time, so that memory sees whole lines.

use bmgard_core::Symbol;
use bmgard_core::axis::is_coarse;
use bmgard_core::tile::{Geometry, TILE};
use bmgard_core::token::{ESCAPE, ESCAPED_BITS, GROUP, TOKENS, ZERO_GROUP, extra_bits};
use cuda_std::atomic::intrinsics::{atomic_fetch_add_relaxed_u32_device, atomic_fetch_or_relaxed_u32_device};
use cuda_std::prelude::*;

use crate::common::{Stored, load, load_symbol, running_sum, split};
use crate::unroll::each8;

/// Threads of a block that counts.
pub const BLOCK: u32 = 64;
/// Coding contexts of a level.
const CLASSES: usize = 3;
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
    /// Every so many segments are counted.
    stride: u32,
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
            i += thread::block_dim_x() as usize;
        }
        thread::sync_threads();
    }
}

/// The nodes of a global level that a lane looks at, 32 apart.
struct Nodes {
    at: [u32; 3],
    /// In how many of z and y the node is not coarse.
    odd: u32,
}

impl Nodes {
    #[inline(always)]
    fn new(level: &CodedLevel, node: u32) -> Self {
        let mut nodes = Self { at: split(node, level.dims), odd: 0 };
        nodes.enter(level);
        nodes
    }

    #[inline(always)]
    fn enter(&mut self, level: &CodedLevel) {
        self.odd = [0, 1].map(|a| u32::from(!is_coarse(self.at[a] as u64, level.dims[a] as u64))).iter().sum();
    }

    /// The class of the node, or [`DEAD`]; moves on.
    #[inline(always)]
    fn next(&mut self, level: &CodedLevel) -> u32 {
        let odd = self.odd + u32::from(!is_coarse(self.at[2] as u64, level.dims[2] as u64));
        self.at[2] += 32;
        if self.at[2] >= level.dims[2] {
            while self.at[2] >= level.dims[2] {
                self.at[2] -= level.dims[2];
                self.at[1] += 1;
                if self.at[1] == level.dims[1] {
                    self.at[1] = 0;
                    self.at[0] += 1;
                }
            }
            self.enter(level);
        }
        if odd == 0 { DEAD } else { odd - 1 }
    }
}

/// The class of a place of a local level or of the coarsest array, or [`DEAD`].
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
unsafe fn compact<S: Symbol, P: Stored<S>, const KIND: u32>(
    level: &CodedLevel,
    segment: u32,
    symbols: *const P,
    mask: *const u32,
    table: *const u16,
    compacted: *mut P,
    classes: *mut u8,
) -> (Found<P>, u32) {
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
        let mut nodes = Nodes { at: [0; 3], odd: 0 };
        if KIND == 4 {
            nodes = Nodes::new(level, (first + lane).min(level.places - 1));
        }
        let mut start = 0;
        while start < count {
            let mut loaded = [P::default(); AHEAD];
            each8!(|k| {
                let place = start + k as u32 * 32 + lane;
                if place < count {
                    loaded[k] = intrinsics::load_readonly(symbols.add((first + place) as usize));
                }
            });
            each8!(|k| {
                let place = start + k as u32 * 32 + lane;
                let mut class = DEAD;
                if KIND == 4 {
                    let next = nodes.next(level);
                    class = if place < count { next } else { DEAD };
                } else if place < count {
                    class = classify::<KIND>(level, mask, table, first + place);
                }
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
            *compacted.add((live + lane) as usize) = P::default();
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
unsafe fn group<S: Symbol, P: Stored<S>>(
    found: &Found<P>,
    compacted: *const P,
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
                    symbols[k] = (*compacted.add(index as usize * GROUP + k)).get();
                });
                (symbols, *(classes as *const u64).add(index as usize))
            }
            Found::Whole(at) => {
                let at = at.add(index as usize * GROUP);
                if coded == GROUP as u32 {
                    symbols = P::load_group(at);
                } else {
                    each8!(|k| {
                        if (k as u32) < coded {
                            symbols[k] = load_symbol(at.add(k));
                        }
                    });
                }
                (symbols, *whole_classes.add(index as usize))
            }
        }
    }
}

/// A coded symbol by its index, and its class.
///
/// # Safety
/// It exists.
#[inline(always)]
unsafe fn single<S: Symbol, P: Stored<S>>(
    found: &Found<P>,
    compacted: *const P,
    classes: *const u8,
    whole_classes: *const u64,
    index: u32,
) -> (S, u32) {
    // SAFETY: the caller's.
    unsafe {
        match *found {
            Found::Compacted => ((*compacted.add(index as usize)).get(), *classes.add(index as usize) as u32),
            Found::Whole(at) => (load_symbol(at.add(index as usize)), *(whole_classes as *const u8).add(index as usize) as u32),
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
            i += thread::block_dim_x() as usize;
        }
        thread::sync_threads();
    }
}

/// Runs a generic function for the level's kind.
macro_rules! by_kind {
    ($level:expr, $function:ident::<$symbol:ty, $stored:ty>($($argument:expr),*)) => {
        match $level.kind {
            1 => $function::<$symbol, $stored, 1>($($argument),*),
            2 => $function::<$symbol, $stored, 2>($($argument),*),
            3 => $function::<$symbol, $stored, 3>($($argument),*),
            4 => $function::<$symbol, $stored, 4>($($argument),*),
            _ => $function::<$symbol, $stored, 5>($($argument),*),
        }
    };
}

#[inline(always)]
unsafe fn count<S: Symbol, P: Stored<S>, const KIND: u32>(
    level: CodedLevel,
    symbols: *const P,
    mask: *const u32,
    table: *mut u16,
    compacted: *mut P,
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
        let mut segment = thread::index_1d() / 32 * level.stride;
        while segment < level.segments {
            let (found, live) = compact::<S, P, KIND>(&level, segment, symbols, mask, table, compacted, classes);
            // Groups of zeros wait: they count only if the segment has another.
            let mut zeros = 0u32;
            let mut any = false;
            let mut index = warp::lane_id();
            while index * (GROUP as u32) < live {
                let coded = (live - index * GROUP as u32).min(GROUP as u32);
                let (values, kinds) = group::<S, P>(&found, compacted, classes, whole_classes, index, coded);
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
            segment += thread::grid_dim_x() * (BLOCK / 32) * level.stride;
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
    pending: u32,
    filled: u32,
}

impl Append {
    #[inline(always)]
    fn new(words: *mut u32, bit: u32) -> Self {
        // SAFETY: an address; whoever appends has room there.
        Self { word: unsafe { words.add((bit / 32) as usize) }, pending: 0, filled: bit % 32 }
    }

    /// # Safety
    /// There is room; `bits` has `count` bits, at most 32.
    #[inline(always)]
    unsafe fn put(&mut self, bits: u32, count: u32) {
        self.pending |= bits << self.filled;
        let rest = intrinsics::funnel_shift_left(0, bits, self.filled);
        self.filled += count;
        if self.filled >= 32 {
            // SAFETY: the caller's.
            unsafe {
                shared::atomic_or_u32(self.word, self.pending);
                self.word = self.word.add(1);
            }
            self.pending = rest;
            self.filled -= 32;
        }
    }

    /// The same for at most 64 bits.
    ///
    /// # Safety
    /// As [`Append::put`].
    #[inline(always)]
    unsafe fn put_long(&mut self, bits: u64, count: u32) {
        // SAFETY: the caller's.
        unsafe {
            self.put(bits as u32, count.min(32));
            if count > 32 {
                self.put((bits >> 32) as u32, count - 32);
            }
        }
    }

    /// # Safety
    /// There is room.
    #[inline(always)]
    unsafe fn finish(self) {
        if self.pending != 0 {
            // SAFETY: the caller's.
            unsafe { shared::atomic_or_u32(self.word, self.pending) };
        }
    }
}

/// Symbols of -SMALL ..= SMALL - 1 have a table of their own.
const SMALL: i32 = 128;
/// Entries of that table.
const SMALLS: usize = CLASSES * 2 * SMALL as usize;

/// The codes of a level, in shared memory: codes of at most 20 bits (those of escaped tokens with the token) | length << 24 by token, and
/// code and extra bits | their number << 26 by small symbol.
#[derive(Clone, Copy)]
struct Codes {
    tokens: *const u32,
    small: *const u32,
}

impl Codes {
    /// # Safety
    /// The codes were loaded.
    #[inline(always)]
    unsafe fn of_token(&self, class: u32, token: u32) -> (u32, u32) {
        // SAFETY: there are codes for all tokens.
        let code = unsafe { *self.tokens.add(class as usize * TOKENS + token as usize) };
        (code & 0xFF_FFFF, code >> 24)
    }

    /// # Safety
    /// As above; the symbol is small.
    #[inline(always)]
    unsafe fn of_small<S: Symbol>(&self, class: u32, symbol: S) -> u32 {
        let index = (symbol.to_i64() as i32 + SMALL) as u32 + class * 2 * SMALL as u32;
        // SAFETY: the symbol is small.
        unsafe { *self.small.add(index as usize) }
    }

    /// How many bits a symbol takes.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn size<S: Symbol>(&self, class: u32, symbol: S) -> u32 {
        let (token, extra, _) = symbol.token();
        // SAFETY: the caller's.
        unsafe { self.of_token(class, token).1 + extra }
    }

    /// # Safety
    /// As above; there is room.
    #[inline(always)]
    unsafe fn put<S: Symbol>(&self, append: &mut Append, class: u32, symbol: S) {
        let (token, extra, magnitude) = symbol.token();
        // SAFETY: the caller's.
        unsafe {
            let (code, length) = self.of_token(class, token);
            append.put(code, length);
            append.put_long(magnitude & ((1u64 << extra) - 1), extra);
        }
    }
}

/// What the warps of a block have in shared memory to code with.
struct Room<P> {
    table: *const u16,
    whole_classes: *const u64,
    codes: Codes,
    /// The warp's own.
    compacted: *mut P,
    classes: *mut u8,
    words: *mut u32,
}

/// Bytes of the parts of it that the warps share.
const SHARED_ROOM: usize = CLASSES * TOKENS * 4 + 4 + SMALLS * 4 + 784 + 784;
const _: () = assert!(SHARED_ROOM.is_multiple_of(16));

impl<P> Room<P> {
    /// Cuts the block's dynamic shared memory and fills what the warps share.
    ///
    /// # Safety
    /// All threads of the block call it; `books` points to the codes.
    #[inline(always)]
    unsafe fn new<const KIND: u32>(books: *const u32, slot_words: u32) -> Self {
        const PLACES: usize = MAX_SEGMENT + GROUP;
        // SAFETY: the launch gives as much.
        unsafe {
            let start = shared::dynamic_shared_mem::<u8>();
            let codes = start as *mut u32;
            let table = start.add(CLASSES * TOKENS * 4 + 4 + SMALLS * 4) as *mut u16;
            let whole_classes = (table as *mut u8).add(784) as *mut u64;
            let mut i = thread::thread_idx_x() as usize;
            while i < CLASSES * TOKENS + SMALLS {
                // The small symbols' codes start at a multiple of 8 bytes.
                let to = if i < CLASSES * TOKENS { i } else { i + 1 };
                *codes.add(to) = *books.add(i);
                i += thread::block_dim_x() as usize;
            }
            // Its barrier is also the one after the codes were set.
            load_places::<KIND>(table);
            load_whole_classes::<KIND>(table, whole_classes as *mut u8);
            let own_bytes = (PLACES * (size_of::<P>() + 1)).next_multiple_of(16) + (slot_words as usize * 4).next_multiple_of(16);
            let own = start.add(SHARED_ROOM + (thread::thread_idx_x() / 32) as usize * own_bytes);
            let compacted = own as *mut P;
            let classes = own.add(PLACES * size_of::<P>());
            let words = own.add((PLACES * (size_of::<P>() + 1)).next_multiple_of(16)) as *mut u32;
            let codes = Codes { tokens: codes, small: codes.add(CLASSES * TOKENS + 1) };
            Self { table, whole_classes, codes, compacted, classes, words }
        }
    }
}

/// Codes 32 groups, one a lane, from bit `written` on. Returns the bits then written, and whether the lane's group has a symbol that is
/// not 0; writes nothing where there is no room.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn encode_groups<S: Symbol + Spread, P: Stored<S>>(
    room: &Room<P>,
    found: &Found<P>,
    round: u32,
    live: u32,
    written: u32,
    capacity: u32,
) -> (u32, bool) {
    let index = round + warp::lane_id();
    let codes = &room.codes;
    let mut entries = [0u32; GROUP];
    let (mut values, mut kinds) = ([S::default(); GROUP], 0);
    let mut size = 0;
    let (mut any, mut small) = (false, true);
    // SAFETY: the group is inside the coded symbols; the words have the room that is checked.
    unsafe {
        let coded = live.saturating_sub(index * GROUP as u32).min(GROUP as u32);
        if coded > 0 {
            (values, kinds) = group::<S, P>(found, room.compacted, room.classes, room.whole_classes, index, coded);
            let (mut bits, mut spread) = (0, 0);
            each8!(|k| {
                bits |= values[k].bits();
                spread |= values[k].spread();
            });
            any = bits != 0;
            // A table of small symbols pays where there are registers for its entries.
            small = spread < SMALL as u32 && size_of::<S>() == 4 || !any;
            if !any {
                let (code, length) = codes.of_token(kinds as u32 & 3, ZERO_GROUP);
                entries[0] = code | length << 26;
                size = length;
            } else if small {
                each8!(|k| {
                    if (k as u32) < coded {
                        entries[k] = codes.of_small((kinds >> (8 * k)) as u32 & 3, values[k]);
                        size += entries[k] >> 26;
                    }
                });
            } else {
                each8!(|k| {
                    if (k as u32) < coded {
                        size += codes.size((kinds >> (8 * k)) as u32 & 3, values[k]);
                    }
                });
            }
        }
        let end = written + running_sum(size);
        let all = warp::full::shuffle(end, 31);
        if all <= capacity {
            let mut append = Append::new(room.words, end - size);
            if small {
                each8!(|k| {
                    append.put(entries[k] & 0x3FF_FFFF, entries[k] >> 26);
                });
            } else {
                each8!(|k| {
                    if (k as u32) < coded {
                        codes.put(&mut append, (kinds >> (8 * k)) as u32 & 3, values[k]);
                    }
                });
            }
            append.finish();
        }
        (all, any)
    }
}

/// Codes at most 4 groups, a symbol a lane; else as [`encode_groups`].
///
/// # Safety
/// As [`encode_groups`].
#[inline(always)]
unsafe fn encode_singles<S: Symbol + Spread, P: Stored<S>>(
    room: &Room<P>,
    found: &Found<P>,
    round: u32,
    live: u32,
    written: u32,
    capacity: u32,
) -> (u32, bool) {
    let lane = warp::lane_id();
    let index = round * GROUP as u32 + lane;
    let codes = &room.codes;
    // SAFETY: the symbol exists where it is looked at; the words have the room that is checked.
    unsafe {
        let (mut symbol, mut class) = (S::default(), 0);
        if index < live {
            (symbol, class) = single::<S, P>(found, room.compacted, room.classes, room.whole_classes, index);
        }
        let votes = warp::full::ballot(symbol.bits() != 0);
        let zeros = votes >> (lane & !7) & 0xFF == 0;
        let (mut code, mut size) = (0, 0);
        if zeros && lane.is_multiple_of(GROUP as u32) && index < live {
            (code, size) = codes.of_token(class, ZERO_GROUP);
        } else if !zeros && index < live {
            size = codes.size(class, symbol);
        }
        let end = written + running_sum(size);
        let all = warp::full::shuffle(end, 31);
        if all <= capacity && size > 0 {
            let mut append = Append::new(room.words, end - size);
            if zeros {
                append.put(code, size);
            } else {
                codes.put(&mut append, class, symbol);
            }
            append.finish();
        }
        (all, votes != 0)
    }
}

#[inline(always)]
unsafe fn encode<S: Symbol + Spread, P: Stored<S>, const KIND: u32>(
    level: CodedLevel,
    symbols: *const P,
    mask: *const u32,
    books: *const u32,
    slots: *mut u32,
    slot_words: u32,
    lengths: *mut u16,
    overflow: *mut u32,
) {
    let lane = warp::lane_id();
    // SAFETY: words and slots have `slot_words` words; all lanes go the same way but for the groups they write.
    unsafe {
        let room = Room::<P>::new::<KIND>(books, slot_words);
        let mut cleared = lane;
        while cleared < slot_words {
            *room.words.add(cleared as usize) = 0;
            cleared += 32;
        }
        let warps = thread::block_dim_x() / 32;
        let mut segment = thread::block_idx_x() * warps + thread::thread_idx_x() / 32;
        while segment < level.segments {
            let (found, live) = compact::<S, P, KIND>(&level, segment, symbols, mask, room.table, room.compacted, room.classes);
            warp::full::sync();
            let groups = live.div_ceil(GROUP as u32);
            let (mut any, mut written, mut round) = (false, 0u32, 0);
            let capacity = slot_words * 32;
            while round < groups && written <= capacity {
                let (end, some) = if groups - round > 4 {
                    encode_groups::<S, P>(&room, &found, round, live, written, capacity)
                } else {
                    encode_singles::<S, P>(&room, &found, round, live, written, capacity)
                };
                written = end;
                any |= some;
                round += 32;
            }
            if written > capacity && lane == 0 {
                atomic_fetch_or_relaxed_u32_device(overflow, 1);
            }
            // A segment of zeros has no bytes.
            let any = warp::full::any(any);
            let bytes = if any && written <= capacity { written.div_ceil(8) } else { 0 };
            let slot = slots.add(segment as usize * slot_words as usize);
            let mut i = lane;
            while i < written.div_ceil(32).min(slot_words) {
                if any {
                    *slot.add(i as usize) = *room.words.add(i as usize);
                }
                *room.words.add(i as usize) = 0;
                i += 32;
            }
            if lane == 0 {
                *lengths.add(segment as usize) = bytes as u16;
            }
            warp::full::sync();
            segment += thread::grid_dim_x() * warps;
        }
    }
}

/// Symbols in the arithmetic of a group.
trait Spread: Symbol {
    /// 0 for 0 alone.
    fn bits(self) -> u32;
    /// Below 2^n if the symbol, complemented if it is negative, is.
    fn spread(self) -> u32;
    /// The symbol whose magnitude is `top` followed by the low `extra` bits of `raw`. What does not fit, as damaged archives may hold, is
    /// some value.
    fn assemble(top: u32, extra: u32, raw: u64, negative: bool) -> Self;
}

impl Spread for i32 {
    #[inline(always)]
    fn bits(self) -> u32 {
        self as u32
    }

    #[inline(always)]
    fn spread(self) -> u32 {
        (self ^ (self >> 31)) as u32
    }

    #[inline(always)]
    fn assemble(top: u32, extra: u32, raw: u64, negative: bool) -> Self {
        let shift = extra & 31;
        let magnitude = (top << shift | raw as u32 & ((1 << shift) - 1)) as i32;
        if negative { magnitude.wrapping_neg() } else { magnitude }
    }
}

impl Spread for i64 {
    #[inline(always)]
    fn bits(self) -> u32 {
        self as u32 | (self >> 32) as u32
    }

    #[inline(always)]
    fn spread(self) -> u32 {
        (self ^ (self >> 63)).bits()
    }

    #[inline(always)]
    fn assemble(top: u32, extra: u32, raw: u64, negative: bool) -> Self {
        let magnitude = (u64::from(top) << extra | raw & ((1 << extra) - 1)) as i64;
        if negative { -magnitude } else { magnitude }
    }
}

/// Reads bits of a segment: two words of them are at hand, of which `used` bits of the first were taken, and a third. Some more wait in
/// shared memory, whither all lanes load theirs at the same time: a lane that loads what it needs when it needs it would make the others
/// wait, for the registers of a load are a warp's.
struct Reader {
    words: [u32; 2],
    used: u32,
    next: u32,
    /// The segment's first word, how many there are, and how many may be read in full.
    first: *const u32,
    count: u32,
    full: u32,
    /// The end of all that may be read.
    limit: *const u8,
    /// The lane's ring of words, 32 apart; the word that is taken next, and the first that is not in the ring.
    ring: *mut u32,
    taken: u32,
    loaded: u32,
}

/// Words of a lane's ring.
const RING: u32 = 16;
/// Words that are loaded at once.
const LOADED: u32 = 8;
/// Places between two visits to memory.
const VISIT: u32 = 16;

impl Reader {
    /// Reads `bytes` bytes from `start` on; those up to `limit` may be looked at, and those before `start` in the same word.
    ///
    /// # Safety
    /// The payload has the bytes; all lanes of the warp call it; `ring` points to the lane's.
    #[inline(always)]
    unsafe fn new(start: *const u8, bytes: u32, limit: *const u8, ring: *mut u32) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let skip = (start as u64 % 4) as u32;
            let first = start.sub(skip as usize) as *const u32;
            let count = (skip + bytes).div_ceil(4);
            let full = ((limit as u64).saturating_sub(first as u64) / 4).min(count as u64) as u32;
            let mut reader = Self { words: [0; 2], used: 8 * skip, next: 0, first, count, full, limit, ring, taken: 0, loaded: 0 };
            reader.visit();
            reader.words = [reader.pull(), reader.pull()];
            reader.next = reader.pull();
            reader
        }
    }

    /// A word; 0 beyond the end.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn load(&self, index: u32) -> u32 {
        // SAFETY: what is read is below the end.
        unsafe {
            if index < self.full {
                return intrinsics::load_readonly(self.first.add(index as usize));
            }
            let mut word = 0;
            if index < self.count {
                let bytes = self.first.add(index as usize) as *const u8;
                let mut byte = 0;
                while byte < 4 && bytes.add(byte) < self.limit {
                    word |= u32::from(*bytes.add(byte)) << (8 * byte);
                    byte += 1;
                }
            }
            word
        }
    }

    /// Fills the rings of all lanes.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn visit(&mut self) {
        // SAFETY: the caller's; the ring has the places.
        unsafe {
            loop {
                let room = self.loaded < self.count && self.loaded + LOADED <= self.taken + RING;
                if !warp::full::any(room) {
                    return;
                }
                if room {
                    let mut words = [0; LOADED as usize];
                    each8!(|k| {
                        words[k] = self.load(self.loaded + k as u32);
                    });
                    each8!(|k| {
                        *self.ring.add(((self.loaded + k as u32) % RING * 32) as usize) = words[k];
                    });
                    self.loaded += LOADED;
                }
            }
        }
    }

    /// The next word.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn pull(&mut self) -> u32 {
        let index = self.taken;
        self.taken += 1;
        // SAFETY: the caller's; the ring has the word.
        unsafe {
            if index < self.loaded {
                return *self.ring.add((index % RING * 32) as usize);
            }
            // Symbols of many bits may empty it.
            self.loaded = self.taken;
            self.load(index)
        }
    }

    /// The next 32 bits.
    #[inline(always)]
    fn window(&self) -> u32 {
        intrinsics::funnel_shift_right(self.words[1], self.words[0], self.used)
    }

    /// Moves on by at most 32 bits.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn skip(&mut self, count: u32) {
        self.used += count;
        if self.used >= 32 {
            self.used -= 32;
            self.words = [self.words[1], self.next];
            // SAFETY: the caller's.
            self.next = unsafe { self.pull() };
        }
    }

    /// The next `count` bits, at most 32.
    ///
    /// # Safety
    /// As [`Reader::new`].
    #[inline(always)]
    unsafe fn take(&mut self, count: u32) -> u64 {
        let bits = u64::from(self.window()) & ((1u64 << count) - 1);
        // SAFETY: the caller's.
        unsafe { self.skip(count) };
        bits
    }

    /// The bytes of which bits were taken, counted from the first word.
    #[inline(always)]
    fn end(&self) -> u32 {
        // The word that `used` counts in is the third before the next one.
        (self.taken - 3) * 4 + self.used.div_ceil(8)
    }
}

/// What a token means. Of most: extra bits (5 bits), the sign (1), and the least magnitude (in the high half). Others have a flag, and
/// their extra bits (6 bits), the two highest bits of their magnitude (2) and their sign (1) elsewhere.
#[derive(Clone, Copy)]
struct Meaning(u32);

impl Meaning {
    const NEGATIVE: u32 = 1 << 5;
    const ZEROS: u32 = 1 << 6;
    const ESCAPED: u32 = 1 << 7;
    const INVALID: u32 = 1 << 8;
    const LONG: u32 = 1 << 9;
    /// Any of the flags.
    const RARE: u32 = Self::ZEROS | Self::ESCAPED | Self::INVALID | Self::LONG;
    /// Meanings, by the 8 bits of an escaped token; the last is that of no token.
    const COUNT: usize = 256;

    #[inline(always)]
    fn new(token: u32) -> Self {
        if token == ZERO_GROUP {
            return Self(Self::ZEROS);
        }
        if token >= ESCAPE {
            return Self(if token == ESCAPE { Self::ESCAPED } else { Self::INVALID });
        }
        if token == 0 {
            return Self(0);
        }
        let class = (token - 1) >> 1;
        let top = if class == 0 { 1 } else { 2 | (class + 1) & 1 };
        let (extra, negative) = (extra_bits(token), (token - 1) & 1);
        // A code and so many extra bits fit a window, and their magnitude fits any symbol.
        if extra <= 13 {
            return Self(extra | (negative * Self::NEGATIVE) | ((top << extra) << 16));
        }
        Self(Self::LONG | extra << 16 | top << 22 | negative << 24)
    }
}

/// What a lane decodes with.
struct Decoder {
    tables: *const u16,
    meanings: *const Meaning,
    reader: Reader,
    /// Whether all codes were codes.
    valid: bool,
    /// What symbols had in bits that do not fit their places.
    excess: u32,
}

impl Decoder {
    /// The next symbol in the context `class`; `None` for a group of zeros, where it may start.
    ///
    /// # Safety
    /// Tables and meanings were loaded.
    #[inline(always)]
    unsafe fn next<S: Symbol + Spread, P: Stored<S>>(&mut self, class: u32, opens: bool) -> Option<P> {
        // SAFETY: the caller's.
        unsafe {
            let window = self.reader.window();
            let entry = *self.tables.add(class as usize * TABLE + (window as usize & (TABLE - 1)));
            let length = u32::from(entry >> 8);
            let meaning = *self.meanings.add((entry & 0xFF) as usize);
            if meaning.0 & Meaning::RARE != 0 {
                return self.rare(meaning, length, opens);
            }
            let extra = meaning.0 & 31;
            let magnitude = ((window >> length) & !(u32::MAX << extra) | meaning.0 >> 16) as i32;
            self.reader.skip(length + extra);
            let symbol = if meaning.0 & Meaning::NEGATIVE != 0 { -magnitude } else { magnitude };
            Some(P::new(S::from_i64(i64::from(symbol))))
        }
    }

    /// The same for tokens that are rare.
    ///
    /// # Safety
    /// As [`Decoder::next`].
    #[inline(always)]
    unsafe fn rare<S: Symbol + Spread, P: Stored<S>>(&mut self, meaning: Meaning, length: u32, opens: bool) -> Option<P> {
        let mut meaning = meaning;
        // SAFETY: the caller's.
        unsafe {
            self.reader.skip(length);
            if meaning.0 & Meaning::ESCAPED != 0 {
                meaning = *self.meanings.add(self.reader.take(ESCAPED_BITS) as usize);
                self.valid &= meaning.0 & Meaning::ESCAPED == 0;
            }
            if meaning.0 & Meaning::ZEROS != 0 {
                self.valid &= opens;
                return None;
            }
            self.valid &= meaning.0 & Meaning::INVALID == 0;
            let long = meaning.0 & Meaning::LONG != 0;
            let (extra, negative) =
                if long { (meaning.0 >> 16 & 63, meaning.0 >> 24 & 1 == 1) } else { (meaning.0 & 31, meaning.0 & Meaning::NEGATIVE != 0) };
            let top = if long { meaning.0 >> 22 & 3 } else { meaning.0 >> (16 + extra) };
            let low = self.reader.take(extra.min(32));
            let high = if extra > 32 { self.reader.take(extra - 32) << 32 } else { 0 };
            let symbol = S::assemble(top, extra, low | high, negative);
            self.excess |= P::excess(symbol);
            Some(P::new(symbol))
        }
    }
}

/// Places that go out at once.
const ROW: u32 = 32;

/// Bytes from one segment's row in shared memory to the next: for less than 8 bytes a symbol an odd number of words.
const fn row_bytes<P>() -> usize {
    ROW as usize * size_of::<P>() + if size_of::<P>() < 8 { 4 } else { 8 }
}

/// Moves rows of `count` places each, from place `start` of the warp's segments on, out of shared memory.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn move_rows<P: Copy>(level: &CodedLevel, rows: *const u8, first: u32, start: u32, count: u32, symbols: *mut P) {
    let lane = warp::lane_id();
    // SAFETY: places are checked.
    unsafe {
        warp::full::sync();
        let exist = level.segments.saturating_sub(first).min(32);
        let mut place = first * level.segment + start + lane;
        let mut from = (rows as *const P).add(lane as usize);
        let mut row = 0;
        while row < exist {
            if lane < count && place < level.places {
                *symbols.add(place as usize) = *from;
            }
            place += level.segment;
            from = from.byte_add(row_bytes::<P>());
            row += 1;
        }
        warp::full::sync();
    }
}

#[inline(always)]
unsafe fn decode<S: Symbol + Spread, P: Stored<S>, const KIND: u32>(
    level: CodedLevel,
    payload: *const u8,
    limit: *const u8,
    offsets: *const u32,
    bases: *const u64,
    lengths: *const u16,
    mask: *const u32,
    tables: *const u16,
    symbols: *mut P,
    bad: *mut u32,
) {
    let (segment, first) = my_segment();
    let lane = warp::lane_id();
    let exists = segment < level.segments;
    let base = segment * level.segment;
    // SAFETY: places are checked; the launch gives the shared memory.
    unsafe {
        let start = shared::dynamic_shared_mem::<u8>();
        let shared_tables = start as *mut u16;
        let meanings = start.add(CLASSES * TABLE * 2) as *mut Meaning;
        let places = (meanings as *mut u8).add(Meaning::COUNT * 4) as *mut u16;
        let own_bytes = 32 * (row_bytes::<P>() + RING as usize * 4);
        let rows = (places as *mut u8).add(784 + (thread::thread_idx_x() / 32) as usize * own_bytes);
        let mut i = thread::thread_idx_x();
        while i < (CLASSES * TABLE / 2) as u32 {
            *(shared_tables as *mut u32).add(i as usize) = intrinsics::load_readonly((tables as *const u32).add(i as usize));
            i += thread::block_dim_x();
        }
        i = thread::thread_idx_x();
        while i < Meaning::COUNT as u32 {
            *meanings.add(i as usize) = Meaning::new(i);
            i += thread::block_dim_x();
        }
        if KIND <= 3 {
            load_places::<KIND>(places);
        } else {
            thread::sync_threads();
        }
        let count = if exists { level.segment.min(level.places - base) } else { 0 };
        let bytes = if exists { u32::from(load(lengths.add(segment as usize))) } else { 0 };
        let at = if exists { *bases.add((segment / 1024) as usize) + u64::from(*offsets.add(segment as usize)) } else { 0 };
        let segment_start = payload.add(at as usize);
        let ring = (rows.add(32 * row_bytes::<P>()) as *mut u32).add(lane as usize);
        let reader = Reader::new(segment_start, bytes, limit, ring);
        let mut decoder = Decoder { tables: shared_tables, meanings, reader, valid: true, excess: 0 };
        let own = rows.add(lane as usize * row_bytes::<P>()) as *mut P;
        let whole = exists && count == level.segment && is_whole::<KIND>(&level, mask, base, count);
        if warp::full::all(whole) {
            decode_whole::<S, P>(&level, &mut decoder, bytes > 0, first, places, rows, own, symbols);
        } else {
            decode_part::<S, P, KIND>(&level, &mut decoder, bytes > 0, count, base, first, mask, places, rows, own, symbols);
        }
        if bytes > 0 && !(decoder.valid && decoder.reader.end() == (segment_start as u64 % 4) as u32 + bytes) {
            atomic_fetch_or_relaxed_u32_device(bad, 1);
        }
        if decoder.excess != 0 {
            atomic_fetch_or_relaxed_u32_device(bad, 2);
        }
    }
}

/// Segments of two whole tiles: the lanes are in the same place of a group, and in the same context.
///
/// # Safety
/// As [`decode`], whose parts these are.
#[inline(always)]
unsafe fn decode_whole<S: Symbol + Spread, P: Stored<S>>(
    level: &CodedLevel,
    decoder: &mut Decoder,
    coded: bool,
    first: u32,
    places: *const u16,
    rows: *const u8,
    own: *mut P,
    symbols: *mut P,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut detail = 0;
        let mut start = 0;
        while start < level.segment {
            let count = (level.segment - start).min(ROW);
            let mut k = 0;
            let mut silent = !coded;
            while k < count {
                if k % VISIT == 0 {
                    decoder.reader.visit();
                }
                let opens = k % GROUP as u32 == 0;
                let class = u32::from(*places.add(detail as usize) >> 12);
                let mut symbol = P::default();
                if coded && (opens || !silent) {
                    match decoder.next::<S, P>(class, opens) {
                        Some(next) => (symbol, silent) = (next, false),
                        None => silent = true,
                    }
                }
                *own.add(k as usize) = symbol;
                detail = if detail + 1 == Walk::details::<3>() { 0 } else { detail + 1 };
                k += 1;
            }
            move_rows(level, rows, first, start, count, symbols);
            start += ROW;
        }
    }
}

/// Other segments.
///
/// # Safety
/// As [`decode`], whose parts these are.
#[inline(always)]
unsafe fn decode_part<S: Symbol + Spread, P: Stored<S>, const KIND: u32>(
    level: &CodedLevel,
    decoder: &mut Decoder,
    coded: bool,
    count: u32,
    base: u32,
    first: u32,
    mask: *const u32,
    places: *const u16,
    rows: *const u8,
    own: *mut P,
    symbols: *mut P,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut walk = Walk::new::<KIND>(*level, mask, if count > 0 { base } else { 0 });
        let (mut in_group, mut silent) = (0u32, false);
        let mut start = 0;
        while start < level.segment {
            let mut k = 0;
            while k < ROW {
                if k % VISIT == 0 {
                    decoder.reader.visit();
                }
                let mut symbol = P::default();
                if start + k < count && coded {
                    let class = walk.next::<KIND>(places);
                    if class != DEAD {
                        let opens = in_group == 0;
                        in_group = (in_group + 1) % GROUP as u32;
                        if opens || !silent {
                            match decoder.next::<S, P>(class, opens) {
                                Some(next) => (symbol, silent) = (next, false),
                                None => silent = true,
                            }
                        }
                    }
                }
                *own.add(k as usize) = symbol;
                k += 1;
            }
            move_rows(level, rows, first, start, ROW.min(level.segment - start), symbols);
            start += ROW;
        }
    }
}

macro_rules! kernels {
    ($symbol:ident, $stored:ident, $threads:literal, $encode_blocks:literal, $decode_threads:literal, $count:ident, $encode:ident, $decode:ident, $decode_tiles:ident) => {
        /// Adds the tokens of a level's sampled segments to 3 histograms of 209 counts. Segments of zeros do not count. A warp works on a
        /// segment.
        ///
        /// Grid: any; block: 64 threads. Shared memory: 784 + 2508 bytes and 2 x 1032 symbols and bytes, static.
        ///
        /// # Safety
        ///
        /// `symbols` points to the level's places, `mask` to a bit for each node of the array or nowhere, `total` to 627 counts.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $count(level: CodedLevel, symbols: *const $stored, mask: *const u32, total: *mut u32) {
            let table = shared_array![u16; 392];
            let compacted = shared_array![$stored; 2 * (MAX_SEGMENT + GROUP)];
            let classes = shared_array![u64; 2 * (MAX_SEGMENT / 8 + 1)];
            let whole_classes = shared_array![u64; 97];
            let counts = shared_array![u32; CLASSES * TOKENS];
            // SAFETY: the caller's.
            unsafe {
                let warp = (thread::thread_idx_x() / 32) as usize;
                let compacted = compacted.add(warp * (MAX_SEGMENT + GROUP));
                let classes = classes.add(warp * (MAX_SEGMENT / 8 + 1)) as *mut u8;
                by_kind!(level, count::<$symbol, $stored>(level, symbols, mask, table, compacted, classes, whole_classes, counts, total))
            }
        }

        /// Codes each segment into a slot of its own; a segment that has no room there gets no bytes, and `overflow` is set. A warp works
        /// on a segment.
        ///
        /// Grid: any; block: a multiple of 32 threads, at most 256 for i16, else 128. Shared memory, dynamic: 7152 bytes, and for each warp 1032 symbols and
        /// bytes and `slot_words` words, both rounded up to 16 bytes.
        ///
        /// # Safety
        ///
        /// As above; `books` points to 627 codes by token and 768 by small symbol (see `Codes`), `slots` to `slot_words` words a segment,
        /// `lengths` to one value a segment.
        #[kernel(max_threads = $threads, min_blocks = $encode_blocks)]
        pub unsafe fn $encode(
            level: CodedLevel,
            symbols: *const $stored,
            mask: *const u32,
            books: *const u32,
            slots: *mut u32,
            slot_words: u32,
            lengths: *mut u16,
            overflow: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe { by_kind!(level, encode::<$symbol, $stored>(level, symbols, mask, books, slots, slot_words, lengths, overflow)) }
        }

        /// Decodes each segment of a level that is not one of three-dimensional tiles. Sets bit 0 of `bad` where bits are no code or do not end
        /// where their segment does, bit 1 where a symbol does not fit its place.
        ///
        /// Grid: a thread for each segment; block: a multiple of 32 threads, at most 640, 256 and 128 for i16, i32 and i64. Shared memory, dynamic: 24576 + 1024 + 784 bytes, and for each warp 32 rows of
        /// 32 symbols and 68 bytes (72 for i64).
        ///
        /// # Safety
        ///
        /// `payload` points to the segments' bytes, which end at `limit`; segment i has `lengths[i]` of them, from
        /// `bases[i / 1024] + offsets[i]` on; `tables` points to 3 x 4096 entries (token | length << 8; 255 where no code starts so),
        /// `symbols` to the level's places.
        #[kernel(max_threads = $decode_threads, min_blocks = 2)]
        pub unsafe fn $decode(
            level: CodedLevel,
            payload: *const u8,
            limit: *const u8,
            offsets: *const u32,
            bases: *const u64,
            lengths: *const u16,
            mask: *const u32,
            tables: *const u16,
            symbols: *mut $stored,
            bad: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe {
                match level.kind {
                    1 => decode::<$symbol, $stored, 1>(level, payload, limit, offsets, bases, lengths, mask, tables, symbols, bad),
                    2 => decode::<$symbol, $stored, 2>(level, payload, limit, offsets, bases, lengths, mask, tables, symbols, bad),
                    4 => decode::<$symbol, $stored, 4>(level, payload, limit, offsets, bases, lengths, mask, tables, symbols, bad),
                    _ => decode::<$symbol, $stored, 5>(level, payload, limit, offsets, bases, lengths, mask, tables, symbols, bad),
                }
            }
        }

        /// The same for a level of three-dimensional tiles.
        ///
        /// Grid, block and shared memory as above.
        ///
        /// # Safety
        ///
        /// As above.
        #[kernel(max_threads = $decode_threads, min_blocks = 2)]
        pub unsafe fn $decode_tiles(
            level: CodedLevel,
            payload: *const u8,
            limit: *const u8,
            offsets: *const u32,
            bases: *const u64,
            lengths: *const u16,
            mask: *const u32,
            tables: *const u16,
            symbols: *mut $stored,
            bad: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe { decode::<$symbol, $stored, 3>(level, payload, limit, offsets, bases, lengths, mask, tables, symbols, bad) }
        }
    };
}

kernels!(i32, i16, 256, 4, 640, count_tokens_i16, encode_i16, decode_i16, decode_tiles_i16);
kernels!(i32, i32, 128, 2, 256, count_tokens_i32, encode_i32, decode_i32, decode_tiles_i32);
kernels!(i64, i64, 128, 2, 128, count_tokens_i64, encode_i64, decode_i64, decode_tiles_i64);

/// Threads of a block that fills a decoder's table.
pub const TABLE_BLOCK: u32 = 512;

/// Fills decoders' tables: for every 12 bits that may come next, token | length << 8; 255 where no code starts so.
///
/// Grid: a block for each book; block: 512 threads. Shared memory: 8192 bytes, static.
///
/// # Safety
///
/// `codes` points to 209 codes a book (code | length << 24), which are prefix-free and have at most 12 bits, `tables` to 4096 entries a
/// book.
#[kernel(max_threads = TABLE_BLOCK)]
pub unsafe fn fill_tables(codes: *const u32, tables: *mut u16) {
    let table = shared_array![u16; TABLE];
    let (book, t) = (thread::block_idx_x(), thread::thread_idx_x());
    // SAFETY: the caller's; codes are prefix-free, so that no two threads write an entry between the barriers.
    unsafe {
        let mut i = t;
        while i < TABLE as u32 {
            *table.add(i as usize) = 255;
            i += TABLE_BLOCK;
        }
        thread::sync_threads();
        // A warp takes one token after the other.
        let mut token = t / 32;
        while token < TOKENS as u32 {
            let entry = *codes.add(book as usize * TOKENS + token as usize);
            let (code, length) = (entry & 0xFF_FFFF, entry >> 24);
            if length > 0 && length <= 12 {
                let mut high = warp::lane_id();
                while high < 1 << (12 - length) {
                    *table.add(((high << length | code) & 0xFFF) as usize) = (token | length << 8) as u16;
                    high += 32;
                }
            }
            token += TABLE_BLOCK / 32;
        }
        thread::sync_threads();
        i = t;
        while i < TABLE as u32 {
            *tables.add(book as usize * TABLE + i as usize) = *table.add(i as usize);
            i += TABLE_BLOCK;
        }
    }
}
