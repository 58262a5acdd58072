//! Small traces whose figures are known, and random ones against the plainest way to count.

use super::*;
use crate::trace::event::SECTOR_BYTES;
use fathom_base::prng::Prng;
use fathom_stats::Histogram;

fn at(action: Action, time_ns: u64, class: Class, sector: u64, sectors: u32) -> Event {
    Event { sector, sectors, class, name: 1, ..Event::new(action, time_ns) }
}

fn names() -> Names {
    let mut names = Names::default();
    names.number_of("worker");
    names
}

fn study(events: &[Event], size_bytes: u64) -> CaptureRecord {
    let mut study = Study::new(size_bytes);
    events.iter().for_each(|event| study.event(event, &names()));
    study.finish(None)
}

/// One request after the other: arrives, is issued 10 us later, ends 90 us after that.
fn serial(requests: &[(Class, u64, u32)]) -> Vec<Event> {
    let steps = |(number, &(class, sector, sectors)): (usize, &(Class, u64, u32))| {
        let start_ns = number as u64 * 1_000_000;
        [(Action::Queue, 0), (Action::Issue, 10_000), (Action::Complete, 100_000)]
            .map(|(action, after_ns)| at(action, start_ns + after_ns, class, sector, sectors))
    };
    requests.iter().enumerate().flat_map(steps).collect()
}

/// Eight arrive together and become one, which takes most of the time: that one is what the device works on.
#[test]
fn what_is_merged_is_one_with_the_driver() {
    let burst = |number: u64| {
        let (start_ns, first) = (number * 1_000_000, number * 1000);
        let arrivals = (0..8).flat_map(move |n| {
            let of = |action| at(action, start_ns + n * 100, Class::Write, first + 8 * n, 8);
            [Some(of(Action::Queue)), (n > 0).then(|| of(Action::BackMerge))]
        });
        let whole = [(Action::Issue, 20_000), (Action::Complete, 520_000)]
            .map(|(action, after_ns)| at(action, start_ns + after_ns, Class::Write, first, 64));
        arrivals.flatten().chain(whole)
    };
    let record = study(&(0..50).flat_map(burst).collect::<Vec<_>>(), 1 << 30);
    assert_eq!((record.merges, record.issued, record.faults.abandoned), ([0, 350, 0], 50, 0));
    assert_eq!((record.depth_quantile(0.5), record.depth_quantile(1.0)), (8, 8));
    let driver = [0.5, 0.95, 1.0].map(|share| record.driver_depth_quantile(share));
    assert_eq!(driver, [Some(1); 3]);
    assert_eq!(record.driver_depth_ns[1], 50 * 500_000);
}

/// A reader that was stopped: from 350 ms to 900 ms everything was lost.
#[test]
fn intervals_in_which_events_were_lost_are_marked() {
    let mut study = Study::new(1 << 30);
    let requests: Vec<_> = (0..1500).map(|n| (Class::Read, 8 * n, 8)).collect();
    for event in serial(&requests) {
        if (350_000_000..900_000_000).contains(&event.time_ns) {
            continue;
        }
        if event.time_ns == 900_000_000 && event.action == Action::Queue {
            study.hole(350_000_000, 900_000_000);
            study.gap(900_000_000);
        }
        study.event(&event, &names());
    }
    let record = study.finish(None);
    let lossy: Vec<bool> = record.series.iter().map(|interval| interval.is_lossy).collect();
    assert_eq!(lossy, (0..15).map(|at| (3..=9).contains(&at)).collect::<Vec<_>>());
    assert_eq!((record.series[5].reads, record.series[10].reads), (0, 100));
}

#[test]
fn sizes_latencies_and_depth_of_a_known_trace() {
    let requests = [
        (Class::Read, 0, 8),
        (Class::Read, 8, 8),
        (Class::Read, 16, 24),
        (Class::Write, 100_000, 2),
        (Class::Read, 40, 8),
    ];
    let record = study(&serial(&requests), 1 << 30);
    let read = record.class("read").expect("reads");
    assert_eq!((read.count, read.bytes), (4, 48 * 512));
    assert!((read.size_mean - 6144.0).abs() < 1e-6);
    assert!((read.size_harmonic - 4.0 / (3.0 / 4096.0 + 1.0 / 12288.0)).abs() < 1e-6);
    // Of 4096, 4096, 12288, 4096.
    assert!(
        (read.size_deviation - (3.0f64 * 2048.0 * 2048.0 + 6144.0 * 6144.0).sqrt() / 2.0).abs()
            < 1e-6
    );
    assert_eq!(read.sizes, [(4096, 3), (12288, 1)]);
    let means = [&read.total_ns, &read.wait_ns, &read.service_ns].map(|h| h.mean().expect("some"));
    assert_eq!(means, [100_000.0, 10_000.0, 90_000.0]);
    assert_eq!((record.places.follow_last, record.places.follow_any), (2, 3));
    assert_eq!(record.places.seeks, 2);
    // 100 us of every millisecond, the last millisecond without its rest.
    assert_eq!(record.window_ns, 4_100_000);
    assert_eq!(record.depth_ns, [3_600_000, 500_000]);
    // Of the 100 us the driver had it for 90.
    assert_eq!(record.driver_depth_ns, [3_650_000, 450_000]);
    assert_eq!((record.issued, record.errors, record.processes.len()), (5, 0, 1));
    assert_eq!(record.processes[0].name, "worker");
    assert_eq!(record.series.iter().map(|i| i.reads + i.writes).sum::<u64>(), 5);
    assert_eq!(record.map.cells.iter().map(|(_, _, r, w)| r + w).sum::<u32>(), 5);
}

/// Nothing is moved by it, and no head goes there.
#[test]
fn what_is_discarded_is_no_place_that_is_used() {
    let mut requests = vec![(Class::Read, 0, 8), (Class::Write, 80, 8)];
    let without = study(&serial(&requests), 1 << 40);
    requests.insert(1, (Class::Discard, 1 << 30, 2 << 20));
    let with = study(&serial(&requests), 1 << 40);
    assert_eq!(with.class("discard").expect("told").bytes, 1 << 30);
    let of = |record: &CaptureRecord| {
        let map = &record.map.cells;
        let drawn = map.iter().map(|(_, _, reads, writes)| (*reads, *writes)).collect::<Vec<_>>();
        (record.places.clone(), drawn)
    };
    assert_eq!(of(&with), of(&without));
}

/// Of a trace of two processors that of one is missing: what ended on it seems to be in flight for ever, and is told.
#[test]
fn ends_that_are_missing_hide_how_many_were_in_flight() {
    let requests: Vec<_> = (0..2000).map(|at| (Class::Read, at * 7919 % 100_000 * 8, 8)).collect();
    let events = serial(&requests);
    let whole = study(&events, 1 << 30);
    assert!(whole.knows_depth() && whole.faults.abandoned == 0, "{:?}", whole.faults);
    // Every other request begins on the other one, and each ends where it did not begin.
    let is_there = |(at, _): &(usize, &Event)| (at / 3 % 2 == 0) == (at % 3 < 2);
    let half: Vec<Event> =
        events.iter().enumerate().filter(is_there).map(|(_, event)| *event).collect();
    let half = study_of_others(&half, None);
    assert!(!half.knows_depth() && half.faults.abandoned >= 500, "{:?}", half.faults);
    // A request that still waits when the trace ends is none of them.
    let cut = study(&events[..events.len() - 1], 1 << 30);
    assert!(cut.knows_depth() && cut.faults.abandoned == 0, "{:?}", cut.faults);
}

/// A trace whose writer does not tell what it has lost.
fn study_of_others(events: &[Event], end_ns: Option<u64>) -> CaptureRecord {
    let mut study = Study::new(1 << 30);
    study.had_losses();
    events.iter().for_each(|event| study.event(event, &names()));
    study.finish(end_ns)
}

/// Reads of a constant length at a constant pace, with a pause before one of them; of some the end is missing.
fn reads(
    (count, took_ns, each_ns): (u64, u64, u64),
    pause: (u64, u64),
    is_lost: impl Fn(u64) -> bool,
) -> Vec<Event> {
    let mut events: Vec<Event> = (0..count)
        .flat_map(|number| {
            let paused_ns = if number < pause.0 { 0 } else { pause.1 };
            let (start_ns, sector) = (paused_ns + number * each_ns, number * 7919 % 100_000 * 8);
            let ends = (!is_lost(number)).then_some((Action::Complete, start_ns + took_ns));
            let begins = [(Action::Queue, start_ns), (Action::Issue, start_ns + 1)];
            let steps = begins.into_iter().chain(ends);
            steps.map(move |(action, ns)| at(action, ns, Class::Read, sector, 8))
        })
        .collect();
    events.sort_by_key(|event| event.time_ns);
    events
}

/// One at a time and four at once: a few ends that are missing make neither deeper, nor busier.
#[test]
fn a_few_missing_ends_do_not_make_a_trace_of_others_deeper() {
    for (each_ns, depth) in [(60_000, 1), (12_500, 4)] {
        let seen = |is_lost: &dyn Fn(u64) -> bool| {
            study_of_others(&reads((6000, 50_000, each_ns), (0, 0), is_lost), None)
        };
        let whole = seen(&|_| false);
        assert_eq!((whole.depth_quantile(1.0), whole.faults.abandoned), (depth, 0));
        for every in [2000, 200] {
            let some = seen(&|number| number % every == every / 2);
            assert_eq!(some.faults.abandoned, 6000 / every);
            assert!(some.knows_depth());
            // Not by a nanosecond: all of these took equally long.
            assert_eq!(some.depth_ns, whole.depth_ns);
            let courses = [&some, &whole].map(|record| {
                record.series.iter().map(|of| (of.depth_mean, of.depth_max)).collect::<Vec<_>>()
            });
            assert_eq!(courses[0], courses[1]);
        }
        // The same places come again and again: the next end there is that of the newer one.
        for places in [40, 150] {
            let hot = |is_lost: &dyn Fn(u64) -> bool| {
                let events = reads((6000, 50_000, each_ns), (0, 0), is_lost);
                study_of_others(&elsewhere(events, |ns| ns / each_ns % places * 8), None)
            };
            let (some, whole) = (hot(&|number| number % 200 == 100), hot(&|_| false));
            assert_eq!((some.faults.abandoned, &some.depth_ns), (30, &whole.depth_ns));
            assert_eq!(some.class("read").and_then(|read| read.total_ns.max()), Some(50_000));
        }
    }
}

/// Each of these at the place that belongs to the time of its beginning.
fn elsewhere(mut events: Vec<Event>, place: impl Fn(u64) -> u64) -> Vec<Event> {
    let mut began = HashMap::new();
    for event in &mut events {
        let old = event.sector;
        if event.action == Action::Queue {
            began.insert(old, place(event.time_ns));
        }
        event.sector = began[&old];
    }
    events
}

/// As a database commits, one request after the other, most of them at the start of its file or of its journal; or all at one place.
#[test]
fn a_lost_end_at_a_place_that_comes_again_at_once_shifts_no_other() {
    let database = |ns: u64| [0, ns, 0, 8, ns][(ns / 100_000 % 5) as usize];
    let places: [&dyn Fn(u64) -> u64; 2] = [&database, &|_| 0];
    for place in places {
        for lost in [&[5000][..], &[5000, 5003], &[5000, 5003, 5050, 5500]] {
            let pause = (5001, 5_000_000_000);
            let events = |lost: &[u64]| {
                elsewhere(reads((8000, 80_000, 100_000), pause, |n| lost.contains(&n)), place)
            };
            let (some, whole) =
                (study_of_others(&events(lost), None), study_of_others(&events(&[]), None));
            assert_eq!(some.faults.abandoned, lost.len() as u64);
            assert_eq!(some.depth_ns, whole.depth_ns);
            let longest = some.class("read").and_then(|read| read.total_ns.max());
            assert_eq!(longest, Some(80_000));
        }
    }
}

/// Hardly any request is a read: that the end of one is missing shows by the writes that overtake it, and one that starves among them
/// is none of these.
#[test]
fn a_lost_end_of_a_class_that_is_rare_does_not_stay_in_flight() {
    for (each_ns, every) in [(110_000, 200), (50_000, 200), (110_000, 4000)] {
        let mixed = |lost: u64, late_ns: Option<u64>| {
            let mut events = reads((8000, 100_000, each_ns), (0, 0), |number| number == lost);
            let mut is_read = std::collections::HashSet::new();
            for event in &mut events {
                if event.action == Action::Queue && event.time_ns / each_ns % every == 100 {
                    is_read.insert(event.sector);
                }
                event.class =
                    if is_read.contains(&event.sector) { Class::Read } else { Class::Write };
            }
            if let Some(late_ns) = late_ns {
                let sector = lost * 7919 % 100_000 * 8;
                events.push(at(Action::Complete, lost * each_ns + late_ns, Class::Read, sector, 8));
                events.sort_by_key(|event| event.time_ns);
            }
            study_of_others(&events, None)
        };
        let whole = mixed(8000, None);
        for lost in [4100, 100] {
            let (some, starves) = (mixed(lost, None), mixed(lost, Some(300_000_000)));
            assert_eq!((some.faults.abandoned, &some.depth_ns), (1, &whole.depth_ns));
            let area = |record: &CaptureRecord| -> u64 {
                (0u64..).zip(&record.depth_ns).map(|(depth, ns)| depth * ns).sum()
            };
            assert_eq!(starves.faults.abandoned, 0);
            assert_eq!(area(&starves), area(&whole) + 300_000_000 - 100_000);
        }
    }
}

/// Nothing is missing, and many wait at one place: one after the other, also when there was only one at first, or they get slower.
#[test]
fn a_queue_at_one_place_is_no_row_of_lost_ends() {
    let steady = |_: u64| 100_000;
    let slower = |number: u64| 100_000 + number * 100;
    let slow = |number: u64| if number < 3000 { 100_000 } else { 1_000_000 };
    let takes: [&dyn Fn(u64) -> u64; 3] = [&steady, &slower, &slow];
    let of = |take_ns| [2, 3, 8].map(|depth| [(take_ns, depth, 0), (take_ns, depth, 1000)]);
    for (take_ns, depth, alone) in takes.into_iter().flat_map(of).flatten() {
        let (mut events, mut ended) = (Vec::new(), vec![0u64]);
        for number in 0..6000u64 {
            let depth = if number < alone { 1 } else { depth };
            let start_ns = ended[ended.len().saturating_sub(depth)] + 1000;
            let end_ns = ended[ended.len() - 1].max(start_ns) + take_ns(number);
            let steps =
                [(Action::Queue, start_ns), (Action::Issue, start_ns), (Action::Complete, end_ns)];
            events.extend(steps.map(|(action, ns)| at(action, ns, Class::Read, 64, 8)));
            ended.push(end_ns);
        }
        events.sort_by_key(|event| event.time_ns);
        let record = study_of_others(&events, None);
        assert_eq!((record.faults.abandoned, record.depth_quantile(1.0)), (0, depth as u64));
    }
}

/// All ends are on the processor whose file is missing.
#[test]
fn without_any_end_nobody_knows_the_depth() {
    let record = study_of_others(&reads((6000, 50_000, 60_000), (0, 0), |_| true), None);
    assert!(record.faults.abandoned == 6000 && !record.knows_depth(), "{:?}", record.faults);
}

/// The last end before a pause, and the last one of all: nothing is in flight in the pause, nor after the end.
#[test]
fn a_pause_after_a_lost_end_is_idle() {
    const PAUSE_NS: u64 = 5_000_000_000;
    let events =
        |is_lost: &dyn Fn(u64) -> bool| reads((4000, 52_000, 100_000), (2000, PAUSE_NS), is_lost);
    let end_ns = Some(2 * PAUSE_NS);
    let lost = study_of_others(&events(&|number| number == 1999 || number == 3999), end_ns);
    assert_eq!((lost.faults.abandoned, lost.depth_quantile(1.0)), (2, 1));
    assert_eq!(lost.depth_ns[1], 4000 * 52_000);
    let idle = lost.series.iter().filter(|interval| interval.reads == 0);
    assert!(idle.clone().count() > 90 && idle.clone().all(|interval| interval.depth_max == 0));
    // What is asked of it ends with the last sign of it.
    let whole = study_of_others(&events(&|_| false), end_ns);
    assert_eq!((whole.first_ns, whole.last_ns), (0, PAUSE_NS + 3999 * 100_000 + 52_000));
    assert_eq!(lost.last_ns, whole.last_ns - 52_000);
    // Where the trace tells its losses and there are none, the last one may be on its way: a device that stands still is busy.
    let own = |events: &[Event]| {
        let mut study = Study::new(1 << 30);
        events.iter().for_each(|event| study.event(event, &names()));
        study.finish(end_ns)
    };
    let still = own(&events(&|number| number == 3999));
    assert_eq!((still.faults.abandoned, still.series.last().map(|i| i.depth_max)), (0, Some(1)));
}

/// One waits while ten thousand others pass it, and ends at last: it was in flight all the time, and the others are as deep as they are.
#[test]
fn one_that_starves_counts_and_spoils_nothing() {
    let others = reads((10_000, 50_000, 12_500), (0, 0), |_| false);
    let (start_ns, end_ns, sector) = (1_000_010, 120_000_010, 7_000_001);
    let starves = [(Action::Queue, start_ns), (Action::Complete, end_ns)]
        .map(|(action, time_ns)| at(action, time_ns, Class::Read, sector, 8));
    let mut events = [&others[..], &starves].concat();
    events.sort_by_key(|event| event.time_ns);
    let (alone, both) = (study_of_others(&others, None), study_of_others(&events, None));
    assert_eq!((both.faults.abandoned, both.depth_quantile(1.0)), (0, 5));
    let area = |record: &CaptureRecord| -> u64 {
        (0u64..).zip(&record.depth_ns).map(|(depth, ns)| depth * ns).sum()
    };
    assert_eq!(area(&both), area(&alone) + end_ns - start_ns);
    // Its end is missing: it counts for as long as the others took.
    events.retain(|event| event.sector != sector || event.action != Action::Complete);
    let lost = study_of_others(&events, None);
    assert_eq!((lost.faults.abandoned, area(&lost)), (1, area(&alone) + 50_000));
}

/// Discards of gigabytes and flushes are slow, and as many reads as there are may pass them.
#[test]
fn a_discard_that_still_waits_is_not_lost() {
    let mut events = reads((6000, 50_000, 60_000), (0, 0), |_| false);
    events.insert(2, at(Action::Queue, 10, Class::Discard, 1 << 22, 1 << 20));
    assert_eq!(study_of_others(&events, None).faults.abandoned, 0);
    events[2].class = Class::Read;
    assert_eq!(study_of_others(&events, None).faults.abandoned, 1);
}

#[test]
fn without_arrivals_the_drivers_requests_count() {
    let mut events = serial(&[(Class::Read, 0, 8), (Class::Write, 800, 16)]);
    events.retain(|event| event.action != Action::Queue);
    let record = study(&events, 1 << 20);
    assert!(record.is_of_driver);
    assert_eq!((record.requests(), record.issued), (2, 2));
    let write = record.class("write").expect("a write");
    assert_eq!(write.service_ns.mean(), Some(90_000.0));
    assert!(write.total_ns.mean().is_none());
}

/// A driver that is busy gives a request back after it has begun with it, then again before it has begun: one request all the same,
/// whether or not its arrival shows, and its time with the driver is that of the last time.
#[test]
fn a_request_that_is_given_back_is_one() {
    let steps = [
        (Action::Queue, 0),
        (Action::Issue, 10),
        (Action::Requeue, 20),
        (Action::Requeue, 30),
        (Action::Requeue, 40),
        (Action::Issue, 50),
        (Action::Complete, 90),
        // The next one comes to its end at once.
        (Action::Queue, 100),
        (Action::Issue, 110),
        (Action::Complete, 150),
    ];
    let all = steps.map(|(action, time_ns)| at(action, time_ns, Class::Read, 64, 8));
    let record = study(&all, 1 << 20);
    let read = record.class("read").expect("reads");
    assert_eq!((record.requeues, record.issued, read.count), (3, 2, 2));
    let of = |h: &Histogram| (h.count(), h.sum());
    let found = [&read.total_ns, &read.wait_ns, &read.service_ns].map(of);
    assert_eq!(found, [(2, 140), (2, 60), (2, 80)]);
    assert_eq!(record.faults.abandoned, 0);
    let record =
        study(&all.into_iter().filter(|e| e.action != Action::Queue).collect::<Vec<_>>(), 0);
    let read = record.class("read").expect("reads");
    assert_eq!((record.is_of_driver, record.requeues, record.issued), (true, 3, 2));
    assert_eq!((read.count, read.bytes, of(&read.service_ns)), (2, 8192, (2, 80)));
    assert_eq!(record.depth_ns[1], 10 + 40 + 40, "it is not with the driver between");
}

/// The rarest size counts like the most frequent one: the list of those that are told one by one ends, the distribution does not.
#[test]
fn no_size_is_too_rare() {
    let requests: Vec<_> = (1..=200).map(|n| (Class::Read, n * 4096, n as u32 * 8)).collect();
    let record = study(&serial(&requests), 0);
    let read = record.class("read").expect("reads");
    assert_eq!((read.sizes.len(), read.all_sizes.count()), (64, 200));
    assert_eq!((read.all_sizes.min(), read.all_sizes.max()), (Some(4096), Some(800 << 10)));
    assert_eq!(read.all_sizes.sum(), u128::from(read.bytes));
}

/// A stream in requests of 64 KiB among reads of 4 KiB anywhere; its first one follows none.
#[test]
fn sizes_of_streams_are_counted_apart() {
    let pair = |n: u64| [(Class::Read, (1 << 22) + n * 7919 * 8, 8), (Class::Read, n * 128, 128)];
    let requests: Vec<_> = (0..100).flat_map(pair).collect();
    let record = study(&serial(&requests), 0);
    let read = record.class("read").expect("reads");
    assert_eq!((read.follow, &read.follow_sizes[..]), (99, &[(65_536, 99)][..]));
    assert_eq!((read.all_follow_sizes.count(), read.all_follow_sizes.sum()), (99, 99 * 65_536));
}

/// Two streams, each with hundreds of requests at random between two of its own, after more streams than there is room for. That of the
/// class of these is known from its second request on, which comes soon.
#[test]
fn a_stream_is_seen_among_many_requests_at_random() {
    let random = |number: u64| (Class::Read, (1 << 32) + number * 7919 * 8, 8);
    let old = (1..81).flat_map(|number| [number << 20, (number << 20) + 8]);
    let mut requests: Vec<_> = old.map(|sector| (Class::Read, sector, 8)).collect();
    for number in 0..50 {
        requests.extend([(Class::Write, number * 2048, 2048), (Class::Read, number * 128, 128)]);
        let between = if number == 0 { 5 } else { 200 };
        requests.extend((0..between).map(|each| random(number * 200 + each)));
    }
    let record = study(&serial(&requests), 0);
    let follow = |class| record.class(class).map(|class| class.follow);
    assert_eq!((follow("write"), follow("read")), (Some(49), Some(80 + 49)));
}

/// A database of 1 GiB at 3 TiB of a disk of 4 TiB, half of its requests in a tenth of it.
#[test]
fn what_is_used_of_a_large_device_is_seen_in_its_own_size() {
    let (begin, length) = (3u64 << 31, 1u64 << 21);
    let mut prng = Prng::new(3, 9);
    let place = |number: u64, prng: &mut Prng| {
        let part = if number.is_multiple_of(2) { length / 10 } else { length };
        begin + prng.below(part / 8) * 8
    };
    let requests: Vec<_> = (0..5000).map(|n| (Class::Read, place(n, &mut prng), 8)).collect();
    let record = study(&serial(&requests), 4 << 40);
    let rows: std::collections::BTreeSet<u32> = record.map.cells.iter().map(|c| c.1).collect();
    assert!(rows.len() >= 64, "{} rows", rows.len());
    let lowest = u64::from(*rows.first().expect("some")) * record.map.row_bytes;
    assert!(lowest.abs_diff(begin * 512) <= record.map.row_bytes);
    let places = &record.places;
    assert!(places.parts.len() > 512 && places.part_bytes <= 2 << 20, "{}", places.part_bytes);
    assert!(places.first_part_byte.abs_diff(begin * 512) <= places.part_bytes);
    let hot = places.hot_bytes(0.5);
    assert!(hot < 120 << 20, "half of it in {hot} bytes");
}

/// The same database on a device with more on it: a journal in the middle, which is asked as often as that, requests to the
/// superblock and to descriptors of groups. None of it makes the database coarse, or the memory grow.
#[test]
fn what_lies_far_apart_makes_nothing_coarse() {
    let (begin, length) = (9u64 << 28, 1u64 << 21);
    let mut prng = Prng::new(5, 2);
    let mut requests = vec![(Class::Read, 2, 8)];
    for number in 0..6000u64 {
        let hot = if number.is_multiple_of(10) { length } else { length / 10 };
        requests.push((Class::Read, begin + prng.below(hot / 8) * 8, 8));
        if number.is_multiple_of(3) {
            requests.push((Class::Write, (1 << 32) + number % 8000, 16));
        }
        if number.is_multiple_of(150) {
            requests.push((Class::Write, number * 1_400_000, 8));
        }
    }
    let record = study(&serial(&requests), 4 << 40);
    let places = &record.places;
    assert!(places.part_bytes <= 2 << 20, "parts of {}", places.part_bytes);
    let hot = places.hot_bytes(0.5);
    assert!(hot < 110 << 20, "half of it in {hot} bytes");
    // All that is left out is counted, and is little.
    let inside: u64 = places.parts.iter().sum();
    assert_eq!(inside + places.elsewhere, requests.len() as u64);
    assert!(places.elsewhere <= requests.len() as u64 / 100, "{}", places.elsewhere);
    let sum: u64 = places.areas.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(sum, places.part_bytes * places.parts.len() as u64);
    let (from, bytes, _) = places.fullest_area().expect("areas");
    assert!(from.abs_diff(begin * 512) <= places.part_bytes, "{from}");
    assert!(bytes >= (length - length / 20) * 512 && bytes <= 2 * length * 512, "{bytes}");
    // So it is in the picture.
    let rows: std::collections::BTreeSet<u32> = record.map.cells.iter().map(|c| c.1).collect();
    assert!(rows.len() >= 60, "{} rows of {}", rows.len(), record.map.row_bytes);
    let drawn: u64 = record.map.cells.iter().map(|(_, _, r, w)| u64::from(r + w)).sum();
    assert!(drawn >= inside, "{drawn} {inside}");
}

/// Requests all over a device are one area, and few ones are none at all.
#[test]
fn what_is_spread_is_one_area() {
    for (count, reach) in [(5u64, 1u64 << 32), (300, 1 << 33), (20_000, 1 << 21), (20_000, 1 << 33)]
    {
        let mut prng = Prng::new(count, reach);
        let requests: Vec<_> = (0..count).map(|_| (Class::Read, prng.below(reach), 8)).collect();
        let record = study(&serial(&requests), 0);
        let places = &record.places;
        assert_eq!((places.areas.len(), places.elsewhere), (1, 0), "{count} in {reach}");
        let drawn: u32 = record.map.cells.iter().map(|(_, _, r, w)| r + w).sum();
        assert_eq!((u64::from(drawn), places.parts.iter().sum()), (count, count));
        // As fine as so many parts and rows can be.
        let span = places.end_byte - places.first_byte;
        assert!(places.part_bytes <= (span / 500).max(4096), "{}", places.part_bytes);
        assert!(record.map.row_bytes <= (span / 32).max(4096), "{}", record.map.row_bytes);
    }
}

/// However many stretches come in whatever order, those that touch are one.
#[test]
fn stretches_against_brute_force() {
    for seed in 0..50 {
        let mut prng = Prng::new(seed, 6);
        let mut requests = Vec::new();
        let mut touched = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let (sector, sectors) = (prng.below(8000), 1 + prng.below(90) as u32);
            requests.push((Class::Write, sector, sectors));
            touched.extend(sector / 8..=(sector + u64::from(sectors) - 1) / 8);
        }
        let places = study(&serial(&requests), 0).places;
        assert_eq!((places.part_bytes, places.touched_parts), (4096, touched.len() as u64));
    }
}

/// In whatever order places come, each part has the requests that begin in it, and parts are no larger than their number asks for.
#[test]
fn parts_grow_with_what_is_used_on_either_side() {
    for seed in 0..50 {
        let mut prng = Prng::new(seed, 4);
        let reach = 1 << (4 + prng.below(40));
        let begin = prng.below(1 << 40);
        let requests: Vec<_> = (0..200)
            .map(|_| (Class::Write, begin + prng.below(reach), 1 + prng.below(300) as u32))
            .collect();
        let places = study(&serial(&requests), 0).places;
        let bytes = places.part_bytes;
        let mut expected = vec![0u64; places.parts.len()];
        for (_, sector, _) in &requests {
            expected[((sector * 512 - places.first_part_byte) / bytes) as usize] += 1;
        }
        assert_eq!(places.parts, expected);
        assert!(bytes.is_power_of_two() && places.first_part_byte.is_multiple_of(bytes));
        assert!(places.parts.len() <= 1024 && places.parts[0] > 0);
        let span = places.end_byte - places.first_byte;
        assert!(bytes == 4096 || span > 1022 * (bytes / 2), "{span} in parts of {bytes}");
    }
}

/// A large request counts for every part of the device that it reaches into, and for one request.
#[test]
fn what_is_touched_is_all_of_a_request() {
    // Parts of 4 KiB at first.
    let size_bytes = 4 << 20;
    let touched = |requests: &[(Class, u64, u32)]| {
        let places = study(&serial(requests), size_bytes).places;
        assert_eq!(places.parts.iter().sum::<u64>(), requests.len() as u64);
        (places.part_bytes, places.touched_bytes())
    };
    assert_eq!(touched(&[(Class::Write, 0, 8)]), (4096, 4096));
    assert_eq!(touched(&[(Class::Write, 0, 2048)]), (4096, 1 << 20));
    // Not from the start of a part, over the last one, and the same place again.
    let some = [(Class::Read, 4, 8), (Class::Read, 8188, 4), (Class::Read, 8, 8)];
    assert_eq!(touched(&some), (4096, 3 * 4096));
    // A little more than 1 GiB is more than 1024 parts of 1 MiB.
    let far = [(Class::Read, 0, 4096), (Class::Read, 2048 * 1024, 4096)];
    let places = study(&serial(&far), 0).places;
    assert_eq!((places.part_bytes, places.touched_bytes()), (2 << 20, 4 << 20));
}

#[test]
fn time_that_goes_back_is_told_and_harmless() {
    let mut events = serial(&[(Class::Read, 0, 8), (Class::Read, 64, 8)]);
    events[3].time_ns = 50_000;
    let record = study(&events, 0);
    assert_eq!(record.faults.late, 1);
    assert_eq!(record.faults.back_ns_max, 50_000);
    assert_eq!(record.requests(), 2);
}

/// Random requests in flight side by side; everything is counted a second time in the plainest way.
#[test]
fn random_traces_against_brute_force() {
    for seed in 0..20 {
        let mut prng = Prng::new(seed, 1);
        let mut events = Vec::new();
        let mut spans = Vec::new();
        for number in 0..300u64 {
            let class = if prng.below(3) == 0 { Class::Write } else { Class::Read };
            let start_ns = prng.below(2_000_000_000);
            let took_ns = 1 + prng.below(20_000_000);
            // Places that do not overlap: what ends belongs to one request.
            let (sector, sectors) = (number * 4096 + prng.below(3000), 1 + prng.below(64) as u32);
            let issue_ns = start_ns + prng.below(took_ns);
            let steps = [
                (Action::Queue, start_ns),
                (Action::Issue, issue_ns),
                (Action::Complete, start_ns + took_ns),
            ];
            events
                .extend(steps.map(|(action, time_ns)| at(action, time_ns, class, sector, sectors)));
            spans.push((class, start_ns, start_ns + took_ns, sector, sectors));
        }
        events.sort_by_key(|event| (event.time_ns, event.action));
        let record = study(&events, 300 * 4096 * SECTOR_BYTES);
        let first_ns = events[0].time_ns;
        let last_ns = events[events.len() - 1].time_ns;
        assert_eq!(record.window_ns, last_ns - first_ns);
        for word in [Class::Read, Class::Write] {
            let own: Vec<_> = spans.iter().filter(|s| s.0 == word).collect();
            let class = record.class(word.word()).expect("some");
            assert_eq!(class.count, own.len() as u64);
            let sum: u64 = own.iter().map(|s| s.2 - s.1).sum();
            assert_eq!(class.total_ns.sum(), u128::from(sum));
            let bytes: u64 = own.iter().map(|s| u64::from(s.4) * SECTOR_BYTES).sum();
            assert_eq!(class.bytes, bytes);
        }
        // The area under the depth is the sum of all times in flight.
        let area: u64 = spans.iter().map(|s| s.2 - s.1).sum();
        let weighted: u64 = (0u64..).zip(&record.depth_ns).map(|(d, ns)| d * ns).sum();
        assert_eq!(weighted, area);
        let course: f64 = record.series.iter().map(|i| i.depth_mean * i.length_ns as f64).sum();
        assert!((course - area as f64).abs() < area as f64 * 1e-9, "{course} {area}");
        let mut starts: Vec<u64> = spans.iter().map(|s| s.1).collect();
        starts.sort_unstable();
        let gaps: u64 = starts.windows(2).map(|w| w[1] - w[0]).sum();
        assert_eq!(record.arrivals.gap_ns.sum(), u128::from(gaps));
        check_dispersion(&record, &starts);
    }
}

/// Of the whole windows between the first arrival, which begins them, and the last.
fn check_dispersion(record: &CaptureRecord, starts: &[u64]) {
    let (first_ns, last_ns) = (starts[0], starts[starts.len() - 1]);
    for (length_ns, index, windows) in &record.arrivals.dispersion {
        assert_eq!(*windows, (last_ns - first_ns) / length_ns);
        let mut counts = vec![0f64; *windows as usize];
        for start in &starts[1..] {
            if let Some(count) = counts.get_mut(((start - first_ns) / length_ns) as usize) {
                *count += 1.0;
            }
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance =
            counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / (counts.len() - 1) as f64;
        assert!(
            (index - variance / mean).abs() < 1e-6 * index.max(1.0),
            "{index} {}",
            variance / mean
        );
    }
}

/// How long nothing was asked before the load and behind it does not make it come in bursts.
#[test]
fn idle_ends_are_no_bursts() {
    let mut prng = Prng::new(5, 1);
    let mut arrivals_ns: Vec<u64> = (0..2000).map(|_| prng.below(4_000_000_000)).collect();
    arrivals_ns.sort_unstable();
    let of = |before_ns: u64, behind_ns: u64| {
        let moved = arrivals_ns.iter().map(|ns| before_ns + ns);
        let mut events: Vec<Event> =
            moved.map(|ns| at(Action::Queue, ns, Class::Read, ns / 512 * 8, 8)).collect();
        // Something else happens long before and long after.
        events.insert(0, at(Action::Complete, 0, Class::Read, 1 << 40, 8));
        let last_ns = before_ns + 4_000_000_000 + behind_ns;
        events.push(at(Action::Complete, last_ns, Class::Read, 1 << 40, 8));
        study(&events, 0).arrivals.dispersion
    };
    let close = of(1, 1);
    assert_eq!(of(60_000_000_000, 90_000_000_000), close);
    let (_, index, windows) = close[0];
    assert!((0.7..1.4).contains(&index) && windows > 300, "by chance: {index} of {windows}");
}

#[test]
fn long_traces_become_coarser_and_lose_nothing() {
    let hour_ns = 3_600_000_000_000u64;
    let mut events = Vec::new();
    for number in 0..2000u64 {
        let time_ns = number * hour_ns / 2000;
        let sector = number * 1_000_003 % (1 << 34);
        events.push(at(Action::Queue, time_ns, Class::Write, sector, 8));
        events.push(at(Action::BioComplete, time_ns + 5_000, Class::Write, sector, 8));
    }
    let record = study(&events, 0);
    assert!(record.series.len() <= 512);
    assert_eq!(record.series.iter().map(|i| i.writes).sum::<u64>(), 2000);
    assert_eq!(record.places.parts.iter().sum::<u64>(), 2000);
    assert_eq!(record.map.cells.iter().map(|(_, _, _, w)| w).sum::<u32>(), 2000);
    assert!(record.map.row_bytes * 128 >= record.places.end_byte / 2);
    let columns = record.window_ns / record.map.column_ns;
    assert!(record.map.cells.iter().all(|(c, r, ..)| u64::from(*c) <= columns && *r < 128));
}

#[test]
fn nothing_at_all_is_nothing() {
    let record = Study::new(0).finish(None);
    assert_eq!((record.requests(), record.events, record.window_ns), (0, 0, 0));
}
