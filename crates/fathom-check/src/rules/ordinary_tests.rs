//! Ordinary machines, on which the rules about drives, links, queues and controllers find nothing of weight, and whole ones, on
//! which no rule does.

use crate::fixtures::{Bench, GIB, TB};
use crate::rule::Rule;
use crate::rules::{disks, links, queues, vendor};
use crate::scene::Scene;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::detail::{DiskCounters, DriveIdentity, Health};
use fathom_model::stack::{DriveFacts, NodeKind, QueueFacts, ZramFacts};
use fathom_model::system::{
    Daemon, FstabEntry, LvmConfiguration, MdadmConfiguration, MultipathConfiguration, PciLink,
    SmartdConfiguration, StorageHost, Timer,
};

fn found(bench: &Bench) -> Vec<Defect> {
    let groups: [&[Rule]; 4] = [disks::RULES, links::RULES, queues::RULES, vendor::RULES];
    let scene = Scene::new(&bench.snapshot);
    groups.into_iter().flatten().flat_map(|rule| (rule.check)(&scene)).collect()
}

/// Rules that speak, all of them of low gravity.
#[track_caller]
fn assert_low(bench: &Bench, expected: &[&str]) {
    let found = found(bench);
    assert!(found.iter().all(|defect| defect.gravity == Gravity::Low), "{found:#?}");
    let mut ids: Vec<&str> = found.iter().map(|defect| defect.rule.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, expected, "{found:#?}");
}

/// A queue as the kernel sets it up for a device with one hardware queue.
fn queue(rotational: bool) -> QueueFacts {
    QueueFacts {
        logical_block_bytes: Some(512),
        physical_block_bytes: Some(4096),
        minimum_io_bytes: Some(4096),
        optimal_io_bytes: Some(0),
        max_sectors_kib: Some(1280),
        max_hw_sectors_kib: Some(32767),
        requests: Some(64),
        scheduler: Some("mq-deadline".into()),
        schedulers: ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).to_vec(),
        read_ahead_kib: Some(128),
        rotational: Some(rotational),
        write_cache: Some("write back".into()),
        fua: Some(false),
        zoned: Some("none".into()),
        io_poll: Some(false),
        wbt_lat_us: Some(if rotational { 75_000 } else { 2_000 }),
        nomerges: Some(0),
        rq_affinity: Some(1),
        iostats: Some(true),
        numa_node: Some(-1),
        hardware_queues: Some(1),
        tags: Some(32),
        ..QueueFacts::default()
    }
}

/// A healthy drive of a laptop or server, as it says itself.
fn health() -> Health {
    Health {
        passed: Some(true),
        celsius: Some(41),
        power_on_hours: Some(9000),
        reallocated: Some(0),
        pending: Some(0),
        uncorrectable: Some(0),
        interface_crc_errors: Some(0),
        used_percent: Some(7),
        self_test: Some(("passed".into(), 8900)),
        ..Health::default()
    }
}

#[test]
fn a_virtual_machine_with_one_virtio_disk() {
    let mut bench = Bench::new();
    let disk = bench.device(NodeKind::Disk, "vda", 64 * GIB, &[]);
    bench.mounted("ext4", "/", disk);
    bench.snapshot.system.cpus_online = Some(4);
    bench.snapshot.host.kernel = Some("6.18.1".into());
    bench.node(disk).queue = Some(QueueFacts {
        // As a kernel of 2025 sets them up for a virtio disk, which it takes for one that rotates.
        max_sectors_kib: Some(4096),
        max_hw_sectors_kib: Some(2_147_483_647),
        requests: Some(256),
        read_ahead_kib: Some(8192),
        tags: Some(128),
        ..queue(true)
    });
    bench.node(disk).drive = Some(DriveFacts {
        transport: Some("virtio".into()),
        controller: Some("virtio-pci 0000:00:02.0".into()),
        ..DriveFacts::default()
    });
    bench.detail_of(disk).host = Some("virtio2".into());
    let host = StorageHost {
        name: "virtio2".into(),
        driver: Some("virtio_blk".into()),
        ..StorageHost::default()
    };
    bench.snapshot.system.hosts.push(host);
    assert_low(&bench, &[]);
    // The same with a write-through cache, which the host promises.
    bench.queue_of(disk).write_cache = Some("write through".into());
    assert_low(&bench, &[]);
}

#[test]
fn a_guest_with_emulated_sata_and_scsi() {
    let mut bench = Bench::new();
    for (name, transport, model, controller) in [
        ("sda", "sata", "QEMU HARDDISK", "ahci 0000:00:1f.2"),
        ("sdb", "sata", "VBOX HARDDISK", "ata_piix 0000:00:01.1"),
        ("sdc", "virtio-scsi", "QEMU HARDDISK", "virtio-pci 0000:00:05.0"),
        ("sdd", "scsi", "Virtual disk", "vmw_pvscsi 0000:03:00.0"),
    ] {
        let disk = bench.disk(name);
        bench.node(disk).queue = Some(queue(true));
        let drive = bench.drive_of(disk);
        drive.transport = Some(transport.into());
        drive.model = Some(model.into());
        drive.controller = Some(controller.into());
        drive.queue_depth = Some(if name == "sdb" { 1 } else { 32 });
        bench.detail_of(disk).health =
            Some(Health { self_test: Some(("never".into(), 0)), ..health() });
        bench.detail_of(disk).identity = Some(DriveIdentity {
            volatile_cache: Some(true),
            write_cache_enabled: Some(true),
            look_ahead_enabled: Some(true),
            rotation_rpm: Some(1),
            ..DriveIdentity::default()
        });
    }
    assert_low(&bench, &[]);
}

#[test]
fn loop_zram_and_a_memory_card() {
    let mut bench = Bench::new();
    let card = bench.device(NodeKind::Disk, "mmcblk0", 32 * GIB, &[]);
    bench.node(card).queue = Some(QueueFacts {
        max_sectors_kib: Some(512),
        max_hw_sectors_kib: Some(512),
        requests: Some(128),
        tags: Some(64),
        write_cache: Some("write back".into()),
        ..queue(false)
    });
    bench.node(card).drive = Some(DriveFacts {
        transport: Some("mmc".into()),
        model: Some("SD32G".into()),
        ..DriveFacts::default()
    });
    let (fs, _) = bench.mounted("ext4", "/", card);
    let image = bench.loop_device("loop0", &[fs]);
    bench.node(image).queue = Some(QueueFacts {
        scheduler: Some("none".into()),
        requests: Some(128),
        tags: Some(128),
        write_cache: Some("write through".into()),
        ..queue(true)
    });
    bench.node(image).read_only = Some(true);
    let zram = bench.device(NodeKind::Zram, "zram0", 2 * GIB, &[]);
    bench.node(zram).zram = Some(ZramFacts::default());
    bench.node(zram).queue = Some(QueueFacts {
        scheduler: None,
        requests: None,
        wbt_lat_us: None,
        rq_affinity: None,
        write_cache: Some("write through".into()),
        ..queue(false)
    });
    assert_low(&bench, &[]);
}

#[test]
fn a_sata_drive_behind_ahci() {
    let mut bench = Bench::new();
    let disk = bench.ssd("sda");
    bench.mounted("xfs", "/", disk);
    bench.node(disk).queue = Some(queue(false));
    let drive = bench.drive_of(disk);
    drive.controller = Some("ahci 0000:00:17.0".into());
    drive.cache_type = Some("write back".into());
    drive.link_speed_max = None;
    let detail = bench.detail_of(disk);
    detail.host = Some("host0".into());
    detail.health = Some(Health { interface_crc_errors: Some(0), ..health() });
    detail.identity = Some(DriveIdentity {
        volatile_cache: Some(true),
        write_cache_enabled: Some(true),
        look_ahead_enabled: Some(true),
        rotation_rpm: Some(1),
        power_management: Some(254),
        queue_depth: Some(32),
        interface_speed_max: Some("6.0 Gb/s".into()),
        ..DriveIdentity::default()
    });
    detail.queue = vec![("add_random".into(), "0".into())];
    detail.counters =
        Some(DiskCounters { flushes: 5000, flush_ms: 900, ..DiskCounters::default() });
    bench.snapshot.system.hosts.push(StorageHost {
        name: "host0".into(),
        driver: Some("ahci".into()),
        pci_address: Some("0000:00:17.0".into()),
        can_queue: Some(32),
        commands_per_lun: Some(1),
        link_power_policy: Some("med_power_with_dipm".into()),
        ..StorageHost::default()
    });
    assert_low(&bench, &[]);
}

/// Both ends of a link at its best.
fn link(lower: &str, upper: &str, speed: u64, lanes: u64) -> Vec<PciLink> {
    let end = |address: &str| PciLink {
        address: address.into(),
        speed_gts_x10: Some(speed),
        speed_max_gts_x10: Some(speed),
        width: Some(lanes),
        width_max: Some(lanes),
        max_payload_bytes: Some(256),
        max_read_request_bytes: Some(512),
        aer_errors: None,
    };
    vec![end(lower), end(upper)]
}

#[test]
fn the_nvme_drive_of_a_laptop() {
    let mut bench = Bench::new();
    let disk = bench.nvme("nvme0n1");
    bench.mounted("btrfs", "/", disk);
    bench.snapshot.system.cpus_online = Some(16);
    bench.node(disk).queue = Some(QueueFacts {
        max_sectors_kib: Some(512),
        max_hw_sectors_kib: Some(512),
        requests: Some(1023),
        scheduler: Some("none".into()),
        hardware_queues: Some(16),
        tags: Some(1023),
        ..queue(false)
    });
    bench.drive_of(disk).queue_depth = None;
    let detail = bench.detail_of(disk);
    detail.host = Some("nvme0".into());
    detail.health = Some(Health {
        celsius: Some(48),
        celsius_limit: Some(83),
        spare_percent: Some((100, 10)),
        critical_warning: Some(0),
        hot_minutes: Some((12, 0)),
        ..health()
    });
    detail.identity = Some(DriveIdentity {
        volatile_cache: Some(true),
        write_cache_enabled: Some(true),
        formats: vec![(512, 0, 0)],
        format: Some(0),
        power_state_transitions: Some(true),
        ..DriveIdentity::default()
    });
    let mut path = link("0000:01:00.0", "0000:00:06.0", 160, 4);
    // A port that could do more than the drive.
    path[1].speed_max_gts_x10 = Some(320);
    bench.snapshot.system.hosts.push(StorageHost {
        name: "nvme0".into(),
        driver: Some("nvme".into()),
        pci_address: Some("0000:01:00.0".into()),
        link: path,
        aer_errors: Some((3, 0, 0)),
        latency_tolerance_us: Some("100000".into()),
        transport: Some("pcie".into()),
        ..StorageHost::default()
    });
    assert_low(&bench, &["nvme-power-saving"]);
}

#[test]
fn a_well_built_server() {
    let mut bench = Bench::new();
    bench.snapshot.host.numa_nodes = Some(2);
    bench.snapshot.system.cpus_online = Some(64);
    let mut disks = Vec::new();
    for name in ["sda", "sdb", "sdc", "sdd"] {
        let disk = bench.disk(name);
        bench.node(disk).queue =
            Some(QueueFacts { requests: Some(256), tags: Some(9000), ..queue(true) });
        let drive = bench.drive_of(disk);
        drive.transport = Some("sas".into());
        drive.vendor = Some("SEAGATE".into());
        drive.queue_depth = Some(254);
        drive.cache_type = Some("write through".into());
        let detail = bench.detail_of(disk);
        detail.host = Some("host0".into());
        detail.sas_rates = vec![("12.0 Gbit".into(), "12.0 Gbit".into())];
        detail.health = Some(health());
        disks.push(disk);
    }
    let array = bench.md("md0", "raid10", &disks);
    bench.node(array).queue = Some(QueueFacts {
        scheduler: None,
        requests: None,
        wbt_lat_us: None,
        rq_affinity: None,
        read_ahead_kib: Some(4096),
        optimal_io_bytes: Some(1 << 20),
        hardware_queues: None,
        ..queue(true)
    });
    bench.mounted("xfs", "/srv", array);
    bench.snapshot.system.hosts.push(StorageHost {
        name: "host0".into(),
        driver: Some("mpt3sas".into()),
        pci_address: Some("0000:3b:00.0".into()),
        can_queue: Some(9000),
        link: link("0000:3b:00.0", "0000:3a:00.0", 80, 8),
        aer_errors: Some((0, 0, 0)),
        ..StorageHost::default()
    });
    assert_low(&bench, &[]);
    assert_eq!(bench.node(array).size_bytes, Some(TB));
}

#[test]
fn the_same_on_many_drives_is_told_once() {
    let mut bench = Bench::new();
    for number in 0..8 {
        let disk = bench.nvme(&format!("nvme{number}n1"));
        bench.queue_of(disk).wbt_lat_us = Some(0);
        let detail = bench.detail_of(disk);
        detail.host = Some(format!("nvme{number}"));
        detail.health = Some(Health { self_test: Some(("never".into(), 0)), ..health() });
        detail.identity =
            Some(DriveIdentity { power_state_transitions: Some(true), ..DriveIdentity::default() });
        bench
            .snapshot
            .system
            .hosts
            .push(StorageHost { name: format!("nvme{number}"), ..StorageHost::default() });
    }
    let told = crate::check(&bench.snapshot);
    let ours = ["drive-self-test-missing", "nvme-power-saving", "writeback-throttle-changed"];
    for rule in ours {
        let of_rule: Vec<&Defect> = told.iter().filter(|defect| defect.rule == rule).collect();
        assert_eq!(
            of_rule.iter().map(|defect| defect.also.len()).collect::<Vec<_>>(),
            [7],
            "{rule}"
        );
    }
}

/// What all rules say, each of low gravity.
#[track_caller]
fn assert_all_low(bench: &Bench, expected: &[&str]) {
    let found = crate::check(&bench.snapshot);
    assert!(found.iter().all(|defect| defect.gravity == Gravity::Low), "{found:#?}");
    let mut ids: Vec<&str> = found.iter().map(|defect| defect.rule.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, expected, "{found:#?}");
}

/// The usual programs and timers of a machine that somebody looks after.
fn looked_after(bench: &mut Bench, daemons: &[&str]) {
    let system = &mut bench.snapshot.system;
    system.cpus_online = Some(16);
    let daemon = |name: &&str| {
        let (name, arguments) = name.split_once(' ').unwrap_or((name, ""));
        Daemon { name: name.into(), arguments: arguments.into() }
    };
    system.daemons = daemons.iter().map(daemon).collect();
    let timer = |(name, kind): (&str, &str)| Timer {
        name: name.into(),
        file: format!("/usr/lib/systemd/system/{name}"),
        kind: kind.into(),
        enabled: true,
        ..Timer::default()
    };
    system.timers =
        [("fstrim.timer", "trim"), ("mdcheck_start.timer", "md-check")].map(timer).into();
    system.configuration.smartd =
        Some(SmartdConfiguration { scan: true, alarm: true, ..SmartdConfiguration::default() });
    bench.snapshot.host.virtualisation = Some("none".into());
    bench.snapshot.host.kernel = Some("6.12.57".into());
}

fn fstab(bench: &mut Bench, source: &str, mount_point: &str, fs_type: &str) {
    bench.snapshot.system.configuration.fstab.push(FstabEntry {
        source: source.into(),
        mount_point: mount_point.into(),
        fs_type: fs_type.into(),
        options: vec!["defaults".into()],
        pass: 0,
    });
}

#[test]
fn an_encrypted_laptop() {
    let mut bench = Bench::new();
    let disk = bench.nvme("nvme0n1");
    bench.queue_of(disk).physical_block_bytes = Some(512);
    bench.queue_of(disk).hardware_queues = Some(16);
    bench.detail_of(disk).health = Some(health());
    let esp = bench.partition("nvme0n1p1", 1 << 20, disk);
    bench.mounted("vfat", "/boot/efi", esp);
    let part = bench.partition("nvme0n1p2", 1 << 30, disk);
    let number = bench.node(part).devno.clone().unwrap_or_default();
    let table =
        format!("0 1951473664 crypt aes-xts-plain64 :64:logon:x 0 {number} 32768 1 allow_discards");
    let crypt = bench.dm("dm-0", "luks-root", "CRYPT-LUKS2-x", &[table], &[part]);
    let queue = bench.queue_of(crypt);
    (queue.physical_block_bytes, queue.discard_max_bytes) = (Some(512), Some(2 * GIB));
    (queue.rotational, queue.write_cache) = (Some(false), Some("write back".into()));
    bench.mounted("ext4", "/", crypt);
    looked_after(&mut bench, &["udisksd"]);
    bench.snapshot.system.configuration.smartd = None;
    fstab(&mut bench, "UUID=11111111-2222", "/", "ext4");
    assert_all_low(&bench, &["dm-crypt-workqueues", "smart-no-monitor"]);
}

#[test]
fn a_virtual_machine_in_a_cloud() {
    let mut bench = Bench::new();
    let disk = bench.device(NodeKind::Disk, "vda", 64 * GIB, &[]);
    bench.node(disk).queue = Some(QueueFacts {
        requests: Some(256),
        tags: Some(128),
        discard_max_bytes: Some(2 * GIB),
        ..queue(true)
    });
    bench.node(disk).drive =
        Some(DriveFacts { transport: Some("virtio".into()), ..DriveFacts::default() });
    let part = bench.partition("vda1", 1 << 20, disk);
    let (fs, mount) = bench.mounted("xfs", "/", part);
    bench.fs_of(fs).sector_bytes = Some(512);
    bench.mount_of(mount).super_options.push("discard".into());
    looked_after(&mut bench, &[]);
    bench.snapshot.system.configuration.smartd = None;
    bench.snapshot.host.virtualisation = Some("kvm".into());
    bench.snapshot.system.cpus_online = Some(4);
    // Both as images of distributions come.
    assert_all_low(&bench, &["discard-online", "fs-block-below-physical"]);
}

#[test]
fn a_storage_box_with_parity() {
    let mut bench = Bench::new();
    let mut members = Vec::new();
    for name in ["sda", "sdb", "sdc", "sdd", "sde", "sdf"] {
        let disk = bench.disk(name);
        bench.node(disk).queue = Some(queue(true));
        bench.detail_of(disk).health = Some(health());
        members.push(bench.partition(&format!("{name}1"), 1 << 20, disk));
    }
    let array = bench.md("md0", "raid6", &members);
    let stripe = 4 * 512 * 1024;
    bench.node(array).size_bytes = Some(4 * TB);
    bench.node(array).queue = Some(QueueFacts {
        minimum_io_bytes: Some(512 * 1024),
        optimal_io_bytes: Some(stripe),
        read_ahead_kib: Some(2 * stripe / 1024),
        scheduler: None,
        requests: None,
        wbt_lat_us: None,
        rq_affinity: None,
        hardware_queues: None,
        ..queue(true)
    });
    let (fs, _) = bench.mounted("ext4", "/srv", array);
    let facts = bench.fs_of(fs);
    (facts.stripe_unit_bytes, facts.stripe_width_bytes) = (Some(512 * 1024), Some(stripe));
    looked_after(&mut bench, &["smartd", "mdadm --monitor --scan"]);
    bench.snapshot.system.configuration.mdadm =
        Some(MdadmConfiguration { alarm: true, ..MdadmConfiguration::default() });
    fstab(&mut bench, "UUID=11111111-2222", "/srv", "ext4");
    assert_all_low(&bench, &[]);
}

#[test]
fn a_database_server_behind_a_controller() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.node(disk).queue =
        Some(QueueFacts { requests: Some(256), tags: Some(5000), ..queue(true) });
    let drive = bench.drive_of(disk);
    (drive.vendor, drive.model) = (Some("AVAGO".into()), Some("MR9361-8i".into()));
    (drive.transport, drive.queue_depth) = (Some("scsi".into()), Some(256));
    // It keeps its cache itself, and writes through where it was told so.
    let detail = bench.detail_of(disk);
    detail.host = Some("host0".into());
    detail.identity = Some(DriveIdentity {
        volatile_cache: Some(true),
        write_cache_enabled: Some(false),
        ..DriveIdentity::default()
    });
    bench.queue_of(disk).write_cache = Some("write through".into());
    let part = bench.partition("sda1", 1 << 20, disk);
    let (fs, _) = bench.mounted("xfs", "/var/lib/postgresql", part);
    bench.fs_of(fs).sector_bytes = Some(4096);
    bench.snapshot.system.hosts.push(StorageHost {
        name: "host0".into(),
        driver: Some("megaraid_sas".into()),
        can_queue: Some(5000),
        ..StorageHost::default()
    });
    looked_after(&mut bench, &["smartd"]);
    assert_all_low(&bench, &["raid-housekeeping-invisible"]);
}

#[test]
fn a_host_on_a_storage_network() {
    let mut bench = Bench::new();
    let mut paths = Vec::new();
    for name in ["sda", "sdb", "sdc", "sdd"] {
        let path = bench.disk(name);
        bench.node(path).queue =
            Some(QueueFacts { requests: Some(256), tags: Some(2048), ..queue(true) });
        let drive = bench.drive_of(path);
        (drive.vendor, drive.model) = (Some("NETAPP".into()), Some("LUN C-Mode".into()));
        (drive.wwn, drive.serial) = (Some("naa.600a0980".into()), Some("80Q4".into()));
        (drive.transport, drive.link_speed) = (Some("fc".into()), Some("16 Gbit".into()));
        let detail = bench.detail_of(path);
        detail.access_state =
            Some(if paths.len() < 2 { "active/optimized" } else { "active/non-optimized" }.into());
        detail.health = Some(Health { self_test: Some(("never".into(), 0)), ..Health::default() });
        detail.identity = Some(DriveIdentity {
            volatile_cache: Some(true),
            write_cache_enabled: Some(false),
            ..DriveIdentity::default()
        });
        bench.queue_of(path).write_cache = Some("write through".into());
        paths.push(path);
    }
    let numbers: Vec<String> =
        paths.iter().map(|&path| bench.node(path).devno.clone().unwrap_or_default()).collect();
    let [a, b, c, d] = &numbers[..] else { unreachable!() };
    let table = format!(
        "0 1953125000 multipath 1 queue_if_no_path 1 alua 2 1 service-time 0 2 2 {a} 1 1 {b} 1 1 service-time 0 2 2 {c} 1 1 {d} 1 1"
    );
    let map = bench.dm("dm-0", "data1", "mpath-3600a0980", &[table], &paths);
    bench.dm_of(map).status = vec![format!(
        "0 1953125000 multipath 2 0 0 0 2 1 A 0 2 2 {a} A 0 0 1 {b} A 0 0 1 E 0 2 2 {c} A 0 0 1 {d} A 0 0 1"
    )];
    let number = bench.node(map).devno.clone().unwrap_or_default();
    let table = format!("0 1953120256 linear {number} 2048");
    let volume = bench.dm("dm-1", "vg-lv", "LVM-x", &[table], &[map]);
    for device in [map, volume] {
        let queue = bench.queue_of(device);
        (queue.rotational, queue.read_ahead_kib) = (Some(true), Some(128));
        queue.write_cache = Some("write through".into());
    }
    bench.mounted("xfs", "/srv", volume);
    looked_after(&mut bench, &["smartd", "multipathd"]);
    let configuration = &mut bench.snapshot.system.configuration;
    configuration.multipath = Some(MultipathConfiguration::default());
    configuration.lvm = Some(LvmConfiguration::default());
    assert_all_low(&bench, &["multipath-queue-forever"]);
}

#[test]
fn a_host_of_virtual_machines_on_zfs() {
    let mut bench = Bench::new();
    let mut members = Vec::new();
    for name in ["sda", "sdb"] {
        let disk = bench.ssd(name);
        let facts = QueueFacts { discard_max_bytes: Some(2 * GIB), ..queue(false) };
        bench.node(disk).queue = Some(facts);
        bench.detail_of(disk).health = Some(health());
        let part = bench.partition(&format!("{name}3"), 1 << 30, disk);
        bench.content_of(part).other.push("zfs_member".into());
        members.push(part);
    }
    let (fs, _) = bench.mounted("zfs", "/", members[0]);
    bench.node(fs).below = members;
    // The disk of a virtual machine, with its own partitions.
    let zvol = bench.device(NodeKind::Disk, "zd0", 32 * GIB, &[]);
    bench.node(zvol).queue = Some(QueueFacts {
        physical_block_bytes: Some(16384),
        minimum_io_bytes: Some(16384),
        optimal_io_bytes: Some(16384),
        nomerges: Some(2),
        scheduler: Some("none".into()),
        tags: None,
        ..queue(false)
    });
    bench.partition("zd0p1", 1 << 20, zvol);
    looked_after(&mut bench, &["smartd", "zed"]);
    bench.snapshot.system.timers[0].enabled = false;
    assert_all_low(&bench, &[]);
}
