//! A trace that is read before anything else can be said or done: how far that is.

use super::progress_line::ProgressLine;
use crate::output::Output;
use fathom_base::units::{format_duration, format_size};
use fathom_observe::trace::so_far::SoFar;
use fathom_sys::clock;
use fathom_sys::signals::StopFlag;
use std::cell::{Cell, RefCell};
use std::path::Path;

/// What takes no longer is not told of.
const SOON_NS: u64 = 1_000_000_000;
/// Often enough for who looks on.
const STEP_NS: u64 = 250_000_000;

/// Tells how far the reading of a trace is. Dropping it takes the line away.
pub struct Reading<'a> {
    output: Output,
    stop: &'a StopFlag,
    trace: &'a Path,
    /// How often it is read.
    times: Cell<u64>,
    times_before: Cell<u64>,
    shown: RefCell<ProgressLine>,
    started_ns: u64,
    next_ns: Cell<u64>,
}

impl<'a> Reading<'a> {
    /// Of a trace that is read so many times.
    pub fn new(output: Output, stop: &'a StopFlag, trace: &'a Path, times: u64) -> Self {
        let started_ns = clock::monotonic_ns();
        let shown = RefCell::new(ProgressLine::soon(output, SOON_NS));
        let times = Cell::new(times);
        let (times_before, next_ns) = (Cell::new(0), Cell::new(started_ns + SOON_NS));
        Self { output, stop, trace, times, times_before, shown, started_ns, next_ns }
    }

    /// It is read once more from now on.
    pub fn once_more(&self) {
        self.times_before.set(self.times_before.get() + 1);
    }

    /// The same, and that was not known before.
    pub fn again(&self) {
        self.times.set(self.times.get() + 1);
        self.once_more();
    }

    /// Tells of it, and whether it is to go on.
    pub fn goes_on(&self, so_far: &SoFar) -> bool {
        self.tell(so_far);
        !self.stop.is_set()
    }

    /// Tells of it.
    pub fn tell(&self, so_far: &SoFar) {
        let now_ns = clock::monotonic_ns();
        if now_ns < self.next_ns.get() {
            return;
        }
        self.next_ns.set(now_ns + STEP_NS);
        let (done_bytes, each_bytes) = so_far.bytes();
        let done_bytes = self.times_before.get() * each_bytes + done_bytes;
        let left_ns = left_ns(now_ns - self.started_ns, done_bytes, self.times.get() * each_bytes);
        let _ = self.output.json(
            "trace_progress",
            &serde_json::json!({
                "trace": self.trace, "done_bytes": done_bytes, "total_bytes": self.times.get() * each_bytes, "left_ns": left_ns,
            }),
        );
        let name = self.trace.display().to_string();
        self.shown.borrow_mut().line(&line(
            &name,
            (done_bytes, each_bytes),
            self.times.get(),
            left_ns,
        ));
    }

    /// Takes the line away, for something else to be said.
    pub fn finish(&self) {
        self.shown.borrow().finish();
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// As long as nothing is read, nothing tells how fast it goes.
fn left_ns(took_ns: u64, done_bytes: u64, total_bytes: u64) -> Option<u64> {
    let left_bytes = total_bytes.saturating_sub(done_bytes);
    (done_bytes > 0).then(|| (took_ns as f64 * left_bytes as f64 / done_bytes as f64) as u64)
}

fn line(
    name: &str,
    (done_bytes, each_bytes): (u64, u64),
    times: u64,
    left_ns: Option<u64>,
) -> String {
    let percent = 100 * done_bytes / (times * each_bytes).max(1);
    let all = if times > 1 { "twice " } else { "" };
    let left = left_ns.map_or_else(String::new, |ns| format!(", {} left", format_duration(ns)));
    format!("reading {name}: {percent} % of {all}{}{left}", format_size(each_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_how_far_it_is_and_how_long_it_takes() {
        let (done, each) = (1 << 30, 2 << 30);
        let left = left_ns(60_000_000_000, done, 2 * each);
        assert_eq!(left, Some(180_000_000_000));
        let text = line("day.trace", (done, each), 2, left);
        assert_eq!(text, "reading day.trace: 25 % of twice 2 GiB, 3 min 00 s left");
        let text = line("day.trace", (each, each), 1, left_ns(5, each, each));
        assert_eq!(text, "reading day.trace: 100 % of 2 GiB, 0 s left");
        assert_eq!(line("x", (0, 0), 2, left_ns(5, 0, 0)), "reading x: 0 % of twice 0 B");
    }
}
