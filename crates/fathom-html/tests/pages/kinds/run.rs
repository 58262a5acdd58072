//! The page as it is read.

use super::made::{record, with_seconds, without_course};
use super::sample::{head, page};
use expect_test::expect_file;
use fathom_html::markdown::markdown;
use fathom_html::page::{Block, Page};
use fathom_model::record::{Ending, RunKind};
use fathom_model::watch::DeviceSeries;

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    let head = head(RunKind::Run, "fathom run randread /srv --repeats=2", "/srv");
    let records = [
        record("randread", &[100, 100, 100, 100, 100, 100], 5_000_000),
        with_seconds(record("randread", &[100, 90, 0, 20, 110, 100], 6_000_000)),
    ];
    page(&head, &records, None)
}

#[test]
fn repeats_and_one_that_stalls() {
    expect_file!["golden/repeats.md"].assert_eq(&markdown(&shown()));
}

#[test]
fn devices_are_drawn_second_by_second() {
    let page = shown();
    let section = page.sections.iter().find(|section| section.heading == "Devices over time");
    let blocks = &section.expect("devices").blocks;
    let charts = blocks.iter().map(|block| match block {
        Block::Chart(chart) => chart,
        other => panic!("{other:?}"),
    });
    let told: Vec<_> = charts
        .map(|chart| {
            let lines = chart.series.iter().map(|line| (line.name.as_str(), line.points.len()));
            (chart.title.as_str(), lines.collect::<Vec<_>>())
        })
        .collect();
    // No writes, no line of them; no time of a read where none ended.
    assert_eq!(
        told,
        [
            ("Rate of each device", vec![("sda read", 6), ("sdb read", 6)]),
            ("Mean time of a request of each device", vec![("sda read", 6), ("sdb read", 5)]),
            ("Requests in flight of each device", vec![("sda", 6), ("sdb", 6)]),
            ("Busy share of each device", vec![("sda", 6), ("sdb", 6)]),
        ]
    );
}

/// More devices than are drawn: the page says how many, which, and where the others are.
#[test]
fn devices_that_are_not_drawn_are_told_of() {
    let mut record = with_seconds(record("randread", &[100; 6], 5_000_000));
    let devices = &mut record.watch.as_mut().expect("a course").devices;
    let one = devices[0].clone();
    let more = (0..9).map(|number| DeviceSeries { name: format!("sdx{number}"), ..one.clone() });
    devices.extend(more);
    let page = page(&head(RunKind::Run, "fathom run randread /srv", "/srv"), &[record], None);
    let section = page.sections.iter().find(|section| section.heading == "Devices over time");
    let section = section.expect("devices");
    let words = "The first 8 devices from the top of the stack are drawn, 3 more are not: fathom export --what=watch has every interval";
    assert!(section.note.contains(words), "{}", section.note);
    let Block::Chart(chart) = &section.blocks[0] else { panic!("{section:?}") };
    let drawn = "8 of 11 devices are drawn: sda, sdb, sdx0, sdx1, sdx2, sdx3, sdx4, sdx5.";
    assert!(chart.reduction.starts_with(drawn), "{}", chart.reduction);
}

/// Six trials of each kind: more than are drawn.
#[test]
fn other_kinds_draw_the_devices_of_their_first_trials() {
    let trial = |number: usize| {
        let mut record = with_seconds(record("randread", &[100; 6], 5_000_000));
        record.label = format!("randread #{number}");
        record
    };
    let records: Vec<_> = (1..=6).map(trial).collect();
    for kind in [RunKind::Saturate, RunKind::Size, RunKind::Raid, RunKind::Layers] {
        let page = page(&head(kind, "fathom x /srv", "/srv"), &records, None);
        let mut found = page.sections.iter().filter(|of| of.heading == "Devices over time");
        let section = found.next().unwrap_or_else(|| panic!("{kind:?} draws no devices"));
        assert!(found.next().is_none(), "{kind:?} draws them twice");
        assert!(section.note.ends_with("The first 4 trials are drawn, 2 more are not."));
        let titles = section.blocks.iter().filter_map(|block| match block {
            Block::Chart(chart) => Some(chart.title.as_str()),
            _ => None,
        });
        let titles: Vec<&str> = titles.collect();
        assert_eq!(titles.len(), 16, "{kind:?}: {titles:?}");
        assert_eq!(titles[4], "Rate of each device in randread #2");
    }
}

#[test]
fn without_a_course_there_are_tables() {
    let head = head(RunKind::Run, "fathom run randread /srv", "/srv");
    let mut record = without_course(record("randread", &[100; 6], 5_000_000));
    record.ending = Ending::Interrupted;
    let page = page(&head, &[record], None);
    assert!(page.answer.contains(", interrupted. One run, "), "{}", page.answer);
    let charts = page.sections.iter().flat_map(|section| &section.blocks);
    let titles: Vec<_> = charts
        .filter_map(
            |block| if let Block::Chart(chart) = block { Some(chart.title.as_str()) } else { None },
        )
        .collect();
    assert_eq!(titles, ["Latency distribution", "Slowest operations of randread"]);
    // Nothing stored is a page too.
    let nothing = super::sample::page(&head, &[], None);
    assert_eq!(nothing.answer, "");
}

#[test]
fn rounds_say_whether_they_became_steady() {
    let head = head(RunKind::Rounds, "fathom run randread /srv --until-steady=7", "/srv");
    let records: Vec<_> = [200, 150, 102, 100, 101, 100, 101]
        .map(|per_s| record("randread", &[per_s], 5_000_000))
        .into();
    let page = page(&head, &records, None);
    let section = &page.sections[0];
    assert_eq!(section.heading, "Rounds until steady");
    assert!(
        matches!(&section.blocks[0], Block::Plain(text) if text.contains("Steady state reached at round 7"))
    );
    let Block::Chart(chart) = &section.blocks[1] else { panic!("{section:?}") };
    assert_eq!((chart.series[0].points.len(), chart.marks.len()), (7, 2));
}
