//! Numbers in the answers of drives; beyond their end there is nothing.

/// An answer of a drive.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn u8(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    pub(super) fn be16(self, at: usize) -> Option<u64> {
        self.number(at, 2, false)
    }

    pub(super) fn be32(self, at: usize) -> Option<u64> {
        self.number(at, 4, false)
    }

    pub(super) fn le16(self, at: usize) -> Option<u64> {
        self.number(at, 2, true)
    }

    pub(super) fn le32(self, at: usize) -> Option<u64> {
        self.number(at, 4, true)
    }

    pub(super) fn le64(self, at: usize) -> Option<u64> {
        self.number(at, 8, true)
    }

    /// What follows from here on.
    pub(super) fn from(self, at: usize) -> Option<Bytes<'a>> {
        self.0.get(at..).map(Bytes)
    }

    fn number(self, at: usize, len: usize, little: bool) -> Option<u64> {
        let bytes = self.0.get(at..at.checked_add(len)?)?;
        let fold = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if little { bytes.iter().rev().fold(0, fold) } else { bytes.iter().fold(0, fold) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_both_orders_and_an_end() {
        let bytes = Bytes(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!((bytes.be16(0), bytes.le16(0)), (Some(0x0102), Some(0x0201)));
        assert_eq!((bytes.be32(1), bytes.le32(1)), (Some(0x0203_0405), Some(0x0504_0302)));
        assert_eq!(bytes.le64(1), Some(0x0908_0706_0504_0302));
        assert_eq!(bytes.le64(2), None);
        assert_eq!(bytes.u8(9), None);
        assert_eq!(bytes.from(8).and_then(|rest| rest.u8(0)), Some(9));
        assert_eq!(bytes.be16(usize::MAX), None);
    }
}
