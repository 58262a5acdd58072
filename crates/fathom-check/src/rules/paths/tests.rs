//! Paths in trouble, and healthy ones beside them.

use super::{RULES, beside, configuration, maps, nvme};
use crate::fixtures::{Bench, MIB, TB};
use fathom_model::defect::{Certainty, Gravity};
use fathom_model::stack::NodeKind;
use fathom_model::system::{Daemon, LvmConfiguration, MultipathConfiguration, StorageHost};

/// Disks `sda`, `sdb`, ... that lead to one drive over Fibre Channel.
fn paths(bench: &mut Bench, count: usize) -> Vec<usize> {
    let first = bench.snapshot.machine.nodes.len();
    let paths: Vec<usize> =
        (0..count).map(|n| bench.disk(&format!("sd{}", (b'a' + n as u8) as char))).collect();
    for &path in &paths {
        let drive = bench.drive_of(path);
        drive.wwn = Some(format!("naa.60000000{first:08x}"));
        drive.serial = Some("600000".into());
        drive.transport = Some("fc".into());
        drive.link_speed = Some("16 Gbit".into());
    }
    paths
}

/// A map over so many paths in one group, with this selector and these features.
fn map(count: usize, selector: &str, features: &str) -> (Bench, usize, Vec<usize>) {
    let mut bench = Bench::new();
    let paths = paths(&mut bench, count);
    let numbers: Vec<String> =
        paths.iter().map(|&p| bench.node(p).devno.clone().unwrap()).collect();
    let list = numbers.iter().map(|n| format!("{n} 1")).collect::<Vec<_>>().join(" ");
    let table = format!("0 8 multipath {features} 0 1 1 {selector} 0 {count} 1 {list}");
    let map = bench.dm("dm-0", "mpatha", "mpath-3600", &[table], &paths);
    let states = numbers.iter().map(|n| format!("{n} A 0")).collect::<Vec<_>>().join(" ");
    bench.dm_of(map).status = vec![format!("0 8 multipath 2 0 0 0 1 1 A 0 {count} 0 {states}")];
    (bench, map, paths)
}

fn daemon(bench: &mut Bench, name: &str) {
    bench.snapshot.system.daemons.push(Daemon { name: name.into(), arguments: String::new() });
}

#[test]
fn a_healthy_map_is_not_told() {
    let (mut bench, _, _) = map(2, "service-time", "0");
    daemon(&mut bench, "multipathd");
    assert_eq!(bench.ids(RULES), [""; 0]);
}

#[test]
fn failed_paths_are_told_by_status_or_state() {
    let (mut bench, map, paths) = map(2, "service-time", "0");
    let number = bench.node(paths[1]).devno.clone().unwrap();
    let status = bench.dm_of(map).status[0].replace(&format!("{number} A"), &format!("{number} F"));
    bench.dm_of(map).status = vec![status];
    let defect = bench.one(maps::degraded);
    assert_eq!(defect.gravity, Gravity::High);
    assert!(
        defect.summary.contains("mpatha has lost 1 of its 2 paths (sdb)"),
        "{}",
        defect.summary
    );
    assert!(defect.why.starts_with("one more failure"), "{}", defect.why);
    // Without root the status is not there, but the state of the device is.
    bench.dm_of(map).status.clear();
    bench.drive_of(paths[1]).state = Some("offline".into());
    let defect = bench.one(maps::degraded);
    assert_eq!(defect.evidence[0].value, "offline");
    bench.drive_of(paths[0]).state = Some("blocked".into());
    assert!(bench.one(maps::degraded).why.starts_with("no I/O to it"));
}

#[test]
fn one_path_is_grave_on_a_network_only() {
    let (mut bench, _, paths) = map(1, "service-time", "0");
    assert_eq!(bench.one(maps::single_path).gravity, Gravity::Medium);
    bench.drive_of(paths[0]).transport = Some("sata".into());
    assert_eq!(bench.one(maps::single_path).gravity, Gravity::Low);
    assert_eq!(map(2, "service-time", "0").0.ask(maps::single_path), []);
}

#[test]
fn unequal_links_should_not_take_turns() {
    let (mut bench, _, paths) = map(2, "round-robin", "0");
    assert_eq!(bench.ask(maps::selector), []);
    bench.drive_of(paths[0]).link_speed = Some("8 Gbit".into());
    assert!(bench.one(maps::selector).summary.ends_with("16 Gbit, 8 Gbit"));
    let (mut bench, _, paths) = map(2, "service-time", "0");
    bench.drive_of(paths[0]).link_speed = Some("8 Gbit".into());
    assert_eq!(bench.ask(maps::selector), []);
}

#[test]
fn a_group_wants_paths_of_one_state() {
    let (mut bench, _, paths) = map(2, "service-time", "0");
    let mut set = |first: &str, second: &str| {
        bench.detail_of(paths[0]).access_state = Some(first.into());
        bench.detail_of(paths[1]).access_state = Some(second.into());
        bench.gravities(maps::groups_unequal)
    };
    assert_eq!(set("active/optimized", "active/optimized"), []);
    assert_eq!(set("active/optimized", "active/non-optimized"), [Gravity::Medium]);
    assert_eq!(set("active/optimized", "standby"), [Gravity::High]);
    assert_eq!(bench.one(maps::groups_unequal).evidence.len(), 2);
}

#[test]
fn waiting_for_ever_is_a_note_unless_it_ends() {
    let (mut bench, _, _) = map(2, "service-time", "1 queue_if_no_path");
    assert_eq!(bench.one(maps::queue_forever).certainty, Certainty::Possible);
    let mut says = |value: &str| {
        let defaults = vec![("no_path_retry".into(), value.into())];
        let conf = MultipathConfiguration { defaults, ..MultipathConfiguration::default() };
        bench.snapshot.system.configuration.multipath = Some(conf);
        bench.ask(maps::queue_forever).into_iter().map(|d| d.certainty).collect::<Vec<_>>()
    };
    assert_eq!(says("queue"), [Certainty::Certain]);
    assert_eq!(says("12"), []);
    assert_eq!(says("fail"), []);
    assert_eq!(map(2, "service-time", "0").0.ask(maps::queue_forever), []);
}

#[test]
fn maps_want_their_daemon() {
    let (mut bench, _, _) = map(2, "service-time", "0");
    assert_eq!(bench.ask(maps::daemon_missing), [], "processes were not seen");
    daemon(&mut bench, "smartd");
    assert_eq!(bench.one(maps::daemon_missing).gravity, Gravity::High);
    // Where it does not run, nothing comes back by itself.
    let says = |bench: &Bench| {
        let found = bench.ask(maps::degraded);
        found.iter().any(|defect| defect.fix.iter().any(|step| step.text.contains("by itself")))
    };
    bench.drive_of(0).state = Some("offline".into());
    assert!(!says(&bench), "{:?}", bench.ask(maps::degraded));
    daemon(&mut bench, "multipathd");
    assert!(says(&bench), "{:?}", bench.ask(maps::degraded));
    bench.drive_of(0).state = Some("running".into());
    assert_eq!(bench.ask(maps::daemon_missing), []);
}

#[test]
fn paths_without_a_map_are_told_by_their_use() {
    let mut bench = Bench::new();
    let paths = paths(&mut bench, 2);
    assert_eq!(bench.one(beside::no_map).gravity, Gravity::Medium);
    let part = bench.partition("sda1", MIB, paths[0]);
    bench.mounted("ext4", "/srv", part);
    let defect = bench.one(beside::no_map);
    assert_eq!(defect.gravity, Gravity::High);
    assert!(defect.why.starts_with("sda is in use by one path"), "{}", defect.why);
    // A bridge that gives all its drives one name.
    bench.drive_of(paths[1]).serial = Some("600001".into());
    assert_eq!(bench.ask(beside::no_map), []);
    bench.drive_of(paths[1]).serial = None;
    assert_eq!(bench.ask(beside::no_map).len(), 1, "nobody knows");
    // Drives of one name but unlike size are no paths, and those without a name are not known to be.
    bench.node(paths[0]).size_bytes = Some(TB / 2);
    assert_eq!(bench.ask(beside::no_map), []);
    assert_eq!(map(2, "service-time", "0").0.ask(beside::no_map), []);
}

#[test]
fn use_beside_a_map_or_an_array_is_told() {
    let (mut bench, _, paths) = map(2, "service-time", "0");
    // The kernel shows a partition on each path; nobody uses it.
    let part = bench.partition("sda1", MIB, paths[0]);
    assert_eq!(bench.ask(beside::in_use), []);
    bench.mounted("ext4", "/srv", part);
    let defect = bench.one(beside::in_use);
    assert_eq!((defect.gravity, defect.node.as_deref()), (Gravity::High, Some("/dev/sda")));
    assert!(defect.summary.contains("a path of the multipath map mpatha"), "{}", defect.summary);
    // The arrays of a firmware's RAID share their disks with the container.
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    let container = bench.md("md127", "container", &disks);
    bench.md_of(container).metadata_version = Some("external:imsm".into());
    let volume = bench.md("md126", "raid1", &disks);
    assert_eq!(bench.ask(beside::in_use).len(), 0);
    bench.md_of(volume).metadata_version = Some("1.2".into());
    bench.md_of(container).metadata_version = Some("1.2".into());
    assert!(!bench.ask(beside::in_use).is_empty());
}

#[test]
fn a_wide_blacklist_is_told_when_it_hides_paths() {
    let conf = |kind: &str, pattern: &str| MultipathConfiguration {
        blacklist: vec![(kind.into(), pattern.into())],
        ..MultipathConfiguration::default()
    };
    for (kind, pattern, count) in [
        ("devnode", "^sd", 1),
        ("devnode", "\"^sd[a-z]\"", 1),
        ("devnode", ".*", 1),
        ("devnode", "^(ram|sd|loop)", 1),
        ("devnode", "^(ram|loop|dm-)[0-9]*", 0),
        ("devnode", "^sda$", 0),
        ("wwid", "*", 1),
        ("wwid", "3600508b4", 0),
    ] {
        let mut bench = Bench::new();
        paths(&mut bench, 2);
        bench.snapshot.system.configuration.multipath = Some(conf(kind, pattern));
        assert_eq!(bench.ask(configuration::blacklist).len(), count, "{kind} {pattern}");
        if count == 1 {
            bench.one(configuration::blacklist);
        }
    }
    let mut bench = Bench::new();
    bench.disk("sda");
    bench.snapshot.system.configuration.multipath = Some(conf("devnode", ".*"));
    assert_eq!(bench.ask(configuration::blacklist), [], "there is nothing to bring together");
}

#[test]
fn lvm_wants_to_know_paths_or_to_be_kept_from_them() {
    let (mut bench, _, _) = map(2, "service-time", "0");
    let mut says = |lvm: LvmConfiguration| {
        bench.snapshot.system.configuration.lvm = Some(lvm);
        bench.ask(configuration::lvm_filter).len()
    };
    let off = LvmConfiguration {
        multipath_component_detection: Some(false),
        ..LvmConfiguration::default()
    };
    assert_eq!(says(off.clone()), 1);
    assert_eq!(says(LvmConfiguration::default()), 0);
    assert_eq!(says(LvmConfiguration { devices_file_exists: true, ..off.clone() }), 0);
    let filter =
        |entry: &str| LvmConfiguration { global_filter: vec![entry.into()], ..off.clone() };
    assert_eq!(says(filter("r|.*|")), 0);
    assert_eq!(says(filter("r|^/dev/sd|")), 0);
    assert_eq!(says(filter("a|/dev/mapper/|")), 1);
    bench.snapshot.system.configuration.lvm = Some(off);
    bench.one(configuration::lvm_filter);
}

#[test]
fn friendly_names_are_a_note() {
    let (mut bench, map, _) = map(2, "service-time", "0");
    let conf = |value: &str| MultipathConfiguration {
        defaults: vec![("user_friendly_names".into(), value.into())],
        ..MultipathConfiguration::default()
    };
    bench.snapshot.system.configuration.multipath = Some(conf("yes"));
    assert_eq!(bench.one(configuration::friendly_names).gravity, Gravity::Low);
    bench.dm_of(map).name = Some("data1".into());
    assert_eq!(bench.ask(configuration::friendly_names), []);
    bench.dm_of(map).name = Some("mpatha".into());
    bench.snapshot.system.configuration.multipath = Some(conf("no"));
    assert_eq!(bench.ask(configuration::friendly_names), []);
}

/// A namespace over so many paths by this transport.
fn namespace(count: usize, transport: &str) -> (Bench, Vec<usize>) {
    let mut bench = Bench::new();
    let paths: Vec<usize> = (0..count).map(|n| bench.nvme(&format!("nvme0c{n}n1"))).collect();
    for &path in &paths {
        bench.drive_of(path).state = Some("optimized".into());
        bench.detail_of(path).host = Some("nvme0".into());
    }
    let host = StorageHost {
        name: "nvme0".into(),
        transport: Some(transport.into()),
        ..StorageHost::default()
    };
    bench.snapshot.system.hosts = vec![host];
    let head = bench.device(NodeKind::NvmeMultipath, "nvme0n1", TB, &paths);
    bench.drive_of(head).io_policy = Some("round-robin".into());
    (bench, paths)
}

#[test]
fn nvme_paths_are_told_by_state_number_and_policy() {
    let (mut bench, paths) = namespace(2, "tcp");
    assert_eq!(bench.ids(RULES), [""; 0]);
    for (state, count) in
        [("live", 0), ("non-optimized", 0), ("inaccessible", 1), ("connecting", 1)]
    {
        bench.drive_of(paths[0]).state = Some(state.into());
        assert_eq!(bench.ask(nvme::path_down).len(), count, "{state}");
    }
    assert_eq!(bench.one(nvme::path_down).gravity, Gravity::High);
    // The controller answers: the other side of the target serves it.
    for (state, gravity) in [("inaccessible", Gravity::Low), ("change", Gravity::Medium)] {
        bench.drive_of(paths[0]).state = Some(state.into());
        let defect = bench.one(nvme::path_down);
        assert_eq!((defect.gravity, defect.certainty), (gravity, Certainty::Possible), "{state}");
        let fix: Vec<&str> = defect.fix.iter().map(|step| step.text.as_str()).collect();
        assert!(fix.iter().all(|text| !text.contains("reconnect")), "{fix:?}");
        // Where nothing serves it, all wait.
        let other = bench.drive_of(paths[1]).state.replace(state.into());
        let defect = bench.one(nvme::path_down);
        assert_eq!((defect.gravity, defect.concerns.len()), (Gravity::High, 2));
        bench.drive_of(paths[1]).state = other;
    }
    bench.drive_of(paths[0]).state = Some("optimized".into());
    bench.drive_of(2).io_policy = Some("numa".into());
    assert_eq!(bench.one(nvme::io_policy).gravity, Gravity::Low);
    bench.drive_of(paths[0]).state = Some("non-optimized".into());
    assert_eq!(bench.ask(nvme::io_policy), [], "the other path is the better one");
    assert_eq!(namespace(1, "tcp").0.one(nvme::single_path).gravity, Gravity::Medium);
    assert_eq!(namespace(1, "pcie").0.ids(RULES), [""; 0], "a local drive");
}
