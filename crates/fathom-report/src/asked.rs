//! What was understood of a job, in one line: people see at once when they asked for something else.

use crate::job::{plural, workload};
use fathom_base::units;
use fathom_model::workload::{Access, Job};

/// Threads, depth, offsets, sizes, mix, syncs, engine, arrivals, what ends the job, and its target with its size.
#[must_use]
pub fn line(job: &Job, target: &str, target_bytes: u64) -> String {
    if job.metadata.is_some() {
        return format!("{}, in {target}", settings(job));
    }
    format!("{}, on {target} ({})", settings(job), units::format_size(target_bytes))
}

/// The same without a target.
#[must_use]
pub fn settings(job: &Job) -> String {
    let phase = match job.phase.as_deref() {
        Some(phase) if phase != job.name => format!("{phase}, "),
        _ => String::new(),
    };
    if job.metadata.is_some() {
        return format!("{phase}{}: {}, {}", job.name, workload(job), end(job));
    }
    let mut parts =
        vec![format!("{} x depth {}", plural(u64::from(job.threads), "thread"), job.depth)];
    parts.push(workload(job));
    if let Some(asked) = job.record_size_bytes {
        let moved = job.block_size_bytes_max();
        parts.push(format!(
            "of {} a call, of which the kernel moves {moved} bytes",
            units::format_size(asked)
        ));
    }
    if !job.direct && job.reads() && !job.drop_cache {
        parts.push("what is cached stays".to_owned());
    }
    parts.push(job.engine.word().to_owned());
    parts.push(arrivals(job));
    parts.push(end(job));
    parts.retain(|part| !part.is_empty());
    format!("{phase}{}: {}", job.name, parts.join(", "))
}

/// How requests come; nothing for a closed loop without pauses, in which each waits for an earlier one.
pub(crate) fn arrivals(job: &Job) -> String {
    if let Some(rate) = job.rate {
        let word = job.arrivals.word();
        return format!("{}/s {word}, whatever has ended", units::format_number(rate));
    }
    let mut parts = Vec::new();
    if job.think_time_ns > 0 {
        parts.push(format!("{} of think time", units::format_ns(job.think_time_ns)));
    }
    parts.extend(job.cap_iops.map(|cap| format!("at most {cap}/s")));
    parts.extend(job.cap_bytes.map(|cap| format!("at most {}", units::format_rate(cap as f64))));
    parts.join(", ")
}

fn end(job: &Job) -> String {
    let mut parts = Vec::new();
    // In whole seconds from ten on.
    parts.extend(job.duration_ns.map(|ns| match ns {
        0..10_000_000_000 => units::format_ns(ns),
        _ => units::format_duration(ns),
    }));
    parts.extend(job.amount_bytes.map(units::format_size));
    parts.extend(job.operations.map(|n| plural(n, "request")));
    if job.access == Access::Sweep && !parts.is_empty() {
        parts.push("one sweep".to_owned());
    }
    match parts.as_slice() {
        [] => "one pass".to_owned(),
        [one] => format!("for {one}"),
        [first, rest @ ..] => {
            format!("for {first} or {}, whichever comes first", rest.join(" or "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::{builtin, keys};

    type Pairs = &'static [(&'static str, &'static str)];
    type Sample = (&'static str, &'static str, Pairs);

    /// For each key a value, and what makes it matter.
    const SAMPLES: &[Sample] = &[
        ("access", "sequential", &[]),
        ("distribution", "zipf:1.2", &[]),
        ("stride", "1M", &[("access", "strided")]),
        ("sweep_points", "100", &[("access", "sweep")]),
        ("cursor", "job", &[("access", "sequential")]),
        ("block_size", "4k:40,8k:60", &[]),
        ("write_block_size", "4k-64k", &[("write_fraction", "1")]),
        ("trim_block_size", "1M", &[("trim_fraction", "1")]),
        ("write_fraction", "20%", &[]),
        ("trim_fraction", "20%", &[]),
        ("zero_fraction", "20%", &[]),
        ("metadata", "create", &[("names", "100")]),
        ("names", "100", &[("metadata", "create")]),
        ("mix", "interleave", &[("write_fraction", "0.5")]),
        ("files", "100", &[]),
        ("file_choice", "random", &[("files", "100")]),
        ("files_open", "10", &[("files", "100")]),
        ("threads", "8", &[]),
        ("depth", "32", &[]),
        ("batch", "4", &[]),
        ("engine", "psync", &[]),
        ("polled", "yes", &[]),
        ("sqpoll", "yes", &[]),
        ("registered", "no", &[]),
        ("batch_submit", "8", &[]),
        ("direct", "no", &[]),
        ("open_sync", "dsync", &[]),
        ("fsync_fraction", "0.1", &[]),
        ("fsync_every", "100", &[]),
        ("sync_call", "fdatasync", &[("fsync_every", "100")]),
        ("sync_at_end", "fsync", &[]),
        ("sync_all_every", "100", &[]),
        ("write_back_fraction", "10%", &[]),
        ("overwrite", "yes", &[]),
        ("drop_cache", "no", &[("direct", "no")]),
        ("record_size", "8G", &[]),
        ("log_block_size", "512", &[("access", "replication")]),
        ("align", "64k", &[]),
        ("offset", "50%", &[]),
        ("span", "1G", &[]),
        ("content", "pattern:00ff", &[("write_fraction", "1")]),
        ("compressible", "50%", &[("write_fraction", "1")]),
        ("duplicate", "0.3", &[("write_fraction", "1")]),
        ("verify", "during", &[("write_fraction", "1")]),
        ("duration", "60s", &[]),
        ("warmup", "5s", &[]),
        ("amount", "1G", &[]),
        ("operations", "10", &[]),
        ("rate", "2000", &[]),
        ("arrivals", "poisson", &[("rate", "2000")]),
        ("think_time", "10ms", &[]),
        ("cap_iops", "0.5", &[]),
        ("cap_bytes", "10M", &[]),
        ("io_priority", "be/7", &[]),
        ("nice", "-5", &[]),
        ("numa_node", "0", &[]),
        ("cgroup_weight", "10", &[]),
        ("cgroup_max", "read_bytes:100MB,write_iops:500", &[]),
        ("cpus", "0,2-3", &[]),
        ("target", "/tmp", &[]),
    ];

    #[test]
    fn every_key_shows() {
        // The size of the file that is made is that of the target, which the line ends with.
        for key in keys::KEYS.iter().filter(|key| key.name != "size") {
            let Some((name, value, beside)) = SAMPLES.iter().find(|(name, ..)| *name == key.name)
            else {
                panic!("no sample for {}", key.name)
            };
            let mut job = Job::default();
            beside.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
            let without = settings(&job);
            keys::set(&mut job, name, value).expect(name);
            assert_ne!(settings(&job), without, "{name}={value} does not show");
        }
    }

    fn lines(workload: &str, pairs: &[(&str, &str)]) -> Vec<String> {
        let mut workload = builtin::named(workload).expect("built in");
        pairs.iter().for_each(|(key, value)| workload.set(key, value).expect(key));
        workload.jobs.iter().map(|job| line(job, "/dev/sdb", 1 << 40)).collect()
    }

    #[test]
    fn everything_that_was_asked() {
        assert_eq!(
            lines("randomio", &[("threads", "48"), ("block_size", "64k")]),
            [
                "mix: 48 threads x depth 1, random, 64 KiB, 20 % writes, fsync after 10 % of them, O_DIRECT, io_uring, for 1 min 00 s, on /dev/sdb (1 TiB)"
            ]
        );
        assert_eq!(
            lines("seqread", &[("rate", "500"), ("arrivals", "poisson")]),
            [
                "read: 1 thread x depth 4, sequential, 1 MiB, reads, O_DIRECT, io_uring, 500/s poisson, whatever has ended, for 1 min 00 s or 10 GiB, whichever comes first, on /dev/sdb (1 TiB)"
            ]
        );
        assert_eq!(
            lines("dd", &[("record_size", "8G"), ("operations", "1")]),
            [
                "copy: 1 thread x depth 1, sequential, 2.0 GiB, writes, fdatasync at the end, buffered, zero bytes, of 8 GiB a call, of which the kernel moves 2147479552 bytes, psync, for 1 GiB or 1 request, whichever comes first, on /dev/sdb (1 TiB)"
            ]
        );
        let on_names = lines("bonnie", &[("names", "1000"), ("random stat.duration", "5s")]);
        assert_eq!(
            [&on_names[4], &on_names[8]],
            [
                "sequential create: creates 1 000 empty files in the order of their names, one after the other, one pass, in /dev/sdb",
                "random stat: looks up 1 000 files in a random order, one after the other, for 5.0 s, in /dev/sdb"
            ]
        );
        assert!(lines("tiobench", &[])[1].contains("random in a file of each thread, 4 KiB"));
        let phases = lines("iozone", &[]);
        assert_eq!(phases.len(), 6);
        assert_eq!(
            phases[1],
            "rewrite: 1 thread x depth 1, sequential, 64 KiB, writes, fsync at the end, buffered, over what is there, psync, one pass, on /dev/sdb (1 TiB)"
        );
        assert!(phases[3].contains(", what is cached stays, "), "{}", phases[3]);
        assert!(!phases[2].contains("cached"), "{}", phases[2]);
    }
}
