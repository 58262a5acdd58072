//! Recognisers against images made of bytes; those that tools make are tested where the tools are.

use super::*;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// A sparse image with some bytes in it.
struct TestImage {
    path: PathBuf,
    file: File,
    size: u64,
}

impl TestImage {
    fn new(size: u64) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fathom-probe-{}-{n}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(size).unwrap();
        Self { path, file, size }
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> &mut Self {
        self.file.seek(SeekFrom::Start(offset)).unwrap();
        self.file.write_all(bytes).unwrap();
        self
    }

    fn names(&self) -> Vec<&'static str> {
        signatures(&self.file, self.size).unwrap().into_iter().map(|s| s.name).collect()
    }
}

impl Drop for TestImage {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).unwrap();
    }
}

#[track_caller]
fn check(size: u64, parts: &[(u64, &[u8])], expected: &[&str]) {
    let mut image = TestImage::new(size);
    for (offset, bytes) in parts {
        image.put(*offset, bytes);
    }
    assert_eq!(image.names(), expected);
}

/// xorshift64*: enough to look like a filled disk.
fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The recognisers over bytes in memory, as if they were the whole device.
fn names_in(bytes: Vec<u8>) -> Vec<&'static str> {
    let image = Image { size_bytes: bytes.len() as u64, regions: vec![(0, bytes)] };
    find(&image).iter().map(|s| s.name).collect()
}

#[test]
fn blank_devices_of_all_sizes_have_none() {
    for size in [0, 1, 511, 512, 4096, 65536, 65537, MIB - 512, MIB, 5 * MIB, 64 * MIB + 512] {
        assert_eq!(TestImage::new(size).names(), [""; 0], "{size} bytes of zeros");
    }
    check(MIB, &[(0, &vec![0xff; MIB as usize])], &[]);
    check(MIB, &[(0, &vec![0xaa; MIB as usize])], &[]);
    check(MIB, &[(0, &vec![0x55; MIB as usize])], &[]);
}

#[test]
fn random_bytes_have_none() {
    // Small images put all recognisers of front and end to work at little cost.
    for seed in 1..=10_000 {
        let found = names_in(random_bytes(seed, 16 << 10));
        assert!(found.is_empty(), "seed {seed}: {found:?}");
    }
    for seed in 1..=60 {
        let found = names_in(random_bytes(seed, 2 << 20));
        assert!(found.is_empty(), "seed {seed}: {found:?}");
    }
}

#[test]
fn short_magics_alone_are_not_enough() {
    for (offset, magic) in [
        (510, &b"\x55\xaa"[..]),
        (1024 + 56, b"\x53\xef"),
        (1024 + 16, b"\x7f\x13"),
        (1024 + 24, b"\x5a\x4d"),
        (1024 + 6, b"\x34\x34"),
        (1024, b"BD"),
        (508, b"\xda\xbe"),
    ] {
        for seed in 1..50 {
            let mut bytes = random_bytes(seed, 8192);
            bytes[offset..offset + magic.len()].copy_from_slice(magic);
            bytes[0] = 0; // no jump, which together with 55 AA counts as a boot sector
            let found = names_in(bytes);
            assert!(found.is_empty(), "{magic:?}, seed {seed}: {found:?}");
        }
    }
}

#[test]
fn plain_magics_are_found_at_their_places() {
    check(MIB, &[(0, b"XFSB")], &["xfs"]);
    check(MIB, &[(0x10040, b"_BHRfS_M")], &["btrfs"]);
    check(MIB, &[(32769, b"CD001")], &["iso9660"]);
    check(MIB, &[(32769, b"BEA01"), (34817, b"NSR02")], &["udf", "udf"]);
    check(MIB, &[(32768, b"JFS1")], &["jfs"]);
    check(MIB, &[(65588, b"ReIsEr2Fs")], &["reiserfs"]);
    check(MIB, &[(4096, b"OCFSV2")], &["ocfs2"]);
    check(MIB, &[(65536, b"\x01\x16\x19\x70")], &["gfs2"]);
    check(MIB, &[(32, b"NXSB")], &["apfs"]);
    check(MIB, &[(32, b"ORCLDISK")], &["Oracle ASM"]);
    check(MIB, &[(0, b"bluestore block device\n")], &["Ceph BlueStore"]);
    check(MIB, &[(0, b"dmvdo001")], &["VDO"]);
    check(MIB, &[(516, b"!Stra0tis\x86\xff\x02^\x41rh")], &["Stratis"]);
    check(5 * MIB, &[(MIB, b"\x0d\xd0\x01\xc0")], &["VMFS member"]);
    check(5 * MIB, &[(2 * MIB, b"\x5e\xf1\xab\x2f")], &["VMFS"]);
    check(MIB, &[(3, b"-FVE-FS-")], &["BitLocker"]);
    check(MIB, &[(3, b"NTFS    ")], &["ntfs"]);
    check(MIB, &[(3, b"EXFAT   ")], &["exfat"]);
    check(MIB, &[(0, b"hsqs")], &["squashfs"]);
    check(MIB, &[(1024, b"\xe2\xe1\xf5\xe0")], &["erofs"]);
    check(MIB, &[(65536 + 1372, b"\x19\x01\x54\x19")], &["ufs"]);
    check(MIB, &[(8192 + 1372, b"\x00\x01\x19\x54")], &["ufs"]);
    check(5 * MIB, &[(4 * MIB, b"SKUL\xba\xbe")], &["LUKS2 (secondary header)"]);
    check(MIB, &[(MIB - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00")], &["Intel RAID (IMSM)"]);
    check(MIB, &[(MIB - 512, b"\xde\x11\xde\x11")], &["DDF RAID"]);
    check(64 * MIB, &[(64 * MIB - 257 * 512, b"\xde\x11\xde\x11")], &["DDF RAID"]);
    check(64 * MIB, &[(64 * MIB - 255 * 512, b"Promise Technology, Inc.")], &["Promise RAID"]);
    check(MIB, &[(MIB - 4096 + 60, b"\x83\x74\x02\x6b")], &["DRBD"]);
    check(MIB, &[(0, b"RDSK\0\0\0\x40")], &["Amiga partition table"]);
    check(MIB, &[(0, b"\xce\xfa\xad\x1b")], &["bfs"]);
    check(MIB, &[(8192, b"\x49\xe8\x95\xf9")], &["hpfs"]);
    check(MIB, &[(4096, b"SPB5")], &["NetWare NSS"]);
    check(MIB, &[(0, b"UBI#")], &["ubi"]);
    check(MIB, &[(0, b"\x31\x18\x10\x06")], &["ubifs"]);
}

#[test]
fn formats_of_old_machines() {
    for block in [0, 9, 15, 18] {
        check(MIB, &[(block * 1024 + 1016, b"\x20\x7e\x18\xfd")], &["sysv"]);
        check(MIB, &[(block * 1024 + 1016, b"\xfd\x18\x7e\x20")], &["sysv"]);
    }
    check(MIB, &[(16312, b"\x57\x29\x03\0\x01\0\0\0")], &["Ultrix disk label"]);
    check(MIB, &[(16312, b"\x57\x29\x03\0\x02\0\0\0")], &[]);
    let entry = |kind: &[u8; 3], size: u32| {
        [&[1][..], kind, &2_u32.to_be_bytes(), &size.to_be_bytes()].concat()
    };
    let all = ((MIB / 512) as u32).to_be_bytes();
    check(MIB, &[(0x1d2, &entry(b"GEM", 1000))], &["Atari partition table"]);
    check(MIB, &[(0x1d2, &entry(b"GEM", 1 << 20))], &[]);
    check(MIB, &[(0x1c6, &entry(b"ABC", 1000))], &[]);
    check(MIB, &[(0x1c2, &all), (0x1c6, &entry(b"ABC", 1000))], &["Atari partition table"]);
    let mut last = [0; 128];
    last[..8].copy_from_slice(b"JM\0\x01\0\0\x03\x04");
    check(MIB, &[(MIB - 512, &last)], &[]);
    let sum: u16 = last.chunks(2).map(|word| u16::from_le_bytes([word[0], word[1]])).sum();
    last[4..6].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    check(MIB, &[(MIB - 512, &last)], &["JMicron RAID"]);
}

#[test]
fn swap_of_every_page_size_and_suspended() {
    for page in [4096, 8192, 16384, 32768, 65536] {
        check(MIB, &[(page - 10, b"SWAPSPACE2")], &["swap"]);
        check(MIB, &[(page - 10, b"SWAP-SPACE")], &["swap"]);
        check(MIB, &[(page - 10, b"S1SUSPEND\0")], &["swap (suspended system)"]);
    }
}

#[test]
fn md_superblocks_at_their_four_places() {
    let magic = 0xa92b_4efc_u32.to_le_bytes();
    let v1 = [&magic[..], &1_u32.to_le_bytes(), &[0; 8], &[7; 16], b"host:10\0"].concat();
    check(4 * MIB, &[(0, &v1)], &["md 1.1"]);
    check(4 * MIB, &[(4096, &v1)], &["md 1.2"]);
    check(4 * MIB, &[(4 * MIB - 8192, &v1)], &["md 1.0"]);
    check(4 * MIB + 512, &[(4 * MIB - 8192, &v1)], &["md 1.0"]);
    let v0 = [&magic[..], &0_u32.to_le_bytes(), &90_u32.to_le_bytes()].concat();
    check(4 * MIB, &[(4 * MIB - 65536, &v0)], &["md 0.90"]);
    check(4 * MIB + 65536 - 512, &[(4 * MIB - 65536, &v0)], &["md 0.90"]);
    let swapped = [&0xa92b_4efc_u32.to_be_bytes()[..], &[0; 4]].concat();
    check(4 * MIB, &[(4 * MIB - 65536, &swapped)], &["md 0.90"]);
    let mut image = TestImage::new(4 * MIB);
    image.put(4096, &v1);
    let found = signatures(&image.file, image.size).unwrap();
    assert_eq!(found[0].uuid.as_deref(), Some("07070707-0707-0707-0707-070707070707"));
    assert_eq!(found[0].label.as_deref(), Some("host:10"));
}

#[test]
fn every_zfs_label_alone_is_enough() {
    let uberblock = 0x00ba_b10c_u64;
    let config = b"\x01\x01\0\0\0\0\0\0\0\0\0\x01";
    let size = 64 * MIB + 100 * 1024;
    for label in [0, 256 << 10, 64 * MIB - (512 << 10), 64 * MIB - (256 << 10)] {
        check(size, &[(label + (16 << 10), config)], &["ZFS member"]);
        for slot in [0, 1, 63, 127] {
            let at = label + (128 << 10) + slot * 1024;
            check(size, &[(at, &uberblock.to_le_bytes())], &["ZFS member"]);
            check(size, &[(at, &uberblock.to_be_bytes())], &["ZFS member"]);
        }
    }
}

#[test]
fn partition_tables() {
    let gpt = [&b"EFI PART"[..], &[0; 48], &[1; 16]].concat();
    check(MIB, &[(512, &gpt)], &["GPT"]);
    check(MIB, &[(4096, &gpt)], &["GPT"]);
    check(MIB, &[(MIB - 512, &gpt)], &["GPT (backup only)"]);
    check(MIB, &[(MIB - 4096, &gpt)], &["GPT (backup only)"]);
    check(MIB, &[(512, &gpt), (MIB - 512, &gpt)], &["GPT"]);
    check(MIB, &[(510, b"\x55\xaa")], &["MBR (no partitions)"]);
    let entry = [0x80, 1, 1, 0, 0x83, 9, 9, 9, 0, 8, 0, 0, 0, 8, 0, 0];
    check(MIB, &[(446, &entry), (510, b"\x55\xaa")], &["MBR"]);
    check(MIB, &[(462, &[0, 0, 2, 0, 0xee]), (510, b"\x55\xaa")], &["MBR (protective)"]);
    let odd = [&[0xeb, 0x3c, 0x90][..], &[0x11; 507], b"\x55\xaa"].concat();
    check(MIB, &[(0, &odd)], &["unknown boot sector"]);
    let bsd = 0x8256_4557_u32.to_le_bytes();
    check(MIB, &[(512, &bsd), (644, &bsd)], &["BSD disk label"]);
    check(MIB, &[(508, b"\xda\xbe"), (0, b"\xda\xbe")], &["Sun disk label"]);
}

#[test]
fn a_fat_boot_sector_is_no_partition_table() {
    let head = [&b"\xeb\x3c\x90mkfs.fat"[..], &[0, 2, 4, 4, 0, 2, 0, 2, 0, 0, 0xf8]].concat();
    check(MIB, &[(0, &head), (510, b"\x55\xaa")], &["fat"]);
    check(MIB, &[(0, &head), (54, b"FAT16   ")], &["fat"]);
    check(MIB, &[(82, b"FAT32   ")], &["fat"]);
}

#[test]
fn several_at_once_are_all_reported() {
    let parts: [(u64, &[u8]); 3] = [(0, b"XFSB"), (4086, b"SWAPSPACE2"), (0x10040, b"_BHRfS_M")];
    check(MIB, &parts, &["xfs", "swap", "btrfs"]);
}

#[test]
fn less_than_a_mebibyte_is_read() {
    for size in [MIB, 64 * MIB, 1 << 30, (1 << 40) + 512] {
        let image = TestImage::new(size);
        let read = Image::read(&image.file, size).unwrap();
        let bytes: usize = read.regions.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes <= 1 << 20, "{bytes} bytes of {size}");
    }
}

#[test]
fn a_device_that_cannot_be_read_is_an_error() {
    let image = TestImage::new(MIB);
    assert!(signatures(&image.file, 2 * MIB).is_err(), "shorter than said");
}

#[test]
fn partition_entries_of_both_tables() {
    let mut image = TestImage::new(MIB);
    let header = [
        &b"EFI PART"[..],
        &[0; 64],
        &2_u64.to_le_bytes(),
        &128_u32.to_le_bytes(),
        &128_u32.to_le_bytes(),
    ]
    .concat();
    let mut entry = [0x11; 32];
    entry[16..20].copy_from_slice(&[4, 3, 2, 1]);
    image.put(512, &header).put(1024 + 128, &entry);
    let second = table::partition_entry(&image.file, 2).unwrap().unwrap();
    assert_eq!(second.uuid, "01020304-1111-1111-1111-111111111111");
    assert_eq!(second.type_id.as_deref(), Some("11111111-1111-1111-1111-111111111111"));
    for number in [0, 1, 129, u32::MAX] {
        assert_eq!(table::partition_entry(&image.file, number).unwrap(), None);
    }
    let mut image = TestImage::new(MIB);
    image.put(440, &0xdead_beef_u32.to_le_bytes()).put(446 + 4, &[0x83]).put(510, b"\x55\xaa");
    let first = table::partition_entry(&image.file, 1).unwrap().unwrap();
    assert_eq!((first.uuid.as_str(), first.type_id.as_deref()), ("deadbeef-01", Some("0x83")));
    assert_eq!(table::partition_entry(&image.file, 2).unwrap(), None);
    let logical = table::partition_entry(&image.file, 5).unwrap().unwrap();
    assert_eq!((logical.uuid.as_str(), logical.type_id), ("deadbeef-05", None));
}
