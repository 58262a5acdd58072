//! Lines that no kernel prints: nothing may panic, and no count may make a parser loop or allocate for it.

use super::*;
use fathom_base::prng::Prng;

const SEEDS: &[&str] = &[
    "0 2097152 thin-pool 253:2 253:3 128 0 1 skip_block_zeroing",
    "1 141/1024 3072/16384 - rw discard_passdown queue_if_no_space - 256",
    "8 27/1024 128 10/16384 23 5 14 2 0 10 3 2 metadata2 writeback 2 migration_threshold 2048 smq 0 rw -",
    "0 8192 raid raid1 3 0 region_size 1024 2 253:0 253:1 253:2 253:3",
    "raid5_ls 3 AaD 1048576/2097152 recover 8 0 -",
    "2 253:3 253:4 398/400 1 AD 3 disk 253:2 A",
    "0 32768 striped 2 128 8:0 2048 8:16 2048",
    "aes-xts-plain64 - 0 8:1 32768 2 allow_discards sector_size:4096",
    "2 queue_if_no_path retain_attached_hw_handler 1 alua 2 1 service-time 0 2 2 8:0 1 1 8:16 1 1 round-robin 0 1 1 8:32 1000",
    "2 0 0 0 2 1 A 0 1 2 8:0 A 0 0 1 E 0 2 2 8:16 F 3 0 1 8:32 A 0 0 1",
    "/dev/dm-3 normal - online online 1024 262144",
];

/// Words that break things: numbers at the edges, signs, nothing, other alphabets.
const WORDS: &[&str] = &[
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "0",
    "",
    "/",
    "1/0",
    "A",
    "Fail",
    "\u{fffd}",
    "\t",
    "9999999999",
];

fn parse_everything(text: &str) {
    if let Some(line) = line(text) {
        let _ = legs(line);
        parse_words(line.words);
    }
    parse_words(text);
}

fn parse_words(text: &str) {
    let _ = (pool_table(text), pool_status(text), snapshot_table(text), snapshot_status(text));
    let _ = (cache_table(text), cache_status(text), vdo_status(text), crypt_table(text));
    let _ = (integrity_table(text), raid_status(text), mirror_status(text));
    let _ = (multipath_table(text), multipath_status(text));
}

#[test]
fn changed_words_are_taken_or_refused() {
    let mut random = Prng::new(1, 0);
    for round in 0..20_000 {
        let seed = SEEDS[round % SEEDS.len()];
        let mut words: Vec<&str> = seed.split(' ').collect();
        for _ in 0..=random.below(3) {
            let at = random.below(words.len() as u64) as usize;
            words[at] = WORDS[random.below(WORDS.len() as u64) as usize];
        }
        words.truncate(1 + random.below(words.len() as u64) as usize);
        parse_everything(&words.join(" "));
    }
}

#[test]
fn changed_bytes_are_taken_or_refused() {
    let mut random = Prng::new(2, 0);
    for round in 0..20_000 {
        let mut bytes = SEEDS[round % SEEDS.len()].as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        parse_everything(&String::from_utf8_lossy(&bytes));
    }
}

/// The unchanged lines are understood: else the rounds above would prove nothing.
#[test]
fn the_seeds_are_understood() {
    let understood = |text: &str| {
        let words = line(text).map_or(text, |line| line.words);
        pool_table(words).is_some()
            || pool_status(words).is_some()
            || cache_status(words).is_some()
            || line(text).is_some_and(|line| !legs(line).is_empty())
            || raid_status(words).is_some()
            || mirror_status(words).is_some()
            || crypt_table(words).is_some()
            || multipath_table(words).is_some()
            || multipath_status(words).is_some()
            || vdo_status(words).is_some()
    };
    for seed in SEEDS {
        assert!(understood(seed), "{seed}");
    }
}
