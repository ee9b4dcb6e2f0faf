//! The clock of the events.

use rustix::time::{ClockId, clock_gettime};

/// Seconds of `CLOCK_MONOTONIC`, the clock of Python's `time.monotonic()`.
#[allow(clippy::cast_precision_loss)] // 53 bits hold a century of uptime to the microsecond
pub fn monotonic_s() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
