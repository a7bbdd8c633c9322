//! How much device memory a chunk needs, told from its shape alone.
//!
//! These are the sums of all buffers that a compression and a decompression ask for, as if none were used twice: the pool never has more,
//! and usually far less, because symbols nearly always fit half their width and slots their first size.

use super::archive::{groups, patch_blocks};
use super::levels::{DeviceValue, Stored};
use super::stages::{codes_len, slot_words};
use crate::huffman::MAX_LENGTH;
use crate::plan::{CLASSES, ChunkPlan, Level, LevelKind, count};
use bmgard_core::axis::coarse_len;
use bmgard_core::token::TOKENS;

/// Bytes of buffers, each of whole words.
#[derive(Default)]
struct Bytes(u64);

impl Bytes {
    fn add(&mut self, len: u64, size: usize) {
        self.0 += (len * size as u64).div_ceil(8).max(1) * 8;
    }

    /// `super::archive::Starts` of `n` parts.
    fn add_starts(&mut self, n: u64) {
        let groups = u64::from(groups(n as u32));
        self.add(n, 4);
        self.add(groups, 4);
        self.add(groups + 1, 8);
    }

    /// What a correction and a global level's arrays take.
    fn add_correction<T: DeviceValue>(&mut self, level: &Level) {
        let mut dims = level.dims;
        for axis in 0..3 {
            if dims[axis] > 2 {
                dims[axis] = coarse_len(dims[axis]);
                self.add(count(dims), size_of::<T>());
            }
        }
    }

    /// The arrays of all levels but the first, when they are put together.
    fn add_recomposed<T: DeviceValue>(&mut self, plan: &ChunkPlan, first: usize) {
        plan.levels[first..].iter().for_each(|level| self.add(count(level.dims), size_of::<T>()));
    }

    fn add_slots(&mut self, level: &Level, bits: u32) {
        self.add(level.segments() as u64 * u64::from(slot_words(level, bits)), 4);
    }
}

/// Bytes that compressing a chunk of this plan and decompressing it need at most, unless it has special values.
pub(crate) fn bytes<T: DeviceValue>(plan: &ChunkPlan, contiguous: bool, open_loop: bool) -> u64 {
    let mut bytes = Bytes::default();
    let (levels, n) = (plan.levels.len() as u64, count(plan.levels[0].dims));
    let value = size_of::<T>();
    if !contiguous {
        bytes.add(n, value);
    }
    // What a field is like.
    bytes.add(3, 8);
    for level in &plan.levels {
        let segments = level.segments() as u64;
        // Symbols of either width: to code, and to decode, where half the width may turn out to be too little.
        let most = |width: fn(&Stored) -> u32| T::STORED.iter().map(width).max().unwrap_or(0);
        bytes.add(level.places as u64, T::STORED[0].bytes);
        T::STORED.iter().for_each(|stored| bytes.add(level.places as u64, stored.bytes));
        bytes.add(codes_len() as u64, 4);
        bytes.add_slots(level, most(|stored| stored.room[0]));
        bytes.add_slots(level, most(|stored| stored.room[1]));
        bytes.add(segments, 2);
        bytes.add(1, 4);
        // To code, and to decode at most twice.
        (0..3).for_each(|_| bytes.add_starts(segments));
        if level.kind != LevelKind::Coarsest {
            bytes.add(count(level.coarse), value);
        }
        if level.kind == LevelKind::Global {
            if open_loop {
                bytes.add(level.places as u64, value);
            }
            // Forward, for the check if it was of exact coefficients, and when it is decoded.
            (0..3).for_each(|_| bytes.add_correction::<T>(level));
            // Weights, factors and reciprocals of each dimension.
            level.dims.iter().for_each(|&n| bytes.add(7 * coarse_len(n), value));
        }
    }
    // Counts, tables to decode with and the codes that they are made from.
    bytes.add(levels * (CLASSES * TOKENS) as u64, 4);
    bytes.add(levels * (CLASSES * TOKENS) as u64, 4);
    bytes.add((levels * CLASSES as u64) << MAX_LENGTH, 2);
    // The check, whose values are not kept where the first level is a local one.
    let checked = usize::from(plan.levels[0].kind == LevelKind::Local && plan.levels.len() > 1);
    bytes.add_recomposed::<T>(plan, checked);
    let groups = u64::from(groups(n as u32));
    bytes.add(groups * 32, 4);
    bytes.add(groups, 4);
    bytes.add_starts(groups);
    bytes.add(1, 8);
    bytes.add_recomposed::<T>(plan, usize::from(plan.levels.len() > 1));
    bytes.add_starts(u64::from(patch_blocks(n as u32)));
    // Sections and their checksums, a book of each context among them, and flags: small things.
    bytes.add(1 << 16, 1);
    bytes.0
}
