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
use fathom_html::page::{Axis, Chart, ChartKind, Page, Point, Section, Unit};
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
