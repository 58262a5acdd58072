//! Limits and weights of control groups.

use crate::scene::Scene;
use fathom_base::shell;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::NodeKind;
use fathom_model::system::IoLimit;
use std::collections::BTreeMap;

fn is_weight(limit: &IoLimit) -> bool {
    limit.file.contains("weight")
}

/// The file of a limit, as a path in its hierarchy.
fn file_of(limit: &IoLimit) -> String {
    let hierarchy =
        if limit.file.starts_with("blkio.") { "/sys/fs/cgroup/blkio" } else { "/sys/fs/cgroup" };
    format!("{hierarchy}{}/{}", limit.group.trim_end_matches('/'), limit.file)
}

/// What switches a limit off.
fn off(limit: &IoLimit) -> Option<String> {
    let devno = limit.devno.as_deref()?;
    let line = match limit.file.as_str() {
        "io.max" => format!("{devno} rbps=max wbps=max riops=max wiops=max"),
        "io.latency" => format!("{devno} target=0"),
        "io.cost.qos" => format!("{devno} enable=0"),
        file if file.starts_with("blkio.throttle.") => format!("{devno} 0"),
        _ => return None,
    };
    Some(format!("echo {} > {}", shell::word(line), shell::word(file_of(limit))))
}

/// Limits on devices, one defect for each device.
pub(super) fn active(scene: &Scene<'_>) -> Vec<Defect> {
    let mut by_device: BTreeMap<Option<usize>, Vec<&IoLimit>> = BTreeMap::new();
    for limit in &scene.snapshot.system.io_limits {
        let Some(devno) = limit.devno.as_deref().filter(|_| !is_weight(limit)) else { continue };
        let mut nodes = scene.nodes(&[]);
        let node = nodes.find(|(_, node)| node.devno.as_deref() == Some(devno));
        // Of a machine's part only what belongs to it counts.
        if node.is_some() || scene.snapshot.targets.is_empty() {
            by_device.entry(node.map(|(index, _)| index)).or_default().push(limit);
        }
    }
    let defects = by_device.into_iter().map(|(index, limits)| {
        let node = index.map(|index| scene.node(index));
        let name = node.map_or_else(
            || limits[0].devno.clone().unwrap_or_default(),
            |node| node.label().to_owned(),
        );
        let mut groups: Vec<&str> = limits.iter().map(|limit| limit.group.as_str()).collect();
        groups.dedup();
        let shown = groups.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = if groups.len() > 3 { format!(" and {} more", groups.len() - 3) } else { String::new() };
        let summary = format!("control groups limit I/O on {name}: {shown}{more}");
        let key = node.map(|node| node.key());
        let mut defect = Defect::new("io-limits-active", Gravity::Low, key.as_deref(), summary);
        for limit in limits.iter().take(8) {
            defect = defect.seen(file_of(limit), format!("{} {}", limit.devno.as_deref().unwrap_or(""), limit.value));
        }
        defect = defect.because("programs in these groups wait for their limit while the device is idle; a limit that was set for a test and forgotten looks like a slow disk");
        for limit in limits.iter().take(4) {
            if let Some(command) = off(limit) {
                defect = defect.command("take it away, if nobody wants it", command);
            }
        }
        defect
            .advise("where a service manager or container engine sets it, change it there: systemctl show UNIT | grep ^IO")
            .risking("the group may then take all of the device")
            .verified_by("fathom run from inside the group, and the finding waiting-above-device")
    });
    defects.collect()
}

/// Weights where nothing shares devices by weight.
pub(super) fn weight_inert(scene: &Scene<'_>) -> Vec<Defect> {
    let limits = &scene.snapshot.system.io_limits;
    let weights: Vec<&IoLimit> = limits.iter().filter(|limit| is_weight(limit)).collect();
    let Some(first) = weights.first() else { return Vec::new() };
    let costed = |devno: Option<&str>| {
        let on = |limit: &&IoLimit| limit.file == "io.cost.qos" && limit.devno.as_deref() == devno;
        limits.iter().any(|limit| on(&limit))
    };
    let disks = scene.nodes(&[NodeKind::Disk]).filter(|(index, _)| scene.in_use(*index));
    let disks: Vec<_> = disks.map(|(_, node)| node).collect();
    let scheduler =
        |node: &fathom_model::stack::Node| node.queue.as_ref().and_then(|q| q.scheduler.clone());
    // Nothing is said where one disk shares by weight, or nothing is known.
    let inert = disks.iter().all(|node| {
        scheduler(node).is_some_and(|name| name != "bfq") && !costed(node.devno.as_deref())
    });
    if disks.is_empty() || !inert {
        return Vec::new();
    }
    let summary = format!(
        "I/O weights of control groups ({}: {}) have no effect: no disk is shared by weight",
        first.group, first.value
    );
    let mut defect =
        Defect::new("cgroup-weight-inert", Gravity::Low, None, summary).sure(Certainty::Certain);
    for limit in weights.iter().take(4) {
        defect = defect.seen(file_of(limit), limit.value.clone());
    }
    for node in disks.iter().take(4) {
        let value = scheduler(node).unwrap_or_default();
        defect = defect.seen(format!("/sys/block/{}/queue/scheduler", node.name), value);
    }
    let name = &disks[0].name;
    let defect = defect
        .because("weights are shares that the scheduler bfq or the cost model (io.cost) gives out; without either the groups compete as if none had been set")
        .command(
            "let bfq share a disk",
            format!("echo bfq > {}", shell::word(format!("/sys/block/{name}/queue/scheduler"))),
        )
        .advise("or, for fast drives, switch on the cost model: io.cost.qos and io.cost.model of the root group")
        .risking("bfq costs processor time with each request and slows fast drives down")
        .verified_by("two jobs in groups of different weight: fathom run with cgroup_weight=");
    vec![defect]
}
