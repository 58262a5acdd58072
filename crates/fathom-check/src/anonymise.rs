//! Takes out of a snapshot what names people, places and single pieces of hardware, so that it can be shown to others.
//!
//! Serial numbers, world-wide names, UUIDs, labels, names of volumes and arrays, mount points and addresses are replaced,
//! each by something of the same shape, and the same one by the same wherever it stands: what the rules see stays.
//! Models, firmware and the kernel's own names (`sda`, `md0`) stay as they are.

use fathom_base::prng::Prng;
use fathom_model::snapshot::Snapshot;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Fields that name something: every word in them is replaced.
const NAMING: &[&str] = &[
    "serial",
    "wwn",
    "uuid",
    "array_uuid",
    "device_uuid",
    "set_uuid",
    "journal_uuid",
    "boot_id",
    "label",
    "group",
    "backing_file",
    "mount_point",
    "mounted_at",
    "source",
    "links",
    "group_members",
    "arrays",
    "targets",
    "root",
    "path",
    "run",
    "target",
];
/// Objects in which `name` is somebody's choice and not the kernel's.
const NAMED_BY_PEOPLE: &[&str] = &["dm", "volumes", "entries", "md", "partition"];
/// Fields whose words are never replaced, wherever they stand.
const PLAIN: &[&str] = &[
    "model",
    "vendor",
    "firmware",
    "driver",
    "fs_type",
    "kind",
    "transport",
    "machine",
    "cpu_model",
    "distribution",
    "kernel",
    "kernel_build",
];
/// Words of paths and names that tell nothing about anybody.
const ORDINARY: &[&str] = &[
    "ata",
    "backup",
    "bin",
    "block",
    "boot",
    "btrfs",
    "by",
    "cache",
    "cdrom",
    "cgroup",
    "container",
    "data",
    "database",
    "dev",
    "diskseq",
    "disk",
    "docker",
    "efi",
    "etc",
    "eui",
    "export",
    "ext2",
    "ext3",
    "ext4",
    "fathom",
    "file",
    "fs",
    "home",
    "id",
    "img",
    "label",
    "lib",
    "log",
    "loop",
    "lost",
    "lvm",
    "mapper",
    "media",
    "mnt",
    "mount",
    "mpath",
    "mysql",
    "naa",
    "name",
    "nfs",
    "node",
    "none",
    "nvme",
    "opt",
    "overlay",
    "part",
    "partlabel",
    "partuuid",
    "path",
    "pci",
    "postgresql",
    "proc",
    "raid",
    "ram",
    "root",
    "run",
    "sbin",
    "scsi",
    "snap",
    "srv",
    "storage",
    "swap",
    "sys",
    "system",
    "tmp",
    "tmpfs",
    "upper",
    "usb",
    "user",
    "usr",
    "uuid",
    "var",
    "virtio",
    "work",
    "wwid",
    "wwn",
    "xfs",
    "zfs",
    "crypt",
    "t10",
    "linear",
    "striped",
    "mirror",
    "multipath",
    "deleted",
    "volume",
];
/// Letters and digits of a UUID, however it is cut.
const UUID_CHARS: usize = 32;

/// Parameters of the kernel's command line that stay: by their whole name, or by how it begins when this ends in `.` or `_`.
const PARAMETERS: &[&str] = &[
    "amd_iommu",
    "console",
    "dm_",
    "elevator",
    "idle",
    "intel_idle.",
    "intel_iommu",
    "iommu",
    "iommu.",
    "isolcpus",
    "libata.",
    "md.",
    "md_mod.",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "nvme.",
    "nvme_core.",
    "processor.",
    "quiet",
    "raid",
    "raid0.",
    "raid456.",
    "ro",
    "rootflags",
    "rootfstype",
    "rw",
    "scsi_",
    "scsi_mod.",
    "transparent_hugepage",
];
/// Words of qualified names (`iqn.`, `nqn.`) that tell nothing.
const QUALIFIED: &[&str] = &["org", "com", "net", "nvmexpress", "lun"];
/// Hexadecimal runs from this length on are names of something.
const LONG_HEX: usize = 12;
/// No number of bytes has more digits.
const NUMBER_DIGITS: usize = 20;

/// The snapshot without what identifies; `seed` decides what stands instead, and has to be forgotten.
#[must_use]
pub fn anonymise(snapshot: &Snapshot, seed: u64) -> Snapshot {
    let Ok(mut value) = serde_json::to_value(snapshot) else { return Snapshot::default() };
    let mut words = Words::default();
    words.collect(&value, "", "");
    let plain = std::mem::take(&mut words.plain);
    words.secret.retain(|word| !plain.contains(word) && !is_ordinary(word));
    let names = Replacements::new(&words, plain, seed);
    names.replace(&mut value, "");
    let mut hidden: Snapshot = serde_json::from_value(value).unwrap_or_default();
    hidden.anonymised = true;
    hidden
}

/// What has to go.
#[derive(Default)]
struct Words {
    /// Runs of letters and digits.
    secret: BTreeSet<String>,
    /// Runs that are models and the like.
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
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, key, parent)),
            Value::String(text) => self.take(text, key, parent),
            _ => {}
        }
    }

    fn take(&mut self, text: &str, key: &str, parent: &str) {
        if PLAIN.contains(&key) {
            self.plain.extend(runs(text).map(|(_, run)| run.to_owned()));
        } else if NAMING.contains(&key) || (key == "name" && NAMED_BY_PEOPLE.contains(&parent)) {
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
            self.secret.extend(runs(text).map(|(_, run)| run.to_owned()));
        }
    }
}

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
    word.len() < 3
        || kernel
        || ORDINARY.contains(&lower.as_str())
        || (word.len() < 5 && word.bytes().all(|b| b.is_ascii_digit()))
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

/// What stands instead.
struct Replacements {
    words: BTreeMap<String, String>,
    uuids: BTreeMap<String, String>,
    plain: BTreeSet<String>,
    seed: u64,
}

impl Replacements {
    fn new(words: &Words, plain: BTreeSet<String>, seed: u64) -> Self {
        let stand_in = |word: &String| (word.clone(), stand_in(word, seed));
        let uuids = words.uuids.iter().map(stand_in).collect();
        let words = words.secret.iter().map(stand_in).collect();
        Self { words, uuids, plain, seed }
    }

    fn replace(&self, value: &mut Value, key: &str) {
        match value {
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(name, value)| self.replace(value, name));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item, key)),
            Value::String(text) if key == "command_line" => *text = self.text(&parameters(text)),
            Value::String(text) if !PLAIN.contains(&key) => {
                *text = self.text(&without_command_line(text));
            }
            _ => {}
        }
    }

    fn text(&self, text: &str) -> String {
        let text = self.without_uuids(&self.without_shapes(&self.without_mail(text)));
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (at, run) in runs(&text) {
            out.push_str(&text[done..at]);
            out.push_str(self.words.get(run).map_or(run, String::as_str));
            done = at + run.len();
        }
        out.push_str(&text[done..]);
        self.without_addresses(&out)
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
            out.push_str(&self.each_run(user, &[]));
            out.push('@');
            rest = after;
            // An address is found by its own shape.
            if host.parse::<std::net::Ipv4Addr>().is_err() {
                out.push_str(&self.each_run(host, &[]));
                rest = &after[host.len()..];
            }
        }
        out.push_str(rest);
        out
    }

    fn each_run(&self, text: &str, kept: &[&str]) -> String {
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (at, run) in runs(text).filter(|(_, run)| !kept.contains(run)) {
            out.push_str(&text[done..at]);
            out.push_str(&stand_in(run, self.seed));
            done = at + run.len();
        }
        out.push_str(&text[done..]);
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
            return Some((name.len(), format!("{date}{}", self.each_run(own, QUALIFIED))));
        }
        let bare = run.strip_prefix("0x").unwrap_or(run);
        let telling = bare.len() >= LONG_HEX
            && bare.bytes().all(|b| b.is_ascii_hexdigit())
            && bare.bytes().any(|b| b != b'0')
            && (bare.len() < run.len()
                || bare.len() > NUMBER_DIGITS
                || bare.bytes().any(|b| b.is_ascii_alphabetic()))
            && !self.plain.contains(run);
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
mod tests {
    use super::*;
    use fathom_model::stack::{DriveFacts, FsFacts, MdFacts, MountFacts, Node, NodeKind};
    use fathom_model::system::{FstabEntry, LogLine};

    const UUID: &str = "3f1a9c52-7b0e-4d31-9a86-0c5de1f2ab47";

    fn revealing() -> Snapshot {
        let mut snapshot =
            Snapshot { targets: vec!["/srv/acme-payroll".into()], ..Snapshot::default() };
        let mut disk = Node::new(NodeKind::Disk, "sda");
        disk.path = Some("/dev/sda".into());
        disk.drive = Some(DriveFacts {
            model: Some("ST4000NM0035".into()),
            serial: Some("ZC1A2B3C".into()),
            wwn: Some("naa.5000c500a1b2c3d4".into()),
            ..DriveFacts::default()
        });
        disk.detail = Some(Box::default());
        if let Some(detail) = disk.detail.as_mut() {
            detail.links = vec!["by-id/ata-ST4000NM0035_ZC1A2B3C".into()];
        }
        let mut md = Node::new(NodeKind::Md, "md10");
        md.md = Some(MdFacts {
            uuid: Some("3f1a9c52:7b0e4d31:9a860c5d:e1f2ab47".into()),
            ..MdFacts::default()
        });
        let mut mount = Node::new(NodeKind::Mount, "/srv/acme-payroll");
        mount.path = Some("/srv/acme-payroll".into());
        mount.mount =
            Some(MountFacts { mount_point: "/srv/acme-payroll".into(), ..MountFacts::default() });
        let mut fs = Node::new(NodeKind::FileSystem, "ext4");
        fs.fs = Some(FsFacts {
            uuid: Some(UUID.into()),
            label: Some("PAYROLL".into()),
            ..FsFacts::default()
        });
        snapshot.machine.nodes = vec![mount, fs, md, disk];
        snapshot.system.command_line = Some(format!("root=UUID={UUID} quiet"));
        snapshot.system.configuration.fstab = vec![FstabEntry {
            source: "10.20.30.40:/export/acme".into(),
            mount_point: "/home".into(),
            ..FstabEntry::default()
        }];
        snapshot.system.kernel_log = vec![LogLine {
            text: "nfs: server 10.20.30.40 not responding; fe80::1c2d:3eff:fe4f:5a6b too; sda: I/O error; UUID 3F1A9C52-7B0E-4D31-9A86-0C5DE1F2AB47".to_lowercase(),
            ..LogLine::default()
        }];
        snapshot
    }

    #[test]
    fn nothing_that_identifies_is_left_and_what_is_technical_stays() {
        let snapshot = revealing();
        let hidden = anonymise(&snapshot, 7);
        let text = serde_json::to_string(&hidden).unwrap().to_lowercase();
        for secret in [
            "acme",
            "payroll",
            "zc1a2b3c",
            "5000c500a1b2c3d4",
            "3f1a9c52",
            "e1f2ab47",
            "10.20.30.40",
            "1c2d:3eff",
        ] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        for technical in [
            "st4000nm0035",
            "sda",
            "md10",
            "ext4",
            "/dev/sda",
            "/home",
            "quiet",
            "i/o error",
            "by-id/ata-",
        ] {
            assert!(text.contains(technical), "{technical} not in {text}");
        }
        assert!(hidden.anonymised);
    }

    #[test]
    fn the_same_becomes_the_same_wherever_it_stands() {
        let hidden = anonymise(&revealing(), 7);
        let bare = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let fs_uuid = hidden.machine.nodes[1].fs.as_ref().unwrap().uuid.clone().unwrap();
        let md_uuid = hidden.machine.nodes[2].md.as_ref().unwrap().uuid.clone().unwrap();
        assert_eq!(bare(&fs_uuid), bare(&md_uuid), "however it is cut");
        assert_eq!(fs_uuid.len(), UUID.len());
        assert_eq!(hidden.system.command_line.as_deref(), Some("root=... quiet"));
        assert!(hidden.system.kernel_log[0].text.contains(&fs_uuid), "in the log");
        let point = &hidden.machine.nodes[0].mount.as_ref().unwrap().mount_point;
        assert_eq!((&hidden.targets[0], &hidden.machine.nodes[0].name), (point, point));
        let drive = hidden.machine.nodes[3].drive.as_ref().unwrap();
        let link = &hidden.machine.nodes[3].details().links[0];
        assert_eq!(link, &format!("by-id/ata-ST4000NM0035_{}", drive.serial.as_ref().unwrap()));
        let log = &hidden.system.kernel_log[0].text;
        let server = hidden.system.configuration.fstab[0].source.split(':').next().unwrap();
        assert!(server.starts_with("192.0.2.") && log.contains(server), "{log} {server}");
        assert!(log.contains("2001:db8::"), "{log}");
    }

    #[test]
    fn another_seed_gives_other_words() {
        let serial =
            |seed| anonymise(&revealing(), seed).machine.nodes[3].drive.clone().unwrap().serial;
        assert_eq!(serial(7), serial(7));
        assert_ne!(serial(7), serial(8));
    }

    const BOOTED: &str = "BOOT_IMAGE=/vmlinuz-6.8.0-45-generic root=/dev/mapper/acmevg-root ro quiet \
        ip=10.1.2.3::10.1.2.1:255.255.255.0:dbhost17:eth0 rd.iscsi.password=hunter2 \
        netroot=iscsi:user:passw0rd@10.9.8.7::3260::iqn.2003-01.org.acme:target7 rd.lvm.lv=acmevg/root \
        rd.luks.uuid=9b2d6c11-5a4e-4f7d-8c3b-2e1f0a9d8c7b note=\"my hunter2 word\" scsi_mod.scan=sync \
        intel_idle.max_cstate=1 rootflags=commit=30 console=ttyS0,115200";

    #[test]
    fn command_line_and_log_tell_nothing() {
        let mut snapshot = revealing();
        snapshot.system.command_line = Some(BOOTED.into());
        let lines = [
            &format!("Kernel command line: {BOOTED}"),
            "scsi9: iqn.2003-01.org.acme:target7,t,0x01 at 10.1.2.3::10.1.2.1:255.255.255.0",
            "login user:passw0rd@10.9.8.7::3260. 10.1.2.9 is over 10.1.2.8, tell admin@dbhost17.acme.de.",
            "e1000e 0000:00:1f.6 eth0: 52:54:00:ab:cd:ef",
            "dm-3: 36005076801810523c000000000000a1f 0x6005076801810523 luks-9b2d6c11-5a4e-4f7d-8c3b-2e1f0a9d8c7b",
            "md: 9b2d6c11:5a4e4f7d:8c3b2e1f:0a9d8c7b",
            "ahci 0000:00:1f.2: Linux 6.8.0-45-generic, 8:16, 4000787030016 bytes, driver version 14.2.0.17, 43.100.00.00, 1.2.3.4.5",
        ];
        let line = |text: &&str| LogLine { text: (*text).into(), ..LogLine::default() };
        snapshot.system.kernel_log = lines.iter().map(line).collect();
        let hidden = anonymise(&snapshot, 7);
        let text = serde_json::to_string(&hidden).unwrap().to_lowercase();
        for secret in [
            "10.1.2.",
            "10.9.8.7",
            "dbhost17",
            "hunter2",
            "passw0rd",
            "target7",
            "acme",
            "admin",
            "52:54:00",
            "9b2d6c11",
            "0a9d8c7b",
            "6005076801810523",
        ] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        let booted = hidden.system.command_line.unwrap();
        assert_eq!(
            booted,
            "... root=... ro quiet ip=... rd.iscsi.password=... netroot=... rd.lvm.lv=... rd.luks.uuid=... \
             note=... scsi_mod.scan=sync intel_idle.max_cstate=1 rootflags=commit=30 console=ttyS0,115200"
        );
        let log: Vec<&str> =
            hidden.system.kernel_log.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(log[0], format!("Kernel command line: {booted}"));
        assert!(log[3].starts_with("e1000e 0000:00:1f.6 eth0: "), "{}", log[3]);
        assert_eq!(log[6], lines[6]);
        let bare = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let (luks, md) = (log[4].rsplit_once("luks-").unwrap().1, &log[5]["md: ".len()..]);
        assert_eq!(bare(luks), bare(md));
    }

    #[test]
    fn names_of_the_kernel_are_ordinary() {
        for name in [
            "loop7p1",
            "md126p1",
            "mmcblk0p1",
            "nbd0p1",
            "rbd0",
            "rbd0p2",
            "drbd1000",
            "pmem0",
            "dasda1",
            "zd16p1",
            "ublkb0p1",
            "nvme0n1p2",
            "sdp1",
        ] {
            assert!(is_ordinary(name), "{name}");
        }
        assert!(!is_ordinary("acmep1") && !is_ordinary("ZC1A2B3C"));
    }
}
