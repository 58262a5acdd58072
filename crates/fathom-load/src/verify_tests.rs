//! Parts of threads, stored plans, marks. What verification finds is shown by the kernel tests.

use super::*;
use crate::generator::Kind;
use crate::plan::plan;
use fathom_base::ledger::Region;
use fathom_model::keys;

fn planned(pairs: &[(&str, &str)], target_bytes: u64) -> JobPlan {
    let mut job = Job { duration_ns: Some(1), write_fraction: 1.0, ..Job::default() };
    pairs.iter().for_each(|(key, value)| keys::set(&mut job, key, value).unwrap());
    plan(&job, target_bytes, 512, 7).unwrap()
}

fn granule(pairs: &[(&str, &str)]) -> (u64, u32) {
    let verify = planned(pairs, 64 << 20).verify.unwrap();
    (verify.granule_bytes, verify.unit_bytes)
}

#[test]
fn granules_divide_all_that_is_written() {
    let after = ("verify", "after");
    assert_eq!(granule(&[after, ("block_size", "1M")]), (1 << 20, 4096));
    assert_eq!(granule(&[after, ("block_size", "4k:1,16k:1")]), (4096, 4096));
    assert_eq!(granule(&[after, ("block_size", "4k"), ("align", "512")]), (512, 512));
    assert_eq!(granule(&[after, ("block_size", "3k")]), (3072, 1024));
    assert_eq!(granule(&[after, ("block_size", "64k"), ("offset", "4k")]), (4096, 4096));
    assert_eq!(granule(&[after, ("block_size", "8k-64k")]), (8192, 4096));
    assert!(planned(&[("block_size", "4k")], 1 << 20).verify.is_none());
}

/// All kinds of jobs: parts do not overlap, lie in the range, every write fills whole granules of its thread's region
/// and no more, and amounts and operations add up.
#[test]
fn threads_keep_to_their_parts() {
    let jobs: [&[(&str, &str)]; 8] = [
        &[("block_size", "4k")],
        &[("block_size", "4k:1,64k:1"), ("access", "shuffled")],
        &[("block_size", "12k"), ("offset", "8k"), ("distribution", "zipf:1.1")],
        &[("block_size", "64k"), ("access", "sequential"), ("amount", "5M")],
        &[("block_size", "4k"), ("access", "reverse"), ("operations", "1001")],
        &[("block_size", "4k"), ("access", "strided"), ("stride", "64k")],
        &[("block_size", "1M"), ("align", "512")],
        &[("block_size", "512-4k"), ("write_block_size", "1k"), ("operations", "100")],
    ];
    for pairs in jobs {
        for threads in [1, 2, 3, 7] {
            let threads_text = format!("{threads}");
            let pairs = [pairs, &[("verify", "after"), ("threads", &threads_text)]].concat();
            let plan = planned(&pairs, 20_000_768);
            let granule_bytes = plan.verify.as_ref().unwrap().granule_bytes;
            let (mut end, mut operations, mut amount) = (plan.start_bytes, 0, 0);
            for thread in 0..threads {
                let part = own_part(&plan, granule_bytes, thread, threads);
                let region = region_of(&part, granule_bytes);
                assert_eq!(part.start_bytes, end, "{pairs:?}");
                end = part.start_bytes + part.length_bytes;
                operations += part.job.operations.unwrap_or(0);
                amount += part.amount_bytes.unwrap_or(0);
                let mut ledger = Ledger::new(region, u64::MAX).unwrap();
                let mut requests = generator(&plan, thread, threads);
                for request in std::iter::from_fn(|| requests.next()).take(2000) {
                    let (at, size) = (request.offset_bytes, u64::from(request.size_bytes));
                    ledger.issued(Change::write(at, size)).unwrap();
                    assert!(at >= region.start_bytes, "{pairs:?}");
                    let region_end = region.start_bytes + region.length_bytes;
                    assert!(at + size <= region_end, "{pairs:?}: {at} + {size} of {region:?}");
                }
            }
            assert_eq!(end, plan.start_bytes + plan.length_bytes);
            assert_eq!(operations, plan.job.operations.unwrap_or(0));
            assert_eq!(amount, plan.amount_bytes.unwrap_or(0));
        }
    }
}

/// With several files: each place of each file belongs to one thread, and requests keep to it.
#[test]
fn threads_keep_to_their_files() {
    let jobs: [&[(&str, &str)]; 7] = [
        &[("block_size", "4k")],
        &[("block_size", "4k:1,64k:1"), ("file_choice", "random")],
        &[("block_size", "64k"), ("access", "sequential"), ("file_choice", "sequential")],
        &[("block_size", "64k"), ("access", "sequential"), ("amount", "3M")],
        &[("block_size", "12k"), ("access", "shuffled")],
        &[("block_size", "4k"), ("sync_all_every", "10"), ("operations", "100")],
        &[("block_size", "4k"), ("write_fraction", "0.5"), ("trim_fraction", "0.5")],
    ];
    for pairs in jobs {
        for (files, threads) in [(2_u32, 1), (2, 2), (2, 5), (3, 2), (7, 3), (5, 5), (3, 7)] {
            let counts = [("files", files.to_string()), ("threads", threads.to_string())];
            let counts: Vec<(&str, &str)> = counts.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let pairs = [pairs, &[("verify", "after")], &counts[..]].concat();
            let plan = planned(&pairs, 1_000_448);
            let granule_bytes = plan.verify.as_ref().unwrap().granule_bytes;
            let pieces = plan.length_bytes / granule_bytes;
            let mut owner = vec![None; (u64::from(files) * pieces) as usize];
            let (mut amount, mut operations) = (0, 0);
            for thread in 0..threads {
                let part = own_part(&plan, granule_bytes, thread, threads);
                let region = region_of(&part, granule_bytes);
                amount += part.amount_bytes.unwrap_or(0);
                operations += part.job.operations.unwrap_or(0);
                for file in region.files() {
                    for at in (0..region.length_bytes).step_by(granule_bytes as usize) {
                        let piece = (region.start_bytes + at) / granule_bytes;
                        let place = (u64::from(file) * pieces + piece) as usize;
                        assert_eq!(owner[place].replace(thread), None, "{pairs:?}");
                    }
                }
                let mut requests = generator(&plan, thread, threads);
                let mut seen = 0;
                for request in std::iter::from_fn(|| requests.next()).take(2000) {
                    seen += 1;
                    assert!(region.files().contains(&request.file), "{pairs:?}: {request:?}");
                    let (at, size) = (request.offset_bytes, u64::from(request.size_bytes));
                    let end = region.start_bytes + region.length_bytes;
                    let is_inside = at >= region.start_bytes && at + size <= end;
                    assert!(request.kind == Kind::SyncAll || is_inside, "{pairs:?}: {request:?}");
                }
                assert!(seen > 0, "{pairs:?}");
            }
            assert!(owner.iter().all(Option::is_some), "{pairs:?}");
            assert_eq!(amount, plan.amount_bytes.unwrap_or(0), "{pairs:?}");
            assert_eq!(operations, plan.job.operations.unwrap_or(0), "{pairs:?}");
        }
    }
}

/// One pass over all files writes each block once, however threads and files divide.
#[test]
fn one_pass_is_one_for_every_thread() {
    for (files, threads) in [(1, 3), (2, 5), (3, 2), (4, 4), (7, 3)] {
        for choice in [None, Some("round_robin"), Some("sequential")] {
            // 15 whole blocks of each file; the rest is left out.
            let texts = [files, threads, files * 15 * 65536].map(|number| number.to_string());
            let mut pairs =
                vec![("verify", "after"), ("access", "sequential"), ("block_size", "64k")];
            pairs.extend(
                ["files", "threads", "amount"].into_iter().zip(texts.iter().map(|t| &t[..])),
            );
            pairs.extend(choice.filter(|_| files > 1).map(|choice| ("file_choice", choice)));
            let plan = planned(&pairs, 1_000_448);
            assert_eq!(plan.length_bytes, 15 * 65536);
            let mut written = std::collections::BTreeMap::new();
            for thread in 0..threads {
                let mut requests = generator(&plan, thread as u32, threads as u32);
                for request in std::iter::from_fn(|| requests.next()).take(1000) {
                    *written.entry((request.file, request.offset_bytes)).or_insert(0) += 1;
                }
            }
            assert_eq!(written.len() as u64, files * 15, "{pairs:?}");
            assert!(written.values().all(|&count| count == 1), "{pairs:?}");
        }
    }
}

#[test]
fn each_thread_of_a_shared_file_needs_room() {
    let mut job = Job { duration_ns: Some(1), write_fraction: 1.0, ..Job::default() };
    for (key, value) in
        [("verify", "after"), ("block_size", "64k"), ("threads", "3"), ("files", "2")]
    {
        keys::set(&mut job, key, value).unwrap();
    }
    // Two threads share the first file.
    assert!(plan(&job, 128 << 10, 512, 7).is_ok());
    let error = plan(&job, 127 << 10, 512, 7).unwrap_err().to_string();
    assert!(error.contains("fewer threads"), "{error}");
    let planned = plan(&job, 128 << 10, 512, 7).unwrap();
    assert!(has_room(&planned, 4) && !has_room(&planned, 5));
}

/// What a crash leaves is worked out from the marks of each file, with the requests made again.
#[test]
fn marks_of_several_files_are_enough_after_a_crash() {
    let pairs = [("verify", "crash"), ("fsync_every", "3"), ("files", "5"), ("threads", "2")];
    // In turn, it would always be the same file whose turn a sync is.
    let pairs = [&pairs[..], &[("file_choice", "random")]].concat();
    let mut plan = planned(&pairs, 256 << 10);
    plan.verify.as_mut().unwrap().target_id = 99;
    for thread in 0..2 {
        let part = own_part(&plan, 4096, thread, 2);
        let mut ledger = Ledger::new(region_of(&part, 4096), u64::MAX).unwrap();
        let mut requests = generator(&plan, thread, 2);
        let (mut marks, mut written) = (BTreeMap::new(), 0);
        for request in std::iter::from_fn(|| requests.next()).take(1000) {
            let write = Change::write(request.offset_bytes, u64::from(request.size_bytes));
            let generation = ledger.issued(Change { file: request.file, ..write }).unwrap();
            ledger.completed(generation, false);
            written += 1;
            if request.sync_after {
                let token = ledger.sync_issued(request.file);
                ledger.synced(token);
                marks.insert(request.file, ledger.mark(request.file).unwrap());
            }
        }
        let known = as_of(&plan, (thread, 2), &marks, u64::MAX).unwrap().unwrap();
        assert!(known.durable_writes > written / 2, "{}", known.durable_writes);
        assert_eq!((known.format.identity().0, known.format.files()), (99, 5));
        ledger.crash(false);
        let region = ledger.region();
        for file in region.files() {
            for at in (0..region.length_bytes).step_by(4096) {
                let (was, is) = (ledger.expect(file, at), known.ledger.expect(file, at));
                let least = |legal: Option<Legal>| legal.unwrap().min_generation;
                assert_eq!(least(is), least(was), "file {file}, offset {at}");
            }
        }
    }
}

#[test]
fn a_stored_plan_makes_the_same_requests() {
    let pairs =
        [("verify", "crash"), ("fsync_every", "3"), ("threads", "3"), ("block_size", "4k:1,8k:1")];
    let mut plan = planned(&pairs, 32 << 20);
    plan.verify.as_mut().unwrap().target_id = 99;
    let text = serde_json::to_string(&StoredPlan::of(&plan).unwrap()).unwrap();
    let again = serde_json::from_str::<StoredPlan>(&text).unwrap().plan().unwrap();
    assert_eq!(again.verify.as_ref().unwrap().target_id, 99);
    for thread in 0..3 {
        let stream = |plan| {
            let mut requests = generator(plan, thread, 3);
            std::iter::from_fn(move || requests.next()).take(1000).collect::<Vec<_>>()
        };
        assert_eq!(stream(&plan), stream(&again));
    }
}

#[test]
fn marks_are_the_latest_of_each_ledger() {
    let region = Region { files: 2, ..Region::of_one(0, 4096, 512) };
    let mut ledger = Ledger::new(region, u64::MAX).unwrap();
    let marks = Marks::default();
    let id = BookId { job: 1, thread: 2 };
    for file in [0, 1, 0] {
        let generation = ledger.issued(Change { file, ..Change::write(0, 512) }).unwrap();
        ledger.completed(generation, true);
        marks.put(id, ledger.mark(file).unwrap());
    }
    let taken = marks.take(Duration::ZERO);
    assert_eq!(taken.len(), 1);
    let last: Vec<(u32, u64)> =
        taken[&id].iter().map(|(file, mark)| (*file, mark.last_generation)).collect();
    assert_eq!(last, [(0, 3), (1, 2)]);
    assert!(marks.take(Duration::ZERO).is_empty());
}

/// A read that meets a write may find the front of one and the end of another: no mismatch. The same content without a
/// write that it could have met is one.
#[test]
fn a_read_that_meets_a_write_may_be_torn() {
    let plan = planned(&[("verify", "during"), ("block_size", "4k")], 1 << 20);
    let id = BookId { job: 0, thread: 0 };
    let content = |verifier: &Verifier, generation| {
        let mut buffer = vec![0; 4096];
        verifier.book.format.on(0).fill(&mut buffer, 0, generation);
        buffer
    };
    let write =
        |verifier: &mut Verifier| verifier.book.ledger.issued(Change::write(0, 4096)).unwrap();
    // When the write that the read meets is issued and when it ends, beside the read's own: before it, in it, after it.
    for (issued_before, ended_before) in
        [(true, false), (true, true), (false, false), (false, true)]
    {
        let mut verifier = Verifier::new(&plan, id, 1, 1).unwrap().unwrap();
        let first = write(&mut verifier);
        verifier.book.ledger.completed(first, false);
        let mut second = issued_before.then(|| write(&mut verifier));
        let _ = verifier.read(0, 0, 0, 4096);
        let generation = *second.get_or_insert_with(|| write(&mut verifier));
        if ended_before {
            verifier.book.ledger.completed(generation, false);
        }
        let mut torn = content(&verifier, first);
        torn[..44].copy_from_slice(&content(&verifier, generation)[..44]);
        verifier.check(0, 0, 0, &torn);
        let book = verifier.book;
        assert_eq!((book.mismatches.count, book.checked_bytes, book.skipped_bytes), (0, 0, 4096));
    }
    let mut verifier = Verifier::new(&plan, id, 1, 1).unwrap().unwrap();
    for _ in 0..2 {
        let generation = write(&mut verifier);
        verifier.book.ledger.completed(generation, false);
    }
    let mut torn = content(&verifier, 1);
    torn[..44].copy_from_slice(&content(&verifier, 2)[..44]);
    let _ = verifier.read(0, 0, 0, 4096);
    verifier.check(0, 0, 0, &torn);
    assert_eq!((verifier.book.mismatches.count, verifier.book.checked_bytes), (1, 4096));
}

/// A block that is whole, and was overwritten before the read was issued, is wrong also where the read meets a write. Of
/// two writes at once the earlier one's end decides what was.
#[test]
fn a_read_that_meets_a_write_finds_nothing_that_was_gone() {
    let plan = planned(&[("verify", "during"), ("block_size", "4k")], 1 << 20);
    let write =
        |verifier: &mut Verifier| verifier.book.ledger.issued(Change::write(0, 4096)).unwrap();
    for (has_ended, found, wanted) in [
        (false, 1, (0, 4096, 0)),
        (true, 1, (1, 4096, 0)),
        (true, 2, (0, 4096, 0)),
        (true, 3, (0, 4096, 0)),
        (true, 4, (1, 4096, 0)),
    ] {
        let mut verifier =
            Verifier::new(&plan, BookId { job: 0, thread: 0 }, 1, 1).unwrap().unwrap();
        let first = write(&mut verifier);
        verifier.book.ledger.completed(first, false);
        let [second, _] = [0, 1].map(|_| write(&mut verifier));
        if has_ended {
            verifier.book.ledger.completed(second, false);
        }
        let _ = verifier.read(0, 0, 0, 4096);
        let mut block = vec![0; 4096];
        verifier.book.format.on(0).fill(&mut block, 0, found);
        verifier.check(0, 0, 0, &block);
        let Book { mismatches, checked_bytes, skipped_bytes, .. } = verifier.book;
        assert_eq!((mismatches.count, checked_bytes, skipped_bytes), wanted, "{has_ended} {found}");
    }
}

/// Where a failed write, a trim or nobody's sync leaves all open, what is not wrong was not checked; a wrong bit is found.
#[test]
fn what_a_read_cannot_judge_is_counted_as_skipped() {
    let plan = planned(&[("verify", "during"), ("block_size", "4k")], 1 << 20);
    let change = |verifier: &mut Verifier, kind| {
        let change = Change { kind, ..Change::write(0, 4096) };
        verifier.book.ledger.issued(change).unwrap()
    };
    for (kind, fails, is_damaged, wanted) in [
        (ChangeKind::Write, false, false, (0, 4096, 0)),
        (ChangeKind::Write, true, false, (0, 0, 4096)),
        (ChangeKind::Write, true, true, (1, 4096, 0)),
        (ChangeKind::Trim, false, true, (0, 0, 4096)),
        (ChangeKind::Zero, false, false, (1, 4096, 0)),
    ] {
        let mut verifier =
            Verifier::new(&plan, BookId { job: 0, thread: 0 }, 1, 1).unwrap().unwrap();
        let generation = change(&mut verifier, kind);
        match fails {
            true => verifier.book.ledger.failed(generation),
            false => verifier.book.ledger.completed(generation, false),
        }
        let _ = verifier.read(0, 0, 0, 4096);
        let mut block = vec![0; 4096];
        verifier.book.format.on(0).fill(&mut block, 0, generation);
        block[1000] ^= u8::from(is_damaged);
        verifier.check(0, 0, 0, &block);
        let Book { mismatches, checked_bytes, skipped_bytes, .. } = verifier.book;
        assert_eq!((mismatches.count, checked_bytes, skipped_bytes), wanted, "{kind:?} {fails}");
    }
    // Never written: neither.
    let mut verifier = Verifier::new(&plan, BookId { job: 0, thread: 0 }, 1, 1).unwrap().unwrap();
    let _ = verifier.read(0, 0, 0, 4096);
    verifier.check(0, 0, 0, &[7; 4096]);
    let Book { mismatches, checked_bytes, skipped_bytes, .. } = verifier.book;
    assert_eq!((mismatches.count, checked_bytes, skipped_bytes), (0, 0, 0));
}
