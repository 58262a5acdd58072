//! `fathom import`: runs of other stores; and what a table of foreign results says, once its rows have been checked.

mod runs;

use super::{CommandError, CommandResult};
use crate::args::{Common, Import, ImportCsv, ImportFrom};
use crate::exit::Exit;
use crate::output::Output;
use fathom_base::units::format_size;
use fathom_report::imported;
use fathom_stats::equivalence::Better;
use fathom_study::table::{
    Answers, Comparison, Copied, InFlight, LikeOneDisk, Question, Questions, Table, TableError,
    parse_column,
};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// A row for each run of many years has less.
const BYTES_MAX: u64 = 16 << 20;

/// Takes runs over, or analyses a table.
pub fn run(common: &Common, output: Output, args: &Import) -> CommandResult {
    match &args.from {
        Some(ImportFrom::Csv(args)) => table(output, args),
        None => runs::run(common, output, &args.files),
    }
}

/// Reads a table and answers what was asked about it. Nothing is stored: a row of figures is no record.
fn table(output: Output, args: &ImportCsv) -> CommandResult {
    let name = args.file.display().to_string();
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(output, &format!("{name}: {e}"));
    let text = read_bounded(&args.file).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => usage(&"is no text in UTF-8, so no CSV file"),
        _ => usage(&e),
    })?;
    let questions = Questions {
        little: args.little.as_deref(),
        one_disk: args.one_disk.as_deref(),
        sweep: &args.sweep,
        best: &args.best,
        compare: &args.compare,
    };
    let read = || -> Result<(Table, Answers), TableError> {
        let said = args.columns.iter().map(|text| parse_column(text));
        let table = Table::parse(&text, &said.collect::<Result<Vec<_>, _>>()?)?;
        let answers = table.ask(&questions)?;
        Ok((table, answers))
    };
    let (table, answers) = read().map_err(|e| usage(&e))?;
    output.text(&imported::text(&name, &table, &answers, output.width()))?;
    output.json("result", &json(&table, &answers))?;
    Ok(if answers.is_doubtful() { Exit::Doubtful } else { Exit::Done })
}

/// The file's text. What has no end (`/dev/zero`, a pipe) is read up to the limit only.
fn read_bounded(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 <= BYTES_MAX {
        return Ok(text);
    }
    Err(io::Error::other(format!(
        "more than {}, the most that a table of results may have; is it the right file? else import a part of its rows",
        format_size(BYTES_MAX)
    )))
}

fn json(table: &Table, answers: &Answers) -> Value {
    let law = answers.law.as_ref().map(|(law, rows)| {
        let row = |row: &InFlight| {
            json!({ "line": row.line, "stated": row.stated, "computed": row.computed,
                        "breaks_law": row.breaks_law() })
        };
        json!({ "law": law, "rows": rows.iter().map(row).collect::<Vec<_>>() })
    });
    let copy = |copied: &Copied| {
        json!({ "lines": [copied.lines.0, copied.lines.1], "earlier": object(&copied.earlier),
                    "later": object(&copied.later) })
    };
    let one_disk = answers.one_disk.as_ref().map(|rows| {
        let row = |row: &LikeOneDisk| {
            json!({ "line": row.line, "per_s": row.per_s, "disks": row.disks,
                        "in_flight": row.in_flight, "expected_per_s": row.expected_per_s })
        };
        rows.iter().map(row).collect::<Vec<_>>()
    });
    let sweeps = answers.sweeps.iter().flat_map(|(question, sweeps)| {
        sweeps.iter().map(|sweep| {
            json!({ "x": question.parts[0], "metric": question.metric, "unit": question.unit,
                        "group": object(&sweep.group), "points": sweep.points,
                        "knee": sweep.knee().filter(|_| question.better == Better::Higher),
                        "gain": sweep.gain() })
        })
    });
    let best = answers.best.iter().flat_map(|(question, best)| {
        best.iter().map(|best| {
            let ranked = best.ranking.iter();
            let ranked =
                ranked.map(|r| json!({ "level": r.level, "value": r.value, "line": r.line }));
            json!({ "factor": question.parts[0], "metric": question.metric, "unit": question.unit,
                        "group": object(&best.group), "ranking": ranked.collect::<Vec<_>>() })
        })
    });
    json!({
        "rows": table.len(),
        "littles_law": law,
        "copies": answers.copies.iter().map(copy).collect::<Vec<_>>(),
        "left_out": answers.left_out,
        "like_one_disk": one_disk,
        "sweeps": sweeps.collect::<Vec<_>>(),
        "best": best.collect::<Vec<_>>(),
        "comparisons": answers.comparisons.iter().map(comparison_json).collect::<Vec<_>>(),
    })
}

fn object(group: &[(String, String)]) -> Value {
    group.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
}

fn comparison_json((question, comparison): &(Question, Comparison)) -> Value {
    let asked = &question.parts;
    match comparison {
        Comparison::Paired(paired) => json!({
            "question": asked, "comparable": true, "pairs": paired.pairs.len(),
            "unmatched": paired.unmatched, "answer": paired.answer,
        }),
        Comparison::NotComparable(differing) => {
            let differing = differing.iter();
            let differing = differing.map(|d| json!({ "factor": d.factor, "a": d.a, "b": d.b }));
            json!({ "question": asked, "comparable": false,
                    "also_differ": differing.collect::<Vec<_>>() })
        }
    }
}
