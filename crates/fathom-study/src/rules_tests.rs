//! Every rule is provoked by damaging a healthy record, and says nothing about the healthy one. The conditions here
//! are injected; the kernel tests provoke the real ones where a machine can give them.

use super::*;
use crate::fixtures::record;
use fathom_model::record::{CensoredOp, IoFailure};
use fathom_model::stack::LoopFacts;
use fathom_model::workload::SyncCall;

/// The ids and severities that a damaged record raises beyond the healthy one's.
fn raised(damage: impl FnOnce(&mut Record)) -> Vec<(String, Severity)> {
    let mut record = record();
    damage(&mut record);
    all(&record).into_iter().map(|f| (f.id, f.severity)).collect()
}

#[track_caller]
fn check(expected: &str, severity: Severity, damage: impl FnOnce(&mut Record)) {
    assert_eq!(raised(damage), [(expected.to_owned(), severity)]);
}

#[test]
fn the_healthy_record_raises_nothing() {
    assert_eq!(raised(|_| ()), []);
}

#[test]
fn ends_that_were_not_planned() {
    check("io-failure", Severity::Void, |r| {
        r.failure = Some(IoFailure {
            job: "read".into(),
            operation: "read".into(),
            offset_bytes: 0,
            size_bytes: 4096,
            errno: 5,
            message: "read of 4096 bytes".into(),
        });
    });
    check("interrupted", Severity::Doubtful, |r| r.ending = Ending::Interrupted);
    check("suspended", Severity::Void, |r| r.suspended_ns = 2_000_000_000);
}

#[test]
fn counts() {
    let few = |n: u64| {
        move |r: &mut Record| {
            let mut h = fathom_stats::Histogram::new();
            (0..n).for_each(|_| h.record(1));
            let class = &mut r.jobs[0].classes[0];
            (class.latency_ns, class.bytes) = (h, n * 4096);
            r.devices[0].read_bytes = n * 4096;
        }
    };
    check("nothing-measured", Severity::Void, few(0));
    check("too-few", Severity::Doubtful, few(29));
    assert_eq!(raised(few(30)), []);
}

#[test]
fn files_with_holes_are_void_whoever_made_them_and_wherever_they_stand() {
    let make = |kind| {
        move |r: &mut Record| {
            r.targets[0].kind = kind;
            if let Some(e) = &mut r.targets[0].extents {
                e.unwritten_bytes = 1 << 30;
            }
        }
    };
    check("unwritten-extents", Severity::Void, make(TargetKind::ForeignFile));
    check("unwritten-extents", Severity::Void, make(TargetKind::OwnFile));
    let second = raised(|r| {
        let mut sparse = r.targets[0].clone();
        if let Some(e) = &mut sparse.extents {
            e.hole_bytes = 1 << 30;
        }
        r.targets.push(sparse);
    });
    assert!(second.contains(&("unwritten-extents".to_owned(), Severity::Void)));
}

#[test]
fn memory_is_not_storage() {
    check("memory-target", Severity::Doubtful, |r| {
        r.targets[0].stack.nodes[1].kind = NodeKind::Memory
    });
}

#[test]
fn busy_generators() {
    check("generator-bound", Severity::Doubtful, |r| {
        r.jobs[0].busiest_thread_cpu_ns = 55_000_000_000
    });
    assert_eq!(raised(|r| r.jobs[0].busiest_thread_cpu_ns = 53_000_000_000), []);
    let null = raised(|r| {
        r.jobs[0].busiest_thread_cpu_ns = 60_000_000_000;
        r.jobs[0].engine.kind = EngineKind::Null;
    });
    assert_eq!(null, [], "the null engine is meant to be bound by itself");
}

fn as_writes(r: &mut Record) {
    r.jobs[0].classes[0].class = OpClass::Write;
    r.workload.jobs[0].write_fraction = 1.0;
    r.devices[0].read_bytes = 0;
    r.devices[0].written_bytes = 60_000 * 4096;
}

#[test]
fn buffered_direct_writes_name_the_layer() {
    check("direct-is-buffered", Severity::Doubtful, |r| {
        as_writes(r);
        r.targets[0].direct_honoured = Some(false);
    });
    let others_dirty = raised(|r| {
        as_writes(r);
        r.page_cache.dirtied_bytes = 60_000 * 4096;
    });
    assert_eq!(others_dirty, [], "pages that others dirty say nothing about ours");
    let mut looped = record();
    as_writes(&mut looped);
    looped.page_cache.dirtied_bytes = 60_000 * 4096;
    looped.targets[0].stack.nodes[2].loop_device =
        Some(LoopFacts { direct_io: Some(false), ..LoopFacts::default() });
    let advice = all(&looped).remove(0).advice.join(" ");
    assert!(advice.contains("losetup --direct-io=on"), "{advice}");
    assert_eq!(raised(as_writes), []);
}

#[test]
fn reads_that_no_device_saw() {
    check("reads-not-from-device", Severity::Doubtful, |r| r.devices[0].read_bytes = 1 << 20);
    let buffered = |r: &mut Record| {
        r.targets[0].direct = false;
        r.targets[0].size_bytes = 64 << 30;
        r.devices[0].read_bytes /= 2;
    };
    check("reads-from-page-cache", Severity::Doubtful, buffered);
}

#[test]
fn samples_smaller_than_twice_the_caches() {
    check("sample-too-small", Severity::Doubtful, |r| r.targets[0].size_bytes = 500 << 20);
    assert_eq!(raised(|r| r.targets[0].size_bytes = 512 << 20), []);
    check("sample-too-small", Severity::Doubtful, |r| {
        r.workload.jobs[0].span = Some(fathom_model::workload::Extent::Bytes(1 << 20));
    });
    // Buffered reads have the memory to defeat as well.
    check("sample-too-small", Severity::Doubtful, |r| r.targets[0].direct = false);
    let synced = |r: &mut Record| {
        as_writes(r);
        r.targets[0].direct = false;
        r.workload.jobs[0].sync_at_end = Some(SyncCall::Fdatasync);
    };
    assert_eq!(raised(synced), [], "a final sync empties the memory into the device");
}

#[test]
fn others_on_the_device() {
    check("other-io", Severity::Doubtful, |r| r.devices[0].read_bytes *= 2);
    check("other-io", Severity::Doubtful, |r| r.devices[0].written_bytes = 6 << 30);
    assert_eq!(
        raised(|r| r.devices[0].written_bytes = 20 << 20),
        [],
        "less than a tenth is background"
    );
}

#[test]
fn the_machine_around() {
    check("stolen-time", Severity::Note, |r| r.system_cpu.steal_share = 0.05);
    check("stolen-time", Severity::Doubtful, |r| r.system_cpu.steal_share = 0.2);
    check("engine-fallback", Severity::Note, |r| {
        r.jobs[0].engine.fallback = Some("forbidden".into())
    });
}

#[test]
fn notes_about_the_run() {
    check("stalled", Severity::Note, |r| {
        r.jobs[0].censored = vec![CensoredOp {
            class: OpClass::Read,
            age_ns: 19_600_000_000,
            offset_bytes: 0,
            size_bytes: 4096,
        }];
    });
    check("log-full", Severity::Note, |r| {
        as_writes(r);
        r.workload.jobs[0].access = Access::Append;
        r.jobs[0].window_ns = 3_000_000_000;
    });
    check("zero-content", Severity::Note, |r| {
        as_writes(r);
        r.workload.jobs[0].content = Content::Zero;
    });
    check("small-span", Severity::Note, |r| {
        if let Some(e) = &mut r.targets[0].extents {
            e.share_of_device = Some(0.003);
        }
    });
    check("small-span", Severity::Note, |r| {
        if let Some(e) = &mut r.targets[0].extents {
            e.physical_is_logical = true;
        }
    });
    check("batched", Severity::Note, |r| r.jobs[0].engine.batch = 8);
}

#[test]
fn short_rows_are_said_once() {
    let short = |window_ns| Record { window_ns, ..record() };
    assert_eq!(short_windows(&[record()]), None);
    let all_short = short_windows(&[short(4_000_000_000), short(4_000_000_000)]).map(|f| f.summary);
    assert_eq!(all_short.as_deref(), Some("rows measured for less than a minute are indicative"));
    let one = short_windows(&[short(4_000_000_000), record()]).map(|f| f.summary);
    assert!(one.is_some_and(|t| t.starts_with("1 of 2 rows")));
}
