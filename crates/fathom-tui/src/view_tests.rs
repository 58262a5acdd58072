//! Views at three sizes, cell by cell.

use super::*;
use crate::state::Update;
use expect_test::{Expect, expect};
use fathom_model::event::{DeviceNow, Event, Layer};
use fathom_model::finding::{Finding, Severity};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::widgets::Widget;

const S: u64 = 1_000_000_000;
const PLAIN: Look = Look { has_colour: false, has_unicode: false };
const FULL: Look = Look { has_colour: true, has_unicode: true };

fn layer(level: u32, name: &str, kind: &str) -> Layer {
    Layer { level, name: name.into(), kind: kind.into() }
}

fn device(name: &str, busy_share: f64, in_flight: f64, read: f64, written: f64) -> DeviceNow {
    let (read_bytes_per_s, written_bytes_per_s) = (read, written);
    DeviceNow {
        name: name.into(),
        busy_share,
        in_flight: Some(in_flight),
        read_bytes_per_s,
        written_bytes_per_s,
    }
}

fn progress(second: u64, scale: f64) -> Update {
    Update::Event(Event::Progress {
        label: "oltp".into(),
        elapsed_ns: second * S,
        eta_ns: Some(130 * S - second * S),
        iops: 775.0 * scale,
        bytes_per_s: 3.2e6 * scale,
        latency_ns_p50: Some((71e6 / scale) as u64),
        latency_ns_p99: Some((290e6 / scale) as u64),
        latency_ns_max: Some(1_200_000_000),
        in_flight: 63.9,
        devices: vec![
            device("md10", 0.0, 63.0, 2.5e6 * scale, 0.7e6 * scale),
            device("sda", 0.98, 10.5, 4.1e5 * scale, 0.0),
            device("sdb", 0.44, 3.25, 3.9e5 * scale, 2.0e5),
        ],
    })
}

fn started() -> Update {
    let found = Finding::new(
        "md-sync",
        Severity::Doubtful,
        "md10 is checking itself (31 % done): rates are too low, tails too long",
    );
    Update::Event(Event::TrialStarted {
        label: "random read, 64 in flight".into(),
        index: 3,
        count: 6,
        layers: vec![
            layer(0, "/srv/data", "mount"),
            layer(1, "ext4", "filesystem"),
            layer(2, "md10", "raid10"),
            layer(3, "sda", "disk"),
            layer(3, "sdb", "disk"),
        ],
        findings: vec![found, Finding::new("one-host", Severity::Note, "the clock is slow")],
    })
}

fn state(updates: &[Update]) -> State {
    let mut state = State::new(0);
    let begun =
        Update::Begun { title: "fathom quick /srv/data".into(), run_id: "7f3k".into(), pid: 1 };
    for (second, update) in std::iter::once(&begun).chain(updates).enumerate() {
        state.apply(update, second as u64 * S);
    }
    state
}

fn measuring() -> State {
    let done = |label: &str, figures: &str| Update::Done {
        label: label.into(),
        figures: figures.into(),
        findings: Vec::new(),
    };
    let mut updates = vec![
        done("sequential read", "302.3 MB/s, 288 IOPS, p50 3.4 ms, p99 6.1 ms"),
        done("sequential write", "118.0 MB/s, 113 IOPS, p50 8.2 ms, p99 31 ms"),
        started(),
    ];
    updates.extend((1..=12).map(|second| progress(second, 1.0 + (second % 4) as f64 / 4.0)));
    state(&updates)
}

/// What a terminal of that size shows, without trailing blanks and without the margin of one column.
fn screen(
    state: &State,
    dialog: Dialog,
    seat: Seat,
    look: Look,
    (columns, lines): (u16, u16),
) -> String {
    let shown = Shown { state, dialog, seat, has_keys: true, now_ns: 15 * S };
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a screen in memory");
    let drawn = terminal.draw(|frame| {
        let Some(view) = render(shown, look, columns, lines) else { return };
        assert!(view.area.height < lines && view.area.width <= columns);
        Cells(&view).render(frame.area(), frame.buffer_mut());
    });
    drawn.expect("nothing fails in memory");
    let text = terminal.backend().to_string();
    let lines = text.lines().map(|line| {
        let line = line.trim_matches('"').trim_end();
        assert!(line.is_empty() || line.starts_with(' '), "no margin: {line}");
        line.get(1..).unwrap_or_default()
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned() + "\n"
}

struct Cells<'a>(&'a Buffer);

impl Widget for Cells<'_> {
    fn render(self, _: Rect, buffer: &mut Buffer) {
        buffer.merge(self.0);
    }
}

#[track_caller]
fn check(state: &State, look: Look, size: (u16, u16), expected: Expect) {
    expected.assert_eq(&screen(state, Dialog::None, Seat::Own, look, size));
}

#[test]
fn a_usual_terminal() {
    check(
        &measuring(),
        PLAIN,
        (80, 24),
        expect![[r#"
             fathom quick /srv/data                                         1 min 58 s left
             random read, 64 in flight  3/6                               measured for 12 s
             throughput    3.2 MB/s, 775 IOPS                    ==#-==#-==#-
             service time  p50 71 ms  p99 290 ms  max 1.2 s      ==-#==-#==-#
             in flight     63.9                                  ############

             DOUBTFUL  md10 is checking itself (31 % done): rates are too low, tails too lo~
             note      the clock is slow

             device               in flight    busy
             /srv/data (mount)
               ext4 (filesystem)
                 md10 (raid10)         63.0     0 %  ..........
                   sda (disk)          10.5    98 %  ##########
                   sdb (disk)           3.2    44 %  ####......

             finished: 2
             sequential read   302.3 MB/s, 288 IOPS, p50 3.4 ms, p99 6.1 ms
             sequential write  118.0 MB/s, 113 IOPS, p50 8.2 ms, p99 31 ms

             q end   ? help
        "#]],
    );
}

#[test]
fn a_large_terminal() {
    check(
        &measuring(),
        PLAIN,
        (120, 40),
        expect![[r#"
         fathom quick /srv/data                                                                                 1 min 58 s left
         random read, 64 in flight  3/6                                                                       measured for 12 s
         throughput    3.2 MB/s, 775 IOPS                    ==#-==#-==#-
         service time  p50 71 ms  p99 290 ms  max 1.2 s      ==-#==-#==-#
         in flight     63.9                                  ############

         DOUBTFUL  md10 is checking itself (31 % done): rates are too low, tails too long
         note      the clock is slow

         device               in flight    busy                      read         write
         /srv/data (mount)
           ext4 (filesystem)
             md10 (raid10)         63.0     0 %  ..........      2.5 MB/s    700.0 kB/s
               sda (disk)          10.5    98 %  ##########    410.0 kB/s             -
               sdb (disk)           3.2    44 %  ####......    390.0 kB/s    200.0 kB/s

         finished: 2
         sequential read   302.3 MB/s, 288 IOPS, p50 3.4 ms, p99 6.1 ms
         sequential write  118.0 MB/s, 113 IOPS, p50 8.2 ms, p99 31 ms

         q end   ? help
    "#]],
    );
}

#[test]
fn bars_are_finer_with_unicode() {
    let text = screen(&measuring(), Dialog::None, Seat::Own, FULL, (120, 40));
    let throughput = text.lines().find(|line| line.contains("throughput")).unwrap_or_default();
    let curve = "\u{2585}\u{2586}\u{2588}\u{2584}\u{2585}";
    assert!(throughput.contains(curve), "{throughput}");
    assert!(text.contains("\u{2588}\u{2588}\u{2588}\u{2588}\u{2591}\u{2591}"), "{text}");
}

#[test]
fn a_tiny_terminal() {
    check(
        &measuring(),
        PLAIN,
        (40, 10),
        expect![[r#"
             fathom quick /srv/data 1 min 58 s left
             random read, 64 in ~ measured for 12 s
             throughput    3.2 MB/s, 775 IOPS
             service time  p50 71 ms  p99 290 ms  m~
             in flight     63.9
             DOUBTFUL  md10 is checking itself (31 ~
             note      the clock is slow
             6 lines more in a higher terminal
             q end   ? help
        "#]],
    );
}

#[test]
fn a_place_in_an_experiment() {
    let slot = Update::Event(Event::SlotStarted {
        block: 2,
        blocks: 6,
        place: 3,
        places: 8,
        cell: "scheduler=mq-deadline read_ahead=128k".into(),
        next: Some("scheduler=none read_ahead=4k".into()),
        eta_ns: 3 * 3600 * S,
    });
    let note = Update::Event(Event::Note { text: "waiting until the machine is quiet".into() });
    check(
        &state(&[slot, note]),
        PLAIN,
        (80, 24),
        expect![[r#"
             fathom quick /srv/data                                 at most 2 h 59 min left
             block 2/6, trial 3/8  scheduler=mq-deadline read_ahead=128k
             next: scheduler=none read_ahead=4k
             waiting until the machine is quiet                                        15 s

             q end   ? help
        "#]],
    );
}

#[test]
fn test_files_that_are_written() {
    let layout = Event::Layout { done_bytes: 3 << 30, total_bytes: 8 << 30, eta_ns: None };
    check(
        &state(&[Update::Event(layout)]),
        PLAIN,
        (80, 24),
        expect![[r#"
             fathom quick /srv/data
             writing the test file: 3 GiB of 8 GiB, 38 %

             q end   ? help
        "#]],
    );
}

#[test]
fn nothing_ends_any_more() {
    let stalled = Update::Event(Event::Progress {
        label: "x".into(),
        elapsed_ns: 3 * S,
        eta_ns: None,
        iops: 0.0,
        bytes_per_s: 0.0,
        latency_ns_p50: None,
        latency_ns_p99: None,
        latency_ns_max: None,
        in_flight: 0.0,
        devices: Vec::new(),
    });
    let state = state(&[started(), progress(1, 1.0), stalled.clone(), stalled]);
    check(
        &state,
        PLAIN,
        (60, 12),
        expect![[r#"
             fathom quick /srv/data
             random read, 64 in flight  3/6            measured for 3 s
             throughput    0 B/s, 0 IOPS
             service time  nothing ended in the last 2 intervals
             in flight     0.0
             DOUBTFUL  md10 is checking itself (31 % done): rates are t~
             note      the clock is slow
             device               in flight    busy
             /srv/data (mount)
             and 4 more
             q end   ? help
        "#]],
    );
}

#[test]
fn the_last_syncs() {
    let syncing = Update::Event(Event::Syncing {
        label: "oltp".into(),
        done_files: 11_999,
        total_files: 100_000,
        eta_ns: Some(88 * S),
        devices: vec![device("sda", 1.0, 1.0, 0.0, 8.0e5)],
    });
    let text = screen(
        &state(&[started(), progress(1, 1.0), syncing]),
        Dialog::None,
        Seat::Own,
        PLAIN,
        (80, 24),
    );
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("1 min 16 s left"), "{text}");
    assert!(lines[1].ends_with("syncing file 12 000 of 100 000"), "{text}");
    assert!(!text.contains("IOPS"), "nothing of what was measured before: {text}");
    assert!(text.contains("sda (disk)           1.0   100 %"), "{text}");
}

#[test]
fn questions_and_help() {
    let state = measuring();
    let last = |dialog, seat, size| {
        let text = screen(&state, dialog, seat, PLAIN, size);
        text.lines().last().unwrap_or_default().to_owned()
    };
    for (dialog, seat, size, line) in [
        (Dialog::None, Seat::Own, (80, 24), "q end   ? help"),
        (Dialog::None, Seat::Attached, (80, 24), "d leave, the run goes on   q end it   ? help"),
        (Dialog::AskEnd, Seat::Own, (40, 10), "End the run? y/n"),
    ] {
        assert_eq!(last(dialog, seat, size), line);
    }
    for width in [40, 60, 73, 74, 80] {
        for seat in [Seat::Own, Seat::Attached] {
            let question = last(Dialog::AskEnd, seat, (width, 10));
            assert!(question.contains("End the run? y"), "{question}");
            let keys = [question, last(Dialog::NoDetach, seat, (width, 10))];
            assert!(keys.iter().all(|line| !line.contains('~')), "cut off at {width}: {keys:?}");
        }
    }
    for seat in [Seat::Own, Seat::Attached] {
        let narrow = screen(&state, Dialog::Help, seat, PLAIN, (80, 24));
        assert!(!narrow.contains('~'), "what is cut off ends so: {narrow}");
    }
    let help = screen(&state, Dialog::Help, Seat::Own, PLAIN, (100, 24));
    expect![[r#"
        fathom quick /srv/data                                                             1 min 58 s left
        random read, 64 in flight  3/6                                                   measured for 12 s
        q           end the run: what was measured is kept, all else is put back
        Ctrl-C      end the run as q does, without a question
        Ctrl-Z      stop everything; what is measured then is void

        Figures are those of the last second or so; curves go back from the right.
        service time: from the submission of a request to its end.
        in flight: of the run, latency times rate; of devices, as the kernel counts.
        busy: share of the time with at least one request in flight; no load in %.
        any key: back to the view
    "#]].assert_eq(&help);
}

#[test]
fn every_size_is_drawn_or_too_small() {
    let state = measuring();
    for dialog in [Dialog::None, Dialog::AskEnd, Dialog::Help, Dialog::NoDetach] {
        for columns in (1..25).chain((25..130).step_by(8)) {
            for lines in (1..10).chain((10..40).step_by(5)) {
                let shown = Shown {
                    state: &state,
                    dialog,
                    seat: Seat::Attached,
                    has_keys: false,
                    now_ns: 0,
                };
                let drawn = render(shown, FULL, columns, lines);
                assert_eq!(drawn.is_none(), columns < 20 || lines < 3, "{columns}x{lines}");
                let fits =
                    drawn.is_none_or(|view| view.area.height < lines && view.area.width <= columns);
                assert!(fits, "{columns}x{lines}");
            }
        }
    }
}

#[test]
fn what_comes_from_elsewhere_moves_no_cursor() {
    let evil = Update::Event(Event::Note { text: "\u{1b}[2Jb\u{fc}cher\n\r".into() });
    let text = screen(&state(&[evil]), Dialog::None, Seat::Own, PLAIN, (80, 24));
    assert!(text.contains("?[2Jb?cher??"), "{text}");
}

#[test]
fn colours_only_where_they_are_wanted() {
    let state = measuring();
    let shown =
        Shown { state: &state, dialog: Dialog::None, seat: Seat::Own, has_keys: true, now_ns: 0 };
    let painted = |look| crate::paint::frame(&render(shown, look, 80, 24).expect("it fits"));
    let has_colour = |text: &str| text.contains(";33m") || text.contains(";36m");
    let (plain, full) = (painted(PLAIN), painted(FULL));
    assert!(has_colour(&full) && !has_colour(&plain));
    assert!(plain.is_ascii() && !full.is_ascii());
}

#[test]
fn a_state_that_is_sent_is_the_same() {
    let state = measuring();
    let sent = serde_json::to_string(&state).expect("plain data");
    assert_eq!(serde_json::from_str::<State>(&sent).expect("as it was written"), state);
}
