//! Verified blocks in several files, and beside zero ranges and trims: damage is named with its file, and nothing is
//! found where nothing was done.

use crate::cli::{Sandbox, names, operations, p, run};
use crate::verify::{BLOCK, Block, blank_device, buffered_ext4, places_of, spoil};
use fathom_base::prng::Prng;
use fathom_base::verify_block::{Format, Legal};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{FsKind, Trial, counted, kernel_test, sample};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: usize = 6;
/// Blocks of each file.
const BLOCKS: usize = 64;
/// Damages done at once.
const AT_ONCE: usize = 20;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let with_fifo = [FathomBinary, Tool("mkfifo"), FsOnLoop(FsKind::Ext4)];
    let device = [FathomBinary, LoopDevices];
    let limited = [FathomBinary, Tool("prlimit"), FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("verify_names_the_file_of_a_damage", &ext4, damage_below_files),
        kernel_test("verify_of_files_gives_no_false_alarms", &ext4, no_false_alarms),
        kernel_test("verify_of_files_after_a_kill", &ext4, after_a_kill),
        kernel_test("verify_of_files_finds_what_is_gone", &with_fifo, gone),
        kernel_test("verify_of_files_that_are_gone_as_a_whole", &ext4, gone_as_a_whole),
        kernel_test("verify_forgets_files_that_were_cleaned", &ext4, cleaned),
        kernel_test("verify_of_a_filesystem_that_was_made_anew", &ext4, made_anew),
        kernel_test("verify_tells_a_loss_beside_what_it_cannot_check", &ext4, beside_errors),
        kernel_test("verify_of_files_blames_no_storage_for_its_own_limit", &limited, own_limit),
        kernel_test("verify_that_cannot_begin_loses_no_measurement", &ext4, cannot_begin),
        kernel_test("verify_follows_zero_ranges_on_a_device", &device, cleared_on_a_device),
        kernel_test("verify_follows_zero_ranges_in_a_file", &ext4, cleared_in_a_file),
    ]
}

/// The directory of test files that a run has made.
pub fn kept_in(dir: &Path) -> PathBuf {
    let kept: Vec<String> =
        names(dir).into_iter().filter(|name| name.starts_with(".fathom-")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    dir.join(&kept[0])
}

/// A finding: kind, what was expected, what was found.
type Wrong = (String, String, String);

/// What `fathom verify` finds: exit code, and what is wrong by file and offset.
fn verify(sandbox: &Sandbox, target: &str) -> (i32, BTreeMap<(u64, u64), Wrong>) {
    let done = sandbox.json(&["verify", target], &[0, 5]);
    let result = done.result();
    let check = &result["checks"][0]["verify"];
    let (mut found, mut blocks) = (BTreeMap::new(), 0);
    for one in check["first"].as_array().unwrap() {
        let file = one["file"].as_u64().unwrap();
        assert_eq!(one["path"].as_str().unwrap(), format!("d0000/f{file:03}"));
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        let wrong = (text("kind"), text("expected"), text("found"));
        found.insert((file, one["offset_bytes"].as_u64().unwrap()), wrong);
        blocks += one["blocks"].as_u64().unwrap_or(1);
    }
    assert_eq!(check["mismatches"].as_u64(), Some(blocks), "all are listed");
    (done.code, found)
}

/// Files whose blocks can be changed behind the kernel's back; their blocks are counted over all of them.
struct Below<'a> {
    backing: &'a Path,
    places: Vec<u64>,
    format: Format,
}

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

    fn place(block: usize) -> (u64, u64) {
        ((block / BLOCKS) as u64, (block % BLOCKS * BLOCK) as u64)
    }

    fn is_sound(&self, block: usize, data: &Block) -> bool {
        let (file, offset_bytes) = Self::place(block);
        let any = Legal::range(1, u64::MAX);
        self.format.on(file as u32).check(data, offset_bytes, any).is_ok()
    }
}

/// The format of the only verified job.
fn format_of(sandbox: &Sandbox) -> Format {
    let shelf = sandbox.db().parent().unwrap().join("verify");
    let dirs = names(&shelf);
    assert_eq!(dirs.len(), 1, "{dirs:?}");
    let head = File::open(shelf.join(&dirs[0]).join("head.json")).unwrap();
    let head: Value = serde_json::from_reader(head).unwrap();
    let number = |key: &str| head["plan"][key].as_u64().unwrap();
    let format = Format::new(number("target_id"), number("seed"), BLOCK as u32).unwrap();
    format.over(FILES as u32)
}

/// Damage of one kind: what is written where, and what must be said about it.
fn one_damage(
    prng: &mut Prng,
    now: &[Block],
    old: &[Block],
    stale: &[usize],
    fresh: &mut dyn FnMut(&mut Prng, &[usize]) -> usize,
) -> Vec<(usize, Block, &'static str, String)> {
    let all: Vec<usize> = (0..now.len()).collect();
    match prng.below(5) {
        0 => {
            let block = fresh(prng, &all);
            let bit = prng.below(BLOCK as u64 * 8) as usize;
            let mut data = now[block];
            data[bit / 8] ^= 1 << (bit % 8);
            let at = Below::place(block).1 as usize + bit / 8;
            let words = format!("1 wrong bits, the first in the byte at offset {at}:");
            vec![(block, data, "corrupt", words)]
        }
        1 | 2 => {
            // Two blocks of different files change places.
            let a = fresh(prng, &all);
            let elsewhere: Vec<usize> =
                all.into_iter().filter(|block| block / BLOCKS != a / BLOCKS).collect();
            let b = fresh(prng, &elsewhere);
            let words = |block: usize| {
                let (file, offset) = Below::place(block);
                format!("the block of file {file}, offset {offset} (generation ")
            };
            vec![(a, now[b], "misplaced", words(b)), (b, now[a], "misplaced", words(a))]
        }
        3 => {
            let block = fresh(prng, stale);
            vec![(block, old[block], "stale", "a later write was lost, or undone".into())]
        }
        _ => {
            let block = fresh(prng, &all);
            vec![(block, [0; BLOCK], "zeros", "never written, discarded or lost".into())]
        }
    }
}

/// Does damage of all kinds, many at once, and looks what is found; all is put back each time.
fn damage(sandbox: &Sandbox, below: &Below<'_>, target: &str, old: &[Block], cases: usize) {
    let now = below.all();
    let is_stale =
        |block: &usize| old[*block] != now[*block] && below.is_sound(*block, &old[*block]);
    let stale: Vec<usize> = (0..now.len()).filter(is_stale).collect();
    assert!(stale.len() > 50, "{} blocks have an old generation", stale.len());
    let mut prng = Prng::new(cases as u64, 11);
    for _ in 0..cases.div_ceil(AT_ONCE) {
        let mut taken = std::collections::BTreeSet::new();
        let mut fresh = |prng: &mut Prng, among: &[usize]| loop {
            let block = among[prng.below(among.len() as u64) as usize];
            if taken.insert(block) {
                break block;
            }
        };
        let wrong: Vec<_> = (0..AT_ONCE)
            .flat_map(|_| one_damage(&mut prng, &now, old, &stale, &mut fresh))
            .collect();
        wrong.iter().for_each(|(block, data, ..)| below.write(*block, data));
        let (code, found) = verify(sandbox, target);
        assert_eq!((code, found.len()), (5, wrong.len()), "{found:?}");
        for (block, _, kind, words) in &wrong {
            let (is, expected, text) = &found[&Below::place(*block)];
            assert!(is == kind && text.contains(words), "{kind} {words}: {is} {text}");
            assert!(expected.starts_with("generation "), "{expected}");
        }
        wrong.iter().for_each(|(block, ..)| below.write(*block, &now[*block]));
    }
    assert_eq!(verify(sandbox, target), (0, BTreeMap::new()), "all is as it was");
    counted("damages below several files", cases.div_ceil(AT_ONCE) * AT_ONCE);
}

fn damage_below_files() {
    // More files than threads, and more threads than files.
    let ways: [&[&str]; 2] = [&["threads=4", "depth=8"], &["threads=8", "engine=psync", "depth=1"]];
    for way in ways {
        let sandbox = Sandbox::new();
        let fs = buffered_ext4();
        let args = ["run", "randwrite", p(fs.dir()), "files=6", "size=1536k", "block_size=4k"];
        let more = ["verify=after", "--keep", "duration=6s", "fsync_fraction=0.02"];
        let running = sandbox.start(&[&args[..], &more, way].concat(), "progress", 1);
        let kept = kept_in(fs.dir());
        let file = |number: usize| kept.join(format!("d0000/f{number:03}"));
        let places: Vec<u64> =
            (0..FILES).flat_map(|file_| places_of(&file(file_), BLOCKS)).collect();
        assert_eq!(places.len(), FILES * BLOCKS);
        let format = Format::new(0, 0, BLOCK as u32).unwrap();
        let mut below = Below { backing: fs.device().backing(), places, format };
        let old = below.all();
        let done = running.finish();
        assert!([0, 1].contains(&done.code), "{done:?}");
        let record = &done.records()[0]["jobs"][0]["verify"];
        let all_bytes = (FILES * BLOCKS * BLOCK) as u64;
        assert_eq!(record["checked_bytes"].as_u64(), Some(all_bytes), "all was written");
        assert_eq!((&record["mismatches"], &record["read_back"]), (&0.into(), &"direct".into()));
        below.format = format_of(&sandbox);
        damage(&sandbox, &below, p(&kept), &old, sample(60, 600));
        // The whole report names the file.
        below.write(BLOCKS + 1, &[0; BLOCK]);
        let told = sandbox.run(&["verify", p(&kept)]);
        assert_eq!(told.code, 5, "{told:?}");
        let words = "file 1 (d0000/f001), offset 4096, 4096 bytes: expected generation";
        assert!(told.stdout.contains(words), "{told:?}");
    }
}

/// Jobs of all kinds, at random.
fn no_false_alarms() {
    let fs = buffered_ext4();
    let mut prng = Prng::new(8, 8);
    let runs = sample(12, 300);
    for _ in 0..runs {
        let sandbox = Sandbox::new();
        let mut pick = |among: &[&'static str]| among[prng.below(among.len() as u64) as usize];
        let mut args = vec!["--quiet", "--json", "run", "randwrite", p(fs.dir()), "size=4M"];
        args.push("duration=300ms");
        args.push(pick(&["block_size=4k", "block_size=4k:3,16k:1", "block_size=512:1,4k:2,16k:1"]));
        let own = ["threads=3", "file_choice=thread"];
        let several = [
            pick(&["files=2", "files=5", "files=40"]),
            pick(&["threads=1", "threads=2", "threads=7"]),
            pick(&[
                "access=sequential",
                "access=shuffled",
                "distribution=zipf:1.2",
                "access=random",
            ]),
        ];
        args.extend(if pick(&["own", "", ""]) == "own" { &own[..] } else { &several[..] });
        args.push(pick(&["zero_fraction=0", "zero_fraction=0.1", "trim_fraction=0.1"]));
        let is_cleared = !args.contains(&"zero_fraction=0");
        args.extend(
            match (pick(&["io_uring", "io_uring", "psync", "libaio", "mmap"]), is_cleared) {
                ("libaio", false) => ["engine=libaio", "depth=8", "direct=yes"],
                ("mmap", false) => ["engine=mmap", "depth=1", "direct=no"],
                ("psync", _) => ["engine=psync", "depth=1", pick(&["direct=yes", "direct=no"])],
                _ => [
                    "engine=io_uring",
                    pick(&["depth=1", "depth=8"]),
                    pick(&["direct=yes", "direct=no"]),
                ],
            },
        );
        // All files can be synchronised only where nothing else is in flight.
        let sync_all =
            if args.contains(&"depth=1") { "sync_all_every=50" } else { "fsync_every=1" };
        args.push(pick(&["fsync_fraction=0.05", "fsync_every=7", sync_all]));
        if !args.contains(&"engine=mmap") && several.iter().all(|arg| args.contains(arg)) {
            args.extend(Some(pick(&["files_open=8", ""])).filter(|arg| !arg.is_empty()));
        }
        let during = pick(&["verify=after", "verify=during"]);
        args.push(during);
        args.push(if during == "verify=during" {
            "write_fraction=0.5"
        } else {
            "write_fraction=0.9"
        });
        // Shares that make a whole leave nothing to read.
        let done = sandbox.run(&args);
        assert!([0, 1].contains(&done.code), "{args:?}: {done:?}");
        let verify = &done.records()[0]["jobs"][0]["verify"];
        assert_eq!(verify["mismatches"], 0, "{args:?}: {verify}");
        let checked = verify["checked_bytes"].as_u64().unwrap();
        assert!(checked > 0 || during == "verify=during", "{args:?}: {verify}");
        // Reads that meet writes are another matter.
        let has_skipped = !verify["skipped_bytes"].is_null();
        assert!(!has_skipped || during == "verify=during", "holes of files are zeros: {args:?}");
        sandbox.nothing_left(&[fs.dir()]);
    }
    counted("verified runs over several files without damage", runs);
}

/// The process is killed in the middle; the machine goes on. What was acknowledged in each file is there, and its loss is
/// found.
fn after_a_kill() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let args = ["run", "randwrite", p(fs.dir()), "files=6", "size=1536k", "block_size=4k"];
    let more = ["threads=4", "depth=8", "fsync_every=4", "verify=crash", "duration=10m"];
    let mut running = sandbox.start(&[&args[..], &more].concat(), "progress", 2);
    running.wait_for_requests(10_000.0);
    // Dropping it kills it.
    drop(running);
    let kept = kept_in(fs.dir());
    let result = sandbox.json(&["verify", p(fs.dir())], &[0]).result();
    let check = &result["checks"][0];
    assert_eq!(check["was_cut_off"], true);
    let acknowledged = check["acknowledged_writes"].as_u64().unwrap();
    assert!(acknowledged > 1000, "{acknowledged}");
    assert_eq!(check["verify"]["mismatches"], 0);
    // All blocks had been written and synced long ago: of each some generation must be there.
    let lost = File::options().write(true).open(kept.join("d0000/f004")).unwrap();
    lost.write_all_at(&[0; BLOCK], 20 * BLOCK as u64).unwrap();
    let (code, found) = verify(&sandbox, p(&kept));
    assert_eq!((code, found.len()), (5, 1), "{found:?}");
    assert_eq!(found[&(4, 20 * BLOCK as u64)].0, "zeros");
}

/// Files that were removed, cut off or replaced.
fn gone() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let args = ["run", "seqwrite", p(fs.dir()), "files=3", "size=768k", "block_size=64k"];
    sandbox.json(&[&args[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
    let kept = kept_in(fs.dir());
    assert_eq!(verify(&sandbox, p(&kept)), (0, BTreeMap::new()));
    File::options().write(true).open(kept.join("d0000/f001")).unwrap().set_len(128 << 10).unwrap();
    let (code, found) = verify(&sandbox, p(&kept));
    assert_eq!(code, 5);
    let beyond = &found[&(1, 128 << 10)];
    assert_eq!((found.len(), beyond.0.as_str()), (1, "beyond_end"), "{found:?}");
    assert!(beyond.2.contains("131072") && beyond.2.contains("2 blocks"), "{beyond:?}");
    std::fs::remove_file(kept.join("d0000/f002")).unwrap();
    let (_, found) = verify(&sandbox, p(&kept));
    let unread = &found[&(2, 0)];
    assert!(unread.0 == "unreadable" && unread.2.contains("No such file"), "{unread:?}");
    // What is none of the files, in the place of one: nobody writes into it, and nobody waits for that.
    let place = kept.join("d0000/f000");
    std::fs::remove_file(&place).unwrap();
    run_tool("mkfifo", [&place]).unwrap();
    let (code, found) = verify(&sandbox, p(&kept));
    let unread = &found[&(0, 0)];
    assert!(code == 5 && unread.2.contains("it is no regular file"), "{unread:?}");
    std::fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink("f001", &place).unwrap();
    assert_eq!(verify(&sandbox, p(&kept)).1[&(0, 0)].0, "unreadable");
    // Another directory of the same name.
    let copy = fs.dir().join("copy");
    std::fs::rename(&kept, &copy).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    std::fs::create_dir(&kept).unwrap();
    let refused = sandbox.run(&["verify", p(&kept)]);
    refused.is_refusal(2, &["is not the file that was written"]);
}

/// What `fathom clean` took is no loss, also where it left something that was changed since.
fn cleaned() {
    for is_changed in [false, true] {
        let sandbox = Sandbox::new();
        let fs = buffered_ext4();
        let args = ["run", "seqwrite", p(fs.dir()), "files=3", "size=768k", "block_size=64k"];
        sandbox.json(&[&args[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
        let kept = kept_in(fs.dir());
        if is_changed {
            let changed = File::options().write(true).open(kept.join("d0000/f001")).unwrap();
            changed.write_all_at(b"precious", 77_777).unwrap();
            let (code, found) = verify(&sandbox, p(&kept));
            assert_eq!((code, found.len()), (5, 1), "{found:?}");
        }
        let cleaned = sandbox.run(&["clean", p(fs.dir())]);
        assert_eq!(cleaned.code, if is_changed { 3 } else { 0 }, "{cleaned:?}");
        let words = if is_changed { "stays (d0000/f001), the rest goes" } else { "removed" };
        assert!(cleaned.stdout.contains(words), "{cleaned:?}");
        assert!(!kept.join("d0000/f000").exists());
        assert_eq!(kept.join("d0000/f001").exists(), is_changed);
        let refused = sandbox.run(&["verify", p(fs.dir())]);
        refused.is_refusal(2, &["nothing is known"]);
    }
    // One that cannot go on has taken some already.
    let (sandbox, fs) = (Sandbox::new(), buffered_ext4());
    let args = ["run", "seqwrite", p(fs.dir()), "files=8", "size=768k", "block_size=16k"];
    sandbox.json(&[&args[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
    let dir = kept_in(fs.dir()).join("d0000");
    run_tool("chattr", [Path::new("+i"), &dir.join("f005")]).unwrap();
    assert_eq!(sandbox.run(&["clean", p(fs.dir())]).code, 5);
    assert!(!dir.join("f000").exists() && dir.join("f005").exists());
    sandbox.run(&["verify", p(fs.dir())]).is_refusal(2, &["nothing is known"]);
    run_tool("chattr", [Path::new("-i"), &dir.join("f005")]).unwrap();
    assert_eq!(sandbox.run(&["clean", p(fs.dir())]).code, 0);
    assert!(!dir.exists());
}

/// A file, or the directory of several, that is not there any more is a loss and no mistake of the command line, by
/// whatever path it is asked for.
fn gone_as_a_whole() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let lost = |files: &str, words: &str| {
        let kept = kept_in(fs.dir());
        std::fs::remove_dir_all(&kept).unwrap();
        for target in [fs.dir(), &kept, &kept.join("data")] {
            // The directory of several is their target.
            if target.ends_with("data") && files != "files=1" {
                continue;
            }
            let done = sandbox.run(&["verify", p(target)]);
            assert_eq!(done.code, 5, "{done:?}");
            assert!(done.stdout.contains("the file is GONE, and with it all"), "{done:?}");
            assert!(done.stdout.contains(words), "{done:?}");
        }
        let done = sandbox.json(&["verify", p(fs.dir())], &[5]);
        let first = done.result()["checks"][0]["verify"]["first"][0].clone();
        assert_eq!((&first["kind"], &first["offset_bytes"]), (&"unreadable".into(), &0.into()));
    };
    for files in ["files=1", "files=3"] {
        let args = ["run", "seqwrite", p(fs.dir()), files, "size=768k", "block_size=64k"];
        sandbox.json(&[&args[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
        lost(files, "expected what was written there; found nothing");
    }
    let args = ["run", "commit", p(fs.dir()), "size=64M", "verify=crash", "duration=10m"];
    let mut running = sandbox.start(&args, "progress", 2);
    running.wait_for_requests(200.0);
    drop(running);
    lost("files=1", "writes had been acknowledged as safe; found nothing");
    // Killed before its end was noted, nothing is known of what must be there: that it is gone is said all the same.
    let args = ["run", "seqwrite", p(fs.dir()), "size=768k", "block_size=64k"];
    sandbox.json(&[&args[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
    let shelf = sandbox.db().parent().unwrap().join("verify");
    let ledgers: Vec<PathBuf> =
        names(&shelf).into_iter().map(|volume| shelf.join(volume).join("0.ledger")).collect();
    for ledger in &ledgers {
        let mut damaged = std::fs::read(ledger).unwrap();
        damaged[20] ^= 1;
        std::fs::write(ledger, damaged).unwrap();
    }
    sandbox.run(&["verify", p(fs.dir())]).is_refusal(6, &["or it is damaged"]);
    for ledger in &ledgers {
        std::fs::remove_file(ledger).unwrap();
    }
    let cut_off = "the run that wrote it was cut off, and did not note what was acknowledged";
    let told = sandbox.run(&["verify", p(fs.dir())]);
    told.is_refusal(2, &[cut_off]);
    assert!(!told.stderr.contains("is gone"), "{told:?}");
    std::fs::remove_dir_all(kept_in(fs.dir())).unwrap();
    let both = format!("the file is gone, and {cut_off}");
    sandbox.run(&["verify", p(fs.dir())]).is_refusal(2, &[&both]);
    // What nobody knows of is a mistake all the same.
    sandbox.run(&["verify", p(&fs.dir().join("other"))]).is_refusal(2, &["name a file, directory"]);
}

/// Of a filesystem that lies below another one, and of one that is mounted in another place, all is known on.
fn hidden_or_elsewhere(sandbox: &Sandbox, device: &Path, point: &Path) {
    let forget = |path: &Path| sandbox.run(&["clean", p(path), "--forget"]);
    run_tool("mount", ["-t", "tmpfs", "over", p(point)]).unwrap();
    let above = forget(point.parent().unwrap());
    run_tool("umount", [point]).unwrap();
    assert!(above.code == 4 && above.stdout.contains("not forgotten, "), "{above:?}");
    assert!(!above.stdout.contains(": forgotten"), "{above:?}");
    let (other, there) = (sandbox.dir().join("other"), forget(point));
    assert!(there.stdout.contains("Nothing of what is noted"), "{there:?}");
    std::fs::create_dir(&other).unwrap();
    run_tool("umount", [point]).unwrap();
    run_tool("mount", [device, &other]).unwrap();
    let moved = forget(point);
    run_tool("umount", [&other]).unwrap();
    assert!(moved.code == 4 && moved.stdout.contains("by now; fathom clean "), "{moved:?}");
    assert!(moved.stdout.contains("the journal still knows"), "{moved:?}");
    assert_eq!(moved.stdout.lines().count(), 2, "a line for each: {moved:?}");
    run_tool("mount", [device, point]).unwrap();
}

/// What was written to a filesystem that is away is not lost; whether it may come back is told, and who knows that it does not
/// has it forgotten, in the journal too, without a file being touched.
fn made_anew() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let (point, device) = (fs.dir(), fs.device().path());
    let owned = sandbox.db().parent().unwrap().join("owned");
    let write = |target: &Path| {
        let args = ["run", "seqwrite", p(target), "size=768k", "block_size=64k"];
        sandbox.json(&[&args[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
    };
    let verify = || sandbox.run(&["verify", p(point)]);
    let forget = |path: &Path| sandbox.run(&["clean", p(path), "--forget"]);
    // One in a directory of fathom's, one of a name of its own.
    let own = point.join("own name");
    write(point);
    write(&own);
    let data = kept_in(point).join("data");
    let there = forget(point);
    assert!(there.code == 0 && there.stdout.contains("Nothing of what is noted"), "{there:?}");
    // Not mounted: it may come back, and is kept while nobody names it.
    run_tool("umount", [point]).unwrap();
    let away = format!("{}: its filesystem is not mounted", own.display());
    let done = verify();
    assert_eq!(done.code, 2, "{done:?}");
    for words in [&away, &format!("fathom clean '{}' --forget", own.display())] {
        assert!(done.stderr.contains(words), "'{words}' is not in {done:?}");
    }
    let above = forget(point.parent().unwrap());
    assert!(above.code == 4 && above.stdout.contains("not forgotten, "), "{above:?}");
    let cleaned = sandbox.run(&["clean", p(point)]);
    assert!(cleaned.code == 4 && cleaned.stdout.contains("it stays as it is"), "{cleaned:?}");
    run_tool("mount", [device, point]).unwrap();
    assert_eq!(verify().code, 0, "it came back, and all is known");
    hidden_or_elsewhere(&sandbox, device, point);
    assert_eq!((verify().code, names(&owned).len()), (0, 2), "nothing was forgotten");
    // Made anew: nothing comes back.
    run_tool("umount", [point]).unwrap();
    FsKind::Ext4.make(device, &[]).unwrap();
    run_tool("mount", [device, point]).unwrap();
    let somebodys = point.join("own name");
    std::fs::write(&somebodys, "precious").unwrap();
    let done = verify();
    assert_eq!(done.code, 2, "{done:?}");
    for target in [&data, &own] {
        let told = format!("{}: run ", target.display());
        assert!(done.stderr.contains(&told), "'{told}' is not in {done:?}");
    }
    assert!(done.stderr.contains("another filesystem"), "{done:?}");
    let cleaned = sandbox.run(&["clean", p(point)]);
    assert!(cleaned.code == 4 && cleaned.stdout.contains("--forget"), "{cleaned:?}");
    let forgotten = forget(point);
    assert_eq!(forgotten.code, 0, "{forgotten:?}");
    for target in [&data, &own] {
        let told = format!("{}: forgotten, fathom verify", target.display());
        assert!(forgotten.stdout.contains(&told), "'{told}' is not in {forgotten:?}");
    }
    assert_eq!(forgotten.stdout.lines().count(), 2, "a line for each: {forgotten:?}");
    assert_eq!(std::fs::read(&somebodys).unwrap(), b"precious");
    assert_eq!(names(&owned), Vec::<String>::new());
    verify().is_refusal(2, &["nothing is known"]);
    assert_eq!(sandbox.run(&["clean", p(point)]).code, 0);
    // One that never comes back, by its name.
    write(point);
    run_tool("umount", [point]).unwrap();
    let forgotten = sandbox.json(&["clean", p(point), "--forget"], &[0]).result();
    assert_eq!(forgotten["forgotten"].as_array().unwrap().len(), 1, "{forgotten}");
    verify().is_refusal(2, &["nothing is known"]);
    run_tool("mount", [device, point]).unwrap();
    assert!(kept_in(point).join("data").exists(), "no file is touched");
    write(&point.join("another"));
    damaged_head(&sandbox, point);
}

/// What cannot be told has its reason, for programs too.
fn damaged_head(sandbox: &Sandbox, point: &Path) {
    let shelf = sandbox.db().parent().unwrap().join("verify");
    let head = shelf.join(&names(&shelf)[0]).join("head.json");
    let bent = std::fs::read_to_string(&head).unwrap().replacen(':', ";", 1);
    std::fs::write(&head, bent).unwrap();
    let told = sandbox.json(&["clean", p(point), "--forget"], &[6]).result();
    let why = told["unread"][0].as_str().unwrap_or_default();
    assert!(why.contains(p(&head)) && why.contains("is damaged"), "{told}");
}

/// A file that cannot be checked keeps no loss of another one from being told, whichever was written first.
fn beside_errors() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let file = |name: &str| fs.dir().join(name);
    let write = |name: &str| {
        let target = file(name);
        let args = ["run", "seqwrite", p(&target), "size=768k", "block_size=64k"];
        sandbox.json(&[&args[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
    };
    let replace = |name: &str| {
        std::fs::rename(file(name), file(&format!("old-{name}"))).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::fs::write(file(name), [0; 768 << 10]).unwrap();
    };
    ["first", "damaged", "last"].into_iter().for_each(write);
    replace("first");
    replace("last");
    let look = |code: i32| {
        let done = sandbox.json(&["verify", p(fs.dir())], &[code]);
        let result = done.result();
        let list = |key: &str| result[key].as_array().unwrap().clone();
        let errors = list("errors");
        for name in ["first", "last"] {
            let told = format!("{}: is not the file that was written by run", file(name).display());
            let is_told = |error: &&Value| error.as_str().unwrap().starts_with(&told);
            assert_eq!(errors.iter().filter(is_told).count(), 1, "{errors:?}");
            assert!(done.stderr.contains(&told), "{done:?}");
        }
        let checks = list("checks");
        assert_eq!((errors.len(), checks.len()), (2, 1), "{result}");
        checks[0]["verify"]["mismatches"].as_u64().unwrap()
    };
    assert_eq!(look(2), 0, "the third is sound");
    let opened = File::options().write(true).open(file("damaged")).unwrap();
    opened.write_all_at(&[0; 512], 64 << 10).unwrap();
    assert_eq!(look(5), 1);
    let told = sandbox.run(&["verify", p(fs.dir())]);
    let words = "offset 65536, ";
    assert!(told.code == 5 && told.stdout.contains(words), "{told:?}");
}

/// Files that cannot be opened for want of descriptors are neither wrong nor as written, and damage beside them is found.
fn own_limit() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let args = ["run", "randwrite", p(fs.dir()), "size=2M", "files=200", "block_size=8k"];
    let verified = ["duration=300ms", "verify=after", "--keep"];
    sandbox.json(&[&args[..], &verified].concat(), &[0, 1]);
    let look = |limit: u32| {
        let fathom = sandbox.command(&["verify", p(fs.dir())]);
        let limit = format!("--nofile={limit}");
        run(|| {
            let mut command = Command::new("prlimit");
            command.arg(&limit).arg(fathom.get_program()).args(fathom.get_args());
            command
        })
    };
    // With more descriptors than this it can always read: one file after the other.
    let codes: Vec<i32> = (7..24)
        .map(|limit| {
            let done = look(limit);
            let is_told = done.stderr.contains("(os error 24)") || done.code == 0;
            assert!(is_told && !done.stdout.contains("WRONG"), "limit {limit}: {done:?}");
            assert!([0, 4].contains(&done.code), "limit {limit}: {done:?}");
            done.code
        })
        .collect();
    assert!(codes.first() == Some(&4) && codes.last() == Some(&0), "{codes:?}");
    let few = [8, 9, 10, 11].map(look);
    let told = few.iter().map(|done| done.stderr.as_str()).collect::<String>();
    let cure = "raise the limit of descriptors (ulimit -n)";
    assert!(told.contains("/f") && told.contains(cure), "{told}");
    // A place that was written for sure: the first block of each file that has any.
    let kept = kept_in(fs.dir()).join("d0000");
    for name in names(&kept) {
        let file = File::options().read(true).write(true).open(kept.join(name)).unwrap();
        let mut block = [0; 512];
        file.read_exact_at(&mut block, 0).unwrap();
        block[100] ^= 1;
        file.write_all_at(&block, 0).unwrap();
    }
    assert_eq!(look(1000).code, 5);
    let most = look(10);
    assert!(most.code == 5 && most.stdout.contains("WRONG"), "{most:?}");
}

/// The file is gone when it is to be read back: what was measured is told and stored all the same, and is worth nothing.
fn cannot_begin() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let target = fs.dir().join("data");
    let args = ["run", "randwrite", p(&target), "size=4M", "duration=3s", "warmup=0s"];
    let running = sandbox.start(&[&args[..], &["verify=after"]].concat(), "progress", 1);
    std::fs::remove_file(&target).unwrap();
    let done = running.finish();
    assert_eq!(done.code, 5, "{done:?}");
    let records = done.records();
    assert_eq!(records.len(), 1, "{done:?}");
    assert!(operations(&records[0]) > 0);
    assert_eq!(records[0]["jobs"][0]["verify"]["is_partial"], true);
    let failure = &records[0]["failure"];
    let told = format!("{}: opening: No such file", target.display());
    assert_eq!(failure["operation"], "verify");
    assert!(failure["message"].as_str().unwrap().starts_with(&told), "{failure}");
    assert_eq!(sandbox.runs().len(), 1);
}

/// The verification of a record's only job.
fn verified(record: &Value) -> (u64, u64, u64) {
    let verify = &record["jobs"][0]["verify"];
    let number = |key: &str| verify[key].as_u64();
    let skipped = number("skipped_bytes").unwrap_or(0);
    (number("mismatches").unwrap(), number("checked_bytes").unwrap(), skipped)
}

/// Zero ranges must be zeros; of what was trimmed on a device nothing is known, and that is said.
fn cleared_on_a_device() {
    let sandbox = Sandbox::new();
    let (device, id) = blank_device();
    let target = p(device.path());
    let args = ["run", "randwrite", target, &id, "block_size=4k", "span=2M", "engine=psync"];
    let more = ["depth=1", "threads=2", "zero_fraction=0.3", "trim_fraction=0.2"];
    let after = ["write_fraction=0.5", "verify=after", "operations=6000"];
    let done = sandbox.json(&[&args[..], &more, &after].concat(), &[0, 1]);
    let (mismatches, checked, skipped) = verified(&done.records()[0]);
    assert_eq!((mismatches, checked + skipped), (0, 2 << 20), "every block was met");
    assert!(skipped > 100 << 10, "{skipped}");
    let shown = sandbox.run(&["show", &done.id()]).stdout;
    assert!(shown.contains("not checked: trimmed"), "{shown}");
    // The same in a later run. A wrong bit in each block of zeros is found where zeros must be, and only there.
    let sound = File::open(device.backing()).unwrap();
    let is_zero = |block: &u64| {
        let mut data = [0; BLOCK];
        sound.read_exact_at(&mut data, block * BLOCK as u64).unwrap();
        data == [0; BLOCK]
    };
    let zeros: Vec<u64> = (0..512).filter(is_zero).collect();
    // A device whose file is open elsewhere is not overwritten.
    drop(sound);
    zeros.iter().for_each(|block| spoil(device.backing(), block * BLOCK as u64 + 9, &[1]));
    let result = sandbox.json(&["verify", target], &[5]).result();
    let later = &result["checks"][0]["verify"];
    assert_eq!(later["skipped_bytes"].as_u64(), Some(skipped));
    let wrong = later["mismatches"].as_u64().unwrap();
    assert!(wrong > 50 && wrong < zeros.len() as u64, "{wrong} of {}", zeros.len());
    for one in later["first"].as_array().unwrap() {
        let block = one["offset_bytes"].as_u64().unwrap() / BLOCK as u64;
        assert!(zeros.contains(&block) && one["kind"] == "corrupt", "{one}");
        let text = |key: &str| one[key].as_str().unwrap();
        assert!(text("expected").starts_with("zeros") && text("found").contains("zeros with 1"));
    }
    zeros.iter().for_each(|block| spoil(device.backing(), block * BLOCK as u64 + 9, &[0]));
    sandbox.json(&["verify", target], &[0]);
    // While it runs: reads meet zero ranges and trims that are in flight.
    let args = ["run", "randwrite", target, &id, "block_size=4k", "span=1M", "engine=psync"];
    let during = ["write_fraction=0.3", "verify=during", "operations=6000"];
    let done = sandbox.json(&[&args[..], &more, &during].concat(), &[0, 1]);
    let (mismatches, checked, skipped) = verified(&done.records()[0]);
    assert!(mismatches == 0 && checked > 0 && skipped > 0, "{mismatches} {checked} {skipped}");
}

/// In a file a trim makes a hole, which reads as zeros: both are checked.
fn cleared_in_a_file() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let file = fs.dir().join("kept");
    let args = ["run", "randwrite", p(&file), "size=2M", "block_size=4k", "depth=8", "--keep"];
    let more = ["zero_fraction=0.2", "trim_fraction=0.2", "write_fraction=0.6"];
    let done =
        sandbox.json(&[&args[..], &more, &["verify=after", "operations=6000"]].concat(), &[0, 1]);
    assert_eq!(verified(&done.records()[0]), (0, 2 << 20, 0));
    let content = std::fs::read(&file).unwrap();
    let is_zero = |block: &usize| content[block * BLOCK..(block + 1) * BLOCK] == [0; BLOCK];
    let zeros: Vec<usize> = (0..512).filter(is_zero).collect();
    assert!((100..350).contains(&zeros.len()), "{}", zeros.len());
    // A block of data in one of them, and zeros in place of data: of one of three at the most both are legal, because a
    // write and a trim of it were in flight together.
    let data: Vec<usize> = (0..512).filter(|block| !is_zero(block)).take(3).collect();
    let opened = File::options().write(true).open(&file).unwrap();
    let block = &content[data[0] * BLOCK..(data[0] + 1) * BLOCK];
    opened.write_all_at(block, (zeros[7] * BLOCK) as u64).unwrap();
    for block in &data {
        opened.write_all_at(&[0; BLOCK], (block * BLOCK) as u64).unwrap();
    }
    let result = sandbox.json(&["verify", p(&file)], &[5]).result();
    let found = &result["checks"][0]["verify"];
    let kinds: BTreeMap<u64, &str> = found["first"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["offset_bytes"].as_u64().unwrap(), one["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(found["mismatches"].as_u64(), Some(kinds.len() as u64), "{found}");
    assert_eq!(kinds.get(&((zeros[7] * BLOCK) as u64)), Some(&"misplaced"), "{found}");
    let of_data = data.iter().filter_map(|block| kinds.get(&((block * BLOCK) as u64)));
    let of_data: Vec<&str> = of_data.copied().collect();
    assert!(of_data.len() >= 2 && of_data.iter().all(|kind| *kind == "zeros"), "{found}");
    assert_eq!(kinds.len(), 1 + of_data.len(), "{found}");
}
