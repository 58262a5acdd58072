//! Every rule has its page, every page its rule, and each says all that it must.

use fathom_check::{Proof, rules};
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_page_says_what_it_must() {
    let sections = [
        "## What it is",
        "## Why it matters",
        "## How it is recognised",
        "## What to do",
        "## How to verify",
        "## Source",
        "## Tested",
    ];
    for rule in rules::all() {
        let (id, page) = (rule.id, rule.page());
        assert!(page.starts_with("# "), "{id}: begins with a title");
        let places: Vec<_> =
            sections.iter().map(|section| page.find(&format!("{section}\n"))).collect();
        assert!(places.iter().all(Option::is_some), "{id}: {places:?}");
        assert!(places.is_sorted(), "{id}: in this order");
        let tested = page.split("## Tested\n").nth(1).unwrap();
        let words = rule.proof.words().split(':').next().unwrap();
        assert!(tested.to_lowercase().contains(words), "{id}: '{words}' in: {tested}");
        let to_do = page.split("## What to do\n").nth(1).unwrap_or_default();
        let to_do = to_do.split("## How to verify\n").next().unwrap_or_default();
        assert!(to_do.to_lowercase().contains("risk"), "{id}: what that risks");
        assert!(page.lines().count() <= 60, "{id}: a page is read in a minute");
        assert!(!rule.title.ends_with('.') && rule.title.len() <= 70, "{id}: {}", rule.title);
    }
}

#[test]
fn names_are_single_and_pages_have_rules() {
    let ids: Vec<&str> = rules::all().map(|rule| rule.id).collect();
    let set: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(set.len(), ids.len(), "a name stands for one rule");
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages");
    for entry in pages.read_dir().unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let id = name.strip_suffix(".md").unwrap_or(&name);
        assert!(set.contains(id), "{name} has no rule");
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert_eq!(rules::by_id(id).unwrap().page(), text, "packed and unpacked");
    }
    for id in ids {
        assert!(
            id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "{id}"
        );
        assert_eq!(rules::by_id(id).unwrap().id, id);
    }
}

/// What is said to be provoked is named by a test that runs on the host or in a guest.
#[test]
fn what_is_said_to_be_provoked_is_named_by_a_test() {
    let texts = |directory: &str| -> String {
        let mut pending = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory)];
        let mut all = String::new();
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                pending.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            } else {
                all += &std::fs::read_to_string(path).unwrap();
            }
        }
        all
    };
    let (host, guest) = (texts("fathom/tests/kernel"), texts("fathom/tests/guest"));
    let lost: Vec<&str> = rules::all()
        .filter(|rule| match rule.proof {
            Proof::Host => !host.contains(rule.id),
            Proof::Guest => !guest.contains(rule.id),
            Proof::Simulated => false,
        })
        .map(|rule| rule.id)
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// A machine without anything, and facts of which nothing is known, are no reason to say anything.
#[test]
fn nothing_is_said_of_nothing() {
    let snapshot = fathom_model::snapshot::Snapshot::default();
    assert_eq!(fathom_check::check(&snapshot), []);
}
