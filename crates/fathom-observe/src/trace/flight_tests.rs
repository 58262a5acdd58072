//! Steps of which it is known what they belong to.

use super::*;

fn step(action: Action, time_ns: u64, sector: u64, sectors: u32) -> Event {
    Event { sector, sectors, class: Class::Read, ..Event::new(action, time_ns) }
}

fn ended(steps: &[Event]) -> Vec<(Level, u64, u64, Option<u64>, u64)> {
    let mut flight = Flight::default();
    let mut done = Vec::new();
    steps.iter().for_each(|event| flight.step(event, &mut done));
    done.iter().map(|d| (d.level, d.sector, d.start_ns, d.issue_ns, d.end_ns)).collect()
}

use Action::{BioComplete, Complete, Issue, Queue, Requeue};
use Level::{Arrived, Issued};

#[test]
fn merged_requests_end_together() {
    let found = ended(&[
        step(Queue, 1, 100, 8),
        step(Queue, 2, 108, 8),
        step(Issue, 5, 100, 16),
        step(Complete, 9, 100, 16),
    ]);
    let expected =
        [(Issued, 100, 5, None, 9), (Arrived, 100, 1, Some(5), 9), (Arrived, 108, 2, Some(5), 9)];
    assert_eq!(found, expected);
}

#[test]
fn a_cut_request_ends_with_its_last_part() {
    let found = ended(&[
        step(Queue, 1, 0, 32),
        step(Issue, 2, 0, 16),
        step(Issue, 3, 16, 16),
        step(Complete, 8, 16, 16),
        step(Complete, 11, 0, 16),
    ]);
    let expected =
        [(Issued, 16, 3, None, 8), (Issued, 0, 2, None, 11), (Arrived, 0, 1, Some(2), 11)];
    assert_eq!(found, expected);
}

#[test]
fn of_two_on_the_same_place_the_older_ends_first() {
    let found = ended(&[
        step(Queue, 1, 8, 8),
        step(Queue, 2, 8, 8),
        step(Issue, 3, 8, 8),
        step(Issue, 4, 8, 8),
        step(Complete, 5, 8, 8),
        step(Complete, 6, 8, 8),
    ]);
    let arrived: Vec<_> = found.iter().filter(|d| d.0 == Arrived).collect();
    assert_eq!(arrived, [&(Arrived, 8, 1, Some(3), 5), &(Arrived, 8, 2, Some(4), 6)]);
}

#[test]
fn of_several_sizes_at_one_place_each_ends_with_its_own() {
    let found = ended(&[
        step(Queue, 1, 0, 8),
        step(Queue, 2, 0, 128),
        step(Issue, 3, 0, 128),
        step(Issue, 4, 0, 8),
        step(Complete, 5, 0, 128),
        step(Complete, 9, 0, 8),
    ]);
    let expected = [
        (Issued, 0, 3, None, 5),
        (Arrived, 0, 2, Some(3), 5),
        (Issued, 0, 4, None, 9),
        (Arrived, 0, 1, Some(4), 9),
    ];
    assert_eq!(found, expected);
}

#[test]
fn parts_errors_requeues_and_devices_without_queues() {
    // Ended in two parts.
    let parts = [step(Issue, 1, 0, 16), step(Complete, 2, 0, 8), step(Complete, 4, 8, 8)];
    assert_eq!(ended(&parts), [(Issued, 0, 1, None, 4)]);
    let failed = Event { error: -5, ..step(Complete, 3, 0, 0) };
    assert_eq!(ended(&[step(Issue, 1, 0, 16), failed]), [(Issued, 0, 1, None, 3)]);
    let back = [step(Issue, 1, 0, 8), step(Requeue, 2, 0, 8), step(Issue, 7, 0, 8)];
    assert_eq!(ended(&[&back[..], &[step(Complete, 9, 0, 8)]].concat()), [(Issued, 0, 7, None, 9)]);
    // A driver that stays busy gives it back again and again before it has begun: once issued, once ended.
    let again = [&back[..2], &[step(Requeue, 3, 0, 8), step(Requeue, 5, 0, 8)], &back[2..]];
    let mut flight = Flight::default();
    let mut done = Vec::new();
    let all = [&[step(Queue, 0, 0, 8)], &again.concat()[..], &[step(Complete, 9, 0, 8)]];
    all.concat().iter().for_each(|event| flight.step(event, &mut done));
    let times: Vec<_> = done.iter().map(|d| (d.level, d.start_ns, d.issue_ns)).collect();
    assert_eq!(times, [(Issued, 7, None), (Arrived, 0, Some(7))]);
    assert_eq!((flight.given_back(), flight.depth()), (1, (0, 0)));
    // What waits between being given back and issued anew has waited, and was not with the driver.
    let arrived = [&[step(Queue, 0, 0, 8)], &back[..], &[step(Complete, 9, 0, 8)]].concat();
    assert_eq!(ended(&arrived), [(Issued, 0, 7, None, 9), (Arrived, 0, 0, Some(7), 9)]);
    // Half of it ended, the rest was given back.
    let rest = [
        step(Issue, 1, 0, 16),
        step(Complete, 2, 0, 8),
        step(Requeue, 3, 8, 8),
        step(Issue, 6, 8, 8),
        step(Complete, 9, 8, 8),
    ];
    assert_eq!(ended(&rest), [(Issued, 8, 6, None, 9)]);
    let bio = [step(Queue, 1, 0, 8), step(BioComplete, 4, 0, 8)];
    assert_eq!(ended(&bio), [(Arrived, 0, 1, None, 4)]);
    // Ends of what began before the trace.
    assert_eq!(ended(&[step(Complete, 4, 0, 8)]), []);
}

#[test]
fn one_whose_end_was_lost_makes_no_later_one_at_its_place_long() {
    let mut flight = Flight::default();
    flight.had_losses();
    let mut done = Vec::new();
    let mut longest = |lost_at: u64, overtaken: u64| {
        flight.step(&step(Issue, lost_at, 0, 8), &mut done);
        for number in 1..=overtaken {
            flight.step(&step(Issue, lost_at + number, number * 8, 8), &mut done);
            flight.step(&step(Complete, lost_at + number + 5, number * 8, 8), &mut done);
        }
        let again_ns = lost_at + overtaken + 1000;
        flight.step(&step(Issue, again_ns, 0, 8), &mut done);
        flight.step(&step(Complete, again_ns + 7, 0, 8), &mut done);
        let longest = done.iter().map(|d| d.end_ns - d.start_ns).max();
        done.clear();
        (longest, flight.abandoned())
    };
    assert_eq!(longest(0, 300), (Some(7), 1));
    // Few have overtaken it, and it may only be slow: the newer one ends as one of that place does, and the older one waits.
    assert_eq!(longest(1_000_000, 20), (Some(7), 1));
}

#[test]
fn one_whose_end_was_lost_does_not_stay_in_flight() {
    let mut flight = Flight::default();
    flight.step(&step(Queue, 0, 7_000_000, 8), &mut Vec::new());
    let mut go_on = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let time_ns = number * 10_000_000;
            flight.step(&step(Queue, time_ns, number * 8, 8), &mut Vec::new());
            flight.step(&step(Complete, time_ns + 9, number * 8, 8), &mut Vec::new());
        }
        (flight.depth().0, flight.abandoned())
    };
    assert_eq!(go_on(0..2900), (1, 0), "it may only starve");
    assert_eq!(go_on(2900..4000), (0, 1));
}

/// Events are lost while two are in flight: the end of one of them comes after all, and is its own.
#[test]
fn what_ends_after_a_loss_was_in_flight() {
    let (mut flight, mut done) = (Flight::default(), Vec::new());
    flight.step(&step(Queue, 10, 0, 8), &mut done);
    flight.step(&step(Queue, 20, 8, 8), &mut done);
    flight.had_losses();
    flight.leave_before(30);
    assert_eq!(flight.in_flight(), 0);
    flight.step(&step(Complete, 50, 8, 8), &mut done);
    let times: Vec<_> = done.iter().map(|done| (done.start_ns, done.end_ns)).collect();
    assert_eq!((times, flight.finish(60), flight.abandoned()), (vec![(20, 50)], 1, 0));
    let back: i64 = flight.corrections().iter().map(|(_, by)| by).sum();
    assert_eq!(back, -1, "one of both is not back");
}

#[test]
fn lost_ends_do_not_fill_the_memory() {
    let mut flight = Flight::default();
    for number in 0..2 * WAITING_MAX as u64 + 10 {
        flight.step(&step(Queue, number, number * 8, 8), &mut Vec::new());
    }
    assert!(flight.depth().0 <= WAITING_MAX && flight.abandoned() > 0);
}

/// Requests at one place, or at many, whose ends never come: four times as many take four times as long, and not sixteen times.
#[test]
fn what_never_ends_takes_no_longer_the_more_it_is() {
    use std::time::Instant;
    let took = |count: u64, places: u64, has_losses: bool| {
        let mut flight = Flight::default();
        let mut done = Vec::new();
        if has_losses {
            flight.had_losses();
        }
        let begun = Instant::now();
        for number in 0..count {
            let sector = number % places * 8;
            flight.step(&step(Queue, 10 * number, sector, 8), &mut done);
            flight.step(&step(Issue, 10 * number + 1, sector, 8), &mut done);
            // Something else goes on.
            flight.step(&step(Queue, 10 * number + 2, 1 << 40, 8), &mut done);
            flight.step(&step(Complete, 10 * number + 5, 1 << 40, 8), &mut done);
        }
        begun.elapsed().as_secs_f64()
    };
    for places in [1, u64::MAX] {
        for has_losses in [false, true] {
            // The least of each side, in turn, until it shows: whatever else runs only makes them longer.
            let (mut few, mut many) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..20 {
                few = few.min(took(5_000, places, has_losses));
                many = many.min(took(20_000, places, has_losses));
                if many < 8.0 * few {
                    break;
                }
            }
            assert!(many < 8.0 * few, "{places} {has_losses}: {few} {many}");
        }
    }
}

/// Two at one place: the older one was given back, and is issued again while the driver has the newer one.
#[test]
fn what_was_given_back_is_issued_again_beside_a_newer_one() {
    let found = ended(&[
        step(Queue, 1, 8, 8),
        step(Issue, 2, 8, 8),
        step(Queue, 3, 8, 8),
        step(Issue, 4, 8, 8),
        step(Requeue, 5, 8, 8),
        step(Issue, 6, 8, 8),
        step(Complete, 7, 8, 8),
        step(Complete, 8, 8, 8),
    ]);
    let arrived: Vec<_> = found.iter().filter(|d| d.0 == Arrived).collect();
    assert_eq!(arrived, [&(Arrived, 8, 1, Some(6), 7), &(Arrived, 8, 3, Some(4), 8)]);
}
