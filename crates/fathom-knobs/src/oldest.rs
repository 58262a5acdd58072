//! One value before for each setting: what the oldest change of it found.

use crate::apply::SCHEDULER;
use crate::undo::{Foreign, stays};
use fathom_guard::FileRefusal;
use fathom_guard::changes::{ChangeLog, Step};
use fathom_model::change::Change;
use fathom_model::change::knob::{KnobChange, KnobValue};

/// Leaves what somebody else has set since to the change before, where that is of the same setting and not taken back either: what the later one
/// found there was somebody's own, and nobody wants it back once they have set something else. A change of which nothing is left is struck.
pub fn leave_to_older(
    log: &mut ChangeLog,
    step: Step,
    foreign: &[Foreign],
) -> Result<(), FileRefusal> {
    let Some(Change::Knobs(mut newer)) = log.entry(step).map(|entry| entry.change.clone()) else {
        return Ok(());
    };
    let has = |values: &[KnobValue], id: &str| values.iter().any(|value| value.knob == id);
    for entry in log.pending().into_iter().filter(|entry| entry.step < step) {
        let Change::Knobs(mut older) = entry.change else { continue };
        if !is_of_same(&older, &newer) {
            continue;
        }
        let passes = |v: &KnobValue| stays(foreign, &v.knob) && has(&older.before, &v.knob);
        let (passed, rest): (Vec<_>, Vec<_>) = newer.before.iter().cloned().partition(passes);
        let is_last = !rest.iter().any(|value| stays(foreign, &value.knob));
        // What belongs to a scheduler can only be written with it.
        let is_scheduler = has(&passed, SCHEDULER);
        if passed.is_empty() || (is_scheduler && !is_last) {
            continue;
        }
        let (left, left_of_rest): (Vec<_>, Vec<_>) =
            newer.left.iter().cloned().partition(|value| has(&passed, &value.knob));
        older.left.retain(|value| !has(&left, &value.knob));
        older.left.extend(left);
        log.made(entry.step, Change::Knobs(older))?;
        if is_last {
            return log.undone(step);
        }
        newer.asked.retain(|value| !has(&passed, &value.knob));
        newer = KnobChange { before: rest, left: left_of_rest, ..newer };
        log.made(step, Change::Knobs(newer.clone()))?;
    }
    Ok(())
}

fn is_of_same(a: &KnobChange, b: &KnobChange) -> bool {
    a.place == b.place && a.at == b.at && a.boot_id == b.boot_id && a.own == b.own
}
