//! What drives themselves say, and that nobody wakes one: SCSI disks that can be stopped, and the NVMe and SCSI drives of
//! QEMU.

use super::{Look, look};
use crate::family::Family;
use fathom_testkit::Capability::{FathomBinary, Qemu, Tool};
use fathom_testkit::{Bus, Guest, GuestJob, Trial, fathom_binary, kernel_test};
use serde_json::Value;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let stopped = Family::new("check_stopped", &["sg_start", "sg_turs", "lsblk"], stopped_job)
        .test("a_stopped_drive_is_not_woken", |report| {
            let look = look(report, "stopped");
            assert_eq!(detail(&look, "sda")["untouched"], "standby");
            assert_eq!(detail(&look, "sda1")["untouched"], "standby");
            assert_eq!(detail(&look, "sda")["content"], Value::Null);
            assert_eq!(detail(&look, "sdb")["untouched"], Value::Null);
            assert!(
                unread(&look).contains(&"standby: not woken".to_owned()),
                "{:?}",
                unread(&look)
            );
            assert_eq!(report.step("still").stdout.trim(), "sdb", "the other was started");
        })
        .test("a_drive_that_turns_is_asked", |report| {
            let look = look(report, "turning");
            assert_eq!(detail(&look, "sda")["untouched"], Value::Null);
            let identity = &detail(&look, "sda")["identity"];
            assert_eq!((&identity["logical_bytes"], &identity["physical_bytes"]), sizes(512, 4096));
            assert_eq!(identity["write_cache_enabled"], true);
            let content = &detail(&look, "sda1")["content"]["filesystem"]["fs_type"];
            assert_eq!(content, "ext4");
        });
    let needs = [Qemu, Tool("busybox"), Tool("modprobe"), Tool("lsblk"), FathomBinary];
    let emulated = kernel_test("check_emulated_drives", &needs, emulated);
    stopped.into_trials().into_iter().chain([emulated]).collect()
}

fn sizes(logical: u64, physical: u64) -> (&'static Value, &'static Value) {
    let number = |number: u64| -> &'static Value { Box::leak(Box::new(Value::from(number))) };
    (number(logical), number(physical))
}

fn detail<'a>(look: &'a Look, name: &str) -> &'a Value {
    &look.node(name)["detail"]
}

/// Why things could not be read.
fn unread(look: &Look) -> Vec<String> {
    let list = look.result["snapshot"]["unread"].as_array().expect("a list");
    list.iter().map(|unread| unread["why"].as_str().unwrap_or_default().to_owned()).collect()
}

const DRIVES: &str = "
load sd_mod
load_with scsi_debug dev_size_mb=32 add_host=2 per_host_store=1 physblk_exp=3 delay=0
wait_for /dev/sda /dev/sdb
printf 'start=2048\\n' | sfdisk --quiet /dev/sda
wait_for /dev/sda1
mkfs.ext4 -q -E nodiscard /dev/sda1
";

/// The kernel's own copy of what was read before must not make up for the drive.
const STOP: &str = "
blockdev --flushbufs /dev/sda
blockdev --flushbufs /dev/sda1
sg_start --stop /dev/sda
look
";

/// Which of them turn.
const TURNING: &str = "
for disk in sda sdb; do
    if sg_turs /dev/$disk >/dev/null 2>&1; then echo $disk; fi
done
";

fn stopped_job(job: GuestJob) -> GuestJob {
    super::job(job)
        .limit(Duration::from_secs(120))
        .setup("drives", DRIVES)
        .step("turning", "look")
        .step("stopped", STOP)
        .step("still", TURNING)
}

fn emulated_job() -> GuestJob {
    let binary = fathom_binary().expect("asked for");
    let job = GuestJob::new(binary.parent().expect("a directory"));
    super::job(job)
        .qemu()
        .limit(Duration::from_secs(600))
        .disk_on(Bus::Scsi, 32 << 20)
        .disk_on(Bus::Nvme, 32 << 20)
        .disk_on(Bus::TwoPathNvme, 32 << 20)
        .setup(
            "drivers",
            "load virtio_scsi sd_mod nvme
             wait_for /dev/sda /dev/nvme0n1 /dev/nvme1n1",
        )
        .step("drives", "echo === fathom; fathom --json --quiet check")
}

fn emulated() {
    let report = Guest::boot(emulated_job()).and_then(Guest::wait).map_err(|e| e.to_string());
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let look = look(&report, "drives");
    let scsi = &detail(&look, "sda")["identity"];
    assert_eq!((&scsi["logical_bytes"], &scsi["physical_bytes"]), sizes(512, 512));
    assert_eq!(detail(&look, "sda")["host"].as_str().map(|host| &host[..4]), Some("host"));

    let namespaces = look.nodes().iter().filter(|node| {
        node["name"].as_str().is_some_and(|name| name.starts_with("nvme") && !name.contains('c'))
    });
    let namespaces: Vec<&Value> = namespaces.collect();
    assert_eq!(namespaces.len(), 2, "{namespaces:#?}");
    for namespace in &namespaces {
        let (health, identity) = (&namespace["detail"]["health"], &namespace["detail"]["identity"]);
        assert_eq!((&health["passed"], &health["critical_warning"]), (&true.into(), &0.into()));
        assert!((0..100).contains(&health["celsius"].as_i64().expect("a temperature")), "{health}");
        assert_eq!(identity["logical_bytes"], 512);
        assert_eq!(identity["volatile_cache"], true);
        assert!(identity["write_cache_enabled"].is_boolean(), "{identity}");
        assert!(!identity["formats"].as_array().expect("formats").is_empty());
    }
    let joined = namespaces.iter().filter(|node| node["kind"] == "nvme_multipath");
    let paths: Vec<usize> =
        joined.map(|node| node["below"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(paths, [2]);
    let hosts = look.result["snapshot"]["system"]["hosts"].as_array().expect("hosts");
    let controllers = hosts.iter().filter(|host| host["driver"] == "nvme");
    assert!(controllers.clone().all(|host| host["transport"] == "pcie"), "{hosts:#?}");
    assert_eq!(controllers.count(), 3);
}
