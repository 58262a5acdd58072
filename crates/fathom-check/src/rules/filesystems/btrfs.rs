//! btrfs over several devices.

use super::{Mounted, mounted};
use crate::rules::disks::is_failing;
use crate::rules::shared::{list, on_one_drive, shows_all};
use crate::rules::volumes::{is_all_read, resting, save_first};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::detail::FsSuperblock;
use fathom_model::stack::{FsFacts, Node};
use std::collections::{BTreeMap, BTreeSet};

/// Lost devices that every place with this profile survives.
fn forgiven(profile: &str) -> u64 {
    match profile {
        "raid1" | "raid10" | "raid5" => 1,
        "raid6" | "raid1c3" => 2,
        "raid1c4" => 3,
        _ => 0,
    }
}

/// True when everything on it survives the loss of a device.
pub(in crate::rules) fn has_copies(fs: &FsFacts) -> bool {
    let mut all = fs.data_profiles.iter().chain(&fs.metadata_profiles).peekable();
    all.peek().is_some() && all.all(|profile| forgiven(profile) > 0)
}

/// Numbers of the devices that it had, and which of them are missing.
fn devices_of(node: &Node) -> Vec<(&str, bool)> {
    let devices = node.details().filesystem.iter().filter_map(|(name, value)| {
        let id = name.strip_prefix("devinfo/")?.strip_suffix("/missing")?;
        Some((id, value == "1"))
    });
    devices.collect()
}

/// True when a device of it is missing.
pub(in crate::rules) fn lacks_device(node: &Node) -> bool {
    devices_of(node).iter().any(|(_, is_missing)| *is_missing)
}

fn profiles<'a>(m: &Mounted<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    m.fs.data_profiles.iter().chain(&m.fs.metadata_profiles).map(String::as_str)
}

/// The profile of several in use that survives most: the others are what a degraded mount wrote.
fn wanted(profiles: &[String]) -> Option<&str> {
    let named = profiles.iter().map(String::as_str).filter(|profile| forgiven(profile) > 0);
    named.max_by_key(|profile| forgiven(profile))
}

/// A filesystem that lacks devices, and whose new data may have no second copy.
pub(super) fn degraded(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let all = all.iter().filter(|m| m.fs.fs_type == "btrfs");
    all.filter_map(|m| {
        let devices = devices_of(m.node);
        let missing: Vec<&str> =
            devices.iter().filter(|(_, gone)| *gone).map(|(id, _)| *id).collect();
        let lost = missing.len() as u64;
        let left = profiles(m).map(forgiven).min().unwrap_or(0);
        if lost == 0 {
            return None;
        }
        let gravity = if m.is_writable() || left <= lost { Gravity::High } else { Gravity::Medium };
        let place = &m.mount.mount_point;
        let mut defect = Defect::new(
            "btrfs-degraded",
            gravity,
            Some(&m.node.key()),
            format!("btrfs at {place} lacks {lost} of its {} devices", devices.len()),
        );
        for id in &missing {
            let uuid = m.fs.uuid.as_deref().unwrap_or("UUID");
            defect = defect.seen(format!("/sys/fs/btrfs/{uuid}/devinfo/{id}/missing"), "1");
        }
        let disks = scene.machine().disks_under(m.index);
        for disk in disks.into_iter().filter(|disk| is_failing(scene, *disk)) {
            let disk = scene.node(disk);
            let name = format!("btrfs at {place}");
            defect = defect.concerning(disk.key()).advise(save_first(&name, &disk.name));
        }
        if m.mount.has_option("degraded") {
            defect = defect.seen(m.options_file(), "degraded");
        }
        Some(mend(defect, m, &missing))
    })
    .collect()
}

/// Devices of one btrfs by their superblocks, none of which the kernel uses.
fn apart<'a>(scene: &Scene<'a>) -> BTreeMap<&'a str, Vec<(&'a Node, &'a FsSuperblock)>> {
    let superblock = |node: &'a Node| {
        let content = node.details().content.as_ref().filter(|content| content.md.is_none())?;
        let filesystem = content.filesystem.as_ref().filter(|fs| fs.fs_type == "btrfs")?;
        Some((filesystem.uuid.as_deref()?, filesystem))
    };
    let mut all: BTreeMap<&str, Vec<(&Node, &FsSuperblock)>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for (index, node) in scene.nodes(&[]) {
        let Some((uuid, filesystem)) = superblock(node) else { continue };
        // A path shows what the drive shows that it leads to.
        if scene.above(index).any(|(_, above)| superblock(above) == Some((uuid, filesystem))) {
            continue;
        }
        all.entry(uuid).or_default().push((node, filesystem));
        if !scene.is_free(index) || node.details().opened == Some(true) {
            used.insert(uuid);
        }
    }
    all.retain(|uuid, _| !used.contains(uuid));
    all
}

/// A filesystem that is not mounted, and cannot be, since not all its devices are there.
pub(super) fn incomplete(scene: &Scene<'_>) -> Vec<Defect> {
    if !shows_all(scene) {
        return Vec::new();
    }
    let all = apart(scene);
    // What a filesystem reads of a seed has the UUID of the seed.
    let seeds = all.values().flatten().filter(|(_, fs)| fs.is_seed).count() as u64;
    let maybe = resting(scene) as u64 + seeds;
    let told = all.into_iter().filter_map(|(uuid, devices)| {
        let newest = devices.iter().max_by_key(|(_, fs)| fs.generation)?;
        let wanted = newest.1.devices?;
        let own = devices.iter().filter(|(_, fs)| fs.device_number != Some(0));
        let seen: BTreeSet<_> = own.map(|(_, fs)| fs.device_uuid.as_deref()).collect();
        let missing = wanted.saturating_sub(seen.len() as u64);
        (missing > maybe).then(|| tell_incomplete(scene, uuid, newest, missing))
    });
    told.collect()
}

fn tell_incomplete(
    scene: &Scene<'_>,
    uuid: &str,
    (node, filesystem): &(&Node, &FsSuperblock),
    missing: u64,
) -> Defect {
    let path = word(node.label());
    let all = filesystem.devices.unwrap_or(missing);
    let sure = if is_all_read(scene) { Certainty::Certain } else { Certainty::Possible };
    let summary =
        format!("{missing} of the {all} devices of the btrfs on {} are not there", node.label());
    Defect::new("btrfs-incomplete", Gravity::High, Some(&node.key()), summary)
        .sure(sure)
        .seen(format!("superblock of btrfs on {}", node.label()), format!("{all} devices of {uuid}"))
        .because("it cannot be mounted as it is; without a device its data has a copy less, or is not whole")
        .command("see which devices those are", format!("btrfs filesystem show {}", word(uuid)))
        .advise("bring them back: cable, adapter, iSCSI or encryption that was not opened yet")
        .command("when they are back, let the kernel see them, and mount", "btrfs device scan")
        .command(
            "only when they are gone for good, and where all that is on it has copies: mount what is left",
            format!("mkdir -p /run/mnt && mount -t btrfs -o degraded {path} /run/mnt"),
        )
        .advise("then put others in their place, as btrfs-degraded says of it: fathom check /run/mnt")
        .risking(
            "what is written without the device may have one copy only; a device that comes back after such writes has old data: scrub then",
        )
        .verified_by(format!("btrfs filesystem show {} shows no missing device", word(uuid)))
}

fn mend(defect: Defect, m: &Mounted<'_>, missing: &[&str]) -> Defect {
    let place = word(&m.mount.mount_point);
    let mut defect = defect
        .because(
            "what the missing device held has one copy less, or none; and where too few devices \
            are left for the profile, new data is written once only and stays so",
        )
        .command("see which device is missing", format!("btrfs filesystem show {place}"))
        .advise("where it only was away (cable, power): bring it back, mount anew, and scrub");
    for id in missing {
        defect = defect.command(
            format!("else put another in the place of device {id} (not: device remove missing)"),
            format!("btrfs replace start -B {id} /dev/NEW {place}"),
        );
    }
    let convert = [('d', &m.fs.data_profiles), ('m', &m.fs.metadata_profiles)];
    let convert: Vec<String> = convert
        .into_iter()
        .filter_map(|(kind, all)| Some(format!("-{kind}convert={},soft", wanted(all)?)))
        .collect();
    if !convert.is_empty() {
        defect = defect.command(
            "then give what was written meanwhile its copies",
            format!("btrfs balance start {} {place}", convert.join(" ")),
        );
    }
    defect
        .risking(
            "/dev/NEW is overwritten; the copy reads all that is left from end to end, which may \
            show further bad places: have a backup first",
        )
        .verified_by(format!(
            "btrfs filesystem usage {place} shows no missing device and no profile single beside \
            the wanted one"
        ))
}

/// Devices of a filesystem with copies that one failing drive takes together.
pub(super) fn one_disk(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let all = all.iter().filter(|m| m.fs.fs_type == "btrfs");
    all.filter(|m| profiles(m).any(|profile| forgiven(profile) > 0))
        .filter_map(|m| {
            let devices: Vec<usize> = scene.below(m.index).map(|(device, _)| device).collect();
            let pairs = on_one_drive(scene, &devices);
            let (first, second, disk) = pairs.first()?;
            // As many as share one drive are lost with it.
            let together = pairs.iter().map(|(_, _, disk)| {
                let own = pairs.iter().filter(|pair| pair.2 == *disk);
                own.flat_map(|&(a, b, _)| [a, b]).collect::<BTreeSet<usize>>().len() as u64
            });
            let borne = profiles(m).map(forgiven).filter(|&count| count > 0).min()?;
            if together.max()? <= borne {
                return None;
            }
            let name = |index: usize| scene.node(index).name.as_str();
            let shared: BTreeSet<&str> =
                pairs.iter().flat_map(|&(a, b, _)| [name(a), name(b)]).collect();
            let place = &m.mount.mount_point;
            let defect = Defect::new(
                "btrfs-copies-one-disk",
                Gravity::High,
                Some(&m.node.key()),
                format!(
                    "{} of the devices of btrfs at {place} lie on drives that they share: {}",
                    shared.len(),
                    list(shared.iter().copied())
                ),
            )
            .seen(
                format!("{} and {}", scene.node(*first).label(), scene.node(*second).label()),
                format!("both on {disk}"),
            )
            .because(
                "one failed drive takes more of them with it than the profile bears; and each write moves the same \
                heads, or fills the same link, twice",
            );
            Some(
                defect
                    .command(
                        "move one of them to a drive of its own",
                        format!(
                            "btrfs replace start -B {} /dev/NEW {}",
                            word(scene.node(*second).label()),
                            word(place)
                        ),
                    )
                    .risking("/dev/NEW is overwritten; until the copy is done it stays as unsafe as it is")
                    .verified_by("lsblk -s shows each device on a disk of its own"),
            )
        })
        .collect()
}
