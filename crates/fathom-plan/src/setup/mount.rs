//! Mount options: which filesystem takes which, and what of them no kernel takes any more. Those of ext, xfs and btrfs were tried one
//! by one on Linux 6.18; those of f2fs are as its documentation has them.

use fathom_base::suggest;
use fathom_base::units;

const EXT: &[&str] = &["ext4", "ext3", "ext2"];
const JOURNALED: &[&str] = &["ext4", "ext3"];
const EXT4: &[&str] = &["ext4"];
const XFS: &[&str] = &["xfs"];
const BTRFS: &[&str] = &["btrfs"];
const F2FS: &[&str] = &["f2fs"];
const ANY: &[&str] = &["ext4", "xfs", "btrfs", "f2fs", "ext3", "ext2"];

/// What an option takes after its `=`.
#[derive(Clone, Copy)]
enum Takes {
    /// Nothing.
    Nothing,
    /// One of some words.
    Words(&'static [&'static str]),
    /// One of some words, or nothing.
    Maybe(&'static [&'static str]),
    /// A whole number in a range.
    Number(u64, u64),
    /// A size in a range.
    Size(u64, u64),
}

use Takes::{Maybe, Nothing, Number, Size, Words};

/// Option, filesystems, what it takes.
type Row = (&'static str, &'static [&'static str], Takes);

const BARRIERS: &[&str] = &["0", "1"];

const TABLE: &[Row] = &[
    ("noatime", ANY, Nothing),
    ("relatime", ANY, Nothing),
    ("strictatime", ANY, Nothing),
    ("lazytime", ANY, Nothing),
    ("nolazytime", ANY, Nothing),
    ("nodiratime", ANY, Nothing),
    ("diratime", ANY, Nothing),
    ("sync", ANY, Nothing),
    ("async", ANY, Nothing),
    ("dirsync", ANY, Nothing),
    ("nodev", ANY, Nothing),
    ("nosuid", ANY, Nothing),
    ("noexec", ANY, Nothing),
    ("data", JOURNALED, Words(&["ordered", "writeback", "journal"])),
    ("commit", &["ext4", "ext3", "btrfs"], Number(1, 3600)),
    ("barrier", &["ext4", "ext3", "ext2", "btrfs", "f2fs"], Maybe(BARRIERS)),
    ("nobarrier", &["ext4", "ext3", "ext2", "btrfs", "f2fs"], Nothing),
    ("journal_async_commit", EXT4, Nothing),
    ("journal_checksum", EXT4, Nothing),
    ("nojournal_checksum", EXT4, Nothing),
    ("journal_ioprio", JOURNALED, Number(0, 7)),
    ("stripe", EXT, Number(0, 1 << 31)),
    ("delalloc", EXT4, Nothing),
    ("nodelalloc", EXT4, Nothing),
    ("dioread_lock", EXT4, Nothing),
    ("dioread_nolock", EXT4, Nothing),
    ("inode_readahead_blks", EXT, Number(0, 1 << 30)),
    ("max_batch_time", EXT, Number(0, 1 << 31)),
    ("min_batch_time", EXT, Number(0, 1 << 31)),
    ("init_itable", EXT, Maybe(&[])),
    ("noinit_itable", EXT, Nothing),
    ("auto_da_alloc", EXT, Maybe(BARRIERS)),
    ("noauto_da_alloc", EXT, Nothing),
    ("errors", EXT, Words(&["continue", "remount-ro", "panic"])),
    ("logbufs", XFS, Number(2, 8)),
    ("logbsize", XFS, Size(16 << 10, 256 << 10)),
    ("allocsize", XFS, Size(4 << 10, 1 << 30)),
    ("largeio", XFS, Nothing),
    ("nolargeio", XFS, Nothing),
    ("swalloc", XFS, Nothing),
    ("noalign", XFS, Nothing),
    ("sunit", XFS, Number(0, 1 << 31)),
    ("swidth", XFS, Number(0, 1 << 31)),
    ("wsync", XFS, Nothing),
    ("inode32", XFS, Nothing),
    ("inode64", XFS, Nothing),
    ("filestreams", XFS, Nothing),
    ("ssd", BTRFS, Nothing),
    ("nossd", BTRFS, Nothing),
    ("ssd_spread", BTRFS, Nothing),
    ("nossd_spread", BTRFS, Nothing),
    ("compress", BTRFS, Maybe(&["zlib", "lzo", "zstd", "no"])),
    ("compress-force", BTRFS, Maybe(&["zlib", "lzo", "zstd", "no"])),
    ("datacow", BTRFS, Nothing),
    ("nodatacow", BTRFS, Nothing),
    ("datasum", BTRFS, Nothing),
    ("nodatasum", BTRFS, Nothing),
    ("space_cache", BTRFS, Maybe(&["v1", "v2"])),
    ("thread_pool", BTRFS, Number(1, 1024)),
    ("max_inline", BTRFS, Size(0, 1 << 20)),
    ("autodefrag", BTRFS, Nothing),
    ("noautodefrag", BTRFS, Nothing),
    ("flushoncommit", BTRFS, Nothing),
    ("noflushoncommit", BTRFS, Nothing),
    ("treelog", BTRFS, Nothing),
    ("notreelog", BTRFS, Nothing),
    ("metadata_ratio", BTRFS, Number(0, 1 << 31)),
    ("discard", ANY, Maybe(&["sync", "async"])),
    ("nodiscard", ANY, Nothing),
    ("background_gc", F2FS, Words(&["on", "off", "sync"])),
    ("mode", F2FS, Words(&["adaptive", "lfs"])),
    ("active_logs", F2FS, Words(&["2", "4", "6"])),
    ("inline_data", F2FS, Nothing),
    ("noinline_data", F2FS, Nothing),
    ("flush_merge", F2FS, Nothing),
    ("noflush_merge", F2FS, Nothing),
    ("alloc_mode", F2FS, Words(&["default", "reuse"])),
    ("fsync_mode", F2FS, Words(&["posix", "strict", "nobarrier"])),
];

/// Words of `mount.atime`.
const ATIME: [&str; 3] = ["relatime", "noatime", "strictatime"];

/// The options of `-o`, split; each is one that some filesystem takes.
///
/// # Errors
/// The first that none takes.
pub fn options(value: &str) -> Result<Vec<String>, String> {
    let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
    let options: Vec<String> =
        words.filter(|word| *word != "defaults").map(str::to_owned).collect();
    for (index, option) in options.iter().enumerate() {
        known(option)?;
        if let Some(other) = options[..index].iter().find(|other| are_rivals(other, option)) {
            return Err(format!("{other} and {option} contradict each other"));
        }
    }
    Ok(options)
}

/// `mount.NAME = VALUE` as the option that it means for a filesystem; none when nothing need be said.
///
/// # Errors
/// No filesystem has such an option or takes such a value.
pub fn option(name: &str, value: &str, kind: Option<&str>) -> Result<Option<String>, String> {
    let is_on = match value {
        "yes" | "on" | "true" => Some(true),
        "no" | "off" | "false" => Some(false),
        _ => None,
    };
    let option = match (name, is_on) {
        ("atime", _) if ATIME.contains(&value) => value.to_owned(),
        ("atime", _) => return Err(format!("must be one of {}{}", ATIME.join(", "), atime(value))),
        ("barrier", _) => {
            let is_on = is_on.or_else(|| (value == "1").then_some(true));
            let is_on = is_on.or_else(|| (value == "0").then_some(false));
            let is_on = is_on.ok_or_else(|| "must be on or off".to_owned())?;
            // What every kernel does by itself; xfs has no word for it any more.
            if is_on && kind.is_some_and(|kind| kind == "xfs") {
                return Ok(None);
            }
            if is_on { "barrier" } else { "nobarrier" }.to_owned()
        }
        // What is off unless it is asked for.
        (_, Some(false)) if row(name).is_some() && row(&format!("no{name}")).is_none() => {
            return Ok(None);
        }
        (_, Some(true)) => name.to_owned(),
        (_, Some(false)) => format!("no{name}"),
        (_, None) => format!("{name}={value}"),
    };
    known(&option).map(|()| Some(option))
}

fn atime(value: &str) -> &'static str {
    if value == "atime" { "; atime alone has meant relatime since kernel 2.6.30" } else { "" }
}

fn name_of(option: &str) -> &str {
    option.split_once('=').map_or(option, |(name, _)| name)
}

/// True for options of which only one can hold.
pub fn are_rivals(a: &str, b: &str) -> bool {
    let base = |option: &str| {
        let name = name_of(option);
        if ATIME.contains(&name) {
            return "atime".to_owned();
        }
        let positive = name
            .strip_prefix("no")
            .filter(|rest| TABLE.iter().any(|(known, ..)| known == rest) && *rest != "diratime");
        positive.unwrap_or(name).to_owned()
    };
    base(a) == base(b)
}

fn row(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|(known, ..)| *known == name)
}

/// That some filesystem takes the option, with its value.
fn known(option: &str) -> Result<(), String> {
    let name = name_of(option);
    let value = option.split_once('=').map(|(_, value)| value);
    match name {
        "atime" => {
            return Err(
                "'atime' has meant relatime since kernel 2.6.30; write relatime or strictatime"
                    .to_owned(),
            );
        }
        "ro" => return Err("'ro': nothing could be written, not even the test files".to_owned()),
        "logdev" | "journal_dev" | "journal_path" => {
            return Err(format!("'{name}': give filesystem.journal instead"));
        }
        _ => {}
    }
    let Some((_, _, takes)) = row(name) else {
        let near = suggest::hint(name, TABLE.iter().map(|(known, ..)| *known));
        return Err(format!("'{name}' is no mount option that fathom knows{near}"));
    };
    value_fits(*takes, value).map_err(|reason| format!("{option}: {reason}"))
}

fn value_fits(takes: Takes, value: Option<&str>) -> Result<(), String> {
    let list = |words: &[&str]| format!("takes one of {}", words.join(", "));
    match (takes, value) {
        (Nothing, None) | (Maybe(_), None) => Ok(()),
        (Nothing, Some(_)) => Err("takes no value".to_owned()),
        // Compression may have a level: zstd:3.
        (Maybe(words) | Words(words), Some(value)) => {
            let word = value.split_once(':').map_or(value, |(word, _)| word);
            if words.is_empty() || words.contains(&word) { Ok(()) } else { Err(list(words)) }
        }
        (Words(words), None) => Err(list(words)),
        (Number(min, max), value) => {
            let number = value.and_then(|value| value.parse().ok());
            let fits = number.is_some_and(|number: u64| (min..=max).contains(&number));
            if fits { Ok(()) } else { Err(format!("takes a number from {min} to {max}")) }
        }
        (Size(min, max), value) => {
            let bytes = value.and_then(|value| units::parse_size(value).ok());
            let (least, most) = (units::format_size(min), units::format_size(max));
            let fits = bytes.is_some_and(|bytes| (min..=max).contains(&bytes));
            if fits { Ok(()) } else { Err(format!("takes a size from {least} to {most}")) }
        }
    }
}

/// That this filesystem takes the option.
///
/// # Errors
/// Which do, or since when none does.
pub fn check(option: &str, kind: &str) -> Result<(), String> {
    let name = name_of(option);
    let Some((_, kinds, _)) = row(name) else { return known(option) };
    if kind == "xfs" && ["barrier", "nobarrier"].contains(&name) {
        return Err(format!("xfs has had no {name} since kernel 4.19: it always flushes"));
    }
    if !kinds.contains(&kind) {
        return Err(format!("{option} is a mount option of {}, not of {kind}", kinds.join(", ")));
    }
    let with_value = match name {
        "discard" => &["btrfs"],
        "barrier" => EXT,
        _ => ANY,
    };
    if option.contains('=') && !with_value.contains(&kind) {
        let kinds = with_value.join(", ");
        return Err(format!("{option} is a mount option of {kinds}; {kind} takes {name} alone"));
    }
    Ok(())
}

/// What the options of one filesystem make impossible together.
///
/// # Errors
/// Why.
pub fn check_together(options: &[String]) -> Result<(), String> {
    let has = |wanted: &str| options.iter().any(|option| option == wanted);
    if has("journal_async_commit") && !has("data=writeback") && !has("data=journal") {
        return Err("ext4 does not mount with journal_async_commit in data=ordered, its default; add data=writeback or data=journal".to_owned());
    }
    if has("data=journal") && has("delalloc") {
        return Err("ext4 does not mount with delalloc in data=journal, which turns delayed allocation off; leave delalloc out".to_owned());
    }
    Ok(())
}

/// Why `mount.NAME` means nothing for a filesystem with the options that are set already.
pub fn inapplicable(name: &str, kind: &str, options: &[String]) -> Option<String> {
    if name == "delalloc" && options.iter().any(|option| option == "data=journal") {
        return Some("data=journal turns delayed allocation off by itself".to_owned());
    }
    // Barriers can be asked for everywhere; where they cannot be off is for [`check`].
    if ["options", "atime", "barrier"].contains(&name) {
        return None;
    }
    let (_, kinds, _) = row(name).or_else(|| row(&format!("no{name}")))?;
    let is_known = kinds.contains(&kind);
    (!is_known).then(|| format!("{name} is a mount option of {}, not of {kind}", kinds.join(", ")))
}
