//! What runs inside: every setting of a stack to a few values and back, with every file compared.

use fathom_guard::changes::ChangeLog;
use fathom_guard::faults::Faults;
use fathom_knobs::knob::{Home, Knob, Values};
use fathom_knobs::legal::listed;
use fathom_knobs::scope::of_stack;
use fathom_knobs::{
    KnobError, Scope, Setting, Undo, Wait, all, apply, current, is_as_asked, places, resolve, undo,
};
use fathom_model::change::Change;
use fathom_model::change::knob::KnobPlace;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Variable that names the device, and makes this program the one inside.
pub const TARGET: &str = "FATHOM_KNOBS_TEST_TARGET";

/// Files that change by themselves.
const RESTLESS: &[&str] = &[
    "stripe_cache_active",
    "array_state",
    "sync_completed",
    "sync_speed",
    "suspend_lo",
    "suspend_hi",
    "max_bytes",
    "min_bytes",
];

/// Values of each setting; each costs seconds in a slow guest.
const VALUES: usize = 3;

fn samples(knob: &Knob, place: &KnobPlace) -> Vec<String> {
    let numbers = |values: &[i64]| values.iter().map(ToString::to_string).collect();
    match knob.values {
        Values::Switch => numbers(&[0, 1]),
        Values::Number(min, max) => numbers(&[min, 20, 600, max.min(2000)]),
        Values::UpTo(min, _) => numbers(&[min, 16]),
        Values::Requests => numbers(&[4, 31]),
        Values::NumberOr(_, _, words) => {
            let words = words.iter().map(|word| (*word).to_owned());
            words.chain(["2000".to_owned(), "150000".to_owned()]).collect()
        }
        Values::Words(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Values::Line if knob.id.ends_with("qos") => {
            vec!["enable=1 ctrl=user rpct=95 rlat=5000 min=50".to_owned()]
        }
        Values::Line => vec!["ctrl=user model=linear rbps=100000000 rseqiops=3000".to_owned()],
        Values::Listed => listed(&SysRoot::live(), place, knob),
        _ => Vec::new(),
    }
}

/// Every file that a setting of these devices could be.
fn state(devices: &[String]) -> BTreeMap<String, String> {
    let mut dirs: Vec<PathBuf> = vec!["/proc/sys/dev/raid".into()];
    for device in devices {
        let base = Path::new("/sys/block").join(device);
        let below = ["queue", "queue/iosched", "md", "md/bitmap", "bdi", "device", "device/power"];
        dirs.extend(below.iter().map(|dir| base.join(dir)));
    }
    for class in ["/sys/class/nvme-subsystem", "/sys/class/scsi_disk"] {
        dirs.extend(fs::read_dir(class).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    let controllers = fs::read_dir("/sys/class/nvme").into_iter().flatten().flatten();
    dirs.extend(controllers.map(|entry| entry.path().join("power")));
    let mut state = BTreeMap::new();
    for entry in dirs.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let counts = name.contains("_cnt") && name != "group_thread_cnt";
        let is_power = ["runtime_", "wakeup", "async"].iter().any(|start| name.starts_with(start));
        let moves =
            name.contains("mismatch") || name.contains("inflight") || name.starts_with("io");
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let is_setting = name.starts_with("iopolicy") || name.starts_with("iostats") || !moves;
        if is_file
            && !RESTLESS.contains(&name.as_str())
            && !counts
            && !is_power
            && is_setting
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            state.insert(entry.path().display().to_string(), text);
        }
    }
    state
}

fn differ(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let changed = before.iter().filter(|(name, value)| after.get(*name) != Some(value));
    changed.map(|(name, value)| format!("{name}: {value:?} -> {:?}", after.get(name))).collect()
}

/// Sets and puts back; prints what was set, and ends with 1 when something was not as before.
pub fn play(target: &Path) -> ExitCode {
    let root = SysRoot::live();
    let stack = fathom_inspect::resolve(&root, target).unwrap();
    let (devices, _) = of_stack(&root, &stack);
    let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    println!("devices: {devices:?}");
    let scope = Scope { devices: &devices, mounts: &[], own: &[] };
    let mut failures = 0;
    let wanted = |knob: &&Knob| match knob.home {
        Home::Sysctl(file) => file.starts_with("dev/raid"),
        _ => true,
    };
    for knob in all().iter().filter(|knob| knob.is_set()).filter(wanted) {
        // The members of an array are ordinary disks, tried elsewhere.
        let is_here = |place: &KnobPlace| match place {
            KnobPlace::Device { name, .. } => *name == names[0],
            _ => true,
        };
        for place in places(&root, &scope, knob).into_iter().filter(is_here) {
            for value in samples(knob, &place).into_iter().take(VALUES) {
                let before = state(&names);
                let result = one(&root, &scope, knob, &place, &value);
                let after = state(&names);
                let differ = differ(&before, &after);
                match result {
                    Ok(done) if differ.is_empty() => println!("{done}"),
                    Ok(done) => {
                        failures += 1;
                        println!("LEFT {done}: {differ:?}");
                    }
                    Err(reason) => {
                        failures += 1;
                        println!(
                            "FAILED {} = {value} of {}: {reason} {differ:?}",
                            knob.id,
                            place.name()
                        );
                    }
                }
            }
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(
    root: &SysRoot,
    scope: &Scope<'_>,
    knob: &Knob,
    place: &KnobPlace,
    value: &str,
) -> Result<String, String> {
    let key = match place {
        KnobPlace::Device { name, .. } => format!("{}@{name}", knob.id),
        _ => knob.id.to_owned(),
    };
    let settings = match resolve(root, scope, &BTreeMap::from([(key, value.to_owned())])) {
        Ok(settings) => settings,
        Err(error @ (KnobError::Value { .. } | KnobError::Nowhere { .. })) => {
            return Ok(format!("out of range: {error}"));
        }
        Err(error) => return Err(error.to_string()),
    };
    let dir = tempfile::tempdir().unwrap();
    let mut log = ChangeLog::create(root, dir.path(), "guest0run", Faults::none()).unwrap();
    let done = match apply(root, &mut log, &settings, &[], &mut Wait::to_the_end(&mut |_| ())) {
        Ok(done) => {
            let is_same = |setting: &&Setting| {
                let now = current(root, setting);
                now.is_some_and(|now| is_as_asked(&setting.knob, &setting.value, &now))
            };
            let drifted: Vec<&Setting> = settings.iter().filter(|s| !is_same(s)).collect();
            if !drifted.is_empty() {
                return Err(format!("drifted: {drifted:?}"));
            }
            let note = done[0].note.clone().map_or_else(String::new, |note| format!(" ({note})"));
            format!("set {} of {} to {value}{note}", knob.id, place.name())
        }
        // Drivers that cannot change it take the word and do nothing.
        Err(error @ KnobError::NotTaken { .. }) if knob.id == "scsi.queue_type" => {
            format!("the kernel ignores: {error}")
        }
        Err(error @ KnobError::Write { .. }) => format!("the kernel refuses: {error}"),
        Err(error) => return Err(error.to_string()),
    };
    for entry in log.pending() {
        let Change::Knobs(change) = &entry.change else { continue };
        let outcome =
            undo(root, &mut log, entry.step, change, false, &mut Wait::to_the_end(&mut |_| ()));
        if !outcome.is_done() {
            return Err(outcome.to_string());
        }
        if undo(root, &mut log, entry.step, change, false, &mut Wait::to_the_end(&mut |_| ()))
            != Undo::AlreadyBack
        {
            return Err("a second time it was not back".to_owned());
        }
    }
    Ok(done)
}
