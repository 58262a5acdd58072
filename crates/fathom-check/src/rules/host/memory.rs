//! Memory, writeback and swap.

use crate::rules::shared::{list, mount_points, shows_all};
use crate::scene::Scene;
use fathom_base::shell;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::NodeKind;
use fathom_model::system::Swap;

/// Less swap in use than this is what was put away long ago and nobody misses.
const SWAP_USED_BYTES: u64 = 64 << 20;

/// Memory is short, and a part of what is needed lies in swap.
pub(super) fn swapping(scene: &Scene<'_>) -> Vec<Defect> {
    let host = &scene.snapshot.host;
    let (Some(total), Some(available)) = (host.memory_total_bytes, host.memory_available_bytes)
    else {
        return Vec::new();
    };
    let used: u64 =
        scene.snapshot.system.swaps.iter().map(|swap| swap.used_bytes).fold(0, u64::saturating_add);
    if used < SWAP_USED_BYTES.max(total / 20) || available > total / 10 {
        return Vec::new();
    }
    let summary = format!(
        "{} are in swap while {} of {} memory are left: programs wait for paging, and files for the same disks",
        format_size(used),
        format_size(available),
        format_size(total)
    );
    let defect = Defect::new("swapping", Gravity::Medium, None, summary)
        .sure(Certainty::Likely)
        .seen("/proc/swaps", format!("{} in use", format_size(used)))
        .seen("/proc/meminfo: MemAvailable", format_size(available))
        .because("with no memory left for the page cache every read goes to the devices, and paging comes on top")
        .command("find who takes the memory", "ps -eo pid,rss,comm --sort=-rss | head")
        .advise("give less to databases' own caches, or add memory")
        .risking("none to look; smaller caches of programs mean more reads")
        .verified_by("vmstat 5: the columns si and so stay at 0");
    vec![defect]
}

fn swap_nodes<'a>(scene: &Scene<'a>) -> Vec<(&'a Swap, usize)> {
    let swaps = scene.snapshot.system.swaps.iter();
    swaps.filter_map(|swap| Some((swap, scene.by_key(swap.node.as_deref()?)?))).collect()
}

/// Mount points of data that lies on a disk: not the system's own places, which every disk with swap also holds.
fn data_on<'a>(scene: &Scene<'a>, disk: usize) -> Vec<&'a str> {
    let is_data = |place: &&str| {
        let system = ["/", "/boot", "/boot/efi", "/efi", "/usr", "/var", "/tmp", "/home"];
        !system.contains(place) && !place.starts_with("/snap/") && !place.starts_with('[')
    };
    mount_points(scene, disk).into_iter().filter(is_data).collect()
}

/// The command that takes a swap out of use, where what is in all of them fits into memory one and a half times: else the kernel
/// would end programs to make room.
fn give_up(scene: &Scene<'_>, defect: Defect, swap: &Swap, text: &str) -> Defect {
    let used = scene.snapshot.system.swaps.iter().map(|swap| swap.used_bytes);
    let used = used.fold(0, u64::saturating_add);
    let command = format!("swapoff {}", shell::word(&swap.path));
    match scene.snapshot.host.memory_available_bytes {
        Some(free) if free > used.saturating_add(used / 2) => defect.command(text, command),
        free => defect.advise(format!(
            "do not switch it off now: {} are in swap, and {} of memory are available; the kernel \
            would end programs to make room",
            format_size(used),
            free.map_or_else(|| "an unknown part".to_owned(), format_size)
        )),
    }
}

/// Swap that is used, on disks that rotate and hold data.
pub(super) fn swap_same_disks(scene: &Scene<'_>) -> Vec<Defect> {
    let mut found = Vec::new();
    for (swap, index) in swap_nodes(scene) {
        if swap.used_bytes < SWAP_USED_BYTES {
            continue;
        }
        let shared = scene.machine().disks_under(index).into_iter().find_map(|disk| {
            let node = scene.node(disk);
            let rotates = node.queue.as_ref().and_then(|queue| queue.rotational) == Some(true);
            let data = data_on(scene, disk);
            (super::is_physical(node) && rotates && !data.is_empty()).then_some((node, data))
        });
        let Some((disk, data)) = shared else { continue };
        let summary = format!(
            "swap ({} in use) lies on the spindles of {}: {}",
            format_size(swap.used_bytes),
            list(data.iter().copied()),
            disk.label()
        );
        let defect =
            Defect::new("swap-same-disks", Gravity::Medium, Some(&scene.node(index).key()), summary)
                .concerning(disk.key())
                .seen("/proc/swaps", format!("{} {} in use", swap.path, format_size(swap.used_bytes)))
                .seen(format!("/sys/block/{}/queue/rotational", disk.name), "1")
                .because("each page that is fetched moves the arm away from the data and back, some ten milliseconds each time, when the machine is under pressure anyway");
        found.push(
            give_up(scene, defect, swap, "give it up: memory suffices for what is in it")
                .advise("put swap on other disks (a mirror of its own), or on zram")
                .risking("without swap the kernel ends programs when memory runs out; swapoff first reads everything back into memory")
                .verified_by("cat /proc/swaps; iostat -x 5 on the disk while the machine is under pressure"),
        );
    }
    found
}

/// Swap on a single disk of a machine whose system survives the loss of a disk.
pub(super) fn swap_not_redundant(scene: &Scene<'_>) -> Vec<Defect> {
    let is_mirrored = |index: usize| {
        let walk = scene.machine().walk_from(index).into_iter();
        walk.filter_map(|below| scene.node(below).md.as_ref()?.level.as_deref())
            .any(|level| matches!(level, "raid1" | "raid4" | "raid5" | "raid6" | "raid10"))
    };
    let mut mounts = scene.nodes(&[NodeKind::Mount]);
    let Some((root, _)) = mounts.find(|(_, node)| node.label() == "/") else { return Vec::new() };
    if !is_mirrored(root) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (swap, index) in swap_nodes(scene) {
        let disks = scene.machine().disks_under(index);
        // Other layers that copy (LVM, btrfs, hardware) are not looked into.
        let node = scene.node(index);
        if swap.file || disks.is_empty() || is_mirrored(index) || node.kind == NodeKind::Dm {
            continue;
        }
        let names = list(disks.iter().map(|disk| scene.node(*disk).label()));
        let summary = format!(
            "swap {} lies on {names} alone, while the system survives the loss of a disk",
            swap.path
        );
        let defect = Defect::new("swap-not-redundant", Gravity::Medium, Some(&node.key()), summary)
            .seen("/proc/swaps", format!("{} {}", swap.path, format_size(swap.size_bytes)))
            .seen("/proc/mdstat", "/ lies on a redundant array")
            .because("when that disk fails, every program with pages there is killed or gets wrong answers, and the array has helped nothing")
            .advise("make a RAID1 of partitions on two disks and use it for swap: mdadm --create --level=1, mkswap, swapon, /etc/fstab")
;
        let defect = give_up(scene, defect, swap, "take the unprotected one out of use")
            .risking("swapoff reads everything back into memory first: see that there is room")
            .verified_by("cat /proc/swaps names an array only");
        found.push(defect);
    }
    found
}

/// The kernel's periodic writeback is switched off.
pub(super) fn writeback_off(scene: &Scene<'_>) -> Vec<Defect> {
    if scene.vm("dirty_writeback_centisecs") != Some("0") {
        return Vec::new();
    }
    let summary = "periodic writeback is off: written data stays in memory until a limit is reached or somebody syncs";
    let defect = Defect::new("writeback-off", Gravity::Medium, None, summary)
        .seen("/proc/sys/vm/dirty_writeback_centisecs", "0")
        .because("a power cut or a crash loses everything that programs wrote without syncing, however long ago; and the limit is reached in one burst")
        .command("write back every 5 seconds, as by default", "sysctl vm.dirty_writeback_centisecs=500")
        .command("find who sets it", "grep -rs dirty_writeback /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d")
        .risking("disks that are to sleep are woken")
        .verified_by("grep Dirty /proc/meminfo falls by itself half a minute after a large copy");
    vec![defect]
}

/// A control group around this process allows less than half of the memory.
pub(super) fn memory_limit(scene: &Scene<'_>) -> Vec<Defect> {
    let host = &scene.snapshot.host;
    let (Some(total), Some(limit)) = (host.memory_total_bytes, host.cgroup_memory_limit_bytes)
    else {
        return Vec::new();
    };
    if limit >= total / 2 || !shows_all(scene) {
        return Vec::new();
    }
    let summary = format!(
        "the control group of this process may use {} of {} memory, page cache included",
        format_size(limit),
        format_size(total)
    );
    let defect = Defect::new("memory-limit", Gravity::Low, None, summary)
        .seen("memory.max, memory.high or memory.limit_in_bytes of the groups in /proc/self/cgroup", format_size(limit))
        .because("what programs in it read is thrown out of the cache that much earlier, and written data is held up at that limit's dirty share instead of the machine's")
        .advise("raise MemoryMax= or MemoryHigh= of the unit or the container's limit, if its files are to be cached")
        .risking("memory for this group is taken from others")
        .verified_by("buffered reads of a file larger than the limit: fathom run seqread PATH direct=no, twice");
    vec![defect]
}
