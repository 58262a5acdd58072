//! The plain streams, thread by thread.

use super::*;
use crate::plan::plan;
use fathom_model::keys;
use fathom_model::workload::Job;
use std::collections::{BTreeMap, BTreeSet};

/// The stream of one thread of a job.
pub(crate) fn requests(
    pairs: &[(&str, &str)],
    size: u64,
    count: usize,
    thread: u32,
    threads: u32,
) -> Vec<Request> {
    let mut job = Job { duration_ns: Some(1), ..Job::default() };
    pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
    job.threads = threads;
    let plan = plan(&job, size, 512, 42).expect("fits");
    let mut generator = Generator::new(&plan, thread, threads);
    std::iter::from_fn(|| generator.next()).take(count).collect()
}

#[test]
fn random_offsets_are_aligned_uniform_and_reach_both_ends() {
    let blocks = 16u64;
    let all = requests(&[("block_size", "4k")], blocks * 4096, 160_000, 0, 1);
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    all.iter().for_each(|r| *counts.entry(r.offset_bytes).or_default() += 1);
    assert_eq!(
        counts.keys().copied().collect::<Vec<_>>(),
        (0..blocks).map(|b| b * 4096).collect::<Vec<_>>()
    );
    // Chi-square with 15 degrees of freedom: 99.99 % of uniform streams stay below 44.3.
    let chi: f64 = counts.values().map(|c| (f64::from(*c) - 10_000.0).powi(2) / 10_000.0).sum();
    assert!(chi < 44.3, "{chi}");
    assert!(all.iter().all(|r| r.kind == Kind::Read));
}

#[test]
fn plain_reads_are_the_uniform_ones() {
    let generator = |pairs: &[(&str, &str)]| {
        let mut job = Job { duration_ns: Some(1), ..Job::default() };
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        Generator::new(&plan(&job, 1 << 20, 512, 42).expect("fits"), 0, 1)
    };
    let limits: [&[(&str, &str)]; 4] = [
        &[],
        &[("operations", "100")],
        &[("amount", "1000448")],
        &[("align", "512"), ("offset", "64k"), ("size", "512k"), ("amount", "409600")],
    ];
    for limit in limits {
        let (mut one, mut many) = (generator(limit), generator(limit));
        // In handfuls, of which the last gets what is left.
        for handful in [1, 32, 7, 60, 200] {
            let wanted: Vec<u64> = std::iter::from_fn(|| one.next_uniform())
                .take(handful)
                .inspect(|request| {
                    assert_eq!((request.kind, request.size_bytes), (Kind::Read, 4096))
                })
                .map(|request| request.offset_bytes)
                .collect();
            let reads = many.plain_reads().expect("plain");
            assert_eq!(reads.size_bytes(), 4096);
            assert_eq!(reads.take(handful).collect::<Vec<_>>(), wanted, "{limit:?}");
            assert_eq!(many.requests_left(), one.requests_left(), "{limit:?}");
        }
    }
    let others: [(&str, &str); 4] = [
        ("write_fraction", "0.1"),
        ("block_size", "4k:1,8k:1"),
        ("distribution", "zipf:1.1"),
        ("access", "sequential"),
    ];
    for other in others {
        assert!(generator(&[other]).plain_reads().is_none(), "{other:?}");
    }
}

#[test]
fn weights_fractions_and_alignment() {
    let pairs = [
        ("block_size", "4k:3,16k:1"),
        ("align", "512"),
        ("write_fraction", "0.3"),
        ("fsync_fraction", "0.5"),
    ];
    let all = requests(&pairs, 1 << 20, 100_000, 0, 1);
    let share = |f: &dyn Fn(&Request) -> bool| {
        all.iter().filter(|r| f(r)).count() as f64 / all.len() as f64
    };
    assert!((share(&|r| r.size_bytes == 4096) - 0.75).abs() < 0.01);
    assert!((share(&|r| r.kind == Kind::Write) - 0.3).abs() < 0.01);
    assert!((share(&|r| r.sync_after) - 0.15).abs() < 0.01);
    assert!(
        all.iter()
            .all(|r| r.offset_bytes % 512 == 0
                && r.offset_bytes + u64::from(r.size_bytes) <= 1 << 20)
    );
    assert!(all.iter().any(|r| r.offset_bytes % 4096 != 0));
    assert!(all.iter().all(|r| r.kind == Kind::Write || !r.sync_after), "a read is never synced");
}

#[test]
fn sync_every_nth_write_exactly() {
    let pairs = [("write_fraction", "1"), ("fsync_every", "4")];
    let all = requests(&pairs, 1 << 20, 40, 0, 1);
    let synced: Vec<usize> =
        all.iter().enumerate().filter(|(_, r)| r.sync_after).map(|(i, _)| i).collect();
    assert_eq!(synced, [3, 7, 11, 15, 19, 23, 27, 31, 35, 39]);
}

/// Files in turn and syncs after every n-th write: in step, some files would never be synchronised.
#[test]
fn every_file_gets_its_syncs() {
    for (files, every) in [(4, 4), (4, 8), (6, 4), (4, 2), (10, 15), (3, 4), (4, 1), (128, 100)] {
        let (own_files, own_every) = (files.to_string(), every.to_string());
        let pairs = [
            ("write_fraction", "1"),
            ("files", own_files.as_str()),
            ("fsync_every", own_every.as_str()),
        ];
        let count = files * every * 20;
        let all = requests(&pairs, 1 << 20, count, 0, 1);
        let mut syncs = vec![0usize; files];
        all.iter().filter(|r| r.sync_after).for_each(|r| syncs[r.file as usize] += 1);
        // The end may cut a round.
        assert!(syncs.iter().all(|n| (19..=20).contains(n)), "{files}, {every}: {syncs:?}");
        let gap = all.split(|r| r.sync_after).map(<[_]>::len).max().unwrap();
        assert!(gap <= every, "{files} files, every {every}: {gap} writes without");
    }
    // Where they are not in step, and with one file, every n-th is exact.
    let pairs = [("write_fraction", "1"), ("files", "3"), ("fsync_every", "4")];
    let all = requests(&pairs, 1 << 20, 12, 0, 1);
    let synced: Vec<usize> =
        all.iter().enumerate().filter(|(_, r)| r.sync_after).map(|(i, _)| i).collect();
    assert_eq!(synced, [3, 7, 11]);
}

#[test]
fn sequential_threads_tile_the_range_and_the_amount() {
    let size = 1_000_000u64 / 512 * 512;
    let pairs =
        [("access", "sequential"), ("block_size", "4k"), ("amount", "1G"), ("align", "512")];
    let mut covered = vec![0u8; (size / 512) as usize];
    for thread in 0..3 {
        for r in requests(&pairs, size, usize::MAX, thread, 3) {
            let first = (r.offset_bytes / 512) as usize;
            covered[first..first + (r.size_bytes / 512) as usize].iter_mut().for_each(|c| *c += 1);
        }
    }
    assert!(covered.iter().all(|c| *c == 1), "each sector exactly once");
}

#[test]
fn amounts_are_spread_evenly_and_appending_ends_at_the_end() {
    let pairs = [("access", "sequential"), ("block_size", "4k"), ("amount", "28k")];
    let blocks: Vec<usize> =
        (0..4).map(|t| requests(&pairs, 8 * 4096, usize::MAX, t, 4).len()).collect();
    assert_eq!(blocks, [2, 2, 2, 1]);
    let log = requests(&[("access", "append"), ("block_size", "4k")], 3 * 4096, 9, 0, 1);
    assert_eq!(log.len(), 3);
}

/// A rest in between would have all further threads work beside the blocks of the target.
#[test]
fn what_is_no_whole_block_goes_to_the_last_thread() {
    const BLOCKS: u64 = 10;
    let pairs = [("access", "sequential"), ("block_size", "4k"), ("amount", "1G")];
    for threads in [1, 3, 4, 10] {
        let length = BLOCKS * 4096 + 512;
        let all: Vec<(u32, Request)> = (0..threads)
            .flat_map(|t| requests(&pairs, length, 64, t, threads).into_iter().map(move |r| (t, r)))
            .collect();
        let bytes: BTreeSet<(u64, u32)> =
            all.iter().map(|(_, r)| (r.offset_bytes, r.size_bytes)).collect();
        assert_eq!(bytes.iter().map(|(_, size)| u64::from(*size)).sum::<u64>(), length);
        assert!(all.iter().all(|(_, r)| r.offset_bytes % 4096 == 0), "{threads}");
        let short = all.iter().filter(|(_, r)| r.size_bytes < 4096);
        assert!(short.clone().count() > 0 && short.clone().all(|(t, _)| t + 1 == threads));
    }
}

#[test]
fn sequential_by_time_starts_again_at_the_end() {
    let all = requests(&[("access", "sequential"), ("block_size", "4k")], 3 * 4096, 7, 0, 1);
    let offsets: Vec<u64> = all.iter().map(|r| r.offset_bytes / 4096).collect();
    assert_eq!(offsets, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn operations_are_shared_out_completely() {
    let total: usize =
        (0..3).map(|t| requests(&[("operations", "100")], 1 << 20, usize::MAX, t, 3).len()).sum();
    assert_eq!(total, 100);
}

#[test]
fn replication_reads_rewrites_logs_and_keeps_log_and_data_apart() {
    let pairs = [("access", "replication"), ("block_size", "16k"), ("write_fraction", "0.5")];
    let all = requests(&pairs, 1 << 20, 300, 0, 1);
    let log_start = (1u64 << 20) * 15 / 16;
    for (i, step) in all.chunks(3).enumerate() {
        let [read, write, log] = step else { panic!("three steps") };
        assert!(read.kind == Kind::Read && read.begins_transaction);
        assert!(
            write.kind == Kind::Write
                && write.offset_bytes == read.offset_bytes
                && !write.sync_after
        );
        assert!(
            log.kind == Kind::Write
                && log.sync_after
                && log.ends_transaction
                && log.size_bytes == 4096
        );
        assert!(write.offset_bytes + u64::from(write.size_bytes) <= log_start);
        assert_eq!(log.offset_bytes, log_start + (i as u64 % 16) * 4096);
    }
}

#[test]
fn the_same_seed_gives_the_same_stream() {
    let pairs = [("write_fraction", "0.5")];
    assert_eq!(requests(&pairs, 1 << 30, 100, 2, 4), requests(&pairs, 1 << 30, 100, 2, 4));
    assert_ne!(requests(&pairs, 1 << 30, 100, 2, 4), requests(&pairs, 1 << 30, 100, 3, 4));
}
