//! What published studies conclude, judged by their own rows with fathom's analyses: `docs/published.md`. Rows are
//! single runs, so blocks are rows matched in all other factors, and fewer than six decide nothing.
//!
//! Expected figures were computed a second time by a program that shares nothing with this one: signed-rank intervals
//! from the distribution of rank sums, written out in Python.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod checks;
mod conclusion;
mod data;
mod oddities;
mod others;
mod raid;

use conclusion::Conclusion;
use fathom_study::table::Outcome;
use std::fs;

/// A test for each conclusion, and the list of all.
macro_rules! conclusions {
    ($($study:ident::$name:ident: $outcome:ident, $figures:literal;)*) => {
        fn all() -> Vec<Conclusion> {
            vec![$($study::$name()),*]
        }

        mod decides {
            use super::*;

            $(#[test]
            fn $name() {
                let conclusion = $study::$name();
                assert_eq!(
                    (conclusion.outcome, conclusion.figures.as_str()),
                    (Outcome::$outcome, $figures)
                );
            })*
        }
    };
}

conclusions! {
    raid::raid10_is_faster_than_raid5: Confirmed, "x 1.331 (1.223 to 1.463), 22 pairs";
    raid::raid10_is_several_times_as_fast_as_raid5: Refuted, "x 1.331 (1.223 to 1.463), 22 pairs";
    raid::raid10_is_several_times_as_fast_on_raw_arrays: Inconclusive, "x 3.286, 2 pairs";
    raid::the_raid5_of_the_controller_was_sick: Inconclusive, "x 2.962, 1 pair";
    raid::an_array_may_do_one_disks_work: Confirmed, "it happened: 75.7 and 78.1 per second of six disks under 3ware with 48 in flight, 141 and more are expected; not under md";
    raid::md_layouts_are_alike_in_random_io: Inconclusive, "x 1.028, 1 pair";
    raid::throughput_rises_to_256_threads: Refuted, "x 1.013 (0.997 to 1.028), 15 pairs";
    raid::beyond_256_threads_only_latency_grows: Confirmed, "x 1.004 (0.992 to 1.016), 15 pairs; latency x 4.123 (4.050 to 4.405), 15 pairs";
    raid::md_gives_more_iops: Confirmed, "x 1.199 (1.108 to 1.300), 34 pairs";
    raid::the_controller_bounds_the_longest_latency: Confirmed, "x 2.202 (1.810 to 2.664), 34 pairs";
    raid::the_controller_cache_hides_write_latency: Refuted, "x 0.641 (0.451 to 0.857), 34 pairs";
    raid::md_barely_loses_up_to_the_chunk: Confirmed, "x 0.890 (0.869 to 0.911), 7 pairs";
    raid::md_halves_at_two_chunks: Inconclusive, "x 0.510 (0.495 to 0.608), 7 pairs";
    raid::the_controller_loses_early: Confirmed, "x 0.595 (0.574 to 0.704), 7 pairs";
    raid::what_is_best_depends_on_the_size: Confirmed, "x 1.482 (1.273 to 1.554), 7 pairs";
    raid::the_winner_depends_on_the_threads: Inconclusive, "x 0.879, 4 pairs";
    raid::schedulers_differ_little_on_raid1: Inconclusive, "x 0.998, 3 pairs";
    raid::schedulers_differ_little_through_xfs: Inconclusive, "x 0.988, 2 pairs";
    raid::deadline_leads_in_the_database: Inconclusive, "x 1.017, 1 pair";
    raid::ncq_helps: Inconclusive, "x 1.123, 3 pairs";
    raid::a_short_queue_costs: Inconclusive, "x 0.824, 2 pairs";
    raid::queue_depth_one_costs_little: Inconclusive, "x 0.982, 1 pair";
    raid::the_idle_class_works: Inconclusive, "x 0.235, 3 pairs; without CFQ, where classes mean nothing, x 0.248, 1 pair as well";
    raid::realtime_is_best_effort: Inconclusive, "x 0.999, 5 pairs";
    raid::levels_are_useless: Inconclusive, "x 0.989, 1 pair; beside sdd x 0.853, 1 pair";
    raid::md_costs_at_most_28_percent_more_cpu: Inconclusive, "x 1.149, 5 pairs";
    raid::far_reads_best: Inconclusive, "x 1.638, 2 pairs; the other study x 1.705, 1 pair";
    raid::far_writes_worse: Inconclusive, "x 0.756, 1 pair";
    raid::md_raid5_reads_poorly: Inconclusive, "x 0.399, 2 pairs";
    raid::reads_of_a_mounted_device_are_slow: Inconclusive, "x 0.312, 1 pair";
    raid::xfs_is_faster_than_the_raw_device: Inconclusive, "not comparable, these differ too: sdd_if (/dev/md1 bs=1g count=1 / testfile bs=1g count=24), bytes (1073741824 / 25769803776)";
    raid::far_reads_as_fast_at_the_end: Inconclusive, "x 0.994, 1 pair";
    raid::no_read_ahead_costs_fourteen_times: Inconclusive, "x 0.072, 1 pair";
    raid::near_and_far_files_differ: Inconclusive, "not comparable, these differ too: scheduler (deadline / not stated)";
    raid::a_large_enough_sample_agrees: Inconclusive, "x 1.000, 1 pair";
    raid::the_database_saturates_its_disk: Inconclusive, "in this run 92.3 % busy (90.4 to 94.2), 1.97 queued (1.70 to 2.24), means of 24 s; one run";
    others::raid5_degraded_reads: Inconclusive, "x 0.969, 4 pairs; each of the four above 90 %";
    others::raid5_degraded_writes: Inconclusive, "x 0.907, 4 pairs";
    others::degraded_raid10_halves_reads: Inconclusive, "x 0.798, 3 pairs; near and offset rise, far falls";
    others::degraded_near_and_offset_are_steady: Inconclusive, "x 1.046, 2 pairs";
    others::degraded_far_reads_collapse: Inconclusive, "x 0.315, 1 pair";
    others::far_reads_like_raid0: Inconclusive, "x 0.871, 1 pair";
    others::raid5_layouts_are_alike: Inconclusive, "x 0.992, 4 pairs";
    others::raid5_writes_less_than_one_disk: Inconclusive, "x 0.771, 4 rows";
    others::the_journal_steadies_close: Inconclusive, "x 751.400, 1 pair";
    others::writers_starve_readers_under_deadline: Inconclusive, "x 0.069, 2 pairs";
    others::writers_slow_readers_under_cfq: Inconclusive, "x 0.565 (0.192 to 1.623), 7 pairs";
    others::the_newer_kernel_is_faster: Inconclusive, "x 1.372, 3 pairs";
    others::the_newer_kernel_writes_more_files: Inconclusive, "x 3.900, 1 pair";
    others::btrfs_may_write_next_to_nothing: Confirmed, "it happened: 20; the fewest of ext3 are 57";
    others::btrfs_collapses_beside_writers: Inconclusive, "x 0.073, 1 pair";
    others::cfq_is_better_on_writes: Inconclusive, "x 2.131, 1 pair";
    others::deadline_is_better_on_reads_of_servers: Inconclusive, "x 0.250, 3 pairs; each pair says the opposite";
    others::btrfs_shines_alone: Inconclusive, "not comparable, these differ too: atime (relatime / not stated), disk (areca RAID6 / areca RAID), journal (ext / not stated), data (ordered / not stated)";
    others::ext4_with_one_reader: Inconclusive, "x 0.657, 1 pair";
    others::ext4_with_three_readers: Inconclusive, "x 1.290, 1 pair";
    others::a_single_disk_beats_the_raid: Inconclusive, "not comparable, these differ too: kernel (2.6.24-24-server / 2.6.31.2-test)";
    others::writeback_on_one_disk: Inconclusive, "x 0.964, 4 pairs";
    others::mkdir_may_hang: Confirmed, "it happened: 19.6 s in a run that wrote 241 MB/s on a disk that reads 77";
    others::read_ahead_helps: Inconclusive, "rises in each step, x 1.248 from 256 to 1024; three single runs rise by chance once in six times";
    others::small_chunks_are_slow: Inconclusive, "not comparable, these differ too: condition (unloaded / consistently)";
    others::ext4_is_twice_as_fast_as_xfs: Inconclusive, "not comparable, these differ too: device (sda4 / sdb1), size (59 TB / 58 TB), open_flags (direct? / buffered (flag omitted))";
    others::ext4_on_a_small_partition: Inconclusive, "not comparable, these differ too: device (sda4 / partition), size (59 TB / 242 GB)";
    others::ext4_writes_faster_directly: Inconclusive, "not comparable, these differ too: file (/mnt/test1/testfile / /mnt/test2/testfile)";
    others::small_direct_writes_are_slow: Confirmed, "median 5.15 MB/s (3.2 to 8.8), 6 rows, no two of one setting";
    others::lvm_adds_little: Inconclusive, "x 0.569, 2 pairs";
    others::lvm_adds_little_to_sysbench: Inconclusive, "not comparable, these differ too: device (LVM / sda4), size (120 TB / 59 TB), open_flags (direct / direct?)";
}

/// The documentation shows each conclusion as it comes out here, and no other.
#[test]
fn the_documentation_shows_this_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md");
    let shown = fs::read_to_string(path).unwrap();
    let is_line = |line: &&str| {
        ["| **confirmed** |", "| **refuted** |", "| inconclusive |"]
            .iter()
            .any(|o| line.contains(o))
    };
    let shown: Vec<&str> = shown.lines().filter(is_line).collect();
    let expected: Vec<String> = all().iter().map(Conclusion::line).collect();
    println!("{}", expected.join("\n"));
    assert_eq!(shown, expected);
}
