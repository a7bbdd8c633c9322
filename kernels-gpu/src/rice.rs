//! The bits of closed tiles: `docs/format.md` describes them, [`bmgard_core::closed::rice`] has the numbers.
//!
//! A warp works on a tile, group by group: lane i has the group's symbol i. Planes and signs are votes whose bits are moved together, low
//! bits go where a population count says. A first pass over a stream finds its parameter, and the tile's size with it.

use bmgard_core::Real;
use bmgard_core::closed::TILE_NODES;
use bmgard_core::closed::geometry::GROUP;
use bmgard_core::closed::rice::{MAX_PLANES, PARAMETER_BITS, POSITION_BITS, candidates, length, live, quads};
use cuda_std::atomic::intrinsics::{atomic_fetch_add_relaxed_u32_device, atomic_fetch_or_relaxed_u32_device};
use cuda_std::prelude::*;

use crate::closed::{ESCAPED, Tile, Tiles};
use crate::common::load;
use crate::scan::start;

/// Threads of a block.
pub const BLOCK: u32 = 128;
/// Warps of a block.
const WARPS: usize = BLOCK as usize / 32;
/// Words that a warp gathers bits in. They go out when there are [`FULL`] bits; what is put at once fits in the rest.
const WORDS: usize = 128;
const FULL: u32 = 1024;
/// Greatest parameter with one field.
const MORE: u32 = (1 << PARAMETER_BITS) - 1;

/// The streams of a tile: their number, and where each ends, in groups.
#[derive(Clone, Copy)]
struct Streams {
    count: u32,
    ends: *const u32,
}

impl Streams {
    /// The groups of a stream.
    ///
    /// # Safety
    /// There is such a stream.
    #[inline(always)]
    unsafe fn groups(&self, stream: u32) -> (u32, u32) {
        // SAFETY: the caller's.
        unsafe {
            let start = if stream == 0 { 0 } else { *self.ends.add(stream as usize - 1) };
            (start, *self.ends.add(stream as usize))
        }
    }
}

/// Bits of a value of type `T`.
#[inline(always)]
const fn bits<T>() -> u32 {
    8 * size_of::<T>() as u32
}

/// Bits on their way to memory, gathered in shared words that are 0 beyond them.
struct Writer {
    words: *mut u32,
    out: *mut u32,
    at: u32,
}

impl Writer {
    /// # Safety
    /// All lanes call it; the warp's words are its own, and there is room for what is written.
    #[inline(always)]
    unsafe fn new(words: *mut u32, out: *mut u32) -> Self {
        let mut i = warp::lane_id() as usize;
        // SAFETY: the words are there.
        unsafe {
            while i < WORDS {
                *words.add(i) = 0;
                i += 32;
            }
            warp::full::sync();
        }
        Self { words, out, at: 0 }
    }

    /// Puts a lane's bits so many bits after the last ones. The count is at most 32, and the value is below 2^count.
    ///
    /// # Safety
    /// There are words for them.
    #[inline(always)]
    unsafe fn put_lane(&self, offset: u32, value: u32, count: u32) {
        let at = self.at + offset;
        let (word, shift) = ((at / 32) as usize, at % 32);
        // SAFETY: the caller's; other lanes come by atomics only.
        unsafe {
            if value != 0 {
                shared::atomic_or_u32(self.words.add(word), value << shift);
                if shift + count > 32 {
                    shared::atomic_or_u32(self.words.add(word + 1), value >> (32 - shift));
                }
            }
        }
    }

    /// Puts bits that all lanes have.
    ///
    /// # Safety
    /// As above; all lanes call it.
    #[inline(always)]
    unsafe fn put(&mut self, value: u32, count: u32) {
        if warp::lane_id() == 0 {
            // SAFETY: the caller's.
            unsafe { self.put_lane(0, value, count) };
        }
        self.at += count;
    }

    /// Writes full words to memory if there are many bits.
    ///
    /// # Safety
    /// All lanes call it.
    #[inline(always)]
    unsafe fn flush(&mut self) {
        if self.at >= FULL {
            // SAFETY: the caller's.
            unsafe { self.write() };
        }
    }

    /// # Safety
    /// All lanes call it.
    #[inline(always)]
    unsafe fn write(&mut self) {
        let whole = self.at / 32;
        let lane = warp::lane_id();
        // SAFETY: words are those that were put.
        unsafe {
            warp::full::sync();
            let rest = *self.words.add(whole as usize);
            let mut i = lane;
            while i < whole {
                *self.out.add(i as usize) = *self.words.add(i as usize);
                i += 32;
            }
            warp::full::sync();
            let mut i = lane;
            while i <= whole {
                *self.words.add(i as usize) = if i == 0 { rest } else { 0 };
                i += 32;
            }
            warp::full::sync();
            self.out = self.out.add(whole as usize);
        }
        self.at %= 32;
    }

    /// Writes all that is left.
    ///
    /// # Safety
    /// All lanes call it.
    #[inline(always)]
    unsafe fn finish(mut self) {
        self.at += 31;
        // SAFETY: the caller's.
        unsafe { self.write() };
    }
}

/// Bits of the lanes in a mask, moved together.
///
/// # Safety
/// All lanes call it.
#[inline(always)]
unsafe fn gather(set: bool, mask: u32) -> u32 {
    let rank = (mask & warp::lanemask_lt()).count_ones();
    let own = mask >> warp::lane_id() & 1 == 1 && set;
    // SAFETY: the caller's.
    unsafe { warp::full::reduce_or(if own { 1 << rank } else { 0 }) }
}

/// What a stream looks like.
#[derive(Clone, Copy)]
struct Found {
    /// `u32::MAX` where all its symbols are 0.
    parameter: u32,
    bits: u32,
    escapes: u32,
}

/// # Safety
/// All lanes call it.
#[inline(always)]
unsafe fn sum_u64(mut value: u64) -> u64 {
    let mut distance = 16;
    while distance > 0 {
        // SAFETY: the caller's.
        value += unsafe { warp::full::shuffle_xor(value, distance) };
        distance /= 2;
    }
    value
}

/// Looks at a stream: its parameter and its bits.
///
/// # Safety
/// All lanes call it; the symbols are there.
#[inline(always)]
unsafe fn look(symbols: *const i32, first: u32, end: u32) -> Found {
    let lane = warp::lane_id();
    // SAFETY: the caller's.
    unsafe {
        let symbol = |group: u32| intrinsics::load_readonly(symbols.add((group * GROUP as u32 + lane) as usize));
        let (mut sum, mut alive, mut nonzeros, mut groups, mut escapes) = (0u64, 0, 0, 0, 0);
        let mut group = first;
        while group < end {
            let symbol = symbol(group);
            escapes += u32::from(symbol == ESCAPED);
            let magnitude = if symbol == ESCAPED { 0 } else { symbol.unsigned_abs() };
            let nonzero = warp::full::ballot(magnitude != 0);
            sum += magnitude as u64;
            alive += live(quads(nonzero)).count_ones();
            nonzeros += nonzero.count_ones();
            groups += u32::from(nonzero != 0);
            group += 1;
        }
        let escapes = warp::full::reduce_add(escapes);
        if groups == 0 {
            return Found { parameter: u32::MAX, bits: 0, escapes };
        }
        let (least, tries) = candidates(sum_u64(sum), alive);
        // Where there are two to try, the third is the second again, and loses.
        let ks = [least, least + 1, least + tries - 1];
        let mut lengths = [0; 3];
        let mut group = first;
        while group < end {
            let symbol = symbol(group);
            let magnitude = if symbol == ESCAPED { 0 } else { symbol.unsigned_abs() };
            let nonzero = warp::full::ballot(magnitude != 0);
            if live(quads(nonzero)) >> lane & 1 == 1 {
                lengths[0] += length(magnitude, ks[0]);
                lengths[1] += length(magnitude, ks[1]);
                lengths[2] += length(magnitude, ks[2]);
            }
            group += 1;
        }
        let lengths = [warp::full::reduce_add(lengths[0]), warp::full::reduce_add(lengths[1]), warp::full::reduce_add(lengths[2])];
        let (mut parameter, mut best) = (ks[0], lengths[0]);
        if lengths[1] < best {
            (parameter, best) = (ks[1], lengths[1]);
        }
        if lengths[2] < best {
            (parameter, best) = (ks[2], lengths[2]);
        }
        let field = if parameter >= MORE { 2 * PARAMETER_BITS } else { PARAMETER_BITS };
        Found { parameter, bits: field + (end - first) + 8 * groups + best + nonzeros, escapes }
    }
}

/// Writes a group that has a symbol other than 0.
///
/// # Safety
/// All lanes call it.
#[inline(always)]
unsafe fn write_group(writer: &mut Writer, symbol: i32, nonzero: u32, k: u32) {
    let lane = warp::lane_id();
    let quads = quads(nonzero);
    let live = live(quads);
    let magnitude = symbol.unsigned_abs();
    let quotient = magnitude >> k;
    // SAFETY: the caller's; a group has less than 90 words.
    unsafe {
        writer.put(quads, 8);
        let (mut above, mut plane) = (live, 0);
        while above != 0 && plane < MAX_PLANES {
            let next = warp::full::ballot(quotient > plane);
            writer.put(gather(quotient > plane, above), above.count_ones());
            above = next;
            plane += 1;
        }
        if k > 0 {
            let rank = (live & warp::lanemask_lt()).count_ones();
            if live >> lane & 1 == 1 {
                writer.put_lane(rank * k, magnitude & ((1 << k) - 1), k);
            }
            writer.at += live.count_ones() * k;
        }
        writer.put(gather(symbol < 0, nonzero), nonzero.count_ones());
        if above != 0 {
            let rank = (above & warp::lanemask_lt()).count_ones();
            if above >> lane & 1 == 1 {
                writer.put_lane(rank * 32, quotient, 32);
            }
            writer.at += above.count_ones() * 32;
        }
        writer.flush();
    }
}

/// Writes a stream.
///
/// # Safety
/// All lanes call it; the symbols are there.
#[inline(always)]
unsafe fn write_stream(writer: &mut Writer, symbols: *const i32, first: u32, end: u32, k: u32) {
    let lane = warp::lane_id();
    // SAFETY: the caller's.
    unsafe {
        let symbol = |group: u32| {
            let symbol = intrinsics::load_readonly(symbols.add((group * GROUP as u32 + lane) as usize));
            if symbol == ESCAPED { 0 } else { symbol }
        };
        let mut group = first;
        while group < end {
            let nonzero = warp::full::any(symbol(group) != 0);
            writer.put(u32::from(nonzero), 1);
            group += 1;
        }
        let mut group = first;
        while group < end {
            let symbol = symbol(group);
            let nonzero = warp::full::ballot(symbol != 0);
            if nonzero != 0 {
                write_group(writer, symbol, nonzero, k);
            }
            group += 1;
        }
    }
}

/// Writes the values that are stored exactly.
///
/// # Safety
/// All lanes call it; the pointers are as in the kernels below.
#[inline(always)]
unsafe fn write_escapes<T: Real>(
    writer: &mut Writer,
    tile: &Tile,
    symbols: *const i32,
    positions: *const u16,
    values: *const T,
    count: u32,
) {
    let lane = warp::lane_id();
    // SAFETY: the caller's; nodes that are looked up exist.
    unsafe {
        writer.put(count - 1, POSITION_BITS);
        let mut part = 0;
        while part < 2 {
            let width = if part == 0 { POSITION_BITS } else { bits::<T>() };
            let mut first = 0;
            while first < TILE_NODES as u32 {
                let node = first + lane;
                let escaped = *symbols.add(*positions.add(node as usize) as usize) == ESCAPED;
                let votes = warp::full::ballot(escaped);
                if escaped {
                    let offset = (votes & warp::lanemask_lt()).count_ones() * width;
                    if part == 0 {
                        writer.put_lane(offset, node, width);
                    } else {
                        let value = (*values.add(tile.index(tile.node(node)) as usize)).to_bits_u64();
                        writer.put_lane(offset, value as u32, 32);
                        if width == 64 {
                            writer.put_lane(offset + 32, (value >> 32) as u32, 32);
                        }
                    }
                }
                writer.at += votes.count_ones() * width;
                writer.flush();
                first += 32;
            }
            part += 1;
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn encode<T: Real>(
    tiles: Tiles,
    streams: Streams,
    positions: *const u16,
    symbols: *const i32,
    values: *const T,
    slots: *mut u32,
    slot_words: u32,
    lengths: *mut u16,
    counts: *mut u32,
) {
    let words = shared_array![u32; WARPS * WORDS];
    let (index, lane) = (thread::index_1d() / 32, warp::lane_id());
    if index >= Tile::count(&tiles) {
        return;
    }
    let tile = Tile::new(tiles, index);
    // SAFETY: the caller's; whole warps return.
    unsafe {
        let words = words.add((thread::thread_idx_x() / 32) as usize * WORDS);
        let symbols = symbols.add(index as usize * TILE_NODES);
        // Lane i keeps the parameter of stream i.
        let mut parameter = u32::MAX;
        let (mut total, mut escapes, mut used) = (1 + streams.count, 0, 0);
        let mut stream = 0;
        while stream < streams.count {
            let (first, end) = streams.groups(stream);
            let found = look(symbols, first, end);
            if lane == stream {
                parameter = found.parameter;
            }
            used |= u32::from(found.parameter != u32::MAX) << stream;
            total += found.bits;
            escapes += found.escapes;
            stream += 1;
        }
        let raw = tile.nodes() * size_of::<T>() as u32;
        if escapes > 0 {
            total += POSITION_BITS + escapes * (POSITION_BITS + bits::<T>());
        }
        let bytes = if used == 0 && escapes == 0 { 0 } else { total.div_ceil(8).min(raw) };
        if lane == 0 {
            *lengths.add(index as usize) = bytes as u16;
            if bytes == raw {
                atomic_fetch_add_relaxed_u32_device(counts, 1);
            } else if escapes > 0 {
                atomic_fetch_add_relaxed_u32_device(counts.add(1), escapes);
            }
        }
        if bytes == 0 || bytes == raw {
            return;
        }
        let mut writer = Writer::new(words, slots.add(index as usize * slot_words as usize));
        writer.put(u32::from(escapes > 0) | used << 1, 1 + streams.count);
        let mut stream = 0;
        while stream < streams.count {
            let k = warp::full::shuffle(parameter, stream);
            if k != u32::MAX {
                writer.put(k.min(MORE), PARAMETER_BITS);
                if k >= MORE {
                    writer.put(k - MORE, PARAMETER_BITS);
                }
            }
            stream += 1;
        }
        let mut stream = 0;
        while stream < streams.count {
            let k = warp::full::shuffle(parameter, stream);
            if k != u32::MAX {
                let (first, end) = streams.groups(stream);
                write_stream(&mut writer, symbols, first, end, k);
            }
            stream += 1;
        }
        if escapes > 0 {
            write_escapes(&mut writer, &tile, symbols, positions, values, escapes);
        }
        writer.finish();
    }
}

/// Bits from memory: a window of 32 words, one a lane.
struct Reader {
    words: *const u32,
    /// Words that have a byte of the tile.
    len: u32,
    window: u32,
    base: u32,
    at: u32,
}

impl Reader {
    /// # Safety
    /// All lanes call it; `bytes` points to so many bytes.
    #[inline(always)]
    unsafe fn new(bytes: *const u8, len: u32) -> Self {
        let skipped = (bytes as usize % 4) as u32;
        let words = bytes.wrapping_sub(skipped as usize) as *const u32;
        let mut reader = Self { words, len: (skipped + len).div_ceil(4), window: 0, base: 0, at: 8 * skipped };
        // SAFETY: the caller's.
        unsafe { reader.fill() };
        reader
    }

    /// A word, 0 beyond the tile.
    ///
    /// # Safety
    /// The tile's bytes are there.
    #[inline(always)]
    unsafe fn word(&self, i: u32) -> u32 {
        // SAFETY: a word with a byte of the tile is there.
        if i < self.len { unsafe { intrinsics::load_readonly(self.words.add(i as usize)) } } else { 0 }
    }

    /// # Safety
    /// All lanes call it.
    #[inline(always)]
    unsafe fn fill(&mut self) {
        self.base = self.at / 32;
        // SAFETY: the tile's bytes are there.
        self.window = unsafe { self.word(self.base + warp::lane_id()) };
    }

    /// Sees to it that so many bits, at most 960, are in the window.
    ///
    /// # Safety
    /// All lanes call it with the same count.
    #[inline(always)]
    unsafe fn need(&mut self, count: u32) {
        if (self.at + count) / 32 - self.base > 31 {
            // SAFETY: the caller's.
            unsafe { self.fill() };
        }
    }

    /// Bits of the window, at most 32, so many bits after the next one.
    ///
    /// # Safety
    /// All lanes call it; the bits are in the window.
    #[inline(always)]
    unsafe fn peek(&self, offset: u32, count: u32) -> u32 {
        let at = self.at + offset;
        let (word, shift) = (at / 32 - self.base, at % 32);
        // SAFETY: the caller's.
        let (low, high) = unsafe { (warp::full::shuffle(self.window, word & 31), warp::full::shuffle(self.window, (word + 1) & 31)) };
        cut(low, high, shift, count)
    }

    /// Bits of memory, likewise.
    ///
    /// # Safety
    /// The tile's bytes are there.
    #[inline(always)]
    unsafe fn peek_far(&self, offset: u32, count: u32) -> u32 {
        let at = self.at + offset;
        // SAFETY: the caller's.
        unsafe { cut(self.word(at / 32), self.word(at / 32 + 1), at % 32, count) }
    }

    /// The next bits, at most 32.
    ///
    /// # Safety
    /// All lanes call it with the same count.
    #[inline(always)]
    unsafe fn take(&mut self, count: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe {
            self.need(count);
            let bits = self.peek(0, count);
            self.at += count;
            bits
        }
    }
}

/// `count` bits of two words from `shift` on.
#[inline(always)]
fn cut(low: u32, high: u32, shift: u32, count: u32) -> u32 {
    let both = (high as u64) << 32 | low as u64;
    (both >> shift) as u32 & ((1u64 << count) - 1) as u32
}

/// A lane's symbol of a group.
///
/// # Safety
/// All lanes call it.
#[inline(always)]
unsafe fn read_group(reader: &mut Reader, k: u32) -> i32 {
    let lane = warp::lane_id();
    let below = warp::lanemask_lt();
    // SAFETY: the caller's; counts are the same for all lanes.
    unsafe {
        let live = live(reader.take(8));
        let (mut above, mut plane, mut quotient) = (live, 0, 0);
        while above != 0 && plane < MAX_PLANES {
            let votes = reader.take(above.count_ones());
            let set = above >> lane & 1 == 1 && votes >> (above & below).count_ones() & 1 == 1;
            quotient += u32::from(set);
            above = warp::full::ballot(set);
            plane += 1;
        }
        let mut low = 0;
        if k > 0 {
            let all = live.count_ones() * k;
            reader.need(all);
            let own = reader.peek((live & below).count_ones() * k, k);
            low = if live >> lane & 1 == 1 { own } else { 0 };
            reader.at += all;
        }
        let nonzero = warp::full::ballot(quotient | low != 0);
        let votes = reader.take(nonzero.count_ones());
        let negative = nonzero >> lane & 1 == 1 && votes >> (nonzero & below).count_ones() & 1 == 1;
        while above != 0 {
            let all = reader.take(32);
            if above.trailing_zeros() == lane {
                quotient = all;
            }
            above &= above - 1;
        }
        // Masked as on the CPU: a damaged archive may hold more.
        let magnitude = ((quotient << k | low) & 0x7FFF_FFFF) as i32;
        if negative { -magnitude } else { magnitude }
    }
}

/// Reads the values that are stored exactly. Returns whether they are such.
///
/// # Safety
/// All lanes call it; the pointers are as in the kernels below.
#[inline(always)]
unsafe fn read_escapes<T: Real>(reader: &mut Reader, tile: &Tile, positions: *const u16, symbols: *mut i32, values: *mut T) -> bool {
    let mut good = true;
    // SAFETY: the caller's; nodes that are written exist.
    unsafe {
        let count = reader.take(POSITION_BITS) + 1;
        // Symbols that other lanes wrote are overwritten.
        warp::full::sync();
        let mut i = warp::lane_id();
        while i < count {
            let index = reader.peek_far(i * POSITION_BITS, POSITION_BITS);
            let node = tile.node(index);
            let ascends = i == 0 || reader.peek_far((i - 1) * POSITION_BITS, POSITION_BITS) < index;
            if ascends && tile.owns(node) {
                let at = count * POSITION_BITS + i * bits::<T>();
                let mut value = reader.peek_far(at, 32) as u64;
                if bits::<T>() == 64 {
                    value |= (reader.peek_far(at + 32, 32) as u64) << 32;
                }
                *values.add(tile.index(node) as usize) = T::from_bits_u64(value);
                *symbols.add(*positions.add(index as usize) as usize) = ESCAPED;
            } else {
                good = false;
            }
            i += 32;
        }
        reader.at += count * (POSITION_BITS + bits::<T>());
    }
    good
}

/// Reads a raw tile.
///
/// # Safety
/// All lanes call it; the pointers are as in the kernels below.
#[inline(always)]
unsafe fn read_raw<T: Real>(tile: &Tile, bytes: *const u8, positions: *const u16, symbols: *mut i32, values: *mut T) {
    let mut i = warp::lane_id();
    // SAFETY: the caller's.
    unsafe {
        // Nodes beyond the chunk have the symbol 0.
        while i < TILE_NODES as u32 {
            let exists = tile.owns(tile.node(i));
            *symbols.add(*positions.add(i as usize) as usize) = if exists { ESCAPED } else { 0 };
            i += 32;
        }
        let mut i = warp::lane_id();
        while i < tile.nodes() {
            *values.add(tile.index(tile.own_node(i)) as usize) = load((bytes as *const T).add(i as usize));
            i += 32;
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn decode<T: Real>(
    tiles: Tiles,
    streams: Streams,
    positions: *const u16,
    payload: *const u8,
    limit: *const u8,
    offsets: *const u32,
    bases: *const u64,
    lengths: *const u16,
    symbols: *mut i32,
    values: *mut T,
    bad: *mut u32,
) {
    let (index, lane) = (thread::index_1d() / 32, warp::lane_id());
    if index >= Tile::count(&tiles) {
        return;
    }
    let tile = Tile::new(tiles, index);
    // SAFETY: the caller's; whole warps return, and all lanes decide alike.
    unsafe {
        let symbols = symbols.add(index as usize * TILE_NODES);
        let len = load(lengths.add(index as usize)) as u32;
        let bytes = payload.wrapping_add(start(offsets, bases, index) as usize);
        let raw = tile.nodes() * size_of::<T>() as u32;
        let fits = len <= raw && bytes.wrapping_add(len as usize) <= limit;
        if !fits && lane == 0 {
            atomic_fetch_or_relaxed_u32_device(bad, 1);
        }
        if !fits || len == 0 {
            let mut i = lane;
            while i < TILE_NODES as u32 {
                *symbols.add(i as usize) = 0;
                i += 32;
            }
            return;
        }
        if len == raw {
            return read_raw(&tile, bytes, positions, symbols, values);
        }
        let mut reader = Reader::new(bytes, len);
        let start = reader.at;
        let flags = reader.take(1 + streams.count);
        // Lane i keeps the parameter of stream i.
        let mut parameter = u32::MAX;
        let mut stream = 0;
        while stream < streams.count {
            if flags >> (1 + stream) & 1 == 1 {
                let mut k = reader.take(PARAMETER_BITS);
                if k == MORE {
                    k += reader.take(PARAMETER_BITS);
                }
                if lane == stream {
                    parameter = k;
                }
            }
            stream += 1;
        }
        let mut stream = 0;
        while stream < streams.count {
            let k = warp::full::shuffle(parameter, stream);
            let (first, end) = streams.groups(stream);
            let (mut low, mut high) = (0, 0);
            if k != u32::MAX {
                let groups = end - first;
                low = reader.take(groups.min(32));
                high = reader.take(groups.saturating_sub(32));
            }
            let mut group = first;
            while group < end {
                let i = group - first;
                let any = if i < 32 { low >> i } else { high >> (i - 32) } & 1 == 1;
                let symbol = if any { read_group(&mut reader, k) } else { 0 };
                *symbols.add((group * GROUP as u32 + lane) as usize) = symbol;
                group += 1;
            }
            stream += 1;
        }
        let mut good = true;
        if flags & 1 == 1 {
            good = read_escapes(&mut reader, &tile, positions, symbols, values);
        }
        // The last byte is filled with 0.
        let used = reader.at - start;
        good &= used.div_ceil(8) == len && reader.peek_far(0, (8 - used % 8) % 8) == 0;
        if !good {
            atomic_fetch_or_relaxed_u32_device(bad, 1);
        }
    }
}

macro_rules! kernels {
    ($real:ident, $encode:ident, $decode:ident) => {
        /// Codes tiles into slots.
        ///
        /// Grid: a warp for each tile; block: 128 threads. Shared memory: 2 KB, static.
        ///
        /// # Safety
        ///
        /// `ends` points to where each of the streams ends, in groups; `positions` points to the position of each node of a full tile in C order, `symbols`
        /// to 4096 for each tile, `values` to the chunk's original values, `slots` to `slot_words` words for each tile, as many as its
        /// values at least, `lengths` to a place for each; `counts` to two numbers, to which raw tiles and values that are stored
        /// exactly in others are added.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $encode(
            tiles: Tiles,
            streams: u32,
            ends: *const u32,
            positions: *const u16,
            symbols: *const i32,
            values: *const $real,
            slots: *mut u32,
            slot_words: u32,
            lengths: *mut u16,
            counts: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe { encode(tiles, Streams { count: streams, ends }, positions, symbols, values, slots, slot_words, lengths, counts) }
        }

        /// Decodes tiles. Values that are stored exactly go to their places in `values`.
        ///
        /// Grid: a warp for each tile; block: 128 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// As above; `payload` points to the tiles' bytes, which end at `limit`, `lengths` to the bytes of each, at any byte address;
        /// `offsets` and `bases` are what [`crate::scan`] makes of them; `values` points to the chunk's values; `bad` to a number,
        /// whose first bit is set where bytes are not a tile's.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $decode(
            tiles: Tiles,
            streams: u32,
            ends: *const u32,
            positions: *const u16,
            payload: *const u8,
            limit: *const u8,
            offsets: *const u32,
            bases: *const u64,
            lengths: *const u16,
            symbols: *mut i32,
            values: *mut $real,
            bad: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe {
                decode(tiles, Streams { count: streams, ends }, positions, payload, limit, offsets, bases, lengths, symbols, values, bad)
            }
        }
    };
}

kernels!(f32, rice_encode_f32, rice_decode_f32);
kernels!(f64, rice_encode_f64, rice_decode_f64);
