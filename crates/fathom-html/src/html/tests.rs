//! What every report must keep: nothing gets out of its texts, nothing is asked for, colours can be told apart.

use super::*;
use crate::page::{Axis, Chart, ChartKind, Column, Point, Section, Table, Unit};
use fathom_model::finding::Finding;
use fathom_model::stack::{Node, NodeKind, Stack};
use std::collections::BTreeMap;

/// A page with one of everything, and a text of somebody else in every place.
fn page(words: &str) -> Page {
    let mut table = Table::new(words, [Column::left(words).unit(words), Column::right("n")]);
    table.row_with_remark([words, words], words);
    table.notes.push(words.to_owned());
    table.is_sortable = true;
    let point = |x: f64| Point::between(x, 2.0, 1.0, 3.0);
    let few = Chart::new(
        words,
        ChartKind::Bars,
        Axis::names(words, [words, words]),
        Axis::new(words, Unit::Nanoseconds),
    )
    .series(words, vec![point(0.0), point(1.0)])
    .series("other", vec![point(0.0)])
    .n(words)
    .note(words)
    .interval(words)
    .mark_x(1.0, words);
    let many = Chart::new(
        "many",
        ChartKind::Line,
        Axis::new("time", Unit::Seconds),
        Axis::new("rate", Unit::PerSecond),
    )
    .series(words, (0..1000).map(|x| point(f64::from(x))).collect())
    .series(words, Vec::new());
    let mut node = Node::new(NodeKind::Disk, words);
    node.path = Some(words.to_owned());
    let stack =
        Stack { path: words.into(), resolved_path: words.into(), nodes: vec![node], top: 0 };
    Page {
        title: words.into(),
        question: words.into(),
        answer: words.into(),
        verdict: Some(Verdict::Doubtful),
        first: vec![
            Block::Findings(vec![
                Finding::new(words, Severity::Doubtful, words).advise(words),
                Finding::new("note", Severity::Note, "less"),
            ]),
            Block::Stack(Box::new(stack)),
            Block::Command { caption: words.into(), command: words.into() },
        ],
        sections: vec![
            Section::new(words, words).block(Block::Text(words.into())).block(table).block(few),
            Section::new("Second", "").block(Block::Plain(words.into())).block(many),
        ],
    }
}

#[test]
fn columns_that_say_nothing_are_not_shown() {
    let mut table = Table::new("", ["one", "two", "three"].map(Column::left));
    table.row(["a", "", "b"]);
    table.row(["", "", "c"]);
    let mut whole = page("x");
    whole.sections = vec![Section::new("y", "").block(table)];
    let text = html(&whole);
    assert!(text.contains(">one</th>") && text.contains(">three</th>"), "{text}");
    assert!(!text.contains(">two</th>") && text.contains("<td>c</td>"), "{text}");
}

const EVIL: &str = "</script></title></style><img src=x onerror=alert(1)>\"' onload='x";

#[test]
fn nothing_gets_out_of_a_text() {
    let html = html(&page(EVIL));
    let own = html.replace(&library::library().expect("unpacks"), "");
    // Data is no markup: inside of it quotes mean nothing.
    let (data, marked): (Vec<&str>, Vec<&str>) =
        own.split("<script").partition(|part| part.starts_with(" type=\"application/json\""));
    for begun in ["<img", "onerror=alert(1)>", "' onload", "\" onload"] {
        assert!(!marked.concat().contains(begun), "{begun}");
    }
    for part in data {
        let inside = part.split_once('>').map_or("", |(_, rest)| rest);
        assert!(inside.split_once("</script>").is_some_and(|(json, _)| !json.contains('<')));
    }
    // One title, one style, two scripts that run, and one with data for each chart.
    for (end, count) in [("</title>", 1), ("</style>", 1), ("</script>", 4), ("<script", 4)] {
        assert_eq!(own.matches(end).count(), count, "{end}");
    }
    // In all its places it is there to be read.
    assert!(own.matches("&lt;img src=x onerror=alert(1)&gt;").count() > 20);
}

#[test]
fn tags_are_closed_in_order() {
    let html = html(&page("a < b"));
    let own = html.replace(&library::library().expect("unpacks"), "");
    let own = own.replace(library::SCRIPT.trim_end(), "").replace(library::STYLE, "");
    let mut open: Vec<&str> = Vec::new();
    for piece in own.split('<').skip(1) {
        let tag = piece.split(['>', ' ', '\n']).next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(end) => assert_eq!(open.pop(), Some(end), "{piece}"),
            None if ["!doctype", "meta"].contains(&tag) => {}
            None => open.push(tag),
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn it_asks_nobody() {
    let html = html(&page("/srv/data"));
    let own = html.replace(&library::library().expect("unpacks"), "");
    for word in ["http:", "https:", "src=", "@import", "url(", "<link", "<iframe", "<base"] {
        assert!(!own.contains(word), "{word}");
    }
    assert!(own.contains("default-src 'none'"));
    assert!(!own.contains("unsafe-eval") && !own.contains("script-src 'unsafe-inline'"));
}

#[test]
fn without_a_chart_there_is_no_library() {
    let mut page = page("x");
    page.sections.clear();
    assert!(html(&page).len() < 40_000);
}

/// Colours by name, of light and of dark.
fn palettes() -> [BTreeMap<String, [f64; 3]>; 2] {
    let (light, dark) =
        library::STYLE.split_once("@media (prefers-color-scheme: dark)").expect("both");
    let dark = &dark[..dark.find("\n* {").expect("an end")];
    [light, dark].map(|text| {
        let colours = text.split(['{', ';']).filter_map(|pair| {
            let (name, value) = pair.trim().strip_prefix("--")?.split_once(": #")?;
            let part = |at: usize| u8::from_str_radix(&value[at..at + 2], 16).ok();
            let parts = [part(0)?, part(2)?, part(4)?].map(|part| f64::from(part) / 255.0);
            Some((name.to_owned(), parts))
        });
        colours.collect()
    })
}

/// WCAG 2.2: relative luminance, contrast ratio.
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let luminance =
        |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn contrast_is_enough_in_light_and_dark() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 0.01);
    for colours in palettes() {
        let of = |name: &str| *colours.get(name).unwrap_or_else(|| panic!("--{name}"));
        let mut texts = vec![];
        for ground in ["ground", "raised", "marked"] {
            texts.extend(["ink", "muted", "link"].map(|text| (text, ground)));
        }
        for word in ["good", "doubtful", "void", "note"] {
            texts.push((
                word,
                match word {
                    "good" => "good-ground",
                    "doubtful" => "doubtful-ground",
                    "void" => "void-ground",
                    _ => "note-ground",
                },
            ));
        }
        for (text, ground) in texts {
            let ratio = contrast(of(text), of(ground));
            assert!(ratio >= 4.5, "{text} on {ground}: {ratio:.2}");
        }
        // What is drawn: 3 is enough.
        for series in 1..=8 {
            let ratio = contrast(of(&format!("c{series}")), of("ground"));
            assert!(ratio >= 3.0, "c{series}: {ratio:.2}");
        }
    }
}

/// The ids of a page, in their order.
fn ids(html: &str) -> Vec<&str> {
    html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn no_id_is_there_twice() {
    let headings = [
        "Where and when",
        "Where and when",
        "answer",
        "\u{437}\u{430}\u{43f}",
        "",
        "x h",
        "x",
        "Chart 1",
    ];
    let mut page = self::page("plain");
    page.sections = headings.iter().map(|heading| Section::new(*heading, "")).collect();
    page.sections[0].blocks = self::page("plain").sections.remove(0).blocks;
    let html = html(&page);
    let own = html.replace(&library::library().expect("unpacks"), "");
    let all = ids(&own);
    let mut once = all.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), all.len(), "{all:?}");
    assert!(!all.iter().any(|id| id.is_empty() || id.starts_with('-')), "{all:?}");
    for link in own.split("<a href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(all.contains(&link), "{link} leads nowhere: {all:?}");
    }
    assert_eq!(own.matches("<section id=").count(), headings.len());
}

/// Points are found by the name of their series: two of one name are still two.
#[test]
fn series_of_one_name_keep_their_points() {
    let point = |x: f64| Point::new(x, x);
    let chart = Chart::new(
        "two",
        ChartKind::Line,
        Axis::new("time", Unit::Seconds),
        Axis::new("rate", Unit::PerSecond),
    )
    .series("read", vec![point(1.0), point(2.0)])
    .series("read", vec![point(3.0)])
    .loose_series("doubtful", vec![point(2.0)]);
    let mut out = String::new();
    chart::push(&mut out, &chart, &mut Counter::default());
    for (cell, count) in [("<td>read</td>", 2), ("<td>read (2)</td>", 1), ("<td>doubtful</td>", 1)]
    {
        assert_eq!(out.matches(cell).count(), count, "{out}");
    }
    assert!(out.contains("\"series\":[\"read\",\"read (2)\",\"doubtful\"]"), "{out}");
    assert!(out.contains("\"loose\":[false,false,true]"), "{out}");
}
