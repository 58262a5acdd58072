//! Native multipath of the NVMe driver.

use crate::rules::shared::{list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

/// States of a path over which I/O goes.
const WORKING: [&str; 4] = ["live", "running", "optimized", "non-optimized"];

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
    heads(scene)
        .filter_map(|(head, paths)| {
            let down: Vec<(&Node, &str)> = paths
                .iter()
                .filter_map(|path| {
                    Some((*path, state(path).filter(|state| !WORKING.contains(state))?))
                })
                .collect();
            let (_, first) = down.first()?;
            let mut defect = Defect::new(
                "nvme-path-down",
                Gravity::High,
                Some(&head.key()),
                format!(
                    "{} of the {} paths to {} are not usable ({first})",
                    down.len(),
                    paths.len(),
                    head.name
                ),
            );
            for (path, state) in &down {
                defect = defect
                    .seen(
                        format!("{} or its controller's state", sysfs(path, "ana_state")),
                        format!("{}: {state}", path.name),
                    )
                    .concerning(path.key());
            }
            Some(
                defect
                    .because(
                        "the paths that are left carry everything, and when the last one \
                        fails I/O waits until the controller loss time-out and then fails",
                    )
                    .command(
                        "see controllers, addresses and states",
                        format!("nvme list-subsys {}", word(head.label())),
                    )
                    .command("see when and why", "dmesg -T | grep -i nvme")
                    .advise(
                        "bring the network or target port back: the driver reconnects by \
                        itself until ctrl_loss_tmo has passed; after that: nvme connect-all",
                    )
                    .risking("none")
                    .verified_by(format!(
                        "nvme list-subsys {} shows all paths live",
                        word(head.label())
                    )),
            )
        })
        .collect()
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
