//! Pages of the kernel's trace rings, as `trace_pipe_raw` hands them out.
//!
//! A page has a head: the time of its first record, and how many bytes of records follow, with two bits that tell that records before
//! these were overwritten, and that their number stands behind the last one. Each record begins with a word of 5 bits of kind and 27
//! bits of time since the record before. Kinds up to 28 are records of so many words; 0 is one whose length stands in the next word,
//! 29 an empty place, 30 a time that needs more bits, 31 a time that does not depend on those before.

use super::{Entry, Sample};

const KIND_LONG: u32 = 0;
const KIND_EMPTY: u32 = 29;
const KIND_EXTEND: u32 = 30;
const KIND_STAMP: u32 = 31;
/// Bits of time in a record's first word.
const TIME_BITS: u32 = 27;
/// In the word with the number of bytes: records were overwritten, and how many stands behind these.
const MISSED: u64 = 1 << 31;
const MISSED_COUNTED: u64 = 1 << 30;
/// A time that does not depend on others has 59 bits; those above are as before.
const STAMP_BITS: u32 = 59;
/// Where a record has the number of the thread that passed its tracepoint.
const THREAD_AT: usize = 4;
/// What the longest pages have: kernels have the same limit.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Where the parts of a page are on this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageForm {
    time_at: usize,
    /// How many bytes of records there are, and what that word's own size is.
    count_at: usize,
    word_bytes: usize,
    records_at: usize,
    /// All of it.
    pub(super) bytes: usize,
}

impl PageForm {
    /// From the text of `events/header_page`; none when it has another form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let place = |name: &str| {
            let line = text.lines().find(|line| {
                let declared = line.trim().strip_prefix("field:").and_then(|l| l.split(';').next());
                declared.is_some_and(|declared| declared.trim().ends_with(&format!(" {name}")))
            })?;
            let mut parts = line.split(';').skip(1).map(str::trim);
            let mut number = |key| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
            Some((number("offset:")?, number("size:")?))
        };
        let (time_at, time_bytes) = place("timestamp")?;
        let (count_at, word_bytes) = place("commit")?;
        let (records_at, records_bytes) = place("data")?;
        let bytes = records_at.checked_add(records_bytes)?;
        let is_known = time_bytes == 8
            && matches!(word_bytes, 4 | 8)
            && time_at + 8 <= records_at
            && count_at + word_bytes <= records_at
            && bytes <= PAGE_BYTES_MAX;
        is_known.then_some(Self { time_at, count_at, word_bytes, records_at, bytes })
    }

    /// Hands out all that a page tells of, in its order. What cannot be told apart counts as lost, with all that is behind it in the page:
    /// how many that is nobody knows, but not none.
    pub(super) fn read(&self, page: &[u8], take: &mut impl FnMut(Entry<'_>)) {
        let Some((mut time_ns, mut records, missed)) = self.head(page) else {
            return take(Entry::Lost(1));
        };
        if missed > 0 {
            take(Entry::Lost(missed));
        }
        while !records.is_empty() {
            let (record, rest) = match short_record(records) {
                Some((since, raw, rest)) => {
                    time_ns = time_ns.wrapping_add(since);
                    (Some(raw), rest)
                }
                None => {
                    let Some(step) = Step::first_of(records) else { return take(Entry::Lost(1)) };
                    match step.time {
                        Time::Since(more) => time_ns = time_ns.wrapping_add(more),
                        Time::Is(stamp) => time_ns = after(time_ns, stamp),
                    }
                    // Nothing is behind it.
                    if step.is_last {
                        return;
                    }
                    (step.record, &records[step.bytes..])
                }
            };
            records = rest;
            let Some(raw) = record else { continue };
            take(
                u32_at(raw, THREAD_AT).map_or(Entry::Lost(1), |process| {
                    Entry::Sample(Sample { time_ns, process, raw })
                }),
            );
        }
    }

    /// The time of a page's beginning, its records, and how many before them were overwritten.
    fn head<'p>(&self, page: &'p [u8]) -> Option<(u64, &'p [u8], u64)> {
        let word = |at: usize| match self.word_bytes {
            4 => u32_at(page, at).map(u64::from),
            _ => u64_at(page, at),
        };
        let time_ns = u64_at(page, self.time_at)?;
        let count = word(self.count_at)?;
        let end = self.records_at.checked_add((count & (MISSED_COUNTED - 1)) as usize)?;
        let records = page.get(self.records_at..end)?;
        let missed = match (count & MISSED != 0, count & MISSED_COUNTED != 0) {
            (false, _) => 0,
            (true, true) => word(end)?,
            // There was no room to say how many.
            (true, false) => 1,
        };
        Some((time_ns, records, missed))
    }
}

/// A record whose length is in its first word, as nearly all are: the time since the one before, what it says, and what is behind it.
#[inline]
fn short_record(records: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (word, records) = records.split_first_chunk()?;
    let (kind, since) = parts(u32::from_ne_bytes(*word));
    if kind == KIND_LONG || kind >= KIND_EMPTY {
        return None;
    }
    let (raw, rest) = records.split_at_checked(4 * kind as usize)?;
    Some((u64::from(since), raw, rest))
}

/// Kind and time. A field of bits: the kernel's compiler has them in the order of bytes.
#[inline]
fn parts(word: u32) -> (u32, u32) {
    if cfg!(target_endian = "big") {
        (word >> TIME_BITS, word & ((1 << TIME_BITS) - 1))
    } else {
        (word & 31, word >> 5)
    }
}

/// What one word and what belongs to it says.
struct Step<'p> {
    time: Time,
    record: Option<&'p [u8]>,
    is_last: bool,
    bytes: usize,
}

enum Time {
    Since(u64),
    Is(u64),
}

impl<'p> Step<'p> {
    fn first_of(records: &'p [u8]) -> Option<Self> {
        let word = u32_at(records, 0)?;
        let (kind, since) = parts(word);
        let next = || u32_at(records, 4);
        let time = Time::Since(u64::from(since));
        let (time, begin, bytes) = match kind {
            // The rest of the page is empty.
            KIND_EMPTY if since == 0 => {
                return Some(Self { time, record: None, is_last: true, bytes: 4 });
            }
            KIND_EXTEND => (Time::Since(longer(next()?, since)), 8, 8),
            KIND_STAMP => (Time::Is(longer(next()?, since)), 8, 8),
            KIND_EMPTY => {
                let bytes = (next()? as usize).checked_add(4)?;
                (time, bytes, bytes)
            }
            // The length has its own word in it.
            KIND_LONG => (time, 8, (next()? as usize).checked_next_multiple_of(4)?.checked_add(4)?),
            words => (time, 4, 4 + 4 * words as usize),
        };
        let record = records.get(begin..bytes)?;
        let is_record = begin < bytes;
        Some(Self { time, record: is_record.then_some(record), is_last: false, bytes })
    }
}

fn longer(high: u32, low: u32) -> u64 {
    u64::from(high) << TIME_BITS | u64::from(low)
}

/// The time that has these lower bits and is not long before.
fn after(time_ns: u64, stamp: u64) -> u64 {
    const ROUND: u64 = 1 << STAMP_BITS;
    let stamp = (time_ns & !(ROUND - 1)) | (stamp & (ROUND - 1));
    if time_ns.saturating_sub(stamp) > ROUND / 2 { stamp.wrapping_add(ROUND) } else { stamp }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
