//! Answers written from ACS-4, and arbitrary ones.

use super::*;
use proptest::prelude::*;

/// IDENTIFY DEVICE with these words.
fn identify(words: &[(usize, u16)]) -> Vec<u8> {
    let mut answer = vec![0u8; 512];
    for (index, word) in words {
        answer[index * 2..index * 2 + 2].copy_from_slice(&word.to_le_bytes());
    }
    answer
}

/// A rotating drive with 4096-byte physical sectors, all features that are looked at, jumpered for sector 63.
const DRIVE: [(usize, u16); 15] = [
    (0, 0x0040),
    (75, 31),
    (76, 0x010e),
    (82, 1 | 1 << 5 | 1 << 6),
    (83, 1 << 14 | 1 << 3 | 1 << 9),
    (85, 1 | 1 << 5 | 1 << 6),
    (86, 1 << 3 | 1 << 9),
    (87, 1 << 14 | 1 << 5),
    (91, 0x40_80),
    (94, 0xfe_d0),
    (106, 1 << 14 | 1 << 13 | 3),
    (69, 2),
    (209, 1 << 14 | 1),
    (217, 7200),
    (222, 0x10ff),
];

#[test]
fn a_drive_says_what_it_can_do() {
    let answer = identify(&DRIVE);
    let found = identity(&answer).unwrap();
    assert_eq!((found.logical_bytes, found.physical_bytes), (Some(512), Some(4096)));
    assert_eq!(found.lowest_aligned_lba, Some(7));
    assert_eq!((found.volatile_cache, found.write_cache_enabled), (Some(true), Some(true)));
    assert_eq!((found.look_ahead_enabled, found.rotation_rpm), (Some(true), Some(7200)));
    assert_eq!(found.zoned.as_deref(), Some("drive-managed"));
    assert_eq!((found.power_management, found.acoustic), (Some(128), Some(0xd0)));
    assert_eq!(found.queue_depth, Some(32));
    assert_eq!(found.interface_speed_max.as_deref(), Some("6.0 Gb/s"));
    assert!(has_smart(&answer) && has_logs(&answer));
}

#[test]
fn what_is_switched_off_or_means_nothing_is_not_said() {
    let with = |changes: &[(usize, u16)]| {
        let words: Vec<_> = DRIVE.iter().chain(changes).copied().collect();
        identity(&identify(&words)).unwrap()
    };
    let off = with(&[(85, 0), (86, 0)]);
    assert_eq!((off.write_cache_enabled, off.look_ahead_enabled), (Some(false), Some(false)));
    assert_eq!((off.power_management, off.acoustic), (None, None));
    let meaningless = with(&[(83, 0), (87, 0), (106, 0xffff), (209, 0), (217, 0xffff), (76, 0)]);
    assert_eq!((meaningless.volatile_cache, meaningless.write_cache_enabled), (None, None));
    assert_eq!((meaningless.logical_bytes, meaningless.physical_bytes), (Some(512), Some(512)));
    assert_eq!((meaningless.lowest_aligned_lba, meaningless.rotation_rpm), (None, None));
    assert_eq!((meaningless.queue_depth, meaningless.interface_speed_max), (None, None));
    // 4096-byte logical sectors: 2048 words.
    let native = with(&[(106, 1 << 14 | 1 << 12), (117, 2048), (118, 0)]);
    assert_eq!((native.logical_bytes, native.physical_bytes), (Some(4096), Some(4096)));
    assert_eq!(with(&[(209, 1 << 14)]).lowest_aligned_lba, Some(0));
    assert_eq!(with(&[(217, 1)]).rotation_rpm, Some(1));
}

#[test]
fn other_answers_are_no_drive() {
    assert_eq!(identity(&[0; 512]), None);
    assert_eq!(identity(&identify(&[(0, 0x8580)])), None, "ATAPI");
    assert_eq!(identity(&identify(&DRIVE)[..511]), None);
}

/// A page of SMART with entries of 12 bytes from byte 2 on, and its checksum.
fn page(entries: &[[u8; 12]]) -> Vec<u8> {
    let mut page = vec![0u8; 512];
    for (place, entry) in entries.iter().enumerate() {
        page[2 + place * 12..14 + place * 12].copy_from_slice(entry);
    }
    sealed(page)
}

fn sealed(mut page: Vec<u8>) -> Vec<u8> {
    page[511] = 0;
    page[511] = page.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg();
    page
}

fn attribute(id: u8, flags: u8, value: u8, raw: u64) -> [u8; 12] {
    let raw = raw.to_le_bytes();
    [id, flags, 0, value, value, raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], 0]
}

#[test]
fn smart_values() {
    let data = page(&[
        attribute(5, 3, 100, 0x0007_0000_000c),
        attribute(9, 2, 80, 0x0123_0000_9c40),
        attribute(190, 2, 65, 0x23),
        attribute(194, 2, 65, 0x0030_0012_0025),
        attribute(197, 2, 100, 8),
        attribute(198, 2, 100, 4),
        attribute(199, 2, 200, 70_000),
    ]);
    let mut health = Health::default();
    add_smart_data(&data, &mut health);
    assert_eq!((health.reallocated, health.power_on_hours), (Some(12), Some(40_000)));
    assert_eq!((health.celsius, health.pending), (Some(37), Some(8)));
    assert_eq!((health.uncorrectable, health.interface_crc_errors), (Some(4), Some(70_000)));

    let mut damaged = data;
    damaged[20] ^= 1;
    let mut nothing = Health::default();
    add_smart_data(&damaged, &mut nothing);
    assert_eq!(nothing, Health::default(), "the checksum is wrong");
}

#[test]
fn thresholds_judge_where_the_drive_does_not() {
    let data = page(&[attribute(5, 1, 10, 0), attribute(194, 0, 1, 0)]);
    let limits = |limit: u8| page(&[attribute(5, limit, 0, 0), attribute(194, 200, 0, 0)]);
    assert_eq!(passed_by_thresholds(&data, &limits(9)), Some(true));
    assert_eq!(passed_by_thresholds(&data, &limits(10)), Some(false));
    assert_eq!(passed_by_thresholds(&data, &limits(0)), Some(true), "never fails");
    assert_eq!(passed_by_thresholds(&data, &[0; 100]), None);
}

/// The self-test log with results from the oldest to the newest, as status and hour.
fn test_log(results: &[(u8, u16)]) -> Vec<u8> {
    let mut log = vec![0u8; 512];
    for (place, (status, hour)) in results.iter().enumerate() {
        let at = 2 + place % 21 * 24;
        (log[at], log[at + 1]) = (1, *status);
        log[at + 2..at + 4].copy_from_slice(&hour.to_le_bytes());
    }
    log[508] = if results.is_empty() { 0 } else { ((results.len() - 1) % 21 + 1) as u8 };
    sealed(log)
}

#[test]
fn the_last_finished_self_test_counts() {
    let told = |results: &[(u8, u16)]| self_test(&test_log(results)).unwrap();
    assert_eq!(told(&[]), ("never".to_owned(), 0));
    assert_eq!(told(&[(0x70, 5), (0x00, 9)]), ("passed".to_owned(), 9));
    assert_eq!(told(&[(0x00, 5), (0x73, 9)]), ("failed".to_owned(), 9));
    assert_eq!(told(&[(0x00, 5), (0xf9, 9)]), ("running".to_owned(), 9));
    assert_eq!(told(&[(0x75, 5), (0x10, 9), (0x20, 9)]), ("failed".to_owned(), 5));
    assert_eq!(told(&[(0x10, 9)]), ("never".to_owned(), 0));
    let ring: Vec<(u8, u16)> = (1..=30).map(|hour| (0, hour)).collect();
    assert_eq!(told(&ring), ("passed".to_owned(), 30));
}

#[test]
fn statistics() {
    let mut page = vec![0u8; 512];
    let mut put = |at: usize, value: u64| page[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, 5 << 16);
    put(8, 0b11 << 62 | 41);
    put(0x58, 0b11 << 62 | 60);
    let mut health = Health { celsius: Some(1), ..Health::default() };
    add_statistics(&page, &mut health);
    assert_eq!((health.celsius, health.celsius_limit), (Some(41), Some(60)));
    let mut worn = vec![0u8; 512];
    worn[2] = 7;
    worn[8..16].copy_from_slice(&(0b10u64 << 62 | 3).to_le_bytes());
    add_statistics(&worn, &mut health);
    assert_eq!(health.used_percent, None, "supported, not valid");
    worn[15] = 0xc0;
    add_statistics(&worn, &mut health);
    assert_eq!(health.used_percent, Some(3));

    let mut directory = vec![0u8; 512];
    directory[8] = 8;
    assert!(lists_log(&directory, 4) && !lists_log(&directory, 5) && !lists_log(&[], 4));
}

proptest! {
    /// Whatever a drive answers, its sizes make sense and nothing fails.
    #[test]
    fn arbitrary_answers(mut answer in prop::collection::vec(any::<u8>(), 0..600), seal: bool) {
        if seal && answer.len() >= 512 {
            answer.truncate(512);
            answer = sealed(answer);
        }
        if let Some(found) = identity(&answer) {
            let (logical, physical) = (found.logical_bytes.unwrap(), found.physical_bytes.unwrap());
            prop_assert!(logical >= 512 && physical >= logical && physical % logical == 0);
            prop_assert!(found.lowest_aligned_lba.is_none_or(|lba| lba < physical / logical));
        }
        let mut health = Health::default();
        add_smart_data(&answer, &mut health);
        add_statistics(&answer, &mut health);
        let _ = (has_smart(&answer), has_logs(&answer), lists_log(&answer, 4));
        let _ = passed_by_thresholds(&answer, &answer);
        let words = ["passed", "failed", "running", "never"];
        prop_assert!(self_test(&answer).is_none_or(|(word, _)| words.contains(&word.as_str())));
    }
}
