//! Serial numbers none of whose words would go: short numbers, and ordinary words, as people give them to virtual drives.

use super::{WORDS_OF_RULES, hash, is_ordinary, log, naming_values, runs};
use fathom_model::stack::Node;
use std::collections::{BTreeMap, BTreeSet};

/// From this length on a serial number is looked for where nothing says that one stands there.
const TELLING_CHARS: usize = 5;
/// Links that are named by something else than the drive.
const NAMED_OTHERWISE: &[&str] = &["by-path/", "by-diskseq/", "by-uuid/", "by-partuuid/"];

/// Such a serial number, and what stands instead.
#[derive(Clone, Debug)]
pub(super) struct Serial {
    given: String,
    other: String,
}

impl Serial {
    /// The field says what it is. What stands instead is longer, so that no two drives become one.
    pub(super) fn of(serial: &str, plain: &BTreeSet<String>, seed: u64) -> Option<Self> {
        let is_none = serial.chars().all(|c| !c.is_alphanumeric() || c == '0');
        let stays = |run: &str| is_ordinary(run) || plain.contains(&run.to_lowercase());
        let is_short = !is_none && runs(serial).all(|(_, run)| stays(run));
        is_short.then(|| Self {
            given: serial.trim().to_owned(),
            other: format!("{:012x}", hash(serial, seed) >> 16),
        })
    }

    pub(super) fn into_other(self) -> String {
        self.other
    }

    /// A name of the drive itself, by the kernel or by udev, behind the word for its kind.
    fn out_of(&self, name: &str) -> String {
        let mut out = replaced(name, &self.given, &self.other);
        out = replaced(&out, &self.as_in_links(), &self.other);
        // NVMe names that the kernel makes up have the bytes in hexadecimal digits.
        let hex: String = self.given.bytes().map(|byte| format!("{byte:02x}")).collect();
        replaced(&out, &hex, &self.other)
    }

    /// As udev writes it: each blank an underscore, and each character that links do not have.
    fn as_in_links(&self) -> String {
        let may_stay = |c: char| c.is_alphanumeric() || "#+-.:=@_".contains(c);
        let words: Vec<&str> = self.given.split_whitespace().collect();
        words.join("_").chars().map(|c| if may_stay(c) { c } else { '_' }).collect()
    }

    /// True where it is long enough, and no word by which findings are made.
    fn is_telling(&self) -> bool {
        let is_word = |run: &str| {
            let has_digits = run.bytes().any(|b| b.is_ascii_digit());
            WORDS_OF_RULES.contains(&run.to_lowercase()) || !has_digits && log::is_known(run)
        };
        self.given.len() >= TELLING_CHARS && !runs(&self.given).all(|(_, run)| is_word(run))
    }
}

/// The world-wide name of a drive with such serial numbers, its own or one below.
pub(super) fn out_of_wwn(name: &str, serials: &[Serial]) -> String {
    behind(name, '.', serials)
}

/// A link of a drive in `/dev/disk`, or another one of it in `/dev`.
pub(super) fn out_of_link(link: &str, serials: &[Serial]) -> String {
    if let Some(name) = link.strip_prefix("by-id/") {
        return format!("by-id/{}", behind(name, '-', serials));
    }
    if NAMED_OTHERWISE.iter().any(|place| link.starts_with(place)) {
        return link.to_owned();
    }
    let telling = serials.iter().filter(|serial| serial.given.len() >= TELLING_CHARS);
    telling
        .fold(link.to_owned(), |link, serial| replaced(&link, &serial.as_in_links(), &serial.other))
}

/// What stands before the first `mark` says what kind of name it is.
fn behind(name: &str, mark: char, serials: &[Serial]) -> String {
    let (kind, own) = name.split_at(name.find(mark).map_or(0, |at| at + mark.len_utf8()));
    let own = serials.iter().fold(own.to_owned(), |own, serial| serial.out_of(&own));
    format!("{kind}{own}")
}

/// Those of all drives, for what is told of them elsewhere.
#[derive(Default)]
pub(super) struct Known {
    /// By their first word.
    telling: BTreeMap<String, Vec<Serial>>,
    /// All, by what the drive says.
    whole: BTreeMap<String, String>,
    /// Names of links below `by-id/` with what stands instead.
    links: BTreeMap<String, String>,
}

impl Known {
    /// `hidden` is a link without all else that has to go.
    pub(super) fn of<'a>(
        nodes: impl Iterator<Item = (&'a Node, Vec<Serial>)>,
        hidden: impl Fn(&str) -> String,
    ) -> Self {
        let mut known = Self::default();
        for (node, serials) in nodes {
            for link in node.details().links.iter().filter(|_| !serials.is_empty()) {
                let link = hidden(link);
                let other = out_of_link(&link, &serials);
                if let (Some(link), Some(other)) =
                    (link.strip_prefix("by-id/"), other.strip_prefix("by-id/"))
                    && link != other
                {
                    known.links.insert(link.to_owned(), other.to_owned());
                }
            }
            for serial in serials {
                let before = known.whole.insert(serial.given.clone(), serial.other.clone());
                let first = runs(&serial.given).next().filter(|(at, _)| *at == 0);
                let first = first.map(|(_, first)| first.to_owned());
                if let Some(first) = first.filter(|_| before.is_none() && serial.is_telling()) {
                    known.telling.entry(first).or_default().push(serial);
                }
            }
        }
        known
    }

    /// A line of the kernel's log without those that stand in it as they are.
    pub(super) fn out_of_line(&self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut done = 0;
        for (at, run) in runs(line) {
            let found = self.telling.get(run).filter(|_| at >= done).and_then(|serials| {
                let is_here = |serial: &&Serial| {
                    line[at..].strip_prefix(&serial.given).is_some_and(ends_there)
                };
                serials.iter().filter(is_here).max_by_key(|serial| serial.given.len())
            });
            if let Some(serial) = found {
                out.push_str(&line[done..at]);
                out.push_str(&serial.other);
                done = at + serial.given.len();
            }
        }
        out.push_str(&line[done..]);
        out
    }

    /// Values of udev's rules that are one, or a link of a drive that has one.
    pub(super) fn out_of_rule(&self, line: &str) -> String {
        let line = self.out_of_links(line);
        let mut out = String::with_capacity(line.len());
        let mut done = 0;
        for value in naming_values(&line) {
            if let Some(other) = self.whole.get(value.trim()) {
                let at = value.as_ptr() as usize - line.as_ptr() as usize;
                out.push_str(&line[done..at]);
                out.push_str(other);
                done = at + value.len();
            }
        }
        out.push_str(&line[done..]);
        out
    }

    /// Text in which links of these drives may stand.
    pub(super) fn out_of_links(&self, text: &str) -> String {
        const PLACE: &str = "by-id/";
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(PLACE).filter(|_| !self.links.is_empty()) {
            let (before, link) = rest.split_at(at + PLACE.len());
            let end = link.find(|c: char| c.is_whitespace() || "\"'|,;()".contains(c));
            let (link, after) = link.split_at(end.unwrap_or(link.len()));
            out.push_str(before);
            out.push_str(self.links.get(link).map_or(link, String::as_str));
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

/// True where no letter or digit goes on.
fn ends_there(after: &str) -> bool {
    !after.starts_with(char::is_alphanumeric)
}

/// The text with another one in the place of a name that no letter or digit goes on with.
fn replaced(text: &str, name: &str, other: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(name).filter(|_| !name.is_empty()) {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        if !before.ends_with(char::is_alphanumeric) && ends_there(after) {
            out.push_str(&text[done..at]);
            out.push_str(other);
            done = at + name.len();
        }
    }
    out.push_str(&text[done..]);
    out
}
