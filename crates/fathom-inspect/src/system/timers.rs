//! What starts work on storage at times: timers of systemd, tables of cron.

use super::processes::Process;
use super::reader::Reader;
use super::schedule::Schedule;
use super::{Moment, cron, units};
use fathom_base::order::Order;
use fathom_model::system::Timer;

/// Something that is started at times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Name of the timer or cron file.
    pub name: String,
    /// The file that says so.
    pub file: String,
    /// What is started: a command, or a script without its comments.
    pub command: String,
    /// When, as written.
    pub when: String,
    /// The same, understood.
    pub schedule: Option<Schedule>,
}

/// What storage is used for by jobs with these words; the first that fits counts. Words are parts of names and commands
/// between characters other than letters, digits and `_`.
const KINDS: [(&str, &[&str]); 8] = [
    ("watch", &["mdadm monitor", "mdmonitor", "mdmonitor oneshot", "monitor scan oneshot"]),
    (
        "md-check",
        &["mdcheck", "checkarray", "raid check", "mdcheck_start", "mdcheck_continue", "raid6check"],
    ),
    ("trim", &["fstrim", "zpool trim", "btrfs trim"]),
    ("scrub", &["e2scrub", "e2scrub_all", "xfs_scrub", "xfs_scrub_all", "scrub"]),
    ("smart-test", &["smartctl"]),
    ("locate", &["updatedb", "mlocate", "plocate", "locate"]),
    (
        "backup",
        &[
            "restic",
            "borg",
            "borgmatic",
            "rsnapshot",
            "duplicity",
            "rsync",
            "xtrabackup",
            "mariabackup",
            "pg_dump",
            "pg_dumpall",
            "pg_basebackup",
            "mysqldump",
            "timeshift",
            "amdump",
            "backup",
            "automysqlbackup",
            "vzdump",
            "snapraid",
        ],
    ),
    ("other", &["xfs_fsr", "e4defrag", "btrfs balance", "btrfs defrag", "pvmove"]),
];

/// Names that hold such words and do next to nothing.
const HARMLESS: [&str; 3] = ["dpkg db backup", "e2scrub_reap", "e2scrub_all a r"];

/// What a job does to storage; none when nothing that is known.
#[must_use]
pub fn kind(name: &str, command: &str) -> Option<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let text = format!("{name} {command}").to_lowercase();
    let words: Vec<&str> = text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
    let text = format!(" {} ", words.join(" "));
    let fits = |list: &[&str]| list.iter().any(|words| text.contains(&format!(" {words} ")));
    if fits(&HARMLESS) {
        return None;
    }
    KINDS.iter().find(|(_, list)| fits(list)).map(|(kind, _)| *kind)
}

/// Text without lines that begin with `#` or, as systemd has it, `;`.
pub(crate) fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
    lines.collect::<Vec<_>>().join("\n")
}

/// Timers of systemd and jobs of cron that touch storage, by name.
pub(crate) fn all(reader: &mut Reader<'_>, processes: &[Process], moment: &Moment) -> Vec<Timer> {
    let mut found = units::timers(reader, moment);
    let is_cron = |process: &Process| {
        ["cron", "crond", "cronie", "dcron", "fcron", "anacron"].contains(&process.name.as_str())
    };
    let cron_runs = processes.iter().any(is_cron);
    let has_systemd = reader.root.exists("run/systemd/system");
    for job in cron::jobs(reader) {
        let Some(kind) = kind(&job.name, &job.command) else { continue };
        // Packages with a timer of systemd leave their cron job in place, which looks for systemd first.
        let is_left_to_systemd = has_systemd && job.command.contains("/run/systemd/system");
        let next = job.schedule.as_ref().and_then(|schedule| {
            let local_s = moment.now_unix_s.checked_add(moment.utc_offset_s)?;
            schedule.next_after(local_s)?.checked_sub(moment.utc_offset_s)
        });
        found.push(Timer {
            name: job.name,
            file: job.file,
            kind: kind.into(),
            schedule: job.when,
            next_unix_s: next,
            enabled: cron_runs && !is_left_to_systemd,
        });
    }
    found.order_by(|a, b| (&a.name, &a.schedule).cmp(&(&b.name, &b.schedule)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(name: &str, command: &str, expected: Option<&str>) {
        assert_eq!(kind(name, command), expected, "{name}: {command}");
    }

    #[test]
    fn jobs_are_told_by_their_words() {
        expect("mdcheck_start.timer", "/usr/share/mdadm/mdcheck --duration", Some("md-check"));
        expect("cron.d/mdadm", "if [ -x /usr/share/mdadm/checkarray ]; then", Some("md-check"));
        expect("raid-check.timer", "/usr/sbin/raid-check", Some("md-check"));
        expect("fstrim.timer", "/sbin/fstrim --listed-in /etc/fstab", Some("trim"));
        expect("e2scrub_all.timer", "/sbin/e2scrub_all", Some("scrub"));
        expect("btrfs-scrub@-.timer", "/bin/btrfs scrub start -B /", Some("scrub"));
        expect("cron.daily/plocate", "exec /usr/sbin/updatedb.plocate", Some("locate"));
        expect("crontab", "/root/bin/nightly-backup.sh", Some("backup"));
        expect("crontab", "rsync -a /srv host:/srv", Some("backup"));
        expect("cron.daily/mdadm", "exec $MDADM --monitor --scan --oneshot", Some("watch"));
        expect("x.timer", "smartctl -t long /dev/sda", Some("smart-test"));
    }

    #[test]
    fn what_is_harmless_or_unknown_is_left_out() {
        expect("dpkg-db-backup.timer", "/usr/libexec/dpkg/dpkg-db-backup", None);
        expect("cron.d/e2scrub_all", "SERVICE_MODE=1 /sbin/e2scrub_all -A -r", None);
        expect("apt-daily.timer", "/usr/lib/apt/apt.systemd.daily update", None);
        expect("man-db.timer", "/usr/bin/mandb --quiet", None);
        expect("x", "cyborg", None);
    }
}
