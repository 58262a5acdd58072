//! Starts of volumes and encrypted data, on a disk and in a file.

use crate::fixtures::{Bench, MIB};
use crate::rules::geometry::starts;
use fathom_model::defect::Gravity;
use fathom_model::stack::detail::LvmHeader;

/// Volumes and encrypted data: the kernel calculates no place of theirs on a disk. On a loop device it is the same.
#[test]
fn what_begins_on_a_disk_begins_on_its_blocks() {
    let extents = |bytes: u64| LvmHeader { extents_start_bytes: Some(bytes), ..Default::default() };
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.content_of(disk).lvm = Some(extents(2049 * 512));
    let found = bench.one(starts::misaligned);
    assert_eq!(found.node.as_deref(), Some("/dev/sda"));
    assert!(
        found.summary.ends_with("begin 512 B behind the physical blocks of 4 KiB of sda"),
        "{found:?}"
    );
    bench.content_of(disk).lvm = Some(extents(MIB));
    assert_eq!(bench.gravities(starts::misaligned), []);
    let number = bench.node(disk).devno.clone().unwrap_or_default();
    let crypt = |sector: u64| {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let table = format!("0 99 crypt aes-xts-plain64 - 0 {number} {sector}");
        bench.dm("dm-0", "secret", "CRYPT-x", &[table], &[disk]);
        bench.gravities(starts::misaligned)
    };
    assert_eq!((crypt(32_768), crypt(2049)), (vec![], vec![Gravity::Medium]));
    let (_, mount) = bench.mounted("ext4", "/srv", disk);
    let image = bench.loop_device("loop0", &[mount]);
    bench.content_of(image).lvm = Some(extents(2049 * 512));
    let found = bench.one(starts::misaligned);
    assert_eq!(found.node.as_deref(), Some("/dev/loop0"));
    assert!(found.summary.contains("which lies below its file"), "{found:?}");
}
