//! The formats that a fixed string of at least four bytes at a fixed place gives away.

use super::SignatureKind::{
    self, Cache, Encrypted, Filesystem, PartitionTable, Raid, Swap, Volume,
};
use super::{Image, Signature};

/// A fixed string at a fixed place, and where the identifier and label are, counted from the start of the device.
struct Magic {
    kind: SignatureKind,
    name: &'static str,
    offset: u64,
    bytes: &'static [u8],
    uuid_at: Option<u64>,
    label_at: Option<(u64, usize)>,
}

const fn plain(
    kind: SignatureKind,
    name: &'static str,
    offset: u64,
    bytes: &'static [u8],
) -> Magic {
    Magic { kind, name, offset, bytes, uuid_at: None, label_at: None }
}

const fn named(magic: Magic, uuid_at: Option<u64>, label_at: Option<(u64, usize)>) -> Magic {
    Magic { uuid_at, label_at, ..magic }
}

const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const IMSM: &[u8] = b"Intel Raid ISM Cfg Sig. ";
const PROMISE: &[u8] = b"Promise Technology, Inc.";
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";

#[rustfmt::skip]
const AT_FRONT: &[Magic] = &[
    named(plain(Filesystem, "xfs", 0, b"XFSB"), Some(32), Some((108, 12))),
    named(plain(Filesystem, "btrfs", 0x10040, b"_BHRfS_M"), Some(0x10020), Some((0x1012b, 256))),
    named(plain(Filesystem, "f2fs", 1024, b"\x10\x20\xf5\xf2"), Some(1024 + 108), None),
    named(plain(Filesystem, "f2fs", 5120, b"\x10\x20\xf5\xf2"), Some(5120 + 108), None),
    named(plain(Filesystem, "bcachefs", 4096 + 24, BCACHEFS), Some(4096 + 56), Some((4096 + 72, 32))),
    named(plain(Filesystem, "erofs", 1024, b"\xe2\xe1\xf5\xe0"), Some(1024 + 48), Some((1024 + 64, 16))),
    named(plain(Filesystem, "jfs", 32768, b"JFS1"), Some(32768 + 136), Some((32768 + 152, 16))),
    named(plain(Filesystem, "iso9660", 32769, b"CD001"), None, Some((32768 + 40, 32))),
    plain(Filesystem, "High Sierra", 32777, b"CDROM"),
    plain(Filesystem, "udf", 32769, b"BEA01"),
    plain(Filesystem, "udf", 32769, b"NSR02"),
    plain(Filesystem, "udf", 32769, b"NSR03"),
    plain(Filesystem, "udf", 32769 + 2048, b"NSR02"),
    plain(Filesystem, "udf", 32769 + 2048, b"NSR03"),
    plain(Filesystem, "udf", 32769 + 4096, b"NSR02"),
    plain(Filesystem, "udf", 32769 + 4096, b"NSR03"),
    plain(Filesystem, "squashfs", 0, b"hsqs"),
    plain(Filesystem, "squashfs", 0, b"sqsh"),
    plain(Filesystem, "cramfs", 0, b"\x45\x3d\xcd\x28"),
    plain(Filesystem, "cramfs", 0, b"\x28\xcd\x3d\x45"),
    plain(Filesystem, "romfs", 0, b"-rom1fs-"),
    plain(Filesystem, "reiserfs", 65536 + 52, b"ReIsErFs"),
    plain(Filesystem, "reiserfs", 65536 + 52, b"ReIsEr2Fs"),
    plain(Filesystem, "reiserfs", 65536 + 52, b"ReIsEr3Fs"),
    plain(Filesystem, "reiserfs", 8192 + 52, b"ReIsErFs"),
    plain(Filesystem, "reiserfs", 8192 + 52, b"ReIsEr2Fs"),
    plain(Filesystem, "reiser4", 65536, b"ReIsEr4"),
    plain(Filesystem, "ocfs2", 1024, b"OCFSV2"),
    plain(Filesystem, "ocfs2", 2048, b"OCFSV2"),
    plain(Filesystem, "ocfs2", 4096, b"OCFSV2"),
    plain(Filesystem, "ocfs2", 8192, b"OCFSV2"),
    plain(Filesystem, "gfs2", 65536, b"\x01\x16\x19\x70"),
    plain(Filesystem, "apfs", 32, b"NXSB"),
    plain(Filesystem, "vxfs", 1024, b"\xf5\xfc\x01\xa5"),
    plain(Filesystem, "vxfs", 8192, b"\xa5\x01\xfc\xf5"),
    plain(Filesystem, "befs", 32, b"1SFB"),
    plain(Filesystem, "befs", 512 + 32, b"1SFB"),
    plain(Filesystem, "befs", 512 + 32, b"BFS1"),
    plain(Filesystem, "zonefs", 0, b"SFOZ"),
    plain(Filesystem, "bfs", 0, b"\xce\xfa\xad\x1b"),
    plain(Filesystem, "hpfs", 16 * 512, b"\x49\xe8\x95\xf9"),
    plain(Filesystem, "NetWare NSS", 4096, b"SPB5"),
    plain(Filesystem, "ubifs", 0, b"\x31\x18\x10\x06"),
    plain(Volume, "ubi", 0, b"UBI#"),
    plain(Volume, "dm-snapshot", 0, b"SnAp"),
    plain(Volume, "VDO", 0, b"dmvdo001"),
    plain(Volume, "Stratis", 512 + 4, STRATIS),
    plain(Volume, "Stratis", 9 * 512 + 4, STRATIS),
    plain(Volume, "Ceph BlueStore", 0, b"bluestore block device"),
    plain(Volume, "Oracle ASM", 32, b"ORCLDISK"),
    plain(Volume, "VMFS member", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    plain(Volume, "VMFS", 0x20_0000, b"\x5e\xf1\xab\x2f"),
    plain(Volume, "LVM1 PV", 0, b"HM\x01\x00"),
    plain(Volume, "LVM1 PV", 0, b"HM\x02\x00"),
    plain(Encrypted, "dm-integrity", 0, b"integrt\0"),
    plain(Encrypted, "dm-verity", 0, b"verity\0\0"),
    plain(Encrypted, "BitLocker", 3, b"-FVE-FS-"),
    named(plain(Cache, "bcache", 4096 + 24, BCACHE), Some(4096 + 40), Some((4096 + 72, 32))),
    plain(Raid, "HighPoint RAID", 9 * 512 + 32, b"\xf0\x16\x78\x5a"),
    plain(Raid, "HighPoint RAID", 9 * 512 + 32, b"\xfd\x16\x78\x5a"),
    plain(PartitionTable, "SGI disk label", 0, b"\x0b\xe5\xa9\x41"),
    plain(PartitionTable, "AIX disk label", 0, b"\xc9\xc2\xd4\xc1"),
    plain(PartitionTable, "Mac partition map", 512, b"PM\0\0"),
];

/// Distances from the end of the device.
#[rustfmt::skip]
const AT_END: &[Magic] = &[
    plain(Raid, "Intel RAID (IMSM)", 2 * 512, IMSM),
    plain(Raid, "Intel RAID (IMSM)", 2 * 4096, IMSM),
    plain(Raid, "DDF RAID", 512, b"\xde\x11\xde\x11"),
    plain(Raid, "DDF RAID", 512, b"\x11\xde\x11\xde"),
    plain(Raid, "DDF RAID", 4096, b"\xde\x11\xde\x11"),
    plain(Raid, "DDF RAID", 257 * 512, b"\xde\x11\xde\x11"),
    plain(Raid, "NVIDIA RAID", 2 * 512, b"NVIDIA"),
    plain(Raid, "LSI MegaRAID", 512, b"$XIDE$"),
    plain(Raid, "Promise RAID", 63 * 512, PROMISE),
    plain(Raid, "Promise RAID", 255 * 512, PROMISE),
    plain(Raid, "Promise RAID", 256 * 512, PROMISE),
    plain(Raid, "Promise RAID", 16 * 512, PROMISE),
];

/// Pages of all architectures; the string ends with the first page.
const SWAP_PAGES: [u64; 5] = [4096, 8192, 16384, 32768, 65536];
const SWAP_MAGICS: [(&str, &[u8; 10]); 2] = [("swap", b"SWAPSPACE2"), ("swap", b"SWAP-SPACE")];
/// A machine suspended to disk keeps its memory there.
const SUSPEND_MAGICS: [&[u8]; 5] = [
    b"S1SUSPEND\0",
    b"S2SUSPEND\0",
    b"ULSUSPEND\0",
    b"LINHIB0001",
    b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c",
];
const LUKS2_SECONDARY_AT: [u64; 9] =
    [0x4000, 0x8000, 0x10000, 0x20000, 0x40000, 0x80000, 0x10_0000, 0x20_0000, 0x40_0000];

pub(super) fn find(image: &Image) -> Vec<Signature> {
    let mut found: Vec<Signature> = AT_FRONT
        .iter()
        .filter(|m| image.is(m.offset, m.bytes))
        .map(|m| m.signature(image, m.offset))
        .collect();
    found.extend(AT_END.iter().filter_map(|m| {
        let offset = (image.size_bytes() / 512 * 512).checked_sub(m.offset)?;
        image.is(offset, m.bytes).then(|| m.signature(image, offset))
    }));
    found.extend(swap(image));
    found.extend(luks(image));
    found
}

impl Magic {
    fn signature(&self, image: &Image, offset: u64) -> Signature {
        let uuid = self.uuid_at.and_then(|at| image.uuid(at));
        let label = self.label_at.and_then(|(at, len)| image.text(at, len));
        Signature::new(self.kind, self.name, offset).with(uuid, label)
    }
}

fn swap(image: &Image) -> Vec<Signature> {
    let mut found = Vec::new();
    for page in SWAP_PAGES {
        let at = page - 10;
        for (name, magic) in SWAP_MAGICS {
            if image.is(at, magic) {
                let signature = Signature::new(Swap, name, at);
                found.push(signature.with(image.uuid(1024 + 12), image.text(1024 + 28, 16)));
            }
        }
        if SUSPEND_MAGICS.iter().any(|magic| image.is(at, magic)) {
            found.push(Signature::new(Swap, "swap (suspended system)", at));
        }
    }
    found
}

fn luks(image: &Image) -> Vec<Signature> {
    let mut found = Vec::new();
    if image.is(0, b"LUKS\xba\xbe") {
        let name = if image.be16(6) == Some(1) { "LUKS1" } else { "LUKS2" };
        let label = if name == "LUKS2" { image.text(24, 48) } else { None };
        found.push(Signature::new(Encrypted, name, 0).with(image.text(168, 40), label));
    }
    for at in LUKS2_SECONDARY_AT {
        if image.is(at, b"SKUL\xba\xbe") {
            let signature = Signature::new(Encrypted, "LUKS2 (secondary header)", at);
            found.push(signature.with(image.text(at + 168, 40), image.text(at + 24, 48)));
        }
    }
    found
}
