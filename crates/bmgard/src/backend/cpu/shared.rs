//! A slice that several tasks write at once, each at places of its own.

use std::marker::PhantomData;

/// Tiles of an array are no contiguous parts of it, so safe slices cannot hand them to different threads.
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: only `write` gives access, and its callers keep different threads to different places.
#[allow(unsafe_code, reason = "see above")]
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T: Copy> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), owner: PhantomData }
    }

    /// Copies values to the places from `at` on.
    ///
    /// # Safety
    /// No other thread writes to these places during the life of the borrow.
    #[inline(always)]
    #[allow(unsafe_code, reason = "this type's purpose")]
    pub(crate) unsafe fn write(&self, at: usize, values: &[T]) {
        assert!(at <= self.len && values.len() <= self.len - at);
        // SAFETY: the places are inside the slice, which is borrowed mutably, and no other thread writes them, as the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.start.add(at), values.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "see the module")]
    fn every_place_can_be_written_and_none_beyond() {
        let mut values = [0; 5];
        let shared = Shared::new(&mut values);
        // SAFETY: there is one thread.
        unsafe {
            shared.write(0, &[1, 2]);
            shared.write(2, &[3, 4, 5]);
            shared.write(5, &[]);
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shared.write(4, &[6, 7]))).is_err());
        }
        assert_eq!(values, [1, 2, 3, 4, 5]);
    }
}
