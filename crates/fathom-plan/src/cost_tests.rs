//! Tests of the cost of plans.

use super::*;
use crate::{Unchecked, cells, read};

const MINUTE_NS: u64 = 60_000_000_000;
const GIB: u64 = 1 << 30;

#[track_caller]
fn made(text: &str) -> (Plan, Vec<Cell>) {
    let plan = read(text, "x", &Unchecked).unwrap_or_else(|error| panic!("{error}"));
    let cells = cells(&plan).expect("cells");
    (plan, cells)
}

/// A minute and a gibibyte for each trial, ten minutes and ten gibibytes for building.
fn of(plan: &Plan, cells: &[Cell]) -> Cost {
    let estimate = Estimate {
        trial_ns: &|_| MINUTE_NS,
        build_ns: &|_| 10 * MINUTE_NS,
        trial_written_bytes: &|_| GIB,
        build_written_bytes: &|_| 10 * GIB,
    };
    cost(plan, cells, 1, &estimate)
}

const ARRAYS: &str = "question = \"?\"\n[[workload]]\nuse = \"randread\"\n[setup]\ndevices = [\"4 x loop:1G\"]\n\
    [factors]\narray.level = [\"raid0\", \"raid5\", \"raid6\"]\nblock.read_ahead_kb = [0, 64, 128]\n";

#[test]
fn trials_and_builds_are_counted_as_they_will_be_done() {
    let (plan, cells) = made(&format!("{ARRAYS}[design]\nblocks = 1\nsentinel = false"));
    let one = of(&plan, &cells);
    assert_eq!((one.cells, one.trials, one.sentinels, one.builds, one.boots), (9, 9, 0, 3, 0));
    assert_eq!((one.time_ns, one.build_ns), (39 * MINUTE_NS, 30 * MINUTE_NS));
    assert_eq!((one.written_bytes, one.build_written_bytes), (39 * GIB, 30 * GIB));
    // Apart from each other, most trials build anew.
    let (plan, cells) =
        made(&format!("{ARRAYS}[design]\nblocks = 20\nsentinel = false\ngroup_setups = false"));
    let apart = of(&plan, &cells);
    let (grouped_plan, grouped) = made(&format!("{ARRAYS}[design]\nblocks = 20\nsentinel = false"));
    let together = of(&grouped_plan, &grouped);
    assert_eq!((apart.trials, together.trials), (180, 180));
    assert!(apart.builds > 100 && together.builds <= 60, "{apart:?} {together:?}");
    // A sentinel of another setup has to be built as well.
    let (plan, cells) = made(&format!("{ARRAYS}[design]\nblocks = 20"));
    let guarded = of(&plan, &cells);
    assert_eq!((guarded.trials, guarded.sentinels), (240, 60));
    // Of a block: the two others, the baseline at its end, and once more in the middle unless its own group came first.
    assert!((60..=80).contains(&guarded.builds), "{guarded:?}");
}

/// A narrowing adds levels, each in blocks of its own: they are in its time and bytes, and held against the budget.
#[test]
fn further_levels_of_a_narrowing_are_counted() {
    let narrowing = |rest: &str| {
        made(&format!(
            "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"randread\"\n[factors]\nblock.read_ahead_kb = [4, 64, 1024]\n\
             [design]\nkind = \"narrowing\"\nblocks = 5\nsentinel = false\n{rest}"
        ))
    };
    let (plan, cells) = narrowing("");
    let cost = of(&plan, &cells);
    assert!((8..=16).contains(&cost.further_levels), "{cost:?}");
    assert_eq!((cost.trials, cost.further_trials), (15, cost.further_levels * 5 * 4));
    let all = u64::from(cost.trials + cost.further_trials);
    assert_eq!((cost.time_ns, cost.written_bytes), (all * MINUTE_NS, all * GIB));
    let (plan, cells) = narrowing("narrow_to = \"90%\"");
    assert!(of(&plan, &cells).further_levels < cost.further_levels);
    let (plan, cells) = narrowing("[budget]\ntime = \"20m\"");
    let refused = of(&plan, &cells).check(&plan).unwrap_err().to_string();
    let told = format!(
        "with {} further levels ({} trials) at the most",
        cost.further_levels, cost.further_trials
    );
    assert!(refused.contains(&told) && refused.contains("a larger design.narrow_to"), "{refused}");
    let (plan, cells) = made(&format!("{ARRAYS}[design]\nblocks = 1\nsentinel = false"));
    assert_eq!(of(&plan, &cells).further_trials, 0);
}

#[test]
fn nothing_is_built_and_nothing_booted_without_need() {
    let (plan, cells) = made(
        "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"seeker\"\n[factors]\nboot.mitigations = [\"on\", \"off\"]\n\
         null = [1, 2]\n[design]\nblocks = 4",
    );
    let cost = of(&plan, &cells);
    assert_eq!((cost.trials, cost.builds, cost.build_ns, cost.boots), (16, 0, 0, 4));
}

#[test]
fn what_is_above_the_budget_is_refused_with_what_to_cut() {
    let text = |budget: &str| format!("{ARRAYS}[design]\nblocks = 20\n[budget]\n{budget}\n");
    let refused = |budget: &str| {
        let (plan, cells) = made(&text(budget));
        of(&plan, &cells).check(&plan).map_err(|error| error.to_string())
    };
    assert_eq!(refused("time = \"30d\"\nwritten = \"10T\""), Ok(()));
    assert_eq!(
        refused("time = \"8h\""),
        Err("plan: budget.time: 20 blocks of 9 cells and 60 sentinels take 16 h 10 min, of it 12 h 10 min building; \
             allowed are 8 h 00 min. It fits with design.blocks = 9, or raise the budget"
            .to_owned())
    );
    assert!(refused("time = \"1ms\"").unwrap_err().contains("; allowed are 1.0 ms. "));
    assert_eq!(
        refused("written = \"100G\""),
        Err("plan: budget.written: 20 blocks of 9 cells and 60 sentinels write about 970 GiB, of it 730 GiB by building; \
             allowed are 100 GiB. Fewer than 5 blocks would fit, too few to tell anything: take fewer levels, trials that \
             write less, design.sentinel = false, fewer levels of what is built, or raise the budget"
            .to_owned())
    );
    // What it advises does fit.
    let (plan, cells) = made(&text("time = \"8h\"").replace("blocks = 20", "blocks = 9"));
    assert_eq!(of(&plan, &cells).check(&plan), Ok(()));
}
