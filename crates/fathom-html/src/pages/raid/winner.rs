//! The fastest arrays: the command that makes each as it was measured, what it stood on, its settings.

use crate::page::{Block, Section};
use crate::pages::parts;
use fathom_base::shell;
use fathom_model::record::Record;
use fathom_report::answer::{fastest, load};
use fathom_study::raid::{Pattern, RaidStudy, Row, State, factor};
use std::path::Path;

/// Each of the fastest once, with the loads under which it is.
fn winners(study: &RaidStudy) -> Vec<(&Row, Vec<Pattern>)> {
    let mut all: Vec<(&Row, Vec<Pattern>)> = Vec::new();
    for pattern in Pattern::ALL {
        let Some((row, _)) = fastest(study, pattern) else { continue };
        match all.iter_mut().find(|(known, _)| *known == row) {
            Some((_, patterns)) => patterns.push(pattern),
            None => all.push((row, vec![pattern])),
        }
    }
    all
}

/// What makes them, of the devices that the command named.
pub(super) fn commands(study: &RaidStudy, devices: &str) -> Vec<Block> {
    let block = |(row, patterns): (&Row, Vec<Pattern>)| {
        let loads: Vec<&str> = patterns.into_iter().map(load).collect();
        Block::Command {
            caption: format!(
                "To make {} as it was measured, the fastest under {} (destroys what is on the disks; {})",
                row.name(),
                loads.join(", "),
                risk(row)
            ),
            command: create(row, devices),
        }
    };
    winners(study).into_iter().map(block).collect()
}

/// What whoever uses it should know.
fn risk(row: &Row) -> &'static str {
    match row.level.as_str() {
        "raid0" => "one failed disk loses everything",
        _ => {
            "without a bitmap, as it was measured, a crash is followed by a synchronisation of the whole array; --bitmap=internal avoids \
             that, and costs some writes"
        }
    }
}

/// Without a bitmap, as it was measured: mdadm would add one to levels that can lose a member.
fn create(row: &Row, devices: &str) -> String {
    let mut words = vec!["mdadm --create /dev/md/NAME".to_owned()];
    words.push(format!("--level={}", shell::word(row.level.trim_start_matches("raid"))));
    words.extend(row.chunk.iter().map(|chunk| format!("--chunk={}", chunk.to_uppercase())));
    words.extend(row.layout.iter().map(|layout| format!("--layout={}", shell::word(layout))));
    if row.level != "raid0" {
        words.push("--bitmap=none".to_owned());
    }
    let all: Vec<&str> = devices.split_whitespace().collect();
    let count = row.members.as_ref().and_then(|count| count.parse().ok()).unwrap_or(all.len());
    words.push(format!("--raid-devices={count}"));
    words.extend(all.iter().take(count).map(|device| shell::path(Path::new(device)).to_string()));
    words.join(" ")
}

/// The first whole trial of such an array.
fn trial<'a>(row: &Row, records: &'a [Record]) -> Option<&'a Record> {
    let wanted = [
        (factor::LEVEL, Some(&row.level)),
        (factor::LAYOUT, row.layout.as_ref()),
        (factor::CHUNK, row.chunk.as_ref()),
        (factor::MEMBERS, row.members.as_ref()),
    ];
    records.iter().find(|record| {
        let Some(cell) = record.cell.as_deref().filter(|cell| cell.void.is_none()) else {
            return false;
        };
        let level = |name: &str| cell.levels.iter().find(|(own, _)| own == name).map(|(_, l)| l);
        let is_whole = level(factor::STATE).is_none_or(|state| state == State::Normal.word());
        is_whole && wanted.iter().all(|(name, value)| value.is_none() || level(name) == *value)
    })
}

/// What they stood on.
pub(super) fn stacks(study: &RaidStudy, records: &[Record]) -> Vec<Block> {
    let of = |(row, _): (&Row, Vec<Pattern>)| {
        let own = trial(row, records)?;
        let mut blocks = vec![Block::Text(format!("{}:", row.name()))];
        blocks.extend(parts::stacks(std::slice::from_ref(own)));
        (blocks.len() > 1).then_some(blocks)
    };
    winners(study).into_iter().filter_map(of).flatten().collect()
}

/// Every layer of them with its settings.
pub(super) fn layers(study: &RaidStudy, records: &[Record]) -> Option<Section> {
    let mut all: Option<Section> = None;
    for (row, _) in winners(study) {
        let own = trial(row, records).and_then(|trial| parts::layers(std::slice::from_ref(trial)));
        let Some(own) = own else { continue };
        let section = all.get_or_insert_with(|| {
            Section::new("Layers and settings of the fastest", own.note.clone())
        });
        section.blocks.push(Block::Text(format!("{}:", row.name())));
        section.blocks.extend(own.blocks);
    }
    all
}
