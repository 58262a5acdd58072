//! What an experiment would do on this machine, to the last write, without touching anything.

use super::loads::{self, Load, LoadKind};
use super::places::{self, Files};
use super::{bench, boot, companion, machine, memory_group, usage};
use crate::control_group;
use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::target::unreachable_target;
use fathom_base::units::{format_duration, format_ns, format_size};
use fathom_guard::{Consent, Protected};
use fathom_knobs::{Scope, ScopeDevice, Wait};
use fathom_model::change::knob::KnobPlace;
use fathom_model::event::Event;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::outline::{Act, CellOutline, ImpossibleCell, Outline, Write};
use fathom_model::plan::setup::SetupSpec;
use fathom_model::plan::{Factor, FactorKind, Plan};
use fathom_model::stack::Stack;
use fathom_model::workload::{Access, Job};
use fathom_plan::Estimate;
use fathom_setup::Outline as SetupOutline;
use fathom_study::experiment as study;
use fathom_sys::process;
use fathom_sys::swap;
use fathom_sys::sysroot::SysRoot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

mod there;
mod weights;

/// What is known of the surroundings before anything begins.
pub struct Ground<'a> {
    /// The machine.
    pub root: &'a SysRoot,
    /// Devices that may be overwritten.
    pub consent: &'a Consent,
    /// What never is.
    pub protected: &'a Protected,
    /// Where the journal is.
    pub state_dir: &'a Path,
}

fn governor_act(root: &SysRoot, governor: &str) -> Result<Act, LabError> {
    let all = machine::governors(root, governor)?;
    let names: Vec<String> =
        all.iter().map(|(policy, now)| format!("{policy} (now {now})")).collect();
    let is_set = all.iter().all(|(_, now)| now == governor);
    Ok(act(format!("governor {governor} for {}", names.join(", ")), !is_set))
}

/// The devices of a setup that were there before it.
pub(super) fn given(spec: &SetupSpec) -> Vec<PathBuf> {
    let journals = spec.filesystem.iter().flat_map(|fs| fs.journals());
    let words = spec.devices.iter().map(String::as_str).chain(journals);
    words.filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// Time around each trial that nothing in the plan says: settings, opening, storing.
const AROUND_NS: u64 = 500_000_000;

/// What makes each trial begin without what is cached.
const DROP_CACHES: &str =
    "sync; echo 3 > /proc/sys/vm/drop_caches, and see that test files are gone from it";

/// How fast test files are assumed to be written, in bytes per second, until something was measured.
const RATE_ASSUMED: u64 = 200 << 20;

/// Works a plan out; with the first of what stands in the way, all of which is in [`Outline::refusals`].
///
/// # Errors
/// [`LabError::Usage`] when the plan has no cells.
pub fn dry_run(
    ground: &Ground<'_>,
    plan: &Plan,
    cells: &[Cell],
    wait: &mut Wait<'_>,
) -> Result<(Outline, Option<LabError>), LabError> {
    let survey = Survey::new(ground, plan, cells, wait)?;
    Ok((survey.outline, survey.first))
}

/// Refuses what would fail in the middle of the experiment, before anything is set or made; else what is to be known beforehand, a sentence
/// each: what of the machine cannot be put back exactly, and settings that the loads never meet.
///
/// # Errors
/// The first refusal.
pub(crate) fn check(
    lab: &mut Lab<'_>,
    plan: &Plan,
    cells: &[Cell],
) -> Result<Vec<String>, LabError> {
    let Lab { root, consent, protected, state_dir, stop, emit, .. } = lab;
    let ground = Ground { root, consent, protected, state_dir };
    let mut note = |text: &str| (emit)(Event::Note { text: text.to_owned() });
    let wait = &mut Wait { note: &mut note, stop: Some(stop) };
    let Survey { outline, first, .. } = Survey::new(&ground, plan, cells, wait)?;
    let exactly = |text: &String| format!("Cannot be put back exactly: {text}.");
    let notes = outline.unrestorable.iter().map(exactly).chain(outline.notes);
    first.map_or_else(|| Ok(notes.collect()), Err)
}

/// A plan being worked out.
struct Survey<'a> {
    ground: &'a Ground<'a>,
    plan: &'a Plan,
    /// Setups by their description, worked out once.
    setups: Vec<(SetupSpec, SetupOutline)>,
    /// The layers below the plan's target.
    stacks: Vec<Stack>,
    /// Devices that setups are built over.
    given: Vec<ScopeDevice>,
    /// Where these were found, each looked at once: many setups are built over the same.
    looked_at: BTreeSet<PathBuf>,
    /// Devices that loads overwrite, and whether that was looked at.
    overwritten: Vec<String>,
    /// The test files of each cell, by its number.
    files: BTreeMap<u32, Files>,
    /// What knobs of the user's own are now; none for those that cannot be read.
    own_now: BTreeMap<String, Option<String>>,
    outline: Outline,
    first: Option<LabError>,
}

impl<'a> Survey<'a> {
    fn new(
        ground: &'a Ground<'a>,
        plan: &'a Plan,
        cells: &[Cell],
        wait: &mut Wait<'_>,
    ) -> Result<Self, LabError> {
        if cells.iter().all(|cell| cell.impossible.is_some()) {
            let text = format!("plan '{}' has no cell that can be measured", plan.name);
            return Err(LabError::Usage(text));
        }
        let mut survey = Self {
            ground,
            plan,
            setups: Vec::new(),
            stacks: Vec::new(),
            given: Vec::new(),
            looked_at: BTreeSet::new(),
            overwritten: Vec::new(),
            files: BTreeMap::new(),
            own_now: BTreeMap::new(),
            outline: empty(plan),
            first: None,
        };
        survey.look_at_target();
        survey.look_at_setups(cells);
        survey.look_at_own_knobs(cells, wait)?;
        survey.look_at_memory();
        survey.outline.impossible = cells.iter().filter_map(impossible).collect();
        for cell in cells.iter().filter(|cell| cell.impossible.is_none()) {
            let outlined = survey.cell(cell);
            survey.outline.cells.push(outlined);
            let boot = boot::wanted(ground.root, cell);
            survey.outline.boots.extend(boot.filter(|boot| !survey.outline.boots.contains(boot)));
        }
        survey.add_acts();
        survey.look_at_rights();
        survey.add_cost(cells);
        Ok(survey)
    }

    fn refuse(&mut self, error: LabError) {
        let text = error.to_string();
        if !self.outline.refusals.contains(&text) {
            self.outline.refusals.push(text);
        }
        self.first.get_or_insert(error);
    }

    /// The target that is there already.
    fn look_at_target(&mut self) {
        let target = match (&self.plan.target, self.plan.setup.is_empty()) {
            (Some(target), _) if target.starts_with("null:") => {
                self.outline.target = "null: (fathom itself)".to_owned();
                return;
            }
            (Some(target), _) => target.clone(),
            (None, _) => return,
        };
        // A command gets it as it is: settings of whatever lies above a name that is not there are not meant.
        let is_made = !self.plan.setup.is_empty()
            || self.plan.workloads.iter().any(|workload| workload.command.is_none());
        let found = Path::new(&target).metadata();
        if let (false, Err(error)) = (is_made, &found) {
            return self.refuse(unreachable_target(Path::new(&target), error));
        }
        let place = fathom_inspect::stack::nearest_existing(Path::new(&target));
        match fathom_inspect::resolve(self.ground.root, &place) {
            Ok(stack) => {
                self.outline.target = fathom_check::one_line(&stack);
                self.stacks.push(stack);
            }
            Err(error) => self.refuse(error.into()),
        }
    }

    fn look_at_setups(&mut self, cells: &[Cell]) {
        let Ground { root, consent, protected, state_dir } = *self.ground;
        // A store that nothing was put into yet is not there.
        let work_dir = fathom_inspect::stack::nearest_existing(state_dir);
        for cell in cells.iter().filter(|cell| cell.impossible.is_none()) {
            let is_known = self.setups.iter().any(|(spec, _)| *spec == cell.setup);
            if is_known || cell.setup.is_empty() {
                continue;
            }
            self.look_at_given(&cell.setup);
            match fathom_setup::check(root, consent, protected, &work_dir, &cell.setup) {
                Ok(outline) => {
                    self.add_destroyed(&outline);
                    self.add_wasted(&outline);
                    self.setups.push((cell.setup.clone(), outline));
                }
                Err(error) => self.refuse(bench::of_setup(error)),
            }
        }
        if self.plan.target.is_none() {
            if self.setups.is_empty() && self.first.is_none() {
                let text = format!(
                    "plan '{}' has neither a target nor a setup: fathom lab PLAN TARGET",
                    self.plan.name
                );
                self.refuse(LabError::Usage(text));
            }
            self.outline.target = "what the setup makes".to_owned();
        }
    }

    /// The devices that a setup is built over stay when it is gone, with the settings that were made on them.
    fn look_at_given(&mut self, spec: &SetupSpec) {
        let root = self.ground.root;
        for path in given(spec) {
            if !self.looked_at.insert(path.clone()) {
                continue;
            }
            let Ok(stack) = fathom_inspect::resolve(root, &path) else { continue };
            let (devices, _) = fathom_knobs::scope::of_stack(root, &stack);
            self.given.extend(new_to(&self.given, devices));
        }
    }

    /// The layers that a cell measures: those below the plan's target, and below the places that its loads have of their own.
    fn stacks_of(&mut self, loads: &[Load]) -> Vec<Stack> {
        let mut stacks = self.stacks.clone();
        for target in loads::own_targets(loads) {
            let place = fathom_inspect::stack::nearest_existing(Path::new(target));
            match fathom_inspect::resolve(self.ground.root, &place) {
                Ok(stack) => stacks.push(stack),
                Err(error) => self.refuse(error.into()),
            }
        }
        stacks
    }

    /// What the loads of a cell overwrite, and room for what they work on.
    fn look_at_places(&mut self, cell: &Cell, loads: &[Load]) {
        let wishes = match places::wishes(self.ground, self.plan, cell, loads) {
            Ok(wishes) => wishes,
            Err(error) => return self.refuse(error),
        };
        for load in loads {
            if let LoadKind::Io(workload) = &load.kind
                && let Err(error) = control_group::check_place(self.ground.root, &workload.jobs)
            {
                self.refuse(error);
            }
        }
        for (target, wish) in &wishes {
            self.look_at_target_of(target, wish);
        }
        let files = places::files(self.ground, cell, loads, &wishes);
        let setup = self.setups.iter().find(|(spec, _)| *spec == cell.setup).map(|(_, o)| o);
        if let Err(error) = places::fit(self.ground, &files, setup) {
            self.refuse(error);
        }
        self.outline.test_file_bytes = self.outline.test_file_bytes.max(files.laid_out_bytes);
        self.files.insert(cell.index, files);
    }

    /// Read-ahead that is varied where nothing follows it.
    fn look_at_read_ahead(&mut self, cell: &Cell, loads: &[Load], stacks: &[Stack]) {
        let is_varied = |factor: &Factor| match &factor.sets {
            FactorKind::Knob { id } => id.split('@').next() == Some("block.read_ahead_kb"),
            _ => false,
        };
        if !self.plan.factors.iter().any(is_varied) {
            return;
        }
        let jobs: Vec<&Job> = loads
            .iter()
            .filter_map(|load| match &load.kind {
                LoadKind::Io(workload) => Some(&workload.jobs),
                _ => None,
            })
            .flatten()
            .collect();
        let is_only_io = loads.iter().all(|load| matches!(load.kind, LoadKind::Io(_)));
        let mounted =
            stacks.iter().filter_map(|stack| Some(study::holding_filesystem(stack)?.to_owned()));
        let built = cell.setup.filesystem.iter().map(|fs| fs.kind.clone());
        let kinds: Vec<String> = mounted.chain(built).collect();
        let notes = [
            (is_only_io && !jobs.is_empty() && jobs.iter().all(|job| job.direct))
                .then(|| study::READ_AHEAD_DIRECT.to_owned()),
            kinds.iter().find_map(|kind| study::read_ahead_elsewhere(kind)),
        ];
        for note in notes.into_iter().flatten() {
            if !self.outline.notes.contains(&note) {
                self.outline.notes.push(note);
            }
        }
    }

    /// What only root may do, before any of it fails.
    fn look_at_rights(&mut self) {
        if process::is_root() || !self.ground.root.is_live() {
            return;
        }
        let outline = &self.outline;
        let mut needs: Vec<String> = Vec::new();
        let writes = outline.cells.iter().flat_map(|cell| &cell.writes);
        for write in writes.filter(|write| write.privilege.is_some()) {
            let text = format!("setting {} of {}", write.knob, write.place);
            if !needs.contains(&text) {
                needs.push(text);
            }
        }
        let builds = outline.cells.iter().flat_map(|cell| &cell.builds);
        for act in outline.around.iter().chain(&outline.before_each).chain(builds) {
            if act.privilege.is_some() && !needs.contains(&act.text) {
                needs.push(act.text.clone());
            }
        }
        if let Some(first) = needs.first() {
            let (more, cure) = match needs.len() {
                1 if first == DROP_CACHES => (String::new(), ", or set drop_caches = false"),
                1 => (String::new(), ""),
                n => (format!(" and {} more", n - 1), ""),
            };
            self.refuse(LabError::Cell {
                reason: format!("run as root{cure}: it takes its rights for '{first}'{more}"),
                class: ErrorClass::Missing,
            });
        }
    }

    fn add_destroyed(&mut self, outline: &SetupOutline) {
        for device in &outline.destroyed {
            self.destroys(&device.path, &device.what, &device.id, device.is_consented);
        }
    }

    /// Devices that are not used whole: another one is smaller, or less was asked for.
    fn add_wasted(&mut self, outline: &SetupOutline) {
        for of in outline.capacity.iter().filter(|of| of.wasted_bytes > 0) {
            let [size, used, wasted] =
                [of.size_bytes, of.used_bytes, of.wasted_bytes].map(format_size);
            let note = format!("{} has {size}: {used} are used, {wasted} are wasted", of.device);
            if !self.outline.notes.contains(&note) {
                self.outline.notes.push(note);
            }
        }
    }

    /// A device on which everything is lost.
    fn destroys(&mut self, path: &Path, what: &str, id: &str, is_consented: bool) {
        let consent = if is_consented { "consented" } else { "needs consent" };
        let flag = format!("--destroy={}", fathom_base::shell::word(id));
        let line = format!("{} ({what}): everything on it; {consent}: {flag}", path.display());
        if self.outline.destroyed.contains(&line) {
            return;
        }
        self.outline.destroyed.push(line);
        if !is_consented {
            let reason = format!("{} would be overwritten; consent with {flag}", path.display());
            self.refuse(LabError::Cell { reason, class: ErrorClass::Refused });
        }
    }

    fn cell(&mut self, cell: &Cell) -> CellOutline {
        // What fathom does itself, such as writing a file of its own, needs no rights beside those for the commands around it.
        let root = |text: &String| act(text.clone(), !text.starts_with("# "));
        let setup =
            self.setups.iter().find(|(spec, _)| *spec == cell.setup).map(|(_, o)| o.clone());
        let capacity = setup.as_ref().and_then(|outline| outline.in_all);
        let builds = setup.map(|outline| outline.commands.iter().map(root).collect());
        let loads = loads::loads(&cell.workloads, self.plan.is_together).unwrap_or_else(|error| {
            self.refuse(error);
            Vec::new()
        });
        let stacks = self.stacks_of(&loads);
        self.look_at_places(cell, &loads);
        self.look_at_read_ahead(cell, &loads, &stacks);
        self.look_at_weights(cell, &loads, &stacks);
        CellOutline {
            index: cell.index,
            name: cell.name(),
            builds: builds.unwrap_or_default(),
            capacity,
            writes: self.writes(cell, &stacks),
            workloads: loads.iter().map(words).collect(),
            companion: cell.companion.as_deref().map(companion::words),
            trial_ns: trial_ns(self.plan, cell),
        }
    }

    /// Each setting with its value now; below a setup that is still to be built nothing is known of them.
    fn writes(&mut self, cell: &Cell, stacks: &[Stack]) -> Vec<Write> {
        let root = || Some("root".to_owned());
        let own = &self.plan.own_knobs;
        let old = |setting: &fathom_knobs::Setting| match self.own_now.get(&setting.knob) {
            Some(now) => now.clone(),
            None => fathom_knobs::current(self.ground.root, setting),
        };
        let known = |setting: &fathom_knobs::Setting| {
            let old = old(setting);
            // What is so already is not written.
            let is_same = |now: &str| fathom_knobs::is_as_asked(&setting.knob, &setting.value, now);
            let is_so = old.as_deref().is_some_and(is_same);
            let is_own = matches!(setting.place, KnobPlace::Own { .. });
            Write {
                knob: setting.knob.clone(),
                place: setting.place.name(),
                old,
                new: setting.value.clone(),
                privilege: (!is_own && !is_so).then(root).flatten(),
            }
        };
        let (mut devices, mounts) = fathom_knobs::scope::of_stacks(self.ground.root, stacks);
        if !cell.setup.is_empty() {
            devices.extend(new_to(&devices, self.given.clone()));
            let mut writes = Vec::new();
            let mut given = Vec::new();
            for (knob, value) in &cell.knobs {
                let one = [(knob.clone(), value.clone())].into();
                let scope = Scope { devices: &devices, mounts: &[], own };
                // What only the built devices have goes with them; what is of the machine is known now.
                let found = fathom_knobs::resolve(self.ground.root, &scope, &one);
                let found = found.unwrap_or_default();
                let is_of_machine = |setting: &fathom_knobs::Setting| {
                    matches!(setting.place, KnobPlace::Machine | KnobPlace::Own { .. })
                };
                if !found.is_empty() && found.iter().all(is_of_machine) {
                    writes.extend(found.iter().map(known));
                } else {
                    writes.push(Write {
                        knob: knob.clone(),
                        place: "what is built".to_owned(),
                        old: None,
                        new: value.clone(),
                        privilege: root(),
                    });
                }
                given.extend(found);
            }
            self.warn(&given);
            return writes;
        }
        let scope = Scope { devices: &devices, mounts: &mounts, own };
        match fathom_knobs::resolve(self.ground.root, &scope, &cell.knobs) {
            Ok(settings) => {
                let writes: Vec<Write> = settings.iter().map(known).collect();
                self.warn(&settings);
                let written = settings.iter().zip(&writes).filter(|(_, w)| w.privilege.is_some());
                let mut written = written.map(|(setting, _)| setting);
                if let Some(reason) = written.find_map(|s| read_only(self.ground.root, s)) {
                    self.refuse(LabError::Cell { reason, class: ErrorClass::Missing });
                }
                writes
            }
            Err(error) => {
                let error = self.at_null(error, stacks);
                self.refuse(bench::of_knob(error));
                Vec::new()
            }
        }
    }

    /// Says what of these settings cannot be put back exactly.
    fn warn(&mut self, settings: &[fathom_knobs::Setting]) {
        for text in fathom_knobs::unrestorable(self.ground.root, settings) {
            if !self.outline.unrestorable.contains(&text) {
                self.outline.unrestorable.push(text);
            }
        }
    }

    fn add_acts(&mut self) {
        let prepare = &self.plan.prepare;
        let (mut around, mut refused): (Vec<Act>, Option<LabError>) = (Vec::new(), None);
        if prepare.swap_off {
            let areas = swap::areas(self.ground.root);
            let floor = prepare.memory_floor_bytes;
            refused = machine::fits_in_memory(self.ground.root, &areas, floor).err();
            for area in &areas {
                around.push(act(format!("swapoff {}", area.path.display()), true));
                if let Err(why) = swap::discard(self.ground.root, &area.path) {
                    let text =
                        format!("swap on {}: {why}; it comes back without", area.path.display());
                    self.outline.unrestorable.push(text);
                }
            }
        }
        if let Some(bytes) = prepare.memory_limit_bytes {
            refused = memory_group::check(self.ground.root).err().or(refused);
            around.push(act(
                format!(
                    "a control group with {} of memory for all that is measured",
                    format_size(bytes)
                ),
                true,
            ));
        }
        refused = stop_acts(&prepare.stop_services, &mut around).or(refused);
        if let Some(governor) = &prepare.governor {
            match governor_act(self.ground.root, governor) {
                Ok(act) => around.push(act),
                Err(error) => refused = Some(error),
            }
        }
        let mut each: Vec<Act> = Vec::new();
        if prepare.remounts {
            each.push(act("unmount and mount the filesystem anew".to_owned(), true));
        } else if prepare.drops_caches {
            each.push(act(DROP_CACHES.to_owned(), true));
        } else {
            each.push(act("sync".to_owned(), false));
        }
        if prepare.settle_ns > 0 {
            each.push(act(format!("wait {}", exact(prepare.settle_ns)), false));
        }
        if prepare.quiet_ns > 0 {
            let (quiet, wait) = (exact(prepare.quiet_ns), exact(prepare.quiet_wait_ns));
            each.push(act(
                format!(
                    "see that the devices are quiet for {quiet} (at most {wait} until they are)"
                ),
                false,
            ));
        }
        if let Some(floor) = prepare.memory_floor_bytes {
            each.push(act(format!("see that {} of memory are free", format_size(floor)), false));
        }
        (self.outline.around, self.outline.before_each) = (around, each);
        if let Some(error) = refused {
            self.refuse(error);
        }
    }

    /// Bytes of test files that are written before something is measured, in all blocks: they stay from one trial to the next where that
    /// wants the same of them and nothing was built anew.
    fn laid_out_bytes(&self, cells: &[Cell], seed: u64) -> u64 {
        let mut all = 0_u64;
        let mut before: Option<&Cell> = None;
        for slot in fathom_plan::order(self.plan, cells, seed, 0..self.plan.design.blocks) {
            let Some(cell) = cells.iter().find(|cell| cell.index == slot.cell) else { continue };
            let files = |cell: &Cell| self.files.get(&cell.index);
            let is_same = before.is_some_and(|b| b.setup == cell.setup && files(b) == files(cell));
            if !is_same {
                all = all.saturating_add(files(cell).map_or(0, |files| files.laid_out_bytes));
            }
            before = Some(cell);
        }
        all
    }

    fn add_cost(&mut self, cells: &[Cell]) {
        let seed = self.plan.design.seed.unwrap_or(0);
        let of_setup =
            |spec: &SetupSpec| self.setups.iter().find(|(s, _)| s == spec).map(|(_, o)| o);
        let build_ns = |spec: &SetupSpec| match of_setup(spec) {
            Some(o) => o.sync_ns.unwrap_or(0) + writing_ns(o.written_bytes) + 2_000_000_000,
            None => 0,
        };
        let build_bytes = |spec: &SetupSpec| of_setup(spec).map_or(0, |o| o.written_bytes);
        let estimate = Estimate {
            trial_ns: &|cell| trial_ns(self.plan, cell),
            build_ns: &build_ns,
            trial_written_bytes: &|cell| trial_bytes(self.plan, cell),
            build_written_bytes: &build_bytes,
        };
        let mut cost = fathom_plan::cost(self.plan, cells, seed, &estimate);
        // What is built anew for a further level has none of them.
        let built = cells.iter().filter(|cell| !cell.setup.is_empty());
        let of_built = built.filter_map(|cell| self.files.get(&cell.index));
        let of_further = of_built.map(|files| files.laid_out_bytes).max().unwrap_or(0);
        let files_bytes = of_further
            .saturating_mul(cost.further_trials.into())
            .saturating_add(self.laid_out_bytes(cells, seed));
        cost.written_bytes = cost.written_bytes.saturating_add(files_bytes);
        cost.time_ns = cost.time_ns.saturating_add(writing_ns(files_bytes));
        let checked = cost.check(self.plan);
        let outline = &mut self.outline;
        outline.trials = cost.trials;
        outline.further_levels = cost.further_levels;
        outline.further_trials = cost.further_trials;
        outline.time_ns = cost.time_ns;
        outline.written_bytes = Some(cost.written_bytes);
        outline.boots_in_all = (cost.boots > 0).then_some(cost.boots + 1);
        outline.has_commands = cells.iter().any(|cell| has_commands(self.plan, cell, false));
        outline.has_untimed = cells.iter().any(|cell| has_commands(self.plan, cell, true));
        outline.has_test_files = cells.iter().any(|cell| has_test_files(self.plan, cell));
        outline.first_block = fathom_plan::order(self.plan, cells, seed, 0..1);
        if let Err(error) = checked {
            self.refuse(usage(error));
        }
    }
}

/// A step, which may need the rights of root.
/// Why a setting cannot be written to where its file lies; none where it can.
fn read_only(root: &SysRoot, setting: &fathom_knobs::Setting) -> Option<String> {
    let at = fathom_knobs::read_only_at(root, setting)?;
    let (knob, place, at) = (&setting.knob, setting.place.name(), at.display());
    Some(format!(
        "{knob} of {place} cannot be set: {at} is mounted read-only here; mount -o remount,rw {at}"
    ))
}

fn act(text: String, is_root: bool) -> Act {
    Act { text, privilege: is_root.then(|| "root".to_owned()) }
}

/// The services that are stopped; why they cannot be.
fn stop_acts(units: &[String], around: &mut Vec<Act>) -> Option<LabError> {
    let mut refused = None;
    for unit in units {
        match machine::is_running(unit) {
            Ok(true) => {
                around.push(act(format!("systemctl stop {unit}"), true));
                refused = refused.or(machine::check_alone(unit, units).err());
            }
            Ok(false) => around.push(act(format!("{unit} does not run: nothing to stop"), false)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    refused
}

/// How long so many bytes take to be written.
fn writing_ns(bytes: u64) -> u64 {
    (bytes as f64 / RATE_ASSUMED as f64 * 1e9) as u64
}

/// Those devices that are not known yet.
fn new_to(known: &[ScopeDevice], devices: Vec<ScopeDevice>) -> Vec<ScopeDevice> {
    let is_new = |device: &ScopeDevice| known.iter().all(|other| other.name != device.name);
    devices.into_iter().filter(is_new).collect()
}

/// A cell that cannot exist; none for one that can.
pub(crate) fn impossible(cell: &Cell) -> Option<ImpossibleCell> {
    let reason = cell.impossible.clone()?;
    Some(ImpossibleCell { index: cell.index, name: cell.name(), reason })
}

fn empty(plan: &Plan) -> Outline {
    Outline {
        name: plan.name.clone(),
        question: plan.question.clone(),
        target: plan.target.clone().unwrap_or_default(),
        cells: Vec::new(),
        impossible: Vec::new(),
        first_block: Vec::new(),
        blocks: plan.design.blocks,
        trials: 0,
        further_levels: 0,
        further_trials: 0,
        around: Vec::new(),
        before_each: Vec::new(),
        destroyed: Vec::new(),
        unrestorable: Vec::new(),
        notes: Vec::new(),
        refusals: Vec::new(),
        time_ns: 0,
        time_ns_max: plan.budget.time_ns,
        written_bytes: None,
        has_test_files: false,
        test_file_bytes: 0,
        has_commands: false,
        has_untimed: false,
        written_bytes_max: plan.budget.written_bytes,
        boots: Vec::new(),
        boots_in_all: None,
    }
}

fn words(load: &Load) -> String {
    match &load.kind {
        LoadKind::Program(program) => {
            let takes = program.takes_ns.map(|(least, most)| match exact(least) {
                text if least == most => format!(" ({text})"),
                text => format!(" ({text} to {})", exact(most)),
            });
            format!("{}: {}{}", load.label, program.command, takes.unwrap_or_default())
        }
        LoadKind::Server(server) => format!("{}: {}", load.label, server.words()),
        LoadKind::Io(workload) => {
            let jobs: Vec<String> = workload.jobs.iter().map(job_words).collect();
            format!("{}: {}", load.label, jobs.join("; "))
        }
    }
}

/// Whole seconds, and what is shorter as it is.
fn exact(ns: u64) -> String {
    if ns < 1_000_000_000 { format_ns(ns) } else { format_duration(ns) }
}

fn job_words(job: &Job) -> String {
    let access = format!("{:?}", job.access).to_lowercase();
    let what = match (job.reads(), job.writes()) {
        (true, true) => format!("reads and writes ({:.0} % writes)", job.write_fraction * 100.0),
        (false, true) => "writes".to_owned(),
        _ => "reads".to_owned(),
    };
    let mut text = format!(
        "{}: {access} {what} of {}, {} in flight",
        job.name,
        job.block_size_text(),
        job.concurrency()
    );
    if let Some(duration) = job.duration_ns {
        text += &format!(", {}", exact(duration + job.warmup_ns));
    }
    text
}

/// How long one trial of a cell takes by what the plan says.
pub(crate) fn trial_ns(plan: &Plan, cell: &Cell) -> u64 {
    let loads = loads::loads(&cell.workloads, plan.is_together).unwrap_or_default();
    let around = plan.prepare.settle_ns + plan.prepare.quiet_ns + AROUND_NS;
    let tree_ns = |load: &Load| match &load.kind {
        LoadKind::Server(server) => {
            writing_ns(server.tree_bytes(!cell.setup.is_empty()) + server.first_bytes())
        }
        _ => 0,
    };
    loads.iter().map(|load| load.planned_ns() + tree_ns(load) + around).sum()
}

/// True when a load is a program; of those that may take as long as they like, where that is asked.
fn has_commands(plan: &Plan, cell: &Cell, is_untimed: bool) -> bool {
    let loads = loads::loads(&cell.workloads, plan.is_together).unwrap_or_default();
    loads.iter().any(|load| match &load.kind {
        LoadKind::Program(program) => !(is_untimed && program.takes_ns.is_some()),
        _ => false,
    })
}

/// True when a cell's loads work on files that fathom makes: in a directory, or under a name that is still free.
fn has_test_files(plan: &Plan, cell: &Cell) -> bool {
    let is_file = |target: &str| {
        let path = Path::new(target);
        !target.starts_with("null:") && (path.is_dir() || !path.exists())
    };
    let is_place = match &plan.target {
        Some(target) if cell.setup.is_empty() => is_file(target),
        _ => cell.setup.filesystem.is_some(),
    };
    let loads = loads::loads(&cell.workloads, plan.is_together).unwrap_or_default();
    loads.iter().any(|load| match &load.kind {
        LoadKind::Io(workload) => {
            workload.jobs.iter().any(|job| job.target.as_deref().map_or(is_place, is_file))
        }
        // Of a file server everything is in the sum.
        LoadKind::Program(_) | LoadKind::Server(_) => false,
    })
}

/// How much one trial writes: by the amounts that its jobs name, and for jobs that run for a time, by a rate that is assumed.
fn trial_bytes(plan: &Plan, cell: &Cell) -> u64 {
    let loads = loads::loads(&cell.workloads, plan.is_together).unwrap_or_default();
    let of_job = |job: &Job| {
        let share = if job.access == Access::Append { 1.0 } else { job.write_fraction };
        let seconds = (job.duration_ns.unwrap_or(0) + job.warmup_ns) as f64 / 1e9;
        let by_time = (seconds * RATE_ASSUMED as f64) as u64;
        (job.amount_bytes.unwrap_or(by_time) as f64 * share) as u64
    };
    let of_load = |load: &Load| match &load.kind {
        LoadKind::Io(workload) => workload.jobs.iter().map(of_job).sum(),
        LoadKind::Program(_) => 0,
        LoadKind::Server(server) => {
            let seconds = server.writing_ns() as f64 / 1e9;
            let first = server.tree_bytes(!cell.setup.is_empty()) + server.first_bytes();
            (seconds * RATE_ASSUMED as f64) as u64 + first
        }
    };
    loads.iter().map(of_load).sum()
}
