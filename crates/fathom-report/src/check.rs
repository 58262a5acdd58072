//! What `fathom check` shows: the machine as a tree or a table, what is wrong with it, and figures for monitoring.

pub mod facts;
pub mod findings;
pub mod metrics;
pub mod table;

use crate::text::{printable, push_wrapped_to};
use fathom_model::defect::{Defect, Gravity};
use fathom_model::snapshot::{Machine, Snapshot};
use fathom_model::stack::Stack;
use std::collections::{BTreeMap, BTreeSet};

/// The layers as an indented tree, each line marked with the gravest that is wrong there: `!!` high, `!` medium, `.` low.
#[must_use]
pub fn tree_text(snapshot: Snapshot, defects: &[Defect]) -> String {
    let tops = fathom_check::ordered_tops(&snapshot);
    let knows_mounts = fathom_check::scene::knows_mounts(&snapshot);
    let Snapshot { machine, system, .. } = snapshot;
    let marks = marks(&machine, defects);
    let by_key = machine.by_key();
    let swaps = system.swaps.iter().filter_map(|swap| by_key.get(swap.node.as_ref()?).copied());
    let swaps: BTreeSet<usize> = swaps.collect();
    let nodes = machine.nodes;
    let stack = Stack { path: String::new(), resolved_path: String::new(), nodes, top: 0 };
    let mut out = String::new();
    for line in fathom_check::forest(&stack, &tops, knows_mounts) {
        let mark =
            marks.get(&line.node).filter(|_| !line.again).map_or("", |gravity| mark(*gravity));
        let is_swap = !line.again && swaps.contains(&line.node);
        let swap = if is_swap { "  swapped to" } else { "" };
        out.push_str(&format!("{mark:2} {}{swap}\n", printable(&line.text)));
    }
    out
}

/// Lines of a tree in so many columns: what is longer goes on below, further in, at the next of its facts, which two blanks divide.
#[must_use]
pub fn folded(tree: &str, columns: usize) -> String {
    const FURTHER: usize = 4;
    let mut out = String::new();
    for line in tree.lines() {
        // The mark stands before the blanks that show the depth.
        let depth = line.chars().skip(2).take_while(|c| *c == ' ').count() + 2;
        let indent = " ".repeat((depth + FURTHER).min(columns / 2));
        let mut column = 0;
        for (number, fact) in pieces(line).into_iter().enumerate() {
            let chars = fact.chars().count();
            if number > 0 && column + 2 + chars <= columns {
                out.push_str("  ");
                column += 2;
            } else if number > 0 {
                out.push('\n');
                out.push_str(&indent);
                column = indent.len();
            }
            out.push_str(fact);
            column += chars;
        }
        out.push('\n');
    }
    out
}

/// The facts of a line; what stands before the first belongs to it.
fn pieces(line: &str) -> Vec<&str> {
    let name = line.char_indices().skip(2).find(|(_, c)| *c != ' ').map_or(0, |(at, _)| at);
    let mut begin = 0;
    let mut facts = Vec::new();
    for (at, _) in line[name..].match_indices("  ") {
        // Of three blanks the last belongs to what follows.
        if name + at >= begin {
            facts.push(&line[begin..name + at]);
            begin = name + at + 2;
        }
    }
    facts.push(&line[begin..]);
    facts
}

/// The gravest of each node, by index.
fn marks(machine: &Machine, defects: &[Defect]) -> BTreeMap<usize, Gravity> {
    let by_key = machine.by_key();
    let mut marks = BTreeMap::new();
    for defect in defects {
        for key in defect.node.iter().chain(&defect.also).chain(&defect.concerns) {
            if let Some(&index) = by_key.get(key) {
                let gravest = marks.entry(index).or_insert(defect.gravity);
                *gravest = defect.gravity.max(*gravest);
            }
        }
    }
    marks
}

fn mark(gravity: Gravity) -> &'static str {
    match gravity {
        Gravity::High => "!!",
        Gravity::Medium => "!",
        Gravity::Low => ".",
    }
}

/// What could not be read: how much, and the first few of it; all with `all`.
#[must_use]
pub fn unread_text(snapshot: &Snapshot, all: bool, width: usize) -> String {
    const SHOWN: usize = 5;
    let unread = &snapshot.unread;
    if unread.is_empty() {
        return String::new();
    }
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for item in unread {
        by_reason.entry(&item.why).or_default().push(&item.what);
    }
    let mut out = format!("Not read: {}\n", unread.len());
    for (why, what) in by_reason {
        let limit = if all { what.len() } else { SHOWN };
        let more = what.len().saturating_sub(limit);
        let mut text = what[..what.len().min(limit)].join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more (--unread lists all)"));
        }
        push_wrapped_to(&mut out, width, "  ", &format!("{why}:"));
        push_wrapped_to(&mut out, width, "      ", &text);
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use expect_test::expect;
    use fathom_model::snapshot::Unread;
    use fathom_model::stack::{Node, NodeKind, QueueFacts};

    #[test]
    fn long_lines_of_a_tree_go_on_below() {
        let tree = "!! /srv  mount of /dev/md0  rw\n\
                    \x20    sda  Linux disk  64 MiB  serial 2000  running  \u{e9}\u{e9}\n\
                    .    a-name-that-is-longer-than-a-line  1 MiB\n";
        let folded_to = |columns| folded(tree, columns);
        assert_eq!(folded_to(80), tree);
        expect![[r#"
            !! /srv  mount of /dev/md0
                   rw
                 sda  Linux disk  64 MiB
                     serial 2000
                     running  ##
            .    a-name-that-is-longer-than-a-line
                     1 MiB
        "#]]
        .assert_eq(&folded_to(28).replace('\u{e9}', "#"));
    }

    /// A mount on an array of two disks, the second of which is broken.
    pub(crate) fn sample() -> (Snapshot, Vec<Defect>) {
        let mut nodes = Vec::new();
        let mut add = |kind, name: &str, below: &[usize]| {
            let mut node = Node::new(kind, name);
            if kind != NodeKind::FileSystem {
                node.path = Some(if kind == NodeKind::Mount {
                    name.into()
                } else {
                    format!("/dev/{name}")
                });
            }
            if matches!(kind, NodeKind::Md | NodeKind::Disk) {
                node.devno = Some("8:0".into());
                node.size_bytes = Some(4_000_787_030_016);
                node.queue = Some(QueueFacts {
                    logical_block_bytes: Some(512),
                    physical_block_bytes: Some(4096),
                    scheduler: Some("mq-deadline".into()),
                    requests: Some(64),
                    read_ahead_kib: Some(128),
                    rotational: Some(true),
                    ..QueueFacts::default()
                });
            }
            node.below = below.to_vec();
            nodes.push(node);
        };
        add(NodeKind::Mount, "/srv", &[1]);
        add(NodeKind::FileSystem, "xfs", &[2]);
        add(NodeKind::Md, "md0", &[3, 4]);
        add(NodeKind::Disk, "sda", &[]);
        add(NodeKind::Disk, "sdb", &[]);
        let machine = Machine { nodes, tops: vec![0] };
        let unread = vec![Unread { what: "/dev/sda: SMART".into(), why: "no permission".into() }];
        let defects = vec![
            Defect::new(
                "smart-failing",
                Gravity::High,
                Some("/dev/sdb"),
                "sdb has 12 sectors that it could not read",
            )
            .seen("SMART attribute 198 of sdb", "12")
            .because("the next rebuild of md0 has to read all of it")
            .command("replace it", "mdadm /dev/md0 --replace /dev/sdb")
            .risking("the array has no spare meanwhile")
            .verified_by("fathom check /dev/md0"),
            Defect::new("no-trim", Gravity::Low, None, "nothing trims /srv")
                .advise("switch fstrim.timer on"),
        ];
        (Snapshot { machine, unread, ..Snapshot::default() }, defects)
    }

    #[test]
    fn the_tree_marks_where_something_is_wrong() {
        let (snapshot, defects) = sample();
        expect![[r#"
               /srv
                 xfs
                   md0  3.6 TiB  blocks 512 B/4 KiB  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  rotating
                     sda  disk  3.6 TiB  blocks 512 B/4 KiB  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  rotating
            !!       sdb  disk  3.6 TiB  blocks 512 B/4 KiB  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  rotating
        "#]].assert_eq(&tree_text(snapshot.clone(), &defects));
        expect![[r#"
            Not read: 1
              no permission:
                  /dev/sda: SMART
        "#]]
        .assert_eq(&unread_text(&snapshot, false, 80));
    }
}
