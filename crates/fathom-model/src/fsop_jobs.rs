//! A phase of a file server in the form of jobs, for whatever compares, follows or exports jobs: its readers are one, its writers
//! another, and a command that told figures of its own is one. Of a personality, all transactions are one, each kind of them one, and the calls that they consist of one. Nothing
//! of the kind is stored: it follows from the record.

use crate::fsop::{FsopProcess, FsopRecord, Role};
use crate::limits::LimitsRecord;
use crate::play::{PlayAct, PlayedAct, PlayedRate};
use crate::record::{
    ClassRecord, CpuTime, EngineRecord, JobRecord, OpClass, OpenLoopRecord, Record, ResponseClass,
};
use crate::workload::{EngineKind, Job};
use fathom_base::order::Order;
use fathom_stats::Histogram;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// All transactions of a personality that has several kinds of them.
const ALL: &str = "transactions";
/// The calls that transactions consist of.
const CALLS: &str = "calls";

/// The figures of a command that was the load, as far as they are told.
#[must_use]
pub fn told(record: &Record) -> Option<&BTreeMap<String, f64>> {
    let cell = record.cell.as_ref().filter(|_| record.fsop.is_none())?;
    Some(&cell.application).filter(|figures| !figures.is_empty())
}

/// The record with the processes of each role as a job, and a command that told figures as one; every other record as it is.
#[must_use]
pub fn with_jobs(record: &Record) -> Cow<'_, Record> {
    if record.jobs.is_empty() && told(record).is_some() {
        let job = empty("command", 1, record.window_ns);
        return Cow::Owned(Record { jobs: vec![job], ..record.clone() });
    }
    let Some(fsop) = record.fsop.as_deref().filter(|_| record.jobs.is_empty()) else {
        return Cow::Borrowed(record);
    };
    let mut roles: Vec<Role> = fsop.processes.iter().map(|process| process.role).collect();
    roles.dedup();
    let mut shown = record.clone();
    for role in roles {
        if role == Role::Client {
            shown.jobs.extend(transactions(fsop, record.window_ns));
        }
        shown.jobs.push(job(fsop, role, record.window_ns));
    }
    let asked = shown.jobs.iter().map(|job| Job { name: job.name.clone(), ..Job::default() });
    shown.workload.jobs = asked.collect();
    Cow::Owned(shown)
}

/// What the job of the processes of a role is called.
#[must_use]
pub fn name_of(role: Role) -> &'static str {
    match role {
        Role::Client => CALLS,
        Role::Reader => "readers",
        Role::Writer => "writers",
    }
}

fn job(fsop: &FsopRecord, role: Role, window_ns: u64) -> JobRecord {
    let processes: Vec<&FsopProcess> = fsop.of_role(role).collect();
    let mut classes: Vec<ClassRecord> = Vec::new();
    for class in processes.iter().flat_map(|process| &process.classes) {
        match classes.iter_mut().find(|known| known.class == class.class) {
            Some(known) => {
                known.latency_ns.merge(&class.latency_ns);
                known.bytes += class.bytes;
            }
            None => classes.push(class.clone()),
        }
    }
    JobRecord {
        classes,
        batches: processes.iter().map(|process| process.operations()).sum(),
        thread_operations: processes.iter().map(|process| process.operations()).collect(),
        ..empty(name_of(role), processes.len() as u32, window_ns)
    }
}

/// A job of which nothing is known but who did it.
fn empty(name: &str, threads: u32, window_ns: u64) -> JobRecord {
    JobRecord {
        name: name.to_owned(),
        engine: EngineRecord {
            kind: EngineKind::Psync,
            fallback: None,
            features: Vec::new(),
            threads,
            depth: 1,
            batch: 1,
        },
        classes: Vec::new(),
        series: Vec::new(),
        slowest: Vec::new(),
        censored: Vec::new(),
        limits: LimitsRecord::default(),
        batches: 0,
        cpu: CpuTime::default(),
        thread_operations: Vec::new(),
        thread_times: Vec::new(),
        busiest_thread_cpu_ns: 0,
        final_sync_ns: None,
        window_ns,
        open_loop: None,
        verify: None,
        delivered: None,
        control_group: None,
    }
}

/// All transactions of a personality, and those of each kind where several were asked for. What was done in place of one that
/// could not be done has a row of its own where it came up, and changes no other row's name.
fn transactions(fsop: &FsopRecord, window_ns: u64) -> Vec<JobRecord> {
    let asked: Vec<PlayAct> = fsop.spec.play.iter().flat_map(|play| play.acts()).collect();
    let is_asked = |act: &PlayedAct| asked.is_empty() || asked.contains(&act.act);
    let mut acts = fsop.acts();
    acts.retain(|act| is_asked(act) || !act.service_ns.is_empty());
    acts.order_by_key(|act| !is_asked(act));
    let kinds = acts.iter().filter(|act| is_asked(act)).count();
    let Some(first) = acts.first() else { return Vec::new() };
    let one = |name: &str, service_ns, open_loop| {
        let class = ClassRecord { class: OpClass::Transaction, latency_ns: service_ns, bytes: 0 };
        let calls = job(fsop, Role::Client, window_ns);
        JobRecord { name: name.to_owned(), classes: vec![class], open_loop, ..calls }
    };
    let of_each = |act: &PlayedAct| {
        one(act.act.word(), act.service_ns.clone(), act.response_ns.as_ref().map(of_kind))
    };
    let rate = rate(fsop, &acts);
    if kinds == 1 {
        let alone = one(first.act.word(), first.service_ns.clone(), rate);
        return std::iter::once(alone).chain(acts[1..].iter().map(of_each)).collect();
    }
    let mut all = first.service_ns.clone();
    acts[1..].iter().for_each(|act| all.merge(&act.service_ns));
    std::iter::once(one(ALL, all, rate)).chain(acts.iter().map(of_each)).collect()
}

/// What a rate came to, of all clients together; none in a closed loop.
fn rate(fsop: &FsopRecord, acts: &[PlayedAct]) -> Option<OpenLoopRecord> {
    let played = fsop.processes.iter().filter_map(|process| process.played.as_ref());
    let rates: Vec<&PlayedRate> = played.filter_map(|played| played.rate.as_ref()).collect();
    if rates.is_empty() {
        return None;
    }
    let mut sum = OpenLoopRecord::default();
    let (mut response_ns, mut unfinished_ns) = (Histogram::new(), Histogram::new());
    acts.iter().filter_map(|act| act.response_ns.as_ref()).for_each(|ns| response_ns.merge(ns));
    for rate in rates {
        sum.due += rate.due;
        sum.backlog_start += rate.backlog_start;
        sum.not_started += rate.not_started;
        sum.oldest_not_started_ns = sum.oldest_not_started_ns.max(rate.oldest_not_started_ns);
        sum.start_delay_ns.merge(&rate.start_delay_ns);
        unfinished_ns.merge(&rate.unfinished_ns);
    }
    sum.classes = vec![ResponseClass { class: OpClass::Transaction, response_ns, unfinished_ns }];
    Some(sum)
}

/// Of one kind. Which kind it would have been is not known of what never started: that is with all of them only.
fn of_kind(response_ns: &Histogram) -> OpenLoopRecord {
    let (response_ns, unfinished_ns) = (response_ns.clone(), Histogram::new());
    let due = response_ns.count();
    let class = ResponseClass { class: OpClass::Transaction, response_ns, unfinished_ns };
    OpenLoopRecord { due, classes: vec![class], ..OpenLoopRecord::default() }
}
