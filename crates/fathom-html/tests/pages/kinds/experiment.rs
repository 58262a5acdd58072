//! Pages as they are read, written out as Markdown.

use super::sample::{head, markdown, page, plan, records};
use expect_test::expect_file;
use fathom_html::page::{Block, ChartKind, Page};
use fathom_model::plan::{DesignKind, Hypothesis, Plan};
use fathom_model::record::{Record, RunKind};

const COMMAND: &str = "fathom lab scheduler.toml";

/// bfq is 20 % slower, 256 requests are 40 % faster, and a little noise that comes back every five blocks.
fn two_factors(blocks: u32) -> (Plan, Vec<Record>) {
    let mut plan = plan(&[("scheduler", &["none", "bfq"]), ("nr_requests", &["64", "128", "256"])]);
    plan.hypothesis = Some(Hypothesis {
        text: "none is at least 10 % faster than bfq".into(),
        better: [("scheduler".to_owned(), "none".to_owned())].into(),
        than: [("scheduler".to_owned(), "bfq".to_owned())].into(),
        by: 0.1,
    });
    let records = records(&plan, blocks, |levels, block| {
        let base = 1000 + 7 * u64::from(block * 3 % 5);
        let by_scheduler = if levels[0] == "bfq" { 80 } else { 100 };
        let by_queue = match levels[1] {
            "128" => 120 + u64::from(block % 2),
            "256" => 140,
            _ => 100,
        };
        base * by_scheduler * by_queue / 10_000
    });
    (plan, records)
}

fn of(plan: &Plan, records: &[Record]) -> Page {
    page(&head(RunKind::Experiment, COMMAND, "/srv"), records, Some(plan))
}

fn charts(page: &Page) -> Vec<(&str, ChartKind, usize)> {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    blocks
        .filter_map(|block| match block {
            Block::Chart(chart) => {
                let points = chart.series.iter().map(|series| series.points.len()).sum();
                Some((chart.title.as_str(), chart.kind, points))
            }
            _ => None,
        })
        .collect()
}

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    let (plan, mut records) = two_factors(8);
    let cell = records[7].cell.as_mut().expect("a cell");
    cell.void = Some("block.scheduler of sda was changed to kyber".into());
    cell.knobs[0].after = Some("kyber".into());
    of(&plan, &records)
}

#[test]
fn two_factors_with_an_expectation_and_a_void_trial() {
    let page = shown();
    expect_file!["golden/two_factors.md"].assert_eq(&fathom_html::markdown::markdown(&page));
    let found = charts(&page).len();
    assert_eq!(found, 6, "bars of rate and latency, a map, main effects, interactions, the course");
}

#[test]
fn too_few_blocks_and_a_narrowing_design() {
    let mut plan = plan(&[("nr_requests", &["32", "64", "128", "256"])]);
    plan.design.kind = DesignKind::Narrowing;
    let records = records(&plan, 4, |levels, block| {
        let number: i64 = levels[0].parse().expect("a number");
        (2000 - (number - 128).abs() + i64::from(block * 3 % 5)) as u64
    });
    let head = head(RunKind::Experiment, COMMAND, "/srv");
    expect_file!["golden/narrowing.md"].assert_eq(&markdown(&head, &records, Some(&plan)));
}

/// What unlike disks lose in room stands in the table of all cells.
#[test]
fn room_stands_beside_the_figures() {
    let (plan, mut records) = two_factors(8);
    let written = |records: &[Record]| fathom_html::markdown::markdown(&of(&plan, records));
    assert!(!written(&records).contains("wasted"));
    for record in &mut records {
        let cell = record.cell.as_mut().expect("a cell");
        cell.capacity = Some(fathom_model::plan::setup::SetupCapacity {
            devices_bytes: 240 << 20,
            usable_bytes: 141 << 20,
            wasted_bytes: 48 << 20,
        });
    }
    let told = written(&records);
    let row = |words: &str| {
        let line = told.lines().find(|line| line.starts_with('|') && line.contains(words));
        line.unwrap_or_else(|| panic!("{words}: {told}")).to_owned()
    };
    assert!(row("usable").contains("| usable | wasted | trials |"), "{}", row("usable"));
    // Not of the bars above, where a cell has its name in one column.
    assert!(row("| 141 MiB").contains("| 141 MiB | 48 MiB | 8 |"), "{}", row("| 141 MiB"));
}

#[test]
fn what_has_no_trial_or_no_plan_is_a_page_too() {
    let (plan, records) = two_factors(8);
    let empty = of(&plan, &[]);
    assert!(empty.answer.starts_with("No answer"), "{}", empty.answer);
    assert!(charts(&empty).iter().all(|(_, _, points)| *points > 0), "{:?}", charts(&empty));
    let head = head(RunKind::Experiment, COMMAND, "/srv");
    let bare = markdown(&head, &records[..3], None);
    assert!(bare.contains("no plan is stored with it"), "{bare}");
}

/// 40 cells: the bars have the best with the baseline, and say so; the course tells the best from the rest.
#[test]
fn many_cells_are_reduced_and_it_is_said() {
    let levels: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    let plan = plan(&[("wbt_lat_usec", &levels)]);
    let records = records(&plan, 7, |levels, block| {
        let number: u64 = levels[0].parse().expect("a number");
        1000 + 10 * number + u64::from(block % 3)
    });
    let page = of(&plan, &records);
    let found = charts(&page);
    assert_eq!(found[0], ("IOPS of the best cells", ChartKind::Bars, 24));
    assert_eq!(found.last(), Some(&("IOPS of every trial", ChartKind::Scatter, 280)));
    let reduced = page.sections[0].blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some((chart.reduction.as_str(), chart.x.categories.last())),
        _ => None,
    });
    let (words, last) = reduced.expect("a chart");
    assert!(words.contains("24 of 40"), "{words}");
    assert_eq!(last.map(String::as_str), Some("0 (baseline)"));
}
