//! Stored watches: one shown, two compared.

use crate::commands::compare::beside;
use crate::commands::planned::Answer;
use crate::commands::{CommandError, CommandResult};
use crate::output::Output;
use fathom_model::record::{Record, RunKind};
use fathom_report::findings::findings_text;
use fathom_report::watch::answer::{answer_text, comparison_text};
use fathom_study::compare::{Run, Side};
use fathom_study::verdict::judge_stored;
use fathom_study::watch;

/// What a stored watch says.
pub fn answer(output: Output, records: &[Record], unfinished: Option<&str>) -> Answer {
    let summary = watch::summary(records);
    let study = judge_stored(RunKind::Watch, records, unfinished);
    let mut text = answer_text(&summary, output.width());
    text += &findings_text(&study.findings, study.verdict, output.width());
    let json = serde_json::to_value(&summary).unwrap_or_default();
    Answer { text, json: vec![("watch", json)], study }
}

/// True when one of the two is a watch: then both must be.
pub fn is_asked(a: &Side, b: &Side) -> bool {
    a.runs.iter().chain(&b.runs).any(|run| run.head.kind == RunKind::Watch)
}

/// Compares two watches. Ends as the worse of the two is judged, with `only_void` as a void one alone.
pub fn compare(output: Output, a: &Side, b: &Side, only_void: bool) -> CommandResult {
    let names = [a.name.as_str(), b.name.as_str()];
    let (a, b) = (one(output, a)?, one(output, b)?);
    if a.head.id == b.head.id {
        let text = format!("run {} is on both sides; name different runs", a.head.id);
        return Err(CommandError::usage(output, &text));
    }
    let found = watch::compare(&a.records, &b.records);
    let more = beside(output, [(names[0], a), (names[1], b)], only_void);
    output.text(&(comparison_text(&found, output.width()) + &more.text))?;
    let mut comparison = serde_json::to_value(&found).unwrap_or_default();
    (comparison["differences"], comparison["doubts"]) = (more.differences, more.doubts);
    let result = serde_json::json!({ "comparison": comparison, "exit_code": more.exit.code() });
    output.json("result", &result)?;
    Ok(more.exit)
}

/// The one watch of a side.
fn one(output: Output, side: &Side) -> Result<&Run, CommandError> {
    match side.runs.as_slice() {
        [run] if run.head.kind == RunKind::Watch => Ok(run),
        [_] => {
            let text = format!("'{}' is no watch: watches are compared with watches", side.name);
            Err(CommandError::usage(output, &text))
        }
        runs => {
            let text = format!(
                "'{}' names {} runs: of watches one is compared with one",
                side.name,
                runs.len()
            );
            Err(CommandError::usage(output, &text))
        }
    }
}
