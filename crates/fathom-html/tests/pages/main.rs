//! Pages of every kind as they are read: written out as Markdown, one also as HTML; and what holds for all of them.

#![expect(clippy::expect_used, reason = "a test ends at the first surprise")]

mod claims;
mod kinds;

use fathom_html::html::html;
use fathom_html::page::{Block, Chart, Page};

fn charts(page: &Page) -> Vec<&Chart> {
    let sections = page.sections.iter().flat_map(|section| &section.blocks);
    let chart = |block: &'_ Block| matches!(block, Block::Chart(chart) if !chart.is_empty());
    let all = page.first.iter().chain(sections).filter(|block| chart(block));
    all.filter_map(|block| if let Block::Chart(chart) = block { Some(chart) } else { None })
        .collect()
}

/// With scripts off nothing is missing: below each chart stand all points that it draws, as rows of a table or, where there are
/// many, as comma-separated values.
#[test]
fn every_point_of_every_chart_is_there_as_text() {
    for (kind, page) in kinds::all() {
        let file = html(&page);
        let figures: Vec<&str> = file.split("<figure class=\"chart\"").skip(1).collect();
        let charts = charts(&page);
        assert!(!charts.is_empty() && figures.len() == charts.len(), "{kind}: {}", figures.len());
        for (chart, figure) in charts.iter().zip(figures) {
            let (_, below) = figure.split_once("<details>").expect("the points");
            let (below, _) = below.split_once("</details>").expect("their end");
            let rows = match below.split_once("<tbody>") {
                Some((_, body)) => body.matches("<tr>").count(),
                None => below.split_once("<pre").map_or(0, |(_, text)| text.lines().count() - 2),
            };
            let points: usize = chart.series.iter().map(|series| series.points.len()).sum();
            assert_eq!(rows, points, "{kind}, {}", chart.title);
        }
    }
}

/// What every page must have, whatever it is about: what was measured as a picture on the first screen, every layer with its settings,
/// the machine, and the command that does it again.
#[test]
fn every_kind_has_stack_settings_machine_and_command() {
    for (kind, page) in kinds::all() {
        let pictures = page.first.iter().filter(|block| matches!(block, Block::Stack(_))).count();
        assert!(pictures > 0, "{kind} has no picture of the stack on its first screen");
        let headings: Vec<&str> = page.sections.iter().map(|s| s.heading.as_str()).collect();
        let sides = ["Side A", "Side B"];
        let is_of_sides = kind == "comparison";
        if is_of_sides {
            assert!(sides.iter().all(|side| headings.contains(side)), "{kind}: {headings:?}");
        }
        for section in page.sections.iter().filter(|s| sides.contains(&s.heading.as_str())) {
            let has = |what: fn(&Block) -> bool| section.blocks.iter().any(what);
            assert!(has(|b| matches!(b, Block::Plain(_))), "{kind}: layers of {}", section.heading);
            assert!(
                has(|b| matches!(b, Block::Table(_))),
                "{kind}: machine of {}",
                section.heading
            );
            assert!(has(|b| matches!(b, Block::Command { .. })), "{kind}: {}", section.heading);
        }
        for wanted in ["Layers and settings", "Machine", "Again"] {
            let is_there = headings.iter().any(|heading| heading.starts_with(wanted));
            assert!(is_there || is_of_sides, "{kind} lacks {wanted}: {headings:?}");
        }
        let again = page.sections.iter().find(|section| section.heading == "Again");
        let has_command = |b: &Block| matches!(b, Block::Command { command, .. } if command.starts_with("fathom "));
        assert!(again.is_none_or(|again| again.blocks.iter().any(has_command)), "{kind}");
    }
}

/// What an axis has, and how much was measured, stands at every chart.
#[test]
fn every_chart_says_what_its_axes_are_and_what_n_is() {
    for (kind, page) in kinds::all() {
        for chart in charts(&page) {
            let words = [&chart.title, &chart.x.title, &chart.y.title, &chart.n];
            assert!(words.iter().all(|word| !word.is_empty()), "{kind}: {chart:?}");
        }
    }
}
