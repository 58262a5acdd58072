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
const CALIBRATION_NS: u64 = 10_000_000;

/// The first of the two readings that a calibration compares. Taken early, the work in between is the wait.
#[derive(Debug, Clone, Copy)]
pub struct Calibration {
    start: u64,
    start_ns: u64,
}

impl Calibration {
    /// Takes the first reading.
    #[must_use]
    pub fn begin() -> Self {
        let (start, start_ns) = pair();
        Self { start, start_ns }
    }

    /// Takes the second reading, 10 ms after the first at the earliest.
    fn end(self) -> Option<Tsc> {
        let passed_ns = monotonic_ns().saturating_sub(self.start_ns);
        std::thread::sleep(Duration::from_nanos(CALIBRATION_NS.saturating_sub(passed_ns)));
        let (end, end_ns) = pair();
        let ticks = end.checked_sub(self.start).filter(|t| *t > 0)?;
        let multiplier = (u128::from(end_ns - self.start_ns) << 32) / u128::from(ticks);
        Some(Tsc { base: end, base_ns: end_ns, multiplier: u64::try_from(multiplier).ok()? })
    }
}

impl FastClock {
    /// Calibrates the counter against `CLOCK_MONOTONIC` (takes what is left of 10 ms since `begun`), or falls back to
    /// that clock when the kernel does not use the counter as its clock source.
    #[must_use]
    pub fn calibrated(begun: Calibration, clock_source: Option<&str>) -> Self {
        let tsc = (clock_source == Some("tsc")).then(|| begun.end()).flatten();
        Self { tsc }
    }

    /// `CLOCK_MONOTONIC` only.
    #[must_use]
    pub fn monotonic() -> Self {
        Self { tsc: None }
    }

    /// How fast the processor's counter runs, in kHz; none where that is not used.
    #[must_use]
    pub fn counter_khz(&self) -> Option<u64> {
        const NS_OF_A_MILLISECOND: u128 = 1_000_000;
        let multiplier = u128::from(self.tsc?.multiplier).max(1);
        u64::try_from((NS_OF_A_MILLISECOND << 32) / multiplier).ok()
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

/// Time this machine has been suspended since it booted, in nanoseconds: `CLOCK_BOOTTIME`, which goes on meanwhile, less
/// `CLOCK_MONOTONIC`, which does not.
///
/// The two cannot be read at one instant, and a thread that loses its processor between them would take the wait for a
/// suspension. So the first is read between two readings of the second, until these lie close together; the tightest of
/// the tries counts, and its width bounds the error.
#[must_use]
pub fn suspended_ns() -> u64 {
    tightest_difference(monotonic_ns, || ns_of(ClockId::Boottime))
}

/// `outer` is read before and after `other`; what the second is ahead of the first, by the tightest of a few tries.
fn tightest_difference(mut outer: impl FnMut() -> u64, mut other: impl FnMut() -> u64) -> u64 {
    const TIGHT_NS: u64 = 100_000;
    const TRIES: usize = 64;
    let mut best = (u64::MAX, 0);
    for _ in 0..TRIES {
        let (before_ns, other_ns, after_ns) = (outer(), other(), outer());
        let width_ns = after_ns.saturating_sub(before_ns);
        if width_ns < best.0 {
            best = (width_ns, other_ns.saturating_sub(before_ns + width_ns / 2));
        }
        if width_ns <= TIGHT_NS {
            break;
        }
    }
    best.1
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_agrees_with_the_kernel_clock() {
        let clock = FastClock::calibrated(Calibration::begin(), Some("tsc"));
        let (a, a_ns, a_counter) = (clock.now_ns(), monotonic_ns(), counter());
        std::thread::sleep(Duration::from_millis(200));
        let (b, b_ns, b_counter) = (clock.now_ns(), monotonic_ns(), counter());
        let khz = (b_counter - a_counter) as f64 * 1e6 / (b_ns - a_ns) as f64;
        let ratio = clock.counter_khz().expect("it is used") as f64 / khz;
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
        let ratio = (b - a) as f64 / (b_ns - a_ns) as f64;
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
        assert!(b > a);
    }

    #[test]
    fn other_clock_sources_fall_back() {
        assert_eq!(
            FastClock::calibrated(Calibration::begin(), Some("hpet")).source(),
            "clock_monotonic"
        );
        assert_eq!(FastClock::calibrated(Calibration::begin(), None).source(), "clock_monotonic");
    }

    #[test]
    fn a_lost_processor_is_no_suspension() {
        // Slept 5 s; between the first pair of readings the thread waits for 1.1 s, once before and once after the other.
        for waits in [[1_100_000_000, 0], [0, 1_100_000_000]] {
            let now = std::cell::Cell::new(1_000_000_000_u64);
            let mut waits = waits.into_iter();
            let mut pass = || {
                let read = now.get();
                now.set(read + 50 + waits.next().unwrap_or(0));
                read
            };
            let difference = tightest_difference(&mut pass, || {
                let read = now.get();
                now.set(read + 50 + if read > 2_000_000_000 { 0 } else { 1_000 });
                read + 5_000_000_000
            });
            assert!(difference.abs_diff(5_000_000_000) < 1_000, "{difference}");
        }
        // Never tight: the tightest counts.
        let now = std::cell::Cell::new(0_u64);
        let widths = std::cell::Cell::new(100_u64);
        let difference = tightest_difference(
            || {
                widths.set(widths.get() - 1);
                now.set(now.get() + widths.get() * 1_000_000);
                now.get()
            },
            || now.get() + 7,
        );
        assert!(difference < 200_000_000, "{difference}");
    }

    #[test]
    fn the_real_clocks_differ_by_whole_sleeps_only() {
        // Other programs may come between the readings of the two clocks, on a busy machine.
        let first = suspended_ns();
        std::thread::sleep(Duration::from_millis(20));
        assert!(suspended_ns().abs_diff(first) < 500_000_000);
    }
}
