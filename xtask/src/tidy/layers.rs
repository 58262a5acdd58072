//! Which crate may import which: the table of ARCHITECTURE.md, as data.

use super::Problem;
use crate::workspace::{items, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What each crate may import, without the prefix `fathom-`. ARCHITECTURE.md must show the same table.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("stats", &["base"]),
    ("model", &["base", "stats"]),
    ("sys", &["base"]),
    ("check", &["base", "model"]),
    ("guard", &["base", "model", "sys", "inspect"]),
    ("knobs", &["base", "model", "sys", "inspect", "guard"]),
    ("setup", &["base", "model", "sys", "inspect", "check", "guard"]),
    ("plan", &["base", "stats", "model"]),
    ("load", &["base", "stats", "model", "sys", "guard"]),
    ("tree", &["base", "stats", "model", "sys", "guard"]),
    ("inspect", &["base", "stats", "model", "sys", "check"]),
    ("observe", &["base", "stats", "model", "sys", "inspect", "guard"]),
    ("study", &["base", "stats", "model", "check"]),
    (
        "lab",
        &[
            "base", "stats", "model", "sys", "guard", "load", "inspect", "study", "check", "knobs",
            "setup", "plan", "tree",
        ],
    ),
    ("store", &["base", "stats", "model"]),
    ("export", &["base", "stats", "model"]),
    ("report", &["base", "stats", "model", "study", "check", "plan"]),
    ("html", &["base", "stats", "model", "study", "check", "plan", "report"]),
    ("tui", &["base", "stats", "model"]),
    (
        "fathom",
        &[
            "base", "stats", "model", "sys", "guard", "load", "inspect", "study", "lab", "store",
            "report", "check", "knobs", "setup", "observe", "plan", "tree", "html", "export",
            "tui",
        ],
    ),
    ("testkit", &["base", "model", "sys"]),
];

/// Tests of every crate may use it.
const TEST_KIT: &str = "testkit";
/// The binary, which alone has no prefix and may import everything.
const BINARY: &str = "fathom";
/// The one crate that repeats the workspace's lints, less the ban of `unsafe`.
const UNSAFE_CRATE: &str = "crates/fathom-sys/Cargo.toml";

/// A crate of the workspace and what it imports of the others, names without the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crate {
    /// Package name.
    pub name: String,
    /// Its manifest, relative to the root.
    pub manifest: PathBuf,
    /// Imports of the product and its build.
    pub imports: BTreeSet<String>,
    /// Imports of its tests only.
    pub test_imports: BTreeSet<String>,
}

/// The crates of the workspace, from `cargo metadata`.
pub fn crates_of(metadata: &Value, root: &Path) -> Vec<Crate> {
    let is_ours = |package: &&Value| package["source"].is_null();
    let packages: Vec<&Value> = items(&metadata["packages"]).filter(is_ours).collect();
    let names: BTreeSet<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    let describe = |package: &&Value| {
        let manifest = Path::new(text(&package["manifest_path"]));
        let imports = |is_wanted: fn(&str) -> bool| {
            items(&package["dependencies"])
                .filter(|dependency| is_wanted(text(&dependency["kind"])))
                .map(|dependency| text(&dependency["name"]))
                .filter(|name| names.contains(name))
                .map(|name| short(name).to_owned())
                .collect()
        };
        Crate {
            name: text(&package["name"]).to_owned(),
            manifest: manifest.strip_prefix(root).unwrap_or(manifest).to_owned(),
            imports: imports(|kind| kind != "dev"),
            test_imports: imports(|kind| kind == "dev"),
        }
    };
    packages.iter().map(describe).collect()
}

fn short(name: &str) -> &str {
    name.strip_prefix("fathom-").unwrap_or(name)
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    MAY_IMPORT.iter().find(|(known, _)| *known == name).map(|(_, imports)| *imports)
}

/// Checks names, places and imports of all crates.
pub fn check_imports(crates: &[Crate]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut wrong = |of: &Crate, text: String| problems.push(Problem::of_file(&of.manifest, text));
    for of in crates {
        let directory = of.manifest.parent().and_then(Path::file_name).unwrap_or_default();
        if directory != of.name.as_str() {
            wrong(of, format!("package {} lives in {}", of.name, directory.display()));
        }
        let name = short(&of.name);
        let may = if of.name == "xtask" { Some([].as_slice()) } else { allowed(name) };
        let Some(may) = may else {
            wrong(
                of,
                format!(
                    "{} is not in the table of imports (xtask layers.rs, ARCHITECTURE.md)",
                    of.name
                ),
            );
            continue;
        };
        for import in of.imports.iter().filter(|import| !may.contains(&import.as_str())) {
            wrong(of, format!("{name} must not import {import}; it may import: {}", list(may)));
        }
        let is_free = |import: &&String| may.contains(&import.as_str()) || *import == TEST_KIT;
        for import in of.test_imports.iter().filter(|import| !is_free(import)) {
            wrong(
                of,
                format!(
                    "tests of {name} must not import {import}; they may: {}, {TEST_KIT}",
                    list(may)
                ),
            );
        }
    }
    let names: BTreeSet<&str> = crates.iter().map(|of| short(&of.name)).collect();
    let missing = MAY_IMPORT.iter().filter(|(name, _)| !names.contains(name));
    problems.extend(missing.map(|(name, _)| {
        Problem::of_file("xtask/src/tidy/layers.rs", format!("no crate {name} in the workspace"))
    }));
    problems
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Checks that a crate takes the workspace's lints.
pub fn check_manifest(path: &Path, content: &str) -> Option<Problem> {
    let inherits = content.contains("[lints]\nworkspace = true\n");
    let problem = Problem::of_file(path, "does not take the lints: [lints] workspace = true");
    (!inherits && path != Path::new(UNSAFE_CRATE)).then_some(problem)
}

/// Checks that ARCHITECTURE.md shows the same table: `| crate | holds | may import |`, in which `-` is nothing, `all`
/// everything but the test kit, and `the above` every crate of the rows above.
pub fn check_document(document: &str) -> Vec<Problem> {
    let path = "ARCHITECTURE.md";
    let rows = table_rows(document);
    if rows.is_empty() {
        let text = "has no table '| crate | holds | may import |'";
        return vec![Problem::of_file(path, text)];
    }
    let mut problems = Vec::new();
    let mut shown: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (index, [name, cell]) in rows {
        let name = short(name);
        let above: BTreeSet<&str> = shown.keys().copied().collect();
        let everything = || MAY_IMPORT.iter().map(|(name, _)| *name);
        let imports = match cell {
            "-" => BTreeSet::new(),
            "all" => everything().filter(|n| *n != TEST_KIT && *n != BINARY).collect(),
            "the above" => above,
            names => names.split(',').map(|name| short(name.trim())).collect(),
        };
        match allowed(name) {
            None => problems.push(Problem::at(path, index, format!("{name}: no such crate"))),
            Some(may) if may.iter().copied().collect::<BTreeSet<_>>() != imports => {
                let text = format!("{name} may import {cell}, but tidy enforces: {}", list(may));
                problems.push(Problem::at(path, index, text));
            }
            Some(_) => {}
        }
        shown.insert(name, imports);
    }
    let missing = MAY_IMPORT.iter().filter(|(name, _)| !shown.contains_key(name));
    problems.extend(missing.map(|(name, _)| {
        Problem::of_file(path, format!("the table of imports has no row for {name}"))
    }));
    problems
}

/// The rows of the table: line index, first and third cell.
fn table_rows(document: &str) -> Vec<(usize, [&str; 2])> {
    let is_header = |line: &str| {
        let cells = row_cells(line).map(|cells| cells.map(str::to_lowercase));
        cells.is_some_and(|cells| cells == ["crate", "holds", "may import"])
    };
    let lines = document.lines().enumerate().skip_while(|(_, line)| !is_header(line)).skip(2);
    let rows = lines.map_while(|(index, line)| Some((index, row_cells(line)?)));
    rows.map(|(index, [name, _, imports])| (index, [name, imports])).collect()
}

/// The cells of a row of three, without white space and back-ticks around them.
fn row_cells(line: &str) -> Option<[&str; 3]> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells = inner.split('|').map(|cell| cell.trim().trim_matches('`'));
    cells.collect::<Vec<_>>().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// A workspace as the table wants it, each crate importing all it may.
    fn good() -> Vec<Crate> {
        let one = |(name, imports): &(&str, &[&str])| {
            let package =
                if *name == BINARY { BINARY.to_owned() } else { format!("fathom-{name}") };
            Crate {
                manifest: Path::new("crates").join(&package).join("Cargo.toml"),
                name: package,
                imports: set(imports),
                test_imports: set(&[TEST_KIT]),
            }
        };
        MAY_IMPORT.iter().map(one).collect()
    }

    fn texts(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.text.as_str()).collect()
    }

    #[track_caller]
    fn expect_one(change: impl Fn(&mut Vec<Crate>), part: &str) {
        let mut crates = good();
        change(&mut crates);
        let problems = check_imports(&crates);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].text.contains(part), "{problems:?}");
    }

    #[test]
    fn imports_follow_the_table() {
        assert_eq!(texts(&check_imports(&good())), [""; 0]);
        expect_one(|c| c[0].imports = set(&["sys"]), "base must not import sys");
        expect_one(|c| c[1].imports = set(&[TEST_KIT]), "stats must not import testkit");
        expect_one(|c| c[1].test_imports = set(&["load"]), "tests of stats must not import load");
        expect_one(
            |c| c[2].manifest = "crates/model/Cargo.toml".into(),
            "fathom-model lives in model",
        );
        expect_one(|c| drop(c.pop()), "no crate testkit");
        let xtask = Crate {
            name: "xtask".to_owned(),
            manifest: "xtask/Cargo.toml".into(),
            imports: set(&["base"]),
            test_imports: set(&[]),
        };
        expect_one(|c| c.push(xtask.clone()), "xtask must not import base");
        let new = Crate {
            name: "fathom-x".into(),
            manifest: "crates/fathom-x/Cargo.toml".into(),
            ..xtask
        };
        expect_one(|c| c.push(new.clone()), "fathom-x is not in the table");
    }

    #[test]
    fn the_table_has_no_cycle() {
        // Every crate can be placed after all that it imports.
        let mut placed: BTreeSet<&str> = BTreeSet::new();
        for _ in MAY_IMPORT {
            let ready = |imports: &[&str]| imports.iter().all(|import| placed.contains(import));
            let next: Vec<&str> = MAY_IMPORT
                .iter()
                .filter(|(_, imports)| ready(imports))
                .map(|(name, _)| *name)
                .collect();
            placed.extend(next);
        }
        assert_eq!(placed.len(), MAY_IMPORT.len());
    }

    fn document() -> String {
        let mut text = "# A\n\n| crate | holds | may import |\n|---|---|---|\n".to_owned();
        for (name, imports) in MAY_IMPORT {
            let cell = match *name {
                "base" => "-".to_owned(),
                "fathom" => "all".to_owned(),
                _ => imports.join(", "),
            };
            text.push_str(&format!("| `fathom-{name}` | things | {cell} |\n"));
        }
        text.replace("`fathom-fathom`", "`fathom`") + "\nMore.\n"
    }

    #[test]
    fn the_document_shows_the_same_table() {
        assert_eq!(texts(&check_document(&document())), [""; 0]);
        for (from, to, part) in [
            ("| things | base |", "| things | - |", "stats may import -, but tidy enforces: base"),
            ("| `fathom-sys` | things | base |\n", "", "no row for sys"),
            ("`fathom-study`", "`fathom-stud`", "stud: no such crate"),
            ("| crate |", "| crates |", "has no table"),
        ] {
            let problems = check_document(&document().replacen(from, to, 1));
            assert!(problems.iter().any(|p| p.text.contains(part)), "{part}: {problems:?}");
        }
    }

    #[test]
    fn lints_are_inherited() {
        let path = Path::new("crates/fathom-base/Cargo.toml");
        assert!(check_manifest(path, "[package]\n").is_some());
        assert!(check_manifest(path, "[lints]\nworkspace = true\n").is_none());
        assert!(check_manifest(Path::new(UNSAFE_CRATE), "").is_none());
    }
}
