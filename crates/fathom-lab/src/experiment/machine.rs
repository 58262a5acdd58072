//! Swap, services and the processors' governor around an experiment: noted before they are changed, and put back.

use super::memory_group;
use crate::error::{ErrorClass, LabError};
use crate::restore::{CURE, Outcome};
use fathom_base::order::Order;
use fathom_base::shell;
use fathom_base::units::format_size;
use fathom_guard::changes::{ChangeLog, Step};
use fathom_guard::file_at::{self, Found};
use fathom_model::change::machine::MachineChange;
use fathom_model::change::{Change, FileAt};
use fathom_model::plan::Prepare;
use fathom_sys::child;
use fathom_sys::counters;
use fathom_sys::probe;
use fathom_sys::swap::{self, Area};
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that stops and starts services.
const SYSTEMCTL: &str = "systemctl";

/// Switches swap off and stops services, as the plan asks.
///
/// # Errors
/// [`LabError`]; what was changed before is in the journal, and is put back with the rest.
pub(crate) fn prepare(
    root: &SysRoot,
    log: &mut ChangeLog,
    prepare: &Prepare,
    note: &mut dyn FnMut(String),
) -> Result<(), LabError> {
    if prepare.swap_off {
        let mut areas = swap::areas(root);
        fits_in_memory(root, &areas, prepare.memory_floor_bytes)?;
        // Those without a priority of somebody's get theirs from the kernel in the order in which they are switched on: what is switched off
        // last is put back first.
        areas.order_by_key(|area| area.priority);
        for area in areas {
            note(format!("Switching swap on {} off.", area.path.display()));
            let change = MachineChange::SwapOff {
                area: area.path.clone(),
                priority: area.priority,
                discard: swap::discard(root, &area.path).ok().flatten().map(str::to_owned),
                uuid: swap_uuid(&area.path),
                at: file_at::note(root, &area.path),
            };
            let step = log.intend(Change::Machine(change.clone()))?;
            log.fault_point("before swapoff");
            let done = swap::off(&area.path);
            log.fault_point("after swapoff");
            if let Err(error) = done {
                let cure = match error.kind() {
                    io::ErrorKind::PermissionDenied => "run as root",
                    _ => "leave swap_off out",
                };
                return Err(missing(
                    &area.path,
                    format!("swap cannot be switched off: {error}; {cure}"),
                ));
            }
            log.made(step, Change::Machine(change))?;
        }
    }
    // All are noted before the first is stopped: one may take another along, which is to be started again, too.
    let mut to_stop = Vec::new();
    for unit in &prepare.stop_services {
        if is_running(unit)? {
            check_alone(unit, &prepare.stop_services)?;
            to_stop.push((unit, MachineChange::ServiceStopped { unit: unit.clone() }));
        }
    }
    let intend = |(unit, change): (_, MachineChange)| {
        Ok((unit, log.intend(Change::Machine(change.clone()))?, change))
    };
    let to_stop = to_stop.into_iter().map(intend).collect::<Result<Vec<_>, LabError>>()?;
    for (unit, step, change) in to_stop {
        note(format!("Stopping {unit}."));
        log.fault_point("before a service is stopped");
        let done = systemctl(&["stop", "--", unit]);
        log.fault_point("after a service was stopped");
        done.map_err(|reason| missing(Path::new(unit), format!("it cannot be stopped: {reason}")))?;
        log.made(step, Change::Machine(change))?;
    }
    match &prepare.governor {
        Some(governor) => set_governor(root, log, governor, note),
        None => Ok(()),
    }
}

/// Stops services again that were started since, by whomever: the plan says that they are to be stopped. Each is started again at the end, also
/// one that did not run before. `counts` says how often that was so.
///
/// # Errors
/// When the journal cannot be written. A service that cannot be stopped is told, and is in the way of the trial.
pub(crate) fn stop_again(
    log: &mut ChangeLog,
    prepare: &Prepare,
    counts: &mut BTreeMap<String, u32>,
    note: &mut dyn FnMut(String),
) -> Result<(), LabError> {
    let units = &prepare.stop_services;
    let mut steps = Vec::new();
    // All before the first is stopped, which may take another along.
    for unit in units.iter().filter(|unit| matches!(is_running(unit), Ok(true))) {
        if let Err(error) = check_alone(unit, units) {
            note(format!("Somebody has started {unit}, which is not stopped again: {error}."));
            continue;
        }
        let change = Change::Machine(MachineChange::ServiceStopped { unit: unit.clone() });
        let known = log.pending().into_iter().find(|entry| entry.change == change);
        let step = known.map_or_else(|| log.intend(change.clone()), |entry| Ok(entry.step))?;
        steps.push((unit, step, change));
    }
    for (unit, step, change) in steps {
        let count = counts.entry(unit.clone()).or_default();
        *count += 1;
        note(format!("Stopping {unit} again, which somebody has started ({count} so far)."));
        log.fault_point("before a service is stopped again");
        let done = systemctl(&["stop", "--", unit]);
        log.fault_point("after a service was stopped again");
        match done {
            Ok(_) => log.made(step, change)?,
            Err(reason) => note(format!("{unit} cannot be stopped again: {reason}.")),
        }
    }
    Ok(())
}

/// Refuses to stop a unit with which others would be stopped that run, but for those that the plan stops anyway.
///
/// # Errors
/// [`LabError::Target`] with their names.
pub(crate) fn check_alone(unit: &str, stopped: &[String]) -> Result<(), LabError> {
    let mut others = stopped_with(unit);
    others.retain(|other| !stopped.contains(other));
    if others.is_empty() {
        return Ok(());
    }
    Err(missing(
        Path::new(unit),
        format!(
            "stopping it would stop {} too, which would not be started again with it; name {} in stop_services, too",
            others.join(", "),
            if others.len() == 1 { "that" } else { "those" }
        ),
    ))
}

/// Refuses when what lies in swap is more than the memory that is free for it: the kernel would kill processes, and first of all the one
/// that asks for it.
///
/// # Errors
/// [`LabError::Target`] with the sizes.
pub(crate) fn fits_in_memory(
    root: &SysRoot,
    areas: &[Area],
    floor_bytes: Option<u64>,
) -> Result<(), LabError> {
    let used: u64 = areas.iter().map(|area| area.used_bytes).sum();
    let Some(free) = counters::memory_available_bytes(root) else { return Ok(()) };
    if used <= free.saturating_sub(floor_bytes.unwrap_or(0)) {
        return Ok(());
    }
    let kept = floor_bytes.map_or_else(String::new, |floor| {
        format!(", of which memory_floor keeps {}", format_size(floor))
    });
    let reason = format!(
        "{} lie in swap and only {} of memory are free{kept}: switched off, it would not fit; end what needs the memory, or leave swap_off out",
        format_size(used),
        format_size(free)
    );
    Err(missing(Path::new("swap_off"), reason))
}

/// What of the machine is not as the plan wants it: somebody interfered. Also of what was so before the experiment, which had nothing to
/// change then.
pub(crate) fn drift(root: &SysRoot, prepare: &Prepare) -> Option<String> {
    let swap_on = || {
        let areas = if prepare.swap_off { swap::areas(root) } else { Vec::new() };
        let area = areas.into_iter().next()?;
        Some(format!("somebody switched swap on {} on", area.path.display()))
    };
    let started = || {
        let unit =
            prepare.stop_services.iter().find(|unit| matches!(is_running(unit), Ok(true)))?;
        Some(format!(
            "somebody started {unit}, which the plan stops (systemctl status {unit} tells more; a socket, path or timer that \
             starts it is to be named before it in stop_services)"
        ))
    };
    let governor = || {
        let set = prepare.governor.as_deref()?;
        root.names(POLICIES).iter().find_map(|policy| {
            let now = root.text(governor_file(policy)).filter(|now| now != set)?;
            Some(format!("somebody set the governor of {policy} to {now}; the plan has {set}"))
        })
    };
    swap_on().or_else(started).or_else(governor)
}

const POLICIES: &str = "sys/devices/system/cpu/cpufreq";

fn governor_file(policy: &str) -> PathBuf {
    Path::new(POLICIES).join(policy).join("scaling_governor")
}

/// The policies of the processors' frequency with the governor that each has; all must know the wanted one.
///
/// # Errors
/// [`LabError::Target`] when one does not, or when there are none.
pub(crate) fn governors(root: &SysRoot, wanted: &str) -> Result<Vec<(String, String)>, LabError> {
    let refused = |reason: String| missing(Path::new("governor"), reason);
    let mut found = Vec::new();
    for policy in root.names(POLICIES) {
        let Some(now) = root.text(governor_file(&policy)) else { continue };
        let list = Path::new(POLICIES).join(&policy).join("scaling_available_governors");
        let known = root.text(list).unwrap_or_default();
        if !known.split_whitespace().any(|word| word == wanted) {
            return Err(refused(format!("{policy} has no '{wanted}'; it has: {known}")));
        }
        found.push((policy, now));
    }
    if found.is_empty() {
        let reason = "this kernel does not choose the processors' frequency (as in a virtual machine); leave governor out";
        return Err(refused(reason.to_owned()));
    }
    Ok(found)
}

fn set_governor(
    root: &SysRoot,
    log: &mut ChangeLog,
    wanted: &str,
    note: &mut dyn FnMut(String),
) -> Result<(), LabError> {
    let before = governors(root, wanted)?;
    if before.iter().all(|(_, now)| now == wanted) {
        return Ok(());
    }
    note(format!("Setting the processors' governor to {wanted}."));
    let change =
        Change::Machine(MachineChange::Governor { set: wanted.to_owned(), before: before.clone() });
    let step = log.intend(change.clone())?;
    for (policy, _) in before.iter().filter(|(_, now)| now != wanted) {
        write_governor(root, log, policy, wanted)
            .map_err(|reason| missing(&root.path(governor_file(policy)), reason))?;
    }
    log.made(step, change)?;
    Ok(())
}

/// Writes one and reads it back.
fn write_governor(
    root: &SysRoot,
    log: &ChangeLog,
    policy: &str,
    governor: &str,
) -> Result<(), String> {
    let file = root.path(governor_file(policy));
    log.fault_point("before a governor is set");
    let done = fs::write(&file, governor);
    log.fault_point("after a governor was set");
    done.map_err(|error| {
        format!("the governor cannot be set to {governor}: {error}; run as root")
    })?;
    match root.text(governor_file(policy)) {
        Some(now) if now == governor => Ok(()),
        now => Err(format!("it is {} after {governor} was written", now.unwrap_or_default())),
    }
}

/// Puts governors back that are still what fathom has set; with `force` the others too.
fn governors_back(
    root: &SysRoot,
    log: &ChangeLog,
    set: &str,
    before: &[(String, String)],
    force: bool,
) -> Outcome {
    let mut outcome = Outcome::AlreadyBack;
    let (mut foreign, mut off) = (Vec::new(), Vec::new());
    for (policy, was) in before {
        match root.text(governor_file(policy)) {
            None if was == set => {}
            // Its processors are off. When they are on again, it has the governor that it had last: fathom's.
            None => off.push(policy.as_str()),
            Some(now) if now == *was => {}
            Some(now) if now == set || force => match write_governor(root, log, policy, was) {
                Ok(()) => outcome = Outcome::Restored,
                Err(reason) => return Outcome::Failed(format!("{policy}: {reason}")),
            },
            Some(now) => foreign.push(format!("{policy} is {now} now; before it was {was}")),
        }
    }
    match (foreign.is_empty(), off.is_empty()) {
        (true, true) => outcome,
        (true, false) => Outcome::Away(format!("{} (its processors are off)", off.join(", "))),
        (false, _) => Outcome::ChangedBySomebody(format!("{}; {CURE}", foreign.join("; "))),
    }
}

/// Whether a unit runs, is about to, or is tried again and again. A name that nothing has, and a systemd that does not answer, are no stopped
/// service.
///
/// # Errors
/// [`LabError::Target`] with what is wrong, and when there is no systemctl.
pub(crate) fn is_running(unit: &str) -> Result<bool, LabError> {
    const RUNS: [&str; 4] = ["active", "activating", "reloading", "refreshing"];
    if find_systemctl().is_none() {
        let reason = "services are stopped by systemctl, which is not here (apt: systemd); leave stop_services out";
        return Err(missing(Path::new(unit), reason.to_owned()));
    }
    let said = systemctl(&["show", "--property=LoadState,ActiveState", "--", unit])
        .map_err(|why| missing(Path::new(unit), format!("systemd does not answer: {why}")))?;
    let has = |line: &str| said.lines().any(|known| known == line);
    if RUNS.iter().any(|state| has(&format!("ActiveState={state}"))) {
        return Ok(true);
    }
    if has("LoadState=not-found") {
        let reason = "there is no such unit; systemctl list-unit-files names those that are";
        return Err(LabError::Target {
            path: unit.into(),
            reason: reason.to_owned(),
            class: ErrorClass::Usage,
        });
    }
    Ok(false)
}

/// Units that run and that the system stops together with this one.
fn stopped_with(unit: &str) -> Vec<String> {
    const WHO: &str = "--property=RequiredBy,RequisiteOf,BoundBy,ConsistsOf";
    let said = systemctl(&["show", WHO, "--value", "--", unit]).unwrap_or_default();
    let mut others: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
    others.order();
    others.dedup();
    others.retain(|other| matches!(is_running(other), Ok(true)));
    others
}

fn missing(path: &Path, reason: String) -> LabError {
    LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Missing }
}

fn find_systemctl() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut found = std::env::split_paths(&path).chain(usual).map(|dir| dir.join(SYSTEMCTL));
    found.find(|file| file.is_absolute() && file.is_file())
}

fn systemctl(arguments: &[&str]) -> Result<String, String> {
    let program = find_systemctl().ok_or("there is no systemctl")?;
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

/// Puts one change back; with `force` also a governor that somebody else has set since.
pub(crate) fn undo(
    root: &SysRoot,
    log: &mut ChangeLog,
    step: Step,
    change: &MachineChange,
    (force, is_same_boot): (bool, bool),
) -> Outcome {
    let outcome = match change {
        // A boot ends programs, starts services, and switches on what /etc/fstab names.
        _ if !is_same_boot => Outcome::Rebooted,
        MachineChange::SwapOff { area, priority, discard, uuid, at } => {
            let (at, uuid, discard) = (at.as_ref(), uuid.as_deref(), discard.as_deref());
            swap_on(root, log, (area, at, uuid), (*priority, discard))
        }
        MachineChange::ServiceStopped { .. }
            if !log.shares_paths(root) && !log.maker().has_same_root(root) =>
        {
            Outcome::NotHere("a service of that name may be another one here".to_owned())
        }
        MachineChange::ServiceStopped { unit } => start_service(log, unit),
        MachineChange::Governor { set, before } => governors_back(root, log, set, before, force),
        MachineChange::MemoryGroup { dir, before } if !log.shares_paths(root) && !dir.exists() => {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            match memory_group::found(root, dir) {
                Some(dir) => memory_group::undo(log, &dir, before),
                None => Outcome::NotHere(format!(
                    "no group {name} is seen here; where more groups are: find /sys/fs/cgroup -name {name}"
                )),
            }
        }
        MachineChange::MemoryGroup { dir, before } => memory_group::undo(log, dir, before),
        MachineChange::Program { .. } => {
            log.fault_point("before a program is ended");
            // Not its group alone: what it has started may have left that.
            let was_there = child::end_left_behind(root, 0, &log.program_mark(step));
            log.fault_point("after a program was ended");
            if was_there { Outcome::Restored } else { Outcome::AlreadyBack }
        }
    };
    outcome.noted(log, step)
}

fn swap_on(
    root: &SysRoot,
    log: &ChangeLog,
    (area, at, uuid): (&Path, Option<&FileAt>, Option<&str>),
    (priority, discard): (i32, Option<&str>),
) -> Outcome {
    let Some(area) = area_now(root, log, area, at) else {
        return Outcome::NotHere(format!(
            "it was on with priority {priority}; the kernel lists areas in /proc/swaps"
        ));
    };
    let own = file_at::note(root, &area);
    let is_on = || {
        let is_own = |on: &Area| {
            let is_same =
                |own| file_at::note(root, &on.path).is_some_and(|on| file_at::is_same(&on, own));
            on.path == area || own.as_ref().is_some_and(is_same)
        };
        swap::areas(root).iter().any(is_own)
    };
    if is_on() {
        return Outcome::AlreadyBack;
    }
    if uuid.is_some_and(|uuid| swap_uuid(&area).as_deref() != Some(uuid)) {
        return Outcome::NotHere(format!(
            "{} is another area by now; it was on with priority {priority}",
            area.display()
        ));
    }
    log.fault_point("before swapon");
    let done = swap::on(&area, priority, discard);
    log.fault_point("after swapon");
    match done {
        Ok(()) if is_on() => Outcome::Restored,
        Ok(()) => Outcome::Failed(format!("swap on {} did not come back", area.display())),
        Err(error) => Outcome::Failed(format!(
            "swap on {} cannot be switched on: {error}; try: swapon {}",
            area.display(),
            shell::path(&area)
        )),
    }
}

/// The UUID in the header of a swap area.
fn swap_uuid(area: &Path) -> Option<String> {
    let mut file = File::open(area).ok()?;
    let size_bytes = file.seek(SeekFrom::End(0)).ok()?;
    let found = probe::signatures(&file, size_bytes).ok()?;
    found.into_iter().find(|signature| signature.name == "swap")?.uuid
}

/// Where a swap area is now: by what it is, whatever its file is called in its directory by now; else by its path.
fn area_now(root: &SysRoot, log: &ChangeLog, area: &Path, at: Option<&FileAt>) -> Option<PathBuf> {
    let is_it = |path: &Path, at: &FileAt| {
        file_at::note(root, path).is_some_and(|now| file_at::is_same(&now, at))
    };
    let has_same_paths = log.shares_paths(root);
    if let Some(at) = at
        && !(has_same_paths && is_it(area, at))
    {
        if let Found::At(found) = file_at::find(root, area, Some(at), true) {
            return Some(found);
        }
        let beside = fs::read_dir(area.parent()?).into_iter().flatten().flatten();
        let mut beside = beside.map(|entry| entry.path()).filter(|_| has_same_paths);
        if let Some(found) = beside.find(|path| file_at::is_at(path, at)) {
            return Some(found);
        }
    }
    (has_same_paths && area.exists()).then(|| area.to_owned())
}

fn start_service(log: &ChangeLog, unit: &str) -> Outcome {
    if matches!(is_running(unit), Ok(true)) {
        return Outcome::AlreadyBack;
    }
    log.fault_point("before a service is started");
    let done = systemctl(&["start", "--", unit]);
    log.fault_point("after a service was started");
    match done {
        Ok(_) => Outcome::Restored,
        Err(reason) => Outcome::Failed(format!(
            "service {unit} cannot be started: {reason}; try: systemctl start {}",
            shell::word(unit)
        )),
    }
}
