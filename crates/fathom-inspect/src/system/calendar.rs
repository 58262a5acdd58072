//! `OnCalendar=` of systemd timers, see systemd.time(7).
//!
//! Understood are the words (`weekly`, ...) and `[WEEKDAYS] [YEAR-]MONTH-DAY HOUR:MINUTE[:SECOND] [UTC]` with lists, ranges
//! and repetitions in each part. Days counted from the end of a month (`~`), fractions of seconds and names of other zones
//! are not: such a timer has no known next start.

use super::schedule::{Schedule, all};

/// The words of systemd and what they stand for.
const WORDS: [(&str, &str); 12] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
    ("semi-annually", "*-01,07-01 00:00:00"),
    ("biannually", "*-01,07-01 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
    ("anually", "*-01-01 00:00:00"),
];

const WEEKDAYS: [&str; 7] =
    ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// Years that are understood.
const YEARS: (i64, i64) = (1970, 2199);

/// An expression, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    schedule: Schedule,
    /// Counts in UTC, whatever the machine's zone.
    is_utc: bool,
}

impl Calendar {
    /// The first start after a point of time, in seconds since 1970, on a machine whose local time is that many seconds
    /// ahead of UTC.
    #[must_use]
    pub fn next_after(&self, now_unix_s: i64, utc_offset_s: i64) -> Option<i64> {
        let offset_s = if self.is_utc { 0 } else { utc_offset_s };
        let next = self.schedule.next_after(now_unix_s.checked_add(offset_s)?)?;
        next.checked_sub(offset_s)
    }
}

/// Takes an expression apart; none for what is not understood.
#[must_use]
pub fn parse(text: &str) -> Option<Calendar> {
    let text = text.trim().to_lowercase();
    let text = WORDS.iter().find(|(word, _)| *word == text).map_or(text, |(_, means)| {
        // As if it had been written out.
        means.to_lowercase()
    });
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    let is_utc = words.len() > 1 && words.last() == Some(&"utc");
    if is_utc {
        words.pop();
    }
    let has_weekdays = words.first()?.starts_with(|c: char| c.is_ascii_alphabetic());
    let weekdays = if has_weekdays { weekdays(words.remove(0))? } else { all(0, 6) };
    let (date, time) = match words.as_slice() {
        [] if has_weekdays => ("*-*-*", "0:0:0"),
        [time] if time.contains(':') => ("*-*-*", *time),
        [date] if date.contains('-') => (*date, "0:0:0"),
        [date, time] if date.contains('-') && time.contains(':') => (*date, *time),
        _ => return None,
    };
    let (years, months, days) = parse_date(date)?;
    let (hours, minutes, seconds) = parse_time(time)?;
    let one_day_suffices = false;
    let schedule =
        Schedule { years, months, days, weekdays, one_day_suffices, hours, minutes, seconds };
    Some(Calendar { schedule, is_utc })
}

fn parse_date(text: &str) -> Option<(Option<Vec<i64>>, u64, u64)> {
    let parts: Vec<&str> = text.split('-').collect();
    let (year, month, day) = match parts.as_slice() {
        [year, month, day] => (*year, *month, *day),
        [month, day] => ("*", *month, *day),
        _ => return None,
    };
    let years = if year == "*" { None } else { Some(numbers(year, YEARS)?) };
    Some((years, set(month, (1, 12))?, set(day, (1, 31))?))
}

fn parse_time(text: &str) -> Option<(u64, u64, u64)> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hour, minute, second) = match parts.as_slice() {
        [hour, minute] => (*hour, *minute, "0"),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return None,
    };
    Some((set(hour, (0, 23))?, set(minute, (0, 59))?, set(second, (0, 59))?))
}

/// `*`, or numbers below 64 as a set.
fn set(text: &str, limits: (i64, i64)) -> Option<u64> {
    let text = if text == "*" { format!("{}..{}", limits.0, limits.1) } else { text.to_owned() };
    Some(numbers(&text, limits)?.into_iter().fold(0, |set, number| set | 1 << number))
}

/// A list of numbers, ranges (`1..7`) and repetitions (`0/15`: from 0 on every 15).
fn numbers(text: &str, limits: (i64, i64)) -> Option<Vec<i64>> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number: i64 = text.parse().ok().filter(|_| digits)?;
        (limits.0..=limits.1).contains(&number).then_some(number)
    };
    let mut found = Vec::new();
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<usize>().ok().filter(|n| *n > 0)?)),
            None => (part, None),
        };
        let (first, last) = match range.split_once("..") {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, if step.is_some() { limits.1 } else { number(range)? }),
        };
        if first > last {
            return None;
        }
        found.extend((first..=last).step_by(step.unwrap_or(1)));
    }
    Some(found)
}

/// `mon,wed..fri` as a set.
fn weekdays(text: &str) -> Option<u64> {
    // Monday first, so that a range may end with Sunday.
    let day = |name: &str| {
        let full = WEEKDAYS.iter().position(|day| *day == name || day[..3] == *name)?;
        Some((full + 6) % 7)
    };
    let mut set = 0;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let ends = part.split_once("..").or_else(|| part.split_once('-'));
        let (first, last) = ends.unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        if first > last {
            return None;
        }
        (first..=last).for_each(|day| set |= 1 << ((day + 1) % 7));
    }
    (set != 0).then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sunday 2026-11-22 03:00:00 UTC.
    const NOW: i64 = 1_795_316_400;

    #[track_caller]
    fn expect(text: &str, after_s: Option<i64>) {
        let next = parse(text).and_then(|calendar| calendar.next_after(NOW, 0));
        assert_eq!(next.map(|next| next - NOW), after_s, "{text}");
    }

    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;

    #[test]
    fn expressions_of_real_timers() {
        expect("weekly", Some(21 * HOUR));
        expect("Sun *-*-1..7 1:00:00", Some(14 * DAY - 2 * HOUR));
        expect(" 1:05:00", Some(22 * HOUR + 300));
        expect("*-*-* 6,18:00", Some(3 * HOUR));
        expect("Sun *-*-* 03:10:00", Some(600));
        expect("daily", Some(21 * HOUR));
        expect("monthly", Some(9 * DAY - 3 * HOUR));
        expect("hourly", Some(HOUR));
        expect("*:0/15", Some(900));
        expect("Mon..Fri 22:30", Some(DAY + 19 * HOUR + 1800));
        expect("Sat,Sun 20:00", Some(17 * HOUR));
        expect("Sunday", Some(7 * DAY - 3 * HOUR));
        expect("2027-01-01", Some(40 * DAY - 3 * HOUR));
        expect("12-24 18:00", Some(32 * DAY + 15 * HOUR));
        expect("*-1/3-1 02:00", Some(40 * DAY - HOUR));
        expect("*-*-* 03:00:01", Some(1));
    }

    #[test]
    fn the_moment_itself_is_over() {
        expect("*-*-* 03:00:00", Some(DAY));
        expect("2026-11-22 03:00:00", None);
    }

    #[test]
    fn what_is_not_understood_has_no_next_start() {
        for text in [
            "",
            "sometimes",
            "*-*~1",
            "Mon *-*-* 03:00 Europe/Berlin",
            "25:00",
            "*-13-01",
            "*-*-* 03:00:00.5",
            "Fri..Mon",
            "7..1:00",
            "1/0:00",
            "@1234",
            "*-*-* 1:2:3:4",
            "5",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn local_time_counts_unless_it_says_utc() {
        let next = |text: &str| parse(text).and_then(|c| c.next_after(NOW, 2 * HOUR));
        assert_eq!(next("*-*-* 06:00"), Some(NOW + HOUR));
        assert_eq!(next("*-*-* 06:00 UTC"), Some(NOW + 3 * HOUR));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in "[a-z0-9*,./:~ -]{0,30}", offset in -50_000i64..50_000) {
            if let Some(next) = parse(&text).and_then(|c| c.next_after(NOW, offset)) {
                prop_assert!(next > NOW);
            }
        }
    }
}
