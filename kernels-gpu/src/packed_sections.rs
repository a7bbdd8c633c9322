//! The sections of packed tiles, put together in device memory without the host: where each starts follows from the tiles' lengths.

use cuda_std::prelude::*;

use crate::archive::{CHECKSUM_BLOCK, checksum_block};
use crate::scan::{GROUP, start};
use crate::unroll::each4;

/// Threads of a block that moves tiles.
pub const MOVE_BLOCK: u32 = 256;
/// Tiles that a warp moves.
const MOVED: u32 = 4;

/// Moves tiles from their slots to their places, one after the other, and puts their lengths and anchors after the last of them. `total`
/// becomes the words of all tiles; nothing is moved where they are more than `room`.
///
/// Grid: ceil(count / 32) blocks; block: 256 threads. No shared memory.
///
/// # Safety
///
/// `slots` points to `slot_words` words for each of `count` tiles, `lengths` to how many it has; `offsets` and `bases` are what
/// [`crate::scan`] makes of the lengths; `anchors` points to `anchor_words` words for each tile; `payload` has room for as many words as `room`
/// says, and the rest.
#[kernel(max_threads = MOVE_BLOCK)]
pub unsafe fn packed_move(
    count: u32,
    slots: *const u32,
    slot_words: u32,
    lengths: *const u16,
    offsets: *const u32,
    bases: *const u64,
    anchors: *const u32,
    anchor_words: u32,
    payload: *mut u32,
    room: u64,
    total: *mut u64,
) {
    let lane = warp::lane_id();
    let number = thread::index_1d() / 32;
    let first = number * MOVED;
    // SAFETY: the caller's; all lanes go the same way.
    unsafe {
        let words = *bases.add(count.div_ceil(GROUP) as usize);
        if number == 0 && lane == 0 {
            *total = words;
        }
        if words > room || first >= count {
            return;
        }
        let mine = first + lane % MOVED;
        let (mut length, mut at) = (0, 0);
        if mine < count {
            length = *lengths.add(mine as usize) as u32;
            at = start(offsets, bases, mine);
            if lane < MOVED {
                let end = payload.add(words as usize) as *mut u16;
                *end.add(mine as usize) = length as u16;
                let mut word = 0;
                while word < anchor_words {
                    let i = (mine * anchor_words + word) as usize;
                    let anchor = *anchors.add(i);
                    // Only at a multiple of 2 bytes.
                    let to = end.add(count as usize + 2 * i);
                    *to = anchor as u16;
                    *to.add(1) = (anchor >> 16) as u16;
                    word += 1;
                }
            }
        }
        let to = payload.add(warp::full::shuffle(at, 0) as usize);
        let ends = [0, 1, 2, 3].map(|tile| warp::full::shuffle(length, tile));
        let ends = [ends[0], ends[0] + ends[1], ends[0] + ends[1] + ends[2], ends[0] + ends[1] + ends[2] + ends[3]];
        let from = slots.add(first as usize * slot_words as usize);
        let mut i = lane;
        while i < ends[3] {
            let mut moved = [0u32; 4];
            each4!(|k| {
                let i = i + 32 * k as u32;
                if i < ends[3] {
                    let (mut tile, mut before) = (0, 0);
                    each4!(|other| {
                        if other < 3 && i >= ends[other] {
                            (tile, before) = (other as u32 + 1, ends[other]);
                        }
                    });
                    moved[k] = intrinsics::load_readonly(from.add((tile * slot_words + i - before) as usize));
                }
            });
            each4!(|k| {
                let i = i + 32 * k as u32;
                if i < ends[3] {
                    *to.add(i as usize) = moved[k];
                }
            });
            i += 128;
        }
    }
}

/// Adds to `raw` the remainders of three ranges that follow each other: words, whose number is what `total` points to, then `lengths` bytes,
/// then `anchors` bytes; nothing where the words are more than `room`. As [`crate::archive::checksum`].
///
/// Grid: at least as many blocks as the ranges have, each by itself, in pieces of 131072 bytes; block: 256 threads. Shared memory: 4128
/// bytes, static.
///
/// # Safety
///
/// `bytes` points to the ranges, which nothing writes meanwhile; `raw` to three values that were 0.
#[kernel(max_threads = CHECKSUM_BLOCK)]
pub unsafe fn packed_checksums(bytes: *const u8, total: *const u64, room: u64, lengths: u64, anchors: u64, raw: *mut u32) {
    let blocks = |len: u64| len.div_ceil(16_384 * CHECKSUM_BLOCK as u64 / 32) as u32;
    let block = thread::block_idx_x();
    // SAFETY: the caller's; a block goes one way.
    unsafe {
        let words = *total;
        if words > room {
            return;
        }
        // The ranges of known lengths come first.
        let (lengths_end, anchors_end) = (blocks(lengths), blocks(lengths) + blocks(anchors));
        let (start, len, first, which) = if block < lengths_end {
            (4 * words, lengths, 0, 1)
        } else if block < anchors_end {
            (4 * words + lengths, anchors, lengths_end, 2)
        } else {
            (0, 4 * words, anchors_end, 0)
        };
        if block - first < blocks(len) {
            checksum_block(bytes.add(start as usize), len, block - first, raw.add(which));
        }
    }
}
