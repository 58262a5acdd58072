//! `saturate` and `size` as a user calls them, where something of the answer is known beforehand.

use crate::cli::{Done, MIB, Sandbox, p};
use crate::filesystems::mounted;
use crate::open_loop::cached_file;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Tool};
use fathom_testkit::{
    Content, FsKind, Judged, LoopDevice, LoopOptions, Trial, kernel_test, loopdev, sample,
};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    let stops = [FathomBinary, Tool("kill")];
    let queue = [FathomBinary, LoopDevices];
    let fs = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("saturate_fathom_itself", &[FathomBinary], itself),
        kernel_test("saturate_what_is_capped", &[FathomBinary], capped),
        kernel_test("saturate_a_short_queue", &queue, short_queue),
        kernel_test("saturate_is_stopped", &stops, stopped),
        kernel_test("size_rejects_what_the_cache_answers", &fs, cached),
        kernel_test("size_narrows", &fs, narrows),
        kernel_test("saturate_and_size_bad_input", &[FathomBinary], bad_input),
    ]
}

fn rows(saturation: &Value) -> Vec<(u64, f64)> {
    let one = |row: &Value| {
        (row["concurrency"].as_u64().unwrap(), row["iops"]["value"].as_f64().unwrap())
    };
    saturation["rows"].as_array().unwrap().iter().map(one).collect()
}

fn highest(done: &Done) -> f64 {
    rows(&done.result()["saturation"]).into_iter().map(|(_, iops)| iops).fold(0.0, f64::max)
}

/// There is no device: it is said, and every run is stored and can be shown.
fn itself() {
    let sandbox = Sandbox::new();
    let done = sandbox.json(&["saturate", "null:", "--time=10s"], &[0, 1]);
    let result = done.result();
    let limit = &result["saturation"]["limit"];
    assert_eq!(limit["cause"], "fathom", "{limit}");
    assert!(rows(&result["saturation"]).len() >= 4, "{done:?}");
    let records = done.records();
    assert!(records.len() > 8, "{}", records.len());
    let run = &sandbox.runs()[0];
    assert_eq!(run["kind"], "saturate", "{run}");
    let shown = sandbox.run(&["show", &done.id()]);
    assert!(shown.code == 0 && shown.stdout.contains("in flight"), "{shown:?}");
    let text = sandbox.run(&["saturate", "null:", "--time=10s"]);
    assert!(text.stdout.contains("Limit: fathom itself"), "{text:?}");
}

/// A cap of the rate is the true highest throughput, and one or two requests in flight reach it: flat from there on.
fn capped() -> Judged {
    let sandbox = Sandbox::new();
    let file = cached_file(&sandbox);
    let args = ["saturate", p(&file), "randread", "direct=no", "cap_iops=500", "--time=12s"];
    let measure = || sandbox.json(&args, &[0, 1]);
    // Where others use the machine, the first runs may be those that they hold up.
    let is_flat = |done: &Done| {
        let knee = &done.result()["saturation"]["knee"];
        println!("knee {}, at most {}", knee["concurrency"], highest(done));
        highest(done) >= 400.0 && knee["concurrency"].as_u64().is_some_and(|c| c <= 8)
    };
    let mut is_quiet = false;
    for _ in 0..6 {
        let done = measure();
        // Ten milliseconds may be caught up in each run of a fifth of a second; what others take is lost.
        assert!((50.0..=550.0).contains(&highest(&done)), "{}", highest(&done));
        if is_flat(&done) {
            assert_eq!(done.result()["saturation"]["limit"]["cause"], "asked");
            is_quiet = true;
            break;
        }
    }
    sandbox.nothing_left(&[]);
    if is_quiet {
        return Judged::Passed;
    }
    Judged::Skipped("others kept the machine busy in all six runs: the knee was not judged".into())
}

/// A device that takes four requests at a time: its own counter says that more were never in flight on it, and that its
/// queue was the limit.
fn short_queue() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(64 * MIB, Content::Pattern(3), &LoopOptions::default()).unwrap();
    let requests = format!("/sys/block/{}/queue/nr_requests", device.name());
    let before = std::fs::read_to_string(&requests).unwrap();
    std::fs::write(&requests, "4").unwrap();
    let done = sandbox.json(&["saturate", p(device.path()), "--time=12s"], &[0, 1]);
    std::fs::write(&requests, before.trim()).unwrap();
    let saturation = done.result()["saturation"].clone();
    for row in saturation["rows"].as_array().unwrap() {
        let in_flight = row["in_flight_device"].as_f64().unwrap();
        assert!(in_flight <= 4.4, "{row}");
    }
    let many = rows(&saturation).into_iter().filter(|(c, _)| *c >= 32).count();
    assert!(many >= 2, "{saturation}");
}

/// A signal in the middle: the runs so far are kept, nothing is left behind.
fn stopped() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["saturate", p(&dir), "size=16M", "direct=no", "--time=60s"];
    let running = sandbox.start(&args, "trial_started", 3);
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    assert!(done.result()["saturation"]["rows"].as_array().is_some_and(|rows| !rows.is_empty()));
    assert_eq!(sandbox.runs()[0]["state"], "interrupted");
    sandbox.nothing_left(&[]);
}

/// Buffered reads at a fixed rate: the small sets are in the page cache before the run is over, the large one is not. The
/// rate is the same for all of them, so that only the devices' counters tell.
fn cached() -> Judged {
    let sandbox = Sandbox::new();
    // A device of its own, so that nobody else reads from it.
    let fs = mounted(FsKind::Ext4, &[], "");
    // Among pages that are cached, the kernel takes reads at random for ordered ones and reads ahead.
    let read_ahead = format!("/sys/block/{}/queue/read_ahead_kb", fs.device().name());
    let before = std::fs::read_to_string(&read_ahead).unwrap();
    std::fs::write(&read_ahead, "0").unwrap();
    let args =
        ["size", p(fs.dir()), "randread", "size=256M", "direct=no", "cap_iops=5000", "--time=30s"];
    let smallest_of = |sizes: &Value| -> Option<Value> {
        let is_smallest = |c: &&Value| c["size_bytes"] == 16 * MIB && c["is_part"] == false;
        sizes["cells"].as_array()?.iter().find(is_smallest).cloned()
    };
    // The smallest set has 4096 blocks: of 5000 reads in a second at most 82 % can come from the device.
    let measure = || sandbox.json(&args, &[0, 1]).result()["sizes"].clone();
    // Where others use the machine, the runs may be too uneven to compare anything with, and a slow disk gives no 5000 a second.
    let is_measured = |sizes: &Value| {
        let Some(smallest) = smallest_of(sizes) else { return false };
        println!("smallest set: {}, {}", smallest["outcome"], smallest["iops"]["value"]);
        smallest["iops"]["value"].as_f64() > Some(4500.0) && smallest["outcome"] != "too_noisy"
    };
    let sizes = (0..sample(3, 5)).map(|_| measure()).find(is_measured);
    std::fs::write(&read_ahead, before.trim()).unwrap();
    let Some(sizes) = sizes else {
        sandbox.nothing_left(&[fs.dir()]);
        let reason =
            "too busy or too slow in all runs: whether a cached size is rejected was not judged";
        return Judged::Skipped(reason.to_owned());
    };
    let (cells, smallest) = (sizes["cells"].as_array().unwrap(), smallest_of(&sizes).unwrap());
    assert_eq!(smallest["outcome"], "cache", "{smallest}");
    assert!(smallest["reason"].as_str().unwrap().starts_with("cache: "), "{smallest}");
    let reference = &cells[0];
    assert!(reference["from_device"].as_f64().unwrap() > 0.8, "{reference}");
    assert_ne!(sizes["answer"][0].as_u64(), Some(16 * MIB));
    assert_eq!(sandbox.runs()[0]["kind"], "size");
    sandbox.nothing_left(&[fs.dir()]);
    Judged::Passed
}

fn bad_input() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for (args, words) in [
        (&["saturate", "null:", "depth=4"][..], &["depth=4", "by itself"][..]),
        (&["saturate", "null:", "--time=1s"], &["--time=1s", "from 10 s"]),
        (&["saturate", "null:", "--bound=p99"], &["--bound", "p99:2ms"]),
        (&["saturate", "null:", "--bound=p99:2"], &["--bound", "unit"]),
        (&["saturate", "null:", "arrivals=odd"], &["arrivals=odd", "poisson"]),
        (&["saturate", "null:", "randraed"], &["randraed", "did you mean"]),
        (&["saturate", p(&dir), "commit"], &["nothing to raise"]),
        (&["saturate", p(&dir), "bonnie"], &["bonnie", " jobs; a search changes one"]),
        (&["saturate", "null:", "--bound=p99:2ms", "cap_iops=5"], &["cap_iops"]),
        (&["size", "null:", "span=1G"], &["span=1G", "by itself"]),
        (&["size", "null:", "--margin=80%"], &["--margin=80%", "50%"]),
        (&["size", p(&dir), "--data=lots"], &["--data", "lots"]),
        (&["size", p(&dir), "--data=1M"], &["--data=1MiB", "less than twice the memory"]),
        (&["size", p(&dir), "commit"], &["no size to vary"]),
    ] {
        sandbox.refuses(args, 2, words);
    }
}

/// A file whose second half was never written: what lies there is answered without the device, so that the larger the part of it
/// that is read, the faster. Half of the file differs from the whole, and what lies between them is tried. The kernel holds the
/// device at a steady rate where it can, so that it is the file that makes the difference and not others who use the machine.
fn narrows() -> Judged {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let file = fs.dir().join("f");
    loopdev::make_file(&file, 32 * MIB, Content::Pattern(1)).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(64 * MIB).unwrap();
    let throttled = Throttled::new(&fs.device().name(), 500);
    println!("held at 500 reads a second: {}", throttled.is_some());
    let mut noise = String::new();
    for _ in 0..4 {
        // The real-life set of so much data is larger than any file here: that it was not reached is a doubt.
        let args = [
            "size",
            p(&file),
            "depth=1",
            "engine=psync",
            "--time=26s",
            "--margin=30%",
            "--data=900TB",
        ];
        let result = sandbox.json(&args, &[0, 1]).result();
        let finding = result["findings"].as_array().unwrap().iter();
        let finding = finding.clone().find(|f| f["id"] == "real-life-set-not-reached").unwrap();
        assert!(finding["summary"].as_str().unwrap().starts_with("The largest set is 64 MiB, 0 %"));
        let id = result["id"].as_str().unwrap();
        let shown = sandbox.json(&["show", id], &[0]).result();
        assert_eq!(shown["sizes"], result["sizes"]);
        let sizes = result["sizes"].clone();
        let cells = sizes["cells"].as_array().unwrap();
        cells.iter().for_each(|cell| println!("{} {}", cell["size_bytes"], cell["reason"]));
        let is_between = |cell: &&Value| {
            let size_bytes = cell["size_bytes"].as_u64().unwrap();
            size_bytes > 32 * MIB && size_bytes < 64 * MIB
        };
        if let Some(cell) = cells.iter().find(is_between) {
            let outcome = cell["outcome"].as_str().unwrap();
            assert!(["differs", "cache", "agrees"].contains(&outcome), "{cell}");
            assert!(cell["reason"].as_str().unwrap().contains(" %"), "{cell}");
            return Judged::Passed;
        }
        // Where others use the machine, no short run of the whole agrees with the long ones: then there is nothing to narrow.
        let rejected = sizes["rejected"].as_u64().map(|at| &cells[at as usize]);
        noise = rejected.map_or(String::new(), |cell| cell["reason"].to_string());
    }
    Judged::Skipped(format!("sizes between the two were not tried: {noise}"))
}

/// A device that the kernel lets read only so many times a second, until this is dropped.
struct Throttled {
    file: std::path::PathBuf,
    number: String,
}

impl Throttled {
    /// `None` where this process is not in the first group of a block I/O controller of version 1.
    fn new(device: &str, reads_per_s: u32) -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        groups.lines().find(|line| line.ends_with(":blkio:/"))?;
        let number = std::fs::read_to_string(format!("/sys/block/{device}/dev")).ok()?;
        let file = "/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device".into();
        let throttled = Self { file, number: number.trim().to_owned() };
        std::fs::write(&throttled.file, format!("{} {reads_per_s}", throttled.number)).ok()?;
        Some(throttled)
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.file, format!("{} 0", self.number));
    }
}
