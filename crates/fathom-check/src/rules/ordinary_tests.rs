//! Ordinary machines, on which the rules about drives, links, queues and controllers find nothing of weight.

use crate::fixtures::{Bench, GIB, TB};
use crate::rule::Rule;
use crate::rules::{disks, links, queues, vendor};
use crate::scene::Scene;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::detail::{DiskCounters, DriveIdentity, Health};
use fathom_model::stack::{DriveFacts, NodeKind, QueueFacts, ZramFacts};
use fathom_model::system::{PciLink, StorageHost};

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
