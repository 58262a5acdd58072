//! A program as the load: started in the target's directory, timed, its devices counted, its figures picked out of what it prints.

use super::bench::Bench;
use super::figure;
use super::loads::ProgramLoad;
use crate::error::LabError;
use crate::lab::Lab;
use crate::sampler::{Deltas, Progress, Sampler};
use fathom_base::units::format_length;
use fathom_load::run::Observer;
use fathom_model::record::{CpuTime, Ending, IoFailure, RECORD_VERSION, Record};
use fathom_model::stack::{Stack, StackAround};
use fathom_model::watch::{DeviceCounts, DeviceSeries};
use fathom_model::workload::Workload;
use fathom_sys::child::{Ended, Output, Program};
use fathom_sys::{clock, process, threads};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much of the end of what a program prints is looked at: reports in JSON may be long.
const OUTPUT_BYTES_MAX: u64 = 4 << 20;

/// How much of that is kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// What came of a program.
pub(crate) struct Measured {
    /// Its record; the cell is to be filled in.
    pub record: Record,
    /// Figures by name; how often an hour it could run where none was asked for.
    pub figures: BTreeMap<String, f64>,
    /// The end of what it printed.
    pub output: String,
    /// Why it does not count.
    pub void: Option<String>,
}

/// What is run, and where.
pub(crate) struct Run<'a> {
    /// The program.
    pub load: &'a ProgramLoad,
    /// Name of the row; a program has it as `$FATHOM_LABEL`.
    pub label: &'a str,
    /// Where it is started; a device is given in `$FATHOM_TARGET` only.
    pub target: &'a str,
    /// The layers below the target, when it has any.
    pub stack: Option<&'a Stack>,
    /// Stored with the record; a program has no use for it but `$FATHOM_SEED`.
    pub seed: u64,
    /// Expected time of what comes after it.
    pub rest_after_ns: u64,
}

/// Runs it to its end.
///
/// # Errors
/// [`LabError`] when it cannot be started, or a signal came.
pub(crate) fn measure(
    lab: &mut Lab<'_>,
    bench: &mut Bench,
    run: &Run<'_>,
) -> Result<Measured, LabError> {
    let dir = directory(run.target);
    let printed = lab.state_dir.join(format!("output-{}", lab.run_id));
    let (stdout, stderr, said) = nameless(&printed).map_err(|source| LabError::TargetIo {
        path: printed.clone(),
        what: "making the file for what the program prints",
        source,
    })?;
    let words = words(run, &lab.state_dir);
    let devices: Vec<String> = run
        .stack
        .map(|stack| stack.block_devices().iter().map(|node| node.name.clone()).collect())
        .unwrap_or_default();
    let root = lab.root.clone();
    let progress = Progress {
        label: run.label.to_owned(),
        rest_after_ns: run.rest_after_ns,
        planned_ns: run.load.timeout_ns,
        planned_bytes: None,
        layout: false,
        emit: &mut |_| (),
    };
    let mut sampler = Sampler::new(&root, devices, progress);
    let started_unix_ns = clock::unix_ns();
    sampler.window_begins();
    let begun_ns = clock::monotonic_ns();
    let output = Output { stdin: None, stdout: Some(stdout), stderr: Some(stderr) };
    let waited_for = threads::children_cpu();
    let mut program = bench.start_program(lab, &words, &dir, output)?;
    sampler.follow(program.pid);
    let until_ns = begun_ns.saturating_add(run.load.timeout_ns);
    let held_up_ns = follow(lab, &program, &mut sampler, (begun_ns, until_ns));
    let window_ns = clock::monotonic_ns() - begun_ns;
    // None when it is ended for the time or a signal.
    let wait = |program: &mut Program| program.wait(|| false).ok().flatten();
    // What it did last is told to root until it is waited for, and to everybody, in part, from then on.
    let early = (!process::is_root()).then(|| wait(&mut program));
    sampler.window_ends();
    let ended = early.unwrap_or_else(|| wait(&mut program));
    bench.end_program(program)?;
    let cpu = threads::children_cpu().since(waited_for);
    let process_cpu = CpuTime { user_ns: cpu.user_ns, system_ns: cpu.system_ns };
    let output = last_of(said);
    if lab.stop.is_set() {
        return Err(LabError::Interrupted);
    }
    let failure = failure(run, ended).map(|cause| with_last_line(cause, &output));
    let (mut figures, missing) = figures(run, &output);
    if run.load.figures.is_empty() {
        // Of a figure more is better; of the time it takes, less would be.
        figures.insert("runs_per_hour".to_owned(), 3600e9 / window_ns.max(1) as f64);
    }
    let deltas = Deltas { process_cpu, ..sampler.deltas() };
    let void = failure.clone().or(missing).or_else(|| idle(run, &figures, &deltas, window_ns));
    let output = end_of(output);
    let record =
        Record { held_up_ns, ..record(run, deltas, (started_unix_ns, window_ns), failure) };
    Ok(Measured { record, figures, output, void })
}

/// A file to be written twice at once and one to read it, which is gone with this process however that ends.
fn nameless(path: &Path) -> io::Result<(File, File, File)> {
    // Of one that was killed between the next two lines.
    std::fs::remove_file(path).ok();
    let file = File::create_new(path)?;
    let said = File::open(path);
    std::fs::remove_file(path)?;
    Ok((file.try_clone()?, file, said?))
}

/// The figures that it printed, and the first one that it did not.
fn figures(run: &Run<'_>, output: &str) -> (BTreeMap<String, f64>, Option<String>) {
    let (mut found, mut missing) = (BTreeMap::new(), None);
    for (name, figure) in &run.load.figures {
        match figure::pick(figure, output) {
            Ok(number) => {
                found.insert(name.clone(), number);
            }
            Err(cause) => {
                missing.get_or_insert_with(|| format!("figure.{name}: {cause}"));
            }
        }
    }
    (found, missing)
}

/// Why there is nothing to compare: each figure of the command is 0, and nothing was asked of its target.
fn idle(
    run: &Run<'_>,
    figures: &BTreeMap<String, f64>,
    deltas: &Deltas,
    window_ns: u64,
) -> Option<String> {
    let (name, _) = figures.first_key_value()?;
    let tops = run.stack?.top_block_devices();
    let tops: Vec<&str> = tops.iter().map(|node| node.name.as_str()).collect();
    let own = deltas.course.as_deref()?.devices.iter();
    let own = own.filter(|device| tops.contains(&device.name.as_str()));
    let counts: Vec<DeviceCounts> = own.flat_map(DeviceSeries::counts).collect();
    let is_idle = |of: &DeviceCounts| of.reads.requests + of.writes.requests == 0;
    let is_nothing = figures.values().all(|figure| *figure == 0.0);
    (is_nothing && !counts.is_empty() && counts.iter().all(is_idle)).then(|| {
        format!(
            "nothing was asked of {} in {}, and figure.{name} is 0: start the load first",
            tops.join(" + "),
            format_length(window_ns)
        )
    })
}

/// A ready application (`fathom watch --recipe`) among them is noted in the journal of the experiment, which is looked through
/// when that was killed.
fn words(run: &Run<'_>, state_dir: &Path) -> Vec<OsString> {
    let environment = [
        format!("FATHOM_TARGET={}", run.target),
        format!("FATHOM_SEED={}", run.seed),
        format!("FATHOM_LABEL={}", run.label),
        format!("FATHOM_JOURNAL={}", state_dir.display()),
        // The one that runs, wherever it lies: a copied binary is in no PATH.
        format!("FATHOM={}", std::env::current_exe().unwrap_or("fathom".into()).display()),
    ];
    let fixed = ["/usr/bin/env".to_owned()].into_iter().chain(environment);
    let shell = ["/bin/sh".to_owned(), "-c".to_owned(), run.load.command.clone()];
    fixed.chain(shell).map(OsString::from).collect()
}

/// The target itself, or what it lies in.
pub(crate) fn directory(target: &str) -> PathBuf {
    let path = Path::new(target);
    let parent = path.parent().filter(|parent| parent.is_dir());
    match (path.is_dir(), parent) {
        (true, _) => path.to_owned(),
        (false, Some(parent)) if path.is_file() => parent.to_owned(),
        _ => PathBuf::from("/"),
    }
}

/// Looks on until it has ended, the time is over, or a signal came, and tells for how long this process itself was held up: when the command
/// ended in that time is not known. What the kernel tells of one that has ended stays until it is asked how.
fn follow(
    lab: &Lab<'_>,
    program: &Program,
    sampler: &mut Sampler<'_>,
    (begun_ns, until_ns): (u64, u64),
) -> u64 {
    const LOOK: Duration = Duration::from_millis(2);
    const LOOK_NS: u64 = LOOK.as_nanos() as u64;
    // As long as any busy machine keeps a process waiting.
    const HELD_UP_NS: u64 = 100_000_000;
    let held = |ns: u64| if ns >= HELD_UP_NS { ns } else { 0 };
    let (mut held_up_ns, mut looked_ns, mut late_ns) = (0, begun_ns, 0);
    loop {
        let has_ended = program.has_ended();
        let now_ns = clock::monotonic_ns();
        if has_ended {
            // At some time since it was looked at before; the first time it is after its start was noted in the journal.
            return held_up_ns + held(now_ns.saturating_sub(looked_ns + LOOK_NS));
        }
        held_up_ns += held(late_ns);
        if lab.stop.is_set() || now_ns >= until_ns {
            return held_up_ns;
        }
        looked_ns = now_ns;
        sampler.look_again();
        let before_ns = clock::monotonic_ns();
        std::thread::sleep(LOOK);
        late_ns = clock::monotonic_ns().saturating_sub(before_ns + LOOK_NS);
    }
}

fn failure(run: &Run<'_>, ended: Option<Ended>) -> Option<String> {
    let command = &run.load.command;
    match ended {
        Some(Ended::Exit(0)) => None,
        Some(Ended::Exit(code)) => Some(format!("'{command}' ended with exit status {code}")),
        Some(Ended::Signal(signal)) => Some(format!("'{command}' was ended by signal {signal}")),
        None => Some(format!(
            "'{command}' did not end within {}; timeout= sets how long it may take",
            fathom_base::units::format_duration(run.load.timeout_ns)
        )),
    }
}

/// A cause with the last thing that the program said, which mostly is why.
pub(super) fn with_last_line(cause: String, output: &str) -> String {
    const LENGTH_MAX: usize = 200;
    let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let is_plain = |c: &char| !c.is_control();
    let last: String = last.unwrap_or_default().chars().filter(is_plain).take(LENGTH_MAX).collect();
    if last.is_empty() { cause } else { format!("{cause}: {last}") }
}

/// The end of a file, as text.
fn last_of(mut file: File) -> String {
    let mut read = || {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Its end, from the beginning of a character on.
fn end_of(mut output: String) -> String {
    let over = output.len().saturating_sub(KEPT_BYTES_MAX);
    let from = (over..=output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(0);
    output.drain(..from);
    output
}

fn record(
    run: &Run<'_>,
    mut deltas: Deltas,
    (started_unix_ns, window_ns): (i64, u64),
    failure: Option<String>,
) -> Record {
    let ending = if failure.is_some() { Ending::Failed } else { Ending::Complete };
    if let Some((course, stack)) = deltas.course.as_mut().zip(run.stack) {
        course.stacks = vec![StackAround { before: stack.clone(), after: None }];
    }
    Record {
        version: RECORD_VERSION,
        label: run.label.to_owned(),
        workload: workload_of(&run.load.command),
        started_unix_ns,
        window_ns,
        system_cpu: deltas.system_cpu,
        system_events: deltas.system_events,
        process_cpu: deltas.process_cpu,
        devices: deltas.devices,
        page_cache: deltas.page_cache,
        suspended_ns: deltas.suspended_ns,
        heat: deltas.heat,
        watch: deltas.course,
        ending,
        failure: failure.map(|message| IoFailure {
            job: run.label.to_owned(),
            operation: "command".to_owned(),
            offset_bytes: 0,
            size_bytes: 0,
            errno: 0,
            message,
        }),
        ..empty_record(run.label, workload_of(&run.load.command), run.seed)
    }
}

/// A command in the place of a workload.
pub(crate) fn workload_of(command: &str) -> Workload {
    Workload {
        name: "command".to_owned(),
        title: command.to_owned(),
        description: String::new(),
        classic: None,
        jobs: Vec::new(),
        tracked: Vec::new(),
    }
}

/// A record of nothing.
pub(crate) fn empty_record(label: &str, workload: Workload, seed: u64) -> Record {
    Record {
        version: RECORD_VERSION,
        label: label.to_owned(),
        workload,
        targets: Vec::new(),
        jobs: Vec::new(),
        started_unix_ns: clock::unix_ns(),
        window_ns: 0,
        process_cpu: fathom_model::record::CpuTime::default(),
        system_cpu: fathom_model::record::SystemCpu::default(),
        system_events: None,
        devices: Vec::new(),
        page_cache: fathom_model::record::PageCacheDelta::default(),
        suspended_ns: 0,
        held_up_ns: 0,
        heat: fathom_model::record::HeatRecord::default(),
        control_group: None,
        cell: None,
        fsop: None,
        watch: None,
        capture: None,
        ending: Ending::Failed,
        failure: None,
        seed,
        findings: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_read_and_leaves_no_file() {
        use std::io::Write;
        let path = std::env::temp_dir().join(format!("fathom-output-{}", std::process::id()));
        std::fs::write(&path, "of a killed one").unwrap();
        let (mut stdout, mut stderr, said) = nameless(&path).unwrap();
        assert!(!path.exists());
        stdout.write_all(b"one ").unwrap();
        stderr.write_all(b"two").unwrap();
        assert_eq!(last_of(said), "one two");
    }

    #[test]
    fn the_end_of_long_output_begins_with_a_character() {
        assert_eq!(end_of("short".to_owned()), "short");
        // Two bytes each, and one at the end: the border is inside of one.
        let kept = end_of(format!("{}x", "\u{e9}".repeat(KEPT_BYTES_MAX)));
        assert_eq!(kept.len(), KEPT_BYTES_MAX - 1);
        assert!(kept.starts_with('\u{e9}') && kept.ends_with("\u{e9}x"));
    }
}
