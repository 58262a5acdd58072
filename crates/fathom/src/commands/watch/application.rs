//! The application that is watched: started, followed to its end, ended with all that it started.

mod place;
mod prepared;
mod printed;

use crate::args::Common;
use crate::args::watch::Watch;
use crate::commands::{CommandError, standing};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::shell;
use fathom_base::units::parse_duration_ns;
use fathom_lab::watched;
use fathom_model::watch::{ApplicationRecord, DeviceCounts, Sample};
use fathom_observe::sample::Family;
use fathom_observe::sample::layers::{self, Layer};
use fathom_plan::figure::Figure;
use fathom_sys::child::{self, Ended, Output as Streams, Program};
use fathom_sys::family::Usage;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{clock, family, pressure, process, program_marks};
use prepared::Prepared;
use printed::Printed;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// An application and what is known of it.
pub struct Application {
    words: Vec<OsString>,
    name: String,
    dir: PathBuf,
    /// The words for the devices that it is watched on.
    pub devices: Vec<String>,
    figures: Vec<(String, Figure)>,
    timeout_ns: Option<u64>,
    recipe: Option<String>,
    /// By it, all that it starts is known.
    mark: String,
    root: SysRoot,
    running: Option<Running>,
    prepared: Option<Prepared>,
    devices_total: BTreeMap<String, DeviceCounts>,
    dirty_before_bytes: u64,
}

/// One that runs.
struct Running {
    program: Program,
    family: Family,
    printed: Printed,
    begun_ns: u64,
    over_ns: Option<u64>,
    /// What one that has ended did is told to this user.
    sees_ended: bool,
    /// It has taken longer than it may.
    is_late: bool,
}

impl Application {
    /// What the command line asks for; none for a watch alone.
    pub fn of(root: &SysRoot, output: Output, args: &Watch) -> Result<Option<Self>, CommandError> {
        let usage = |text: String| CommandError::usage(output, &text);
        let mut figures: Vec<(String, Figure)> = Vec::new();
        for text in &args.figure {
            let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, pattern) = pair.map(|(n, p)| (n.to_owned(), p)).ok_or_else(|| {
                usage(format!("--figure={text}: write NAME=PATTERN, such as 'tps=tps = {{}}'"))
            })?;
            if figures.iter().any(|(known, _)| *known == name) {
                return Err(usage(format!(
                    "--figure={text}: there is a figure {name} already; give it another name"
                )));
            }
            let figure = Figure::parse(pattern)
                .map_err(|error| usage(format!("--figure={text}: {error}")))?;
            figures.push((name, figure));
        }
        let timeout = args.timeout.as_ref().map(|text| match parse_duration_ns(text) {
            Ok(0) => Err(usage("--timeout=0: it could do nothing in that time".to_owned())),
            other => other.map_err(|error| usage(format!("--timeout={text}: {error}"))),
        });
        let timeout_ns = timeout.transpose()?;
        let is_alone = args.command.is_empty() && args.recipe.is_none();
        if is_alone && figures.is_empty() && timeout_ns.is_none() {
            return Ok(None);
        }
        if is_alone {
            let text =
                "--figure and --timeout are for a command: fathom watch --figure=... -- COMMAND";
            return Err(usage(text.to_owned()));
        }
        session::end_programs_of_the_dead(root, output);
        // What it leaves behind when it ends early belongs to it all the same.
        family::adopt_orphans().map_err(|error| {
            CommandError::report_as(output, &format!("prctl: {error}"), Exit::Missing)
        })?;
        Ok(Some(Self {
            words: args.command.clone(),
            name: args.command.iter().map(shell::word).collect::<Vec<_>>().join(" "),
            dir: PathBuf::from("."),
            devices: args.devices.clone(),
            figures,
            timeout_ns,
            recipe: args.recipe.clone(),
            mark: program_marks::new_mark(root, session::system_seed()),
            root: root.clone(),
            running: None,
            prepared: None,
            devices_total: BTreeMap::new(),
            dirty_before_bytes: 0,
        }))
    }

    /// Does what comes before a recipe is watched.
    pub fn prepare(
        &mut self,
        common: &Common,
        output: Output,
        stop: &StopFlag,
    ) -> Result<(), CommandError> {
        let Some(text) = self.recipe.take() else { return Ok(()) };
        let asked = (self.devices.as_slice(), text.as_str());
        let prepared = Prepared::of(&self.root, common, output, stop, asked, &self.mark)?;
        let recipe = prepared.recipe;
        self.words = prepared.words(recipe.run);
        self.name = prepared.name();
        self.dir = prepared.path().to_owned();
        for (name, figure) in recipe.figures {
            self.figures
                .extend(Figure::parse(figure).ok().map(|figure| ((*name).to_owned(), figure)));
        }
        let words = prepared.words(recipe.prepare);
        self.prepared = Some(prepared);
        output.note(&format!("Preparing {}: {}", recipe.name, recipe.title));
        let done = self.run_to_end(&words, stop);
        if stop.is_set() {
            self.take_down();
            return Err(CommandError::from(Exit::Interrupted));
        }
        if let Err(text) = done {
            self.take_down();
            let text = format!("preparing {}: {text}", recipe.name);
            return Err(CommandError::report_as(output, &text, Exit::Missing));
        }
        Ok(())
    }

    /// Runs one of a recipe's scripts to its end.
    fn run_to_end(&self, words: &[OsString], stop: &StopFlag) -> Result<(), String> {
        let (printed, stdout, stderr) = Printed::new().map_err(|error| error.to_string())?;
        let streams = Streams { stdin: None, stdout: Some(stdout), stderr: Some(stderr) };
        let mut program = Program::start(&self.root, words, &self.dir, streams, &self.mark)
            .map_err(|error| error.to_string())?;
        let ended = program.wait(|| !stop.is_set());
        match ended {
            Ok(Some(Ended::Exit(0))) => Ok(()),
            // A server that was started stays, in the group or out of it.
            _ => {
                program.end();
                let text = printed.text();
                let last = text.lines().rev().take(5).collect::<Vec<_>>();
                Err(last.into_iter().rev().collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// Ends what it has started, and removes what a recipe has made. A server of a recipe is ended in its own way first: asked by
    /// a signal it would write all that it has in memory to the target.
    fn take_down(&mut self) {
        if let Some(finish) = self.prepared.as_ref().map(|prepared| prepared.recipe.finish)
            && !finish.is_empty()
        {
            let words = self.prepared.as_ref().map(|prepared| prepared.words(finish));
            // Whatever is left is ended without being asked.
            self.run_to_end(&words.unwrap_or_default(), &StopFlag::default()).ok();
        }
        let _ = child::end_left_behind(&self.root, 0, &self.mark);
        if let Some(prepared) = self.prepared.take() {
            prepared.remove();
        }
    }

    /// Where it works, for the head of the stored run.
    pub fn target(&self) -> String {
        let here = self.dir.display().to_string();
        standing::absolute_target(&self.root, self.devices.first().unwrap_or(&here))
    }

    /// Starts it.
    pub fn start(&mut self, root: &SysRoot, output: Output) -> Result<(), CommandError> {
        let program = self.words.first().cloned().unwrap_or_default();
        let failed = |error: std::io::Error| CommandError::not_started(output, &program, &error);
        self.dirty_before_bytes = pressure::pages(root).dirty_bytes;
        let (printed, stdout, stderr) = Printed::new().map_err(failed)?;
        let stdin = self.prepared.is_none().then(child::own_stdin).flatten();
        let streams = Streams { stdin, stdout: Some(stdout), stderr: Some(stderr) };
        let own = Family::new(root);
        let begun_ns = clock::monotonic_ns();
        let program =
            Program::start(root, &self.words, &self.dir, streams, &self.mark).map_err(failed)?;
        let family = own.led_by(program.pid);
        let sees_ended = process::is_root();
        let (over_ns, is_late) = (None, false);
        self.running =
            Some(Running { program, family, printed, begun_ns, over_ns, sees_ended, is_late });
        Ok(())
    }

    /// Its processes.
    pub fn family(&mut self) -> Option<&mut Family> {
        self.running.as_mut().map(|running| &mut running.family)
    }

    /// True when it has ended, or has taken longer than it may.
    pub fn is_over(&mut self) -> bool {
        let timeout_ns = self.timeout_ns;
        let Some(running) = &mut self.running else { return true };
        let now_ns = clock::monotonic_ns();
        let is_late = timeout_ns.is_some_and(|limit_ns| now_ns - running.begun_ns >= limit_ns);
        let has_ended = running.program.has_ended();
        running.is_late |= is_late && !has_ended;
        let is_over = running.is_late || has_ended;
        if is_over {
            running.over_ns.get_or_insert(now_ns);
        } else if !running.sees_ended {
            running.family.glance();
        }
        is_over
    }

    /// Notes what devices did in an interval: those that no other watched one stands on, so that nothing counts twice.
    pub fn push(&mut self, sample: &Sample, layers: &[Layer]) {
        let tops = layers::uppermost(layers);
        for device in sample.devices.iter().filter(|device| tops.contains(device.name.as_str())) {
            let total = self.devices_total.entry(device.name.clone()).or_default();
            *total = total.plus(&device.counts);
        }
    }

    /// Ends it, if it runs, with all that it started, and says what it came to.
    pub fn end(mut self, stop: &StopFlag) -> ApplicationRecord {
        let mut record = ApplicationRecord {
            command: self.name.clone(),
            devices: std::mem::take(&mut self.devices_total),
            dirty_before_bytes: self.dirty_before_bytes,
            dirty_bytes: pressure::pages(&self.root).dirty_bytes,
            ..ApplicationRecord::default()
        };
        let Some(mut running) = self.running.take() else {
            self.take_down();
            return record;
        };
        let now_ns = running.over_ns.unwrap_or_else(clock::monotonic_ns);
        record.took_ns = now_ns - running.begun_ns;
        let mut usage = running.family.look();
        record.is_cut_off = running.family.is_cut_off();
        let has_ended = running.program.has_ended();
        match running.program.ended() {
            Ok(Some(Ended::Exit(status))) if has_ended => record.exit_status = Some(status),
            Ok(Some(Ended::Signal(signal))) if has_ended => record.signal = Some(signal),
            _ if running.is_late && !stop.is_set() => record.timed_out_ns = self.timeout_ns,
            _ => {}
        }
        if record.is_cut_off {
            usage = running.family.at_the_end();
        }
        record.total = Family::between(&Usage::default(), &usage, record.took_ns);
        record.total.processes = running.family.processes();
        let is_by_itself = record.exit_status.is_some() || record.signal.is_some();
        // The server of a recipe is ended in its own way.
        if is_by_itself && self.prepared.is_none() {
            record.outlived = child::carriers(&self.root, &self.mark).len() as u64;
        }
        running.program.end();
        let printed = running.printed.text();
        for (name, figure) in &self.figures {
            match watched::pick(figure, &printed) {
                Ok(number) => {
                    record.figures.insert(name.clone(), number);
                }
                Err(cause) => {
                    record.missing.push(format!("{name}: {cause}{}", printed::looked_at(&printed)));
                }
            }
        }
        record.output = printed::end_of(printed);
        // Also those that left the group, such as daemons.
        self.take_down();
        record
    }
}

impl Drop for Application {
    /// Of one that was never started, or not followed to its end.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.program.end();
        }
        self.take_down();
    }
}
