//! `fathom knobs`.

use super::{CommandError, CommandResult};
use crate::args::Knobs;
use crate::exit::Exit;
use crate::output::Output;
use fathom_inspect::filesystem::{Family, family};
use fathom_inspect::identity::device_id;
use fathom_knobs::knob::Access;
use fathom_knobs::persist::{self, Persistent};
use fathom_knobs::scope::{of_remote, of_stack};
use fathom_knobs::{
    Knob, Scope, ScopeDevice, ScopeMount, all, find, legal, old_names, places, read, word_of,
};
use fathom_model::change::knob::KnobPlace;
use fathom_model::stack::FsFacts;
use fathom_sys::mounts;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// Lists the settings with their values now, or explains one.
pub fn run(output: Output, args: &Knobs) -> CommandResult {
    let root = SysRoot::live();
    // A lone path is a target, unless it is a path of the kernel's own.
    let (id, target) = match (&args.id, &args.target) {
        (Some(word), None)
            if (word.contains('/') || Path::new(word).exists()) && find(word).is_err() =>
        {
            (None, Some(word))
        }
        (id, target) => (id.as_ref(), target.as_ref()),
    };
    let (devices, mounts) = match target {
        Some(target) => of_target(output, &root, target)?,
        None => {
            let mut devices = machine_devices(&root);
            // The kernel's own path of a device's setting means that device.
            if let Some(name) = id.and_then(|id| id.strip_prefix("/sys/block/")?.split('/').next())
            {
                devices.retain(|device| device.name == name);
            }
            (devices, machine_mounts(&root))
        }
    };
    let Some(id) = id else {
        let found: Vec<(&Knob, Vec<Now>)> =
            all().iter().map(|knob| (knob, now(&root, &devices, &mounts, knob))).collect();
        output.text(&list(output.width(), target.map(String::as_str), &found))?;
        let knobs: Vec<Value> = found.iter().map(|(knob, now)| to_json(&root, knob, now)).collect();
        output.json("result", &json!({ "knobs": knobs }))?;
        return Ok(Exit::Done);
    };
    let id = word_of(id);
    let knob = find(id).map_err(|error| CommandError::usage(output, &error))?;
    let now = now(&root, &devices, &mounts, knob);
    output.text(&explain(&root, output.width(), id, knob, &now))?;
    output.json("result", &to_json(&root, knob, &now))?;
    Ok(Exit::Done)
}

/// A value with the place that has it.
struct Now {
    place: KnobPlace,
    value: Result<String, String>,
}

fn now(root: &SysRoot, devices: &[ScopeDevice], mounts: &[ScopeMount], knob: &Knob) -> Vec<Now> {
    let value = |place: &KnobPlace| read(root, place, knob.id).map_err(|error| error.to_string());
    let found = places(root, &Scope { devices, mounts, own: &[] }, knob);
    found.into_iter().map(|place| Now { value: value(&place), place }).collect()
}

fn of_target(
    output: Output,
    root: &SysRoot,
    target: &str,
) -> Result<(Vec<ScopeDevice>, Vec<ScopeMount>), CommandError> {
    if let Err(error) = std::fs::symlink_metadata(target) {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "does not exist; give a directory, a file or a device that does".to_owned()
            }
            _ => format!("cannot be looked at: {error}"),
        };
        return Err(CommandError::usage(output, &format!("'{target}' {reason}")));
    }
    let stack = fathom_inspect::resolve(root, Path::new(target))
        .map_err(|error| CommandError::usage(output, &error))?;
    let (devices, mount) = of_stack(root, &stack);
    // Shown are all of the stack, those too that an experiment sets only by name.
    let shown = |device| ScopeDevice { is_behind_file: false, ..device };
    Ok((devices.into_iter().map(shown).collect(), mount.into_iter().collect()))
}

/// All devices that hold something.
fn machine_devices(root: &SysRoot) -> Vec<ScopeDevice> {
    let disks =
        BlockDir::disks(root).into_iter().filter(|disk| disk.size_bytes().is_some_and(|b| b > 0));
    let device = |disk: BlockDir| {
        let id = device_id(root, disk.devno()?).text;
        let is_member = disk.slaves().is_empty();
        let name = disk.name().to_owned();
        Some(ScopeDevice { name, id, is_top: false, is_member, is_behind_file: false })
    };
    disks.filter_map(device).collect()
}

/// All filesystems on devices and on other machines, each where it is mounted first.
fn machine_mounts(root: &SysRoot) -> Vec<ScopeMount> {
    let own = mounts::own_mounts(root);
    let hidden = mounts::hidden(&own);
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for (mount, _) in own.iter().zip(hidden).filter(|(_, hidden)| !hidden) {
        let remote = of_remote(mount);
        let is_any = remote.is_some() || family(mount) == Family::Device;
        if !is_any || seen.contains(&mount.devno) {
            continue;
        }
        seen.push(mount.devno);
        if let Some(remote) = remote {
            found.push(remote);
            continue;
        }
        let devices = fathom_inspect::filesystem::devices(root, mount, &FsFacts::default());
        let Some(devno) = devices.first().and_then(BlockDir::devno) else { continue };
        found.push(ScopeMount {
            mount_point: mount.mount_point.clone(),
            device_id: device_id(root, devno).text,
            fs_type: mount.fs_type.clone(),
        });
    }
    found
}

/// Values with the places that have them, the same ones together: `none (vda, sdb)`.
fn grouped(now: &[Now]) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for one in now {
        let value = match &one.value {
            Ok(value) => value.clone(),
            Err(_) => "cannot be read".to_owned(),
        };
        let place = one.place.name();
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, places)) => places.push(place),
            None => groups.push((value, vec![place])),
        }
    }
    groups
}

/// Columns of the identifier and of the value in the list.
const ID_WIDTH: usize = 36;
const VALUE_WIDTH: usize = 16;

fn list(width: usize, target: Option<&str>, found: &[(&Knob, Vec<Now>)]) -> String {
    let mut text = match target {
        Some(target) => format!(
            "Settings of the stack under {target} and of the machine, with their values now.\n"
        ),
        None => "Settings of this machine with their values now.\n".to_owned(),
    };
    let mut family = "";
    let mut absent: Vec<&str> = Vec::new();
    for (knob, now) in found {
        if now.is_empty() {
            absent.push(knob.id);
            continue;
        }
        if knob.family() != family {
            family = knob.family();
            let _ = writeln!(text, "\n{family}");
        }
        let mark = match knob.access {
            Access::Set => "",
            Access::Fixed(_) => "   (fixed)",
            Access::Refused(_) => "   (refused)",
        };
        let groups = grouped(now);
        let is_one = groups.len() == 1;
        let mut id = knob.id;
        for (value, places) in &groups {
            let shown = if is_one { knob.title.to_owned() } else { places.join(", ") };
            let title = if is_one { format!("{shown}{mark}") } else { shown };
            let line = format!("  {id:ID_WIDTH$}{value:VALUE_WIDTH$}  ");
            paragraph(&mut text, width, &line, &title);
            id = "";
        }
    }
    if !absent.is_empty() {
        text.push('\n');
        paragraph(&mut text, width, "not here: ", &absent.join(", "));
    }
    text += "\n(fixed) only when a driver is loaded, a filesystem mounted or the kernel started; (refused) never by fathom.\n";
    text +=
        "What one does, may be and how it is kept: fathom knobs ID. To try values: fathom lab.\n";
    text
}

fn explain(root: &SysRoot, width: usize, asked: &str, knob: &Knob, now: &[Now]) -> String {
    let mut text = format!("{}: {}\n", knob.id, knob.title);
    let head = format!("{}, for {}; Linux: {}", knob.place(), knob.scope(), knob.kernels);
    paragraph(&mut text, width, "", &head);
    text.push('\n');
    paragraph(&mut text, width, "", knob.does);
    text.push('\n');
    let mut line = |label: &str, words: &str| {
        if !words.is_empty() {
            paragraph(&mut text, width, &format!("{label:14}"), words);
        }
    };
    let word = asked.trim_start_matches('-').to_ascii_lowercase();
    for old in old_names().iter().filter(|old| old.id == knob.id && old.name == word) {
        line("you asked for", &format!("{asked}: {}", old.note));
    }
    if let Some((today, reason)) = fathom_knobs::old_value(knob.id, &word) {
        line("you asked for", &format!("{asked}: {reason}; today's equivalent is {today}"));
    }
    let groups: Vec<String> = grouped(now)
        .iter()
        .map(|(value, places)| format!("{} ({})", with_unit(knob, value), places.join(", ")))
        .collect();
    let none = "nothing here has it".to_owned();
    line("now", &if groups.is_empty() { none } else { groups.join("; ") });
    line("may be", &may_be(root, knob, now));
    let words: Vec<String> =
        knob.words.iter().map(|(value, words)| format!("{value}: {words}")).collect();
    line("of these", &words.join("; "));
    match knob.access {
        Access::Set => {}
        Access::Refused(reason) => line("refused", reason),
        Access::Fixed(reason) => line("fixed", reason),
    }
    line("together with", knob.couplings);
    line("risk", knob.risk.word());
    line("not put back", knob.inexact);
    line("mind", knob.trap);
    let kept = persistent(root, knob, now);
    // Each value needs a rule of its own.
    let of = match now.first().filter(|_| grouped(now).len() > 1) {
        Some(first) => format!("that of {}; likewise the others; ", first.place.name()),
        None => String::new(),
    };
    if kept.file.is_empty() {
        let _ = writeln!(text, "{:14}{of}{}", "to keep it", kept.text);
    } else {
        line("to keep it", &format!("{of}{}:", kept.file));
        // Not wrapped: it is copied.
        let _ = writeln!(text, "{:14}{}", "", kept.text);
    }
    let mut line =
        |label: &str, words: &str| paragraph(&mut text, width, &format!("{label:14}"), words);
    if !kept.then.is_empty() {
        line("then", &kept.then);
    }
    text
}

/// A value with its unit; a read-ahead in sectors too, because tools count them.
fn with_unit(knob: &Knob, value: &str) -> String {
    match value.parse::<u64>() {
        Ok(kib) if knob.id.ends_with("read_ahead_kb") => format!("{kib} KiB = {} sectors", kib * 2),
        Ok(_) if !knob.unit.is_empty() => format!("{value} {}", knob.unit),
        _ => value.to_owned(),
    }
}

fn may_be(root: &SysRoot, knob: &Knob, now: &[Now]) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for one in now.iter().filter(|_| knob.is_set()) {
        let listed = legal::listed(root, &one.place, knob);
        let words = if listed.is_empty() {
            legal::legal_at(root, &one.place, knob)
        } else {
            listed.join(", ")
        };
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, places)) => places.push(one.place.name()),
            None => groups.push((words, vec![one.place.name()])),
        }
    }
    match groups.as_slice() {
        [] => legal::legal(knob),
        [(words, _)] => words.clone(),
        several => {
            let words =
                several.iter().map(|(words, places)| format!("{words} ({})", places.join(", ")));
            words.collect::<Vec<_>>().join("; ")
        }
    }
}

/// How the value of the first place is kept.
fn persistent(root: &SysRoot, knob: &Knob, now: &[Now]) -> Persistent {
    let first = now.first();
    let value = first.and_then(|one| one.value.as_deref().ok());
    persist::text(root, knob, first.map(|one| &one.place), value)
}

fn to_json(root: &SysRoot, knob: &Knob, now: &[Now]) -> Value {
    let reason = match knob.access {
        Access::Set => None,
        Access::Refused(reason) | Access::Fixed(reason) => Some(reason),
    };
    let access = match knob.access {
        Access::Set => "set",
        Access::Refused(_) => "refused",
        Access::Fixed(_) => "fixed",
    };
    let values: Vec<Value> = now
        .iter()
        .map(|one| {
            json!({
                "place": one.place,
                "name": one.place.name(),
                "value": one.value.as_ref().ok(),
                "error": one.value.as_ref().err(),
                "legal": legal::legal_at(root, &one.place, knob),
                "listed": legal::listed(root, &one.place, knob),
            })
        })
        .collect();
    let kept = persistent(root, knob, now);
    json!({
        "id": knob.id, "title": knob.title, "does": knob.does, "place": knob.place(),
        "scope": knob.scope(), "unit": knob.unit, "legal": legal::legal(knob),
        "words": knob.words, "couplings": knob.couplings, "kernels": knob.kernels,
        "risk": knob.risk.word(), "access": access, "reason": reason,
        "not_put_back": knob.inexact, "trap": knob.trap, "values": values,
        "persistent": { "file": kept.file, "text": kept.text, "then": kept.then },
    })
}

/// Words in lines of at most `width` columns, the first beginning with `first`, the others indented by as much.
fn paragraph(out: &mut String, width: usize, first: &str, words: &str) {
    let indent = first.chars().count();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}
