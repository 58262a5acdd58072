//! The same for stored runs: what identifies is learned from all of them first, so that a name that stands in a field of one is
//! also found in a sentence of another; then each is written anew.
//!
//! What people wrote in their own words (questions of plans, commands, output of applications) is left out as a whole: nobody
//! can say what is in it.

use super::{Replacements, Words, is_ordinary, runs};
use fathom_base::json;
use fathom_model::builtin;
use fathom_model::plan::Metric;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What stands in the place of what people wrote.
const LEFT_OUT: &str = "(left out)";

/// Fields whose words are fathom's own or the kernel's: they are kept, and the same words elsewhere with them.
const TECHNICAL: &[&str] = &[
    "access",
    "arrivals",
    "call",
    "class",
    "classic",
    "content",
    "cursor",
    "direct",
    "distribution",
    "ending",
    "engine",
    "features",
    "file_choice",
    "io_priority",
    "knob",
    "mix",
    "open_sync",
    "operation",
    "phase",
    "severity",
    "state",
    "sync",
    "sync_call",
    "verdict",
    "verify",
];

/// Objects in which `label` names a row or a workload: words that results are read by.
const LABELS_OF_ROWS: &[&str] = &["workload", "settings"];

/// Fields of somebody's own words.
const OWN_WORDS: &[&str] = &["question", "output", "kernel_build"];

/// Options of fathom whose next word is a name of somebody's own.
const FILES_AND_LABELS: &[&str] =
    &["--label", "--destroy", "--db", "-o", "--output", "--from", "--workload", "--listen"];

/// Texts of numbers and packed series: no word in them is one.
const NUMBERS: &[&str] = &["sum", "sum_squares"];

/// Fields of what was watched that hold words; all others there are packed series.
const WATCHED_WORDS: &[&str] = &[
    "name",
    "title",
    "what",
    "stands_out",
    "command",
    "missing",
    "came",
    "went",
    "reason",
    "kind",
];

/// Ordinary words of paths and labels that texts of fathom are full of.
const COMMON: &[&str] = &[
    "after",
    "all",
    "array",
    "baseline",
    "before",
    "block",
    "bytes",
    "cache",
    "commit",
    "db",
    "delete",
    "device",
    "device_id",
    "direct",
    "disks",
    "drive",
    "fast",
    "files",
    "first",
    "flight",
    "full",
    "last",
    "latency",
    "machine",
    "mean",
    "mix",
    "mixed",
    "new",
    "nightly",
    "null",
    "old",
    "one",
    "quick",
    "random",
    "rate",
    "read",
    "reads",
    "row",
    "second",
    "seconds",
    "sequential",
    "size",
    "slow",
    "small",
    "state",
    "store",
    "sync",
    "test",
    "tests",
    "the",
    "this",
    "time",
    "toml",
    "trial",
    "two",
    "void",
    "with",
    "workload",
    "write",
    "writes",
    "zero",
];

/// Learns what identifies, then hides it.
#[derive(Default)]
pub struct Hider {
    words: Words,
    seed: u64,
    names: Option<Replacements>,
}

impl Hider {
    /// One that knows nothing yet; `seed` decides what stands instead, and has to be forgotten.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { words: Words::default(), seed, names: None }
    }

    /// Learns from a head, a plan, findings or a record. Everything has to be learned before the first is hidden.
    pub fn learn(&mut self, value: &impl Serialize) {
        // What cannot be written as JSON cannot be exported either.
        let Ok(mut value) = serde_json::to_value(value) else { return };
        mask(&mut value);
        self.words.collect(&value, "", "");
        self.learn_more(&value, "", "");
    }

    fn learn_more(&mut self, value: &Value, key: &str, parent: &str) {
        match value {
            Value::Object(fields) => {
                if let Some(name) = fields.get("name").and_then(Value::as_str)
                    && fields.contains_key("jobs")
                    && builtin::named(name).is_err()
                {
                    self.secret(name);
                    let jobs = fields["jobs"].as_array().into_iter().flatten();
                    jobs.filter_map(|job| job["name"].as_str()).for_each(|name| self.secret(name));
                }
                if fields.contains_key("question")
                    || fields.get("command").is_some_and(Value::is_string)
                {
                    // The name of a plan, and what a command was given.
                    fields
                        .get("name")
                        .and_then(Value::as_str)
                        .into_iter()
                        .for_each(|n| self.secret(n));
                }
                // Workloads of plans, and settings of somebody's own.
                let named = if fields.contains_key("settings") { ROW_LABEL } else { "name" };
                if (fields.contains_key("settings") || is_own_knob(fields))
                    && let Some(name) = fields.get(named).and_then(Value::as_str)
                    && builtin::named(name).is_err()
                {
                    self.secret(name);
                }
                // What a trial of an experiment is called after, where its plan is not known.
                if let Some(name) = fields.get("workload").and_then(Value::as_str)
                    && fields.contains_key("slot")
                    && builtin::named(name).is_err()
                {
                    self.secret(name);
                }
                let is_companion =
                    fields.get("sets").is_some_and(|sets| sets["kind"] == "companion");
                if let Some(Value::Array(levels)) = fields.get("levels").filter(|_| is_companion) {
                    let own = levels.iter().filter_map(Value::as_str);
                    own.for_each(|level| self.secret(level));
                }
                if is_figures(key, fields) {
                    fields.keys().filter(|name| !is_own_figure(name)).for_each(|n| self.secret(n));
                }
                fields.iter().for_each(|(name, value)| self.learn_more(value, name, key));
            }
            Value::Array(items) => {
                items.iter().for_each(|item| self.learn_more(item, key, parent));
            }
            Value::String(text) if is_technical(key, parent, text) => {
                self.words.plain.extend(runs(text).map(|(_, run)| run.to_lowercase()));
            }
            Value::String(text) => {
                self.paths(text);
                if key == "knob" {
                    text.strip_prefix("own.").into_iter().for_each(|name| self.secret(name));
                }
                if key == "command" {
                    self.command(text);
                }
            }
            _ => {}
        }
    }

    fn secret(&mut self, text: &str) {
        self.words.secret.extend(runs(text).map(|(_, run)| run.to_lowercase()));
    }

    /// Paths wherever they stand, but those that every machine has.
    fn paths(&mut self, text: &str) {
        let ends = |c: char| c.is_whitespace() || "\"'`,;()[]<>=".contains(c);
        for word in text.split(ends).filter(|word| word.starts_with('/') && word.len() > 1) {
            let own = ["/sys/", "/proc/", "/usr/", "/lib/", "/bin/", "/sbin/"];
            if !own.iter().any(|begin| word.starts_with(begin)) {
                self.secret(word);
            }
        }
    }

    /// Of a command line of fathom: files, labels, consents, places to listen on.
    fn command(&mut self, text: &str) {
        for word in text.split_whitespace() {
            let word = word.trim_matches(|c| c == '\'' || c == '"');
            let (name, value) = word.split_once('=').unwrap_or(("", word));
            let is_named = ["--label", "--destroy", "--db", "--output", "--target"].contains(&name);
            // Files have an ending, as numbers with a point have none that is told from them.
            if is_named || value.contains('/') || value.contains('.') {
                self.secret(value);
            }
        }
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            if FILES_AND_LABELS.contains(&word) {
                words.next().into_iter().for_each(|value| self.secret(value));
            }
        }
    }

    /// The value without what identifies; none when it would not be readable any more, which is an error in fathom.
    #[must_use]
    pub fn hide<T: Serialize + DeserializeOwned>(&mut self, value: &T) -> Option<T> {
        if self.names.is_none() {
            let mut words = std::mem::take(&mut self.words);
            let plain = std::mem::take(&mut words.plain);
            words.secret.retain(|word| {
                !plain.contains(word) && !is_ordinary(word) && !COMMON.contains(&word.as_str())
            });
            self.names = Some(Replacements::new(words, plain, None, self.seed));
        }
        let names = self.names.as_ref()?;
        let mut value = serde_json::to_value(value).ok()?;
        mask(&mut value);
        hide(names, &mut value, "", "", false);
        unmask(&mut value);
        // From text, as everywhere: code for each other form that is read would make the binary larger.
        json::from_str(&value.to_string()).ok()
    }
}

fn is_technical(key: &str, parent: &str, text: &str) -> bool {
    let is_own_knob = key == "knob" && text.starts_with("own.");
    // Where the extents of a file were learned from; elsewhere a source is that of a mount.
    (TECHNICAL.contains(&key) && !is_own_knob) || (key == "source" && parent == "extents")
}

fn hide(names: &Replacements, value: &mut Value, key: &str, parent: &str, is_watched: bool) {
    match value {
        Value::Object(fields) => {
            // Settings by their names, among them those of somebody's own.
            if key == "knobs" {
                let named = std::mem::take(fields).into_iter();
                let hidden = |(name, value): (String, Value)| match name.starts_with("own.") {
                    true => (names.text(&name), value),
                    false => (name, value),
                };
                *fields = named.map(hidden).collect();
            }
            if is_figures(key, fields) {
                let named = std::mem::take(fields).into_iter();
                let hidden = |(name, value): (String, Value)| match is_own_figure(&name) {
                    true => (name, value),
                    false => (names.text(&name), value),
                };
                *fields = named.map(hidden).collect();
            }
            for (name, value) in fields {
                // The layers below what was watched are those of all records.
                let is_series = (is_watched || name == "watch") && name != "stacks";
                hide(names, value, name, key, is_series);
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| hide(names, item, key, parent, is_watched));
        }
        Value::String(_) if NUMBERS.contains(&key) => {}
        Value::String(_) if is_watched && !WATCHED_WORDS.contains(&key) => {}
        Value::String(text) if is_technical(key, parent, text) => {}
        text => names.replace(text, key, parent),
    }
}

/// Figures that were looked for in the output of an application: somebody chose their names.
fn is_figures(key: &str, fields: &serde_json::Map<String, Value>) -> bool {
    ["figures", "application"].contains(&key)
        && !fields.is_empty()
        && fields.values().all(Value::is_number)
}

/// Figures that are held against those of devices are found by their names.
const OWN_COUNTS: &[&str] = &["own_read_bytes", "own_written_bytes"];

/// Figures of trials of file servers are kept beside them under names of fathom's own.
fn is_own_figure(name: &str) -> bool {
    OWN_COUNTS.contains(&name)
        || Metric::OF_FILE_SERVERS.iter().any(|metric| metric.of_file_server() == Some(name))
}

/// The name that `label` has in rows while words are looked for.
const ROW_LABEL: &str = "row_label";

fn is_own_knob(fields: &serde_json::Map<String, Value>) -> bool {
    fields.contains_key("read") && fields.contains_key("values")
}

/// Renames labels of rows, and leaves out what people wrote.
fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if LABELS_OF_ROWS.iter().any(|key| fields.contains_key(*key))
                && let Some(label) = fields.remove("label")
            {
                fields.insert(ROW_LABEL.to_owned(), label);
            }
            // Commands of plans, programs watched; the command of a head repeats the run, and stays but for those.
            let is_head = fields.contains_key("host");
            let is_own_workload = fields.contains_key("jobs")
                && fields
                    .get("name")
                    .and_then(Value::as_str)
                    .is_some_and(|n| builtin::named(n).is_err());
            let is_own_knob = is_own_knob(fields);
            let is_hypothesis = fields.contains_key("better") && fields.contains_key("than");
            for (name, field) in fields.iter_mut() {
                let is_own = OWN_WORDS.contains(&name.as_str())
                    || (name == "command" && !is_head)
                    || (is_own_workload && ["title", "description"].contains(&name.as_str()))
                    || (is_own_knob && ["read", "write"].contains(&name.as_str()))
                    || (is_hypothesis && name == "text");
                match field {
                    Value::String(text) if is_own && !text.is_empty() => LEFT_OUT.clone_into(text),
                    Value::String(text) if name == "command" => *text = without_own_words(text),
                    _ => mask(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// Options whose values are patterns and names of somebody's own.
const OWN_OPTIONS: &[&str] = &["--figure"];

/// A command line of fathom without the program that it started, which may hold names and passwords, and without what was looked
/// for in its output.
fn without_own_words(command: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut is_value = false;
    for word in shell_words(command) {
        let bare = word.trim_start_matches('\'');
        let (name, value) = bare.split_once('=').unwrap_or((bare, ""));
        if word == "--" {
            shown.extend([word.to_owned(), LEFT_OUT.to_owned()]);
            break;
        }
        shown.push(match (is_value, OWN_OPTIONS.contains(&name), value) {
            (true, ..) => LEFT_OUT.to_owned(),
            (false, true, value) if !value.is_empty() => format!("{name}={LEFT_OUT}"),
            _ => word.to_owned(),
        });
        is_value = !is_value && OWN_OPTIONS.contains(&word);
    }
    shown.join(" ")
}

/// The words of a command line as fathom stores it, with their quotes.
fn shell_words(command: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let words = command.split(move |c: char| {
        is_quoted ^= c == '\'';
        !is_quoted && c.is_whitespace()
    });
    words.filter(|word| !word.is_empty())
}

fn unmask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(label) = fields.remove(ROW_LABEL) {
                fields.insert("label".to_owned(), label);
            }
            fields.values_mut().for_each(unmask);
        }
        Value::Array(items) => items.iter_mut().for_each(unmask),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::finding::{Finding, Severity};
    use fathom_model::record::{Record, RunHead};
    use serde_json::json;

    const SECRETS: &[&str] = &[
        "acmepayroll",
        "zebra",
        "bobsmith",
        "zc1a2b3c",
        "5000c500a1b2c3d4",
        "3f1a9c52",
        "e1f2ab47",
        "acmemix",
        "hunter2",
        "dbhost17",
        "10.20.30.40",
        "buildhost",
        "monday",
        "acmejob",
    ];

    fn head() -> RunHead {
        let value = json!({
            "id": "7f3kaaaaaaaa", "kind": "run", "label": "zebra-monday",
            "command": "fathom run /home/bobsmith/acmemix.toml /srv/acmepayroll --label zebra-monday --destroy=ZC1A2B3C threads=4",
            "target": "/srv/acmepayroll", "started_unix_ns": 1,
            "host": { "boot_id": "3f1a9c52-7b0e-4d31-9a86-0c5de1f2ab47", "kernel": "6.12", "kernel_build": "root@buildhost",
                      "machine": "Dell R740" },
            "fathom_version": "0.1.0",
        });
        serde_json::from_value(value).unwrap()
    }

    fn record() -> Record {
        let histogram = json!({ "count": 1, "min": 5, "max": 5, "sum": "5", "sum_squares": "123456789012345678901234567890",
                                "buckets": [5, 1] });
        let mut workload = serde_json::to_value(builtin::named("randread").unwrap()).unwrap();
        workload["name"] = json!("acmemix");
        workload["title"] = json!("what hunter2 does on dbhost17");
        workload["jobs"][0]["name"] = json!("acmejob");
        let value = json!({
            "version": 1, "label": "acmemix, 1 in flight", "workload": workload,
            "targets": [{
                "path": "/srv/acmepayroll/.fathom-x/f0", "kind": "own_file", "size_bytes": 1, "direct": true,
                "extents": { "source": "fiemap", "size_bytes": 1, "extents": 1, "fragments": 1, "first_byte": 0, "last_byte": 0,
                             "allocated_bytes": 0, "hole_bytes": 0, "unwritten_bytes": 0, "shared": false, "inline": false,
                             "encoded": false, "physical_is_logical": false, "share_of_device": 0.1 },
                "device_cache_bytes": 0, "device_cache_reason": "assumed for sda (ZC1A2B3C)", "memory_bytes": 0,
                "stack": { "path": "/srv/acmepayroll", "resolved_path": "/srv/acmepayroll", "top": 0, "nodes": [
                    { "kind": "disk", "name": "sda", "path": "/dev/sda", "mounted_at": [], "below": [],
                      "drive": { "model": "ST4000NM0035", "serial": "ZC1A2B3C", "wwn": "naa.5000c500a1b2c3d4" } }] },
            }],
            "jobs": [{
                "name": "acmejob",
                "engine": { "kind": "io_uring", "fallback": null, "features": ["single_issuer"], "threads": 1, "depth": 1, "batch": 1 },
                "classes": [{ "class": "read", "latency_ns": histogram, "bytes": 1 }], "series": [], "slowest": [], "censored": [],
                "batches": 1, "cpu": { "user_ns": 1, "system_ns": 1 }, "busiest_thread_cpu_ns": 1, "final_sync_ns": null,
                "window_ns": 1,
            }],
            "started_unix_ns": 1, "window_ns": 1, "process_cpu": { "user_ns": 1, "system_ns": 2 },
            "system_cpu": { "busy_share": 0.25, "iowait_share": 0.0, "steal_share": 0.0 }, "devices": [],
            "page_cache": { "dirtied_bytes": 0, "paged_in_bytes": 0 }, "suspended_ns": 0,
            "cell": {
                "slot": { "block": 0, "place": 0, "cell": 0, "is_sentinel": false }, "levels": [["scheduler", "none"]],
                "workload": "acmemix",
                "knobs": [{ "knob": "block.scheduler", "place": { "kind": "device", "id": "naa.5000c500a1b2c3d4", "name": "sda" },
                            "asked": "none", "before": "none", "after": "none" }],
                "setup": ["mount UUID=3f1a9c52-7b0e-4d31-9a86-0c5de1f2ab47 /srv/acmepayroll"], "void": null, "prepare_ns": 1,
                "output": "tps = 5, password hunter2, 10.20.30.40",
            },
            "ending": "complete", "failure": null, "seed": 1,
            "findings": [{ "id": "store-on-target", "severity": "note",
                "summary": "results are kept on the tested storage (/home/bobsmith/state/fathom.db)",
                "advice": ["ask hunter2@dbhost17.example.org", "nfs server 10.20.30.40"] }],
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_command_that_was_started_is_left_out_with_what_it_was_given() {
        for (command, shown) in [
            (
                "fathom watch --record --figure 'acme tps=tps = ([0-9.]+) -- x' sda -- psql -U alice -h dbhost17 'pass word'",
                "fathom watch --record --figure (left out) sda -- (left out)",
            ),
            (
                "fathom watch --figure=acme=x.y --count=3 sda",
                "fathom watch --figure=(left out) --count=3 sda",
            ),
            ("fathom run randread null: --keep", "fathom run randread null: --keep"),
        ] {
            assert_eq!(without_own_words(command), shown, "{command}");
        }
        let mut head = head();
        head.command =
            "fathom capture sda --from acmetrace.blk -- hunter2 --password=zebra".to_owned();
        let mut hider = Hider::new(7);
        hider.learn(&head);
        let shown = hider.hide(&head).unwrap().command;
        assert!(
            shown.starts_with("fathom capture sda --from ") && shown.ends_with(" -- (left out)"),
            "{shown}"
        );
        assert!(!shown.contains("acmetrace"), "{shown}");
    }

    #[test]
    fn names_of_processes_and_of_own_settings_are_replaced() {
        let capture = json!({ "capture": { "device": "sda", "processes": [{ "name": "acmebilling" }, { "name": "kworker" }] } });
        let knobs = json!({ "own_knobs": [{ "name": "acmething", "read": "cat /x", "write": "y", "values": ["1", "2"] }],
            "knobs": { "own.acmething": "1", "block.scheduler": "none" },
            "factors": [{ "name": "own.acmething", "sets": { "kind": "knob", "knob": "own.acmething" }, "levels": ["1", "2"] }] });
        let mut hider = Hider::new(7);
        hider.learn(&capture);
        hider.learn(&knobs);
        let (capture, knobs) = (hider.hide(&capture).unwrap(), hider.hide(&knobs).unwrap());
        let text = format!("{capture} {knobs}");
        assert!(!text.contains("acme"), "{text}");
        assert_eq!(knobs["factors"][0]["name"], knobs["factors"][0]["sets"]["knob"], "{text}");
        assert!(
            text.contains("\"own.") && text.contains("block.scheduler") && text.contains("sda"),
            "{text}"
        );
    }

    /// A watch has packed series, and the layers that it was of.
    #[test]
    fn the_layers_of_a_watch_have_nothing_that_identifies() {
        let nodes = json!([
            { "kind": "mount", "name": "/srv/acmepayroll", "mount": { "mount_point": "/srv/acmepayroll" } },
            { "kind": "loop", "name": "loop4", "loop_device": { "backing_file": "/srv/acmepayroll/acmedisk.img" } },
            { "kind": "disk", "name": "sda", "drive": { "serial": "acmes3rial77", "model": "ST4000NM0035" } },
        ]);
        let stack = json!({ "path": "/srv/acmepayroll", "nodes": nodes });
        let watch = json!({ "watch": { "start_us": "acmeAAAA", "devices": [{ "name": "loop4", "title": "acmedisk.img" }],
            "stacks": [{ "before": stack, "after": stack }] } });
        let mut hider = Hider::new(7);
        hider.learn(&watch);
        let hidden = hider.hide(&watch).unwrap();
        assert_eq!(hidden["watch"]["start_us"], "acmeAAAA", "a packed series is none");
        let text = hidden.to_string().replace("acmeAAAA", "");
        assert!(!text.contains("acme") && text.contains("ST4000NM0035"), "{text}");
    }

    #[test]
    fn names_of_figures_are_replaced_everywhere_and_their_values_stay() {
        let ended = json!({ "watch": { "ended": { "command": "x", "figures": { "acmeorders/s": 812.5, "zebra": 3, "own_read_bytes": 4096 },
            "missing": ["zebra2: acmeorders/s was not printed"] } } });
        let cell =
            json!({ "cell": { "application": { "acmeorders/s": 7.5, "read_files_per_s": 9 } } });
        let mut hider = Hider::new(7);
        hider.learn(&ended);
        hider.learn(&cell);
        let (ended, cell) = (hider.hide(&ended).unwrap(), hider.hide(&cell).unwrap());
        let text = format!("{ended} {cell}");
        assert!(!text.contains("acme") && !text.contains("\"zebra\""), "{text}");
        let figures = ended["watch"]["ended"]["figures"].as_object().unwrap();
        assert_eq!((figures.len(), &figures["own_read_bytes"]), (3, &json!(4096)), "{text}");
        let (name, _) = figures.iter().find(|(_, value)| **value == 812.5).unwrap();
        assert_eq!(cell["cell"]["application"][name], 7.5, "the same by the same: {text}");
        assert_eq!(cell["cell"]["application"]["read_files_per_s"], 9, "fathom's own: {text}");
        let missing = ended["watch"]["ended"]["missing"][0].as_str().unwrap();
        assert!(missing.contains(name.as_str()), "in sentences too: {missing}");
    }

    #[test]
    fn nothing_that_identifies_is_left_of_a_run_and_figures_stay() {
        let (head, record) = (head(), record());
        let finding = Finding::new(
            "x-y",
            Severity::Doubtful,
            "zebra-monday ran on /srv/acmepayroll, not bobsmith's",
        );
        let mut hider = Hider::new(7);
        hider.learn(&head);
        hider.learn(&vec![finding.clone()]);
        hider.learn(&record);
        let shown = (
            hider.hide(&head).unwrap(),
            hider.hide(&vec![finding]).unwrap(),
            hider.hide(&record).unwrap(),
        );
        let text = serde_json::to_string(&shown).unwrap().to_lowercase();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        for technical in [
            "st4000nm0035",
            "dell r740",
            "fiemap",
            "single_issuer",
            "scheduler",
            "store-on-target",
            "1 in flight",
            "sda",
        ] {
            assert!(text.contains(technical), "{technical} not in {text}");
        }
        let hidden = &shown.2;
        assert_eq!(hidden.jobs[0].classes, record.jobs[0].classes, "figures are as they were");
        assert_eq!(hidden.cell.as_ref().unwrap().levels, record.cell.as_ref().unwrap().levels);
        assert!(shown.0.command.starts_with("fathom run "), "{}", shown.0.command);
        let label = shown.0.label.as_deref().unwrap();
        assert!(shown.0.command.contains(label), "the same by the same: {}", shown.0.command);
        assert!(shown.1[0].summary.contains(label), "in sentences too: {}", shown.1[0].summary);
        assert!(hidden.targets[0].path.starts_with(&shown.0.target), "{}", hidden.targets[0].path);
        assert_eq!(hidden.label.split(", ").next(), Some(hidden.workload.name.as_str()));
    }
}
