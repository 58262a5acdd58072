//! Made-up matrices.

use super::*;
use crate::fixtures;
use fathom_model::record::DeviceDelta;
use fathom_model::stack::{MdFacts, MdMember, Node, NodeKind, Stack};
use serde_json::json;

fn with_cell(mut record: Record, levels: &[(&str, &str)], pattern: Pattern, block: u32) -> Record {
    let cell = json!({
        "slot": {"block": block, "place": 0, "cell": 0, "is_sentinel": false},
        "levels": levels, "workload": pattern.label(), "knobs": [], "setup": [], "prepare_ns": 0,
    });
    record.cell = Some(Box::new(serde_json::from_value(cell).expect("a cell")));
    record.findings.clear();
    record
}

fn delta(name: &str, reads: u64, written_bytes: u64) -> DeviceDelta {
    DeviceDelta {
        name: name.into(),
        reads,
        read_bytes: reads * 4096,
        writes: written_bytes / 4096,
        written_bytes,
        flushes: None,
        busy_ns: 0,
        in_flight_ns: None,
        kernel_thread_cpu_ns: None,
    }
}

/// 60 000 random reads of 4 KiB from a raid5 of four.
fn array(state: State, reads_each: u64, written: [u64; 4]) -> Record {
    let names = ["sda", "sdb", "sdc", "sdd"];
    let mut record = fixtures::record();
    let mut md = Node::new(NodeKind::Md, "md9");
    md.size_bytes = Some(3 << 30);
    md.md = Some(MdFacts {
        level: Some("raid5".into()),
        layout: Some(2),
        chunk_bytes: Some(64 << 10),
        raid_disks: Some(4),
        members: names.map(|name| MdMember { name: name.into(), ..MdMember::default() }).into(),
        ..MdFacts::default()
    });
    record.targets[0].stack = Stack {
        path: "/dev/md9".into(),
        resolved_path: "/dev/md9".into(),
        nodes: vec![md],
        top: 0,
    };
    record.devices =
        names.iter().zip(written).map(|(name, written)| delta(name, reads_each, written)).collect();
    let levels = [
        ("level", "raid5"),
        ("layout", "left-symmetric"),
        ("chunk", "64k"),
        ("state", state.word()),
    ];
    with_cell(record, &levels, Pattern::RandomRead, 0)
}

fn member(name: &str, iops: f64) -> Record {
    let mut record = fixtures::record();
    fixtures::reads(&mut record, (iops * 60.0) as u64, 1_000_000);
    with_cell(record, &[("member", name)], Pattern::RandomRead, 0)
}

#[test]
fn arrays_as_multiples_of_one_member() {
    let mut records: Vec<Record> = [("sda", 240.0), ("sdb", 250.0), ("sdc", 260.0)]
        .map(|(name, iops)| member(name, iops))
        .into();
    records.push(array(State::Normal, 15_000, [0; 4]));
    let study = study(&records);
    let one = study.component_bytes_per_s[2].expect("measured");
    assert_eq!(one, 250.0 * 4096.0);
    let row = &study.rows[0];
    assert_eq!(row.name(), "raid5 left-symmetric 64k");
    let normal = row.in_state(State::Normal).expect("measured");
    let figure = normal.figures[2].as_ref().expect("measured");
    assert_eq!(figure.bytes_per_s.value / one, 4.0);
    let times = figure.of_one_member.expect("members and array in one block");
    assert!((times.value - 4.0).abs() < 1e-9 && times.interval.is_none() && times.count == 1);
    assert_eq!(figure.of_whole, None, "it is the whole array");
    assert!(row.in_state(State::Degraded).is_none() && normal.figures[0].is_none());
    let counted = normal.counted[2].expect("counted");
    assert_eq!((counted.reads, counted.reads_expected), (1.0, Some(1.0)));
    assert_eq!(study.findings, []);
}

#[test]
fn interrupts_and_switches_are_medians_of_each_request() {
    // 60 000 requests each.
    let of = |events: &[Option<(u64, u64)>]| {
        let record = |events: &Option<(u64, u64)>| {
            let mut record = array(State::Normal, 15_000, [0; 4]);
            record.system_events = events.map(|(interrupts, context_switches)| {
                fathom_model::record::SystemEvents { interrupts, context_switches }
            });
            record
        };
        let records: Vec<Record> = events.iter().map(record).collect();
        EventsPerIo::of(&records.iter().collect::<Vec<_>>())
    };
    let three = of(&[Some((60_000, 90_000)), Some((6_000_000, 0)), Some((120_000, 180_000))]);
    assert_eq!(three, Some(EventsPerIo { interrupts: 2.0, context_switches: 1.5 }));
    // Of some trials only it would be a selection.
    assert_eq!(of(&[Some((60_000, 90_000)), None]), None);
    let mut idle = array(State::Normal, 0, [0; 4]);
    idle.jobs.clear();
    idle.system_events = Some(fathom_model::record::SystemEvents::default());
    assert_eq!(EventsPerIo::of(&[&idle]), None);
}

#[test]
fn a_read_that_wakes_every_disk_is_found() {
    let study = study(&[array(State::Normal, 60_000, [0; 4])]);
    let found: Vec<&str> = study.findings.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(found, ["too-many-member-reads"]);
    assert!(study.findings[0].summary.contains("4.00 reads of members"), "{:?}", study.findings);
    // Without a member a quarter of the reads needs the three others.
    let degraded = study_of_degraded(60_000 / 4 * 6 / 4);
    assert_eq!(degraded.findings, []);
    assert_eq!(study_of_degraded(60_000).findings.len(), 1);
}

fn study_of_degraded(reads_each: u64) -> RaidStudy {
    study(&[array(State::Degraded, reads_each, [0; 4])])
}

#[test]
fn the_rebuilt_member_is_the_one_that_is_written() {
    let record = array(State::Rebuilding, 15_000, [0, 6 << 30, 0, 4096]);
    let study = study(&[record]);
    let of = study.rows[0].in_state(State::Rebuilding).expect("measured");
    let rebuild = of.rebuilds[2].expect("it was written");
    assert!((rebuild.bytes_per_s / ((6u64 << 30) as f64 / 60.0) - 1.0).abs() < 1e-3);
    // A member of one GiB.
    let seconds = rebuild.member_ns.expect("known") as f64 / 1e9;
    assert!((seconds - 10.0).abs() < 0.1, "{seconds}");
    assert_eq!(of.counted[2].expect("counted").reads_expected, None);
}

#[test]
fn the_odd_member_is_named() {
    let rates = [100.0, 101.0, 60.0, 99.0];
    assert_eq!(outlier(&rates), Some(2));
    assert_eq!(outlier(&[100.0, 101.0, 97.0, 99.0]), None);
    assert_eq!(outlier(&[100.0, 160.0, 99.0]), None);
    let records: Vec<Record> = ["a", "b", "c", "d"]
        .into_iter()
        .zip(rates)
        .map(|(name, iops)| member(name, iops))
        .collect();
    let found = study(&records).findings;
    let odd = found.iter().find(|f| f.id == "odd-member").expect("found");
    assert!(odd.summary.starts_with("c is the odd member: randread at 60 %"), "{}", odd.summary);
}

#[test]
fn void_trials_are_told_and_left_out() {
    let mut bad = array(State::Normal, 1, [0; 4]);
    let cell = bad.cell.as_mut().expect("a cell");
    cell.void = Some("mdadm refused".into());
    let words = |study: &RaidStudy| study.void[0].cell.clone();
    let of_raid5 = words(&study(std::slice::from_ref(&bad)));
    assert_eq!(of_raid5, "level=raid5 layout=left-symmetric chunk=64k state=normal");
    // It has neither, whatever stands in the matrix.
    bad.cell.as_mut().expect("a cell").levels[0].1 = "raid1".into();
    assert_eq!(words(&study(std::slice::from_ref(&bad))), "level=raid1 state=normal");
    let study = study(&[bad]);
    assert_eq!((study.rows.len(), study.void.len()), (0, 1));
    assert_eq!(study.verdict, Verdict::Void);
}
