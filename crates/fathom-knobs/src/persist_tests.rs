//! The exact texts.

use super::*;
use crate::find;
use expect_test::expect;
use fathom_testkit::Tree;

fn text_of(id: &str, place: Option<&KnobPlace>, value: &str) -> String {
    let kept = text(&Tree::new().root(), find(id).unwrap(), place, Some(value));
    format!("{}\n{}\n{}\n", kept.file, kept.text, kept.then)
}

#[test]
fn rules_name_devices_by_what_stays() {
    let place =
        |id: &str, name: &str| KnobPlace::Device { id: id.to_owned(), name: name.to_owned() };
    let rule = |id: &str, name: &str| {
        let place = place(id, name);
        text_of("block.scheduler", Some(&place), "bfq").lines().nth(1).unwrap().to_owned()
    };
    let ends = "ATTR{queue/scheduler}=\"bfq\"";
    let starts = "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", ";
    for (id, name, part) in [
        ("naa.5000c500a1b2c3d4", "sda", "ATTRS{wwid}==\"naa.5000c500a1b2c3d4\""),
        ("WD-123", "sdb", "ENV{ID_SERIAL_SHORT}==\"WD-123\""),
        ("LVM-abc", "dm-0", "ENV{DM_UUID}==\"LVM-abc\""),
        ("1:2:3:4", "md0", "ENV{MD_UUID}==\"1:2:3:4\""),
        ("/srv/a.img", "loop0", "KERNEL==\"loop0\""),
        ("vda:1048576:3", "vda", "KERNEL==\"vda\""),
    ] {
        assert_eq!(rule(id, name), format!("{starts}{part}, {ends}"));
    }
    let place = place("naa.5", "sda");
    let text = text_of("mq-deadline.fifo_batch", Some(&place), "8");
    assert!(
        text.contains(
            "ATTR{queue/scheduler}=\"mq-deadline\", ATTR{queue/iosched/fifo_batch}=\"8\""
        )
    );
}

/// 0 means that the ratio holds, and the kernel takes no 0.
#[test]
fn what_shows_0_is_kept_by_its_ratio() {
    let tree = Tree::new();
    tree.put("proc/sys/vm/dirty_ratio", "20");
    let of =
        |id: &str| text(&tree.root(), find(id).unwrap(), Some(&KnobPlace::Machine), Some("0")).text;
    assert_eq!(of("vm.dirty_bytes"), "vm.dirty_ratio = 20");
    assert_eq!(of("vm.dirty_background_bytes"), "vm.dirty_background_ratio = VALUE");
}

#[test]
fn each_way_to_keep_a_setting() {
    let mut all = String::new();
    for (id, value) in [
        ("vm.dirty_background_bytes", "100000000"),
        ("md.speed_limit_max", "500000"),
        ("btrfs.datacow", "nodatacow"),
        ("ext4.commit", "60"),
        ("btrfs.treelog", "0"),
        ("module.nvme.poll_queues", "4"),
        ("boot.mitigations", "off"),
        ("ext4.mb_stream_req", "32"),
    ] {
        all += &text_of(id, None, value);
    }
    expect![[r#"
        /etc/sysctl.d/99-storage.conf
        vm.dirty_background_bytes = 100000000
        sysctl --system
        /etc/sysctl.d/99-storage.conf
        dev.raid.speed_limit_max = 500000
        sysctl --system
        /etc/fstab
        nodatacow in the fourth field of the mount
        mount -o remount MOUNTPOINT, where the kernel changes it while mounted; otherwise mount anew
        /etc/fstab
        commit=60 in the fourth field of the mount
        mount -o remount MOUNTPOINT, where the kernel changes it while mounted; otherwise mount anew
        /etc/fstab
        notreelog in the fourth field of the mount
        mount -o remount MOUNTPOINT, where the kernel changes it while mounted; otherwise mount anew
        /etc/modprobe.d/99-storage.conf
        options nvme poll_queues=4
        update-initramfs -u (or dracut -f), then boot; for a driver built into the kernel: nvme.poll_queues=4 on its command line
        /etc/default/grub
        GRUB_CMDLINE_LINUX="... mitigations=off"
        update-grub, then boot
        /etc/tmpfiles.d/99-storage.conf
        w /sys/fs/ext4/DEV/mb_stream_req - - - - 32
        systemd-tmpfiles --create; the filesystem must be mounted before, else write it from a unit that follows the mount
    "#]]
    .assert_eq(&all);
}
