//! Experiments on real arrays: every state as a level of a factor, a member that fails in the middle of a trial, kills.

use crate::family::{Family, contains, result};
use fathom_testkit::{GuestJob, GuestReport, Trial, counted, sample};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    Family::new("lab", &["mdadm", "blkid"], job)
        .test("states_of_an_array_are_levels", states)
        .test("a_member_that_fails_makes_the_trial_void", member)
        .test("kills_leave_no_array", kills)
        .test("ready_plans_of_arrays", ready)
        .into_trials()
}

/// What is left of arrays, loop devices and journals: nothing may be.
const LEFT: &str = r#"
destroy() { for disk in ubda ubdb ubdc; do echo --destroy=$disk:$(($(cat /sys/block/$disk/size) * 512)):$(cat /sys/block/$disk/diskseq); done; }
left() {
    grep ^md /proc/mdstat && return 1
    for disk in ubda ubdb ubdc; do blkid -p /dev/$disk && return 1; done
    ls /run/store/changes | grep . && return 1
    find /run/store -mindepth 1 -not -name 'fathom.db*' -not -name changes -not -name owned | grep . && return 1
    echo NOTHING LEFT
}
plan() {
    cat <<END
question = "What does the state of the array cost?"
[[workload]]
use = "randread"
depth = 4
duration = "$1"
warmup = "0s"
[setup]
devices = ["/dev/ubda", "/dev/ubdb", "/dev/ubdc"]
array.level = "raid5"
array.chunk = "64k"
array.bitmap = "none"
array.assume_clean = true
$2
[design]
blocks = 1
[prepare]
settle = "0s"
quiet = "0s"
drop_caches = false
[[objective]]
metric = "iops"
END
}
"#;

fn job(job: GuestJob) -> GuestJob {
    let kills = sample(8, 60);
    let job = (0..3).fold(job, |job, _| job.disk(48 << 20));
    job.setup("drivers", "load raid456; mkdir -p /run/store; echo 500 >/proc/sys/dev/raid/speed_limit_min; echo 1000 >/proc/sys/dev/raid/speed_limit_max")
        .setup("library", &format!("cat >/run/lib.sh <<'EOS'\n{LEFT}\nEOS"))
        .setup(
            "plans",
            ". /run/lib.sh
             plan 300ms '[factors]
array.state = [\"normal\", \"degraded\", \"rebuilding\", \"checking\"]' >/run/states.toml
             plan 20s '' >/run/member.toml
             plan 100ms '[knobs]
md.stripe_cache_size = 300' >/run/killed.toml",
        )
        .step("states", ". /run/lib.sh; fathom --json --quiet lab /run/states.toml $(destroy)")
        .step("after_states", ". /run/lib.sh; left")
        .step(
            "member",
            ". /run/lib.sh
             (for _ in {1..3000}; do
                  md=$(sed -n 's/^\\(md[0-9]*\\) : active.*/\\1/p' /proc/mdstat)
                  if [ -n \"$md\" ] && [ $(awk '{print $1}' /sys/block/$md/stat) -gt 200 ]; then
                      mdadm /dev/$md --fail /dev/$(ls /sys/block/$md/slaves | head -1); break
                  fi
                  sleep 0.1
              done) >&2 &
             fathom --json --quiet lab /run/member.toml $(destroy)",
        )
        .step("after_member", ". /run/lib.sh; left")
        .step(
            "ready",
            ". /run/lib.sh
             disks='--device /dev/ubda --device /dev/ubdb --device /dev/ubdc'
             fathom lab chunk $disks duration=100ms size=16MiB --print >/run/chunk.toml
             sed -i 's/^slice.start.*/slice.start = \"1MiB\"/; s/^blocks.*/blocks = 1\\nsentinel = false/' /run/chunk.toml
             printf '[prepare]\\nsettle = \"0s\"\\nquiet = \"0s\"\\n' >>/run/chunk.toml
             fathom lab /run/chunk.toml --dry-run $(destroy) >&2
             fathom --json --quiet lab /run/chunk.toml --skip chunk=16k --skip chunk=128k --skip chunk=256k --skip chunk=1m $(destroy)",
        )
        .step("after_ready", ". /run/lib.sh; left")
        .step(
            "kills",
            &format!(
                ". /run/lib.sh
                 set +e
                 FATHOM_FAULT=list:/run/points fathom --quiet lab /run/killed.toml $(destroy) >/dev/null 2>&1
                 all=$(wc -l </run/points); killed=0
                 for i in $(seq 1 {kills}); do
                     at=$((1 + (i - 1) * all / {kills}))
                     FATHOM_FAULT=kill:$at fathom --quiet lab /run/killed.toml --new $(destroy) >/dev/null 2>&1
                     [ $? -eq 137 ] && killed=$((killed + 1))
                     fathom restore >/run/restored 2>&1 || {{ cat /run/restored; exit 1; }}
                     left >/run/left || {{ echo \"killed at $at: $(sed -n ${{at}}p /run/points)\"; cat /run/left /run/restored; exit 1; }}
                 done
                 echo KILLED $killed"
            ),
        )
}

/// All levels of the trials, each with what its array lacked and did.
fn states(report: &GuestReport) {
    let result = result(report, "states", 1);
    let records = result["records"].as_array().expect("records");
    assert_eq!(records.len(), 4);
    for record in records {
        let cell = &record["cell"];
        assert!(cell["void"].is_null(), "{cell}");
        let level = cell["levels"][0][1].as_str().expect("a level");
        let nodes = record["targets"][0]["stack"]["nodes"].as_array().expect("nodes");
        let md = nodes
            .iter()
            .find_map(|node| node.get("md").filter(|md| md.is_object()))
            .expect("an array");
        let (lacks, action) = (md["degraded"].as_u64(), md["sync_action"].as_str());
        let expected = match level {
            "normal" => (Some(0), Some("idle")),
            "degraded" => (Some(1), Some("idle")),
            "rebuilding" => (Some(1), Some("recover")),
            "checking" => (Some(0), Some("check")),
            other => panic!("{other}"),
        };
        assert_eq!((lacks, action), expected, "{level}");
    }
    contains(&report.step("after_states").stdout, &["NOTHING LEFT"]);
}

fn member(report: &GuestReport) {
    let result = result(report, "member", 5);
    let records = result["records"].as_array().expect("records");
    let void = records[0]["cell"]["void"].as_str().expect("it is void");
    assert!(void.contains("lost a member"), "{void}");
    assert_eq!(result["ended"], Value::from("failed"));
    contains(&report.step("after_member").stdout, &["NOTHING LEFT"]);
}

/// The plan for chunk sizes as it comes, shortened: an array for each size, and every load on it.
fn ready(report: &GuestReport) {
    let result = result(report, "ready", 1);
    let records = result["records"].as_array().expect("records");
    assert_eq!(records.len(), 2 * 4, "two sizes, four loads");
    for record in records {
        let cell = &record["cell"];
        assert!(cell["void"].is_null(), "{cell}");
        let level = cell["levels"][0][1].as_str().expect("a size");
        let facts = cell["setup"].to_string();
        let chunk = format!("--chunk={}", level.trim_end_matches('k'));
        assert!(facts.contains(&chunk), "{chunk} in {facts}");
    }
    contains(&report.step("ready").stderr, &["chunk=16k", "--chunk=1024K", "DESTROYED"]);
    contains(&report.step("after_ready").stdout, &["NOTHING LEFT"]);
}

fn kills(report: &GuestReport) {
    let step = report.step("kills");
    assert_eq!(step.code, Some(0), "{}", step.said());
    let line = step.stdout.lines().find_map(|line| line.strip_prefix("KILLED "));
    let killed: usize = line.and_then(|count| count.parse().ok()).expect("a count");
    assert!(killed * 10 >= sample(8, 60) * 8, "{killed} kills");
    counted("kills of an experiment on a real array", killed);
}
