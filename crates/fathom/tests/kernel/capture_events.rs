//! Captures of what happens to requests on their way: on a partition, merged, lost by rings that are full; and a workload that was made
//! of a trace beside that trace.

use crate::capture::tracepoints_of;
use crate::cli::{Done, MIB, Running, Sandbox, p, run, wait_until};
use fathom_observe::trace::event::{Action, Class};
use fathom_observe::trace::open::Source;
use fathom_testkit::Capability::{self, FathomBinary, LoopDevices, Tool};
use fathom_testkit::{Content, LoopDevice, LoopOptions, Trial, Zram, kernel_test};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, LoopDevices];
    let with = |tool| [FathomBinary, LoopDevices, Tool(tool)];
    vec![
        kernel_test("capture_of_a_partition", &with("sfdisk"), partition),
        kernel_test("capture_has_the_sectors_that_are_counted", &with("sfdisk"), sectors_counted),
        kernel_test("capture_tells_what_was_lost", &[FathomBinary, Capability::Zram], lost),
        kernel_test(
            "capture_that_ends_early_has_its_rates",
            &[FathomBinary, Capability::Zram],
            early,
        ),
        kernel_test("capture_of_a_device_that_grows", &needs, grows),
        kernel_test("capture_counts_merges", &needs, merged),
        kernel_test("capture_counts_every_step", &with("sfdisk"), every_step),
        kernel_test("capture_proves_a_twin", &needs, twin),
    ]
}

/// Captures a device while a script runs.
fn during(sandbox: &Sandbox, device: &Path, trace: &Path, script: &str) -> Done {
    let words = ["--json", "--quiet", "capture", p(device), "-o", p(trace), "--", "sh", "-c"];
    sandbox.run(&[&words[..], &[script]].concat())
}

/// So many reads of 4 KiB in a row.
fn reads(path: &Path, count: u32) -> String {
    format!("dd if={} of=/dev/null bs=4k count={count} iflag=direct status=none", p(path))
}

fn count(capture: &Value, word: &str) -> u64 {
    let classes = capture["classes"].as_array().unwrap();
    let class = classes.iter().find(|class| class["class"] == word);
    class.map_or(0, |class| class["count"].as_u64().unwrap())
}

/// A loop device with two partitions of 16 MiB.
fn partitioned() -> LoopDevice {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    let device = LoopDevice::with(64 * MIB, Content::Pattern(1), &options).unwrap();
    let script = r#"printf '2048,32768\n34816,32768\n' | sfdisk -q --force "$0""#;
    let made = Command::new("sh").args(["-c", script]).arg(device.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    device.reread_partitions().unwrap();
    device
}

/// Only its own requests, with places that count from its start.
fn partition() {
    let (sandbox, device) = (Sandbox::new(), partitioned());
    let (first, second) = (device.partition(1), device.partition(2));
    let script = format!("{}; {}", reads(&first, 300), reads(&second, 700));
    for (number, (path, own)) in [(&first, 300), (&second, 700)].into_iter().enumerate() {
        let trace = sandbox.dir().join(number.to_string());
        let done = during(&sandbox, path, &trace, &script);
        assert!(done.code <= 1, "{done:?}");
        let capture = &done.result()["capture"];
        let told = count(capture, "read");
        // udev and the like may look at it.
        assert!((own..own + 200).contains(&told), "{told} of {own}: {}", capture["classes"]);
        assert_eq!(capture["size_bytes"], 16 * MIB, "{capture}");
        let end = capture["places"]["end_byte"].as_u64().unwrap();
        assert!((4096 * own..=16 * MIB).contains(&end), "{end}");
    }
    reaches_into(&sandbox, &device);
}

/// Reads of the disk from 2 KiB before a partition, and from 2 KiB before its end: of these what lies in it counts. 2 KiB behind it none does.
fn reaches_into(sandbox: &Sandbox, device: &LoopDevice) {
    let read = |offset: u64, count: u32| {
        let from = format!("bs=4k count={count} skip={offset} iflag=direct,skip_bytes");
        let of = p(device.path());
        format!("for i in $(seq 100); do dd if={of} of=/dev/null {from} status=none; done")
    };
    let (start, size) = (34816 * 512, 32768 * 512);
    let script = [read(start - 2048, 1), read(start + size - 2048, 1), read(start + size, 1)];
    let trace = sandbox.dir().join("into");
    let done = during(sandbox, &device.partition(2), &trace, &script.join("; "));
    assert!(done.code <= 1, "{done:?}");
    let capture = &done.result()["capture"];
    let class = &capture["classes"].as_array().unwrap()[0];
    let sizes = class["sizes"].as_array().unwrap();
    assert!(sizes.iter().any(|of| of[0] == 2048 && of[1] == 200), "{class}");
    assert!(capture["places"]["end_byte"].as_u64() <= Some(16 * MIB), "{capture}");
}

/// A loop device whose file grows while it is captured: noted, and a doubt where requests go to what was not there before.
fn grows() {
    let sandbox = Sandbox::new();
    let file = sandbox.scratch.join("grows.img");
    fs::write(&file, vec![1; 16 << 20]).unwrap();
    for (number, (skip, severity)) in [(0, "note"), (20, "doubtful")].into_iter().enumerate() {
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(16 * MIB).unwrap();
        let device = LoopDevice::over(&file, &LoopOptions::default()).unwrap();
        let (path, image) = (p(device.path()), p(&file));
        let grow = format!("truncate -s 32M {image}; losetup -c {path}");
        let read = format!("dd if={path} of=/dev/null bs=64k count=40 iflag=direct status=none");
        let script = format!("{read}; {grow}; {read} iflag=direct,skip_bytes skip={skip}M");
        let trace = sandbox.dir().join(number.to_string());
        let done = during(&sandbox, device.path(), &trace, &script);
        assert!(done.code <= 1, "{done:?}");
        let finding = done.finding("capture-device-resized");
        assert_eq!(finding["severity"], severity, "{finding}");
    }
}

/// Of a partition, and of the disk that it is on, as many sectors as the kernel counts, whichever of its partitions they go to.
fn sectors_counted() {
    let (sandbox, device) = (Sandbox::new(), partitioned());
    let (first, second) = (device.partition(1), device.partition(2));
    let writes = |path: &Path, size: &str, count: u32| {
        format!("dd if=/dev/zero of={} bs={size} count={count} oflag=direct status=none", p(path))
    };
    let script = [
        reads(&first, 100),
        writes(&first, "64k", 30),
        // Larger than a request may be.
        writes(&first, "4M", 2),
        writes(&second, "16k", 50),
        reads(&second, 10),
    ]
    .join("; ");
    let counted = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(format!("/sys/class/block/{name}/stat")).unwrap();
        let all: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        [all[2], all[6]]
    };
    for (path, least) in [(first.as_path(), 800), (device.path(), 880)] {
        let mut seen = Vec::new();
        // udev and the like may look at it before and after.
        let is_same = |attempt: usize| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let trace = sandbox.dir().join(format!("{name}-{attempt}"));
            let before = counted(path);
            let done = during(&sandbox, path, &trace, &script);
            assert!(done.code <= 1, "{done:?}");
            let after = counted(path);
            let capture = &done.result()["capture"];
            let told = ["read", "write"].map(|word| {
                let classes = capture["classes"].as_array().unwrap();
                let class = classes.iter().find(|class| class["class"] == word).unwrap();
                class["bytes"].as_u64().unwrap() / 512
            });
            let by_kernel = [after[0] - before[0], after[1] - before[1]];
            seen.push((told, by_kernel));
            told == by_kernel && told[0] >= least
        };
        assert!((0..5).any(is_same), "{}: {seen:?}", path.display());
    }
}

/// A reader that stands still until its rings are full: what they had no room for is counted, event for event.
fn lost() {
    let sandbox = Sandbox::new();
    let device = Zram::new(64 * MIB).unwrap();
    let trace = sandbox.dir().join("t");
    let words = ["--json", "--quiet", "capture", p(device.path()), "--time=10m", "-o", p(&trace)];
    let mut command = sandbox.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let running = Running::of(child);
    wait_until("tracepoints are open", || tracepoints_of(running.pid()) > 0);
    wait_until("the trace is begun", || trace.exists());
    let signal = |name: &str| {
        let pid = running.pid().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    std::thread::sleep(Duration::from_millis(200));
    signal("-STOP");
    let (rounds, each) = (10, 16_000);
    let script = format!("for i in $(seq {rounds}); do {}; done", reads(device.path(), each));
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    signal("-CONT");
    std::thread::sleep(Duration::from_millis(500));
    signal("-INT");
    let done = running.finish();
    let found = done.finding("capture-lost-events");
    assert_eq!(found["severity"], "doubtful", "{found}");
    let capture = &done.result()["capture"];
    let number = |place: &str| capture.pointer(place).and_then(Value::as_u64).unwrap();
    let (events, lost) = (number("/events"), number("/faults/lost"));
    // Each has an arrival and an end; udev may have looked at the device, and kernels lose an event in a million without a word.
    let made = 2 * u64::from(rounds * each);
    assert!(lost > 1000 && count(capture, "read") < made / 2, "{events} + {lost}");
    assert!((made - 100..made + 1000).contains(&(events + lost)), "{events} + {lost} of {made}");
}

/// The file may not become larger: what is in it is of less time than went by, and says the same when it is read again.
fn early() {
    let sandbox = Sandbox::new();
    let device = Zram::new(64 * MIB).unwrap();
    let trace = sandbox.dir().join("t");
    // In units of 512 bytes; the store needs less.
    let limited = ["sh", "-c", "ulimit -f 6144; exec \"$@\"", "sh"];
    let script = format!("while :; do {}; done", reads(device.path(), 16_000));
    let words = ["--json", "--quiet", "capture", p(device.path()), "-o", p(&trace), "--time=2m"];
    let args = [&words[..], &["--", "sh", "-c", &script]].concat();
    let live = run(|| sandbox.command_by(&limited, &args));
    live.finding("capture-broken-off");
    let from = format!("--from={}", p(&trace));
    let again = sandbox.json(&["capture", &from], &[1]);
    let window = |done: &Done| done.result()["capture"]["window_ns"].as_u64();
    assert!(window(&live) > Some(0) && window(&live) == window(&again), "{live:?}");
}

/// What the kernel counts as merged writes.
fn merged_writes(device: &LoopDevice) -> u64 {
    let text = fs::read_to_string(format!("/sys/block/{}/stat", device.name())).unwrap();
    text.split_whitespace().nth(5).unwrap().parse().unwrap()
}

/// Writes in a row of a page each, 64 of which are handed over together: most are merged, whatever the size of pieces in the page cache.
fn writes_that_merge(path: &Path, size: &str) -> String {
    format!(
        "fio --name=x --filename={} --rw=write --bs=4k --size={size} --direct=1 --ioengine=libaio --iodepth=64 \
         --iodepth_batch_submit=64 --iodepth_batch_complete_min=64 > /dev/null",
        p(path)
    )
}

/// Pages that are written in a row become requests of many pages: as many merges as the device's counter has.
fn merged() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 * MIB).unwrap();
    let script = writes_that_merge(device.path(), "16m");
    // Kernels lose an event in a million without a word.
    let mut seen = String::new();
    for attempt in 0..3 {
        let (trace, before) = (sandbox.dir().join(format!("t{attempt}")), merged_writes(&device));
        let done = during(&sandbox, device.path(), &trace, &script);
        assert!(done.code <= 1, "{done:?}");
        let merges: [u64; 3] =
            serde_json::from_value(done.result()["capture"]["merges"].clone()).unwrap();
        let counted = merged_writes(&device) - before;
        seen = format!("{merges:?}, counted {counted}");
        if counted > 100 && merges.iter().sum::<u64>() == counted {
            return;
        }
    }
    panic!("{seen}");
}

/// Steps of writes of data in a trace: how many of each kind, and of how many sectors together.
fn steps(trace: &Path) -> BTreeMap<Action, (u64, u64)> {
    let mut found = BTreeMap::new();
    let mut source = Source::open(trace).unwrap();
    while let Some(event) = source.next_event().unwrap() {
        if event.class == Class::Write && event.sectors > 0 {
            let (count, sectors) = found.entry(event.action).or_insert((0, 0));
            (*count, *sectors) = (*count + 1, *sectors + u64::from(event.sectors));
        }
    }
    found
}

/// Requests have 64 KiB at the most. Four writes of 1 MiB to a partition: each comes from there, arrives once and is cut 15 times; its 16
/// parts get a place, go through the scheduler, to the driver, and end. Then pages in a row, of which most are merged: what
/// arrives gets a place or is merged, and every sector gets to the driver and ends once.
fn every_step() {
    use Action::{
        BackMerge, Complete, FrontMerge, Insert, Issue, Place, Queue, Remap, RequestMerge, Requeue,
        Split,
    };
    const SECTORS: u64 = 4 * MIB / 512;
    let (sandbox, device) = (Sandbox::new(), partitioned());
    let queue = format!("/sys/block/{}/queue", device.name());
    fs::write(format!("{queue}/max_sectors_kb"), "64").unwrap();
    // Without a scheduler some requests are inserted and others go to the driver at once.
    let has_scheduler = fs::write(format!("{queue}/scheduler"), "mq-deadline").is_ok();
    let partition = device.partition(1);
    let run = |name: String, script: &str| {
        let trace = sandbox.dir().join(name);
        let done = during(&sandbox, device.path(), &trace, script);
        assert!(done.code <= 1, "{done:?}");
        (done.result()["capture"].clone(), steps(&trace))
    };
    let direct =
        format!("dd if=/dev/zero of={} bs=1M count=4 oflag=direct status=none", p(&partition));
    let mut expected = BTreeMap::from([
        (Remap, (4, SECTORS)),
        (Queue, (4, SECTORS)),
        (Place, (64, SECTORS)),
        (Insert, (64, SECTORS)),
        (Issue, (64, SECTORS)),
        (Complete, (64, SECTORS)),
    ]);
    // Each cut tells of the part before it.
    expected.insert(Split, (60, 4 * 15 * 128));
    // Kernels lose an event in a million without a word, as above.
    let is_exact = |attempt: usize| {
        let (capture, mut found) = run(format!("direct{attempt}"), &direct);
        if !has_scheduler {
            found.insert(Insert, expected[&Insert]);
        }
        println!("{found:?}");
        let told = ["splits", "remaps"].map(|of| capture[of].as_u64().unwrap());
        found == expected && told == [60, 4] && count(&capture, "write") == 4
    };
    assert!((0..3).any(is_exact), "not as it was cut");
    let merging = writes_that_merge(&partition, "4m");
    let adds_up = |attempt: usize| {
        let (capture, found) = run(format!("merged{attempt}"), &merging);
        println!("{found:?}");
        let of = |action| found.get(&action).copied().unwrap_or_default();
        let merged = of(FrontMerge).0 + of(BackMerge).0;
        let merges: [u64; 3] = serde_json::from_value(capture["merges"].clone()).unwrap();
        let told = [of(FrontMerge).0, of(BackMerge).0, of(RequestMerge).0];
        merged > 100
            && merges == told
            && of(Remap) == of(Queue)
            && of(Queue).0 + of(Split).0 == of(Place).0 + merged
            && of(Issue).0 + of(RequestMerge).0 == of(Place).0 + of(Requeue).0
            && [Queue, Issue, Complete].map(|action| of(action).1) == [SECTORS; 3]
    };
    assert!((0..3).any(adds_up), "steps do not add up");
}

/// The workload that a trace was made into has the sizes of that trace; another one has not, and is told.
fn twin() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(32 * MIB).unwrap();
    let file = |name: &str| sandbox.dir().join(name);
    let (trace, twin, ran) = (file("trace"), file("twin.toml"), file("ran"));
    // The inner run may have to wait for others that measure.
    let run = |words: &str| {
        format!(
            "until {} --quiet --db={} {words}; do [ $? = 3 ] || exit 1; sleep 1; done",
            p(&fathom_testkit::fathom_binary().unwrap()),
            p(&file("inner.db"))
        )
    };
    let load = run(&format!(
        "run randread {} block_size=4k:60,16k:40 rate=800 duration=1s warmup=0s --fail-on=void",
        p(device.path())
    ));
    let done = during(&sandbox, device.path(), &trace, &load);
    assert!(done.code <= 1, "{done:?}");
    let words = ["capture", "--from", p(&trace), "--workload", p(&twin)];
    assert!(sandbox.run(&words).code <= 1);
    let compared = |name: &str, load: &str| {
        let (like, out) = (format!("--like={}", p(&trace)), file(name));
        let words = ["--json", "--quiet", "capture", p(device.path()), &like, "-o", p(&out)];
        let done = sandbox.run(&[&words[..], &["--", "sh", "-c", load]].concat());
        assert!(done.code <= 1, "{done:?}");
        let result = done.result();
        let likeness = result["capture"]["likeness"].as_array().unwrap().clone();
        let of = |figure: &str| {
            let found = likeness.iter().find(|d| d["figure"] == figure);
            found.and_then(|d| d["distance"].as_f64()).unwrap_or_else(|| panic!("{likeness:?}"))
        };
        (of("size of reads"), of("distance of places"), done.finding("capture-likeness"))
    };
    let of_twin = run(&format!(
        "replay {} {} --twin --fail-on=void --json > {}",
        p(&trace),
        p(device.path()),
        p(&ran)
    ));
    let (sizes, places, _) = compared("of_twin", &of_twin);
    assert!(sizes < 0.1 && places < 0.25, "{sizes} {places}");
    // It is the workload that the capture writes.
    let ran = fs::read_to_string(&ran).unwrap();
    let ran: Value = serde_json::from_str(ran.lines().last().unwrap()).unwrap();
    let written = ["run", p(&twin), p(device.path())];
    let written =
        sandbox.json(&written, &[0, 1]).result()["records"][0]["workload"]["jobs"].clone();
    assert_eq!(ran["records"][0]["workload"]["jobs"], written);
    let both = ["replay", p(&trace), p(device.path()), "--twin", "--speed=2x"];
    let both = sandbox.run(&both);
    assert!(both.code == 2 && both.stderr.contains("--speed"), "{both:?}");
    let (sizes, _, found) = compared("of_dd", &reads(device.path(), 2000));
    assert!(sizes > 0.25 && found["severity"] == "doubtful", "{sizes} {found}");
    let words = ["capture", "--from", p(&trace), "--like", p(&twin)];
    sandbox.refuses(&words, 2, &["is no trace"]);
    of_a_cut_trace(&sandbox, &device);
}

/// Reads of 4 KiB, each 1 ms, as blktrace writes them down; the last record is cut off.
fn cut_off(path: &Path) {
    let mut bytes = Vec::new();
    for number in 0..500u64 {
        for (sequence, (action, after_ns)) in
            [(1 | 1 << 20, 0), (7 | 1 << 22, 1000), (8 | 1 << 23, 50_000)].into_iter().enumerate()
        {
            let words = [0x6561_7407u32, (number * 3 + sequence as u64 + 1) as u32];
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            let places = [1_000_000 + number * 1_000_000 + after_ns, number * 4096 % 32768];
            places.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            let rest = [4096u32, action | 1 << 16, 77, 8 << 20, 0, 0];
            rest.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
    }
    fs::write(path, &bytes[..bytes.len() - 20]).unwrap();
}

/// What is wrong with a trace is told of its twin's run, also later.
fn of_a_cut_trace(sandbox: &Sandbox, device: &LoopDevice) {
    let trace = sandbox.dir().join("cut.blktrace.0");
    cut_off(&trace);
    let done = sandbox.json(&["replay", p(&trace), p(device.path()), "--twin"], &[1]);
    assert_eq!(done.finding("capture-cut-off")["severity"], "doubtful");
    let id = done.result()["id"].as_str().unwrap().to_owned();
    let shown = sandbox.run(&["show", &id]);
    assert!(shown.stdout.contains("the trace is not whole"), "{shown:?}");
}
