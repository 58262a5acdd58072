//! Answers of NVMe controllers: identify structures, health and self-test logs (NVM Express 2.0), as plain bytes.

use super::bytes::Bytes;
use fathom_model::stack::detail::{DriveIdentity, Health};

const KELVIN_OF_0_CELSIUS: i64 = 273;
/// The bit of the critical warning about temperature, which is no damage.
const WARNING_TEMPERATURE: u64 = 1 << 1;

/// Degrees Celsius from kelvin; none for 0, which means that nothing is told.
fn celsius(kelvin: Option<u64>) -> Option<i64> {
    kelvin.filter(|&kelvin| kelvin > 0).map(|kelvin| kelvin as i64 - KELVIN_OF_0_CELSIUS)
}

/// Fills in what Identify Controller says.
pub(crate) fn add_controller(answer: &[u8], found: &mut DriveIdentity, health: &mut Health) {
    let bytes = Bytes(answer);
    found.volatile_cache = bytes.u8(525).map(|byte| byte & 1 == 1);
    // From the warning temperature on the controller may slow down; the critical one is the last.
    health.celsius_limit = celsius(bytes.le16(266)).or_else(|| celsius(bytes.le16(268)));
}

/// True when the controller has power states that it changes by itself.
pub(crate) fn has_power_transitions(controller: &[u8]) -> bool {
    Bytes(controller).u8(265).is_some_and(|byte| byte & 1 == 1)
}

/// True when the controller tests itself on demand.
pub(crate) fn has_self_tests(controller: &[u8]) -> bool {
    Bytes(controller).le16(256).is_some_and(|bits| bits >> 4 & 1 == 1)
}

/// Fills in what Identify Namespace says: formats, the one in use, preferred sizes of writes.
pub(crate) fn add_namespace(answer: &[u8], found: &mut DriveIdentity) {
    let bytes = Bytes(answer);
    let (Some(last), Some(in_use)) = (bytes.u8(25), bytes.u8(26)) else { return };
    // Bits 5 and 6 are the upper ones of the index; older controllers leave them 0.
    let index = u64::from(in_use & 0xf | in_use >> 1 & 0x30);
    let formats = (0..=usize::from(last.min(63))).map(|format| {
        let at = 128 + 4 * format;
        let shift = bytes.u8(at + 2)?;
        let data_bytes = if (9..=16).contains(&shift) { 1u64 << shift } else { 0 };
        Some((data_bytes, bytes.le16(at)?, u64::from(bytes.u8(at + 3)? & 3)))
    });
    let Some(formats) = formats.collect::<Option<Vec<_>>>() else { return };
    let logical = formats.get(index as usize).map(|format| format.0).filter(|&bytes| bytes > 0);
    found.formats = formats;
    found.format = Some(index);
    found.logical_bytes = logical;
    let preferred = bytes.u8(24).is_some_and(|features| features >> 4 & 1 == 1);
    let Some(logical) = logical.filter(|_| preferred) else { return };
    // These count blocks from 0.
    let blocks = |at: usize| bytes.le16(at).map(|count| (count + 1) * logical);
    found.granularity_bytes = blocks(64);
    found.optimal_bytes = blocks(72);
}

/// Fills in the SMART and health log (02h).
pub(crate) fn add_health(log: &[u8], health: &mut Health) {
    let bytes = Bytes(log);
    if log.len() < 200 {
        return;
    }
    let count = |at: usize| {
        // 128 bits; what does not fit into 64 is as good as their highest value.
        let (low, high) = (bytes.le64(at)?, bytes.le64(at + 8)?);
        Some(if high == 0 { low } else { u64::MAX })
    };
    let percent = |at: usize| bytes.u8(at).map(u64::from);
    health.critical_warning = percent(0);
    health.passed = health.critical_warning.map(|bits| bits & !WARNING_TEMPERATURE == 0);
    health.celsius = celsius(bytes.le16(1));
    health.spare_percent = percent(3).zip(percent(4));
    health.used_percent = percent(5);
    health.power_on_hours = count(128);
    health.uncorrectable = count(160);
    health.hot_minutes = bytes.le32(192).zip(bytes.le32(196));
}

/// The last result in the self-test log (06h), with the hour of it. Tests that somebody or something broke off count as
/// none.
pub(crate) fn self_test(log: &[u8]) -> Option<(String, u64)> {
    let bytes = Bytes(log);
    if bytes.u8(0)? & 0xf != 0 {
        return Some(("running".to_owned(), 0));
    }
    for entry in log.get(4..)?.chunks_exact(28).take(20) {
        let word = match entry[0] & 0xf {
            0 => "passed",
            5..=7 => "failed",
            0xf => break,
            _ => continue,
        };
        return Some((word.to_owned(), Bytes(entry).le64(4)?));
    }
    Some(("never".to_owned(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(answer: &mut [u8], at: usize, bytes: &[u8]) {
        answer[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn a_controller() {
        let mut answer = vec![0u8; 4096];
        put(&mut answer, 256, &(1u16 << 4).to_le_bytes());
        put(&mut answer, 265, &[1]);
        put(&mut answer, 266, &343u16.to_le_bytes());
        put(&mut answer, 268, &353u16.to_le_bytes());
        put(&mut answer, 525, &[0x07]);
        let (mut found, mut health) = (DriveIdentity::default(), Health::default());
        add_controller(&answer, &mut found, &mut health);
        assert_eq!((found.volatile_cache, health.celsius_limit), (Some(true), Some(70)));
        assert!(has_power_transitions(&answer) && has_self_tests(&answer));
        put(&mut answer, 266, &[0, 0]);
        put(&mut answer, 525, &[0x06]);
        add_controller(&answer, &mut found, &mut health);
        assert_eq!((found.volatile_cache, health.celsius_limit), (Some(false), Some(80)));
    }

    #[test]
    fn formats_of_a_namespace() {
        let mut answer = vec![0u8; 4096];
        put(&mut answer, 24, &[1 << 4, 2, 1]);
        put(&mut answer, 64, &15u16.to_le_bytes());
        put(&mut answer, 72, &31u16.to_le_bytes());
        put(&mut answer, 128, &[0, 0, 9, 2]);
        put(&mut answer, 132, &[0, 0, 12, 0]);
        put(&mut answer, 136, &[8, 0, 12, 1]);
        let mut found = DriveIdentity::default();
        add_namespace(&answer, &mut found);
        assert_eq!(found.formats, [(512, 0, 2), (4096, 0, 0), (4096, 8, 1)]);
        assert_eq!((found.format, found.logical_bytes), (Some(1), Some(4096)));
        assert_eq!(found.granularity_bytes, Some(64 << 10));
        assert_eq!(found.optimal_bytes, Some(128 << 10));

        // More than 16 formats: the 18th is in use.
        put(&mut answer, 24, &[0, 17, 0x21]);
        put(&mut answer, 128 + 17 * 4, &[0, 0, 9, 3]);
        let mut many = DriveIdentity::default();
        add_namespace(&answer, &mut many);
        assert_eq!(
            (many.formats.len(), many.format, many.logical_bytes),
            (18, Some(17), Some(512))
        );
        assert_eq!(many.optimal_bytes, None);
    }

    #[test]
    fn health_of_a_worn_drive() {
        let mut log = vec![0u8; 512];
        put(&mut log, 0, &[0x01]);
        put(&mut log, 1, &318u16.to_le_bytes());
        put(&mut log, 3, &[9, 10, 102]);
        put(&mut log, 128, &8760u64.to_le_bytes());
        put(&mut log, 160, &4u64.to_le_bytes());
        put(&mut log, 192, &30u32.to_le_bytes());
        put(&mut log, 196, &2u32.to_le_bytes());
        let mut health = Health::default();
        add_health(&log, &mut health);
        assert_eq!((health.passed, health.critical_warning), (Some(false), Some(1)));
        assert_eq!((health.celsius, health.spare_percent), (Some(45), Some((9, 10))));
        assert_eq!((health.used_percent, health.power_on_hours), (Some(102), Some(8760)));
        assert_eq!((health.uncorrectable, health.hot_minutes), (Some(4), Some((30, 2))));
        for (bits, passed) in [(0x00, true), (0x02, true), (0x03, false), (0x20, false)] {
            log[0] = bits;
            add_health(&log, &mut health);
            assert_eq!(health.passed, Some(passed), "{bits:#x}");
        }
        put(&mut log, 168, &[1]);
        add_health(&log, &mut health);
        assert_eq!(health.uncorrectable, Some(u64::MAX));
        let mut cut = Health::default();
        add_health(&log[..100], &mut cut);
        assert_eq!(cut, Health::default());
    }

    #[test]
    fn self_tests() {
        let told = |now: u8, results: &[u8]| {
            let mut log = vec![0x0fu8; 564];
            log[0] = now;
            for (place, result) in results.iter().enumerate() {
                let at = 4 + place * 28;
                log[at] = 0x10 | result;
                put(&mut log, at + 4, &(1000 - place as u64).to_le_bytes());
            }
            self_test(&log).unwrap()
        };
        assert_eq!(told(0, &[0, 7]), ("passed".to_owned(), 1000));
        assert_eq!(told(0, &[1, 7, 0]), ("failed".to_owned(), 999));
        assert_eq!(told(1, &[0]), ("running".to_owned(), 0));
        assert_eq!(told(0, &[]), ("never".to_owned(), 0));
        assert_eq!(told(0, &[1, 2]), ("never".to_owned(), 0));
        assert_eq!(self_test(&[]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_answers(answer in prop::collection::vec(any::<u8>(), 0..4096)) {
            let (mut found, mut health) = (DriveIdentity::default(), Health::default());
            add_controller(&answer, &mut found, &mut health);
            add_namespace(&answer, &mut found);
            add_health(&answer, &mut health);
            let _ = (has_power_transitions(&answer), has_self_tests(&answer), self_test(&answer));
            prop_assert!(found.formats.len() <= 64);
            prop_assert!(found.logical_bytes.is_none_or(|bytes| bytes >= 512));
        }
    }
}
