//! The fast monotonic clock: the processor's time-stamp counter where the kernel itself trusts it, else
//! `CLOCK_MONOTONIC`.

use fathom_base::clock::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A clock that threads share by copying.
#[derive(Debug, Clone, Copy)]
pub struct FastClock {
    tsc: Option<Tsc>,
}

/// Counter to nanoseconds: `ns = base_ns + (counter - base) * multiplier / 2^32`.
#[derive(Debug, Clone, Copy)]
struct Tsc {
    base: u64,
    base_ns: u64,
    multiplier: u64,
}

/// Calibration: long enough for an error of a few parts in a million (two reads of 30 ns each in 10 ms).
const CALIBRATION: Duration = Duration::from_millis(10);

impl FastClock {
    /// Calibrates the counter against `CLOCK_MONOTONIC` (takes 10 ms), or falls back to that clock when the kernel
    /// does not use the counter as its clock source.
    #[must_use]
    pub fn calibrated(clock_source: Option<&str>) -> Self {
        let tsc = (clock_source == Some("tsc")).then(calibrate).flatten();
        Self { tsc }
    }

    /// `CLOCK_MONOTONIC` only.
    #[must_use]
    pub fn monotonic() -> Self {
        Self { tsc: None }
    }

    /// `tsc` or `clock_monotonic`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        if self.tsc.is_some() { "tsc" } else { "clock_monotonic" }
    }
}

impl Clock for FastClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        match self.tsc {
            Some(tsc) => {
                let passed = counter().wrapping_sub(tsc.base);
                tsc.base_ns + ((u128::from(passed) * u128::from(tsc.multiplier)) >> 32) as u64
            }
            None => monotonic_ns(),
        }
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    ns_of(ClockId::Monotonic)
}

/// `CLOCK_BOOTTIME` in nanoseconds: like the monotonic clock, but goes on while the machine is suspended.
#[must_use]
pub fn boottime_ns() -> u64 {
    ns_of(ClockId::Boottime)
}

/// UTC in nanoseconds since 1970.
#[must_use]
pub fn unix_ns() -> i64 {
    ns_of(ClockId::Realtime) as i64
}

fn ns_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: reading the time-stamp counter has no effect on memory; every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter() -> u64 {
    0
}

/// A pair of counter and clock read as close together as possible: the tightest of several tries.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let (before, now_ns, after) = (counter(), monotonic_ns(), counter());
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), now_ns);
        }
    }
    (best.1, best.2)
}

fn calibrate() -> Option<Tsc> {
    let (start, start_ns) = pair();
    std::thread::sleep(CALIBRATION);
    let (end, end_ns) = pair();
    let ticks = end.checked_sub(start).filter(|t| *t > 0)?;
    let multiplier = (u128::from(end_ns - start_ns) << 32) / u128::from(ticks);
    Some(Tsc { base: end, base_ns: end_ns, multiplier: u64::try_from(multiplier).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_agrees_with_the_kernel_clock() {
        let clock = FastClock::calibrated(Some("tsc"));
        let (a, a_ns) = (clock.now_ns(), monotonic_ns());
        std::thread::sleep(Duration::from_millis(200));
        let (b, b_ns) = (clock.now_ns(), monotonic_ns());
        let ratio = (b - a) as f64 / (b_ns - a_ns) as f64;
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
        assert!(b > a);
    }

    #[test]
    fn other_clock_sources_fall_back() {
        assert_eq!(FastClock::calibrated(Some("hpet")).source(), "clock_monotonic");
        assert_eq!(FastClock::calibrated(None).source(), "clock_monotonic");
        let monotonic = monotonic_ns();
        assert!(boottime_ns() >= monotonic);
    }
}
