//! What a row was measured on and with, as flat facts: what two sides of a comparison are held against each other by.
//!
//! The facts come from the record's own form, so that a setting added there is compared from then on without anybody
//! thinking of it. What changes by itself from run to run (free memory, load, counters) is left out by name.

use fathom_base::units::{format_ns, format_size};
use fathom_model::record::{Record, RunHead, TargetKind};
use fathom_model::stack::{Node, NodeKind, Stack};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a difference in a fact means for a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Worth knowing; it hardly changes figures by itself.
    Background,
    /// It can change figures: the thing under test, or what is mistaken for it.
    Setting,
    /// Sizes, places, devices and the way around the page cache: with another one the figures are of another thing.
    Ground,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// For people and for tests.
    pub value: String,
    /// What another value means.
    pub class: Class,
    /// Of an amount that is never quite the same, bytes: a tenth more or less is no other value, see [`alike`].
    pub near_bytes: Option<u64>,
}

impl Fact {
    fn new(value: impl Into<String>, class: Class) -> Self {
        Self { value: value.into(), class, near_bytes: None }
    }

    /// True when the other is the same, within the tolerance where there is one.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let near = self.near_bytes.zip(other.near_bytes);
        self.value == other.value || near.is_some_and(|(a, b)| alike(a, b))
    }
}

/// True when the larger is at most a tenth more than the smaller: files that are sized by speed or free space are that
/// much off from run to run.
#[must_use]
pub fn alike(a_bytes: u64, b_bytes: u64) -> bool {
    a_bytes.max(b_bytes) as f64 <= 1.1 * a_bytes.min(b_bytes) as f64
}

/// Facts by name: `workload.block_size`, `disk.queue.scheduler`, `host.kernel`.
pub type Facts = BTreeMap<String, Fact>;

/// Readings that are another in every run, by the last words of their names.
const VOLATILE: &[&str] = &[
    "memory_available_bytes",
    "cgroup_memory_available_bytes",
    "swap_free_bytes",
    "uptime_s",
    "load_1min",
    "clock_sources",
    "below",
    "devno",
    "mounted_at",
    "free_bytes",
    "available_bytes",
    "fs.inodes",
    "inodes_free",
    "md.array_state",
    "groups_uninitialised",
    "sync_completed_share",
    "sync_speed_bytes_per_s",
    "dm.status",
    "backing_allocated_bytes",
    "zram.stored_bytes",
    "queue.schedulers",
    "queue.tags",
    "array_sizes",
    "workload.name",
    "workload.target",
    "workload.phase",
];

/// Names of [`Class::Ground`]: the same words at the end of other names are not meant.
const GROUND: &[&str] = &[
    "workload.direct",
    "workload.size_bytes",
    "workload.offset",
    "workload.span",
    "drive.wwn",
    "drive.serial",
    "drive.model",
    "partition.uuid",
    "partition.start_bytes",
    "dm.uuid",
    "loop_device.backing_file",
    "disk.size_bytes",
    "partition.size_bytes",
    "md.size_bytes",
    "dm.size_bytes",
    "loop.size_bytes",
    "zram.size_bytes",
];

/// Names of [`Class::Background`].
const BACKGROUND: &[&str] = &[
    "host.boot_id",
    "host.kernel_build",
    "host.distribution",
    "host.clock_source",
    "host.lockdown",
    "host.pressure_available",
    "host.cpus_present",
    "name",
    "path",
    "mount.mount_point",
    "mount.root",
    "mount.source",
    "mount.super_options",
    "fs.uuid",
    "fs.label",
    "fs.made_at_unix_s",
    "fs.devices",
    "fs.journal_device",
    "fs.errors_count",
    "md.uuid",
    "md.mismatch_count",
    "dm.name",
    "member.name",
];

/// True when `name` ends with one of `tails`, whole words only.
fn ends_with(name: &str, tails: &[&str]) -> bool {
    let matches = |tail: &&str| {
        name.strip_suffix(tail).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    tails.iter().any(matches)
}

fn class_of(name: &str) -> Class {
    // The second disk is called `disk 2`.
    let plain: String = name.chars().filter(|c| !c.is_ascii_digit() && *c != ' ').collect();
    if ends_with(&plain, GROUND) {
        Class::Ground
    } else if ends_with(&plain, BACKGROUND) {
        Class::Background
    } else {
        Class::Setting
    }
}

/// The facts of one job of a record: the workload as far as it is this job's, the machine, and everything under the
/// targets.
#[must_use]
pub fn of(head: &RunHead, record: &Record, job: usize) -> Facts {
    let mut facts = Facts::new();
    let version = Fact::new(head.fathom_version.clone(), Class::Background);
    facts.insert("fathom.version".into(), version);
    add(&mut facts, "host", &head.host);
    if let Some(job) = record.workload.jobs.get(job) {
        add(&mut facts, "workload", job);
        let sizes: Vec<String> = job.block_size.iter().map(size_words).collect();
        set(&mut facts, "workload.block_size", &sizes.join(","));
    }
    set(&mut facts, "workload.jobs", &record.workload.jobs.len().to_string());
    if let Some(job) = record.jobs.get(job) {
        let engine = job.engine.kind.word();
        set(&mut facts, "engine.used", engine);
        set(&mut facts, "engine.features", &job.engine.features.join(", "));
    }
    for (index, target) in record.targets.iter().enumerate() {
        let prefix = numbered("target", index);
        let kind = serde_json::to_value(target.kind).unwrap_or(Value::Null);
        ground(&mut facts, &format!("{prefix}.kind"), &text("kind", &kind));
        let mut size = Fact::new(format_size(target.size_bytes), Class::Ground);
        size.near_bytes = (target.kind == TargetKind::OwnFile).then_some(target.size_bytes);
        facts.insert(format!("{prefix}.size"), size);
        if let Some(honoured) = target.direct_honoured {
            ground(&mut facts, &format!("{prefix}.direct_honoured"), &honoured.to_string());
        }
        layers(&mut facts, index, &target.stack);
    }
    for (index, around) in (record.targets.len()..).zip(record.stacks_around()) {
        layers(&mut facts, index, &around.before);
    }
    if let Some(ended) = record.watch.as_ref().and_then(|watch| watch.ended.as_ref()) {
        set(&mut facts, "workload.command", &ended.command);
    }
    facts
}

/// The facts of every layer of one stack.
#[must_use]
pub fn of_stack(stack: &Stack) -> Facts {
    let mut facts = Facts::new();
    layers(&mut facts, 0, stack);
    facts
}

fn size_words(size: &fathom_model::workload::WeightedSize) -> String {
    let to = size.up_to_bytes.map_or_else(String::new, |to| format!("-{}", format_size(to.into())));
    let weight = if size.weight == 1.0 { String::new() } else { format!(" x {}", size.weight) };
    format!("{}{to}{weight}", format_size(size.size_bytes.into()))
}

/// Every layer under a target, and what layers there are.
fn layers(facts: &mut Facts, index: usize, stack: &Stack) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut nodes = stack.walk();
    let shape: Vec<String> = nodes.iter().map(|node| shape_word(node)).collect();
    // Kernel names change at a boot, and with them the order: the drives are told by what does not.
    nodes.sort_by_cached_key(|node| identity(node));
    for node in nodes {
        let word = kind_word(node);
        let count = seen.entry(word).or_default();
        let name = numbered(word, *count);
        *count += 1;
        let prefix =
            if index == 0 { name } else { format!("{}.{name}", numbered("target", index)) };
        add(facts, &prefix, &comparable(node));
        reclass(facts, &prefix, stack, node);
    }
    let name = format!("{}.layers", numbered("target", index));
    set(facts, &name, &shape.join(" on "));
}

/// What a drive or partition is told by; none for the layers above, which keep their order.
fn identity(node: &Node) -> Option<String> {
    let drive = node.drive.as_ref().and_then(|drive| drive.wwn.clone().or(drive.serial.clone()));
    drive.or_else(|| node.partition.as_ref()?.uuid.clone())
}

/// The node without what is only a matter of names: members by their place in the array, device numbers masked.
fn comparable(node: &Node) -> Node {
    let mut node = node.clone();
    if let Some(md) = &mut node.md {
        let slot = |slot: &Option<String>| slot.as_ref()?.parse::<u64>().ok();
        md.members.sort_by_cached_key(|member| slot(&member.slot).unwrap_or(u64::MAX));
    }
    if let Some(dm) = &mut node.dm {
        dm.table.iter_mut().for_each(|line| *line = without_device_numbers(line));
    }
    if let Some(mount) = &mut node.mount {
        // Addresses and ports that NFS chooses anew at each mount.
        let anew =
            |option: &String| option.starts_with("clientaddr=") || option.starts_with("mountport=");
        mount.super_options.retain(|option| !anew(option));
    }
    node
}

/// A table line with `*` for `8:16`.
fn without_device_numbers(line: &str) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_number = |word: &str| word.split_once(':').is_some_and(|(a, b)| digits(a) && digits(b));
    let words = line.split(' ').map(|word| if is_number(word) { "*" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// The classes of names that mean more on some layers than on others.
fn reclass(facts: &mut Facts, prefix: &str, stack: &Stack, node: &Node) {
    let mut class = |key: &str, class: Class| {
        if let Some(fact) = facts.get_mut(&format!("{prefix}.{key}")) {
            fact.class = class;
        }
    };
    // Nothing else says which disk it was.
    if node.kind == NodeKind::Disk && identity(node).is_none() {
        class("name", Class::Ground);
    }
    if node.kind == NodeKind::Remote && node.devno.is_none() {
        class("path", Class::Ground);
    }
    let Some(mount) = &node.mount else { return };
    let is = |kind: NodeKind| stack.below(node).any(|below| below.kind == kind);
    if is(NodeKind::Remote) {
        class("mount.source", Class::Ground);
    }
    // Where the options in force are known they are compared; those of an overlay are its directories.
    if mount.effective_options.is_empty() && !is(NodeKind::Overlay) {
        class("mount.super_options", Class::Setting);
    }
}

/// What a layer is, so that two stacks of the same kinds of layers have the same shape.
fn shape_word(node: &Node) -> String {
    match node.kind {
        NodeKind::FileSystem => node.name.clone(),
        _ => kind_word(node).to_owned(),
    }
}

fn kind_word(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Mount => "mount",
        NodeKind::FileSystem => "filesystem",
        NodeKind::Overlay => "overlay",
        NodeKind::Memory => "memory",
        NodeKind::Remote => "remote",
        NodeKind::Loop => "loop",
        NodeKind::Dm => "dm",
        NodeKind::Md => "md",
        NodeKind::Bcache => "bcache",
        NodeKind::Partition => "partition",
        NodeKind::Disk => "disk",
        NodeKind::NvmeMultipath => "nvme_multipath",
        NodeKind::Zram => "zram",
        NodeKind::Ram => "ram",
        NodeKind::Unknown => "unknown",
    }
}

fn numbered(word: &str, index: usize) -> String {
    if index == 0 { word.to_owned() } else { format!("{word} {}", index + 1) }
}

fn set(facts: &mut Facts, name: &str, value: &str) {
    facts.insert(name.to_owned(), Fact::new(value, class_of(name)));
}

fn ground(facts: &mut Facts, name: &str, value: &str) {
    facts.insert(name.to_owned(), Fact::new(value, Class::Ground));
}

/// Adds everything in `value` under `prefix`.
fn add(facts: &mut Facts, prefix: &str, value: &impl Serialize) {
    // These are plain structs: they always have a JSON form.
    if let Ok(value) = serde_json::to_value(value) {
        flatten(facts, prefix, &value);
    }
}

fn flatten(facts: &mut Facts, name: &str, value: &Value) {
    if ends_with(name, VOLATILE) {
        return;
    }
    match value {
        // A node is of one kind: its facts of other kinds are absent on both sides.
        Value::Null => {}
        // Only root can read it.
        Value::Array(lines) if lines.is_empty() && ends_with(name, &["dm.table"]) => {}
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                flatten(facts, &format!("{name}.{key}"), field);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                flatten(facts, &numbered(name.trim_end_matches('s'), index), item);
            }
        }
        other => set(facts, name, &text(name, other)),
    }
}

/// A value for people: the unit is the end of the name.
fn text(name: &str, value: &Value) -> String {
    let number = value.as_u64();
    match (value, number) {
        (_, Some(bytes)) if name.ends_with("_bytes") => format_size(bytes),
        (_, Some(ns)) if name.ends_with("_ns") => format_ns(ns),
        (Value::String(text), _) => text.clone(),
        (Value::Array(items), _) => {
            let items: Vec<String> = items.iter().map(|item| text(name, item)).collect();
            items.join(",")
        }
        (Value::Object(_), _) => String::new(),
        (other, _) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn facts_have_the_names_and_units_of_people() {
        let head = fixtures::head();
        let facts = of(&head, &fixtures::record(), 0);
        let value = |name: &str| facts.get(name).map(|fact| fact.value.as_str());
        assert_eq!(value("workload.block_size"), Some("4 KiB"));
        assert_eq!(value("workload.duration_ns"), Some("60 s"));
        assert_eq!(value("target.size"), Some("8 GiB"));
        assert_eq!(value("target.layers"), Some("mount on ext4 on disk"));
        assert_eq!(value("disk.name"), Some("sda"));
        assert_eq!(value("engine.used"), Some("io_uring"));
        for volatile in ["host.memory_available_bytes", "host.load_1min", "workload.name"] {
            assert_eq!(value(volatile), None, "{volatile}");
        }
    }

    #[test]
    fn classes_follow_the_names() {
        for (name, class) in [
            ("workload.direct", Class::Ground),
            ("disk 2.drive.serial", Class::Ground),
            ("disk 12.name", Class::Background),
            ("disk.queue.scheduler", Class::Setting),
            ("host.kernel", Class::Setting),
            ("host.kernel_build", Class::Background),
            ("workload.write_block_size", Class::Setting),
        ] {
            assert_eq!(class_of(name), class, "{name}");
        }
    }
}
