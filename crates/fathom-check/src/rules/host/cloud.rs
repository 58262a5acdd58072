//! Volumes of clouds that are faster for a while than they stay.

use crate::scene::Scene;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::NodeKind;

/// What the volume's model says of it: the service, and how its speed changes.
fn burst(model: &str) -> Option<(&'static str, &'static str)> {
    let model = model.to_lowercase();
    if model.contains("amazon elastic block store") {
        Some((
            "EBS volume",
            "volumes of type gp2, st1 and sc1 spend credit above their base rate, and smaller instances do so for all volumes together",
        ))
    } else if model.contains("nvme accelerator") || model == "virtual disk" {
        Some((
            "managed disk",
            "smaller disks and machines may run above their base rate on credit, and the host's cache answers reads until it is full",
        ))
    } else {
        None
    }
}

/// Network volumes with credit or a cache on the host.
pub(super) fn volumes(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(cloud) = scene.snapshot.system.cloud.as_deref() else { return Vec::new() };
    // Where a run has seen the fall, that is told instead (rate-cliff).
    let mut runs = scene.snapshot.measured.iter().filter(|run| run.verdict != "void");
    let has_fallen = runs.any(|run| run.findings.iter().any(|finding| finding == "not-steady"));
    if !["Amazon EC2", "Microsoft Azure"].contains(&cloud) || has_fallen {
        return Vec::new();
    }
    let disks = scene.nodes(&[NodeKind::Disk]);
    let volumes: Vec<_> = disks
        .filter_map(|(_, node)| {
            let model = node.drive.as_ref()?.model.as_deref()?;
            Some((node, model, burst(model)?))
        })
        .collect();
    let Some((first, _, (what, how))) = volumes.first() else { return Vec::new() };
    let names: Vec<&str> = volumes.iter().map(|(node, ..)| node.label()).collect();
    let summary = format!(
        "{} ({what}, {cloud}): what it does now need not be what it sustains",
        names.join(", ")
    );
    let mut defect = Defect::new("cloud-volume", Gravity::Low, Some(&first.key()), summary)
        .sure(Certainty::Possible);
    for (node, model, _) in &volumes {
        defect = defect.seen(format!("/sys/block/{}/device/model", node.name), *model);
    }
    for (node, ..) in volumes.iter().skip(1) {
        defect = defect.also_on(node.key());
    }
    let defect = defect
        .because(format!("{how}: a short test shows the burst, a day of work the rest"))
        .advise("look the volume's type, its base rate and its credit up in the provider's console; take a type with a fixed rate where answers matter")
        .advise("measure for longer than the credit lasts, and wait as long between runs")
        .risking("none to look; other volume types cost more")
        .verified_by("fathom run randread PATH duration=1h: the finding not-steady names the moment at which the rate falls");
    vec![defect]
}
