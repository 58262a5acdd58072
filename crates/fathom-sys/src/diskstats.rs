//! /proc/diskstats as the kernel writes it: all fields, of every age of kernel.

use crate::devno::DevNo;
use crate::sysroot::SysRoot;

/// Fields behind the name that the newest kernel known writes.
pub const FIELDS: usize = 17;

/// One device's counters since it was made, see Documentation/admin-guide/iostats.rst of the kernel. Fields that the kernel does
/// not have are zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskLine {
    /// Its number.
    pub devno: DevNo,
    /// Kernel name, as in sysfs (a `/` is a `!`).
    pub name: String,
    /// In the kernel's order: reads, merged, sectors, ms; the same of writes; in flight, busy ms, ms in flight summed over
    /// requests; discards, merged, sectors, ms; flushes, ms.
    pub fields: [u64; FIELDS],
    /// How many of them the kernel wrote: 11 before 4.18, 15 before 5.5, 17 since.
    pub known: usize,
}

/// All devices that the kernel lists, in its order; none when /proc/diskstats cannot be read.
#[must_use]
pub fn read(root: &SysRoot) -> Option<Vec<DiskLine>> {
    Some(root.read("proc/diskstats").ok()?.lines().filter_map(parse).collect())
}

/// The fields of one device, read for it alone: on a machine with thousands of them that is much less than all.
#[must_use]
pub fn fields_of(root: &SysRoot, name: &str) -> Option<[u64; FIELDS]> {
    let text = root.read(format!("sys/class/block/{}/stat", name.replace('/', "!"))).ok()?;
    let (fields, known) = numbers(text.split_ascii_whitespace())?;
    (known >= 11).then_some(fields)
}

/// One line. None for what is no line of a device, and for the four fields that partitions had before 2.6.25.
#[must_use]
pub fn parse(line: &str) -> Option<DiskLine> {
    let mut words = line.split_ascii_whitespace();
    let devno = DevNo { major: words.next()?.parse().ok()?, minor: words.next()?.parse().ok()? };
    let name = words.next()?.replace('/', "!");
    let (fields, known) = numbers(words)?;
    (known >= 11).then_some(DiskLine { devno, name, fields, known })
}

/// As many fields as there are words, and how many that is.
fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Option<([u64; FIELDS], usize)> {
    let (mut fields, mut known) = ([0; FIELDS], 0);
    for (field, word) in fields.iter_mut().zip(words) {
        *field = word.parse().ok()?;
        known += 1;
    }
    Some((fields, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_three_ages() {
        let old = parse("   8       0 sda 10 1 80 5 20 2 160 9 0 12 14").expect("a line");
        assert_eq!(
            (old.name.as_str(), old.known, old.fields[10], old.fields[11]),
            ("sda", 11, 14, 0)
        );
        let discards =
            parse("104 0 cciss/c0d0 10 1 80 5 20 2 160 9 0 12 14 7 6 5 4").expect("a line");
        assert_eq!((discards.name.as_str(), discards.known), ("cciss!c0d0", 15));
        assert_eq!(discards.fields[11..], [7, 6, 5, 4, 0, 0]);
        let text = " 254 0 vda 26527 5488 1989994 8641 5166 5792 312136 1175 4 4588 10045 3113 88 140280 215 238 12";
        let new = parse(text).expect("a line");
        assert_eq!((new.known, new.fields[15], new.fields[16]), (17, 238, 12));
        // A field more, of a kernel to come, is no harm.
        assert_eq!(parse(&format!("{text} 99")), Some(new));
        for bad in ["", "8 1 sda1 10 80 20 160", "8 0 sda 1 2 x 4 5 6 7 8 9 10 11", "a 0 sda"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_machine_has_disks() {
        let root = SysRoot::live();
        let disks = read(&root).expect("told");
        let (first, alone) = (&disks[0], fields_of(&root, &disks[0].name).expect("told"));
        // Counters only grow, but for what is in flight.
        let grown = |at: &usize| alone[*at] >= first.fields[*at];
        assert_eq!(
            (0..FIELDS).filter(grown).filter(|at| *at != 8).count(),
            FIELDS - 1,
            "{alone:?}"
        );
        assert_eq!(fields_of(&root, "no-such-disk"), None);
    }
}
