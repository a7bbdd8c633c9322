//! Places in streams.

use cust::stream::Stream;
use cust::sys;

use super::memory::check;
use crate::Result;

/// A place in a stream, which other streams and the host can wait for. (`cust`'s own gives itself away to the first who waits.)
pub(crate) struct Event(sys::CUevent);

// SAFETY: a handle of the driver, which may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// An event without times: nobody waits for what was not recorded yet.
    pub(super) fn new() -> Result<Self> {
        Self::with(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    /// An event with a time.
    pub(super) fn timed() -> Result<Self> {
        Self::with(sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// Seconds from another event to this one; both have times, and have passed.
    pub(super) fn seconds_since(&self, start: &Self) -> Result<f64> {
        let mut milliseconds = 0f32;
        // SAFETY: both are the driver's, which fills the number.
        check(unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, start.0, self.0) })?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    fn with(flags: sys::CUevent_flags) -> Result<Self> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the driver fills the handle.
        check(unsafe { sys::cuEventCreate(&raw mut event, flags as u32) })?;
        Ok(Self(event))
    }

    /// Marks what was queued on the stream so far.
    pub(super) fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are the driver's.
        check(unsafe { sys::cuEventRecord(self.0, stream.as_inner()) })
    }

    /// Makes what is queued on the stream from now on wait.
    pub(super) fn hold(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are the driver's.
        check(unsafe { sys::cuStreamWaitEvent(stream.as_inner(), self.0, 0) })
    }

    /// Makes the host wait.
    pub(super) fn synchronize(&self) -> Result<()> {
        // SAFETY: it is the driver's.
        check(unsafe { sys::cuEventSynchronize(self.0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is the driver's, which keeps it as long as it must; an error is one that whoever waits sees.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
