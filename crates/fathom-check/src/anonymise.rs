//! Takes out of a snapshot what names people, places and single pieces of hardware, so that it can be shown to others.
//!
//! Serial numbers, world-wide names, UUIDs, labels, names of volumes and arrays, mount points and addresses are replaced,
//! each by something of the same shape, and the same one by the same wherever it stands: what the rules see stays.
//! Models, firmware and the kernel's own names (`sda`, `md0`) stay as they are.

mod log;
pub mod runs;
mod serials;
mod words;

use crate::known;
use fathom_base::json;
use words::{
    LONG_HEX, NAMED_BY_PEOPLE, NAMED_IN_LOGS, NAMING, NAMING_IN, NAMING_KEYS, NAMING_OPTIONS,
    NAMING_SETTINGS, NO_DOMAINS, NUMBER_DIGITS, OF_LOGS, OF_UDEV, OF_UDEV_FILES, OPTIONS, ORDINARY,
    OWN_WORDS, OWN_WORDS_IN, PARAMETERS, PLAIN, QUALIFIED, SETTINGS, USUAL_HOSTS, UUID_CHARS,
    WELL_KNOWN,
};

use serials::{Known, Serial};

use fathom_base::prng::Prng;
use fathom_model::snapshot::Snapshot;
use fathom_model::stack::{Node, NodeKind};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The snapshot without what identifies; `seed` decides what stands instead, and has to be forgotten.
#[must_use]
pub fn anonymise(mut snapshot: Snapshot, seed: u64) -> Snapshot {
    // The nodes one after the other: as values of JSON all together take many times the memory.
    let mut nodes = std::mem::take(&mut snapshot.machine.nodes);
    let mut words = Words::default();
    words.collect(&value_of(&snapshot), "", "");
    nodes.iter().for_each(|node| words.collect(&value_of(node), "nodes", "machine"));
    let plain = std::mem::take(&mut words.plain);
    words.secret.retain(|word| !plain.contains(word) && !is_ordinary(word));
    let host_name = snapshot.system.host_name.as_deref();
    let mut names = Replacements::new(words, plain, host_name.and_then(telling_host), seed);
    names.short_host = host_name.and_then(short_host);
    let serials: Vec<Option<Serial>> = nodes.iter().map(|node| names.serial_of(node)).collect();
    let of = |index: usize, node: &Node| -> Vec<Serial> {
        let around = std::iter::once(index).chain(node.below.iter().copied());
        around.filter_map(|index| serials.get(index)?.clone()).collect()
    };
    let drives = nodes.iter().enumerate().map(|(index, node)| (node, of(index, node)));
    names.known = Known::of(drives, |link| names.text(link));
    // From text, as everywhere: code for each other form that is read would make the binary larger. What cannot be read
    // again is left out.
    let mut hidden: Snapshot =
        fathom_model::read::snapshot(&names.text_of(&snapshot, "", "")).unwrap_or_default();
    for (index, node) in nodes.iter_mut().enumerate() {
        names.serials = of(index, node);
        let text = names.text_of(node, "nodes", "machine");
        *node = json::from_str(&text).unwrap_or_else(|_| Node::new(NodeKind::Unknown, ""));
    }
    hidden.machine.nodes = nodes;
    hidden.anonymised = true;
    hidden
}

fn value_of(facts: &impl Serialize) -> Value {
    serde_json::to_value(facts).unwrap_or_default()
}

/// What has to go.
#[derive(Default)]
struct Words {
    /// Runs of letters and digits, in lower case.
    secret: BTreeSet<String>,
    /// Runs that are models and the like, in lower case.
    plain: BTreeSet<String>,
    /// UUIDs as letters and digits only.
    uuids: BTreeSet<String>,
}

impl Words {
    fn collect(&mut self, value: &Value, key: &str, parent: &str) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| self.collect(value, name, key));
            }
            Value::Array(items) => {
                // Settings are kept as pairs of a name and its value.
                if let [Value::String(name), Value::String(text)] = items.as_slice()
                    && ["alias", "wwid", "label"].contains(&name.as_str())
                {
                    self.secret.extend(runs(text).map(|(_, run)| run.to_lowercase()));
                }
                items.iter().for_each(|item| self.collect(item, key, parent));
            }
            Value::String(text) => self.take(text, key, parent),
            _ => {}
        }
    }

    fn take(&mut self, text: &str, key: &str, parent: &str) {
        let is_target_type = key == "targets" && parent == "dm";
        if OPTIONS.contains(&key) {
            // Mount points may be called like options.
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            if NAMING_OPTIONS.contains(&name.trim_end_matches('+')) {
                self.secret.extend(runs(value).map(|(_, run)| run.to_lowercase()));
            }
            let value = if known::VALUED.contains(&name) { value } else { "" };
            let words = runs(name).chain(runs(value));
            self.plain.extend(words.map(|(_, run)| run.to_lowercase()));
        } else if key == "udev_queue_rules" {
            let named = naming_values(text).flat_map(runs);
            self.secret.extend(named.map(|(_, run)| run.to_lowercase()));
        } else if parent == "kernel_log" {
            let named = named_in_log(text).flat_map(runs).filter(|(_, run)| !is_well_known(run));
            self.secret.extend(named.map(|(_, run)| run.to_lowercase()));
        } else if NAMING_IN.contains(&(key, parent)) {
            self.secret.extend(runs(text).map(|(_, run)| run.to_lowercase()));
        } else if (key, parent) == ("why", "unread") {
            // Where a file is named it stands in quotes: the store, in somebody's own directory.
            let quoted = text.split('\'').skip(1).step_by(2).filter(|name| name.contains('/'));
            self.secret.extend(quoted.flat_map(runs).map(|(_, run)| run.to_lowercase()));
        } else if PLAIN.contains(&key) || is_target_type {
            self.plain.extend(runs(text).map(|(_, run)| run.to_lowercase()));
        } else if names_something(key, parent) {
            let bare: String = text.chars().filter(|c| c.is_alphanumeric()).collect();
            if key.ends_with("uuid") && bare.len() == UUID_CHARS {
                self.uuids.insert(bare);
            } else if key.ends_with("uuid")
                && text.starts_with("LVM-")
                && text.len() >= 4 + 2 * UUID_CHARS
            {
                self.uuids.insert(text[4..4 + UUID_CHARS].to_owned());
                self.uuids.insert(text[4 + UUID_CHARS..4 + 2 * UUID_CHARS].to_owned());
            }
            self.secret.extend(runs(text).map(|(_, run)| run.to_lowercase()));
        }
    }
}

/// True for fields with names that people chose, or that hardware has.
fn names_something(key: &str, parent: &str) -> bool {
    NAMING.contains(&key) || (key == "name" && NAMED_BY_PEOPLE.contains(&parent))
}

/// The words that rules look for in the kernel's log and in udev's rules: without them nothing would be found there.
static WORDS_OF_RULES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let texts = known::phrases().chain(OF_LOGS.iter().copied()).chain(OF_UDEV.iter().copied());
    texts.flat_map(runs).map(|(_, run)| run.to_lowercase()).collect()
});

/// True for words that identify nobody: short ones, ordinary ones, the kernel's names of devices.
fn is_ordinary(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    // Partitions of what ends in a digit: loop7p1.
    let whole = match lower.rsplit_once('p') {
        Some((whole, number))
            if whole.ends_with(|c: char| c.is_ascii_digit())
                && !number.is_empty()
                && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            whole
        }
        _ => lower.as_str(),
    };
    let letters = whole.trim_end_matches(|c: char| c.is_ascii_digit());
    let kernel = ["sd", "vd", "xvd", "hd", "dasd"].iter().any(|prefix| {
        letters.strip_prefix(prefix).is_some_and(|rest| (1..=3).contains(&rest.len()))
    }) || [
        "md", "dm", "loop", "zram", "ram", "mmcblk", "nbd", "bcache", "sr", "part", "p", "rbd",
        "drbd", "pmem", "zd", "ublkb",
    ]
    .contains(&letters)
        || (lower.starts_with("nvme")
            && lower[4..].bytes().all(|b| b.is_ascii_digit() || matches!(b, b'n' | b'p' | b'c')));
    // Names that multipathd numbers through by itself: mpatha, mpathbq.
    let friendly = lower
        .strip_prefix("mpath")
        .is_some_and(|rest| rest.len() <= 3 && rest.bytes().all(|b| b.is_ascii_lowercase()));
    word.len() < 3
        || kernel
        || friendly
        || ORDINARY.contains(&lower.as_str())
        || WORDS_OF_RULES.contains(lower.as_str())
        || (word.len() < 7 && word.bytes().all(|b| b.is_ascii_digit()))
}

/// True for the words by which distributions call their timers and services, and for numbers.
fn is_well_known(run: &str) -> bool {
    let lower = run.to_ascii_lowercase();
    run.bytes().all(|b| b.is_ascii_digit())
        || WELL_KNOWN.contains(&lower.as_str())
        || is_ordinary(run)
}

/// True for the words by which distributions and makers of storage call files of udev's rules, and the directories of these.
fn is_of_udev_file(run: &str) -> bool {
    OF_UDEV_FILES.contains(&run.to_ascii_lowercase().as_str()) || is_well_known(run)
}

/// What a rule of udev compares with or sets of names and numbers of single pieces: `ENV{ID_SERIAL}=="..."`.
fn naming_values(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_once('"')?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some((head.trim_start_matches([' ', ',']).to_uppercase(), value))
    })
    .filter(|(head, _)| NAMING_KEYS.iter().any(|key| head.contains(key)))
    .map(|(_, value)| value)
}

/// The names of programs, files, maps and filesystems in a line of the kernel's log, which stand in fixed places.
fn named_in_log(line: &str) -> impl Iterator<Item = &str> {
    NAMED_IN_LOGS.iter().filter_map(|(before, ends)| {
        let (_, after) = line.split_once(before)?;
        Some(after.split(*ends).next().unwrap_or(after))
    })
}

/// Runs of letters and digits with where they begin.
fn runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let begin = text.as_ptr() as usize;
    let pieces = text.split(|c: char| !c.is_alphanumeric()).filter(|piece| !piece.is_empty());
    pieces.map(move |piece| (piece.as_ptr() as usize - begin, piece))
}

/// The command line with only those values that say how the kernel treats storage.
fn parameters(line: &str) -> String {
    let mut quoted = false;
    let words = line.split(|c: char| {
        quoted ^= c == '"';
        !quoted && c.is_whitespace()
    });
    let shown = words.filter(|word| !word.is_empty()).map(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let known = PARAMETERS.iter().any(|known| {
            name == *known || (known.ends_with(['.', '_']) && name.starts_with(known))
        });
        let telling = value.contains(['@', '/', '"']) || value.contains("subvol");
        let is_name = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '.');
        if known && !telling && name != "dm_mod.create" {
            word.to_owned()
        } else if !name.is_empty() && name.chars().all(is_name) {
            format!("{name}=...")
        } else {
            "...".to_owned()
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// The kernel's log repeats its command line.
fn without_command_line(text: &str) -> String {
    let begin = text.find("ommand line").and_then(|at| Some(at + text[at..].find([':', '"'])? + 1));
    match begin {
        Some(begin) => {
            format!("{} {}", &text[..begin], parameters(text[begin..].trim_end_matches('"')))
        }
        None => text.to_owned(),
    }
}

/// How long the beginning of `text` is when it consists of hexadecimal groups of these lengths and ends there.
fn groups(text: &str, lengths: &[usize], between: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for (index, length) in lengths.iter().enumerate() {
        if index > 0 {
            (bytes.get(at) == Some(&between)).then_some(())?;
            at += 1;
        }
        bytes.get(at..at + length)?.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        at += length;
    }
    (!bytes.get(at).is_some_and(u8::is_ascii_alphanumeric)).then_some(at)
}

/// How long the IPv4 address is that `text` begins with.
fn ipv4(before: &str, text: &str) -> Option<usize> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let length = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let word = text[..length].trim_end_matches('.');
    let ip = word.parse::<std::net::Ipv4Addr>().ok()?;
    let dotted =
        before.strip_suffix('.').is_some_and(|b| b.ends_with(|c: char| c.is_ascii_digit()));
    let longer = dotted || text[length..].starts_with(char::is_alphanumeric);
    let before = before.trim_end_matches([' ', ':', '=', '(']).to_ascii_lowercase();
    let word_before = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let version = ["version", "ver", "firmware", "fw", "driver", "rev"].contains(&word_before);
    let telling = !ip.is_loopback() && !ip.is_unspecified();
    (telling && !version && !longer).then_some(word.len())
}

/// The first word of the machine's own name, where it tells one machine from others.
fn telling_host(name: &str) -> Option<String> {
    let first = name.split('.').next().unwrap_or_default().to_lowercase();
    let is_usual = USUAL_HOSTS.contains(&first.as_str()) || is_ordinary(&first);
    (first.len() > 3 && !is_usual).then_some(first)
}

/// The same for a name that is too short to be looked for inside of other words: it is one only where the field says so.
fn short_host(name: &str) -> Option<String> {
    let first = name.split('.').next().unwrap_or_default().to_lowercase();
    let is_number = first.bytes().all(|b| b.is_ascii_digit());
    (first.len() <= 3 && !is_number).then_some(first)
}

/// A word and its value.
fn is_setting(items: &[Value]) -> bool {
    matches!(items, [Value::String(_), Value::String(_)])
}

/// What stands instead.
struct Replacements {
    words: BTreeSet<String>,
    uuids: BTreeMap<String, String>,
    plain: BTreeSet<String>,
    host: Option<String>,
    /// See [`short_host`].
    short_host: Option<String>,
    /// Those of the node that is at hand and of what it stands on.
    serials: Vec<Serial>,
    /// Those of all drives.
    known: Known,
    seed: u64,
}

impl Replacements {
    fn new(words: Words, plain: BTreeSet<String>, host: Option<String>, seed: u64) -> Self {
        let uuids = words.uuids.iter().map(|word| (word.clone(), stand_in(word, seed))).collect();
        let (words, short_host) = (words.secret, None);
        let (serials, known) = (Vec::new(), Known::default());
        Self { words, uuids, plain, host, short_host, serials, known, seed }
    }

    /// That of a drive, where none of its words would go.
    fn serial_of(&self, node: &Node) -> Option<Serial> {
        Serial::of(node.drive.as_ref()?.serial.as_deref()?, &self.plain, self.seed)
    }

    /// Facts that stand under a key, as text of JSON without what identifies.
    fn text_of(&self, facts: &impl Serialize, key: &str, parent: &str) -> String {
        let mut value = value_of(facts);
        self.replace(&mut value, key, parent);
        value.to_string()
    }

    fn replace(&self, value: &mut Value, key: &str, parent: &str) {
        match value {
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(name, value)| self.replace(value, name, key));
            }
            Value::Array(items) if key == "udev_queue_rules" && is_setting(items) => {
                // The file, and a line of it.
                if let Value::String(file) = &mut items[0] {
                    *file = self.unless(file, is_of_udev_file);
                }
                self.replace(&mut items[1], key, parent);
            }
            // Two devices of smartd are no pair.
            Value::Array(items)
                if SETTINGS.contains(&key)
                    && !NAMING_IN.contains(&(key, parent))
                    && is_setting(items) =>
            {
                let is_name = NAMING_SETTINGS.iter().any(|name| items[0] == *name);
                let key = if is_name { key } else { "state" };
                self.replace(&mut items[1], key, parent);
            }
            Value::Array(items) => {
                items.iter_mut().for_each(|item| self.replace(item, key, parent));
            }
            // Older snapshots have all that fstab says.
            Value::String(text) if (key, parent) == ("options", "fstab") => {
                *text = self.text(known::plain_option(text));
            }
            Value::String(text) if key == "command_line" => *text = self.text(&parameters(text)),
            Value::String(text)
                if key == "other_namespaces"
                    || (parent == "timers" && ["name", "file"].contains(&key)) =>
            {
                *text = self.unless(text, is_well_known);
            }
            Value::String(text) if parent == "kernel_log" && !text.contains("ommand line") => {
                let hidden = self.text(&self.without_domains(text));
                let hidden = self.known.out_of_line(&hidden);
                *text = self.log_line(text, &hidden);
            }
            Value::String(text)
                if OWN_WORDS.contains(&key) || OWN_WORDS_IN.contains(&(key, parent)) =>
            {
                *text = self.without_addresses(&self.without_uuids(&self.without_shapes(text)));
            }
            Value::String(text) if key == "serial" => {
                let short = Serial::of(text, &self.plain, self.seed);
                *text = short.map_or_else(|| self.text(text), Serial::into_other);
            }
            Value::String(text) if key == "wwn" => {
                *text = serials::out_of_wwn(&self.text(text), &self.serials);
            }
            Value::String(text) if key == "links" => {
                *text = serials::out_of_link(&self.text(text), &self.serials);
            }
            Value::String(text) if key == "udev_queue_rules" => {
                *text = self.known.out_of_rule(&self.text(text));
            }
            Value::String(text) if !PLAIN.contains(&key) => {
                let hidden = self.text(&without_command_line(text));
                let hidden = self.known.out_of_links(&hidden);
                let host = self.short_host.as_deref().filter(|_| names_something(key, parent));
                *text = match host {
                    Some(host) => self.unless(&hidden, |run| run.to_lowercase() != host),
                    None => hidden,
                };
            }
            _ => {}
        }
    }

    fn text(&self, text: &str) -> String {
        let text = self.without_host(text);
        let text = self.without_uuids(&self.without_shapes(&self.without_mail(&text)));
        let out = self.unless(&text, |run| !self.words.contains(&run.to_lowercase()));
        self.without_addresses(&out)
    }

    /// A line of the kernel's log, in which what is known to name something was replaced before, without all other words that are not
    /// known: nobody can say what these name.
    fn log_line(&self, given: &str, line: &str) -> String {
        let given: BTreeSet<String> = runs(given).map(|(_, run)| run.to_lowercase()).collect();
        let may_stay = |run: &str| {
            // The kernel writes a line break inside of a message as `\x0a`.
            let run = run.strip_prefix("x0a").unwrap_or(run);
            let lower = run.to_lowercase();
            let is_replaced = !given.contains(&lower);
            is_replaced || log::is_known(run) || is_well_known(run) || self.plain.contains(&lower)
        };
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(begin) = rest.find(is_part) {
            let length = rest[begin..].find(|c| !is_part(c)).unwrap_or(rest.len() - begin);
            let (before, name) = (&rest[..begin], &rest[begin..begin + length]);
            let at = line.len() - rest.len() + begin;
            out.push_str(before);
            if log::is_own_name(line, at, name) {
                out.push_str(name);
            } else {
                out.push_str(&self.unless(name, may_stay));
            }
            rest = &rest[begin + length..];
        }
        out.push_str(rest);
        out
    }

    /// Each run of letters and digits replaced, unless it may stay.
    fn unless(&self, text: &str, may_stay: impl Fn(&str) -> bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (at, run) in runs(text).filter(|(_, run)| !may_stay(run)) {
            out.push_str(&text[done..at]);
            out.push_str(&stand_in(run, self.seed));
            done = at + run.len();
        }
        out.push_str(&text[done..]);
        out
    }

    /// The machine's own name is replaced inside of longer words too.
    fn without_host(&self, text: &str) -> String {
        let Some(host) = self.host.as_deref().filter(|_| text.is_ascii()) else {
            return text.to_owned();
        };
        let lower = text.to_ascii_lowercase();
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (at, _) in lower.match_indices(host) {
            out.push_str(&text[done..at]);
            out.push_str(&stand_in(&text[at..at + host.len()], self.seed));
            done = at + host.len();
        }
        out.push_str(&text[done..]);
        out
    }

    /// Names of machines with their domains in the kernel's log: `nas7.example.com`.
    fn without_domains(&self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(begin) = rest.find(is_part) {
            let length = rest[begin..].find(|c| !is_part(c)).unwrap_or(rest.len() - begin);
            let word = &rest[begin..begin + length];
            out.push_str(&rest[..begin]);
            rest = &rest[begin + length..];
            let labels: Vec<&str> = word.trim_end_matches('.').split('.').collect();
            let last = labels.last().copied().unwrap_or_default();
            let is_name = labels.len() > 1
                && labels.iter().all(|label| !label.is_empty())
                && last.len() > 1
                && last.bytes().all(|b| b.is_ascii_alphabetic())
                && labels[0].bytes().any(|b| b.is_ascii_alphabetic())
                && !["iqn", "nqn"].contains(&labels[0])
                && !NO_DOMAINS.contains(&last.to_ascii_lowercase().as_str());
            if is_name {
                out.push_str(&self.unless(word, |_| false));
            } else {
                out.push_str(word);
            }
        }
        out.push_str(rest);
        out
    }

    /// Mail addresses, and users and hosts written like them.
    fn without_mail(&self, text: &str) -> String {
        let is_user = |c: char| c.is_alphanumeric() || "._+-:%".contains(c);
        let is_host = |c: char| c.is_alphanumeric() || ".-".contains(c);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('@') {
            let (before, after) = (&rest[..at], &rest[at + 1..]);
            let user = &before[before.trim_end_matches(is_user).len()..];
            let host = &after[..after.find(|c| !is_host(c)).unwrap_or(after.len())];
            let unit = host.ends_with(".service") || host.ends_with(".timer");
            if user.is_empty() || !host.starts_with(char::is_alphanumeric) || unit {
                out.push_str(&rest[..=at]);
                rest = after;
                continue;
            }
            out.push_str(&before[..at - user.len()]);
            out.push_str(&self.unless(user, |_| false));
            out.push('@');
            rest = after;
            // An address is found by its own shape.
            if host.parse::<std::net::Ipv4Addr>().is_err() {
                out.push_str(&self.unless(host, |_| false));
                rest = &after[host.len()..];
            }
        }
        out.push_str(rest);
        out
    }

    /// What tells by its shape alone that it names one thing.
    fn without_shapes(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (at, _) in text.char_indices() {
            let begins = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            if at >= done
                && begins
                && let Some((length, other)) = self.shape(&text[..at], &text[at..])
            {
                out.push_str(&other);
                done = at + length;
            } else if at >= done {
                out.extend(text[at..].chars().next());
            }
        }
        out
    }

    /// The length of such a shape at the beginning of `text`, and what stands instead.
    fn shape(&self, before: &str, text: &str) -> Option<(usize, String)> {
        let run = &text[..text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len())];
        if run.is_empty() {
            return None;
        }
        let uuid =
            groups(text, &[8, 4, 4, 4, 12], b'-').or_else(|| groups(text, &[8, 8, 8, 8], b':'));
        if let Some(length) = uuid.or_else(|| groups(text, &[2; 6], b':')) {
            let found = &text[..length];
            let bare: String = found.chars().filter(char::is_ascii_alphanumeric).collect();
            let other = stand_in(&bare, self.seed);
            let mut other = other.chars();
            let cut =
                |c: char| if c.is_ascii_alphanumeric() { other.next().unwrap_or(c) } else { c };
            return Some((length, found.chars().map(cut).collect()));
        }
        if let Some(length) = ipv4(before, text) {
            let number = 1 + hash(&text[..length], self.seed) % 254;
            return Some((length, format!("192.0.2.{number}")));
        }
        if matches!(run, "iqn" | "nqn")
            && let Some(tail) = text.get(4..)
            && groups(tail, &[4, 2], b'-').is_some()
        {
            let end = text.find(|c: char| c.is_whitespace() || "\"',;()[]<>/".contains(c));
            let name = &text[..end.unwrap_or(text.len())];
            let name = &name[..name.find(":uuid:").unwrap_or(name.len())];
            let (date, own) = name.split_at(name.len().min("iqn.2003-01".len()));
            return Some((
                name.len(),
                format!("{date}{}", self.unless(own, |run| QUALIFIED.contains(&run))),
            ));
        }
        let bare = run.strip_prefix("0x").unwrap_or(run);
        let telling = bare.len() >= LONG_HEX
            && bare.bytes().all(|b| b.is_ascii_hexdigit())
            && bare.bytes().any(|b| b != b'0')
            && (bare.len() < run.len()
                || bare.len() > NUMBER_DIGITS
                || bare.bytes().any(|b| b.is_ascii_alphabetic()))
            && !self.plain.contains(&run.to_lowercase());
        let prefix = &run[..run.len() - bare.len()];
        telling.then(|| (run.len(), format!("{prefix}{}", stand_in(bare, self.seed))))
    }

    /// UUIDs are found by their letters and digits, however punctuation cuts them.
    fn without_uuids(&self, text: &str) -> String {
        let places: Vec<usize> = text
            .char_indices()
            .filter(|(_, c)| c.is_ascii_alphanumeric())
            .map(|(at, _)| at)
            .collect();
        if places.len() < UUID_CHARS || self.uuids.is_empty() || !text.is_ascii() {
            return text.to_owned();
        }
        let mut bytes = text.as_bytes().to_vec();
        let bare: Vec<u8> = places.iter().map(|&at| bytes[at]).collect();
        let mut next = 0;
        while next + UUID_CHARS <= bare.len() {
            let window = String::from_utf8_lossy(&bare[next..next + UUID_CHARS]);
            if let Some(other) = self.uuids.get(window.as_ref()) {
                for (byte, &at) in other.bytes().zip(&places[next..]) {
                    bytes[at] = byte;
                }
                next += UUID_CHARS;
            } else {
                next += 1;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// IPv6 addresses become some of those that are set aside for documentation (RFC 3849), as IPv4 ones do (RFC 5737).
    fn without_addresses(&self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':');
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(begin) = rest.find(is_part) {
            let length = rest[begin..].find(|c| !is_part(c)).unwrap_or(rest.len() - begin);
            let (before, word, after) =
                (&rest[..begin], &rest[begin..begin + length], &rest[begin + length..]);
            out.push_str(before);
            out.push_str(&self.address(word).unwrap_or_else(|| word.to_owned()));
            rest = after;
        }
        out.push_str(rest);
        out
    }

    fn address(&self, word: &str) -> Option<String> {
        let bare = word.trim_end_matches([':', '.']);
        let tail = &word[bare.len()..];
        let long = bare
            .parse::<std::net::Ipv6Addr>()
            .is_ok_and(|ip| !ip.is_loopback() && !ip.is_unspecified());
        long.then(|| format!("2001:db8::{:x}{tail}", 1 + hash(bare, self.seed) % 0xffff))
    }
}

/// Equal words get equal numbers; nothing can be worked back from them without the seed.
fn hash(word: &str, seed: u64) -> u64 {
    word.bytes().fold(Prng::new(seed, 1).next_u64(), |state, byte| {
        Prng::new(state ^ u64::from(byte), 2).next_u64()
    })
}

/// The same for the same word, in whatever case it is written.
fn stand_in(word: &str, seed: u64) -> String {
    // Only zeros: there is none.
    if word.bytes().all(|b| b == b'0') {
        return word.to_owned();
    }
    same_shape(word, &mut Prng::new(hash(&word.to_ascii_lowercase(), seed), 3))
}

/// Digits become digits, hexadecimal letters in hexadecimal words such letters, other letters letters, in their case.
fn same_shape(word: &str, random: &mut Prng) -> String {
    let hexadecimal = word.bytes().all(|b| b.is_ascii_hexdigit());
    let letters = if hexadecimal { 6 } else { 26 };
    let mut below = |n: u64| (random.next_u64() % n) as u8;
    let other = |c: char| match c {
        '0'..='9' => char::from(b'0' + below(10)),
        c if c.is_uppercase() => char::from(b'A' + below(letters)),
        c if c.is_alphabetic() => char::from(b'a' + below(letters)),
        c => c,
    };
    word.chars().map(other).collect()
}

#[cfg(test)]
mod tests;
