//! What the words of arrays and filesystems mean, and what each maker calls the same thing; help on degraded arrays.
//!
//! Plain text for `fathom check --explain WORD`.

use fathom_base::order::Order;

/// The text for a word; none for a word that is not known. Upper and lower case, blanks, dashes and underscores do not matter.
#[must_use]
pub fn explain(word: &str) -> Option<String> {
    let wanted = bare(word);
    if HELP_WORDS.iter().any(|known| bare(known) == wanted) {
        return Some(DEGRADED.to_owned());
    }
    let entry = ENTRIES.iter().find(|entry| {
        std::iter::once(&entry.word).chain(entry.also).any(|known| bare(known) == wanted)
    })?;
    Some(entry.text())
}

/// Every word that [`explain`] knows, in the order of the alphabet.
#[must_use]
pub fn words() -> Vec<&'static str> {
    let entries = ENTRIES
        .iter()
        .flat_map(|entry| std::iter::once(entry.word).chain(entry.also.iter().copied()));
    let mut words: Vec<&str> = entries.chain(HELP_WORDS.iter().copied()).collect();
    words.order();
    words
}

/// A word without what people write in different ways.
fn bare(word: &str) -> String {
    let letters = word.chars().filter(|c| !matches!(c, ' ' | '-' | '_'));
    letters.collect::<String>().to_lowercase()
}

/// What a word means, and who calls it what.
struct Entry {
    word: &'static str,
    /// Other words for the same that lead here.
    also: &'static [&'static str],
    means: &'static str,
    /// Maker or tool, and its word, unit and place.
    called: &'static [(&'static str, &'static str)],
    see: &'static str,
}

impl Entry {
    fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.word, self.means);
        if !self.called.is_empty() {
            text += "\nwho calls it what:\n";
        }
        let width = self.called.iter().map(|(who, _)| who.len()).max().unwrap_or(0);
        for (who, what) in self.called {
            text += &format!("  {who:width$}  {what}\n");
        }
        if !self.see.is_empty() {
            text += &format!("\nsee also: {}\n", self.see);
        }
        text
    }
}

const ENTRIES: &[Entry] = &[
    Entry {
        word: "chunk",
        also: &[
            "strip",
            "stripe element",
            "chunk size",
            "strip size",
            "stripe size",
            "stripe unit size",
            "interleave",
            "segment",
            "segment size",
            "minimum_io_size",
        ],
        means: "\
The piece of consecutive data that an array puts on one disk before it goes on to the next.
A request that fits into a chunk keeps one disk busy; one that is longer keeps several busy.
fathom says chunk. Traps: 3ware, and MegaRAID in its older tools, call this piece the stripe size;
RAID theory and newer MegaRAID tools call it strip; others say interleave, or segment.",
        called: &[
            ("md", "chunk: mdadm --chunk (KiB), md/chunk_size (bytes)"),
            ("LVM", "stripe size: lvcreate --stripesize (KiB); chunk size is something else there: the unit of snapshots and thin pools"),
            ("ext4", "stride: mkfs.ext4 -E stride (in blocks of the filesystem, so chunk / 4 KiB)"),
            ("XFS", "stripe unit: mkfs.xfs -d su (bytes), or sunit (in 512-byte units); xfs_info shows sunit in blocks"),
            ("btrfs", "stripe length: 64 KiB, fixed"),
            ("3ware", "stripe: tw_cli add ... stripe=64 (KiB for each disk)"),
            ("MegaRAID, PERC", "strip size: storcli add vd ... strip=256 (KiB); \"Stripe Element Size\" in Dell's tools, \"Strip Size\" in storcli show"),
            ("Smart Array", "strip size: ssacli ... stripsize=256 (KiB), formerly stripesize"),
            ("Adaptec", "stripe-unit size: arcconf create ... STRIPESIZE 256 (KiB for each disk)"),
            ("Areca", "stripe size (KiB for each disk)"),
            ("kernel", "queue/minimum_io_size, where the array tells it (bytes)"),
        ],
        see: "stripe, stride, data disks",
    },
    Entry {
        word: "stripe",
        also: &[
            "full stripe",
            "stripe width",
            "swidth",
            "stride of an array",
            "full stripe size",
            "optimal_io_size",
        ],
        means: "\
One chunk from each disk of an array, side by side. The data in it, without parity or further copies, is the full stripe:
chunk x data disks. A write of exactly one, that begins where one begins, needs no old data on raid5 and raid6.
Traps: \"stripe size\" means one chunk for some makers and a full stripe for others, and ext4 and XFS count it differently.",
        called: &[
            ("md", "stripe, or stride; queue/optimal_io_size is the full stripe in bytes"),
            ("LVM", "stripes is the number of disks (lvcreate --stripes), stripe size is one chunk"),
            ("ext4", "stripe width: mkfs.ext4 -E stripe_width (in blocks: stride x data disks); mount option stripe= (same unit)"),
            ("XFS", "stripe width: mkfs.xfs -d sw (a count of data disks), or swidth (in 512-byte units); mount options sunit, swidth (512-byte units); xfs_info shows swidth in blocks"),
            ("btrfs", "follows from the profile and the number of devices"),
            ("3ware", "no word of its own: stripe x disks without parity"),
            ("MegaRAID, PERC", "stripe: \"Span Depth\" and drives give it; \"Stripe Size\" in old MegaCli is one strip"),
            ("Smart Array", "full stripe size: ssacli show detail prints \"Full Stripe Size\""),
            ("Adaptec", "full stripe; arcconf prints only \"Stripe-unit size\", one chunk"),
            ("Areca", "no word of its own"),
        ],
        see: "chunk, data disks",
    },
    Entry {
        word: "stride",
        also: &[],
        means: "\
ext4's word for one chunk of the array below, in blocks of the filesystem: with 64 KiB chunks and 4 KiB blocks the stride is 16.
Older texts on arrays use stride for one chunk from each disk: a full stripe.",
        called: &[
            ("ext4", "mkfs.ext4 -E stride=16,stripe_width=64; tune2fs -E changes both later; dumpe2fs -h shows \"RAID stride\""),
            ("XFS", "the same thing is su, or sunit"),
            ("md", "no such word: chunk"),
        ],
        see: "chunk, stripe",
    },
    Entry {
        word: "stripe unit",
        also: &["sunit", "su"],
        means: "\
XFS's word for one chunk of the array below. It stands in three units: mkfs takes su in bytes (or with k, m) and sunit in
units of 512 bytes, as does mount; xfs_info prints sunit in blocks of the filesystem. A chunk of 64 KiB is su=64k,
sunit=128, and with 4 KiB blocks xfs_info prints sunit=16.",
        called: &[
            ("XFS", "mkfs.xfs -d su=64k,sw=4, the same as -d sunit=128,swidth=512; mount -o sunit=128,swidth=512"),
            ("ext4", "the same thing is stride"),
            ("kernel", "queue/minimum_io_size, where the array tells it"),
        ],
        see: "chunk, stripe",
    },
    Entry {
        word: "data disks",
        also: &["data drives", "sw"],
        means: "\
How many disks' worth of data a full stripe holds: raid0 of n disks n, raid4 and raid5 n-1, raid6 n-2,
raid10 n divided by its near copies: near=2 of four 2, far=2 and offset=2 of four 4, since those have their further
copies in other rows, and n where the near copies do not divide it. Filesystems want it as XFS's sw, and as ext4's
stripe_width / stride. With a power of two, full stripes fit into LVM's usual extents of 4 MiB; for others make the group
with extents that are a multiple of the full stripe and of 128 KiB (vgcreate --physicalextentsize).",
        called: &[
            ("XFS", "sw: mkfs.xfs -d sw=4"),
            ("ext4", "stripe_width / stride"),
            ("LVM", "stripes, for striped volumes; without the parity devices for raid5 and raid6 volumes too"),
            ("MegaRAID, PERC", "drives of a span less parity, times spans"),
        ],
        see: "chunk, stripe",
    },
];

const HELP_WORDS: &[&str] = &["degraded", "re-add", "force", "assemble"];

const DEGRADED: &str = "\
degraded arrays: taking members back

An md array counts events: each change of its state is written to all members that take part. A member with a lower count
left earlier, and what was written since is not on it. First look at everything, and keep it:

  cat /proc/mdstat; mdadm --detail /dev/md0
  mdadm --examine /dev/sda1 /dev/nvme0n1p1 > /root/members.txt     (all members; Events, Update Time, Device Role)

1. The array runs, a member only was away (cable, power, slow start) and its drive is good:
     mdadm /dev/md0 --re-add /dev/sdc1
   With a write-intent bitmap only what changed meanwhile is copied. Without, mdadm refuses or copies all; then
     mdadm /dev/md0 --add /dev/sdc1
   Risk: none for the data of the array; what was on sdc1 is overwritten by the copy. A drive that failed by itself
   will fail again: look at smartctl -x before.

2. The array does not start because too many members are missing, but the drives came back and their event counts are
   equal, or differ by one at most:
     mdadm --stop /dev/md0
     mdadm --assemble /dev/md0 /dev/sd[abcd]1
   This starts what fits, and does no harm when it refuses.

3. As 2, but the counts differ more. Only when you KNOW that what was written in between does not matter, or that nothing
   was (the array was stopped, or all writes failed):
     mdadm --assemble --force /dev/md0 MEMBERS...
   It takes the newest members that are needed to start, and writes into their superblocks that they are up to date.
   Risk: what was written after the oldest of them left is half there: files and tables of the filesystem may mix old
   and new content, and nobody notices at once. Leave the oldest member out whenever the others suffice. So:
     - copy all members first, or put a layer over them that takes the writes (dmsetup snapshot);
     - only on these copies or layers: mdadm --assemble --force --readonly /dev/md0 COPIES...
       (--readonly does not make it a mere look: --force has written superblocks by then)
     - check without changing anything: fsck -n, xfs_repair -n, btrfs check --readonly
     - then mount read-only, save what matters, and only after that go on.

4. Never as a first try: mdadm --create --assume-clean over existing members. It writes new superblocks, and one wrong
   detail (order, chunk, layout, data offset, version of mdadm) makes the data unreadable. It is the last resort of those
   who have copies of all members.

When the array runs again: let it check itself (echo check > /sys/block/md0/md/sync_action), read mismatch_cnt, replace the
drives that failed, add a bitmap where there is none, and make sure that mdadm --monitor runs and its mail is read.
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_word_has_a_text_in_any_spelling() {
        for word in words() {
            let text = explain(word).unwrap_or_default();
            assert!(text.len() > 100, "{word}: {text}");
            assert_eq!(explain(&word.to_uppercase().replace(' ', "_")), Some(text));
        }
        // As the kernel counts them, and the rules.
        let data_disks = explain("sw").unwrap_or_default();
        assert!(
            data_disks.contains("near=2 of four 2, far=2 and offset=2 of four 4"),
            "{data_disks}"
        );
        // As makers and the kernel write them.
        for word in ["stripe size", "chunk size", "Strip Size", "interleave", "segment"] {
            assert_eq!(explain(word), explain("chunk"), "{word}");
        }
        for word in ["full stripe size", "optimal_io_size"] {
            assert_eq!(explain(word), explain("stripe"), "{word}");
        }
        assert_eq!(explain("colour"), None);
        assert_eq!(explain(""), None);
    }

    #[test]
    fn no_word_leads_to_two_texts() {
        let all: Vec<String> = words().into_iter().map(bare).collect();
        let distinct: BTreeSet<&String> = all.iter().collect();
        assert_eq!(all.len(), distinct.len(), "{all:?}");
    }

    #[test]
    fn every_maker_has_its_word_for_a_chunk() {
        let text = explain("strip").unwrap_or_default();
        for maker in [
            "md",
            "LVM",
            "ext4",
            "XFS",
            "btrfs",
            "3ware",
            "MegaRAID, PERC",
            "Smart Array",
            "Adaptec",
            "Areca",
        ] {
            assert!(text.contains(&format!("\n  {maker} ")), "{maker}: {text}");
        }
    }

    /// The words of what to see also are words.
    #[test]
    fn what_to_see_also_is_there() {
        for entry in ENTRIES {
            for word in entry.see.split(", ").filter(|word| !word.is_empty()) {
                assert!(explain(word).is_some(), "{word} in {}", entry.word);
            }
        }
    }

    #[test]
    fn help_on_degraded_arrays_says_what_force_risks() {
        let text = explain("degraded").unwrap_or_default();
        for words in ["--re-add", "--assemble --force", "Risk:", "mix old", "--readonly", "fsck -n"]
        {
            assert!(text.contains(words), "{words}");
        }
        assert_eq!(explain("force"), Some(text));
    }
}
