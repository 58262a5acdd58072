//! Holes in `multipath.conf` and `lvm.conf`.

use super::{beside, maps};
use crate::rules::shared::list;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};

/// True for a pattern of device names that every SCSI disk fits; the usual forms only.
fn fits_every_disk(pattern: &str) -> bool {
    let plain = pattern.trim().trim_matches('"').trim_start_matches('^').trim_end_matches('$');
    let alternatives = plain.trim_start_matches('(').trim_end_matches(')').split('|');
    let wide = [
        "*",
        ".*",
        ".",
        "",
        "s",
        "sd",
        "sd*",
        "sd.*",
        "sd[a-z]",
        "sd[a-z]*",
        "sd[a-z]+",
        "sd[a-z].*",
    ];
    alternatives.into_iter().any(|word| wide.contains(&word.trim_start_matches('^')))
}

/// The entry of the blacklist that every SCSI disk fits: kind and pattern.
pub(super) fn wide_entry<'a>(scene: &Scene<'a>) -> Option<&'a (String, String)> {
    let conf = scene.snapshot.system.configuration.multipath.as_ref()?;
    conf.blacklist.iter().find(|(kind, pattern)| match kind.as_str() {
        "devnode" => fits_every_disk(pattern),
        "wwid" => matches!(pattern.trim().trim_matches('"'), "*" | ".*" | ""),
        _ => false,
    })
}

/// A blacklist that hides drives which have several paths.
pub(super) fn blacklist(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(conf) = &scene.snapshot.system.configuration.multipath else { return Vec::new() };
    let hidden = beside::without_map(scene);
    let (Some((kind, pattern)), Some(first)) = (wide_entry(scene), hidden.first()) else {
        return Vec::new();
    };
    let names = list(first.iter().map(|(_, node)| node.name.as_str()));
    let mut defect = Defect::new(
        "multipath-blacklist-wide",
        Gravity::Medium,
        Some(&first[0].1.key()),
        format!(
            "/etc/multipath.conf leaves out {kind} {pattern}, among them {names}, which are \
            paths to one drive"
        ),
    )
    .sure(Certainty::Likely)
    .seen("/etc/multipath.conf: blacklist", format!("{kind} {pattern}"));
    for (_, node) in hidden.iter().flatten().skip(1) {
        defect = defect.also_on(node.key());
    }
    let exceptions = conf.exceptions.len();
    vec![
        defect
            .seen("/etc/multipath.conf: blacklist_exceptions", exceptions.to_string())
            .because(
                "multipath never looks at them, so no map is made \
                and no path takes over for another",
            )
            .advise(
                "leave out only what has one path: the local disks, by wwid, or use \
                find_multipaths yes and no own blacklist",
            )
            .command(
                "see what is left out, and by which line",
                format!("multipath -v3 {} | grep -i blacklist", word(first[0].1.label())),
            )
            .command("load the change", "multipathd reconfigure")
            .risking(
                "drives that are mounted by one of their paths have to be unmounted before \
                their map can be made",
            )
            .verified_by("multipath -ll shows a map with all paths"),
    ]
}

/// A filter of LVM refuses the paths: it takes nothing but maps, or refuses plain disks by name.
fn refuses_paths(filter: &[String]) -> bool {
    filter.iter().any(|entry| {
        let pattern = entry.trim().trim_matches('"');
        pattern.starts_with('r')
            && [".*", "/sd", "sd[", "by-path", "^/dev/sd"].iter().any(|word| pattern.contains(word))
    })
}

/// LVM sees the paths below a map and has nothing that tells it to leave them.
pub(super) fn lvm_filter(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(lvm) = &scene.snapshot.system.configuration.lvm else { return Vec::new() };
    let detects = lvm.multipath_component_detection.unwrap_or(true);
    // With a devices file LVM uses only what is listed there.
    let listed = lvm.devices_file_exists && lvm.use_devices_file != Some(false);
    if detects || listed || refuses_paths(&lvm.filter) || refuses_paths(&lvm.global_filter) {
        return Vec::new();
    }
    let maps = maps(scene);
    let Some(map) = maps.iter().find(|map| map.paths.len() > 1) else { return Vec::new() };
    vec![
        Defect::new(
            "lvm-filter-paths",
            Gravity::Medium,
            Some(&map.node.key()),
            format!(
                "LVM is told not to recognise paths, and no filter keeps it from those of {}",
                map.name
            ),
        )
        .seen("/etc/lvm/lvm.conf: devices/multipath_component_detection", "0")
        .seen(
            "/etc/lvm/lvm.conf: devices/global_filter",
            if lvm.global_filter.is_empty() {
                "empty".to_owned()
            } else {
                lvm.global_filter.join(" ")
            },
        )
        .because(
            "it may activate a volume group on one path in the place of the map: when that \
            path fails, so does the group",
        )
        .advise("remove multipath_component_detection from /etc/lvm/lvm.conf: it is on by default")
        .advise(
            "or take the root disk and maps only: global_filter = [ \
            \"a|^/dev/mapper/mpath|\", \"a|^/dev/disk/by-id/ROOT|\", \"r|.*|\" ]",
        )
        .command(
            "write the change into the initramfs too (Debian; elsewhere: dracut -f)",
            "update-initramfs -u",
        )
        .risking(
            "a filter that forgets the root disk makes the machine unbootable: keep an \
            entry for it, and try pvs first",
        )
        .verified_by("pvs -o pv_name,vg_name names maps only"),
    ]
}

/// Names like `mpatha`, which every machine gives in an order of its own.
pub(super) fn friendly_names(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(conf) = &scene.snapshot.system.configuration.multipath else { return Vec::new() };
    let friendly = conf.defaults.iter().any(|(key, value)| {
        key == "user_friendly_names" && matches!(value.trim_matches('"'), "yes" | "on" | "1")
    });
    let maps = maps(scene);
    let named: Vec<_> = maps.iter().filter(|map| map.name.starts_with("mpath")).collect();
    let Some(first) = named.first().filter(|_| friendly) else { return Vec::new() };
    let mut defect = Defect::new(
        "multipath-friendly-names",
        Gravity::Low,
        Some(&first.node.key()),
        format!(
            "maps have names that this machine gave them in the order of their arrival ({})",
            list(named.iter().map(|map| map.name))
        ),
    )
    .sure(Certainty::Possible)
    .seen("/etc/multipath.conf: defaults/user_friendly_names", "yes");
    for map in &named[1..] {
        defect = defect.concerning(map.node.key());
    }
    vec![
        defect
            .because(
                "on another machine that sees the same drives, mpatha is another drive: a \
                command that was copied from there destroys the wrong one",
            )
            .advise(
                "on machines that share drives give each drive an alias, the same \
                everywhere: multipaths { multipath { wwid ... alias data1 } }",
            )
            .command(
                "or keep one file of names for all",
                "scp /etc/multipath/bindings OTHER:/etc/multipath/bindings",
            )
            .risking(
                "a map that is renamed has to be changed in fstab and in every \
                configuration that names it; a single machine may leave this as it is",
            )
            .verified_by("multipath -ll shows the same names on all machines"),
    ]
}
