//! Fast drives in front of slow ones: dm-cache and bcache.

use super::{by_lvm, devices, is_lvm, status_of, table_of, volume_name};
use crate::dm::{self, CacheState, CacheStatus};
use crate::rules::shared::drives;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{DmFacts, Node, NodeKind};

fn caches<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (usize, &'a Node, &'a DmFacts, CacheStatus<'a>)> {
    devices(scene).filter_map(|(index, node, dm)| {
        let line =
            dm.status.iter().filter_map(|text| dm::line(text)).find(|line| line.kind == "cache")?;
        Some((index, node, dm, dm::cache_status(line.words)?))
    })
}

/// What `bcache/state` says of a device without a cache.
const NO_CACHE: &str = "no cache";

/// An attribute of a bcache device; of a list of choices the one in brackets.
fn bcache<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let all = &node.details().bcache;
    let value = all.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())?;
    let chosen = value.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Some(chosen.map_or(value, |(word, _)| word))
}

/// A cache that has given up.
pub(super) fn failed(scene: &Scene<'_>) -> Vec<Defect> {
    let of_dm = caches(scene).filter_map(|(_, node, dm, status)| {
        let what = match status {
            CacheStatus::Failed => "has failed: its metadata cannot be used",
            CacheStatus::Works(state) if state.needs_check => "needs its metadata checked",
            CacheStatus::Works(state) if !state.writable => "cannot write its metadata",
            CacheStatus::Works(state)
                if state.metadata.share().is_some_and(|share| share >= 0.95) =>
            {
                "has nearly no space for metadata left"
            }
            CacheStatus::Works(_) => return None,
        };
        let line = dm.status.first().cloned().unwrap_or_default();
        let name = volume_name(node, dm);
        let quoted = word(&name);
        let defect = told(node, format!("the cache of {name} {what}"), status_of(dm, node), line);
        let text =
            "take the cache away; what it holds and the drive does not is written back first";
        let uncache = format!("lvconvert --uncache {quoted}");
        let by_hand = "unmount it, and write back what only the cache holds: cache_writeback";
        let defect = by_lvm(defect, dm, text, uncache, by_hand);
        let text = "when that fails, repair its metadata";
        let repair = format!("lvconvert --repair {quoted}");
        let by_hand = "when that fails, repair its metadata into another device: cache_repair";
        Some(
            by_lvm(defect, dm, text, repair, by_hand)
                .verified_by(format!("{} says rw without needs_check", status_of(dm, node))),
        )
    });
    let of_bcache = scene.nodes(&[NodeKind::Bcache]).filter_map(|(_, node)| {
        let file = format!("/sys/block/{}/bcache/state", node.name);
        let defect = match bcache(node, "state")? {
            state @ "inconsistent" => inconsistent(node, &file, state),
            state @ NO_CACHE => detached(node, &file, state),
            _ => return None,
        };
        Some(defect.verified_by(format!("cat {} says clean or dirty", word(file))))
    });
    of_dm.chain(of_bcache).collect()
}

fn inconsistent(node: &Node, file: &str, state: &str) -> Defect {
    let summary = format!("{} was used without its cache while that held newer data", node.name);
    told(node, summary, file.to_owned(), state.to_owned()).advise(
        "stop what uses it, and take what is on it for damaged: check the filesystem without \
        changing anything, and compare with the backup; bcache writes nothing of that cache any more",
    )
}

/// It never had a cache, or was detached: by somebody, or by the kernel after errors of the cache's drive.
fn detached(node: &Node, file: &str, state: &str) -> Defect {
    let attach = format!("/sys/block/{}/bcache/attach", node.name);
    Defect::new(
        "cache-failed",
        Gravity::Low,
        Some(&node.key()),
        format!("{} has no cache: none is attached", node.name),
    )
    .sure(Certainty::Possible)
    .seen(file, state)
    .because(
        "all I/O goes at the pace of the slow drive; that is how a drive is prepared for a cache that \
        comes later, and also what the kernel leaves behind when it gave up the drive of the cache",
    )
    .command("see whether the kernel gave one up", "dmesg -T | grep -i bcache")
    .command(
        "the sets that are there (a drive of a cache that is not among them is registered by its path in \
        /sys/fs/bcache/register)",
        "ls -d /sys/fs/bcache/*-*",
    )
    .command(
        "attach one of them; with the name of a set in the place of SET_UUID",
        format!("echo SET_UUID > {}", word(&attach)),
    )
    .risking("none for the data: what a detached cache held was written back, or is lost already")
}

fn told(node: &Node, summary: String, source: String, value: String) -> Defect {
    Defect::new("cache-failed", Gravity::High, Some(&node.key()), summary)
        .seen(source, value)
        .because(
            "all I/O goes at the pace of the slow drive, and with a cache that keeps writes \
            back the newest data may be missing",
        )
        .risking(
            "where the cache kept writes back, taking it away without writing them loses \
            them and damages the filesystem: copy first where the data matters",
        )
}

/// A cache that only reads profit from.
pub(super) fn not_writing(scene: &Scene<'_>) -> Vec<Defect> {
    let of_dm = caches(scene).filter_map(|(_, node, dm, status)| {
        let CacheStatus::Works(state) = status else { return None };
        let mode = Some(state.mode).filter(|mode| !mode.is_empty()).or_else(|| {
            let line = dm::lines(&dm.table, "cache").next()?;
            dm::cache_table(line.words).map(|table| table.mode)
        })?;
        let name = volume_name(node, dm);
        let command = is_lvm(dm).then(|| format!("lvchange --cachemode writeback {}", word(&name)));
        mode_told(node, &name, mode, table_of(dm, node), command, Some(hits(&state)))
    });
    let of_bcache = scene.nodes(&[NodeKind::Bcache]).filter_map(|(_, node)| {
        let mode =
            bcache(node, "cache_mode").filter(|_| bcache(node, "state") != Some(NO_CACHE))?;
        let file = format!("/sys/block/{}/bcache/cache_mode", node.name);
        let command = Some(format!("echo writeback > {}", word(&file)));
        mode_told(node, &node.name, mode, file, command, None)
    });
    of_dm.chain(of_bcache).collect()
}

fn hits(state: &CacheState<'_>) -> String {
    let reads = state.read_hits.saturating_add(state.read_misses);
    let share = state.read_hits as f64 / reads.max(1) as f64 * 100.0;
    format!("{share:.0} % of {reads} reads found")
}

fn mode_told(
    node: &Node,
    name: &str,
    mode: &str,
    source: String,
    command: Option<String>,
    hits: Option<String>,
) -> Option<Defect> {
    let (gravity, words) = match mode {
        "writethrough" => (Gravity::Low, "every write waits for the slow drive (writethrough)"),
        "writearound" => (Gravity::Low, "writes go past it to the slow drive (writearound)"),
        "passthrough" | "none" => (Gravity::Medium, "nothing is taken from it"),
        _ => return None,
    };
    let defect = Defect::new(
        "cache-not-writing",
        gravity,
        Some(&node.key()),
        format!("{name} has a cache, but {words}"),
    )
    .seen(source, mode);
    let defect = match hits {
        Some(hits) => defect.seen("dmsetup status: hits and misses of reads", hits),
        None => defect,
    };
    let defect = defect.because(
        "commits and random writes are as slow as without the fast drive; it is the safe \
        choice where that drive is not mirrored",
    );
    let defect = match command {
        Some(command) => defect.command(
            "where the cache is on mirrored drives with power loss protection, keep writes back",
            command,
        ),
        None => defect.advise(
            "where the cache is on mirrored drives with power loss protection, load a table \
            with writeback",
        ),
    };
    Some(
        defect
            .risking(
                "with writeback the cache holds the only copy of new data: if it is lost, \
                the filesystem is",
            )
            .verified_by("fathom run randwrite on a file before and after"),
    )
}

/// New data that is on one drive of the cache only.
pub(super) fn dirty_alone(scene: &Scene<'_>) -> Vec<Defect> {
    let of_dm = caches(scene).filter_map(|(index, node, dm, status)| {
        let CacheStatus::Works(state) = status else { return None };
        let line = dm::lines(&dm.table, "cache").next()?;
        let table = dm::cache_table(line.words).filter(|table| table.mode == "writeback")?;
        let cache = scene
            .below(index)
            .find(|(_, below)| below.devno.as_deref() == Some(table.cache_device))?
            .0;
        let dirty = state.dirty_blocks.saturating_mul(table.block_bytes);
        let seen = (
            status_of(dm, node),
            format!("writeback, {} not on the slow drive yet", format_size(dirty)),
        );
        let name = volume_name(node, dm);
        let fix = is_lvm(dm).then(|| format!("lvchange --cachemode writethrough {}", word(&name)));
        alone(scene, node, &name, cache, (seen, fix))
    });
    let of_bcache = scene.nodes(&[NodeKind::Bcache]).filter_map(|(index, node)| {
        bcache(node, "cache_mode").filter(|mode| *mode == "writeback")?;
        // Two devices below: the one that holds data, and the cache.
        let is_cache = |node: &Node| {
            let content = node.details().content.as_ref();
            content
                .and_then(|c| c.bcache.as_ref())
                .is_some_and(|superblock| superblock.kind == "cache")
        };
        let cache = scene.below(index).find(|(_, below)| is_cache(below))?.0;
        let dirty = bcache(node, "dirty_data").unwrap_or("unknown");
        let file = format!("/sys/block/{}/bcache/cache_mode", node.name);
        let fix = format!("echo writethrough > {}", word(&file));
        let seen = (file, format!("writeback, dirty data {dirty}"));
        alone(scene, node, &node.name, cache, (seen, Some(fix)))
    });
    of_dm.chain(of_bcache).chain(of_writecache(scene)).collect()
}

/// dm-writecache always keeps what is new on its fast drive alone.
fn of_writecache<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = Defect> + 'a {
    devices(scene).filter_map(|(index, node, dm)| {
        let line = dm::lines(&dm.table, "writecache").next()?;
        let number = line.words.split_ascii_whitespace().nth(2)?;
        let mut below = scene.below(index);
        let cache = below.find(|(_, below)| below.devno.as_deref() == Some(number))?.0;
        let name = volume_name(node, dm);
        let fix = is_lvm(dm).then(|| format!("lvconvert --splitcache {}", word(&name)));
        let seen = (table_of(dm, node), "writecache".to_owned());
        alone(scene, node, &name, cache, (seen, fix))
    })
}

fn alone(
    scene: &Scene<'_>,
    node: &Node,
    name: &str,
    cache: usize,
    (seen, fix): ((String, String), Option<String>),
) -> Option<Defect> {
    let redundant = scene.machine().walk_from(cache).into_iter().any(|index| {
        let level = scene.node(index).md.as_ref().and_then(|md| md.level.as_deref());
        matches!(level, Some("raid1" | "raid10" | "raid5" | "raid6"))
            || scene
                .node(index)
                .dm
                .as_ref()
                .is_some_and(|dm| dm.targets.iter().any(|t| t == "raid" || t == "mirror"))
    });
    let drives = drives(scene, cache);
    if redundant || drives.len() != 1 {
        return None;
    }
    let device = scene.node(cache);
    let defect = Defect::new(
        "cache-dirty-alone",
        Gravity::Medium,
        Some(&node.key()),
        format!("{name} keeps writes back in a cache on a single drive ({})", device.name),
    )
    .sure(Certainty::Likely)
    .concerning(device.key())
    .seen(seen.0, seen.1)
    .because(
        "when this drive fails, the newest writes are gone and the filesystem on the \
            slow drive is damaged, however well that is mirrored",
    )
    .advise("put the cache on a mirror of two drives with power loss protection");
    let defect = match fix {
        Some(command) => defect.command("or let writes wait for the slow drive", command),
        None => defect.advise(
            "or let writes wait for the slow drive: load a table with writethrough, or without writecache",
        ),
    };
    Some(
        defect
            .risking("none; writes become as slow as the slow drive")
            .verified_by("fathom run randwrite on a file before and after shows what that costs"),
    )
}
