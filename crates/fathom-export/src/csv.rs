//! Tables as comma-separated values (RFC 4180, but rows end with a line feed alone): a line of names, then a line for each row.

use crate::columns::{Cell, Column};
use std::io::{self, Write};

/// Writes the names.
///
/// # Errors
/// Those of the output.
pub fn header(out: &mut impl Write, columns: &[Column]) -> io::Result<()> {
    let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
    writeln!(out, "{}", names.join(","))
}

/// Writes a row.
///
/// # Errors
/// Those of the output.
pub fn row(out: &mut impl Write, cells: &[Cell]) -> io::Result<()> {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::Empty => Ok(()),
            Cell::Text(text) => out.write_all(quoted(text).as_bytes()),
            Cell::Whole(number) => write!(out, "{number}"),
            Cell::Number(number) => write!(out, "{number}"),
            Cell::Truth(truth) => write!(out, "{truth}"),
        }?;
    }
    out.write_all(b"\n")
}

/// Text that could be taken for something else is put into quotes; an empty one too, because an empty cell means that there is
/// none.
fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty()
        && !text.contains([',', '"', '\n', '\r'])
        && !text.starts_with(' ')
        && !text.ends_with(' ');
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Kind;

    #[test]
    fn what_could_be_taken_for_something_else_is_quoted() {
        let mut out = Vec::new();
        let column = |name: &str| Column { name: name.into(), kind: Kind::Text };
        header(&mut out, &[column("a"), column("b,c")]).expect("writes");
        let cells = [
            Cell::Empty,
            Cell::text(""),
            Cell::text("x y"),
            Cell::text("say \"no\",\nthen"),
            Cell::Whole(-3),
            Cell::number(0.1),
            Cell::number(f64::NAN),
            Cell::Truth(true),
        ];
        row(&mut out, &cells).expect("writes");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "a,\"b,c\"\n,\"\",x y,\"say \"\"no\"\",\nthen\",-3,0.1,,true\n");
    }
}
