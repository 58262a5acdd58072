//! Single layers: held back, broken, encrypted, protected, deduplicated.

use super::{devices, is_lvm, status_of, table_of, volume_name};
use crate::dm;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{DmFacts, Node};

/// I/O to the device waits until somebody resumes it.
pub(super) fn suspended(scene: &Scene<'_>) -> Vec<Defect> {
    let all = devices(scene).filter(|(_, _, dm)| dm.suspended == Some(true));
    all.map(|(_, node, dm)| {
        let name = dm.name.as_deref().unwrap_or(&node.name);
        Defect::new(
            "dm-suspended",
            Gravity::High,
            Some(&node.key()),
            format!("{name} is suspended: all I/O to it waits"),
        )
        .seen(format!("/sys/block/{}/dm/suspended", node.name), "1")
        .because(
            "programs that use it hang and cannot be killed; LVM suspends volumes for a \
            moment only, so a tool has probably died in between",
        )
        .advise("make sure that no LVM, cryptsetup or multipath command is still at work: ps -ef")
        .command(
            "see whether another table waits to be put in its place",
            format!("dmsetup info {}", word(name)),
        )
        .command("let I/O through again", format!("dmsetup resume {}", word(name)))
        .risking(
            "resumed in the middle of a change the device may have the table of before or \
            after it: where LVM was at work, run vgck on its group afterwards",
        )
        .verified_by(format!("cat /sys/block/{}/dm/suspended says 0", node.name))
    })
    .collect()
}

/// Lines of a table that answer everything with an error, beside others that do not.
pub(super) fn error_target(scene: &Scene<'_>) -> Vec<Defect> {
    devices(scene)
        .filter_map(|(_, node, dm)| {
            let errors: u64 =
                dm::lines(&dm.table, "error").map(|line| line.sectors).fold(0, u64::saturating_add);
            // A map of nothing but errors is a tool's placeholder.
            if errors == 0 || dm.targets.iter().all(|target| target == "error") {
                return None;
            }
            let (name, bytes) = (volume_name(node, dm), errors.saturating_mul(dm::SECTOR_BYTES));
            let fix = if is_lvm(dm) {
                ("see which device is missing", format!("lvs -a -o +devices {}; pvs", word(&name)))
            } else {
                ("see its table", table_of(dm, node))
            };
            Some(
                Defect::new(
                    "dm-error-target",
                    Gravity::High,
                    Some(&node.key()),
                    format!("{} of {name} give only errors", format_size(bytes)),
                )
                .seen(table_of(dm, node), format!("{} bytes of target error", bytes))
                .because(
                    "reads and writes there fail; LVM puts this in the place of a device \
                    that was missing when it activated the volume in parts",
                )
                .command(fix.0, fix.1)
                .advise(
                    "bring the device back, then activate the volume again: lvchange -an, \
                    lvchange -ay",
                )
                .advise("if it is gone for good, mount read-only and save what can be read")
                .risking(
                    "writing to a filesystem with holes in it spoils more of it: mount it \
                    read-only until the device is back",
                )
                .verified_by(format!("{} shows no error target", table_of(dm, node))),
            )
        })
        .collect()
}

/// dm-crypt on drives that are so fast that handing requests over costs more than encrypting them.
pub(super) fn crypt_workqueues(scene: &Scene<'_>) -> Vec<Defect> {
    devices(scene)
        .filter_map(|(index, node, dm)| {
            let line = dm::lines(&dm.table, "crypt").next()?;
            let table = dm::crypt_table(line.words)?;
            let missing: Vec<&str> = ["no_read_workqueue", "no_write_workqueue"]
                .into_iter()
                .filter(|flag| !table.options.contains(flag))
                .collect();
            let disks = scene.machine().disks_under(index);
            let nvme = |&disk: &usize| {
                scene
                    .node(disk)
                    .drive
                    .as_ref()
                    .is_some_and(|drive| drive.transport.as_deref() == Some("nvme"))
            };
            if missing.is_empty() || disks.is_empty() || !disks.iter().all(nvme) {
                return None;
            }
            let name = dm.name.as_deref().unwrap_or(&node.name);
            let flags = table.refresh_words(&missing);
            Some(
                Defect::new(
                    "dm-crypt-workqueues",
                    Gravity::Low,
                    Some(&node.key()),
                    format!(
                        "{name} encrypts NVMe storage and hands requests to other threads for it"
                    ),
                )
                .sure(Certainty::Possible)
                .seen(table_of(dm, node), format!("without {}", missing.join(", ")))
                .because(
                    "on drives that answer in tens of microseconds the hand-over costs as \
                    much as the request; with many requests at once it may help instead",
                )
                .command("measure first", format!("fathom run randread {}", word(node.label())))
                .command(
                    "try it in the running mapping, with the options that it has already; LUKS2 \
                    keeps them with --persistent",
                    format!("cryptsetup refresh {flags} {}", word(name)),
                )
                .risking(
                    "encryption then happens where the request comes from, also in \
                    interrupts: latency of other work may rise; cryptsetup refresh without \
                    these two takes it back, and so does it with any other option that is left out",
                )
                .verified_by(format!(
                    "fathom run randread {} before and after, and fathom compare",
                    word(node.label())
                )),
            )
        })
        .collect()
}

/// dm-integrity with its journal.
pub(super) fn integrity_journal(scene: &Scene<'_>) -> Vec<Defect> {
    devices(scene)
        .filter_map(|(_, node, dm)| {
            let line = dm::lines(&dm.table, "integrity").next()?;
            let table = dm::integrity_table(line.words).filter(|table| table.mode == "J")?;
            let defect = Defect::new(
                "dm-integrity-journal",
                Gravity::Low,
                Some(&node.key()),
                format!(
                    "{} writes every block and its checksum to a journal first",
                    volume_name(node, dm)
                ),
            )
            .seen(table_of(dm, node), format!("mode {} on {}", table.mode, table.device))
            .because(
                "writes take twice the bandwidth of the drives; the journal is what \
                keeps data and checksums together over a crash",
            );
            Some(without_journal(defect, node, dm).verified_by(format!(
                "fathom run seqwrite on a file of {} before and after",
                word(node.label())
            )))
        })
        .collect()
}

/// A bitmap in the place of the journal, by the tool that made the layer.
fn without_journal(defect: Defect, node: &Node, dm: &DmFacts) -> Defect {
    const RISK: &str =
        "with a bitmap, damage by a bad drive in the moments before a crash is taken for good data";
    let name = volume_name(node, dm);
    if name.ends_with("_dif") {
        return defect
            .advise(
                "cryptsetup has no bitmap for LUKS2; a container whose lost writes cost nothing \
                may go without: cryptsetup refresh --integrity-no-journal with the options that it \
                has already",
            )
            .risking("without a journal, what a crash cuts in the middle can no longer be read");
    }
    if !is_lvm(dm) {
        return defect
            .advise(
                "when a write that was cut by a crash may be recalculated instead, a bitmap costs \
                much less: integritysetup open --integrity-bitmap-mode, with the options that it \
                was opened with",
            )
            .risking(RISK);
    }
    let volume = word(name.rsplit_once("_rimage_").map_or(name.as_str(), |(volume, _)| volume));
    defect
        .command(
            "when a write that was cut by a crash may be recalculated instead, a bitmap costs much \
            less: take the checksums off, and make them anew with one",
            format!(
                "lvconvert --raidintegrity n {volume} && \
                lvconvert --raidintegrity y --raidintegritymode bitmap {volume}"
            ),
        )
        .risking(format!(
            "{RISK}; until the new checksums are complete (lvs -a -o +sync_percent) damage is not \
            seen, and they take for good what is there"
        ))
}

/// VDO promises more than it has, and stops when it has no more.
pub(super) fn vdo_full(scene: &Scene<'_>) -> Vec<Defect> {
    devices(scene)
        .filter_map(|(_, node, dm)| {
            let line = dm::lines(&dm.status, "vdo").next()?;
            let status = dm::vdo_status(line.words)?;
            let share = status.blocks.share()?;
            let stopped = status.mode == "read-only";
            if share < 0.8 && !stopped {
                return None;
            }
            let gravity = if share >= 0.95 || stopped { Gravity::High } else { Gravity::Medium };
            let name = volume_name(node, dm);
            let state = if stopped { ", and is read-only" } else { "" };
            Some(
                Defect::new(
                    "vdo-full",
                    gravity,
                    Some(&node.key()),
                    format!("{name} has used {:.0} % of its physical blocks{state}", share * 100.0),
                )
                .seen(
                    status_of(dm, node),
                    format!(
                        "{} of {} blocks, {}",
                        status.blocks.used, status.blocks.total, status.mode
                    ),
                )
                .because(
                    "without physical space writes fail although the \
                    filesystem above shows free space",
                )
                .advise("delete what can go, and give the space back: fstrim on the mount point")
                .advise("add space: lvextend the pool that holds it (the _vpool volume)")
                .risking("none")
                .verified_by(format!(
                    "{} shows fewer used blocks, or more in all",
                    status_of(dm, node)
                )),
            )
        })
        .collect()
}
