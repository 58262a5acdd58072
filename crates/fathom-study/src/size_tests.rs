//! Sizes and durations that agree or not. The conditions are injected.

use super::*;
use crate::fixtures::{reads, record, seconds};
use fathom_model::finding::Verdict;

const SECOND_NS: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;

/// A run whose single seconds have these rates.
fn run(size_bytes: u64, rates: &[u64]) -> Record {
    let mut record = record();
    let job = &mut record.workload.jobs[0];
    (job.span, job.duration_ns) =
        (Some(Extent::Bytes(size_bytes)), Some(rates.len() as u64 * SECOND_NS));
    reads(&mut record, rates.iter().sum(), 200_000);
    record.jobs[0].series = seconds(rates.iter().copied());
    record.jobs[0].window_ns = rates.len() as u64 * SECOND_NS;
    record.window_ns = record.jobs[0].window_ns;
    record
}

fn steady(size_bytes: u64, seconds: usize, rates: &[u64]) -> Vec<Record> {
    rates.iter().map(|rate| run(size_bytes, &vec![*rate; seconds])).collect()
}

fn outcomes(sizes: &Sizes) -> Vec<(u64, u64, bool, Outcome)> {
    let one = |c: &Cell| (c.size_bytes >> 20, c.duration_ns / SECOND_NS, c.is_part, c.outcome);
    sizes.cells.iter().map(one).collect()
}

#[test]
fn injected_a_small_set_that_a_cache_answers_is_rejected() {
    let mut records = steady(8 * GIB, 8, &[1000, 1010, 995, 1005]);
    records.extend(steady(8 * GIB, 5, &[1002, 998, 1004]));
    records.extend(steady(2 * GIB, 5, &[1008, 996, 1001]));
    let mut cached = steady(GIB / 2, 5, &[1003, 1001, 1004]);
    cached.iter_mut().for_each(|r| r.devices[0].read_bytes /= 2);
    records.extend(cached);
    records.extend(steady(GIB / 8, 5, &[4000, 4100, 4050]));
    let sizes = study(&records, 0.05).expect("measured");
    assert_eq!(
        outcomes(&sizes),
        [
            (8192, 8, false, Outcome::Reference),
            (8192, 5, true, Outcome::Agrees),
            (8192, 2, true, Outcome::Agrees),
            (8192, 1, true, Outcome::Agrees),
            (8192, 5, false, Outcome::Agrees),
            (2048, 5, false, Outcome::Agrees),
            (512, 5, false, Outcome::Cache),
            (128, 5, false, Outcome::Differs),
        ]
    );
    assert_eq!(sizes.answer, Some((2 * GIB, 5 * SECOND_NS)));
    let cached = &sizes.cells[6];
    assert!(cached.reason.starts_with("cache: 50 % of what was read did not come"), "{cached:?}");
    let small = &sizes.cells[7];
    assert!(small.reason.contains("less than twice the caches (256 MiB)"), "{small:?}");
    assert!(small.reason.starts_with("+30") && small.reason.contains(" % (+"), "{small:?}");
}

/// What answers in the reference too is no reason against a shorter run of the same set, but one against a smaller set.
#[test]
fn injected_a_cache_in_the_reference_itself() {
    let mut records = steady(8 * GIB, 8, &[1000, 1010, 995, 1005]);
    records.extend(steady(8 * GIB, 5, &[1002, 998, 1004]));
    records.extend(steady(2 * GIB, 5, &[1008, 996, 1001]));
    records.iter_mut().for_each(|r| r.devices[0].read_bytes /= 2);
    let sizes = study(&records, 0.05).expect("measured");
    let own: Vec<_> = outcomes(&sizes).into_iter().filter(|c| !c.2).map(|c| c.3).collect();
    assert_eq!(own, [Outcome::Reference, Outcome::Agrees, Outcome::Cache]);
}

#[test]
fn injected_a_run_that_is_too_short_to_warm_up_is_rejected() {
    let warming = |last: u64| {
        run(8 * GIB, &[400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, last])
    };
    let records: Vec<Record> = [1000, 1030, 990, 1010].map(warming).into();
    // Five seconds are 10 % off, ten are 1.4 %.
    assert_eq!(short_enough(&records, 0.05), 10 * SECOND_NS);
    assert_eq!(short_enough(&records, 0.01), 12 * SECOND_NS, "none but the whole");
    let sizes = study(&records, 0.05).expect("measured");
    let short = sizes.cells.iter().find(|c| c.duration_ns == 2 * SECOND_NS).expect("looked at");
    assert!(
        short.outcome == Outcome::Differs && short.reason.starts_with("too short: "),
        "{short:?}"
    );
    assert_eq!(sizes.answer, None);
}

#[test]
fn injected_noise_is_no_agreement() {
    let mut records = steady(8 * GIB, 5, &[1000, 1100, 950, 1040]);
    records.extend(steady(2 * GIB, 4, &[900, 1100, 1000]));
    records.extend(steady(GIB, 4, &[1000, 1000]));
    let sizes = study(&records, 0.05).expect("measured");
    let of = |mib: u64| sizes.cells.iter().find(|c| c.size_bytes >> 20 == mib).expect("there");
    assert_eq!((of(2048).outcome, of(1024).outcome), (Outcome::TooNoisy, Outcome::TooFew));
    assert!(of(2048).reason.contains("too wide for a margin of 5 %"), "{:?}", of(2048));
    assert!(
        sizes.cells[0].reason.contains("15.8 % apart: hardly anything"),
        "{:?}",
        sizes.cells[0]
    );
    assert_eq!(sizes.answer, None);
}

/// A size counts only when all larger ones agree too.
#[test]
fn injected_a_lucky_small_one_is_no_answer() {
    let mut records = steady(8 * GIB, 5, &[1000, 1001, 999, 1000]);
    records.extend(steady(2 * GIB, 2, &[1200, 1201, 1199]));
    records.extend(steady(GIB, 2, &[1000, 1001, 999]));
    assert_eq!(study(&records, 0.05).expect("measured").answer, None);
}

#[test]
fn sizes_fall_by_one_factor() {
    let mib = |bytes: u64| smaller(bytes).iter().map(|b| b >> 20).collect::<Vec<_>>();
    assert_eq!(mib(4 * GIB), [1024, 256, 64, 16]);
    assert_eq!(mib(512 * MIB), [256, 128, 64, 32, 16]);
    assert_eq!(mib(16 * MIB), Vec::<u64>::new());
    assert_eq!(mib(4 << 40), [256 << 10, 16 << 10, 1 << 10, 64], "of a disk of 4 TiB");
    for bytes in (1..200).map(|i| i * 37 * MIB) {
        assert!(smaller(bytes).len() <= 5 && smaller(bytes).iter().all(|b| b % MIB == 0));
    }
}

#[test]
fn injected_the_gap_is_narrowed_from_both_sides() {
    let mut records = steady(8 * GIB, 8, &[1000, 1010, 995, 1005]);
    let small = steady(2 * GIB, 8, &[1300, 1310, 1305]);
    records.extend(small);
    let next = |records: &[Record]| study(records, 0.05).expect("measured").between();
    assert_eq!(next(&records), Some(4 * GIB), "between the reference and the first smaller one");
    records.extend(steady(4 * GIB, 8, &[1003, 998, 1001]));
    assert_eq!(next(&records), Some(2896 * MIB));
    records.extend(steady(2896 * MIB, 8, &[1150, 1155, 1145]));
    assert_eq!(next(&records), Some(3444 * MIB));
    records.extend(steady(3444 * MIB, 8, &[1002, 999, 1001]));
    let sizes = study(&records, 0.05).expect("measured");
    assert_eq!((sizes.between(), sizes.gap()), (None, None), "these are near");
    assert_eq!(sizes.answer, Some((3444 * MIB, 8 * SECOND_NS)));
    assert_eq!(sizes.rejected.map(|at| sizes.cells[at].size_bytes), Some(2896 * MIB));
    // Noise is narrowed by more runs, not by other sizes.
    let mut noisy = steady(8 * GIB, 8, &[1000, 1010, 995, 1005]);
    noisy.extend(steady(2 * GIB, 8, &[900, 1100, 1000]));
    assert_eq!(next(&noisy), None);
    // All agree: there is nothing between.
    let mut equal = steady(8 * GIB, 8, &[1000, 1010, 995, 1005]);
    equal.extend(steady(2 * GIB, 8, &[1000, 1001, 1002]));
    assert_eq!(next(&equal), None);
    // The largest set for a shorter time: when that does not agree, no smaller one matters.
    let mut short = steady(8 * GIB, 8, &[1000, 1010, 995, 1005]);
    short.extend(steady(8 * GIB, 2, &[1300, 1310, 1305]));
    assert_eq!(next(&short), None);
}

/// The worked example of the study that the rule is from: 800 GB of data, 12.9 GB of memory, caches of 516 MB.
#[test]
fn the_real_life_set_of_the_published_example() {
    let bytes = real_life_bytes(516_000_000, 800_000_000_000, 12_900_000_000);
    assert_eq!(bytes, 32_000_000_000);
    assert_eq!(real_life_bytes(u64::MAX, u64::MAX, 0), u64::MAX);
}

#[test]
fn answers_are_settings() {
    assert_eq!(settings((2 * GIB, 5 * SECOND_NS), "size"), "size=2G duration=5s");
    assert_eq!(settings((1500 * MIB, 60 * SECOND_NS), "span"), "span=1500M duration=60s");
}

#[test]
fn only_the_reference_is_judged() {
    let mut records = steady(8 * GIB, 60, &[1000, 1001, 999]);
    records.extend(steady(16 * MIB, 5, &[9000, 9001]));
    let study = judge(&records);
    assert_eq!(study.verdict, Verdict::Trusted, "{:?}", study.findings);
    records[4].ending = Ending::Interrupted;
    assert_eq!(judge(&records).verdict, Verdict::Doubtful);
}
