//! Figures for monitoring, in the text form of OpenMetrics 1.0.

use fathom_base::printable::printable;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::snapshot::Snapshot;
use fathom_model::stack::{Node, NodeKind};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A figure of one node: labels and value.
type Sample = (Vec<(&'static str, String)>, f64);

/// All figures; ends with `# EOF`, as the form wants.
#[must_use]
pub fn metrics_text(snapshot: &Snapshot, defects: &[Defect]) -> String {
    let mut out = String::new();
    let counts = Gravity::ALL.map(|gravity| {
        let count = defects.iter().filter(|defect| defect.gravity == gravity).count();
        (vec![("gravity", gravity.word().to_owned())], count as f64)
    });
    family(&mut out, "fathom_findings", "Findings by gravity.", counts.into_iter());
    family(&mut out, "fathom_finding", "Findings of a rule on a node.", each_finding(defects));
    let unread = std::iter::once((Vec::new(), snapshot.unread.len() as f64));
    family(&mut out, "fathom_unread", "Facts that could not be read.", unread);
    let above = snapshot.machine.above();
    for (name, help, of) in FIGURES {
        let nodes = snapshot.machine.nodes.iter().enumerate();
        let samples = nodes.filter_map(|(index, node)| {
            let value = of(node)?;
            let mut labels = vec![("node", node.key())];
            if node.fs.is_some() {
                labels.push(("mountpoint", mountpoint(snapshot, &above[index])));
            }
            Some((labels, value))
        });
        family(&mut out, name, help, samples);
    }
    let made = std::iter::once((Vec::new(), snapshot.made_at_unix_s as f64));
    family(&mut out, "fathom_check_time_seconds", "When this was looked at, since 1970.", made);
    out.push_str("# EOF\n");
    out
}

/// One figure for each rule and node that something was found of, whichever of several nodes a finding names first: when one is
/// mended, the lines of the others stay. A second finding counts in its line, for a line that comes twice makes a collector
/// refuse all of them.
fn each_finding(defects: &[Defect]) -> impl Iterator<Item = Sample> {
    let mut known: BTreeMap<Vec<(&'static str, String)>, usize> = BTreeMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    let each = defects.iter().flat_map(|defect| {
        let first = defect.node.clone().unwrap_or_default();
        std::iter::once(first).chain(defect.also.iter().cloned()).map(move |node| (defect, node))
    });
    for (defect, node) in each {
        let labels = vec![
            ("rule", defect.rule.clone()),
            ("gravity", defect.gravity.word().to_owned()),
            ("certainty", defect.certainty.word().to_owned()),
            ("node", node),
        ];
        let index = *known.entry(labels.clone()).or_insert(samples.len());
        match samples.get_mut(index) {
            Some((_, count)) => *count += 1.0,
            None => samples.push((labels, 1.0)),
        }
    }
    samples.into_iter()
}

/// Where a filesystem is mounted first; empty when it is not.
fn mountpoint(snapshot: &Snapshot, above: &[usize]) -> String {
    let mut nodes = above.iter().map(|&index| &snapshot.machine.nodes[index]);
    nodes
        .find(|node| node.kind == NodeKind::Mount)
        .map(|node| node.name.clone())
        .unwrap_or_default()
}

/// A figure: its name, what it is, and where it comes from.
type Figure = (&'static str, &'static str, fn(&Node) -> Option<f64>);

/// The figures of single nodes.
const FIGURES: &[Figure] = &[
    ("fathom_array_degraded_members", "Members that an array lacks.", |node| {
        Some(node.md.as_ref()?.degraded? as f64)
    }),
    (
        "fathom_array_sync_ratio",
        "Share of a running resync, rebuild or check that is done.",
        |node| node.md.as_ref()?.sync_completed_share,
    ),
    ("fathom_array_mismatch_sectors", "Sectors that the last check found to differ.", |node| {
        Some(node.md.as_ref()?.mismatch_count? as f64)
    }),
    ("fathom_filesystem_size_bytes", "Size of a filesystem.", |node| {
        Some(node.fs.as_ref()?.total_bytes? as f64)
    }),
    ("fathom_filesystem_available_bytes", "Space that everybody may use.", |node| {
        Some(node.fs.as_ref()?.available_bytes? as f64)
    }),
    ("fathom_filesystem_errors", "Errors that a filesystem has counted.", |node| {
        Some(node.fs.as_ref()?.errors_count? as f64)
    }),
    ("fathom_drive_temperature_celsius", "Temperature of a drive.", |node| {
        Some(node.details().health.as_ref()?.celsius? as f64)
    }),
    ("fathom_drive_used_ratio", "Wear of a drive; 1 is the end of what was promised.", |node| {
        Some(node.details().health.as_ref()?.used_percent? as f64 / 100.0)
    }),
    ("fathom_drive_reallocated_sectors", "Sectors that a drive has replaced.", |node| {
        Some(node.details().health.as_ref()?.reallocated? as f64)
    }),
    ("fathom_drive_pending_sectors", "Sectors that a drive waits to replace.", |node| {
        Some(node.details().health.as_ref()?.pending? as f64)
    }),
    ("fathom_drive_uncorrectable_errors", "Errors that a drive could not correct.", |node| {
        Some(node.details().health.as_ref()?.uncorrectable? as f64)
    }),
    ("fathom_read_ahead_bytes", "Read-ahead of a block device.", |node| {
        let read_ahead = node.queue.as_ref()?.read_ahead_kib?;
        (node.kind != NodeKind::Partition).then_some(read_ahead as f64 * 1024.0)
    }),
];

fn family(out: &mut String, name: &str, help: &str, samples: impl Iterator<Item = Sample>) {
    let mut samples = samples.peekable();
    if samples.peek().is_none() {
        return;
    }
    let _ = writeln!(out, "# TYPE {name} gauge");
    // OpenMetrics wants the unit as a line of its own where the name ends in it.
    if let Some(unit) = ["bytes", "seconds", "celsius", "ratio"]
        .iter()
        .find(|unit| name.ends_with(&format!("_{unit}")))
    {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {help}");
    for (labels, value) in samples {
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let braces =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(out, "{name}{braces} {value}");
    }
}

fn escaped(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::sample;
    use expect_test::expect;
    use fathom_model::stack::FsFacts;

    #[test]
    fn families_are_typed_and_end_with_the_mark() {
        let (mut snapshot, defects) = sample();
        snapshot.made_at_unix_s = 1_795_230_000;
        snapshot.machine.nodes[1].fs =
            Some(FsFacts { total_bytes: Some(4096), ..FsFacts::default() });
        expect![[r##"
            # TYPE fathom_findings gauge
            # HELP fathom_findings Findings by gravity.
            fathom_findings{gravity="low"} 1
            fathom_findings{gravity="medium"} 0
            fathom_findings{gravity="high"} 1
            # TYPE fathom_finding gauge
            # HELP fathom_finding Findings of a rule on a node.
            fathom_finding{rule="smart-failing",gravity="high",certainty="certain",node="/dev/sdb"} 1
            fathom_finding{rule="no-trim",gravity="low",certainty="certain",node=""} 1
            # TYPE fathom_unread gauge
            # HELP fathom_unread Facts that could not be read.
            fathom_unread 1
            # TYPE fathom_filesystem_size_bytes gauge
            # UNIT fathom_filesystem_size_bytes bytes
            # HELP fathom_filesystem_size_bytes Size of a filesystem.
            fathom_filesystem_size_bytes{node="xfs",mountpoint="/srv"} 4096
            # TYPE fathom_read_ahead_bytes gauge
            # UNIT fathom_read_ahead_bytes bytes
            # HELP fathom_read_ahead_bytes Read-ahead of a block device.
            fathom_read_ahead_bytes{node="/dev/md0"} 131072
            fathom_read_ahead_bytes{node="/dev/sda"} 131072
            fathom_read_ahead_bytes{node="/dev/sdb"} 131072
            # TYPE fathom_check_time_seconds gauge
            # UNIT fathom_check_time_seconds seconds
            # HELP fathom_check_time_seconds When this was looked at, since 1970.
            fathom_check_time_seconds 1795230000
            # EOF
        "##]].assert_eq(&metrics_text(&snapshot, &defects));
    }

    #[test]
    fn names_do_nothing_to_a_terminal() {
        assert_eq!(escaped("a\u{1b}[2J\n\"\\\u{202e}"), r#"a?[2J\n\"\\?"#);
    }

    #[test]
    fn no_line_comes_twice() {
        let (snapshot, mut defects) = sample();
        defects.push(Defect { summary: "another".into(), ..defects[0].clone() });
        let text = metrics_text(&snapshot, &defects);
        let lines: Vec<&str> = text.lines().filter(|l| l.contains("smart-failing")).collect();
        assert!(lines.len() == 1 && lines[0].ends_with("node=\"/dev/sdb\"} 2"), "{lines:?}");
    }

    #[test]
    fn every_node_of_a_finding_has_its_line() {
        let (snapshot, mut defects) = sample();
        defects[0].also = vec!["/dev/sdc".into(), "/dev/sdd".into()];
        defects[0].concerns = vec!["/dev/md0".into()];
        let text = metrics_text(&snapshot, &defects);
        for disk in ["sdb", "sdc", "sdd"] {
            assert!(text.contains(&format!("node=\"/dev/{disk}\"}} 1\n")), "{text}");
        }
        assert!(text.contains("fathom_findings{gravity=\"high\"} 1\n"), "it is one finding");
        let of_array = |line: &&str| line.contains("smart-failing") && line.contains("md0");
        assert_eq!(text.lines().find(of_array), None, "the array is not failing");
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
