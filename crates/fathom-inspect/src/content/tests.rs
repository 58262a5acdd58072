//! Parsers over bytes: headers that are made here by the published structures, and whatever else there may be.
//! Those that the real tools make are looked at in the kernel tests.

use super::bytes::{Block, READ_BYTES_MAX};
use super::checksum::{crc32, crc32_from, crc32c, crc32c_raw, md_sum};
use super::*;
use fathom_testkit::tree::Tree;
use proptest::prelude::*;
use std::sync::LazyLock;

const MIB: usize = 1 << 20;
const LVM_CRC: u32 = 0xf597_a6cf;

/// An image of zeros with bytes at places.
fn image(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (at, part) in parts {
        bytes[*at..at + part.len()].copy_from_slice(part);
    }
    bytes
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

fn content(bytes: &[u8]) -> Content {
    parse(bytes, 512, false).0
}

fn ext4() -> Vec<u8> {
    let mut sb = vec![0; 1024];
    put(&mut sb, 0x0, &64u32.to_le_bytes());
    put(&mut sb, 0x4, &262_144u32.to_le_bytes());
    put(&mut sb, 0x18, &2u32.to_le_bytes());
    put(&mut sb, 0x20, &32768u32.to_le_bytes());
    put(&mut sb, 0x28, &8192u32.to_le_bytes());
    put(&mut sb, 0x34, &[3, 0, 0xff, 0xff]);
    put(&mut sb, 0x38, &[0x53, 0xef, 1, 0]);
    put(&mut sb, 0x40, &1_700_000_000u32.to_le_bytes());
    put(&mut sb, 0x44, &86400u32.to_le_bytes());
    put(&mut sb, 0x4c, &1u32.to_le_bytes());
    put(&mut sb, 0x5c, &[4, 0, 0, 0, 0x46, 0, 0, 0, 0, 4, 0, 0]);
    put(&mut sb, 0x68, &[7; 16]);
    put(&mut sb, 0x164, &128u16.to_le_bytes());
    put(&mut sb, 0x170, &384u32.to_le_bytes());
    let sum = crc32c_raw(&sb[..0x3fc]);
    put(&mut sb, 0x3fc, &sum.to_le_bytes());
    image(4 * MIB, &[(1024, &sb)])
}

#[test]
fn ext4_and_its_contradictions() {
    let good = ext4();
    let found = content(&good).filesystem.expect("ext4");
    assert_eq!((found.fs_type.as_str(), found.block_bytes), ("ext4", Some(4096)));
    assert_eq!(found.stripe_unit_bytes.zip(found.stripe_width_bytes), Some((524_288, 1_572_864)));
    assert_eq!((found.size_bytes, found.groups), (Some(1 << 30), Some(8)));
    assert_eq!((found.state.as_deref(), found.mounts), (Some("needs recovery"), Some((3, -1))));
    assert_eq!(found.checked_at_unix_s.zip(found.check_interval_s), Some((1_700_000_000, 86400)));
    let mut flipped = good.clone();
    flipped[1024 + 0x100] ^= 1;
    assert_eq!(content(&flipped).damaged, ["ext superblock: its checksum is wrong"]);
    assert_eq!(content(&flipped).filesystem, None);
    let mut large = good;
    large[1024 + 0x18] = 9;
    assert_eq!(content(&large).damaged, ["ext superblock: its block size is 2^19 bytes"]);
}

fn xfs() -> Vec<u8> {
    let mut sb = vec![0; 4096];
    put(&mut sb, 0, b"XFSB");
    put(&mut sb, 4, &4096u32.to_be_bytes());
    put(&mut sb, 8, &262_144u64.to_be_bytes());
    put(&mut sb, 32, &[9; 16]);
    put(&mut sb, 84, &65536u32.to_be_bytes());
    put(&mut sb, 88, &4u32.to_be_bytes());
    put(&mut sb, 100, &[0xbc, 0xb5, 0x10, 0]);
    put(&mut sb, 120, &[12, 12]);
    put(&mut sb, 184, &[0, 0, 0, 16, 0, 0, 0, 64]);
    put(&mut sb, 194, &[0x10, 0, 0, 0, 0x80, 0]);
    let sum = crc32c(&sb);
    put(&mut sb, 224, &sum.to_le_bytes());
    image(MIB, &[(0, &sb)])
}

#[test]
fn xfs_in_all_its_units() {
    let good = xfs();
    let found = content(&good).filesystem.expect("xfs");
    assert_eq!(found.stripe_unit_bytes.zip(found.stripe_width_bytes), Some((65536, 262_144)));
    assert_eq!(
        (found.sector_bytes, found.groups, found.size_bytes),
        (Some(4096), Some(4), Some(1 << 30))
    );
    assert_eq!((found.log_unit_bytes, found.log_sector_bytes), (Some(32768), Some(4096)));
    for (at, byte, text) in [
        (107, 1, "its checksum is wrong"),
        (120, 13, "blocks of 4096 and sectors of 4096 bytes"),
        (88, 1, "262144 blocks in 16777220 groups of 65536"),
        (191, 65, "stripe unit 16 and width 65 do not fit"),
    ] {
        let mut bad = good.clone();
        bad[at] = byte;
        let damaged = content(&bad).damaged;
        assert_eq!(damaged, [format!("XFS superblock: {text}")]);
    }
}

fn btrfs() -> Vec<u8> {
    let mut sb = vec![0; 4096];
    put(&mut sb, 0x20, &[5; 16]);
    put(&mut sb, 0x30, &0x10000u64.to_le_bytes());
    put(&mut sb, 0x40, b"_BHRfS_M");
    put(&mut sb, 0x38, &(1u64 << 32).to_le_bytes());
    put(&mut sb, 0x48, &7u64.to_le_bytes());
    put(&mut sb, 0x70, &(2u64 << 30).to_le_bytes());
    put(&mut sb, 0x88, &3u64.to_le_bytes());
    put(&mut sb, 0xc9, &2u64.to_le_bytes());
    put(&mut sb, 0x90, &4096u32.to_le_bytes());
    put(&mut sb, 0x94, &16384u32.to_le_bytes());
    put(&mut sb, 0xd1, &(1u64 << 30).to_le_bytes());
    let sum = crc32c(&sb[0x20..]);
    put(&mut sb, 0, &sum.to_le_bytes());
    image(MIB, &[(0x10000, &sb)])
}

#[test]
fn btrfs_says_what_this_device_has() {
    let good = btrfs();
    let found = content(&good).filesystem.expect("btrfs");
    assert_eq!((found.fs_type.as_str(), found.size_bytes), ("btrfs", Some(1 << 30)));
    let numbers = (found.device_number, found.devices, found.generation, found.is_seed);
    assert_eq!(numbers, (Some(2), Some(3), Some(7), true));
    let mut bad = good;
    bad[0x10000 + 0x30] = 1;
    assert_eq!(content(&bad).damaged, ["btrfs superblock: says that it lies at byte 65537"]);
}

fn md_1(place: u64, at: usize, size: usize) -> Vec<u8> {
    let mut sb = vec![0; 4096];
    put(&mut sb, 0, &[0xfc, 0x4e, 0x2b, 0xa9, 1]);
    put(&mut sb, 16, &(0u8..16).collect::<Vec<u8>>());
    put(&mut sb, 32, b"host:data");
    put(&mut sb, 72, &[5, 0, 0, 0, 2]);
    put(&mut sb, 88, &[0, 4, 0, 0, 4]);
    put(&mut sb, 128, &2048u64.to_le_bytes());
    put(&mut sb, 136, &8192u64.to_le_bytes());
    put(&mut sb, 144, &place.to_le_bytes());
    put(&mut sb, 160, &1u32.to_le_bytes());
    put(&mut sb, 192, &(1_700_000_000u64 | 77 << 40).to_le_bytes());
    put(&mut sb, 200, &42u64.to_le_bytes());
    put(&mut sb, 220, &3u32.to_le_bytes());
    put(&mut sb, 256, &[0, 0, 3, 0, 0xff, 0xff]);
    let sum = md_sum(&sb[..256 + 6], u32::from_le_bytes);
    put(&mut sb, 216, &sum.to_le_bytes());
    image(size, &[(at, &sb)])
}

#[test]
fn md_superblocks_stand_where_they_say() {
    let found = content(&md_1(8, 4096, MIB)).md.expect("md 1.2");
    assert_eq!((found.version.as_str(), found.role.as_deref()), ("1.2", Some("3")));
    assert_eq!(found.array_uuid.as_deref(), Some("00010203:04050607:08090a0b:0c0d0e0f"));
    assert_eq!(
        (found.name.as_deref(), found.level, found.layout),
        (Some("host:data"), Some(5), Some(2))
    );
    assert_eq!((found.chunk_bytes, found.raid_disks), (Some(512 << 10), Some(4)));
    assert_eq!((found.data_offset_bytes, found.events), (Some(1 << 20), Some(42)));
    assert_eq!(found.updated_at_unix_s, Some(1_700_000_000));
    let end = MIB as u64 / 512 - 16;
    let at_end = content(&md_1(end, end as usize * 512, MIB)).md.expect("md 1.0");
    assert_eq!(at_end.version, "1.0");
    // That of a partition at the end of the disk, or of a copied disk, is not the disk's own.
    assert_eq!(content(&md_1(9, 4096, MIB)).md, None);
    let mut bad = md_1(8, 4096, MIB);
    bad[4096 + 200] ^= 1;
    assert_eq!(content(&bad).damaged, ["md 1.2 superblock: its checksum is wrong"]);
}

fn md_090(little: bool) -> Vec<u8> {
    let mut words = vec![0u32; 1024];
    let halves = if little { [7, 1] } else { [1, 7] };
    for (index, value) in [
        (0, 0xa92b_4efc),
        (2, 90),
        (5, 0x1234_5678),
        (7, 5),
        (8, 4096),
        (10, 3),
        (39, halves[0]),
        (40, halves[1]),
        (64, 2),
        (65, 65536),
        (995, 2),
        (996, 6),
    ] {
        words[index] = value;
    }
    let to_bytes = if little { u32::to_le_bytes } else { u32::to_be_bytes };
    let to_word = if little { u32::from_le_bytes } else { u32::from_be_bytes };
    words[38] = md_sum(&words.iter().copied().flat_map(to_bytes).collect::<Vec<u8>>(), to_word);
    let sb: Vec<u8> = words.iter().copied().flat_map(to_bytes).collect();
    image(MIB, &[(MIB - 65536, &sb)])
}

#[test]
fn md_090_in_both_byte_orders() {
    for little in [true, false] {
        let found = content(&md_090(little)).md.expect("md 0.90");
        assert_eq!((found.version.as_str(), found.role.as_deref()), ("0.90", Some("2")));
        assert_eq!(found.array_uuid.as_deref(), Some("12345678:00000000:00000000:00000000"));
        assert_eq!((found.chunk_bytes, found.events), (Some(65536), Some(1 << 32 | 7)));
    }
}

#[test]
fn firmware_raid_is_named() {
    let imsm = content(&image(MIB, &[(MIB - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00")]));
    assert_eq!(imsm.md.map(|md| md.version).as_deref(), Some("imsm"));
    assert_eq!(imsm.other, ["isw_raid_member"]);
    let ddf = content(&image(MIB, &[(MIB - 512, b"\xde\x11\xde\x11")]));
    assert_eq!(ddf.md.map(|md| md.version).as_deref(), Some("ddf"));
}

const VG: &str = r#"vg0 {
id = "aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa"
seqno = 3
extent_size = 8192 # 4 Megabytes
physical_volumes {
pv0 {
id = "bbbbbb-bbbb-bbbb-bbbb-bbbb-bbbb-bbbbbb"
device = "/dev/sda" # hint
status = ["ALLOCATABLE"]
dev_size = 2097152
pe_start = 3072
pe_count = 255
}
pv1 {
status = []
pe_count = 255
}
pv2 {
status = ["ALLOCATABLE"]
flags = ["MISSING"]
pe_count = 255
}
}
logical_volumes {
data {
id = "cccccc"
segment_count = 2
segment1 {
start_extent = 0
extent_count = 25
type = "striped"
stripe_count = 1
stripes = [
"pv0", 0
]
}
segment2 {
start_extent = 25
extent_count = 50
type = "striped"
stripe_count = 2
stripe_size = 128
stripes = ["pv0", 25, "pv1", 0]
}
}
pvmove0 {
status = ["READ", "WRITE", "PVMOVE", "LOCKED"]
segment1 {
start_extent = 0
extent_count = 7
type = "mirror"
mirror_count = 2
extents_moved = 0
mirrors = ["pv1", 25, "pv0", 50]
}
}
}
}
"#;

/// A physical volume whose text goes round at the end of its area.
fn lvm(wraps: bool) -> Vec<u8> {
    let text = format!("{VG}\0");
    let text = text.as_bytes();
    let (area, size) = (4096usize, 8192usize);
    let offset = if wraps { size - 100 } else { 512 };
    let mut head = vec![0; 512];
    put(&mut head, 4, b" LVM2 x[5A%r0N*>");
    put(&mut head, 20, &1u32.to_le_bytes());
    put(&mut head, 24, &(area as u64).to_le_bytes());
    put(&mut head, 32, &(size as u64).to_le_bytes());
    put(&mut head, 40, &(offset as u64).to_le_bytes());
    put(&mut head, 48, &(text.len() as u64).to_le_bytes());
    put(&mut head, 56, &crc32_from(LVM_CRC, text).to_le_bytes());
    let sum = crc32_from(LVM_CRC, &head[4..]);
    put(&mut head, 0, &sum.to_le_bytes());
    let mut label = vec![0; 512];
    put(&mut label, 0, b"LABELONE\x01\0\0\0\0\0\0\0");
    put(&mut label, 20, &[32, 0, 0, 0]);
    put(&mut label, 24, b"LVM2 001");
    put(&mut label, 32, b"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
    put(&mut label, 64, &(1u64 << 30).to_le_bytes());
    put(&mut label, 72, &(1u64 << 20).to_le_bytes());
    put(&mut label, 104, &(area as u64).to_le_bytes());
    put(&mut label, 112, &(size as u64).to_le_bytes());
    let sum = crc32_from(LVM_CRC, &label[20..]);
    put(&mut label, 16, &sum.to_le_bytes());
    let mut bytes = image(MIB, &[(512, &label), (area, &head)]);
    let first = text.len().min(size - offset);
    put(&mut bytes, area + offset, &text[..first]);
    put(&mut bytes, area + 512, &text[first..]);
    bytes
}

#[test]
fn lvm_text_goes_round() {
    for wraps in [false, true] {
        let content = content(&lvm(wraps));
        let found = content.lvm.expect("a physical volume");
        assert_eq!(content.damaged, [""; 0]);
        assert_eq!((found.group.as_deref(), found.extent_bytes), (Some("vg0"), Some(4 << 20)));
        assert_eq!(found.extents_start_bytes, Some(3072 * 512), "of the text, not of the label");
        assert_eq!(found.device_size_bytes, Some(1 << 30), "pvresize writes it there alone");
        assert_eq!(found.group_members, ["bbbbbb-bbbb-bbbb-bbbb-bbbb-bbbb-bbbbbb"]);
        // 255 of pv0 without 25, a half of 50 and the copy of 7; pv1 gets no new ones, pv2 has to come back first.
        assert_eq!((found.seqno, found.free_extents), (Some(3), Some(198)));
        let kinds: Vec<(&str, Option<u64>)> =
            found.volumes[0].segments.iter().map(|s| (s.kind.as_str(), s.stripe_bytes)).collect();
        assert_eq!(kinds, [("linear", None), ("striped", Some(65536))]);
    }
    let mut bad = lvm(true);
    bad[4096 + 512] ^= 1;
    let content = content(&bad);
    let found = content.lvm.expect("the label is whole");
    assert_eq!((found.group, found.extents_start_bytes), (None, Some(1 << 20)));
    assert_eq!(content.damaged, ["LVM metadata area at byte 4096: checksum of the text is wrong"]);
}

fn luks2(json: &str) -> Vec<u8> {
    let mut head = vec![0; 4096];
    put(&mut head, 0, b"LUKS\xba\xbe\0\x02");
    put(&mut head, 8, &16384u64.to_be_bytes());
    put(&mut head, 72, b"sha256");
    put(&mut head, 168, b"11111111-2222-3333-4444-555555555555");
    let mut first = image(16384, &[(0, &head), (4096, json.as_bytes())]);
    let mut second = first.clone();
    put(&mut second, 0, b"SKUL");
    put(&mut second, 256, &16384u64.to_be_bytes());
    for copy in [&mut first, &mut second] {
        let sum = sha256::sha256(copy);
        put(copy, 448, &sum);
    }
    image(MIB, &[(0, &first), (16384, &second)])
}

fn luks1() -> Vec<u8> {
    let parts: [(usize, &[u8]); 3] =
        [(0, b"LUKS\xba\xbe\0\x01aes"), (40, b"xts-plain64"), (104, &4096u32.to_be_bytes())];
    image(MIB, &parts)
}

fn f2fs() -> Vec<u8> {
    let mut sb = vec![0; 3072];
    put(&mut sb, 0, &0xf2f5_2010u32.to_le_bytes());
    put(&mut sb, 8, &[9, 0, 0, 0, 3, 0, 0, 0, 12, 0, 0, 0]);
    put(&mut sb, 32, &3068u32.to_le_bytes());
    put(&mut sb, 36, &4096u64.to_le_bytes());
    let mut all = image(MIB, &[(1024, &sb), (5120, &sb)]);
    seal(&mut all);
    all
}

fn bcache() -> Vec<u8> {
    let magic = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
    let parts: [(usize, &[u8]); 4] = [(8, &[8]), (16, &[4]), (24, magic), (184, &[16])];
    let mut all = image(MIB, &[(4096, &image(4096, &parts))]);
    seal(&mut all);
    all
}

/// Puts right checksums over all headers that are there, as far as their lengths allow.
fn seal(bytes: &mut [u8]) {
    let u16_at = |bytes: &[u8], at: usize| usize::from(bytes[at]) | usize::from(bytes[at + 1]) << 8;
    if bytes.len() < 80 << 10 {
        return;
    }
    if bytes[1080..1082] == [0x53, 0xef] {
        let sum = crc32c_raw(&bytes[1024..1024 + 0x3fc]);
        put(bytes, 1024 + 0x3fc, &sum.to_le_bytes());
    }
    let sector = usize::from(bytes[102]) << 8 | usize::from(bytes[103]);
    if bytes.starts_with(b"XFSB") && sector >= 228 {
        put(bytes, 224, &[0; 4]);
        let sum = crc32c(&bytes[..sector]);
        put(bytes, 224, &sum.to_le_bytes());
    }
    if bytes[0x10040..].starts_with(b"_BHRfS_M") {
        let sum = crc32c(&bytes[0x10020..0x11000]);
        put(bytes, 0x10000, &sum.to_le_bytes());
    }
    if bytes[1024..].starts_with(&0xf2f5_2010u32.to_le_bytes()) {
        for at in [1024, 5120] {
            let sum = crc32_from(0xf2f5_2010, &bytes[at..at + 3068]);
            put(bytes, at + 3068, &sum.to_le_bytes());
        }
    }
    if bytes[4096 + 24..].starts_with(b"\xc6\x85\x73\xf6") {
        let end = (208 + u16_at(bytes, 4096 + 206) * 8).min(4096);
        let sum = checksum::crc64(&bytes[4096 + 8..4096 + end]);
        put(bytes, 4096, &sum.to_le_bytes());
    }
    if bytes[4096..].starts_with(&0xa92b_4efcu32.to_le_bytes()) {
        put(bytes, 4096 + 216, &[0; 4]);
        let end = (256 + 2 * u16_at(bytes, 4096 + 220)).min(4096);
        let sum = md_sum(&bytes[4096..4096 + end], u32::from_le_bytes);
        put(bytes, 4096 + 216, &sum.to_le_bytes());
    }
    if bytes.starts_with(b"LUKS\xba\xbe\0\x02") && bytes[8..16] == 16384u64.to_be_bytes() {
        put(bytes, 448, &[0; 64]);
        let sum = sha256::sha256(&bytes[..16384]);
        put(bytes, 448, &sum);
    }
}

#[test]
fn luks_of_both_versions() {
    let json = r#"{"segments":{"0":{"type":"crypt","offset":"16777216","size":"dynamic",
        "encryption":"aes-xts-plain64","sector_size":4096}},"config":{"flags":["allow-discards"]}}"#;
    let found = content(&luks2(json)).luks.expect("LUKS2");
    assert_eq!((found.version, found.sector_bytes), (2, Some(4096)));
    assert_eq!(content(&luks2(json)).other, [""; 0], "its second header says no more");
    assert_eq!(found.data_offset_bytes, Some(16 << 20));
    assert_eq!(
        (found.cipher.as_deref(), found.flags),
        (Some("aes-xts-plain64"), vec!["allow-discards".to_owned()])
    );
    assert_eq!(content(&luks2("{")).damaged, ["LUKS2 header: its JSON text is damaged"]);
    assert_eq!(content(&luks2("[7]")).luks.expect("LUKS2").cipher, None);
    let mut spoilt = luks2(json);
    spoilt[5000] ^= 1;
    let wrong = "LUKS2 header: its checksum is wrong";
    assert_eq!(content(&spoilt).damaged, [format!("{wrong}, that of its second copy is right")]);
    spoilt[16384 + 5000] ^= 1;
    assert_eq!((content(&spoilt).damaged, content(&spoilt).luks), (vec![wrong.to_owned()], None));
    put(&mut spoilt, 72, b"sha512");
    assert_eq!(content(&spoilt).damaged, [""; 0], "not one that is computed here");
    let found = content(&luks1()).luks.expect("LUKS1");
    assert_eq!((found.cipher.as_deref(), found.sector_bytes), (Some("aes-xts-plain64"), Some(512)));
    assert_eq!(found.data_offset_bytes, Some(2 << 20));
}

/// A boot record with entries of type, first sector and sectors.
fn record(entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut sector = vec![0; 512];
    for (i, (kind, start, sectors)) in entries.iter().enumerate() {
        sector[446 + 16 * i + 4] = *kind;
        put(&mut sector, 446 + 16 * i + 8, &start.to_le_bytes());
        put(&mut sector, 446 + 16 * i + 12, &sectors.to_le_bytes());
    }
    put(&mut sector, 510, &[0x55, 0xaa]);
    sector
}

#[test]
fn logical_partitions_are_followed() {
    for sector in [512usize, 4096] {
        let mut bytes = image(2 * MIB, &[(0, &record(&[(0x83, 8, 8), (0x5, 16, 400)]))]);
        put(&mut bytes, 16 * sector, &record(&[(0x83, 8, 16), (0x5, 100, 50)]));
        put(&mut bytes, 116 * sector, &record(&[(0x82, 8, 30)]));
        let table = parse(bytes.as_slice(), sector as u64, false).1.expect("a table");
        let entries: Vec<(u64, u64, &str)> =
            table.entries.iter().map(|e| (e.number, e.start_sector, e.kind.as_str())).collect();
        assert_eq!(entries, [(1, 8, "83"), (2, 16, "05"), (5, 24, "83"), (6, 124, "82")]);
        // A record that leads back to an earlier one.
        put(&mut bytes, 116 * sector, &record(&[(0x82, 8, 30), (0x5, 0, 50)]));
        put(&mut bytes, 16 * sector, &record(&[(0x83, 8, 16), (0x5, 100, 50)]));
        assert_eq!(
            parse(bytes.as_slice(), sector as u64, false).1.map(|t| t.entries.len()),
            Some(4)
        );
        assert_eq!(parse(bytes.as_slice(), sector as u64, true).1, None, "of a partition none");
    }
}

fn gpt(sector: usize, sectors: u64) -> Vec<u8> {
    let mut entries = vec![0; 16384];
    put(&mut entries, 0, &[1; 32]);
    put(&mut entries, 32, &[40, 0, 0, 0, 0, 0, 0, 0, 47]);
    put(&mut entries, 56, &[b'd', 0, b'b', 0]);
    let header = |own: u64, other: u64, at: u64| {
        let mut header = vec![0; 512];
        put(&mut header, 0, b"EFI PART\0\0\x01\0\x5c");
        put(&mut header, 24, &own.to_le_bytes());
        put(&mut header, 32, &other.to_le_bytes());
        put(&mut header, 40, &34u64.to_le_bytes());
        put(&mut header, 48, &(sectors - 34).to_le_bytes());
        put(&mut header, 72, &at.to_le_bytes());
        put(&mut header, 80, &[128, 0, 0, 0, 128]);
        put(&mut header, 88, &crc32(&entries).to_le_bytes());
        let sum = crc32(&header[..92]);
        put(&mut header, 16, &sum.to_le_bytes());
        header
    };
    let (last, table) = (sectors - 1, 16384 / sector as u64);
    let mut bytes = image(sectors as usize * sector, &[(0, &record(&[(0xee, 1, u32::MAX)]))]);
    put(&mut bytes, sector, &header(1, last, 2));
    put(&mut bytes, 2 * sector, &entries);
    put(&mut bytes, last as usize * sector, &header(last, 1, last - table));
    put(&mut bytes, (last - table) as usize * sector, &entries);
    bytes
}

#[test]
fn both_copies_of_a_gpt() {
    for sector in [512, 4096] {
        let good = gpt(sector, 1024);
        let (content, table) = parse(good.as_slice(), 512, false);
        let table = table.expect("a table");
        assert_eq!(content.damaged, [""; 0]);
        assert_eq!((table.kind.as_str(), table.sector_bytes), ("gpt", sector as u64));
        assert_eq!((table.backup_sector, table.usable_sectors), (Some(1023), Some((34, 990))));
        assert_eq!(table.entries.len(), 1);
        assert_eq!((table.entries[0].start_sector, table.entries[0].sectors), (40, 8));
        assert_eq!(table.entries[0].name.as_deref(), Some("db"));
        // A disk that grew: the second copy is not at the end, but whole.
        let grown = [good.as_slice(), vec![0; MIB].as_slice()].concat();
        let (content, table) = parse(grown.as_slice(), 512, false);
        assert_eq!(content.damaged, [""; 0]);
        assert_eq!(table.expect("a table").backup_sector, Some(1023));
        let second = "GPT, second copy in sector 1023: there is none";
        for (at, text) in [
            (sector, "GPT, first copy: there is none"),
            (sector + 40, "GPT, first copy: the checksum of its header is wrong"),
            (2 * sector, "GPT, first copy: the checksum of its entries is wrong"),
            (1023 * sector, second),
        ] {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            let (content, table) = parse(bad.as_slice(), sector as u64, false);
            assert_eq!(content.damaged, [text]);
            assert_eq!(table.expect("the other copy").entries.len(), 1);
        }
        let (content, table) = parse(&good[..sector], 512, false);
        assert_eq!((content.damaged.len(), table), (1, None), "{content:?}");
    }
}

#[test]
fn a_device_of_a_recorded_tree() {
    let tree = Tree::new();
    let attributes = [("size", "8192"), ("queue/logical_block_size", "512")];
    tree.device("virtual/block/vda", "254:0", &attributes);
    tree.device("virtual/block/vdb", "254:16", &attributes);
    tree.device("virtual/block/dm-0", "253:0", &[("size", "8192"), ("dm/suspended", "1")]);
    tree.put("content/vda.img", ext4());
    let root = tree.root();
    let device = |name| BlockDir::by_name(&root, name).expect("a device");
    let read = |name| read(&root, &device(name), Allowance::default());
    let Look { content, table, unread, read_bytes } = read("vda");
    assert!((1..READ_BYTES_MAX).contains(&read_bytes), "{read_bytes}");
    assert_eq!(content.and_then(|c| c.filesystem).map(|fs| fs.fs_type).as_deref(), Some("ext4"));
    assert_eq!((table, unread), (None, Vec::new()));
    assert_eq!(read("vdb"), Look::default());
    tree.put("content/dm-0.img", ext4());
    let Look { content, unread, .. } = read("dm-0");
    assert_eq!((content, unread[0].why.as_str()), (None, "suspended: not touched"));
    assert_eq!(unread[0].what, "superblocks of /dev/dm-0");
}

/// What is read in single pages is found wherever it may be, on partitions, too, and behind a boot sector of something older.
#[test]
fn rare_formats_are_found_in_single_pages() {
    let front: [(&str, usize, &[u8]); 17] = [
        ("reiserfs", 8192 + 52, b"ReIsErFs"),
        ("ocfs2", 8192, b"OCFSV2"),
        ("hpfs", 8192, b"\x49\xe8\x95\xf9"),
        ("ufs", 8192 + 1372, b"\x54\x19\x01\x00"),
        ("sysv", 15 * 1024 + 1016, b"\x20\x7e\x18\xfd"),
        ("sysv", 18 * 1024 + 1016, b"\x20\x7e\x18\xfd"),
        ("swap", 16384 - 10, b"SWAPSPACE2"),
        ("swap", 32768 - 10, b"SWAPSPACE2"),
        ("swap", 65536 - 10, b"SWAPSPACE2"),
        ("jfs", 32768, b"JFS1"),
        ("iso9660", 32769, b"CD001"),
        ("udf", 32769 + 4096, b"NSR03"),
        ("gfs2", 65536, b"\x01\x16\x19\x70"),
        ("ufs", 262_144 + 1372, b"\x54\x19\x01\x00"),
        ("VMFS member", 1 << 20, b"\x0d\xd0\x01\xc0"),
        ("VMFS", 2 << 20, b"\x5e\xf1\xab\x2f"),
        ("zfs_member", 16384, b"\x01\x01\0\0\0\0\0\0\0\0\0\x01"),
    ];
    for (name, at, mark) in front {
        let bytes = image(4 * MIB, &[(at, mark), (510, b"\x55\xaa")]);
        for is_partition in [true, false] {
            let (found, _) = parse(bytes.as_slice(), 512, is_partition);
            assert_eq!(found.other, [name], "{at} {is_partition}");
        }
    }
    // Controllers make arrays of whole disks.
    let size = 4 * MIB + 512;
    for (name, from_end, mark) in [
        ("Promise RAID", 63 * 512, &b"Promise Technology, Inc."[..]),
        ("Promise RAID", 256 * 512, b"Promise Technology, Inc."),
        ("ddf_raid_member", 257 * 512, b"\xde\x11\xde\x11"),
        ("isw_raid_member", 1024, b"Intel Raid ISM Cfg Sig. "),
    ] {
        let bytes = image(size, &[(size - from_end, mark)]);
        let (found, _) = parse(bytes.as_slice(), 512, false);
        assert!(found.other.contains(&name.to_owned()), "{name}: {found:?}");
    }
    // An external log of XFS shows by its records only, where nothing else is.
    let mut record = [0; 320];
    put(&mut record, 0, b"\xfe\xed\xba\xbe\0\0\0\x01\0\0\0\x02\0\0\x02\0");
    let bytes = image(4 * MIB, &[(45 * 512, &record)]);
    let (found, _) = parse(bytes.as_slice(), 512, true);
    assert_eq!(found.other, ["xfs external log"]);
}

/// Where something usual is, a partition costs few pages; one of which not all may be read says so.
#[test]
fn a_partition_costs_few_pages() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let mut bytes = vec![0; 64 * MIB];
    put(&mut bytes, 0, &ext4()[..4096]);
    std::fs::write(&path, &bytes).expect("written");
    let look = |allowance| {
        let file = File::open(&path).expect("there");
        let device = Device::new(file, bytes.len() as u64, allowance);
        let name = parse(&device, 512, true).0.filesystem.map(|fs| fs.fs_type);
        (name.as_deref() == Some("ext4"), device.read_bytes(), device.is_short())
    };
    assert_eq!(look(Allowance::default()), (true, 7 * 4096, false));
    assert_eq!(look(Allowance::of(9 << 10)), (true, 2 * 4096, true));
    assert_eq!(look(Allowance::of(100)), (false, 0, true));
}

/// Everything at once on a disk of 8 MiB: what is read stays far below the limit.
#[test]
fn little_is_read() {
    let mut bytes = gpt(512, 16 << 10);
    put(&mut bytes, 1024 + 16384, &ext4()[1024..2048]);
    put(&mut bytes, 4096, &md_1(8, 4096, MIB)[4096..8192]);
    put(&mut bytes, 0x10000, &btrfs()[0x10000..0x11000]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    std::fs::write(&path, &bytes).expect("written");
    let file = File::open(path).expect("there");
    let device = Device::new(file, bytes.len() as u64, Allowance::default());
    let found = parse(&device, 512, false);
    assert_eq!(found, parse(bytes.as_slice(), 512, false), "by pages as from memory");
    assert!(found.0.md.is_some() && found.0.filesystem.is_some());
    assert!(device.read_bytes() <= READ_BYTES_MAX / 3, "{}", device.read_bytes());
}

/// Everything that is known to be accepted, as seeds.
static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let json = r#"{"segments":{"0":{"offset":"1","sector_size":512}},"config":{"flags":[]}}"#;
    let ebr =
        image(MIB, &[(0, &record(&[(5, 16, 99)])), (16 * 512, &record(&[(1, 1, 1), (5, 1, 1)]))]);
    let mut all = vec![ext4(), xfs(), btrfs(), md_1(8, 4096, MIB), md_1(2032, 2032 * 512, MIB)];
    all.extend([lvm(true), lvm(false), luks2(json), gpt(512, 1024), gpt(4096, 256), ebr]);
    all.extend([luks1(), md_090(true), md_090(false), f2fs(), bcache()]);
    for seed in &mut all {
        seed.truncate(MIB);
    }
    all
});

/// Each seed is taken as what it is, and those with checksums still are when they were put over it again.
#[test]
fn the_seeds_are_good() {
    for (index, seed) in SEEDS.iter().enumerate() {
        let mut sealed = seed.clone();
        seal(&mut sealed);
        let (found, table) = parse(seed.as_slice(), 512, false);
        assert_eq!(parse(sealed.as_slice(), 512, false), (found.clone(), table.clone()), "{index}");
        let (found_large, table_large) = parse(seed.as_slice(), 4096, false);
        assert!(found != Content::default() || table.is_some() || table_large.is_some(), "{index}");
        assert!(found.damaged.is_empty() || found_large.damaged.is_empty(), "{index}: {found:?}");
    }
}

/// Bytes that break arithmetic.
fn edge() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(0xff), Just(0x7f), Just(0x80), Just(1), any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// Headers with changed bytes: near their fields, so that magic numbers mostly stay.
    #[test]
    fn changed_headers_are_taken_or_refused(
        which in 0..SEEDS.len(),
        changes in prop::collection::vec((0..1usize << 20, 0..3u8, edge()), 0..24),
        cut in prop_oneof![3 => Just(MIB), 1 => 0..MIB],
        is_sealed in any::<bool>(),
    ) {
        let mut bytes = SEEDS[which].clone();
        for (at, near, value) in changes {
            // Most changes go where structures are.
            let at = match near { 0 => at % 2048, 1 => at % 16384, _ => at };
            let first = match which {
                2 if near < 2 => 0x10000,
                // Half of the changes to superblocks of 4 KiB hit them.
                3 | 15 if near == 0 => 4096,
                12 | 13 if near < 2 => MIB - 65536,
                _ => 0,
            };
            let at = first + at;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if is_sealed {
            // Behind a wrong checksum nothing else would be looked at.
            seal(&mut bytes);
        }
        bytes.truncate(cut);
        let started = std::time::Instant::now();
        for sector_bytes in [512, 4096] {
            let _ = parse(bytes.as_slice(), sector_bytes, false);
        }
        prop_assert!(started.elapsed().as_secs() < 5);
    }

    /// Parsers without the recognisers before them: any bytes behind their magic numbers, with right checksums or not.
    #[test]
    fn any_bytes_behind_the_magic_numbers(
        tail in prop::collection::vec(edge(), 0..4096),
        size in prop_oneof![Just(0usize), Just(511), Just(4096), Just(65536), Just(131_072), Just(200_000)],
    ) {
        let magics: [(usize, &[u8]); 9] = [
            (0, b"XFSB"), (0, b"LUKS\xba\xbe\0\x02"), (512, b"LABELONE"), (512, b"EFI PART"),
            (1024, b"\x10\x20\xf5\xf2"), (4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"), (65536, b"\xfc\x4e\x2b\xa9\0\0\0\0"),
            (1080, b"\x53\xef"), (0x10040, b"_BHRfS_M"),
        ];
        for (at, magic) in magics {
            let mut bytes = vec![0; size];
            let start = at.saturating_sub(32).min(size);
            let end = (start + tail.len()).min(size);
            bytes[start..end].copy_from_slice(&tail[..end - start]);
            if at + magic.len() <= size {
                put(&mut bytes, at, magic);
            }
            let mut damaged = Vec::new();
            let source = bytes.as_slice();
            let _ = (filesystems::ext(source), filesystems::xfs(source), filesystems::btrfs(source));
            let _ = (filesystems::f2fs(source), md::md(source), luks::luks(source), bcache::bcache(source));
            let _ = lvm::lvm(source, &mut damaged);
            for has_mbr in [true, false] {
                let _ = table::table(source, 512, has_mbr, &mut damaged);
            }
        }
    }

    #[test]
    fn blocks_of_any_length(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0..60usize, len in 0..60usize) {
        let block = Block(bytes.clone());
        prop_assert!(block.bytes(at, len).len() <= len);
        prop_assert_eq!(block.u8(at), bytes.get(at).copied().unwrap_or(0));
        let _ = (block.text(at, len), block.uuid(at), block.be64(at));
    }
}
