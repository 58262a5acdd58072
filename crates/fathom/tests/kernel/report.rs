//! `fathom report`: files as they are asked for, and what a browser makes of them.

use crate::browser::Browser;
use crate::cli::{Done, Sandbox, names, p};
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::{Trial, kernel_test};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("reports_are_written_where_asked", &[FathomBinary], written),
        kernel_test("reports_replace_only_reports", &[FathomBinary], replaced),
        kernel_test("a_report_in_a_browser", &[FathomBinary, Tool("chromium")], in_a_browser),
        kernel_test(
            "a_report_of_a_comparison_in_a_browser",
            &[FathomBinary, Tool("chromium")],
            compared,
        ),
    ]
}

/// A run of a real file with somebody's words for it.
fn measured(sandbox: &Sandbox, label: &str) -> Done {
    let dir = sandbox.dir();
    let label = format!("--label={label}");
    let args = ["run", "randread", p(&dir), "size=8M", "duration=2s", "depth=2", label.as_str()];
    sandbox.json(&args, &[0, 1])
}

/// In the directory of the sandbox, because reports are written into the current one.
fn report(sandbox: &Sandbox, args: &[&str]) -> Done {
    crate::cli::run(|| {
        let mut command = sandbox.command(&[&["report"], args].concat());
        command.current_dir(sandbox.dir());
        command
    })
}

fn written() {
    let sandbox = Sandbox::new();
    let nothing = report(&sandbox, &[]);
    assert!(nothing.code == 2 && nothing.stderr.contains("nothing has been stored"), "{nothing:?}");
    let ran = sandbox.json(&["run", "randread", "null:", "duration=1s"], &[0, 1]);
    let done = report(&sandbox, &[]);
    assert_eq!(done.code, 0, "{done:?}");
    let files = names(&sandbox.dir());
    let [name] = files.as_slice() else { panic!("{files:?}") };
    assert!(name.starts_with("fathom-") && name.ends_with(".html"), "{name}");
    assert!(ran.id().starts_with(&name["fathom-".len()..name.len() - 5]), "{name}");
    assert!(done.stdout.contains(name.as_str()), "{done:?}");
    // For programs: where it is and how large.
    let result = report(&sandbox, &["--json", "-o", "x.html"]).result();
    let size = fs::metadata(sandbox.dir().join("x.html")).unwrap().len();
    assert_eq!((&result["bytes"], &result["format"]), (&json!(size), &json!("html")));
    assert!(result["path"].as_str().unwrap().ends_with("/d/x.html"), "{result}");
    // Markdown by the name of the file; standard output gets the text alone.
    assert_eq!(report(&sandbox, &["-o", "x.md"]).code, 0);
    assert!(fs::read_to_string(sandbox.dir().join("x.md")).unwrap().contains("\n# "));
    let text = report(&sandbox, &["-o", "-"]).stdout;
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
    for (args, words) in [
        (&["a", "b", "c"][..], "two to compare"),
        (&["nosuchrun"][..], "nosuchrun"),
        (&["--history=/nowhere"][..], "/nowhere"),
        (&["--json", "-o", "-"][..], "name a file"),
        (&["-o", "/dev/null"][..], "/dev"),
        (&["-o", "."][..], "directory"),
        (&["-o", "x.pdf"][..], "print it from a browser"),
        (&["-o", "x.csv"][..], "fathom export writes tables"),
        (&["-o", "x.xyz"][..], "--format"),
        (&["--margin=3%"][..], "two runs that are compared"),
        (&["--step=3%"][..], "--history"),
    ] {
        let done = report(&sandbox, args);
        assert!(done.code == 2 && done.stderr.contains(words), "{args:?}: {done:?}");
    }
    let done = report(&sandbox, &["-o", "no/x.html"]);
    assert!(
        done.code == 2 && done.stderr.contains("no/x.html: there is no such folder"),
        "{done:?}"
    );
    assert_eq!(names(&sandbox.dir()).len(), 3, "nothing half-written: {:?}", names(&sandbox.dir()));
}

fn replaced() {
    let sandbox = Sandbox::new();
    sandbox.json(&["run", "randread", "null:", "duration=1s"], &[0, 1]);
    let file = sandbox.dir().join("x.html");
    fs::write(&file, "my thesis\n").unwrap();
    let done = report(&sandbox, &["-o", "x.html"]);
    assert!(done.code == 2 && done.stderr.contains("--overwrite"), "{done:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "my thesis\n");
    assert_eq!(report(&sandbox, &["-o", "x.html", "--overwrite"]).code, 0);
    // Its own may be replaced at any time, also where a link points to it.
    std::os::unix::fs::symlink("x.html", sandbox.dir().join("link")).unwrap();
    assert_eq!(report(&sandbox, &["-o", "link"]).code, 0);
    assert!(sandbox.dir().join("link").is_symlink());
    assert!(fs::read_to_string(&file).unwrap().contains("fathom report"));
}

const EVIL: &str = "</script><img src=x onerror=window.pwned=1>\"'><script>window.pwned=2</script>";

fn in_a_browser() {
    let sandbox = Sandbox::new();
    let ran = measured(&sandbox, EVIL);
    assert_eq!(report(&sandbox, &[&ran.id(), "-o", "x.html"]).code, 0);
    let file = sandbox.dir().join("x.html");
    let mut browser = Browser::start();
    let mut grounds = Vec::new();
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        browser.show(&file, width, scheme);
        let drawn = browser
            .evaluate("document.querySelectorAll('.drawn .plot svg, .drawn .plot canvas').length");
        assert!(drawn.as_u64().is_some_and(|count| count >= 4), "{width} {scheme}: {drawn} charts");
        // Nothing stands out at the side; wide tables scroll by themselves.
        let wide = browser.evaluate("document.documentElement.scrollWidth");
        assert!(wide.as_u64().is_some_and(|wide| wide <= u64::from(width)), "{width}: {wide}");
        grounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
    }
    assert!(
        grounds[0] == grounds[2] && grounds[1] == grounds[3] && grounds[0] != grounds[1],
        "{grounds:?}"
    );
    // Somebody's words are words.
    assert_eq!(
        browser.evaluate("[typeof window.pwned, document.images.length]"),
        json!(["undefined", 0])
    );
    let text = browser.evaluate("document.body.innerText");
    assert!(text.as_str().is_some_and(|text| text.contains(EVIL)), "{text}");
    a_download(&mut browser);
    // Turned over while it is shown, and printed.
    browser.look(800, "light");
    browser.settled();
    let pdf = browser.ask("Page.printToPDF", json!({"printBackground": false}));
    assert!(pdf["data"].as_str().is_some_and(|data| data.len() > 20_000));
    assert_eq!(browser.complaints(), [&json!(null); 0]);
    let asked: Vec<String> = browser.requests().into_iter().map(str::to_owned).collect();
    let own = format!("file://{}", file.display());
    assert!(asked.iter().all(|url| *url == own || url.starts_with("blob:")), "{asked:?}");
    without_scripts(&mut browser, &own);
}

/// The points of the first chart as a file: a line for each, and the titles.
fn a_download(browser: &mut Browser) {
    let place = browser.scratch.join("downloads");
    fs::create_dir(&place).unwrap();
    let allowed = json!({"behavior": "allow", "downloadPath": p(&place)});
    browser.ask("Page.setDownloadBehavior", allowed);
    let rows = browser.evaluate("document.querySelector('table.points').rows.length");
    browser.evaluate("document.querySelector('button.download').click()");
    let began = Instant::now();
    let found: PathBuf = loop {
        let files = names(&place);
        if let Some(name) = files.iter().find(|name| name.ends_with(".csv")) {
            break place.join(name);
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{files:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = fs::read_to_string(found).unwrap();
    assert_eq!(text.lines().count() as u64, rows.as_u64().unwrap(), "{text}");
    assert!(text.starts_with("time_since_the_window_began_s,operations_per_s\n"), "{text}");
}

/// Everything that the charts show is there to be read.
fn without_scripts(browser: &mut Browser, url: &str) {
    browser.ask("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.ask("Page.navigate", json!({"url": url}));
    let shown = "document.readyState === 'complete' && document.querySelector('footer') !== null";
    let began = Instant::now();
    while browser.evaluate(shown) != true {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    let found = browser.evaluate(
        "[document.querySelectorAll('svg, canvas').length, document.querySelectorAll('figure.chart').length - \
         document.querySelectorAll('figure.chart details .points').length, \
         getComputedStyle(document.querySelector('.plot')).display]",
    );
    assert_eq!(found, json!([0, 0, "none"]));
}

fn compared() {
    let sandbox = Sandbox::new();
    let ids = ["before", "after"].map(|label| measured(&sandbox, label).id());
    assert_eq!(report(&sandbox, &["before", "after"]).code, 0);
    assert_eq!(report(&sandbox, &[&format!("--history={}", p(&sandbox.dir()))]).code, 0);
    let files = names(&sandbox.dir());
    let files: Vec<_> = files.iter().filter(|name| name.ends_with(".html")).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    let mut browser = Browser::start();
    for name in files {
        browser.show(&sandbox.dir().join(name), 1280, "light");
        let drawn = browser.evaluate("document.querySelectorAll('.drawn').length");
        assert!(drawn.as_u64().is_some_and(|count| count > 0), "{name}: {drawn}");
    }
    assert_eq!(browser.complaints(), [&json!(null); 0]);
    assert_ne!(ids[0], ids[1]);
}
