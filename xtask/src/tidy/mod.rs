//! Rules of the project that neither rustc nor clippy checks. One rule per module, each a function from data to
//! problems, so that its tests provoke it with a small wrong input.

mod code;
mod findings;
mod layers;
mod lexer;
mod licences;
mod text;

use crate::workspace;
use crate::{Outcome, flags::Flags};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub const HELP: &str = "\
cargo xtask tidy

checks the rules of the project that compilers do not know

  imports      crates import only what ARCHITECTURE.md's table allows; directory = package name
  unsafe       only in fathom-sys, each block under a SAFETY comment
  licences     every dependency's is on the list; the number of dependencies is bounded
  sources      module docs, file length, ASCII, white space, banned constructs with what to write instead
  findings     each is explained in a page of docs/
  workplace    no path of a private workplace in any file
";

/// Something that is not as the rules want it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the root.
    pub path: PathBuf,
    /// The line, counted from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong and what to do.
    pub text: String,
}

impl Problem {
    /// A problem of a file as a whole.
    pub fn of_file(path: impl AsRef<Path>, text: impl Into<String>) -> Self {
        Self { path: path.as_ref().to_owned(), line: 0, text: text.into() }
    }

    /// A problem at a line, counted from 0.
    pub fn at(path: impl AsRef<Path>, index: usize, text: impl Into<String>) -> Self {
        Self { path: path.as_ref().to_owned(), line: index + 1, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.text),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.text),
        }
    }
}

/// Checks everything and prints what is wrong.
///
/// # Errors
/// When something could not be looked at.
pub fn run(args: &[String]) -> Outcome {
    Flags::parse(args, &[], &[])?;
    let start = Instant::now();
    let problems = check()?;
    for problem in &problems {
        println!("{problem}");
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("tidy: {} problems ({seconds:.1} s)", problems.len());
    Ok(problems.is_empty())
}

fn check() -> Result<Vec<Problem>, String> {
    let metadata = workspace::metadata()?;
    let root = workspace::root();
    let mut problems = Vec::new();

    let crates = layers::crates_of(&metadata, &root);
    problems.extend(layers::check_imports(&crates));
    match fs::read_to_string(root.join("ARCHITECTURE.md")) {
        Ok(text) => problems.extend(layers::check_document(&text)),
        Err(error) => problems.push(Problem::of_file("ARCHITECTURE.md", error.to_string())),
    }
    for name in &crates {
        let manifest = name.manifest.clone();
        let text = fs::read_to_string(root.join(&manifest)).map_err(|e| e.to_string())?;
        problems.extend(layers::check_manifest(&manifest, &text));
    }
    problems.extend(licences::check(&metadata));

    let mut findings = findings::Seen::default();
    for path in workspace::files()? {
        let bytes = fs::read(root.join(&path)).map_err(|e| format!("{}: {e}", path.display()))?;
        let content = String::from_utf8_lossy(&bytes);
        problems.extend(text::check(&path, &content));
        findings.look(&path, &content);
        if path.extension().is_some_and(|extension| extension == "rs") {
            problems.extend(code::check(&path, &content));
        }
    }
    problems.extend(findings.problems());
    problems.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(problems)
}
