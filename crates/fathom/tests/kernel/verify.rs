//! Verified blocks: every damage that is done below the filesystem is found, named and placed, and nothing is found
//! where nothing was done.

use crate::cli::{GIB, MIB, Sandbox, names, p, run};
use fathom_base::prng::Prng;
use fathom_base::verify_block::{Format, Legal};
use fathom_sys::fiemap;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, IoUring, LoopDevices, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, MountedFs, Scratch, Trial, counted, kernel_test,
    sample,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A block, the unit of the headers, and the ledger's piece in the tests that do damage.
pub const BLOCK: usize = 4096;
const BLOCKS: usize = 512;
/// Damages done at once: the record keeps a hundred mismatches.
const AT_ONCE: usize = 40;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let device = [FathomBinary, LoopDevices];
    let rings = [FathomBinary, LoopDevices, IoUring];
    let no_rings = [FathomBinary, LoopDevices, Tool("prlimit"), IoUring];
    let no_rings_on_ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("prlimit"), IoUring];
    vec![
        kernel_test("verify_finds_damage_below_a_file", &ext4, damage_below_a_file),
        kernel_test("verify_finds_damage_on_a_device", &device, damage_on_a_device),
        kernel_test("verify_finds_damage_where_writes_met", &rings, damage_where_writes_met),
        kernel_test("verify_finds_damage_while_it_runs", &device, damage_during),
        kernel_test("verify_after_finds_damage_in_the_run", &device, damage_before_the_end),
        kernel_test("verify_gives_no_false_alarms", &ext4, no_false_alarms),
        kernel_test("verify_after_a_kill", &ext4, after_a_kill),
        kernel_test("verify_follows_what_is_overwritten", &ext4, overwritten),
        kernel_test("verify_knows_the_file_that_was_written", &ext4, replaced),
        kernel_test("verify_keeps_what_a_refused_run_left", &ext4, refused_run),
        kernel_test("verify_keeps_what_a_run_that_cannot_start_left", &no_rings, cannot_start),
        kernel_test("verify_forgets_a_file_that_was_emptied", &no_rings_on_ext4, emptied),
        kernel_test("verify_refuses_what_it_cannot_check", &ext4, refusals),
        kernel_test("verify_reads_a_device_that_has_another_name", &device, renamed),
        kernel_test("verify_says_where_what_became_shorter_ends", &ext4, shorter),
    ]
}

/// A target whose blocks can be changed behind the kernel's back.
struct Below<'a> {
    backing: &'a Path,
    /// Where each block lies on the device.
    places: Vec<u64>,
    target: &'a str,
    format: Format,
}

pub type Block = [u8; BLOCK];

impl Below<'_> {
    fn read(&self, block: usize) -> Block {
        let mut data = [0; BLOCK];
        File::open(self.backing).unwrap().read_exact_at(&mut data, self.places[block]).unwrap();
        data
    }

    fn write(&self, block: usize, data: &Block) {
        spoil(self.backing, self.places[block], data);
    }

    fn all(&self) -> Vec<Block> {
        (0..self.places.len()).map(|block| self.read(block)).collect()
    }

    /// A whole block of this place, of whatever generation.
    fn is_sound(&self, block: usize, data: &Block) -> bool {
        let any = Legal::range(1, u64::MAX);
        self.format.check(data, (block * BLOCK) as u64, any).is_ok()
    }
}

/// Writes into the file below a loop device. It is opened for no longer than that: a device whose file is open
/// elsewhere is not overwritten.
pub fn spoil(backing: &Path, offset_bytes: u64, data: &[u8]) {
    let file = File::options().write(true).open(backing).unwrap();
    file.write_all_at(data, offset_bytes).unwrap();
}

/// On a loop device that reads and writes its file through the page cache, as the tests do.
pub fn buffered_ext4() -> MountedFs {
    let device = LoopDevice::with(2 * GIB, Content::Sparse, &LoopOptions::default()).unwrap();
    MountedFs::with(FsKind::Ext4, device, &[], "").unwrap()
}

/// The device's places of a file's first blocks.
pub fn places_of(file: &Path, count: usize) -> Vec<u64> {
    let mut places = Vec::new();
    fiemap::for_each_extent(&File::open(file).unwrap(), |extent| {
        assert!(extent.has_position() && !extent.is_encoded() && !extent.is_unwritten());
        assert_eq!(extent.logical, places.len() as u64 * BLOCK as u64, "no holes");
        let blocks = extent.length / BLOCK as u64;
        places.extend((0..blocks).map(|block| extent.physical + block * BLOCK as u64));
    })
    .unwrap();
    places.truncate(count);
    places
}

/// How the blocks of the newest verified job are told.
fn format_of(sandbox: &Sandbox) -> Format {
    let shelf = sandbox.db().parent().unwrap().join("verify");
    let dirs: Vec<_> = std::fs::read_dir(shelf).unwrap().map(|dir| dir.unwrap().path()).collect();
    assert_eq!(dirs.len(), 1, "{dirs:?}");
    let head: Value =
        serde_json::from_reader(File::open(dirs[0].join("head.json")).unwrap()).unwrap();
    let number = |key: &str| head["plan"][key].as_u64().unwrap();
    Format::new(number("target_id"), number("seed"), BLOCK as u32).unwrap()
}

/// What `fathom verify` finds: exit code, and kind by offset.
fn verify(sandbox: &Sandbox, target: &str) -> (i32, BTreeMap<u64, String>) {
    let done = sandbox.json(&["verify", target], &[0, 5]);
    let result = done.result();
    let checks = result["checks"].as_array().unwrap();
    let mut found = BTreeMap::new();
    let mut count = 0;
    for check in checks {
        count += check["verify"]["mismatches"].as_u64().unwrap();
        for one in check["verify"]["first"].as_array().unwrap() {
            let kind = one["kind"].as_str().unwrap().to_owned();
            found.insert(one["offset_bytes"].as_u64().unwrap(), kind);
        }
    }
    assert_eq!(count, found.len() as u64, "all are listed");
    (done.code, found)
}

/// Does damage of all kinds, many at once, and looks what is found; all is put back each time.
fn damage(sandbox: &Sandbox, below: &Below<'_>, before: &[Block], old: &[Block], cases: usize) {
    let now = below.all();
    let mut prng = Prng::new(cases as u64, 9);
    let mut done = 0;
    let stale: Vec<usize> =
        (0..now.len()).filter(|&b| old[b] != now[b] && below.is_sound(b, &old[b])).collect();
    assert!(stale.len() > 50, "{} blocks have an old generation", stale.len());
    while done < cases {
        let mut expected = BTreeMap::new();
        let mut fresh = |prng: &mut Prng, among: Option<&[usize]>| loop {
            let pick = prng.below(among.map_or(now.len(), <[usize]>::len) as u64) as usize;
            let block = among.map_or(pick, |among| among[pick]);
            let offset = (block * BLOCK) as u64;
            if expected.insert(offset, String::new()).is_none() {
                break block;
            }
        };
        let mut wrong: Vec<(usize, Block, &str)> = Vec::new();
        for _ in 0..AT_ONCE.min(cases - done) {
            match prng.below(6) {
                0 | 1 => {
                    let block = fresh(&mut prng, None);
                    let bit = prng.below(BLOCK as u64 * 8) as usize;
                    let mut data = now[block];
                    data[bit / 8] ^= 1 << (bit % 8);
                    wrong.push((block, data, "corrupt"));
                }
                2 => {
                    let (a, b) = (fresh(&mut prng, None), fresh(&mut prng, None));
                    wrong.extend([(a, now[b], "misplaced"), (b, now[a], "misplaced")]);
                }
                3 => {
                    let block = fresh(&mut prng, Some(&stale));
                    wrong.push((block, old[block], "stale"));
                }
                4 => {
                    // A write that never arrived: what an earlier run left there.
                    let block = fresh(&mut prng, None);
                    wrong.push((block, before[block], "other_target"));
                }
                _ => wrong.push((fresh(&mut prng, None), [0; BLOCK], "zeros")),
            }
        }
        for (block, data, kind) in &wrong {
            below.write(*block, data);
            expected.insert((block * BLOCK) as u64, (*kind).to_owned());
        }
        done += AT_ONCE.min(cases - done);
        assert_eq!(verify(sandbox, below.target), (5, expected));
        wrong.iter().for_each(|(block, ..)| below.write(*block, &now[*block]));
    }
    assert_eq!(verify(sandbox, below.target), (0, BTreeMap::new()), "all is as it was");
    counted(
        &format!("damages below {}", if below.places[0] == 0 { "a device" } else { "a file" }),
        cases,
    );
}

/// Two verified runs over the same blocks; in the second one a look at the state in the middle.
fn two_runs(
    sandbox: &Sandbox,
    target: &str,
    (first, more): (&[&str], &[&str]),
    cases: usize,
    backing: &Path,
    places: &dyn Fn() -> Vec<u64>,
) {
    let common = ["run", "randwrite", target, "block_size=4k", "verify=after", "--keep"];
    let args = [&common[..], first, more, &["operations=20000"]].concat();
    let done = sandbox.json(&args, &[0, 1]);
    assert_eq!(done.records()[0]["jobs"][0]["verify"]["mismatches"], 0);
    let places = places();
    assert_eq!(places.len(), BLOCKS);
    let mut below = Below { backing, places, target, format: format_of(sandbox) };
    let before = below.all();
    // As long as it takes a disk to write all blocks several times.
    let mut old = Vec::new();
    let record = ["duration=4s", "duration=20s", "duration=150s"].into_iter().find_map(|long| {
        let args = [&common[..], more, &[long, "fsync_fraction=0.02"]].concat();
        let running = sandbox.start(&args, "progress", 1);
        old = below.all();
        let done = running.finish();
        assert!([0, 1].contains(&done.code), "{done:?}");
        let record = done.records()[0]["jobs"][0]["verify"].clone();
        let is_whole = record["checked_bytes"].as_u64() == Some((BLOCKS * BLOCK) as u64);
        is_whole.then_some(record)
    });
    let record = record.expect("all was written");
    assert_eq!((&record["mismatches"], &record["read_back"]), (&0.into(), &"direct".into()));
    below.format = format_of(sandbox);
    damage(sandbox, &below, &before, &old, cases);
}

fn damage_below_a_file() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let file = fs.dir().join("kept");
    let cases = sample(80, 600);
    let places = || places_of(&file, BLOCKS);
    two_runs(
        &sandbox,
        p(&file),
        (&["size=2M"], &["threads=2", "depth=16"]),
        cases,
        fs.device().backing(),
        &places,
    );
}

fn damage_on_a_device() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(2 * MIB).unwrap();
    let id = format!("--destroy={}", device.backing().display());
    let places = || (0..BLOCKS).map(|block| (block * BLOCK) as u64).collect();
    let more = [id.as_str(), "engine=psync", "depth=1", "threads=3"];
    two_runs(&sandbox, p(device.path()), (&[], &more), sample(40, 400), device.backing(), &places);
}

pub fn blank_device() -> (LoopDevice, String) {
    let device = LoopDevice::with(8 * MIB, Content::Zeros, &LoopOptions::default()).unwrap();
    let id = format!("--destroy={}", device.backing().display());
    (device, id)
}

/// Most of the last writes to each place were in flight at once, and no sync made anything certain: each block that is lost
/// is found all the same, whatever lies there instead.
fn damage_where_writes_met() {
    for more in [
        &["span=16k", "depth=8", "operations=1000"][..],
        &["span=2M", "distribution=zipf:1.2", "depth=32", "operations=2000"],
    ] {
        let sandbox = Sandbox::new();
        let (device, id) = blank_device();
        let target = p(device.path());
        let args = ["run", "randwrite", target, &id, "block_size=4k", "engine=io_uring"];
        let done = sandbox.json(&[&args[..], more, &["verify=after"]].concat(), &[0, 1]);
        assert_eq!(done.records()[0]["jobs"][0]["verify"]["mismatches"], 0);
        let places = (0..BLOCKS).map(|block| (block * BLOCK) as u64).collect();
        let below =
            Below { backing: device.backing(), places, target, format: format_of(&sandbox) };
        let now = below.all();
        let written: Vec<usize> =
            (0..BLOCKS).filter(|&block| below.is_sound(block, &now[block])).collect();
        assert!(written.len() >= 4, "{} were written", written.len());
        for lost in [[0; BLOCK], [0x5A; BLOCK]] {
            written.iter().for_each(|&block| below.write(block, &lost));
            let result = sandbox.json(&["verify", target], &[5]).result();
            let found = &result["checks"][0]["verify"];
            let count = |key: &str| found[key].as_u64().unwrap_or(0);
            let blocks = written.len() as u64;
            let all = (count("mismatches"), count("checked_bytes"), count("skipped_bytes"));
            assert_eq!(all, (blocks, blocks * BLOCK as u64, 0), "{more:?}: {found}");
        }
        written.iter().for_each(|&block| below.write(block, &now[block]));
        assert_eq!(verify(&sandbox, target), (0, BTreeMap::new()), "all is as it was");
    }
}

/// A quarter of the target is overwritten with zeros while the job reads and writes it.
fn damage_during() {
    let sandbox = Sandbox::new();
    let (device, id) = blank_device();
    let args = [
        "run",
        "randomio",
        p(device.path()),
        &id,
        "write_fraction=0.3",
        "fsync_fraction=0",
        "span=2M",
    ];
    let more = ["block_size=4k", "threads=2", "depth=4", "verify=during", "duration=6s"];
    let running = sandbox.start(&[&args[..], &more].concat(), "progress", 1);
    spoil(device.backing(), 512 << 10, &vec![0; 512 << 10]);
    let done = running.finish();
    assert_eq!(done.code, 5, "{done:?}");
    let record = done.records().remove(0);
    let verify = &record["jobs"][0]["verify"];
    assert!(verify["mismatches"].as_u64().unwrap() > 0 && verify["read_back"].is_null());
    for one in verify["first"].as_array().unwrap() {
        assert!((512 << 10..1 << 20).contains(&one["offset_bytes"].as_u64().unwrap()), "{one}");
        assert_eq!(one["kind"], "zeros", "{one}");
    }
    let finding = done.finding("data-mismatch");
    assert_eq!((&finding["severity"], &done.result()["verdict"]), (&"void".into(), &"void".into()));
}

/// Damage in a block that is written early and not again, before everything is read back: the whole report.
fn damage_before_the_end() {
    let sandbox = Sandbox::new();
    let (device, id) = blank_device();
    let args =
        ["run", "seqwrite", p(device.path()), &id, "block_size=64k", "rate=24", "verify=after"];
    let running = sandbox.start(&args, "progress", 1);
    spoil(device.backing(), 5000, &[0x55]);
    let done = running.finish();
    assert_eq!(done.code, 5, "{done:?}");
    let first = &done.records()[0]["jobs"][0]["verify"]["first"];
    assert_eq!(first.as_array().unwrap().len(), 1, "{first}");
    assert_eq!(
        (&first[0]["kind"], first[0]["offset_bytes"].as_u64()),
        (&"corrupt".into(), Some(4096))
    );
    let shown = sandbox.run(&["show", &done.id()]);
    for words in [
        "verified",
        "1 block WRONG",
        "offset 4096, 4096 bytes: expected generation 1; found",
        "VOID",
    ] {
        assert!(shown.stdout.contains(words), "'{words}' is not in {}", shown.stdout);
    }
}

/// Jobs of all kinds, at random.
fn no_false_alarms() {
    let fs = buffered_ext4();
    let (device, id) = blank_device();
    let mut prng = Prng::new(7, 7);
    let runs = sample(10, 300);
    for run in 0..runs {
        let sandbox = Sandbox::new();
        let mut pick = |among: &[&'static str]| among[prng.below(among.len() as u64) as usize];
        let target = if run % 4 == 3 { p(device.path()) } else { p(fs.dir()) };
        let mut args = vec!["run", "randomio", target, "duration=300ms"];
        args.push(if run % 4 == 3 { &id } else { "size=8M" });
        args.push(pick(&[
            "block_size=4k",
            "block_size=4k:3,16k:1",
            "block_size=512:1,4k:2,64k:1",
            "block_size=1M",
        ]));
        args.push(pick(&["write_fraction=1", "write_fraction=0.5", "write_fraction=0.9"]));
        args.push(pick(&["fsync_fraction=0.05", "fsync_fraction=0", "fsync_every=7"]));
        args.push(pick(&["threads=1", "threads=2", "threads=4"]));
        args.push(pick(&[
            "access=random",
            "access=sequential",
            "access=shuffled",
            "access=reverse",
            "distribution=zipf:1.2",
        ]));
        args.extend(match pick(&["io_uring", "io_uring", "psync", "libaio", "mmap"]) {
            "io_uring" => [
                "engine=io_uring",
                pick(&["depth=1", "depth=32"]),
                pick(&["direct=yes", "direct=no"]),
            ],
            "libaio" => ["engine=libaio", "depth=32", "direct=yes"],
            "psync" => ["engine=psync", "depth=1", pick(&["direct=yes", "direct=no"])],
            _ => ["engine=mmap", "depth=1", "direct=no"],
        });
        let during = pick(&["verify=after", "verify=during"]);
        let is_write_only = args.contains(&"write_fraction=1");
        args.push(if is_write_only { "verify=after" } else { during });
        args.retain(|arg| !(*arg == "access=random" || arg.is_empty()));
        let done = sandbox.json(&args, &[0, 1]);
        let verify = &done.records()[0]["jobs"][0]["verify"];
        assert_eq!(verify["mismatches"], 0, "{args:?}: {verify}");
        let checked = verify["checked_bytes"].as_u64().unwrap();
        assert!(checked > 0 || args.contains(&"verify=during"), "{args:?}: {verify}");
        // What is on the device can be checked again.
        if run % 4 == 3 {
            assert_eq!(self::verify(&sandbox, target).0, 0, "{args:?}");
        }
    }
    counted("verified runs without damage", runs);
}

/// The process is killed in the middle; the machine goes on. What was acknowledged is there, and its loss is found.
fn after_a_kill() {
    let sandbox = Sandbox::new();
    let (device, id) = blank_device();
    let target = p(device.path());
    let args = ["run", "randwrite", target, &id, "block_size=4k", "threads=2", "fsync_every=4"];
    let more = ["span=2M", "verify=crash", "duration=10m"];
    for engine in [&["engine=io_uring", "depth=8"], &["engine=psync", "depth=1"]] {
        let mut running = sandbox.start(&[&args[..], &more, engine].concat(), "progress", 2);
        running.wait_for_requests(10_000.0);
        // Dropping it kills it.
        drop(running);
        let result = sandbox.json(&["verify", target], &[0]).result();
        let check = &result["checks"][0];
        assert_eq!(check["was_cut_off"], true);
        let acknowledged = check["acknowledged_writes"].as_u64().unwrap();
        assert!(acknowledged > 1000, "{acknowledged}");
        assert_eq!(check["verify"]["mismatches"], 0);
        // All blocks had been written and synced long ago: of each some generation must be there.
        spoil(device.backing(), 300 * BLOCK as u64, &[0; BLOCK]);
        let found = verify(&sandbox, target);
        let lost = (300 * BLOCK as u64, "zeros".to_owned());
        assert_eq!(found, (5, BTreeMap::from([lost])));
    }
    // Nothing was acknowledged as safe: nothing can be asked for, which is no good news.
    let (device, id) = blank_device();
    let target = p(device.path());
    let args = ["run", "randwrite", target, &id, "block_size=4k"];
    let never = ["fsync_every=1000000000", "engine=psync", "depth=1"];
    let mut running = sandbox.start(&[&args[..], &more, &never].concat(), "progress", 2);
    running.wait_for_requests(1000.0);
    drop(running);
    let told = sandbox.run(&["verify", target]);
    let told_of = ["NOTHING could be checked", "only blocks that are damaged or belong elsewhere"];
    assert!(told.code == 1 && told_of.iter().all(|words| told.stdout.contains(words)), "{told:?}");
    // What was there before the first write may be there still, whatever that is, and so may any sectors of writes; but what
    // fathom wrote must be undamaged, and in its place.
    let (place, other) = (500 * BLOCK as u64, 501 * BLOCK as u64);
    let mut block = written_block(device.backing(), &mut (0..256));
    let ours = block.clone();
    spoil(device.backing(), place, &[0xa5; BLOCK]);
    spoil(device.backing(), other, &[0; BLOCK]);
    let result = sandbox.json(&["verify", target], &[1]).result();
    assert_eq!(result["checks"][0]["verify"]["mismatches"], 0);
    spoil(device.backing(), other, &ours.1);
    block.1[700] ^= 4;
    spoil(device.backing(), block.0, &block.1);
    let wrong = [(block.0, "corrupt".to_owned()), (other, "misplaced".to_owned())];
    assert_eq!(verify(&sandbox, target), (5, BTreeMap::from(wrong)));
}

/// One of these blocks that is not empty, and where it lies.
fn written_block(backing: &Path, numbers: &mut dyn Iterator<Item = u64>) -> (u64, Vec<u8>) {
    let file = File::open(backing).unwrap();
    let block_at = |number: u64| {
        let (at, mut block) = (number * BLOCK as u64, vec![0; BLOCK]);
        file.read_exact_at(&mut block, at).unwrap();
        (at, block)
    };
    let is_written = |(_, block): &(u64, Vec<u8>)| block.iter().any(|&byte| byte != 0);
    numbers.map(block_at).find(is_written).unwrap()
}

/// What another run has overwritten is not asked for any more.
fn overwritten() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let file = fs.dir().join("kept");
    let base = ["run", "randwrite", p(&file), "block_size=4k", "operations=500"];
    sandbox.json(&[&base[..], &["size=2M", "verify=after", "--keep"]].concat(), &[0, 1]);
    assert_eq!(verify(&sandbox, p(fs.dir())).0, 0, "the directory will do");
    sandbox.json(&base, &[0, 1]);
    let refused = sandbox.run(&["verify", p(&file)]);
    refused.is_refusal(2, &[p(&file), "nothing is known", "verify="]);
}

/// Another file of the same name is not the one that was written; a removed one is forgotten at the next start.
fn replaced() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let file = fs.dir().join("kept");
    let write = ["run", "randwrite", p(&file), "size=2M", "operations=500", "--keep"];
    sandbox.json(&[&write[..], &["verify=after"]].concat(), &[0, 1]);
    std::fs::remove_file(&file).unwrap();
    let shelf = sandbox.db().parent().unwrap().join("verify");
    let known = || std::fs::read_dir(&shelf).unwrap().count();
    assert_eq!(known(), 1);
    std::fs::write(&file, vec![1; 2 << 20]).unwrap();
    let refused = sandbox.run(&["verify", p(&file)]);
    refused.is_refusal(2, &[p(&file), "is not the file that was written"]);
    std::fs::remove_file(&file).unwrap();
    sandbox.json(&["run", "randread", "null:", "operations=100"], &[0, 1]);
    assert_eq!(known(), 0);
}

/// A run that is refused has overwritten nothing.
fn refused_run() {
    let fs = buffered_ext4();
    let file = fs.dir().join("kept");
    // A store on the tested filesystem: good enough for all but verify=crash.
    let sandbox = Sandbox::with_db(fs.dir().join("state/fathom.db"));
    let write = ["run", "randwrite", p(&file), "operations=500", "fsync_every=1", "--quiet"];
    sandbox.json(&[&write[..], &["size=2M", "verify=after", "--keep"]].concat(), &[0, 1]);
    let refused = sandbox.run(&[&write[..], &["verify=crash"]].concat());
    refused.is_refusal(2, &["verify=crash", "lies on the tested filesystem"]);
    assert_eq!(verify(&sandbox, p(&file)), (0, BTreeMap::new()));
}

/// A run of a hundred threads for whose rings, one descriptor each, `limit` is too low: the engine fails when everything
/// else is ready.
#[track_caller]
fn without_rings(sandbox: &Sandbox, limit: u32, args: &[&str]) {
    let words = ["setting up the engine: Too many open files", "ulimit -n"];
    without_descriptors(sandbox, limit, args, &words);
}

/// A run of a hundred threads that has too few descriptors.
#[track_caller]
fn without_descriptors(sandbox: &Sandbox, limit: u32, args: &[&str], words: &[&str]) {
    let args = [&["--quiet", "run"], args, &["engine=io_uring", "threads=100"]].concat();
    let done = run(|| {
        let fathom = sandbox.command(&args);
        let mut command = tool("prlimit");
        command.arg(format!("--nofile={limit}")).arg(fathom.get_program());
        command.args(fathom.get_args());
        command
    });
    done.is_refusal(4, words);
}

/// A run whose engine cannot be set up has written nothing: what was known stays, and of that run nothing is known.
fn cannot_start() {
    let sandbox = Sandbox::new();
    let (device, id) = blank_device();
    let target = p(device.path());
    let write = ["randwrite", target, &id, "block_size=4k", "operations=2000", "fsync_every=4"];
    sandbox.json(&[&["run"], &write[..], &["verify=after"]].concat(), &[0, 1]);
    let shelf = sandbox.db().parent().unwrap().join("verify");
    let known = names(&shelf);
    assert_eq!(known.len(), 1);
    // What crash notes takes a descriptor for each thread too, and those are there.
    for (verify_of_it, limit) in [("verify=none", 64), ("verify=after", 64), ("verify=crash", 150)]
    {
        without_rings(&sandbox, limit, &[&write[..], &[verify_of_it]].concat());
        assert_eq!(verify(&sandbox, target), (0, BTreeMap::new()), "{verify_of_it}");
        assert_eq!(names(&shelf), known, "{verify_of_it}");
    }
    // Too few even for that.
    let words = ["what must be found after a crash", "Too many open files", "ulimit -n"];
    without_descriptors(&sandbox, 64, &[&write[..], &["verify=crash"]].concat(), &words);
    assert_eq!(verify(&sandbox, target), (0, BTreeMap::new()));
    assert_eq!(names(&shelf), known);
    // The control: a run that starts makes it forget.
    sandbox.json(&[&["run"], &write[..]].concat(), &[0, 1]);
    assert_eq!(names(&shelf), Vec::<String>::new());
}

/// A file that a run has emptied, before it failed, holds nothing of what was known.
fn emptied() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let file = fs.dir().join("kept");
    let target = p(&file);
    let first = ["run", "randwrite", target, "size=2M", "operations=500", "verify=after", "--keep"];
    sandbox.json(&first, &[0, 1]);
    assert_eq!(verify(&sandbox, target), (0, BTreeMap::new()));
    without_rings(&sandbox, 64, &["seqwrite", target, "block_size=4k", "amount=2M"]);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    sandbox.run(&["verify", target]).is_refusal(2, &[target, "nothing is known"]);
}

fn refusals() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let dir = p(fs.dir());
    let write = ["size=8M", "duration=1s"];
    let cases: [(&[&str], &[&str]); 10] = [
        (&["randread", dir, "verify=after"], &["verify=after", "writes nothing", "fathom verify"]),
        (&["randwrite", dir, "verify=during"], &["verify=during", "only writes", "verify=after"]),
        (&["randwrite", dir, "verify=after", "content=zero"], &["verify=after", "content"]),
        (&["randwrite", dir, "verify=after", "compressible=0.5"], &["compressible"]),
        (&["randwrite", dir, "verify=crash", "fsync_every=0"], &["verify=crash", "without syncs"]),
        (
            &["randwrite", dir, "verify=after", "block_size=1000", "direct=no"],
            &["1000 bytes", "512"],
        ),
        (
            &[
                "randwrite",
                dir,
                "verify=crash",
                "trim_fraction=0.1",
                "write_fraction=0.9",
                "fsync_every=1",
            ],
            &["trim"],
        ),
        (&["randwrite", "null:", "verify=after"], &["verify=after", "null"]),
        (&["randwrite", dir, "content=pattern:0"], &["content=pattern:0", "pairs"]),
        (&["randwrite", dir, "content=zero", "duplicate=0.5"], &["content=zero", "duplicate"]),
    ];
    for (args, words) in cases {
        let done = sandbox.run(&[&["run"], args, &write, &["--quiet"]].concat());
        done.is_refusal(2, words);
    }
    // What is noted for after a crash must not be lost with the target.
    let inside = Sandbox::with_db(fs.dir().join("store/fathom.db"));
    let args = ["--quiet", "run", "randwrite", dir, "fsync_every=1", "verify=crash", "size=8M"];
    inside
        .run(&[&args[..], &["duration=1s"]].concat())
        .is_refusal(2, &["tested filesystem", "--db"]);
    sandbox.nothing_left(&[fs.dir()]);
}

/// As after a boot: what was loop0 is loop1, and another one is loop0.
fn renamed() {
    let (sandbox, scratch) = (Sandbox::new(), Scratch::new().unwrap());
    let image = |name: &str| {
        let path = scratch.join(name);
        File::create(&path).unwrap().set_len(4 * MIB).unwrap();
        path
    };
    let (own, others) = (image("own"), image("others"));
    let attach = |backing: &Path| LoopDevice::over(backing, &LoopOptions::default()).unwrap();
    let device = attach(&own);
    let id = format!("--destroy={}", own.display());
    let args = ["run", "seqwrite", p(device.path()), &id, "operations=16", "block_size=64k"];
    sandbox.json(&[&args[..], &["verify=after"]].concat(), &[0, 1]);
    let before = device.path().to_owned();
    // Others, of other tests among them, take the names that are free.
    drop(device);
    let mut taken = Vec::new();
    let device = loop {
        taken.push(attach(&others));
        let device = attach(&own);
        if device.path() != before {
            break device;
        }
        drop(device);
    };
    // Who names it does not want to check it any more, be it there as it was written; who names what is above it did not mean it.
    let state = sandbox.db().parent().unwrap().join("verify");
    let copy = scratch.join("copy");
    fathom_testkit::command::run_tool("cp", ["-a", p(&state), p(&copy)]).unwrap();
    let above = sandbox.run(&["clean", "/dev", "--forget"]);
    assert!(names(&state).len() == 1, "{above:?}");
    let forgotten = sandbox.run(&["clean", p(device.path()), "--forget"]);
    let told = format!("{}: forgotten, fathom verify asks no longer", device.path().display());
    assert!(forgotten.code == 0 && forgotten.stdout.starts_with(&told), "{forgotten:?}");
    assert_eq!(names(&state), Vec::<String>::new());
    sandbox.refuses(
        &["verify", p(device.path())],
        2,
        &["nothing is known of blocks", "which is empty"],
    );
    fathom_testkit::command::run_tool("cp", ["-aT", p(&copy), p(&state)]).unwrap();
    let done = sandbox.json(&["verify", p(device.path())], &[0]);
    let check = &done.result()["checks"][0]["verify"];
    assert_eq!((&check["mismatches"], &check["checked_bytes"]), (&0.into(), &(1 << 20).into()));
    // Whoever has the name by now.
    let other = p(&before).to_owned();
    let by_now = format!("by now: fathom verify {}", device.path().display());
    sandbox.refuses(&["verify", &other], 2, &["nothing is known of blocks", &by_now]);
    let forget = |path: &str| sandbox.run(&["clean", path, "--forget"]);
    let kept = forget(&other);
    assert!(kept.code == 4 && kept.stdout.contains(&by_now), "{kept:?}");
    // It goes, and only who names it has it forgotten.
    drop(device);
    let cure = format!("fathom clean {other} --forget");
    sandbox.refuses(&["verify", &other], 2, &["is not there any more", p(&own), &cure]);
    let above = forget("/dev");
    assert!(above.code == 4 && above.stdout.contains(&cure), "{above:?}");
    let forgotten = forget(&other);
    let told = format!("{other}: forgotten, fathom verify asks no longer");
    assert!(forgotten.code == 0 && forgotten.stdout.contains(&told), "{forgotten:?}");
    assert_eq!(names(&sandbox.db().parent().unwrap().join("verify")), Vec::<String>::new());
    sandbox.refuses(&["verify", &other], 2, &["nothing is known of blocks", "which is empty"]);
}

/// A device, one of several files, and the only one.
fn shorter() {
    let (sandbox, fs) = (Sandbox::new(), buffered_ext4());
    let device = LoopDevice::new(8 * MIB).unwrap();
    let id = format!("--destroy={}", device.backing().display());
    let args = ["run", "seqwrite", p(device.path()), &id, "block_size=64k", "operations=128"];
    sandbox.json(&[&args[..], &["verify=after"]].concat(), &[0, 1]);
    File::options().write(true).open(device.backing()).unwrap().set_len(5 * MIB + 4096).unwrap();
    device.reread_size().unwrap();
    let told = |target: &str, of_them: &str, words: &[&str]| {
        let done = sandbox.run(&["verify", target]);
        assert!(done.code == 5 && done.stdout.contains(of_them), "{done:?}");
        words.iter().for_each(|word| assert!(done.stdout.contains(word), "{word}: {done:?}"));
        assert!(!done.stdout.contains("zeros") && !done.stdout.contains("more)"), "{done:?}");
    };
    let end = "offset 5242880, 3145728 bytes: expected what was written there; found nothing: the device ends at offset \
               5246976; 48 blocks lay beyond it";
    told(p(device.path()), "5 MiB read back", &[": 48 blocks WRONG", end]);
    let cure = format!(
        "on purpose, and nobody needs what was written: fathom clean {} --forget",
        device.path().display()
    );
    told(p(device.path()), "5 MiB", &[&cure]);
    let done = sandbox.json(&["verify", p(device.path())], &[5]);
    let wrong = &done.result()["checks"][0]["verify"];
    assert_eq!((&wrong["mismatches"], wrong["first"].as_array().unwrap().len()), (&48.into(), 1));
    assert_eq!(
        (&wrong["first"][0]["kind"], &wrong["first"][0]["blocks"]),
        (&"beyond_end".into(), &48.into())
    );

    let (single, several) = (fs.dir().join("one"), fs.dir().join("many"));
    std::fs::create_dir(&several).unwrap();
    let write = ["--keep", "block_size=4k", "verify=after", "--quiet"];
    let one = ["run", "seqwrite", p(&single), "size=64k", "operations=16"];
    let many = ["run", "seqwrite", p(&several), "size=64k", "operations=16", "files=4"];
    for args in [&one[..], &many[..]] {
        sandbox.json(&[args, &write[..]].concat(), &[0, 1]);
    }
    let cut = |file: &Path, length| {
        File::options().write(true).open(file).unwrap().set_len(length).unwrap()
    };
    cut(&single, 0);
    told(
        p(&single),
        "0 B read back",
        &["16 blocks WRONG", "the file ends at offset 0; 16 blocks lay beyond it"],
    );
    let inside = own_directory(&several);
    cut(&inside.join("d0000/f001"), 12288);
    let end = "file 1 (d0000/f001), offset 12288, 4096 bytes: expected what was written there; found nothing: the file ends \
               at offset 12288; 1 block lay beyond it";
    told(p(&several), "60 KiB read back", &["1 block WRONG", end]);
}

/// That of fathom's files in a directory.
fn own_directory(dir: &Path) -> std::path::PathBuf {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut own = entries.filter(|path| {
        path.file_name().is_some_and(|name| p(Path::new(name)).starts_with(".fathom-"))
    });
    own.next().unwrap()
}
