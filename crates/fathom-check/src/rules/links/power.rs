//! Links and drives that sleep between requests.

use super::on_disks;
use crate::rules::drives::hosts_with_disks;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

/// SATA ports with a policy that lets links sleep deeply.
pub(super) fn sata(scene: &Scene<'_>) -> Vec<Defect> {
    let found = hosts_with_disks(scene).filter_map(|(host, disks)| {
        let policy = host.link_power_policy.as_deref()?;
        let gravity = match policy {
            "min_power" => Gravity::Medium,
            "min_power_with_partial" => Gravity::Low,
            _ => return None,
        };
        let file = format!("/sys/class/scsi_host/{}/link_power_management_policy", host.name);
        let mut defect = on_disks(
            "sata-power-saving",
            gravity,
            &disks,
            format!("the SATA link of {} sleeps between requests ({policy})", disks.first().map(|d| d.name.as_str()).unwrap_or_default()),
        )
        .seen(file.clone(), policy);
        defect = defect.because("a link in its deepest sleep takes up to 10 ms to wake, which every request after a pause pays; the kernel's own help text warns that min_power has damaged data with some drives");
        Some(
            defect
                .command("let it stay awake", format!("echo max_performance > {}", word(&file)))
                .command("or take the compromise that the kernel chooses for laptops", format!("echo med_power_with_dipm > {}", word(&file)))
                .advise("find who sets it (TLP, tuned, powertop --auto-tune, a udev rule), or it comes back")
                .risking("some tenths of a watt for each link")
                .verified_by("fathom run randread DIR depth=1 think_time=20ms before and after: the slowest tenth gets faster"),
        )
    });
    found.collect()
}

/// NVMe drives whose power states change by themselves.
pub(super) fn nvme(scene: &Scene<'_>) -> Vec<Defect> {
    let found = hosts_with_disks(scene).filter_map(|(host, disks)| {
        let switches = disks.iter().any(|disk| {
            let mut asked = with_head(scene, disk).filter_map(|node| node.details().identity.as_ref());
            asked.any(|identity| identity.power_state_transitions == Some(true))
        });
        let tolerance = host.latency_tolerance_us.as_deref();
        // 0 keeps the drive awake whatever the feature says.
        if !switches || tolerance == Some("0") {
            return None;
        }
        let file = format!("/sys/class/nvme/{}/power/pm_qos_latency_tolerance_us", host.name);
        let parameters = &scene.snapshot.system.module_parameters;
        let parameter = parameters.iter().find(|(name, _)| name == "nvme_core.default_ps_max_latency_us");
        let mut defect = on_disks(
            "nvme-power-saving",
            Gravity::Low,
            &disks,
            format!("{} goes to sleep by itself between requests", disks.first().map(|d| d.name.as_str()).unwrap_or_default()),
        )
        .sure(Certainty::Likely)
        .seen(format!("nvme get-feature /dev/{} -f 0x0c", host.name), "autonomous power state transitions: on")
        .seen(file.clone(), tolerance.unwrap_or("not told").to_owned());
        if let Some((name, value)) = parameter {
            defect = defect.seen(format!("/sys/module/{}", name.replace('.', "/parameters/")), format!("{value} us"));
        }
        Some(
            defect
                .because("the first request after a pause pays for waking up, milliseconds on many drives: it is fast under load, and slow when it is used now and then")
                .command("keep it awake now", format!("echo 0 > {}", word(&file)))
                .advise("for good: nvme_core.default_ps_max_latency_us=0 on the kernel's command line (a feature set by hand is undone by the next reset)")
                .risking("some watts and degrees more while idle; on a laptop better not")
                .verified_by("fathom run randread DIR depth=1 think_time=200ms before and after: the slowest requests get faster"),
        )
    });
    found.collect()
}

/// The disk, and the head of the namespace that it is a path to: one of them was asked.
fn with_head<'a>(scene: &Scene<'a>, disk: &'a Node) -> impl Iterator<Item = &'a Node> {
    let index = scene.by_key(&disk.key());
    let above = index.map(|index| scene.above(index).map(|(_, node)| node).collect::<Vec<_>>());
    let heads =
        above.unwrap_or_default().into_iter().filter(|node| node.kind == NodeKind::NvmeMultipath);
    heads.chain([disk])
}
