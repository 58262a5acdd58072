//! Filesystems in trouble, and healthy ones beside them.

use super::{RULES, btrfs, loops, options, space, state};
use crate::fixtures::{Bench, GIB, MIB, TB};
use fathom_model::defect::{Certainty, Defect, Gravity, Step};
use fathom_model::snapshot::{MOUNTS_FILE, Unread};
use fathom_model::stack::NodeKind;
use fathom_model::stack::detail::{BackingPlace, DriveIdentity, FsSuperblock};
use fathom_model::system::{FstabEntry, StorageHost, Timer};

/// A filesystem on a partition of a disk.
pub(super) fn on_disk(fs_type: &str) -> (Bench, usize, usize) {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let part = bench.partition("sda1", MIB, disk);
    let (fs, mount) = bench.mounted(fs_type, "/srv", part);
    (bench, fs, mount)
}

pub(super) fn timer(kind: &str, enabled: bool) -> Timer {
    Timer { name: kind.into(), kind: kind.into(), enabled, ..Timer::default() }
}

#[test]
fn healthy_filesystems_are_not_told() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let (mut bench, _, _) = on_disk(fs_type);
        bench.snapshot.system.timers = vec![timer("trim", true)];
        let ssd = bench.ssd("sdb");
        bench.mounted(fs_type, "/var", ssd);
        assert_eq!(bench.ids(RULES), [""; 0], "{fs_type}");
    }
}

#[test]
fn counted_errors_are_told() {
    for (fs_type, command) in
        [("ext4", "umount /srv && e2fsck -f /dev/sda1"), ("btrfs", "btrfs scrub start -B /srv")]
    {
        let (mut bench, fs, mount) = on_disk(fs_type);
        bench.fs_of(fs).errors_count = Some(0);
        assert_eq!(bench.ask(state::errors), []);
        bench.fs_of(fs).errors_count = Some(7);
        let defect = bench.one(state::errors);
        assert_eq!(defect.gravity, Gravity::High);
        let counter = "/sys/fs/ext4/sda1/errors_count";
        assert_eq!(defect.evidence[0].source == counter, fs_type == "ext4", "{defect:?}");
        assert!(defect.why.ends_with("it may turn read-only at any time"), "{}", defect.why);
        bench.mount_of(mount).effective_options = vec!["emergency_ro".into()];
        bench.fs_of(fs).errors_count = Some(1);
        let stopped = bench.one(state::errors);
        let end = "has counted 1 error and takes no writes any more (emergency_ro)";
        assert!(stopped.summary.ends_with(end), "{}", stopped.summary);
        assert!(stopped.evidence.iter().any(|seen| seen.value == "emergency_ro"));
        assert_eq!(bench.ask(state::turned_read_only), [], "once");
        assert!(stopped.why.ends_with("it takes no writes now"), "{}", stopped.why);
        assert!(
            defect.fix.iter().any(|step| step.command.as_deref() == Some(command)),
            "{defect:?}"
        );
    }
}

#[test]
fn read_only_against_fstab_is_told() {
    let (mut bench, _, mount) = on_disk("ext4");
    bench.mount_of(mount).super_options = vec!["ro".into()];
    assert_eq!(bench.ask(state::turned_read_only), [], "nobody said that it should be written");
    let entry = |options: &str| FstabEntry {
        source: "/dev/sda1".into(),
        mount_point: "/srv".into(),
        fs_type: "ext4".into(),
        options: options.split(',').map(str::to_owned).collect(),
        pass: 2,
    };
    bench.snapshot.system.configuration.fstab = vec![entry("defaults,noatime")];
    let defect = bench.one(state::turned_read_only);
    assert_eq!(defect.certainty, Certainty::Likely);
    let commands: Vec<_> = defect.fix.iter().filter_map(|step| step.command.as_deref()).collect();
    assert!(commands.contains(&"umount /srv && e2fsck -fn /dev/sda1"), "{commands:?}");
    bench.mount_of(mount).super_options = vec!["rw".into()];
    assert_eq!(bench.ask(state::turned_read_only), []);
    bench.mount_of(mount).effective_options = vec!["emergency_ro".into()];
    assert_eq!(bench.one(state::turned_read_only).certainty, Certainty::Certain);
    // The kernel's own word needs no line of fstab.
    let entries = std::mem::take(&mut bench.snapshot.system.configuration.fstab);
    let defect = bench.one(state::turned_read_only);
    assert!(defect.summary.ends_with("takes no writes any more (emergency_ro)"), "{defect:?}");
    bench.snapshot.system.configuration.fstab = entries;
    bench.mount_of(mount).effective_options.clear();
    bench.mount_of(mount).super_options = vec!["ro".into()];
    // An image that is made full is never written.
    bench.mount_of(mount).fs_type = "squashfs".into();
    let fs = bench.node(mount).below[0];
    bench.fs_of(fs).fs_type = "squashfs".into();
    let mut image = entry("loop");
    image.fs_type = "squashfs".into();
    bench.snapshot.system.configuration.fstab = vec![image];
    assert_eq!(bench.ask(state::turned_read_only), []);
    bench.mount_of(mount).fs_type = "ext4".into();
    bench.fs_of(fs).fs_type = "ext4".into();
    for options in ["ro", "defaults,noauto"] {
        bench.snapshot.system.configuration.fstab = vec![entry(options)];
        assert_eq!(bench.ask(state::turned_read_only), [], "{options}");
    }
}

#[test]
fn superblocks_of_unmounted_filesystems_are_read() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let superblock = |state: &str| {
        Some(FsSuperblock {
            fs_type: "ext4".into(),
            state: Some(state.into()),
            ..FsSuperblock::default()
        })
    };
    for (state, gravity) in [
        ("clean", None),
        ("not clean", Some(Gravity::Low)),
        ("needs recovery", Some(Gravity::Low)),
        ("needs repair", Some(Gravity::Medium)),
        ("not clean, with errors", Some(Gravity::Medium)),
    ] {
        bench.content_of(disk).filesystem = superblock(state);
        assert_eq!(bench.gravities(state::unclean), Vec::from_iter(gravity), "{state}");
    }
    // What a virtual machine has open is not clean either, and must not be mounted here.
    bench.content_of(disk).filesystem = superblock("needs recovery");
    for (opened, words) in [
        (None, Some("only where fuser -v /dev/sda shows nothing")),
        (Some(false), Some("mount it once")),
        (Some(true), None),
    ] {
        bench.detail_of(disk).opened = opened;
        let found = bench.ask(state::unclean);
        let advice = found.first().and_then(|defect| defect.fix.last());
        let fits = words.is_none_or(|words| advice.is_some_and(|step| step.text.contains(words)));
        assert!(found.is_empty() == words.is_none() && fits, "{opened:?} {found:?}");
    }
    // One with errors is checked, not mounted for writing.
    bench.content_of(disk).filesystem = superblock("not clean, with errors");
    bench.detail_of(disk).opened = Some(false);
    let fix = bench.one(state::unclean).fix;
    let words: Vec<&str> = fix.iter().map(|step| step.text.as_str()).collect();
    assert!(words.iter().all(|text| !text.contains("mount")), "{words:?}");
    assert!(words.iter().any(|text| text.ends_with("e2fsck -f /dev/sda")), "{words:?}");
    bench.detail_of(disk).opened = None;
    bench.one(state::unclean);
    // Where the list of mounts could not be read, nobody knows.
    let unread = Unread { what: MOUNTS_FILE.into(), why: "unreadable".into() };
    bench.snapshot.unread.push(unread);
    assert_eq!(bench.ask(state::unclean), []);
    bench.snapshot.unread.clear();
    // A mounted filesystem is never clean on the disk.
    bench.mounted("ext4", "/srv", disk);
    assert_eq!(bench.ask(state::unclean), []);
}

#[test]
fn a_check_is_due_when_the_count_or_the_time_reaches_a_limit() {
    const DAY_S: i64 = 24 * 3600;
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.snapshot.made_at_unix_s = 100 * DAY_S;
    let entry = FstabEntry {
        source: "UUID=aa".into(),
        mount_point: "/srv".into(),
        fs_type: "ext4".into(),
        options: vec!["defaults".into()],
        pass: 2,
    };
    bench.snapshot.system.configuration.fstab = vec![entry];
    for (mounts, checked_at_days, interval_days, count) in [
        ((19, 20), 0, 0, 0),
        ((20, 20), 0, 0, 1),
        ((500, -1), 0, 0, 0),
        ((500, 0), 0, 0, 0),
        ((1, -1), 70, 30, 1),
        ((1, -1), 71, 30, 0),
        ((20, 20), 70, 30, 1),
        ((1, -1), 200, 30, 0),
    ] {
        let superblock = FsSuperblock {
            fs_type: "ext4".into(),
            uuid: Some("aa".into()),
            mounts: Some(mounts),
            checked_at_unix_s: Some(checked_at_days * DAY_S),
            check_interval_s: Some(interval_days * DAY_S as u64),
            ..FsSuperblock::default()
        };
        bench.content_of(disk).filesystem = Some(superblock);
        assert_eq!(bench.ask(state::check_due).len(), count, "{mounts:?} {checked_at_days}");
    }
    bench.content_of(disk).filesystem = Some(FsSuperblock {
        fs_type: "ext4".into(),
        mounts: Some((21, 20)),
        ..FsSuperblock::default()
    });
    // Whose it is, fstab says by several names; what it does not name, nobody checks.
    for (source, pass, count) in [
        ("UUID=aa", 2, 0),
        ("/dev/sda", 2, 1),
        ("/dev/sda", 0, 0),
        ("/dev/sdb", 2, 0),
        ("/dev/disk/by-id/x", 1, 1),
    ] {
        bench.detail_of(disk).links = vec!["by-id/x".into()];
        let entry = &mut bench.snapshot.system.configuration.fstab[0];
        (entry.source, entry.pass) = (source.into(), pass);
        assert_eq!(bench.ask(state::check_due).len(), count, "{source} {pass}");
    }
    bench.snapshot.system.configuration.fstab[0].options = vec!["noauto".into()];
    assert_eq!(bench.ask(state::check_due), []);
    bench.mounted("ext4", "/", disk);
    bench.one(state::check_due);
}

#[test]
fn lazy_initialisation_needs_the_thread_and_something_left() {
    let (mut bench, fs, mount) = on_disk("ext4");
    bench.fs_of(fs).groups = Some(100);
    bench.fs_of(fs).groups_uninitialised = Some(40);
    assert_eq!(bench.ask(state::lazy_init), []);
    bench.snapshot.system.kernel_threads = vec!["ext4lazyinit".into()];
    let defect = bench.one(state::lazy_init);
    for option in ["emergency_ro", "shutdown", "ro"] {
        bench.mount_of(mount).effective_options = vec![option.into()];
        assert_eq!(bench.ask(state::lazy_init), [], "{option}: nothing is written any more");
    }
    bench.mount_of(mount).effective_options = Vec::new();
    assert!(defect.summary.ends_with("(40 of 100 block groups are left)"), "{}", defect.summary);
    bench.fs_of(fs).groups_uninitialised = Some(0);
    assert_eq!(bench.ask(state::lazy_init), []);
    // Without root the age decides.
    bench.fs_of(fs).groups_uninitialised = None;
    bench.fs_of(fs).made_at_unix_s = Some(1_000_000);
    bench.snapshot.made_at_unix_s = 1_000_000 + 24 * 3600;
    assert_eq!(bench.one(state::lazy_init).certainty, Certainty::Likely);
    bench.snapshot.made_at_unix_s += 1;
    assert_eq!(bench.ask(state::lazy_init), []);
    bench.fs_of(fs).made_at_unix_s = None;
    assert_eq!(bench.ask(state::lazy_init), [], "its age is unknown too");
    bench.fs_of(fs).made_at_unix_s = Some(1_000_001);
    bench.one(state::lazy_init);
    let other = bench.disk("sdb");
    let (second, _) = bench.mounted("ext4", "/var", other);
    bench.one(state::lazy_init);
    bench.fs_of(second).made_at_unix_s = Some(1_000_001);
    assert_eq!(bench.ask(state::lazy_init), [], "it may be either");
    bench.fs_of(second).made_at_unix_s = None;
    bench.mount_of(mount).options.push("noinit_itable".into());
    assert_eq!(bench.ask(state::lazy_init), []);
}

#[test]
fn barriers_matter_where_a_cache_forgets() {
    let (mut bench, _, mount) = on_disk("ext4");
    for option in ["nobarrier", "barrier=0"] {
        bench.mount_of(mount).effective_options = vec![option.into()];
        assert_eq!(bench.one(options::barriers_off).gravity, Gravity::High, "{option}");
    }
    // F2FS has a mode that leaves the flushes of fsync out only.
    let (mut flash, _, mount_flash) = on_disk("f2fs");
    flash.mount_of(mount_flash).super_options = vec!["fsync_mode=posix".into()];
    assert_eq!(flash.ask(options::barriers_off), []);
    flash.mount_of(mount_flash).super_options = vec!["fsync_mode=nobarrier".into()];
    let defect = flash.one(options::barriers_off);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::High, Certainty::Certain));
    assert_eq!(defect.evidence[0].value, "fsync_mode=nobarrier");
    assert_eq!(defect.fix[0].command.as_deref(), Some("mount -o remount,fsync_mode=posix /srv"));
    assert!(defect.fix[1].text.contains("fsync_mode=nobarrier"), "{:?}", defect.fix);
    // A controller may keep its cache over a power cut.
    let (mut behind, _, mount_behind) = on_disk("ext4");
    behind.mount_of(mount_behind).effective_options = vec!["nobarrier".into()];
    let controller = StorageHost {
        name: "host0".into(),
        driver: Some("megaraid_sas".into()),
        ..StorageHost::default()
    };
    behind.snapshot.system.hosts.push(controller);
    behind.detail_of(0).host = Some("host0".into());
    behind.drive_of(0).vendor = Some("AVAGO".into());
    let defect = behind.one(options::barriers_off);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::Medium, Certainty::Possible));
    bench.detail_of(0).identity =
        Some(DriveIdentity { power_loss_protection: Some(true), ..DriveIdentity::default() });
    assert_eq!(bench.ask(options::barriers_off), []);
    bench.node(0).detail = None;
    bench.queue_of(0).write_cache = Some("write through".into());
    assert_eq!(bench.ask(options::barriers_off), []);
    bench.queue_of(0).write_cache = Some("write back".into());
    bench.mount_of(mount).effective_options = vec!["barrier=1".into()];
    assert_eq!(bench.ask(options::barriers_off), []);
}

#[test]
fn data_without_an_order_is_told_where_it_is_written() {
    let (mut bench, _, mount) = on_disk("ext4");
    bench.mount_of(mount).effective_options = vec!["rw".into(), "data=ordered".into()];
    assert_eq!(bench.ask(options::data_writeback), []);
    bench.mount_of(mount).effective_options[1] = "data=writeback".into();
    let defect = bench.one(options::data_writeback);
    assert_eq!(defect.gravity, Gravity::Low);
    assert_eq!(bench.ask(options::data_journal), []);
    bench.mount_of(mount).options = vec!["ro".into()];
    bench.mount_of(mount).super_options = vec!["ro".into()];
    assert_eq!(bench.ask(options::data_writeback), [], "nothing is written");
}

#[test]
fn an_external_journal_wants_another_spindle() {
    // XFS names the device of its log.
    let (mut bench, _, mount) = on_disk("xfs");
    bench.partition("sda2", 500 * GIB, 0);
    let other = bench.disk("sdb");
    bench.mount_of(mount).super_options.push("logdev=/dev/sda2".into());
    let defect = bench.one(options::journal_same_spindle);
    assert!(defect.summary.contains("lies on sda2, on the same disk sda"), "{}", defect.summary);
    let commands: Vec<_> = defect.fix.iter().filter_map(|step| step.command.as_deref()).collect();
    assert_eq!(
        commands,
        [
            "umount /srv && dd if=/dev/sda2 of=/dev/NEW bs=1M conv=fsync",
            "mount -o logdev=/dev/NEW /dev/sda1 /srv"
        ],
        "its superblock does not say where the log lies"
    );
    assert!(!format!("{defect:?}").contains("ext4"), "{defect:?}");
    *bench.mount_of(mount).super_options.last_mut().unwrap() = "logdev=/dev/sdb".into();
    assert_eq!(bench.ask(options::journal_same_spindle), []);
    // ext4 names it by its UUID.
    let (mut bench, _, _) = on_disk("ext4");
    let journal = bench.partition("sda2", 500 * GIB, 0);
    let superblock = |uuid: &str, journal: Option<&str>| FsSuperblock {
        uuid: Some(uuid.into()),
        journal_uuid: journal.map(str::to_owned),
        ..FsSuperblock::default()
    };
    bench.content_of(1).filesystem = Some(superblock("aaaa", Some("BBBB")));
    bench.content_of(journal).filesystem = Some(superblock("bbbb", None));
    let defect = bench.one(options::journal_same_spindle);
    assert_eq!(defect.gravity, Gravity::Medium);
    let commands: Vec<_> = defect.fix.iter().filter_map(|step| step.command.as_deref()).collect();
    assert_eq!(
        commands,
        ["umount /srv", "tune2fs -O ^has_journal /dev/sda1", "tune2fs -j /dev/sda1"]
    );
    bench.queue_of(0).rotational = Some(false);
    assert_eq!(bench.ask(options::journal_same_spindle), []);
    // What a hypervisor's disk says of rotation is not about a drive.
    bench.queue_of(0).rotational = Some(true);
    bench.drive_of(0).transport = Some("virtio".into());
    assert_eq!(bench.ask(options::journal_same_spindle), []);
    let _ = other;
}

#[test]
fn commits_that_wait_for_minutes_are_told() {
    for (kind, option, told) in [
        ("ext4", "commit=60", None),
        ("ext4", "commit=61", Some("mount -o remount,commit=5 /srv")),
        ("btrfs", "commit=300", Some("mount -o remount,commit=30 /srv")),
        ("ext4", "commit=late", None),
        ("xfs", "commit=300", None),
    ] {
        let (mut bench, _, mount) = on_disk(kind);
        bench.mount_of(mount).super_options.push(option.into());
        let found = bench.ask(options::commit_late);
        let command = found.first().and_then(|defect| defect.fix[0].command.as_deref());
        assert_eq!(command, told, "{kind} {option}");
        found.iter().for_each(crate::fixtures::assert_complete);
        bench.mount_of(mount).super_options[0] = "ro".into();
        assert_eq!(bench.ask(options::commit_late), [], "nothing waits there");
    }
}

#[test]
fn options_that_cost_are_told() {
    let (mut bench, _, mount) = on_disk("ext4");
    bench.mount_of(mount).effective_options = vec!["data=journal".into()];
    assert_eq!(bench.one(options::data_journal).evidence[0].source, "/proc/fs/ext4/sda1/options");
    bench.mount_of(mount).effective_options = vec!["data=ordered".into()];
    assert_eq!(bench.ask(options::data_journal), []);
    bench.mount_of(mount).super_options.push("sync".into());
    assert_eq!(bench.one(options::sync).gravity, Gravity::Medium);
    bench.mount_of(mount).super_options = vec!["ro".into(), "sync".into()];
    assert_eq!(bench.ask(options::sync), []);
    bench.mount_of(mount).super_options = vec!["rw".into()];
    for (options, count) in [("rw,relatime", 0), ("rw,noatime", 0), ("rw", 1), ("ro", 0)] {
        bench.mount_of(mount).options = options.split(',').map(str::to_owned).collect();
        assert_eq!(bench.ask(options::strict_atime).len(), count, "{options}");
    }
    bench.mount_of(mount).options = vec!["rw".into()];
    let seen = bench.one(options::strict_atime).evidence.remove(0);
    assert_eq!(seen.value, "rw: neither relatime nor noatime");
    bench.mount_of(mount).super_options.push("lazytime".into());
    assert_eq!(bench.ask(options::strict_atime), [], "times stay in memory");
}

#[test]
fn space_and_inodes_have_thresholds() {
    let (mut bench, fs, mount) = on_disk("ext4");
    for (available, gravity) in
        [(10 * GIB, None), (10 * GIB - 1, Some(Gravity::Medium)), (3 * GIB, Some(Gravity::High))]
    {
        let facts = bench.fs_of(fs);
        (facts.available_bytes, facts.free_bytes) = (Some(available), Some(available));
        assert_eq!(bench.gravities(space::full), Vec::from_iter(gravity), "{available}");
    }
    // What is kept back for root is not in use.
    bench.fs_of(fs).free_bytes = Some(80 * GIB);
    assert_eq!(bench.gravities(space::full), [], "20 of the 23 that others may use");
    bench.fs_of(fs).free_bytes = Some(70 * GIB);
    bench.one(space::full);
    bench.mount_of(mount).super_options = vec!["ro".into()];
    assert_eq!(bench.ask(space::full), []);
    let (mut bench, fs, _) = on_disk("squashfs");
    bench.fs_of(fs).available_bytes = Some(0);
    assert_eq!(bench.ask(space::full), []);
    let (mut bench, fs, _) = on_disk("ext4");
    bench.fs_of(fs).inodes_free = Some(100_000);
    assert_eq!(bench.ask(space::inodes), []);
    bench.fs_of(fs).inodes_free = Some(99_999);
    assert!(bench.one(space::inodes).summary.contains("99 999 of 1 000 000 inodes left"));
    bench.fs_of(fs).inodes_free = Some(30_000);
    assert_eq!(bench.gravities(space::inodes), [Gravity::High]);
    bench.node(fs).kind = NodeKind::Memory;
    let found = bench.one(space::inodes);
    assert_eq!(found.gravity, Gravity::Medium);
    assert!(format!("{:?}", found.fix).contains("remount,nr_inodes="), "{found:?}");
    bench.fs_of(fs).inodes_free = Some(30_001);
    assert_eq!(bench.ask(space::inodes), [], "the next files can be made");
    bench.node(fs).kind = NodeKind::FileSystem;
    bench.fs_of(fs).inodes = Some(0);
    assert_eq!(bench.ask(space::inodes), [], "inodes are made as needed");
}

#[test]
fn free_space_has_a_shape() {
    let (mut bench, fs, _) = on_disk("btrfs");
    bench.detail_of(fs).unallocated_bytes = Some(GIB);
    assert_eq!(bench.ask(space::unallocated), []);
    bench.detail_of(fs).unallocated_bytes = Some(GIB - 1);
    assert_eq!(bench.one(space::unallocated).gravity, Gravity::Medium);
    let facts = bench.fs_of(fs);
    (facts.available_bytes, facts.free_bytes) = (Some(GIB), Some(GIB));
    assert_eq!(bench.ask(space::unallocated), [], "simply full");
    let (mut bench, fs, _) = on_disk("ext4");
    bench.detail_of(fs).free_pieces = Some((8 * MIB, 0.5));
    assert_eq!(bench.ask(space::scattered), []);
    bench.detail_of(fs).free_pieces = Some((8 * MIB, 0.49));
    assert_eq!(bench.one(space::scattered).gravity, Gravity::Medium);
    bench.queue_of(0).rotational = Some(false);
    assert_eq!(bench.gravities(space::scattered), [Gravity::Low]);
    // Of a large one the groups tell, when enough of them are known.
    bench.detail_of(fs).free_pieces = None;
    for (large, all, groups, found) in
        [(499, 1000, 4000, 1), (500, 1000, 4000, 0), (499, 1000, 4004, 0), (10, 63, 64, 0)]
    {
        bench.detail_of(fs).free_groups = Some((large, all));
        bench.fs_of(fs).groups = Some(groups);
        assert_eq!(bench.ask(space::scattered).len(), found, "{large} of {all} of {groups}");
    }
}

/// btrfs with two copies of everything.
fn copies(bench: &mut Bench, devices: &[usize]) -> (usize, usize) {
    let (fs, mount) = bench.mounted("btrfs", "/srv", devices[0]);
    bench.node(fs).below = devices.to_vec();
    let facts = bench.fs_of(fs);
    (facts.data_profiles, facts.metadata_profiles) = (vec!["raid1".into()], vec!["raid1".into()]);
    bench.detail_of(fs).filesystem =
        [1, 2].map(|id| (format!("devinfo/{id}/missing"), "0".to_owned())).to_vec();
    (fs, mount)
}

#[test]
fn btrfs_without_a_device_is_told() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    let (fs, mount) = copies(&mut bench, &disks);
    assert_eq!(bench.ask(btrfs::degraded), []);
    bench.node(fs).below.truncate(1);
    bench.detail_of(fs).filesystem[1].1 = "1".into();
    bench.fs_of(fs).data_profiles.push("single".into());
    bench.mount_of(mount).super_options.push("degraded".into());
    let defect = bench.one(btrfs::degraded);
    assert_eq!(
        (defect.summary.as_str(), defect.gravity),
        ("btrfs at /srv lacks 1 of its 2 devices", Gravity::High)
    );
    let commands: Vec<_> = defect.fix.iter().filter_map(|step| step.command.as_deref()).collect();
    assert_eq!(
        commands,
        [
            "btrfs filesystem show /srv",
            "btrfs replace start -B 2 /dev/NEW /srv",
            "btrfs balance start -dconvert=raid1,soft -mconvert=raid1,soft /srv",
        ]
    );
    // Only read, with two copies left, it can wait.
    bench.mount_of(mount).super_options = vec!["ro".into(), "degraded".into()];
    assert_eq!(bench.gravities(btrfs::degraded), [Gravity::High], "one copy is left");
    let facts = bench.fs_of(fs);
    (facts.data_profiles, facts.metadata_profiles) =
        (vec!["raid1c3".into()], vec!["raid1c3".into()]);
    assert_eq!(bench.gravities(btrfs::degraded), [Gravity::Medium]);
}

/// A device of a btrfs of two that nothing uses.
fn part_of_btrfs(bench: &mut Bench, device: usize, number: u64, generation: u64) {
    bench.content_of(device).filesystem = Some(FsSuperblock {
        fs_type: "btrfs".into(),
        uuid: Some("a-b".into()),
        device_uuid: Some(format!("device {number}")),
        device_number: Some(number),
        devices: Some(2),
        generation: Some(generation),
        ..FsSuperblock::default()
    });
}

#[test]
fn btrfs_that_lacks_a_device_before_it_is_mounted_is_told() {
    let mut bench = Bench::new();
    let [first, second, third] = ["sda", "sdb", "sdc"].map(|name| bench.disk(name));
    part_of_btrfs(&mut bench, first, 1, 9);
    let defect = bench.one(btrfs::incomplete);
    let summary = "1 of the 2 devices of the btrfs on /dev/sda are not there";
    assert_eq!((defect.summary.as_str(), defect.gravity), (summary, Gravity::High));
    assert_eq!(defect.certainty, Certainty::Certain);
    // The same device by another path, one that only takes the place of another, and a seed.
    part_of_btrfs(&mut bench, second, 1, 9);
    assert_eq!(bench.ask(btrfs::incomplete).len(), 1, "twice the same");
    part_of_btrfs(&mut bench, second, 0, 9);
    assert_eq!(bench.ask(btrfs::incomplete).len(), 1, "no device of it yet");
    part_of_btrfs(&mut bench, second, 2, 8);
    assert_eq!(bench.ask(btrfs::incomplete), [], "all are there");
    bench.content_of(second).filesystem.as_mut().unwrap().devices = Some(3);
    assert_eq!(bench.ask(btrfs::incomplete), [], "the newest counts");
    bench.content_of(first).filesystem.as_mut().unwrap().devices = Some(3);
    assert_eq!(bench.ask(btrfs::incomplete).len(), 1);
    let seed = FsSuperblock {
        fs_type: "btrfs".into(),
        uuid: Some("c-d".into()),
        is_seed: true,
        ..FsSuperblock::default()
    };
    bench.content_of(third).filesystem = Some(seed);
    assert_eq!(bench.ask(btrfs::incomplete), [], "a seed has another UUID");
    bench.detail_of(third).content = None;
    bench.detail_of(third).untouched = Some("standby".into());
    assert_eq!(bench.ask(btrfs::incomplete), [], "the one that sleeps may be it");
    bench.detail_of(third).untouched = None;
    let unread = Unread { what: "superblocks of /dev/sdc".into(), why: "no permission".into() };
    bench.snapshot.unread = vec![unread];
    assert_eq!(bench.one(btrfs::incomplete).certainty, Certainty::Possible);
    bench.detail_of(first).opened = Some(true);
    assert_eq!(bench.ask(btrfs::incomplete), [], "the kernel has it");
    bench.detail_of(first).opened = Some(false);
    bench.snapshot.targets = vec!["/dev/sda".into()];
    assert_eq!(bench.ask(btrfs::incomplete), [], "the others were not looked at");
}

#[test]
fn copies_of_btrfs_want_drives_of_their_own() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    copies(&mut bench, &disks);
    assert_eq!(bench.ids(RULES), [""; 0]);
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let parts = [bench.partition("sda1", MIB, disk), bench.partition("sda2", 500 * GIB, disk)];
    let (fs, _) = copies(&mut bench, &parts);
    let defect = bench.one(btrfs::one_disk);
    assert!(defect.summary.ends_with("that they share: sda1, sda2"), "{}", defect.summary);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("btrfs replace start -B /dev/sda2 /dev/NEW /srv")
    );
    let facts = bench.fs_of(fs);
    (facts.data_profiles, facts.metadata_profiles) = (vec!["single".into()], vec!["dup".into()]);
    assert_eq!(bench.ask(btrfs::one_disk), [], "nothing is promised");
    // Of three copies two may be lost.
    for (own, is_told) in [(true, false), (false, true)] {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let mut devices: Vec<usize> =
            ["sda1", "sda2", "sda3"].map(|name| bench.partition(name, MIB, disk)).to_vec();
        if own {
            devices[2] = bench.disk("sdb");
        }
        let (fs, _) = copies(&mut bench, &devices);
        let facts = bench.fs_of(fs);
        (facts.data_profiles, facts.metadata_profiles) =
            (vec!["raid1c3".into()], vec!["raid6".into()]);
        assert_eq!(bench.ask(btrfs::one_disk).len(), usize::from(is_told), "{own}");
    }
}

/// What each of several files lacks may be free, and what all lack not.
#[test]
fn sparse_files_of_one_filesystem_are_given_space_together_or_not_at_all() {
    let (mut bench, fs, mount) = on_disk("ext4");
    for (name, path) in [("loop0", "/srv/a"), ("loop1", "/srv/b"), ("loop2", "/srv/b")] {
        let device = bench.loop_device(name, &[mount]);
        let facts = bench.node(device).loop_device.as_mut().unwrap();
        facts.backing_file = Some(path.into());
        (facts.backing_size_bytes, facts.backing_allocated_bytes) = (Some(20 * GIB), Some(0));
    }
    let fixes = |bench: &Bench| -> Vec<Step> {
        bench.ask(loops::sparse).into_iter().map(|defect| defect.fix[0].clone()).collect()
    };
    let fix = fixes(&bench);
    assert_eq!(fix.len(), 3);
    assert!(fix.iter().all(|step| step.command.is_some()), "40 and 10 of 50 GiB: {fix:?}");
    bench.fs_of(fs).available_bytes = Some(50 * GIB - 1);
    for step in fixes(&bench) {
        assert_eq!(step.command, None, "{step:?}");
        let words = "it lacks 20 GiB, with others there 40 GiB, and its filesystem has";
        assert!(step.text.starts_with(words), "{step:?}");
        assert!(step.text.contains("of which 10 GiB should stay for others"), "{step:?}");
    }
    // Of a large one no tenth has to stay.
    bench.fs_of(fs).total_bytes = Some(TB);
    bench.fs_of(fs).available_bytes = Some(50 * GIB);
    assert!(fixes(&bench).iter().all(|step| step.command.is_some()));
}

#[test]
fn loop_files_that_were_never_written_are_told() {
    let (mut bench, _, mount) = on_disk("ext4");
    let device = bench.loop_device("loop0", &[mount]);
    for (unwritten_bytes, found) in [(GIB / 100, 0), (GIB / 100 + 1, 1), (GIB, 1)] {
        let place = BackingPlace { unwritten_bytes, ..BackingPlace::default() };
        bench.detail_of(device).backing = Some(place);
        assert_eq!(bench.ask(loops::sparse).len(), found, "{unwritten_bytes}");
    }
    let reserved = bench.one(loops::sparse);
    assert!(reserved.summary.contains("not written yet"), "{reserved:?}");
    let [once] = &reserved.fix[..] else { panic!("it has its space: {reserved:?}") };
    // Whoever has the file itself open is not seen.
    let command = "dd if=/srv/image of=/srv/image bs=1M conv=notrunc,fsync";
    assert!(once.command.is_none() && once.text.ends_with(command), "{once:?}");
    assert!(once.text.contains("nothing else has the file open"), "{once:?}");
    // A filesystem that was unmounted lazily is written all the same, and old bytes would come back over it.
    bench.detail_of(device).opened = Some(true);
    let reserved = bench.one(loops::sparse);
    assert!(reserved.fix[0].command.is_none(), "{reserved:?}");
    assert!(reserved.fix[0].text.contains("unmounted or stopped"), "{reserved:?}");
}

#[test]
fn loop_devices_over_memory_touch_no_disk() {
    let (mut bench, fs, mount) = on_disk("ext4");
    let device = bench.loop_device("loop0", &[mount]);
    let facts = bench.node(device).loop_device.as_mut().unwrap();
    (facts.direct_io, facts.backing_allocated_bytes) = (Some(false), Some(0));
    assert_eq!((bench.ask(loops::buffered).len(), bench.ask(loops::sparse).len()), (1, 1));
    bench.node(fs).kind = NodeKind::Memory;
    assert_eq!((bench.ask(loops::buffered), bench.ask(loops::sparse)), (vec![], vec![]));
}

#[test]
fn loop_devices_that_take_writes_are_told() {
    let (mut bench, fs, mount) = on_disk("ext4");
    let device = bench.loop_device("loop0", &[mount]);
    assert_eq!(bench.ids(RULES), [""; 0]);
    bench.node(device).loop_device.as_mut().unwrap().direct_io = Some(false);
    assert_eq!(bench.one(loops::buffered).gravity, Gravity::Low);
    bench.node(device).loop_device.as_mut().unwrap().backing_allocated_bytes = Some(GIB - 4096);
    assert_eq!(
        bench.one(loops::sparse).fix[0].command.as_deref(),
        Some("fallocate -l 1073741824 /srv/image")
    );
    // What has space and was never written is still read from nowhere.
    let fix = bench.one(loops::sparse).fix;
    let once = "dd if=/srv/image of=/srv/image bs=1M conv=notrunc,fsync";
    assert!(fix[1].command.is_none() && fix[1].text.ends_with(once), "{fix:?}");
    let (mut used, _, below) = on_disk("ext4");
    let inside = used.loop_device("loop0", &[below]);
    used.mounted("ext4", "/inside", inside);
    used.node(inside).loop_device.as_mut().unwrap().backing_allocated_bytes = Some(0);
    let fix = used.one(loops::sparse).fix;
    assert!(fix[1].command.is_none() && fix[1].text.contains("unmounted"), "{fix:?}");
    assert!(fix[1].text.ends_with("dd if=FILE of=FILE bs=1M conv=notrunc,fsync"), "{fix:?}");
    // fallocate takes everything that is free before it says that this does not suffice.
    for available in [Some(10 * GIB), None] {
        bench.fs_of(fs).available_bytes = available;
        let fix = bench.one(loops::sparse).fix;
        assert_eq!(
            fix[0].command.is_some(),
            available.is_some_and(|bytes| bytes > 10 * GIB + 4096)
        );
        assert!(
            fix[0].text.contains("it lacks 4.0 KiB") || fix[0].text.contains("it lacks 4 KiB"),
            "{fix:?}"
        );
    }
    bench.node(device).read_only = Some(true);
    assert_eq!(bench.ids(RULES), [""; 0], "a package's image");
    let facts = bench.node(device).loop_device.as_mut().unwrap();
    facts.backing_file = Some("/srv/image (deleted)".into());
    assert_eq!(bench.one(loops::deleted).gravity, Gravity::Low);
    bench.node(device).read_only = Some(false);
    assert_eq!(bench.one(loops::deleted).gravity, Gravity::Medium);
    let (_, _) = bench.mounted("ext4", "/inner", device);
    let defect = bench.one(loops::deleted);
    assert_eq!(defect.gravity, Gravity::High);
    // Where mount made the device, umount would detach it, and all is gone: it is held open before.
    let commands = |defect: &Defect| -> Vec<String> {
        defect.fix.iter().filter_map(|step| step.command.clone()).collect()
    };
    let path = bench.node(device).label().to_owned();
    let told = commands(&defect);
    assert_eq!(told[..2], [format!("exec 9<{path}"), "umount /inner".to_owned()]);
    assert_eq!(told[3], format!("exec 9<&-; losetup -d {path}"));
    // The log of a filesystem that is mounted from another device is in use too.
    let log = bench.loop_device("loop9", &[]);
    bench.node(log).loop_device.as_mut().unwrap().backing_file = Some("/x (deleted)".into());
    let of_log = |bench: &Bench| -> Gravity {
        let found = bench.ask(loops::deleted).into_iter();
        found.filter(|d| d.node.as_deref() == Some("/dev/loop9")).map(|d| d.gravity).next().unwrap()
    };
    assert_eq!(of_log(&bench), Gravity::Medium);
    let fs = bench.snapshot.machine.nodes.iter().position(|node| node.fs.is_some()).unwrap();
    bench.fs_of(fs).journal_device = Some("loop9".into());
    assert_eq!(of_log(&bench), Gravity::High);
    bench.node(log).loop_device = None;
    bench.node(device).loop_device.as_mut().unwrap().autoclear = Some(true);
    assert_eq!(commands(&bench.one(loops::deleted))[3], "exec 9<&-");
    // A place that only another namespace has is no command's.
    bench.node(device).mounted_at = vec!["/x (as 12 sh sees it)".into(), "/y".into()];
    assert_eq!(commands(&bench.one(loops::deleted))[1], "umount /inner /y");
}

/// A remount that changes nothing is not advised.
#[test]
fn an_xfs_that_has_shut_itself_down_is_told() {
    let (mut bench, _, mount) = on_disk("xfs");
    bench.mount_of(mount).super_options.push("shutdown".into());
    let defect = bench.one(state::turned_read_only);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::High, Certainty::Certain));
    assert!(defect.summary.ends_with("has shut itself down: every request to it fails"));
    assert_eq!(defect.evidence[0].source, "stat /srv");
    let commands: Vec<_> = defect.fix.iter().filter_map(|step| step.command.as_deref()).collect();
    assert!(commands.contains(&"umount /srv && mount /dev/sda1 /srv"), "{commands:?}");
}

#[test]
fn an_ext4_without_a_journal_is_told_where_it_is_written() {
    let (mut bench, fs, mount) = on_disk("ext4");
    bench.fs_of(fs).journal = Some(false);
    let defect = bench.one(options::no_journal);
    let expected = "umount /srv && e2fsck -f /dev/sda1 && tune2fs -j /dev/sda1";
    assert_eq!(defect.fix[0].command.as_deref(), Some(expected));
    bench.mount_of(mount).options = vec!["ro".into()];
    assert_eq!(bench.ask(options::no_journal), []);
    let (mut bench, fs, _) = on_disk("ext2");
    bench.fs_of(fs).journal = Some(false);
    assert_eq!(bench.ask(options::no_journal), [], "it never has one");
}

#[test]
fn what_lies_in_memory_is_told_when_nothing_fits_any_more() {
    let (mut bench, fs, _) = on_disk("tmpfs");
    bench.node(fs).kind = NodeKind::Memory;
    let mut left = |share: f64| -> Vec<Gravity> {
        let bytes = (100.0 * GIB as f64 * share) as u64;
        (bench.fs_of(fs).free_bytes, bench.fs_of(fs).available_bytes) = (Some(bytes), Some(bytes));
        bench.gravities(space::full)
    };
    assert_eq!((left(0.04), left(0.0)), (vec![], vec![Gravity::Medium]));
    assert!(bench.one(space::full).summary.starts_with("/srv is 100 % full"));
}
