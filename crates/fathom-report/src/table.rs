//! A text table: aligned columns, units in the cells, no lines drawn.

use crate::text::printable;

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

    /// True when there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, each indented by `indent` spaces and without spaces at its end. Columns that are empty
    /// in every row are left out.
    #[must_use]
    pub fn render(&self, indent: usize) -> String {
        let chars = |text: &str| text.chars().count();
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let used: Vec<(usize, usize)> = (0..self.columns.len())
            .filter_map(|column| {
                let widest = self.rows.iter().map(|(row, _)| chars(&cell(row, column))).max()?;
                (widest > 0).then(|| (column, widest.max(chars(&self.columns[column].0))))
            })
            .collect();
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| title.clone()).collect();
        let mut out = String::new();
        for (row, remark) in std::iter::once((&titles, ""))
            .chain(self.rows.iter().map(|(row, remark)| (row, remark.as_str())))
        {
            let mut line = " ".repeat(indent);
            for (position, &(column, width)) in used.iter().enumerate() {
                if position > 0 {
                    line.push_str(&" ".repeat(self.gap));
                }
                let text = cell(row, column);
                match self.columns[column].1 {
                    Align::Left => line.push_str(&format!("{text:<width$}")),
                    Align::Right => line.push_str(&format!("{text:>width$}")),
                }
            }
            if !remark.is_empty() {
                line.push_str("   ");
                line.push_str(remark);
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
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
}
