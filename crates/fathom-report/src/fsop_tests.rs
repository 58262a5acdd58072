//! Golden texts of file-server phases.

use super::*;
use crate::classic::classic;
use crate::sample;
use expect_test::expect;
use fathom_model::fsop::{
    Crossing, DeviceSecond, FsopPhase, FsopSpec, FsopStream, FsopTree, SecondSample, TimedOp,
};

fn class(class: OpClass, values_us: &[u64], bytes: u64) -> ClassRecord {
    let mut latency_ns = Histogram::new();
    values_us.iter().for_each(|us| latency_ns.record(us * 1_000));
    ClassRecord { class, latency_ns, bytes }
}

fn process(role: Role, number: u32) -> FsopProcess {
    let classes = match role {
        Role::Reader => vec![
            class(OpClass::ReadDir, &[2, 4, 4, 4, 112_924], 0),
            class(OpClass::Stat, &[8, 18, 18, 10_614], 0),
            class(OpClass::OpenRead, &[15, 17, 137], 0),
            class(OpClass::FirstRead, &[170, 270, 102_035], 3),
            class(OpClass::RestRead, &[400, 500, 600], 75_000),
            class(OpClass::CloseRead, &[1, 1, 1], 0),
        ],
        Role::Writer | Role::Client => vec![
            class(OpClass::OpenWrite, &[37, 41, 41_745], 0),
            class(OpClass::FirstWrite, &[7, 7, 130], 3),
            class(OpClass::RestWrite, &[30, 40, 50], 114_000),
            class(OpClass::CloseWrite, &[12, 16, 110], 0),
            class(OpClass::MakeDir, &[19, 25, 1_821_824], 0),
        ],
    };
    let slowest = vec![TimedOp {
        class: if role == Role::Reader { OpClass::ReadDir } else { OpClass::MakeDir },
        start_ns: 8_100_000_000,
        took_ns: if role == Role::Reader { 112_924_000 } else { 1_821_824_000 },
    }];
    FsopProcess {
        role,
        number,
        classes,
        crossings: Vec::new(),
        slowest,
        operations_by_second: vec![3; 30],
        rounds: 0,
        vanished: 0,
        ended_early_ns: None,
        played: None,
    }
}

fn phase(repeat: u32, readers: u32, writers: u32) -> Record {
    let mut record = sample::record("randread", "fsop, x", Vec::new());
    record.jobs.clear();
    record.workload.name = "fsop".into();
    record.window_ns = 30_000_000_000;
    let phase = FsopPhase { readers, writers, clients: 0 };
    record.label = format!("fsop, {}", phase.text());
    record.workload.classic = None;
    let readers = (0..readers).map(|number| process(Role::Reader, number));
    let writers = (0..writers).map(|number| process(Role::Writer, number));
    let second = SecondSample {
        end_ns: 10_000_000_000,
        length_ns: 1_000_000_000,
        dirty_bytes: 734 << 20,
        writeback_bytes: 128 << 20,
        devices: vec![DeviceSecond {
            name: "sda".into(),
            busy_share: 1.0,
            in_flight_mean: 31.5,
            read_bytes: 0,
            written_bytes: 80 << 20,
        }],
        journal_commits: Some(1),
    };
    record.fsop = Some(Box::new(FsopRecord {
        spec: FsopSpec::default(),
        phase,
        repeat,
        tree: FsopTree {
            path: "/srv/tree".into(),
            is_ours: true,
            is_checked: true,
            trees: 4,
            files: Some(197_000),
            directories: Some(17_900),
            bytes: Some(5 << 30),
        },
        caches: Caches::Dropped(CachesLook {
            files_checked: 64,
            checked_bytes: 1 << 20,
            names_checked: 60,
            unused_entries: Some([700_001, 97]),
            inodes: Some([812_345, 10_012]),
            ..CachesLook::default()
        }),
        processes: readers.chain(writers).collect(),
        seconds: vec![second],
        stream: FsopStream::default(),
        kernel: Some("2.6.24-24-server".into()),
        end_seen_late_ns: 0,
    }));
    record
}

#[test]
fn the_classic_tables() {
    let records = [phase(1, 1, 0), phase(1, 3, 3)];
    expect![[r#"
        Linux 2.6.24-24-server
        1 reader (30s)
                           cnt       min        max       avg       med        std
        A read dir           5     0.002    112.924    22.588     0.004     50.500
        B lstat file         4     0.008     10.614     2.664     0.018      5.300
        C open file          3     0.015      0.137     0.056     0.017      0.070
        D rd 1st byte        3     0.170    102.035    34.158     0.268     58.783
        E read rate      50.000 MB/s (data)     0.345 MB/s (readdir + open + 1st byte + data)

        Linux 2.6.24-24-server
        3 readers, 3 writers (30s)
                           cnt       min        max       avg       med        std
        F write open         3     0.037     41.745    13.941     0.041     24.079
        G wr 1st byte        3     0.007      0.130     0.048     0.007      0.071
        H write close        3     0.012      0.110     0.046     0.016      0.055
        I mkdir              3     0.019   1821.824   607.289     0.025   1051.818
        J write rate    950.000 MB/s (data)     2.700 MB/s (open + 1st byte + data + close)
        A read dir           5     0.002    112.924    22.588     0.004     50.500
        B lstat file         4     0.008     10.614     2.664     0.018      5.300
        C open file          3     0.015      0.137     0.056     0.017      0.070
        D rd 1st byte        3     0.170    102.035    34.158     0.268     58.783
        E read rate      50.000 MB/s (data)     0.345 MB/s (readdir + open + 1st byte + data)
    "#]]
    .assert_eq(&classic(&records).expect("it has one"));
}

/// A phase whose writer hung over both borders of the window.
fn hanging() -> Record {
    let mut record = phase(1, 2, 1);
    let crossing = |(start_ns, took_ns)| {
        let took_ns = Some(took_ns);
        Crossing { class: OpClass::MakeDir, start_ns, took_ns }
    };
    let both = [(-2_500_000_000, 9_000_000_000), (10_400_000_000, 23_100_000_000)];
    let fsop = record.fsop.as_deref_mut().expect("has one");
    fsop.processes[2].crossings = both.map(crossing).to_vec();
    record
}

#[test]
fn a_phase_in_full() {
    let record = hanging();
    let fsop = record.fsop.as_deref().expect("has one");
    expect![[r#"
        fsop, 2 readers, 1 writer: 30 s from 2026-11-21 03:00:00 +00:00
        on  Linux 2.6.24-24-server
        tree  /srv/tree, made by fathom and found whole, with 197 000 files of 5 GiB in 17 900 directories, read in 4
              separate parts
        caches  dropped, and seen to be: of 64 files with 1 MiB 0 B are left in memory, of 60 other names and inodes
                0; unused names of the machine: 700 001 before, 97 after; inodes of the machine: 812 345 before,
                10 012 after
             all processes together  count     min     avg     p50  p99  p99.9     max     std  max/p50
          A  read dir                   10  2.0 us   23 ms  4.0 us  n/a    n/a  113 ms   48 ms   28 125
          B  lstat                       8  8.0 us  2.7 ms   18 us  n/a    n/a   11 ms  4.9 ms      588
          C  open                        6   15 us   56 us   17 us  n/a    n/a  137 us   62 us        8
          D  read first byte             6  170 us   34 ms  268 us  n/a    n/a  102 ms   53 ms      380
          E  read the rest               6  400 us  500 us  502 us  n/a    n/a  600 us   89 us        1
             close after reading         6  1.0 us  1.0 us  1.0 us  n/a    n/a  1.0 us    0 ns        1
          F  create and open             3   37 us   14 ms   41 us  n/a    n/a   42 ms   24 ms    1 012
          G  write first byte            3  7.0 us   48 us  7.0 us  n/a    n/a  130 us   71 us       18
          J  write the rest              3   30 us   40 us   40 us  n/a    n/a   50 us   10 us        1
          H  close after writing         3   12 us   46 us   16 us  n/a    n/a  110 us   55 us        6
          I  mkdir                       3   19 us  607 ms   25 us  n/a    n/a   1.8 s   1.1 s   72 992
          n/a: too few operations (ten must lie beyond a percentile: p99 needs 1 000, p99.9 needs 10 000).
          E  readers: data alone 50.0 MB/s, with read dir + open + first byte + rest 345.5 kB/s, each process;
             together 5.0 kB/s
          J  writers: data alone 950.0 MB/s, with create + first byte + rest + sync + close 2.7 MB/s, each process;
             together 3.8 kB/s
          each process  files/s      rate  unfinished  slowest  which was
          reader 0          0.1  2.5 kB/s               113 ms  read dir
          reader 1          0.1  2.5 kB/s               113 ms  read dir
          writer 0          0.1  3.8 kB/s      19.6 s    1.8 s  mkdir
          fairness  among readers: Jain's index 1.000 (1 is equal), the busiest did 1.00 times what the least busy did
          oldest unfinished  mkdir, 19.6 s (writer 0); it took 23.1 s in all
          stalls (from 1.0 s on; busy and what follows: in that second):
                                            at      took       busy  in flight    dirty  being written  commits
            mkdir of writer 0           10.4 s  > 19.6 s  sda 100 %       31.5  734 MiB        128 MiB        1
            mkdir of writer 0     2.5 s before     9.0 s  sda 100 %       31.5  734 MiB        128 MiB        1
            mkdir of writer 0            8.1 s     1.8 s  sda 100 %       31.5  734 MiB        128 MiB        1
            read dir of reader 0         8.1 s    113 ms  sda 100 %       31.5  734 MiB        128 MiB        1
            read dir of reader 1         8.1 s    113 ms  sda 100 %       31.5  734 MiB        128 MiB        1
             reader 0             count     min     avg     p50  p99  p99.9     max     std  max/p50
          A  read dir                 5  2.0 us   23 ms  4.0 us  n/a    n/a  113 ms   50 ms   28 125
          B  lstat                    4  8.0 us  2.7 ms   18 us  n/a    n/a   11 ms  5.3 ms      588
          C  open                     3   15 us   56 us   17 us  n/a    n/a  137 us   70 us        8
          D  read first byte          3  170 us   34 ms  268 us  n/a    n/a  102 ms   59 ms      380
          E  read the rest            3  400 us  500 us  502 us  n/a    n/a  600 us  100 us        1
             close after reading      3  1.0 us  1.0 us  1.0 us  n/a    n/a  1.0 us    0 ns        1
             reader 1             count     min     avg     p50  p99  p99.9     max     std  max/p50
          A  read dir                 5  2.0 us   23 ms  4.0 us  n/a    n/a  113 ms   50 ms   28 125
          B  lstat                    4  8.0 us  2.7 ms   18 us  n/a    n/a   11 ms  5.3 ms      588
          C  open                     3   15 us   56 us   17 us  n/a    n/a  137 us   70 us        8
          D  read first byte          3  170 us   34 ms  268 us  n/a    n/a  102 ms   59 ms      380
          E  read the rest            3  400 us  500 us  502 us  n/a    n/a  600 us  100 us        1
             close after reading      3  1.0 us  1.0 us  1.0 us  n/a    n/a  1.0 us    0 ns        1
             writer 0             count     min     avg     p50  p99  p99.9     max    std  max/p50
          F  create and open          3   37 us   14 ms   41 us  n/a    n/a   42 ms  24 ms    1 012
          G  write first byte         3  7.0 us   48 us  7.0 us  n/a    n/a  130 us  71 us       18
          J  write the rest           3   30 us   40 us   40 us  n/a    n/a   50 us  10 us        1
          H  close after writing      3   12 us   46 us   16 us  n/a    n/a  110 us  55 us        6
          I  mkdir                    3   19 us  607 ms   25 us  n/a    n/a   1.8 s  1.1 s   72 992
          n/a: too few operations (ten must lie beyond a percentile: p99 needs 1 000, p99.9 needs 10 000).
    "#]].assert_eq(&detail(&record, fsop, &TimeZone::UTC, crate::text::WIDTH));
    for width in [crate::text::WIDTH_MIN, 80] {
        let text = detail(&record, fsop, &TimeZone::UTC, width);
        let wide = text.lines().find(|line| line.len() > width);
        assert!(wide.is_none(), "{width}: {wide:?}");
    }
}

#[test]
fn what_readers_keep() {
    let records = [phase(1, 2, 0), phase(1, 2, 3)];
    expect![[r#"
        competition  2 readers beside 3 writers keep 100.0 % of the files/s that they
                     read alone (one repeat: no interval; from --repeats=6 on there is
                     one)
        competition  2 readers beside 3 writers keep 100.0 % of the bytes/s that they
                     read alone (one repeat: no interval; from --repeats=6 on there is
                     one)
    "#]]
    .assert_eq(&competition_text(&fsop::competition(&records), 80));
}

#[test]
fn readers_that_came_to_nothing_are_counted() {
    let mut records: Vec<Record> =
        (1..=7).flat_map(|repeat| [phase(repeat, 2, 0), phase(repeat, 2, 3)]).collect();
    for together in [1, 3, 5, 7] {
        let fsop = records[together].fsop.as_deref_mut().expect("has one");
        fsop.processes.iter_mut().take(2).for_each(|reader| reader.classes.clear());
    }
    let text = competition_text(&fsop::competition(&records), 1_000);
    assert!(
        text.contains("keep 0.0 % of the files/s that they read alone (7 repeats: 0.0 %, 0.0 %"),
        "{text}"
    );
    assert!(text.contains("readers came to nothing in 4 of them, so that there is no"), "{text}");
}
