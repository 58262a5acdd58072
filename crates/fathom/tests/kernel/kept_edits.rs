//! What somebody writes into a test file stays, while a run goes on and after one was killed; and what fathom itself
//! wrote is never taken for it.

use crate::cli::{Sandbox, names, p};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{FsKind, Trial, kernel_test};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const TEXT: &[u8] = b"twenty-three bytes here";

/// A command that measures puts in order what dead runs left.
const NEXT: &[&str] = &["run", "randread", "null:", "duration=10ms"];

pub fn trials() -> Vec<Trial> {
    let fs = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let fs_and_tools = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("chattr"), Tool("mkfifo")];
    vec![
        kernel_test("edits_of_files_of_a_killed_run_are_kept", &[FathomBinary], killed_and_edited),
        kernel_test("edits_of_files_of_a_killed_run_are_kept_on_ext4", &fs, killed_on_ext4),
        kernel_test("unedited_files_of_a_killed_run_are_removed", &[FathomBinary], killed_only),
        kernel_test("edits_during_a_reading_run_are_kept", &[FathomBinary], edited_meanwhile),
        kernel_test("edits_inside_the_test_directory_are_kept", &[FathomBinary], edited_inside),
        kernel_test("small_unaligned_writes_leave_nothing", &[FathomBinary], odd_writes),
        kernel_test("clean_list_says_what_clean_does", &fs_and_tools, listed_as_cleaned),
    ]
}

fn write_at(path: &Path, at: u64, text: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(text, at).unwrap();
}

/// What stands where: the bytes are still in the file.
#[track_caller]
fn holds(path: &Path, at: u64, text: &[u8]) {
    let mut found = vec![0; text.len()];
    fs::File::open(path).unwrap().read_exact_at(&mut found, at).unwrap();
    assert_eq!(found, text, "{} at {at}", path.display());
}

/// A run in `dir` that writes `left`, killed while it does.
fn kill_writer(sandbox: &Sandbox, file: &Path, block_size: &str) {
    let block_size = format!("block_size={block_size}");
    let args =
        ["run", "randwrite", p(file), "size=1000448", &block_size, "direct=no", "duration=10m"];
    let running = sandbox.start(&args, "progress", 2);
    running.signal("KILL");
    running.finish();
}

fn killed_in(dir: &Path) {
    let sandbox = Sandbox::new();
    let file = dir.join("left");
    for (at, text) in [(1_000_448, &b"TEXT\n"[..]), (4200, TEXT), (999_999, b"x")] {
        kill_writer(&sandbox, &file, "512");
        assert_eq!(fs::metadata(&file).unwrap().len(), 1_000_448);
        write_at(&file, at, text);
        let done = sandbox.run(NEXT);
        assert!(done.stderr.contains(&format!("rm {}", p(&file))), "{done:?}");
        holds(&file, at, text);
        sandbox.nothing_left(&[]);
        fs::remove_file(&file).unwrap();
    }
}

fn killed_and_edited() {
    killed_in(&Sandbox::new().dir());
}

fn killed_on_ext4() {
    let fs = crate::filesystems::mounted(FsKind::Ext4, &[], "");
    killed_in(fs.dir());
}

fn killed_only() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("left");
    for block_size in ["512", "4k", "64k", "512-16k"] {
        kill_writer(&sandbox, &file, block_size);
        let done = sandbox.run(NEXT);
        assert!(!file.exists(), "block_size={block_size}: {done:?}");
        sandbox.nothing_left(&[]);
    }
}

fn edited_meanwhile() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("new");
    let args = ["run", "randread", p(&file), "size=64M", "duration=6s"];
    let running = sandbox.start(&args, "progress", 1);
    running.wait_for_words("Written: ");
    write_at(&file, 4200, TEXT);
    let done = running.finish();
    assert!(done.stderr.contains(&format!("rm {}", p(&file))), "{done:?}");
    holds(&file, 4200, TEXT);
    sandbox.nothing_left(&[]);
}

fn edited_inside() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let text = b"X\n".repeat(500_000);
    for files in ["files=1", "files=20"] {
        let args = ["run", "randread", p(&dir), "size=64M", "duration=6s", files];
        let running = sandbox.start(&args, "progress", 1);
        running.wait_for_words("Written: ");
        let own = names(&dir).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
        let own = dir.join(own);
        let inner = if files == "files=1" { "data" } else { "d0000/f007" };
        write_at(&own.join(inner), 0, &text);
        let done = running.finish();
        assert!(done.stderr.contains(&format!("rm -r {}", p(&own))), "{done:?}");
        holds(&own.join(inner), 0, &text);
        fs::remove_dir_all(&own).unwrap();
        sandbox.nothing_left(&[]);
    }
}

fn odd_writes() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("new");
    for odd in
        [&["block_size=8"][..], &["block_size=100", "align=100"], &["block_size=1k-7k", "align=1"]]
    {
        let args = ["run", "randwrite", p(&file), "size=16M", "direct=no", "duration=1s"];
        let done = sandbox.json(&[&args[..], odd].concat(), &[0, 1]);
        assert!(!done.stderr.contains("stays"), "{odd:?}: {done:?}");
        assert!(!file.exists(), "{odd:?}");
        sandbox.nothing_left(&[]);
    }
}

/// What somebody does to kept test files, of which the directory, one of its files, and a file of a name of its own are given.
type Doing = fn(&Path, &Path, &Path);

const DOINGS: [(&str, i32, Doing); 17] = [
    ("nothing", 0, |_, _, _| {}),
    ("a file more", 3, |own, _, _| fs::write(own.join("mine"), TEXT).unwrap()),
    ("a directory more", 3, |own, _, _| fs::create_dir_all(own.join("mine/x")).unwrap()),
    ("edited", 3, |_, data, _| write_at(data, 4200, TEXT)),
    ("replaced", 3, |_, data, _| fs::write(data, TEXT).unwrap()),
    ("longer", 3, |_, data, _| append(data, TEXT)),
    ("gone", 0, |_, data, named| {
        [data, named].into_iter().for_each(|one| fs::remove_file(one).unwrap())
    }),
    ("a pipe", 3, |_, data, _| instead(data, &["mkfifo"])),
    ("a link", 3, |_, data, _| instead(data, &["ln", "-s", "/etc/passwd"])),
    ("a directory", 3, |_, data, _| instead(data, &["mkdir"])),
    ("fixed", 5, |_, data, _| _ = run_tool("chattr", ["+i", p(data)]).unwrap()),
    ("a fixed directory", 5, |own, _, _| _ = run_tool("chattr", ["+i", p(own)]).unwrap()),
    ("a card edited", 3, |own, _, _| append(&own.join("owner.json"), b"x")),
    ("a list edited", 3, |own, _, _| append(&own.join("manifest"), b"mine\n")),
    ("covered", 4, |own, _, _| {
        _ = run_tool("mount", ["-t", "tmpfs", "over", p(own)]).unwrap();
    }),
    ("the named one edited", 3, |_, _, named| write_at(named, 100, TEXT)),
    ("a name more", 0, |own, data, _| fs::hard_link(data, own.with_file_name("hard")).unwrap()),
];

fn append(path: &Path, text: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text).unwrap();
}

fn instead(path: &Path, tool: &[&str]) {
    fs::remove_file(path).unwrap();
    run_tool(tool[0], tool[1..].iter().copied().chain([p(path)])).unwrap();
}

/// By the same steps: with the same code and the same words, and nothing is touched.
fn listed_as_cleaned() {
    let mounted = crate::filesystems::mounted(FsKind::Ext4, &[], "");
    let dir = mounted.dir();
    for (files, data) in [(&[][..], "data"), (&["files=4"], "d0000/f001")] {
        for (what, code, act) in DOINGS {
            let (sandbox, named) = (Sandbox::new(), dir.join("named"));
            for (target, more) in [(dir, files), (&named, &[])] {
                let args = ["run", "randwrite", p(target), "size=256k", "operations=50", "--keep"];
                sandbox.json(&[&args[..], more].concat(), &[0, 1]);
            }
            let own = names(dir).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
            let own = dir.join(own);
            act(&own, &own.join(data), &named);
            // Of many, one with a second name is not known to be fathom's alone.
            let code = if what == "a name more" && !files.is_empty() { 3 } else { code };
            let stays = |args: &[&str]| {
                let done = sandbox.run(&[&["clean", p(dir)], args].concat());
                assert_eq!(done.code, code, "{what}: {done:?}");
                let goes = ["  test files", "  a test file", ": removed"];
                let is_told = |line: &&str| !goes.iter().any(|end| line.ends_with(end));
                done.stdout.lines().filter(is_told).map(str::to_owned).collect::<Vec<_>>()
            };
            let before = (names(dir), names(&own));
            let listed = stays(&["--list"]);
            assert_eq!((names(dir), names(&own)), before, "{what}");
            assert_eq!(stays(&[]), listed, "{what}");
            assert_eq!(listed.is_empty(), code == 0, "{what}: {listed:?}");
            _ = run_tool("umount", [p(&own)]);
            _ = run_tool("chattr", ["-R", "-i", p(dir)]);
            for left in names(dir).iter().filter(|name| *name != "lost+found") {
                run_tool("rm", ["-r", p(&dir.join(left))]).unwrap();
            }
        }
    }
}
