//! Figures out of what a program printed.

use fathom_plan::figure::{Figure, Step};
use serde_json::Value;

/// The last such number in what was printed.
///
/// # Errors
/// What is missing.
pub(crate) fn pick(figure: &Figure, output: &str) -> Result<f64, String> {
    match figure {
        Figure::Text(pattern) => in_text(output, pattern)
            .ok_or_else(|| format!("what '{pattern}' stands for was not printed")),
        Figure::Json { text, path } => in_json(output, path)
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

/// The number that stands where `{}` does in the last line that has the text before it.
fn in_text(output: &str, pattern: &str) -> Option<f64> {
    let (before, after) = pattern.split_once("{}")?;
    output.lines().rev().find_map(|line| {
        let rest = match before.trim_start() {
            "" => line,
            before => line.split_once(before)?.1,
        };
        let rest = rest.trim_start();
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        // A full stop may end the sentence.
        let number = rest[..end].trim_end_matches(['.', 'e', 'E', '-', '+']);
        let fits = rest[number.len()..].trim_start().starts_with(after.trim_start());
        number.parse::<f64>().ok().filter(|value| fits && value.is_finite())
    })
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
