//! What the tests share, and the settings of the machine.

use fathom_guard::changes::ChangeLog;
use fathom_guard::faults::Faults;
use fathom_knobs::knob::{Home, Values};
use fathom_knobs::{
    Applied, KnobError, Scope, ScopeDevice, Setting, Undo, Wait, all, apply, current, is_as_asked,
    read, read_own, resolve, undo,
};
use fathom_model::change::Change;
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::OwnKnob;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::LoopDevice;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The settings of a cell.
pub fn knobs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect()
}

/// The device as it stands in a scope.
pub fn scope_device(device: &LoopDevice) -> ScopeDevice {
    let id = device.backing().display().to_string();
    ScopeDevice { name: device.name(), id, is_top: true, is_member: true, is_behind_file: false }
}

/// Settings of one device.
pub fn on_device(device: &LoopDevice, pairs: &[(&str, &str)]) -> Result<Vec<Setting>, KnobError> {
    let devices = [scope_device(device)];
    resolve(&SysRoot::live(), &Scope { devices: &devices, mounts: &[], own: &[] }, &knobs(pairs))
}

/// The settings that are not what they were set to, each with what it is now.
pub fn drifted<'s>(settings: &'s [Setting], own: &[OwnKnob]) -> Vec<(&'s Setting, Option<String>)> {
    let now = |setting: &Setting| match &setting.place {
        place @ KnobPlace::Own { .. } => read_own(own, place, &mut Wait::to_the_end(&mut |_| ())),
        _ => current(&SysRoot::live(), setting),
    };
    let is_same = |(setting, now): &(&Setting, Option<String>)| {
        now.as_ref().is_some_and(|now| is_as_asked(&setting.knob, &setting.value, now))
    };
    settings.iter().map(|setting| (setting, now(setting))).filter(|both| !is_same(both)).collect()
}

/// Every file of the queue and of its scheduler, and what the page cache keeps for the device.
pub fn state(device: &LoopDevice) -> BTreeMap<String, String> {
    let base = Path::new("/sys/block").join(device.name());
    let mut state = BTreeMap::new();
    for dir in ["queue", "queue/iosched", "bdi"] {
        for entry in fs::read_dir(base.join(dir)).into_iter().flatten().flatten() {
            let name = format!("{dir}/{}", entry.file_name().to_string_lossy());
            // These follow the memory that is free at the moment.
            if name.ends_with("_bytes") && dir == "bdi" {
                continue;
            }
            if let Ok(text) = fs::read_to_string(entry.path()) {
                state.insert(name, text);
            }
        }
    }
    state
}

/// The settings of the page cache.
pub fn vm_state() -> BTreeMap<String, String> {
    let ids = all().iter().filter(|knob| matches!(knob.home, Home::Sysctl(_)) && knob.is_set());
    let value = |id: &str| read(&SysRoot::live(), &KnobPlace::Machine, id).ok();
    ids.filter_map(|knob| Some((knob.id.to_owned(), value(knob.id)?))).collect()
}

#[track_caller]
pub fn assert_same(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    what: &str,
) {
    let differ: Vec<String> = before
        .iter()
        .filter(|(name, value)| after.get(*name) != Some(value))
        .map(|(name, value)| format!("{name}: {value:?} -> {:?}", after.get(name)))
        .collect();
    assert!(differ.is_empty() && before.len() == after.len(), "{what}: {differ:?}");
}

/// A journal of a test's own.
pub struct Journal {
    pub log: ChangeLog,
    _dir: tempfile::TempDir,
}

impl Journal {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log =
            ChangeLog::create(&SysRoot::live(), dir.path(), "test0run", Faults::none()).unwrap();
        Self { log, _dir: dir }
    }

    pub fn apply(&mut self, settings: &[Setting]) -> Result<Vec<Applied>, KnobError> {
        apply(&SysRoot::live(), &mut self.log, settings, &[], &mut Wait::to_the_end(&mut |_| ()))
    }

    /// Takes everything back, newest first.
    pub fn undo_all(&mut self, force: bool) -> Vec<Undo> {
        undo_all(&mut self.log, force)
    }
}

pub fn undo_all(log: &mut ChangeLog, force: bool) -> Vec<Undo> {
    let mut outcomes = Vec::new();
    for entry in log.pending() {
        let Change::Knobs(change) = &entry.change else { continue };
        outcomes.push(undo(
            &SysRoot::live(),
            log,
            entry.step,
            change,
            force,
            &mut Wait::to_the_end(&mut |_| ()),
        ));
    }
    outcomes
}

fn on_machine(pairs: &[(&str, &str)]) -> Result<Vec<Setting>, KnobError> {
    let scope = Scope { devices: &[], mounts: &[], own: &[] };
    resolve(&SysRoot::live(), &scope, &knobs(pairs))
}

/// Ratio and bytes are two ways to say the same, and 0 bytes cannot be written.
pub fn dirty_limits() {
    let before = vm_state();
    let mut journal = Journal::new();
    let mut set = |pairs: &[(&str, &str)]| journal.apply(&on_machine(pairs).unwrap()).unwrap();
    let first = set(&[("vm.dirty_bytes", "500000000"), ("vm.dirty_background_bytes", "100000000")]);
    assert!(first[0].note.as_deref().unwrap().contains("vm.dirty_background_ratio"), "{first:?}");
    assert_eq!(vm_state()["vm.dirty_ratio"], "0");
    set(&[("vm.dirty_ratio", "33")]);
    assert_eq!(vm_state()["vm.dirty_bytes"], "0");
    set(&[("vm.dirty_bytes", "300000000"), ("vm.dirty_background_ratio", "3")]);
    let outcomes = journal.undo_all(false);
    assert_eq!(outcomes, [Undo::Restored, Undo::Restored, Undo::Restored]);
    assert_same(&before, &vm_state(), "dirty limits");
    assert!(journal.log.pending().is_empty());
    assert!(on_machine(&[("vm.dirty_bytes", "0")]).unwrap_err().to_string().contains("8192"));
}

/// Each setting of the machine to each of a few values, and back.
pub fn every_setting() {
    let before = vm_state();
    let mut tried = 0;
    for (id, now) in &before {
        let knob = fathom_knobs::find(id).unwrap();
        let now: i64 = now.parse().unwrap();
        let Values::Number(min, max) = knob.values else { continue };
        // Values that a machine in use bears for a moment.
        let near = [now - now / 8, now + now / 8 + 1];
        for value in near.iter().filter(|value| (min..=max).contains(*value) && **value != now) {
            let mut journal = Journal::new();
            let settings = on_machine(&[(id, &value.to_string())]).unwrap();
            let done = journal.apply(&settings).unwrap();
            assert_eq!(done[0].now, value.to_string(), "{id}");
            assert_eq!(journal.undo_all(false), [Undo::Restored], "{id}");
            assert_same(&before, &vm_state(), id);
            tried += 1;
        }
    }
    assert!(tried >= 14, "{tried}");
}
