//! Software arrays (md).

mod likeness;
mod members;
mod settings;
mod state;
mod superblocks;
#[cfg(test)]
mod tests;

use crate::rule;
use crate::rule::Rule;
use crate::scene::Scene;
use fathom_model::stack::{MdFacts, Node, NodeKind};

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!("md-degraded", "an array lacks members", High, Guest, state::degraded),
    rule!("md-broken", "an array has lost more than it can", High, Guest, state::broken),
    rule!("md-inactive", "an array is not started", High, Guest, state::inactive),
    rule!("md-sync-frozen", "an array does not rebuild", Medium, Guest, state::frozen),
    rule!("md-sync-running", "an array works on itself", Medium, Guest, state::sync_running),
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
