//! btrfs over several devices.

use super::{Mounted, mounted};
use crate::rules::disks::is_failing;
use crate::rules::shared::{list, on_one_drive};
use crate::rules::volumes::save_first;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::{FsFacts, Node};
use std::collections::BTreeSet;

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
