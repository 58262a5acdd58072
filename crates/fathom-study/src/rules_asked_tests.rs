//! Rules about what a job asks for and does not get: places, content, data below a loop device. The conditions are injected.

use super::tests::{check, raised};
use super::*;
use crate::fixtures::record;
use fathom_model::capture::{CaptureClass, CapturePlaces, CaptureRecord};
use fathom_model::payload::DeliveredRecord;
use fathom_model::stack::{LoopFacts, ZramFacts};
use fathom_model::workload::Extent;

#[test]
fn all_requests_in_one_place() {
    let of = |align_bytes: Option<u64>, span_bytes: Option<u64>| {
        raised(|r| {
            let job = &mut r.workload.jobs[0];
            (job.align_bytes, job.span) = (align_bytes, span_bytes.map(Extent::Bytes));
        })
    };
    let size_bytes = record().targets[0].size_bytes;
    let is_said = |found: &[(String, Severity)]| {
        found.contains(&("one-place".to_owned(), Severity::Doubtful))
    };
    assert!(is_said(&of(Some(2 * size_bytes), None)) && is_said(&of(Some(size_bytes), None)));
    assert!(is_said(&of(None, Some(4096))));
    assert!(!is_said(&of(Some(size_bytes / 2), None)) && !is_said(&of(None, Some(8192))));
}

#[test]
fn reads_of_a_loop_device_with_holes() {
    let holes = |has: u64, size: u64| {
        move |r: &mut Record| {
            r.targets[0].kind = TargetKind::BlockDevice;
            let stack = &mut r.targets[0].stack;
            let node = stack.nodes.iter_mut().position(|node| node.devno.is_some()).expect("one");
            stack.top = node;
            stack.nodes[node].loop_device = Some(LoopFacts {
                backing_allocated_bytes: Some(has),
                backing_size_bytes: Some(size),
                direct_io: Some(true),
                ..LoopFacts::default()
            });
        }
    };
    check("unwritten-extents", Severity::Doubtful, holes(0, 1 << 30));
    assert_eq!(raised(holes(1 << 30, 1 << 30)), []);
    assert_eq!(raised(|r| (holes(0, 1 << 30)(r), r.workload.jobs[0].write_fraction = 0.1).1), []);
}

/// What a zram has is held against what was read, by jobs and by replays.
#[test]
fn reads_of_a_zram_that_was_not_written() {
    let stored = |has: u64| {
        move |r: &mut Record| {
            r.targets[0].kind = TargetKind::BlockDevice;
            let stack = &mut r.targets[0].stack;
            let node = stack.nodes.iter_mut().position(|node| node.devno.is_some()).expect("one");
            stack.top = node;
            stack.nodes[node].zram =
                Some(ZramFacts { stored_bytes: Some(has), ..ZramFacts::default() });
        }
    };
    let size_bytes = record().targets[0].size_bytes;
    check("unwritten-extents", Severity::Doubtful, stored(0));
    check("unwritten-extents", Severity::Doubtful, stored(size_bytes / 2));
    assert_eq!(raised(stored(size_bytes)), []);
    assert_eq!(raised(|r| (stored(0)(r), r.workload.jobs[0].write_fraction = 0.1).1), []);
    let replayed = |has: u64| {
        let mut r = record();
        stored(has)(&mut r);
        r.jobs.clear();
        r.workload.jobs.clear();
        let class = CaptureClass {
            class: "read".into(),
            count: 500,
            bytes: 500 << 12,
            ..Default::default()
        };
        let places = CapturePlaces { part_bytes: 1 << 20, touched_parts: 20, ..Default::default() };
        let source = fathom_model::capture::REPLAY.to_owned();
        let capture = CaptureRecord { source, classes: vec![class], places, ..Default::default() };
        r.capture = Some(Box::new(capture));
        crate::delivered::device_of_holes(&r).is_some()
    };
    assert!(replayed(0) && !replayed(500 << 12));
}

#[test]
fn shares_of_content_that_were_missed() {
    let delivered = |duplicate: f64| {
        move |r: &mut Record| {
            r.workload.jobs[0].duplicate = 0.3;
            let shares =
                DeliveredRecord { compressible: 0.0, duplicate, units: 64, unit_bytes: 1 << 20 };
            r.jobs[0].delivered = Some(shares);
        }
    };
    check("content-shares-missed", Severity::Doubtful, delivered(0.219));
    check("content-shares-missed", Severity::Doubtful, delivered(0.321));
    assert_eq!(raised(delivered(0.281)), []);
    // What nobody asked for may be anything.
    assert_eq!(raised(|r| (delivered(0.0)(r), r.workload.jobs[0].duplicate = 0.0).1), []);
}
