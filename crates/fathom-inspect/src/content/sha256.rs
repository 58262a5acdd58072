//! SHA-256 (FIPS 180-4), for the checksum of LUKS2 headers: some kilobytes, so the plain form suffices.

const ROUNDS: usize = 64;

/// The round constants: the first 32 bits behind the point of the cube roots of the first 64 primes.
const CONSTANTS: [u32; ROUNDS] = {
    let mut constants = [0; ROUNDS];
    let (mut found, mut number) = (0, 2);
    while found < ROUNDS {
        if is_prime(number) {
            constants[found] = root_bits(number, 3);
            found += 1;
        }
        number += 1;
    }
    constants
};

/// The first state: the same of the square roots of the first eight.
const START: [u32; 8] = {
    let primes = [2, 3, 5, 7, 11, 13, 17, 19];
    let mut start = [0; 8];
    let mut index = 0;
    while index < 8 {
        start[index] = root_bits(primes[index], 2);
        index += 1;
    }
    start
};

const fn is_prime(number: u128) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

/// The first 32 bits behind the point of the second or third root of a number.
const fn root_bits(number: u128, degree: u32) -> u32 {
    // The root of number * 2^(32 * degree) is 2^32 times that of the number, which is below 2^5.
    let wanted = number << (32 * degree);
    let (mut low, mut high) = (0u128, 1 << 37);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if middle.pow(degree) <= wanted { low = middle } else { high = middle }
    }
    low as u32
}

/// The digest of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((bytes.len() + 9).next_multiple_of(64) - 8, 0);
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    let mut state = START;
    for block in padded.as_chunks::<64>().0 {
        add_block(&mut state, block);
    }
    let mut digest = [0; 32];
    for (place, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *place = word.to_be_bytes();
    }
    digest
}

fn add_block(state: &mut [u32; 8], block: &[u8; 64]) {
    let mut words = [0u32; ROUNDS];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..ROUNDS {
        let (near, far) = (words[at - 15], words[at - 2]);
        let near = near.rotate_right(7) ^ near.rotate_right(18) ^ near >> 3;
        let far = far.rotate_right(17) ^ far.rotate_right(19) ^ far >> 10;
        words[at] = words[at - 16].wrapping_add(near).wrapping_add(words[at - 7]).wrapping_add(far);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.iter().zip(CONSTANTS) {
        let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = e & f ^ !e & g;
        let first = h.wrapping_add(sum).wrapping_add(choice).wrapping_add(constant);
        let first = first.wrapping_add(*word);
        let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = sum.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants and examples that the standard prints.
    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(
            (CONSTANTS[0], CONSTANTS[63], START[7]),
            (0x428a_2f98, 0xc671_78f2, 0x5be0_cd19)
        );
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        for (text, digest) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (long, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
        ] {
            let hex: String = sha256(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex, digest, "{text}");
        }
    }
}
