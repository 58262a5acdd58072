//! What a trace says is what each record says by itself, in order of time.

use super::*;
use crate::trace::event::Event;
use crate::trace::file::{Head, Reader};
use crate::trace::layout::Layout;
use fathom_base::prng::Prng;
use fathom_sys::tracefs::EventFormat;

/// The fields of tracepoints, with letters of 8 or 10 bytes.
fn layouts(letters: usize) -> Layouts {
    let mut layouts = Layouts::default();
    for (id, action) in (300..).zip(Action::ALL) {
        let mut text = format!("ID: {id}\n");
        let mut at = 8;
        let mut field = |declared: &str, size: usize| {
            text += &format!("\tfield:{declared};\toffset:{at};\tsize:{size};\tsigned:0;\n");
            at += size;
        };
        field("dev_t dev", 4);
        field("unsigned int nr_sector", 4);
        field("sector_t sector", 8);
        let other = if action == Action::Split { "new_sector" } else { "old_sector" };
        field(&format!("sector_t {other}"), 8);
        field(if action == Action::Complete { "int error" } else { "int none" }, 4);
        field(&format!("char rwbs[{letters}]"), letters);
        field(if action == Action::Issue { "char comm[16]" } else { "char none[16]" }, 16);
        let format = EventFormat::parse(&text).expect("a format");
        layouts.add(id, Layout::of(action, &format).expect("known"));
    }
    layouts
}

fn record(prng: &mut Prng, letters: usize) -> (u32, Vec<u8>) {
    const LETTERS: [&[u8]; 9] =
        [b"R", b"R", b"W", b"WS", b"FWS", b"FF", b"D", b"FWFSMAXX", b"RAMSXXXX"];
    let (id, process) = (299 + prng.below(14) as u16, prng.below(3) as u32);
    let mut raw = Vec::new();
    raw.extend(id.to_ne_bytes());
    raw.extend([0; 2]);
    raw.extend(process.to_ne_bytes());
    raw.extend(7u32.to_ne_bytes());
    raw.extend([8u32, 8, 0, 256][prng.below(4) as usize].to_ne_bytes());
    let place = |prng: &mut Prng| if prng.below(20) == 0 { u64::MAX } else { prng.below(1 << 30) };
    raw.extend(place(prng).to_ne_bytes());
    raw.extend(place(prng).to_ne_bytes());
    raw.extend(if prng.below(9) == 0 { -5i32 } else { 0 }.to_ne_bytes());
    // What stands behind their end is of an earlier record.
    let mut said: Vec<u8> = (0..letters).map(|_| prng.next_u64() as u8).collect();
    let which = LETTERS[prng.below(9) as usize];
    said[..which.len()].copy_from_slice(which);
    if which.len() < letters {
        said[which.len()] = 0;
    }
    raw.extend(said);
    raw.extend(format!("{:\0<16}", ["fio", "dd", ""][prng.below(3) as usize]).bytes());
    if prng.below(50) == 0 {
        raw.truncate(prng.below(raw.len() as u64) as usize);
    }
    (process, raw)
}

/// Five processors in rounds of any length, one of them with records that come late, read back and held against each record read by
/// itself.
#[test]
fn a_trace_says_what_its_records_say() {
    const PART: (u64, u64) = (1000, 1 << 29);
    for (letters, part) in [(8, None), (10, Some(PART))] {
        let mut prng = Prng::new(17, letters as u64);
        let mut transcript = Transcript::new(layouts(letters), part, None);
        let mut writer = Writer::new(Vec::new(), &Head::default()).expect("memory");
        let (layouts, mut names) = (layouts(letters), Names::default());
        let (mut events, mut now_ns): (Vec<Event>, u64) = (Vec::new(), 1_000_000);
        for _ in 0..400 {
            for _ in 0..prng.below(300) {
                let most_ns = [3, 3000, 3_000_000][prng.below(3) as usize];
                now_ns += 1 + prng.below(most_ns);
                let cpu = prng.below(5) as u32;
                let is_late = cpu == 3 && prng.below(10) == 0;
                let time_ns = now_ns - if is_late { prng.below(200) } else { 0 };
                let (process, raw) = record(&mut prng, letters);
                transcript.add(cpu, &Sample { time_ns, process, raw: &raw });
                let Some(mut event) = layouts.read(&raw, &mut names) else { continue };
                (event.time_ns, event.process, event.cpu) = (time_ns, process, cpu as u16);
                if let Some((start, count)) = part {
                    let end = event.end_sector().min(start + count);
                    let from = event.sector.max(start);
                    if event.sectors > 0 {
                        let Some(inside) = end.checked_sub(from).filter(|more| *more > 0) else {
                            continue;
                        };
                        (event.sector, event.sectors) = (from, inside as u32);
                    }
                    event.sector = event.sector.saturating_sub(start);
                }
                events.push(event);
            }
            let until = Until { whole_ns: now_ns - 300, own_ns: u64::MAX };
            transcript.write(&mut writer, until).expect("memory");
        }
        let all = Until { whole_ns: u64::MAX, own_ns: u64::MAX };
        transcript.write(&mut writer, all).expect("memory");
        let (bytes, totals) = writer.finish(transcript.names()).expect("memory");
        // At one time that of the first processor comes first.
        events.sort_by_key(|event| (event.time_ns, event.cpu));
        let mut reader = Reader::new(&bytes[..]).expect("ours");
        let mut read: Vec<Event> = reader.by_ref().map(|event| event.expect("whole")).collect();
        assert!(read.is_sorted_by_key(|event| event.time_ns) && !reader.is_cut_off());
        read.sort_by_key(|event| (event.time_ns, event.cpu));
        assert_eq!((totals.events, read.len()), (events.len() as u64, events.len()));
        let other = read.iter().zip(&events).find(|(read, event)| read != event);
        assert_eq!(other, None, "{letters}");
        assert_eq!(reader.names().since(0), names.since(0));
    }
}

/// Requests of the whole disk that begin before a partition, end behind it, or only lie beside it.
#[test]
fn of_a_request_what_lies_in_the_part_counts() {
    let inside = |sector: u64, sectors: u32| {
        let mut said = Fields {
            action: Action::Queue,
            sector,
            sectors,
            other_sector: 0,
            error: 0,
            letters: b"R",
            name: None,
        };
        keep_inside(&mut said, (1000, 2000)).then_some((said.sector, said.sectors))
    };
    assert_eq!(inside(1000, 8), Some((1000, 8)));
    assert_eq!(inside(996, 8), Some((1000, 4)));
    assert_eq!(inside(1996, 8), Some((1996, 4)));
    assert_eq!(inside(0, 4000), Some((1000, 1000)));
    assert_eq!([inside(992, 8), inside(2000, 8)], [None; 2]);
    assert_eq!(inside(0, 0), Some((0, 0)), "a flush is of all partitions");
}
