//! In how large pieces the free space of an ext4 lies.

use fathom_sys::sysroot::SysRoot;

/// Block bitmaps that the kernel may read from the device for its answer.
const BITMAP_BYTES_MAX: u64 = 512 << 10;
/// Pieces from this on count as large.
const LARGE_BYTES: u64 = 1 << 20;

/// What the kernel may have to read of the device for [`pieces`]: the bitmaps of all groups but those that its allocator knows
/// already, see [`groups`]. None for filesystems of so many groups that it would be much, more than 16 GiB with blocks of 4 KiB.
pub(crate) fn bytes_to_read(
    groups: u64,
    known: Option<(u64, u64)>,
    block_bytes: u64,
) -> Option<u64> {
    groups.checked_mul(block_bytes).filter(|&bytes| bytes <= BITMAP_BYTES_MAX)?;
    Some(groups.saturating_sub(known.map_or(0, |(_, all)| all)) * block_bytes)
}

/// The largest free piece and the share of the free space that is in pieces of 1 MiB and more; pieces as the allocator
/// keeps them, of a power of two of blocks, so that a longer stretch is several.
pub(crate) fn pieces(root: &SysRoot, device: &str, block_bytes: u64) -> Option<(u64, f64)> {
    parse(&root.read(format!("proc/fs/ext4/{device}/mb_groups")).ok()?, block_bytes)
}

/// Of the block groups with free space that the allocator knows, how many have a free piece of 1 MiB and more, and all: from
/// memory, whatever the size. It knows the groups whose bitmaps were read since the mount, which a thread of the kernel does by
/// and by. None before Linux 5.14, and where the allocator keeps no such lists (`mb_optimize_scan=0`, few groups).
pub(crate) fn groups(root: &SysRoot, device: &str, block_bytes: u64) -> Option<(u64, u64)> {
    parse_groups(&root.read(format!("proc/fs/ext4/{device}/mb_structs_summary")).ok()?, block_bytes)
}

/// Lines such as `list_order_13_groups: 1882` of the first list: how many groups have that as their largest free piece.
fn parse_groups(text: &str, block_bytes: u64) -> Option<(u64, u64)> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != "max_free_order_lists:");
    let counts = lines.skip(1).map_while(|line| {
        let (order, count) = line.strip_prefix("list_order_")?.split_once("_groups: ")?;
        Some((order.parse::<u32>().ok()?, count.parse::<u64>().ok()?))
    });
    let (mut large, mut all) = (0u64, 0u64);
    for (order, count) in counts {
        all = all.saturating_add(count);
        if block_bytes.checked_shl(order).is_some_and(|piece| piece >= LARGE_BYTES) {
            large = large.saturating_add(count);
        }
    }
    (all > 0).then_some((large, all))
}

/// Lines such as `#0    : 63    7     1788  [ 5     5     2 ... ]`: group, free blocks, stretches, the first free one, and the
/// number of pieces of 1, 2, 4 and so on blocks.
fn parse(text: &str, block_bytes: u64) -> Option<(u64, f64)> {
    let (mut largest, mut large, mut all) = (0, 0, 0);
    for line in text.lines() {
        let Some((_, counts)) = line.split_once('[').filter(|(head, _)| head.contains(" : "))
        else {
            continue;
        };
        let counts = counts.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
        for (order, count) in counts.enumerate().filter(|(_, count)| *count > 0) {
            let piece = block_bytes.checked_shl(u32::try_from(order).ok()?)?;
            let bytes = piece.checked_mul(count)?;
            largest = largest.max(piece);
            all = u64::checked_add(all, bytes)?;
            large += if piece >= LARGE_BYTES { bytes } else { 0 };
        }
    }
    (all > 0).then(|| (largest, large as f64 / all as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_count_as_read_that_the_allocator_does_not_know() {
        assert_eq!(bytes_to_read(129, None, 4096), None, "too many");
        assert_eq!(bytes_to_read(128, None, 4096), Some(512 << 10));
        assert_eq!(bytes_to_read(128, Some((1, 120)), 4096), Some(32 << 10));
        assert_eq!(bytes_to_read(28, Some((0, 99)), 1024), Some(0));
        assert_eq!(bytes_to_read(u64::MAX, None, 4096), None);
    }

    #[test]
    fn pieces_add_up() {
        let text = "\
#group: free  frags first [ 2^0   2^1   2^2   2^3   2^4   2^5   2^6   2^7   2^8   2^9   2^10  2^11  2^12  2^13  ]
#0    : 257   2     1788  [ 1     0     0     0     0     0     0     0     1     0     0     0     0     0     ]
#1    : 0     0     32768 [ 0     0     0     0     0     0     0     0     0     0     0     0     0     0     ]
#2    : I/O error
#3    : 255   8     1     [ 1     1     1     1     1     1     1     1     0     0     0     0     0     0     ]
";
        let (largest, share) = parse(text, 4096).unwrap();
        assert_eq!(largest, 1 << 20);
        assert!((share - 256.0 / 512.0).abs() < 1e-9, "{share}");
        assert_eq!(parse("#0    : 0     0     32768 [ 0     0 ]", 4096), None, "full");
        assert_eq!(parse("", 4096), None);
        assert_eq!(
            parse("#0 : 1 1 1 [ 18446744073709551615 1 ]", 1),
            None,
            "more than there can be"
        );
    }

    #[test]
    fn groups_are_counted_by_their_largest_piece() {
        let text = "optimize_scan: 1\nmax_free_order_lists:\n\tlist_order_0_groups: 2\n\tlist_order_7_groups: 3\n\
                    \tlist_order_8_groups: 14\n\tlist_order_13_groups: 1882\navg_fragment_size_lists:\n\
                    \tlist_order_0_groups: 100\n";
        assert_eq!(parse_groups(text, 4096), Some((1896, 1901)));
        assert_eq!(parse_groups(text, 1024), Some((1882, 1901)));
        let off = "optimize_scan: 0\nmax_free_order_lists:\n\tlist_order_0_groups: 0\n";
        assert_eq!(parse_groups(off, 4096), None);
    }
}
