//! Rules about who watches: each fires on its facts, and is silent on the healthy neighbour.

use super::*;
use crate::fixtures::Bench;
use fathom_model::snapshot::Unread;
use fathom_model::system::{Daemon, MdadmConfiguration, SmartdConfiguration, Timer};

fn bench() -> Bench {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    let array = bench.md("md0", "raid1", &disks);
    bench.mounted("ext4", "/", array);
    bench.snapshot.host.virtualisation = Some("none".into());
    bench
}

fn runs(bench: &mut Bench, name: &str, arguments: &str) {
    bench.snapshot.system.daemons.push(Daemon { name: name.into(), arguments: arguments.into() });
}

#[test]
fn arrays_that_nobody_watches() {
    let mut bench = bench();
    runs(&mut bench, "mdadm", "--grow --continue");
    assert!(bench.one(watch::md_no_monitor).summary.contains("/dev/md0"));
    for arguments in ["--monitor --scan", "--follow", "-Fs"] {
        bench.snapshot.system.daemons[0].arguments = arguments.into();
        assert!(bench.ask(watch::md_no_monitor).is_empty(), "{arguments}");
    }
}

#[test]
fn a_daily_look_suffices() {
    let mut bench = bench();
    let timer = Timer { kind: "watch".into(), enabled: true, ..Timer::default() };
    bench.snapshot.system.timers = vec![timer];
    assert!(bench.ask(watch::md_no_monitor).is_empty());
    bench.snapshot.system.timers[0].enabled = false;
    assert_eq!(bench.ask(watch::md_no_monitor).len(), 1);
}

#[test]
fn nothing_follows_from_processes_that_cannot_be_seen() {
    let mut bench = bench();
    bench.snapshot.unread = vec![Unread { what: "/proc".into(), why: "no permission".into() }];
    assert!(bench.ask(watch::md_no_monitor).is_empty());
    assert!(bench.ask(watch::smart_no_monitor).is_empty());
}

#[test]
fn stripes_without_redundancy_need_no_monitor() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    bench.md("md0", "raid0", &disks);
    assert!(bench.ask(watch::md_no_monitor).is_empty());
}

#[test]
fn a_monitor_without_anybody_to_tell() {
    let mut bench = bench();
    runs(&mut bench, "mdadm", "--monitor --scan --syslog");
    bench.snapshot.system.configuration.mdadm = Some(MdadmConfiguration::default());
    assert_eq!(bench.ask(watch::md_no_alarm).len(), 1);
    bench.one(watch::md_no_alarm);
    bench.snapshot.system.daemons[0].arguments += " --program";
    assert!(bench.ask(watch::md_no_alarm).is_empty());
    bench.snapshot.system.daemons[0].arguments = "--monitor".into();
    bench.snapshot.system.configuration.mdadm =
        Some(MdadmConfiguration { alarm: true, arrays: Vec::new() });
    assert!(bench.ask(watch::md_no_alarm).is_empty());
    bench.snapshot.system.configuration.mdadm = None;
    let what = "/etc/mdadm/mdadm.conf".to_owned();
    bench.snapshot.unread = vec![Unread { what, why: "no permission".into() }];
    assert!(bench.ask(watch::md_no_alarm).is_empty(), "it could not be read");
}

#[test]
fn drives_that_nobody_watches() {
    let mut bench = bench();
    assert!(bench.one(watch::smart_no_monitor).summary.contains("/dev/sda, /dev/sdb"));
    bench.snapshot.host.virtualisation = Some("kvm".into());
    assert!(bench.ask(watch::smart_no_monitor).is_empty(), "the host's business");
    bench.snapshot.host.virtualisation = Some("none".into());
    runs(&mut bench, "smartd", "-n");
    assert!(bench.ask(watch::smart_no_monitor).is_empty());
}

#[test]
fn drives_that_a_list_misses() {
    let mut bench = bench();
    let nvme = bench.nvme("nvme0n1");
    bench.mounted("ext4", "/fast", nvme);
    runs(&mut bench, "smartd", "-n");
    let disk = Scene::new(&bench.snapshot).device("sdb").unwrap();
    bench.detail_of(disk).links = vec!["by-id/wwn-0x5000c500".into()];
    let devices = |names: &[&str]| SmartdConfiguration {
        devices: names.iter().map(|name| (*name).to_owned()).collect(),
        alarm: true,
        ..SmartdConfiguration::default()
    };
    let all = ["/dev/sda", "/dev/disk/by-id/wwn-0x5000c500", "/dev/nvme0"];
    bench.snapshot.system.configuration.smartd = Some(devices(&all));
    assert!(bench.ask(watch::smart_misses_drives).is_empty());
    bench.snapshot.system.configuration.smartd = Some(devices(&all[..1]));
    let defect = bench.one(watch::smart_misses_drives);
    assert_eq!(defect.summary, "smartd watches /dev/sda, but not /dev/sdb, /dev/nvme0n1");
    // `an` is no namespace of a controller `a`.
    let far = bench.disk("sdan");
    bench.mounted("ext4", "/far", far);
    bench.snapshot.system.configuration.smartd = Some(devices(&all));
    let summary = bench.one(watch::smart_misses_drives).summary;
    assert!(summary.ends_with(", but not /dev/sdan"), "{summary}");
    bench.snapshot.system.configuration.smartd.as_mut().unwrap().scan = true;
    assert!(bench.ask(watch::smart_misses_drives).is_empty(), "it scans");
}

#[test]
fn a_watcher_of_drives_without_an_address() {
    let mut bench = bench();
    bench.snapshot.system.configuration.smartd =
        Some(SmartdConfiguration { scan: true, ..SmartdConfiguration::default() });
    assert!(bench.ask(watch::smart_no_alarm).is_empty(), "it does not run");
    runs(&mut bench, "smartd", "-n");
    bench.one(watch::smart_no_alarm);
    bench.snapshot.system.configuration.smartd.as_mut().unwrap().alarm = true;
    assert!(bench.ask(watch::smart_no_alarm).is_empty());
}
