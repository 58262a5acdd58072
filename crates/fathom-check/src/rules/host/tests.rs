//! Rules about the machine: each fires on its facts, and is silent on the healthy neighbour.

use super::*;
use crate::fixtures::{Bench, GIB, MIB};
use fathom_model::defect::{Defect, Gravity};
use fathom_model::system::{
    CpuFrequency, CpuIdle, Daemon, FstabEntry, Interrupt, IoLimit, IoNow, LogLine, StorageHost,
    Swap, Timer,
};

/// A healthy server: two NVMe drives and two disks in mirrors, the second one with data.
fn server() -> Bench {
    let mut bench = Bench::new();
    let drives = [bench.nvme("nvme0n1"), bench.nvme("nvme1n1")];
    let system = bench.md("md0", "raid1", &drives);
    bench.mounted("ext4", "/", system);
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    let data = bench.md("md1", "raid1", &disks);
    bench.mounted("xfs", "/srv", data);
    let snapshot = &mut bench.snapshot;
    snapshot.made_at_unix_s = 1_795_316_400;
    snapshot.host.virtualisation = Some("none".into());
    snapshot.host.memory_total_bytes = Some(64 * GIB);
    snapshot.host.memory_available_bytes = Some(40 * GIB);
    snapshot.host.clock_source = Some("tsc".into());
    snapshot.host.clock_sources = vec!["tsc".into(), "hpet".into()];
    snapshot.host.vulnerabilities = vec!["meltdown: Not affected".into()];
    snapshot.system.cpus_online = Some(16);
    snapshot.system.stolen_share = Some(0.0);
    snapshot.system.vm = vec![("dirty_writeback_centisecs".into(), "500".into())];
    snapshot.system.cpu_frequency = vec![CpuFrequency {
        cpus: "0-15".into(),
        driver: Some("intel_pstate".into()),
        governor: Some("powersave".into()),
        energy_preference: Some("balance_performance".into()),
        ..CpuFrequency::default()
    }];
    snapshot.system.daemons = vec![
        daemon("mdadm", "--monitor --scan"),
        daemon("smartd", "-n"),
        daemon("cron", "-f"),
        daemon("irqbalance", ""),
    ];
    snapshot.system.configuration.mdadm =
        Some(fathom_model::system::MdadmConfiguration { alarm: true, arrays: Vec::new() });
    snapshot.system.configuration.smartd = Some(fathom_model::system::SmartdConfiguration {
        scan: true,
        alarm: true,
        ..fathom_model::system::SmartdConfiguration::default()
    });
    bench
}

fn daemon(name: &str, arguments: &str) -> Daemon {
    Daemon { name: name.into(), arguments: arguments.into() }
}

fn evidence(defect: &Defect) -> String {
    let lines = defect.evidence.iter().map(|e| format!("{}: {}", e.source, e.value));
    lines.collect::<Vec<_>>().join("\n")
}

fn commands(defect: &Defect) -> String {
    let commands = defect.fix.iter().filter_map(|step| step.command.clone());
    commands.collect::<Vec<_>>().join("\n")
}

#[test]
fn nothing_is_said_of_a_healthy_server() {
    assert_eq!(server().ids(RULES), [""; 0]);
}

/// What a stock Debian guest has: one virtio disk that says it rotates, swap on it, one queue, weekly discards.
#[test]
fn nothing_is_said_of_a_stock_virtual_machine() {
    let mut bench = Bench::new();
    let disk = bench.disk("vda");
    bench.drive_of(disk).transport = Some("virtio".into());
    let root = bench.partition("vda1", MIB, disk);
    bench.mounted("ext4", "/", root);
    let swap = bench.partition("vda5", GIB, disk);
    let snapshot = &mut bench.snapshot;
    snapshot.made_at_unix_s = 1_795_316_400;
    snapshot.host.virtualisation = Some("kvm".into());
    snapshot.host.clock_source = Some("kvm-clock".into());
    snapshot.host.memory_total_bytes = Some(2 * GIB);
    snapshot.host.memory_available_bytes = Some(GIB);
    snapshot.system.cpus_online = Some(2);
    snapshot.system.swaps = vec![Swap {
        path: "/dev/vda5".into(),
        used_bytes: 300 * MIB,
        node: Some("/dev/vda5".into()),
        ..Swap::default()
    }];
    snapshot.system.interrupts = vec![interrupt(36, "virtio1-req.0", &[(1, 9_000_000)])];
    snapshot.system.timers = vec![
        timer("fstrim.timer", "trim", Some(20 * 3600)),
        timer("e2scrub_all.timer", "scrub", Some(600)),
    ];
    snapshot.system.configuration.fstab =
        vec![entry("/dev/vda1", "/", "ext4", "errors=remount-ro")];
    assert_eq!(bench.ids(RULES), [""; 0]);
    assert_eq!(bench.node(swap).name, "vda5");
}

#[test]
fn governors_and_preferences_that_hold_back() {
    let mut bench = server();
    bench.snapshot.system.cpu_frequency[0].energy_preference = Some("balance_power".into());
    let defect = bench.one(processors::governor);
    assert_eq!(
        defect.summary,
        "CPUs 0-15 run with balance_power: they stay slow while they wait for I/O"
    );
    assert_eq!(
        commands(&defect),
        "echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference"
    );
    let policy = &mut bench.snapshot.system.cpu_frequency[0];
    (policy.driver, policy.energy_preference) = (Some("acpi-cpufreq".into()), None);
    assert!(bench.one(processors::governor).summary.contains("run with powersave"));
    bench.snapshot.system.cpu_frequency[0].governor = Some("schedutil".into());
    assert!(bench.ask(processors::governor).is_empty());
}

#[test]
fn deep_sleep_matters_where_a_drive_is_faster() {
    let state =
        |name: &str, us, disabled| CpuIdle { name: name.into(), exit_latency_us: us, disabled };
    let mut bench = server();
    bench.snapshot.system.cpu_idle =
        vec![state("POLL", 0, false), state("C6", 149, false), state("C8", 150, true)];
    assert!(bench.ask(processors::deep_idle).is_empty(), "shallow or switched off");
    bench.snapshot.system.cpu_idle[2].disabled = false;
    let defect = bench.one(processors::deep_idle);
    assert_eq!(
        evidence(&defect),
        "/sys/devices/system/cpu/cpu0/cpuidle/state2/latency: 150 us (C8)"
    );
    bench.snapshot.host.virtualisation = Some("kvm".into());
    assert!(bench.ask(processors::deep_idle).is_empty(), "the host decides");
}

#[test]
fn page_table_isolation_is_told_for_fast_drives() {
    let mut bench = server();
    bench.snapshot.host.vulnerabilities = vec!["meltdown: Mitigation: PTI".into()];
    assert_eq!(bench.one(processors::mitigations).gravity, Gravity::Low);
    let mut slow = Bench::new();
    slow.snapshot.host.vulnerabilities = vec!["meltdown: Mitigation: PTI".into()];
    let disk = slow.disk("sda");
    slow.mounted("ext4", "/", disk);
    assert!(slow.ask(processors::mitigations).is_empty());
}

fn interrupt(irq: u64, name: &str, counts: &[(u64, u64)]) -> Interrupt {
    Interrupt {
        irq,
        name: name.into(),
        counts: counts.to_vec(),
        allowed_cpus: Some("0-15".into()),
        effective_cpus: Some("0".into()),
    }
}

#[test]
fn queues_that_share_a_processor_are_told() {
    let mut bench = server();
    let admin = interrupt(30, "nvme0q0", &[(3, 9_000_000)]);
    let queues = [(0, 700_000), (1, 20_000)];
    bench.snapshot.system.interrupts =
        vec![admin, interrupt(31, "nvme0q1", &queues), interrupt(32, "nvme0q2", &[(0, 650_000)])];
    let defect = bench.one(processors::interrupts);
    assert_eq!(
        defect.summary,
        "CPU 0 of 16 has served 99 % of the interrupts of 2 storage queues since boot"
    );
    assert!(!commands(&defect).contains("irqbalance"), "it runs already");
    bench.snapshot.system.daemons.clear();
    assert!(
        commands(&bench.one(processors::interrupts))
            .starts_with("systemctl enable --now irqbalance")
    );
    bench.snapshot.system.interrupts[2].counts = vec![(5, 650_000)];
    assert!(bench.ask(processors::interrupts).is_empty(), "spread");
}

#[test]
fn a_line_with_other_devices_on_it_is_told() {
    let mut bench = server();
    bench.snapshot.system.interrupts =
        vec![interrupt(31, "nvme0q1", &[(0, 7)]), interrupt(17, "ahci[0000:00:1f.2]", &[(0, 9)])];
    assert!(bench.ask(processors::shared_interrupt).is_empty());
    for name in ["nvme0q0, nvme0q1", "virtio1-config, virtio1-req.0"] {
        bench.snapshot.system.interrupts[1].name = name.into();
        assert!(bench.ask(processors::shared_interrupt).is_empty(), "one device: {name}");
    }
    bench.snapshot.system.interrupts[1].name = "nvme0q0, nvme1q0".into();
    assert_eq!(bench.one(processors::shared_interrupt).gravity, Gravity::Low);
    bench.snapshot.system.interrupts[1].name = "megasas, ehci_hcd:usb1".into();
    let defect = bench.one(processors::shared_interrupt);
    assert_eq!(defect.summary, "interrupt 17 is shared by megasas, ehci_hcd:usb1");
    assert_eq!(evidence(&defect), "/proc/interrupts: 17: megasas, ehci_hcd:usb1, 9 in all");
}

#[test]
fn parameters_of_trials_are_told_while_they_mean_something() {
    let of = |line: &str, kernel: &str, virtualisation: &str| {
        let mut bench = server();
        bench.snapshot.system.command_line = Some(line.into());
        bench.snapshot.host.kernel = Some(kernel.into());
        bench.snapshot.host.virtualisation = Some(virtualisation.into());
        bench.gravities(boot::parameters)
    };
    for (line, expected) in [
        ("root=/dev/sda1 ro quiet", vec![]),
        ("ro mem=4G", vec![Gravity::Medium]),
        ("ro memmap=4G$8G remember=1 maxcpus=2", vec![Gravity::Medium]),
        ("pci=noaer,nomsi", vec![Gravity::Medium]),
        ("pci=noaer acpi=force", vec![]),
        ("acpi=off", vec![Gravity::Medium]),
        ("elevator=deadline", vec![Gravity::Low]),
        ("elevator=deadline noapic", vec![Gravity::Medium]),
    ] {
        assert_eq!(of(line, "6.1.0-18-amd64", "none"), expected, "{line}");
    }
    assert_eq!(of("elevator=deadline", "5.3.0", "none"), [], "it still has an effect");
    assert_eq!(of("mem=1024M", "6.1.176", "uml"), [], "so it gets its memory");
}

#[test]
fn one_busy_queue_or_few_interrupts_say_nothing() {
    let mut bench = server();
    bench.snapshot.system.interrupts = vec![
        interrupt(31, "virtio1-req.0", &[(0, 9_000_000)]),
        interrupt(32, "virtio2-req.0", &[(0, 1000)]),
    ];
    assert!(bench.ask(processors::interrupts).is_empty(), "one does it all");
    bench.snapshot.system.interrupts =
        vec![interrupt(31, "nvme0q1", &[(0, 400_000)]), interrupt(32, "nvme0q2", &[(0, 400_000)])];
    assert!(bench.ask(processors::interrupts).is_empty(), "too few");
}

#[test]
fn stolen_time_by_its_share() {
    let mut bench = server();
    for (share, gravity) in
        [(0.029, None), (0.03, Some(Gravity::Low)), (0.1, Some(Gravity::Medium))]
    {
        bench.snapshot.system.stolen_share = Some(share);
        assert_eq!(bench.gravities(processors::stolen_time).first().copied(), gravity, "{share}");
    }
}

#[test]
fn clocks_that_are_slow_to_read() {
    let mut bench = server();
    bench.snapshot.host.clock_source = Some("hpet".into());
    let defect = bench.one(processors::slow_clock);
    assert!(
        commands(&defect).ends_with(
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
        )
    );
    bench.snapshot.host.clock_source = Some("jiffies".into());
    assert_eq!(bench.gravities(processors::slow_clock), [Gravity::High]);
}

#[test]
fn a_strict_iommu_is_told_for_nvme() {
    let mut bench = server();
    let host = |name: &str, kind: &str| StorageHost {
        name: name.into(),
        pci_address: Some("0000:01:00.0".into()),
        iommu_type: Some(kind.into()),
        ..StorageHost::default()
    };
    bench.snapshot.system.hosts = vec![host("nvme0", "DMA-FQ"), host("host3", "DMA")];
    assert!(bench.ask(processors::iommu_strict).is_empty());
    bench.snapshot.system.hosts.push(host("nvme1", "DMA"));
    assert_eq!(
        evidence(&bench.one(processors::iommu_strict)),
        "/sys/bus/pci/devices/0000:01:00.0/iommu_group/type: DMA"
    );
}

fn swap(bench: &mut Bench, path: &str, used_bytes: u64) {
    bench.snapshot.system.swaps.push(Swap {
        path: path.into(),
        size_bytes: 8 * GIB,
        used_bytes,
        node: Some(path.into()),
        ..Swap::default()
    });
}

#[test]
fn swap_in_use_while_memory_is_short() {
    let mut bench = server();
    swap(&mut bench, "/dev/md0", 4 * GIB);
    assert!(bench.ask(memory::swapping).is_empty(), "there is memory");
    bench.snapshot.host.memory_available_bytes = Some(6 * GIB);
    assert_eq!(bench.one(memory::swapping).gravity, Gravity::Medium);
    bench.snapshot.system.swaps[0].used_bytes = 3 * GIB;
    assert!(bench.ask(memory::swapping).is_empty(), "little is in it");
}

#[test]
fn swap_that_is_used_on_spindles_with_data() {
    let mut bench = server();
    swap(&mut bench, "/dev/md1", 64 * MIB);
    let defect = bench.one(memory::swap_same_disks);
    assert_eq!(defect.summary, "swap (64 MiB in use) lies on the spindles of /srv: /dev/sda");
    assert_eq!(commands(&defect), "swapoff /dev/md1");
    bench.snapshot.host.memory_available_bytes = Some(96 * MIB);
    let defect = bench.one(memory::swap_same_disks);
    assert_eq!(commands(&defect), "", "it would not fit into memory");
    assert!(defect.fix[0].text.contains("64 MiB are in swap"), "{}", defect.fix[0].text);
    bench.snapshot.host.memory_available_bytes = Some(40 * GIB);
    bench.snapshot.system.swaps[0].used_bytes -= 1;
    assert!(bench.ask(memory::swap_same_disks).is_empty(), "not used");
    bench.snapshot.system.swaps.clear();
    swap(&mut bench, "/dev/md0", 4 * GIB);
    assert!(bench.ask(memory::swap_same_disks).is_empty(), "drives without spindles");
}

#[test]
fn swap_on_one_disk_beside_a_mirrored_system() {
    let mut bench = server();
    swap(&mut bench, "/dev/md0", 0);
    assert!(bench.ask(memory::swap_not_redundant).is_empty());
    swap(&mut bench, "/dev/sda", 0);
    let defect = bench.one(memory::swap_not_redundant);
    assert_eq!(defect.node.as_deref(), Some("/dev/sda"));
    assert_eq!(commands(&defect), "swapoff /dev/sda");
    bench.snapshot.system.swaps[1].used_bytes = 30 * GIB;
    assert_eq!(commands(&bench.one(memory::swap_not_redundant)), "");
    let mut single = Bench::new();
    let disk = single.disk("sda");
    single.mounted("ext4", "/", disk);
    swap(&mut single, "/dev/sda", 0);
    assert!(single.ask(memory::swap_not_redundant).is_empty(), "nothing survives there");
}

#[test]
fn writeback_that_is_switched_off() {
    let mut bench = server();
    bench.snapshot.system.vm = vec![("dirty_writeback_centisecs".into(), "0".into())];
    assert_eq!(bench.one(memory::writeback_off).gravity, Gravity::Medium);
}

#[test]
fn a_limit_of_less_than_half_of_the_memory() {
    let mut bench = server();
    bench.snapshot.host.cgroup_memory_limit_bytes = Some(32 * GIB);
    assert!(bench.ask(memory::memory_limit).is_empty());
    bench.snapshot.host.cgroup_memory_limit_bytes = Some(32 * GIB - 1);
    assert_eq!(bench.one(memory::memory_limit).gravity, Gravity::Low);
}

fn limit(group: &str, file: &str, devno: Option<&str>, value: &str) -> IoLimit {
    IoLimit {
        group: group.into(),
        file: file.into(),
        devno: devno.map(str::to_owned),
        value: value.into(),
    }
}

#[test]
fn limits_are_told_for_each_device() {
    let mut bench = server();
    let devno =
        bench.snapshot.machine.nodes.iter().find(|n| n.name == "sda").and_then(|n| n.devno.clone());
    let devno = devno.as_deref();
    bench.snapshot.system.io_limits = vec![
        limit("/system.slice/db.service", "io.max", devno, "rbps=max wbps=1048576"),
        limit("/x", "io.latency", devno, "target=10"),
        limit("/x", "io.weight", devno, "50"),
        limit("/x", "io.prio.class", None, "idle"),
    ];
    let defect = bench.one(limits::active);
    assert_eq!(
        defect.summary,
        "control groups limit I/O on /dev/sda: /system.slice/db.service, /x"
    );
    let off = format!(
        "echo '{} rbps=max wbps=max riops=max wiops=max' > /sys/fs/cgroup/system.slice/db.service/io.max",
        devno.unwrap_or("")
    );
    assert!(commands(&defect).starts_with(&off), "{}", commands(&defect));
    bench.snapshot.system.io_limits[0].devno = Some("7:99".into());
    assert_eq!(bench.ask(limits::active).len(), 2, "a device that is not in the graph");
    bench.snapshot.targets = vec!["/srv".into()];
    assert_eq!(bench.ask(limits::active).len(), 1, "and nobody asked for it");
}

#[test]
fn weights_that_nothing_gives_out() {
    let mut bench = server();
    bench.snapshot.system.io_limits = vec![limit("/a", "io.weight", None, "200")];
    assert_eq!(bench.one(limits::weight_inert).gravity, Gravity::Low);
    let cost = limit("/", "io.cost.qos", Some("8:0"), "enable=1 ctrl=auto");
    bench.snapshot.system.io_limits.push(cost);
    assert!(bench.ask(limits::weight_inert).is_empty(), "8:0 is the first drive");
    bench.snapshot.system.io_limits.pop();
    let disk = Scene::new(&bench.snapshot).device("sda").unwrap();
    bench.queue_of(disk).scheduler = Some("bfq".into());
    assert!(bench.ask(limits::weight_inert).is_empty());
}

fn timer(name: &str, kind: &str, in_s: Option<i64>) -> Timer {
    Timer {
        name: name.into(),
        file: format!("/lib/systemd/system/{name}"),
        kind: kind.into(),
        schedule: "OnCalendar=weekly".into(),
        next_unix_s: in_s.map(|s| 1_795_316_400 + s),
        enabled: true,
    }
}

#[test]
fn timers_are_told_as_long_before_as_they_last() {
    let mut bench = server();
    bench.snapshot.system.timers = vec![
        timer("fstrim.timer", "trim", Some(3601)),
        timer("mdcheck_start.timer", "md-check", Some(5 * 3600)),
        timer("scrub.timer", "scrub", Some(86_400)),
        timer("late.timer", "backup", Some(86_401)),
        timer("open.timer", "backup", None),
        timer("mdmonitor-oneshot.timer", "watch", Some(60)),
        Timer { enabled: false, ..timer("off.timer", "backup", Some(60)) },
    ];
    let defect = bench.one(activity::soon);
    assert_eq!(
        defect.summary,
        "mdcheck_start.timer (a check of arrays) starts in 5 h 00 min, 1 more within a day"
    );
    assert_eq!(commands(&defect), "systemctl stop mdcheck_start.timer\nsystemctl stop scrub.timer");
    bench.snapshot.system.timers = vec![timer("fstrim.timer", "trim", Some(3600))];
    assert_eq!(bench.ask(activity::soon).len(), 1);
}

#[test]
fn work_in_progress_is_told_and_watching_is_not() {
    let mut bench = server();
    assert!(bench.ask(activity::running).is_empty());
    bench.snapshot.system.daemons.push(daemon("btrfs", "scrub"));
    bench.snapshot.system.kernel_threads = vec!["md0_resync".into(), "btrfs-balance".into()];
    let defect = bench.one(activity::running);
    assert_eq!(defect.summary, "work on storage goes on: btrfs scrub, btrfs-balance");
}

#[test]
fn busy_disks_are_told() {
    let io = |name: &str, operations_per_s, bytes_per_s| IoNow {
        name: name.into(),
        operations_per_s,
        bytes_per_s,
        in_flight: 3,
    };
    let mut bench = server();
    bench.snapshot.system.io_now = vec![io("md1", 9000.0, 9e8), io("sda", 199.0, 19e6)];
    assert!(bench.ask(activity::other_io).is_empty());
    bench.snapshot.system.io_now.extend([io("sdb", 200.0, 1e6), io("nvme0n1", 10.0, 20e6)]);
    let defect = bench.one(activity::other_io);
    assert_eq!(
        defect.summary,
        "nvme0n1 did 10 operations and 20.0 MB/s in a second while fathom looked, and 1 more disks are busy"
    );
}

#[test]
fn volumes_on_credit_in_clouds() {
    let mut bench = server();
    let disk = Scene::new(&bench.snapshot).device("nvme0n1").unwrap();
    bench.drive_of(disk).model = Some("Amazon Elastic Block Store".into());
    assert!(bench.ask(cloud::volumes).is_empty(), "no cloud");
    bench.snapshot.system.cloud = Some("Amazon EC2".into());
    assert_eq!(bench.one(cloud::volumes).node.as_deref(), Some("/dev/nvme0n1"));
    bench.drive_of(disk).model = Some("Amazon EC2 NVMe Instance Storage".into());
    assert!(bench.ask(cloud::volumes).is_empty(), "a local drive");
}

fn entry(source: &str, mount_point: &str, fs_type: &str, options: &str) -> FstabEntry {
    FstabEntry {
        source: source.into(),
        mount_point: mount_point.into(),
        fs_type: fs_type.into(),
        options: options.split(',').map(str::to_owned).collect(),
        pass: 0,
    }
}

#[test]
fn names_that_may_change_where_there_are_several() {
    let mut bench = server();
    let spare = bench.ssd("sdc");
    bench.mounted("ext4", "/copy", spare);
    bench.snapshot.system.configuration.fstab = vec![
        entry("UUID=1", "/", "ext4", "defaults"),
        entry("/dev/md1", "/srv", "xfs", "defaults"),
        entry("/dev/mapper/x", "/x", "xfs", "defaults"),
        entry("/dev/sdc", "/copy", "ext4", "defaults"),
        entry("/dev/sdd1", "/off", "ext4", "noauto"),
    ];
    let defect = bench.one(configuration::unstable_name);
    assert_eq!(defect.node.as_deref(), Some("/dev/sdc"));
    let uuid = "UUID=11111111-2222-3333-4444-";
    assert!(commands(&defect).contains(uuid), "{}", commands(&defect));
    assert!(commands(&defect).starts_with("sed -i.bak 's|^/dev/sdc\\([[:space:]]\\)|UUID="));
}

#[test]
fn one_drive_keeps_its_name_with_several_paths_and_namespaces() {
    let mut bench = Bench::new();
    bench.snapshot.system.configuration.fstab = vec![
        entry("/dev/nvme0n1p2", "/srv", "ext4", "defaults"),
        entry("/dev/mmcblk0p1", "/boot", "vfat", "defaults"),
    ];
    let path = bench.nvme("nvme0c0n1");
    bench.device(NodeKind::NvmeMultipath, "nvme0n1", GIB, &[path]);
    for name in ["nvme0n2", "mmcblk0", "mmcblk0boot0"] {
        bench.nvme(name);
    }
    assert_eq!(bench.ask(configuration::unstable_name), []);
    bench.nvme("nvme1n1");
    assert!(bench.one(configuration::unstable_name).summary.contains("/dev/nvme0n1p2"));
}

#[test]
fn network_disks_are_mounted_after_the_network() {
    let mut bench = server();
    let disk = bench.disk("sdc");
    bench.drive_of(disk).transport = Some("iscsi".into());
    bench.mounted("xfs", "/far", disk);
    bench.snapshot.system.configuration.fstab = vec![
        entry("/dev/sdc", "/far", "xfs", "defaults,_netdev"),
        entry("/dev/md1", "/srv", "xfs", "defaults"),
    ];
    assert!(bench.ask(configuration::no_netdev).is_empty());
    bench.snapshot.system.configuration.fstab[0].options = vec!["nofail".into()];
    let defect = bench.one(configuration::no_netdev);
    assert!(defect.summary.starts_with("/far lies on /dev/sdc, which is reached over the network"));
}

/// libata names the port, not the drive on it: what is told of that drive anyway is not told of "a device" beside it.
#[test]
fn resets_of_a_port_are_told_of_its_drive() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    for (disk, host) in disks.into_iter().zip(["host0", "host1"]) {
        bench.detail_of(disk).host = Some(host.into());
    }
    let line = |text: &str| LogLine { text: text.into(), level: 3, boot_us: 1 };
    bench.snapshot.system.kernel_log =
        vec![line("ata4: hard resetting link"), line("ata4.00: exception Emask 0x0 SAct 0x0")];
    let told = |bench: &Bench| -> Vec<(String, Option<String>)> {
        let found = crate::check(&bench.snapshot).into_iter();
        let ours = found.filter(|d| d.rule == "kernel-log-resets" || d.rule == "drive-offline");
        ours.map(|d| (d.rule, d.node)).collect()
    };
    assert_eq!(told(&bench), [("kernel-log-resets".to_owned(), None)]);
    let host = |name: &str, port| StorageHost {
        name: name.into(),
        ata_port: Some(port),
        ..StorageHost::default()
    };
    bench.snapshot.system.hosts = vec![host("host0", 3), host("host1", 4)];
    let sdb = || Some("/dev/sdb".to_owned());
    assert_eq!(told(&bench), [("kernel-log-resets".to_owned(), sdb())]);
    bench.drive_of(disks[1]).state = Some("offline".into());
    assert_eq!(told(&bench), [("drive-offline".to_owned(), sdb())]);
}
