//! The bits of closed tiles: `docs/format.md` describes them, [`bmgard_core::closed::rice`] has the numbers.
//!
//! A warp works on a tile. Lane i has what belongs to block i, or, of the block that all lanes work on, quad i. Sections grow side by side: where a
//! lane's bits go follows from population counts of masks and from running sums.

use bmgard_core::Real;
use bmgard_core::closed::TILE_NODES;
use bmgard_core::closed::rice::{
    BLOCK as SYMBOLS, BLOCKS, CAP, FAR, FOLDED, MAX_PARAMETER, PARAMETER_BITS, POSITION_BITS, STEP_BITS, fold, groups, pack, parameter,
    unfold, unpack,
};
use cuda_std::atomic::intrinsics::{atomic_fetch_add_relaxed_u32_device, atomic_fetch_or_relaxed_u32_device};
use cuda_std::intrinsics::{funnel_shift_left, funnel_shift_right};
use cuda_std::prelude::*;

use crate::closed::{Tile, Tiles};
use crate::common::{load, running_sum};
use crate::scan::start;
use crate::unroll::each4;

/// Threads of a block.
pub const BLOCK: u32 = 128;
/// Warps of a block.
const WARPS: usize = BLOCK as usize / 32;
/// Words of a [`Window`]. What a block of symbols has in a section fits, and the word before it.
const WINDOW: usize = 256;
/// Bytes for the quotients of a tile, and a word more, which lanes without live symbols may look at.
const QUOTIENTS: usize = TILE_NODES + 16;
/// Bits before the fields of live blocks.
const HEADER: u32 = 1 + BLOCKS as u32 + PARAMETER_BITS;
/// The greatest parameter with which four low parts fit in a word, and folded symbols that are not capped in 16 bits.
const SHORT: u32 = 8;
/// Symbols do not fit in their type.
const DOES_NOT_FIT: u32 = 2;

/// Four symbols, loaded and stored at once.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Four([i32; 4]);

/// Two pairs of symbols of 16 bits, likewise.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Pairs([u32; 2]);

/// Two quads, likewise.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Octet<Q>([Q; 2]);

/// How symbols lie in memory.
trait Stored: Copy + 'static {
    /// Four of them.
    type Quad: Copy;
    /// No symbol.
    const NONE: Self::Quad;
    /// Stands for a value that is stored exactly.
    const ESCAPED: i32;
    /// Folded symbols above this do not fit.
    const GREATEST: u32;

    fn new(symbol: i32) -> Self;

    /// The symbols one by one.
    fn symbols(quad: Self::Quad) -> [i32; 4];

    /// The symbols folded.
    fn fold(quad: Self::Quad) -> [u32; 4];

    /// A number that is 0 if the folded symbols are, and whether some of them may be [`Stored::ESCAPED`].
    fn glance(quad: Self::Quad) -> (u32, bool);

    /// The sum of the folded symbols, of which none is [`Stored::ESCAPED`], over all lanes.
    ///
    /// # Safety
    /// All lanes call it.
    unsafe fn sum(quad: Self::Quad) -> u64;

    /// From symbols, or from pairs of symbols that have 16 bits each.
    fn quad(symbols: [i32; 4]) -> Self::Quad;
    fn quad_of_pairs(pairs: [u32; 2]) -> Self::Quad;
}

impl Stored for i32 {
    type Quad = Four;
    const NONE: Four = Four([0; 4]);
    const ESCAPED: i32 = i32::MIN;
    const GREATEST: u32 = u32::MAX;

    #[inline(always)]
    fn new(symbol: i32) -> Self {
        symbol
    }

    #[inline(always)]
    fn symbols(quad: Four) -> [i32; 4] {
        quad.0
    }

    #[inline(always)]
    fn fold(quad: Four) -> [u32; 4] {
        Self::symbols(quad).map(fold)
    }

    #[inline(always)]
    fn glance(quad: Four) -> (u32, bool) {
        let [a, b, c, d] = Self::fold(quad);
        let any = a | b | c | d;
        (any, any >= FOLDED)
    }

    #[inline(always)]
    unsafe fn sum(quad: Four) -> u64 {
        let [a, b, c, d] = Self::fold(quad).map(u64::from);
        let sum = a + b + c + d;
        // SAFETY: the caller's. Either half stays below 2^32.
        let (low, high) = unsafe { (warp::full::reduce_add(sum as u32 & 0xFFFF), warp::full::reduce_add((sum >> 16) as u32)) };
        low as u64 + ((high as u64) << 16)
    }

    #[inline(always)]
    fn quad(symbols: [i32; 4]) -> Four {
        Four(symbols)
    }

    #[inline(always)]
    fn quad_of_pairs([a, b]: [u32; 2]) -> Four {
        let [a, b] = [a as i32, b as i32];
        Self::quad([a << 16 >> 16, a >> 16, b << 16 >> 16, b >> 16])
    }
}

impl Stored for i16 {
    type Quad = Pairs;
    const NONE: Pairs = Pairs([0; 2]);
    const ESCAPED: i32 = i16::MIN as i32;
    const GREATEST: u32 = u16::MAX as u32 - 1;

    #[inline(always)]
    fn new(symbol: i32) -> Self {
        symbol as i16
    }

    #[inline(always)]
    fn symbols(quad: Pairs) -> [i32; 4] {
        let [low, high] = quad.0.map(|pair| pair as i32);
        [low << 16 >> 16, low >> 16, high << 16 >> 16, high >> 16]
    }

    #[inline(always)]
    fn fold(quad: Pairs) -> [u32; 4] {
        let [low, high] = fold_pairs(quad);
        [low & 0xFFFF, low >> 16, high & 0xFFFF, high >> 16]
    }

    #[inline(always)]
    fn glance(quad: Pairs) -> (u32, bool) {
        let [low, high] = fold_pairs(quad);
        let any = low | high;
        (any, any & 0x8000_8000 != 0)
    }

    #[inline(always)]
    unsafe fn sum(quad: Pairs) -> u64 {
        let [low, high] = fold_pairs(quad);
        let sum = (low & 0xFFFF) + (low >> 16) + (high & 0xFFFF) + (high >> 16);
        // SAFETY: the caller's.
        unsafe { warp::full::reduce_add(sum) as u64 }
    }

    #[inline(always)]
    fn quad(symbols: [i32; 4]) -> Pairs {
        let [a, b, c, d] = symbols.map(|symbol| symbol as u32);
        Self::quad_of_pairs([intrinsics::byte_permute(a, b, 0x5410), intrinsics::byte_permute(c, d, 0x5410)])
    }

    #[inline(always)]
    fn quad_of_pairs(pairs: [u32; 2]) -> Pairs {
        Pairs(pairs)
    }
}

/// [`fold`] for two pairs of 16 bits.
#[inline(always)]
fn fold_pairs(quad: Pairs) -> [u32; 2] {
    // All bytes as they are: without this the compiler takes both words to be one, and multiplies 64 bits.
    let pairs = quad.0.map(|pair| intrinsics::byte_permute(pair, 0, 0x3210));
    pairs.map(|pair| (pair << 1 & 0xFFFE_FFFE) ^ ((pair >> 15 & 0x0001_0001) * 0xFFFF))
}

/// [`unfold`] for a pair of 16 bits.
#[inline(always)]
fn unfold_pair(pair: u32) -> u32 {
    (pair >> 1 & 0x7FFF_7FFF) ^ ((pair & 0x0001_0001) * 0xFFFF)
}

/// Loads the lane's quad of a block.
///
/// # Safety
/// `symbols` points to a tile's, aligned to the bytes of a quad.
#[inline(always)]
unsafe fn load_quad<S: Stored>(symbols: *const S, block: u32) -> S::Quad {
    // SAFETY: the caller's.
    unsafe { *(symbols.add((block * SYMBOLS as u32 + 4 * warp::lane_id()) as usize) as *const S::Quad) }
}

/// Loads the lane's octet of two blocks, the first of which is given.
///
/// # Safety
/// As above.
#[inline(always)]
unsafe fn load_octet<S: Stored>(symbols: *const S, block: u32) -> [S::Quad; 2] {
    // SAFETY: the caller's.
    unsafe { (*(symbols.add((block * SYMBOLS as u32 + 8 * warp::lane_id()) as usize) as *const Octet<S::Quad>)).0 }
}

/// Quads with 0 for values that are stored exactly, and how many those are.
///
/// # Safety
/// All lanes call it.
#[inline(always)]
unsafe fn without_escapes<S: Stored, const N: usize>(mut quads: [S::Quad; N]) -> ([S::Quad; N], u32) {
    let may_be = quads.map(|quad| S::glance(quad).1);
    // SAFETY: the caller's.
    if !unsafe { warp::full::any(may_be[0] | may_be[N - 1]) } {
        return (quads, 0);
    }
    let mut escapes = 0;
    quads = quads.map(|quad| {
        S::quad(S::symbols(quad).map(|symbol| {
            let escaped = symbol == S::ESCAPED;
            escapes += u32::from(escaped);
            if escaped { 0 } else { symbol }
        }))
    });
    (quads, escapes)
}

/// Bits of a value of type `T`.
#[inline(always)]
const fn bits<T>() -> u32 {
    8 * size_of::<T>() as u32
}

/// Bits on their way to memory, gathered in shared words that are 0 beyond them.
struct Window {
    words: *mut u32,
    out: *mut u32,
    /// The bit that the words start at, a multiple of 32.
    base: u32,
}

impl Window {
    /// A window whose first bit is that of `at`.
    ///
    /// # Safety
    /// All lanes call it; the window's words are the warp's own, and `out` has room for what is written.
    #[inline(always)]
    unsafe fn new(words: *mut u32, out: *mut u32, at: u32) -> Self {
        let window = Self { words, out, base: at & !31 };
        // SAFETY: the words are there.
        unsafe {
            window.clear(0);
            warp::full::sync();
        }
        window
    }

    /// Makes all words 0 but the first one.
    ///
    /// # Safety
    /// All lanes call it, between barriers.
    #[inline(always)]
    unsafe fn clear(&self, first: u32) {
        let lane = warp::lane_id();
        // SAFETY: the words are there.
        unsafe {
            *self.words.add(lane as usize) = if lane == 0 { first } else { 0 };
            let mut i = 32;
            while i < WINDOW {
                *self.words.add(lane as usize + i) = 0;
                i += 32;
            }
        }
    }

    /// Puts `count` bits, at most 32, at a place; the value is below 2^count.
    ///
    /// # Safety
    /// There is room for them.
    #[inline(always)]
    unsafe fn put(&self, at: u32, value: u32) {
        let at = at - self.base;
        // SAFETY: the caller's; other lanes come by atomics only.
        unsafe {
            let word = self.words.add((at / 32) as usize);
            shared::atomic_or_u32(word, value << (at & 31));
            let rest = funnel_shift_left(0, value, at);
            if rest != 0 {
                shared::atomic_or_u32(word.add(1), rest);
            }
        }
    }

    /// Sees to it that there is room for so many bits, at most 32 (WINDOW - 1), from `at` on, before which all bits are there.
    ///
    /// # Safety
    /// All lanes call it.
    #[inline(always)]
    unsafe fn reserve(&mut self, at: u32, count: u32) {
        // SAFETY: the caller's. A vote, so that the compiler sees that all lanes agree.
        unsafe {
            if warp::full::any(at + count - self.base > 32 * WINDOW as u32) {
                self.flush(at);
            }
        }
    }

    /// Writes the whole words before `at` to memory.
    ///
    /// # Safety
    /// All lanes call it.
    #[inline(always)]
    unsafe fn flush(&mut self, at: u32) {
        let whole = (at - self.base) / 32;
        let lane = warp::lane_id();
        // SAFETY: words are those that were put.
        unsafe {
            warp::full::sync();
            let rest = if at.is_multiple_of(32) { 0 } else { *self.words.add(whole as usize) };
            let out = self.out.add((self.base / 32) as usize);
            let mut i = lane;
            while i < whole {
                *out.add(i as usize) = *self.words.add(i as usize);
                i += 32;
            }
            warp::full::sync();
            // Those beyond are 0 anyway.
            self.clear(rest);
            warp::full::sync();
        }
        self.base += 32 * whole;
    }

    /// Writes all that is left before `at`.
    ///
    /// # Safety
    /// All lanes call it.
    #[inline(always)]
    unsafe fn finish(mut self, at: u32) {
        // SAFETY: the caller's.
        unsafe { self.flush((at + 31) & !31) };
    }
}

/// What a lane knows of its block.
#[derive(Clone, Copy)]
struct Own {
    quads: u32,
    parameter: u32,
    /// Where its low bits start; only a decoder needs it.
    low: u32,
}

/// Looks at the symbols of a tile: each lane's live quads and parameter, and how many values are stored exactly.
///
/// # Safety
/// All lanes call it; the symbols are there.
#[inline(always)]
unsafe fn look<S: Stored>(symbols: *const S) -> (Own, u32) {
    let lane = warp::lane_id();
    let (mut quads, mut sum, mut escapes) = (0, 0, 0);
    let mut first = 0;
    // SAFETY: the caller's.
    unsafe {
        while first < BLOCKS as u32 {
            // Four blocks' symbols are on their way at a time.
            let mut loaded = [S::NONE; 4];
            each4!(|i| {
                loaded[i] = load_quad(symbols, first + i as u32);
            });
            each4!(|i| {
                let ([quad], escaped) = without_escapes::<S, 1>([loaded[i]]);
                let live = warp::full::ballot(S::glance(quad).0 != 0);
                let all = S::sum(quad);
                if lane == first + i as u32 {
                    quads = live;
                    sum = all;
                }
                escapes += escaped;
            });
            first += 4;
        }
        let parameter = if quads != 0 { parameter(sum, quads.count_ones()) } else { 0 };
        (Own { quads, parameter, low: 0 }, warp::full::reduce_add(escapes))
    }
}

/// Writes all before the low bits. Returns where those start and end.
///
/// # Safety
/// All lanes call it; the window is new.
#[inline(always)]
unsafe fn write_header(window: &Window, own: Own, escapes: bool) -> (u32, u32) {
    let (lane, below) = (warp::lane_id(), warp::lanemask_lt());
    // SAFETY: the caller's; this is some 1300 bits at most.
    unsafe {
        let alive = own.quads != 0;
        let live = warp::full::ballot(alive);
        let base = warp::full::reduce_min(if alive { own.parameter } else { MAX_PARAMETER });
        let base = if live != 0 { base } else { 0 };
        let step = own.parameter.wrapping_sub(base).min(FAR);
        let far = warp::full::ballot(alive && step == FAR);
        if lane == 0 {
            window.put(0, u32::from(escapes));
            window.put(1, live);
            window.put(1 + BLOCKS as u32, base);
        }
        let (count, rank) = (live.count_ones(), (live & below).count_ones());
        let fars = HEADER + STEP_BITS * count;
        let flags = fars + PARAMETER_BITS * far.count_ones();
        let bytes = flags + 4 * count;
        let groups = groups(own.quads);
        // Running sums of groups and of low bits in one.
        let low = 4 * own.parameter * own.quads.count_ones();
        let sums = groups.count_ones() | low << 8;
        let all = running_sum(sums);
        let before = all - sums;
        if alive {
            window.put(HEADER + STEP_BITS * rank, step);
            if step == FAR {
                window.put(fars + PARAMETER_BITS * (far & below).count_ones(), own.parameter);
            }
            window.put(flags + 4 * rank, groups);
            window.put(bytes + 8 * (before & 0xFF), pack(own.quads));
        }
        let all = warp::full::shuffle(all, 31);
        let lows = bytes + 8 * (all & 0xFF);
        (lows, lows + (all >> 8))
    }
}

/// Where the ones of the quotients are that four folded symbols have, and how many bits there are.
#[inline(always)]
const fn ones(folded: [u32; 4], k: u32) -> ([u32; 4], u32) {
    ones_of([folded[0] >> k, folded[1] >> k, folded[2] >> k, folded[3] >> k])
}

/// Likewise, of quotients that are capped.
#[inline(always)]
fn capped_ones(folded: [u32; 4], k: u32) -> ([u32; 4], u32) {
    ones_of(folded.map(|folded| (folded >> k).min(CAP)))
}

#[inline(always)]
const fn ones_of(quotients: [u32; 4]) -> ([u32; 4], u32) {
    let second = quotients[0].wrapping_add(quotients[1]).wrapping_add(1);
    let third = second.wrapping_add(quotients[2]).wrapping_add(1);
    let fourth = third.wrapping_add(quotients[3]).wrapping_add(1);
    ([quotients[0], second, third, fourth], fourth.wrapping_add(1))
}

/// A word of four ones.
#[inline(always)]
const fn word([a, b, c, d]: [u32; 4]) -> u32 {
    1 << (a & 31) | 1 << (b & 31) | 1 << (c & 31) | 1 << (d & 31)
}

/// Puts four ones.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn put_ones(window: &Window, at: u32, ones: [u32; 4]) {
    // SAFETY: the caller's.
    unsafe {
        each4!(|i| {
            window.put(at + ones[i], 1);
        });
    }
}

/// Puts a lane's low bits.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn put_low(window: &Window, at: u32, folded: [u32; 4], k: u32) {
    let low = folded.map(|folded| folded & ((1 << k) - 1));
    // SAFETY: the caller's.
    unsafe {
        if k <= 8 {
            let one = 1 << k;
            window.put(at, ((low[3] * one + low[2]) * one + low[1]) * one + low[0]);
        } else if k <= 16 {
            window.put(at, low[0] | low[1] << k);
            window.put(at + 2 * k, low[2] | low[3] << k);
        } else {
            each4!(|i| {
                window.put(at + i as u32 * k, low[i]);
            });
        }
    }
}

/// Where each of four lists starts that follow each other, the first at a place.
#[inline(always)]
const fn ranks(first: u32, counts: [u32; 4]) -> [u32; 4] {
    let second = first + counts[0];
    let third = second + counts[1];
    [first, second, third, third + counts[2]]
}

/// Writes low bits from `low_at` on and quotients from `at` on. Returns the ends of both, or nothing where they go beyond
/// `limit` bits.
///
/// # Safety
/// All lanes call it; the symbols are there.
#[inline(always)]
unsafe fn write_symbols<S: Stored>(
    low: &mut Window,
    mut low_at: u32,
    high: &mut Window,
    mut at: u32,
    limit: u32,
    own: Own,
    symbols: *const S,
) -> Option<(u32, u32)> {
    let lane = warp::lane_id();
    // SAFETY: the caller's; all lanes decide alike, by votes, so that the compiler sees it.
    unsafe {
        let live = warp::full::ballot(own.quads != 0);
        let mut capped = 0u32;
        // The next symbols are on their way already, where there are registers for them.
        let mut next = if size_of::<S>() == 2 { load_octet(symbols, 0) } else { [S::NONE; 2] };
        let mut block = 0;
        while block < BLOCKS as u32 {
            // Two blocks at a time, of which each lane has two quads in a row.
            let loaded = if size_of::<S>() == 2 { next } else { load_octet(symbols, block) };
            if size_of::<S>() == 2 {
                next = load_octet(symbols, (block + 2) % BLOCKS as u32);
            }
            if live >> block & 3 != 0 {
                let folded = without_escapes::<S, 2>(loaded).0.map(S::fold);
                let k = warp::full::shuffle(own.parameter, block + lane / 16);
                let live = folded.map(|quad| quad[0] | quad[1] | quad[2] | quad[3] != 0);
                let mut ones = folded.map(|quad| ones(quad, k));
                let all = folded.map(|quad| quad[0] | quad[1] | quad[2] | quad[3]);
                if warp::full::any((all[0] | all[1]) >> k >= CAP) {
                    capped |= 3 << block;
                    ones = folded.map(|quad| capped_ones(quad, k));
                }
                let bits = [if live[0] { ones[0].1 } else { 0 }, if live[1] { ones[1].1 } else { 0 }];
                let words = [if live[0] { word(ones[0].0) } else { 0 }, if live[1] { word(ones[1].0) } else { 0 }];
                let word = words[0] | words[1] << (bits[0] & 31);
                let long = warp::full::any(bits[0] + bits[1] > 32);
                let low_bits = [if live[0] { 4 * k } else { 0 }, if live[1] { 4 * k } else { 0 }];
                // Running sums of both in one.
                let own = bits[0] + bits[1] + ((low_bits[0] + low_bits[1]) << 16);
                let before = running_sum(own) - own;
                let all = warp::full::reduce_add(own);
                if warp::full::any(at + (all & 0xFFFF) > limit) {
                    return None;
                }
                low.reserve(low_at, all >> 16);
                high.reserve(at, all & 0xFFFF);
                let (own_low, own_at) = (low_at + (before >> 16), at + (before & 0xFFFF));
                if long {
                    if live[0] {
                        put_ones(high, own_at, capped_ones(folded[0], k).0);
                    }
                    if live[1] {
                        put_ones(high, own_at + bits[0], capped_ones(folded[1], k).0);
                    }
                } else if live[0] || live[1] {
                    high.put(own_at, word);
                }
                if live[0] && k > 0 {
                    put_low(low, own_low, folded[0], k);
                }
                if live[1] && k > 0 {
                    put_low(low, own_low + low_bits[0], folded[1], k);
                }
                at += all & 0xFFFF;
                low_at += all >> 16;
            }
            block += 2;
        }
        while capped != 0 {
            let block = capped.trailing_zeros();
            capped &= capped - 1;
            let k = warp::full::shuffle(own.parameter, block);
            let quotients = S::fold(without_escapes::<S, 1>([load_quad(symbols, block)]).0[0]).map(|folded| folded >> k);
            let is = quotients.map(|quotient| u32::from(quotient >= CAP));
            let count = is[0] + is[1] + is[2] + is[3];
            let sum = running_sum(count);
            let all = 32 * warp::full::reduce_add(count);
            if warp::full::any(at + all > limit) {
                return None;
            }
            high.reserve(at, all);
            let ranks = ranks(sum - count, is);
            each4!(|i| {
                if is[i] != 0 {
                    high.put(at + 32 * ranks[i], quotients[i]);
                }
            });
            at += all;
        }
    }
    Some((at, low_at))
}

/// Writes the values that are stored exactly.
///
/// # Safety
/// All lanes call it; the pointers are as in the kernels below.
#[inline(always)]
unsafe fn write_escapes<T: Real, S: Stored>(
    window: &mut Window,
    mut at: u32,
    tile: &Tile,
    symbols: *const S,
    positions: *const u16,
    values: *const T,
    count: u32,
) -> u32 {
    let lane = warp::lane_id();
    // SAFETY: the caller's; nodes that are looked up exist.
    unsafe {
        window.reserve(at, POSITION_BITS);
        if lane == 0 {
            window.put(at, count - 1);
        }
        at += POSITION_BITS;
        let mut part = 0;
        while part < 2 {
            let width = if part == 0 { POSITION_BITS } else { bits::<T>() };
            let mut node = lane;
            while node < TILE_NODES as u32 {
                let position = *positions.add(node as usize) as usize;
                let [a, b, c, d] = S::symbols(*(symbols.add(position & !3) as *const S::Quad));
                let [a, b] = if position & 2 == 0 { [a, b] } else { [c, d] };
                let escaped = (if position & 1 == 0 { a } else { b }) == S::ESCAPED;
                let votes = warp::full::ballot(escaped);
                window.reserve(at, votes.count_ones() * width);
                if escaped {
                    let at = at + (votes & warp::lanemask_lt()).count_ones() * width;
                    if part == 0 {
                        window.put(at, node);
                    } else {
                        let value = (*values.add(tile.index(tile.node(node)) as usize)).to_bits_u64();
                        window.put(at, value as u32);
                        if width == 64 {
                            window.put(at + 32, (value >> 32) as u32);
                        }
                    }
                }
                at += votes.count_ones() * width;
                node += 32;
            }
            part += 1;
        }
    }
    at
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn encode<T: Real, S: Stored>(
    tiles: Tiles,
    positions: *const u16,
    symbols: *const S,
    values: *const T,
    slots: *mut u32,
    slot_words: u32,
    lengths: *mut u16,
    counts: *mut u32,
) {
    let words = shared_array![u32; 2 * WARPS * WINDOW];
    let (index, lane) = (thread::index_1d() / 32, warp::lane_id());
    if index >= Tile::count(&tiles) {
        return;
    }
    // SAFETY: the caller's; whole warps return.
    unsafe {
        let words = words.add((thread::thread_idx_x() / 32) as usize * 2 * WINDOW);
        let symbols = symbols.add(index as usize * TILE_NODES);
        let out = slots.add(index as usize * slot_words as usize);
        let (own, escapes) = look(symbols);
        if escapes == 0 && !warp::full::any(own.quads != 0) {
            if lane == 0 {
                *lengths.add(index as usize) = 0;
            }
            return;
        }
        let mut low = Window::new(words, out, 0);
        let (start, first) = write_header(&low, own, escapes > 0);
        let for_escapes = if escapes > 0 { POSITION_BITS + escapes * (POSITION_BITS + bits::<T>()) } else { 0 };
        let limit = (8 * raw_bytes::<T>(tiles, index)).saturating_sub(for_escapes);
        if warp::full::any(first < limit) {
            let mut high = Window::new(words.add(WINDOW), out, first);
            if let Some((mut at, first)) = write_symbols(&mut low, start, &mut high, first, limit, own, symbols) {
                // What is known already is found again here, so that no registers are kept for it.
                let tile = Tile::new(tiles, warp::full::shuffle(index, 0));
                let raw = tile.nodes() * size_of::<T>() as u32;
                let for_escapes = 8 * raw - limit;
                let escapes = for_escapes / (POSITION_BITS + bits::<T>());
                let bytes = (at + for_escapes).div_ceil(8);
                if warp::full::any(bytes < raw) {
                    if warp::full::any(escapes > 0) {
                        at = write_escapes(&mut high, at, &tile, symbols, positions, values, escapes);
                    }
                    low.flush(first);
                    if lane == 0 {
                        // The word that both have a part of: in memory already, by this lane, or not yet.
                        let (shared, word) = (*low.words, first & !31);
                        *if high.base == word { high.words } else { out.add((word / 32) as usize) } |= shared;
                        *lengths.add(index as usize) = bytes as u16;
                        if escapes > 0 {
                            atomic_fetch_add_relaxed_u32_device(counts.add(1), escapes);
                        }
                    }
                    return high.finish(at);
                }
            }
        }
        if lane == 0 {
            *lengths.add(index as usize) = raw_bytes::<T>(tiles, index) as u16;
            atomic_fetch_add_relaxed_u32_device(counts, 1);
        }
    }
}

/// The bytes of a raw tile.
///
/// # Safety
/// All lanes call it with the same index.
#[inline(always)]
unsafe fn raw_bytes<T>(tiles: Tiles, index: u32) -> u32 {
    // SAFETY: the caller's. The compiler does not know the index to be the same: it is found anew each time, and takes no registers.
    Tile::new(tiles, unsafe { warp::full::shuffle(index, 0) }).nodes() * size_of::<T>() as u32
}

/// Bits from memory.
struct Reader {
    words: *const u32,
    /// Words that have a byte of the tile.
    len: u32,
    /// The bit of the first word that is the tile's first.
    start: u32,
}

impl Reader {
    /// `bytes` points to so many bytes.
    #[inline(always)]
    fn new(bytes: *const u8, len: u32) -> Self {
        let skipped = (bytes as usize % 4) as u32;
        Self { words: bytes.wrapping_sub(skipped as usize) as *const u32, len: (skipped + len).div_ceil(4), start: 8 * skipped }
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

    /// The 32 bits from one on.
    ///
    /// # Safety
    /// The tile's bytes are there.
    #[inline(always)]
    unsafe fn bits(&self, at: u32) -> u32 {
        let at = at + self.start;
        // SAFETY: the caller's.
        unsafe { funnel_shift_right(self.word(at / 32 + 1), self.word(at / 32), at) }
    }
}

/// The first bits of a word, at most 31.
#[inline(always)]
const fn first(word: u32, count: u32) -> u32 {
    word & ((1 << count) - 1)
}

/// What comes before the low bits.
struct Header {
    own: Own,
    /// Live quads of the blocks before the lane's, and of all.
    rank: u32,
    quads: u32,
    /// Where the quotients start.
    high: u32,
    good: bool,
}

/// # Safety
/// All lanes call it; the tile's bytes are there.
#[inline(always)]
unsafe fn read_header(reader: &Reader) -> Header {
    let (lane, below) = (warp::lane_id(), warp::lanemask_lt());
    // SAFETY: the caller's; 0 is read beyond the tile.
    unsafe {
        let live = reader.bits(1);
        let base = first(reader.bits(1 + BLOCKS as u32), PARAMETER_BITS);
        let alive = live >> lane & 1 == 1;
        let (count, rank) = (live.count_ones(), (live & below).count_ones());
        let step = if alive { first(reader.bits(HEADER + STEP_BITS * rank), STEP_BITS) } else { 0 };
        let far = warp::full::ballot(step == FAR);
        let fars = HEADER + STEP_BITS * count;
        let flags = fars + PARAMETER_BITS * far.count_ones();
        let bytes = flags + 4 * count;
        let mut parameter = base + step;
        if step == FAR {
            parameter = first(reader.bits(fars + PARAMETER_BITS * (far & below).count_ones()), PARAMETER_BITS);
        }
        let good = parameter <= MAX_PARAMETER;
        let parameter = parameter & MAX_PARAMETER;
        let groups = if alive { first(reader.bits(flags + 4 * rank), 4) } else { 0 };
        let count = groups.count_ones();
        let sum = running_sum(count);
        let quads = if alive { unpack(reader.bits(bytes + 8 * (sum - count)), groups) } else { 0 };
        let lows = bytes + 8 * warp::full::shuffle(sum, 31);
        // Running sums of quads and of low bits in one.
        let count = quads.count_ones();
        let sums = count | (4 * parameter * count) << 11;
        let all = running_sum(sums);
        let before = all - sums;
        let all = warp::full::shuffle(all, 31);
        let own = Own { quads, parameter, low: lows + (before >> 11) };
        Header { own, rank: before & 0x7FF, quads: all & 0x7FF, high: lows + (all >> 11), good }
    }
}

/// Reads quotients as so many zeros and a one: each plus 1 goes to its place in `quotients`. Returns where they end; nothing where they
/// do not look like that.
///
/// # Safety
/// All lanes call it; the tile's bytes are there, and places for so many quotients.
#[inline(always)]
unsafe fn read_quotients(reader: &Reader, start: u32, total: u32, quotients: *mut u8) -> Option<u32> {
    let lane = warp::lane_id();
    let (mut rank, mut carry, mut at, mut end) = (0, 0, start + 32 * lane, start);
    // SAFETY: the caller's; all lanes decide alike.
    unsafe {
        let mut next = if total > 0 { reader.bits(at) } else { 0 };
        // A vote, so that the compiler sees that all lanes agree.
        while warp::full::any(rank < total) {
            let mut word = next;
            next = reader.bits(at + 1024);
            let count = word.count_ones();
            let sum = running_sum(count);
            let mut place = rank + sum - count;
            // A word without a one is none of at most CAP zeros and a one each.
            if warp::full::any(word == 0 && place < total) {
                return None;
            }
            let zeros = word.leading_zeros();
            let before = warp::full::shuffle_up(zeros, 1);
            let mut last = (if lane == 0 { carry } else { before }).wrapping_neg();
            carry = warp::full::shuffle(zeros, 31);
            rank += warp::full::reduce_add(count);
            if warp::full::any(rank >= total) {
                // The last words: ones that are too many go.
                if place >= total {
                    word = 0;
                } else {
                    let mut over = (place + count).saturating_sub(total);
                    while over > 0 {
                        word &= !(1 << (31 - word.leading_zeros()));
                        over -= 1;
                    }
                }
                let ends = word != 0 && place + word.count_ones() == total;
                let lanes = warp::full::ballot(ends);
                end = warp::full::shuffle(at + 32 - word.leading_zeros(), lanes.trailing_zeros());
            }
            while word != 0 {
                each4!(|i| {
                    let below = word.wrapping_sub(1);
                    let position = (word ^ below).count_ones();
                    if word != 0 {
                        *quotients.add(place as usize + i) = position.wrapping_sub(last) as u8;
                    }
                    last = position;
                    word &= below;
                });
                place += 4;
            }
            at += 1024;
        }
        warp::full::sync();
    }
    Some(end)
}

/// [`Reader::bits`] from one on that is the tile's.
///
/// # Safety
/// The tile's bytes are there.
#[inline(always)]
unsafe fn read_inside(reader: &Reader, at: u32) -> u32 {
    let at = at + reader.start;
    let word = at / 32;
    // SAFETY: the caller's; the word after it is only looked at if it has a byte of the tile.
    unsafe {
        let after = intrinsics::load_readonly(reader.words.add((word + 1).min(reader.len - 1) as usize));
        funnel_shift_right(after, intrinsics::load_readonly(reader.words.add(word as usize)), at)
    }
}

/// Where the bits of a block are, as all lanes know it; `bit` is the lane's below.
#[derive(Clone, Copy)]
struct Place {
    quads: u32,
    parameter: u32,
    low: u32,
    rank: u32,
}

impl Place {
    #[inline(always)]
    fn new(own: Four) -> Self {
        let [quads, parameter, low, rank] = own.0.map(|number| number as u32);
        Self { quads, parameter, low, rank }
    }

    #[inline(always)]
    fn before(&self, bit: u32) -> u32 {
        (self.quads & (bit - 1)).count_ones()
    }

    #[inline(always)]
    fn low_at(&self, bit: u32) -> u32 {
        self.low + 4 * self.parameter * self.before(bit)
    }

    /// Four quotients, a byte each, of which those of lanes without live symbols are 0.
    ///
    /// # Safety
    /// They were read.
    #[inline(always)]
    unsafe fn quotients(&self, quotients: *const u8, bit: u32) -> u32 {
        // SAFETY: the caller's; there is a word more than live quads.
        let four = unsafe { *(quotients.add(4 * (self.rank + self.before(bit)) as usize) as *const u32) };
        // Each is 1 more.
        if self.quads & bit != 0 { four.wrapping_sub(0x0101_0101) } else { 0 }
    }

    /// The symbols from the quotients and all low bits, for a parameter of at most [`SHORT`].
    #[inline(always)]
    fn short<S: Stored>(&self, bit: u32, four: u32, low: u32) -> S::Quad {
        let low = if self.quads & bit != 0 { low } else { 0 };
        let (k, mask) = (self.parameter, (1 << self.parameter) - 1);
        let pair = |low: u32| low & mask | low << (16 - k) & mask << 16;
        let pairs = [
            (intrinsics::byte_permute(four, 0, 0x4140) << k) + pair(low),
            (intrinsics::byte_permute(four, 0, 0x4342) << k) + pair(low >> (2 * k)),
        ];
        S::quad_of_pairs(pairs.map(unfold_pair))
    }

    /// The symbols from the quotients, for any parameter.
    ///
    /// # Safety
    /// The tile's bytes are there.
    #[inline(always)]
    unsafe fn long<S: Stored>(&self, reader: &Reader, bit: u32, four: u32, bad: &mut u32) -> S::Quad {
        if self.quads & bit == 0 {
            return S::NONE;
        }
        let (k, at, mask) = (self.parameter, self.low_at(bit), (1 << self.parameter) - 1);
        let mut symbols = [0; 4];
        // SAFETY: the caller's.
        unsafe {
            let low = if k <= 16 {
                let (low, high) = (reader.bits(at), reader.bits(at + 2 * k));
                [low, low >> k, high, high >> k]
            } else {
                [reader.bits(at), reader.bits(at + k), reader.bits(at + 2 * k), reader.bits(at + 3 * k)]
            };
            each4!(|i| {
                // Cut as on the CPU: a damaged archive may hold more.
                let folded = (((four >> (8 * i) & 0xFF) << k) + (low[i] & mask)) & (FOLDED - 1);
                if folded > S::GREATEST {
                    *bad |= DOES_NOT_FIT;
                }
                symbols[i] = unfold(folded);
            });
        }
        S::quad(symbols)
    }
}

/// Reads the symbols of a tile's blocks. Returns the end of their bits, and what is bad.
///
/// # Safety
/// All lanes call it; the tile's bytes are there, and places for its symbols, its quotients and a word of each block.
#[inline(always)]
unsafe fn read_symbols<S: Stored>(reader: &Reader, header: &Header, symbols: *mut S, quotients: *mut u8, owns: *mut Four) -> (u32, u32) {
    let (lane, bit) = (warp::lane_id(), 1u32 << warp::lane_id());
    // SAFETY: the caller's; all lanes decide alike.
    unsafe {
        let Own { quads, parameter, low } = header.own;
        *owns.add(lane as usize) = Four([quads, parameter, low, header.rank].map(|number| number as i32));
        let Some(mut end) = read_quotients(reader, header.high, 4 * header.quads, quotients) else {
            clear(symbols);
            return (0, 1);
        };
        let (mut capped, mut bad) = (0, 0);
        let mut block = 0;
        while block < BLOCKS as u32 {
            let quads = [*owns.add(block as usize), *owns.add(block as usize + 1)].map(Place::new);
            let symbols = symbols.add((block * SYMBOLS as u32 + 4 * lane) as usize);
            let mut out = [S::NONE; 2];
            if quads[0].quads | quads[1].quads != 0 {
                // Both blocks' bits are on their way at a time.
                let four = [quads[0].quotients(quotients, bit), quads[1].quotients(quotients, bit)];
                capped |= four[0].wrapping_add(0x0101_0101 * (128 - CAP)) | four[1].wrapping_add(0x0101_0101 * (128 - CAP));
                if quads[0].parameter.max(quads[1].parameter) <= SHORT {
                    let all = [quads[0].low_at(bit), quads[1].low_at(bit)].map(|at| read_inside(reader, at));
                    out = [quads[0].short::<S>(bit, four[0], all[0]), quads[1].short::<S>(bit, four[1], all[1])];
                } else {
                    out = [quads[0].long::<S>(reader, bit, four[0], &mut bad), quads[1].long::<S>(reader, bit, four[1], &mut bad)];
                }
            }
            *(symbols as *mut S::Quad) = out[0];
            *(symbols.add(SYMBOLS) as *mut S::Quad) = out[1];
            block += 2;
        }
        if warp::full::any(capped & 0x8080_8080 != 0) {
            let (after, more) = read_capped(reader, header, end, symbols, quotients);
            end = after;
            bad |= more;
        }
        (end, bad)
    }
}

/// Reads the quotients that were capped, again likewise.
///
/// # Safety
/// As above.
#[inline(always)]
unsafe fn read_capped<S: Stored>(reader: &Reader, header: &Header, mut at: u32, symbols: *mut S, quotients: *const u8) -> (u32, u32) {
    let (lane, below) = (warp::lane_id(), warp::lanemask_lt());
    let mut bad = 0;
    let mut block = 0;
    // SAFETY: the caller's; all lanes decide alike.
    unsafe {
        while block < BLOCKS as u32 {
            let quads = warp::full::shuffle(header.own.quads, block);
            let k = warp::full::shuffle(header.own.parameter, block);
            let rank = warp::full::shuffle(header.rank, block);
            let low = warp::full::shuffle(header.own.low, block);
            let before = (quads & below).count_ones();
            let live = quads >> lane & 1 == 1;
            let four = *(quotients.add(4 * (rank + before) as usize) as *const u32);
            let mut is = [0; 4];
            each4!(|i| {
                let plus1 = four >> (8 * i) & 0xFF;
                is[i] = u32::from(live && plus1 > CAP);
                bad |= u32::from(live && plus1 > CAP + 1);
            });
            let count = is[0] + is[1] + is[2] + is[3];
            let sum = running_sum(count);
            let ranks = ranks(sum - count, is);
            each4!(|i| {
                if is[i] != 0 {
                    let low = first(reader.bits(low + 4 * k * before + i as u32 * k), k);
                    let folded = ((reader.bits(at + 32 * ranks[i]) << k) + low) & (FOLDED - 1);
                    if folded > S::GREATEST {
                        bad |= DOES_NOT_FIT;
                    }
                    *symbols.add((block * SYMBOLS as u32 + 4 * lane) as usize + i) = S::new(unfold(folded));
                }
            });
            at += 32 * warp::full::shuffle(sum, 31);
            block += 1;
        }
    }
    (at, bad)
}

/// All symbols are 0.
///
/// # Safety
/// All lanes call it; there are a tile's places.
#[inline(always)]
unsafe fn clear<S: Stored>(symbols: *mut S) {
    let mut i = 4 * warp::lane_id();
    while i < TILE_NODES as u32 {
        // SAFETY: the caller's.
        unsafe { *(symbols.add(i as usize) as *mut S::Quad) = S::NONE };
        i += SYMBOLS as u32;
    }
}

/// Reads the values that are stored exactly. Returns the end of their bits, and whether they are such.
///
/// # Safety
/// All lanes call it; the pointers are as in the kernels below.
#[inline(always)]
unsafe fn read_escapes<T: Real, S: Stored>(
    reader: &Reader,
    at: u32,
    tile: &Tile,
    positions: *const u16,
    symbols: *mut S,
    values: *mut T,
) -> (u32, bool) {
    let mut good = true;
    // SAFETY: the caller's; nodes that are written exist.
    unsafe {
        let count = first(reader.bits(at), POSITION_BITS) + 1;
        let at = at + POSITION_BITS;
        // Symbols that other lanes wrote are overwritten.
        warp::full::sync();
        let mut i = warp::lane_id();
        while i < count {
            let index = first(reader.bits(at + i * POSITION_BITS), POSITION_BITS);
            let node = tile.node(index);
            let ascends = i == 0 || first(reader.bits(at + (i - 1) * POSITION_BITS), POSITION_BITS) < index;
            if ascends && tile.owns(node) {
                let at = at + count * POSITION_BITS + i * bits::<T>();
                let mut value = reader.bits(at) as u64;
                if bits::<T>() == 64 {
                    value |= (reader.bits(at + 32) as u64) << 32;
                }
                *values.add(tile.index(node) as usize) = T::from_bits_u64(value);
                *symbols.add(*positions.add(index as usize) as usize) = S::new(S::ESCAPED);
            } else {
                good = false;
            }
            i += 32;
        }
        (at + count * (POSITION_BITS + bits::<T>()), good)
    }
}

/// Reads a raw tile.
///
/// # Safety
/// All lanes call it; the pointers are as in the kernels below.
#[inline(always)]
unsafe fn read_raw<T: Real, S: Stored>(tile: &Tile, bytes: *const u8, positions: *const u16, symbols: *mut S, values: *mut T) {
    let mut i = warp::lane_id();
    // SAFETY: the caller's.
    unsafe {
        // Nodes beyond the chunk have the symbol 0.
        while i < TILE_NODES as u32 {
            let exists = tile.owns(tile.node(i));
            *symbols.add(*positions.add(i as usize) as usize) = S::new(if exists { S::ESCAPED } else { 0 });
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
unsafe fn decode<T: Real, S: Stored>(
    tiles: Tiles,
    positions: *const u16,
    payload: *const u8,
    limit: *const u8,
    offsets: *const u32,
    bases: *const u64,
    lengths: *const u16,
    symbols: *mut S,
    values: *mut T,
    bad: *mut u32,
) {
    let quotients = shared_array![u32; WARPS * QUOTIENTS / 4];
    let owns = shared_array![Four; WARPS * BLOCKS];
    let (index, lane) = (thread::index_1d() / 32, warp::lane_id());
    if index >= Tile::count(&tiles) {
        return;
    }
    let tile = Tile::new(tiles, index);
    // SAFETY: the caller's; whole warps return, and all lanes decide alike.
    unsafe {
        let warp = (thread::thread_idx_x() / 32) as usize;
        let (quotients, owns) = ((quotients as *mut u8).add(warp * QUOTIENTS), owns.add(warp * BLOCKS));
        let symbols = symbols.add(index as usize * TILE_NODES);
        let len = load(lengths.add(index as usize)) as u32;
        let bytes = payload.wrapping_add(start(offsets, bases, index) as usize);
        let raw = tile.nodes() * size_of::<T>() as u32;
        let fits = len <= raw && bytes.wrapping_add(len as usize) <= limit;
        if !fits && lane == 0 {
            atomic_fetch_or_relaxed_u32_device(bad, 1);
        }
        if !fits || len == 0 {
            return clear(symbols);
        }
        if len == raw {
            return read_raw(&tile, bytes, positions, symbols, values);
        }
        let reader = Reader::new(bytes, len);
        let header = read_header(&reader);
        if warp::full::any(!header.good || header.high >= 8 * len && header.quads > 0) {
            if lane == 0 {
                atomic_fetch_or_relaxed_u32_device(bad, 1);
            }
            return clear(symbols);
        }
        let (mut at, mut found) = read_symbols(&reader, &header, symbols, quotients, owns);
        let mut good = true;
        if reader.bits(0) & 1 == 1 {
            // Made anew, as in the encoder.
            let tile = Tile::new(tiles, warp::full::shuffle(index, 0));
            let (end, such) = read_escapes(&reader, at, &tile, positions, symbols, values);
            at = end;
            good &= such;
        }
        // The last byte is filled with 0.
        good &= at.div_ceil(8) == len && first(reader.bits(at), (8 - at % 8) % 8) == 0;
        found |= u32::from(!good);
        if found != 0 {
            atomic_fetch_or_relaxed_u32_device(bad, found);
        }
    }
}

macro_rules! kernels {
    ($real:ident, $symbol:ident, $encode:ident, $decode:ident) => {
        /// Codes tiles into slots.
        ///
        /// Grid: a warp for each tile; block: 128 threads. Shared memory: 8 KB, static.
        ///
        /// # Safety
        ///
        /// `positions` points to the position of each node of a full tile in C order, `symbols`, aligned to 16 bytes,
        /// to 4096 for each tile, the least one standing for a value that is stored exactly, `values` to the chunk's original values,
        /// `slots` to `slot_words` words for each tile, as many as its values at least, `lengths` to a place for each; `counts` to two
        /// numbers, to which raw tiles and values that are stored exactly in others are added.
        #[kernel(max_threads = BLOCK, min_blocks = 7)]
        pub unsafe fn $encode(
            tiles: Tiles,
            positions: *const u16,
            symbols: *const $symbol,
            values: *const $real,
            slots: *mut u32,
            slot_words: u32,
            lengths: *mut u16,
            counts: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe { encode(tiles, positions, symbols, values, slots, slot_words, lengths, counts) }
        }

        /// Decodes tiles. Values that are stored exactly go to their places in `values`.
        ///
        /// Grid: a warp for each tile; block: 128 threads. Shared memory: 18 KB, static.
        ///
        /// # Safety
        ///
        /// As above; `payload` points to the tiles' bytes, which end at `limit`, `lengths` to the bytes of each, at any byte address;
        /// `offsets` and `bases` are what [`crate::scan`] makes of them; `values` points to the chunk's values; `bad` to a number,
        /// whose first bit is set where bytes are not a tile's, and whose second one where symbols do not fit in their type.
        #[kernel(max_threads = BLOCK, min_blocks = 9)]
        pub unsafe fn $decode(
            tiles: Tiles,
            positions: *const u16,
            payload: *const u8,
            limit: *const u8,
            offsets: *const u32,
            bases: *const u64,
            lengths: *const u16,
            symbols: *mut $symbol,
            values: *mut $real,
            bad: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe { decode(tiles, positions, payload, limit, offsets, bases, lengths, symbols, values, bad) }
        }
    };
}

kernels!(f32, i16, rice_encode_f32_i16, rice_decode_f32_i16);
kernels!(f32, i32, rice_encode_f32_i32, rice_decode_f32_i32);
kernels!(f64, i16, rice_encode_f64_i16, rice_decode_f64_i16);
kernels!(f64, i32, rice_encode_f64_i32, rice_decode_f64_i32);
