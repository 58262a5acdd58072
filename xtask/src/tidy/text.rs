//! Rules for every file: white space (of Rust sources see `code`), and no path of a private workplace.

use super::Problem;
use std::path::Path;

/// Paths that mean something on one machine only; put together here so that this file passes its own rule.
const WORKPLACE: &[&str] =
    &[concat!("/wo", "rk/"), concat!(".lib", "rary"), concat!("../sha", "red")];

/// Checks one file; bytes that are not UTF-8 were replaced.
pub fn check(path: &Path, content: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, line) in content.lines().enumerate() {
        if let Some(word) = WORKPLACE.iter().find(|word| line.contains(**word)) {
            let text =
                format!("'{word}' is a path of a private workplace; the project speaks of itself");
            problems.push(Problem::at(path, i, text));
        }
        if is_ours(path) && line.ends_with([' ', '\t']) {
            problems.push(Problem::at(path, i, "white space at the end of the line"));
        }
    }
    if is_ours(path) && !content.is_empty() && !content.ends_with('\n') {
        problems.push(Problem::of_file(path, "no newline at the end of the file"));
    }
    problems
}

/// Texts that people write, as against recorded data and generated files.
fn is_ours(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["toml", "md", "sh", "yml"].iter().any(|ours| extension == *ours) || path.starts_with(".ci")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, content: &str) -> Vec<usize> {
        check(Path::new(path), content).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn workplaces_are_found_in_every_file() {
        for word in WORKPLACE {
            assert_eq!(lines("a.bin", &format!("a\nb {word}c\n")), [2]);
        }
        assert_eq!(lines("a.md", "work in progress\n"), [0; 0]);
    }

    #[test]
    fn white_space_counts_in_texts() {
        assert_eq!(lines("a.md", "a \nb\t\nc\n"), [1, 2]);
        assert_eq!(lines(".ci/run", "a \n"), [1]);
        assert_eq!(lines("a.md", "a"), [0]);
        assert_eq!(lines("fixtures/proc/mounts", "a \nb"), [0; 0]);
    }
}
