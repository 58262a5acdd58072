//! Tables as Parquet: row groups of optional columns, each column of a group one page of plain values packed by gzip.
//!
//! The form is small: no dictionaries, no statistics, no nesting. Every reader of Parquet takes it.

mod thrift;

use crate::columns::{Cell, Column, Kind};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use thrift::Struct;

/// What a file begins and ends with.
const MAGIC: &[u8] = b"PAR1";

/// Rows that are held in memory until they are written as a group.
pub const GROUP_ROWS_MAX: usize = 1 << 16;

/// Numbers of the form's own lists.
mod word {
    pub const BOOLEAN: i32 = 0;
    pub const INT64: i32 = 2;
    pub const DOUBLE: i32 = 5;
    pub const BYTE_ARRAY: i32 = 6;
    pub const OPTIONAL: i32 = 1;
    pub const UTF8: i32 = 0;
    pub const PLAIN: i32 = 0;
    pub const RLE: i32 = 3;
    pub const GZIP: i32 = 2;
    pub const DATA_PAGE: i32 = 0;
}

/// Writes one table.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    /// Bytes written.
    at: u64,
    columns: Vec<Column>,
    values: Vec<Values>,
    /// Rows in the group that is not written yet.
    pending: usize,
    rows: u64,
    groups: Vec<Group>,
}

/// What was written of a group of rows.
#[derive(Debug)]
struct Group {
    rows: u64,
    chunks: Vec<Chunk>,
}

/// What was written of one of its columns.
#[derive(Debug)]
struct Chunk {
    begin: u64,
    plain_bytes: u64,
    packed_bytes: u64,
}

/// The cells of a column that are not written yet.
#[derive(Debug, Default)]
struct Values {
    /// Whether there is one, row by row.
    is_there: Vec<bool>,
    /// Truths, which are packed.
    truths: Vec<bool>,
    /// All others, as they are written.
    plain: Vec<u8>,
}

impl Values {
    fn push(&mut self, cell: &Cell) {
        self.is_there.push(*cell != Cell::Empty);
        match cell {
            Cell::Empty => {}
            Cell::Text(text) => {
                self.plain.extend((text.len() as u32).to_le_bytes());
                self.plain.extend(text.as_bytes());
            }
            Cell::Whole(number) => self.plain.extend(number.to_le_bytes()),
            Cell::Number(number) => self.plain.extend(number.to_le_bytes()),
            Cell::Truth(truth) => self.truths.push(*truth),
        }
    }

    /// A page: which rows have a value, then the values.
    fn page(&self) -> Vec<u8> {
        let levels = packed(&self.is_there);
        // One run of groups of eight bits.
        let mut head = Vec::new();
        thrift::varint(&mut head, (levels.len() as u64) << 1 | 1);
        let mut page = ((head.len() + levels.len()) as u32).to_le_bytes().to_vec();
        page.extend(head);
        page.extend(levels);
        page.extend(&self.plain);
        page.extend(packed(&self.truths));
        page
    }
}

/// Bits, the first one lowest in the first byte.
fn packed(bits: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| {
        eight.iter().enumerate().fold(0_u8, |byte, (place, bit)| byte | u8::from(*bit) << place)
    };
    bits.chunks(8).map(byte).collect()
}

fn kind(kind: Kind) -> i32 {
    match kind {
        Kind::Text => word::BYTE_ARRAY,
        Kind::Whole => word::INT64,
        Kind::Number => word::DOUBLE,
        Kind::Truth => word::BOOLEAN,
    }
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of the output.
    pub fn begin(mut out: W, columns: &[Column]) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        let values = columns.iter().map(|_| Values::default()).collect();
        let (columns, groups) = (columns.to_vec(), Vec::new());
        Ok(Self { out, at: MAGIC.len() as u64, columns, values, pending: 0, rows: 0, groups })
    }

    /// Takes a row; a cell of another kind than its column is a mistake of the caller.
    ///
    /// # Errors
    /// Those of the output.
    pub fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        debug_assert_eq!(cells.len(), self.columns.len());
        for (cell, values) in cells.iter().zip(&mut self.values) {
            values.push(cell);
        }
        self.pending += 1;
        if self.pending == GROUP_ROWS_MAX { self.group() } else { Ok(()) }
    }

    /// Writes what is held.
    fn group(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.pending);
        if rows == 0 {
            return Ok(());
        }
        let mut chunks = Vec::new();
        for values in std::mem::take(&mut self.values) {
            let page = values.page();
            let mut packer = GzEncoder::new(Vec::new(), Compression::default());
            packer.write_all(&page)?;
            let body = packer.finish()?;
            let head = page_head(rows, page.len(), body.len());
            self.out.write_all(&head)?;
            self.out.write_all(&body)?;
            let begin = self.at;
            let packed_bytes = (head.len() + body.len()) as u64;
            self.at += packed_bytes;
            chunks.push(Chunk {
                begin,
                plain_bytes: (head.len() + page.len()) as u64,
                packed_bytes,
            });
        }
        self.values = self.columns.iter().map(|_| Values::default()).collect();
        self.rows += rows as u64;
        self.groups.push(Group { rows: rows as u64, chunks });
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Those of the output.
    pub fn end(mut self, written_by: &str) -> io::Result<W> {
        self.group()?;
        let mut foot = Struct::default();
        foot.int(1, 1);
        let mut schema = vec![self.root()];
        schema.extend(self.columns.iter().map(leaf));
        foot.structs(2, schema);
        foot.long(3, self.rows);
        foot.structs(4, self.groups.iter().map(|group| self.described(group)).collect());
        foot.text(6, written_by);
        let foot = foot.end();
        self.out.write_all(&foot)?;
        self.out.write_all(&(foot.len() as u32).to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        Ok(self.out)
    }

    fn root(&self) -> Struct {
        let mut root = Struct::default();
        root.text(4, "fathom");
        root.int(5, self.columns.len() as i32);
        root
    }

    fn described(&self, group: &Group) -> Struct {
        let chunk = |(column, chunk): (&Column, &Chunk)| {
            let mut about = Struct::default();
            about.int(1, kind(column.kind));
            about.ints(2, &[word::PLAIN, word::RLE]);
            about.texts(3, &[&column.name]);
            about.int(4, word::GZIP);
            about.long(5, group.rows);
            about.long(6, chunk.plain_bytes);
            about.long(7, chunk.packed_bytes);
            about.long(9, chunk.begin);
            let mut whole = Struct::default();
            whole.long(2, chunk.begin);
            whole.one(3, about);
            whole
        };
        let mut described = Struct::default();
        described.structs(1, self.columns.iter().zip(&group.chunks).map(chunk).collect());
        described.long(2, group.chunks.iter().map(|chunk| chunk.plain_bytes).sum());
        described.long(3, group.rows);
        described
    }
}

fn leaf(column: &Column) -> Struct {
    let mut leaf = Struct::default();
    leaf.int(1, kind(column.kind));
    leaf.int(3, word::OPTIONAL);
    leaf.text(4, &column.name);
    if column.kind == Kind::Text {
        leaf.int(6, word::UTF8);
    }
    leaf
}

fn page_head(rows: usize, plain_bytes: usize, packed_bytes: usize) -> Vec<u8> {
    let mut values = Struct::default();
    values.int(1, rows as i32);
    values.int(2, word::PLAIN);
    values.int(3, word::RLE);
    values.int(4, word::RLE);
    let mut head = Struct::default();
    head.int(1, word::DATA_PAGE);
    head.int(2, plain_bytes as i32);
    head.int(3, packed_bytes as i32);
    head.one(5, values);
    head.end()
}

#[cfg(test)]
mod tests;
