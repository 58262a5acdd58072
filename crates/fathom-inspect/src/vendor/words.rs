//! Words and numbers as the tools print them.

/// `446.625 GB`, `256 KB`, `572293 MB` with units of 1024: what storcli and arcconf mean, and ssacli for volumes.
pub(super) fn binary_bytes(text: &str) -> Option<u64> {
    bytes(text, 1024.0)
}

/// `600 GB` with units of 1000: what ssacli prints of drives.
pub(super) fn decimal_bytes(text: &str) -> Option<u64> {
    bytes(text, 1000.0)
}

fn bytes(text: &str, unit: f64) -> Option<u64> {
    let mut words = text.split_whitespace();
    let (number, name) = (words.next()?, words.next()?);
    let power = match name.to_ascii_uppercase().as_str() {
        "B" | "BYTES" => 0,
        "KB" | "KIB" => 1,
        "MB" | "MIB" => 2,
        "GB" | "GIB" => 3,
        "TB" | "TIB" => 4,
        "PB" | "PIB" => 5,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * unit.powi(power);
    (bytes.is_finite() && (0.0..1e19).contains(&bytes)).then_some(bytes.round() as u64)
}

/// The number at the beginning: ` 32C (89.60 F)`, `37`, `29 C/ 84 F`.
pub(super) fn leading_number(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// A PCI address in any of the tools' forms (`00:3b:00:00`, `0:3b:0:0`, `0000:3b:00.0`; hexadecimal) as the kernel writes it.
pub(super) fn pci_address(text: &str) -> Option<String> {
    let parts: Option<Vec<u32>> =
        text.trim().split([':', '.']).map(|part| u32::from_str_radix(part, 16).ok()).collect();
    match parts?.as_slice() {
        &[domain, bus, device, function] if bus < 256 && device < 32 && function < 8 => {
            Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
        }
        _ => None,
    }
}

/// The kernel's name in `/dev/sda`, `/dev/sdd (Disk0) (Bus: 1, ...)`; none for `NA`.
pub(super) fn kernel_name(text: &str) -> Option<String> {
    let name = text.split_whitespace().next()?.strip_prefix("/dev/")?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// A text that says something.
pub(super) fn some(text: &str) -> Option<String> {
    let text = text.trim();
    let says_nothing = ["", "-", "N/A", "NA", "None", "Unknown", "Not Available"];
    (!says_nothing.contains(&text)).then(|| text.to_owned())
}

/// The level in words as md and people write it: `1+0` and `1(+0)` are RAID10, `6 Reed-Solomon` is RAID6.
pub(super) fn level(text: &str) -> Option<String> {
    let word = text.split_whitespace().next()?;
    let digits: String = word.chars().filter(char::is_ascii_digit).collect();
    if digits.is_empty() { some(text) } else { Some(format!("RAID{digits}")) }
}

/// Full stripe of data of an array of spans: strip times data drives of each span; none for mirrors of two and what is
/// not known.
pub(super) fn stripe_bytes(level: &str, strip: u64, spans: u64, per_span: u64) -> Option<u64> {
    let data = match level {
        "RAID0" | "RAID00" => per_span,
        "RAID10" => per_span / 2,
        "RAID5" | "RAID50" => per_span.checked_sub(1)?,
        "RAID6" | "RAID60" => per_span.checked_sub(2)?,
        _ => return None,
    };
    data.checked_mul(spans)?.checked_mul(strip).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(binary_bytes("446.625 GB"), Some(479_559_942_144));
        assert_eq!(binary_bytes("256 KB"), Some(262_144));
        assert_eq!(decimal_bytes("600 GB"), Some(600_000_000_000));
        for none in ["", "GB", "x GB", "1", "1 parsec", "-1 GB", "inf TB", "NaN KB", "1e300 PB"] {
            assert_eq!(binary_bytes(none), None, "{none}");
        }
    }

    #[test]
    fn numbers_and_addresses() {
        assert_eq!(leading_number(" 32C (89.60 F)"), Some(32));
        assert_eq!((leading_number("N/A"), leading_number("99999999999999999999")), (None, None));
        for text in ["00:3b:00:00", "0:3b:0:0", "0000:3b:00.0"] {
            assert_eq!(pci_address(text).as_deref(), Some("0000:3b:00.0"), "{text}");
        }
        for none in ["", "00:3b:00", "00:3b:00:09", "zz:3b:00:00", "0:100:0:0"] {
            assert_eq!(pci_address(none), None, "{none}");
        }
        assert_eq!(kernel_name("/dev/sdd (Disk0) (Bus: 1)").as_deref(), Some("sdd"));
        assert_eq!((kernel_name("NA"), kernel_name(""), kernel_name("/dev/")), (None, None, None));
    }

    #[test]
    fn levels_and_stripes() {
        for (text, expected) in
            [("1+0", "RAID10"), ("6 Reed-Solomon", "RAID6"), ("RAID5", "RAID5"), ("JBOD", "JBOD")]
        {
            assert_eq!(level(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(stripe_bytes("RAID5", 65536, 1, 4), Some(3 * 65536));
        assert_eq!(stripe_bytes("RAID60", 65536, 2, 6), Some(8 * 65536));
        assert_eq!(stripe_bytes("RAID10", 65536, 3, 2), Some(3 * 65536));
        assert_eq!(stripe_bytes("RAID1", 65536, 1, 2), None);
        assert_eq!(stripe_bytes("RAID6", 65536, 1, 1), None);
        assert_eq!(stripe_bytes("RAID0", u64::MAX, 2, 2), None);
    }
}
