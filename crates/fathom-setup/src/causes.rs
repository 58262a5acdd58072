//! What a tool's failure likely comes from, and what helps.

use crate::tools::Call;
use fathom_sys::kmsg;
use fathom_sys::sysroot::SysRoot;

/// Words in what a tool says, the cause, the cure.
const KNOWN: &[(&str, &str)] = &[
    ("must be larger than 300MB", "the device is too small for XFS: from 300 MiB on"),
    ("too small", "the device is too small for this filesystem: give larger devices"),
    ("Not enough space", "the device is too small: give larger devices"),
    ("No space left on device", "the place is full: give larger devices, or fill them less"),
    (
        "appears to contain",
        "something is on the device that fathom does not know: look at it (wipefs DEVICE)",
    ),
    ("Device or resource busy", "somebody uses the device: lsblk and fuser -v DEVICE show who"),
    ("is in use", "somebody uses the device: lsblk and fuser -v DEVICE show who"),
    (
        "No such file or directory",
        "the device has disappeared; the kernel's log (dmesg) may say why",
    ),
    ("No such device", "the device has disappeared, or the kernel has no driver for this"),
    (
        "Input/output error",
        "the device fails: the kernel's log (dmesg) and smartctl -a DEVICE say more",
    ),
    ("unknown filesystem type", "this kernel has no such filesystem: modprobe it"),
    ("dm_crypt", "this kernel has no dm-crypt: modprobe dm-crypt"),
    ("device-mapper", "this kernel may lack the device mapper: modprobe dm-mod"),
];

/// `\nlikely cause: ...` or nothing.
pub(crate) fn of(root: &SysRoot, call: &Call, said: &str) -> String {
    if call.tool == "mdadm" && !root.exists("proc/mdstat") {
        return "\nlikely cause: this kernel has no md arrays: modprobe md-mod".to_owned();
    }
    let known = KNOWN.iter().find(|(words, _)| said.contains(words));
    let mut text = known.map(|(_, cause)| format!("\nlikely cause: {cause}")).unwrap_or_default();
    if matches!(call.tool, "mount" | "mdadm") {
        let words: Vec<&str> = call.args.iter().filter_map(|a| a.strip_prefix("/dev/")).collect();
        for line in last_lines(root, &words) {
            text += "\nthe kernel says: ";
            text += &line;
        }
    }
    text
}

/// The youngest lines of the kernel's log, at most three, that name one of the words or complain of an option.
fn last_lines(root: &SysRoot, words: &[&str]) -> Vec<String> {
    const LOOKED_AT: usize = 12;
    let log = kmsg::read(root).unwrap_or_default();
    let records: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_once(';').map(|(_, text)| text))
        .collect();
    let young = &records[records.len().saturating_sub(LOOKED_AT)..];
    let tells = |line: &&&str| {
        words.iter().any(|word| line.contains(word))
            || line.contains("nknown parameter")
            || line.contains("nrecognized mount option")
    };
    let mut found: Vec<String> =
        young.iter().rev().filter(tells).take(3).map(|l| (*l).to_owned()).collect();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn causes_are_named_with_the_kernels_words() {
        let tree = Tree::new();
        tree.put("proc/mdstat", "");
        tree.put("dev/kmsg", "6,1,5,-;XFS: old\n3,2,6,-;xfs: Unknown parameter 'nobarrier'\n");
        let call = Call::new("mount", ["/dev/sdb", "/mnt"]);
        let text = of(&tree.root(), &call, "mount: wrong fs type");
        assert_eq!(text, "\nthe kernel says: xfs: Unknown parameter 'nobarrier'");
        let text = of(&tree.root(), &Call::new("mkfs.ext4", ["/dev/sdb"]), "Device too small");
        assert!(text.contains("give larger devices"), "{text}");
        let without = Tree::new();
        let text = of(&without.root(), &Call::new("mdadm", ["--create"]), "cannot open");
        assert!(text.contains("modprobe md-mod"), "{text}");
    }
}
