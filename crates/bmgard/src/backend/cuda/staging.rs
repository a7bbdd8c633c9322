//! Copies between the host's memory and the device's through page-locked memory, which the device reads and writes by itself.

use cust::error::CudaResult;
use cust::event::{Event, EventFlags};
use cust::memory::LockedBuffer;
use cust::stream::Stream;
use rayon::prelude::*;

use super::failed;
use super::memory::check;
use crate::Result;

/// Bytes of each of the two buffers.
const HALF: usize = 32 << 20;
/// Copies that are smaller go directly; what a thread copies at once.
const SMALL: usize = 1 << 20;
/// Pieces that a copy is made of, if they are neither small nor larger than a buffer: the first and the last overlap with nothing.
const PIECES: usize = 8;

/// One of two buffers.
struct Half {
    memory: LockedBuffer<u8>,
    /// When the device is done with it.
    done: Event,
}

impl Half {
    fn two() -> CudaResult<Vec<Self>> {
        let half = || Ok(Self { memory: LockedBuffer::new(&0, HALF)?, done: Event::new(EventFlags::DISABLE_TIMING)? });
        Ok(vec![half()?, half()?])
    }

    fn wait(&self) -> Result<()> {
        self.done.synchronize().map_err(failed)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        // The device may be copying still. An error is one that whoever waits for the stream sees.
        let _ = self.done.synchronize();
    }
}

/// Page-locked memory for copies, allocated by the first that is not small, and kept.
#[derive(Default)]
pub(super) struct Staging {
    /// Two; none where they cannot be had.
    halves: Option<Vec<Half>>,
}

impl Staging {
    /// Copies to the device, in the order of the stream. `host` has been read when it returns, unless it is page-locked itself and goes
    /// directly: then it must stay until the stream is done.
    pub(super) fn upload(&mut self, host: &[u8], address: u64, stream: &Stream) -> Result<()> {
        let Some(halves) = self.halves(host.len()) else { return upload(host, address, stream) };
        let size = piece(host.len());
        for (index, bytes) in host.chunks(size).enumerate() {
            let half = &mut halves[index % 2];
            half.wait()?;
            copy(bytes, &mut half.memory[..bytes.len()]);
            upload(&half.memory[..bytes.len()], address + (index * size) as u64, stream)?;
            half.done.record(stream).map_err(failed)?;
        }
        Ok(())
    }

    /// Copies to the host, once the stream has come here; `host` is filled when it returns.
    pub(super) fn download(&mut self, address: u64, host: &mut [u8], stream: &Stream) -> Result<()> {
        let Some(halves) = self.halves(host.len()) else {
            download(address, host, stream)?;
            return stream.synchronize().map_err(failed);
        };
        let size = piece(host.len());
        let mut under_way: Option<(usize, &mut [u8])> = None;
        let finish = |halves: &[Half], (index, out): (usize, &mut [u8])| {
            halves[index].wait()?;
            copy(&halves[index].memory[..out.len()], out);
            Ok(())
        };
        for (index, out) in host.chunks_mut(size).enumerate() {
            let half = &mut halves[index % 2];
            half.wait()?;
            download(address + (index * size) as u64, &mut half.memory[..out.len()], stream)?;
            half.done.record(stream).map_err(failed)?;
            // The piece before this one, while the device copies this one.
            under_way.replace((index % 2, out)).map_or(Ok(()), |before| finish(halves, before))?;
        }
        under_way.map_or(Ok(()), |last| finish(halves, last))
    }

    /// The buffers for a copy of `len` bytes, or `None` where it goes directly.
    fn halves(&mut self, len: usize) -> Option<&mut [Half]> {
        if len < SMALL {
            return None;
        }
        let halves = self.halves.get_or_insert_with(|| Half::two().unwrap_or_default());
        (!halves.is_empty()).then_some(halves)
    }
}

/// Bytes of a piece of a copy.
fn piece(len: usize) -> usize {
    len.div_ceil(PIECES).next_multiple_of(SMALL).min(HALF)
}

/// Copies between two places of the host, by all threads.
fn copy(from: &[u8], to: &mut [u8]) {
    to.par_chunks_mut(SMALL).zip(from.par_chunks(SMALL)).for_each(|(to, from)| to.copy_from_slice(from));
}

/// Queues a copy to the device. The driver has read pageable memory when it returns.
fn upload(host: &[u8], address: u64, stream: &Stream) -> Result<()> {
    if host.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's address has room for that many bytes.
    check(unsafe { cust::sys::cuMemcpyHtoDAsync_v2(address, host.as_ptr().cast(), host.len(), stream.as_inner()) })
}

/// Queues a copy to the host, whose memory stays until the stream is done.
fn download(address: u64, host: &mut [u8], stream: &Stream) -> Result<()> {
    if host.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's address has that many bytes.
    check(unsafe { cust::sys::cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), address, host.len(), stream.as_inner()) })
}
