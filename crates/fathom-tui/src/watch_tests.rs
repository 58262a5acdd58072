//! Views of a watch, cell by cell.

use super::*;
use expect_test::{Expect, expect};
use fathom_model::watch::{DeviceCounts, FlowCounts};

const PLAIN: Look = Look { has_colour: false, has_unicode: false };
const SIZE: (u16, u16) = (80, 24);

fn device(name: &str, title: &str, depth: usize, reads: u64) -> DeviceSample {
    let reads = FlowCounts { requests: reads, sectors: 16 * reads, took_ms: 4 * reads, merged: 0 };
    let busy_ms = reads.requests.min(1000);
    let queued_ms = reads.took_ms;
    let counts = DeviceCounts { reads, busy_ms, queued_ms, ..DeviceCounts::default() };
    DeviceSample {
        name: name.into(),
        title: title.into(),
        depth,
        rates: counts.rates(1_000_000_000),
        counts,
        stands_out: (name == "sdb").then(|| "slow".to_owned()),
        array: None,
        interrupts: Vec::new(),
        latency: None,
    }
}

fn watched(seconds: u64, with_idle: bool) -> Watched {
    let mut watched = Watched::new("fathom watch md0".to_owned(), with_idle, false);
    for second in 0..seconds {
        let scale = 1 + second % 4;
        let devices = vec![
            device("md0", "raid5 of 3", 0, 900 * scale),
            device("sda", "", 1, 300 * scale),
            device("sdb", "", 1, 300 * scale),
            device("sdc", "", 0, 0),
        ];
        let host = HostSample {
            user_share: 0.12,
            iowait_share: 0.4,
            dirty_bytes: 12 << 20,
            io_pressure: Some((0.25 * scale as f64, 0.1)),
            ..HostSample::default()
        };
        let (start_ns, length_ns) = (second * 1_000_000_000, 1_000_000_000);
        let sample = Sample { start_ns, length_ns, devices, host, ..Sample::default() };
        let remarks = vec![
            vec!["check 31.4 % at 52.4 MB/s".to_owned()],
            vec![],
            vec!["<- slow: r_await 30 ms, its companions 4.1 ms".to_owned()],
            vec![],
        ];
        watched.take(sample, remarks, "12:09:54".to_owned());
    }
    watched
}

fn lines(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y: u16| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..area.height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

#[track_caller]
fn check(watched: &Watched, asked: Asked, size: (u16, u16), expected: &Expect) {
    let buffer = render(watched, asked, true, PLAIN, size).expect("a view");
    assert!(buffer.area.height < size.1 && buffer.area.width <= size.0);
    // The first column is the cursor's.
    let text = lines(&buffer);
    let text: String =
        text.lines().map(|l| l.strip_prefix(' ').unwrap_or(l).to_owned() + "\n").collect();
    expected.assert_eq(&text);
}

#[test]
fn a_stack_on_a_usual_terminal() {
    check(
        &watched(9, false),
        Asked::Nothing,
        SIZE,
        &expect![[r#"
         fathom watch md0                                             12:09:54  for 9 s
         processors  user 12 %  system 0 %  iowait 40 %  steal 0 %
         memory      dirty 12 MiB  writeback 0 B
         waiting     for I/O 25 % (all 10 %)                         .-=#.-=#.

         device           util     IOPS        rate   queue    await  requests, past
         md0 raid5 of 3   90 %      900    7.4 MB/s     3.6   4.0 ms  .-=#.-=#.
           check 31.4 % at 52.4 MB/s
           sda            30 %      300    2.5 MB/s     1.2   4.0 ms  .-=#.-=#.
           sdb            30 %      300    2.5 MB/s     1.2   4.0 ms  .-=#.-=#.
             <- slow: r_await 30 ms, its companions 4.1 ms
         1 device has done nothing so far

         q end   d by kind   ? help
    "#]],
    );
}

/// The other table, and back.
#[test]
fn requests_are_told_by_kind_too() {
    let mut watched = watched(1, false);
    let counts = &mut watched.last.devices[0].counts;
    counts.reads.merged = 30;
    counts.writes = FlowCounts { requests: 20, sectors: 320, took_ms: 5, merged: 12 };
    (counts.discards.requests, counts.flushes) = (7, 4);
    watched.last.devices[0].rates = watched.last.devices[0].counts.rates(1_000_000_000);
    watched.turn();
    check(
        &watched,
        Asked::Nothing,
        SIZE,
        &expect![[r#"
        fathom watch md0                                             12:09:54  for 1 s
        processors  user 12 %  system 0 %  iowait 40 %  steal 0 %
        memory      dirty 12 MiB  writeback 0 B
        waiting     for I/O 25 % (all 10 %)

        device             r/s  r_await     w/s  w_await  merged/s    d/s    f/s
        md0 raid5 of 3     900   4.0 ms      20   250 us        42      7      4
          check 31.4 % at 52.4 MB/s
          sda              300   4.0 ms       0        -         0      0      0
          sdb              300   4.0 ms       0        -         0      0      0
            <- slow: r_await 30 ms, its companions 4.1 ms
        1 device has done nothing so far

        q end   d all together   ? help
    "#]],
    );
    watched.turn();
    let shown = lines(&render(&watched, Asked::Nothing, true, PLAIN, SIZE).expect("a view"));
    assert!(shown.contains("requests, past") && !shown.contains("merged/s"), "{shown}");
}

/// A line that vanishes has a reason, and one in its place another past.
#[test]
fn devices_that_come_and_go_are_told_for_a_while() {
    let mut watched = watched(4, false);
    let text = |watched: &Watched| {
        lines(&render(watched, Asked::Nothing, true, PLAIN, SIZE).expect("a view"))
    };
    let mut next = |went: &[&str], came: &[&str], lost: u64| {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let mut sample = watched.last.clone();
        sample.devices.retain(|device| !went.contains(&device.name.as_str()));
        (sample.went, sample.came, sample.latency_lost) = (names(went), names(came), Some(lost));
        watched.take(sample, Vec::new(), "12:10:00".to_owned());
        (text(&watched), watched.requests.contains_key("sda"))
    };
    let (shown, is_kept) = next(&["sda"], &[], 0);
    assert!(shown.contains(" 12:10:00 went: sda\n") && !is_kept, "{shown}");
    let (shown, _) = next(&["sdb"], &["sdb"], 78);
    for part in [
        "went: sda",
        "12:10:00 replaced by another of the same name: sdb",
        "78 trace events were lost",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (shown, _) = next(&[], &[], 5);
    assert!(shown.contains("5 trace events were lost") && !shown.contains("78 "), "{shown}");
    // The newest three, each for ten intervals.
    let (shown, _) = next(&[], &["sdz"], 0);
    assert!(shown.contains("came: sdz") && !shown.contains("went: sda"), "{shown}");
    for _ in 0..9 {
        let (shown, _) = next(&[], &[], 0);
        assert!(shown.contains("came: sdz"), "{shown}");
    }
    let (shown, _) = next(&[], &[], 0);
    assert!(!shown.contains("sdz") && !shown.contains("lost"), "{shown}");
}

#[test]
fn low_and_narrow_ones_lose_the_rest_first() {
    check(
        &watched(9, true),
        Asked::Nothing,
        (60, 9),
        &expect![[r#"
         fathom watch md0                         12:09:54  for 9 s
         processors  user 12 %  system 0 %  iowait 40 %  steal 0 %
         memory      dirty 12 MiB  writeback 0 B
         waiting     for I/O 25 % (all 10 %)
         device           util     IOPS        rate   queue    await
         md0 raid5 of 3   90 %      900    7.4 MB/s     3.6   4.0 ms
         and 5 more
         q end   d by kind   ? help
    "#]],
    );
    check(
        &watched(2, false),
        Asked::Nothing,
        (20, 3),
        &expect![[r#"
            fathom watch md0
            q end   d by kind ~
        "#]],
    );
    assert!(render(&watched(2, false), Asked::Nothing, true, PLAIN, (19, 24)).is_none());
}

#[test]
fn what_is_asked_stands_in_the_last_line() {
    let mut watched = watched(1, false);
    let last = |watched: &Watched, asked, has_keys| {
        let buffer = render(watched, asked, has_keys, PLAIN, SIZE).expect("a view");
        lines(&buffer).lines().last().map(str::to_owned).unwrap_or_default()
    };
    assert_eq!(last(&watched, Asked::Nothing, true), " q end   d by kind   ? help");
    assert_eq!(last(&watched, Asked::Nothing, false), " Ctrl-C ends");
    assert_eq!(last(&watched, Asked::Help, true), " any key: back to the view");
    watched.has_command = true;
    assert_eq!(last(&watched, Asked::Nothing, true), " q end the command   d by kind   ? help");
    assert_eq!(last(&watched, Asked::End, true), " End the command? y = end  n = go on");
    let buffer = render(&watched, Asked::Help, true, PLAIN, SIZE).expect("a view");
    assert!(lines(&buffer).contains("full for one disk with one head"));
}

#[test]
fn devices_stay_once_they_have_done_something() {
    let mut watched = watched(1, false);
    let quiet = Sample {
        devices: vec![device("md0", "", 0, 0), device("sdc", "", 0, 0)],
        ..Sample::default()
    };
    watched.take(quiet, Vec::new(), String::new());
    let buffer = render(&watched, Asked::Nothing, true, PLAIN, SIZE).expect("a view");
    let text = lines(&buffer);
    assert!(text.contains(" md0 ") && !text.contains(" sdc "), "{text}");
    assert!(text.contains("1 device has done nothing so far"), "{text}");
    let empty = render(&Watched::new("x".into(), false, false), Asked::Nothing, true, PLAIN, SIZE);
    assert!(lines(&empty.expect("a view")).contains("no device has had a request yet"));
}
