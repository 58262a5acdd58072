//! Rules for Rust sources: module docs, length, characters, banned constructs, `unsafe`.

use super::Problem;
use super::lexer::{self, Line, is_word};
use std::path::Path;

/// The most lines a source file may have, tests included. Aim for half of it.
const LINES_MAX: usize = 800;

/// Characters beyond ASCII that sources may hold: the micro sign is what people type for microseconds.
const OTHER_CHARACTERS: &[char] = &['\u{b5}'];

/// What must not be in code, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("dbg!(", "remove it, or report through an event"),
    ("todo!(", "write it, or leave the item out"),
    ("unimplemented!(", "write it, or leave the item out"),
    ("#[allow(", "#[expect(lint, reason = \"...\")], which ends with its cause"),
    ("#![allow(", "#![expect(lint, reason = \"...\")], which ends with its cause"),
    ("#[ignore", "a kernel test with the capability that it needs, so that the skip is counted"),
    ("#[should_panic", "a Result, or catch_unwind and a look at the message"),
    ("static mut ", "a value that is passed"),
    ("lazy_static!", "a value that is passed"),
    ("use super::super::", "use crate::..."),
];

/// Where `unsafe` may be: the system's edge, and the counting allocators of tests.
fn may_be_unsafe(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.starts_with("crates/fathom-sys/src/")
        || path.starts_with("crates/fathom-load/tests/alloc")
        || path == "crates/fathom-tree/tests/alloc.rs"
        || path == "crates/fathom-html/tests/scale.rs"
        || path == "crates/fathom/tests/large.rs"
}

/// Checks one source file.
pub fn check(path: &Path, source: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let count = source.lines().count();
    if count > LINES_MAX {
        let text = format!("{count} lines; split it by subject (at most {LINES_MAX}, aim for 400)");
        problems.push(Problem::of_file(path, text));
    }
    if !source.starts_with("//!") {
        let text = "begins without '//!': say first what the module is for";
        problems.push(Problem::at(path, 0, text));
    }
    for (i, text) in source.lines().enumerate() {
        let is_allowed = |c: &char| c.is_ascii() || OTHER_CHARACTERS.contains(c);
        if let Some(c) = text.chars().find(|c| !is_allowed(c)) {
            problems.push(Problem::at(
                path,
                i,
                format!("'{c}' is not ASCII; write \\u{{{:x}}}", c as u32),
            ));
        }
        if text.contains('\t') {
            problems.push(Problem::at(path, i, "tab; indent with spaces, write \\t in strings"));
        }
    }
    let lines = lexer::split(source);
    for (i, (line, text)) in lines.iter().zip(source.lines()).enumerate() {
        // In a string it may be what a kernel file really looks like.
        if text.ends_with(' ') && !line.is_in_string {
            problems.push(Problem::at(path, i, "white space at the end of the line"));
        }
        let found = BANNED.iter().filter(|(banned, _)| begins_in(&line.code, banned));
        problems.extend(found.map(|(banned, instead)| {
            Problem::at(path, i, format!("'{}' is banned; instead: {instead}", banned.trim()))
        }));
    }
    problems.extend(check_unsafe(path, &lines));
    problems
}

/// True when `code` holds the construct, not as the end of a longer word.
fn begins_in(code: &str, construct: &str) -> bool {
    let before = |at: usize| code[..at].chars().next_back();
    code.match_indices(construct).any(|(at, _)| !before(at).is_some_and(is_word))
}

fn check_unsafe(path: &Path, lines: &[Line]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.code.split(|c| !is_word(c)).collect();
        if !words.contains(&"unsafe") {
            continue;
        }
        if !may_be_unsafe(path) {
            let text = "unsafe outside fathom-sys; give fathom-sys a safe function for it";
            problems.push(Problem::at(path, i, text));
        } else if needs_safety(&line.code) && !has_safety(lines, i) {
            let text = "unsafe without '// SAFETY:' just above: say why it is sound";
            problems.push(Problem::at(path, i, text));
        }
    }
    problems
}

/// True for blocks and implementations; functions state their contract under `# Safety`.
fn needs_safety(code: &str) -> bool {
    let after = code.split("unsafe").nth(1).unwrap_or_default().trim_start();
    after.is_empty() || after.starts_with('{') || after.starts_with("impl")
}

/// Looks on the line, in the lines of its statement, and in the comment above that.
fn has_safety(lines: &[Line], index: usize) -> bool {
    let is_safety = |line: &Line| line.comment.contains("SAFETY:");
    let ends_other = |line: &Line| {
        let code = line.code.trim_end();
        code.ends_with(';') || code.ends_with('}') || (code.is_empty() && line.comment.is_empty())
    };
    let above = lines[..index].iter().rev().take_while(|line| !ends_other(line));
    is_safety(&lines[index]) || above.take(16).any(is_safety)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of a file, as `line: first words`.
    #[track_caller]
    fn found(path: &str, body: &str) -> Vec<String> {
        let problems = check(Path::new(path), body);
        problems.iter().map(|p| format!("{}: {}", p.line, p.text)).collect()
    }

    #[track_caller]
    fn expect_one(path: &str, body: &str, start: &str) {
        let found = found(path, body);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(start), "{found:?}");
    }

    const PLAIN: &str = "crates/fathom-base/src/a.rs";
    const SYS: &str = "crates/fathom-sys/src/a.rs";

    #[test]
    fn a_good_file_passes() {
        let body = "//! A module.\nfn f() -> &'static str {\n    \"dbg!( unsafe\" // todo!(\n}\n";
        assert_eq!(found(PLAIN, body), [""; 0]);
        assert_eq!(found(PLAIN, "//! 5 \u{b5}s.\nmy_dbg!(x);\n"), [""; 0]);
    }

    #[test]
    fn shape_of_a_file() {
        expect_one(PLAIN, "fn f() {}\n", "1: begins without '//!'");
        expect_one(PLAIN, &format!("//! A.\n{}", "a();\n".repeat(800)), "0: 801 lines");
        assert_eq!(found(PLAIN, &format!("//! A.\n{}", "a();\n".repeat(799))), [""; 0]);
        expect_one(PLAIN, "//! A.\n\tf();\n", "2: tab");
        expect_one(PLAIN, "//! A.\nf(); \n", "2: white space");
        assert_eq!(found(PLAIN, "//! A.\nf(\"a \nb\");\n"), [""; 0]);
        expect_one(PLAIN, "//! A.\n// \u{2192} b\n", "2: '\u{2192}' is not ASCII; write \\u{2192}");
    }

    #[test]
    fn banned_constructs() {
        for (banned, instead) in BANNED {
            let body = format!("//! A.\n{banned}x\n");
            expect_one(
                PLAIN,
                &body,
                &format!("2: '{}' is banned; instead: {instead}", banned.trim()),
            );
        }
    }

    #[test]
    fn unsafe_belongs_to_the_edge() {
        let body = "//! A.\n// SAFETY: sure.\nlet x = unsafe { f() };\n";
        expect_one(PLAIN, body, "3: unsafe outside fathom-sys");
        expect_one("crates/fathom-sys/tests/a.rs", body, "3: unsafe outside");
        expect_one("crates/fathom-load/src/alloc.rs", body, "3: unsafe outside");
        assert_eq!(found(SYS, body), [""; 0]);
        assert_eq!(found("crates/fathom-load/tests/alloc_free.rs", body), [""; 0]);
        assert_eq!(found(PLAIN, "//! A.\n#![deny(unsafe_code)]\n"), [""; 0]);
    }

    #[test]
    fn unsafe_says_why() {
        for block in ["unsafe { f() };", "unsafe impl Send for X {}", "let x = unsafe\n{ f() };"] {
            expect_one(SYS, &format!("//! A.\n{block}\n"), "2: unsafe without");
            assert_eq!(found(SYS, &format!("//! A.\n// SAFETY: so.\n{block}\n")), [""; 0]);
            // A comment of another statement does not count.
            expect_one(
                SYS,
                &format!("//! A.\n// SAFETY: so.\nf();\n{block}\n"),
                "4: unsafe without",
            );
        }
        let chain = "//! A.\n// SAFETY: so.\nlet x =\n    g(unsafe { f() });\n";
        assert_eq!(found(SYS, chain), [""; 0]);
        assert_eq!(found(SYS, "//! A.\npub unsafe fn f() {}\n"), [""; 0]);
    }
}
