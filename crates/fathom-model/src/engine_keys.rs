//! Which settings of a job its engine cannot honour.

use crate::workload::{Access, EngineKind, Job, OpenSync};

/// A depth that the engine would not hold.
fn depth(job: &Job) -> Option<String> {
    let engine = job.engine.word();
    if job.engine.is_synchronous() && job.depth > 1 {
        return Some(format!(
            "engine={engine} has one request in flight per thread, depth={} cannot be honoured; use depth=1 threads={} for as many at a time, or engine=io_uring",
            job.depth,
            job.concurrency()
        ));
    }
    if job.engine == EngineKind::Libaio && !job.direct && job.depth > 1 {
        return Some(format!(
            "engine=libaio does buffered requests one after the other before io_submit returns, so that depth={} cannot be honoured; use direct=yes, depth=1 threads={}, or engine=io_uring",
            job.depth,
            job.concurrency()
        ));
    }
    None
}

/// Ends that nobody would wait for.
fn batch(job: &Job) -> Option<String> {
    if job.batch > job.depth {
        return Some(format!(
            "batch={} completions cannot come from depth={} requests",
            job.batch, job.depth
        ));
    }
    let paced = [
        ("rate", job.rate.is_some()),
        ("cap_iops", job.cap_iops.is_some()),
        ("cap_bytes", job.cap_bytes.is_some()),
        ("think_time", job.think_time_ns > 0),
    ];
    let (key, _) = paced.into_iter().find(|(_, is_asked)| *is_asked && job.batch > 1)?;
    Some(format!(
        "with {key}= ends are looked at as soon as the next request may start, so that batch={} is not waited for; leave out one of the two",
        job.batch
    ))
}

/// What the chosen engine cannot do, with the cure.
pub fn contradiction(job: &Job) -> Option<String> {
    if let Some(reason) = depth(job).or_else(|| batch(job)) {
        return Some(reason);
    }
    let engine = job.engine.word();
    let only_ring = [("polled=yes", job.polled), ("sqpoll=yes", job.sqpoll)];
    let registered = job.registered.map(|x| if x { "registered=yes" } else { "registered=no" });
    let asked = only_ring.into_iter().filter(|(_, is_asked)| *is_asked).map(|(word, _)| word);
    if job.engine != EngineKind::IoUring
        && let Some(word) = asked.chain(registered).next()
    {
        return Some(format!(
            "{word} is a way of io_uring, not of engine={engine}; leave it out, or use engine=io_uring"
        ));
    }
    if let Some(most) = job.batch_submit {
        if !matches!(job.engine, EngineKind::IoUring | EngineKind::Libaio) {
            return Some(format!(
                "engine={engine} has no batches to hand over; leave out batch_submit={most}, or use engine=io_uring"
            ));
        }
        if job.sqpoll {
            return Some(format!(
                "with sqpoll=yes no call hands requests over; leave out batch_submit={most} or sqpoll"
            ));
        }
        if most > job.depth {
            return Some(format!(
                "batch_submit={most} is more than the depth={} that there is to hand over; use a smaller one",
                job.depth
            ));
        }
    }
    if job.sqpoll && job.depth > 16_384 {
        return Some(format!(
            "sqpoll=yes needs a queue twice as long as depth={}, which io_uring does not have; use depth=16384 at the most",
            job.depth
        ));
    }
    if let Some(open) = job.files_open.filter(|open| job.sqpoll && *open < job.files) {
        return Some(format!(
            "sqpoll=yes: the kernel's thread may take a request up when files_open={open} have changed already; leave out sqpoll, or keep all {} files open",
            job.files
        ));
    }
    if job.polled && !job.direct {
        return Some("polled=yes works past the page cache only; use direct=yes".into());
    }
    if job.polled && job.trim_fraction + job.zero_fraction > 0.0 {
        return Some("a polled io_uring takes reads and writes only; use polled=no, or leave out trim_fraction and zero_fraction".into());
    }
    if job.polled && (job.syncs_after_writes() || job.sync_at_end.is_some()) {
        return Some("a polled io_uring takes reads and writes only, no syncs; use polled=no, or open_sync=dsync in place of the syncs".into());
    }
    if job.engine != EngineKind::Mmap {
        return None;
    }
    let why = if job.direct {
        "a mapping is the page cache, which direct=yes is to avoid; use direct=no"
    } else if job.open_sync != OpenSync::None {
        "open_sync has no effect on stores through a mapping; use fsync_every=1"
    } else if job.access == Access::Append {
        "a mapping cannot make a file longer, which access=append does; use engine=psync"
    } else {
        return None;
    };
    Some(format!("engine=mmap: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    fn found(pairs: &[(&str, &str)]) -> Option<String> {
        let mut job = Job::default();
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        contradiction(&job)
    }

    #[test]
    fn what_an_engine_cannot_do_is_refused() {
        for pairs in [
            &[("engine", "psync"), ("depth", "32")][..],
            &[("engine", "mmap"), ("depth", "2"), ("direct", "no")],
            &[("engine", "mmap")],
            &[("engine", "mmap"), ("direct", "no"), ("open_sync", "sync")],
            &[("engine", "mmap"), ("direct", "no"), ("access", "append")],
            &[("engine", "libaio"), ("polled", "yes")],
            &[("engine", "libaio"), ("direct", "no"), ("depth", "2")],
            &[("engine", "psync"), ("sqpoll", "yes")],
            &[("engine", "libaio"), ("registered", "no")],
            &[("engine", "psync"), ("batch_submit", "1")],
            &[("batch_submit", "2")],
            &[("sqpoll", "yes"), ("batch_submit", "1")],
            &[("sqpoll", "yes"), ("depth", "16385")],
            &[("sqpoll", "yes"), ("files", "3"), ("files_open", "2")],
            &[("polled", "yes"), ("direct", "no")],
            &[("polled", "yes"), ("write_fraction", "1"), ("fsync_every", "1")],
            &[("polled", "yes"), ("write_fraction", "1"), ("sync_all_every", "10")],
            &[("polled", "yes"), ("access", "replication")],
            &[("polled", "yes"), ("trim_fraction", "0.5")],
        ] {
            assert!(found(pairs).is_some(), "{pairs:?}");
        }
    }

    #[test]
    fn what_it_can_do_is_not() {
        for pairs in [
            &[][..],
            &[("engine", "libaio"), ("depth", "32"), ("batch_submit", "32")],
            &[("engine", "libaio"), ("direct", "no"), ("depth", "1")],
            &[("engine", "mmap"), ("direct", "no")],
            &[("polled", "yes"), ("sqpoll", "yes"), ("registered", "no")],
            &[("sqpoll", "yes"), ("files", "3"), ("files_open", "3")],
        ] {
            assert_eq!(found(pairs), None, "{pairs:?}");
        }
    }
}
