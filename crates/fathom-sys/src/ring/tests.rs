//! Rings on files of the machine under test.

use super::*;
use std::io::Write;
use std::os::fd::AsFd;

fn scratch() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("fathom-ring-{}-{:p}", std::process::id(), &0));
    let file =
        std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
    std::fs::remove_file(&path).unwrap();
    file.unwrap()
}

fn table(file: &std::fs::File) -> FileTable<'_> {
    FileTable::new(&[file.as_fd()]).unwrap()
}

fn options() -> RingOptions {
    RingOptions { features: supported_features().unwrap(), ..RingOptions::default() }
}

/// Waits for one request and takes it.
fn one(ring: &mut Ring<'_>) -> (u32, i32) {
    assert!(ring.enter(1).unwrap() > 0);
    ring.take().unwrap()
}

#[test]
fn writes_and_reads_what_it_says() {
    let mut file = scratch();
    file.write_all(&[7u8; 16384]).unwrap();
    let options = options();
    let mut ring = Ring::new(table(&file), Arena::new(4, 4096).unwrap(), &options).unwrap();
    ring.buffer_mut(1).fill(9);
    ring.queue(1, 0, IoOp::Write { offset_bytes: 4096, size_bytes: 4096 });
    assert_eq!(one(&mut ring), (1, 4096));
    ring.queue(0, 0, IoOp::Read { offset_bytes: 0, size_bytes: 4096 });
    ring.queue(2, 0, IoOp::Read { offset_bytes: 4096, size_bytes: 4096 });
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.push(one(&mut ring));
    }
    seen.sort_unstable();
    assert_eq!(seen, [(0, 4096), (2, 4096)]);
    assert!(
        ring.buffer_mut(0).iter().all(|b| *b == 7) && ring.buffer_mut(2).iter().all(|b| *b == 9)
    );
    ring.queue(3, 0, IoOp::Fdatasync);
    assert_eq!(one(&mut ring), (3, 0));
    let mut content = vec![0; 16384];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut content, 0).unwrap();
    assert!(content[4096..8192].iter().all(|b| *b == 9) && content[8192..].iter().all(|b| *b == 7));
}

#[test]
fn many_reads_at_once_are_those_one_by_one() {
    let mut file = scratch();
    (0..8).for_each(|block| file.write_all(&[block; 4096]).unwrap());
    for registration in [Registration::Must, Registration::Never] {
        let options = RingOptions { registration, ..options() };
        let mut ring = Ring::new(table(&file), Arena::new(4, 4096).unwrap(), &options).unwrap();
        let reads = [(3, 0), (0, 7 * 4096), (2, 2 * 4096), (1, 5 * 4096)];
        ring.queue_reads(4096, reads.into_iter());
        let mut seen = Vec::new();
        while seen.len() < 4 {
            let ended = ring.enter(1).unwrap() as usize;
            // Room for fewer than have ended, then for more.
            for room in [ended.min(2), 4] {
                let mut ends = [(9, 9); 4];
                let taken = ring.take_many(&mut ends[..room]);
                assert!(taken <= room);
                seen.extend_from_slice(&ends[..taken]);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [(0, 4096), (1, 4096), (2, 4096), (3, 4096)]);
        for (slot, offset_bytes) in reads {
            let block = (offset_bytes / 4096) as u8;
            assert!(ring.buffer_mut(slot).iter().all(|byte| *byte == block));
        }
    }
}

#[test]
fn a_slot_is_not_read_into_twice() {
    let file = scratch();
    file.set_len(8192).unwrap();
    let mut ring = Ring::new(table(&file), Arena::new(2, 4096).unwrap(), &options()).unwrap();
    let twice = std::panic::AssertUnwindSafe(|| {
        ring.queue_reads(4096, [(0, 0), (1, 0), (1, 4096)].into_iter());
    });
    let said = std::panic::catch_unwind(twice).unwrap_err();
    assert_eq!(said.downcast_ref::<String>().unwrap(), "slot 1 is in flight");
}

#[test]
fn errors_come_back_as_negative_errno() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let mut ring =
        Ring::new(table(&file), Arena::new(1, 4096).unwrap(), &RingOptions::default()).unwrap();
    ring.queue(0, 0, IoOp::Write { offset_bytes: 0, size_bytes: 512 });
    assert_eq!(one(&mut ring), (0, -libc::EBADF));
    assert_eq!(ring.take(), None);
}

#[test]
fn more_requests_than_one_enter_takes() {
    let file = scratch();
    file.set_len(1 << 20).unwrap();
    let options = options();
    let mut ring = Ring::new(table(&file), Arena::new(256, 4096).unwrap(), &options).unwrap();
    (0..256).for_each(|s| {
        ring.queue(s, 0, IoOp::Read { offset_bytes: u64::from(s) * 4096, size_bytes: 4096 })
    });
    let mut ended = 0;
    while ended < 256 {
        let ready = ring.enter(1).unwrap();
        assert!(ready > 0);
        (0..ready).for_each(|_| assert_eq!(ring.take().unwrap().1, 4096));
        ended += ready;
    }
}

/// Writes as many blocks as there are slots, then reads them back, in one batch each.
fn goes_round(options: &RingOptions) -> Vec<String> {
    const SLOTS: u32 = 24;
    let file = scratch();
    let arena = Arena::new(SLOTS as usize, 4096).unwrap();
    let mut ring = Ring::new(table(&file), arena, options).unwrap();
    for round in 0..2 {
        for slot in 0..SLOTS {
            let (offset_bytes, size_bytes) = (u64::from(slot) * 4096, 4096);
            ring.buffer_mut(slot).fill(if round == 0 { slot as u8 } else { 0xFF });
            let write = IoOp::Write { offset_bytes, size_bytes };
            let read = IoOp::Read { offset_bytes, size_bytes };
            ring.queue(slot, 0, if round == 0 { write } else { read });
        }
        let mut ended = 0;
        while ended < SLOTS {
            let ready = ring.enter((SLOTS - ended).min(5)).unwrap();
            assert!(ready > 0);
            (0..ready).for_each(|_| assert_eq!(ring.take().unwrap().1, 4096));
            ended += ready;
        }
    }
    for slot in 0..SLOTS {
        assert!(ring.buffer_mut(slot).iter().all(|b| *b == slot as u8), "slot {slot}");
    }
    ring.features().to_vec()
}

#[test]
fn every_way_to_hand_over_does_the_same_work() {
    let has = |features: &[String], word: &str| features.iter().any(|f| f == word);
    let plain = goes_round(&options());
    assert!(has(&plain, "registered_file") && has(&plain, "registered_ring"), "{plain:?}");
    let unregistered = goes_round(&RingOptions { registration: Registration::Never, ..options() });
    assert!(!unregistered.iter().any(|f| f.starts_with("registered")), "{unregistered:?}");
    let parts = goes_round(&RingOptions { submit_max: Some(5), ..options() });
    assert!(has(&parts, "batch_submit=5"));
    for registration in [Registration::Must, Registration::Never] {
        let thread = goes_round(&RingOptions { sqpoll: true, registration, ..options() });
        assert!(has(&thread, "sqpoll") && !has(&thread, "defer_taskrun"), "{thread:?}");
    }
}

/// Threads of the kernel that submit for a ring of this process.
fn submitting_threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    // Threads of other tests end meanwhile.
    let name = |entry: std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default()
    };
    names.flatten().map(name).filter(|name| name.starts_with("iou-sqp")).count()
}

#[test]
fn a_submitting_thread_is_a_thread_of_this_process_and_ends_with_its_ring() {
    let file = scratch();
    let options = RingOptions { sqpoll: true, ..options() };
    let ring = Ring::new(table(&file), Arena::new(1, 512).unwrap(), &options).unwrap();
    // It takes its name when it first runs.
    let is_seen = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        submitting_threads() >= 1
    });
    assert!(is_seen, "its CPU time is the process's");
    drop(ring);
}

#[test]
fn dropped_with_requests_queued_and_in_flight() {
    for sqpoll in [false, true] {
        let file = scratch();
        file.set_len(1 << 20).unwrap();
        let options = RingOptions { sqpoll, ..options() };
        for handed_over in [false, true] {
            let arena = Arena::new(64, 4096).unwrap();
            let mut ring = Ring::new(table(&file), arena, &options).unwrap();
            for slot in 0..64 {
                let offset_bytes = u64::from(slot) * 4096;
                ring.queue(slot, 0, IoOp::Read { offset_bytes, size_bytes: 4096 });
            }
            if handed_over {
                ring.enter(1).unwrap();
            }
            assert!(ring.drain(), "sqpoll {sqpoll}, handed over {handed_over}");
        }
    }
}

#[test]
fn a_buffered_file_cannot_be_polled() {
    let file = scratch();
    file.set_len(4096).unwrap();
    let options = RingOptions { polled: true, ..options() };
    let error = probe_read(file.as_fd(), 4096, &options).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
    probe_read(file.as_fd(), 4096, &RingOptions::default()).unwrap();
}

/// A thread's table of registered rings has sixteen places.
#[test]
fn rings_of_one_thread_make_room_for_later_ones() {
    let file = scratch();
    for round in 0..40 {
        let ring = Ring::new(table(&file), Arena::new(1, 4096).unwrap(), &options()).unwrap();
        assert!(ring.features().iter().any(|f| f == "registered_ring"), "ring {round}");
    }
}

/// A wait with a limit ends by the limit or by what ends first, whichever way the kernel has: that of kernels before 5.11
/// is injected.
#[test]
fn a_wait_with_a_limit_ends_by_either() {
    const LIMIT_NS: u64 = 50_000_000;
    for (sqpoll, has_time_limit) in [(false, true), (false, false), (true, true), (true, false)] {
        let what = format!("sqpoll {sqpoll}, time limit {has_time_limit}");
        let (reader, mut writer) = std::io::pipe().unwrap();
        let features = if has_time_limit { options().features } else { Vec::new() };
        let options = RingOptions { features, sqpoll, ..RingOptions::default() };
        let files = FileTable::new(&[reader.as_fd()]).unwrap();
        let mut ring = Ring::new(files, Arena::new(1, 512).unwrap(), &options).unwrap();
        ring.has_time_limit &= has_time_limit;
        let waits = |ring: &mut Ring<'_>, limit_ns| {
            let begin = std::time::Instant::now();
            (ring.enter_for(1, limit_ns).unwrap(), begin.elapsed())
        };
        let (ended, took) = waits(&mut ring, LIMIT_NS);
        assert!(ended == 0 && took >= Duration::from_nanos(LIMIT_NS), "{what}: nothing in flight");
        ring.queue(0, 0, IoOp::Read { offset_bytes: 0, size_bytes: 512 });
        let (ended, took) = waits(&mut ring, LIMIT_NS);
        assert!(ended == 0 && took >= Duration::from_nanos(LIMIT_NS), "{what}: {ended}, {took:?}");
        assert_eq!(ring.enter_for(1, 0).unwrap(), 0, "{what}: a look");
        let writes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            writer.write_all(&[3; 512]).unwrap();
            writer
        });
        let (ended, took) = waits(&mut ring, 600_000_000_000);
        assert!(ended == 1 && took < Duration::from_secs(300), "{what}: {ended}, {took:?}");
        assert_eq!(ring.take(), Some((0, 512)), "{what}");
        drop(writes.join());
    }
}
