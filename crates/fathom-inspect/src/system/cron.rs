//! Tables of cron: what they start and when.

use super::reader::Reader;
use super::schedule::{Schedule, all};
use super::timers::{self, Job};

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The five fields or the word, as written.
    pub when: String,
    /// The same, understood; none for `@reboot` and what is not understood.
    pub schedule: Option<Schedule>,
    /// What is started.
    pub command: String,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The words and what they stand for.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The lines of a table that start something; tables of the system name a user before the command.
#[must_use]
pub fn parse_table(text: &str, names_user: bool) -> Vec<Line> {
    text.lines().filter_map(|line| parse_line(line.trim(), names_user)).collect()
}

fn parse_line(line: &str, names_user: bool) -> Option<Line> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let count = if line.starts_with('@') { 1 } else { 5 };
    let (when, rest) = split_words(line, count)?;
    // `NAME = value` sets a variable.
    if when.contains('=') {
        return None;
    }
    let command = if names_user { split_words(rest, 1)?.1 } else { rest };
    let mut schedule = parse_schedule(&when);
    if let (Some(schedule), Some(last)) = (&mut schedule, last_day_asked_for(command)) {
        schedule.days &= all(1, last);
        schedule.one_day_suffices = false;
    }
    Some(Line { when, schedule, command: command.trim().to_owned() })
}

/// The first words of a line, one blank apart, and what follows.
fn split_words(line: &str, count: usize) -> Option<(String, &str)> {
    let (mut words, mut rest) = (Vec::new(), line);
    for _ in 0..count {
        rest = rest.trim_start();
        let end = rest.find(char::is_whitespace)?;
        words.push(&rest[..end]);
        rest = &rest[end..];
    }
    Some((words.join(" "), rest.trim_start()))
}

/// The last day of the month on which a command does anything, where it asks for that as cron cannot: `[ $(date +\%d) -le 7 ]`
/// together with a weekday is the first one of a month.
fn last_day_asked_for(command: &str) -> Option<u32> {
    let (_, after) = command.split_once("date +\\%d")?;
    let (_, number) = after.split_once("-le ")?;
    let digits: String = number.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}

/// Five fields or a word; none for what is not understood.
#[must_use]
pub fn parse_schedule(text: &str) -> Option<Schedule> {
    let text = WORDS.iter().find(|(word, _)| *word == text).map_or(text, |(_, means)| *means);
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else { return None };
    let mut weekdays = set(weekday, (0, 7), &WEEKDAYS, 0)?;
    // Sunday is 0 and 7.
    weekdays |= weekdays >> 7 & 1;
    Some(Schedule {
        years: None,
        months: set(month, (1, 12), &MONTHS, 1)?,
        days: set(day, (1, 31), &[], 0)?,
        weekdays: weekdays & all(0, 6),
        one_day_suffices: !day.starts_with('*') && !weekday.starts_with('*'),
        hours: set(hour, (0, 23), &[], 0)?,
        minutes: set(minute, (0, 59), &[], 0)?,
        seconds: 1,
    })
}

/// A field: a list of `*`, numbers, names and ranges, with steps behind `*` and ranges. `names` are the numbers from
/// `first_name` on.
fn set(text: &str, limits: (u32, u32), names: &[&str], first_name: u32) -> Option<u64> {
    let number = |text: &str| {
        let text = text.to_lowercase();
        let named = names.iter().position(|name| *name == text);
        let number = match named {
            Some(index) => first_name + index as u32,
            None => text.parse().ok()?,
        };
        (limits.0..=limits.1).contains(&number).then_some(number)
    };
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<usize>().ok().filter(|n| *n > 0)?)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => limits,
            Some((first, last)) => (number(first)?, number(last)?),
            // What a step behind a single number means differs between crons.
            None if step.is_some() => return None,
            None => (number(range)?, number(range)?),
        };
        if first > last {
            return None;
        }
        (first..=last).step_by(step.unwrap_or(1)).for_each(|number| set |= 1 << number);
    }
    Some(set)
}

/// Directories whose scripts are started at times that a table says.
const DIRECTORIES: [&str; 4] =
    ["etc/cron.hourly", "etc/cron.daily", "etc/cron.weekly", "etc/cron.monthly"];

/// Where the crons of Debian, SUSE and Red Hat keep the tables of users, each by its user's name.
const USERS: [&str; 3] = ["var/spool/cron/crontabs", "var/spool/cron/tabs", "var/spool/cron"];

/// Everything that cron starts: the system's tables, those of users, and the scripts in `cron.daily` and its like.
pub(crate) fn jobs(reader: &mut Reader<'_>) -> Vec<Job> {
    let mut found = Vec::new();
    for path in tables(reader) {
        let names_user = path.starts_with("etc/");
        let text = reader.text(&path).unwrap_or_default();
        let name = path.strip_prefix("etc/").unwrap_or(&path).to_owned();
        let lines = parse_table(&text, names_user).into_iter();
        found.extend(lines.map(|line| Job {
            name: name.clone(),
            file: format!("/{path}"),
            command: line.command,
            when: line.when,
            schedule: line.schedule,
        }));
    }
    let anacron = reader.text("etc/anacrontab").unwrap_or_default();
    let scripts: Vec<Job> = DIRECTORIES
        .iter()
        .flat_map(|directory| scripts(reader, directory, &found, &anacron))
        .collect();
    found.extend(scripts);
    found
}

/// `/etc/crontab`, the files in `/etc/cron.d` that cron takes (no dots in their names), and those of users.
fn tables(reader: &mut Reader<'_>) -> Vec<String> {
    let is_taken =
        |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let mut paths = vec!["etc/crontab".to_owned()];
    let names = reader.names("etc/cron.d").into_iter().filter(is_taken);
    paths.extend(names.map(|name| format!("etc/cron.d/{name}")));
    for directory in USERS {
        // A table that is being written has a name such as `tmp.Xa2b3c`; what lies beside tables are directories.
        let names = reader.names(directory).into_iter();
        let names = names.filter(|name| !name.starts_with('.') && !name.starts_with("tmp."));
        let tables = names.map(|name| format!("{directory}/{name}"));
        paths.extend(tables.filter(|path| !reader.root.path(path).is_dir()));
    }
    paths
}

fn scripts(reader: &mut Reader<'_>, directory: &str, tables: &[Job], anacron: &str) -> Vec<Job> {
    let full = format!("/{directory}");
    let names_it =
        |command: &str| command.split_ascii_whitespace().any(|word| word.starts_with(&full));
    let of_table = tables.iter().find(|job| names_it(&job.command));
    // Where anacron is installed, cron's line leaves it to that, which counts days since the last time.
    let by_anacron = of_table.is_none_or(|job| job.command.contains("anacron"))
        && (reader.root.exists("usr/sbin/anacron") || !anacron.is_empty());
    let anacron_line = anacron.lines().find(|line| !line.starts_with('#') && names_it(line));
    let (when, schedule) = match (of_table, anacron_line) {
        (Some(job), _) if !by_anacron => (job.when.clone(), job.schedule.clone()),
        (_, Some(line)) => {
            (format!("anacron {}", split_words(line, 2).unwrap_or_default().0), None)
        }
        (Some(job), None) => (job.when.clone(), None),
        (None, None) => (directory.trim_start_matches("etc/").to_owned(), None),
    };
    let names = reader.names(directory).into_iter().filter(|name| !name.starts_with('.'));
    let names: Vec<String> = names.collect();
    names
        .into_iter()
        .map(|name| Job {
            file: format!("{full}/{name}"),
            command: timers::without_comments(
                &reader.text(format!("{directory}/{name}")).unwrap_or_default(),
            ),
            name: format!("{}/{name}", directory.trim_start_matches("etc/")),
            when: when.clone(),
            schedule: schedule.clone(),
        })
        .collect()
}

#[cfg(test)]
#[path = "cron_tests.rs"]
mod tests;
