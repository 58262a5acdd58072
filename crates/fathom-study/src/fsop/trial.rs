//! What a trial of a file server in an experiment comes to: one number for each figure, from the records of its phases.

use super::{Kept, fairness, readers_rate};
use crate::play;
use fathom_model::fsop::{FsopProcess, FsopRecord, Role};
use fathom_model::plan::Metric;
use fathom_model::record::{Ending, OpClass, Record};
use fathom_stats::Histogram;
use std::collections::BTreeMap;

/// A percentile needs so many events beyond it to be worth comparing.
const EVENTS_BEYOND: f64 = 10.0;

/// The name of the rate that readers had without writers; it stands beside the figures that are compared.
pub const ALONE: &str = "read_files_per_s_alone";

/// The name of the time of a mount after a clean end; it stands beside the one after a crash.
pub const CLEAN_MOUNT: &str = "clean_mount_ns";

/// The figures of a trial by name: those of its last phase, and what readers keep of their rate in the phase of the same
/// readers alone. Percentiles of too few operations are left out, and all of a trial that was cut.
#[must_use]
pub fn figures(records: &[Record]) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let whole = records.iter().all(|record| record.ending == Ending::Complete);
    let phases = records.iter().filter_map(|record| Some((record, record.fsop.as_deref()?)));
    let phases: Vec<(&Record, &FsopRecord)> = phases.collect();
    let Some((last, fsop)) = phases.last().copied().filter(|_| whole) else { return figures };
    let mut add = |metric: Metric, value: Option<f64>| {
        if let Some((name, value)) = metric.of_file_server().zip(value) {
            figures.insert(name.to_owned(), value);
        }
    };
    let read_per_s = (fsop.phase.readers > 0).then(|| readers_rate(last, fsop, Kept::Files));
    let is_alone = |(_, of): &&(&Record, &FsopRecord)| {
        of.phase.readers == fsop.phase.readers && of.phase.writers == 0
    };
    let alone = phases.iter().filter(|_| fsop.phase.writers > 0).rfind(is_alone);
    let alone_per_s = alone.map(|(record, of)| readers_rate(record, of, Kept::Files));
    let alone_per_s = alone_per_s.filter(|rate| *rate > 0.0);
    add(Metric::ReadFiles, read_per_s);
    add(Metric::ReadersKeep, read_per_s.zip(alone_per_s).map(|(beside, alone)| beside / alone));
    let written = |made: u64| made as f64 * 1e9 / last.window_ns.max(1) as f64;
    let made = latency(fsop, Role::Writer, OpClass::OpenWrite).count();
    add(Metric::WrittenFiles, (fsop.phase.writers > 0).then(|| written(made)));
    add(Metric::OpenP99, p99(&latency(fsop, Role::Reader, OpClass::OpenRead)));
    add(Metric::MkdirP99, p99(&latency(fsop, Role::Writer, OpClass::MakeDir)));
    add(Metric::ReadBytes, bytes_per_s(last, fsop, Role::Reader));
    add(Metric::WrittenBytes, bytes_per_s(last, fsop, Role::Writer));
    add(Metric::ReadDataRate, read_data_per_s(fsop));
    add(Metric::FirstReadP99, p99(&latency(fsop, Role::Reader, OpClass::FirstRead)));
    add(Metric::CreateP99, p99(&latency(fsop, Role::Writer, OpClass::OpenWrite)));
    add(Metric::CloseP99, p99(&latency(fsop, Role::Writer, OpClass::CloseWrite)));
    add(Metric::Longest, longest_ns(last, fsop).map(|ns| ns as f64));
    for (metric, role) in [
        (Metric::ReaderFairness, Role::Reader),
        (Metric::WriterFairness, Role::Writer),
        (Metric::ClientFairness, Role::Client),
    ] {
        add(metric, fairness(fsop, role).map(|fairness| fairness.jain));
    }
    add(Metric::Transactions, play::transactions_per_s(last, fsop));
    add(Metric::TransactionP99, fsop.spec.play.as_ref().and_then(|_| p99(&transactions(fsop))));
    figures.extend(alone_per_s.map(|rate| (ALONE.to_owned(), rate)));
    figures
}

/// All operations of a class of all processes of a role.
fn latency(fsop: &FsopRecord, role: Role, class: OpClass) -> Histogram {
    let mut all = Histogram::new();
    let each = fsop.of_role(role).filter_map(|process| process.class(class));
    each.for_each(|of| all.merge(&of.latency_ns));
    all
}

/// Bytes of all processes of a role; none where there are none of it.
fn bytes_per_s(record: &Record, fsop: &FsopRecord, role: Role) -> Option<f64> {
    let bytes: u64 = fsop.of_role(role).map(FsopProcess::bytes).sum();
    let is_there = fsop.of_role(role).next().is_some();
    is_there.then_some(bytes as f64 * 1e9 / record.window_ns.max(1) as f64)
}

/// What readers got of the rest of files, by the time that these reads took: of one reader on the average.
fn read_data_per_s(fsop: &FsopRecord) -> Option<f64> {
    let read = fsop.of_role(Role::Reader).filter_map(|process| process.class(OpClass::RestRead));
    let (bytes, ns) =
        read.fold((0, 0), |(bytes, ns), class| (bytes + class.bytes, ns + class.latency_ns.sum()));
    (ns > 0).then_some(bytes as f64 * 1e9 / ns as f64)
}

/// The longest operation: what crossed a border of the window counts with its age, or with all that it took.
fn longest_ns(record: &Record, fsop: &FsopRecord) -> Option<u64> {
    let one = |process: &FsopProcess| {
        let inside = process.classes.iter().filter_map(|class| class.latency_ns.max());
        let crossed = process.crossings.iter().filter(|c| c.inside_ns(record.window_ns) > 0);
        let crossed = crossed.filter_map(|c| c.age_at_end_ns(record.window_ns).or(c.took_ns));
        inside.chain(crossed).max()
    };
    fsop.processes.iter().filter_map(one).max()
}

/// All transactions of all clients. With a rate from when each was due, and what had not ended counts with its age: else those
/// that a full server never came to would make it look fast.
fn transactions(fsop: &FsopRecord) -> Histogram {
    let mut all = Histogram::new();
    for act in fsop.acts() {
        all.merge(act.response_ns.as_ref().unwrap_or(&act.service_ns));
    }
    let played = fsop.processes.iter().filter_map(|process| process.played.as_ref());
    let rates = played.filter_map(|played| played.rate.as_ref());
    rates.for_each(|rate| all.merge(&rate.unfinished_ns));
    all
}

fn p99(latency_ns: &Histogram) -> Option<f64> {
    let beyond = latency_ns.count() as f64 * 0.01;
    (beyond >= EVENTS_BEYOND).then_some(latency_ns.quantile(0.99)? as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_model::fsop::Crossing;
    use fathom_model::record::ClassRecord;

    fn pairs(records: &[Record]) -> Vec<(String, f64)> {
        figures(records).into_iter().collect()
    }

    #[test]
    fn the_last_phase_against_the_readers_alone() {
        // Windows of 30 s; each operation took 10 us.
        let records = [
            fixtures::server(&[9_000], &[]),
            fixtures::server(&[3_000, 3_000], &[]),
            fixtures::server(&[1_000, 500], &[2_000, 1_000]),
        ];
        let got = figures(&records);
        assert_eq!(got[ALONE], 200.0);
        assert_eq!((got["read_files_per_s"], got["readers_keep"]), (50.0, 0.25));
        assert_eq!(got["written_files_per_s"], 100.0);
        let close = |name: &str| (got[name] / 10_000.0 - 1.0).abs() < 0.02;
        assert!(close("open_p99_ns") && close("mkdir_p99_ns"), "{got:?}");
    }

    /// Every figure against a sum by hand; what hangs over the end of the window is the longest by its age.
    #[test]
    fn operations_one_by_one_and_who_got_how_much() {
        let mut record = fixtures::server(&[3_000, 1_000], &[1_000, 1_000]);
        let fsop = record.fsop.as_deref_mut().expect("a file server");
        let class = |class, each_ns: u64, count, bytes| {
            let mut latency_ns = Histogram::new();
            latency_ns.record_n(each_ns, count);
            ClassRecord { class, latency_ns, bytes }
        };
        let more = [
            class(OpClass::FirstRead, 2_000_000, 1_000, 1_000),
            class(OpClass::RestRead, 500_000, 1_000, 25_000_000),
        ];
        fsop.processes[0].classes.extend(more);
        fsop.processes[3].classes.push(class(OpClass::CloseWrite, 7_000_000, 1_000, 0));
        fsop.processes[2].crossings =
            vec![Crossing { class: OpClass::MakeDir, start_ns: 10_400_000_000, took_ns: None }];
        let got = figures(&[record]);
        // Readers opened 4000 of 1000 bytes each, and one read 1000 bytes and 25 MB more, in 30 s.
        assert_eq!(got["read_bytes_per_s"], (4_000_000 + 1_000 + 25_000_000) as f64 / 30.0);
        assert!((got["read_data_bytes_per_s"] / 50e6 - 1.0).abs() < 1e-6, "25 MB in 0.5 s");
        let near = |name: &str, ns: f64| (got[name] / ns - 1.0).abs() < 0.02;
        assert!(near("first_read_p99_ns", 2e6) && near("close_p99_ns", 7e6), "{got:?}");
        assert!(near("create_p99_ns", 1e4), "{got:?}");
        assert_eq!(got["longest_ns"], 19_600_000_000.0);
        // 5000 and 1000 operations: (6000 x 6000) / (2 x (25e6 + 1e6)); 2000 and 3000 of writers.
        assert!((got["reader_fairness"] - 36.0 / 52.0).abs() < 1e-12, "{got:?}");
        assert!((got["writer_fairness"] - 25.0 / 26.0).abs() < 1e-12, "{got:?}");
    }

    #[test]
    fn what_was_not_asked_for_is_not_there() {
        let alone = pairs(&[fixtures::server(&[600], &[])]);
        let named = |pairs: &[(&str, f64)]| -> Vec<(String, f64)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let reads =
            [("longest_ns", 10_000.0), ("read_bytes_per_s", 20_000.0), ("read_files_per_s", 20.0)];
        assert_eq!(alone, named(&reads), "600 opens have no p99, and one reader no fairness");
        let writers = pairs(&[fixtures::server(&[], &[30])]);
        let writes = [
            ("longest_ns", 10_000.0),
            ("written_bytes_per_s", 2_000.0),
            ("written_files_per_s", 1.0),
        ];
        assert_eq!(writers, named(&writes));
        let mut cut = fixtures::server(&[600], &[]);
        cut.ending = Ending::Failed;
        assert!(pairs(&[cut]).is_empty() && pairs(&[fixtures::record()]).is_empty());
    }

    #[test]
    fn a_personality_comes_to_transactions() {
        use fathom_model::play::{PlayAct, PlayedRate};
        let acts = [(PlayAct::Deliver, 3_000), (PlayAct::Stat, 1_500)];
        let got = figures(&[fixtures::clients(&acts, None)]);
        assert_eq!(got["transactions_per_s"], 300.0, "4500 of each of two clients in 30 s");
        assert!((got["transaction_p99_ns"] / 1e6 - 1.0).abs() < 0.02, "{got:?}");
        let fair = (got["client_fairness"] - 1.0).abs() < 1e-9;
        assert!(fair && got.contains_key("longest_ns") && got.len() == 4, "{got:?}");
        let mut rate = PlayedRate::default();
        rate.unfinished_ns.record_n(700_000_000, 60);
        let due = figures(&[fixtures::clients(&acts, Some(rate.clone()))]);
        assert!((due["transaction_p99_ns"] / 7e8 - 1.0).abs() < 0.02, "what never ended: {due:?}");
        rate.unfinished_ns = Histogram::new();
        let due = figures(&[fixtures::clients(&acts, Some(rate))]);
        assert!((due["transaction_p99_ns"] / 5e6 - 1.0).abs() < 0.02, "the response: {due:?}");
        let few = figures(&[fixtures::clients(&[(PlayAct::Deliver, 100)], None)]);
        assert!(!few.contains_key("transaction_p99_ns"), "200 of them have none: {few:?}");
    }

    #[test]
    fn readers_that_come_to_nothing_keep_nothing() {
        let got = figures(&[fixtures::server(&[600], &[]), fixtures::server(&[0], &[30])]);
        assert_eq!((got["read_files_per_s"], got["readers_keep"]), (0.0, 0.0));
    }
}
