//! A family of tests that share one guest: the first test that runs boots it, all look at what came of its steps.

use fathom_testkit::{
    Capability, Guest, GuestJob, GuestReport, StepResult, Trial, fathom_binary, kernel_test,
};
use serde_json::Value;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// What a family needs besides the tools of its own.
const NEEDS: &[Capability] = &[
    Capability::Uml,
    Capability::Tool("busybox"),
    Capability::Tool("modprobe"),
    Capability::FathomBinary,
];

/// Shell functions for all families: results, a short measurement, identifiers of devices that are not asked of fathom,
/// and an attempt to overwrite a device, with a witness of its content.
const PRELUDE: &str = r#"
export FATHOM_DB=/run/store/fathom.db
json() { fathom --json --quiet "$@"; }
measure() { fathom --json run randread mnt size=16M duration=1s depth=8; }
show_last() { fathom show $(json list | grep -o '"id":"[a-z0-9]*' | head -1 | cut -c7-); }
wwn() { cat /sys/block/$1/device/wwid; }
dm() { dmsetup info -c --noheadings -o uuid $1; }
md() { mdadm --detail --export /dev/$1 | sed -n s/^MD_UUID=//p; }
attempt() {
    local device=$1 code=0
    shift
    dd if=$device of=/run/before bs=1M iflag=direct status=none
    fathom run randwrite $device duration=300ms "$@" || code=$?
    if dd if=$device bs=1M iflag=direct status=none | cmp - /run/before >&2; then
        echo UNCHANGED
    else
        echo CHANGED
    fi
    return $code
}
"#;

/// Guests run side by side, but for those that measure how fast something is: they have the machine to themselves.
static MACHINE: RwLock<()> = RwLock::new(());
/// No guest is given up before that: a job that hangs must end, a machine that is slow must not end it.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Runs a guest to its end and says where the time went.
pub fn run_guest(name: &str, job: GuestJob, is_alone: bool) -> Result<GuestReport, String> {
    let wait = || Guest::boot(job.limit_at_least(LIMIT)).and_then(Guest::wait);
    let report = if is_alone {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        wait()
    } else {
        let _with_others = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        wait()
    };
    let report = report.map_err(|error| error.to_string())?;
    println!("\nguest {name}: {}", report.times());
    Ok(report)
}

/// The tests so that guests run side by side: first one of each guest, in the order of `first` and then as they stand; it
/// boots the guest that the others look at.
pub fn in_order(first: &[&str], mut trials: Vec<Trial>) -> Vec<Trial> {
    let guest = |trial: &Trial| trial.name().split("::").next().unwrap_or_default().to_owned();
    trials.sort_by_key(|trial| {
        first.iter().position(|name| *name == guest(trial)).unwrap_or(first.len())
    });
    let mut known = Vec::new();
    let (boots, looks): (Vec<_>, Vec<_>) = trials.into_iter().partition(|trial| {
        let guest = guest(trial);
        let is_new = !known.contains(&guest);
        known.extend(is_new.then_some(guest));
        is_new
    });
    boots.into_iter().chain(looks).collect()
}

/// One guest and the tests on it.
pub struct Family {
    name: &'static str,
    needs: Vec<Capability>,
    shared: Arc<Shared>,
    trials: Vec<Trial>,
}

struct Shared {
    name: &'static str,
    job: fn(GuestJob) -> GuestJob,
    is_alone: AtomicBool,
    /// One for each attempt with all steps.
    reports: [OnceLock<Result<GuestReport, String>>; ATTEMPTS],
    /// Some test has already failed with the guest's error.
    is_told: AtomicBool,
}

/// How often a guest that judges speed is run before a failure counts: others on the host may take any time from it.
const ATTEMPTS: usize = 3;

impl Shared {
    fn job(&self) -> Result<GuestJob, String> {
        let binary = fathom_binary().map_err(|error| error.to_string())?;
        let tools = binary.parent().ok_or("the binary has no directory")?;
        Ok((self.job)(GuestJob::new(tools).prelude(PRELUDE)))
    }

    /// The first attempt is that of all tests; a test with steps of its own has the others for itself.
    fn attempt(
        &self,
        attempt: usize,
        steps: Option<&[&str]>,
    ) -> Result<Cow<'_, GuestReport>, String> {
        match steps.filter(|_| attempt > 1) {
            Some(steps) => run_guest(self.name, self.job()?.only(steps), true).map(Cow::Owned),
            None => self.report(attempt).map(Cow::Borrowed),
        }
    }

    /// Of all steps.
    fn report(&self, attempt: usize) -> Result<&GuestReport, String> {
        let is_alone = self.is_alone.load(Ordering::Relaxed);
        let boot = || run_guest(self.name, self.job()?, is_alone);
        self.reports[attempt - 1].get_or_init(boot).as_ref().map_err(|error| {
            let known = self.is_told.swap(true, Ordering::Relaxed);
            if known {
                "this family's guest failed, as said above".to_owned()
            } else {
                error.clone()
            }
        })
    }
}

impl Family {
    /// A family with the tools that its guest runs and with what the guest does.
    pub fn new(name: &'static str, tools: &[&'static str], job: fn(GuestJob) -> GuestJob) -> Self {
        let tools = tools.iter().map(|tool| Capability::Tool(tool));
        let needs = NEEDS.iter().copied().chain(tools).collect();
        let (is_alone, is_told) = (AtomicBool::new(false), AtomicBool::new(false));
        let reports = [const { OnceLock::new() }; ATTEMPTS];
        let shared = Arc::new(Shared { name, job, is_alone, reports, is_told });
        Self { name, needs, shared, trials: Vec::new() }
    }

    /// No other guest runs meanwhile: speed is judged. A test that fails is tried on further runs of the guest.
    pub fn alone(self) -> Self {
        self.shared.is_alone.store(true, Ordering::Relaxed);
        self
    }

    /// A test on what came of the steps.
    pub fn test(self, name: &str, body: impl Fn(&GuestReport) + Send + 'static) -> Self {
        self.add(name, None, body)
    }

    /// A test on what came of those steps, in a family that is alone: when it fails, it is tried on further runs of the guest
    /// with these steps and the setup alone.
    pub fn judge(
        self,
        name: &str,
        steps: &'static [&'static str],
        body: impl Fn(&GuestReport) + Send + 'static,
    ) -> Self {
        self.add(name, Some(steps), body)
    }

    fn add(
        mut self,
        name: &str,
        steps: Option<&'static [&'static str]>,
        body: impl Fn(&GuestReport) + Send + 'static,
    ) -> Self {
        let shared = Arc::clone(&self.shared);
        let body = move || -> Result<(), String> {
            if !shared.is_alone.load(Ordering::Relaxed) {
                return shared.report(1).map(&body);
            }
            for attempt in 1..ATTEMPTS {
                let report = shared.attempt(attempt, steps)?;
                if catch_unwind(AssertUnwindSafe(|| body(&report))).is_ok() {
                    return Ok(());
                }
                println!("guest {}: attempt {attempt} is not what was expected", shared.name);
            }
            shared.attempt(ATTEMPTS, steps).map(|report| body(&report))
        };
        self.trials.push(kernel_test(&format!("{}::{name}", self.name), &self.needs, body));
        self
    }

    pub fn into_trials(self) -> Vec<Trial> {
        self.trials
    }
}

/// The last line of a step with `--json`, which ended with the code: its result.
#[track_caller]
pub fn result(report: &GuestReport, step: &str, code: i32) -> Value {
    let step = ended(report, step, code);
    let line = step.stdout.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(line).expect(line);
    assert_eq!(value["type"], "result", "{line}");
    value
}

/// The step, which ended with the code.
#[track_caller]
pub fn ended<'a>(report: &'a GuestReport, step: &str, code: i32) -> &'a StepResult {
    let step = report.step(step);
    assert_eq!(step.code, Some(code), "{}: {}", step.name, step.said());
    step
}

/// The identifiers of the findings of a result.
pub fn findings(result: &Value) -> Vec<&str> {
    let all = result["findings"].as_array().expect("findings");
    all.iter().filter_map(|finding| finding["id"].as_str()).collect()
}

/// The text contains all the words.
#[track_caller]
pub fn contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "'{word}' is not in:\n{text}");
    }
}

/// The nodes of the stack under the first target, of one kind.
pub fn nodes<'a>(record: &'a Value, kind: &str) -> Vec<&'a Value> {
    let nodes = record["targets"][0]["stack"]["nodes"].as_array().expect("nodes");
    nodes.iter().filter(|node| node["kind"] == kind).collect()
}
