//! Options of a mounted filesystem: what they are, and what has to be written for another value.

use crate::knob::Opt;
use fathom_inspect::filesystem;
use fathom_sys::mounts::Mount;
use fathom_sys::remount::{self, Part};
use fathom_sys::sysroot::SysRoot;
use std::io;

/// Options in force, one word each: those of the filesystem as it tells them most completely.
pub fn in_force(root: &SysRoot, mount: &Mount, device: Option<&str>) -> Vec<String> {
    let effective =
        device.and_then(|name| filesystem::effective_options(root, &mount.fs_type, name));
    let mut options = effective.unwrap_or_else(|| words(&mount.super_options));
    // Flags of the filesystem that it does not list itself.
    options.extend(words(&mount.super_options).into_iter().filter(|word| word == "lazytime"));
    options
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The value of an option.
pub fn value(opt: Opt, options: &[String]) -> String {
    let has = |word: &str| options.iter().any(|option| option == word);
    match opt {
        Opt::Value(name, otherwise) => {
            let given = |name: &str| {
                options
                    .iter()
                    .rev()
                    .find_map(|o| Some(o.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
            };
            let forced = given(&format!("{name}-force")).map(|value| format!("force:{value}"));
            forced.or_else(|| given(name)).unwrap_or_else(|| otherwise.to_owned())
        }
        Opt::Flag(on, off, otherwise) => {
            let is_on = has(on) || (otherwise && !has(off));
            u8::from(is_on).to_string()
        }
        Opt::Choice(several) => {
            let shown = several.iter().find(|(_, shown, _)| shown.is_empty() || has(shown));
            shown.map_or_else(String::new, |(value, ..)| (*value).to_owned())
        }
    }
}

/// The options that set it.
fn setting(opt: Opt, value: &str) -> String {
    match opt {
        Opt::Value(name, _) => match value.strip_prefix("force:") {
            Some(value) => format!("{name}-force={value}"),
            None => format!("{name}={value}"),
        },
        Opt::Flag(on, off, _) => (if value == "1" { on } else { off }).to_owned(),
        Opt::Choice(several) => {
            let found = several.iter().find(|(word, ..)| *word == value);
            found.map_or_else(String::new, |(.., write)| (*write).to_owned())
        }
    }
}

/// True for a word that says what this option is.
fn is_of(opt: Opt, word: &str) -> bool {
    match opt {
        Opt::Value(name, _) => {
            let rest = word.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('=') || rest.starts_with("-force="))
        }
        Opt::Flag(on, off, _) => word == on || word == off,
        Opt::Choice(several) => several
            .iter()
            .any(|(_, shown, write)| word == *shown || write.split(',').any(|w| w == word)),
    }
}

/// Filesystems that keep at a remount what is not named. Naming it all again would do harm: `compress` of btrfs takes
/// `nodatasum` away. Others take what is not named for the default.
const KEEPS: &[&str] = &["btrfs", "ext2", "ext3", "ext4"];

/// Options of filesystems that are flags for the kernel, and always named.
const FLAGS: &[&str] = &["ro", "sync", "dirsync", "mand", "lazytime"];

/// All options with one of them changed, as a remount wants them.
pub fn with(mount: &Mount, opt: Opt, value: &str) -> Vec<String> {
    let mut options = words(&mount.options);
    if !options.iter().any(|word| word == "noatime" || word == "relatime") {
        options.push("strictatime".to_owned());
    }
    let keeps = KEEPS.contains(&mount.fs_type.as_str());
    let is_named = |word: &String| !keeps || FLAGS.contains(&word.as_str());
    let rest = words(&mount.super_options).into_iter().filter(|word| !is_of(opt, word));
    options.extend(rest.filter(is_named));
    options.extend(words(&setting(opt, value)));
    options
}

/// How access times are kept.
pub fn access_time(mount: &Mount) -> &'static str {
    let has = |wanted: &str| mount.options.split(',').any(|word| word == wanted);
    ["noatime", "relatime"].into_iter().find(|word| has(word)).unwrap_or("strictatime")
}

/// All flags of the mount with access times kept in another way.
pub fn with_access_time(mount: &Mount, value: &str) -> Vec<String> {
    let mut options = words(&mount.options);
    options.retain(|word| !matches!(word.as_str(), "noatime" | "relatime" | "strictatime"));
    options.push(value.to_owned());
    options
}

/// True for a mount that is read-only of a filesystem that is not.
pub fn is_read_only_alone(mount: &Mount) -> bool {
    let has = |options: &str| options.split(',').any(|word| word == "ro");
    has(&mount.options) && !has(&mount.super_options)
}

/// Writes options.
///
/// # Errors
/// The kernel's answer; `Unsupported` for a recorded machine.
pub fn write(root: &SysRoot, mount: &Mount, part: Part, options: &[String]) -> io::Result<()> {
    if !root.is_live() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // The flags of one mount would become those of the filesystem.
    if part == Part::FileSystem && is_read_only_alone(mount) {
        let reason = "this mount is read-only and its filesystem is not: it would become so, too";
        return Err(io::Error::other(reason));
    }
    remount::remount(&mount.mount_point, part, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;
    use crate::knob::Home;
    use fathom_sys::mounts::parse_mountinfo;

    fn opt(id: &str) -> Opt {
        let Home::Option(_, opt) = find(id).unwrap().home else { panic!("{id}") };
        opt
    }

    fn mount(options: &str, super_options: &str) -> Mount {
        let line = format!("36 35 7:1 / /mnt {options} - btrfs /dev/loop1 {super_options}\n");
        parse_mountinfo(line).remove(0)
    }

    #[track_caller]
    fn expect(id: &str, shown: &str, value: &str) {
        assert_eq!(super::value(opt(id), &words(shown)), value, "{id} {shown}");
    }

    #[test]
    fn values_as_the_kernel_shows_them() {
        expect("btrfs.commit", "rw,space_cache=v2", "30");
        expect("btrfs.commit", "rw,commit=10", "10");
        expect("btrfs.compress", "rw,compress=zstd:3", "zstd:3");
        expect("btrfs.compress", "rw,compress-force=zstd:3", "force:zstd:3");
        expect("btrfs.compress", "rw", "no");
        expect("btrfs.discard", "rw,discard=async", "async");
        expect("btrfs.discard", "rw,discard", "sync");
        expect("btrfs.discard", "rw", "no");
        expect("btrfs.datacow", "rw,nodatasum,nodatacow", "nodatacow");
        expect("btrfs.datacow", "rw,nodatasum", "nodatasum");
        expect("btrfs.datacow", "rw", "datacow");
        expect("btrfs.treelog", "rw,notreelog", "0");
        expect("btrfs.treelog", "rw", "1");
        expect("xfs.inode", "rw,inode64", "inode64");
        expect("mount.lazytime", "rw,lazytime", "1");
    }

    #[test]
    fn a_remount_keeps_what_it_does_not_change() {
        let before = mount("rw,nosuid,noatime", "rw,lazytime,nodatasum,discard=async,subvolid=5");
        let with =
            |mount: &Mount, id: &str, value: &str| super::with(mount, opt(id), value).join(",");
        assert_eq!(with(&before, "btrfs.discard", "no"), "rw,nosuid,noatime,lazytime,nodiscard");
        assert_eq!(
            with(&before, "btrfs.compress", "force:lzo"),
            "rw,nosuid,noatime,lazytime,compress-force=lzo"
        );
        assert_eq!(with(&before, "mount.lazytime", "0"), "rw,nosuid,noatime,nolazytime");
        let xfs = Mount { fs_type: "xfs".to_owned(), ..mount("rw", "rw,inode32,logbufs=8") };
        assert_eq!(
            with(&xfs, "mount.lazytime", "1"),
            "rw,strictatime,rw,inode32,logbufs=8,lazytime"
        );
        assert_eq!(access_time(&before), "noatime");
        assert_eq!(access_time(&mount("rw", "rw")), "strictatime");
        assert_eq!(with_access_time(&before, "relatime").join(","), "rw,nosuid,relatime");
    }
}
