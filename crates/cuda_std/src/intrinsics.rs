//! Arithmetic that `core` lacks on the device.
//!
//! Nothing contracts `a * b + c` into a fused multiply-add: the source says where one happens, so that a CPU that follows it gets the same bits.
//! Bit counts (`count_ones`, `leading_zeros`, ...) come from `core`, as do IEEE division and, through LLVM, square root.

use crate::raw;

macro_rules! pure {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $symbol:ident;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name($($arg: $ty),*) -> $ret {
                // SAFETY: pure arithmetic, defined for all arguments.
                unsafe { raw::$symbol($($arg),*) }
            }
        )*
    };
}

pure! {
    /// `a * b + c`, rounded once: `fma.rn.f32`, the bits of `f32::mul_add`.
    fma_f32(a: f32, b: f32, c: f32) -> f32 = __cuda_std_fma_f32;
    /// `a * b + c`, rounded once: `fma.rn.f64`, the bits of `f64::mul_add`.
    fma_f64(a: f64, b: f64, c: f64) -> f64 = __cuda_std_fma_f64;
    /// The nearest integer, ties to the even one: `f32::round_ties_even`.
    round_ties_even_f32(x: f32) -> f32 = __cuda_std_round_ties_even_f32;
    /// The nearest integer, ties to the even one: `f64::round_ties_even`.
    round_ties_even_f64(x: f64) -> f64 = __cuda_std_round_ties_even_f64;
    /// The greater of both, NaN if either is NaN: `max.NaN.f32`.
    max_nan_f32(a: f32, b: f32) -> f32 = __cuda_std_max_nan_f32;
    /// The lesser of both, NaN if either is NaN: `min.NaN.f32`.
    min_nan_f32(a: f32, b: f32) -> f32 = __cuda_std_min_nan_f32;
    /// Four bytes chosen from the eight of `b:a` by the four low nibbles of `selector`: `prmt.b32`.
    byte_permute(a: u32, b: u32, selector: u32) -> u32 = __cuda_std_byte_permute;
    /// The upper word of `high:low` shifted left by `bits` modulo 32.
    funnel_shift_left(high: u32, low: u32, bits: u32) -> u32 = __cuda_std_funnel_shift_left;
    /// The lower word of `high:low` shifted right by `bits` modulo 32.
    funnel_shift_right(high: u32, low: u32, bits: u32) -> u32 = __cuda_std_funnel_shift_right;
}

/// A value that [`load_readonly`] loads.
pub trait ReadOnlyValue: Copy + sealed::Sealed {
    /// See [`load_readonly`].
    ///
    /// # Safety
    ///
    /// As [`load_readonly`].
    unsafe fn load_readonly(ptr: *const Self) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! read_only {
    ($($ty:ident: $bits:ident $symbol:ident $from:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl ReadOnlyValue for $ty {
            #[inline(always)]
            unsafe fn load_readonly(ptr: *const Self) -> Self {
                // SAFETY: the caller's; both types have the same size and alignment.
                $from(unsafe { raw::$symbol(ptr as *const $bits) })
            }
        }
    )*};
}

read_only! {
    i16: u16 __cuda_std_load_readonly_16 (|bits: u16| bits as i16);
    u32: u32 __cuda_std_load_readonly_32 core::convert::identity;
    i32: u32 __cuda_std_load_readonly_32 (|bits: u32| bits as i32);
    f32: u32 __cuda_std_load_readonly_32 f32::from_bits;
    u64: u64 __cuda_std_load_readonly_64 core::convert::identity;
    i64: u64 __cuda_std_load_readonly_64 (|bits: u64| bits as i64);
    f64: u64 __cuda_std_load_readonly_64 f64::from_bits;
}

/// `ld.global.nc`: a load that the compiler may move across stores and barriers, so that many are under way at once.
///
/// # Safety
///
/// `ptr` points to a value in global memory that nothing writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_readonly<T: ReadOnlyValue>(ptr: *const T) -> T {
    // SAFETY: the caller's.
    unsafe { T::load_readonly(ptr) }
}

/// A value that [`copy_async`] copies.
pub trait AsyncValue: ReadOnlyValue {
    /// See [`copy_async`].
    ///
    /// # Safety
    ///
    /// As [`copy_async`].
    unsafe fn copy_async(to: *mut Self, from: *const Self);
}

macro_rules! copied {
    ($($ty:ident: $bits:ident $symbol:ident;)*) => {$(
        impl AsyncValue for $ty {
            #[inline(always)]
            unsafe fn copy_async(to: *mut Self, from: *const Self) {
                // SAFETY: the caller's; both types have the same size and alignment.
                unsafe { raw::$symbol(to as *mut $bits, from as *const $bits) }
            }
        }
    )*};
}

copied! {
    u32: u32 __cuda_std_copy_async_32;
    f32: u32 __cuda_std_copy_async_32;
    u64: u64 __cuda_std_copy_async_64;
    f64: u64 __cuda_std_copy_async_64;
}

/// `cp.async`: starts a copy from global to shared memory that takes no register. The value is there for the calling thread after its
/// [`copy_async_wait`], and for others after a barrier that follows it.
///
/// # Safety
///
/// `from` points to a value in global memory, `to` to room for it in shared memory, which nothing else touches until then.
#[inline(always)]
pub unsafe fn copy_async<T: AsyncValue>(to: *mut T, from: *const T) {
    // SAFETY: the caller's.
    unsafe { T::copy_async(to, from) }
}

/// Waits for all copies that the calling thread started.
#[inline(always)]
pub fn copy_async_wait() {
    // SAFETY: it has no preconditions.
    unsafe { raw::__cuda_std_copy_async_wait() }
}
