//! What an array is doing, and what it lacks.

use super::{
    Standing, arrays, is_dying, is_level, is_rebuilding, is_redundant, losses_left, md_detail,
    md_file, save_the_last, standing, superblocks,
};
use crate::conditions;
use crate::rules::disks::is_failing;
use crate::rules::shared::{holder_of_members, is_of_firmware, list};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::{format_duration, format_rate, format_size};
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{MdFacts, Node};
use std::collections::BTreeSet;

/// Below this a limit holds a rebuild back more than any drive would, in KiB per second.
const SLOW_LIMIT_KIB_PER_S: u64 = 10_000;

/// An array without all its members.
pub(super) fn degraded(scene: &Scene<'_>) -> Vec<Defect> {
    let all = arrays(scene).filter(|(_, _, md)| is_redundant(md) && !is_broken(md));
    all.filter_map(|(index, node, md)| {
        let missing = md.degraded.filter(|&missing| missing > 0)?;
        let failed = conditions::failed_members(md);
        let of = md.raid_disks.map_or_else(String::new, |all| format!(" of {all}"));
        let who = if failed.is_empty() {
            String::new()
        } else {
            format!(" ({} failed)", list(failed.iter().copied()))
        };
        let rebuild = if is_rebuilding(md) {
            format!("; it is rebuilding{}", conditions::done_words(md))
        } else {
            String::new()
        };
        let name = &node.name;
        let mut defect = Defect::new(
            "md-degraded",
            Gravity::High,
            Some(&node.key()),
            format!("{name} lacks {missing}{of} members{who}{rebuild}"),
        )
        .seen(md_file(node, "degraded"), missing.to_string())
        .because(why_degraded(md));
        if let Some(cause) = cause(scene, index, md) {
            defect = defect.by_loss_of(cause);
        }
        for member in failed {
            defect = defect.seen(md_file(node, &format!("dev-{member}/state")), "faulty");
        }
        Some(mend(scene, index, defect))
    })
    .collect()
}

/// What an array without all its members is told with: the drives that hold the last copy and are dying, for they decide what is
/// done with it, else those that it has lost.
fn cause(scene: &Scene<'_>, index: usize, md: &MdFacts) -> Option<Vec<String>> {
    let dying = dying_last(scene, index).into_iter();
    let dying = dying.filter(|(member, _)| is_failing(scene, *member));
    let keys: Vec<String> = dying.map(|(_, device)| device.key()).collect();
    if keys.is_empty() { lost(scene, index, md) } else { Some(keys) }
}

/// The members that hold the last copy of something and are on their way out.
fn dying_last<'a>(scene: &Scene<'a>, index: usize) -> Vec<(usize, &'a Node)> {
    let node = scene.node(index);
    let is_last =
        |name: &str| node.md.as_ref().is_some_and(|md| standing(md, name) == Standing::Last);
    let members = scene.below(index);
    members
        .filter(|(member, device)| is_last(&device.name) && is_dying(scene, node, *member))
        .collect()
}

/// The devices whose loss it is that an array lacks members; none where not all of these are known.
fn lost(scene: &Scene<'_>, index: usize, md: &MdFacts) -> Option<Vec<String>> {
    let failed = conditions::failed_members(md).into_iter().map(|name| scene.device(name));
    let left_out = superblocks::left_out(scene, index).into_iter().map(|(left, _)| Some(left));
    let devices = failed.chain(left_out).collect::<Option<Vec<usize>>>()?;
    let are_all = md.degraded == Some(devices.len() as u64);
    are_all.then(|| devices.into_iter().map(|device| scene.node(device).key()).collect())
}

fn why_degraded(md: &MdFacts) -> String {
    let next = match losses_left(md) {
        Some(0) => "one more lost member can take all its data with it",
        Some(_) => "it has less left to lose than it was made for",
        None => "it is less safe than it looks",
    };
    format!(
        "{next}, and what the missing member held is computed or read elsewhere for each request"
    )
}

/// What to do depends on whether the lost member is still there, and whether the array is at it already.
fn mend(scene: &Scene<'_>, index: usize, defect: Defect) -> Defect {
    let node = scene.node(index);
    let (array, holder) = (word(node.label()), holder_of_members(node));
    let mut defect =
        defect.command("see which member is missing, and why", format!("mdadm --detail {array}"));
    // A rebuild that reads a dying drive without another copy loses what it was to save.
    let dying = dying_last(scene, index);
    for (_, device) in &dying {
        defect = defect.concerning(device.key()).advise(save_the_last(node, &device.name));
    }
    if node.md.as_ref().is_some_and(is_rebuilding) {
        return defect
            .command("let it end", format!("mdadm --wait {array}"))
            .risking(match node.md.as_ref().and_then(losses_left) {
                Some(1..) => "none; until the end it forgives fewer losses than it was made for",
                _ => "none; until the end a further loss can take the data",
            })
            .verified_by(format!("cat {} says 0", word(md_file(node, "degraded"))));
    }
    let left_out = superblocks::left_out(scene, index);
    for (member, behind) in &left_out {
        let device = scene.node(*member);
        let told = behind.map_or_else(String::new, |events| format!(", {events} events behind"));
        defect = defect.concerning(device.key()).seen(
            format!("md superblock of {}", device.label()),
            format!("belongs to this array{told}"),
        );
        let keeps_changes = keeps_changes(node) || *behind == Some(0);
        defect = if is_failing(scene, *member) {
            defect.advise(format!(
                "{} was a member and reports damage itself (drive-failing): do not take it back",
                device.name
            ))
        } else if keeps_changes || dying.is_empty() {
            take_back(defect, node, device, keeps_changes)
        } else {
            defect
        };
    }
    for member in node.md.as_ref().map(conditions::failed_members).unwrap_or_default() {
        defect = defect.command(
            format!("take {member} out, then replace the drive"),
            format!("mdadm {holder} --remove {}", word(format!("/dev/{member}"))),
        );
    }
    let is_wanted = left_out.iter().all(|(member, _)| is_failing(scene, *member));
    if is_wanted && dying.is_empty() {
        defect = defect.command(
            "add the new drive, partitioned as the old one was",
            format!("mdadm {holder} --add /dev/NEW"),
        );
    }
    defect
        .risking(
            "--add overwrites the device that is named; the rebuild reads every other \
            member from end to end, which may show further bad ones: have a backup first",
        )
        .verified_by(format!(
            "cat {} says 0 after the rebuild; fathom quick \
            before and after shows what the loss cost",
            word(md_file(node, "degraded"))
        ))
}

/// True where a bitmap says what was written while a member was away.
fn keeps_changes(array: &Node) -> bool {
    let policy = array.md.as_ref().and_then(|md| md.consistency_policy.as_deref());
    policy == Some("bitmap") && !is_of_firmware(array)
}

/// The step that takes a member back. Without a bitmap that says what changed meanwhile, the kernel refuses `--re-add` of one
/// that is behind.
fn take_back(defect: Defect, array: &Node, device: &Node, keeps_changes: bool) -> Defect {
    let (holder, path) = (holder_of_members(array), word(device.label()));
    let was =
        format!("{} was a member: if its drive and cable are good, take it back", device.name);
    let add = format!("mdadm {holder} --add {path}");
    if keeps_changes {
        let text = format!("{was} (only what changed is copied)");
        let defect = defect.command(text, format!("mdadm {holder} --re-add {path}"));
        return defect.advise(format!("where that is refused, it is copied in full: {add}"));
    }
    defect.command(format!("{was} (without a bitmap it is overwritten and copied in full)"), add)
}

/// An array that waits for its first write before it makes its copies or parity agree.
pub(super) fn resync_pending(scene: &Scene<'_>) -> Vec<Defect> {
    let all = arrays(scene).filter(|(_, _, md)| is_redundant(md) && md.degraded == Some(0));
    all.filter_map(|(_, node, md)| {
        let state = md.array_state.as_deref().filter(|s| matches!(*s, "read-auto" | "readonly"))?;
        let from: u64 = md_detail(node, "resync_start")?.parse().ok()?;
        let array = word(node.label());
        Some(
            Defect::new(
                "md-resync-pending",
                Gravity::Medium,
                Some(&node.key()),
                format!("the copies or parity of {} do not agree yet, and it waits", node.name),
            )
            .seen(md_file(node, "resync_start"), from.to_string())
            .seen(md_file(node, "array_state"), state)
            .because(
                "it was stopped before it had finished, or in the middle of writes: a member that fails \
                now is rebuilt from what does not fit together",
            )
            .command("let it begin; the first write would do so too", format!("mdadm --readwrite {array}"))
            .risking(
                "members are read and written from end to end; not for an array that was made \
                read-only on purpose, to be saved or looked into",
            )
            .verified_by(format!("cat {} says none in the end", word(md_file(node, "resync_start")))),
        )
    })
    .collect()
}

/// The array has lost more than its level forgives.
pub(super) fn broken(scene: &Scene<'_>) -> Vec<Defect> {
    let all = arrays(scene).filter(|(_, _, md)| is_broken(md));
    all.map(|(index, node, md)| {
        let failed = conditions::failed_members(md);
        let who = if failed.is_empty() {
            String::new()
        } else {
            format!(" ({} failed)", list(failed.iter().copied()))
        };
        Defect::new(
            "md-broken",
            Gravity::High,
            Some(&node.key()),
            format!("{} has lost more members than it can{who}", node.name),
        )
        .seen(md_file(node, "array_state"), md.array_state.clone().unwrap_or_default())
        .seen(md_file(node, "degraded"), md.degraded.unwrap_or(0).to_string())
        .because("requests for the lost part fail, and filesystems on it stop or turn read-only")
        .command(
            "first save what is known of the members",
            format!("mdadm --examine {} >/root/members.txt", member_paths(scene, index, md)),
        )
        .advise(
            "find out whether drives failed or only a cable or adapter: drives that left \
            together are usually good",
        )
        .advise(
            "read: fathom check --explain degraded, which says when members can be taken \
            back by force",
        )
        .risking(
            "forcing members that are out of date together gives mixed old and new data: \
            copy the drives first where the data matters",
        )
        .verified_by(format!(
            "mdadm --detail {} shows all members, then a read-only check of the filesystem",
            word(node.label())
        ))
    })
    .collect()
}

/// The members that the array knows, and those that only their superblocks show.
fn member_paths(scene: &Scene<'_>, index: usize, md: &MdFacts) -> String {
    let mut paths: Vec<String> =
        md.members.iter().map(|member| word(format!("/dev/{}", member.name))).collect();
    for (left, _) in superblocks::left_out(scene, index) {
        let path = word(scene.node(left).label());
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    if paths.is_empty() { "/dev/MEMBER...".to_owned() } else { paths.join(" ") }
}

/// The kernel's word for a lost raid0 or linear array; others by what they lack.
fn is_broken(md: &MdFacts) -> bool {
    let gone = md.array_state.as_deref() == Some("broken");
    let too_many = match (md.level.as_deref(), md.degraded, md.raid_disks) {
        (Some("raid4" | "raid5"), Some(missing), _) => missing > 1,
        (Some("raid6"), Some(missing), _) => missing > 2,
        (Some("raid1"), Some(missing), Some(all)) => all > 0 && missing >= all,
        _ => false,
    };
    gone || too_many
}

/// Who of an array that does not run is there, in words, and whether it may run with these. The kernel tells neither level nor
/// members of such an array, and takes spares for members; the superblocks know.
fn who_is_there(scene: &Scene<'_>, md: &MdFacts) -> (String, bool) {
    let said = superblocks::of_members(scene, md);
    let all = md.raid_disks.filter(|&all| all > 0).or(said.and_then(|sb| sb.raid_disks));
    let of = all.map_or_else(String::new, |all| format!(" of {all}"));
    let places = superblocks::places(scene, md);
    let there = places.as_ref().map_or(md.members.len(), BTreeSet::len);
    let beside = match md.members.len() - there {
        0 => String::new(),
        spares => format!(" and {spares} without data"),
    };
    let needed = said.and_then(superblocks::needed);
    let least = said.and_then(superblocks::least);
    let level = match (needed, least) {
        (Some((level, whichever)), Some(least)) if least < whichever => format!(
            "; it is a {level} and needs {whichever}, or as few as {least} where each pair has one"
        ),
        (Some((level, whichever)), _) => format!("; it is a {level} and needs {whichever}"),
        _ => String::new(),
    };
    let can_run = match (said, &places) {
        (Some(sb), Some(places)) if sb.level == Some(10) => superblocks::hold_all(sb, places),
        _ => least.is_none_or(|least| there as u64 >= least),
    };
    (format!("{there}{of} members{beside} are there{level}"), can_run)
}

/// Collected, but not started.
pub(super) fn inactive(scene: &Scene<'_>) -> Vec<Defect> {
    let is_container = |node: &Node, md: &MdFacts| {
        md.level.as_deref() == Some("container") || is_of_firmware(node)
    };
    let all = arrays(scene).filter(|(_, node, md)| {
        md.array_state.as_deref() == Some("inactive") && !is_container(node, md)
    });
    all.map(|(index, node, md)| {
        let array = word(node.label());
        let (who, can_run) = who_is_there(scene, md);
        let mut defect = Defect::new(
            "md-inactive",
            Gravity::High,
            Some(&node.key()),
            format!("{} is not started: {who}", node.name),
        );
        for (member, _) in superblocks::left_out(scene, index) {
            let device = scene.node(member);
            let source = format!("md superblock of {}", device.label());
            let command = format!("mdadm --incremental {}", word(device.label()));
            defect = defect
                .concerning(device.key())
                .seen(source, "belongs to this array")
                .command(format!("{} belongs to it too: let it join", device.name), command);
        }
        let defect = defect
            .seen(md_file(node, "array_state"), "inactive")
            .because(
                "nothing on it can be read until it runs; usually members are missing, or they \
            disagree on what happened last",
            )
            .command("see which members it waits for", format!("mdadm --detail {array}"))
            .command("compare the members' event counts", "mdadm --examine --scan --verbose");
        let defect = if can_run {
            defect.command(
                "when all that can come are there, start it with what it has",
                format!("mdadm --run {array}"),
            )
        } else {
            defect.advise(
                "it cannot start with these: bring the others back (power, cable, adapter); \
                mdadm --incremental DEVICE takes each of them in, and the last one starts it",
            )
        };
        defect
            .risking(
                "started without a member it is degraded, and writes leave that member behind; \
            never use --force before reading fathom check --explain degraded",
            )
            .verified_by(format!("cat {} says clean or active", word(md_file(node, "array_state"))))
    })
    .collect()
}

/// A missing member, and nobody may rebuild.
pub(super) fn frozen(scene: &Scene<'_>) -> Vec<Defect> {
    let all = arrays(scene).filter(|(_, _, md)| md.sync_action.as_deref() == Some("frozen"));
    all.map(|(_, node, _)| {
        let file = md_file(node, "sync_action");
        Defect::new(
            "md-sync-frozen",
            Gravity::Medium,
            Some(&node.key()),
            format!("{} is told not to rebuild, resync or check", node.name),
        )
        .seen(file.clone(), "frozen")
        .because(
            "a spare is not used and a replaced member not filled for as long as it stays \
            frozen; mdadm freezes an array only while it changes it",
        )
        .advise("make sure that no mdadm --grow or --add is at work: ps -C mdadm")
        .command("let it work again", format!("echo idle > {}", word(&file)))
        .risking("none, when no mdadm is at work on it")
        .verified_by(format!("cat {} says idle, resync or recover", word(&file)))
    })
    .collect()
}

/// A check, resync, rebuild or reshape at work. The rebuild of a degraded array is told with what it lacks.
pub(super) fn sync_running(scene: &Scene<'_>) -> Vec<Defect> {
    let is_told = |md: &MdFacts| {
        md.sync_action.as_deref() == Some("recover")
            && md.degraded.is_some_and(|missing| missing > 0)
    };
    let all = arrays(scene).filter(|(_, _, md)| !is_told(md));
    all.filter_map(|(_, node, md)| {
        let words = conditions::array_work(md)?;
        let speed = md.sync_speed_bytes_per_s.filter(|&speed| speed > 0);
        let speed =
            speed.map_or_else(String::new, |speed| format!(" at {}", format_rate(speed as f64)));
        let gravity =
            if md.sync_action.as_deref() == Some("check") { Gravity::Low } else { Gravity::Medium };
        let done = conditions::done_words(md);
        let defect = Defect::new(
            "md-sync-running",
            gravity,
            Some(&node.key()),
            format!("{} {words}{done}{speed}", node.name),
        )
        .seen(md_file(node, "sync_action"), md.sync_action.clone().unwrap_or_default());
        Some(slow_down_or_wait(node, md, defect))
    })
    .collect()
}

/// Work that goes slower than this holds nobody up, in KiB per second: at half of it, it would not end.
const SLOW_ENOUGH_KIB_PER_S: u64 = 5_000;

/// The command for half of the speed that it has now; none where that is slow enough, or no less than the limits.
fn slower(node: &Node, md: &MdFacts) -> Option<String> {
    let limit = |name| md_detail(node, name)?.split_whitespace().next()?.parse::<u64>().ok();
    let now = md.sync_speed_bytes_per_s? / 1024;
    let half = (now / 2).max(limit("sync_speed_min").unwrap_or(0));
    let is_less = half < now && limit("sync_speed_max").is_none_or(|max| half < max);
    let file = word(md_file(node, "sync_speed_max"));
    (now >= SLOW_ENOUGH_KIB_PER_S && is_less).then(|| format!("echo {half} > {file}"))
}

fn slow_down(defect: Defect, text: &str, command: Option<String>) -> Defect {
    match command {
        Some(command) => defect.command(text, command),
        None => defect,
    }
}

fn slow_down_or_wait(node: &Node, md: &MdFacts, defect: Defect) -> Defect {
    let slower = slower(node, md);
    let defect = defect.because(
        "it takes its share of every member's time: rates are too low and tails too long \
        meanwhile, and so is what a benchmark shows",
    );
    let array = word(node.label());
    if matches!(md.sync_action.as_deref(), Some("check" | "repair")) {
        let file = md_file(node, "sync_action");
        let defect = defect.command(
            "let it end, or stop it and let it run at a quieter time",
            format!("echo idle > {}", word(&file)),
        );
        let text = "or slow it down to half (KiB/s for each member); back with: system";
        return slow_down(defect, text, slower)
            .risking(
                "what is not checked is not known to be readable when a member fails: run \
                it to its end within weeks",
            )
            .verified_by(format!("cat {} says idle", word(file)));
    }
    let defect = defect.command("wait for its end", format!("mdadm --wait {array}"));
    let text =
        "where users suffer, slow it down to half (KiB/s for each member); back with: system";
    slow_down(defect, text, slower)
        .risking("the slower it goes, the longer the array is without its full safety")
        .verified_by(format!("cat {} says idle", word(md_file(node, "sync_action"))))
}

/// A rebuild that is held back by a limit far below what drives can do.
pub(super) fn sync_slow(scene: &Scene<'_>) -> Vec<Defect> {
    let restores =
        |md: &MdFacts| matches!(md.sync_action.as_deref(), Some("resync" | "recover" | "reshape"));
    let all = arrays(scene).filter(|(_, _, md)| restores(md));
    all.filter_map(|(_, node, md)| {
        let own = md_detail(node, "sync_speed_max");
        let limit = own.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        let of_system = || scene.snapshot.system.raid_speed_limit_kib.map(|(_, max)| max);
        let limit = limit.or_else(of_system).filter(|&kib| kib < SLOW_LIMIT_KIB_PER_S)?;
        let (file, command) = match own {
            Some(text) if text.contains("local") => {
                let file = md_file(node, "sync_speed_max");
                (file.clone(), format!("echo system > {}", word(file)))
            }
            _ => (
                "/proc/sys/dev/raid/speed_limit_max".to_owned(),
                "sysctl -w dev.raid.speed_limit_max=200000".to_owned(),
            ),
        };
        Some(
            Defect::new(
                "md-sync-slow",
                Gravity::Medium,
                Some(&node.key()),
                format!(
                    "{} {}, but no faster than {limit} KiB/s for each member",
                    node.name,
                    conditions::array_work(md)?
                ),
            )
            .seen(file, own.map_or_else(|| limit.to_string(), str::to_owned))
            .because(how_long(scene, node, limit))
            .command("lift the limit", command)
            .risking("the rebuild then takes more of the members' time from other I/O")
            .verified_by(format!("cat {} rises", word(md_file(node, "sync_speed")))),
        )
    })
    .collect()
}

fn how_long(scene: &Scene<'_>, node: &Node, limit_kib: u64) -> String {
    let members =
        node.below.iter().filter_map(|&member| scene.machine().nodes.get(member)?.size_bytes);
    let ns = members.min().map(|bytes| bytes as f64 / (limit_kib.max(1) as f64 * 1024.0) * 1e9);
    let span = ns.map_or_else(String::new, |ns| {
        format!(": a whole member takes {}", format_duration(ns as u64))
    });
    format!(
        "a drive could go ten times as fast, and until the end the array has not its \
            full safety{span}"
    )
}

/// The last check found sectors that do not agree.
pub(super) fn mismatch(scene: &Scene<'_>) -> Vec<Defect> {
    let all = arrays(scene)
        .filter(|(_, node, md)| is_redundant(md) && !is_mended(node) && is_at_rest(md));
    all.filter_map(|(index, node, md)| {
        let sectors = md.mismatch_count.filter(|&sectors| sectors > 0)?;
        let swaps = holds_swap(scene, index);
        let parity = is_level(md, &["raid4", "raid5", "raid6"]);
        let (gravity, certainty, why) = if parity {
            (
                Gravity::High,
                Certainty::Likely,
                "when a member fails, what it held is computed from parity that is wrong in \
                these places; the reason may be a drive, a power cut, or an array made \
                with --assume-clean and never synchronised",
            )
        } else if swaps {
            (
                Gravity::Low,
                Certainty::Possible,
                "copies differ; swap lies on this array, and pages that change or are given \
                up while they are written leave harmless differences",
            )
        } else {
            (
                Gravity::Medium,
                Certainty::Possible,
                "copies differ, and a read may give either; memory-mapped files that change \
                while they are written leave harmless differences, a failing drive or \
                adapter does not",
            )
        };
        let file = md_file(node, "sync_action");
        Some(
            Defect::new(
                "md-mismatch",
                gravity,
                Some(&node.key()),
                format!(
                    "the last check of {} found {sectors} sectors ({}) that do not agree",
                    node.name,
                    format_size(sectors.saturating_mul(512))
                ),
            )
            .sure(certainty)
            .seen(md_file(node, "mismatch_cnt"), format!("{sectors} sectors"))
            .because(why)
            .advise(
                "look for the reason first: smartctl -a of each member, the kernel's log, \
                memory errors",
            )
            .command(
                "check once more: a number that grows means a fault at work",
                format!("echo check > {}", word(&file)),
            )
            .command(
                "when the reason is gone, make them agree",
                format!("echo repair > {}", word(&file)),
            )
            .risking(
                "repair takes the first copy, or the data as against the parity, for true, \
                which may be the wrong one: check files against a backup or checksums before",
            )
            .verified_by(format!(
                "after another check cat {} says 0",
                word(md_file(node, "mismatch_cnt"))
            )),
        )
    })
    .collect()
}

/// True after a repair or resync: then the number says what was rewritten.
fn is_mended(array: &Node) -> bool {
    matches!(md_detail(array, "last_sync_action"), Some("repair" | "resync" | "recover"))
}

/// False while an array checks or mends itself: what it counts is that of so far.
fn is_at_rest(md: &MdFacts) -> bool {
    matches!(md.sync_action.as_deref(), None | Some("idle" | "frozen"))
}

fn holds_swap(scene: &Scene<'_>, index: usize) -> bool {
    let above: Vec<String> =
        scene.everything_above(index).iter().map(|&i| scene.node(i).key()).collect();
    let swaps = scene.snapshot.system.swaps.iter();
    swaps.filter_map(|swap| swap.node.as_ref()).any(|node| above.contains(node))
}
