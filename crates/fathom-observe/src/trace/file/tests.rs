//! Whatever is written is read; whatever is cut off or damaged is told and never invented.

use super::*;
use crate::trace::event::{Action, Class, Event, Flags, Names};
use fathom_base::prng::Prng;

fn random_event(prng: &mut Prng, names: &mut Names) -> Event {
    let mut bits = |bits: u32| prng.next_u64() >> (64 - bits);
    let action = Action::ALL[bits(8) as usize % Action::ALL.len()];
    let width = 1 + bits(5) as u32 % 20;
    let mut event = Event::new(action, bits(62));
    event.sector = bits(45);
    event.sectors = bits(width) as u32;
    event.class = Class::ALL[bits(8) as usize % 5];
    event.flags = Flags(bits(5) as u8);
    event.cpu = bits(10) as u16;
    event.process = bits(22) as u32;
    event.error = if bits(3) == 0 { -(bits(7) as i32) } else { 0 };
    if matches!(action, Action::Split | Action::Remap) {
        event.other_sector = bits(45);
    }
    event.name = names.number_of(&format!("name {}", bits(4)));
    event
}

fn written(count: usize) -> (Vec<u8>, Vec<Event>, Names, Head) {
    let mut prng = Prng::new(7, 0);
    let mut names = Names::default();
    let head = Head { device: "sda".into(), size_bytes: 1 << 40, ..Head::default() };
    let mut writer = Writer::new(Vec::new(), &head).expect("memory");
    let mut events = Vec::new();
    for number in 0..count {
        let event = random_event(&mut prng, &mut names);
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

/// Files of before have the sums alone at their end.
#[test]
fn an_end_without_processors_is_one() {
    let (mut bytes, events, ..) = written(1);
    let end = bytes.windows(4).rposition(|four| four == BLOCK_MAGIC).expect("an end");
    // One event, none lost.
    let payload = [1, 0];
    bytes.truncate(end + BLOCK_HEAD_BYTES);
    bytes[end + 12..end + 16].copy_from_slice(&2u32.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&payload), &bytes[end..end + 32]);
    bytes[end + 32..end + 36].copy_from_slice(&checksum.to_le_bytes());
    bytes.extend(payload);
    let mut reader = Reader::new(&bytes[..]).expect("ours");
    let read: Vec<Event> = reader.by_ref().map(|event| event.expect("whole")).collect();
    assert!(read == events && !reader.is_cut_off() && reader.came_online().is_empty());
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
    bytes[8] = 2;
    assert!(error(&bytes).starts_with("is a trace of form 2, and this fathom knows forms up to 1"));
    bytes[8] = 1;
    bytes[25] ^= 1;
    assert!(error(&bytes).starts_with("is damaged at byte 20"), "{}", error(&bytes));
}
