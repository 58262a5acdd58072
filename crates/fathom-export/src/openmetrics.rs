//! Figures of stored runs for monitoring, in the text form of OpenMetrics 1.0: gauges and summaries only, so that older readers
//! of that form take it too.

use crate::{Run, word};
use fathom_model::finding::Severity;
use fathom_model::fsop_jobs::with_jobs;
use fathom_model::record::{ClassRecord, JobRecord};
use fathom_stats::Histogram;
use fathom_stats::quantile::is_supported;
use std::fmt::Write;

/// Figures of one kind.
struct Family {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    samples: String,
}

/// All figures, gathered run by run: those of one kind stand together.
pub struct Metrics {
    families: [Family; 10],
}

const INFO: usize = 0;
const START: usize = 1;
const VERDICT: usize = 2;
const FINDINGS: usize = 3;
const OPERATIONS: usize = 4;
const BYTES: usize = 5;
const LATENCY: usize = 6;
const LONGEST: usize = 7;
const RESPONSE: usize = 8;
const RESPONSE_LONGEST: usize = 9;

impl Default for Metrics {
    fn default() -> Self {
        let family =
            |name, kind, unit, help| Family { name, kind, unit, help, samples: String::new() };
        Self {
            families: [
                family("fathom_run_info", "gauge", "", "One for each run: what it was and where."),
                family(
                    "fathom_run_start_seconds",
                    "gauge",
                    "seconds",
                    "When it began, since 1970.",
                ),
                family(
                    "fathom_run_verdict",
                    "gauge",
                    "",
                    "One for the verdict that a run has, zero for the others.",
                ),
                family("fathom_run_findings", "gauge", "", "Findings by severity."),
                family(
                    "fathom_row_operations_per_second",
                    "gauge",
                    "",
                    "Operations that ended, by class.",
                ),
                family("fathom_row_bytes_per_second", "gauge", "", "Bytes moved, by class."),
                family(
                    "fathom_row_service_seconds",
                    "summary",
                    "seconds",
                    "Latency from hand-over to the kernel to the return.",
                ),
                family(
                    "fathom_row_service_longest_seconds",
                    "gauge",
                    "seconds",
                    "The longest latency.",
                ),
                family(
                    "fathom_row_response_seconds",
                    "summary",
                    "seconds",
                    "Of open loops, from the intended start to the return; what had not ended counts with its age.",
                ),
                family(
                    "fathom_row_response_longest_seconds",
                    "gauge",
                    "seconds",
                    "The longest response time; of an unfinished operation its age.",
                ),
            ],
        }
    }
}

impl Metrics {
    /// Adds the figures of a run.
    pub fn add(&mut self, run: &Run) {
        let head = &run.head;
        let id = [("run", head.id.clone())];
        let host = |value: &Option<String>| value.clone().unwrap_or_default();
        let info = [
            ("run", head.id.clone()),
            ("kind", word(&head.kind)),
            ("label", host(&head.label)),
            ("target", head.target.clone()),
            ("state", run.state.clone()),
            ("machine", host(&head.host.machine)),
            ("kernel", host(&head.host.kernel)),
            ("version", head.fathom_version.clone()),
        ];
        self.sample(INFO, "", &info, 1.0);
        self.sample(START, "", &id, head.started_unix_ns as f64 / 1e9);
        for verdict in ["trusted", "doubtful", "void"] {
            let is_it = run.verdict.is_some_and(|own| word(&own) == verdict);
            let labels = [("run", head.id.clone()), ("verdict", verdict.to_owned())];
            self.sample(VERDICT, "", &labels, f64::from(u8::from(is_it)));
        }
        for severity in [Severity::Note, Severity::Doubtful, Severity::Void] {
            let count = run.findings.iter().filter(|f| f.severity == severity).count();
            let labels = [("run", head.id.clone()), ("severity", word(&severity))];
            self.sample(FINDINGS, "", &labels, count as f64);
        }
        for (trial, record) in run.records.iter().map(with_jobs).enumerate() {
            for (index, job) in record.jobs.iter().enumerate() {
                for class in job.classes.iter().filter(|class| !class.latency_ns.is_empty()) {
                    let labels = [
                        ("run", head.id.clone()),
                        ("trial", trial.to_string()),
                        ("row", record.label.clone()),
                        ("job_index", index.to_string()),
                        ("job", job.name.clone()),
                        ("class", word(&class.class)),
                    ];
                    self.class(&labels, job, class);
                }
            }
        }
    }

    fn class(&mut self, labels: &[(&str, String)], job: &JobRecord, class: &ClassRecord) {
        let latency = &class.latency_ns;
        let window_s = job.window_ns.max(1) as f64 / 1e9;
        self.sample(OPERATIONS, "", labels, latency.count() as f64 / window_s);
        self.sample(BYTES, "", labels, class.bytes as f64 / window_s);
        self.times([LATENCY, LONGEST], labels, latency);
        let open = job.open_loop.iter().flat_map(|open| &open.classes);
        for response in open.filter(|response| response.class == class.class) {
            self.times([RESPONSE, RESPONSE_LONGEST], labels, &response.at_least_ns());
        }
    }

    /// A summary, and the longest.
    fn times(&mut self, families: [usize; 2], labels: &[(&str, String)], all: &Histogram) {
        let [summary, longest] = families;
        let seconds = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e9;
        for q in [0.5, 0.9, 0.99, 0.999] {
            if is_supported(all.count(), q) {
                let labels = [labels, &[("quantile", q.to_string())]].concat();
                self.sample(summary, "", &labels, seconds(all.quantile(q)));
            }
        }
        self.sample(summary, "_sum", labels, all.sum() as f64 / 1e9);
        self.sample(summary, "_count", labels, all.count() as f64);
        self.sample(longest, "", labels, seconds(all.max()));
    }

    fn sample(&mut self, family: usize, suffix: &str, labels: &[(&str, String)], value: f64) {
        let Family { name, samples, .. } = &mut self.families[family];
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(samples, "{name}{suffix}{{{}}} {value}", labels.join(","));
    }

    /// The text; it ends with `# EOF`, as the form wants.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for Family { name, kind, unit, help, samples } in &self.families {
            if samples.is_empty() {
                continue;
            }
            let _ = writeln!(out, "# TYPE {name} {kind}");
            if !unit.is_empty() {
                let _ = writeln!(out, "# UNIT {name} {unit}");
            }
            let _ = write!(out, "# HELP {name} {help}\n{samples}");
        }
        out + "# EOF\n"
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use std::collections::{BTreeMap, BTreeSet};

    /// Name, labels, value of a line, by the grammar of the form.
    fn parse(line: &str) -> (String, BTreeMap<String, String>, f64) {
        let (name, rest) = line.split_once('{').expect("labels");
        let is_name = |text: &str| {
            !text.is_empty()
                && !text.starts_with(|c: char| c.is_ascii_digit())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        assert!(is_name(name), "{line}");
        let (mut labels, mut chars) = (BTreeMap::new(), rest.chars().peekable());
        while chars.peek() != Some(&'}') {
            let label: String = std::iter::from_fn(|| chars.next_if(|c| *c != '=')).collect();
            assert!(is_name(&label), "{label} in {line}");
            assert_eq!((chars.next(), chars.next()), (Some('='), Some('"')), "{line}");
            let mut value = String::new();
            loop {
                match chars.next().expect("a closing quote") {
                    '"' => break,
                    '\\' => value.push(match chars.next() {
                        Some('n') => '\n',
                        Some(c @ ('\\' | '"')) => c,
                        other => panic!("{other:?} escaped in {line}"),
                    }),
                    c => value.push(c),
                }
            }
            assert!(labels.insert(label, value).is_none(), "a label twice: {line}");
            if chars.peek() == Some(&',') {
                chars.next();
            }
        }
        let value: String = chars.skip(1).collect();
        assert!(value.starts_with(' ') && !value[1..].contains(' '), "{line}");
        (name.to_owned(), labels, value.trim().parse().expect("a number"))
    }

    /// The rules of the form: families in one piece, metadata first and once, units as suffixes, no sample twice, an end.
    fn check(text: &str) -> Vec<(String, BTreeMap<String, String>, f64)> {
        let body = text.strip_suffix("# EOF\n").expect("an end");
        let (mut samples, mut seen, mut types) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let mut family = String::new();
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let (word, rest) = rest.split_once(' ').expect("a name");
                let (name, value) = rest.split_once(' ').expect("a value");
                match word {
                    "TYPE" => {
                        assert!(
                            types.insert(name.to_owned(), value.to_owned()).is_none(),
                            "{line} twice"
                        );
                        family = name.to_owned();
                    }
                    "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                    "HELP" => {}
                    other => panic!("{other}"),
                }
                assert_eq!(name, family, "metadata of another family");
                continue;
            }
            let (name, labels, value) = parse(line);
            let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} in {family}"));
            let allowed = match types[&family].as_str() {
                "gauge" => [""].as_slice(),
                "summary" => &["", "_sum", "_count"],
                other => panic!("{other}"),
            };
            assert!(allowed.contains(&suffix), "{line}");
            assert_eq!(
                labels.contains_key("quantile"),
                types[&family] == "summary" && suffix.is_empty()
            );
            assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
            samples.push((name, labels, value));
        }
        samples
    }

    #[test]
    fn the_text_keeps_the_rules_of_the_form() {
        let mut metrics = Metrics::default();
        let (run, mut other) = (samples::run(), samples::run());
        other.head.id = "9x0caaaaaaaa".into();
        metrics.add(&run);
        metrics.add(&other);
        let samples = check(&metrics.text());
        let value = |name: &str, wanted: &[(&str, &str)]| {
            let has = |labels: &BTreeMap<String, String>| {
                wanted.iter().all(|(k, v)| labels.get(*k).map(String::as_str) == Some(*v))
            };
            let found = samples.iter().find(|(n, labels, _)| n == name && has(labels));
            found.unwrap_or_else(|| panic!("no {name} {wanted:?}")).2
        };
        let read = [("run", "7f3kaaaaaaaa"), ("trial", "0"), ("class", "read")];
        assert!((value("fathom_row_operations_per_second", &read) - 1000.0).abs() < 1e-9);
        let latency = &run.records[0].jobs[0].classes[0].latency_ns;
        let median = [&read[..], &[("quantile", "0.5")]].concat();
        let expected = latency.quantile(0.5).expect("values") as f64 / 1e9;
        assert!((value("fathom_row_service_seconds", &median) - expected).abs() < 1e-12);
        assert!((value("fathom_row_service_seconds_count", &read) - 2000.0).abs() < 1e-9);
        // An open loop has response times, with what had not ended; a closed one has none.
        let open = [("run", "7f3kaaaaaaaa"), ("trial", "1"), ("class", "read")];
        assert!((value("fathom_row_response_seconds_count", &open) - 2001.0).abs() < 1e-9);
        let all = run.records[1].jobs[0].open_loop.as_ref().expect("one").classes[0].at_least_ns();
        let longest = all.max().expect("values") as f64 / 1e9;
        assert!((value("fathom_row_response_longest_seconds", &open) - longest).abs() < 1e-12);
        let closed = samples.iter().find(|(name, labels, _)| {
            name.starts_with("fathom_row_response") && labels["trial"] == "0"
        });
        assert!(closed.is_none(), "{closed:?}");
        assert!((value("fathom_run_verdict", &[("verdict", "trusted")]) - 1.0).abs() < 1e-9);
        let label = run.head.label.as_deref().expect("label");
        assert!(
            (value("fathom_run_info", &[("label", label)]) - 1.0).abs() < 1e-9,
            "escapes come back"
        );
    }
}
