//! Loop devices and the files behind them.

use crate::conditions;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_sizes;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::{LoopFacts, Node, NodeKind};

/// Loop devices that take writes: images that are only read (snap packages) gain from the cache.
fn writable<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (usize, &'a Node, &'a LoopFacts)> {
    let loops = scene.nodes(&[NodeKind::Loop]).filter(|(_, node)| node.read_only != Some(true));
    loops.filter_map(|(index, node)| Some((index, node, node.loop_device.as_ref()?)))
}

fn file(facts: &LoopFacts) -> &str {
    facts.backing_file.as_deref().unwrap_or("its file")
}

/// Everything is cached twice, and a flush of the loop device flushes the whole file.
pub(super) fn buffered(scene: &Scene<'_>) -> Vec<Defect> {
    let found = writable(scene).filter(|(_, _, facts)| facts.direct_io == Some(false));
    found
        .map(|(_, node, facts)| {
            Defect::new(
                "loop-buffered",
                Gravity::Low,
                Some(&node.key()),
                format!("{} uses {} through the page cache", node.name, file(facts)),
            )
            .seen(format!("/sys/block/{}/loop/dio", node.name), "0")
            .because(
                "everything is in memory twice, direct I/O on it is answered from memory, \
                and much written data waits for one moment to reach the disk",
            )
            .command(
                "use the file directly",
                format!("losetup --direct-io=on {}", word(node.label())),
            )
            .risking(
                "refused where the file's filesystem cannot do it or its blocks are larger \
                than the loop device's; reads that memory answered now go to the disk",
            )
            .verified_by(format!("fathom run randread {} before and after", word(node.label())))
        })
        .collect()
}

/// First writes allocate in the file, and its filesystem may run full under a device that believes to have space.
pub(super) fn sparse(scene: &Scene<'_>) -> Vec<Defect> {
    writable(scene)
        .filter_map(|(_, node, facts)| {
            let (allocated, size) = conditions::sparse_backing(facts)?;
            let (has, of) = format_sizes(allocated, size);
            Some(
                Defect::new(
                    "loop-sparse",
                    Gravity::Low,
                    Some(&node.key()),
                    format!(
                        "{} lies in a sparse file ({}): {has} of {of} have space",
                        node.name,
                        file(facts)
                    ),
                )
                .seen(format!("stat {}", word(file(facts))), format!("{has} allocated of {of}"))
                .because(
                    "reads of holes touch no disk, the first write to each allocates, and \
                    writes fail when the filesystem of the file is full",
                )
                .command(
                    "give it all its space",
                    format!("fallocate -l {size} {}", word(file(facts))),
                )
                .risking("none but the space; refused when there is not enough")
                .verified_by(format!(
                    "du -h --apparent-size and du -h of {} agree",
                    word(file(facts))
                )),
            )
        })
        .collect()
}
