//! What follows a request in turn, before the next one is chosen: a block that was read is written back, or every file
//! is synchronised.

use crate::generator::{Kind, Request};
use crate::plan::JobPlan;
use fathom_base::prng::{Prng, chance_threshold};
use fathom_model::workload::SyncRule;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the threads of a job have issued together, where all files are synchronised after so many requests. A round
/// is due as soon as its requests have been issued, and whichever thread comes next takes the next file of it.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    requests: AtomicU64,
    syncs: AtomicU64,
}

impl Rounds {
    /// The file that is synchronised next; none when no sync is owed.
    fn owed(&self, every: u64, files: u64) -> Option<u32> {
        let due = self.requests.load(Ordering::Relaxed) / every * files;
        let take = |taken: u64| (taken < due).then_some(taken + 1);
        let taken = self.syncs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some((taken % files) as u32)
    }
}

/// What one thread owes after the requests that it has issued.
#[derive(Debug)]
pub(crate) struct InTurn {
    write_back_threshold: u64,
    write_back: Option<Request>,
    /// Which of the blocks that are written back a sync follows: no other writes are there.
    sync: SyncRule,
    writes_since_sync: u32,
    /// Requests of all threads between two rounds of syncs; 0 for none.
    sync_every: u64,
    files: u64,
    first_file: u32,
    rounds: Arc<Rounds>,
}

impl InTurn {
    /// None for jobs in which nothing follows.
    pub fn of(plan: &JobPlan) -> Option<Self> {
        let job = &plan.job;
        let is_asked = job.write_back_fraction > 0.0 || job.sync_all_every.is_some();
        is_asked.then(|| Self {
            write_back_threshold: chance_threshold(job.write_back_fraction),
            write_back: None,
            sync: job.sync,
            writes_since_sync: 0,
            sync_every: u64::from(job.sync_all_every.unwrap_or(0)),
            files: u64::from(job.files),
            first_file: plan.first_file.unwrap_or(0),
            rounds: Arc::clone(&plan.shared.rounds),
        })
    }

    /// True when something has to be issued before anything new.
    pub fn is_owing(&self) -> bool {
        let due = |every| self.rounds.requests.load(Ordering::Relaxed) / every * self.files;
        let is_sync_due = || self.rounds.syncs.load(Ordering::Relaxed) < due(self.sync_every);
        self.write_back.is_some() || (self.sync_every > 0 && is_sync_due())
    }

    /// What has to be issued before anything new; it is none of the requests by which jobs end.
    pub fn owed(&mut self) -> Option<Request> {
        if let Some(request) = self.write_back.take() {
            return Some(request);
        }
        if self.sync_every == 0 {
            return None;
        }
        let file = self.rounds.owed(self.sync_every, self.files)?;
        Some(Request {
            kind: Kind::SyncAll,
            file: self.first_file + file,
            offset_bytes: 0,
            size_bytes: 0,
            sync_after: false,
            begins_transaction: false,
            ends_transaction: false,
        })
    }

    /// A request was chosen: what does it entail?
    pub fn issued(&mut self, request: Request, prng: &mut Prng) {
        let follows = match self.write_back_threshold {
            0 => false,
            u64::MAX => true,
            threshold => prng.chance(threshold),
        };
        if follows && request.kind == Kind::Read {
            let sync_after = self.sync_follows(prng);
            self.write_back = Some(Request { kind: Kind::Write, sync_after, ..request });
        }
        if self.sync_every > 0 {
            self.rounds.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sync_follows(&mut self, prng: &mut Prng) -> bool {
        match self.sync {
            SyncRule::Never => false,
            SyncRule::Fraction(share) => prng.chance(chance_threshold(share)),
            SyncRule::Every(every) => {
                self.writes_since_sync += 1;
                let is_due = self.writes_since_sync >= every;
                if is_due {
                    self.writes_since_sync = 0;
                }
                is_due
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::generator::{Generator, Kind, Request};
    use crate::plan::plan;
    use fathom_base::prng::Prng;
    use fathom_model::keys;
    use fathom_model::workload::Job;

    fn generators(pairs: &[(&str, &str)]) -> Vec<Generator> {
        let mut job = Job::default();
        pairs.iter().for_each(|(key, value)| keys::set(&mut job, key, value).expect(key));
        keys::check(&job).expect("no contradiction");
        let plan = plan(&job, 1 << 20, 512, 7).expect("fits");
        (0..job.threads).map(|thread| Generator::new(&plan, thread, job.threads)).collect()
    }

    fn requests(pairs: &[(&str, &str)]) -> Vec<Request> {
        let mut generator = generators(pairs).swap_remove(0);
        std::iter::from_fn(|| generator.next()).collect()
    }

    #[test]
    fn each_block_is_read_and_written_back_in_one_pass() {
        let all = requests(&[("access", "sequential"), ("write_back_fraction", "1")]);
        assert_eq!(all.len(), 2 * 256);
        for (index, pair) in all.chunks(2).enumerate() {
            let kinds = [pair[0].kind, pair[1].kind];
            assert_eq!(kinds, [Kind::Read, Kind::Write]);
            assert_eq!([pair[0].offset_bytes, pair[1].offset_bytes], [index as u64 * 4096; 2]);
            assert_eq!(pair[0].size_bytes, pair[1].size_bytes);
        }
    }

    #[test]
    fn syncs_follow_what_is_written_back() {
        let counts = |setting: (&str, &str)| {
            let write_back = [("write_back_fraction", "1"), ("operations", "2000")];
            let all = requests(&[&write_back[..], &[setting]].concat());
            let writes: Vec<&Request> = all.iter().filter(|r| r.kind == Kind::Write).collect();
            let reads = all.iter().filter(|r| r.kind == Kind::Read);
            assert!(reads.clone().all(|read| !read.sync_after), "{setting:?}");
            (writes.len(), writes.iter().filter(|write| write.sync_after).count())
        };
        assert_eq!(counts(("fsync_fraction", "1")), (2000, 2000));
        assert_eq!(counts(("fsync_every", "4")), (2000, 500));
        assert_eq!(counts(("fsync_every", "0")), (2000, 0));
        // 500 expected, with a deviation of 19.
        let (writes, syncs) = counts(("fsync_fraction", "0.25"));
        assert!(writes == 2000 && syncs.abs_diff(500) < 100, "{syncs}");
    }

    #[test]
    fn one_read_in_ten_is_written_back() {
        let all = requests(&[("write_back_fraction", "10%"), ("operations", "20000")]);
        let reads = all.iter().filter(|r| r.kind == Kind::Read).count();
        assert_eq!(reads, 20_000);
        // 2000 expected, with a deviation of 42.
        assert!((all.len() - reads).abs_diff(2000) < 200, "{}", all.len());
        for pair in all.windows(2).filter(|pair| pair[1].kind == Kind::Write) {
            assert_eq!((pair[0].kind, pair[0].offset_bytes), (Kind::Read, pair[1].offset_bytes));
        }
    }

    /// sysbench: 128 syncs after each hundred requests, and requests / 100 rounds in all.
    #[test]
    fn every_file_is_synchronised_after_each_hundred_requests() {
        let all = requests(&[
            ("files", "8"),
            ("file_choice", "random"),
            ("write_fraction", "0.4"),
            ("mix", "interleave"),
            ("sync_all_every", "100"),
            ("operations", "1050"),
        ]);
        assert_eq!(all.len(), 1050 + 10 * 8);
        for round in 0..10 {
            let begin = round * 108 + 100;
            let syncs: Vec<(Kind, u32)> =
                all[begin..begin + 8].iter().map(|r| (r.kind, r.file)).collect();
            assert_eq!(syncs, (0..8).map(|file| (Kind::SyncAll, file)).collect::<Vec<_>>());
        }
        assert_eq!(all.iter().filter(|r| r.kind == Kind::Write).count(), 420);
    }

    /// Whoever issues requests, and in whatever order: so many rounds, each over all files, none before its time.
    #[test]
    fn threads_count_their_requests_together() {
        let mut streams = generators(&[
            ("files", "8"),
            ("file_choice", "random"),
            ("write_fraction", "1"),
            ("sync_all_every", "100"),
            ("threads", "3"),
            ("operations", "1050"),
        ]);
        let mut prng = Prng::new(3, 0);
        let (mut writes, mut syncs) = (0u64, Vec::new());
        while !streams.is_empty() {
            let chosen = prng.below(streams.len() as u64) as usize;
            match streams[chosen].next() {
                None => drop(streams.swap_remove(chosen)),
                Some(request) if request.kind == Kind::SyncAll => {
                    syncs.push(request.file);
                    assert!(syncs.len() as u64 <= writes / 100 * 8, "{writes} writes");
                }
                Some(_) => {
                    assert_eq!(syncs.len() as u64, writes / 100 * 8, "before anything new");
                    writes += 1;
                }
            }
        }
        assert_eq!(writes, 1050);
        assert_eq!(syncs, (0..8).cycle().take(10 * 8).collect::<Vec<u32>>());
    }
}
