//! Multipath maps of the device-mapper.

use super::{Map, maps};
use crate::conditions;
use crate::dm;
use crate::rules::shared::{list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use std::collections::BTreeSet;

/// A map that has lost paths.
pub(super) fn degraded(scene: &Scene<'_>) -> Vec<Defect> {
    maps(scene).iter().filter_map(|map| lost_paths(scene, map)).collect()
}

fn lost_paths(scene: &Scene<'_>, map: &Map<'_>) -> Option<Defect> {
    let failed: Vec<&Node> = map
        .paths
        .iter()
        .map(|(_, node)| *node)
        .filter(|node| conditions::is_failed_path(map.dm, node))
        .collect();
    if failed.is_empty() {
        return None;
    }
    let (lost, all) = (failed.len(), map.paths.len());
    let why = if lost == all {
        "no I/O to it can succeed: it waits or fails, and filesystems on it stop"
    } else if all - lost == 1 {
        "one more failure and the drive is gone; until then one path carries everything"
    } else {
        "the paths that are left carry everything, and requests to a failing one are \
            tried again elsewhere after a time-out"
    };
    let mut defect = Defect::new(
        "multipath-degraded",
        Gravity::High,
        Some(&map.node.key()),
        format!(
            "the multipath map {} has lost {lost} of its {all} paths ({})",
            map.name,
            list(failed.iter().map(|node| node.name.as_str()))
        ),
    )
    .because(why);
    for node in &failed {
        let state = node.drive.as_ref().and_then(|drive| drive.state.as_deref());
        defect = match state {
            Some(state) if !matches!(state, "running" | "live") => {
                defect.seen(sysfs(node, "device/state"), state)
            }
            _ => defect.seen(
                format!("dmsetup status {}", map.name),
                format!("{} F", node.devno.as_deref().unwrap_or(&node.name)),
            ),
        };
        defect = defect.concerning(node.key());
    }
    let first = failed[0];
    Some(
        defect
            .command(
                "see all paths, their ports and states",
                format!("multipath -ll {}", word(map.name)),
            )
            .command("see when and why", "dmesg -T | grep -iE 'path|rport|link|offline'")
            .advise(if daemon_runs(scene) == Some(false) {
                "bring the path back: cable, switch port, zone, target port; nobody takes it \
                    back before multipathd runs"
            } else {
                "bring the path back: cable, switch port, zone, target port; multipathd \
                    takes it back by itself"
            })
            .command(
                "a path whose device was set offline stays so until",
                format!("echo running > {}", word(sysfs(first, "device/state"))),
            )
            .risking(
                "a path that comes and goes is worse than one that is gone: take it out \
                until it is mended",
            )
            .verified_by(format!(
                "multipath -ll {} shows all paths active ready; fathom quick before and after",
                word(map.name)
            )),
    )
}

/// Transports that have several paths where somebody cared.
const NETWORKS: [&str; 3] = ["fc", "iscsi", "sas"];

/// A map with just one path.
pub(super) fn single_path(scene: &Scene<'_>) -> Vec<Defect> {
    maps(scene)
        .into_iter()
        .filter_map(|map| {
            let [(_, path)] = map.paths[..] else { return None };
            let transport = path
                .drive
                .as_ref()
                .and_then(|drive| drive.transport.as_deref())
                .unwrap_or("unknown");
            let network = NETWORKS.contains(&transport);
            let defect = Defect::new(
                "multipath-single-path",
                if network { Gravity::Medium } else { Gravity::Low },
                Some(&map.node.key()),
                format!(
                    "the multipath map {} has one path only ({}, {transport})",
                    map.name, path.name
                ),
            )
            .sure(if network { Certainty::Likely } else { Certainty::Possible })
            .seen(format!("/sys/block/{}/slaves", map.node.name), path.name.clone());
            let defect = if network {
                defect
                    .because(
                        "nothing takes over when this path fails, and half of the bandwidth \
                        may be missing",
                    )
                    .command(
                        "look for new paths",
                        "rescan-scsi-bus.sh --alltargets || for h in \
                        /sys/class/scsi_host/host*; do echo '- - -' > $h/scan; done",
                    )
                    .advise("see the second port: link, zone, portal, host entry on the array")
            } else {
                defect
                    .because(
                        "a local drive gains nothing from a map: it is one more layer, and \
                        one more name",
                    )
                    .advise(
                        "leave local drives out: find_multipaths yes in \
                        /etc/multipath.conf, or blacklist its wwid",
                    )
            };
            Some(
                defect
                    .risking(
                        "a scan of the bus is harmless; leaving a drive out of multipath \
                        changes its name for those who mount it by /dev/mapper",
                    )
                    .verified_by(format!("multipath -ll {}", word(map.name))),
            )
        })
        .collect()
}

/// Round robin over paths that are not equally fast.
pub(super) fn selector(scene: &Scene<'_>) -> Vec<Defect> {
    maps(scene)
        .into_iter()
        .filter_map(|map| {
            let line = dm::lines(&map.dm.table, "multipath").next()?;
            let (_, groups) = dm::multipath_table(line.words)?;
            let speed = |devno: &str| {
                let drive = map.path(devno)?.drive.as_ref()?;
                drive.link_speed.clone()
            };
            let unequal = groups.iter().filter(|group| group.selector == "round-robin").find_map(
                |group| {
                    let speeds: Option<BTreeSet<String>> =
                        group.paths.iter().map(|path| speed(path.device)).collect();
                    speeds.filter(|speeds| speeds.len() > 1)
                },
            )?;
            let speeds = list(unequal.iter().map(String::as_str));
            Some(
                Defect::new(
                    "multipath-selector",
                    Gravity::Medium,
                    Some(&map.node.key()),
                    format!(
                        "paths of {} take turns although their links differ: {speeds}",
                        map.name
                    ),
                )
                .seen(format!("dmsetup table {}", map.name), "round-robin")
                .seen("link speeds of its paths", speeds.clone())
                .because(
                    "each path gets as many requests as the others, so the map goes at the \
                    pace of the slowest",
                )
                .advise(
                    "in /etc/multipath.conf, defaults or the section of this array: \
                    path_selector \"service-time 0\"",
                )
                .command(
                    "load it",
                    format!("multipathd reconfigure && multipath -r {}", word(map.name)),
                )
                .advise("and find out why the links differ")
                .risking("none: maps are changed while they are used")
                .verified_by(format!(
                    "fathom run seqread {} before and after",
                    word(map.node.label())
                )),
            )
        })
        .collect()
}

/// Optimised and other paths in one group: half of the requests go the long way.
pub(super) fn groups_unequal(scene: &Scene<'_>) -> Vec<Defect> {
    maps(scene)
        .into_iter()
        .filter_map(|map| {
            let line = dm::lines(&map.dm.table, "multipath").next()?;
            let (_, groups) = dm::multipath_table(line.words)?;
            let state = |devno: &str| {
                Some((map.path(devno)?, map.path(devno)?.details().access_state.as_deref()?))
            };
            let mixed = groups.iter().find_map(|group| {
                let states: Vec<(&Node, &str)> =
                    group.paths.iter().filter_map(|path| state(path.device)).collect();
                let distinct: BTreeSet<&str> = states.iter().map(|(_, state)| *state).collect();
                (distinct.len() > 1).then_some(states)
            })?;
            let dead = mixed.iter().any(|(_, state)| {
                ["standby", "unavailable", "offline"].iter().any(|bad| state.contains(bad))
            });
            let words = list(mixed.iter().map(|(node, _)| node.name.as_str()));
            let mut defect = Defect::new(
                "multipath-groups-unequal",
                if dead { Gravity::High } else { Gravity::Medium },
                Some(&map.node.key()),
                format!("{} uses paths of unequal state together ({words})", map.name),
            );
            for (node, state) in &mixed {
                defect = defect.seen(sysfs(node, "device/access_state"), *state);
            }
            let why = if dead {
                "requests to the paths that are not active fail and are tried again \
                    elsewhere, or make the array move the volume back and forth between \
                    its controllers"
            } else {
                "requests over the paths that are not optimised are handed from one \
                    controller of the array to the other, and wait for that"
            };
            Some(
                defect
                    .because(why)
                    .advise(
                        "in /etc/multipath.conf, in the section of this array: \
                        path_grouping_policy group_by_prio, prio alua, failback immediate; \
                        better: remove own settings, multipath knows most arrays",
                    )
                    .command("see what it uses for the array", "multipathd show config | less")
                    .command(
                        "load it",
                        format!("multipathd reconfigure && multipath -r {}", word(map.name)),
                    )
                    .risking(
                        "none: maps are changed while they are used; ask the maker of the \
                        array for its settings",
                    )
                    .verified_by(format!(
                        "multipath -ll {} shows two groups with different prio; fathom run \
                        randread {} before and after",
                        word(map.name),
                        word(map.node.label())
                    )),
            )
        })
        .collect()
}

/// A setting of `multipath.conf`: of the section for maps, for arrays, or of the defaults.
fn says<'a>(scene: &Scene<'a>, key: &str) -> Vec<&'a str> {
    let Some(conf) = &scene.snapshot.system.configuration.multipath else { return Vec::new() };
    let sections =
        conf.multipaths.iter().chain(&conf.devices).chain(std::iter::once(&conf.defaults));
    let entries = sections.flatten().filter(|(name, _)| name == key);
    entries.map(|(_, value)| value.trim_matches('"')).collect()
}

/// Without any path, requests wait for ever.
pub(super) fn queue_forever(scene: &Scene<'_>) -> Vec<Defect> {
    // A number of tries ends the waiting, although the table looks the same meanwhile.
    let retries = says(scene, "no_path_retry");
    if retries.iter().any(|value| value.parse::<u64>().is_ok() || *value == "fail") {
        return Vec::new();
    }
    let asked = retries.contains(&"queue")
        || says(scene, "features").iter().any(|value| value.contains("queue_if_no_path"));
    maps(scene)
        .into_iter()
        .filter_map(|map| {
            let line = dm::lines(&map.dm.table, "multipath").next()?;
            let (features, _) = dm::multipath_table(line.words)?;
            if !features.contains(&"queue_if_no_path") {
                return None;
            }
            Some(
                Defect::new(
                    "multipath-queue-forever",
                    Gravity::Low,
                    Some(&map.node.key()),
                    format!(
                        "when {} loses all its paths, requests wait until one comes back, \
                        however long",
                        map.name
                    ),
                )
                .sure(if asked { Certainty::Certain } else { Certainty::Possible })
                .seen(format!("dmsetup table {}", map.name), "queue_if_no_path")
                .because(
                    "programs then hang and cannot be killed, and a cluster cannot take \
                    over; it is right where a short loss of all paths must not be seen and \
                    nobody else could do the work",
                )
                .advise(
                    "to give up after a minute (12 tries, 5 s apart), in \
                    /etc/multipath.conf: no_path_retry 12",
                )
                .command(
                    "load it",
                    format!("multipathd reconfigure && multipath -r {}", word(map.name)),
                )
                .command(
                    "when requests hang already",
                    format!("dmsetup message {} 0 fail_if_no_path", word(map.name)),
                )
                .risking(
                    "filesystems get errors when all paths were gone for that long, and \
                    turn read-only",
                )
                .verified_by(format!(
                    "multipathd show config local | grep no_path_retry; multipath -ll {}",
                    word(map.name)
                )),
            )
        })
        .collect()
}

/// Whether multipathd runs; none where processes were not looked at, because none of storage was seen.
fn daemon_runs(scene: &Scene<'_>) -> Option<bool> {
    let system = &scene.snapshot.system;
    let looked = !system.daemons.is_empty() || !system.kernel_threads.is_empty();
    looked.then(|| system.daemons.iter().any(|daemon| daemon.name == "multipathd"))
}

/// Maps, but no daemon that tests paths and takes them back.
pub(super) fn daemon_missing(scene: &Scene<'_>) -> Vec<Defect> {
    let maps = maps(scene);
    let is_missing = daemon_runs(scene) == Some(false);
    let Some(first) = maps.first().filter(|_| is_missing) else { return Vec::new() };
    let mut defect = Defect::new(
        "multipath-daemon-missing",
        Gravity::High,
        Some(&first.node.key()),
        format!("multipathd does not run, but there are {} multipath maps", maps.len()),
    )
    .seen("/proc: processes", "no multipathd");
    for map in &maps[1..] {
        defect = defect.concerning(map.node.key());
    }
    vec![
        defect
            .because(
                "a path that failed once is never tried again, and new paths are not added: \
                the maps lose one path after the other",
            )
            .command("start it, now and at every boot", "systemctl enable --now multipathd")
            .risking("none; it takes the maps over as they are")
            .verified_by("multipathd show paths lists every path with its checker"),
    ]
}
