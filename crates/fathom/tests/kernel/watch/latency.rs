//! `fathom watch --latency`: every request is told by itself, the counts are those of the counters, and nothing is left switched on.

use crate::capture::{switched_on, tracepoints_of};
use crate::capture_instance::Instances;
use crate::cli::{Done, Kept, MIB, Sandbox, as_nobody, binary_for_nobody, p, wait_until};
use fathom_testkit::Capability::{FathomBinary, LoopDevices, Tool};
use fathom_testkit::{Capability, LoopDevice, Scratch, Trial, Zram, kernel_test};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, LoopDevices, Tool("fio")];
    vec![
        kernel_test("watch_latency_counts_what_the_counters_do", &needs, known_load),
        kernel_test(
            "watch_latency_without_a_queue",
            &[FathomBinary, Capability::Zram, Tool("fio")],
            queueless,
        ),
        kernel_test("watch_latency_is_off_after_kill", &needs[..2], killed),
        kernel_test("watch_latency_without_rights", &needs[..2], refused),
    ]
}

/// The loop device in all samples.
fn told<'v>(samples: &'v [Value], name: &str) -> Vec<&'v Value> {
    let devices = samples.iter().flat_map(|sample| sample["devices"].as_array().unwrap());
    devices.filter(|device| device["name"] == name).collect()
}

fn samples(done: &Done) -> Vec<Value> {
    done.objects().into_iter().filter(|object| object["type"] == "sample").collect()
}

/// What is seen of one direction: requests by the counters and by the tracepoints, their time by both in nanoseconds.
fn sums(devices: &[&Value], direction: &str) -> [u64; 4] {
    let sum = |place: &str| -> u64 {
        let values = devices.iter().filter_map(|device| device.pointer(place));
        values.filter_map(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok())).sum()
    };
    [
        sum(&format!("/counts/{direction}/requests")),
        sum(&format!("/latency/{direction}/count")),
        1_000_000 * sum(&format!("/counts/{direction}/took_ms")),
        sum(&format!("/latency/{direction}/histogram/sum")),
    ]
}

fn known_load() {
    let device = LoopDevice::new(64 * MIB).unwrap();
    agrees(device.path(), false);
}

/// Requests of a device without a queue of the kernel's are told from arrival to end.
fn queueless() {
    let device = Zram::new(64 * MIB).unwrap();
    agrees(device.path(), true);
}

/// A load on a device is told alike by counters and tracepoints, request for request.
fn agrees(path: &Path, from_arrival: bool) {
    let sandbox = Sandbox::new();
    let (name, path) = (path.file_name().unwrap().to_str().unwrap().to_owned(), p(path));
    let path = format!("--filename={path}");
    let output = format!("--output={}", p(&sandbox.dir().join("fio.json")));
    let words = [
        "watch",
        &name,
        "--latency",
        "--interval=100ms",
        "--",
        "fio",
        "--name=x",
        "--ioengine=libaio",
        "--direct=1",
        "--rw=randrw",
        "--bs=4k",
        "--iodepth=4",
        "--number_ios=4000",
        "--size=64m",
        "--norandommap",
        &path,
        &output,
    ];
    let mut seen = String::new();
    // Kernels lose an event in a million without a word, and udev may look at the device when fio has closed it. What is counted
    // as lost is of all devices: others may be busy, this one's requests are all there where they are as many as it counted.
    for _ in 0..5 {
        let done = sandbox.json(&words, &[0, 1]);
        let samples = samples(&done);
        let lost: u64 = samples.iter().map(|s| s["latency_lost"].as_u64().unwrap()).sum();
        let devices = told(&samples, &name);
        let found = ["reads", "writes"].map(|direction| sums(&devices, direction));
        seen = format!("lost {lost}, {found:?}");
        let agrees = |[counted, traced, ..]: [u64; 4]| counted == traced && counted >= 500;
        if !found.into_iter().all(agrees) {
            continue;
        }
        // The time in the device is a part of the time that the counters know, which are cut to milliseconds; those of devices
        // without a queue go by the kernel's ticks, which are far longer than such a request.
        for [_, _, took_ns, in_device_ns] in found {
            let slack_ns = 2_000_000 * samples.len() as u64;
            let is_part = from_arrival || in_device_ns <= took_ns + slack_ns;
            assert!(in_device_ns > 0 && is_part, "{seen}");
        }
        for flow in devices.iter().filter_map(|device| device.pointer("/latency/reads")) {
            let of = |name: &str| flow[name].as_u64().unwrap();
            assert!(of("p50_ns") <= of("p99_ns") && of("p99_ns") <= of("max_ns"), "{flow}");
        }
        let says = |device: &&&Value| device["latency"]["from_arrival"] == true;
        let count = if from_arrival { devices.len() } else { 0 };
        assert_eq!(devices.iter().filter(says).count(), count, "{devices:?}");
        // The record has all of them together.
        let result = done.result();
        let devices = result["summary"]["devices"].as_array().unwrap();
        let own = devices.iter().find(|device| device["name"] == name.as_str()).unwrap();
        let counts: Vec<u64> = own["latency"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["count"].as_u64().unwrap())
            .collect();
        assert_eq!(counts, found.map(|sums| sums[1]), "{own}");
        let shown = sandbox.run(&["show", result["id"].as_str().unwrap()]);
        assert!(shown.stdout.contains("reads by itself: p50 "), "{}", shown.stdout);
        return;
    }
    panic!("counters and tracepoints never agreed: {seen}");
}

fn killed() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let (before, instances) = (switched_on(), Instances::new());
    let words = ["watch", &device.name(), "--latency"];
    let mut child = Kept(sandbox.command(&words).stdout(Stdio::null()).spawn().unwrap());
    wait_until("tracepoints are open", || tracepoints_of(child.0.id()) > 0);
    assert_eq!(switched_on(), before, "nothing is switched on for all");
    assert_eq!(instances.of(child.0.id()).len(), 1);
    child.kill();
    instances.are_gone(child.0.id(), Instant::now());
    assert_eq!(switched_on(), before);
}

/// Who may not trace is told what is missing, and gets the rest.
fn refused() {
    let device = LoopDevice::new(16 * MIB).unwrap();
    let scratch = Scratch::new().unwrap();
    let binary = binary_for_nobody(&scratch);
    let mut command = as_nobody(&binary);
    let words = ["watch", &device.name(), "--latency", "--interval=100ms", "--count=2", "--all"];
    let done = command.args(words).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("--latency:") && said.contains("needs root"), "{said}");
    assert!(said.contains("r_await"), "what is still shown is said: {said}");
    let shown = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(shown.contains(&device.name()), "{shown}");
}
