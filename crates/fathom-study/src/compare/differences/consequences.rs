//! Differences that follow from others: one change of a person is one difference.

use super::{Difference, Weight};
use fathom_base::order::Order;
use std::collections::BTreeSet;

/// What a drive is told by.
const IDENTITY: &[&str] = &["drive.serial", "drive.wwn", "drive.model"];

/// Settings of a queue that people choose; the others come from the drive and the driver.
const CHOSEN: &[&str] = &[
    "queue.scheduler",
    "queue.read_ahead_kib",
    "queue.nomerges",
    "queue.rq_affinity",
    "queue.iostats",
];

/// How an array is doing, whatever its level.
const STATE: &[&str] = &["md.degraded", "md.sync_action", "state", "errors"];

/// The names of what differs.
struct Differing(BTreeSet<String>);

impl Differing {
    fn is(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    fn any(&self, tails: &[&str]) -> bool {
        tails.iter().any(|tail| self.0.iter().any(|name| name.ends_with(tail)))
    }
}

/// Marks what follows from another difference, which is none by itself.
pub(super) fn mark(found: &mut [Difference]) {
    let differing = Differing(found.iter().map(|d| d.what.clone()).collect());
    let follows: Vec<bool> = found.iter().map(|d| follows(d, &differing, found)).collect();
    for (difference, follows) in found.iter_mut().zip(follows) {
        if follows {
            difference.weight = Weight::Consequence;
        }
    }
}

/// Of the same change on several members of an array the first counts, or the one that is the thing under test.
pub(super) fn mark_repeated(found: &mut [Difference]) {
    let key = |d: &Difference| (without_numbers(&d.what), d.a.clone(), d.b.clone());
    let meant: Vec<_> = found.iter().filter(|d| d.weight == Weight::Factor).map(key).collect();
    // The first has no number, and the second a shorter one than the tenth.
    let mut order: Vec<usize> =
        (0..found.len()).filter(|&i| found[i].weight > Weight::Consequence).collect();
    order.order_by_key(|&index| found[index].what.len());
    let mut seen = BTreeSet::new();
    for index in order {
        let key = key(&found[index]);
        let named = meant.contains(&key);
        let first = seen.insert(key);
        if found[index].weight != Weight::Factor && (named || !first) {
            found[index].weight = Weight::Consequence;
        }
    }
}

/// `disk.queue.scheduler` for `disk 2.queue.scheduler`.
fn without_numbers(what: &str) -> String {
    let plain = |word: &str| plain(word).to_owned();
    what.split('.').map(plain).collect::<Vec<_>>().join(".")
}

fn plain(word: &str) -> &str {
    match word.rsplit_once(' ') {
        Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => word,
    }
}

/// The layer and what of it: `target 2.disk` and `queue.scheduler`.
fn split(what: &str) -> (&str, &str) {
    let first = what.find('.').unwrap_or(0);
    let of_other_target = what.starts_with("target ") && what[first + 1..].contains('.');
    let at = if of_other_target {
        what[first + 1..].find('.').map_or(first, |second| first + 1 + second)
    } else {
        first
    };
    (&what[..at], what[at..].trim_start_matches('.'))
}

fn follows(difference: &Difference, differing: &Differing, found: &[Difference]) -> bool {
    let what = difference.what.as_str();
    let (layer, rest) = split(what);
    let kind = plain(layer.rsplit('.').next().unwrap_or(layer));
    let one_sided = difference.a == ["-"] || difference.b == ["-"];
    let limits = rest.starts_with("queue.") && rest != "queue.scheduler";
    let other_fs = differing.is("filesystem.fs.fs_type") || differing.is("filesystem.name");
    let other_layers = differing.is("target.layers");
    let other_array =
        differing.any(&["md.md.level", "md.md.chunk_bytes", "md.md.raid_disks", "md.md.layout"]);
    let other_device = found.iter().any(|d| d.weight >= Weight::Voids && super::is_device(&d.what));
    let said = match rest {
        // The kernel sets these anew with the scheduler.
        "queue.requests" | "queue.wbt_lat_us" => differing.is(&format!("{layer}.queue.scheduler")),
        // What was asked for, and what came of it.
        "used" => differing.is("workload.engine"),
        "features" => {
            ["workload.engine", "engine.used", "host.kernel"].iter().any(|d| differing.is(d))
        }
        "vulnerabilities" | "kernel_build" => differing.is("host.kernel"),
        "size_bytes" if layer == "workload" => differing.is("target.size"),
        // The whole device is the target.
        "size" => found.iter().any(|d| is_size_of_device(d, difference)),
        "mount.effective_options" | "mount.options" | "mount.super_options" | "mount.fs_type" => {
            other_fs
        }
        _ => other_fs && kind == "filesystem" && rest != "fs.fs_type",
    };
    let above = ["md", "dm"].contains(&kind) && (limits || rest == "size_bytes");
    let of_layers = ["mount", "filesystem"].contains(&kind) || above;
    // More members are more layers of the same kinds.
    let members = |d: &Difference| other_array && same_kinds(&d.a, &d.b);
    let other_shape = found.iter().any(|d| d.what == "target.layers" && !members(d));
    // With other layers, the filesystem's type remains a difference of its own.
    let by_itself = ["target.layers", "filesystem.fs.fs_type"].contains(&what);
    let by_shape = (other_layers && one_sided || other_shape && of_layers) && !by_itself;
    let sized = other_array || other_device;
    let asked_size = differing.is("workload.size_bytes");
    let by_array = other_array
        && (above
            || what == "target.size" && !asked_size
            || of_array(difference, kind, rest, layer, differing));
    let by_members = (other_array || other_layers) && only_more_drives(rest, found);
    let by_device = of_device(kind, layer, rest, differing, other_device);
    let by_size = sized && kind == "filesystem" && is_geometry(rest);
    // The type of a filesystem is a layer, too: one of the two is enough.
    let said_twice = what == "target.layers" && (other_fs || members(difference));
    said || by_shape || by_array || by_members || by_device || by_size || said_twice
}

/// True when `size` is the size of a target that is this device.
fn is_size_of_device(device: &Difference, size: &Difference) -> bool {
    super::is_size(&device.what) && (&device.a, &device.b) == (&size.a, &size.b)
}

/// What mkfs takes from the device.
fn is_geometry(rest: &str) -> bool {
    ["fs.total_bytes", "fs.groups", "fs.stripe_unit_bytes", "fs.stripe_width_bytes"].contains(&rest)
}

/// Everything about an array that comes with another level, layout, chunk or number of members.
fn of_array(d: &Difference, kind: &str, rest: &str, layer: &str, differing: &Differing) -> bool {
    let differs = |key: &str| differing.is(&format!("{layer}.md.{key}"));
    let one_sided = [&d.a, &d.b].iter().any(|side| **side == ["-"] || **side == ["0 B"]);
    if kind != "md" || !rest.starts_with("md.") {
        return false;
    }
    match rest {
        "md.level" => false,
        // Levels without chunks have none; of the others it is chosen.
        "md.chunk_bytes" => differs("level") && one_sided,
        "md.raid_disks" | "md.layout" => differs("level"),
        _ => one_sided || !STATE.iter().any(|tail| rest.ends_with(tail)),
    }
}

/// What comes with another drive, or another device under a layer.
fn of_device(
    kind: &str,
    layer: &str,
    rest: &str,
    differing: &Differing,
    other_device: bool,
) -> bool {
    let drive = |tail: &&str| differing.is(&format!("{layer}.{tail}"));
    let unnamed = kind == "disk" && differing.is(&format!("{layer}.name")) && other_device;
    let other_drive = IDENTITY.iter().any(drive) || unnamed;
    let of_drive = (rest.starts_with("drive.") && !IDENTITY.contains(&rest))
        || (rest.starts_with("queue.") && !CHOSEN.contains(&rest))
        || rest == "alignment_offset_bytes";
    let limits = rest.starts_with("queue.") && !CHOSEN.contains(&rest);
    let above = ["md", "dm"].contains(&kind) && limits;
    let named = ["partition.number", "loop_device.backing_size_bytes"].contains(&rest)
        || (kind == "dm" && rest == "dm.table");
    (other_drive && of_drive) || (other_device && (above || named))
}

/// True when one side has all drives of the other and some more, so that only their numbers moved.
fn only_more_drives(rest: &str, found: &[Difference]) -> bool {
    let values = |of: fn(&Difference) -> &Vec<String>| -> BTreeSet<&String> {
        let these = found.iter().filter(|d| split(&d.what).1 == rest);
        these.flat_map(of).filter(|value| *value != "-").collect()
    };
    let (a, b) = (values(|d| &d.a), values(|d| &d.b));
    let more = found.iter().any(|d| split(&d.what).1 == rest && (d.a == ["-"] || d.b == ["-"]));
    IDENTITY.contains(&rest) && more && (a.is_subset(&b) || b.is_subset(&a))
}

/// True when the stacks have the same kinds of layers, some of them more often.
fn same_kinds(a: &[String], b: &[String]) -> bool {
    let kinds = |side: &[String]| -> BTreeSet<String> {
        side.iter().flat_map(|shape| shape.split(" on ")).map(str::to_owned).collect()
    };
    kinds(a) == kinds(b)
}
