//! Each rule on what it is about, beside it, and at its limits.

use super::{caches, features, health, state, zones};
use crate::fixtures::Bench;
use fathom_model::defect::{Certainty, Gravity, Step};
use fathom_model::stack::detail::{DiskCounters, DriveIdentity, Health};
use fathom_model::stack::{MdMember, NodeKind};
use fathom_model::system::SmartdConfiguration;

use Gravity::{High, Low, Medium};

/// A machine with one SATA disk and what it says of its health.
fn with_health(health: Health) -> Bench {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.detail_of(disk).health = Some(health);
    bench
}

/// A machine with one SATA disk and what it says of itself.
fn with_identity(identity: DriveIdentity) -> (Bench, usize) {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.detail_of(disk).identity = Some(identity);
    (bench, disk)
}

#[test]
fn damage_is_weighed() {
    let of = |health: Health| with_health(health).gravities(health::failing);
    let none = Health { passed: Some(true), pending: Some(0), ..Health::default() };
    assert_eq!(of(none.clone()), []);
    assert_eq!(of(Health { passed: Some(false), ..none.clone() }), [High]);
    assert_eq!(of(Health { pending: Some(1), ..none.clone() }), [High]);
    assert_eq!(of(Health { uncorrectable: Some(1), ..none.clone() }), [High]);
    for (count, gravity) in [(1, Low), (9, Low), (10, Medium), (99, Medium), (100, High)] {
        assert_eq!(of(Health { reallocated: Some(count), ..none.clone() }), [gravity], "{count}");
        assert_eq!(of(Health { grown_defects: Some(count), ..none.clone() }), [gravity], "{count}");
    }
    assert_eq!(of(Health { self_test: Some(("failed".into(), 5)), ..none.clone() }), [High]);
    // Of warm drives speaks another rule.
    for passed in [true, false] {
        let warm = Health { critical_warning: Some(2), passed: Some(passed), ..none.clone() };
        assert_eq!(of(warm), [], "{passed}");
    }
    assert_eq!(of(Health { sense_warning: Some((0x0b, 0x01)), ..none.clone() }), []);
    assert_eq!(of(Health { sense_warning: Some((0x0b, 0x03)), ..none.clone() }), [Medium]);
    // What it says in particular, and what nobody knows yet.
    for (bits, gravity) in [(0x20, Medium), (0x01, High), (0x40, High)] {
        let bad = Health { critical_warning: Some(bits), passed: Some(false), ..none.clone() };
        assert_eq!(of(bad), [gravity], "{bits:#x}");
    }
    assert_eq!(of(Health { critical_warning: Some(8), ..none.clone() }), [High]);
    assert_eq!(of(Health { spare_percent: Some((10, 10)), ..none.clone() }), []);
    assert_eq!(of(Health { spare_percent: Some((9, 10)), ..none }), [High]);
}

#[test]
fn damage_is_told_once_for_a_drive_and_with_its_array() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    bench.md("md0", "raid1", &disks);
    bench.detail_of(disks[1]).health = Some(Health {
        passed: Some(false),
        pending: Some(8),
        critical_warning: Some(1),
        spare_percent: Some((3, 10)),
        ..Health::default()
    });
    let defect = bench.one(health::failing);
    assert_eq!(
        defect.summary,
        "sdb reports damage: its spare blocks run out, 8 sectors that cannot be read"
    );
    let commands: Vec<&str> =
        defect.fix.iter().filter_map(|step| step.command.as_deref()).collect();
    assert_eq!(
        commands[1],
        "mdadm /dev/md0 --add /dev/NEW && mdadm /dev/md0 --replace /dev/sdb --with /dev/NEW"
    );
    // How the array stands decides what is right for it.
    let say = |bench: &Bench| -> String {
        let fix = bench.one(health::failing).fix;
        fix.iter().map(|step| format!("{} {:?}\n", step.text, step.command)).collect()
    };
    bench.md_of(2).degraded = Some(1);
    bench.md_of(2).members[0].state = Some("faulty".into());
    let text = say(&bench);
    assert!(text.contains("add no drive to it now") && !text.contains("--add"), "{text}");
    bench.md_of(2).members[0].state = Some("in_sync".into());
    bench.md_of(2).members[1].state = Some("faulty".into());
    let text = say(&bench);
    assert!(
        text.contains("has given it up already and lacks") && !text.contains("--replace"),
        "{text}"
    );
    bench.md_of(2).degraded = Some(0);
    bench.md_of(2).members[1].state = Some("in_sync,want_replacement".into());
    let copy = MdMember {
        name: "sdc".into(),
        state: Some("replacement".into()),
        slot: Some("1".into()),
        ..MdMember::default()
    };
    bench.md_of(2).members.push(copy);
    let text = say(&bench);
    assert!(text.contains("mdadm --wait /dev/md0") && !text.contains("--replace"), "{text}");
    // One that holds nothing yet is not copied, and one that holds the journal is no copy of anything.
    for (state, slot, expected, other) in [
        ("spare", "none", "mdadm /dev/md0 --remove /dev/sdb", "--fail"),
        ("spare", "1", "mdadm /dev/md0 --fail /dev/sdb", "--remove"),
        ("journal", "journal", "it holds the journal of md0", "mdadm /dev"),
    ] {
        bench.md_of(2).members.truncate(2);
        bench.md_of(2).members[1].state = Some(state.into());
        bench.md_of(2).members[1].slot = Some(slot.into());
        for degraded in [0, 1] {
            bench.md_of(2).degraded = Some(degraded);
            let text = say(&bench);
            let is_right = text.contains(expected) && !text.contains(other);
            assert!(is_right && !text.contains("--replace"), "{state} {slot}: {text}");
            assert!(!text.contains("nothing else holds"), "{text}");
        }
    }
    // Stripes without copies have nothing to replace a member from.
    bench.md_of(2).level = Some("raid0".into());
    let fix = bench.one(health::failing).fix;
    assert!(fix.iter().all(|step| step.command.as_ref().is_none_or(|c| !c.contains("mdadm"))));
    assert!(fix.iter().any(|step| step.text.starts_with("copy what is needed")), "{fix:?}");
}

/// A mirror of arrays: what the inner one mends is no matter of the outer one; of stripes the whole is to be replaced.
#[test]
fn a_failing_drive_is_replaced_in_the_lowest_array_with_copies() {
    for (level, expected) in [("raid1", "--replace /dev/sda"), ("raid0", "--replace /dev/md0")] {
        let mut bench = Bench::new();
        let disks = ["sda", "sdb", "sdc", "sdd"].map(|name| bench.disk(name));
        let inner = [("md0", &disks[..2]), ("md1", &disks[2..])]
            .map(|(name, disks)| bench.md(name, level, disks));
        bench.md("md2", "raid1", &inner);
        bench.detail_of(disks[0]).health = Some(Health { pending: Some(1), ..Health::default() });
        let fix = bench.one(health::failing).fix;
        let mdadm = fix.iter().filter_map(|step| step.command.as_deref());
        let mdadm: Vec<&str> = mdadm.filter(|command| command.starts_with("mdadm")).collect();
        assert!(mdadm.len() == 1 && mdadm[0].contains(expected), "{level}: {mdadm:?}");
    }
}

/// What keeps copies by itself has a command of its own for it.
#[test]
fn failing_drives_of_volumes_and_filesystems_with_copies_are_replaced_there() {
    let ill = || Some(Health { pending: Some(9), ..Health::default() });
    let last = |bench: &Bench| {
        let fix = bench.one(health::failing).fix;
        fix.last().map(|step| step.command.clone().unwrap_or_else(|| step.text.clone()))
    };
    for (fs_type, profile, expected) in [
        ("btrfs", "raid1", "btrfs replace start -B -r /dev/sda1 /dev/NEW /srv"),
        ("btrfs", "single", "copy what is needed to another drive first"),
        ("zfs", "", "zpool replace tank /dev/sda1 /dev/NEW"),
        ("ext4", "", "copy what is needed to another drive first"),
    ] {
        let mut bench = Bench::new();
        let (disk, other) = (bench.disk("sda"), bench.disk("sdb"));
        let part = bench.partition("sda1", 1 << 20, disk);
        let (fs, mount) = bench.mounted(fs_type, "/srv", part);
        bench.node(fs).below.push(other);
        bench.mount_of(mount).source = "tank/data".into();
        bench.fs_of(fs).data_profiles = vec![profile.into()];
        bench.detail_of(disk).health = ill();
        let told = last(&bench).unwrap_or_default();
        assert!(told.starts_with(expected), "{fs_type} {profile}: {told}");
        // Without another device the failing one may hold the only copy.
        bench.detail_of(fs).filesystem = vec![("devinfo/3/missing".into(), "1".into())];
        let told = last(&bench).unwrap_or_default();
        let expected = if profile == "raid1" { "then put another in" } else { expected };
        assert!(told.starts_with(expected), "{fs_type} {profile}: {told}");
    }
    for (level, expected) in [
        ("raid1", "lvconvert --replace /dev/sda vg/data /dev/NEW"),
        ("raid0", "copy what is needed to another drive first"),
    ] {
        let mut bench = Bench::new();
        let (disk, other) = (bench.disk("sda"), bench.disk("sdb"));
        let linear = ["0 8 linear 8:0 2048".to_owned()];
        let first = bench.dm("dm-0", "vg-data_rimage_0", "LVM-a", &linear, &[disk]);
        let second = bench.dm("dm-1", "vg-data_rimage_1", "LVM-b", &linear, &[other]);
        let table = [format!("0 8 raid {level} 3 0 region_size 4096 2 - 253:2 - 253:3")];
        bench.dm("dm-2", "vg-data", "LVM-c", &table, &[first, second]);
        bench.detail_of(disk).health = ill();
        let told = last(&bench).unwrap_or_default();
        assert!(told.starts_with(expected), "{level}: {told}");
        // How its parts stand decides what is right.
        for (status, expected) in [
            ("AA 8/8 idle", "lvconvert --replace /dev/sda vg/data /dev/NEW"),
            ("AD 8/8 idle", "then repair vg/data (lvm-raid-degraded), and replace"),
            ("DA 8/8 idle", "vg/data has given up its part on it already"),
            ("Aa 4/8 recover", "lvs -a -o +sync_percent vg/data"),
        ] {
            bench.dm_of(4).status = vec![format!("0 8 raid raid1 2 {status} 0 0 -")];
            let told = last(&bench).unwrap_or_default();
            assert!(told.starts_with(expected) || level == "raid0", "{status}: {told}");
        }
        bench.dm_of(4).status = vec!["0 8 raid raid1 2 AD 8/8 idle 0 0 -".into()];
        let found = crate::check(&bench.snapshot);
        let dead = "1 of the 2 parts of vg/data are dead";
        let told: Vec<_> = found.iter().filter(|d| d.summary.contains(dead)).collect();
        let rules: Vec<_> = told.iter().map(|d| (d.rule.as_str(), d.gravity)).collect();
        assert_eq!(rules, [("drive-failing", High)], "with the drive that holds the last copy");
        let first =
            |step: &&Step| step.text.contains("save what matters from it before any repair");
        assert_eq!(told[0].fix.iter().filter(first).count(), 1, "{told:?}");
        assert_eq!(told[0].concerns, ["/dev/dm-2"]);
    }
}

#[test]
fn media_errors_of_nvme_may_be_old() {
    let mut bench = Bench::new();
    let disk = bench.nvme("nvme0n1");
    bench.detail_of(disk).health = Some(Health { uncorrectable: Some(2), ..Health::default() });
    let defect = bench.one(health::failing);
    assert_eq!((defect.gravity, defect.certainty), (Medium, Certainty::Likely));
}

#[test]
fn wear_heat_and_cables() {
    let worn = |used| {
        with_health(Health { used_percent: Some(used), ..Health::default() })
            .gravities(health::worn)
    };
    assert_eq!(
        (worn(89), worn(90), worn(99), worn(100)),
        (vec![], vec![Low], vec![Low], vec![Medium])
    );

    let hot = |celsius, limit| {
        with_health(Health { celsius: Some(celsius), celsius_limit: limit, ..Health::default() })
            .gravities(health::hot)
    };
    assert_eq!((hot(54, Some(55)), hot(55, Some(55))), (vec![], vec![High]));
    assert_eq!((hot(59, None), hot(60, None)), (vec![], vec![Medium]));
    assert_eq!(hot(40, Some(0)), [], "an empty field is no limit");
    let minutes = |warm, critical| {
        with_health(Health { hot_minutes: Some((warm, critical)), ..Health::default() })
            .gravities(health::hot)
    };
    assert_eq!((minutes(59, 0), minutes(60, 0), minutes(0, 1)), (vec![], vec![Low], vec![Low]));
    let warns =
        with_health(Health { critical_warning: Some(2), celsius: Some(50), ..Health::default() });
    assert_eq!(warns.one(health::hot).gravity, High);
    let sense = |qualifier| {
        with_health(Health { sense_warning: Some((0x0b, qualifier)), ..Health::default() })
            .gravities(health::hot)
    };
    assert_eq!((sense(0x01), sense(0x03)), (vec![High], vec![]));

    let crc = |errors| {
        with_health(Health { interface_crc_errors: Some(errors), ..Health::default() })
            .gravities(health::cable)
    };
    assert_eq!((crc(0), crc(1), crc(99), crc(100)), (vec![], vec![Low], vec![Low], vec![Medium]));
}

#[test]
fn flash_may_be_warmer() {
    let mut bench = Bench::new();
    let disk = bench.ssd("sda");
    bench.detail_of(disk).health = Some(Health { celsius: Some(69), ..Health::default() });
    assert_eq!(bench.gravities(health::hot), []);
    bench.detail_of(disk).health = Some(Health { celsius: Some(70), ..Health::default() });
    assert_eq!(bench.one(health::hot).certainty, Certainty::Likely);
}

#[test]
fn self_tests_grow_old() {
    let of = |result: &str, hour, now| {
        with_health(Health {
            self_test: Some((result.into(), hour)),
            power_on_hours: Some(now),
            ..Health::default()
        })
    };
    assert_eq!(of("never", 0, 10).one(health::untested).gravity, Low);
    assert_eq!(of("passed", 1000, 1000 + 2160).gravities(health::untested), []);
    assert_eq!(of("passed", 1000, 1000 + 2161).gravities(health::untested), [Low]);
    // The log of ATA counts hours modulo 65536; the hour may be a little ahead.
    assert_eq!(of("passed", 100, 65536 + 200).gravities(health::untested), []);
    assert_eq!(of("passed", 65_000, 65536 + 200).gravities(health::untested), []);
    assert_eq!(of("passed", 203, 65536 + 200).gravities(health::untested), []);
    let value = |bench: &Bench| bench.one(health::untested).evidence[0].value.clone();
    let before = of("passed", 60_000, 65536 + 200);
    assert_eq!(value(&before), "last self-test at least 239 days of operation ago");
    // A test that lies in the future of a drive whose count began anew: nobody knows.
    assert_eq!(of("passed", 60_000, 200).gravities(health::untested), []);
    // SCSI has as many bits, and stays at the highest.
    let sas = |hour, now| {
        let mut bench = of("passed", hour, now);
        bench.drive_of(0).transport = Some("sas".into());
        bench.drive_of(0).vendor = Some("SEAGATE".into());
        bench
    };
    assert_eq!(sas(65_535, 90_000).gravities(health::untested), []);
    assert_eq!(value(&sas(60_000, 65_736)), "last self-test 239 days of operation ago");
    assert_eq!(of("failed", 0, 9999).gravities(health::untested), []);
    let mut planned = of("never", 0, 10);
    planned.snapshot.system.configuration.smartd =
        Some(SmartdConfiguration { schedules_tests: true, ..SmartdConfiguration::default() });
    assert_eq!(planned.gravities(health::untested), []);
}

#[test]
fn states_of_drives() {
    let of = |name: &str| {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.drive_of(disk).state = Some(name.into());
        bench
    };
    for fine in ["running", "live", "optimized", "non-optimized"] {
        assert_eq!(of(fine).gravities(state::offline), [], "{fine}");
    }
    assert_eq!(of("offline").one(state::offline).gravity, High);
    assert_eq!(of("blocked").one(state::offline).gravity, Medium);
    // A path of several is spoken of elsewhere.
    let mut bench = of("offline");
    bench.dm("dm-0", "mpatha", "mpath-x", &["0 100 multipath 0".to_owned()], &[0]);
    assert_eq!(bench.gravities(state::offline), []);
}

#[test]
fn a_disk_that_refuses_writes() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.node(disk).read_only = Some(true);
    assert_eq!(bench.gravities(state::read_only), [], "nobody uses it");
    bench.mounted("ext4", "/srv", disk);
    assert_eq!(bench.one(state::read_only).certainty, Certainty::Possible);
    bench.detail_of(disk).health = Some(Health { critical_warning: Some(8), ..Health::default() });
    assert_eq!(bench.gravities(state::read_only), [], "told as drive-failing");
    bench.detail_of(disk).health = None;
    bench.drive_of(disk).transport = Some("virtio".into());
    assert_eq!(bench.gravities(state::read_only), []);
}

#[test]
fn flushes_that_never_arrive() {
    let cache_on = DriveIdentity {
        volatile_cache: Some(true),
        write_cache_enabled: Some(true),
        ..DriveIdentity::default()
    };
    let (mut bench, disk) = with_identity(cache_on.clone());
    assert_eq!(bench.gravities(caches::flushes_dropped), []);
    bench.queue_of(disk).write_cache = Some("write through".into());
    let defect = bench.one(caches::flushes_dropped);
    assert_eq!((defect.gravity, defect.certainty), (High, Certainty::Certain));
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 'write back' > /sys/class/block/sda/queue/write_cache")
    );
    // A bridge hides the cache: the queue refuses that.
    bench.drive_of(disk).cache_type = Some("write through".into());
    let told =
        "echo 'temporary write back' | tee /sys/class/block/sda/device/scsi_disk/*/cache_type";
    assert_eq!(bench.one(caches::flushes_dropped).fix[0].command.as_deref(), Some(told));
    bench.drive_of(disk).cache_type = None;
    bench.detail_of(disk).identity =
        Some(DriveIdentity { power_loss_protection: Some(true), ..cache_on.clone() });
    assert_eq!(bench.one(caches::flushes_dropped).gravity, Low);
    bench.detail_of(disk).identity =
        Some(DriveIdentity { write_cache_enabled: Some(false), ..cache_on });
    assert_eq!(bench.gravities(caches::flushes_dropped), []);
    // The same by the kernel's own words alone.
    bench.drive_of(disk).cache_type = Some("write back, no read (daft)".into());
    assert_eq!(bench.gravities(caches::flushes_dropped), [High]);
}

#[test]
fn flushes_that_a_layer_drops() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let map = bench.dm("dm-0", "vg-lv", "LVM-x", &["0 100 linear 8:0 0".to_owned()], &[disk]);
    assert_eq!(bench.gravities(caches::flushes_dropped), []);
    bench.queue_of(map).write_cache = Some("write through".into());
    let defect = bench.one(caches::flushes_dropped);
    assert_eq!((defect.gravity, defect.node.as_deref()), (High, Some("/dev/dm-0")));
    // Over a disk that needs none it is right, and a read-only map has nothing to flush.
    bench.queue_of(disk).write_cache = Some("write through".into());
    assert_eq!(bench.gravities(caches::flushes_dropped), []);
    bench.queue_of(disk).write_cache = Some("write back".into());
    bench.node(map).read_only = Some(true);
    assert_eq!(bench.gravities(caches::flushes_dropped), []);
}

#[test]
fn flushes_that_a_loop_device_drops() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let (_, mount) = bench.mounted("ext4", "/srv", disk);
    let image = bench.loop_device("loop0", &[mount]);
    assert_eq!(bench.gravities(caches::flushes_dropped), []);
    bench.queue_of(image).write_cache = Some("write through".into());
    let defect = bench.one(caches::flushes_dropped);
    assert_eq!(defect.summary, "loop0 takes no flushes, but sda below it needs them");
    assert_eq!((defect.gravity, defect.node.as_deref()), (High, Some("/dev/loop0")));
    bench.queue_of(disk).write_cache = Some("write through".into());
    assert_eq!(bench.gravities(caches::flushes_dropped), [], "nothing below keeps data back");
    bench.node(image).loop_device.as_mut().unwrap().direct_io = Some(false);
    let defect = bench.one(caches::flushes_dropped);
    assert!(defect.summary.ends_with("is written through the page cache"), "{defect:?}");
    bench.node(image).read_only = Some(true);
    assert_eq!(bench.gravities(caches::flushes_dropped), []);
    bench.node(image).read_only = None;
    bench.node(image).loop_device.as_mut().unwrap().backing_file = None;
    assert_eq!(bench.gravities(caches::flushes_dropped), [], "nothing is attached");
}

#[test]
fn write_caches_that_are_off() {
    let off = DriveIdentity {
        volatile_cache: Some(true),
        write_cache_enabled: Some(false),
        ..DriveIdentity::default()
    };
    let (mut bench, disk) = with_identity(off.clone());
    let defect = bench.one(caches::write_cache_off);
    assert_eq!(
        (defect.gravity, defect.fix[0].command.as_deref()),
        (Medium, Some("hdparm -W1 /dev/sda"))
    );
    bench.queue_of(disk).rotational = Some(false);
    assert_eq!(bench.gravities(caches::write_cache_off), [Low]);
    bench.queue_of(disk).rotational = Some(true);
    bench.drive_of(disk).transport = Some("fc".into());
    assert_eq!(bench.gravities(caches::write_cache_off), [], "a storage system has its own");
    bench.drive_of(disk).transport = Some("sas".into());
    assert_eq!(bench.gravities(caches::write_cache_off), [Low]);
    for fine in [
        DriveIdentity { write_cache_enabled: Some(true), ..off.clone() },
        DriveIdentity { volatile_cache: Some(false), ..off.clone() },
        DriveIdentity { write_cache_enabled: None, ..off },
    ] {
        bench.detail_of(disk).identity = Some(fine);
        assert_eq!(bench.gravities(caches::write_cache_off), []);
    }
}

#[test]
fn slow_flushes_need_a_load_that_flushes() {
    let of = |flushes, flush_ms| {
        let mut bench = Bench::new();
        let disk = bench.ssd("sda");
        bench.detail_of(disk).counters =
            Some(DiskCounters { flushes, flush_ms, ..DiskCounters::default() });
        bench
    };
    assert_eq!(of(999, 99_999).gravities(caches::flushes_slow), []);
    assert_eq!(of(1000, 999).gravities(caches::flushes_slow), []);
    let defect = of(1000, 4000).one(caches::flushes_slow);
    assert_eq!(defect.summary, "sda takes 4.0 ms on average to flush its volatile cache");
    let mut protected = of(1000, 4000);
    protected.detail_of(0).identity =
        Some(DriveIdentity { power_loss_protection: Some(true), ..DriveIdentity::default() });
    assert_eq!(protected.gravities(caches::flushes_slow), []);
    let mut rotating = of(1000, 4000);
    rotating.queue_of(0).rotational = Some(true);
    assert_eq!(rotating.gravities(caches::flushes_slow), []);
}

#[test]
fn one_command_at_a_time() {
    let (mut bench, disk) =
        with_identity(DriveIdentity { queue_depth: Some(32), ..DriveIdentity::default() });
    assert_eq!(bench.gravities(features::queueing_off), []);
    bench.drive_of(disk).queue_depth = Some(1);
    let defect = bench.one(features::queueing_off);
    assert_eq!((defect.gravity, defect.certainty), (Medium, Certainty::Certain));
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 32 > /sys/class/block/sda/device/queue_depth")
    );
    bench.queue_of(disk).rotational = Some(false);
    assert_eq!(bench.gravities(features::queueing_off), [High]);
    // A drive that cannot queue, or of which nothing is known behind IDE emulation.
    bench.detail_of(disk).identity = Some(DriveIdentity::default());
    assert_eq!(bench.gravities(features::queueing_off), []);
    bench.detail_of(disk).identity = None;
    bench.drive_of(disk).controller = Some("ata_piix 0000:00:1f.1".into());
    assert_eq!(bench.gravities(features::queueing_off), []);
    bench.drive_of(disk).controller = Some("ahci 0000:00:1f.2".into());
    assert_eq!(bench.one(features::queueing_off).certainty, Certainty::Likely);
    bench.drive_of(disk).transport = Some("usb".into());
    assert_eq!(bench.gravities(features::queueing_off), []);
    // SAS drives do not say how many they take, and all take several.
    bench.drive_of(disk).transport = Some("sas".into());
    bench.detail_of(disk).identity = Some(DriveIdentity::default());
    assert_eq!(bench.one(features::queueing_off).certainty, Certainty::Likely);
}

#[test]
fn features_that_save_power_or_noise() {
    let of = |identity| with_identity(identity).0.gravities(features::settings);
    let on = DriveIdentity {
        look_ahead_enabled: Some(true),
        power_management: Some(254),
        acoustic: Some(254),
        ..DriveIdentity::default()
    };
    assert_eq!(of(on.clone()), []);
    assert_eq!(of(DriveIdentity { look_ahead_enabled: Some(false), ..on.clone() }), [Medium]);
    for (level, expected) in [(0, vec![]), (1, vec![Low]), (127, vec![Low]), (128, vec![])] {
        assert_eq!(
            of(DriveIdentity { power_management: Some(level), ..on.clone() }),
            expected,
            "{level}"
        );
    }
    for (level, expected) in [(0, vec![]), (128, vec![Low]), (253, vec![Low]), (254, vec![])] {
        assert_eq!(of(DriveIdentity { acoustic: Some(level), ..on.clone() }), expected, "{level}");
    }
    let (mut bench, disk) = with_identity(DriveIdentity { power_management: Some(64), ..on });
    let other = bench.disk("sdb");
    bench.md("md0", "raid1", &[disk, other]);
    let defect = bench.one(features::settings);
    assert_eq!(
        (defect.gravity, defect.fix[0].command.as_deref()),
        (Medium, Some("hdparm -B254 /dev/sda"))
    );
}

#[test]
fn a_better_format() {
    let mut bench = Bench::new();
    let disk = bench.nvme("nvme0n1");
    let mut of = |formats: &[(u64, u64, u64)]| {
        bench.detail_of(disk).identity = Some(DriveIdentity {
            formats: formats.to_vec(),
            format: Some(0),
            ..DriveIdentity::default()
        });
        bench.ask(features::nvme_format)
    };
    assert_eq!(of(&[(512, 0, 0), (4096, 0, 0)]), []);
    assert_eq!(of(&[(512, 0, 2), (4096, 8, 0)]), [], "other metadata");
    assert_eq!(of(&[(4096, 0, 2), (512, 0, 0)]), [], "smaller sectors");
    assert_eq!(of(&[]), []);
    let found = of(&[(512, 0, 2), (512, 8, 3), (4096, 0, 0)]);
    crate::fixtures::assert_complete(&found[0]);
    assert!(found[0].fix.iter().all(|step| step.command.is_none()));
    assert!(found[0].fix[1].text.ends_with("nvme format /dev/EMPTY --lbaf=2"));
    bench.knows_mounts(false);
    assert_eq!(bench.ask(features::nvme_format), [], "it may be mounted");
    bench.knows_mounts(true);
    assert_eq!(bench.ask(features::nvme_format).len(), 1);
    bench.partition("nvme0n1p1", 1 << 20, disk);
    assert_eq!(bench.ask(features::nvme_format), [], "in use");
}

#[test]
fn shingles_matter_where_something_rebuilds() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    bench.drive_of(disks[0]).model = Some("WDC WD40EFAX-68JH4N0".into());
    assert_eq!(bench.gravities(zones::smr_in_array), [], "on its own");
    let array = bench.md("md0", "raid0", &disks);
    assert_eq!(bench.gravities(zones::smr_in_array), [], "nothing to rebuild");
    bench.md_of(array).level = Some("raid5".into());
    let defect = bench.one(zones::smr_in_array);
    assert_eq!(
        (defect.gravity, defect.certainty, defect.node.as_deref()),
        (High, Certainty::Likely, Some("/dev/sda"))
    );
    assert_eq!(
        (defect.also.len(), defect.concerns.as_slice()),
        (0, ["/dev/md0".to_owned()].as_slice())
    );
    // The drive's own word; and a model that only looks alike.
    bench.drive_of(disks[0]).model = Some("WDC WD40EFRX".into());
    assert_eq!(bench.gravities(zones::smr_in_array), []);
    bench.detail_of(disks[1]).identity =
        Some(DriveIdentity { zoned: Some("drive-managed".into()), ..DriveIdentity::default() });
    assert_eq!(bench.one(zones::smr_in_array).certainty, Certainty::Certain);
}

#[test]
fn shingles_below_btrfs_and_zfs() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    bench.drive_of(disks[0]).model = Some("ST8000DM004-2CX188".into());
    let (fs, _) = bench.mounted("btrfs", "/srv", disks[0]);
    bench.fs_of(fs).data_profiles = vec!["single".into()];
    assert_eq!(bench.gravities(zones::smr_in_array), []);
    bench.fs_of(fs).data_profiles = vec!["raid1".into()];
    assert_eq!(bench.gravities(zones::smr_in_array), [High]);
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.drive_of(disk).model = Some("ST8000DM004-2CX188".into());
    bench.content_of(disk).other = vec!["zfs_member".into()];
    let defect = bench.one(zones::smr_in_array);
    assert!(
        defect.concerns.is_empty() && defect.summary.ends_with("a ZFS pool"),
        "{}",
        defect.summary
    );
}

#[test]
fn zones_and_their_scheduler() {
    let of = |kernel: &str, zoned: &str, scheduler: &str| {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.snapshot.host.kernel = Some(kernel.into());
        bench.queue_of(disk).zoned = Some(zoned.into());
        bench.queue_of(disk).scheduler = Some(scheduler.into());
        bench.gravities(zones::zoned_scheduler)
    };
    assert_eq!(of("6.9.12", "host-managed", "none"), [High]);
    assert_eq!(of("6.10.0", "host-managed", "none"), []);
    assert_eq!(of("6.1.0-18-amd64", "host-managed", "mq-deadline"), []);
    assert_eq!(of("6.1.0", "none", "none"), []);
    assert_eq!(of("", "host-managed", "none"), [], "who knows which kernel");
}

#[test]
fn paths_to_one_drive_count_once() {
    let mut bench = with_health(Health { passed: Some(false), ..Health::default() });
    let other = bench.disk("sdb");
    bench.drive_of(other).wwn = bench.drive_of(0).wwn.clone();
    bench.detail_of(other).health = Some(Health { passed: Some(false), ..Health::default() });
    bench.one(health::failing);
    // Of an NVMe namespace over several controllers the head is asked, not the paths.
    bench.node(0).kind = NodeKind::NvmeMultipath;
    bench.detail_of(other).health = None;
    assert_eq!(bench.one(health::failing).node.as_deref(), Some("/dev/sda"));
}

/// The data are safe without it: what a journal needs is another place.
#[test]
fn a_failing_drive_with_a_journal_names_the_filesystem() {
    let mut bench = with_health(Health { pending: Some(9), ..Health::default() });
    let data = bench.ssd("nvme0n1");
    let (fs, _) = bench.mounted("ext4", "/srv", data);
    let says = |bench: &Bench| {
        let fix = bench.one(health::failing).fix;
        fix.iter().any(|step| step.text.starts_with("the journal of ext4 at /srv lies on it"))
    };
    assert!(!says(&bench));
    bench.fs_of(fs).journal_device = Some("sda".into());
    assert!(says(&bench));
    // Where both lie there, the drive is copied as a whole.
    bench.node(fs).below = vec![0];
    let partition = bench.partition("sda1", 1 << 20, 0);
    bench.fs_of(fs).journal_device = Some("sda1".into());
    bench.node(fs).below = vec![0];
    assert!(!says(&bench), "{partition}");
}
