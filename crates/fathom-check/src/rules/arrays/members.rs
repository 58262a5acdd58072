//! What the members of an array have been through, and where they lie.

use super::{Standing, arrays, is_redundant, md_file, part_with, standing};
use crate::rules::shared::{list, on_one_drive};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::{MdMember, Node};
use std::collections::BTreeSet;

/// One mended read counts the sectors of a page at most; the superblock keeps the count, however old it is.
const ONE_ERROR_SECTORS: u64 = 8;

/// Read errors that md has mended, and blocks that it has given up.
pub(super) fn errors(scene: &Scene<'_>) -> Vec<Defect> {
    let all =
        arrays(scene).flat_map(|(_, node, md)| md.members.iter().map(move |member| (node, member)));
    all.filter_map(|(array, member)| member_errors(scene, array, member)).collect()
}

/// How many ranges of a member md reads and writes no more.
fn bad_ranges(array: &Node, member: &MdMember) -> Option<u64> {
    let mut lists = array.details().bad_blocks.iter();
    let own = lists.find(|(name, ranges)| name == &member.name && *ranges > 0);
    own.map(|(_, ranges)| *ranges)
}

/// True when md could not write to it, or wants another in its place.
fn is_given_up(member: &MdMember) -> bool {
    let state = member.state.as_deref().unwrap_or_default();
    state.contains("want_replacement") || state.contains("write_error")
}

/// True for a member that has lost data.
pub(super) fn is_damaged(array: &Node, member: &MdMember) -> bool {
    bad_ranges(array, member).is_some() || is_given_up(member)
}

fn member_errors(scene: &Scene<'_>, array: &Node, member: &MdMember) -> Option<Defect> {
    if member.state.as_deref().is_some_and(|state| state.contains("faulty")) {
        return None;
    }
    let errors = member.errors.filter(|&errors| errors > 0);
    let (bad, given_up) = (bad_ranges(array, member), is_given_up(member));
    let mut seen = Vec::new();
    seen.extend(errors.map(|n| format!("{n} read errors that were mended from other members")));
    seen.extend(bad.map(|n| format!("{n} ranges of bad blocks")));
    seen.extend(given_up.then(|| format!("state {}", member.state.as_deref().unwrap_or_default())));
    if seen.is_empty() {
        return None;
    }
    let gravity = if bad.is_some() || given_up {
        Gravity::High
    } else if errors.is_some_and(|sectors| sectors <= ONE_ERROR_SECTORS) {
        Gravity::Low
    } else {
        Gravity::Medium
    };
    let device = scene.device(&member.name);
    let key = device.map_or_else(|| format!("/dev/{}", member.name), |own| scene.node(own).key());
    let dir = format!("dev-{}", member.name);
    let mut defect = Defect::new(
        "md-member-errors",
        gravity,
        Some(&key),
        format!("{}, a member of {}: {}", member.name, array.name, seen.join(", ")),
    )
    .concerning(array.key());
    if let Some(n) = errors {
        defect = defect.seen(md_file(array, &format!("{dir}/errors")), n.to_string());
    }
    if let Some(n) = bad {
        defect = defect.seen(md_file(array, &format!("{dir}/bad_blocks")), format!("{n} ranges"));
    }
    if given_up {
        defect = defect.seen(
            md_file(array, &format!("{dir}/state")),
            member.state.clone().unwrap_or_default(),
        );
    }
    let defect = defect
        .because(why_errors(bad.is_some()))
        .command("ask the drive", format!("smartctl -x {}", word(&key)));
    Some(mend_member(scene, array, (member, device), defect))
}

fn why_errors(has_bad_blocks: bool) -> &'static str {
    if has_bad_blocks {
        "what lies in bad blocks has one copy less, or none: a further failure loses \
            it, and reads of it fail or are slow"
    } else {
        "each such read took seconds, and the drive will show more; when another member \
            fails, these places cannot be read from elsewhere"
    }
}

fn mend_member(
    scene: &Scene<'_>,
    array: &Node,
    (member, device): (&MdMember, Option<usize>),
    mut defect: Defect,
) -> Defect {
    let md = array.md.as_ref();
    let is_idle = md.is_some_and(|md| md.sync_action.as_deref() == Some("idle"));
    if is_idle && md.is_some_and(|md| standing(md, &member.name) == Standing::Whole) {
        defect = defect.command(
            "read all members once, so that everything that is readable is mended",
            format!("echo check > {}", word(md_file(array, "sync_action"))),
        );
    }
    if let Some(device) = device {
        let text = "replace it while the old one still helps";
        defect = part_with(scene, defect, array, device, text);
    }
    defect.risking("/dev/NEW is overwritten; the copy takes hours of the members' time").verified_by(
        "after the replacement mdadm --detail shows the new member active, and errors stay 0 after a check",
    )
}

/// Two members on one drive: it works twice for each request, and its loss is two losses.
pub(super) fn one_disk(scene: &Scene<'_>) -> Vec<Defect> {
    arrays(scene)
        .filter_map(|(index, node, md)| {
            let members: Vec<usize> = scene.below(index).map(|(member, _)| member).collect();
            let pairs = on_one_drive(scene, &members);
            let (first, second, disk) = pairs.first()?;
            let names = |&index: &usize| scene.node(index).name.as_str();
            let all: BTreeSet<&str> =
                pairs.iter().flat_map(|(a, b, _)| [names(a), names(b)]).collect();
            let why = if is_redundant(md) {
                "one failed drive takes several members with it, which the level does \
                    not forgive; and each request moves the same heads, or fills the same \
                    link, more than once"
            } else {
                "stripes on one drive do not add up: the heads move between its parts \
                    for each request"
            };
            let mut defect = Defect::new(
                "md-members-one-disk",
                Gravity::High,
                Some(&node.key()),
                format!(
                    "{} of the members of {} lie on drives that they share: {}",
                    all.len(),
                    node.name,
                    list(all.iter().copied())
                ),
            )
            .seen(
                format!("{} and {}", scene.node(*first).label(), scene.node(*second).label()),
                format!("both on {disk}"),
            )
            .because(why)
            .advise("move one of them to a drive of its own");
            if is_redundant(md) {
                defect = part_with(scene, defect, node, *second, "with another drive at hand");
            } else {
                defect = defect.advise(
                    "make the array anew with one member for each drive (destroys what is on it)",
                );
            }
            Some(
                defect
                    .risking(
                        "/dev/NEW is overwritten; until the copy is done the array stays as \
                        unsafe as it is",
                    )
                    .verified_by(
                        "lsblk -s shows each member on a disk of its own; fathom quick \
                        before and after",
                    ),
            )
        })
        .collect()
}
