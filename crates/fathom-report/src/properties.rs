//! What holds for the texts of any record, however odd.

use crate::classic;
use crate::detail::run_detail;
use crate::sample;
use crate::summary::{quick_table, run_table};
use crate::text::{WIDTH, WIDTH_MIN};
use fathom_model::record::{CpuTime, OpClass, Record};
use fathom_study::repeats;
use jiff::tz::TimeZone;
use proptest::prelude::*;

/// From nothing to a thousand seconds, every order of magnitude as likely.
fn latency_ns() -> impl Strategy<Value = u64> {
    (0u32..40).prop_flat_map(|bits| 0..(1u64 << bits))
}

/// A class, its latencies, and bytes per nanosecond of the window.
fn class() -> impl Strategy<Value = (usize, Vec<u64>, u64)> {
    (0..OpClass::ALL.len(), prop::collection::vec(latency_ns(), 0..20), 0..200u64)
}

/// None, or from a millisecond to a thousand seconds.
fn window_ns() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 9 => (20u32..40).prop_flat_map(|bits| 1u64 << (bits - 1)..1 << bits)]
}

fn record() -> impl Strategy<Value = Record> {
    let label = "[ -~]{0,60}";
    (label, prop::collection::vec(class(), 0..4), window_ns(), 0..512u64, 1u32..100_000).prop_map(
        |(label, classes, window_ns, cpus, threads)| {
            let cpu_ns = cpus * window_ns;
            let classes = classes.into_iter().map(|(class, values, bytes_per_ns)| {
                let mut record = sample::class(OpClass::ALL[class], 0, 1, 0);
                values.iter().for_each(|value| record.latency_ns.record(*value));
                record.bytes = bytes_per_ns * window_ns;
                record
            });
            let mut record = sample::record("randomio", &label, classes.collect());
            record.window_ns = window_ns;
            record.process_cpu = CpuTime { user_ns: cpu_ns, system_ns: cpu_ns / 2 };
            let job = &mut record.jobs[0];
            job.window_ns = window_ns;
            job.engine.threads = threads;
            job.cpu = record.process_cpu;
            job.final_sync_ns = (cpus % 2 == 1).then_some(window_ns / 3);
            record
        },
    )
}

proptest! {
    #[test]
    fn results_fit_narrow_terminals(record in record(), width in WIDTH_MIN..WIDTH) {
        let records = [record.clone(), record];
        for text in [
            quick_table(&records, &[(0, "where throughput stops growing")], width),
            run_table(&records, &repeats::study(&records), width),
            run_detail(&records[0], &TimeZone::UTC, width),
        ] {
            let wide = text.lines().find(|line| line.len() > width);
            prop_assert!(wide.is_none(), "{width}: {wide:?}");
        }
    }

    #[test]
    fn texts_are_ascii_narrow_and_end_with_a_newline(record in record()) {
        let records = [record.clone(), record];
        for text in [
            quick_table(&records, &[], WIDTH),
            run_table(&records, &repeats::study(&records), WIDTH),
            run_detail(&records[0], &TimeZone::UTC, WIDTH),
            classic::randomio(&records[0], classic::Rows::Window),
            classic::randomio(&records[0], classic::Rows::Intervals),
            classic::seeker(&records[0]),
            classic::sdd(&records[0]),
            classic::dd(&records[0]),
        ] {
            prop_assert!(text.is_ascii() && text.ends_with('\n'), "{text}");
            let wide = text.lines().find(|line| line.len() > WIDTH && line.contains("  "));
            prop_assert!(wide.is_none(), "{wide:?}");
            prop_assert!(!text.lines().any(|line| line.ends_with(' ')), "{text}");
        }
    }
}
