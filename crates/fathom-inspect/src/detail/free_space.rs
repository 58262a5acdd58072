//! In how large pieces the free space of an ext4 lies.

use crate::content::Allowance;
use fathom_sys::sysroot::SysRoot;

/// Block bitmaps that the kernel may read from the device for its answer.
const BITMAP_BYTES_MAX: u64 = 512 << 10;
/// Pieces from this on count as large.
const LARGE_BYTES: u64 = 1 << 20;

/// The largest free piece and the share of the free space that is in pieces of 1 MiB and more; pieces as the allocator
/// keeps them, of a power of two of blocks, so that a longer stretch is several. None for filesystems of so many groups
/// that the kernel would have to read much: more than 16 GiB with blocks of 4 KiB, or more than may still be read.
pub(crate) fn pieces(
    root: &SysRoot,
    device: &str,
    groups: u64,
    block_bytes: u64,
    allowance: &mut Allowance,
) -> Option<(u64, f64)> {
    let bitmap_bytes =
        groups.checked_mul(block_bytes).filter(|&bytes| bytes <= BITMAP_BYTES_MAX)?;
    allowance.take(bitmap_bytes)?;
    parse(&root.read(format!("proc/fs/ext4/{device}/mb_groups")).ok()?, block_bytes)
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
    use fathom_testkit::Tree;

    #[test]
    fn bitmaps_count_as_read() {
        let tree = Tree::new();
        tree.put("proc/fs/ext4/sda/mb_groups", "#0    : 4 1 1 [ 0 0 1 ]\n");
        let (root, mut allowance) = (tree.root(), Allowance::default());
        let left_before = allowance.left_bytes();
        let mut ask = |groups| {
            let found = pieces(&root, "sda", groups, 4096, &mut allowance);
            (found.is_some(), left_before - allowance.left_bytes())
        };
        assert_eq!(ask(129), (false, 0), "too many");
        assert_eq!(ask(128), (true, 512 << 10));
        assert_eq!(ask(100), (true, 912 << 10));
        assert_eq!(ask(29), (false, 912 << 10), "more than is left");
        assert_eq!(ask(28), (true, 1 << 20));
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
}
