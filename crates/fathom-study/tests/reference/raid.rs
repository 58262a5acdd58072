//! What the study of RAID tuning concludes (2006 to 2008: randomio, sdd, iozone on 3ware and md arrays).

use super::conclusion::{
    Conclusion, LESS, MORE, SAME, at_least, at_most, between, figures, judge, paired, ratio,
    ratio_of_ratios,
};
use super::data;
use fathom_stats::series::mean_of_series;
use fathom_study::table::{Arrays, Claim, Outcome};

const MATRIX: &str = "randomio, threads x size";
const LEVELS: &str = "randomio, 48 threads, 64 KiB, raw";
const LEVEL: (&str, &str, &str) = ("level", "5", "10");
const MADE_BY: (&str, &str, &str) = ("implementation", "3ware", "md");

pub fn raid10_is_faster_than_raid5() -> Conclusion {
    let says = ("Random I/O: RAID10 is faster than RAID5 (3ware, XFS)", MATRIX);
    judge(says, &data::matrix(), LEVEL, "total_iops", MORE)
}

pub fn raid10_is_several_times_as_fast_as_raid5() -> Conclusion {
    let says = ("Random I/O: RAID10 is at least twice as fast as RAID5 (3ware, XFS)", MATRIX);
    judge(says, &data::matrix(), LEVEL, "total_iops", at_least(2.0))
}

pub fn raid10_is_several_times_as_fast_on_raw_arrays() -> Conclusion {
    let says =
        ("Random I/O: RAID10 is at least twice as fast as RAID5 (md and 3ware, raw)", LEVELS);
    judge(says, &data::levels(), LEVEL, "total_iops", at_least(2.0))
}

pub fn the_raid5_of_the_controller_was_sick() -> Conclusion {
    let says = (
        "The controller's RAID5 is sick: md makes at least twice as much of as many disks",
        LEVELS,
    );
    let raid5 = data::levels().only("level", "5").unwrap();
    judge(says, &raid5, MADE_BY, "total_iops", at_least(2.0))
}

/// That something can happen is proven by its having happened. Six disks in each RAID5, as many as in the smallest array.
pub fn an_array_may_do_one_disks_work() -> Conclusion {
    let says = "A RAID5 may do the work of one of its disks";
    let raid5 = data::levels_with(&["state:skip"]).only("level", "5").unwrap();
    let arrays = Arrays::parse("total_iops:6:threads:1.6").unwrap();
    let sick = raid5.like_one_disk(&arrays).unwrap();
    let made_by = |line: usize| {
        let factors = raid5.factors_of(line);
        factors.into_iter().find(|(name, _)| name == "implementation").unwrap().1
    };
    assert!(sick.iter().all(|row| made_by(row.line) == "3ware"), "{sick:?}");
    let rates: Vec<String> = sick.iter().map(|row| row.per_s.to_string()).collect();
    let outcome = if sick.is_empty() { Outcome::Inconclusive } else { Outcome::Confirmed };
    let figures = format!(
        "it happened: {} per second of six disks under 3ware with 48 in flight, {:.0} and more are expected; not under md",
        rates.join(" and "),
        sick[0].expected_per_s
    );
    Conclusion { says, rows: LEVELS, outcome, figures }
}

pub fn md_layouts_are_alike_in_random_io() -> Conclusion {
    let says =
        ("Random I/O: the layouts of md RAID10 are alike (within 3 %), far against near", LEVELS);
    let table = data::levels_with(&[]);
    judge(says, &table, ("layout", "near", "far"), "total_iops", SAME)
}

pub fn throughput_rises_to_256_threads() -> Conclusion {
    let says = (
        "Throughput rises with threads up to 200 to 256: at 256 it is more than 3 % above that at 128",
        MATRIX,
    );
    judge(says, &data::matrix(), ("threads", "128", "256"), "total_iops", at_least(1.03))
}

pub fn beyond_256_threads_only_latency_grows() -> Conclusion {
    let says = (
        "Beyond 256 threads only latency grows: at 1024 the IOPS are the same within 3 %, reads take at least three times as long",
        MATRIX,
    );
    let (table, levels) = (data::matrix(), ("threads", "256", "1024"));
    let latency = judge(says, &table, levels, "r_avg_ms", at_least(3.0));
    judge(says, &table, levels, "total_iops", SAME).and("latency", latency)
}

pub fn md_gives_more_iops() -> Conclusion {
    let says = ("md gives more IOPS than 3ware (RAID10, XFS)", MATRIX);
    judge(says, &data::matrix(), MADE_BY, "total_iops", MORE)
}

pub fn the_controller_bounds_the_longest_latency() -> Conclusion {
    let says =
        ("3ware bounds the longest read latency: that of md is longer (RAID10, XFS)", MATRIX);
    judge(says, &data::matrix(), MADE_BY, "r_max_ms", MORE)
}

pub fn the_controller_cache_hides_write_latency() -> Conclusion {
    let says = (
        "3ware with its write cache answers writes sooner than md, which has none (RAID10, XFS)",
        MATRIX,
    );
    judge(says, &data::matrix(), MADE_BY, "w_avg_ms", MORE)
}

fn sizes(
    says: (&'static str, &'static str),
    array: &str,
    from: &str,
    to: &str,
    claim: Claim,
) -> Conclusion {
    let one = data::arrays().only("config", array).unwrap();
    judge(says, &one, ("io_size_bytes", from, to), "total_iops", claim)
}

pub fn md_barely_loses_up_to_the_chunk() -> Conclusion {
    let says = (
        "md barely loses up to the chunk size: 64 KiB requests cost at most 15 % of the IOPS of 512 B",
        MATRIX,
    );
    sizes(says, "md10fs", "512", "65536", at_least(0.85))
}

pub fn md_halves_at_two_chunks() -> Conclusion {
    let says = (
        "md halves beyond the chunk size: at 128 KiB it has 45 to 55 % of the IOPS at 64 KiB",
        MATRIX,
    );
    sizes(says, "md10fs", "65536", "131072", between(0.45, 0.55))
}

pub fn the_controller_loses_early() -> Conclusion {
    let says = (
        "3ware loses before the chunk size: 64 KiB requests cost more than 15 % (RAID10, XFS)",
        MATRIX,
    );
    sizes(says, "3w10fs", "512", "65536", at_most(0.85))
}

pub fn what_is_best_depends_on_the_size() -> Conclusion {
    let says =
        "No magic parameter: what md gains over 3ware depends on the size (64 KiB against 512 B)";
    let at = |size: &str| {
        let rows = data::matrix().only("io_size_bytes", size).unwrap();
        paired(&rows, "implementation", ("3ware", "md"), "total_iops")
    };
    let answer = ratio_of_ratios(&at("512"), &at("65536"), "threads");
    let outcome = if answer.is_different() { Outcome::Confirmed } else { Outcome::Inconclusive };
    Conclusion { says, rows: MATRIX, outcome, figures: ratio(&answer) }
}

pub fn the_winner_depends_on_the_threads() -> Conclusion {
    let says = (
        "No magic parameter: with one thread 3ware beats md, the winner with many (RAID10, XFS)",
        MATRIX,
    );
    let single = data::matrix().only("threads", "1").unwrap();
    judge(says, &single, MADE_BY, "total_iops", LESS)
}

pub fn schedulers_differ_little_on_raid1() -> Conclusion {
    let says = (
        "Schedulers differ by less than 2 %: CFQ against noop (RAID1)",
        "randomio, schedulers, RAID1",
    );
    judge(
        says,
        &data::schedulers(),
        ("scheduler", "noop", "CFQ"),
        "total_iops",
        between(0.98, 1.02),
    )
}

pub fn schedulers_differ_little_through_xfs() -> Conclusion {
    let says = (
        "Schedulers differ by less than 2 %: CFQ against deadline (md RAID10, XFS)",
        "randomio, schedulers x NCQ",
    );
    judge(says, &data::ncq(), ("scheduler", "deadline", "CFQ"), "total_iops", between(0.98, 1.02))
}

pub fn deadline_leads_in_the_database() -> Conclusion {
    let says = (
        "deadline leads by a little in a database's time series",
        "iostat, means of 12000 s, one run each",
    );
    judge(says, &data::scheduler_means(), ("scheduler", "cfq", "deadline"), "rps", MORE)
}

pub fn ncq_helps() -> Conclusion {
    let says = ("NCQ helps by about 9 % (7 to 11 %)", "randomio, schedulers x NCQ");
    judge(says, &data::ncq(), ("ncq", "off", "on"), "total_iops", between(1.07, 1.11))
}

pub fn a_short_queue_costs() -> Conclusion {
    let says = ("nr_requests=4 costs 17 to 18 % against 128", "randomio, schedulers, RAID1");
    judge(
        says,
        &data::schedulers(),
        ("nr_requests", "128", "4"),
        "total_iops",
        between(0.815, 0.835),
    )
}

pub fn queue_depth_one_costs_little() -> Conclusion {
    let says =
        ("queue_depth=1 costs little, at most 5 %, on two disks", "randomio, schedulers, RAID1");
    judge(says, &data::schedulers(), ("queue_depth", "", "1"), "total_iops", at_least(0.95))
}

pub fn the_idle_class_works() -> Conclusion {
    let says = ("CFQ's idle class works: at most half of best effort", "randomio, ionice");
    let all = data::ionice();
    let off = all.only("case", "all three classes, CFQ disabled").unwrap();
    let off = off.compare("ionice", ("2", "3"), "total_iops").unwrap();
    let without_cfq = figures(&off);
    judge(says, &all, ("ionice", "2", "3"), "total_iops", at_most(0.5))
        .note(&format!("without CFQ, where classes mean nothing, {without_cfq} as well"))
}

pub fn realtime_is_best_effort() -> Conclusion {
    let says = ("CFQ's realtime class is like best effort (within 3 %)", "randomio, ionice");
    judge(says, &data::ionice(), ("ionice", "1", "2"), "total_iops", SAME)
}

pub fn levels_are_useless() -> Conclusion {
    let says = (
        "CFQ's levels within a class are nearly useless (within 3 %)",
        "randomio, ionice; randomio beside sdd",
    );
    let levels = judge(says, &data::ionice(), ("ionice", "-n0", "-n7"), "total_iops", SAME);
    let cases = ("case", "sdd -c2 -n7, randomio -c2 -n0", "sdd -c2 -n0, randomio -c2 -n7");
    levels.and("beside sdd", judge(says, &data::mixed(), cases, "total_iops", SAME))
}

pub fn md_costs_at_most_28_percent_more_cpu() -> Conclusion {
    let says = ("md costs at most 28 % more CPU than 3ware", "sdd, system time");
    let table = data::sequential(&["layout:skip"]);
    judge(says, &table, MADE_BY, "sys", at_most(1.28))
}

pub fn far_reads_best() -> Conclusion {
    let says = ("Sequential: far reads faster than near", "sdd, md RAID10; dd, md layouts");
    let reads = data::sequential(&[]).only("direction", "read").unwrap();
    let normal = data::layouts(&[]).only("state", "normal").unwrap();
    let others = normal.only("direction", "read").unwrap();
    let others = judge(says, &others, ("layout", "n2", "f2"), "MiBps", MORE);
    judge(says, &reads, ("layout", "n2", "f2"), "MBps", MORE).and("the other study", others)
}

pub fn far_writes_worse() -> Conclusion {
    let says = ("Sequential: far writes slower than near", "sdd, md RAID10");
    let writes = data::sequential(&[]).only("direction", "write").unwrap();
    judge(says, &writes, ("layout", "n2", "f2"), "MBps", LESS)
}

pub fn md_raid5_reads_poorly() -> Conclusion {
    let says = ("Sequential: md RAID5 without tuning is slower than 3ware RAID5", "sdd, raw");
    let raid5 = data::sequential(&[]).only("level", "5").unwrap();
    judge(says, &raid5, MADE_BY, "MBps", LESS)
}

pub fn reads_of_a_mounted_device_are_slow() -> Conclusion {
    let says = (
        "Sequential reads of a raw device are three times slower while it is mounted",
        "sdd, places",
    );
    let levels = ("where", "raw md1, first blocks", "raw md1 while XFS is mounted on it");
    judge(says, &data::places(&[]), levels, "kBytes_per_s", between(0.3, 0.37))
}

pub fn xfs_is_faster_than_the_raw_device() -> Conclusion {
    let says = ("XFS reads faster than the raw device", "sdd, places");
    judge(
        says,
        &data::places(&[]),
        ("where", "raw md1, first blocks", "XFS file"),
        "kBytes_per_s",
        MORE,
    )
}

pub fn far_reads_as_fast_at_the_end() -> Conclusion {
    let says =
        ("Far reads as fast at the end of the device as at its start (within 3 %)", "sdd, places");
    let levels = ("where", "raw md1, first blocks", "raw md1, last blocks");
    judge(says, &data::places(&["sdd_if:skip"]), levels, "kBytes_per_s", SAME)
}

pub fn no_read_ahead_costs_fourteen_times() -> Conclusion {
    let says =
        ("Read-ahead 0 costs a factor of 14 (12 to 16) in sequential reads", "sdd, md RAID10 far");
    judge(
        says,
        &data::sequential(&[]),
        ("read_ahead", "", "0"),
        "MBps",
        between(1.0 / 16.0, 1.0 / 12.0),
    )
}

pub fn near_and_far_files_differ() -> Conclusion {
    let says = (
        "IOPS of one array differ widely between files far apart on it",
        "randomio, schedulers x NCQ",
    );
    judge(
        says,
        &data::ncq(),
        ("file", "iozone.DUMMY.4_8G", "testfile_1.2T"),
        "total_iops",
        at_most(0.9),
    )
}

pub fn a_large_enough_sample_agrees() -> Conclusion {
    let says =
        ("A sample of 800 MB gives the random reads of 4 GB (within 3 %)", "iozone, sample sizes");
    judge(says, &data::iozone(), ("file_KB", "4194304", "819200"), "random_read_ops", SAME)
}

pub fn the_database_saturates_its_disk() -> Conclusion {
    let says =
        "MySQL keeps the device busy: more than 85 % of the time, with less than 3 requests queued";
    // Neighbouring seconds are alike: the interval counts them as the fewer independent values that they are worth.
    let mean =
        |metric: &str| mean_of_series(&data::iostat().values(metric).unwrap(), 0.95).unwrap();
    let (busy, queue) = (mean("util_percent"), mean("avgqu_sz"));
    let (b, q) =
        ((busy.interval.low, busy.interval.high), (queue.interval.low, queue.interval.high));
    let holds = b.0 > 85.0 && q.1 < 3.0;
    // One run: whatever the interval over its seconds says, it says nothing about another run.
    assert!(holds, "{b:?} {q:?}");
    let figures = format!(
        "in this run {:.1} % busy ({:.1} to {:.1}), {:.2} queued ({:.2} to {:.2}), means of 24 s; one run",
        busy.mean, b.0, b.1, queue.mean, q.0, q.1
    );
    let rows = "iostat, 24 lines of one run";
    Conclusion { says, rows, outcome: Outcome::Inconclusive, figures }
}
