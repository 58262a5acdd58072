//! Trace events as JSON, for Perfetto and chrome://tracing: runs are processes, trials and jobs are tracks, the slowest
//! operations are slices on tracks of their own, series are counters, findings are marks.

use crate::{Run, word};
use fathom_model::fsop::{FsopProcess, Role};
use fathom_model::fsop_jobs::{self, with_jobs};
use fathom_model::record::{JobRecord, OpClass, Record, SlowOp};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes trace events, run by run.
pub struct Trace<W: Write> {
    out: W,
    is_empty: bool,
    runs: u64,
    begin_unix_ns: i64,
}

/// The track of the trials; those of jobs follow.
const TRIALS: u64 = 1;
/// Tracks of slow operations of a job begin here, so many for each job.
const SLOW: u64 = 1000;
const SLOW_TRACKS: u64 = 64;

impl<W: Write> Trace<W> {
    /// Begins; times are shown from this one on.
    ///
    /// # Errors
    /// Those of the output.
    pub fn begin(mut out: W, begin_unix_ns: i64, fathom_version: &str) -> io::Result<Self> {
        let about =
            json!({ "fathom_version": fathom_version, "begin_unix_ns": begin_unix_ns.to_string() });
        write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[")?;
        Ok(Self { out, is_empty: true, runs: 0, begin_unix_ns })
    }

    /// Writes the end.
    ///
    /// # Errors
    /// Those of the output.
    pub fn end(mut self) -> io::Result<W> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        let comma = if self.is_empty { "\n" } else { ",\n" };
        self.is_empty = false;
        write!(self.out, "{comma}{event}")
    }

    /// Microseconds since the begin.
    fn us(&self, unix_ns: i64) -> f64 {
        (unix_ns - self.begin_unix_ns) as f64 / 1e3
    }

    fn name_track(&mut self, pid: u64, tid: u64, name: &str) -> io::Result<()> {
        self.put(&json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": name } }))
    }

    /// Writes a run.
    ///
    /// # Errors
    /// Those of the output.
    pub fn run(&mut self, run: &Run) -> io::Result<()> {
        self.runs += 1;
        let (pid, head) = (self.runs, &run.head);
        let name = format!("{} {} {}", head.id, word(&head.kind), head.target);
        self.put(&json!({ "ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": { "name": name } }))?;
        self.name_track(pid, TRIALS, "trials")?;
        for finding in &run.findings {
            self.put(&json!({
                "ph": "i", "s": "p", "name": finding.id, "cat": "finding", "pid": pid, "tid": TRIALS,
                "ts": self.us(head.started_unix_ns),
                "args": { "severity": word(&finding.severity), "summary": finding.summary },
            }))?;
        }
        let records: Vec<_> = run.records.iter().map(with_jobs).collect();
        let jobs = records.iter().map(|record| record.jobs.len()).max().unwrap_or(0);
        for index in 0..jobs as u64 {
            self.name_track(pid, TRIALS + 1 + index, &format!("job {index}"))?;
        }
        let mut named = Vec::new();
        for (trial, record) in records.iter().enumerate() {
            self.trial(pid, trial, record)?;
            for (index, job) in record.jobs.iter().enumerate() {
                self.job(pid, index as u64, record, job)?;
                let role = role_of(record, job);
                let of_role = role.iter().flatten().flat_map(|process| Slow::of_process(process));
                let slow = job.slowest.iter().map(Slow::of).chain(of_role).collect();
                self.slowest(pid, index as u64, record, slow, &mut named)?;
                if let Some(role) = &role {
                    self.by_second(pid, index as u64, record, role)?;
                }
            }
        }
        Ok(())
    }

    fn trial(&mut self, pid: u64, trial: usize, record: &Record) -> io::Result<()> {
        let cell = record.cell.as_deref();
        let levels: Vec<String> = cell
            .into_iter()
            .flat_map(|cell| &cell.levels)
            .map(|(f, l)| format!("{f}={l}"))
            .collect();
        let begin_us = self.us(record.started_unix_ns);
        if let Some(cell) = cell.filter(|cell| cell.prepare_ns > 0) {
            let length_us = cell.prepare_ns as f64 / 1e3;
            self.put(&json!({
                "ph": "X", "name": "prepare", "cat": "prepare", "pid": pid, "tid": TRIALS,
                "ts": begin_us - length_us, "dur": length_us, "args": { "trial": trial },
            }))?;
        }
        self.put(&json!({
            "ph": "X", "name": record.label, "cat": "trial", "pid": pid, "tid": TRIALS,
            "ts": begin_us, "dur": record.window_ns as f64 / 1e3,
            "args": { "trial": trial, "ending": word(&record.ending), "levels": levels.join(" ") },
        }))
    }

    fn job(&mut self, pid: u64, index: u64, record: &Record, job: &JobRecord) -> io::Result<()> {
        let begin_us = self.us(record.started_unix_ns);
        self.put(&json!({
            "ph": "X", "name": job.name, "cat": "job", "pid": pid, "tid": TRIALS + 1 + index,
            "ts": begin_us, "dur": job.window_ns as f64 / 1e3,
            "args": { "engine": word(&job.engine.kind), "threads": job.engine.threads, "depth": job.engine.depth },
        }))?;
        let counter = |name: &str, ns: u64, value: f64| {
            let name = format!("{name}, job {index} ({})", job.name);
            json!({ "ph": "C", "name": name, "pid": pid, "tid": 0, "ts": begin_us + ns as f64 / 1e3, "args": { "value": value } })
        };
        for interval in &job.series {
            let length_s = interval.length_ns.max(1) as f64 / 1e9;
            let count: u64 = interval.classes.iter().map(|class| class.latency_ns.count()).sum();
            let bytes: u64 = interval.classes.iter().map(|class| class.bytes).sum();
            let max = interval
                .classes
                .iter()
                .filter_map(|class| class.latency_ns.max())
                .max()
                .unwrap_or(0);
            self.put(&counter("operations/s", interval.start_ns, count as f64 / length_s))?;
            self.put(&counter("MB/s", interval.start_ns, bytes as f64 / length_s / 1e6))?;
            self.put(&counter("longest, ms", interval.start_ns, max as f64 / 1e6))?;
        }
        // Counters hold their value until the next one.
        if let Some(last) = job.series.last() {
            for name in ["operations/s", "MB/s", "longest, ms"] {
                self.put(&counter(name, last.start_ns + last.length_ns, 0.0))?;
            }
        }
        Ok(())
    }

    /// What the processes of a role got done, second by second.
    fn by_second(
        &mut self,
        pid: u64,
        index: u64,
        record: &Record,
        role: &[&FsopProcess],
    ) -> io::Result<()> {
        let seconds = role.iter().map(|process| process.operations_by_second.len()).max();
        let name = format!("operations/s, job {index}");
        for second in 0..=seconds.unwrap_or(0) {
            let of = |process: &&FsopProcess| process.operations_by_second.get(second).copied();
            let sum: u64 = role.iter().filter_map(of).sum();
            let ts = self.us(record.started_unix_ns) + second as f64 * 1e6;
            self.put(&json!({ "ph": "C", "name": name, "pid": pid, "tid": 0, "ts": ts, "args": { "value": sum } }))?;
        }
        Ok(())
    }

    /// Slices of one track must not overlap: each goes to the first track that is free again.
    fn slowest(
        &mut self,
        pid: u64,
        index: u64,
        record: &Record,
        mut operations: Vec<Slow>,
        named: &mut Vec<u64>,
    ) -> io::Result<()> {
        operations.sort_by_key(|op| op.begin_ns);
        let mut free_at = Vec::new();
        for op in operations {
            let begin_ns = op.begin_ns;
            let track = free_at.iter().position(|end| *end <= begin_ns).unwrap_or(free_at.len());
            match free_at.get_mut(track) {
                Some(end) => *end = op.end_ns,
                None => free_at.push(op.end_ns),
            }
            let tid = SLOW + index * SLOW_TRACKS * 4 + track as u64;
            if !named.contains(&tid) {
                named.push(tid);
                self.name_track(pid, tid, &format!("slowest operations, job {index}"))?;
            }
            let begin_us = self.us(record.started_unix_ns) + begin_ns as f64 / 1e3;
            self.put(&json!({
                "ph": "X", "name": word(&op.class), "cat": "slow", "pid": pid, "tid": tid,
                "ts": begin_us, "dur": op.took_ns as f64 / 1e3, "args": op.args,
            }))?;
        }
        Ok(())
    }
}

/// A slow operation on the time axis.
struct Slow {
    begin_ns: u64,
    end_ns: u64,
    took_ns: u64,
    class: OpClass,
    args: Value,
}

impl Slow {
    fn of(op: &SlowOp) -> Self {
        Self {
            begin_ns: op.end_ns.saturating_sub(op.latency_ns),
            end_ns: op.end_ns,
            took_ns: op.latency_ns,
            class: op.class,
            args: json!({ "file": op.file, "offset_bytes": op.offset_bytes, "size_bytes": op.size_bytes }),
        }
    }

    fn of_process(process: &FsopProcess) -> impl Iterator<Item = Self> {
        let args = json!({ "process": format!("{} {}", process.role.word(), process.number) });
        process.slowest.iter().map(move |op| Self {
            begin_ns: op.start_ns,
            end_ns: op.start_ns + op.took_ns,
            took_ns: op.took_ns,
            class: op.class,
            args: args.clone(),
        })
    }
}

/// The processes of a file server that a job stands for; none for other jobs, and for the transactions of clients, whose calls are a job.
fn role_of<'a>(record: &'a Record, job: &JobRecord) -> Option<Vec<&'a FsopProcess>> {
    let fsop = record.fsop.as_deref()?;
    let role = [Role::Reader, Role::Writer, Role::Client]
        .into_iter()
        .find(|role| job.name == fsop_jobs::name_of(*role))?;
    Some(fsop.of_role(role).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use std::collections::BTreeMap;

    #[test]
    fn events_keep_the_rules_of_the_form() {
        let run = samples::run();
        let mut trace = Trace::begin(Vec::new(), samples::START_NS, "0.1.0").expect("begins");
        trace.run(&run).expect("writes");
        trace.run(&run).expect("writes");
        let text = trace.end().expect("ends");
        let all: Value = serde_json::from_slice(&text).expect("JSON");
        let events = all["traceEvents"].as_array().expect("events");
        let mut ends: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
        for event in events {
            let number =
                |name: &str| event[name].as_f64().unwrap_or_else(|| panic!("{name}: {event}"));
            let whole =
                |name: &str| event[name].as_u64().unwrap_or_else(|| panic!("{name}: {event}"));
            assert!(event["name"].is_string() && (1..=2).contains(&whole("pid")), "{event}");
            let track = (whole("pid"), whole("tid"));
            match event["ph"].as_str().expect("a phase") {
                "M" => assert!(event["args"]["name"].is_string(), "{event}"),
                "X" => {
                    assert!(number("dur") >= 0.0, "{event}");
                    ends.entry(track)
                        .or_default()
                        .push((number("ts"), number("ts") + number("dur")));
                }
                "C" => {
                    assert!(event["args"]["value"].is_number() && number("ts") >= 0.0, "{event}")
                }
                "i" => assert_eq!(event["s"], "p"),
                other => panic!("{other}"),
            }
        }
        // A viewer shows slices of a track that overlap in part wrongly.
        for (track, mut slices) in ends {
            slices.sort_by(|a, b| a.0.total_cmp(&b.0));
            for two in slices.windows(2) {
                assert!(two[1].0 >= two[0].1 || two[1].1 <= two[0].1, "{track:?}: {two:?}");
            }
        }
        let count = |category: &str| events.iter().filter(|event| event["cat"] == category).count();
        assert_eq!(
            (count("trial"), count("slow"), count("prepare"), count("finding")),
            (4, 8, 2, 2)
        );
        let slow = events.iter().find(|event| event["cat"] == "slow").expect("one");
        assert_eq!(slow["dur"], 9079.919);
        assert_eq!(slow["ts"], 1000.0 + 900_000.0 - 9079.919);
    }

    /// Readers are one job and writers another; each has the slowest operations of its processes on tracks of its own, and what they got
    /// done second by second.
    #[test]
    fn roles_of_file_servers_are_jobs() {
        let process = |role: &str, number: u32, slow: [u64; 2]| {
            json!({
                "role": role, "number": number, "classes": [], "crossings": [],
                "slowest": [{"class": "open_read", "start_ns": slow[0], "took_ns": slow[1]}],
                "operations_by_second": [10 + number, 20], "rounds": 0, "vanished": 0,
            })
        };
        let fsop = json!({
            "spec": {}, "phase": {"readers": 2, "writers": 1}, "repeat": 1, "tree": {}, "caches": "went_on",
            // The readers' slowest overlap: they cannot be on one track.
            "processes": [process("reader", 0, [500, 2_000_000]), process("reader", 1, [600, 1_000_000]),
                          process("writer", 0, [700, 3_000_000])],
            "seconds": [], "stream": {}, "end_seen_late_ns": 0,
        });
        let mut run = samples::run();
        run.records.truncate(1);
        run.records[0].jobs.clear();
        run.records[0].fsop = Some(Box::new(serde_json::from_value(fsop).expect("a phase")));
        let mut trace = Trace::begin(Vec::new(), samples::START_NS, "0.1.0").expect("begins");
        trace.run(&run).expect("writes");
        let all: Value = serde_json::from_slice(&trace.end().expect("ends")).expect("JSON");
        let events = all["traceEvents"].as_array().expect("events");
        let of = |cat: &str| events.iter().filter(|e| e["cat"] == cat).collect::<Vec<_>>();
        let jobs: Vec<_> =
            of("job").iter().map(|e| (e["name"].clone(), e["args"]["threads"].clone())).collect();
        assert_eq!(jobs, [(json!("readers"), json!(2)), (json!("writers"), json!(1))]);
        let slow: Vec<_> =
            of("slow").iter().map(|e| (e["args"]["process"].clone(), e["dur"].clone())).collect();
        let expected = [("reader 0", 2000.0), ("reader 1", 1000.0), ("writer 0", 3000.0)];
        assert_eq!(slow, expected.map(|(name, us)| (json!(name), json!(us))));
        let mut tracks: Vec<_> =
            of("slow").iter().map(|e| e["tid"].as_u64().expect("a track")).collect();
        tracks.sort_unstable();
        tracks.dedup();
        assert_eq!(tracks.len(), 3, "{tracks:?}");
        let named = |track: u64| {
            events.iter().any(|e| e["ph"] == "M" && e["name"] == "thread_name" && e["tid"] == track)
        };
        assert!(tracks.into_iter().all(named));
        let counts: Vec<_> = events
            .iter()
            .filter(|e| e["ph"] == "C")
            .map(|e| (e["name"].clone(), e["args"]["value"].clone()))
            .collect();
        let of_job = |job: u64, values: [u64; 3]| {
            values.map(|v| (json!(format!("operations/s, job {job}")), json!(v)))
        };
        // Counters hold their value until the next one: the last says that nothing is known any more.
        assert_eq!(counts, [of_job(0, [21, 40, 0]), of_job(1, [10, 20, 0])].concat());
    }
}
