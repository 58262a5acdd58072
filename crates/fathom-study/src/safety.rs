//! What settings of journal, barrier and data mode mean for what is on the disk when a crash or a power cut comes, and for how
//! long it takes to be back.

use fathom_base::units::format_size;
use fathom_model::stack::{MountFacts, Stack};

/// One setting as it is, and its price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// The setting in the words of the mount: `barrier=0`.
    pub setting: String,
    /// What it means for integrity and recovery.
    pub text: String,
    /// It is the safe one, which filesystems have when nobody says.
    pub is_usual: bool,
}

/// Whether flushes order writes; none where the file system has no such switch (any more).
#[must_use]
pub fn barrier(mount: &MountFacts) -> Option<bool> {
    let off = mount.has_option("nobarrier") || mount.option_value("barrier") == Some("0");
    match mount.fs_type.as_str() {
        "ext2" => None,
        // XFS took its switch away with Linux 4.19, and always flushes since.
        "ext3" | "ext4" | "reiserfs" | "btrfs" | "xfs" => Some(!off),
        _ => off.then_some(false),
    }
}

/// Which data goes through the journal, or before it; none where there is no journal.
#[must_use]
pub fn data_mode<'m>(stack: &Stack, mount: &'m MountFacts) -> Option<&'m str> {
    let is_ext = matches!(mount.fs_type.as_str(), "ext3" | "ext4");
    let is_journaled = is_ext && journal(stack, mount) != Some("none");
    mount.option_value("data").or(is_journaled.then_some("ordered"))
}

/// `int`, `ext` or `none`; none where nothing is known.
#[must_use]
pub fn journal(stack: &Stack, mount: &MountFacts) -> Option<&'static str> {
    let fs = stack.filesystem()?.fs.as_ref()?;
    let is_external = fs.internal_log == Some(false)
        || ["journal_dev", "journal_path", "logdev"]
            .iter()
            .any(|key| mount.option_value(key).is_some());
    match fs.journal {
        _ if is_external => Some("ext"),
        Some(false) => Some("none"),
        Some(true) => Some("int"),
        None => fs.internal_log.map(|_| "int"),
    }
}

/// All settings that can be told of, the usual ones too.
#[must_use]
pub fn prices(stack: &Stack) -> Vec<Price> {
    let Some(mount) = stack.mount() else { return Vec::new() };
    let price =
        |setting: String, text: &str, is_usual| Price { setting, text: text.to_owned(), is_usual };
    let mut prices = Vec::new();
    match barrier(mount) {
        Some(false) => prices.push(price(
            "barrier=0".into(),
            "a power cut may destroy the filesystem unless every cache below has a battery; then it takes a full check (fsck), \
             minutes to hours, or the backup",
            false,
        )),
        Some(true) => prices.push(price(
            "barrier=1".into(),
            "the order of writes holds across a power cut, as long as the devices keep to flushes",
            true,
        )),
        None => {}
    }
    match data_mode(stack, mount) {
        Some("writeback") => prices.push(price(
            "data=writeback".into(),
            "after a crash, files that were written last may hold old or somebody else's data; the journal replays in seconds \
             all the same",
            false,
        )),
        Some("journal") => prices.push(price(
            "data=journal".into(),
            "data is written twice; after a crash files hold what was written last, and the replay takes longer, up to the size \
             of the journal",
            false,
        )),
        Some("ordered") => prices.push(price(
            "data=ordered".into(),
            "after a crash no file holds somebody else's data, and what was written last may be missing; the journal replays \
             in seconds",
            true,
        )),
        _ => {}
    }
    let bytes = stack.filesystem().and_then(|node| node.fs.as_ref()?.journal_bytes);
    prices.extend(journal(stack, mount).map(|place| of_journal(place, bytes)));
    let commit_s = mount.option_value("commit").and_then(|text| text.parse::<u64>().ok());
    // What the kernel takes by itself: fs/jbd2 and fs/btrfs.
    let usual_s = if mount.fs_type == "btrfs" { 30 } else { 5 };
    if let Some(seconds) = commit_s.filter(|seconds| *seconds > usual_s) {
        let text =
            format!("a crash loses what was done in up to {seconds} s, instead of {usual_s} s");
        prices.push(price(format!("commit={seconds}"), &text, false));
    }
    prices
}

/// The price of a journal's place, in a word of [`journal`], and of its size, where that is known.
#[must_use]
pub fn of_journal(place: &str, bytes: Option<u64>) -> Price {
    let replayed = match bytes.map(format_size) {
        Some(size) => {
            format!(
                "after a crash it is replayed: at most its {size} are read, and written to their places"
            )
        }
        None => "after a crash it is replayed, in seconds".to_owned(),
    };
    let (setting, text, is_usual) = match place {
        "ext" => (
            "journal on another device",
            "the filesystem is lost or needs a full check when that device is, also one in memory at a power cut; else the \
             replay takes seconds",
            false,
        ),
        "none" => (
            "no journal",
            "after a crash the whole filesystem is checked (fsck), minutes to hours",
            false,
        ),
        _ => ("journal on the device itself", replayed.as_str(), true),
    };
    Price { setting: setting.to_owned(), text: text.to_owned(), is_usual }
}

/// A filesystem with these mount options, with or without a journal, for tests.
#[cfg(test)]
pub(crate) fn fixture(kind: &str, options: &[&str], journal: Option<bool>) -> Stack {
    use fathom_model::stack::FsFacts;
    let mut stack = crate::fixtures::record().targets[0].stack.clone();
    stack.nodes[0].mount = Some(MountFacts {
        fs_type: kind.to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..MountFacts::default()
    });
    stack.nodes[1].fs = Some(FsFacts { journal, ..FsFacts::default() });
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(kind: &str, options: &[&str], journal: Option<bool>) -> Vec<(String, bool)> {
        let prices = prices(&fixture(kind, options, journal));
        prices.into_iter().map(|price| (price.setting, price.is_usual)).collect()
    }

    #[test]
    fn the_usual_settings_have_their_price_too() {
        let usual = settings("ext4", &["rw"], Some(true));
        let words = ["barrier=1", "data=ordered", "journal on the device itself"];
        assert_eq!(usual, words.map(|word| (word.to_owned(), true)));
        let none = settings("ext4", &["rw"], Some(false));
        assert_eq!(none[1], ("no journal".to_owned(), false), "and no mode of data: {none:?}");
    }

    #[test]
    fn what_is_replayed_after_a_crash_is_no_more_than_the_journal() {
        let mut stack = fixture("ext4", &["rw"], Some(true));
        let last = |stack: &Stack| prices(stack).pop().expect("the journal").text;
        assert_eq!(last(&stack), "after a crash it is replayed, in seconds");
        stack.nodes[1].fs.as_mut().expect("a filesystem").journal_bytes = Some(64 << 20);
        assert!(last(&stack).contains("at most its 64 MiB are read"), "{}", last(&stack));
    }

    #[test]
    fn what_was_set_otherwise_is_told() {
        let options = ["nobarrier", "data=writeback", "commit=60", "journal_dev=0x10"];
        let set = settings("ext4", &options, Some(true));
        let words = ["barrier=0", "data=writeback", "journal on another device", "commit=60"];
        assert_eq!(set, words.map(|word| (word.to_owned(), false)));
        // Btrfs takes 30 s by itself: less is safer than usual, and no price.
        assert!(
            !settings("btrfs", &["commit=20"], None).iter().any(|(s, _)| s.starts_with("commit"))
        );
        assert!(settings("btrfs", &["commit=60"], None).iter().any(|(s, _)| s == "commit=60"));
        assert_eq!(settings("xfs", &["commit=5"], None), [("barrier=1".to_owned(), true)]);
        assert!(settings("tmpfs", &[], None).is_empty());
    }
}
