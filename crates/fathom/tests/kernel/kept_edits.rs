//! What somebody writes into a test file stays, while a run goes on and after one was killed; and what fathom itself
//! wrote is never taken for it.

use crate::cli::{Sandbox, names, p};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop};
use fathom_testkit::{FsKind, Trial, kernel_test};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

const TEXT: &[u8] = b"twenty-three bytes here";

/// A command that measures puts in order what dead runs left.
const NEXT: &[&str] = &["run", "randread", "null:", "duration=10ms"];

pub fn trials() -> Vec<Trial> {
    let fs = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("edits_of_files_of_a_killed_run_are_kept", &[FathomBinary], killed_and_edited),
        kernel_test("edits_of_files_of_a_killed_run_are_kept_on_ext4", &fs, killed_on_ext4),
        kernel_test("unedited_files_of_a_killed_run_are_removed", &[FathomBinary], killed_only),
        kernel_test("edits_during_a_reading_run_are_kept", &[FathomBinary], edited_meanwhile),
        kernel_test("edits_inside_the_test_directory_are_kept", &[FathomBinary], edited_inside),
        kernel_test("small_unaligned_writes_leave_nothing", &[FathomBinary], odd_writes),
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
