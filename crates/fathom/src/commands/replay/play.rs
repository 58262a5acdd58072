//! The replay itself: one thread reads the trace, one issues, and this one counts what happens.

use super::Order;
use fathom_base::units::{format_count, format_ns, format_size};
use fathom_lab::error::ErrorClass;
use fathom_lab::target::{PreparedTarget, TargetWish, prepare};
use fathom_lab::{Lab, LabError, captured};
use fathom_load::replay::{
    ReplayCost, ReplayKind, ReplayQueues, ReplayRequest, ReplayRules, ReplayStep, replay,
};
use fathom_load::target::LoadTarget;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{Ending, IoFailure, Record};
use fathom_model::workload::Job;
use fathom_observe::trace::event::{Class, Event};
use fathom_observe::trace::open::Source;
use fathom_observe::trace::requests::{Map, Mapping, Replayed};
use fathom_stats::Histogram;
use fathom_sys::clock;
use fathom_sys::io::OpenMode;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Places of both queues.
const QUEUE: usize = 1 << 15;
/// How long the reader and the counter wait when there is nothing to do.
const PAUSE: Duration = Duration::from_millis(1);

/// What was counted.
struct Counted {
    replayed: Replayed,
    late_ns: Histogram,
    failed: u64,
    first_failure: Option<(ReplayRequest, i32)>,
}

/// Prepares the target, replays, gives the target back.
pub fn play(lab: &mut Lab<'_>, order: &Order<'_>) -> Result<Record, LabError> {
    let args = order.args;
    let path = Path::new(&args.target);
    let mut job = Job { direct: !args.buffered, size_bytes: order.size_bytes, ..Job::default() };
    job.write_fraction = if order.wanted.writes { 0.5 } else { 0.0 };
    let is_new = path.is_dir() || !path.exists();
    let wish = TargetWish {
        write: order.wanted.writes || is_new,
        direct: job.direct,
        size_bytes: order.size_bytes.filter(|_| is_new),
        range_bytes_min: 1 << 20,
        files: 1,
        jobs: vec![Job { size_bytes: None, ..job }],
        ..TargetWish::default()
    };
    let mut target = prepare(lab, path, &wish)?;
    let record = filled(lab, order, &mut target);
    let given_back = if lab.keep { target.keep().map(|_| ()) } else { target.remove() };
    let record = record?;
    if let Err(error) = given_back {
        lab.note(error.to_string());
    }
    Ok(record)
}

fn filled(
    lab: &mut Lab<'_>,
    order: &Order<'_>,
    target: &mut PreparedTarget,
) -> Result<Record, LabError> {
    target.fill_up(lab, None, 0)?;
    let mode = OpenMode {
        write: order.wanted.writes,
        direct: !order.args.buffered,
        ..OpenMode::default()
    };
    let load = target.open(mode, false)?;
    let map = map(order, &load).map_err(LabError::Usage)?;
    let rules = ReplayRules {
        depth: order.depth,
        buffer_bytes: order.buffer_bytes,
        is_timed: order.speed.is_some(),
        seed: lab.seeds.next_u64(),
    };
    let stack = target.stack_now(lab);
    let started_unix_ns = clock::unix_ns();
    let (cost, counted) =
        threads(lab, order, &load, map, rules).map_err(|error| of_io(target.path(), &error))?;
    let found = findings(order, map, &cost, &counted);
    let mut capture = counted.replayed.finish();
    capture.device = target.path_text();
    capture.source = "replay".to_owned();
    capture.file = Some(order.args.trace.display().to_string());
    capture.reader_cpu_ns = Some(cost.cpu_ns);
    let ending = match counted.first_failure {
        Some(_) => Ending::Failed,
        None if lab.stop.is_set() => Ending::Interrupted,
        None => Ending::Complete,
    };
    let label = format!("replay of {}", order.reference.device);
    let mut record = captured::record(&label, capture, started_unix_ns, ending);
    if let Some(stack) = stack {
        record.findings = target.findings(lab, &stack);
        record.targets = vec![target.record(lab, stack, !order.args.buffered)];
    }
    record.findings.extend(found);
    record.failure = counted.first_failure.map(|(request, errno)| failure(request, errno));
    Ok(record)
}

fn of_io(path: &Path, error: &std::io::Error) -> LabError {
    let reason =
        format!("setting up io_uring for the replay: {error}; fathom doctor says what is missing");
    LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Missing }
}

fn map(order: &Order<'_>, load: &LoadTarget) -> Result<Map, String> {
    let (from_bytes, to_bytes) = (order.from_bytes, load.size_bytes());
    let end_byte = order.reference.places.end_byte;
    let block_bytes = if load.is_direct() { load.logical_block_bytes() } else { 512 };
    let fits = end_byte <= to_bytes;
    if to_bytes < u64::from(order.buffer_bytes) {
        return Err(format!(
            "the target has {}, less than one request of the trace",
            format_size(to_bytes)
        ));
    }
    if order.mapping == Some(Mapping::Fit) && !fits {
        return Err(format!(
            "--map=fit: the trace reaches {} far, and the target has {}; use --map=scale or --map=modulo, or a larger --size",
            format_size(end_byte),
            format_size(to_bytes)
        ));
    }
    let mapping = order.mapping.unwrap_or(if fits { Mapping::Fit } else { Mapping::Scale });
    Ok(Map { mapping, from_bytes, to_bytes, block_bytes })
}

fn threads(
    lab: &Lab<'_>,
    order: &Order<'_>,
    load: &LoadTarget,
    map: Map,
    rules: ReplayRules,
) -> std::io::Result<(ReplayCost, Counted)> {
    let queues = ReplayQueues::new(QUEUE);
    let (clock, stop) = (lab.clock, lab.stop.clone());
    std::thread::scope(|scope| {
        let feeder_stop = stop.clone();
        let queues = &queues;
        scope.spawn(move || {
            feed(order, map, rules, queues, &|| is_over(&feeder_stop, queues));
            queues.is_fed.store(true, Ordering::Release);
        });
        let player = scope.spawn(move || replay(load, &clock, rules, queues, &|| stop.is_set()));
        let counted = count(order, queues);
        let cost = player
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("the replaying thread ended")));
        Ok((cost?, counted))
    })
}

fn is_over(stop: &fathom_sys::signals::StopFlag, queues: &ReplayQueues) -> bool {
    stop.is_set() || queues.is_done.load(Ordering::Acquire)
}

/// Reads the trace into the queue.
fn feed(
    order: &Order<'_>,
    map: Map,
    rules: ReplayRules,
    queues: &ReplayQueues,
    is_over: &dyn Fn() -> bool,
) {
    let Ok(mut source) = Source::open(&order.args.trace) else { return };
    let (mut first_ns, mut last_ns) = (None, 0);
    // What is damaged has been told when the trace was looked at.
    while let Ok(Some(event)) = source.next_event() {
        let Some(event) = order.wanted.request(&event) else { continue };
        last_ns = event.time_ns.max(last_ns);
        let passed_ns = last_ns - *first_ns.get_or_insert(last_ns);
        let due_ns = (passed_ns as f64 / order.speed.unwrap_or(1.0)) as u64;
        for piece in pieces(&event, map, rules.buffer_bytes, due_ns) {
            let mut piece = piece;
            while let Err(back) = queues.requests.push(piece) {
                if is_over() {
                    return;
                }
                piece = back;
                std::thread::sleep(PAUSE);
            }
        }
        if is_over() {
            return;
        }
    }
}

/// A request as it is issued: one, or several of the largest size.
fn pieces(
    event: &Event,
    map: Map,
    buffer_bytes: u32,
    due_ns: u64,
) -> impl Iterator<Item = ReplayRequest> {
    let kind = match event.class {
        Class::Write => ReplayKind::Write,
        Class::Flush => ReplayKind::Flush,
        _ => ReplayKind::Read,
    };
    let most = buffer_bytes / 512;
    let (sector, sectors) = (event.sector, event.sectors);
    let count = if kind == ReplayKind::Flush { 1 } else { sectors.div_ceil(most).max(1) };
    (0..count).map(move |number| {
        let from = number * most;
        let (sector, sectors) = (sector + u64::from(from), (sectors - from.min(sectors)).min(most));
        let (offset_bytes, size) =
            if kind == ReplayKind::Flush { (0, 0) } else { map.place(sector, sectors) };
        let size_bytes = size.min(u64::from(buffer_bytes)) as u32;
        ReplayRequest { due_ns, kind, offset_bytes, size_bytes, sector, sectors }
    })
}

/// Takes what happened out of the queue.
fn count(order: &Order<'_>, queues: &ReplayQueues) -> Counted {
    let mut counted = Counted {
        replayed: Replayed::new(order.from_bytes),
        late_ns: Histogram::new(),
        failed: 0,
        first_failure: None,
    };
    loop {
        // Read before the queue: what was pushed before is then seen.
        let is_done = queues.is_done.load(Ordering::Acquire);
        while let Some(step) = queues.steps.pop() {
            counted.add(step, order.speed.is_some());
        }
        if is_done {
            return counted;
        }
        std::thread::sleep(PAUSE);
    }
}

impl Counted {
    fn add(&mut self, step: ReplayStep, is_timed: bool) {
        let ReplayStep { time_ns, request, ended } = step;
        let class = match request.kind {
            ReplayKind::Read => Class::Read,
            ReplayKind::Write => Class::Write,
            ReplayKind::Flush => Class::Flush,
        };
        if ended.is_none() && is_timed {
            self.late_ns.record(time_ns.saturating_sub(request.due_ns));
        }
        if let Some(errno) = ended.filter(|errno| *errno != 0) {
            self.failed += 1;
            self.first_failure.get_or_insert((request, errno));
        }
        self.replayed.step(time_ns, class, (request.sector, request.sectors), ended);
    }
}

fn findings(order: &Order<'_>, map: Map, cost: &ReplayCost, counted: &Counted) -> Vec<Finding> {
    let mut found = Vec::new();
    let how = match map.mapping {
        Mapping::Fit => "places are those of the trace",
        Mapping::Scale => {
            "each MiB of the trace keeps its share of the way through the target, and distances inside of it"
        }
        Mapping::Modulo => "places are counted from the start again where the target ends",
    };
    let (from, to) = (format_size(map.from_bytes), format_size(map.to_bytes));
    found.push(Finding::new(
        "replay-map",
        Severity::Note,
        format!("{from} on {to} ({}): {how}", map.mapping.word()),
    ));
    if let (Some(half), Some(most)) =
        (counted.late_ns.quantile(0.5), counted.late_ns.quantile(0.99))
    {
        let (late, at_most) = (format_ns(half), format_ns(most));
        let max = format_ns(counted.late_ns.max().unwrap_or(0));
        let text = format!(
            "requests started {late} after their time at the median, {at_most} at 99 %, {max} at most"
        );
        let is_late = half > 1_000_000;
        let severity = if is_late { Severity::Doubtful } else { Severity::Note };
        let finding = Finding::new("replay-drift", severity, text);
        found.push(if is_late {
            finding.advise("the target is slower than what was traced, or fathom was held up: more in flight (--depth), or a lower --speed")
        } else {
            finding
        });
    }
    if order.left_out > 0 {
        let text = format!("{} requests of the trace were left out", format_count(order.left_out));
        let why = order.why_reads_only.unwrap_or(
            "discards and commands of drivers are not replayed, with --reads-only no writes either",
        );
        found.push(Finding::new("replay-left-out", Severity::Note, text).advise(why));
    }
    if order.speed.is_none() && cost.starved > 1000 {
        let text = "the trace was read more slowly than it could have been replayed".to_owned();
        found.push(
            Finding::new("replay-starved", Severity::Doubtful, text)
                .advise("put the trace on a faster disk, or in memory (/dev/shm)"),
        );
    }
    if counted.failed > 1 {
        let text = format!("{} requests failed", format_count(counted.failed));
        found.push(Finding::new("replay-errors", Severity::Doubtful, text));
    }
    found
}

fn failure(request: ReplayRequest, errno: i32) -> IoFailure {
    let operation = match request.kind {
        ReplayKind::Read => "read",
        ReplayKind::Write => "write",
        ReplayKind::Flush => "fdatasync",
    };
    let ReplayRequest { offset_bytes, size_bytes, .. } = request;
    let reason = std::io::Error::from_raw_os_error(errno);
    let message = format!(
        "{operation} of {size_bytes} bytes at offset {offset_bytes}: {reason}; look at dmesg, and at the size and free space of the target"
    );
    IoFailure {
        job: "replay".to_owned(),
        operation: operation.to_owned(),
        offset_bytes,
        size_bytes,
        errno,
        message,
    }
}
