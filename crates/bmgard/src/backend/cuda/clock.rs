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

/// Times are no reason to fail: what goes wrong here, whoever waits for the work sees too.
impl Cuda {
    /// Says that a chunk's values are, or will be, in the device's memory: waits for them.
    pub(super) fn clock_start(&self) {
        let start = || -> Result<(Instant, Event)> {
            self.stream.synchronize().map_err(failed)?;
            let event = Event::timed()?;
            event.record(&self.stream)?;
            Ok((Instant::now(), event))
        };
        self.clock.borrow_mut().started = start().ok();
    }

    /// Says that all of a chunk's kernels are queued: waits for them.
    pub(super) fn clock_stop(&self) {
        let Some((start, first)) = self.clock.borrow_mut().started.take() else { return };
        let stop = || -> Result<f64> {
            self.join()?;
            let last = Event::timed()?;
            last.record(&self.stream)?;
            last.synchronize()?;
            last.seconds_since(&first)
        };
        if let Ok(kernels) = stop() {
            let seconds = &mut self.clock.borrow_mut().seconds;
            seconds.kernels += kernels;
            seconds.device += start.elapsed().as_secs_f64();
        }
    }

    /// The seconds since it was asked before.
    pub(crate) fn take_seconds(&self) -> DeviceSeconds {
        std::mem::take(&mut self.clock.borrow_mut().seconds)
    }
}
