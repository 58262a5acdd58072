//! Which stored experiment a plan goes on with.

use crate::exit::Exit;
use crate::session;
use fathom_base::shell;
use fathom_guard::filesystem;
use fathom_inspect::stack;
use fathom_knobs::{SCHEDULER, Scope, Setting, follows_scheduler, scope};
use fathom_lab::experiment::resume;
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::{FactorKind, Footing, FoundSetting, Plan};
use fathom_store::{RunState, Store, StoreError, StoredRun};
use fathom_sys::sysroot::SysRoot;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The most differences that a message names.
const DIFFERENCES_MAX: usize = 6;

/// The run that is gone on with; none when a new one begins. `footing` is what the plan's words lead to now.
///
/// # Errors
/// The plan was edited since, its words lead to other devices, or the run to go on with is none of it: the message, and how fathom ends.
pub fn to_go_on_with(
    store: &Store,
    (plan, footing): (&Plan, &[Footing]),
    resume: Option<&str>,
    is_new: bool,
) -> Result<Option<StoredRun>, (String, Exit)> {
    let failed = |error: StoreError| (error.to_string(), Exit::of_store(&error));
    if is_new {
        return Ok(None);
    }
    let asked = resume.map(|run| store.resolve(run)).transpose().map_err(failed)?;
    let (run_id, begun) = match asked {
        Some(run_id) => match store.plan(&run_id).map_err(failed)? {
            Some(plan) => (run_id, plan),
            None => return Err((format!("run {run_id} follows no plan"), Exit::Usage)),
        },
        None => match store.newest_of_plan(&plan.name, own_target(plan)).map_err(failed)? {
            Some(found) => (found.run_id, found.plan),
            None => return Ok(None),
        },
    };
    let run = store.load(&run_id).map_err(failed)?;
    if run.state == RunState::Complete {
        return match resume {
            None => Ok(None),
            Some(_) => Err((
                format!("run {run_id} is complete: there is nothing to go on with"),
                Exit::Usage,
            )),
        };
    }
    let differences = resume::differences(&begun, plan);
    let replaced = resume::replaced(&begun.footing, footing);
    if differences.is_empty() && replaced.is_empty() {
        return Ok(Some(run));
    }
    // Nothing was measured under the old plan: nothing is lost.
    if run.records.is_empty() && resume.is_none() {
        return Ok(None);
    }
    let prefix = store.shortest_prefix(&run_id).unwrap_or(run_id);
    let trials = run.records.len();
    let text = if differences.is_empty() {
        on_other_footing(plan, &prefix, trials, &replaced)
    } else {
        edited(plan, &prefix, trials, &differences)
    };
    Err((text, Exit::Usage))
}

/// What a plan measures, what it builds on, and the workload files that it names. Loop devices that it has made lie in `state_dir`.
#[must_use]
pub fn footing(root: &SysRoot, plan: &Plan, state_dir: &Path) -> Vec<Footing> {
    let own = plan.workloads.iter().filter_map(|workload| workload.target.as_ref());
    let mut words: Vec<String> =
        plan.target.iter().chain(&plan.setup.devices).chain(own).cloned().collect();
    // Levels may be targets and devices, and so may what a setup takes beside its devices, as journals.
    paths_in(&serde_json::to_value((&plan.factors, &plan.setup)).unwrap_or_default(), &mut words);
    words.sort_unstable();
    words.dedup();
    let has_command = plan.workloads.iter().any(|workload| workload.command.is_some());
    let may_mount_anew = may_mount_anew(plan);
    let footing = |word: &String| {
        let path = match is_made(word) {
            true => state_dir.to_owned(),
            false => PathBuf::from(session::absolute_target(word)),
        };
        // Others are not there before.
        let found = path.is_absolute().then(|| filesystem::footing(root, word, &path))?;
        // What a command does with files is its own business: it may make them longer, or replace them.
        let is_of_command = has_command && path.is_file();
        let found = match is_of_command {
            true => Footing { size_bytes: None, inode: None, born_ns: None, ..found },
            false => found,
        };
        let mount_options = found.mount_options.filter(|_| !may_mount_anew);
        Some(Footing { mount_options, settings: unset(root, plan, &path), ..found })
    };
    let files = plan.workloads.iter().filter_map(|workload| workload.name.as_ref());
    let files = files.filter(|name| Path::new(name).extension().is_some_and(|end| end == "toml"));
    let content = |word: &String| filesystem::content_footing(root, word, Path::new(word));
    words.iter().filter_map(footing).chain(files.filter_map(content)).collect()
}

/// A loop device over a file that fathom makes.
fn is_made(word: &str) -> bool {
    word.starts_with("loop:")
}

/// What of the queues and read-aheads below a path the plan leaves as it is. Its own commands may change any of it, and so may a boot.
fn unset(root: &SysRoot, plan: &Plan, path: &Path) -> Vec<FoundSetting> {
    if !plan.own_knobs.is_empty() || has_boots(plan) {
        return Vec::new();
    }
    let stack = fathom_inspect::resolve(root, &stack::nearest_existing(path)).ok();
    let (devices, mounts) = scope::of_stacks(root, stack.as_slice());
    let scope = Scope { devices: &devices, mounts: &mounts, own: &[] };
    let is_behind = |place: &KnobPlace| {
        devices.iter().any(|device| device.is_behind_file && device.place() == *place)
    };
    let bare = |key| str::split_once(key, '@').map_or((key, false), |(id, _)| (id, true));
    let keys: Vec<(&str, bool)> = knob_keys(plan).map(bare).collect();
    // What lies below the file of a loop device is set by its name only.
    let is_set = |one: &Setting| {
        keys.iter().any(|(id, is_by_name)| {
            let is_it = *id == one.knob || (*id == SCHEDULER && follows_scheduler(&one.knob));
            is_it && (*is_by_name || !is_behind(&one.place))
        })
    };
    let all = fathom_knobs::watched(root, &scope).into_iter().filter(|one| !is_set(one));
    all.map(|Setting { knob, place, value }| FoundSetting { place, knob, value }).collect()
}

/// Every setting that the plan makes.
fn knob_keys(plan: &Plan) -> impl Iterator<Item = &str> {
    let keys = plan.factors.iter().filter_map(|factor| match &factor.sets {
        FactorKind::Knob { id } => Some(id.as_str()),
        _ => None,
    });
    keys.chain(plan.knobs.keys().map(String::as_str))
}

fn has_boots(plan: &Plan) -> bool {
    plan.factors.iter().any(|factor| matches!(factor.sets, FactorKind::Boot { .. }))
}

/// The plan itself may change with which options its targets are mounted, or a boot that it asks for.
fn may_mount_anew(plan: &Plan) -> bool {
    let is_of_device = |key: &str| {
        ["block.", "vm.", "bdi.", "md.", "scsi.", "nvme.", "mq-deadline.", "bfq.", "kyber."]
            .iter()
            .any(|family| key.starts_with(family))
    };
    has_boots(plan) || knob_keys(plan).any(|key| !is_of_device(key))
}

/// Adds every word of a plan's part that is the path of something that is there, or makes a loop device.
fn paths_in(part: &Value, found: &mut Vec<String>) {
    match part {
        Value::String(word)
            if is_made(word) || (word.starts_with('/') && Path::new(word).exists()) =>
        {
            found.push(word.clone());
        }
        Value::Array(parts) => parts.iter().for_each(|part| paths_in(part, found)),
        Value::Object(parts) => parts.values().for_each(|part| paths_in(part, found)),
        _ => {}
    }
}

fn on_other_footing(plan: &Plan, prefix: &str, trials: usize, replaced: &[String]) -> String {
    format!(
        "plan '{}' cannot go on with run {} and its {}, because trials of different devices or loads are not to be \
         mixed: {}; give it back what it was begun with, or begin anew with --new",
        plan.name,
        shell::word(prefix),
        if trials == 1 { "trial".to_owned() } else { format!("{trials} trials") },
        replaced.join("; ")
    )
}

/// The target, where each has experiments of its own: a plan that comes with fathom is edited by nobody.
fn own_target(plan: &Plan) -> Option<&str> {
    plan.target.as_deref().filter(|_| fathom_plan::ready_named(&plan.name).is_ok())
}

fn edited(plan: &Plan, prefix: &str, trials: usize, differences: &[String]) -> String {
    let shown: Vec<&str> = differences.iter().take(DIFFERENCES_MAX).map(String::as_str).collect();
    let more = match differences.len() - shown.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!(
        "plan '{}' was edited since run {} was broken off with {trials} trials: {}{more}; undo that to go on with it, or \
         begin anew with --new",
        plan.name,
        shell::word(prefix),
        shown.join("; ")
    )
}
