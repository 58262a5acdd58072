//! `fathom lab`: swap and services are as the plan wants them while it measures, and as before afterwards.

use crate::cli::{Done, Sandbox, p};
use crate::filesystems::mounted;
use crate::lab::{plan, trials_of};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Swap, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{FsKind, LoopDevice, Trial, kernel_test};
use std::fs;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, FsOnLoop(FsKind::Ext4), Swap, Tool("dmesg")];
    vec![kernel_test("lab_swap_and_services", &needs, swap_and_services)]
}

/// Swap on a loop device is off during the experiment and on again, with its priority; the service is one of a systemctl of the
/// test's own (injected), that notes what it is asked.
fn swap_and_services() {
    let sandbox = Sandbox::new();
    let device = swap(&["-p", "7", "--discard=once"]);
    let flags = discards_of(&device);
    // To these the kernel gives priorities, by turns.
    let further = [swap(&[]), swap(&[])];
    let order_before = order_of(&further);
    let bin = sandbox.scratch.join("bin");
    fs::create_dir(&bin).unwrap();
    let log = sandbox.scratch.join("asked");
    let systemctl = bin.join("systemctl");
    let state = sandbox.scratch.join("stopped");
    let others = sandbox.scratch.join("others");
    fs::write(&others, "\n\nneeds-it.service\n\n").unwrap();
    write_systemctl(&systemctl, [&log, &state, &others]);
    // One that does not run.
    let idle = sandbox.scratch.join("stopped-idle.service");
    fs::write(&idle, "").unwrap();
    let seen = sandbox.scratch.join("seen");
    let text = format!(
        "target = '{}'\n[[workload]]\nlabel = 'look'\ncommand = 'cat /proc/swaps > {seen}; test -e {}'\n[design]\nblocks = 1\n\
         [prepare]\nsettle = '0s'\nquiet = '0s'\ndrop_caches = false\nswap_off = true\nstop_services = ['noisy.service', 'idle.service']\n\
         [[objective]]\nmetric = 'application'\n",
        p(&sandbox.dir()),
        p(&state),
        seen = p(&seen)
    );
    let file = plan(&sandbox, "swap", &text);
    let path = format!("{}:{}", p(&bin), std::env::var("PATH").unwrap());
    let run = |file: &Path| {
        crate::cli::run(|| {
            let mut command = sandbox.command(&["--json", "--quiet", "lab", p(file)]);
            command.env("PATH", &path);
            command
        })
    };
    unknown_unit([&others, &state, &log], &|| run(&file));
    // Another service would be stopped with it, and nobody would start it again.
    let refused = run(&file);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("would stop needs-it.service too"), "{refused:?}");
    assert!(
        !refused.stdout.contains("Switching swap on"),
        "before anything is changed: {refused:?}"
    );
    assert!(!fs::read_to_string(&log).unwrap().contains("stop"), "nothing was stopped");
    fs::write(&others, "\n").unwrap();
    let done = run(&file);
    assert!(done.stdout.contains("Switching swap on"), "{done:?}");
    assert_eq!(order_of(&further), order_before, "which of them is used first");
    let swaps = fs::read_to_string("/proc/swaps").unwrap();
    assert_eq!(discards_of(&device), flags, "as it was on before");
    for device in further.iter().chain([&device]) {
        let done = tool("swapoff").arg(device.path()).status().unwrap();
        assert!(done.success(), "it was on again: {swaps}");
    }
    assert!(done.code <= 1, "{done:?}");
    trials_of(&done.records());
    assert!(
        !fs::read_to_string(&seen).unwrap().contains(p(device.path())),
        "off while it was measured"
    );
    let own = swaps.lines().find(|line| line.contains(p(device.path()))).unwrap();
    assert!(own.trim_end().ends_with("\t7") || own.split_whitespace().last() == Some("7"), "{own}");
    let asked = fs::read_to_string(&log).unwrap();
    assert!(
        asked.contains("stop -- noisy.service") && asked.contains("start -- noisy.service"),
        "{asked}"
    );
    assert!(!state.exists(), "it runs again");
    assert!(!asked.contains("stop -- idle.service") && idle.exists(), "it did not run: {asked}");
    let look = format!("cat /proc/swaps > {}; test -e {}", p(&seen), p(&state));
    let plain = text.replace("swap_off = true\n", "").replace(&look, "LOOK");
    services_come_back(&sandbox, &run, &plain, [&state, &idle, &log]);
}

/// Runs a plan.
type Run<'a> = &'a dyn Fn(&Path) -> Done;

/// Services that run again when they should not, and those that must.
fn services_come_back(sandbox: &Sandbox, run: Run<'_>, text: &str, [state, idle, log]: [&Path; 3]) {
    started_meanwhile(sandbox, run, text, [("noisy", state), ("idle", idle)]);
    fs::write(idle, "").unwrap();
    waits_for_a_service(sandbox, run, text, idle);
    fs::write(idle, "").unwrap();
    stopped_again(sandbox, run, text, (idle, log));
    fs::write(idle, "").unwrap();
    killed_with_a_service(sandbox, run, text, (state, log));
    stopped_together(sandbox, run, text, [state, idle, log]);
}

/// Two come up in a trial, and one of them is stopped with the other before the next: both run at the end.
fn stopped_together(sandbox: &Sandbox, run: Run<'_>, text: &str, [state, idle, log]: [&Path; 3]) {
    let (flag, takes) =
        (sandbox.scratch.join("both-came-up"), sandbox.scratch.join("stopped-takes"));
    for file in [state, idle, &takes] {
        fs::write(file, "").unwrap();
    }
    fs::remove_file(log).unwrap();
    let both = format!("{} {}", p(state), p(idle));
    let command = format!("test -e {0} || {{ touch {0}; rm -f {both}; }}", p(&flag));
    let text = text.replace("LOOK", &command).replace("blocks = 1", "blocks = 2\nsentinel = false");
    let done = run(&plan(sandbox, "together", &text));
    assert_eq!(done.records().len(), 2, "{done:?}");
    let asked = fs::read_to_string(log).unwrap();
    for unit in ["noisy.service", "idle.service"] {
        assert!(asked.contains(&format!("start -- {unit}")), "{unit}: {asked}");
    }
    let first = asked.lines().find(|line| line.starts_with("stop"));
    assert_eq!(first, Some("stop -- noisy.service"), "{asked}");
    assert!(!state.exists() && !idle.exists(), "both run");
    fs::remove_file(&takes).unwrap();
}

/// One that notes what it is asked. A service does not run where the file of the state is there, for all but one with its name behind it.
fn write_systemctl(file: &Path, [log, state, others]: [&Path; 3]) {
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {log}\nfor unit; do :; done\nstate={state}\n[ $unit = noisy.service ] || state=$state-$unit\n\
         case $1 in stop) test -e $state-deaf || touch $state; test ! -e {state}-takes || touch {state}-idle.service;; start) rm $state;; show) case $2 in\n\
         *ActiveState) grep LoadState {others} || {{ test -e $state && echo ActiveState=inactive; }} || cat {state}-runs;;\n\
         *) cat {others};; esac;; esac\n",
        log = p(log),
        state = p(state),
        others = p(others)
    );
    fs::write(file, script).unwrap();
    fs::write(format!("{}-runs", p(state)), "ActiveState=active\n").unwrap();
    assert!(tool("chmod").arg("755").arg(file).status().unwrap().success());
}

/// A swap area that is on.
fn swap(options: &[&str]) -> LoopDevice {
    let device = LoopDevice::new(64 << 20).unwrap();
    assert!(tool("mkswap").arg(device.path()).output().unwrap().status.success());
    assert!(tool("swapon").args(options).arg(device.path()).status().unwrap().success());
    device
}

/// What the kernel discards of an area, by the flags in the newest line of its log about it.
fn discards_of(device: &LoopDevice) -> String {
    let log = tool("dmesg").output().unwrap();
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let name = format!(" swap on {}.  ", p(device.path()));
    let line = log.lines().rev().find(|line| line.contains(&name)).unwrap();
    let flags = line.rsplit("across:").next().unwrap().to_owned();
    let most = fs::read_to_string(format!("/sys/block/{}/queue/discard_max_bytes", device.name()));
    assert_eq!(flags.contains("Ds"), most.unwrap().trim() != "0", "{line}");
    flags
}

/// Which of them is used first.
fn order_of(devices: &[LoopDevice; 2]) -> std::cmp::Ordering {
    let swaps = fs::read_to_string("/proc/swaps").unwrap();
    let priority = |device: &LoopDevice| -> i32 {
        let own = swaps.lines().find(|line| line.starts_with(&format!("{} ", p(device.path()))));
        let word = own.and_then(|line| line.split_whitespace().last());
        word.unwrap_or_else(|| panic!("not on: {swaps}")).parse().unwrap()
    };
    priority(&devices[0]).cmp(&priority(&devices[1]))
}

/// Somebody starts a service in the middle of a trial, which then does not count: also one that did not run before.
fn started_meanwhile(sandbox: &Sandbox, run: Run<'_>, text: &str, services: [(&str, &Path); 2]) {
    for (name, state) in services {
        let text = text.replace("LOOK", &format!("rm -f {}", p(state)));
        let done = run(&plan(sandbox, name, &text));
        let void = done.records()[0]["cell"]["void"].to_string();
        assert!(void.contains(&format!("somebody started {name}.service")), "{void}: {done:?}");
        assert_eq!(done.code, 1, "{done:?}");
        assert!(!state.exists(), "it is left to whom has started it");
    }
}

/// While a service runs that somebody has started and that cannot be stopped, no further trial is measured.
fn waits_for_a_service(sandbox: &Sandbox, run: Run<'_>, text: &str, idle: &Path) {
    let deaf = sandbox.scratch.join("stopped-idle.service-deaf");
    fs::write(&deaf, "").unwrap();
    let fs = mounted(FsKind::Ext4, &[], "");
    let count = sandbox.scratch.join("count");
    let command = format!("rm -f {}; echo measured >> {}", p(idle), p(&count));
    let text = text
        .replace("LOOK", &command)
        .replace(p(&sandbox.dir()), p(fs.dir()))
        .replace("blocks = 1", "blocks = 2\nsentinel = false")
        .replace("quiet = '0s'", "quiet = '20ms'\nquiet_wait = '2s'");
    let done = run(&plan(sandbox, "waits", &text));
    let records = done.records();
    let voids: Vec<&str> = records.iter().filter_map(|r| r["cell"]["void"].as_str()).collect();
    assert_eq!(voids.len(), 2, "{done:?}");
    assert!(voids[0].starts_with("somebody started idle.service"), "{voids:?}");
    assert!(voids[1].starts_with("not quiet within 2"), "{voids:?}");
    assert!(voids[1].contains("somebody started idle.service"), "{voids:?}");
    assert_eq!(fs::read_to_string(&count).unwrap(), "measured\n", "once only: {done:?}");
    fs::remove_file(&deaf).unwrap();
}

/// What comes up in a trial makes that void, is stopped before the next one, and runs at the end: somebody wants it now. Here it is tried again
/// and again, which is no rest.
fn stopped_again(sandbox: &Sandbox, run: Run<'_>, text: &str, (idle, log): (&Path, &Path)) {
    let (flag, runs) = (sandbox.scratch.join("came-up"), sandbox.scratch.join("stopped-runs"));
    fs::write(&runs, "ActiveState=activating\n").unwrap();
    fs::remove_file(log).unwrap();
    let command = format!("test -e {0} || {{ touch {0}; rm -f {1}; }}", p(&flag), p(idle));
    let text = text.replace("LOOK", &command).replace("blocks = 1", "blocks = 2\nsentinel = false");
    let done = run(&plan(sandbox, "again", &text));
    let records = done.records();
    let voids: Vec<Option<&str>> = records.iter().map(|r| r["cell"]["void"].as_str()).collect();
    assert_eq!(voids.len(), 2, "{done:?}");
    assert!(voids[0].is_some_and(|why| why.starts_with("somebody started idle.service")));
    assert_eq!(voids[1], None, "{done:?}");
    assert!(done.stdout.contains("Stopping idle.service again"), "{done:?}");
    let asked = fs::read_to_string(log).unwrap();
    let acts = asked.lines().filter(|line| !line.starts_with("show") && line.contains("idle"));
    let acts: Vec<&str> = acts.collect();
    assert_eq!(acts, ["stop -- idle.service", "start -- idle.service"], "{asked}");
    assert!(!idle.exists(), "it runs, as somebody wanted");
    fs::write(&runs, "ActiveState=active\n").unwrap();
}

/// After kill -9 the service is started, and when the experiment goes on it is stopped for the rest, and started again.
fn killed_with_a_service(
    sandbox: &Sandbox,
    run: Run<'_>,
    text: &str,
    (state, log): (&Path, &Path),
) {
    let killed = sandbox.scratch.join("killed");
    let (flag, state_file) = (p(&killed), p(state));
    let command = format!(
        "test -e {flag} || {{ touch {flag}; kill -9 $PPID; sleep 60; }}; test -e {state_file}"
    );
    let file = plan(sandbox, "killed", &text.replace("LOOK", &command));
    fs::remove_file(log).unwrap();
    let died = run(&file);
    assert!(killed.exists() && died.code > 1, "{died:?}");
    assert!(state.exists(), "nobody has started it yet");
    let done = run(&file);
    assert!(done.code <= 1, "{done:?}");
    assert_eq!(trials_of(&done.records()).len(), 1, "it was stopped while it was measured");
    let asked = fs::read_to_string(log).unwrap();
    let acts: Vec<&str> = asked
        .lines()
        .filter(|line| line.ends_with("noisy.service"))
        .filter_map(|line| line.split(' ').next().filter(|act| matches!(*act, "stop" | "start")))
        .collect();
    assert_eq!(acts, ["stop", "start", "stop", "start"], "{asked}");
    assert!(!state.exists(), "it runs again");
}

/// A name that no unit has is no service that is stopped.
fn unknown_unit([show, stopped, log]: [&Path; 3], run: &dyn Fn() -> crate::cli::Done) {
    let before = fs::read(show).unwrap();
    fs::write(show, "LoadState=not-found\nActiveState=inactive\n").unwrap();
    fs::write(stopped, "").unwrap();
    let unknown = run();
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("noisy.service: there is no such unit"), "{unknown:?}");
    fs::remove_file(stopped).unwrap();
    fs::write(show, before).unwrap();
    fs::write(log, "").unwrap();
}
