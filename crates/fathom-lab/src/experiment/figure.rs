//! Figures out of what a program printed.

use fathom_plan::figure::{Figure, Step, expression};
use serde_json::Value;

/// The last such number in what was printed.
///
/// # Errors
/// What is missing.
pub(crate) fn pick(figure: &Figure, output: &str) -> Result<f64, String> {
    // A line that is written over and over again, as of progress, is one each time.
    let output = output.replace('\r', "\n");
    match figure {
        Figure::Text(pattern) => in_text(&output, pattern),
        Figure::Expression(pattern) => by_expression(&output, pattern),
        Figure::Json { text, path } => in_json(&output, path)
            .map_err(|missing| format!("'{text}' is not in what was printed: {missing}")),
    }
}

/// The number at a place of the last JSON that has it there; what the last one lacks, when none has.
fn in_json(output: &str, path: &[Step]) -> Result<f64, String> {
    let found = values(output);
    let Some(last) = found.last() else {
        return Err("no line of it begins JSON that is complete".to_owned());
    };
    let missing = match at(last, path) {
        Ok(number) => return Ok(number),
        Err(missing) => missing,
    };
    found.iter().rev().find_map(|value| at(value, path).ok()).ok_or(missing)
}

/// All objects and arrays that begin a line and are complete: one for each line, or one over many lines with other text around.
fn values(output: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = output.trim_start();
    while !rest.is_empty() {
        let begins = rest.starts_with(['{', '[']);
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let end = match begins.then(|| stream.next()).flatten() {
            Some(Ok(value)) => {
                found.push(value);
                stream.byte_offset()
            }
            _ => 0,
        };
        rest = rest[end..].split_once('\n').map_or("", |(_, after)| after);
    }
    found
}

fn at(value: &Value, path: &[Step]) -> Result<f64, String> {
    let mut value = value;
    for step in path {
        let inner = match step {
            Step::Key(key) => match value {
                Value::Object(object) => object.get(key),
                // What jq and others write as places in arrays too.
                Value::Array(array) => key.parse().ok().and_then(|at: usize| array.get(at)),
                _ => None,
            },
            Step::Index(index) => value.as_array().and_then(|array| array.get(*index)),
        };
        value = inner.ok_or_else(|| missing(value, step))?;
    }
    let number = match value {
        Value::Number(number) => number.as_f64(),
        // Some programs put quotation marks around all values.
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number
        .filter(|number| number.is_finite())
        .ok_or_else(|| format!("there is {}, and no number", words(value)))
}

fn missing(value: &Value, step: &Step) -> String {
    let step = match step {
        Step::Key(key) => format!("'{key}'"),
        Step::Index(index) => format!("[{index}]"),
    };
    format!("no {step} in {}", words(value))
}

/// What a value is, for people.
fn words(value: &Value) -> String {
    const KEYS_MAX: usize = 8;
    match value {
        Value::Object(object) if object.is_empty() => "an empty object".to_owned(),
        Value::Object(object) => {
            let mut keys: Vec<&str> = object.keys().take(KEYS_MAX).map(String::as_str).collect();
            if object.len() > KEYS_MAX {
                keys.push("...");
            }
            format!("an object of {}", keys.join(", "))
        }
        Value::Array(array) => format!("an array of {}", array.len()),
        Value::String(text) => format!("the text '{}'", text.chars().take(40).collect::<String>()),
        other => other.to_string(),
    }
}

/// Why a number in groups of digits is none, and what helps.
const SEPARATORS: &str = "a number with separators between its digits cannot be told from several numbers; have it printed without them (LC_NUMERIC=C)";

/// What stands where a number is looked for.
#[derive(Debug, PartialEq)]
enum Place {
    Number(f64),
    /// A number that goes on in a way that nobody asked for: `12.3k`.
    GoesOn(String),
    /// A number in groups of digits: `1,234`.
    Grouped(String),
    Other,
}

/// The number that stands where `{}` does in the last line that has the text around it.
fn in_text(output: &str, pattern: &str) -> Result<f64, String> {
    let not_there = || format!("what '{pattern}' stands for was not printed");
    let (before, after) = pattern.split_once("{}").ok_or_else(not_there)?;
    let (before, after) = (before.trim_start(), after.trim_start());
    for line in output.lines().rev() {
        for rest in places(line, before) {
            match place(rest, after) {
                Place::Number(number) => return Ok(number),
                // An earlier line would be another figure.
                Place::GoesOn(word) if !before.is_empty() => {
                    return Err(format!(
                        "'{}' has '{word}' there, which is no plain number: put what follows the digits into the pattern",
                        line.trim().chars().take(60).collect::<String>()
                    ));
                }
                Place::Grouped(word) if !before.is_empty() || !after.is_empty() => {
                    return Err(format!("there is '{word}': {SEPARATORS}"));
                }
                Place::GoesOn(_) | Place::Grouped(_) | Place::Other => {}
            }
        }
    }
    Err(not_there())
}

/// What follows the text, each time that it stands in the line.
fn places<'a>(line: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    let ends = line.match_indices(before).map(|(at, found)| at + found.len());
    // Without a text the number begins the line.
    let most = if before.is_empty() { 1 } else { usize::MAX };
    ends.take(most).map(move |end| line[end..].trim_start())
}

/// What a place begins with; `after` is the text that must follow.
fn place(rest: &str, after: &str) -> Place {
    let (number, behind) = rest.split_at(number_bytes(rest));
    let Some(value) = number.parse::<f64>().ok().filter(|value| value.is_finite()) else {
        return Place::Other;
    };
    let fits = after.is_empty() || behind.trim_start().starts_with(after);
    // Behind the groups that a number goes on with.
    let groups = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.' | '\'' | '_');
    let fits_behind = || behind.trim_start_matches(groups).trim_start().starts_with(after);
    if is_grouped(number, behind) && (fits || fits_behind()) {
        return Place::Grouped(word(rest));
    }
    if !after.is_empty() && fits {
        return Place::Number(value);
    }
    match (goes_on(behind), after.is_empty()) {
        (true, true) => Place::GoesOn(word(rest)),
        (false, true) => Place::Number(value),
        (_, false) => Place::Other,
    }
}

/// Whether a number goes on with what stands behind its digits, as `12.3k`, `5ms` and `12:30` do.
fn goes_on(behind: &str) -> bool {
    let mut next = behind.chars();
    match next.next() {
        Some(',' | '.' | ':' | '/' | '-' | '+' | '\'') => {
            next.next().is_some_and(|c| c.is_ascii_digit())
        }
        Some(c) => c.is_alphanumeric() || c == '_',
        None => false,
    }
}

/// What a text has up to the next blank, for people.
fn word(text: &str) -> String {
    text.split(char::is_whitespace).next().unwrap_or_default().chars().take(40).collect()
}

/// Whether a number goes on with a separator and a group of three digits, as in `1,234`, `1'234'567` and `1.234.567`.
fn is_grouped(number: &str, behind: &str) -> bool {
    let mut groups = number.trim_start_matches(['-', '+']).split('.');
    let is_first = |group: &str| (1..=3).contains(&group.len());
    let is_number = groups.next().is_some_and(is_first) && groups.all(|group| group.len() == 3);
    let mut next = behind.chars();
    let is_separator = next.next().is_some_and(|c| matches!(c, ',' | '.' | '\'' | '_'));
    let digits = next.take_while(char::is_ascii_digit).count();
    is_number && is_separator && digits == 3
}

/// How long the number is that a text begins with: sign, digits, a part behind the point, an exponent.
fn number_bytes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = |at: usize| usize::from(matches!(bytes.get(at), Some(b'-' | b'+')));
    let mut end = sign(0);
    end += digits(end);
    // A full stop may end the sentence.
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let from = end + 1 + sign(end + 1);
        let exponent = digits(from.min(bytes.len()));
        end = if exponent > 0 { from + exponent } else { end };
    }
    end
}

/// The number in the group of the last match.
fn by_expression(output: &str, pattern: &str) -> Result<f64, String> {
    let expression = expression(pattern)?;
    let all = expression.captures_iter(output);
    let found = all.filter_map(|found| Some((found.get(0)?, found.get(1)?))).last();
    let nothing = || format!("nothing that was printed matches '{pattern}'");
    let (whole, group) = found.ok_or_else(nothing)?;
    let text = group.as_str().trim();
    // Who writes what follows, or stands before, has seen it.
    let behind = &output[group.end()..];
    if whole.end() == group.end() && is_grouped(text, behind) {
        return Err(format!("'{text}' is followed by more digits: {SEPARATORS}"));
    }
    let ahead = &output[..group.start()];
    let ends_in_digit = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
    // A greedy `.*` before the group leaves it the last digit.
    let is_rest = ends_in_digit(ahead)
        || whole.start() == group.start() && ahead.strip_suffix('.').is_some_and(ends_in_digit);
    if is_rest || whole.end() == group.end() && goes_on(behind) {
        let begins = ahead.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        return Err(format!(
            "'{}' has more than '{text}', which is no plain number: put what stands around the digits into the pattern, outside the group",
            word(&output[begins..])
        ));
    }
    // The group began within a number: one to three digits and a separator stand before it, and it has three.
    let own = text.bytes().take_while(u8::is_ascii_digit).count();
    let before = ahead.strip_suffix([',', '\'', '_']).unwrap_or_default();
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    let is_within = own == 3 && (1..=3).contains(&digits) && whole.start() >= group.start();
    if is_within {
        return Err(format!("'{text}' follows other digits: {SEPARATORS}"));
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("the group of '{pattern}' has '{text}', which is no plain number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(pattern: &str, output: &str, expected: Result<f64, &str>) {
        let figure = Figure::parse(pattern).expect("a figure");
        match (pick(&figure, output), expected) {
            (Ok(number), Ok(expected)) => assert_eq!(number, expected, "{pattern}"),
            (Err(text), Err(part)) => assert!(text.contains(part), "{pattern}: {text}"),
            (found, _) => panic!("{pattern}: {found:?}"),
        }
    }

    #[test]
    fn figures_are_picked_out_of_lines() {
        let text = "starting\ntps = 12.5 (without)\nlatency average: 3 ms\ntps = 1840.25 (excluding connections)\nratio -1.5e3.\n";
        expect("tps = {}", text, Ok(1840.25));
        expect("tps = {} (without", text, Ok(12.5));
        expect("average: {} ms", text, Ok(3.0));
        expect("ratio {}", text, Ok(-1500.0));
        expect("nothing {}", text, Err("'nothing {}' stands for was not printed"));
        expect("{}", "42\n", Ok(42.0));
        expect("{}", "from 9 on\n42 s\n2026-11-22 end\n", Ok(42.0));
        let progress = "1 s, 10 MB/s\r2 s, 20 MB/s\r3 s, 30 MB/s\r\n";
        expect("s, {} MB/s", progress, Ok(30.0));
        expect("re:^([0-9]+) s, .* MB/s$", progress, Ok(3.0));
        expect("json:x", "{\"x\":1}\r{\"x\":2}\r\n", Ok(2.0));
    }

    #[test]
    fn a_number_that_goes_on_is_refused_unless_the_pattern_goes_on_too() {
        expect("rate {}", "rate 12.3k ops", Err("has '12.3k' there, which is no plain number"));
        expect("rate {} ops", "rate 12.3k ops", Err("was not printed"));
        expect("rate {} ops", "rate 980 ops\nrate 1,234 ops", Err("separators"));
        expect("re:([0-9.]+) ops", "1,234 ops", Err("separators"));
        expect("re:[0-9]+,([0-9]+) ops", "1,234 ops", Ok(234.0));
        expect("re:([0-9.]+)$", "980,1234", Ok(1234.0));
        let of_fio = "  read: IOPS=980, BW=3MiB/s\n  write: IOPS=12.3k, BW=48MiB/s\n";
        // Neither 12.3 nor, from another line, 980.
        expect("IOPS={}", of_fio, Err("'write: IOPS=12.3k, BW=48MiB/s' has '12.3k,' there"));
        expect("IOPS={}k", of_fio, Ok(12.3));
        expect("read: IOPS={}", of_fio, Ok(980.0));
        expect("took {}", "took 12:30", Err("'12:30'"));
        expect("took {}", "took 5ms", Err("'5ms'"));
        expect("took {} ms", "took 5ms", Ok(5.0));
        expect("took {}", "took 1_000", Err("'1_000'"));
        expect("at {}", "at 99.9% of it", Ok(99.9));
        expect("x {}", "x 7.", Ok(7.0));
        expect("x {}", "x -.5e-1, y", Ok(-0.05));
        expect("x {}", "x 1e400", Err("was not printed"));
    }

    /// Whatever the pattern says of it, 1,234 is not 1.
    #[test]
    fn a_number_with_separators_is_refused_with_what_helps() {
        let cure = "have it printed without them (LC_NUMERIC=C)";
        for number in ["1,234", "-12,345,678", "1'234", "1_234", "1.234.567", "1,234.5"] {
            let text = format!("tps = {number}");
            let separator = if number.contains(',') { "," } else { &number[1..2] };
            for pattern in ["tps = {}".to_owned(), format!("tps = {{}}{separator}")] {
                if pattern.ends_with('.') {
                    continue;
                }
                expect(&pattern, &text, Err(cure));
            }
            expect("re:tps = (-?[0-9]+)", &text, Err(cure));
        }
        // No groups of three digits, or what follows is in the expression.
        expect("tps = {},", "tps = 980, lat 5", Ok(980.0));
        expect("tps = {},", "tps = 980,5", Ok(980.0));
        expect("{},", "1800,250,3", Ok(1800.0));
        expect("re:^([0-9]+),", "180,250,3", Ok(180.0));
    }

    #[test]
    fn the_text_may_stand_in_the_line_before() {
        expect("lat {} ms", "flat lat 5 ms", Ok(5.0));
        expect("lat {}", "flat latest lat 6", Ok(6.0));
    }

    #[test]
    fn regular_expressions_take_the_group_of_the_last_match() {
        let text = "read: IOPS=980, BW=3MiB/s\nwrite: IOPS=12.3k, BW=48MiB/s\n 7 ops\n";
        expect("re:read: IOPS=([0-9.]+)", text, Ok(980.0));
        expect("re:IOPS=([0-9.]+)(?:,|k)", text, Ok(12.3));
        expect("re:^ *([0-9]+) ops$", text, Ok(7.0));
        expect("re:IOPS=([0-9.k]+)", text, Err("'12.3k', which is no plain number"));
        expect("re:latency ([0-9.]+)", text, Err("nothing that was printed matches"));
        expect("re:(?:no|(x))", "no", Err("nothing that was printed matches"));
    }

    /// The group may end, or begin, within a number: fio says `64.4k` from 10,000 requests a second on.
    #[test]
    fn a_part_of_a_number_is_none() {
        for (pattern, text) in [
            ("re:IOPS=([0-9.]+)", "read: IOPS=64.4k, BW=252MiB/s"),
            ("re:tps = ([0-9.]+)", "tps = 1.2e-3"),
            ("re:tps = ([0-9.]+)", "tps = 1.2E+03"),
            ("re:lat=([0-9.]+)", "lat=5ms"),
            ("re:tps = ([0-9]+)", "tps = 12.3"),
            ("re:tps = ([0-9]+)", "tps = 1234,5"),
            ("re:([0-9]+) ops", "12.5 ops"),
            ("re:([0-9]) ops", "25 ops"),
            ("re:.*([0-9]+) ops", "v 1234 ops"),
            ("re:v .*([0-9]+)", "v 1234 ops"),
        ] {
            expect(pattern, text, Err("which is no plain number"));
        }
        expect("re:IOPS=([0-9.]+)k", "read: IOPS=64.4k, BW=252MiB/s", Ok(64.4));
        expect("re:IOPS=([0-9.]+)", "read: IOPS=980, BW=252MiB/s", Ok(980.0));
        expect("re:lat=([0-9.]+)", "lat=5 ms", Ok(5.0));
        expect("re:at ([0-9.]+)", "at 99.9% of it", Ok(99.9));
        expect("re:[0-9]+\\.([0-9]+) ops", "12.5 ops", Ok(5.0));
    }

    #[test]
    fn the_last_line_that_has_it_counts() {
        let text = "warm-up\n{\"tps\":{\"mean\":1.5}}\n[12:00] {not json\n{\"tps\":{\"mean\":2e3}}\n{\"done\":true}\nbye\n";
        expect("json:tps.mean", text, Ok(2000.0));
        expect("json:done", text, Err("there is true, and no number"));
        expect("json:tps.p99", text, Err("no 'tps' in an object of done"));
        expect("json:x", "a {\"x\":1}\n", Err("no line of it begins JSON"));
        expect("json:x", "{\"x\":1", Err("no line of it begins JSON"));
        expect("json:x", "", Err("no line of it begins JSON"));
    }

    #[test]
    fn json_over_many_lines_with_text_around_it() {
        let text = "note: \n{\n  \"jobs\": [\n    {\n\"iops\": 7\n},\n{\"read\": {\"iops\": \"12.5\", \"p\": {\"99.9\": 3}}}\n  ],\n  \"empty\": {},\n  \"nan\": \"NaN\"\n}\nend {\n";
        expect("json:jobs[1].read.iops", text, Ok(12.5));
        expect("json:jobs.0.iops", text, Ok(7.0));
        expect("json:jobs[1].read.p[\"99.9\"]", text, Ok(3.0));
        expect("json:jobs[2].read", text, Err("no [2] in an array of 2"));
        expect("json:jobs[1].write", text, Err("no 'write' in an object of read"));
        expect("json:jobs.mean", text, Err("no 'mean' in an array of 2"));
        expect("json:empty.x", text, Err("no 'x' in an empty object"));
        expect("json:jobs", text, Err("there is an array of 2, and no number"));
        expect("json:nan", text, Err("there is the text 'NaN', and no number"));
        expect("json:[1][0]", "[1,\n[5]]\n", Ok(5.0));
    }
}
