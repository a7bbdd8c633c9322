//! The anchors of closed tiles: quantised, and coded as `docs/format.md` says (section 5.4), forward and back.
//!
//! An anchor's number of steps depends on its own value alone, unless it is stored exactly; so each thread finds those of the neighbours that
//! it needs by itself. Back, differences become sums along one axis of the grid of tiles after the other.

use core::num::NonZeroU32;

use bmgard_core::Real;
use bmgard_core::closed::Anchors;
use cuda_std::atomic::intrinsics::{
    atomic_fetch_max_relaxed_u64_device, atomic_fetch_or_relaxed_u32_device, atomic_fetch_or_relaxed_u64_device,
    atomic_load_relaxed_64_device,
};
use cuda_std::intrinsics::ReadOnlyValue;
use cuda_std::prelude::*;

use crate::closed::{Class, Tile, Tiles};
use crate::common::running_sum;
use crate::unroll::{each4, each8};

/// Threads of a block.
pub const BLOCK: u32 = 256;
/// Threads of a block that works on one long line.
pub const LONG_BLOCK: u32 = 1024;
/// Anchors in a row that are stored exactly, at most: looking for the one before them takes its time.
const MOST_EXACT: u32 = 4096;

/// The values of a chunk without special ones, and what is asked of its anchors.
#[derive(Clone, Copy)]
pub(crate) struct Source<T> {
    pub(crate) values: *const T,
    pub(crate) quantiser: Anchors,
    pub(crate) bound: f64,
    pub(crate) forbidden: T,
}

/// An anchor.
#[derive(Clone, Copy)]
pub(crate) struct Anchor<T> {
    /// Else it is stored exactly, and has no steps of its own.
    kept: bool,
    steps: i64,
    /// As it is decoded.
    pub(crate) value: T,
    error: f64,
}

impl<T: Real + ReadOnlyValue> Source<T> {
    #[inline(always)]
    fn quantise(&self, value: T) -> Anchor<T> {
        let exact = Anchor { kept: false, steps: 0, value, error: 0.0 };
        let Some(steps) = self.quantiser.quantise(value) else { return exact };
        let decoded: T = self.quantiser.reconstruct(steps);
        let error = Real::abs(value.to_f64() - decoded.to_f64());
        if error <= self.bound && decoded != self.forbidden { Anchor { kept: true, steps, value: decoded, error } } else { exact }
    }

    /// The anchor at a position of the chunk.
    ///
    /// # Safety
    /// The position is one.
    #[inline(always)]
    pub(crate) unsafe fn anchor(&self, position: u32) -> Anchor<T> {
        // SAFETY: the caller's.
        self.quantise(unsafe { intrinsics::load_readonly(self.values.add(position as usize)) })
    }

    /// The steps that stand for an anchor that is stored exactly: those of the tile before it. `None` if that is far away.
    ///
    /// # Safety
    /// The tile exists.
    #[inline(always)]
    unsafe fn steps_before(&self, tiles: &Tiles, mut at: [u32; 3]) -> Option<i64> {
        let mut left = MOST_EXACT;
        while left > 0 {
            if at[2] > 0 {
                at[2] -= 1;
            } else if at[1] > 0 {
                at[1] -= 1;
            } else if at[0] > 0 {
                at[0] -= 1;
            } else {
                return Some(0);
            }
            // SAFETY: the tile exists.
            let anchor = unsafe { self.anchor(Tile::first_node(tiles, at)) };
            if anchor.kept {
                return Some(anchor.steps);
            }
            left -= 1;
        }
        None
    }
}

/// Which of two schemes a chunk has: the second where more than a share `threshold` of the first's symbols are 0. `zeros` are the number of
/// those and of all.
#[inline(always)]
pub(crate) fn scheme(zeros: [u64; 2], schemes: u32, threshold: f64) -> u32 {
    u32::from(schemes > 1 && zeros[0] as f64 / zeros[1].max(1) as f64 > threshold)
}

/// Raises a number in memory to the greatest of a warp's, which are not negative.
///
/// # Safety
/// All lanes call it; `to` points to the bits of a number that is not negative, which others change in this way only.
#[inline(always)]
pub(crate) unsafe fn raise(to: *mut u64, value: f64) {
    let mut greatest = value.to_bits();
    let mut distance = 16;
    // SAFETY: the caller's.
    unsafe {
        while distance > 0 {
            greatest = greatest.max(warp::full::shuffle_xor(greatest, distance));
            distance /= 2;
        }
        if warp::lane_id() == 0 && greatest > atomic_load_relaxed_64_device(to) {
            atomic_fetch_max_relaxed_u64_device(to, greatest);
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn anchors<T: Real + ReadOnlyValue>(
    tiles: Tiles,
    classes: *mut Class,
    levels: u32,
    schemes: *const T,
    count: u32,
    threshold: f64,
    zeros: *const u64,
    codes: *const u32,
    values: *const T,
    bound: f64,
    forbidden: T,
    steps: *mut T,
    anchors: *mut T,
    escaped: *mut u32,
    differences: *mut u64,
    found: *mut u64,
) {
    let (i, t) = (thread::index_1d(), thread::thread_idx_x());
    // SAFETY: the caller's; all lanes come to the votes and reductions.
    unsafe {
        let chosen = scheme([*zeros, *zeros.add(1)], count, threshold);
        let scheme = schemes.add((chosen * 2 * (levels + 1)) as usize);
        if thread::block_idx_x() == 0 {
            if t < 2 * levels {
                *steps.add(t as usize) = *scheme.add(t as usize);
            }
            if t < tiles.classes {
                (*classes.add(t as usize)).predictor = *codes.add((chosen * tiles.classes + t) as usize);
            }
        }
        let quantiser = Anchors::new(*scheme.add(2 * levels as usize));
        let source = Source { values, quantiser, bound, forbidden };
        let exists = i < Tile::count(&tiles);
        let tile = Tile::new(tiles, if exists { i } else { 0 });
        // Loads first, so that none waits for another.
        let [z, y, x] = tile.at;
        let has = |set: usize| (set & 1 == 0 || z > 0) && (set & 2 == 0 || y > 0) && (set & 4 == 0 || x > 0);
        let before = |set: usize| [z - (set & 1) as u32, y - (set >> 1 & 1) as u32, x - (set >> 2) as u32];
        let mut values = [T::ZERO; 8];
        each8!(|set| {
            if has(set) {
                values[set] = intrinsics::load_readonly(source.values.add(Tile::first_node(&tiles, before(set)) as usize));
            }
        });
        let (mut difference, mut far) = (0i64, false);
        each8!(|set| {
            if has(set) {
                let anchor = source.quantise(values[set]);
                let mut steps = anchor.steps;
                if !anchor.kept {
                    let found = source.steps_before(&tiles, before(set));
                    far |= found.is_none();
                    steps = found.unwrap_or(0);
                }
                difference =
                    if set.count_ones().is_multiple_of(2) { difference.wrapping_add(steps) } else { difference.wrapping_sub(steps) };
            }
        });
        let own = source.quantise(values[0]);
        let zigzag = if exists { (difference << 1 ^ difference >> 63) as u64 } else { 0 };
        if exists {
            *anchors.add(i as usize) = own.value;
            *differences.add(i as usize) = zigzag;
        }
        let exact = warp::full::ballot(exists && !own.kept);
        if warp::lane_id() == 0 && exists {
            *escaped.add((i / 32) as usize) = exact;
        }
        let any = (warp::full::reduce_or(zigzag as u32) as u64) | (warp::full::reduce_or((zigzag >> 32) as u32) as u64) << 32;
        if warp::lane_id() == 0 && any & !atomic_load_relaxed_64_device(found) != 0 {
            atomic_fetch_or_relaxed_u64_device(found, any);
        }
        raise(found.add(1), if exists { own.error } else { 0.0 });
        if far && exists {
            atomic_fetch_or_relaxed_u64_device(found.add(2), 1);
        }
    }
}

/// Writes the sections of a chunk's predictors and anchors, one after the other: a byte for each class, one with the width of a
/// difference, and the differences. These start at the first multiple of 8 bytes that leaves room for what is before them.
///
/// Grid: ceil(tiles / 256) blocks; block: 256 threads. No shared memory.
///
/// # Safety
///
/// `zeros` are as in the kernels below; `codes` points to the predictors of each scheme's classes, `differences` to a number for each
/// tile, `found` to the bits of all of them, `out`, a multiple of 8, to room for all that and for whole words.
#[kernel(max_threads = BLOCK)]
pub unsafe fn closed_pack_anchors(
    tiles: Tiles,
    count: u32,
    threshold: f64,
    zeros: *const u64,
    codes: *const u32,
    differences: *const u64,
    found: *const u64,
    out: *mut u8,
) {
    let (n, i) = (Tile::count(&tiles), thread::index_1d());
    // SAFETY: the caller's; indices are checked.
    unsafe {
        let width = 64 - (*found).leading_zeros();
        let start = (tiles.classes + 1).next_multiple_of(8);
        if i < tiles.classes {
            let chosen = scheme([*zeros, *zeros.add(1)], count, threshold);
            *out.add((start - 1 - tiles.classes + i) as usize) = *codes.add((chosen * tiles.classes + i) as usize) as u8;
        }
        if i == 0 {
            *out.add(start as usize - 1) = width as u8;
        }
        let Some(divisor) = NonZeroU32::new(width) else { return };
        let words = (n * width).div_ceil(32);
        let out = out.add(start as usize) as *mut u32;
        let mut word = i;
        while word < words {
            let first = 32 * word / divisor;
            let mut bits = (*differences.add(first as usize) >> (32 * word - first * width)) as u32;
            let (mut next, mut filled) = (first + 1, (first + 1) * width - 32 * word);
            while filled < 32 && next < n {
                bits |= (*differences.add(next as usize) << filled) as u32;
                (next, filled) = (next + 1, filled + width);
            }
            *out.add(word as usize) = bits;
            word += thread::grid_dim_x() * BLOCK;
        }
    }
}

/// A section of anchors.
struct Packed {
    start: usize,
    end: usize,
    width: u32,
}

impl Packed {
    /// Of `len` bytes, with a difference for each of `count` tiles; `None` where it has not as many.
    ///
    /// # Safety
    /// `bytes` points to the bytes.
    #[inline(always)]
    unsafe fn new(bytes: *const u8, len: u64, count: u32) -> Option<Self> {
        if len == 0 {
            return None;
        }
        // SAFETY: there is a byte.
        let width = unsafe { *bytes } as u32;
        let fits = width <= 64 && len == 1 + (count as u64 * width as u64).div_ceil(8);
        fits.then_some(Self { start: bytes as usize, end: bytes as usize + len as usize, width })
    }

    /// The aligned word at an address; what lies outside of the section is 0.
    ///
    /// # Safety
    /// Nothing writes the section meanwhile.
    #[inline(always)]
    unsafe fn word(&self, at: usize) -> u32 {
        // SAFETY: what is read is the section's.
        unsafe {
            if at >= self.start && at + 4 <= self.end {
                return intrinsics::load_readonly(at as *const u32);
            }
            let mut word = 0;
            each4!(|byte| {
                let at = at + byte;
                if at >= self.start && at < self.end {
                    word |= (*(at as *const u8) as u32) << (8 * byte);
                }
            });
            word
        }
    }

    /// The difference of a tile.
    ///
    /// # Safety
    /// As above; the tile exists.
    #[inline(always)]
    unsafe fn difference(&self, index: u32) -> i64 {
        let bit = index as u64 * self.width as u64;
        let at = self.start + 1 + (bit / 8) as usize;
        let shift = 8 * (at as u32 & 3) + (bit as u32 & 7);
        let aligned = at & !3;
        // SAFETY: the caller's.
        let [low, middle, high] = unsafe {
            let after = |words: u32| if shift + self.width > 32 * words { self.word(aligned + 4 * words as usize) } else { 0 };
            [if self.width > 0 { self.word(aligned) } else { 0 }, after(1), after(2)]
        };
        let bits =
            intrinsics::funnel_shift_right(middle, low, shift) as u64 | (intrinsics::funnel_shift_right(high, middle, shift) as u64) << 32;
        let zigzag = if self.width < 64 { bits & ((1 << self.width) - 1) } else { bits };
        (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
    }
}

/// A line of tiles, whose differences or sums come from a section or from memory.
struct Line<T> {
    packed: Option<Packed>,
    sums: *mut i64,
    n: u32,
    first: u32,
    stride: u32,
    quantiser: Anchors,
    out: *mut T,
}

impl<T: Real> Line<T> {
    /// # Safety
    /// As the kernels below.
    #[inline(always)]
    unsafe fn load(&self, i: u32) -> i64 {
        let tile = self.first + i * self.stride;
        // SAFETY: the tile exists.
        unsafe {
            match &self.packed {
                _ if i >= self.n => 0,
                Some(packed) => packed.difference(tile),
                None => *self.sums.add(tile as usize),
            }
        }
    }

    /// # Safety
    /// As the kernels below.
    #[inline(always)]
    unsafe fn store(&self, i: u32, sum: i64) {
        let tile = (self.first + i * self.stride) as usize;
        // SAFETY: the tile exists.
        unsafe {
            if i >= self.n {
                // The last threads have none.
            } else if self.out.is_null() {
                *self.sums.add(tile) = sum;
            } else {
                *self.out.add(tile) = self.quantiser.reconstruct(sum);
            }
        }
    }
}

/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn sums<T: Real>(
    count: u32,
    section: *const u8,
    len: u64,
    sums: *mut i64,
    lines: u32,
    n: u32,
    stride: u32,
    step: T,
    out: *mut T,
    bad: *mut u32,
) {
    let warps = shared_array![i64; 32];
    let (t, lane) = (thread::thread_idx_x(), warp::lane_id());
    let long = thread::block_dim_x() == LONG_BLOCK;
    let index = if long { thread::block_idx_x() } else { thread::index_1d() / 32 };
    if index >= lines {
        return;
    }
    // SAFETY: the caller's; all threads of a block, or lanes of a warp, go the same way.
    unsafe {
        let divisor = NonZeroU32::new_unchecked(stride);
        let first = index / divisor * (stride * n) + index % divisor;
        let mut packed = None;
        if !section.is_null() {
            packed = Packed::new(section, len, count);
            if packed.is_none() {
                if lane == 0 {
                    atomic_fetch_or_relaxed_u32_device(bad, 1);
                }
                return;
            }
        }
        let line = Line { packed, sums, n, first, stride, quantiser: Anchors::new(step), out };
        let (mut start, mut sum) = (0, 0i64);
        if !long {
            while start < n {
                let mut parts = [0i64; 4];
                each4!(|k| { parts[k] = line.load(start + 32 * k as u32 + lane) });
                each4!(|k| {
                    let sums = running_sum(parts[k]).wrapping_add(sum);
                    line.store(start + 32 * k as u32 + lane, sums);
                    sum = warp::full::shuffle(sums, 31);
                });
                start += 128;
            }
            return;
        }
        while start < n {
            let mut parts = [0i64; 4];
            each4!(|k| { parts[k] = line.load(start + 4 * t + k as u32) });
            let own = parts[0].wrapping_add(parts[1]).wrapping_add(parts[2]).wrapping_add(parts[3]);
            let up_to = running_sum(own);
            if lane == 31 {
                *warps.add((t / 32) as usize) = up_to;
            }
            thread::sync_threads();
            // Every warp sums the warps' sums.
            let totals = running_sum(*warps.add(lane as usize));
            let before = warp::full::shuffle(totals, (t / 32).wrapping_sub(1));
            let all = warp::full::shuffle(totals, 31);
            thread::sync_threads();
            let mut at = sum.wrapping_add(if t < 32 { 0 } else { before }).wrapping_add(up_to).wrapping_sub(own);
            each4!(|k| {
                at = at.wrapping_add(parts[k]);
                line.store(start + 4 * t + k as u32, at);
            });
            sum = sum.wrapping_add(all);
            start += 4 * LONG_BLOCK;
        }
    }
}

macro_rules! kernels {
    ($real:ident, $anchors:ident, $sums:ident) => {
        /// Quantises a chunk's anchors with the steps of the scheme that its symbols ask for, the first or the second of `count`. Makes
        /// that scheme the one that the tiles' kernels read: its steps, and its predictors, which are put into the classes.
        ///
        /// Grid: ceil(tiles / 256) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `classes` points to the classes, `schemes` to two numbers for each level and two for the anchors, for each scheme; `zeros` to
        /// two numbers and `codes` to a predictor for each class and scheme, as `closed_choose` makes them. `values` points to the
        /// chunk's values, none of which is special, `steps` to room for each level's numbers, `anchors` and `differences` to a place for
        /// each tile, `escaped` to a bit for each; `found` to three numbers that were 0: the bits of all differences, the bits of the
        /// greatest error, and whether the host must do it, because too many anchors in a row are stored exactly.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $anchors(
            tiles: Tiles,
            classes: *mut Class,
            levels: u32,
            schemes: *const $real,
            count: u32,
            threshold: f64,
            zeros: *const u64,
            codes: *const u32,
            values: *const $real,
            bound: f64,
            forbidden: $real,
            steps: *mut $real,
            anchors: *mut $real,
            escaped: *mut u32,
            differences: *mut u64,
            found: *mut u64,
        ) {
            // SAFETY: the caller's.
            unsafe {
                self::anchors(
                    tiles,
                    classes,
                    levels,
                    schemes,
                    count,
                    threshold,
                    zeros,
                    codes,
                    values,
                    bound,
                    forbidden,
                    steps,
                    anchors,
                    escaped,
                    differences,
                    found,
                );
            }
        }

        /// Sums the differences of a chunk's anchors, or their sums along other axes, along one axis of the grid of tiles: `lines` of `n`
        /// tiles, `stride` from one to the next. They come from the section of `len` bytes, or from `sums` where that is null; the sums
        /// go there, or, reconstructed, to `out` if that is not null.
        ///
        /// Grid: a warp for each line; block: 256 threads. Or a block of 1024 threads for each line. Shared memory: 256 bytes, static.
        ///
        /// # Safety
        ///
        /// `section` is null or points to `len` bytes; the others point to a place for each of the `count` tiles, or are null if they are
        /// not needed; `bad` to a number that is not 0 afterwards if the section has not the right size.
        #[kernel(max_threads = LONG_BLOCK)]
        pub unsafe fn $sums(
            count: u32,
            section: *const u8,
            len: u64,
            sums: *mut i64,
            lines: u32,
            n: u32,
            stride: u32,
            step: $real,
            out: *mut $real,
            bad: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe { self::sums(count, section, len, sums, lines, n, stride, step, out, bad) }
        }
    };
}

kernels!(f32, closed_anchors_f32, closed_anchor_sums_f32);
kernels!(f64, closed_anchors_f64, closed_anchor_sums_f64);
