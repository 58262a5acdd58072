//! Files as blktrace writes them, built by its documented structure, with blkparse as the referee of both readers: what it prints of them
//! is read as the same events, and judged the same.

use crate::cli::{Sandbox, p};
use fathom_observe::trace::event::{Action, Event};
use fathom_observe::trace::open::Source;
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::{Trial, command, kernel_test};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    vec![kernel_test("capture_reads_what_blkparse_reads", &[FathomBinary, Tool("blkparse")], same)]
}

// include/uapi/linux/blktrace_api.h
const MAGIC: u32 = 0x6561_7407;
const READ: u32 = 1;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const QUEUE: u32 = 1 << 4;
const ISSUE: u32 = 1 << 6;
const COMPLETE: u32 = 1 << 7;
const FS: u32 = 1 << 8;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const DISCARD: u32 = 1 << 13;
const META: u32 = 1 << 12;

/// A step: what it is and to what, from which sector on, of how many bytes.
type Step = (u32, u32, u64, u32);

/// The files of two processors.
#[derive(Default)]
struct Traced {
    files: [Vec<u8>; 2],
    counts: [u32; 2],
    time_ns: u64,
}

impl Traced {
    fn record(&mut self, cpu: usize, (action, category, sector, bytes): Step, data: &[u8]) {
        let is_note = category & NOTIFY != 0;
        self.counts[cpu] += u32::from(!is_note);
        let number = if is_note { 0 } else { self.counts[cpu] };
        let out = &mut self.files[cpu];
        out.extend([MAGIC, number].iter().flat_map(|word| word.to_le_bytes()));
        out.extend([self.time_ns, sector].iter().flat_map(|word| word.to_le_bytes()));
        let words = [bytes, category << 16 | action, 77, 8 << 20, cpu as u32];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend([0, data.len() as u16].iter().flat_map(|word| word.to_le_bytes()));
        out.extend_from_slice(data);
        self.time_ns += 10_000;
    }

    /// What ext4 does for a commit, reads before it, and what they leave.
    fn commit(&mut self, cpu: usize, sector: u64) {
        let (read, write) = (READ | AHEAD | FS, WRITE | SYNC | META | FS);
        for step in [
            (1, read | QUEUE, sector, 8192),
            (7, READ | FS | ISSUE, sector, 8192),
            (8, READ | FS | COMPLETE, sector, 8192),
            (1, write | QUEUE, sector, 4096),
            (4, write, sector, 4096),
            (7, write | ISSUE, sector, 4096),
            (8, write | COMPLETE, sector, 4096),
            (1, WRITE | SYNC | FLUSH | FS | QUEUE, 0, 0),
            (7, FLUSH | FS | ISSUE, 0, 0),
            (8, FLUSH | FS | COMPLETE, 0, 0),
            (1, DISCARD | WRITE | FS | QUEUE, sector, 65_536),
            (7, DISCARD | WRITE | FS | ISSUE, sector, 65_536),
            (8, DISCARD | WRITE | FS | COMPLETE, sector, 65_536),
        ] {
            self.record(cpu, step, &[]);
        }
    }

    fn write(&self, place: &Path) {
        for (number, bytes) in self.files.iter().enumerate() {
            fs::write(place.join(format!("x.blktrace.{number}")), bytes).unwrap();
        }
    }
}

/// Of each event what both forms tell: text counts time from the first event on, and ends have no name there.
fn known(path: &Path) -> Vec<String> {
    let mut source = Source::open(path).unwrap();
    let events: Vec<Event> = std::iter::from_fn(|| source.next_event().unwrap()).collect();
    let first_ns = events[0].time_ns;
    let known = events.iter().map(|e| {
        let is_end = e.action == Action::Complete;
        let name = if is_end { "" } else { source.names().get(e.name) };
        let what = (e.action, e.class, e.flags, e.sector, e.other_sector, e.sectors);
        format!("{} {what:?} {} {} {name}", e.time_ns - first_ns, e.process, e.cpu)
    });
    known.collect()
}

fn same() {
    let sandbox = Sandbox::new();
    let place = sandbox.scratch.join("traced");
    fs::create_dir(&place).unwrap();
    let mut traced = Traced::default();
    let mut name = b"writer".to_vec();
    name.resize(16, 0);
    traced.record(0, (0, NOTIFY, 0, 0), &name);
    for number in 0..100 {
        traced.commit(number as usize % 2, 4096 + number * 128);
    }
    let split = (13, READ | FS, 8, 8192);
    traced.record(1, split, &16u64.to_be_bytes());
    traced.write(&place);
    let (files, text) = (place.join("x.blktrace.0"), place.join("x.txt"));
    let printed = command::tool("blkparse").args(["-i", "x"]).current_dir(&place).output().unwrap();
    fs::write(&text, &printed.stdout).unwrap();
    let (of_files, of_text) = (known(&files), known(&text));
    assert_eq!(of_files.len(), 1301);
    assert_eq!(of_text, of_files, "{}", String::from_utf8_lossy(&printed.stdout));
    let judged = |path: &Path| {
        let result = sandbox.json(&["capture", "--from", p(path)], &[0]).result();
        let capture = &result["capture"];
        let flushes = capture["classes"].as_array().unwrap().iter();
        let flush = flushes.clone().find(|class| class["class"] == "flush").unwrap();
        assert_eq!(flush["count"], 100, "{flush}");
        (result["verdict"].clone(), capture["classes"].clone())
    };
    let (of_files, of_text) = (judged(&files), judged(&text));
    assert_eq!(of_files.0, Value::from("trusted"));
    assert_eq!(of_text, of_files);
}
