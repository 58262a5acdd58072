//! The checksums of superblocks. Each is computed over some kilobytes at most, so the plain form suffices.

/// Reflected polynomial of CRC-32 (IEEE 802.3), as GPT, f2fs and LVM use it.
const CRC32: u32 = 0xedb8_8320;
/// Reflected polynomial of CRC-32C (Castagnoli), as ext4, XFS and btrfs use it.
const CRC32C: u32 = 0x82f6_3b78;

/// The remainder after `bytes`, from a first value, without the usual inversions.
fn remainder(polynomial: u32, first: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(first, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 }
        })
    })
}

/// CRC-32 from a first value, without inversions.
pub fn crc32_from(first: u32, bytes: &[u8]) -> u32 {
    remainder(CRC32, first, bytes)
}

/// The usual CRC-32.
pub fn crc32(bytes: &[u8]) -> u32 {
    !crc32_from(u32::MAX, bytes)
}

/// The usual CRC-32C.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !crc32c_raw(bytes)
}

/// CRC-32C without the last inversion, as ext4 stores it.
pub fn crc32c_raw(bytes: &[u8]) -> u32 {
    remainder(CRC32C, u32::MAX, bytes)
}

/// CRC-64 as bcache has it: the polynomial of ECMA-182, highest bit first, inverted before and after (CRC-64/WE).
pub fn crc64(bytes: &[u8]) -> u64 {
    const CRC64: u64 = 0x42f0_e1eb_a9ea_3693;
    !bytes.iter().fold(u64::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u64::from(byte) << 56, |crc, _| {
            if crc >> 63 == 1 { crc << 1 ^ CRC64 } else { crc << 1 }
        })
    })
}

/// The sum of md superblocks: all 32-bit words added up, the carry added in the end; a last half word counts too.
pub fn md_sum(bytes: &[u8], word: fn([u8; 4]) -> u32) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let half = rest.first_chunk::<2>().map_or(0, |half| u64::from(u16::from_le_bytes(*half)));
    let sum: u64 = words.iter().map(|bytes| u64::from(word(*bytes))).sum::<u64>() + half;
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the published catalogue of CRCs.
    #[test]
    fn the_check_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_raw(b"123456789"), !0xe306_9283);
        assert_eq!(crc64(b"123456789"), 0x62ec_59e3_f1a4_f00a);
        assert_eq!(crc32_from(crc32_from(7, b"1234"), b"56789"), crc32_from(7, b"123456789"));
    }

    #[test]
    fn the_carry_comes_back() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 3, 0];
        assert_eq!(md_sum(&bytes, u32::from_le_bytes), 0xffff_ffffu32.wrapping_add(5) + 1);
    }
}
