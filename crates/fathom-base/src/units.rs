//! Sizes, durations and fractions as people write them, and back.
//!
//! `4k`, `4K`, `4KiB` are powers of 1024; `4kB`, `1MB` powers of 1000; a bare number is bytes. Durations need a unit.
//! Fractions are `0.2` or `20%`.

use thiserror::Error;

/// A quantity that could not be understood; the text names the input, the reason and a form that works.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnitError {
    /// No digits, or something that is not a number where one must stand.
    #[error("'{0}' is not a number; write for example {1}")]
    NotANumber(String, &'static str),
    /// A count that is none.
    #[error("'{0}' is no whole number; write for example 16")]
    NotWhole(String),
    /// A suffix that names no unit.
    #[error("'{text}': unknown unit '{unit}'; known are {known}")]
    UnknownUnit {
        /// The whole input.
        text: String,
        /// The part that was not understood.
        unit: String,
        /// The units that would have been.
        known: &'static str,
    },
    /// A duration without a unit.
    #[error("'{0}' needs a unit: {0}s, {0}m, {0}ms, ...")]
    NeedsUnit(String),
    /// Outside what can be represented or makes sense.
    #[error("'{0}' is out of range: {1}")]
    OutOfRange(String, &'static str),
}

const SIZE_UNITS: &str =
    "k, M, G, T, P (powers of 1024, also KiB, MiB, ...) and kB, MB, GB, TB, PB (powers of 1000)";
const TIME_UNITS: &str = "ns, us, ms, s, m, h, d";

/// Parses a size in bytes; see the module text for the grammar. Fractions of a unit (`1.5G`) are allowed when they
/// come to whole bytes.
///
/// # Errors
/// [`UnitError`] names what was not understood; negative sizes are refused.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_number(text, "4k, 1M or 10GiB")?;
    let scale: u64 = match unit {
        "" | "B" | "b" => 1,
        "k" | "K" | "KiB" | "kiB" | "Ki" | "ki" => 1 << 10,
        "m" | "M" | "MiB" | "Mi" | "mi" => 1 << 20,
        "g" | "G" | "GiB" | "Gi" | "gi" => 1 << 30,
        "t" | "T" | "TiB" | "Ti" | "ti" => 1 << 40,
        "p" | "P" | "PiB" | "Pi" | "pi" => 1 << 50,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "PB" => 1_000_000_000_000_000,
        other => return Err(unknown(text, other, SIZE_UNITS)),
    };
    scaled(text, number, scale, "sizes go from 0 to 16 EiB in whole bytes")
}

/// Parses a duration into nanoseconds. A bare `0` is allowed; everything else needs a unit.
///
/// # Errors
/// [`UnitError`] names what was not understood; negative durations are refused.
pub fn parse_duration_ns(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_number(text, "60s, 2m or 500ms")?;
    let scale: u64 = match unit {
        "" if number == "0" => 1,
        "" => return Err(UnitError::NeedsUnit(text.to_owned())),
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        other => return Err(unknown(text, other, TIME_UNITS)),
    };
    scaled(text, number, scale, "durations go from 0 to 500 years")
}

/// Parses a fraction in `0..=1`, written `0.2` or `20%`.
///
/// # Errors
/// [`UnitError`] when it is no number or outside the range.
pub fn parse_fraction(text: &str) -> Result<f64, UnitError> {
    let trimmed = text.trim();
    let (number, divisor) = trimmed.strip_suffix('%').map_or((trimmed, 1.0), |n| (n.trim(), 100.0));
    let value: f64 =
        number.parse().map_err(|_| UnitError::NotANumber(text.to_owned(), "0.2 or 20%"))?;
    let fraction = value / divisor;
    if (0.0..=1.0).contains(&fraction) {
        Ok(fraction)
    } else {
        Err(UnitError::OutOfRange(text.to_owned(), "a fraction goes from 0 to 1 (0% to 100%)"))
    }
}

/// Parses a whole number (threads, operations), with `k`, `M` as powers of 1000 not allowed: counts are plain.
///
/// # Errors
/// [`UnitError`] when it is not a whole number.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    text.trim().parse().map_err(|_| UnitError::NotWhole(text.to_owned()))
}

fn unknown(text: &str, unit: &str, known: &'static str) -> UnitError {
    UnitError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned(), known }
}

/// Splits `1.5GiB` into the digits and the unit.
fn split_number<'a>(text: &'a str, example: &'static str) -> Result<(&'a str, &'a str), UnitError> {
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return Err(UnitError::OutOfRange(text.to_owned(), "it must not be negative"));
    }
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    if number.is_empty() || number.matches('.').count() > 1 || number == "." {
        return Err(UnitError::NotANumber(text.to_owned(), example));
    }
    Ok((number, unit.trim_start()))
}

/// Exact decimal scaling: `number` x `scale` in integers, refusing a result that is not whole.
fn scaled(text: &str, number: &str, scale: u64, range: &'static str) -> Result<u64, UnitError> {
    let out_of_range = || UnitError::OutOfRange(text.to_owned(), range);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 18 {
        return Err(out_of_range());
    }
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| out_of_range())?;
    let divisor = 10u128.pow(fraction.len() as u32);
    let product = digits.checked_mul(u128::from(scale)).ok_or_else(out_of_range)?;
    if !product.is_multiple_of(divisor) {
        return Err(out_of_range());
    }
    u64::try_from(product / divisor).map_err(|_| out_of_range())
}

/// Bytes in powers of 1024: `8.0 GiB`, `64 KiB`, `512 B`.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(6);
    let value = bytes as f64 / 2f64.powi(10 * power as i32);
    let unit = UNITS[power as usize - 1];
    if bytes.is_multiple_of(1 << (10 * power)) {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// Two different sizes that stand in one sentence, as [`format_size`] writes them but with so many digits that they
/// can be told apart: `2.001 GiB` and `2 GiB`; bytes where three decimals do not suffice.
#[must_use]
pub fn format_sizes(a_bytes: u64, b_bytes: u64) -> (String, String) {
    let scale = |bytes: u64| 1u64 << (bytes.max(1).ilog2() / 10 * 10);
    let number =
        |bytes: u64, digits: usize| format!("{:.digits$}", bytes as f64 / scale(bytes) as f64);
    let shown =
        |bytes, digits| number(bytes, digits).parse::<f64>().unwrap_or(0.0) * scale(bytes) as f64;
    let differ = |digits: &usize| shown(a_bytes, *digits) != shown(b_bytes, *digits);
    if a_bytes == b_bytes {
        return (format_size(a_bytes), format_size(b_bytes));
    }
    let Some(digits) = (1..=3).find(differ) else {
        return (format!("{a_bytes} B"), format!("{b_bytes} B"));
    };
    let text = |bytes: u64| {
        let short = format_size(bytes);
        match short.split_once(' ') {
            Some((plain, unit)) if plain.contains('.') => {
                format!("{} {unit}", number(bytes, digits))
            }
            _ => short,
        }
    };
    (text(a_bytes), text(b_bytes))
}

/// Bytes per second in powers of 1000: `302.3 MB/s`.
#[must_use]
pub fn format_rate(bytes_per_s: f64) -> String {
    for (scale, unit) in [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")] {
        if bytes_per_s >= scale {
            return format!("{:.1} {unit}", bytes_per_s / scale);
        }
    }
    format!("{bytes_per_s:.0} B/s")
}

/// A latency or duration with two or three significant digits: `850 ns`, `3.4 ms`, `11 ms`, `1.2 s`.
#[must_use]
pub fn format_ns(ns: u64) -> String {
    let value = ns as f64;
    for (scale, unit) in [(1e9, "s"), (1e6, "ms"), (1e3, "us")] {
        if value >= scale * 0.9995 {
            let scaled = value / scale;
            return if scaled < 9.95 {
                format!("{scaled:.1} {unit}")
            } else {
                format!("{scaled:.0} {unit}")
            };
        }
    }
    format!("{ns} ns")
}

/// A waiting time for people: `45 s`, `2 min 10 s`, `3 h 05 min`.
#[must_use]
pub fn format_duration(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A length of time that has passed, for people: `90 ms`, `2.3 s`, `45 s`, `2 min 10 s`. To the nearest, never rounded up as a waiting
/// time is.
#[must_use]
pub fn format_length(ns: u64) -> String {
    const TENTH_NS: u64 = 100_000_000;
    let tenths = (ns + TENTH_NS / 2) / TENTH_NS;
    match tenths {
        0..10 if ns > 0 => format_ns(ns),
        0..1000 if !tenths.is_multiple_of(10) => format!("{}.{} s", tenths / 10, tenths % 10),
        _ => format_duration((ns + 5 * TENTH_NS) / (10 * TENTH_NS) * (10 * TENTH_NS)),
    }
}

/// A number of any size as short as one would type it: `0.5`, `2000`, `123456.75`, `1e300`. For what is said of a value, where all its
/// digits in a row would say less.
#[must_use]
pub fn format_number(number: f64) -> String {
    let is_plain = number == 0.0 || (1e-4..1e9).contains(&number.abs()) || !number.is_finite();
    if is_plain { format!("{number}") } else { format!("{number:e}") }
}

/// A whole number with thin grouping: `1 234 567`.
#[must_use]
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// [`format_count`] of the nearest whole number; one with more digits than a count can have as `1.00e308`.
#[must_use]
pub fn format_whole(number: f64) -> String {
    let is_count = number < u64::MAX as f64;
    if is_count { format_count(number.round() as u64) } else { format!("{number:.2e}") }
}

/// A value in a unit of its own with three significant digits or more: `0`, `0.000400`, `0.0123`, `9.90`, `12.3`, `1840`; `4.00e-5` and
/// `1.00e300` where digits in a row would be zeros.
#[must_use]
pub fn format_figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if !(9.995e-5..1e15).contains(&v) => format!("{value:.2e}"),
        v if v < 0.9995 => {
            let zeros = [0.09995, 0.009_995, 0.000_999_5].iter().filter(|top| v < **top).count();
            format!("{value:.0$}", 3 + zeros)
        }
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 999.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Two formatted numbers as the ends of a range, with their unit once where it is the same: `8 to 16 %`, `900 us to 1.2 ms`,
/// `10 to 12/s`. Every interval that people read is written by this.
#[must_use]
pub fn format_range(low: &str, high: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || " .+-<".contains(c);
    // A number and what stands behind it; none of several with a unit each, as of `1 min 30 s`.
    let parts = |text: &str| {
        let at = text.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
        (at > 0 && text[..at].chars().all(is_number))
            .then(|| (text[..at].to_owned(), text[at..].to_owned()))
    };
    match (parts(low), parts(high)) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_not_rounded_up() {
        for (ns, text) in [
            (0, "0 s"),
            (2_301_000, "2.3 ms"),
            (300_000_000, "300 ms"),
            (949_000_000, "949 ms"),
            (4_000_300_000, "4 s"),
            (1_160_000_000, "1.2 s"),
            (59_960_000_000, "1 min 00 s"),
            (75_510_000_000, "75.5 s"),
            (100_400_000_000, "1 min 40 s"),
            (7_261_000_000_000, "2 h 01 min"),
        ] {
            assert_eq!(format_length(ns), text, "{ns}");
        }
    }

    #[test]
    fn numbers_beyond_all_counts_keep_their_size() {
        for (number, text) in [
            (1234.5, "1 235"),
            (-1.0, "0"),
            (1.8e19, "18 000 000 000 000 000 000"),
            (1.9e19, "1.90e19"),
            (1e308, "1.00e308"),
        ] {
            assert_eq!(format_whole(number), text);
        }
    }

    #[test]
    fn figures_keep_three_digits_however_small() {
        for (value, text) in [
            (0.0, "0"),
            (4e-5, "4.00e-5"),
            (9.9949e-5, "9.99e-5"),
            (9.996e-5, "0.000100"),
            (0.0004, "0.000400"),
            (0.000_999_7, "0.00100"),
            (0.004, "0.00400"),
            (0.0123, "0.0123"),
            (0.099_96, "0.100"),
            (-0.122, "-0.122"),
            (0.9996, "1.00"),
            (9.99, "9.99"),
            (9.996, "10.0"),
            (123.46, "123.5"),
            (1840.25, "1840"),
            (-25_454.0, "-25454"),
            (1e300, "1.00e300"),
        ] {
            assert_eq!(format_figure(value), text);
        }
    }

    #[test]
    fn ranges_say_their_unit_once() {
        for (low, high, text) in [
            ("8 %", "16 %", "8 to 16 %"),
            ("-4.0 %", "+16.0 %", "-4.0 to +16.0 %"),
            ("< 0.1 %", "0.3 %", "< 0.1 to 0.3 %"),
            ("900 us", "1.2 ms", "900 us to 1.2 ms"),
            ("4.1 MB/s", "4.1 MB/s", "4.1 to 4.1 MB/s"),
            ("10/s", "12/s", "10 to 12/s"),
            ("1 400", "1 439", "1 400 to 1 439"),
            ("x 0.33", "x 0.50", "x 0.33 to x 0.50"),
            ("1 min 20 s", "1 min 30 s", "1 min 20 s to 1 min 30 s"),
            ("45 s", "1 min 30 s", "45 s to 1 min 30 s"),
            ("n/a", "3", "n/a to 3"),
            ("", "", " to "),
        ] {
            assert_eq!(format_range(low, high), text);
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1MB", 1_000_000),
            ("512", 512),
            ("1.5G", 3 << 29),
            ("0", 0),
            ("10 GiB", 10 << 30),
            ("16M", 16 << 20),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-4k", "4q", "4.0001k", "1e3", "99999999999P", "1.2.3k"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_size("4q").map_err(|e| e.to_string()),
            Err("'4q': unknown unit 'q'; known are k, M, G, T, P (powers of 1024, also KiB, MiB, ...) and kB, MB, GB, TB, PB (powers of 1000)".into())
        );
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, ns) in [
            ("60s", 60_000_000_000),
            ("2m", 120_000_000_000),
            ("1.5ms", 1_500_000),
            ("0", 0),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
        assert_eq!(parse_duration_ns("60"), Err(UnitError::NeedsUnit("60".into())));
        assert!(parse_duration_ns("-1s").is_err());
    }

    #[test]
    fn fractions() {
        assert_eq!(parse_fraction("0.2"), Ok(0.2));
        assert_eq!(parse_fraction("20%"), Ok(0.2));
        for text in ["20", "-0.1", "120%", "x", "nan"] {
            assert!(parse_fraction(text).is_err(), "{text}");
        }
    }

    #[test]
    fn two_sizes_can_be_told_apart() {
        const GIB: u64 = 1 << 30;
        for (a, b, texts) in [
            (2 * GIB, 2 * GIB, ("2 GiB", "2 GiB")),
            (2 * GIB + 1, 2 * GIB, ("2147483649 B", "2147483648 B")),
            (2 * GIB + (8 << 20), 2 * GIB + (32 << 20), ("2.01 GiB", "2.03 GiB")),
            (2 * GIB + (2 << 20), 2 * GIB, ("2.002 GiB", "2 GiB")),
            (4097, 4096, ("4.001 KiB", "4 KiB")),
            (1025, 1024, ("1.001 KiB", "1 KiB")),
            (GIB - 1, GIB, ("1073741823 B", "1073741824 B")),
            (3 * GIB / 2, 2 * GIB, ("1.5 GiB", "2 GiB")),
            (0, 1, ("0 B", "1 B")),
            (700, 512, ("700 B", "512 B")),
            (u64::MAX, u64::MAX - 1, ("18446744073709551615 B", "18446744073709551614 B")),
        ] {
            assert_eq!(format_sizes(a, b), (texts.0.to_owned(), texts.1.to_owned()));
            assert_eq!(format_sizes(b, a), (texts.1.to_owned(), texts.0.to_owned()));
        }
    }

    #[test]
    fn formats() {
        assert_eq!(format_size(8 << 30), "8 GiB");
        assert_eq!(format_size(1536), "1.5 KiB");
        assert_eq!(format_size(512), "512 B");
        assert_eq!(format_rate(302_300_000.0), "302.3 MB/s");
        assert_eq!(format_ns(850), "850 ns");
        assert_eq!(format_ns(3_400_000), "3.4 ms");
        assert_eq!(format_ns(11_000_000), "11 ms");
        assert_eq!(format_ns(999_999), "1.0 ms");
        assert_eq!(format_ns(1_200_000_000), "1.2 s");
        assert_eq!(format_duration(130_000_000_000), "2 min 10 s");
        assert_eq!(format_count(1_234_567), "1 234 567");
        for (number, text) in [
            (0.5, "0.5"),
            (-2000.0, "-2000"),
            (123_456.75, "123456.75"),
            (1e8, "100000000"),
            (1e300, "1e300"),
            (-1.5e-300, "-1.5e-300"),
            (0.0, "0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_number(number), text);
        }
    }
}
