//! Processes and kernel threads that watch over storage or work on it.

use super::reader::Reader;
use fathom_base::order::Order;
use fathom_check::known::WATCHERS;
use fathom_model::system::Daemon;
use std::io;
use std::path::Path;

/// A process, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Name, at most 15 characters (`comm`).
    pub name: String,
    /// Its words; empty for kernel threads.
    pub words: Vec<String>,
}

/// What reads or writes much while it runs: checks, copies, backups, benchmarks. Nothing of their arguments is kept, because
/// those name people's files, machines and secrets.
const WORKERS: [&str; 36] = [
    "badblocks",
    "bacula-fd",
    "bareos-fd",
    "bees",
    "bonnie++",
    "borg",
    "checkarray",
    "dd",
    "ddrescue",
    "duplicity",
    "e2fsck",
    "e2scrub",
    "e4defrag",
    "fio",
    "fsck.ext4",
    "fstrim",
    "iozone",
    "mariabackup",
    "mdcheck",
    "mysqldump",
    "pg_basebackup",
    "pg_dump",
    "pg_dumpall",
    "pvmove",
    "raid-check",
    "raid6check",
    "restic",
    "rsnapshot",
    "rsync",
    "shred",
    "updatedb",
    "updatedb.plocat",
    "xfs_fsr",
    "xfs_repair",
    "xfs_scrub",
    "xtrabackup",
];

/// Programs of many uses, of which some words tell which.
const SUBCOMMANDS: [(&str, &[&str]); 3] = [
    ("btrfs", &["balance", "defragment", "replace", "scrub", "send", "receive"]),
    ("zpool", &["scrub", "trim", "resilver"]),
    ("lvm", &["pvmove", "lvconvert", "vgscan"]),
];

/// All processes that could be read. One that ends meanwhile is left out. Where the kernel's own are not among them (in a
/// container, or when `/proc` hides those of others), that is noted: nothing follows then from one that is not there.
pub(crate) fn all(reader: &mut Reader<'_>) -> Vec<Process> {
    let root = reader.root;
    let mut found = Vec::new();
    for pid in reader.names("proc") {
        if !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let Some(name) = root.text(format!("proc/{pid}/comm")) else { continue };
        let words = root.read(format!("proc/{pid}/cmdline")).unwrap_or_default();
        let words = words.split('\0').filter(|word| !word.is_empty()).map(str::to_owned);
        found.push(Process { name, words: words.collect() });
    }
    let sees_all = root.text("proc/2/comm").as_deref() == Some("kthreadd");
    if !found.is_empty() && !sees_all {
        reader.note(Path::new("proc"), &io::Error::other("not all processes are seen"));
    }
    found
}

/// Those that watch over storage or work on it, equal ones once, by name.
#[must_use]
pub fn daemons(processes: &[Process]) -> Vec<Daemon> {
    let mut found: Vec<Daemon> = processes.iter().filter_map(daemon).collect();
    found.order_by(|a, b| (&a.name, &a.arguments).cmp(&(&b.name, &b.arguments)));
    found.dedup();
    found
}

/// Of those that watch, the names of options are kept.
fn daemon(process: &Process) -> Option<Daemon> {
    // A kernel thread may have any name.
    let (program, arguments) = process.words.split_first()?;
    let program = program.rsplit('/').next().unwrap_or_default();
    let names = [process.name.as_str(), program, script(process)];
    let known = |list: &[&'static str]| list.iter().copied().find(|known| names.contains(known));
    if let Some(name) = known(&WATCHERS) {
        return Some(Daemon { name: name.into(), arguments: options(arguments) });
    }
    if let Some(name) = known(&WORKERS) {
        return Some(Daemon { name: name.into(), arguments: String::new() });
    }
    let (name, wanted) = SUBCOMMANDS.iter().find(|(name, _)| names.contains(name))?;
    let word = arguments.iter().find(|word| wanted.contains(&word.as_str()))?;
    Some(Daemon { name: (*name).into(), arguments: word.clone() })
}

/// The script that an interpreter runs: `bash /usr/share/mdadm/mdcheck`, `python3 -Es /usr/sbin/tuned`.
fn script(process: &Process) -> &str {
    let script = process.words.iter().skip(1).find(|word| !word.starts_with('-'));
    let interpreter = ["sh", "bash", "dash", "perl"].contains(&process.name.as_str())
        || process.name.starts_with("python")
        || process.name == "tuned";
    script.filter(|_| interpreter).and_then(|path| path.rsplit('/').next()).unwrap_or_default()
}

/// The options without their values: `--monitor --scan` of `--monitor --mail=root --scan`.
fn options(arguments: &[String]) -> String {
    let options = arguments.iter().filter(|word| word.starts_with('-'));
    let names = options.map(|word| word.split('=').next().unwrap_or_default());
    names.collect::<Vec<_>>().join(" ")
}

/// Kernel threads that work on storage now, sorted: resynchronisation and reshaping of arrays, zeroing of inode tables,
/// balancing and replacing of btrfs.
#[must_use]
pub fn kernel_threads(processes: &[Process]) -> Vec<String> {
    let threads = processes.iter().filter(|process| process.words.is_empty());
    let at_work = threads.filter(|thread| {
        let name = thread.name.as_str();
        let of_array = name.ends_with("_resync") || name.ends_with("_reshape");
        of_array || ["ext4lazyinit", "btrfs-balance", "btrfs-devrepl"].contains(&name)
    });
    let mut names: Vec<String> = at_work.map(|thread| thread.name.clone()).collect();
    names.order();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    fn tree(processes: &[(&str, &str)]) -> Vec<Process> {
        let tree = Tree::new();
        for (number, (name, words)) in processes.iter().enumerate() {
            tree.put(format!("proc/{}/comm", number + 1), format!("{name}\n"));
            tree.put(format!("proc/{}/cmdline", number + 1), words.replace(' ', "\0"));
        }
        tree.put("proc/uptime", "1 1");
        let root = tree.root();
        all(&mut Reader::new(&root))
    }

    #[test]
    fn watchers_keep_their_options_and_workers_nothing() {
        let processes = tree(&[
            ("mdadm", "/sbin/mdadm --monitor --pid-file /run/x --mail=me@example.org --scan"),
            ("smartd", "/usr/sbin/smartd -n"),
            ("tuned", "/usr/bin/python3 -Es /usr/sbin/tuned -l -P"),
            ("mdcheck", "/bin/bash /usr/share/mdadm/mdcheck --duration 6"),
            ("bash", "/bin/bash /usr/share/mdadm/checkarray --all"),
            ("mysqldump", "mysqldump -psecret --result-file=/home/me/dump"),
            ("btrfs", "btrfs scrub start /srv/private"),
            ("btrfs", "btrfs filesystem show"),
            ("bash", "-bash"),
            ("smartd", ""),
        ]);
        let found: Vec<String> =
            daemons(&processes).iter().map(|d| format!("{} {}", d.name, d.arguments)).collect();
        assert_eq!(
            found,
            [
                "btrfs scrub",
                "checkarray ",
                "mdadm --monitor --pid-file --mail --scan",
                "mdcheck ",
                "mysqldump ",
                "smartd -n",
                "tuned -Es -l -P",
            ]
        );
    }

    #[test]
    fn it_is_told_when_not_all_are_seen() {
        let tree = Tree::of_text("[proc]\n1/comm = sh\n2/comm = sleep\n");
        let unread = |tree: &Tree| {
            let root = tree.root();
            let mut reader = Reader::new(&root);
            assert_eq!(all(&mut reader).len(), 2);
            reader.into_unread().into_iter().map(|unread| unread.what).collect::<Vec<_>>()
        };
        assert_eq!(unread(&tree), ["/proc"]);
        tree.put("proc/2/comm", "kthreadd\n");
        assert_eq!(unread(&tree), [""; 0]);
    }

    #[test]
    fn only_kernel_threads_at_work_count() {
        let processes = tree(&[
            ("md0_raid5", ""),
            ("md0_resync", ""),
            ("md1_reshape", ""),
            ("ext4lazyinit", ""),
            ("btrfs-cleaner", ""),
            ("x_resync", "/home/me/x_resync"),
        ]);
        assert_eq!(kernel_threads(&processes), ["ext4lazyinit", "md0_resync", "md1_reshape"]);
    }
}
