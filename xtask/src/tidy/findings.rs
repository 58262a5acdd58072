//! Every finding that can be raised is explained in a page of `docs/`, and the page of findings names none that is not there.

use super::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The page that lists them.
const PAGE: &str = "docs/findings.md";
/// How one is made; its name follows, on the same line or the next.
const MADE: &str = "Finding::new(";

/// What was seen in files so far.
#[derive(Default)]
pub struct Seen {
    /// Names that are raised, and where first.
    raised: BTreeMap<String, (PathBuf, usize)>,
    /// All that looks like a name, in quotation marks, in sources.
    quoted: BTreeSet<String>,
    /// What pages name, in backticks or stars.
    explained: BTreeSet<String>,
    /// First cells of the page's tables.
    listed: Vec<(usize, String)>,
}

impl Seen {
    /// Takes a file in.
    pub fn look(&mut self, path: &Path, content: &str) {
        let name = path.to_string_lossy();
        if name.starts_with("docs/") && name.ends_with(".md") {
            self.page(&name, content);
        } else if name.starts_with("crates/") && name.ends_with(".rs") && name.contains("/src/") {
            self.source(path, content);
        }
    }

    fn page(&mut self, name: &str, content: &str) {
        for (index, line) in content.lines().enumerate() {
            let words = |line: &str| {
                let parts = line.split(['`', '*']).skip(1).step_by(2);
                parts.filter(|word| is_name(word)).map(str::to_owned).collect::<Vec<_>>()
            };
            self.explained.extend(words(line));
            let first = line.strip_prefix("| ").and_then(|rest| rest.split(" | ").next());
            if let Some(cell) = first.filter(|_| name == PAGE) {
                self.listed.extend(words(cell).into_iter().map(|word| (index, word)));
            }
        }
    }

    fn source(&mut self, path: &Path, content: &str) {
        let words = content.split('"').skip(1);
        self.quoted.extend(words.filter(|word| is_name(word)).map(str::to_owned));
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.ends_with("tests.rs") || file == "samples.rs" {
            return;
        }
        let own = content.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let mut at = 0;
        while let Some(found) = own[at..].find(MADE) {
            at += found + MADE.len();
            let rest = own[at..].trim_start();
            let word = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
            if let Some(word) = word {
                let line = own[..at].matches('\n').count();
                self.raised.entry(word.to_owned()).or_insert((path.to_owned(), line));
            }
        }
    }

    /// What is wrong after all files.
    pub fn problems(self) -> Vec<Problem> {
        let unknown = self.raised.iter().filter(|(word, _)| !self.explained.contains(*word));
        let text = |word: &str| format!("the finding {word} is in no page: add it to {PAGE}");
        let of_source = unknown.map(|(word, (path, line))| Problem::at(path, *line, text(word)));
        let gone = self.listed.iter().filter(|(_, word)| !self.quoted.contains(word));
        let text = |word: &str| format!("no source has a finding {word}: take it out");
        let of_page = gone.map(|(line, word)| Problem::at(PAGE, *line, text(word)));
        of_source.chain(of_page).collect()
    }
}

/// Lower-case letters and digits with hyphens between.
fn is_name(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !word.is_empty() && word.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let mut seen = Seen::default();
        files.iter().for_each(|(path, content)| seen.look(Path::new(path), content));
        seen.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn findings_and_pages_agree() {
        let source = "fn f() {\n    Finding::new(\n        \"held-up\", s)\n}\n#[cfg(test)]\nmod tests {\nFinding::new(\"x-y\"";
        let page = "| finding | when |\n|---|---|\n| `held-up` (void) | `not-one` |\n";
        let both = [("crates/a/src/b.rs", source), (PAGE, page)];
        assert_eq!(problems(&both), [""; 0]);
        // Another page may explain it.
        let other = [("crates/a/src/b.rs", source), ("docs/run.md", "*held-up* says so")];
        assert_eq!(problems(&other), [""; 0]);
        let missing = [("crates/a/src/b.rs", source), ("docs/run.md", "held-up")];
        assert_eq!(
            problems(&missing),
            ["crates/a/src/b.rs:2: the finding held-up is in no page: add it to docs/findings.md"]
        );
        let gone = [("crates/a/src/b.rs", "\"other\""), (PAGE, page)];
        assert_eq!(
            problems(&gone),
            ["docs/findings.md:3: no source has a finding held-up: take it out"]
        );
    }
}
