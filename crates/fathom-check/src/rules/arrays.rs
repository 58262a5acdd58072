//! Software arrays (md).

mod likeness;
#[cfg(test)]
mod loss_tests;
mod members;
mod settings;
mod state;
mod superblocks;
#[cfg(test)]
mod tests;

use super::shared::{holder_of_members, replace_member};
use crate::conditions::done_words;
use crate::rule;
use crate::rule::Rule;
use crate::rules::disks::is_failing;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::Defect;
use fathom_model::stack::{MdFacts, MdMember, Node, NodeKind};

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!("md-degraded", "an array lacks members", High, Guest, state::degraded),
    rule!("md-broken", "an array has lost more than it can", High, Guest, state::broken),
    rule!("md-inactive", "an array is not started", High, Guest, state::inactive),
    rule!("md-sync-frozen", "an array does not rebuild", Medium, Guest, state::frozen),
    rule!("md-sync-running", "an array works on itself", Medium, Guest, state::sync_running),
    rule!(
        "md-resync-pending",
        "an array has not made its copies agree yet",
        Medium,
        Guest,
        state::resync_pending
    ),
    rule!("md-sync-slow", "a rebuild is held back", Medium, Guest, state::sync_slow),
    rule!("md-mismatch", "copies or parity do not agree", High, Guest, state::mismatch),
    rule!(
        "md-not-running",
        "members of an array that does not run",
        Medium,
        Guest,
        superblocks::not_running
    ),
    rule!(
        "md-stale-member",
        "an old member of a running array",
        Medium,
        Guest,
        superblocks::stale_member
    ),
    rule!(
        "md-member-errors",
        "a member has read errors or bad blocks",
        High,
        Guest,
        members::errors
    ),
    rule!("md-members-one-disk", "two members share a drive", High, Guest, members::one_disk),
    rule!("md-members-differ", "members of different kinds", Medium, Guest, likeness::differ),
    rule!("md-members-settings", "members set up differently", Medium, Guest, likeness::settings),
    rule!(
        "md-no-write-mostly",
        "slow copies are read as often as fast ones",
        Medium,
        Guest,
        likeness::no_write_mostly
    ),
    rule!("md-raid0-unequal", "stripes of unequal width", Low, Guest, likeness::unequal),
    rule!("md-no-bitmap", "a large array without a bitmap", Medium, Guest, settings::no_bitmap),
    rule!("md-bitmap-chunk", "a bitmap with small chunks", Medium, Guest, settings::bitmap_chunk),
    rule!("md-stripe-cache", "a stripe cache of a few rows", Low, Guest, settings::stripe_cache),
    rule!(
        "md-group-threads",
        "one thread computes all parity",
        Medium,
        Guest,
        settings::group_threads
    ),
    rule!("md-no-spare", "no spare for many members", Low, Guest, settings::no_spare),
];

/// Every array with its facts.
fn arrays<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (usize, &'a Node, &'a MdFacts)> {
    let nodes = scene.nodes(&[NodeKind::Md]);
    nodes.filter_map(|(index, node)| Some((index, node, node.md.as_ref()?)))
}

/// Where an attribute of an array stands.
fn md_file(node: &Node, attribute: &str) -> String {
    format!("/sys/block/{}/md/{attribute}", node.name)
}

/// A further attribute of an array.
fn md_detail<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let all = &node.details().md;
    all.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn is_level(md: &MdFacts, levels: &[&str]) -> bool {
    md.level.as_deref().is_some_and(|level| levels.contains(&level))
}

/// The array keeps its data when a member fails.
pub(super) fn is_redundant(md: &MdFacts) -> bool {
    is_level(md, &["raid1", "raid4", "raid5", "raid6", "raid10"])
}

/// How a member stands that is to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The array has given it up already.
    Out,
    /// It is being copied to its replacement.
    Leaving,
    /// A spare, which holds nothing.
    Spare,
    /// The array is rebuilding or copying onto it: what it gets is elsewhere too.
    Filling,
    /// It holds the journal.
    Journal,
    /// Another member is missing, and nothing else holds what this one does.
    Last,
    /// Another member is missing, but what this one holds is elsewhere still.
    Beside,
    /// All are there.
    Whole,
}

/// How a member stands, by its name.
pub(super) fn standing(md: &MdFacts, name: &str) -> Standing {
    let has = |member: &MdMember, word: &str| {
        member.state.as_deref().is_some_and(|state| state.split(',').any(|own| own.trim() == word))
    };
    let own = md.members.iter().find(|member| member.name == name);
    let Some(own) = own.filter(|own| !has(own, "faulty")) else { return Standing::Out };
    let is_copy = |other: &MdMember| has(other, "replacement") && other.slot == own.slot;
    if has(own, "want_replacement") && md.members.iter().any(is_copy) {
        return Standing::Leaving;
    }
    if has(own, "journal") {
        return Standing::Journal;
    }
    if has(own, "spare") {
        let has_place = own.slot.as_deref().is_some_and(|slot| slot != "none");
        return if has_place { Standing::Filling } else { Standing::Spare };
    }
    match md.degraded {
        Some(1..) if losses_left(md) == Some(0) && shares_copies(md, own) => Standing::Last,
        Some(1..) => Standing::Beside,
        _ => Standing::Whole,
    }
}

/// False where what a member of a RAID10 holds has its other copies on members that are all there.
fn shares_copies(md: &MdFacts, own: &MdMember) -> bool {
    let slot = |member: &MdMember| member.slot.as_deref()?.parse::<u64>().ok();
    let (Some(all), Some(layout), Some(place)) = (md.raid_disks, md.layout, slot(own)) else {
        return true;
    };
    if md.level.as_deref() != Some("raid10") || all == 0 {
        return true;
    }
    let works =
        |member: &&MdMember| member.state.as_deref().is_some_and(|state| state.contains("in_sync"));
    let there: Vec<u64> = md.members.iter().filter(works).filter_map(slot).collect();
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    let is_missing = |place: u64| !there.contains(&place);
    // Near copies that divide the members lie side by side in groups; others reach the next ones on both sides.
    if far <= 1 && near > 0 && all.is_multiple_of(near) {
        let first = place - place % near;
        return (first..first.saturating_add(near)).any(is_missing);
    }
    let (place, reach) = (place % all, near.saturating_mul(far.max(1)).saturating_sub(1).min(all));
    (1..=reach).any(|step| {
        let (after, before) = (place.saturating_add(step), place.saturating_add(all - step));
        is_missing(after % all) || is_missing(before % all)
    })
}

/// True for a member that itself, or whose drive, has lost data or says that it will.
fn is_dying(scene: &Scene<'_>, array: &Node, device: usize) -> bool {
    let name = &scene.node(device).name;
    let members = array.md.iter().flat_map(|md| &md.members);
    let own = members.into_iter().find(|member| &member.name == name);
    own.is_some_and(|member| members::is_damaged(array, member)) || is_failing(scene, device)
}

/// What to do with a member that is on its way out, by how it stands; `text` says why where it can simply be replaced.
pub(super) fn part_with(
    scene: &Scene<'_>,
    defect: Defect,
    array: &Node,
    member: usize,
    text: &str,
) -> Defect {
    let Some(md) = array.md.as_ref() else { return defect };
    let (name, path, holder) = (&array.name, word(array.label()), holder_of_members(array));
    let (member_name, device) = (&scene.node(member).name, scene.node(member).label());
    match standing(md, member_name) {
        Standing::Whole => replace_member(defect, text, array, device),
        Standing::Out => defect.advise(format!(
            "{name} has given it up already and lacks a member until it has another (md-degraded)"
        )),
        Standing::Leaving => defect.command(
            format!("{name} is copying it to another drive{}: let that end", done_words(md)),
            format!("mdadm --wait {path}"),
        ),
        Standing::Spare => defect.command(
            format!("{name} keeps it as a spare, which holds nothing yet: give it another"),
            format!("mdadm {holder} --add /dev/NEW && mdadm {holder} --remove {}", word(device)),
        ),
        Standing::Filling => defect.command(
            format!("{name} fills it now, and would rest on it afterwards: give it another"),
            format!("mdadm {holder} --add /dev/NEW && mdadm {path} --fail {}", word(device)),
        ),
        Standing::Journal => defect.advise(format!(
            "it holds the journal of {name}, without which that takes no writes: plan when to put \
             another in its place (--add-journal, mdadm(8))"
        )),
        Standing::Last if is_dying(scene, array, member) => {
            defect.advise(save_the_last(array, member_name))
        }
        Standing::Last => defect.advise(format!(
            "{name} lacks another member, and its rebuild reads this one from end to end: save what \
             matters first, let that be rebuilt (md-degraded), then replace this one"
        )),
        Standing::Beside => defect.advise(format!(
            "{name} lacks another member: let that be rebuilt first (md-degraded), then replace this one"
        )),
    }
}

/// With a member missing, a rebuild reads what is left from end to end; where that includes a dying drive, it is the last thing to do.
fn save_the_last(array: &Node, member: &str) -> String {
    let name = &array.name;
    if array.md.as_ref().is_some_and(is_rebuilding) {
        let action = md_file(array, "sync_action");
        return format!(
            "{name} reads {member} from end to end for its rebuild, and nothing else holds what that does: \
             hold the rebuild (echo frozen > {action}) until what matters is saved, then let it go on (echo \
             idle > {action})"
        );
    }
    format!(
        "{name} lacks a member, and nothing else holds what {member} does: add no drive to it now, for the \
         rebuild would read {member} from end to end and fail where it cannot. Save what matters from it \
         first; then stop the array, copy {member} to a drive of the same size (ddrescue), and start the array \
         with the copy in its place"
    )
}

fn is_rebuilding(md: &MdFacts) -> bool {
    md.sync_action.as_deref() == Some("recover")
}

/// How many further members it can lose in the worst case without losing data.
fn losses_left(md: &MdFacts) -> Option<u64> {
    let missing = md.degraded?;
    let copies = match md.level.as_deref()? {
        "raid1" => md.raid_disks?,
        "raid4" | "raid5" => 2,
        "raid6" => 3,
        "raid10" => md.layout.map(|layout| (layout & 0xff) * (layout >> 8 & 0xff))?,
        _ => return None,
    };
    Some(copies.saturating_sub(missing.saturating_add(1)))
}
