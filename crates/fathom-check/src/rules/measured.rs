//! What only a measurement shows: it is taken from the newest stored runs, and where there is none, [`needed`] says which
//! command makes it.

mod arrays;
mod disks;
mod machine;

#[cfg(test)]
mod tests;

use crate::rule;
use crate::rule::Rule;
use crate::scene::Scene;
use fathom_base::order::Order;
use fathom_base::shell;
use fathom_model::snapshot::Measured;
use fathom_model::stack::{MountFacts, NodeKind};
use std::collections::BTreeMap;

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!(
        "rotational-flag-wrong",
        "a drive is taken for one that rotates",
        Medium,
        Guest,
        disks::rotational_flag
    ),
    rule!(
        "access-time-high",
        "a disk takes longer than its mechanics",
        Medium,
        Guest,
        disks::access_time
    ),
    rule!(
        "dirty-limits",
        "too much written data waits in memory",
        High,
        Guest,
        machine::dirty_limits
    ),
    rule!("rate-cliff", "a volume was fast for a while only", Low, Guest, machine::rate_cliff),
    rule!(
        "array-like-one-disk",
        "an array does the work of one disk",
        High,
        Guest,
        arrays::like_one_disk
    ),
    rule!(
        "array-below-members",
        "an array is slower than its members allow",
        Medium,
        Guest,
        arrays::below_members
    ),
    rule!(
        "member-slow",
        "one member is slower than the others",
        Medium,
        Guest,
        arrays::member_slow
    ),
];

/// Measurements that would let a rule judge: its name, and the command that makes them.
#[must_use]
pub fn needed(scene: &Scene<'_>) -> Vec<(&'static str, String)> {
    let mut commands = Vec::new();
    commands.extend(machine::needed(scene));
    commands.extend(disks::needed(scene));
    commands.extend(arrays::needed(scene));
    commands
}

/// The newest measurement of each target that fits, by the target's index in the graph. Void ones do not count.
fn newest<'a>(
    scene: &Scene<'a>,
    fits: impl Fn(&Measured) -> bool,
) -> BTreeMap<usize, &'a Measured> {
    let mut found: BTreeMap<usize, &Measured> = BTreeMap::new();
    for measured in scene.snapshot.measured.iter().filter(|m| m.verdict != "void" && fits(m)) {
        let Some(index) = scene.by_key(&measured.target) else { continue };
        let known = found.entry(index).or_insert(measured);
        if measured.made_at_unix_s > known.made_at_unix_s {
            *known = measured;
        }
    }
    found
}

/// Reads at random places, one at a time, whose answers came from the device.
fn is_single_random_read(measured: &Measured) -> bool {
    const CACHED: [&str; 5] = [
        "reads-from-page-cache",
        "reads-not-from-device",
        "direct-is-buffered",
        "memory-target",
        "unwritten-extents",
    ];
    measured.random
        && measured.in_flight == 1
        && measured.read_bytes_per_s.is_some()
        && measured.write_bytes_per_s.is_none()
        && !measured.findings.iter().any(|finding| CACHED.contains(&finding.as_str()))
}

/// With smaller requests each one costs more than its bytes: the rate is not that of the storage.
const LARGE_REQUEST_BYTES: f64 = 131_072.0;

fn is_in_large_pieces(measured: &Measured) -> bool {
    !measured.random && measured.request_bytes_mean >= LARGE_REQUEST_BYTES
}

/// Large reads in sequence and nothing else.
fn is_sequential_read(measured: &Measured) -> bool {
    is_in_large_pieces(measured)
        && measured.read_bytes_per_s.is_some()
        && measured.write_bytes_per_s.is_none()
}

/// Large writes in sequence and nothing else; commits, which wait for each of their small writes, are none.
fn is_sequential_write(measured: &Measured) -> bool {
    is_in_large_pieces(measured)
        && !measured.flushed
        && measured.write_bytes_per_s.is_some()
        && measured.read_bytes_per_s.is_none()
}

/// The same, where what was written went to the device and not to memory.
fn is_device_write(measured: &Measured) -> bool {
    const BUFFERED: [&str; 3] = ["writes-to-page-cache", "direct-is-buffered", "memory-target"];
    is_sequential_write(measured)
        && !measured.findings.iter().any(|finding| BUFFERED.contains(&finding.as_str()))
}

/// How a run is named as evidence.
fn run_of(measured: &Measured) -> String {
    format!("fathom show {} ({} on {})", measured.run, measured.workload, measured.target)
}

/// The command that measures the same again.
fn again(measured: &Measured) -> String {
    let target = shell::word(&measured.target);
    if measured.workload.starts_with("quick") {
        return format!("fathom quick {target}");
    }
    format!("fathom run {} {target}", shell::word(&measured.workload))
}

/// The mount points of what stands on a node, that a test file could be made in; first what was asked for by name.
fn writable_mounts<'a>(scene: &Scene<'a>, index: usize) -> Vec<&'a str> {
    let is_target =
        |index: &usize| !scene.snapshot.targets.is_empty() && scene.machine().tops.contains(index);
    let mut above = scene.everything_above(index);
    above.retain(|&above| {
        let node = scene.node(above);
        let is_writable =
            |mount: &MountFacts| node.read_only != Some(true) && !mount.has_option("ro");
        let place = node.label();
        node.kind == NodeKind::Mount
            && node.mount.as_ref().is_some_and(is_writable)
            && place.starts_with('/')
            && !place.starts_with("/boot")
    });
    above.order_by_key(|above| (!is_target(above), scene.node(*above).label()));
    let mut places: Vec<&str> = above.into_iter().map(|above| scene.node(above).label()).collect();
    places.dedup();
    places
}

fn quick(place: &str) -> String {
    format!("fathom quick {}", shell::word(place))
}
