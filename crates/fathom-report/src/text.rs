//! Small pieces of text: wrapped lines, times of day, shares.

pub(crate) use fathom_base::printable::printable;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Columns that texts keep to; those for a narrower terminal keep to its width, down to [`WIDTH_MIN`].
pub const WIDTH: usize = 110;

/// No text is made narrower.
pub const WIDTH_MIN: usize = 60;

/// A point in time for people, with its distance from UTC: `2026-11-21 04:00:00 +01:00`.
#[must_use]
pub fn format_time(unix_ns: i64, zone: &TimeZone) -> String {
    // 64 bits of nanoseconds reach from 1677 to 2262, well inside of what a timestamp holds.
    Timestamp::from_nanosecond(i128::from(unix_ns)).map_or_else(
        |_| format!("{unix_ns} ns since 1970"),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
    )
}

/// A share in percent: `12 %`, below ten with one decimal: `0.3 %`; what is above zero is never shown as zero.
#[must_use]
pub fn format_share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 0.05 => "< 0.1 %".to_owned(),
        p if p < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// Appends `text` in lines of at most `width` columns; the first begins with `first`, the others are indented by
/// as much. Words are never cut, a percent sign stays with its number, and so do its groups of digits: `115 472 640`.
pub fn push_wrapped_to(out: &mut String, width: usize, first: &str, text: &str) {
    let indent = first.chars().count();
    let mut column = 0;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut word = printable(word);
        while let Some(more) = words.next_if(|next| next.starts_with('%') || goes_on(&word, next)) {
            word += &format!(" {}", printable(more));
        }
        let chars = word.chars().count();
        if column == 0 {
            out.push_str(first);
            column = indent;
        } else if column + 1 + chars > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word);
        column += chars;
    }
    out.push('\n');
}

/// True when `next` is a further group of three digits of the number that `before` ends with.
fn goes_on(before: &str, next: &str) -> bool {
    let last = before.rsplit(' ').next().unwrap_or(before);
    let group = last.trim_start_matches(|c: char| !c.is_alphanumeric());
    let is_group = (1..=3).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_digit());
    let digits = next.bytes().take_while(u8::is_ascii_digit).count();
    let end = next.as_bytes().get(3);
    is_group && digits == 3 && end.is_none_or(|b| !b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz;

    #[test]
    fn times_carry_their_zone() {
        let ns = 1_795_230_000_000_000_000;
        assert_eq!(format_time(ns, &TimeZone::UTC), "2026-11-21 03:00:00 +00:00");
        let india =
            TimeZone::fixed(tz::offset(5).saturating_add(jiff::SignedDuration::from_mins(30)));
        assert_eq!(format_time(ns, &india), "2026-11-21 08:30:00 +05:30");
        assert!(format_time(i64::MAX, &TimeZone::UTC).starts_with("2262"));
    }

    #[test]
    fn shares() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.0001, "< 0.1 %"),
            (0.003, "0.3 %"),
            (0.0994, "9.9 %"),
            (0.0996, "10 %"),
            (1.0, "100 %"),
            (2.004, "200 %"),
        ] {
            assert_eq!(format_share(share), text, "{share}");
        }
    }

    #[test]
    fn control_characters_do_not_get_through() {
        let mut out = String::new();
        push_wrapped_to(&mut out, WIDTH, "", "a\x1b[31mb\x07 c\u{9b}d");
        assert_eq!(out, "a?[31mb? c?d\n");
    }

    #[test]
    fn wrapping_keeps_words_whole() {
        let mut out = String::new();
        push_wrapped_to(&mut out, WIDTH, "  note  ", &"word ".repeat(40));
        push_wrapped_to(&mut out, WIDTH, "", &"x".repeat(200));
        push_wrapped_to(&mut out, WIDTH, "", &format!("{} 100 %", "y".repeat(WIDTH - 5)));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[4], "100 %");
        assert!(lines[0].starts_with("  note  word") && lines[1].starts_with("        word"));
        assert!(lines[..2].iter().all(|line| line.len() <= WIDTH));
        assert_eq!(lines[2].len(), 200);
    }

    #[test]
    fn groups_of_digits_stay_together() {
        let mut out = String::new();
        let start = "y".repeat(WIDTH - 12);
        push_wrapped_to(&mut out, WIDTH, "", &format!("{start} (115 472 640 at 512) of 12 runs"));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines, [start.as_str(), "(115 472 640 at 512) of 12 runs"]);
        assert!(goes_on("1", "000.") && goes_on("22 387", "995,"));
        assert!(!goes_on("4096", "100") && !goes_on("1", "100ms") && !goes_on("sd5", "100"));
    }
}
