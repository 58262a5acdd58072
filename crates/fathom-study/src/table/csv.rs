//! Comma-separated values as RFC 4180 has them: quoted cells may hold commas, line ends and doubled quotes. Lines may
//! end with CR LF, a byte order mark is skipped, and so are empty lines.

use super::{COLUMNS_MAX, ROWS_MAX, TableError};

/// One line of the file.
pub struct Record {
    /// Where it begins, counted from 1.
    pub line: usize,
    /// Its cells, without quotes and without white space around unquoted ones.
    pub cells: Vec<String>,
}

/// Splits a text into records.
///
/// # Errors
/// When a quote is never closed, and as soon as there are more rows or columns than [`ROWS_MAX`] and [`COLUMNS_MAX`].
pub fn records(text: &str) -> Result<Vec<Record>, TableError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        reader.line += usize::from(c == '\n');
        match c {
            '"' if reader.is_quoted && chars.next_if_eq(&'"').is_some() => reader.cell.push('"'),
            '"' if reader.is_quoted => reader.is_quoted = false,
            _ if reader.is_quoted => reader.cell.push(c),
            '"' if reader.cell.trim().is_empty() => reader.open_quote(),
            ',' => reader.end_cell()?,
            '\n' => reader.end_record()?,
            _ => reader.cell.push(c),
        }
    }
    if reader.is_quoted {
        return Err(TableError::OpenQuote { line: reader.quote_line });
    }
    reader.end_record()?;
    Ok(reader.records)
}

struct Reader {
    records: Vec<Record>,
    cells: Vec<String>,
    cell: String,
    /// Inside quotes now.
    is_quoted: bool,
    /// The cell had quotes: its white space counts, and it is there even when it is empty.
    had_quotes: bool,
    /// The line being read, that of the record's begin, and that of the last opening quote.
    line: usize,
    record_line: usize,
    quote_line: usize,
}

impl Reader {
    fn new() -> Self {
        Self {
            records: Vec::new(),
            cells: Vec::new(),
            cell: String::new(),
            is_quoted: false,
            had_quotes: false,
            line: 1,
            record_line: 1,
            quote_line: 1,
        }
    }

    fn open_quote(&mut self) {
        self.cell.clear();
        (self.is_quoted, self.had_quotes, self.quote_line) = (true, true, self.line);
    }

    fn end_cell(&mut self) -> Result<(), TableError> {
        if self.cells.len() == COLUMNS_MAX {
            return Err(self.too_many("columns", COLUMNS_MAX));
        }
        let cell = std::mem::take(&mut self.cell);
        self.cells.push(if self.had_quotes { cell } else { cell.trim().to_owned() });
        self.had_quotes = false;
        Ok(())
    }

    fn too_many(&self, what: &'static str, most: usize) -> TableError {
        TableError::TooMany { line: self.record_line, what, most }
    }

    fn end_record(&mut self) -> Result<(), TableError> {
        let is_blank = self.cells.is_empty() && !self.had_quotes && self.cell.trim().is_empty();
        if is_blank {
            self.cell.clear();
        } else {
            // The first line names the columns.
            if self.records.len() > ROWS_MAX {
                return Err(self.too_many("rows", ROWS_MAX));
            }
            self.end_cell()?;
            let cells = std::mem::take(&mut self.cells);
            self.records.push(Record { line: self.record_line, cells });
        }
        self.record_line = self.line;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(text: &str) -> Vec<(usize, Vec<String>)> {
        records(text).unwrap().into_iter().map(|r| (r.line, r.cells)).collect()
    }

    fn row(line: usize, cells: &[&str]) -> (usize, Vec<String>) {
        (line, cells.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn plain_lines() {
        let expected = [row(1, &["a", "b"]), row(2, &["1", ""]), row(4, &["", "2"])];
        assert_eq!(cells("a,b\n1,\n\n,2\n"), expected);
        assert_eq!(cells("\u{feff}a, b\r\n1 ,\r\n\r\n,2"), expected);
        assert_eq!(cells(""), []);
    }

    #[test]
    fn quotes_hold_commas_quotes_and_line_ends() {
        let text = "\"3 readers, 3 writers\",\"say \"\"on\"\"\"\n\"two\nlines\",x\nlast,\"\"\n";
        let expected = [
            row(1, &["3 readers, 3 writers", "say \"on\""]),
            row(2, &["two\nlines", "x"]),
            row(4, &["last", ""]),
        ];
        assert_eq!(cells(text), expected);
        assert_eq!(cells("\" a \", b \n"), [row(1, &[" a ", "b"])]);
        assert_eq!(cells("\"\"\n"), [row(1, &[""])], "an empty cell is no empty line");
    }

    #[test]
    fn a_table_has_an_end() {
        let error = |text: &str| records(text).map(|_| ()).unwrap_err();
        let wide = vec!["x"; COLUMNS_MAX].join(",");
        assert_eq!(cells(&wide)[0].1.len(), COLUMNS_MAX);
        let (what, most) = ("columns", COLUMNS_MAX);
        assert_eq!(error(&format!("a\n{wide},x\n")), TableError::TooMany { line: 2, what, most });
        let long = "1\n".repeat(1 + ROWS_MAX);
        assert_eq!(records(&long).unwrap().len(), 1 + ROWS_MAX);
        let (line, what, most) = (ROWS_MAX + 2, "rows", ROWS_MAX);
        assert_eq!(error(&(long + "1\n")), TableError::TooMany { line, what, most });
    }

    #[test]
    fn a_quote_never_closed_is_found_where_it_opens() {
        let error = records("a,b\n1,\"2\n3,4\n").map(|_| ()).unwrap_err();
        assert_eq!(error, TableError::OpenQuote { line: 2 });
    }
}
