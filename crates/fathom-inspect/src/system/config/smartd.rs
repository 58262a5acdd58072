//! `smartd.conf`, see smartd.conf(5): a device or `DEVICESCAN` with directives behind it. `DEFAULT` sets those of all lines
//! after it; what follows `DEVICESCAN` is not read.

use fathom_model::system::SmartdConfiguration;

/// What a file says. Addresses are not kept.
#[must_use]
pub fn parse(text: &str) -> SmartdConfiguration {
    let mut found = SmartdConfiguration::default();
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(subject) = words.next() else { continue };
        let directives: Vec<&str> = words.collect();
        let has = |directive: &str| {
            directives.iter().any(|word| word.starts_with(directive) && !word.starts_with("--"))
        };
        found.schedules_tests |= has("-s");
        found.alarm |= has("-m");
        match subject {
            "DEFAULT" => {}
            "DEVICESCAN" => {
                found.scan = true;
                break;
            }
            device => found.devices.push(device.to_owned()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn devices_tests_and_alarms() {
        let found = parse(
            "# DEVICESCAN\nDEFAULT -a\n/dev/sda -a -o on \\\n  -s (S/../.././02|L/../../6/03) # nightly\n/dev/nvme0 -m root\n",
        );
        assert!(!found.scan && found.schedules_tests && found.alarm);
        assert_eq!(found.devices, ["/dev/sda", "/dev/nvme0"]);
    }

    #[test]
    fn nothing_counts_behind_a_scan() {
        let found = parse("DEVICESCAN -d removable -n standby\n/dev/sda -s x -m root\n");
        assert!(found.scan && !found.schedules_tests && !found.alarm);
        assert!(found.devices.is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in any::<String>()) {
            prop_assert!(parse(&text).devices.len() <= text.lines().count());
        }
    }
}
