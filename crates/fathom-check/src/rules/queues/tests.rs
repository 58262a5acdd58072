//! Each rule on what it is about, beside it, and at its limits.

use super::{limits, read_ahead, schedulers, switches};
use crate::fixtures::Bench;
use fathom_model::defect::{Certainty, Gravity};
use fathom_model::stack::detail::DriveIdentity;
use fathom_model::stack::{MountFacts, Node, NodeKind, QueueFacts};
use fathom_model::system::{IoLimit, StorageHost};

use Gravity::{Low, Medium};

/// A machine with one disk whose queue and transport are as given.
fn with_queue(transport: &str, queue: QueueFacts) -> Bench {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.drive_of(disk).transport = Some(transport.into());
    bench.node(disk).queue = Some(queue);
    bench
}

fn scheduled(transport: &str, scheduler: &str, queues: u64) -> Bench {
    with_queue(
        transport,
        QueueFacts {
            scheduler: Some(scheduler.into()),
            hardware_queues: Some(queues),
            rotational: Some(false),
            ..QueueFacts::default()
        },
    )
}

#[test]
fn sorting_twice() {
    for (scheduler, queues) in [("mq-deadline", 1), ("none", 1), ("none", 4)] {
        assert_eq!(
            scheduled("virtio", scheduler, queues).gravities(schedulers::doubled),
            [],
            "{scheduler} {queues}"
        );
    }
    for (scheduler, queues) in [("mq-deadline", 4), ("bfq", 1), ("kyber", 4)] {
        assert_eq!(scheduled("virtio", scheduler, queues).one(schedulers::doubled).gravity, Low);
    }
    assert_eq!(scheduled("sata", "bfq", 1).gravities(schedulers::doubled), []);
}

#[test]
fn the_rule_file_that_chose_it_is_named() {
    let mut bench = scheduled("virtio", "bfq", 1);
    let line = r#"ACTION=="add", ATTR{queue/scheduler}="bfq""#;
    bench.snapshot.system.configuration.udev_queue_rules = vec![
        ("/etc/udev/rules.d/60-io.rules".into(), line.into()),
        ("/etc/x".into(), r#"ATTR{queue/nomerges}="2""#.into()),
    ];
    let defect = bench.one(schedulers::doubled);
    assert_eq!(defect.evidence[1].source, "/etc/udev/rules.d/60-io.rules");
    assert_eq!(defect.evidence.len(), 2);
}

#[test]
fn schedulers_on_nvme() {
    for (scheduler, gravity) in [("bfq", Medium), ("kyber", Low), ("mq-deadline", Low)] {
        assert_eq!(scheduled("nvme", scheduler, 8).one(schedulers::on_nvme).gravity, gravity);
    }
    for fine in [
        scheduled("nvme", "none", 8),
        scheduled("nvme", "mq-deadline", 1),
        scheduled("sata", "bfq", 8),
    ] {
        assert_eq!(fine.gravities(schedulers::on_nvme), []);
    }
    let mut weighted = scheduled("nvme", "bfq", 8);
    weighted
        .snapshot
        .system
        .io_limits
        .push(IoLimit { file: "io.bfq.weight".into(), ..IoLimit::default() });
    assert_eq!(weighted.gravities(schedulers::on_nvme), [Low]);
}

#[test]
fn waiting_for_an_arm_that_is_not_there() {
    let of = |transport: &str, scheduler: &str, idle: &str| {
        let mut bench = scheduled(transport, scheduler, 1);
        bench.detail_of(0).scheduler = vec![("slice_idle".into(), idle.into())];
        bench.drive_of(0).vendor = Some("LSI".into());
        bench
    };
    for transport in ["iscsi", "fc"] {
        assert_eq!(of(transport, "bfq", "8").gravities(schedulers::idles), [Low], "{transport}");
    }
    for (transport, scheduler, idle) in
        [("iscsi", "bfq", "0"), ("iscsi", "mq-deadline", "8"), ("scsi", "bfq", "8")]
    {
        assert_eq!(of(transport, scheduler, idle).gravities(schedulers::idles), [], "{idle}");
    }
    let mut raid = of("scsi", "bfq", "8");
    raid.detail_of(0).host = Some("host0".into());
    raid.snapshot.system.hosts = vec![StorageHost {
        name: "host0".into(),
        driver: Some("megaraid_sas".into()),
        ..StorageHost::default()
    }];
    let defect = raid.one(schedulers::idles);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 0 > /sys/class/block/sda/queue/iosched/slice_idle")
    );
    // A drive that the controller hands through.
    raid.drive_of(0).vendor = Some("SEAGATE".into());
    assert_eq!(raid.gravities(schedulers::idles), []);
}

#[test]
fn parameters_far_from_the_kernels() {
    let of = |scheduler: &str, name: &str, value: &str| {
        let mut bench = scheduled("sata", scheduler, 1);
        bench.detail_of(0).scheduler = vec![(name.into(), value.into())];
        bench
    };
    for (value, expected) in
        [("500", vec![]), ("51", vec![]), ("50", vec![Low]), ("4999", vec![]), ("5000", vec![Low])]
    {
        assert_eq!(
            of("mq-deadline", "read_expire", value).gravities(schedulers::parameters),
            expected,
            "{value}"
        );
    }
    let defect = of("kyber", "read_lat_nsec", "20000000").one(schedulers::parameters);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 2000000 > /sys/class/block/sda/queue/iosched/read_lat_nsec")
    );
    for (scheduler, name, value) in [
        ("mq-deadline", "front_merges", "0"),
        ("bfq", "read_expire", "1"),
        ("mq-deadline", "fifo_batch", "x"),
    ] {
        assert_eq!(of(scheduler, name, value).gravities(schedulers::parameters), []);
    }
}

/// A mounted filesystem on a disk with this read-ahead.
fn reading_ahead(kib: u64) -> (Bench, usize) {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let partition = bench.partition("sda1", 1 << 20, disk);
    bench.mounted("ext4", "/srv", partition);
    bench.queue_of(disk).read_ahead_kib = Some(kib);
    (bench, disk)
}

#[test]
fn no_read_ahead() {
    let (mut bench, disk) = reading_ahead(0);
    let defect = bench.one(read_ahead::off);
    assert_eq!((defect.gravity, defect.node.as_deref()), (Medium, Some("/dev/sda")));
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 128 > /sys/class/block/sda/queue/read_ahead_kb")
    );
    let lasting = defect.fix[1].text.as_str();
    assert!(
        lasting.ends_with(
            r#": ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ATTRS{wwid}=="naa.5000c50000000000", ATTR{queue/read_ahead_kb}="128""#
        ),
        "a name of the kernel may be another drive's after the next boot: {lasting}"
    );
    bench.drive_of(disk).wwn = Some("0x5000c50000000000".into());
    let lasting = bench.one(read_ahead::off).fix[1].text.clone();
    assert!(lasting.contains(r#"KERNEL=="sda", ATTR"#), "not as sysfs has it: {lasting}");
    bench.queue_of(disk).rotational = Some(false);
    assert_eq!(bench.gravities(read_ahead::off), [Low]);
    assert_eq!(reading_ahead(4).0.gravities(read_ahead::off), []);
    let mut unmounted = Bench::new();
    let disk = unmounted.disk("sda");
    unmounted.queue_of(disk).read_ahead_kib = Some(0);
    assert_eq!(unmounted.gravities(read_ahead::off), []);
    unmounted.mounted("btrfs", "/srv", disk);
    assert_eq!(unmounted.gravities(read_ahead::off), [], "btrfs has its own");
}

#[test]
fn too_much_read_ahead() {
    assert_eq!(reading_ahead(4096).0.gravities(read_ahead::excessive), []);
    let (mut bench, disk) = reading_ahead(8192);
    let defect = bench.one(read_ahead::excessive);
    assert_eq!(defect.gravity, Low);
    assert_eq!(defect.evidence[0].value, "8192 KiB = 16384 sectors of 512 bytes");
    // What the kernel itself takes for large requests or stripes.
    bench.queue_of(disk).max_sectors_kib = Some(4096);
    assert_eq!(bench.gravities(read_ahead::excessive), []);
    bench.queue_of(disk).max_sectors_kib = Some(1280);
    bench.queue_of(disk).optimal_io_bytes = Some(4 << 20);
    assert_eq!(bench.gravities(read_ahead::excessive), []);
    let (mut bench, disk) = reading_ahead(65_536);
    bench.queue_of(disk).optimal_io_bytes = Some(32 << 20);
    assert_eq!(bench.gravities(read_ahead::excessive), [Medium], "however it came to be");
}

#[test]
fn read_ahead_above_an_array() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb"), bench.disk("sdc")];
    let array = bench.md("md0", "raid5", &disks);
    let volume = bench.dm("dm-0", "vg-lv", "LVM-abc", &["0 100 linear 9:0 0".to_owned()], &[array]);
    bench.mounted("xfs", "/srv", volume);
    bench.queue_of(array).read_ahead_kib = Some(2048);
    // Two data disks with chunks of 512 KiB.
    bench.queue_of(volume).read_ahead_kib = Some(1024);
    assert_eq!(bench.gravities(read_ahead::below_stripe), []);
    bench.queue_of(volume).read_ahead_kib = Some(1020);
    let defect = bench.one(read_ahead::below_stripe);
    assert_eq!((defect.gravity, defect.node.as_deref()), (Medium, Some("/dev/dm-0")));
    assert!(
        defect
            .fix
            .iter()
            .any(|step| step.command.as_deref() == Some("lvchange --readahead 4096 vg/lv")),
        "{:?}",
        defect.fix
    );
    assert!(defect.fix.iter().any(|step| step.text.contains(r#"ENV{DM_NAME}=="vg-lv", ATTR"#)));
    for disk in disks {
        bench.queue_of(disk).rotational = Some(false);
    }
    assert_eq!(bench.gravities(read_ahead::below_stripe), [Low]);
    bench.md_of(array).level = Some("raid1".into());
    assert_eq!(bench.gravities(read_ahead::below_stripe), [], "no stripes");
}

#[test]
fn btrfs_reads_ahead_by_a_setting_of_its_own() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let (fs, _) = bench.mounted("btrfs", "/srv", disk);
    bench.queue_of(disk).read_ahead_kib = Some(0);
    assert_eq!(bench.gravities(read_ahead::off), []);
    bench.detail_of(fs).bdi_read_ahead_kib = Some(4096);
    assert_eq!(bench.gravities(read_ahead::off), []);
    bench.detail_of(fs).bdi_read_ahead_kib = Some(0);
    let defect = bench.one(read_ahead::off);
    assert_eq!(
        (defect.gravity, defect.summary.as_str()),
        (Medium, "btrfs at /srv reads nothing ahead")
    );
    let command = defect.fix[0].command.clone().unwrap();
    assert!(command.starts_with("echo 4096 > /sys/fs/btrfs/11111111-"), "{command}");
}

#[test]
fn nfs_reads_little_ahead() {
    let of = |kib, fs_type: &str| {
        let mut bench = Bench::new();
        let mut remote = Node::new(NodeKind::Remote, "server:/export");
        remote.detail = Some(Box::default());
        let remote = bench.add(remote, &[]);
        bench.detail_of(remote).bdi_read_ahead_kib = Some(kib);
        let mut mount = Node::new(NodeKind::Mount, "/net data");
        mount.mount = Some(MountFacts {
            fs_type: fs_type.into(),
            super_options: vec!["rw".into(), "rsize=1048576".into()],
            ..MountFacts::default()
        });
        bench.add(mount, &[remote]);
        bench
    };
    let defect = of(128, "nfs4").one(read_ahead::remote);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 4096 > /sys/class/bdi/$(mountpoint -d '/net data')/read_ahead_kb")
    );
    assert_eq!(of(1024, "nfs4").gravities(read_ahead::remote), []);
    assert_eq!(of(128, "cifs").gravities(read_ahead::remote), []);
}

#[test]
fn lengths_of_queues() {
    let of = |scheduler: &str, requests, depth, tags| {
        let queue = QueueFacts {
            scheduler: Some(scheduler.into()),
            requests: Some(requests),
            tags: Some(tags),
            ..QueueFacts::default()
        };
        let mut bench = with_queue("sas", queue);
        bench.drive_of(0).queue_depth = Some(depth);
        bench.gravities(limits::requests_few)
    };
    assert_eq!(of("mq-deadline", 64, 32, 32), []);
    assert_eq!(of("mq-deadline", 63, 32, 32), [Low]);
    // The kernel's own value is less than twice the depth of a deep drive.
    assert_eq!(of("mq-deadline", 256, 254, 9000), []);
    assert_eq!(of("mq-deadline", 255, 254, 9000), [Low]);
    assert_eq!(of("none", 254, 254, 9000), []);
    assert_eq!(of("none", 253, 254, 9000), [Low]);
}

#[test]
fn sizes_of_requests() {
    let of = |now, hardware, optimal| {
        let queue = QueueFacts {
            max_sectors_kib: Some(now),
            max_hw_sectors_kib: Some(hardware),
            optimal_io_bytes: Some(optimal),
            ..QueueFacts::default()
        };
        with_queue("sata", queue)
    };
    assert_eq!(of(512, 32767, 0).gravities(limits::requests_cut), []);
    assert_eq!(of(128, 128, 0).gravities(limits::requests_cut), [], "the hardware takes no more");
    assert_eq!(
        of(256, 32767, 256 << 10).gravities(limits::requests_cut),
        [],
        "the drive asked for it"
    );
    let told = |hardware| of(64, hardware, 0).one(limits::requests_cut).summary;
    assert!(told(32767).ends_with("; the hardware takes 32767 KiB"), "{}", told(32767));
    for none in [2_147_483_647, (1 << 30) - 1] {
        assert!(told(none).ends_with("; the hardware has no limit"), "{}", told(none));
    }
    let defect = of(64, 32767, 0).one(limits::requests_cut);
    assert_eq!(
        (defect.gravity, defect.fix[0].command.as_deref()),
        (Low, Some("echo 512 > /sys/class/block/sda/queue/max_sectors_kb"))
    );
    let mut member = of(512, 32767, 0);
    let other = member.disk("sdb");
    let array = member.md("md0", "raid0", &[0, other]);
    assert_eq!(member.gravities(limits::requests_cut), [], "a chunk fits");
    member.md_of(array).chunk_bytes = Some(1 << 20);
    assert!(member.one(limits::requests_cut).evidence.iter().any(|e| e.value == "1 MiB"));
    member.queue_of(0).max_sectors_kib = Some(1280);
    member.md_of(array).chunk_bytes = Some(4 << 20);
    assert_eq!(member.gravities(limits::requests_cut), [], "as much as kernels take");
}

#[test]
fn numbers_of_queues() {
    let of = |transport: &str, queues, cpus| {
        let mut bench = scheduled(transport, "none", queues);
        bench.snapshot.system.cpus_online = Some(cpus);
        bench.gravities(limits::hardware_queues_few)
    };
    assert_eq!((of("nvme", 1, 3), of("nvme", 1, 4)), (vec![], vec![Medium]));
    assert_eq!((of("nvme", 8, 63), of("nvme", 8, 64)), (vec![], vec![Low]));
    assert_eq!((of("virtio", 1, 7), of("virtio", 1, 8)), (vec![], vec![Low]));
    assert_eq!((of("virtio-scsi", 1, 8), of("virtio", 8, 64)), (vec![Low], vec![]));
    assert_eq!(of("sata", 1, 64), []);
}

#[test]
fn numa_nodes() {
    let mut bench = Bench::new();
    let drives = [bench.nvme("nvme0n1"), bench.nvme("nvme1n1")];
    bench.md("md0", "raid1", &drives);
    bench.queue_of(drives[0]).numa_node = Some(0);
    bench.queue_of(drives[1]).numa_node = Some(1);
    assert_eq!(bench.gravities(limits::numa_split), [], "nobody says that there are nodes");
    bench.snapshot.host.numa_nodes = Some(2);
    let defect = bench.one(limits::numa_split);
    assert_eq!((defect.gravity, defect.evidence.len()), (Low, 2));
    bench.queue_of(drives[1]).numa_node = Some(0);
    assert_eq!(bench.gravities(limits::numa_split), []);
    assert_eq!(bench.gravities(limits::numa_unknown), []);
    bench.queue_of(drives[1]).numa_node = Some(-1);
    assert_eq!(bench.gravities(limits::numa_split), []);
    assert_eq!(bench.one(limits::numa_unknown).node.as_deref(), Some("/dev/nvme1n1"));
    bench.snapshot.host.numa_nodes = Some(1);
    assert_eq!(bench.gravities(limits::numa_unknown), []);
}

#[test]
fn small_switches() {
    let of = |queue| with_queue("sata", queue);
    let base = QueueFacts::default;
    assert_eq!(of(QueueFacts { nomerges: Some(1), ..base() }).gravities(switches::merges_off), []);
    assert_eq!(
        of(QueueFacts { nomerges: Some(2), ..base() }).one(switches::merges_off).gravity,
        Low
    );
    let mut zvol = of(QueueFacts { nomerges: Some(2), ..base() });
    zvol.node(0).name = "zd16".into();
    assert_eq!(zvol.gravities(switches::merges_off), [], "so does ZFS");
    let rotating = of(QueueFacts { nomerges: Some(2), rotational: Some(true), ..base() });
    assert_eq!(rotating.gravities(switches::merges_off), [Medium]);
    assert_eq!(
        of(QueueFacts { rq_affinity: Some(0), ..base() })
            .one(switches::completion_anywhere)
            .gravity,
        Low
    );
    for fine in [1, 2] {
        assert_eq!(
            of(QueueFacts { rq_affinity: Some(fine), ..base() })
                .gravities(switches::completion_anywhere),
            []
        );
    }
    assert_eq!(
        of(QueueFacts { iostats: Some(true), ..base() }).gravities(switches::iostats_off),
        []
    );
    assert_eq!(
        of(QueueFacts { iostats: Some(false), ..base() }).one(switches::iostats_off).gravity,
        Low
    );
    let mut array = Bench::new();
    let disks = [array.disk("sda"), array.disk("sdb")];
    let md = array.md("md0", "raid1", &disks);
    array.queue_of(md).iostats = Some(false);
    assert_eq!(array.one(switches::iostats_off).node.as_deref(), Some("/dev/md0"));
    array.md_of(md).array_state = Some("inactive".into());
    assert_eq!(array.gravities(switches::iostats_off), []);
    let map = array.dm("dm-0", "vg-lv", "LVM-x", &["0 100 linear 8:0 0".to_owned()], &[disks[0]]);
    array.queue_of(map).iostats = Some(false);
    assert_eq!(array.gravities(switches::iostats_off), [], "the device-mapper counts by itself");
}

#[test]
fn randomness_of_flash() {
    let mut bench = Bench::new();
    let disk = bench.ssd("sda");
    for (value, expected) in [("0", vec![]), ("1", vec![Low])] {
        bench.detail_of(disk).queue = vec![("add_random".into(), value.into())];
        assert_eq!(bench.gravities(switches::entropy), expected);
    }
    bench.queue_of(disk).rotational = Some(true);
    assert_eq!(bench.gravities(switches::entropy), []);
}

#[test]
fn throttling_of_writeback() {
    let of = |target, scheduler: &str| {
        let queue = QueueFacts {
            wbt_lat_us: Some(target),
            scheduler: Some(scheduler.into()),
            ..QueueFacts::default()
        };
        with_queue("sata", queue)
    };
    for fine in [-1, 2_000, 75_000] {
        assert_eq!(of(fine, "none").gravities(switches::throttle), [], "{fine}");
    }
    assert_eq!(of(0, "bfq").gravities(switches::throttle), []);
    assert_eq!(of(0, "none").one(switches::throttle).summary, "writeback to sda is not throttled");
    assert_eq!(of(500, "none").one(switches::throttle).gravity, Low);
    let mut costed = of(0, "none");
    costed.snapshot.system.io_limits.push(IoLimit {
        file: "io.cost.qos".into(),
        value: "enable=1 ctrl=auto".into(),
        ..IoLimit::default()
    });
    assert_eq!(costed.gravities(switches::throttle), []);
}

#[test]
fn rotation() {
    let of = |transport: &str, believed, rpm| {
        let mut bench = with_queue(
            transport,
            QueueFacts { rotational: Some(believed), ..QueueFacts::default() },
        );
        bench.detail_of(0).identity =
            Some(DriveIdentity { rotation_rpm: rpm, ..DriveIdentity::default() });
        bench
    };
    let defect = of("sata", true, Some(1)).one(switches::rotational_wrong);
    assert_eq!((defect.gravity, defect.certainty), (Medium, Certainty::Certain));
    let defect = of("sata", false, Some(7200)).one(switches::rotational_wrong);
    assert_eq!(
        (defect.gravity, defect.summary.as_str()),
        (Low, "the kernel takes sda for a drive that does not rotate")
    );
    assert_eq!(of("nvme", true, None).one(switches::rotational_wrong).certainty, Certainty::Likely);
    for (transport, believed, rpm) in [
        ("sata", true, Some(7200)),
        ("sata", false, Some(1)),
        ("sata", true, None),
        ("virtio", true, Some(1)),
        ("nvme", true, Some(7200)),
    ] {
        let gravities = of(transport, believed, rpm).gravities(switches::rotational_wrong);
        assert!(gravities.is_empty(), "{transport} {believed} {rpm:?}");
    }
}
