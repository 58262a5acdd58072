//! Abilities of drives that are switched off, or not used.

use crate::rules::drives::{arrays_above, each_drive, is_flash, is_virtual, rotates, transport};
use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;

/// A drive that could take many commands at once and gets one.
pub(super) fn queueing_off(scene: &Scene<'_>) -> Vec<Defect> {
    let found = each_drive(scene).into_iter().filter_map(|(_, node)| {
        let drive = node.drive.as_ref()?;
        if drive.queue_depth != Some(1) || !matches!(transport(node), "sata" | "sas") {
            return None;
        }
        let identity = node.details().identity.as_ref();
        let offered = identity.and_then(|identity| identity.queue_depth);
        // Without the drive's own word: SAS drives can all queue, behind AHCI nearly all SATA drives can, and behind IDE
        // emulation none.
        let is_ahci = drive.controller.as_deref().is_some_and(|text| text.starts_with("ahci "));
        let usually = transport(node) == "sas" || (is_ahci && identity.is_none());
        let is_able = offered.map_or(usually && !is_virtual(node), |depth| depth > 1);
        if !is_able {
            return None;
        }
        let wanted = offered.unwrap_or(32).min(32);
        let file = sysfs(node, "device/queue_depth");
        let mut defect = Defect::new(
            "command-queueing-off",
            if is_flash(node) { Gravity::High } else { Gravity::Medium },
            Some(&node.key()),
            format!("{} gets one command at a time", node.name),
        )
        .sure(if offered.is_some() { Certainty::Certain } else { Certainty::Likely })
        .seen(file.clone(), "1");
        if let Some(depth) = offered {
            defect = defect.seen(format!("identity of {}", node.label()), format!("takes {depth} commands"));
        }
        Some(
            defect
                .because(if is_flash(node) {
                    "flash reaches a tenth of its random rate with one command in flight: its chips work side by side only when it is given work for them"
                } else {
                    "a drive that rotates cannot choose the nearest of several requests: some 10 to 40 % of its random rate are lost"
                })
                .command("give it its queue back", format!("echo {wanted} > {}", word(&file)))
                .command("if that does not hold: see whether the kernel switched it off after errors, or for a drive that is known to fail with it", "dmesg | grep -iE 'ncq|queue depth'")
                .risking("drives that the kernel has on its list lose data with queueing: do not force it there")
                .verified_by("fathom run randread DIR depth=32 before and after"),
        )
    });
    found.collect()
}

/// Settings of ATA drives that trade speed for power or noise.
pub(super) fn settings(scene: &Scene<'_>) -> Vec<Defect> {
    let drives = each_drive(scene).into_iter().filter(|(_, node)| !is_virtual(node));
    drives
        .flat_map(|(index, node)| {
            [look_ahead(node), power_management(scene, index, node), acoustic(node)]
                .into_iter()
                .flatten()
        })
        .collect()
}

fn setting(node: &Node, gravity: Gravity, summary: String, value: String) -> Defect {
    Defect::new("drive-features", gravity, Some(&node.key()), summary)
        .seen(format!("hdparm -I {}", word(node.label())), value)
}

fn look_ahead(node: &Node) -> Option<Defect> {
    let identity = node.details().identity.as_ref()?;
    if identity.look_ahead_enabled != Some(false) || !rotates(node) {
        return None;
    }
    let defect = setting(
        node,
        Gravity::Medium,
        format!("the look-ahead of {} is off", node.name),
        "look-ahead: supported, off".to_owned(),
    );
    Some(
        defect
            .because("the drive throws away what passes under its heads: a sequential reader that asks for a little at a time waits a revolution for each piece")
            .command("switch it on", format!("hdparm -A1 {}", word(node.label())))
            .risking("none; random reads may lose a percent or two")
            .verified_by("fathom run seqread DIR block_size=64k before and after"),
    )
}

fn power_management(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Defect> {
    // ACS-4: 1 to 127 allow standby, 128 to 254 do not.
    const STANDBY_LEVEL_MAX: u64 = 127;
    let level = node.details().identity.as_ref()?.power_management?;
    if !(1..=STANDBY_LEVEL_MAX).contains(&level) {
        return None;
    }
    let in_array = !arrays_above(scene, index).is_empty();
    let gravity = if in_array { Gravity::Medium } else { Gravity::Low };
    let defect = setting(
        node,
        gravity,
        format!("{} may stop by itself to save power", node.name),
        format!("advanced power management level {level} of 254"),
    );
    Some(
        defect
            .because(if in_array {
                "the array waits for the slowest member: one that has to spin up makes it stand still for 5 to 15 seconds"
            } else {
                "the first request after a pause waits for it to spin up, 5 to 15 seconds, and each start wears it"
            })
            .command("let it run", format!("hdparm -B254 {}", word(node.label())))
            .advise("keep it over restarts: apm = 254 for the drive in /etc/hdparm.conf, or a udev rule")
            .risking("it needs some watts more while idle")
            .verified_by(format!("hdparm -B {}; smartctl -A {0} (attribute 193) stands still", word(node.label()))),
    )
}

fn acoustic(node: &Node) -> Option<Defect> {
    // ACS-3: 128 is the quietest, 254 the fastest.
    let level = node.details().identity.as_ref()?.acoustic?;
    if !(128..254).contains(&level) || !rotates(node) {
        return None;
    }
    let defect = setting(
        node,
        Gravity::Low,
        format!("{} is set to seek quietly", node.name),
        format!("acoustic management level {level}; 254 is the fastest"),
    );
    Some(
        defect
            .because("slow seeks cost random reads some 10 to 30 %")
            .command(
                "let it seek as fast as it can",
                format!("hdparm -M254 {}", word(node.label())),
            )
            .risking("it is louder")
            .verified_by("fathom run seeker /dev/DISK (reads only) before and after"),
    )
}

/// A namespace in a sector format that its maker calls slower than another one.
pub(super) fn nvme_format(scene: &Scene<'_>) -> Vec<Defect> {
    let idle = each_drive(scene)
        .into_iter()
        .filter(|&(index, node)| scene.is_free(index) && node.details().opened != Some(true));
    let found = idle.filter_map(|(_, node)| {
        let identity = node.details().identity.as_ref()?;
        let current = usize::try_from(identity.format?).ok()?;
        let &(bytes, metadata, performance) = identity.formats.get(current)?;
        let better = identity.formats.iter().enumerate().filter(|(_, format)| {
            format.1 == metadata && format.0 >= bytes && format.0 > 0 && format.2 < performance
        });
        let (number, &(better_bytes, _, better_performance)) =
            better.min_by_key(|(_, format)| (format.2, format.0))?;
        let path = word(node.label());
        Some(
            Defect::new(
                "nvme-format-slow",
                Gravity::Low,
                Some(&node.key()),
                format!(
                    "{} has sectors of {}; its maker calls those of {} faster",
                    node.name,
                    format_size(bytes),
                    format_size(better_bytes)
                ),
            )
            .sure(Certainty::Possible)
            .seen(format!("nvme id-ns {path}"), format!("format {current}: relative performance {performance}; format {number}: {better_performance} (0 is the best)"))
            .because("on some drives the difference is nothing, on others small writes and the mapping table cost less with large sectors; filesystems use blocks of 4 KiB anyway")
            .advise("only for a drive that is empty or will be: measure before and after, and keep what is better")
            .advise(format!("then take the other format, which destroys what is on the namespace: nvme format /dev/EMPTY --lbaf={number}"))
            .risking("everything on the namespace is lost; old boot loaders and some programs cannot use sectors of 4096 bytes")
            .verified_by("fathom run randwrite /dev/EMPTY before and after (on the empty drive)"),
        )
    });
    found.collect()
}
