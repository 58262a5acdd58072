//! Arrays against their members.

use super::{again, is_sequential_read, newest, run_of};
use crate::array;
use crate::scene::Scene;
use fathom_base::order::Order;
use fathom_base::shell;
use fathom_base::units::format_rate;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::snapshot::Measured;
use fathom_model::stack::{MdFacts, MdMember, Node, NodeKind};
use std::collections::BTreeMap;

fn arrays<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (usize, &'a Node, &'a MdFacts)> {
    let nodes = scene.nodes(&[NodeKind::Md]);
    nodes.filter_map(|(index, node)| Some((index, node, node.md.as_ref()?)))
}

/// The first array at or under a target.
fn array_under(scene: &Scene<'_>, target: usize) -> Option<usize> {
    let walk = scene.machine().walk_from(target).into_iter();
    walk.into_iter().find(|index| scene.node(*index).md.is_some())
}

/// Advice that holds for every array that is too slow.
fn look_for_the_slow_one(defect: Defect, array: &Node) -> Defect {
    defect
        .command("see which member is always busy", "iostat -x 5 2")
        .command("see whether it works on itself", "cat /proc/mdstat")
        .advise(format!(
            "measure every member of {} alone (fathom run seqread DEVICE) and replace the odd one",
            array.label()
        ))
        .risking("none to look: reading members of a running array changes nothing")
}

/// A run over an array whose study saw the work of a single disk.
pub(super) fn like_one_disk(scene: &Scene<'_>) -> Vec<Defect> {
    let mut found: Vec<Defect> = Vec::new();
    for (target, measured) in newest(scene, |m| m.random && m.read_bytes_per_s.is_some()) {
        if !measured.findings.iter().any(|finding| finding == "array-like-one-disk") {
            continue;
        }
        let Some(node) = array_under(scene, target).map(|index| scene.node(index)) else {
            continue;
        };
        if found.iter().any(|known| known.node == Some(node.key())) {
            continue;
        }
        let reads = measured.read_bytes_per_s.unwrap_or(0.0) / measured.request_bytes_mean.max(1.0);
        let summary = format!(
            "{} did {reads:.0} random reads per second with {} in flight: that is one disk's work",
            node.label(),
            measured.in_flight
        );
        let defect = Defect::new("array-like-one-disk", Gravity::High, Some(&node.key()), summary)
            .sure(Certainty::Likely)
            .seen(run_of(measured), format!("{reads:.0} random reads per second, finding array-like-one-disk"))
            .because("every stripe waits for its slowest member: one that fails slowly takes the speed of all the others");
        let defect = look_for_the_slow_one(defect, node);
        found.push(defect.verified_by(again(measured)));
    }
    found
}

/// The member's own node, or that of the disk that it is a part of, and its newest sequential read.
fn member_rates<'a>(
    scene: &Scene<'a>,
    array: usize,
    measured: &BTreeMap<usize, &'a Measured>,
) -> Vec<(&'a Node, f64)> {
    let of_member = |(index, node): (usize, &'a Node)| {
        let disk = scene.machine().disks_under(index);
        let disk = disk.first().filter(|_| disk.len() == 1);
        let own = measured.get(&index).or_else(|| measured.get(disk?))?;
        Some((node, own.read_bytes_per_s?))
    };
    scene.below(array).filter_map(of_member).collect()
}

/// Sequential reads of an array at less than half of what its members read one by one.
pub(super) fn below_members(scene: &Scene<'_>) -> Vec<Defect> {
    let measured = newest(scene, is_sequential_read);
    let one_disk = like_one_disk(scene);
    let mut found = Vec::new();
    for (index, node, md) in arrays(scene) {
        let rates = member_rates(scene, index, &measured);
        let all = scene.below(index).count();
        let own = measured.iter().find(|(target, _)| array_under(scene, **target) == Some(index));
        let Some((data, (_, own))) = array::data_disks(md).zip(own) else { continue };
        // A file over an array is at another place than the members were read at: half leaves room for that.
        if rates.len() != all || all < 2 || md.degraded.unwrap_or(0) > 0 || own.in_flight < 2 {
            continue;
        }
        let slowest = rates.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
        let (expected, is) = (data as f64 * slowest, own.read_bytes_per_s.unwrap_or(0.0));
        if is >= 0.5 * expected || one_disk.iter().any(|known| known.node == Some(node.key())) {
            continue;
        }
        let summary = format!(
            "{} reads {} in sequence; its members would allow {}",
            node.label(),
            format_rate(is),
            format_rate(expected)
        );
        let mut defect =
            Defect::new("array-below-members", Gravity::Medium, Some(&node.key()), summary)
                .sure(Certainty::Likely)
                .seen(run_of(own), format_rate(is));
        for (member, rate) in &rates {
            defect = defect.seen(format!("measured: {}", member.label()), format_rate(*rate));
        }
        let defect = defect
            .because("members that cannot all work at once share a link that is too narrow, wait for a slow one, or get requests that are too small or too few to reach all of them")
            .command("see read-ahead and largest request, which decide how many members a reader keeps busy", format!("grep . /sys/block/{0}/queue/read_ahead_kb /sys/block/{0}/queue/max_sectors_kb", node.name));
        let defect = look_for_the_slow_one(defect, node);
        found.push(defect.verified_by(again(own)));
    }
    found
}

/// A member counts as slow below this share of the median of all.
const SLOW_SHARE: f64 = 0.7;

/// A member that reads much more slowly than the others.
pub(super) fn member_slow(scene: &Scene<'_>) -> Vec<Defect> {
    let measured = newest(scene, is_sequential_read);
    let mut found = Vec::new();
    for (index, node, _) in arrays(scene) {
        let rates = member_rates(scene, index, &measured);
        if rates.len() < 3 {
            continue;
        }
        let mut sorted: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
        sorted.order_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        for (member, rate) in rates.iter().filter(|(_, rate)| *rate < SLOW_SHARE * median) {
            let summary = format!(
                "{} reads {}, the members of {} {} in the middle",
                member.label(),
                format_rate(*rate),
                node.label(),
                format_rate(median)
            );
            let mut defect =
                Defect::new("member-slow", Gravity::Medium, Some(&member.key()), summary)
                    .sure(Certainty::Likely)
                    .concerning(node.key());
            for (member, rate) in &rates {
                defect = defect.seen(format!("measured: {}", member.label()), format_rate(*rate));
            }
            found.push(
                defect
                    .because("every stripe waits for its slowest member; a disk that has become slow is often one that will fail")
                    .command("look at its counters", format!("smartctl -a {}", shell::word(member.label())))
                    .advise("look at its link and cable, then replace it")
                    .risking("none to look; replacing a member starts a rebuild, during which another failure may be too much")
                    .verified_by(format!("fathom run seqread {}", shell::word(member.label()))),
            );
        }
    }
    found
}

/// Members and arrays that were not read in sequence yet. An array's members are asked for together: one alone says nothing.
pub(super) fn needed(scene: &Scene<'_>) -> Vec<(&'static str, String)> {
    let measured = newest(scene, is_sequential_read);
    let mut commands = Vec::new();
    for (index, node, md) in arrays(scene) {
        let has_failed = |member: &MdMember| {
            member.state.as_deref().is_some_and(|state| state.contains("faulty"))
        };
        let is_whole = md.degraded.unwrap_or(0) == 0 && !md.members.iter().any(has_failed);
        if array::data_disks(md).is_none() || !is_whole {
            continue;
        }
        let known = member_rates(scene, index, &measured);
        let mut missing: Vec<&Node> = scene.below(index).map(|(_, member)| member).collect();
        missing.retain(|member| !known.iter().any(|(own, _)| own.name == member.name));
        if !measured.keys().any(|target| array_under(scene, *target) == Some(index)) {
            missing.push(node);
        }
        let reads =
            missing.iter().map(|node| format!("fathom run seqread {}", shell::word(node.label())));
        let command = reads.collect::<Vec<_>>().join("; ");
        if !command.is_empty() {
            commands.push(("array-below-members", command));
        }
    }
    commands
}
