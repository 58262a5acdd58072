//! Unit files as distributions ship them.

use super::*;
use fathom_testkit::Tree;
use proptest::prelude::*;

/// Sunday 2026-11-22 03:00:00 UTC.
const MOMENT: Moment = Moment { now_unix_s: 1_795_316_400, utc_offset_s: 0 };

fn machine() -> Tree {
    let unit = |timer: &str, when: &str, command: &str| {
        format!(
            "{timer}.timer = [Timer]\\n{when}\\n[Install]\\nWantedBy=timers.target\n\
             {timer}.service = [Service]\\nType=oneshot\\nExecStart={command}\n"
        )
    };
    let units = [
        unit("fstrim", "OnCalendar=weekly\\nPersistent=true", "/sbin/fstrim -v"),
        unit("mdcheck_start", "OnCalendar=Sun *-*-1..7 1:00:00", "/usr/share/mdadm/mdcheck"),
        unit("apt-daily", "OnCalendar=daily", "/usr/lib/apt/apt.systemd.daily update"),
        unit("scrub", "OnBootSec=15min\\nOnUnitActiveSec=1d", "/bin/btrfs scrub start /"),
        unit("pg_dump@", "OnCalendar=daily", "pg_dump"),
    ]
    .concat();
    Tree::of_text(&format!(
        "[usr/lib/systemd/system]\n{units}\n\
         nightly.timer = # backup\\n[Timer]\\nUnit=copy.service\\nOnCalendar=*-*-* 04:00\\nOnCalendar=20:00\n\
         copy.service = [Service]\\nExecStart=/usr/bin/rsync \\\\n -a /srv /copy\n\
         [run/systemd/system]\n\
         [etc/systemd/system]\n\
         timers.target.wants/fstrim.timer -> /lib/systemd/system/fstrim.timer\n\
         mdmonitor.service.wants/mdcheck_start.timer -> /lib/systemd/system/mdcheck_start.timer\n\
         timers.target.wants/pg_dump@main.timer -> /lib/systemd/system/pg_dump@.timer\n"
    ))
}

fn told(tree: &Tree) -> Vec<(String, String, String, Option<i64>, bool)> {
    let root = tree.root();
    let timers = timers(&mut Reader::new(&root), &MOMENT).into_iter();
    let after = |next: i64| (next - MOMENT.now_unix_s) / 60;
    timers.map(|t| (t.name, t.kind, t.schedule, t.next_unix_s.map(after), t.enabled)).collect()
}

fn item(
    name: &str,
    kind: &str,
    schedule: &str,
    next_min: Option<i64>,
    enabled: bool,
) -> (String, String, String, Option<i64>, bool) {
    (name.into(), kind.into(), schedule.into(), next_min, enabled)
}

#[test]
fn timers_that_touch_storage_with_their_next_start() {
    let day = 24 * 60;
    assert_eq!(
        told(&machine()),
        [
            item("fstrim.timer", "trim", "OnCalendar=weekly", Some(21 * 60), true),
            item(
                "mdcheck_start.timer",
                "md-check",
                "OnCalendar=Sun *-*-1..7 1:00:00",
                Some(14 * day - 120),
                true
            ),
            item(
                "nightly.timer",
                "backup",
                "OnCalendar=*-*-* 04:00; OnCalendar=20:00",
                Some(60),
                false
            ),
            item("pg_dump@main.timer", "backup", "OnCalendar=daily", Some(21 * 60), true),
            item("scrub.timer", "scrub", "OnBootSec=15min; OnUnitActiveSec=1d", None, false),
        ]
    );
}

#[test]
fn the_administrators_files_come_first() {
    let tree = machine();
    tree.put(
        "etc/systemd/system/fstrim.timer.d/when.conf",
        "[Timer]\nOnCalendar=\nOnCalendar=daily\n",
    )
    .link("etc/systemd/system/mdcheck_start.timer", "/dev/null")
    .put("etc/systemd/system/scrub.timer", "[Timer]\nOnCalendar=hourly\n")
    .link("etc/systemd/system/nightly.timer", "/usr/lib/systemd/system/scrub.timer");
    let found = told(&tree);
    let names: Vec<_> = found.iter().map(|t| (t.0.as_str(), t.2.as_str())).collect();
    assert_eq!(
        names,
        [
            ("fstrim.timer", "OnCalendar=daily"),
            ("pg_dump@main.timer", "OnCalendar=daily"),
            ("scrub.timer", "OnCalendar=hourly"),
        ]
    );
}

#[test]
fn without_systemd_no_timer_is_on() {
    let tree = Tree::of_text(
        "[lib/systemd/system]\nfstrim.timer = [Timer]\\nOnCalendar=weekly\n\
         [etc/systemd/system]\ntimers.target.wants/fstrim.timer -> /lib/systemd/system/fstrim.timer\n",
    );
    let found = told(&tree);
    assert_eq!((found.len(), found[0].4), (1, false));
}

/// Debian's second timer for arrays starts every day and does something only after an unfinished check.
#[test]
fn a_condition_that_is_not_met_now_leaves_the_next_start_open() {
    let tree = machine();
    tree.put("usr/lib/systemd/system/mdcheck_continue.timer", "[Timer]\nOnCalendar= 1:05:00\n").put(
        "usr/lib/systemd/system/mdcheck_continue.service",
        "[Unit]\nConditionPathExistsGlob=/var/lib/mdcheck/MD_UUID_*\n[Service]\nExecStart=mdcheck --continue\n",
    );
    let next = |tree: &Tree| {
        let found = told(tree);
        let timer = found.iter().find(|t| t.0 == "mdcheck_continue.timer").cloned();
        timer.expect("the timer").3
    };
    assert_eq!(next(&tree), None);
    tree.put("var/lib/mdcheck/MD_UUID_0", "x");
    assert_eq!(next(&tree), Some(22 * 60 + 5));
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_crash(text in any::<String>(), lines in "[\\[\\]A-Za-z=\\\\\n ;#]{0,200}") {
        prop_assert!(parse_unit(&text).len() <= text.lines().count());
        prop_assert!(parse_unit(&lines).iter().all(|(_, key, _)| !key.contains('=')));
    }
}
