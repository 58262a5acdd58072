//! Timers of systemd, from their unit files.

use super::reader::Reader;
use super::timers::{self, kind};
use super::{Moment, calendar};
use fathom_model::system::Timer;
use std::collections::BTreeSet;
use std::path::Path;

/// Where unit files lie; of two with one name the first counts.
const DIRECTORIES: [&str; 6] = [
    "etc/systemd/system",
    "run/systemd/transient",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// The settings of a unit file in their order: section, key, value. Lines that end in a backslash go on.
#[must_use]
pub fn parse_unit(text: &str) -> Vec<(String, String, String)> {
    let (mut section, mut found) = (String::new(), Vec::new());
    let text = timers::without_comments(text).replace("\\\n", " ");
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, value)) = line.split_once('=') {
            found.push((section.clone(), key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

/// A unit with its drop-ins.
struct Unit {
    file: String,
    settings: Vec<(String, String, String)>,
}

impl Unit {
    /// The values of a key; an empty one takes back those before it.
    fn values(&self, key: &str) -> Vec<&str> {
        let mut values = Vec::new();
        for (_, _, value) in self.settings.iter().filter(|(_, known, _)| known == key) {
            if value.is_empty() {
                values.clear();
            } else {
                values.push(value.as_str());
            }
        }
        values
    }
}

/// The timers that touch storage.
pub(crate) fn timers(reader: &mut Reader<'_>, moment: &Moment) -> Vec<Timer> {
    let is_running = reader.root.exists("run/systemd/system");
    let wanted = wanted(reader);
    let mut names: BTreeSet<String> = BTreeSet::new();
    for directory in DIRECTORIES {
        let units = reader.names(directory).into_iter();
        // A template is no timer by itself; its instances are wanted by somebody.
        names.extend(units.filter(|name| name.ends_with(".timer") && !name.ends_with("@.timer")));
    }
    names.extend(wanted.iter().cloned());
    let mut found = Vec::new();
    for name in names {
        let Some(unit) = unit(reader, &name) else { continue };
        let service = unit
            .values("Unit")
            .last()
            .map_or_else(|| name.replace(".timer", ".service"), |service| (*service).to_owned());
        let service = self::unit(reader, &service);
        let commands = service.as_ref().map(|service| service.values("ExecStart").join("\n"));
        let Some(kind) = kind(&name, &commands.unwrap_or_default()) else { continue };
        let is_met = [Some(&unit), service.as_ref()]
            .into_iter()
            .flatten()
            .all(|unit| conditions_are_met(reader, unit));
        let is_transient = unit.file.starts_with("/run/systemd/transient/");
        found.push(Timer {
            kind: kind.into(),
            schedule: schedule(&unit),
            next_unix_s: if is_met { next(&unit, moment) } else { None },
            enabled: is_running && (is_transient || wanted.contains(&name)),
            file: unit.file,
            name,
        });
    }
    found
}

/// Timers that something pulls in, by their links in `X.wants` and `X.requires`.
fn wanted(reader: &mut Reader<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for directory in DIRECTORIES {
        for name in reader.names(directory) {
            if name.ends_with(".wants") || name.ends_with(".requires") {
                let links = reader.names(format!("{directory}/{name}")).into_iter();
                found.extend(links.filter(|link| link.ends_with(".timer")));
            }
        }
    }
    found
}

/// A unit by its name, with its drop-ins; of an instance its template. None when it is missing or masked.
fn unit(reader: &mut Reader<'_>, name: &str) -> Option<Unit> {
    let template = name
        .split_once('@')
        .and_then(|(base, rest)| Some(format!("{base}@.{}", rest.rsplit_once('.')?.1)));
    let names: Vec<&str> = [Some(name), template.as_deref()].into_iter().flatten().collect();
    let paths = names.iter().flat_map(|name| DIRECTORIES.map(|dir| format!("{dir}/{name}")));
    let file = paths.into_iter().find(|path| reader.root.exists(path))?;
    if reader.root.link(&file).as_deref() == Some(Path::new("/dev/null")) {
        return None;
    }
    let text = match reader.root.link(&file) {
        // A link that leads to another place of the machine, also when the machine is a recorded one.
        Some(link) if link.is_absolute() => reader.text(link)?,
        _ => reader.text(&file)?,
    };
    let mut settings = parse_unit(&text);
    for directory in DIRECTORIES.iter().rev() {
        for name in &names {
            let drop_ins = format!("{directory}/{name}.d");
            for part in reader.names(&drop_ins).iter().filter(|part| part.ends_with(".conf")) {
                let text = reader.text(format!("{drop_ins}/{part}")).unwrap_or_default();
                settings.extend(parse_unit(&text));
            }
        }
    }
    Some(Unit { file: format!("/{file}"), settings })
}

/// The settings that say when, in the words of the file.
fn schedule(unit: &Unit) -> String {
    let kinds = [
        "OnCalendar",
        "OnBootSec",
        "OnStartupSec",
        "OnActiveSec",
        "OnUnitActiveSec",
        "OnUnitInactiveSec",
    ];
    let words = kinds
        .iter()
        .flat_map(|key| unit.values(key).into_iter().map(move |value| format!("{key}={value}")));
    words.collect::<Vec<_>>().join("; ")
}

/// The earliest next start by its calendar expressions; none when one of them is not understood, or there are none. A random
/// delay comes on top.
fn next(unit: &Unit, moment: &Moment) -> Option<i64> {
    let mut earliest: Option<i64> = None;
    for expression in unit.values("OnCalendar") {
        let calendar = calendar::parse(expression)?;
        let next = calendar.next_after(moment.now_unix_s, moment.utc_offset_s);
        earliest = match (earliest, next) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    earliest
}

/// True when the paths that a unit asks for are there now. Other conditions are taken for met.
fn conditions_are_met(reader: &mut Reader<'_>, unit: &Unit) -> bool {
    let exist =
        unit.values("ConditionPathExists").into_iter().all(|path| match path.strip_prefix('!') {
            Some(path) => !reader.root.exists(path),
            None => reader.root.exists(path.trim_start_matches('|')),
        });
    let globs = unit.values("ConditionPathExistsGlob");
    exist
        && globs.into_iter().all(|glob| {
            let (wanted, glob) = match glob.strip_prefix('!') {
                Some(glob) => (false, glob),
                None => (true, glob),
            };
            let (directory, pattern) = glob.rsplit_once('/').unwrap_or(("", glob));
            let Some((start, "")) = pattern.split_once('*') else { return true };
            let names = reader.names(directory.trim_start_matches('/'));
            names.iter().any(|name| name.starts_with(start)) == wanted
        })
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
