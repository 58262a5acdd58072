//! A trial begins on a machine that does nothing else: caches dropped and seen to be, devices quiet, memory there.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::target::PreparedTarget;
use fathom_base::units::{format_duration, format_ns, format_size};
use fathom_model::plan::setup::ArrayState;
use fathom_model::stack::Stack;
use fathom_sys::clock;
use fathom_sys::counters::{self, DiskCounters};
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Share of a file that may still be cached after the cache was dropped: pages that somebody holds.
const CACHED_SHARE_MAX: f64 = 0.01;

/// Share of the time for which a quiet device may be busy.
const BUSY_SHARE_MAX: f64 = 0.01;

/// Fewer requests than that are no load, however short the time is that is looked at.
const REQUESTS_MIN: u64 = 5;

/// How long waits go on before a signal is looked at.
const STEP: Duration = Duration::from_millis(20);

/// Waits; false when a stop was asked for.
pub(crate) fn wait(stop: &StopFlag, ns: u64) -> bool {
    let end_ns = clock::monotonic_ns().saturating_add(ns);
    loop {
        if stop.is_set() {
            return false;
        }
        let left_ns = end_ns.saturating_sub(clock::monotonic_ns());
        if left_ns == 0 {
            return true;
        }
        std::thread::sleep(STEP.min(Duration::from_nanos(left_ns)));
    }
}

/// What drops caches.
const DROP_CACHES: &str = "proc/sys/vm/drop_caches";

/// Brings everything dirty to the devices and drops the caches of the whole machine: data, names and inodes.
///
/// # Errors
/// Those of writing to the kernel's file: this user may not.
pub(crate) fn try_drop_caches(root: &SysRoot) -> io::Result<()> {
    fathom_sys::io::sync_all();
    OpenOptions::new().write(true).open(root.path(DROP_CACHES))?.write_all(b"3\n")
}

/// The same for experiments.
///
/// # Errors
/// [`LabError::Target`] when this user may not.
pub(crate) fn drop_caches(root: &SysRoot) -> Result<(), LabError> {
    try_drop_caches(root).map_err(|error| LabError::Target {
        path: root.path(DROP_CACHES),
        reason: format!(
            "the page cache cannot be dropped: {error}; run as root, or set drop_caches = false"
        ),
        class: ErrorClass::Missing,
    })
}

/// Why the cache counts as not dropped; none when it is.
pub(crate) fn still_cached<'t>(
    targets: impl Iterator<Item = &'t PreparedTarget>,
) -> Option<String> {
    for target in targets {
        // Of files that are kept in the cache by others too, nothing is expected.
        let Some((cached, size)) = target.cached_bytes() else { continue };
        if size > 0 && cached as f64 > size as f64 * CACHED_SHARE_MAX {
            return Some(format!(
                "the page cache was not dropped: {} of the {} of {} are still in it",
                format_size(cached),
                format_size(size),
                target.path_text()
            ));
        }
    }
    None
}

/// What the quiet check looks at.
pub(crate) struct Quiet<'a> {
    /// Kernel names of the devices of the stack.
    pub devices: &'a [String],
    /// How long they must have been quiet.
    pub quiet_ns: u64,
    /// How long to wait for that at the most.
    pub wait_ns: u64,
}

/// Waits until the devices are quiet; the cause when they never are.
pub(crate) fn wait_quiet(
    lab: &mut Lab<'_>,
    quiet: &Quiet<'_>,
    look: &mut dyn FnMut(&Lab<'_>) -> Option<String>,
) -> Result<Option<String>, LabError> {
    if quiet.quiet_ns == 0 {
        return Ok(None);
    }
    let end_ns = clock::monotonic_ns().saturating_add(quiet.wait_ns);
    let mut is_said = false;
    loop {
        let (before, begun_ns) = (readings(&lab.root, quiet.devices), clock::monotonic_ns());
        if !wait(&lab.stop, quiet.quiet_ns) {
            return Err(LabError::Interrupted);
        }
        let window_ns = clock::monotonic_ns() - begun_ns;
        let after = readings(&lab.root, quiet.devices);
        let Some(noise) = noise(&before, &after, window_ns).or_else(|| look(lab)) else {
            return Ok(None);
        };
        if clock::monotonic_ns() >= end_ns {
            let waited = format_duration(quiet.wait_ns);
            return Ok(Some(format!("not quiet within {waited}: {noise}")));
        }
        if !std::mem::replace(&mut is_said, true) {
            lab.note(format!("Waiting until it is quiet: {noise}."));
        }
    }
}

fn readings(root: &SysRoot, devices: &[String]) -> Vec<DiskCounters> {
    let mut all = counters::disk_counters(root);
    all.retain(|disk| devices.contains(&disk.name));
    all
}

fn noise(before: &[DiskCounters], after: &[DiskCounters], window_ns: u64) -> Option<String> {
    after.iter().find_map(|now| {
        let then = before.iter().find(|then| then.name == now.name)?;
        let requests = (now.reads + now.writes).saturating_sub(then.reads + then.writes);
        let busy_ns = now.busy_ms.saturating_sub(then.busy_ms).saturating_mul(1_000_000);
        let share = busy_ns as f64 / window_ns.max(1) as f64;
        (requests >= REQUESTS_MIN && share > BUSY_SHARE_MAX).then(|| {
            format!(
                "{} served {requests} requests of somebody else in {}",
                now.name,
                format_ns(window_ns)
            )
        })
    })
}

/// What else goes on in a stack that would be measured along: an array that is busy with itself though it should not be, inode
/// tables that are still being zeroed.
pub(crate) fn background(stack: &Stack, lab: &Lab<'_>, expected: ArrayState) -> Option<String> {
    let ids: &[&str] = match expected {
        ArrayState::Rebuilding | ArrayState::Checking => &["ext4-lazy-init"],
        _ => &["ext4-lazy-init", "md-sync-running"],
    };
    let findings = fathom_check::measuring::judge(stack, &lab.around);
    let found = findings.into_iter().find(|finding| ids.contains(&finding.id.as_str()))?;
    Some(found.summary.trim_end_matches('.').to_owned())
}

/// Why the array, of which a setup has one, is not in the state that it is to be measured in; none when it is.
pub(crate) fn lost_state(stacks: &[Stack], expected: ArrayState) -> Option<String> {
    let (wanted, words) = match expected {
        ArrayState::Rebuilding => ("recover", "rebuild"),
        ArrayState::Checking => ("check", "check"),
        ArrayState::Normal | ArrayState::Degraded => return None,
    };
    let nodes = stacks.iter().flat_map(Stack::walk);
    let mut actions = nodes.filter_map(|node| node.md.as_ref()?.sync_action.as_deref());
    let is_at_it = actions.any(|action| action == wanted);
    (!is_at_it).then(|| {
        format!(
            "the {words} of the array ended before the measurement did; use larger devices or shorter trials, or slow it: \
             md.sync_speed_max in [knobs], or /proc/sys/dev/raid/speed_limit_max"
        )
    })
}

/// What arrays lack, by name: to see whether a member failed meanwhile.
pub(crate) fn missing_members(stack: &Stack) -> Vec<(String, u32)> {
    let of = |node: &fathom_model::stack::Node| {
        let missing = node.md.as_ref()?.degraded?;
        Some((node.name.clone(), u32::try_from(missing).unwrap_or(u32::MAX)))
    };
    stack.walk().into_iter().filter_map(of).collect()
}

/// Processes that the kernel has killed for want of memory, on the machine and in the control group of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kills {
    machine: u64,
    group: u64,
}

impl Kills {
    /// As counted so far.
    pub fn now(root: &SysRoot) -> Self {
        let value = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        let vmstat = root.read("proc/vmstat").unwrap_or_default();
        let events = own_group(root)
            .map(|group| root.read(format!("{group}/memory.events")).unwrap_or_default());
        Self {
            machine: value(&vmstat, "oom_kill"),
            group: value(&events.unwrap_or_default(), "oom_kill"),
        }
    }

    /// Why a trial in between does not count.
    pub fn since(self, earlier: Self) -> Option<String> {
        (self != earlier).then(|| {
            "the kernel killed a process for want of memory during the trial (dmesg | grep -i oom names it)".to_owned()
        })
    }
}

/// The directory of this process's group in the second version of control groups.
fn own_group(root: &SysRoot) -> Option<String> {
    let groups = root.read("proc/self/cgroup").ok()?;
    let path =
        groups.lines().find_map(|line| line.strip_prefix("0::"))?.trim_matches('/').to_owned();
    let tops = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
    let found = tops
        .iter()
        .map(|top| Path::new(top).join(&path))
        .find(|dir| root.exists(dir.join("cgroup.procs")))?;
    Some(found.display().to_string())
}

/// Why too little memory is free; none when it is enough.
pub(crate) fn short_of_memory(lab: &Lab<'_>, floor_bytes: Option<u64>) -> Option<String> {
    let (floor, free) = (floor_bytes?, lab.free_memory_bytes());
    (free < floor).then(|| {
        format!(
            "only {} of memory are free, and memory_floor asks for {}",
            format_size(free),
            format_size(floor)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(requests: u64, busy_ms: u64) -> DiskCounters {
        DiskCounters {
            name: "sda".into(),
            reads: requests,
            read_sectors: 0,
            writes: 0,
            written_sectors: 0,
            in_flight: 0,
            busy_ms,
            in_flight_ms: None,
            flushes: None,
        }
    }

    #[test]
    fn a_few_requests_are_no_noise() {
        let of = |requests: u64, busy_ms: u64| {
            noise(&[disk(10, 5)], &[disk(10 + requests, 5 + busy_ms)], 1_000_000_000)
        };
        assert_eq!(of(0, 0), None);
        assert_eq!(of(4, 500), None, "a single slow one");
        assert_eq!(of(50, 5), None, "half a percent");
        assert!(of(50, 20).is_some_and(|text| text.starts_with("sda served 50 requests")));
    }
}
