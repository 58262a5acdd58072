//! The facts of `fathom check` against those of lsblk, blockdev, mdadm and dmsetup, from the same moment.

use super::Look;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A number that lsblk prints as a number, a text or a truth value, depending on its version.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(is) => Some(i64::from(*is)),
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

/// Everything that any of the tools can be asked.
#[track_caller]
pub fn with_all(look: &Look) {
    with_lsblk(look);
    with_blockdev(look);
    with_mdadm(look);
    with_dmsetup(look);
}

/// Sizes, sectors, alignment and who stands on whom.
#[track_caller]
fn with_lsblk(look: &Look) {
    let tree: Value = serde_json::from_str(look.tool("lsblk")).expect("lsblk's JSON");
    let mut pending: Vec<(Option<String>, &Value)> = tree["blockdevices"]
        .as_array()
        .expect("devices")
        .iter()
        .map(|device| (None, device))
        .collect();
    let mut above: BTreeSet<(String, String)> = BTreeSet::new();
    let mut compared = 0;
    while let Some((parent, device)) = pending.pop() {
        let name = device["kname"].as_str().expect("a name");
        compared += 1;
        if let Some(parent) = parent {
            above.insert((parent, name.to_owned()));
        }
        compare_device(look, name, device);
        let children = device["children"].as_array().into_iter().flatten();
        pending.extend(children.map(|child| (Some(name.to_owned()), child)));
    }
    assert!(compared > 0, "lsblk shows no device");
    let nodes = look.nodes();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for node in nodes.iter().filter(|node| node["devno"].is_string() && node["kind"] != "loop") {
        for below in node["below"].as_array().into_iter().flatten() {
            let below = &nodes[below.as_u64().expect("an index") as usize];
            seen.insert((text(&below["name"]), text(&node["name"])));
        }
    }
    assert_eq!(seen, above, "{}: who stands on whom", look.name);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn compare_device(look: &Look, name: &str, device: &Value) {
    let node = look.node(name);
    let mut facts = vec![
        ("size", node["size_bytes"].as_i64()),
        ("alignment", node["alignment_offset_bytes"].as_i64()),
        ("ro", number(&node["read_only"])),
    ];
    // Partitions have the queue of their disk.
    if node["queue"].is_object() {
        let queue = &node["queue"];
        facts.extend([
            ("log-sec", queue["logical_block_bytes"].as_i64()),
            ("phy-sec", queue["physical_block_bytes"].as_i64()),
            ("min-io", queue["minimum_io_bytes"].as_i64()),
            ("opt-io", queue["optimal_io_bytes"].as_i64()),
            ("rota", number(&queue["rotational"])),
            ("ra", queue["read_ahead_kib"].as_i64()),
        ]);
    }
    for (key, ours) in facts {
        assert_eq!(ours, number(&device[key]), "{}: {key} of {name}", look.name);
    }
}

/// `RO RA SSZ BSZ StartSec Size Device`.
#[track_caller]
fn with_blockdev(look: &Look) {
    let lines = look.tool("blockdev").lines().skip(1);
    let mut compared = 0;
    for line in lines {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, read_ahead, sector, _, start, size, device] = words[..] else { continue };
        let name = device.rsplit('/').next().unwrap_or_default();
        let Some(node) = look.nodes().iter().find(|node| node["name"] == name) else { continue };
        compared += 1;
        assert_eq!(node["size_bytes"].as_u64(), size.parse().ok(), "{}: size of {name}", look.name);
        if let Some(queue) = node["queue"].as_object() {
            let sectors = queue["read_ahead_kib"].as_u64().map(|kib| kib * 2);
            assert_eq!(sectors, read_ahead.parse().ok(), "{}: read-ahead of {name}", look.name);
            assert_eq!(
                queue["logical_block_bytes"].as_u64(),
                sector.parse().ok(),
                "{}: sector of {name}",
                look.name
            );
        }
        if let Some(bytes) = node["partition"]["start_bytes"].as_u64() {
            let sectors: Option<u64> = start.parse().ok();
            assert_eq!(Some(bytes), sectors.map(|s| s * 512), "{}: start of {name}", look.name);
        }
    }
    assert!(compared > 0, "blockdev shows no device");
}

/// Level, members, metadata, UUID and roles.
#[track_caller]
fn with_mdadm(look: &Look) {
    for node in look.nodes().iter().filter(|node| node["kind"] == "md") {
        let name = node["name"].as_str().expect("a name");
        let says: BTreeMap<&str, &str> = look
            .tool(&format!("mdadm {name}"))
            .lines()
            .filter_map(|line| line.split_once('='))
            .collect();
        let md = &node["md"];
        assert_eq!(
            md["level"].as_str(),
            says.get("MD_LEVEL").copied(),
            "{}: level of {name}",
            look.name
        );
        let disks = says.get("MD_DEVICES").and_then(|n| n.parse().ok());
        assert_eq!(md["raid_disks"].as_u64(), disks, "{}: members of {name}", look.name);
        assert_eq!(
            md["metadata_version"].as_str(),
            says.get("MD_METADATA").copied(),
            "{}: {name}",
            look.name
        );
        let plain = |text: &str| text.replace([':', '-'], "").to_lowercase();
        let uuid = md["uuid"].as_str().map(plain);
        assert_eq!(
            uuid,
            says.get("MD_UUID").map(|uuid| plain(uuid)),
            "{}: UUID of {name}",
            look.name
        );
        let roles: BTreeMap<String, String> = md["members"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|member| (text(&member["name"]), text(&member["slot"])))
            .collect();
        for (key, role) in says.iter().filter(|(key, _)| key.ends_with("_ROLE")) {
            let device = key.trim_start_matches("MD_DEVICE_dev_").trim_end_matches("_ROLE");
            let ours = roles.get(device).map(String::as_str);
            let expected = if role.parse::<u64>().is_ok() { role } else { "none" };
            assert_eq!(ours, Some(expected), "{}: role of {device} in {name}", look.name);
        }
    }
}

/// Tables, word for word but for keys.
#[track_caller]
fn with_dmsetup(look: &Look) {
    for line in look.tool("dmsetup").lines().filter(|line| *line != "No devices found") {
        let (name, table) = line.split_once(": ").expect(line);
        let node = look.nodes().iter().find(|node| node["dm"]["name"] == name).expect(name);
        let lines = node["dm"]["table"].as_array().expect("a table");
        let words = |text: &str| -> Vec<String> {
            let hidden = |word: &str| {
                if word.len() >= 32 && word.bytes().all(|b| b == b'0') {
                    "-".to_owned()
                } else {
                    word.to_owned()
                }
            };
            text.split_ascii_whitespace().map(hidden).collect()
        };
        let known =
            lines.iter().any(|line| words(line.as_str().unwrap_or_default()) == words(table));
        assert!(known, "{}: table of {name}: {table}\nis not in {lines:#?}", look.name);
    }
}
