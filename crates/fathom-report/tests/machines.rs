//! Whole machines in every form that `fathom check` shows: the snapshots of guests as they are, and with facts that contradict
//! each other, as a damaged file or a broken driver gives them.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

use fathom_base::prng::Prng;
use fathom_check::{Scene, alignment, check};
use fathom_model::snapshot::Snapshot;
use fathom_model::stack::Node;
use fathom_model::system::SystemFacts;
use fathom_report::check::{facts, findings, metrics, table, tree_text, unread_text};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

fn machines() -> Vec<(String, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fathom-check/tests/machines");
    let paths = std::fs::read_dir(directory).expect("the machines").flatten().map(|e| e.path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(".gz")).collect();
    paths.sort();
    let read = |path: &Path| {
        let file = GzDecoder::new(File::open(path).expect("a machine"));
        serde_json::from_reader(file).expect("a snapshot")
    };
    paths.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

fn snapshot(value: &Value) -> Snapshot {
    serde_json::from_value(value.clone()).expect("a snapshot")
}

/// Figures that a collector refuses, with the reason. Written from the specification of OpenMetrics 1.0 and from what
/// `promtool check metrics` looks for.
fn wrong(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut family, mut units, mut helps) = (String::new(), 0, 0);
    let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
    let Some(body) = text.strip_suffix("# EOF\n") else { return vec!["no end".to_owned()] };
    for line in body.split_terminator('\n') {
        let mut say = |what: &str| wrong.push(format!("{what}: {line}"));
        if let Some(meta) = line.strip_prefix("# ") {
            let mut words = meta.splitn(3, ' ');
            let (kind, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let rest = words.next().unwrap_or("");
            match kind {
                "TYPE" => {
                    (family, units, helps) = (name.to_owned(), 0, 0);
                    if !families.insert(name.to_owned()) {
                        say("a family a second time");
                    }
                    let endings = ["_total", "_count", "_sum", "_bucket", "_info"];
                    if rest != "gauge" || endings.iter().any(|ending| name.ends_with(ending)) {
                        say("no gauge, or called like something else");
                    }
                }
                "UNIT" if name == family && units == 0 && helps == 0 => {
                    units += 1;
                    if !name.ends_with(&format!("_{rest}")) {
                        say("a unit that is not in the name");
                    }
                }
                "HELP" if name == family && helps == 0 && !rest.is_empty() => helps += 1,
                _ => say("no such line here"),
            }
            continue;
        }
        match sample(line) {
            Some((name, labels)) => {
                let names: BTreeSet<&str> = labels.iter().map(|(name, _)| *name).collect();
                if name != family || helps == 0 || names.len() != labels.len() {
                    say("out of its family, or with a label twice");
                }
                let mut sorted = labels;
                sorted.sort_unstable();
                if !samples.insert(format!("{name} {sorted:?}")) {
                    say("a second time");
                }
            }
            None => say("no figure"),
        }
    }
    wrong
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(fits)
}

/// Name and labels of a line with a number at its end.
fn sample(line: &str) -> Option<(&str, Vec<(&str, String)>)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label, value));
            rest = after;
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let value: f64 = rest.strip_prefix(' ')?.parse().ok()?;
    let fits = is_name(name) && labels.iter().all(|(label, _)| is_name(label));
    (fits && value.is_finite()).then_some((name, labels))
}

/// The text up to the quote that ends it, and what comes behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut out, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                c @ ('\\' | '"') => out.push(c),
                _ => return None,
            },
            c => out.push(c),
        }
    }
    None
}

#[test]
fn the_judge_of_figures_knows_wrong_ones() {
    let good = "# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n# HELP a_bytes X y.\na_bytes{n=\"\\\\\\\"\\n,}\"} 1\n# EOF\n";
    assert_eq!(wrong(good), [""; 0]);
    for (from, to) in [
        ("# EOF\n", ""),
        ("# EOF\n", "\n# EOF\n"),
        ("# HELP a_bytes X y.\n", ""),
        ("a_bytes{", "b_bytes{"),
        ("} 1\n", "} one\n"),
        ("} 1\n", "} NaN\n"),
        ("\\n,", "\n,"),
        ("gauge", "counter"),
        ("a_bytes bytes", "a_bytes seconds"),
        ("{n=", "{n=\"1\",n="),
        ("# EOF", "a_bytes{n=\"2\"} 1\na_bytes{n=\"2\"} 3\n# EOF"),
    ] {
        assert!(!wrong(&good.replacen(from, to, 1)).is_empty(), "{from:?} {to:?}");
    }
}

#[test]
fn figures_of_all_machines_are_taken_by_a_collector() {
    let mut figures = 0;
    for (name, value) in machines() {
        let mut snapshot = snapshot(&value);
        // As somebody may have called a directory.
        for node in &mut snapshot.machine.nodes {
            if node.mount.is_some() {
                node.name = format!("{}/a \"b\"\\c\nd{{}}=,", node.name);
            }
        }
        let defects = check(&snapshot);
        // A rule may say two things of one node.
        let twice: Vec<_> = defects.iter().chain(&defects).cloned().collect();
        for defects in [&defects, &twice] {
            let text = metrics::metrics_text(&snapshot, defects);
            assert_eq!(wrong(&text), [""; 0], "{name}");
            figures += text.lines().count();
        }
    }
    assert!(figures > 2000, "{figures}");
}

/// Numbers at the edges, and numbers that are everywhere alike.
const NUMBERS: [u64; 12] =
    [0, 1, 2, 3, 511, 512, 4095, u32::MAX as u64, 1 << 62, i64::MAX as u64, u64::MAX - 1, u64::MAX];
/// Texts that are no numbers, or too large ones, and such that break lines.
const TEXTS: [&str; 9] = [
    "",
    " ",
    "-1",
    "18446744073709551616",
    "1/0",
    "\u{0}\u{1b}[31m\n\"\\",
    "[",
    "8:0",
    "\u{1f4be}\u{fffd}",
];

/// Changes one value somewhere below; the way is chosen at random.
fn contradict(value: &mut Value, random: &mut Prng) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let at = random.below(fields.len() as u64) as usize;
            if let Some((_, below)) = fields.iter_mut().nth(at) {
                contradict(below, random);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = random.below(items.len() as u64) as usize;
            match random.below(12) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => contradict(&mut items[at], random),
            }
        }
        Value::Number(_) => *value = json!(NUMBERS[random.below(NUMBERS.len() as u64) as usize]),
        Value::String(_) => *value = json!(TEXTS[random.below(TEXTS.len() as u64) as usize]),
        Value::Bool(is) => *is = !*is,
        _ => {}
    }
}

/// One change of one part of the facts; false where it would be no such part any more, and so refused when it is read.
fn change_part(snapshot: &mut Value, random: &mut Prng) -> bool {
    // Most of what rules look at is told of the nodes.
    let is_system = random.below(4) == 0;
    let nodes = snapshot["machine"]["nodes"].as_array().expect("nodes").len() as u64;
    let path = match random.below(nodes) {
        _ if is_system => "/system".to_owned(),
        index => format!("/machine/nodes/{index}"),
    };
    let part = snapshot.pointer_mut(&path).expect("a part");
    let mut changed = part.clone();
    contradict(&mut changed, random);
    let is_read = if is_system {
        serde_json::from_value::<SystemFacts>(changed.clone()).is_ok()
    } else {
        serde_json::from_value::<Node>(changed.clone()).is_ok()
    };
    if is_read {
        *part = changed;
    }
    is_read
}

/// Whatever the facts say, they are judged and shown: no sum overflows, no index leads nowhere, no circle is endless.
#[test]
fn contradicting_facts_are_judged_and_shown() {
    const ROUNDS: usize = 16;
    let mut random = Prng::new(7, 0);
    let (mut made, mut refused) = (0, 0);
    for (name, value) in machines() {
        for round in 0..ROUNDS {
            let mut changed = value.clone();
            for _ in 0..1 + round * 8 {
                let is_read = change_part(&mut changed, &mut random);
                *if is_read { &mut made } else { &mut refused } += 1;
            }
            let snapshot = snapshot(&changed);
            let defects = check(&snapshot);
            let scene = Scene::new(&snapshot);
            for &top in snapshot.machine.tops.iter().filter(|&&t| t < snapshot.machine.nodes.len())
            {
                let _ = alignment::lines(&alignment::explain(&scene, top));
            }
            let figures = metrics::metrics_text(&snapshot, &defects);
            assert!(figures.ends_with("# EOF\n"), "{name}");
            let shown = [
                findings::findings_text(&defects, true, 80),
                table::table_text(&snapshot.machine, usize::MAX),
                unread_text(&snapshot, true, 80),
                facts::facts_text(&snapshot),
                tree_text(snapshot, &defects),
            ];
            let is_control = |c: char| c.is_control() && c != '\n';
            assert!(!shown.iter().any(|text| text.contains(is_control)), "{name}: {shown:?}");
        }
    }
    assert!(made > refused && refused > 0, "{made} changes, {refused} refused");
}
