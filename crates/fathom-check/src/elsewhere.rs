//! Mounts that no path leads to from here. Those that only processes in other mount namespaces have, as containers: what is told of them
//! is named as these see it, and done there. And those that another mount hides: a command with their place would reach that one.

use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::Defect;
use fathom_model::stack::{Node, NodeKind};

/// A mount that no path of this namespace leads to.
struct Elsewhere<'a> {
    /// Its place there.
    place: &'a str,
    /// The same with who sees it.
    label: &'a str,
    /// The process, as a number; none where another mount of this namespace hides it.
    process: Option<&'a str>,
}

fn elsewhere(node: &Node) -> Option<Elsewhere<'_>> {
    let (mount, label) = (node.mount.as_ref()?, node.path.as_deref()?);
    let place = &mount.mount_point;
    if label.ends_with(" (hidden by another mount)") {
        return Some(Elsewhere { place, label, process: None });
    }
    let (_, seen) = label.strip_suffix(" sees it)")?.rsplit_once(" (as ")?;
    let process = seen.split(' ').next().filter(|number| number.parse::<u32>().is_ok())?;
    Some(Elsewhere { place, label, process: Some(process) })
}

/// False for a place that only another namespace has, as it stands in [`Node::mounted_at`].
pub(crate) fn is_here(place: &str) -> bool {
    !place.ends_with(" sees it)")
}

/// True for a mount that this namespace does not have: one of here comes before it.
pub(crate) fn is_elsewhere(node: &Node) -> bool {
    elsewhere(node).is_some()
}

/// The mount that a defect is about, where this namespace has none of the filesystem.
fn mount_of<'a>(scene: &Scene<'a>, defect: &Defect) -> Option<Elsewhere<'a>> {
    let index = scene.by_key(defect.node.as_ref()?)?;
    if scene.node(index).kind == NodeKind::Mount {
        return elsewhere(scene.node(index));
    }
    let is_filesystem = |node: &Node| node.kind == NodeKind::FileSystem;
    let on_device = || scene.above(index).find(|(_, above)| is_filesystem(above));
    let filesystem = match is_filesystem(scene.node(index)) {
        true => index,
        false => on_device()?.0,
    };
    let mounts =
        scene.above(filesystem).map(|(_, above)| above).filter(|node| node.mount.is_some());
    let mut seen: Vec<Elsewhere<'_>> = mounts.map(elsewhere).collect::<Option<_>>()?;
    let shortest = (0..seen.len()).min_by_key(|&at| seen[at].place.len())?;
    Some(seen.swap_remove(shortest))
}

/// The text with a place named as it is seen; as a part of another path it stays.
fn named(text: &str, seen: &Elsewhere<'_>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(seen.place) {
        let is_begin = before.chars().next_back().is_none_or(|c| c == ' ' || c == '(');
        let is_end = after.chars().next().is_none_or(|c| " ,;:)".contains(c));
        out.push_str(before);
        out.push_str(if is_begin && is_end { seen.label } else { seen.place });
        rest = after;
    }
    out + rest
}

/// The command with those of its parts that name the place done in the namespace that has it.
fn done_there(command: &str, place: &str, process: &str) -> String {
    let parts = command.split(" && ").map(|part| {
        if part.split(' ').any(|own| own == place) {
            format!("nsenter -t {process} -m {part}")
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<_>>().join(" && ")
}

/// A defect of a mount that others have as it has to be told here.
pub(crate) fn told(scene: &Scene<'_>, mut defect: Defect) -> Defect {
    let Some(seen) = mount_of(scene, &defect) else { return defect };
    defect.summary = named(&defect.summary, &seen);
    let place = word(seen.place);
    let anew = "fathom check of the whole machine tells it no more";
    let Some(process) = seen.process else {
        for step in &mut defect.fix {
            let own = |command: &mut String| command.split(' ').any(|word| word == place);
            if step.command.take_if(own).is_some() {
                step.text = format!("{}, once what hides it is unmounted", step.text);
            }
        }
        return defect.verified_by(anew);
    };
    let own = format!("/proc/self/mountinfo: {}", seen.place);
    let theirs = format!("/proc/{process}/mountinfo: {}", seen.place);
    for evidence in &mut defect.evidence {
        evidence.source = evidence.source.replace(&own, &theirs);
    }
    for step in &mut defect.fix {
        step.command = step.command.as_deref().map(|command| done_there(command, &place, process));
    }
    defect.fix.retain(|step| step.command.is_some() || !step.text.contains("/etc/fstab"));
    defect
        .advise(format!(
            "who sees {} there decides by what options it is mounted at the next start: the settings of a \
             container or of a service, not /etc/fstab",
            seen.place
        ))
        .verified_by(anew)
}

#[cfg(test)]
mod tests {
    use crate::fixtures::Bench;

    /// Of a mount of a container the healthy one at the same place here is left alone.
    #[test]
    fn what_only_others_have_mounted_is_told_and_mended_there() {
        let mut bench = Bench::new();
        let disks = [bench.disk("sda"), bench.disk("sdb")];
        bench.mounted("ext4", "/srv", disks[0]);
        let (fs, mount) = bench.mounted("ext4", "/srv", disks[1]);
        bench.node(mount).path = Some("/srv (as 4711 nginx sees it)".into());
        bench.mount_of(mount).options = vec!["rw".into(), "sync".into(), "relatime".into()];
        bench.fs_of(fs).errors_count = Some(2);
        let found = crate::check(&bench.snapshot);
        let of = |rule: &str| found.iter().find(|defect| defect.rule == rule).unwrap();
        let commands = |rule: &str| -> Vec<&str> {
            of(rule).fix.iter().filter_map(|step| step.command.as_deref()).collect()
        };
        let sync = of("mount-sync");
        assert!(sync.summary.starts_with("/srv (as 4711 nginx sees it) is mounted"), "{sync:?}");
        assert!(sync.evidence[0].source.starts_with("/proc/4711/mountinfo: /srv"), "{sync:?}");
        assert!(commands("mount-sync").contains(&"nsenter -t 4711 -m mount -o remount,async /srv"));
        assert!(!sync.verify.contains("/srv"), "{}", sync.verify);
        let errors = commands("filesystem-errors");
        assert_eq!(errors.last(), Some(&"nsenter -t 4711 -m umount /srv && e2fsck -f /dev/sdb"));
        assert!(sync.fix.iter().all(|step| !step.text.contains("out of /etc/fstab")), "{sync:?}");
        // Where another mount hides it no command may reach that one.
        bench.node(mount).path = Some("/srv (hidden by another mount)".into());
        let found = crate::check(&bench.snapshot);
        for rule in ["mount-sync", "filesystem-errors"] {
            let told = found.iter().find(|defect| defect.rule == rule).unwrap();
            assert!(told.summary.contains("/srv (hidden by another mount)"), "{told:?}");
            let commands = told.fix.iter().filter_map(|step| step.command.as_deref());
            let place = |command: &str| command.split(' ').any(|word| word == "/srv");
            assert!(!commands.into_iter().any(place) && !told.verify.contains("/srv"), "{told:?}");
            assert!(told.fix.iter().any(|s| s.text.ends_with("once what hides it is unmounted")));
        }
        bench.node(mount).path = Some("/srv (as 4711 nginx sees it)".into());
        // One that is here as well is told as what it is here.
        let mut here = bench.snapshot.machine.nodes[mount].clone();
        (here.name, here.path) = ("/data".into(), Some("/data".into()));
        if let Some(facts) = here.mount.as_mut() {
            facts.mount_point = "/data".into();
        }
        bench.add(here, &[fs]);
        let found = crate::check(&bench.snapshot);
        let errors = found.iter().find(|defect| defect.rule == "filesystem-errors").unwrap();
        assert!(errors.summary.starts_with("ext4 at /data has"), "{}", errors.summary);
        assert!(errors.fix.iter().all(|step| !format!("{step:?}").contains("nsenter")));
    }
}
