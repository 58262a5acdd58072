//! Whatever is written is read; whatever is cut off or damaged is told and never invented.

use super::codec::{EXTRA, put, unsigned};
use super::*;
use crate::trace::event::{Action, Class, Event, Flags, Names};
use fathom_base::prng::Prng;

fn random_event(prng: &mut Prng, names: &mut Names, after_ns: u64) -> Event {
    let mut bits = |bits: u32| prng.next_u64() >> (64 - bits);
    let action = Action::ALL[bits(8) as usize % Action::ALL.len()];
    let width = 1 + bits(5) as u32 % 20;
    let is_as_usual = bits(2) > 0;
    let since_ns = 1 + bits(1 + width);
    let mut event = Event::new(action, after_ns + since_ns);
    event.sector = bits(45);
    event.sectors = if is_as_usual { 8 } else { bits(width) as u32 };
    event.class = Class::ALL[if is_as_usual { 0 } else { bits(8) as usize % 5 }];
    event.flags = Flags(if is_as_usual { 0 } else { bits(5) as u8 });
    event.cpu = bits(3) as u16 * 31;
    event.process = if is_as_usual { 77 } else { bits(22) as u32 };
    event.error = if bits(3) == 0 { -(bits(7) as i32) } else { 0 };
    if matches!(action, Action::Split | Action::Remap) {
        event.other_sector = bits(45);
    }
    event.name = names.number_of(&format!("name {}", if is_as_usual { 1 } else { bits(4) }));
    event
}

fn written(count: usize) -> (Vec<u8>, Vec<Event>, Names, Head) {
    let mut prng = Prng::new(7, 0);
    let mut names = Names::default();
    let head = Head { device: "sda".into(), size_bytes: 1 << 40, ..Head::default() };
    let mut writer = Writer::new(Vec::new(), &head).expect("memory");
    let mut events = Vec::new();
    for number in 0..count {
        let after_ns = events.last().map_or(0, |event: &Event| event.time_ns);
        let event = random_event(&mut prng, &mut names, after_ns);
        writer.push(&event, &names).expect("memory");
        if number == 5 {
            writer.lost(3);
        }
        events.push(event);
    }
    if count > 1 {
        writer.came_online(&[2, 300]);
        writer.ended(1 << 40);
    }
    let (bytes, totals) = writer.finish(&names).expect("memory");
    assert_eq!((totals.events, totals.bytes), (count as u64, bytes.len() as u64));
    (bytes, events, names, head)
}

#[test]
fn what_was_written_is_read() {
    for count in [0, 1, 20_000] {
        let (bytes, events, names, head) = written(count);
        let mut reader = Reader::new(&bytes[..]).expect("ours");
        assert_eq!(reader.head(), &head);
        let read: Vec<Event> = reader.by_ref().map(|event| event.expect("whole")).collect();
        assert!(read == events, "{count}");
        assert!(!reader.is_cut_off());
        assert_eq!(reader.names().since(0), names.since(0));
        assert_eq!(reader.lost(), if count > 5 { 3 } else { 0 });
        assert_eq!(reader.came_online(), if count > 1 { &[2, 300][..] } else { &[] });
        assert_eq!(reader.ended_ns(), (count > 1).then_some(1 << 40));
    }
}

/// A file of form 1.
fn written_before(events: &[Event], names: &Names, head: &Head, end: &[u8]) -> Vec<u8> {
    let mut bytes = Writer::new(Vec::new(), head).expect("memory").sink().clone();
    bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
    let mut block = |kind, count, numbers, payload: &[u8]| {
        bytes.extend(block_head(kind, count, numbers, payload));
        bytes.extend(payload);
    };
    let mut all = Vec::new();
    for name in names.since(1) {
        put(&mut all, name.len() as u64);
        all.extend(name.as_bytes());
    }
    block(KIND_NAMES, names.since(1).len() as u32, (0, 0), &all);
    for some in events.chunks(1000) {
        let (mut payload, base_ns) = (Vec::new(), some[0].time_ns);
        let (mut time_ns, mut end_sector) = (base_ns, 0);
        for event in some {
            let has_other = matches!(event.action, Action::Split | Action::Remap);
            let extra = if has_other { EXTRA } else { 0 };
            payload.push(event.action as u8 | (event.class as u8) << 4 | extra);
            payload.push(event.flags.0 | if event.error != 0 { codec::ERROR } else { 0 });
            put(&mut payload, unsigned(event.time_ns.wrapping_sub(time_ns) as i64));
            put(&mut payload, unsigned(event.sector.wrapping_sub(end_sector) as i64));
            for number in [event.sectors, u32::from(event.cpu), event.process, event.name] {
                put(&mut payload, u64::from(number));
            }
            if has_other {
                let since = event.other_sector.wrapping_sub(event.sector);
                put(&mut payload, unsigned(since as i64));
            }
            if event.error != 0 {
                put(&mut payload, unsigned(i64::from(event.error)));
            }
            (time_ns, end_sector) = (event.time_ns, event.end_sector());
        }
        block(KIND_EVENTS, some.len() as u32, (1, base_ns), &payload);
    }
    let mut sums = Vec::new();
    put(&mut sums, events.len() as u64);
    sums.extend(end);
    block(KIND_END, 0, (0, 0), &sums);
    bytes
}

#[test]
fn files_of_the_first_form_are_read() {
    let (_, events, names, head) = written(20_000);
    // Lost ones; the oldest have no more, then came processors, then the end.
    for (end, came, ended_ns) in [
        (&[20][..], &[][..], None),
        (&[20, 2, 2, 3], &[2, 3], None),
        (&[20, 1, 9, 99], &[9], Some(99)),
    ] {
        let bytes = written_before(&events, &names, &head, end);
        let mut reader = Reader::new(&bytes[..]).expect("ours");
        let read: Vec<Event> = reader.by_ref().map(|event| event.expect("whole")).collect();
        assert!(read == events && !reader.is_cut_off() && !reader.has_more());
        assert_eq!(reader.names().since(0), names.since(0));
        assert_eq!((reader.lost(), reader.came_online()), (20, came));
        assert_eq!(reader.ended_ns(), ended_ns);
        // The same events take fewer bytes now.
        let now = written(20_000).0.len();
        assert!(now < bytes.len(), "{now} of {}", bytes.len());
    }
}

/// What comes of one processor after a round of the others is handed out in its time; what is of another device is not.
#[test]
fn rounds_are_put_in_order_by_who_reads_them() {
    let mut writer = Writer::new(Vec::new(), &Head::default()).expect("memory");
    let (mut shelves, names) = (Shelves::default(), Names::default());
    let add = |shelves: &mut Shelves, cpu: u16, times: &[u64]| {
        for time_ns in times {
            let event = Event { cpu, ..Event::new(Action::Issue, *time_ns) };
            shelves.of(u32::from(cpu)).add(&shelf::Step::of(&event));
        }
    };
    let until = |whole_ns, own_ns| Until { whole_ns, own_ns };
    add(&mut shelves, 1, &[10, 30, 50]);
    add(&mut shelves, 0, &[20, 21, 60]);
    writer.lost(4);
    writer.round(&mut shelves, &names, until(40, u64::MAX)).expect("memory");
    // That of an interrupt comes before its time.
    add(&mut shelves, 7, &[45, 44, 70]);
    writer.round(&mut shelves, &names, until(65, 65)).expect("memory");
    let so_far = writer.sink().clone();
    writer.round(&mut shelves, &names, until(u64::MAX, 65)).expect("memory");
    let (bytes, totals) = writer.finish(&names).expect("memory");
    assert_eq!((totals.events, totals.lost), (9, 4));
    let read = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes).expect("ours");
        let (mut times, mut gaps) = (Vec::new(), Vec::new());
        while let Some(event) = reader.next() {
            times.push(event.expect("whole").time_ns);
            gaps.push(reader.take_gap());
        }
        (times, gaps.iter().position(|is_gap| *is_gap), reader.is_cut_off())
    };
    assert_eq!(read(&bytes), (vec![10, 20, 21, 30, 44, 45, 50, 60], Some(4), false));
    // Killed: what may come before others that are not there is left out.
    assert_eq!(read(&so_far), (vec![10, 20, 21, 30, 44, 45, 50, 60], Some(4), true));
    let marker = BLOCK_HEAD_BYTES + 8;
    let mut cut = Reader::new(&so_far[..so_far.len() - marker]).expect("ours");
    assert_eq!(cut.by_ref().filter(Result::is_ok).count(), 4);
    assert_eq!(cut.in_no_round(), 5, "two of the first round, and all of the second");
    assert_eq!(read(&so_far[..so_far.len() - marker]), (vec![10, 20, 21, 30], None, true));
}

/// Whoever wrote it: no count is too large for it.
#[test]
fn more_lost_events_than_there_can_be_are_a_count() {
    let mut bytes = Writer::new(Vec::new(), &Head::default()).expect("memory").sink().clone();
    for lost in [u64::MAX, 7] {
        bytes.extend(block_head(KIND_ROUND, 0, (lost, 5), &[]));
    }
    let mut reader = Reader::new(&bytes[..]).expect("the head is whole");
    assert_eq!((reader.by_ref().count(), reader.lost()), (0, u64::MAX));
}

/// Blocks whose checksum is right, and of whose bytes nobody knows what they are.
#[test]
fn whatever_a_block_holds_is_events_or_damage() {
    let mut prng = Prng::new(3, 0);
    let start = Writer::new(Vec::new(), &Head::default()).expect("memory").sink().clone();
    let mut found = [0; 2];
    for _ in 0..20_000 {
        let mut bytes = start.clone();
        let payload: Vec<u8> = (0..prng.below(40))
            .map(|at| if at % 7 == 0 { prng.below(16) as u8 } else { prng.next_u64() as u8 })
            .collect();
        let kind = 1 + prng.below(6) as u32;
        let count = prng.below(4) as u32;
        let numbers = (prng.next_u64() >> prng.below(64), prng.next_u64() >> prng.below(64));
        bytes.extend(block_head(kind, count, numbers, &payload));
        bytes.extend(payload);
        bytes.extend(block_head(KIND_ROUND, 0, (0, u64::MAX), &[]));
        let mut reader = Reader::new(&bytes[..]).expect("the head is whole");
        for event in reader.by_ref() {
            match event {
                Ok(_) => found[0] += 1,
                Err(TraceError::Damaged { .. }) => found[1] += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(found.iter().all(|count| *count > 100), "{found:?}");
}

#[test]
fn whatever_is_cut_off_is_told_and_the_rest_read() {
    let (bytes, events, ..) = written(20_000);
    for length in (0..bytes.len()).step_by(19_997) {
        let reader = Reader::new(&bytes[..length]);
        let Ok(mut reader) = reader else { continue };
        let read: Vec<Event> = reader.by_ref().map(|event| event.expect("whole")).collect();
        assert!(reader.is_cut_off());
        assert!(read == events[..read.len()]);
    }
}

#[test]
fn damage_is_never_read_as_events() {
    let (bytes, events, ..) = written(3_000);
    let head_end = 20 + u32::from_le_bytes(bytes[12..16].try_into().expect("4")) as usize;
    for at in (head_end..bytes.len()).step_by(997) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let mut reader = Reader::new(&damaged[..]).expect("the head is whole");
        let mut good = Vec::new();
        let mut errors = 0;
        for event in reader.by_ref() {
            match event {
                Ok(event) => good.push(event),
                Err(_) => errors += 1,
            }
        }
        assert!(errors == 1 || reader.is_cut_off(), "byte {at}");
        assert!(good == events[..good.len()], "byte {at}");
    }
}

#[test]
fn other_files_and_newer_forms_are_refused() {
    let (mut bytes, ..) = written(10);
    let error = |bytes: &[u8]| match Reader::new(bytes) {
        Ok(_) => panic!("taken"),
        Err(error) => error.to_string(),
    };
    assert!(error(b"").starts_with("is no trace"));
    assert!(error(b"#!/bin/sh and more text").starts_with("is no trace"));
    bytes[8] = 3;
    assert!(error(&bytes).starts_with("is a trace of form 3, and this fathom knows forms up to 2"));
    bytes[8] = 2;
    bytes[25] ^= 1;
    assert!(error(&bytes).starts_with("is damaged at byte 20"), "{}", error(&bytes));
}
