//! Two stored captures or replays beside each other.

use crate::commands::compare::beside;
use crate::commands::{CommandError, CommandResult};
use crate::output::Output;
use fathom_model::capture::CaptureRecord;
use fathom_model::record::RunKind;
use fathom_report::capture as report;
use fathom_study::capture::likeness::{self, Changed};
use fathom_study::compare::{Run, Side};

fn is_one(run: &Run) -> bool {
    matches!(run.head.kind, RunKind::Capture | RunKind::Replay)
}

/// True when one of the two is a capture or a replay: then both must be.
pub fn is_asked(a: &Side, b: &Side) -> bool {
    a.runs.iter().chain(&b.runs).any(is_one)
}

/// Compares what they record: the load, and how it was answered. Ends as the worse of the two is judged, with `only_void` as a void one
/// alone.
pub fn compare(output: Output, a: &Side, b: &Side, only_void: bool) -> CommandResult {
    let names = [a.name.as_str(), b.name.as_str()];
    let ((run_a, a), (run_b, b)) = (one(output, a)?, one(output, b)?);
    if run_a.head.id == run_b.head.id {
        let text = format!("run {} is on both sides; name different runs", run_a.head.id);
        return Err(CommandError::usage(output, &text));
    }
    // On a device of another size the same load lies elsewhere.
    let changed = Changed { places: a.size_bytes != b.size_bytes, ..Changed::default() };
    let (figures, distances) = (likeness::side_by_side(a, b), likeness::distances(a, b, changed));
    let mut text = report::comparison_text(&figures, &distances, output.width());
    if a.is_of_driver != b.is_of_driver {
        let name = if a.is_of_driver { names[0] } else { names[1] };
        text += &format!(
            "The latencies of {name} go from the driver to the end (D2C), those of the other one from the arrival (Q2C): they do not compare.\n"
        );
    }
    if a.is_merged() != b.is_merged() {
        let name = if a.is_merged() { names[0] } else { names[1] };
        text += &format!(
            "Requests of {name} were merged on the way to its device and count as they arrived: beside a replay, which issues them as one, its trace compares (capture --like).\n"
        );
    }
    for (name, _) in names.iter().zip([a, b]).filter(|(_, capture)| capture.last_ns == 0) {
        text += &format!(
            "Rates of {name}, which an older version of fathom made, are those of whole intervals of its course.\n"
        );
    }
    let more = beside(output, [(names[0], run_a), (names[1], run_b)], only_void);
    text += &more.text;
    output.text(&text)?;
    let comparison = serde_json::json!({
        "figures": figures, "distances": distances, "differences": more.differences, "doubts": more.doubts,
    });
    let result = serde_json::json!({ "comparison": comparison, "exit_code": more.exit.code() });
    output.json("result", &result)?;
    Ok(more.exit)
}

/// The one capture or replay of a side.
fn one(output: Output, side: &Side) -> Result<(&Run, &CaptureRecord), CommandError> {
    let text = match side.runs.as_slice() {
        [run] if is_one(run) => {
            let capture = run.records.iter().find_map(|record| record.capture.as_deref());
            match capture {
                Some(capture) => return Ok((run, capture)),
                None => format!("'{}' has no requests that could be compared", side.name),
            }
        }
        [_] => {
            format!("'{}' is no capture or replay: these are compared with each other", side.name)
        }
        runs => format!(
            "'{}' names {} runs: of captures and replays one is compared with one",
            side.name,
            runs.len()
        ),
    };
    Err(CommandError::usage(output, &text))
}
