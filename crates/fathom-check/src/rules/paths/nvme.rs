//! Native multipath of the NVMe driver.

use crate::rules::shared::{list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};
use std::collections::BTreeSet;

/// States of a path over which I/O goes.
const WORKING: [&str; 4] = ["live", "running", "optimized", "non-optimized"];

/// States in which a controller that answers does not serve the namespace (asymmetric namespace access).
const ELSEWHERE: [&str; 2] = ["inaccessible", "change"];

fn heads<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (&'a Node, Vec<&'a Node>)> {
    let heads = scene.nodes(&[NodeKind::NvmeMultipath]);
    heads.map(|(index, node)| (node, scene.below(index).map(|(_, path)| path).collect()))
}

fn state(path: &Node) -> Option<&str> {
    path.drive.as_ref()?.state.as_deref()
}

/// How the adapter of a path is reached: `pcie`, `tcp`, `rdma`, `fc`.
fn transport<'a>(scene: &Scene<'a>, path: &Node) -> Option<&'a str> {
    let host = path.details().host.as_deref()?;
    let hosts = scene.snapshot.system.hosts.iter();
    hosts.filter(|h| h.name == host).find_map(|h| h.transport.as_deref())
}

/// Paths over which no I/O goes.
pub(super) fn path_down(scene: &Scene<'_>) -> Vec<Defect> {
    let mut found = Vec::new();
    for (head, paths) in heads(scene) {
        let down = paths.iter().filter_map(|path| Some((*path, state(path)?)));
        let down = down.filter(|(_, state)| !WORKING.contains(state));
        let works = paths.iter().filter_map(|path| state(path)).any(|s| WORKING.contains(&s));
        // With the controller all is well: the target says that the namespace is served by another one.
        let (elsewhere, lost): (Vec<_>, Vec<_>) =
            down.partition(|(_, state)| works && ELSEWHERE.contains(state));
        if !lost.is_empty() {
            found.push(
                down_told(head, paths.len(), &lost, Gravity::High)
                    .because(
                        "the paths that are left carry everything, and when the last one \
                        fails I/O waits until the controller loss time-out and then fails",
                    )
                    .advise(
                        "bring the network or target port back: the driver reconnects by \
                        itself until ctrl_loss_tmo has passed; after that: nvme connect-all",
                    ),
            );
        }
        if !elsewhere.is_empty() {
            let is_changing = elsewhere.iter().any(|(_, state)| *state == "change");
            let gravity = if is_changing { Gravity::Medium } else { Gravity::Low };
            found.push(
                down_told(head, paths.len(), &elsewhere, gravity)
                    .sure(Certainty::Possible)
                    .because(
                        "the controller answers, and says that the namespace is served by others \
                        now: that is how a target with an active and a passive side always is; \
                        where both were to serve it, one of them has failed over",
                    )
                    .advise(
                        "look on the target why, where both sides were to serve it; nothing here \
                        brings it back",
                    ),
            );
        }
    }
    found
}

fn down_told(head: &Node, count: usize, down: &[(&Node, &str)], gravity: Gravity) -> Defect {
    let states: BTreeSet<&str> = down.iter().map(|(_, state)| *state).collect();
    let defect = Defect::new(
        "nvme-path-down",
        gravity,
        Some(&head.key()),
        format!(
            "{} of the {count} paths to {} {} usable ({})",
            down.len(),
            head.name,
            if down.len() == 1 { "is not" } else { "are not" },
            list(states)
        ),
    );
    let defect = down.iter().fold(defect, |defect, (path, state)| {
        let source = format!("{} or its controller's state", sysfs(path, "ana_state"));
        defect.seen(source, format!("{}: {state}", path.name)).concerning(path.key())
    });
    let paths = format!("nvme list-subsys {}", word(head.label()));
    defect
        .command("see controllers, addresses and states", paths.clone())
        .command("see when and why", "dmesg -T | grep -i nvme")
        .risking("none")
        .verified_by(format!("{paths} shows all paths live"))
}

/// A namespace over a network that is reached one way only.
pub(super) fn single_path(scene: &Scene<'_>) -> Vec<Defect> {
    heads(scene)
        .filter_map(|(head, paths)| {
            let [path] = paths[..] else { return None };
            let transport = transport(scene, path).filter(|transport| *transport != "pcie")?;
            Some(
                Defect::new(
                    "nvme-single-path",
                    Gravity::Medium,
                    Some(&head.key()),
                    format!("{} is reached over {transport} by a single path", head.name),
                )
                .sure(Certainty::Likely)
                .seen(format!("/sys/block/{}/multipath", head.name), path.name.clone())
                .because("nothing takes over when this connection fails")
                .command("connect to every address that the target offers", "nvme connect-all")
                .command("see the paths", format!("nvme list-subsys {}", word(head.label())))
                .risking("none")
                .verified_by(format!(
                    "nvme list-subsys {} shows two controllers",
                    word(head.label())
                )),
            )
        })
        .collect()
}

/// All I/O of a NUMA node goes over one of several equal paths.
pub(super) fn io_policy(scene: &Scene<'_>) -> Vec<Defect> {
    heads(scene)
        .filter_map(|(head, paths)| {
            let policy =
                head.drive.as_ref()?.io_policy.as_deref().filter(|policy| *policy == "numa")?;
            let good: Vec<&str> = paths
                .iter()
                .filter(|path| matches!(state(path), Some("optimized" | "live")))
                .map(|path| path.name.as_str())
                .collect();
            // Two ports of a local drive share the drive: one path is enough for it.
            let network = paths
                .iter()
                .any(|path| transport(scene, path).is_some_and(|transport| transport != "pcie"));
            if good.len() < 2 || !network {
                return None;
            }
            let subsystem = "/sys/class/nvme-subsystem/nvme-subsys*/iopolicy";
            Some(
                Defect::new(
                    "nvme-io-policy",
                    Gravity::Low,
                    Some(&head.key()),
                    format!(
                        "{} has {} equal paths, of which each NUMA node uses one",
                        head.name,
                        good.len()
                    ),
                )
                .sure(Certainty::Likely)
                .seen(subsystem, policy)
                .seen("equal paths", list(good.iter().copied()))
                .because("the bandwidth of the other connections is not used while one is full")
                .command(
                    "share the load by queue depth (kernel 6.11 \
                    and later), else round-robin",
                    format!(
                        "for f in {subsystem}; do echo queue-depth > \
                    $f || echo round-robin > $f; done"
                    ),
                )
                .advise(
                    "it is gone after a reboot: keep it by nvme_core.iopolicy=queue-depth \
                    on the kernel's command line, or a udev rule",
                )
                .risking("with round-robin over paths of unequal speed the slowest sets the pace")
                .verified_by(format!("fathom run seqread {} before and after", word(head.label()))),
            )
        })
        .collect()
}
