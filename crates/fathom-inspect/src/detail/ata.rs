//! Answers of ATA drives: IDENTIFY DEVICE, SMART, logs (ACS-4), as plain bytes.

use super::bytes::Bytes;
use fathom_model::stack::detail::{DriveIdentity, Health};

/// The words of IDENTIFY DEVICE.
struct Words<'a>(Bytes<'a>);

impl Words<'_> {
    fn word(&self, index: usize) -> Option<u64> {
        self.0.le16(index * 2)
    }

    fn bit(&self, index: usize, bit: u32) -> Option<bool> {
        Some(self.word(index)? >> bit & 1 == 1)
    }

    /// A word whose bits 15 and 14 say 01 when the rest of it means something.
    fn valid(&self, index: usize) -> Option<u64> {
        self.word(index).filter(|word| word >> 14 == 0b01)
    }
}

/// What the answer to IDENTIFY DEVICE says; none when that is no ATA drive's.
pub(crate) fn identity(answer: &[u8]) -> Option<DriveIdentity> {
    let words = Words(Bytes(answer));
    let is_ata = answer.len() >= 512 && words.bit(0, 15) == Some(false);
    // A drive that fills the whole answer with zeros has said nothing.
    if !is_ata || answer.iter().all(|&byte| byte == 0) {
        return None;
    }
    let enabled_means_something = words.valid(87).is_some();
    let enabled = |word: usize, bit: u32| words.bit(word, bit).filter(|_| enabled_means_something);
    let supported =
        |word: usize, bit: u32| words.bit(word, bit).filter(|_| words.valid(83).is_some());
    let (logical, physical) = sector_bytes(&words);
    let low_byte = |word: usize| words.word(word).map(|word| word & 0xff);
    Some(DriveIdentity {
        logical_bytes: Some(logical),
        physical_bytes: Some(physical),
        lowest_aligned_lba: lowest_aligned_lba(&words, physical / logical),
        volatile_cache: supported(82, 5),
        write_cache_enabled: enabled(85, 5),
        look_ahead_enabled: enabled(85, 6),
        rotation_rpm: words.word(217).filter(|&rate| rate == 1 || (0x401..0xffff).contains(&rate)),
        zoned: match words.word(69)? & 3 {
            1 => Some("host-aware".to_owned()),
            2 => Some("drive-managed".to_owned()),
            _ => None,
        },
        power_management: low_byte(91).filter(|_| enabled(86, 3) == Some(true)),
        acoustic: low_byte(94).filter(|_| enabled(86, 9) == Some(true)),
        queue_depth: words
            .bit(76, 8)?
            .then(|| words.word(75))
            .flatten()
            .map(|word| (word & 31) + 1),
        interface_speed_max: interface_speed(words.word(76)?),
        ..DriveIdentity::default()
    })
}

/// Logical and physical sector: words 106, 117 and 118.
fn sector_bytes(words: &Words) -> (u64, u64) {
    let Some(word) = words.valid(106) else { return (512, 512) };
    let long = word >> 12 & 1 == 1;
    let in_words = words.0.le32(117 * 2).filter(|&count| long && count >= 256);
    let logical = in_words.map_or(512, |count| count * 2);
    let per_physical = if word >> 13 & 1 == 1 { 1u64 << (word & 0xf) } else { 1 };
    (logical, logical * per_physical)
}

/// The first logical sector that begins a physical one, from the offset in word 209.
fn lowest_aligned_lba(words: &Words, per_physical: u64) -> Option<u64> {
    let offset = words.valid(209)? & 0x3fff;
    (offset < per_physical).then(|| (per_physical - offset) % per_physical)
}

/// The fastest of the signalling rates in word 76, written as libata writes them.
fn interface_speed(word: u64) -> Option<String> {
    if word == 0 || word == 0xffff {
        return None;
    }
    let rates = [(3, "6.0 Gb/s"), (2, "3.0 Gb/s"), (1, "1.5 Gb/s")];
    let fastest = rates.iter().find(|(bit, _)| word >> bit & 1 == 1);
    fastest.map(|(_, rate)| (*rate).to_owned())
}

/// True when the drive keeps SMART values and that is switched on.
pub(crate) fn has_smart(identify: &[u8]) -> bool {
    let words = Words(Bytes(identify));
    words.bit(82, 0) == Some(true) && words.bit(85, 0) == Some(true)
}

/// True when the drive has general purpose logs.
pub(crate) fn has_logs(identify: &[u8]) -> bool {
    let words = Words(Bytes(identify));
    words.valid(87).is_some() && words.bit(87, 5) == Some(true)
}

/// An attribute of SMART READ DATA.
struct Attribute {
    id: u8,
    failure_is_near: bool,
    value: u8,
    raw: [u8; 6],
}

/// The 30 attributes from byte 2 on; empty places have the number 0.
fn attributes(data: &[u8]) -> impl Iterator<Item = Attribute> + '_ {
    let entries = data.get(2..362).unwrap_or_default().chunks_exact(12);
    entries.filter(|entry| entry[0] != 0).map(|entry| {
        let mut raw = [0; 6];
        raw.copy_from_slice(&entry[5..11]);
        Attribute { id: entry[0], failure_is_near: entry[1] & 1 == 1, value: entry[3], raw }
    })
}

/// True when the bytes of a page of SMART sum up to zero, as they must.
fn is_whole(page: &[u8]) -> bool {
    page.len() >= 512 && page[..512].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

/// Fills in what SMART READ DATA says. Raw values have no standard: here are those whose meaning all makers share, read as
/// smartmontools reads them.
pub(crate) fn add_smart_data(data: &[u8], health: &mut Health) {
    if !is_whole(data) {
        return;
    }
    for attribute in attributes(data) {
        let raw = Bytes(&attribute.raw);
        let count = raw.le32(0);
        match attribute.id {
            // Further counts may stand in the upper bytes.
            5 => health.reallocated = raw.le16(0),
            // Some count minutes or seconds there: what no drive has lived through is left out.
            9 => {
                let hours = count.map(|count| count & 0xff_ffff);
                health.power_on_hours = hours.filter(|&hours| hours < 1_000_000);
            }
            194 => health.celsius = raw.u8(0).map(|byte| i64::from(byte as i8)),
            // Of the air; where it stands alone it is the only one.
            190 if health.celsius.is_none() => {
                health.celsius = raw.u8(0).map(|byte| i64::from(byte as i8));
            }
            197 => health.pending = count,
            198 => health.uncorrectable = count,
            199 => health.interface_crc_errors = count,
            _ => {}
        }
    }
}

/// The judgement of a drive that does not answer SMART RETURN STATUS: failed when an attribute that foretells a failure
/// has come down to its threshold.
pub(crate) fn passed_by_thresholds(data: &[u8], thresholds: &[u8]) -> Option<bool> {
    if !is_whole(data) || !is_whole(thresholds) {
        return None;
    }
    let limits: Vec<(u8, u8)> =
        thresholds.get(2..362)?.chunks_exact(12).map(|entry| (entry[0], entry[1])).collect();
    let failed = |attribute: Attribute| {
        let limit = limits.iter().find(|(id, _)| *id == attribute.id).map(|(_, limit)| *limit);
        attribute.failure_is_near
            && (1..=253).contains(&attribute.value)
            && limit.is_some_and(|limit| (1..=253).contains(&limit) && attribute.value <= limit)
    };
    Some(!attributes(data).any(failed))
}

/// The last result in the SMART self-test log, with the hour of it. Tests that somebody broke off count as none.
pub(crate) fn self_test(log: &[u8]) -> Option<(String, u64)> {
    const ENTRIES: usize = 21;
    if !is_whole(log) {
        return None;
    }
    let newest = usize::from(log[508]);
    let never = Some(("never".to_owned(), 0));
    if !(1..=ENTRIES).contains(&newest) {
        return never;
    }
    let log = Bytes(log);
    for age in 0..ENTRIES {
        let at = 2 + (newest - 1 + ENTRIES - age) % ENTRIES * 24;
        let (status, hour) = (log.u8(at + 1)?, log.le16(at + 2)?);
        // An empty entry ends the ring that was not filled yet.
        if log.u8(at)? == 0 && hour == 0 && status == 0 {
            return never;
        }
        let word = match status >> 4 {
            0 => "passed",
            1 | 2 => continue,
            0xf => "running",
            _ => "failed",
        };
        return Some((word.to_owned(), hour));
    }
    never
}

/// True when the directory of logs (log 00h) lists a log.
pub(crate) fn lists_log(directory: &[u8], address: u8) -> bool {
    Bytes(directory).le16(usize::from(address) * 2).is_some_and(|pages| pages > 0)
}

/// Fills in what pages 05h (temperature) and 07h (solid state) of the device statistics log say.
pub(crate) fn add_statistics(page: &[u8], health: &mut Health) {
    let bytes = Bytes(page);
    // Bits 63 and 62: supported, valid.
    let value = |at: usize| bytes.le64(at).filter(|word| word >> 62 == 0b11);
    let celsius = |at: usize| value(at).map(|word| i64::from(word as u8 as i8));
    match bytes.u8(2) {
        Some(5) => {
            health.celsius = celsius(8).or(health.celsius);
            health.celsius_limit = celsius(0x58).or(health.celsius_limit);
        }
        Some(7) => health.used_percent = value(8).map(|word| word & 0xff).or(health.used_percent),
        _ => {}
    }
}

#[cfg(test)]
#[path = "ata_tests.rs"]
mod tests;
