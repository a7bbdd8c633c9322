//! What several kernels share.

use core::num::NonZeroU32;

/// An index as (z, y, x) in an array of `dims`.
#[inline(always)]
pub(crate) fn split(index: u32, dims: [u32; 3]) -> [u32; 3] {
    // SAFETY: a dimension has at least one node.
    let (ny, nx) = unsafe { (NonZeroU32::new_unchecked(dims[1]), NonZeroU32::new_unchecked(dims[2])) };
    let (row, x) = (index / nx, index % nx);
    [row / ny, row % ny, x]
}

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
