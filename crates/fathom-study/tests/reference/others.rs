//! What the other studies conclude: md layouts with dd (2007), FsOpBench (2009), Red Hat's slides on storage performance
//! (2009), dd and sysbench on XFS and EXT4 (2014).

use super::conclusion::{
    Conclusion, LESS, MORE, SAME, at_least, at_most, between, judge, judge_against,
};
use super::data;
use fathom_stats::interval::median_interval;
use fathom_study::table::{Outcome, Table, Trend};

const LAYOUTS: &str = "dd, md layouts";
const RATES: &str = "FsOpBench, rates";
const OPERATIONS: &str = "FsOpBench, operations";
const STATE: (&str, &str, &str) = ("state", "normal", "degraded");

fn part(table: &Table, levels: &[(&str, &str)]) -> Table {
    let one = |table: Table, (factor, level): &(&str, &str)| table.only(factor, level).unwrap();
    levels.iter().fold(table.clone(), one)
}

pub fn raid5_degraded_reads() -> Conclusion {
    let says = ("A degraded RAID5 reads at 85 to 90 %", LAYOUTS);
    let rows = part(&data::layouts(&[]), &[("level", "raid5"), ("direction", "read")]);
    judge(says, &rows, STATE, "MiBps", between(0.85, 0.90)).note("each of the four above 90 %")
}

pub fn raid5_degraded_writes() -> Conclusion {
    let says = ("A degraded RAID5 writes about as fast (within 15 %)", LAYOUTS);
    let rows = part(&data::layouts(&[]), &[("level", "raid5"), ("direction", "write")]);
    judge(says, &rows, STATE, "MiBps", between(0.85, 1.15))
}

pub fn degraded_raid10_halves_reads() -> Conclusion {
    let says = ("A degraded RAID10 halves sequential reads (45 to 55 %)", LAYOUTS);
    let rows = part(&data::layouts(&[]), &[("level", "raid10"), ("direction", "read")]);
    judge(says, &rows, STATE, "MiBps", between(0.45, 0.55)).note("near and offset rise, far falls")
}

pub fn degraded_near_and_offset_are_steady() -> Conclusion {
    let says = ("A degraded near layout is as fast (within 10 %)", LAYOUTS);
    let rows = part(&data::layouts(&[]), &[("layout", "n2")]);
    judge(says, &rows, STATE, "MiBps", between(0.9, 1.1))
}

pub fn degraded_far_reads_collapse() -> Conclusion {
    let says = ("A degraded far layout reads at less than half", LAYOUTS);
    let rows = part(&data::layouts(&[]), &[("layout", "f2"), ("direction", "read")]);
    judge(says, &rows, STATE, "MiBps", at_most(0.5))
}

pub fn far_reads_like_raid0() -> Conclusion {
    let says = ("Far reads nearly as fast as RAID0 (within 15 %)", LAYOUTS);
    let all = data::layouts(&["layout:skip"]);
    let far = data::layouts(&[]).without(&lines_but(&data::layouts(&[]), &["f2", "-"]));
    let rows = all.without(&lines_but(&data::layouts(&[]), &["f2", "-"]));
    assert_eq!(rows.len(), far.len());
    let reads = part(&rows, &[("direction", "read")]);
    judge(says, &reads, ("level", "raid0", "raid10"), "MiBps", between(0.85, 1.15))
}

/// The lines of rows of other layouts.
fn lines_but(table: &Table, layouts: &[&str]) -> Vec<usize> {
    let is_other = |line: &usize| {
        let group = table.factors_of(*line);
        group.iter().any(|(name, value)| name == "layout" && !layouts.contains(&value.as_str()))
    };
    (2..=table.len() + 1).filter(is_other).collect()
}

pub fn raid5_layouts_are_alike() -> Conclusion {
    let says = (
        "RAID5 layouts differ by no more than noise (3 %): left- against right-symmetric",
        LAYOUTS,
    );
    let levels = ("layout", "left-symmetric", "right-symmetric");
    judge(says, &data::layouts(&[]), levels, "MiBps", SAME)
}

pub fn raid5_writes_less_than_one_disk() -> Conclusion {
    let says =
        ("RAID5 writes at 0.8 of one disk (0.75 to 0.85), which is said to do 70 MiB/s", LAYOUTS);
    let levels = [("level", "raid5"), ("direction", "write"), ("state", "normal")];
    let rows = part(&data::layouts(&[]), &levels);
    judge_against(says, &rows, "MiBps", 70.0, between(0.75, 0.85))
}

pub fn the_journal_steadies_close() -> Conclusion {
    let says = ("An external journal lowers the deviation of close", OPERATIONS);
    let close = part(&data::operations(), &[("op", "H")]);
    judge(says, &close, ("journal", "int", "ext"), "std_ms", LESS)
}

pub fn writers_starve_readers_under_deadline() -> Conclusion {
    let says =
        ("deadline: writers starve readers as soon as they start (to less than half)", RATES);
    let reads = part(&data::rates(), &[("kind", "read"), ("scheduler", "deadline")]);
    judge(says, &reads, ("phase", "3 readers", "3 readers, 3 writers"), "data_MBps", at_most(0.5))
}

pub fn writers_slow_readers_under_cfq() -> Conclusion {
    let says = ("CFQ keeps readers going beside writers (at least half)", RATES);
    // The run whose figures are a copy of another one's.
    let rows = data::rates();
    let copied: Vec<usize> = rows.copies().iter().map(|copied| copied.lines.1).collect();
    let reads = part(&rows.without(&copied), &[("kind", "read"), ("scheduler", "cfq")]);
    judge(says, &reads, ("phase", "3 readers", "3 readers, 3 writers"), "data_MBps", at_least(0.5))
}

pub fn the_newer_kernel_is_faster() -> Conclusion {
    let says = ("Linux 2.6.31 reads about twice as fast as 2.6.24 (1.5 to 2.5 times)", RATES);
    let reads = part(&data::rates(), &[("kind", "read")]);
    let levels = ("kernel", "2.6.24-24-server", "2.6.31.2-test");
    judge(says, &reads, levels, "data_MBps", between(1.5, 2.5))
}

pub fn the_newer_kernel_writes_more_files() -> Conclusion {
    let says = (
        "Linux 2.6.31 writes three to four times as many files as 2.6.24 beside readers",
        OPERATIONS,
    );
    let rows = part(&data::operations(), &[("op", "F")]);
    let levels = ("kernel", "2.6.24-24-server", "2.6.31.2-test");
    judge(says, &rows, levels, "cnt", between(3.0, 4.0))
}

/// That something can happen is proven by its having happened.
pub fn btrfs_may_write_next_to_nothing() -> Conclusion {
    let says = "btrfs may write no more than 20 files in 30 s beside readers";
    let rows = part(&data::operations(), &[("op", "F")]);
    let of = |fs: &str| part(&rows, &[("fs", fs)]).values("cnt").unwrap();
    let (btrfs, ext3) = (of("btrfs")[0], of("ext3"));
    let fewest = ext3.iter().copied().fold(f64::INFINITY, f64::min);
    let outcome = if btrfs <= 20.0 { Outcome::Confirmed } else { Outcome::Refuted };
    let figures = format!("it happened: {btrfs}; the fewest of ext3 are {fewest}");
    Conclusion { says, rows: OPERATIONS, outcome, figures }
}

pub fn btrfs_collapses_beside_writers() -> Conclusion {
    let says = ("btrfs collapses with competition (reads at less than a quarter)", RATES);
    let rows = part(&data::rates(), &[("fs", "btrfs"), ("kind", "read")]);
    judge(says, &rows, ("phase", "3 readers", "3 readers, 3 writers"), "data_MBps", at_most(0.25))
}

pub fn cfq_is_better_on_writes() -> Conclusion {
    let says = ("CFQ is better on writes than deadline (here: file server, one disk)", RATES);
    let rows = part(&data::rates(), &[("kind", "write"), ("disk", "hdd")]);
    judge(says, &rows, ("scheduler", "deadline", "cfq"), "data_MBps", MORE)
}

pub fn deadline_is_better_on_reads_of_servers() -> Conclusion {
    let says = (
        "deadline is better on the reads of servers than CFQ (here: file server, one disk)",
        RATES,
    );
    let rows = part(&data::rates(), &[("kind", "read"), ("disk", "hdd")]);
    judge(says, &rows, ("scheduler", "cfq", "deadline"), "data_MBps", MORE)
        .note("each pair says the opposite")
}

pub fn btrfs_shines_alone() -> Conclusion {
    let says = ("btrfs shines without competition and collapses with it", RATES);
    judge(says, &data::rates(), ("fs", "ext3", "btrfs"), "data_MBps", MORE)
}

pub fn ext4_with_one_reader() -> Conclusion {
    let says = ("ext4 against ext3, one reader: 20 to 30 % slower", RATES);
    let rows = part(&data::rates(), &[("phase", "1 readers")]);
    judge(says, &rows, ("fs", "ext3", "ext4"), "all_MBps", between(0.7, 0.8))
}

pub fn ext4_with_three_readers() -> Conclusion {
    let says = ("ext4 against ext3, three readers: 30 % faster (25 to 35 %)", RATES);
    let rows = part(&data::rates(), &[("phase", "3 readers")]);
    judge(says, &rows, ("fs", "ext3", "ext4"), "all_MBps", between(1.25, 1.35))
}

pub fn a_single_disk_beats_the_raid() -> Conclusion {
    let says = ("A single disk may beat the RAID6 in the rate of one reader", RATES);
    let rows = part(&data::rates(), &[("phase", "1 readers"), ("data", "ordered")]);
    judge(says, &rows, ("disk", "areca RAID6", "hdd"), "data_MBps", MORE)
}

pub fn writeback_on_one_disk() -> Conclusion {
    let says = ("data=writeback with CFQ is the best on one disk", RATES);
    let rows = part(&data::rates(), &[("scheduler", "cfq"), ("disk", "hdd")]);
    judge(says, &rows, ("data", "ordered", "writeback"), "data_MBps", MORE)
}

/// That something can happen is proven by its having happened once. Throughput looks fine when the rate of the same run
/// is above the one at which its disk reads alone.
pub fn mkdir_may_hang() -> Conclusion {
    let says = "mkdir may hang for 19 s while throughput looks fine";
    let run = |table: &Table| part(table, &[("data", "writeback")]);
    let longest = part(&run(&data::operations()), &[("op", "I")]).values("max_ms").unwrap()[0];
    let rate = |phase: &str, kind: &str| {
        let rows = part(&run(&data::rates()), &[("phase", phase), ("kind", kind)]);
        rows.values("data_MBps").unwrap()[0]
    };
    let (write, read) = (rate("3 readers, 3 writers", "write"), rate("1 readers", "read"));
    let seen = longest > 19_000.0 && write > read;
    let figures = format!(
        "it happened: {:.1} s in a run that wrote {write:.0} MB/s on a disk that reads {read:.0}",
        longest / 1e3
    );
    let outcome = if seen { Outcome::Confirmed } else { Outcome::Refuted };
    Conclusion { says, rows: OPERATIONS, outcome, figures }
}

pub fn read_ahead_helps() -> Conclusion {
    let says = "More read-ahead reads faster: 256, 512, 1024 sectors";
    let sweeps = data::read_ahead().sweeps("readahead_512B_sectors", "MBps").unwrap();
    let [sweep] = sweeps.as_slice() else { panic!("{sweeps:?}") };
    assert_eq!(sweep.trend(), Trend::Rises);
    let figures = format!(
        "rises in each step, x {:.3} from 256 to 1024; three single runs rise by chance once in six times",
        sweep.gain().unwrap()
    );
    Conclusion { says, rows: "dd, read-ahead", outcome: Outcome::Inconclusive, figures }
}

pub fn small_chunks_are_slow() -> Conclusion {
    let says = (
        "md RAID5 of six disks: 4 KiB chunks give 30 MB/s, 256 KiB 110 to 170",
        "customer's chunk sizes",
    );
    judge(says, &data::chunks(), ("chunk_text", "4K", "256K"), "MBps_low", at_least(3.0))
}

pub fn ext4_is_twice_as_fast_as_xfs() -> Conclusion {
    let says = ("EXT4 is twice as fast as XFS (sysbench)", "sysbench");
    let all = data::sysbench();
    let whole_arrays = part(&all, &[("lvm", "no")]).without(&[4]);
    judge(says, &whole_arrays, ("filesystem", "xfs", "ext4"), "requests_per_s", at_least(2.0))
}

pub fn ext4_on_a_small_partition() -> Conclusion {
    let says = (
        "EXT4 is three times as fast as XFS (sysbench, partition made too small by accident)",
        "sysbench",
    );
    let small = part(&data::sysbench(), &[("lvm", "no")]).without(&[5]);
    judge(says, &small, ("filesystem", "xfs", "ext4"), "requests_per_s", at_least(2.5))
}

pub fn ext4_writes_faster_directly() -> Conclusion {
    let says = ("EXT4 writes faster than XFS with direct I/O (dd)", "dd, direct writes");
    judge(says, &data::dd(&[]), ("filesystem", "xfs", "ext4"), "rate_MBps", MORE)
}

/// Six rows, each of other settings: the interval is that of their median.
pub fn small_direct_writes_are_slow() -> Conclusion {
    let says = "dd of 512 and 1024 bytes gives 3 to 9 MB/s";
    let of = |bs: &str| part(&data::dd(&[]), &[("bs", bs)]).values("rate_MBps").unwrap();
    let rates = [of("512"), of("1024")].concat();
    let median = median_interval(&rates, 0.95).unwrap();
    let interval = median.interval.unwrap();
    let holds = interval.low >= 3.0 && interval.high <= 9.0;
    let outcome = if holds { Outcome::Confirmed } else { Outcome::Inconclusive };
    let figures = format!(
        "median {:.2} MB/s ({} to {}), {} rows, no two of one setting",
        median.value, interval.low, interval.high, median.count
    );
    Conclusion { says, rows: "dd, direct writes", outcome, figures }
}

pub fn lvm_adds_little() -> Conclusion {
    let says = ("LVM costs little (within 10 %): dd on XFS with and without", "dd, direct writes");
    judge(says, &data::dd(&[]), ("lvm", "yes", "no"), "rate_MBps", between(0.9, 1.1))
}

pub fn lvm_adds_little_to_sysbench() -> Conclusion {
    let says = ("LVM costs little (within 10 %): sysbench on XFS with and without", "sysbench");
    judge(says, &data::sysbench(), ("lvm", "yes", "no"), "requests_per_s", between(0.9, 1.1))
}
