//! One trial of an experiment: build, set, prepare, measure, read back.

use super::bench::{self, Bench};
use super::loads::{self, Load, LoadKind};
use super::resume::Done;
use super::{Campaign, Void, calm, due, machine, program, server};
use crate::error::{ErrorClass, LabError};
use crate::layer_tree;
use crate::run::{self, RunOptions};
use crate::target::{self, PreparedTarget};
use crate::trial::{self, Trial};
use fathom_base::prng::Prng;
use fathom_model::event::Event;
use fathom_model::finding::Finding;
use fathom_model::plan::cell::{Cell, CellRecord, KnobReading, Slot};
use fathom_model::plan::setup::ArrayState;
use fathom_model::plan::{Metric, PlanWorkload};
use fathom_model::record::{Ending, Record};
use fathom_model::stack::Stack;
use fathom_model::workload::Workload;
use fathom_setup::Recovery;
use fathom_study::rules;
use fathom_sys::clock;
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where in the experiment.
pub(super) struct Position<'a> {
    pub slot: Slot,
    pub cell: &'a Cell,
    /// Expected time of everything that is still to come, this one included.
    pub eta_ns: u64,
}

/// What was found out around a measurement.
struct Taken {
    record: Record,
    readings: Vec<KnobReading>,
    figures: BTreeMap<String, f64>,
    output: String,
    /// Phases before the one that the record is of.
    parts: Vec<Record>,
    prepare_ns: u64,
    void: Option<Void>,
}

/// What came of a load.
struct Loaded {
    record: Record,
    figures: BTreeMap<String, f64>,
    output: String,
    parts: Vec<Record>,
    /// Why it does not count.
    void: Option<String>,
}

impl Loaded {
    fn records(&self) -> impl Iterator<Item = &Record> {
        self.parts.iter().chain([&self.record])
    }
}

/// The trial's loads, worked out for its target.
struct Ready {
    target: String,
    /// Jobs of all loads, for the test files that they share.
    all: RunOptions,
    loads: Vec<Load>,
    /// The layers below the target, below every further filesystem that was built, and below the places that loads have of their own; none
    /// without any.
    stacks: Vec<Stack>,
}

impl Campaign<'_, '_, '_, '_> {
    /// Measures what is still to be measured of a trial; why it does not count, if it does not.
    pub(super) fn run_slot(
        &mut self,
        at: &Position<'_>,
        workloads: &[PlanWorkload],
        done: &Done,
    ) -> Result<Option<Void>, LabError> {
        let loads = loads::loads(workloads, self.plan.is_together)?;
        let is_single = loads.len() == 1;
        self.bench.begin_slot();
        for (number, load) in loads.iter().enumerate() {
            if done.has(&at.slot, &load.label) {
                continue;
            }
            let name = (self.name)(at.cell);
            let label = if is_single { name } else { format!("{name}, {}", load.label) };
            let begun_ns = clock::monotonic_ns();
            let taken = match self.measure(at, &loads, number, &label) {
                Ok(taken) => taken,
                Err(error) => {
                    self.end_companions();
                    // How far it came is not known: the next trial gets a new setup.
                    self.bench.spoil();
                    self.void_of(error, load, &label, begun_ns)?
                }
            };
            let void = self.keep(at, &load.label, taken)?;
            if void.is_some() {
                return Ok(void);
            }
        }
        Ok(None)
    }

    fn end_companions(&mut self) {
        let ended = self.bench.end_companions();
        run::note_failure(self.lab, ended.map(|_| ()));
    }

    /// What an error makes of a trial: before anything was measured, and for a signal, there is no trial.
    fn void_of(
        &mut self,
        error: LabError,
        load: &Load,
        label: &str,
        begun_ns: u64,
    ) -> Result<Taken, LabError> {
        let class = error.class();
        let is_refusal =
            matches!(class, ErrorClass::Usage | ErrorClass::Refused | ErrorClass::Missing);
        if self.lab.stop.is_set() || class == ErrorClass::Interrupted {
            return Err(LabError::Interrupted);
        }
        if is_refusal && self.records.is_empty() {
            return Err(error);
        }
        let workload = match &load.kind {
            LoadKind::Io(workload) => (**workload).clone(),
            LoadKind::Program(load) => program::workload_of(&load.command),
            LoadKind::Server(load) => load.workload(),
        };
        Ok(Taken {
            record: program::empty_record(label, workload, 0),
            readings: self.bench.readings(self.lab)?,
            figures: BTreeMap::new(),
            output: String::new(),
            parts: Vec::new(),
            prepare_ns: clock::monotonic_ns() - begun_ns,
            void: Some(Void { cause: error.to_string(), class: Some(class) }),
        })
    }

    /// Puts the record of a trial into the store, after those of its earlier phases: what is there of a trial that was killed
    /// meanwhile does not count.
    fn keep(
        &mut self,
        at: &Position<'_>,
        workload: &str,
        taken: Taken,
    ) -> Result<Option<Void>, LabError> {
        let Taken { mut record, readings, figures, output, parts, prepare_ns, void } = taken;
        let of = CellRecord {
            slot: at.slot,
            levels: at.cell.levels.clone(),
            workload: workload.to_owned(),
            knobs: readings,
            setup: self.bench.setup_facts(),
            remarks: self.bench.remarks(),
            capacity: self.bench.capacity(),
            void: void.as_ref().map(|void| void.cause.clone()),
            prepare_ns,
            boot_id: process::boot_id(&self.lab.root),
            application: BTreeMap::new(),
            output: String::new(),
            is_part: true,
        };
        for mut part in parts {
            part.cell = Some(Box::new(of.clone()));
            trial::announce(self.lab, &part, self.keep_record)?;
            self.records.push(part);
            self.fresh += 1;
        }
        record.cell =
            Some(Box::new(CellRecord { application: figures, output, is_part: false, ..of }));
        self.bench.fault_point("before a record is stored");
        trial::announce(self.lab, &record, self.keep_record)?;
        self.bench.fault_point("after a record was stored");
        self.records.push(record);
        self.fresh += 1;
        Ok(void)
    }

    fn measure(
        &mut self,
        at: &Position<'_>,
        loads: &[Load],
        number: usize,
        label: &str,
    ) -> Result<Taken, LabError> {
        let begun_ns = clock::monotonic_ns();
        let ready = self.make_ready(at.cell, loads)?;
        self.bench.stop_again(self.lab, &self.plan)?;
        let is_due = self.wait_past_timers(&ready, number)?;
        let theirs = self.bench.theirs().map(|cause| Void { cause, class: None });
        let void = match theirs {
            Some(theirs) => Some(theirs),
            None => self.calm_down(&ready)?,
        };
        if void.is_some() {
            let workload = program::workload_of("");
            let record = program::empty_record(label, workload, 0);
            let prepare_ns = clock::monotonic_ns() - begun_ns;
            let (figures, readings) = (BTreeMap::new(), self.bench.readings(self.lab)?);
            return Ok(Taken {
                record,
                readings,
                figures,
                output: String::new(),
                parts: Vec::new(),
                prepare_ns,
                void,
            });
        }
        let dir = program::directory(&ready.target);
        self.bench.start_companion(self.lab, at.cell.companion.as_deref(), &dir)?;
        let mut readings = self.bench.readings(self.lab)?;
        let kills = calm::Kills::now(&self.lab.root);
        let missing = ready.now(&self.lab.root).map(|stacks| missing_members(&stacks));
        let prepare_ns = clock::monotonic_ns() - begun_ns;
        self.bench.fault_point("before a measurement");
        let measured = self.measure_load(at, &ready, number, label)?;
        self.bench.fault_point("after a measurement");
        let died = self.bench.end_companions()?;
        self.bench.read_after(self.lab, &mut readings)?;
        let environment = bench::drift(&readings)
            .or_else(|| self.bench.changed_beside())
            .or_else(|| self.bench.mounts_changed())
            .or_else(|| machine::drift(&self.lab.root, &self.plan.prepare))
            .or_else(|| calm::Kills::now(&self.lab.root).since(kills))
            .or_else(|| calm::short_of_memory(self.lab, self.plan.prepare.memory_floor_bytes))
            .or(died)
            .or_else(|| self.state_lost(&ready))
            .or_else(|| measured.records().find_map(rules::lost_time))
            .map(|cause| Void { cause, class: None });
        let Loaded { mut record, mut figures, output, parts, void: failure } = measured;
        record.findings.extend(is_due);
        let void = self.failure_of(&record, failure, missing.as_deref(), &ready).or(environment);
        if let LoadKind::Server(server) = &ready.loads[number].kind
            && void.is_none()
            && self.plan.asks_for(Metric::Recovery)
        {
            let place = server.target.as_deref().unwrap_or(&ready.target);
            // What was deleted just before may be there again: the next trial gets a new filesystem.
            self.bench.spoil();
            let recovery = self.bench.crash(self.lab, Path::new(place))?;
            let told = |recovery: Recovery| {
                server::recovery_figures(recovery.after_crash_ns, recovery.clean_ns)
            };
            figures.extend(recovery.into_iter().flat_map(told));
        }
        Ok(Taken { record, readings, figures, output, parts, prepare_ns, void })
    }

    /// Why the array is not in its state any more; the next trial builds it anew then.
    fn state_lost(&mut self, ready: &Ready) -> Option<String> {
        let now = ready.now(&self.lab.root)?;
        let lost = calm::lost_state(&now, self.bench.array_state());
        if lost.is_some() {
            self.bench.spoil();
        }
        lost
    }

    /// What went wrong with the load or the devices below it.
    fn failure_of(
        &mut self,
        record: &Record,
        failure: Option<String>,
        missing: Option<&[(String, u32)]>,
        ready: &Ready,
    ) -> Option<Void> {
        let io = Some(ErrorClass::TargetIo);
        let failed = record.failure.as_ref().map(|failure| failure.message.clone()).or(failure);
        let now = ready.now(&self.lab.root);
        let lost = match (missing, &now) {
            (Some(_), None) => {
                Some("the device is gone, or cannot be looked at any more".to_owned())
            }
            (Some(before), Some(now)) => {
                missing_members(now).into_iter().find_map(|(name, lacks)| {
                    let lacked =
                        before.iter().find(|(known, _)| *known == name).map_or(0, |(_, n)| *n);
                    (lacks > lacked).then(|| {
                        format!("{name} lost a member during the trial: it lacks {lacks} now")
                    })
                })
            }
            (None, _) => None,
        };
        let lost = lost.or_else(|| self.bench.unmounted());
        if failed.is_some() || lost.is_some() {
            // Whatever it stands on is not what it was: the next trial gets a new one.
            self.bench.spoil();
        }
        lost.or(failed).map(|cause| Void { cause, class: io })
    }

    /// Setup, settings, test files.
    fn make_ready(&mut self, cell: &Cell, loads: &[Load]) -> Result<Ready, LabError> {
        self.bench.build(self.lab, &cell.setup)?;
        if self.plan.prepare.remounts {
            self.bench.remount(self.lab)?;
        }
        let target = self.bench.target(&self.plan)?;
        let built: Vec<PathBuf> = self.bench.filesystems().into_iter().cloned().collect();
        let placed = self.bench.placed(loads);
        let mut places = match target.starts_with("null:") {
            true => Vec::new(),
            false if built.is_empty() => vec![PathBuf::from(&target)],
            // All of them: a setting that reached only one would be measured beside what it was not set of.
            false => built.clone(),
        };
        for own in loads::own_targets(&placed).into_iter().map(PathBuf::from) {
            // A command may remove its file, but not where that lies.
            let own = match own.parent() {
                Some(dir) if own.is_file() => dir.to_owned(),
                _ => own,
            };
            if !places.contains(&own) {
                places.push(own);
            }
        }
        let stacks = |lab: &crate::Lab<'_>| -> Result<Vec<Stack>, LabError> {
            let near = |place: &PathBuf| fathom_inspect::stack::nearest_existing(place);
            places.iter().map(|place| target::resolve(lab, &near(place))).collect()
        };
        // Already set for an earlier one of several workloads, unless that was measured by an earlier start, or what it stood on was built
        // anew since; whether somebody interfered shows after each.
        if !self.bench.is_set() || self.plan.prepare.remounts {
            let before = stacks(self.lab)?;
            self.bench.set_knobs(self.lab, cell, &before)?;
        }
        let (mut loads, all) = self.sized(&placed, &target)?;
        if !all.workload.jobs.is_empty() {
            let eta_ns = loads.iter().map(Load::planned_ns).sum();
            let Self { lab, bench, .. } = self;
            for prepared in bench.targets(lab, &all)?.values_mut() {
                prepared.fill_up(lab, None, eta_ns)?;
            }
        }
        for load in &mut loads {
            let LoadKind::Server(server) = &mut load.kind else { continue };
            let place = server.target.as_deref().unwrap_or(&target);
            let is_fresh = built.iter().any(|built| built == Path::new(place));
            let dir = server.make_ready(self.lab, Path::new(place), is_fresh)?;
            server.target = Some(dir.display().to_string());
        }
        let stacks = stacks(self.lab)?;
        Ok(Ready { target, all, loads, stacks })
    }

    /// The loads with sizes in bytes, and all their jobs together.
    fn sized(&self, loads: &[Load], target: &str) -> Result<(Vec<Load>, RunOptions), LabError> {
        let options = |workload: Workload| RunOptions {
            workload,
            target: target.to_owned(),
            repeats: 1,
            until_steady: None,
        };
        let mut all = options(program::workload_of(""));
        let mut sized = Vec::new();
        for load in loads {
            let mut load = load.clone();
            if let LoadKind::Io(workload) = &mut load.kind {
                let with_sizes = run::with_array_sizes(self.lab, &options((**workload).clone()))?;
                run::check_all(self.lab, &with_sizes)?;
                run::check_beside(&with_sizes)?;
                **workload = with_sizes.workload;
                all.workload.jobs.extend(workload.jobs.iter().cloned());
            }
            sized.push(load);
        }
        Ok((sized, all))
    }

    /// Work on storage that is about to start by itself comes before the trial; a finding where it comes in it.
    fn wait_past_timers(
        &mut self,
        ready: &Ready,
        number: usize,
    ) -> Result<Option<Finding>, LabError> {
        let prepare = &self.plan.prepare;
        if ready.stacks.is_empty() || prepare.quiet_ns == 0 {
            return Ok(None);
        }
        let around_ns = prepare.settle_ns.saturating_add(prepare.quiet_ns);
        let plans = due::Plans {
            span_ns: ready.loads[number].planned_ns().saturating_add(around_ns),
            wait_ns: prepare.quiet_wait_ns,
            stopped: &prepare.stop_services,
        };
        due::wait_past(self.lab, &plans)
    }

    /// Caches, settling, quiet, memory.
    fn calm_down(&mut self, ready: &Ready) -> Result<Option<Void>, LabError> {
        let Self { lab, bench, plan, .. } = self;
        let prepare = &plan.prepare;
        let environment =
            |cause: Option<String>| Ok(cause.map(|cause| Void { cause, class: None }));
        if prepare.drops_caches && !prepare.remounts {
            bench.fault_point("before the caches are dropped");
            calm::drop_caches(&lab.root)?;
        } else {
            fathom_sys::io::sync_all();
        }
        if prepare.remounts {
            // It is mounted anew before its test files are laid out.
            bench.prepared().values().for_each(PreparedTarget::drop_cached);
        }
        if prepare.drops_caches || prepare.remounts {
            let cause = calm::still_cached(bench.prepared().values());
            if cause.is_some() {
                return environment(cause);
            }
        }
        if !calm::wait(&lab.stop, prepare.settle_ns) {
            return Err(LabError::Interrupted);
        }
        let short = calm::short_of_memory(lab, prepare.memory_floor_bytes);
        if short.is_some() {
            return environment(short);
        }
        if ready.stacks.is_empty() {
            return Ok(None);
        }
        lab.around.ext4_lazy_init_thread =
            fathom_inspect::surroundings(&lab.root, None, 0).ext4_lazy_init_thread;
        let devices: Vec<String> = own_devices(&lab.root, &ready.stacks);
        let quiet = calm::Quiet {
            devices: &devices,
            quiet_ns: prepare.quiet_ns,
            wait_ns: prepare.quiet_wait_ns,
        };
        let state = bench.array_state();
        let is_busy_by_plan = matches!(state, ArrayState::Rebuilding | ArrayState::Checking);
        let quiet = if is_busy_by_plan { calm::Quiet { devices: &[], ..quiet } } else { quiet };
        let mut look = |lab: &crate::Lab<'_>| {
            // What somebody started is waited for like any other noise; while it runs, a trial would only be void.
            let drift = machine::drift(&lab.root, prepare);
            let busy = || {
                let now = ready.now(&lab.root)?;
                now.iter().find_map(|stack| calm::background(stack, lab, state))
            };
            drift.or_else(busy)
        };
        environment(calm::wait_quiet(lab, &quiet, &mut look)?)
    }

    /// The measurement itself.
    fn measure_load(
        &mut self,
        at: &Position<'_>,
        ready: &Ready,
        number: usize,
        label: &str,
    ) -> Result<Loaded, LabError> {
        let load = &ready.loads[number];
        // All cells of a block get the same requests: what chance does to them is not a difference between cells.
        let stream = (u64::from(at.slot.block) << 8) | number as u64;
        let seed = Prng::new(self.seed, stream).next_u64();
        let rest_after_ns = at.eta_ns.saturating_sub(load.planned_ns());
        let index = self.trials.count as u32 + 1;
        match &load.kind {
            LoadKind::Io(workload) => {
                let targets: Vec<&PreparedTarget> =
                    run::targets_of(&ready.all, workload, self.bench.prepared());
                let trial = Trial {
                    label: label.to_owned(),
                    workload,
                    targets,
                    seed,
                    rest_after_ns,
                    position: (index, index),
                };
                let record = trial::record_of(self.lab, &trial)?;
                if record.ending == Ending::Interrupted {
                    return Err(LabError::Interrupted);
                }
                let (figures, output) = (BTreeMap::new(), String::new());
                Ok(Loaded { record, figures, output, parts: Vec::new(), void: None })
            }
            LoadKind::Program(load) => {
                let target = load.target.as_deref().unwrap_or(&ready.target);
                let stack = ready.stack_of(target);
                let run = program::Run { load, label, target, stack, seed, rest_after_ns };
                let Self { lab, bench, .. } = self;
                let bench: &mut Bench = bench;
                (lab.emit)(Event::TrialStarted {
                    label: label.to_owned(),
                    index,
                    count: index,
                    layers: layer_tree::of(&ready.stacks),
                    findings: Vec::new(),
                });
                let program::Measured { record, figures, output, void } =
                    program::measure(lab, bench, &run)?;
                Ok(Loaded { record, figures, output, parts: Vec::new(), void })
            }
            LoadKind::Server(load) => {
                let dir = load.target.as_deref().unwrap_or(&ready.target);
                let server::Measured { record, parts, figures } =
                    server::measure(self.lab, load, Path::new(dir), (label, seed))?;
                Ok(Loaded { record, figures, output: String::new(), parts, void: None })
            }
        }
    }
}

impl Ready {
    /// The layers as they are now; none without any, and when they cannot be read.
    fn now(&self, root: &SysRoot) -> Option<Vec<Stack>> {
        let look = |stack: &Stack| fathom_inspect::resolve(root, Path::new(&stack.path)).ok();
        Some(&self.stacks).filter(|stacks| !stacks.is_empty())?.iter().map(look).collect()
    }

    /// Those below one of the places that are measured; of what lies elsewhere, those of the target.
    fn stack_of(&self, place: &str) -> Option<&Stack> {
        let is_below = |stack: &&Stack| Path::new(place).starts_with(&stack.path);
        let nearest = self.stacks.iter().filter(is_below).max_by_key(|stack| stack.path.len());
        nearest.or(self.stacks.first())
    }
}

/// What arrays lack, by name.
fn missing_members(stacks: &[Stack]) -> Vec<(String, u32)> {
    stacks.iter().flat_map(calm::missing_members).collect()
}

/// Devices of the stacks that serve nobody else: not those below the file of a loop device, which hold other data too.
fn own_devices(root: &SysRoot, stacks: &[Stack]) -> Vec<String> {
    let (devices, _) = fathom_knobs::scope::of_stacks(root, stacks);
    devices.into_iter().filter(|device| !device.is_behind_file).map(|device| device.name).collect()
}
