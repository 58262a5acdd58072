//! The power is cut while a job writes: what it had been told is safe is there afterwards, and a disk that lied about it
//! is caught.

use crate::family::{contains, ended, result, run_guest};
use fathom_testkit::Capability::{FathomBinary, Qemu, Tool};
use fathom_testkit::{GuestJob, GuestReport, Trial, fathom_binary, kernel_test};

pub fn trials() -> Vec<Trial> {
    let needs = [Qemu, Tool("busybox"), Tool("modprobe"), Tool("mkfs.ext4"), FathomBinary];
    vec![kernel_test("verify_after_power_cuts", &needs, power_cuts)]
}

/// A job in the background until acknowledged writes have been noted for some seconds. The store lies on a disk of its own.
const PRELUDE: &str = r#"
export FATHOM_DB=/run/store/fathom.db
begin() {
    rm -rf store/verify
    fathom run "$@" verify=crash duration=10m >said 2>&1 &
    local n
    for n in $(seq 600); do
        [ -s "$(echo store/verify/*/0.marks)" ] && break
        sleep 0.1
    done
    sleep 4
    [ -s "$(echo store/verify/*/0.marks)" ] || { cat said >&2; return 1; }
}
"#;

const DRIVERS: &str = "load virtio_blk; wait_for /dev/vda /dev/vdb /dev/vdc /dev/vdd
mkdir -p store mnt";
const MOUNT: &str = "mount /dev/vda store; mount /dev/vdd mnt";

fn job() -> GuestJob {
    let binary = fathom_binary().expect("asked for");
    let tools = binary.parent().expect("a directory");
    let up_again = format!("{DRIVERS}\n{MOUNT}");
    GuestJob::new(tools)
        .qemu()
        .disk(256 << 20)
        .disk(64 << 20)
        .lying_disk(64 << 20)
        .disk(2 << 30)
        .prelude(PRELUDE)
        .setup("file_systems", &format!("{DRIVERS}\nmkfs.ext4 -q /dev/vda; mkfs.ext4 -q /dev/vdd\n{MOUNT}"))
        .step("commits", "begin commit /dev/vdb direct=yes --destroy=fathom-1")
        .power_cut("first")
        .setup("again", &up_again)
        .step("committed", "fathom --json verify /dev/vdb")
        .step("file", "begin randwrite mnt/data size=16M block_size=4k depth=4 threads=2 fsync_every=8 --keep")
        .power_cut("second")
        .setup("and_again", &up_again)
        .step("filed", "fathom --json verify mnt/data")
        .step("files", "mkdir mnt/tree
begin randwrite mnt/tree files=8 size=16M block_size=4k depth=4 threads=2 fsync_every=8 --keep")
        .power_cut("between")
        .setup("once_more", &up_again)
        .step("all_filed", "fathom --json verify mnt/tree")
        .step("lies", "begin commit /dev/vdc direct=yes --destroy=fathom-2")
        .power_cut("third")
        .setup("at_last", &up_again)
        .step("lied", "fathom --json verify /dev/vdc")
        .step("told", "fathom verify /dev/vdc")
}

/// Nothing that was acknowledged is missing.
#[track_caller]
fn is_all_there(report: &GuestReport, step: &str, at_least: u64) {
    let result = result(report, step, 0);
    let check = &result["checks"][0];
    let acknowledged = check["acknowledged_writes"].as_u64().expect("a number");
    println!("{step}: {acknowledged} acknowledged writes, {}", check["verify"]["checked_bytes"]);
    assert!(acknowledged >= at_least, "{check}");
    assert_eq!((&check["was_cut_off"], &check["verify"]["mismatches"]), (&true.into(), &0.into()));
}

fn power_cuts() {
    let report = run_guest("verify", job(), false).unwrap_or_else(|error| panic!("{error}"));
    for step in ["commits", "file", "files", "lies"] {
        ended(&report, step, 0);
    }
    is_all_there(&report, "committed", 20);
    is_all_there(&report, "filed", 20);
    is_all_there(&report, "all_filed", 20);
    // The disk that lied has lost everything, from the first block on.
    let lied = result(&report, "lied", 5);
    let check = &lied["checks"][0];
    let acknowledged = check["acknowledged_writes"].as_u64();
    assert!(acknowledged >= Some(20), "{check}");
    assert_eq!(check["verify"]["mismatches"].as_u64(), acknowledged);
    let first = &check["verify"]["first"][0];
    assert_eq!((&first["offset_bytes"], &first["kind"]), (&0.into(), &"zeros".into()));
    let told = &ended(&report, "told", 5).stdout;
    contains(told, &["cut off", "acknowledged", "WRONG", "offset 0, 4096 bytes", "zeros"]);
}
