//! The settings of the cells as they were read before and after each measurement.

use super::Shown;
use crate::page::{Cell, Column, Section, Table};
use fathom_model::plan::cell::KnobReading;
use fathom_report::experiment::words;
use std::collections::BTreeMap;

/// What is told apart: knob, place, asked, before, after.
type Key = (String, String, String, Option<String>, Option<String>);

pub(super) fn sections(shown: &Shown) -> Vec<Section> {
    let mut counts: BTreeMap<Key, (usize, usize)> = BTreeMap::new();
    for cell in shown.source.records.iter().filter_map(|record| record.cell.as_ref()) {
        for reading in &cell.knobs {
            let KnobReading { knob, place, asked, before, after, .. } = reading.clone();
            let (count, void) =
                counts.entry((knob, place.name(), asked, before, after)).or_default();
            *count += 1;
            *void += usize::from(cell.void.is_some());
        }
    }
    if counts.is_empty() {
        return Vec::new();
    }
    let note = "What each setting was asked to be, and what was read back just before and just after the measurements. What somebody \
                changed meanwhile makes a trial void. After the experiment everything is put back as it was.";
    vec![Section::new("Settings", note).block(table(&counts))]
}

fn table(counts: &BTreeMap<Key, (usize, usize)>) -> Table {
    let columns = [
        Column::left("setting"),
        Column::left("of"),
        Column::left("asked for"),
        Column::left("before"),
        Column::left("after"),
        Column::right("measurements"),
    ];
    let mut table = Table::new("", columns);
    table.is_sortable = true;
    for ((knob, place, asked, before, after), (count, void)) in counts {
        let read = |value: &Option<String>| value.clone().unwrap_or_else(|| "not read".to_owned());
        let cells = [
            Cell::from(knob.clone()),
            place.clone().into(),
            asked.clone().into(),
            read(before).into(),
            read(after).into(),
            Cell::number(count.to_string(), *count as f64),
        ];
        let changed = if before == after { "" } else { "changed by somebody" };
        let void = match void {
            0 => String::new(),
            void => words::count(*void, "void", "void"),
        };
        let remark: Vec<&str> =
            [changed, &void].into_iter().filter(|word| !word.is_empty()).collect();
        table.row_with_remark(cells, remark.join(", "));
    }
    table
}
