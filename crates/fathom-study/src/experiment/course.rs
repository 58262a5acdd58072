//! How an experiment went: the figure of every trial in the order of time, for pictures that show drift.

use super::figures::Figure;
use super::values::Trials;
use fathom_base::order::Order;
use fathom_model::plan::Plan;
use fathom_model::plan::cell::{Cell, Slot};
use fathom_model::record::Record;
use serde::Serialize;
use std::collections::BTreeMap;

/// One trial that counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CoursePoint {
    /// Its place in the order.
    pub slot: Slot,
    /// Place of its cell in the order of the design.
    pub cell: usize,
    /// Start of its first record, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// The figure.
    pub value: f64,
}

/// Every trial that counts, sentinels included, in the order of time. Trials without a value of the figure are left out.
#[must_use]
pub fn course(
    plan: &Plan,
    cells: &[Cell],
    records: &[Record],
    figure: &Figure,
) -> Vec<CoursePoint> {
    let trials = Trials::new(plan, cells, records);
    let places: BTreeMap<u32, usize> =
        cells.iter().enumerate().map(|(place, cell)| (cell.index, place)).collect();
    let mut found: BTreeMap<(u32, u32, u32), Vec<&Record>> = BTreeMap::new();
    for record in trials.records() {
        let Some(own) = &record.cell else { continue };
        let Slot { block, place, cell, .. } = own.slot;
        found.entry((block, place, cell)).or_default().push(record);
    }
    let point = |(_, records): (_, Vec<&Record>)| {
        let slot = records.first()?.cell.as_ref()?.slot;
        Some(CoursePoint {
            slot,
            cell: *places.get(&slot.cell)?,
            started_unix_ns: records.iter().map(|record| record.started_unix_ns).min()?,
            value: trials.value(&records, figure)?,
        })
    };
    let mut points: Vec<CoursePoint> = found.into_iter().filter_map(point).collect();
    points.order_by_key(|point| (point.started_unix_ns, point.slot.block, point.slot.place));
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::Sample;
    use fathom_model::plan::Metric;

    #[test]
    fn trials_stand_in_the_order_of_time_without_those_that_do_not_count() {
        let mut sample = Sample::new(&[("a", &["x", "y"])], 3, |cell, block| {
            1000.0 + f64::from(10 * block + cell.index)
        });
        sample.records.reverse();
        sample.records[2].cell.as_mut().expect("a cell").void = Some("drift".into());
        let figure = Figure::of(Some("read".into()), Metric::Iops);
        let got = course(&sample.plan, &sample.cells, &sample.records, &figure);
        let words: Vec<(u32, usize, f64)> =
            got.iter().map(|point| (point.slot.block, point.cell, point.value.round())).collect();
        assert_eq!(
            words,
            [(0, 0, 1000.0), (0, 1, 1001.0), (1, 0, 1010.0), (2, 0, 1020.0), (2, 1, 1021.0)]
        );
    }
}
