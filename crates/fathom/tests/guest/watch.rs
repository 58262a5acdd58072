//! `fathom watch` on an array with one slow member, while it is checked, and with commands that wait for a device of known slowness.

use crate::family::{Family, ended, findings};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    Family::new("watch", &["mdadm", "dmsetup", "dd"], job)
        .test("the_slow_member_stands_out", slow_member)
        .test("what_waits_for_a_slow_device_is_told_by_its_requests_in_flight", waits)
        .test("a_check_is_shown_with_its_progress", checked)
        .test("a_member_that_joins_is_shown", joined)
        .test("without_tracing_the_counters_are_shown_and_no_command_runs", untraced)
        .into_trials()
}

/// A RAID 5 of three disks, of which one takes 60 ms longer for each request.
const ARRAY: &str = r#"
load sd_mod raid456 dm-mod dm-delay
load_with scsi_debug dev_size_mb=48 add_host=3 per_host_store=1 delay=0
wait_for /dev/sd{a,b,c}
dmsetup create slow --table "0 98304 delay /dev/sdb 0 60"
mdadm --create /dev/md0 --run --level=5 --chunk=4 --raid-devices=3 --assume-clean --bitmap=none /dev/sda /dev/mapper/slow /dev/sdc
"#;

/// Block after block, each from another member.
const READS: &str = r#"
dd if=/dev/md0 of=/dev/null bs=4k iflag=direct status=none &
pid=$!
json watch md0 --interval=2s --count=3 --record
kill $pid
"#;

/// One reader, three and eight at once: each request takes 60 ms, whatever else the machine does.
const WAITS: &str = r#"
read='dd if=/dev/mapper/slow of=/dev/null bs=4k count=60 iflag=direct status=none'
json watch dm-0 -- sh -c "$read"
json watch dm-0 -- sh -c "for i in 1 2 3; do $read skip=\$((i * 100)) & done; wait"
json watch dm-0 -- sh -c "for i in 1 2 3 4 5 6 7 8; do $read skip=\$((i * 100)) & done; wait"
"#;

const CHECK: &str = r#"
echo 300 >/sys/block/md0/md/sync_speed_min
echo 600 >/sys/block/md0/md/sync_speed_max
echo check >/sys/block/md0/md/sync_action
json watch md0 --interval=500ms --count=6
fathom watch md0 --interval=500ms --count=1
"#;

/// One member is taken away, and comes back while the array is watched and written.
const JOINED: &str = r#"
echo idle >/sys/block/md0/md/sync_action
mdadm --quiet /dev/md0 --fail /dev/sdc --remove /dev/sdc
echo 2000 >/sys/block/md0/md/sync_speed_max
json watch md0 --interval=1s --count=6 &
pid=$!
sleep 2
mdadm --quiet /dev/md0 --add /dev/sdc
cat /dev/zero | dd of=/dev/md0 bs=64k count=1400 oflag=seek_bytes seek=1M iflag=fullblock conv=notrunc 2>/dev/null || true
sync
wait $pid
"#;

/// This kernel traces nothing.
const UNTRACED: &str = r#"
code=0
json capture md0 --time=1s -- touch /tmp/was-started || code=$?
echo "code $code, started $(ls /tmp | grep -c was-started)"
code=0
json capture md0 --time=1s || code=$?
echo "code $code alone"
"#;

fn job(job: GuestJob) -> GuestJob {
    job.setup("array", ARRAY)
        .step("reads", READS)
        .step("waits", WAITS)
        .step("check", CHECK)
        .step("joined", JOINED)
        .step("untraced", UNTRACED)
}

fn objects(report: &GuestReport, step: &str) -> Vec<Value> {
    let lines = ended(report, step, 0).stdout.lines();
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn slow_member(report: &GuestReport) {
    let objects = objects(report, "reads");
    let samples = objects.iter().filter(|object| object["type"] == "sample");
    for sample in samples {
        let devices = sample["devices"].as_array().expect("devices");
        let told: Vec<_> = devices
            .iter()
            .map(|d| (d["depth"].as_u64(), d["name"].as_str(), d["stands_out"].is_string()))
            .collect();
        let expected = [
            (Some(0), Some("md0"), false),
            (Some(1), Some("dm-0"), true),
            (Some(2), Some("sdb"), false),
            (Some(1), Some("sda"), false),
            (Some(1), Some("sdc"), false),
        ];
        let mut sorted = told.clone();
        sorted.sort_by_key(|(_, name, _)| *name);
        let mut wanted = expected.to_vec();
        wanted.sort_by_key(|(_, name, _)| *name);
        assert_eq!(sorted, wanted, "{sample}");
        assert_eq!(told[0], expected[0]);
    }
    let result = objects.last().expect("a result");
    assert!(findings(result).contains(&"slow-member"), "{result}");
}

fn waits(report: &GuestReport) {
    let objects = objects(report, "waits");
    let results: Vec<&Value> = objects.iter().filter(|object| object["type"] == "result").collect();
    let [one, three, eight] = results.as_slice() else { panic!("{results:?}") };
    // Three get through three times as much: nobody is told that more bring less than in proportion.
    assert!(findings(three).contains(&"partly-parallel"), "{three}");
    let advice = three.to_string();
    assert!(advice.contains("up to in proportion") && !advice.contains("less than"), "{advice}");
    // What scsi_debug says of rotation is about no drive: whether it is full with eight does not show.
    for (result, expected) in [(one, "latency-bound"), (eight, "parallel")] {
        let told = findings(result);
        assert!(told.contains(&expected), "{expected}: {result}");
    }
    let counts = &eight["summary"]["application"]["devices"]["dm-0"];
    assert_eq!(counts["reads"]["requests"], 8 * 60, "{counts}");
}

fn joined(report: &GuestReport) {
    let objects = objects(report, "joined");
    let samples: Vec<&Value> = objects.iter().filter(|o| o["type"] == "sample").collect();
    let has = |sample: &Value| {
        let devices = sample["devices"].as_array().expect("devices");
        devices.iter().any(|device| device["name"] == "sdc")
    };
    assert!(!has(samples[0]), "{:?}", samples[0]);
    let last = samples[samples.len() - 1];
    assert!(has(last), "{last}");
    assert_eq!(last["devices"][0]["title"], "raid5 of 3", "{last}");
    let of_threads = |sample: &&Value| sample["devices"][0]["array"]["thread_cpu_share"].as_f64();
    let cpu: Vec<f64> = samples.iter().filter_map(of_threads).collect();
    // They are found in every interval. What they take is counted in ticks, of which a fast machine gives them none here.
    assert_eq!(cpu.len(), samples.len(), "{cpu:?}");
    assert!(cpu.iter().all(|share| (0.0..=1.0).contains(share)), "{cpu:?}");
}

fn untraced(report: &GuestReport) {
    let text = &ended(report, "untraced", 0).stdout;
    assert!(text.contains("code 4, started 0") && text.contains("code 4 alone"), "{text}");
    let objects = objects(report, "untraced");
    assert!(objects.iter().any(|object| object["type"] == "sample"), "the counters: {text}");
}

fn checked(report: &GuestReport) {
    let objects = objects(report, "check");
    let arrays: Vec<&Value> = objects.iter().map(|object| &object["devices"][0]["array"]).collect();
    let done: Vec<f64> = arrays
        .iter()
        .filter(|array| array["sync_action"] == "check")
        .filter_map(|array| array["sync_done"].as_f64())
        .collect();
    assert!(done.len() >= 2 && done.is_sorted() && done.iter().all(|d| *d < 1.0), "{arrays:?}");
    let text = &ended(report, "check", 0).stdout;
    assert!(text.contains("  check ") && text.contains(" % at "), "{text}");
}
