//! Options of mkfs that a plan gives: whatever leads a tool to another device or file than the one that is claimed for it is refused, and
//! so is what takes away the UUID by which the filesystem is found again.

use crate::error::SetupError;
use std::fs;
use std::path::Path;

/// Beginnings of suboptions that name another device or file.
const PLACES: [&str; 9] =
    ["device=", "logdev=", "rtdev=", "name=", "file", "LABEL=", "UUID=", "PARTLABEL=", "PARTUUID="];
/// Beginnings of what would keep it from being found again: a UUID of one's own, a place that is not looked at.
const IDENTITY: [&str; 2] = ["uuid=", "offset="];
const UUIDS: [&str; 2] = ["--uuid", "--device-uuid"];
/// Files that are copied into it.
const ROOTS: [&str; 1] = ["--rootdir"];
/// Options without a value, after which another may stand in the same word (`-FU clear`), by the beginning of the filesystem's name.
const FLAGS: [(&str, &str); 4] =
    [("ext", "cjnqvDFKSV"), ("xfs", "fqCKNV"), ("btrfs", "fqvKMV"), ("f2fs", "fhimqrV")];

/// Refuses what goes beyond the device.
///
/// # Errors
/// [`SetupError::Spec`] with the word and the reason.
pub(crate) fn check(kind: &str, options: &[String]) -> Result<(), SetupError> {
    let mut may_be_value = false;
    for option in options {
        let wrong = reason(kind, &last_of_word(kind, option), may_be_value);
        if let Some(reason) = wrong {
            let text = format!("filesystem.make_options: {option}: {reason}");
            return Err(SetupError::Spec(text));
        }
        may_be_value = option.starts_with('-');
    }
    Ok(())
}

/// The option of a word that may take a value: `-U` of `-FU`.
fn last_of_word(kind: &str, word: &str) -> String {
    let flags = FLAGS.iter().find(|(name, _)| kind.starts_with(name)).map_or("", |known| known.1);
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    let rest = letters.map(|letters| letters.trim_start_matches(|c| flags.contains(c)));
    rest.filter(|rest| !rest.is_empty()).map_or_else(|| word.to_owned(), |rest| format!("-{rest}"))
}

fn reason(kind: &str, option: &str, may_be_value: bool) -> Option<&'static str> {
    const ELSEWHERE: &str = "it names another device or file, to which nobody consented; a journal on a device of its own is \
                             filesystem.journal";
    const UNFOUND: &str =
        "fathom chooses the UUID and the place, because by them it knows the filesystem again";
    // `-cNAME` and `-c NAME` are the same.
    let attached = option.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let attached = attached.and_then(|rest| rest.get(1..)).unwrap_or(option);
    // Tools run in `/`. A directory there that is called like a label is nothing that could be overwritten.
    let is_file = |word: &&str| fs::metadata(Path::new("/").join(word)).is_ok_and(|m| !m.is_dir());
    let pieces = || attached.split([',', '=']);
    let begins =
        |with: &[&str]| attached.split(',').any(|word| with.iter().any(|w| word.starts_with(w)));
    // Each beginning of a long option is that option where no other begins so; `--` alone would make devices of all that follows.
    let name = option.split('=').next().filter(|name| name.starts_with("--"));
    let is_one_of =
        |long: &[&str]| name.is_some_and(|name| long.iter().any(|l| l.starts_with(name)));
    if option.contains('/')
        || begins(&PLACES)
        || is_one_of(&ROOTS)
        || pieces().any(|word| is_file(&word))
    {
        return Some(ELSEWHERE);
    }
    // A further device, and a file for what was on the device before.
    let is_of = |name: &str, word: &str| kind.starts_with(name) && option.starts_with(word);
    if is_of("f2fs", "-c") || is_of("ext", "-z") || is_of("btrfs", "-r") {
        return Some(ELSEWHERE);
    }
    if option.starts_with("-U") || is_one_of(&UUIDS) || begins(&IDENTITY) {
        return Some(UNFOUND);
    }
    (!option.starts_with('-') && !may_be_value)
        .then_some("it is no option and belongs to none, so that mkfs would take it for a device")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(kind: &str, options: &str) -> Result<(), String> {
        let words: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        check(kind, &words).map_err(|error| error.to_string())
    }

    #[test]
    fn options_of_the_filesystem_itself_are_taken() {
        for (kind, options) in [
            (
                "ext4",
                "-E stride=16,stripe_width=48 -O ^has_journal,64bit -m 0 -i 65536 -J size=64 -L data",
            ),
            ("ext4", "-Enodiscard -b4096 -F -N 100000"),
            ("ext4", "-FqE stride=16 -jm0 -cc"),
            (
                "xfs",
                "-f -d su=64k,sw=3,agcount=8 -l size=64m,version=2 -i size=512 -m crc=1,reflink=0 -s size=4096",
            ),
            ("btrfs", "-f -m single -d single -n 16k --nodiscard -O no-holes"),
            ("f2fs", "-f -o 5 -O extra_attr -w 4096"),
        ] {
            assert_eq!(outcome(kind, options), Ok(()), "{kind} {options}");
        }
    }

    #[test]
    fn other_devices_and_files_are_refused() {
        for (kind, options) in [
            ("xfs", "-f -l logdev=/dev/sdc"),
            ("xfs", "-l logdev=sdc,size=64m"),
            ("xfs", "-r rtdev=sdc"),
            ("xfs", "-d file,size=1g"),
            ("xfs", "-d name=image"),
            ("xfs", "-p /root/proto"),
            ("ext4", "-z undo"),
            ("ext3", "-Fqzundo"),
            ("ext4", "-Kz undo"),
            ("btrfs", "--rootd=none"),
            ("btrfs", "-r none"),
            ("btrfs", "-f -- sdc"),
            ("ext4", "-J device=/dev/sdc"),
            ("ext4", "-J device=LABEL=journal"),
            ("ext4", "-Jdevice=UUID=0a1b"),
            ("btrfs", "-f /dev/sdc"),
            ("btrfs", "--rootdir=/root"),
            ("f2fs", "-c sdc"),
            ("f2fs", "-csdc"),
            ("f2fs", "-fc sdc"),
        ] {
            let text = outcome(kind, options).unwrap_err();
            assert!(text.contains("nobody consented"), "{kind} {options}: {text}");
        }
        let text = outcome("btrfs", "-f -q none none").unwrap_err();
        assert!(text.contains("would take it for a device"), "{text}");
    }

    #[test]
    fn what_hides_the_filesystem_is_refused() {
        for (kind, options) in [
            ("ext4", "-U clear"),
            ("ext4", "-FqU clear"),
            ("ext4", "-KU clear"),
            ("btrfs", "--uui 0a1b"),
            ("btrfs", "--device-u=0a1b"),
            ("btrfs", "-fU 0a1b"),
            ("xfs", "-fmuuid=0a1b"),
            ("btrfs", "--uuid 0a1b"),
            ("xfs", "-m crc=1,uuid=0a1b"),
            ("ext4", "-E offset=1048576"),
        ] {
            let text = outcome(kind, options).unwrap_err();
            assert!(text.contains("fathom chooses the UUID"), "{kind} {options}: {text}");
        }
    }
}
