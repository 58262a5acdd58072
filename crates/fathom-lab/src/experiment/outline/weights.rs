//! Weights of control groups: whether the kernel has them, and whether they will do anything, under the schedulers that a cell sets.

use super::Survey;
use crate::control_group;
use crate::experiment::loads::{Load, LoadKind};
use fathom_knobs::SCHEDULER;
use fathom_model::plan::cell::Cell;
use fathom_model::stack::Stack;
use fathom_sys::cgroup_io;
use fathom_sys::sysfs_block::BlockDir;

const BFQ: &str = "bfq";

impl Survey<'_> {
    /// What a weight needs is known before anything is set or made.
    pub(super) fn look_at_weights(&mut self, cell: &Cell, loads: &[Load], stacks: &[Stack]) {
        let root = self.ground.root;
        for load in loads {
            let LoadKind::Io(workload) = &load.kind else { continue };
            let jobs = &workload.jobs;
            if jobs.iter().all(|job| job.cgroup_weight.is_none()) {
                continue;
            }
            // Of what is still to be built nothing is known.
            let stacks = if cell.setup.is_empty() { stacks } else { &[] };
            let shared = shared_by_bfq(cell, stacks);
            let with_bfq: Vec<bool> = shared.iter().map(|(_, has_bfq)| *has_bfq).collect();
            if let Err(error) = control_group::check_weights(root, jobs, &with_bfq) {
                self.refuse(error);
                continue;
            }
            let has_cost = |disk: &str| {
                let devno = BlockDir::by_name(root, disk).and_then(|disk| disk.devno());
                devno.and_then(|devno| cgroup_io::is_cost_enabled(root, devno)) != Some(false)
            };
            for (disk, _) in shared.iter().filter(|(disk, has_bfq)| !has_bfq && !has_cost(disk)) {
                let note = control_group::no_weights(disk).summary;
                if !self.outline.notes.contains(&note) {
                    self.outline.notes.push(note);
                }
            }
        }
    }
}

/// The devices that a group limits, and whether each will have the scheduler bfq in that cell; empty where a cell sets it in some places only.
fn shared_by_bfq(cell: &Cell, stacks: &[Stack]) -> Vec<(String, bool)> {
    let is_scheduler = |key: &&String| key.split('@').next() == Some(SCHEDULER);
    let set: Vec<&String> = cell.knobs.keys().filter(is_scheduler).collect();
    if set.iter().any(|key| key.contains('@')) {
        return Vec::new();
    }
    let asked = set.first().and_then(|key| cell.knobs.get(*key));
    let mut found: Vec<(String, bool)> = Vec::new();
    for stack in stacks {
        for node in stack.top_block_devices() {
            let Some(queue) = stack.queue_of(node) else { continue };
            // What has no schedulers does not get one.
            let now = queue.scheduler.as_ref();
            let scheduler = if queue.schedulers.len() > 1 { asked.or(now) } else { now };
            let has_bfq = scheduler.is_some_and(|scheduler| scheduler == BFQ);
            if found.iter().all(|(name, _)| *name != node.name) {
                found.push((node.name.clone(), has_bfq));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::{Node, NodeKind, QueueFacts};

    fn cell(knobs: &[(&str, &str)]) -> Cell {
        let knobs: std::collections::BTreeMap<_, _> = knobs.iter().copied().collect();
        let cell = serde_json::json!({
            "index": 0, "levels": [], "knobs": knobs, "workloads": [], "boot": {},
            "setup": fathom_model::plan::setup::SetupSpec::default(),
        });
        serde_json::from_value(cell).expect("a cell")
    }

    #[test]
    fn the_scheduler_is_that_of_the_cell() {
        let disk = |name: &str, all: &[&str], now: &str| {
            let mut node = Node::new(NodeKind::Disk, name.to_owned());
            node.devno = Some("8:0".to_owned());
            node.queue = Some(QueueFacts {
                scheduler: Some(now.to_owned()),
                schedulers: all.iter().map(|one| (*one).to_owned()).collect(),
                ..QueueFacts::default()
            });
            Stack { path: "/t".into(), resolved_path: "/t".into(), nodes: vec![node], top: 0 }
        };
        let stacks = [
            disk("sda", &["none", "bfq"], "none"),
            disk("sdb", &["none", "bfq"], "bfq"),
            disk("md0", &["none"], "none"),
        ];
        let of = |knobs: &[(&str, &str)]| {
            let found = shared_by_bfq(&cell(knobs), &stacks);
            found.into_iter().map(|(_, has_bfq)| has_bfq).collect::<Vec<bool>>()
        };
        assert_eq!(of(&[("block.nr_requests", "64")]), [false, true, false]);
        assert_eq!(of(&[("block.scheduler", "bfq")]), [true, true, false]);
        assert_eq!(of(&[("block.scheduler", "none")]), [false, false, false]);
        assert!(of(&[("block.scheduler@sda", "bfq")]).is_empty());
    }
}
