//! Every rule is provoked by damaging a healthy record, and says nothing about the healthy one. The conditions here
//! are injected; the kernel tests provoke the real ones where a machine can give them.

use super::*;
use crate::figures::Figures;
use crate::fixtures::{reads, record};
use fathom_model::capture::{CaptureClass, CaptureRecord};
use fathom_model::record::{CensoredOp, IoFailure, JobRecord};
use fathom_model::stack::{DmFacts, FsFacts, LoopFacts};
use fathom_model::workload::{Extent, SyncCall, WeightedSize};
use fathom_stats::Histogram;

/// The ids and severities that a damaged record raises beyond the healthy one's.
pub(super) fn raised(damage: impl FnOnce(&mut Record)) -> Vec<(String, Severity)> {
    let mut record = record();
    damage(&mut record);
    all(&record).into_iter().map(|f| (f.id, f.severity)).collect()
}

#[track_caller]
pub(super) fn check(expected: &str, severity: Severity, damage: impl FnOnce(&mut Record)) {
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
    check("held-up", Severity::Doubtful, |r| r.held_up_ns = 1_500_000_000);
    check("held-up", Severity::Void, |r| r.held_up_ns = 7_000_000_000);
    assert_eq!(raised(|r| r.held_up_ns = 400_000_000), []);
    check("suspended", Severity::Void, |r| {
        (r.suspended_ns, r.held_up_ns) = (2_000_000_000, 2_100_000_000);
    });
}

/// What makes a trial of an experiment void is what makes its record so.
#[test]
fn time_that_was_lost() {
    let lost = |damage: fn(&mut Record)| {
        let mut record = record();
        damage(&mut record);
        lost_time(&record)
    };
    assert_eq!(lost(|_| ()), None);
    assert_eq!(lost(|r| r.held_up_ns = 1_500_000_000), None, "less than a tenth of the window");
    assert_eq!(lost(|r| (r.window_ns, r.held_up_ns) = (1_000_000_000, 400_000_000)), None);
    assert!(lost(|r| r.held_up_ns = 7_000_000_000).is_some_and(|text| text.contains("stopped")));
    assert!(lost(|r| r.suspended_ns = 200_000_000).is_some_and(|text| text.contains("suspended")));
}

#[test]
fn counts() {
    let few = |n: u64| move |r: &mut Record| reads(r, n, 1);
    check("nothing-measured", Severity::Void, few(0));
    check("too-few", Severity::Doubtful, few(29));
    assert_eq!(raised(few(30)), [("tail-of-few".to_owned(), Severity::Note)]);
    // Trims and zero ranges move nothing, and are what was asked for.
    for class in [OpClass::Trim, OpClass::Zero] {
        assert_eq!(raised(|r| (few(10_000)(r), r.jobs[0].classes[0].class = class).1), []);
    }
    let (text, cure) = said("too-few", few(1));
    assert_eq!(text, "only 1 request ended inside the window");
    assert_eq!(cure, ["use a longer duration= or a smaller block_size="]);
    // The first request of each place waits for no think time.
    let thinks = |times: u64, warmup: u64| {
        move |r: &mut Record| {
            let think_ns = r.jobs[0].window_ns / times;
            (r.workload.jobs[0].think_time_ns, r.workload.jobs[0].warmup_ns) =
                (think_ns, think_ns * warmup);
        }
    };
    check("too-few", Severity::Doubtful, thinks(9, 0));
    assert_eq!(raised(thinks(10, 0)), []);
    assert_eq!(raised(thinks(2, 1)), []);
    let by_count = |r: &mut Record| {
        few(29)(r);
        (r.workload.jobs[0].operations, r.workload.jobs[0].duration_ns) = (Some(29), None);
    };
    assert_eq!(said("too-few", by_count).1, ["use more operations= or a smaller block_size="]);
    let by_amount = |r: &mut Record| {
        few(29)(r);
        (r.workload.jobs[0].amount_bytes, r.jobs[0].window_ns) = (Some(29 * 4096), 1_000_000);
    };
    assert_eq!(said("too-few", by_amount).1, ["use more amount= or a smaller block_size="]);
}

#[test]
fn places_that_the_job_itself_trimmed_are_a_note() {
    let trimmed = |absent_bytes: u64, given_back_bytes: u64, kind| {
        move |r: &mut Record| {
            let mut trims = r.jobs[0].classes[0].clone();
            (trims.class, trims.bytes) = (OpClass::Trim, given_back_bytes);
            r.jobs[0].engine.depth = 10;
            r.jobs[0].classes.push(trims);
            r.targets[0].kind = kind;
            if let Some(e) = &mut r.targets[0].extents {
                e.hole_bytes = absent_bytes;
            }
        }
    };
    let own = TargetKind::OwnFile;
    check("reads-of-trimmed", Severity::Note, trimmed(2 << 30, 2 << 30, own));
    let (text, _) = said("reads-of-trimmed", trimmed(2 << 30, 3 << 30, own));
    assert!(text.contains(": 25 % of it had been trimmed or zeroed"), "{text}");
    // What lay there before the window is not its doing.
    check("reads-of-trimmed", Severity::Doubtful, trimmed(3 << 30, 1 << 30, own));
    check("unwritten-extents", Severity::Void, trimmed(1 << 30, 0, own));
    check("unwritten-extents", Severity::Void, trimmed(1 << 30, 2 << 30, TargetKind::ForeignFile));
}

#[test]
fn the_null_engine_on_a_real_path_measures_nothing_of_it() {
    let null = |target: Option<&'static str>| {
        move |r: &mut Record| {
            r.jobs[0].engine.kind = EngineKind::Null;
            r.workload.jobs[0].target = target.map(str::to_owned);
        }
    };
    check("null-engine", Severity::Void, null(Some("/dev/sda")));
    check("null-engine", Severity::Doubtful, |r| {
        let (real, job) = (r.jobs[0].clone(), r.workload.jobs[0].clone());
        null(Some("/dev/sda"))(r);
        r.jobs.push(fathom_model::record::JobRecord { classes: Vec::new(), ..real });
        r.workload.jobs.push(job);
    });
    assert_eq!(raised(null(Some("null:"))), []);
    assert_eq!(raised(null(None)), []);
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
    // Where only blocks are counted, what is missing may be compressed.
    check("unwritten-extents", Severity::Doubtful, |r| {
        make(TargetKind::ForeignFile)(r);
        if let Some(extents) = &mut r.targets[0].extents {
            extents.source = ExtentSource::StatBlocks;
        }
    });
    let second = raised(|r| {
        let mut sparse = r.targets[0].clone();
        if let Some(e) = &mut sparse.extents {
            e.hole_bytes = 1 << 30;
        }
        r.targets.push(sparse);
    });
    assert!(second.contains(&("unwritten-extents".to_owned(), Severity::Void)));
    // Beside a job that reads, another has a file of its own, which it only writes.
    let writers = raised(|r| {
        let mut written = r.targets[0].clone();
        written.is_never_read = true;
        if let Some(e) = &mut written.extents {
            e.hole_bytes = 1 << 30;
        }
        r.targets.push(written);
    });
    assert!(!writers.iter().any(|(id, _)| id == "unwritten-extents"), "{writers:?}");
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
    // As kernels with large folios count it.
    looped.page_cache.dirtied_bytes *= 100;
    let found = all(&looped).remove(0);
    assert!(found.advice.join(" ").contains("losetup --direct-io=on"), "{found:?}");
    assert!(!found.summary.contains("GiB"), "{found:?}");
    assert_eq!(raised(as_writes), []);
}

/// A usual trace is short: 3000 reads of 4 KiB that the page cache answered are none of the device.
#[test]
fn few_replayed_reads_that_no_device_saw() {
    let is_told = |count: u64, delivered: u64| {
        let mut r = record();
        r.jobs.clear();
        r.workload.jobs.clear();
        let class = CaptureClass { count, bytes: 4096 * count, ..CaptureClass::default() };
        let class = CaptureClass { class: "read".to_owned(), ..class };
        let source = fathom_model::capture::REPLAY.to_owned();
        r.capture =
            Some(Box::new(CaptureRecord { source, classes: vec![class], ..Default::default() }));
        r.devices.iter_mut().for_each(|device| device.read_bytes = 4096 * delivered);
        crate::delivered::reads_not_from_device(&r).is_some()
    };
    assert!(is_told(3000, 0) && is_told(3000, 2600) && !is_told(3000, 2900));
    assert!(!is_told(200, 0), "too few to say");
}

#[test]
fn reads_that_no_device_saw() {
    check("reads-not-from-device", Severity::Doubtful, |r| r.devices[0].read_bytes = 1 << 20);
    // The device did nine tenths of it, less what may have been in flight at the borders.
    let missing = |share: f64| {
        move |r: &mut Record| r.devices[0].read_bytes = (60_000.0 * 4096.0 * share) as u64
    };
    assert_eq!(raised(missing(0.92)), []);
    check("reads-not-from-device", Severity::Doubtful, missing(0.6));
    // Of what a layer shrinks it need not be more than a half, and neither of what the job itself gives back.
    let shrunk = |r: &mut Record| {
        missing(0.6)(r);
        r.targets[0].stack.nodes[2].dm =
            Some(DmFacts { targets: vec!["vdo".into()], ..DmFacts::default() });
    };
    assert_eq!(raised(shrunk), []);
    let buffered = |r: &mut Record| {
        r.targets[0].direct = false;
        r.workload.jobs[0].direct = false;
        r.targets[0].size_bytes = 64 << 30;
        r.devices[0].read_bytes /= 2;
    };
    check("reads-from-page-cache", Severity::Doubtful, buffered);
    // Who keeps the cache asks for what it holds.
    let on_purpose = |r: &mut Record| {
        buffered(r);
        r.workload.jobs.iter_mut().for_each(|job| job.drop_cache = false);
    };
    assert_eq!(raised(on_purpose), []);
}

#[test]
fn writes_that_the_device_did_not_take() {
    let taken = |share: f64| {
        move |r: &mut Record| {
            as_writes(r);
            r.workload.jobs[0].direct = false;
            r.targets[0].direct = false;
            r.targets[0].size_bytes = 64 << 30;
            r.devices[0].written_bytes = (r.devices[0].written_bytes as f64 * share) as u64;
        }
    };
    check("writes-to-page-cache", Severity::Doubtful, taken(0.02));
    assert_eq!(raised(taken(0.95)), []);
    // Random blocks with repetition, and a last sync in the time: the device takes each once.
    let synced = |share: f64| {
        let raised = raised(move |r: &mut Record| {
            taken(share)(r);
            r.workload.jobs[0].sync_at_end = Some(SyncCall::Fsync);
        });
        raised.iter().any(|(id, _)| id == "writes-to-page-cache")
    };
    assert_eq!((synced(0.83), synced(0.3)), (false, true));
    let on_purpose = |r: &mut Record| {
        taken(0.02)(r);
        r.workload.jobs[0].drop_cache = false;
    };
    assert_eq!(raised(on_purpose), []);
    // Direct writes that are taken together on the way are another matter.
    let direct = |r: &mut Record| {
        taken(0.02)(r);
        r.workload.jobs[0].direct = true;
    };
    assert!(!raised(direct).iter().any(|(id, _)| id == "writes-to-page-cache"));
}

/// A second job on a disk of its own beside the first; `direct` says of each whether it is, `read` what its disk delivered of what it
/// read.
fn two_disks(direct: [bool; 2], read: [f64; 2]) -> impl Fn(&mut Record) {
    move |r: &mut Record| {
        let bytes = r.jobs[0].classes[0].bytes;
        r.workload.jobs.push(Job { name: "other".into(), ..r.workload.jobs[0].clone() });
        r.jobs.push(JobRecord { name: "other".into(), ..r.jobs[0].clone() });
        let mut other = r.targets[0].clone();
        other.path = "/mnt/.fathom-y/data".into();
        other.stack.nodes[2].name = "sdb".into();
        r.targets.push(other);
        r.devices.push(DeviceDelta { name: "sdb".into(), ..r.devices[0].clone() });
        for at in 0..2 {
            r.workload.jobs[at].target = Some(["/srv", "/mnt"][at].into());
            r.workload.jobs[at].direct = direct[at];
            (r.targets[at].direct, r.targets[at].size_bytes) = (direct[at], 64 << 30);
            r.devices[at].read_bytes = (bytes as f64 * read[at]) as u64;
        }
    }
}

#[test]
fn several_targets_are_judged_together() {
    let told = |direct, read| {
        let mut found = raised(two_disks(direct, read));
        found.retain(|(id, _)| id.starts_with("reads-"));
        found.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    for direct in [[false, false], [true, false], [false, true], [true, true]] {
        assert_eq!(told(direct, [1.0, 1.0]), [""; 0], "{direct:?}");
    }
    let text = |direct, read| said("reads-from-page-cache", two_disks(direct, read)).0;
    assert!(text([false, false], [1.0, 0.0]).starts_with("50 % of what was read came from"));
    assert!(text([true, false], [1.0, 0.0]).starts_with("100 % of what was read came from"));
    assert_eq!(told([true, true], [0.0, 0.0]), ["reads-not-from-device"]);
    assert_eq!(told([true, true], [1.0, 0.0]), ["reads-not-from-device"]);
    // On one disk it is counted once.
    let same_disk = |r: &mut Record| {
        two_disks([true, true], [1.0, 0.0])(r);
        r.targets[1].stack.nodes[2].name = "sda".into();
    };
    assert_eq!(said("reads-not-from-device", same_disk).0.matches("sda").count(), 1);
    let writes = |taken: [f64; 2]| {
        let mut found = raised(|r| {
            two_disks([false, false], [0.0, 0.0])(r);
            for (at, share) in taken.iter().enumerate() {
                r.jobs[at].classes[0].class = OpClass::Write;
                r.workload.jobs[at].write_fraction = 1.0;
                r.devices[at].written_bytes = (60_000.0 * 4096.0 * share) as u64;
            }
        });
        found.retain(|(id, _)| id == "writes-to-page-cache");
        found.len()
    };
    assert_eq!((writes([1.0, 1.0]), writes([1.0, 0.5])), (0, 1));
}

/// The second job's file is a gigabyte, the first one's 64; then a small span beside a job that reaches all of the same file; then four
/// quarters of one file.
#[test]
fn each_job_has_a_sample_of_its_own() {
    let two = |shape: fn(&mut Record)| {
        said("sample-too-small", move |r| {
            two_disks([true, true], [1.0, 1.0])(r);
            shape(r);
        })
    };
    assert_eq!(two(|_| ()).0, "");
    let (text, advice) = two(|r| r.targets[1].size_bytes = 100 << 20);
    assert_eq!(text, "other: 100 MiB is less than 512 MiB, twice assumed");
    assert_eq!(advice, ["size=512MiB or more"]);
    let on_one = |spans: &'static [u64]| {
        said("sample-too-small", move |r| {
            r.targets[0].size_bytes = 600 << 20;
            let (job, done) = (r.workload.jobs[0].clone(), r.jobs[0].clone());
            for (at, span) in spans.iter().enumerate() {
                let span = Some(fathom_model::workload::Extent::Bytes(span << 20));
                let offset = fathom_model::workload::Extent::Bytes((at as u64 * 150) << 20);
                r.workload.jobs.push(Job { name: format!("job{at}"), span, offset, ..job.clone() });
                r.jobs.push(done.clone());
            }
            r.workload.jobs.remove(0);
            r.jobs.remove(0);
        })
        .0
    };
    assert_eq!(on_one(&[150, 150, 150, 150]), "");
    assert!(on_one(&[600, 150]).starts_with("job1: 150 MiB is less"), "{}", on_one(&[600, 150]));
}

/// What a damaged record's finding says: its line, and its advice.
fn said(id: &str, damage: impl FnOnce(&mut Record)) -> (String, Vec<String>) {
    let mut record = record();
    damage(&mut record);
    let found = all(&record).into_iter().find(|f| f.id == id);
    found.map(|f| (f.summary, f.advice)).unwrap_or_default()
}

#[test]
fn the_cache_of_what_is_not_ours_is_left_alone_and_the_advice_says_how_to_empty_it() {
    let buffered = |kind| {
        move |r: &mut Record| {
            (r.targets[0].direct, r.targets[0].kind) = (false, kind);
            r.workload.jobs[0].direct = false;
            (r.targets[0].path, r.devices[0].read_bytes) = ("/srv/their file".into(), 0);
        }
    };
    let (_, ours) = said("reads-from-page-cache", buffered(TargetKind::OwnFile));
    assert!(ours.len() == 1 && ours[0].contains("size="), "{ours:?}");
    let (_, theirs) = said("reads-from-page-cache", buffered(TargetKind::ForeignFile));
    assert_eq!(theirs.last().unwrap(), "sync; dd if='/srv/their file' iflag=nocache count=0");
    assert!(!theirs.join(" ").contains("size="), "{theirs:?}");
}

#[test]
fn sizes_that_are_compared_can_be_told_apart() {
    let (text, cure) =
        said("sample-too-small", |r| r.targets[0].size_bytes = (512 << 20) - 100_000);
    assert_eq!(text, "511.9 MiB is less than 512 MiB, twice assumed");
    assert_eq!(cure, ["size=512MiB or more"]);
    let (text, cure) = said("sample-too-small", |r| {
        (r.targets[0].direct, r.targets[0].memory_bytes) = (false, (16 << 30) - 1);
        r.workload.jobs[0].direct = false;
    });
    assert_eq!(text, "8 GiB is less than 32.5 GiB, twice the memory (16.0 GiB) and assumed");
    assert_eq!(
        cure,
        ["size=33GiB or more"],
        "rounded up: rounded down it would be too small again"
    );
    let (_, cure) = said("sample-too-small", |r| {
        (r.targets[0].kind, r.targets[0].size_bytes) = (TargetKind::ForeignFile, 1 << 20);
    });
    assert_eq!(cure, ["use a larger target"], "size= is for files that fathom makes");
    let (_, cure) = said("sample-too-small", |r| {
        (r.workload.name, r.targets[0].size_bytes) = ("quick".into(), (512 << 20) - 100_000);
    });
    assert_eq!(
        cure,
        ["fathom quick --span=full, or fathom run ... size=512MiB or more where there is room"],
        "quick has no size="
    );
    let (text, _) = said("unwritten-extents", |r| {
        if let Some(e) = &mut r.targets[0].extents {
            (e.size_bytes, e.hole_bytes) = (2 << 30, (2 << 30) - 4096);
        }
    });
    assert!(text.contains("2147479552 B of its 2147483648 B were never written"), "{text}");
}

#[test]
fn samples_smaller_than_twice_the_caches() {
    check("sample-too-small", Severity::Doubtful, |r| r.targets[0].size_bytes = 500 << 20);
    assert_eq!(raised(|r| r.targets[0].size_bytes = 512 << 20), []);
    // A share of the target begins at the place before.
    let (text, _) = said("sample-too-small", |r| {
        let job = &mut r.workload.jobs[0];
        (job.offset, job.block_size) = (Extent::Share(0.99), vec![WeightedSize::fixed(1 << 20)]);
        r.targets[0].size_bytes = 64 << 20;
    });
    assert!(text.starts_with("1 MiB is less than"), "{text}");
    let within = raised(|r| r.workload.jobs[0].span = Some(Extent::Bytes(1 << 20)));
    let small = ["sample-too-small", "small-span"].map(str::to_owned);
    assert_eq!(
        within,
        small.into_iter().zip([Severity::Doubtful, Severity::Note]).collect::<Vec<_>>()
    );
    // Who keeps the page cache on purpose asks for what it holds; past the page cache that means nothing.
    let kept = |direct: bool| {
        move |r: &mut Record| {
            (r.targets[0].direct, r.targets[0].size_bytes) = (direct, 2 << 20);
            let job = &mut r.workload.jobs[0];
            (job.direct, job.drop_cache) = (direct, false);
        }
    };
    assert_eq!(raised(kept(false)), []);
    check("sample-too-small", Severity::Doubtful, kept(true));
    // Buffered reads have the memory to defeat as well.
    check("sample-too-small", Severity::Doubtful, |r| {
        (r.targets[0].direct, r.workload.jobs[0].direct) = (false, false);
    });
    // So have direct ones where a loop device below goes through the page cache: half of 64 GiB cannot be in 16.
    let looped = |size_bytes: u64, direct_io: bool| {
        move |r: &mut Record| {
            r.targets[0].size_bytes = size_bytes;
            r.targets[0].stack.nodes[2].loop_device =
                Some(LoopFacts { direct_io: Some(direct_io), ..LoopFacts::default() });
        }
    };
    check("sample-too-small", Severity::Doubtful, looped(8 << 30, false));
    assert_eq!(raised(looped(8 << 30, true)), []);
    assert_eq!(raised(looped(64 << 30, false)), []);
    let synced = |r: &mut Record| {
        as_writes(r);
        (r.targets[0].direct, r.workload.jobs[0].direct) = (false, false);
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
    check("busy-cpus", Severity::Note, |r| r.system_cpu.busy_share = 0.99);
    let by_fathom = raised(|r| {
        (r.system_cpu.busy_share, r.process_cpu.system_ns) = (0.99, 31_000_000_000);
    });
    assert_eq!(by_fathom, [], "its own use is no disturbance");
    check("engine-fallback", Severity::Note, |r| {
        r.jobs[0].engine.fallback = Some("forbidden".into())
    });
    check("engine-fallback", Severity::Doubtful, |r| {
        let engine = &mut r.jobs[0].engine;
        engine.fallback = Some("forbidden".into());
        r.workload.jobs[0].depth = engine.threads * engine.depth + 1;
    });
}

#[test]
fn a_log_that_ended_as_asked_was_not_full() {
    let done = raised(|r| {
        as_writes(r);
        r.workload.jobs[0].access = Access::Append;
        r.jobs[0].window_ns = 3_000_000_000;
        r.jobs[0].engine.depth = 200;
        r.workload.jobs[0].operations = Some(r.jobs[0].thread_operations.iter().sum());
    });
    assert!(!done.iter().any(|(id, _)| id == "log-full"), "{done:?}");
}

#[test]
fn a_window_without_a_whole_request_has_no_rate() {
    let (text, _) = said("no-whole-request", |r| {
        r.jobs[0].window_ns = 180;
        r.jobs[0].classes.truncate(1);
        r.jobs[0].classes[0].latency_ns = Histogram::new();
        r.jobs[0].classes[0].latency_ns.record_n(200_000, 1);
        let figures = Figures::of_record(r);
        assert_eq!((figures.iops, figures.bytes_per_s), (0.0, 0.0), "no rate");
        // One that fills the window is whole.
        r.jobs[0].window_ns = 200_000;
        assert!(Figures::of_record(r).has_rate());
        r.jobs[0].window_ns = 180;
    });
    assert!(text.contains("no whole request ended in the 180 ns"), "{text}");
}

#[test]
fn notes_about_the_run() {
    check("stalled", Severity::Note, |r| {
        r.jobs[0].censored = vec![CensoredOp {
            class: OpClass::Read,
            age_ns: 1_600_000_000,
            file: 0,
            offset_bytes: 0,
            size_bytes: 4096,
        }];
    });
    check("tail-of-few", Severity::Note, |r| {
        reads(r, 9_999, 30_000_000);
    });
    let (text, advice) = said("tail-of-few", |r| reads(r, 600, 500_000_000));
    assert_eq!(
        text,
        "p99 and p99.9 are not shown: 600 requests ended, and p99 takes 1 000, p99.9 takes 10 000, so that ten lie beyond it"
    );
    assert_eq!(advice, ["at this rate p99 takes 100 s of measuring"]);
    // Classes have percentiles of their own: of a mix it is the rarer one that lacks them.
    let (text, advice) = said("tail-of-few", |r| {
        let mut writes = r.jobs[0].classes[0].clone();
        (writes.class, writes.latency_ns) = (OpClass::Write, Histogram::new());
        writes.latency_ns.record_n(1_000_000, 400);
        r.jobs[0].classes.push(writes);
    });
    assert!(text.starts_with("p99 and p99.9 are not shown: 400 requests (write) ended"), "{text}");
    assert_eq!(advice, ["at this rate p99 takes 150 s of measuring"]);
    check("log-full", Severity::Note, |r| {
        as_writes(r);
        r.workload.jobs[0].access = Access::Append;
        r.jobs[0].window_ns = 3_000_000_000;
        r.jobs[0].engine.depth = 200;
    });
    check("short-of-amount", Severity::Note, |r| {
        r.workload.jobs[0].amount_bytes = Some(100 << 30);
        r.workload.jobs[0].duration_ns = None;
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
    let spread = |allocated_bytes: u64, share: f64| {
        said("small-span", |r| {
            if let Some(e) = &mut r.targets[0].extents {
                e.allocated_bytes = allocated_bytes;
                e.share_of_device = Some(share);
            }
        })
        .0
    };
    let (all, rest) = (8u64 << 30, "of the device: a rotating disk is faster on so little");
    assert_eq!(spread(all, 0.06), format!("the test file covers 6 % {rest}"));
    assert_eq!(
        spread(500 << 10, 0.06),
        format!("the test file covers less than 0.1 % and is spread over 6 % {rest}")
    );
    check("batched", Severity::Note, |r| r.jobs[0].engine.batch = 8);
}

#[test]
fn ranges_within_a_target_count_for_the_span() {
    // A range within the file counts with it; a device is reached as far as the range goes.
    let (text, _) = said("small-span", |r| r.workload.jobs[0].span = Some(Extent::Share(0.1)));
    assert!(text.starts_with("requests stay within "), "{text}");
    let (text, advice) = said("small-span", |r| {
        (r.targets[0].kind, r.targets[0].extents) = (TargetKind::BlockDevice, None);
        r.targets[0].size_bytes = 4 << 40;
        r.workload.jobs[0].span = Some(Extent::Bytes(100 << 30));
    });
    assert_eq!(
        text,
        "requests stay within 100 GiB of the target, 2 % of the device: a rotating disk is faster on so little"
    );
    assert_eq!(advice, ["offset=0 span=100% covers all of it"]);
}

/// As a twin has it: a small part somewhere in the target. What is advised is typed behind the command, and is in the target.
#[test]
fn a_range_that_is_too_small_has_a_cure_that_fits_its_target() {
    let cure = |kind, size_bytes, at| {
        let (text, cure) = said("sample-too-small", move |r| {
            (r.targets[0].kind, r.targets[0].size_bytes) = (kind, size_bytes);
            let job = &mut r.workload.jobs[0];
            (job.offset, job.span) = (Extent::Share(at), Some(Extent::Bytes(1 << 20)));
        });
        assert!(text.starts_with("1 MiB is less than 512 MiB"), "{text}");
        cure.join(" ")
    };
    let own = TargetKind::OwnFile;
    assert_eq!(cure(own, 1 << 30, 0.03), "span=512MiB or more");
    assert_eq!(cure(own, 1 << 30, 0.6), "offset=0 span=512MiB or more");
    assert_eq!(cure(own, 256 << 20, 0.03), "size=512MiB offset=0 span=100%");
    let (_, of_twin) = said("sample-too-small", |r| {
        r.workload.name = "twin-day".into();
        r.workload.jobs[0].span = Some(Extent::Bytes(1 << 20));
    });
    assert!(of_twin[0].starts_with("what was captured reaches no more"), "{of_twin:?}");
    assert!(of_twin[1].contains("fathom run twin.toml TARGET span=512MiB or more"), "{of_twin:?}");
    assert_eq!(
        cure(TargetKind::BlockDevice, 256 << 20, 0.03),
        "use a larger target, with offset=0 span=100%"
    );
}

#[test]
fn a_full_filesystem_gets_no_advice_that_needs_room() {
    let advice = |available_bytes: u64| {
        let (_, advice) = said("small-span", |r| {
            r.targets[0].extents.as_mut().unwrap().share_of_device = Some(0.003);
            let (available_bytes, total_bytes) = (Some(available_bytes), Some(100 << 30));
            let facts = FsFacts { available_bytes, total_bytes, ..FsFacts::default() };
            r.targets[0].stack.nodes[1].fs = Some(facts);
        });
        advice.join(" ")
    };
    assert!(advice(40 << 30).contains("--span=full"));
    assert_eq!(advice(6 << 30), "only more free space lets a test file cover more");
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

#[test]
fn ranges_that_are_given_back_only_in_name() {
    check("zeros-sent", Severity::Note, |r| {
        r.jobs[0].engine.features = vec![ZEROES_WRITTEN.to_owned()];
    });
    let trims = |size: u32, align: u64, unit| {
        move |r: &mut Record| {
            r.targets[0].kind = TargetKind::BlockDevice;
            let top = r.targets[0].stack.top_block_devices()[0].name.clone();
            let node = r.targets[0].stack.nodes.iter_mut().find(|node| node.name == top);
            let queue = node.expect("a device").queue.get_or_insert_default();
            queue.discard_granularity_bytes = Some(unit);
            let job = &mut r.workload.jobs[0];
            (job.trim_fraction, job.align_bytes) = (0.1, Some(align));
            job.trim_block_size = vec![WeightedSize::fixed(size)];
        }
    };
    let id = "trim-below-granularity";
    check(id, Severity::Doubtful, trims(4096, 65536, 65536));
    check(id, Severity::Doubtful, trims(65536, 4096, 65536));
    assert_eq!(raised(trims(65536, 65536, 65536)), []);
    assert_eq!(raised(trims(4096, 4096, 0)), [], "a device that tells no unit");
    let of_a_file = |r: &mut Record| {
        trims(4096, 4096, 65536)(r);
        r.targets[0].kind = TargetKind::OwnFile;
    };
    assert_eq!(raised(of_a_file), []);
}

#[test]
fn libaio_without_depth() {
    let said = |share: &str| vec!["user_space_reaping".to_owned(), share.to_owned()];
    check("libaio-synchronous", Severity::Doubtful, |r| {
        r.jobs[0].engine.depth = 8;
        r.jobs[0].engine.features = said("synchronous: 100 % had ended when io_submit returned");
    });
    for (depth, share) in [(8, "asynchronous: 2 %"), (1, "synchronous: 100 %")] {
        let raised = raised(|r| {
            reads(r, 11_000 * u64::from(depth), 5_000_000);
            r.jobs[0].engine.depth = depth;
            r.jobs[0].engine.features = said(share);
        });
        assert_eq!(raised, [], "{depth} {share}");
    }
}
