//! `fathom report`.

use super::compare::side;
use super::hiding::Hiding;
use super::history;
use super::list::{open, state_of};
use super::{CommandError, CommandResult, capture, local_zone, planned, standing, watch};
use crate::args::{Common, History, Report, ReportFormat};
use crate::exit::Exit;
use crate::output::Output;
use crate::report_file::{self, Refusal};
use fathom_base::shell;
use fathom_base::units::{format_size, parse_fraction};
use fathom_html::page::Page;
use fathom_html::pages::{self, Source};
use fathom_html::{html, markdown};
use fathom_store::{Filter, RunState, Store, StoreError};
use fathom_study::compare::{Options, Told, compare};
use fathom_study::experiment::keep_pairs;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// A report before it is a file.
struct Made {
    page: Page,
    /// What the file is called when nobody says: `fathom-7f3k`.
    stem: String,
}

/// Writes a report of one run, of two compared, or of a target over time.
pub fn run(common: &Common, output: Output, args: &Report) -> CommandResult {
    let format = format(output, args)?;
    if args.margin.is_some() && args.runs.len() != 2 {
        let text = "--margin is for two runs that are compared: fathom report A B --margin=3%";
        return Err(CommandError::usage(output, &text));
    }
    let made = match (&args.history, args.runs.as_slice()) {
        (Some(target), _) => over_time(common, output, args, target)?,
        (None, []) => of_run(common, output, args, None)?,
        (None, [run]) => of_run(common, output, args, Some(run))?,
        (None, [a, b]) => of_two(common, output, args, a, b)?,
        (None, more) => {
            let text = format!(
                "{} runs: name one, or two to compare; several on one side with commas: fathom report a1,a2 b1,b2",
                more.len()
            );
            return Err(CommandError::usage(output, &text));
        }
    };
    let text = match format {
        ReportFormat::Html => html::html(&made.page),
        ReportFormat::Markdown => markdown::markdown(&made.page),
    };
    if args.output.as_deref() == Some(Path::new("-")) {
        // Programs read standard output: a document and JSON lines do not mix.
        if output.json {
            let text = "--json and -o -: both want standard output; name a file";
            return Err(CommandError::usage(output, &text));
        }
        output.text(&text)?;
        return Ok(Exit::Done);
    }
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(made.stem + extension(format)));
    report_file::write(&path, &text, args.overwrite).map_err(|error| {
        let exit = match &error {
            Refusal::Io { error, .. } => Exit::of_path(error),
            _ => Exit::Usage,
        };
        CommandError::report_as(output, &error, exit)
    })?;
    output.text(&written(&path, text.len(), format))?;
    let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    output.json(
        "result",
        &serde_json::json!({
            "path": absolute.display().to_string(),
            "bytes": text.len(),
            "format": format.word(),
            "title": made.page.title,
            "verdict": made.page.verdict,
        }),
    )?;
    Ok(Exit::Done)
}

/// What was asked for, else what the name of the file says.
fn format(output: Output, args: &Report) -> Result<ReportFormat, CommandError> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let path = args.output.as_deref().unwrap_or(Path::new(""));
    match path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).as_deref() {
        None | Some("html" | "htm") => Ok(ReportFormat::Html),
        Some("md" | "markdown") => Ok(ReportFormat::Markdown),
        Some(other) => {
            let name = path.display();
            let how = match other {
                "pdf" => "write .html and print it from a browser",
                "csv" | "json" | "jsonl" | "parquet" => {
                    "fathom export writes tables and JSON lines"
                }
                _ => "end in .html or .md, or name it with --format",
            };
            let text = format!("-o {name}: a report is HTML or Markdown, not {other}: {how}");
            Err(CommandError::usage(output, &text))
        }
    }
}

fn extension(format: ReportFormat) -> &'static str {
    match format {
        ReportFormat::Html => ".html",
        ReportFormat::Markdown => ".md",
    }
}

fn written(path: &Path, bytes: usize, format: ReportFormat) -> String {
    let how = match format {
        ReportFormat::Html => "; any browser shows it, without network",
        ReportFormat::Markdown => "",
    };
    format!("Report: {} ({}){how}\n", shell::path(path), format_size(bytes as u64))
}

/// The report of a stored run, for a command that has just stored it; where it lies.
///
/// # Errors
/// What it could not be written for, in words: the run is stored, and nothing else is lost.
pub fn beside(store: &Path, id: &str) -> Result<PathBuf, String> {
    let store = Store::open_read_only(store).map_err(|error| error.to_string())?;
    let made = of_stored(&store, id, None).map_err(|error| error.to_string())?;
    let path = PathBuf::from(made.stem + extension(ReportFormat::Html));
    report_file::write(&path, &html::html(&made.page), false).map_err(|e| e.to_string())?;
    Ok(path)
}

fn of_run(
    common: &Common,
    output: Output,
    args: &Report,
    run: Option<&str>,
) -> Result<Made, CommandError> {
    let nothing = || CommandError::nothing_stored(output);
    let failed = |e: StoreError| CommandError::store(output, &e);
    let store = open(common, output)?.ok_or_else(nothing)?;
    let id = match run {
        Some(run) => store.resolve(run).map_err(failed)?,
        None => {
            let newest = Filter { limit: Some(1), ..Filter::default() };
            let newest = store.list(&newest).map_err(failed)?.into_iter().next();
            newest.ok_or_else(nothing)?.id
        }
    };
    let mut hiding = args.anonymise.then(Hiding::new);
    of_stored(&store, &id, hiding.as_mut()).map_err(failed)
}

/// The verdict is made anew from the records.
fn of_stored(store: &Store, id: &str, hiding: Option<&mut Hiding>) -> Result<Made, StoreError> {
    let mut stored = store.load(id)?;
    let name = store.shortest_prefix(id)?;
    let mut plan = store.plan(id)?;
    if let Some(hiding) = hiding {
        hiding.stored(&mut stored, &mut plan).ok_or_else(|| StoreError::Internal {
            path: store.path().to_owned(),
            detail: format!("run {id} cannot be shown without what identifies"),
        })?;
    }
    let state = state_of(stored.state, &stored.writer);
    let unfinished = (stored.state == RunState::Running).then_some(state);
    let (head, records) = (&stored.head, &stored.records);
    let study = planned::judge(head.kind, plan.as_ref(), records, unfinished);
    let zone = local_zone();
    let page = pages::of_run(&Source {
        head: &stored.head,
        name: &name,
        records: &stored.records,
        findings: &study.findings,
        verdict: study.verdict,
        plan: plan.as_ref(),
        how_to: planned::how_to,
        zone: &zone,
    });
    Ok(Made { page, stem: format!("fathom-{name}") })
}

fn of_two(
    common: &Common,
    output: Output,
    args: &Report,
    a: &str,
    b: &str,
) -> Result<Made, CommandError> {
    let margin = args.margin.as_deref().unwrap_or("3%");
    let margin = parse_fraction(margin)
        .map_err(|e| CommandError::usage(output, &format!("--margin={margin}: {e}")))?;
    let mut told = Told::new();
    let mut sided = |words: &str| side(common, output, words, &mut told);
    let (mut a, mut b) = (sided(a)?, sided(b)?);
    keep_pairs(&mut a, &mut b);
    if watch::stored::is_asked(&a, &b) || capture::compare::is_asked(&a, &b) {
        let text = "watches, captures and replays are compared on the terminal: fathom compare A B; fathom report RUN draws one";
        return Err(CommandError::usage(output, &text));
    }
    if args.anonymise {
        Hiding::new().sides([&mut a, &mut b]).ok_or_else(|| unreadable(output))?;
    }
    let options = Options { margin_percent: 100.0 * margin, told, ..Options::default() };
    let found = compare(&a, &b, &options);
    let page = pages::of_comparison(&found, [&a, &b], &local_zone());
    Ok(Made { page, stem: format!("fathom-{}-against-{}", plain(&b.name), plain(&a.name)) })
}

fn over_time(
    common: &Common,
    output: Output,
    args: &Report,
    target: &str,
) -> Result<Made, CommandError> {
    let asked = History {
        target: target.to_owned(),
        row: None,
        label: None,
        step: args.step.as_deref().unwrap_or("5%").to_owned(),
    };
    let mut shown = standing::absolute_target(&SysRoot::live(), target);
    let (store, runs, found) = history::series(common, output, &asked, &mut |runs| {
        if !args.anonymise {
            return Ok(runs);
        }
        let hidden = Hiding::new().runs(runs, &mut shown);
        hidden.ok_or_else(|| unreadable(output))
    })?;
    let target = shown.as_str();
    let prefix = |id: &str| store.shortest_prefix(id).unwrap_or_else(|_| id.to_owned());
    let page = pages::of_history(target, &found, &runs, &prefix, &local_zone());
    Ok(Made { page, stem: format!("fathom-history-{}", plain(target)) })
}

fn unreadable(output: Output) -> CommandError {
    let text = "a run cannot be shown without what identifies; leave it out";
    CommandError::report_as(output, &text, Exit::Internal)
}

/// A part of a file's name: letters, digits, points and hyphens.
fn plain(words: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let text: String = words.chars().map(kept).take(40).collect();
    let text = text.trim_matches(['-', '.']);
    if text.is_empty() { "root".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        let of = ["/srv/data", "../x", "a,b:read (4 KiB)@/x.db", "/"].map(plain);
        assert_eq!(of, ["srv-data", "x", "a-b-read--4-KiB---x.db", "root"]);
    }
}
