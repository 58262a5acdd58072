//! The examples of `docs/sql.md`, asked with the program `sqlite3`.

use crate::common::{START_NS, head, record, writer};
use crate::experiments::experiment;
use crate::observed;
use fathom_model::finding::Verdict;
use fathom_model::record::Ending;
use fathom_store::Store;
use fathom_testkit::Scratch;
use fathom_testkit::command::tool;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/sql.md");

/// Two runs of a row, an experiment, a watch, a capture and a file server, as the page speaks of them.
fn make(path: &Path) {
    let mut store = Store::open(path, START_NS).expect("opens");
    for (id, label) in [("7f3k00000000", "before"), ("9x0c00000000", "after")] {
        let mut head = head(id, START_NS);
        head.label = Some(label.into());
        store.begin_run(&head, &writer()).expect("begins");
        store.add_trial(id, &record("random read, 1 in flight", 1)).expect("adds");
        let findings = record("x", 1).findings;
        store
            .finish_run(id, Ending::Complete, Verdict::Trusted, &findings, START_NS + 5)
            .expect("ends");
    }
    experiment(&mut store, "c41b00000000");
    observed::add(&mut store);
}

/// Each example answers with at least one row, and changes nothing.
pub fn examples() {
    let scratch = Scratch::new().expect("scratch");
    let path = scratch.join("fathom.db");
    make(&path);
    let before = std::fs::read(&path).expect("reads");
    let blocks: Vec<&str> =
        PAGE.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    // Each view that the store has is in the table of the page, and no other.
    let named =
        |line: &'static str| line.strip_prefix("| `v_").and_then(|rest| rest.split('`').next());
    let mut in_table: Vec<&str> = PAGE.lines().filter_map(named).collect();
    in_table.sort_unstable();
    let store = rusqlite::Connection::open(&path).expect("opens");
    let mut all = store
        .prepare("SELECT substr(name, 3) FROM sqlite_schema WHERE type = 'view' ORDER BY name")
        .expect("a question");
    let all: Vec<String> = all
        .query_map((), |row| row.get(0))
        .expect("views")
        .map(|name| name.expect("a name"))
        .collect();
    assert_eq!(in_table, all);
    assert!(blocks.len() >= 18, "the page has {} examples", blocks.len());
    for block in blocks {
        let output = tool("sqlite3")
            .args(["-readonly", "-bail", "-header"])
            .args([path.as_os_str(), block.as_ref()])
            .output()
            .expect("starts");
        let (text, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.is_empty(), "{block}\n{said}");
        assert!(text.lines().count() >= 2, "{block}\nanswers nothing: {text}");
    }
    assert_eq!(std::fs::read(&path).expect("reads"), before, "a question changed the store");
}
