//! The replay itself: one thread reads the trace, one issues, and this one counts what happens.

mod count;
mod feed;
mod found;
mod merges;

use self::count::{Counted, count};
use self::feed::{Fed, feed};
use super::{Order, fits};
use fathom_check::measuring;
use fathom_lab::error::ErrorClass;
use fathom_lab::run::give_back_one;
use fathom_lab::target::{PreparedTarget, TargetWish, prepare, say_what_is_idle};
use fathom_lab::{Lab, LabError, around, captured};
use fathom_load::replay::{ReplayCost, ReplayError, ReplayQueues, ReplayRules, replay};
use fathom_load::target::LoadTarget;
use fathom_model::capture::REPLAY;
use fathom_model::event::Event;
use fathom_model::finding::Finding;
use fathom_model::record::{Ending, Record};
use fathom_model::stack::Stack;
use fathom_model::workload::Job;
use fathom_observe::trace::requests::{Map, Mapping};
use fathom_study::drift;
use fathom_sys::clock;
use fathom_sys::io::OpenMode;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Places of both queues.
const QUEUE: usize = 1 << 15;

/// Prepares the target, replays, gives the target back. `begins` is called once nothing more is refused.
pub fn play(lab: &mut Lab<'_>, order: &Order<'_>, begins: &dyn Fn()) -> Result<Record, LabError> {
    let args = order.args;
    let path = Path::new(&args.target);
    let mut job = Job { direct: !args.buffered, size_bytes: order.size_bytes, ..Job::default() };
    job.write_fraction = if order.wanted.writes { 0.5 } else { 0.0 };
    let is_new = order.is_new;
    let wish = TargetWish {
        write: order.wanted.writes || is_new,
        direct: job.direct,
        size_bytes: order.size_bytes.filter(|_| is_new),
        range_bytes_min: 1 << 20,
        files: 1,
        jobs: vec![Job { size_bytes: None, ..job }],
        ..TargetWish::default()
    };
    let mut target = prepare(lab, path, &wish).map_err(in_own_words)?;
    say_what_is_idle(lab, &[&target]);
    let record = filled(lab, order, &mut target, begins);
    give_back_one(lab, target);
    record
}

/// The keys of workloads are options here.
fn in_own_words(error: LabError) -> LabError {
    match error {
        LabError::Target { path, reason, class } => {
            let reason = reason.replace("direct=no", "--buffered");
            LabError::Target { path, reason, class }
        }
        other => other,
    }
}

fn filled(
    lab: &mut Lab<'_>,
    order: &Order<'_>,
    target: &mut PreparedTarget,
    begins: &dyn Fn(),
) -> Result<Record, LabError> {
    target.fill_up(lab, None, 0).map_err(in_own_words)?;
    let direct = !order.args.buffered;
    let mode = OpenMode { write: order.wanted.writes, direct, ..OpenMode::default() };
    let load = target.open(mode, false).map_err(in_own_words)?;
    let (rules, lowered) = rules(lab, order, &load)?;
    let map = map(order, &load).map_err(LabError::Usage)?;
    if !direct {
        // The file was written a moment ago: reads would come from memory.
        target.drop_cached_pages()?;
    }
    let before = target.stack_now(lab).unwrap_or_else(|| target.stack().clone());
    let mut known = order.trace_faults.clone();
    known.extend(target.findings(lab, &before));
    known.extend(measuring::slow_clock(&lab.host));
    known.extend(lowered);
    known.extend(found::without_ring(order));
    let is_asked = order.mapping.is_some() || order.args.size.is_some();
    known.extend(found::short_stroked(map, is_asked, &before));
    let label = format!("replay of {}", order.reference.device);
    begins();
    (lab.emit)(Event::TrialStarted {
        label: label.clone(),
        index: 1,
        count: 1,
        layers: Vec::new(),
        findings: known.clone(),
    });
    let started_unix_ns = clock::unix_ns();
    let devices = before.block_devices().into_iter().map(|node| node.name.clone());
    let (root, devices) = (lab.root.clone(), devices.collect::<Vec<String>>());
    let (done, deltas) =
        around(&root, &devices, || threads(lab, order, (&load, &label), map, rules));
    let done = done.map_err(|error| of_player(target.path(), &error))?;
    known.extend(changes(lab, target, &before, &known));
    let cost = done.cost;
    let mut record = record(lab, order, (&label, started_unix_ns), (map, done));
    record.process_cpu = deltas.process_cpu;
    record.system_cpu = deltas.system_cpu;
    record.system_events = deltas.system_events;
    record.devices = deltas.devices;
    record.page_cache = deltas.page_cache;
    record.suspended_ns = deltas.suspended_ns;
    record.heat = deltas.heat;
    known.extend(found::cached(lab, order, map));
    if record.ending == Ending::Complete {
        known.extend(merges::otherwise(order, &record, &before, &cost));
    }
    known.append(&mut record.findings);
    record.findings = known;
    record.targets = vec![target.record(lab, before, direct)];
    if let Some(capture) = &mut record.capture {
        capture.device = target.path_text();
    }
    if let Some(failure) = &mut record.failure {
        failure.message = format!("{}: {}", target.path_text(), failure.message);
    }
    Ok(record)
}

/// What is found after it and was not before.
fn changes(
    lab: &Lab<'_>,
    target: &PreparedTarget,
    before: &Stack,
    known: &[Finding],
) -> Vec<Finding> {
    let Some(after) = target.stack_now(lab) else { return Vec::new() };
    let mut new: Vec<Finding> = drift::changed_meanwhile(before, &after).into_iter().collect();
    new.extend(target.findings(lab, &after));
    new.retain(|finding| !known.iter().any(|other| other.id == finding.id));
    new
}

/// What was played.
struct Played {
    cost: ReplayCost,
    counted: Counted,
    fed: Fed,
}

fn record(
    lab: &Lab<'_>,
    order: &Order<'_>,
    (label, started_unix_ns): (&str, i64),
    (map, done): (Map, Played),
) -> Record {
    let Played { cost, counted, fed } = done;
    let ending = match counted.first_failure {
        Some(_) => Ending::Failed,
        None if lab.stop.is_set() => Ending::Interrupted,
        None => Ending::Complete,
    };
    let mut found = found::findings(order, map, &cost, &counted);
    if !lab.stop.is_set() {
        found.extend(found::incomplete(order, &fed));
    }
    let failure = counted.first_failure.map(|(request, errno)| found::failure(request, errno));
    let mut capture = counted.replayed.finish();
    capture.source = REPLAY.to_owned();
    capture.file = Some(order.args.trace.display().to_string());
    capture.reader_cpu_ns = Some(cost.cpu_ns);
    // Of a part there is no likeness.
    if ending == Ending::Complete {
        found.push(order.compare(&mut capture, map.mapping));
    }
    let mut record = captured::record(label, capture, started_unix_ns, ending);
    record.findings = found;
    record.failure = failure;
    record
}

fn of_player(path: &Path, error: &ReplayError) -> LabError {
    let reason = format!("{error}; fathom doctor says what is missing");
    LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Missing }
}

/// How it is issued here: in whole blocks of the target, and with no more buffers than a quarter of the free memory.
fn rules(
    lab: &mut Lab<'_>,
    order: &Order<'_>,
    load: &LoadTarget,
) -> Result<(ReplayRules, Option<Finding>), LabError> {
    let block_bytes = load.logical_block_bytes().max(1);
    let largest = u64::from(order.buffer_bytes).max(order.run_bytes_max);
    let buffer_bytes = largest.next_multiple_of(block_bytes);
    let (free_bytes, memory) = lab.free_memory();
    let most = free_bytes / 4 / buffer_bytes;
    if most == 0 {
        let (needed_bytes, sum) = (buffer_bytes, "one request".to_owned());
        return Err(LabError::Buffers { needed_bytes, free_bytes, memory, sum });
    }
    let depth = u64::from(order.depth).min(most) as u32;
    let rules = ReplayRules {
        depth,
        buffer_bytes: buffer_bytes as u32,
        is_timed: order.speed.is_some(),
        with_ring: order.why_no_ring.is_none(),
        seed: lab.seeds.next_u64(),
    };
    Ok((rules, (depth < order.depth).then(|| found::lowered(order.depth, depth, free_bytes))))
}

fn map(order: &Order<'_>, load: &LoadTarget) -> Result<Map, String> {
    let (from_bytes, to_bytes) = (order.from_bytes, load.size_bytes());
    let end_byte = order.reference.places.end_byte;
    let block_bytes = if load.is_direct() { load.logical_block_bytes() } else { 512 };
    fits(order.mapping, (end_byte, to_bytes), order.buffer_bytes, order.is_new)?;
    let usual = if end_byte <= to_bytes { Mapping::Fit } else { Mapping::Scale };
    let mapping = order.mapping.unwrap_or(usual);
    Ok(Map { mapping, from_bytes, to_bytes, block_bytes })
}

fn threads(
    lab: &mut Lab<'_>,
    order: &Order<'_>,
    (load, label): (&LoadTarget, &str),
    map: Map,
    rules: ReplayRules,
) -> Result<Played, ReplayError> {
    let queues = ReplayQueues::new(QUEUE);
    let (clock, stop) = (lab.clock, lab.stop.clone());
    std::thread::scope(|scope| {
        let feeder_stop = stop.clone();
        let queues = &queues;
        let feeder = scope.spawn(move || {
            let is_over = || feeder_stop.is_set() || queues.is_done.load(Ordering::Acquire);
            feed(order, map, rules.buffer_bytes, queues, &is_over)
        });
        let player = scope.spawn(move || replay(load, &clock, rules, queues, &|| stop.is_set()));
        let counted = count(order, (label, map.to_bytes), queues, lab.emit);
        let ended = |what| ReplayError { what, source: std::io::Error::other("a thread ended") };
        let cost = player.join().unwrap_or_else(|_| Err(ended("issuing requests")))?;
        let fed = feeder.join().map_err(|_| ended("reading the trace"))?;
        Ok(Played { cost, counted, fed })
    })
}
