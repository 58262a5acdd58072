//! Control groups (version 2) for a run: limits that hold, groups that go, and nothing changed for anybody else.

use crate::family::{Family, contains, ended, findings, result, run_guest};
use fathom_testkit::Capability::{FathomBinary, Qemu, Tool};
use fathom_testkit::{GuestJob, GuestReport, Trial, fathom_binary, kernel_test};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    let needs = [Qemu, Tool("busybox"), Tool("modprobe"), FathomBinary];
    let mut trials = vec![kernel_test("cgroup_weights_and_numa_nodes", &needs, weights_and_nodes)];
    trials.extend(family());
    trials
}

fn family() -> Vec<Trial> {
    Family::new("cgroup", &["losetup", "mkfs.ext4", "sfdisk"], job)
        .alone()
        .test("limits_hold", limits_hold)
        .test("a_group_of_its_own", own_group)
        .test("nothing_is_enabled_for_others", refusals)
        .test("what_a_killed_run_left_is_removed", killed)
        .test("threads_have_no_limits_of_their_own", threads)
        .test("a_job_has_limits_of_its_own", jobs)
        .test("without_a_group_verification_knows_what_it_knew", still_verified)
        .into_trials()
}

/// `groups` lists all groups below the root and what they pass on.
const PRELUDE: &str = r#"
C=/sys/fs/cgroup
load_it() { json run randread "$@"; }
write_it() { fathom --quiet run randwrite /dev/loop0 --destroy=/tmp/img operations=500 "$@"; }
groups() {
    (cd $C; find . -mindepth 1 -type d | sort; for g in . a; do [ ! -d $g ] || echo "$g: $(cat $g/cgroup.subtree_control)"; done)
}
"#;

fn job(job: GuestJob) -> GuestJob {
    job.prelude(PRELUDE)
        .disk(3 << 30)
        .setup(
            "tree",
            "mount -t cgroup2 cgroup2 $C
             truncate -s 64M /tmp/img; load loop || :
             losetup /dev/loop0 /tmp/img",
        )
        .step("off", "load_it /dev/loop0 duration=1s cgroup_max=read_iops:100")
        .step("untouched", "groups")
        .setup("on", "echo +io >$C/cgroup.subtree_control")
        .step("free", "load_it /dev/loop0 duration=3s depth=4")
        // Half of what there is, and a fixed number of bytes.
        .step(
            "half",
            "rate=$(($(grep -o '\"count\":[0-9]*' /run/out/results/*-free.may.out | tail -1 | cut -d: -f2) / 6))
             echo $rate >&2
             load_it /dev/loop0 duration=3s depth=4 cgroup_max=read_iops:$rate",
        )
        // A limit that somebody else has set.
        .step(
            "deep",
            "mkdir $C/a; echo \"$(cat /sys/block/loop0/dev) riops=500\" >$C/a/io.max
             (echo $BASHPID >$C/a/cgroup.procs; exec fathom --json --quiet run randread /dev/loop0 duration=4s depth=32) || code=$?
             rmdir $C/a; exit ${code:-0}",
        )
        .step("bytes", "load_it /dev/loop0 duration=3s depth=4 block_size=64k cgroup_max=read_bytes:4M,write_bytes:1M")
        .step("shown", "show_last")
        .step("after", "groups")
        .step("weight", "fathom run randread /dev/loop0 operations=100 cgroup_weight=300")
        .step("weight_after", "groups; ls /run/store/owned")
        .setup("plan", "printf 'question = \"?\"\ntarget = \"/dev/loop0\"\n[[workload]]\nuse = \"randread\"\nduration = \"100ms\"\ncgroup_weight = 300\n[factors]\nblock.nr_requests = [32, 64]\n[design]\nblocks = 1\n[[objective]]\nmetric = \"iops\"\n' >weights.toml")
        .step("weight_plan", "fathom lab weights.toml --dry-run")
        .step("weight_lab", "fathom lab weights.toml")
        .step("weight_lab_after", "groups; cat /sys/block/loop0/queue/nr_requests")
        .step("memory", "load_it /tmp/img operations=100 direct=no cgroup_weight=300")
        .step("own", "mkdir $C/a; (echo $BASHPID >$C/a/cgroup.procs; exec fathom --json --quiet run randread /dev/loop0 operations=200 cgroup_max=read_iops:100)")
        .step("own_after", "groups")
        .step("shared", "(echo $BASHPID >$C/a/cgroup.procs; fathom run randread /dev/loop0 operations=100 cgroup_max=read_iops:100; exit $?)")
        .step("shared_after", "groups; rmdir $C/a")
        .step(
            "partition",
            "echo , | sfdisk -q /dev/ubda; wait_for /dev/ubda1
             mkfs.ext4 -q /dev/ubda1; mkdir mnt; mount /dev/ubda1 mnt
             json run randwrite mnt size=8M operations=100 direct=no sync_at_end=none cgroup_max=write_iops:1000",
        )
        .step(
            "threads",
            "mkdir -p $C/p/t; echo threaded >$C/p/t/cgroup.type
             cat $C/p/cgroup.type $C/p/t/cgroup.type; echo own: $(cat $C/p/t/cgroup.controllers)
             ls $C/p/io.max $C/p/t/io.max || :; rmdir $C/p/t $C/p",
        )
        // A group that cannot be had is found when all else is ready; what is known of the target stays.
        // One job is limited, the other is not; then two that are, in a group that is not to be changed for others.
        .setup("two", "printf 'name = \"two\"\n[[job]]\nname = \"a\"\nduration = \"3s\"\n[[job]]\nname = \"b\"\nduration = \"3s\"\n' >two.toml")
        .step("jobs", "json run two.toml /dev/loop0 a.cgroup_max=read_iops:100")
        .step("jobs_shown", "show_last")
        .step("jobs_after", "groups; ls /run/store/owned")
        .step(
            "jobs_own",
            "mkdir $C/a; (echo $BASHPID >$C/a/cgroup.procs
             exec fathom --json --quiet run two.toml /dev/loop0 a.cgroup_max=read_iops:100 b.cgroup_max=read_iops:300)",
        )
        .step("jobs_own_after", "groups; rmdir $C/a")
        .step("jobs_refused", "fathom run two.toml /dev/loop0 a.cgroup_max=read_iops:100 cursor=workload access=sequential")
        .step(
            "jobs_killed",
            "fathom run two.toml /dev/loop0 duration=10m a.cgroup_max=read_iops:100 b.cgroup_max=read_iops:300 & pid=$!
             for _ in {1..1200}; do ls -d $C/fathom-*-2 2>/dev/null && break; sleep 0.05; done
             sleep 0.5; kill -9 $pid; wait $pid || :; groups
             for _ in {1..200}; do [ -n \"$(cat $C/fathom-*/cgroup.procs)\" ] || break; sleep 0.05; done
             cat $C/fathom-*/cgroup.procs",
        )
        .step("jobs_next", "fathom run randread /dev/loop0 operations=100")
        .step("jobs_next_after", "groups")
        .step("verified", "write_it verify=after")
        .step("no_group", "write_it verify=after cgroup_weight=300")
        .step("no_group_crash", "write_it verify=crash fsync_every=4 cgroup_weight=300")
        .step("still_there", "json verify /dev/loop0; ls /run/store/verify | wc -l >&2")
        .step(
            "killed",
            "fathom run randread /dev/loop0 duration=10m cgroup_max=read_iops:100 & pid=$!
             for _ in {1..1200}; do ls -d $C/fathom-* 2>/dev/null && break; sleep 0.05; done
             sleep 0.5; kill -9 $pid; wait $pid || :; groups",
        )
        .step("next", "fathom run randread /dev/loop0 operations=100")
        .step("next_after", "groups")
}

fn reads_per_s(report: &GuestReport, step: &str) -> f64 {
    let code = report.step(step).code.unwrap_or(-1);
    assert!((0..=1).contains(&code), "{step}: {}", report.step(step).said());
    let record = &result(report, step, code)["records"][0];
    let count = record["jobs"][0]["classes"][0]["latency_ns"]["count"].as_f64().expect("a count");
    count / (record["window_ns"].as_f64().expect("a window") / 1e9)
}

/// Exit code of a run that a signal ended.
const INTERRUPTED: i32 = 130;

/// The group that a step ran in.
#[track_caller]
fn group(report: &GuestReport, step: &str) -> Value {
    let code = report.step(step).code.unwrap_or(-1);
    assert!([0, 1, INTERRUPTED].contains(&code), "{step}: {}", report.step(step).said());
    result(report, step, code)["records"][0]["control_group"].clone()
}

fn limits_hold(report: &GuestReport) {
    let free = reads_per_s(report, "free");
    let limit: f64 = report.step("half").stderr.trim().parse().expect("a rate");
    let half = reads_per_s(report, "half");
    // The kernel gives out its shares in slices of a tenth of a second and more.
    assert!(half <= limit * 1.15 && half >= limit * 0.6, "{half} of {limit}, free {free}");
    assert!(half < free * 0.7, "{half} of {free}");
    // Requests that the group holds back are not at the device.
    let deep = result(report, "deep", report.step("deep").code.expect("it ended"));
    assert!(findings(&deep).contains(&"waiting-above-device"), "{:?}", findings(&deep));
    let asked = result(report, "half", report.step("half").code.expect("it ended"));
    assert!(!findings(&asked).contains(&"waiting-above-device"), "{:?}", findings(&asked));
    assert_eq!(group(report, "free"), Value::Null);
    assert_eq!(group(report, "half")["max"][0][0], "loop0");
    assert_eq!(group(report, "half")["max"][0][1]["read_iops"].as_f64(), Some(limit));
    let bytes = reads_per_s(report, "bytes") * 65536.0 / f64::from(4 << 20);
    assert!((0.6..=1.15).contains(&bytes), "{bytes} of the limit");
    contains(&ended(report, "shown", 0).stdout, &["cgroup  all jobs: loop0 at most reads 4 MiB/s"]);
    assert_eq!(ended(report, "after", 0).stdout, ".: io\n", "no group is left");
    // Buffered writes leave the group with the page cache.
    let code = report.step("partition").code.expect("it ended");
    let written = result(report, "partition", code);
    assert!(findings(&written).contains(&"cgroup-writeback"), "{:?}", findings(&written));
    assert_eq!(written["records"][0]["control_group"]["max"][0][0], "ubda");
}

fn own_group(report: &GuestReport) {
    let rate = reads_per_s(report, "own");
    assert!(rate < 150.0, "{rate} reads/s at most 100");
    let path = group(report, "own")["path"].as_str().expect("a path").to_owned();
    assert!(path.starts_with("/sys/fs/cgroup/a/fathom-"), "{path}");
    assert_eq!(ended(report, "own_after", 0).stdout, "./a\n.: io\na: \n", "all is as before");
}

fn refusals(report: &GuestReport) {
    let off = ended(report, "off", 4).said();
    contains(&off, &["job 'read'", "io controller is not enabled", "echo +io >/sys/fs/cgroup/"]);
    assert_eq!(ended(report, "untouched", 0).stdout, ".: \n");
    contains(&ended(report, "memory", 2).said(), &["/tmp", "no block device", "cap_iops="]);
    // The kernel of User Mode Linux has no weights.
    let weight = ended(report, "weight", 4).said();
    contains(&weight, &["/sys/fs/cgroup/fathom-", "this kernel has weights", "bfq", "io.cost"]);
    assert_eq!(ended(report, "weight_after", 0).stdout, ".: io\n", "all is as before");
    // An experiment is refused before its first trial, and by its dry run.
    let plan = ended(report, "weight_plan", 4);
    contains(&plan.stdout, &["REFUSED", "job 'read'", "this kernel has weights", "not in io.cost"]);
    let lab = ended(report, "weight_lab", 4).said();
    contains(&lab, &["job 'read'", "this kernel has weights", "not in io.cost"]);
    assert!(!lab.contains("/sys/fs/cgroup/fathom-"), "no group was made for it: {lab}");
    assert!(ended(report, "weight_lab_after", 0).stdout.starts_with(".: io\n"), "all is as before");
    let shared = ended(report, "shared", 4).said();
    let words = ["/sys/fs/cgroup/a is not fathom's alone", "systemd-run --scope -p Delegate=io"];
    contains(&shared, &words);
    assert_eq!(ended(report, "shared_after", 0).stdout, "./a\n.: io\na: \n");
}

fn killed(report: &GuestReport) {
    let left = &ended(report, "killed", 0).stdout;
    assert!(left.lines().any(|line| line.starts_with("./fathom-")), "{left}");
    let next = report.step("next");
    assert!(next.code.is_some_and(|code| code < 2), "{}", next.said());
    contains(&next.stderr, &["/sys/fs/cgroup/fathom-", "removed, left behind by run"]);
    assert_eq!(ended(report, "next_after", 0).stdout, ".: io\n");
}

/// Why a job with limits of its own has a process of its own: the kernel has no io controller for groups of threads.
fn threads(report: &GuestReport) {
    let seen = ended(report, "threads", 0);
    assert!(seen.stdout.starts_with("domain threaded\nthreaded\nown:"), "{}", seen.said());
    let own = seen.stdout.lines().nth(2).unwrap_or_default();
    assert!(!own.split(' ').any(|controller| controller == "io"), "{own}");
    // The group of whole processes has the file, that of threads has none.
    let files: Vec<&str> = seen.stdout.lines().skip(3).collect();
    assert_eq!(files, ["/sys/fs/cgroup/p/io.max"], "{}", seen.said());
}

/// Jobs that ask for different things have groups and processes of their own.
fn jobs(report: &GuestReport) {
    let rates = |step: &str| -> Vec<(f64, Value)> {
        let code = report.step(step).code.unwrap_or(-1);
        assert!((0..=1).contains(&code), "{step}: {}", report.step(step).said());
        let record = &result(report, step, code)["records"][0];
        assert_eq!(record["control_group"], Value::Null, "{step}: none is shared");
        let jobs = record["jobs"].as_array().expect("jobs");
        let of = |job: &Value| {
            let count = job["classes"][0]["latency_ns"]["count"].as_f64().expect("a count");
            (
                count / (job["window_ns"].as_f64().expect("a window") / 1e9),
                job["control_group"].clone(),
            )
        };
        jobs.iter().map(of).collect()
    };
    let one = rates("jobs");
    assert!(one[0].0 > 50.0 && one[0].0 < 130.0, "{} reads/s at most 100", one[0].0);
    assert!(one[1].0 > one[0].0 * 1.5, "{} reads/s are not limited", one[1].0);
    assert_eq!((&one[0].1["max"][0][1]["read_iops"], &one[1].1), (&100.into(), &Value::Null));
    contains(&ended(report, "jobs_shown", 0).stdout, &["its own: loop0 at most 100 reads/s"]);
    assert_eq!(ended(report, "jobs_after", 0).stdout, ".: io\n", "no group is left");
    let both = rates("jobs_own");
    for (index, limit) in [(0, 100.0), (1, 300.0)] {
        let (rate, group) = &both[index];
        assert!(*rate > limit * 0.4 && *rate < limit * 1.3, "{rate} reads/s at most {limit}");
        let path = group["path"].as_str().expect("a path");
        assert!(path.starts_with("/sys/fs/cgroup/a/fathom-"), "{path}");
    }
    assert_eq!(ended(report, "jobs_own_after", 0).stdout, "./a\n.: io\na: \n", "all is as before");
    let refused = ended(report, "jobs_refused", 2).said();
    contains(&refused, &["job 'a'", "cgroup_max differs from that of job 'b'", "cursor=workload"]);
    let left = &ended(report, "jobs_killed", 0).stdout;
    assert_eq!(left.lines().filter(|line| line.starts_with("./fathom-")).count(), 2, "{left}");
    assert!(!left.lines().any(|line| line.parse::<u32>().is_ok()), "a process is left: {left}");
    let next = report.step("jobs_next");
    assert!(next.code.is_some_and(|code| code < 2), "{}", next.said());
    assert_eq!(ended(report, "jobs_next_after", 0).stdout, ".: io\n");
}

fn still_verified(report: &GuestReport) {
    let verified = report.step("verified");
    assert!(verified.code.is_some_and(|code| code < 2), "{}", verified.said());
    for step in ["no_group", "no_group_crash"] {
        contains(&ended(report, step, 4).said(), &["this kernel has weights"]);
    }
    let check = &result(report, "still_there", 0)["checks"][0];
    assert_eq!(check["verify"]["mismatches"], 0, "{check}");
    assert!(check["verify"]["checked_bytes"].as_u64() > Some(0), "{check}");
    assert_eq!(report.step("still_there").stderr.trim(), "1", "nothing else is known");
}

/// What needs the kernel of a distribution, or more than one node. `witness` prints what the kernel says while fathom
/// runs in the background, and then ends it: on a busy machine, looking may take longer than any time given to the run.
const QEMU_PRELUDE: &str = r#"
export FATHOM_DB=/run/store/fathom.db
C=/sys/fs/cgroup
load_it() { fathom --json --quiet run randread /dev/vda "$@"; }
witness() {
    local what=$1 code=0; shift
    fathom --json run randread /dev/vda duration=10m "$@" >result & pid=$!
    for _ in {1..1200}; do ! grep -q '"progress"' result || break; sleep 0.05; done
    eval "$what" >&2
    kill $pid
    wait $pid || code=$?
    cat result
    return $code
}
threads_on() { for task in /proc/$pid/task/*; do echo $(cat $task/comm) $(grep Cpus_allowed_list $task/status); done; }
"#;

fn qemu_job() -> GuestJob {
    let binary = fathom_binary().expect("asked for");
    GuestJob::new(binary.parent().expect("a directory"))
        .qemu()
        .two_nodes()
        .disk(64 << 20)
        .prelude(QEMU_PRELUDE)
        .setup(
            "tree",
            "load virtio_blk bfq; wait_for /dev/vda
             mount -t cgroup2 cgroup2 $C; echo +io >$C/cgroup.subtree_control
             echo none >/sys/block/vda/queue/scheduler",
        )
        .step("inert", "load_it operations=100 cgroup_weight=300")
        .step(
            "cost",
            "echo $(cat /sys/block/vda/dev) enable=1 >$C/io.cost.qos
             witness 'cat $C/fathom-*/io.weight' cgroup_weight=5000",
        )
        .step(
            "bfq",
            "echo $(cat /sys/block/vda/dev) enable=0 >$C/io.cost.qos
             echo bfq >/sys/block/vda/queue/scheduler
             witness 'cat $C/fathom-*/io.bfq.weight' cgroup_weight=300",
        )
        // Both ask for all that there is, of a scheduler that lets nothing through that is not due.
        .setup(
            "strict",
            "Q=/sys/block/vda/queue; echo 1 >$Q/rotational; echo 0 >$Q/iosched/low_latency
             echo 1 >$Q/iosched/strict_guarantees",
        )
        .setup("two", "printf 'name = \"two\"\n[[job]]\nname = \"a\"\nduration = \"10s\"\n[[job]]\nname = \"b\"\nduration = \"10s\"\n' >two.toml")
        .step("shares", "fathom --json --quiet run two.toml /dev/vda depth=32 block_size=64k a.cgroup_weight=900 b.cgroup_weight=100")
        .step("shares_turned", "fathom --json --quiet run two.toml /dev/vda depth=32 block_size=64k a.cgroup_weight=100 b.cgroup_weight=900")
        .step("heavy", "load_it operations=100 cgroup_weight=5000")
        .step("node", "witness 'threads_on; cat /proc/$pid/numa_maps' numa_node=1 threads=2 depth=64 block_size=64k")
        .step("apart", "load_it operations=100 numa_node=1 cpus=0")
        .step("no_node", "load_it operations=100 numa_node=2")
        .step("after", "ls -d $C/fathom-*")
}

fn weights_and_nodes() {
    let report = run_guest("cgroup_weights_and_numa_nodes", qemu_job(), false);
    let report = &report.unwrap_or_else(|error| panic!("{error}"));
    let has_note = |step: &str| {
        let code = report.step(step).code.expect("it ended");
        findings(&result(report, step, code)).contains(&"cgroup-weight-inert")
    };
    for (step, weight, is_inert) in
        [("inert", 300, true), ("cost", 5000, false), ("bfq", 300, false)]
    {
        assert_eq!(group(report, step)["weight"], weight, "{step}");
        assert_eq!(has_note(step), is_inert, "{step}");
    }
    contains(&report.step("cost").stderr, &["default 5000"]);
    contains(&report.step("bfq").stderr, &["300"]);
    for (step, heavier) in [("shares", 0), ("shares_turned", 1)] {
        let code = report.step(step).code.expect("it ended");
        assert!(code < 2, "{step}: {}", report.step(step).said());
        let jobs = &result(report, step, code)["records"][0]["jobs"];
        let count =
            |job: usize| jobs[job]["classes"][0]["latency_ns"]["count"].as_f64().expect("a count");
        let weights =
            [heavier, 1 - heavier].map(|job| jobs[job]["control_group"]["weight"].clone());
        assert_eq!(weights, [900, 100]);
        let ratio = count(heavier) / count(1 - heavier);
        assert!(ratio > 2.0, "{step}: the heavier job has {ratio} times as many");
    }
    let heavy = ended(report, "heavy", 2).said();
    contains(&heavy, &["cgroup_weight=5000", "bfq of vda takes 1000 at the most"]);
    assert_eq!(report.step("after").stdout, "", "groups are left");

    let limits = |step: &str| {
        let code = report.step(step).code.expect("it ended");
        result(report, step, code)["records"][0]["jobs"][0]["limits"].clone()
    };
    assert_eq!(
        (&limits("node")["numa_node"], &limits("apart")["numa_node"]),
        (&1.into(), &1.into())
    );
    let seen = &report.step("node").stderr;
    for worker in ["io-read-0", "io-read-1"] {
        contains(seen, &[&format!("{worker} Cpus_allowed_list: 1\n")]);
    }
    contains(seen, &["signals Cpus_allowed_list: 0-1\n"]);
    // Each thread's 64 buffers of 64 KiB are 1024 pages; all that is as large lies on the node. As a rule not one page is
    // elsewhere, but the kernel shows mappings that lie beside each other as one: the stack of a thread that is started after the
    // buffers of another are there may be in it, whose first pages (up to four) the starting thread has touched.
    let pages = |line: &str, node: &str| -> u64 {
        let word = line.split(' ').find_map(|word| word.strip_prefix(node));
        word.map_or(0, |count| count.parse().expect("a number"))
    };
    let large = seen.lines().filter(|line| pages(line, "anon=") >= 1024);
    let on_node = large.clone().map(|line| pages(line, "N1=")).sum::<u64>();
    let elsewhere = large.map(|line| pages(line, "N0=")).sum::<u64>();
    assert!(on_node >= 2048 && elsewhere < 16, "{on_node} pages on it, {elsewhere} not: {seen}");
    contains(
        &ended(report, "no_node", 4).said(),
        &["no such node", "this machine has the nodes 0, 1"],
    );
}
