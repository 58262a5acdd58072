//! Requests followed by tracepoints through device mapper, md and SCSI: steps of a guest of QEMU, whose kernel has tracepoints that the
//! kernels of other guests lack.

use crate::family::{ended, result};
use fathom_stats::Histogram;
use fathom_testkit::{GuestJob, GuestReport};
use serde_json::Value;

/// A linear volume on a RAID 0 of two disks.
const STACK: &str = r#"
load sd_mod raid0 dm-mod
load_with scsi_debug dev_size_mb=16 add_host=2 per_host_store=1 delay=0
wait_for /dev/sda /dev/sdb
mdadm --build /dev/md0 --level=0 --chunk=4 --raid-devices=2 /dev/sda /dev/sdb
dmsetup create linear --table "0 32768 linear /dev/md0 0"
wait_for /dev/mapper/linear
"#;

/// Reads of the volume: each is one of the array and one of a disk.
const READS: u64 = 400;
const READ: &str = "dd if=/dev/mapper/linear of=/dev/null bs=4k count=400 iflag=direct status=none";

/// A RAID 5 in memory, which its thread serves.
const SERVED: &str = r#"
load raid456
load_with brd rd_nr=3 rd_size=16384
wait_for /dev/ram{0,1,2}
mdadm --quiet --create /dev/md5 --run --level=5 --chunk=4 --raid-devices=3 --assume-clean --bitmap=none /dev/ram0 /dev/ram1 /dev/ram2
fathom --json --quiet watch md5 --interval=500ms -- dd if=/dev/zero of=/dev/md5 bs=4k count=1500 oflag=direct status=none
mdadm --quiet --stop /dev/md5
"#;

/// What the guest does.
pub fn steps(job: GuestJob) -> GuestJob {
    let watch = format!("fathom --json --quiet watch dm-0 --latency --interval=500ms -- {READ}");
    let capture = |device: &str| {
        format!("fathom --json --quiet capture {device} -o mnt/{device}.trace -- {READ}")
    };
    job.step("stack", STACK)
        .step("watched", &watch)
        .step("captured", &capture("dm-0"))
        .step("disk", &capture("sda"))
        .step("busy", &format!("{BUSY}\n{}\n{NOT_BUSY}", during_busy()))
        .step("cut", &format!("{CUT}\n{}", during_cut()))
        .step("came", CAME)
        .step("served", SERVED)
        .step("beside", BESIDE)
        .step("blktrace", "fathom --json --quiet capture --from=mnt/bt/x.blktrace.0")
        .step(
            "blkparse",
            "cd mnt/bt; blkparse -i x >x.txt; fathom --json --quiet capture --from=x.txt",
        )
}

/// Reads, and writes that are flushed, captured by fathom and by blktrace at the same time.
const BESIDE: &str = r#"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
mkdir mnt/bt; cd mnt/bt
blktrace -d /dev/vda -o x >/dev/null &
tracer=$!
for i in $(seq 100); do [ -s x.blktrace.0 ] || [ -e /sys/kernel/debug/block/vda/dropped ] && break; sleep 0.1; done
sleep 1
code=0
fathom --json --quiet capture vda -o own.trace -- sh -c 'dd if=/dev/vda of=/dev/null bs=4k count=300 iflag=direct status=none
    dd if=/dev/zero of=/dev/vda bs=4k count=100 oflag=direct,dsync status=none' || code=$?
kill -INT $tracer
wait $tracer
exit $code
"#;

/// From now on the disk's driver is busy at every fifth command (SDEBUG_OPT_HOST_BUSY of scsi_debug): it gives the request back. While
/// its host counts as blocked for that, the kernel gives back what it has not even issued.
const BUSY: &str = "cd /sys/bus/pseudo/drivers/scsi_debug
echo 1 >statistics; echo 5 >every_nth; echo 0x8000 >opts
cd - >/dev/null
code=0";
const NOT_BUSY: &str = "cd /sys/bus/pseudo/drivers/scsi_debug
echo 0 >opts; echo 0 >every_nth
exit $code";
/// One at a time.
const BUSY_READS: u64 = 200;

fn during_busy() -> String {
    format!(
        "fathom --json --quiet capture sda -o mnt/busy.trace -- dd if=/dev/sda of=/dev/null bs=4k count={BUSY_READS} iflag=direct status=none || code=$?"
    )
}

/// The second processor comes while the requests of the first are captured.
const CAME: &str = "echo 0 >/sys/devices/system/cpu/cpu1/online
fathom --json --quiet capture sda -o mnt/came.trace -- sh -c \
    'echo 1 >/sys/devices/system/cpu/cpu1/online; dd if=/dev/sda of=/dev/null bs=4k count=400 iflag=direct status=none'";

/// Requests of the disk have 64 KiB at the most, so that each write of 1 MiB is cut into 16.
const CUT: &str = "echo 64 >/sys/block/sdb/queue/max_sectors_kb
echo none >/sys/block/sdb/queue/scheduler";
const CUT_WRITES: u64 = 4;
const CUT_PARTS: u64 = 16;

fn during_cut() -> String {
    format!(
        "fathom --json --quiet capture sdb -o mnt/cut.trace -- dd if=/dev/zero of=/dev/sdb bs=1M count={CUT_WRITES} oflag=direct status=none"
    )
}

/// What came of it.
pub fn check(report: &GuestReport) {
    ended(report, "stack", 0);
    watched(&ended(report, "watched", 0).stdout);
    let captured = |step: &str| {
        let code = report.step(step).code.expect("it ended");
        assert!(code <= 1, "{}", report.step(step).said());
        result(report, step, code)["capture"].clone()
    };
    let volume = captured("captured");
    assert_eq!(reads(&volume), READS, "{volume}");
    // Without a queue of the kernel's there is none to get out of.
    assert_eq!(volume["requeues"], 0, "{volume}");
    assert!(volume["classes"][0]["total_ns"]["count"].as_u64() > Some(0), "{volume}");
    let disk = captured("disk");
    // What each stands on is kept with it, before and after: the volume on its disk, the disk on nothing.
    for (capture, least) in [(&volume, 2), (&disk, 1)] {
        for when in ["before", "after"] {
            let nodes = capture["stacks"][0][when]["nodes"].as_array().map_or(0, Vec::len);
            assert!(nodes >= least, "{when}: {}", capture["stacks"]);
        }
    }
    assert_eq!(reads(&disk), READS / 2, "{disk}");
    given_back(&captured("busy"));
    cut(&captured("cut"));
    // Its ring is there as soon as the processor is, and is read as those of others.
    let came = captured("came");
    assert_eq!((reads(&came), &came["faults"]["came_online"]), (READS, &Value::Null), "{came}");
    assert_eq!(came["faults"]["lost"], 0, "{}", came["faults"]);
    foreign(&captured);
    served(&ended(report, "served", 0).stdout);
}

/// The array's thread takes a part of a processor, and no more than one.
fn served(stdout: &str) {
    let samples = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let shares = samples.filter_map(|sample| {
        let devices = sample["devices"].as_array()?;
        let array = devices.iter().find(|device| device["name"] == "md5")?;
        array["array"]["thread_cpu_share"].as_f64()
    });
    let shares: Vec<f64> = shares.collect();
    assert!(shares.iter().sum::<f64>() > 0.0, "nobody serves it: {shares:?}");
    assert!(shares.iter().all(|share| (0.0..=1.1).contains(share)), "{shares:?}");
}

/// The files that blktrace wrote, what blkparse printed of them, and the capture beside them tell of the same requests, each with its end.
fn foreign(captured: &dyn Fn(&str) -> Value) {
    let told = |step: &str| {
        let capture = captured(step);
        assert_eq!(capture["faults"]["lost"], 0, "{step}: {}", capture["faults"]);
        ["read", "write", "flush"].map(|word| {
            let class = class(&capture, word);
            let ended = times(class, "total_ns").0;
            (word, class["count"].as_u64().unwrap_or_default(), ended)
        })
    };
    let own = told("beside");
    assert_eq!((own[0], own[1]), (("read", 300, 300), ("write", 100, 100)), "{own:?}");
    assert!(own[2].1 > 0 && own[2].1 == own[2].2, "{own:?}");
    for step in ["blktrace", "blkparse"] {
        assert_eq!(told(step), own, "{step}");
    }
}

fn reads(capture: &Value) -> u64 {
    class(capture, "read")["count"].as_u64().unwrap_or_default()
}

fn class<'v>(capture: &'v Value, word: &str) -> &'v Value {
    let classes = capture["classes"].as_array().expect("classes");
    classes.iter().find(|class| class["class"] == word).unwrap_or(&Value::Null)
}

/// Count and sum of one of the times of a class.
fn times(class: &Value, of: &str) -> (u64, u128) {
    let times: Histogram = serde_json::from_value(class[of].clone()).expect("a histogram");
    (times.count(), times.sum())
}

/// Each read is one, however often it was given back, and its time is that of waiting and that with the driver.
fn given_back(capture: &Value) {
    assert_eq!(capture["faults"]["lost"], 0, "{}", capture["faults"]);
    let read = class(capture, "read");
    let number = |of: &str| capture[of].as_u64().expect("a number");
    assert_eq!((number("issued"), reads(capture)), (BUSY_READS, BUSY_READS), "{read}");
    // Every fifth of the commands, those that are issued once more included, and those of others for good measure.
    let requeues = number("requeues");
    assert!(requeues >= BUSY_READS / 4 - 2, "{requeues} given back");
    let of = |of: &str| times(read, of);
    let (total, wait, service) = (of("total_ns"), of("wait_ns"), of("service_ns"));
    assert_eq!([total.0, wait.0, service.0], [BUSY_READS; 3], "{read}");
    assert_eq!(total.1, wait.1 + service.1, "nothing is counted twice, and nothing is left out");
    assert_eq!((number("errors"), &capture["faults"]["abandoned"]), (0, &Value::from(0)));
}

/// Arrived once each, cut, issued in parts, ended with the last of them.
fn cut(capture: &Value) {
    assert_eq!(capture["faults"]["lost"], 0, "{}", capture["faults"]);
    let write = class(capture, "write");
    let number = |of: &str| capture[of].as_u64().expect("a number");
    assert_eq!(write["count"], CUT_WRITES, "{write}");
    assert_eq!(number("issued"), CUT_WRITES * CUT_PARTS);
    assert_eq!(number("splits"), CUT_WRITES * (CUT_PARTS - 1));
    assert_eq!(times(write, "total_ns").0, CUT_WRITES);
    assert_eq!(times(write, "service_ns").0, CUT_WRITES * CUT_PARTS);
    assert_eq!(capture["merges"], serde_json::json!([0, 0, 0]));
}

/// Every layer is told by itself; of those without a queue from the arrival.
fn watched(stdout: &str) {
    let samples: Vec<Value> = stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|object: &Value| object["type"] == "sample")
        .collect();
    for (name, wanted, from_arrival) in [
        ("dm-0", READS, true),
        ("md0", READS, true),
        ("sda", READS / 2, false),
        ("sdb", READS / 2, false),
    ] {
        let own = || {
            let devices = samples.iter().flat_map(|s| s["devices"].as_array().expect("devices"));
            devices.filter(|device| device["name"] == name)
        };
        let sum = |place: &str| -> u64 {
            own().filter_map(|device| device.pointer(place)?.as_u64()).sum()
        };
        let told = [sum("/counts/reads/requests"), sum("/latency/reads/count")];
        assert_eq!(told, [wanted; 2], "{name}: {samples:?}");
        let says = own().any(|device| device["latency"]["from_arrival"] == true);
        assert_eq!(says, from_arrival, "{name}");
    }
}
