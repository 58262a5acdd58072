//! Device-mapper: LVM, encryption, caches, snapshots; and bcache.

mod arrays;
mod caches;
mod layers;
mod physical;
mod pools;
mod snapshots;
#[cfg(test)]
mod tests;

pub(super) use arrays::{Parts, parts_on, save_first};
pub(super) use physical::{is_all_read, resting};

use crate::rule;
use crate::rule::Rule;
use crate::scene::Scene;
use fathom_model::defect::Defect;
use fathom_model::stack::{DmFacts, Node, NodeKind};

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!("dm-suspended", "a volume holds all I/O back", High, Guest, layers::suspended),
    rule!(
        "dm-error-target",
        "a part of a volume gives only errors",
        High,
        Guest,
        layers::error_target
    ),
    rule!(
        "dm-crypt-workqueues",
        "encryption hands each request to other threads",
        Low,
        Guest,
        layers::crypt_workqueues
    ),
    rule!(
        "dm-integrity-journal",
        "each block is written twice",
        Low,
        Guest,
        layers::integrity_journal
    ),
    rule!("vdo-full", "deduplicated storage runs full", High, Simulated, layers::vdo_full),
    rule!("thin-pool-failed", "a thin pool has stopped", High, Guest, pools::failed),
    rule!("thin-pool-full", "a thin pool runs full", High, Guest, pools::data_full),
    rule!(
        "thin-pool-metadata-full",
        "the metadata of a thin pool runs full",
        High,
        Guest,
        pools::metadata_full
    ),
    rule!(
        "thin-pool-no-autoextend",
        "a promised pool does not grow by itself",
        Medium,
        Guest,
        pools::no_autoextend
    ),
    rule!("thin-pool-zeroing", "large new chunks are zeroed first", Low, Guest, pools::zeroing),
    rule!("thin-pool-small-chunk", "a large pool in small pieces", Low, Guest, pools::small_chunk),
    rule!("snapshot-full", "a snapshot runs full, or is lost", High, Guest, snapshots::full),
    rule!("snapshot-present", "a snapshot makes writes dear", Medium, Guest, snapshots::present),
    rule!("cache-failed", "a cache has stopped", High, Guest, caches::failed),
    rule!("cache-not-writing", "a cache does not help writes", Low, Guest, caches::not_writing),
    rule!(
        "cache-dirty-alone",
        "the only copy of new data is in a cache on one drive",
        Medium,
        Guest,
        caches::dirty_alone
    ),
    rule!("lvm-raid-degraded", "a volume lacks copies", High, Guest, arrays::degraded),
    rule!("lvm-raid-syncing", "a volume works on itself", Medium, Guest, arrays::syncing),
    rule!(
        "lvm-raid-mismatch",
        "copies or parity of a volume do not agree",
        Medium,
        Guest,
        arrays::mismatch
    ),
    rule!("lvm-legs-one-disk", "parts of a volume share a drive", High, Guest, arrays::one_disk),
    rule!(
        "lvm-pv-resized",
        "a device is not as large as LVM believes",
        High,
        Guest,
        physical::resized
    ),
    rule!("lvm-vg-incomplete", "a volume group lacks devices", High, Guest, physical::incomplete),
    rule!(
        "lvm-duplicate-pv",
        "two devices say that they are the same",
        High,
        Guest,
        physical::duplicates
    ),
];

/// Every device-mapper device with its facts.
fn devices<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (usize, &'a Node, &'a DmFacts)> {
    let nodes = scene.nodes(&[NodeKind::Dm]);
    nodes.filter_map(|(index, node)| Some((index, node, node.dm.as_ref()?)))
}

/// `vg/lv` of a volume of LVM, else the name of the map. LVM joins the two by a dash and doubles dashes inside of them; the
/// ends that it gives to hidden parts (`-tpool`, `-real`, `-cow`) are left off.
pub(super) fn volume_name(node: &Node, dm: &DmFacts) -> String {
    let name = dm.name.as_deref().unwrap_or(&node.name);
    if !dm.uuid.as_deref().is_some_and(|uuid| uuid.starts_with("LVM-")) {
        return name.to_owned();
    }
    let hidden = ["-tpool", "-real", "-cow"].iter().find_map(|end| name.strip_suffix(end));
    crate::describe::lvm_name(hidden.unwrap_or(name))
}

/// True for a volume of LVM, which its commands know.
pub(super) fn is_lvm(dm: &DmFacts) -> bool {
    dm.uuid.as_deref().is_some_and(|uuid| uuid.starts_with("LVM-"))
}

/// A command of LVM for a volume of its own, and for a map that something else made what it comes to there.
fn by_lvm(defect: Defect, dm: &DmFacts, text: &str, command: String, else_advice: &str) -> Defect {
    if is_lvm(dm) { defect.command(text, command) } else { defect.advise(else_advice) }
}

/// Where the table of a device can be seen.
fn table_of(dm: &DmFacts, node: &Node) -> String {
    format!("dmsetup table {}", dm.name.as_deref().unwrap_or(&node.name))
}

/// Where the status of a device can be seen.
fn status_of(dm: &DmFacts, node: &Node) -> String {
    format!("dmsetup status {}", dm.name.as_deref().unwrap_or(&node.name))
}
