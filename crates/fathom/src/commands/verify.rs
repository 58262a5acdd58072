//! `fathom verify`.

use super::{CommandError, CommandResult, finish, local_zone};
use crate::args::{Common, Verify};
use crate::exit::Exit;
use crate::output::Output;
use crate::progress::{Progress, Subject};
use crate::session;
use fathom_base::shell;
use fathom_guard::MeasuringLock;
use fathom_lab::LabError;
use fathom_lab::verify::{Later, LaterCheck, remembers, verify_later};
use fathom_model::record::RunKind;
use fathom_report::verification;
use fathom_sys::counters;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use jiff::Timestamp;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;

/// Reads back what earlier runs wrote with `verify=`. Leftovers of killed runs stay: they may be what is to be checked.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Verify) -> CommandResult {
    let root = SysRoot::live();
    let store = session::store_path(common)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let state_dir = store.parent().unwrap_or(Path::new("."));
    // Before the lock: no use waiting for another measurement.
    if let Err(error) = std::fs::metadata(&args.path)
        && !(error.kind() == ErrorKind::NotFound && remembers(state_dir, &args.path))
    {
        let text = format!("{}: {error}; name a file, directory or device", args.path.display());
        return Err(CommandError::usage(output, &text));
    }
    let _lock = MeasuringLock::acquire(&root)
        .map_err(|error| CommandError::report_as(output, &error, Exit::of_lock(&error)))?;
    let mut progress = Progress::new(
        output,
        stop,
        &Subject {
            kind: RunKind::Run,
            title: &format!("fathom verify {}", args.path.display()),
            run_id: "",
            is_plain: false,
            is_detached: false,
            door: None,
        },
    );
    let mut later = Later {
        root: &root,
        state_dir,
        memory_limit_bytes: counters::memory_available_bytes(&root).unwrap_or(1 << 30) / 4,
        stop,
        emit: &mut |event| progress.show(event),
    };
    let checked = verify_later(&mut later, &args.path);
    progress.finish();
    let failed = |error: &LabError| CommandError::report_as(output, error, Exit::of_error(error));
    let (mut checks, mut errors) = (Vec::new(), Vec::new());
    for one in checked.map_err(|error| failed(&error))? {
        match one {
            Ok(check) => checks.push(check),
            Err(error) => errors.push(error),
        }
    }
    if let ([], [error]) = (&checks[..], &errors[..]) {
        return Err(failed(error));
    }
    errors.iter().for_each(|error| output.error(&error.to_string()));
    let is_wrong = checks.iter().any(|check| check.record.mismatches > 0);
    let is_unknown = |check: &LaterCheck| check.record.checked_bytes == 0;
    let asked = [
        (checks.iter().any(is_unknown), Exit::Doubtful),
        (is_wrong, Exit::TargetIo),
        (stop.is_set(), Exit::Interrupted),
    ];
    let told = asked.into_iter().filter(|(is_so, _)| *is_so).map(|(_, exit)| exit);
    let exit = errors.iter().map(Exit::of_error).chain(told).max().unwrap_or(Exit::Done);
    let text: String = checks.iter().map(text).collect();
    let json = serde_json::json!({
        "checks": checks.iter().map(json).collect::<Vec<_>>(),
        "errors": errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "exit_code": exit.code(),
    });
    finish(output, &text, &json, exit)
}

fn text(check: &LaterCheck) -> String {
    let LaterCheck { head, record, was_cut_off, acknowledged, is_gone } = check;
    let started = Timestamp::from_nanosecond(i128::from(head.started_unix_ns)).map_or_else(
        |_| String::new(),
        |at| format!(" on {}", at.to_zoned(local_zone()).strftime("%Y-%m-%d %H:%M:%S")),
    );
    let mut text = format!(
        "{}: written{started} by run {}, job {}\n",
        head.target.display(),
        head.run_id,
        head.plan.job().name
    );
    if *was_cut_off {
        let _ = writeln!(
            text,
            "  the run was cut off: {acknowledged} writes had been acknowledged as safe and noted as such; they must be there"
        );
    }
    if *was_cut_off && *acknowledged == 0 && !*is_gone {
        text += "  as no sync had covered anything, what was there before the first write may be there still: only blocks that are \
                 damaged or belong elsewhere would be told\n";
    }
    if *is_gone {
        let what = match record.mismatches {
            0 => "but nothing of it had been acknowledged as safe",
            _ => "and with it all that was written there: it was lost, or somebody removed it",
        };
        let _ = writeln!(text, "  the file is GONE, {what}");
        for wrong in record.first.iter().take(verification::SHOWN) {
            let _ = writeln!(text, "  {wrong}");
        }
        return text;
    }
    for line in verification::lines(record) {
        let _ = writeln!(text, "  {line}");
    }
    if record.mismatches > 0 && head.device_id.is_some() {
        let target = shell::path(&head.target);
        let _ = writeln!(
            text,
            "  if it was overwritten on purpose, and nobody needs what was written: fathom clean {target} --forget"
        );
    }
    text
}

fn json(check: &LaterCheck) -> serde_json::Value {
    serde_json::json!({
        "target": check.head.target,
        "run": check.head.run_id,
        "job": check.head.plan.job().name,
        "was_cut_off": check.was_cut_off,
        "acknowledged_writes": check.acknowledged,
        "verify": check.record,
    })
}
