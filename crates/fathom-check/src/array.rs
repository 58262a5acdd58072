//! What an array's level, layout and chunk mean: data disks, full stripes, and the options by which filesystems, volumes
//! and partitions fit on it.

use crate::dm;
use fathom_model::stack::{DmFacts, MdFacts, Node};

/// Sector of the kernel's interfaces and of XFS's mount options, whatever the disks have.
pub const SECTOR_BYTES: u64 = 512;
/// Where partitions start by custom.
const PARTITION_UNIT_BYTES: u64 = 1 << 20;

/// How a layer deals its addresses out to its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striping {
    /// Bytes that lie on one member before the next one's turn.
    pub chunk_bytes: u64,
    /// Chunks of data in one row, as the kernel counts for `optimal_io_size`.
    pub data_disks: u64,
    /// Members.
    pub disks: u64,
    /// Copies of each chunk in one row (near copies of RAID10), else 1.
    pub near_copies: u64,
    /// True where a row has parity: writing less than the row then means reading first.
    pub parity: bool,
    /// True where every address is the same on the array and on its members: nothing is dealt out.
    pub is_copy: bool,
}

impl Striping {
    /// That of an md array; none for levels without chunks and for what is unknown.
    ///
    /// RAID0 has n data disks, RAID4 and RAID5 n-1, RAID6 n-2; RAID10 n divided by its near copies (the lowest byte of
    /// the layout), or n where these do not divide it: far and offset copies lie in other rows (`raid10.c`:
    /// `raid10_nr_stripes`; `raid5.c`: `raid5_set_io_opt`).
    #[must_use]
    pub fn of_md(md: &MdFacts) -> Option<Self> {
        let copies = || (md.layout.unwrap_or(0x102) & 0xff).max(1);
        let (kind, near_copies) = match md.level.as_deref()? {
            "raid10" => ("raid10", copies()),
            level => (level, 1),
        };
        Self::new(kind, md.chunk_bytes?, md.raid_disks?, near_copies)
    }

    /// That of a device-mapper device, where one line is all of its table.
    #[must_use]
    pub fn of_dm(facts: &DmFacts) -> Option<Self> {
        let [text] = facts.table.as_slice() else { return None };
        Self::of_line(dm::line(text)?)
    }

    /// That of a line of the device-mapper: `striped`, or one of LVM's `raid` levels.
    #[must_use]
    pub fn of_line(line: dm::Line<'_>) -> Option<Self> {
        let words: Vec<&str> = line.words.split_ascii_whitespace().collect();
        let sectors = |word: &str| word.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES);
        match (line.kind, words.as_slice()) {
            ("striped", [count, chunk, ..]) => {
                Self::new("raid0", sectors(chunk)?, count.parse().ok()?, 1)
            }
            ("raid", [level, count, chunk, rest @ ..]) => {
                let parameters = rest.get(..count.parse::<usize>().ok()?.checked_sub(1)?)?;
                let disks = rest.get(parameters.len())?.parse().ok()?;
                let value = |name: &str| {
                    let at = parameters.iter().position(|word| *word == name)?;
                    parameters.get(at + 1).copied()
                };
                // Two near copies where nothing else is said.
                let far = matches!(value("raid10_format"), Some("far" | "offset"));
                let copies = value("raid10_copies").and_then(|n| n.parse().ok()).unwrap_or(2);
                let kind = level.split('_').next().unwrap_or(level);
                let near = if kind == "raid10" && !far { copies } else { 1 };
                Self::new(kind, sectors(chunk)?, disks, near)
            }
            _ => None,
        }
    }

    /// That of a node.
    #[must_use]
    pub fn of(node: &Node) -> Option<Self> {
        let md = node.md.as_ref().and_then(Self::of_md);
        md.or_else(|| node.dm.as_ref().and_then(Self::of_dm))
    }

    fn new(kind: &str, chunk_bytes: u64, disks: u64, near_copies: u64) -> Option<Self> {
        let (data_disks, parity) = match kind {
            "raid0" => (disks, false),
            "raid4" | "raid5" => (disks.checked_sub(1)?, true),
            "raid6" => (disks.checked_sub(2)?, true),
            "raid10" if near_copies > 0 && disks.is_multiple_of(near_copies) => {
                (disks / near_copies, false)
            }
            "raid10" => (disks, false),
            _ => return None,
        };
        // RAID5 deals out to all members even with one data disk: parity goes round.
        let is_copy = data_disks == 1 && !matches!(kind, "raid5" | "raid6");
        let whole = chunk_bytes > 0 && data_disks > 0 && chunk_bytes.checked_mul(disks).is_some();
        whole.then_some(Self { chunk_bytes, data_disks, disks, near_copies, parity, is_copy })
    }

    /// Bytes of one row of data.
    #[must_use]
    pub fn full_stripe_bytes(&self) -> u64 {
        self.chunk_bytes * self.data_disks
    }

    /// What the start of something on the array should be a multiple of: the full stripe where parity makes parts of it
    /// dear, else the chunk.
    #[must_use]
    pub fn start_unit_bytes(&self) -> u64 {
        if self.parity { self.full_stripe_bytes() } else { self.chunk_bytes }
    }

    /// Row of a chunk, counted from 0, on the members.
    #[must_use]
    pub fn row_of(&self, chunk: u128) -> u128 {
        let in_row = if self.parity { self.data_disks } else { self.disks };
        chunk * u128::from(self.near_copies) / u128::from(in_row)
    }
}

/// Members' worth of data in one full stripe of an md array; none for levels without stripes.
#[must_use]
pub fn data_disks(md: &MdFacts) -> Option<u64> {
    Striping::of_md(md).map(|striping| striping.data_disks)
}

/// Bytes of one full stripe of data of an md array; none where there is none.
#[must_use]
pub fn full_stripe_bytes(md: &MdFacts) -> Option<u64> {
    Striping::of_md(md).map(|striping| striping.full_stripe_bytes())
}

/// Options of `mkfs.ext4 -E` and `tune2fs -E`, in blocks of the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtOptions {
    /// `stride`: blocks of one chunk.
    pub stride_blocks: u64,
    /// `stripe_width`: blocks of a full stripe.
    pub stripe_width_blocks: u64,
}

/// What ext4 should be told of the array (mke2fs(8): stride is "the number of blocks read or written to disk before
/// moving to the next disk", stripe_width "typically stride-size * N, where N is the number of data-bearing disks").
/// None where a block is larger than a chunk or does not divide it, and where a number has no room in the superblock.
#[must_use]
pub fn ext_options(striping: &Striping, block_bytes: u64) -> Option<ExtOptions> {
    let fits = block_bytes > 0 && striping.chunk_bytes.is_multiple_of(block_bytes);
    let stride_blocks = striping.chunk_bytes.checked_div(block_bytes).filter(|_| fits)?;
    let stripe_width_blocks = stride_blocks * striping.data_disks;
    let room = u16::try_from(stride_blocks).is_ok() && u32::try_from(stripe_width_blocks).is_ok();
    room.then_some(ExtOptions { stride_blocks, stripe_width_blocks })
}

impl ExtOptions {
    /// As the tools take them: `stride=128,stripe_width=384`.
    #[must_use]
    pub fn words(&self) -> String {
        format!("stride={},stripe_width={}", self.stride_blocks, self.stripe_width_blocks)
    }
}

/// Options of XFS, in each of the units that its tools use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XfsOptions {
    /// `mkfs.xfs -d su=`: bytes of a chunk.
    pub su_bytes: u64,
    /// `mkfs.xfs -d sw=`: data disks.
    pub sw_disks: u64,
    /// Mount option `sunit=`: sectors of 512 bytes of a chunk.
    pub sunit_sectors: u64,
    /// Mount option `swidth=`: sectors of 512 bytes of a full stripe.
    pub swidth_sectors: u64,
    /// What `xfs_info` shows as `sunit`: blocks of a chunk.
    pub sunit_blocks: u64,
    /// What `xfs_info` shows as `swidth`: blocks of a full stripe.
    pub swidth_blocks: u64,
}

/// What XFS should be told of the array (mkfs.xfs(8), xfs(5)). None where a chunk is no multiple of the filesystem's
/// block: mkfs.xfs refuses such a unit.
#[must_use]
pub fn xfs_options(striping: &Striping, block_bytes: u64) -> Option<XfsOptions> {
    let fits = block_bytes >= SECTOR_BYTES && striping.chunk_bytes.is_multiple_of(block_bytes);
    let stripe_bytes = striping.full_stripe_bytes();
    fits.then(|| XfsOptions {
        su_bytes: striping.chunk_bytes,
        sw_disks: striping.data_disks,
        sunit_sectors: striping.chunk_bytes / SECTOR_BYTES,
        swidth_sectors: stripe_bytes / SECTOR_BYTES,
        sunit_blocks: striping.chunk_bytes / block_bytes,
        swidth_blocks: stripe_bytes / block_bytes,
    })
}

impl XfsOptions {
    /// As mkfs.xfs takes them: `su=64k,sw=4`.
    #[must_use]
    pub fn mkfs_words(&self) -> String {
        format!("su={},sw={}", kib_words(self.su_bytes), self.sw_disks)
    }

    /// As mount takes them, in sectors of 512 bytes: `sunit=128,swidth=512`.
    #[must_use]
    pub fn mount_words(&self) -> String {
        format!("sunit={},swidth={}", self.sunit_sectors, self.swidth_sectors)
    }
}

/// A size as mkfs, LVM and mdadm take it: `64k` where it is a whole number of KiB, else bytes with `b`.
#[must_use]
pub fn kib_words(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{}k", bytes / 1024) } else { format!("{bytes}b") }
}

/// First byte from `from_bytes` on that lies on 1 MiB and on the unit of what is below, as partitions should start; on
/// drives that are off by `origin_bytes` (their `alignment_offset`) moved by as much. Never 0, where the table lies.
#[must_use]
pub fn next_start_bytes(from_bytes: u64, unit_bytes: u64, origin_bytes: u64) -> Option<u64> {
    let step = least_common_multiple(unit_bytes.max(1), PARTITION_UNIT_BYTES)?;
    let steps = from_bytes.saturating_sub(origin_bytes).div_ceil(step).max(1);
    steps.checked_mul(step)?.checked_add(origin_bytes)
}

/// Extents after which a volume ends on a full stripe again, so that the next one begins on one.
#[must_use]
pub fn extents_per_stripe(stripe_bytes: u64, extent_bytes: u64) -> Option<u64> {
    let all = least_common_multiple(stripe_bytes, extent_bytes)?;
    all.checked_div(extent_bytes)
}

/// Size of LVM's extents that fill whole stripes, at least its usual 4 MiB: any multiple of 128 KiB is allowed.
#[must_use]
pub fn extent_bytes_for(stripe_bytes: u64) -> Option<u64> {
    const STEP_BYTES: u64 = 128 << 10;
    const USUAL_BYTES: u64 = 4 << 20;
    let step = least_common_multiple(stripe_bytes, STEP_BYTES).filter(|&step| step > 0)?;
    USUAL_BYTES.checked_next_multiple_of(step)
}

/// What the recorded sizes of requests at random places ask of a chunk: one request should keep one disk busy, so it
/// should hold the mean and one standard deviation more, as a power of two between 4 KiB and 1 MiB; none for none.
#[must_use]
pub fn chunk_bytes_for(request_sizes: &[(u64, f64)]) -> Option<u64> {
    let total: f64 = request_sizes.iter().map(|(_, share)| share).sum();
    if !total.is_finite() || total <= 0.0 {
        return None;
    }
    let mean = |of: &dyn Fn(f64) -> f64| {
        request_sizes.iter().map(|(size, share)| of(*size as f64) * share).sum::<f64>() / total
    };
    let size = mean(&|size| size);
    let spread = mean(&|other| (other - size).powi(2)).sqrt();
    let wanted = (size + spread).ceil() as u64;
    Some(wanted.clamp(4 << 10, 1 << 20).next_power_of_two())
}

/// Share of requests that a chunk's border cuts: of a request at a random place with the alignment of its own size, those
/// larger than the chunk always, smaller ones when they do not divide it.
#[must_use]
pub fn share_of_cut_requests(request_sizes: &[(u64, f64)], chunk_bytes: u64) -> f64 {
    let total: f64 = request_sizes.iter().map(|(_, share)| share).sum();
    let cut = |size: u64| match size {
        0 => 0.0,
        size if size > chunk_bytes => 1.0,
        size if chunk_bytes.is_multiple_of(size) => 0.0,
        size => size as f64 / chunk_bytes as f64,
    };
    let sum: f64 = request_sizes.iter().map(|(size, share)| cut(*size) * share).sum();
    if total > 0.0 { sum / total } else { 0.0 }
}

/// Largest number that divides both; the other one where one is 0.
#[must_use]
pub fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Smallest number that both divide; none for 0 and where it is too large.
#[must_use]
pub fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    a.checked_div(greatest_common_divisor(a, b))?.checked_mul(b).filter(|&all| all > 0)
}

#[cfg(test)]
mod tests;
