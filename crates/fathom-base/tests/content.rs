//! Fillers deliver the shares that were asked for, by a real compressor and by comparing whole units.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

use fathom_base::content::{ContentError, Filler, Savings};
use fathom_base::prng::Prng;
use fathom_base::stamp::is_stamp;
use std::collections::HashSet;

fn savable(compressible: f64, duplicates: f64, unit_bytes: u32) -> Filler {
    Filler::savable(Savings { compressible, duplicates, unit_bytes }, 42).unwrap()
}

/// Share of the bytes that lz4 saves when it gets pieces of this size.
fn saved(data: &[u8], piece_bytes: usize) -> f64 {
    let compressed: usize = data
        .chunks(piece_bytes)
        .map(|piece| lz4_flex::block::compress(piece).len().min(piece.len()))
        .sum();
    1.0 - compressed as f64 / data.len() as f64
}

fn hash(unit: &[u8]) -> u64 {
    let words = unit.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    words.fold(1, |hash, word| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29))
}

/// Share of the units that equal an earlier one.
fn duplicated(units: &[u64]) -> f64 {
    let different = units.iter().collect::<HashSet<_>>().len();
    1.0 - different as f64 / units.len() as f64
}

/// Independent of any compressor: what none of them can see is repeated nowhere, over whatever distance.
#[test]
fn noise_never_comes_back() {
    const TOTAL: usize = 16 << 20;
    for (block, seed) in [(4096, 1), (1 << 20, 1), (512, u64::MAX)] {
        let filler = Filler::noise(seed);
        let mut buffer = vec![0; block];
        let mut words: Vec<u64> = Vec::with_capacity(TOTAL / 8);
        for write in 0..TOTAL / block {
            filler.fill(&mut buffer, (write * block) as u64, write as u64);
            // As many bits are set as in noise: 6 standard deviations.
            let ones: u32 = buffer.iter().map(|byte| byte.count_ones()).sum();
            let bits = block as f64 * 8.0;
            assert!((f64::from(ones) - bits / 2.0).abs() < 3.0 * bits.sqrt(), "{ones} of {bits}");
            words.extend(buffer.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        }
        words.sort_unstable();
        // Among 2^21 random words of 64 bits two are equal once in ten million cases.
        assert!(words.is_sorted_by(|a, b| a < b), "blocks of {block}");
    }
}

#[test]
fn noise_is_incompressible_in_records_of_any_size() {
    let filler = Filler::noise(3);
    for block in [512, 4096, 65536, 1 << 20] {
        let mut data = vec![0; 8 << 20];
        for (write, piece) in data.chunks_mut(block).enumerate() {
            filler.fill(piece, (write * block) as u64, write as u64);
        }
        for piece in [4096, 131_072, 8 << 20] {
            assert!(saved(&data, piece) < 0.001, "blocks of {block}, records of {piece}");
        }
    }
}

#[test]
fn compressible_share_is_delivered() {
    for percent in [0, 1, 5, 10, 25, 33, 50, 67, 75, 90, 99, 100] {
        let wanted = f64::from(percent) / 100.0;
        for block in [4096, 65536] {
            let filler = savable(wanted, 0.0, 4096);
            let mut data = vec![0; 1 << 20];
            for (i, piece) in data.chunks_mut(block).enumerate() {
                filler.fill(piece, (i * block) as u64, i as u64);
            }
            for piece in [4096, 16384, 131_072] {
                let got = saved(&data, piece);
                assert!((got - wanted).abs() <= 0.02, "{wanted} wanted, {got} by {piece}");
            }
        }
    }
}

#[test]
fn duplicate_share_is_delivered() {
    const TOTAL: usize = 64 << 20;
    for (unit, block) in [(4096, 4096), (4096, 16384), (4096, 1 << 20), (131_072, 1 << 20)] {
        for percent in [0, 1, 10, 50, 90, 100] {
            let wanted = f64::from(percent) / 100.0;
            // Nearly all zeros, to be quick: equal or different all the same.
            let filler = savable(0.99, wanted, unit);
            let mut buffer = vec![0; block];
            let mut units = Vec::new();
            for i in 0..TOTAL / block {
                filler.fill(&mut buffer, (i * block) as u64, 1000 + i as u64);
                units.extend(buffer.chunks(unit as usize).map(hash));
            }
            let got = duplicated(&units);
            assert!((got - wanted).abs() <= 0.02, "{wanted} of {unit} in {block}: {got}");
        }
    }
}

#[test]
fn shares_survive_rewriting_at_random() {
    let filler = savable(0.99, 0.3, 4096);
    let mut units: Vec<u64> = (0..4096).collect();
    let mut written = Vec::new();
    let mut prng = Prng::new(1, 1);
    let mut block = [0; 8192];
    for generation in 1..40_000 {
        let place = prng.below(2048) as usize * 2;
        filler.fill(&mut block, place as u64 * 4096, generation);
        units[place] = hash(&block[..4096]);
        units[place + 1] = hash(&block[4096..]);
        written.extend_from_slice(&units[place..place + 2]);
    }
    let (on_disk, sent) = (duplicated(&units), duplicated(&written));
    assert!((on_disk - 0.3).abs() <= 0.02 && (sent - 0.3).abs() <= 0.02, "{on_disk}, {sent}");
}

#[test]
fn both_shares_at_once() {
    let filler = savable(0.4, 0.5, 4096);
    let mut data = vec![0; 4 << 20];
    for (i, piece) in data.chunks_mut(65536).enumerate() {
        filler.fill(piece, i as u64 * 65536, i as u64);
    }
    let units: Vec<u64> = data.chunks(4096).map(hash).collect();
    assert!((saved(&data, 4096) - 0.4).abs() <= 0.02);
    assert!((duplicated(&units) - 0.5).abs() <= 0.02);
}

#[test]
fn content_follows_from_seed_offset_and_generation() {
    for filler in [savable(0.0, 0.0, 4096), savable(0.3, 0.3, 512), savable(0.5, 0.9, 65536)] {
        let mut whole = vec![1; 256 << 10];
        filler.fill(&mut whole, 8192, 7);
        // In pieces of whatever length, unaligned too, it is the same.
        let mut pieces = vec![2; 256 << 10];
        let (mut at, mut length) = (0, 1);
        while at < pieces.len() {
            let end = (at + length).min(pieces.len());
            filler.fill(&mut pieces[at..end], 8192 + at as u64, 7);
            (at, length) = (end, length % 20_000 * 3 + 1);
        }
        assert!(whole == pieces);
        filler.fill(&mut pieces, 8192, 8);
        assert!(whole != pieces, "another generation");
        let other = Savings { compressible: 0.0, duplicates: 0.0, unit_bytes: 4096 };
        Filler::savable(other, 43).unwrap().fill(&mut pieces, 8192, 7);
        assert!(whole != pieces, "another seed");
    }
}

#[test]
fn all_but_zeros_is_known_for_ours() {
    let mut fillers = vec![Filler::noise(7), Filler::pattern("00").unwrap()];
    fillers.push(Filler::pattern("0xdeadbeef05").unwrap());
    fillers.extend([savable(0.0, 0.0, 4096), savable(1.0, 1.0, 65536), savable(0.5, 0.5, 512)]);
    for filler in fillers {
        for (block, start) in [(4096, 0), (65536, 0), (6144, 0), (1 << 20, 512)] {
            let mut file = vec![0; 4 << 20];
            for (i, piece) in file[start..].chunks_mut(block).enumerate() {
                filler.fill(piece, (start + i * block) as u64, i as u64);
            }
            let first = start.next_multiple_of(4096);
            assert!(file[first..].chunks(4096).all(is_stamp), "{filler:?}, {block}");
        }
    }
}

#[test]
fn patterns_repeat_from_the_start_of_the_target() {
    let bytes = [0xDE, 0xAD, 0xBE, 0xEF, 0x05];
    let filler = Filler::pattern("DEADbeef05").unwrap();
    let mut file = vec![0; 1 << 20];
    for (i, piece) in file.chunks_mut(1536).enumerate() {
        filler.fill(piece, i as u64 * 1536, i as u64);
    }
    let ours = |(i, &byte): (usize, &u8)| i % 4096 < 16 || byte == bytes[i % 5];
    assert!(file.iter().enumerate().all(ours));
    // Equal blocks stay equal where the pattern allows it.
    let filler = Filler::pattern("a5").unwrap();
    file.chunks_mut(65536)
        .enumerate()
        .for_each(|(i, p)| filler.fill(p, i as u64 * 65536, i as u64));
    assert!(file.chunks(4096).all(|block| block == &file[..4096]));
    Filler::zero().fill(&mut file, 0, 1);
    assert!(file.iter().all(|&byte| byte == 0));
}

#[test]
fn nonsense_is_refused() {
    let text = |error: ContentError| error.to_string();
    assert_eq!(
        text(Filler::pattern("abc").unwrap_err()),
        "pattern 'abc': write bytes as pairs of hexadecimal digits, for example deadbeef"
    );
    assert!(matches!(Filler::pattern("zz"), Err(ContentError::NotHex(_))));
    assert!(matches!(Filler::pattern(""), Err(ContentError::PatternLength(0))));
    assert!(Filler::pattern(&"00".repeat(4096)).is_ok());
    assert!(Filler::pattern(&"00".repeat(4097)).is_err());
    let savings = |compressible, duplicates, unit_bytes| {
        Filler::savable(Savings { compressible, duplicates, unit_bytes }, 1)
    };
    assert_eq!(
        text(savings(1.5, 0.0, 4096).unwrap_err()),
        "compressible 150 %: must be a share from 0 to 100 %"
    );
    assert!(savings(0.0, f64::NAN, 4096).is_err() && savings(-0.1, 0.0, 4096).is_err());
    assert!(savings(0.0, 0.5, 3000).is_err() && savings(0.0, 0.5, 256).is_err());
    assert_eq!(
        text(savable(0.0, 0.5, 131_072).check_block(65536).unwrap_err()),
        "blocks of 65536 bytes do not fill deduplication units of 131072 bytes: write whole units, \
         or set the unit to the block size"
    );
    assert!(savable(0.5, 0.0, 131_072).check_block(512).is_ok(), "no duplicates wanted");
    assert!(savable(0.0, 0.5, 4096).check_block(1 << 20).is_ok());
}
