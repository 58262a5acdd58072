//! `fathom check`.

use super::{CommandError, CommandResult, finish};
use crate::args::{Check, CheckForm, Common, Threshold};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use crate::sink;
use fathom_base::printable::printable;
use fathom_base::suggest::nearest;
use fathom_check::{Proof, Rule, Scene, alignment, glossary, rules};
use fathom_model::defect::{Defect, Gravity};
use fathom_model::snapshot::{SNAPSHOT_FORMAT, Snapshot};
use fathom_report::check::{
    facts::facts_text, findings::findings_text, folded, metrics::metrics_text, table::table_text,
    tree_text, unread_text,
};
use fathom_sys::clock;
use fathom_sys::sysroot::SysRoot;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::thread;

mod collect;
mod file;

/// Shows the stack and what is wrong with it.
pub fn run(common: &Common, output: Output, args: &Check) -> CommandResult {
    if let Some(id) = &args.explain {
        return explain(output, id);
    }
    if output.json && matches!(args.show, CheckForm::Openmetrics) {
        return Err(CommandError::usage(output, &"--json and --show=openmetrics: one of them"));
    }
    if args.alignment && (output.json || matches!(args.show, CheckForm::Openmetrics)) {
        let why = "--alignment is a text: not with --json or --show=openmetrics";
        return Err(CommandError::usage(output, &why));
    }
    if let Some(path) = &args.snapshot
        && let Some(why) = sink::no_folder(path)
    {
        return Err(CommandError::usage(output, &format!("{}: {why}", path.display())));
    }
    let snapshot = match &args.from {
        Some(path) => file::of_path(path)
            .and_then(|()| file::read(path).map_err(|error| (error, Exit::Internal)))
            .map_err(|(error, exit)| CommandError::report_as(output, &error, exit))?,
        None => collect::snapshot(common, output, args)?,
    };
    let snapshot = if args.anonymise {
        fathom_check::anonymise::anonymise(snapshot, session::system_seed())
    } else {
        snapshot
    };
    if let Some(path) = &args.snapshot {
        file::write(path, &snapshot)
            .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
        output.note(&format!(
            "every fact is stored in {}; fathom check --from={0} judges it",
            path.display()
        ));
    }
    // The facts need not wait for what is said of them.
    let (defects, facts) = thread::scope(|scope| {
        let text = || if output.json { file::line(&snapshot) } else { String::new() };
        let facts = scope.spawn(text);
        let defects = fathom_check::check(&snapshot);
        (defects, facts.join().unwrap_or_else(|_| "null".to_owned()))
    });
    let exit = exit(args.fail_on, &defects);
    let needed = rules::measured::needed(&Scene::new(&snapshot));
    let result = json!({
        "defects": defects,
        "needs_measurement": needed.iter().map(|(rule, command)| json!({"rule": rule, "command": command})).collect::<Vec<_>>(),
    });
    let text = match args.show {
        CheckForm::Openmetrics => metrics_text(&snapshot, &defects),
        form => text(form, output, args, snapshot, &defects, &needed),
    };
    let beside = ("snapshot", facts.as_str());
    match output.text(&text).and_then(|()| output.json_beside("result", &result, beside)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(exit),
    }
}

/// Everything for people.
fn text(
    form: CheckForm,
    output: Output,
    args: &Check,
    snapshot: Snapshot,
    defects: &[Defect],
    needed: &[(&'static str, String)],
) -> String {
    let width = output.width();
    let unread = unread_text(&snapshot, args.unread, width);
    let steps = if args.alignment { steps(&Scene::new(&snapshot)) } else { String::new() };
    // Only on a terminal: in a file a line is a node.
    let columns = output.columns();
    let mut out = match form {
        CheckForm::Table => table_text(&snapshot.machine, columns.unwrap_or(usize::MAX)),
        CheckForm::Facts => facts_text(&snapshot),
        _ => {
            let tree = tree_text(snapshot, defects);
            columns.map_or_else(|| tree.clone(), |columns| folded(&tree, columns))
        }
    };
    if args.alignment {
        let _ = write!(out, "\n{steps}");
    }
    let _ = write!(out, "\n{}", findings_text(defects, args.all, width));
    for (rule, command) in needed {
        let _ = writeln!(out, "needs a measurement: {rule}: {command}");
    }
    out.push_str(&unread);
    out
}

/// The alignment of everything that nothing stands on.
fn steps(scene: &Scene<'_>) -> String {
    let mut out = String::new();
    let has_device = |top: usize| {
        scene.machine().walk_from(top).into_iter().any(|index| scene.node(index).devno.is_some())
    };
    for top in scene.machine().tops.iter().copied().filter(|&top| has_device(top)) {
        let _ = writeln!(out, "Alignment under {}:", printable(scene.node(top).label()));
        for line in alignment::lines(&alignment::explain(scene, top)) {
            let _ = writeln!(out, "  {}", printable(&line));
        }
    }
    out
}

fn exit(threshold: Threshold, defects: &[Defect]) -> Exit {
    let least = match threshold {
        Threshold::Never => return Exit::Done,
        Threshold::Low => Gravity::Low,
        Threshold::Medium => Gravity::Medium,
        Threshold::High => Gravity::High,
    };
    if defects.iter().any(|defect| defect.gravity >= least) { Exit::Doubtful } else { Exit::Done }
}

/// The page of a rule, or what a word means.
fn explain(output: Output, id: &str) -> CommandResult {
    let page = match rules::by_id(id) {
        Some(rule) => rule.explained(),
        None => match glossary::explain(id) {
            Some(text) => text,
            None if id == "list" => {
                return finish(output, &list(), &listed(), Exit::Done);
            }
            None => {
                let mut names: Vec<&str> = rules::all().map(|rule| rule.id).collect();
                names.extend(glossary::words());
                let hint = nearest(id, names)
                    .map_or_else(String::new, |near| format!("; did you mean {near}?"));
                let text = format!(
                    "'{id}' is no rule and no word that is explained{hint} (all: fathom check --explain list)"
                );
                return Err(CommandError::usage(output, &text));
            }
        },
    };
    finish(output, &page, &json!({ "explains": id, "page": page }), Exit::Done)
}

/// All rules, a line each, and how many were tested on what.
fn list() -> String {
    let mut out = String::new();
    let mut counts = [(Proof::Host, 0), (Proof::Guest, 0), (Proof::Simulated, 0)];
    for rule in rules::all() {
        let label = if rule.proof == Proof::Simulated { " (simulated)" } else { "" };
        let _ = writeln!(out, "{:34} {:7} {}{label}", rule.id, rule.gravity.word(), rule.title);
        counts.iter_mut().filter(|(proof, _)| *proof == rule.proof).for_each(|(_, n)| *n += 1);
    }
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let words: Vec<String> =
        counts.iter().map(|(proof, count)| format!("{count} {}", proof.words())).collect();
    let _ = writeln!(out, "\n{all} rules, as they were tested: {}", words.join("; "));
    let _ = writeln!(out, "words: {}", glossary::words().join(", "));
    out
}

/// The same for programs.
fn listed() -> Value {
    let rule = |rule: &Rule| {
        json!({
            "rule": rule.id,
            "gravity": rule.gravity.word(),
            "title": rule.title,
            "tested": rule.proof.words(),
        })
    };
    json!({
        "explains": "list",
        "rules": rules::all().map(rule).collect::<Vec<_>>(),
        "words": glossary::words(),
    })
}

/// A snapshot that knows nothing yet.
fn empty() -> Snapshot {
    Snapshot {
        format: SNAPSHOT_FORMAT,
        fathom: env!("CARGO_PKG_VERSION").to_owned(),
        made_at_unix_s: clock::unix_ns() / 1_000_000_000,
        host: fathom_inspect::host_facts(&SysRoot::live()),
        ..Snapshot::default()
    }
}
