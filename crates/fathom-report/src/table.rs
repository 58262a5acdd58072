//! A text table: aligned columns, units in the cells, no lines drawn.

use crate::text::{printable, push_wrapped_to};

/// A table and what must be said below it, a sentence or two each.
#[derive(Debug, Clone)]
pub struct Noted {
    /// The table.
    pub table: Table,
    /// The remarks.
    pub notes: Vec<String>,
}

impl Noted {
    /// A table without remarks.
    #[must_use]
    pub fn plain(table: Table) -> Self {
        Self { table, notes: Vec::new() }
    }

    /// Table and remarks as text in so many columns.
    #[must_use]
    pub fn render_to(&self, width: usize) -> String {
        let mut out = self.table.render_to(0, width);
        self.notes.iter().for_each(|note| push_wrapped_to(&mut out, width, "  ", note));
        out
    }
}

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under column titles.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<(Vec<String>, String)>,
    gap: usize,
}

impl Table {
    /// A table without rows. `gap` is the number of spaces between columns.
    #[must_use]
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>, gap: usize) -> Self {
        let columns = columns.into_iter().map(|(title, align)| (title.to_owned(), align)).collect();
        Self { columns, rows: Vec::new(), gap }
    }

    /// Adds a row; missing cells are empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.row_with_remark(cells, "");
    }

    /// Adds a row with a remark behind its last cell.
    pub fn row_with_remark<S: Into<String>>(
        &mut self,
        cells: impl IntoIterator<Item = S>,
        remark: &str,
    ) {
        let cells = cells.into_iter().map(|cell| printable(&cell.into())).collect();
        self.rows.push((cells, printable(remark)));
    }

    /// Titles of the columns, and how they stand.
    #[must_use]
    pub fn columns(&self) -> &[(String, Align)] {
        &self.columns
    }

    /// The rows: cells, and the remark behind them.
    #[must_use]
    pub fn rows(&self) -> &[(Vec<String>, String)] {
        &self.rows
    }

    /// True when there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, each indented by `indent` spaces and without spaces at its end. Columns that are empty
    /// in every row are left out.
    #[must_use]
    pub fn render(&self, indent: usize) -> String {
        self.render_to(indent, usize::MAX)
    }

    /// The same in at most `width` columns, as far as single words allow. First words wrap inside of their columns; what is
    /// still too wide stands below, under the first column again. Numbers are never wrapped, and a remark that does not fit
    /// has the next line for itself.
    #[must_use]
    pub fn render_to(&self, indent: usize, width: usize) -> String {
        let room = width.saturating_sub(indent);
        let used = self.used();
        let least: Vec<(usize, usize)> =
            used.iter().map(|&(column, _)| (column, self.least(column))).collect();
        let mut out = String::new();
        let mut from = 0;
        while from < used.len() {
            let key = if from == 0 { 0 } else { 1 };
            let fits = |to: &usize| self.wide(&least[..key], &least[from..*to]) <= room;
            // A first column alone would stand above itself.
            let to = (from + 2 - key..=used.len()).rev().find(fits);
            let to = to.unwrap_or(from + 2 - key).min(used.len());
            let mut columns = [&used[..key], &used[from..to]].concat();
            self.narrow(&mut columns, room);
            self.push_block(&mut out, &Block { indent, width, columns }, from == 0);
            from = to;
        }
        out
    }

    fn cell<'c>(&'c self, row: &'c [String], column: usize) -> &'c str {
        row.get(column).map_or("", String::as_str)
    }

    /// The columns that are not empty, with their widths.
    fn used(&self) -> Vec<(usize, usize)> {
        let width = |column: usize| {
            let widest = self.rows.iter().map(|(row, _)| chars(self.cell(row, column))).max()?;
            (widest > 0).then(|| (column, widest.max(chars(&self.columns[column].0))))
        };
        (0..self.columns.len()).filter_map(width).collect()
    }

    /// What columns take side by side.
    fn wide(&self, key: &[(usize, usize)], columns: &[(usize, usize)]) -> usize {
        let all = || key.iter().chain(columns);
        all().map(|(_, width)| width + self.gap).sum::<usize>().saturating_sub(self.gap)
    }

    /// Makes columns of words narrower until all fit, the widest first, each down to its longest word.
    fn narrow(&self, columns: &mut [(usize, usize)], room: usize) {
        let least: Vec<usize> = columns.iter().map(|&(column, _)| self.least(column)).collect();
        while self.wide(&[], columns) > room {
            let can = |at: &usize| columns[*at].1 > least[*at];
            let widest = (0..columns.len()).filter(can).max_by_key(|at| columns[*at].1);
            let Some(at) = widest else { return };
            columns[at].1 -= 1;
        }
    }

    /// The narrowest that a column can be.
    fn least(&self, column: usize) -> usize {
        let (title, align) = &self.columns[column];
        let cells = self.rows.iter().map(|(row, _)| self.cell(row, column));
        let longest = |text: &str| match align {
            Align::Right => chars(text),
            Align::Left => wrapped(text, 1).iter().map(|line| chars(line)).max().unwrap_or(0),
        };
        cells
            .chain([title.as_str()])
            .map(longest)
            .max()
            .unwrap_or(0)
            .max(WORDS_MIN.min(chars(title)))
    }

    fn push_block(&self, out: &mut String, block: &Block, with_remarks: bool) {
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| title.clone()).collect();
        let rows = self.rows.iter().map(|(row, remark)| (row, remark.as_str()));
        for (row, remark) in std::iter::once((&titles, "")).chain(rows) {
            let remark = if with_remarks { remark } else { "" };
            self.push_row(out, block, row, remark);
        }
    }

    fn push_row(&self, out: &mut String, block: &Block, row: &[String], remark: &str) {
        let cells: Vec<Vec<String>> =
            block.columns.iter().map(|&(column, width)| self.lines(row, column, width)).collect();
        let lines = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for number in 0..lines {
            let mut line = " ".repeat(block.indent);
            for (position, &(column, width)) in block.columns.iter().enumerate() {
                if position > 0 {
                    line.push_str(&" ".repeat(self.gap));
                }
                let text = cells[position].get(number).map_or("", String::as_str);
                match self.columns[column].1 {
                    Align::Left => line.push_str(&format!("{text:<width$}")),
                    Align::Right => line.push_str(&format!("{text:>width$}")),
                }
            }
            let fits = chars(&line) + 3 + chars(remark) <= block.width;
            if number + 1 == lines && !remark.is_empty() {
                line = if fits { line } else { line.trim_end().to_owned() + "\n" };
                line = line + &" ".repeat(if fits { 3 } else { block.indent + 4 }) + remark;
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }

    fn lines(&self, row: &[String], column: usize, width: usize) -> Vec<String> {
        let text = self.cell(row, column);
        match self.columns[column].1 {
            Align::Left if chars(text) > width => wrapped(text, width),
            _ => vec![text.to_owned()],
        }
    }
}

/// Columns of a table that stand side by side.
struct Block {
    indent: usize,
    width: usize,
    columns: Vec<(usize, usize)>,
}

/// No column of words is made narrower than this, unless all its words are shorter.
const WORDS_MIN: usize = 12;

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Words in lines, with the indentation of the first.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let indent: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut out = String::new();
    push_wrapped_to(&mut out, width, &indent, text);
    out.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn aligned_and_without_empty_columns() {
        let mut table = Table::new(
            [
                ("", Align::Left),
                ("rate", Align::Right),
                ("empty", Align::Right),
                ("n", Align::Right),
            ],
            2,
        );
        assert!(table.is_empty());
        table.row(["read", "302.3 MB/s", "", "1"]);
        table.row_with_remark(["sequential write", "-", "", "12 345"], "<- here");
        table.row(["short row"]);
        expect![[r#"
                                    rate       n
            read              302.3 MB/s       1
            sequential write           -  12 345   <- here
            short row
        "#]]
        .assert_eq(&table.render(0));
        let indented: String =
            table.render(0).lines().map(|line| format!("    {line}\n")).collect();
        assert_eq!(table.render(4), indented);
    }

    fn wide() -> Table {
        let columns = [("name", Align::Left), ("IOPS", Align::Right), ("p99", Align::Right)];
        let mut table = Table::new(columns.into_iter().chain([("why", Align::Left)]), 2);
        table.row_with_remark(
            ["a", "12 345", "1.5 ms", "+7.1 % (+5.0 to +9.3 %): it differs"],
            "<- here",
        );
        table.row(["longer name", "9", "12.25 ms", "-"]);
        table
    }

    #[test]
    fn narrower_than_the_table() {
        expect![[r#"
            name           IOPS       p99  why
            a            12 345    1.5 ms  +7.1 % (+5.0 to +9.3 %): it differs
                <- here
            longer name       9  12.25 ms  -
        "#]]
        .assert_eq(&wide().render_to(0, 70));
        expect![[r#"
            name           IOPS       p99  why
            a            12 345    1.5 ms  +7.1 % (+5.0
                                           to +9.3 %):
                                           it differs
                <- here
            longer name       9  12.25 ms  -
        "#]]
        .assert_eq(&wide().render_to(0, 44));
        expect![[r#"
              name          IOPS       p99
              a           12 345    1.5 ms
                  <- here
              longer           9  12.25 ms
              name
              name         why
              a            +7.1 % (+5.0 to
                           +9.3 %): it
                           differs
              longer name  -
        "#]]
        .assert_eq(&wide().render_to(0, 28));
    }

    proptest::proptest! {
        /// No number is wrapped, none is lost, and no line is longer than asked for.
        #[test]
        fn any_table_fits(
            rows in proptest::collection::vec(proptest::collection::vec(0u32..10_000_000, 9), 1..4),
            words in 0usize..12,
            width in 40usize..120,
        ) {
            let right = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(|title| (title, Align::Right));
            let mut table = Table::new(right.into_iter().chain([("in words", Align::Left)]), 2);
            for row in &rows {
                let numbers = row.iter().map(|n| format!("{n} ms"));
                table.row(numbers.chain([vec!["word"; words].join(" ")]));
            }
            let text = table.render_to(0, width);
            proptest::prop_assert!(text.lines().all(|line| chars(line) <= width), "{text}");
            for number in rows.iter().flatten() {
                proptest::prop_assert!(text.contains(&format!("{number} ms")), "{number}\n{text}");
            }
        }
    }
}
