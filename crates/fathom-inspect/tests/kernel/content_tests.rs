//! Superblocks that the real tools make on loop devices, against what the tools themselves say of them.

use fathom_base::units::format_size;
use fathom_inspect::content::{self, Allowance};
use fathom_model::stack::detail::{Content, FsSuperblock, PartitionTable};
use fathom_sys::fsinfo;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::capability::Capability::{FsOnLoop, LoopDevices, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{
    Content as Filled, FsKind, LoopDevice, LoopOptions, Mount, Trial, kernel_test,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;
const LVM: &str = "devices { use_devicesfile=0 obtain_device_list_from_udev=0 }";

pub fn trials() -> Vec<Trial> {
    let tool = |name| [LoopDevices, Tool(name)];
    vec![
        kernel_test("content_ext4", &[FsOnLoop(FsKind::Ext4), Tool("dumpe2fs")], ext4),
        kernel_test("content_ext_types", &tool("mke2fs"), ext_types),
        kernel_test("content_xfs", &[FsOnLoop(FsKind::Xfs), Tool("xfs_db")], xfs),
        kernel_test("xfs_stripe_by_mount", &[FsOnLoop(FsKind::Xfs)], xfs_stripe_by_mount),
        kernel_test("content_btrfs", &[FsOnLoop(FsKind::Btrfs), Tool("btrfs")], btrfs),
        kernel_test("content_f2fs", &tool("mkfs.f2fs"), f2fs),
        kernel_test("content_lvm", &tool("vgcreate"), lvm),
        kernel_test("content_luks", &tool("cryptsetup"), luks),
        kernel_test("content_bcache", &tool("make-bcache"), bcache),
        kernel_test("content_swap", &tool("mkswap"), swap),
        kernel_test("content_mbr", &tool("sfdisk"), mbr),
        kernel_test("content_gpt", &tool("sgdisk"), gpt),
    ]
}

fn read(device: &LoopDevice) -> (Content, Option<PartitionTable>) {
    let (content, table) = read_damaged(device);
    assert_eq!(content.damaged, [""; 0], "{content:?}");
    (content, table)
}

/// What is damaged is told with it.
fn read_damaged(device: &LoopDevice) -> (Content, Option<PartitionTable>) {
    let root = SysRoot::live();
    let dir = BlockDir::by_name(&root, &device.name()).unwrap();
    let look = content::read(&root, &dir, Allowance::default());
    assert_eq!(look.unread, []);
    (look.content.unwrap(), look.table)
}

fn filesystem(device: &LoopDevice) -> FsSuperblock {
    read(device).0.filesystem.unwrap()
}

fn run<'a>(tool: &str, args: &[&'a str], device: &'a Path) -> String {
    run_tool(tool, args.iter().map(Path::new).chain([device])).unwrap()
}

/// The rest of the line that begins with a name, without the blanks around.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
    line.unwrap_or_else(|| panic!("no '{name}' in:\n{text}")).trim()
}

fn number(text: &str, name: &str) -> u64 {
    let word = field(text, name).split_whitespace().next().unwrap();
    word.parse().unwrap_or_else(|_| panic!("{name} {word}"))
}

fn ext4() {
    let device = LoopDevice::new(256 * MIB).unwrap();
    let options = ["-b", "4096", "-E", "stride=16,stripe_width=48"];
    FsKind::Ext4.make(device.path(), &options).unwrap();
    let (found, said) = (filesystem(&device), run("dumpe2fs", &["-h"], device.path()));
    assert_eq!(found.fs_type, "ext4");
    assert_eq!(found.uuid.as_deref(), Some(field(&said, "Filesystem UUID:")));
    let block = number(&said, "Block size:");
    assert_eq!(found.block_bytes, Some(block));
    assert_eq!(found.size_bytes, Some(number(&said, "Block count:") * block));
    assert_eq!(found.stripe_unit_bytes, Some(number(&said, "RAID stride:") * block));
    assert_eq!(found.stripe_width_bytes, Some(number(&said, "RAID stripe width:") * block));
    assert_eq!((found.journal, found.errors, found.state), (Some(true), Some(0), None));
    assert_eq!(found.mounts, Some((0, -1)));
    // As advised: told while it is mounted.
    let mount = Mount::new("ext4", device.path(), "").unwrap();
    run("tune2fs", &["-E", "stride=128,stripe_width=384"], device.path());
    let found = filesystem(&device);
    assert_eq!(found.stripe_width_bytes, Some(384 * 4096), "{}", format_size(384 * 4096));
    assert_eq!(found.state.as_deref(), Some("needs recovery"), "it is mounted");
    drop(mount);
    assert_eq!(filesystem(&device).mounts, Some((1, -1)));
}

fn ext_types() {
    for kind in ["ext2", "ext3", "ext4"] {
        let device = LoopDevice::new(32 * MIB).unwrap();
        run("mke2fs", &["-q", "-F", "-b", "1024", "-t", kind], device.path());
        let found = filesystem(&device);
        assert_eq!((found.fs_type.as_str(), found.block_bytes), (kind, Some(1024)));
        assert_eq!((found.size_bytes, found.groups), (Some(32 * MIB), Some(4)));
    }
    let device = LoopDevice::new(32 * MIB).unwrap();
    run("mke2fs", &["-q", "-F", "-O", "journal_dev"], device.path());
    assert_eq!(filesystem(&device).fs_type, "jbd");
    // A filesystem that has it for a journal says so, one with a journal of its own does not.
    let is_elsewhere = |options: &[&str]| {
        let other = LoopDevice::new(32 * MIB).unwrap();
        let words = [&["-q", "-F", "-b", "4096", "-t", "ext4"], options].concat();
        run("mke2fs", &words, other.path());
        let file = fsinfo::open_for_questions(other.path()).unwrap();
        let found = fsinfo::ext_superblock(&file, fsinfo::EXT_DESCRIPTOR_BYTES_MAX).unwrap();
        (found.journal, found.journal_elsewhere)
    };
    run("mke2fs", &["-q", "-F", "-b", "4096", "-O", "journal_dev"], device.path());
    let journal = format!("device={}", device.path().display());
    assert_eq!(is_elsewhere(&["-J", &journal]), (true, true));
    assert_eq!(is_elsewhere(&[]), (true, false));
    assert_eq!(is_elsewhere(&["-O", "^has_journal"]), (false, false));
}

fn xfs() {
    for options in
        [&["-d", "su=64k,sw=4"][..], &["-s", "size=4096", "-l", "su=32k"], &["-m", "crc=0"]]
    {
        let device = LoopDevice::new(2048 * MIB).unwrap();
        FsKind::Xfs.make(device.path(), options).unwrap();
        let found = filesystem(&device);
        let db = |field: &str| -> u64 {
            let command = format!("p {field}");
            let said = run("xfs_db", &["-r", "-c", "sb 0", "-c", &command], device.path());
            said.rsplit(' ').next().unwrap().parse().unwrap()
        };
        let block = db("blocksize");
        assert_eq!(found.block_bytes, Some(block));
        assert_eq!(found.sector_bytes, Some(db("sectsize")));
        assert_eq!(found.size_bytes, Some(db("dblocks") * block));
        assert_eq!(found.groups, Some(db("agcount")));
        assert_eq!(found.group_blocks, Some(db("agblocks")));
        assert_eq!(found.stripe_unit_bytes, Some(db("unit") * block));
        assert_eq!(found.stripe_width_bytes, Some(db("width") * block));
        assert_eq!(
            found.log_unit_bytes,
            Some(db("logsunit")).map(|unit| if unit == 1 { 0 } else { unit })
        );
        let log_sector = db("logsectsize");
        assert_eq!(found.log_sector_bytes, Some(if log_sector == 0 { 512 } else { log_sector }));
        if options[0] == "-d" {
            assert_eq!(
                found.stripe_unit_bytes.zip(found.stripe_width_bytes),
                Some((65536, 262_144))
            );
        }
    }
}

/// What the advice on XFS rests on: a mount changes a stripe unit that is there, and cannot add one.
fn xfs_stripe_by_mount() {
    let device = LoopDevice::new(2048 * MIB).unwrap();
    FsKind::Xfs.make(device.path(), &["-d", "su=64k,sw=4"]).unwrap();
    drop(Mount::new("xfs", device.path(), "sunit=128,swidth=384").unwrap());
    let found = filesystem(&device);
    assert_eq!(found.stripe_unit_bytes.zip(found.stripe_width_bytes), Some((65536, 3 * 65536)));
    let plain = LoopDevice::new(2048 * MIB).unwrap();
    FsKind::Xfs.make(plain.path(), &[]).unwrap();
    assert_eq!(filesystem(&plain).stripe_unit_bytes, Some(0));
    assert!(Mount::new("xfs", plain.path(), "sunit=128,swidth=384").is_err());
}

fn btrfs() {
    let (first, second) =
        (LoopDevice::new(256 * MIB).unwrap(), LoopDevice::new(384 * MIB).unwrap());
    let devices = [first.path(), second.path()];
    run_tool("mkfs.btrfs", ["-q", "-f"].map(Path::new).into_iter().chain(devices)).unwrap();
    for device in [&first, &second] {
        let found = filesystem(device);
        let said = run("btrfs", &["inspect-internal", "dump-super"], device.path());
        assert_eq!(found.uuid.as_deref(), Some(field(&said, "fsid")));
        assert_eq!(found.sector_bytes, Some(number(&said, "sectorsize")));
        assert_eq!(found.size_bytes, Some(number(&said, "dev_item.total_bytes")));
    }
    assert_ne!(filesystem(&first).size_bytes, filesystem(&second).size_bytes);
}

fn f2fs() {
    let device = LoopDevice::new(128 * MIB).unwrap();
    run("mkfs.f2fs", &["-q", "-O", "extra_attr,sb_checksum"], device.path());
    let found = filesystem(&device);
    assert_eq!((found.fs_type.as_str(), found.block_bytes), ("f2fs", Some(4096)));
    assert_eq!(found.size_bytes, Some(128 * MIB));
    let uuid = run("blkid", &["-p", "-s", "UUID", "-o", "value"], device.path());
    assert_eq!(found.uuid.as_deref(), Some(uuid.as_str()));
}

/// A small metadata area, so that some changes of the group make its text go round.
fn lvm() {
    let device = LoopDevice::new(64 * MIB).unwrap();
    let config = ["--quiet", "--config", LVM];
    let with = |tool: &str, args: &[&str], device: Option<&Path>| {
        let all = config.iter().chain(args).map(Path::new).chain(device);
        run_tool(tool, all).unwrap()
    };
    // As advised for a stripe of 1.5 MiB: on a multiple of that and of 1 MiB.
    let other = LoopDevice::new(64 * MIB).unwrap();
    with("pvcreate", &["--dataalignment", "3072k"], Some(other.path()));
    let found = read(&other).0.lvm.unwrap();
    assert_eq!((found.group, found.extents_start_bytes), (None, Some(3 * MIB)));
    let small = ["--metadatasize", "36k", "--dataalignment", "4k"];
    with("pvcreate", &small, Some(device.path()));
    let group = format!("fathom_{}", std::process::id());
    with("vgcreate", &["--physicalextentsize", "1m", &group], Some(device.path()));
    for round in 0..24 {
        with("vgchange", &["--addtag", &format!("{round:_>100}"), &group], None);
        let found = read(&device).0.lvm.unwrap();
        assert_eq!(found.group.as_deref(), Some(group.as_str()), "after {round} changes");
    }
    let fields = "pe_start,vg_extent_size,pv_uuid,dev_size,vg_free_count,vg_seqno";
    let args = ["--noheadings", "--nosuffix", "--units", "b", "--separator", " ", "-o", fields];
    let said = with("pvs", &args, Some(device.path()));
    let said: Vec<&str> = said.split_whitespace().collect();
    let found = read(&device).0.lvm.unwrap();
    let bytes = |index: usize| Some(said[index].parse::<u64>().unwrap());
    assert_eq!(found.extents_start_bytes, bytes(0));
    assert_eq!(found.extent_bytes, bytes(1));
    assert_eq!(found.uuid.as_deref(), Some(said[2]));
    assert_eq!(found.device_size_bytes, bytes(3));
    assert_eq!(found.group_members, [said[2]]);
    let number = |index: usize| Some(said[index].parse::<u64>().unwrap());
    assert_eq!((found.free_extents, found.seqno), (number(4), number(5)));
    with("pvresize", &["--yes", "--setphysicalvolumesize", "40m"], Some(device.path()));
    let resized = read(&device).0.lvm.unwrap().device_size_bytes;
    assert!(resized.is_some_and(|bytes| bytes <= 40 * MIB), "{resized:?}");
    with("pvresize", &[], Some(device.path()));
    // pvresize leaves what lies before the extents out.
    let resized = read(&device).0.lvm.unwrap().device_size_bytes.unwrap()
        + found.extents_start_bytes.unwrap();
    assert!(Some(resized) >= bytes(3) && resized < 65 * MIB, "{resized}");
    with("pvchange", &["--allocatable", "n"], Some(device.path()));
    assert_eq!(read(&device).0.lvm.unwrap().free_extents, Some(0), "nothing for new volumes");
    with("vgremove", &["--force", "--yes", &group], None);
}

fn luks() {
    for (version, sector) in [("luks1", 512), ("luks2", 512), ("luks2", 4096)] {
        let device = LoopDevice::new(64 * MIB).unwrap();
        let key = device.backing().with_file_name("key");
        std::fs::write(&key, "a key for a test").unwrap();
        let key = format!("--key-file={}", key.display());
        let mut args = vec!["luksFormat", "--batch-mode", "--type", version, &key];
        args.extend(["--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000"]);
        let size = format!("--sector-size={sector}");
        // The data on a stripe of 1.5 MiB, in sectors of 512 bytes, as advised.
        args.extend(
            (version == "luks2").then_some([size.as_str(), "--offset=98304"]).into_iter().flatten(),
        );
        run("cryptsetup", &args, device.path());
        let found = read(&device).0.luks.unwrap();
        assert_eq!(found.uuid, Some(run("cryptsetup", &["luksUUID"], device.path())));
        assert_eq!(found.sector_bytes, Some(sector));
        assert_eq!(found.cipher.as_deref(), Some("aes-xts-plain64"));
        let said = run("cryptsetup", &["luksDump"], device.path());
        let offset = match version {
            "luks1" => number(&said, "Payload offset:") * 512,
            _ => number(&said, "offset:"),
        };
        assert_eq!(found.data_offset_bytes, Some(offset), "{version}");
        if version == "luks2" {
            // A byte behind the end of the JSON text, which cryptsetup leaves zero.
            let file = File::options().write(true).open(device.path()).unwrap();
            file.write_all_at(&[1], 16383).unwrap();
            file.sync_all().unwrap();
            let wrong = "LUKS2 header: its checksum is wrong, that of its second copy is right";
            assert_eq!(read_damaged(&device).0.damaged, [wrong]);
        }
    }
}

fn bcache() {
    let device = LoopDevice::new(64 * MIB).unwrap();
    run("make-bcache", &["-B", "--data-offset", "2048"], device.path());
    let found = read(&device).0.bcache.unwrap();
    assert_eq!((found.kind.as_str(), found.data_offset_bytes), ("backing", Some(MIB)));
    let device = LoopDevice::new(64 * MIB).unwrap();
    run("make-bcache", &["-C", "--bucket", "256k", "--block", "4k"], device.path());
    let found = read(&device).0.bcache.unwrap();
    assert_eq!((found.kind.as_str(), found.bucket_bytes), ("cache", Some(256 << 10)));
    assert_eq!(found.block_bytes, Some(4096));
    let file = std::fs::OpenOptions::new().write(true).open(device.path()).unwrap();
    // A letter of its label.
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 4096 + 80).unwrap();
    let (found, _) = read_damaged(&device);
    assert_eq!(found.bcache, None);
    assert_eq!(found.damaged, ["bcache superblock: its checksum is wrong"]);
}

fn swap() {
    let device = LoopDevice::new(16 * MIB).unwrap();
    run("mkswap", &[], device.path());
    let (found, table) = read(&device);
    assert_eq!((found.other.as_slice(), table), (["swap".to_owned()].as_slice(), None));
}

fn of_sectors(size_bytes: u64, sector: u32) -> LoopDevice {
    let options = LoopOptions { sector_size_bytes: Some(sector), ..LoopOptions::default() };
    LoopDevice::with(size_bytes, Filled::Sparse, &options).unwrap()
}

/// First sectors and lengths as sfdisk prints them.
fn printed(device: &LoopDevice) -> Vec<(u64, u64)> {
    let said = run("sfdisk", &["--dump"], device.path());
    let value = |line: &str, name: &str| -> Option<u64> {
        line.split_once(name)?.1.split(',').next()?.trim().parse().ok()
    };
    said.lines().filter_map(|line| Some((value(line, "start=")?, value(line, "size=")?))).collect()
}

fn found_entries(table: &PartitionTable) -> Vec<(u64, u64)> {
    table.entries.iter().map(|entry| (entry.start_sector, entry.sectors)).collect()
}

fn mbr() {
    for sector in [512, 4096] {
        let device = of_sectors(256 * MIB, sector);
        let script = device.backing().with_file_name("script");
        let lines = "label: dos\nsize=8MiB, type=83\ntype=5\nsize=4MiB, type=82\nsize=4MiB, type=83\nsize=16MiB, type=8e\n";
        std::fs::write(&script, lines).unwrap();
        let command =
            format!("sfdisk -q --no-reread {} < {}", device.path().display(), script.display());
        run_tool("sh", ["-c", &command]).unwrap();
        let table = read(&device).1.unwrap();
        assert_eq!((table.kind.as_str(), table.sector_bytes), ("dos", u64::from(sector)));
        assert_eq!(found_entries(&table), printed(&device));
        let kinds: Vec<&str> = table.entries.iter().map(|e| e.kind.as_str()).collect();
        assert_eq!(kinds, ["83", "05", "82", "83", "8e"]);
        let numbers: Vec<u64> = table.entries.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [1, 2, 5, 6, 7]);
    }
}

fn gpt() {
    for sector in [512u32, 4096] {
        let device = of_sectors(128 * MIB, sector);
        run("sgdisk", &["--new=1:0:+8M", "--change-name=1:data", "--new=7:0:+4M"], device.path());
        let table = read(&device).1.unwrap();
        let last = 128 * MIB / u64::from(sector) - 1;
        assert_eq!((table.kind.as_str(), table.sector_bytes), ("gpt", u64::from(sector)));
        assert_eq!(table.backup_sector, Some(last));
        assert_eq!(found_entries(&table), printed(&device));
        assert_eq!(table.entries[0].name.as_deref(), Some("data"));
        assert_eq!(table.entries[1].number, 7);
        assert_eq!(table.entries[0].kind, "0fc63daf-8483-4772-8e79-3d69d8477de4");
        // The disk grows; the advice moves the second copy.
        let file = std::fs::File::options().write(true).open(device.backing()).unwrap();
        file.set_len(256 * MIB).unwrap();
        device.reread_size().unwrap();
        assert_eq!(read(&device).1.unwrap().backup_sector, Some(last));
        run("sgdisk", &["--move-second-header"], device.path());
        let last = 256 * MIB / u64::from(sector) - 1;
        assert_eq!(read(&device).1.unwrap().backup_sector, Some(last));
    }
}
