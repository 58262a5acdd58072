//! A whole system from recorded files.

use fathom_inspect::{Moment, system_facts};
use fathom_model::snapshot::{Machine, Snapshot};
use fathom_model::system::SystemFacts;
use fathom_testkit::Tree;

/// A server with a little of everything.
const SERVER: &str = r#"
[proc]
cmdline = root=/dev/sda1 quiet
stat = cpu  80 0 0 10 0 0 0 10 0 0
swaps = Filename Type Size Used Priority\n/dev/sda5 partition 1024 8 -2
interrupts = CPU0 CPU1\n 40: 7 9 PCI-MSI 1-edge nvme0q1
self/mountinfo = 30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
2/comm = kthreadd
81/comm = mdadm
81/cmdline = /sbin/mdadm
90/comm = md0_resync
91/comm = cron
91/cmdline = cron
sys/vm/dirty_ratio = 20
sys/dev/raid/speed_limit_min = 1000
sys/dev/raid/speed_limit_max = 200000
diskstats = 8 0 sda 10 1 80 5 20 2 160 9 0 12 14
irq/40/smp_affinity_list = 0-1
[sys]
devices/system/cpu/online = 0-1
devices/system/cpu/cpufreq/policy0/affected_cpus = 0 1
devices/system/cpu/cpufreq/policy0/scaling_governor = powersave
devices/system/cpu/cpu0/cpuidle/state0/name = POLL
devices/system/cpu/cpu0/cpuidle/state0/latency = 0
module/nvme/parameters/poll_queues = 0
class/dmi/id/sys_vendor = Hetzner
fs/cgroup/db/io.max = 8:0 rbps=max wbps=max riops=100 wiops=max
block/sda/size = 8
[etc]
crontab = 0 4 * * * root rsync -a /srv /copy
fstab = /dev/sda1 / ext4 defaults 0 1
mdadm.conf = MAILADDR root
[dev]
kmsg = 3,1,500,-;I/O error, dev sda, sector 1
"#;

fn read(tree: &Tree) -> (SystemFacts, usize) {
    let moment = Moment { now_unix_s: 1_795_316_400, utc_offset_s: 3600 };
    let (facts, unread) = system_facts(&tree.root(), &Machine::default(), &moment);
    (facts, unread.len())
}

#[test]
fn files_that_make_no_sense_are_told() {
    let tree = Tree::of_text(SERVER);
    for (count, file) in ["swaps", "stat", "meminfo"].into_iter().enumerate() {
        tree.put(format!("proc/{file}"), "a b c\n");
        assert_eq!(read(&tree).1, count + 1, "{file}");
    }
}

/// Snapshots are sent around.
#[test]
fn secrets_of_the_command_line_are_not_kept() {
    let tree = Tree::new();
    let line = "ro rd.iscsi.password=abc netroot=iscsi:user:pw@10.0.0.1::3260 root=UUID=1 quiet\n";
    tree.put("proc/cmdline", line);
    let kept = "ro rd.iscsi.password=... netroot=... root=UUID=1 quiet";
    assert_eq!(read(&tree).0.command_line.as_deref(), Some(kept));
}

#[test]
fn every_part_of_a_system_is_read() {
    let (facts, unread) = read(&Tree::of_text(SERVER));
    assert_eq!(unread, 0);
    assert_eq!(facts.command_line.as_deref(), Some("root=/dev/sda1 quiet"));
    assert_eq!((facts.stolen_share, facts.cpus_online), (Some(0.1), Some(2)));
    assert_eq!((facts.vm.len(), facts.raid_speed_limit_kib), (1, Some((1000, 200_000))));
    assert_eq!((facts.swaps.len(), facts.interrupts.len()), (1, 1));
    assert_eq!((facts.cpu_frequency[0].cpus.as_str(), facts.cpu_idle.len()), ("0-1", 1));
    assert_eq!(facts.module_parameters[0].0, "nvme.poll_queues");
    let daemons: Vec<_> = facts.daemons.iter().map(|daemon| daemon.name.as_str()).collect();
    assert_eq!(
        (daemons, facts.kernel_threads.as_slice()),
        (vec!["cron", "mdadm"], ["md0_resync".to_owned()].as_slice())
    );
    // At four in the local time, which is one hour ahead: that was when it was three, so tomorrow.
    let timer = &facts.timers[0];
    assert_eq!((timer.kind.as_str(), timer.enabled), ("backup", true));
    assert_eq!(timer.next_unix_s, Some(1_795_316_400 + 86_400));
    assert_eq!((facts.io_limits.len(), facts.cloud.as_deref()), (1, Some("Hetzner Cloud")));
    assert_eq!((facts.kernel_log.len(), facts.kernel_log_read), (1, true));
    assert!(facts.configuration.mdadm.as_ref().is_some_and(|mdadm| mdadm.alarm));
    assert_eq!((facts.configuration.fstab.len(), facts.io_now.len()), (1, 0));
    let text = serde_json::to_string(&facts).expect("JSON");
    assert_eq!(serde_json::from_str::<SystemFacts>(&text).expect("facts"), facts);
}

#[test]
fn a_system_that_tells_nothing_has_no_facts() {
    let (facts, unread) = read(&Tree::new());
    assert_eq!((facts, unread), (SystemFacts::default(), 0));
}

/// What cannot be read is listed, and everything else is read all the same.
#[test]
fn files_that_are_none_are_listed() {
    let tree = Tree::of_text(SERVER);
    tree.link("etc/smartd.conf", "/dev/zero")
        .put("etc/cron.d/dir/x", "")
        .link("etc/lvm/lvm.conf", "lvm.conf");
    let (facts, unread) = read(&tree);
    assert_eq!(unread, 3);
    assert_eq!((facts.timers.len(), facts.configuration.smartd), (1, None));
}

/// Every file of the machine damaged in turn, in several ways.
#[test]
fn damaged_files_are_read_without_a_crash() {
    let files = SERVER.lines().filter_map(|line| line.split_once(" = ").map(|(path, _)| path));
    let mut prefix = String::new();
    let mut paths = Vec::new();
    for line in SERVER.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            prefix = name.to_owned();
        } else if let Some((path, _)) = line.split_once(" = ") {
            paths.push(format!("{prefix}/{path}"));
        }
    }
    assert_eq!(paths.len(), files.count());
    let damages: [&[u8]; 9] = [
        b"",
        b"-1",
        b"18446744073709551615",
        b"18446744073709551615 18446744073709551615 18446744073709551615 18446744073709551615",
        b"9223372036854775807:9223372036854775807 riops=0 *-* *:*:*",
        b"\xff\xfe\x00\x80",
        b"99999999999999999999999 : - , / = { } [ ] \"",
        &[b'1'; 100_000],
        b"\n\n \n",
    ];
    for path in &paths {
        for damage in damages {
            let tree = Tree::of_text(SERVER);
            tree.put(path, damage);
            let (facts, unread) = read(&tree);
            // Of these the first line shows what they are.
            let may_show = ["proc/stat", "proc/swaps"].contains(&path.as_str());
            let is_told = path == "proc/2/comm" || may_show && unread > 0;
            assert_eq!(unread, usize::from(is_told), "{path}");
            let kept = usize::from(facts.command_line.is_some())
                + facts.swaps.len()
                + facts.io_limits.len()
                + facts.timers.len();
            assert!(kept >= 3, "{path}: {facts:?}");
            let _ = fathom_check::check(&Snapshot { system: facts, ..Snapshot::default() });
        }
    }
}
