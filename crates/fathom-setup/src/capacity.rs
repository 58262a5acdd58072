//! How much of unlike devices can be used: what md and LVM make of their sizes, before anything is built. Pure.

use crate::outline::Capacity;
use crate::site::Device;
use fathom_model::plan::setup::{SetupCapacity, SetupSpec};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// An array, as far as its size depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrayShape<'a> {
    /// `raid0`, `raid5` and so on.
    pub level: &'a str,
    /// Without spares.
    pub members: usize,
    /// None of raid1.
    pub chunk_bytes: Option<u64>,
    /// Where the data begin on each member, where that was asked for.
    pub data_offset_bytes: Option<u64>,
    /// `1.2`.
    pub metadata: &'a str,
    /// Of raid10, else one.
    pub copies: Copies,
}

/// Copies of each chunk of a raid10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copies {
    /// Side by side.
    pub near: u64,
    /// Far away, or one chunk on.
    pub far: u64,
}

impl Default for Copies {
    fn default() -> Self {
        Self { near: 1, far: 1 }
    }
}

/// About how many bytes an array holds over devices of these sizes, spares last. Only raid0 goes on with the larger members where the smaller
/// ones end; all others take of each as much as the smallest has.
pub(crate) fn of_array(shape: &ArrayShape<'_>, sizes: &[u64]) -> u64 {
    let kept = kept_of_member(shape, sizes.first().copied().unwrap_or(0));
    let chunk = shape.chunk_bytes.unwrap_or(KIB).max(1);
    let data = |size: u64| size.saturating_sub(kept) / chunk * chunk;
    let count = shape.members as u64;
    let one = data(sizes.iter().copied().min().unwrap_or(0));
    match shape.level {
        "raid0" => sizes.iter().copied().map(data).sum(),
        "raid1" => one,
        "raid4" | "raid5" => one * count.saturating_sub(1),
        "raid6" => one * count.saturating_sub(2),
        _ => {
            let Copies { near, far } = shape.copies;
            one / chunk / far * count / near * chunk
        }
    }
}

/// What an array keeps of each member for itself: superblock, bitmap, room to be reshaped. mdadm (since 3.3) lays the data on the next MiB
/// behind 12 KiB, a bitmap, and room for a reshape: 128 MiB, halved until it is no more than a 1024th of the member or two chunks.
fn kept_of_member(shape: &ArrayShape<'_>, first_bytes: u64) -> u64 {
    if let Some(bytes) = shape.data_offset_bytes {
        return bytes;
    }
    let bitmap = match first_bytes / GIB {
        200.. => 128 * KIB,
        8.. => 64 * KIB,
        _ => 4 * KIB,
    };
    if !matches!(shape.metadata, "1.1" | "1.2") {
        // It lies behind the data, on a border of 64 KiB or 4 KiB.
        return bitmap.max(64 * KIB);
    }
    let is_too_much =
        |room: u64| room << 10 > first_bytes && shape.chunk_bytes.is_none_or(|c| room > 2 * c);
    let mut room = 128 * MIB;
    while room > 0 && is_too_much(room) {
        room >>= 1;
    }
    (12 * KIB + bitmap + room).next_multiple_of(MIB)
}

/// What of each device an array uses, spares last: nothing of these.
pub(crate) fn used_by_array(shape: &ArrayShape<'_>, sizes: &[u64]) -> Vec<u64> {
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    let used = |(place, size): (usize, &u64)| match shape.level {
        "raid0" => *size,
        _ if place < shape.members => smallest,
        _ => 0,
    };
    sizes.iter().enumerate().map(used).collect()
}

/// How large a volume is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeSize {
    /// Of the group, in percent.
    Share(u32),
    /// In bytes.
    Bytes(u64),
}

/// About how many bytes a volume over devices of these sizes holds: whole extents of 4 MiB behind the first MiB, or behind where data were
/// asked to begin. A striped one takes the same of each.
pub(crate) fn of_volume(
    is_striped: bool,
    size: VolumeSize,
    align_bytes: Option<u64>,
    sizes: &[u64],
) -> u64 {
    const EXTENT_BYTES: u64 = 4 * MIB;
    let begin = MIB.next_multiple_of(align_bytes.unwrap_or(MIB).max(1));
    let extents = |size: u64| size.saturating_sub(begin) / EXTENT_BYTES;
    let group: u64 = sizes.iter().copied().map(extents).sum();
    let stripes = if is_striped { sizes.len() as u64 } else { 1 };
    let least = sizes.iter().copied().map(extents).min().unwrap_or(0);
    let most = if is_striped { least * stripes } else { group };
    let asked = match size {
        VolumeSize::Share(percent) => group * u64::from(percent) / 100,
        VolumeSize::Bytes(bytes) => bytes.div_ceil(EXTENT_BYTES),
    };
    asked.next_multiple_of(stripes.max(1)).min(most) * EXTENT_BYTES
}

/// What of each device is used where no array joins them: a striped volume and copies of btrfs leave what only one of them has.
pub(crate) fn used_without_array(spec: &SetupSpec, sizes: &[u64]) -> Vec<u64> {
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    if spec.volume.as_ref().is_some_and(|volume| volume.kind == "striped") {
        return sizes.iter().map(|_| smallest).collect();
    }
    let all: u64 = sizes.iter().sum();
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let profile = spec.filesystem.as_ref().filter(|fs| fs.spans_devices() && spec.volume.is_none());
    match profile.and_then(|fs| fs.data_profile.as_deref()) {
        // Each block lies on two devices: the largest has no partner for more than all others hold.
        Some("raid1" | "raid10") => sizes.iter().map(|size| (*size).min(all - largest)).collect(),
        _ => sizes.to_vec(),
    }
}

/// The devices as lines of a dry run.
pub(crate) fn lines(devices: &[Device], used: &[u64]) -> Vec<Capacity> {
    let line = |(device, used): (&Device, &u64)| Capacity {
        device: device.word(),
        size_bytes: device.size_bytes,
        used_bytes: *used,
        wasted_bytes: device.size_bytes.saturating_sub(*used),
    };
    devices.iter().zip(used).map(line).collect()
}

/// All of it in three figures; `lines` are of all layers, each against what lies below it.
pub(crate) fn in_all(devices_bytes: u64, usable_bytes: u64, lines: &[Capacity]) -> SetupCapacity {
    let wasted_bytes = lines.iter().map(|line| line.wasted_bytes).sum();
    SetupCapacity { devices_bytes, usable_bytes, wasted_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::setup::{FilesystemSpec, VolumeSpec};

    const LEVELS: [&str; 5] = ["raid0", "raid1", "raid5", "raid6", "raid10"];

    fn shape(level: &str, members: usize) -> ArrayShape<'_> {
        ArrayShape {
            level,
            members,
            chunk_bytes: (level != "raid1").then_some(64 * KIB),
            data_offset_bytes: Some(MIB),
            metadata: "1.2",
            copies: Copies { near: if level == "raid10" { 2 } else { 1 }, far: 1 },
        }
    }

    /// Worked out by hand: 48, 48, 64 and 80 MiB, of which a MiB each is before the data.
    #[test]
    fn the_smallest_decides_but_in_raid0() {
        let sizes = [48 * MIB, 48 * MIB, 64 * MIB, 80 * MIB];
        let got = LEVELS.map(|level| {
            let shape = shape(level, 4);
            let used: u64 = used_by_array(&shape, &sizes).iter().sum();
            (level, of_array(&shape, &sizes) / MIB, (240 * MIB - used) / MIB)
        });
        let expected = [
            ("raid0", 47 + 47 + 63 + 79, 0),
            ("raid1", 47, 48),
            ("raid5", 3 * 47, 48),
            ("raid6", 2 * 47, 48),
            ("raid10", 2 * 47, 48),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn a_spare_gives_nothing_and_may_be_the_smallest() {
        let sizes = [48 * MIB, 48 * MIB, 40 * MIB];
        let shape = shape("raid1", 2);
        assert_eq!(of_array(&shape, &sizes), 39 * MIB);
        assert_eq!(used_by_array(&shape, &sizes), [40 * MIB, 40 * MIB, 0]);
    }

    /// Odd numbers of members: whole chunks, as many as there are, by the number of copies.
    #[test]
    fn copies_of_a_raid10() {
        let of = |near, far, members: usize| {
            let shape = ArrayShape { copies: Copies { near, far }, ..shape("raid10", members) };
            // 2 MiB of data each and 40 KiB, which are no whole chunk: 32 chunks.
            of_array(&shape, &vec![3 * MIB + 40 * KIB; members]) / (64 * KIB)
        };
        assert_eq!([of(2, 1, 4), of(2, 1, 3), of(3, 1, 4)], [64, 48, 42]);
        assert_eq!([of(1, 2, 4), of(1, 2, 3)], [64, 48]);
        // 32 chunks make 10 places with three copies.
        assert_eq!(of(1, 3, 4), 40);
    }

    /// What mdadm 4 does: a disk of 1 TB begins at sector 264192, one of 32 MiB at 4096 with a chunk of 512 KiB.
    #[test]
    fn where_the_data_begin() {
        let kept = |size: u64, chunk_bytes: Option<u64>, metadata: &str| {
            let shape =
                ArrayShape { chunk_bytes, data_offset_bytes: None, metadata, ..shape("raid5", 3) };
            kept_of_member(&shape, size)
        };
        assert_eq!(kept(1_000_204_886_016, Some(512 * KIB), "1.2"), 264_192 * 512);
        assert_eq!(kept(32 * MIB, Some(512 * KIB), "1.2"), 2 * MIB);
        assert_eq!(kept(32 * MIB, Some(64 * KIB), "1.2"), MIB);
        assert_eq!(kept(32 * MIB, None, "1.1"), MIB);
        assert_eq!(kept(32 * MIB, None, "1.0"), 64 * KIB);
    }

    #[test]
    fn volumes_have_whole_extents() {
        let sizes = [48 * MIB, 80 * MIB];
        let of = |is_striped, size, align| of_volume(is_striped, size, align, &sizes) / MIB;
        let all = VolumeSize::Share(100);
        assert_eq!([of(false, all, None), of(true, all, None)], [44 + 76, 44 + 44]);
        // 16 of 30 extents, and of a striped one the same of both.
        assert_eq!(of(false, VolumeSize::Share(55), None), 64);
        assert_eq!(of(true, VolumeSize::Share(51), None), 64);
        assert_eq!(of(false, VolumeSize::Bytes(5 * MIB), None), 8);
        assert_eq!(of(false, VolumeSize::Bytes(GIB), None), 120);
        assert_eq!(of(false, all, Some(3 * MIB)), 44 + 76);
        assert_eq!(of(false, all, Some(6 * MIB)), 40 + 72);
    }

    #[test]
    fn what_is_joined_without_an_array() {
        let sizes = [10 * MIB, 2 * MIB, 3 * MIB];
        let volume = |kind: &str| {
            let kind = kind.to_owned();
            VolumeSpec { kind, stripe_size: None, size: None, data_alignment: None }
        };
        let with = |volume: Option<VolumeSpec>, profile: Option<&str>| {
            let fs = serde_json::json!({
                "kind": "btrfs", "make_options": [], "is_aligned": true, "mount_options": [], "is_lazy": false,
                "data_profile": profile,
            });
            let filesystem: FilesystemSpec = serde_json::from_value(fs).expect("a filesystem");
            let spec = SetupSpec { volume, filesystem: Some(filesystem), ..SetupSpec::default() };
            let used = used_without_array(&spec, &sizes);
            used.into_iter().map(|used| used / MIB).collect::<Vec<u64>>()
        };
        assert_eq!(with(Some(volume("linear")), None), [10, 2, 3]);
        assert_eq!(with(Some(volume("striped")), None), [2, 2, 2]);
        assert_eq!(with(None, Some("single")), [10, 2, 3]);
        assert_eq!(with(None, Some("raid1")), [5, 2, 3]);
        let lines = [(10, 5), (2, 2), (3, 3)].map(|(size_bytes, used_bytes)| Capacity {
            device: String::new(),
            size_bytes,
            used_bytes,
            wasted_bytes: size_bytes - used_bytes,
        });
        let got = in_all(15, 5, &lines);
        assert_eq!(got, SetupCapacity { devices_bytes: 15, usable_bytes: 5, wasted_bytes: 5 });
    }
}
