//! `fathom watch`.

mod application;
mod recipe;
mod recording;
pub mod stored;
mod target;
mod view;

use super::{CommandError, CommandResult, standing};
use crate::args::Common;
use crate::args::watch::Watch as Args;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use application::Application;
use fathom_base::units::parse_duration_ns;
use fathom_model::watch::Sample;
use fathom_observe::sample::layers::{self, Layer};
use fathom_observe::sample::{Choice, Latency, Listener, Moment, Watcher};
use fathom_report::watch::{Form, sample_text};
use fathom_sys::clock;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::terminal;
use jiff::Timestamp;
use recording::{Pieces, Recording};
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;
use view::View;

/// The interval, and how often what is recorded goes to the store, in nanoseconds.
fn times(args: &Args) -> Result<(u64, u64), String> {
    let of = |flag: &str, text: &str, range: RangeInclusive<u64>, words: &str| {
        let time_ns = parse_duration_ns(text).map_err(|error| format!("{flag}={text}: {error}"))?;
        if range.contains(&time_ns) { Ok(time_ns) } else { Err(format!("{flag}={text}: {words}")) }
    };
    let interval = 10_000_000..=3_600_000_000_000;
    let store_every = 1_000_000_000..=u64::MAX;
    Ok((
        of("--interval", &args.interval, interval, "from 10ms to 1h")?,
        of("--store-every", &args.store_every, store_every, "1s or more")?,
    ))
}

/// Shows what devices do until it is ended, or as long as a command runs.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Args) -> CommandResult {
    let usage = |text: String| CommandError::usage(output, &text);
    let (interval_ns, store_every_ns) = times(args).map_err(usage)?;
    check(args).map_err(usage)?;
    let root = SysRoot::live();
    let mut application = Application::of(&root, output, args)?;
    let choice = target::choice(&root, &args.devices, application.is_some()).map_err(usage)?;
    let listener = args.listen.as_ref().map(|address| listen(output, address)).transpose()?;
    let pieces = match application {
        Some(_) => Pieces::AtTheEnd,
        None => Pieces::Every(store_every_ns),
    };
    let of_words = || {
        let words = args.devices.iter().map(|word| standing::absolute_target(&root, word));
        words.collect::<Vec<_>>().join(" ")
    };
    let name = application.as_ref().map_or_else(of_words, Application::target);
    let is_recorded = args.record || application.is_some();
    let how = (interval_ns, pieces);
    let begin = || Recording::begin(common, output, &root, args.label.as_deref(), &name, how);
    let mut recording = is_recorded.then(begin).transpose()?;
    let mut ready = match &mut application {
        Some(application) => application.prepare(common, output, stop),
        None => Ok(()),
    };
    let mut begun = now();
    let mut watcher = Watcher::new(&root, choice.clone(), begun, None);
    tell_uncounted(output, &root, &choice, watcher.layers());
    let mut latency = args.latency.then(|| latency(output, &root, &watcher, interval_ns)).flatten();
    if let Some(latency) = &mut latency {
        // Opening tracepoints takes a while, of which no counter is to tell.
        begun = now();
        watcher = Watcher::new(&root, choice, begun, None);
        latency.begin(begun.monotonic_ns);
    }
    if let Some(recording) = &mut recording {
        let words = match (args.devices.as_slice(), &application) {
            ([], Some(_)) => vec![".".to_owned()],
            (words, _) => words.to_vec(),
        };
        recording.stands_on(standing::of_words(&root, &words, watcher.layers()));
    }
    if let Some(application) = application.as_mut().filter(|_| ready.is_ok()) {
        ready = application.start(&root, output);
    }
    if let Err(error) = ready {
        recording.into_iter().for_each(|recording| recording.forget(output));
        return Err(error);
    }
    let view = View::start(output, stop, args, application.is_some());
    let screen = Screen { output, args, view, last: None, form: None, is_closed: false };
    let mut watch = Watch { watcher, screen, listener, application, recording, latency };
    let shown = watch.follow(stop, begun, interval_ns);
    let Watch { watcher, mut screen, application, recording, .. } = watch;
    let mut left = Ok(());
    let leave = || left = screen.finish(&watcher, is_recorded);
    // What was watched is stored, and what was started ended, also when it could not be shown: a terminal that takes nothing is
    // waited for after that.
    let finished = finish((output, args.is_part), stop, application, recording, leave);
    shown.and(left).map_err(CommandError::from).and(finished)
}

/// Words that contradict each other.
fn check(args: &Args) -> Result<(), String> {
    let has_application = !args.command.is_empty() || args.recipe.is_some();
    let text = if args.count.is_some() && has_application {
        "--count is for a watch without an end; with a command or a recipe, --timeout says how long it may take"
    } else if args.count == Some(0) {
        "--count=0: nothing would be shown; leave it out for no end"
    } else if args.label.is_some() && !args.record && !has_application {
        "--label is a word to find a stored watch by: add --record"
    } else {
        return Ok(());
    };
    Err(text.to_owned())
}

/// Everything that goes on while it is watched.
struct Watch<'a> {
    watcher: Watcher,
    screen: Screen<'a>,
    listener: Option<Listener>,
    application: Option<Application>,
    recording: Option<Recording>,
    latency: Option<Latency>,
}

impl Watch<'_> {
    /// Takes one sample after another until it is over.
    fn follow(&mut self, stop: &StopFlag, begun: Moment, interval_ns: u64) -> io::Result<()> {
        let count = self.screen.args.count.unwrap_or(u64::MAX);
        for _ in 0..count {
            let due_ns = begun.monotonic_ns + next_tick(begun.monotonic_ns, interval_ns);
            let is_over = wait(due_ns, stop, self.application.as_mut(), self.latency.as_mut());
            let is_kept = self.application.is_some() || self.recording.is_some();
            if stop.is_set() && !is_kept {
                break;
            }
            let family = self.application.as_mut().and_then(Application::family);
            let moment = now();
            let mut sample = self.watcher.look(moment, family);
            if let Some(latency) = &mut self.latency {
                latency.fill(&mut sample, self.watcher.layers(), moment.monotonic_ns);
            }
            if let Some(listener) = &mut self.listener {
                listener.show(&sample);
            }
            if let Some(recording) = &mut self.recording {
                recording.push(self.screen.output, &sample);
            }
            if let Some(application) = &mut self.application {
                application.push(&sample, self.watcher.layers());
            }
            self.screen.show(&self.watcher, &sample)?;
            let has_reader = is_kept || !self.screen.is_closed;
            if is_over || stop.is_set() || !has_reader {
                break;
            }
        }
        Ok(())
    }
}

/// Ends the application, stores what is left, leaves the view, and says what it came to.
fn finish(
    (output, is_part): (Output, bool),
    stop: &StopFlag,
    application: Option<Application>,
    recording: Option<Recording>,
    leave: impl FnOnce(),
) -> CommandResult {
    let ended = application.map(|application| application.end(stop));
    let interrupted = if stop.is_set() && ended.is_some() { Exit::Interrupted } else { Exit::Done };
    match recording {
        Some(recording) => {
            recording.finish(output, stop, ended, leave).map(|exit| exit.max(interrupted))
        }
        None => {
            leave();
            if is_part {
                return Ok(interrupted);
            }
            output.json("result", &serde_json::json!({ "exit_code": interrupted.code() }))?;
            Ok(interrupted)
        }
    }
}

/// Devices that would look idle whatever they do are named at once.
fn tell_uncounted(output: Output, root: &SysRoot, choice: &Choice, watched: &[Layer]) {
    let is_meant =
        |name: &&String| *choice == Choice::All || watched.iter().any(|layer| layer.name == **name);
    for name in layers::uncounted(root).iter().filter(is_meant) {
        output.error(&format!(
            "{name}: the kernel was told not to count its requests, so it is shown as idle; to count them: echo 1 > /sys/block/{name}/queue/iostats"
        ));
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
fn wait(
    due_ns: u64,
    stop: &StopFlag,
    mut application: Option<&mut Application>,
    mut latency: Option<&mut Latency>,
) -> bool {
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
        let slice = Duration::from_nanos(left_ns.min(slice_ns));
        match &mut latency {
            Some(latency) => latency.wait(slice),
            None => std::thread::sleep(slice),
        }
    }
}

/// Latencies of single requests; without the right to trace everything else is watched all the same.
fn latency(output: Output, root: &SysRoot, watcher: &Watcher, interval_ns: u64) -> Option<Latency> {
    session::remove_traces_of_the_dead(root, output);
    match Latency::start(root, watcher.layers(), interval_ns) {
        Ok(latency) => {
            if let Some(why) = latency.without_instance() {
                output.note(&format!(
                    "--latency: there can be no trace instance ({why}): latencies come from rings of perf events, and some kernels leave out \
                     there what ends in interrupts of an idle processor"
                ));
            }
            Some(latency)
        }
        Err(error) => {
            output.error(&format!(
                "--latency: {error}; all else is watched, with the mean times of the counters (r_await, w_await), but without p50, \
                 p99 and the longest"
            ));
            None
        }
    }
}

fn listen(output: Output, address: &str) -> Result<Listener, CommandError> {
    let listener = Listener::start(address).map_err(|error| {
        let (what, exit) = match error.kind() {
            io::ErrorKind::InvalidInput => (error.to_string(), Exit::Usage),
            io::ErrorKind::AddrInUse => (
                "that port is in use; give another one (0: any that is free)".to_owned(),
                Exit::Missing,
            ),
            io::ErrorKind::AddrNotAvailable => (
                "that is no address of this machine (ip addr shows them)".to_owned(),
                Exit::Missing,
            ),
            io::ErrorKind::PermissionDenied => {
                ("ports below 1024 need root; give another port".to_owned(), Exit::Missing)
            }
            _ => (error.to_string(), Exit::Missing),
        };
        CommandError::report_as(output, &format!("--listen={address}: {what}"), exit)
    })?;
    output.note(&format!("Figures on http://{}/metrics", listener.address()));
    Ok(listener)
}

/// Where samples are shown.
struct Screen<'a> {
    output: Output,
    args: &'a Args,
    view: Option<View>,
    /// The interval that the view showed last.
    last: Option<Sample>,
    form: Option<(Vec<(String, usize)>, Form)>,
    /// Nobody reads any more.
    is_closed: bool,
}

impl Screen<'_> {
    /// Shows one, if somebody reads.
    fn show(&mut self, watcher: &Watcher, sample: &Sample) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let shown = if self.output.json {
            self.output.json("sample", sample)
        } else if let Some(view) = &self.view {
            view.show(sample, time_of(sample));
            self.last = Some(sample.clone());
            Ok(())
        } else {
            self.output.text(&self.text(watcher, sample))
        };
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            shown => shown,
        }
    }

    /// Takes the view away. What it showed last stays as lines, unless a record says more.
    fn finish(&mut self, watcher: &Watcher, is_recorded: bool) -> io::Result<()> {
        let Some(view) = self.view.take() else { return Ok(()) };
        view.finish();
        match self.last.take().filter(|_| !is_recorded) {
            Some(last) => self.output.text(&self.text(watcher, &last)),
            None => Ok(()),
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
        let time = time_of(sample);
        self.form.as_ref().map_or_else(String::new, |(_, form)| sample_text(sample, form, &time))
    }
}

/// The end of an interval where people read it.
fn time_of(sample: &Sample) -> String {
    let time = Timestamp::from_nanosecond(i128::from(sample.unix_ns)).unwrap_or_default();
    time.to_zoned(super::local_zone()).strftime("%H:%M:%S").to_string()
}
