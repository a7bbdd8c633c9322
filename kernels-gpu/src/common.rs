//! What several kernels share.

use core::num::NonZeroU32;

use bmgard_core::{Real, Symbol};
use cuda_std::intrinsics::{self, ReadOnlyValue};
use cuda_std::warp::{self, WarpShuffleValue};

/// An index as (z, y, x) in an array of `dims`.
#[inline(always)]
pub(crate) fn split(index: u32, dims: [u32; 3]) -> [u32; 3] {
    // SAFETY: a dimension has at least one node.
    let (ny, nx) = unsafe { (NonZeroU32::new_unchecked(dims[1]), NonZeroU32::new_unchecked(dims[2])) };
    let (row, x) = (index / nx, index % nx);
    [row / ny, row % ny, x]
}

/// NaN, infinite or the fill value: `bmgard`'s `special::is_special`.
#[inline(always)]
pub(crate) fn is_special<T: Real>(value: T, fill: T, has_fill: bool) -> bool {
    !value.is_finite() || has_fill && value == fill
}

/// A flag's bit, 32 a word, lowest first; unset where there are no flags.
///
/// # Safety
/// `mask` is null or has a bit for `i`.
#[inline(always)]
pub(crate) unsafe fn masked(mask: *const u32, i: u32) -> bool {
    // SAFETY: the caller's.
    !mask.is_null() && unsafe { *mask.add((i / 32) as usize) } >> (i % 32) & 1 == 1
}

/// How symbols of type `S` lie in memory: as they are, or in half the width, which is all that nearly every field needs.
pub(crate) trait Stored<S: Symbol>: ReadOnlyValue + Default + 'static {
    /// The low bits of a symbol.
    fn new(symbol: S) -> Self;
    /// The symbol.
    fn get(self) -> S;
    /// 0 if a symbol fits.
    fn excess(symbol: S) -> u32;
    /// Eight symbols one after the other, that nothing writes while the kernel runs.
    ///
    /// # Safety
    /// `ptr` points to them, at an even index.
    #[inline(always)]
    unsafe fn load_group(ptr: *const Self) -> [S; 8] {
        // SAFETY: the caller's.
        [0, 1, 2, 3, 4, 5, 6, 7].map(|k| unsafe { load_symbol(ptr.add(k)) })
    }
}

impl Stored<i32> for i32 {
    #[inline(always)]
    fn new(symbol: i32) -> Self {
        symbol
    }

    #[inline(always)]
    fn get(self) -> i32 {
        self
    }

    #[inline(always)]
    fn excess(_: i32) -> u32 {
        0
    }
}

impl Stored<i64> for i64 {
    #[inline(always)]
    fn new(symbol: i64) -> Self {
        symbol
    }

    #[inline(always)]
    fn get(self) -> i64 {
        self
    }

    #[inline(always)]
    fn excess(_: i64) -> u32 {
        0
    }
}

impl Stored<i32> for i16 {
    #[inline(always)]
    fn new(symbol: i32) -> Self {
        symbol as i16
    }

    #[inline(always)]
    fn get(self) -> i32 {
        i32::from(self)
    }

    #[inline(always)]
    fn excess(symbol: i32) -> u32 {
        (symbol ^ i32::from(symbol as i16)) as u32
    }

    #[inline(always)]
    unsafe fn load_group(ptr: *const Self) -> [i32; 8] {
        // Pairs: an even index is a multiple of 4 bytes.
        // SAFETY: the caller's.
        let pairs = [0, 1, 2, 3].map(|k| unsafe { intrinsics::load_readonly((ptr as *const u32).add(k)) });
        let (low, high) = (|k: usize| i32::from(pairs[k] as i16), |k: usize| pairs[k] as i32 >> 16);
        [low(0), high(0), low(1), high(1), low(2), high(2), low(3), high(3)]
    }
}

impl Stored<i64> for i32 {
    #[inline(always)]
    fn new(symbol: i64) -> Self {
        symbol as i32
    }

    #[inline(always)]
    fn get(self) -> i64 {
        i64::from(self)
    }

    #[inline(always)]
    fn excess(symbol: i64) -> u32 {
        (symbol as i32 >> 31) as u32 ^ (symbol >> 32) as u32
    }
}

/// Loads a symbol that nothing writes while the kernel runs.
///
/// # Safety
/// `ptr` points to it.
#[inline(always)]
pub(crate) unsafe fn load_symbol<S: Symbol, P: Stored<S>>(ptr: *const P) -> S {
    // SAFETY: the caller's.
    unsafe { intrinsics::load_readonly(ptr) }.get()
}

/// The sum of the values of the lanes up to the calling one, its own included; it wraps.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
pub(crate) unsafe fn running_sum<T: WarpShuffleValue + WrappingAdd>(value: T) -> T {
    let (lane, mut sum, mut distance) = (warp::lane_id(), value, 1);
    while distance < 32 {
        // SAFETY: the caller's.
        let other = unsafe { warp::full::shuffle_up(sum, distance) };
        sum = sum.wrapping_add(if lane >= distance { other } else { T::ZERO });
        distance *= 2;
    }
    sum
}

/// An integer that [`running_sum`] adds up.
pub(crate) trait WrappingAdd: Copy {
    const ZERO: Self;
    fn wrapping_add(self, other: Self) -> Self;
}

macro_rules! wrapping_add {
    ($($integer:ident)*) => {$(
        impl WrappingAdd for $integer {
            const ZERO: Self = 0;

            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                $integer::wrapping_add(self, other)
            }
        }
    )*};
}

wrapping_add!(u32 u64 i64);

/// A value at any byte address.
///
/// # Safety
/// All its bytes are there.
#[inline(always)]
pub(crate) unsafe fn load<T: Copy>(from: *const T) -> T {
    // SAFETY: the caller's.
    unsafe { if from.is_aligned() { from.read() } else { from.read_unaligned() } }
}

/// Stores a value at any byte address.
///
/// # Safety
/// There is room for all its bytes.
#[inline(always)]
pub(crate) unsafe fn store<T: Copy>(to: *mut T, value: T) {
    // SAFETY: the caller's.
    unsafe { if to.is_aligned() { to.write(value) } else { to.write_unaligned(value) } }
}
