//! Space, inodes, and the pieces that free space comes in.

use super::{Mounted, mounted, mounted_of};
use crate::conditions::{self, FULL_SHARE};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::{format_count, format_size};
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::NodeKind;

/// From this share on, somebody has to act now.
const URGENT_SHARE: f64 = 0.97;

/// btrfs makes its chunks of data this large.
const BTRFS_CHUNK_BYTES: u64 = 1 << 30;

/// A share of free space in pieces of 1 MiB and more below this is little.
const LARGE_PIECES_SHARE: f64 = 0.5;

/// Types that are made full, and never written.
pub(super) const MADE_FULL: [&str; 6] = ["squashfs", "iso9660", "udf", "erofs", "cramfs", "romfs"];

fn writable(all: &[Mounted<'_>]) -> impl Iterator<Item = usize> {
    let fitting = all
        .iter()
        .enumerate()
        .filter(|(_, m)| m.is_writable() && !MADE_FULL.contains(&m.fs.fs_type.as_str()));
    fitting.map(|(index, _)| index).collect::<Vec<_>>().into_iter()
}

/// Nearly full.
pub(super) fn full(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted_of(scene, &[NodeKind::FileSystem, NodeKind::Memory]);
    writable(&all)
        .filter_map(|index| {
            let m = &all[index];
            let in_memory = m.node.kind == NodeKind::Memory;
            // Nothing is scattered in memory: it matters when the next file does not fit.
            let limit = if in_memory { URGENT_SHARE } else { FULL_SHARE };
            let used = conditions::used_share(m.fs).filter(|&used| used > limit)?;
            let is_urgent = used >= URGENT_SHARE && !in_memory;
            let left = m.fs.available_bytes.unwrap_or(0);
            let (place, node_key) = (&m.mount.mount_point, m.node.key());
            Some(
                Defect::new(
                    "filesystem-full",
                    if is_urgent { Gravity::High } else { Gravity::Medium },
                    Some(if in_memory { &m.key } else { &node_key }),
                    format!("{place} is {:.0} % full ({} left)", used * 100.0, format_size(left)),
                )
                .seen(
                    format!("statfs of {place}"),
                    format!(
                        "{} of {} available",
                        format_size(left),
                        format_size(m.fs.total_bytes.unwrap_or(0))
                    ),
                )
                .because(if in_memory {
                    "programs that write there fail, and what lies there takes memory"
                } else {
                    "new files get scattered over what is left, and stay so; databases stop \
                    when the rest is used"
                })
                .command(
                    "find what can go",
                    format!("du -xh --max-depth=2 {} | sort -h | tail -30", word(place)),
                )
                .command(
                    "deleted files that are still open take space too",
                    format!("lsof +aL1 {}", word(place)),
                )
                .advise(if in_memory {
                    format!(
                        "or let it take more memory: mount -o remount,size=SIZE {}",
                        word(place)
                    )
                } else {
                    "or make the filesystem larger".to_owned()
                })
                .risking("none in looking")
                .verified_by(format!("df -h {}", word(place))),
            )
        })
        .collect()
}

/// Few inodes left.
pub(super) fn inodes(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted_of(scene, &[NodeKind::FileSystem, NodeKind::Memory]);
    writable(&all)
        .filter_map(|index| {
            let m = &all[index];
            let in_memory = m.node.kind == NodeKind::Memory;
            let (free, inodes) = conditions::few_inodes(m.fs)?;
            let is_urgent = (free as f64) <= inodes as f64 * (1.0 - URGENT_SHARE);
            // As with its space, it matters when the next file cannot be made.
            if in_memory && !is_urgent {
                return None;
            }
            let node_key = m.node.key();
            let place = &m.mount.mount_point;
            Some(
                Defect::new(
                    "inodes-low",
                    if is_urgent && !in_memory { Gravity::High } else { Gravity::Medium },
                    Some(if in_memory { &m.key } else { &node_key }),
                    format!(
                        "{place} has only {} of {} inodes left",
                        format_count(free),
                        format_count(inodes)
                    ),
                )
                .seen(format!("statfs of {place}"), format!("{free} of {inodes} inodes free"))
                .because("no file can be made without one, however much space is free")
                .command(
                    "see where they went",
                    format!("du -x --inodes {} | sort -n | tail -30", word(place)),
                )
                .advise(if in_memory {
                    format!("or allow more: mount -o remount,nr_inodes=NUMBER {}", word(place))
                } else {
                    "ext4 gets more inodes only with more space (resize2fs), or by \
                    mkfs.ext4 -i; XFS: xfs_growfs -m raises the limit"
                        .to_owned()
                })
                .risking("none in looking")
                .verified_by(format!("df -i {}", word(place))),
            )
        })
        .collect()
}

/// btrfs has given all space to chunks: what one kind of them has too much, the other cannot use.
pub(super) fn unallocated(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    writable(&all)
        .filter_map(|index| {
            let m = &all[index];
            let free =
                m.node.details().unallocated_bytes.filter(|&bytes| bytes < BTRFS_CHUNK_BYTES)?;
            let total = m.fs.total_bytes.filter(|&total| total >= 16 * BTRFS_CHUNK_BYTES)?;
            let available = m.fs.available_bytes?;
            // A filesystem that is simply full is told as that.
            if conditions::used_share(m.fs).is_some_and(|used| used > FULL_SHARE) {
                return None;
            }
            let place = &m.mount.mount_point;
            Some(
                Defect::new(
                    "btrfs-unallocated",
                    Gravity::Medium,
                    Some(&m.node.key()),
                    format!(
                        "btrfs at {place} has {} free, but only {} that belong to no chunk yet",
                        format_size(available),
                        format_size(free)
                    ),
                )
                .sure(Certainty::Likely)
                .seen(
                    format!("btrfs filesystem usage {place}"),
                    format!("unallocated {} of {}", format_size(free), format_size(total)),
                )
                .because(
                    "when metadata needs another chunk there is none, and writes and even \
                    deletions fail although data space is free",
                )
                .command(
                    "give nearly empty data chunks back",
                    format!("btrfs balance start -dusage=20 {}", word(place)),
                )
                .risking(
                    "a balance reads and writes what it moves: at a quiet time; it can be \
                    stopped by btrfs balance cancel",
                )
                .verified_by(format!(
                    "btrfs filesystem usage {} shows some GiB unallocated",
                    word(place)
                )),
            )
        })
        .collect()
}

/// The share of large pieces, what that says, and what was seen. Where the pieces are not known, the largest of each block group
/// speaks, when the allocator knows many of the groups.
fn large_pieces(m: &Mounted<'_>, free: u64) -> Option<(f64, String, String)> {
    const GROUPS_MIN: u64 = 64;
    let (detail, place) = (m.node.details(), &m.mount.mount_point);
    if let Some((largest, share)) = detail.free_pieces {
        let told = format!(
            "of the {} free at {place} only {:.0} % are in pieces of 1 MiB and more",
            format_size(free),
            share * 100.0
        );
        return Some((share, told, format!("the largest has {}", format_size(largest))));
    }
    let (large, all) = detail.free_groups.filter(|&(_, all)| all >= GROUPS_MIN)?;
    if m.fs.groups.is_some_and(|groups| all < groups / 4) {
        return None;
    }
    let share = large as f64 / all as f64;
    let told = format!(
        "of the block groups at {place} only {:.0} % have a free piece of 1 MiB and more",
        share * 100.0
    );
    Some((share, told, format!("{large} of {all} block groups have one of 1 MiB")))
}

/// Free space that is there, but in pieces.
pub(super) fn scattered(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    writable(&all)
        .filter_map(|index| {
            let m = &all[index];
            let free = m.fs.free_bytes.filter(|&free| free >= 1 << 30)?;
            let (share, told, seen) = large_pieces(m, free)?;
            let full = conditions::used_share(m.fs).is_some_and(|used| used > FULL_SHARE);
            if share >= LARGE_PIECES_SHARE || full {
                return None;
            }
            let rotates = scene.rotates(m.index) == Some(true);
            let place = &m.mount.mount_point;
            Some(
                Defect::new(
                    "free-space-scattered",
                    if rotates { Gravity::Medium } else { Gravity::Low },
                    Some(&m.node.key()),
                    told,
                )
                .seen(format!("free pieces of {}", m.fs.fs_type), seen)
                .because(
                    "large files written now end in many pieces, and are read back with as \
                    many requests",
                )
                .advise(
                    "free space well below 80 % used; then copy large files that matter, \
                    which writes them anew in fewer pieces (XFS: xfs_fsr, ext4: e4defrag, \
                    btrfs: btrfs filesystem defragment)",
                )
                .risking(
                    "defragmenting reads and writes all it moves, breaks reflinks and \
                    snapshots apart, and wears flash",
                )
                .verified_by(format!(
                    "filefrag of new files; fathom run seqread {} on a new file before and after",
                    word(place)
                )),
            )
        })
        .collect()
}
