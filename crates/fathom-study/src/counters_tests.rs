//! Injected counters; the conditions that a machine can be brought into are provoked for real in the tests of the
//! command.

use super::*;
use crate::fixtures;
use crate::verdict::judge;
use fathom_model::finding::Verdict;
use fathom_model::record::ClassRecord;
use fathom_model::stack::{MdFacts, QueueFacts};

fn ids(change: impl Fn(&mut Record)) -> Vec<String> {
    let mut record = fixtures::record();
    change(&mut record);
    let found = judge(&[record]).findings;
    let of_length = ["short-windows", "tail-of-few"];
    found.into_iter().filter(|f| !of_length.contains(&f.id.as_str())).map(|f| f.id).collect()
}

fn queue(record: &mut Record, change: impl Fn(&mut QueueFacts)) {
    let queue = record.targets[0].stack.nodes[2].queue.get_or_insert_with(QueueFacts::default);
    change(queue);
}

fn commits(record: &mut Record, flushes: Option<u64>, cache: &str) {
    let mut class = record.jobs[0].classes[0].clone();
    class.class = OpClass::Sync;
    record.jobs[0].classes.push(class);
    record.jobs[0].engine.depth = 10;
    record.devices[0].flushes = flushes;
    queue(record, |q| q.write_cache = Some(cache.into()));
}

#[test]
fn syncs_must_reach_a_cache_that_forgets() {
    let found = |flushes, cache: &'static str| ids(move |r| commits(r, flushes, cache));
    assert_eq!(found(Some(0), "write back"), ["syncs-without-flush"]);
    assert_eq!(found(Some(1), "write back"), Vec::<String>::new());
    assert_eq!(found(Some(0), "write through"), Vec::<String>::new());
    assert_eq!(found(None, "write back"), Vec::<String>::new());
}

/// A layer of this kind between the filesystem and the disk, which counts no flushes, as in the kernel.
fn with_layer(record: &mut Record, kind: NodeKind) {
    let mut layer = Node::new(kind, "layer");
    layer.devno = Some("253:0".into());
    layer.queue =
        Some(QueueFacts { write_cache: Some("write back".into()), ..QueueFacts::default() });
    layer.below = vec![2];
    let nodes = &mut record.targets[0].stack.nodes;
    nodes[1].below = vec![nodes.len()];
    nodes.push(layer);
    let mut counted = record.devices[0].clone();
    (counted.name, counted.flushes) = ("layer".into(), Some(0));
    record.devices.push(counted);
}

#[test]
fn flushes_count_where_requests_are() {
    use NodeKind::{Dm, Md, NvmeMultipath, Partition};
    for kind in [Partition, Dm, Md, NvmeMultipath] {
        let found = |flushes, cache: &'static str| {
            ids(move |r| {
                commits(r, flushes, cache);
                with_layer(r, kind);
            })
        };
        assert_eq!(found(Some(60_000), "write back"), Vec::<String>::new(), "{kind:?}");
        assert_eq!(found(Some(0), "write back"), ["syncs-without-flush"], "{kind:?}");
        assert_eq!(found(Some(0), "write through"), Vec::<String>::new(), "{kind:?}");
        assert_eq!(found(None, "write back"), Vec::<String>::new(), "{kind:?}");
    }
    // Several paths to a drive: the mapped device makes the requests and counts.
    let paths = ids(|r| {
        commits(r, Some(0), "write back");
        with_layer(r, Dm);
        r.devices[1].flushes = Some(60_000);
    });
    assert_eq!(paths, Vec::<String>::new());
}

/// A mirror of two disks, the second of which counts so many flushes; none of it is not there.
fn mirror(record: &mut Record, second: Option<Option<u64>>) {
    commits(record, Some(0), "write back");
    with_layer(record, NodeKind::Md);
    let nodes = &mut record.targets[0].stack.nodes;
    let mut disk = nodes[2].clone();
    disk.name = "sdb".into();
    nodes[3].below.push(4);
    nodes.push(disk);
    if let Some(flushes) = second {
        let mut counted = record.devices[0].clone();
        (counted.name, counted.flushes) = ("sdb".into(), flushes);
        record.devices.push(counted);
    }
}

#[test]
fn every_volatile_disk_must_be_counted() {
    let found = |second| ids(move |r| mirror(r, second));
    assert_eq!(found(Some(Some(0))), ["syncs-without-flush"]);
    assert_eq!(found(Some(Some(5))), Vec::<String>::new());
    assert_eq!(found(Some(None)), Vec::<String>::new());
    assert_eq!(found(None), Vec::<String>::new());
}

#[test]
fn flushes_of_a_loop_device_are_its_own() {
    let found = |flushes: u64| {
        ids(move |r| {
            // The disk that holds the backing file is flushed for others too.
            commits(r, Some(700), "write back");
            with_layer(r, NodeKind::Loop);
            r.devices[1].flushes = Some(flushes);
        })
    };
    assert_eq!(found(0), ["syncs-without-flush"]);
    assert_eq!(found(1), Vec::<String>::new());
}

#[test]
fn sync_file_range_asks_for_no_flush() {
    let found = ids(|r| {
        commits(r, Some(0), "write back");
        r.workload.jobs[0].sync_call = SyncCall::SyncFileRange;
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn commands_quote_the_path() {
    let advice = |id: &str, change: &dyn Fn(&mut Record)| {
        let mut record = fixtures::record();
        let stack = &mut record.targets[0].stack;
        (stack.path, stack.resolved_path) = ("my data".into(), "/srv/my data".into());
        change(&mut record);
        let found = judge(&[record]).findings.into_iter().find(|f| f.id == id);
        found.and_then(|f| f.advice.last().cloned())
    };
    let synced = advice("syncs-without-flush", &|r| commits(r, Some(0), "write back"));
    assert_eq!(synced.as_deref(), Some("findmnt -no OPTIONS -T '/srv/my data'"));
    let busy = advice("busy-is-not-saturated", &|r| {
        r.devices[0].busy_ns = r.window_ns;
        r.devices[0].in_flight_ns = Some(r.window_ns);
        queue(r, |q| q.rotational = Some(false));
    });
    assert_eq!(busy.as_deref(), Some("fathom saturate 'my data'"));
}

/// 32 in flight for fathom, so many at the device.
fn deep(record: &mut Record, at_device: f64) {
    record.workload.jobs[0].depth = 32;
    record.jobs[0].engine.depth = 32;
    fixtures::reads(record, 60_000, 32_000_000);
    record.devices[0].in_flight_ns = Some((at_device * record.window_ns as f64) as u64);
    queue(record, |q| q.requests = Some(64));
}

#[test]
fn what_is_in_flight_must_be_at_the_device() {
    let found = |at_device| ids(move |r| deep(r, at_device));
    assert_eq!(found(1.0), ["waiting-above-device"]);
    assert_eq!(found(30.0), Vec::<String>::new());
    // Where others keep all CPUs, nobody can tell what is still under way.
    let mut busy = fixtures::record();
    deep(&mut busy, 1.0);
    busy.system_cpu.busy_share = 1.0;
    let said = |record: &Record| waiting_above_device(record).expect("one").summary;
    assert!(said(&busy).contains("got no CPU to see it"), "{}", said(&busy));
    busy.system_cpu.busy_share = 0.5;
    assert!(said(&busy).ends_with("the others waited above it, one behind the other"));
    // The device's queue is full: its limit.
    let full = ids(|r| {
        deep(r, 3.0);
        queue(r, |q| q.requests = Some(4));
    });
    assert_eq!(full, Vec::<String>::new());
    // Requests that are slowed on purpose, buffered ones and sequential ones say nothing.
    for change in [
        (|r: &mut Record| r.workload.jobs[0].cap_iops = Some(1000.0)) as fn(&mut Record),
        |r| r.workload.jobs[0].cgroup_max.read_iops = Some(500),
        |r| r.jobs[0].busiest_thread_cpu_ns = r.window_ns,
        |r| r.workload.jobs[0].access = Access::Sequential,
        |r| r.devices[0].in_flight_ns = None,
    ] {
        let found = ids(|r| {
            deep(r, 1.0);
            change(r);
        });
        assert!(!found.contains(&"waiting-above-device".to_owned()), "{found:?}");
    }
}

#[test]
fn the_depth_asked_for_is_held() {
    let few = |r: &mut Record| {
        r.jobs[0].engine.depth = 32;
        r.devices[0].in_flight_ns = Some(5 * r.window_ns);
    };
    // 5 ms at 1000 per second are five in flight.
    assert_eq!(ids(few), ["depth-not-held"]);
    assert_eq!(
        ids(|r| {
            few(r);
            r.workload.jobs[0].think_time_ns = 1000;
        }),
        Vec::<String>::new()
    );
}

#[test]
fn busy_with_little_is_a_note() {
    let busy = |r: &mut Record| {
        r.devices[0].busy_ns = r.window_ns;
        r.devices[0].in_flight_ns = Some(r.window_ns);
        queue(r, |q| q.rotational = Some(false));
    };
    assert_eq!(ids(busy), ["busy-is-not-saturated"]);
    let mut record = fixtures::record();
    busy(&mut record);
    assert_eq!(judge(&[record]).verdict, Verdict::Trusted);
    assert_eq!(
        ids(|r| {
            busy(r);
            queue(r, |q| q.rotational = Some(true));
        }),
        Vec::<String>::new()
    );
    // So for any of several targets.
    let second = ids(|r| {
        let mut first = r.targets[0].clone();
        first.stack.nodes.iter_mut().for_each(|node| node.name.push('x'));
        busy(r);
        r.targets.insert(0, first);
    });
    assert!(second.iter().any(|id| id == "busy-is-not-saturated"), "{second:?}");
}

#[test]
fn an_array_that_does_one_disks_work() {
    let array = |iops: u64| {
        move |r: &mut Record| {
            let node = &mut r.targets[0].stack.nodes[2];
            node.name = "md0".into();
            node.md = Some(MdFacts {
                level: Some("raid5".into()),
                raid_disks: Some(6),
                ..MdFacts::default()
            });
            queue(r, |q| q.rotational = Some(true));
            r.devices[0].name = "md0".into();
            r.jobs[0].engine.depth = 48;
            r.workload.jobs[0].depth = 48;
            fixtures::reads(r, iops * 60, 48_000_000_000 / iops);
        }
    };
    // The published case: 55 to 78 where five disks were idle.
    assert_eq!(ids(array(66)), ["array-like-one-disk"]);
    assert_eq!(ids(array(300)), Vec::<String>::new());
    // The published run itself: a fifth writes, on RAID5 four requests of disks each. md did 231 of the same mix.
    let mix_of = |write_share: f64, iops: u64| {
        ids(move |r| {
            array(iops)(r);
            r.workload.jobs[0].write_fraction = write_share;
            let reads = r.jobs[0].classes[0].clone();
            let part = |class, share: f64| {
                let mut latency_ns = fathom_stats::Histogram::new();
                let count = (share * reads.latency_ns.count() as f64) as u64;
                latency_ns.record_n(48_000_000_000 / iops, count);
                ClassRecord { class, latency_ns, bytes: count * 4096 }
            };
            r.jobs[0].classes =
                vec![part(OpClass::Read, 1.0 - write_share), part(OpClass::Write, write_share)];
        })
    };
    let mix = |iops: u64| mix_of(0.2, iops);
    assert!(mix(78).contains(&"array-like-one-disk".to_owned()));
    assert!(!mix(231).contains(&"array-like-one-disk".to_owned()));
    // Half of them write: five requests of disks for two, so that 90 per second are half of what six can do. Reads alone would have
    // to be 112.
    assert!(mix_of(0.5, 85).contains(&"array-like-one-disk".to_owned()));
    assert!(!mix_of(0.5, 100).contains(&"array-like-one-disk".to_owned()));
    assert!(ids(array(100)).contains(&"array-like-one-disk".to_owned()));
    // Where more write, caches and journals decide.
    assert!(!mix_of(0.6, 30).contains(&"array-like-one-disk".to_owned()));
    // Large requests take their time to transfer, on healthy disks too.
    let of = |sizes: &'static [(u32, Option<u32>)]| {
        let size =
            |&(size_bytes, up_to_bytes)| WeightedSize { size_bytes, up_to_bytes, weight: 1.0 };
        ids(|r| {
            array(66)(r);
            r.workload.jobs[0].block_size = sizes.iter().map(size).collect();
        })
    };
    assert_eq!(of(&[(4096, None), (65_536, None)]), ["array-like-one-disk"]);
    assert_eq!(of(&[(4096, None), (1 << 20, None)]), Vec::<String>::new());
    assert_eq!(of(&[(4096, Some(1 << 20))]), Vec::<String>::new());
}

#[test]
fn heat_that_matters_is_doubtful() {
    let hot = |celsius: f64, limit: Option<f64>, events: Option<u64>| {
        let mut record = fixtures::record();
        let drive = DriveHeat { name: "sda".into(), celsius, limit_celsius: limit };
        record.heat.drives = vec![drive];
        record.heat.cpu_throttle_events = events;
        throttled(&record).map(|f| (f.severity, f.summary))
    };
    let found = |severity, text: &str| Some((severity, text.to_owned()));
    assert_eq!(
        hot(71.0, Some(70.0), None),
        found(Severity::Doubtful, "sda is at its limit: 71 degrees C of 70")
    );
    let slowed = |times: &str| format!("processors were slowed down {times} because of heat");
    assert_eq!(hot(41.0, None, Some(1)), found(Severity::Note, &slowed("once")));
    assert_eq!(hot(41.0, None, Some(59)), found(Severity::Note, &slowed("59 times")));
    // 60 in 60 seconds.
    assert_eq!(hot(41.0, None, Some(60)), found(Severity::Doubtful, &slowed("60 times")));
    assert_eq!(hot(69.0, Some(70.0), Some(0)), None);
}

#[test]
fn what_shrinks_on_layers_that_compress() {
    let written = |compressible: f64, option: &'static str| {
        ids(move |r| {
            let job = &mut r.workload.jobs[0];
            (job.write_fraction, job.compressible) = (1.0, compressible);
            let mount = fathom_model::stack::MountFacts {
                options: vec![option.into()],
                ..fathom_model::stack::MountFacts::default()
            };
            r.targets[0].stack.nodes[0].mount = Some(mount);
        })
        .contains(&"compressed-on-the-way".to_owned())
    };
    assert!(written(0.5, "compress=zstd:3"));
    assert!(!written(0.0, "compress=zstd:3"));
    assert!(!written(0.5, "noatime") && !written(0.5, "compress=no"));
}

/// Two jobs write to one target, or the compressing one is the second: a target stands in the record once.
#[test]
fn every_target_may_compress() {
    let found = |compressing: usize, shrinking: usize| {
        ids(move |r| {
            r.workload.jobs.push(r.workload.jobs[0].clone());
            r.jobs.push(r.jobs[0].clone());
            r.targets.push(r.targets[0].clone());
            let job = &mut r.workload.jobs[shrinking];
            (job.write_fraction, job.compressible) = (1.0, 0.5);
            r.targets[compressing].stack.nodes[2].kind = NodeKind::Zram;
            r.targets.truncate(compressing + 1);
        })
        .contains(&"compressed-on-the-way".to_owned())
    };
    assert!(found(0, 1), "both jobs on one target");
    assert!(found(1, 0) && found(1, 1) && found(0, 0));
}

#[test]
fn findings_about_one_run_are_rows() {
    for id in ["warm-up-inside", "not-steady", "busy-is-not-saturated", "depth-not-held"] {
        assert!(crate::rules::is_about_one_row(id), "{id}");
    }
}

/// Injected: no host makes its clock jump for a test. A place that each request holds for twice the time it had.
#[test]
fn more_in_flight_than_there_can_be_is_void() {
    // Five places, 1000 per second of 5 ms: all of them are taken all the time.
    assert_eq!(ids(|_| ()), Vec::<String>::new());
    let found = ids(|r| fixtures::reads(r, 60_000, 5_400_000));
    assert_eq!(found, ["littles-law"]);
    assert_eq!(ids(|r| fixtures::reads(r, 60_000, 5_200_000)), Vec::<String>::new(), "rounding");
    // One request of each place that began before the window explains as much.
    let began_before = ids(|r| {
        fixtures::reads(r, 50_000, 5_000_000);
        let latency_ns = &mut r.jobs[0].classes[0].latency_ns;
        latency_ns.record_n(30_000_000_000, 5);
    });
    assert!(!began_before.contains(&"littles-law".to_owned()), "{began_before:?}");
}
