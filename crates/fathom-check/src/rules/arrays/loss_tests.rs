//! Arrays that have lost members, or are about to: what is told of the array, of its members and of their drives fits together.

use super::tests::{array, superblock};
use super::{Standing, members, settings, standing, state};
use crate::fixtures::{Bench, TB};
use fathom_model::defect::{Defect, Gravity, Step};
use fathom_model::stack::MdMember;
use fathom_model::stack::detail::Health;

/// Without another copy a rebuild reads the dying drive from end to end; a dying one is not taken back either.
#[test]
fn a_rebuild_does_not_begin_with_a_dying_drive() {
    let (mut bench, md, disks) = array("raid1", 2);
    bench.md_of(md).degraded = Some(1);
    bench.md_of(md).members[0].state = Some("faulty".into());
    let commands = |bench: &Bench| -> String {
        let fix = bench.one(state::degraded).fix;
        fix.into_iter().filter_map(|step| step.command).collect::<Vec<_>>().join("; ")
    };
    let told = commands(&bench);
    assert!(
        told.ends_with("mdadm /dev/md0 --remove /dev/sda; mdadm /dev/md0 --add /dev/NEW"),
        "{told}"
    );
    let ill = || Some(Health { pending: Some(4), ..Health::default() });
    bench.detail_of(disks[1]).health = ill();
    assert!(!commands(&bench).contains("--add"), "{}", commands(&bench));
    let defect = bench.one(state::degraded);
    assert_eq!(defect.concerns, ["/dev/sdb"]);
    assert!(defect.fix.iter().any(|step| step.text.contains("add no drive to it now")));
    // One that dropped out because it is dying.
    bench.detail_of(disks[1]).health = None;
    let left = bench.disk("sdc");
    let uuid = bench.md_of(md).uuid.clone().unwrap();
    for (disk, events) in [(disks[1], 100), (left, 99)] {
        bench.content_of(disk).md = Some(superblock(&uuid, disk as u64, events));
    }
    assert!(commands(&bench).contains("--re-add /dev/sdc"), "{}", commands(&bench));
    bench.detail_of(left).health = ill();
    let told = commands(&bench);
    assert!(!told.contains("/dev/sdc") && told.ends_with("--add /dev/NEW"), "{told}");
}

/// The array and the member, or its drive, give the same orders: nothing is added while what is left is dying, and it is
/// where that has only few old signs.
#[test]
fn an_array_and_what_is_left_of_it_give_the_same_orders() {
    const HOLD: &str = "echo frozen > /sys/block/md0/md/sync_action";
    let (mut bench, md, disks) = array("raid1", 2);
    bench.md_of(md).degraded = Some(1);
    bench.md_of(md).members[0].state = Some("faulty".into());
    // All that is told of the array and of what is left of it.
    let orders = |bench: &Bench| -> Vec<String> {
        let found = crate::check(&bench.snapshot).into_iter();
        let rules = ["md-degraded", "md-member-errors", "drive-failing"];
        let found = found.filter(|defect| rules.contains(&defect.rule.as_str()));
        let step = |step: Step| format!("{} {}\n", step.text, step.command.unwrap_or_default());
        found.map(|defect| defect.fix.into_iter().map(step).collect()).collect()
    };
    let check = |bench: &Bench, count: usize, wanted: &str, unwanted: &str| {
        let orders = orders(bench);
        assert_eq!(orders.len(), count, "{orders:#?}");
        assert!(orders.iter().any(|text| text.contains(wanted)), "{wanted}: {orders:#?}");
        assert!(orders.iter().all(|text| !text.contains(unwanted)), "{unwanted}: {orders:#?}");
    };
    let health = |reallocated, pending| {
        Some(Health { reallocated: Some(reallocated), pending: Some(pending), ..Health::default() })
    };
    for (reallocated, pending, is_dying) in [(3, 0, false), (20, 0, false), (0, 4, true)] {
        bench.md_of(md).sync_action = Some("idle".into());
        bench.detail_of(disks[1]).health = health(reallocated, pending);
        let (wanted, unwanted) = if is_dying {
            ("add no drive to it now", "--add")
        } else {
            ("mdadm /dev/md0 --add /dev/NEW", "add no drive")
        };
        // One that holds the last copy is told with the array that lacks the other.
        check(&bench, if is_dying { 1 } else { 2 }, wanted, unwanted);
        bench.md_of(md).sync_action = Some("recover".into());
        if is_dying {
            check(&bench, 1, HOLD, "--add");
            assert!(orders(&bench).iter().all(|text| text.contains(HOLD)));
        } else {
            check(&bench, 2, "mdadm --wait /dev/md0", "frozen");
        }
    }
    bench.md_of(md).sync_action = Some("idle".into());
    bench.detail_of(disks[1]).health = None;
    bench.md_of(md).members[1].errors = Some(8);
    check(&bench, 2, "mdadm /dev/md0 --add /dev/NEW", "add no drive");
    bench.detail_of(md).bad_blocks = vec![("sdb".into(), 2)];
    check(&bench, 2, "add no drive to it now", "--add");
    bench.detail_of(md).bad_blocks.clear();
    bench.md_of(md).members[1].state = Some("in_sync,write_error".into());
    check(&bench, 2, "add no drive to it now", "--add");
}

/// Of a RAID10 only those members are the last that share copies with the missing one.
#[test]
fn the_last_copy_of_a_mirrored_pair_is_known() {
    for (layout, lost, last) in [
        (0x102, 1, vec!["sda"]),
        (0x102, 2, vec!["sdd"]),
        // Far and offset copies lie on the next member.
        (0x201, 1, vec!["sda", "sdc"]),
        (0x10201, 0, vec!["sdb", "sdd"]),
        // Two copies on five members go over the border.
        (0x103, 1, vec!["sda", "sdc", "sdd"]),
    ] {
        let (mut bench, md, _) = array("raid10", 4);
        let facts = bench.md_of(md);
        (facts.layout, facts.degraded) = (Some(layout), Some(1));
        facts.members[lost].state = Some("faulty".into());
        // With three copies one may be lost, which losses_left says.
        if layout == 0x103 {
            facts.degraded = Some(2);
        }
        let names: Vec<String> = facts.members.iter().map(|member| member.name.clone()).collect();
        let facts = bench.md_of(md).clone();
        let found: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| standing(&facts, name) == Standing::Last)
            .collect();
        assert_eq!(found, last, "{layout:#x} {lost}");
    }
}

/// An array that lacks nothing but the drive that is told anyway is a part of what is told of that drive.
#[test]
fn what_the_loss_of_a_drive_brings_about_is_told_with_the_drive() {
    let told = |bench: &Bench| -> Vec<(String, Option<String>, Gravity)> {
        let found = crate::check(&bench.snapshot).into_iter();
        let ours = found.filter(|d| d.rule.starts_with("drive-") || d.rule == "md-degraded");
        ours.map(|d| (d.rule, d.node, d.gravity)).collect()
    };
    let of = |rule: &str, node: &str| (rule.to_owned(), Some(node.to_owned()), Gravity::High);
    let (mut bench, md, disks) = array("raid6", 4);
    bench.md_of(md).degraded = Some(1);
    bench.md_of(md).members[1].state = Some("faulty".into());
    assert_eq!(told(&bench), [of("md-degraded", "/dev/md0")]);
    bench.detail_of(disks[1]).health = Some(Health { pending: Some(8), ..Health::default() });
    bench.drive_of(disks[1]).state = Some("offline".into());
    assert_eq!(told(&bench), [of("drive-failing", "/dev/sdb")]);
    let found = crate::check(&bench.snapshot);
    let defect = found.iter().find(|d| d.rule == "drive-failing").unwrap();
    assert_eq!(
        defect.summary,
        "sdb reports damage: 8 sectors that cannot be read; sdb was given up by the kernel: its state is \
         offline; md0 lacks 1 of 4 members (sdb failed)"
    );
    assert_eq!(defect.concerns, ["/dev/md0"]);
    let commands: Vec<_> = defect.fix.iter().filter_map(|step| step.command.as_deref()).collect();
    let last = ["mdadm /dev/md0 --remove /dev/sdb", "mdadm /dev/md0 --add /dev/NEW"];
    assert!(commands.ends_with(&last), "{commands:?}");
    assert!(defect.evidence.iter().any(|e| e.source == "/sys/block/md0/md/degraded"));
    bench.detail_of(disks[1]).health = None;
    assert_eq!(told(&bench), [of("drive-offline", "/dev/sdb")]);
    // Another is missing too: the array lacks more than that drive.
    bench.md_of(md).degraded = Some(2);
    assert_eq!(told(&bench), [of("drive-offline", "/dev/sdb"), of("md-degraded", "/dev/md0")]);
    // Two that are there, and different drives.
    bench.md_of(md).members[2].state = Some("faulty".into());
    assert_eq!(told(&bench), [of("drive-offline", "/dev/sdb"), of("md-degraded", "/dev/md0")]);
}

/// What is less grave than the loss becomes a part of that, where the drive has no other task.
#[test]
fn a_little_damage_is_told_with_the_array_that_has_lost_the_drive() {
    let (mut bench, md, disks) = array("raid1", 2);
    bench.md_of(md).degraded = Some(1);
    bench.md_of(md).members[1].state = Some("faulty".into());
    bench.detail_of(disks[1]).health = Some(Health { reallocated: Some(20), ..Health::default() });
    let told = |bench: &Bench| -> Vec<String> {
        let found = crate::check(&bench.snapshot).into_iter();
        let ours = found.filter(|d| d.rule.starts_with("drive-") || d.rule == "md-degraded");
        ours.map(|d| d.summary).collect()
    };
    assert_eq!(
        told(&bench),
        ["md0 lacks 1 of 2 members (sdb failed); sdb reports damage: 20 sectors replaced"]
    );
    bench.mounted("ext4", "/srv", disks[1]);
    assert_eq!(told(&bench).len(), 2, "there it is another's matter");
}

#[test]
fn a_member_that_is_being_copied_is_left_to_it() {
    let (mut bench, md, _) = array("raid1", 2);
    bench.md_of(md).members[0].state = Some("in_sync,want_replacement".into());
    let commands = |bench: &Bench| -> Vec<String> {
        let fix = bench.one(members::errors).fix;
        fix.into_iter().filter_map(|step| step.command).collect()
    };
    assert!(commands(&bench).iter().any(|command| command.contains("--replace")));
    let copy = MdMember {
        name: "sdc".into(),
        state: Some("replacement".into()),
        slot: Some("0".into()),
        ..MdMember::default()
    };
    bench.md_of(md).members.push(copy);
    assert_eq!(commands(&bench)[1..], ["mdadm --wait /dev/md0"]);
}

/// While members are missing, or the array is at work, nothing is advised that the kernel refuses or that takes what helps.
#[test]
fn what_the_kernel_refuses_is_not_advised() {
    let said = |bench: &Bench, rule: fn(&crate::Scene<'_>) -> Vec<Defect>| -> String {
        let steps = bench.ask(rule).into_iter().flat_map(|defect| defect.fix);
        steps.map(|step| format!("{} {:?}\n", step.text, step.command)).collect()
    };
    let (mut bench, md, disks) = array("raid1", 3);
    bench.md_of(md).bitmap_chunk_bytes = Some(4096);
    bench.md_of(md).mismatch_count = Some(128);
    bench.md_of(md).members[1].errors = Some(64);
    assert!(said(&bench, settings::bitmap_chunk).starts_with("remove the bitmap"));
    assert!(said(&bench, state::mismatch).contains("echo check"));
    assert!(said(&bench, members::errors).contains("echo check"));
    bench.md_of(md).sync_action = Some("check".into());
    assert!(said(&bench, settings::bitmap_chunk).starts_with("when it has ended what it does now"));
    assert_eq!(said(&bench, state::mismatch), "", "it has only begun to count");
    assert!(!said(&bench, members::errors).contains("echo check"));
    bench.md_of(md).sync_action = Some("idle".into());
    bench.md_of(md).degraded = Some(1);
    assert_eq!(said(&bench, settings::bitmap_chunk), "", "it says what the missing one lacks");
    (bench.md_of(md).consistency_policy, bench.node(md).size_bytes) =
        (Some("resync".into()), Some(TB));
    assert_eq!(said(&bench, settings::no_bitmap), "");
    bench.md_of(md).degraded = Some(0);
    assert!(said(&bench, settings::no_bitmap).contains("--bitmap=internal"));
    // Two on one drive: with a member missing the new drive would be taken for that.
    let wwn = bench.drive_of(disks[0]).wwn.clone();
    bench.drive_of(disks[1]).wwn = wwn;
    assert!(said(&bench, members::one_disk).contains("--replace"));
    bench.md_of(md).degraded = Some(1);
    let text = said(&bench, members::one_disk);
    assert!(text.contains("lacks another member") && !text.contains("--replace"), "{text}");
}
