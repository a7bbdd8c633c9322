//! Device memory that is kept for the next call.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::{Pod, Zeroable};
use cust::error::{CudaError, CudaResult};
use cust::memory::{DeviceBuffer, DeviceCopy, DevicePointer};
use cust::stream::Stream;

use super::failed;
use crate::{Error, Result};

/// Memory that no buffer uses at the moment.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<DeviceBuffer<u64>>>);

impl Pool {
    /// Memory for at least `words` words: the smallest piece that is not more than twice as large, else a new one.
    fn take(&self, words: usize) -> CudaResult<DeviceBuffer<u64>> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |piece: &DeviceBuffer<u64>| (words..=2 * words + 4096).contains(&piece.len());
        let best = free.iter().enumerate().filter(|(_, piece)| fits(piece)).min_by_key(|(_, piece)| piece.len()).map(|(index, _)| index);
        if let Some(index) = best {
            return Ok(free.swap_remove(index));
        }
        // SAFETY: whoever takes memory writes it before it is read.
        match unsafe { DeviceBuffer::uninitialized(words) } {
            Err(CudaError::OutOfMemory) if !free.is_empty() => {
                // What is kept for later may be what is missing now.
                free.clear();
                // SAFETY: as above.
                unsafe { DeviceBuffer::uninitialized(words) }
            }
            result => result,
        }
    }
}

/// An array on the device; its memory goes back to the pool.
pub(crate) struct Buffer<T> {
    words: ManuallyDrop<DeviceBuffer<u64>>,
    len: usize,
    pool: Arc<Pool>,
    element: PhantomData<T>,
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let words = unsafe { ManuallyDrop::take(&mut self.words) };
        self.pool.0.lock().unwrap_or_else(PoisonError::into_inner).push(words);
    }
}

/// What a function of the driver returned.
pub(super) fn check(code: cust::sys::CUresult) -> Result<()> {
    match code as i32 {
        0 => Ok(()),
        code => Err(Error::Device(cuda_loader::DriverError(code).to_string())),
    }
}

impl<T: Pod + DeviceCopy + Zeroable> Buffer<T> {
    /// An array of `len` elements, of unspecified values.
    pub(super) fn new(pool: &Arc<Pool>, len: usize) -> Result<Self> {
        let words = (len * size_of::<T>()).div_ceil(8).max(1);
        Ok(Self { words: ManuallyDrop::new(pool.take(words).map_err(failed)?), len, pool: Arc::clone(pool), element: PhantomData })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The array's address.
    pub(super) fn pointer(&self) -> DevicePointer<T> {
        self.words.as_device_ptr().cast()
    }

    fn raw(&self) -> u64 {
        self.words.as_device_ptr().as_raw()
    }

    /// Sets all bytes to 0, in the order of the stream.
    pub(super) fn clear(&self, stream: &Stream) -> Result<()> {
        self.clear_from(0, stream)
    }

    /// Sets the elements from `start` on to zero bytes.
    pub(super) fn clear_from(&self, start: usize, stream: &Stream) -> Result<()> {
        assert!(start <= self.len);
        if start == self.len {
            return Ok(());
        }
        let (address, bytes) = (self.raw() + (start * size_of::<T>()) as u64, (self.len - start) * size_of::<T>());
        // SAFETY: the array has that many bytes.
        check(unsafe { cust::sys::cuMemsetD8Async(address, 0, bytes, stream.as_inner()) })
    }

    /// Copies the first elements from the host, in the order of the stream.
    pub(super) fn write(&self, values: &[T], stream: &Stream) -> Result<()> {
        assert!(values.len() <= self.len);
        if values.is_empty() {
            return Ok(());
        }
        // SAFETY: both have that many bytes; the driver has read pageable memory when the call returns.
        check(unsafe { cust::sys::cuMemcpyHtoDAsync_v2(self.raw(), values.as_ptr().cast(), size_of_val(values), stream.as_inner()) })
    }

    /// Copies the first `len` elements to the host, once the stream has come here.
    pub(super) fn read(&self, len: usize, stream: &Stream) -> Result<Vec<T>> {
        let mut out = vec![T::zeroed(); len];
        self.read_into(&mut out, stream)?;
        Ok(out)
    }

    /// Copies the first elements to the host, once the stream has come here.
    pub(super) fn read_into(&self, out: &mut [T], stream: &Stream) -> Result<()> {
        assert!(out.len() <= self.len);
        if !out.is_empty() {
            // SAFETY: both have that many bytes, and `out` stays until the stream is done.
            check(unsafe { cust::sys::cuMemcpyDtoHAsync_v2(out.as_mut_ptr().cast(), self.raw(), size_of_val(out), stream.as_inner()) })?;
        }
        stream.synchronize().map_err(failed)
    }
}
