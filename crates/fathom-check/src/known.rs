//! Names of programs and words of the kernel's log that readers of a machine and rules about it share.

/// Programs that watch over storage and run all the time, or serve it, by their names; one does no work on storage by
/// itself, or too little to tell.
pub const WATCHERS: [&str; 12] = [
    "cron",
    "crond",
    "dmeventd",
    "irqbalance",
    "lvmpolld",
    "mdadm",
    "mdmon",
    "multipathd",
    "smartd",
    "tuned",
    "udisksd",
    "zed",
];

/// Words of resets and timeouts in the kernel's log, in lower case.
const RESET: [&str; 21] = [
    "timeout, aborting",
    "timeout, reset controller",
    "timeout, disable controller",
    "timeout, completion polled",
    "controller is down; will reset",
    "resetting controller",
    "device not ready",
    "removing after probe failure",
    "disabling device after reset failure",
    "killing adapter",
    "hard resetting link",
    "link is slow to respond",
    "exception emask",
    "timing out command",
    "attempting task abort",
    "task abort:",
    "device reset",
    "host reset",
    "adapter reset",
    "device offlined",
    "rejecting i/o to",
];

/// What libata says of a drive that it uses no more, and of a port that it cannot bring up. Drivers of other things know the
/// words as well.
pub(crate) const PORT_DISABLED: &str = "disable device";
pub(crate) const PORT_GIVEN_UP: &str = "reset failed, giving up";

/// The port in a line of libata, in lower case: `ata3` of `ata3.00: disable device`.
pub(crate) fn ata_port(text: &str) -> Option<&str> {
    let end = text.find([':', '.'])?;
    let number = text[..end].strip_prefix("ata")?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(&text[..end])
}

/// True for a line, in lower case, about a reset or a timeout.
pub(crate) fn is_reset(text: &str) -> bool {
    let of_port = [PORT_DISABLED, PORT_GIVEN_UP].iter().any(|words| text.contains(words));
    RESET.iter().any(|words| text.contains(words)) || of_port && ata_port(text).is_some()
}

/// Words of links.
pub(crate) const LINK: [&str; 7] = [
    "pcie bus error",
    "aer:",
    "dpc: containment event",
    "icrc",
    "limiting sata link speed",
    "speed down requested",
    "ncq disabled",
];

/// Words of errors that a device itself tells.
pub(crate) const ERROR: [&str; 7] = [
    "critical medium error",
    "critical target error",
    "unrecovered read error",
    "medium error",
    "hardware error",
    "i/o error",
    "read error not corrected",
];

/// What a port that is not the active one answers to everything: its sense says why (transition, standby, unavailable).
pub(crate) const PASSIVE: &str = "logical unit not accessible";

/// Words of what arrays, volumes, paths and filesystems tell, and of what only explains other lines.
const OTHER: [&str; 16] = [
    "critical space allocation error",
    "log_info(",
    PASSIVE,
    "failed command:",
    "disk failure on",
    "kicking non-fresh",
    "read error corrected",
    "failing path",
    "reached low water mark",
    "no free space",
    "is misaligned",
    "alignment inconsistency",
    "ext4-fs error",
    "metadata i/o error",
    "btrfs error",
    "corruption",
];

/// What every SCSI drive says once, when it is first asked, and every port of PCI Express that can tell errors, at boot; and
/// how errors of processors and memory begin.
pub(crate) const NO_TROUBLE: [&str; 3] =
    ["power-on or device reset", "aer: enabled with irq", "[hardware error]"];

/// Options of mounts whose values are words of the filesystem's own.
pub(crate) const VALUED: &[&str] =
    &["commit", "compress", "data", "dax", "discard", "errors", "jqfmt", "logbufs", "sec", "vers"];

/// An option of a mount, of which the value stays where that is a figure or a word of the filesystem's own: others name people,
/// machines and places, or are secret.
#[must_use]
pub fn plain_option(option: &str) -> &str {
    let Some((name, value)) = option.split_once('=') else { return option };
    let figure = value.trim_end_matches(|c: char| "kKmMgGtT%".contains(c));
    let is_figure = !figure.is_empty() && figure.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if is_figure || VALUED.contains(&name) { option } else { name }
}

/// All the words that lines of the kernel's log are known by.
pub(crate) fn phrases() -> impl Iterator<Item = &'static str> {
    let ports = [PORT_DISABLED, PORT_GIVEN_UP];
    let lists = [RESET.as_slice(), &LINK, &ERROR, &OTHER, &NO_TROUBLE].into_iter().flatten();
    lists.copied().chain(ports)
}

/// True for a line of the kernel's log about trouble with storage.
#[must_use]
pub fn is_trouble(line: &str) -> bool {
    let text = line.to_lowercase();
    let lists = [LINK.as_slice(), &ERROR, &OTHER];
    let has = |words: &[&str]| words.iter().any(|words| text.contains(words));
    !has(&NO_TROUBLE) && (is_reset(&text) || lists.into_iter().any(has))
}

/// True for a line about a link: one card with a bad contact writes thousands.
#[must_use]
pub fn is_of_link(line: &str) -> bool {
    let text = line.to_lowercase();
    LINK.iter().any(|words| text.contains(words))
}

/// What a timer or cron job of that kind does to storage, for people; none for those that only look.
#[must_use]
pub fn work_of_timer(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "watch" => return None,
        "md-check" => "a check of arrays",
        "trim" => "discards of free space",
        "scrub" => "a scrub of filesystems",
        "backup" => "a backup",
        "locate" => "an index of all file names",
        "smart-test" => "a self-test of drives",
        _ => "work on storage",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_from_greetings() {
        assert!(is_trouble("nvme nvme0: I/O 12 QID 3 timeout, aborting"));
        assert!(is_trouble("EXT4-fs error (device sda1): htree_dirblock_to_tree"));
        assert!(!is_trouble("sd 2:0:0:0: Power-on or device reset occurred"));
        assert!(!is_trouble("pcieport 0000:00:05.0: AER: enabled with IRQ 25"));
        assert!(is_trouble("pcieport 0000:00:05.0: AER: Corrected error received: 0000:01:00.0"));
        assert!(!is_trouble("sd 0:0:0:0: [sda] Attached SCSI disk"));
        assert!(!is_trouble("mce: [Hardware Error]: Machine check events logged"));
        assert!(!is_trouble("{1}[Hardware Error]: event severity: corrected"));
        assert!(is_trouble("ata3.00: disable device"));
        assert!(is_trouble("ata12: reset failed, giving up"));
        for other in [
            "dfl-port dfl-port.0: timeout, failure to disable device",
            "sony_laptop: Couldn't disable device",
            "atafb: reset failed, giving up",
            "ata: disable device",
        ] {
            assert!(!is_trouble(other), "{other}");
        }
        assert!(is_trouble("sd 0:0:0:0: [sda] tag#3 Sense Key : Hardware Error [current]"));
    }
}
