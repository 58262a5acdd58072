//! Write caches of drives, and what the kernel believes of them.

use crate::rules::drives::{
    disk_queues, each_drive, is_flash, is_made_elsewhere, is_virtual, rotates, transport,
};
use crate::rules::shared::{list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_ns;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

const WRITE_BACK: &str = "write back";
const WRITE_THROUGH: &str = "write through";

/// What the kernel believes of the cache of a device.
fn believed(node: &Node) -> Option<&str> {
    node.queue.as_ref()?.write_cache.as_deref()
}

/// Who says that the drive's volatile cache is on, and in which words; none where nobody does.
fn cache_is_on(node: &Node) -> Option<(String, &'static str)> {
    let identity = node.details().identity.as_ref();
    if identity.and_then(|identity| identity.write_cache_enabled) == Some(true) {
        return Some((format!("identity of {}", node.label()), "volatile write cache: on"));
    }
    let said = node.drive.as_ref()?.cache_type.as_deref()?;
    said.starts_with(WRITE_BACK).then(|| (sysfs(node, "device/scsi_disk/*/cache_type"), WRITE_BACK))
}

fn has_power_loss_protection(node: &Node) -> bool {
    let identity = node.details().identity.as_ref();
    identity.and_then(|identity| identity.power_loss_protection) == Some(true)
}

/// Devices that are believed to need no flush although what is below has a volatile cache: the kernel drops every flush.
pub(super) fn flushes_dropped(scene: &Scene<'_>) -> Vec<Defect> {
    let disks = disk_queues(scene).filter(|(_, node, _)| believed(node) == Some(WRITE_THROUGH));
    let disks = disks.filter_map(|(_, node, _)| dropped_at_disk(node));
    let layers = scene.nodes(&[NodeKind::Md, NodeKind::Dm]);
    let layers = layers
        .filter(|(_, node)| believed(node) == Some(WRITE_THROUGH) && node.read_only != Some(true));
    let layers = layers.filter_map(|(index, node)| dropped_at_layer(scene, index, node));
    let loops = scene.nodes(&[NodeKind::Loop]);
    let loops = loops
        .filter(|(_, node)| believed(node) == Some(WRITE_THROUGH) && node.read_only != Some(true));
    let loops = loops.filter_map(|(index, node)| dropped_at_loop(scene, index, node));
    disks.chain(layers).chain(loops).collect()
}

fn dropped_at_disk(node: &Node) -> Option<Defect> {
    let (source, words) = cache_is_on(node)?;
    let protected = has_power_loss_protection(node);
    let gravity = if protected { Gravity::Low } else { Gravity::High };
    let file = sysfs(node, "queue/write_cache");
    let defect = Defect::new(
        "flushes-dropped",
        gravity,
        Some(&node.key()),
        format!("the kernel sends {} no flushes, but its volatile write cache is on", node.name),
    )
    .seen(file.clone(), WRITE_THROUGH)
    .seen(source, words);
    let defect = if protected {
        defect.because("the drive says that it is protected against power loss, so this is safe as long as that is true: no program can check it")
    } else {
        defect.because("fsync and journals end before the data is on stable storage: a power cut can lose or tear what a database was told is safe")
    };
    // Where the kernel was told of no cache when the drive came, its queue takes no other word.
    let told = node.drive.as_ref().and_then(|drive| drive.cache_type.as_deref());
    let defect = if told.is_some_and(|told| !told.starts_with(WRITE_BACK)) {
        let kept = sysfs(node, "device/scsi_disk/*/cache_type");
        defect
            .command("let the kernel send flushes until the next start; the drive's own setting stays", format!("echo 'temporary write back' | tee {kept}"))
            .advise("somebody set it so for a time, or what lies between hides the cache, as USB bridges do: connect the drive without it, or do this by a udev rule at each start")
    } else {
        defect
            .command(
                "let the kernel send flushes again",
                format!("echo 'write back' > {}", word(&file)),
            )
            .advise("find what switched it: a udev rule, a tuning script")
    };
    let defect = match transport(node) {
        "sata" => {
            defect.command("or switch the cache off", format!("hdparm -W0 {}", word(node.label())))
        }
        _ => defect,
    };
    Some(
        defect
            .risking("programs that sync become slower: this is what safety costs on this drive")
            .verified_by("fathom run commit DIR before and after: the rate falls to what the drive can really promise"),
    )
}

/// An array or map that drops flushes which drives below need. One over drives that are believed to need none inherits
/// that: then the drives are spoken of.
fn dropped_at_layer(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Defect> {
    let disks = scene.machine().disks_under(index).into_iter().map(|disk| scene.node(disk));
    let caching: Vec<&Node> = disks.filter(|disk| believed(disk) == Some(WRITE_BACK)).collect();
    let first = caching.first()?;
    let file = sysfs(node, "queue/write_cache");
    Some(
        Defect::new(
            "flushes-dropped",
            Gravity::High,
            Some(&node.key()),
            format!("{} takes no flushes, but {} below it needs them", node.name, list(caching.iter().map(|disk| disk.name.as_str()))),
        )
        .sure(Certainty::Likely)
        .seen(file.clone(), WRITE_THROUGH)
        .seen(sysfs(first, "queue/write_cache"), WRITE_BACK)
        .because("fsync and journals above end while data is still in the caches of the drives; layers take over what was true when they were made, so a cache that was switched on later is missed")
        .command("let flushes through (refused by one that was made while the drives had no cache)", format!("echo 'write back' > {}", word(&file)))
        .advise("then make the layer anew (stop and assemble, or deactivate and activate), so that it reads the drives again")
        .risking("programs that sync become slower; making the layer anew needs everything on it unmounted")
        .verified_by("fathom run commit DIR before and after: the rate falls to what the drives can really promise"),
    )
}

/// A loop device whose flushes do not reach its file: what was written is in memory still, or in the caches of the drives.
fn dropped_at_loop(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Defect> {
    let facts = node.loop_device.as_ref().filter(|facts| facts.backing_file.is_some())?;
    let disks: Vec<&Node> =
        scene.machine().disks_under(index).into_iter().map(|disk| scene.node(disk)).collect();
    let caching = disks.iter().find(|disk| believed(disk) == Some(WRITE_BACK));
    let is_buffered = facts.direct_io == Some(false);
    let (what, source, value) = match caching {
        _ if disks.is_empty() => return None,
        Some(disk) => {
            let source = sysfs(disk, "queue/write_cache");
            (format!("{} below it needs them", disk.name), source, WRITE_BACK)
        }
        None if is_buffered => {
            let what = "its file is written through the page cache".to_owned();
            (what, sysfs(node, "loop/dio"), "0")
        }
        None => return None,
    };
    let file = sysfs(node, "queue/write_cache");
    let name = &node.name;
    Some(
        Defect::new("flushes-dropped", Gravity::High, Some(&node.key()), format!("{name} takes no flushes, but {what}"))
            .seen(file.clone(), WRITE_THROUGH)
            .seen(source, value)
            .because("fsync and journals above end while data is still in memory or in the caches of the drives: a power cut can lose or tear what was told to be safe; the kernel lets flushes through unless somebody tells it otherwise, which may stay with the device over detach and attach")
            .command("let flushes through", format!("echo 'write back' > {}", word(&file)))
            .advise("find what switched it: a udev rule, a tuning script")
            .risking("programs that sync become slower: this is what safety costs there")
            .verified_by("fathom run commit DIR before and after: the rate falls to what the drives can really promise"),
    )
}

/// A drive with a write cache that is off.
pub(super) fn write_cache_off(scene: &Scene<'_>) -> Vec<Defect> {
    let drives = each_drive(scene).into_iter();
    let drives = drives.filter(|(_, node)| !is_virtual(node) && !is_made_elsewhere(scene, node));
    let found = drives.filter_map(|(_, node)| {
        let identity = node.details().identity.as_ref()?;
        if identity.volatile_cache != Some(true) || identity.write_cache_enabled != Some(false) {
            return None;
        }
        let (path, kind) = (word(node.label()), transport(node));
        // SAS drives leave the factory like this, and on flash with power loss protection it can even be faster.
        let costs = kind == "sata" && rotates(node);
        let command = match kind {
            "sata" => format!("hdparm -W1 {path}"),
            "nvme" => format!("nvme set-feature {path} --feature-id=6 --value=1"),
            _ => format!("sdparm --set=WCE --save {path}"),
        };
        Some(
            Defect::new(
                "write-cache-off",
                if costs { Gravity::Medium } else { Gravity::Low },
                Some(&node.key()),
                format!("the write cache of {} is off", node.name),
            )
            .seen(format!("identity of {}", node.label()), "volatile write cache: there, off")
            .because(if costs {
                "without it a drive that rotates can lose a revolution (8 ms at 7200 rpm) for each small write, because it may not reorder them"
            } else {
                "each write waits for the medium; somebody may have wanted that, and some drives are made for it"
            })
            .command("switch it on, if nobody switched it off on purpose", command)
            .risking("with the cache on, what is above must flush: filesystems with barriers and databases that sync do, a hypervisor with cache=unsafe does not")
            .verified_by("fathom run randwrite DIR before and after"),
        )
    });
    found.collect()
}

/// Flash with a volatile cache that it takes long to flush, under a load that flushes.
pub(super) fn flushes_slow(scene: &Scene<'_>) -> Vec<Defect> {
    // Fewer flushes say nothing of a load.
    const FLUSHES_LEAST: u64 = 1000;
    const SLOW_NS: u64 = 1_000_000;
    let drives = each_drive(scene).into_iter();
    let drives = drives.filter(|(_, node)| {
        is_flash(node) && !is_virtual(node) && !has_power_loss_protection(node)
    });
    let found = drives.filter_map(|(_, node)| {
        let counters = node.details().counters.as_ref()?;
        let has_cache = cache_is_on(node).is_some() || believed(node) == Some(WRITE_BACK);
        if !has_cache || counters.flushes < FLUSHES_LEAST {
            return None;
        }
        let mean_ns = counters.flush_ms.saturating_mul(1_000_000) / counters.flushes;
        if mean_ns < SLOW_NS {
            return None;
        }
        Some(
            Defect::new(
                "flushes-slow",
                Gravity::Low,
                Some(&node.key()),
                format!("{} takes {} on average to flush its volatile cache", node.name, format_ns(mean_ns)),
            )
            .seen(sysfs(node, "stat"), format!("{} flushes in {} ms since boot", counters.flushes, counters.flush_ms))
            .seen(sysfs(node, "queue/write_cache"), believed(node).unwrap_or(WRITE_BACK))
            .because("each commit of a database and each fsync waits that long; drives with power loss protection answer in microseconds, because they need not write the cache out")
            .advise("put write-ahead logs and journals on a drive with power loss protection, or commit less often (group commit)")
            .risking("none; do not switch flushes off instead: a power cut would then lose what was promised")
            .verified_by("fathom run commit DIR on both drives"),
        )
    });
    found.collect()
}
