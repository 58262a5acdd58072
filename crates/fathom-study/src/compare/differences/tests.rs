//! Differences between records of a known change.

use super::*;
use crate::fixtures;
use fathom_model::stack::{
    DmFacts, DriveFacts, FsFacts, MdFacts, MdMember, MountFacts, Node, NodeKind, QueueFacts,
};

fn measured(change: impl Fn(&mut RunHead, &mut Record)) -> Measured {
    let (mut head, mut record) = (fixtures::head(), fixtures::record());
    let node = &mut record.targets[0].stack.nodes[2];
    node.size_bytes = Some(32 << 30);
    node.queue = Some(QueueFacts {
        scheduler: Some("none".into()),
        requests: Some(64),
        read_ahead_kib: Some(128),
        rotational: Some(true),
        ..QueueFacts::default()
    });
    node.drive = Some(DriveFacts { serial: Some("S1".into()), ..DriveFacts::default() });
    change(&mut head, &mut record);
    Measured::of(&head, &record, 0)
}

fn queue(record: &mut Record) -> &mut QueueFacts {
    record.targets[0].stack.nodes[2].queue.as_mut().expect("a queue")
}

fn weights(found: &[Difference]) -> Vec<(&str, Weight)> {
    found.iter().map(|d| (d.what.as_str(), d.weight)).collect()
}

#[test]
fn the_same_twice_has_no_difference() {
    let again = measured(|head, record| {
        head.host.load_1min = Some(7.0);
        head.id = "other".into();
        record.started_unix_ns = 77;
    });
    assert_eq!(differences(&[measured(|_, _| {})], &[again], None), []);
}

#[test]
fn one_setting_is_the_thing_under_test_with_what_follows_from_it() {
    let other = measured(|_, record| {
        queue(record).scheduler = Some("bfq".into());
        queue(record).requests = Some(256);
    });
    let found = differences(&[measured(|_, _| {})], &[other], None);
    assert_eq!(
        weights(&found),
        [("disk.queue.scheduler", Weight::Factor), ("disk.queue.requests", Weight::Consequence)]
    );
    assert_eq!((found[0].a.join(""), found[0].b.join("")), ("none".into(), "bfq".into()));
}

#[test]
fn two_settings_confound_each_other_unless_one_is_named() {
    let other = measured(|head, record| {
        queue(record).read_ahead_kib = Some(4096);
        head.host.kernel = Some("6.99".into());
    });
    let base = [measured(|_, _| {})];
    let found = differences(&base, std::slice::from_ref(&other), None);
    let both =
        [("disk.queue.read_ahead_kib", Weight::Confounder), ("host.kernel", Weight::Confounder)];
    assert_eq!(weights(&found), both);
    let found = differences(&base, &[other], Some("kernel"));
    let both = [("disk.queue.read_ahead_kib", Weight::Confounder), ("host.kernel", Weight::Factor)];
    assert_eq!(weights(&found), both);
}

#[test]
fn another_device_size_or_way_voids() {
    let other = measured(|_, record| {
        record.targets[0].stack.nodes[2].drive.as_mut().expect("drive").serial = Some("S2".into());
    });
    let base = [measured(|_, _| {})];
    let found = differences(&base, std::slice::from_ref(&other), None);
    assert_eq!(weights(&found), [("disk.drive.serial", Weight::Voids)]);
    let found = differences(&base, &[other], Some("device"));
    assert_eq!(weights(&found), [("disk.drive.serial", Weight::Factor)]);
    let buffered = measured(|_, record| record.workload.jobs[0].direct = false);
    assert_eq!(
        weights(&differences(&base, &[buffered], None)),
        [("workload.direct", Weight::Voids)]
    );
    let larger = measured(|_, record| record.targets[0].size_bytes *= 2);
    let found = differences(&base, std::slice::from_ref(&larger), None);
    assert_eq!(weights(&found), [("target.size", Weight::Voids)]);
    let found = differences(&base, &[larger], Some("size"));
    assert_eq!(weights(&found), [("target.size", Weight::Factor)]);
}

#[test]
fn places_have_a_tolerance_and_count_where_something_rotates() {
    let at = |gib: u64, rotational: bool| {
        measured(move |_, record| {
            queue(record).rotational = Some(rotational);
            record.targets[0].kind = TargetKind::ForeignFile;
            record.targets[0].extents.as_mut().expect("extents").first_byte = Some(gib << 30);
        })
    };
    let name = "region: start of the file on its device";
    let found = differences(&[at(0, true)], &[at(16, true)], None);
    assert_eq!(weights(&found), [(name, Weight::Voids)]);
    assert_eq!((found[0].a.join(""), found[0].b.join("")), ("0 %".into(), "50 %".into()));
    let found = differences(&[at(0, false)], &[at(16, false)], None);
    assert_eq!(weights(&found), [(name, Weight::Background)]);
    assert_eq!(differences(&[at(0, true)], &[at(3, true)], None), []);
    let full = |free: u64| {
        measured(move |_, record| {
            record.targets[0].stack.nodes[1].fs = Some(FsFacts {
                fs_type: "ext4".into(),
                total_bytes: Some(100),
                free_bytes: Some(free),
                ..FsFacts::default()
            });
        })
    };
    let found = differences(&[full(90)], &[full(20)], None);
    assert_eq!(weights(&found), [("fill of the filesystem", Weight::Voids)]);
}

#[test]
fn another_filesystem_is_one_difference_with_its_options() {
    let with = |fs_type: &'static str, block_bytes: u64| {
        measured(move |_, record| {
            let node = &mut record.targets[0].stack.nodes[1];
            node.name = fs_type.into();
            node.fs = Some(FsFacts {
                fs_type: fs_type.into(),
                block_bytes: Some(block_bytes),
                ..FsFacts::default()
            });
        })
    };
    let found = differences(&[with("ext4", 4096)], &[with("xfs", 1024)], None);
    let counted: Vec<_> =
        weights(&found).into_iter().filter(|(_, w)| *w > Weight::Consequence).collect();
    assert_eq!(counted, [("filesystem.fs.fs_type", Weight::Factor)]);
}

/// A filesystem chooses a place for each new file: only sides that lie apart as a whole are told.
#[test]
fn the_place_of_own_files_never_voids() {
    let at = |run: usize, gib: u64| {
        measured(move |head, record| {
            head.id = format!("{run:012}");
            record.targets[0].extents.as_mut().expect("extents").first_byte = Some(gib << 30);
        })
    };
    let side = |places: [u64; 4]| -> Vec<Measured> {
        places.iter().enumerate().map(|(run, gib)| at(run, *gib)).collect()
    };
    let name = "region: start of the file on its device";
    let single = differences(&[at(0, 0)], &[at(1, 30)], None);
    assert_eq!(weights(&single), [(name, Weight::Background)]);
    let apart = differences(&side([0, 1, 2, 3]), &side([20, 21, 22, 23]), None);
    assert_eq!(weights(&apart), [(name, Weight::Confounder)]);
    let scattered = differences(&side([0, 9, 9, 20]), &side([2, 20, 20, 30]), None);
    assert_eq!(weights(&scattered), [(name, Weight::Background)]);
    // Repetitions in one run share the file: they say nothing about its spread.
    let repeated = |run, gib| vec![at(run, gib), at(run, gib), at(run, gib), at(run, gib)];
    let found = differences(&repeated(0, 0), &repeated(1, 30), None);
    assert_eq!(weights(&found), [(name, Weight::Background)]);
    let found = differences(&[at(0, 0)], &[at(1, 30)], Some("region"));
    assert_eq!(weights(&found), [(name, Weight::Factor)]);
}

/// `quick` sizes its file by what the device does.
#[test]
fn own_files_of_nearly_one_size_are_the_same() {
    let sized = |mib: u64, kind: TargetKind| {
        measured(move |_, record| {
            record.targets[0].size_bytes = mib << 20;
            record.targets[0].kind = kind;
        })
    };
    let own = |mib| sized(mib, TargetKind::OwnFile);
    let foreign = |mib| sized(mib, TargetKind::ForeignFile);
    assert_eq!(differences(&[own(1000)], &[own(1090)], None), []);
    let found = differences(&[own(1000)], &[own(1200)], None);
    assert_eq!(weights(&found), [("target.size", Weight::Voids)]);
    let found = differences(&[foreign(1000)], &[foreign(1001)], None);
    assert_eq!(weights(&found), [("target.size", Weight::Voids)]);
}

#[test]
fn a_larger_file_fills_its_filesystem() {
    let sized = |gib: u64, free_gib: u64| {
        measured(move |_, record| {
            record.targets[0].size_bytes = gib << 30;
            record.targets[0].stack.nodes[1].fs = Some(FsFacts {
                fs_type: "ext4".into(),
                total_bytes: Some(32 << 30),
                free_bytes: Some(free_gib << 30),
                ..FsFacts::default()
            });
        })
    };
    let fill = "fill of the filesystem";
    let found = differences(&[sized(1, 30)], &[sized(16, 15)], Some("size"));
    assert_eq!(weights(&found), [("target.size", Weight::Factor), (fill, Weight::Consequence)]);
    let found = differences(&[sized(1, 30)], &[sized(2, 4)], Some("size"));
    assert_eq!(weights(&found), [(fill, Weight::Voids), ("target.size", Weight::Factor)]);
}

/// An array of drives with these serial numbers, in the order of their kernel names.
fn array(serials: &[&str], change: impl Fn(&mut Node)) -> Measured {
    measured(|_, record| {
        let target = &mut record.targets[0];
        let nodes = &mut target.stack.nodes;
        let mut drive = nodes.remove(2);
        drive.size_bytes = Some(32 << 30);
        let mut md = Node::new(NodeKind::Md, "md0");
        md.devno = Some("9:0".into());
        md.size_bytes = Some(32 << 30);
        let names = ["sda", "sdb", "sdc"];
        let mut members: Vec<MdMember> = Vec::new();
        for (index, serial) in serials.iter().enumerate() {
            let mut drive = drive.clone();
            drive.name = names[index].into();
            drive.drive.as_mut().expect("drive").serial = Some((*serial).into());
            change(&mut drive);
            nodes.push(drive);
            md.below.push(3 + index);
            let slot = serial.trim_start_matches('S').to_owned();
            let name = names[index].to_owned();
            members.push(MdMember { name, slot: Some(slot), ..MdMember::default() });
        }
        md.md = Some(MdFacts {
            level: Some("raid1".into()),
            array_state: Some("clean".into()),
            members,
            ..MdFacts::default()
        });
        change(&mut md);
        nodes.insert(2, md);
    })
}

#[test]
fn arrays_are_the_same_with_other_names_and_busy_or_idle() {
    let base = [array(&["S0", "S1"], |_| {})];
    let swapped = array(&["S1", "S0"], |node| {
        if let Some(md) = &mut node.md {
            md.array_state = Some("active".into());
        }
    });
    let found = differences(&base, &[swapped], None);
    assert!(!found.is_empty() && found.iter().all(|d| d.weight == Weight::Background), "{found:?}");
    let replaced = array(&["S0", "S2"], |_| {});
    let found = differences(&base, &[replaced], None);
    assert_eq!((found[0].what.as_str(), found[0].weight), ("disk 2.drive.serial", Weight::Voids));
}

#[test]
fn one_change_on_all_members_is_one() {
    let with = |name: &'static str| {
        array(&["S0", "S1"], move |node| {
            if let Some(queue) = node.queue.as_mut() {
                queue.scheduler = Some(name.into());
            }
        })
    };
    let expected =
        [("disk.queue.scheduler", Weight::Factor), ("disk 2.queue.scheduler", Weight::Consequence)];
    for factor in [None, Some("disk.queue.scheduler")] {
        let found = differences(&[with("none")], &[with("bfq")], factor);
        assert_eq!(weights(&found), expected, "{factor:?}");
    }
    let found = differences(&[with("none")], &[with("bfq")], Some("disk 2.queue.scheduler"));
    assert_eq!(weights(&found)[0], ("disk 2.queue.scheduler", Weight::Factor));
    assert_eq!(weights(&found)[1], ("disk.queue.scheduler", Weight::Consequence));
}

#[test]
fn another_level_brings_the_rest_of_the_array() {
    let raid = |level: &'static str, serials: &[&str], chunk_bytes: u64, gib: u64| {
        let mut measured = array(serials, |node| {
            if let Some(md) = &mut node.md {
                md.level = Some(level.into());
                md.chunk_bytes = Some(chunk_bytes);
                md.raid_disks = Some(serials.len() as u64);
                md.sync_action = (level != "raid0").then(|| "idle".into());
                md.consistency_policy = (level != "raid0").then(|| "resync".into());
                node.size_bytes = Some(gib << 30);
            }
        });
        let mut size = measured.facts["target.size"].clone();
        size.value = format!("{gib} GiB");
        size.near_bytes = None;
        measured.facts.insert("target.size".into(), size);
        measured
    };
    let two = ["S0", "S1"];
    for serials in [&two[..], &["S0", "S1", "S2"][..], &["S2", "S0", "S1"][..]] {
        let found = differences(
            &[raid("raid1", &two, 0, 32)],
            &[raid("raid0", serials, 524_288, 64)],
            Some("level"),
        );
        let counted: Vec<_> =
            weights(&found).into_iter().filter(|(_, w)| *w > Weight::Consequence).collect();
        assert_eq!(counted, [("md.md.level", Weight::Factor)], "{found:?}");
    }
    // Another size that was asked for is another thing.
    let mut asked = raid("raid0", &two, 524_288, 48);
    let size = asked.facts["target.layers"].clone();
    asked.facts.insert("workload.size_bytes".into(), size);
    asked.facts.remove("md.size_bytes");
    let found = differences(&[raid("raid1", &two, 0, 32)], &[asked], Some("level"));
    assert_eq!(weights(&found)[0], ("target.size", Weight::Voids), "{found:?}");
    // Where both have one it was chosen.
    let found = differences(
        &[raid("raid10", &two, 65_536, 32)],
        &[raid("raid0", &two, 524_288, 64)],
        Some("level"),
    );
    assert!(weights(&found).contains(&("md.md.chunk_bytes", Weight::Confounder)), "{found:?}");
}

#[test]
fn another_drive_and_another_kernel_bring_their_own() {
    let base = [measured(|head, _| head.host.kernel_build = Some("#1".into()))];
    let drive = measured(|head, record| {
        head.host.kernel_build = Some("#1".into());
        record.targets[0].stack.nodes[2].drive = Some(DriveFacts {
            serial: Some("S2".into()),
            firmware: Some("F2".into()),
            controller: Some("nvme 0000:02:00.0".into()),
            link_width: Some(4),
            ..DriveFacts::default()
        });
        queue(record).max_hw_sectors_kib = Some(128);
        queue(record).read_ahead_kib = Some(4096);
    });
    let found = differences(&base, &[drive], Some("device"));
    let counted: Vec<_> =
        weights(&found).into_iter().filter(|(_, w)| *w > Weight::Consequence).collect();
    let expected =
        [("disk.queue.read_ahead_kib", Weight::Confounder), ("disk.drive.serial", Weight::Factor)];
    assert_eq!((counted, found.len()), (expected.to_vec(), 6), "{found:?}");
    let kernel = measured(|head, record| {
        head.host.kernel = Some("6.99".into());
        head.host.kernel_build = Some("#2".into());
        head.host.vulnerabilities = vec!["retbleed: untrained".into()];
        record.jobs[0].engine.features = vec!["defer taskrun".into()];
    });
    let found = differences(&base, &[kernel], Some("kernel"));
    assert_eq!(found[0].what, "host.kernel");
    let rest: Vec<Weight> = found[1..].iter().map(|d| d.weight).collect();
    assert_eq!((found[0].weight, rest), (Weight::Factor, vec![Weight::Consequence; 3]));
}

/// The mount of the sample record, of the given source and options.
fn mounted(source: &str, options: &str, effective: &[&str], kind: NodeKind) -> Measured {
    measured(|_, record| {
        let nodes = &mut record.targets[0].stack.nodes;
        nodes[1].kind = kind;
        nodes[1].path = (kind == NodeKind::Remote).then(|| source.into());
        nodes[0].mount = Some(MountFacts {
            source: source.into(),
            super_options: vec![options.into()],
            effective_options: effective.iter().map(|&o| o.into()).collect(),
            ..MountFacts::default()
        });
    })
}

#[test]
fn mount_options_and_servers_count() {
    let fs = |options| [mounted("/dev/sda1", options, &[], NodeKind::FileSystem)];
    let found = differences(&fs("compress=zstd:3"), &fs("nodatacow"), None);
    assert_eq!(weights(&found), [("mount.mount.super_options", Weight::Factor)]);
    let ext4 = |options| [mounted("/dev/sda1", options, &["data=ordered"], NodeKind::FileSystem)];
    let found = differences(&ext4("rw"), &ext4("rw,errors=continue"), None);
    assert_eq!(weights(&found), [("mount.mount.super_options", Weight::Background)]);
    let nfs = |source, options| [mounted(source, options, &[], NodeKind::Remote)];
    let (a, b) = (nfs("one:/srv", "clientaddr=1.2.3.4"), nfs("two:/srv", "clientaddr=1.2.3.5"));
    let expected = |weight| {
        let first = ("mount.mount.source", weight);
        [first, ("remote.path", if weight == Weight::Voids { weight } else { Weight::Factor })]
    };
    assert_eq!(weights(&differences(&a, &b, None)), expected(Weight::Voids));
    assert_eq!(weights(&differences(&a, &b, Some("device"))), expected(Weight::Factor));
}

#[test]
fn tables_pages_and_nameless_disks_count() {
    let crypt = |table: &'static str| {
        [measured(move |_, record| {
            let dm = DmFacts { table: vec![table.into()], ..DmFacts::default() };
            record.targets[0].stack.nodes[2].dm = Some(dm);
        })]
    };
    let a = crypt("0 8 crypt aes-xts-plain64 - 0 8:16 32768");
    assert_eq!(differences(&a, &crypt("0 8 crypt aes-xts-plain64 - 0 8:32 32768"), None), []);
    let found = differences(&a, &crypt("0 8 crypt aes-cbc-essiv - 0 8:16 32768"), None);
    assert_eq!(weights(&found), [("disk.dm.table", Weight::Factor)]);
    let pages = |bytes| [measured(move |head, _| head.host.page_bytes = Some(bytes))];
    let found = differences(&pages(4096), &pages(65536), None);
    assert_eq!(weights(&found), [("host.page_bytes", Weight::Factor)]);
    let named = |name: &'static str, serial: Option<&'static str>| {
        [measured(move |_, record| {
            let node = &mut record.targets[0].stack.nodes[2];
            node.name = name.into();
            node.drive.as_mut().expect("drive").serial = serial.map(str::to_owned);
        })]
    };
    let found = differences(&named("vda", None), &named("vdb", None), None);
    assert_eq!(weights(&found), [("disk.name", Weight::Voids)]);
    let found = differences(&named("sda", Some("S1")), &named("sdb", Some("S1")), None);
    assert_eq!(weights(&found), [("disk.name", Weight::Background)]);
    let found = differences(&named("sda", Some("S1")), &named("sdb", Some("S1")), Some("device"));
    assert_eq!(weights(&found), [("disk.name", Weight::Background)], "the same device");
}
