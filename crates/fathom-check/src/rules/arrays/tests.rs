//! Arrays in trouble, and healthy ones beside them.

use super::{RULES, likeness, members, settings, state, superblocks};
use crate::fixtures::{Bench, GIB, MIB, TB};
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::MdMember;
use fathom_model::stack::detail::{DriveIdentity, MdSuperblock};
use fathom_model::system::Swap;

/// An array of this level on so many rotating disks.
pub(super) fn array(level: &str, count: usize) -> (Bench, usize, Vec<usize>) {
    let mut bench = Bench::new();
    let disks: Vec<usize> =
        (0..count).map(|n| bench.disk(&format!("sd{}", (b'a' + n as u8) as char))).collect();
    let md = bench.md("md0", level, &disks);
    (bench, md, disks)
}

/// A superblock of the array's member.
pub(super) fn superblock(uuid: &str, member: u64, events: u64) -> MdSuperblock {
    MdSuperblock {
        version: "1.2".into(),
        array_uuid: Some(uuid.into()),
        device_uuid: Some(format!("dddddddd:dddddddd:dddddddd:{member:08x}")),
        name: Some("host:0".into()),
        raid_disks: Some(2),
        events: Some(events),
        ..MdSuperblock::default()
    }
}

#[test]
fn healthy_arrays_of_every_level_are_not_told() {
    for (level, count) in [("raid0", 4), ("raid1", 2), ("raid10", 4), ("raid5", 4), ("raid6", 8)] {
        let (bench, _, _) = array(level, count);
        assert_eq!(bench.ids(RULES), [""; 0], "{level}");
    }
}

#[test]
fn a_degraded_array_names_who_failed_and_what_is_left() {
    let (mut bench, md, _) = array("raid6", 6);
    bench.md_of(md).degraded = Some(1);
    bench.md_of(md).members[2].state = Some("faulty".into());
    let defect = bench.one(state::degraded);
    assert_eq!(defect.gravity, Gravity::High);
    assert!(defect.summary.contains("lacks 1 of 6 members (sdc failed)"), "{}", defect.summary);
    assert!(defect.why.contains("less left to lose"), "{}", defect.why);
    bench.md_of(md).degraded = Some(2);
    assert!(bench.one(state::degraded).why.starts_with("one more lost member"));
    // Three are more than raid6 forgives: another rule's matter.
    bench.md_of(md).degraded = Some(3);
    assert_eq!(bench.ask(state::degraded), []);
    assert_eq!(bench.one(state::broken).gravity, Gravity::High);
    // raid0 tells no number, but that it is broken.
    let (mut bench, md, _) = array("raid0", 2);
    bench.md_of(md).array_state = Some("broken".into());
    assert_eq!(bench.ids(RULES), ["md-broken"]);
    bench.md_of(md).members[1].name = "nvme0n1p1".into();
    let command = bench.one(state::broken).fix[0].command.clone();
    let expected = "mdadm --examine /dev/sda /dev/nvme0n1p1 >/root/members.txt";
    assert_eq!(command.as_deref(), Some(expected));
}

#[test]
fn the_rebuild_of_a_degraded_array_is_told_once() {
    let (mut bench, md, _) = array("raid1", 2);
    let facts = bench.md_of(md);
    (facts.degraded, facts.sync_action) = (Some(1), Some("recover".into()));
    facts.sync_completed_share = Some(0.431);
    assert_eq!(bench.ids(RULES), ["md-degraded"]);
    let defect = bench.one(state::degraded);
    assert!(defect.summary.contains("rebuilding (43 % done)"), "{}", defect.summary);
    assert!(defect.fix.iter().any(|step| step.command.as_deref() == Some("mdadm --wait /dev/md0")));
    assert!(defect.risk.ends_with("a further loss can take the data"), "{}", defect.risk);
    let (mut bench, md, _) = array("raid6", 5);
    let facts = bench.md_of(md);
    (facts.degraded, facts.sync_action) = (Some(1), Some("recover".into()));
    assert!(!bench.one(state::degraded).risk.contains("can take the data"), "it forgives one more");
}

#[test]
fn an_array_that_waits_with_its_resync_is_told() {
    let (mut bench, md, _) = array("raid5", 3);
    for (state, start, count) in [
        ("read-auto", "0", 1),
        ("readonly", "81920", 1),
        ("read-auto", "none", 0),
        ("clean", "0", 0),
    ] {
        bench.md_of(md).array_state = Some(state.into());
        bench.detail_of(md).md = vec![("resync_start".into(), start.into())];
        assert_eq!(bench.ask(state::resync_pending).len(), count, "{state} {start}");
    }
    bench.md_of(md).array_state = Some("read-auto".into());
    bench.detail_of(md).md = vec![("resync_start".into(), "0".into())];
    assert_eq!(
        bench.one(state::resync_pending).fix[0].command.as_deref(),
        Some("mdadm --readwrite /dev/md0")
    );
    bench.md_of(md).degraded = Some(1);
    assert_eq!(bench.ask(state::resync_pending), [], "it lacks a member first of all");
}

#[test]
fn a_member_that_was_left_out_is_to_be_taken_back() {
    let (mut bench, md, disks) = array("raid1", 2);
    let left = bench.disk("sdc");
    let uuid = bench.md_of(md).uuid.clone().unwrap();
    for (&disk, events) in disks.iter().chain([&left]).zip([100, 100, 60]) {
        // The superblock gives the UUID in another form.
        bench.content_of(disk).md =
            Some(superblock(&uuid.replace(':', "-").to_uppercase(), disk as u64, events));
    }
    // Whole without it: an old member. Degraded: the missing one.
    assert_eq!(bench.one(superblocks::stale_member).node.as_deref(), Some("/dev/sdc"));
    bench.md_of(md).degraded = Some(1);
    assert_eq!(bench.ids(RULES), ["md-degraded"]);
    let defect = bench.one(state::degraded);
    assert!(defect.evidence.iter().any(|e| e.value.contains("40 events behind")), "{defect:?}");
    assert!(
        defect.fix.iter().any(|s| s.command.as_deref() == Some("mdadm /dev/md0 --re-add /dev/sdc"))
    );
    // It may be mounted: then nothing is written over it.
    bench.knows_mounts(false);
    let fix = bench.one(state::degraded).fix;
    assert!(fix.iter().all(|s| s.command.as_ref().is_none_or(|c| !c.contains("/dev/sdc"))));
    bench.knows_mounts(true);
    // Without a bitmap the kernel refuses --re-add of one that is behind.
    bench.md_of(md).consistency_policy = Some("resync".into());
    let defect = bench.one(state::degraded);
    let commands: Vec<_> = defect.fix.iter().filter_map(|s| s.command.as_deref()).collect();
    assert_eq!(commands[1..], ["mdadm /dev/md0 --add /dev/sdc"]);
    assert_eq!(
        (defect.also.len(), defect.concerns.as_slice()),
        (0, ["/dev/sdc".to_owned()].as_slice())
    );
    bench.md_of(md).consistency_policy = Some("bitmap".into());
    // In use for something else, it is no candidate.
    bench.md_of(md).degraded = Some(0);
    bench.mounted("ext4", "/mnt", left);
    assert_eq!(bench.ids(RULES), [""; 0]);
}

#[test]
fn members_of_an_array_that_does_not_run_are_told_together() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    for (disk, events) in disks.into_iter().zip([50, 48]) {
        bench.content_of(disk).md = Some(superblock("aaaa", disk as u64, events));
    }
    let defect = bench.one(superblocks::not_running);
    assert!(defect.summary.starts_with("2 of 2 members of the array host:0"), "{}", defect.summary);
    assert!(defect.why.contains("2 events apart"), "{}", defect.why);
    assert_eq!((defect.also.len(), defect.concerns.as_slice()), (0, &["/dev/sdb".to_owned()][..]));
    bench.content_of(disks[1]).md.as_mut().unwrap().role = Some("spare".into());
    let summary = bench.one(superblocks::not_running).summary;
    assert!(summary.starts_with("1 of 2 members and 1 without data of the array"), "{summary}");
    // A part of the machine says nothing of what is not there.
    bench.snapshot.targets = vec!["/srv".into()];
    assert_eq!(bench.ask(superblocks::not_running), []);
    bench.snapshot.targets.clear();
    // Swapped to, one of them is no member any more.
    let swap = Swap { path: "/dev/sdb".into(), node: Some("/dev/sdb".into()), ..Swap::default() };
    bench.snapshot.system.swaps = vec![swap];
    let defect = bench.one(superblocks::not_running);
    assert_eq!((defect.node.as_deref(), defect.concerns.len()), (Some("/dev/sda"), 0));
    bench.snapshot.system.swaps.clear();
    // Running, they are what they should be. A partition at the end of a disk shows the disk's superblock too.
    let md = bench.md("md0", "raid1", &disks);
    bench.md_of(md).uuid = Some("AA:AA".into());
    assert_eq!(bench.ids(RULES), [""; 0]);
    // Containers of firmware have rules of their own.
    bench.md_of(md).uuid = Some("bbbb".into());
    bench.node(md).below.clear();
    bench.md_of(md).members.clear();
    for disk in disks {
        bench.content_of(disk).md.as_mut().unwrap().version = "imsm".into();
    }
    assert_eq!(bench.ask(superblocks::not_running), []);
}

#[test]
fn an_array_that_is_not_started_or_frozen_is_told() {
    let (mut bench, md, _) = array("raid5", 3);
    bench.md_of(md).array_state = Some("inactive".into());
    let runs = |defect: &Defect| {
        let mut commands = defect.fix.iter().filter_map(|step| step.command.as_deref());
        commands.any(|command| command == "mdadm --run /dev/md0")
    };
    let defect = bench.one(state::inactive);
    assert!(defect.gravity == Gravity::High && runs(&defect), "{defect:?}");
    // The superblock of the one that came says of how many.
    let sb = MdSuperblock { level: Some(5), raid_disks: Some(3), ..superblock("aaaa", 1, 9) };
    let facts = bench.md_of(md);
    (facts.level, facts.raid_disks, facts.uuid) = (None, None, None);
    facts.members.truncate(1);
    bench.node(md).below.truncate(1);
    bench.content_of(0).md = Some(sb.clone());
    bench.content_of(1).md = Some(MdSuperblock { device_uuid: Some("2".into()), ..sb });
    let defect = bench.one(state::inactive);
    let summary = "md0 is not started: 1 of 3 members are there; it is a raid5 and needs 2";
    assert_eq!(defect.summary, summary);
    assert_eq!(defect.fix[0].command.as_deref(), Some("mdadm --incremental /dev/sdb"));
    assert!(!runs(&defect), "{defect:?}");
    let second = bench.md_of(md).members[0].clone();
    bench.md_of(md).members.push(MdMember { name: "sdb".into(), ..second });
    assert!(runs(&bench.one(state::inactive)), "two of three can start");
    // The kernel counts a spare among them; its superblock says what it is.
    for (disk, role) in [(0, "0"), (1, "spare")] {
        bench.content_of(disk).md.as_mut().unwrap().role = Some(role.into());
    }
    let defect = bench.one(state::inactive);
    let summary = "md0 is not started: 1 of 3 members and 1 without data are there; it is a raid5 and needs 2";
    assert_eq!(defect.summary, summary);
    assert!(!runs(&defect), "{defect:?}");
    bench.md_of(md).metadata_version = Some("external:imsm".into());
    assert_eq!(bench.ask(state::inactive), []);
    let (mut bench, md, _) = array("raid5", 3);
    bench.md_of(md).sync_action = Some("frozen".into());
    assert_eq!(
        bench.one(state::frozen).fix[1].command.as_deref(),
        Some("echo idle > /sys/block/md0/md/sync_action")
    );
}

/// Half of a RAID10 is enough where it has one of each pair, which layout and places tell.
#[test]
fn an_inactive_raid10_is_judged_by_its_pairs() {
    for (layout, disks, places, can_run) in [
        (0x102, 4, &[0, 2][..], true),
        (0x102, 4, &[1, 3], true),
        (0x102, 4, &[0, 1], false),
        (0x102, 4, &[0, 1, 3], true),
        // Copies lie on each disk and the next one.
        (0x201, 4, &[0, 2], true),
        (0x201, 4, &[0, 3], false),
        (0x102, 3, &[0, 1], true),
        (0x102, 3, &[0], false),
        (0x103, 6, &[2, 4], true),
        (0x103, 6, &[0, 2], false),
    ] {
        let (mut bench, md, nodes) = array("raid10", places.len());
        let facts = bench.md_of(md);
        facts.array_state = Some("inactive".into());
        (facts.level, facts.raid_disks, facts.layout) = (None, None, None);
        for (&disk, place) in nodes.iter().zip(places) {
            bench.content_of(disk).md = Some(MdSuperblock {
                level: Some(10),
                layout: Some(layout),
                raid_disks: Some(disks),
                role: Some(place.to_string()),
                ..superblock("aaaa", *place, 9)
            });
        }
        let fix = bench.one(state::inactive).fix;
        let runs = fix.iter().any(|step| step.command.as_deref() == Some("mdadm --run /dev/md0"));
        assert_eq!(runs, can_run, "{layout:#x} on {disks}: {places:?}");
    }
}

/// An array of a firmware's RAID, with its container.
fn of_firmware() -> (Bench, usize) {
    let (mut bench, md, disks) = array("raid10", 8);
    bench.md_of(md).metadata_version = Some("external:/md127/0".into());
    let container = bench.md("md127", "container", &disks);
    bench.md_of(container).metadata_version = Some("external:imsm".into());
    (bench, md)
}

#[test]
fn members_of_a_firmware_raid_go_to_its_container() {
    let commands = |defect: &Defect| -> Vec<String> {
        defect.fix.iter().filter_map(|step| step.command.clone()).collect()
    };
    let (mut bench, md) = of_firmware();
    assert_eq!(commands(&bench.one(settings::no_spare)), ["mdadm /dev/md127 --add /dev/NEW"]);
    bench.md_of(md).members[2].errors = Some(512);
    assert_eq!(
        commands(&bench.one(members::errors)).last().unwrap(),
        "mdadm /dev/md127 --add /dev/NEW && mdadm /dev/md0 --fail /dev/sdc"
    );
    bench.md_of(md).degraded = Some(1);
    bench.md_of(md).members[2].state = Some("faulty".into());
    assert_eq!(
        commands(&bench.one(state::degraded)),
        [
            "mdadm --detail /dev/md0",
            "mdadm /dev/md127 --remove /dev/sdc",
            "mdadm /dev/md127 --add /dev/NEW",
        ]
    );
    // Read-only, it is written with another sign.
    bench.md_of(md).metadata_version = Some("external:-md127/0".into());
    assert_eq!(commands(&bench.one(state::degraded))[2], "mdadm /dev/md127 --add /dev/NEW");
    bench.md_of(md).metadata_version = Some("1.2".into());
    assert_eq!(commands(&bench.one(state::degraded))[2], "mdadm /dev/md0 --add /dev/NEW");
}

#[test]
fn a_bitmap_is_offered_where_there_is_a_place_for_it() {
    let (mut bench, md) = of_firmware();
    bench.node(md).size_bytes = Some(TB);
    bench.md_of(md).consistency_policy = Some("resync".into());
    let fix = bench.one(settings::no_bitmap).fix;
    assert!(fix.iter().all(|step| step.command.is_none()), "{fix:?}");
    bench.md_of(md).metadata_version = Some("1.2".into());
    let fix = bench.one(settings::no_bitmap).fix;
    assert_eq!(fix[0].command.as_deref(), Some("mdadm --grow --bitmap=internal /dev/md0"));
}

#[test]
fn every_kind_of_own_work_is_told() {
    let (mut bench, md, _) = array("raid5", 3);
    for (action, gravity) in [
        ("check", Some(Gravity::Low)),
        ("repair", Some(Gravity::Medium)),
        ("resync", Some(Gravity::Medium)),
        ("recover", Some(Gravity::Medium)),
        ("reshape", Some(Gravity::Medium)),
        ("idle", None),
        ("frozen", None),
    ] {
        bench.md_of(md).sync_action = Some(action.into());
        assert_eq!(bench.gravities(state::sync_running), Vec::from_iter(gravity), "{action}");
    }
    let facts = bench.md_of(md);
    (facts.sync_action, facts.sync_speed_bytes_per_s) = (Some("resync".into()), Some(120_000_000));
    let defect = bench.one(state::sync_running);
    assert!(defect.summary.ends_with("at 120.0 MB/s"), "{}", defect.summary);
    // What slows it down is less than it has and than its limit.
    let slower =
        |bench: &Bench| bench.one(state::sync_running).fix.get(1).and_then(|s| s.command.clone());
    let half = "echo 58593 > /sys/block/md0/md/sync_speed_max";
    assert_eq!(slower(&bench).as_deref(), Some(half));
    bench.detail_of(md).md = vec![("sync_speed_max".into(), "1000 (local)".into())];
    assert_eq!(slower(&bench), None, "it would go faster");
    bench.detail_of(md).md.clear();
    bench.md_of(md).sync_speed_bytes_per_s = Some(4_000_000);
    assert_eq!(slower(&bench), None, "slow enough");
}

#[test]
fn a_rebuild_is_slow_below_ten_megabytes_per_second() {
    let (mut bench, md, _) = array("raid5", 3);
    bench.md_of(md).sync_action = Some("resync".into());
    let set = |bench: &mut Bench, text: &str| {
        bench.detail_of(md).md = vec![("sync_speed_max".into(), text.into())]
    };
    set(&mut bench, "9999 (local)");
    let defect = bench.one(state::sync_slow);
    assert!(defect.why.contains("takes 27 h 07 min"), "{}", defect.why);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo system > /sys/block/md0/md/sync_speed_max")
    );
    set(&mut bench, "10000 (local)");
    assert_eq!(bench.ask(state::sync_slow), []);
    // A limit of the system has its own command; without any work a limit does no harm.
    set(&mut bench, "1000 (system)");
    assert!(
        bench.one(state::sync_slow).fix[0]
            .command
            .as_deref()
            .is_some_and(|c| c.starts_with("sysctl"))
    );
    bench.detail_of(md).md.clear();
    bench.snapshot.system.raid_speed_limit_kib = Some((500, 1000));
    assert_eq!(bench.gravities(state::sync_slow), [Gravity::Medium]);
    bench.md_of(md).sync_action = Some("check".into());
    assert_eq!(bench.ask(state::sync_slow), []);
}

#[test]
fn mismatches_weigh_by_level_and_by_what_lies_there() {
    let (mut bench, md, _) = array("raid5", 3);
    assert_eq!(bench.ask(state::mismatch), []);
    bench.md_of(md).mismatch_count = Some(128);
    let defect = bench.one(state::mismatch);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::High, Certainty::Likely));
    assert!(defect.summary.contains("128 sectors (64 KiB)"), "{}", defect.summary);
    bench.detail_of(md).md = vec![("last_sync_action".into(), "repair".into())];
    assert_eq!(bench.ask(state::mismatch), [], "the number of what was mended");
    bench.detail_of(md).md = vec![("last_sync_action".into(), "check".into())];
    bench.md_of(md).level = Some("raid1".into());
    let defect = bench.one(state::mismatch);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::Medium, Certainty::Possible));
    let swap = Swap { path: "/dev/md0".into(), node: Some("/dev/md0".into()), ..Swap::default() };
    bench.snapshot.system.swaps = vec![swap];
    assert_eq!(bench.gravities(state::mismatch), [Gravity::Low]);
}

#[test]
fn errors_and_bad_blocks_of_members_are_told() {
    let (mut bench, md, _) = array("raid1", 2);
    bench.md_of(md).members[0].errors = Some(8);
    assert_eq!(bench.gravities(members::errors), [Gravity::Low], "one mended read, however old");
    bench.md_of(md).members[0].errors = Some(9);
    let defect = bench.one(members::errors);
    assert_eq!((defect.gravity, defect.node.as_deref()), (Gravity::Medium, Some("/dev/sda")));
    bench.detail_of(md).bad_blocks = vec![("sda".into(), 0), ("sdb".into(), 2)];
    assert_eq!(bench.gravities(members::errors), [Gravity::Medium, Gravity::High]);
    bench.md_of(md).members[0].state = Some("in_sync,write_error,want_replacement".into());
    assert_eq!(bench.gravities(members::errors), [Gravity::High, Gravity::High]);
    // A member that is out is told with what the array lacks.
    bench.md_of(md).members[0].state = Some("faulty".into());
    assert_eq!(bench.gravities(members::errors), [Gravity::High]);
}

#[test]
fn members_on_one_drive_are_found_through_partitions_and_paths() {
    let mut bench = Bench::new();
    let (sda, sdb) = (bench.disk("sda"), bench.disk("sdb"));
    let parts = [
        bench.partition("sda1", MIB, sda),
        bench.partition("sda2", 500 * GIB, sda),
        bench.partition("sdb1", MIB, sdb),
    ];
    bench.md("md0", "raid5", &parts);
    let defect = bench.one(members::one_disk);
    assert!(defect.summary.contains("2 of the members of md0"), "{}", defect.summary);
    assert!(defect.evidence[0].value.contains("both on sda"), "{defect:?}");
    // Two disks that are two paths to one drive.
    let wwn = bench.drive_of(sda).wwn.clone();
    bench.drive_of(sdb).wwn = wwn;
    assert!(bench.one(members::one_disk).summary.contains("3 of the members"));
    let (bench, _, _) = array("raid5", 3);
    assert_eq!(bench.ask(members::one_disk), []);
    // Two namespaces of one NVMe drive have names of their own; the drive has one serial number.
    let mut bench = Bench::new();
    let disks = [bench.nvme("nvme0n1"), bench.nvme("nvme0n2")];
    bench.md("md0", "raid1", &disks);
    assert_eq!(bench.ask(members::one_disk), []);
    for disk in disks {
        bench.drive_of(disk).serial = Some("S4EW".into());
    }
    assert!(bench.one(members::one_disk).summary.contains("2 of the members of md0"));
    // In a cloud one controller with one serial number shows all disks.
    disks.iter().for_each(|&disk| bench.drive_of(disk).model = Some("nvme_card".into()));
    assert_eq!(bench.ask(members::one_disk), []);
    // Drives without any name are told apart by their own.
    let mut bench = Bench::new();
    let disks = [bench.disk("vda"), bench.disk("vdb")];
    disks.iter().for_each(|&disk| bench.node(disk).drive = None);
    bench.md("md0", "raid1", &disks);
    assert_eq!(bench.ask(members::one_disk), []);
}

#[test]
fn members_of_different_kinds_are_told() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb"), bench.ssd("sdc")];
    bench.md("md0", "raid5", &disks);
    let defect = bench.one(likeness::differ);
    assert_eq!(defect.gravity, Gravity::Medium);
    assert!(
        defect.summary.contains("not rotating (sdc), rotating (sda, sdb)"),
        "{}",
        defect.summary
    );
    let (mut bench, _, disks) = array("raid5", 3);
    bench.drive_of(disks[0]).model = Some("OTHER".into());
    let defect = bench.one(likeness::differ);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::Low, Certainty::Possible));
    // A link that runs below its best is told of the link.
    let (mut bench, _, disks) = array("raid5", 3);
    for &disk in &disks {
        bench.drive_of(disk).link_speed_max = Some("6.0 Gbps".into());
    }
    bench.drive_of(disks[0]).link_speed = Some("1.5 Gbps".into());
    assert_eq!(bench.ask(likeness::differ), []);
    bench.drive_of(disks[0]).link_speed_max = Some("3.0 Gbps".into());
    assert_eq!(bench.gravities(likeness::differ), [Gravity::Medium]);
    // What one member does not tell is not compared.
    bench.drive_of(disks[1]).link_speed_max = None;
    bench.drive_of(disks[1]).link_speed = None;
    assert_eq!(bench.ask(likeness::differ), []);
}

#[test]
fn settings_are_compared_among_drives_of_one_model() {
    let (mut bench, _, disks) = array("raid10", 4);
    for (&disk, on) in disks.iter().zip([true, true, false, true]) {
        bench.detail_of(disk).identity =
            Some(DriveIdentity { write_cache_enabled: Some(on), ..DriveIdentity::default() });
    }
    let defect = bench.one(likeness::settings);
    assert_eq!(defect.gravity, Gravity::Medium);
    assert!(
        defect.summary.contains("write cache: off (sdc), on (sda, sdb, sdd)"),
        "{}",
        defect.summary
    );
    let (mut bench, _, disks) = array("raid10", 4);
    bench.drive_of(disks[3]).firmware = Some("SN04".into());
    assert_eq!(bench.gravities(likeness::settings), [Gravity::Low]);
    // Other models have other firmware.
    bench.drive_of(disks[3]).model = Some("OTHER".into());
    assert_eq!(bench.ask(likeness::settings), []);
}

#[test]
fn a_mirror_of_fast_and_slow_drives_wants_write_mostly() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.ssd("sdb")];
    bench.drive_of(disks[1]).model = Some("ST1000NM0008".into());
    let md = bench.md("md0", "raid1", &disks);
    let defect = bench.one(likeness::no_write_mostly);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo writemostly > /sys/block/md0/md/dev-sda/state")
    );
    assert_eq!(bench.ids(RULES), ["md-no-write-mostly"]);
    bench.md_of(md).members[0].state = Some("in_sync,write_mostly".into());
    assert_eq!(bench.ids(RULES), [""; 0]);
    assert_eq!(array("raid1", 2).0.ask(likeness::no_write_mostly), []);
}

#[test]
fn stripes_are_unequal_beyond_what_rounding_leaves() {
    let (mut bench, _, disks) = array("raid0", 2);
    bench.node(disks[0]).size_bytes = Some(TB - TB / 100);
    assert_eq!(bench.ask(likeness::unequal), []);
    bench.node(disks[0]).size_bytes = Some(TB / 2);
    let defect = bench.one(likeness::unequal);
    assert_eq!(defect.gravity, Gravity::Low);
    assert!(defect.why.contains("behind 931.3 GiB"), "{}", defect.why);
}

#[test]
fn large_arrays_want_a_bitmap() {
    let (mut bench, md, _) = array("raid1", 2);
    bench.md_of(md).consistency_policy = Some("resync".into());
    assert_eq!(bench.one(settings::no_bitmap).gravity, Gravity::Medium);
    bench.node(md).size_bytes = Some(100_000_000_000);
    assert_eq!(bench.ask(settings::no_bitmap), []);
    for policy in ["bitmap", "journal", "ppl"] {
        bench.node(md).size_bytes = Some(TB);
        bench.md_of(md).consistency_policy = Some(policy.into());
        assert_eq!(bench.ask(settings::no_bitmap), [], "{policy}");
    }
}

#[test]
fn bitmaps_want_chunks_of_64_mib() {
    let (mut bench, md, disks) = array("raid1", 2);
    bench.md_of(md).bitmap_chunk_bytes = Some(64 * MIB - 1);
    assert_eq!(bench.one(settings::bitmap_chunk).gravity, Gravity::Medium);
    for disk in disks {
        bench.queue_of(disk).rotational = Some(false);
    }
    assert_eq!(bench.gravities(settings::bitmap_chunk), [Gravity::Low]);
    bench.md_of(md).bitmap_location = Some("none".into());
    assert_eq!(bench.ask(settings::bitmap_chunk), []);
}

#[test]
fn the_stripe_cache_holds_two_rows() {
    let (mut bench, md, _) = array("raid5", 3);
    bench.md_of(md).stripe_cache_stripes = Some(255);
    let defect = bench.one(settings::stripe_cache);
    assert!(defect.summary.contains("one row of its 512 KiB chunks"), "{}", defect.summary);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 2048 > /sys/block/md0/md/stripe_cache_size")
    );
    // The default suffices for the default chunk, not for larger ones.
    bench.md_of(md).stripe_cache_stripes = Some(256);
    assert_eq!(bench.ask(settings::stripe_cache), []);
    bench.md_of(md).chunk_bytes = Some(1024 * 1024);
    bench.one(settings::stripe_cache);
}

#[test]
fn parity_on_fast_drives_wants_threads() {
    let mut bench = Bench::new();
    let disks = [bench.nvme("nvme0n1"), bench.nvme("nvme1n1"), bench.nvme("nvme2n1")];
    let md = bench.md("md0", "raid5", &disks);
    assert_eq!(bench.ask(settings::group_threads), [], "how many CPUs is not known");
    bench.snapshot.system.cpus_online = Some(3);
    assert_eq!(bench.ask(settings::group_threads), []);
    bench.snapshot.system.cpus_online = Some(16);
    let defect = bench.one(settings::group_threads);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 4 > /sys/block/md0/md/group_thread_cnt")
    );
    bench.drive_of(disks[0]).transport = Some("sata".into());
    assert_eq!(bench.gravities(settings::group_threads), [Gravity::Low]);
    bench.md_of(md).group_threads = Some(4);
    assert_eq!(bench.ask(settings::group_threads), []);
    let (mut bench, _, _) = array("raid5", 3);
    bench.snapshot.system.cpus_online = Some(16);
    assert_eq!(bench.ask(settings::group_threads), [], "disks that rotate are slow enough");
}

#[test]
fn many_members_want_a_spare() {
    assert_eq!(array("raid5", 4).0.ask(settings::no_spare), []);
    let (mut bench, md, _) = array("raid5", 5);
    assert_eq!(bench.one(settings::no_spare).gravity, Gravity::Low);
    bench.md_of(md).members[4].state = Some("spare".into());
    assert_eq!(bench.ask(settings::no_spare), []);
    assert_eq!(array("raid10", 7).0.ask(settings::no_spare), []);
    assert_eq!(array("raid10", 8).0.gravities(settings::no_spare), [Gravity::Low]);
}
