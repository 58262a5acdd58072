//! The tables, and what their columns are.

use fathom_study::table::{Law, Table, parse_column};
use std::fs;

/// The metrics of randomio, which many of the tables have.
const RANDOMIO: &[&str] = &[
    "total_iops:higher:1/s",
    "r_iops:higher:1/s",
    "r_min_ms:lower:ms",
    "r_avg_ms:lower:ms",
    "r_max_ms:lower:ms",
    "r_sdev_ms:lower:ms",
    "w_iops:higher:1/s",
    "w_min_ms:lower:ms",
    "w_avg_ms:lower:ms",
    "w_max_ms:lower:ms",
    "w_sdev_ms:lower:ms",
];

/// What the shell's `time` says about the process.
const TIME: &[&str] = &["real:lower:s", "user:lower:s", "sys:lower:s"];

fn read(name: &str, columns: &[&[&str]]) -> Table {
    let path = format!("{}/tests/reference/{name}.csv", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let said: Vec<_> =
        columns.iter().copied().flatten().map(|text| parse_column(text).unwrap()).collect();
    Table::parse(&text, &said).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Little's law of the tables whose rows state the threads.
pub fn law(in_flight: &str) -> Law {
    Law::parse(&format!("{in_flight}=r_iops*r_avg_ms+w_iops*w_avg_ms")).unwrap()
}

/// Threads x size on four arrays, all rows as printed.
pub fn matrix_as_printed() -> Table {
    read("randomio_threads_x_size", &[RANDOMIO, &["config:skip"]])
}

/// The same without the row that is a copy.
pub fn matrix() -> Table {
    let all = matrix_as_printed();
    let copied = all.overwritten(&law("threads")).unwrap();
    all.without(&copied)
}

/// The same with the name of the array as the one factor for it.
pub fn arrays() -> Table {
    let skipped = ["implementation:skip", "level:skip", "on:skip"];
    let all = read("randomio_threads_x_size", &[RANDOMIO, &skipped]);
    all.without(&all.overwritten(&law("threads")).unwrap())
}

/// RAID levels and layouts at 48 threads; layouts and variants count as repeats of a level.
pub fn levels() -> Table {
    levels_with(&["layout:skip"])
}

/// The same with these columns too.
pub fn levels_with(columns: &[&str]) -> Table {
    let skipped = ["config:skip", "variant:skip"];
    read("randomio_raid_levels", &[RANDOMIO, TIME, &skipped, columns])
}

/// Schedulers on a RAID1.
pub fn schedulers() -> Table {
    read("randomio_schedulers_raid1", &[RANDOMIO])
}

/// Schedulers and NCQ through XFS.
pub fn ncq() -> Table {
    read("randomio_xfs_md10f2", &[RANDOMIO])
}

/// Simultaneous load in several I/O classes.
pub fn ionice() -> Table {
    read("randomio_ionice", &[RANDOMIO, TIME])
}

/// A sequential reader beside random load.
pub fn mixed() -> Table {
    let sdd = ["sdd_MBps:higher:MB/s", "sdd_real:lower:s", "sdd_user:lower:s", "sdd_sys:lower:s"];
    read("mixed_sdd_randomio", &[RANDOMIO, TIME, &sdd])
}

/// Sequential figures; `skipped` are factors that shall count as repeats.
pub fn sequential(skipped: &[&str]) -> Table {
    read("sequential_sdd", &[TIME, &["MBps:higher:MB/s", "config:skip"], skipped])
}

/// Sequential reads at several places.
pub fn places(skipped: &[&str]) -> Table {
    let metrics = ["sdd_seconds:lower:s", "kBytes_per_s:higher:KiB/s"];
    read("sdd_transcripts", &[TIME, &metrics, skipped])
}

/// Means over 12000 seconds of one run of a database per scheduler.
pub fn scheduler_means() -> Table {
    let metrics = ["rps:higher:1/s", "wps:higher:1/s", "await_ms:lower:ms", "rmbps:higher:MB/s"];
    let others =
        ["wmbps", "percentutil", "svctm_ms", "rrqmps", "wrqmps", "avgrqsz_sectors", "avgqusz"];
    let skipped: Vec<String> = others.iter().map(|name| format!("{name}:skip")).collect();
    let skipped: Vec<&str> = skipped.iter().map(String::as_str).collect();
    read("iostat_scheduler_means", &[&metrics, &skipped])
}

/// 24 seconds of one run of a database.
pub fn iostat() -> Table {
    read("iostat_mysql_optimize", &[&["util_percent:lower:%", "avgqu_sz:lower"]])
}

/// Sample sizes of iozone.
pub fn iozone() -> Table {
    let metrics = ["write_ops:higher:1/s", "rewrite_ops:higher:1/s", "random_read_ops:higher:1/s"];
    let others = ["random_write_ops:higher:1/s", "real:lower:s"];
    read("iozone_sample_size", &[&metrics, &others])
}

/// Layouts, normal and degraded.
pub fn layouts(skipped: &[&str]) -> Table {
    read("md_layouts", &[&["MiBps:higher:MiB/s"], skipped])
}

/// Operations of FsOpBench.
pub fn operations() -> Table {
    let metrics =
        ["cnt:higher", "min_ms:lower:ms", "max_ms:lower:ms", "avg_ms:lower:ms", "med_ms:lower:ms"];
    read("fsopbench_ops", &[&metrics, &["std_ms:lower:ms", "run:skip", "name:skip"]])
}

/// Rates of FsOpBench; the run that was printed twice counts once, because its copy claims another journal.
pub fn rates() -> Table {
    read("fsopbench_rates", &[&["data_MBps:higher:MB/s", "all_MBps:higher:MB/s", "run:skip"]])
}

/// Direct writes of dd.
pub fn dd(skipped: &[&str]) -> Table {
    read(
        "dd_direct",
        &[&["rate_MBps:higher:MB/s", "seconds:skip", "bytes:skip", "setup:skip"], skipped],
    )
}

/// sysbench on two filesystems.
pub fn sysbench() -> Table {
    let metrics = ["requests_per_s:higher:1/s", "Mb_per_s:higher:MiB/s", "avg_ms:lower:ms"];
    let others = ["p95_ms:lower:ms", "max_ms:lower:ms", "reads:skip", "writes:skip", "setup:skip"];
    read("sysbench_fileio", &[&metrics, &others])
}

/// Read-ahead of a buffered sequential read.
pub fn read_ahead() -> Table {
    read("readahead_sweep", &[&["MBps:higher:MB/s"]])
}

/// Chunk sizes of a customer's array.
pub fn chunks() -> Table {
    read("md_chunk_case_study", &[&["MBps_low:higher:MB/s", "MBps_high:higher:MB/s"]])
}
