//! What a storage can save of what a job wrote: its writes are made again after the run, from the same seed, and
//! compressed and compared by means that know nothing of how they were made. The measured loop has no part in it.

use crate::generator::{Generator, Kind};
use crate::payload::{duplicate_unit_bytes, filler};
use crate::plan::{JobPlan, Shared};
use fathom_model::payload::DeliveredRecord;
use std::collections::HashSet;

/// Units that are looked at, over all threads: the share of duplicates among so many is within a point of that of all.
const UNITS: usize = 8192;
/// What is made and compared of a unit, and what is compressed as one piece.
const PIECE_BYTES: usize = 4096;
/// Requests that are gone through for them: writes may be rare.
const REQUESTS_MAX: u64 = 1 << 20;

/// The shares that a job delivered, from the first writes of each thread; `operations` are those that each thread ended.
/// None for a job that did not ask for a share, or has not written.
///
/// Duplicates are units (the largest power of two that every write fills) whose first 4 KiB came before. What is left
/// without them is compressed by lz4, each 4 KiB for itself. Threads that share a position (`cursor=job`) are taken for
/// themselves: which of them had which place is not known any more, and neither share depends on it.
#[must_use]
pub fn delivered(plan: &JobPlan, operations: &[u64]) -> Option<DeliveredRecord> {
    let job = &plan.job;
    if job.compressible == 0.0 && job.duplicate == 0.0 {
        return None;
    }
    let filler = filler(job, plan.seed).ok()??;
    // The run has moved what its threads shared.
    let plan = &JobPlan { shared: Shared::default(), ..plan.clone() };
    let unit_bytes = u64::from(duplicate_unit_bytes(job));
    let threads = u32::try_from(operations.len()).ok()?;
    let each = UNITS.div_ceil(operations.len().max(1));
    let mut piece = vec![0; PIECE_BYTES.min(unit_bytes as usize)];
    let mut units = 0;
    let (mut different, mut bytes) = (HashSet::new(), Vec::new());
    for (thread, operations) in (0..threads).zip(operations) {
        let requests = (*operations).min(REQUESTS_MAX / u64::from(threads));
        let left = UNITS.saturating_sub(units).min(each);
        for (offset_bytes, generation) in
            writes(plan, (thread, threads), requests, unit_bytes).take(left)
        {
            filler.fill(&mut piece, offset_bytes, generation);
            units += 1;
            if different.insert(piece.clone()) {
                bytes.extend_from_slice(&piece);
            }
        }
    }
    if units == 0 {
        return None;
    }
    Some(DeliveredRecord {
        compressible: saved_share(&bytes),
        duplicate: 1.0 - different.len() as f64 / units as f64,
        units: units as u64,
        unit_bytes,
    })
}

/// The whole units that a thread's first requests write, as (offset, generation): generations count a thread's writes.
fn writes(
    plan: &JobPlan,
    (thread, threads): (u32, u32),
    requests: u64,
    unit_bytes: u64,
) -> impl Iterator<Item = (u64, u64)> {
    let mut generator = Generator::new(plan, thread, threads);
    let mut generation = crate::payload::first_generation(thread);
    let requests = std::iter::from_fn(move || generator.next()).take(requests as usize);
    requests.filter(|request| request.kind == Kind::Write).flat_map(move |write| {
        generation += 1;
        let end_bytes = write.offset_bytes + u64::from(write.size_bytes);
        let first = write.offset_bytes.next_multiple_of(unit_bytes);
        let whole = move |at: &u64| at + unit_bytes <= end_bytes;
        let own = generation;
        (first..end_bytes).step_by(unit_bytes as usize).filter(whole).map(move |at| (at, own))
    })
}

/// Share of the bytes that lz4 saves, each 4 KiB for itself.
fn saved_share(bytes: &[u8]) -> f64 {
    let saved = |piece: &[u8]| piece.len().saturating_sub(lz4_flex::block::compress(piece).len());
    bytes.chunks(PIECE_BYTES).map(saved).sum::<usize>() as f64 / bytes.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use fathom_model::keys;
    use fathom_model::workload::Job;

    fn of(pairs: &[(&str, &str)], operations: &[u64]) -> Option<DeliveredRecord> {
        let mut job = Job { write_fraction: 1.0, duration_ns: Some(1), ..Job::default() };
        job.threads = operations.len() as u32;
        pairs.iter().for_each(|(key, value)| keys::set(&mut job, key, value).expect(key));
        delivered(&plan(&job, 1 << 30, 512, 7).expect("fits"), operations)
    }

    #[test]
    fn what_was_asked_for_is_delivered_within_two_points() {
        for (compressible, duplicate) in [(0.5, 0.3), (0.25, 0.0), (0.0, 0.75), (0.9, 0.1)] {
            let shares = [compressible.to_string(), duplicate.to_string()];
            let asked = [("compressible", shares[0].as_str()), ("duplicate", &shares[1])];
            for shape in [
                &[("block_size", "4k")][..],
                &[("block_size", "512")],
                &[("block_size", "64k"), ("access", "sequential")],
                &[("block_size", "4k:1,64k:1"), ("write_fraction", "0.3")],
            ] {
                let found = of(&[&asked[..], shape].concat(), &[20_000, 20_000]).expect("asked");
                let off = [found.compressible - compressible, found.duplicate - duplicate];
                assert!(off.iter().all(|off| off.abs() <= 0.02), "{asked:?} {shape:?}: {found:?}");
                assert_eq!(found.units, UNITS as u64);
            }
        }
    }

    #[test]
    fn only_what_was_written_counts() {
        assert_eq!(of(&[], &[1000]), None, "nothing was asked for");
        let asked = [("compressible", "50%")];
        assert_eq!(of(&asked, &[0]), None);
        assert_eq!(of(&asked, &[10, 3]).expect("some").units, 13);
    }
}
