//! Repeated measurements.

use std::fmt;
use std::time::Instant;

use serde::Serialize;

use crate::failure::Outcome;
use crate::report;

/// Seconds and speeds of one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Timing {
    /// Of the median run.
    pub median_seconds: f64,
    /// Of the fastest run.
    pub min_seconds: f64,
    /// Of the slowest run.
    pub max_seconds: f64,
    /// GB/s of original data in the median run.
    pub median_gb_s: f64,
    /// In the slowest run.
    pub min_gb_s: f64,
    /// In the fastest run.
    pub max_gb_s: f64,
}

impl Timing {
    /// Runs once to warm up and then `repeat` times.
    pub fn of(bytes: u64, repeat: u32, mut work: impl FnMut() -> Outcome) -> Outcome<Self> {
        work()?;
        let mut seconds = Vec::new();
        for _ in 0..repeat {
            let start = Instant::now();
            work()?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(Self::new(bytes, seconds))
    }

    /// Of runs that took so long.
    pub fn new(bytes: u64, mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let middle = seconds.len() / 2;
        let median = if seconds.len() % 2 == 1 { seconds[middle] } else { (seconds[middle - 1] + seconds[middle]) / 2.0 };
        let (min, max) = (seconds[0], seconds[seconds.len() - 1]);
        let speed = |seconds| report::gb_per_second(bytes, seconds);
        Self {
            median_seconds: median,
            min_seconds: min,
            max_seconds: max,
            median_gb_s: speed(median),
            min_gb_s: speed(max),
            max_gb_s: speed(min),
        }
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.median_gb_s, self.min_gb_s, self.max_gb_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let odd = Timing::new(3_000_000_000, vec![3.0, 1.0, 2.0]);
        assert_eq!((odd.median_seconds, odd.min_seconds, odd.max_seconds), (2.0, 1.0, 3.0));
        assert_eq!((odd.median_gb_s, odd.min_gb_s, odd.max_gb_s), (1.5, 1.0, 3.0));
        assert_eq!(Timing::new(1, vec![4.0, 1.0]).median_seconds, 2.5);
    }
}
