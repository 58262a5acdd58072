//! Every engine against the same model: random requests, byte for byte.

use super::libaio::Libaio;
use super::mmap::Mmap;
use super::psync::Psync;
use super::uring::{self, Uring};
use crate::engine::{Engine, Op};
use fathom_base::prng::Prng;
use fathom_model::keys;
use fathom_model::workload::{EngineKind, Job};
use fathom_sys::arena::Arena;
use fathom_sys::io::{OpenMode, open_existing};
use fathom_sys::request::{FileTable, OpKind};
use fathom_sys::ring;
use fathom_testkit::{counted, sample};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// Bytes of each file, in sectors.
const SECTORS: u64 = 512;
const SECTOR_BYTES: u64 = 512;
/// Sectors of the largest request.
const LARGEST: u64 = 24;

/// A file on the disk that holds the build, open as asked; it has no name any more.
fn file(number: usize, content: &[u8], direct: bool) -> File {
    let path = std::env::current_exe().expect("a program").with_file_name(format!(
        "engine-{}-{:?}-{number}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&path, content).expect("the directory of the build");
    let opened = open_existing(&path, OpenMode { write: true, direct, ..OpenMode::default() });
    std::fs::remove_file(&path).expect("just made");
    opened.expect("direct I/O on the build's disk")
}

/// One request in flight with what it must bring.
#[derive(Clone)]
struct Pending {
    op: Op,
    sectors: Vec<(u32, u64)>,
    expected: Vec<u8>,
}

struct Exercise<'e, E> {
    engine: &'e mut E,
    models: Vec<Vec<u8>>,
    slots: Vec<Option<Pending>>,
    busy: BTreeSet<(u32, u64)>,
    prng: Prng,
}

impl<E: Engine> Exercise<'_, E> {
    /// Issues a random request that overlaps none in flight, so that its outcome is known.
    fn issue(&mut self, slot: u32) {
        let kind = OpKind::ALL[self.prng.below(OpKind::ALL.len() as u64) as usize];
        let file = self.prng.below(self.models.len() as u64) as u32;
        let count = 1 + self.prng.below(LARGEST);
        let first = self.prng.below(SECTORS - count + 1);
        let sectors: Vec<(u32, u64)> = (first..first + count).map(|s| (file, s)).collect();
        if sectors.iter().any(|s| self.busy.contains(s)) {
            return;
        }
        let (offset_bytes, size_bytes) = (first * SECTOR_BYTES, (count * SECTOR_BYTES) as u32);
        let range = offset_bytes as usize..offset_bytes as usize + size_bytes as usize;
        let model = &mut self.models[file as usize][range];
        let op = match kind {
            OpKind::Read => Op::Read { offset_bytes, size_bytes },
            OpKind::Write => {
                let buffer = &mut self.engine.buffer_mut(slot)[..size_bytes as usize];
                self.prng.fill(buffer);
                model.copy_from_slice(buffer);
                Op::Write { offset_bytes, size_bytes }
            }
            OpKind::Trim => Op::Trim { offset_bytes, size_bytes },
            OpKind::Zero => Op::Zero { offset_bytes, size_bytes },
            OpKind::SyncRange => Op::SyncRange { offset_bytes, size_bytes },
            OpKind::Fsync => Op::Fsync,
            OpKind::Fdatasync => Op::Fdatasync,
        };
        if matches!(kind, OpKind::Trim | OpKind::Zero) {
            model.fill(0);
        }
        let expected = if kind == OpKind::Read { model.to_vec() } else { Vec::new() };
        self.busy.extend(&sectors);
        self.slots[slot as usize] = Some(Pending { op, sectors, expected });
        self.engine.queue(slot, file, op);
    }

    fn in_flight(&self) -> u32 {
        self.slots.iter().flatten().count() as u32
    }

    fn reap(&mut self, wait_for: u32) {
        let ended = self.engine.run(wait_for).expect("a working engine");
        assert!(ended >= 1 && ended <= self.in_flight(), "{ended} ends");
        for _ in 0..ended {
            let (slot, result) = self.engine.take().expect("announced");
            let pending = self.slots[slot as usize].take().expect("in flight");
            assert_eq!(result, pending.op.moved_bytes() as i32, "{:?}", pending.op);
            if !pending.expected.is_empty() {
                let size = pending.expected.len();
                let read = &self.engine.buffer_mut(slot)[..size];
                assert!(read == pending.expected, "{:?} read something else", pending.op);
            }
            pending.sectors.iter().for_each(|s| assert!(self.busy.remove(s)));
        }
    }

    fn run(mut self, requests: u64) -> Vec<Vec<u8>> {
        for _ in 0..requests {
            let free = (0..self.slots.len()).filter(|s| self.slots[*s].is_none());
            free.collect::<Vec<_>>().into_iter().for_each(|slot| self.issue(slot as u32));
            let in_flight = self.in_flight();
            if in_flight > 0 {
                let wait_for = 1 + self.prng.below(u64::from(in_flight)) as u32;
                self.reap(wait_for);
            }
        }
        while self.in_flight() > 0 {
            self.reap(1);
        }
        assert_eq!(self.engine.take(), None);
        self.models
    }
}

/// Runs random requests of a job's engine on three files; the files must then hold what the model holds. Returns what
/// the engine used.
fn agrees(pairs: &[(&str, &str)], seed: u64, requests: u64) -> Vec<String> {
    let mut job = Job::default();
    pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
    let mut prng = Prng::new(seed, 0);
    let mut models = vec![vec![0; (SECTORS * SECTOR_BYTES) as usize]; 3];
    models.iter_mut().for_each(|content| prng.fill(content));
    let files: Vec<File> =
        models.iter().enumerate().map(|(i, content)| file(i, content, job.direct)).collect();
    let fds: Vec<BorrowedFd<'_>> = files.iter().map(File::as_fd).collect();
    let table = FileTable::new(&fds).expect("three files");
    let depth = job.depth as usize;
    let arena = Arena::new(depth, (LARGEST * SECTOR_BYTES) as usize).expect("memory");
    let (expected, features) = match job.engine {
        EngineKind::IoUring => {
            let features = ring::supported_features().expect("io_uring");
            let options = uring::options(&job, features);
            exercise(
                Uring::new(table, arena, &options).expect("ring"),
                models,
                depth,
                prng,
                requests,
            )
        }
        EngineKind::Libaio => {
            let engine = Libaio::new(table, arena, job.batch_submit).expect("context");
            exercise(engine, models, depth, prng, requests)
        }
        EngineKind::Mmap => {
            let size_bytes = SECTORS * SECTOR_BYTES;
            let engine = Mmap::new(table, size_bytes, true, arena).expect("mapping");
            exercise(engine, models, depth, prng, requests)
        }
        _ => exercise(Psync::new(table, arena), models, depth, prng, requests),
    };
    for (file, expected) in files.iter().zip(&expected) {
        let mut arena = Arena::new(1, expected.len()).expect("memory");
        let content = &mut arena.slot_mut(0)[..expected.len()];
        file.read_exact_at(content, 0).expect("readable");
        assert!(content == &expected[..], "{pairs:?}, seed {seed}: the file is not the model");
    }
    features
}

fn exercise<E: Engine>(
    mut engine: E,
    models: Vec<Vec<u8>>,
    depth: usize,
    prng: Prng,
    requests: u64,
) -> (Vec<Vec<u8>>, Vec<String>) {
    let (slots, busy) = (vec![None; depth], BTreeSet::new());
    let exercise = Exercise { engine: &mut engine, models, slots, busy, prng };
    let models = exercise.run(requests);
    (models, engine.features())
}

#[test]
fn every_engine_does_to_files_what_the_model_says() {
    let cases: &[&[(&str, &str)]] = &[
        &[("engine", "psync"), ("direct", "no")],
        &[("engine", "psync")],
        &[("engine", "mmap"), ("direct", "no")],
        &[("engine", "io_uring"), ("depth", "16")],
        &[("engine", "io_uring"), ("depth", "16"), ("direct", "no")],
        &[("engine", "io_uring"), ("depth", "9"), ("registered", "no"), ("direct", "no")],
        &[("engine", "io_uring"), ("depth", "9"), ("registered", "no")],
        &[("engine", "io_uring"), ("depth", "16"), ("registered", "yes"), ("batch_submit", "3")],
        &[("engine", "io_uring"), ("depth", "16"), ("sqpoll", "yes")],
        &[("engine", "io_uring"), ("depth", "1"), ("sqpoll", "yes"), ("direct", "no")],
        &[("engine", "libaio"), ("depth", "16")],
        &[("engine", "libaio"), ("depth", "16"), ("direct", "no"), ("batch_submit", "3")],
        &[("engine", "libaio"), ("depth", "1")],
    ];
    let rounds = sample(2, 40);
    for seed in 0..rounds as u64 {
        for pairs in cases {
            let features = agrees(pairs, seed, 150);
            let has = |word: &str| features.iter().any(|f| f.starts_with(word));
            let engine = pairs[0].1;
            assert_eq!(has("fdatasync_is_msync"), engine == "mmap");
            assert!(engine != "libaio" || has("user_space_reaping"), "{features:?}");
        }
    }
    counted("random requests of every engine against the model", rounds * cases.len() * 150);
}

/// Direct requests on a disk really are asynchronous through libaio, buffered ones never are. On a busy machine a few
/// direct ones may all have ended when the call returns, which then is what must be said; not always.
#[test]
fn libaio_says_what_is_asynchronous() {
    let content = vec![7; 1 << 20];
    let nature = |file: &File| {
        let table = FileTable::new(&[file.as_fd()]).expect("one file");
        let arena = Arena::new(8, 1 << 17).expect("memory");
        let mut engine = Libaio::new(table, arena, None).expect("context");
        for slot in 0..8 {
            let (offset_bytes, size_bytes) = (u64::from(slot) << 17, 1 << 17);
            engine.queue(slot, 0, Op::Read { offset_bytes, size_bytes });
        }
        let mut ended = 0;
        while ended < 8 {
            let ready = engine.run(8 - ended).expect("a working engine");
            (0..ready).for_each(|_| assert_eq!(engine.take().map(|t| t.1), Some(1 << 17)));
            ended += ready;
        }
        engine.features().pop().expect("a verdict")
    };
    let (buffered, direct) = (file(0, &content, false), file(1, &content, true));
    let mut said = BTreeSet::new();
    let is_seen = (0..500).any(|_| {
        let verdict = nature(&buffered);
        assert_eq!(verdict, "synchronous: 100 % had ended when io_submit returned");
        let verdict = nature(&direct);
        let is_asynchronous = verdict.starts_with("asynchronous");
        said.insert(verdict);
        is_asynchronous
    });
    assert!(is_seen, "{said:?}");
}

/// Dropping waits for what the kernel still does with the buffers; afterwards the files are as they were.
#[test]
fn an_engine_that_is_dropped_with_reads_in_flight_disturbs_nothing() {
    let content: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 4096) as u8).collect();
    let open = |direct| file(0, &content, direct);
    for round in 0..sample(20, 2000) {
        let file = open(round % 2 == 0);
        let table = || FileTable::new(&[file.as_fd()]).expect("one file");
        let arena = || Arena::new(32, 1 << 15).expect("memory");
        let job = Job { sqpoll: round % 3 == 0, ..Job::default() };
        let options = uring::options(&job, ring::supported_features().expect("io_uring"));
        leave(Uring::new(table(), arena(), &options).expect("ring"), round);
        leave(Libaio::new(table(), arena(), None).expect("context"), round);
        let mut seen = Arena::new(1, content.len()).expect("memory");
        file.read_exact_at(seen.slot_mut(0), 0).expect("readable");
        assert!(seen.slot_mut(0) == content);
    }
}

fn leave<E: Engine>(mut engine: E, round: usize) {
    for slot in 0..32 {
        let (offset_bytes, size_bytes) = (u64::from(slot) << 15, 1 << 15);
        engine.queue(slot, 0, Op::Read { offset_bytes, size_bytes });
    }
    if round % 4 != 3 {
        engine.run(1).expect("a working engine");
        engine.take().expect("one");
    }
}
