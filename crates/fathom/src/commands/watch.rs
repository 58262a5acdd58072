//! `fathom watch`.

mod application;
mod recipe;
mod recording;
pub mod stored;
mod target;

use super::{CommandError, CommandResult};
use crate::args::Common;
use crate::args::watch::Watch;
use crate::exit::Exit;
use crate::output::Output;
use application::Application;
use fathom_base::units::parse_duration_ns;
use fathom_model::watch::Sample;
use fathom_observe::sample::{Listener, Moment, Watcher};
use fathom_report::watch::{Form, sample_text};
use fathom_sys::clock;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::terminal;
use jiff::Timestamp;
use recording::Recording;
use std::time::Duration;

/// Shows what devices do until it is ended, or as long as a command runs.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Watch) -> CommandResult {
    let usage = |text: String| CommandError::usage(output, &text);
    let interval_ns = parse_duration_ns(&args.interval)
        .ok()
        .filter(|ns| (10_000_000..=3_600_000_000_000).contains(ns))
        .ok_or_else(|| usage(format!("--interval={}: from 10ms to 1h", args.interval)))?;
    if args.count.is_some() && !args.command.is_empty() {
        let text = "--count is for a watch without an end; with a command, --timeout says how long it may take";
        return Err(usage(text.to_owned()));
    }
    if args.count == Some(0) {
        return Err(usage("--count=0: nothing would be shown; leave it out for no end".to_owned()));
    }
    let root = SysRoot::live();
    let mut application = Application::of(&root, output, stop, args)?;
    let devices = application.as_ref().map_or(&args.devices, |application| &application.devices);
    let choice = target::choice(&root, devices, application.is_some())
        .map_err(|text| CommandError::usage(output, &text))?;
    let mut listener = match &args.listen {
        Some(address) => Some(listen(output, address)?),
        None => None,
    };
    let is_recorded = args.record || application.is_some();
    let name = application.as_ref().map_or_else(|| devices.join(" "), Application::target);
    let mut recording = match is_recorded {
        true => Some(Recording::begin(
            common,
            output,
            &root,
            args.label.as_deref(),
            &name,
            interval_ns,
        )?),
        false => None,
    };
    let begun = now();
    let mut watcher = Watcher::new(&root, choice, begun, None);
    if let Some(application) = &mut application {
        application.start(&root, output)?;
    }
    let mut screen = Screen { output, args, form: None };
    let mut shown = 0u64;
    let goes_on = |shown: u64| args.count.is_none_or(|count| shown < count) && !stop.is_set();
    while goes_on(shown) {
        let due_ns = begun.monotonic_ns + next_tick(begun.monotonic_ns, interval_ns);
        let is_over = wait(due_ns, stop, application.as_mut());
        if stop.is_set() && application.is_none() && recording.is_none() {
            break;
        }
        let family = application.as_mut().and_then(Application::family);
        let sample = watcher.look(now(), family);
        if let Some(listener) = &mut listener {
            listener.show(&sample);
        }
        if let Some(recording) = &mut recording {
            recording.push(&sample);
        }
        if let Some(application) = &mut application {
            application.push(&sample);
        }
        if !screen.show(&watcher, &sample)? {
            break;
        }
        shown += 1;
        if is_over {
            break;
        }
    }
    finish(output, stop, application, recording)
}

/// Ends the application, stores what is left, and says what it came to.
fn finish(
    output: Output,
    stop: &StopFlag,
    application: Option<Application>,
    recording: Option<Recording>,
) -> CommandResult {
    let ended = application.map(|application| application.end(stop));
    let interrupted = if stop.is_set() && ended.is_some() { Exit::Interrupted } else { Exit::Done };
    match recording {
        Some(recording) => recording.finish(output, stop, ended).map(|exit| exit.max(interrupted)),
        None => {
            output.json("result", &serde_json::json!({ "exit_code": interrupted.code() }))?;
            Ok(interrupted)
        }
    }
}

fn now() -> Moment {
    Moment { monotonic_ns: clock::monotonic_ns(), unix_ns: clock::unix_ns() }
}

/// The next multiple of the interval since the start: what was missed (the machine slept) is not caught up with.
fn next_tick(begun_ns: u64, interval_ns: u64) -> u64 {
    (clock::monotonic_ns().saturating_sub(begun_ns) / interval_ns + 1) * interval_ns
}

/// Waits until then; true when the application has ended before.
fn wait(due_ns: u64, stop: &StopFlag, mut application: Option<&mut Application>) -> bool {
    // An application is looked at often, for its end; a signal can wait.
    let slice_ns = if application.is_some() { 5_000_000 } else { 100_000_000 };
    loop {
        if application.as_mut().is_some_and(|application| application.is_over()) {
            return true;
        }
        let left_ns = due_ns.saturating_sub(clock::monotonic_ns());
        if left_ns == 0 || stop.is_set() {
            return false;
        }
        std::thread::sleep(Duration::from_nanos(left_ns.min(slice_ns)));
    }
}

fn listen(output: Output, address: &str) -> Result<Listener, CommandError> {
    let listener = Listener::start(address).map_err(|error| {
        let text = format!("--listen={address}: {error}");
        let exit = match error.kind() {
            std::io::ErrorKind::InvalidInput => Exit::Usage,
            _ => Exit::Missing,
        };
        CommandError::report_as(output, &text, exit)
    })?;
    output.note(&format!("Figures on http://{}/metrics", listener.address()));
    Ok(listener)
}

/// Where samples are shown.
struct Screen<'a> {
    output: Output,
    args: &'a Watch,
    form: Option<(Vec<(String, usize)>, Form)>,
}

impl Screen<'_> {
    /// Shows one; false when nobody reads any more.
    fn show(&mut self, watcher: &Watcher, sample: &Sample) -> Result<bool, CommandError> {
        let shown = if self.output.json {
            self.output.json("sample", sample)
        } else {
            self.output.text(&self.text(watcher, sample))
        };
        match shown {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            shown => Ok(shown.map(|()| true)?),
        }
    }

    fn text(&mut self, watcher: &Watcher, sample: &Sample) -> String {
        let layers = watcher.layers();
        let names: Vec<(String, usize)> =
            layers.iter().map(|l| (l.name.clone(), l.depth)).collect();
        let is_same = self.form.as_ref().is_some_and(|(known, _)| *known == names);
        if !is_same {
            let width = terminal::columns(std::io::stdout());
            let each = layers.iter().map(|l| (l.name.as_str(), l.title.as_str(), l.depth));
            let form = Form::new(width, each, self.args.all, self.args.details);
            self.form = Some((names, form));
        }
        let time = Timestamp::from_nanosecond(i128::from(sample.unix_ns)).unwrap_or_default();
        let time = time.to_zoned(super::local_zone()).strftime("%H:%M:%S").to_string();
        self.form.as_ref().map_or_else(String::new, |(_, form)| sample_text(sample, form, &time))
    }
}
