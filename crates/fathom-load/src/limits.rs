//! Ranking and binding worker threads: NUMA node, CPUs, nice value, I/O priority; and keeping a run in the realtime I/O
//! class under control.

use crate::run::LoadError;
use fathom_model::limits::LimitsRecord;
use fathom_model::workload::{IoPriority, Job};
use fathom_sys::numa;
use fathom_sys::priority::{self, FirstInLine, IoClass, ThreadId};
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::threads;
use std::io;

/// Finds out, on threads of no further use, whether the jobs will get what they ask for, before anything is written.
///
/// # Errors
/// [`LoadError::Missing`] names the setting, the reason and the cure.
pub fn check(jobs: &[Job], stop: &StopFlag) -> Result<(), LoadError> {
    for job in jobs {
        let try_out = || {
            apply(job, 0)?;
            InControl::of(std::slice::from_ref(&job), stop).map(drop)
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, try_out);
            match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(tried)) => tried,
                // What keeps a thread from running here comes up again, with its reason, when the workers start.
                Ok(Err(_)) | Err(_) => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// Ranks and binds the calling thread as the job asks; memory that it touches from now on lies where it should.
///
/// # Errors
/// [`LoadError::Missing`] names the setting, the reason and the cure.
pub(crate) fn apply(job: &Job, thread: u32) -> Result<(), LoadError> {
    let failed = |what: String, source: io::Error, cure: &str| {
        missing(job, format!("{what}: {source}; {cure}"))
    };
    if let Some(node) = job.numa_node {
        let cpus = cpus_of(job, node)?;
        let named = |e| failed(format!("numa_node={node}"), e, NODE_CURE);
        numa::bind_memory(node).map_err(named)?;
        if job.cpus.is_empty() {
            threads::bind_to_cpus(&cpus).map_err(named)?;
        }
    }
    if let Some(cpu) = job.cpus.get(thread as usize % job.cpus.len().max(1)) {
        threads::bind_to_cpu(*cpu).map_err(|e| failed_cpu(job, *cpu, &e))?;
    }
    if let Some(nice) = job.nice {
        let cure =
            "a lower value than now needs root, CAP_SYS_NICE or a limit that allows it (ulimit -e)";
        priority::set_nice(nice).map_err(|e| failed(format!("nice={nice}"), e, cure))?;
    }
    if let Some(class) = class_of(job.io_priority) {
        let what = format!("io_priority={}", job.io_priority.word());
        let cure =
            if matches!(class, IoClass::Realtime(_)) { REALTIME_CURE } else { "leave it out" };
        priority::set_io_class(ThreadId::current(), class).map_err(|e| failed(what, e, cure))?;
    }
    Ok(())
}

const NODE_CURE: &str =
    "the cpuset (or the container) must allow CPUs and memory of that node; use another one";

const REALTIME_CURE: &str = "the realtime class needs root or CAP_SYS_NICE; use io_priority=be/0";

/// Why a thread cannot be bound to a CPU, with those that it can be bound to.
fn failed_cpu(job: &Job, cpu: u32, source: &io::Error) -> LoadError {
    let why = if source.kind() == io::ErrorKind::InvalidInput {
        "there is no such CPU, or the cgroup forbids it".to_owned()
    } else {
        source.to_string()
    };
    let allowed = threads::allowed_cpus().unwrap_or_default();
    let cure = match (allowed.first(), allowed.last()) {
        (Some(first), Some(last)) if (last - first) as usize + 1 == allowed.len() => {
            format!("{first} to {last} can be used")
        }
        _ => {
            let each: Vec<String> = allowed.iter().map(u32::to_string).collect();
            format!("{} can be used", each.join(", "))
        }
    };
    missing(job, format!("cpus={cpu}: {why}; {cure}"))
}

fn missing(job: &Job, what: String) -> LoadError {
    LoadError::Missing { job: job.name.clone(), what }
}

/// The nodes that there are.
fn known_nodes(nodes: &[String]) -> String {
    match nodes {
        [one] => format!("this machine has node {one} only"),
        many => format!("this machine has the nodes {}", many.join(", ")),
    }
}

/// The CPUs of the node that a job asks for.
fn cpus_of(job: &Job, node: u32) -> Result<Vec<u32>, LoadError> {
    let root = SysRoot::live();
    let Some(cpus) = numa::cpus(&root, node) else {
        let nodes: Vec<String> = numa::nodes(&root).iter().map(u32::to_string).collect();
        let known = if nodes.is_empty() {
            "this kernel knows no nodes; leave it out".to_owned()
        } else {
            known_nodes(&nodes)
        };
        return Err(missing(job, format!("numa_node={node}: there is no such node; {known}")));
    };
    if cpus.is_empty() && job.cpus.is_empty() {
        let what = format!(
            "numa_node={node}: the node has memory only, no CPU; say where threads run with cpus="
        );
        return Err(missing(job, what));
    }
    Ok(cpus)
}

fn class_of(asked: IoPriority) -> Option<IoClass> {
    match asked {
        IoPriority::Inherit => None,
        IoPriority::Realtime(level) => Some(IoClass::Realtime(level)),
        IoPriority::BestEffort(level) => Some(IoClass::BestEffort(level)),
        IoPriority::Idle => Some(IoClass::Idle),
    }
}

/// What holds for the calling thread, whose I/O buffers these are.
pub(crate) fn in_effect(job: &Job, buffers: &[u8]) -> LimitsRecord {
    let class = priority::io_class(ThreadId::current()).ok();
    let io_priority = class.map(|class| match class {
        IoClass::Unset => IoPriority::Inherit,
        IoClass::Realtime(level) => IoPriority::Realtime(level),
        IoClass::BestEffort(level) => IoPriority::BestEffort(level),
        IoClass::Idle => IoPriority::Idle,
    });
    let numa_node = job.numa_node.and_then(|_| numa::node_of(buffers).ok());
    LimitsRecord { io_priority, nice: priority::nice().ok(), numa_node }
}

/// While jobs are in the realtime I/O class, nothing else may get anything from a device that they saturate, and while they
/// are realtime on the CPU nothing else may run. So the threads that can end the run (the coordinator, and the one that
/// waits for signals) come before them, on the CPU and on the device.
pub(crate) struct InControl {
    _threads: Vec<FirstInLine>,
}

impl InControl {
    /// Raises the calling thread and the one that waits for signals, if a job is in the realtime class: because it asks for that,
    /// or because fathom was started so (`ionice`) and it asks for nothing else; and if fathom was started realtime on the
    /// CPU (`chrt`), whatever class of I/O a job asks for.
    ///
    /// # Errors
    /// [`LoadError::Missing`] when that cannot be: the job must not run then.
    pub(crate) fn of(jobs: &[&Job], stop: &StopFlag) -> Result<Self, LoadError> {
        let cpu = priority::inherited_realtime_priority().unwrap_or(0);
        let own = priority::io_class(ThreadId::current()).unwrap_or(IoClass::Unset);
        // The kernel takes the I/O class of who has none from the policy of the CPU.
        let is_inherited =
            matches!(own, IoClass::Realtime(_)) || (own == IoClass::Unset && cpu > 0);
        let is_realtime = |job: &&&Job| match job.io_priority {
            _ if cpu > 0 => true,
            IoPriority::Realtime(_) => true,
            IoPriority::Inherit => is_inherited,
            IoPriority::BestEffort(_) | IoPriority::Idle => false,
        };
        let Some(job) = jobs.iter().find(is_realtime) else {
            return Ok(Self { _threads: Vec::new() });
        };
        let refused = |why: String| {
            let (what, cure) = match job.io_priority {
                _ if cpu > 0 => (
                    format!(
                        "the realtime priority {cpu} on the CPU that fathom was started with (chrt)"
                    ),
                    "start it without chrt",
                ),
                IoPriority::Inherit => (
                    "the realtime I/O class that fathom was started in (ionice)".to_owned(),
                    "use io_priority=be/0",
                ),
                asked => (format!("io_priority={}", asked.word()), "use io_priority=be/0"),
            };
            missing(
                job,
                format!(
                    "{what} needs threads that can stop the run whatever the others do: {why}; {cure}"
                ),
            )
        };
        if job.io_priority == IoPriority::Inherit && own == IoClass::Realtime(0) {
            return Err(refused("nothing comes before its level 0, but 1 to 7 can be used".into()));
        }
        let watcher = stop.watcher().ok_or_else(|| refused("nobody waits for signals".into()))?;
        let raise = |thread| {
            FirstInLine::raise(thread, cpu).map_err(|e| {
                refused(format!("SCHED_FIFO and the realtime I/O class for them: {e}"))
            })
        };
        Ok(Self { _threads: vec![raise(watcher)?, raise(ThreadId::current())?] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::keys;

    fn job(pairs: &[(&str, &str)]) -> Job {
        let mut job = Job::default();
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        job
    }

    #[test]
    fn what_was_set_is_what_is_in_effect() {
        let asked = job(&[("nice", "19"), ("io_priority", "be/6")]);
        let limits = std::thread::scope(|scope| {
            let body = || {
                apply(&asked, 0).expect("lower priorities are free");
                in_effect(&asked, &[0])
            };
            scope.spawn(body).join().expect("no panic")
        });
        assert_eq!((limits.io_priority, limits.nice), (Some(asked.io_priority), Some(19)));
        assert_eq!(limits.text(&asked).as_deref(), Some("I/O priority be/6, nice 19"));
    }

    #[test]
    fn missing_nodes_are_named_before_the_run() {
        let stop = StopFlag::default();
        let error = check(&[job(&[("numa_node", "1000")])], &stop).expect_err("no such node");
        assert!(error.to_string().contains("numa_node=1000: there is no such node; this "));
        let of =
            |nodes: &[&str]| known_nodes(&nodes.iter().map(|n| (*n).into()).collect::<Vec<_>>());
        assert_eq!(of(&["0"]), "this machine has node 0 only");
        assert_eq!(of(&["0", "2"]), "this machine has the nodes 0, 2");
        assert!(check(&[job(&[("nice", "19")]), job(&[("io_priority", "idle")])], &stop).is_ok());
    }

    #[test]
    fn without_anybody_to_stop_it_no_run_is_realtime() {
        // In a process without a thread for signals.
        let realtime = job(&[("io_priority", "rt/4")]);
        let error = InControl::of(&[&realtime], &StopFlag::default()).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("nobody waits for signals")));
    }
}
