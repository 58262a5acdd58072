//! Run identifiers: 60 random bits as 12 characters, so that the first four usually tell runs apart.
//!
//! Age is stored beside the identifier, not in it: a time-ordered identifier would have a long common prefix, and
//! people type prefixes.

use crate::prng::Prng;

/// Lower-case base 32 without i, l, o, u: what a person can read aloud and type.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Characters in an identifier.
pub const ID_CHARS: usize = 12;

/// Makes a run identifier from a generator that was seeded from the system's entropy.
#[must_use]
pub fn new_id(prng: &mut Prng) -> String {
    let mut bits = prng.next_u64();
    (0..ID_CHARS)
        .map(|_| {
            let digit = ALPHABET[(bits & 31) as usize];
            bits >>= 5;
            char::from(digit)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct_and_well_formed() {
        let mut prng = Prng::new(1, 1);
        let ids: std::collections::BTreeSet<String> =
            (0..10_000).map(|_| new_id(&mut prng)).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(
            ids.iter().all(|id| id.len() == ID_CHARS && id.bytes().all(|b| ALPHABET.contains(&b)))
        );
    }
}
