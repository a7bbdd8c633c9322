//! Packed tiles of 4x8x16 f32 values: the inner ones of fields that have no special values. What these kernels cannot do, they list for
//! [`crate::packed`].
//!
//! A warp works on 4 tiles that are neighbours along x, 8 lanes on each: a lane has the rows of one y. The nodes that the finest level
//! adds along x, 7 of 16, stay in its registers; the other nine *columns* are in shared memory, in rows of 9, planes of 73 and tiles of 296
//! words, which keeps lanes that work on different tiles, rows or columns on different banks. A lane's rows and its *part* of the
//! symbols go together: 28 of its 64 are those of its rows, the other 36 come from all lanes through shared memory.
//!
//! Symbols are kept in 16 bits, with 2^15 added. A lane's groups are of 16, so each takes as many 16-bit units as its symbols have bits.

use bmgard_core::Real;
use bmgard_core::packed::{Head, four, linear, three};
use cuda_std::atomic::intrinsics::atomic_fetch_add_relaxed_u32_device;
use cuda_std::prelude::*;

use crate::common::{load, split};
use crate::packed::{Tiles, WORST, raise_alone};
use crate::scan::start;
use crate::unroll::{each4, each8};

/// Threads of a block: warps share nothing.
pub const BLOCK: u32 = 128;
const WARPS: u32 = BLOCK / 32;

/// Words from a row to the next, from a plane and from a tile.
const ROW: usize = 9;
const PLANE: usize = 73;
const TILE: usize = 296;
/// 16-bit units from a part's symbols in shared memory to the next part's, and from a tile's.
const PART: usize = 40;
const SYMBOLS: usize = 322;
/// Bytes of shared memory of a warp.
const OWN: usize = 4 * (4 * TILE + 2 * SYMBOLS);
/// Words of a coded tile whose widths are as its nibbles say, at most.
const MOST_WORDS: u32 = 261;

/// Where lists of symbols start among the 160 that parts 3 to 7 have besides their first 32, in the order of
/// [`bmgard_core::packed::positions`].
const X2: usize = 0;
const Y2: usize = 40;
const Z1: usize = 70;
const Z2: usize = 115;
const X4: usize = 130;
const Y4: usize = 142;
const X8: usize = 148;
const CORNERS: usize = 152;

/// The i-th of them in shared memory.
#[inline(always)]
fn rest(i: usize) -> usize {
    3 * PART + 4 + i + (i >> 5) * (PART - 32)
}

/// 1.5 * 2^23 + 2^15: adding it leaves a symbol, with 2^15 added, in the low half.
const MAGIC: f32 = <f32 as Real>::ROUNDER + 32_768.0;
/// The bits of a number of which a symbol is the low half.
const HIGH: u32 = 0x4B40;
/// 0 as it is kept.
const ZERO: u16 = 0x8000;
/// Symbols are less than this.
const MOST: f32 = 16_384.0;

/// `each4!` and the like for more.
macro_rules! each6 {
    (|$i:ident| $body:block) => {
        crate::unroll::each5!(@ $i, $body, 0 1 2 3 4 5)
    };
}

macro_rules! each2 {
    (|$i:ident| $body:block) => {
        crate::unroll::each5!(@ $i, $body, 0 1)
    };
}

/// Runs the body for the pencils of a stage that are the lane's: every 8th.
macro_rules! pencils {
    ($each:ident, $count:expr, $lane:expr, |$p:ident| $body:block) => {
        $each!(|i| {
            let $p = $lane + 8 * i;
            if 8 * i + 8 <= $count || $p < $count $body
        })
    };
}

/// A warp's four tiles.
struct Group {
    /// Of the lane.
    tile: usize,
    row: usize,
    /// The tile's number, if there is one.
    index: u32,
    exists: bool,
    full: bool,
    /// The position of the lane's first row, and how far apart planes are.
    first: u32,
    plane: u32,
}

impl Group {
    /// The `number`-th; `None` beyond the last.
    #[inline(always)]
    fn get(tiles: &Tiles, number: u32) -> Option<Self> {
        let lane = warp::lane_id();
        let groups = [tiles.tiles[0], tiles.tiles[1], tiles.tiles[2].div_ceil(4)];
        if number >= groups[0] * groups[1] * groups[2] {
            return None;
        }
        let [z, y, x] = split(number, groups);
        let (tile, row) = (lane % 4, lane / 4);
        let x = 4 * x + tile;
        let [nz, ny, nx] = tiles.dims;
        let full = 16 * x + 16 <= nx && 8 * y + 8 <= ny && 4 * z + 4 <= nz;
        Some(Self {
            tile: tile as usize,
            row: row as usize,
            index: (z * tiles.tiles[1] + y) * tiles.tiles[2] + x,
            exists: x < tiles.tiles[2],
            full,
            first: ((4 * z) * ny + 8 * y + row) * nx + 16 * x,
            plane: ny * nx,
        })
    }

    /// Puts the tiles for which it is so, told by their lanes alike, on a list.
    ///
    /// # Safety
    /// All lanes of the warp call it; the list has room.
    #[inline(always)]
    unsafe fn list(&self, so: bool, list: *mut u32, listed: *mut u32) {
        // SAFETY: the caller's.
        unsafe {
            let chosen = warp::full::ballot(so && self.row == 0);
            if chosen != 0 {
                let mut at = 0;
                if warp::lane_id() == 0 {
                    at = atomic_fetch_add_relaxed_u32_device(listed, chosen.count_ones());
                }
                at = warp::full::shuffle(at, 0);
                if chosen >> warp::lane_id() & 1 == 1 {
                    *list.add((at + (chosen & warp::lanemask_lt()).count_ones()) as usize) = self.index;
                }
            }
        }
    }
}

/// What a stage does at a node.
trait Work {
    /// Reconstructs the node at `node` from its prediction; its symbol is at `symbol`.
    ///
    /// # Safety
    /// Both are the lane's.
    unsafe fn at(&mut self, node: *mut f32, symbol: *mut u16, prediction: f32);
}

/// All stages but the last. The anchor is in place, and in encoding all values are.
///
/// # Safety
/// All lanes of the warp call it; `t` points to the nodes of the lane's tile, `s` to its symbols.
#[inline(always)]
unsafe fn stages<W: Work>(work: &mut W, t: *mut f32, s: *mut u16, l: usize) {
    // SAFETY: indices are those of the layout above; lanes wait for each other between stages.
    unsafe {
        let half = |a: usize, b: usize| linear(*t.add(a), *t.add(b), 0.5);
        if l > 0 {
            let node = (l >> 2) * 3 * PLANE + (l >> 1 & 1) * 7 * ROW + (l & 1) * 8;
            work.at(t.add(node), s.add(rest(CORNERS + 7 - l)), *t);
        }
        warp::full::sync();
        if l < 4 {
            let b = (l >> 1) * 3 * PLANE + (l & 1) * 7 * ROW;
            work.at(t.add(b + 4), s.add(rest(X8 + l)), linear(*t.add(b), *t.add(b + 8), (8.0 / 15.0) as f32));
        }
        warp::full::sync();
        if l < 6 {
            let b = l / 3 * 3 * PLANE + l % 3 * 4;
            work.at(t.add(b + 4 * ROW), s.add(rest(Y4 + l)), linear(*t.add(b), *t.add(b + 7 * ROW), (4.0 / 7.0) as f32));
        }
        warp::full::sync();
        if l < 6 {
            let b = l / 3 * 3 * PLANE + (4 * ROW * (l % 3)).min(7 * ROW);
            work.at(t.add(b + 2), s.add(rest(X4 + 2 * l)), half(b, b + 4));
            work.at(t.add(b + 6), s.add(rest(X4 + 2 * l + 1)), linear(*t.add(b + 4), *t.add(b + 8), (4.0 / 7.0) as f32));
        }
        warp::full::sync();
        pencils!(each2, 15, l, |p| {
            let b = (4 * ROW * (p / 5)).min(7 * ROW) + 2 * (p % 5);
            work.at(t.add(b + 2 * PLANE), s.add(rest(Z2 + p)), linear(*t.add(b), *t.add(b + 3 * PLANE), (2.0 / 3.0) as f32));
        });
        warp::full::sync();
        pencils!(each2, 15, l, |p| {
            let b = (2 * PLANE * (p / 5)).min(3 * PLANE) + 2 * (p % 5);
            let i = Y2 + 10 * (p / 5) + p % 5;
            work.at(t.add(b + 2 * ROW), s.add(rest(i)), half(b, b + 4 * ROW));
            work.at(t.add(b + 6 * ROW), s.add(rest(i + 5)), linear(*t.add(b + 4 * ROW), *t.add(b + 7 * ROW), (2.0 / 3.0) as f32));
        });
        warp::full::sync();
        pencils!(each2, 15, l, |p| {
            let b = (2 * PLANE * (p / 5)).min(3 * PLANE) + (2 * ROW * (p % 5)).min(7 * ROW);
            // The first five pencils fill parts 3 to 7's groups.
            let i = if p < 5 { (3 + p) * PART } else { rest((X2 + 4 * p).wrapping_sub(20)) };
            work.at(t.add(b + 1), s.add(i), half(b, b + 2));
            work.at(t.add(b + 3), s.add(i + 1), half(b + 2, b + 4));
            work.at(t.add(b + 5), s.add(i + 2), half(b + 4, b + 6));
            work.at(t.add(b + 7), s.add(i + 3), linear(*t.add(b + 6), *t.add(b + 8), (2.0 / 3.0) as f32));
        });
        warp::full::sync();
        pencils!(each6, 45, l, |p| {
            let b = (2 * ROW * (p / 9)).min(7 * ROW) + p % 9;
            let prediction = three(*t.add(b), *t.add(b + 2 * PLANE), *t.add(b + 3 * PLANE), [(1.0 / 3.0) as f32, 1.0, (-1.0 / 3.0) as f32]);
            work.at(t.add(b + PLANE), s.add(rest(Z1 + p)), prediction);
        });
        warp::full::sync();
        pencils!(each5, 36, l, |p| {
            let b = p / 9 * PLANE + p % 9;
            let y = [*t.add(b), *t.add(b + 2 * ROW), *t.add(b + 4 * ROW), *t.add(b + 6 * ROW), *t.add(b + 7 * ROW)];
            work.at(t.add(b + ROW), s.add(p), first(y[0], y[1], y[2]));
            work.at(t.add(b + 3 * ROW), s.add(PART + p), inner([y[0], y[1], y[2], y[3]]));
            work.at(t.add(b + 5 * ROW), s.add(2 * PART + p), last([y[1], y[2], y[3], y[4]]));
        });
        warp::full::sync();
    }
}

use crate::unroll::each5;

/// The finest level's predictions: at the first node, inside, at the last.
#[inline(always)]
fn first(a: f32, b: f32, c: f32) -> f32 {
    three(a, b, c, [0.375, 0.75, -0.125])
}

#[inline(always)]
fn inner(nodes: [f32; 4]) -> f32 {
    four(nodes, [-0.0625, 0.5625, 0.5625, -0.0625])
}

#[inline(always)]
fn last(nodes: [f32; 4]) -> f32 {
    four(nodes, [-0.05, 0.5, 0.75, -0.2])
}

/// The predictions of the nodes that the finest level adds to a row of nine columns.
///
/// # Safety
/// `row` points to them.
#[inline(always)]
unsafe fn along_row(row: *const f32) -> ([f32; 9], [f32; 7]) {
    // SAFETY: the caller's.
    let c = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|i| unsafe { *row.add(i) });
    let predictions = [
        first(c[0], c[1], c[2]),
        inner([c[0], c[1], c[2], c[3]]),
        inner([c[1], c[2], c[3], c[4]]),
        inner([c[2], c[3], c[4], c[5]]),
        inner([c[3], c[4], c[5], c[6]]),
        inner([c[4], c[5], c[6], c[7]]),
        last([c[5], c[6], c[7], c[8]]),
    ];
    (c, predictions)
}

/// Quantises.
struct Quantise {
    step: f32,
    inverse: f32,
    /// The greatest |v - r|, NaN if one is, and the greatest symbol.
    worst: f32,
    far: f32,
}

impl Quantise {
    /// The number of which the symbol is the low half, and what it is reconstructed to.
    #[inline(always)]
    fn quantise(&mut self, value: f32, prediction: f32) -> (u32, f32) {
        // [`bmgard_core::closed::Quantiser::quantise`] with another constant, which is even too: rounding is the same.
        let rounded = (value - prediction).fma(self.inverse, MAGIC);
        let steps = rounded - MAGIC;
        let reconstructed = steps.fma(self.step, prediction);
        self.worst = intrinsics::max_nan_f32(self.worst, Real::abs(value - reconstructed));
        self.far = intrinsics::max_nan_f32(self.far, Real::abs(steps));
        (rounded.to_bits(), reconstructed)
    }
}

impl Work for Quantise {
    #[inline(always)]
    unsafe fn at(&mut self, node: *mut f32, symbol: *mut u16, prediction: f32) {
        // SAFETY: the caller's.
        unsafe {
            let (bits, reconstructed) = self.quantise(*node, prediction);
            *symbol = bits as u16;
            *node = reconstructed;
        }
    }
}

/// Reconstructs.
struct Reconstruct {
    step: f32,
}

impl Reconstruct {
    /// From the number of which the symbol is the low half.
    #[inline(always)]
    fn value(&self, bits: u32, prediction: f32) -> f32 {
        (f32::from_bits(bits) - MAGIC).fma(self.step, prediction)
    }
}

impl Work for Reconstruct {
    #[inline(always)]
    unsafe fn at(&mut self, node: *mut f32, symbol: *mut u16, prediction: f32) {
        // SAFETY: the caller's.
        unsafe { *node = self.value(HIGH << 16 | *symbol as u32, prediction) }
    }
}

/// Bits per symbol of a group, given as pairs.
#[inline(always)]
fn width_of(pairs: &[u32]) -> u32 {
    let (mut same, mut any) = (u32::MAX, 0);
    each8!(|i| {
        // All ones in halves whose symbol is not negative: what is left of 2^15 - 1 by the bits that the symbol needs.
        let sign = intrinsics::byte_permute(pairs[i], 0, 0xBB99);
        same &= pairs[i] ^ sign;
        any |= pairs[i] ^ 0x8000_8000;
    });
    let extent = (same & same >> 16 & 0x7FFF) ^ 0x7FFF;
    if any != 0 { 33 - extent.leading_zeros() } else { 0 }
}

/// A number that moves symbols between what they are kept with, 2^15, and what they are coded with in this width.
#[inline(always)]
fn shift_of(width: u32) -> u32 {
    (0x8000 - ((1 << width) >> 1)) * 0x10001
}

/// A lane's running sum over the lanes of its tile.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn tile_sum(value: u32, row: usize) -> u32 {
    let mut sum = value;
    // SAFETY: the caller's.
    unsafe {
        let other = warp::full::shuffle_up(sum, 4);
        sum += if row >= 1 { other } else { 0 };
        let other = warp::full::shuffle_up(sum, 8);
        sum += if row >= 2 { other } else { 0 };
        let other = warp::full::shuffle_up(sum, 16);
        sum += if row >= 4 { other } else { 0 };
    }
    sum
}

/// Codes all full tiles whose symbols are less than 2^14 and all of whose values are within the bound for sure; lists the others.
///
/// Grid: a warp for each 4 tiles along x, rounded up by row; block: 128 threads. Shared memory: 7312 bytes for each warp, dynamic.
///
/// # Safety
///
/// As [`crate::packed`]'s; slots have at least 264 words, at multiples of 16 bytes; `list` has room for all tiles, `listed` is 0. `wide` tells whether all rows start at
/// multiples of 16 bytes.
#[kernel(max_threads = BLOCK)]
pub unsafe fn packed_volume_encode(
    tiles: Tiles,
    values: *const f32,
    wide: u32,
    step: f32,
    inverse: f32,
    sure: f32,
    bound: f64,
    slots: *mut u32,
    slot_words: u32,
    lengths: *mut u16,
    anchors: *mut f32,
    numbers: *mut u64,
    list: *mut u32,
    listed: *mut u32,
) {
    let in_block = thread::thread_idx_x() / 32;
    let Some(group) = Group::get(&tiles, thread::block_idx_x() * WARPS + in_block) else { return };
    let l = group.row;
    // SAFETY: the caller's; full tiles are inside; indices are those of the layout above; lanes wait for each other.
    unsafe {
        if !warp::full::any(group.full) {
            group.list(group.exists, list, listed);
            return;
        }
        let own = shared::dynamic_shared_mem::<u8>().add(in_block as usize * OWN);
        let all = own as *mut f32;
        let t = all.add(group.tile * TILE);
        let s = (own.add(16 * TILE) as *mut u16).add(group.tile * SYMBOLS);
        let mut odd = [0f32; 28];
        {
            let mut loaded = [[0u128; 4]; 4];
            // The first tile is full if one is: others load what it loads, in vain.
            let first = group.first - if group.full { 0 } else { 16 * group.tile as u32 };
            if wide != 0 {
                each4!(|z| {
                    let row = values.add((first + z as u32 * group.plane) as usize) as *const u128;
                    each4!(|k| {
                        loaded[z][k] = *row.add(k);
                    });
                });
            } else {
                each4!(|z| {
                    let row = values.add((first + z as u32 * group.plane) as usize) as *const u32;
                    each4!(|k| {
                        let word = |i: usize| *row.add(4 * k + i) as u128;
                        loaded[z][k] = word(0) | word(1) << 32 | word(2) << 64 | word(3) << 96;
                    });
                });
            }
            each4!(|z| {
                let row = t.add(z * PLANE + l * ROW);
                each4!(|k| {
                    let value = |i: u32| f32::from_bits((loaded[z][k] >> (32 * i)) as u32);
                    *row.add(2 * k) = value(0);
                    odd[7 * z + 2 * k] = value(1);
                    *row.add(2 * k + 1) = value(2);
                    if k < 3 {
                        odd[7 * z + (2 * k + 1) % 7] = value(3);
                    } else {
                        *row.add(8) = value(3);
                    }
                });
            });
        }
        warp::full::sync();
        if l == 0 {
            if group.full {
                *anchors.add(group.index as usize) = *t;
            }
            *s.add(rest(CORNERS + 7)) = ZERO;
        }
        let mut work = Quantise { step, inverse, worst: 0.0, far: 0.0 };
        stages(&mut work, t, s, l);

        let mut pairs = [0u32; 32];
        {
            let mut symbols = [0u32; 28];
            each4!(|z| {
                let (_, predictions) = along_row(t.add(z * PLANE + l * ROW));
                crate::unroll::each5!(@ x, {
                    symbols[7 * z + x] = work.quantise(odd[7 * z + x], predictions[x]).0;
                }, 0 1 2 3 4 5 6);
            });
            crate::unroll::each5!(@ i, {
                pairs[i] = intrinsics::byte_permute(symbols[2 * i], symbols[2 * i + 1], 0x5410);
            }, 0 1 2 3 4 5 6 7 8 9 10 11 12 13);
        }
        let part = s.add(l * PART) as *const u32;
        crate::unroll::each5!(@ i, {
            pairs[14 + i] = *part.add(i);
        }, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17);

        let kept = work.worst <= sure && work.far < MOST;
        let mine = 0x1111_1111 << group.tile;
        let all_kept = warp::full::ballot(kept);
        let good = group.full && all_kept & mine == mine;
        // Nobody needs nodes any more: their places become the tile's words.
        let widths = [width_of(&pairs[..8]), width_of(&pairs[8..16]), width_of(&pairs[16..24]), width_of(&pairs[24..])];
        let nibbles = widths[0] | widths[1] << 4 | widths[2] << 8 | widths[3] << 12;
        let halves = widths[0] + widths[1] + widths[2] + widths[3];
        let sums = tile_sum(halves | ((nibbles != 0) as u32) << 16, l);
        let totals = warp::full::shuffle(sums, 28 + group.tile as u32);
        let head = 1 + (totals >> 16);
        let end = head + (totals & 0xFFFF);
        let words = if good && totals != 0 { end.div_ceil(2) } else { 0 };
        let live = warp::full::ballot(nibbles != 0);

        let begin = head + (sums & 0xFFFF) - halves;
        let mut out = (t as *mut u32).add((begin / 2) as usize);
        let (mut pending, mut fill) = (0u32, 16 * (begin % 2));
        macro_rules! append {
            ($bits:expr, $count:expr) => {
                let bits = $bits;
                let low = pending | bits << fill;
                let high = intrinsics::funnel_shift_left(0, bits, fill);
                fill += $count;
                pending = low;
                if fill >= 32 {
                    *out = low;
                    out = out.add(1);
                    pending = high;
                    fill -= 32;
                }
            };
        }
        macro_rules! put {
            ($group:literal) => {
                let width = widths[$group];
                let (shift, join) = (shift_of(width), (1u32 << width).wrapping_sub(1 << 16));
                let coded = |pair: u32| {
                    let pair = pair.wrapping_sub(shift);
                    (pair >> 16).wrapping_mul(join).wrapping_add(pair)
                };
                if warp::full::all(width <= 8) {
                    if warp::full::any(width != 0) {
                        let join = 1u32 << (2 * width);
                        each4!(|i| {
                            let (low, high) = (coded(pairs[8 * $group + 2 * i]), coded(pairs[8 * $group + 2 * i + 1]));
                            append!(high.wrapping_mul(join).wrapping_add(low), 4 * width);
                        });
                    }
                } else {
                    each8!(|i| {
                        append!(coded(pairs[8 * $group + i]), 2 * width);
                    });
                }
            };
        }
        put!(0);
        put!(1);
        put!(2);
        put!(3);
        warp::full::sync();
        // Half a word at the start of a lane's bits is its predecessor's, which comes only now.
        let units = t as *mut u16;
        if fill != 0 && halves != 0 {
            *(out as *mut u16) = pending as u16;
        }
        if nibbles != 0 {
            *units.add((sums >> 16) as usize) = nibbles as u16;
        }
        if l == 0 {
            let mut parts = 0;
            each8!(|i| {
                parts |= (live >> (4 * i + group.tile) & 1) << i;
            });
            *units = Head { live: parts, surplus: 0, escapes: false }.to_bits();
            if end % 2 == 1 {
                *units.add(end as usize) = 0;
            }
            if good {
                *lengths.add(group.index as usize) = words as u16;
            }
        }
        warp::full::sync();
        // Four words at a time: what is copied too much does not matter.
        let slot = slots.add(group.index as usize * slot_words as usize) as *mut u128;
        let staged = t as *const u128;
        let mut i = l as u32;
        while 4 * i < words {
            *slot.add(i as usize) = *staged.add(i as usize);
            i += 8;
        }
        // Numbers that are not negative are ordered as their bits are.
        let worst = warp::full::reduce_max(if good { work.worst.to_bits() } else { 0 });
        if warp::lane_id() == 0 {
            let worst = f32::from_bits(worst) as f64;
            raise_alone(numbers.add(WORST), if worst < bound { worst } else { bound });
        }
        group.list(group.exists && !good, list, listed);
    }
}

/// Decodes all full tiles that are coded without escapes and surplus; lists the others, and those that are none.
///
/// Grid, block and shared memory as above.
///
/// # Safety
///
/// As [`crate::packed`]'s and above.
#[kernel(max_threads = BLOCK)]
pub unsafe fn packed_volume_decode(
    tiles: Tiles,
    step: f32,
    payload: *const u32,
    payload_words: u64,
    lengths: *const u16,
    offsets: *const u32,
    bases: *const u64,
    anchors: *const f32,
    values: *mut f32,
    wide: u32,
    list: *mut u32,
    listed: *mut u32,
) {
    let in_block = thread::thread_idx_x() / 32;
    let Some(group) = Group::get(&tiles, thread::block_idx_x() * WARPS + in_block) else { return };
    let l = group.row;
    // SAFETY: as above; nothing is read of the payload beyond its words.
    unsafe {
        if !warp::full::any(group.full) {
            group.list(group.exists, list, listed);
            return;
        }
        let own = shared::dynamic_shared_mem::<u8>().add(in_block as usize * OWN);
        let t = (own as *mut f32).add(group.tile * TILE);
        let s = (own.add(16 * TILE) as *mut u16).add(group.tile * SYMBOLS);
        let (mut length, mut at, mut anchor) = (0, 0, 0.0);
        if group.full {
            length = *lengths.add(group.index as usize) as u32;
            at = start(offsets, bases, group.index);
            anchor = load(anchors.add(group.index as usize));
        }
        let inside = length <= MOST_WORDS && at + length as u64 <= payload_words;
        let count = if inside { length } else { 0 };
        let words = payload.add(if inside { at as usize } else { 0 });
        let staged = t as *mut u32;
        let mut i = l as u32;
        while i < count {
            let mut loaded = [0u32; 8];
            each8!(|k| {
                if (i + 8 * k as u32) < count {
                    loaded[k] = intrinsics::load_readonly(words.add((i + 8 * k as u32) as usize));
                }
            });
            each8!(|k| {
                if (i + 8 * k as u32) < count {
                    *staged.add((i + 8 * k as u32) as usize) = loaded[k];
                }
            });
            i += 64;
        }
        warp::full::sync();
        let units = t as *const u16;
        let head_bits = if count > 0 { *units as u32 } else { 0 };
        // Neither surplus nor escapes nor anything unknown.
        let plain = head_bits >> 8 == 0;
        let live = head_bits >> l & 1 == 1;
        let before = (head_bits & ((1 << l) - 1)).count_ones();
        let nibbles = if live { *units.add(1 + before as usize) as u32 } else { 0 };
        let widths = [nibbles & 15, nibbles >> 4 & 15, nibbles >> 8 & 15, nibbles >> 12];
        let halves = widths[0] + widths[1] + widths[2] + widths[3];
        let sums = tile_sum(halves, l);
        let head = 1 + (head_bits & 0xFF).count_ones();
        let end = head + warp::full::shuffle(sums, 28 + group.tile as u32);
        let good = group.full && inside && plain && (count == 0 || end.div_ceil(2) == length);

        let mut pairs = [0u32; 14];
        {
            let begin = if good { head + sums - halves } else { 0 };
            let mut next = staged.add((begin / 2) as usize) as *const u32;
            let mut used = 16 * (begin % 2);
            let (mut low, mut high) = (*next, *next.add(1));
            next = next.add(2);
            let rest = s.add(l * PART) as *mut u32;
            macro_rules! keep {
                ($position:expr, $pair:expr) => {
                    if $position < 14 {
                        pairs[$position % 14] = $pair;
                    } else {
                        *rest.add(($position + 18) % 32) = $pair;
                    }
                };
            }
            macro_rules! next {
                ($count:expr) => {{
                    let bits = intrinsics::funnel_shift_right(high, low, used);
                    used += $count;
                    if used >= 32 {
                        used -= 32;
                        low = high;
                        high = *next;
                        next = next.add(1);
                    }
                    bits
                }};
            }
            macro_rules! take {
                ($group:literal) => {
                    let width = if good { widths[$group] } else { 0 };
                    let shift = shift_of(width);
                    let mask = (1u32 << (2 * width)) - 1;
                    let join = (1u32 << 16) - (1 << width);
                    let pair = |bits: u32| bits + (bits >> width) * join + shift;
                    if warp::full::all(width <= 8) {
                        if warp::full::any(width != 0) {
                            each4!(|i| {
                                let bits = next!(4 * width);
                                keep!(8 * $group + 2 * i, pair(bits & mask));
                                keep!(8 * $group + 2 * i + 1, pair(bits >> (2 * width) & mask));
                            });
                        } else {
                            each8!(|i| {
                                keep!(8 * $group + i, shift);
                            });
                        }
                    } else {
                        each8!(|i| {
                            let bits = next!(2 * width);
                            keep!(8 * $group + i, pair(bits & mask));
                        });
                    }
                };
            }
            take!(0);
            take!(1);
            take!(2);
            take!(3);
        }
        warp::full::sync();
        if l == 0 {
            *t = anchor;
        }
        warp::full::sync();
        let mut work = Reconstruct { step };
        stages(&mut work, t, s, l);
        let store = good;
        each4!(|z| {
            let (c, predictions) = along_row(t.add(z * PLANE + l * ROW));
            let mut odd = [0f32; 7];
            crate::unroll::each5!(@ x, {
                let i = 7 * z + x;
                let bits = intrinsics::byte_permute(pairs[i / 2], HIGH, if i % 2 == 0 { 0x5410 } else { 0x5432 });
                odd[x] = work.value(bits, predictions[x]);
            }, 0 1 2 3 4 5 6);
            if store {
                let word = |value: f32| value.to_bits() as u128;
                let quad = |a: f32, b: f32, c: f32, d: f32| word(a) | word(b) << 32 | word(c) << 64 | word(d) << 96;
                let row = [
                    quad(c[0], odd[0], c[1], odd[1]),
                    quad(c[2], odd[2], c[3], odd[3]),
                    quad(c[4], odd[4], c[5], odd[5]),
                    quad(c[6], odd[6], c[7], c[8]),
                ];
                let to = values.add((group.first + z as u32 * group.plane) as usize);
                if wide != 0 {
                    each4!(|k| {
                        *(to as *mut u128).add(k) = row[k];
                    });
                } else {
                    each4!(|k| {
                        each4!(|i| {
                            *(to as *mut u32).add(4 * k + i) = (row[k] >> (32 * i)) as u32;
                        });
                    });
                }
            }
        });
        group.list(group.exists && !good, list, listed);
    }
}
