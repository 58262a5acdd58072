//! Licences and number of the crates that the product and its tests are built from.

use super::Problem;
use crate::workspace::{items, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Licences that a dependency may have (SPDX).
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The most packages that may go into the shipped binary.
const SHIPPED_MAX: usize = 130;
/// The most packages with those of tests and tools.
const ALL_MAX: usize = 170;
/// The shipped package.
const BINARY: &str = "fathom";

/// Checks what `cargo metadata` says about dependencies.
pub fn check(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let foreign: BTreeMap<&str, &Value> = items(&metadata["packages"])
        .filter(|package| !package["source"].is_null())
        .map(|package| (text(&package["id"]), package))
        .collect();
    for package in foreign.values() {
        let (name, licence) = (text(&package["name"]), text(&package["license"]));
        if !is_allowed(licence) {
            let text =
                format!("{name} has the licence '{licence}', which is not on the list of xtask");
            problems.push(Problem::of_file("Cargo.lock", text));
        }
    }
    let nodes: BTreeMap<&str, &Value> =
        items(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), node)).collect();
    let roots = |is_root: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let packages = items(&metadata["packages"]).filter(|package| package["source"].is_null());
        packages.filter(|p| is_root(text(&p["name"]))).map(|p| text(&p["id"])).collect()
    };
    let counts = [
        ("the shipped binary", reach(&nodes, roots(&|name| name == BINARY), false), SHIPPED_MAX),
        ("everything with tests", reach(&nodes, roots(&|_| true), true), ALL_MAX),
    ];
    for (what, reached, limit) in counts {
        let count = reached.iter().filter(|id| foreign.contains_key(*id)).count();
        if count > limit {
            let text = format!("{what} needs {count} packages; at most {limit}");
            problems.push(Problem::of_file("Cargo.lock", text));
        }
    }
    problems
}

/// The packages that can be reached over dependencies; those of tests only when asked.
fn reach<'a>(
    nodes: &BTreeMap<&'a str, &'a Value>,
    roots: Vec<&'a str>,
    with_tests: bool,
) -> BTreeSet<&'a str> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut pending = roots;
    while let Some(id) = pending.pop() {
        if !reached.insert(id) {
            continue;
        }
        let Some(node) = nodes.get(id) else { continue };
        let is_wanted = |dependency: &&Value| {
            with_tests || items(&dependency["dep_kinds"]).any(|kind| text(&kind["kind"]) != "dev")
        };
        pending.extend(items(&node["deps"]).filter(is_wanted).map(|d| text(&d["pkg"])));
    }
    reached
}

/// Whether an SPDX expression can be satisfied with allowed licences only. `/` is the old way to write OR.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let result = any_of(&mut words);
    result && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words) -> bool {
    let mut result = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        result |= all_of(words);
    }
    result
}

fn all_of(words: &mut Words) -> bool {
    let mut result = one(words);
    while words.next_if_eq(&"AND").is_some() {
        result &= one(words);
    }
    result
}

fn one(words: &mut Words) -> bool {
    match words.next() {
        Some("(") => {
            let result = any_of(words);
            words.next_if_eq(&")").is_some() && result
        }
        Some(licence) if words.next_if_eq(&"WITH").is_some() => {
            let exception = words.next().unwrap_or_default();
            ALLOWED.contains(&format!("{licence} WITH {exception}").as_str())
        }
        Some(licence) => ALLOWED.contains(&licence),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-2.0-only OR MIT",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-2.0-only",
            "MIT AND GPL-2.0-only",
            "(MIT OR ISC) AND MPL-2.0",
            "GPL-2.0-only WITH LLVM-exception",
            "(MIT",
            "MIT MIT",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    /// A workspace whose binary needs `shipped` packages and whose tests need `extra` more.
    fn metadata(shipped: usize, extra: usize, licence: &str) -> Value {
        let foreign = |i: usize| json!({"id": format!("p{i}"), "name": format!("p{i}"), "source": "registry", "license": licence});
        let mut packages = vec![json!({"id": "root", "name": "fathom", "source": null})];
        packages.extend((0..shipped + extra).map(foreign));
        let edge = |i: usize| {
            let kind = if i < shipped { Value::Null } else { json!("dev") };
            json!({"pkg": format!("p{i}"), "dep_kinds": [{"kind": kind}]})
        };
        let edges: Vec<Value> = (0..shipped + extra).map(edge).collect();
        json!({"packages": packages, "resolve": {"nodes": [{"id": "root", "deps": edges}]}})
    }

    #[test]
    fn counts_and_licences() {
        assert_eq!(check(&metadata(SHIPPED_MAX, ALL_MAX - SHIPPED_MAX, "MIT")), []);
        let problems = check(&metadata(SHIPPED_MAX + 1, 0, "MIT"));
        assert!(problems[0].text.contains("the shipped binary needs 131 packages"), "{problems:?}");
        let problems = check(&metadata(1, ALL_MAX, "MIT"));
        assert!(problems[0].text.contains("with tests needs 171 packages"), "{problems:?}");
        let problems = check(&metadata(1, 0, "GPL-3.0-only"));
        assert!(problems[0].text.contains("p0 has the licence 'GPL-3.0-only'"), "{problems:?}");
    }
}
