//! What filesystems were told of the array and the drives below them.

use super::unseen;
use crate::alignment::stripe_under;
use crate::array::{self, SECTOR_BYTES, Striping};
use crate::elsewhere::{is_elsewhere, is_here};
use crate::rules::drives::is_virtual;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{FsFacts, Node, NodeKind};

/// Smaller filesystems (for booting) have small blocks on purpose.
pub(crate) const SMALL_BYTES: u64 = 1 << 30;
/// The largest block that ext4 and XFS can have on most machines.
pub(crate) const BLOCK_BYTES_MAX: u64 = 4096;

/// A filesystem with what its superblock says, mounted or not.
pub(super) struct Made<'a> {
    /// The filesystem's node where it is mounted, else the device.
    pub node: &'a Node,
    /// The device.
    pub device: &'a Node,
    pub device_index: usize,
    /// Where it is mounted; `/` where that is one of several places, else where its top directory is.
    pub mount_point: Option<&'a str>,
    pub fs_type: &'a str,
    pub block_bytes: Option<u64>,
    pub sector_bytes: Option<u64>,
    pub unit_bytes: Option<u64>,
    pub width_bytes: Option<u64>,
    /// Size by the superblock.
    pub size_bytes: Option<u64>,
    /// Blocks of an allocation group (XFS).
    pub group_blocks: Option<u64>,
    /// Options by which a mount finds its parts on other devices (`logdev=`, `rtdev=`); unknown where it is not mounted.
    pub parts: Vec<&'a str>,
}

/// All filesystems on one device each: those that are mounted, and those that only their superblock shows.
pub(super) fn made<'a>(scene: &Scene<'a>) -> Vec<Made<'a>> {
    let mounted = scene.nodes(&[NodeKind::FileSystem]).filter_map(|(index, node)| {
        let fs = node.fs.as_ref()?;
        let mut below = scene.below(index);
        let (device_index, device) = below.next().filter(|_| below.next().is_none())?;
        let said = superblock(device);
        Some(Made {
            node,
            device,
            device_index,
            mount_point: mount_point(scene, index).or_else(|| named_mount(device)),
            fs_type: &fs.fs_type,
            block_bytes: said.and_then(|s| s.block_bytes).or(fs.block_bytes),
            sector_bytes: fs.sector_bytes.or_else(|| said?.sector_bytes),
            unit_bytes: fs.stripe_unit_bytes.or_else(|| said?.stripe_unit_bytes),
            width_bytes: fs.stripe_width_bytes.or_else(|| said?.stripe_width_bytes),
            size_bytes: said
                .and_then(|s| s.size_bytes)
                .map(|size| size.max(size_in_use(fs).unwrap_or(0))),
            group_blocks: said.and_then(|s| s.group_blocks),
            parts: parts(scene, index),
        })
    });
    let at_rest = scene.nodes(&[]).filter_map(|(device_index, device)| {
        let said = superblock(device)?;
        // What a virtual machine has open is not changed from here.
        let is_idle =
            scene.above(device_index).next().is_none() && device.details().opened != Some(true);
        is_idle.then_some(Made {
            node: device,
            device,
            device_index,
            mount_point: named_mount(device),
            fs_type: &said.fs_type,
            block_bytes: said.block_bytes,
            sector_bytes: said.sector_bytes,
            unit_bytes: said.stripe_unit_bytes,
            width_bytes: said.stripe_width_bytes,
            size_bytes: said.size_bytes,
            group_blocks: said.group_blocks,
            parts: Vec::new(),
        })
    });
    mounted.chain(at_rest).collect()
}

/// Without these XFS with a log or a realtime section elsewhere is not mounted again.
fn parts<'a>(scene: &Scene<'a>, filesystem: usize) -> Vec<&'a str> {
    let mount = scene.above(filesystem).find_map(|(_, above)| above.mount.as_ref());
    let options = mount.into_iter().flat_map(|mount| &mount.super_options).map(String::as_str);
    options
        .filter(|option| ["logdev=", "rtdev="].iter().any(|part| option.starts_with(part)))
        .collect()
}

/// The size of a mounted filesystem as it says itself: the superblock on the device may still be that of before it grew, since XFS
/// and btrfs write it past the device's page cache. What XFS tells is without its log.
fn size_in_use(fs: &FsFacts) -> Option<u64> {
    let log = if fs.fs_type == "xfs" { fs.journal_bytes.unwrap_or(0) } else { 0 };
    fs.total_bytes?.checked_add(log)
}

/// The superblock of a device that holds a filesystem itself: a member of an array may show the array's.
fn superblock(device: &Node) -> Option<&fathom_model::stack::detail::FsSuperblock> {
    let content = device.details().content.as_ref()?;
    content.filesystem.as_ref().filter(|_| content.md.is_none() && content.lvm.is_none())
}

/// The place of the mounts on a filesystem that a command takes.
fn mount_point<'a>(scene: &Scene<'a>, filesystem: usize) -> Option<&'a str> {
    let mounts =
        scene.above(filesystem).filter_map(|(_, above)| Some((above, above.mount.as_ref()?)));
    let best = mounts.min_by_key(|(node, mount)| {
        let place = &mount.mount_point;
        (is_elsewhere(node), place != "/", mount.root != "/", place.len())
    });
    best.map(|(_, mount)| mount.mount_point.as_str())
}

/// The same of a device that was named as a target, where nothing above it was looked at.
fn named_mount(device: &Node) -> Option<&str> {
    device.mounted_at.iter().map(String::as_str).find(|place| is_here(place))
}

impl<'a> Made<'a> {
    fn is_ext(&self) -> bool {
        matches!(self.fs_type, "ext2" | "ext3" | "ext4")
    }

    /// What it is called in a sentence.
    fn name(&self) -> String {
        match self.mount_point {
            Some(place) => format!("{} on {place}", self.fs_type),
            None => format!("{} on {}", self.fs_type, self.device.name),
        }
    }

    /// The array below, with what the filesystem should know and what it knows: chunk and full stripe; none where it
    /// knows the right thing, or where nothing is known.
    fn wrong_stripe(&self, scene: &Scene<'a>) -> Option<Wrong<'a>> {
        let (index, striping) = stripe_under(scene, self.device_index)?;
        let (unit, width) = (self.unit_bytes?, self.width_bytes?);
        // Where the members ask for large transfers themselves the kernel's hint, and so what mkfs takes from it, is a
        // multiple of both.
        let stripe = striping.full_stripe_bytes();
        let is_right = unit == striping.chunk_bytes && width > 0 && width.is_multiple_of(stripe);
        // RAID1 in all but name has nothing to tell.
        (!is_right && !striping.is_copy).then(|| Wrong {
            array: scene.node(index),
            striping,
            unit,
            width,
        })
    }
}

/// A filesystem's wrong idea of its array.
struct Wrong<'a> {
    array: &'a Node,
    striping: Striping,
    unit: u64,
    width: u64,
}

impl Wrong<'_> {
    /// Data disks that the filesystem was made for, where only their number is wrong.
    fn earlier_disks(&self) -> Option<u64> {
        let chunk = self.striping.chunk_bytes;
        let is_whole = self.unit == chunk && self.width > 0 && self.width.is_multiple_of(chunk);
        is_whole.then(|| self.width / chunk)
    }

    fn gravity(&self) -> Gravity {
        if self.striping.parity { Gravity::Medium } else { Gravity::Low }
    }

    fn knows(&self) -> String {
        match (self.unit, self.width) {
            (0, 0) => "nothing of it".to_owned(),
            (unit, width) => {
                format!("a chunk of {} and a stripe of {}", format_size(unit), format_size(width))
            }
        }
    }

    fn has(&self) -> String {
        format!(
            "chunks of {} on {} data disks, a stripe of {}",
            format_size(self.striping.chunk_bytes),
            self.striping.data_disks,
            format_size(self.striping.full_stripe_bytes())
        )
    }

    fn evidence(&self, defect: Defect, made: &Made<'_>) -> Defect {
        let source = format!("superblock of {}", made.device.label());
        let knows = format!("stripe unit {} B, stripe width {} B", self.unit, self.width);
        let array = match self.array.kind {
            NodeKind::Md => format!("/sys/block/{}/md/chunk_size and raid_disks", self.array.name),
            _ => format!("table of {}", self.array.label()),
        };
        defect.seen(source, knows).seen(array, self.has())
    }
}

const WHY: &str = "the allocator places large files so that they fill whole stripes, and spreads its own tables over all disks, only when it knows the array: otherwise the array reads before it writes, or one disk gets more than its share";

/// Filesystems of a kind with another idea of the array than it is.
fn geometry(
    scene: &Scene<'_>,
    rule: &str,
    is_kind: fn(&Made<'_>) -> bool,
    tell: fn(Defect, &Made<'_>, &Wrong<'_>) -> Option<Defect>,
) -> Vec<Defect> {
    let all = made(scene);
    let all = all.iter().filter(|made| is_kind(made));
    all.filter_map(|made| {
        let wrong = made.wrong_stripe(scene)?;
        if wrong.earlier_disks().is_some() {
            return None;
        }
        let (name, array) = (made.name(), &wrong.array.name);
        let summary = format!("{name} knows {}; {array} has {}", wrong.knows(), wrong.has());
        let defect = Defect::new(rule, wrong.gravity(), Some(&made.node.key()), summary);
        Some(tell(wrong.evidence(defect, made), made, &wrong)?.because(WHY))
    })
    .collect()
}

/// ext2-4 with another idea of the array than it is.
pub(super) fn ext_geometry(scene: &Scene<'_>) -> Vec<Defect> {
    geometry(scene, "ext4-stripe-geometry", |made| made.is_ext(), tell_ext)
}

/// The commands for ext; none where what is right cannot be said in its units.
fn tell_ext(defect: Defect, made: &Made<'_>, wrong: &Wrong<'_>) -> Option<Defect> {
    let block = made.block_bytes?;
    let options = array::ext_options(&wrong.striping, block)?.words();
    let device = word(made.device.label());
    Some(
        defect
            .command("tell it, also while it is mounted; it counts from the next mount on", format!("tune2fs -E {options} {device}"))
            .advise(format!("or: when it is made anew (that destroys what is on it): mkfs.{} -b {block} -E {options} /dev/EMPTY", made.fs_type))
            .risking("none for the data; files that exist stay where they are")
            .verified_by(format!("dumpe2fs -h {device} | grep -i raid; fathom run seqwrite on a new file of it before and after")),
    )
}

/// XFS with another idea of the array than it is.
pub(super) fn xfs_geometry(scene: &Scene<'_>) -> Vec<Defect> {
    geometry(scene, "xfs-stripe-geometry", |made| made.fs_type == "xfs", tell_xfs)
}

/// The commands for XFS: a mount option changes a stripe unit that is there already and divides the allocation groups,
/// nothing else.
fn tell_xfs(defect: Defect, made: &Made<'_>, wrong: &Wrong<'_>) -> Option<Defect> {
    let options = array::xfs_options(&wrong.striping, made.block_bytes?)?;
    let device = word(made.device.label());
    let place = word(made.mount_point.unwrap_or("MOUNT_POINT"));
    let anew = format!("mkfs.xfs -d {} /dev/EMPTY", options.mkfs_words());
    let verify = format!(
        "xfs_info {place} shows sunit={} swidth={} blks; fathom run seqwrite on a new file of it before and after",
        options.sunit_blocks, options.swidth_blocks
    );
    let defect = defect.verified_by(verify);
    let fits = made.group_blocks.is_none_or(|blocks| blocks.is_multiple_of(options.sunit_blocks));
    if wrong.unit == 0 || !fits {
        let text = if fits {
            "XFS takes a stripe only when it is made"
        } else {
            "its allocation groups are no multiple of the array's chunk, so that a mount option cannot change it"
        };
        return Some(
            defect
                .advise(text)
                .advise(format!("when it is made anew (that destroys what is on it: copy that elsewhere first, and back): {anew}"))
                .risking("making it anew destroys what is on it"),
        );
    }
    let own = options.mount_words();
    let words = std::iter::once(own.as_str()).chain(made.parts.iter().copied());
    let words = words.collect::<Vec<&str>>().join(",");
    let defect = if place == "/" {
        defect.advise(format!("start once with rootflags={words} on the kernel's command line, the array's figures in sectors of 512 bytes; it keeps them"))
    } else {
        defect.command("unmount it", format!("umount {place}")).command(
            "mount it once with the array's figures in sectors of 512 bytes; it keeps them",
            format!("mount -o {words} {device} {place}"),
        )
    };
    Some(
        defect
            .advise(format!("or: where the kernel refuses (the root inode in the way), when it is made anew (that destroys what is on it: copy that elsewhere first, and back): {anew}"))
            .risking("none for the data; files that exist stay where they are; it is out of use for a moment"),
    )
}

/// Right in everything but the number of disks.
pub(super) fn before_reshape(scene: &Scene<'_>) -> Vec<Defect> {
    let all = made(scene);
    all.iter()
        .filter_map(|made| {
            let wrong = made.wrong_stripe(scene)?;
            let earlier = wrong.earlier_disks()?;
            let defect = Defect::new(
                "made-before-reshape",
                wrong.gravity(),
                Some(&made.node.key()),
                format!(
                    "{} was made for {earlier} data disks; {} has {}",
                    made.name(),
                    wrong.array.name,
                    wrong.striping.data_disks
                ),
            )
            .sure(Certainty::Likely);
            let defect = wrong.evidence(defect, made);
            let told = match made.fs_type {
                "xfs" => tell_xfs(defect, made, &wrong)?,
                _ if made.is_ext() => tell_ext(defect, made, &wrong)?,
                _ => return None,
            };
            Some(told.because("the array was probably reshaped since: the filesystem still fills stripes of the old width, which are parts of the new ones"))
        })
        .collect()
}

/// Blocks or sectors that the drive cannot write without reading.
pub(super) fn small_blocks(scene: &Scene<'_>) -> Vec<Defect> {
    let all = made(scene);
    all.iter().filter_map(|made| small_block(scene, made)).collect()
}

fn small_block(scene: &Scene<'_>, made: &Made<'_>) -> Option<Defect> {
    let (physical, drive) = physical_below(scene, made)?;
    let size = made.size_bytes.or(made.device.size_bytes)?;
    let (unit, what) = match made.fs_type {
        "xfs" => (made.sector_bytes?, "sectors"),
        _ if made.is_ext() => (made.block_bytes?, "blocks"),
        _ => return None,
    };
    if unit >= physical.min(BLOCK_BYTES_MAX) || size < SMALL_BYTES {
        return None;
    }
    let wanted = physical.min(BLOCK_BYTES_MAX);
    // Images of distributions are made without knowing the disk, and what a hypervisor calls a block is no drive's.
    let disks = scene.machine().disks_under(made.device_index);
    let is_virtual = !disks.is_empty() && disks.iter().all(|&disk| is_virtual(scene.node(disk)));
    let (gravity, sure) = if is_virtual {
        (Gravity::Low, Certainty::Possible)
    } else {
        (Gravity::Medium, Certainty::Certain)
    };
    let (anew, why) = if made.fs_type == "xfs" {
        (
            format!("mkfs.xfs -s size={wanted} /dev/EMPTY"),
            "the log and the headers of allocation groups are written in such sectors: each time the drive reads a block, changes a part and writes it back, and every fsync waits for that",
        )
    } else {
        (
            format!("mkfs.{} -b {wanted} /dev/EMPTY", made.fs_type),
            "every write of a single block makes the drive read its own larger block, change a part and write it back",
        )
    };
    Some(
        Defect::new(
            "fs-block-below-physical",
            gravity,
            Some(&made.node.key()),
            format!(
                "{} has {what} of {unit} B on a drive with blocks of {physical} B",
                made.name()
            ),
        )
        .sure(sure)
        .seen(format!("superblock of {}", made.device.label()), format!("{what} of {unit} B"))
        .seen(
            format!("/sys/class/block/{drive}/queue/physical_block_size"),
            format!("{physical} B ({} sectors of {SECTOR_BYTES} B)", physical / SECTOR_BYTES),
        )
        .because(why)
        .advise(format!("when it is made anew (that destroys what is on it: copy that elsewhere first, and back): {anew}"))
        .risking("making it anew destroys what is on it")
        .verified_by("fathom run randwrite with fsync_every=1 on a file of it before and after"),
    )
}

/// The physical blocks that a filesystem stands on, and the device that tells them: through a file the kernel does not carry them up.
fn physical_below<'a>(scene: &Scene<'a>, made: &Made<'a>) -> Option<(u64, &'a str)> {
    let own = scene.queue(made.device_index)?.physical_block_bytes?;
    let own = (own, queue_owner(scene, made));
    if !unseen::lies_in_a_file(scene, made.device_index) {
        return Some(own);
    }
    let below = scene.machine().walk_from(made.device_index).into_iter().filter_map(|index| {
        let node = scene.node(index);
        Some((node.queue.as_ref()?.physical_block_bytes?, node.name.as_str()))
    });
    // The first of the largest.
    Some(below.fold(own, |most, one| if one.0 > most.0 { one } else { most }))
}

/// The device whose queue serves the filesystem: a partition has that of its disk.
fn queue_owner<'a>(scene: &Scene<'a>, made: &Made<'a>) -> &'a str {
    let disk = scene.below(made.device_index).next().map(|(_, disk)| disk.name.as_str());
    let own = made.device.name.as_str();
    if made.device.queue.is_some() { own } else { disk.unwrap_or(own) }
}
