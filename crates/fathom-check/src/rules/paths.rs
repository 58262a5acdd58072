//! Several paths to one drive: multipath maps, native NVMe multipath, and what is used beside them.

mod beside;
mod configuration;
mod maps;
mod nvme;
#[cfg(test)]
mod tests;

use crate::describe::is_multipath;
use crate::rule;
use crate::rule::Rule;
use crate::scene::Scene;
use fathom_model::stack::{DmFacts, Node, NodeKind};

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!("multipath-degraded", "a map has lost paths", High, Guest, maps::degraded),
    rule!("multipath-single-path", "a map of one path", Medium, Guest, maps::single_path),
    rule!("multipath-selector", "unequal paths take turns", Medium, Guest, maps::selector),
    rule!(
        "multipath-groups-unequal",
        "paths of unequal state in one group",
        High,
        Guest,
        maps::groups_unequal
    ),
    rule!(
        "multipath-queue-forever",
        "without paths, I/O waits for ever",
        Low,
        Guest,
        maps::queue_forever
    ),
    rule!(
        "multipath-daemon-missing",
        "nobody watches over the paths",
        High,
        Guest,
        maps::daemon_missing
    ),
    rule!("multipath-no-map", "several paths to a drive, and no map", High, Guest, beside::no_map),
    rule!(
        "path-in-use",
        "a path or member is used past its map or array",
        High,
        Guest,
        beside::in_use
    ),
    rule!(
        "multipath-blacklist-wide",
        "the blacklist hides drives with several paths",
        Medium,
        Guest,
        configuration::blacklist
    ),
    rule!(
        "lvm-filter-paths",
        "LVM may take a path for a drive",
        Medium,
        Guest,
        configuration::lvm_filter
    ),
    rule!(
        "multipath-friendly-names",
        "names that differ from node to node",
        Low,
        Guest,
        configuration::friendly_names
    ),
    rule!("nvme-path-down", "an NVMe namespace has lost paths", High, Guest, nvme::path_down),
    rule!(
        "nvme-single-path",
        "an NVMe namespace over a network has one path",
        Medium,
        Guest,
        nvme::single_path
    ),
    rule!("nvme-io-policy", "only one of several NVMe paths is used", Low, Guest, nvme::io_policy),
];

/// Every multipath map with its facts and its paths.
fn maps<'a>(scene: &Scene<'a>) -> Vec<Map<'a>> {
    let nodes = scene.nodes(&[NodeKind::Dm]);
    nodes
        .filter_map(|(index, node)| {
            let dm = node.dm.as_ref().filter(|dm| is_multipath(dm))?;
            let name = dm.name.as_deref().unwrap_or(&node.name);
            Some(Map { node, dm, name, paths: scene.below(index).collect() })
        })
        .collect()
}

/// A multipath map.
struct Map<'a> {
    node: &'a Node,
    dm: &'a DmFacts,
    name: &'a str,
    paths: Vec<(usize, &'a Node)>,
}

impl<'a> Map<'a> {
    /// The path of a device number.
    fn path(&self, devno: &str) -> Option<&'a Node> {
        self.paths.iter().map(|(_, node)| *node).find(|node| node.devno.as_deref() == Some(devno))
    }
}
