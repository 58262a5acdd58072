//! Lines of real tables, and starts against a minute-by-minute search.

use super::*;
use crate::system::civil::{DAY_S, Date};
use fathom_testkit::Tree;
use proptest::prelude::*;

/// Sunday 2026-11-22 03:00:00, local time.
const NOW: i64 = 1_795_316_400;
const HOUR: i64 = 3600;

#[track_caller]
fn expect(fields: &str, after_s: Option<i64>) {
    let next = parse_schedule(fields).and_then(|schedule| schedule.next_after(NOW));
    assert_eq!(next.map(|next| next - NOW), after_s, "{fields}");
}

#[test]
fn fields_of_real_tables() {
    expect("57 0 * * 0", Some(6 * DAY_S + 21 * HOUR + 57 * 60));
    expect("10 3 * * *", Some(600));
    expect("*/20 * * * *", Some(20 * 60));
    expect("0 1 * * Sun", Some(7 * DAY_S - 2 * HOUR));
    expect("0 1 * * 7", Some(7 * DAY_S - 2 * HOUR));
    expect("30 22 * jan-mar mon-fri", Some(40 * DAY_S + 19 * HOUR + 1800));
    expect("@daily", Some(21 * HOUR));
    expect("@monthly", Some(9 * DAY_S - 3 * HOUR));
    // Either day: the 25th is a Wednesday, Monday comes first.
    expect("0 3 25 * 1", Some(DAY_S));
    // A star with a step does not count as restricted: both have to fit.
    expect("0 3 */2 * 1", Some(DAY_S));
    expect("0 3 1-31/2 * 3", Some(DAY_S));
    expect("0,30 3 * * *", Some(1800));
}

#[test]
fn what_is_not_understood_has_no_next_start() {
    for fields in [
        "",
        "@reboot",
        "60 * * * *",
        "* * 0 * *",
        "* * * * 8",
        "5/10 * * * *",
        "1~5 * * * *",
        "* * * *",
        "9-5 * * * *",
        "*/0 * * * *",
        "H H * * *",
        "* * * mond *",
    ] {
        assert_eq!(parse_schedule(fields), None, "{fields}");
    }
}

#[test]
fn lines_name_a_user_in_tables_of_the_system_only() {
    let text = "# a comment\nSHELL=/bin/sh\nMAILTO = root\n\n10 3 * * * root  /sbin/x -a\n@daily\troot /sbin/y\n1 2 3\n";
    let told = |names_user| -> Vec<(String, String)> {
        let lines = parse_table(text, names_user).into_iter();
        lines.map(|line| (line.when, line.command)).collect()
    };
    let pair = |when: &str, command: &str| (when.to_owned(), command.to_owned());
    assert_eq!(told(true), [pair("10 3 * * *", "/sbin/x -a"), pair("@daily", "/sbin/y")]);
    assert_eq!(
        told(false),
        [pair("10 3 * * *", "root  /sbin/x -a"), pair("@daily", "root /sbin/y")]
    );
}

#[test]
fn the_first_sunday_of_a_month_is_asked_for_in_the_command() {
    let line = "57 0 * * 0 root if [ -x /usr/share/mdadm/checkarray ] && [ $(date +\\%d) -le 7 ]; then /usr/share/mdadm/checkarray --cron --all; fi";
    let lines = parse_table(line, true);
    let next = lines[0].schedule.as_ref().and_then(|schedule| schedule.next_after(NOW));
    // 2026-12-06 00:57.
    assert_eq!(next, Some(NOW + 14 * DAY_S - 3 * HOUR + 57 * 60));
}

#[test]
fn tables_and_scripts_of_a_machine() {
    let tree = Tree::of_text(
        "[etc]\ncrontab = 25 6 * * * root test -x /usr/sbin/anacron || run-parts --report /etc/cron.daily\n\
         cron.d/mdadm = 57 0 * * 0 root checkarray --all\ncron.d/old.dpkg-bak = 1 1 * * * root rsync x\n\
         cron.daily/plocate = #!/bin/sh\\n# backup\\nexec updatedb\ncron.weekly/backup = rsync a b\n\
         [var/spool/cron]\ncrontabs/root = 0 4 * * 6 restic backup /srv\ncrontabs/postgres = 0 5 * * * pg_dump all\n\
         crontabs/tmp.Xa2b3c = 0 6 * * * half\ntabs/backup = @daily borg create\nann.lee = 7 7 * * * rsync a b\n",
    );
    let root = tree.root();
    let told = |reader: &mut Reader<'_>| -> Vec<(String, String, bool)> {
        let jobs = jobs(reader).into_iter();
        jobs.map(|job| (job.file, job.when, job.schedule.is_some())).collect()
    };
    let item = |file: &str, when: &str, known| (file.to_owned(), when.to_owned(), known);
    let mut reader = Reader::new(&root);
    let found = told(&mut reader);
    assert_eq!(
        found,
        [
            item("/etc/crontab", "25 6 * * *", true),
            item("/etc/cron.d/mdadm", "57 0 * * 0", true),
            item("/var/spool/cron/crontabs/postgres", "0 5 * * *", true),
            item("/var/spool/cron/crontabs/root", "0 4 * * 6", true),
            item("/var/spool/cron/tabs/backup", "@daily", true),
            item("/var/spool/cron/ann.lee", "7 7 * * *", true),
            item("/etc/cron.daily/plocate", "25 6 * * *", true),
            item("/etc/cron.weekly/backup", "cron.weekly", false),
        ]
    );
    assert!(reader.into_unread().is_empty());
    let jobs = jobs(&mut Reader::new(&root));
    assert_eq!(
        (jobs[2].command.as_str(), jobs[6].command.as_str()),
        ("pg_dump all", "exec updatedb")
    );
    // With anacron, cron leaves it alone, and the time depends on when it was last done.
    tree.put("usr/sbin/anacron", "x")
        .put("etc/anacrontab", "# x\n1\t5\tcron.daily\trun-parts /etc/cron.daily\n");
    let found = told(&mut Reader::new(&root));
    assert_eq!(found[6], item("/etc/cron.daily/plocate", "anacron 1 5", false));
}

/// What a field means, asked for each number by itself.
fn field_fits(field: &str, number: u32) -> bool {
    field.split(',').any(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let step: u32 = step.parse().unwrap_or(1);
        let (first, last) = if range == "*" {
            return number.is_multiple_of(step);
        } else {
            range.split_once('-').unwrap_or((range, range))
        };
        let (first, last): (u32, u32) = (first.parse().unwrap_or(99), last.parse().unwrap_or(0));
        (first..=last).contains(&number) && (number - first).is_multiple_of(step)
    })
}

fn field(last: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => (1..=last).prop_map(|n| n.to_string()),
        1 => (1..=last, 1..=last).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (1..=last, 1..=last, 1..5u32).prop_map(|(a, b, s)| format!("{}-{}/{s},{b}", a.min(b), a.max(b))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every minute of 60 days is tried, with the weekday worked out by counting from a known Sunday.
    #[test]
    fn starts_are_those_of_a_search_minute_by_minute(
        minute in field(59),
        hour in field(23),
        day in field(28),
        weekday in field(6),
        now in NOW..NOW + 400 * DAY_S,
    ) {
        let text = format!("{minute} {hour} {day} * {weekday}");
        let schedule = parse_schedule(&text).expect("understood");
        let fits = |at: &i64| {
            let days = at / DAY_S;
            let of_week = field_fits(&weekday, ((days - NOW / DAY_S).rem_euclid(7)) as u32);
            let of_month = field_fits(&day, Date::of_day(days).day);
            let on_day = match (day.as_str(), weekday.as_str()) {
                ("*", _) => of_week,
                (_, "*") => of_month,
                _ => of_week || of_month,
            };
            on_day && field_fits(&hour, (at / HOUR % 24) as u32) && field_fits(&minute, (at / 60 % 60) as u32)
        };
        let first = (now / 60 + 1..now / 60 + 60 * 1440).map(|at| at * 60).find(fits);
        prop_assert_eq!(schedule.next_after(now), first, "{}", text);
    }

    #[test]
    fn any_text_is_read_without_a_crash(text in any::<String>(), fields in "[0-9a-z*,/ -]{0,30}") {
        prop_assert!(parse_table(&text, true).len() <= text.lines().count());
        if let Some(next) = parse_schedule(&fields).and_then(|schedule| schedule.next_after(NOW)) {
            prop_assert!(next > NOW);
        }
    }
}
