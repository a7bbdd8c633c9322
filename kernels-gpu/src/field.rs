//! The check of every value, and what a field is like.

use bmgard_core::Real;
use cuda_std::atomic::intrinsics::{
    atomic_fetch_max_relaxed_u64_device, atomic_fetch_or_relaxed_u32_device, atomic_load_relaxed_64_device,
};
use cuda_std::prelude::*;

use crate::common::{is_special, masked};
use crate::unroll::each8;

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// A lane's part of the check: it flags the values that break the bound, `!(|x - x'| <= bound)` in f64, and keeps the greatest error of
/// those that do not.
///
/// Nearly all values are seen to have a smaller error than one that was met before, which needs no f64: if the difference that f32
/// rounds is below a number of that type, so is the true one.
pub(crate) struct Check<T> {
    pub(crate) values: *const T,
    mask: *const u32,
    bound: f64,
    broken: *mut u32,
    /// The bits of the greatest error so far, here and of all lanes: those of numbers that are not negative are in the numbers' order.
    worst: u64,
    all_worst: *mut u64,
    /// Not above the greatest error.
    sure: T,
}

impl<T: Real + intrinsics::ReadOnlyValue> Check<T> {
    /// # Safety
    /// `values` points to the field, `mask` to a bit for each value or nowhere, `broken` to one for each, `worst` to a number.
    #[inline(always)]
    pub(crate) unsafe fn new(values: *const T, mask: *const u32, bound: f64, broken: *mut u32, worst: *mut u64) -> Self {
        // SAFETY: the caller's.
        let known = unsafe { atomic_load_relaxed_64_device(worst) };
        Self { values, mask, bound, broken, worst: known, all_worst: worst, sure: Self::below(known) }
    }

    /// The number with these bits, rounded down.
    #[inline(always)]
    fn below(bits: u64) -> T {
        let (exact, near) = (f64::from_bits(bits), T::from_f64(f64::from_bits(bits)));
        if near.to_f64() > exact { T::from_bits_u64(near.to_bits_u64() - 1) } else { near }
    }

    /// # Safety
    /// The value exists.
    #[inline(always)]
    pub(crate) unsafe fn original(&self, i: u32) -> T {
        // SAFETY: the caller's.
        unsafe { intrinsics::load_readonly(self.values.add(i as usize)) }
    }

    /// Whether a value's error is below one that was met.
    #[inline(always)]
    pub(crate) fn is_sure(&self, original: T, decoded: T) -> bool {
        Real::abs(original - decoded) < self.sure
    }

    /// Looks at a value that is not sure to be one among many.
    ///
    /// # Safety
    /// The value exists.
    #[inline(always)]
    pub(crate) unsafe fn look(&mut self, i: u32, original: T, decoded: T) {
        let error = Real::abs(original.to_f64() - decoded.to_f64());
        if error.to_bits() <= self.worst {
            return;
        }
        // SAFETY: the caller's.
        unsafe {
            if masked(self.mask, i) {
                return;
            }
            if error <= self.bound {
                self.worst = error.to_bits();
                self.sure = Self::below(self.worst);
            } else {
                atomic_fetch_or_relaxed_u32_device(self.broken.add((i / 32) as usize), 1 << (i % 32));
            }
        }
    }

    /// # Safety
    /// All lanes of the warp call it.
    #[inline(always)]
    pub(crate) unsafe fn finish(self) {
        // SAFETY: the caller's.
        unsafe {
            let mut worst = self.worst;
            let mut distance = 16;
            while distance > 0 {
                worst = worst.max(warp::full::shuffle_xor(worst, distance));
                distance /= 2;
            }
            if warp::lane_id() == 0 && worst > atomic_load_relaxed_64_device(self.all_worst) {
                atomic_fetch_max_relaxed_u64_device(self.all_worst, worst);
            }
        }
    }
}

/// Values that a thread checks.
const CHECKED: u32 = 4;

#[inline(always)]
unsafe fn check<T: Real + intrinsics::ReadOnlyValue>(
    n: u32,
    values: *const T,
    decoded: *const T,
    mask: *const u32,
    bound: f64,
    broken: *mut u32,
    worst: *mut u64,
) {
    // SAFETY: the caller's; values are checked to exist.
    unsafe {
        let mut check = Check::new(values, mask, bound, broken, worst);
        let mut i = thread::block_idx_x() * BLOCK * CHECKED + thread::thread_idx_x();
        let mut pass = 0;
        while pass < CHECKED {
            if i < n {
                let (original, decoded) = (check.original(i), intrinsics::load_readonly(decoded.add(i as usize)));
                if !check.is_sure(original, decoded) {
                    check.look(i, original, decoded);
                }
            }
            i += BLOCK;
            pass += 1;
        }
        check.finish();
    }
}

/// Least, greatest and number of special values, as the host's `FieldStatistics`: order-preserving keys of the values, so that they can
/// be compared as integers.
#[inline(always)]
unsafe fn statistics<T: Real + intrinsics::ReadOnlyValue>(
    n: u64,
    values: *const T,
    fill: T,
    has_fill: u32,
    least: *mut u64,
    greatest: *mut u64,
    specials: *mut u64,
) {
    // SAFETY: the caller's; values are checked to exist.
    unsafe {
        let stride = u64::from(thread::grid_dim_x()) * u64::from(BLOCK);
        let mut i = u64::from(thread::index_1d());
        // A valid value is never beyond these.
        let (mut low, mut high, mut any, mut count) = (T::MAX, -T::MAX, false, 0u64);
        while i < n {
            let mut loaded = [T::ZERO; 8];
            // Several loads under way at once; the last value in place of those that there are not.
            if i + 7 * stride < n {
                let at = values.add(i as usize);
                each8!(|k| {
                    loaded[k] = intrinsics::load_readonly(at.add(k * stride as usize));
                });
            } else {
                each8!(|k| {
                    loaded[k] = intrinsics::load_readonly(values.add((i + k as u64 * stride).min(n - 1) as usize));
                });
            }
            // Of nearly all values the sum of those times 0 is 0, and none is the fill value.
            let (mut sum, mut filled) = (T::ZERO, false);
            each8!(|k| {
                sum = loaded[k].fma(T::ZERO, sum);
                filled |= loaded[k] == fill;
            });
            if sum == T::ZERO && !(filled && has_fill != 0) {
                any = true;
                each8!(|k| {
                    low = if loaded[k] < low { loaded[k] } else { low };
                    high = if loaded[k] > high { loaded[k] } else { high };
                });
            } else {
                each8!(|k| {
                    let value = loaded[k];
                    if is_special(value, fill, has_fill != 0) {
                        count += u64::from(i + (k as u64) * stride < n);
                    } else {
                        low = if value < low { value } else { low };
                        high = if value > high { value } else { high };
                        any = true;
                    }
                });
            }
            i += 8 * stride;
        }
        let (mut low, mut high) = if any { (key(low), key(high)) } else { (u64::MAX, 0) };
        let mut distance = 16;
        while distance > 0 {
            low = low.min(warp::full::shuffle_xor(low, distance));
            high = high.max(warp::full::shuffle_xor(high, distance));
            count += warp::full::shuffle_xor(count, distance);
            distance /= 2;
        }
        let warps = shared_array![u64; 3 * BLOCK as usize / 32];
        if warp::lane_id() == 0 {
            let own = warps.add((thread::thread_idx_x() / 32 * 3) as usize);
            (*own, *own.add(1), *own.add(2)) = (low, high, count);
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let mut warp = 1;
            while warp < BLOCK as usize / 32 {
                let other = warps.add(3 * warp);
                (low, high, count) = (low.min(*other), high.max(*other.add(1)), count + *other.add(2));
                warp += 1;
            }
            cuda_std::atomic::intrinsics::atomic_fetch_min_relaxed_u64_device(least, low);
            atomic_fetch_max_relaxed_u64_device(greatest, high);
            if count > 0 {
                cuda_std::atomic::intrinsics::atomic_fetch_add_relaxed_u64_device(specials, count);
            }
        }
    }
}

/// An integer that grows with the finite number: that of -0 is that of 0.
#[inline(always)]
fn key<T: Real>(value: T) -> u64 {
    // Widening keeps the order and is exact.
    let bits = (value.to_f64() + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

macro_rules! kernels {
    ($real:ident, $check:ident, $statistics:ident) => {
        /// Compares values with decoded ones ([`Check`]).
        ///
        /// Grid: ceil(n / 1024) blocks; block: 256 threads. No shared memory.
        ///
        /// # Safety
        ///
        /// `values` and `decoded` point to `n` values, `mask` to as many bits or nowhere, `broken` to as many bits, `worst` to a number.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $check(
            n: u32,
            values: *const $real,
            decoded: *const $real,
            mask: *const u32,
            bound: f64,
            broken: *mut u32,
            worst: *mut u64,
        ) {
            // SAFETY: the caller's.
            unsafe { check(n, values, decoded, mask, bound, broken, worst) }
        }

        /// Keys of the least and the greatest valid value ([`key`]; start with all bits set, and with none), and the number of the others.
        ///
        /// Grid: any; block: 256 threads. Shared memory: 192 bytes, static.
        ///
        /// # Safety
        ///
        /// `values` points to `n` values, the others to a number each.
        #[kernel(max_threads = BLOCK)]
        pub unsafe fn $statistics(
            n: u64,
            values: *const $real,
            fill: $real,
            has_fill: u32,
            least: *mut u64,
            greatest: *mut u64,
            specials: *mut u64,
        ) {
            // SAFETY: the caller's.
            unsafe { statistics(n, values, fill, has_fill, least, greatest, specials) }
        }
    };
}

kernels!(f32, check_f32, statistics_f32);
kernels!(f64, check_f64, statistics_f64);
