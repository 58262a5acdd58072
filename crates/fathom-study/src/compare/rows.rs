//! The rows of two sides that belong together, and whether their runs were made in turn.

use super::Side;
use crate::repeats::without_repeat;
use fathom_base::order::Order;
use fathom_model::record::{Record, RunHead};

/// One job of one record, with the head of its run.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// The head of its run.
    pub head: &'a RunHead,
    /// The record.
    pub record: &'a Record,
    /// Which of its jobs.
    pub job: usize,
}

/// One run of a row: its repetitions inside the run share file and place, and count as one value.
#[derive(Debug, Clone)]
pub struct Unit<'a> {
    /// The repetitions, in the order of time; at least one.
    pub cells: Vec<Cell<'a>>,
}

impl Unit<'_> {
    /// When it began.
    pub(super) fn started_unix_ns(&self) -> i64 {
        self.cells.first().map_or(0, |cell| cell.record.started_unix_ns)
    }
}

/// The runs of one row on both sides.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// What people call it.
    pub name: String,
    /// On side A, in the order of time.
    pub a: Vec<Unit<'a>>,
    /// On side B.
    pub b: Vec<Unit<'a>>,
}

/// What both sides have in common, and what only one has.
#[derive(Debug, Clone, Default)]
pub struct Rows<'a> {
    /// Rows of both, in the order of side A.
    pub common: Vec<Row<'a>>,
    /// Names of rows that only side A has.
    pub only_a: Vec<String>,
    /// Names of rows that only side B has.
    pub only_b: Vec<String>,
}

/// A label without the number of its repetition (`randread #3` is `randread`) and without the depth that `quick` found
/// for it (`mixed (20 % writes), 64`), which is another in another run.
pub(crate) fn without_number(label: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let label = match label.rsplit_once("), ") {
        Some((name, depth)) if is_number(depth) => &label[..=name.len()],
        _ => label,
    };
    without_repeat(label)
}

/// A row of one side: the label of its records, and which of their jobs it is where there are several.
type Key<'a> = (&'a str, Option<&'a str>);

fn name((label, job): Key<'_>) -> String {
    job.map_or_else(|| label.to_owned(), |job| format!("{label}, {job}"))
}

fn units<'a>(side: &'a Side) -> Vec<(Key<'a>, Vec<Unit<'a>>)> {
    let mut rows: Vec<(Key<'a>, Vec<Unit<'a>>)> = Vec::new();
    for run in &side.runs {
        for record in &run.records {
            for (job, of) in record.jobs.iter().enumerate() {
                let label = without_number(&record.label);
                let key = (label, (record.jobs.len() > 1).then_some(of.name.as_str()));
                let cell = Cell { head: &run.head, record, job };
                let row = match rows.iter().position(|(known, _)| *known == key) {
                    Some(row) => row,
                    None => {
                        rows.push((key, Vec::new()));
                        rows.len() - 1
                    }
                };
                let units = &mut rows[row].1;
                match units.last_mut() {
                    Some(unit) if unit.cells[0].head.id == run.head.id => unit.cells.push(cell),
                    _ => units.push(Unit { cells: vec![cell] }),
                }
            }
        }
    }
    for (_, units) in &mut rows {
        units.order_by_key(Unit::started_unix_ns);
    }
    rows
}

/// The one label that all rows have.
fn only_label<'a>(rows: &[(Key<'a>, Vec<Unit<'a>>)]) -> Option<&'a str> {
    let ((label, _), _) = rows.first()?;
    rows.iter().all(|((other, _), _)| other == label).then_some(*label)
}

/// Rows of the same name belong together. Where each side has a single row, these do, whatever they are called: then
/// the workload is what is compared. Where each side has the jobs of a single label, as cells of an experiment, jobs of the same
/// name do.
#[must_use]
pub fn rows<'a>(a: &'a Side, b: &'a Side) -> Rows<'a> {
    let (left, mut right) = (units(a), units(b));
    if let ([(key, x)], [(other, y)]) = (left.as_slice(), right.as_slice())
        && key != other
    {
        let name = format!("{} / {}", name(*key), name(*other));
        return Rows { common: vec![Row { name, a: x.clone(), b: y.clone() }], ..Rows::default() };
    }
    let of_cells = only_label(&left).zip(only_label(&right)).filter(|(a, b)| a != b);
    let cells = of_cells.map(|(a, b)| format!("{a} / {b}"));
    let mut rows = Rows::default();
    for (key, units) in left {
        let is_same =
            |other: Key<'_>| if cells.is_some() { other.1 == key.1 } else { other == key };
        match right.iter().position(|(other, _)| is_same(*other)) {
            Some(at) => {
                let name = name((cells.as_deref().unwrap_or(key.0), key.1));
                rows.common.push(Row { name, a: units, b: right.remove(at).1 });
            }
            None => rows.only_a.push(name(key)),
        }
    }
    rows.only_b = right.into_iter().map(|(key, _)| name(key)).collect();
    rows
}

impl Row<'_> {
    /// True when the runs of both sides were made in turn, one of each in every pair of neighbours in time: then what
    /// drifts (temperature, fill, other users) hits both alike, and each pair is a block of its own.
    #[must_use]
    pub fn made_in_turn(&self) -> bool {
        let of = |units: &[Unit<'_>], is_a: bool| {
            units.iter().map(|unit| (unit.started_unix_ns(), is_a)).collect::<Vec<_>>()
        };
        let mut all = of(&self.a, true);
        all.extend(of(&self.b, false));
        all.order();
        self.a.len() == self.b.len()
            && self.a.len() > 1
            && all.chunks(2).all(|pair| matches!(pair, [x, y] if x.1 != y.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_model::record::JobRecord;

    fn side(name: &str, runs: &[(&str, i64)]) -> Side {
        let run = |(label, started): &(&str, i64)| {
            let mut run = fixtures::run(*started, 1000.0);
            run.head.id = format!("{name}{started}");
            run.records[0].label = (*label).to_owned();
            run
        };
        Side { name: name.into(), runs: runs.iter().map(run).collect() }
    }

    fn names(rows: &Rows<'_>) -> Vec<(String, usize, usize)> {
        rows.common.iter().map(|row| (row.name.clone(), row.a.len(), row.b.len())).collect()
    }

    #[test]
    fn repetitions_are_one_row() {
        let a = side("A", &[("read #1", 1), ("read #2", 2), ("write", 3), ("old", 4)]);
        let b = side("B", &[("write", 5), ("read #1", 6), ("new", 7)]);
        let rows = rows(&a, &b);
        assert_eq!(names(&rows), [("read".into(), 2, 1), ("write".into(), 1, 1)]);
        assert_eq!((rows.only_a, rows.only_b), (vec!["old".to_owned()], vec!["new".to_owned()]));
    }

    #[test]
    fn single_rows_are_compared_whatever_they_are_called() {
        let (a, b) = (side("A", &[("randread", 1)]), side("B", &[("randwrite", 2)]));
        assert_eq!(names(&rows(&a, &b)), [("randread / randwrite".into(), 1, 1)]);
    }

    #[test]
    fn jobs_of_two_cells_are_compared_by_their_names() {
        let cell = |name: &str, label: &str, jobs: [&str; 2]| {
            let mut cell = side(name, &[(label, 1)]);
            let record = &mut cell.runs[0].records[0];
            let job = record.jobs[0].clone();
            record.jobs = jobs.map(|name| JobRecord { name: name.into(), ..job.clone() }).into();
            cell
        };
        let a = cell("A", "sync=file", ["deliver", "calls"]);
        let b = cell("B", "sync=after", ["other", "deliver"]);
        let found = rows(&a, &b);
        assert_eq!(names(&found), [("sync=file / sync=after, deliver".into(), 1, 1)]);
        assert_eq!(found.only_a, ["sync=file, calls"]);
        assert_eq!(found.only_b, ["sync=after, other"]);
        // Under one label they keep its name.
        let found = rows(&a, &a);
        let same = [("sync=file, deliver".into(), 1, 1), ("sync=file, calls".into(), 1, 1)];
        assert_eq!(names(&found), same);
    }

    #[test]
    fn repetitions_inside_a_run_are_one_value() {
        let mut a = side("A", &[("read #1", 1), ("read #2", 2), ("read #1", 3)]);
        let second = a.runs.remove(1);
        a.runs[0].records.extend(second.records);
        let b = side("B", &[("read", 4)]);
        assert_eq!(names(&rows(&a, &b)), [("read".into(), 2, 1)]);
        assert_eq!(without_number("mixed (20 % writes), 64"), "mixed (20 % writes)");
        assert_eq!(without_number("random read, 16 in flight"), "random read, 16 in flight");
    }

    #[test]
    fn only_neighbours_in_time_are_pairs() {
        let in_turn = |a: &[i64], b: &[i64]| {
            let of = |times: &[i64]| times.iter().map(|t| ("read", *t)).collect::<Vec<_>>();
            let (a, b) = (side("A", &of(a)), side("B", &of(b)));
            rows(&a, &b).common[0].made_in_turn()
        };
        assert!(in_turn(&[1, 4, 5], &[2, 3, 6]));
        assert!(!in_turn(&[1, 2, 3], &[4, 5, 6]));
        assert!(!in_turn(&[1, 3], &[2, 4, 5]));
        assert!(!in_turn(&[1], &[2]));
    }
}
