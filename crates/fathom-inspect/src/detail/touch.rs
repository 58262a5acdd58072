//! Which devices nobody may touch, as far as sysfs and device-mapper tell: those that sleep, and those that would make
//! whoever reads them wait.

use fathom_model::stack::{Node, NodeKind};
use fathom_sys::mounts;
use fathom_sys::sysfs_block::{BlockDir, is_pci_function};
use fathom_sys::sysroot::SysRoot;

/// Why a device must be left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// The word of [`fathom_model::stack::Detail::untouched`].
    pub(crate) word: &'static str,
    /// What stands on the device must be left alone as well, since reading there would read here.
    pub(crate) spreads: bool,
}

const SUSPENDED: Rest = Rest { word: "suspended", spreads: true };
/// A drive in standby.
pub(crate) const STANDBY: Rest = Rest { word: "standby", spreads: true };
const NO_PATH: Rest = Rest { word: "no path", spreads: true };
const BLOCKED: Rest = Rest { word: "blocked", spreads: true };
const OFFLINE: Rest = Rest { word: "offline", spreads: false };
const REMOTE: Rest = Rest { word: "remote", spreads: true };
const REMOVABLE: Rest = Rest { word: "removable", spreads: false };

/// Why a device must be left alone by itself, whatever is below it; none when nothing speaks against touching it.
pub(crate) fn own_rest(root: &SysRoot, device: &BlockDir, node: &Node) -> Option<Rest> {
    match node.kind {
        NodeKind::Dm => {
            let dm = node.dm.as_ref()?;
            if dm.suspended == Some(true) {
                return Some(SUSPENDED);
            }
            dm.status.iter().any(|line| waits_for_a_path(line)).then_some(NO_PATH)
        }
        NodeKind::Disk => runtime_suspended(root, device).or_else(|| drive_rest(device, node)),
        _ => None,
    }
}

/// Why a loop device must be left alone whose file another machine or process serves: a read waits until that answers.
pub(crate) fn remote_file(nodes: &[Node], index: usize) -> Option<Rest> {
    let node = nodes.get(index).filter(|node| node.kind == NodeKind::Loop)?;
    let mount = nodes.get(*node.below.first()?)?.mount.as_ref()?;
    (!mounts::may_be_asked(&mount.fs_type)).then_some(REMOTE)
}

fn drive_rest(device: &BlockDir, node: &Node) -> Option<Rest> {
    // An optical or floppy drive would load and turn its medium.
    if ["sr", "fd"].iter().any(|prefix| is_numbered(device.name(), prefix)) {
        return Some(REMOVABLE);
    }
    match node.drive.as_ref()?.state.as_deref()? {
        "blocked" | "created-blocked" | "quiesce" | "connecting" | "resetting" => Some(BLOCKED),
        "offline" | "transport-offline" | "dead" | "deleting" | "cancel" => Some(OFFLINE),
        _ => None,
    }
}

/// Why a device must be left alone that another machine serves: where that is gone, a read waits until it is back, for ever if
/// need be.
pub(crate) fn remote_device(node: &Node) -> Option<Rest> {
    (node.kind == NodeKind::Remote && node.devno.is_some()).then_some(REMOTE)
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix);
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// The nearest device above that has power management at run time decides: a child that is awake keeps its parents awake.
fn runtime_suspended(root: &SysRoot, device: &BlockDir) -> Option<Rest> {
    // It mostly says itself, and its directory is open.
    if device.text("device/power/runtime_status").as_deref() == Some("active") {
        return None;
    }
    let start = device.linked("device")?;
    for dir in start.ancestors().take_while(|dir| dir.starts_with("sys/devices")) {
        match root.text(dir.join("power/runtime_status")).as_deref() {
            Some("suspended" | "suspending") => return Some(SUSPENDED),
            Some("active" | "resuming") => return None,
            _ if is_pci_function(root, dir) => return None,
            _ => {}
        }
    }
    None
}

/// True for the status of a multipath map (`START LENGTH multipath 2 QUEUED ...`) without any working path: it may hold
/// all I/O back until one comes.
///
/// After the features, the handler and the numbers of groups come the groups; all that matters here is that every path is
/// a device number followed by `A` (active) or `F` (failed).
fn waits_for_a_path(status: &str) -> bool {
    let words: Vec<&str> = status.split(' ').collect();
    if words.get(2) != Some(&"multipath") {
        return false;
    }
    let is_number = |word: &str| {
        let parts = word.split_once(':');
        parts.is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
    };
    let states = words.windows(2).filter(|pair| is_number(pair[0])).map(|pair| pair[1]);
    !states.into_iter().any(|state| state == "A")
}

/// For each node why it must be left alone, from the reasons of the devices themselves: what stands on a resting device
/// rests too. Several paths to one drive are as many ways: only when all of them rest, does what stands on them.
pub(crate) fn spread(nodes: &[Node], own: &[Option<Rest>]) -> Vec<Option<Rest>> {
    let mut all = own.to_vec();
    let mut above = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        node.below.iter().for_each(|&below| above[below].push(index));
    }
    let mut pending: Vec<usize> = (0..nodes.len()).filter(|&index| all[index].is_some()).collect();
    while let Some(index) = pending.pop() {
        let Some(rest) = all[index].filter(|rest| rest.spreads) else { continue };
        for &upper in &above[index] {
            let other_way = has_many_ways(&nodes[upper])
                && nodes[upper].below.iter().any(|&way| all[way].is_none());
            if all[upper].is_none() && !other_way {
                all[upper] = Some(rest);
                pending.push(upper);
            }
        }
    }
    all
}

fn has_many_ways(node: &Node) -> bool {
    let dm = node.dm.as_ref();
    node.kind == NodeKind::NvmeMultipath
        || dm.is_some_and(|dm| dm.targets.iter().any(|target| target == "multipath"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::DmFacts;

    #[test]
    fn maps_without_a_working_path_are_told_by_their_status() {
        let status = |first: char, second: char| {
            format!("0 100 multipath 2 0 0 0 1 1 A 0 2 2 8:0 {first} 1 1 8:16 {second} 0 1")
        };
        assert!(!waits_for_a_path(&status('A', 'F')) && waits_for_a_path(&status('F', 'F')));
        assert!(waits_for_a_path("0 100 multipath 2 0 1 0 0 0"), "no paths at all");
        assert!(!waits_for_a_path("0 100 linear") && !waits_for_a_path(""));
    }

    fn node(kind: NodeKind, targets: &[&str], below: &[usize]) -> Node {
        let mut node = Node::new(kind, "x");
        let targets = targets.iter().map(|t| (*t).to_owned()).collect();
        node.dm = (kind == NodeKind::Dm).then(|| DmFacts { targets, ..DmFacts::default() });
        node.below = below.to_vec();
        node
    }

    #[test]
    fn rest_spreads_upwards_but_not_past_another_path() {
        let nodes = [
            node(NodeKind::Mount, &[], &[1]),
            node(NodeKind::Dm, &["linear"], &[2]),
            node(NodeKind::Dm, &["multipath"], &[3, 4]),
            node(NodeKind::Disk, &[], &[]),
            node(NodeKind::Disk, &[], &[]),
        ];
        let words = |own: [Option<Rest>; 5]| spread(&nodes, &own).map_word();
        assert_eq!(words([None, None, None, Some(STANDBY), None]), "- - - standby -");
        let both = [None, None, None, Some(STANDBY), Some(SUSPENDED)];
        assert!(words(both).starts_with("suspended suspended suspended standby"));
        assert_eq!(
            words([None, None, None, Some(OFFLINE), Some(OFFLINE)]),
            "- - - offline offline"
        );
        let suspended = [None, Some(SUSPENDED), None, None, None];
        assert_eq!(words(suspended), "suspended suspended - - -");
    }

    #[test]
    fn a_circle_ends() {
        let nodes = [node(NodeKind::Dm, &[], &[1]), node(NodeKind::Dm, &[], &[0])];
        assert_eq!(spread(&nodes, &[Some(SUSPENDED), None]).map_word(), "suspended suspended");
    }

    trait Words {
        fn map_word(&self) -> String;
    }

    impl Words for Vec<Option<Rest>> {
        fn map_word(&self) -> String {
            let words = self.iter().map(|rest| rest.map_or("-", |rest| rest.word));
            words.collect::<Vec<_>>().join(" ")
        }
    }
}
