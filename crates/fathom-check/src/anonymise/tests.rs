//! What identifies goes, what is technical stays.

use super::*;
use crate::fixtures::Bench;
use fathom_model::snapshot::Unread;
use fathom_model::stack::{DriveFacts, FsFacts, MdFacts, MountFacts, Node, NodeKind};
use fathom_model::system::{FstabEntry, LogLine, LvmConfiguration, SmartdConfiguration};

const UUID: &str = "3f1a9c52-7b0e-4d31-9a86-0c5de1f2ab47";

fn revealing() -> Snapshot {
    let mut snapshot =
        Snapshot { targets: vec!["/srv/acme-payroll".into()], ..Snapshot::default() };
    let mut disk = Node::new(NodeKind::Disk, "sda");
    disk.path = Some("/dev/sda".into());
    disk.drive = Some(DriveFacts {
        model: Some("ST4000NM0035".into()),
        serial: Some("ZC1A2B3C".into()),
        wwn: Some("naa.5000c500a1b2c3d4".into()),
        ..DriveFacts::default()
    });
    disk.detail = Some(Box::default());
    if let Some(detail) = disk.detail.as_mut() {
        detail.links = vec!["by-id/ata-ST4000NM0035_ZC1A2B3C".into()];
    }
    let mut md = Node::new(NodeKind::Md, "md10");
    md.md = Some(MdFacts {
        uuid: Some("3f1a9c52:7b0e4d31:9a860c5d:e1f2ab47".into()),
        ..MdFacts::default()
    });
    let mut mount = Node::new(NodeKind::Mount, "/srv/acme-payroll");
    mount.path = Some("/srv/acme-payroll".into());
    let options = ["rw", "upperdir=/srv/bookkeeping/upper", "name=alice", "vers=3.1.1"];
    mount.mount = Some(MountFacts {
        mount_point: "/srv/acme-payroll".into(),
        super_options: options.map(str::to_owned).to_vec(),
        ..MountFacts::default()
    });
    let mut fs = Node::new(NodeKind::FileSystem, "ext4");
    fs.fs = Some(FsFacts {
        uuid: Some(UUID.into()),
        label: Some("PAYROLL".into()),
        ..FsFacts::default()
    });
    snapshot.machine.nodes = vec![mount, fs, md, disk];
    snapshot.unread = vec![Unread {
        what: "the store of results".into(),
        why: "store '/home/mallory/.local/fathom.db': no permission to read it".into(),
    }];
    snapshot.system.command_line = Some(format!("root=UUID={UUID} quiet"));
    snapshot.system.configuration.fstab = vec![FstabEntry {
        source: "10.20.30.40:/export/acme".into(),
        mount_point: "/home".into(),
        ..FstabEntry::default()
    }];
    snapshot.system.kernel_log = vec![LogLine {
        text: "nfs: server 10.20.30.40 not responding; fe80::1c2d:3eff:fe4f:5a6b too; sda: I/O error; UUID 3F1A9C52-7B0E-4D31-9A86-0C5DE1F2AB47".to_lowercase(),
        ..LogLine::default()
    }];
    snapshot
}

#[test]
fn nothing_that_identifies_is_left_and_what_is_technical_stays() {
    let snapshot = revealing();
    let hidden = anonymise(snapshot.clone(), 7);
    let text = serde_json::to_string(&hidden).unwrap().to_lowercase();
    for secret in [
        "acme",
        "payroll",
        "zc1a2b3c",
        "5000c500a1b2c3d4",
        "3f1a9c52",
        "e1f2ab47",
        "10.20.30.40",
        "1c2d:3eff",
        "bookkeeping",
        "alice",
        "mallory",
    ] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    for technical in [
        "st4000nm0035",
        "sda",
        "md10",
        "ext4",
        "/dev/sda",
        "/home",
        "quiet",
        "i/o error",
        "by-id/ata-",
    ] {
        assert!(text.contains(technical), "{technical} not in {text}");
    }
    assert!(hidden.anonymised);
}

#[test]
fn the_same_becomes_the_same_wherever_it_stands() {
    let hidden = anonymise(revealing(), 7);
    let bare = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let fs_uuid = hidden.machine.nodes[1].fs.as_ref().unwrap().uuid.clone().unwrap();
    let md_uuid = hidden.machine.nodes[2].md.as_ref().unwrap().uuid.clone().unwrap();
    assert_eq!(bare(&fs_uuid), bare(&md_uuid), "however it is cut");
    assert_eq!(fs_uuid.len(), UUID.len());
    assert_eq!(hidden.system.command_line.as_deref(), Some("root=... quiet"));
    assert!(hidden.system.kernel_log[0].text.contains(&fs_uuid), "in the log");
    let point = &hidden.machine.nodes[0].mount.as_ref().unwrap().mount_point;
    assert_eq!((&hidden.targets[0], &hidden.machine.nodes[0].name), (point, point));
    let drive = hidden.machine.nodes[3].drive.as_ref().unwrap();
    let link = &hidden.machine.nodes[3].details().links[0];
    assert_eq!(link, &format!("by-id/ata-ST4000NM0035_{}", drive.serial.as_ref().unwrap()));
    let log = &hidden.system.kernel_log[0].text;
    let server = hidden.system.configuration.fstab[0].source.split(':').next().unwrap();
    assert!(server.starts_with("192.0.2.") && log.contains(server), "{log} {server}");
    assert!(log.contains("2001:db8::"), "{log}");
}

#[test]
fn another_seed_gives_other_words() {
    let serial = |seed| anonymise(revealing(), seed).machine.nodes[3].drive.clone().unwrap().serial;
    assert_eq!(serial(7), serial(7));
    assert_ne!(serial(7), serial(8));
}

const BOOTED: &str = "BOOT_IMAGE=/vmlinuz-6.8.0-45-generic root=/dev/mapper/acmevg-root ro quiet \
    ip=10.1.2.3::10.1.2.1:255.255.255.0:dbhost17:eth0 rd.iscsi.password=hunter2 \
    netroot=iscsi:user:passw0rd@10.9.8.7::3260::iqn.2003-01.org.acme:target7 rd.lvm.lv=acmevg/root \
    rd.luks.uuid=9b2d6c11-5a4e-4f7d-8c3b-2e1f0a9d8c7b note=\"my hunter2 word\" scsi_mod.scan=sync \
    intel_idle.max_cstate=1 rootflags=commit=30 console=ttyS0,115200";

#[test]
fn command_line_and_log_tell_nothing() {
    let mut snapshot = revealing();
    snapshot.system.command_line = Some(BOOTED.into());
    let lines = [
        &format!("Kernel command line: {BOOTED}"),
        "scsi9: iqn.2003-01.org.acme:target7,t,0x01 at 10.1.2.3::10.1.2.1:255.255.255.0",
        "login user:passw0rd@10.9.8.7::3260. 10.1.2.9 is over 10.1.2.8, tell admin@dbhost17.acme.de.",
        "e1000e 0000:00:1f.6 eth0: 52:54:00:ab:cd:ef",
        "dm-3: 36005076801810523c000000000000a1f 0x6005076801810523 luks-9b2d6c11-5a4e-4f7d-8c3b-2e1f0a9d8c7b",
        "md: 9b2d6c11:5a4e4f7d:8c3b2e1f:0a9d8c7b",
        "ahci 0000:00:1f.2: Linux 6.8.0-45-generic, 8:16, 4000787030016 bytes, driver version 14.2.0.17, 43.100.00.00, 1.2.3.4.5",
    ];
    let line = |text: &&str| LogLine { text: (*text).into(), ..LogLine::default() };
    snapshot.system.kernel_log = lines.iter().map(line).collect();
    let hidden = anonymise(snapshot.clone(), 7);
    let text = serde_json::to_string(&hidden).unwrap().to_lowercase();
    for secret in [
        "10.1.2.",
        "10.9.8.7",
        "dbhost17",
        "hunter2",
        "passw0rd",
        "target7",
        "acme",
        "admin",
        "52:54:00",
        "9b2d6c11",
        "0a9d8c7b",
        "6005076801810523",
    ] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let booted = hidden.system.command_line.unwrap();
    assert_eq!(
        booted,
        "... root=... ro quiet ip=... rd.iscsi.password=... netroot=... rd.lvm.lv=... rd.luks.uuid=... \
         note=... scsi_mod.scan=sync intel_idle.max_cstate=1 rootflags=commit=30 console=ttyS0,115200"
    );
    let log: Vec<&str> = hidden.system.kernel_log.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(log[0], format!("Kernel command line: {booted}"));
    assert!(log[3].starts_with("e1000e 0000:00:1f.6 eth0: "), "{}", log[3]);
    assert_eq!(log[6], lines[6]);
    let bare = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let (luks, md) = (log[4].rsplit_once("luks-").unwrap().1, &log[5]["md: ".len()..]);
    assert_eq!(bare(luks), bare(md));
}

#[test]
fn names_of_the_kernel_are_ordinary() {
    for name in [
        "loop7p1",
        "md126p1",
        "mmcblk0p1",
        "nbd0p1",
        "rbd0",
        "rbd0p2",
        "drbd1000",
        "pmem0",
        "dasda1",
        "zd16p1",
        "ublkb0p1",
        "nvme0n1p2",
        "sdp1",
    ] {
        assert!(is_ordinary(name), "{name}");
    }
    assert!(!is_ordinary("acmep1") && !is_ordinary("ZC1A2B3C"));
}

/// Whatever a mount is called: the words by which rules read logs and udev's rules stay.
#[test]
fn mounts_that_are_called_like_words_of_rules_change_nothing() {
    const UDEV: &str = r#"ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="sda", ATTR{queue/scheduler}="none", ATTR{queue/read_ahead_kb}="4096""#;
    let phrases: Vec<&str> = known::phrases().collect();
    let texts = phrases.iter().copied().chain(UDEV.split('"'));
    let words: BTreeSet<String> = texts
        .flat_map(runs)
        .map(|(_, run)| run.to_lowercase())
        .filter(|run| run.len() > 2)
        .collect();
    assert!(words.contains("medium") && words.contains("subsystem") && words.len() > 90);
    for word in words {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.mounted("ext4", &format!("/srv/{word}"), disk);
        let line = |phrase: &&str| LogLine {
            text: format!("{phrase}, dev sda, sector 1234"),
            ..LogLine::default()
        };
        bench.snapshot.system.kernel_log = phrases.iter().map(line).collect();
        bench.snapshot.system.configuration.udev_queue_rules =
            vec![("/etc/udev/rules.d/60-a.rules".to_owned(), UDEV.to_owned())];
        let rules = |snapshot: &Snapshot| -> Vec<(String, String)> {
            let found = crate::check(snapshot).into_iter();
            found.map(|d| (d.rule, d.summary.replace(&word, ""))).collect()
        };
        let told = rules(&bench.snapshot);
        assert!(told.iter().any(|(rule, _)| rule == "kernel-log-io-errors"), "{told:?}");
        assert!(told.iter().any(|(rule, _)| rule == "udev-rule-not-in-effect"), "{told:?}");
        assert_eq!(rules(&anonymise(bench.snapshot.clone(), 7)), told, "{word}");
    }
}

/// Attributes of the kernel are its own words, but for the label that somebody gave.
#[test]
fn labels_among_attributes_go() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let cached = bench.device(NodeKind::Bcache, "bcache0", 1 << 30, &[disk]);
    let (fs, _) = bench.mounted("btrfs", "/srv", cached);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let uuid = "0b1c2d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e";
    bench.detail_of(fs).filesystem =
        vec![pair("label", "payroll"), pair("metadata_uuid", uuid), pair("quota/mode", "qgroup")];
    bench.detail_of(cached).bcache =
        vec![pair("label", "ledgers"), pair("backing_dev_uuid", uuid), pair("state", "no cache")];
    bench.detail_of(disk).md = vec![pair("sync_speed_max", "200000 (system)")];
    let text = serde_json::to_string(&anonymise(bench.snapshot, 7)).unwrap();
    for secret in ["payroll", "ledgers", uuid] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    for own in ["qgroup", "no cache", "200000 (system)", "metadata_uuid"] {
        assert!(text.contains(own), "{own} not in {text}");
    }
}

/// What administrators wrote into files, and names in fixed places of the kernel's log.
#[test]
fn names_in_configuration_and_log_go() {
    let mut snapshot = Snapshot::default();
    let configuration = &mut snapshot.system.configuration;
    configuration.lvm = Some(LvmConfiguration {
        global_filter: vec![
            "a|^/dev/disk/by-id/ata-SAMSUNG_S5GXNX0TACME1|".into(),
            "a|/dev/mapper/acmemap.*|".into(),
        ],
        ..LvmConfiguration::default()
    });
    configuration.smartd = Some(SmartdConfiguration {
        // As many as a setting has words.
        devices: vec!["/dev/sda".into(), "/dev/disk/by-id/ata-ST4000NM0035_ZC1ACMEDRV".into()],
        ..SmartdConfiguration::default()
    });
    configuration.fstab = vec![FstabEntry {
        options: ["secret=AQDACME==", "uid=acmeuser", "noatime", "commit=30"]
            .map(str::to_owned)
            .into(),
        ..FstabEntry::default()
    }];
    let rule = r#"ENV{DM_VG_NAME}=="acmevg", ATTR{queue/scheduler}="none", RUN+="/usr/local/bin/acmetune.sh %k""#;
    configuration.udev_queue_rules = vec![("60-a.rules".into(), rule.into())];
    let line = |text: &str| LogLine { text: text.into(), ..LogLine::default() };
    snapshot.system.kernel_log = vec![
        line(
            "EXT4-fs error (device sda1): ext4_lookup:1: inode #2: comm acmebilling: deleted inode",
        ),
        line(
            "EXT4-fs error (device sda1): ext4_x:7: inode #2: comm kworker/u8:2: path /srv/acmepath/x: bad",
        ),
        line("BTRFS error (device dm-1): bdev /dev/mapper/acmecrypt errs: wr 1, rd 0"),
        line("XFS (acmeone-acmelv): Metadata corruption detected"),
    ];
    let hidden = anonymise(snapshot, 7);
    let text = serde_json::to_string(&hidden).unwrap().to_lowercase();
    assert!(!text.contains("acme") && !text.contains("s5gx") && !text.contains("aqd"), "{text}");
    for own in [
        "ext4-fs error (device sda1)",
        "kworker/u8",
        "noatime",
        "commit=30",
        "queue/scheduler",
        "metadata corruption",
    ] {
        assert!(text.contains(own), "{own} not in {text}");
    }
}

/// Of the words in the kernel's log only those that are known to be its own stay.
#[test]
fn words_that_are_not_known_go_from_the_log() {
    let lines = [
        ("XFS (acmeold-acmelv): log I/O error -5", "log I/O error -5"),
        ("BTRFS error (device dm-1): tree of acmefiles: corruption", "tree of"),
        ("md/raid1:acmearray: Disk failure on sdb, disabling device.", "Disk failure on sdb, "),
        (
            "I/O error, dev acmeblk7, sector 8 op 0x0:(READ) flags 0x80700 phys_seg 1",
            "flags 0x80700 phys_seg",
        ),
        ("nvme nvme0: failing path to acmetarget", "nvme nvme0: failing path to "),
        (
            "EXT4-fs error (device sda1): ext4_find_dest_de:2092: inode #2: block 9: comm acme_x: bad entry in directory: rec_len is smaller than minimal - offset=0, inode=12, rec_len=3",
            "ext4_find_dest_de:2092: inode #2: block 9: comm ",
        ),
        (
            "EXT4-fs error (device sda1): htree_dirblock_to_tree:1092: inode #2: comm 'acme: db': bad",
            "htree_dirblock_to_tree:1092",
        ),
        ("Buffer I/O error on dev sda, logical block 5, acmemode page read", "page read"),
        (
            "sd 2:0:5:0: [sdb] tag#12 CDB: Read(10) 28 00 1d 1c 43 80, hostbyte=DID_OK driverbyte=DRIVER_OK: I/O error",
            "hostbyte=DID_OK driverbyte=DRIVER_OK",
        ),
        (
            "nvme c05b:00:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID) acme",
            "nvme c05b:00:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID) ",
        ),
        (
            "mpt3sas_cm0: log_info(0x31110e03): originator(PL), code(0x11), sub_code(0x0e03) acme",
            "mpt3sas_cm0: log_info(0x31110e03): originator(PL), code(0x11), sub_code(0x0e03) ",
        ),
    ];
    let mut snapshot = Snapshot::default();
    let line = |text: &str| LogLine { text: text.into(), ..LogLine::default() };
    snapshot.system.kernel_log = lines.iter().map(|(text, _)| line(text)).collect();
    // The same word is the same wherever it stands.
    snapshot.machine.nodes = vec![Node::new(NodeKind::Mount, "/srv/acmetarget")];
    snapshot.machine.nodes[0].path = Some("/srv/acmetarget".into());
    let hidden = anonymise(snapshot, 7);
    for (line, (text, own)) in hidden.system.kernel_log.iter().zip(lines) {
        let told = &line.text;
        assert!(!told.contains("acme") && told.contains(own), "{text}\n{told}");
    }
    let place = hidden.machine.nodes[0].path.clone().unwrap();
    let target = place.rsplit('/').next().unwrap();
    assert!(hidden.system.kernel_log[4].text.ends_with(target), "{place}");
}

/// What a field says it is, is that, however short.
#[test]
fn short_serial_numbers_and_hosts_go() {
    let mut snapshot = Snapshot::default();
    snapshot.system.host_name = Some("vm".into());
    let serials = ["12000", "fathom-4", "1", "2"];
    for (serial, name) in serials.iter().zip(["sda", "sdb", "sdc", "sdd"]) {
        let mut disk = Node::new(NodeKind::Disk, name);
        let (wwn, serial) = (Some(format!("t10.ATA disk {serial}")), Some((*serial).into()));
        disk.drive = Some(DriveFacts { wwn, serial: serial.clone(), ..DriveFacts::default() });
        let serial: String = serial.unwrap();
        disk.detail.get_or_insert_default().links =
            vec![format!("by-id/ata-disk_{serial}"), "by-path/pci-0000:00:1f.2-ata-1".into()];
        snapshot.machine.nodes.push(disk);
    }
    let mut mount = Node::new(NodeKind::Mount, "/srv/vm");
    mount.path = Some("/srv/vm".into());
    snapshot.machine.nodes.push(mount);
    snapshot.system.vm = vec![("dirty_ratio".into(), "20".into())];
    let hidden = anonymise(snapshot, 7);
    let nodes = &hidden.machine.nodes;
    let mut seen = BTreeSet::new();
    for (node, serial) in nodes.iter().zip(serials) {
        let other = node.drive.as_ref().unwrap().serial.clone().unwrap();
        assert_eq!(node.details().links[0], format!("by-id/ata-disk_{other}"));
        assert_eq!(node.details().links[1], "by-path/pci-0000:00:1f.2-ata-1");
        assert_ne!(other, serial);
        let wwn = node.drive.as_ref().unwrap().wwn.as_deref();
        assert_eq!(wwn, Some(format!("t10.ATA disk {other}").as_str()));
        assert!(seen.insert(other), "two drives have become one");
    }
    let host = hidden.system.host_name.unwrap();
    assert_ne!(host, "vm");
    assert_eq!(nodes[4].path.as_deref(), Some(format!("/srv/{host}").as_str()));
    assert_eq!(hidden.system.vm[0].0, "dirty_ratio");
}

/// The field says what it is, so an ordinary word goes too, and what is told of the drive elsewhere goes with it.
#[test]
fn serial_numbers_that_look_like_something_else_go_everywhere() {
    let serials = ["backup", "mysql data", "nvme", "12000", "LABMODEL", "000000"];
    let mut snapshot = Snapshot::default();
    for (serial, name) in serials.iter().zip(["sda", "sdb", "nvme0n1", "sdd", "sde", "sdf"]) {
        let mut disk = Node::new(NodeKind::Disk, name);
        let wwn = match *serial {
            "nvme" => "nvme.1b36-6e766d65-4c41424d4f44454c-00000001".to_owned(),
            serial => format!("t10.ATA LABMODEL {serial}"),
        };
        disk.drive = Some(DriveFacts {
            model: Some("LABMODEL".into()),
            serial: Some((*serial).into()),
            wwn: Some(wwn),
            ..DriveFacts::default()
        });
        let udev = serial.replace(' ', "_");
        disk.detail.get_or_insert_default().links = vec![
            format!("by-id/nvme-DISK_{udev}"),
            format!("disk-{udev}"),
            "by-path/pci-12000:00:1f.2-nvme-1".into(),
        ];
        snapshot.machine.nodes.push(disk);
    }
    snapshot.targets = vec!["/dev/disk/by-id/nvme-DISK_12000".into()];
    let line = |text: &str| LogLine { text: text.into(), ..LogLine::default() };
    snapshot.system.kernel_log = vec![
        line("scsi 0:0:0:0: serial number 12000, LUN mysql data: device offline"),
        line("nvme nvme0: I/O error, sector 120001"),
    ];
    let rule = r#"KERNEL=="nvme*", ATTRS{serial}=="nvme", ENV{ID_SERIAL_SHORT}=="12000", SYMLINK+="disk/by-id/nvme-DISK_backup", ATTR{queue/nr_requests}="12000""#;
    snapshot.system.configuration.udev_queue_rules = vec![("60-a.rules".into(), rule.into())];
    let hidden = anonymise(snapshot, 7);
    let nodes = &hidden.machine.nodes;
    let other: Vec<&str> =
        nodes.iter().map(|n| n.drive.as_ref().unwrap().serial.as_deref().unwrap()).collect();
    for ((node, other), given) in nodes.iter().zip(&other).zip(serials).take(5) {
        assert_ne!(*other, given);
        let links = &node.details().links;
        assert_eq!(links[0], format!("by-id/nvme-DISK_{other}"));
        let own = if given == "nvme" { "disk-nvme".into() } else { format!("disk-{other}") };
        assert_eq!(links[1], own, "{given}");
        assert_eq!(links[2], "by-path/pci-12000:00:1f.2-nvme-1");
        let wwn = node.drive.as_ref().unwrap().wwn.as_deref().unwrap();
        let is_shown = wwn.starts_with("nvme.") || wwn.ends_with(&format!(" {other}"));
        assert!(is_shown && !wwn.contains(given) || given == "nvme", "{given}: {wwn}");
        assert!(!wwn.contains("6e766d65") && wwn.starts_with(['t', 'n']), "{wwn}");
    }
    assert_eq!(other[5], "000000", "there is none");
    assert_eq!(hidden.targets[0], format!("/dev/disk/by-id/nvme-DISK_{}", other[3]));
    let log = &hidden.system.kernel_log;
    let told = format!("number {}, LUN {}: device offline", other[3], other[1]);
    assert!(log[0].text.ends_with(&told), "{}", log[0].text);
    assert_eq!(log[1].text, "nvme nvme0: I/O error, sector 120001");
    let rule = &hidden.system.configuration.udev_queue_rules[0].1;
    for part in [
        format!(r#"KERNEL=="nvme*", ATTRS{{serial}}=="{}""#, other[2]),
        format!(r#"ENV{{ID_SERIAL_SHORT}}=="{}""#, other[3]),
        format!(r#"by-id/nvme-DISK_{}""#, other[0]),
        r#"nr_requests}="12000""#.to_owned(),
    ] {
        assert!(rule.contains(&part), "{part} not in {rule}");
    }
}

#[test]
fn what_udev_knows_single_drives_by_goes() {
    let mut snapshot = Snapshot::default();
    let line = r#"KERNEL=="sd*", ENV{ID_SERIAL_SHORT}=="S5GXNX0T123456", ATTRS{serial}=="Z4D0SECRET", ENV{ID_FS_LABEL}!="payroll", ATTRS{model}=="ST4000NM0035", ENV{ID_PATH}=="pci-0000:00:1f.2-ata-1", ATTR{queue/scheduler}="none""#;
    snapshot.system.configuration.udev_queue_rules = vec![("60-a.rules".into(), line.into())];
    let hidden = anonymise(snapshot, 7).system.configuration.udev_queue_rules.remove(0).1;
    for secret in ["S5GXNX0T123456", "Z4D0SECRET", "payroll"] {
        assert!(!hidden.contains(secret), "{secret} in {hidden}");
    }
    for technical in [
        r#"KERNEL=="sd*", ENV{ID_SERIAL_SHORT}=="#,
        "ST4000NM0035",
        "pci-0000:00:1f.2-ata-1",
        r#"ATTR{queue/scheduler}="none""#,
    ] {
        assert!(hidden.contains(technical), "{technical} not in {hidden}");
    }
}

/// A file's own name goes, whatever the lines say; the words that everybody has stay, also where a line names a program in such a place.
#[test]
fn names_of_files_of_udev() {
    let mut snapshot = Snapshot::default();
    let line = r#"ATTR{queue/scheduler}="none", RUN+="/usr/lib/udev/rules.d/arwenq""#;
    let files = ["/etc/udev/rules.d/60-arwenq.rules", "/etc/udev/rules.d/60-block-scheduler.rules"];
    snapshot.system.configuration.udev_queue_rules =
        files.map(|file| (file.to_owned(), line.to_owned())).to_vec();
    let rules = anonymise(snapshot, 7).system.configuration.udev_queue_rules;
    let (own, usual) = (&rules[0].0, &rules[1].0);
    assert_eq!(usual, files[1]);
    assert!(own.starts_with("/etc/udev/rules.d/60-") && own.ends_with(".rules"), "{own}");
    assert!(!format!("{rules:?}").contains("arwenq"), "{rules:?}");
    let name = own.trim_start_matches("/etc/udev/rules.d/60-").trim_end_matches(".rules");
    assert!(rules[0].1.contains(name), "the same word by the same: {rules:?}");
}
