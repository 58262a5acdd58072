//! Targets that spread, copy, encrypt or protect data.

use super::{Line, Usage, Words};

/// Status of a `raid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaidStatus<'a> {
    /// `raid1`, `raid5_ls`, ...
    pub level: &'a str,
    /// One letter for each device: `A` in sync, `a` not yet, `D` dead.
    pub health: &'a str,
    /// Sectors in sync.
    pub in_sync: Usage,
    /// `idle`, `resync`, `recover`, `check`, `repair`, `reshape`, `frozen`.
    pub action: &'a str,
    /// Sectors found to differ by the last check.
    pub mismatches: u64,
}

/// Status of a `raid`: `raid1 2 AA 2097152/2097152 idle 0 0 -`.
#[must_use]
pub fn raid_status(text: &str) -> Option<RaidStatus<'_>> {
    let mut words = Words::of(text);
    let level = words.word()?;
    let _devices = words.number()?;
    let (health, in_sync) = (words.word()?, words.usage()?);
    // Targets before version 1.5 end here.
    let action = words.word().unwrap_or("idle");
    let mismatches = words.number().unwrap_or(0);
    Some(RaidStatus { level, health, in_sync, action, mismatches })
}

/// Status of a `mirror`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorStatus<'a> {
    /// Regions in sync.
    pub in_sync: Usage,
    /// One letter for each leg: `A` alive, `D` write failed, `S` out of sync, `R` read failed, `F` no flush.
    pub health: &'a str,
}

/// Status of a `mirror`: `2 253:3 253:4 400/400 1 AA 3 disk 253:2 A`.
#[must_use]
pub fn mirror_status(text: &str) -> Option<MirrorStatus<'_>> {
    let mut words = Words::of(text);
    let _legs = words.list()?;
    let in_sync = words.usage()?;
    let health = words.list()?;
    Some(MirrorStatus { in_sync, health: health.first()? })
}

/// Table of a `crypt`; the key is replaced before anybody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CryptTable<'a> {
    /// Cipher and mode.
    pub cipher: &'a str,
    /// Device below, as `major:minor`.
    pub device: &'a str,
    /// `allow_discards`, `no_read_workqueue`, `sector_size:4096`, ...
    pub options: Vec<&'a str>,
}

/// Options of a `crypt` and the words of cryptsetup that ask for them.
const CRYPT_FLAGS: [(&str, &str); 6] = [
    ("allow_discards", "--allow-discards"),
    ("same_cpu_crypt", "--perf-same_cpu_crypt"),
    ("submit_from_crypt_cpus", "--perf-submit_from_crypt_cpus"),
    ("no_read_workqueue", "--perf-no_read_workqueue"),
    ("no_write_workqueue", "--perf-no_write_workqueue"),
    ("high_priority", "--perf-high_priority"),
];

impl CryptTable<'_> {
    /// Words of `cryptsetup refresh` that leave the mapping as it is and switch `more` on: refresh switches off whatever is
    /// not named, and with `--persistent` forgets it.
    #[must_use]
    pub fn refresh_words(&self, more: &[&str]) -> String {
        let wanted = CRYPT_FLAGS
            .iter()
            .filter(|(option, _)| self.options.contains(option) || more.contains(option));
        wanted.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
    }
}

/// Table of a `crypt`: cipher, key, IV offset, device, offset, options.
#[must_use]
pub fn crypt_table(words: &str) -> Option<CryptTable<'_>> {
    let mut words = Words::of(words);
    let cipher = words.word()?;
    let _key_and_iv_offset = words.words(2)?;
    let device = words.word()?;
    let _offset = words.number()?;
    Some(CryptTable { cipher, device, options: words.list().unwrap_or_default() })
}

/// Table of an `integrity`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegrityTable<'a> {
    /// Device below, as `major:minor`.
    pub device: &'a str,
    /// `J` journal, `B` bitmap, `D` direct, `I` inline, `R` recovery.
    pub mode: &'a str,
    /// `journal_sectors:...`, `meta_device:...`, ...
    pub options: Vec<&'a str>,
}

/// Table of an `integrity`: device, reserved sectors, tag size, mode, options.
#[must_use]
pub fn integrity_table(words: &str) -> Option<IntegrityTable<'_>> {
    let mut words = Words::of(words);
    let device = words.word()?;
    let _reserved_and_tag = words.words(2)?;
    Some(IntegrityTable { device, mode: words.word()?, options: words.list().unwrap_or_default() })
}

/// The devices, as `major:minor`, among which a line of a table spreads or copies data; empty where there is just one.
#[must_use]
pub fn legs<'a>(line: Line<'a>) -> Vec<&'a str> {
    match line.kind {
        "striped" => striped_legs(line.words),
        "raid" => raid_legs(line.words),
        "mirror" => mirror_legs(line.words),
        _ => None,
    }
    .unwrap_or_default()
}

/// Count, chunk, then device and offset of each.
fn striped_legs(words: &str) -> Option<Vec<&str>> {
    let mut words = Words::of(words);
    let count = words.number()?;
    let _chunk = words.number()?;
    pairs(&mut words, count, 0)
}

/// Level, parameters, then count, and metadata and data device of each; `-` where one is missing.
fn raid_legs(words: &str) -> Option<Vec<&str>> {
    let mut words = Words::of(words);
    let _level = words.word()?;
    let _parameters = words.list()?;
    let count = words.number()?;
    pairs(&mut words, count, 1)
}

/// Type of the log, its arguments, then count, and device and offset of each.
fn mirror_legs(words: &str) -> Option<Vec<&str>> {
    let mut words = Words::of(words);
    let _log = words.word()?;
    let _arguments = words.list()?;
    let count = words.number()?;
    pairs(&mut words, count, 0)
}

/// One word of each of so many pairs, without those that say that nothing is there.
fn pairs<'a>(words: &mut Words<'a>, count: u64, which: usize) -> Option<Vec<&'a str>> {
    let all: Option<Vec<&str>> =
        (0..count).map(|_| words.words(2).map(|pair| pair[which])).collect();
    Some(all?.into_iter().filter(|device| *device != "-").collect())
}
