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
