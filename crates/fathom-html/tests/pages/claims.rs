//! No claim without its interval: whatever sets runs against each other, or stands for several of them, says how far it may be off, or why
//! that is not known. Asked of every kind of page, of the texts for terminals that are written down in tests, and of the documentation.

use super::{charts, kinds};
use fathom_html::markdown::markdown;
use fathom_html::page::{Block, Page, Table};
use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

/// How claims look, and what makes them good.
struct Rules {
    /// A bound that was asked for is no result: `at least 10 %`.
    limit: Regex,
    claim: Regex,
    interval: Regex,
    /// Why there is no interval.
    reason: Regex,
    /// Where a sentence ends.
    end: Regex,
}

impl Rules {
    fn new() -> Self {
        const NUMBER: &str = r"[-+]?\d[\d. ]*";
        let claims = [
            // +12.0 %
            r"(^|[\s(])[-+]\d[\d.]* %".to_owned(),
            // 12.0 % faster, 4.00 times higher
            format!(
                "{NUMBER} (%|times) (faster|slower|higher|lower|more|less|better|worse|larger|smaller)"
            ),
            format!(r"\bkeeps? {NUMBER} %"),
            format!("{NUMBER} % of what (is below|the layer)"),
            format!("{NUMBER} x one member"),
            format!(r"\bmedian {NUMBER}"),
            // What percents cannot say: x 0.25.
            r"(^|[\s(])x \d".to_owned(),
        ];
        Self {
            limit: pattern(
                r"(at least|at most|less than|more than|larger than|beyond|within|margin of|fail-if=\S*) [-+]?\d[\d.]* ?(%|times)?",
            ),
            claim: pattern(&claims.join("|")),
            interval: pattern(r"[-+x< ]*\d[^;()]*? to [-+x< ]*\d"),
            reason: pattern(
                r"(no|without|without an) intervals?|too few|in flight, stated|an interval from|have intervals? from|intervals stand|from six trials on",
            ),
            end: pattern(r"[.?!] |; |\. ?$"),
        }
    }

    /// Sentences of running text that claim without saying how well.
    fn bare<'t>(&self, text: &'t str) -> Vec<&'t str> {
        if self.reason.is_match(text) {
            return Vec::new();
        }
        let is_bare = |sentence: &&str| {
            let said = self.limit.replace_all(sentence, "a bound");
            self.claim.is_match(&said) && !self.interval.is_match(sentence)
        };
        self.sentences(text).into_iter().filter(is_bare).collect()
    }

    fn claims(&self, text: &str) -> usize {
        let claims = |sentence: &&str| self.claim.is_match(&self.limit.replace_all(sentence, ""));
        self.sentences(text).iter().filter(|sentence| claims(sentence)).count()
    }

    /// What is in brackets belongs to the sentence around it.
    fn sentences<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let (mut all, mut from) = (Vec::new(), 0);
        for end in self.end.find_iter(text) {
            let before = &text[from..end.start()];
            if before.matches('(').count() <= before.matches(')').count() {
                all.push(before);
                from = end.end();
            }
        }
        all.push(&text[from..]);
        all
    }
}

#[test]
fn what_is_a_claim_and_what_makes_it_good() {
    let rules = Rules::new();
    for bad in [
        "B is 12.0 % faster, 8 pairs.",
        "In all it is good. random read: B is 4.00 times slower",
        "Best: none: IOPS 1 414, +40.0 % against the baseline",
        "it keeps 30.1 % of the files/s",
        "the fastest is raid0 with 1.96 x one member",
        "transactions/s over n = 3 repeats: min 205, median 209, max 214",
        "IOPS x 0.25 against A",
        "md0 gets 93 % of what the layer below it does",
        "at least 10 % was expected, and it is 12 % faster",
    ] {
        assert_eq!((rules.bare(bad).len(), rules.claims(bad)), (1, 1), "{bad}");
    }
    for good in [
        "B is 12.0 % faster (+8.1 to +16.0 %), 8 pairs; read p99: no difference larger than 3 %.",
        "it keeps 30.1 % of the files/s (one repeat: no interval)",
        "median 209 (99 %: 205 to 214)",
        "IOPS +25.0 % (97 %: +24.0 to +26.0 %); at least +10.0 % was expected",
        "31 % of the requests were late",
        "a difference of 5 % is found in 12 pairs",
    ] {
        assert_eq!(rules.bare(good), [""; 0], "{good}");
    }
}

/// Running text of a page, a paragraph each.
fn paragraphs(page: &Page) -> Vec<String> {
    let mut all = vec![page.answer.clone()];
    all.extend(page.sections.iter().map(|section| section.note.clone()));
    let blocks = page.first.iter().chain(page.sections.iter().flat_map(|section| &section.blocks));
    for block in blocks {
        match block {
            Block::Text(text) => all.push(text.clone()),
            Block::Plain(text) => all.extend(of_lines(text)),
            Block::Findings(findings) => {
                all.extend(findings.iter().map(|found| found.summary.clone()))
            }
            Block::Table(table) => all.extend(table.notes.clone()),
            Block::Chart(_) | Block::Stack(_) | Block::Command { .. } => {}
        }
    }
    all
}

/// Paragraphs of what a terminal shows: lines without columns, which go on where they are indented alike or more.
fn of_lines(text: &str) -> Vec<String> {
    let columns = pattern(r"\S {2,}\S");
    let mut all = vec![String::new()];
    for line in text.lines() {
        let is_row = columns.is_match(line.trim());
        match all.last_mut() {
            Some(last) if !is_row && !line.trim().is_empty() => {
                last.push_str(line.trim());
                last.push(' ');
            }
            _ => all.push(String::new()),
        }
    }
    all.retain(|paragraph| !paragraph.is_empty());
    all
}

/// Columns that set one thing against another.
const COMPARES: [&str; 5] = ["change", "of below", "load kept", "against the reference", "keeps"];

/// Rows of a table whose comparison has no interval, in its cell or in a column of its own, and no reason below.
fn bare_rows(rules: &Rules, table: &Table, note: &str) -> Vec<String> {
    let reasons = format!("{} {note}", table.notes.join(" "));
    let compares = |title: &str| COMPARES.contains(&title);
    let mut bare = Vec::new();
    for (at, column) in
        table.columns.iter().enumerate().filter(|(_, column)| compares(&column.title))
    {
        let next = table
            .columns
            .get(at + 1)
            .is_some_and(|next| next.title == "interval" || next.title.ends_with(" of it"));
        for row in &table.rows {
            let text = |at: usize| row.cells.get(at).map_or("", |cell| cell.text.as_str());
            // How far runs of one cell lie apart sets nothing against another.
            let is_figure =
                text(at).contains(|c: char| c.is_ascii_digit()) && !text(at).ends_with(" apart");
            let is_good = rules.interval.is_match(text(at))
                || (next && rules.interval.is_match(text(at + 1)));
            if is_figure && !is_good && !rules.reason.is_match(&reasons) {
                bare.push(format!("{}: {}", column.title, text(at)));
            }
        }
    }
    bare
}

#[test]
fn pages_claim_nothing_without_an_interval() {
    let rules = Rules::new();
    let (mut wrong, mut claims, mut figures) = (Vec::new(), 0, 0);
    for (kind, page) in kinds::all() {
        for paragraph in paragraphs(&page) {
            claims += rules.claims(&paragraph);
            wrong.extend(rules.bare(&paragraph).iter().map(|bare| format!("{kind}: {bare}")));
        }
        for section in &page.sections {
            let tables = section.blocks.iter().filter_map(|block| {
                if let Block::Table(table) = block { Some(table) } else { None }
            });
            for table in tables {
                figures += table
                    .columns
                    .iter()
                    .filter(|column| COMPARES.contains(&column.title.as_str()))
                    .count();
                wrong.extend(
                    bare_rows(&rules, table, &section.note)
                        .into_iter()
                        .map(|bare| format!("{kind}: {bare}")),
                );
            }
        }
        // A point that stands for several runs says how sure it is, or where or why not.
        let several = pattern("for each (cell|point|layer)|medians|complete block|pairs");
        for chart in charts(&page) {
            let is_single =
                chart.n.contains("one for each") || chart.n.contains("one point for each");
            if several.is_match(&chart.n) && !is_single && chart.interval.is_empty() {
                wrong.push(format!("{kind}: {} ({})", chart.title, chart.n));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(claims >= 15 && figures >= 5, "{claims} claims and {figures} columns were looked at");
}

/// One form for people: `8 to 16 %`, with the unit once.
#[test]
fn intervals_have_one_form() {
    let dots = pattern(r"\d[^|\n]* \.\. [-+]?\d");
    let twice = pattern(
        r"\d %  ?to [-+<]?[ ]?[\d.]+ %|\d ([kMG]?B/s|[num]?s) to [\d.]+ ([kMG]?B/s|[num]?s)\b",
    );
    let is_twice = |found: regex_lite::Captures<'_>| {
        found.get(1).is_none()
            || found.get(1).map(|m| m.as_str()) == found.get(2).map(|m| m.as_str())
    };
    let mut texts: Vec<(String, String)> =
        kinds::all().iter().map(|(kind, page)| ((*kind).to_owned(), markdown(page))).collect();
    texts.extend(written_down());
    for (of, text) in texts {
        assert!(!dots.is_match(&text), "{of}: {:?}", dots.find(&text));
        assert!(!twice.captures_iter(&text).any(is_twice), "{of}: {:?}", twice.find(&text));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(under: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(under).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|own| own == ending) {
            found.push(path);
        }
    }
}

/// What tests expect terminals to show, and the samples of the documentation, by where they stand.
fn written_down() -> Vec<(String, String)> {
    let (mut sources, mut documents) = (Vec::new(), vec![root().join("README.md")]);
    files(&root().join("crates/fathom-report/src"), "rs", &mut sources);
    // How tables are laid out is tested with words of all kinds.
    sources.retain(|path| path.file_name().is_some_and(|name| name != "table.rs"));
    files(&root().join("docs"), "md", &mut documents);
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a file");
    let between = |path: &PathBuf, begin: &str, end: &str| -> Vec<(String, String)> {
        let text = read(path);
        let parts = text.split(begin).skip(1).filter_map(|rest| rest.split(end).next());
        parts.map(|part| (path.display().to_string(), part.to_owned())).collect()
    };
    let expected = sources.iter().flat_map(|path| between(path, "expect![[r#\"", "\"#]]"));
    // Fences open and close in turn.
    let fenced = |path: &PathBuf| -> Vec<(String, String)> {
        let text = read(path);
        let inside =
            text.split("\n```").skip(1).step_by(2).filter_map(|part| part.strip_prefix('\n'));
        inside.map(|part| (path.display().to_string(), part.to_owned())).collect()
    };
    expected.chain(documents.iter().flat_map(fenced)).collect()
}

/// Tables of a terminal have their legend below them, in the same text.
#[test]
fn terminals_claim_nothing_without_an_interval() {
    let rules = Rules::new();
    let head = pattern(r"  (change|of below|load kept|against the reference)(  |$)");
    let (mut wrong, mut claims, mut tables) = (Vec::new(), 0, 0);
    for (at, text) in written_down() {
        for paragraph in of_lines(&text) {
            claims += rules.claims(&paragraph);
            wrong.extend(rules.bare(&paragraph).iter().map(|bare| format!("{at}: {bare}")));
        }
        if text.lines().any(|line| head.is_match(line)) {
            tables += 1;
            let says = text.contains("interval") || rules.interval.is_match(&text);
            wrong.extend((!says).then(|| format!("{at}: {text}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(claims >= 15 && tables >= 5, "{claims} claims and {tables} tables were looked at");
}
