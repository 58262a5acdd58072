//! A matrix as it is read, written out as Markdown.

use super::sample::{head, markdown, page, record, set_cell};
use expect_test::expect_file;
use fathom_html::page::{Block, Page};
use fathom_model::record::{DeviceDelta, Record, RunKind};
use fathom_model::stack::{MdFacts, MdMember, Node, NodeKind};
use fathom_study::raid::{Pattern, State};
use serde_json::json;

/// So many MiB a minute in 4 KiB at random, or in 1 MiB in order.
fn trial(levels: &[(&str, &str)], pattern: Pattern, mib: u64, block: u32) -> Record {
    let size = match pattern {
        Pattern::RandomRead | Pattern::RandomMix => 4096,
        _ => 1 << 20,
    };
    let mut record = record(pattern.label(), (mib << 20) / size, size);
    set_cell(&mut record, json!(levels), pattern.label(), [block, 0, 0], json!([]));
    record
}

/// A raid1 of two members of a GiB each, whose second one was written so much.
fn mirror(state: State, mib: u64, written_bytes: u64, block: u32) -> Record {
    let levels = [("level", "raid1"), ("state", state.word())];
    let mut record = trial(&levels, Pattern::RandomRead, mib, block);
    let mut node = Node::new(NodeKind::Md, "md9");
    node.size_bytes = Some(1 << 30);
    let member = |name: &str| MdMember { name: name.into(), ..MdMember::default() };
    node.md = Some(MdFacts {
        level: Some("raid1".into()),
        raid_disks: Some(2),
        members: ["sda", "sdb"].map(member).into(),
        ..MdFacts::default()
    });
    record.targets[0].stack.nodes = vec![node];
    let reads = (mib << 20) / 4096 / 2;
    let delta = |name: &str, written_bytes: u64| DeviceDelta {
        name: name.into(),
        reads,
        read_bytes: reads * 4096,
        writes: written_bytes / 4096,
        written_bytes,
        flushes: None,
        busy_ns: 0,
        in_flight_ns: None,
        kernel_thread_cpu_ns: None,
    };
    record.devices = vec![delta("sda", 0), delta("sdb", written_bytes)];
    record
}

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    let mut records = Vec::new();
    for block in 0..6 {
        let more = u64::from(block % 3);
        for (name, mib) in [("sda", 117), ("sdb", 121)] {
            let member = [("member", name)];
            records.push(trial(&member, Pattern::RandomRead, mib + more, block));
            records.push(trial(&member, Pattern::SequentialRead, 6000 + 10 * more, block));
        }
        let raid0 = [("level", "raid0"), ("chunk", "64k"), ("state", "normal")];
        records.push(trial(&raid0, Pattern::RandomRead, 226 + more, block));
        records.push(trial(&raid0, Pattern::SequentialRead, 11_800 - more, block));
        records.push(mirror(State::Normal, 234 - more, 0, block));
        records.push(mirror(State::Degraded, 120 + more, 0, block));
        records.push(mirror(State::Rebuilding, 90, 3 << 30, block));
    }
    records[5].cell.as_mut().expect("a cell").void = Some("md9 lost a member".into());
    let head = head(RunKind::Raid, "fathom raid /dev/sda /dev/sdb", "/dev/sda /dev/sdb");
    page(&head, &records, None)
}

#[test]
fn a_matrix_in_all_states() {
    expect_file!["golden/matrix.md"].assert_eq(&fathom_html::markdown::markdown(&shown()));
}

#[test]
fn the_fastest_can_be_made_again() {
    let page = shown();
    let commands: Vec<&str> = page
        .first
        .iter()
        .filter_map(|block| match block {
            Block::Command { caption, command } => {
                assert!(caption.contains("destroys"), "{caption}");
                Some(command.as_str())
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        commands,
        [
            "mdadm --create /dev/md/NAME --level=0 --chunk=64K --raid-devices=2 /dev/sda /dev/sdb",
            "mdadm --create /dev/md/NAME --level=1 --bitmap=none --raid-devices=2 /dev/sda /dev/sdb",
        ]
    );
    let stacks = page.first.iter().filter(|block| matches!(block, Block::Stack(_))).count();
    assert_eq!(stacks, 2, "each stands on its own");
}

#[test]
fn nothing_measured_is_said() {
    let head = head(RunKind::Raid, "fathom raid /dev/sda /dev/sdb", "/dev/sda /dev/sdb");
    let text = markdown(&head, &[], None);
    assert!(text.contains("VOID") && text.contains("no array was measured"), "{text}");
}
