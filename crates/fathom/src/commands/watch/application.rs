//! The application that is watched: started, followed to its end, ended with all that it started.

mod printed;

use crate::args::Common;
use crate::args::watch::Watch;
use crate::commands::{CommandError, key_value};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::shell;
use fathom_base::units::parse_duration_ns;
use fathom_lab::watched;
use fathom_model::watch::{ApplicationRecord, DeviceCounts, Sample};
use fathom_observe::sample::Family;
use fathom_plan::figure::Figure;
use fathom_sys::child::{self, Ended, Output as Streams, Program};
use fathom_sys::family::Usage;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{clock, family, pressure};
use printed::Printed;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// An application and what is known of it.
pub struct Application {
    words: Vec<OsString>,
    name: String,
    dir: PathBuf,
    /// The words for the devices that it is watched on.
    pub devices: Vec<String>,
    figures: Vec<(String, Figure)>,
    timeout_ns: Option<u64>,
    /// By it, all that it starts is known.
    mark: String,
    root: SysRoot,
    running: Option<Running>,
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
}

impl Application {
    /// What the command line asks for; none for a watch alone.
    pub fn of(common: &Common, output: Output, args: &Watch) -> Result<Option<Self>, CommandError> {
        let _ = common;
        let usage = |text: String| CommandError::usage(output, &text);
        let mut figures = Vec::new();
        for text in &args.figure {
            let (name, pattern) = key_value(output, text)?;
            let figure = Figure::parse(&pattern)
                .map_err(|error| usage(format!("--figure={text}: {error}")))?;
            figures.push((name, figure));
        }
        let timeout_ns = match &args.timeout {
            Some(text) => Some(
                parse_duration_ns(text)
                    .map_err(|error| usage(format!("--timeout={text}: {error}")))?,
            ),
            None => None,
        };
        if args.command.is_empty() {
            if figures.is_empty() && timeout_ns.is_none() {
                return Ok(None);
            }
            let text =
                "--figure and --timeout are for a command: fathom watch --figure=... -- COMMAND";
            return Err(usage(text.to_owned()));
        }
        let name = args.command.iter().map(shell::word).collect::<Vec<_>>().join(" ");
        Ok(Some(Self {
            words: args.command.clone(),
            name,
            dir: PathBuf::from("."),
            devices: args.devices.clone(),
            figures,
            timeout_ns,
            mark: format!("watch {:016x}", session::system_seed()),
            root: SysRoot::live(),
            running: None,
            devices_total: BTreeMap::new(),
            dirty_before_bytes: 0,
        }))
    }

    /// Where it works, for the head of the stored run.
    pub fn target(&self) -> String {
        let first = self.devices.first().map_or(self.dir.as_path(), Path::new);
        session::absolute_target(&first.display().to_string())
    }

    /// Starts it.
    pub fn start(&mut self, root: &SysRoot, output: Output) -> Result<(), CommandError> {
        let program = self.words.first().cloned().unwrap_or_default();
        let failed = |error: std::io::Error| {
            let program = program.display();
            let (text, exit) = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    (format!("'{program}': there is no such program in $PATH"), Exit::Usage)
                }
                std::io::ErrorKind::PermissionDenied => (
                    format!("'{program}' cannot be started: {error}; is it executable?"),
                    Exit::Usage,
                ),
                _ => (format!("'{program}' cannot be started: {error}"), Exit::Missing),
            };
            CommandError::report_as(output, &text, exit)
        };
        // What it leaves behind when it ends early belongs to it all the same.
        family::adopt_orphans().map_err(failed)?;
        self.dirty_before_bytes = pressure::pages(root).dirty_bytes;
        let (printed, stdout, stderr) = Printed::new().map_err(failed)?;
        let streams = Streams { stdout: Some(stdout), stderr: Some(stderr) };
        let begun_ns = clock::monotonic_ns();
        let program =
            Program::start(root, &self.words, &self.dir, streams, &self.mark).map_err(failed)?;
        let family = Family::new(root, program.pid);
        self.running = Some(Running { program, family, printed, begun_ns, over_ns: None });
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
        let is_over = is_late || running.program.has_ended();
        if is_over {
            running.over_ns.get_or_insert(now_ns);
        }
        is_over
    }

    /// Notes what devices did in an interval.
    pub fn push(&mut self, sample: &Sample) {
        for device in sample.devices.iter().filter(|device| device.depth == 0) {
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
        let Some(mut running) = self.running.take() else { return record };
        let now_ns = running.over_ns.unwrap_or_else(clock::monotonic_ns);
        record.took_ns = now_ns - running.begun_ns;
        let usage = running.family.look();
        record.total = Family::between(&Usage::default(), &usage, record.took_ns);
        record.total.processes = running.family.processes();
        let has_ended = running.program.has_ended();
        match running.program.ended() {
            Ok(Some(Ended::Exit(status))) if has_ended => record.exit_status = Some(status),
            Ok(Some(Ended::Signal(signal))) if has_ended => record.signal = Some(signal),
            _ if !stop.is_set() => record.timed_out_ns = self.timeout_ns,
            _ => {}
        }
        running.program.end();
        // Those that left the group, such as daemons.
        let _ = child::end_left_behind(&self.root, 0, &self.mark);
        let printed = running.printed.text();
        for (name, figure) in &self.figures {
            match watched::pick(figure, &printed) {
                Ok(number) => {
                    record.figures.insert(name.clone(), number);
                }
                Err(cause) => record.missing.push(format!("{name}: {cause}")),
            }
        }
        record.output = printed::end_of(printed);
        record
    }
}
