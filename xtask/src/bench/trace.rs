//! The kernel's own stamps of block requests: a tracing instance of our own on the processor's time-stamp counter,
//! and the line that takes that counter to the time of day.

use super::place::Janitor;
use super::tools::unix_ns;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One request as the block layer saw it, in ticks of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Handed to the driver.
    pub issue: u64,
    /// Completed by the driver.
    pub complete: u64,
    /// Where, in units of 512 bytes.
    pub sector: u64,
}

/// A tracing instance; taken down when it is dropped.
pub struct Trace {
    instance: PathBuf,
    _janitor: Janitor,
}

const EVENTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];
/// Marks at each end of a trace: the tightest of them are nearly free of interruptions.
const MARKS: usize = 200;
const MARK: &str = "fathom-bench";

impl Trace {
    /// Traces the requests of the device `major:minor`; tracefs is mounted on a new directory `mount`.
    ///
    /// # Errors
    /// In words, when the kernel or the rights do not allow it.
    pub fn new(mount: &Path, (major, minor): (u32, u32)) -> Result<Self, String> {
        fs::create_dir_all(mount).map_err(|error| format!("{}: {error}", mount.display()))?;
        let instance = mount.join(format!("instances/fathom-bench-{}", std::process::id()));
        let janitor = Janitor::new(format!(
            "{{ test ! -d '{i}' || rmdir '{i}'; }} && {{ ! mountpoint -q '{m}' || umount '{m}'; }} && rmdir '{m}'",
            i = instance.display(),
            m = mount.display()
        ))?;
        let status = Command::new("mount").args(["-t", "tracefs", "nodev"]).arg(mount).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("tracefs cannot be mounted".to_owned());
        }
        let trace = Self { instance, _janitor: janitor };
        let fail = |error: std::io::Error| format!("{}: {error}", trace.instance.display());
        fs::create_dir(&trace.instance).map_err(fail)?;
        // The kernel has 20 bits for the minor number, its own form of a device number here.
        let device = (u64::from(major) << 20) | u64::from(minor);
        trace.set("trace_clock", "x86-tsc")?;
        for event in EVENTS {
            trace.set(&format!("events/block/{event}/filter"), &format!("dev == {device}"))?;
            trace.set(&format!("events/block/{event}/enable"), "1")?;
        }
        Ok(trace)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        fs::write(self.instance.join(name), value).map_err(|error| format!("{name}: {error}"))
    }

    /// Traces while `body` runs.
    ///
    /// # Errors
    /// Those of `body`, and when the trace cannot be read.
    pub fn during<T>(
        &self,
        body: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, Vec<Request>, Scale), String> {
        self.set("trace", "")?;
        let mut marks = self.mark()?;
        let result = body()?;
        marks.extend(self.mark()?);
        let text = fs::read_to_string(self.instance.join("trace")).map_err(|e| e.to_string())?;
        let events: Vec<Event<'_>> = text.lines().filter_map(Event::parse).collect();
        let ticks: Vec<u64> = events.iter().filter(|e| e.name == "mark").map(|e| e.tick).collect();
        if ticks.len() != marks.len() {
            return Err(format!("{} of {} marks are in the trace", ticks.len(), marks.len()));
        }
        let scale = Scale::of(&ticks, &marks).ok_or("the marks in the trace make no line")?;
        Ok((result, requests(&events), scale))
    }

    /// Writes marks into the trace; gives the time of day just before and after each.
    fn mark(&self) -> Result<Vec<(i64, i64)>, String> {
        let fail = |error: std::io::Error| format!("trace_marker: {error}");
        let path = self.instance.join("trace_marker");
        let mut marker = File::options().write(true).open(path).map_err(fail)?;
        let mut marks = Vec::with_capacity(MARKS);
        for _ in 0..MARKS {
            let before_ns = unix_ns();
            marker.write_all(MARK.as_bytes()).map_err(fail)?;
            marks.push((before_ns, unix_ns()));
        }
        Ok(marks)
    }
}

/// A line of the trace.
struct Event<'a> {
    name: &'a str,
    tick: u64,
    sector: u64,
}

impl<'a> Event<'a> {
    /// `fio-12 [001] d..1. 123456789: block_rq_issue: 7,0 RA 4096 () 1024 + 8 none,0,0 [fio]`; the requests' operation
    /// may hold several letters, and the part in parentheses may not be empty.
    fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let mut parts = line.splitn(3, ": ");
        let (head, name, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let tick = head.split_whitespace().last()?.parse().ok()?;
        if name == "tracing_mark_write" {
            return (rest.trim() == MARK).then_some(Self { name: "mark", tick, sector: 0 });
        }
        let (_, place) = rest.split_once(") ")?;
        let sector = place.split(" + ").next()?.parse().ok()?;
        EVENTS.contains(&name).then_some(Self { name, tick, sector })
    }
}

/// Issues with the completion that follows each at the same sector.
fn requests(events: &[Event<'_>]) -> Vec<Request> {
    let mut requests = Vec::new();
    for (index, issue) in events.iter().enumerate().filter(|(_, e)| e.name == EVENTS[0]) {
        let later = &events[index + 1..];
        let complete = later.iter().find(|e| e.name == EVENTS[1] && e.sector == issue.sector);
        if let Some(complete) = complete {
            let Event { tick, sector, .. } = *issue;
            requests.push(Request { issue: tick, complete: complete.tick, sector });
        }
    }
    requests
}

/// From ticks to the time of day.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    tick: u64,
    unix_ns: i64,
    ns_per_tick: f64,
    /// Half the width of the tightest marks: how far the line may be off, in nanoseconds.
    pub error_ns: f64,
}

impl Scale {
    /// Through the tightest mark of the first and of the second half.
    fn of(ticks: &[u64], marks: &[(i64, i64)]) -> Option<Self> {
        let both: Vec<(u64, (i64, i64))> =
            ticks.iter().copied().zip(marks.iter().copied()).collect();
        let (first, second) = both.split_at(both.len() / 2);
        let width = |mark: &(u64, (i64, i64))| mark.1.1 - mark.1.0;
        let middle_ns = |mark: &(u64, (i64, i64))| mark.1.0 + width(mark) / 2;
        let first = first.iter().min_by_key(|mark| width(mark))?;
        let second = second.iter().min_by_key(|mark| width(mark))?;
        let passed = second.0.checked_sub(first.0).filter(|ticks| *ticks > 0)?;
        Some(Self {
            tick: first.0,
            unix_ns: middle_ns(first),
            ns_per_tick: (middle_ns(second) - middle_ns(first)) as f64 / passed as f64,
            error_ns: width(first).max(width(second)) as f64 / 2.0,
        })
    }

    /// A tick is a nanosecond since 1970.
    #[cfg(test)]
    pub fn for_test() -> Self {
        Self { tick: 0, unix_ns: 0, ns_per_tick: 1.0, error_ns: 0.0 }
    }

    /// UTC, nanoseconds since 1970.
    #[must_use]
    pub fn unix_ns(&self, tick: u64) -> i64 {
        let passed = tick as i64 - self.tick as i64;
        self.unix_ns + (passed as f64 * self.ns_per_tick).round() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "# tracer: nop\n\
        \x20  xtask-7    [000] .....  1000: tracing_mark_write: fathom-bench\n\
        \x20  fathom-9   [000] d..1.  1500: block_rq_issue: 7,0 R 4096 () 1024 + 8 none,0,0 [fathom-read 0]\n\
        \x20  fathom-9   [000] d..1.  1600: block_rq_issue: 7,0 RS 4096 () 64 + 8 none,0,0 [fathom]\n\
        \x20  kworker/u8:2-8  [001] d..1.  2600: block_rq_complete: 7,0 R () 1024 + 8 none,0,0 [0]\n\
        \x20  fathom-9   [000] d..1.  2700: block_rq_issue: 7,0 R 4096 () 1024 + 8 none,0,0 [fathom]\n\
        \x20  xtask-7    [000] .....  3000: tracing_mark_write: fathom-bench\n";

    #[test]
    fn issues_meet_their_completions() {
        let events: Vec<Event<'_>> = LINES.lines().filter_map(Event::parse).collect();
        assert_eq!(events.len(), 6);
        // One of two issues at the same sector never completed, and another sector neither.
        assert_eq!(requests(&events), [Request { issue: 1500, complete: 2600, sector: 1024 }]);
    }

    #[test]
    fn ticks_become_time_of_day_by_the_tightest_marks() {
        let marks = [(5_000, 9_000), (6_990, 7_010), (7_980, 8_020), (8_000, 20_000)];
        let scale = Scale::of(&[2_000, 3_000, 5_000, 6_000], &marks).unwrap();
        assert_eq!(scale.unix_ns(3_000), 7_000);
        assert_eq!(scale.unix_ns(4_000), 7_500);
        assert_eq!(scale.unix_ns(2_000), 6_500);
        assert_eq!(scale.error_ns, 20.0);
        assert!(Scale::of(&[], &[]).is_none());
    }
}
