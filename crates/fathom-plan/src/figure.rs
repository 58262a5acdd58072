//! Figures that a command prints, as plans write them: a number in a line of text, a place in JSON, or a regular expression.

use regex_lite::{Regex, RegexBuilder};

/// What begins a place in JSON.
const JSON: &str = "json:";
/// What begins a regular expression.
const EXPRESSION: &str = "re:";

/// Where a figure is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Figure {
    /// Text with `{}` for the number.
    Text(String),
    /// A place in JSON.
    Json {
        /// As it was written.
        text: String,
        /// From the outermost value inward.
        path: Vec<Step>,
    },
    /// A regular expression with one group, which holds the number.
    Expression(String),
}

/// A step inward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into an object.
    Key(String),
    /// Into an array, from 0.
    Index(usize),
}

impl Figure {
    /// As a plan writes it: `tps = {}`, `json:tps.mean`, `json:jobs[0].read.iops`, `json:percentiles["99.9"]`.
    ///
    /// # Errors
    /// What is wrong with it, and how it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(pattern) = text.strip_prefix(EXPRESSION) {
            return expression(pattern).map(|_| Self::Expression(pattern.to_owned()));
        }
        match text.strip_prefix(JSON) {
            Some(path) => steps(path)
                .map(|path| Self::Json { text: text.to_owned(), path })
                .map_err(|wrong| {
                    format!("{wrong}; write keys with points between them and places in arrays from 0: json:jobs[0].read.iops, json:percentiles[\"99.9\"]")
                }),
            None if text.matches("{}").count() == 1 => Ok(Self::Text(text.to_owned())),
            None => Err(
                "write the text around the number, with {} for the number (tps = {}), where it is in JSON (json:tps.mean), or a regular expression (re:tps = ([0-9.]+))"
                    .to_owned(),
            ),
        }
    }
}

/// A regular expression of a figure; `^` and `$` are the ends of lines.
///
/// # Errors
/// What is wrong with it, and how one is written.
pub fn expression(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).multi_line(true).build();
    let built = built.map_err(|error| format!("'{pattern}' is no regular expression: {error}"))?;
    match built.captures_len() - 1 {
        1 => Ok(built),
        groups => Err(format!(
            "'{pattern}' has {groups} groups; write one, around the number, and (?:...) for others: re:IOPS=([0-9.]+)"
        )),
    }
}

fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = path.trim();
    if rest.is_empty() {
        return Err("nothing stands after json:".to_owned());
    }
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('[') {
            Some(inside) => bracket(inside)?,
            None => {
                let rest = rest.strip_prefix('.').filter(|_| !steps.is_empty()).unwrap_or(rest);
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                (Step::Key(rest[..end].to_owned()), &rest[end..])
            }
        };
        if step == Step::Key(String::new()) || after == "." {
            return Err(format!("a key is missing in '{path}'"));
        }
        steps.push(step);
        rest = after;
    }
    Ok(steps)
}

/// What stands between brackets, and what follows them.
fn bracket(inside: &str) -> Result<(Step, &str), String> {
    if let Some(quoted) = inside.strip_prefix('"') {
        let (key, after) =
            quoted.split_once("\"]").ok_or_else(|| format!("'[{inside}' has no \"] at its end"))?;
        return Ok((Step::Key(key.to_owned()), after));
    }
    let (index, after) =
        inside.split_once(']').ok_or_else(|| format!("'[{inside}' has no ] at its end"))?;
    let index = index.parse().map_err(|_| {
        format!("'[{index}]' is no place in an array; a key in brackets has quotation marks")
    })?;
    Ok((Step::Index(index), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_figure_says_how_one_is_written() {
        for (text, part) in [
            ("tps", "tps = {}"),
            ("{} and {}", "json:tps.mean"),
            ("json:", "nothing stands after json:"),
            ("json:a..b", "a key is missing in 'a..b'"),
            ("json:.a", "a key is missing"),
            ("json:a.", "a key is missing"),
            ("json:a[x]", "'[x]' is no place in an array"),
            ("json:a[-1]", "'[-1]' is no place"),
            ("json:a[1", "has no ] at its end"),
            ("json:a[\"b]", "has no \"] at its end"),
            ("re:[", "'[' is no regular expression"),
            ("re:[0-9]+", "has 0 groups"),
            ("re:(a)(b)", "has 2 groups; write one"),
        ] {
            let error = Figure::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
