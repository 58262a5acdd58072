//! What is written, as it lies on disks: read back, compressed, compared.

use crate::cli::{GIB, MIB, Sandbox, p};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, MountedFs, Trial, counted, kernel_test, sample,
};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn trials() -> Vec<Trial> {
    let zstd = [FathomBinary, Tool("zstd"), Tool("lz4")];
    vec![
        kernel_test("content_is_incompressible", &zstd, incompressible),
        kernel_test(
            "content_fills_a_compressing_filesystem",
            &[FathomBinary, FsOnLoop(FsKind::Btrfs)],
            compressing_filesystem,
        ),
        kernel_test("content_shares_are_delivered", &[FathomBinary], shares),
        kernel_test("content_pattern", &[FathomBinary], pattern),
    ]
}

/// Runs a workload on a new file that is kept, and gives its path.
fn written(sandbox: &Sandbox, args: &[&str]) -> PathBuf {
    written_by(sandbox, args).0
}

/// The same, with the record of the job.
fn written_by(sandbox: &Sandbox, args: &[&str]) -> (PathBuf, Value) {
    let file = sandbox.dir().join("kept");
    let _ = std::fs::remove_file(&file);
    // Shares of some thousand blocks: with another seed, one in some hundred would be two percent off.
    let common = ["run", args[0], p(&file), "direct=no", "--keep", "--seed=5"];
    let done = sandbox.json(&[&common[..], &args[1..]].concat(), &[0, 1]);
    let record = done.records().remove(0);
    assert_eq!(record["ending"], "complete");
    (file, record["jobs"][0].clone())
}

/// Bytes that a compressor makes of a file.
fn compressed(file: &Path, tool: &str, options: &[&str]) -> u64 {
    let output = Command::new(tool).args(options).arg("-c").arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.len() as u64
}

/// What the engine leaves in a file after sequential writes with several slots, which come back again and again.
fn incompressible() {
    let sandbox = Sandbox::new();
    let (size, bytes) = if sample(0, 1) == 1 { ("64M", 64 * MIB) } else { ("16M", 16 * MIB) };
    let size = format!("size={size}");
    for shape in [["block_size=4k", "depth=8"], ["block_size=1M", "depth=4"]] {
        let file = written(&sandbox, &["seqwrite", &size, shape[0], shape[1]]);
        assert_eq!(std::fs::metadata(&file).unwrap().len(), bytes);
        let level = if sample(0, 1) == 1 { "-19" } else { "-3" };
        for (tool, options) in [("zstd", &[level, "--long=27", "-q"][..]), ("lz4", &["-9", "-q"])] {
            let share = compressed(&file, tool, options) as f64 / bytes as f64;
            assert!(share > 0.999, "{tool} {shape:?}: {share}");
        }
    }
    // The compressors do see what is there to be seen.
    let file = written(&sandbox, &["seqwrite", &size, "compressible=50%"]);
    let share = compressed(&file, "zstd", &["-3", "-q"]) as f64 / bytes as f64;
    assert!(share < 0.52, "{share}");
}

/// Bytes that the device below wrote.
fn device_written(name: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    stat.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
}

/// For real, on a filesystem that compresses records of 128 KiB with what their neighbours hold.
fn compressing_filesystem() {
    // Through the page cache also below: there no probe of direct I/O writes to the file first.
    let device = LoopDevice::with(2 * GIB, Content::Sparse, &LoopOptions::default()).unwrap();
    let fs = MountedFs::with(FsKind::Btrfs, device, &[], "compress-force=zstd").unwrap();
    let name = fs.device().name();
    let sync = || assert!(Command::new("sync").arg("-f").arg(fs.dir()).status().unwrap().success());
    let share = |content: &str, block: &str| {
        let sandbox = Sandbox::new();
        sync();
        let before = device_written(&name);
        let file = fs.dir().join("kept");
        let args = ["run", "seqwrite", p(&file), "size=64M", "direct=no", "--keep", block, content];
        let result = sandbox.json(&args, &[0, 1]).result();
        let found = result["findings"].as_array().unwrap();
        let is_said = found.iter().any(|finding| finding["id"] == "compressed-on-the-way");
        assert_eq!(is_said, content != "content=random", "{content}: {found:?}");
        sync();
        let share = (device_written(&name) - before) as f64 / (64 * MIB) as f64;
        std::fs::remove_file(&file).unwrap();
        println!("{content} {block}: {:.2} % of the file reached the device", share * 100.0);
        share
    };
    for block in ["block_size=4k", "block_size=1M"] {
        assert!(share("content=random", block) >= 0.98);
    }
    assert!(share("content=zero", "block_size=4k") < 0.2);
    let half = share("compressible=50%", "block_size=4k");
    assert!((half - 0.5).abs() < 0.1, "{half}");
}

/// Share that lz4 saves of each 4 KiB for itself, and share of blocks that are copies of others.
fn delivered(file: &Path) -> (f64, f64) {
    let data = std::fs::read(file).unwrap();
    let blocks = || data.chunks(4096);
    let saved: usize =
        blocks().map(|block| 4096 - lz4_flex::block::compress(block).len().min(4096)).sum();
    let different = blocks().collect::<HashSet<_>>().len();
    let count = blocks().count();
    (saved as f64 / data.len() as f64, 1.0 - different as f64 / count as f64)
}

fn shares() {
    let sandbox = Sandbox::new();
    let all = [(0.25, 0.0), (0.0, 0.75), (0.0, 0.0), (0.5, 0.3), (0.9, 0.1)];
    let asked = &all[all.len() - sample(3, all.len())..];
    counted("pairs of shares that were delivered", asked.len());
    for (compressible, duplicate) in asked.iter().copied() {
        let asked = [format!("compressible={compressible}"), format!("duplicate={duplicate}")];
        let shapes = [
            &["seqwrite", "block_size=4k", "depth=8", "size=16M"][..],
            &["seqwrite", "block_size=64k", "size=64M"],
            // Written over at random, by several threads.
            &["randwrite", "block_size=4k", "threads=2", "depth=8", "operations=40000", "size=16M"],
        ];
        for shape in shapes {
            let args = [shape, &[&asked[0], &asked[1]]].concat();
            let (file, job) = written_by(&sandbox, &args);
            let (saved, copies) = delivered(&file);
            // What the record says, without having looked at the file.
            let said = |key: &str| job["delivered"][key].as_f64();
            if compressible + duplicate > 0.0 {
                let said = [said("compressible").unwrap(), said("duplicate").unwrap()];
                assert!((said[0] - compressible).abs() <= 0.02, "{args:?}: {said:?}");
                assert!((said[1] - duplicate).abs() <= 0.02, "{args:?}: {said:?}");
            } else {
                assert!(job["delivered"].is_null(), "nothing was asked for");
            }
            // Of duplicates the first of each content is none; 4096 blocks of 16 MiB were written 10 times.
            assert!((saved - compressible).abs() <= 0.02, "{args:?}: {saved} saved");
            assert!((copies - duplicate).abs() <= 0.02, "{args:?}: {copies} copies");
        }
    }
    // Of few units the first of equal ones are a part to be seen, and that is said.
    for (block, is_missed) in [("block_size=1M", true), ("block_size=4k", false)] {
        let file = sandbox.dir().join("few");
        let _ = std::fs::remove_file(&file);
        let args = ["run", "seqwrite", p(&file), "size=32M", "direct=no", "duplicate=30%", block];
        let done = sandbox.json(&args, &[0, 1]);
        let is_said = done.findings().iter().any(|id| id == "content-shares-missed");
        assert_eq!(is_said, is_missed, "{block}: {done:?}");
    }
    // What was asked for is said.
    let shown = sandbox.run(&["show", sandbox.runs()[2]["id"].as_str().unwrap()]);
    for word in ["90 % compressible", "90.0 % compressible asked for, ", " duplicates asked for, "]
    {
        assert!(shown.stdout.contains(word), "'{word}' is not in: {}", shown.stdout);
    }
}

fn pattern() {
    let sandbox = Sandbox::new();
    let args = ["seqwrite", "size=4M", "block_size=64k", "content=pattern:deadbeef", "threads=2"];
    let data = std::fs::read(written(&sandbox, &args)).unwrap();
    assert_eq!(data.len() as u64, 4 * MIB);
    let bytes = [0xDE, 0xAD, 0xBE, 0xEF];
    // Of every 4 KiB, 16 bytes tell that fathom wrote it.
    let is_as_asked = |(at, byte): (usize, &u8)| at % 4096 < 16 || *byte == bytes[at % 4];
    assert!(data.iter().enumerate().all(is_as_asked));
    let data = std::fs::read(written(&sandbox, &["seqwrite", "size=4M", "content=zero"])).unwrap();
    assert!(data.iter().all(|byte| *byte == 0));
}
