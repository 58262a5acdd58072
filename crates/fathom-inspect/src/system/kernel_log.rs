//! Lines of the kernel's log about storage trouble.

use super::reader::Reader;
use fathom_check::known::{is_of_link, is_trouble};
use fathom_model::system::LogLine;
use fathom_sys::kmsg;
use std::path::Path;

/// The most lines that are kept; the newest win.
pub const LINES_MAX: usize = 200;

/// The most of them that are about links, so that one bad contact does not push out all others.
const LINK_LINES_MAX: usize = LINES_MAX / 2;

/// The longest text of a line that is kept.
const TEXT_CHARS_MAX: usize = 400;

/// The lines about trouble, and true when the log could be read.
pub(crate) fn read(reader: &mut Reader<'_>) -> (Vec<LogLine>, bool) {
    match kmsg::read(reader.root) {
        Ok(text) => (troubles(&text), true),
        Err(error) => {
            reader.note(Path::new("dev/kmsg"), &error);
            (Vec::new(), false)
        }
    }
}

/// The newest [`LINES_MAX`] lines about storage trouble in the text of `/dev/kmsg`, the newest last.
#[must_use]
pub fn troubles(text: &str) -> Vec<LogLine> {
    let mut links = 0;
    let newest = text.lines().rev().filter_map(record).filter(|line| is_trouble(&line.text));
    let kept = newest.filter(|line| {
        let is_link = is_of_link(&line.text);
        links += usize::from(is_link);
        !is_link || links <= LINK_LINES_MAX
    });
    let mut found: Vec<LogLine> = kept.take(LINES_MAX).collect();
    found.reverse();
    found
}

/// `PRIORITY,NUMBER,MICROSECONDS,FLAGS[,...];TEXT` of the kernel itself: the upper bits of the priority are the facility, 0
/// for the kernel; programs have others. Lines of properties begin with a blank.
fn record(line: &str) -> Option<LogLine> {
    let (head, text) = line.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u64 = fields.next()?.parse().ok()?;
    let boot_us = fields.nth(1)?.parse().ok()?;
    let text = text.chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect();
    (priority < 8).then_some(LogLine { boot_us, level: priority as u8, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;
    use proptest::prelude::*;

    const LOG: &str = "\
6,339,5140900,-;NET: Registered PF_INET protocol family
4,812,9000000,-;nvme nvme0: I/O 12 (Write) QID 3 timeout, aborting
 SUBSYSTEM=nvme
 DEVICE=c243:0
3,813,9100000,-,caller=T12;I/O error, dev sda, sector 1000 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2
30,814,9200000,-;smartd[12]: I/O error that a program tells
5,815,9250000,-;sd 0:0:0:0: Power-on or device reset occurred
3,816,9300000,-;critical medium error, dev sdb, sector 5
";

    #[test]
    fn lines_of_the_kernel_about_trouble() {
        let found = troubles(LOG);
        let told: Vec<_> =
            found.iter().map(|l| (l.boot_us, l.level, l.text.get(..20).unwrap_or(""))).collect();
        assert_eq!(
            told,
            [
                (9_000_000, 4, "nvme nvme0: I/O 12 ("),
                (9_100_000, 3, "I/O error, dev sda, "),
                (9_300_000, 3, "critical medium erro"),
            ]
        );
    }

    #[test]
    fn the_newest_are_kept() {
        let line = |n: usize| format!("3,{n},{n},-;I/O error, dev sda, sector {n}\n");
        let text: String = (0..LINES_MAX + 5).map(line).collect();
        let found = troubles(&text);
        assert_eq!(found.len(), LINES_MAX);
        assert_eq!((found[0].boot_us, found[LINES_MAX - 1].boot_us), (5, LINES_MAX as u64 + 4));
    }

    #[test]
    fn a_bad_contact_does_not_push_out_the_rest() {
        let link = |n: usize| format!("4,{n},{n},-;nvme 0000:04:00.0: PCIe Bus Error: {n}\n");
        let text: String = (1..LINES_MAX * 2).map(link).collect();
        let found = troubles(&format!("3,0,0,-;I/O error, dev sda, sector 0\n{text}"));
        let (first, last) = (&found[0], &found[found.len() - 1]);
        assert_eq!((found.len(), first.boot_us), (LINK_LINES_MAX + 1, 0));
        assert_eq!(last.boot_us, LINES_MAX as u64 * 2 - 1);
    }

    #[test]
    fn a_log_that_is_missing_is_told_by_its_flag() {
        let tree = Tree::new();
        let root = tree.root();
        assert_eq!(read(&mut Reader::new(&root)), (Vec::new(), false));
        tree.put("dev/kmsg", LOG);
        let (lines, is_read) = read(&mut Reader::new(&root));
        assert_eq!((lines.len(), is_read), (3, true));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in any::<String>()) {
            prop_assert!(troubles(&text).len() <= LINES_MAX);
            prop_assert_eq!(troubles(&format!("3,1,7,-;I/O error, {text}")).first().map(|l| l.boot_us), Some(7));
        }
    }
}
