//! Answers of SCSI devices: vital product data, capacity, mode and log pages (SPC-5, SBC-4), as plain bytes.

use super::bytes::Bytes;
use fathom_model::stack::detail::{DriveIdentity, Health};

/// Log pages that say something of a drive's health: errors of writing, reading and verifying, temperature, self-tests,
/// solid state, background scan, informational exceptions.
pub(crate) const LOG_PAGES: [u8; 8] = [0x02, 0x03, 0x05, 0x0d, 0x10, 0x11, 0x15, 0x2f];

/// Additional sense code of a drive that foretells its failure, and its qualifier where that is only tested.
const PREDICTION: u8 = 0x5d;
const PREDICTION_TEST: u8 = 0xff;

/// The pages that a device has, from page 00h of the log or of the vital product data.
pub(crate) fn pages(answer: &[u8]) -> Vec<u8> {
    let bytes = Bytes(answer);
    let len = bytes.be16(2).unwrap_or(0) as usize;
    answer.iter().skip(4).take(len).copied().collect()
}

/// Fills in what a page of vital product data says: block limits (B0h), block device characteristics (B1h), logical
/// block provisioning (B2h), extended inquiry data (86h). Numbers of blocks need `logical_bytes`, which READ CAPACITY tells.
pub(crate) fn add_product_data(page: &[u8], logical_bytes: u64, found: &mut DriveIdentity) {
    let bytes = Bytes(page);
    let blocks = |count: Option<u64>| {
        count.filter(|&count| count > 0).map(|count| count.saturating_mul(logical_bytes))
    };
    // Every page ends where its header says.
    let len = bytes.be16(2).unwrap_or(0) as usize;
    let bytes = Bytes(&page[..page.len().min(len.saturating_add(4))]);
    match bytes.u8(1) {
        Some(0xb0) => {
            found.granularity_bytes = blocks(bytes.be16(6));
            found.optimal_bytes = blocks(bytes.be32(12));
        }
        Some(0xb1) => {
            let rate = bytes.be16(4);
            found.rotation_rpm = rate.filter(|&rate| rate == 1 || (0x401..0xffff).contains(&rate));
            found.zoned = match bytes.u8(8).map(|byte| byte >> 4 & 3) {
                Some(1) => Some("host-aware".to_owned()),
                Some(2) => Some("drive-managed".to_owned()),
                _ => found.zoned.take(),
            };
        }
        Some(0xb2) => found.unmap = bytes.u8(5).map(|byte| byte >> 7 == 1),
        Some(0x86) => found.volatile_cache = bytes.u8(6).map(|byte| byte & 1 == 1),
        _ => {}
    }
}

/// Fills in sectors and their alignment from READ CAPACITY (16).
pub(crate) fn add_capacity(answer: &[u8], found: &mut DriveIdentity) {
    let bytes = Bytes(answer);
    let told = (bytes.be32(8), bytes.u8(13), bytes.be16(14));
    let (Some(logical @ 256..), Some(exponent), Some(lowest)) = told else { return };
    found.logical_bytes = Some(logical);
    found.physical_bytes = Some(logical << (exponent & 0xf));
    found.lowest_aligned_lba = Some(lowest & 0x3fff);
}

/// Fills in what the caching mode page (08h) of an answer to MODE SENSE (10) says.
pub(crate) fn add_caching_page(answer: &[u8], found: &mut DriveIdentity) {
    let bytes = Bytes(answer);
    let descriptors = bytes.be16(6).unwrap_or(0) as usize;
    let Some(page) = bytes.from(8 + descriptors) else { return };
    // Bit 7 only says that the page can be saved.
    if page.u8(0).is_none_or(|code| code & 0x7f != 0x08) {
        return;
    }
    found.write_cache_enabled = page.u8(2).map(|byte| byte >> 2 & 1 == 1);
    // The bit switches reading ahead off.
    found.look_ahead_enabled = page.u8(12).map(|byte| byte >> 5 & 1 == 0);
}

/// The parameters of a log page: code and value.
fn parameters(page: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    let end = Bytes(page).be16(2).map_or(0, |len| page.len().min(len as usize + 4));
    let mut rest = page.get(4..end).unwrap_or_default();
    while let (Some(code), Some(&len)) = (Bytes(rest).be16(0), rest.get(3)) {
        let Some(value) = rest.get(4..4 + usize::from(len)) else { break };
        found.push((code, value));
        rest = &rest[4 + usize::from(len)..];
    }
    found
}

/// A number of any length; none when it is longer than 64 bits or absent.
fn number(value: &[u8]) -> Option<u64> {
    let short = (1..=8).contains(&value.len());
    short.then(|| value.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Fills in what a log page says.
pub(crate) fn add_log_page(answer: &[u8], health: &mut Health) {
    let all = parameters(answer);
    let parameter = |code: u64| all.iter().find(|(found, _)| *found == code).map(|(_, v)| *v);
    let byte = |code: u64, at: usize| parameter(code).and_then(|value| Bytes(value).u8(at));
    // 255 is no temperature.
    let celsius = |code: u64| byte(code, 1).filter(|&value| value != 255).map(i64::from);
    match answer.first().map(|byte| byte & 0x3f) {
        Some(0x02 | 0x03 | 0x05) => {
            if let Some(errors) = parameter(6).and_then(number) {
                let sum = health.uncorrectable.unwrap_or(0).saturating_add(errors);
                health.uncorrectable = Some(sum);
            }
        }
        Some(0x0d) => {
            health.celsius = celsius(0).or(health.celsius);
            health.celsius_limit = celsius(1).or(health.celsius_limit);
        }
        Some(0x10) => health.self_test = self_test(&all),
        Some(0x11) => health.used_percent = byte(1, 3).map(u64::from),
        Some(0x15) => {
            let minutes = parameter(0).and_then(|value| Bytes(value).be32(0));
            health.power_on_hours = minutes.filter(|&minutes| minutes > 0).map(|m| m / 60);
        }
        Some(0x2f) => {
            let code = byte(0, 0).zip(byte(0, 1));
            health.passed = match code {
                Some((0, _)) => Some(true),
                Some((PREDICTION, qualifier)) if qualifier != PREDICTION_TEST => Some(false),
                // A warning is neither, and what somebody tests says nothing.
                _ => None,
            };
            health.sense_warning = code
                .filter(|(code, _)| ![0, PREDICTION].contains(code))
                .map(|(code, qualifier)| (code.into(), qualifier.into()));
            let now = byte(0, 2).filter(|&value| value != 0 && value != 255).map(i64::from);
            health.celsius = health.celsius.or(now);
        }
        _ => {}
    }
}

/// The last result in the self-test log, whose parameters go from the newest to the oldest. Tests that somebody broke off
/// count as none.
fn self_test(parameters: &[(u64, &[u8])]) -> Option<(String, u64)> {
    for (_, value) in parameters {
        let value = Bytes(value);
        let (test, hour) = (value.u8(0)?, value.be16(2)?);
        if test == 0 && hour == 0 {
            break;
        }
        let word = match test & 0xf {
            0 => "passed",
            1 | 2 => continue,
            0xf => "running",
            _ => "failed",
        };
        return Some((word.to_owned(), hour));
    }
    Some(("never".to_owned(), 0))
}

/// The number of grown defects from the header of READ DEFECT DATA (10), where it is the grown list.
pub(crate) fn grown_defects(answer: &[u8]) -> Option<u64> {
    let bytes = Bytes(answer);
    let (flags, len) = (bytes.u8(1)?, bytes.be16(2)?);
    let grown_alone = flags & 0x18 == 0x08;
    let entry_bytes = match flags & 7 {
        0 => 4,
        3..=5 => 8,
        _ => return None,
    };
    grown_alone.then_some(len / entry_bytes)
}

#[cfg(test)]
#[path = "scsi_tests.rs"]
mod tests;
