//! Work on storage that goes on or is about to start.

use super::is_physical;
use crate::known::{WATCHERS, work_of_timer};
use crate::scene::Scene;
use fathom_base::order::Order;
use fathom_base::units::{format_count, format_duration, format_rate};
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::NodeKind;
use fathom_model::system::Timer;

const HOUR_S: i64 = 3600;

/// How long before its start something is told: what takes hours a day, what takes minutes an hour.
fn told_before_s(kind: &str) -> Option<i64> {
    match kind {
        "md-check" | "scrub" | "backup" | "smart-test" => Some(24 * HOUR_S),
        "trim" | "locate" | "other" => Some(HOUR_S),
        _ => None,
    }
}

/// True when there is something that the timer would work on.
fn has_work(scene: &Scene<'_>, timer: &Timer) -> bool {
    match timer.kind.as_str() {
        "md-check" => scene.nodes(&[NodeKind::Md]).any(|(_, node)| {
            node.md
                .as_ref()
                .and_then(|md| md.level.as_deref())
                .is_some_and(|level| level != "raid0")
        }),
        // e2scrub works on snapshots of logical volumes.
        "scrub" if timer.name.contains("e2scrub") => {
            scene.nodes(&[NodeKind::Dm]).any(|(index, node)| {
                let is_volume = node
                    .dm
                    .as_ref()
                    .and_then(|dm| dm.uuid.as_deref())
                    .is_some_and(|uuid| uuid.starts_with("LVM-"));
                is_volume && scene.above(index).any(|(_, above)| above.name.starts_with("ext"))
            })
        }
        "scrub" => scene
            .nodes(&[NodeKind::FileSystem])
            .any(|(_, node)| ["btrfs", "xfs", "zfs"].contains(&node.name.as_str())),
        "smart-test" => scene.nodes(&[NodeKind::Disk]).any(|(_, node)| is_physical(node)),
        _ => true,
    }
}

/// Timers and cron jobs that start soon.
pub(super) fn soon(scene: &Scene<'_>) -> Vec<Defect> {
    let now = scene.snapshot.made_at_unix_s;
    let mut starts: Vec<(i64, &Timer)> = Vec::new();
    for timer in scene.snapshot.system.timers.iter().filter(|timer| timer.enabled) {
        let (Some(next), Some(before_s)) = (timer.next_unix_s, told_before_s(&timer.kind)) else {
            continue;
        };
        let in_s = next.saturating_sub(now);
        if (0..=before_s).contains(&in_s) && has_work(scene, timer) {
            starts.push((in_s, timer));
        }
    }
    starts.order_by_key(|(in_s, timer)| (*in_s, timer.name.as_str()));
    let Some((first_s, first)) = starts.first() else { return Vec::new() };
    let span = |in_s: i64| format_duration(in_s.unsigned_abs().saturating_mul(1_000_000_000));
    let others = match starts.len() - 1 {
        0 => String::new(),
        more => format!(", {more} more within a day"),
    };
    let summary = format!(
        "{} ({}) starts in {}{others}",
        first.name,
        work_of_timer(&first.kind).unwrap_or("work on storage"),
        span(*first_s)
    );
    let mut defect = Defect::new("maintenance-soon", Gravity::Low, None, summary);
    for (in_s, timer) in &starts {
        defect = defect.seen(timer.file.clone(), format!("{}: in {}", timer.schedule, span(*in_s)));
    }
    defect = defect.because("it reads or writes whole devices for minutes to hours: what is measured meanwhile is too slow, and users may notice");
    for (_, timer) in &starts {
        if timer.name.ends_with(".timer") {
            defect = defect.command(
                "hold it back until the next boot or start",
                format!("systemctl stop {}", fathom_base::shell::word(&timer.name)),
            );
        }
    }
    let defect = defect
        .advise("measure before it or after it; let it run in quiet hours")
        .risking("checks and backups that are put off for ever find nothing: start the timer again afterwards")
        .verified_by("systemctl list-timers; cat /proc/mdstat; fathom check");
    vec![defect]
}

/// Programs that read or write whole devices run now. Arrays and filesystems that work on themselves have rules of their own.
pub(super) fn running(scene: &Scene<'_>) -> Vec<Defect> {
    let system = &scene.snapshot.system;
    let workers = system.daemons.iter().filter(|daemon| !WATCHERS.contains(&daemon.name.as_str()));
    let mut evidence: Vec<(String, String)> = workers
        .map(|daemon| {
            let call = format!("{} {}", daemon.name, daemon.arguments);
            ("/proc/PID/comm".to_owned(), call.trim().to_owned())
        })
        .collect();
    let threads = system.kernel_threads.iter().filter(|name| name.starts_with("btrfs-"));
    evidence.extend(threads.map(|name| ("kernel thread".to_owned(), name.clone())));
    evidence.dedup();
    if evidence.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = evidence.iter().map(|(_, name)| name.as_str()).collect();
    let summary = format!("work on storage goes on: {}", names.join(", "));
    let mut defect = Defect::new("maintenance-running", Gravity::Low, None, summary);
    for (source, value) in &evidence {
        defect = defect.seen(source.clone(), value.clone());
    }
    let defect = defect
        .because("it takes its share of the devices' time: whatever is measured now is too slow")
        .command("see how much it does", "pidstat -d 5 2")
        .advise("wait for its end, or stop it if it is not wanted")
        .risking("a stopped copy or backup is incomplete")
        .verified_by("fathom check tells it no more; the finding other-io of fathom run is gone");
    vec![defect]
}

/// Operations and bytes per second from which on a disk counts as busy.
const BUSY_OPERATIONS_PER_S: f64 = 200.0;
/// See [`BUSY_OPERATIONS_PER_S`].
const BUSY_BYTES_PER_S: f64 = 20e6;

/// I/O on disks while fathom looked.
pub(super) fn other_io(scene: &Scene<'_>) -> Vec<Defect> {
    let io = scene.snapshot.system.io_now.iter();
    let mut busy: Vec<_> = io
        .filter(|io| {
            io.operations_per_s >= BUSY_OPERATIONS_PER_S || io.bytes_per_s >= BUSY_BYTES_PER_S
        })
        .filter(|io| {
            let node = scene.device(&io.name).map(|index| scene.node(index));
            node.is_some_and(|node| node.kind == NodeKind::Disk)
        })
        .collect();
    busy.order_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s));
    let Some(first) = busy.first() else { return Vec::new() };
    let others = match busy.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more disks are busy"),
    };
    let summary = format!(
        "{} did {} operations and {} in a second while fathom looked{others}",
        first.name,
        format_count(first.operations_per_s.round() as u64),
        format_rate(first.bytes_per_s)
    );
    let key = scene.device(&first.name).map(|index| scene.node(index).key());
    let mut defect =
        Defect::new("other-io", Gravity::Low, key.as_deref(), summary).sure(Certainty::Certain);
    for io in busy.iter().take(8) {
        let value = format!(
            "{} {} operations/s, {}, {} in flight",
            io.name,
            format_count(io.operations_per_s.round() as u64),
            format_rate(io.bytes_per_s),
            io.in_flight
        );
        defect = defect.seen("/proc/diskstats, twice", value);
    }
    for io in busy.iter().skip(1) {
        if let Some(index) = scene.device(&io.name) {
            defect = defect.concerning(scene.node(index).key());
        }
    }
    let defect = defect
        .because("nothing is wrong with a system that works; but a measurement would share the disks with it")
        .command("see who does it", "pidstat -d 5 2; iostat -x 5 2")
        .advise("measure when it is quiet")
        .risking("none")
        .verified_by("fathom check in a quiet hour; the finding other-io of fathom run");
    vec![defect]
}
