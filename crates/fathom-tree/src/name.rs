//! Names of what fathom makes below its private directories: those that leftovers know as fathom's.

use std::ffi::CStr;
use std::ops::Deref;

/// Bytes for a letter, a number and a zero.
const NAME_BYTES: usize = 24;
/// Digits of the numbers in names at least.
const DIGITS: usize = 7;

/// `f0000345`, without memory of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    bytes: [u8; NAME_BYTES],
    begin: usize,
}

impl Name {
    /// A letter that leftovers know, and a number.
    pub(crate) fn new(letter: u8, mut number: u64) -> Self {
        let mut bytes = [0; NAME_BYTES];
        let mut begin = NAME_BYTES - 1;
        while number > 0 || NAME_BYTES - 1 - begin < DIGITS {
            begin -= 1;
            bytes[begin] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        begin -= 1;
        bytes[begin] = letter;
        Self { bytes, begin }
    }

    /// That of a file.
    pub(crate) fn file(number: u64) -> Self {
        Self::new(b'f', number)
    }

    /// That of a directory.
    pub(crate) fn dir(number: u64) -> Self {
        Self::new(b'd', number)
    }
}

impl Deref for Name {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[self.begin..]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_leftovers_know() {
        assert_eq!(&*Name::file(0), c"f0000000");
        assert_eq!(&*Name::dir(12), c"d0000012");
        assert_eq!(&*Name::file(9_999_999), c"f9999999");
        assert_eq!(&*Name::file(10_000_000), c"f10000000");
        assert_eq!(&*Name::file(123_456_789), c"f123456789");
        assert_eq!(&*Name::file(u64::MAX), c"f18446744073709551615");
    }
}
