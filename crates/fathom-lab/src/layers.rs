//! `fathom layers`: the same reads on every layer below a target, in blocks of random order: each disk alone, all of them at
//! once, and every layer above. Layers that hold data are opened for reading only; nothing is written but a test file where
//! the target is a directory.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::run::{self, RunOptions};
use crate::target;
use crate::trial::{KeepRecord, Trial, run_trial};
use fathom_base::order::Order;
use fathom_model::array;
use fathom_model::record::{Ending, Record};
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::workload::{Job, Workload};
use fathom_study::layers::{Layer, label};
use std::fs::File;
use std::path::Path;

/// More requests in flight are no question of layers.
const DEPTH_MAX: u32 = 4096;

/// What is asked.
#[derive(Debug, Clone)]
pub struct LayersOptions {
    /// A directory, a file or a block device.
    pub target: String,
    /// Reading workloads of one job each.
    pub workloads: Vec<Workload>,
    /// How often every layer is measured.
    pub blocks: u32,
}

/// A layer and where it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    layer: Layer,
    /// Paths of the devices; of several each has its own job.
    paths: Vec<String>,
}

/// Reads all layers.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed trial ends the list instead.
pub fn layers(
    lab: &mut Lab<'_>,
    options: &LayersOptions,
    keep_record: KeepRecord<'_>,
) -> Result<Vec<Record>, LabError> {
    let path = Path::new(&options.target);
    let is_made =
        options.workloads.iter().flat_map(|w| &w.jobs).all(|job| job.size_bytes.is_some());
    if !is_made && let Err(error) = std::fs::metadata(path) {
        return Err(target::unreachable_target(path, &error));
    }
    let stack = target::resolve(lab, &fathom_inspect::stack::nearest_existing(path))?;
    let options = &sized(options, &stack)?;
    let places = readable(lab, path, places(&stack, &options.target)?)?;
    let disks = places.iter().filter(|place| place.layer.is_alone()).count() as u32;
    let rows: Vec<(String, Workload)> = places
        .iter()
        .flat_map(|place| {
            let of = |workload: &Workload| {
                (label(&place.layer, &workload.name), on(place, workload, disks))
            };
            options.workloads.iter().map(of).collect::<Vec<_>>()
        })
        .collect();
    let joined = joined(options, &rows);
    let mut prepared = run::checked_targets(lab, &joined)?;
    run::say_what_is_asked(lab, &joined, &prepared);
    let block_ns = rows.iter().map(|(_, w)| run::planned_ns(w)).fold(0, u64::saturating_add);
    let whole_ns = block_ns.saturating_mul(u64::from(options.blocks));
    for target in prepared.values_mut() {
        target.fill_up(lab, None, whole_ns)?;
    }
    let count = rows.len() as u32 * options.blocks;
    let mut records: Vec<Record> = Vec::new();
    for block in 1..=options.blocks {
        for at in shuffled(lab, rows.len()) {
            if lab.stop.is_set() || records.last().is_some_and(|r| r.ending != Ending::Complete) {
                break;
            }
            let (label, workload) = &rows[at];
            let done = records.len() as u32;
            let rest = u64::from(count.saturating_sub(done + 1));
            let trial = Trial {
                label: format!("{label} #{block}"),
                workload,
                targets: run::targets_of(&joined, workload, &prepared),
                seed: lab.seeds.next_u64(),
                rest_after_ns: rest.saturating_mul(block_ns / rows.len().max(1) as u64),
                position: (done + 1, count),
            };
            records.push(run_trial(lab, &trial, keep_record)?);
        }
    }
    run::give_back(lab, prepared);
    if records.is_empty() { Err(LabError::Interrupted) } else { Ok(records) }
}

/// Leaves out, and says so, what this process may not read.
fn readable(lab: &mut Lab<'_>, target: &Path, places: Vec<Place>) -> Result<Vec<Place>, LabError> {
    let mut refused = None;
    let mut left = Vec::new();
    for place in places {
        let is_device = !matches!(place.layer, Layer::Files { .. });
        let failure = place.paths.iter().filter(|_| is_device).find_map(|path| {
            let error = File::open(path).err()?;
            Some((path.clone(), error))
        });
        match failure {
            None => left.push(place),
            Some((path, error)) => {
                lab.note(format!(
                    "{}: left out, {path} cannot be read: {error}",
                    place.layer.name()
                ));
                refused = Some((path, error));
            }
        }
    }
    match refused {
        Some((path, error)) if left.iter().all(|p| matches!(p.layer, Layer::Files { .. })) => {
            let reason = format!(
                "no layer below it can be read to compare with ({path}: {error}); run as root where raw devices may be read"
            );
            let path = target.to_owned();
            Err(LabError::Target { path, reason, class: ErrorClass::Missing })
        }
        _ => Ok(left),
    }
}

/// Sizes in units of the array are those of the array below the target, also on its members.
fn sized(options: &LayersOptions, stack: &Stack) -> Result<LayersOptions, LabError> {
    let mut options = options.clone();
    for job in options.workloads.iter_mut().flat_map(|workload| &mut workload.jobs) {
        array::resolve(job, array::ArraySizes::of(stack))?;
    }
    Ok(options)
}

fn shuffled(lab: &mut Lab<'_>, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, lab.seeds.below(last as u64 + 1) as usize);
    }
    order
}

/// All rows as one workload: targets are found, checked and shared by the same rules.
fn joined(options: &LayersOptions, rows: &[(String, Workload)]) -> RunOptions {
    let mut workload =
        rows.first().map_or_else(|| options.workloads[0].clone(), |(_, w)| w.clone());
    workload.jobs = rows.iter().flat_map(|(_, workload)| workload.jobs.clone()).collect();
    RunOptions { workload, target: options.target.clone(), repeats: 1, until_steady: None }
}

/// The workload for one layer. What stands on several disks has as many requests in flight for each of them as a disk alone.
fn on(place: &Place, workload: &Workload, disks: u32) -> Workload {
    let job_of = |path: &String| -> Option<Job> {
        let mut job = workload.jobs.first()?.clone();
        job.target = Some(path.clone());
        if !matches!(place.layer, Layer::Files { .. }) {
            // What is there has its size; that of a test file is another question.
            job.size_bytes = None;
        }
        if !place.layer.is_alone() && place.paths.len() == 1 {
            job.depth = job.depth.saturating_mul(disks.max(1)).min(DEPTH_MAX);
        }
        if place.paths.len() > 1 {
            job.name = path.rsplit('/').next().unwrap_or(path).to_owned();
        }
        Some(job)
    };
    Workload { jobs: place.paths.iter().filter_map(job_of).collect(), ..workload.clone() }
}

/// Below these nothing is a layer of its own: what lies under a loop device is another filesystem with its own life.
fn is_bottom(node: &Node) -> bool {
    matches!(
        node.kind,
        NodeKind::Partition
            | NodeKind::Disk
            | NodeKind::NvmeMultipath
            | NodeKind::Loop
            | NodeKind::Zram
            | NodeKind::Ram
    )
}

/// The layers from the disks upward.
fn places(stack: &Stack, target: &str) -> Result<Vec<Place>, LabError> {
    let mut bottoms: Vec<usize> = Vec::new();
    let mut middles: Vec<(usize, usize)> = Vec::new();
    height(stack, stack.top, &mut bottoms, &mut middles);
    let path_of = |at: usize| {
        let node = &stack.nodes[at];
        node.path.clone().unwrap_or_else(|| format!("/dev/{}", node.name))
    };
    if bottoms.is_empty() {
        return Err(LabError::Target {
            path: target.into(),
            reason: "there is no disk below it that could be read by itself".to_owned(),
            class: ErrorClass::Missing,
        });
    }
    let alone = |at: &usize| Place {
        layer: Layer::Alone { name: stack.nodes[*at].name.clone() },
        paths: vec![path_of(*at)],
    };
    let mut places: Vec<Place> = bottoms.iter().map(alone).collect();
    if bottoms.len() > 1 {
        places.push(Place {
            layer: Layer::Together { count: bottoms.len() as u32 },
            paths: bottoms.iter().map(|at| path_of(*at)).collect(),
        });
    }
    middles.order();
    for (_, at) in middles {
        let node = &stack.nodes[at];
        let name = node.dm.as_ref().and_then(|dm| dm.name.clone());
        let name = name.unwrap_or_else(|| node.name.clone());
        places.push(Place { layer: Layer::Device { name }, paths: vec![path_of(at)] });
    }
    let is_device = stack.nodes.get(stack.top).is_some_and(|node| node.devno.is_some());
    if !is_device {
        let name = target.to_owned();
        places.push(Place { layer: Layer::Files { name }, paths: vec![target.to_owned()] });
    }
    Ok(places)
}

/// How high a node stands above the disks; collects these, and the block devices between with their heights.
fn height(
    stack: &Stack,
    at: usize,
    bottoms: &mut Vec<usize>,
    middles: &mut Vec<(usize, usize)>,
) -> usize {
    let Some(node) = stack.nodes.get(at) else { return 0 };
    if is_bottom(node) {
        if !bottoms.contains(&at) {
            bottoms.push(at);
        }
        return 0;
    }
    let below = node.below.iter().map(|below| height(stack, *below, bottoms, middles));
    let own = 1 + below.max().unwrap_or(0);
    let is_known = middles.iter().any(|(_, known)| *known == at);
    if node.devno.is_some() && !is_known {
        middles.push((own, at));
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    /// /srv on ext4 on a volume on an array of two partitions, one disk each.
    fn stack() -> Stack {
        let node = |kind, name: &str, below: &[usize]| {
            let mut node = Node::new(kind, name);
            let is_block = !matches!(kind, NodeKind::Mount | NodeKind::FileSystem);
            node.devno = is_block.then(|| "9:0".to_owned());
            node.path = is_block.then(|| format!("/dev/{name}"));
            node.below = below.to_vec();
            node
        };
        Stack {
            path: "/srv".into(),
            resolved_path: "/srv".into(),
            nodes: vec![
                node(NodeKind::Mount, "/srv", &[1]),
                node(NodeKind::FileSystem, "ext4", &[2]),
                node(NodeKind::Dm, "dm-0", &[3]),
                node(NodeKind::Md, "md0", &[4, 5]),
                node(NodeKind::Partition, "sda1", &[6]),
                node(NodeKind::Partition, "sdb1", &[7]),
                node(NodeKind::Disk, "sda", &[]),
                node(NodeKind::Disk, "sdb", &[]),
            ],
            top: 0,
        }
    }

    #[test]
    fn from_the_disks_upward() {
        let places = places(&stack(), "/srv").expect("layers");
        let names: Vec<String> = places.iter().map(|place| place.layer.name()).collect();
        assert_eq!(names, ["sda1 alone", "sdb1 alone", "all 2 at once", "md0", "dm-0", "/srv"]);
        assert_eq!(places[2].paths, ["/dev/sda1", "/dev/sdb1"]);
        let mut device = stack();
        device.top = 3;
        assert_eq!(super::places(&device, "/dev/md0").expect("layers").len(), 4);
        let single = Stack { nodes: vec![Node::new(NodeKind::Memory, "tmpfs")], top: 0, ..stack() };
        assert!(super::places(&single, "/tmp").is_err());
    }

    #[test]
    fn requests_in_flight_follow_the_disks() {
        let workload = fathom_model::builtin::named("randread").expect("built in");
        let depths: Vec<Vec<u32>> = places(&stack(), "/srv")
            .expect("layers")
            .iter()
            .map(|place| on(place, &workload, 2).jobs.iter().map(|job| job.depth).collect())
            .collect();
        assert_eq!(depths, [vec![32], vec![32], vec![32, 32], vec![64], vec![64], vec![64]]);
    }
}
