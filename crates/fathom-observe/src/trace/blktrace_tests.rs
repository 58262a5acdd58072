//! Files built by blktrace's documented structure. (Where blktrace itself may run, its files have the same structure; it may not on a
//! locked-down kernel.) That blkparse reads the same is a test of the kernel's tier.

use super::*;
use crate::trace::open::Source;

/// (time, sector, bytes, action, category, process, processor, data)
type Row = (u64, u64, u32, u32, u32, u32, u32, Vec<u8>);

fn record(number: u32, row: &Row, is_little: bool) -> Vec<u8> {
    let (time_ns, sector, bytes, act, category, process, cpu, data) = row;
    let mut out = Vec::new();
    let mut put = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        if !is_little {
            bytes.reverse();
        }
        out.extend_from_slice(&bytes);
    };
    put(&(MAGIC | VERSION).to_le_bytes());
    put(&number.to_le_bytes());
    put(&time_ns.to_le_bytes());
    put(&sector.to_le_bytes());
    for word in [*bytes, category << 16 | act, *process, 8 << 20, *cpu] {
        put(&word.to_le_bytes());
    }
    put(&0u16.to_le_bytes());
    put(&(data.len() as u16).to_le_bytes());
    out.extend_from_slice(data);
    out
}

const FS: u32 = 1 << 8;

fn rows() -> Vec<Row> {
    let mut name = b"writer".to_vec();
    name.resize(16, 0);
    let none = Vec::new;
    vec![
        (0, 0, 0, 0, NOTIFY, 77, 0, name),
        (1_000, 800, 4096, 1, WRITE | SYNC | FS, 77, 0, none()),
        (1_500, 8, 8192, 1, READ | AHEAD | FS, 77, 1, none()),
        (2_000, 800, 4096, 4, WRITE | SYNC | FS, 77, 0, none()),
        (2_500, 8, 8192, 13, READ | FS, 77, 1, 16u64.to_be_bytes().to_vec()),
        (3_000, 800, 4096, 7, WRITE | SYNC | FS | (1 << 6), 77, 0, none()),
        (4_000, 8, 4096, 7, READ | FS | (1 << 6), 77, 1, none()),
        (9_000, 800, 4096, 8, WRITE | SYNC | FS | (1 << 7), 0, 1, none()),
        (9_500, 8, 4096, 8, READ | FS | (1 << 7), 0, 0, none()),
        (9_900, 4096, 4096, 1, DISCARD | WRITE | FS, 77, 0, none()),
    ]
}

fn files(is_little: bool) -> [Vec<u8>; 2] {
    files_of(&rows(), is_little)
}

/// Each processor counts its events, and notes not at all.
fn files_of(rows: &[Row], is_little: bool) -> [Vec<u8>; 2] {
    let (mut files, mut counts) = ([Vec::new(), Vec::new()], [0, 0]);
    for row in rows {
        let (cpu, is_note) = (row.6 as usize, row.4 & NOTIFY != 0);
        counts[cpu] += u32::from(!is_note);
        files[cpu].extend(record(if is_note { 0 } else { counts[cpu] }, row, is_little));
    }
    files
}

fn read(files: &[Vec<u8>]) -> (Vec<Event>, Names) {
    let mut merged = Merged::new(files.iter().map(|f| &f[..]).collect()).expect("a trace");
    let events = merged.by_ref().map(|event| event.expect("an event")).collect();
    assert_eq!(merged.device(), Some((8, 0)));
    (events, merged.names().clone())
}

#[test]
fn processors_are_merged_by_time_in_both_byte_orders() {
    let (events, names) = read(&files(true));
    assert!(read(&files(false)).0 == events);
    let times: Vec<u64> = events.iter().map(|event| event.time_ns).collect();
    assert_eq!(times, [1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 9_000, 9_500, 9_900]);
    assert!(events[0].class == Class::Write && events[0].flags.has(Flags::SYNC));
    assert_eq!((events[0].sectors, names.get(events[0].name)), (8, "writer"));
    assert!(events[1].class == Class::Read && events[1].flags.has(Flags::AHEAD));
    assert_eq!(
        (events[3].action, events[3].sectors, events[3].other_sector),
        (Action::Split, 8, 16)
    );
    assert_eq!(events[8].class, Class::Discard);
}

/// Kernels with control groups of I/O (the option blk_cgroup of the tracer) put the number of the group before what belongs to an
/// event, and say so by a bit.
#[test]
fn events_of_control_groups_are_events() {
    let in_group = |row: &Row| {
        let mut row = row.clone();
        let mut data = 4711u64.to_ne_bytes().to_vec();
        data.extend_from_slice(&row.7);
        (row.3, row.7) = (row.3 | CGROUP, data);
        row
    };
    let grouped = files_of(&rows().iter().map(in_group).collect::<Vec<_>>(), true);
    let (plain, names) = read(&files(true));
    let (events, names_of_groups) = read(&grouped);
    assert_eq!(events, plain);
    assert_eq!(names_of_groups.since(0), names.since(0));
    // A remap has its sectors behind the number too; one whose data end before is none.
    let mut data = 1u64.to_ne_bytes().to_vec();
    data.extend_from_slice(&[0; 8]);
    data.extend_from_slice(&640u64.to_be_bytes());
    let remap = (100, 64, 4096, 15 | CGROUP, READ | FS, 7, 0, data);
    assert_eq!(read(&[record(1, &remap, true)]).0[0].other_sector, 640);
    let short = (100, 64, 4096, 15 | CGROUP, READ | FS, 7, 0, vec![0; 20]);
    assert!(read(&[record(1, &short, true)]).0.is_empty());
}

#[test]
fn what_is_cut_off_damaged_or_newer_is_told() {
    let [whole, _] = files(true);
    for length in 1..whole.len() {
        let mut merged = match Merged::new(vec![&whole[..length]]) {
            Ok(merged) => merged,
            Err(error) => panic!("{length}: {error}"),
        };
        merged.by_ref().for_each(|event| assert!(event.is_ok()));
    }
    let mut cut = Merged::new(vec![&whole[..whole.len() - 3]]).expect("begins well");
    cut.by_ref().for_each(drop);
    assert!(cut.is_cut_off());
    let mut bad = whole.clone();
    bad[64] = 0x55;
    let mut merged = Merged::new(vec![&bad[..]]);
    let errors = match &mut merged {
        Err(_) => 1,
        Ok(merged) => merged.filter(Result::is_err).count(),
    };
    assert_eq!(errors, 1);
    // The number of the form, in a record behind the first.
    let mut flipped = whole.clone();
    let second = RECORD_BYTES + usize::from(u16::from_le_bytes([whole[46], whole[47]]));
    flipped[second] ^= 0xff;
    let merged = Merged::new(vec![&flipped[..]]).expect("begins well");
    let errors: Vec<_> = merged.filter_map(Result::err).collect();
    assert!(matches!(errors[..], [TraceError::Damaged { .. }]), "{errors:?}");
    let mut never = whole.clone();
    never[second + 15] = 0xff;
    let merged = Merged::new(vec![&never[..]]).expect("begins well");
    let errors: Vec<_> = merged.filter_map(Result::err).collect();
    assert!(matches!(errors[..], [TraceError::Damaged { .. }]), "a time of 584 years: {errors:?}");
    let mut newer = whole;
    newer[0] = 8;
    assert!(is_one(&newer) && matches!(Merged::new(vec![&newer[..]]), Err(TraceError::Foreign(_))));
    assert!(!is_one(b"abcdefgh") && !is_one(b""));
}

/// A place that no disk has, a split before its begin, and a remap without its place: left out, and counted.
#[test]
fn records_of_impossible_places_are_counted() {
    let mut rows = rows();
    rows[1].1 = u64::MAX - 1;
    rows[4].7 = 4u64.to_be_bytes().to_vec();
    rows.push((9_950, 8, 4096, 15, READ, 77, 0, vec![0; 15]));
    let files = files_of(&rows, true);
    let mut merged = Merged::new(files.iter().map(|f| &f[..]).collect()).expect("a trace");
    let events = merged.by_ref().filter(Result::is_ok).count();
    assert_eq!((events, merged.skipped()), (rows.len() - 1 - 3, 3), "one row is a note");
}

/// Records that are missing show by the numbers of the others, wherever notes stand between; a file that is missing by those of
/// the other processors.
#[test]
fn what_is_missing_is_counted() {
    let lost = |files: &[Vec<u8>]| {
        let mut merged = Merged::new(files.iter().map(|f| &f[..]).collect()).expect("a trace");
        let mut after = Vec::new();
        while let Some(event) = merged.next() {
            let event = event.expect("an event");
            if merged.take_gap() {
                after.push(event.time_ns);
            }
        }
        (merged.lost(), after)
    };
    for is_little in [true, false] {
        let [first, second] = files(is_little);
        assert_eq!(lost(&[first.clone(), second.clone()]), (0, vec![]));
        // The note of 64 bytes, its first event, and then two are missing.
        let cut = [&first[..112], &first[208..]].concat();
        assert_eq!(lost(&[cut, second.clone()]), (2, vec![9_500]));
        // Another trace behind it begins to count once more.
        let twice = [&first[..], &first[..]].concat();
        assert_eq!(lost(&[twice, second]).0, 0);
        // What is missing of another device is not missing here.
        let other = |number: u32| {
            let mut of_other = record(number, &rows()[2], is_little);
            let device = (8u32 << 20) | 16;
            let bytes = if is_little { device.to_le_bytes() } else { device.to_be_bytes() };
            of_other[36..40].copy_from_slice(&bytes);
            of_other
        };
        let beside = [first.clone(), other(1), other(9)].concat();
        assert_eq!(lost(&[beside]), (0, vec![]));
        // Both processors in one file, in the order of time, as other programs merge them: each counts by itself.
        let (mut merged, mut counts) = (Vec::new(), [0, 1000]);
        for row in &rows() {
            let (cpu, is_note) = (row.6 as usize, row.4 & NOTIFY != 0);
            counts[cpu] += u32::from(!is_note);
            merged.extend(record(if is_note { 0 } else { counts[cpu] }, row, is_little));
        }
        assert_eq!(lost(&[merged]), (0, vec![]));
    }
    let place = tempfile::tempdir().expect("a directory");
    let [first, second] = files(true);
    let write = |number: u32, bytes: &[u8]| {
        let path = place.path().join(format!("x.blktrace.{number}"));
        std::fs::write(&path, bytes).expect("written");
        path
    };
    write(0, &first);
    let path = write(3, &second);
    let read = || {
        let source = Source::open(&path);
        source.and_then(|mut s| s.characterise(&|| true)).expect("a trace").faults
    };
    assert_eq!((read().without_file, read().lost), (vec![1, 2], 0));
    write(1, &first[..112]);
    write(2, &[]);
    assert_eq!(read().without_file, [0; 0]);
    write(0, &[&first[..112], &first[160..]].concat());
    assert_eq!(read().lost, 1);
}

/// The first device is that of the first event, unless another one is asked for.
#[test]
fn of_several_devices_one_is_asked_for() {
    let of = |device| {
        let files = files(true);
        let merged = Merged::new(files.iter().map(|f| &f[..]).collect()).expect("a trace");
        let mut merged = merged.of_device(device);
        let events = merged.by_ref().filter(Result::is_ok).count();
        (events, merged.others().clone())
    };
    assert_eq!(of((8, 0)), (9, Others::default()));
    assert_eq!(of((8, 16)), (0, Others { events: 9, devices: vec!["8,0".to_owned()] }));
}

/// Cut at the end of a record; one that is seldom used ends when it does.
#[test]
fn a_file_that_ends_long_before_the_others_is_told() {
    let of = |cpu: u32, count: u64, step_ns: u64| {
        let row = |number: u64| {
            let (time_ns, sector) = (1_000 + number * step_ns, number * 8);
            (time_ns, sector, 4096, 1, READ | FS, 77, cpu, Vec::new())
        };
        (0..count).flat_map(|number| record(number as u32 + 1, &row(number), true)).collect()
    };
    let early = |count: u64, step_ns: u64| {
        let files: [Vec<u8>; 2] = [of(0, 5000, 100_000), of(1, count, step_ns)];
        let mut merged = Merged::new(files.iter().map(|f| &f[..]).collect()).expect("a trace");
        assert_eq!(merged.by_ref().filter(Result::is_ok).count() as u64, 5000 + count);
        merged.ended_early()
    };
    assert_eq!(early(5000, 99_000), [0u32; 0]);
    assert_eq!(early(2500, 100_000), [1]);
    assert_eq!(early(4, 50_000_000), [0u32; 0]);
}
