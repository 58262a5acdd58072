//! What an experiment holds of the machine: setup, settings, test files, programs beside it. Everything is in the journal, and
//! everything is given back when this is dropped, also by a panic.

use super::companion::Said;
use super::loads::{Load, LoadKind};
use super::mounted::{Mounted, TargetMounts};
use super::theirs::{Beside, Theirs, Usual, without_followers};
use super::{companion, machine, memory_group, program};
use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::restore::{self, Report};
use crate::run::{self, RunOptions, TargetKey};
use crate::target::{self, PreparedTarget, TargetWish};
use fathom_guard::FileRefusal;
use fathom_guard::changes::{ChangeLog, Step};
use fathom_guard::faults::Faults;
use fathom_knobs::{Setting, Wait};
use fathom_model::change::Change;
use fathom_model::change::knob::KnobPlace;
use fathom_model::change::machine::MachineChange;
use fathom_model::plan::setup::{ArrayState, SetupCapacity, SetupSpec};
use fathom_model::plan::{OwnKnob, Plan};
use fathom_model::record::TargetKind;
use fathom_model::stack::Stack;
use fathom_setup::{Builder, Built, Recovery, SetupError};
use fathom_sys::child::{self, Output, Program};
use fathom_sys::mounts;
use fathom_sys::process;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

mod settings;

pub(super) use settings::drift;

/// What an experiment holds.
pub(crate) struct Bench {
    root: SysRoot,
    log: Option<ChangeLog>,
    built: Option<Built>,
    /// How its filesystems are mounted.
    mounted: Mounted,
    /// How those are that were there before.
    target_mounts: TargetMounts,
    /// Nothing more can be built on it: a member failed.
    is_spoilt: bool,
    settings: Vec<Setting>,
    /// What the machine had of each of them before they were set.
    found: Vec<Option<String>>,
    /// What was found of each setting when it was set for the first time on what stands now; of what no cell sets, before the first trial.
    first: BTreeMap<(KnobPlace, String), String>,
    /// They are those of the cell whose turn it is, all of them.
    is_set: bool,
    /// What somebody else has changed during the experiment, and stays as they set it.
    theirs: Vec<Theirs>,
    /// What the kernel sets with each scheduler.
    usual: Usual,
    /// What the cell whose turn it is does not set.
    beside: Beside,
    /// The same of all that was set, when that was taken down or given back.
    strayed: Vec<Theirs>,
    own: Vec<OwnKnob>,
    /// Settings of the user's own whose commands did not put them back when that was tried last: what hung then hangs again.
    tried: BTreeMap<Step, Report>,
    /// Somebody asked for the end while a command of theirs ran: none is run any more only to look.
    is_cut: std::cell::Cell<bool>,
    prepared: BTreeMap<TargetKey, PreparedTarget>,
    wishes: BTreeMap<TargetKey, TargetWish>,
    companions: Vec<Program>,
    /// What they say.
    said: Option<Said>,
    /// How often services were stopped again.
    stopped_again: BTreeMap<String, u32>,
    seed: u64,
}

impl Bench {
    /// Nothing held yet; the journal is begun.
    pub fn new(lab: &Lab<'_>, plan: &Plan, seed: u64, faults: Faults) -> Result<Self, LabError> {
        let log = new_log(lab, &faults)?;
        Ok(Self {
            root: lab.root.clone(),
            log: Some(log),
            built: None,
            mounted: Mounted::default(),
            target_mounts: TargetMounts::default(),
            is_spoilt: false,
            settings: Vec::new(),
            found: Vec::new(),
            first: BTreeMap::new(),
            strayed: Vec::new(),
            is_set: false,
            theirs: Vec::new(),
            usual: Usual::default(),
            beside: Beside::default(),
            own: plan.own_knobs.clone(),
            tried: BTreeMap::new(),
            is_cut: std::cell::Cell::default(),
            prepared: BTreeMap::new(),
            wishes: BTreeMap::new(),
            companions: Vec::new(),
            said: None,
            stopped_again: BTreeMap::new(),
            seed,
        })
    }

    fn log(log: &mut Option<ChangeLog>) -> Result<&mut ChangeLog, LabError> {
        log.as_mut().ok_or(LabError::Interrupted)
    }

    /// Swap and services, once before everything.
    pub fn prepare_machine(&mut self, lab: &mut Lab<'_>, plan: &Plan) -> Result<(), LabError> {
        let log = Self::log(&mut self.log)?;
        let mut notes = Vec::new();
        let done = machine::prepare(&lab.root, log, &plan.prepare, &mut |text| notes.push(text));
        notes.into_iter().for_each(|text| lab.note(text));
        done?;
        match plan.prepare.memory_limit_bytes {
            Some(bytes) => memory_group::enter(lab, Self::log(&mut self.log)?, bytes),
            None => Ok(()),
        }
    }

    /// Services that run again, before a trial.
    pub fn stop_again(&mut self, lab: &mut Lab<'_>, plan: &Plan) -> Result<(), LabError> {
        let log = Self::log(&mut self.log)?;
        let mut notes = Vec::new();
        let counts = &mut self.stopped_again;
        let done = machine::stop_again(log, &plan.prepare, counts, &mut |text| notes.push(text));
        notes.into_iter().for_each(|text| lab.note(text));
        done
    }

    /// A place at which a test ends the process.
    pub fn fault_point(&self, name: &str) {
        if let Some(log) = &self.log {
            log.fault_point(name);
        }
    }

    /// What is measured: the built filesystem or device, or the plan's own target.
    pub fn target(&self, plan: &Plan) -> Result<String, LabError> {
        match (&self.built, &plan.target) {
            (Some(built), _) => Ok(built.target.display().to_string()),
            (None, Some(target)) => Ok(target.clone()),
            (None, None) => Err(LabError::Usage(format!(
                "plan '{}' has neither a target nor a setup: fathom lab PLAN TARGET, or write target = \"...\"",
                plan.name
            ))),
        }
    }

    /// Where the filesystems are that were built, the target's first.
    pub fn filesystems(&self) -> Vec<&PathBuf> {
        self.built.iter().flat_map(|built| built.mount_point.iter().chain(&built.further)).collect()
    }

    /// The loads with `setup:2` and so on replaced by where that filesystem is mounted.
    pub fn placed(&self, loads: &[Load]) -> Vec<Load> {
        let mut loads = loads.to_vec();
        let places = self.filesystems();
        let find = |target: &Option<String>| {
            let number: usize = target.as_deref()?.strip_prefix("setup:")?.parse().ok()?;
            Some(places.get(number.checked_sub(1)?)?.display().to_string())
        };
        for load in &mut loads {
            match &mut load.kind {
                LoadKind::Io(workload) => {
                    for job in &mut workload.jobs {
                        job.target = find(&job.target).or_else(|| job.target.take());
                    }
                }
                LoadKind::Program(load) => {
                    load.target = find(&load.target).or_else(|| load.target.take())
                }
                LoadKind::Server(load) => {
                    load.target = find(&load.target).or_else(|| load.target.take())
                }
            }
        }
        loads
    }

    /// What a reader of the result must know of the setup: commands and facts.
    pub fn setup_facts(&self) -> Vec<String> {
        let of = |built: &Built| [built.commands.clone(), built.facts.clone()].concat();
        self.built.as_ref().map(of).unwrap_or_default()
    }

    /// What of the setup is otherwise than one would expect.
    pub fn remarks(&self) -> Vec<String> {
        self.built.as_ref().map(|built| built.remarks.clone()).unwrap_or_default()
    }

    /// What of the devices the setup lets one use.
    pub fn capacity(&self) -> Option<SetupCapacity> {
        self.built.as_ref()?.capacity
    }

    /// Builds what the cell stands on, unless it stands already.
    pub fn build(&mut self, lab: &mut Lab<'_>, spec: &SetupSpec) -> Result<(), LabError> {
        let is_there =
            self.built.as_ref().is_some_and(|built| built.spec == *spec) && !self.is_spoilt;
        if self.built.is_none() && spec.is_empty() {
            return Ok(());
        }
        if is_there {
            return self.on_built(lab, fathom_setup::refresh);
        }
        let stop = lab.stop.clone();
        lab.waiting(Some(&stop), |wait| self.restore_knobs(wait))?;
        self.take_down(lab)?;
        if spec.is_empty() {
            return Ok(());
        }
        let (log, stop) = (Self::log(&mut self.log)?, &lab.stop.clone());
        let built = with_builder(lab, log, self.seed, stop, |b| fathom_setup::build(b, spec))?;
        self.built = Some(built);
        self.is_spoilt = false;
        self.learn_mounts(Mounted::default());
        Ok(())
    }

    /// Mounts the built filesystem anew, so that nothing of it is cached.
    pub fn remount(&mut self, lab: &mut Lab<'_>) -> Result<(), LabError> {
        if self.built.as_ref().is_none_or(|built| built.mount_point.is_none()) {
            return Err(LabError::Usage(
                "remount: only a filesystem that the plan's setup makes is mounted anew; use drop_caches = true".to_owned(),
            ));
        }
        // Open files would keep it busy: they are made again, after it.
        self.release_targets(lab);
        self.on_built(lab, fathom_setup::remount)?;
        self.learn_mounts(Mounted::default());
        Ok(())
    }

    /// Fathom has changed something about how the filesystems are mounted.
    fn learn_mounts(&mut self, mut mounted: Mounted) {
        mounted.learn(&self.root, &self.filesystems());
        self.mounted = mounted;
    }

    /// How somebody else has changed the way in which a filesystem of the setup is mounted; the next trial builds it anew then.
    pub fn mounts_changed(&mut self) -> Option<String> {
        let changed = self.mounted.changed(&self.root);
        self.is_spoilt |= changed.is_some();
        changed.or_else(|| self.target_mounts.changed(&self.root))
    }

    /// Ends the built filesystem on which a place lies as a crash does, and tells how long it takes to be mounted again; none where the place
    /// lies elsewhere.
    pub fn crash(&mut self, lab: &mut Lab<'_>, place: &Path) -> Result<Option<Recovery>, LabError> {
        self.release_targets(lab);
        self.on_built(lab, |builder, built| fathom_setup::crash(builder, built, place))
    }

    fn on_built<T: Default>(
        &mut self,
        lab: &mut Lab<'_>,
        act: impl FnOnce(&mut Builder<'_>, &mut Built) -> Result<T, SetupError>,
    ) -> Result<T, LabError> {
        let Some(built) = &mut self.built else { return Ok(T::default()) };
        let (log, stop) = (Self::log(&mut self.log)?, &lab.stop.clone());
        with_builder(lab, log, self.seed, stop, |builder| act(builder, built))
    }

    /// Gives test files back, and the claim of a built device to its setup.
    pub fn release_targets(&mut self, lab: &mut Lab<'_>) {
        self.wishes.clear();
        for (_, target) in std::mem::take(&mut self.prepared) {
            let is_device = target.kind() == TargetKind::BlockDevice;
            match &mut self.built {
                Some(built) if is_device && built.claim.is_none() => {
                    built.claim = target.into_claim();
                }
                // What lies on a filesystem that was built goes with it, also when files are to be kept.
                Some(_) => run::note_failure(lab, target.remove()),
                None => run::give_back_one(lab, target),
            }
        }
    }

    /// Takes the setup down.
    pub fn take_down(&mut self, lab: &mut Lab<'_>) -> Result<(), LabError> {
        self.release_targets(lab);
        let staying = self.staying(&lab.state_dir);
        self.look_at_strayed(lab, &staying);
        let places: Vec<PathBuf> = self.filesystems().into_iter().cloned().collect();
        let Some(built) = self.built.take() else { return Ok(()) };
        // Also after a signal: what was built comes down.
        let (log, stop) = (Self::log(&mut self.log)?, &StopFlag::default());
        let act = |builder: &mut Builder<'_>| fathom_setup::take_down(builder, built);
        let done = with_builder(lab, log, self.seed, stop, act);
        let mounted = mounts::own_mounts(&lab.root);
        let is_mounted = |place: &PathBuf| mounted.iter().any(|m| m.mount_point == *place);
        for place in places.into_iter().filter(|place| !is_mounted(place)) {
            restore::forget_files_at(&lab.root, &lab.state_dir, &place);
        }
        done
    }

    /// Names of the devices that the setup was built over, and of those below the files that it made.
    fn staying(&self, state_dir: &Path) -> Vec<String> {
        let spec = self.built.iter().map(|built| &built.spec);
        let files = self.built.iter().map(|_| state_dir.to_owned());
        let paths = spec.flat_map(super::outline::given).chain(files);
        let stacks: Vec<Stack> =
            paths.filter_map(|path| fathom_inspect::resolve(&self.root, &path).ok()).collect();
        let (devices, _) = fathom_knobs::scope::of_stacks(&self.root, &stacks);
        devices.into_iter().map(|device| device.name).collect()
    }

    /// Which of the built filesystems does not show any more where it was mounted: what is written there would come to lie elsewhere.
    pub fn unmounted(&self) -> Option<String> {
        fathom_setup::unmounted(&self.root, self.built.as_ref()?)
    }

    /// The setup is not what it was any more: the next trial builds it anew.
    pub fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    /// In which state the array is to be.
    pub fn array_state(&self) -> ArrayState {
        let array = self.built.as_ref().and_then(|built| built.spec.array.as_ref());
        array.map(|array| array.state).unwrap_or_default()
    }

    /// Another trial begins: what is set now is of the one before.
    pub fn begin_slot(&mut self) {
        self.is_set = false;
    }

    /// True when the settings of the trial that was begun are made.
    pub fn is_set(&self) -> bool {
        self.is_set
    }

    /// Where the filesystems that are measured are mounted, but for those that are built.
    fn mounts_of_targets(&self, stacks: &[Stack]) -> Vec<PathBuf> {
        let built = self.filesystems();
        let mounts = stacks.iter().filter_map(|stack| stack.top_node()?.mount.as_ref());
        let places = mounts.map(|mount| PathBuf::from(&mount.mount_point));
        places.filter(|place| !built.contains(&place)).collect()
    }

    /// The targets of the cell's loads, still to be written full: those of the trial before where they are the same.
    pub fn targets(
        &mut self,
        lab: &mut Lab<'_>,
        options: &RunOptions,
    ) -> Result<&mut BTreeMap<TargetKey, PreparedTarget>, LabError> {
        let wishes = run::wishes(options);
        let serves = |(key, wish): (&TargetKey, &TargetWish)| {
            let known = self.wishes.get(key).is_some_and(|known| known.is_like(wish));
            known && self.prepared.get(key).is_some_and(|target| target.suits(&wish.jobs))
        };
        if !self.prepared.is_empty()
            && wishes.len() == self.wishes.len()
            && wishes.iter().all(serves)
        {
            return Ok(&mut self.prepared);
        }
        self.release_targets(lab);
        run::check_all(lab, options)?;
        let mut claim = self.built.as_mut().and_then(|built| built.claim.take());
        for (key, wish) in &wishes {
            let path = PathBuf::from(&key.0);
            let is_built =
                wish.write && claim.as_ref().is_some_and(|claim| is_same_file(claim.path(), &path));
            let made = match claim.take_if(|_| is_built) {
                Some(claim) => target::over_claim(lab, claim, &wish.jobs),
                None => target::prepare(lab, &path, wish),
            };
            match made {
                Ok(target) => self.prepared.insert(key.clone(), target),
                Err(error) => {
                    self.give_claim_back(claim);
                    self.release_targets(lab);
                    return Err(error);
                }
            };
        }
        self.give_claim_back(claim);
        self.wishes = wishes;
        Ok(&mut self.prepared)
    }

    fn give_claim_back(&mut self, claim: Option<fathom_guard::Claim>) {
        if let (Some(built), Some(claim)) = (&mut self.built, claim) {
            built.claim = Some(claim);
        }
    }

    /// Test files and devices that are held now.
    pub fn prepared(&self) -> &BTreeMap<TargetKey, PreparedTarget> {
        &self.prepared
    }

    /// Starts the load beside the measured one.
    pub fn start_companion(
        &mut self,
        lab: &Lab<'_>,
        companion: Option<&str>,
        dir: &Path,
    ) -> Result<(), LabError> {
        let commands = companion::commands(companion.unwrap_or_default());
        if commands.is_empty() {
            return Ok(());
        }
        let failed = |source| LabError::TargetIo {
            path: dir.to_owned(),
            what: "listening to what the companion says",
            source,
        };
        let (said, stderr) = Said::listen().map_err(failed)?;
        self.said = Some(said);
        for words in commands {
            let stderr = Some(stderr.try_clone().map_err(failed)?);
            let output = Output { stderr, ..Output::default() };
            let program = self.start_program(lab, &words, dir, output)?;
            self.companions.push(program);
        }
        Ok(())
    }

    /// Starts a program that is in the journal as long as it runs.
    pub fn start_program(
        &mut self,
        lab: &Lab<'_>,
        words: &[OsString],
        dir: &Path,
        output: Output,
    ) -> Result<Program, LabError> {
        let text = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let change = |pid, start_time_ticks| {
            Change::Machine(MachineChange::Program { command: text.clone(), pid, start_time_ticks })
        };
        let log = Self::log(&mut self.log)?;
        let step = log.intend(change(0, 0))?;
        log.fault_point("before a program is started");
        let started = Program::start(&lab.root, words, dir, output, &log.program_mark(step));
        log.fault_point("after a program was started");
        match started {
            Ok(program) => match log.made(step, change(program.pid, program.start_time_ticks)) {
                Ok(()) => Ok(program),
                Err(error) => {
                    program.end();
                    Err(error.into())
                }
            },
            Err(error) => {
                log.undone(step)?;
                let reason = format!("'{text}' cannot be started: {error}");
                Err(LabError::Target { path: dir.to_owned(), reason, class: ErrorClass::Missing })
            }
        }
    }

    /// Ends a program, and notes that.
    pub fn end_program(&mut self, program: Program) -> Result<(), LabError> {
        self.end_programs(vec![program])
    }

    /// Ends programs, and notes that. All are looked for at once: a machine may have thousands of processes.
    fn end_programs(&mut self, programs: Vec<Program>) -> Result<(), LabError> {
        let pids: Vec<u32> = programs.iter().map(|program| program.pid).collect();
        child::end_all(programs);
        let log = Self::log(&mut self.log)?;
        let of_them = |change: &Change| matches!(change, Change::Machine(MachineChange::Program { pid, .. }) if pids.contains(pid));
        let mut ended = log.pending();
        ended.retain(|entry| of_them(&entry.change));
        // What has left its group is known by its mark.
        let marks: Vec<String> = ended.iter().map(|entry| log.program_mark(entry.step)).collect();
        child::end_carriers(&self.root, &marks);
        for entry in ended {
            log.undone(entry.step)?;
        }
        Ok(())
    }

    /// Ends the load beside the measured one; an error when it had ended by itself, because then there was none.
    pub fn end_companions(&mut self) -> Result<Option<String>, LabError> {
        let mut companions = std::mem::take(&mut self.companions);
        let said = self.said.take();
        let mut died = None;
        for program in &mut companions {
            if let Ok(Some(ended)) = program.ended() {
                let cause = format!("the companion ended before the trial did ({ended})");
                let last = said.as_ref().map(Said::text).unwrap_or_default();
                died = Some(program::with_last_line(cause, &last));
            }
        }
        if !companions.is_empty() {
            self.end_programs(companions)?;
        }
        Ok(died)
    }

    /// Gives everything back and says what became of it.
    pub fn restore(mut self, lab: &mut Lab<'_>) -> Vec<Report> {
        let companions = self.end_companions();
        run::note_failure(lab, companions.map(|_| ()));
        let stop = unheard_yet(lab);
        let taken = lab.waiting(stop.as_ref(), |wait| self.restore_knobs(wait));
        let taken = taken.and_then(|()| self.take_down(lab));
        if taken.is_ok() {
            self.look_at_strayed(lab, &[]);
        }
        let stop = unheard_yet(lab);
        let mut reports = lab.waiting(stop.as_ref(), |wait| self.restore_rest(wait));
        // What a report says is said by that.
        let is_said = |text: &str| reports.iter().any(|report| text.contains(&report.to_string()));
        let failed = taken.err().map(|error| error.to_string());
        failed.filter(|text| !is_said(text)).into_iter().for_each(|text| lab.note(text));
        let told = |theirs: &Theirs| {
            let words = [&theirs.knob[..], &theirs.place.name()];
            let own = |report: &Report| {
                let text = report.to_string();
                !report.outcome.is_done() && words.iter().all(|word| text.contains(word))
            };
            reports.iter().any(own)
        };
        let is_told = |place: &KnobPlace| {
            let (knob, place) = (fathom_knobs::SCHEDULER.to_owned(), place.clone());
            told(&Theirs { knob, place, before: String::new(), now: String::new() })
        };
        let strayed = without_followers(std::mem::take(&mut self.strayed), &is_told);
        let strayed: Vec<Theirs> = strayed.into_iter().filter(|theirs| !told(theirs)).collect();
        reports.extend(strayed.into_iter().map(|theirs| theirs.report(&lab.run_id)));
        if let Some(log) = self.log.take() {
            run::note_failure(lab, log.close().map(|_| ()).map_err(LabError::from));
        }
        reports
    }

    /// Everything that is pending in the journal, from the journal alone.
    fn restore_rest(&mut self, wait: &mut Wait<'_>) -> Vec<Report> {
        child::end_all(std::mem::take(&mut self.companions));
        // Files first, then what they lie on.
        self.prepared.clear();
        self.built = None;
        match &mut self.log {
            Some(log) => restore::restore_log(&self.root, log, false, &mut self.tried, wait),
            None => Vec::new(),
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // By an error or a panic: nobody is left to be told; what stays is in the journal, and the next start tells.
        self.tried.clear();
        self.restore_rest(&mut Wait::to_the_end(&mut |_| ()));
        if let Some(log) = self.log.take() {
            log.close().ok();
        }
    }
}

/// What ends a command that puts something back: a request that comes while it runs. One that was made before is the reason to put it back.
fn unheard_yet(lab: &Lab<'_>) -> Option<StopFlag> {
    (!lab.stop.is_set()).then(|| lab.stop.clone())
}

/// Builds, or takes down, with the rights of the laboratory.
fn with_builder<T>(
    lab: &mut Lab<'_>,
    log: &mut ChangeLog,
    seed: u64,
    stop: &StopFlag,
    act: impl FnOnce(&mut Builder<'_>) -> Result<T, SetupError>,
) -> Result<T, LabError> {
    let Lab { root, consent, protected, state_dir, emit, .. } = lab;
    let mut note = |text: &str| (emit)(fathom_model::event::Event::Note { text: text.to_owned() });
    let note = &mut note;
    let work_dir = state_dir;
    act(&mut Builder { root, log, consent, protected, work_dir, seed, note, stop })
        .map_err(of_setup)
}

/// A journal of its own for each start of a run: an earlier one may still hold what somebody else has changed since.
fn new_log(lab: &Lab<'_>, faults: &Faults) -> Result<ChangeLog, LabError> {
    const STARTS_MAX: u32 = 1000;
    let is_taken = |error: &FileRefusal| matches!(error, FileRefusal::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists);
    let mut start = 1;
    loop {
        let name = if start == 1 { lab.run_id.clone() } else { format!("{}-{start}", lab.run_id) };
        match ChangeLog::create(&lab.root, &lab.state_dir, &name, faults.clone()) {
            Err(error) if is_taken(&error) && start < STARTS_MAX => start += 1,
            other => return Ok(other?),
        }
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(a) == real(b)
}

/// An error of a setup as one of the laboratory.
pub(crate) fn of_setup(error: SetupError) -> LabError {
    use fathom_setup::ErrorKind;
    let class = match error.kind() {
        ErrorKind::Usage => ErrorClass::Usage,
        ErrorKind::Safety => ErrorClass::Refused,
        ErrorKind::Missing => ErrorClass::Missing,
        ErrorKind::Io => ErrorClass::TargetIo,
        ErrorKind::Stopped => return LabError::Interrupted,
    };
    LabError::Cell { reason: error.to_string(), class }
}

/// An error of a setting as one of the laboratory.
pub(crate) fn of_knob(error: fathom_knobs::KnobError) -> LabError {
    use fathom_knobs::KnobError;
    let class = match &error {
        KnobError::Unknown { .. } | KnobError::Value { .. } | KnobError::Asked { .. } => {
            ErrorClass::Usage
        }
        KnobError::Refused { .. } => ErrorClass::Refused,
        KnobError::Nowhere { .. } | KnobError::Journal(_) => ErrorClass::Missing,
        KnobError::Write { .. } if !process::is_root() => ErrorClass::Usage,
        KnobError::Read { .. } | KnobError::Write { .. } | KnobError::NotTaken { .. } => {
            ErrorClass::Missing
        }
    };
    LabError::Cell { reason: error.to_string(), class }
}
