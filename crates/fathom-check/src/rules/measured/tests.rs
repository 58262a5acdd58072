//! Rules about measurements: each fires on its figures, and is silent on the healthy neighbour.

use super::*;
use crate::fixtures::{Bench, GIB};
use fathom_model::defect::Gravity;

fn base(target: &str, workload: &str) -> Measured {
    Measured {
        run: "0123456789ab".into(),
        made_at_unix_s: 1000,
        target: target.into(),
        workload: workload.into(),
        verdict: "trusted".into(),
        in_flight: 4,
        request_bytes_mean: 1_048_576.0,
        ..Measured::default()
    }
}

/// Random reads, one at a time.
fn seeks(target: &str, p50_ns: u64) -> Measured {
    Measured {
        in_flight: 1,
        request_bytes_mean: 4096.0,
        read_bytes_per_s: Some(4096.0 * 1e9 / p50_ns as f64),
        read_latency_ns_p50: Some(p50_ns),
        read_latency_ns_mean: Some(p50_ns as f64),
        random: true,
        ..base(target, "seeker")
    }
}

fn read(target: &str, bytes_per_s: f64) -> Measured {
    Measured { read_bytes_per_s: Some(bytes_per_s), ..base(target, "seqread") }
}

fn written(target: &str, bytes_per_s: f64) -> Measured {
    Measured { write_bytes_per_s: Some(bytes_per_s), ..base(target, "seqwrite") }
}

fn one_disk() -> (Bench, usize) {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.mounted("ext4", "/srv", disk);
    (bench, disk)
}

#[test]
fn a_disk_that_answers_like_flash() {
    let (mut bench, disk) = one_disk();
    bench.snapshot.measured = vec![seeks("/srv", 1_000_000)];
    assert!(bench.ask(disks::rotational_flag).is_empty(), "the limit itself");
    bench.snapshot.measured = vec![seeks("/srv", 999_999)];
    let defect = bench.one(disks::rotational_flag);
    assert_eq!(defect.node.as_deref(), Some("/dev/sda"));
    assert_eq!(defect.fix[0].command.as_deref(), Some("echo 0 > /sys/block/sda/queue/rotational"));
    bench.queue_of(disk).rotational = Some(false);
    assert!(bench.ask(disks::rotational_flag).is_empty());
}

#[test]
fn answers_from_memory_and_void_runs_say_nothing() {
    let (mut bench, _) = one_disk();
    let cached = Measured { findings: vec!["reads-from-page-cache".into()], ..seeks("/srv", 5000) };
    let void = Measured { verdict: "void".into(), ..seeks("/srv", 5000) };
    let deep = Measured { in_flight: 32, ..seeks("/srv", 5000) };
    let elsewhere = seeks("/other", 5000);
    bench.snapshot.measured = vec![cached, void, deep, elsewhere];
    assert!(bench.ask(disks::rotational_flag).is_empty());
}

#[test]
fn the_newest_run_counts() {
    let (mut bench, _) = one_disk();
    let newer = Measured { made_at_unix_s: 2000, ..seeks("/srv", 9_000_000) };
    bench.snapshot.measured = vec![newer, seeks("/srv", 100_000)];
    assert!(bench.ask(disks::rotational_flag).is_empty());
}

#[test]
fn a_disk_that_is_slower_than_its_mechanics() {
    let (mut bench, disk) = one_disk();
    bench.snapshot.measured = vec![seeks("/dev/sda", 25_000_000)];
    assert!(bench.ask(disks::access_time).is_empty(), "its speed is not known");
    bench.detail_of(disk).identity.get_or_insert_default().rotation_rpm = Some(7200);
    // 9 ms of seek and 4.17 ms of half a rotation, and half of that again: 19.75 ms.
    let defect = bench.one(disks::access_time);
    assert_eq!(
        defect.summary,
        "/dev/sda takes 25 ms for a random read; an average seek and half a rotation at 7200 per minute are 13 ms"
    );
    bench.snapshot.measured = vec![seeks("/dev/sda", 19_700_000)];
    assert!(bench.ask(disks::access_time).is_empty());
    bench.snapshot.measured =
        vec![Measured { request_bytes_mean: 1e6, ..seeks("/dev/sda", 25_000_000) }];
    assert!(bench.ask(disks::access_time).is_empty(), "the transfer takes the time");
}

#[test]
fn dirty_limits_against_the_slowest_disk() {
    let (mut bench, _) = one_disk();
    bench.snapshot.system.vm =
        vec![("dirty_bytes".into(), "0".into()), ("dirty_ratio".into(), "20".into())];
    bench.snapshot.host.memory_available_bytes = Some(100 * GIB);
    assert!(bench.ask(machine::dirty_limits).is_empty(), "nothing was measured");
    // 20 GiB at 100 MB/s are 215 s.
    bench.snapshot.measured = vec![written("/srv", 100e6), written("/dev/sda", 200e6)];
    let defect = bench.one(machine::dirty_limits);
    assert_eq!(defect.gravity, Gravity::High);
    assert_eq!(
        defect.summary,
        "20 GiB of written data may wait in memory; /srv writes 100.0 MB/s, so that a sync may take 3 min 35 s"
    );
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("sysctl vm.dirty_bytes=199229440 vm.dirty_background_bytes=99614720")
    );
    for (rate, gravity) in [(500e6, Some(Gravity::Medium)), (3e9, None)] {
        bench.snapshot.measured = vec![written("/srv", rate)];
        assert_eq!(bench.gravities(machine::dirty_limits).first().copied(), gravity, "{rate}");
    }
    bench.snapshot.system.vm[0].1 = "500000000".into();
    bench.snapshot.measured = vec![written("/srv", 100e6)];
    assert!(bench.ask(machine::dirty_limits).is_empty(), "bytes win over the share");
}

/// `fathom quick` ends with commits, which are the newest writes of all.
#[test]
fn commits_and_small_or_buffered_requests_are_no_rate_of_a_disk() {
    let (mut bench, _) = one_disk();
    bench.snapshot.system.vm = vec![("dirty_ratio".into(), "20".into())];
    bench.snapshot.host.memory_available_bytes = Some(22 * GIB);
    let fast = Measured { workload: "quick, sequential write".into(), ..written("/srv", 1.6e9) };
    let later = |rate| Measured { made_at_unix_s: 2000, ..written("/srv", rate) };
    for other in [
        Measured { request_bytes_mean: 4096.0, ..later(1e6) },
        Measured { flushed: true, ..later(1e6) },
    ] {
        bench.snapshot.measured = vec![fast.clone(), other];
        assert_eq!(bench.ask(machine::dirty_limits), []);
        assert_eq!(machine::needed(&Scene::new(&bench.snapshot)), [], "it was measured");
    }
    let finding = vec!["writes-to-page-cache".into()];
    bench.snapshot.measured = vec![Measured { findings: finding, ..later(1e6) }];
    assert_eq!(bench.ask(machine::dirty_limits), []);
    // A slow stick does not make a limit that stops everybody.
    bench.snapshot.measured = vec![later(5e6)];
    assert_eq!(
        bench.one(machine::dirty_limits).fix[0].command.as_deref(),
        Some("sysctl vm.dirty_bytes=67108864 vm.dirty_background_bytes=33554432")
    );
    let mut bench = array([200e6, 20e6, 205e6, 210e6]);
    bench.snapshot.measured[1].request_bytes_mean = 4096.0;
    assert_eq!(bench.ask(arrays::member_slow), [], "small requests");
}

#[test]
fn a_volume_that_was_fast_for_a_while() {
    let (mut bench, _) = one_disk();
    bench.snapshot.measured =
        vec![Measured { findings: vec!["not-steady".into()], ..read("/srv", 1e8) }];
    assert!(bench.ask(machine::rate_cliff).is_empty(), "no cloud");
    bench.snapshot.system.cloud = Some("Amazon EC2".into());
    bench.one(machine::rate_cliff);
    bench.snapshot.measured[0].findings.clear();
    assert!(bench.ask(machine::rate_cliff).is_empty());
}

/// RAID5 of four disks, each measured, mounted at `/srv`.
fn array(member_rates: [f64; 4]) -> Bench {
    let mut bench = Bench::new();
    let names = ["sda", "sdb", "sdc", "sdd"];
    let members = names.map(|name| bench.disk(name));
    let array = bench.md("md0", "raid5", &members);
    bench.mounted("xfs", "/srv", array);
    for (name, rate) in names.iter().zip(member_rates) {
        bench.snapshot.measured.push(read(&format!("/dev/{name}"), rate));
    }
    bench
}

#[test]
fn an_array_that_is_slower_than_its_members() {
    let mut bench = array([200e6; 4]);
    assert!(bench.ask(arrays::below_members).is_empty(), "it was not measured");
    bench.snapshot.measured.push(read("/srv", 299e6));
    let defect = bench.one(arrays::below_members);
    assert_eq!(
        defect.summary,
        "/dev/md0 reads 299.0 MB/s in sequence; its members would allow 600.0 MB/s"
    );
    bench.snapshot.measured[4].read_bytes_per_s = Some(300e6);
    assert!(bench.ask(arrays::below_members).is_empty());
    bench.snapshot.measured[4].read_bytes_per_s = Some(100e6);
    bench.snapshot.measured.remove(0);
    assert!(bench.ask(arrays::below_members).is_empty(), "one member was not measured");
}

#[test]
fn one_slow_member_is_named() {
    let bench = array([200e6, 139e6, 205e6, 210e6]);
    let defect = bench.one(arrays::member_slow);
    assert_eq!(
        (defect.node.as_deref(), defect.concerns.as_slice()),
        (Some("/dev/sdb"), ["/dev/md0".to_owned()].as_slice())
    );
    assert!(array([200e6, 150e6, 205e6, 210e6]).ask(arrays::member_slow).is_empty());
}

#[test]
fn an_array_with_the_work_of_one_disk_is_told_once() {
    let mut bench = array([200e6; 4]);
    let sick = Measured {
        in_flight: 32,
        findings: vec!["array-like-one-disk".into()],
        read_bytes_per_s: Some(78.0 * 4096.0),
        ..seeks("/srv", 13_000_000)
    };
    bench.snapshot.measured.extend([sick, read("/srv", 50e6)]);
    let defect = bench.one(arrays::like_one_disk);
    assert_eq!(
        defect.summary,
        "/dev/md0 did 78 random reads per second with 32 in flight: that is one disk's work"
    );
    assert!(bench.ask(arrays::below_members).is_empty());
}

#[test]
fn what_would_have_to_be_measured() {
    let (mut bench, disk) = one_disk();
    bench.snapshot.system.vm = vec![("dirty_ratio".into(), "20".into())];
    bench.snapshot.host.memory_available_bytes = Some(100 * GIB);
    let asked = |bench: &Bench| needed(&Scene::new(&bench.snapshot));
    let quick = "fathom quick /srv".to_owned();
    assert_eq!(asked(&bench), [("dirty-limits", quick.clone()), ("rotational-flag-wrong", quick)]);
    // Where an image on it was asked for by name, that is measured.
    let mut named = one_disk().0;
    let srv = named.snapshot.machine.nodes.len() - 1;
    let image = named.loop_device("loop0", &[srv]);
    let (_, top) = named.mounted("ext4", "/srv/x", image);
    named.snapshot.machine.tops = vec![top];
    let rotates = |bench: &Bench| asked(bench).pop().map(|(_, command)| command);
    assert_eq!(rotates(&named).as_deref(), Some("fathom quick /srv"));
    named.snapshot.targets = vec!["/srv/x/y".into()];
    assert_eq!(rotates(&named).as_deref(), Some("fathom quick /srv/x"));
    bench.detail_of(disk).identity.get_or_insert_default().rotation_rpm = Some(7200);
    bench.snapshot.measured = vec![written("/srv", 1e8)];
    assert_eq!(asked(&bench), [("access-time-high", "fathom run seeker /dev/sda".to_owned())]);
    bench.snapshot.measured.push(seeks("/srv", 9_000_000));
    assert_eq!(asked(&bench), []);
}

#[test]
fn members_of_an_array_are_asked_for_together() {
    let mut bench = array([200e6; 4]);
    bench.snapshot.measured.truncate(2);
    let asked = needed(&Scene::new(&bench.snapshot));
    let members = asked.iter().find(|(rule, _)| *rule == "array-below-members");
    let command =
        "fathom run seqread /dev/sdc; fathom run seqread /dev/sdd; fathom run seqread /dev/md0";
    assert_eq!(members.map(|(_, command)| command.as_str()), Some(command));
    // Of one that lacks members, or has failed ones, the rule says nothing.
    for (degraded, state) in [(1, "in_sync"), (0, "faulty,write_error")] {
        for node in &mut bench.snapshot.machine.nodes {
            if let Some(md) = node.md.as_mut() {
                md.degraded = Some(degraded);
                md.members[0].state = Some(state.into());
            }
        }
        let asked = needed(&Scene::new(&bench.snapshot));
        assert!(asked.iter().all(|(rule, _)| *rule != "array-below-members"), "{asked:?}");
    }
}
