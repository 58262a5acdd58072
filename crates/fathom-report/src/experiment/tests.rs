//! Whole texts, as people read them.

use super::*;
use crate::sample;
use expect_test::expect;
use fathom_model::plan::Plan;
use fathom_model::plan::cell::{Cell, Slot};
use fathom_model::plan::setup::SetupSpec;
use fathom_model::record::{ClassRecord, OpClass, Record};
use fathom_stats::Histogram;
use fathom_study::experiment::study;
use serde_json::json;

/// A plan of knobs, its cells, and a record for each cell and block.
fn experiment(
    factors: &[(&str, &[&str])],
    blocks: u32,
    iops: impl Fn(&[&str], u32) -> u64,
) -> (Plan, Vec<Cell>, Vec<Record>) {
    let factor = |(name, levels): &(&str, &[&str])| json!({"name": name, "sets": {"kind": "knob", "id": format!("block.{name}")}, "levels": levels});
    let plan = json!({
        "version": 1, "name": "scheduler", "question": "Which scheduler suits the disk?", "target": "/srv",
        "workloads": [{"label": "read", "name": "randread", "settings": {}}], "is_together": false,
        "factors": factors.iter().map(factor).collect::<Vec<_>>(),
        "setup": SetupSpec::default(), "knobs": {}, "own_knobs": [],
        "design": {
            "kind": "full", "baseline": {}, "except": [], "blocks": 8, "is_sequential": false, "has_sentinel": false,
            "margin": 0.03, "groups_setups": false,
        },
        "objectives": [{"metric": "iops"}],
        "prepare": {
            "drops_caches": false, "remounts": false, "settle_ns": 0, "quiet_ns": 0, "quiet_wait_ns": 0,
            "swap_off": false, "stop_services": [],
        },
        "budget": {}, "on_error": "stop",
    });
    let plan: Plan = serde_json::from_value(plan).expect("a plan");
    let mut combinations: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for (name, levels) in factors {
        combinations = combinations
            .iter()
            .flat_map(|known| {
                levels.iter().map(|level| [known.as_slice(), &[(*name, *level)]].concat())
            })
            .collect();
    }
    let cells: Vec<Cell> = (0u32..)
        .zip(&combinations)
        .map(|(index, levels)| {
            let cell = json!({
                "index": index, "levels": levels, "knobs": {}, "setup": SetupSpec::default(),
                "workloads": &plan.workloads, "boot": {},
            });
            serde_json::from_value(cell).expect("a cell")
        })
        .collect();
    let mut records = Vec::new();
    for block in 0..blocks {
        for (place, cell) in (0..).zip(&cells) {
            let levels: Vec<&str> = cell.levels.iter().map(|(_, level)| level.as_str()).collect();
            let count = 60 * iops(&levels, block);
            let mut latency_ns = Histogram::new();
            latency_ns.record_n(300_000_000_000 / count, count);
            let class = ClassRecord { class: OpClass::Read, latency_ns, bytes: count * 4096 };
            let mut record = sample::record("randread", "read", vec![class]);
            record.label = cell.name();
            record.findings.clear();
            record.started_unix_ns = i64::from(block * 100 + place) * 60_000_000_000;
            let slot = Slot { block, place, cell: cell.index, is_sentinel: false };
            let of = json!({
                "slot": slot, "levels": &cell.levels, "workload": "read", "setup": [], "prepare_ns": 0,
                "knobs": [{
                    "knob": "block.scheduler", "asked": levels[0],
                    "place": {"kind": "device", "id": "wwn-1", "name": "sda"},
                }],
            });
            record.cell = Some(Box::new(serde_json::from_value(of).expect("a cell's record")));
            records.push(record);
        }
    }
    (plan, cells, records)
}

/// What the sample itself is blamed for is no matter here.
fn studied((plan, cells, records): &(Plan, Vec<Cell>, Vec<Record>)) -> ExperimentStudy {
    let mut study = study(plan, cells, records);
    study.findings.retain(|finding| !finding.summary.contains(" trials ("));
    study.verdict = fathom_model::finding::Verdict::of(&study.findings);
    study
}

fn schedulers(blocks: u32) -> (Plan, Vec<Cell>, Vec<Record>) {
    experiment(&[("scheduler", &["none", "mq-deadline", "bfq"])], blocks, |levels, block| {
        let base = 1000 + 7 * u64::from(block * 3 % 5);
        match levels[0] {
            "mq-deadline" => base * 112 / 100 + u64::from(block % 3),
            "bfq" => base + u64::from(block % 2),
            _ => base,
        }
    })
}

/// Ended in its first block: what one setting came to is no reason to keep it.
#[test]
fn one_setting_alone_is_no_answer() {
    let mut ended = schedulers(1);
    assert!(!answer(&studied(&ended)).starts_with("No answer yet"));
    ended.2.truncate(1);
    let said = answer(&studied(&ended));
    let start = "No answer yet: nothing but the baseline (scheduler=none) was measured, with ";
    assert!(said.starts_with(start), "{said}");
}

#[test]
fn a_clear_answer() {
    let study = studied(&schedulers(8));
    let how = [HowTo {
        now: vec!["echo mq-deadline > /sys/block/sda/queue/scheduler".into()],
        persist: vec![
            "/etc/udev/rules.d/60-storage.rules".into(),
            r#"ACTION=="add|change", KERNEL=="sda", ATTR{queue/scheduler}="mq-deadline""#.into(),
        ],
    }];
    expect![[r#"
        scheduler: Which scheduler suits the disk?

        Best: scheduler=mq-deadline: IOPS 1 133, +12.0 % (+12.0 to +12.1 %) against the baseline, 8 blocks.
        With it, against the baseline: p99 4.4 ms, -10.7 % (-10.8 to -10.7 %); CPU per I/O 18 us, -10.7 % (-10.8 to
        -10.7 %).
          set block.scheduler of sda to mq-deadline instead of none
              echo mq-deadline > /sys/block/sda/queue/scheduler
              to make it last: /etc/udev/rules.d/60-storage.rules
                  ACTION=="add|change", KERNEL=="sda", ATTR{queue/scheduler}="mq-deadline"

        scheduler     IOPS   change          interval          spread     p99  CPU per I/O  trials
        mq-deadline  1 133  +12.0 %  +12.0 to +12.1 %  better   1.0 %  4.4 ms        18 us       8   <- best
        bfq          1 011   +0.0 %    +0.0 to +0.1 %  same     1.0 %  4.9 ms        20 us       8
        none         1 011                                      1.0 %  4.9 ms        20 us       8   (baseline)
        Medians over trials. change: against the baseline (scheduler=none) within blocks (Hodges-Lehmann), interval of
        95 % by ranks; spread: standard deviation over trials.
        better, worse: the interval leaves out no change; same: no difference of 3 % or more; open: not decided.
        2 comparisons, adjusted by Holm: with 95 % none of the differences found is false.

        8 blocks of at most 8, 24 trials.
        IOPS scattered by 1.0 % (0.7 to 1.7 %) from block to block, which comparing within blocks takes out, and by
        0.05 % (0.03 to 0.08 %) within a block (8 blocks of 3 cells, intervals of 95 %).
        The baseline, measured 8 times, showed no drift: no trend over time (single values up to 1.73 % from their
        median).

        TRUSTED
    "#]].assert_eq(&text_with(&study, &how, 110));
}

#[test]
fn too_few_blocks() {
    let mut sample = schedulers(3);
    sample.2[4].cell.as_mut().expect("a cell").void =
        Some("block.scheduler of sda was changed".into());
    expect![[r#"
        scheduler: Which scheduler suits the disk?

        No difference is shown between the 3 cells after 3 blocks: the best in these
        trials is scheduler=mq-deadline with IOPS 1 125 (median of 2 trials, too few for
        an interval).
        With it, against the baseline: p99 4.4 ms, -10.8 % (2 blocks, too few for an
        interval); CPU per I/O 18 us, -10.8 % (2 blocks, too few for an interval).

        scheduler     IOPS   change        spread     p99  CPU per I/O  trials
        mq-deadline  1 125  +12.1 %  open   0.6 %  4.4 ms        18 us       2   <- best
        bfq          1 007   +0.0 %  open   1.1 %  5.0 ms        20 us       3
            <- not told apart
        none         1 007                  1.1 %  5.0 ms        20 us       3
            <- not told apart (baseline)
        Medians over trials. change: against the baseline (scheduler=none) within blocks
        (Hodges-Lehmann), no interval: so few blocks give none of 95 %; spread: standard
        deviation over trials.
        better, worse: the interval leaves out no change; same: no difference of 3 % or
        more; open: not decided.
        2 comparisons, adjusted by Holm: with 95 % none of the differences found is
        false.
        not told apart: with 95 % the best of all is among these and the one called
        best.

        3 blocks of at most 8, 9 trials, 1 of them void.
        The baseline, measured 3 times, showed no drift: no trend over time (single
        values up to 1.39 % from their median).
          void: block 2, scheduler=mq-deadline, read: block.scheduler of sda was changed

        TRUSTED
          note  1 of 9 trials is void, the first one (scheduler=mq-deadline) because:
                block.scheduler of sda was changed
                they are left out together with their pairs; nothing else is
          note  so few blocks that no difference could be shown: 3 blocks, 2
                comparisons; the figures are those of these trials only
                at least 7 blocks can decide all of them
    "#]]
    .assert_eq(&text(&studied(&sample), 80));
}

#[test]
fn two_factors_and_an_expectation() {
    let factors: [(&str, &[&str]); 2] =
        [("scheduler", &["none", "bfq"]), ("nr_requests", &["64", "256"])];
    let mut sample = experiment(&factors, 8, |levels, block| {
        let by = |is: bool, percent: u64| if is { percent } else { 100 };
        let base = 1000 + 7 * u64::from(block * 3 % 5) + u64::from(levels[1] == "64");
        base * by(levels[0] == "bfq", 80) * by(levels[1] == "256", 140) / 10_000
    });
    let level = |text: &str| [("scheduler".to_owned(), text.to_owned())].into();
    sample.0.hypothesis = Some(fathom_model::plan::Hypothesis {
        text: "bfq costs at most 10 %".into(),
        better: level("bfq"),
        than: level("none"),
        by: -0.1,
    });
    expect![[r#"
        scheduler: Which scheduler suits the disk?

        Best: scheduler=none nr_requests=256: IOPS 1 414, +39.8 % (+39.8 to +39.9 %) against the baseline, 8 blocks.
        With it, against the baseline: p99 3.5 ms, -28.5 % (-28.5 to -28.5 %); CPU per I/O 14 us, -28.5 % (-28.5 to
        -28.5 %).
          set block.nr_requests to 256 instead of 64
        Expected: bfq costs at most 10 %. REFUTED: IOPS -20.0 % (-20.0 to -20.0 %); at least -10.0 % was expected.

           scheduler  nr_requests   IOPS   change          interval          spread     p99  CPU per I/O  trials
        2  none       256          1 414  +39.8 %  +39.8 to +39.9 %  better   1.0 %  3.5 ms        14 us       8
            <- best
        4  bfq        256          1 131  +11.8 %  +11.8 to +11.9 %  better   1.0 %  4.4 ms        18 us       8
        1  none       64           1 012                                      1.0 %  4.9 ms        20 us       8
            (baseline)
        3  bfq        64             809  -20.0 %  -20.1 to -20.0 %  worse    1.0 %  6.2 ms        25 us       8
        Medians over trials. change: against the baseline (scheduler=none nr_requests=64) within blocks
        (Hodges-Lehmann), interval of 95 % by ranks; spread: standard deviation over trials.
        better, worse: the interval leaves out no change; same: no difference of 3 % or more; open: not decided.
        3 comparisons, adjusted by Holm: with 95 % none of the differences found is false.

        Effects on IOPS           against                    change          interval                            noise
        scheduler=bfq             scheduler=none            -20.0 %  -20.0 to -20.0 %  worse   0.03 % (0.02 to 0.05 %)
        nr_requests=256           nr_requests=64            +39.9 %  +39.8 to +39.9 %  better  0.02 % (0.02 to 0.04 %)
        scheduler=bfq x           scheduler=none x           +0.0 %    +0.0 to +0.1 %  same
        nr_requests=256           nr_requests=64
        1 interaction of two factors, 0 of them sure; an interaction says by what the first one's ratio changes with
        the second.
        Over 8 complete blocks; p adjusted for 3 effects.
        noise: standard deviation of a single trial at that level (intervals of 95 %).

        8 blocks of at most 8, 32 trials.
        IOPS scattered by 1.0 % (0.7 to 1.7 %) from block to block, which comparing within blocks takes out, and by
        0.03 % (0.02 to 0.04 %) within a block (8 blocks of 4 cells, intervals of 95 %).
        The baseline, measured 8 times, showed no drift: no trend over time (single values up to 1.73 % from their
        median).

        TRUSTED
    "#]].assert_eq(&text(&studied(&sample), 110));
}

/// Stopped by a signal, or trials that do not count: nothing was compared, so that nothing is advised.
#[test]
fn what_was_not_compared_is_no_answer() {
    let cell = |record: &Record| record.cell.as_ref().expect("a cell").slot.cell;
    let of = |keep: &dyn Fn(&Record) -> bool| {
        let mut sample = schedulers(8);
        sample.2.retain(|record| keep(record));
        studied(&sample)
    };
    let other = of(&|record| cell(record) == 1);
    let said = text(&other, 400);
    assert!(
        said.contains("No answer yet: the baseline (scheduler=none) was not measured in any trial that counts."),
        "{said}"
    );
    assert!(said.contains("2 of 3 cells were not measured in any trial that counts"), "{said}");
    assert!(!said.contains("set block.scheduler") && !said.contains("as it is"), "{said}");
    assert!(said.contains("With it: p99") && !said.contains("against the baseline: p99"), "{said}");
    let alone = answer(&of(&|record| cell(record) == 0));
    assert!(
        alone.starts_with("No answer yet: nothing but the baseline (scheduler=none)"),
        "{alone}"
    );
    let block = |record: &Record| record.cell.as_ref().expect("a cell").slot.block;
    let apart = of(&|record| cell(record) == u32::from(block(record) < 4));
    let said = answer(&apart);
    assert!(said.contains("in no block together with the baseline (scheduler=none)"), "{said}");
    assert!(!apart.is_advice());
    // Without the third cell, of the two that were measured.
    let two = answer(&of(&|record| cell(record) != 2 && block(record) < 2));
    assert!(
        two.starts_with("No difference is shown between the 2 cells that were measured"),
        "{two}"
    );
}

/// Equal pieces of unlike disks: what a cell costs in room stands beside what it brings.
#[test]
fn room_stands_beside_the_figures() {
    let mut sample = schedulers(8);
    assert!(!text(&studied(&sample), 110).contains("usable"));
    for record in &mut sample.2 {
        let cell = record.cell.as_mut().expect("a cell");
        // Of the third cell nothing is built.
        let usable_mib = [236_u64, 141, 0][cell.slot.cell as usize];
        cell.capacity = (usable_mib > 0).then_some(fathom_model::plan::setup::SetupCapacity {
            devices_bytes: 240 << 20,
            usable_bytes: usable_mib << 20,
            wasted_bytes: if usable_mib == 141 { 48 << 20 } else { 0 },
        });
    }
    let study = studied(&sample);
    let told = text(&study, 130);
    let rows: Vec<Vec<&str>> = told
        .lines()
        .filter(|line| line.starts_with("mq-") || line.starts_with("none "))
        .map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect())
        .collect();
    assert!(rows[0].ends_with(&["141 MiB", "48 MiB", "8", "<- best"]), "{told}");
    assert!(rows[1].ends_with(&["236 MiB", "0 B", "8", "(baseline)"]), "{told}");
    assert!(told.contains("\nusable: what the setup holds of its devices;"), "{told}");
    let json = serde_json::to_value(&study.cells).expect("JSON");
    assert_eq!(json[1]["capacity"]["wasted_bytes"], 48 << 20);
    assert!(json[2].get("capacity").is_none());
}

/// The baseline is what the plan says, and not what the machine has.
#[test]
fn as_it_is_means_what_the_machine_has() {
    let with = |found: &str| {
        // The baseline is the best.
        let mut sample = experiment(&[("scheduler", &["none", "bfq"])], 8, |levels, block| {
            let base = 1000 + 7 * u64::from(block * 3 % 5);
            if levels[0] == "none" { base } else { base / 2 }
        });
        for record in &mut sample.2 {
            for knob in &mut record.cell.as_mut().expect("a cell").knobs {
                knob.before = Some(knob.asked.clone());
                knob.found = Some(found.to_owned()).filter(|found| !found.is_empty());
            }
        }
        text(&studied(&sample), 400)
    };
    assert!(with("none").contains("Leave it as it is: nothing is better than the baseline"));
    let unknown = with("");
    assert!(unknown.contains("Keep the plan's baseline: nothing is better"), "{unknown}");
    let other = with("kyber");
    assert!(
        other.contains("Keep the plan's baseline, which is not what this machine has:"),
        "{other}"
    );
    assert!(
        other.contains(
            "This machine itself has scheduler=kyber instead of the baseline's none (not measured)."
        ),
        "{other}"
    );
    assert!(
        with("bfq").contains("scheduler=bfq instead of the baseline's none (measured as a level)")
    );
}

#[test]
fn any_width_is_kept() {
    for width in [60, 80, 110] {
        let text = text(&studied(&schedulers(8)), width);
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > width).collect();
        assert!(long.is_empty(), "{width}: {long:#?}");
    }
}

/// The best cell's median keeps the bound and its interval reaches beyond; with bounds alone the answer is who keeps them.
#[test]
fn bounds_are_in_the_first_sentence() {
    let (mut plan, cells, records) = experiment(&[("x", &["a", "b"])], 6, |levels, block| {
        if levels == ["a"] { 1000 } else { 1300 + 100 * u64::from(block % 3) }
    });
    let bound = json!({"metric": "iops", "bound": 1390.0});
    plan.objectives.push(serde_json::from_value(bound.clone()).expect("an objective"));
    let said = answer(&study(&plan, &cells, &records));
    assert!(
        said.starts_with("Best: x=b")
            && said.contains("of which it is not sure that it keeps the bound of 1 390."),
        "{said}"
    );
    plan.objectives.remove(0);
    let said = answer(&study(&plan, &cells, &records));
    let told = "The bounds are perhaps kept by x=b; broken by x=a, after 6 blocks; nothing ranks the cells besides.";
    assert_eq!(said, told);
}
