//! The classic random streams against the C library of this machine: a small C program, compiled here, prints them.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

use fathom_base::classic_stream::{Randomio, Seeker};
use fathom_base::glibc_random::{GlibcRandom, Rand48};
use std::io::Write;
use std::process::{Command, Stdio};

const SEEDS: [u32; 6] = [0, 1, 42, 0x7FFF_FFFF, 0x8000_0000, u32::MAX];
const COUNT: usize = 2000;
const BLOCKS: u64 = 976_773_168;
const TARGET_BYTES: u64 = 297_999_999_488;

const PEER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#ifndef __GLIBC__
#error "these streams are those of the GNU C library"
#endif

int main(void)
{
    static const unsigned seeds[] = { 0u, 1u, 42u, 0x7fffffffu, 0x80000000u, 0xffffffffu };

    /* First of all, before anything is seeded: randomio. */
    long offsets = (TARGET_BYTES - 4096) / 4096;
    for (int i = 0; i < COUNT; i++) {
        double where = drand48(), what = drand48();
        printf("%ld\n%d\n%d\n", 4096 * (long)(where * offsets), what < 0.2, what < 0.2 * 0.1);
    }
    for (int i = 0; i < COUNT; i++)
        printf("%ld\n", random());
    for (unsigned s = 0; s < sizeof(seeds) / sizeof(seeds[0]); s++) {
        srandom(seeds[s]);
        for (int i = 0; i < COUNT; i++)
            printf("%ld\n", random());
        srand(seeds[s]);
        for (int i = 0; i < COUNT; i++)
            printf("%d\n", rand());
        srand48(seeds[s]);
        for (int i = 0; i < COUNT; i++)
            printf("%ld\n", lrand48());
        srand48(seeds[s]);
        for (int i = 0; i < COUNT; i++)
            printf("%.0f\n", drand48() * 281474976710656.0);
        srand(seeds[s]);
        for (int i = 0; i < COUNT; i++)
            printf("%ld\n", (long)BLOCKS * random() / RAND_MAX);
        srand(seeds[s]);
        for (int i = 0; i < COUNT; i++)
            printf("%ld\n", (long)(BLOCKS * (random() / (double)RAND_MAX)));
    }
    return 0;
}
"#;

/// What the peer prints, number by number.
fn peer() -> Vec<u64> {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("peer");
    let mut compiler = Command::new("cc")
        .args(["-O1", "-x", "c", "-", "-o"])
        .arg(&program)
        .arg(format!("-DCOUNT={COUNT}"))
        .arg(format!("-DBLOCKS={BLOCKS}UL"))
        .arg(format!("-DTARGET_BYTES={TARGET_BYTES}L"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(PEER.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success(), "cc failed");
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn streams_are_those_of_the_c_library() {
    let peer = peer();
    let mut numbers = peer.as_slice();
    let mut expect = |what: &str, ours: Vec<u64>| {
        let (theirs, rest) = numbers.split_at(ours.len());
        numbers = rest;
        let differs = ours.iter().zip(theirs).position(|(our, their)| our != their);
        assert_eq!(differs, None, "{what}");
    };
    fn draw(mut next: impl FnMut() -> u64) -> Vec<u64> {
        (0..COUNT).map(|_| next()).collect()
    }
    let mut randomio = Randomio::new(TARGET_BYTES, 4096, 0.2, 0.1);
    let requests = (0..COUNT).map(|_| randomio.next_request());
    let flat = requests.flat_map(|r| [r.offset_bytes, u64::from(r.write), u64::from(r.fsync)]);
    expect("randomio", flat.collect());
    let random = |seed| {
        let mut random = GlibcRandom::new(seed);
        draw(|| u64::from(random.draw()))
    };
    expect("unseeded random", random(1));
    for seed in SEEDS {
        expect(&format!("random, seed {seed}"), random(seed));
        expect(&format!("rand, seed {seed}"), random(seed));
        let mut rand = Rand48::new(seed);
        expect(&format!("lrand48, seed {seed}"), draw(|| u64::from(rand.draw())));
        let mut rand = Rand48::new(seed);
        let scaled = draw(|| (rand.draw_unit() * 2f64.powi(48)) as u64);
        expect(&format!("drand48, seed {seed}"), scaled);
        let mut seeker = Seeker::new(BLOCKS, seed);
        expect(&format!("seeker, seed {seed}"), draw(|| seeker.next_block()));
        let mut seeker = Seeker::new(BLOCKS, seed);
        expect(&format!("seeker64, seed {seed}"), draw(|| seeker.next_block_64()));
    }
    assert!(numbers.is_empty());
}
