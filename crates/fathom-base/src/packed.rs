//! Long series of counts in little space: differences from value to value, runs of equal values counted, as text.
//!
//! A constant second of a device that idles takes nothing, a busy one two to three characters a counter.

use serde::{Deserialize, Serialize};

/// A series of counts, packed. Values are added at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    bytes: Vec<u8>,
    values: u32,
    last: u64,
    /// Repetitions of the last value that are not in `bytes` yet.
    repeats: u64,
}

/// Marks a count of repetitions: no difference of zero is ever written.
const REPEATS: u8 = 0;

impl Packed {
    /// Adds a value.
    pub fn push(&mut self, value: u64) {
        self.values += 1;
        if value == self.last {
            self.repeats += 1;
            return;
        }
        flush(&mut self.bytes, self.repeats);
        self.repeats = 0;
        put(&mut self.bytes, zigzag(value.wrapping_sub(self.last).cast_signed()));
        self.last = value;
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values as usize
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// Bytes that it takes in memory; about four thirds of it as text.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> Vec<u64> {
        let mut values = Vec::with_capacity(self.len());
        // Only what was checked while reading, or was pushed.
        decode(&self.bytes, |value, times| values.extend((0..times).map(|_| value)));
        values.extend((0..self.repeats).map(|_| self.last));
        values
    }

    /// The values that are not 0 among the first `length`, each with its place: runs of zeros are passed over at once.
    ///
    /// Not with a function for each: series are decoded by the million, and only what is compiled here is built for speed.
    #[must_use]
    pub fn but_zeros(&self, length: usize) -> Vec<(usize, u64)> {
        let (mut found, mut at) = (Vec::new(), 0usize);
        let mut run = |value: u64, times: u64| {
            let end = at.saturating_add(usize::try_from(times).unwrap_or(usize::MAX));
            if value != 0 {
                found.extend((at..end.min(length)).map(|at| (at, value)));
            }
            at = end;
        };
        decode(&self.bytes, &mut run);
        run(self.last, self.repeats);
        found
    }

    fn whole(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        flush(&mut bytes, self.repeats);
        bytes
    }

    fn read(bytes: Vec<u8>) -> Option<Self> {
        let (mut values, mut last) = (0u64, 0);
        if !decode(&bytes, |value, times| (values, last) = (values.saturating_add(times), value)) {
            return None;
        }
        Some(Self { bytes, values: u32::try_from(values).ok()?, last, repeats: 0 })
    }
}

impl FromIterator<u64> for Packed {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut packed = Self::default();
        values.into_iter().for_each(|value| packed.push(value));
        packed
    }
}

fn flush(bytes: &mut Vec<u8>, repeats: u64) {
    if repeats > 0 {
        bytes.push(REPEATS);
        put(bytes, repeats);
    }
}

/// Gives each value with how often it stands there; false when the bytes end in the middle.
fn decode(bytes: &[u8], mut each: impl FnMut(u64, u64)) -> bool {
    let (mut rest, mut last) = (bytes, 0u64);
    while let Some((first, behind)) = rest.split_first() {
        if *first == REPEATS {
            let Some((times, behind)) = take(behind) else { return false };
            each(last, times);
            rest = behind;
        } else {
            let Some((difference, behind)) = take(rest) else { return false };
            last = last.wrapping_add(unzigzag(difference).cast_unsigned());
            each(last, 1);
            rest = behind;
        }
    }
    true
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Seven bits a byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// The characters of six bits each: those of base64 without padding.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 3);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for at in 0..=three.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    text
}

fn of_text(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let six = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    for four in text.as_bytes().chunks(4) {
        if four.len() == 1 {
            return None;
        }
        let mut bits = 0u32;
        for at in 0..4 {
            bits = bits << 6 | four.get(at).map_or(Some(0), |byte| six(*byte)).map(u32::from)?;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    Some(bytes)
}

impl Serialize for Packed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_text(&self.whole()))
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let read = of_text(&text).and_then(Self::read);
        read.ok_or_else(|| serde::de::Error::custom("a series that is no packed one"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn round(values: &[u64]) -> usize {
        let packed: Packed = values.iter().copied().collect();
        assert_eq!(packed.values(), values);
        assert_eq!(packed.len(), values.len());
        for length in [values.len(), values.len() / 2] {
            let mut rest = vec![0; length];
            packed.but_zeros(length).into_iter().for_each(|(at, value)| rest[at] = value);
            assert_eq!(rest, values[..length]);
        }
        let text = serde_json::to_string(&packed).unwrap();
        let back: Packed = serde_json::from_str(&text).unwrap();
        assert_eq!(back.values(), values);
        // What was read can be gone on with.
        let mut more = back;
        more.push(7);
        more.push(7);
        assert_eq!(more.values(), [values, &[7, 7]].concat());
        text.len()
    }

    #[test]
    fn series_come_back_as_they_were() {
        assert_eq!(round(&[]), 2);
        round(&[0]);
        round(&[u64::MAX, 0, u64::MAX, 1, 1, 1, 0, 0]);
        round(&(0..2000).map(|x| x * x * x % 1013).collect::<Vec<_>>());
        for length in 0..20u64 {
            round(&(0..length).map(|x| 1 << (3 * x)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn idle_hours_take_nothing_and_busy_ones_little() {
        assert!(round(&vec![0; 100_000]) < 10);
        let busy: Vec<u64> = (0..3600).map(|x| 5000 + x * 7919 % 800).collect();
        assert!(round(&busy) < 3 * 3600);
    }

    #[test]
    fn damaged_text_is_an_error() {
        for text in ["\"A\"", "\"?AAA\"", "\"gA\"", "\"AA\""] {
            assert!(serde_json::from_str::<Packed>(text).is_err(), "{text}");
        }
    }
}
