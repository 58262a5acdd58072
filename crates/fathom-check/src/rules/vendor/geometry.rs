//! Stripes of a controller against what filesystems were made for.

use super::{called, disk_of, on_controller, source};
use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::stack::detail::FsSuperblock;
use fathom_model::vendor::{Controller, VirtualDrive};

/// Filesystems whose superblock says which stripe they were made for, on the disk alone: with an array of Linux or several
/// disks between, the controller's stripe is not theirs.
fn filesystems_on<'a>(scene: &Scene<'a>, disk: usize) -> Vec<(&'a Node, &'a FsSuperblock)> {
    let above = scene.everything_above(disk).into_iter();
    let alone = above.filter(|&index| {
        let walk = scene.machine().walk_from(index);
        scene.machine().disks_under(index) == [disk]
            && walk.iter().all(|&below| scene.node(below).md.is_none())
    });
    alone
        .filter_map(|index| {
            let node = scene.node(index);
            let fs = node.details().content.as_ref()?.filesystem.as_ref()?;
            matches!(fs.fs_type.as_str(), "xfs" | "ext4").then_some((node, fs))
        })
        .collect()
}

/// Filesystems made for another stripe than the virtual drive under them has.
pub(super) fn mismatch(scene: &Scene<'_>) -> Vec<Defect> {
    let all = scene.snapshot.controllers.iter();
    let drives =
        all.flat_map(|controller| controller.drives.iter().map(move |drive| (controller, drive)));
    drives.flat_map(|(controller, drive)| mismatches(scene, controller, drive)).collect()
}

fn mismatches(scene: &Scene<'_>, controller: &Controller, drive: &VirtualDrive) -> Vec<Defect> {
    let Some((strip, stripe)) = drive.strip_bytes.zip(drive.stripe_bytes) else {
        return Vec::new();
    };
    let Some((disk, disk_node)) = disk_of(scene, drive) else { return Vec::new() };
    let said = filesystems_on(scene, disk).into_iter();
    let wrong = said.filter(|(_, fs)| {
        let (unit, width) = (fs.stripe_unit_bytes.unwrap_or(0), fs.stripe_width_bytes.unwrap_or(0));
        // One that was made for no stripe at all gets along with any.
        unit > 0 && (unit != strip || (width > 0 && width != stripe))
    });
    wrong
        .map(|(node, fs)| {
            let (unit, width) = (fs.stripe_unit_bytes.unwrap_or(0), fs.stripe_width_bytes.unwrap_or(0));
            let defect = on_controller(
                scene,
                "raid-geometry",
                Gravity::Medium,
                Some(drive),
                format!(
                    "{} on {} was made for strips of {} and stripes of {}; the controller has {} and {}",
                    fs.fs_type,
                    node.label(),
                    format_size(unit),
                    format_size(width),
                    format_size(strip),
                    format_size(stripe)
                ),
            )
            .sure(Certainty::Likely)
            .concerning(node.key())
            .seen(format!("superblock of {}", node.label()), format!("unit {unit} bytes, width {width} bytes"))
            .seen(source(controller), format!("virtual drive {} of {}: strip {strip} bytes, stripe {stripe} bytes", drive.name, called(controller)))
            .seen(sysfs(disk_node, "queue/optimal_io_size"), disk_node.queue.as_ref().and_then(|queue| queue.optimal_io_bytes).map_or_else(|| "not told".to_owned(), |bytes| format!("{bytes} bytes")));
            fix(defect, node, fs, strip, stripe)
        })
        .collect()
}

fn fix(defect: Defect, node: &Node, fs: &FsSuperblock, strip: u64, stripe: u64) -> Defect {
    let defect = defect.because("the filesystem places large files by stripes that are none: writes that could fill a stripe touch two, and RAID5 or RAID6 reads before it writes");
    let device = word(node.label());
    let defect = match (fs.fs_type.as_str(), fs.block_bytes.filter(|&bytes| bytes > 0)) {
        ("ext4", Some(block)) => defect.command(
            "tell the filesystem (for what is written from then on)",
            format!("tune2fs -E stride={},stripe_width={} {device}", strip / block, stripe / block),
        ),
        ("xfs", _) => defect.command(
            "tell the filesystem at its next mount, in sectors of 512 bytes",
            format!("mount -o sunit={},swidth={} {device} /MOUNTPOINT", strip / 512, stripe / 512),
        ),
        _ => defect.advise("make the filesystem anew with the controller's strip and stripe"),
    };
    defect
        .risking("none for the data; what is written already stays where it is. XFS takes only units that fit the layout it was made with")
        .verified_by("fathom run seqwrite DIR block_size=1m before and after, on new files")
}
