//! Options of mounts: what was asked for against what is in effect.

use fathom_base::units::parse_size;
use fathom_sys::mounts::Mount;
use fathom_sys::sysroot::SysRoot;

/// How an option that was asked for came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The kernel shows it.
    Shown,
    /// The kernel shows something else.
    Different(String),
    /// It means something else than people think.
    Explained(String),
    /// The kernel does not show it: it is its default, or it is not shown at all.
    NotShown,
}

/// Options that mount once knew, with what became of them.
const REMOVED: &[(&str, &str, &str)] = &[
    ("xfs", "barrier", "removed in Linux 4.19: XFS always flushes; leave it out"),
    ("xfs", "nobarrier", "removed in Linux 4.19: XFS always flushes, and no option turns that off"),
    ("xfs", "delaylog", "removed in Linux 3.3: logging is always delayed; leave it out"),
    ("xfs", "nodelaylog", "removed in Linux 3.3: logging is always delayed"),
    ("xfs", "osyncisdsync", "removed in Linux 4.0"),
    ("xfs", "ihashsize", "removed in Linux 4.0"),
    ("btrfs", "inode_cache", "removed in Linux 5.11"),
    ("btrfs", "alloc_start", "removed in Linux 4.13"),
    ("btrfs", "subvolrootid", "removed in Linux 4.13"),
    ("btrfs", "recovery", "replaced by rescue=usebackuproot"),
    ("ext4", "orlov", "removed in Linux 4.1: it is always on; leave it out"),
    ("ext4", "oldalloc", "removed in Linux 4.1"),
    ("ext4", "nobh", "without effect since Linux 3.5; leave it out"),
    ("ext4", "bh", "without effect since Linux 3.5; leave it out"),
];

/// What is known of an option that this kernel may refuse.
pub(crate) fn removed(kind: &str, options: &[String]) -> Vec<String> {
    let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    let one = |option: &String| {
        let of_kind = |known: &&(&str, &str, &str)| known.0 == kind && known.1 == name(option);
        REMOVED.iter().find(of_kind).map(|(_, _, what)| format!("{option}: {what}"))
    };
    options.iter().filter_map(one).collect()
}

/// All options that the kernel shows: of the mount, of the filesystem, and what only `/proc/fs` tells.
pub(crate) fn in_effect(root: &SysRoot, mount: &Mount, device_name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for text in [&mount.options, &mount.super_options] {
        words.extend(text.split(',').map(str::to_owned));
    }
    let options = root.read(format!("proc/fs/ext4/{device_name}/options")).unwrap_or_default();
    words.extend(options.lines().map(str::to_owned));
    words.retain(|word| !word.is_empty());
    words
}

/// How one came out.
pub(crate) fn effect(asked: &str, shown: &[String]) -> Effect {
    let has = |word: &str| shown.iter().any(|shown| shown == word);
    let asked = match asked {
        "barrier=0" => "nobarrier",
        "barrier=1" => "barrier",
        other => other,
    };
    match asked {
        "" | "defaults" | "rw" | "auto" | "async" => return Effect::Shown,
        "atime" if has("relatime") => {
            let text = "atime alone means relatime since Linux 2.6.30: access times are written at most once a day; \
                        strictatime writes them always";
            return Effect::Explained(text.to_owned());
        }
        "strictatime" if has("relatime") || has("noatime") => {
            return Effect::Different("relatime or noatime".to_owned());
        }
        "strictatime" | "atime" => return Effect::Shown,
        _ => {}
    }
    if has(asked) {
        return Effect::Shown;
    }
    if let Some((key, value)) = asked.split_once('=') {
        let of_key = |shown: &&String| shown.split_once('=').is_some_and(|(k, _)| k == key);
        return match shown.iter().find(of_key) {
            Some(found) if is_same_value(found.split_once('=').map_or("", |(_, v)| v), value) => {
                Effect::Shown
            }
            Some(found) => Effect::Different(found.clone()),
            None => Effect::NotShown,
        };
    }
    let opposite = match asked.strip_prefix("no") {
        Some(rest) => rest.to_owned(),
        None => format!("no{asked}"),
    };
    let contrary = |word: &&String| {
        **word == opposite || word.split_once('=').is_some_and(|(key, _)| key == opposite)
    };
    match shown.iter().find(contrary) {
        Some(found) => Effect::Different(found.clone()),
        None => Effect::NotShown,
    }
}

/// `256k` and `262144` are the same; so are `zstd` and `zstd:3`, where a default was filled in.
fn is_same_value(shown: &str, asked: &str) -> bool {
    let size = |text: &str| parse_size(text).ok();
    shown == asked
        || shown.split(':').next() == Some(asked)
        || (size(shown).is_some() && size(shown) == size(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: &str, shown: &str, expected: Effect) {
        let shown: Vec<String> = shown.split(',').map(str::to_owned).collect();
        assert_eq!(effect(asked, &shown), expected, "{asked} of {shown:?}");
    }

    #[test]
    fn what_was_asked_is_found_in_what_is_shown() {
        let different = |text: &str| Effect::Different(text.to_owned());
        check("noatime", "rw,noatime", Effect::Shown);
        check("noatime", "rw,relatime", Effect::NotShown);
        check("strictatime", "rw,relatime", different("relatime or noatime"));
        check("strictatime", "rw", Effect::Shown);
        check("data=journal", "rw,data=ordered", different("data=ordered"));
        check("logbsize=256k", "rw,logbsize=262144", Effect::Shown);
        check("compress=zstd", "rw,compress=zstd:3", Effect::Shown);
        check("barrier=0", "rw,barrier", different("barrier"));
        check("barrier=0", "rw,nobarrier", Effect::Shown);
        check("nodelalloc", "rw,delalloc", different("delalloc"));
        check("nodiscard", "rw,discard=async", different("discard=async"));
        check("commit=5", "rw", Effect::NotShown);
        let shown = ["relatime".to_owned()];
        assert!(
            matches!(effect("atime", &shown), Effect::Explained(text) if text.contains("strictatime"))
        );
    }

    #[test]
    fn options_that_are_gone_are_explained() {
        let options = ["noatime".to_owned(), "nobarrier".to_owned()];
        let text = removed("xfs", &options);
        assert_eq!(text.len(), 1);
        assert!(text[0].starts_with("nobarrier: removed in Linux 4.19"), "{text:?}");
        assert!(removed("ext4", &options).is_empty());
    }
}
