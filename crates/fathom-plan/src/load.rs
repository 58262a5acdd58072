//! What a workload takes on a device of a given speed: time, and bytes written. For budgets, so on the high side.

use fathom_model::workload::{Job, Workload};

/// How fast a device is taken to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// Bytes per second in sequence.
    pub bytes_per_s: u64,
    /// Requests per second at random.
    pub requests_per_s: u64,
}

/// What one run takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Warm-up and measurement, in nanoseconds.
    pub time_ns: u64,
    /// Bytes written meanwhile.
    pub written_bytes: u64,
    /// Bytes of test files that are there before, where the workload says their size.
    pub laid_out_bytes: u64,
}

/// What a run of the workload takes: phases one after the other, the jobs of one side by side.
#[must_use]
pub fn load_of(workload: &Workload, speed: Speed) -> Load {
    let phases: Vec<Option<&str>> = match workload.phases() {
        phases if phases.is_empty() => vec![None],
        phases => phases.into_iter().map(Some).collect(),
    };
    let mut load = Load::default();
    for phase in phases {
        let jobs: Vec<&Job> = workload
            .jobs
            .iter()
            .filter(|job| phase.is_none() || job.phase.as_deref() == phase)
            .collect();
        let share = Speed {
            bytes_per_s: speed.bytes_per_s / jobs.len().max(1) as u64,
            requests_per_s: speed.requests_per_s / jobs.len().max(1) as u64,
        };
        let each: Vec<Load> = jobs.iter().map(|job| of_job(job, share)).collect();
        load.time_ns += each.iter().map(|load| load.time_ns).max().unwrap_or(0);
        load.written_bytes += each.iter().map(|load| load.written_bytes).sum::<u64>();
    }
    let sizes = workload.jobs.iter().filter(|job| job.reads()).filter_map(|job| job.size_bytes);
    load.laid_out_bytes = sizes.max().unwrap_or(0);
    load
}

fn of_job(job: &Job, speed: Speed) -> Load {
    let block_bytes = job.block_size_bytes_mean().max(1.0);
    let mut per_s =
        (speed.bytes_per_s as f64).min(speed.requests_per_s as f64 * block_bytes).max(1.0);
    let is_sequential = !matches!(
        job.access,
        fathom_model::workload::Access::Random
            | fathom_model::workload::Access::Shuffled
            | fathom_model::workload::Access::Randomio
            | fathom_model::workload::Access::Iozone
    );
    if is_sequential {
        per_s = speed.bytes_per_s.max(1) as f64;
    }
    for limit in [job.rate, job.cap_iops].into_iter().flatten() {
        per_s = per_s.min(limit * block_bytes);
    }
    if let Some(cap) = job.cap_bytes {
        per_s = per_s.min(cap as f64);
    }
    let operations = job.operations.map(|operations| operations as f64 * block_bytes);
    let amounts = [job.amount_bytes.map(|bytes| bytes as f64), operations];
    let amount = amounts.into_iter().flatten().reduce(f64::min);
    let window_s = [job.duration_ns.map(|ns| ns as f64 / 1e9), amount.map(|bytes| bytes / per_s)];
    // What makes one pass and says no size takes what the machine decides; a minute stands for it.
    let window_s = window_s.into_iter().flatten().reduce(f64::min).unwrap_or(60.0);
    let time_s = window_s + job.warmup_ns as f64 / 1e9;
    let share = (job.write_fraction + job.write_back_fraction + job.zero_fraction).min(1.0);
    let written = time_s * per_s * share;
    Load {
        time_ns: (time_s * 1e9) as u64,
        written_bytes: if job.writes_data() { written as u64 } else { 0 },
        laid_out_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::builtin;

    const SPEED: Speed = Speed { bytes_per_s: 100_000_000, requests_per_s: 1_000 };

    #[track_caller]
    fn load(name: &str, settings: &[(&str, &str)]) -> Load {
        let mut workload = builtin::named(name).expect("built in");
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        workload.apply(&settings.iter().map(own).collect::<Vec<_>>()).expect("valid");
        load_of(&workload, SPEED)
    }

    #[test]
    fn time_and_bytes() {
        let reads = load("randread", &[("duration", "30s"), ("warmup", "5s"), ("size", "4G")]);
        let expected = Load { time_ns: 35_000_000_000, written_bytes: 0, laid_out_bytes: 4 << 30 };
        assert_eq!(reads, expected);
        let writes = load("randwrite", &[("duration", "10s"), ("block_size", "4k")]);
        assert_eq!((writes.time_ns, writes.written_bytes), (10_000_000_000, 40_960_000));
        // An amount ends it earlier.
        let amount = load("seqwrite", &[("duration", "60s"), ("amount", "1GB")]);
        assert_eq!((amount.time_ns, amount.written_bytes), (10_000_000_000, 1_000_000_000));
        let paced = load("randwrite", &[("duration", "10s"), ("rate", "100")]);
        assert_eq!(paced.written_bytes, 4_096_000);
    }
}
