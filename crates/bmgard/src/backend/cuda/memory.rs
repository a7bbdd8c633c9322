//! Device memory that is kept for the next call.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::{Pod, Zeroable};
use cust::error::{CudaError, CudaResult};
use cust::memory::{DeviceBuffer, DeviceCopy, DevicePointer};
use cust::stream::Stream;

use super::failed;
use crate::{Error, Result};

/// Memory that was allocated and is kept.
#[derive(Default)]
pub(super) struct Pool {
    /// What no buffer uses at the moment.
    free: Mutex<Vec<DeviceBuffer<u64>>>,
    /// How often memory was allocated, and the bytes of all that is kept or in use.
    allocations: AtomicU64,
    bytes: AtomicU64,
}

impl Pool {
    /// Memory for at least `words` words: the smallest piece that is not more than twice as large, else a new one.
    fn take(&self, words: usize) -> CudaResult<DeviceBuffer<u64>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |piece: &DeviceBuffer<u64>| (words..=2 * words + 4096).contains(&piece.len());
        let best = free.iter().enumerate().filter(|(_, piece)| fits(piece)).min_by_key(|(_, piece)| piece.len()).map(|(index, _)| index);
        if let Some(index) = best {
            return Ok(free.swap_remove(index));
        }
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(words as u64 * 8, Ordering::Relaxed);
        // SAFETY: whoever takes memory writes it before it is read.
        match unsafe { DeviceBuffer::uninitialized(words) } {
            Err(CudaError::OutOfMemory) if !free.is_empty() => {
                // What is kept for later may be what is missing now.
                let kept: usize = free.drain(..).map(|piece| piece.len()).sum();
                self.bytes.fetch_sub(kept as u64 * 8, Ordering::Relaxed);
                // SAFETY: as above.
                unsafe { DeviceBuffer::uninitialized(words) }
            }
            result => result,
        }
    }

    /// How often memory was allocated so far, and how many bytes there are.
    pub(super) fn usage(&self) -> (u64, u64) {
        (self.allocations.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// An array on the device. Its memory goes back to the pool, if it came from there.
pub(crate) struct Buffer<T> {
    address: u64,
    len: usize,
    owned: Option<(DeviceBuffer<u64>, Arc<Pool>)>,
    element: PhantomData<T>,
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some((words, pool)) = self.owned.take() {
            pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(words);
        }
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
        let words = pool.take((len * size_of::<T>()).div_ceil(8).max(1)).map_err(failed)?;
        Ok(Self { address: words.as_device_ptr().as_raw(), len, owned: Some((words, Arc::clone(pool))), element: PhantomData })
    }

    /// The caller's array, which outlives this one.
    pub(super) fn borrowed(address: u64, len: usize) -> Self {
        Self { address, len, owned: None, element: PhantomData }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The array's address.
    pub(crate) fn pointer(&self) -> DevicePointer<T> {
        DevicePointer::from_raw(self.address)
    }

    fn raw(&self) -> u64 {
        self.address
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
