//! Files are read by a reader of other people's, cell by cell.

use super::*;
use crate::samples::run;
use crate::tables::{Table, What};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{Field, Row};

/// The names of the columns, and all rows.
fn read(file: Vec<u8>) -> (Vec<String>, Vec<Vec<Cell>>) {
    let mut there = tempfile::tempfile().expect("a file");
    there.write_all(&file).expect("written");
    let reader = SerializedFileReader::new(there).expect("is Parquet");
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let names = schema.columns().iter().map(|column| column.name().to_owned()).collect();
    let cell = |field: &Field| match field {
        Field::Null => Cell::Empty,
        Field::Str(text) => Cell::text(text),
        Field::Long(number) => Cell::Whole(*number),
        Field::Double(number) => Cell::Number(*number),
        Field::Bool(truth) => Cell::Truth(*truth),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).expect("rows");
    let row = |row: Row| row.get_column_iter().map(|(_, f)| cell(f)).collect();
    (names, rows.map(|read| row(read.expect("a row"))).collect())
}

fn written(columns: &[Column], rows: &[Vec<Cell>]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), columns).expect("begins");
    rows.iter().for_each(|row| writer.row(row).expect("writes"));
    writer.end("fathom test").expect("ends")
}

#[track_caller]
fn comes_back(columns: &[Column], rows: &[Vec<Cell>]) {
    let (names, read) = read(written(columns, rows));
    assert_eq!(names, columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>());
    assert_eq!(read.len(), rows.len());
    for (number, (read, row)) in read.iter().zip(rows).enumerate() {
        assert_eq!(read, row, "row {number}");
    }
}

#[test]
fn every_table_of_a_run_comes_back() {
    let run = run();
    for what in What::ALL {
        let table = Table::new(what, &[]);
        let mut rows = Vec::new();
        let put = |cells| {
            rows.push(cells);
            Ok::<(), io::Error>(())
        };
        table.rows(&run, put).expect("never fails");
        comes_back(&table.columns, &rows);
    }
}

#[test]
fn every_kind_of_cell_comes_back_also_over_several_groups_and_none() {
    let kinds = [Kind::Text, Kind::Whole, Kind::Number, Kind::Truth, Kind::Text];
    let column = |(at, kind): (usize, &Kind)| Column { name: format!("c_{at}"), kind: *kind };
    let columns: Vec<Column> = kinds.iter().enumerate().map(column).collect();
    let row = |number: usize| {
        let or = |every: usize, cell: Cell| {
            if number.is_multiple_of(every) { Cell::Empty } else { cell }
        };
        let signed =
            if number.is_multiple_of(2) { i64::MIN + number as i64 } else { number as i64 };
        vec![
            or(3, Cell::text(if number % 7 == 1 { "" } else { "zw\u{f6}lf, \"x\"\n" })),
            or(5, Cell::Whole(signed)),
            or(7, Cell::Number(1.0 / (number as f64 + 1.0) - 0.3)),
            or(2, Cell::Truth(number % 3 == 1)),
            Cell::Empty,
        ]
    };
    for count in [0, 1, 7, 8, 9, 1000, 2 * GROUP_ROWS_MAX + 1] {
        comes_back(&columns, &(0..count).map(row).collect::<Vec<_>>());
    }
    let many: Vec<Column> = (0..40).map(|at| column((at, &Kind::Whole))).collect();
    comes_back(&many, &[(0..40).map(Cell::Whole).collect()]);
}
