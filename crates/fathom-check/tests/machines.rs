//! Whole machines: snapshots that real kernels gave (guests of the test kit; see `crates/fathom/tests/guest/check.rs`), with the
//! tree and the findings that are expected of each. `UPDATE_EXPECT=1` writes what comes now, for a person to read.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

use expect_test::expect_file;
use fathom_model::snapshot::Snapshot;
use fathom_model::stack::Stack;
use flate2::read::GzDecoder;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The least number of machines.
const MACHINES: usize = 25;

fn machines() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let entries = std::fs::read_dir(directory).expect("the machines");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".json.gz"));
    paths.sort();
    paths
}

fn read(path: &Path) -> Snapshot {
    let file = GzDecoder::new(File::open(path).expect("a machine"));
    serde_json::from_reader(file).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tree, and a line for each defect with what people see of it first.
fn judged(snapshot: &Snapshot) -> String {
    let stack = Stack {
        path: String::new(),
        resolved_path: String::new(),
        nodes: snapshot.machine.nodes.clone(),
        top: 0,
    };
    let mut text = String::new();
    for line in fathom_check::forest(&stack, &fathom_check::ordered_tops(snapshot), true) {
        let _ = writeln!(text, "{}", line.text);
    }
    text.push('\n');
    for defect in fathom_check::check(snapshot) {
        let node = defect.node.as_deref().unwrap_or("the machine");
        let (gravity, certainty) = (defect.gravity.word(), defect.certainty.word());
        let _ = writeln!(text, "{gravity} {certainty} {} {node}", defect.rule);
        let _ = writeln!(text, "  {}", defect.summary);
        for other in &defect.also {
            let _ = writeln!(text, "  also {other}");
        }
        for other in &defect.concerns {
            let _ = writeln!(text, "  concerns {other}");
        }
    }
    text
}

#[test]
fn machines_look_and_are_judged_as_expected() {
    let machines = machines();
    assert!(machines.len() >= MACHINES, "{} machines", machines.len());
    for path in machines {
        let expected = PathBuf::from(path.to_string_lossy().replace(".json.gz", ".txt"));
        expect_file![expected].assert_eq(&judged(&read(&path)));
    }
}

/// What is found says everything that a person needs: evidence, reason, what to do, what it risks, how to see the effect.
#[test]
fn findings_on_machines_are_complete() {
    for path in machines() {
        for defect in fathom_check::check(&read(&path)) {
            let name = format!("{}: {}", path.display(), defect.rule);
            assert!(!defect.evidence.is_empty() && !defect.fix.is_empty(), "{name}");
            for text in [&defect.summary, &defect.why, &defect.risk, &defect.verify] {
                assert!(!text.is_empty(), "{name}: {defect:#?}");
            }
        }
    }
}

/// The kernel's log names SCSI disks by their addresses: machines whose disks had none would not show whether one cause is told once.
#[test]
fn disks_have_their_addresses() {
    let mut disks = 0;
    for path in machines() {
        let snapshot = read(&path);
        let is_played = |host: &str| {
            let mut hosts = snapshot.system.hosts.iter();
            hosts.any(|one| one.name == host && one.driver.as_deref() == Some("scsi_debug"))
        };
        for node in &snapshot.machine.nodes {
            let details = node.details();
            let Some(host) = details.host.as_deref().filter(|host| is_played(host)) else {
                continue;
            };
            let number = host.trim_start_matches("host");
            let address = details.address.as_deref().unwrap_or_default();
            assert!(
                address.starts_with(&format!("{number}:")),
                "{}: {}",
                path.display(),
                node.name
            );
            disks += 1;
        }
    }
    assert!(disks > 100, "{disks}");
}
