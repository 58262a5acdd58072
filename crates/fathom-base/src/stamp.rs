//! Written blocks say that fathom wrote them: the first 16 bytes of every 4 KiB of a file are a unique number and its
//! check. That makes blocks differ, and tells a test file from data that somebody copied into it later.

/// Distance of stamps in bytes.
pub const STEP_BYTES: usize = 4096;
/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 16;

/// What the number is mixed with to make its check.
const KEY: u64 = 0xFA74_0D1C_5EED_B10C;

/// Stamps a buffer; a different `unique` gives different blocks.
#[inline]
pub fn stamp(buffer: &mut [u8], unique: u64) {
    for (index, block) in buffer.chunks_mut(STEP_BYTES).enumerate() {
        if let Some(head) = block.first_chunk_mut::<STAMP_BYTES>() {
            let number = unique.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((index as u64) << 48);
            *head = (u128::from(number) | u128::from(check(number)) << 64).to_le_bytes();
        }
    }
}

/// Stamps a request's buffer so that the stamps lie on the 4 KiB multiples of the file, wherever the request begins;
/// what lies before the first multiple is made unique as well.
#[inline]
pub fn stamp_at(buffer: &mut [u8], offset_bytes: u64, unique: u64) {
    let into = (offset_bytes % STEP_BYTES as u64) as usize;
    if into == 0 {
        stamp(buffer, unique);
        return;
    }
    let (lead, rest) = buffer.split_at_mut((STEP_BYTES - into).min(buffer.len()));
    stamp(lead, !unique);
    stamp(rest, unique);
}

/// True for the head of a block that [`stamp`] wrote.
#[must_use]
pub fn is_stamp(head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<STAMP_BYTES>() else { return false };
    let both = u128::from_le_bytes(*head);
    (both >> 64) as u64 == check(both as u64)
}

#[inline]
fn check(number: u64) -> u64 {
    (number ^ KEY).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_lie_on_the_multiples_of_the_file() {
        let mut file = [0u8; 64 << 10];
        for (unique, start) in (0..file.len() - 6144).step_by(1536).enumerate() {
            stamp_at(&mut file[start..start + 6144], start as u64, unique as u64);
        }
        let written = file.len() / 6144 * 6144;
        assert!((0..written).step_by(STEP_BYTES).all(|at| is_stamp(&file[at..])));
    }

    #[test]
    fn stamps_are_known_again_and_all_different() {
        let mut buffers = [vec![0u8; 16384], vec![0u8; 16384], vec![7u8; 512], vec![1u8; 8]];
        buffers.iter_mut().enumerate().for_each(|(i, b)| stamp(b, i as u64));
        let heads: std::collections::BTreeSet<Vec<u8>> = buffers[..3]
            .iter()
            .flat_map(|b| b.chunks(STEP_BYTES))
            .map(|block| block[..STAMP_BYTES].to_vec())
            .collect();
        assert_eq!(heads.len(), 9);
        assert!(heads.iter().all(|h| is_stamp(h)));
        assert_eq!(buffers[3], [1; 8], "no room, no stamp");
        assert!(!is_stamp(&[0; 16]) && !is_stamp(b"PostgreSQL heap.") && !is_stamp(&[0; 8]));
    }
}
