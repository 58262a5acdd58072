//! `docs/schema.md` is what the sources say, and what the sources say is what is written.
//!
//! The page is made from the definitions of the stored types (`UPDATE_EXPECT=1` writes it anew), beginning at what a line of an
//! export holds; then every field of a stored run must be on it.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

use expect_test::expect_file;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::path::Path;

const ROOTS: &[&str] = &["RunCopy", "TrialRow", "HostFacts", "Finding", "Plan", "Record"];

/// What the types are in JSON that are not written field by field.
const SPECIAL: &[(&str, &str)] = &[
    ("Histogram", "[Histogram](#histogram)"),
    ("SparseHistogram", "[Histogram](#histogram)"),
    ("String", "text"),
    ("str", "text"),
    ("PathBuf", "text"),
    ("Packed", "text: packed counts"),
    ("NamedSeries", "object of packed counts"),
    ("bool", "true or false"),
    ("RawValue", "JSON"),
    ("Value", "JSON"),
];

const HEAD: &str = "\
# Fields of exports

Made from the sources by a test; do not edit. `fathom export` writes these as JSON lines (see [export](export.md)), each with `type`
and `schema`; the schema is `fathom-export/1` and changes with every field that a reader must know. Fields are only added, with a
value for old runs. The same types stand in the lines of `--json` (`schema` `fathom/1`) and in the columns `host`, `findings`,
`record` and `plan` of the store.

Units stand in the names: `_ns` nanoseconds, `_s` seconds, `_bytes`, `_share` (0 to 1), `_unix_ns` nanoseconds since 1970 (UTC). Fields
that are not there mean the same as null.

| line | has |
|---|---|
| `export` | `fathom_version`, `store_format`, `is_anonymised` |
| `run` | [RunCopy](#runcopy): `run.host` is [HostFacts](#hostfacts), `run.findings` a list of [Finding](#finding), `plan.plan` a [Plan](#plan) |
| `trial` | [TrialRow](#trialrow): `record` is a [Record](#record) |
| `result` | `runs`, `trials`: how many there were |

## Histogram

Counts of values in nanoseconds. Bucket `i` below 128 holds the value `i`; above, with `s = i / 64 - 1`, the values from
`(i % 64 + 64) * 2^s` on, `2^s` of them.

| field | is | meaning |
|---|---|---|
| `count` | number | Number of values. |
| `min`, `max` | number | Smallest and largest value, exact; 0 without values. |
| `sum`, `sum_squares` | text | Exact decimal numbers: 128 bits do not survive readers that use doubles. |
| `buckets` | list of numbers | In turn: step from the previous occupied bucket (from 0 for the first), count. |
";

/// A type as its source defines it.
#[derive(Debug, Default)]
struct Type {
    about: String,
    /// Fields, or the words of an enum: name, type, meaning.
    fields: Vec<(String, String, String)>,
    is_enum: bool,
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for (index, c) in name.chars().enumerate() {
        if c.is_uppercase() && index > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Reads the definitions of a source file: those that are written with serde.
fn read(source: &str, types: &mut BTreeMap<String, Type>) {
    let (mut doc, mut attributes) = (String::new(), String::new());
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim();
        if let Some(more) = line.strip_prefix("/// ") {
            doc = format!("{doc} {more}").trim().to_owned();
        } else if line == "///" {
            // Further paragraphs are for those who read the source.
            while lines.next_if(|line| line.starts_with("///")).is_some() {}
        } else if text.starts_with("#[") {
            attributes += text;
        } else if let Some(rest) =
            ["pub struct ", "pub enum "].iter().find_map(|p| line.strip_prefix(p))
        {
            let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
            let is_enum = line.starts_with("pub enum");
            if attributes.contains("Serialize") && line.ends_with('{') {
                let is_snake = attributes.contains("snake_case");
                let fields = body(&mut lines, is_enum, is_snake);
                types.insert(name, Type { about: std::mem::take(&mut doc), fields, is_enum });
            }
            (doc, attributes) = (String::new(), String::new());
        } else if !text.starts_with("//") {
            (doc, attributes) = (String::new(), String::new());
        }
    }
}

fn body<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    is_enum: bool,
    is_snake: bool,
) -> Vec<(String, String, String)> {
    let (mut fields, mut doc, mut depth) = (Vec::new(), String::new(), 0);
    for line in lines {
        if line.starts_with('}') {
            break;
        }
        let text = line.trim();
        let last: Option<&mut (String, String, String)> = fields.last_mut();
        if let Some(more) = text.strip_prefix("/// ").filter(|_| depth == 0) {
            doc = format!("{doc} {more}").trim().to_owned();
        } else if let Some((_, holds, _)) = last.filter(|_| is_enum && depth == 1)
            && !text.starts_with(['/', '#', '}'])
        {
            // Fields of a word of an enum, a line for each.
            holds.push_str(text);
            holds.push('\n');
        } else if is_enum && depth == 0 && text.starts_with(|c: char| c.is_ascii_uppercase()) {
            let name: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
            let holds = text[name.len()..].trim_end_matches(',').trim_end_matches('{').trim();
            let holds = holds.trim_matches(|c| c == '(' || c == ')').to_owned();
            let name = if is_snake { snake(&name) } else { name };
            fields.push((name, holds, std::mem::take(&mut doc)));
        } else if let Some(field) = text.strip_prefix("pub ").filter(|_| !is_enum) {
            let (name, kind) = field.split_once(": ").expect("a field");
            let name = name.trim_start_matches("r#").to_owned();
            fields.push((name, kind.trim_end_matches(',').to_owned(), std::mem::take(&mut doc)));
        }
        depth += text.matches('{').count() as i32 - text.matches('}').count() as i32;
    }
    fields
}

/// What a type is in JSON, and the types that it names.
fn shown(kind: &str, known: &BTreeMap<String, Type>, names: &mut Vec<String>) -> String {
    let kind = kind
        .trim()
        .rsplit_once("::")
        .map_or(kind.trim(), |(path, last)| if path.contains('<') { kind.trim() } else { last });
    let inner = |outer: &str| kind.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = inner("Option<") {
        return format!("{} or null", shown(inner, known, names));
    }
    if let Some(inner) = inner("Box<") {
        return shown(inner, known, names);
    }
    if let Some(inner) = inner("Vec<") {
        return format!("list of {}", shown(inner, known, names));
    }
    if let Some(inner) = inner("BTreeMap<") {
        let (_, value) = inner.split_once(", ").expect("a map");
        return format!("object of {}", shown(value, known, names));
    }
    if let Some(parts) = kind.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        let parts: Vec<String> = parts.split(", ").map(|part| shown(part, known, names)).collect();
        return format!("list [{}]", parts.join(", "));
    }
    if let Some((part, count)) =
        kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')?.split_once("; "))
    {
        return format!("list of {count} {}", shown(part, known, names));
    }
    if let Some((_, text)) = SPECIAL.iter().find(|(name, _)| *name == kind) {
        return (*text).to_owned();
    }
    if known.contains_key(kind) {
        names.push(kind.to_owned());
        return format!("[{kind}](#{})", kind.to_lowercase());
    }
    "number".to_owned()
}

fn sources() -> BTreeMap<String, Type> {
    let mut types = BTreeMap::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates");
    let mut folders =
        vec![crates.join("fathom-model/src"), crates.join("fathom-store/src/transfer")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                read(&std::fs::read_to_string(path).expect("a source"), &mut types);
            }
        }
    }
    types
}

/// The page, and the fields on it.
fn page() -> (String, BTreeSet<String>) {
    let types = sources();
    let (mut out, mut fields) = (HEAD.to_owned(), BTreeSet::new());
    let mut queue: VecDeque<String> = ROOTS.iter().map(|name| (*name).to_owned()).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = queue.pop_front() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Type { about, fields: own, is_enum } =
            types.get(&name).unwrap_or_else(|| panic!("no source defines {name}"));
        let title = if *is_enum { ("one of", "holds") } else { ("field", "is") };
        let _ = write!(
            out,
            "\n## {name}\n\n{about}\n\n| {} | {} | meaning |\n|---|---|---|\n",
            title.0, title.1
        );
        for (field, kind, meaning) in own {
            let mut names = Vec::new();
            let kind = match kind.split_once(": ") {
                None if kind.is_empty() => String::new(),
                None => shown(kind, &types, &mut names),
                Some(_) => {
                    let parts = kind.lines().filter_map(|part| part.split_once(": "));
                    let part = |(name, kind): (&str, &str)| {
                        let kind = kind.trim_end_matches(',');
                        format!("`{name}`: {}", shown(kind, &types, &mut names))
                    };
                    parts.map(part).collect::<Vec<_>>().join(", ")
                }
            };
            fields.insert(field.clone());
            queue.extend(names);
            let _ = writeln!(out, "| `{field}` | {kind} | {} |", meaning.replace('|', "\\|"));
        }
    }
    // Links to types of the source are words here.
    (out.replace("[`", "`").replace("`]", "`").replace("`, `]", "`"), fields)
}

#[test]
fn the_page_is_what_the_sources_say() {
    expect_file!["../../../docs/schema.md"].assert_eq(&page().0);
}

fn keys(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    // What stands below has names of its own: settings, devices, figures.
    let free = [
        "cgroup_max",
        "application",
        "knobs",
        "settings",
        "better",
        "than",
        "baseline",
        "except",
        "rates",
    ];
    match value {
        Value::Object(fields) if !free.contains(&at) => {
            for (name, value) in fields {
                found.insert(name.clone());
                keys(value, name, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, at, found)),
        _ => {}
    }
}

/// A stored run as another part of the project wrote it; a field that nobody documents would be noticed.
#[test]
fn every_field_that_is_written_is_on_the_page() {
    let fields = page().1;
    let histogram = ["count", "min", "max", "sum", "sum_squares", "buckets", "type", "schema"];
    let workload = fathom_model::builtin::named("randomio").expect("built in");
    let host = fathom_model::host::HostFacts::default();
    let node = fathom_model::stack::Node::new(fathom_model::stack::NodeKind::Disk, "sda");
    let finding =
        fathom_model::finding::Finding::new("x", fathom_model::finding::Severity::Note, "y");
    let cpu = fathom_model::record::SystemCpu::default();
    let open = fathom_model::record::OpenLoopRecord::default();
    let setup = fathom_model::plan::setup::SetupSpec::default();
    let value = serde_json::json!([workload, host, node, finding, cpu, open, setup]);
    let mut found = BTreeSet::new();
    keys(&value, "", &mut found);
    assert!(found.len() > 100, "{}", found.len());
    let missing: Vec<&String> = found
        .iter()
        .filter(|name| !fields.contains(*name) && !histogram.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "written and not on the page: {missing:?}");
}
