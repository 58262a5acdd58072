//! Work on storage that timers and cron would start while a trial runs: trims, checks, scrubs, backups. What is due soon is waited
//! for, so that the quiet check sees it at work; what is due too late for that is told.

use super::calm;
use crate::error::LabError;
use crate::lab::Lab;
use fathom_base::units::format_duration;
use fathom_check::known::work_of_timer;
use fathom_inspect::{Moment, system};
use fathom_model::finding::{Finding, Severity};
use fathom_model::system::Timer;
use fathom_sys::clock;
use fathom_sys::sysroot::SysRoot;

const SECOND_NS: u64 = 1_000_000_000;

/// How long after its time something has begun: the quiet check looks then.
const BEGUN_AFTER_NS: u64 = 3 * SECOND_NS;

/// Something is due.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Due {
    /// Name of the timer or cron file.
    name: String,
    /// What it does, for people.
    work: &'static str,
    /// From now.
    in_ns: u64,
    /// Systemd can hold it back.
    is_unit: bool,
}

/// What may be waited for, and what is looked at.
pub(super) struct Plans<'a> {
    /// Expected time of the trial with its preparation.
    pub span_ns: u64,
    /// How long to wait at the most.
    pub wait_ns: u64,
    /// Units that the experiment has stopped.
    pub stopped: &'a [String],
}

/// Waits for what is due within the trial, as long as that may be waited for; a finding for what cannot be.
///
/// # Errors
/// [`LabError::Interrupted`] for a stop meanwhile.
pub(super) fn wait_past(lab: &mut Lab<'_>, plans: &Plans<'_>) -> Result<Option<Finding>, LabError> {
    let end_ns = clock::monotonic_ns().saturating_add(plans.wait_ns);
    while let Some(due) = first(&lab.root, now_s(), lab.utc_offset_s, plans) {
        let left_ns = end_ns.saturating_sub(clock::monotonic_ns());
        let span = format_duration(due.in_ns);
        if due.in_ns > left_ns {
            lab.note(format!(
                "{} ({}) is due in {span}, during this trial: too late to wait for it (quiet_wait).",
                due.name, due.work
            ));
            return Ok(Some(due.finding(plans)));
        }
        lab.note(format!("Waiting for {} ({}), which is due in {span}.", due.name, due.work));
        if !calm::wait(&lab.stop, due.in_ns.saturating_add(BEGUN_AFTER_NS)) {
            return Err(LabError::Interrupted);
        }
    }
    Ok(None)
}

fn now_s() -> i64 {
    clock::unix_ns() / SECOND_NS.cast_signed()
}

impl Due {
    fn finding(&self, plans: &Plans<'_>) -> Finding {
        let text = format!(
            "{} ({}) was due {} after the beginning of this trial: it may have taken its share of the device's time",
            self.name,
            self.work,
            format_duration(self.in_ns)
        );
        let finding = Finding::new("timer-due", Severity::Note, text);
        if self.is_unit {
            finding.advise(format!(
                "stop_services = [\"{}\"] in [prepare] keeps it away, and starts it again afterwards",
                self.name
            ))
        } else {
            finding.advise(format!(
                "quiet_wait above {} in [prepare] waits for it",
                format_duration(plans.wait_ns.max(self.in_ns))
            ))
        }
    }
}

/// The first that is due within the trial.
fn first(root: &SysRoot, now_s: i64, utc_offset_s: i64, plans: &Plans<'_>) -> Option<Due> {
    let moment = Moment { now_unix_s: now_s, utc_offset_s };
    let timers = system::timers(root, &moment);
    let due = timers.iter().filter_map(|timer| due(root, timer, now_s, plans.stopped));
    due.filter(|due| due.in_ns <= plans.span_ns).min_by_key(|due| due.in_ns)
}

fn due(root: &SysRoot, timer: &Timer, now_s: i64, stopped: &[String]) -> Option<Due> {
    let work = work_of_timer(&timer.kind)?;
    let in_s = u64::try_from(timer.next_unix_s? - now_s).ok()?;
    let is_away = !timer.enabled || stopped.contains(&timer.name);
    (!is_away && has_work(root, timer)).then(|| Due {
        name: timer.name.clone(),
        work,
        in_ns: in_s.saturating_mul(SECOND_NS),
        is_unit: timer.name.ends_with(".timer"),
    })
}

/// False where nothing is there that it would work on.
fn has_work(root: &SysRoot, timer: &Timer) -> bool {
    let any = |prefix: &str| root.names("sys/block").iter().any(|name| name.starts_with(prefix));
    match timer.kind.as_str() {
        "md-check" => any("md"),
        // Works on snapshots of logical volumes.
        "scrub" if timer.name.contains("e2scrub") => any("dm-"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// 2026-11-22 09:00:00 UTC.
    const NOW_S: i64 = 1_795_338_000;

    /// An injected machine with a cron that runs, one array, and these lines in its table.
    fn machine(name: &str, lines: &[&str]) -> SysRoot {
        let dir = std::env::temp_dir().join(format!("fathom-due-{name}-{}", std::process::id()));
        let root = SysRoot::at(&dir);
        let put = |path: &str, text: &str| {
            let path = root.path(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        put("proc/7/comm", "cron\n");
        put("proc/7/cmdline", "/usr/sbin/cron\0-f\0");
        put("sys/block/md0/size", "0");
        put("etc/cron.d/night", &format!("{}\n", lines.join("\n")));
        let unit = "[Timer]\nOnCalendar=*-*-* 09:02:00\n[Install]\nWantedBy=timers.target\n";
        put("etc/systemd/system/fstrim.timer", unit);
        put("etc/systemd/system/fstrim.service", "[Service]\nExecStart=/sbin/fstrim -a\n");
        put("etc/systemd/system/timers.target.wants/fstrim.timer", unit);
        put("run/systemd/system/x", "");
        root
    }

    #[track_caller]
    fn found(name: &str, lines: &[&str], offset_s: i64, span_s: u64, stopped: &[&str]) -> String {
        let root = machine(name, lines);
        let stopped: Vec<String> = stopped.iter().map(|&name| name.to_owned()).collect();
        let plans = Plans { span_ns: span_s * SECOND_NS, wait_ns: 0, stopped: &stopped };
        let due = first(&root, NOW_S, offset_s, &plans);
        fs::remove_dir_all(root.path("")).expect("removed");
        due.map_or_else(String::new, |due| {
            format!("{} {} {}", due.name, due.in_ns / SECOND_NS, due.is_unit)
        })
    }

    #[test]
    fn what_comes_first_within_the_trial_is_found() {
        let raid = "1 9 * * * root /usr/share/mdadm/checkarray --cron --all";
        assert_eq!(found("a", &[raid], 0, 300, &[]), "cron.d/night 60 false");
        assert_eq!(found("b", &[raid], 0, 59, &[]), "");
        // In a zone two hours ahead it is 11 o'clock.
        let ahead = raid.replace("1 9", "1 11");
        assert_eq!(found("c", &[&ahead], 7200, 300, &[]), "cron.d/night 60 false");
        assert_eq!(found("d", &[], 0, 300, &[]), "fstrim.timer 120 true");
        assert_eq!(found("e", &[], 0, 300, &["fstrim.timer"]), "", "the experiment stopped it");
    }

    #[test]
    fn what_does_not_disturb_is_left_alone() {
        let stopped = ["fstrim.timer"];
        let lines = ["1 9 * * * root mdadm --monitor --scan --oneshot", "1 9 * * * root date"];
        assert_eq!(found("f", &lines, 0, 300, &stopped), "");
        // The machine has no logical volume, and an array.
        let root = machine("g", &[]);
        let works = |name: &str, kind: &str| {
            let (name, kind) = (name.into(), kind.into());
            has_work(&root, &Timer { name, kind, ..Timer::default() })
        };
        let all =
            [("e2scrub_all.timer", "scrub"), ("xfs_scrub_all.timer", "scrub"), ("c", "md-check")];
        assert_eq!(all.map(|(name, kind)| works(name, kind)), [false, true, true]);
        fs::remove_dir_all(root.path("")).expect("removed");
    }

    #[test]
    fn what_comes_too_late_to_be_waited_for_is_told_with_a_cure() {
        let due = |is_unit| Due {
            name: "a.timer".into(),
            work: "a backup",
            in_ns: 300 * SECOND_NS,
            is_unit,
        };
        let plans = Plans { span_ns: 600 * SECOND_NS, wait_ns: 120 * SECOND_NS, stopped: &[] };
        let found = due(true).finding(&plans);
        assert!(found.summary.starts_with("a.timer (a backup) was due 5 min"), "{found:?}");
        assert!(found.advice[0].contains("stop_services = [\"a.timer\"]"), "{found:?}");
        assert!(due(false).finding(&plans).advice[0].contains("quiet_wait above 5 min"));
    }
}
