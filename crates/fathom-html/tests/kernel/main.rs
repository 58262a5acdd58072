//! What a browser makes of reports of every kind.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's panic is its report")]

#[expect(dead_code, reason = "another test program saves files in it")]
#[path = "../../../fathom/tests/kernel/browser.rs"]
mod browser;
#[expect(dead_code, unused_imports, reason = "what is read of them is another test's")]
#[path = "../pages/kinds/mod.rs"]
mod kinds;
#[path = "../large/mod.rs"]
mod large;

use browser::Browser;
use fathom_html::html::html;
use fathom_html::page::{Axis, Cell, Chart, ChartKind, Column, Page, Point, Section, Table, Unit};
use fathom_model::record::RunKind;
use fathom_testkit::Capability::Tool;
use fathom_testkit::{Scratch, counted, kernel_test, run, sample};
use kinds::sample as records;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    run(vec![
        kernel_test("every_kind_of_report_in_a_browser", &[Tool("chromium")], every_kind),
        kernel_test("tables_and_charts_by_keys", &[Tool("chromium")], by_keys),
        kernel_test("large_reports_open_soon", &[Tool("chromium")], large_ones),
    ])
}

/// Where pictures of the pages are wanted, if anywhere: they are there to be looked at.
fn gallery() -> Option<PathBuf> {
    std::env::var_os("FATHOM_GALLERY").map(PathBuf::from)
}

/// Texts of charts that nobody can read: beside their plot, or on another text; and lines that are not drawn.
const HIDDEN: &str = r#"(() => {
    const found = [];
    for (const svg of document.querySelectorAll('.plot svg')) {
        const frame = svg.getBoundingClientRect();
        const name = svg.closest('figure').querySelector('figcaption strong').textContent + ': ';
        const texts = Array.from(svg.querySelectorAll('text')).filter((text) => !text.closest('[clip-path]'));
        const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
        boxes.forEach(([words, box], at) => {
            const isOut = box.left < frame.left - 1 || box.right > frame.right + 1 ||
                box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
            if (isOut) found.push(name + words + ' is cut off');
            for (const [others, other] of boxes.slice(at + 1)) {
                const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
                const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
                if (across > 2 && down > 5) found.push(name + words + ' stands on ' + others);
            }
        });
    }
    // Lines that were asked for are there, with their words.
    for (const figure of document.querySelectorAll('figure.chart.drawn')) {
        const words = Array.from(figure.querySelectorAll('.plot svg text')).map((text) => text.textContent);
        for (const mark of JSON.parse(figure.querySelector('script').textContent).marks) {
            if (mark.at >= 0 && !words.includes(mark.text)) {
                found.push(figure.querySelector('figcaption strong').textContent + ': no line ' + mark.text);
            }
        }
    }
    return found;
})()"#;

/// Series whose names do not stand above their chart on paper, where nobody can leaf through them.
const UNNAMED: &str = r#"(() => {
    const found = [];
    for (const figure of document.querySelectorAll('figure.chart.drawn')) {
        const spec = JSON.parse(figure.querySelector('script').textContent);
        if (spec.series.length < 2 || spec.kind === 'heat' || !figure.querySelector('.plot svg')) continue;
        // Those of other leaves are there as well, out of sight.
        const texts = Array.from(figure.querySelectorAll('.plot svg text')).filter((text) => !text.closest('[clip-path]'));
        const words = texts.map((text) => text.textContent);
        for (const name of spec.series) {
            if (!words.includes(name)) found.push(figure.querySelector('figcaption strong').textContent + ': ' + name);
        }
    }
    return found;
})()"#;

/// Of how many pieces the lines of the first chart are, the more the later.
const PIECES: &str = r#"Array.from(document.querySelectorAll('figure.chart .plot')[0].querySelectorAll('svg path'))
    .filter((path) => path.getAttribute('stroke-width') === '2' && path.getAttribute('fill') === 'none')
    .map((path) => path.getAttribute('d').split('M').length - 1)
    .filter((count) => count > 0)
    .sort((a, b) => a - b)"#;

/// Charts whose lines lie far from what is drawn: bounds and margins often do.
fn lines() -> Page {
    let points = |from: f64| (0..5u8).map(|x| Point::new(x.into(), from + f64::from(x))).collect();
    let of = |title: &str, kind, y| {
        Chart::new(title, kind, Axis::new("in flight", Unit::Count), y)
            .series("rate", points(10.0))
            .mark_x(40.0, "upper end")
    };
    let names = Axis::names("setting", ["a", "b", "c", "d", "e"]);
    let bars = Chart::new("Bars", ChartKind::Bars, names, Axis::new("rate", Unit::PerSecond))
        .series("rate", points(0.0))
        .mark_y(730.0, "bound")
        .mark_y(-300.0, "other bound");
    let rate = || Axis::new("rate", Unit::PerSecond);
    let (share, latency) = (Axis::new("share", Unit::Nines), Axis::new("ns", Unit::Nanoseconds));
    let shares = Chart::new("Nines", ChartKind::Line, share, latency.log())
        .series("one", vec![Point::new(0.1, 10.0), Point::new(0.9, 20.0)])
        .mark_x(0.9999, "high")
        .mark_y(3.0, "low");
    // Two thirds of a second line are missing, of the last of which one point is left.
    let is_there = |x: &u32| *x < 100 || *x == 180 || *x > 240;
    let parts = (0..300).filter(is_there).map(|x| Point::new(x.into(), 5.0)).collect();
    let time = Axis::new("time", Unit::Seconds);
    let gaps = Chart::new("Gaps", ChartKind::Line, time, rate())
        .series("whole", (0..300).map(|x| Point::new(x.into(), 10.0)).collect())
        .series("parts", parts)
        .joined(1.0);
    let section = Section::new("Lines", "")
        .block(gaps)
        .block(bars)
        .block(of("Plain", ChartKind::Line, rate()).mark_y(1234.0, "bound"))
        .block(of("Cropped", ChartKind::Line, rate().cropped()).mark_y(2.5, "low"))
        .block(of("Powers", ChartKind::Line, rate().log()).mark_y(3e5, "bound"))
        .block(shares);
    Page {
        title: "lines".into(),
        question: "Are all lines there?".into(),
        answer: String::new(),
        verdict: None,
        first: Vec::new(),
        sections: vec![section],
    }
}

/// All in one browser, because it starts slowly.
fn every_kind() {
    let scratch = Scratch::new().unwrap();
    let mut wrong = Vec::new();
    let mut browser = Browser::start();
    for (kind, page) in kinds::all().into_iter().chain([("lines", lines())]) {
        let file = scratch.join(format!("{kind}.html"));
        std::fs::write(&file, html(&page)).unwrap();
        browser.events.clear();
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
            let what = format!("{kind}, {width} pixels, {scheme}");
            if scheme == "light" {
                browser.show(&file, width, scheme);
            } else {
                browser.look(width, scheme);
                browser.settled();
            }
            // Nothing stands out at the side; wide tables scroll by themselves.
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert!(wide.as_u64().is_some_and(|wide| wide <= width.into()), "{what}: {wide}");
            let hidden = browser.evaluate(HIDDEN);
            if hidden != json!([]) {
                wrong.push(format!("{what}: {hidden}"));
            }
            if kind == "lines" {
                // Four strokes: the whole line, two parts of the other, and what the one point between them is.
                let joined = browser.evaluate(PIECES);
                assert_eq!(joined, json!([1, 3]), "{what}");
            }
            if let Some(gallery) = gallery() {
                let name = format!("{kind}-{width}-{scheme}.png");
                let height = browser.evaluate("document.documentElement.scrollHeight");
                let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
                let asked = json!({"captureBeyondViewport": true, "clip": clip});
                let shot = browser.ask("Page.captureScreenshot", asked);
                write_base64(&gallery.join(name), shot["data"].as_str().unwrap());
            }
        }
        browser.look(1280, "light");
        browser.evaluate("dispatchEvent(new Event('beforeprint'))");
        for script in [HIDDEN, UNNAMED] {
            let found = browser.evaluate(script);
            if found != json!([]) {
                wrong.push(format!("{kind}, on paper: {found}"));
            }
        }
        browser.evaluate("dispatchEvent(new Event('afterprint'))");
        let pdf = browser.ask("Page.printToPDF", json!({"printBackground": false}));
        let pdf = pdf["data"].as_str().unwrap();
        assert!(pdf.len() > 20_000, "{kind}: printed on {} letters", pdf.len());
        if let Some(gallery) = gallery() {
            write_base64(&gallery.join(format!("{kind}.pdf")), pdf);
        }
        assert_eq!(browser.complaints(), [&json!(null); 0], "{kind}");
        let own = format!("file://{}", file.display());
        let asked = browser.requests();
        assert!(asked.iter().all(|url| *url == own), "{kind}: {asked:?}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Figures of all sizes in the order of the rows of a table, and what has no figure.
const RAW: [(&str, Option<f64>); 6] = [
    ("1.2 ms", Some(1.2e6)),
    ("n/a", None),
    ("900 us", Some(9e5)),
    ("2 s", Some(2e9)),
    ("85 ns", Some(85.0)),
    ("1 300 us", Some(1.3e6)),
];

/// A table of them, a chart with gaps, and one with two lines.
fn of_keys() -> Page {
    let mut table =
        Table::new("", [Column::left("name"), Column::right("latency"), Column::left("")]);
    for ((text, value), number) in RAW.into_iter().zip([102, 9, 1000, 11, 101, 10]) {
        let latency = Cell { text: text.to_owned(), value };
        table.row_with_remark([format!("row {number}").into(), latency], "remark");
    }
    table.is_sortable = true;
    Page {
        title: "keys".into(),
        question: "Can it be used without a mouse?".into(),
        sections: vec![Section::new("Table", "").block(table)],
        ..lines()
    }
}

/// The texts of a column of the first sortable table, from the top.
fn column(browser: &mut Browser, index: usize) -> Vec<String> {
    let cells = format!(
        "Array.from(document.querySelector('table.sortable').tBodies[0].rows, (row) => row.cells[{index}].textContent)"
    );
    let found = browser.evaluate(&cells);
    found.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn press(browser: &mut Browser, key: &str) {
    let code = match key {
        "Enter" => 13,
        "Tab" => 9,
        "ArrowLeft" => 37,
        "ArrowUp" => 38,
        "ArrowRight" => 39,
        "ArrowDown" => 40,
        _ => unreachable!("{key}"),
    };
    for kind in ["keyDown", "keyUp"] {
        let mut asked =
            json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
        if key == "Enter" && kind == "keyDown" {
            asked["text"] = "\r".into();
        }
        browser.ask("Input.dispatchKeyEvent", asked);
    }
}

/// Goes on from control to control until one that fits has the focus, and looks whether that is to be seen.
#[track_caller]
fn tab_to(browser: &mut Browser, selector: &str) {
    let is_there = format!("document.activeElement.matches({})", json!(selector));
    for _ in 0..300 {
        press(browser, "Tab");
        if browser.evaluate(&is_there) == true {
            let style = "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])(getComputedStyle(document.activeElement))";
            assert_eq!(browser.evaluate(style), json!(["solid", "3px"]), "{selector}");
            return;
        }
    }
    panic!("no key leads to {selector}");
}

const SORTS: &str = "Array.from(document.querySelectorAll('table.sortable th'), (th) => th.getAttribute('aria-sort')).filter(Boolean)";

/// Every sortable table on the page by each of its titles: figures rise, then fall, what has none is last; a third time gives the order
/// that it had. Says what is wrong, and how many titles there were.
const SORT_ALL: &str = r#"(() => {
    const wrong = [];
    let count = 0;
    for (const table of document.querySelectorAll('table.sortable')) {
        const body = table.tBodies[0];
        const texts = () => Array.from(body.rows, (row) => row.textContent).join('|');
        const before = texts();
        Array.from(table.tHead.rows[0].cells).forEach((head, i) => {
            const button = head.querySelector('button');
            if (!button) return;
            count += 1;
            const values = () => Array.from(body.rows, (row) => row.cells[i].dataset.v).map((v) => (v === undefined ? null : Number(v)));
            for (const [word, sign] of [['ascending', 1], ['descending', -1]]) {
                button.click();
                if (head.getAttribute('aria-sort') !== word) wrong.push(head.textContent + ' is not ' + word);
                const all = values(), known = all.filter((v) => v !== null);
                if (all.slice(0, known.length).includes(null)) wrong.push(head.textContent + ': what has no figure is not last');
                if (known.some((v, at) => at && sign * (v - known[at - 1]) < 0)) wrong.push(head.textContent + ': ' + known.join(' '));
            }
            button.click();
            if (head.getAttribute('aria-sort') || texts() !== before) wrong.push(head.textContent + ' does not give the order back');
        });
    }
    return [wrong, count];
})()"#;

fn by_keys() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.join("keys.html");
    std::fs::write(&file, html(&of_keys())).unwrap();
    let mut browser = Browser::start();
    browser.show(&file, 1280, "light");
    let as_made: Vec<String> = RAW.iter().map(|(text, _)| (*text).to_owned()).collect();
    tab_to(&mut browser, "table.sortable th:nth-child(2) button");
    let rising = ["85 ns", "900 us", "1.2 ms", "1 300 us", "2 s", "n/a"];
    let falling = ["2 s", "1 300 us", "1.2 ms", "900 us", "85 ns", "n/a"];
    press(&mut browser, "Enter");
    assert_eq!(
        (column(&mut browser, 1), browser.evaluate(SORTS)),
        (rising.map(str::to_owned).into(), json!(["ascending"]))
    );
    press(&mut browser, "Enter");
    assert_eq!(
        (column(&mut browser, 1), browser.evaluate(SORTS)),
        (falling.map(str::to_owned).into(), json!(["descending"]))
    );
    press(&mut browser, "Enter");
    assert_eq!((column(&mut browser, 1), browser.evaluate(SORTS)), (as_made.clone(), json!([])));
    // Words with numbers in them go by the numbers, and one column at a time is the order.
    press(&mut browser, "Enter");
    browser.evaluate("document.querySelector('table.sortable th button').click()");
    assert_eq!(browser.evaluate(SORTS), json!(["ascending"]));
    let names = ["row 9", "row 10", "row 11", "row 101", "row 102", "row 1000"].map(str::to_owned);
    assert_eq!(column(&mut browser, 0), names);
    // What has no title has no button.
    let titles = browser.evaluate("document.querySelectorAll('table.sortable th button').length");
    assert_eq!(titles, json!(2));

    every_title(&mut browser, &scratch);
    of_a_chart(&mut browser, &scratch);
    assert_eq!(browser.complaints(), [&json!(null); 0]);

    // Without scripts all rows are there, and no button that would do nothing.
    browser.ask("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    let url = format!("file://{}", file.display());
    browser.ask("Page.navigate", json!({"url": url}));
    let began = Instant::now();
    let is_it = "document.readyState === 'complete' && document.title === 'keys' && document.querySelector('footer') !== null";
    while browser.evaluate(is_it) != true {
        assert!(began.elapsed() < OPEN_MAX);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(column(&mut browser, 1), as_made);
    assert_eq!(browser.evaluate("document.querySelectorAll('th button').length"), json!(0));
}

/// The tables of all kinds of reports.
fn every_title(browser: &mut Browser, scratch: &Scratch) {
    let mut titles = 0;
    for (kind, page) in kinds::all() {
        let file = scratch.join("sorted.html");
        std::fs::write(&file, html(&page)).unwrap();
        browser.show(&file, 1280, "light");
        let found = browser.evaluate(SORT_ALL);
        assert_eq!(found[0], json!([]), "{kind}");
        titles += found[1].as_u64().unwrap();
    }
    assert!(titles >= 40, "only {titles} titles can be sorted by");
}

/// Arrow keys go from point to point and from line to line; what is read out is what stands there.
fn of_a_chart(browser: &mut Browser, scratch: &Scratch) {
    let file = scratch.join("lines.html");
    std::fs::write(&file, html(&lines())).unwrap();
    browser.show(&file, 1280, "light");
    tab_to(browser, ".plot");
    let said = "document.querySelector('.said').textContent";
    press(browser, "ArrowRight");
    assert_eq!(browser.evaluate(said), json!("whole; time: 0 s; rate: 10/s"));
    press(browser, "ArrowRight");
    assert_eq!(browser.evaluate(said), json!("whole; time: 1 s; rate: 10/s"));
    press(browser, "ArrowDown");
    assert_eq!(browser.evaluate(said), json!("parts; time: 1 s; rate: 5/s"));
    // Over both gaps of this line: to the point between them, and to the next after it.
    for _ in 0..99 {
        press(browser, "ArrowRight");
    }
    assert_eq!(browser.evaluate(said), json!("parts; time: 180 s; rate: 5/s"));
    press(browser, "ArrowRight");
    assert_eq!(browser.evaluate(said), json!("parts; time: 241 s; rate: 5/s"));
    press(browser, "ArrowLeft");
    assert_eq!(browser.evaluate(said), json!("parts; time: 180 s; rate: 5/s"));
    press(browser, "ArrowUp");
    let text = browser.evaluate(said);
    assert!(text.as_str().is_some_and(|text| text.starts_with("whole; ")), "{text}");
}

/// Three seconds are meant; ten times that is for slow machines that others use.
const OPEN_MAX: Duration = Duration::from_secs(30);

/// Charts in sight that are not drawn yet; -1 before the page is there.
const UNDRAWN_IN_SIGHT: &str = r#"(() => {
    if (document.readyState !== 'complete' || !document.querySelector('footer')) return -1;
    const isInSight = (box) => box.top < innerHeight && box.bottom > 0;
    const waiting = Array.from(document.querySelectorAll('figure.chart:not(.drawn)'));
    return waiting.filter((figure) => isInSight(figure.getBoundingClientRect())).length;
})()"#;

/// Ten thousand trials, and seconds of fifty devices: four hours have as many points as a week, because neighbours are put together.
fn large_ones() {
    let plan = large::lab_plan();
    let hours_count = sample(4, 168) as u64;
    let lab = large::page("lab", RunKind::Experiment, Some(&plan), &large::lab());
    let watch = large::page("watch", RunKind::Watch, None, &large::hours(hours_count));
    let scratch = Scratch::new().unwrap();
    let mut browser = Browser::start();
    browser.look(1280, "light");
    for (name, page) in [("10 000 trials", lab), ("seconds of 50 devices", watch)] {
        let file = scratch.join("large.html");
        let text = html(&page);
        std::fs::write(&file, &text).unwrap();
        let began = Instant::now();
        browser.ask("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        while browser.evaluate(UNDRAWN_IN_SIGHT) != 0 {
            assert!(began.elapsed() < OPEN_MAX, "{name}: {:?}", browser.complaints());
            std::thread::sleep(Duration::from_millis(10));
        }
        let took = began.elapsed();
        counted(&format!("bytes of a report of {name}"), text.len());
        counted(
            &format!("milliseconds until it is open and drawn ({name})"),
            took.as_millis() as usize,
        );
        assert!(took < OPEN_MAX, "{name}: {took:?}");
        assert_eq!(browser.complaints(), [&json!(null); 0], "{name}");
    }
}

fn write_base64(path: &Path, text: &str) {
    use std::io::Write;
    let mut child = std::process::Command::new("base64")
        .arg("-d")
        .stdin(std::process::Stdio::piped())
        .stdout(std::fs::File::create(path).unwrap())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}
