//! The machine around the disks: dirty limits, volumes on credit.

use super::{is_device_write, newest, quick, run_of, writable_mounts};
use crate::scene::Scene;
use fathom_base::order::Order;
use fathom_base::units::{format_duration, format_rate, format_size};
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::snapshot::Measured;
use fathom_model::stack::NodeKind;
use std::collections::BTreeSet;

/// From so many seconds of writing on, dirty data is told of; from the second on it is grave.
const LATE_S: f64 = 10.0;
/// See [`LATE_S`].
const VERY_LATE_S: f64 = 60.0;

/// Less is never advised: every buffered writer of the machine, also on its fast disks, is held up at the limit.
const ADVISED_MIB_MIN: u64 = 64;

/// Bytes that may be dirty before writers are held up, and the setting that says so. A share counts of the memory that is
/// free or cache, which the kernel works out much like `MemAvailable`; more than that cannot be dirty.
fn dirty_limit(scene: &Scene<'_>) -> Option<(u64, String)> {
    let number = |name: &str| scene.vm(name)?.parse::<u64>().ok();
    let available = scene.snapshot.host.memory_available_bytes?;
    let of_available = format!("{} available", format_size(available));
    if let Some(bytes) = number("dirty_bytes").filter(|bytes| *bytes > 0) {
        return Some((bytes.min(available), format!("vm.dirty_bytes = {bytes}, {of_available}")));
    }
    let ratio = number("dirty_ratio")?.min(100);
    let bytes = (u128::from(available) * u128::from(ratio) / 100) as u64;
    Some((bytes, format!("vm.dirty_ratio = {ratio} % of {of_available}")))
}

/// More may be dirty than the slowest measured target writes in ten seconds.
pub(super) fn dirty_limits(scene: &Scene<'_>) -> Vec<Defect> {
    let Some((limit, setting)) = dirty_limit(scene) else { return Vec::new() };
    let rate = |m: &Measured| m.write_bytes_per_s.filter(|rate| *rate > 0.0);
    let written = newest(scene, is_device_write).into_values();
    let slowest = written.filter_map(|m| Some((m, rate(m)?))).min_by(|a, b| a.1.total_cmp(&b.1));
    let Some((measured, rate)) = slowest else { return Vec::new() };
    let seconds = limit as f64 / rate;
    if seconds <= LATE_S {
        return Vec::new();
    }
    let gravity = if seconds > VERY_LATE_S { Gravity::High } else { Gravity::Medium };
    let span = format_duration((seconds * 1e9) as u64);
    let summary = format!(
        "{} of written data may wait in memory; {} writes {}, so that a sync may take {span}",
        format_size(limit),
        measured.target,
        format_rate(rate)
    );
    // Two seconds' worth, and half of that before writing back begins; whole MiB.
    let bytes = (((rate * 2.0) as u64) >> 20).max(ADVISED_MIB_MIN) << 20;
    let settings = format!("vm.dirty_bytes={bytes} vm.dirty_background_bytes={}", bytes / 2);
    let lines = settings.replace(' ', "\\n").replace('=', " = ");
    let defect = Defect::new("dirty-limits", gravity, Some(&measured.target), summary)
        .sure(Certainty::Likely)
        .seen("/proc/sys/vm", setting)
        .seen(run_of(measured), format!("wrote {}", format_rate(rate)))
        .because("writers run at the speed of memory until the limit, and then everybody stands still until the disk has caught up; a sync of anybody may have to wait for all of it, and a power cut loses that much")
        .command("allow two seconds' worth, until the next boot", format!("sysctl {settings}"))
        .command("and at each boot", format!("printf '{lines}\\n' > /etc/sysctl.d/60-dirty-limits.conf"))
        .risking("bursts of writes that memory took until now are slowed down earlier; faster disks on the same machine get the same limit")
        .verified_by("fathom run commit PATH while something large is copied: its slowest commits become shorter");
    vec![defect]
}

/// The rate of a measurement on a cloud's volume changed by levels.
pub(super) fn rate_cliff(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(cloud) = scene.snapshot.system.cloud.as_deref() else { return Vec::new() };
    let moved = |m: &Measured| m.read_bytes_per_s.is_some() || m.write_bytes_per_s.is_some();
    let unsteady = newest(scene, moved).into_values();
    let unsteady = unsteady.filter(|m| m.findings.iter().any(|finding| finding == "not-steady"));
    let defects = unsteady.map(|measured| {
        let summary = format!(
            "the rate of {} did not stay the same while it was measured, on a volume of {cloud}",
            measured.target
        );
        Defect::new("rate-cliff", Gravity::Low, Some(&measured.target), summary)
            .sure(Certainty::Possible)
            .seen(run_of(measured), "finding not-steady")
            .seen("/sys/class/dmi/id", cloud)
            .because("volumes and small machines of clouds are fast on credit and fall to a base rate when it is spent; what was measured before the fall is not what lasts")
            .advise("look the volume's and the machine's base rate and credit up in the provider's console")
            .command("see when the rate changed", format!("fathom show {}", fathom_base::shell::word(&measured.run)))
            .risking("none to look; volumes with a fixed rate cost more")
            .verified_by("a run of an hour, begun with full credit: the finding not-steady names the levels")
    });
    defects.collect()
}

/// Below this limit nobody has to wait long on any disk.
const LIMIT_BYTES_MIN: u64 = 2 << 30;

/// Writes of each mounted disk, where much may be dirty.
pub(super) fn needed(scene: &Scene<'_>) -> Vec<(&'static str, String)> {
    if dirty_limit(scene).is_none_or(|(limit, _)| limit < LIMIT_BYTES_MIN) {
        return Vec::new();
    }
    let measured = newest(scene, is_device_write);
    let known: BTreeSet<usize> =
        measured.keys().flat_map(|target| scene.machine().disks_under(*target)).collect();
    let disks = scene.nodes(&[NodeKind::Disk]).filter(|(index, _)| !known.contains(index));
    let places = disks.filter_map(|(index, _)| writable_mounts(scene, index).into_iter().next());
    let mut commands: Vec<_> = places.map(|place| ("dirty-limits", quick(place))).collect();
    commands.order();
    commands.dedup();
    commands
}
