//! What the rows show before any conclusion: which cannot be right, where each array saturates, which is best where.

use super::data::{self, law};
use fathom_study::table::{Copied, LITTLE_TOLERANCE, Table, Trend};

/// Smallest and largest deviation from Little's law.
fn deviations(table: &Table, in_flight: &str) -> (f64, f64, usize) {
    let rows = table.in_flight(&law(in_flight)).unwrap();
    let all = rows.iter().map(fathom_study::table::InFlight::deviation);
    let least = all.clone().fold(f64::INFINITY, f64::min);
    (least, all.fold(f64::NEG_INFINITY, f64::max), rows.len())
}

#[test]
fn littles_law_holds_in_each_row_but_one() {
    // As many threads as the row states, or the 48 of the study where it does not.
    let tables = [
        (data::matrix(), "threads", 124),
        (data::levels(), "threads", 11),
        (data::schedulers(), "48", 8),
        (data::ncq(), "48", 7),
        (data::ionice(), "48", 18),
        (data::mixed(), "48", 4),
    ];
    for (table, in_flight, count) in tables {
        let (least, most, rows) = deviations(&table, in_flight);
        assert_eq!(rows, count);
        assert!(least > -0.04 && most < 0.01, "{in_flight}: {least} to {most}");
    }
    // The bounds of the largest table, computed elsewhere: -3.0420 % and +0.4270 %.
    let (least, most, _) = deviations(&data::matrix(), "threads");
    assert!((least + 0.030_420).abs() < 1e-6 && (most - 0.004_270).abs() < 1e-6, "{least} {most}");
    let printed = data::matrix_as_printed();
    let rows = printed.in_flight(&law("threads")).unwrap();
    let broken: Vec<_> = rows.iter().filter(|row| row.breaks_law()).collect();
    let [row] = broken.as_slice() else { panic!("{broken:?}") };
    assert_eq!((row.stated, row.computed.round()), (512.0, 254.0));
    assert!(row.deviation() < -10.0 * LITTLE_TOLERANCE);
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_copied_rows_are_found() {
    let printed = data::matrix_as_printed();
    let copies = printed.copies();
    let [Copied { lines, earlier, later }] = copies.as_slice() else { panic!("{copies:?}") };
    assert_eq!((earlier, later), (&named(&[("threads", "256")]), &named(&[("threads", "512")])));
    let same = [("implementation", "3ware"), ("level", "5"), ("on", "xfs file")];
    let whole = [&same[..], &[("threads", "512"), ("io_size_bytes", "131072")]].concat();
    assert_eq!(printed.factors_of(lines.1), named(&whole));
    // That the later one is the copy shows by itself: its requests do not fit its threads.
    assert_eq!(printed.overwritten(&law("threads")).unwrap(), [lines.1]);

    // A row of the ionice tables is that of the case above. It fits its threads, so which is the copy does not show.
    let ionice = data::ionice();
    let copies = ionice.copies();
    let [copied] = copies.as_slice() else { panic!("{copies:?}") };
    assert_eq!(copied.earlier[0].1, "Ionices 1 and 2 simultaneously active");
    assert_eq!(copied.later, named(&[("case", "1 and 3"), ("ionice", "1")]));
    assert_eq!(ionice.overwritten(&law("48")).unwrap(), [] as [usize; 0]);

    // Two tables of FsOpBench are one run: all 16 operations, and all 4 rates.
    let journal =
        |copied: &&Copied| copied.later == named(&[("journal", "/dev/journal/scratch_a")]);
    assert_eq!(data::operations().copies().iter().filter(journal).count(), 16);
    assert_eq!((data::operations().copies().len(), data::rates().copies().len()), (16, 4));

    // The times of the sequential tables: the write on a RAID10 has those of the read.
    let times = data::sequential(&["MBps:skip"]).copies();
    let [times] = times.as_slice() else { panic!("{times:?}") };
    assert_eq!(times.later, named(&[("direction", "write")]));
    // Where nothing was copied, nothing is found.
    for table in [data::levels(), data::schedulers(), data::ncq(), data::mixed(), data::iozone()] {
        assert_eq!(table.copies(), []);
    }
}

/// Array, size, threads at which it saturates, threads at its peak.
const SATURATION: [(&str, &str, f64, f64); 15] = [
    ("md10fs", "512", 128.0, 228.0),
    ("md10fs", "32768", 128.0, 1024.0),
    ("md10fs", "65536", 128.0, 1024.0),
    ("md10fs", "131072", 64.0, 256.0),
    ("3w10", "512", 128.0, 512.0),
    ("3w10", "32768", 64.0, 1024.0),
    ("3w10", "65536", 64.0, 1024.0),
    ("3w10", "131072", 128.0, 256.0),
    ("3w10fs", "512", 64.0, 1024.0),
    ("3w10fs", "32768", 64.0, 256.0),
    ("3w10fs", "65536", 64.0, 256.0),
    ("3w10fs", "131072", 64.0, 512.0),
    ("3w5fs", "512", 64.0, 2048.0),
    ("3w5fs", "32768", 64.0, 512.0),
    ("3w5fs", "131072", 64.0, 128.0),
];

#[test]
fn where_each_array_saturates() {
    let sweeps = data::arrays().sweeps("threads", "total_iops").unwrap();
    assert_eq!(sweeps.len(), SATURATION.len());
    for (array, size, knee, peak) in SATURATION {
        let group = named(&[("config", array), ("io_size_bytes", size)]);
        let sweep = sweeps.iter().find(|sweep| sweep.group == group).unwrap();
        let (at, highest) = (sweep.knee().unwrap(), sweep.peak().unwrap());
        assert_eq!((at.0, highest.0), (knee, peak), "{array} {size}");
        assert!(highest.1 < at.1 * 1.1, "{array} {size}: beyond the knee little is left");
    }
}

#[test]
fn the_best_array_of_each_size() {
    let best = data::arrays().best_by("config", "total_iops", &["io_size_bytes"]).unwrap();
    let orders: Vec<(&str, Vec<(&str, f64)>)> = best
        .iter()
        .map(|best| {
            let ranking = best.ranking.iter().map(|r| (r.level.as_str(), r.value)).collect();
            (best.group[0].1.as_str(), ranking)
        })
        .collect();
    let expected = [
        ("512", vec![("md10fs", 1111.1), ("3w10fs", 999.9), ("3w10", 912.0), ("3w5fs", 667.1)]),
        ("32768", vec![("md10fs", 1062.1), ("3w10", 868.2), ("3w10fs", 718.3), ("3w5fs", 508.9)]),
        ("65536", vec![("md10fs", 980.6), ("3w10", 827.2), ("3w10fs", 573.9)]),
        ("131072", vec![("md10fs", 486.5), ("3w10", 431.3), ("3w10fs", 378.6), ("3w5fs", 324.4)]),
    ];
    assert_eq!(orders, expected);
}

#[test]
fn the_best_layout_of_each_kind_of_run() {
    let best = data::layouts(&[]).best_by("layout", "MiBps", &["direction", "state"]).unwrap();
    let first = |direction: &str, state: &str| {
        let group = named(&[("direction", direction), ("state", state)]);
        best.iter().find(|best| best.group == group).unwrap().ranking[0].clone()
    };
    // RAID0, whose layout is '-', is best while it lives.
    assert_eq!((first("read", "normal").level, first("read", "normal").value), ("-".into(), 186.0));
    assert_eq!(first("write", "degraded").level, "n2");
    assert_eq!(first("read", "degraded").level, "left-asymmetric");
}

#[test]
fn the_series_of_read_ahead_and_its_gain() {
    let sweeps = data::read_ahead().sweeps("readahead_512B_sectors", "MBps").unwrap();
    assert_eq!(sweeps[0].points, [(256.0, 161.0), (512.0, 171.0), (1024.0, 201.0)]);
    assert_eq!(sweeps[0].trend(), Trend::Rises);
    assert!((sweeps[0].gain().unwrap() - 201.0 / 161.0).abs() < 1e-12);
}

/// Rows as Python's csv module counts them.
#[test]
fn no_row_is_lost() {
    let rows = [
        (data::matrix_as_printed(), 125),
        (data::levels(), 11),
        (data::schedulers(), 8),
        (data::ncq(), 7),
        (data::ionice(), 18),
        (data::mixed(), 4),
        (data::sequential(&[]), 25),
        (data::places(&[]), 5),
        (data::scheduler_means(), 3),
        (data::iostat(), 24),
        (data::iozone(), 6),
        (data::layouts(&[]), 32),
        (data::operations(), 168),
        (data::rates(), 42),
        (data::dd(&[]), 11),
        (data::sysbench(), 4),
        (data::read_ahead(), 3),
        (data::chunks(), 3),
    ];
    for (i, (table, count)) in rows.iter().enumerate() {
        assert_eq!(table.len(), *count, "table {i}");
    }
}
