//! What drives say of their health: SMART of ATA and SCSI drives, the health log of NVMe.

use crate::dm;
use crate::rules::arrays::{is_redundant, part_with};
use crate::rules::drives::{
    arrays_above, each_drive, is_made_elsewhere, is_virtual, member_on, rotates, transport,
};
use crate::rules::filesystems::{has_copies, lacks_device};
use crate::rules::shared::{list, mount_points};
use crate::rules::volumes::{Parts, is_lvm, parts_on, save_first, volume_name};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::detail::Health;
use fathom_model::stack::{DmFacts, Node};
use std::collections::BTreeSet;

/// Bits of the critical warning in the health log of NVMe (base specification, log page 02h), without the one about
/// temperature.
const WARNINGS: [(u64, Gravity, &str); 5] = [
    (1, Gravity::High, "its spare blocks run out"),
    (1 << 2, Gravity::High, "it calls itself unreliable"),
    (1 << 3, Gravity::High, "it has turned read-only"),
    (1 << 4, Gravity::High, "the backup of its cache has failed"),
    (1 << 5, Gravity::Medium, "its persistent memory region has turned read-only"),
];

/// The bit of the critical warning about temperature.
const WARNING_TEMPERATURE: u64 = 1 << 1;

/// Additional sense code of SCSI for a warning, and qualifiers of it: temperature, and others in words.
const SENSE_WARNING: u64 = 0x0b;
const SENSE_TEMPERATURE: [u64; 3] = [0x01, 0x0a, 0x0c];
const SENSE_WORDS: [(u64, &str); 5] = [
    (0x03, "its background self-test failed"),
    (0x04, "its background scan met a bad sector"),
    (0x05, "its background scan met a bad sector"),
    (0x06, "its cache is no longer safe without power"),
    (0x07, "its cache is hardly safe without power any more"),
];

/// Replaced sectors from which on they weigh more: a handful may be as old as the drive.
const REPLACED_SOME: u64 = 10;
const REPLACED_MANY: u64 = 100;

/// Drives with what they say of their health; those that a hypervisor makes have none.
fn healths<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (usize, &'a Node, &'a Health)> {
    let drives = each_drive(scene).into_iter().filter(|(_, node)| !is_virtual(node));
    drives.filter_map(|(index, node)| Some((index, node, node.details().health.as_ref()?)))
}

/// Where a person sees the same.
fn source(node: &Node) -> String {
    format!("smartctl -x {}", word(node.label()))
}

/// One sign of damage: how grave, in words, and the value that says so.
struct Sign {
    gravity: Gravity,
    words: String,
    value: String,
}

fn sign(gravity: Gravity, words: impl Into<String>, value: impl Into<String>) -> Sign {
    Sign { gravity, words: words.into(), value: value.into() }
}

fn signs(node: &Node, health: &Health) -> Vec<Sign> {
    let mut signs = Vec::new();
    let warning = health.critical_warning.unwrap_or(0);
    let told = WARNINGS.iter().fold(WARNING_TEMPERATURE, |told, (bit, _, _)| told | bit);
    // Where it says what is the matter, that is the sign.
    if health.passed == Some(false) && warning & told == 0 {
        signs.push(sign(
            Gravity::High,
            "it says itself that it is failing",
            "SMART status: failed",
        ));
    }
    if let Some((code, qualifier)) = health.sense_warning
        && !is_warning_of_heat(health)
    {
        let known = SENSE_WORDS.iter().find(|(number, _)| *number == qualifier);
        let words = known
            .filter(|_| code == SENSE_WARNING)
            .map_or("it reports a warning", |(_, words)| *words);
        let value = format!("informational exception {code:#04x}/{qualifier:#04x}");
        signs.push(sign(Gravity::Medium, words, value));
    }
    for (_, gravity, words) in WARNINGS.iter().filter(|(bit, _, _)| warning & bit != 0) {
        signs.push(sign(*gravity, *words, format!("critical warning {warning:#04x}")));
    }
    if let Some((left, threshold)) = health.spare_percent
        && left < threshold
        && warning & 1 == 0
    {
        let value = format!("available spare {left} %, threshold {threshold} %");
        signs.push(sign(Gravity::High, "its spare blocks run out", value));
    }
    if health.self_test.as_ref().is_some_and(|(result, _)| result == "failed") {
        signs.push(sign(Gravity::High, "its last self-test failed", "self-test: failed"));
    }
    let lost = if transport(node) == "sata" { Gravity::High } else { Gravity::Medium };
    let replaced = |count: u64| match count {
        REPLACED_MANY.. => Gravity::High,
        REPLACED_SOME.. => Gravity::Medium,
        _ => Gravity::Low,
    };
    let counts = [
        (health.pending, Gravity::High, "sectors that cannot be read"),
        (health.uncorrectable, lost, "errors that could not be corrected"),
        (health.reallocated, replaced(health.reallocated.unwrap_or(0)), "sectors replaced"),
        (health.grown_defects, replaced(health.grown_defects.unwrap_or(0)), "grown defects"),
    ];
    for (count, gravity, words) in counts {
        if let Some(count) = count.filter(|&count| count > 0) {
            signs.push(sign(gravity, format!("{count} {words}"), format!("{words}: {count}")));
        }
    }
    signs
}

/// True when a drive under the node has signs of High gravity.
pub(in crate::rules) fn is_failing(scene: &Scene<'_>, index: usize) -> bool {
    let disks = scene.machine().disks_under(index).into_iter().map(|disk| scene.node(disk));
    disks.filter(|node| !is_virtual(node)).any(|node| {
        let health = node.details().health.as_ref();
        let signs = health.map(|health| signs(node, health)).unwrap_or_default();
        signs.iter().any(|sign| sign.gravity == Gravity::High)
    })
}

/// A drive that has lost data or says that it will.
pub(super) fn failing(scene: &Scene<'_>) -> Vec<Defect> {
    let found = healths(scene).filter_map(|(index, node, health)| {
        let signs = signs(node, health);
        let gravity = signs.iter().map(|sign| sign.gravity).max()?;
        let sure = if gravity == Gravity::High { Certainty::Certain } else { Certainty::Likely };
        let words = list(signs.iter().map(|sign| sign.words.as_str()));
        let defect = Defect::new(
            "drive-failing",
            gravity,
            Some(&node.key()),
            format!("{} reports damage: {words}", node.name),
        )
        .sure(sure);
        let defect = signs.into_iter().fold(defect, |d, sign| d.seen(source(node), sign.value));
        Some(replacing(scene, index, defect))
    });
    found.collect()
}

/// What to do with a drive that is on its way out, depending on what it is a part of.
fn replacing(scene: &Scene<'_>, index: usize, defect: Defect) -> Defect {
    let node = scene.node(index);
    let mut defect = defect
        .because("drives with such signs fail within months far more often than others; many fail without any, so the absence of signs proves nothing")
        .command("see all that it says, and whether the counts grow", source(node))
        .advise("make sure that there is a backup that can be read");
    // Without a copy elsewhere md replaces no member.
    let mut arrays = arrays_above(scene, index);
    arrays.retain(|(_, node)| node.md.as_ref().is_some_and(is_redundant));
    // Where an array that keeps copies is itself a member, it is mended there and stays one.
    let is_inner = |at: usize, of: usize| at != of && scene.everything_above(at).contains(&of);
    let all: Vec<usize> = arrays.iter().map(|(array, _)| *array).collect();
    arrays.retain(|(array, _)| !all.iter().any(|inner| is_inner(*inner, *array)));
    for (array, array_node) in &arrays {
        let Some((member_index, member)) = member_on(scene, *array, index) else { continue };
        let text = format!(
            "replace it in {} while it can still be read: the copy keeps the array redundant",
            array_node.name
        );
        defect = part_with(scene, defect, array_node, member_index, &text);
        if member.key() != node.key() {
            defect = defect.concerning(member.key());
        }
    }
    for (fs, fs_node) in scene.journals_on(index) {
        let place = mount_points(scene, fs).join(", ");
        defect = defect.advise(format!(
            "the journal of {} at {place} lies on it, the data elsewhere: unmount that and give it \
            another one (fathom check --explain journal-same-spindle)",
            fs_node.name
        ));
    }
    let (defect, is_replaced) = by_volumes_and_filesystems(scene, index, defect);
    let is_alone = arrays.is_empty() && !is_replaced;
    let mut defect = defect;
    if is_alone && rotates(node) {
        defect = defect.advise("copy what is needed to another drive first, then replace it; do not run repairs that write on it");
    } else if is_alone {
        defect = defect.advise("copy what is needed to another drive, then replace it");
    }
    defect
        .risking("reading a dying drive from end to end may finish it: copy the most important data first")
        .verified_by(format!("{} on the new drive, and again some days later: the counts stay as they are", source(node)))
}

/// What keeps copies by itself replaces a drive by itself too: LVM's mirrored volumes, btrfs, ZFS. True where one of them does.
fn by_volumes_and_filesystems(scene: &Scene<'_>, disk: usize, defect: Defect) -> (Defect, bool) {
    let above: BTreeSet<usize> = scene.everything_above(disk).into_iter().collect();
    let (mut defect, mut found) = (defect, false);
    for &index in &above {
        let node = scene.node(index);
        let on_disk = |of: usize| scene.below(of).find(|(part, _)| above.contains(part));
        if let Some(dm) = node.dm.as_ref().filter(|dm| has_mirrored_parts(dm)) {
            // The physical volume is below the parts, which are volumes themselves.
            let is_volume = |node: &Node| node.dm.as_ref().is_some_and(is_lvm);
            let mut part = on_disk(index);
            while let Some((lower, _)) = part.filter(|(_, node)| is_volume(node)) {
                part = on_disk(lower);
            }
            let Some((_, device)) = part else { continue };
            let name = volume_name(node, dm);
            let group = name.split('/').next().unwrap_or_default();
            let text = format!(
                "replace it in {name} while it can still be read; the new drive joins the group before: \
                vgextend {} /dev/NEW",
                word(group)
            );
            let device = word(device.label());
            let command = format!("lvconvert --replace {device} {} /dev/NEW", word(&name));
            let is_on_drive = |leg: usize| scene.machine().disks_under(leg).contains(&disk);
            defect = match parts_on(scene, index, is_on_drive) {
                Some(Parts::Out) => defect.advise(format!(
                    "{name} has given up its part on it already and lacks that until it has another \
                    (lvm-raid-degraded)"
                )),
                Some(Parts::Last) => defect
                    .advise(save_first(&name, &scene.node(disk).name))
                    .advise(format!("then repair {name} (lvm-raid-degraded), and replace this one last")),
                Some(Parts::Filling) => defect.command(
                    format!("{name} is making its parts agree: let that end before anything is replaced"),
                    format!("lvs -a -o +sync_percent {}", word(&name)),
                ),
                Some(Parts::Whole) | None => defect.command(text, command),
            };
            found = true;
        } else if let (Some(fs), Some((_, device))) = (node.fs.as_ref(), on_disk(index))
            && let Some(mount) = scene.above(index).find_map(|(_, above)| above.mount.as_ref())
        {
            let (device, place) = (word(device.label()), &mount.mount_point);
            let pool = mount.source.split('/').next().unwrap_or_default();
            let command = match fs.fs_type.as_str() {
                "btrfs" if node.below.len() > 1 && has_copies(fs) && lacks_device(node) => {
                    let name = format!("btrfs at {place}");
                    defect = defect.advise(save_first(&name, &scene.node(disk).name)).advise(
                        "then put another in the place of the missing device (btrfs-degraded), and replace this one last",
                    );
                    found = true;
                    continue;
                }
                // It is read only where there is no other copy.
                "btrfs" if node.below.len() > 1 && has_copies(fs) => {
                    format!("btrfs replace start -B -r {device} /dev/NEW {}", word(place))
                }
                "zfs" if node.below.len() > 1 => {
                    format!("zpool replace {} {device} /dev/NEW", word(pool))
                }
                _ => continue,
            };
            let text =
                format!("replace it in {} at {place} while it can still be read", fs.fs_type);
            (defect, found) = (defect.command(text, command), true);
        }
    }
    (defect, found)
}

/// A volume of LVM that keeps copies or parity.
fn has_mirrored_parts(dm: &DmFacts) -> bool {
    let mut lines = dm::lines(&dm.table, "raid");
    is_lvm(dm) && lines.any(|line| !line.words.starts_with("raid0"))
}

/// A drive that has written about as much as its maker promised.
pub(super) fn worn(scene: &Scene<'_>) -> Vec<Defect> {
    const NEAR_PERCENT: u64 = 90;
    const END_PERCENT: u64 = 100;
    let worn = healths(scene).filter_map(|(_, node, health)| {
        let used = health.used_percent.filter(|&used| used >= NEAR_PERCENT)?;
        let gravity = if used >= END_PERCENT { Gravity::Medium } else { Gravity::Low };
        let defect = Defect::new(
            "drive-worn",
            gravity,
            Some(&node.key()),
            format!("{} has used up {used} % of the life that its maker promises", node.name),
        )
        .seen(source(node), format!("percentage used: {used} %"))
        .because("beyond that the maker answers for nothing: cells keep data less long without power, and spare blocks run out")
        .advise("plan its replacement; drives of one array that were bought together wear out together, so replace them one at a time and early")
        .risking("none in planning; see the maker's terms before trusting it further")
        .verified_by(format!("{} once a month: percentage used, available spare", source(node)));
        Some(defect)
    });
    worn.collect()
}

/// Temperatures from which on a drive without a limit of its own counts as hot.
const HOT_ROTATING_CELSIUS: i64 = 60;
const HOT_FLASH_CELSIUS: i64 = 70;
/// What is below is no limit but an empty field.
const LEAST_LIMIT_CELSIUS: i64 = 30;
/// Minutes above the warning temperature that are worth a word.
const WARM_MINUTES: u64 = 60;

/// A drive at or above its limit now, or one that has been there for long.
pub(super) fn hot(scene: &Scene<'_>) -> Vec<Defect> {
    healths(scene)
        .filter_map(|(_, node, health)| hot_now(node, health).or_else(|| hot_before(node, health)))
        .collect()
}

/// True when the drive itself says that it is too hot.
fn is_warning_of_heat(health: &Health) -> bool {
    health.critical_warning.unwrap_or(0) & WARNING_TEMPERATURE != 0
        || health.sense_warning.is_some_and(|(code, qualifier)| {
            code == SENSE_WARNING && SENSE_TEMPERATURE.contains(&qualifier)
        })
}

fn hot_now(node: &Node, health: &Health) -> Option<Defect> {
    let limit = health.celsius_limit.filter(|&limit| limit >= LEAST_LIMIT_CELSIUS);
    let assumed = if rotates(node) { HOT_ROTATING_CELSIUS } else { HOT_FLASH_CELSIUS };
    let warns = is_warning_of_heat(health);
    let is_hot = health.celsius.is_some_and(|celsius| celsius >= limit.unwrap_or(assumed));
    if !warns && !is_hot {
        return None;
    }
    let (gravity, sure) = if warns || limit.is_some() {
        (Gravity::High, Certainty::Certain)
    } else {
        (Gravity::Medium, Certainty::Likely)
    };
    let at = health
        .celsius
        .map_or_else(|| "above its limit".to_owned(), |celsius| format!("at {celsius} C"));
    let (of, value) = match limit {
        Some(limit) => (format!("its limit is {limit} C"), format!("limit {limit} C")),
        None => (format!("{assumed} C is the usual limit of its kind"), "no limit told".to_owned()),
    };
    let now = health
        .celsius
        .map_or_else(|| "temperature warning".to_owned(), |celsius| format!("{celsius} C"));
    let defect = Defect::new(
        "drive-hot",
        gravity,
        Some(&node.key()),
        // Warned is also of cold.
        match is_hot || health.celsius.is_none() {
            true => format!("{} is {at}; {of}", node.name),
            false => format!("{} warns of its temperature, and is {at}; {of}", node.name),
        },
    )
    .sure(sure)
    .seen(source(node), format!("{now}; {value}"));
    Some(cooling(node, defect))
}

fn hot_before(node: &Node, health: &Health) -> Option<Defect> {
    let (warm, critical) = health.hot_minutes?;
    if critical == 0 && warm < WARM_MINUTES {
        return None;
    }
    let defect = Defect::new(
        "drive-hot",
        Gravity::Low,
        Some(&node.key()),
        format!("{} has spent {warm} minutes above its warning temperature and {critical} above the critical one", node.name),
    )
    .sure(Certainty::Possible)
    .seen(source(node), format!("warning temperature time {warm} min, critical {critical} min, over its whole life"));
    Some(cooling(node, defect))
}

fn cooling(node: &Node, defect: Defect) -> Defect {
    defect
        .because("a hot drive slows itself down, in steps that look like noise in a measurement, and ages faster")
        .advise("see to air across the drive: fans, filters, blanks in empty bays, a heat sink on an M.2 drive")
        .risking("none")
        .verified_by(format!("{} under load, and fathom run randwrite DIR duration=10m: the rate of the last minutes is that of the first", source(node)))
}

/// Errors between drive and adapter.
pub(super) fn cable(scene: &Scene<'_>) -> Vec<Defect> {
    const MANY: u64 = 100;
    let found = healths(scene).filter_map(|(_, node, health)| {
        let errors = health.interface_crc_errors.filter(|&errors| errors > 0)?;
        let gravity = if errors >= MANY { Gravity::Medium } else { Gravity::Low };
        let defect = Defect::new(
            "drive-cable-errors",
            gravity,
            Some(&node.key()),
            format!("{} has counted {errors} transfer errors on its cable", node.name),
        )
        .sure(Certainty::Likely)
        .seen(source(node), format!("attribute 199, UDMA CRC errors: {errors}"))
        .because("each such transfer is sent again, and after several the kernel slows the link down or resets it, which stalls all I/O on it")
        .command("note the count now, and look again after some days of load: it never goes back, so only growth means that it still happens", source(node))
        .advise("if it grows: other cable, other port or bay, then other power supply")
        .risking("none; with the machine off, or with a hot-swap bay")
        .verified_by("the count stands still under load: fathom run seqread DIR duration=10m");
        Some(defect)
    });
    found.collect()
}

/// Logs of self-tests have 16 bits for the hour, but for NVMe.
const HOURS_WRAP: u64 = 1 << 16;

/// Hours of operation since a self-test, and a word where that is the least; none where the hour of the test cannot be placed: it
/// lies ahead of what the drive counts, as after its count began anew.
fn test_age_h(node: &Node, now: u64, hour: u64) -> Option<(&'static str, u64)> {
    /// How far the hour in the log may be ahead of the count beside it, which some drives bring up to date later.
    const AHEAD_MAX_H: u64 = 24;
    let drive = node.drive.as_ref();
    let is_ata = matches!(transport(node), "sata" | "usb")
        || drive.and_then(|drive| drive.vendor.as_deref()) == Some("ATA");
    if is_ata && now >= HOURS_WRAP {
        // From 65535 on it begins again at 0; whether it did so more than once since, nobody can tell.
        let age_h = now.saturating_add(HOURS_WRAP - hour % HOURS_WRAP) % HOURS_WRAP;
        return Some(("at least ", if age_h + AHEAD_MAX_H >= HOURS_WRAP { 0 } else { age_h }));
    }
    // SCSI stays at the highest (SPC-4, self-test results log page).
    let is_highest = !transport(node).starts_with("nvme") && hour == HOURS_WRAP - 1;
    now.checked_sub(hour).filter(|_| !is_highest).map(|age_h| ("", age_h))
}

/// A drive whose surface was not tested for long.
pub(super) fn untested(scene: &Scene<'_>) -> Vec<Defect> {
    const DAYS: u64 = 90;
    let smartd = scene.snapshot.system.configuration.smartd.as_ref();
    if smartd.is_some_and(|smartd| smartd.schedules_tests) {
        return Vec::new();
    }
    let drives = healths(scene).filter(|(_, node, _)| !is_made_elsewhere(scene, node));
    let found = drives.filter_map(|(_, node, health)| {
        let (result, hour) = health.self_test.as_ref()?;
        let value = match result.as_str() {
            "never" => "no self-test in the log".to_owned(),
            "passed" => {
                let (least, age_h) = test_age_h(node, health.power_on_hours?, *hour)?;
                if age_h <= DAYS * 24 {
                    return None;
                }
                format!("last self-test {least}{} days of operation ago", age_h / 24)
            }
            _ => return None,
        };
        let summary = match result.as_str() {
            "never" => format!("{} has no finished self-test in its log", node.name),
            _ => format!("{} has had no self-test in its last {DAYS} days of operation", node.name),
        };
        let defect = Defect::new(
            "drive-self-test-missing",
            Gravity::Low,
            Some(&node.key()),
            summary,
        )
        .seen(source(node), value)
        .because("a sector that nobody reads can be bad for months, and shows when the other copy is lost; that SMART calls the drive good says nothing of it")
        .command("start a long test (in the background, hours; the drive stays in use)", format!("smartctl -t long {}", word(node.label())))
        .advise("schedule it: a line with -s in /etc/smartd.conf, such as: DEVICESCAN -a -s L/../../7/03 -m root")
        .risking("requests are somewhat slower while it runs: not during a measurement")
        .verified_by(format!("smartctl -l selftest {}", word(node.label())));
        Some(defect)
    });
    found.collect()
}
