//! A phase of a file server in the form of jobs, for whatever compares, follows or exports jobs: its readers are one, its writers
//! another. Nothing of the kind is stored: it follows from the record.

use crate::fsop::{FsopProcess, FsopRecord, Role};
use crate::limits::LimitsRecord;
use crate::record::{ClassRecord, CpuTime, EngineRecord, JobRecord, Record};
use crate::workload::{EngineKind, Job};
use std::borrow::Cow;

/// The record with the processes of each role as a job; every other record as it is.
#[must_use]
pub fn with_jobs(record: &Record) -> Cow<'_, Record> {
    let Some(fsop) = record.fsop.as_deref().filter(|_| record.jobs.is_empty()) else {
        return Cow::Borrowed(record);
    };
    let mut roles: Vec<Role> = fsop.processes.iter().map(|process| process.role).collect();
    roles.dedup();
    let mut shown = record.clone();
    for role in roles {
        let job = job(fsop, role, record.window_ns);
        shown.workload.jobs.push(Job { name: job.name.clone(), ..Job::default() });
        shown.jobs.push(job);
    }
    Cow::Owned(shown)
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
        name: format!("{}s", role.word()),
        engine: EngineRecord {
            kind: EngineKind::Psync,
            fallback: None,
            features: Vec::new(),
            threads: processes.len() as u32,
            depth: 1,
            batch: 1,
        },
        classes,
        series: Vec::new(),
        slowest: Vec::new(),
        censored: Vec::new(),
        limits: LimitsRecord::default(),
        batches: processes.iter().map(|process| process.operations()).sum(),
        cpu: CpuTime::default(),
        thread_operations: processes.iter().map(|process| process.operations()).collect(),
        thread_times: Vec::new(),
        busiest_thread_cpu_ns: 0,
        final_sync_ns: None,
        window_ns,
        open_loop: None,
        verify: None,
        delivered: None,
    }
}
