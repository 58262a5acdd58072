//! As much of Thrift's compact protocol as the descriptions in a Parquet file need.

/// Types of fields.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Lists of so many and more have their length behind their first byte.
const LONG_LIST: usize = 15;

/// A structure; its fields are written by rising numbers.
#[derive(Debug, Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

/// Seven bits in each byte, the lowest first; the highest bit says that more follow.
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The sign as the lowest bit.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

impl Struct {
    /// All fields here lie within fifteen of each other, and rise.
    fn field(&mut self, number: u8, kind: u8) {
        debug_assert!(number > self.last && number - self.last < 16);
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn list(&mut self, number: u8, kind: u8, len: usize) {
        self.field(number, LIST);
        if len < LONG_LIST {
            self.bytes.push((len as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, len as u64);
        }
    }

    fn bare_text(&mut self, text: &str) {
        varint(&mut self.bytes, text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    pub(super) fn int(&mut self, number: u8, value: i32) {
        self.field(number, I32);
        varint(&mut self.bytes, zigzag(value.into()));
    }

    pub(super) fn long(&mut self, number: u8, value: u64) {
        self.field(number, I64);
        varint(&mut self.bytes, zigzag(value.cast_signed()));
    }

    pub(super) fn text(&mut self, number: u8, text: &str) {
        self.field(number, BINARY);
        self.bare_text(text);
    }

    pub(super) fn ints(&mut self, number: u8, values: &[i32]) {
        self.list(number, I32, values.len());
        values.iter().for_each(|value| varint(&mut self.bytes, zigzag((*value).into())));
    }

    pub(super) fn texts(&mut self, number: u8, texts: &[&str]) {
        self.list(number, BINARY, texts.len());
        texts.iter().for_each(|text| self.bare_text(text));
    }

    pub(super) fn structs(&mut self, number: u8, structs: Vec<Self>) {
        self.list(number, STRUCT, structs.len());
        structs.into_iter().for_each(|one| self.bytes.extend(one.end()));
    }

    pub(super) fn one(&mut self, number: u8, one: Self) {
        self.field(number, STRUCT);
        self.bytes.extend(one.end());
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_sign() {
        assert_eq!(
            [0, -1, 1, -2, i64::MAX, i64::MIN].map(zigzag),
            [0, 1, 2, 3, u64::MAX - 1, u64::MAX]
        );
        let mut out = Vec::new();
        varint(&mut out, 300);
        assert_eq!(out, [0xac, 0x02]);
    }
}
