//! Values that are stored exactly: a section of counts, per block of 65,536 values, one of offsets in the block, and one of values.
//!
//! Which values they are, flags say: 32 a word, lowest first. Per group of 1024 they are counted, and [`crate::scan`] says where each
//! group's patches go. A thread has 4 words of flags.

use cuda_std::prelude::*;

use crate::archive::Target;
use crate::common::{load, store};
use crate::scan::start;
use crate::unroll::each4;

/// Threads of a block.
pub const BLOCK: u32 = 256;
/// Flags that are counted together.
pub const GROUP: u32 = 1024;
/// Values in a block of an archive's patches.
const VALUES: u32 = 1 << 16;

/// The calling thread's flags; those that are missing are unset.
///
/// # Safety
/// `flags` is aligned to 16 and has `words` words.
#[inline(always)]
unsafe fn own_flags(words: u32, flags: *const u32) -> u128 {
    let first = thread::index_1d() * 4;
    // SAFETY: indices are checked.
    unsafe {
        if first + 4 <= words {
            return *(flags.add(first as usize) as *const u128);
        }
        let mut own = 0;
        each4!(|k| {
            if first + (k as u32) < words {
                own |= (*flags.add(first as usize + k) as u128) << (32 * k);
            }
        });
        own
    }
}

/// How many flags are set in each group of 1024.
///
/// Grid: ceil(words / 1024) blocks; block: 256 threads. No shared memory.
///
/// # Safety
///
/// `flags` points to `words` words, aligned to 16 bytes, `counts` to one value for every 32 of them, begun or whole.
#[kernel(max_threads = BLOCK)]
pub unsafe fn count_flags(words: u32, flags: *const u32, counts: *mut u32) {
    // SAFETY: the caller's; all lanes are here.
    unsafe {
        let mut count = own_flags(words, flags).count_ones();
        count += warp::full::shuffle_xor(count, 1);
        count += warp::full::shuffle_xor(count, 2);
        count += warp::full::shuffle_xor(count, 4);
        let thread = thread::index_1d();
        if thread.is_multiple_of(8) && thread * 4 < words {
            *counts.add((thread / 8) as usize) = count;
        }
    }
}

/// The section of counts of a chunk of `n` values. A warp works on a block of 65,536.
///
/// Grid: ceil(n / 524288) blocks; block: 256 threads. No shared memory.
///
/// # Safety
///
/// `counts` points to what [`count_flags`] makes of the `n` flags, `out` to 4 bytes for each block of values, at any byte address.
#[kernel(max_threads = BLOCK)]
pub unsafe fn count_patches(n: u32, counts: *const u32, out: Target) {
    let (block, lane) = (thread::index_1d() / 32, warp::lane_id());
    if block >= n.div_ceil(VALUES) {
        return;
    }
    let (groups, first) = (n.div_ceil(GROUP), block * (VALUES / GROUP) + lane);
    // SAFETY: the caller's; indices are checked; all lanes are here.
    unsafe {
        let out = out.pointer();
        if out.is_null() {
            return;
        }
        let count = |group: u32| if group < groups { *counts.add(group as usize) } else { 0 };
        let sum = warp::full::reduce_add(count(first) + count(first + 32));
        if lane == 0 {
            store((out as *mut u32).wrapping_add(block as usize), sum);
        }
    }
}

/// See the kernels below; values are bits.
#[inline(always)]
unsafe fn write<B: Copy>(
    n: u32,
    flags: *const u32,
    values: *const B,
    offsets: *const u32,
    bases: *const u64,
    out_offsets: *mut u16,
    out_values: *mut B,
) {
    let thread = thread::index_1d();
    let group = thread / 8;
    // SAFETY: the caller's; all lanes come to the votes and shuffles.
    unsafe {
        let mut own = own_flags(n.div_ceil(32), flags);
        if !warp::full::any(own != 0) {
            return;
        }
        let count = own.count_ones();
        let mut end = count;
        let mut distance = 1;
        while distance < 8 {
            let other = warp::full::shuffle_up(end, distance);
            if thread % 8 >= distance {
                end += other;
            }
            distance *= 2;
        }
        if own == 0 {
            return;
        }
        let mut at = start(offsets, bases, group) as usize + (end - count) as usize;
        while own != 0 {
            let position = thread * 128 + own.trailing_zeros();
            store(out_offsets.wrapping_add(at), position as u16);
            store(out_values.wrapping_add(at), *values.add(position as usize));
            own &= own - 1;
            at += 1;
        }
    }
}

/// See the kernels below; values are bits.
#[inline(always)]
unsafe fn apply<B: Copy>(
    n: u32,
    patches: u64,
    counts: *const u32,
    starts: *const u32,
    bases: *const u64,
    offsets: *const u16,
    patch_values: *const B,
    values: *mut B,
    bad: *mut u32,
) {
    let (block, t) = (thread::block_idx_x(), thread::thread_idx_x());
    let first = block * VALUES;
    let length = (n - first).min(VALUES);
    // SAFETY: the caller's; patches and values are read and written where they exist.
    unsafe {
        let count = load(counts.wrapping_add(block as usize));
        let start = start(starts, bases, block);
        // More than there are values cannot ascend.
        if count > length || start + count as u64 > patches {
            *bad = 1;
            return;
        }
        let mut i = t;
        while i < count {
            let at = start as usize + i as usize;
            let offset = load(offsets.wrapping_add(at)) as u32;
            let ascends = i == 0 || (load(offsets.wrapping_add(at).wrapping_sub(1)) as u32) < offset;
            if ascends && offset < length {
                *values.add((first + offset) as usize) = load(patch_values.wrapping_add(at));
            } else {
                *bad = 1;
            }
            i += BLOCK;
        }
    }
}

macro_rules! kernels {
    ($real:ident, $bits:ident, $write:ident, $apply:ident) => {
        /// The sections of offsets and of values: of each flag that is set, ascending, the low 16 bits of its position, and its value.
        ///
        /// Grid: ceil(n / 32768) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `flags` points to ceil(n / 32) words, aligned to 16 bytes, with no bit set from `n` on; `values` to `n` values; `offsets` and
        /// `bases` are what [`crate::scan`] makes of [`count_flags`]; both `out` have room, at any byte address, for all flags that are set.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $write(
            n: u32,
            flags: *const u32,
            values: *const $real,
            offsets: *const u32,
            bases: *const u64,
            out_offsets: Target,
            out_values: Target,
        ) {
            // SAFETY: the caller's.
            unsafe {
                let (out_offsets, out_values) = (out_offsets.pointer(), out_values.pointer());
                if !out_offsets.is_null() {
                    write(n, flags, values as *const $bits, offsets, bases, out_offsets as *mut u16, out_values as *mut $bits);
                }
            }
        }

        /// Puts an archive's patches into decoded values. Sets `bad` where a block has more than there are, or its offsets do not ascend
        /// or leave the chunk. A block works on a block of values.
        ///
        /// Grid: ceil(n / 65536) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `counts` points to a value for each block of values, `offsets` to `patches` values of 16 bits, `patch_values` to as many, all at
        /// any byte address; `starts` and `bases` are what [`crate::scan`] makes of the counts; `values` points to `n` values.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $apply(
            n: u32,
            patches: u64,
            counts: *const u8,
            starts: *const u32,
            bases: *const u64,
            offsets: *const u8,
            patch_values: *const u8,
            values: *mut $real,
            bad: *mut u32,
        ) {
            // SAFETY: the caller's.
            unsafe {
                apply(
                    n,
                    patches,
                    counts as *const u32,
                    starts,
                    bases,
                    offsets as *const u16,
                    patch_values as *const $bits,
                    values as *mut $bits,
                    bad,
                )
            }
        }
    };
}

kernels!(f32, u32, write_patches_f32, apply_patches_f32);
kernels!(f64, u64, write_patches_f64, apply_patches_f64);
