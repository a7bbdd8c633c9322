//! Votes, shuffles and reductions among the 32 threads of a warp.
//!
//! Functions that take a `mask` wait until every lane in it has called the same function with the same mask.
//! [`full`] holds short forms for the commonest case, the whole warp.

use crate::raw;

/// The mask of all 32 lanes.
pub const FULL_MASK: u32 = u32::MAX;

/// Threads in a warp.
pub const WARP_SIZE: u32 = 32;

/// The thread's lane, 0..32.
#[inline(always)]
pub fn lane_id() -> u32 {
    // SAFETY: reads a special register.
    unsafe { raw::__cuda_std_lane_id() }
}

/// The mask of the lanes below this thread's.
#[inline(always)]
pub fn lanemask_lt() -> u32 {
    // SAFETY: reads a special register.
    unsafe { raw::__cuda_std_lanemask_lt() }
}

/// The lanes that happen to execute together now: no promise that others are not on their way to the same place.
#[inline(always)]
pub fn activemask() -> u32 {
    // SAFETY: reads the state of the warp.
    unsafe { raw::__cuda_std_activemask() }
}

/// Waits for the lanes in `mask`; what they wrote before is then visible to one another.
///
/// # Safety
///
/// The calling lane is in `mask`, and every lane in it calls this with the same mask and has not exited.
#[inline(always)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: passed on to the caller.
    unsafe { raw::__cuda_std_sync_warp(mask) }
}

/// Whether `predicate` holds in all lanes of `mask`.
///
/// # Safety
///
/// As for [`sync_warp`].
#[inline(always)]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { raw::__cuda_std_vote_all(mask, predicate as u32) != 0 }
}

/// Whether `predicate` holds in some lane of `mask`.
///
/// # Safety
///
/// As for [`sync_warp`].
#[inline(always)]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { raw::__cuda_std_vote_any(mask, predicate as u32) != 0 }
}

/// Bit i of the result: whether lane i is in `mask` and `predicate` holds there.
///
/// # Safety
///
/// As for [`sync_warp`].
#[inline(always)]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { raw::__cuda_std_vote_ballot(mask, predicate as u32) }
}

/// How a shuffle finds the lane whose value it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpShuffleMode {
    /// The lane given.
    Idx,
    /// The own lane less the number given.
    Up,
    /// The own lane plus the number given.
    Down,
    /// The own lane exclusive-or the number given.
    Xor,
}

/// Values that a shuffle can pass: those of 64 bits go as two of 32.
pub trait WarpShuffleValue: Copy {
    /// Shuffles one value. `clamp` is the last operand of PTX's `shfl.sync`.
    ///
    /// # Safety
    ///
    /// As for [`sync_warp`].
    #[doc(hidden)]
    unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, value: Self, x: u32, clamp: u32) -> Self;
}

impl WarpShuffleValue for u32 {
    #[inline(always)]
    unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, value: Self, x: u32, clamp: u32) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            match mode {
                WarpShuffleMode::Idx => raw::__cuda_std_shuffle_idx(mask, value, x, clamp),
                WarpShuffleMode::Up => raw::__cuda_std_shuffle_up(mask, value, x, clamp),
                WarpShuffleMode::Down => raw::__cuda_std_shuffle_down(mask, value, x, clamp),
                WarpShuffleMode::Xor => raw::__cuda_std_shuffle_xor(mask, value, x, clamp),
            }
        }
    }
}

impl WarpShuffleValue for u64 {
    #[inline(always)]
    unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, value: Self, x: u32, clamp: u32) -> Self {
        // SAFETY: passed on to the caller.
        let (low, high) =
            unsafe { (u32::shuffle(mode, mask, value as u32, x, clamp), u32::shuffle(mode, mask, (value >> 32) as u32, x, clamp)) };
        low as u64 | (high as u64) << 32
    }
}

macro_rules! shuffle_by_bits {
    ($($ty:ty, $bits:ty, $to:expr, $from:expr;)*) => {
        $(
            impl WarpShuffleValue for $ty {
                #[inline(always)]
                unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, value: Self, x: u32, clamp: u32) -> Self {
                    // SAFETY: passed on to the caller.
                    $from(unsafe { <$bits>::shuffle(mode, mask, $to(value), x, clamp) })
                }
            }
        )*
    };
}

shuffle_by_bits! {
    i32, u32, |v| v as u32, |b| b as i32;
    i64, u64, |v| v as u64, |b| b as i64;
    f32, u32, f32::to_bits, f32::from_bits;
    f64, u64, f64::to_bits, f64::from_bits;
}

/// The last operand of `shfl.sync` for sections of `width` lanes: the section in bits 8..13, the last lane of a section below.
#[inline(always)]
const fn clamp(width: u32, last: u32) -> u32 {
    (WARP_SIZE - width) << 8 | last
}

/// The value of lane `idx` (modulo `width`) of the own section of `width` lanes; and true.
///
/// # Safety
///
/// As for [`sync_warp`]; `width` is a power of two up to 32. The value of a lane outside `mask` is not specified.
#[inline(always)]
pub unsafe fn warp_shuffle_idx<T: WarpShuffleValue>(mask: u32, value: T, idx: u32, width: u32) -> (T, bool) {
    // SAFETY: passed on to the caller.
    (unsafe { T::shuffle(WarpShuffleMode::Idx, mask, value, idx, clamp(width, 31)) }, true)
}

/// The value of the lane `delta` below, and whether it lies in the own section of `width` lanes; where not, the own value.
///
/// # Safety
///
/// As for [`warp_shuffle_idx`].
#[inline(always)]
pub unsafe fn warp_shuffle_up<T: WarpShuffleValue>(mask: u32, value: T, delta: u32, width: u32) -> (T, bool) {
    // SAFETY: passed on to the caller.
    let value = unsafe { T::shuffle(WarpShuffleMode::Up, mask, value, delta, clamp(width, 0)) };
    (value, lane_id() & (width - 1) >= delta)
}

/// The value of the lane `delta` above, and whether it lies in the own section of `width` lanes; where not, the own value.
///
/// # Safety
///
/// As for [`warp_shuffle_idx`].
#[inline(always)]
pub unsafe fn warp_shuffle_down<T: WarpShuffleValue>(mask: u32, value: T, delta: u32, width: u32) -> (T, bool) {
    // SAFETY: passed on to the caller.
    let value = unsafe { T::shuffle(WarpShuffleMode::Down, mask, value, delta, clamp(width, 31)) };
    (value, (lane_id() & (width - 1)) + delta < width)
}

/// The value of the lane whose number is the own one exclusive-or `lanes`, and whether it lies in the own section of `width` lanes or below it;
/// where not, the own value.
///
/// # Safety
///
/// As for [`warp_shuffle_idx`].
#[inline(always)]
pub unsafe fn warp_shuffle_xor<T: WarpShuffleValue>(mask: u32, value: T, lanes: u32, width: u32) -> (T, bool) {
    // SAFETY: passed on to the caller.
    let value = unsafe { T::shuffle(WarpShuffleMode::Xor, mask, value, lanes, clamp(width, 31)) };
    let lane = lane_id();
    (value, lane ^ lanes <= lane | (width - 1))
}

/// What a warp reduction does to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpReductionOp {
    /// Their sum, wrapping.
    Add,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// Values that a warp can reduce in hardware (compute capability 8.0).
pub trait WarpReduceValue: Copy {
    /// Reduces the values of the lanes in `mask`.
    ///
    /// # Safety
    ///
    /// As for [`sync_warp`].
    #[doc(hidden)]
    unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self;
}

macro_rules! reduce {
    ($($ty:ty, $min:ident, $max:ident;)*) => {
        $(
            impl WarpReduceValue for $ty {
                #[inline(always)]
                unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self {
                    let value = value as u32;
                    // SAFETY: passed on to the caller.
                    let result = unsafe {
                        match op {
                            WarpReductionOp::Add => raw::__cuda_std_reduce_add(mask, value),
                            WarpReductionOp::Min => raw::$min(mask, value),
                            WarpReductionOp::Max => raw::$max(mask, value),
                            WarpReductionOp::And => raw::__cuda_std_reduce_and(mask, value),
                            WarpReductionOp::Or => raw::__cuda_std_reduce_or(mask, value),
                            WarpReductionOp::Xor => raw::__cuda_std_reduce_xor(mask, value),
                        }
                    };
                    result as $ty
                }
            }
        )*
    };
}

reduce! {
    u32, __cuda_std_reduce_min_u32, __cuda_std_reduce_max_u32;
    i32, __cuda_std_reduce_min_i32, __cuda_std_reduce_max_i32;
}

/// `op` over the values of the lanes in `mask`, the same result in each of them.
///
/// # Safety
///
/// As for [`sync_warp`].
#[inline(always)]
pub unsafe fn warp_reduce<T: WarpReduceValue>(mask: u32, value: T, op: WarpReductionOp) -> T {
    // SAFETY: passed on to the caller.
    unsafe { T::reduce(mask, value, op) }
}

/// The same over the whole warp, with short names (not in rust-cuda).
///
/// Each function needs, for its safety, that all 32 lanes of the warp call it together and none has exited.
#[allow(clippy::missing_safety_doc, reason = "said once, above")]
pub mod full {
    use super::*;

    /// [`sync_warp`] of all lanes.
    #[inline(always)]
    pub unsafe fn sync() {
        // SAFETY: passed on to the caller.
        unsafe { sync_warp(FULL_MASK) }
    }

    /// Bit i of the result: whether `predicate` holds in lane i.
    #[inline(always)]
    pub unsafe fn ballot(predicate: bool) -> u32 {
        // SAFETY: passed on to the caller.
        unsafe { warp_vote_ballot(FULL_MASK, predicate) }
    }

    /// Whether `predicate` holds in all lanes.
    #[inline(always)]
    pub unsafe fn all(predicate: bool) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { warp_vote_all(FULL_MASK, predicate) }
    }

    /// Whether `predicate` holds in some lane.
    #[inline(always)]
    pub unsafe fn any(predicate: bool) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { warp_vote_any(FULL_MASK, predicate) }
    }

    /// The value of lane `lane` modulo 32.
    #[inline(always)]
    pub unsafe fn shuffle<T: WarpShuffleValue>(value: T, lane: u32) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_shuffle_idx(FULL_MASK, value, lane, WARP_SIZE).0 }
    }

    /// The value of the lane `delta` below; the own value in the first `delta` lanes.
    #[inline(always)]
    pub unsafe fn shuffle_up<T: WarpShuffleValue>(value: T, delta: u32) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_shuffle_up(FULL_MASK, value, delta, WARP_SIZE).0 }
    }

    /// The value of the lane `delta` above; the own value in the last `delta` lanes.
    #[inline(always)]
    pub unsafe fn shuffle_down<T: WarpShuffleValue>(value: T, delta: u32) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_shuffle_down(FULL_MASK, value, delta, WARP_SIZE).0 }
    }

    /// The value of the lane whose number is the own one exclusive-or `lanes` (0..32).
    #[inline(always)]
    pub unsafe fn shuffle_xor<T: WarpShuffleValue>(value: T, lanes: u32) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_shuffle_xor(FULL_MASK, value, lanes, WARP_SIZE).0 }
    }

    /// The sum over all lanes, wrapping.
    #[inline(always)]
    pub unsafe fn reduce_add<T: WarpReduceValue>(value: T) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_reduce(FULL_MASK, value, WarpReductionOp::Add) }
    }

    /// The least value of all lanes.
    #[inline(always)]
    pub unsafe fn reduce_min<T: WarpReduceValue>(value: T) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_reduce(FULL_MASK, value, WarpReductionOp::Min) }
    }

    /// The greatest value of all lanes.
    #[inline(always)]
    pub unsafe fn reduce_max<T: WarpReduceValue>(value: T) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_reduce(FULL_MASK, value, WarpReductionOp::Max) }
    }

    /// The bitwise or of all lanes.
    #[inline(always)]
    pub unsafe fn reduce_or<T: WarpReduceValue>(value: T) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_reduce(FULL_MASK, value, WarpReductionOp::Or) }
    }

    /// The bitwise exclusive or of all lanes.
    #[inline(always)]
    pub unsafe fn reduce_xor<T: WarpReduceValue>(value: T) -> T {
        // SAFETY: passed on to the caller.
        unsafe { warp_reduce(FULL_MASK, value, WarpReductionOp::Xor) }
    }
}
