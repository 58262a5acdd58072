//! Pages that Linux 6.18.44 has made: reads of a virtio disk, one at a time.

use super::*;

/// Some reads, a third of a second without any, and some more.
const IDLE: &[u8] = include_bytes!("pages/idle");
/// Before its records 1042 others were overwritten.
const OVERWRITTEN: &[u8] = include_bytes!("pages/overwritten");
/// Its last record found no room: the kernel has filled the place up.
const EMPTIED: &[u8] = include_bytes!("pages/emptied");

const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

fn form() -> PageForm {
    PageForm::parse(HEADER).expect("a form")
}

/// Time, tracepoint, thread, sector and length of a record.
type Record = (u64, u16, u32, u64, usize);

/// All records, and what is lost.
fn told(page: &[u8]) -> (Vec<Record>, u64) {
    let (mut records, mut lost) = (Vec::new(), 0);
    form().read(page, &mut |entry| match entry {
        Entry::Lost(count) => lost += count,
        Entry::Sample(Sample { time_ns, process, raw }) => {
            let id = u16::from_ne_bytes(raw[..2].try_into().expect("two"));
            let sector = u64_at(raw, 16).unwrap_or(0);
            records.push((time_ns, id, process, sector, raw.len()));
        }
    });
    (records, lost)
}

/// A page with such words behind its head.
fn page(count: u64, words: &[u32]) -> Vec<u8> {
    let mut page = 1000u64.to_ne_bytes().to_vec();
    page.extend(count.to_ne_bytes());
    words.iter().for_each(|word| page.extend(word.to_ne_bytes()));
    page
}

fn times(count: u64, words: &[u32]) -> (Vec<u64>, u64) {
    let (records, lost) = told(&page(count, words));
    (records.iter().map(|record| record.0).collect(), lost)
}

#[test]
fn the_form_is_read_and_others_are_refused() {
    let found = form();
    assert_eq!((found.time_at, found.count_at, found.word_bytes), (0, 8, 8));
    assert_eq!((found.records_at, found.bytes), (16, 4096));
    // Kernels of 32 bits.
    let short = HEADER.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4");
    let short = short.replace("data;\toffset:16;\tsize:4080", "data;\toffset:12;\tsize:4084");
    let found = PageForm::parse(&short).expect("a form");
    assert_eq!((found.word_bytes, found.records_at, found.bytes), (4, 12, 4096));
    for (was, is) in [
        ("timestamp", "time"),
        ("size:8", "size:2"),
        ("offset:16", "offset:8"),
        ("size:4080", "size:18446744073709551615"),
        ("size:4080", "size:4194304"),
    ] {
        assert_eq!(PageForm::parse(&HEADER.replace(was, is)), None, "{was} {is}");
    }
    assert_eq!(PageForm::parse(""), None);
}

#[test]
fn recorded_pages_are_read_to_the_last_record() {
    let sum = |records: &[Record]| -> u64 { records.iter().map(|r| r.0).sum() };
    let (records, lost) = told(IDLE);
    assert_eq!((records.len(), lost), (56, 0));
    assert_eq!(records[0], (15_558_080_189_108, 2097, 3685, 322_703_392, 56));
    assert_eq!(records[55], (15_558_364_131_818, 2104, 54, 171_821_896, 68));
    assert_eq!(sum(&records), 871_263_399_283_249);
    let (records, lost) = told(OVERWRITTEN);
    assert_eq!((records.len(), lost), (61, 1042));
    assert_eq!(sum(&records), 949_064_339_357_611);
    let (records, lost) = told(EMPTIED);
    assert_eq!((records.len(), lost), (5, 0));
    assert_eq!(sum(&records), 77_792_017_057_260);
}

#[cfg(target_endian = "little")]
#[test]
fn times_of_every_kind() {
    let record = |since: u32| [since << 5 | 2, 7, 9];
    let [first, id, thread] = record(5);
    // Plain, and with more bits.
    assert_eq!(times(12, &[first, id, thread]), (vec![1005], 0));
    let extended = [3 << 5 | KIND_EXTEND, 2, first, id, thread];
    assert_eq!(times(20, &extended), (vec![1000 + (2 << 27) + 3 + 5], 0));
    // One that does not depend on those before; and one that does not go back by more than half of what its bits can say.
    let stamped = [700 << 5 | KIND_STAMP, 1, first, id, thread];
    assert_eq!(times(20, &stamped), (vec![(1 << 27) + 700 + 5], 0));
    assert_eq!(after(1 << 60, 7), 1 << 60 | 7);
    assert_eq!(after((1 << 60) - 1, 7), 1 << 60 | 7);
    assert_eq!(after((1 << 60) + 9, 7), 1 << 60 | 7);
    // A long one, whose last word is not full, an empty place, and the end of all.
    let long = [1 << 5, 4 + 9, 7, 9, 0, first, id, thread];
    assert_eq!(times(32, &long), (vec![1001, 1006], 0));
    let empty = [2 << 5 | KIND_EMPTY, 8, 0, first, id, thread];
    assert_eq!(times(24, &empty), (vec![1007], 0));
    assert_eq!(times(16, &[first, id, thread, KIND_EMPTY]), (vec![1005], 0));
}

#[cfg(target_endian = "little")]
#[test]
fn what_cannot_be_told_apart_is_counted_as_lost() {
    let record = [5 << 5 | 2, 7, 9];
    // One beyond the end, one without its thread, a length that is none, and a rest that is no word.
    assert_eq!(times(16, &[record[0], 7, 9, 3]), (vec![1005], 1));
    assert_eq!(times(8, &[5 << 5 | 1, 7]), (vec![], 1));
    for words in [[0, 3, 7], [0, u32::MAX, 7], [1 << 5 | KIND_EMPTY, u32::MAX, 7]] {
        assert_eq!(times(12, &words), (vec![], 1), "{words:?}");
    }
    assert_eq!(times(14, &[record[0], 7, 9, 3]), (vec![1005], 1));
    // More than there is, and no head.
    assert_eq!(times(100, &record), (vec![], 1));
    assert_eq!(told(&page(12, &record)[..15]), (vec![], 1));
    // Overwritten ones of which nobody knows how many.
    assert_eq!(times(12 | MISSED, &record), (vec![1005], 1));
}

/// A page that was cut or changed anywhere is read without harm, and never as more than it can hold.
#[test]
fn damaged_pages_do_no_harm() {
    for whole in [IDLE, OVERWRITTEN, EMPTIED] {
        let count = told(whole).0.len();
        for length in 0..whole.len() {
            let (records, lost) = told(&whole[..length]);
            assert!(records.len() <= count && (lost > 0 || length >= whole.len()), "{length}");
        }
        let mut page = whole.to_vec();
        for at in 0..page.len() {
            for bit in 0..8 {
                page[at] ^= 1 << bit;
                let (records, _) = told(&page);
                assert!(records.len() <= page.len() / 12, "{at} {bit}");
                page[at] ^= 1 << bit;
            }
        }
    }
}
