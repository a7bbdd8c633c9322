//! What a compression of values in the host's memory spends on the device.

use std::time::Instant;

use super::event::Event;
use super::{Cuda, failed};
use crate::{DeviceSeconds, Result};

/// Seconds so far, and the start of what is under way.
#[derive(Default)]
pub(super) struct Clock {
    started: Option<(Instant, Event)>,
    seconds: DeviceSeconds,
}

impl Cuda {
    /// Says that a chunk's values are, or will be, in the device's memory: waits for them.
    pub(super) fn clock_start(&self) -> Result<()> {
        self.stream.synchronize().map_err(failed)?;
        let event = Event::timed()?;
        event.record(&self.stream)?;
        self.clock.borrow_mut().started = Some((Instant::now(), event));
        Ok(())
    }

    /// Says that all of a chunk's kernels are queued: waits for them.
    pub(super) fn clock_stop(&self) -> Result<()> {
        let Some((start, first)) = self.clock.borrow_mut().started.take() else { return Ok(()) };
        self.join()?;
        let last = Event::timed()?;
        last.record(&self.stream)?;
        last.synchronize()?;
        let seconds = &mut self.clock.borrow_mut().seconds;
        seconds.kernels += last.seconds_since(&first)?;
        seconds.device += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// The seconds since it was asked before.
    pub(crate) fn take_seconds(&self) -> DeviceSeconds {
        std::mem::take(&mut self.clock.borrow_mut().seconds)
    }
}
