//! Answers written from SPC-5 and SBC-4, and arbitrary ones.

use super::*;
use proptest::prelude::*;

/// A page with its header: `first` and `second` byte, and the length of what follows.
fn page(first: u8, second: u8, body: &[u8]) -> Vec<u8> {
    let len = body.len() as u16;
    let header = [first, second, (len >> 8) as u8, len as u8];
    header.iter().chain(body).copied().collect()
}

/// A log page of parameters.
fn log(code: u8, parameters: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (code, value) in parameters {
        body.extend(code.to_be_bytes());
        body.extend([0x03, value.len() as u8]);
        body.extend(*value);
    }
    page(code, 0, &body)
}

fn health(pages: &[Vec<u8>]) -> Health {
    let mut health = Health::default();
    pages.iter().for_each(|page| add_log_page(page, &mut health));
    health
}

#[test]
fn block_limits_and_characteristics() {
    let mut found = DriveIdentity::default();
    let mut limits = [0u8; 60];
    limits[2..4].copy_from_slice(&8u16.to_be_bytes());
    limits[8..12].copy_from_slice(&128u32.to_be_bytes());
    add_product_data(&page(0, 0xb0, &limits), 4096, &mut found);
    assert_eq!((found.granularity_bytes, found.optimal_bytes), (Some(32 << 10), Some(512 << 10)));

    let mut traits = [0u8; 60];
    traits[0..2].copy_from_slice(&10_000u16.to_be_bytes());
    traits[4] = 0x20;
    add_product_data(&page(0, 0xb1, &traits), 512, &mut found);
    assert_eq!((found.rotation_rpm, found.zoned.as_deref()), (Some(10_000), Some("drive-managed")));

    add_product_data(&page(0, 0x86, &[0, 0, 1]), 512, &mut found);
    assert_eq!(found.volatile_cache, Some(true));

    add_product_data(&page(0, 0xb2, &[0, 0x80, 2, 0]), 512, &mut found);
    assert_eq!(found.unmap, Some(true));
    add_product_data(&page(0, 0xb2, &[0, 0x60, 2, 0]), 512, &mut found);
    assert_eq!(found.unmap, Some(false), "only by writing the same");

    let mut nothing = DriveIdentity::default();
    add_product_data(&page(0, 0xb2, &[0]), 512, &mut nothing);
    add_product_data(&page(0, 0xb0, &[0; 60]), 512, &mut nothing);
    let mut cut = page(0, 0xb1, &traits);
    cut[3] = 1;
    add_product_data(&cut, 512, &mut nothing);
    assert_eq!(nothing, DriveIdentity::default(), "nothing beyond the end of a page");
}

#[test]
fn capacity() {
    let mut answer = vec![0u8; 32];
    answer[8..12].copy_from_slice(&512u32.to_be_bytes());
    answer[13] = 3;
    answer[14..16].copy_from_slice(&(0xc000u16 | 7).to_be_bytes());
    let mut found = DriveIdentity::default();
    add_capacity(&answer, &mut found);
    assert_eq!((found.logical_bytes, found.physical_bytes), (Some(512), Some(4096)));
    assert_eq!(found.lowest_aligned_lba, Some(7));
    let mut nothing = DriveIdentity::default();
    add_capacity(&[0; 32], &mut nothing);
    assert_eq!(nothing, DriveIdentity::default());
}

#[test]
fn caches() {
    let told = |flags: u8, ahead: u8, descriptor: usize| {
        let mut answer = vec![0u8; 8 + descriptor];
        answer[7] = descriptor as u8;
        let mut page = [0u8; 20];
        (page[0], page[1], page[2], page[12]) = (0x88, 0x12, flags, ahead);
        answer.extend(page);
        let mut found = DriveIdentity::default();
        add_caching_page(&answer, &mut found);
        (found.write_cache_enabled, found.look_ahead_enabled)
    };
    assert_eq!(told(0x04, 0, 0), (Some(true), Some(true)));
    assert_eq!(told(0x00, 0x20, 8), (Some(false), Some(false)));
    let mut other = DriveIdentity::default();
    add_caching_page(&[0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0x0a, 4, 0], &mut other);
    assert_eq!(other, DriveIdentity::default(), "the control mode page");
}

#[test]
fn logs() {
    let found = health(&[
        log(0x03, &[(0, &[0, 9]), (6, &[0, 0, 1, 2])]),
        log(0x02, &[(6, &[3])]),
        log(0x0d, &[(0, &[0, 41]), (1, &[0, 65])]),
        log(0x11, &[(1, &[0, 0, 0, 17])]),
        log(0x15, &[(0, &[0, 0, 0x75, 0x30, 0, 0, 0, 0])]),
        log(0x2f, &[(0, &[0, 0, 40, 0])]),
    ]);
    assert_eq!(found.uncorrectable, Some(0x102 + 3));
    assert_eq!((found.celsius, found.celsius_limit), (Some(41), Some(65)));
    assert_eq!((found.used_percent, found.power_on_hours), (Some(17), Some(500)));
    assert_eq!(found.passed, Some(true));
    for (code, passed, warning) in [
        ([0x5d, 0x10], Some(false), None),
        ([0x5d, 0xff], None, None),
        ([0x0b, 0x01], None, Some((0x0b, 0x01))),
        ([0x0b, 0x03], None, Some((0x0b, 0x03))),
        ([0x00, 0x00], Some(true), None),
    ] {
        let found = health(&[log(0x2f, &[(0, &[code[0], code[1], 0, 0])])]);
        assert_eq!((found.passed, found.sense_warning), (passed, warning), "{code:x?}");
    }
    assert_eq!(health(&[log(0x0d, &[(0, &[0, 255])])]).celsius, None);
    assert_eq!(health(&[log(0x3e, &[(0, &[1])])]), Health::default());
}

#[test]
fn the_last_finished_self_test_counts() {
    let result = |test: u8, hour: u16| {
        let mut value = vec![0u8; 16];
        value[0] = test;
        value[2..4].copy_from_slice(&hour.to_be_bytes());
        value
    };
    let told = |results: &[Vec<u8>]| {
        let parameters: Vec<(u16, &[u8])> =
            (1..).zip(results).map(|(code, value)| (code, value.as_slice())).collect();
        health(&[log(0x10, &parameters)]).self_test.unwrap()
    };
    let empty = result(0, 0);
    assert_eq!(told(&[result(0x20, 77), result(0x27, 5)]), ("passed".to_owned(), 77));
    assert_eq!(told(&[result(0x47, 77), empty.clone()]), ("failed".to_owned(), 77));
    assert_eq!(told(&[result(0x4f, 0)]), ("running".to_owned(), 0));
    assert_eq!(told(&[result(0x21, 9), empty.clone()]), ("never".to_owned(), 0));
    assert_eq!(told(&[empty]), ("never".to_owned(), 0));
}

#[test]
fn defects_and_lists_of_pages() {
    assert_eq!(grown_defects(&[0, 0x08, 0, 12]), Some(3));
    assert_eq!(grown_defects(&[0, 0x0d, 0, 16]), Some(2));
    assert_eq!(grown_defects(&[0, 0x18, 0, 16]), None, "with those of the factory");
    assert_eq!(grown_defects(&[0, 0x0a, 0, 16]), None);
    assert_eq!(pages(&page(0, 0, &[0x00, 0x0d, 0x2f])), [0x00, 0x0d, 0x2f]);
    assert_eq!(pages(&page(0, 0, &[0x00, 0xb1])), [0x00, 0xb1]);
    assert!(pages(&[0, 0, 9]).is_empty());
}

proptest! {
    #[test]
    fn arbitrary_answers(answer in prop::collection::vec(any::<u8>(), 0..300), page: u8) {
        let mut answers = vec![answer.clone()];
        let mut headed = answer;
        // The same with a header that leads further.
        if headed.len() >= 4 {
            (headed[0], headed[1], headed[2]) = (page & 0x3f, page, 0);
            answers.push(headed);
        }
        for answer in answers {
            let (mut found, mut health) = (DriveIdentity::default(), Health::default());
            add_product_data(&answer, 4096, &mut found);
            add_capacity(&answer, &mut found);
            add_caching_page(&answer, &mut found);
            add_log_page(&answer, &mut health);
            let _ = grown_defects(&answer);
            prop_assert!(pages(&answer).len() <= answer.len());
            prop_assert!(found.physical_bytes >= found.logical_bytes);
        }
    }
}
