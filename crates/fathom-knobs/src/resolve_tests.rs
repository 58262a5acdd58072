//! Words of plans on recorded machines: arrays, several paths, SCSI disks; and changes there, taken back.

use super::*;
use crate::scope::{ScopeDevice, ScopeMount};
use crate::{Undo, Wait, apply, current, find, is_as_asked, read, read_only_at, undo};
use fathom_guard::changes::{ChangeLog, Entry};
use fathom_guard::faults::Faults;
use fathom_model::change::Change;
use fathom_model::change::knob::KnobValue;
use fathom_testkit::Tree;
use std::path::Path;

/// An array over two SCSI disks, and an NVMe namespace with two paths.
const MACHINE: &str = "
    [sys/devices/virtual/block/md0]
    dev = 9:0
    md/uuid = 1-2-3-4
    md/level = raid5
    md/stripe_cache_size = 256
    md/preread_bypass_threshold = 1
    md/group_thread_cnt = 0
    md/sync_speed_min = 1000 (system)
    md/sync_speed_max = 200000 (local)
    queue/scheduler = none
    queue/nr_requests = 128
    queue/read_ahead_kb = 4096
    queue/max_sectors_kb = 1280
    queue/max_hw_sectors_kb = 32767
    [sys/devices/h0/t0/block/sda]
    dev = 8:0
    device -> ../../../t0
    queue/scheduler = none [mq-deadline] bfq
    queue/nr_requests = 64
    queue/read_ahead_kb = 128
    queue/iosched/fifo_batch = 16
    queue/iosched/new_in_some_kernel = 7
    mq/0/nr_tags = 31
    [sys/devices/h0/t0]
    wwid = naa.5000c500000000a1
    queue_depth = 31
    queue_type = simple
    subsystem -> ../../../bus/scsi
    scsi_disk/0:0:0:0/cache_type = write back
    [sys/devices/h0/t1/block/sdb]
    dev = 8:16
    device -> ../../../t1
    queue/scheduler = [none] mq-deadline bfq
    queue/nr_requests = 31
    queue/read_ahead_kb = 128
    mq/0/nr_tags = 31
    [sys/devices/h0/t1]
    wwid = naa.5000c500000000b2
    queue_depth = 31
    [sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1]
    dev = 259:0
    wwid = eui.0025
    device -> ../../nvme-subsys0
    [sys/devices/virtual/nvme-subsystem/nvme-subsys0]
    iopolicy = numa
    subsystem -> ../../../../class/nvme-subsystem
    nvme0 -> ../../../pci/nvme0
    nvme1 -> ../../../pci/nvme1
    [sys/devices/pci]
    nvme0/power/pm_qos_latency_tolerance_us = 100000
    nvme1/power/pm_qos_latency_tolerance_us = 50
    [proc]
    sys/vm/swappiness = 60
    cmdline = quiet mitigations=off ro
    sys/vm/dirty_ratio = 20
    sys/vm/dirty_bytes = 0
";

fn device(name: &str, id: &str, is_member: bool) -> ScopeDevice {
    let (name, id) = (name.to_owned(), id.to_owned());
    ScopeDevice { is_top: name == "md0", name, id, is_member, is_behind_file: false }
}

fn devices() -> Vec<ScopeDevice> {
    vec![
        device("md0", "1-2-3-4", false),
        device("sda", "naa.5000c500000000a1", true),
        device("sdb", "naa.5000c500000000b2", true),
        device("nvme0n1", "eui.0025", true),
        ScopeDevice { is_behind_file: true, ..device("vda", "vda:1:1", true) },
    ]
}

fn knobs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect()
}

fn resolved(tree: &Tree, pairs: &[(&str, &str)]) -> Result<Vec<Setting>, KnobError> {
    let devices = devices();
    resolve(&tree.root(), &Scope { devices: &devices, mounts: &[], own: &[] }, &knobs(pairs))
}

/// `place knob=value` of each setting.
fn words(tree: &Tree, pairs: &[(&str, &str)]) -> Vec<String> {
    let settings = resolved(tree, pairs).unwrap();
    settings.iter().map(|s| format!("{} {}={}", s.place.name(), s.knob, s.value)).collect()
}

#[test]
fn a_knob_goes_to_all_places_that_have_it_and_the_narrowest_key_wins() {
    let tree = Tree::of_text(MACHINE);
    assert_eq!(
        words(
            &tree,
            &[
                ("block.read_ahead_kb", "512"),
                ("block.read_ahead_kb@top", "4096"),
                ("block.read_ahead_kb@sdb", "0")
            ]
        ),
        [
            "md0 block.read_ahead_kb=4096",
            "sda block.read_ahead_kb=512",
            "sdb block.read_ahead_kb=0"
        ]
    );
    assert_eq!(
        words(
            &tree,
            &[("scheduler", "bfq"), ("bfq.slice_idle", "0"), ("nr_requests@members", "100")]
        ),
        [
            "sda block.scheduler=bfq",
            "sda block.nr_requests=100",
            "sda bfq.slice_idle=0",
            "sdb block.scheduler=bfq",
            "sdb block.nr_requests=100",
            "sdb bfq.slice_idle=0",
        ]
    );
    assert_eq!(words(&tree, &[("setra@md0", "2048")]), ["md0 block.read_ahead_kb=1024"]);
    assert_eq!(words(&tree, &[("mq-deadline.fifo_batch", "4")]), ["sda mq-deadline.fifo_batch=4"]);
    assert_eq!(words(&tree, &[("vm.swappiness", "1"), ("nvme.iopolicy", "numa")]).len(), 2);
}

#[track_caller]
fn refused(pairs: &[(&str, &str)], part: &str) {
    let error = resolved(&Tree::of_text(MACHINE), pairs).unwrap_err().to_string();
    assert!(error.contains(part), "{pairs:?}: {error}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_way_out() {
    refused(&[("block.schedular", "bfq")], "did you mean 'block.scheduler'");
    refused(&[("block.scheduler", "kyber")], "lists none, mq-deadline, bfq");
    refused(&[("block.scheduler@sdx", "bfq")], "top, members, md0, sda");
    refused(
        &[("block.scheduler@md0", "none")],
        "md0 does not have it (/sys/block/DEV/queue/scheduler)",
    );
    refused(&[("kyber.read_lat_nsec", "1")], "block.scheduler=kyber");
    refused(
        &[("block.scheduler", "bfq"), ("mq-deadline.fifo_batch", "4")],
        "block.scheduler=mq-deadline",
    );
    refused(&[("block.nr_requests@sdb", "32")], "4 to 31 requests");
    refused(&[("block.scheduler", "none"), ("elevator", "bfq")], "given twice");
    refused(&[("md.preread_bypass_threshold", "300")], "0 to 256");
    refused(&[("md.level", "raid6")], "setup.array");
    refused(&[("boot.mitigations", "auto")], "boot");
    refused(&[("own.x", "1")], "no knob 'own.x'");
    let tree = Tree::of_text(MACHINE);
    refused(&[("vm.dirty_ratio", "5"), ("vm.dirty_bytes", "10000000")], "says the same");
    let both = [("md.preread_bypass_threshold", "300"), ("md.stripe_cache_size", "512")];
    assert_eq!(words(&tree, &both).len(), 2);
}

#[test]
fn values_are_read_in_the_form_in_which_they_are_written() {
    let tree = Tree::of_text(MACHINE);
    let root = tree.root();
    let of = |index: usize, id: &str| read(&root, &devices()[index].place(), id).unwrap();
    assert_eq!(of(1, "block.scheduler"), "mq-deadline");
    assert_eq!(
        (of(0, "md.sync_speed_min"), of(0, "md.sync_speed_max")),
        ("system".into(), "200000".into())
    );
    assert_eq!(of(1, "scsi.queue_depth"), "31");
    assert_eq!(of(1, "scsi.cache_type"), "write back");
    assert_eq!(of(3, "nvme.iopolicy"), "numa");
    assert_eq!(of(3, "nvme.pm_qos_latency_tolerance_us"), "100000 | 50");
    assert_eq!(read(&root, &KnobPlace::Machine, "boot.mitigations").unwrap(), "off");
    assert_eq!(read(&root, &KnobPlace::Machine, "boot.mem").unwrap(), "not given");
    assert!(read(&root, &devices()[0].place(), "scsi.queue_depth").is_err());
}

/// Everything below the recorded machine.
fn state(tree: &Tree) -> BTreeMap<String, String> {
    let root = tree.root();
    let mut files = BTreeMap::new();
    let mut pending = vec![root.path("sys/devices"), root.path("proc/sys")];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                files.insert(entry.path().display().to_string(), text.trim().to_owned());
            }
        }
    }
    files
}

#[test]
fn arrays_drives_and_paths_come_back_in_their_own_words() {
    let tree = Tree::of_text(MACHINE);
    let (root, dir) = (tree.root(), tempfile::tempdir().unwrap());
    let mut log =
        ChangeLog::create(&fathom_sys::sysroot::SysRoot::live(), dir.path(), "r", Faults::none())
            .unwrap();
    let before = state(&tree);
    let settings = resolved(
        &tree,
        &[
            ("md.stripe_cache_size", "4096"),
            ("md.preread_bypass_threshold", "64"),
            ("md.group_thread_cnt", "4"),
            ("md.sync_speed_min", "5000"),
            ("md.sync_speed_max", "system"),
            ("scsi.queue_depth", "1"),
            ("nvme.iopolicy", "round-robin"),
            ("nvme.pm_qos_latency_tolerance_us", "0"),
            ("vm.swappiness", "10"),
        ],
    )
    .unwrap();
    assert_eq!(settings.len(), 10, "{settings:?}");
    let done = apply(&root, &mut log, &settings, &[], &mut Wait::to_the_end(&mut |_| ())).unwrap();
    assert_eq!(done.len(), 10);
    for setting in &settings {
        let now = current(&root, setting).unwrap();
        assert!(is_as_asked(&setting.knob, &setting.value, &now), "{setting:?} is {now}");
    }
    let pending = log.pending();
    // md0, sda, sdb, nvme0n1, the machine: one change for each place.
    assert_eq!(pending.len(), 5);
    let outcome = |log: &mut ChangeLog, entry: &fathom_guard::changes::Entry| {
        let Change::Knobs(change) = &entry.change else { panic!() };
        undo(&root, log, entry.step, change, false, &mut Wait::to_the_end(&mut |_| ()))
    };
    for entry in &pending {
        assert_eq!(outcome(&mut log, entry), Undo::Restored, "{entry:?}");
        assert_eq!(outcome(&mut log, entry), Undo::AlreadyBack, "{entry:?}");
    }
    let mut after = state(&tree);
    // The kernel shows the word system with the number; a file holds what was written.
    for (name, text) in &mut after {
        if name.ends_with("sync_speed_min") {
            assert_eq!(text, "system");
            *text = "1000 (system)".to_owned();
        }
        if name.ends_with("sync_speed_max") {
            assert_eq!(text, "200000");
            *text = "200000 (local)".to_owned();
        }
    }
    assert_eq!(before, after);
}

#[test]
fn renamed_devices_are_found_and_unknown_settings_of_schedulers_are_noted() {
    let tree = Tree::of_text(MACHINE);
    let (root, dir) = (tree.root(), tempfile::tempdir().unwrap());
    let mut log =
        ChangeLog::create(&fathom_sys::sysroot::SysRoot::live(), dir.path(), "r", Faults::none())
            .unwrap();
    let settings = resolved(&tree, &[("mq-deadline.fifo_batch", "2")]).unwrap();
    apply(&root, &mut log, &settings, &[], &mut Wait::to_the_end(&mut |_| ())).unwrap();
    let entry = log.pending().remove(0);
    let Change::Knobs(mut change) = entry.change else { panic!() };
    let noted: Vec<&str> = change.before.iter().map(|value| value.knob.as_str()).collect();
    assert_eq!(
        noted,
        [
            "scsi.cache_type",
            "block.scheduler",
            "block.nr_requests",
            "mq-deadline.fifo_batch",
            "mq-deadline.new_in_some_kernel",
            "block.read_ahead_kb",
        ]
    );
    // Another disk has the name now; ours is found by its ID.
    let KnobPlace::Device { id, .. } = change.place else { panic!() };
    change.place = KnobPlace::Device { id, name: "sdb".to_owned() };
    assert_eq!(
        undo(&root, &mut log, entry.step, &change, false, &mut Wait::to_the_end(&mut |_| ())),
        Undo::Restored
    );
    assert_eq!(root.text("sys/devices/h0/t0/block/sda/queue/iosched/fifo_batch").unwrap(), "16");
    // After a boot only what the drive itself keeps is looked at.
    change.boot_id = "an earlier one".to_owned();
    assert_eq!(
        undo(&root, &mut log, entry.step, &change, false, &mut Wait::to_the_end(&mut |_| ())),
        Undo::AlreadyBack
    );
    tree.put("sys/devices/h0/t0/scsi_disk/0:0:0:0/cache_type", "write through\n");
    tree.put("sys/devices/h0/t0/block/sda/queue/iosched/fifo_batch", "9\n");
    change
        .left
        .iter_mut()
        .filter(|v| v.knob == "scsi.cache_type")
        .for_each(|v| v.value = "write through".to_owned());
    assert_eq!(
        undo(&root, &mut log, entry.step, &change, false, &mut Wait::to_the_end(&mut |_| ())),
        Undo::Restored
    );
    assert_eq!(root.text("sys/devices/h0/t0/scsi_disk/0:0:0:0/cache_type").unwrap(), "write back");
    assert_eq!(root.text("sys/devices/h0/t0/block/sda/queue/iosched/fifo_batch").unwrap(), "9");
}

#[test]
fn what_lies_behind_a_loop_devices_file_is_set_only_by_name() {
    let tree = Tree::of_text(
        "[sys/devices/a/vda]\ndev = 254:0\nsize = 2048\ndiskseq = 9\nqueue/nomerges = 0",
    );
    let vda = ScopeDevice { is_behind_file: true, ..device("vda", "vda:1048576:9", true) };
    let scope = Scope { devices: &[vda], mounts: &[], own: &[] };
    let of = |key: &str| resolve(&tree.root(), &scope, &knobs(&[(key, "1")]));
    assert!(of("block.nomerges").unwrap_err().to_string().contains("block.nomerges@vda"));
    assert_eq!(of("block.nomerges@vda").unwrap().len(), 1);
}

/// What nobody sets is watched too: the queue of each layer with what its scheduler has, and no shares of memory, arrays or drives.
#[test]
fn queues_and_read_ahead_are_watched() {
    let tree = Tree::of_text(MACHINE);
    let devices = devices();
    let scope = Scope { devices: &devices, mounts: &[], own: &[] };
    let found = crate::watched(&tree.root(), &scope);
    let words: Vec<String> =
        found.iter().map(|s| format!("{} {}={}", s.place.name(), s.knob, s.value)).collect();
    for word in [
        "md0 block.read_ahead_kb=4096",
        "sda block.read_ahead_kb=128",
        "sda block.scheduler=mq-deadline",
        "sda block.nr_requests=64",
        "sda mq-deadline.fifo_batch=16",
        "sdb block.scheduler=none",
    ] {
        assert!(words.iter().any(|own| own == word), "{word}: {words:#?}");
    }
    let of_others = ["md.", "scsi.", "vm.", "nvme."];
    let is_other = |s: &Setting| of_others.iter().any(|family| s.knob.starts_with(family));
    assert!(!found.iter().any(is_other), "{words:#?}");
}

#[test]
fn how_loop_devices_show_their_files_is_watched() {
    let tree = Tree::of_text(
        "[sys/devices/virtual/block/loop9]
         dev = 7:9
         size = 2048
         loop/backing_file = /images/disk
         loop/dio = 0
         loop/offset = 0
         loop/sizelimit = 4096",
    );
    let devices = [device("loop9", "/images/disk", true)];
    let scope = Scope { devices: &devices, mounts: &[], own: &[] };
    let of = |all: Vec<Setting>| -> Vec<String> {
        all.iter().map(|one| format!("{}={}", one.knob, one.value)).collect()
    };
    let found = of(crate::watched(&tree.root(), &scope));
    assert_eq!(found, ["loop.dio=0", "loop.offset=0", "loop.sizelimit=4096"]);
}

/// A mount of a server has a read-ahead of its own, by the number of the mount, and no shares of memory to be set of it.
#[test]
fn a_mount_of_another_machine_has_its_own_read_ahead() {
    let tree = Tree::of_text(
        "[proc]
         self/mountinfo = 27 1 254:0 / / rw - ext4 /dev/root rw\\n90 27 0:52 / /mnt/nfs rw,relatime - nfs4 filer:/export/db rw,vers=4.2,hard
         [sys/class/bdi/0:52]
         read_ahead_kb = 128
         max_ratio = 100",
    );
    let root = tree.root();
    let stack = fathom_inspect::resolve(&root, Path::new("/mnt/nfs/file")).unwrap();
    let (devices, mount) = crate::scope::of_stack(&root, &stack);
    let mount = mount.unwrap();
    assert_eq!((devices.len(), mount.device_id.as_str()), (0, "0:52 filer:/export/db"));
    let scope = Scope { devices: &devices, mounts: std::slice::from_ref(&mount), own: &[] };
    let of = |id: &str, value: &str| resolve(&root, &scope, &knobs(&[(id, value)]));
    let settings = of("bdi.read_ahead_kb", "1024").unwrap();
    assert_eq!(settings.len(), 1);
    assert_eq!(settings[0].place, mount.place());
    assert_eq!(read(&root, &mount.place(), "bdi.read_ahead_kb").unwrap(), "128");
    let watched = crate::watched(&root, &scope);
    assert_eq!((watched[0].knob.as_str(), watched[0].value.as_str()), ("bdi.read_ahead_kb", "128"));
    for (id, value) in [
        ("bdi.max_ratio", "50"),
        ("mount.atime", "noatime"),
        ("block.read_ahead_kb", "64"),
        ("btrfs.read_ahead_kb", "64"),
    ] {
        assert!(matches!(of(id, value), Err(KnobError::Nowhere { .. })), "{id}");
    }
    assert!(matches!(of("bdi.read_ahead_kb", "3"), Err(KnobError::Value { .. })), "no whole page");
    // Unmounted here and mounted there, the export still has what was set.
    tree.put("proc/self/mountinfo", "91 27 0:52 / /mnt/b rw - nfs4 filer:/export/db rw\n");
    assert_eq!(read(&root, &mount.place(), "bdi.read_ahead_kb").unwrap(), "128");
    // Another export in its place is another mount.
    tree.put("proc/self/mountinfo", "90 27 0:52 / /mnt/nfs rw - nfs4 filer:/other rw\n");
    assert!(read(&root, &mount.place(), "bdi.read_ahead_kb").is_err());
}

#[test]
fn settings_of_mounts_belong_to_their_filesystem() {
    let tree = Tree::of_text(
        "[sys/devices/a/sda]
         dev = 8:0
         wwid = naa.50
         [proc]
         self/mountinfo = 20 1 8:0 / /srv rw,noatime shared:1 - ext4 /dev/sda rw
         fs/ext4/sda/options = rw\\nbarrier\\ncommit=5\\nnodiscard
         [sys/fs/ext4/sda]
         inode_readahead_blks = 32",
    );
    let mount = ScopeMount {
        mount_point: "/srv".into(),
        device_id: "naa.50".into(),
        fs_type: "ext4".into(),
    };
    let scope = Scope { devices: &[], mounts: std::slice::from_ref(&mount), own: &[] };
    let root = tree.root();
    let read = |id: &str| read(&root, &mount.place(), id).unwrap();
    assert_eq!(
        (read("mount.atime"), read("ext4.commit"), read("ext4.discard")),
        ("noatime".into(), "5".into(), "0".into())
    );
    assert_eq!(read("ext4.inode_readahead_blks"), "32");
    assert_eq!(read("ext4.barrier"), "1");
    assert_eq!(resolve(&root, &scope, &knobs(&[("ext4.commit", "60")])).unwrap().len(), 1);
    assert!(resolve(&root, &scope, &knobs(&[("btrfs.commit", "60")])).is_err());
    assert!(find("commit").is_ok());
}

/// Of a loop device that is free again: with its file the kernel has reset what it had of it, which is nobody's doing.
#[test]
fn what_went_with_the_file_of_a_loop_device_is_no_change_of_somebodys() {
    const DIR: &str = "sys/devices/virtual/block/loop9";
    let tree = Tree::of_text(
        "[sys/devices/virtual/block/loop9]
         dev = 7:9
         size = 131072
         loop/backing_file = /images/disk
         queue/scheduler = [none] mq-deadline
         queue/nr_requests = 128
         queue/read_ahead_kb = 128
         mq/0/nr_tags = 128",
    );
    let (root, dir) = (tree.root(), tempfile::tempdir().unwrap());
    let mut log =
        ChangeLog::create(&fathom_sys::sysroot::SysRoot::live(), dir.path(), "r", Faults::none())
            .unwrap();
    let devices = [device("loop9", "/images/disk", false)];
    let scope = Scope { devices: &devices, mounts: &[], own: &[] };
    let wanted = knobs(&[("block.nr_requests", "64"), ("block.read_ahead_kb", "256")]);
    apply(
        &root,
        &mut log,
        &resolve(&root, &scope, &wanted).unwrap(),
        &[],
        &mut Wait::to_the_end(&mut |_| ()),
    )
    .unwrap();
    let entry = log.pending().remove(0);
    let Change::Knobs(change) = &entry.change else { panic!() };
    tree.put(format!("{DIR}/queue/read_ahead_kb"), "1024");
    let kept = undo(&root, &mut log, entry.step, change, false, &mut Wait::to_the_end(&mut |_| ()));
    assert!(matches!(kept, Undo::ChangedBySomebody { .. }), "{kept:?}");
    tree.put(format!("{DIR}/size"), "0");
    std::fs::remove_file(root.path(format!("{DIR}/loop/backing_file"))).unwrap();
    let gone = undo(&root, &mut log, entry.step, change, false, &mut Wait::to_the_end(&mut |_| ()));
    assert!(matches!(&gone, Undo::Gone(what) if what.contains("read_ahead_kb went")), "{gone:?}");
    assert_eq!(root.text(format!("{DIR}/queue/nr_requests")).unwrap(), "128");
    assert!(log.pending().is_empty());
}

/// Somebody changes a setting again and again while fathom sets it in between: what was before all that is put back, and nothing that passed.
#[test]
fn a_setting_that_is_changed_again_and_again_has_one_value_before() {
    const FILE: &str = "sys/devices/virtual/block/loop9/queue/nr_requests";
    let tree = Tree::of_text(
        "[sys/devices/virtual/block/loop9]
         dev = 7:9
         size = 131072
         loop/backing_file = /images/disk
         queue/scheduler = [none] mq-deadline
         queue/nr_requests = 128
         queue/read_ahead_kb = 128
         mq/0/nr_tags = 128",
    );
    let (root, dir) = (tree.root(), tempfile::tempdir().unwrap());
    let mut log =
        ChangeLog::create(&fathom_sys::sysroot::SysRoot::live(), dir.path(), "r", Faults::none())
            .unwrap();
    let devices = [device("loop9", "/images/disk", false)];
    let scope = Scope { devices: &devices, mounts: &[], own: &[] };
    let set = |log: &mut ChangeLog, ids: &[(&str, &str)], theirs: &str| {
        let settings = resolve(&root, &scope, &knobs(ids)).unwrap();
        apply(&root, log, &settings, &[], &mut Wait::to_the_end(&mut |_| ())).unwrap();
        tree.put(FILE, theirs);
    };
    let undo_all = |log: &mut ChangeLog, force: bool| {
        for entry in log.pending() {
            let Change::Knobs(change) = log.entry(entry.step).unwrap().change.clone() else {
                panic!()
            };
            undo(&root, log, entry.step, &change, force, &mut Wait::to_the_end(&mut |_| ()));
        }
        let before = |entry: Entry| {
            let Change::Knobs(change) = entry.change else { panic!() };
            let of = |values: &[KnobValue]| {
                let mut values = values.iter();
                values.find(|v| v.knob == "block.nr_requests").unwrap().value.clone()
            };
            (of(&change.before), of(&change.left))
        };
        log.pending().into_iter().map(before).collect::<Vec<_>>()
    };
    let now = || root.text(FILE).unwrap();
    let both = [("block.nr_requests", "100"), ("block.read_ahead_kb", "256")];
    let kept = |left: &str| vec![("128".to_owned(), left.to_owned())];
    for is_put_back_by_them in [true, false] {
        set(&mut log, &[("block.nr_requests", "64")], "43");
        assert_eq!(undo_all(&mut log, false), kept("64"));
        // With another setting beside it, which is put back.
        set(&mut log, &both, "54");
        assert_eq!(undo_all(&mut log, false), kept("100"));
        // What fathom had left first is somebody's by now.
        set(&mut log, &[("block.nr_requests", "80")], "64");
        assert_eq!((undo_all(&mut log, false), now()), (kept("80"), "64".to_owned()));
        if is_put_back_by_them {
            tree.put(FILE, "128");
        }
        assert_eq!((undo_all(&mut log, !is_put_back_by_them), now()), (vec![], "128".to_owned()));
    }
    // As a kill between the two left it: both are there.
    set(&mut log, &[("block.nr_requests", "64")], "43");
    undo_all(&mut log, false);
    set(&mut log, &[("block.nr_requests", "100")], "128");
    assert_eq!((undo_all(&mut log, false), now()), (vec![], "128".to_owned()));
}

/// In a container `/sys` is often read-only: that can be said before anything is done.
#[test]
fn settings_below_a_read_only_mount_are_told() {
    let tree = Tree::of_text(MACHINE);
    let settings =
        resolved(&tree, &[("block.nr_requests@sdb", "16"), ("vm.swappiness", "10")]).unwrap();
    let told = || {
        let at = settings.iter().map(|setting| read_only_at(&tree.root(), setting));
        at.map(|at| at.map(|at| at.display().to_string())).collect::<Vec<_>>()
    };
    let mounts = |sys: &str, proc: &str| {
        let line = |id: u32, at: &str, kind: &str, options: &str| {
            format!("{id} 1 0:{id} / {at} {options},nosuid - {kind} {kind} rw\n")
        };
        tree.put(
            "proc/self/mountinfo",
            line(20, "/sys", "sysfs", sys) + &line(21, "/proc", "proc", proc),
        );
    };
    mounts("rw", "rw");
    assert_eq!(told(), [None, None]);
    mounts("ro", "rw");
    assert_eq!(told(), [None, Some("/sys".to_owned())], "the machine comes first");
    mounts("rw", "ro");
    assert_eq!(told(), [Some("/proc".to_owned()), None]);
}
