//! Looking settings up, also by the names of older kernels and tools.

use crate::error::KnobError;
use crate::knob::Knob;
use crate::table;
use fathom_base::suggest;

/// A word of older kernels or of a tool, for a setting that is called otherwise here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldName {
    /// The word.
    pub name: &'static str,
    /// The setting.
    pub id: &'static str,
    /// Its numbers are 512-byte sectors, those of the setting KiB.
    pub is_sectors: bool,
    /// Where it comes from.
    pub note: &'static str,
}

/// Values of older kernels: the setting, the word, and what it is today.
const OLD_VALUES: &[(&str, &str, &str, &str)] = &[
    ("block.scheduler", "noop", "none", "noop went with the single-queue block layer in Linux 5.0"),
    (
        "block.scheduler",
        "deadline",
        "mq-deadline",
        "deadline went with the single-queue block layer in Linux 5.0",
    ),
    (
        "block.scheduler",
        "cfq",
        "bfq",
        "cfq went with the single-queue block layer in Linux 5.0; bfq also has priorities and weights, and other settings",
    ),
    (
        "block.scheduler",
        "anticipatory",
        "mq-deadline",
        "anticipatory was removed in Linux 2.6.33; bfq idles in its place",
    ),
    (
        "block.scheduler",
        "as",
        "mq-deadline",
        "the anticipatory scheduler was removed in Linux 2.6.33",
    ),
];

const OLD_NAMES: &[OldName] = &[
    old("readahead", "block.read_ahead_kb", "tuned and older texts"),
    old("read_ahead", "block.read_ahead_kb", "read-ahead of a device"),
    old("ra", "block.read_ahead_kb", "read-ahead of a device"),
    OldName {
        name: "setra",
        id: "block.read_ahead_kb",
        is_sectors: true,
        note: "blockdev --setra counts 512-byte sectors: twice the number of KiB",
    },
    OldName {
        name: "blkraset",
        id: "block.read_ahead_kb",
        is_sectors: true,
        note: "the ioctl BLKRASET counts 512-byte sectors: twice the number of KiB",
    },
    old(
        "elevator",
        "block.scheduler",
        "the boot parameter elevator= does nothing since Linux 5.0; udev rules set it today",
    ),
    old("io_scheduler", "block.scheduler", "the word of many texts"),
    old("queue_size", "block.nr_requests", "length of the queue above the driver"),
    old("ncq", "scsi.queue_depth", "commands queued in the drive: 1 is without NCQ"),
    old("stripe_cache", "md.stripe_cache_size", "stripes that raid4, raid5 and raid6 keep"),
    old("speed_limit_min", "md.speed_limit_min", "sysctl dev.raid.speed_limit_min"),
    old("speed_limit_max", "md.speed_limit_max", "sysctl dev.raid.speed_limit_max"),
    old("barrier", "ext4.barrier", "mount option of ext4"),
    old("nobarrier", "ext4.barrier", "mount option of ext4: its value 0"),
    old("commit", "ext4.commit", "mount option of ext4; btrfs.commit for btrfs"),
    old(
        "atime",
        "mount.atime",
        "mount -o atime means relatime today; only strictatime writes every access time",
    ),
    old("noatime", "mount.atime", "one of its values"),
    old("relatime", "mount.atime", "one of its values"),
    old("strictatime", "mount.atime", "one of its values"),
];

const fn old(name: &'static str, id: &'static str, note: &'static str) -> OldName {
    OldName { name, id, is_sectors: false, note }
}

/// All settings, by family.
#[must_use]
pub fn all() -> &'static [Knob] {
    table::all()
}

/// The words of older kernels and tools that are understood.
#[must_use]
pub fn old_names() -> &'static [OldName] {
    OLD_NAMES
}

/// What a word means today as the value of a setting, with the reason; none for words of today.
#[must_use]
pub fn old_value(id: &str, value: &str) -> Option<(&'static str, &'static str)> {
    let found = OLD_VALUES.iter().find(|(knob, word, ..)| *knob == id && *word == value);
    found.map(|(_, _, today, reason)| (*today, *reason))
}

/// The old name behind a word as it may be typed: with hyphens in front, in capitals.
#[must_use]
pub fn old_name(word: &str) -> Option<&'static OldName> {
    let word = word.trim_start_matches('-').to_ascii_lowercase();
    OLD_NAMES.iter().find(|old| old.name == word)
}

/// The setting of that name. The last part alone does where it is unique (`nr_requests`), a path of the kernel's too
/// (`/sys/block/sda/queue/nr_requests`, `vm/dirty_ratio`), and words of older kernels and tools (`--setra`, `elevator`, `cfq`).
///
/// # Errors
/// [`KnobError::Unknown`] with the nearest one.
pub fn find(id: &str) -> Result<&'static Knob, KnobError> {
    let word = id.trim().to_ascii_lowercase();
    let exact = |name: &str| all().iter().find(|knob| knob.id == name);
    if let Some(knob) = exact(&word) {
        return Ok(knob);
    }
    if let Some(old) = old_name(&word) {
        return exact(old.id).ok_or_else(|| unknown(id));
    }
    if OLD_VALUES.iter().any(|(_, value, ..)| *value == word) {
        return exact("block.scheduler").ok_or_else(|| unknown(id));
    }
    let last = word.rsplit(['/', '.']).next().unwrap_or_default();
    let ends = |knob: &&Knob| knob.id.split_once('.').is_some_and(|(_, name)| name == last);
    let mut found: Vec<&Knob> = all().iter().filter(ends).collect();
    if word.contains('/') {
        found.retain(|knob| is_path_of(knob, &word));
    } else if word.contains('.') {
        found.clear();
    }
    match found.as_slice() {
        [knob] => Ok(knob),
        [] => Err(unknown(id)),
        several => {
            let names: Vec<&str> = several.iter().map(|knob| knob.id).collect();
            let hint = format!(" alone; it is one of {}", names.join(", "));
            Err(KnobError::Unknown { name: id.to_owned(), hint })
        }
    }
}

/// The word of what was typed that names a setting: of a command line (`mount -o atime`), with a value behind it (`elevator=`) or with
/// the places of a plan (`block.read_ahead_kb@members`). All of it where none does.
#[must_use]
pub fn word_of(typed: &str) -> &str {
    if find(typed).is_ok() {
        return typed;
    }
    let words = typed.split_whitespace();
    let mut words = words.map(|word| word.split(['=', '@']).next().unwrap_or_default());
    words.find(|word| find(word).is_ok()).unwrap_or(typed)
}

/// True when a path of the kernel's ends as the setting's place does.
fn is_path_of(knob: &Knob, path: &str) -> bool {
    let place = knob.place();
    let tail: Vec<&str> = place.rsplit('/').take(2).collect();
    let mut given = path.rsplit('/');
    tail.first() == given.next().as_ref()
        && (tail.get(1).is_none_or(|dir| {
            given.next().is_none_or(|word| *dir == word || dir.chars().any(char::is_uppercase))
        }))
}

fn unknown(id: &str) -> KnobError {
    const SHOWN: usize = 8;
    let known = all().iter().map(|knob| knob.id).chain(OLD_NAMES.iter().map(|old| old.name));
    let mut hint = suggest::hint(id, known);
    let word = id.to_ascii_lowercase();
    let with_it = all().iter().map(|knob| knob.id).filter(|known| known.contains(&word));
    let with_it: Vec<&str> = with_it.take(SHOWN).collect();
    if hint.is_empty() && !word.is_empty() && !with_it.is_empty() {
        hint = format!("; there are {}", with_it.join(", "));
    }
    KnobError::Unknown { name: id.to_owned(), hint }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
