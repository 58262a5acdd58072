//! The test programs: built by cargo in one go, then found in what it says.

use super::tally::{Reader, Tally};
use super::{Tier, process};
use crate::workspace::{self, items, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

/// One built test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Which tier it belongs to.
    pub tier: Tier,
    /// Its crate.
    pub crate_name: String,
    /// Its target: `kernel`, or the crate's own name for unit tests.
    pub target: String,
    /// The executable.
    pub path: PathBuf,
    /// The crate's directory, in which it runs.
    pub directory: PathBuf,
}

impl Program {
    /// How people know it: `fathom-guard kernel`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} {}", self.crate_name, self.target)
    }

    /// The crate without the common prefix: `guard`.
    #[must_use]
    pub fn short_crate(&self) -> &str {
        self.crate_name.strip_prefix("fathom-").unwrap_or(&self.crate_name)
    }
}

/// All that was built.
#[derive(Debug, Default)]
pub struct Built {
    /// The test programs, in the order of crates.
    pub programs: Vec<Program>,
    /// The binary under test.
    pub fathom: Option<PathBuf>,
    /// The program that lists and removes what dead tests left behind.
    pub sweeper: Option<PathBuf>,
    /// The binary that people get, once it is built and where it is.
    pub shipped: OnceLock<PathBuf>,
}

/// Builds all tests and the binaries that they run; none when something does not compile.
///
/// # Errors
/// When cargo cannot be run.
pub fn build() -> Result<Option<Built>, String> {
    let mut built = Built::default();
    for what in [
        ["test", "--workspace", "--lib", "--bins", "--tests", "--no-run"].as_slice(),
        // With other features of what they use: half of the project once more.
        &["build", "--package=fathom", "--package=fathom-testkit", "--bins"],
    ] {
        if built.fathom.is_some() && built.sweeper.is_some() {
            break;
        }
        let mut command = workspace::cargo();
        command.args(what).arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
        let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
        if !output.status.success() {
            return Ok(None);
        }
        String::from_utf8_lossy(&output.stdout).lines().for_each(|line| built.note(line));
    }
    built.programs.sort_by(|a, b| (&a.crate_name, &a.target).cmp(&(&b.crate_name, &b.target)));
    Ok(Some(built))
}

impl Built {
    /// Takes one of cargo's messages.
    fn note(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        let executable = text(&message["executable"]);
        if executable.is_empty() {
            return;
        }
        let manifest = Path::new(text(&message["manifest_path"]));
        let directory = manifest.parent().unwrap_or(manifest).to_owned();
        let target = text(&message["target"]["name"]).to_owned();
        let path = PathBuf::from(executable);
        if message["profile"]["test"] == true {
            let is_test = items(&message["target"]["kind"]).any(|kind| kind == "test");
            let crate_name = directory.file_name().unwrap_or_default().to_string_lossy().into();
            let tier = if is_test { tier_of(&target) } else { Tier::Pure };
            self.programs.push(Program { tier, crate_name, target, path, directory });
        } else if target == "fathom" {
            self.fathom = Some(path);
        } else if target == "fathom-testkit-leftovers" {
            self.sweeper = Some(path);
        }
    }
}

fn tier_of(target: &str) -> Tier {
    match target {
        "kernel" => Tier::Kernel,
        "guest" => Tier::Guest,
        _ => Tier::Pure,
    }
}

/// Runs the doc tests of the crates that have some: cargo takes seconds per crate even when there are none.
///
/// # Errors
/// When the workspace cannot be read.
pub fn run_doc_tests(limit: Duration) -> Result<Tally, String> {
    let mut crates: Vec<String> = Vec::new();
    for path in workspace::files()? {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let [crates_dir, name, src, ..] = parts.as_slice() else { continue };
        let is_library = crates_dir == "crates" && src == "src" && name != "fathom";
        let source = fs::read_to_string(workspace::root().join(&path)).unwrap_or_default();
        if is_library && has_doc_test(&source) && !crates.contains(&name.to_string()) {
            crates.push(name.to_string());
        }
    }
    let mut tally = Tally::default();
    for name in crates {
        let label = format!("{name} doc tests");
        println!("\n== pure {label}");
        let mut command = workspace::cargo();
        command.args(["test", "--quiet", "--doc", "--package", &name]);
        let mut reader = Reader::new(name.strip_prefix("fathom-").unwrap_or(&name));
        let finished = process::stream(&mut command, limit, |line| reader.line(line))?;
        tally.add(reader.finish(&label, &finished, false));
    }
    Ok(tally)
}

/// True when a doc comment opens a code block that is run: without a tag, or tagged as Rust.
fn has_doc_test(source: &str) -> bool {
    let mut is_open = false;
    for line in source.lines().map(str::trim_start) {
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(tag) = doc.and_then(|doc| doc.trim().strip_prefix("```")) else { continue };
        if !is_open && (tag.is_empty() || tag.starts_with("rust") || tag.starts_with("no_run")) {
            return true;
        }
        is_open = !is_open;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(kind: &str, target: &str, is_test: bool) -> String {
        json!({
            "reason": "compiler-artifact",
            "manifest_path": "/x/crates/fathom-guard/Cargo.toml",
            "target": {"kind": [kind], "name": target},
            "profile": {"test": is_test},
            "executable": format!("/x/target/{target}"),
        })
        .to_string()
    }

    #[test]
    fn cargo_messages_become_programs() {
        let mut built = Built::default();
        built.note(&message("lib", "fathom_guard", true));
        built.note(&message("test", "kernel", true));
        built.note(&message("test", "guest", true));
        built.note(&message("bin", "kernel", true));
        built.note(&message("bin", "fathom", false));
        built.note(r#"{"reason":"build-finished","success":true}"#);
        let tiers: Vec<Tier> = built.programs.iter().map(|program| program.tier).collect();
        assert_eq!(tiers, [Tier::Pure, Tier::Kernel, Tier::Guest, Tier::Pure]);
        assert_eq!(built.programs[1].label(), "fathom-guard kernel");
        assert_eq!(built.programs[1].short_crate(), "guard");
        assert_eq!(built.programs[1].directory, Path::new("/x/crates/fathom-guard"));
        assert_eq!(built.fathom, Some("/x/target/fathom".into()));
    }

    #[test]
    fn doc_tests_are_found() {
        assert!(has_doc_test("/// ```\n/// f();\n/// ```\n"));
        assert!(has_doc_test("//! ```no_run\n"));
        assert!(!has_doc_test("/// ```text\n/// a\n/// ```\n"));
        assert!(!has_doc_test("let a = \"```\";\n"));
    }
}
