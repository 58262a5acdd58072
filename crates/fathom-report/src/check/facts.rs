//! Every fact of a snapshot, a line each, under the layer that it is of: for those who look something up.
//!
//! The lines follow from the facts' own form, so that a fact which is added is shown by itself. Units stand at the end of names
//! (`_bytes`, `_us`), and go to the values here.

use fathom_base::printable::printable;
use fathom_base::units::format_size;
use fathom_model::snapshot::Snapshot;
use fathom_model::stack::Node;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Names of facts; those that are longer push their values aside.
const NAME_COLUMNS: usize = 38;

/// The machine, its adapters and controllers, and every layer from the top down, with all that is known of each.
#[must_use]
pub fn facts_text(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let mut system = object(&snapshot.system);
    let log = system.remove("kernel_log").and_then(|log| Some(log.as_array()?.len()));
    let adapters = system.remove("hosts").unwrap_or_default();
    let mut machine = object(&snapshot.host);
    machine.append(&mut system);
    machine.extend(log.map(|lines| ("kernel_log_lines".to_owned(), lines.into())));
    section(&mut out, "the machine", machine);
    for adapter in adapters.as_array().into_iter().flatten() {
        let name = adapter["name"].as_str().unwrap_or_default();
        section(&mut out, &format!("adapter {name}"), without(adapter, &["name"]));
    }
    for controller in &snapshot.controllers {
        let title = format!("controller {} of {}", controller.number, controller.tool);
        section(&mut out, &title, object(controller));
    }
    for index in from_the_top(snapshot) {
        let node = &snapshot.machine.nodes[index];
        let title = format!("{}  {}", node.label(), kind(node));
        section(&mut out, &title, of_node(node));
    }
    out
}

/// All nodes, each once, before those that it stands on.
fn from_the_top(snapshot: &Snapshot) -> Vec<usize> {
    let machine = &snapshot.machine;
    let tops = fathom_check::ordered_tops(snapshot).into_iter();
    let below = tops.flat_map(|top| machine.walk_from(top));
    let mut seen = BTreeSet::new();
    below.chain(0..machine.nodes.len()).filter(|&index| seen.insert(index)).collect()
}

fn kind(node: &Node) -> String {
    let word = serde_json::to_value(node.kind).unwrap_or_default();
    word.as_str().unwrap_or_default().replace('_', " ")
}

/// What a node is called stands above its facts; what it stands on follows below.
fn of_node(node: &Node) -> Map<String, Value> {
    let mut facts = without(&object(node).into(), &["kind", "name", "path", "below", "detail"]);
    let mut further = object(node.details());
    for (name, value) in &mut facts {
        if let Value::Object(known) = value
            && let Some(Value::Array(pairs)) = further.remove(name)
        {
            known.extend(pairs.into_iter().filter_map(named));
        }
    }
    facts.append(&mut further);
    facts
}

/// An entry of a list of names with values.
fn named(pair: Value) -> Option<(String, Value)> {
    match pair {
        Value::Array(pair) => match <[Value; 2]>::try_from(pair) {
            Ok([Value::String(name), value]) => Some((name, value)),
            _ => None,
        },
        _ => None,
    }
}

fn object(facts: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(facts) {
        Ok(Value::Object(facts)) => facts,
        _ => Map::new(),
    }
}

fn without(facts: &Value, names: &[&str]) -> Map<String, Value> {
    let mut facts = facts.as_object().cloned().unwrap_or_default();
    facts.retain(|name, _| !names.contains(&name.as_str()));
    facts
}

/// A fact in words.
struct Line {
    /// Its name without its unit.
    words: String,
    /// The same with it.
    whole: String,
    value: String,
}

impl Line {
    fn of(name: &str, value: &Value) -> Self {
        let (words, value) = shown(name, value);
        Self { words, whole: name.replace('_', " "), value }
    }
}

/// Stands for `_` in names that are not those of fields: these are printed as they are.
const KEPT: char = '\u{e000}';

fn kept(name: &str) -> String {
    name.replace('_', &KEPT.to_string())
}

fn section(out: &mut String, title: &str, facts: Map<String, Value>) {
    let mut lines = Vec::new();
    add(&mut lines, "", &Value::Object(facts));
    let _ = writeln!(out, "{}", printable(title));
    let mut same: BTreeMap<String, usize> = BTreeMap::new();
    for line in &lines {
        *same.entry(line.words.clone()).or_default() += 1;
    }
    for line in lines {
        // Bytes and milliseconds of one thing are two facts.
        let name = if same[&line.words] > 1 { line.whole } else { line.words };
        let name = printable(&name.replace(KEPT, "_"));
        let _ = writeln!(out, "  {name:NAME_COLUMNS$}  {}", printable(&line.value));
    }
    out.push('\n');
}

/// Adds the lines of a fact. What is not known, or empty, has none.
fn add(lines: &mut Vec<Line>, name: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(facts) => {
            for (own, value) in facts {
                add(lines, &joined(name, own), value);
            }
        }
        Value::Array(items) => add_list(lines, name, items),
        value => lines.extend(Some(Line::of(name, value)).filter(|line| !line.value.is_empty())),
    }
}

fn joined(name: &str, own: &str) -> String {
    if name.is_empty() { own.to_owned() } else { format!("{name} {own}") }
}

fn add_list(lines: &mut Vec<Line>, name: &str, items: &[Value]) {
    let is_single = |value: &Value| !value.is_array() && !value.is_object();
    let is_row = |value: &Value| value.as_array().is_some_and(|row| row.iter().all(is_single));
    if items.is_empty() {
        return;
    }
    if items.iter().all(|item| named(item.clone()).is_some()) {
        // These have the names of the kernel's files.
        for (own, value) in items.iter().filter_map(|item| named(item.clone())) {
            let words = joined(&shown(name, &Value::Null).0, &kept(&own));
            let (whole, value) = (words.clone(), shown("", &value).1);
            lines.push(Line { words, whole, value });
        }
    } else if items.iter().all(|item| is_single(item) || is_row(item)) {
        let row = |item: &Value| match item {
            Value::Array(row) => {
                row.iter().map(|one| shown(name, one).1).collect::<Vec<_>>().join(" / ")
            }
            one => shown(name, one).1,
        };
        let all: Vec<String> = items.iter().map(row).collect();
        let has_commas = all.iter().any(|one| one.contains(','));
        let between = if has_commas { "; " } else { ", " };
        lines.push(Line { value: all.join(between), ..Line::of(name, &Value::Null) });
    } else {
        for (number, item) in items.iter().enumerate() {
            let own = item["name"].as_str().map_or_else(|| (number + 1).to_string(), kept);
            add(lines, &joined(name, &own), &without(item, &["name"]).into());
        }
    }
}

/// The words of a name without its unit, and the value with it.
fn shown(name: &str, value: &Value) -> (String, String) {
    const UNITS: [(&str, &str); 11] = [
        ("_mbit_per_s", " Mbit/s"),
        ("_per_s", "/s"),
        ("_khz", " kHz"),
        ("_kib", " KiB"),
        ("_ms", " ms"),
        ("_us", " us"),
        ("_ns", " ns"),
        ("_s", " s"),
        ("_percent", " %"),
        ("_rpm", " turns/min"),
        ("celsius", " C"),
    ];
    let words = |name: &str| name.replace('_', " ");
    let plain = match value {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        number => match number.as_f64().filter(|_| number.is_f64()) {
            Some(number) => ((number * 1000.0).round() / 1000.0).to_string(),
            None => number.to_string(),
        },
    };
    let (whole, is_number) = (value.as_u64(), value.is_number() || value.is_null());
    let strip = |unit: &str| {
        let stem = || name.strip_suffix(unit.trim_start_matches('_'))?.strip_suffix(' ');
        name.strip_suffix(unit).or_else(stem).filter(|_| is_number)
    };
    if let Some(stem) = strip("_bytes_per_s") {
        let rate = |rate: f64| format!("{}/s", format_size(rate.max(0.0).round() as u64));
        return (words(stem), value.as_f64().map_or(plain, rate));
    }
    if let Some(stem) = strip("_bytes") {
        let exact = |bytes: u64| match bytes {
            0..1024 => format!("{bytes} B"),
            bytes => format!("{} ({bytes} B)", format_size(bytes)),
        };
        return (words(stem), whole.map_or(plain, exact));
    }
    if let Some(stem) = strip("_unix_s") {
        let time = value.as_i64().and_then(|s| Timestamp::from_second(s).ok());
        return (words(stem), time.map_or(plain, |time| time.to_string()));
    }
    if let Some(stem) = strip("read_ahead_kib") {
        let both = |kib: u64| format!("{kib} KiB ({} sectors)", kib.saturating_mul(2));
        return (words(&format!("{stem}read_ahead")), whole.map_or(plain, both));
    }
    if let Some(stem) = strip("_gts_x10") {
        let speed = |x10: u64| format!("{}.{} GT/s", x10 / 10, x10 % 10);
        return (words(stem), whole.map_or(plain, speed));
    }
    if let Some(stem) = strip("_share") {
        return (words(stem), value.as_f64().map_or(plain, |s| format!("{:.1} %", s * 100.0)));
    }
    for (unit, text) in UNITS {
        if let Some(stem) = strip(unit) {
            let stem = if unit == "celsius" { name } else { stem };
            return (words(stem), format!("{plain}{text}"));
        }
    }
    (words(name), plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::sample;
    use fathom_model::stack::MdFacts;
    use fathom_model::stack::detail::{DiskCounters, Health};
    use fathom_model::system::{IoNow, StorageHost, Timer};

    /// A machine of which something of every kind is known.
    fn known() -> Snapshot {
        let (mut snapshot, _) = sample();
        snapshot.host.memory_total_bytes = Some(8 << 30);
        snapshot.host.mitigations = Some("auto".into());
        snapshot.system.vm = vec![("dirty_ratio".into(), "20".into())];
        snapshot.system.stolen_share = Some(0.015);
        snapshot.system.io_now =
            vec![IoNow { name: "sda".into(), bytes_per_s: 1.5, ..IoNow::default() }];
        let adapter = StorageHost { name: "host0".into(), ..StorageHost::default() };
        snapshot.system.hosts = vec![StorageHost { can_queue: Some(32), ..adapter }];
        let (name, kind) = ("cron.d/e2scrub_all".into(), "scrub".into());
        snapshot.system.timers = vec![Timer { name, kind, ..Timer::default() }];
        let [array, disk] = [2, 3];
        snapshot.machine.nodes[array].md = Some(MdFacts {
            stripe_cache_stripes: Some(256),
            chunk_bytes: Some(65_536),
            sync_completed_share: Some(0.5),
            ..MdFacts::default()
        });
        let detail = snapshot.machine.nodes[disk].detail.get_or_insert_default();
        detail.scheduler = vec![("read_expire".into(), "500".into())];
        detail.queue = vec![("max_segments".into(), "168".into())];
        detail.queue_cpus = vec!["0, 1".into(), "2, 3".into()];
        detail.in_flight = Some((2, 1));
        detail.counters =
            Some(DiskCounters { read_bytes: 512, read_ms: 7, ..DiskCounters::default() });
        detail.health = Some(Health { celsius: Some(41), ..Health::default() });
        snapshot
    }

    /// The lines below a title, as names and values.
    fn below(text: &str, title: &str) -> Vec<(String, String)> {
        let lines = text.lines().skip_while(|line| *line != title).skip(1);
        let lines = lines.take_while(|line| !line.is_empty());
        let pairs = lines.filter_map(|line| line.trim_start().split_once("  "));
        pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
    }

    #[test]
    fn every_fact_has_a_line_with_its_unit() {
        let text = facts_text(&known());
        for (title, expected) in [
            (
                "the machine",
                &[
                    ("memory total", "8 GiB (8589934592 B)"),
                    ("mitigations", "auto"),
                    ("vm dirty_ratio", "20"),
                    ("stolen", "1.5 %"),
                    ("io now sda", "2 B/s"),
                    ("timers cron.d/e2scrub_all kind", "scrub"),
                ][..],
            ),
            ("adapter host0", &[("can queue", "32")]),
            (
                "/dev/md0  md",
                &[
                    ("md stripe cache stripes", "256"),
                    ("md chunk", "64 KiB (65536 B)"),
                    ("md sync completed", "50.0 %"),
                ],
            ),
            (
                "/dev/sda  disk",
                &[
                    ("queue read ahead", "128 KiB (256 sectors)"),
                    ("queue logical block", "512 B"),
                    ("queue rotational", "yes"),
                    ("queue max segments", "168"),
                    ("scheduler read_expire", "500"),
                    ("queue cpus", "0, 1; 2, 3"),
                    ("in flight", "2, 1"),
                    ("counters read bytes", "512 B"),
                    ("counters read ms", "7 ms"),
                    ("health celsius", "41 C"),
                ],
            ),
        ] {
            let lines = below(&text, title);
            for (name, value) in expected {
                let is_it = |line: &(String, String)| line.0 == *name && line.1 == *value;
                assert!(lines.iter().any(is_it), "{name}: {value} in {lines:#?}");
            }
        }
        assert!(text.find("/srv  mount") < text.find("/dev/md0  md"), "from the top down");
    }
}
