//! Memory that an experiment limits by a control group of version 2: `memory.max` holds for the load and its page cache, a kill for want of
//! memory makes the trial void, and no group is left.

use crate::family::{Family, contains, ended};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    Family::new("memory", &["mkfs.ext4"], job)
        .test("a_limit_bounds_the_page_cache_of_a_trial", limited)
        .test("a_kill_for_want_of_memory_makes_the_trial_void", starved)
        .test("what_a_killed_experiment_left_is_removed", killed)
        .test("a_controller_that_is_off_is_named", off)
        .into_trials()
}

/// The limit of all plans, in bytes.
const LIMIT: f64 = 100.0 * 1024.0 * 1024.0;

/// A file of 300 MiB is read and what is known of the group afterwards is printed.
const LOAD: &str = r#"
group=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)
dd if=file of=/dev/null bs=1M status=none
if [ -e "$group/memory.max" ]; then cat "$group/memory.max"; else echo max; fi | sed 's/max/-1/; s/^/max=/'
echo "cached=$(($(sed -n 's/^Cached: *\([0-9]*\) kB/\1/p' /proc/meminfo) * 1024))"
if [ -e "$group/memory.current" ]; then sed 's/^/used=/' "$group/memory.current"; else echo used=1; fi
"#;

const PLANS: &str = r#"
C=/sys/fs/cgroup
groups() { find $C -mindepth 1 -type d; cat $C/cgroup.procs | grep -c . >&2; }
plan() {
    cat <<END
question = "?"
target = "/run/mnt"
[[workload]]
command = "$1"
$2
[design]
blocks = 1
sentinel = false
[prepare]
settle = "0s"
quiet = "0s"
swap_off = false
$3
[[objective]]
metric = "application"
$4
END
}
"#;

fn job(job: GuestJob) -> GuestJob {
    let figures =
        ["max", "used", "cached"].map(|name| format!("figure.{name} = \"{name}={{}}\"\n")).concat();
    job.disk(400 << 20)
        .prelude(PLANS)
        .setup("load", &format!("cat >/run/load.sh <<'EOS'\n{LOAD}\nEOS"))
        .setup(
            "plans",
            &format!(
                "used='figure = \"used\"
better = \"more\"'
                 plan 'sh /run/load.sh' '{figures}' '' \"$used\" >/run/free.toml
                 plan 'sh /run/load.sh' '{figures}' 'memory_limit = \"100MiB\"' \"$used\" >/run/limited.toml
                 plan 'tail /dev/zero; echo x=1' 'figure.x = \"x={{}}\"' 'memory_limit = \"100MiB\"' >/run/starved.toml
                 plan 'touch /run/runs; sleep 600' '' 'memory_limit = \"100MiB\"' >/run/killed.toml"
            ),
        )
        .setup(
            "target",
            "mount -t cgroup2 cgroup2 $C
             mkfs.ext4 -q /dev/ubda; mkdir /run/mnt; mount /dev/ubda /run/mnt
             dd if=/dev/zero of=/run/mnt/file bs=1M count=300 status=none",
        )
        .step("off", "fathom lab /run/limited.toml")
        .setup("on", "echo +memory >$C/cgroup.subtree_control")
        .step("free", "json lab /run/free.toml")
        .step("limited", "json lab /run/limited.toml")
        .step("after_limited", "groups")
        .step("starved", "json lab /run/starved.toml")
        .step("after_starved", "groups")
        .step(
            "killed",
            "fathom lab /run/killed.toml & pid=$!
             wait_for /run/runs
             kill -9 $pid; wait $pid || :
             cat $C/fathom-memory-*/memory.max",
        )
        .step("restored", "fathom restore")
        .step("after_restored", "groups")
}

/// The figures of the only trial, by name.
#[track_caller]
fn figures(report: &GuestReport, step: &str) -> impl Fn(&str) -> f64 {
    let cell = cell(report, step);
    assert!(cell["void"].is_null(), "{step}: {cell:#}");
    move |name| cell["application"][name].as_f64().expect("a figure")
}

#[track_caller]
fn cell(report: &GuestReport, step: &str) -> Value {
    let lines = report.step(step).stdout.lines();
    let records = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut finished = records.filter(|line| line["type"] == "result");
    let result =
        finished.next_back().unwrap_or_else(|| panic!("{step}: {}", report.step(step).said()));
    result["records"][0]["cell"].clone()
}

fn limited(report: &GuestReport) {
    let (free, limited) = (figures(report, "free"), figures(report, "limited"));
    assert!(free("cached") > 2.5 * LIMIT, "without a limit: {}", free("cached"));
    assert_eq!(limited("max"), LIMIT);
    // What it holds beside the page cache counts too.
    assert!((0.5 * LIMIT..=LIMIT).contains(&limited("used")), "{}", limited("used"));
    assert!(limited("cached") < free("cached") - 1.5 * LIMIT, "{}", limited("cached"));
    assert_eq!(ended(report, "after_limited", 0).stdout, "", "a group is left");
}

fn starved(report: &GuestReport) {
    let cell = cell(report, "starved");
    contains(cell["void"].as_str().expect("void"), &["killed a process for want of memory"]);
    assert_eq!(ended(report, "after_starved", 0).stdout, "", "a group is left");
}

fn killed(report: &GuestReport) {
    assert_eq!(ended(report, "killed", 0).stdout.trim(), format!("{LIMIT}"));
    contains(&ended(report, "restored", 0).said(), &["fathom-memory-"]);
    assert_eq!(ended(report, "after_restored", 0).stdout, "", "a group is left");
}

fn off(report: &GuestReport) {
    let said = ended(report, "off", 4).said();
    contains(&said, &["memory_limit", "echo +memory > /sys/fs/cgroup/cgroup.subtree_control"]);
}
