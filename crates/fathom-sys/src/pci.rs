//! PCI Express as sysfs tells it: links, sizes of transfers, error counters.

/// True for the address of a PCI function, such as `0000:03:00.0`.
#[must_use]
pub fn is_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let hexadecimal = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(parts.as_slice(), [_, bus, slot, function]
        if bus.len() == 2 && slot.len() == 2 && function.len() == 1)
        && parts.iter().all(hexadecimal)
}

/// The rate in `8.0 GT/s PCIe` in tenths of gigatransfers per second: 80. None for `Unknown`.
#[must_use]
pub fn speed_gts_x10(text: &str) -> Option<u64> {
    let (number, rest) = text.trim().split_once(' ')?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let tenth: u64 = tenth.get(..1)?.parse().ok()?;
    let tenths = whole.parse::<u64>().ok()?.checked_mul(10)?.checked_add(tenth)?;
    (rest.starts_with("GT/s") && tenths > 0).then_some(tenths)
}

/// The number of lanes; none where there is no link (0) or the device does not know (255).
#[must_use]
pub fn lanes(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|lanes| (1..255).contains(lanes))
}

/// The sum in a counter file of Advanced Error Reporting (`aer_dev_correctable`): its line `TOTAL_ERR_*`.
#[must_use]
pub fn errors_total(text: &str) -> Option<u64> {
    let mut totals = text.lines().filter(|line| line.starts_with("TOTAL_ERR_"));
    totals.next()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Largest payload of a packet and largest read request in bytes, from the configuration space of a function; none where
/// that has no PCI Express capability, or only its first 64 bytes could be read.
#[must_use]
pub fn transfer_limits_bytes(configuration: &[u8]) -> Option<(u64, u64)> {
    const CAPABILITIES_LISTED: u8 = 0x10;
    const EXPRESS: u8 = 0x10;
    if configuration.get(6)? & CAPABILITIES_LISTED == 0 {
        return None;
    }
    let mut at = usize::from(configuration.get(0x34)? & !3);
    // There is room for 48 capabilities; a list that is longer is a circle.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        if *configuration.get(at)? == EXPRESS {
            let control =
                u16::from_le_bytes([*configuration.get(at + 8)?, *configuration.get(at + 9)?]);
            let bytes = |code: u16| (code <= 5).then(|| 128u64 << code);
            return Some((bytes(control >> 5 & 7)?, bytes(control >> 12 & 7)?));
        }
        at = usize::from(configuration.get(at + 1)? & !3);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert!(is_address("0000:03:00.0") && is_address("10000:e1:1f.7"));
        for other in ["pci0000:00", "0000:03:00", "ata1", "0:0:0:0", "nvme0", ""] {
            assert!(!is_address(other), "{other}");
        }
    }

    #[test]
    fn rates_and_lanes() {
        for (text, rate) in [
            ("2.5 GT/s PCIe", Some(25)),
            ("8.0 GT/s PCIe", Some(80)),
            ("32.0 GT/s PCIe", Some(320)),
            ("8 GT/s", Some(80)),
            ("Unknown", None),
            ("Unknown speed", None),
            ("0.0 GT/s", None),
            ("99999999999999999999.0 GT/s", None),
        ] {
            assert_eq!(speed_gts_x10(text), rate, "{text}");
        }
        assert_eq!([lanes("4"), lanes("0"), lanes("255"), lanes("x")], [Some(4), None, None, None]);
    }

    #[test]
    fn counters() {
        let text = "RxErr 3\nBadTLP 1\nRollover 0\nTOTAL_ERR_COR 4\n";
        assert_eq!(errors_total(text), Some(4));
        assert_eq!(errors_total("RxErr 3\n"), None);
    }

    /// A configuration space with a power management capability at 40h and PCI Express at 70h.
    fn configuration() -> Vec<u8> {
        let mut space = vec![0u8; 256];
        space[6] = 0x10;
        space[0x34] = 0x40;
        (space[0x40], space[0x41]) = (0x01, 0x70);
        (space[0x70], space[0x71]) = (0x10, 0x00);
        // Payload 256 bytes (code 1), read requests 512 bytes (code 2).
        let control: u16 = 1 << 5 | 2 << 12 | 0xf;
        space[0x78..0x7a].copy_from_slice(&control.to_le_bytes());
        space
    }

    #[test]
    fn sizes_of_transfers() {
        let space = configuration();
        assert_eq!(transfer_limits_bytes(&space), Some((256, 512)));
        assert_eq!(transfer_limits_bytes(&space[..64]), None, "as a user sees it");
        let mut circle = space.clone();
        (circle[0x70], circle[0x71]) = (0x05, 0x40);
        assert_eq!(transfer_limits_bytes(&circle), None);
        let mut none = space;
        none[6] = 0;
        assert_eq!(transfer_limits_bytes(&none), None);
    }
}
