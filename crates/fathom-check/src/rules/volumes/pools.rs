//! Thin pools.

use super::{by_lvm, devices, is_lvm, status_of, table_of, volume_name};
use crate::dm::{self, PoolState, PoolStatus};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::detail::LvmHeader;
use fathom_model::stack::{DmFacts, Node};
use std::collections::BTreeMap;

/// From this share on, somebody has to act within days.
const NEARLY_FULL: f64 = 0.8;

/// From this share on, somebody has to act now.
const FULL: f64 = 0.95;

/// From this chunk on, LVM itself warns of zeroing.
const LARGE_CHUNK_BYTES: u64 = 512 << 10;

/// Chunks below this make a volume of many pieces...
const SMALL_CHUNK_BYTES: u64 = 256 << 10;

/// ...in a pool of this size.
const LARGE_POOL_BYTES: u64 = 1 << 40;

/// What gives space to a pool that LVM did not make.
const GROW_DATA: &str = "give it space: enlarge the device of its data, and load its table with the new length (dmsetup reload, suspend, resume), or let what made the pool do it";

/// The same for its metadata.
const GROW_METADATA: &str = "enlarge the device of its metadata, and load its table again (dmsetup reload, suspend, resume)";

/// What dm-thin uses of a device for metadata (`DM_SM_METADATA_MAX_BLOCKS`).
const METADATA_BYTES_MAX: u64 = 255 * ((1 << 14) - 64) * 4096;

/// Below this it is as large as it gets: LVM long stopped at 15.81 GiB.
const METADATA_ROOM_BYTES_MIN: u64 = 128 << 20;

/// Every pool that reports a state.
fn pools<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (usize, &'a Node, &'a DmFacts, PoolStatus<'a>)> {
    devices(scene).filter_map(|(index, node, dm)| {
        let line = dm
            .status
            .iter()
            .filter_map(|text| dm::line(text))
            .find(|line| line.kind == "thin-pool")?;
        Some((index, node, dm, dm::pool_status(line.words)?))
    })
}

fn working<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (usize, &'a Node, &'a DmFacts, PoolState<'a>)> {
    pools(scene).filter_map(|(index, node, dm, status)| match status {
        PoolStatus::Works(state) => Some((index, node, dm, state)),
        PoolStatus::Failed => None,
    })
}

/// A pool that takes no writes any more.
pub(super) fn failed(scene: &Scene<'_>) -> Vec<Defect> {
    pools(scene)
        .filter_map(|(_, node, dm, status)| {
            let what = match status {
                PoolStatus::Failed => "has failed: its metadata cannot be used",
                PoolStatus::Works(state) if state.mode == "out_of_data_space" => {
                    "has no space left, and writes wait or fail"
                }
                PoolStatus::Works(state) if state.needs_check => {
                    "needs its metadata checked, and is read-only until then"
                }
                PoolStatus::Works(state) if state.mode == "ro" => "is read-only",
                PoolStatus::Works(_) => return None,
            };
            let name = volume_name(node, dm);
            let line = dm.status.first().cloned().unwrap_or_default();
            let defect = Defect::new(
                "thin-pool-failed",
                Gravity::High,
                Some(&node.key()),
                format!("the thin pool {name} {what}"),
            )
            .seen(status_of(dm, node), line)
            .because(
                "filesystems on its volumes get errors for writes that they believed to \
                    have space for, and may lose what was not yet on stable storage",
            );
            let quoted = word(&name);
            let defect = if what.contains("no space") {
                let without_space = match status {
                    PoolStatus::Works(state) => state.without_space,
                    PoolStatus::Failed => "",
                };
                let text = format!("give it space at once ({})", after(scene, without_space));
                grow(scene, defect, dm, &text, &name).advise(
                    "then check the filesystems on its volumes: errors may have been given \
                    already",
                )
            } else {
                let defect = defect.advise(
                    "unmount what is on its volumes, and deactivate the pool with all of them",
                );
                let text = "look at the metadata before repairing it";
                let look = format!("lvchange -an {quoted}; lvs -a {quoted}");
                let defect = by_lvm(defect, dm, text, look, "look at the metadata: thin_check");
                let text = "repair into new metadata; the old stays as a volume _meta0";
                let repair = format!("lvconvert --repair {quoted}");
                let by_hand =
                    "repair into another device: thin_repair, from a copy of the metadata";
                let defect = by_lvm(defect, dm, text, repair, by_hand);
                match status {
                    PoolStatus::Works(state) if is_metadata_nearly_full(&state) => {
                        let when = "once it works again, before anything else";
                        grow_metadata(defect, dm, &state, &name, when)
                    }
                    _ => defect,
                }
            };
            Some(
                defect
                    .risking(
                        "a repair may lose the newest volumes or snapshots: where the data \
                        matters, copy the metadata volume first",
                    )
                    .verified_by(format!(
                        "{} says rw, and fsck of the filesystems on it finds nothing",
                        status_of(dm, node)
                    )),
            )
        })
        .collect()
}

/// A pool's data space nears its end.
pub(super) fn data_full(scene: &Scene<'_>) -> Vec<Defect> {
    working(scene)
        .filter(|(_, _, _, state)| state.mode == "rw")
        .filter_map(|(_, node, dm, state)| {
            let share = state.data.share().filter(|&share| share >= NEARLY_FULL)?;
            let name = volume_name(node, dm);
            let after = after(scene, state.without_space);
            let defect = Defect::new(
                "thin-pool-full",
                if share >= FULL { Gravity::High } else { Gravity::Medium },
                Some(&node.key()),
                format!("the thin pool {name} is {:.0} % full", share * 100.0),
            )
            .seen(
                status_of(dm, node),
                format!("{} of {} chunks", state.data.used, state.data.total),
            )
            .because(format!(
                "{after} when nothing is left, although the filesystems above still show free space"
            ))
            .command("give back what filesystems no longer use", "fstrim --all --verbose");
            let text = "see volumes and snapshots that can go";
            let see = format!("lvs -o +data_percent,origin,time {}", word(group(&name)));
            let defect = by_lvm(defect, dm, text, see, "remove volumes and snapshots that can go");
            Some(
                grow(scene, defect, dm, "give it space", &name)
                    .risking("none; fstrim sends many discards at once, better at a quiet time")
                    .verified_by(format!(
                        "{} shows fewer used chunks, or more in all",
                        status_of(dm, node)
                    )),
            )
        })
        .collect()
}

/// What becomes of writes to new places when nothing is left: the kernel's setting holds for all pools.
fn after(scene: &Scene<'_>, without_space: &str) -> String {
    if without_space == "error_if_no_space" {
        return "writes to new places fail at once".to_owned();
    }
    let mut parameters = scene.snapshot.system.module_parameters.iter();
    let timeout = parameters.find(|(name, _)| name == "dm_thin_pool.no_space_timeout");
    match timeout.and_then(|(_, seconds)| seconds.parse::<u64>().ok()) {
        Some(0) => "writes to new places wait until there is some".to_owned(),
        Some(seconds) => format!("writes to new places wait for {seconds} s and then fail"),
        None => "writes to new places wait for a while (60 s by default) and then fail".to_owned(),
    }
}

/// A pool gets so much at a time where its group has it.
const GROWTH_BYTES: u64 = 10 << 30;

/// With fewer extents in its group a pool gets nothing: four fifths of them have to leave some for its metadata.
const EXTENTS_MIN: u64 = 10;

/// Gives a pool what its group has left, but not all of it: without space for its metadata it ends worse.
fn grow(scene: &Scene<'_>, defect: Defect, dm: &DmFacts, text: &str, name: &str) -> Defect {
    let (group, quoted) = (group(name), word(name));
    let most = format!("lvextend -l +80%FREE {quoted}");
    match free(scene, group).filter(|_| is_lvm(dm)) {
        Some((extents, bytes)) => {
            let has = match bytes {
                0 => "none".to_owned(),
                bytes => format_size(bytes),
            };
            let text = format!("{text}: the group {group} has {has} left");
            if extents < EXTENTS_MIN {
                let command = format!("vgextend {} /dev/NEW && {most}", word(group));
                return defect.command(format!("{text}, so add a device first"), command);
            }
            let is_plenty = bytes / 5 * 4 >= GROWTH_BYTES;
            defect
                .command(text, if is_plenty { format!("lvextend -L +10G {quoted}") } else { most })
        }
        None => by_lvm(defect, dm, text, format!("lvextend -l +50%FREE {quoted}"), GROW_DATA),
    }
}

/// Extents, and bytes in them, that a group has for new volumes; none where not all of its devices were seen.
fn free(scene: &Scene<'_>, group: &str) -> Option<(u64, u64)> {
    let headers = scene.nodes(&[]).filter_map(|(_, node)| {
        let lvm = node.details().content.as_ref()?.lvm.as_ref()?;
        (lvm.group.as_deref() == Some(group)).then_some((lvm.uuid.as_deref()?, lvm))
    });
    let by_uuid: BTreeMap<&str, &LvmHeader> = headers.collect();
    let newest = by_uuid.values().max_by_key(|lvm| lvm.seqno)?;
    if newest.group_members.iter().any(|uuid| !by_uuid.contains_key(uuid.as_str())) {
        return None;
    }
    let (extents, each) = (newest.free_extents?, newest.extent_bytes?);
    Some((extents, extents.saturating_mul(each)))
}

/// The group in `group/volume`.
fn group(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn is_metadata_nearly_full(state: &PoolState<'_>) -> bool {
    state.metadata.share().is_some_and(|share| share >= NEARLY_FULL)
}

/// Bytes that a pool's metadata can still get; none where the kernel would not use them.
fn room_for_metadata(state: &PoolState<'_>) -> Option<u64> {
    let (_, total) = state.metadata_bytes();
    Some(METADATA_BYTES_MAX.saturating_sub(total)).filter(|&room| room >= METADATA_ROOM_BYTES_MIN)
}

/// By half of what it has, as far as the kernel uses it.
fn grow_metadata(
    defect: Defect,
    dm: &DmFacts,
    state: &PoolState<'_>,
    name: &str,
    when: &str,
) -> Defect {
    let (_, total) = state.metadata_bytes();
    let Some(room) = room_for_metadata(state) else {
        return defect.advise(format!(
            "it has as much as the kernel can use (15.9 GiB): {when}, remove snapshots and volumes that \
            can go, or move them to a new pool with larger chunks, which needs less",
        ));
    };
    let wanted = (total / 2).max(4 << 20);
    let more = if wanted > room {
        format!("{}M", room >> 20)
    } else {
        format_size(wanted).replace(' ', "").replace("iB", "")
    };
    let grow = format!("lvextend --poolmetadatasize +{more} {}", word(name));
    let by_hand = format!("give it space {when}: {GROW_METADATA}");
    by_lvm(defect, dm, &format!("give it space {when}"), grow, &by_hand)
}

/// A pool's metadata nears its end: worse than data, because it cannot be taken back.
pub(super) fn metadata_full(scene: &Scene<'_>) -> Vec<Defect> {
    working(scene)
        // Until it is repaired the kernel gives it nothing: that is told of the pool.
        .filter(|(_, _, _, state)| state.mode != "ro" && !state.needs_check)
        .filter_map(|(_, node, dm, state)| {
            let share = state.metadata.share().filter(|&share| share >= NEARLY_FULL)?;
            let name = volume_name(node, dm);
            let (used, total) = state.metadata_bytes();
            let defect = Defect::new(
                "thin-pool-metadata-full",
                if share >= FULL { Gravity::High } else { Gravity::Medium },
                Some(&node.key()),
                format!("the metadata of the thin pool {name} is {:.0} % full", share * 100.0),
            )
            .seen(status_of(dm, node), format!("{} of {}", format_size(used), format_size(total)))
            .because(
                "when it is full the pool turns read-only in the middle of whatever is \
                    written, and has to be repaired before it works again",
            );
            let (risk, effect) = match room_for_metadata(&state) {
                Some(_) => ("none; the pool stays in use", "more metadata blocks in all"),
                None => ("what is removed is lost", "fewer used metadata blocks"),
            };
            Some(
                grow_metadata(defect, dm, &state, &name, "now, while it works")
                    .risking(risk)
                    .verified_by(format!("{} shows {effect}", status_of(dm, node))),
            )
        })
        .collect()
}

/// More is promised than there is, and nothing adds space when it is used.
pub(super) fn no_autoextend(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(lvm) = &scene.snapshot.system.configuration.lvm else { return Vec::new() };
    // What LVM does without a setting: nothing.
    let threshold = lvm.thin_autoextend_threshold_percent.unwrap_or(100);
    if threshold < 100 {
        return Vec::new();
    }
    working(scene)
        .filter(|(_, _, dm, _)| is_lvm(dm))
        .filter_map(|(index, node, dm, state)| {
            let chunk = pool_chunk(dm)?;
            let has = state.data.total.checked_mul(chunk)?;
            let sizes = thin_volumes(scene, index).filter_map(|volume| volume.size_bytes);
            let promised = sizes.fold(0, u64::saturating_add);
            if promised <= has {
                return None;
            }
            let name = volume_name(node, dm);
            Some(
                Defect::new(
                    "thin-pool-no-autoextend",
                    Gravity::Medium,
                    Some(&node.key()),
                    format!(
                        "volumes of {} are promised {} of the thin pool {name}, and it does \
                        not grow by itself",
                        format_size(promised),
                        format_size(has)
                    ),
                )
                .seen(
                    "/etc/lvm/lvm.conf: activation/thin_pool_autoextend_threshold",
                    format!("{threshold} (off)"),
                )
                .seen(
                    table_of(dm, node),
                    format!("{} chunks of {}", state.data.total, format_size(chunk)),
                )
                .because(
                    "the volumes together can take more than there is; the pool then stops \
                    in the middle of their writes",
                )
                .advise(
                    "let LVM add space: in /etc/lvm/lvm.conf, section activation, \
                    thin_pool_autoextend_threshold = 70 and thin_pool_autoextend_percent = 20",
                )
                .command(
                    "and let its monitor watch the pool",
                    format!("lvchange --monitor y {}", word(&name)),
                )
                .risking(
                    "none while the group has free space: vgs shows it; without free space \
                    only an alarm helps",
                )
                .verified_by(format!("lvs -o +seg_monitor {} says monitored", word(&name))),
            )
        })
        .collect()
}

fn pool_chunk(dm: &DmFacts) -> Option<u64> {
    let line = dm::lines(&dm.table, "thin-pool").next()?;
    dm::pool_table(line.words).map(|table| table.chunk_bytes).filter(|&bytes| bytes > 0)
}

/// The volumes whose data is in the pool.
fn thin_volumes<'a>(scene: &Scene<'a>, pool: usize) -> impl Iterator<Item = &'a Node> {
    let above: Vec<&'a Node> = scene.above(pool).map(|(_, node)| node).collect();
    let is_thin = |node: &&Node| {
        node.dm.as_ref().is_some_and(|dm| dm.targets.iter().any(|target| target == "thin"))
    };
    above.into_iter().filter(is_thin)
}

/// New chunks are filled with zeros before the first write to them.
pub(super) fn zeroing(scene: &Scene<'_>) -> Vec<Defect> {
    devices(scene)
        .filter_map(|(_, node, dm)| {
            let line = dm::lines(&dm.table, "thin-pool").next()?;
            let table = dm::pool_table(line.words)?;
            if table.chunk_bytes < LARGE_CHUNK_BYTES
                || table.features.contains(&"skip_block_zeroing")
            {
                return None;
            }
            let (name, chunk) = (volume_name(node, dm), format_size(table.chunk_bytes));
            let defect = Defect::new(
                "thin-pool-zeroing",
                Gravity::Low,
                Some(&node.key()),
                format!(
                    "the thin pool {name} zeroes each new chunk of {chunk} before the \
                        first write to it"
                ),
            )
            .seen(table_of(dm, node), format!("chunk {chunk}, without skip_block_zeroing"))
            .because(format!(
                "a first write of 4 KiB to a new place writes {chunk}; zeroing keeps a \
                    volume from reading what another one deleted"
            ));
            let text = "where all volumes belong to one owner";
            let by_hand =
                "where all volumes belong to one owner: load its table with skip_block_zeroing";
            let off = format!("lvchange --zero n {}", word(&name));
            Some(
                by_lvm(defect, dm, text, off, by_hand)
                    .risking(
                        "a volume can then read remains of others in places that it has written \
                        only in part: do not do this where volumes belong to different people",
                    )
                    .verified_by("fathom run randwrite on a new file before and after"),
            )
        })
        .collect()
}

/// A large pool on rotating drives in small chunks.
pub(super) fn small_chunk(scene: &Scene<'_>) -> Vec<Defect> {
    devices(scene)
        .filter_map(|(index, node, dm)| {
            let chunk = pool_chunk(dm).filter(|&bytes| bytes < SMALL_CHUNK_BYTES)?;
            let size = node.size_bytes.filter(|&bytes| bytes >= LARGE_POOL_BYTES)?;
            if scene.rotates(index) != Some(true) {
                return None;
            }
            let name = volume_name(node, dm);
            Some(
                Defect::new(
                    "thin-pool-small-chunk",
                    Gravity::Low,
                    Some(&node.key()),
                    format!(
                        "the thin pool {name} of {} gives space in \
                        pieces of {} on drives that rotate",
                        format_size(size),
                        format_size(chunk)
                    ),
                )
                .sure(Certainty::Possible)
                .seen(table_of(dm, node), format!("chunk {} B", chunk))
                .because(
                    "volumes that grow side by side, and those with snapshots, end in \
                    pieces of this size: sequential reads of them become random ones",
                )
                .advise(
                    "the chunk of a pool cannot be changed: for the next one, lvcreate \
                    --type thin-pool --chunksize 512k, or more without snapshots",
                )
                .risking(
                    "moving volumes to a new pool copies all their data; larger chunks make \
                    snapshots larger",
                )
                .verified_by("fathom run seqread on an old, large file of a volume"),
            )
        })
        .collect()
}
